//! The table of all requests, and the trait that answers them.
//!
//! A front end decodes a request, calls [`Control`], and encodes the reply. The reply of a request
//! is an associated type of [`Call`], so that no end confuses it with that of another request.

use std::io::{self, Write};

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::access::{
    TokenCreate, TokenCreated, TokenList, TokenRevoke, TokenRevoked, TokensReport, UserAdd,
    UserChange, UserList, UserRemove, UserRemoved, UserReport, UsersReport,
};
use crate::access_request::{
    RequestGrant, RequestList, RequestRefuse, RequestRefused, RequestsReport,
};
use crate::backup::{
    BackedUp, Backup, BackupLine, Restore, RestoreCancel, RestoreStaged, WaitingRestore,
};
use crate::cache::{CacheEntry, CacheStats, Dumped, Flushed};
use crate::certificates::{CertificateList, CertificateRenew, CertificatesReport};
use crate::clients::{LogClients, LoggedClients};
use crate::connect::{Connect, ConnectDocument, ConnectFile, ConnectReport};
use crate::dry_run::{DryRunFound, PolicyDryRun};
use crate::error::{ControlError, ErrorCode};
use crate::line;
use crate::lists::{AtWork, ListReport, ListsReport, Refreshed};
use crate::load::ServerLoad;
use crate::log::{
    LogCount, LogCounted, LogEntry, LogFound, LogLine, LogPage, LogPrune, LogPruned, LogSearch,
    LogShow, LogTail,
};
use crate::part::{Disconnected, NoPart, Part, Parts};
use crate::policy::{PolicyStatus, SwitchesChanged};
use crate::pools::{PoolAnswers, PoolControl, PoolsReport, PoolsStatus, PoolsWhatIf};
use crate::reload::Reloaded;
use crate::request::{
    Anchors, Dump, Flush, FlushTree, Grant, ListsCheck, ListsRefresh, ListsStatus, Load, Lookup,
    NtaAdd, NtaList, NtaRemove, Pause, Reload, Stats, Status, Switches, Trace, Why,
};
use crate::revisions::{
    CheckedChange, ConfigChange, ConfigCheck, ConfigConfirm, ConfigDiff, ConfigHistory,
    ConfigRollback, ConfigShow, ConfigText, RevisionAccepted, RevisionConfirmed,
    RevisionDifference, RevisionText, Revisions, ShownConfig,
};
use crate::session::{SessionEnd, SessionEnded, SessionList, SessionsReport};
use crate::statistics::{LogOverview, LogSeries, LogStatistics, LogSteps};
use crate::status::ServerStatus;
use crate::trust::{AnchorsReport, NegativeAdded, NegativeAnchors, NegativeRemoved};
use crate::why::{CacheLook, Explained, WhySection};
use crate::zone_edit::{ZoneChanges, ZoneEdit, ZoneEdited, ZoneHistory};
use crate::zone_keys::{ZoneKeys, ZoneKeysReport, ZoneSign};
use crate::zones::{
    ZoneExport, ZoneExported, ZonePage, ZoneRecords, ZoneReload, ZoneText, ZonesReport, ZonesStatus,
};

/// The operations of the running server, one for each request. Each call blocks until its reply is
/// complete: up to 12 seconds for a trace, longer for a refresh of lists. Several threads may make
/// calls at the same time.
pub trait Control {
    /// Returns the counts of the caches.
    fn stats(&self, request: Stats) -> Result<CacheStats, ControlError>;

    /// Reports each entry of the caches.
    fn dump(&self, request: Dump, entries: Parts<'_, CacheEntry>) -> Result<Dumped, ControlError>;

    /// Returns the cached data of a name.
    fn lookup(&self, request: Lookup) -> Result<CacheLook, ControlError>;

    /// Removes a name from the caches.
    fn flush(&self, request: Flush) -> Result<Flushed, ControlError>;

    /// Removes a name and all names below it from the caches.
    fn flush_tree(&self, request: FlushTree) -> Result<Flushed, ControlError>;

    /// Returns the state of the server.
    fn status(&self, request: Status) -> Result<ServerStatus, ControlError>;

    /// Returns the load of the workers, the caches and the query log.
    fn load(&self, request: Load) -> Result<ServerLoad, ControlError>;

    /// Returns the state of the lists.
    fn lists_status(&self, request: ListsStatus) -> Result<ListsReport, ControlError>;

    /// Fetches lists and puts them in force. Reports every few seconds that it is still at work.
    fn lists_refresh(
        &self,
        request: ListsRefresh,
        waiting: Parts<'_, AtWork>,
    ) -> Result<Refreshed, ControlError>;

    /// Returns the broken lines of a list.
    fn lists_check(&self, request: ListsCheck) -> Result<ListReport, ControlError>;

    /// Begins or ends a pause of filtering.
    fn pause(&self, request: Pause) -> Result<SwitchesChanged, ControlError>;

    /// Begins or ends a grant, which suspends filtering of one name.
    fn grant(&self, request: Grant) -> Result<SwitchesChanged, ControlError>;

    /// Returns the pauses and grants in force, and the counts of rules and lists.
    fn switches(&self, request: Switches) -> Result<PolicyStatus, ControlError>;

    /// Returns the requests for access from the block page.
    fn request_list(&self, request: RequestList) -> Result<RequestsReport, ControlError>;

    /// Allows a name for the client that asked for it.
    fn request_grant(&self, request: RequestGrant) -> Result<SwitchesChanged, ControlError>;

    /// Refuses a request for access.
    fn request_refuse(&self, request: RequestRefuse) -> Result<RequestRefused, ControlError>;

    /// Compares the configuration in force with a proposed one, over logged queries. Reports every
    /// few seconds that it is still at work.
    fn policy_dry_run(
        &self,
        request: PolicyDryRun,
        waiting: Parts<'_, AtWork>,
    ) -> Result<DryRunFound, ControlError>;

    /// Resolves a question again and reports each step.
    fn trace(
        &self,
        request: Trace,
        sections: Parts<'_, WhySection>,
    ) -> Result<Explained, ControlError>;

    /// Reports the answer that a client gets, and the reason.
    fn why(&self, request: Why, sections: Parts<'_, WhySection>)
    -> Result<Explained, ControlError>;

    /// Returns the trust anchors and the copy of the root zone.
    fn anchors(&self, request: Anchors) -> Result<AnchorsReport, ControlError>;

    /// Returns all negative trust anchors.
    fn nta_list(&self, request: NtaList) -> Result<NegativeAnchors, ControlError>;

    /// Suspends validation below a name.
    fn nta_add(&self, request: NtaAdd) -> Result<NegativeAdded, ControlError>;

    /// Validates below a name again.
    fn nta_remove(&self, request: NtaRemove) -> Result<NegativeRemoved, ControlError>;

    /// Reports each query as it is answered.
    fn log_tail(
        &self,
        request: LogTail,
        lines: Parts<'_, LogLine>,
    ) -> Result<LogFound, ControlError>;

    /// Returns queries in the files of the log; ends if the client has disconnected.
    fn log_search(
        &self,
        request: LogSearch,
        waiting: Parts<'_, AtWork>,
    ) -> Result<LogPage, ControlError>;

    /// Returns the number of queries in the files of the log.
    fn log_count(
        &self,
        request: LogCount,
        waiting: Parts<'_, AtWork>,
    ) -> Result<LogCounted, ControlError>;

    /// Returns one query of the log.
    fn log_show(&self, request: LogShow) -> Result<LogEntry, ControlError>;

    /// Returns the counts and rankings of a period.
    fn log_statistics(&self, request: LogStatistics) -> Result<LogOverview, ControlError>;

    /// Returns the counts of a period, in steps.
    fn log_series(&self, request: LogSeries) -> Result<LogSteps, ControlError>;

    /// Returns the clients of the log, with the times of their first and latest queries.
    fn log_clients(&self, request: LogClients) -> Result<LoggedClients, ControlError>;

    /// Deletes queries from the files of the log. Reports every few seconds that it is still at
    /// work.
    fn log_prune(
        &self,
        request: LogPrune,
        waiting: Parts<'_, AtWork>,
    ) -> Result<LogPruned, ControlError>;

    /// Reads the configuration again and puts it in force.
    fn reload(&self, request: Reload) -> Result<Reloaded, ControlError>;

    /// Returns the revisions of the configuration.
    fn config_history(&self, request: ConfigHistory) -> Result<Revisions, ControlError>;

    /// Returns the difference between two revisions.
    fn config_diff(&self, request: ConfigDiff) -> Result<RevisionDifference, ControlError>;

    /// Returns the text of a revision.
    fn config_text(&self, request: ConfigText) -> Result<RevisionText, ControlError>;

    /// Returns the configuration in force.
    fn config_show(&self, request: ConfigShow) -> Result<ShownConfig, ControlError>;

    /// Checks changes of the configuration file.
    fn config_check(&self, request: ConfigCheck) -> Result<CheckedChange, ControlError>;

    /// Changes keys of the configuration file and puts it in force.
    fn config_change(&self, request: ConfigChange) -> Result<RevisionAccepted, ControlError>;

    /// Puts an earlier revision in force again.
    fn config_rollback(&self, request: ConfigRollback) -> Result<RevisionAccepted, ControlError>;

    /// Ends the probation of the revision in force.
    fn config_confirm(&self, request: ConfigConfirm) -> Result<RevisionConfirmed, ControlError>;

    /// Returns the state of the hosted zones.
    fn zones_status(&self, request: ZonesStatus) -> Result<ZonesReport, ControlError>;

    /// Returns a page of the records of a zone.
    fn zone_records(&self, request: ZoneRecords) -> Result<ZonePage, ControlError>;

    /// Changes records of a hosted zone, or checks the change.
    fn zone_edit(&self, request: ZoneEdit) -> Result<ZoneEdited, ControlError>;

    /// Returns the latest changes of a hosted zone.
    fn zone_history(&self, request: ZoneHistory) -> Result<ZoneChanges, ControlError>;

    /// Reads the files of zones and puts those without errors in force.
    fn zone_reload(&self, request: ZoneReload) -> Result<ZonesReport, ControlError>;

    /// Returns the keys of a zone that is signed here.
    fn zone_keys(&self, request: ZoneKeys) -> Result<ZoneKeysReport, ControlError>;

    /// Signs a zone at once.
    fn zone_sign(&self, request: ZoneSign) -> Result<ZoneKeysReport, ControlError>;

    /// Reports a zone as a master file.
    fn zone_export(
        &self,
        request: ZoneExport,
        texts: Parts<'_, ZoneText>,
    ) -> Result<ZoneExported, ControlError>;

    /// Returns the certificates that clients are shown.
    fn certificate_list(
        &self,
        request: CertificateList,
    ) -> Result<CertificatesReport, ControlError>;

    /// Renews the certificate that the server obtains by itself.
    fn certificate_renew(
        &self,
        request: CertificateRenew,
    ) -> Result<CertificatesReport, ControlError>;

    /// Returns the ways to connect a device.
    fn connect(&self, request: Connect) -> Result<ConnectReport, ControlError>;

    /// Returns a document that connects a device.
    fn connect_document(&self, request: ConnectDocument) -> Result<ConnectFile, ControlError>;

    /// Returns the state of pools.
    fn pools_status(&self, request: PoolsStatus) -> Result<PoolsReport, ControlError>;

    /// Sets addresses of a pool up, down or draining by hand, or back to the results of probes.
    fn pool_control(&self, request: PoolControl) -> Result<PoolsReport, ControlError>;

    /// Returns the answers that pools would give if the given hosts were down.
    fn pools_what_if(&self, request: PoolsWhatIf) -> Result<PoolAnswers, ControlError>;

    /// Makes a backup.
    fn backup(
        &self,
        request: Backup,
        lines: Parts<'_, BackupLine>,
    ) -> Result<BackedUp, ControlError>;

    /// Checks the uploaded backup, and keeps it for the next start.
    fn restore(&self, request: Restore) -> Result<RestoreStaged, ControlError>;

    /// Cancels a restore that waits for the next start.
    fn restore_cancel(&self, request: RestoreCancel) -> Result<WaitingRestore, ControlError>;

    /// Returns all users.
    fn user_list(&self, request: UserList) -> Result<UsersReport, ControlError>;

    /// Adds a user.
    fn user_add(&self, request: UserAdd) -> Result<UserReport, ControlError>;

    /// Changes a user and ends its sessions.
    fn user_change(&self, request: UserChange) -> Result<UserReport, ControlError>;

    /// Removes a user and ends its sessions.
    fn user_remove(&self, request: UserRemove) -> Result<UserRemoved, ControlError>;

    /// Returns all API tokens.
    fn token_list(&self, request: TokenList) -> Result<TokensReport, ControlError>;

    /// Creates an API token.
    fn token_create(&self, request: TokenCreate) -> Result<TokenCreated, ControlError>;

    /// Revokes an API token.
    fn token_revoke(&self, request: TokenRevoke) -> Result<TokenRevoked, ControlError>;

    /// Returns all sessions of users.
    fn session_list(&self, request: SessionList) -> Result<SessionsReport, ControlError>;

    /// Ends a session.
    fn session_end(&self, request: SessionEnd) -> Result<SessionEnded, ControlError>;
}

/// Whether a request changes something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// The request only reads.
    Reads,
    /// The request only reads, but it reads secrets: the audit log records it.
    Reveals,
    /// The request changes state, and the audit log records it.
    Changes,
}

/// A request, with the types of its reply.
pub trait Call: Into<Request> + JsonSchema {
    /// A message that is sent before the reply is complete, once or more.
    type Part: Part;
    /// The end of the reply.
    type Reply: Serialize + DeserializeOwned + JsonSchema;

    /// Calls the method of this request.
    ///
    /// # Errors
    /// The method fails.
    fn call(
        self,
        control: &(impl Control + ?Sized),
        parts: Parts<'_, Self::Part>,
    ) -> Result<Self::Reply, ControlError>;
}

/// Expands to the type of the parts of a reply, as a row of the table states it.
macro_rules! part {
    () => {
        NoPart
    };
    ($part:ty) => {
        $part
    };
}

/// Generates from the table: [`Request`], its conversions, [`Call`] and the function that visits
/// all calls.
macro_rules! calls {
    (
        $($(#[$doc:meta])* $request:ident $(sends $part:ident)? => $method:ident -> $reply:ident;)*
    ) => {
        /// A request to the control socket. The field `command` names the request, and the other
        /// fields depend on this name.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(tag = "command", rename_all = "kebab-case")]
        pub enum Request {
            $($(#[$doc])* $request($request),)*
        }

        $(
            impl From<$request> for Request {
                fn from(request: $request) -> Self {
                    Self::$request(request)
                }
            }

            impl Call for $request {
                type Part = part!($($part)?);
                type Reply = $reply;

                fn call(
                    self,
                    control: &(impl Control + ?Sized),
                    _parts: Parts<'_, Self::Part>,
                ) -> Result<$reply, ControlError> {
                    control.$method(self $(, { let parts: Parts<'_, $part> = _parts; parts })?)
                }
            }
        )*

        impl Request {
            /// Calls the method of the request and writes the lines of its reply. Returns the error
            /// code if the method fails.
            ///
            /// # Errors
            /// The client has disconnected, or does not read.
            pub fn answer(
                self,
                control: &(impl Control + ?Sized),
                out: &mut impl Write,
            ) -> io::Result<Option<ErrorCode>> {
                match self {
                    $(Self::$request(request) => line::answer(request, control, out),)*
                }
            }

            /// Calls the method of the request, for front ends that write replies in another
            /// format. Each part is passed on as the text of a JSON value.
            ///
            /// # Errors
            /// The method fails.
            pub fn perform(
                self,
                control: &(impl Control + ?Sized),
                part: &mut dyn FnMut(&[u8]) -> Result<(), Disconnected>,
            ) -> Result<Value, ControlError> {
                match self {
                    $(Self::$request(request) => line::perform(request, control, part),)*
                }
            }

            /// Returns the command, as the control socket names it.
            pub fn command(&self) -> String {
                match self {
                    $(Self::$request(_) => stringify!($method).replace('_', "-"),)*
                }
            }
        }

        /// Visits every row of the table, with the command as the control socket names it.
        pub(crate) fn visit(visitor: &mut impl Visitor) {
            $(visitor.call::<$request>(&stringify!($method).replace('_', "-"));)*
        }
    };
}

/// A visitor that gets every row of the table of requests.
pub(crate) trait Visitor {
    fn call<C: Call>(&mut self, command: &str);
}

calls! {
    /// Shows the memory of the caches, and counts of their entries and hits.
    Stats => stats -> CacheStats;
    /// Shows all entries of the packet cache and the RRset cache.
    Dump sends CacheEntry => dump -> Dumped;
    /// Shows the cached data of a name.
    Lookup => lookup -> CacheLook;
    /// Removes a name from the caches.
    Flush => flush -> Flushed;
    /// Removes a name and all names below it from the caches.
    FlushTree => flush_tree -> Flushed;
    /// Shows the state of the server.
    Status => status -> ServerStatus;
    /// Shows the load of the worker threads, the memory, the caches and the writer of the query
    /// log.
    Load => load -> ServerLoad;
    /// Shows the state of the lists: entries, fetches and problems.
    ListsStatus => lists_status -> ListsReport;
    /// Fetches lists, and puts them in force.
    ListsRefresh sends AtWork => lists_refresh -> Refreshed;
    /// Shows the lines of a list that have no effect.
    ListsCheck => lists_check -> ListReport;
    /// Suspends filtering for some clients for a while (a pause), or ends a pause.
    Pause => pause -> SwitchesChanged;
    /// Suspends filtering of a name for some clients for a while (a grant), or ends a grant.
    Grant => grant -> SwitchesChanged;
    /// Shows the pauses and grants in force, and the matches of rules and lists.
    Switches => switches -> PolicyStatus;
    /// Shows the requests for access that clients sent from the block page.
    RequestList => request_list -> RequestsReport;
    /// Allows a name for the client that asked for it.
    RequestGrant => request_grant -> SwitchesChanged;
    /// Refuses a request for access.
    RequestRefuse => request_refuse -> RequestRefused;
    /// Shows which logged queries a proposed configuration would block and unblock.
    PolicyDryRun sends AtWork => policy_dry_run -> DryRunFound;
    /// Resolves a question without the cached answer, and shows each step.
    Trace sends WhySection => trace -> Explained;
    /// Shows the answer that a client gets for a name, and the reason.
    Why sends WhySection => why -> Explained;
    /// Shows the trust anchors and the copy of the root zone.
    Anchors => anchors -> AnchorsReport;
    /// Shows all negative trust anchors.
    NtaList => nta_list -> NegativeAnchors;
    /// Suspends DNSSEC validation of a name and all names below it for a while.
    NtaAdd => nta_add -> NegativeAdded;
    /// Ends a negative trust anchor, so that its name is validated again.
    NtaRemove => nta_remove -> NegativeRemoved;
    /// Sends each query as it is answered.
    LogTail sends LogLine => log_tail -> LogFound;
    /// Searches the files of the query log.
    LogSearch sends AtWork => log_search -> LogPage;
    /// Counts queries in the files of the query log.
    LogCount sends AtWork => log_count -> LogCounted;
    /// Shows one entry of the query log.
    LogShow => log_show -> LogEntry;
    /// Shows the counts and rankings of logged queries in a period.
    LogStatistics => log_statistics -> LogOverview;
    /// Shows the counts of logged queries in a period, divided into steps.
    LogSeries => log_series -> LogSteps;
    /// Shows the clients in the query log, with the times of their first and latest queries.
    LogClients => log_clients -> LoggedClients;
    /// Deletes queries from the files of the query log.
    LogPrune sends AtWork => log_prune -> LogPruned;
    /// Reads the configuration again, and puts it in force.
    Reload => reload -> Reloaded;
    /// Shows the history: the revisions of the configuration.
    ConfigHistory => config_history -> Revisions;
    /// Shows the difference between two revisions of the configuration.
    ConfigDiff => config_diff -> RevisionDifference;
    /// Shows the text of a revision of the configuration.
    ConfigText => config_text -> RevisionText;
    /// Shows the configuration in force: every key with its value.
    ConfigShow => config_show -> ShownConfig;
    /// Checks changes of the configuration file.
    ConfigCheck => config_check -> CheckedChange;
    /// Changes keys of the configuration file.
    ConfigChange => config_change -> RevisionAccepted;
    /// Puts an earlier revision in force again.
    ConfigRollback => config_rollback -> RevisionAccepted;
    /// Confirms the revision that is on probation.
    ConfigConfirm => config_confirm -> RevisionConfirmed;
    /// Shows the state of the hosted zones.
    ZonesStatus => zones_status -> ZonesReport;
    /// Shows a page of the records of a hosted zone.
    ZoneRecords => zone_records -> ZonePage;
    /// Changes records of a hosted zone, or checks such a change.
    ZoneEdit => zone_edit -> ZoneEdited;
    /// Shows the latest changes of a hosted zone.
    ZoneHistory => zone_history -> ZoneChanges;
    /// Reads the files of hosted zones again, and puts those without errors in force.
    ZoneReload => zone_reload -> ZonesReport;
    /// Shows the keys with which the server signs a zone.
    ZoneKeys => zone_keys -> ZoneKeysReport;
    /// Signs a hosted zone at once.
    ZoneSign => zone_sign -> ZoneKeysReport;
    /// Shows a hosted zone as the text of a master file.
    ZoneExport sends ZoneText => zone_export -> ZoneExported;
    /// Shows the certificates that the server shows to clients.
    CertificateList => certificate_list -> CertificatesReport;
    /// Renews the certificate of `[acme]` at once.
    CertificateRenew => certificate_renew -> CertificatesReport;
    /// Shows the settings with which a device connects to this server.
    Connect => connect -> ConnectReport;
    /// Returns a file with the settings that connect a device.
    ConnectDocument => connect_document -> ConnectFile;
    /// Shows the state of pools of addresses.
    PoolsStatus => pools_status -> PoolsReport;
    /// Sets addresses of a pool up, down or draining by hand, or lets the probes decide again.
    PoolControl => pool_control -> PoolsReport;
    /// Shows the answers that pools would give if hosts were down.
    PoolsWhatIf => pools_what_if -> PoolAnswers;
    /// Makes a backup of the state of the server.
    Backup sends BackupLine => backup -> BackedUp;
    /// Checks the uploaded backup. The server restores it at its next start.
    Restore => restore -> RestoreStaged;
    /// Cancels a restore before the next start of the server.
    RestoreCancel => restore_cancel -> WaitingRestore;
    /// Shows all users.
    UserList => user_list -> UsersReport;
    /// Adds a user.
    UserAdd => user_add -> UserReport;
    /// Changes a user, and ends all sessions of the user.
    UserChange => user_change -> UserReport;
    /// Removes a user, and ends all sessions of the user.
    UserRemove => user_remove -> UserRemoved;
    /// Shows all API tokens.
    TokenList => token_list -> TokensReport;
    /// Creates an API token.
    TokenCreate => token_create -> TokenCreated;
    /// Revokes an API token.
    TokenRevoke => token_revoke -> TokenRevoked;
    /// Shows all sessions of users.
    SessionList => session_list -> SessionsReport;
    /// Ends a session.
    SessionEnd => session_end -> SessionEnded;
}

impl Request {
    /// Returns whether the request changes something.
    pub const fn effect(&self) -> Effect {
        match self {
            Self::Backup(_) => Effect::Reveals,
            _ if self.reads() => Effect::Reads,
            // A request that is missing above counts as a change, so the audit log records it.
            _ => Effect::Changes,
        }
    }

    /// Returns whether the reply acknowledges a change that must not be lost if another process
    /// takes over. The other changes may take long, and the next process makes them by itself or by
    /// another request.
    pub const fn changes_state(&self) -> bool {
        matches!(self.effect(), Effect::Changes)
            && !matches!(self, Self::ListsRefresh(_) | Self::LogPrune(_))
    }

    /// Returns whether the request changes nothing and reveals no secret.
    const fn reads(&self) -> bool {
        matches!(
            self,
            Self::Stats(_)
                | Self::Dump(_)
                | Self::Lookup(_)
                | Self::Status(_)
                | Self::Load(_)
                | Self::ListsStatus(_)
                | Self::ListsCheck(_)
                | Self::Switches(_)
                | Self::RequestList(_)
                | Self::PolicyDryRun(_)
                | Self::Trace(_)
                | Self::Why(_)
                | Self::Anchors(_)
                | Self::NtaList(_)
                | Self::ConfigHistory(_)
                | Self::ConfigDiff(_)
                | Self::ConfigText(_)
                | Self::ConfigShow(_)
                | Self::ConfigCheck(_)
                | Self::LogTail(_)
                | Self::LogSearch(_)
                | Self::LogCount(_)
                | Self::LogShow(_)
                | Self::LogStatistics(_)
                | Self::LogSeries(_)
                | Self::LogClients(_)
                | Self::ZonesStatus(_)
                | Self::ZoneRecords(_)
                | Self::ZoneHistory(_)
                | Self::ZoneEdit(ZoneEdit { dry_run: true, .. })
                | Self::ZoneKeys(_)
                | Self::ZoneExport(_)
                | Self::CertificateList(_)
                | Self::Connect(_)
                | Self::ConnectDocument(_)
                | Self::PoolsStatus(_)
                | Self::PoolsWhatIf(_)
                | Self::UserList(_)
                | Self::TokenList(_)
                | Self::SessionList(_)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_one_line_and_comes_back() {
        let flush = Flush { name: "a\"\n".to_owned() };
        for request in [Request::from(Stats {}), flush.into(), Why::of("a").into()] {
            let line = line::of_request(request.clone());
            assert_eq!(line.find('\n'), Some(line.len() - 1));
            assert_eq!(serde_json::from_str::<Request>(&line).unwrap(), request);
        }
        assert_eq!(
            line::of_request(FlushTree { name: "a".into() }),
            "{\"command\":\"flush-tree\",\"name\":\"a\"}\n"
        );
    }

    #[test]
    fn a_field_that_a_request_does_not_have_is_refused() {
        for line in ["{\"command\":\"stats\",\"x\":1}", "{\"command\":\"flush\"}", "{}"] {
            assert!(serde_json::from_str::<Request>(line).is_err(), "{line}");
        }
        let whole = "{\"command\":\"pause\",\"secs\":1}";
        let Ok(Request::Pause(pause)) = serde_json::from_str(whole) else { panic!("{whole}") };
        assert_eq!(pause.scope, avocet_policy::rule::Scope::All);
    }

    impl Why {
        fn of(name: &str) -> Self {
            Self {
                name: name.to_owned(),
                rtype: None,
                client: None,
                id: None,
                listener: None,
                transport: None,
                at: Some(u64::MAX),
                logged: None,
            }
        }
    }

    #[test]
    fn the_table_has_the_commands_of_the_requests() {
        struct Commands(Vec<String>);
        impl Visitor for Commands {
            fn call<C: Call>(&mut self, command: &str) {
                self.0.push(command.to_owned());
            }
        }
        let mut commands = Commands(Vec::new());
        visit(&mut commands);
        let unknown = serde_json::from_str::<Request>("{\"command\":\"x\"}").unwrap_err();
        for command in &commands.0 {
            assert!(unknown.to_string().contains(&format!("`{command}`")), "{unknown}");
        }
    }
}
