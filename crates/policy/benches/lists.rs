//! A million names as lists and as a policy zone: time to compile and to open, octets per name, and
//! look-ups compared with a set of strings. Run with `cargo bench -p avocet-policy --bench lists`.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::hint::black_box;
use std::process::Command;
use std::time::Instant;

use avocet_policy::list::{
    Asker, Compiler, Format, Image, Kind, ListId, ListQuestion, ListSet, Origin, Rewrites, Scratch,
    Source,
};
use avocet_policy::rpz::{Zone, ZoneRewrites, ZoneSet, Zones};
use avocet_wire::Rtype;
use avocet_wire::hash::HashKey;

const NAMES: u64 = 1_000_000;
const ROUNDS: usize = 11;
/// Operations per round: a round must exceed the kernel's tick, the unit of measurement.
const PER_ROUND: usize = 500_000;
/// Distinct questions: their data exceeds the processor's caches.
const QUESTIONS: usize = 65_536;
const PATTERNS: u64 = 3_000;

fn mix(key: u64) -> u64 {
    let key = key.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (key ^ (key >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Returns a name of four labels, about 26 characters.
fn name(number: u64) -> String {
    let random = mix(number);
    let letters = |count: u64, from: u64| -> String {
        (0..count).map(|at| char::from(b'a' + (mix(from ^ at) % 26) as u8)).collect()
    };
    let zone = random % 200_000;
    let tld = ["com", "net", "org", "info", "co"][(random >> 8) as usize % 5];
    format!(
        "{}.{}.{}.{tld}",
        letters(3 + random % 5, random),
        letters(3, random >> 7),
        letters(5 + zone % 9, zone)
    )
}

/// Returns the processor time of this thread in nanoseconds, which other load does not affect.
fn cpu_ns(since: Instant) -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let spent = text.split_whitespace().next().and_then(|ns| ns.parse().ok());
    spent.unwrap_or_else(|| since.elapsed().as_nanos() as f64)
}

/// Prints the median and the minimum over the rounds of the nanoseconds per operation.
fn measure(name: &str, mut operation: impl FnMut(usize)) {
    let (mut step, clock) = (0, Instant::now());
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = cpu_ns(clock);
            for _ in 0..PER_ROUND {
                operation(step);
                step += 1;
            }
            (cpu_ns(clock) - start) / PER_ROUND as f64
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    println!("| {name} | {:.1} | {:.1} |", rounds[ROUNDS / 2], rounds[0]);
}

/// Returns the resident memory of the process in MiB.
fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kib.unwrap_or(0.0) / 1024.0
}

fn wire(name: &str) -> Vec<u8> {
    let mut wire = Vec::new();
    for label in name.split('.') {
        wire.push(label.len() as u8);
        wire.extend(label.bytes());
    }
    wire.push(0);
    wire
}

fn compile(texts: &[(Format, &str)]) -> Vec<u8> {
    let mut compiler = Compiler::new([7; 32]);
    for (place, (format, text)) in texts.iter().enumerate() {
        let list = ListId::at(place).expect("few lists");
        let format = Some(*format);
        let mut reader = compiler.list(Source {
            list,
            kind: Kind::Block,
            format,
            rewrites: Rewrites::Refused,
            origin: Origin::Own,
        });
        for chunk in text.as_bytes().chunks(64 << 10) {
            let _ = reader.feed(chunk);
        }
        assert_eq!(reader.finish().faults, 0);
    }
    compiler.finish().0
}

/// Names stored contiguously, because a query's name is in the cache when it is looked up.
struct Names {
    octets: Vec<u8>,
    ends: Vec<usize>,
}

impl Names {
    fn of(numbers: impl Iterator<Item = u64>) -> Self {
        let (mut octets, mut ends) = (Vec::new(), vec![0]);
        for number in numbers {
            octets.extend(wire(&name(number)));
            ends.push(octets.len());
        }
        Self { octets, ends }
    }

    fn at(&self, place: usize) -> &[u8] {
        &self.octets[self.ends[place]..self.ends[place + 1]]
    }
}

fn looked_up(what: &str, image: &Image<Vec<u8>>, questions: &Names) {
    let (mut scratch, in_force) = (Scratch::empty(), ListSet::ALL);
    measure(what, |step| {
        let qname = questions.at(step % QUESTIONS);
        let question =
            ListQuestion { qname: black_box(qname), qtype: Rtype::A, asker: Asker::default() };
        black_box(image.lookup(question, &in_force, &mut scratch).decision());
    });
}

/// Returns the texts of policy zones that share the names among them, one trigger each, with or
/// without a wildcard.
fn zone_texts(zones: u64, names: u64, line: impl Fn(&str) -> String) -> Vec<String> {
    let text = |zone: u64| {
        let mut text = "$TTL 60\n@ SOA localhost. nobody.localhost. 1 2 3 4 5\n".to_owned();
        (0..names)
            .filter(|number| number % zones == zone)
            .for_each(|number| text += &line(&name(number)));
        text
    };
    (0..zones).map(text).collect()
}

fn policy_zones(what: &str, texts: &[String], (missing, listed): (&Names, &Names)) {
    let (before, clock) = (resident(), Instant::now());
    let start = cpu_ns(clock);
    let read =
        |text: &String| Zone::read(text.as_bytes(), ZoneRewrites::Refused, HashKey::new([7; 32]));
    let (read, reports): (Vec<_>, Vec<_>) = texts.iter().map(read).unzip();
    let triggers: u64 = reports.iter().map(|report| report.triggers[1]).sum();
    println!("\n| of {what}, {triggers} triggers | |\n|---|---|");
    println!("| read, s | {:.2} |", (cpu_ns(clock) - start) / 1e9);
    let start = cpu_ns(clock);
    let Some(zones) = Zones::of(read) else { return };
    println!("| put together, s | {:.2} |", (cpu_ns(clock) - start) / 1e9);
    println!(
        "| resident octets a trigger | {:.1} |",
        (resident() - before) * f64::from(1 << 20) / triggers as f64
    );
    println!("\n| look-up, ns | median | least |\n|---|---|---|");
    for (what, names) in
        [("a name of four labels that is no trigger", missing), ("a name that is one", listed)]
    {
        measure(what, |step| {
            black_box(zones.on_qname(ZoneSet::ALL, black_box(names.at(step % QUESTIONS))));
        });
    }
}

/// A million triggers in one zone, in one zone with wildcards, and in several zones.
const SCENES: [(&str, u64, u64); 3] = [
    ("one policy zone", 1, NAMES),
    ("one policy zone with wildcards", 1, NAMES),
    ("eight policy zones", 8, 8 * NAMES / 10),
];

fn scene(number: usize, questions: (&Names, &Names)) {
    let (what, zones, names) = SCENES[number];
    let line = |name: &str| match number {
        1 => format!("{name} CNAME .\n*.{name} CNAME .\n"),
        _ => format!("{name} CNAME .\n"),
    };
    policy_zones(what, &zone_texts(zones, names, line), questions);
}

/// Runs each scene in its own process, so that no freed memory of another distorts the result.
fn all_policy_zones() {
    for number in 0..SCENES.len() {
        let program = std::env::current_exe().expect("the path of this program");
        let ended = Command::new(program)
            .arg(format!("{SCENE}{number}"))
            .status()
            .expect("this program starts");
        assert!(ended.success());
    }
}

/// The prefix of a scene's number among the arguments.
const SCENE: &str = "--scene=";

fn main() {
    let missing = Names::of((0..QUESTIONS as u64).map(|number| number + 2 * NAMES));
    let listed = Names::of((0..QUESTIONS as u64).map(|number| number * 12));
    let number = std::env::args()
        .find_map(|argument| argument.strip_prefix(SCENE).and_then(|number| number.parse().ok()));
    if let Some(number) = number {
        return scene(number, (&missing, &listed));
    }
    let mut text = String::new();
    for number in 0..NAMES {
        writeln!(text, "0.0.0.0 {}", name(number)).expect("a string");
    }
    println!("| of {NAMES} names | |\n|---|---|");
    let before = resident();
    let (clock, start) = (Instant::now(), cpu_ns(Instant::now()));
    let octets = compile(&[(Format::Hosts, &text)]);
    println!("| compile, s | {:.2} |", (cpu_ns(clock) - start) / 1e9);
    println!("| memory kept after compiling, of the image's size | {:.2} |", {
        (resident() - before) / (octets.len() as f64 / f64::from(1 << 20))
    });
    let start = cpu_ns(clock);
    let image = Image::open(octets).expect("an image");
    println!("| open, s | {:.3} |", (cpu_ns(clock) - start) / 1e9);
    println!("| octets a name | {:.1} |", image.octets() as f64 / image.names() as f64);

    println!("\n| look-up, ns | median | least |\n|---|---|---|");
    looked_up("a name of four labels that is not listed", &image, &missing);
    looked_up("a name that is listed", &image, &listed);
    let patterns: String =
        (0..PATTERNS).map(|number| format!("||ad*{}.example^\n", mix(number) % 100_000)).collect();
    let both = Image::open(compile(&[(Format::Hosts, &text), (Format::Adblock, &patterns)]))
        .expect("an image");
    looked_up("a name that is not listed, with 3,000 patterns", &both, &missing);
    drop(both);

    all_policy_zones();
    let set: HashSet<String> = (0..NAMES).map(name).collect();
    let missing: Vec<String> =
        (0..QUESTIONS as u64).map(|number| name(number + 2 * NAMES)).collect();
    // A set of strings is searched for the name and each ancestor.
    measure("the same in a set of strings: not listed", |step| {
        let mut rest = black_box(&missing[step % QUESTIONS][..]);
        let mut found = set.contains(rest);
        while let Some((_, above)) = rest.split_once('.') {
            found |= set.contains(above);
            rest = above;
        }
        black_box(found);
    });
}
