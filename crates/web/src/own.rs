//! The requests that the HTTP API answers from its own state: set-up, sessions, the second factor,
//! the audit log.

use std::net::IpAddr;

use avocet_control::ControlError;
use avocet_control::access::{AccessFault, AccessScope, Secret, UserReport};
use avocet_control::limits::UserLimits;
use avocet_control::session::{SessionEnd, SessionEnded, SessionList, SessionsReport, UserSession};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::access::{
    Access, BegunSession, FlowKind, GivenRole, Login, Principal, Proof, SecondFactorBegun,
    public_id_of,
};
use crate::audit::{AuditEntry, AuditLog, MAX_ENTRIES};
use crate::caller::Surroundings;
use crate::oidc::{BegunFlow, Flow, FlowReturn, OidcFault, ProviderRequest};
use crate::problem::{INTERNAL, MALFORMED, NOT_LOCAL, Problem, UNAUTHENTICATED};
use crate::route::OwnCall;

/// A request to add the first user, who becomes admin.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SetUp {
    /// The part of the set-up link after `#`. The server writes this link to its log when it starts
    /// without users.
    link: Secret,
    /// The name of the user: 1 to 64 letters, digits, `.`, `-`, `_` or `@`.
    name: String,
    /// The password of the user, of 10 to 256 octets.
    password: Secret,
}

/// A request of a user to change the own password. The change ends all sessions of the user.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct PasswordChange {
    /// The present password of the user.
    password: Secret,
    /// The new password, of 10 to 256 octets.
    next_password: Secret,
}

/// A request with the password of the user, as a proof of identity.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PasswordProof {
    /// The password of the user.
    password: Secret,
}

/// A request with a code of the second factor, as a proof that the user can make codes.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CodeProof {
    /// The code that the authenticator application of the user shows.
    code: Secret,
}

/// A request for entries of the audit log.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AuditQuery {
    /// The maximum number of entries in the reply; 100 by default. A number above 1000 counts as
    /// 1000.
    limit: Option<u64>,
}

/// A request without fields.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NoFields {}

/// The ways in which a user can log in.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct LoginWays {
    /// Whether the server has a user. If it has none, the link in the log of the server adds the
    /// first user.
    users: bool,
    /// Whether users can log in by a provider. The address `/api/v1/session/oidc` leads to its
    /// log-in page.
    provider: bool,
}

/// The present session, and the permissions of its user.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct SessionReport {
    /// The identifier of the session, as `GET /api/v1/sessions` shows it.
    id: String,
    /// The name of the user.
    name: String,
    /// The scopes of the user: the permitted kinds of requests.
    scopes: Vec<AccessScope>,
    /// The groups and zones to which the user is limited; empty if only the role limits the user.
    #[serde(skip_serializing_if = "UserLimits::is_empty", default)]
    limits: UserLimits,
    /// The CSRF token. Each change in this session must repeat it in the header `X-CSRF-Token`.
    csrf: Secret,
}

/// The reply to the confirmation of a second factor, which is then in force.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
struct FactorConfirmed {
    /// Recovery codes. Each replaces a code of the second factor once. The server cannot show them
    /// again.
    recovery_codes: Vec<Secret>,
}

/// Entries of the audit log.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct AuditReport {
    /// The entries, the newest first.
    entries: Vec<AuditEntry>,
}

/// The reply to a log-out: the session has ended.
#[derive(Debug, Serialize, JsonSchema)]
struct LoggedOut {
    /// The address at which the browser can also end its session at the provider. Missing if the
    /// provider has no such address.
    #[serde(skip_serializing_if = "Option::is_none")]
    provider: Option<String>,
}

/// The reply to a successful request, without fields.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Done {}

/// The change of the cookies in a reply.
#[derive(Default)]
pub(crate) enum CookieChange {
    /// The cookie stays as it is.
    #[default]
    None,
    /// A session begins.
    Set(BegunSession),
    /// The session ended.
    Clear,
    /// A log-in by the provider begins.
    BeginFlow(Secret),
    /// The log-in ended with a session.
    EndFlow(BegunSession),
}

/// A reply, and the change of the cookie.
pub(crate) struct OwnReply {
    pub(crate) content: OwnContent,
    pub(crate) cookie: CookieChange,
}

/// The content of a reply.
pub(crate) enum OwnContent {
    /// JSON.
    Json(Value),
    /// The server redirects the browser.
    Redirect(String),
    /// A page, after the log-in of this user.
    LoggedIn(String),
}

/// The properties of a request in addition to its fields.
pub(crate) struct OwnContext<'a> {
    pub(crate) access: &'a Access,
    pub(crate) audit: &'a AuditLog,
    pub(crate) author: Option<&'a Principal>,
    /// The identifier of the session.
    pub(crate) session: Option<&'a Secret>,
    pub(crate) from: IpAddr,
    pub(crate) nearness: Nearness,
    pub(crate) flow: &'a Flow,
    /// The cookie of a log-in by the provider.
    pub(crate) flow_cookie: Option<&'a Secret>,
    pub(crate) surroundings: &'a dyn Surroundings,
}

/// The location of a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Nearness {
    /// The client is on this machine or in its network.
    Local,
    /// The client is elsewhere.
    Remote,
}

/// Serves a request.
pub(crate) fn perform(
    call: OwnCall,
    fields: Map<String, Value>,
    context: &OwnContext<'_>,
) -> Result<OwnReply, Problem> {
    let OwnContext { access, from, .. } = *context;
    let session = || context.session.ok_or_else(|| UNAUTHENTICATED.of("there is no session"));
    match call {
        OwnCall::SessionWays => {
            let NoFields {} = read(fields)?;
            let provider = context.surroundings.oidc().is_some();
            Ok(plain(&LoginWays { users: !access.user_list().users.is_empty(), provider }))
        }
        OwnCall::SessionShow => {
            let NoFields {} = read(fields)?;
            show(context)
        }
        OwnCall::SessionBegin => {
            let begun = access.log_in(&read(fields)?, from)?;
            end_former(context);
            begin(access, begun)
        }
        OwnCall::SessionEnd => {
            let NoFields {} = read(fields)?;
            log_out(session()?, context)
        }
        OwnCall::SessionList => list_sessions(&read(fields)?, context),
        OwnCall::SessionRemove => remove_session(&read(fields)?, context),
        OwnCall::ProviderBegin => {
            let NoFields {} = read(fields)?;
            begin_at_provider(context)
        }
        OwnCall::ProviderFinish => finish(&read(fields)?, context),
        OwnCall::SetUp => {
            let SetUp { link, name, password } = read(fields)?;
            if context.nearness == Nearness::Remote {
                return Err(NOT_LOCAL.of(format!("the request comes from {from}")));
            }
            Ok(plain(&access.set_up(&link, (name, password), from)?))
        }
        OwnCall::PasswordChange => {
            let PasswordChange { password, next_password } = read(fields)?;
            let name = context.author.map_or("", |author| &author.name);
            access.change_password(name, (&password, &next_password), from)?;
            Ok(cleared())
        }
        OwnCall::FactorBegin => {
            let PasswordProof { password } = read(fields)?;
            Ok(plain(&access.begin_second_factor(session()?.reveal(), &password, from)?))
        }
        OwnCall::FactorConfirm => {
            let CodeProof { code } = read(fields)?;
            let recovery_codes = access.confirm_second_factor(session()?.reveal(), &code)?;
            Ok(plain(&FactorConfirmed { recovery_codes }))
        }
        OwnCall::FactorRemove => {
            let PasswordProof { password } = read(fields)?;
            access.remove_second_factor(session()?.reveal(), &password, from)?;
            Ok(plain(&Done {}))
        }
        OwnCall::Audit => {
            let entries = newest(&read(fields)?, context.audit)?;
            Ok(plain(&AuditReport { entries }))
        }
        // The document itself is served from memory elsewhere, so this result is not used.
        OwnCall::Document => Ok(plain(&Done {})),
    }
}

/// Returns the sessions of the author, or all sessions if the author has the scope `for_all`.
fn visible(context: &OwnContext<'_>, for_all: AccessScope) -> Vec<UserSession> {
    let mut sessions = context.access.session_list().sessions;
    if context.author.is_some_and(|author| author.scopes.contains(&for_all)) {
        return sessions;
    }
    // A user of the provider may have the name of another user.
    let own = context.session.map(|session| public_id_of(session.reveal()));
    let own = sessions.iter().find(|session| Some(&session.id) == own.as_ref()).cloned();
    let is_own = |session: &UserSession| {
        own.as_ref()
            .is_some_and(|own| (&own.user, own.by_provider) == (&session.user, session.by_provider))
    };
    sessions.retain(is_own);
    sessions
}

/// Shows the sessions that the author may see.
fn list_sessions(
    SessionList {}: &SessionList,
    context: &OwnContext<'_>,
) -> Result<OwnReply, Problem> {
    Ok(plain(&SessionsReport { sessions: visible(context, AccessScope::AccessRead) }))
}

/// Ends a session, if the author may end it.
fn remove_session(request: &SessionEnd, context: &OwnContext<'_>) -> Result<OwnReply, Problem> {
    let may_end = visible(context, AccessScope::AccessWrite);
    if !may_end.iter().any(|session| session.id == request.id) {
        let fault = AccessFault::UnknownSession(request.id.clone());
        return Err(ControlError::from(fault).into());
    }
    let ended = context.access.session_end(&request.id).map_err(ControlError::from)?;
    let is_own = context.session.is_some_and(|own| public_id_of(own.reveal()) == ended.id);
    let cookie = if is_own { CookieChange::Clear } else { CookieChange::None };
    Ok(OwnReply { content: OwnContent::Json(json(&ended)), cookie })
}

/// Returns entries of the audit log.
fn newest(query: &AuditQuery, audit: &AuditLog) -> Result<Vec<AuditEntry>, Problem> {
    let limit = query.limit.map_or(100, |limit| limit.min(MAX_ENTRIES as u64) as usize);
    audit.newest(limit).map_err(|error| INTERNAL.of(error.to_string()))
}

/// Ends the session, even if the provider of its user does not answer.
fn log_out(session: &Secret, context: &OwnContext<'_>) -> Result<OwnReply, Problem> {
    let id = public_id_of(session.reveal());
    let all = context.access.session_list().sessions;
    let is_of_provider = all.iter().any(|one| one.id == id && one.by_provider);
    context.access.log_out(session.reveal());
    let ask = |request: &ProviderRequest| context.surroundings.ask_provider(request);
    let settings = context.surroundings.oidc().filter(|_| is_of_provider);
    let provider = settings
        .and_then(|settings| context.flow.log_out(&settings, context.access.now(), &ask).ok()?);
    let content = OwnContent::Json(json(&LoggedOut { provider }));
    Ok(OwnReply { content, cookie: CookieChange::Clear })
}

/// Ends the session that the browser had before a log-in, because the browser no longer uses it.
fn end_former(context: &OwnContext<'_>) {
    if let Some(former) = context.session {
        context.access.log_out(former.reveal());
    }
}

/// Begins a log-in by the provider, and redirects the browser to the provider.
fn begin_at_provider(context: &OwnContext<'_>) -> Result<OwnReply, Problem> {
    let settings = context.surroundings.oidc().ok_or(OidcFault::Off)?;
    let ask = |request: &ProviderRequest| context.surroundings.ask_provider(request);
    let BegunFlow { location, cookie } =
        context.flow.begin(&settings, context.access.now(), &ask)?;
    Ok(OwnReply {
        content: OwnContent::Redirect(location),
        cookie: CookieChange::BeginFlow(cookie),
    })
}

/// Ends a log-in by the provider.
fn finish(back: &FlowReturn, context: &OwnContext<'_>) -> Result<OwnReply, Problem> {
    let OwnContext { access, from, .. } = *context;
    let settings = context.surroundings.oidc().ok_or(OidcFault::Off)?;
    let came_back = (context.flow_cookie, back);
    let kind = match context.flow.has_begun(&settings, came_back, access.now()) {
        true => FlowKind::Begun,
        false => FlowKind::Unbegun,
    };
    access.admit_from(from, kind)?;
    let ask = |request: &ProviderRequest| context.surroundings.ask_provider(request);
    let finished = context.flow.finish(&settings, came_back, (from, access.now()), &ask);
    let login = finished.inspect_err(|fault| {
        if !matches!(fault, OidcFault::Off | OidcFault::Provider(_) | OidcFault::Busy) {
            access.failed_from(from, kind);
        }
    })?;
    let provider = settings.identity();
    // If the settings of the provider changed while it was queried, they may no longer give this
    // role.
    if context.surroundings.oidc().is_none_or(|present| present.identity() != provider) {
        return Err(OidcFault::NotBegun.into());
    }
    let given = GivenRole { role: login.role, provider };
    let begun = access.log_in_by_provider(&login.name, given, from)?;
    end_former(context);
    let (content, cookie) = (OwnContent::LoggedIn(login.name), CookieChange::EndFlow(begun));
    Ok(OwnReply { content, cookie })
}

fn cleared() -> OwnReply {
    OwnReply { content: OwnContent::Json(json(&Done {})), cookie: CookieChange::Clear }
}

fn show(context: &OwnContext<'_>) -> Result<OwnReply, Problem> {
    match context.author {
        Some(Principal { name, scopes, limits, proof: Proof::Session(csrf) }) => {
            let id = context.session.map_or("", Secret::reveal);
            Ok(plain(&SessionReport {
                id: public_id_of(id),
                name: name.clone(),
                scopes: scopes.clone(),
                limits: limits.clone(),
                csrf: csrf.clone(),
            }))
        }
        _ => Err(UNAUTHENTICATED.of("there is no session")),
    }
}

fn begin(access: &Access, begun: BegunSession) -> Result<OwnReply, Problem> {
    let principal = access.of_session(begun.id.reveal());
    let Principal { name, scopes, limits, .. } =
        principal.ok_or_else(|| UNAUTHENTICATED.of("the session has ended already"))?;
    let id = public_id_of(begun.id.reveal());
    let report = SessionReport { id, name, scopes, limits, csrf: begun.csrf.clone() };
    let content = OwnContent::Json(json(&report));
    Ok(OwnReply { content, cookie: CookieChange::Set(begun) })
}

fn read<T: DeserializeOwned>(fields: Map<String, Value>) -> Result<T, Problem> {
    serde_json::from_value(Value::Object(fields)).map_err(|error| MALFORMED.of(error.to_string()))
}

fn json(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

fn plain(value: &impl Serialize) -> OwnReply {
    OwnReply { content: OwnContent::Json(json(value)), cookie: CookieChange::None }
}

/// The schemas of a request and its reply.
pub(crate) struct OwnSchemas {
    pub(crate) request: Schema,
    pub(crate) reply: Schema,
}

/// Returns the schemas of a request.
pub(crate) fn schemas(call: OwnCall, generator: &mut SchemaGenerator) -> OwnSchemas {
    fn of<Q: JsonSchema, R: JsonSchema>(generator: &mut SchemaGenerator) -> OwnSchemas {
        OwnSchemas {
            request: generator.subschema_for::<Q>(),
            reply: generator.subschema_for::<R>(),
        }
    }
    match call {
        OwnCall::SessionWays => of::<NoFields, LoginWays>(generator),
        OwnCall::SessionShow => of::<NoFields, SessionReport>(generator),
        OwnCall::SessionBegin => of::<Login, SessionReport>(generator),
        OwnCall::SessionEnd => of::<NoFields, LoggedOut>(generator),
        OwnCall::SessionList => of::<SessionList, SessionsReport>(generator),
        OwnCall::SessionRemove => of::<SessionEnd, SessionEnded>(generator),
        OwnCall::ProviderBegin => of::<NoFields, ()>(generator),
        OwnCall::ProviderFinish => of::<FlowReturn, String>(generator),
        OwnCall::SetUp => of::<SetUp, UserReport>(generator),
        OwnCall::PasswordChange => of::<PasswordChange, Done>(generator),
        OwnCall::FactorBegin => of::<PasswordProof, SecondFactorBegun>(generator),
        OwnCall::FactorConfirm => of::<CodeProof, FactorConfirmed>(generator),
        OwnCall::FactorRemove => of::<PasswordProof, Done>(generator),
        OwnCall::Audit => of::<AuditQuery, AuditReport>(generator),
        OwnCall::Document => of::<NoFields, Map<String, Value>>(generator),
    }
}
