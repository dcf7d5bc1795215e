//! Tests of what users with limits may do: all routes, roles and limits.

use avocet_control::access::Role;
use serde_json::{Value, json};

use super::site::{Browser, PASSWORD, Received, Sent, Site};
use crate::route::{Does, Needs, OwnCall, ROUTES, Route, Verb};
use Reach::{Closed, Groups, Narrowed, Open, Own, Zones};
use Verb::{Delete, Get, Post, Put};

/// The part of a route that a user with limits may use, with fields of a request. A new route needs
/// an entry in [`reach`].
enum Reach {
    /// Everything, because the reply reveals no query and no client.
    Open(Value),
    /// Whatever the request asks for, the reply contains only data within the limits.
    Narrowed(Value),
    /// Only data about the user's groups. The second request is about another group.
    Groups(Value, Value),
    /// Only data about a name in the user's zones. The second request is about another name.
    Zones(Value, Value),
    /// A user with limits may not use the route.
    Closed,
    /// The route is about the user's own session, or needs no session.
    Own,
}

fn of_zone(mut fields: Value) -> Reach {
    let mut other = fields.clone();
    fields["name"] = "a.example.lan.".into();
    other["name"] = "a.example.".into();
    Zones(fields, other)
}

fn of_group(key: &str, fields: &Value) -> Reach {
    let with = |group: &str| {
        let mut fields = fields.clone();
        fields[key] = if key == "scope" { json!({ "group": group }) } else { group.into() };
        fields
    };
    Groups(with("kids"), with("staff"))
}

fn reach(verb: Verb, path: &str) -> Reach {
    let none = || json!({});
    match (verb, path) {
        (Get, "/status" | "/load" | "/health" | "/upstreams" | "/cache/stats") => Open(none()),
        (Get, "/lists" | "/trust/anchors" | "/trust/negative" | "/zones") => Open(none()),
        (Get, "/certificates" | "/connect" | "/pools" | "/config/revisions") => Open(none()),
        (Get, "/policy") => Open(none()),
        (Get, "/lists/check") => Open(json!({"name": "ads"})),
        (Get, "/connect/document") => Open(json!({"form": "stamps"})),
        (Get, "/pools/what-if") => Open(json!({"down": "192.0.2.1"})),
        (Get, "/explain") => of_zone(none()),
        (Post, "/trace") => of_zone(json!({"type": "A"})),
        (Get, "/queries" | "/queries/count") => Narrowed(json!({"group": "staff"})),
        // The stream of live queries below this name ends.
        (Get, "/queries/live") => Narrowed(json!({"under": "few.example."})),
        (Get, "/queries/entry") => Narrowed(json!({"id": 7})),
        (Get, "/statistics" | "/series") => Narrowed(json!({"from": 1, "to": 9})),
        (Get, "/queries/clients") => Narrowed(json!({"client": "192.0.2.1"})),
        (Post, "/policy/pause") => of_group("scope", &json!({"secs": 60})),
        (Post, "/policy/grant") => of_group("scope", &json!({"secs": 60, "name": "a.example"})),
        (Get, "/policy/requests") => of_group("group", &none()),
        (Post, "/policy/requests/grant") => of_group("group", &json!({"id": 1, "minutes": 15})),
        (Post, "/policy/requests/refuse") => of_group("group", &json!({"id": 1})),
        (Get, "/cache/lookup") => of_zone(none()),
        (Post, "/cache/flush" | "/cache/flush-tree" | "/zones/reload" | "/zones/sign") => {
            of_zone(none())
        }
        (Post, "/trust/negative") => of_zone(json!({"secs": 60})),
        (Delete, "/trust/negative") => of_zone(none()),
        (Get, "/zones/records" | "/zones/history" | "/zones/export" | "/zones/keys") => {
            of_zone(none())
        }
        (Post, "/zones/records") => of_zone(json!({"edits": []})),
        (Post, "/pools/control") => of_zone(json!({"control": "auto"})),
        (Get, "/cache/entries" | "/backup" | "/audit" | "/users" | "/tokens" | "/config") => Closed,
        (Delete, "/queries" | "/restore" | "/users" | "/tokens") => Closed,
        (Put, "/users") | (Post, "/users" | "/tokens" | "/restore") => Closed,
        (Post, "/lists/refresh" | "/policy/dry-run" | "/certificates/renew") => Closed,
        (_, path) if path.starts_with("/config/") => Closed,
        (_, "/lists" | "/lists/settings" | "/lists/test" | "/rules" | "/rules/test") => Closed,
        (_, "/groups" | "/groups/test" | "/clients" | "/clients/test") => Closed,
        (_, "/records" | "/records/test" | "/forwarders" | "/forwarders/test") => Closed,
        (_, "/stubs" | "/stubs/test") => Closed,
        (Post, "/setup") | (Get, "/openapi.json") => Own,
        (_, "/session" | "/sessions") => Own,
        (_, path) if path.starts_with("/session/") => Own,
        (verb, path) => panic!("{verb:?} {path}: decide what a user with limits may do"),
    }
}

/// A user of the site.
struct Visitor {
    role: Role,
    limits: &'static str,
    browser: Browser,
}

impl Visitor {
    fn all(site: &Site) -> Vec<Self> {
        let admin = site.log_in("ada");
        let limits = [
            ("", Value::Null),
            ("groups", json!({"groups": ["kids"]})),
            ("zones", json!({"zones": ["example.lan"]})),
        ];
        let mut all = Vec::new();
        for role in [Role::Viewer, Role::Operator] {
            for (limits, given) in &limits {
                let name = format!("{}-{limits}", role.text());
                let add =
                    json!({"name": name, "role": role, "password": PASSWORD, "limits": given});
                let sent = Sent::new("POST", "/api/v1/users").by(&admin).json(&add);
                assert_eq!(site.send(sent).status, 200, "{add}");
                all.push(Self { role, limits, browser: site.log_in(&name) });
            }
        }
        all.push(Self { role: Role::Admin, limits: "", browser: admin });
        all
    }

    fn send(&self, site: &Site, route: &Route, fields: &Value) -> Received {
        let method = route.verb.method();
        if route.verb.has_body() {
            let sent = Sent::new(method.as_str(), &route.full_path());
            return site.send(sent.by(&self.browser).json(fields));
        }
        let text = |value: &Value| value.as_str().map_or(value.to_string(), str::to_owned);
        let pairs = fields.as_object().into_iter().flatten();
        let query: Vec<String> =
            pairs.map(|(key, value)| format!("{key}={}", text(value))).collect();
        let path = format!("{}?{}", route.full_path(), query.join("&"));
        site.send(Sent::new(method.as_str(), &path).by(&self.browser))
    }

    /// Checks whether a request is beyond the limits, and whether the refusal says so.
    #[track_caller]
    fn check(&self, site: &Site, sent: (&Route, &Value), is_refused: bool) {
        let (route, fields) = sent;
        let reply = self.send(site, route, fields);
        let (what, who) = (route.full_path(), format!("{:?} {}", self.role, self.limits));
        if !is_refused {
            assert!(![400, 401, 403].contains(&reply.status.as_u16()), "{what} {who} {reply:?}");
            return;
        }
        reply.check(403, "forbidden");
        let problem = reply.json();
        assert!(problem["detail"].as_str().unwrap().contains("is limited to"), "{what} {problem}");
        assert!(problem["next"].as_str().unwrap().contains("/api/v1/session"), "{what} {problem}");
    }
}

#[test]
fn each_route_keeps_users_within_their_role_and_limits() {
    let site = Site::new();
    let visitors = Visitor::all(&site);
    for route in ROUTES {
        let reach = reach(route.verb, route.path);
        let is_own = matches!(reach, Own);
        assert_eq!(is_own, !matches!(route.needs, Needs::Scope(_)), "{}", route.path);
        for visitor in visitors.iter().filter(|_| !is_own) {
            let may = route.scopes().all(|scope| visitor.role.may(scope));
            if !may {
                visitor.send(&site, route, &json!({})).check(403, "forbidden");
                continue;
            }
            let (groups, zones) = (visitor.limits == "groups", visitor.limits == "zones");
            match &reach {
                Open(fields) | Narrowed(fields) => visitor.check(&site, (route, fields), false),
                Groups(inside, outside) => {
                    visitor.check(&site, (route, inside), zones);
                    visitor.check(&site, (route, outside), groups || zones);
                }
                Zones(inside, outside) => {
                    visitor.check(&site, (route, inside), groups);
                    visitor.check(&site, (route, outside), groups || zones);
                }
                Closed if groups || zones => match route.path {
                    "/lists/refresh" => {
                        let fields = json!({"name": null, "force": false});
                        visitor.check(&site, (route, &fields), true);
                    }
                    _ => visitor.check(&site, (route, &json!({})), true),
                },
                Closed => {
                    let reply = visitor.send(&site, route, &json!({}));
                    assert_ne!(reply.status, 403, "{}: {reply:?}", route.path);
                }
                Own => {}
            }
        }
    }
}

#[test]
fn what_reaches_the_server_is_narrowed_exactly_where_the_table_says_so() {
    let site = Site::new();
    let visitors = Visitor::all(&site);
    let is_limited = |one: &&Visitor| one.role == Role::Viewer && one.limits == "groups";
    let kim = visitors.iter().find(is_limited).unwrap();
    for route in ROUTES {
        let may = route.scopes().all(|scope| Role::Viewer.may(scope));
        let (Narrowed(fields), true) = (reach(route.verb, route.path), may) else { continue };
        site.server.signed.lock().unwrap().clear();
        kim.send(&site, route, &fields);
        let sent = site.server.signed.lock().unwrap().pop().expect(route.path);
        let text = format!("{sent:?}");
        assert!(text.contains("within: Some(UserLimits { groups: [\"kids\"]"), "{text}");
    }
}

#[test]
fn pauses_of_other_groups_are_not_shown_and_tags_are_those_of_what_is_shown() {
    let site = Site::new();
    let visitors = Visitor::all(&site);
    let route = ROUTES.iter().find(|one| (one.verb, one.path) == (Get, "/policy")).unwrap();
    let is_limited = |one: &&Visitor| one.role == Role::Operator && one.limits == "groups";
    let kim = visitors.iter().find(is_limited).unwrap();
    let shown = kim.send(&site, route, &json!({}));
    let scopes = |reply: &Received| -> Vec<Value> {
        let json = reply.json();
        json["pauses"].as_array().unwrap().iter().map(|one| one["scope"].clone()).collect()
    };
    let all = visitors.last().unwrap().send(&site, route, &json!({}));
    assert_eq!(scopes(&all), [json!("all"), json!({"group": "kids"}), json!({"client": "tv"})]);
    assert_eq!(scopes(&shown), [json!("all"), json!({"group": "kids"})]);
    let pause = |tag: &str| {
        let fields = json!({"secs": 60, "scope": {"group": "kids"}});
        let sent = Sent::new("POST", "/api/v1/policy/pause").by(&kim.browser).json(&fields);
        site.send(sent.header("if-match", tag))
    };
    assert_eq!(pause(shown.header("etag")).status, 200);
    pause(all.header("etag")).check(412, "changed");
}

#[test]
fn calls_of_the_interface_itself_are_closed_only_for_the_audit_log() {
    let own = ROUTES.iter().filter(|route| matches!(route.does, Does::Own(_)));
    for route in own {
        let is_audit = route.does == Does::Own(OwnCall::Audit);
        assert_eq!(matches!(reach(route.verb, route.path), Closed), is_audit, "{}", route.path);
    }
}
