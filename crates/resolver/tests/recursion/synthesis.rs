//! Answers from cached NSEC and NSEC3 ranges and wildcards, with a signed zone and a signed zone
//! below it.

use avocet_dnssec::Budget;
use avocet_dnssec::nsec3::Parameters;
use avocet_resolver::Recursion;
use avocet_testkit::{Query, Response, name};
use avocet_wire::header::{AA, RA, RD};
use avocet_wire::{Rcode, Rtype};

use crate::secure::{NOW_SECS, Zone, lines, served, validation};
use crate::world::{Script, World, recursion};

/// Returns the label of a name's NSEC3 record without salt and iterations (RFC 4648 §7).
pub(crate) fn hashed(owner: &str) -> String {
    const DIGITS: &[u8; 32] = b"0123456789abcdefghijklmnopqrstuv";
    let hash =
        Parameters { iterations: 0, salt: &[] }.hash(&name(owner), &mut Budget::default()).unwrap();
    let bit = |at: usize| usize::from(hash[at / 8] >> (7 - at % 8) & 1);
    (0..32)
        .map(|digit| char::from(DIGITS[(0..5).fold(0, |bits, at| bits << 1 | bit(digit * 5 + at))]))
        .collect()
}

/// An NSEC3 record: its hash, the next hash, and the record in presentation form.
struct Link {
    hash: String,
    next: String,
    record: String,
}

impl Link {
    fn covers(&self, hash: &str) -> bool {
        let (after, before) = (self.hash.as_str() < hash, hash < self.next.as_str());
        if self.hash < self.next { after && before } else { after || before }
    }
}

/// Returns the NSEC3 chain of a zone with these names and their types.
fn chain(apex: &str, names: &[(&str, &str)]) -> Vec<Link> {
    let mut hashes: Vec<(String, &str)> =
        names.iter().map(|(owner, types)| (hashed(owner), *types)).collect();
    hashes.sort();
    let link = |at: usize| {
        let (hash, types) = &hashes[at];
        let next = hashes[(at + 1) % hashes.len()].0.clone();
        let record = format!("{hash}.{apex} 300 NSEC3 1 0 0 - {next} {types}");
        Link { hash: hash.clone(), next, record }
    };
    (0..hashes.len()).map(link).collect()
}

/// The root, example. with NSEC3 records, and sub.example. with a wildcard and the name
/// mail.sub.example.
struct Family {
    root: Zone,
    example: Zone,
    sub: Zone,
    chain: Vec<Link>,
    /// Records that precede the signature in an answer from the wildcard. `OWNER` represents the
    /// owner.
    before_signature: Vec<String>,
}

impl Family {
    fn new() -> Self {
        let names = [
            ("example.", "NS SOA RRSIG DNSKEY NSEC3PARAM"),
            ("sub.example.", "NS DS RRSIG"),
            ("ns.example.", "A"),
        ];
        let (root, example, sub) =
            (Zone::new("."), Zone::new("example."), Zone::new("sub.example."));
        Self { root, example, sub, chain: chain("example.", &names), before_signature: Vec::new() }
    }

    fn world(&self) -> World {
        let validation = Some(validation(&self.root));
        let mut world = World::new(Recursion { aggressive_nsec: true, validation, ..recursion() });
        world.wall_secs = NOW_SECS;
        let root_keys = lines(&[self.root.sign("an", &self.root.dnskey())]);
        let mut down = vec!["au example. 300 NS ns.example.".to_owned()];
        down.extend(lines(&[self.root.sign("au", &self.example.ds())]));
        down.push("ad ns.example. 300 A 192.0.2.2".to_owned());
        world.serve(1, served(".", &[(". DNSKEY", &root_keys), ("*example. A", &down)]));
        world.serve(2, self.example_script());
        world.serve(3, self.sub_script());
        world
    }

    /// Returns a server that denies all names except the child zone, with the whole chain as proof.
    fn example_script(&self) -> Script {
        let keys = lines(&[self.example.sign("an", &self.example.dnskey())]);
        let mut down = vec!["au sub.example. 300 NS ns.sub.example.".to_owned()];
        down.extend(lines(&[self.example.sign("au", &self.sub.ds())]));
        down.push("ad ns.sub.example. 300 A 192.0.2.3".to_owned());
        let mut known =
            served("example.", &[("example. DNSKEY", &keys), ("*sub.example. A", &down)]);
        let mut denial =
            vec![self.example.sign("au", "example. 300 SOA ns.example. host.example. 1 2 3 4 300")];
        denial.extend(self.chain.iter().map(|link| self.example.sign("au", &link.record)));
        let denial = lines(&denial);
        Box::new(move |query: &Query| {
            if query.qname == "example." || query.qname.ends_with("sub.example.") {
                return known(query);
            }
            let response =
                Response::to(query).without_flags(RA | RD).flags(AA).rcode(Rcode::NXDOMAIN);
            let add = |response: Response, line: &String| {
                response.authority(line.split_once(' ').unwrap().1)
            };
            Some(denial.iter().fold(response, add))
        })
    }

    fn sub_script(&self) -> Script {
        let keys = lines(&[self.sub.sign("an", &self.sub.dnskey())]);
        let mail = lines(&[self.sub.sign("an", "mail.sub.example. 300 A 198.51.100.7")]);
        let mut known = served(
            "sub.example.",
            &[("sub.example. DNSKEY", &keys), ("mail.sub.example. A", &mail)],
        );
        let [record, signature] = self.sub.sign("an", "*.sub.example. 300 A 203.0.113.99");
        let mut wildcard = vec![record];
        wildcard.extend(self.before_signature.iter().cloned());
        wildcard.push(signature);
        let gap =
            lines(&[self.sub.sign("au", "mail.sub.example. 300 NSEC sub.example. A RRSIG NSEC")]);
        Box::new(move |query: &Query| {
            if query.qtype != Rtype::A || query.qname == "mail.sub.example." {
                return known(query);
            }
            let record = |line: &String| {
                line.split_once(' ').unwrap().1.replacen("*.sub.example.", &query.qname, 1)
            };
            let response = Response::to(query).without_flags(RA | RD).flags(AA);
            let response =
                wildcard.iter().fold(response, |response, line| response.answer(&record(line)));
            Some(gap.iter().fold(response, |response, line| response.authority(&record(line))))
        })
    }

    /// Caches the wildcard of the child zone and the ranges of the parent, but no range of the
    /// child, and checks the answers.
    #[track_caller]
    fn check(&self) {
        let mut world = self.world();
        assert!(world.resolve("other.sub.example. A").authentic);
        world.forget_proofs();
        let hash_of_mail = hashed("mail.sub.example.");
        let gap = self.chain.iter().find(|link| link.covers(&hash_of_mail)).unwrap();
        let in_gap = (0..)
            .map(|number| format!("n{number}.example."))
            .find(|name| gap.covers(&hashed(name)))
            .unwrap();
        let denied = world.resolve(&format!("{in_gap} A"));
        assert_eq!((denied.rcode, denied.authentic), (Rcode::NXDOMAIN, true));
        let answer = world.resolve("mail.sub.example. A");
        answer.check(Rcode::NOERROR, &["answer mail.sub.example. 300 A 198.51.100.7"]);
        assert!(answer.authentic);
    }
}

#[test]
fn a_wildcard_does_not_answer_by_a_gap_of_the_zone_above() {
    Family::new().check();
}

#[test]
fn a_forged_signature_does_not_make_a_wildcard_one_of_the_zone_above() {
    let forged =
        "an *.sub.example. 300 RRSIG A 15 2 300 20270401000000 20260101000000 1 example. AAAA"
            .to_owned();
    Family { before_signature: vec![forged], ..Family::new() }.check();
}

/// Returns a world with a zone whose wildcard expands only to names directly below wild.example.
/// Each denial has the whole chain except the record of the wildcard, so the resolver never sees
/// that record.
fn world_with_wildcard(root: &Zone, example: &Zone, links: &[Link]) -> World {
    let mut world = World::new(Recursion {
        aggressive_nsec: true,
        validation: Some(validation(root)),
        ..recursion()
    });
    world.wall_secs = NOW_SECS;
    let root_keys = lines(&[root.sign("an", &root.dnskey())]);
    let mut down = vec!["au example. 300 NS ns.example.".to_owned()];
    down.extend(lines(&[root.sign("au", &example.ds())]));
    down.push("ad ns.example. 300 A 192.0.2.2".to_owned());
    world.serve(1, served(".", &[(". DNSKEY", &root_keys), ("*example. A", &down)]));
    let keys = lines(&[example.sign("an", &example.dnskey())]);
    let mut known = served("example.", &[("example. DNSKEY", &keys)]);
    let of_wildcard = hashed("*.wild.example.");
    let seen = links.iter().filter(|link| link.hash != of_wildcard);
    let proof: Vec<[String; 2]> = seen.map(|link| example.sign("au", &link.record)).collect();
    let soa = example.sign("au", "example. 300 SOA ns.example. host.example. 1 2 3 4 300");
    let (proof, soa) = (lines(&proof), lines(&[soa]));
    let wildcard = lines(&[example.sign("an", "*.wild.example. 300 A 203.0.113.99")]);
    world.serve(
        2,
        Box::new(move |query: &Query| {
            if query.qtype != Rtype::A {
                return known(query);
            }
            let record = |line: &String| line.split_once(' ').unwrap().1.to_owned();
            let is_expanded = query.qname.ends_with(".wild.example.")
                && !query.qname.ends_with(".*.wild.example.");
            let mut response = Response::to(query).without_flags(RA | RD).flags(AA);
            if is_expanded {
                let expanded =
                    |line: &String| record(line).replacen("*.wild.example.", &query.qname, 1);
                response = wildcard
                    .iter()
                    .fold(response, |response, line| response.answer(&expanded(line)));
            } else {
                response = response.rcode(Rcode::NXDOMAIN);
                response =
                    soa.iter().fold(response, |response, line| response.authority(&record(line)));
            }
            Some(proof.iter().fold(response, |response, line| response.authority(&record(line))))
        }),
    );
    world
}

#[test]
fn a_wildcard_does_not_expand_to_names_below_itself() {
    let (root, example) = (Zone::new("."), Zone::new("example."));
    let names = [
        ("example.", "NS SOA RRSIG DNSKEY NSEC3PARAM"),
        ("ns.example.", "A RRSIG"),
        ("wild.example.", ""),
        ("*.wild.example.", "A RRSIG"),
    ];
    let links = chain("example.", &names);
    let of_wildcard = links.iter().find(|link| link.hash == hashed("*.wild.example.")).unwrap();
    let is_known = |name: &String| !of_wildcard.covers(&hashed(name));
    let pick =
        |below: &str| (0..).map(|number| format!("n{number}.{below}")).find(is_known).unwrap();
    let mut world = world_with_wildcard(&root, &example, &links);
    let expanded = world.resolve(&format!("{} A", pick("wild.example.")));
    assert_eq!(
        (expanded.rcode, expanded.authentic, expanded.records.len()),
        (Rcode::NOERROR, true, 1),
        "{expanded:?}"
    );
    let denied = world.resolve(&format!("{} A", pick("example.")));
    assert_eq!((denied.rcode, denied.authentic), (Rcode::NXDOMAIN, true), "{denied:?}");
    // The cached data does not show whether the wildcard itself exists, which would be the closest
    // encloser.
    let below = world.resolve(&format!("{} A", pick("*.wild.example.")));
    assert_eq!(below.records.len(), 0, "{below:?}");
}
