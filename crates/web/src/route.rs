//! The table of all routes. It is the source of the router, of the scopes that requests need, of
//! the OpenAPI document and of the comparison with the command line.

use avocet_config::entry::EntryTable;
use avocet_control::access::AccessScope;
use axum::http::Method;

use crate::tables::{EntryAction, EntryCall};

/// The path below which all routes are.
pub const PREFIX: &str = "/api/v1";

/// A route.
#[derive(Debug)]
pub struct Route {
    /// The method.
    pub verb: Verb,
    /// The path, below [`PREFIX`].
    pub path: &'static str,
    /// What the author of the request needs.
    pub needs: Needs,
    /// What it does.
    pub does: Does,
    /// The same in words, for the OpenAPI document.
    pub summary: &'static str,
    /// The path of the resource that it changes, if its state can be lost: `If-Match` compares it.
    pub guards: Option<&'static str>,
}

/// The method of a route. GET and DELETE take fields from the query, POST and PUT from the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verb {
    /// Reads.
    Get,
    /// Adds or does something.
    Post,
    /// Replaces something.
    Put,
    /// Removes something.
    Delete,
}

/// What the author of a request needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// Nothing: the route reveals nothing, or logs in.
    Nothing,
    /// A session; a token has no user.
    Session,
    /// A session or token with a scope.
    Scope(AccessScope),
}

/// What a route does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Does {
    /// Calls the server with a request of the control socket.
    Call(&'static str, ReplyForm),
    /// Reads or changes entries of the configuration.
    Entries(EntryCall),
    /// Stores the body as a file, then calls the server with a request without fields.
    Upload(&'static str),
    /// Something that belongs to this interface.
    Own(OwnCall),
}

/// The form of the reply to a request of the control socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyForm {
    /// The end of the reply; its parts, which are only signs of life, are left out.
    End,
    /// These fields of the end.
    Fields(&'static [&'static str]),
    /// The end, with all parts in an array of this name.
    WithParts(&'static str),
    /// Each part as a line, then the end as a line.
    Lines,
    /// Each part as an event at once, for browsers (Server-Sent Events).
    Events,
}

/// What only this interface does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnCall {
    /// Shows the ways to log in.
    SessionWays,
    /// Shows the user of the session.
    SessionShow,
    /// Logs in.
    SessionBegin,
    /// Logs out.
    SessionEnd,
    /// Shows the own sessions, or all.
    SessionList,
    /// Ends a session.
    SessionRemove,
    /// Begins a log-in by the provider.
    ProviderBegin,
    /// Ends it.
    ProviderFinish,
    /// Adds the first user.
    SetUp,
    /// Changes the own password.
    PasswordChange,
    /// Draws a second factor.
    FactorBegin,
    /// Puts it in force.
    FactorConfirm,
    /// Removes it.
    FactorRemove,
    /// Shows the audit log.
    Audit,
    /// Shows the OpenAPI document.
    Document,
}

impl Verb {
    /// Returns the method in HTTP.
    pub const fn method(self) -> Method {
        match self {
            Self::Get => Method::GET,
            Self::Post => Method::POST,
            Self::Put => Method::PUT,
            Self::Delete => Method::DELETE,
        }
    }

    /// Returns whether the fields of a request are in its body.
    pub const fn has_body(self) -> bool {
        matches!(self, Self::Post | Self::Put)
    }
}

impl Route {
    /// Returns the most octets of its body. Most requests are names, passwords and numbers; a dry
    /// run may have a whole configuration, a change of a zone thousands of records.
    pub(crate) fn max_body(&self) -> usize {
        match self.does {
            Does::Call(DRY_RUN | ZONE_EDIT, _) => 512 << 10,
            Does::Call(..) | Does::Entries(_) | Does::Own(_) | Does::Upload(_) => 16 << 10,
        }
    }

    /// Returns whether it searches the query log, which has few places: such requests wait apart
    /// from the others.
    pub(crate) fn is_search(&self) -> bool {
        matches!(self.does, Does::Call("log-search" | "log-count" | "log-show" | DRY_RUN, _))
    }

    const fn call(verb: Verb, path: &'static str, scope: AccessScope, calls: Calls) -> Self {
        let Calls(command, form, summary) = calls;
        let (needs, does) = (Needs::Scope(scope), Does::Call(command, form));
        Self { verb, path, needs, does, summary, guards: None }
    }

    const fn entries(
        verb: Verb,
        path: &'static str,
        (table, action): (EntryTable, EntryAction),
        summary: &'static str,
    ) -> Self {
        let call = EntryCall { table, action };
        let needs = Needs::Scope(if call.is_change() { ConfigWrite } else { ConfigRead });
        let guards = if call.is_change() { Some(read_path(table)) } else { None };
        Self { verb, path, needs, does: Does::Entries(call), summary, guards }
    }

    const fn upload(path: &'static str, scope: AccessScope, calls: Calls) -> Self {
        let Calls(command, _, summary) = calls;
        let (needs, does) = (Needs::Scope(scope), Does::Upload(command));
        Self { verb: Post, path, needs, does, summary, guards: None }
    }

    const fn own(
        verb: Verb,
        path: &'static str,
        needs: Needs,
        own: OwnCall,
        summary: &'static str,
    ) -> Self {
        Self { verb, path, needs, does: Does::Own(own), summary, guards: None }
    }

    const fn guarding(mut self, path: &'static str) -> Self {
        self.guards = Some(path);
        self
    }

    /// Returns the request of the control socket that it leads to, if any.
    pub fn command(&self) -> Option<&'static str> {
        match self.does {
            Does::Call(command, _) | Does::Upload(command) => Some(command),
            Does::Entries(call) => Some(call.command()),
            Does::Own(OwnCall::SessionList) => Some("session-list"),
            Does::Own(OwnCall::SessionRemove) => Some("session-end"),
            Does::Own(_) => None,
        }
    }

    /// Returns the scopes that the author of the request needs, all of them. A backup has users and
    /// tokens: to restore it changes them. A dry run shows logged queries.
    pub fn scopes(&self) -> impl Iterator<Item = AccessScope> {
        let own = match self.needs {
            Needs::Scope(scope) => Some(scope),
            Needs::Session | Needs::Nothing => None,
        };
        let other = match self.does {
            Does::Upload(_) => Some(AccessWrite),
            Does::Call(DRY_RUN, _) => Some(QueriesRead),
            Does::Call(..) | Does::Entries(_) | Does::Own(_) => None,
        };
        own.into_iter().chain(other)
    }

    /// Returns the whole path.
    pub fn full_path(&self) -> String {
        format!("{PREFIX}{}", self.path)
    }
}

/// The request of the control socket for a dry run.
const DRY_RUN: &str = "policy-dry-run";
/// The change of records of a hosted zone.
const ZONE_EDIT: &str = "zone-edit";

/// Returns the path of the entries of a table.
const fn read_path(table: EntryTable) -> &'static str {
    match table {
        // `/lists` has their state.
        EntryTable::List => "/lists/settings",
        EntryTable::Rule => "/rules",
        EntryTable::Group => "/groups",
        EntryTable::Client => "/clients",
        EntryTable::Record => "/records",
        EntryTable::Forward => "/forwarders",
        EntryTable::Stub => "/stubs",
    }
}

/// A request of the control socket, the form of its reply, and what it does in words.
struct Calls(&'static str, ReplyForm, &'static str);

use AccessScope::{
    AccessRead, AccessWrite, BackupRead, BackupWrite, CacheWrite, ConfigRead, ConfigWrite, Explain,
    ListsWrite, PolicyWrite, QueriesRead, QueriesWrite, StatusRead, TrustWrite, ZonesRead,
    ZonesWrite,
};
use EntryAction::{Change, Create, Read, Remove, Test};
use ReplyForm::{End, Events, Fields, Lines, WithParts};
use Verb::{Delete, Get, Post, Put};

/// The fields of the status that concern health.
const HEALTH: &[&str] = &["healthy", "serving", "warnings"];

/// What one route does, in words.
const OWN_SESSIONS: &str = "Show the own sessions; those of all users with the scope access:read";

/// All routes.
pub const ROUTES: &[Route] = &[
    Route::call(Get, "/status", StatusRead, Calls("status", End, "Show the state of the server")),
    Route::call(Get, "/load", StatusRead, Calls("load", End, "Show the load of the server")),
    Route::call(Get, "/health", StatusRead, Calls("status", Fields(HEALTH), "Show the health")),
    Route::call(
        Get,
        "/upstreams",
        StatusRead,
        Calls("status", Fields(&["upstreams"]), "Show the upstreams and their health"),
    ),
    Route::call(Get, "/cache/stats", StatusRead, Calls("stats", End, "Count the caches")),
    Route::call(
        Get,
        "/cache/entries",
        QueriesRead,
        Calls("dump", Lines, "Show everything in the caches, one entry a line"),
    ),
    Route::call(
        Get,
        "/cache/lookup",
        QueriesRead,
        Calls("lookup", End, "Show what the caches have for a name"),
    ),
    Route::call(
        Post,
        "/cache/flush",
        CacheWrite,
        Calls("flush", End, "Remove a name from the caches"),
    ),
    Route::call(
        Post,
        "/cache/flush-tree",
        CacheWrite,
        Calls("flush-tree", End, "Remove a name and all names below it from the caches"),
    ),
    Route::call(
        Get,
        "/queries/live",
        QueriesRead,
        Calls("log-tail", Events, "Show each query as it is answered"),
    ),
    Route::call(
        Get,
        "/queries",
        QueriesRead,
        Calls("log-search", End, "Show queries of the log, the latest first"),
    ),
    Route::call(
        Get,
        "/queries/count",
        QueriesRead,
        Calls("log-count", End, "Count queries of the log"),
    ),
    Route::call(
        Get,
        "/queries/entry",
        QueriesRead,
        Calls("log-show", End, "Show one query of the log"),
    ),
    Route::call(
        Delete,
        "/queries",
        QueriesWrite,
        Calls("log-prune", End, "Delete queries from the log"),
    ),
    Route::call(
        Get,
        "/statistics",
        QueriesRead,
        Calls("log-statistics", End, "Show the counts and rankings of a time"),
    ),
    Route::call(
        Get,
        "/series",
        StatusRead,
        Calls("log-series", End, "Show the counts of a time, in steps"),
    ),
    Route::call(
        Get,
        "/explain",
        Explain,
        Calls("why", WithParts("sections"), "Explain the answer that a client gets for a name"),
    ),
    Route::call(
        Post,
        "/trace",
        Explain,
        Calls("trace", WithParts("sections"), "Resolve a question again and show how"),
    ),
    Route::call(Get, "/lists", StatusRead, Calls("lists-status", End, "Show the lists")),
    Route::call(
        Get,
        "/lists/check",
        StatusRead,
        Calls("lists-check", End, "Show the lines of a list that have no effect"),
    ),
    Route::call(
        Post,
        "/lists/refresh",
        ListsWrite,
        Calls("lists-refresh", End, "Fetch lists and put them in force"),
    ),
    Route::call(
        Get,
        "/policy",
        StatusRead,
        Calls("switches", End, "Show pauses, grants, and the counts of rules and lists"),
    ),
    Route::call(
        Post,
        "/policy/pause",
        PolicyWrite,
        Calls("pause", End, "Suspend filtering for a while, or end that"),
    )
    .guarding("/policy"),
    Route::call(
        Post,
        "/policy/grant",
        PolicyWrite,
        Calls("grant", End, "Allow a name for a while, or end that"),
    )
    .guarding("/policy"),
    Route::call(
        Get,
        "/policy/requests",
        QueriesRead,
        Calls("request-list", End, "Show what clients ask for on the block page"),
    ),
    Route::call(
        Post,
        "/policy/requests/grant",
        PolicyWrite,
        Calls("request-grant", End, "Allow a name for the client that asked for it"),
    ),
    Route::call(
        Post,
        "/policy/requests/refuse",
        PolicyWrite,
        Calls("request-refuse", End, "Refuse what a client asked for"),
    ),
    Route::call(
        Post,
        "/policy/dry-run",
        ConfigRead,
        Calls(
            DRY_RUN,
            End,
            "Show what a proposed configuration would block and unblock, over logged queries",
        ),
    ),
    Route::call(Get, "/trust/anchors", StatusRead, Calls("anchors", End, "Show trust anchors")),
    Route::call(
        Get,
        "/trust/negative",
        StatusRead,
        Calls("nta-list", End, "Show negative trust anchors"),
    ),
    Route::call(
        Post,
        "/trust/negative",
        TrustWrite,
        Calls("nta-add", End, "Suspend validation below a name for a while"),
    )
    .guarding("/trust/negative"),
    Route::call(
        Delete,
        "/trust/negative",
        TrustWrite,
        Calls("nta-remove", End, "Validate below a name again"),
    )
    .guarding("/trust/negative"),
    Route::call(Get, "/zones", StatusRead, Calls("zones-status", End, "Show the hosted zones")),
    Route::call(Get, "/zones/records", ZonesRead, Calls("zone-records", End, "Show zone records")),
    Route::call(
        Post,
        "/zones/records",
        ZonesWrite,
        Calls(ZONE_EDIT, End, "Change records of a hosted zone, all together, or check a change"),
    ),
    Route::call(
        Get,
        "/zones/history",
        ZonesRead,
        Calls("zone-history", End, "Show the latest changes of a hosted zone"),
    ),
    Route::call(
        Get,
        "/zones/export",
        ZonesRead,
        Calls("zone-export", Lines, "Show a hosted zone as the lines of a master file"),
    ),
    Route::call(
        Post,
        "/zones/reload",
        ZonesWrite,
        Calls("zone-reload", End, "Read the files of hosted zones again"),
    ),
    Route::call(
        Get,
        "/certificates",
        StatusRead,
        Calls("certificate-list", End, "Show the certificates that clients are shown"),
    ),
    Route::call(
        Post,
        "/certificates/renew",
        ConfigWrite,
        Calls("certificate-renew", End, "Renew the certificate of [acme] at once"),
    ),
    Route::call(Get, "/pools", StatusRead, Calls("pools-status", End, "Show the pools")),
    Route::call(Get, "/pools/what-if", ZonesRead, Calls("pools-what-if", End, "Predict answers")),
    Route::call(Post, "/pools/control", ZonesWrite, Calls("pool-control", End, "Control a pool")),
    Route::call(
        Get,
        "/zones/keys",
        ZonesRead,
        Calls("zone-keys", End, "Show the keys of a zone that this server signs"),
    ),
    Route::call(
        Post,
        "/zones/sign",
        ZonesWrite,
        Calls("zone-sign", End, "Sign a hosted zone at once, or begin to replace a key"),
    ),
    Route::call(
        Post,
        "/config/reload",
        ConfigWrite,
        Calls("reload", End, "Read the configuration again"),
    ),
    Route::call(
        Get,
        "/config",
        ConfigRead,
        Calls("config-show", End, "Show the configuration in force, or one of its tables"),
    ),
    Route::call(
        Post,
        "/config/check",
        ConfigRead,
        Calls(
            "config-check",
            End,
            "Check changes of the configuration file, and show the difference",
        ),
    ),
    Route::call(
        Get,
        "/config/revisions",
        StatusRead,
        Calls("config-history", End, "Show the revisions of the configuration"),
    ),
    Route::call(
        Get,
        "/config/revisions/difference",
        ConfigRead,
        Calls("config-diff", End, "Show the difference between two revisions"),
    ),
    Route::call(
        Get,
        "/config/revisions/text",
        ConfigRead,
        Calls("config-text", End, "Show the text of a revision"),
    ),
    Route::call(
        Post,
        "/config/changes",
        ConfigWrite,
        Calls("config-change", End, "Change keys of the configuration file"),
    )
    .guarding("/config"),
    Route::call(
        Post,
        "/config/rollback",
        ConfigWrite,
        Calls("config-rollback", End, "Put an earlier revision in force again"),
    )
    .guarding("/config"),
    Route::call(
        Post,
        "/config/confirm",
        ConfigWrite,
        Calls("config-confirm", End, "Keep the revision on probation"),
    ),
    Route::entries(
        Get,
        "/lists/settings",
        (EntryTable::List, Read),
        "Show the settings of the lists",
    ),
    Route::entries(Post, "/lists", (EntryTable::List, Create), "Add a list"),
    Route::entries(Put, "/lists", (EntryTable::List, Change), "Change a list"),
    Route::entries(Delete, "/lists", (EntryTable::List, Remove), "Remove a list"),
    Route::entries(Post, "/lists/test", (EntryTable::List, Test), "Check a list"),
    Route::entries(Get, "/rules", (EntryTable::Rule, Read), "Show the rules"),
    Route::entries(Post, "/rules", (EntryTable::Rule, Create), "Add a rule"),
    Route::entries(Put, "/rules", (EntryTable::Rule, Change), "Change a rule"),
    Route::entries(Delete, "/rules", (EntryTable::Rule, Remove), "Remove a rule"),
    Route::entries(Post, "/rules/test", (EntryTable::Rule, Test), "Check a rule"),
    Route::entries(Get, "/groups", (EntryTable::Group, Read), "Show the groups"),
    Route::entries(Post, "/groups", (EntryTable::Group, Create), "Add a group"),
    Route::entries(Put, "/groups", (EntryTable::Group, Change), "Change a group"),
    Route::entries(Delete, "/groups", (EntryTable::Group, Remove), "Remove a group"),
    Route::entries(Post, "/groups/test", (EntryTable::Group, Test), "Check a group"),
    Route::entries(Get, "/clients", (EntryTable::Client, Read), "Show the clients"),
    Route::entries(Post, "/clients", (EntryTable::Client, Create), "Add a client"),
    Route::entries(Put, "/clients", (EntryTable::Client, Change), "Change a client"),
    Route::entries(Delete, "/clients", (EntryTable::Client, Remove), "Remove a client"),
    Route::entries(Post, "/clients/test", (EntryTable::Client, Test), "Check a client"),
    Route::entries(Get, "/records", (EntryTable::Record, Read), "Show the local records"),
    Route::entries(Post, "/records", (EntryTable::Record, Create), "Add a local record"),
    Route::entries(Put, "/records", (EntryTable::Record, Change), "Change a local record"),
    Route::entries(Delete, "/records", (EntryTable::Record, Remove), "Remove a local record"),
    Route::entries(Post, "/records/test", (EntryTable::Record, Test), "Check a local record"),
    Route::entries(Get, "/forwarders", (EntryTable::Forward, Read), "Show the forwarders"),
    Route::entries(Post, "/forwarders", (EntryTable::Forward, Create), "Add a forwarder"),
    Route::entries(Put, "/forwarders", (EntryTable::Forward, Change), "Change a forwarder"),
    Route::entries(Delete, "/forwarders", (EntryTable::Forward, Remove), "Remove a forwarder"),
    Route::entries(Post, "/forwarders/test", (EntryTable::Forward, Test), "Check a forwarder"),
    Route::entries(Get, "/stubs", (EntryTable::Stub, Read), "Show the stub zones"),
    Route::entries(Post, "/stubs", (EntryTable::Stub, Create), "Add a stub zone"),
    Route::entries(Put, "/stubs", (EntryTable::Stub, Change), "Change a stub zone"),
    Route::entries(Delete, "/stubs", (EntryTable::Stub, Remove), "Remove a stub zone"),
    Route::entries(Post, "/stubs/test", (EntryTable::Stub, Test), "Check a stub zone"),
    Route::call(
        Get,
        "/backup",
        BackupRead,
        Calls("backup", Lines, "Make a backup, with all secrets of the server"),
    ),
    Route::upload(
        "/restore",
        BackupWrite,
        Calls("restore", End, "Put a backup in place at the next start of the server"),
    ),
    Route::call(
        Delete,
        "/restore",
        BackupWrite,
        Calls("restore-cancel", End, "Cancel a restore that waits for the next start"),
    ),
    Route::call(Get, "/users", AccessRead, Calls("user-list", End, "Show the users")),
    Route::call(Post, "/users", AccessWrite, Calls("user-add", End, "Add a user"))
        .guarding("/users"),
    Route::call(Put, "/users", AccessWrite, Calls("user-change", End, "Change a user"))
        .guarding("/users"),
    Route::call(Delete, "/users", AccessWrite, Calls("user-remove", End, "Remove a user"))
        .guarding("/users"),
    Route::call(Get, "/tokens", AccessRead, Calls("token-list", End, "Show the API tokens")),
    Route::call(Post, "/tokens", AccessWrite, Calls("token-create", End, "Create an API token"))
        .guarding("/tokens"),
    Route::call(Delete, "/tokens", AccessWrite, Calls("token-revoke", End, "Revoke an API token"))
        .guarding("/tokens"),
    Route::own(
        Get,
        "/audit",
        Needs::Scope(AccessRead),
        OwnCall::Audit,
        "Show the newest entries of the audit log",
    ),
    Route::own(Post, "/setup", Needs::Nothing, OwnCall::SetUp, "Add the first user"),
    Route::own(
        Get,
        "/session/ways",
        Needs::Nothing,
        OwnCall::SessionWays,
        "Show the ways to log in",
    ),
    Route::own(Get, "/session", Needs::Session, OwnCall::SessionShow, "Show who is logged in"),
    Route::own(Post, "/session", Needs::Nothing, OwnCall::SessionBegin, "Log in"),
    Route::own(Delete, "/session", Needs::Session, OwnCall::SessionEnd, "Log out"),
    Route::own(Get, "/sessions", Needs::Session, OwnCall::SessionList, OWN_SESSIONS),
    Route::own(Delete, "/sessions", Needs::Session, OwnCall::SessionRemove, "End a session"),
    Route::own(
        Get,
        "/session/oidc",
        Needs::Nothing,
        OwnCall::ProviderBegin,
        "Log in by the OpenID Connect provider: leads the browser there",
    ),
    Route::own(
        Get,
        "/session/oidc/callback",
        Needs::Nothing,
        OwnCall::ProviderFinish,
        "End a log-in by the provider, which leads the browser here",
    ),
    Route::own(
        Put,
        "/session/password",
        Needs::Session,
        OwnCall::PasswordChange,
        "Change the own password; all own sessions end",
    ),
    Route::own(
        Post,
        "/session/second-factor",
        Needs::Session,
        OwnCall::FactorBegin,
        "Draw a second factor (TOTP), which a code has to confirm",
    ),
    Route::own(
        Post,
        "/session/second-factor/confirm",
        Needs::Session,
        OwnCall::FactorConfirm,
        "Put the second factor in force, and get recovery codes",
    ),
    Route::own(
        Post,
        "/session/second-factor/remove",
        Needs::Session,
        OwnCall::FactorRemove,
        "Remove the second factor",
    ),
    Route::own(
        Get,
        "/openapi.json",
        Needs::Nothing,
        OwnCall::Document,
        "Show this document (OpenAPI 3.1)",
    ),
];

#[cfg(test)]
mod tests;
