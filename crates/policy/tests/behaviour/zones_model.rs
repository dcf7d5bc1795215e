//! Compares policy zones with a plain model that examines every trigger for every question: random
//! zones with thousands of triggers of all kinds, in all notations.

use std::cmp::Reverse;
use std::fmt::Write as _;
use std::net::IpAddr;

use avocet_policy::rpz::{Action, Found, TriggerKind, Zone, ZoneRewrites, ZoneSet, Zones};
use avocet_testkit::Chance;
use avocet_wire::hash::HashKey;
use avocet_wire::{Rtype, canonical};
use ipnet::IpNet;

const SEEDS: u64 = 24;
/// Most records of a zone.
const MAX_RECORDS: u64 = 3_000;
const QUESTIONS: u64 = 120;

/// Labels from the root, one letter each, from a small set so that names collide.
type Labels = Vec<u8>;

#[derive(Clone, PartialEq, Eq, Debug)]
enum Target {
    Name(Labels, Reach),
    Network(IpNet),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Reach {
    Itself,
    Below,
}

/// A trigger of the file: the line of its first record, and its records in order.
struct Trigger {
    kind: TriggerKind,
    target: Target,
    line: u32,
    says: Vec<String>,
}

/// A plain model of a zone.
#[derive(Default)]
struct Model {
    triggers: Vec<Trigger>,
    faults: u64,
}

impl Model {
    /// Adds a record. Nothing can be added to a trigger with an alias, and only addresses to
    /// addresses.
    fn add(&mut self, kind: TriggerKind, target: &Target, line: u32, says: &str) {
        let known =
            self.triggers.iter_mut().find(|known| known.kind == kind && known.target == *target);
        let Some(known) = known else {
            self.triggers.push(Trigger {
                kind,
                target: target.clone(),
                line,
                says: vec![says.to_owned()],
            });
            return;
        };
        if known.says.iter().any(|before| before == says) {
            return;
        }
        if says.starts_with("A ") && known.says[0].starts_with("A ") {
            known.says.push(says.to_owned());
        } else {
            self.faults += 1;
        }
    }

    /// Returns the trigger for a name: its own, or the wildcard right below its closest encloser.
    fn on_name(&self, kind: TriggerKind, name: &[u8]) -> Option<(&Trigger, Labels)> {
        let named =
            self.triggers.iter().filter(|trigger| trigger.kind == kind).filter_map(|trigger| {
                let Target::Name(labels, reach) = &trigger.target else { return None };
                Some((trigger, labels, *reach))
            });
        let shared = |labels: &[u8]| labels.iter().zip(name).take_while(|(a, b)| a == b).count();
        let encloser = named.clone().map(|(_, labels, _)| shared(labels)).max()?;
        let wanted = if encloser == name.len() { Reach::Itself } else { Reach::Below };
        let mut found =
            named.filter(|(_, labels, reach)| *reach == wanted && **labels == name[..encloser]);
        found.next().map(|(trigger, labels, _)| (trigger, labels.clone()))
    }

    /// Returns the trigger for addresses: the one with the longest prefix and, among equally long
    /// prefixes, with the smallest address.
    fn on_addresses(&self, kind: TriggerKind, addresses: &[IpAddr]) -> Option<&Trigger> {
        let networks =
            self.triggers.iter().filter(|trigger| trigger.kind == kind).filter_map(|trigger| {
                let Target::Network(network) = trigger.target else { return None };
                addresses
                    .iter()
                    .any(|address| network.contains(address))
                    .then_some((trigger, network))
            });
        let order = |(_, network): &(&Trigger, IpNet)| match network {
            IpNet::V4(v4) => (Reverse(v4.prefix_len() + 96), v4.network().to_ipv6_mapped()),
            IpNet::V6(v6) => (Reverse(v6.prefix_len()), v6.network()),
        };
        networks.min_by_key(order).map(|(trigger, _)| trigger)
    }
}

fn pick<'a, T>(chance: &mut Chance, all: &'a [T]) -> &'a T {
    &all[chance.below(all.len() as u64) as usize]
}

fn random_labels(chance: &mut Chance) -> Labels {
    let count = 1 + chance.below(5);
    // Few labels near the root and more below, as in real names.
    (0..count).map(|depth| b'a' + chance.below(2 + 3 * depth) as u8).collect()
}

/// Returns nested prefixes and addresses.
fn random_network(chance: &mut Chance) -> IpNet {
    let octet = |chance: &mut Chance| *pick(chance, &[0_u8, 1, 2, 128, 255]);
    let (address, bits) = if chance.percent(60) {
        (IpAddr::from([10, octet(chance), octet(chance), octet(chance)]), 32)
    } else {
        let groups = [0x2001, 0xdb8, 0, 0, 0, 0]
            .map(|group| group | u16::from(group == 0 && chance.percent(30)));
        let [a, b, c, d, e, f] = groups;
        (IpAddr::from([a, b, c, d, e, f, octet(chance).into(), octet(chance).into()]), 128)
    };
    let len = *pick(chance, &[bits, bits, bits - 1, bits - 8, bits - 12, bits / 2, 8]);
    IpNet::new(address, len).unwrap().trunc()
}

fn random_address(chance: &mut Chance) -> IpAddr {
    random_network(chance).addr()
}

fn dotted(labels: &[u8]) -> String {
    labels.iter().rev().map(|label| char::from(*label).to_string()).collect::<Vec<_>>().join(".")
}

/// Returns the owner of a trigger on addresses: length, then the address reversed.
fn reversed(network: &IpNet) -> String {
    match network {
        IpNet::V4(v4) => {
            let [a, b, c, d] = v4.network().octets();
            format!("{}.{d}.{c}.{b}.{a}", v4.prefix_len())
        }
        IpNet::V6(v6) => {
            let text = v6.network().to_string().replace("::", ":zz:");
            let groups: Vec<&str> =
                text.split(':').filter(|group| !group.is_empty()).rev().collect();
            format!("{}.{}", v6.prefix_len(), groups.join("."))
        }
    }
}

fn owner(kind: TriggerKind, target: &Target) -> String {
    let mark = match kind {
        TriggerKind::Qname => String::new(),
        kind => format!(".rpz-{}", kind.name()),
    };
    match target {
        Target::Name(labels, Reach::Itself) => format!("{}{mark}", dotted(labels)),
        Target::Name(labels, Reach::Below) => format!("*.{}{mark}", dotted(labels)),
        Target::Network(network) => format!("{}{mark}", reversed(network)),
    }
}

/// Returns the data of a record as written and as interpreted.
fn random_data(chance: &mut Chance, target: &Target) -> (String, String) {
    let number = chance.below(3);
    let (written, understood) = match chance.below(12) {
        0..=4 => ("CNAME .".to_owned(), "nxdomain".to_owned()),
        5 => ("CNAME *.".to_owned(), "nodata".to_owned()),
        6 => ("CNAME Rpz-Passthru.".to_owned(), "passthru".to_owned()),
        7 => ("cname rpz-drop.".to_owned(), "drop".to_owned()),
        8 => ("CNAME rpz-tcp-only.".to_owned(), "tcp-only".to_owned()),
        9 => (format!("CNAME w{number}.example."), format!("alias w{number}.example.")),
        _ => (format!("A 192.0.2.{number}"), format!("A 192.0.2.{number}")),
    };
    match target {
        Target::Name(labels, Reach::Itself) if chance.percent(3) => {
            (format!("CNAME {}.", dotted(labels)), "itself".to_owned())
        }
        _ => (written, understood),
    }
}

/// Writes a record in one of the notations of master files.
fn write_record(chance: &mut Chance, text: &mut String, owner: &str, data: &str) {
    let owner = if chance.percent(20) { owner.to_uppercase() } else { owner.to_owned() };
    let owner = if chance.percent(30) { format!("{owner}.rpz.example.") } else { owner };
    let between =
        *pick(chance, &[" ", "\t", " IN ", " 60 ", " 60 IN ", "  in\t60 ", " ( ", " (\n  "]);
    let closing = if between.contains('(') { " )" } else { "" };
    let end = *pick(
        chance,
        &["\n", "\n", "\n", "\r\n", " ; why\n", ";\n", "\n\n", "\n; a \"line\" (of words\n"],
    );
    write!(text, "{owner}{between}{data}{closing}{end}").unwrap();
}

/// Returns a zone of random triggers, as a model and as text.
fn random_zone(chance: &mut Chance) -> (Model, String) {
    let (mut model, mut text) =
        (Model::default(), "$ORIGIN rpz.example.\n$TTL 60\n@ SOA a. b. 1 2 3 4 5\n".to_owned());
    let mut line = 1 + text.matches('\n').count() as u32;
    let records = if chance.percent(20) { chance.below(4) } else { chance.below(MAX_RECORDS) };
    let wildcards = *pick(chance, &[0, 5, 50]);
    for _ in 0..records {
        let kind = match chance.below(20) {
            0..=11 => TriggerKind::Qname,
            12..=14 => TriggerKind::NsName,
            15 => TriggerKind::ClientAddress,
            16 => TriggerKind::NsAddress,
            _ => TriggerKind::AnswerAddress,
        };
        let target = match kind {
            TriggerKind::Qname | TriggerKind::NsName => {
                let reach = if chance.percent(wildcards) { Reach::Below } else { Reach::Itself };
                Target::Name(random_labels(chance), reach)
            }
            _ => Target::Network(random_network(chance)),
        };
        let (written, mut says) = random_data(chance, &target);
        if says == "itself" {
            says = if kind == TriggerKind::Qname {
                "passthru".to_owned()
            } else {
                format!("alias {}", &written[6..])
            };
        }
        let before = text.len();
        write_record(chance, &mut text, &owner(kind, &target), &written);
        model.add(kind, &target, line, &says);
        line += text[before..].matches('\n').count() as u32;
    }
    (model, text)
}

/// A name, in the canonical order of names.
#[derive(PartialEq, Eq)]
struct InOrder(Vec<u8>);

impl Ord for InOrder {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        canonical::compare_names(&self.0, &other.0)
    }
}

impl PartialOrd for InOrder {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

fn wire(labels: &[u8]) -> Vec<u8> {
    labels.iter().rev().flat_map(|label| [1, *label]).chain([0]).collect()
}

fn shown(found: Option<Found<'_>>) -> String {
    let Some(found) = found else { return "-".to_owned() };
    let says = match found.action {
        Action::Cname(_) => format!("alias {}", found.action.alias(b"\0").unwrap()),
        Action::Data(_) => {
            let addresses = found
                .action
                .records(Rtype::A)
                .map(|record| format!("A 192.0.2.{}", record.rdata[3]));
            addresses.collect::<Vec<_>>().join(" ")
        }
        action => action.name().to_owned(),
    };
    format!("{}:{} {:?} {says}", found.zone, found.line, found.kind)
}

/// Returns the trigger of the first zone in force in which one fires.
fn expected<'m>(
    (models, in_force): (&'m [Model], ZoneSet),
    fires: impl Fn(&'m Model) -> Option<&'m Trigger>,
) -> String {
    let zones = models.iter().enumerate().filter(|(zone, _)| in_force.contains(*zone));
    let mut fired = zones.filter_map(|(zone, model)| Some((zone, fires(model)?)));
    fired.next().map_or_else(
        || "-".to_owned(),
        |(zone, trigger)| {
            format!("{zone}:{} {:?} {}", trigger.line, trigger.kind, trigger.says.join(" "))
        },
    )
}

fn ask(chance: &mut Chance, models: &[Model], zones: &Zones) {
    let mut in_force = ZoneSet::default();
    (0..models.len()).filter(|_| chance.percent(80)).for_each(|zone| in_force.insert(zone));
    let plain = (models, in_force);

    let name = random_labels(chance);
    let by_name = expected(plain, |model| {
        model.on_name(TriggerKind::Qname, &name).map(|(trigger, _)| trigger)
    });
    assert_eq!(shown(zones.on_qname(in_force, &wire(&name))), by_name, "{}", dotted(&name));

    let servers: Vec<Labels> = (0..chance.below(4)).map(|_| random_labels(chance)).collect();
    // An exact name precedes wildcards, of wildcards the closest one comes first, otherwise the
    // last name.
    let best = |model| {
        let fired = servers.iter().filter_map(|server| {
            Some((server, Model::on_name(model, TriggerKind::NsName, server)?))
        });
        let best = fired.max_by_key(|(server, (_, owner))| {
            let is_exact = owner.len() == server.len();
            (is_exact, if is_exact { 0 } else { owner.len() }, InOrder(wire(server)))
        });
        best.map(|(_, (trigger, _))| trigger)
    };
    let wires: Vec<Vec<u8>> = servers.iter().map(|server| wire(server)).collect();
    let found = zones.on_nsnames(in_force, || wires.iter().map(|name| &name[..]));
    assert_eq!(shown(found), expected(plain, best), "{servers:?}");

    let addresses: Vec<IpAddr> = (0..chance.below(4)).map(|_| random_address(chance)).collect();
    let by_address = |kind| expected(plain, |model| model.on_addresses(kind, &addresses));
    let given = || addresses.iter().copied();
    let found = zones.on_answer_addresses(in_force, given);
    assert_eq!(shown(found), by_address(TriggerKind::AnswerAddress), "{addresses:?}");
    let found = zones.on_nsaddresses(in_force, given);
    assert_eq!(shown(found), by_address(TriggerKind::NsAddress), "{addresses:?}");

    let client = random_address(chance);
    let by_client =
        expected(plain, |model| model.on_addresses(TriggerKind::ClientAddress, &[client]));
    assert_eq!(shown(zones.on_client(in_force, client)), by_client, "{client}");
}

#[test]
fn random_zones_fire_as_a_search_through_all_triggers_says() {
    let mut triggers_seen = 0;
    for seed in 0..SEEDS {
        let mut chance = Chance::new(seed);
        let key = HashKey::new([seed as u8; 32]);
        let count = 1 + chance.below(4);
        let (models, texts): (Vec<Model>, Vec<String>) =
            (0..count).map(|_| random_zone(&mut chance)).unzip();
        let zones = texts.iter().zip(&models).map(|(text, model)| {
            let (zone, report) = Zone::read(text.as_bytes(), ZoneRewrites::Permitted, key);
            let mut triggers = [0; 5];
            model.triggers.iter().for_each(|trigger| triggers[trigger.kind as usize] += 1);
            assert_eq!((report.triggers, report.faults), (triggers, model.faults), "seed {seed}");
            assert!(report.first_faults.is_sorted_by_key(|fault| fault.line));
            zone
        });
        let zones = Zones::of(zones.collect()).unwrap();
        for _ in 0..QUESTIONS {
            ask(&mut chance, &models, &zones);
        }
        triggers_seen += models.iter().map(|model| model.triggers.len()).sum::<usize>();
    }
    assert!(triggers_seen > 20_000, "{triggers_seen}");
}
