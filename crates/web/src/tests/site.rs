//! A site with its own server, and a client of its interface.

use std::future::{Future, poll_fn};
use std::net::IpAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use avocet_control::access::{AccessScope, Role, Secret, TokenCreate, UserAdd};
use axum::body::{Body, HttpBody, to_bytes};
use axum::http::{HeaderMap, Request, StatusCode};
use serde_json::{Value, json};

use super::issuer::FakeIssuer;
use super::server::Remembering;
use crate::audit::AuditLog;
use crate::oidc::{OidcSettings, ProviderRequest, ProviderResponse, ProviderSilence};
use crate::{LinkSecurity, Peer, Surroundings, Web, WebStores};

pub(super) const PASSWORD: &str = "correct horse";

struct Home(Option<Arc<FakeIssuer>>);

impl Surroundings for Home {
    fn is_known_host(&self, name: &str) -> bool {
        name == "dns.example.net"
    }
    fn is_trusted_proxy(&self, _: IpAddr) -> bool {
        false
    }
    fn is_local(&self, address: IpAddr) -> bool {
        matches!(address, IpAddr::V4(v4) if v4.is_private())
    }
    fn oidc(&self) -> Option<OidcSettings> {
        self.0.as_ref().map(|issuer| issuer.settings())
    }
    fn ask_provider(&self, request: &ProviderRequest) -> Result<ProviderResponse, ProviderSilence> {
        self.0.as_ref().map_or(Err(ProviderSilence(String::new())), |issuer| issuer.ask(request))
    }
}

/// The interface of a server with its own data directory.
pub(super) struct Site {
    pub(super) server: Arc<Remembering>,
    pub(super) audit: Arc<AuditLog>,
    web: Web,
    pub(super) directory: PathBuf,
    now: Arc<AtomicU64>,
}

impl Site {
    /// Starts without users.
    pub(super) fn empty() -> Self {
        Self::at(None)
    }

    /// Starts without users, next to a provider.
    pub(super) fn with_issuer() -> (Self, Arc<FakeIssuer>) {
        let issuer = Arc::new(FakeIssuer::new());
        let site = Self::at(Some(issuer.clone()));
        issuer.follow(site.now.clone());
        (site, issuer)
    }

    fn at(issuer: Option<Arc<FakeIssuer>>) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let directory =
            std::env::temp_dir().join(format!("avocet-web-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let now = Arc::new(AtomicU64::new(1_000_000));
        let clock = now.clone();
        let stores = WebStores::open(&directory, Arc::new(move || clock.load(Ordering::Relaxed)));
        let (access, audit) = (stores.access.clone(), stores.audit.clone());
        let server = Arc::new(Remembering::new(access, directory.clone()));
        let web = Web::new(server.clone(), Arc::new(Home(issuer)), stores);
        Self { server, audit, web, directory, now }
    }

    /// Starts with the admin `ada`.
    pub(super) fn new() -> Self {
        let site = Self::empty();
        site.add("ada", Role::Admin);
        site
    }

    pub(super) fn add(&self, name: &str, role: Role) {
        let password = Secret::new(PASSWORD.to_owned());
        self.server
            .access
            .user_add(UserAdd { name: name.to_owned(), role, password, limits: None })
            .unwrap();
    }

    pub(super) fn pass(&self, secs: u64) {
        self.now.fetch_add(secs, Ordering::Relaxed);
    }

    /// Creates a token.
    pub(super) fn token(&self, scopes: &[AccessScope]) -> String {
        let request =
            TokenCreate { name: "t".to_owned(), scopes: scopes.to_vec(), secs: 1_000_000 };
        self.server.access.token_create(request).unwrap().token.reveal().to_owned()
    }

    /// Returns the commands that the server got since the last call.
    pub(super) fn seen(&self) -> Vec<String> {
        std::mem::take(&mut *self.server.seen.lock().unwrap())
    }

    /// Sends a request from an address of this network.
    pub(super) fn send(&self, request: Sent) -> Received {
        self.send_from(request, IpAddr::from([10, 0, 0, 7]))
    }

    pub(super) fn send_from(&self, request: Sent, address: IpAddr) -> Received {
        let peer = Peer { address, security: LinkSecurity::Plain };
        runtime().block_on(async {
            let response = self.web.respond(request.0, peer).await;
            let (head, body) = response.into_parts();
            let body = to_bytes(body, usize::MAX).await.unwrap();
            Received { status: head.status, headers: head.headers, body: body.to_vec() }
        })
    }

    /// Sends requests at the same time, whose clients stay and read nothing. Then all clients
    /// disconnect. Returns the status of each request.
    pub(super) fn hold_all(&self, requests: Vec<Sent>) -> Vec<u16> {
        let peer = Peer { address: IpAddr::from([10, 0, 0, 7]), security: LinkSecurity::Plain };
        runtime().block_on(async {
            let mut held = Vec::new();
            for request in requests {
                held.push(self.web.respond(request.0, peer).await);
            }
            held.iter().map(|response| response.status().as_u16()).collect()
        })
    }

    /// Reads the first part of a reply that does not end by itself, calls `happens`, and reads on
    /// while time passes. Returns when the reply ends.
    pub(super) fn follow(&self, request: Sent, happens: impl FnOnce()) {
        let peer = Peer { address: IpAddr::from([10, 0, 0, 7]), security: LinkSecurity::Plain };
        runtime().block_on(async {
            let response = self.web.respond(request.0, peer).await;
            assert_eq!(response.status(), StatusCode::OK);
            let mut body = response.into_body();
            assert!(next_part(&mut body).await, "the first part");
            for _ in 0..10 {
                tokio::time::advance(Duration::from_secs(1)).await;
                assert!(next_part(&mut body).await, "the author has its rights");
            }
            happens();
            tokio::time::advance(Duration::from_secs(1)).await;
            // Parts that wait may still come.
            while next_part(&mut body).await {}
        });
    }

    /// Sends a request, disconnects when the server has got it, and waits until the server reports
    /// that it has ended the request.
    pub(super) fn abandon(&self, request: Sent) {
        let peer = Peer { address: IpAddr::from([10, 0, 0, 7]), security: LinkSecurity::Plain };
        let has_seen = |count| self.server.seen.lock().unwrap().len() >= count;
        runtime().block_on(async {
            let mut reply = Box::pin(self.web.respond(request.0, peer));
            poll_fn(|cx| {
                assert!(reply.as_mut().poll(cx).is_pending(), "the search has no end");
                cx.waker().wake_by_ref();
                if has_seen(1) { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
            drop(reply);
        });
        while !has_seen(2) {
            std::thread::yield_now();
        }
    }

    /// Logs a user in. Returns a browser with the cookie and the CSRF token.
    pub(super) fn log_in(&self, name: &str) -> Browser {
        let fields = json!({"name": name, "password": PASSWORD});
        let reply = self.send(Sent::new("POST", "/api/v1/session").json(&fields));
        assert_eq!(reply.status, StatusCode::OK, "{reply:?}");
        Browser::of(&reply)
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Returns whether a body has another part.
async fn next_part(body: &mut Body) -> bool {
    poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await.is_some()
}

/// Returns a runtime with a clock that stops while requests are processed, and jumps when all of
/// them wait.
fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap()
}

/// A request.
pub(super) struct Sent(pub(super) Request<Body>);

impl Sent {
    pub(super) fn new(method: &str, path: &str) -> Self {
        let request = Request::builder().method(method).uri(path).header("host", "127.0.0.1:8053");
        Self(request.body(Body::empty()).unwrap())
    }

    pub(super) fn header(mut self, name: &'static str, value: &str) -> Self {
        self.0.headers_mut().insert(name, value.parse().unwrap());
        self
    }

    pub(super) fn body(mut self, body: impl Into<Body>) -> Self {
        *self.0.body_mut() = body.into();
        self
    }

    pub(super) fn json(self, fields: &Value) -> Self {
        self.header("content-type", "application/json").body(fields.to_string())
    }

    pub(super) fn token(self, token: &str) -> Self {
        self.header("authorization", &format!("Bearer {token}"))
    }

    /// Sends the header fields that a browser of this site sends.
    pub(super) fn by(self, browser: &Browser) -> Self {
        let sent = self.header("cookie", &format!("other=1; {}", browser.cookie));
        sent.header("x-csrf-token", &browser.csrf).header("sec-fetch-site", "same-origin")
    }
}

/// A browser with a session.
pub(super) struct Browser {
    pub(super) cookie: String,
    pub(super) csrf: String,
}

impl Browser {
    pub(super) fn of(reply: &Received) -> Self {
        let cookie = reply.header("set-cookie").split(';').next().unwrap().to_owned();
        Self { cookie, csrf: reply.json()["csrf"].as_str().unwrap().to_owned() }
    }
}

/// A response.
#[derive(Debug)]
pub(super) struct Received {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
}

impl Received {
    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    pub(super) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// Checks that the response is a problem with a status and a code.
    #[track_caller]
    pub(super) fn check(&self, status: u16, code: &str) {
        let json = self.json();
        assert_eq!((self.status.as_u16(), json["code"].as_str()), (status, Some(code)), "{json}");
        assert_eq!(self.header("content-type"), "application/problem+json");
        assert_eq!(json["status"], status);
        assert!(!json["next"].as_str().unwrap().is_empty(), "{json}");
    }
}
