//! The trace as rows for another database: tab-separated, one entry per line.

use std::io::{self, BufWriter, Write as _};

use avocet_querylog::Outcome;

use crate::trace::{Trace, shown};

/// Writes the first entries of the trace: time, type, status, name, client, upstream, list, delay.
pub(crate) fn write(entries: u64) -> io::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    let mut trace = Trace::begin();
    for _ in 0..entries {
        let entry = trace.next();
        let facts = &entry.facts;
        // Pi-hole's status is 1 for a name on a list, 2 for a forwarded query and 3 for an answer
        // from the cache. Its types are 1 for A, 2 for AAAA and 16 for HTTPS.
        let status = match (facts.outcome, facts.upstream) {
            (Outcome::Blocked, _) => 1,
            (_, 0) => 3,
            _ => 2,
        };
        let qtype = [(1, 1), (28, 2)].iter().find(|(own, _)| *own == facts.qtype);
        writeln!(
            out,
            "{:.6}\t{}\t{status}\t{}\t{}\t{}\t{}\t{:.6}",
            facts.time_us as f64 / 1e6,
            qtype.map_or(16, |(_, theirs)| *theirs),
            shown(entry.qname).trim_end_matches('.'),
            facts.client,
            facts.upstream,
            facts.rule,
            f64::from(facts.response_delay_us) / 1e6,
        )?;
    }
    out.flush()
}
