//! The table of all routes: who may send what.

use avocet_control::access::{AccessScope, Role};
use avocet_control::revisions::ChangeReach;
use avocet_control::{Effect, Request};
use serde_json::{Map, Value, json};

use super::server::ENTRIES;
use super::site::{Sent, Site};
use crate::route::{Does, Needs, ROUTES, ReplyForm, Route, Verb};

/// Fields with which the server serves a route.
fn fields(route: &Route) -> Value {
    match (route.verb, route.path) {
        (Verb::Post, "/cache/flush" | "/cache/flush-tree" | "/trace" | "/zones/sign")
        | (
            Verb::Get,
            "/explain" | "/lists/check" | "/cache/lookup" | "/zones/records" | "/zones/export"
            | "/zones/keys" | "/zones/history",
        )
        | (Verb::Delete, "/trust/negative") => json!({"name": "www.example."}),
        (Verb::Post, "/zones/records") => json!({"name": "www.example.", "edits": []}),
        (Verb::Post, "/pools/control") => json!({"name": "www.example.", "control": "drain"}),
        (Verb::Get, "/connect/document") => json!({"form": "profile"}),
        (Verb::Get, "/pools/what-if") => json!({"down": "192.0.2.1"}),
        (Verb::Get, "/queries/live") => json!({"under": "few.example."}),
        (Verb::Get, "/queries/entry") => json!({"id": 7}),
        (Verb::Delete, "/queries") => json!({"all": true}),
        (Verb::Post, "/lists/refresh") => json!({}),
        (Verb::Post, "/policy/pause") => json!({"scope": "all", "secs": 60}),
        (Verb::Post, "/policy/grant") => json!({"name": "a.example.", "secs": 60}),
        (Verb::Post, "/policy/requests/grant") => json!({"id": 1, "minutes": 45}),
        (Verb::Post, "/policy/requests/refuse") => json!({"id": 1}),
        (Verb::Post, "/policy/dry-run") => json!({"text": "[cache]\n", "limit": 5}),
        (Verb::Post, "/trust/negative") => json!({"name": "a.example.", "secs": 60}),
        (Verb::Post, "/users") => {
            json!({"name": "bob", "role": "viewer", "password": "correct horse"})
        }
        (Verb::Put, "/users") => json!({"name": "ada", "role": "admin"}),
        (Verb::Delete, "/users") => json!({"name": "nobody"}),
        (Verb::Post, "/tokens") => {
            json!({"name": "t", "scopes": ["status:read"], "secs": 60})
        }
        (Verb::Delete, "/tokens") => json!({"id": "none"}),
        (Verb::Get, "/config/revisions/difference") => json!({"from": 1}),
        (Verb::Post, "/config/changes" | "/config/check") => {
            json!({"edits": [{"key": "cache.prefetch", "value": "false"}]})
        }
        (Verb::Post, "/config/rollback") => json!({"number": 1}),
        (verb, _) if matches!(route.does, Does::Entries(_)) => {
            let settings = json!({"name": route.path, "type": "A"});
            match verb {
                Verb::Get => json!({}),
                Verb::Post => json!({"settings": settings}),
                Verb::Put => json!({"id": "none", "settings": settings}),
                Verb::Delete => json!({"id": "none"}),
            }
        }
        _ => json!({}),
    }
}

fn sent(route: &Route) -> Sent {
    let fields = fields(route);
    let path = route.full_path();
    let method = route.verb.method().to_string();
    if let Does::Upload(_) = route.does {
        return Sent::new(&method, &path).header("content-type", "application/jsonl").body("1");
    }
    if route.verb.has_body() {
        return Sent::new(&method, &path).json(&fields);
    }
    let pairs = fields.as_object().unwrap().iter();
    let query: Vec<_> = pairs
        .map(|(name, value)| format!("{name}={}", value.to_string().trim_matches('"')))
        .collect();
    Sent::new(&method, &format!("{path}?{}", query.join("&")))
}

fn scope(route: &Route) -> Option<AccessScope> {
    match route.needs {
        Needs::Scope(scope) => Some(scope),
        Needs::Session | Needs::Nothing => None,
    }
}

#[test]
fn nobody_gets_anything_without_log_in_but_log_in_and_the_document() {
    let site = Site::new();
    for route in ROUTES.iter().filter(|route| route.needs != Needs::Nothing) {
        let reply = site.send(sent(route));
        reply.check(401, "unauthenticated");
        assert_eq!(reply.header("www-authenticate"), "Bearer realm=\"avocet\"");
    }
    for token in ["", "avocet_wrong", "x"] {
        let reply = site.send(Sent::new("GET", "/api/v1/status").token(token));
        reply.check(401, "unauthenticated");
    }
    assert_eq!(site.seen(), [""; 0], "the server saw none of them");
}

#[test]
fn each_route_needs_its_scope_and_no_other() {
    let site = Site::new();
    for route in ROUTES {
        let Some(needed) = scope(route) else { continue };
        let all: Vec<_> = route.scopes().collect();
        assert_eq!(all[0], needed);
        for needed in &all {
            let others: Vec<_> =
                AccessScope::ALL.into_iter().filter(|scope| scope != needed).collect();
            let reply = site.send(sent(route).token(&site.token(&others)));
            reply.check(403, "forbidden");
            assert!(reply.json()["detail"].as_str().unwrap().contains(needed.text()));
            assert_eq!(site.seen(), [""; 0], "{}", route.path);
        }
        let reply = site.send(sent(route).token(&site.token(&all)));
        let (status, path) = (reply.status.as_u16(), route.path);
        assert!(status == 200 || status == 404, "{path}: {:?}", reply.json());
        let calls = site.seen();
        match route.does {
            Does::Call(command, _) | Does::Upload(command) => {
                assert_eq!(calls, [command], "{path}");
            }
            Does::Entries(_) => assert_eq!(calls[0], "config-text", "{path}"),
            Does::Own(_) => assert_eq!(calls, [""; 0], "{path}"),
        }
    }
}

#[test]
fn a_role_may_send_exactly_the_requests_of_its_scopes() {
    let site = Site::new();
    site.add("viewer", Role::Viewer);
    site.add("operator", Role::Operator);
    for (name, role) in [("viewer", Role::Viewer), ("operator", Role::Operator)] {
        let browser = site.log_in(name);
        for route in ROUTES {
            let Some(needed) = scope(route) else { continue };
            let reply = site.send(sent(route).by(&browser));
            assert_eq!(reply.status != 403, role.may(needed), "{name} {}", route.path);
        }
    }
}

#[test]
fn what_changes_the_server_is_not_read_by_get() {
    for route in ROUTES {
        let Does::Call(command, form) = route.does else { continue };
        let mut fields: Map<String, Value> = match form {
            // The fields of such a query belong to an object of the request.
            ReplyForm::Events => Map::new(),
            _ => fields(route).as_object().unwrap().clone(),
        };
        fields.insert("command".to_owned(), command.into());
        let request: Request = serde_json::from_value(Value::Object(fields)).unwrap();
        let is_change = request.effect() == Effect::Changes;
        let is_write = scope(route).is_some_and(AccessScope::is_write);
        assert_eq!(is_change, is_write, "{}", route.path);
        assert!(!is_change || route.verb != Verb::Get, "{}", route.path);
    }
}

#[test]
fn a_reply_with_some_fields_has_no_others() {
    let site = Site::new();
    let token = site.token(&[AccessScope::StatusRead]);
    let reply = site.send(Sent::new("GET", "/api/v1/health").token(&token)).json();
    assert_eq!(reply, json!({"healthy": true, "serving": true, "warnings": ["w"]}));
    let route = ROUTES.iter().find(|route| route.path == "/explain").unwrap();
    let token = site.token(&[AccessScope::Explain]);
    assert_eq!(site.send(sent(route).token(&token)).json(), json!({"sections": []}));
}

#[test]
fn a_file_has_its_media_type_and_name() {
    let site = Site::new();
    let token = site.token(&[AccessScope::StatusRead]);
    let get = |query: &str| {
        site.send(Sent::new("GET", &format!("/api/v1/connect/document?{query}")).token(&token))
    };
    let reply = get("form=profile&id=tablet");
    assert_eq!(reply.header("content-type"), "application/x-apple-aspen-config");
    assert_eq!(reply.header("content-disposition"), "attachment; filename=\"dns.mobileconfig\"");
    assert_eq!(reply.body, b"<x>tablet");
    assert_eq!(get("form=qr").header("content-type"), "image/svg+xml");
    let reply = get("form=kea");
    assert_eq!(reply.header("content-type"), "text/plain; charset=utf-8");
    assert!(reply.header("content-security-policy").starts_with("default-src 'none'"));
    get("form=exe").check(400, "malformed");
    get("").check(400, "malformed");
}

#[test]
fn a_long_reply_is_lines_of_json_whatever_the_names() {
    let site = Site::new();
    let token = site.token(&[AccessScope::QueriesRead]);
    let reply = site.send(Sent::new("GET", "/api/v1/cache/entries").token(&token));
    assert_eq!(reply.header("content-type"), "application/jsonl");
    assert_eq!(reply.header("x-content-type-options"), "nosniff");
    let text = String::from_utf8(reply.body).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), ENTRIES + 1);
    assert_eq!(lines[0]["name"], "<script>0\\010.example.");
    assert_eq!(lines[ENTRIES], json!({"done": true, "rrsets": 0, "packets": ENTRIES}));
    assert!(ROUTES.iter().any(|route| matches!(route.does, Does::Call(_, ReplyForm::Lines))));
}

#[test]
fn paths_methods_and_fields_that_do_not_exist_are_problems() {
    let site = Site::new();
    let token = site.token(&AccessScope::ALL);
    for path in ["/api", "/api/v1", "/api/v1/", "/api/v1/x", "/api/v1/status/", "/api/v2/status"] {
        site.send(Sent::new("GET", path).token(&token)).check(404, "not-found");
    }
    let reply = site.send(Sent::new("PATCH", "/api/v1/users").token(&token));
    reply.check(405, "method-not-allowed");
    assert!(reply.header("allow").contains("PUT"), "{reply:?}");
    let get = |path: &str| site.send(Sent::new("GET", path).token(&token));
    get("/api/v1/status?x=1").check(400, "malformed");
    get("/api/v1/explain").check(400, "malformed");
    get("/api/v1/explain?name=a&at=soon").check(400, "malformed");
    get("/api/v1/explain?name=a&client=tv").check(404, "not-found");
    assert_eq!(site.seen(), ["why"]);
    let post = |fields: &Value| {
        site.send(Sent::new("POST", "/api/v1/cache/flush").token(&token).json(fields))
    };
    post(&json!({"name": 1})).check(400, "malformed");
    post(&json!({"name": "a", "command": "reload"}));
    assert_eq!(site.seen(), ["flush"], "the route decides on the command");
    post(&json!([])).check(400, "malformed");
    post(&json!({"name": "panic."})).check(500, "internal");
}

#[test]
fn addresses_of_pages_need_no_log_in_and_have_the_content_policy() {
    let site = Site::new();
    let page = site.send(Sent::new("GET", "/"));
    assert_eq!(page.status, 200);
    assert_eq!(page.header("content-type"), "text/html; charset=utf-8");
    assert!(page.header("content-security-policy").contains("script-src 'self'"));
    assert!(!page.header("content-security-policy").contains("unsafe"));
    for path in ["/assets/none.js", "/ready/x", "/metrics/x"] {
        site.send(Sent::new("GET", path)).check(404, "not-found");
    }
    site.send(Sent::new("POST", "/queries")).check(405, "method-not-allowed");
}

#[test]
fn the_ways_to_log_in_are_known_before_a_log_in() {
    let ways = |site: &Site| site.send(Sent::new("GET", "/api/v1/session/ways")).json();
    assert_eq!(ways(&Site::empty()), json!({"users": false, "provider": false}));
    assert_eq!(ways(&Site::new()), json!({"users": true, "provider": false}));
    assert_eq!(ways(&Site::with_issuer().0)["provider"], json!(true));
}

#[test]
fn a_search_of_the_log_takes_filters_from_the_query_and_refuses_others() {
    let site = Site::new();
    let token = site.token(&[AccessScope::QueriesRead]);
    let get = |query: &str| {
        site.send(Sent::new("GET", &format!("/api/v1/queries?{query}")).token(&token))
    };
    let all = "under=a.example&client=tv&device=tv&group=kids&type=AAAA&rcode=NXDOMAIN&\
               outcome=packet-hit&kind=answered&rule=r&list=l&upstream=9.9.9.9%3A53&from=1&to=2&\
               limit=5";
    assert_eq!(get(all).status, 200);
    get("cursor=x").check(422, "invalid-value");
    for query in ["outcome=nothing", "kind=packet-hit", "from=x", "limit=-1", "x=1", "filter=1"] {
        get(query).check(400, "malformed");
    }
    let viewer = site.token(&[AccessScope::QueriesRead, AccessScope::StatusRead]);
    let delete = Sent::new("DELETE", "/api/v1/queries?all=true").token(&viewer);
    site.send(delete).check(403, "forbidden");
    assert!(!site.seen().contains(&"log-prune".to_owned()));
}

#[test]
fn a_limited_user_stays_within_its_groups_and_zones() {
    let site = Site::new();
    let admin = site.log_in("ada");
    let add = json!({"name": "kim", "role": "operator", "password": super::site::PASSWORD,
                     "limits": {"groups": ["kids"], "zones": ["example.lan"]}});
    let reply = site.send(Sent::new("POST", "/api/v1/users").by(&admin).json(&add));
    assert_eq!(reply.status, 200, "{:?}", reply.json());
    let kim = site.log_in("kim");
    site.seen();
    let post = |path: &str, fields: Value| {
        site.send(Sent::new("POST", &format!("/api/v1{path}")).by(&kim).json(&fields))
    };
    let pause = |scope: Value| post("/policy/pause", json!({"scope": scope, "secs": 60}));
    pause(json!("all")).check(403, "forbidden");
    pause(json!({"group": "staff"})).check(403, "forbidden");
    assert_eq!(pause(json!({"group": "kids"})).status, 200);
    post("/cache/flush", json!({"name": "www.example"})).check(403, "forbidden");
    assert_eq!(post("/cache/flush", json!({"name": "a.example.lan"})).status, 200);
    post("/lists/refresh", json!({"name": null, "force": false})).check(403, "forbidden");
    let get = |path: &str| site.send(Sent::new("GET", &format!("/api/v1{path}")).by(&kim));
    get("/cache/entries").check(403, "forbidden");
    assert_eq!(get("/queries/live?under=few.example.").status, 200);
    assert_eq!(get("/status").status, 200);
    assert_eq!(site.seen(), ["pause", "flush", "log-tail", "status"]);
    let refused = site.audit.newest(1000).unwrap();
    assert_eq!(refused.iter().filter(|entry| entry.result == "forbidden").count(), 4);
}

#[test]
fn only_who_may_change_users_may_change_keys_that_decide_about_access() {
    let site = Site::new();
    let reach = |scopes: &[AccessScope], sent: Sent| {
        assert_eq!(site.send(sent.token(&site.token(scopes))).status, 200);
        match site.server.signed.lock().unwrap().pop() {
            Some(Request::ConfigChange(change)) => change.by.reach,
            Some(Request::ConfigRollback(change)) => change.by.reach,
            Some(Request::ConfigCheck(check)) => check.reach,
            Some(Request::PolicyDryRun(proposal)) => proposal.reach,
            other => panic!("{other:?}"),
        }
    };
    let edit = json!({"key": "oidc.issuer", "value": "\"https://evil.example\""});
    // A client cannot choose in the request which keys it may change (`reach`).
    let by = json!({"reach": "all"});
    for (path, fields) in [
        ("/api/v1/config/changes", json!({"edits": [edit], "by": by})),
        ("/api/v1/config/rollback", json!({"number": 1, "by": by})),
    ] {
        let sent = || Sent::new("POST", path).json(&fields);
        let (write, access) = (AccessScope::ConfigWrite, AccessScope::AccessWrite);
        assert_eq!(reach(&[write], sent()), ChangeReach::NotAccess, "{path}");
        assert_eq!(reach(&[write, access], sent()), ChangeReach::All, "{path}");
    }
    let (config, queries) = (AccessScope::ConfigRead, AccessScope::QueriesRead);
    for (path, fields) in [
        ("/api/v1/policy/dry-run", json!({"text": "[cache]\n", "reach": "all"})),
        ("/api/v1/config/check", json!({"edits": [edit], "reach": "all"})),
    ] {
        let sent = || Sent::new("POST", path).json(&fields);
        assert_eq!(reach(&[config, queries], sent()), ChangeReach::NotAccess, "{path}");
        let all = [config, queries, AccessScope::AccessWrite];
        assert_eq!(reach(&all, sent()), ChangeReach::All, "{path}");
    }
}

#[test]
fn a_limited_user_gets_logged_queries_of_its_zones_only() {
    let site = Site::new();
    let limits = json!({"groups": ["kids"], "zones": ["example.lan"]});
    let add = json!({"name": "kim", "role": "viewer", "password": super::site::PASSWORD,
                     "limits": limits});
    let admin = site.log_in("ada");
    assert_eq!(site.send(Sent::new("POST", "/api/v1/users").by(&admin).json(&add)).status, 200);
    let logged = |user: &str, name: &str| {
        let path = format!("/api/v1/explain?name={name}&at=7&logged=true");
        site.send(Sent::new("GET", &path).by(&site.log_in(user)));
        match site.server.signed.lock().unwrap().pop() {
            Some(Request::Why(why)) => why.logged,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(logged("kim", "www.example."), Some(false));
    assert_eq!(logged("kim", "a.example.lan."), Some(true));
    assert_eq!(logged("ada", "www.example."), Some(true));
}

#[test]
fn refused_requests_leave_no_secrets_in_the_audit_log_and_do_not_fill_it() {
    let site = Site::new();
    site.add("viv", Role::Viewer);
    let (admin, viewer) = (site.log_in("ada"), site.log_in("viv"));
    let send = |path: &str, browser, fields: &Value| {
        let reply =
            site.send(Sent::new("POST", &format!("/api/v1{path}")).by(browser).json(fields));
        assert!(reply.status != 200, "{path}");
    };
    send("/users", &admin, &json!({"name": "bob", "new-password": "s3cr3t"}));
    send("/users", &admin, &json!({"name": {"password2": "s3cr3t"}, "role": "viewer"}));
    send("/config/changes", &admin, &json!({"edits": [{"key": "a.b", "val": "s3cr3t"}]}));
    send("/session/second-factor", &admin, &json!({"password": "s3cr3t", "next": "s3cr3t"}));
    for _ in 0..200 {
        send("/session/second-factor", &viewer, &json!({"x".repeat(100): "s3cr3t".repeat(300)}));
    }
    let entries = site.audit.newest(1000).unwrap();
    let of_viewer = entries.iter().filter(|entry| entry.who == "viv" && entry.result != "ok");
    assert_eq!(of_viewer.count(), 20);
    let text = serde_json::to_string(&entries).unwrap();
    assert!(!text.contains("s3cr3t") && !text.contains("xxx"), "{text}");
    assert!(text.contains("\"unknown-fields\":2"), "{text}");
    site.pass(600);
    send("/session/second-factor", &viewer, &json!({"x": 1}));
    assert_eq!(site.audit.newest(1).unwrap()[0].fields["left-out"], 180);
}
