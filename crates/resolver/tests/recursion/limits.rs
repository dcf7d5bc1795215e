//! What a question may cost (S11), and what is said when it costs too much.

use avocet_testkit::Response;
use avocet_wire::Rcode;

use crate::world::{World, authority, recursion};

#[test]
fn a_server_that_always_wants_another_cookie_is_given_up() {
    let mut world = World::new(recursion());
    let down: &[&str] = &["au example. 3600 NS ns.example.", "ad ns.example. 3600 A 192.0.2.2"];
    world.serve(1, authority(".", &[("*example. A", down)]));
    world.serve(
        2,
        Box::new(|query| {
            let cookie = query.cookie.as_ref().map(|cookie| [&cookie[..8], b"otherone"].concat());
            let response = Response::to(query).rcode(Rcode::BADCOOKIE);
            Some(match cookie {
                Some(cookie) => response.cookie(&cookie),
                None => response,
            })
        }),
    );
    assert_eq!(world.resolve("www.example. A").rcode, Rcode::SERVFAIL);
    let to_example = world.take_sent().iter().filter(|sent| sent.starts_with("2:")).count();
    assert!(to_example <= 3, "{to_example}");
}
