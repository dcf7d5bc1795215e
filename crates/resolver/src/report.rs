//! Error reports (RFC 9567): their contents, and the names of the queries that carry them.

use avocet_dnssec::Reason;
use avocet_wire::{FoldedNameBuf, Rtype};

use crate::iterate::rrset::Name;

/// The first label of a report's name. The same label also comes before the agent's domain (RFC
/// 9567 §6.1).
const MARK: &[u8] = b"_er";

/// An error report.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Report {
    /// The QNAME of the question that failed.
    pub(crate) qname: Name,
    pub(crate) qtype: Rtype,
    /// The code of the extended error.
    pub(crate) ede: u16,
    /// The domain of the reporting agent.
    pub(crate) agent: FoldedNameBuf,
}

impl Report {
    /// Returns the name of the query that carries the report. Returns `None` if the name would be
    /// too long, or if the failed name is itself the name of a report.
    pub(crate) fn name(&self) -> Option<FoldedNameBuf> {
        if is_report(&self.qname) {
            return None;
        }
        let mut name = self.agent.prefixed(MARK).ok()?;
        name = name.prefixed(self.ede.to_string().as_bytes()).ok()?;
        let labels: Vec<&[u8]> =
            self.qname.view().labels().filter(|label| !label.is_empty()).collect();
        for label in labels.iter().rev() {
            name = name.prefixed(label).ok()?;
        }
        name = name.prefixed(self.qtype.0.to_string().as_bytes()).ok()?;
        name.prefixed(MARK).ok().map(|name| name.folded())
    }
}

fn is_report(qname: &Name) -> bool {
    qname.view().labels().next() == Some(MARK)
}

/// Returns whether the zone is at fault, so that its owners can correct the error.
pub(crate) fn is_of_zone(reason: Reason) -> bool {
    !matches!(
        reason,
        Reason::Limit(_) | Reason::NotAsked | Reason::Unreachable | Reason::NetworkError
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> FoldedNameBuf {
        FoldedNameBuf::from_wire(&avocet_testkit::name(text)).unwrap()
    }

    fn report(qname: &str, agent: &str) -> Option<String> {
        let report = Report {
            qname: name(qname).view().into(),
            qtype: Rtype::A,
            ede: 7,
            agent: name(agent),
        };
        report.name().map(|name| name.to_string())
    }

    /// The example of RFC 9567 §4.2.
    #[test]
    fn a_report_says_type_name_and_error_to_the_agent() {
        let expected = "_er.1.broken.test.7._er.a01.agent-domain.example.";
        assert_eq!(report("broken.test.", "a01.agent-domain.example.").as_deref(), Some(expected));
    }

    #[test]
    fn reports_are_not_reported_and_what_is_too_long_is_left_out() {
        assert_eq!(report("_er.1.broken.test.7._er.agent.example.", "agent.example."), None);
        let long = format!(
            "{}.",
            ["x".repeat(63), "x".repeat(63), "x".repeat(63), "x".repeat(50)].join(".")
        );
        assert_eq!(report(&long, "agent.example."), None);
    }
}
