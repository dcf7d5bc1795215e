//! Writes that must not overwrite or repeat, and their entries in the audit log.

use avocet_control::access::AccessScope;
use serde_json::{Value, json};

use super::site::{PASSWORD, Sent, Site};

const NEGATIVE: &str = "/api/v1/trust/negative";

fn add(name: &str, token: &str) -> Sent {
    Sent::new("POST", NEGATIVE).token(token).json(&json!({"name": name, "secs": 60}))
}

#[test]
fn a_write_with_an_outdated_tag_changes_nothing() {
    let site = Site::new();
    let token = site.token(&AccessScope::ALL);
    let get = || site.send(Sent::new("GET", NEGATIVE).token(&token));
    let tag = get().header("etag").to_owned();
    assert!(tag.starts_with('"'), "{tag}");
    assert_eq!(get().header("etag"), tag, "the time in the reply is no change");
    let known = site.send(Sent::new("GET", NEGATIVE).token(&token).header("if-none-match", &tag));
    assert_eq!((known.status.as_u16(), known.body.len()), (304, 0));

    assert_eq!(site.send(add("a.", &token).header("if-match", &tag)).status, 200);
    let reply = site.send(add("b.", &token).header("if-match", &tag));
    reply.check(412, "changed");
    assert!(reply.json()["detail"].as_str().unwrap().contains(get().header("etag")));
    assert_eq!(get().json()["anchors"].as_array().unwrap().len(), 1);
    let remove = Sent::new("DELETE", &format!("{NEGATIVE}?name=a.")).token(&token);
    site.send(remove.header("if-match", &tag)).check(412, "changed");
    assert_eq!(site.send(add("b.", &token)).status, 200, "without a tag nothing is compared");
    assert_eq!(site.send(add("c.", &token).header("if-match", "*")).status, 200);
}

#[test]
fn a_request_with_a_used_key_gets_the_first_reply() {
    let site = Site::new();
    let token = site.token(&AccessScope::ALL);
    let create = |key: &str, name: &str| {
        let fields = json!({"name": name, "scopes": ["status:read"], "secs": 60});
        let sent = Sent::new("POST", "/api/v1/tokens").token(&token).json(&fields);
        site.send(sent.header("idempotency-key", key))
    };
    let first = create("k", "one").json();
    assert_eq!(create("k", "one").json(), first);
    create("k", "two").check(422, "key-reused");
    assert_ne!(create("l", "one").json()["id"], first["id"]);
    create("", "one").check(422, "invalid-value");
    create(&"x".repeat(200), "one").check(422, "invalid-value");
    assert_eq!(site.seen(), ["token-create", "token-create"]);

    let other = site.token(&[AccessScope::TrustWrite]);
    let sent = add("a.", &other).header("idempotency-key", "k");
    assert_eq!(site.send(sent).status, 200, "the keys of others are apart");
    site.pass(600);
    assert_ne!(create("k", "one").json()["id"], first["id"]);
}

#[test]
fn a_failure_does_not_use_up_the_key() {
    let site = Site::new();
    let token = site.token(&AccessScope::ALL);
    let flush = |name: &str| {
        let sent = Sent::new("POST", "/api/v1/cache/flush").token(&token);
        site.send(sent.json(&json!({"name": name, "x": 1})).header("idempotency-key", "k"))
    };
    flush("a.").check(400, "malformed");
    flush("b.").check(400, "malformed");
}

#[test]
fn every_change_is_in_the_audit_log_without_secrets() {
    let site = Site::new();
    let browser = site.log_in("ada");
    let user = json!({"name": "bob", "role": "viewer", "password": "very secret words"});
    assert_eq!(site.send(Sent::new("POST", "/api/v1/users").by(&browser).json(&user)).status, 200);
    site.send(Sent::new("POST", "/api/v1/users").by(&browser).json(&user)).check(409, "exists");
    site.send(Sent::new("GET", "/api/v1/users").by(&browser));
    let viewer = site.token(&[AccessScope::StatusRead]);
    site.send(add("a.", &viewer)).check(403, "forbidden");
    let reply = site.send(Sent::new("GET", "/api/v1/audit?limit=10").by(&browser)).json();
    let entries: Vec<_> = reply["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| {
            let part = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
            format!("{} {} {} {}", part("who"), part("by"), part("what"), part("result"))
        })
        .collect();
    assert_eq!(
        entries,
        [
            "t token POST /api/v1/trust/negative forbidden",
            "ada session POST /api/v1/users exists",
            "ada session POST /api/v1/users ok",
            "ada none POST /api/v1/session ok",
        ]
    );
    assert_eq!(reply["entries"][1]["fields"]["name"], "bob");
    assert_eq!(reply["entries"][1]["from"], "10.0.0.7");
    let text = reply.to_string();
    assert!(!text.contains("secret words") && !text.contains(PASSWORD), "{text}");
}

#[test]
fn replies_are_not_stored_by_anyone() {
    let site = Site::new();
    let reply = site.send(Sent::new("GET", "/api/v1/openapi.json"));
    for (name, value) in [
        ("cache-control", "no-store"),
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        ("referrer-policy", "no-referrer"),
        ("content-security-policy", "default-src 'none'; frame-ancestors 'none'"),
        ("cross-origin-resource-policy", "same-origin"),
    ] {
        assert_eq!(reply.header(name), value, "{name}");
    }
    assert_eq!(reply.header("access-control-allow-origin"), "", "no other site may read");
    assert_eq!(reply.json()["openapi"], Value::from("3.1.0"));
}
