//! The cookies of the interface: one for a session, and one for a log-in by a provider.

use avocet_control::access::Secret;
use axum::http::HeaderMap;
use axum::http::header::COOKIE;

use crate::access::BegunSession;
use crate::caller::LinkSecurity;
use crate::oidc::FLOW_SECS;
use crate::own::CookieChange;

/// The cookie of a session over HTTP and over HTTPS. With `__Host-`, browsers accept it only from
/// HTTPS and for this host.
pub(crate) const COOKIES: [&str; 2] = ["avocet-session", "__Host-avocet-session"];
/// The names of the cookie of a log-in by a provider, over HTTP and over HTTPS. Browsers must send
/// it in a request that begins at another site.
pub(crate) const FLOW_COOKIES: [&str; 2] = ["avocet-oidc", "__Secure-avocet-oidc"];
/// The path of the cookie of a log-in by a provider.
const FLOW_PATH: &str = "/api/v1/session/oidc";

/// Returns the value of a cookie.
pub(crate) fn cookie(headers: &HeaderMap, name: &str) -> Option<Secret> {
    let headers = headers.get_all(COOKIE).iter().filter_map(|header| header.to_str().ok());
    let mut pairs = headers.flat_map(|header| header.split(';'));
    pairs.find_map(|pair| {
        let (key, value) = pair.trim().split_once('=')?;
        (key == name).then(|| Secret::new(value.to_owned()))
    })
}

/// Returns the values of `Set-Cookie` for a change.
pub(crate) fn set_cookies(change: &CookieChange, security: LinkSecurity) -> Vec<String> {
    let (name, flow) = (COOKIES[security as usize], FLOW_COOKIES[security as usize]);
    let secure = if security == LinkSecurity::Tls { "; Secure" } else { "" };
    let rest = format!("Path=/; HttpOnly; SameSite=Strict{secure}");
    // The provider redirects the browser to this server. With `Strict`, the browser would not send
    // the cookie.
    let flow_rest = format!("Path={FLOW_PATH}; HttpOnly; SameSite=Lax{secure}");
    let begun = |session: &BegunSession| {
        let (id, secs) = (session.id.reveal(), session.lifetime_secs);
        format!("{name}={id}; Max-Age={secs}; {rest}")
    };
    match change {
        CookieChange::None => Vec::new(),
        CookieChange::Clear => vec![format!("{name}=; Max-Age=0; {rest}")],
        CookieChange::Set(session) => vec![begun(session)],
        CookieChange::BeginFlow(sealed) => {
            vec![format!("{flow}={}; Max-Age={FLOW_SECS}; {flow_rest}", sealed.reveal())]
        }
        CookieChange::EndFlow(session) => {
            vec![begun(session), format!("{flow}=; Max-Age=0; {flow_rest}")]
        }
    }
}
