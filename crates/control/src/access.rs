//! Requests and replies about users and API tokens, and their rights.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use zeroize::Zeroize;

use crate::error::ErrorCode;
use crate::limits::UserLimits;
use crate::words::words;

/// A password or token. The server never writes its text to a log, and erases the text from memory
/// after use.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Wraps a text, so that logs do not show it.
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// Returns the text, for code that checks or shows it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

words! {
    /// The role of a user: a set of scopes.
    pub enum Role {
        /// Reads everything except configuration, users, tokens, audit log and backups.
        Viewer = "viewer",
        /// Does what a viewer may. Also empties caches, fetches lists, pauses filtering, allows
        /// names for a while, answers requests for access, sets negative trust anchors, changes
        /// hosted zones, and controls pools.
        Operator = "operator",
        /// Does everything: also changes the configuration, users and tokens, deletes logged
        /// queries, and makes and restores backups.
        Admin = "admin",
    }
}

words! {
    /// A permission of a token or role.
    pub enum AccessScope {
        /// Read the state of the server, its caches, lists, upstreams, policy and trust anchors.
        StatusRead = "status:read",
        /// Read the query log and the content of the caches, which show the names that clients
        /// query.
        QueriesRead = "queries:read",
        /// Delete queries from the query log.
        QueriesWrite = "queries:write",
        /// Explain answers and trace resolution. For both, the server may send queries to other
        /// servers.
        Explain = "explain",
        /// Remove names from the caches.
        CacheWrite = "cache:write",
        /// Fetch lists again, and put them in force.
        ListsWrite = "lists:write",
        /// Suspend filtering (pauses), allow names for a while (grants), and answer requests for
        /// access from the block page.
        PolicyWrite = "policy:write",
        /// Add and remove negative trust anchors, which suspend DNSSEC validation below a name.
        TrustWrite = "trust:write",
        /// Read the records of hosted zones, and predict the answers of pools.
        ZonesRead = "zones:read",
        /// Change records of hosted zones, sign zones, read zone files again, and take addresses of
        /// pools into or out of use.
        ZonesWrite = "zones:write",
        /// Read the configuration, which may have secrets, and check changes without making them.
        ConfigRead = "config:read",
        /// Change, roll back and reload the configuration, except for keys that decide about
        /// access. Renew the certificate of `[acme]`.
        ConfigWrite = "config:write",
        /// Read users, tokens and the audit log.
        AccessRead = "access:read",
        /// Change users, tokens, and the keys of the configuration that decide about access.
        AccessWrite = "access:write",
        /// Make backups, which have all secrets of the server.
        BackupRead = "backup:read",
        /// Restore backups, which replaces configuration, users and other state. Over HTTP, a
        /// restore also needs `access:write`.
        BackupWrite = "backup:write",
    }
}

impl AccessScope {
    /// All scopes.
    pub const ALL: [Self; 16] = [
        Self::StatusRead,
        Self::QueriesRead,
        Self::QueriesWrite,
        Self::Explain,
        Self::CacheWrite,
        Self::ListsWrite,
        Self::PolicyWrite,
        Self::TrustWrite,
        Self::ZonesRead,
        Self::ZonesWrite,
        Self::ConfigRead,
        Self::ConfigWrite,
        Self::AccessRead,
        Self::AccessWrite,
        Self::BackupRead,
        Self::BackupWrite,
    ];

    /// Returns whether the scope permits changes.
    pub const fn is_write(self) -> bool {
        match self {
            Self::StatusRead
            | Self::QueriesRead
            | Self::Explain
            | Self::ZonesRead
            | Self::ConfigRead
            | Self::AccessRead
            | Self::BackupRead => false,
            Self::QueriesWrite
            | Self::CacheWrite
            | Self::ListsWrite
            | Self::PolicyWrite
            | Self::TrustWrite
            | Self::ZonesWrite
            | Self::ConfigWrite
            | Self::AccessWrite
            | Self::BackupWrite => true,
        }
    }

    /// Returns the scope that this text names; `None` if there is none.
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.text() == word)
    }
}

impl Role {
    /// Returns the scopes of the role.
    pub fn scopes(self) -> Vec<AccessScope> {
        AccessScope::ALL.into_iter().filter(|scope| self.may(*scope)).collect()
    }

    /// Returns whether the role has a scope.
    pub const fn may(self, scope: AccessScope) -> bool {
        match scope {
            AccessScope::StatusRead
            | AccessScope::QueriesRead
            | AccessScope::Explain
            | AccessScope::ZonesRead => true,
            AccessScope::CacheWrite
            | AccessScope::ListsWrite
            | AccessScope::PolicyWrite
            | AccessScope::TrustWrite
            | AccessScope::ZonesWrite => !matches!(self, Self::Viewer),
            AccessScope::QueriesWrite
            | AccessScope::ConfigRead
            | AccessScope::ConfigWrite
            | AccessScope::AccessRead
            | AccessScope::AccessWrite
            | AccessScope::BackupRead
            | AccessScope::BackupWrite => matches!(self, Self::Admin),
        }
    }

    /// Returns the role that this text names; `None` if there is none.
    pub fn of_word(word: &str) -> Option<Self> {
        [Self::Viewer, Self::Operator, Self::Admin].into_iter().find(|role| role.text() == word)
    }
}

/// A request to add a user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UserAdd {
    /// The name of the new user: 1 to 64 letters, digits, `.`, `-`, `_` or `@`.
    pub name: String,
    /// The role of the new user.
    pub role: Role,
    /// The password, of 10 to 256 octets.
    pub password: Secret,
    /// The groups and zones to which the user is limited. If the field is missing, only the role
    /// limits the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<UserLimits>,
}

/// A request to change a user. The change ends all sessions of this user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct UserChange {
    /// The name of the user to change.
    pub name: String,
    /// The new role. If the field is missing, the role stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// The new limits. If the field is missing, the limits stay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<UserLimits>,
    /// Whether to remove all limits of the user.
    #[serde(default)]
    pub remove_limits: bool,
    /// The new password, of 10 to 256 octets. If the field is missing, the password stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<Secret>,
    /// Whether to remove the second factor of the user, for example because the user has lost it.
    #[serde(default)]
    pub remove_second_factor: bool,
}

/// A request for all users.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UserList {}

/// A request to remove a user. The removal ends all sessions of this user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UserRemove {
    /// The name of the user to remove.
    pub name: String,
}

/// A request to create an API token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenCreate {
    /// A name for people: 1 to 64 letters, digits, `.`, `-`, `_` or `@`.
    pub name: String,
    /// The permissions of the token, at least one.
    pub scopes: Vec<AccessScope>,
    /// The lifetime of the token in seconds, at most five years.
    pub secs: u64,
}

/// A request for all API tokens.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenList {}

/// A request to revoke an API token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenRevoke {
    /// The identifier of the token to revoke.
    pub id: String,
}

/// All users.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UsersReport {
    /// The users, in the order of their names.
    pub users: Vec<UserReport>,
}

/// A user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct UserReport {
    /// The name.
    pub name: String,
    /// The role of the user, which determines the permissions.
    pub role: Role,
    /// The groups and zones to which the user is limited; empty if only the role limits the user.
    #[serde(default, skip_serializing_if = "UserLimits::is_empty")]
    pub limits: UserLimits,
    /// Whether a log-in of the user needs a code in addition to the password (TOTP).
    pub second_factor: bool,
    /// The Unix second at which the user was added.
    pub created_at: u64,
    /// Warnings about limits that have no effect, such as an unknown group.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The reason why the change is not on the disk: a restart of the server undoes the change.
    /// Missing if the change is on the disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsaved: Option<String>,
}

/// The reply to a request that removed a user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UserRemoved {
    /// The name of the removed user.
    pub name: String,
    /// The reason why the removal is not on the disk: a restart of the server undoes it. Missing if
    /// the removal is on the disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsaved: Option<String>,
}

/// All API tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TokensReport {
    /// The tokens, in the order of their expiry.
    pub tokens: Vec<TokenReport>,
}

/// An API token, without the secret text that a program sends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct TokenReport {
    /// The identifier of the API token.
    pub id: String,
    /// The name of the API token.
    pub name: String,
    /// The scopes of the API token.
    pub scopes: Vec<AccessScope>,
    /// The Unix second at which the token was created.
    pub created_at: u64,
    /// The Unix second at which the token expires.
    pub expires_at: u64,
}

/// A new API token, with the secret text that a program sends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TokenCreated {
    /// The text of the token. The server keeps only its digest, and cannot show it again.
    pub token: Secret,
    /// The properties of the token.
    #[serde(flatten)]
    pub report: TokenReport,
}

/// The reply to a request that revoked an API token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TokenRevoked {
    /// The identifier of the revoked token.
    pub id: String,
    /// The reason why the change is not on the disk: the token is valid again after a restart.
    /// Missing if the change is on the disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsaved: Option<String>,
}

/// The reason why users or tokens are not changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccessFault {
    /// The name of a user or token is invalid.
    InvalidName(String),
    /// The password is too short or too long. Holds the bounds in octets.
    PasswordLength {
        /// The least permitted number of octets.
        least: usize,
        /// The greatest permitted number of octets.
        most: usize,
    },
    /// Another user already has the name.
    UserExists(String),
    /// No user has the name.
    UnknownUser(String),
    /// No token has the identifier.
    UnknownToken(String),
    /// No session has the identifier.
    UnknownSession(String),
    /// The change would leave no user with the right to change users.
    LastAdmin,
    /// There are too many users or tokens. Holds the limit.
    TooMany(usize),
    /// An admin cannot be limited: it could change its own limits.
    LimitedAdmin,
    /// Limits are empty or invalid. Holds the reason.
    InvalidLimits(String),
    /// A token without scopes has no use.
    NoScopes,
    /// The lifetime of a token is out of bounds. Holds the longest lifetime in seconds.
    Lifetime(u64),
    /// The disk refused the change, which has no effect. Holds the reason.
    Unsaved(String),
}

impl AccessFault {
    /// Returns the code of the error.
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::InvalidName(_)
            | Self::PasswordLength { .. }
            | Self::NoScopes
            | Self::LimitedAdmin
            | Self::InvalidLimits(_)
            | Self::Lifetime(_) => ErrorCode::InvalidValue,
            Self::UnknownUser(_) | Self::UnknownToken(_) | Self::UnknownSession(_) => {
                ErrorCode::NotFound
            }
            Self::UserExists(_) => ErrorCode::Exists,
            Self::LastAdmin => ErrorCode::NotPossible,
            Self::TooMany(_) => ErrorCode::LimitReached,
            Self::Unsaved(_) => ErrorCode::Unavailable,
        }
    }

    /// Returns the next step for the user, if the message does not state it.
    pub const fn next(&self) -> Option<&'static str> {
        Some(match self {
            Self::UserExists(_) => "choose another name, or change this user",
            Self::LastAdmin => "make another user admin first",
            Self::TooMany(_) => "remove one",
            Self::NoScopes => "name at least one scope",
            Self::UnknownUser(_) => "see `avocet user list`",
            Self::UnknownToken(_) => "see `avocet token list`",
            Self::UnknownSession(_) => "see `avocet session list`",
            _ => return None,
        })
    }
}

impl fmt::Display for AccessFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidName(name) => write!(
                f,
                "{name:?} is not a name: expected 1 to 64 letters, digits, `.`, `-`, `_` or `@`"
            ),
            Self::PasswordLength { least, most } => {
                write!(f, "expected a password of {least} to {most} octets")
            }
            Self::UserExists(name) => write!(f, "there is already a user {name:?}"),
            Self::UnknownUser(name) => write!(f, "there is no user {name:?}"),
            Self::UnknownToken(id) => write!(f, "there is no token {id:?}"),
            Self::UnknownSession(id) => write!(f, "there is no session {id:?}"),
            Self::LastAdmin => f.write_str("this is the last user with the role admin"),
            Self::TooMany(most) => write!(f, "there are already {most}"),
            Self::LimitedAdmin => f.write_str("an admin cannot be limited to groups or zones"),
            Self::InvalidLimits(fault) => f.write_str(fault),
            Self::NoScopes => f.write_str("the token has no scopes"),
            Self::Lifetime(most) => write!(f, "expected a lifetime of 1 to {most} seconds"),
            Self::Unsaved(reason) => write!(f, "the change cannot be saved: {reason}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_role_may_what_the_one_below_may() {
        let [viewer, operator, admin] = [Role::Viewer, Role::Operator, Role::Admin];
        assert!(viewer.scopes().iter().all(|scope| !scope.is_write() && operator.may(*scope)));
        assert!(operator.scopes().iter().all(|scope| admin.may(*scope)));
        assert_eq!(admin.scopes(), AccessScope::ALL);
        assert!(!operator.may(AccessScope::AccessRead));
    }

    #[test]
    fn a_secret_does_not_show_in_debug_output() {
        let add = UserAdd {
            name: "ada".to_owned(),
            role: Role::Admin,
            password: Secret::new("correct horse".to_owned()),
            limits: None,
        };
        assert!(!format!("{add:?}").contains("horse"));
    }
}
