//! Cached answers, here and at clients, across changes of the policy: a reload, a schedule, a
//! pause, a grant.

use crate::asked;

use std::net::SocketAddr;
use std::path::PathBuf;

use avocet_nameserver::query::miss::Miss;
use avocet_nameserver::{InProcess, MeantFor};
use avocet_policy::client::{Mac, Neighbour};
use avocet_policy::rule::{Grant, Pause, Scope, Switches};
use avocet_wire::Rtype;

use asked::{ask, shown, wire};

/// 2026-11-21, a Saturday, 21:00 in UTC.
const NINE: u64 = 1_795_294_800;
const CLIENT: [u8; 4] = [10, 0, 0, 1];
const OTHER: [u8; 4] = [10, 0, 0, 2];
const A: Rtype = Rtype::A;

const HEAD: &str = r#"
[resolver]
mode = "forward"

[[forward]]
zone = "."
upstreams = ["192.0.2.53"]

[cache]
packet-bytes = "1MiB"
rrset-bytes = "1MiB"

[policy]
block-ttl-secs = 3600
"#;

fn start(policy: &str) -> InProcess {
    let mut server =
        InProcess::new(&format!("{HEAD}{policy}"), SocketAddr::from((CLIENT, 4000))).unwrap();
    server.set_wall_clock(NINE - 600);
    server
}

fn rule(when: &str, action: &str) -> String {
    format!("[[rule]]\nname = \"r\"\nwhen = '{when}'\naction = {action}\n")
}

fn learn(server: &InProcess, name: &str, ttl_secs: u32) {
    server.learn(&wire(name), A.0, ttl_secs, &[&[192, 0, 2, 7]]);
}

fn resume(server: &mut InProcess, meant_for: MeantFor) -> String {
    let mut out = vec![0; 4096];
    let len = server.resume(meant_for, &mut out);
    len.map_or_else(|| "nothing".to_owned(), |len| shown(&out[..len]))
}

const LEAST: &str = "\"ttl\"\nmin-secs = 600";

#[test]
fn an_answer_of_an_old_policy_is_never_cached_even_with_a_lowest_ttl() {
    let mut server = start(&rule("true", LEAST));
    assert_eq!(ask(&mut server, CLIENT, "slow.example.", A), "nothing");
    learn(&server, "slow.example.", 20);
    server
        .reload(&format!(
            "{HEAD}{}{}",
            rule("true", LEAST),
            rule("qname == \"slow.example\"", "\"block\"").replace("\"r\"", "\"b\"")
        ))
        .unwrap();
    resume(&mut server, MeantFor::All);
    let blocked = "NOERROR 3600 0.0.0.0 [15 rule b]";
    assert_eq!(
        [CLIENT, OTHER].map(|client| ask(&mut server, client, "slow.example.", A)),
        [blocked; 2]
    );
}

#[test]
fn an_answer_for_one_client_is_kept_for_no_other_whatever_the_least_ttl() {
    for meant_for in [MeantFor::ClientAlone, MeantFor::All] {
        let mut server = start(&rule("true", LEAST));
        assert_eq!(ask(&mut server, CLIENT, "near.example.", A), "nothing");
        learn(&server, "near.example.", 20);
        assert_eq!(resume(&mut server, meant_for), "NOERROR 600 192.0.2.7");
        // From now on the RRset cache has no data, so only the packet cache can answer.
        server.pass(60);
        let expected = if meant_for == MeantFor::All { "NOERROR 540 192.0.2.7" } else { "nothing" };
        assert_eq!(ask(&mut server, OTHER, "near.example.", A), expected, "{meant_for:?}");
    }
}

#[test]
fn a_verdict_about_the_answer_for_one_client_is_kept_for_no_other() {
    let blocked = "NOERROR 3600 0.0.0.0 [15 rule r]";
    for meant_for in [MeantFor::ClientAlone, MeantFor::All] {
        let head = HEAD.replace("[policy]", "serve-stale = false\n[policy]");
        let policy = rule("answer.ip.in(\"192.0.2.0/24\")", "\"block\"");
        let from = SocketAddr::from((CLIENT, 4000));
        let mut server = InProcess::new(&format!("{head}{policy}"), from).unwrap();
        assert_eq!(ask(&mut server, CLIENT, "near.example.", A), "nothing");
        learn(&server, "near.example.", 20);
        assert_eq!(resume(&mut server, meant_for), blocked);
        // From now on the RRset cache has no data, so only the packet cache can answer.
        server.pass(60);
        let expected = if meant_for == MeantFor::All { blocked } else { "nothing" };
        let found = ask(&mut server, OTHER, "near.example.", A);
        assert_eq!(found.replace("3540", "3600"), expected, "{meant_for:?}");
    }
}

#[test]
fn a_question_that_a_new_rule_blocks_while_it_waits_is_blocked() {
    let mut server = start(&rule("qname == \"other.example\"", "\"block\""));
    assert_eq!(ask(&mut server, CLIENT, "slow.example.", A), "nothing");
    learn(&server, "slow.example.", 20);
    server.reload(&format!("{HEAD}{}", rule("qname == \"slow.example\"", "\"block\""))).unwrap();
    assert_eq!(resume(&mut server, MeantFor::All), "NOERROR 3600 0.0.0.0 [15 rule r]");
}

/// Checks the answers ten minutes before the change, five seconds before it, and after it.
#[track_caller]
fn check_change(policy: &str, (name, rtype): (&str, Rtype), [early, late, after]: [&str; 3]) {
    let mut server = start(policy);
    let learn = |server: &InProcess| {
        learn(server, "www.example.", 86_400);
        server.learn(&wire("alias.example."), Rtype::CNAME.0, 86_400, &[&wire("www.example.")]);
    };
    learn(&server);
    let check = |server: &mut InProcess, expected: &str, when: &str| {
        for _ in 0..3 {
            assert_eq!(ask(server, CLIENT, name, rtype), expected, "{name} {when}");
        }
    };
    check(&mut server, early, "ten minutes before");
    server.pass(595);
    check(&mut server, late, "five seconds before");
    server.pass(5);
    learn(&server);
    check(&mut server, after, "after");
}

const BED_TIME: &str = "now.hour >= 21";

#[test]
fn clients_keep_no_answer_past_the_time_at_which_a_rule_begins() {
    let block = |condition: &str| rule(&format!("{BED_TIME} && {condition}"), "\"block\"");
    let blocked = "NOERROR 3600 0.0.0.0 [15 rule r]";
    let names = block("qname.under(\"example\")");
    let open = ["NOERROR 600 192.0.2.7", "NOERROR 5 192.0.2.7", blocked];
    check_change(&names, ("www.example.", A), open);
    let alias =
        ["NOERROR 600 www.example. 600 192.0.2.7", "NOERROR 5 www.example. 5 192.0.2.7", blocked];
    check_change(&names, ("alias.example.", A), alias);
    let any = ["NOERROR 600 \"RFC8482\" \"\"", "NOERROR 5 \"RFC8482\" \"\"", "NOERROR [15 rule r]"];
    check_change(&names, ("www.example.", Rtype::ANY), any);
    check_change(&block("answer.ip.in(\"192.0.2.0/24\")"), ("www.example.", A), open);
    // A limit may lower TTLs further, but never raise them beyond the remaining time.
    let least = rule("true", "\"ttl\"\nmin-secs = 900").replace("\"r\"", "\"least\"");
    check_change(&format!("{least}{names}"), ("www.example.", A), open);
    // The server does not cache an answer that must be evaluated for each query, but the client
    // does.
    let watched =
        rule("true", "\"tag\"\ntag = \"x\"\nlog-only = true").replace("\"r\"", "\"watched\"");
    check_change(&format!("{watched}{names}"), ("www.example.", A), open);
}

#[test]
fn clients_keep_no_block_and_no_redirect_past_its_end() {
    let until = |action: &str| rule("now.hour == 20 && qname == \"www.example\"", action);
    // The rule applies again 23 hours later.
    let open = "NOERROR 82800 192.0.2.7";
    let blocked = ["NOERROR 600 0.0.0.0 [15 rule r]", "NOERROR 5 0.0.0.0 [15 rule r]", open];
    check_change(&until("\"block\""), ("www.example.", A), blocked);
    let records = "[[record]]\nname = \"garden.home\"\ntype = \"A\"\nvalues = [\"10.1.1.1\"]\nttl-secs = 60\n";
    let redirected = [
        "NOERROR 600 garden.home. 60 10.1.1.1 [4 rule r]",
        "NOERROR 5 garden.home. 60 10.1.1.1 [4 rule r]",
        open,
    ];
    let garden = until("\"redirect\"\nto = [\"garden.home\"]");
    check_change(&format!("{records}{garden}"), ("www.example.", A), redirected);
}

#[test]
fn clients_keep_no_own_record_past_the_time_at_which_a_rule_begins() {
    let record = |name: &str, rtype: &str, value: &str| {
        format!(
            "[[record]]\nname = \"{name}\"\ntype = \"{rtype}\"\nvalues = [\"{value}\"]\nttl-secs \
             = 60\n"
        )
    };
    let records = record("nas.home", "A", "10.1.1.1") + &record("far.home", "CNAME", "www.example");
    let policy = records + &rule(&format!("{BED_TIME} && qname.under(\"home\")"), "\"block\"");
    let blocked = "NOERROR 3600 0.0.0.0 [15 rule r]";
    check_change(&policy, ("nas.home.", A), ["NOERROR 60 10.1.1.1", "NOERROR 5 10.1.1.1", blocked]);
    let far = [
        "NOERROR 60 www.example. 86400 192.0.2.7",
        "NOERROR 5 www.example. 85805 192.0.2.7",
        blocked,
    ];
    check_change(&policy, ("far.home.", A), far);
}

/// A name on a list, and a data directory for it.
fn listed(test: &str) -> (PathBuf, String) {
    let file = std::env::temp_dir().join(format!("avocet-changes-{test}-{}", std::process::id()));
    std::fs::write(&file, "www.example\n").unwrap();
    let list = format!("[[list]]\nname = \"ads\"\nfile = \"{}\"\n", file.display());
    (file, list)
}

#[test]
fn clients_keep_what_a_pause_or_a_grant_lets_through_no_longer_than_it_lasts() {
    let (file, list) = listed("switches");
    let blocked = "NOERROR 3600 0.0.0.0 [17 list ads]";
    let pause = Pause { scope: Scope::All, until: NINE };
    let grant = Grant { name: "example".to_owned(), scope: Scope::All, until: NINE };
    for switches in [
        Switches { pauses: vec![pause], grants: Vec::new() },
        Switches { pauses: Vec::new(), grants: vec![grant] },
    ] {
        let mut server = start(&list);
        learn(&server, "www.example.", 86_400);
        assert_eq!(ask(&mut server, CLIENT, "www.example.", A), blocked);
        server.switch(switches.clone()).unwrap();
        for (passed, expected) in
            [(0, "NOERROR 600 192.0.2.7"), (300, "NOERROR 300 192.0.2.7"), (300, blocked)]
        {
            server.pass(passed);
            assert_eq!(ask(&mut server, CLIENT, "www.example.", A), expected, "{switches:?}");
        }
    }
    std::fs::remove_file(file).unwrap();
}

#[test]
fn a_pause_or_a_grant_does_not_suspend_the_protection_against_rebinding() {
    let pause = Pause { scope: Scope::All, until: NINE };
    let grant = Grant { name: "example".to_owned(), scope: Scope::All, until: NINE };
    for switches in [
        Switches { pauses: vec![pause], grants: Vec::new() },
        Switches { pauses: Vec::new(), grants: vec![grant] },
    ] {
        let (file, list) = listed("protection");
        let mut server = start(&format!(
            "block-private = true\nprivate-exceptions = [\"home.example\"]\n{list}"
        ));
        for (name, address) in [
            ("www.example.", [192, 0, 2, 7]),
            ("rebound.example.", [192, 168, 1, 2]),
            ("nas.home.example.", [192, 168, 1, 2]),
        ] {
            server.learn(&wire(name), A.0, 300, &[&address]);
        }
        server.switch(switches).unwrap();
        for (name, expected) in [
            ("www.example.", "NOERROR 300 192.0.2.7"),
            ("rebound.example.", "NOERROR [15 private address for a public name]"),
            ("nas.home.example.", "NOERROR 300 192.168.1.2"),
        ] {
            // The first answer comes from the records, the second from the packet cache.
            for _ in 0..2 {
                assert_eq!(ask(&mut server, CLIENT, name, A), expected);
            }
        }
        std::fs::remove_file(file).unwrap();
    }
}

#[test]
fn expired_data_is_judged_as_it_is_now() {
    let policy = rule(&format!("{BED_TIME} && answer.ip.in(\"192.0.2.0/24\")"), "\"block\"");
    let mut server = start(&policy);
    learn(&server, "www.example.", 300);
    assert_eq!(ask(&mut server, CLIENT, "www.example.", A), "NOERROR 300 192.0.2.7");
    server.pass(400);
    assert_eq!(ask(&mut server, CLIENT, "www.example.", A), "nothing");
    assert_eq!(
        resume(&mut server, MeantFor::All),
        "NOERROR 30 192.0.2.7 [3 resolution failed or is slow]"
    );
    assert_eq!(ask(&mut server, CLIENT, "www.example.", A), "nothing");
    server.pass(300);
    assert_eq!(resume(&mut server, MeantFor::All), "NOERROR 3600 0.0.0.0 [15 rule r]");
}

/// Resolves a question that began to wait five seconds before `NINE` and is answered after it.
/// Returns the answer to the query that waited, and those to queries after it.
fn across_nine(mut server: InProcess, meanwhile: impl FnOnce(&mut InProcess)) -> [String; 3] {
    server.pass(595);
    assert_eq!(ask(&mut server, CLIENT, "www.example.", A), "nothing");
    server.pass(10);
    meanwhile(&mut server);
    learn(&server, "www.example.", 86_400);
    let waited = resume(&mut server, MeantFor::All);
    [
        waited,
        ask(&mut server, CLIENT, "www.example.", A),
        ask(&mut server, OTHER, "www.example.", A),
    ]
}

const LISTED: &str = "NOERROR 3600 0.0.0.0 [17 list ads]";

#[test]
fn lists_block_a_question_that_waits_while_a_pause_or_a_grant_ends() {
    let (file, list) = listed("in-flight-switches");
    let pause = Pause { scope: Scope::All, until: NINE };
    let grant = Grant { name: "example".to_owned(), scope: Scope::All, until: NINE };
    for switches in [
        Switches { pauses: vec![pause], grants: Vec::new() },
        Switches { pauses: Vec::new(), grants: vec![grant] },
    ] {
        let mut server = start(&list);
        server.switch(switches.clone()).unwrap();
        assert_eq!(across_nine(server, |_| {}), [LISTED; 3], "{switches:?}");
    }
    std::fs::remove_file(file).unwrap();
}

#[test]
fn lists_block_a_question_that_waits_while_the_rule_that_allows_it_ends() {
    let (file, list) = listed("in-flight-rule");
    let allow = rule("now.hour == 20", "\"allow\"");
    let blocked = "NOERROR 3600 0.0.0.0 [17 list ads]";
    assert_eq!(across_nine(start(&format!("{list}{allow}")), |_| {}), [blocked; 3]);
    std::fs::remove_file(file).unwrap();
}

#[test]
fn a_list_blocks_a_question_that_waits_while_the_list_comes_into_force() {
    let (file, list) = listed("in-flight-list");
    let server = start("");
    let reload = |server: &mut InProcess| server.reload(&format!("{HEAD}{list}")).unwrap();
    assert_eq!(across_nine(server, reload), [LISTED; 3]);
    std::fs::remove_file(file).unwrap();
}

#[test]
fn an_answer_of_the_servers_of_a_rule_is_not_sent_after_the_end_of_the_rule() {
    for forward in ["now.hour == 20", "now.hour == 21"] {
        let to = "\"forward\"\nto = [\"192.0.2.9\"]";
        let mut server = start(&rule(forward, to));
        server.pass(595);
        assert_eq!(ask(&mut server, CLIENT, "www.example.", A), "nothing");
        server.pass(10);
        learn(&server, "www.example.", 86_400);
        assert_eq!(resume(&mut server, MeantFor::All), "nothing", "{forward}");
        // The question now waits for the other servers, and their answer is sent.
        assert_eq!(server.waiting(), 1);
        assert!(resume(&mut server, MeantFor::All).ends_with(" 192.0.2.7"), "{forward}");
    }
}

/// Returns how often the rule "seen" was counted. It is counted when the policy evaluates an
/// answer.
fn evaluations(server: &InProcess) -> u64 {
    let policy = server.state().policy.as_ref().unwrap();
    policy.rule_counts().find(|(rule, _)| rule.name == "seen").unwrap().1
}

/// Returns a query of the client that waits.
fn waiting(server: &mut InProcess, client: [u8; 4], name: &str) -> Miss {
    assert_eq!(ask(server, client, name, A), "nothing");
    server.take_waiting().expect("a query that waits")
}

#[test]
fn queries_that_waited_for_one_answer_are_evaluated_once_for_each_profile() {
    let seen = |log_only: &str| {
        rule("answer.ip.in(\"192.0.2.0/24\")", &format!("\"tag\"\ntag = \"x\"\n{log_only}"))
            .replace("\"r\"", "\"seen\"")
    };
    let client = "[[client]]\nname = \"other\"\nids = [\"10.0.0.2\"]\n";
    let other = rule("client.name == \"other\"", "\"ttl\"\nmax-secs = 7");
    // A rule that must see each query is evaluated for each.
    for (log_only, expected) in [("", 2), ("log-only = true", 6)] {
        let mut server = start(&format!("{client}{other}{}", seen(log_only)));
        let clients = [CLIENT, OTHER].into_iter().cycle().take(6);
        let queries: Vec<_> =
            clients.map(|client| waiting(&mut server, client, "www.example.")).collect();
        learn(&server, "www.example.", 300);
        // The packet cache does not store an answer for one client.
        let answers = server.resume_all(&queries, MeantFor::ClientAlone);
        let answers: Vec<_> = answers.iter().map(|answer| shown(answer)).collect();
        let (own, others) = ("NOERROR 300 192.0.2.7", "NOERROR 7 192.0.2.7");
        assert_eq!(answers, [own, others, own, others, own, others]);
        assert_eq!(evaluations(&server), expected, "{log_only}");
    }
}

#[test]
fn queries_of_one_profile_share_an_answer_only_if_policy_and_servers_allowed_them_alike() {
    let (file, list) = listed("given");
    let seen = rule("answer.ip.in(\"192.0.2.0/24\")", "\"tag\"\ntag = \"x\"");
    let seen = seen.replace("\"r\"", "\"seen\"");
    let forward = rule("now.hour == 21", "\"forward\"\nto = [\"192.0.2.9\"]");
    let mut server = start(&format!("{list}{forward}{seen}"));
    let pause = Pause { scope: Scope::All, until: NINE - 300 };
    server.switch(Switches { pauses: vec![pause], grants: Vec::new() }).unwrap();
    // The lists did not look up the first question, because of the pause.
    let mut queries = vec![waiting(&mut server, CLIENT, "www.example.")];
    server.pass(301);
    queries.extend((0..2).map(|_| waiting(&mut server, CLIENT, "free.example.")));
    learn(&server, "www.example.", 300);
    learn(&server, "free.example.", 300);
    // Lists that allowed a question need not decide on it again.
    let allowed = queries.iter().map(|query| query.waiter.as_ref().unwrap().allowed_for);
    assert_eq!(allowed.collect::<Vec<_>>(), [None, Some(0), Some(0)]);
    let answers = server.resume_all(&queries, MeantFor::ClientAlone);
    let answers: Vec<_> = answers.iter().map(|answer| shown(answer)).collect();
    let listed = "NOERROR 299 0.0.0.0 [17 list ads]";
    assert_eq!(answers, [listed, "NOERROR 299 192.0.2.7", "NOERROR 299 192.0.2.7"]);
    assert_eq!(evaluations(&server), 1);
    // The rule now forwards the question, so the answer of other servers is not sent.
    let mut queries = vec![waiting(&mut server, CLIENT, "new.example.")];
    server.pass(300);
    queries.push(waiting(&mut server, CLIENT, "new.example."));
    learn(&server, "new.example.", 300);
    let answers = server.resume_all(&queries, MeantFor::ClientAlone);
    assert!(answers[0].is_empty());
    assert_eq!(shown(&answers[1]), "NOERROR 300 192.0.2.7");
    std::fs::remove_file(file).unwrap();
}

#[test]
fn a_client_that_gets_another_profile_while_it_waits_is_evaluated_with_it() {
    let (file, list) = listed("moved");
    let text = format!(
        "{list}[[client]]\nname = \"kid\"\nids = [\"02:00:00:00:00:01\"]\ngroups = [\"kids\"]\n\
         [[client]]\nname = \"toy\"\nids = [\"10.0.0.2\"]\ngroups = [\"kids\"]\n\
         [[group]]\nname = \"kids\"\nlists = [\"ads\"]\n[[group]]\nname = \"default\"\n\
         lists = []\n"
    );
    let mut server = start(&text);
    let epoch = server.state().epoch;
    let queries = [waiting(&mut server, CLIENT, "www.example.")];
    let mac = Some(Mac([2, 0, 0, 0, 0, 1]));
    server.meet(&[Neighbour { address: CLIENT.into(), mac, name: None }]).unwrap();
    // The policy decides as before, but the client has the other profile.
    assert_eq!(server.state().epoch, epoch);
    learn(&server, "www.example.", 300);
    let answers = server.resume_all(&queries, MeantFor::All);
    assert_eq!(shown(&answers[0]), "NOERROR 3600 0.0.0.0 [17 list ads]");
    std::fs::remove_file(file).unwrap();
}

#[test]
fn new_entries_of_lists_end_no_answer_of_the_servers_of_a_rule() {
    let directory = std::env::temp_dir().join(format!("avocet-by-rule-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let (list, zone) = (directory.join("list"), directory.join("zone"));
    let write = |entries: &str| {
        std::fs::write(&list, entries).unwrap();
        let records = entries.replace('\n', " CNAME .\n");
        std::fs::write(&zone, format!("$TTL 60\n@ SOA a a 1 1 1 1 1\n@ NS a\n{records}")).unwrap();
    };
    let forward = "\"forward\"\nto = [\"192.0.2.99\"]";
    let lists = format!(
        "[[list]]\nname = \"l\"\nfile = {list:?}\n[[list]]\nname = \"z\"\nfile = {zone:?}\n\
         format = \"rpz\"\n"
    );
    let testing =
        rule("list(\"l\") && qname == \"x.example\"", "\"block\"").replace("\"r\"", "\"t\"");
    for (more, keeps) in [("", true), (&testing[..], false)] {
        write("ads.example\n");
        let policy = format!("{}{more}{lists}", rule("qname.under(\"far.example\")", forward));
        let mut server = start(&policy);
        learn(&server, "www.far.example.", 300);
        assert_eq!(ask(&mut server, CLIENT, "www.far.example.", A), "nothing");
        assert_eq!(resume(&mut server, MeantFor::All), "NOERROR 300 192.0.2.7");
        // Lists do not affect what a rule forwards.
        write("ads.example\nwww.far.example\n");
        server.reload(&format!("{HEAD}{policy}")).unwrap();
        server.pass(10);
        let expected = if keeps { "NOERROR 290 192.0.2.7" } else { "nothing" };
        assert_eq!(ask(&mut server, CLIENT, "www.far.example.", A), expected, "{more}");
        let blocked = ask(&mut server, CLIENT, "ads.example.", A);
        assert!(blocked.contains(" list l]"), "{blocked}");
        // What a rule decides may change with the rules.
        let other = policy.replace("far.example", "other.example");
        server.reload(&format!("{HEAD}{other}")).unwrap();
        let blocked = ask(&mut server, CLIENT, "www.far.example.", A);
        assert!(blocked.contains(" list l]"), "{blocked}");
    }
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn an_outage_after_a_change_of_the_policy_shows_as_little_as_before() {
    let block = |name: &str| rule(&format!("qname == \"{name}\""), "\"block\"");
    let targets = rule("answer.cname.under(\"www.far.example\")", "\"block\"");
    let stale = "NOERROR 30 www.far.example. 30 192.0.2.7 [3 resolution failed or is slow]";
    let blocked = "NOERROR 3600 0.0.0.0 [15 rule r]";
    for (policy, wait_secs, expected) in [
        (block("other.example"), 10, stale),
        (block("other.example"), 400, stale),
        (block("far.example"), 10, blocked),
        (targets, 10, blocked),
    ] {
        let mut server = start(&block("first.example"));
        assert_eq!(ask(&mut server, CLIENT, "far.example.", A), "nothing");
        server.learn(&wire("far.example."), Rtype::CNAME.0, 300, &[&wire("www.far.example.")]);
        learn(&server, "www.far.example.", 300);
        let given = "NOERROR 300 www.far.example. 300 192.0.2.7";
        assert_eq!(resume(&mut server, MeantFor::All), given);
        // From now on, only the packet cache has the data.
        server.flush_records();
        server.reload(&format!("{HEAD}{policy}")).unwrap();
        server.pass(wait_secs);
        let mut answer = ask(&mut server, CLIENT, "far.example.", A);
        if answer == "nothing" {
            answer = resume(&mut server, MeantFor::All);
        }
        assert_eq!(answer, expected, "{policy} after {wait_secs} s");
    }
}

/// Asks for a cached name after a reload with these rules, when only the packet cache has data.
/// Returns the query if it waits.
fn ask_after_reload(before: &str, after: &str) -> (InProcess, Option<Miss>) {
    let mut server = start(before);
    assert_eq!(ask(&mut server, CLIENT, "far.example.", A), "nothing");
    learn(&server, "far.example.", 300);
    resume(&mut server, MeantFor::All);
    server.flush_records();
    server.reload(&format!("{HEAD}{after}")).unwrap();
    server.pass(10);
    assert_eq!(ask(&mut server, CLIENT, "far.example.", A), "nothing");
    let waiting = server.take_waiting();
    (server, waiting)
}

#[test]
fn an_answer_of_an_earlier_policy_shortens_no_wait_if_it_cannot_be_used() {
    let other = rule("qname == \"other.example\"", "\"block\"");
    let own = rule("qname == \"far.example\"", "\"forward\"\nto = [\"192.0.2.99\"]");
    let renamed = rule("qname == \"far.example\"", "\"redirect\"\nto = [\"away.example\"]");
    let plan = "[[forward]]\nzone = \"far.example\"\nupstreams = [\"192.0.2.98\"]\n";
    let first = &rule("qname == \"first.example\"", "\"block\"")[..];
    for (before, after, is_available) in [
        (first, &other[..], true),
        (first, &own, false),
        (first, &renamed, false),
        // The servers of a rule gave the answer, or other servers are responsible now.
        (&own[..], &other, false),
        (first, &format!("{first}{plan}"), false),
    ] {
        let (_, waiting) = ask_after_reload(before, after);
        let found = waiting.map(|miss| miss.stale_available);
        assert_eq!(found, Some(is_available), "{before}{after}");
    }
}
