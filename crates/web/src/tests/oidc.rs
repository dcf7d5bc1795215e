//! Log-in by a provider.

use std::net::IpAddr;

use avocet_control::access::Role;
use serde_json::{Value, json};

use super::issuer::{FakeIssuer, Signing};
use super::site::{Received, Sent, Site};

const BEGIN: &str = "/api/v1/session/oidc";

/// Begins a log-in. Returns the cookie and the address to which the browser is redirected.
fn begin(site: &Site) -> (String, String) {
    let reply = site.send(Sent::new("GET", BEGIN));
    assert_eq!(reply.status, 303, "{reply:?}");
    let cookie = reply.header("set-cookie").split(';').next().unwrap().to_owned();
    (cookie, reply.header("location").to_owned())
}

/// Comes back from the provider. Each call is from another address, so that failures do not slow
/// down other calls.
fn come_back(site: &Site, cookie: &str, query: &str) -> Received {
    let [.., a, b] = site.audit.newest(1000).unwrap().len().to_be_bytes();
    let sent = Sent::new("GET", &format!("{BEGIN}/callback?{query}")).header("cookie", cookie);
    site.send_from(sent, IpAddr::from([10, 1, a, b]))
}

fn log_in(site: &Site, issuer: &FakeIssuer) -> Received {
    let (cookie, location) = begin(site);
    come_back(site, &cookie, &issuer.authorize(&location))
}

/// Returns the reply to a request for the session that a log-in began.
fn session(site: &Site, reply: &Received) -> Value {
    let cookies = reply.headers.get_all("set-cookie").iter();
    let cookie = cookies.map(|one| one.to_str().unwrap()).find(|one| one.contains("session="));
    let cookie = cookie.expect("a session").split(';').next().unwrap();
    site.send(Sent::new("GET", "/api/v1/session").header("cookie", cookie)).json()
}

#[track_caller]
fn refused(reply: &Received, status: u16, code: &str) {
    reply.check(status, code);
    assert_eq!(reply.header("set-cookie"), "");
}

#[test]
fn a_user_of_the_provider_gets_a_session_with_a_role() {
    let (site, issuer) = Site::with_issuer();
    let reply = site.send(Sent::new("GET", BEGIN));
    let cookie = reply.header("set-cookie").to_owned();
    for part in ["avocet-oidc=", "; HttpOnly", "; SameSite=Lax", "; Path=/api/v1/session/oidc"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    let query = issuer.authorize(reply.header("location"));
    let reply = come_back(&site, cookie.split(';').next().unwrap(), &query);
    assert_eq!(
        (reply.status.as_u16(), reply.header("content-type")),
        (200, "text/html; charset=utf-8")
    );
    let cookies: Vec<_> =
        reply.headers.get_all("set-cookie").iter().map(|one| one.to_str().unwrap()).collect();
    assert!(
        cookies[0].contains("SameSite=Strict") && cookies[0].contains("HttpOnly"),
        "{cookies:?}"
    );
    assert!(cookies[1].starts_with("avocet-oidc=; Max-Age=0"), "{cookies:?}");
    let shown = session(&site, &reply);
    assert_eq!(shown["name"], "oidc:ada");
    assert_eq!(shown["scopes"], serde_json::to_value(Role::Operator.scopes()).unwrap());
    let entry = &site.audit.newest(1).unwrap()[0];
    assert_eq!((entry.fields["name"].as_str(), entry.result.as_str()), (Some("oidc:ada"), "ok"));
    assert!(!serde_json::to_string(entry).unwrap().contains("code-0"));
}

#[test]
fn a_log_out_ends_the_session_here_and_leads_to_the_end_of_that_at_the_provider() {
    let (site, issuer) = Site::with_issuer();
    let leave = |site: &Site, reply: &Received| {
        let csrf = session(site, reply)["csrf"].as_str().unwrap().to_owned();
        let cookies = reply.headers.get_all("set-cookie").iter();
        let cookie = cookies.map(|one| one.to_str().unwrap()).find(|one| one.contains("session="));
        let cookie = cookie.unwrap().split(';').next().unwrap();
        let end = || Sent::new("DELETE", "/api/v1/session").header("cookie", cookie);
        end_is_refused(site, end());
        let left = site.send(end().header("x-csrf-token", &csrf));
        assert_eq!(left.status, 200, "{left:?}");
        assert!(left.header("set-cookie").contains("Max-Age=0"), "{left:?}");
        site.send(Sent::new("GET", "/api/v1/session").header("cookie", cookie))
            .check(401, "unauthenticated");
        left.json()
    };
    assert_eq!(leave(&site, &log_in(&site, &issuer)), json!({}), "it offers no log-out");
    for (endpoint, sign) in
        [("https://login.example/out", '?'), ("https://login.example/?o=1", '&')]
    {
        let (site, issuer) = Site::with_issuer();
        issuer.behaviour.lock().unwrap().announce =
            Box::new(move |all| all["end_session_endpoint"] = endpoint.into());
        let expected = format!(
            "{endpoint}{sign}client_id=avocet&\
             post_logout_redirect_uri=http%3A%2F%2F127.0.0.1%3A8053%2F"
        );
        assert_eq!(leave(&site, &log_in(&site, &issuer))["provider"], expected);
    }
    let (other, issuer) = Site::with_issuer();
    issuer.behaviour.lock().unwrap().announce =
        Box::new(|all| all["end_session_endpoint"] = "/out".into());
    assert_eq!(leave(&other, &log_in(&other, &issuer)), json!({}), "a URL that is none");
    site.add("grace", Role::Viewer);
    let browser = site.log_in("grace");
    let left = site.send(Sent::new("DELETE", "/api/v1/session").by(&browser));
    assert_eq!(left.json(), json!({}), "a user of this server has no provider");
}

/// Checks that another site cannot log a user out.
fn end_is_refused(site: &Site, end: Sent) {
    site.send(end).check(403, "forged");
}

#[test]
fn without_a_provider_there_is_no_such_log_in() {
    let site = Site::new();
    site.send(Sent::new("GET", BEGIN)).check(404, "not-found");
    site.send(Sent::new("GET", "/api/v1/session/oidc/callback?code=a&state=b"))
        .check(404, "not-found");
}

#[test]
fn tokens_that_are_not_signed_by_the_issuer_are_refused() {
    let (site, issuer) = Site::with_issuer();
    for signing in [Signing::OtherKey, Signing::None, Signing::PublicKeyAsSecret] {
        issuer.behaviour.lock().unwrap().signing = signing;
        refused(&log_in(&site, &issuer), 401, "unauthenticated");
    }
    issuer.behaviour.lock().unwrap().signing = Signing::Honest;
    assert_eq!(log_in(&site, &issuer).status, 200);
}

#[test]
fn tokens_with_other_claims_are_refused() {
    let (site, issuer) = Site::with_issuer();
    let now = issuer.now();
    let check = |claim: &'static str, value: Value| {
        issuer.edit(move |_, claims| claims[claim] = value.clone());
        refused(&log_in(&site, &issuer), 401, "unauthenticated");
    };
    check("iss", json!("https://login.example"));
    check("iss", json!("https://login.example/realm/"));
    check("aud", json!("other"));
    check("aud", json!(["other"]));
    check("aud", json!(["avocet", "other"]));
    check("aud", Value::Null);
    check("azp", json!("other"));
    check("nonce", json!("other"));
    check("nonce", Value::Null);
    check("exp", json!(now - 60));
    check("exp", json!("soon"));
    check("iat", json!(now + 61));
    check("iat", Value::Null);
    check("nbf", json!(now + 61));
    check("sub", json!(""));
    check("sub", json!("x".repeat(256)));
    issuer.edit(|header, _| header["crit"] = json!(["b64"]));
    refused(&log_in(&site, &issuer), 401, "unauthenticated");
    issuer.edit(|header, _| header["alg"] = json!("ES384"));
    refused(&log_in(&site, &issuer), 401, "unauthenticated");
    issuer.edit(move |_, claims| {
        claims["aud"] = json!(["other", "avocet"]);
        claims["azp"] = json!("avocet");
        claims["exp"] = json!(now - 59);
        claims["iat"] = json!(now + 60);
    });
    assert_eq!(log_in(&site, &issuer).status, 200, "within the skew of clocks");
}

#[test]
fn only_the_browser_that_began_a_log_in_ends_it() {
    let (site, issuer) = Site::with_issuer();
    let (cookie, location) = begin(&site);
    let (other_cookie, other_location) = begin(&site);
    assert_ne!(cookie, other_cookie);
    let query = issuer.authorize(&location);
    refused(&come_back(&site, "", &query), 401, "unauthenticated");
    refused(&come_back(&site, &other_cookie, &query), 401, "unauthenticated");
    refused(&come_back(&site, &cookie, &issuer.authorize(&other_location)), 401, "unauthenticated");
    let mut forged = cookie.clone().into_bytes();
    let last = forged.len() - 3;
    forged[last] = if forged[last] == b'A' { b'B' } else { b'A' };
    let forged = String::from_utf8(forged).unwrap();
    refused(&come_back(&site, &forged, &query), 401, "unauthenticated");
    issuer.asked();
    site.pass(600);
    refused(&come_back(&site, &cookie, &query), 401, "unauthenticated");
    assert!(issuer.asked().is_empty(), "nothing is exchanged");
}

#[test]
fn a_log_in_that_is_of_another_issuer_denied_or_without_a_code_is_refused() {
    let (site, issuer) = Site::with_issuer();
    let edits: [fn(&str) -> String; 3] = [
        |query| query.replace("realm", "other"),
        |query| format!("error=access_denied&{}", query.split('&').nth(1).unwrap()),
        |query| query.split('&').nth(1).unwrap().to_owned(),
    ];
    for edit in edits {
        let (cookie, location) = begin(&site);
        let query = issuer.authorize(&location);
        issuer.asked();
        refused(&come_back(&site, &cookie, &edit(&query)), 401, "unauthenticated");
        refused(&come_back(&site, &cookie, &query), 401, "unauthenticated");
        assert!(issuer.asked().is_empty(), "nothing is exchanged");
    }
}

#[test]
fn a_state_is_valid_once() {
    let (site, issuer) = Site::with_issuer();
    let (cookie, location) = begin(&site);
    let query = issuer.authorize(&location);
    assert_eq!(come_back(&site, &cookie, &query).status, 200);
    issuer.asked();
    // The provider would accept another code.
    for query in [query, issuer.authorize(&location)] {
        refused(&come_back(&site, &cookie, &query), 401, "unauthenticated");
    }
    assert!(issuer.asked().is_empty(), "nothing is exchanged");
    assert_eq!(log_in(&site, &issuer).status, 200);
}

#[test]
fn failures_slow_their_address_down() {
    let (site, issuer) = Site::with_issuer();
    let back = || site.send(Sent::new("GET", "/api/v1/session/oidc/callback?code=a&state=b"));
    for _ in 0..5 {
        back().check(401, "unauthenticated");
    }
    back().check(429, "throttled");
    assert_eq!(site.audit.newest(100).unwrap().len(), 5);
    // Requests that another page can make the browser send lock no user out.
    let come_back = |edit: fn(&str) -> String| {
        let (cookie, location) = begin(&site);
        let query = edit(&issuer.authorize(&location));
        let sent = Sent::new("GET", &format!("{BEGIN}/callback?{query}"));
        site.send(sent.header("cookie", &cookie))
    };
    assert_eq!(come_back(str::to_owned).status.as_u16(), 200);
    let denied =
        || come_back(|query| format!("error=access_denied&{}", query.split('&').nth(1).unwrap()));
    for _ in 0..5 {
        denied().check(401, "unauthenticated");
    }
    denied().check(429, "throttled");
    let password = json!({"name": "nobody", "password": "wrong password"});
    let log_in = || site.send(Sent::new("POST", "/api/v1/session").json(&password));
    log_in().check(401, "unauthenticated");
}

#[test]
fn groups_decide_on_the_role() {
    let (site, issuer) = Site::with_issuer();
    let check = |groups: Value, expected: Role| {
        issuer.edit(move |_, claims| claims["groups"] = groups.clone());
        let shown = session(&site, &log_in(&site, &issuer));
        assert_eq!(shown["scopes"], serde_json::to_value(expected.scopes()).unwrap());
    };
    check(json!("staff"), Role::Viewer);
    check(json!(["staff", "helpdesk"]), Role::Operator);
    check(json!(["dns-admins", "staff"]), Role::Admin);
    for groups in [json!(["dns-admin"]), json!([]), json!(["DNS"]), json!({"dns": true}), json!(7)]
    {
        issuer.edit(move |_, claims| claims["groups"] = groups.clone());
        refused(&log_in(&site, &issuer), 403, "forbidden");
    }
}

#[test]
fn names_that_no_user_may_have_are_refused() {
    let (site, issuer) = Site::with_issuer();
    for name in [json!("<script>"), json!("a b"), json!(""), json!("x".repeat(65)), json!(1)] {
        issuer.edit(move |_, claims| claims["preferred_username"] = name.clone());
        refused(&log_in(&site, &issuer), 403, "forbidden");
    }
}

#[test]
fn claims_that_the_token_lacks_come_from_userinfo_about_the_same_subject() {
    let (site, issuer) = Site::with_issuer();
    issuer.edit(|_, claims| {
        claims.as_object_mut().unwrap().retain(|name, _| name != "groups");
    });
    refused(&log_in(&site, &issuer), 403, "forbidden");
    let info = json!({"sub": "7", "groups": ["staff"], "preferred_username": "eve"});
    issuer.behaviour.lock().unwrap().userinfo = info;
    assert_eq!(session(&site, &log_in(&site, &issuer))["name"], "oidc:ada", "the token goes first");
    issuer.behaviour.lock().unwrap().userinfo = json!({"sub": "8", "groups": ["dns-admins"]});
    refused(&log_in(&site, &issuer), 401, "unauthenticated");
}

#[test]
fn keys_are_fetched_again_when_they_change_but_not_for_each_token() {
    let (site, issuer) = Site::with_issuer();
    for (kid, alg) in [("2", "EdDSA"), ("3", "RS256"), ("4", "ES256")] {
        issuer.rotate(kid, alg);
        assert_eq!(log_in(&site, &issuer).status, 200, "{alg}");
        site.pass(30);
    }
    issuer.asked();
    issuer.behaviour.lock().unwrap().signing = Signing::OtherKey;
    for _ in 0..20 {
        refused(&log_in(&site, &issuer), 401, "unauthenticated");
    }
    assert_eq!(issuer.asked().iter().filter(|path| *path == "/keys").count(), 1);
    issuer.behaviour.lock().unwrap().signing = Signing::Honest;
    site.pass(3600);
    assert_eq!(log_in(&site, &issuer).status, 200);
    let asked = issuer.asked();
    assert_eq!(asked, ["/.well-known/openid-configuration", "/token", "/keys"]);
}

#[test]
fn a_provider_that_cannot_be_used_is_named_and_left_alone_for_a_while() {
    let (site, issuer) = Site::with_issuer();
    let begin = || site.send(Sent::new("GET", BEGIN));
    let announce = |announce: fn(&mut Value)| {
        issuer.behaviour.lock().unwrap().announce = Box::new(announce);
        site.pass(30);
        begin().check(502, "provider");
    };
    announce(|endpoints| endpoints["issuer"] = json!("https://evil.example"));
    announce(|endpoints| endpoints["token_endpoint"] = json!("http://login.example/token"));
    announce(|endpoints| endpoints["jwks_uri"] = Value::Null);
    issuer.behaviour.lock().unwrap().announce = Box::new(|_| {});
    issuer.behaviour.lock().unwrap().status = 500;
    site.pass(30);
    issuer.asked();
    for _ in 0..10 {
        begin().check(502, "provider");
    }
    assert_eq!(issuer.asked().len(), 1);
    issuer.behaviour.lock().unwrap().status = 200;
    site.pass(30);
    assert_eq!(begin().status, 303);
}

#[test]
fn sessions_end_when_the_provider_is_another_one() {
    let (site, issuer) = Site::with_issuer();
    site.add("bob", Role::Viewer);
    let of_provider = log_in(&site, &issuer);
    let own = site.log_in("bob");
    assert_eq!(session(&site, &of_provider)["name"], "oidc:ada");
    *issuer.client_id.lock().unwrap() = "other";
    assert_eq!(session(&site, &of_provider)["code"], "unauthenticated");
    assert_eq!(site.send(Sent::new("GET", "/api/v1/session").by(&own)).status, 200);
    *issuer.client_id.lock().unwrap() = "avocet";
    assert_eq!(session(&site, &of_provider)["code"], "unauthenticated", "it ended");
}

#[test]
fn a_log_in_ends_if_the_settings_change_while_the_provider_is_asked() {
    let (site, issuer) = Site::with_issuer();
    let changed = issuer.clone();
    issuer.edit(move |_, _| *changed.client_id.lock().unwrap() = "other");
    refused(&log_in(&site, &issuer), 401, "unauthenticated");
}
