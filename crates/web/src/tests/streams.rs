//! Replies that do not end.

use avocet_control::access::{AccessScope, Role, UserChange};
use serde_json::Value;

use super::site::{Sent, Site};

fn live(site: &Site, query: &str) -> Sent {
    let token = site.token(&[AccessScope::QueriesRead]);
    Sent::new("GET", &format!("/api/v1/queries/live{query}")).token(&token)
}

#[test]
fn events_arrive_one_by_one_and_with_an_end() {
    let site = Site::new();
    let reply = site.send(live(&site, "?under=few.example."));
    assert_eq!(reply.header("content-type"), "text/event-stream");
    let text = String::from_utf8(reply.body).unwrap();
    let events: Vec<_> = text.split_terminator("\n\n").collect();
    assert_eq!(
        events,
        [
            "event: part\ndata: {\"skipped\":0}",
            "event: part\ndata: {\"skipped\":1}",
            "event: end\ndata: {\"done\":true,\"entries\":2}",
        ]
    );
}

#[test]
fn an_error_before_the_first_event_has_its_status() {
    let site = Site::new();
    site.send(live(&site, "?under=off.example.")).check(409, "not-configured");
    site.send(live(&site, "?unknown=x")).check(400, "malformed");
    site.send(live(&site, "?from=x")).check(400, "malformed");
}

#[test]
fn a_stream_ends_with_the_rights_of_its_author() {
    let site = Site::new();
    let follow = || Sent::new("GET", "/api/v1/queries/live");
    let access = &site.server.access;
    let token = site.token(&[AccessScope::QueriesRead]);
    let id = access.token_list().tokens[0].id.clone();
    site.follow(follow().token(&token), || drop(access.token_revoke(&id).unwrap()));
    let token = site.token(&[AccessScope::QueriesRead]);
    site.follow(follow().token(&token), || site.pass(1_000_001));
    let change = |name: &str| UserChange {
        name: name.to_owned(),
        role: Some(Role::Operator),
        limits: None,
        remove_limits: false,
        password: None,
        remove_second_factor: false,
    };
    for name in ["viv", "vic", "val"] {
        site.add(name, Role::Viewer);
    }
    let by = |name: &str| follow().by(&site.log_in(name));
    site.follow(by("viv"), || drop(access.user_change(change("viv")).unwrap()));
    site.follow(by("vic"), || drop(access.user_remove("vic").unwrap()));
    let browser = site.log_in("val");
    let log_out = Sent::new("DELETE", "/api/v1/session").by(&browser);
    let id = browser.cookie.split_once('=').unwrap().1.to_owned();
    site.follow(follow().by(&browser), || access.log_out(&id));
    site.send(log_out).check(401, "unauthenticated");
}

#[test]
fn a_search_ends_when_its_client_disconnects() {
    let site = Site::new();
    let token = site.token(&[AccessScope::QueriesRead]);
    let path = "/api/v1/queries?contains=endless";
    site.abandon(Sent::new("GET", path).token(&token));
    assert_eq!(site.seen(), ["log-search", "disconnected"]);
}

#[test]
fn streams_are_bounded_and_end_with_their_clients() {
    let site = Site::new();
    let token = site.token(&[AccessScope::QueriesRead]);
    let follow = || Sent::new("GET", "/api/v1/queries/live").token(&token);
    let statuses: Vec<u16> = site.hold_all((0..10_000).map(|_| follow()).collect());
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 24);
    assert_eq!(statuses.iter().filter(|status| **status == 503).count(), 9_976);
    // All clients are gone, and their places are free.
    let reply = site.send(live(&site, "?under=few.example."));
    assert_eq!((reply.status.as_u16(), reply.json()), (200, Value::Null));
}
