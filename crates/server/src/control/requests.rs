//! Answers the requests of control clients from the state that the threads share.

use std::sync::mpsc::{RecvTimeoutError, channel};

use avocet_cache::StoreStats;
use avocet_config::Protocol;
use avocet_config::name::{shown, typed_name};
use avocet_config::policy::MAX_SPAN;
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
use avocet_control::cache::{
    CacheEntry, CacheStats, Dumped, Flushed, PacketCacheStats, RrsetCacheStats, StoreCounts,
};
use avocet_control::certificates::{CertificateList, CertificateRenew, CertificatesReport};
use avocet_control::clients::{LogClients, LoggedClients};
use avocet_control::connect::{Connect, ConnectDocument, ConnectFile, ConnectReport};
use avocet_control::dry_run::{DryRunFound, PolicyDryRun};
use avocet_control::lists::{AtWork, ListReport, ListsReport, Refreshed};
use avocet_control::load::ServerLoad;
use avocet_control::log::{
    LogCount, LogCounted, LogEntry, LogFound, LogLine, LogPage, LogPrune, LogPruned, LogSearch,
    LogShow, LogTail, LogTransport,
};
use avocet_control::policy::{PolicyStatus, SwitchesChanged};
use avocet_control::pools::{PoolAnswers, PoolControl, PoolsReport, PoolsStatus, PoolsWhatIf};
use avocet_control::reload::Reloaded;
use avocet_control::request::{
    Anchors, Dump, Flush, FlushTree, ListsCheck, ListsRefresh, ListsStatus, Load, Lookup, NtaAdd,
    NtaList, NtaRemove, Reload, Stats, Status, Switches, Trace, Why,
};
use avocet_control::revisions::{
    CheckedChange, ConfigChange, ConfigCheck, ConfigConfirm, ConfigDiff, ConfigHistory,
    ConfigRollback, ConfigShow, ConfigText, RevisionAccepted, RevisionConfirmed,
    RevisionDifference, RevisionText, Revisions, ShownConfig,
};
use avocet_control::session::{SessionEnd, SessionEnded, SessionList, SessionsReport};
use avocet_control::statistics::{LogOverview, LogSeries, LogStatistics, LogSteps};
use avocet_control::status::ServerStatus;
use avocet_control::trust::{AnchorsReport, NegativeAdded, NegativeAnchors, NegativeRemoved};
use avocet_control::why::{CacheLook, Explained, WhySection};
use avocet_control::zone_edit::{ZoneChanges, ZoneEdit, ZoneEdited, ZoneHistory};
use avocet_control::zone_keys::{ZoneKeys, ZoneKeysReport, ZoneSign};
use avocet_control::zones::{
    ZoneExport, ZoneExported, ZonePage, ZoneRecords, ZoneReload, ZoneText, ZonesReport, ZonesStatus,
};
use avocet_control::{Control, ControlError, Parts, request};
use avocet_nameserver::clock::wall_secs;
use avocet_nameserver::flush::FlushExtent;
use avocet_nameserver::metrics::{Stage, WorkerMetrics};
use avocet_nameserver::query::asked::{Entrance, Transport};
use avocet_nameserver::query::rehearsal::At;
use avocet_nameserver::snapshot::Snapshot;
use avocet_policy::rule::{Grant, Pause, Scope};
use avocet_wire::{FoldedName, FoldedNameBuf};

use super::past::{self, Past, PastQuery};
use super::{
    PATIENCE, access_requests, connection, dry_run, load, log, pools, revisions, status, zone_edit,
    zone_keys, zones,
};
use crate::backup::{self, BackupError, Place};
use crate::explain::{self, GivenClient, InquiringClient};
use crate::keepers::lists;
use crate::lists::Taking;
use crate::running::Running;
use crate::running::shown_certificates;
use crate::running::switches::{self, Change};
use crate::trace::{self, TraceQuestion, dump};

/// Returns the first address of the named listener that has the transport. If no address has it,
/// returns the listener's first address.
fn entrance(
    state: &Snapshot,
    name: &str,
    transport: Option<LogTransport>,
) -> Result<Entrance, ControlError> {
    let names = state.config.server.entrances();
    if name.is_empty() || !names.contains(&name) {
        return Err(ControlError::UnknownListener(name.to_owned()));
    }
    Ok(entrance_of(state, name, transport))
}

/// Returns the first address that has the transport: of a listener, or of `[server]` if the name is
/// empty. If no address has it, returns the first address.
fn entrance_of(state: &Snapshot, name: &str, transport: Option<LogTransport>) -> Entrance {
    let server = &state.config.server;
    let names = server.entrances();
    let of_name = || {
        server
            .open_addresses()
            .into_iter()
            .zip(&names)
            .enumerate()
            .filter(|(_, (_, other))| **other == name)
    };
    let wanted = match transport {
        Some(LogTransport::Tls) => Some(Protocol::Tls),
        Some(LogTransport::Https | LogTransport::Odoh) => Some(Protocol::Https),
        Some(LogTransport::Quic) => Some(Protocol::Quic),
        Some(LogTransport::Udp | LogTransport::Tcp) => Some(Protocol::Plain),
        None => None,
    };
    let has_it = |protocol| wanted.is_none_or(|wanted| wanted == protocol);
    let found = of_name().find(|(_, (one, _))| has_it(one.protocol)).or_else(|| of_name().next());
    found.map_or_else(|| Entrance::of_server(server), |(place, _)| Entrance(place as u16))
}

/// Returns the transport of a query that arrives at an address: the requested transport, or else
/// the transport of the address.
fn transport_at(state: &Snapshot, entrance: Entrance, wanted: Option<LogTransport>) -> Transport {
    let all = state.config.server.open_addresses();
    match (wanted, all.get(usize::from(entrance.0)).map(|one| one.protocol)) {
        (Some(LogTransport::Tls), _) | (None, Some(Protocol::Tls)) => Transport::Tls,
        (Some(LogTransport::Https), _) | (None, Some(Protocol::Https | Protocol::H3)) => {
            Transport::Https
        }
        (Some(LogTransport::Quic), _) | (None, Some(Protocol::Quic)) => Transport::Quic,
        (Some(LogTransport::Odoh), _) => Transport::Odoh,
        (Some(LogTransport::Tcp), _) => Transport::Tcp,
        (Some(LogTransport::Udp) | None, _) => Transport::Udp,
    }
}

impl Control for Running {
    fn stats(&self, Stats {}: Stats) -> Result<CacheStats, ControlError> {
        let shared = &self.shared;
        let total =
            |count: fn(&WorkerMetrics) -> u64| -> u64 { shared.metrics.iter().map(count).sum() };
        Ok(CacheStats {
            packet_cache: PacketCacheStats {
                store: store_counts(&shared.name_server.packets.stats()),
                hits: total(|worker| worker.stages[Stage::PacketHit as usize].value()),
                misses: total(|worker| worker.packet_misses()),
            },
            rrset_cache: RrsetCacheStats {
                store: store_counts(&shared.name_server.rrsets.stats()),
                hits: total(|worker| worker.stages[Stage::RrsetHit as usize].value()),
            },
            failure_cache: store_counts(&shared.name_server.failures.stats()),
            stale_answers: total(|worker| worker.stages[Stage::Stale as usize].value()),
            prefetches: total(|worker| worker.prefetches.value()),
        })
    }

    fn dump(&self, Dump {}: Dump, entries: Parts<'_, CacheEntry>) -> Result<Dumped, ControlError> {
        Ok(dump::write(&self.shared, entries)?)
    }

    fn lookup(&self, request: Lookup) -> Result<CacheLook, ControlError> {
        let question = TraceQuestion::read(&request.name, request.rtype.as_deref())?;
        Ok(trace::look_up(&self.shared, &question))
    }

    fn flush(&self, request: Flush) -> Result<Flushed, ControlError> {
        Ok(flush(self, &folded(&request.name)?, FlushExtent::Name))
    }

    fn flush_tree(&self, request: FlushTree) -> Result<Flushed, ControlError> {
        Ok(flush(self, &folded(&request.name)?, FlushExtent::Tree))
    }

    fn status(&self, Status {}: Status) -> Result<ServerStatus, ControlError> {
        Ok(status::of(self))
    }

    fn load(&self, Load {}: Load) -> Result<ServerLoad, ControlError> {
        Ok(load::of(self))
    }

    fn lists_status(&self, ListsStatus {}: ListsStatus) -> Result<ListsReport, ControlError> {
        Ok(lists::status::of_all(self))
    }

    fn lists_refresh(
        &self,
        ListsRefresh { name, force }: ListsRefresh,
        waiting: Parts<'_, AtWork>,
    ) -> Result<Refreshed, ControlError> {
        let (sender, outcome) = channel();
        self.lists.refresh(name, if force { Taking::Forced } else { Taking::Judged }, sender);
        loop {
            match outcome.recv_timeout(PATIENCE) {
                Ok(outcome) => return outcome,
                Err(RecvTimeoutError::Disconnected) => return Err(ControlError::ShuttingDown),
                // Sending this sign of progress fails if the client has disconnected.
                Err(RecvTimeoutError::Timeout) => waiting(AtWork { waiting: true })?,
            }
        }
    }

    fn lists_check(&self, request: ListsCheck) -> Result<ListReport, ControlError> {
        lists::status::check(self, &request.name)
    }

    fn pause(&self, request: request::Pause) -> Result<SwitchesChanged, ControlError> {
        let scopes = scopes(self, request.scope);
        let change = match end(request.secs)? {
            None => Change::Resume(scopes),
            Some(until) => Change::Pause(Pause { scope: first(scopes), until }),
        };
        switches::change(self, change)
    }

    fn grant(&self, request: request::Grant) -> Result<SwitchesChanged, ControlError> {
        let scopes = scopes(self, request.scope);
        let name = granted(&request.name)?;
        let change = match end(request.secs)? {
            None => Change::Revoke(name, scopes),
            Some(until) => Change::Grant(Grant { name, scope: first(scopes), until }),
        };
        switches::change(self, change)
    }

    fn switches(&self, Switches {}: Switches) -> Result<PolicyStatus, ControlError> {
        Ok(switches::status(self))
    }

    fn request_list(&self, request: RequestList) -> Result<RequestsReport, ControlError> {
        Ok(access_requests::list(self, &request))
    }

    fn request_grant(&self, request: RequestGrant) -> Result<SwitchesChanged, ControlError> {
        access_requests::grant(self, &request)
    }

    fn request_refuse(&self, request: RequestRefuse) -> Result<RequestRefused, ControlError> {
        access_requests::refuse(self, &request)
    }

    fn policy_dry_run(
        &self,
        request: PolicyDryRun,
        waiting: Parts<'_, AtWork>,
    ) -> Result<DryRunFound, ControlError> {
        dry_run::run(self, request, waiting)
    }

    fn trace(
        &self,
        request: Trace,
        sections: Parts<'_, WhySection>,
    ) -> Result<Explained, ControlError> {
        let mut question = TraceQuestion::read(&request.name, request.rtype.as_deref())?;
        question.dnssec_ok = request.dnssec;
        question.checking_disabled = request.checking_disabled;
        let found = trace::trace(&self.shared, question)?;
        found.into_iter().try_for_each(sections)?;
        Ok(Explained {})
    }

    fn why(
        &self,
        request: Why,
        sections: Parts<'_, WhySection>,
    ) -> Result<Explained, ControlError> {
        let now = wall_secs();
        let question = TraceQuestion::read(&request.name, request.rtype.as_deref())?;
        let this_machine = explain::THIS_MACHINE.to_string();
        let client = request.client.as_deref().unwrap_or(&this_machine);
        let state = self.shared.snapshot();
        let client = explain::given_client(&state, client, request.id.as_deref())?;
        let at = request.at.filter(|at| *at <= now && request.logged != Some(false));
        let past = at.map(|at| {
            let ((name, _), rtype) = (question.name_and_type(), request.rtype.as_deref());
            past::find(self, &state, &PastQuery { client: &client, name, rtype, at })
        });
        // The explanation is about the type of the past query, at the address of the server that
        // received it.
        let rtype = past.as_ref().and_then(Past::rtype).or(request.rtype.as_deref());
        let question = TraceQuestion::read(&request.name, rtype)?;
        let then = past
            .as_ref()
            .and_then(Past::listener)
            .and_then(|name| entrance(&state, name, None).ok());
        let entrance = match (request.listener.as_deref(), then) {
            (Some(name), _) => entrance(&state, name, request.transport)?,
            (None, Some(then)) => then,
            (None, None) => entrance_of(&state, "", request.transport),
        };
        let transport = transport_at(&state, entrance, request.transport);
        let at = request.at.map_or(At::Now(now), At::Then);
        let GivenClient { ip, device, .. } = client;
        let asker = InquiringClient { ip, device, entrance, transport };
        let found = explain::why(self, &question, asker, at)?;
        let past = past.map(|past| WhySection::Past(past.compared(self, &found)));
        past.into_iter().chain(found).try_for_each(sections)?;
        Ok(Explained {})
    }

    fn log_tail(
        &self,
        request: LogTail,
        lines: Parts<'_, LogLine>,
    ) -> Result<LogFound, ControlError> {
        log::tail(self, request, lines)
    }

    fn log_search(
        &self,
        request: LogSearch,
        waiting: Parts<'_, AtWork>,
    ) -> Result<LogPage, ControlError> {
        log::search(self, &request, waiting)
    }

    fn log_count(
        &self,
        request: LogCount,
        waiting: Parts<'_, AtWork>,
    ) -> Result<LogCounted, ControlError> {
        log::count(self, &request, waiting)
    }

    fn log_show(&self, request: LogShow) -> Result<LogEntry, ControlError> {
        log::show(self, request)
    }

    fn log_statistics(&self, request: LogStatistics) -> Result<LogOverview, ControlError> {
        log::statistics(self, &request)
    }

    fn log_series(&self, request: LogSeries) -> Result<LogSteps, ControlError> {
        log::series(self, &request)
    }

    fn log_clients(&self, request: LogClients) -> Result<LoggedClients, ControlError> {
        log::clients(self, &request)
    }

    fn log_prune(
        &self,
        request: LogPrune,
        waiting: Parts<'_, AtWork>,
    ) -> Result<LogPruned, ControlError> {
        log::prune(self, &request, waiting)
    }

    fn anchors(&self, Anchors {}: Anchors) -> Result<AnchorsReport, ControlError> {
        Ok(self.show_anchors())
    }

    fn nta_list(&self, NtaList {}: NtaList) -> Result<NegativeAnchors, ControlError> {
        Ok(self.show_negative())
    }

    fn nta_add(&self, request: NtaAdd) -> Result<NegativeAdded, ControlError> {
        self.add_negative(&folded(&request.name)?, request.secs)
    }

    fn nta_remove(&self, request: NtaRemove) -> Result<NegativeRemoved, ControlError> {
        self.remove_negative(&folded(&request.name)?)
    }

    fn reload(&self, Reload {}: Reload) -> Result<Reloaded, ControlError> {
        self.reloader.reload().map(revisions::reloaded).map_err(revisions::refused)
    }

    fn config_history(&self, request: ConfigHistory) -> Result<Revisions, ControlError> {
        revisions::history(self, request.limit)
    }

    fn config_diff(&self, request: ConfigDiff) -> Result<RevisionDifference, ControlError> {
        revisions::difference(self, &request)
    }

    fn config_text(&self, request: ConfigText) -> Result<RevisionText, ControlError> {
        revisions::text(self, request.number)
    }

    fn config_show(&self, request: ConfigShow) -> Result<ShownConfig, ControlError> {
        revisions::show(self, request.table.as_deref())
    }

    fn config_check(&self, request: ConfigCheck) -> Result<CheckedChange, ControlError> {
        revisions::check(self, &request)
    }

    fn config_change(&self, request: ConfigChange) -> Result<RevisionAccepted, ControlError> {
        revisions::change(self, request)
    }

    fn config_rollback(&self, request: ConfigRollback) -> Result<RevisionAccepted, ControlError> {
        revisions::roll_back(self, request)
    }

    fn config_confirm(
        &self,
        ConfigConfirm {}: ConfigConfirm,
    ) -> Result<RevisionConfirmed, ControlError> {
        revisions::confirm(self)
    }

    fn zones_status(&self, request: ZonesStatus) -> Result<ZonesReport, ControlError> {
        zones::report(self, &request)
    }

    fn zone_records(&self, request: ZoneRecords) -> Result<ZonePage, ControlError> {
        zones::page(self, &request)
    }

    fn zone_edit(&self, request: ZoneEdit) -> Result<ZoneEdited, ControlError> {
        zone_edit::edit(self, &request)
    }

    fn zone_history(&self, request: ZoneHistory) -> Result<ZoneChanges, ControlError> {
        zone_edit::history(self, &request)
    }

    fn zone_reload(&self, request: ZoneReload) -> Result<ZonesReport, ControlError> {
        zones::reload(self, &request)
    }

    fn certificate_list(&self, _: CertificateList) -> Result<CertificatesReport, ControlError> {
        Ok(CertificatesReport { certificates: shown_certificates::of(self) })
    }

    fn certificate_renew(&self, _: CertificateRenew) -> Result<CertificatesReport, ControlError> {
        self.acme.order(wall_secs()).map_err(ControlError::Renewal)?;
        Ok(CertificatesReport { certificates: shown_certificates::of(self) })
    }

    fn connect(&self, request: Connect) -> Result<ConnectReport, ControlError> {
        connection::report(self, &request)
    }

    fn connect_document(&self, request: ConnectDocument) -> Result<ConnectFile, ControlError> {
        connection::file(self, &request)
    }

    fn pools_status(&self, request: PoolsStatus) -> Result<PoolsReport, ControlError> {
        pools::report(self, request.name.as_deref())
    }

    fn pool_control(&self, request: PoolControl) -> Result<PoolsReport, ControlError> {
        pools::control(self, &request)
    }

    fn pools_what_if(&self, request: PoolsWhatIf) -> Result<PoolAnswers, ControlError> {
        pools::what_if(self, &request)
    }

    fn zone_keys(&self, request: ZoneKeys) -> Result<ZoneKeysReport, ControlError> {
        zone_keys::report(self, &request)
    }

    fn zone_sign(&self, request: ZoneSign) -> Result<ZoneKeysReport, ControlError> {
        zone_keys::sign(self, &request)
    }

    fn zone_export(
        &self,
        request: ZoneExport,
        texts: Parts<'_, ZoneText>,
    ) -> Result<ZoneExported, ControlError> {
        zones::export(self, &request, texts)
    }

    fn backup(
        &self,
        request: Backup,
        lines: Parts<'_, BackupLine>,
    ) -> Result<BackedUp, ControlError> {
        backup::write(&source(self, &request), lines)
    }

    fn restore(&self, Restore {}: Restore) -> Result<RestoreStaged, ControlError> {
        let state = self.shared.snapshot();
        let directory = state.config.data.directory.as_path();
        let place = Place { directory, configuration: self.reloader.path() };
        let staged = backup::stage(place).map(RestoreStaged::from);
        self.note_waiting_restore();
        staged.map_err(|error| ControlError::BackupRefused(error.to_string()))
    }

    fn restore_cancel(
        &self,
        RestoreCancel {}: RestoreCancel,
    ) -> Result<WaitingRestore, ControlError> {
        let cancelled = backup::cancel(&self.shared.snapshot().config.data.directory);
        self.note_waiting_restore();
        cancelled.map_err(|error| match error {
            BackupError::NoneWaits => ControlError::NoRestoreWaits,
            error => ControlError::BackupRefused(error.to_string()),
        })
    }

    fn user_list(&self, UserList {}: UserList) -> Result<UsersReport, ControlError> {
        Ok(self.web.access.user_list())
    }

    fn user_add(&self, request: UserAdd) -> Result<UserReport, ControlError> {
        Ok(with_warnings(self.web.access.user_add(request)?, self))
    }

    fn user_change(&self, request: UserChange) -> Result<UserReport, ControlError> {
        Ok(with_warnings(self.web.access.user_change(request)?, self))
    }

    fn user_remove(&self, request: UserRemove) -> Result<UserRemoved, ControlError> {
        Ok(self.web.access.user_remove(&request.name)?)
    }

    fn token_list(&self, TokenList {}: TokenList) -> Result<TokensReport, ControlError> {
        Ok(self.web.access.token_list())
    }

    fn token_create(&self, request: TokenCreate) -> Result<TokenCreated, ControlError> {
        Ok(self.web.access.token_create(request)?)
    }

    fn token_revoke(&self, request: TokenRevoke) -> Result<TokenRevoked, ControlError> {
        Ok(self.web.access.token_revoke(&request.id)?)
    }

    fn session_list(&self, SessionList {}: SessionList) -> Result<SessionsReport, ControlError> {
        Ok(self.web.access.session_list())
    }

    fn session_end(&self, request: SessionEnd) -> Result<SessionEnded, ControlError> {
        Ok(self.web.access.session_end(&request.id)?)
    }
}

/// Adds a warning about groups in a user's limits that the configuration does not have.
fn with_warnings(mut user: UserReport, running: &Running) -> UserReport {
    let state = running.shared.snapshot();
    let known = state.config.policy.vocabulary().groups;
    let unknown = user.limits.groups.iter().filter(|name| !known.contains(*name));
    let warning = |name: &String| format!("the configuration has no group {name:?}");
    user.warnings = unknown.map(warning).collect();
    user
}

fn store_counts(stats: &StoreStats) -> StoreCounts {
    StoreCounts {
        entries: stats.entries,
        bytes: stats.bytes_used,
        bytes_limit: stats.bytes_limit,
        inserts: stats.inserts,
        evictions: stats.evicted_unvisited + stats.evicted_main + stats.evicted_bucket,
        expired: stats.outlived,
    }
}

/// Returns the scopes that a requested scope may mean. A client given by its address may also have
/// a name.
fn scopes(running: &Running, scope: Scope) -> Vec<Scope> {
    match scope {
        Scope::Client(client) => explain::client_scopes(&running.shared.snapshot(), client),
        scope => vec![scope],
    }
}

fn first(scopes: Vec<Scope>) -> Scope {
    scopes.into_iter().next().unwrap_or_default()
}

/// Returns the sources of a backup.
fn source(running: &Running, request: &Backup) -> backup::BackupSource {
    let state = running.shared.snapshot();
    let directory = state.config.data.directory.clone();
    let log = || state.config.query_log.directory_in(&directory);
    backup::BackupSource {
        configuration: running.reloader.path().map(|_| running.reloader.revisions.text()),
        query_log: request.query_log.then(log),
        at: wall_secs(),
        directory,
    }
}

/// Returns the name for which a grant suspends filtering. A prefix `*.` is removed, because a grant
/// includes the names below its name.
fn granted(name: &str) -> Result<String, ControlError> {
    let name = name.strip_prefix("*.").unwrap_or(name);
    if name.is_ascii() {
        return Ok(name.to_owned());
    }
    typed_name(name)
        .map(|wire| shown(&wire))
        .map_err(|error| ControlError::InvalidName(error.to_string()))
}

/// Returns the Unix second at which a pause or grant that begins now ends; `None` if it ends now.
///
/// # Errors
/// The duration is too long.
fn end(secs: u64) -> Result<Option<u64>, ControlError> {
    let most_secs = MAX_SPAN.as_secs();
    match secs {
        0 => Ok(None),
        _ if secs <= most_secs => Ok(Some(wall_secs().saturating_add(secs))),
        _ => Err(ControlError::PauseTooLong { secs, most_secs }),
    }
}

/// Parses and folds a name.
fn folded(name: &str) -> Result<FoldedNameBuf, ControlError> {
    let wire = typed_name(name).map_err(|error| ControlError::InvalidName(error.to_string()))?;
    FoldedNameBuf::from_wire(&wire).map_err(|error| ControlError::InvalidName(error.to_string()))
}

/// Removes a name and all final answers from the caches: an answer may contain the name behind an
/// alias. Final answers are assembled again from the RRset cache.
fn flush(running: &Running, name: &FoldedNameBuf, extent: FlushExtent) -> Flushed {
    let shared = &running.shared;
    let rrsets = shared.name_server.flush_rrsets(&[name.view()], extent);
    shared.name_server.failures.flush(name.view());
    // An NSEC range around this name may deny other names, and its keys may validate them.
    shared.forget_proofs();
    shared.name_server.packets.flush(FoldedName::ROOT);
    tracing::info!(%name, rrsets, "flushed");
    Flushed { rrsets }
}
