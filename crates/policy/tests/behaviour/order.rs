//! Tests the deciding rule and the noted rules in forty orders of rules.

use avocet_policy::client::{Clients, Directory, Transport};
use avocet_policy::rule::{
    Answer, Grant, Lift, NoLists, Pause, Program, RuleQuestion, RuleSpec, Rules, Scope, Switches,
    Verdict, Vocabulary,
};
use avocet_wire::{Class, Rtype};

const QNAME: &[u8] = b"\x03www\x06google\x03com\x00";

/// Returns the rule that a word describes: the action, then `@` with a priority, `~` if log-only,
/// `-` if disabled, `?` if its condition is false, and `*` if it reads the answer.
fn spec(word: &str) -> RuleSpec {
    let action = word.split(['@', '~', '-', '?', '*']).next().unwrap();
    let priority: i32 = word.split('@').nth(1).map_or(0, |rest| rest[..1].parse().unwrap());
    let (action, settings) = match action {
        "limit" => ("rate-limit", "rps = 1"),
        "redirect" => ("redirect", "to = ['192.0.2.1']"),
        "forward" => ("forward", "to = ['192.0.2.1']"),
        "safe" => ("safe-search", ""),
        "ttl" => ("ttl", "max-secs = 60"),
        "tag" => ("tag", "tag = 'x'"),
        other => (other, ""),
    };
    let when = match (word.contains('*'), word.contains('?')) {
        (false, false) => "qname.under(\"google.com\")",
        (false, true) => "qname.under(\"example.net\")",
        (true, false) => "answer.cname.under(\"tracker.example\")",
        (true, true) => "answer.cname.under(\"other.example\")",
    };
    let text = format!(
        "name = '{word}'\nwhen = '{when}'\naction = '{action}'\npriority = {priority}\nlog-only = {}\nenabled = {}\n{settings}",
        word.contains('~'),
        !word.ends_with('-'),
    );
    toml::from_str(&text).unwrap()
}

/// Rules, and the profile of a client over UDP.
struct Server {
    program: Program,
    clients: Clients,
}

impl Server {
    fn new(words: &str, switches: &Switches) -> Self {
        let specs: Vec<RuleSpec> = words.split_whitespace().map(spec).collect();
        let rules = Rules::check(&specs, &Vocabulary::default()).unwrap();
        let clients =
            Clients::build(Directory::new(&[], &[], &[]).unwrap(), &[], rules.client_tests())
                .unwrap();
        Self { program: Program::build(&rules, &clients, switches), clients }
    }

    fn question(&self, now: u64) -> RuleQuestion<'static> {
        self.question_over(Transport::Udp, now)
    }

    fn question_over(&self, transport: Transport, now: u64) -> RuleQuestion<'static> {
        let address = [192, 0, 2, 1].into();
        let profile = self.clients.profile(address, self.clients.origin("", transport));
        RuleQuestion { qname: QNAME, qtype: Rtype::A, qclass: Class::IN, profile, now }
    }
}

/// Returns the name of the deciding rule, followed by the names of the noted rules.
fn said(program: &Program, verdict: &Verdict) -> String {
    let name = |id| program.rule(id).map_or("", |rule| rule.name.as_str());
    let decided = verdict.decided.map_or("none", name);
    verdict.noted().iter().fold(decided.to_owned(), |text, rule| text + " " + name(*rule))
}

#[test]
fn forty_orders_of_rules() {
    for (rules, on_question, on_answer) in [
        ("block", "block", "block"),
        ("block?", "none", "none"),
        ("block-", "none", "none"),
        ("block~", "none block~", "none block~"),
        ("block allow", "block", "block"),
        ("allow block", "allow", "allow"),
        ("block@2 allow@1", "allow@1", "allow@1"),
        ("block@1 allow@2", "block@1", "block@1"),
        ("block@1 allow@1", "block@1", "block@1"),
        ("block? allow", "allow", "allow"),
        ("block- allow", "allow", "allow"),
        ("block~ allow", "allow block~", "allow block~"),
        ("allow~ block", "block allow~", "block allow~"),
        ("allow block~", "allow", "allow"),
        ("redirect block", "redirect", "redirect"),
        ("forward block", "forward", "forward"),
        ("block forward", "block", "block"),
        ("drop block", "drop", "drop"),
        ("truncate allow", "truncate", "truncate"),
        ("safe block", "safe", "safe"),
        ("block safe", "block", "block"),
        ("safe~ block", "block safe~", "block safe~"),
        ("tag block", "block tag", "block tag"),
        ("block tag", "block", "block"),
        ("tag@2 block@1", "block@1", "block@1"),
        ("block@2 tag@1", "block@2 tag@1", "block@2 tag@1"),
        ("tag tag@1 allow@2", "allow@2 tag tag@1", "allow@2 tag tag@1"),
        ("ttl tag limit", "none ttl tag limit", "none ttl tag limit"),
        ("limit block", "block limit", "block limit"),
        ("block limit", "block", "block"),
        ("limit~ allow", "allow limit~", "allow limit~"),
        ("tag? limit- allow?", "none", "none"),
        ("block*", "none", "block*"),
        ("block*?", "none", "none"),
        ("allow block*", "allow", "allow"),
        ("block* allow", "allow", "block*"),
        ("allow@2 block*@1", "allow@2", "block*@1"),
        ("tag* block*", "none", "block* tag*"),
        ("tag block*~ allow", "allow tag", "allow tag block*~"),
        ("allow tag* limit", "allow", "allow"),
    ] {
        let server = Server::new(rules, &Switches::default());
        let program = &server.program;
        let (question, hours) = (server.question(0), program.hours(0));
        let verdict = program.decide(&question, &hours, &NoLists);
        assert_eq!(said(program, &verdict), on_question, "question: {rules}");
        let names: [&[u8]; 1] = [b"\x01a\x07tracker\x07example\x00"];
        let answer = Answer { names: &names, ..Answer::default() };
        let verdict = program.decide_answer(&question, (&answer, &verdict), &hours, &NoLists);
        assert_eq!(said(program, &verdict), on_answer, "answer: {rules}");
        assert_eq!(program.reads_answers(), rules.contains('*'), "{rules}");
    }
}

#[test]
fn truncation_is_no_decision_but_over_udp() {
    for (rules, over_udp, over_tcp) in [
        ("truncate", "truncate", "none"),
        ("truncate block", "truncate", "block"),
        ("tag truncate~", "none tag truncate~", "none tag"),
    ] {
        let server = Server::new(rules, &Switches::default());
        let program = &server.program;
        for (transport, expected) in [(Transport::Udp, over_udp), (Transport::Tcp, over_tcp)] {
            let question = server.question_over(transport, 0);
            let verdict = program.decide(&question, &program.hours(0), &NoLists);
            assert_eq!(said(program, &verdict), expected, "{rules} over {transport}");
        }
    }
}

#[test]
fn limits_and_log_only_rules_want_every_query() {
    for (rules, per_query) in [
        ("block", false),
        ("tag allow", false),
        ("ttl", false),
        ("limit", true),
        ("tag~", true),
        ("block limit", false),
    ] {
        let server = Server::new(rules, &Switches::default());
        let program = &server.program;
        let verdict = program.decide(&server.question(0), &program.hours(0), &NoLists);
        assert_eq!(verdict.per_query, per_query, "{rules}");
    }
}

#[test]
fn a_pause_lifts_what_filters_and_ends_by_itself() {
    let pause = Pause { scope: Scope::All, until: 100 };
    let switches = Switches { pauses: vec![pause], grants: Vec::new() };
    for (rules, paused) in [
        ("block forward", "forward"),
        ("drop block", "none"),
        ("safe redirect", "redirect"),
        ("tag block~ block truncate", "truncate tag block~"),
    ] {
        let server = Server::new(rules, &switches);
        let program = &server.program;
        let verdict = program.decide(&server.question(99), &program.hours(99), &NoLists);
        assert_eq!(
            (said(program, &verdict).as_str(), verdict.valid_until),
            (paused, 100),
            "{rules}"
        );
        assert_eq!(verdict.lifted, Some(Lift::Pause(0)));
        let verdict = program.decide(&server.question(100), &program.hours(100), &NoLists);
        assert!(
            verdict.lifted.is_none()
                && verdict.decided.is_some()
                && verdict.valid_until == u64::MAX,
            "{rules}"
        );
    }
}

#[test]
fn a_grant_is_for_its_name_and_its_clients() {
    let grant = |name: &str, scope: Scope| Grant { name: name.to_owned(), scope, until: 100 };
    let kids = || Scope::Group("kids".to_owned());
    for (grant, lifted) in [
        (grant("google.com", Scope::All), true),
        (grant("mail.google.com", Scope::All), false),
        (grant("google.com", kids()), false),
    ] {
        let switches = Switches { pauses: Vec::new(), grants: vec![grant.clone()] };
        let server = Server::new("block", &switches);
        let program = &server.program;
        let verdict = program.decide(&server.question(1), &program.hours(1), &NoLists);
        assert_eq!(
            (verdict.lifted.is_some(), verdict.decided.is_none()),
            (lifted, lifted),
            "{grant:?}"
        );
        assert_eq!(verdict.valid_until, if lifted { 100 } else { u64::MAX });
    }
}
