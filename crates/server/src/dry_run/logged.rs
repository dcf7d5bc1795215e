//! The queries of the query log.
//!
//! Equal queries are evaluated once. If a rule of either configuration tests the time, queries of
//! different minutes are not equal.

use std::net::IpAddr;
use std::ops::ControlFlow;

use avocet_config::name::typed_name;
use avocet_nameserver::query::asked::Transport;
use avocet_querylog::column::Text;
use avocet_querylog::{EqualEntries, Filter, LogReader, Outcome, Tallied, TallyBy, TallyTimes};
use avocet_wire::{FoldedNameBuf, Rtype, rdata};

use super::report::DryRunReport;
use super::side::{PastQuery, Sides};

/// The columns that are the same in equal queries.
const COLUMNS: [Text; 8] = [
    Text::Qname,
    Text::Qtype,
    Text::Client,
    Text::Transport,
    Text::Listener,
    Text::Outcome,
    Text::Answer,
    Text::Qclass,
];

/// The logged queries that a dry run evaluates.
pub struct LoggedQueries<'l> {
    /// The files.
    pub reader: &'l LogReader,
    /// The filter that selects the entries.
    pub filter: &'l Filter,
}

/// Evaluates logged queries, the newest first, until `go_on` breaks. `go_on` gets the number of
/// entries so far.
pub fn judge_log(
    log: &LoggedQueries<'_>,
    report: &mut DryRunReport,
    sides: &mut Sides,
    mut go_on: impl FnMut(u64) -> ControlFlow<()>,
) -> Tallied {
    let times = if sides.goes_by_time() { TallyTimes::ByMinute } else { TallyTimes::Any };
    let mut entries = 0;
    let mut flow = ControlFlow::Continue(());
    log.reader.tally(log.filter, TallyBy { texts: &COLUMNS, times }, |step| {
        if let Some(equal) = step {
            match past_query(equal) {
                Some(query) => report.judge(&query, sides),
                None => report.left_out += equal.entries,
            }
            entries += equal.entries;
        }
        if flow.is_continue() {
            flow = go_on(entries);
        }
        flow
    })
}

/// Returns the question of a group of entries; `None` if the policy does not apply to it.
fn past_query<'e>(equal: &'e EqualEntries<'_>) -> Option<PastQuery<'e>> {
    let [name, qtype, client, transport, listener, outcome, answer, class] =
        std::array::from_fn(|place| equal.text(place));
    if name.is_empty() || class != "IN" {
        return None;
    }
    // With other outcomes, this server made the logged answer itself, so the answer of the upstream
    // is not known.
    let is_known = outcome == Outcome::Answered.name();
    let words = || answer.split_whitespace().filter(|_| is_known);
    let alias = words().find(|word| word.parse::<IpAddr>().is_err());
    Some(PastQuery {
        client: client.parse().ok()?,
        name: folded(name)?,
        rtype: rdata::from_mnemonic(qtype).map(Rtype)?,
        transport: Transport::ALL
            .into_iter()
            .find(|one| one.name() == transport)
            .unwrap_or(Transport::Udp),
        listener,
        at_secs: equal.minute_secs,
        alias: alias.and_then(folded),
        addresses: words().filter_map(|word| word.parse().ok()).collect(),
        answer: None,
        queries: equal.entries,
    })
}

fn folded(name: &str) -> Option<FoldedNameBuf> {
    FoldedNameBuf::from_wire(&typed_name(name).ok()?).ok()
}
