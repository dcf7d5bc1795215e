//! One request to a route, from its headers to the response.
//!
//! ```text
//!   author (token, session) ─> scope ─> forged? ─> fields ─> turn ─> blocking thread:
//!                                                             If-Match ─> server ─> audit ─> reply
//! ```

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use avocet_control::access::{AccessScope, Secret};
use avocet_control::revisions::{ChangeReach, Submitter};
use avocet_control::{Control, ControlError, Disconnected, Effect, Request as ControlRequest};
use avocet_io::ownership::{self, Permit};
use axum::body::Body;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, IF_MATCH, IF_NONE_MATCH, ORIGIN};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use serde_json::{Map, Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use zeroize::Zeroizing;

use crate::WebStores;
use crate::access::{Access, Principal, Proof};
use crate::audit::{AuditEntry, AuditLog, counted, recorded, recorded_plain};
use crate::caller::{Caller, Surroundings};
use crate::conditional::{IdempotencyKeys, KeyUse, MAX_KEY, fingerprint, matches, tag};
use crate::cookies::{COOKIES, FLOW_COOKIES, cookie};
use crate::counts::WebCounts;
use crate::input;
use crate::oidc::Flow;
use crate::openapi::Interface;
use crate::own::{self, OwnContext, OwnReply};
use crate::presence::Presence;
use crate::problem::{
    BUSY, CHANGED, FORBIDDEN, FORGED, INTERNAL, INVALID_VALUE, KEY_REUSED, LIMIT_REACHED,
    MALFORMED, Problem, REPEATED, UNAUTHENTICATED,
};
use crate::refusals::Refusals;
use crate::reply::{JSON, WebReply, kept, repeated, response, typed_response};
use crate::route::{Does, Needs, OwnCall, ROUTES, ReplyForm, Route, Verb};
use crate::standing::{Standing, end_foreign_sessions};
use crate::stream::{self, Framing};
use crate::upload;

/// Maximum number of requests that the server works on at once, so that they leave CPU time to the
/// workers.
const MAX_REQUESTS: usize = 8;
/// Maximum number of searches of the query log at once. Searches are limited separately, so that
/// other requests do not wait for them.
const MAX_SEARCHES: usize = 4;
/// Maximum number of simultaneous replies of unknown length.
const MAX_STREAMS: usize = 4;
/// Maximum number of streams of events at once. Each stream takes a thread and a connection, and
/// each open page with live data has a stream.
const MAX_EVENT_STREAMS: usize = 24;
/// Longest wait of a request until it is processed; this is longer than a trace takes.
const TURN_PATIENCE: Duration = Duration::from_secs(15);
/// Maximum number of parts of a reply that are collected.
const MAX_PARTS: usize = 10_000;
/// The results that are recorded for clients that are not logged in. Attempts with these results
/// are slowed down. If other results were recorded, anybody could fill the audit log.
const ATTEMPTS: [&str; 5] = ["ok", "unauthenticated", "code-needed", "setup-over", "forbidden"];
/// Commands that are sent with POST, but change no state or only start work that the server also
/// does without a request. These commands may take long.
const STATELESS: [&str; 4] = ["trace", "policy-dry-run", "lists-refresh", "log-prune"];

/// The state that all requests share.
pub(crate) struct Shared {
    pub(crate) control: Arc<dyn Control + Send + Sync>,
    pub(crate) access: Arc<Access>,
    pub(crate) audit: Arc<AuditLog>,
    surroundings: Arc<dyn Surroundings>,
    flow: Flow,
    counts: Arc<WebCounts>,
    pub(crate) interface: Interface,
    pub(crate) document: Vec<u8>,
    turns: Arc<Semaphore>,
    searches: Arc<Semaphore>,
    streams: Arc<Semaphore>,
    event_streams: Arc<Semaphore>,
    uploads: Arc<Semaphore>,
    /// The path of the file with the body of an upload.
    upload_path: PathBuf,
    /// Held by a request that changes a resource with an `ETag`, from the comparison with
    /// `If-Match` until the change is made. Two such requests could otherwise both match.
    writes: Mutex<()>,
    keys: IdempotencyKeys,
    refusals: Refusals,
}

impl Shared {
    pub(crate) fn new(
        control: Arc<dyn Control + Send + Sync>,
        surroundings: Arc<dyn Surroundings>,
        WebStores { access, audit, counts, directory }: WebStores,
    ) -> Self {
        let interface = Interface::generate();
        let document = serde_json::to_vec(&interface.document).unwrap_or_default();
        Self {
            control,
            surroundings,
            flow: Flow::new(),
            access,
            audit,
            counts,
            interface,
            document,
            turns: Arc::new(Semaphore::new(MAX_REQUESTS)),
            searches: Arc::new(Semaphore::new(MAX_SEARCHES)),
            streams: Arc::new(Semaphore::new(MAX_STREAMS)),
            event_streams: Arc::new(Semaphore::new(MAX_EVENT_STREAMS)),
            uploads: Arc::new(Semaphore::new(1)),
            upload_path: directory.join(upload::NAME),
            writes: Mutex::default(),
            keys: IdempotencyKeys::default(),
            refusals: Refusals::default(),
        }
    }
}

/// Serves a request to a route.
pub(crate) async fn serve(
    shared: Arc<Shared>,
    route: &'static Route,
    request: Request<Body>,
) -> Response<Body> {
    let (head, body) = request.into_parts();
    if route.does == Does::Own(OwnCall::Document) {
        return typed_response(shared.document.clone(), JSON);
    }
    match Exchange::begin(shared, route, head) {
        Ok(exchange) => exchange.run(body).await.unwrap_or_else(|problem| problem.response()),
        Err(problem) => problem.response(),
    }
}

/// A request that its author may send.
struct Exchange {
    shared: Arc<Shared>,
    route: &'static Route,
    head: Parts,
    caller: Caller,
    author: Option<Principal>,
    session: Option<Secret>,
    /// The cookie of a log-in by the provider.
    flow: Option<Secret>,
    presence: Presence,
}

impl Exchange {
    /// Checks the author of the request, the author's permission, and whether another site made the
    /// browser send the request.
    fn begin(shared: Arc<Shared>, route: &'static Route, head: Parts) -> Result<Self, Problem> {
        let caller = head.extensions.get::<Caller>().cloned();
        let caller = caller.ok_or_else(|| INTERNAL.of("the request has no address"))?;
        let session = cookie(&head.headers, COOKIES[caller.security as usize]);
        let flow = cookie(&head.headers, FLOW_COOKIES[caller.security as usize]);
        end_foreign_sessions(&shared.access, &*shared.surroundings);
        let author = author(&shared.access, &head.headers, session.as_ref())?;
        let presence = Presence::default();
        let exchange = Self { shared, route, head, caller, author, session, flow, presence };
        exchange.check_forgery()?;
        exchange.check_scope().inspect_err(|problem| {
            if exchange.route.verb != Verb::Get && exchange.author.is_some() {
                exchange.record(&Map::new(), problem.code().to_owned());
            }
        })?;
        Ok(exchange)
    }

    fn check_scope(&self) -> Result<(), Problem> {
        match (self.route.needs, &self.author) {
            (Needs::Nothing, _) => Ok(()),
            (_, None) => Err(UNAUTHENTICATED.of("the request has neither session nor token")),
            (Needs::Session, Some(Principal { proof: Proof::Session(_), .. })) => Ok(()),
            (Needs::Session, Some(_)) => {
                Err(UNAUTHENTICATED.of("this needs the session of a user, not a token"))
            }
            (Needs::Scope(_), Some(author)) => {
                let mut scopes = self.route.scopes();
                let lacking = scopes.find(|scope| !author.scopes.contains(scope));
                lacking.map_or(Ok(()), |scope| Err(lacks(author, scope)))
            }
        }
    }

    /// Refuses a change that another site may have made the browser send.
    fn check_forgery(&self) -> Result<(), Problem> {
        let header = |name: &str| self.head.headers.get(name).and_then(|value| value.to_str().ok());
        if self.route.verb == Verb::Get {
            return Ok(());
        }
        if header("sec-fetch-site").is_some_and(|site| site != "same-origin" && site != "none") {
            return Err(FORGED.of("the browser sends it for another site"));
        }
        if let Some(origin) = header(ORIGIN.as_str()) {
            let host = header(HOST.as_str()).unwrap_or_default();
            let from = origin.split_once("://").map_or("", |(_, from)| from);
            if !from.eq_ignore_ascii_case(host) {
                return Err(FORGED.of(format!("it comes from {origin:?}")));
            }
        }
        let is_session = matches!(&self.author, Some(Principal { proof: Proof::Session(_), .. }));
        if !is_session || self.route.needs == Needs::Nothing {
            return Ok(());
        }
        let session = self.session.as_ref().map_or("", Secret::reveal);
        let has_csrf = |value| self.shared.access.has_csrf(session, value);
        match header("x-csrf-token").is_some_and(has_csrf) {
            true => Ok(()),
            false => Err(FORGED.of("the header X-CSRF-Token is missing or wrong")),
        }
    }

    async fn run(self, body: Body) -> Result<Response<Body>, Problem> {
        if let Does::Upload(_) = self.route.does {
            return self.upload(body).await;
        }
        let fields = match self.route.verb.has_body() {
            true => {
                let max_body = self.route.max_body();
                input::of_body(&self.head.headers, body, max_body).await?
            }
            false => {
                let known = self.shared.interface.query_fields(self.route);
                input::of_query(&self.head.uri, known)?
            }
        };
        self.check_limits(&fields)?;
        match self.route.does {
            Does::Call(command, ReplyForm::Lines) => {
                let request = self.admitted(command, fields)?;
                return self.stream(request, Framing::Lines).await;
            }
            Does::Call(command, ReplyForm::Events) => {
                let request = self.admitted(command, fields)?;
                return self.stream(request, Framing::Events).await;
            }
            Does::Call(..) | Does::Entries(_) | Does::Own(_) | Does::Upload(_) => {}
        }
        self.begin_work(fields).await
    }

    /// Refuses requests beyond the limits of the user or token, before any work.
    fn check_limits(&self, fields: &Map<String, Value>) -> Result<(), Problem> {
        let Some(author) = self.limited() else { return Ok(()) };
        let is_beyond = match self.route.does {
            Does::Call(command, _) | Does::Upload(command) => {
                let admitted = self.admitted(command, fields.clone());
                // A malformed request is refused later, with its own problem and entry.
                admitted.is_err_and(|problem| problem.code() == FORBIDDEN.code())
            }
            // The configuration and the audit log are about all users.
            Does::Entries(_) | Does::Own(OwnCall::Audit) => true,
            Does::Own(_) => false,
        };
        if is_beyond && self.route.verb != Verb::Get {
            self.record(&self.recorded(fields), FORBIDDEN.code().to_owned());
        }
        if is_beyond { Err(beyond(author)) } else { Ok(()) }
    }

    /// Returns the author if the author has limits.
    fn limited(&self) -> Option<&Principal> {
        self.author.as_ref().filter(|author| !author.limits.is_empty())
    }

    /// Returns a request of the control socket within the limits of the user or token.
    fn admitted(
        &self,
        command: &str,
        fields: Map<String, Value>,
    ) -> Result<ControlRequest, Problem> {
        let request = request(command, fields)?;
        let Some(author) = self.limited() else { return Ok(request) };
        author.limits.admit(request).ok_or_else(|| beyond(author))
    }

    /// Calls the server within the limits of the user or token.
    fn call_within(
        &self,
        command: &str,
        fields: Map<String, Value>,
        form: ReplyForm,
    ) -> Result<Value, Problem> {
        let (control, request) = (&*self.shared.control, self.admitted(command, fields)?);
        let presence = &self.presence;
        let Some(author) = self.limited() else {
            return call(control, request, form, presence);
        };
        let reply = call(control, request.clone(), form, presence)?;
        author.limits.trim(&request, reply).ok_or_else(|| beyond(author))
    }

    /// Stores the body as a file, and then calls the server. Only one upload is stored at a time.
    async fn upload(self, body: Body) -> Result<Response<Body>, Problem> {
        let place = self.shared.uploads.clone().try_acquire_owned();
        let _place = place.map_err(|_| BUSY.of("another upload is in progress").after(5))?;
        upload::store(&self.head.headers, body, &self.shared.upload_path).await?;
        self.begin_work(Map::new()).await
    }

    async fn begin_work(self, fields: Map<String, Value>) -> Result<Response<Body>, Problem> {
        let turn = self.turn().await?;
        let security = self.caller.security;
        // Dropped with this future if the client disconnects.
        let _client = self.presence.begin();
        let work = move || {
            let _turn = turn;
            self.work(fields)
        };
        let reply = tokio::task::spawn_blocking(work).await;
        let reply = reply.map_err(|_| INTERNAL.of("a panic interrupted the work"))??;
        Ok(response(reply, security))
    }

    async fn turn(&self) -> Result<OwnedSemaphorePermit, Problem> {
        let is_search =
            self.route.is_search() || self.limited().is_some() && self.route.is_overview();
        let turns = if is_search { &self.shared.searches } else { &self.shared.turns };
        let turn = timeout(TURN_PATIENCE, turns.clone().acquire_owned()).await;
        let busy = || BUSY.of("too many requests at once").after(1);
        turn.map_err(|_| busy())?.map_err(|_| busy())
    }

    async fn stream(
        self,
        request: ControlRequest,
        framing: Framing,
    ) -> Result<Response<Body>, Problem> {
        let places = match framing {
            Framing::Lines => &self.shared.streams,
            Framing::Events => &self.shared.event_streams,
        };
        let place = places.clone().try_acquire_owned();
        let place = place.map_err(|_| BUSY.of("too many long replies at once").after(5))?;
        if request.effect() == Effect::Reveals {
            self.record(&Map::new(), "ok".to_owned());
        }
        let (sender, receiver) = stream::parts(framing, self.standing());
        let control = self.shared.control.clone();
        tokio::task::spawn_blocking(move || {
            let _place = place;
            sender.answer(request, &*control);
        });
        let mut response = Response::new(receiver.begin().await?);
        let media = HeaderValue::from_static(framing.media());
        response.headers_mut().insert(CONTENT_TYPE, media);
        Ok(response)
    }

    /// Serves the request on a thread that may block. A change continues even if the client has
    /// disconnected, because a change and its entry in the audit log belong together.
    fn work(self, fields: Map<String, Value>) -> Result<WebReply, Problem> {
        // Held until the audit log has its entry: another process that takes over reads both.
        let _change = self.change()?;
        let key = self.key(&fields)?;
        if let Some((key, fingerprint)) = &key {
            let now = self.shared.access.now();
            match self.shared.keys.begin(key, fingerprint, now) {
                KeyUse::First => {}
                KeyUse::Repeated(kept) => return Ok(repeated(kept)),
                KeyUse::InProgress => return Err(REPEATED.of("the first request is at work")),
                KeyUse::OtherRequest => {
                    return Err(KEY_REUSED.of("the first request with this key was another one"));
                }
                KeyUse::Full => return Err(BUSY.of("too many idempotency keys at once").after(1)),
            }
        }
        let (mut recorded, unread) = (self.recorded(&fields), counted(&fields));
        if let Does::Entries(call) = self.route.does
            && let Some(id) = call.named(&fields)
        {
            recorded.entry("id").or_insert(id.into());
        }
        let result = self.perform(fields);
        let is_log_in =
            matches!(self.route.does, Does::Own(OwnCall::SessionBegin | OwnCall::ProviderFinish));
        if self.route.verb != Verb::Get || is_log_in {
            let code = result.as_ref().err().map_or("ok", Problem::code);
            if is_log_in {
                self.shared.counts.logged_in(code);
            }
            if code == MALFORMED.code() {
                recorded = unread;
            }
            if let Ok(WebReply { user: Some(user), .. }) = &result {
                recorded.insert("name".to_owned(), user.as_str().into());
            }
            if self.author.is_some() || ATTEMPTS.contains(&code) {
                self.record(&recorded, code.to_owned());
            }
        }
        if let Some((key, _)) = &key {
            match &result {
                Ok(reply) => self.shared.keys.finish(key, kept(reply)),
                Err(_) => self.shared.keys.abandon(key),
            }
        }
        result
    }

    /// Begins a change of the state, which waits while another process takes over; `None` if the
    /// request changes nothing, or only makes the server do what it does by itself.
    fn change(&self) -> Result<Option<Permit<'static>>, Problem> {
        let is_of_state = match self.route.does {
            Does::Call(command, _) => self.route.verb != Verb::Get && !STATELESS.contains(&command),
            Does::Own(OwnCall::ProviderFinish) => true,
            Does::Own(_) | Does::Upload(_) | Does::Entries(_) => self.route.verb != Verb::Get,
        };
        let change = is_of_state.then(ownership::change).transpose();
        change.map_err(|fault| BUSY.of(fault.to_string()).after(1))
    }

    /// Returns the idempotency key of the request together with the author, and the fingerprint of
    /// the request.
    fn key(&self, fields: &Map<String, Value>) -> Result<Option<(String, String)>, Problem> {
        let Some(key) = self.head.headers.get("idempotency-key") else { return Ok(None) };
        let is_call = matches!(self.route.does, Does::Call(..) | Does::Entries(_));
        if self.route.verb != Verb::Post || !is_call {
            return Ok(None);
        }
        if !(1..=MAX_KEY).contains(&key.len()) {
            let message = format!("Idempotency-Key: expected 1 to {MAX_KEY} octets");
            return Err(INVALID_VALUE.of(message));
        }
        let author = match &self.author {
            Some(Principal { proof: Proof::Token(id), .. }) => id,
            Some(Principal { name, .. }) => name,
            None => "",
        };
        let by = self.proof();
        let content = Zeroizing::new(Value::Object(fields.clone()).to_string());
        let request = fingerprint(&[self.route.path.as_bytes(), content.as_bytes()]);
        let key = fingerprint(&[by.as_bytes(), author.as_bytes(), key.as_bytes()]);
        Ok(Some((key, request)))
    }

    fn perform(&self, fields: Map<String, Value>) -> Result<WebReply, Problem> {
        match self.route.does {
            Does::Own(call) => {
                let context = OwnContext {
                    access: &self.shared.access,
                    audit: &self.shared.audit,
                    author: self.author.as_ref(),
                    session: self.session.as_ref(),
                    from: self.caller.address,
                    nearness: self.caller.nearness,
                    flow: &self.shared.flow,
                    flow_cookie: self.flow.as_ref(),
                    surroundings: &*self.shared.surroundings,
                };
                let OwnReply { content, cookie } = own::perform(call, fields, &context)?;
                Ok(WebReply { cookie, ..WebReply::own(content) })
            }
            Does::Upload(command) => {
                Ok(WebReply::of(self.call_within(command, fields, ReplyForm::End)?))
            }
            Does::Call(..) | Does::Entries(_) => {
                let _write = self.route.guards.map(|path| {
                    let write = self.shared.writes.lock().unwrap_or_else(PoisonError::into_inner);
                    self.compare(path).map(|()| write)
                });
                let _write = _write.transpose()?;
                let value = self.call_server(fields)?;
                let tag = self.is_tagged().then(|| tag(&value));
                let header = self.head.headers.get(IF_NONE_MATCH).and_then(|one| one.to_str().ok());
                let is_known = tag
                    .as_ref()
                    .is_some_and(|tag| header.is_some_and(|header| matches(header, tag)));
                let reply = match self.route.does {
                    Does::Call(_, ReplyForm::File(media)) => WebReply::file(&value, media),
                    _ => WebReply::of(value),
                };
                let mut reply = WebReply { tag, ..reply };
                if is_known {
                    (reply.status, reply.body) = (StatusCode::NOT_MODIFIED, Zeroizing::default());
                }
                Ok(reply)
            }
        }
    }

    fn call_server(&self, fields: Map<String, Value>) -> Result<Value, Problem> {
        let control = &*self.shared.control;
        match self.route.does {
            Does::Call(command, form) => {
                self.call_within(command, self.signed(command, fields), form)
            }
            Does::Entries(call) => {
                self.shared.interface.tables.perform(call, fields, (control, self.submitter()))
            }
            Does::Own(_) | Does::Upload(_) => Ok(Value::Null),
        }
    }

    /// Returns the sender of a change, for the history.
    fn submitter(&self) -> Submitter {
        Submitter {
            author: self.author.as_ref().map(|author| author.name.clone()),
            source: Some(self.caller.address.to_string()),
            comment: None,
            reach: self.reach(),
        }
    }

    /// Adds the author and the address of a change to the fields that the history shows. Removes
    /// logged queries for authors that may not read them.
    fn signed(&self, command: &str, mut fields: Map<String, Value>) -> Map<String, Value> {
        let name = fields.get("name").and_then(Value::as_str).unwrap_or_default();
        let may_read = |author: &Principal| {
            author.scopes.contains(&AccessScope::QueriesRead) && author.limits.reads_log_of(name)
        };
        if command == "why" && !self.author.as_ref().is_some_and(may_read) {
            fields.insert("logged".to_owned(), false.into());
        }
        if matches!(command, "config-check" | "policy-dry-run") {
            fields.insert("reach".to_owned(), json!(self.reach()));
        }
        if matches!(command, "config-change" | "config-rollback") {
            let comment = fields.get("by").and_then(|by| by.get("comment")).cloned();
            let mut by = json!(self.submitter());
            by["comment"] = json!(comment);
            fields.insert("by".to_owned(), by);
        }
        fields
    }

    /// Returns the keys of the configuration that the author may change.
    fn reach(&self) -> ChangeReach {
        let may = |author: &Principal| author.scopes.contains(&AccessScope::AccessWrite);
        match self.author.as_ref().is_some_and(may) {
            true => ChangeReach::All,
            false => ChangeReach::NotAccess,
        }
    }

    /// Returns the author of the request with its rights, so that a long reply can end when the
    /// author loses them.
    fn standing(&self) -> Option<Standing> {
        Some(Standing {
            access: self.shared.access.clone(),
            surroundings: self.shared.surroundings.clone(),
            author: self.author.clone()?,
            session: self.session.clone(),
        })
    }

    /// Returns whether writes compare the entity tag of this route's resource.
    fn is_tagged(&self) -> bool {
        // A part of the resource has another tag than the whole.
        self.route.verb == Verb::Get
            && self.head.uri.query().is_none_or(str::is_empty)
            && ROUTES.iter().any(|other| other.guards == Some(self.route.path))
    }

    /// Compares a resource with `If-Match`, if the request has it.
    fn compare(&self, path: &str) -> Result<(), Problem> {
        let Some(header) = self.head.headers.get(IF_MATCH) else { return Ok(()) };
        let mut routes = ROUTES.iter().filter(|one| one.path == path && one.verb == Verb::Get);
        let control = &*self.shared.control;
        let present = match routes.next().map(|route| route.does) {
            Some(Does::Call(command, form)) => self.call_within(command, Map::new(), form)?,
            Some(Does::Entries(read)) => {
                let by = Submitter::default();
                self.shared.interface.tables.perform(read, Map::new(), (control, by))?
            }
            _ => return Ok(()),
        };
        let present = tag(&present);
        match header.to_str().is_ok_and(|header| matches(header, &present)) {
            true => Ok(()),
            false => Err(CHANGED.of(format!("its ETag is {present}"))),
        }
    }

    fn proof(&self) -> &'static str {
        match self.author.as_ref().map(|author| &author.proof) {
            Some(Proof::Session(_)) => "session",
            Some(Proof::Token(_)) => "token",
            None => "none",
        }
    }

    /// Returns the recorded form of the request's fields: the fields of the route, without secrets.
    fn recorded(&self, fields: &Map<String, Value>) -> Map<String, Value> {
        let known = self.shared.interface.query_fields(self.route);
        let is_known = |name: &str| {
            known.iter().any(|(own, field)| field.within.as_ref().unwrap_or(own) == name)
        };
        match self.route.does {
            Does::Call(command, _) if request(command, fields.clone()).is_ok() => recorded(fields),
            Does::Call(..) => counted(fields),
            Does::Entries(_) | Does::Own(_) | Does::Upload(_) => recorded_plain(fields, is_known),
        }
    }

    /// Records the request. Of the refused requests of one author, only some are recorded.
    fn record(&self, fields: &Map<String, Value>, result: String) {
        let mut fields = fields.clone();
        if let Some(author) = self.author.as_ref().filter(|_| result != "ok") {
            let author = format!("{}:{}", self.proof(), author.name);
            match self.shared.refusals.admit(&author, self.shared.access.now()) {
                None => return,
                Some(0) => {}
                Some(left_out) => drop(fields.insert("left-out".to_owned(), left_out.into())),
            }
        }
        // Before a log-in, the name is the one that the client claims.
        let claimed = || fields.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        self.shared.audit.record(&AuditEntry {
            at: self.shared.access.now(),
            who: self.author.as_ref().map_or_else(claimed, |author| author.name.clone()),
            by: self.proof().to_owned(),
            from: self.caller.address.to_string(),
            what: format!("{} {}", self.route.verb.method(), self.route.full_path()),
            fields,
            result,
        });
    }
}

/// Returns the problem of a request beyond the limits of its author.
fn beyond(author: &Principal) -> Problem {
    let problem = FORBIDDEN.of(format!("{:?} is limited to groups or zones", author.name));
    problem.then("name a group or a zone that GET /api/v1/session shows, or ask an admin")
}

fn lacks(author: &Principal, scope: AccessScope) -> Problem {
    FORBIDDEN.of(format!("{:?} does not have the scope {scope}", author.name))
}

/// Returns the author of a request. A token takes precedence over a session.
fn author(
    access: &Access,
    headers: &HeaderMap,
    session: Option<&Secret>,
) -> Result<Option<Principal>, Problem> {
    if let Some(header) = headers.get(AUTHORIZATION) {
        let header = header.to_str().unwrap_or_default();
        let token =
            header.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        let owner = token.and_then(|(_, token)| access.of_token(token.trim()));
        let wrong = || UNAUTHENTICATED.of("the token is wrong, was revoked, or has expired");
        return owner.map(Some).ok_or_else(wrong);
    }
    Ok(session.and_then(|id| access.of_session(id.reveal())))
}

pub(crate) fn request(
    command: &str,
    mut fields: Map<String, Value>,
) -> Result<ControlRequest, Problem> {
    fields.insert("command".to_owned(), command.into());
    serde_json::from_value(Value::Object(fields)).map_err(|error| MALFORMED.of(error.to_string()))
}

/// Calls the server, and forms the reply. A request that changes nothing ends when its client
/// disconnects.
fn call(
    control: &(dyn Control + Send + Sync),
    request: ControlRequest,
    form: ReplyForm,
    presence: &Presence,
) -> Result<Value, Problem> {
    let mut parts: Vec<Value> = Vec::new();
    let mut is_full = false;
    let reads = request.effect() == Effect::Reads;
    let mut collect = |part: &[u8]| {
        if reads {
            presence.check()?;
        }
        if matches!(form, ReplyForm::WithParts(_)) {
            is_full = parts.len() >= MAX_PARTS;
            if is_full {
                return Err(Disconnected);
            }
            parts.push(serde_json::from_slice(part).unwrap_or_default());
        }
        Ok(())
    };
    let end = request.perform(control, &mut collect);
    if is_full {
        return Err(LIMIT_REACHED.of(format!("the reply has more than {MAX_PARTS} parts")));
    }
    let mut end = end.map_err(|error: ControlError| Problem::from(error))?;
    if let Value::Object(fields) = &mut end {
        match form {
            ReplyForm::End | ReplyForm::Lines | ReplyForm::Events | ReplyForm::File(_) => {}
            ReplyForm::Fields(names) => fields.retain(|name, _| names.contains(&name.as_str())),
            ReplyForm::WithParts(name) => drop(fields.insert(name.to_owned(), parts.into())),
        }
    }
    Ok(end)
}
