//! Compares the compiled program with a plain evaluation of its rules, on random rules, questions,
//! answers and times. The model evaluates each rule in order with the evaluator of `avocet policy
//! test`.

use std::net::IpAddr;

use avocet_policy::client::{
    Asker, ClientSpec, Clients, Directory, GroupSpec, Identity, Mac, Neighbour, Transport,
};
use avocet_policy::rule::{
    ActionKind, Answer, Hours, ListId, Program, RuleQuestion, RuleSpec, Rules, Sample, Switches,
    Verdict, Vocabulary, test,
};
use avocet_wire::name::MAX_NAME;
use avocet_wire::{Class, Rtype};
use proptest::prelude::*;
use proptest::sample::select;

const NAMES: [&str; 11] = [
    ".",
    "com",
    "example.com",
    "ads.example.com",
    "a.ads.example.com",
    "ads.net",
    "b.example.net",
    "x-ads.example.com",
    "example.org",
    "a.b.c.d.example.org",
    "www.youtube.com",
];
/// A condition on a service, and its equivalent on the QNAME alone.
const SERVICE: &str = "service(\"youtube\")";
const OF_SERVICE: &str = "qname.under(\"youtube.com\")";
const ADDRESSES: [&str; 6] =
    ["192.0.2.10", "192.0.2.11", "192.0.2.200", "2001:db8::10", "2001:db8::99", "198.51.100.1"];
/// 2026-11-21T23:00:00Z, a Saturday.
const SATURDAY_NIGHT: u64 = 1_795_302_000;

fn wire(text: &str) -> Vec<u8> {
    let mut out = [0; MAX_NAME];
    let len = avocet_wire::text::name_to_wire(text.as_bytes(), Some(&[0]), &mut out).unwrap();
    out[..len].to_vec()
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn vocabulary() -> Vocabulary {
    Vocabulary {
        lists: owned(&["l0", "l1"]),
        groups: owned(&["kids", "iot", "default"]),
        listeners: owned(&["lan", "vpn"]),
        time_zone: "Europe/Berlin".to_owned(),
        ..Vocabulary::default()
    }
}

fn clients(rules: &Rules) -> Clients {
    let groups =
        ["kids", "iot"].map(|name| GroupSpec { name: name.to_owned(), ..GroupSpec::default() });
    let client = |name: &str, ids: &[&str], groups: &[&str]| ClientSpec {
        name: name.to_owned(),
        ids: owned(ids),
        groups: owned(groups),
    };
    let clients = [
        client("tablet", &["192.0.2.10", "02:00:00:00:00:01"], &["kids"]),
        client("camera", &["192.0.2.0/25"], &["iot", "kids"]),
    ];
    let directory = Directory::new(&groups, &clients, &owned(&["l0", "l1"])).unwrap();
    let clients = Clients::build(directory, &owned(&["lan", "vpn"]), rules.client_tests()).unwrap();
    let mac = Some(Mac([2, 0, 0, 0, 0, 1]));
    let address = "2001:db8::10".parse().unwrap();
    clients.with_neighbours(&[Neighbour { address, mac, name: None }]).unwrap()
}

fn atom() -> impl Strategy<Value = String> {
    let name = || select(&NAMES[..]);
    prop_oneof![
        4 => name().prop_map(|name| format!("qname.under({name:?})")),
        2 => name().prop_map(|name| format!("qname == {name:?}")),
        2 => (name(), name()).prop_map(|(a, b)| format!("qname in [{a:?}, {b:?}]")),
        1 => select(&["ads", "a.", "x-", ""][..]).prop_map(|text| format!("qname.starts_with({text:?})")),
        1 => select(&[".com", "org", ""][..]).prop_map(|text| format!("qname.ends_with({text:?})")),
        1 => select(&["ads", "-", ".e"][..]).prop_map(|text| format!("qname.contains({text:?})")),
        // The last one has no automaton, because it would be exponential.
        2 => select(&[r"^ads?\.", "example", "^$", "(a|b)[.]", "^(a|ad|b)*[a-z.]{1,80}x.*(o|m)+$"][..]).prop_map(|text| format!("qname.matches(r{text:?})").replace(r"\\", r"\")),
        1 => (0..5i64, select(&[">", "==", "<="][..])).prop_map(|(n, sign)| format!("qname.levels() {sign} {n}")),
        2 => select(&["A", "AAAA", "HTTPS"][..]).prop_map(|one| format!("qtype == {one:?}")),
        1 => Just(r#"qtype != "A""#.to_owned()),
        1 => Just(r#"qtype in ["AAAA", "HTTPS"]"#.to_owned()),
        1 => Just(r#"qclass == "IN""#.to_owned()),
        2 => select(&["kids", "iot", "default"][..]).prop_map(|group| format!("client.group({group:?})")),
        1 => select(&["192.0.2.0/24", "192.0.2.0/25", "2001:db8::/32"][..]).prop_map(|net| format!("client.ip.in({net:?})")),
        1 => Just(r#"client.name.starts_with("ta")"#.to_owned()),
        1 => Just(r#"client.mac == "02:00:00:00:00:01""#.to_owned()),
        1 => Just(r#"client.transport == "tcp""#.to_owned()),
        1 => Just(r#"client.listener == "vpn""#.to_owned()),
        1 => (0..24i64).prop_map(|hour| format!("now.hour >= {hour}")),
        1 => Just("now.minute < 30".to_owned()),
        1 => (0..24u8, 0..24u8).prop_filter("not empty", |(a, b)| a != b)
            .prop_map(|(a, b)| format!("now.between(\"{a}:15\", \"{b}:15\")")),
        1 => Just("now.weekend".to_owned()),
        1 => Just(r#"now.weekday in ["mon", "sun"]"#.to_owned()),
        1 => select(&["l0", "l1"][..]).prop_map(|list| format!("list({list:?})")),
        1 => Just(SERVICE.to_owned()),
        1 => Just(r#"answer.ip.in("192.0.2.0/24")"#.to_owned()),
        1 => name().prop_map(|name| format!("answer.cname.under({name:?})")),
        1 => any::<bool>().prop_map(|value| value.to_string()),
    ]
}

fn expression() -> impl Strategy<Value = String> {
    atom().prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            inner.clone().prop_map(|a| format!("!({a})")),
            prop::collection::vec(inner.clone(), 2..4)
                .prop_map(|parts| format!("({})", parts.join(" && "))),
            prop::collection::vec(inner.clone(), 2..4)
                .prop_map(|parts| format!("({})", parts.join(" || "))),
            [inner.clone(), inner.clone(), inner]
                .prop_map(|[a, b, c]| format!("({a} ? {b} : {c})")),
        ]
    })
}

fn rule() -> impl Strategy<Value = RuleSpec> {
    let actions = select(&["block", "allow", "drop", "truncate", "tag", "block"][..]);
    (expression(), actions, -1..2i32, prop::bool::weighted(0.2)).prop_map(|(when, action, priority, log_only)| {
        let tag = if action == "tag" { "tag = 'x'" } else { "" };
        let text =
            format!("name = 'r'\nwhen = ''\naction = '{action}'\nlog-only = {log_only}\npriority = {priority}\n{tag}");
        RuleSpec { when, ..toml::from_str(&text).unwrap() }
    })
}

/// A question with all properties that rules may test.
#[derive(Clone, Debug)]
struct Case {
    qname: &'static str,
    qtype: u16,
    address: IpAddr,
    listener: &'static str,
    transport: Transport,
    now: u64,
    /// The fraction of the verdict's validity, of 256, after which it is evaluated again.
    later: u8,
    lists: Vec<ListId>,
    answer_lists: Vec<ListId>,
    answer_name: &'static str,
    answer_address: IpAddr,
}

fn case() -> impl Strategy<Value = Case> {
    let lists = || prop::collection::vec((0..2u16).prop_map(ListId), 0..2);
    let question = (select(&NAMES[..]), select(&[1u16, 28, 65][..]), select(&ADDRESSES[..]));
    let way = (select(&["lan", "vpn", ""][..]), select(&[Transport::Udp, Transport::Tcp][..]));
    let time = (0..8 * 24 * 3600u64, any::<u8>());
    let answer = (select(&NAMES[..]), select(&ADDRESSES[..]));
    (question, way, time, lists(), lists(), answer).prop_map(
        |(question, way, time, lists, answer_lists, answer)| Case {
            qname: question.0,
            qtype: question.1,
            address: question.2.parse().unwrap(),
            listener: way.0,
            transport: way.1,
            now: SATURDAY_NIGHT + time.0,
            later: time.1,
            lists,
            answer_lists,
            answer_name: answer.0,
            answer_address: answer.1.parse().unwrap(),
        },
    )
}

/// The stage: the question or its answer.
#[derive(Clone, Copy, PartialEq)]
enum Stage {
    Question,
    Answer,
}

/// Returns the result of evaluating each rule in order: the index of the deciding rule, and those
/// of the noted ones.
fn model(
    specs: &[RuleSpec],
    case: &Case,
    who: &Identity,
    now: u64,
    stage: Stage,
) -> (Option<u32>, Vec<u32>) {
    let mut ordered: Vec<&RuleSpec> = specs.iter().collect();
    ordered.sort_by_key(|spec| spec.priority);
    let (qname, target) = (wire(case.qname), wire(case.answer_name));
    let asker = Asker {
        address: Some(case.address),
        client: who.client.as_deref(),
        name: who.name.as_deref(),
        macs: &who.macs,
        groups: &who.groups,
        listener: case.listener,
        transport: Some(case.transport),
    };
    let names = [target.as_slice()];
    let addresses = [case.answer_address];
    let mut sample =
        Sample { qname: &qname, qtype: case.qtype, qclass: 1, asker, now, ..Sample::default() };
    match stage {
        Stage::Question => sample.lists = &case.lists,
        Stage::Answer => {
            (sample.lists, sample.names, sample.addresses) =
                (&case.answer_lists, &names, &addresses);
        }
    }
    let mut noted = Vec::new();
    for (place, spec) in (0..).zip(ordered) {
        let is_allow = spec.action == ActionKind::Allow;
        let reads_answer = spec.when.contains("answer.");
        let looks_behind = spec.when.contains("list(") || spec.when.contains(SERVICE);
        let is_asked = match stage {
            Stage::Question => !reads_answer,
            Stage::Answer => reads_answer || (looks_behind && !is_allow),
        };
        let is_void = spec.action == ActionKind::Truncate && case.transport != Transport::Udp;
        // Rules that allow depend on the QNAME alone.
        let when =
            if is_allow { spec.when.replace(SERVICE, OF_SERVICE) } else { spec.when.clone() };
        if is_void || !is_asked || !test(&when, &vocabulary(), &sample).unwrap().holds() {
            continue;
        }
        if spec.log_only || spec.tag.is_some() {
            noted.push(place);
        } else {
            return (Some(place), noted);
        }
    }
    (None, noted)
}

fn said(verdict: &Verdict) -> (Option<u32>, Vec<u32>) {
    (verdict.decided.map(|rule| rule.0), verdict.noted().iter().map(|rule| rule.0).collect())
}

/// Combines both stages: matches on the answer come before the decision on the question.
fn merged(
    question: &(Option<u32>, Vec<u32>),
    answer: &(Option<u32>, Vec<u32>),
) -> (Option<u32>, Vec<u32>) {
    let decided = question.0.into_iter().chain(answer.0).min();
    let mut noted: Vec<u32> = question.1.iter().chain(&answer.1).copied().collect();
    noted.retain(|rule| decided.is_none_or(|decided| *rule < decided));
    noted.sort_unstable();
    noted.dedup();
    (decided, noted)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn the_program_says_what_its_rules_say(
        specs in prop::collection::vec(rule(), 1..8),
        cases in prop::collection::vec(case(), 12),
    ) {
        let rules = match Rules::check(&specs, &vocabulary()) {
            Ok(rules) => rules,
            Err(faults) => panic!("{}", faults[0]),
        };
        let clients = clients(&rules);
        let program = Program::build(&rules, &clients, &Switches::default());
        for case in &cases {
            let profile = clients.profile(case.address, clients.origin(case.listener, case.transport));
            let who = clients.identify(case.address);
            let (qname, target) = (wire(case.qname), wire(case.answer_name));
            let ask = |now: u64| {
                let question = RuleQuestion { qname: &qname, qtype: Rtype(case.qtype), qclass: Class::IN, profile, now };
                let hours: Hours = program.hours(now);
                let verdict = program.decide(&question, &hours, &|list| case.lists.contains(&list));
                let answer = Answer { addresses: &[case.answer_address], names: &[&target], judged: &[&target], countries: &[] };
                let lists = |list| case.answer_lists.contains(&list);
                (verdict, program.decide_answer(&question, (&answer, &verdict), &hours, &lists))
            };
            let (verdict, after) = ask(case.now);
            let expected = model(&specs, case, &who, case.now, Stage::Question);
            prop_assert_eq!(said(&verdict), expected.clone(), "question {:?}", case);
            let on_answer = model(&specs, case, &who, case.now, Stage::Answer);
            // A rule after the one that decided on the question is not evaluated any more.
            let expected = merged(&expected, &on_answer);
            prop_assert_eq!(said(&after), expected.clone(), "answer {:?}", case);
            prop_assert!(after.valid_until > case.now);
            // Until the verdict expires, it does not change.
            let time = after.valid_until.min(case.now + 15 * 24 * 3600) - case.now;
            for now in [case.now + time * u64::from(case.later) / 256, case.now + time - 1] {
                prop_assert_eq!(said(&ask(now).1), expected.clone(), "at {} of {:?}", now, case);
            }
        }
    }

    #[test]
    fn no_text_is_more_than_a_fault(text in r#"(qname|client|now|\.|\(|\)|"|'|&&|\|\||!|in|\[|\]|,|[a-z]| |\?|:|=|é|\\){0,24}"#) {
        if let Err(fault) = test(&text, &vocabulary(), &Sample::default()) {
            prop_assert!(!fault.shown(&text).to_string().is_empty());
        }
    }
}
