//! A list, in words, of the checks that a run made and those that it did not make. It prevents
//! readers from taking a missing check for a passed one.

use crate::args::{LoadArgs, Scenario};
use crate::check::judge::Source;
use crate::check::{Depth, Deviation};
use crate::drive::{Carrier, Flow};

/// The checks that a run makes.
pub(crate) struct Checks<'a> {
    pub(crate) depth: Depth,
    args: &'a LoadArgs,
    records: Option<&'static str>,
}

impl<'a> Checks<'a> {
    pub(crate) fn of(flows: &[Flow], args: &'a LoadArgs) -> Self {
        let first = flows.first().map(|flow| &flow.judge);
        let records = first.and_then(|judge| match judge.source {
            Source::Zone(_) => Some("the records of the answer section, with the zone file"),
            Source::Reference(_) => {
                Some("the records of the answer section of listed names, with the reference")
            }
            _ => None,
        });
        let depth = first.map_or(Depth::Question, |judge| judge.depth);
        Self { depth, args, records: records.filter(|_| depth == Depth::Answer) }
    }

    pub(crate) fn checked(&self) -> Vec<String> {
        let mut texts = vec!["ID"];
        if self.depth > Depth::Id {
            texts.extend(["question", "RCODE", "form of every record", "class"]);
            let limit = (self.args.transport == Carrier::Udp
                && self.args.scenario != Scenario::Replay)
                .then_some("length over UDP");
            texts.extend(limit);
        }
        texts.extend(self.records);
        if self.args.scenario == Scenario::Blocked {
            texts.push("no address but null addresses");
        }
        texts.into_iter().map(str::to_owned).collect()
    }

    pub(crate) fn unchecked(&self) -> Vec<String> {
        let mut texts = Vec::new();
        if self.depth == Depth::Id {
            texts.extend(["question", "RCODE", "form"].map(str::to_owned));
        }
        if self.records.is_none() {
            texts.push("records (that takes --zone-file or --reference)".to_owned());
        }
        texts.push("TTLs, signatures, letter case, authority and additional records".to_owned());
        let allowed = Deviation::ALL.into_iter().filter(|one| self.args.allow.contains(one));
        texts.extend(allowed.map(|one| format!("{one:?} answers").to_lowercase()));
        texts
    }
}
