//! Properties of any text as a condition.

use avocet_policy::client::{Clients, Directory, Profile};
use avocet_policy::rule::{
    NoLists, Program, RuleQuestion, RuleSpec, Rules, Sample, Switches, Vocabulary, test,
};
use avocet_wire::{Class, Rtype};

const QNAME: &[u8] = b"\x03www\x07example\x03com\x00";
/// 2026-11-21T23:00:00Z.
const NOW: u64 = 1_795_302_000;

/// Checks that an invalid text yields an error that can be displayed, and that program and
/// evaluator agree on a valid one.
pub(crate) fn hold(input: &[u8]) {
    let Ok(when) = std::str::from_utf8(input) else { return };
    let vocabulary =
        Vocabulary { lists: vec!["ads".to_owned()], has_countries: true, ..Vocabulary::default() };
    let asker = avocet_policy::client::Asker {
        address: "192.0.2.1".parse().ok(),
        groups: &vocabulary.groups,
        transport: Some(avocet_policy::client::Transport::Udp),
        ..Default::default()
    };
    let sample = Sample { qname: QNAME, qtype: 1, qclass: 1, asker, now: NOW, ..Sample::default() };
    let trace = match test(when, &vocabulary, &sample) {
        Ok(trace) => trace,
        Err(fault) => {
            assert!(fault.span.start <= fault.span.end && fault.column(when) > 0);
            assert!(!fault.shown(when).to_string().is_empty());
            return;
        }
    };
    let spec = RuleSpec {
        name: "x".to_owned(),
        when: when.to_owned(),
        enabled: true,
        ..RuleSpec::default()
    };
    let rules = Rules::check(&[spec], &vocabulary).expect("what can be asked can be a rule");
    let directory = Directory::new(&[], &[], &[]).expect("nobody");
    let clients = Clients::build(directory, &[], rules.client_tests()).expect("few differences");
    let origin = clients.origin("", avocet_policy::client::Transport::Udp);
    let profile: Profile = clients.profile("192.0.2.1".parse().expect("an address"), origin);
    let program = Program::build(&rules, &clients, &Switches::default());
    let question =
        RuleQuestion { qname: QNAME, qtype: Rtype::A, qclass: Class::IN, profile, now: NOW };
    let verdict = program.decide(&question, &program.hours(NOW), &NoLists);
    if !when.contains("answer") && !when.contains("geo") {
        assert_eq!(verdict.decided.is_some(), trace.holds(), "{when}");
    }
}
