//! Log-in, sessions, set-up and the second factor over HTTP.

use std::net::IpAddr;

use avocet_control::access::{Role, Secret};
use serde_json::json;

use super::site::{Browser, PASSWORD, Sent, Site};
use crate::access::code_at;
use crate::interface;

fn log_in(name: &str, password: &str) -> Sent {
    Sent::new("POST", "/api/v1/session").json(&json!({"name": name, "password": password}))
}

#[test]
fn a_session_lives_in_a_cookie_that_scripts_and_other_sites_do_not_get() {
    let site = Site::new();
    let reply = site.send(log_in("ada", PASSWORD));
    let cookie = reply.header("set-cookie");
    for part in ["avocet-session=", "; HttpOnly", "; SameSite=Strict", "; Path=/", "; Max-Age="] {
        assert!(cookie.contains(part), "{cookie}");
    }
    let browser = Browser::of(&reply);
    assert!(!String::from_utf8_lossy(&reply.body).contains(&browser.cookie[15..]));
    let shown = site.send(Sent::new("GET", "/api/v1/session").by(&browser)).json();
    assert_eq!((&shown["name"], &shown["csrf"]), (&json!("ada"), &json!(browser.csrf)));
    let gone = site.send(Sent::new("DELETE", "/api/v1/session").by(&browser));
    assert!(gone.header("set-cookie").contains("Max-Age=0"), "{gone:?}");
    site.send(Sent::new("GET", "/api/v1/session").by(&browser)).check(401, "unauthenticated");
}

#[test]
fn a_session_that_a_stranger_chose_is_never_used() {
    let site = Site::new();
    let fixed = "avocet-session=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    let reply = site.send(log_in("ada", PASSWORD).header("cookie", fixed));
    assert_ne!(Browser::of(&reply).cookie, fixed);
    let status = Sent::new("GET", "/api/v1/status").header("cookie", fixed);
    site.send(status).check(401, "unauthenticated");
}

#[test]
fn a_log_in_ends_the_session_that_the_browser_had() {
    let site = Site::new();
    site.add("bob", Role::Viewer);
    let before = site.log_in("bob");
    let reply = site.send(log_in("ada", PASSWORD).header("cookie", &before.cookie));
    assert_eq!(reply.status, 200);
    site.send(Sent::new("GET", "/api/v1/session").by(&before)).check(401, "unauthenticated");
}

#[test]
fn a_session_ends_an_hour_after_its_last_request() {
    let site = Site::new();
    let browser = site.log_in("ada");
    site.pass(3599);
    assert_eq!(site.send(Sent::new("GET", "/api/v1/status").by(&browser)).status, 200);
    site.pass(3600);
    site.send(Sent::new("GET", "/api/v1/status").by(&browser)).check(401, "unauthenticated");
}

#[test]
fn guesses_are_slowed_down_by_address_and_say_when_to_try_again() {
    let site = Site::new();
    let attacker = IpAddr::from([10, 0, 0, 66]);
    for _ in 0..5 {
        site.send_from(log_in("ada", "wrong password"), attacker).check(401, "unauthenticated");
    }
    let reply = site.send_from(log_in("ada", PASSWORD), attacker);
    reply.check(429, "throttled");
    assert_eq!(reply.header("retry-after"), "1");
    assert_eq!(site.send(log_in("ada", PASSWORD)).status, 200, "others are not locked out");
    let wrong: Vec<_> = site.audit.newest(100).unwrap();
    assert_eq!(wrong.len(), 6, "attempts that were not checked do not fill the audit log");
    assert!(wrong[1..].iter().all(|entry| entry.who == "ada" && entry.result == "unauthenticated"));
    assert_eq!(wrong[1].from, "10.0.0.66");
}

#[test]
fn a_stranger_cannot_fill_the_audit_log() {
    let site = Site::new();
    let stranger = IpAddr::from([10, 0, 0, 66]);
    for number in 0..50 {
        site.send_from(log_in(&format!("<{number}>"), PASSWORD), stranger);
        let malformed = Sent::new("POST", "/api/v1/session").json(&json!({"name": number}));
        site.send_from(malformed, stranger).check(400, "malformed");
        let set_up = json!({"link": "x", "name": "eve", "password": PASSWORD});
        site.send_from(Sent::new("POST", "/api/v1/setup").json(&set_up), stranger);
        site.send_from(Sent::new("POST", "/api/v1/users").json(&json!({})), stranger);
    }
    assert_eq!(site.audit.newest(1000).unwrap().len(), 5);
}

#[test]
fn the_second_factor_is_drawn_confirmed_and_removed() {
    let site = Site::new();
    let browser = site.log_in("ada");
    let post = |path: &str, fields| {
        let path = format!("/api/v1/session/second-factor{path}");
        site.send(Sent::new("POST", &path).by(&browser).json(&fields))
    };
    post("/confirm", json!({"code": "123456"})).check(409, "not-begun");
    post("", json!({"password": "wrong password"})).check(401, "unauthenticated");
    let begun = post("", json!({"password": PASSWORD})).json();
    let secret = Secret::new(begun["secret"].as_str().unwrap().to_owned());
    post("/confirm", json!({"code": "000000x"})).check(401, "unauthenticated");
    let code = code_at(&secret, 1_000_000);
    let confirmed = post("/confirm", json!({"code": code})).json();
    assert_eq!(confirmed["recovery-codes"].as_array().unwrap().len(), 10);
    site.send(log_in("ada", PASSWORD)).check(401, "code-needed");
    let with_code = |code: &str| {
        let fields = json!({"name": "ada", "password": PASSWORD, "code": code});
        site.send(Sent::new("POST", "/api/v1/session").json(&fields))
    };
    with_code(&code).check(401, "unauthenticated");
    site.pass(30);
    let code = code_at(&secret, 1_000_030);
    assert_eq!(with_code(&code).status, 200);
    with_code(&code).check(401, "unauthenticated");
    assert_eq!(with_code(confirmed["recovery-codes"][9].as_str().unwrap()).status, 200);
    assert_eq!(post("/remove", json!({"password": PASSWORD})).status, 200);
    assert_eq!(site.send(log_in("ada", PASSWORD)).status, 200);
}

#[test]
fn the_set_up_link_works_once_and_only_from_the_local_network() {
    let site = Site::empty();
    let link = site.server.access.draw_setup().unwrap().unwrap();
    let set_up = |link: &str, name: &str| {
        let fields = json!({"link": link, "name": name, "password": PASSWORD});
        Sent::new("POST", "/api/v1/setup").json(&fields)
    };
    let remote = site.send_from(set_up(link.reveal(), "eve"), IpAddr::from([192, 0, 2, 1]));
    remote.check(403, "not-local");
    site.send(set_up("wrong", "eve")).check(409, "setup-over");
    let reply = site.send(set_up(link.reveal(), "ada"));
    assert_eq!((reply.status.as_u16(), &reply.json()["role"]), (200, &json!("admin")));
    site.send(set_up(link.reveal(), "eve")).check(409, "setup-over");
    let browser = site.log_in("ada");
    assert_eq!(site.send(Sent::new("GET", "/api/v1/users").by(&browser)).status, 200);
    let page = site.send(Sent::new("GET", "/setup"));
    // A server without the interface has a small page for the set-up.
    let script = if interface::is_embedded() { "/assets/" } else { "/setup.js" };
    assert!(String::from_utf8(page.body).unwrap().contains(script));
}

#[test]
fn a_change_of_the_password_ends_the_session_and_needs_the_present_one() {
    let site = Site::new();
    let browser = site.log_in("ada");
    let put = |password: &str, next: &str| {
        let fields = json!({"password": password, "next-password": next});
        site.send(Sent::new("PUT", "/api/v1/session/password").by(&browser).json(&fields))
    };
    put("wrong password", "another horse").check(401, "unauthenticated");
    put(PASSWORD, "short").check(422, "invalid-value");
    assert_eq!(put(PASSWORD, "another horse").status, 200);
    put("another horse", PASSWORD).check(401, "unauthenticated");
    assert_eq!(site.send(log_in("ada", "another horse")).status, 200);
}

#[test]
fn a_token_has_no_session() {
    let site = Site::new();
    let token = site.token(&avocet_control::access::AccessScope::ALL);
    site.send(Sent::new("GET", "/api/v1/session").token(&token)).check(401, "unauthenticated");
    let fields = json!({"password": PASSWORD, "next-password": "another horse"});
    let put = Sent::new("PUT", "/api/v1/session/password").token(&token).json(&fields);
    site.send(put).check(401, "unauthenticated");
}

#[test]
fn users_see_and_end_their_own_sessions_and_admins_all() {
    let site = Site::new();
    site.add("bob", Role::Viewer);
    let (ada, bob) = (site.log_in("ada"), site.log_in("bob"));
    site.pass(5);
    let phone = site.log_in("bob");
    let list = |browser: &Browser| {
        let reply = site.send(Sent::new("GET", "/api/v1/sessions").by(browser));
        reply.json()["sessions"].as_array().unwrap().clone()
    };
    let id = |browser: &Browser| {
        let shown = site.send(Sent::new("GET", "/api/v1/session").by(browser)).json();
        shown["id"].as_str().unwrap().to_owned()
    };
    let end = |browser: &Browser, id: &str| {
        site.send(Sent::new("DELETE", &format!("/api/v1/sessions?id={id}")).by(browser))
    };
    let (of_ada, of_bob, of_phone) = (id(&ada), id(&bob), id(&phone));
    let of_bobs = list(&bob);
    assert_eq!(of_bobs.len(), 2);
    assert!(of_bobs.iter().all(|one| one["user"] == "bob" && one["from"] == "10.0.0.7"));
    assert_eq!(list(&ada).len(), 3);
    end(&bob, &of_ada).check(404, "not-found");
    end(&bob, "").check(404, "not-found");
    assert_eq!(end(&bob, &of_phone).json(), json!({"id": of_phone, "user": "bob"}));
    site.send(Sent::new("GET", "/api/v1/session").by(&phone)).check(401, "unauthenticated");
    // To end the own session also removes the cookie.
    let own = end(&bob, &of_bob);
    assert!(own.header("set-cookie").contains("Max-Age=0"), "{own:?}");
    let bob = site.log_in("bob");
    assert_eq!(end(&ada, &id(&bob)).status, 200);
    assert_eq!(list(&ada).len(), 1);
    let token = site.token(&[avocet_control::access::AccessScope::AccessRead]);
    site.send(Sent::new("GET", "/api/v1/sessions").token(&token)).check(401, "unauthenticated");
}
