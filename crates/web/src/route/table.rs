//! All routes.

use avocet_config::entry::EntryTable;
use avocet_control::access::AccessScope;
use avocet_control::connect::ConnectForm;

use super::{Calls, DRY_RUN, Needs, OwnCall, ReplyForm, Route, Verb, ZONE_EDIT};
use crate::tables::EntryAction;
use AccessScope::{
    AccessRead, AccessWrite, BackupRead, BackupWrite, CacheWrite, ConfigRead, ConfigWrite, Explain,
    ListsWrite, PolicyWrite, QueriesRead, QueriesWrite, StatusRead, TrustWrite, ZonesRead,
    ZonesWrite,
};
use EntryAction::{Change, Create, Read, Remove, Test};
use ReplyForm::{End, Events, Fields, File, Lines, WithParts};
use Verb::{Delete, Get, Post, Put};

/// The fields of the status that concern health.
const HEALTH: &[&str] = &["healthy", "serving", "warnings"];

/// The media types of files that connect a device.
const CONNECT_MEDIA: &[&str] =
    &[ConnectForm::Profile.media(), ConnectForm::Qr.media(), ConnectForm::Stamps.media()];

/// The effect of a route, in words.
const OWN_SESSIONS: &str = "Show the sessions of the user, or of all users with access:read";

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
    Route::call(Get, "/cache/stats", StatusRead, Calls("stats", End, "Show counts of the caches")),
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
        Calls("log-statistics", End, "Show the counts and rankings of logged queries in a period"),
    ),
    Route::call(
        Get,
        "/series",
        StatusRead,
        Calls("log-series", End, "Show the counts of logged queries in a period, in steps"),
    ),
    Route::call(
        Get,
        "/queries/clients",
        QueriesRead,
        Calls("log-clients", End, "Show when each client sent its first and latest query"),
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
        Calls("pause", End, "Suspend filtering for a while, or end a pause"),
    )
    .guarding("/policy"),
    Route::call(
        Post,
        "/policy/grant",
        PolicyWrite,
        Calls("grant", End, "Allow a name for a while, or end a grant"),
    )
    .guarding("/policy"),
    Route::call(
        Get,
        "/policy/requests",
        QueriesRead,
        Calls("request-list", End, "Show requests for access from the block page"),
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
        Calls("request-refuse", End, "Refuse a request for access"),
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
    Route::call(
        Get,
        "/connect",
        StatusRead,
        Calls("connect", End, "Show how a device is connected to this server"),
    ),
    Route::call(
        Get,
        "/connect/document",
        StatusRead,
        Calls("connect-document", File(CONNECT_MEDIA), "Get a file that connects a device"),
    ),
    Route::call(Get, "/pools", StatusRead, Calls("pools-status", End, "Show the pools")),
    Route::call(
        Get,
        "/pools/what-if",
        ZonesRead,
        Calls("pools-what-if", End, "Show the answers that pools would give if hosts were down"),
    ),
    Route::call(
        Post,
        "/pools/control",
        ZonesWrite,
        Calls("pool-control", End, "Set addresses of a pool up, down or draining by hand"),
    ),
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
        "Lead the browser to the log-in page of the OpenID Connect provider",
    ),
    Route::own(
        Get,
        "/session/oidc/callback",
        Needs::Nothing,
        OwnCall::ProviderFinish,
        "Complete a log-in by the provider, which sends the browser here",
    ),
    Route::own(
        Put,
        "/session/password",
        Needs::Session,
        OwnCall::PasswordChange,
        "Change the password of the user, and end all sessions of the user",
    ),
    Route::own(
        Post,
        "/session/second-factor",
        Needs::Session,
        OwnCall::FactorBegin,
        "Make a second factor (TOTP), which the user confirms with a code",
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
