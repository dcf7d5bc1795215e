//! Conditions: lasting defects of the server's environment, such as a kernel table that it cannot
//! read. A condition is logged once when it begins and once when it ends. While it lasts, the
//! status, `/health` and the metrics report it.
//!
//! The text of a condition may quote files, other servers and the configuration: it is only for
//! those who may read the state of the server. `/health` and `/ready` show [`Condition::meaning`].

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

/// A kind of defect.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Condition {
    /// No name can be resolved.
    Resolution,
    /// The address of an upstream that is configured by name is not known.
    Upstreams,
    /// No encrypted server is found for an upstream with `discover`.
    Discovery,
    /// The kernel's table of neighbours cannot be read, and the policy identifies clients by MAC
    /// address.
    Neighbours,
    /// The file of leases cannot be read.
    Leases,
    /// The addresses of the host cannot be read, and `allow` contains `local`.
    Interfaces,
    /// The server listens on all IPv6 addresses, and refuses clients of the host's own IPv6
    /// networks.
    Allow,
    /// The configuration file is missing.
    Configuration,
    /// A certificate of HTTPS or of encrypted DNS cannot be used.
    Certificate,
    /// A certificate has expired, or expires soon.
    Expiry,
    /// The certificate of `[acme]` cannot be obtained or renewed.
    Acme,
    /// The authority of `[home-ca]` cannot be used, or it expires within a year.
    HomeCa,
    /// The keys for oblivious queries cannot be kept, or this program cannot use them.
    Odoh,
    /// The disk cannot be written, so that changes by commands or the state of trust anchors are
    /// not saved.
    State,
    /// A backup waits for the next start, which replaces the state.
    Restore,
    /// The file of users and tokens cannot be read, so that no user can log in.
    Access,
    /// A panic interrupted the maintenance of lists, or the changed lists cannot be put in force.
    Lists,
    /// A panic interrupted the thread of the query log.
    QueryLog,
    /// The files of the query log cannot be written.
    QueryLogFiles,
    /// The files of the query log cannot be sealed, merged or deleted.
    QueryLogUpkeep,
    /// A panic interrupted the thread of dnstap.
    Dnstap,
    /// The receiver of dnstap messages cannot be reached.
    DnstapReceiver,
    /// A panic interrupted the export of traces.
    Otlp,
    /// The collector of traces cannot be reached, or refuses the traces.
    OtlpCollector,
    /// The file of a hosted zone has errors.
    Zones,
    /// No primary of a zone is usable, or the URL of a zone is not usable.
    Primaries,
    /// A database with zones sends no notifications.
    Databases,
    /// A catalog is broken, or a member of a catalog is refused.
    Catalogs,
    /// A pool has no healthy address, or cannot be probed.
    Pools,
    /// The parent of a zone does not publish the DS record of a new key.
    Signing,
    /// A panic ended a background thread.
    Threads,
}

/// All kinds, in display order.
const ALL: [Condition; 31] = [
    Condition::Resolution,
    Condition::Upstreams,
    Condition::Discovery,
    Condition::Neighbours,
    Condition::Leases,
    Condition::Interfaces,
    Condition::Allow,
    Condition::Configuration,
    Condition::Certificate,
    Condition::Expiry,
    Condition::Acme,
    Condition::HomeCa,
    Condition::Odoh,
    Condition::State,
    Condition::Restore,
    Condition::Access,
    Condition::Lists,
    Condition::QueryLog,
    Condition::QueryLogFiles,
    Condition::QueryLogUpkeep,
    Condition::Dnstap,
    Condition::DnstapReceiver,
    Condition::Otlp,
    Condition::OtlpCollector,
    Condition::Zones,
    Condition::Primaries,
    Condition::Databases,
    Condition::Catalogs,
    Condition::Pools,
    Condition::Signing,
    Condition::Threads,
];

impl Condition {
    /// Returns the name in metrics and on the control socket.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Resolution => "resolution",
            Self::Upstreams => "upstreams",
            Self::Discovery => "upstream-discovery",
            Self::Neighbours => "neighbours",
            Self::Leases => "leases",
            Self::Interfaces => "interfaces",
            Self::Allow => "allow",
            Self::Configuration => "configuration",
            Self::Certificate => "certificate",
            Self::Expiry => "certificate-expiry",
            Self::Acme => "certificate-renewal",
            Self::HomeCa => "home-ca",
            Self::Odoh => "odoh",
            Self::State => "state",
            Self::Restore => "restore",
            Self::Access => "access",
            Self::Lists => "lists",
            Self::QueryLog => "query-log",
            Self::QueryLogFiles => "query-log-files",
            Self::QueryLogUpkeep => "query-log-upkeep",
            Self::Dnstap => "dnstap",
            Self::DnstapReceiver => "dnstap-receiver",
            Self::Otlp => "otlp",
            Self::OtlpCollector => "otlp-collector",
            Self::Zones => "zones",
            Self::Primaries => "primaries",
            Self::Databases => "databases",
            Self::Catalogs => "catalogs",
            Self::Pools => "pools",
            Self::Signing => "signing",
            Self::Threads => "threads",
        }
    }

    /// Returns what the condition means, for clients that are not logged in.
    pub(crate) fn meaning(self) -> &'static str {
        match self {
            Self::Resolution => "the server cannot resolve any name",
            Self::Upstreams => "the address of an upstream is not known",
            Self::Discovery => "no encrypted server is found for an upstream",
            Self::Neighbours => "the kernel's table of neighbours cannot be read",
            Self::Leases => "the file of leases cannot be read",
            Self::Interfaces => "the addresses of the host cannot be read",
            Self::Allow => "clients of the host's own IPv6 networks are refused",
            Self::Configuration => "the configuration file is missing or cannot be written",
            Self::Certificate => "a certificate cannot be used",
            Self::Expiry => "a certificate has expired or expires soon",
            Self::Acme => "a certificate cannot be obtained or renewed",
            Self::HomeCa => "the authority of [home-ca] cannot be used or ends soon",
            Self::Odoh => "the keys for oblivious queries cannot be kept",
            Self::State => "changes cannot be saved",
            Self::Restore => "a backup waits for the next start",
            Self::Access => "the file of users and tokens cannot be read",
            Self::Lists => "some lists cannot be put in force",
            Self::QueryLog => "the query log was interrupted",
            Self::QueryLogFiles => "the query log cannot be written",
            Self::QueryLogUpkeep => "the files of the query log cannot be maintained",
            Self::Dnstap => "the output of dnstap was interrupted",
            Self::DnstapReceiver => "the receiver of dnstap messages cannot be reached",
            Self::Otlp => "the export of traces was interrupted",
            Self::OtlpCollector => "the collector of traces cannot be used",
            Self::Zones => "a hosted zone has errors",
            Self::Primaries => "a source of a zone cannot be used",
            Self::Databases => "a database with zones sends no notifications",
            Self::Catalogs => "a catalog has errors",
            Self::Pools => "a pool has no healthy address or cannot be probed",
            Self::Signing => "the parent of a signed zone has the wrong DS records",
            Self::Threads => "a background thread has ended",
        }
    }
}

/// The present conditions: one sentence for each, with its cause and remedy.
#[derive(Default)]
pub(crate) struct Conditions {
    current: Mutex<BTreeMap<Condition, String>>,
}

impl Conditions {
    /// Sets a condition, or clears it with `None`. A change is logged, except for a change of the
    /// text alone.
    pub(crate) fn set(&self, condition: Condition, text: Option<String>) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        match text {
            Some(text) => {
                if !current.contains_key(&condition) {
                    tracing::warn!("{text}");
                }
                current.insert(condition, text);
            }
            None => {
                if current.remove(&condition).is_some() {
                    tracing::info!(condition = condition.name(), "condition resolved");
                }
            }
        }
    }

    /// Runs work in which a panic does not end the thread. A panic sets `condition` with this text
    /// until the work succeeds. The work must not leave shared state inconsistent.
    pub(crate) fn contain<T>(
        &self,
        condition: Condition,
        text: &str,
        work: impl FnOnce() -> T,
    ) -> Option<T> {
        let done = catch_unwind(AssertUnwindSafe(work)).ok();
        self.set(condition, done.is_none().then(|| text.to_owned()));
        done
    }

    /// Runs work as [`Self::contain`] does. Without a panic, sets `condition` with the text that
    /// the work returns. Returns whether the work ended without a panic.
    pub(crate) fn contain_and_report(
        &self,
        condition: Condition,
        text: &str,
        work: impl FnOnce() -> Option<String>,
    ) -> bool {
        let done = catch_unwind(AssertUnwindSafe(work)).ok();
        let is_done = done.is_some();
        self.set(condition, done.unwrap_or_else(|| Some(text.to_owned())));
        is_done
    }

    /// Returns whether a condition is present.
    pub(crate) fn holds(&self, condition: Condition) -> bool {
        self.text(condition).is_some()
    }

    /// Returns the text of a condition, if it is present.
    pub(crate) fn text(&self, condition: Condition) -> Option<String> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).get(&condition).cloned()
    }

    /// Returns all present conditions, with their texts.
    pub(crate) fn all(&self) -> BTreeMap<Condition, String> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns every kind of condition, and whether it is present.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = (Condition, bool)> {
        let current = self.all();
        ALL.into_iter().map(move |condition| (condition, current.contains_key(&condition)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_holds_from_the_first_report_until_it_is_withdrawn() {
        let conditions = Conditions::default();
        conditions.set(Condition::Leases, None);
        assert!(conditions.all().is_empty());
        conditions.set(Condition::Leases, Some("first".to_owned()));
        conditions.set(Condition::Leases, Some("second".to_owned()));
        assert_eq!(conditions.text(Condition::Leases).as_deref(), Some("second"));
        assert_eq!(conditions.kinds().filter(|(_, holds)| *holds).count(), 1);
        conditions.set(Condition::Leases, None);
        assert!(conditions.all().is_empty());
    }

    #[test]
    fn a_fault_is_a_condition_until_the_work_succeeds() {
        let conditions = Conditions::default();
        let work =
            |fails: usize| conditions.contain(Condition::Lists, "a fault", || assert_eq!(fails, 0));
        assert!(
            work(1).is_none() && conditions.text(Condition::Lists).as_deref() == Some("a fault")
        );
        assert!(work(0).is_some() && conditions.text(Condition::Lists).is_none());
    }

    #[test]
    fn every_kind_is_listed_once() {
        assert!(ALL.is_sorted() && ALL.windows(2).all(|pair| pair[0].name() != pair[1].name()));
        assert!(ALL.windows(2).all(|pair| pair[0].meaning() != pair[1].meaning()));
    }
}
