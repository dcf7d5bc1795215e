//! A server that remembers requests, and a client of its interface.

use std::future::poll_fn;
use std::net::IpAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use avocet_config::edit::{KeyEdit, edited};
use avocet_control::access::{
    AccessScope, Role, Secret, TokenCreate, TokenCreated, TokenList, TokenRevoke, TokenRevoked,
    TokensReport, UserAdd, UserChange, UserList, UserRemove, UserRemoved, UserReport, UsersReport,
};
use avocet_control::access_request::{
    RequestGrant, RequestList, RequestRefuse, RequestRefused, RequestsReport,
};
use avocet_control::backup::{
    BackedUp, Backup, BackupLine, Restore, RestoreCancel, RestoreStaged, WaitingRestore,
};
use avocet_control::cache::{CacheEntry, CacheStats, Dumped, Flushed};
use avocet_control::dry_run::{DryRunFound, PolicyDryRun};
use avocet_control::lists::{AtWork, ListReport, ListsReport, Refreshed};
use avocet_control::log::{
    LogCount, LogCounted, LogEntry, LogFound, LogLine, LogPage, LogPrune, LogPruned, LogSearch,
    LogShow, LogTail,
};
use avocet_control::log_fault::LogFault;
use avocet_control::policy::{PolicyStatus, SwitchesChanged};
use avocet_control::reload::Reloaded;
use avocet_control::request::{
    Anchors, Dump, Flush, FlushTree, Grant, ListsCheck, ListsRefresh, ListsStatus, Lookup, NtaAdd,
    NtaList, NtaRemove, Pause, Reload, Stats, Status, Switches, Trace, Why,
};
use avocet_control::revisions::{
    CheckedChange, ConfigChange, ConfigCheck, ConfigConfirm, ConfigDiff, ConfigEdit, ConfigHistory,
    ConfigRollback, ConfigShow, ConfigText, RevisionAccepted, RevisionConfirmed,
    RevisionDifference, RevisionText, Revisions, ShownConfig,
};
use avocet_control::statistics::{LogOverview, LogSeries, LogStatistics, LogSteps, OutcomeCounts};
use avocet_control::status::ServerStatus;
use avocet_control::trust::{AnchorsReport, NegativeAdded, NegativeAnchors, NegativeRemoved};
use avocet_control::why::{CacheLook, Explained, WhySection};
use avocet_control::zones::{
    ZoneExport, ZoneExported, ZonePage, ZoneRecords, ZoneReload, ZoneText, ZonesReport, ZonesStatus,
};
use avocet_control::{Control, ControlError, Parts, Request as ControlRequest};
use axum::body::{Body, HttpBody, to_bytes};
use axum::http::{HeaderMap, Request, StatusCode};
use serde_json::{Value, json};

use super::issuer::FakeIssuer;
use super::replies::{accepted, counts, of, unchanged};
use crate::access::Access;
use crate::audit::AuditLog;
use crate::oidc::{OidcSettings, ProviderRequest, ProviderResponse, ProviderSilence};
use crate::{LinkSecurity, Peer, Surroundings, Web, WebStores};

pub(super) const PASSWORD: &str = "correct horse";

/// The server. It has negative trust anchors, a configuration, users and tokens, and no other
/// state.
pub(super) struct Remembering {
    pub(super) access: Arc<Access>,
    pub(super) seen: Mutex<Vec<String>>,
    /// The last requests that the interface adds fields to.
    pub(super) signed: Mutex<Vec<ControlRequest>>,
    anchors: Mutex<Vec<String>>,
    /// The texts of the configuration, by revision.
    pub(super) texts: Mutex<Vec<String>>,
    directory: PathBuf,
}

impl Remembering {
    fn saw(&self, request: impl Into<ControlRequest>) {
        let request = request.into();
        self.seen.lock().unwrap().push(request.command());
        let signed = matches!(
            request,
            ControlRequest::Why(_)
                | ControlRequest::ConfigChange(_)
                | ControlRequest::ConfigRollback(_)
        );
        if signed {
            self.signed.lock().unwrap().push(request);
        }
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

/// Entries of the dump: more than fit into the chunks that wait for a client.
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
        Ok(of(json!({"pauses": [], "grants": []})))
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

    fn log_search(&self, request: LogSearch) -> Result<LogPage, ControlError> {
        self.saw(request.clone());
        match request.cursor {
            Some(_) => Err(LogFault::InvalidCursor.into()),
            None => Ok(of(json!({"queries": [], "next": null, "examined": 0, "damaged": []}))),
        }
    }

    fn log_count(&self, request: LogCount) -> Result<LogCounted, ControlError> {
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
        // The time is another in each reply, as in the server.
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

    fn zone_reload(&self, request: ZoneReload) -> Result<ZonesReport, ControlError> {
        self.saw(request);
        Ok(of(json!({"zones": []})))
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
            _ => Ok(RestoreStaged { version: text, at: 7, files: 0 }),
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
}

struct Home(Option<Arc<FakeIssuer>>);

impl Surroundings for Home {
    fn is_known_host(&self, name: &str) -> bool {
        name == "dns.example.net"
    }
    fn is_trusted_proxy(&self, _: IpAddr) -> bool {
        false
    }
    fn is_local(&self, address: IpAddr) -> bool {
        matches!(address, IpAddr::V4(v4) if v4.is_private())
    }
    fn oidc(&self) -> Option<OidcSettings> {
        self.0.as_ref().map(|issuer| issuer.settings())
    }
    fn ask_provider(&self, request: &ProviderRequest) -> Result<ProviderResponse, ProviderSilence> {
        self.0.as_ref().map_or(Err(ProviderSilence(String::new())), |issuer| issuer.ask(request))
    }
}

/// The interface of a server with its own data directory.
pub(super) struct Site {
    pub(super) server: Arc<Remembering>,
    pub(super) audit: Arc<AuditLog>,
    web: Web,
    pub(super) directory: PathBuf,
    now: Arc<AtomicU64>,
}

impl Site {
    /// Starts without users.
    pub(super) fn empty() -> Self {
        Self::at(None)
    }

    /// Starts without users, next to a provider.
    pub(super) fn with_issuer() -> (Self, Arc<FakeIssuer>) {
        let issuer = Arc::new(FakeIssuer::new());
        let site = Self::at(Some(issuer.clone()));
        issuer.follow(site.now.clone());
        (site, issuer)
    }

    fn at(issuer: Option<Arc<FakeIssuer>>) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let directory =
            std::env::temp_dir().join(format!("avocet-web-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let now = Arc::new(AtomicU64::new(1_000_000));
        let clock = now.clone();
        let stores = WebStores::open(&directory, Arc::new(move || clock.load(Ordering::Relaxed)));
        let (access, audit) = (stores.access.clone(), stores.audit.clone());
        let server = Arc::new(Remembering {
            access,
            seen: Mutex::default(),
            signed: Mutex::default(),
            anchors: Mutex::default(),
            texts: Mutex::new(vec![String::new()]),
            directory: directory.clone(),
        });
        let web = Web::new(server.clone(), Arc::new(Home(issuer)), stores);
        Self { server, audit, web, directory, now }
    }

    /// Starts with the admin `ada`.
    pub(super) fn new() -> Self {
        let site = Self::empty();
        site.add("ada", Role::Admin);
        site
    }

    pub(super) fn add(&self, name: &str, role: Role) {
        let password = Secret::new(PASSWORD.to_owned());
        self.server
            .access
            .user_add(UserAdd { name: name.to_owned(), role, password, limits: None })
            .unwrap();
    }

    pub(super) fn pass(&self, secs: u64) {
        self.now.fetch_add(secs, Ordering::Relaxed);
    }

    /// Creates a token.
    pub(super) fn token(&self, scopes: &[AccessScope]) -> String {
        let request =
            TokenCreate { name: "t".to_owned(), scopes: scopes.to_vec(), secs: 1_000_000 };
        self.server.access.token_create(request).unwrap().token.reveal().to_owned()
    }

    /// The commands that the server got since the last call.
    pub(super) fn seen(&self) -> Vec<String> {
        std::mem::take(&mut *self.server.seen.lock().unwrap())
    }

    /// Sends a request from an address of this network.
    pub(super) fn send(&self, request: Sent) -> Received {
        self.send_from(request, IpAddr::from([10, 0, 0, 7]))
    }

    pub(super) fn send_from(&self, request: Sent, address: IpAddr) -> Received {
        let peer = Peer { address, security: LinkSecurity::Plain };
        runtime().block_on(async {
            let response = self.web.respond(request.0, peer).await;
            let (head, body) = response.into_parts();
            let body = to_bytes(body, usize::MAX).await.unwrap();
            Received { status: head.status, headers: head.headers, body: body.to_vec() }
        })
    }

    /// Sends requests whose clients stay and read nothing, all at the same time; then all go.
    /// Returns the status of each.
    pub(super) fn hold_all(&self, requests: Vec<Sent>) -> Vec<u16> {
        let peer = Peer { address: IpAddr::from([10, 0, 0, 7]), security: LinkSecurity::Plain };
        runtime().block_on(async {
            let mut held = Vec::new();
            for request in requests {
                held.push(self.web.respond(request.0, peer).await);
            }
            held.iter().map(|response| response.status().as_u16()).collect()
        })
    }

    /// Reads the first part of a reply that does not end by itself, lets something happen, and
    /// reads on while time passes. Returns once the reply ends.
    pub(super) fn follow(&self, request: Sent, happens: impl FnOnce()) {
        let peer = Peer { address: IpAddr::from([10, 0, 0, 7]), security: LinkSecurity::Plain };
        runtime().block_on(async {
            let response = self.web.respond(request.0, peer).await;
            assert_eq!(response.status(), StatusCode::OK);
            let mut body = response.into_body();
            assert!(next_part(&mut body).await, "the first part");
            for _ in 0..10 {
                tokio::time::advance(Duration::from_secs(1)).await;
                assert!(next_part(&mut body).await, "the author has its rights");
            }
            happens();
            tokio::time::advance(Duration::from_secs(1)).await;
            // Parts that wait may still come.
            while next_part(&mut body).await {}
        });
    }

    /// Logs a user in. Returns the reply; the cookie and the value against forged requests are in
    /// it.
    pub(super) fn log_in(&self, name: &str) -> Browser {
        let fields = json!({"name": name, "password": PASSWORD});
        let reply = self.send(Sent::new("POST", "/api/v1/session").json(&fields));
        assert_eq!(reply.status, StatusCode::OK, "{reply:?}");
        Browser::of(&reply)
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Returns whether a body has another part.
async fn next_part(body: &mut Body) -> bool {
    poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await.is_some()
}

/// A runtime whose clock stands still while requests are at work, and jumps when all wait.
fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap()
}

/// A request.
pub(super) struct Sent(pub(super) Request<Body>);

impl Sent {
    pub(super) fn new(method: &str, path: &str) -> Self {
        let request = Request::builder().method(method).uri(path).header("host", "127.0.0.1:8053");
        Self(request.body(Body::empty()).unwrap())
    }

    pub(super) fn header(mut self, name: &'static str, value: &str) -> Self {
        self.0.headers_mut().insert(name, value.parse().unwrap());
        self
    }

    pub(super) fn body(mut self, body: impl Into<Body>) -> Self {
        *self.0.body_mut() = body.into();
        self
    }

    pub(super) fn json(self, fields: &Value) -> Self {
        self.header("content-type", "application/json").body(fields.to_string())
    }

    pub(super) fn token(self, token: &str) -> Self {
        self.header("authorization", &format!("Bearer {token}"))
    }

    /// Sends what a browser of this site sends.
    pub(super) fn by(self, browser: &Browser) -> Self {
        let sent = self.header("cookie", &format!("other=1; {}", browser.cookie));
        sent.header("x-csrf-token", &browser.csrf).header("sec-fetch-site", "same-origin")
    }
}

/// A browser with a session.
pub(super) struct Browser {
    pub(super) cookie: String,
    pub(super) csrf: String,
}

impl Browser {
    pub(super) fn of(reply: &Received) -> Self {
        let cookie = reply.header("set-cookie").split(';').next().unwrap().to_owned();
        Self { cookie, csrf: reply.json()["csrf"].as_str().unwrap().to_owned() }
    }
}

/// A response.
#[derive(Debug)]
pub(super) struct Received {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
}

impl Received {
    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    pub(super) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// Checks that it is a problem with a status and a code.
    #[track_caller]
    pub(super) fn check(&self, status: u16, code: &str) {
        let json = self.json();
        assert_eq!((self.status.as_u16(), json["code"].as_str()), (status, Some(code)), "{json}");
        assert_eq!(self.header("content-type"), "application/problem+json");
        assert_eq!(json["status"], status);
        assert!(!json["next"].as_str().unwrap().is_empty(), "{json}");
    }
}
