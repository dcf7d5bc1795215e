//! Checks that nothing on the query path allocates: profile, question, answer, rate limit.

#![allow(clippy::unwrap_used, reason = "functions that tests share panic as tests do")]

use avocet_policy::client::{Clients, Directory, Transport};
use avocet_policy::rule::{
    Action, Answer, Limiter, NoLists, Program, RuleQuestion, RuleSpec, Rules, Switches, Vocabulary,
};
use avocet_testkit::allocations::{Allocations, Counting};
use avocet_wire::{Class, Rtype};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const RULES: &str = r#"
[[rule]]
name = "network"
when = 'client.ip.in("10.0.0.0/8") && qname.levels() > 9'
action = "block"
[[rule]]
name = "limit"
when = 'qname.under("example.com")'
action = "rate-limit"
rps = 100
[[rule]]
name = "pattern"
when = 'qname.matches(r"^ads?\d+\.") || qname.contains("track")'
action = "block"
[[rule]]
name = "night"
when = 'now.between("21:00", "07:00") && qtype == "AAAA"'
action = "block"
[[rule]]
name = "cloak"
when = 'answer.cname.matches("tracker") || answer.ip.in("192.0.2.0/24")'
action = "block"
"#;

#[derive(serde::Deserialize)]
struct File {
    rule: Vec<RuleSpec>,
}

#[test]
fn a_query_allocates_nothing() {
    let file: File = toml::from_str(RULES).unwrap();
    let rules = Rules::check(&file.rule, &Vocabulary::default()).unwrap();
    let clients =
        Clients::build(Directory::new(&[], &[], &[]).unwrap(), &[], rules.client_tests()).unwrap();
    let program = Program::build(&rules, &clients, &Switches::default());
    let limiter = Limiter::new([7; 32]);
    let (now, origin) = (1_795_302_000, clients.origin("", Transport::Udp));
    let mut hours = program.hours(now - 1);
    let address = "192.0.2.1".parse().unwrap();
    let mut decided = 0;
    let allocations = Allocations::of(|| {
        program.renew(&mut hours, now);
        for qname in
            [&b"\x04ads1\x07example\x03com\x00"[..], b"\x03www\x07example\x03com\x00", b"\x00"]
        {
            let profile = clients.profile(address, origin);
            let question =
                RuleQuestion { qname, qtype: Rtype::AAAA, qclass: Class::IN, profile, now };
            let verdict = program.decide(&question, &hours, &NoLists);
            let answer = Answer { addresses: &[address], ..Answer::default() };
            let verdict = program.decide_answer(&question, (&answer, &verdict), &hours, &NoLists);
            decided += usize::from(verdict.decided.is_some());
            for rule in verdict.noted() {
                if let Some(Action::RateLimit(limit)) = program.rule(*rule).map(|rule| &rule.action)
                {
                    limiter.admit(*rule, limit, (address, qname), 1);
                }
            }
        }
    });
    assert_eq!((allocations.bytes, decided), (0, 3));
}
