//! Error reports to the reporting agents that the servers of a zone announce (RFC 9567).

use avocet_resolver::Recursion;
use avocet_wire::Rcode;

use crate::secure::{Setup, validation};
use crate::world::{Script, World, authority, recursion};

/// The query that reports a missing signature of www.example. A.
const REPORT: &str = "_er.1.www.example.10._er.agent.test. TXT";

fn is_report(sent: &str) -> bool {
    sent.contains(" _er.")
}

/// Returns a world in which the servers of example. announce an agent and answer without
/// signatures. The agent is at .3. Its zone is not signed by the root.
fn world(recursion: Recursion, agent: Script) -> World {
    let mut setup = Setup::new();
    setup.www.truncate(1);
    let validation = Some(validation(&setup.root));
    let mut world = setup.world_with(Recursion { validation, ..recursion });
    let unsigned = setup.root.sign("au", "test. 300 NSEC zzz. NS RRSIG NSEC");
    let [nsec, rrsig] = &unsigned;
    let mut root = setup.root_script();
    let down = [nsec, rrsig, "au test. 300 NS ns.test.", "ad ns.test. 300 A 192.0.2.3"];
    let mut to_test =
        authority(".", &[("*test. A", &down), ("*test. TXT", &down), ("*test. NS", &down)]);
    world.serve(
        1,
        Box::new(
            move |query| if query.qname.ends_with("test.") { to_test(query) } else { root(query) },
        ),
    );
    let mut example = setup.example_script();
    world.serve(
        2,
        Box::new(move |query| example(query).map(|response| response.agent("agent.test."))),
    );
    world.serve(3, agent);
    world
}

fn reporting() -> Recursion {
    Recursion { error_reports: true, ..recursion() }
}

fn takes_reports() -> Script {
    authority("test.", &[(REPORT, &["an _er.1.www.example.10._er.agent.test. 300 TXT \"thanks\""])])
}

#[test]
fn an_error_is_reported_once_to_whom_the_servers_of_the_zone_name() {
    let mut world = world(reporting(), takes_reports());
    let answer = world.resolve("www.example. A");
    assert_eq!((answer.rcode, answer.ede), (Rcode::SERVFAIL, Some(10)));
    let sent = world.take_sent();
    let reports: Vec<&String> = sent.iter().filter(|sent| is_report(sent)).collect();
    assert!(reports.contains(&&format!("3: {REPORT}")), "{sent:?}");
    world.pass(200);
    assert_eq!(world.resolve("www.example. A").rcode, Rcode::SERVFAIL);
    let again = world.take_sent();
    assert!(
        !again.is_empty() && !again.iter().any(|sent| is_report(sent)),
        "the cache has the report: {again:?}"
    );
}

#[test]
fn nothing_is_reported_where_that_is_not_wanted() {
    let mut world = world(recursion(), takes_reports());
    assert_eq!(world.resolve("www.example. A").rcode, Rcode::SERVFAIL);
    assert!(!world.take_sent().iter().any(|sent| is_report(sent)));
}

#[test]
fn a_report_that_fails_is_not_reported_and_does_not_go_in_a_circle() {
    // The agent announces itself as an agent, and does not answer.
    let mut world = world(reporting(), Box::new(|_| None));
    assert_eq!(world.resolve("www.example. A").rcode, Rcode::SERVFAIL);
    let sent = world.take_sent();
    let names =
        sent.iter().filter(|sent| is_report(sent)).filter_map(|sent| sent.split(' ').nth(1));
    assert!(
        sent.len() < 64 && names.into_iter().all(|name| name.matches("_er.").count() == 2),
        "{sent:?}"
    );
}
