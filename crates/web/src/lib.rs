//! The HTTP API: routes, access, audit log, the interface for browsers, and the pages for set-up
//! and for the document of the API.
//!
//! ```text
//!   request ──> Host ──> router (route.rs) ──> exchange ──> Control ──> reply
//!                                                └─ access: users, sessions, tokens
//! ```
//! The only way into the server is [`Control`], so that tests need no server. Sockets, TLS and the
//! limits of connections belong to the server; this crate bounds bodies, pages, streams and the
//! requests that are at work. [`route::ROUTES`] is the table of all routes.

#![forbid(unsafe_code)]

pub mod access;
pub mod audit;
mod caller;
mod conditional;
mod cookies;
pub mod counts;
mod exchange;
pub mod host;
mod input;
mod interface;
pub mod local;
pub mod oidc;
mod openapi;
mod own;
mod pages;
mod presence;
mod problem;
mod refusals;
mod reply;
pub mod route;
mod standing;
mod stream;
mod tables;
#[cfg(test)]
mod tests;
mod upload;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use avocet_control::Control;
use axum::Router;
pub use axum::body::Body;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, REFERRER_POLICY,
    STRICT_TRANSPORT_SECURITY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderValue, Method, Request, Response};
use axum::routing::{MethodFilter, on};
use tower_service::Service;

use access::{Access, Clock};
use audit::AuditLog;
use caller::Caller;
pub use caller::{LinkSecurity, Peer, Surroundings};
use counts::WebCounts;
use exchange::Shared;
use host::{HostOwner, owner_of};
use problem::{FOREIGN_HOST, NO_METHOD};
use route::{ROUTES, Verb};

/// The interface of one server.
pub struct Web {
    router: Router,
    surroundings: Arc<dyn Surroundings>,
    counts: Arc<WebCounts>,
}

/// The stores of the interface.
#[derive(Clone)]
pub struct WebStores {
    /// Users, sessions and API tokens.
    pub access: Arc<Access>,
    /// The audit log.
    pub audit: Arc<AuditLog>,
    /// The counts for the metrics.
    pub counts: Arc<WebCounts>,
    /// The data directory.
    pub directory: PathBuf,
}

impl WebStores {
    /// Opens the users and sessions of a data directory.
    pub fn open(directory: &Path, clock: Clock) -> Self {
        Self {
            access: Arc::new(Access::open(directory, clock)),
            audit: Arc::new(AuditLog::new(directory)),
            counts: Arc::default(),
            directory: directory.to_owned(),
        }
    }
}

impl Web {
    /// Creates the interface of a server.
    pub fn new(
        control: Arc<dyn Control + Send + Sync>,
        surroundings: Arc<dyn Surroundings>,
        stores: WebStores,
    ) -> Self {
        let counts = stores.counts.clone();
        let shared = Arc::new(Shared::new(control, surroundings.clone(), stores));
        Self { router: router(&shared), surroundings, counts }
    }

    /// Serves a request, which [`host::with_host`] has checked.
    pub async fn respond(&self, mut request: Request<Body>, peer: Peer) -> Response<Body> {
        let caller = Caller::of(peer, request.headers(), &*self.surroundings);
        let security = caller.security;
        let owner = owner_of(request.headers(), |name| self.surroundings.is_known_host(name));
        let mut response = match owner {
            HostOwner::Foreign => FOREIGN_HOST.of("a foreign name leads to this server").response(),
            HostOwner::Ours => {
                request.extensions_mut().insert(caller);
                match self.router.clone().call(request).await {
                    Ok(response) => response,
                    Err(never) => match never {},
                }
            }
        };
        self.counts.responded(response.status());
        secure(&mut response, security);
        response
    }
}

fn router(shared: &Arc<Shared>) -> Router {
    let mut router = Router::new();
    for route in ROUTES {
        let shared = shared.clone();
        let serve = move |request: Request<Body>| exchange::serve(shared.clone(), route, request);
        router = router.route(&route.full_path(), on(filter(route.verb), serve));
    }
    // If the interface for browsers is embedded, it shows the set-up itself, and this page is not
    // needed.
    let is_needed = |page: &&pages::Page| page.path != pages::SET_UP || !interface::is_embedded();
    for page in pages::PAGES.iter().filter(is_needed) {
        router =
            router.route(page.path, on(MethodFilter::GET, move || async move { page.response() }));
    }
    router
        .method_not_allowed_fallback(|method: Method| async move {
            NO_METHOD.of(format!("the path does not take {method}")).response()
        })
        .fallback(|request: Request<Body>| async move { interface::serve(&request.into_parts().0) })
}

const fn filter(verb: Verb) -> MethodFilter {
    match verb {
        Verb::Get => MethodFilter::GET,
        Verb::Post => MethodFilter::POST,
        Verb::Put => MethodFilter::PUT,
        Verb::Delete => MethodFilter::DELETE,
    }
}

/// Forbids framing, content sniffing and everything that a page could load from elsewhere. Forbids
/// caching unless the response permits it.
fn secure(response: &mut Response<Body>, security: LinkSecurity) {
    let is_page = response
        .headers()
        .get(CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"text/html"));
    let policy = if is_page { pages::POLICY } else { NO_CONTENT };
    let headers = response.headers_mut();
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    let all = [
        (CONTENT_SECURITY_POLICY, policy),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ];
    for (header, value) in all {
        headers.insert(header, HeaderValue::from_static(value));
    }
    if security == LinkSecurity::Tls {
        let year = HeaderValue::from_static("max-age=31536000");
        headers.insert(STRICT_TRANSPORT_SECURITY, year);
    }
}

/// The Content-Security-Policy of responses that are not pages.
const NO_CONTENT: &str = "default-src 'none'; frame-ancestors 'none'";
