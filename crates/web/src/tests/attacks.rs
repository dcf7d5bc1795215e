//! Requests of attackers.

use std::pin::Pin;
use std::task::{Context, Poll};

use avocet_control::access::AccessScope;
use axum::body::{Body, Bytes, HttpBody};
use http_body::Frame;
use serde_json::json;

use super::site::{Sent, Site};

fn flush() -> Sent {
    Sent::new("POST", "/api/v1/cache/flush").json(&json!({"name": "a.example."}))
}

#[test]
fn another_site_cannot_change_anything_in_the_name_of_a_user() {
    let site = Site::new();
    let browser = site.log_in("ada");
    site.seen();
    let forged =
        |sent: Sent| site.send(sent.header("cookie", &browser.cookie)).check(403, "forged");
    forged(flush());
    forged(flush().header("x-csrf-token", "wrong"));
    forged(flush().header("x-csrf-token", &site.log_in("ada").csrf));
    let with_csrf = || flush().header("x-csrf-token", &browser.csrf);
    forged(with_csrf().header("sec-fetch-site", "cross-site"));
    forged(with_csrf().header("sec-fetch-site", "same-site"));
    forged(with_csrf().header("origin", "https://evil.example"));
    forged(with_csrf().header("origin", "null"));
    forged(with_csrf().header("origin", "http://127.0.0.1:80"));
    assert_eq!(site.seen(), [""; 0]);
    let own = with_csrf().header("origin", "http://127.0.0.1:8053");
    assert_eq!(site.send(own.header("cookie", &browser.cookie)).status, 200);
    assert_eq!(site.send(flush().by(&browser)).status, 200);
}

#[test]
fn another_site_cannot_log_a_browser_in() {
    let site = Site::new();
    let fields = json!({"name": "ada", "password": "correct horse"});
    let post = || Sent::new("POST", "/api/v1/session").json(&fields);
    site.send(post().header("sec-fetch-site", "cross-site")).check(403, "forged");
    site.send(post().header("origin", "https://evil.example")).check(403, "forged");
    for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""] {
        site.send(post().header("content-type", kind)).check(415, "not-json");
    }
}

#[test]
fn a_name_of_a_stranger_in_host_reveals_nothing() {
    let site = Site::new();
    let token = site.token(&AccessScope::ALL);
    let status = |host: &str| {
        site.send(Sent::new("GET", "/api/v1/status").token(&token).header("host", host))
    };
    for host in ["evil.example", "evil.example:8053", "127.0.0.1.evil.example"] {
        status(host).check(403, "foreign-host");
    }
    for host in ["127.0.0.1:8053", "[::1]:8053", "localhost", "nas.lan", "dns.example.net"] {
        assert_eq!(status(host).status, 200, "{host}");
    }
}

#[test]
fn a_path_leads_to_no_file() {
    let site = Site::new();
    for path in [
        "/api/v1/../../etc/passwd",
        "/../access.json",
        "/access.json",
        "/api/v1/%2e%2e/%2e%2e/access.json",
        "/api/v1/..%2f..%2faudit.jsonl",
        "/setup/../access.json",
        "//etc/passwd",
        "/setup%00.html",
    ] {
        let reply = site.send(Sent::new("GET", path));
        reply.check(404, "not-found");
        assert!(!reply.json().to_string().contains("passwd"), "the path is not repeated");
    }
}

#[test]
fn names_inject_neither_headers_nor_markup() {
    let site = Site::new();
    let token = site.token(&AccessScope::ALL);
    let name = "<script>alert(1)</script>\r\nSet-Cookie: a=b\0\u{202e}";
    let encoded: String = form_urlencoded::byte_serialize(name.as_bytes()).collect();
    let path = format!("/api/v1/lists/check?name={encoded}");
    let reply = site.send(Sent::new("GET", &path).token(&token));
    reply.check(404, "not-found");
    assert_eq!(reply.header("set-cookie"), "");
    assert_eq!(reply.header("x-content-type-options"), "nosniff");
    let text = String::from_utf8(reply.body).unwrap();
    assert!(!text.contains('\r') && !text.contains('\n') && !text.contains('\0'), "{text}");

    let log_in = json!({"name": name, "password": "correct horse"});
    site.send(Sent::new("POST", "/api/v1/session").json(&log_in)).check(401, "unauthenticated");
    assert_eq!(site.audit.newest(10).unwrap().len(), 1, "one line for one attempt");
}

#[test]
fn a_body_without_end_or_beyond_the_limit_is_refused() {
    let site = Site::new();
    let token = site.token(&AccessScope::ALL);
    let post = || Sent::new("POST", "/api/v1/cache/flush").token(&token);
    let large = json!({"name": "a".repeat(20_000)});
    site.send(post().json(&large)).check(413, "too-large");
    site.send(post().header("content-length", "99999999999").json(&json!({})))
        .check(413, "too-large");
    let endless = Body::new(EndlessBody);
    site.send(post().header("content-type", "application/json").body(endless))
        .check(413, "too-large");
    let silent = Body::new(SilentBody);
    let reply = site.send(post().header("content-type", "application/json").body(silent));
    reply.check(408, "request-timeout");
    let deep = format!("{{\"name\":{}1{}}}", "[".repeat(2000), "]".repeat(2000));
    let reply = site.send(post().header("content-type", "application/json").body(deep));
    reply.check(400, "malformed");
    let query = format!("/api/v1/explain?name={}", "a".repeat(5000));
    site.send(Sent::new("GET", &query).token(&token)).check(413, "too-large");
    assert_eq!(site.seen(), [""; 0]);
}

/// A body that never ends.
struct EndlessBody;

impl HttpBody for EndlessBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&[b' '; 4096])))))
    }
}

/// A body that does not arrive.
struct SilentBody;

impl HttpBody for SilentBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Poll::Pending
    }
}

#[test]
fn a_stolen_cookie_of_plain_http_is_of_no_use_as_a_token() {
    let site = Site::new();
    let browser = site.log_in("ada");
    let id = browser.cookie.split_once('=').unwrap().1;
    site.send(Sent::new("GET", "/api/v1/status").token(id)).check(401, "unauthenticated");
}
