//! Validation: secure, insecure and bogus answers, from zones that are signed during the test.

use std::net::SocketAddr;

use avocet_cache::ReadAt;
use avocet_dnssec::Policy;
use avocet_dnssec::anchor::{Anchor, Anchors};
use avocet_dnssec::negative::{NegativeAnchor, NegativeAnchors};
use avocet_resolver::{
    Answers, Assembled, Assembler, Plan, Recursion, StubZone, Validation, Wanted,
};
use avocet_testkit::{name, question};
use avocet_wire::suffix::SuffixMap;
use avocet_wire::{Question, Rcode, Rtype, rdata};
use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};

use crate::attacks::rule;
use crate::world::{Answer, Script, World, authority, recursion, settings};

/// The time at which the signatures of the tests are valid, in seconds since 1970.
pub(crate) const NOW_SECS: u64 = 1_800_000_000;
const ED25519: u8 = 15;

/// A zone with one key.
pub(crate) struct Zone {
    apex: &'static str,
    key: Ed25519KeyPair,
    pub(crate) expires_at_secs: u64,
}

fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02X}")).collect()
}

impl Zone {
    pub(crate) fn new(apex: &'static str) -> Self {
        let seed: [u8; 32] = digest(&SHA256, apex.as_bytes()).as_ref().try_into().unwrap();
        let key = Ed25519KeyPair::from_seed_unchecked(&seed).unwrap();
        Self { apex, key, expires_at_secs: NOW_SECS + 86_400 }
    }

    fn dnskey_data(&self) -> Vec<u8> {
        [&[1, 1, 3, ED25519][..], self.key.public_key().as_ref()].concat()
    }

    fn tag(&self) -> u16 {
        let sum: u32 = self
            .dnskey_data()
            .chunks(2)
            .map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)))
            .sum();
        ((sum + (sum >> 16 & 0xffff)) & 0xffff) as u16
    }

    pub(crate) fn dnskey(&self) -> String {
        format!("{} 300 DNSKEY {}", self.apex, rdata::display(Rtype::DNSKEY.0, &self.dnskey_data()))
    }

    pub(crate) fn ds(&self) -> String {
        let digested = digest(&SHA256, &[name(self.apex), self.dnskey_data()].concat());
        format!("{} 300 DS {} {ED25519} 2 {}", self.apex, self.tag(), hex(digested.as_ref()))
    }

    /// Returns the record "OWNER TTL TYPE DATA" and its signature, for this section.
    pub(crate) fn sign(&self, section: &str, record: &str) -> [String; 2] {
        let mut fields = record.splitn(4, ' ');
        let (owner, ttl, mnemonic, text) = (
            fields.next().unwrap(),
            fields.next().unwrap(),
            fields.next().unwrap(),
            fields.next().unwrap(),
        );
        let rtype = rdata::from_mnemonic(mnemonic).unwrap();
        let ttl_secs: u32 = ttl.parse().unwrap();
        let mut data = Vec::new();
        rdata::parse(rtype, text, &[0], &mut data).unwrap();
        let labels =
            owner.split('.').filter(|label| !label.is_empty() && *label != "*").count() as u8;
        let mut rrsig = rtype.to_be_bytes().to_vec();
        rrsig.extend([ED25519, labels]);
        rrsig.extend(ttl_secs.to_be_bytes());
        rrsig.extend((self.expires_at_secs as u32).to_be_bytes());
        rrsig.extend((self.expires_at_secs as u32 - 86_400 * 2).to_be_bytes());
        rrsig.extend(self.tag().to_be_bytes());
        rrsig.extend(name(self.apex));
        let fixed =
            [&name(owner)[..], &rtype.to_be_bytes(), &[0, 1], &ttl_secs.to_be_bytes()].concat();
        let signed = [&rrsig[..], &fixed, &(data.len() as u16).to_be_bytes(), &data].concat();
        rrsig.extend(self.key.sign(&signed).as_ref());
        let rrsig = rdata::display(Rtype::RRSIG.0, &rrsig).to_string();
        [format!("{section} {record}"), format!("{section} {owner} {ttl} RRSIG {rrsig}")]
    }
}

pub(crate) fn validation(zone: &Zone) -> Validation {
    let anchor = zone.ds().replacen(" 300 ", " IN ", 1);
    Validation {
        anchors: Anchors::of(vec![Anchor::parse(&anchor).unwrap()]),
        negative: NegativeAnchors::default(),
        private: SuffixMap::default(),
        policy: Policy::default(),
    }
}

pub(crate) fn lines(parts: &[[String; 2]]) -> Vec<String> {
    parts.iter().flatten().cloned().collect()
}

pub(crate) struct Setup {
    pub(crate) root: Zone,
    pub(crate) example: Zone,
    /// The records that accompany the root's delegation of example.
    delegation: Vec<String>,
    /// The answer of example. to www.example. A.
    pub(crate) www: Vec<String>,
    /// The answer of example. to nothing.example. A.
    pub(crate) nothing: Vec<String>,
}

impl Setup {
    pub(crate) fn new() -> Self {
        let (root, example) = (Zone::new("."), Zone::new("example."));
        let soa = "example. 300 SOA ns.example. host.example. 1 2 3 4 300";
        let nothing = [
            example.sign("au", soa),
            example.sign("au", "example. 300 NSEC www.example. NS SOA RRSIG NSEC DNSKEY"),
        ];
        Self {
            delegation: lines(&[root.sign("au", &example.ds())]),
            www: lines(&[example.sign("an", "www.example. 300 A 198.51.100.1")]),
            nothing: lines(&nothing),
            root,
            example,
        }
    }

    pub(crate) fn world(&self, change: impl FnOnce(&mut Validation)) -> World {
        let mut validation = validation(&self.root);
        change(&mut validation);
        self.world_with(Recursion { validation: Some(validation), ..recursion() })
    }

    pub(crate) fn world_with(&self, recursion: Recursion) -> World {
        let mut world = World::new(recursion);
        world.wall_secs = NOW_SECS;
        world.serve(1, self.root_script());
        world.serve(2, self.example_script());
        world
    }

    /// Returns the replies of the root server.
    pub(crate) fn root_script(&self) -> Script {
        let mut down = vec!["au example. 300 NS ns.example.".to_owned()];
        down.extend(self.delegation.iter().cloned());
        down.push("ad ns.example. 300 A 192.0.2.2".to_owned());
        let root_keys = lines(&[self.root.sign("an", &self.root.dnskey())]);
        served(".", &[("*example. A", &down), (". DNSKEY", &root_keys)])
    }

    /// Returns the replies of the server of example.
    pub(crate) fn example_script(&self) -> Script {
        let keys = lines(&[self.example.sign("an", &self.example.dnskey())]);
        let answers: &[(&str, &[String])] = &[
            ("example. DNSKEY", &keys),
            ("www.example. A", &self.www),
            ("nothing.example. A", &self.nothing),
        ];
        served("example.", answers)
    }
}

/// Returns a server like [`authority`], from owned lines. Names that begin with the label `nothing`
/// get NXDOMAIN.
pub(crate) fn served(zone: &str, answers: &[(&str, &[String])]) -> Script {
    let borrowed: Vec<(&str, Vec<&str>)> = answers
        .iter()
        .map(|(question, lines)| (*question, lines.iter().map(String::as_str).collect()))
        .collect();
    let borrowed: Vec<(&str, &[&str])> =
        borrowed.iter().map(|(question, lines)| (*question, &lines[..])).collect();
    let mut script = authority(zone, &borrowed);
    let zone = zone.to_owned();
    Box::new(move |query| {
        let response = script(query)?;
        Some(if zone != "." && query.qname.starts_with("nothing.") {
            response.rcode(Rcode::NXDOMAIN)
        } else {
            response
        })
    })
}

#[test]
fn a_signed_answer_is_secure_and_stays_so_in_the_cache() {
    let mut world = Setup::new().world(|_| {});
    let answer = world.resolve("www.example. A");
    answer.check(Rcode::NOERROR, &["answer www.example. 300 A 198.51.100.1"]);
    assert!(answer.authentic);
    let sent = world.take_sent();
    assert_eq!(
        sent,
        ["1: www.example. A", "2: example. DNSKEY", "2: www.example. A", "1: . DNSKEY"]
    );
    world.dnssec_ok = true;
    let answer = world.resolve("www.example. A");
    assert!(answer.authentic);
    assert_eq!((answer.records.len(), world.take_sent().len()), (2, 0), "with its signature");
}

#[test]
fn a_denial_with_its_proof_is_secure() {
    let mut world = Setup::new().world(|_| {});
    let answer = world.resolve("nothing.example. A");
    assert_eq!((answer.rcode, answer.ede, answer.authentic), (Rcode::NXDOMAIN, None, true));
}

#[track_caller]
fn check_bogus(setup: &Setup, what: &str, ede: u16) {
    let mut world = setup.world(|_| {});
    let answer = world.resolve(what);
    assert_eq!((answer.rcode, answer.ede, answer.authentic), (Rcode::SERVFAIL, Some(ede), false));
    assert!(answer.records.is_empty());
    assert!(world.take_sent().len() <= 12);
    world.checking_disabled = true;
    let answer = world.resolve(what);
    assert_ne!(answer.rcode, Rcode::SERVFAIL, "whoever validates himself gets it");
    assert!(!answer.authentic);
    world.checking_disabled = false;
    world.pass(3_600);
    world.wall_secs = NOW_SECS;
    assert_eq!(world.resolve(what).rcode, Rcode::SERVFAIL, "and nobody else does");
}

#[test]
fn forged_data_is_bogus() {
    let mut setup = Setup::new();
    setup.www[0] = setup.www[0].replace("198.51.100.1", "203.0.113.66");
    check_bogus(&setup, "www.example. A", 6);
}

#[test]
fn an_answer_without_its_signature_is_bogus() {
    let mut setup = Setup::new();
    setup.www.truncate(1);
    check_bogus(&setup, "www.example. A", 10);
}

#[test]
fn an_expired_signature_is_bogus() {
    let mut setup = Setup::new();
    setup.example.expires_at_secs = NOW_SECS - 7_200;
    setup.www = lines(&[setup.example.sign("an", "www.example. 300 A 198.51.100.1")]);
    setup.example.expires_at_secs = NOW_SECS + 86_400;
    check_bogus(&setup, "www.example. A", 7);
}

#[test]
fn a_shortened_name_that_is_proven_not_to_exist_denies_what_is_below_it() {
    let setup = Setup::new();
    let validation = Some(validation(&setup.root));
    let mut world =
        setup.world_with(Recursion { validation, qname_minimisation: true, ..recursion() });
    let answer = world.resolve("a.nothing.example. A");
    assert_eq!((answer.rcode, answer.authentic), (Rcode::NXDOMAIN, true));
    assert!(
        !world.take_sent().iter().any(|sent| sent.contains("a.nothing.example.")),
        "nobody learns the whole name"
    );
}

/// Returns a world where alias.example. leads to www.example., with these records after the alias
/// in the reply.
fn world_with_alias(setup: &Setup, behind: &[String]) -> World {
    let mut world = setup.world(|_| {});
    let mut alias = lines(&[setup.example.sign("an", "alias.example. 300 CNAME www.example.")]);
    alias.extend_from_slice(behind);
    let keys = lines(&[setup.example.sign("an", &setup.example.dnskey())]);
    let answers: &[(&str, &[String])] =
        &[("example. DNSKEY", &keys), ("www.example. A", &setup.www), ("alias.example. A", &alias)];
    world.serve(2, served("example.", answers));
    world
}

const BEHIND_ALIAS: [&str; 2] =
    ["answer alias.example. 300 CNAME www.example.", "answer www.example. 300 A 198.51.100.1"];

#[test]
fn what_stands_behind_an_alias_of_a_signed_zone_is_used_if_it_verifies() {
    let setup = Setup::new();
    let mut world = world_with_alias(&setup, &setup.www);
    let answer = world.resolve("alias.example. A");
    answer.check(Rcode::NOERROR, &BEHIND_ALIAS);
    assert!(answer.authentic);
    let sent = world.take_sent();
    assert_eq!(
        sent,
        ["1: alias.example. A", "2: example. DNSKEY", "2: alias.example. A", "1: . DNSKEY"]
    );
    assert!(world.resolve("www.example. A").authentic);
    assert_eq!(world.take_sent(), Vec::<String>::new());
}

#[test]
fn what_stands_behind_an_alias_and_does_not_verify_is_asked_for() {
    let setup = Setup::new();
    let mut forged = setup.www.clone();
    forged[0] = forged[0].replace("198.51.100.1", "203.0.113.66");
    for behind in [&forged[..1], &forged, &setup.nothing] {
        let mut world = world_with_alias(&setup, behind);
        let answer = world.resolve("alias.example. A");
        answer.check(Rcode::NOERROR, &BEHIND_ALIAS);
        assert!(answer.authentic);
        assert!(world.take_sent().contains(&"2: www.example. A".to_owned()));
        // A client that sets CD gets the same data, although it is not validated.
        let mut world = world_with_alias(&setup, behind);
        world.checking_disabled = true;
        world.resolve("alias.example. A").check(Rcode::NOERROR, &BEHIND_ALIAS);
    }
}

/// The server of example. also serves the zone child.example., and denies DS records at its apex
/// from the side of this zone.
#[test]
fn a_denial_of_ds_records_behind_an_alias_is_used_unless_it_comes_from_the_child() {
    let setup = Setup::new();
    let (example, child) = (&setup.example, Zone::new("child.example."));
    let soa = |zone: &str| format!("{zone} 300 SOA ns.example. host.example. 1 2 3 4 300");
    let to_www = lines(&[
        example.sign("an", "alias.example. 300 CNAME www.example."),
        example.sign("au", &soa("example.")),
        example.sign("au", "www.example. 300 NSEC x.example. A RRSIG NSEC"),
    ]);
    let to_child = lines(&[
        example.sign("an", "other.example. 300 CNAME child.example."),
        child.sign("au", &soa("child.example.")),
        child.sign("au", "child.example. 300 NSEC a.child.example. NS SOA RRSIG NSEC DNSKEY"),
    ]);
    let keys = lines(&[example.sign("an", &example.dnskey())]);
    let ds = lines(&[example.sign("an", &child.ds())]);
    let answers: &[(&str, &[String])] = &[
        ("example. DNSKEY", &keys),
        ("www.example. A", &setup.www),
        ("alias.example. DS", &to_www),
        ("other.example. DS", &to_child),
        ("child.example. DS", &ds),
    ];
    let mut world = setup.world(|_| {});
    world.serve(2, served("example.", answers));
    world.resolve("www.example. A");
    world.take_sent();
    let answer = world.resolve("alias.example. DS");
    assert_eq!((answer.rcode, answer.authentic), (Rcode::NOERROR, true));
    assert_eq!(world.take_sent(), ["2: alias.example. DS"]);
    let mut unvalidated = setup.world_with(recursion());
    unvalidated.serve(2, served("example.", answers));
    for (mut world, validates) in [(world, true), (unvalidated, false)] {
        let answer = world.resolve("other.example. DS");
        assert_eq!((answer.rcode, answer.authentic), (Rcode::NOERROR, validates));
        assert!(answer.records.contains(&format!("answer {}", child.ds())), "{validates}");
        assert!(world.take_sent().contains(&"2: child.example. DS".to_owned()));
    }
}

#[test]
fn one_proof_serves_an_expanded_alias_and_the_denial_behind_it() {
    let setup = Setup::new();
    let mut world = setup.world(|_| {});
    let alias = setup.example.sign("an", "*.w.example. 300 CNAME nothing.example.");
    let mut answer = alias.map(|line| line.replacen("*.w", "q.w", 1)).to_vec();
    answer.extend(lines(&[
        setup.example.sign("au", "example. 300 SOA ns.example. host.example. 1 2 3 4 300"),
        setup.example.sign("au", "example. 300 NSEC *.w.example. NS SOA RRSIG NSEC DNSKEY"),
        setup.example.sign("au", "*.w.example. 300 NSEC www.example. CNAME RRSIG NSEC"),
    ]));
    let keys = lines(&[setup.example.sign("an", &setup.example.dnskey())]);
    let mut script = served("example.", &[("example. DNSKEY", &keys), ("q.w.example. A", &answer)]);
    world.serve(
        2,
        Box::new(move |query| {
            let response = script(query)?;
            Some(if query.qname.starts_with("q.") {
                response.rcode(Rcode::NXDOMAIN)
            } else {
                response
            })
        }),
    );
    world.dnssec_ok = true;
    let answer = world.resolve("q.w.example. A");
    assert_eq!((answer.rcode, answer.ede, answer.authentic), (Rcode::NXDOMAIN, None, true));
    let is_nsec = |record: &&String| record.split(' ').nth(3) == Some("NSEC");
    assert_eq!(answer.records.iter().filter(is_nsec).count(), 2, "{:?}", answer.records);
    assert_eq!(world.take_sent().len(), 4);
}

#[test]
fn a_denial_without_proof_is_bogus() {
    let mut setup = Setup::new();
    setup.nothing.truncate(2);
    check_bogus(&setup, "nothing.example. A", 12);
}

#[test]
fn a_denial_of_the_cache_that_does_not_verify_is_asked_for_again() {
    let setup = Setup::new();
    let mut world = setup.world(|_| {});
    let keys = lines(&[setup.example.sign("an", &setup.example.dnskey())]);
    let denied: &[(&str, &[String])] = &[
        ("example. DNSKEY", &keys),
        ("nothing.example. A", &setup.nothing),
        ("nothing.example. DS", &setup.nothing),
    ];
    world.serve(2, served("example.", &[("nothing.example. A", &setup.nothing[..1])]));
    world.checking_disabled = true;
    assert_eq!(world.resolve("nothing.example. A").rcode, Rcode::NXDOMAIN);
    world.checking_disabled = false;
    world.serve(2, served("example.", denied));
    let answer = world.resolve("nothing.example. A");
    assert_eq!((answer.rcode, answer.ede, answer.authentic), (Rcode::NXDOMAIN, None, true));
}

#[test]
fn keys_that_the_parent_does_not_vouch_for_are_bogus() {
    let mut setup = Setup::new();
    let other = Zone { apex: "example.", ..Zone::new("other.") };
    setup.delegation = lines(&[setup.root.sign("au", &other.ds())]);
    check_bogus(&setup, "www.example. A", 9);
}

#[test]
fn a_delegation_that_is_proven_unsigned_makes_what_is_below_insecure() {
    let mut setup = Setup::new();
    setup.delegation = lines(&[setup.root.sign("au", "example. 300 NSEC zzz. NS RRSIG NSEC")]);
    setup.www.truncate(1);
    let mut world = setup.world(|_| {});
    let answer = world.resolve("www.example. A");
    answer.check(Rcode::NOERROR, &["answer www.example. 300 A 198.51.100.1"]);
    assert!(!answer.authentic);
    assert_eq!(world.take_sent().len(), 3, "no more than the root's keys are asked for");
}

/// Returns the answer to a query for DS at child.example., an unsigned delegation, if its server
/// sends these records.
fn ds_at_an_unsigned_delegation(said: &[String]) -> Answer {
    let setup = Setup::new();
    let mut world = setup.world(|_| {});
    let keys = lines(&[setup.example.sign("an", &setup.example.dnskey())]);
    let of_www = lines(&[
        setup.example.sign("au", "example. 300 SOA ns.example. host.example. 1 2 3 4 300"),
        setup.example.sign("au", "www.example. 300 NSEC example. A RRSIG NSEC"),
    ]);
    let answers: &[(&str, &[String])] =
        &[("example. DNSKEY", &keys), ("child.example. DS", said), ("www.example. DS", &of_www)];
    world.serve(2, served("example.", answers));
    world.resolve("child.example. DS")
}

/// DS records belong to the parent zone, regardless of the data at the apex of the child (RFC 4035
/// §3.1.4.1).
#[test]
fn an_alias_in_place_of_ds_records_at_an_unsigned_delegation_is_bogus() {
    let setup = Setup::new();
    let denial = lines(&[
        setup.example.sign("au", "example. 300 SOA ns.example. host.example. 1 2 3 4 300"),
        setup.example.sign("au", "child.example. 300 NSEC example. NS RRSIG NSEC"),
    ]);
    let answer = ds_at_an_unsigned_delegation(&denial);
    assert_eq!((answer.rcode, answer.authentic), (Rcode::NOERROR, true));
    let alias = "an child.example. 300 CNAME www.example.".to_owned();
    let answer = ds_at_an_unsigned_delegation(&[&[alias][..], &denial[2..]].concat());
    assert_eq!((answer.rcode, answer.ede), (Rcode::SERVFAIL, Some(10)), "{answer:?}");
}

#[test]
fn what_data_was_not_validated_for_is_told_beside_it_from_the_cache_too() {
    let mut setup = Setup::new();
    let unknown = setup.example.ds().replacen(" 15 2 ", " 15 200 ", 1);
    setup.delegation = lines(&[setup.root.sign("au", &unknown)]);
    setup.www.truncate(1);
    setup.nothing.truncate(1);
    let mut world = setup.world(|_| {});
    let plan = Plan::new(Vec::new(), settings()).unwrap();
    let validation = Some(validation(&setup.root));
    let plan = plan.with_recursion(Recursion { validation, ..recursion() });
    for what in ["www.example. A", "nothing.example. A"] {
        let resolved = world.resolve(what);
        assert_eq!((resolved.ede, resolved.authentic), (Some(2), false), "{what}");
        world.take_sent();
        assert_eq!(world.resolve(what).ede, Some(2), "{what} of a walk that needs nobody");
        assert_eq!(world.take_sent(), Vec::<String>::new());
        let at = ReadAt { now: world.now_secs(), stale_window: 0 };
        let question = question(what);
        let wanted = Wanted {
            question: Question::new(&question).unwrap(),
            dnssec_ok: true,
            checking_disabled: false,
            translates: false,
            at,
        };
        let assembled =
            Assembler::default().assemble(&plan, &world.rrsets, &wanted, &mut Answers::default());
        let Assembled::Complete { resolved, .. } = assembled else {
            panic!("{what} is in the cache")
        };
        assert_eq!(resolved.ede.map(|(ede, _)| ede.0), Some(2), "{what}");
    }
}

#[test]
fn below_a_negative_anchor_nothing_is_validated() {
    let mut setup = Setup::new();
    setup.www[0] = setup.www[0].replace("198.51.100.1", "203.0.113.66");
    let negative = NegativeAnchor {
        name: avocet_wire::FoldedNameBuf::from_wire(&name("example.")).unwrap(),
        expires_at_secs: None,
    };
    let mut world = setup.world(|validation| validation.negative.insert(negative).unwrap());
    let answer = world.resolve("www.example. A");
    assert_eq!((answer.rcode, answer.authentic), (Rcode::NOERROR, false));
}

#[test]
fn a_negative_anchor_within_a_zone_excludes_only_the_names_below_it() {
    let mut setup = Setup::new();
    setup.www[0] = setup.www[0].replace("198.51.100.1", "203.0.113.66");
    let negative = NegativeAnchor {
        name: avocet_wire::FoldedNameBuf::from_wire(&name("www.example.")).unwrap(),
        expires_at_secs: None,
    };
    let mut world = setup.world(|validation| validation.negative.insert(negative).unwrap());
    let answer = world.resolve("www.example. A");
    assert_eq!((answer.rcode, answer.authentic), (Rcode::NOERROR, false));
    let answer = world.resolve("nothing.example. A");
    assert_eq!((answer.rcode, answer.authentic), (Rcode::NXDOMAIN, true));
}

#[test]
fn names_in_a_proven_gap_are_denied_without_asking() {
    let setup = Setup::new();
    let validation = Some(validation(&setup.root));
    let mut world =
        setup.world_with(Recursion { aggressive_nsec: true, validation, ..recursion() });
    world.resolve("nothing.example. A");
    world.take_sent();
    let answer = world.resolve("other.example. TXT");
    assert_eq!((answer.rcode, answer.authentic), (Rcode::NXDOMAIN, true));
    assert_eq!(world.take_sent(), Vec::<String>::new());
    assert_eq!(world.resolve("www.example. A").rcode, Rcode::NOERROR, "what exists is asked for");
    assert_eq!(world.take_sent(), ["2: www.example. A"]);
}

/// The kind of configuration of a zone's servers.
#[derive(Clone, Copy)]
enum By {
    Forward,
    Stub,
}

/// Returns a world with the signed root, which denies lan., and with iot.lan. at a configured
/// server, unsigned.
fn world_with_iot(by: By, validation: Validation) -> World {
    let root = Zone::new(".");
    let server = SocketAddr::from(([192, 0, 2, 8], 53));
    let (rules, stubs) = match by {
        By::Stub => {
            (Vec::new(), vec![StubZone { zone: name("iot.lan.").into(), servers: vec![server] }])
        }
        By::Forward => (vec![rule("iot.lan.", 8)], Vec::new()),
    };
    let recursion =
        Recursion { validation: Some(validation), stubs, aggressive_nsec: true, ..recursion() };
    let mut world =
        World::with_plan(7, Plan::new(rules, settings()).unwrap().with_recursion(recursion));
    world.wall_secs = NOW_SECS;
    let keys = lines(&[root.sign("an", &root.dnskey())]);
    let soa = ". 300 SOA ns.test. host.test. 1 2 3 4 300";
    let denied =
        lines(&[root.sign("au", soa), root.sign("au", ". 300 NSEC net. NS SOA RRSIG NSEC DNSKEY")]);
    let mut script =
        served(".", &[(". DNSKEY", &keys), ("*lan. A", &denied), ("*lan. DS", &denied)]);
    world.serve(
        1,
        Box::new(move |query| {
            let response = script(query)?;
            Some(if query.qname == "." { response } else { response.rcode(Rcode::NXDOMAIN) })
        }),
    );
    world.serve(
        8,
        authority("iot.lan.", &[("tv.iot.lan. A", &["an tv.iot.lan. 60 A 192.168.1.9"])]),
    );
    world
}

#[test]
fn a_private_zone_that_the_root_denies_is_not_validated() {
    let mut validation = validation(&Zone::new("."));
    validation.private = [(name("iot.lan.").into(), ())].into_iter().collect();
    let soa = "authority iot.lan. 300 SOA ns.test. host.test. 1 2 3 4 300";
    for by in [By::Forward, By::Stub] {
        let mut world = world_with_iot(by, validation.clone());
        for (what, rcode, record) in [
            ("tv.iot.lan. A", Rcode::NOERROR, "answer tv.iot.lan. 60 A 192.168.1.9"),
            ("iot.lan. A", Rcode::NOERROR, soa),
            ("gone.iot.lan. A", Rcode::NXDOMAIN, soa),
        ] {
            let answer = world.resolve(what);
            answer.check(rcode, &[record]);
            assert!(!answer.authentic);
            assert_eq!(world.take_sent(), [format!("8: {what}")], "nobody above is asked");
        }
        // The root's denial is cached now.
        assert!(world.resolve("other.lan. A").authentic);
        world.resolve("tv.iot.lan. AAAA").check(Rcode::NOERROR, &[soa]);
    }
}

#[test]
fn a_private_zone_with_a_trust_anchor_is_validated() {
    let iot = Zone::new("iot.lan.");
    let mut validation = validation(&Zone::new("."));
    let anchors = [".", "iot.lan."]
        .map(|zone| Anchor::parse(&Zone::new(zone).ds().replacen(" 300 ", " IN ", 1)).unwrap());
    validation.anchors = Anchors::of(anchors.into());
    validation.private = [(name("iot.lan.").into(), ())].into_iter().collect();
    let mut world = world_with_iot(By::Stub, validation);
    let keys = lines(&[iot.sign("an", &iot.dnskey())]);
    let tv = lines(&[iot.sign("an", "tv.iot.lan. 60 A 192.168.1.9")]);
    let forged = ["an pc.iot.lan. 60 A 192.168.1.66".to_owned()];
    world.serve(
        8,
        served(
            "iot.lan.",
            &[("iot.lan. DNSKEY", &keys), ("tv.iot.lan. A", &tv), ("pc.iot.lan. A", &forged)],
        ),
    );
    assert!(world.resolve("tv.iot.lan. A").authentic);
    assert_eq!(world.resolve("pc.iot.lan. A").rcode, Rcode::SERVFAIL);
}
