//! Chains of trust: zone cuts without a referral, aliases together with proofs, and the limits of
//! one question.

use std::cell::Cell;
use std::rc::Rc;

use avocet_dnssec::anchor::{Anchor, Anchors};
use avocet_dnssec::negative::NegativeAnchor;
use avocet_resolver::{Event, Plan, Recursion, Step};
use avocet_testkit::{Query, Response, name};
use avocet_wire::header::{AA, RA, RD};
use avocet_wire::{Rcode, Rtype};

use crate::attacks::rule;
use crate::secure::{NOW_SECS, Setup, Zone, lines, served, validation};
use crate::world::{Answer, World, authority, recursion, settings};

const TO_ATTACK: &[&str] = &["au attack. 3600 NS ns.attack.", "ad ns.attack. 3600 A 192.0.2.3"];
const SOA_DATA: &str = "ns.test. host.test. 1 2 3 4 300";

fn soa(apex: &str) -> String {
    format!("{apex} 300 SOA {SOA_DATA}")
}

/// Returns the delegation of a zone to a server at 192.0.2.x, with these further records in the
/// authority section.
fn referral(zone: &str, last: u8, beside: &[String]) -> Vec<String> {
    let mut records = vec![format!("au {zone} 300 NS ns.{zone}")];
    records.extend(beside.iter().cloned());
    records.push(format!("ad ns.{zone} 300 A 192.0.2.{last}"));
    records
}

/// Returns an RRSIG record by this signer that no key verifies.
fn forged_signature(owner: &str, signer: &str) -> String {
    format!("an {owner} 300 RRSIG A 15 2 300 20270401000000 20260101000000 1 {signer} AAAA")
}

/// Returns a world in which everything is forwarded to a server with these answers, and validated
/// with the keys of `root`.
fn forwarded_world(root: &Zone, answers: &[(&str, &[String])]) -> World {
    let plan = Plan::new(vec![rule(".", 8)], settings()).unwrap();
    let plan = plan.with_recursion(Recursion { validation: Some(validation(root)), ..recursion() });
    let mut world = World::with_plan(7, plan);
    world.wall_secs = NOW_SECS;
    world.serve(8, served(".", answers));
    world
}

/// Checks a forwarder that sends a signature by www.example., so that the DS records of this name
/// are queried. The forwarder answers that query with this unsigned alias, followed by the zone's
/// denial of DS at www.example.
#[track_caller]
fn check_alias_before_a_denial(alias: &[&str]) {
    let (root, example, evil) = (Zone::new("."), Zone::new("example."), Zone::new("evil."));
    let keys = [&root, &example, &evil].map(|zone| lines(&[zone.sign("an", &zone.dnskey())]));
    let delegations = [&example, &evil].map(|zone| lines(&[root.sign("an", &zone.ds())]));
    let forged = [
        "an www.example. 300 A 203.0.113.1".to_owned(),
        forged_signature("www.example.", "www.example."),
    ];
    let mut denied: Vec<String> = alias.iter().map(|record| (*record).to_owned()).collect();
    denied.push(format!("au {}", soa("evil.")));
    denied.extend(lines(&[example.sign("au", "www.example. 300 NSEC example. A RRSIG NSEC")]));
    let targets = ["evil.", "www.evil."]
        .map(|owner| lines(&[evil.sign("an", &format!("{owner} 300 A 203.0.113.66"))]));
    let answers: &[(&str, &[String])] = &[
        (". DNSKEY", &keys[0]),
        ("example. DNSKEY", &keys[1]),
        ("evil. DNSKEY", &keys[2]),
        ("example. DS", &delegations[0]),
        ("evil. DS", &delegations[1]),
        ("evil. A", &targets[0]),
        ("www.evil. A", &targets[1]),
        ("www.example. A", &forged),
        ("www.example. DS", &denied),
    ];
    let mut world = forwarded_world(&root, answers);
    let check = |answer: Answer| {
        assert_eq!((answer.rcode, answer.authentic), (Rcode::SERVFAIL, false), "{answer:?}");
    };
    check(world.resolve("www.example. A"));
    world.pass(61);
    check(world.resolve("www.example. A"));
}

#[test]
fn an_unsigned_alias_before_a_proof_that_there_are_no_ds_records_is_not_kept_as_secure() {
    check_alias_before_a_denial(&["an www.example. 300 CNAME evil."]);
    check_alias_before_a_denial(&[
        "an example. 300 DNAME evil.",
        "an www.example. 300 CNAME www.evil.",
    ]);
}

/// A forwarder sends an alias from one unsigned zone into another. The reply answers its question
/// without a query for the target, but does not answer other questions. Otherwise, an attacker that
/// forges the reply for one name could also forge the other name (S5 in tests/SECURITY.md).
#[test]
fn insecure_data_behind_a_forwarders_alias_answers_this_question_only() {
    let root = Zone::new(".");
    let keys = lines(&[root.sign("an", &root.dnskey())]);
    let soa = root.sign("au", &soa("."));
    let unsigned = |zone: &str, next: &str| {
        lines(&[soa.clone(), root.sign("au", &format!("{zone} 300 NSEC {next} NS RRSIG NSEC"))])
    };
    let (of_com, of_org) = (unsigned("com.", "net."), unsigned("org.", "."));
    let answer =
        ["an www.com. 300 CNAME cdn.org.", "an cdn.org. 300 A 203.0.113.66"].map(str::to_owned);
    let own = ["an cdn.org. 300 A 198.51.100.1".to_owned()];
    let answers: &[(&str, &[String])] = &[
        (". DNSKEY", &keys),
        ("com. DS", &of_com),
        ("org. DS", &of_org),
        ("www.com. A", &answer),
        ("cdn.org. A", &own),
    ];
    let mut world = forwarded_world(&root, answers);
    let both = ["answer www.com. 300 CNAME cdn.org.", "answer cdn.org. 300 A 203.0.113.66"];
    world.resolve("www.com. A").check(Rcode::NOERROR, &both);
    let sent = world.take_sent();
    assert!(!sent.iter().any(|sent| sent == "8: cdn.org. A"), "{sent:?}");
    let own = ["answer cdn.org. 300 A 198.51.100.1"];
    world.resolve("cdn.org. A").check(Rcode::NOERROR, &own);
    assert_eq!(world.take_sent(), ["8: cdn.org. A"]);
}

/// A server of com. that also serves co.com., and sends a referral to shop.co.com. There is never a
/// referral to co.com.
struct SharedServer {
    root: Zone,
    com: Zone,
    /// The answers to queries for DS records at co.com. and shop.co.com.
    co_ds: Vec<String>,
    shop_ds: Vec<String>,
    /// The records that accompany the delegation of shop.co.com.
    beside: Vec<String>,
}

impl SharedServer {
    fn new() -> Self {
        let (root, com) = (Zone::new("."), Zone::new("com."));
        let co_ds = lines(&[
            com.sign("au", &soa("com.")),
            com.sign("au", "co.com. 300 NSEC com. NS RRSIG NSEC"),
        ]);
        Self {
            root,
            com,
            co_ds,
            shop_ds: vec![format!("au {}", soa("co.com."))],
            beside: Vec::new(),
        }
    }

    fn world(&self, change: Recursion) -> World {
        let mut world =
            World::new(Recursion { validation: Some(validation(&self.root)), ..change });
        world.wall_secs = NOW_SECS;
        let to_com = referral("com.", 2, &lines(&[self.root.sign("au", &self.com.ds())]));
        let root_keys = lines(&[self.root.sign("an", &self.root.dnskey())]);
        world.serve(1, served(".", &[(". DNSKEY", &root_keys), ("*com. A", &to_com)]));
        let com_keys = lines(&[self.com.sign("an", &self.com.dnskey())]);
        let (to_shop, to_mall) =
            (referral("shop.co.com.", 3, &self.beside), referral("mall.co.com.", 3, &[]));
        let denied = [format!("au {}", soa("co.com."))];
        let answers: &[(&str, &[String])] = &[
            ("com. DNSKEY", &com_keys),
            ("co.com. DS", &self.co_ds),
            ("co.com. A", &denied),
            ("shop.co.com. DS", &self.shop_ds),
            ("mall.co.com. DS", &denied),
            ("*shop.co.com. A", &to_shop),
            ("*mall.co.com. A", &to_mall),
        ];
        world.serve(2, served("com.", answers));
        let shop: &[(&str, &[&str])] = &[
            ("www.shop.co.com. A", &["an www.shop.co.com. 300 A 198.51.100.3"]),
            ("www.mall.co.com. A", &["an www.mall.co.com. 300 A 198.51.100.4"]),
        ];
        world.serve(3, authority("shop.co.com.", shop));
        world
    }

    #[track_caller]
    fn check(&self) {
        for qname_minimisation in [true, false] {
            let mut world = self.world(Recursion { qname_minimisation, ..recursion() });
            let answer = world.resolve("www.shop.co.com. A");
            answer.check(Rcode::NOERROR, &["answer www.shop.co.com. 300 A 198.51.100.3"]);
            assert!(!answer.authentic);
        }
    }
}

#[test]
fn names_below_an_unsigned_zone_on_the_servers_of_its_signed_parent_are_found() {
    let server = SharedServer::new();
    server.check();
    let mut world = server.world(recursion());
    world.resolve("www.shop.co.com. A");
    let down = [
        "1: www.shop.co.com. A",
        "2: com. DNSKEY",
        "2: www.shop.co.com. A",
        "3: www.shop.co.com. A",
    ];
    assert_eq!(
        world.take_sent(),
        [&down[..], &["1: . DNSKEY", "2: shop.co.com. DS", "2: co.com. DS"]].concat()
    );
    world.resolve("www.mall.co.com. A");
    assert_eq!(
        world.take_sent(),
        ["2: www.mall.co.com. A", "3: www.mall.co.com. A"],
        "the cut is known now"
    );
}

#[test]
fn a_cut_that_no_referral_shows_is_found_without_a_hint() {
    // The DS records are unsigned, as they may be in a zone that was signed before.
    let shop = Zone::new("shop.co.com.");
    let unsigned = format!("an {}", shop.ds());
    SharedServer {
        shop_ds: vec![unsigned.clone()],
        beside: vec![unsigned.replacen("an", "au", 1)],
        ..SharedServer::new()
    }
    .check();
}

#[test]
fn below_a_signed_zone_without_ds_records_on_the_servers_of_its_parent_names_are_insecure() {
    let (co, shop) = (Zone::new("co.com."), Zone::new("shop.co.com."));
    let no_ds = [
        co.sign("au", &soa("co.com.")),
        co.sign("au", "shop.co.com. 300 NSEC co.com. NS RRSIG NSEC"),
    ];
    let (no_ds, beside) = (lines(&no_ds), lines(&[co.sign("au", &shop.ds())]));
    SharedServer { shop_ds: no_ds.clone(), ..SharedServer::new() }.check();
    SharedServer {
        shop_ds: no_ds[2..].to_vec(),
        beside: no_ds[2..].to_vec(),
        ..SharedServer::new()
    }
    .check();
    SharedServer { shop_ds: lines(&[co.sign("an", &shop.ds())]), beside, ..SharedServer::new() }
        .check();
}

#[test]
fn a_denial_of_ds_without_proof_stays_bogus_where_no_zone_lies_between() {
    let server = SharedServer::new();
    let com = &server.com;
    let soa_of_com = com.sign("au", &soa("com."));
    // co.com. exists only as part of longer names.
    let no_cut = lines(&[
        soa_of_com.clone(),
        com.sign("au", "com. 300 NSEC shop.co.com. NS SOA RRSIG NSEC DNSKEY"),
    ]);
    for shop_ds in [server.shop_ds.clone(), soa_of_com[..1].to_vec()] {
        let server = SharedServer { co_ds: no_cut.clone(), shop_ds, ..SharedServer::new() };
        let mut world = server.world(recursion());
        let answer = world.resolve("www.shop.co.com. A");
        assert_eq!((answer.rcode, answer.ede), (Rcode::SERVFAIL, Some(12)), "{answer:?}");
        assert!(world.take_sent().len() <= 9);
    }
}

/// Number of aliases of [`world_with_costly_aliases`].
const COSTLY_ALIASES: usize = 5;

/// Returns a world where the zone example. is signed and its delegation is cached, but not its
/// keys. Aliases below attack., where nothing is validated and all queries are repeated over TCP,
/// lead to a name below example. This name has this number of labels more than its zone.
fn world_with_costly_aliases(labels: usize) -> (World, String) {
    let setup = Setup::new();
    let mut validation = validation(&setup.root);
    let negative = NegativeAnchor {
        name: avocet_wire::FoldedNameBuf::from_wire(&name("attack.")).unwrap(),
        expires_at_secs: None,
    };
    validation.negative.insert(negative).unwrap();
    let mut world = setup.world_with(Recursion {
        qname_minimisation: true,
        validation: Some(validation),
        ..recursion()
    });
    let (mut root, mut attack) =
        (setup.root_script(), authority(".", &[("*attack. A", TO_ATTACK)]));
    world.serve(
        1,
        Box::new(
            move |query| if query.qname.ends_with("attack.") { attack(query) } else { root(query) },
        ),
    );
    let hop =
        |number: usize, labels: usize| format!("{}attack.", format!("l{number}.").repeat(labels));
    let mut hops: Vec<String> = (1..COSTLY_ALIASES).map(|number| hop(number, 10)).collect();
    let target = format!("{}example.", "l.".repeat(labels));
    hops.extend([hop(COSTLY_ALIASES, 7), target.clone()]);
    let first = format!("{} A", hops[0]);
    let alias = move |query: &Query| {
        let next = hops.iter().position(|hop| *hop == query.qname).and_then(|at| hops.get(at + 1));
        let response = Response::to(query).without_flags(RA | RD).flags(AA);
        Some(match next {
            _ if !query.over_tcp => response.truncated(),
            Some(next) => response.answer(&format!("{} 0 CNAME {next}", query.qname)),
            None => response.authority(&soa("attack.")),
        })
    };
    world.serve(3, Box::new(alias));
    let mut example = setup.example_script();
    let below = move |query: &Query| match target.ends_with(&query.qname) {
        true if query.qname != "example." => {
            let response = Response::to(query).without_flags(RA | RD).flags(AA);
            // Of more than ten labels, only some cost a query.
            let is_cut = labels > 10 && query.qname == "l.example." && !query.over_tcp;
            Some(if is_cut { response.truncated() } else { response.authority(&soa("example.")) })
        }
        _ => example(query),
    };
    world.serve(2, Box::new(below));
    world.checking_disabled = true;
    assert_eq!(world.resolve("www.example. A").rcode, Rcode::NOERROR);
    world.checking_disabled = false;
    world.take_sent();
    (world, first)
}

#[test]
fn a_question_that_reaches_its_limit_leaves_the_chains_of_other_zones_whole() {
    let mut reached = 0;
    for labels in 9..=11 {
        let (mut world, question) = world_with_costly_aliases(labels);
        let is_answered = world.resolve(&question).rcode == Rcode::NOERROR;
        let sent = world.take_sent();
        let is_reached = !is_answered && sent.len() == 64 + 8 * COSTLY_ALIASES;
        reached += usize::from(is_reached);
        if is_reached {
            let text = "too many queries needed for one question";
            let kept = world.kept();
            let last = kept.last().and_then(|trace| trace.events().last());
            assert!(
                matches!(last, Some(Event { step: Step::Failed { text: told, .. }, .. }) if *told == text),
                "{last:?}"
            );
        }
        assert!(world.resolve("nothing.example. A").authentic, "{labels} labels");
    }
    assert!(
        reached == 3,
        "the limit was reached at keys of the root, DS records and keys of the zone"
    );
}

#[test]
fn a_lack_of_sockets_leaves_the_chain_of_a_zone_whole() {
    let setup = Setup::new();
    let mut world = setup.world(|_| {});
    world.checking_disabled = true;
    assert_eq!(world.resolve("www.example. A").rcode, Rcode::NOERROR);
    world.checking_disabled = false;
    world.short_of = 1_000;
    assert_eq!(world.resolve("www.example. A").rcode, Rcode::SERVFAIL);
    world.short_of = 0;
    assert!(world.resolve("nothing.example. A").authentic);
}

/// Returns a world that also has an anchor for sub.example., a zone that no longer exists: example.
/// sends this denial of the name.
fn world_with_an_anchor_for_a_zone_that_is_gone(denial: &[String]) -> World {
    let setup = Setup::new();
    let anchor = Zone::new("sub.example.").ds().replacen(" 300 ", " IN ", 1);
    let mut world = setup.world(|validation| {
        let of_root = validation.anchors.iter().cloned();
        validation.anchors =
            Anchors::of(of_root.chain([Anchor::parse(&anchor).unwrap()]).collect());
    });
    let mut known = setup.example_script();
    let denial = denial.to_vec();
    let script = move |query: &Query| {
        if !query.qname.ends_with("sub.example.") {
            return known(query);
        }
        let response = Response::to(query).without_flags(RA | RD).flags(AA).rcode(Rcode::NXDOMAIN);
        let add =
            |response: Response, line: &String| response.authority(line.split_once(' ').unwrap().1);
        Some(denial.iter().fold(response, add))
    };
    world.serve(2, Box::new(script));
    world
}

#[test]
fn an_anchor_for_a_zone_that_is_gone_gives_way_to_the_proof_of_the_zone_above() {
    let setup = Setup::new();
    let mut world = world_with_an_anchor_for_a_zone_that_is_gone(&setup.nothing);
    let answer = world.resolve("www.sub.example. A");
    assert_eq!((answer.rcode, answer.authentic), (Rcode::NXDOMAIN, true), "{answer:?}");
    world.take_sent();
    assert!(world.resolve("mail.sub.example. A").authentic);
    assert_eq!(world.take_sent(), Vec::<String>::new(), "the denial is kept");
    // Without the proof, the anchor stays in use.
    let mut world = world_with_an_anchor_for_a_zone_that_is_gone(&setup.nothing[..2]);
    assert_eq!(world.resolve("www.sub.example. A").rcode, Rcode::SERVFAIL);
}

/// The parent of child.example. denies its DS records with more NSEC3 iterations than the resolver
/// computes. The denial is valid for a minute.
#[test]
fn an_insecure_verdict_ends_with_the_records_that_it_rests_on() {
    let setup = Setup::new();
    let (example, child) = (&setup.example, Zone::new("child.example."));
    let mut world = setup.world(|_| {});
    let mut to_example = setup.root_script();
    let to_other = lines(&[setup.root.sign("au", "other. 3000 NSEC zzz. NS RRSIG NSEC")]);
    let mut to_other = served(".", &[("*other. A", &referral("other.", 4, &to_other))]);
    let root = move |query: &Query| {
        if query.qname.ends_with("other.") { to_other(query) } else { to_example(query) }
    };
    world.serve(1, Box::new(root));
    world.serve(
        4,
        authority("other.", &[("www.other. A", &["an www.other. 30 CNAME www.child.example."])]),
    );
    let keys = lines(&[example.sign("an", &example.dnskey())]);
    let nsec3 = "0p9mhaveqvm6t7vbl5lop2u3t2rp3tom.example. 60 NSEC3 1 0 150 - \
                 2t7b4g4vsa5smi47k61mv5bv1a22bojr NS";
    let soa = example.sign("au", "example. 60 SOA ns.example. host.example. 1 2 3 4 60");
    let denial = lines(&[soa, example.sign("au", nsec3)]);
    let down = referral("child.example.", 3, &[]);
    let answers: &[(&str, &[String])] =
        &[("example. DNSKEY", &keys), ("child.example. DS", &denial), ("*child.example. A", &down)];
    world.serve(2, served("example.", answers));
    let (keys_of_child, address) = (
        lines(&[child.sign("an", &child.dnskey())]),
        lines(&[child.sign("an", "www.child.example. 30 A 198.51.100.8")]),
    );
    let of_child: &[(&str, &[String])] =
        &[("child.example. DNSKEY", &keys_of_child), ("www.child.example. A", &address)];
    world.serve(3, served("child.example.", of_child));
    let answer = world.resolve("www.other. A");
    assert_eq!((answer.rcode, answer.authentic), (Rcode::NOERROR, false), "{answer:?}");
    // Now the zone has DS records.
    let ds = lines(&[example.sign("an", &child.ds())]);
    let answers = [answers[0], ("child.example. DS", &ds[..]), answers[2]];
    world.serve(2, served("example.", &answers));
    world.pass(61);
    assert!(world.resolve("www.child.example. A").authentic);
}

/// Returns a world with two servers of example., which has the wildcard alias *.wild.example. The
/// first reply with the alias has no signatures.
fn world_with_a_wildcard_alias() -> World {
    let setup = Setup::new();
    let mut world = setup.world(|_| {});
    let example = &setup.example;
    let expanded: Vec<String> =
        lines(&[example.sign("an", "*.wild.example. 300 CNAME www.example.")])
            .iter()
            .map(|line| line.replacen("*.wild", "a.wild", 1))
            .collect();
    let proof =
        lines(&[example.sign("au", "*.wild.example. 300 NSEC www.example. CNAME RRSIG NSEC")]);
    let alias = [expanded, proof].concat();
    let above = lines(&[
        example.sign("au", &soa("example.")),
        example.sign("au", "example. 300 NSEC *.wild.example. NS SOA RRSIG NSEC DNSKEY"),
    ]);
    let keys = lines(&[example.sign("an", &example.dnskey())]);
    let answers: &[(&str, &[String])] = &[
        ("example. DNSKEY", &keys),
        ("www.example. A", &setup.www),
        ("wild.example. A", &above),
        ("wild.example. DS", &above),
        ("a.wild.example. A", &alias),
        ("a.wild.example. DS", &alias),
    ];
    let (is_first, alias) = (Rc::new(Cell::new(true)), alias[..1].to_vec());
    for server in [2, 3] {
        let mut signed = served("example.", answers);
        let mut unsigned = served("example.", &[("a.wild.example. A", &alias)]);
        let is_first = is_first.clone();
        let script = move |query: &Query| {
            let is_alias = query.qname == "a.wild.example." && query.qtype == Rtype::A;
            if is_alias && is_first.take() { unsigned(query) } else { signed(query) }
        };
        world.serve(server, Box::new(script));
    }
    let down = [
        &[
            "au example. 300 NS ns.example.".to_owned(),
            "au example. 300 NS ns2.example.".to_owned(),
        ][..],
        &lines(&[setup.root.sign("au", &example.ds())]),
        &[
            "ad ns.example. 300 A 192.0.2.2".to_owned(),
            "ad ns2.example. 300 A 192.0.2.3".to_owned(),
        ],
    ]
    .concat();
    let root_keys = lines(&[setup.root.sign("an", &setup.root.dnskey())]);
    world.serve(1, served(".", &[("*example. A", &down), (". DNSKEY", &root_keys)]));
    world
}

/// A wildcard does not apply at or below a zone cut (RFC 1034 §4.3.3).
#[test]
fn an_alias_by_a_wildcard_shows_that_no_zone_begins_at_its_name() {
    let mut world = world_with_a_wildcard_alias();
    let answer = world.resolve("a.wild.example. A");
    answer.check(
        Rcode::NOERROR,
        &[
            "answer a.wild.example. 300 CNAME www.example.",
            "answer www.example. 300 A 198.51.100.1",
        ],
    );
    assert!(answer.authentic);
    let sent = world.take_sent();
    let asked_for_ds = sent.iter().filter(|query| query.ends_with(" a.wild.example. DS")).count();
    assert!(asked_for_ds <= 2, "once for each answer at most: {sent:?}");
}

/// A forwarder finds the servers of the parent zone itself, so no query for an ancestor is needed.
#[test]
fn a_forwarder_that_gives_an_alias_for_ds_records_is_not_asked_label_by_label() {
    let root = Zone::new(".");
    let keys = lines(&[root.sign("an", &root.dnskey())]);
    let alias = lines(&[root.sign("an", "alias.a.b. 300 CNAME www.a.b.")]);
    let denied = lines(&[
        root.sign("au", &soa(".")),
        root.sign("au", "www.a.b. 300 NSEC z.b. A RRSIG NSEC"),
    ]);
    let answers: &[(&str, &[String])] =
        &[(". DNSKEY", &keys), ("alias.a.b. DS", &alias), ("www.a.b. DS", &denied)];
    let mut world = forwarded_world(&root, answers);
    let answer = world.resolve("alias.a.b. DS");
    answer.check(
        Rcode::NOERROR,
        &["answer alias.a.b. 300 CNAME www.a.b.", &format!("authority {}", soa("."))],
    );
    assert!(answer.authentic);
    assert_eq!(world.take_sent(), ["8: alias.a.b. DS", "8: . DNSKEY", "8: www.a.b. DS"]);
}

/// Without this, a slow forwarder would take two round trips for each zone of a chain, and deep
/// chains would exceed the time of a question.
#[test]
fn a_forwarder_is_asked_for_the_keys_of_a_signer_along_with_its_ds_records() {
    let (root, test, below) = (Zone::new("."), Zone::new("test."), Zone::new("below.test."));
    let keys = [&root, &test, &below].map(|zone| lines(&[zone.sign("an", &zone.dnskey())]));
    let delegations =
        [lines(&[root.sign("an", &test.ds())]), lines(&[test.sign("an", &below.ds())])];
    let www = lines(&[below.sign("an", "www.below.test. 300 A 198.51.100.1")]);
    let answers: &[(&str, &[String])] = &[
        (". DNSKEY", &keys[0]),
        ("test. DNSKEY", &keys[1]),
        ("below.test. DNSKEY", &keys[2]),
        ("test. DS", &delegations[0]),
        ("below.test. DS", &delegations[1]),
        ("www.below.test. A", &www),
    ];
    let mut world = forwarded_world(&root, answers);
    world.slow.insert([192, 0, 2, 8].into(), 500);
    let answer = world.resolve("www.below.test. A");
    assert!(answer.rcode == Rcode::NOERROR && answer.authentic, "{answer:?}");
    let round_trips = answer.took_ms / 500;
    assert_eq!(round_trips, 4, "the answer, the root's keys, and one for each zone");
    let mut sent = world.take_sent();
    sent.sort_unstable();
    sent.dedup();
    assert_eq!(sent.len(), answers.len(), "{sent:?}");
}

/// Data that must not be cached still serves the question that fetched it: each query is sent only
/// once, although all TTLs are 0.
#[test]
fn the_end_of_a_chain_is_looked_for_once_by_a_question() {
    let root = Zone::new(".");
    let signed = |owner: &str, rtype: &str| {
        format!("an {owner} 0 RRSIG {rtype} 15 4 0 20270401000000 20260101000000 1 cc.aw.ao. AAAA")
    };
    let keys = lines(&[root.sign("an", &root.dnskey())]);
    let alias =
        ["an alias.cc.aw.ao. 0 CNAME www.cc.aw.ao.".to_owned(), signed("alias.cc.aw.ao.", "CNAME")];
    let www = ["an www.cc.aw.ao. 0 A 198.51.100.1".to_owned(), signed("www.cc.aw.ao.", "A")];
    let of = |apex: &str| [format!("au {apex} 0 SOA {SOA_DATA}")];
    let (of_aw, of_ao) = (of("aw.ao."), of("ao."));
    let no_ds = lines(&[
        root.sign("au", &format!(". 0 SOA {SOA_DATA}")),
        root.sign("au", "ao. 0 NSEC z. NS RRSIG NSEC"),
    ]);
    let answers: &[(&str, &[String])] = &[
        (". DNSKEY", &keys),
        ("alias.cc.aw.ao. A", &alias),
        ("www.cc.aw.ao. A", &www),
        ("cc.aw.ao. DS", &of_aw),
        ("aw.ao. DS", &of_ao),
        ("ao. DS", &no_ds),
    ];
    let mut world = forwarded_world(&root, answers);
    let answer = world.resolve("alias.cc.aw.ao. A");
    assert_eq!(
        (answer.rcode, answer.authentic, answer.records.len()),
        (Rcode::NOERROR, false, 2),
        "{answer:?}"
    );
    let mut sent = world.take_sent();
    let count = sent.len();
    sent.sort();
    assert_eq!(sent.len(), count, "none twice: {sent:?}");
}

#[test]
fn a_signed_zone_resolves_if_its_servers_reject_or_drop_cookies() {
    const REACTIONS: [Option<Rcode>; 6] = [
        Some(Rcode::FORMERR),
        Some(Rcode::NOTIMP),
        Some(Rcode::BADVERS),
        Some(Rcode::SERVFAIL),
        Some(Rcode::REFUSED),
        None,
    ];
    for reaction in REACTIONS {
        let setup = Setup::new();
        let mut world = setup.world(|_| {});
        let mut known = setup.example_script();
        let script = move |query: &Query| match (&query.cookie, reaction) {
            (None, _) => known(query),
            (Some(_), Some(rcode)) => Some(Response::to(query).flags(AA).rcode(rcode)),
            (Some(_), None) => None,
        };
        world.serve(2, Box::new(script));
        let answer = world.resolve("www.example. A");
        assert_eq!((answer.rcode, answer.authentic), (Rcode::NOERROR, true), "{reaction:?}");
        // From now on, the server is known.
        world.take_sent();
        if matches!(reaction, Some(Rcode::FORMERR | Rcode::NOTIMP | Rcode::BADVERS)) {
            assert!(world.resolve("nothing.example. A").authentic, "{reaction:?}");
            assert_eq!(world.take_sent().len(), 1, "{reaction:?}");
        }
    }
}
