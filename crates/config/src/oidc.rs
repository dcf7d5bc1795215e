//! `[oidc]`: log-in by an OpenID Connect provider.

use std::net::IpAddr;

use toml::{Spanned, Table, Value};

use super::check::Check;
use super::setting::{List, Setting};
use super::spec::OidcSpec;

/// The default claim with the name of a user.
const NAME_CLAIM: &str = "preferred_username";
/// The default claim with the groups or roles of a user.
const ROLE_CLAIM: &str = "groups";

/// `[oidc]`, if an issuer is configured.
#[derive(Clone, PartialEq)]
pub struct OidcConfig {
    /// The URL of the issuer.
    pub issuer: String,
    /// The name under which the issuer knows this server.
    pub client_id: String,
    /// The secret of the client; `None` for a public client.
    pub client_secret: Option<String>,
    /// The URL of this server for browsers, without a slash at its end.
    pub public_url: String,
    /// The scopes that are requested in addition to `openid`.
    pub scopes: Vec<String>,
    /// The claim with the name of a user.
    pub name_claim: String,
    /// The claim with the groups or roles of a user.
    pub role_claim: String,
    /// The values of the claim with groups or roles that make a user admin.
    pub admins: Vec<String>,
    /// The values of the claim with groups or roles that make a user operator.
    pub operators: Vec<String>,
    /// The values of the claim with groups or roles that make a user viewer.
    pub viewers: Vec<String>,
}

impl std::fmt::Debug for OidcConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The secret is not shown.
        write!(f, "OidcConfig({} at {})", self.client_id, self.issuer)
    }
}

/// Returns the configuration of the table.
pub(super) fn oidc(spec: OidcSpec, check: &mut Check) -> Option<OidcConfig> {
    let span = spec.issuer.span().unwrap_or_default();
    let text = |setting, check: &mut Check| check.take(setting).unwrap_or_default();
    let issuer = url(spec.issuer, check);
    let public_url = url(spec.public_url, check).trim_end_matches('/').to_owned();
    let client_id = text(spec.client_id, check);
    let client_secret = Some(text(spec.client_secret, check)).filter(|secret| !secret.is_empty());
    let scopes = match spec.scopes {
        Setting(None) => vec!["profile".to_owned()],
        written => texts(written, check),
    };
    let or_default = |text: String, default: &str| {
        if text.is_empty() { default.to_owned() } else { text }
    };
    let name_claim = or_default(text(spec.name_claim, check), NAME_CLAIM);
    let role_claim = or_default(text(spec.role_claim, check), ROLE_CLAIM);
    let (admins, operators, viewers) =
        (texts(spec.admins, check), texts(spec.operators, check), texts(spec.viewers, check));
    if issuer.is_empty() {
        return None;
    }
    if is_readable_on_the_way(&issuer) {
        let message = "the issuer is reached without https: who is on the path, or changes the \
                       address of its name, logs in as anybody";
        check.doubt(span.clone(), message);
    }
    if client_id.is_empty() || public_url.is_empty() {
        check.fault(span, "an issuer needs client-id and public-url");
    } else if admins.is_empty() && operators.is_empty() && viewers.is_empty() {
        let message =
            "nobody can log in: name values of role-claim in admins, operators or viewers";
        check.doubt(span, message);
    }
    Some(OidcConfig {
        issuer,
        client_id,
        client_secret,
        public_url,
        scopes,
        name_claim,
        role_claim,
        admins,
        operators,
        viewers,
    })
}

fn texts(setting: Setting<List<String>>, check: &mut Check) -> Vec<String> {
    check
        .take(setting)
        .map_or_else(Vec::new, |list| list.0.into_iter().map(Spanned::into_inner).collect())
}

/// Reads a URL, which is an empty text if it is not set.
fn url(setting: Setting<String>, check: &mut Check) -> String {
    let span = setting.span().unwrap_or_default();
    let url = check.take(setting).unwrap_or_default();
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let is_url = rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/'))
        && url.bytes().all(|octet| octet.is_ascii_graphic())
        && !url.contains(['?', '#', '"', '\\']);
    if !url.is_empty() && !is_url {
        check.fault(span, "expected a URL such as \"https://login.example\"");
    }
    url
}

/// Returns whether a URL leads to another machine without encryption.
pub(super) fn is_readable_on_the_way(url: &str) -> bool {
    let Some(rest) = url.strip_prefix("http://") else { return false };
    let authority = rest.split('/').next().unwrap_or_default();
    let host = match authority.strip_prefix('[') {
        Some(v6) => v6.split(']').next(),
        None => authority.split(':').next(),
    };
    let host = host.unwrap_or_default();
    let is_loopback = host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    !is_loopback && host != "localhost"
}

/// Returns the table in the syntax of the configuration file.
pub(super) fn shown(oidc: Option<&OidcConfig>) -> Table {
    let text = |text: Option<&str>| Value::from(text.unwrap_or_default());
    let texts = |texts: Option<&Vec<String>>| Value::from(texts.cloned().unwrap_or_default());
    let scopes = oidc.map_or_else(|| vec!["profile".to_owned()], |oidc| oidc.scopes.clone());
    [
        ("issuer", text(oidc.map(|oidc| oidc.issuer.as_str()))),
        ("client-id", text(oidc.map(|oidc| oidc.client_id.as_str()))),
        ("client-secret", text(oidc.and_then(|oidc| oidc.client_secret.as_deref()))),
        ("public-url", text(oidc.map(|oidc| oidc.public_url.as_str()))),
        ("scopes", scopes.into()),
        ("name-claim", text(Some(oidc.map_or(NAME_CLAIM, |oidc| &oidc.name_claim)))),
        ("role-claim", text(Some(oidc.map_or(ROLE_CLAIM, |oidc| &oidc.role_claim)))),
        ("admins", texts(oidc.map(|oidc| &oidc.admins))),
        ("operators", texts(oidc.map(|oidc| &oidc.operators))),
        ("viewers", texts(oidc.map(|oidc| &oidc.viewers))),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), value))
    .collect()
}
