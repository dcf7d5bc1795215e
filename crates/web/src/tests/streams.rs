//! Replies that do not end.

use avocet_control::access::AccessScope;
use serde_json::Value;

use super::server::{Sent, Site};

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
    site.send(live(&site, "?under=off.example.")).check(409, "conflict");
    site.send(live(&site, "?unknown=x")).check(400, "malformed");
    site.send(live(&site, "?from=x")).check(400, "malformed");
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
