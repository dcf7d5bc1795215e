//! A server that remembers requests.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use avocet_config::edit::{KeyEdit, edited};
use avocet_control::access::{
    TokenCreate, TokenCreated, TokenList, TokenRevoke, TokenRevoked, TokensReport, UserAdd,
    UserChange, UserList, UserRemove, UserRemoved, UserReport, UsersReport,
};
use avocet_control::access_request::{
    RequestGrant, RequestList, RequestRefuse, RequestRefused, RequestsReport,
};
use avocet_control::backup::{
    BackedUp, Backup, BackupLine, Restore, RestoreCancel, RestoreStaged, WaitingRestore,
};
use avocet_control::cache::{CacheEntry, CacheStats, Dumped, Flushed};
use avocet_control::certificates::{CertificateList, CertificateRenew, CertificatesReport};
use avocet_control::clients::{LogClients, LoggedClients};
use avocet_control::connect::{Connect, ConnectDocument, ConnectFile, ConnectReport};
use avocet_control::dry_run::{DryRunFound, PolicyDryRun};
use avocet_control::lists::{AtWork, ListReport, ListsReport, Refreshed};
use avocet_control::load::ServerLoad;
use avocet_control::log::{
    LogCount, LogCounted, LogEntry, LogFound, LogLine, LogPage, LogPrune, LogPruned, LogSearch,
    LogShow, LogTail,
};
use avocet_control::log_fault::LogFault;
use avocet_control::policy::{PolicyStatus, SwitchesChanged};
use avocet_control::pools::{PoolAnswers, PoolControl, PoolsReport, PoolsStatus, PoolsWhatIf};
use avocet_control::reload::Reloaded;
use avocet_control::request::{
    Anchors, Dump, Flush, FlushTree, Grant, ListsCheck, ListsRefresh, ListsStatus, Load, Lookup,
    NtaAdd, NtaList, NtaRemove, Pause, Reload, Stats, Status, Switches, Trace, Why,
};
use avocet_control::revisions::{
    CheckedChange, ConfigChange, ConfigCheck, ConfigConfirm, ConfigDiff, ConfigEdit, ConfigHistory,
    ConfigRollback, ConfigShow, ConfigText, RevisionAccepted, RevisionConfirmed,
    RevisionDifference, RevisionText, Revisions, ShownConfig,
};
use avocet_control::session::{SessionEnd, SessionEnded, SessionList, SessionsReport};
use avocet_control::statistics::{LogOverview, LogSeries, LogStatistics, LogSteps, OutcomeCounts};
use avocet_control::status::ServerStatus;
use avocet_control::trust::{AnchorsReport, NegativeAdded, NegativeAnchors, NegativeRemoved};
use avocet_control::why::{CacheLook, Explained, WhySection};
use avocet_control::zone_edit::{ZoneChanges, ZoneEdit, ZoneEdited, ZoneHistory};
use avocet_control::zone_keys::{ZoneKeys, ZoneKeysReport, ZoneSign};
use avocet_control::zones::{
    ZoneExport, ZoneExported, ZonePage, ZoneRecords, ZoneReload, ZoneText, ZonesReport, ZonesStatus,
};
use avocet_control::{Control, ControlError, Parts, Request as ControlRequest};
use serde_json::json;

use super::replies::{accepted, counts, load, of, unchanged};
use crate::access::Access;

/// The server. It has negative trust anchors, a configuration, users and tokens, and no other
/// state.
pub(super) struct Remembering {
    pub(super) access: Arc<Access>,
    pub(super) seen: Mutex<Vec<String>>,
    /// The last requests to which the interface added fields.
    pub(super) signed: Mutex<Vec<ControlRequest>>,
    anchors: Mutex<Vec<String>>,
    /// The texts of the configuration, by revision.
    pub(super) texts: Mutex<Vec<String>>,
    directory: PathBuf,
}

impl Remembering {
    /// Creates a server with users and tokens and an empty configuration.
    pub(super) fn new(access: Arc<Access>, directory: PathBuf) -> Self {
        Self {
            access,
            seen: Mutex::default(),
            signed: Mutex::default(),
            anchors: Mutex::default(),
            texts: Mutex::new(vec![String::new()]),
            directory,
        }
    }

    fn saw(&self, request: impl Into<ControlRequest>) {
        let request = request.into();
        self.seen.lock().unwrap().push(request.command());
        self.signed.lock().unwrap().push(request);
    }

    /// Returns the text of the configuration with edits.
    fn edited(&self, edits: &[ConfigEdit]) -> Result<String, ControlError> {
        let texts = self.texts.lock().unwrap();
        let edits: Vec<_> = edits
            .iter()
            .map(|edit| KeyEdit { key: &edit.key, value: edit.value.as_deref() })
            .collect();
        edited(texts.last().unwrap(), &edits)
            .map_err(|error| ControlError::InvalidEdit(error.to_string()))
    }
}

/// Number of entries of the dump: more than fit into the chunks that wait for a client.
pub(super) const ENTRIES: usize = 5000;

impl Control for Remembering {
    fn stats(&self, request: Stats) -> Result<CacheStats, ControlError> {
        self.saw(request);
        Ok(of(json!({"packet-cache": counts(), "rrset-cache": counts(),
                     "failure-cache": counts(), "stale-answers": 0, "prefetches": 0})))
    }

    fn dump(&self, request: Dump, entries: Parts<'_, CacheEntry>) -> Result<Dumped, ControlError> {
        self.saw(request);
        for number in 0..ENTRIES {
            let name = format!("<script>{number}\\010.example.");
            entries(of(json!({"cache": "packet", "name": name, "type": "A", "class": "IN",
                              "rcode": "NOERROR", "flags": [], "ttl": 1})))?;
        }
        Ok(Dumped { rrsets: 0, packets: ENTRIES as u64 })
    }

    fn lookup(&self, request: Lookup) -> Result<CacheLook, ControlError> {
        self.saw(request.clone());
        Ok(of(json!({"name": request.name, "rrsets": [], "failure": null})))
    }

    fn flush(&self, request: Flush) -> Result<Flushed, ControlError> {
        if request.name == "panic." {
            panic!("a defect");
        }
        self.saw(request);
        Ok(Flushed { rrsets: 1 })
    }

    fn flush_tree(&self, request: FlushTree) -> Result<Flushed, ControlError> {
        self.saw(request);
        Ok(Flushed { rrsets: 2 })
    }

    fn status(&self, request: Status) -> Result<ServerStatus, ControlError> {
        self.saw(request);
        let queries = json!({"all": 0, "from-cache": 0, "local": 0, "blocked": 0, "rewritten": 0,
                             "resolved": 0, "failed": 0, "refused": 0});
        Ok(of(json!({"version": "1", "configuration": null, "listen": [], "mode": "recurse",
                     "started-at": 0, "uptime-secs": 0, "healthy": true, "serving": true,
                     "queries": queries, "lists": [], "upstreams": [], "warnings": ["w"]})))
    }

    fn load(&self, request: Load) -> Result<ServerLoad, ControlError> {
        self.saw(request);
        Ok(load())
    }

    fn lists_status(&self, request: ListsStatus) -> Result<ListsReport, ControlError> {
        self.saw(request);
        Ok(of(json!({"lists": [], "image": null})))
    }

    fn lists_refresh(
        &self,
        request: ListsRefresh,
        waiting: Parts<'_, AtWork>,
    ) -> Result<Refreshed, ControlError> {
        self.saw(request);
        waiting(AtWork { waiting: true })?;
        Ok(of(json!({"lists": [], "image": null})))
    }

    fn lists_check(&self, request: ListsCheck) -> Result<ListReport, ControlError> {
        self.saw(request.clone());
        Err(ControlError::UnknownList(request.name))
    }

    fn pause(&self, request: Pause) -> Result<SwitchesChanged, ControlError> {
        self.saw(request);
        Ok(of(json!({"pauses": [], "grants": [], "unsaved": null})))
    }

    fn grant(&self, request: Grant) -> Result<SwitchesChanged, ControlError> {
        self.saw(request);
        Ok(of(json!({"pauses": [], "grants": [], "unsaved": null})))
    }

    fn switches(&self, request: Switches) -> Result<PolicyStatus, ControlError> {
        self.saw(request);
        let scopes = [json!("all"), json!({"group": "kids"}), json!({"client": "tv"})];
        let pauses = scopes.map(|scope| json!({"scope": scope, "until": 60, "left-secs": 60}));
        Ok(of(json!({"pauses": pauses, "grants": []})))
    }

    fn request_list(&self, request: RequestList) -> Result<RequestsReport, ControlError> {
        self.saw(request);
        Ok(RequestsReport::default())
    }

    fn request_grant(&self, request: RequestGrant) -> Result<SwitchesChanged, ControlError> {
        self.saw(request);
        Ok(of(json!({"pauses": [], "grants": [], "unsaved": null})))
    }

    fn request_refuse(&self, request: RequestRefuse) -> Result<RequestRefused, ControlError> {
        let id = request.id;
        self.saw(request);
        Err(ControlError::UnknownRequest(id))
    }

    fn policy_dry_run(
        &self,
        request: PolicyDryRun,
        waiting: Parts<'_, AtWork>,
    ) -> Result<DryRunFound, ControlError> {
        self.saw(request);
        waiting(AtWork { waiting: true })?;
        Ok(unchanged())
    }

    fn trace(&self, request: Trace, _: Parts<'_, WhySection>) -> Result<Explained, ControlError> {
        self.saw(request);
        Ok(Explained {})
    }

    fn why(&self, request: Why, _: Parts<'_, WhySection>) -> Result<Explained, ControlError> {
        self.saw(request.clone());
        match request.client.as_deref() {
            Some(name) => Err(ControlError::UnknownClient(name.to_owned())),
            None => Ok(Explained {}),
        }
    }

    fn log_tail(
        &self,
        request: LogTail,
        lines: Parts<'_, LogLine>,
    ) -> Result<LogFound, ControlError> {
        self.saw(request.clone());
        let last = match request.filter.under.as_deref() {
            Some("off.example.") => return Err(ControlError::NoQueryLog),
            Some("few.example.") => 2,
            Some(_) => 0,
            None => u64::MAX,
        };
        for number in 0..last {
            lines(LogLine::Skipped(number))?;
        }
        Ok(LogFound { entries: last })
    }

    fn log_search(
        &self,
        request: LogSearch,
        waiting: Parts<'_, AtWork>,
    ) -> Result<LogPage, ControlError> {
        self.saw(request.clone());
        if request.filter.contains.as_deref() == Some("endless") {
            let end = loop {
                if let Err(end) = waiting(AtWork { waiting: true }) {
                    break end;
                }
                std::thread::yield_now();
            };
            self.seen.lock().unwrap().push("disconnected".to_owned());
            return Err(end.into());
        }
        match request.cursor {
            Some(_) => Err(LogFault::InvalidCursor.into()),
            None => Ok(of(json!({"queries": [], "next": null, "examined": 0, "damaged": []}))),
        }
    }

    fn log_count(
        &self,
        request: LogCount,
        _: Parts<'_, AtWork>,
    ) -> Result<LogCounted, ControlError> {
        self.saw(request);
        Ok(of(json!({"queries": 1, "next": null, "damaged": []})))
    }

    fn log_show(&self, request: LogShow) -> Result<LogEntry, ControlError> {
        let id = request.id;
        self.saw(request);
        Err(LogFault::UnknownEntry(id).into())
    }

    fn log_statistics(&self, request: LogStatistics) -> Result<LogOverview, ControlError> {
        self.saw(request);
        let rates = json!({"secs": 1.5, "queries": 2.0, "blocked": 1.0, "failed": 0.0});
        let outcomes = serde_json::to_value(OutcomeCounts::default()).unwrap();
        Ok(of(json!({"from": 0, "to": 1, "period": "hour", "queries": 0, "outcomes": outcomes,
                     "delays": {"histogram": []}, "tops": [], "rates": rates})))
    }

    fn log_series(&self, request: LogSeries) -> Result<LogSteps, ControlError> {
        self.saw(request);
        Ok(of(json!({"step": 60, "period": "minute", "steps": []})))
    }

    fn log_clients(&self, request: LogClients) -> Result<LoggedClients, ControlError> {
        self.saw(request);
        Ok(of(json!({"clients": [], "left-out": 0})))
    }

    fn log_prune(
        &self,
        request: LogPrune,
        waiting: Parts<'_, AtWork>,
    ) -> Result<LogPruned, ControlError> {
        self.saw(request);
        waiting(AtWork { waiting: true })?;
        Ok(of(json!({"queries": 3, "damaged": []})))
    }

    fn anchors(&self, request: Anchors) -> Result<AnchorsReport, ControlError> {
        self.saw(request);
        Ok(of(json!({"validates": true, "followed": true, "anchors": [], "root-zone": null})))
    }

    fn nta_list(&self, request: NtaList) -> Result<NegativeAnchors, ControlError> {
        self.saw(request);
        let anchors = self.anchors.lock().unwrap();
        let anchors: Vec<_> =
            anchors.iter().map(|name| json!({"name": name, "until": 5})).collect();
        // The time differs in each reply, as on a real server.
        let now = self.seen.lock().unwrap().len();
        Ok(of(json!({"now": now, "anchors": anchors})))
    }

    fn nta_add(&self, request: NtaAdd) -> Result<NegativeAdded, ControlError> {
        self.saw(request.clone());
        self.anchors.lock().unwrap().push(request.name.clone());
        Ok(NegativeAdded { name: request.name, until: 5, unsaved: None })
    }

    fn nta_remove(&self, request: NtaRemove) -> Result<NegativeRemoved, ControlError> {
        self.saw(request.clone());
        self.anchors.lock().unwrap().retain(|name| *name != request.name);
        Ok(NegativeRemoved { name: request.name, unsaved: None })
    }

    fn reload(&self, request: Reload) -> Result<Reloaded, ControlError> {
        self.saw(request);
        Ok(of(json!({"restart-needed-for": [], "opens-at-restart": [], "closes-at-restart": [],
                     "removed": {}, "removed-text": ""})))
    }

    fn config_history(&self, request: ConfigHistory) -> Result<Revisions, ControlError> {
        self.saw(request);
        Ok(of(json!({"in-force": 1, "probation": null, "revisions": []})))
    }

    fn config_diff(&self, request: ConfigDiff) -> Result<RevisionDifference, ControlError> {
        let (from, to) = (request.from, request.to.unwrap_or(1));
        self.saw(request);
        Ok(RevisionDifference { from, to, text: String::new() })
    }

    fn config_text(&self, request: ConfigText) -> Result<RevisionText, ControlError> {
        let texts = self.texts.lock().unwrap();
        let number = request.number.unwrap_or(texts.len() as u32);
        self.saw(request);
        let text = texts.get(number as usize - 1).cloned();
        Ok(RevisionText { number, text: text.unwrap_or_default() })
    }

    fn config_show(&self, request: ConfigShow) -> Result<ShownConfig, ControlError> {
        self.saw(request);
        Ok(of(json!({"revision": 1, "tables": {}})))
    }

    fn config_check(&self, request: ConfigCheck) -> Result<CheckedChange, ControlError> {
        let text = self.edited(&request.edits)?;
        self.saw(request);
        Ok(CheckedChange { text, warnings: Vec::new() })
    }

    fn config_change(&self, request: ConfigChange) -> Result<RevisionAccepted, ControlError> {
        let (text, base) = (self.edited(&request.edits)?, request.base);
        self.saw(request);
        let mut texts = self.texts.lock().unwrap();
        let in_force = Some(texts.len() as u32);
        if base.is_some() && base != in_force {
            return Err(ControlError::OtherRevision(in_force));
        }
        texts.push(text);
        Ok(accepted())
    }

    fn config_rollback(&self, request: ConfigRollback) -> Result<RevisionAccepted, ControlError> {
        self.saw(request);
        Ok(accepted())
    }

    fn config_confirm(&self, request: ConfigConfirm) -> Result<RevisionConfirmed, ControlError> {
        self.saw(request);
        Ok(RevisionConfirmed { revision: 1 })
    }

    fn zones_status(&self, request: ZonesStatus) -> Result<ZonesReport, ControlError> {
        self.saw(request);
        Ok(of(json!({"zones": []})))
    }

    fn zone_records(&self, request: ZoneRecords) -> Result<ZonePage, ControlError> {
        self.saw(request);
        Ok(of(json!({"name": "example.", "serial": 1, "records": [], "next": null})))
    }

    fn zone_edit(&self, request: ZoneEdit) -> Result<ZoneEdited, ControlError> {
        self.saw(request);
        let none = json!({"removed": [], "added": [], "removed-count": 0, "added-count": 0});
        Ok(of(json!({"name": "example.", "serial": 1, "published": false, "difference": none,
            "rewrites": null, "error": null})))
    }

    fn zone_history(&self, request: ZoneHistory) -> Result<ZoneChanges, ControlError> {
        self.saw(request);
        Ok(of(json!({"name": "example.", "kept": 0, "changes": []})))
    }

    fn zone_reload(&self, request: ZoneReload) -> Result<ZonesReport, ControlError> {
        self.saw(request);
        Ok(of(json!({"zones": []})))
    }

    fn certificate_list(
        &self,
        request: CertificateList,
    ) -> Result<CertificatesReport, ControlError> {
        self.saw(request);
        Ok(of(json!({"certificates": []})))
    }

    fn connect(&self, request: Connect) -> Result<ConnectReport, ControlError> {
        self.saw(request);
        Ok(of(json!({"name": null, "names": [], "listeners": [], "endpoints": [], "plain": null,
                     "documents": []})))
    }

    fn connect_document(&self, request: ConnectDocument) -> Result<ConnectFile, ControlError> {
        let form = request.form;
        let text = format!("<x>{}", request.device.id.clone().unwrap_or_default());
        self.saw(request);
        Ok(ConnectFile { media: form.media().to_owned(), file: form.file().to_owned(), text })
    }

    fn certificate_renew(
        &self,
        request: CertificateRenew,
    ) -> Result<CertificatesReport, ControlError> {
        self.saw(request);
        Ok(of(json!({"certificates": []})))
    }

    fn pools_status(&self, request: PoolsStatus) -> Result<PoolsReport, ControlError> {
        self.saw(request);
        Ok(of(json!({"pools": []})))
    }

    fn pool_control(&self, request: PoolControl) -> Result<PoolsReport, ControlError> {
        self.saw(request);
        Ok(of(json!({"pools": []})))
    }

    fn pools_what_if(&self, request: PoolsWhatIf) -> Result<PoolAnswers, ControlError> {
        self.saw(request);
        Ok(of(json!({"pools": []})))
    }

    fn zone_keys(&self, request: ZoneKeys) -> Result<ZoneKeysReport, ControlError> {
        self.saw(request);
        Ok(zone_keys())
    }

    fn zone_sign(&self, request: ZoneSign) -> Result<ZoneKeysReport, ControlError> {
        self.saw(request);
        Ok(zone_keys())
    }

    fn zone_export(
        &self,
        request: ZoneExport,
        texts: Parts<'_, ZoneText>,
    ) -> Result<ZoneExported, ControlError> {
        self.saw(request);
        texts(ZoneText { text: "example. 1 IN A 192.0.2.1".to_owned() })?;
        Ok(of(json!({"serial": 1, "records": 1})))
    }

    fn backup(
        &self,
        request: Backup,
        lines: Parts<'_, BackupLine>,
    ) -> Result<BackedUp, ControlError> {
        self.saw(request);
        let head = json!({"avocet-backup": 1, "version": "1", "at": 7});
        lines(of(head))?;
        Ok(BackedUp { files: 0, octets: 0, sha256: String::new() })
    }

    fn restore(&self, request: Restore) -> Result<RestoreStaged, ControlError> {
        self.saw(request);
        let path = self.directory.join("restore.upload");
        let text = std::fs::read_to_string(path).unwrap();
        match text.as_str() {
            "no backup" => Err(ControlError::BackupRefused(text)),
            _ => Ok(RestoreStaged { version: text, at: 7, files: 0, left_out: Vec::new() }),
        }
    }

    fn restore_cancel(&self, request: RestoreCancel) -> Result<WaitingRestore, ControlError> {
        self.saw(request);
        Ok(WaitingRestore { version: "1".to_owned(), at: 7 })
    }

    fn user_list(&self, request: UserList) -> Result<UsersReport, ControlError> {
        self.saw(request);
        Ok(self.access.user_list())
    }

    fn user_add(&self, request: UserAdd) -> Result<UserReport, ControlError> {
        self.saw(request.clone());
        Ok(self.access.user_add(request)?)
    }

    fn user_change(&self, request: UserChange) -> Result<UserReport, ControlError> {
        self.saw(request.clone());
        Ok(self.access.user_change(request)?)
    }

    fn user_remove(&self, request: UserRemove) -> Result<UserRemoved, ControlError> {
        self.saw(request.clone());
        Ok(self.access.user_remove(&request.name)?)
    }

    fn token_list(&self, request: TokenList) -> Result<TokensReport, ControlError> {
        self.saw(request);
        Ok(self.access.token_list())
    }

    fn token_create(&self, request: TokenCreate) -> Result<TokenCreated, ControlError> {
        self.saw(request.clone());
        Ok(self.access.token_create(request)?)
    }

    fn token_revoke(&self, request: TokenRevoke) -> Result<TokenRevoked, ControlError> {
        self.saw(request.clone());
        Ok(self.access.token_revoke(&request.id)?)
    }

    fn session_list(&self, _: SessionList) -> Result<SessionsReport, ControlError> {
        Ok(self.access.session_list())
    }

    fn session_end(&self, request: SessionEnd) -> Result<SessionEnded, ControlError> {
        Ok(self.access.session_end(&request.id)?)
    }
}

fn zone_keys() -> ZoneKeysReport {
    of(json!({"name": "example.", "policy": "default", "keys": [], "ds": [], "awaited-ds": null,
        "overdue": false, "signatures-end": null, "next-event": null, "made": 0, "error": null}))
}
