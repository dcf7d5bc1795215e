//! Routes. The table of all routes, [`ROUTES`], determines the router, the scopes that requests
//! need, and the OpenAPI document. A test compares the table with the commands of the command line.

use avocet_config::entry::EntryTable;
use avocet_control::access::AccessScope;
use axum::http::Method;

use crate::tables::{EntryAction, EntryCall};

mod table;

pub use table::ROUTES;

/// The path prefix of all routes.
pub const PREFIX: &str = "/api/v1";

/// A route.
#[derive(Debug)]
pub struct Route {
    /// The method.
    pub verb: Verb,
    /// The path, below [`PREFIX`].
    pub path: &'static str,
    /// The permission that the author of the request needs.
    pub needs: Needs,
    /// The effect of the route.
    pub does: Does,
    /// The effect in words, for the OpenAPI document.
    pub summary: &'static str,
    /// The path of the resource that the route changes, if a change could overwrite another one.
    /// `If-Match` compares this resource.
    pub guards: Option<&'static str>,
}

/// The method of a route. GET and DELETE take fields from the query, POST and PUT from the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verb {
    /// The route reads.
    Get,
    /// Adds or does something.
    Post,
    /// Replaces something.
    Put,
    /// Removes something.
    Delete,
}

/// The permissions that the author of a request may need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// No scope: the route reveals nothing, or logs in.
    Nothing,
    /// A session; a token has no user.
    Session,
    /// A session or token with a scope.
    Scope(AccessScope),
}

/// The effects of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Does {
    /// Calls the server with a request of the control socket.
    Call(&'static str, ReplyForm),
    /// Reads or changes entries of the configuration.
    Entries(EntryCall),
    /// Stores the body as a file, then calls the server with a request without fields.
    Upload(&'static str),
    /// The interface serves the request itself.
    Own(OwnCall),
}

/// The form of the reply to a request of the control socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyForm {
    /// The end of the reply. The parts, which only show that the work continues, are omitted.
    End,
    /// The fields of the last part of the reply.
    Fields(&'static [&'static str]),
    /// The end of the reply, with all parts in an array of this name.
    WithParts(&'static str),
    /// Each part as a line, and the end as the last line.
    Lines,
    /// Each part as an event that is sent at once, for browsers (Server-Sent Events).
    Events,
    /// The text of a file, with its media type: the end of the reply has the fields `media`, `file`
    /// and `text`. Only these types are permitted.
    File(&'static [&'static str]),
}

/// The calls that only this interface has.
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
    /// Shows the sessions of the user, or of all users.
    SessionList,
    /// Ends a session.
    SessionRemove,
    /// Begins a log-in by the provider.
    ProviderBegin,
    /// Ends a log-in by the provider.
    ProviderFinish,
    /// Adds the first user.
    SetUp,
    /// Changes the password of the user.
    PasswordChange,
    /// Creates a second factor.
    FactorBegin,
    /// Turns the second factor on.
    FactorConfirm,
    /// Removes the second factor.
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

    /// Returns whether the fields of a request with this method are in the body.
    pub const fn has_body(self) -> bool {
        matches!(self, Self::Post | Self::Put)
    }
}

impl Route {
    /// Returns the maximum number of octets of the body. Most requests are names, passwords and
    /// numbers. A dry run may have a whole configuration, and a change of a zone thousands of
    /// records.
    pub(crate) fn max_body(&self) -> usize {
        match self.does {
            Does::Call(DRY_RUN | ZONE_EDIT, _) => 512 << 10,
            Does::Call(..) | Does::Entries(_) | Does::Own(_) | Does::Upload(_) => 16 << 10,
        }
    }

    /// Returns whether the route searches the query log. Few searches run at once, so they wait
    /// separately from other requests.
    pub(crate) fn is_search(&self) -> bool {
        matches!(self.does, Does::Call("log-search" | "log-count" | "log-show" | DRY_RUN, _))
    }

    /// Returns whether the route shows counts of the query log. For users with limits, these counts
    /// come from a search.
    pub(crate) fn is_overview(&self) -> bool {
        matches!(self.does, Does::Call("log-statistics" | "log-series" | "log-clients", _))
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
        let needs = Needs::Scope(if call.is_change() {
            AccessScope::ConfigWrite
        } else {
            AccessScope::ConfigRead
        });
        let guards = if call.is_change() { Some(read_path(table)) } else { None };
        Self { verb, path, needs, does: Does::Entries(call), summary, guards }
    }

    const fn upload(path: &'static str, scope: AccessScope, calls: Calls) -> Self {
        let Calls(command, _, summary) = calls;
        let (needs, does) = (Needs::Scope(scope), Does::Upload(command));
        Self { verb: Verb::Post, path, needs, does, summary, guards: None }
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

    /// Returns the request of the control socket for the route, if there is one.
    pub fn command(&self) -> Option<&'static str> {
        match self.does {
            Does::Call(command, _) | Does::Upload(command) => Some(command),
            Does::Entries(call) => Some(call.command()),
            Does::Own(OwnCall::SessionList) => Some("session-list"),
            Does::Own(OwnCall::SessionRemove) => Some("session-end"),
            Does::Own(_) => None,
        }
    }

    /// Returns all scopes that the author of the request needs. To restore a backup changes users
    /// and tokens, and a dry run shows logged queries.
    pub fn scopes(&self) -> impl Iterator<Item = AccessScope> {
        let own = match self.needs {
            Needs::Scope(scope) => Some(scope),
            Needs::Session | Needs::Nothing => None,
        };
        let other = match self.does {
            Does::Upload(_) => Some(AccessScope::AccessWrite),
            Does::Call(DRY_RUN, _) => Some(AccessScope::QueriesRead),
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
        // The path `/lists` shows the state of the lists.
        EntryTable::List => "/lists/settings",
        EntryTable::Rule => "/rules",
        EntryTable::Group => "/groups",
        EntryTable::Client => "/clients",
        EntryTable::Record => "/records",
        EntryTable::Forward => "/forwarders",
        EntryTable::Stub => "/stubs",
    }
}

/// A request of the control socket, the form of its reply, and its effect in words.
struct Calls(&'static str, ReplyForm, &'static str);

#[cfg(test)]
mod tests;
