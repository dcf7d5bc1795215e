//! The cost of a verdict by the form and number of rules, and of a profile. Run with `cargo bench
//! -p avocet-policy --bench rules`.
//!
//! No rule matches the questions, so that all candidates are evaluated. Each figure is the median
//! over rounds of nanoseconds per question, on one thread.

use std::hint::black_box;
use std::net::IpAddr;
use std::time::Instant;

use avocet_policy::client::{ClientSpec, Clients, Directory, GroupSpec, Origin};
use avocet_policy::rule::{NoLists, Program, RuleQuestion, RuleSpec, Rules, Switches, Vocabulary};
use avocet_wire::name::MAX_NAME;
use avocet_wire::{Class, Rtype};

const ROUNDS: usize = 501;
/// Operations per round: few enough that most rounds fit into a time slice.
const PER_ROUND: usize = 500;
/// A Saturday night.
const NOW: u64 = 1_795_302_000;

/// A function that writes the rule with a number.
type Shape = fn(usize) -> String;

const SHAPES: [(&str, Shape); 9] = [
    ("suffix", |n| format!(r#"qname.under("d{n}.example.com")"#)),
    ("exact", |n| format!(r#"qname == "www.d{n}.example.com""#)),
    ("type", |n| format!(r#"qtype == "TYPE{}""#, 1_000 + n)),
    ("client", |n| {
        format!(r#"client.ip.in("10.{}.{}.0/24") && qname.contains("x{n}")"#, n / 256, n % 256)
    }),
    ("time", |n| format!(r#"now.hour == {} && qname.under("t{n}.example.com")"#, n % 24)),
    ("regex", |n| format!(r#"qname.matches(r"^ad[sx]?{n}[a-z]*\.")"#)),
    ("contains", |n| format!(r#"qname.contains("track{n}")"#)),
    ("levels", |n| format!("qname.levels() > {}", 9 + n % 50)),
    ("mixed", |n| {
        format!(
            r#"client.group("kids") && qname.under("m{n}.example.com") && qtype == "A" && now.weekend"#
        )
    }),
];
/// Forms that are not indexed, so that a large number of these rules is useless in practice.
const UNINDEXED: [&str; 3] = ["regex", "contains", "levels"];
const COUNTS: [(usize, f64); 4] = [(1, 20.0), (10, 60.0), (100, 300.0), (10_000, 1_000.0)];

const NAMES: [&str; 8] = [
    "www.shop.example.com",
    "example.com",
    "api.eu-west.cloud.example.net",
    "cdn.images.example.org",
    "mail.example.de",
    "a.b.example.com",
    "static.xx.fbcdn.example",
    "clients4.search.example",
];

fn wire(text: &str) -> Vec<u8> {
    let mut out = [0; MAX_NAME];
    let len =
        avocet_wire::text::name_to_wire(text.as_bytes(), Some(&[0]), &mut out).expect("a name");
    out[..len].to_vec()
}

fn rule(when: String) -> RuleSpec {
    RuleSpec { when, ..toml::from_str("name = 'r'\nwhen = ''\naction = 'block'").expect("a rule") }
}

fn clients(rules: &Rules) -> Clients {
    let group = GroupSpec {
        name: "kids".to_owned(),
        clients: vec!["192.0.2.0/24".to_owned()],
        lists: None,
    };
    let directory = Directory::new(&[group], &[], &[]).expect("groups");
    Clients::build(directory, &[], rules.client_tests()).expect("clients")
}

/// Returns the nanoseconds per operation: the median over the rounds.
fn median(mut operation: impl FnMut(usize)) -> f64 {
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            (0..PER_ROUND).for_each(&mut operation);
            start.elapsed().as_nanos() as f64 / PER_ROUND as f64
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    rounds[ROUNDS / 2]
}

fn verdict(shape: Shape, count: usize) -> f64 {
    let specs: Vec<RuleSpec> = (0..count).map(|number| rule(shape(number))).collect();
    let vocabulary = Vocabulary { groups: vec!["kids".to_owned()], ..Vocabulary::default() };
    let rules = Rules::check(&specs, &vocabulary).unwrap_or_else(|faults| panic!("{}", faults[0]));
    let clients = clients(&rules);
    let program = Program::build(&rules, &clients, &Switches::default());
    let (hours, names) = (program.hours(NOW), NAMES.map(wire));
    let profile = clients.profile("192.0.2.1".parse().expect("an address"), Origin::default());
    median(|step| {
        let qname = &names[step % names.len()];
        let question =
            RuleQuestion { qname, qtype: Rtype::A, qclass: Class::IN, profile, now: NOW };
        black_box(program.decide(black_box(&question), &hours, &NoLists));
    })
}

fn profile(count: u32) -> f64 {
    let ids =
        |n: u32| vec![IpAddr::from((0x0a00_0000 + n * 256).to_be_bytes()).to_string() + "/24"];
    // Every second client is in no group, so that adjacent clients differ and are not merged into
    // one network.
    let groups = |n: u32| if n.is_multiple_of(2) { vec!["kids".to_owned()] } else { Vec::new() };
    let client = |n| ClientSpec { name: format!("c{n}"), ids: ids(n), groups: groups(n) };
    let specs: Vec<ClientSpec> = (0..count).map(client).collect();
    let group = GroupSpec { name: "kids".to_owned(), ..GroupSpec::default() };
    let directory = Directory::new(&[group], &specs, &[]).expect("clients");
    let rules = Rules::check(
        &[rule(r#"client.group("kids")"#.to_owned())],
        &Vocabulary { groups: vec!["kids".to_owned()], ..Vocabulary::default() },
    )
    .unwrap_or_else(|faults| panic!("{}", faults[0]));
    let clients = Clients::build(directory, &[], rules.client_tests()).expect("clients");
    let addresses: Vec<IpAddr> =
        (0..64u32).map(|n| IpAddr::from((0x0a00_0000 + n * 7_919 * 64).to_be_bytes())).collect();
    median(|step| {
        black_box(clients.profile(black_box(addresses[step % addresses.len()]), Origin::default()));
    })
}

fn main() {
    println!(
        "| rules | {} | geometric mean | to reach |",
        SHAPES.map(|(name, _)| name).join(" | ")
    );
    println!("|---|{}---|---|", "---|".repeat(SHAPES.len()));
    for (count, wanted) in COUNTS {
        let measured = SHAPES.iter().map(|(name, shape)| {
            let is_measured = count <= 100 || !UNINDEXED.contains(name);
            is_measured.then(|| verdict(*shape, count))
        });
        let measured: Vec<Option<f64>> = measured.collect();
        let known: Vec<f64> = measured.iter().copied().flatten().collect();
        let mean = (known.iter().map(|ns| ns.ln()).sum::<f64>() / known.len() as f64).exp();
        let cells: Vec<String> = measured
            .iter()
            .map(|cell| cell.map_or_else(String::new, |ns| format!("{ns:.1}")))
            .collect();
        println!("| {count} | {} | {mean:.1} | {wanted} |", cells.join(" | "));
    }
    println!("\n| clients | profile of an address, ns |\n|---|---|");
    for count in [1, 16, 1_000] {
        println!("| {count} | {:.1} |", profile(count));
    }
}
