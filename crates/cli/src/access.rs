//! The replies about users and tokens as text.

use avocet_control::access::{
    AccessScope, TokenCreated, TokenReport, TokenRevoked, TokensReport, UserRemoved, UserReport,
    UsersReport,
};
use avocet_control::limits::UserLimits;
use avocet_nameserver::clock::wall_secs;
use clap::Args;

use crate::span::left;

/// The groups and zones to which a user is limited.
#[derive(Debug, Args)]
pub(crate) struct LimitArgs {
    /// Limit the user to the clients in this group; may be given several times
    #[arg(long, value_name = "GROUP")]
    group: Vec<String>,
    /// Limit the user to the names in this zone; may be given several times
    #[arg(long, value_name = "ZONE")]
    zone: Vec<String>,
}

impl LimitArgs {
    /// Returns the limits; `None` if there are none.
    pub(crate) fn limits(&self) -> Option<UserLimits> {
        let limits = UserLimits { groups: self.group.clone(), zones: self.zone.clone() };
        Some(limits).filter(|limits| !limits.is_empty())
    }
}

/// Returns the text of a user that was added or changed.
pub(crate) fn user_text(user: &UserReport) -> String {
    let mut text = format!("{} {}", user.name, user.role);
    let limits = [("group", &user.limits.groups), ("zone", &user.limits.zones)];
    for (kind, names) in limits {
        names.iter().for_each(|name| text += &format!(", {kind} {name}"));
    }
    if user.second_factor {
        text += ", with a second factor";
    }
    user.warnings.iter().for_each(|warning| text += &format!("\n; warning: {warning}"));
    text
}

/// Returns the text of `avocet user list`.
pub(crate) fn users_text(report: &UsersReport) -> String {
    if report.users.is_empty() {
        return "; there are no users".to_owned();
    }
    report.users.iter().map(user_text).collect::<Vec<_>>().join("\n")
}

/// Returns the text of `avocet user remove`.
pub(crate) fn removed_text(removed: &UserRemoved) -> String {
    format!("removed {}", removed.name)
}

/// Returns the text of `avocet token create`: only the token, for scripts.
pub(crate) fn created_text(created: &TokenCreated) -> String {
    created.token.reveal().to_owned()
}

/// Returns the text of `avocet token list`.
pub(crate) fn tokens_text(report: &TokensReport) -> String {
    if report.tokens.is_empty() {
        return "; there are no tokens".to_owned();
    }
    report.tokens.iter().map(token_text).collect::<Vec<_>>().join("\n")
}

fn token_text(token: &TokenReport) -> String {
    let scopes: Vec<&str> = token.scopes.iter().map(|scope: &AccessScope| scope.text()).collect();
    let state = if token.expires_at > wall_secs() {
        format!("expires in {}", left(token.expires_at))
    } else {
        "expired".to_owned()
    };
    format!("{} {}, {state}: {}", token.id, token.name, scopes.join(" "))
}

/// Returns the text of `avocet token revoke`.
pub(crate) fn revoked_text(revoked: &TokenRevoked) -> String {
    format!("revoked {}", revoked.id)
}
