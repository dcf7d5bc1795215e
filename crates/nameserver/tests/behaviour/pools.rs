//! Pools in the query path: their place among the stages, and what the workers see of a change.

use crate::asked;

use std::fs;

use asked::{ask, wire};
use avocet_nameserver::InProcess;
use avocet_wire::builder::OptFields;
use avocet_wire::view::RecordSection;
use avocet_wire::{Builder, Class, MessageView, Rcode, Rtype};
use avocet_zone::pool::{HealthState, MemberControl, PoolMasks};

const CLIENT: [u8; 4] = [10, 0, 0, 1];
const FORWARD: &str = "[[forward]]\nzone = \".\"\nupstreams = [\"192.0.2.53\"]\n";
const POOL: &str = "[[pool]]\nname = \"www.corp.example\"\naddresses = [\"192.0.2.1\", \
                    \"192.0.2.2\", \"fd00::1\"]\nprobe = \"icmp\"\nmode = \"first\"\n";

fn server(rest: &str) -> InProcess {
    InProcess::new(&format!("{FORWARD}{POOL}{rest}"), (CLIENT, 4000).into()).unwrap()
}

/// Publishes the health of the addresses: `+` is up.
fn publish(server: &InProcess, health: &str) {
    let states = health.chars().map(|letter| {
        let state = if letter == '+' { HealthState::Up } else { HealthState::Down };
        (state, MemberControl::Auto)
    });
    let masks = PoolMasks::of(states);
    server.state().names.pools.get(&wire("www.corp.example.")).unwrap().publish(masks);
}

#[track_caller]
fn check(server: &mut InProcess, name: &str, rtype: Rtype, expected: &str) {
    assert_eq!(ask(server, CLIENT, name, rtype), expected, "{name} {rtype}");
}

#[test]
fn a_change_of_health_is_in_the_next_answer() {
    let mut server = server("");
    let name = "www.corp.example.";
    check(&mut server, name, Rtype::A, "NOERROR 30 192.0.2.1");
    check(&mut server, name, Rtype::AAAA, "NOERROR 30 fd00::1");
    publish(&server, "-++");
    check(&mut server, name, Rtype::A, "NOERROR 30 192.0.2.2");
    check(&mut server, name, Rtype::AAAA, "NOERROR 30 fd00::1");
    // All addresses of a family are down, so `when-all-down` decides.
    publish(&server, "--+");
    check(&mut server, name, Rtype::A, "NOERROR 30 192.0.2.1");
    check(&mut server, name, Rtype::TXT, "NOERROR");
    check(&mut server, name, Rtype::ANY, "NOERROR 30 192.0.2.1");
    let pool = server.ended_by_stage().into_iter().find(|(stage, _)| *stage == "pool");
    assert_eq!(pool.map(|(_, count)| count), Some(7));
    assert!(server.kept().is_empty(), "no answer of a pool is in the packet cache");
}

#[test]
fn aliases_lead_to_pools() {
    let alias = "[[record]]\nname = \"alias.lan\"\ntype = \"CNAME\"\nvalues = \
                 [\"www.corp.example.\"]\n[[record]]\nname = \"*.corp.example\"\ntype = \"A\"\n\
                 values = [\"10.0.0.9\"]\n";
    let mut server = server(alias);
    let expected = "NOERROR 300 www.corp.example. 30 192.0.2.1";
    check(&mut server, "alias.lan.", Rtype::A, expected);
    publish(&server, "-++");
    check(&mut server, "alias.lan.", Rtype::A, "NOERROR 300 www.corp.example. 30 192.0.2.2");
    check(&mut server, "other.corp.example.", Rtype::A, "NOERROR 300 10.0.0.9");
}

#[test]
fn a_pool_in_a_hosted_zone_has_the_other_types_of_the_zone() {
    let file = std::env::temp_dir().join(format!("avocet-pools-{}", std::process::id()));
    let zone = "$TTL 300\n@ SOA ns host 7 2h 3m 4w 60\n@ NS ns\nns A 192.0.2.9\nwww A 192.0.2.8\n\
                www TXT hello\nalias CNAME www\nfar CNAME api\n";
    fs::write(&file, zone).unwrap();
    let api = "[[pool]]\nname = \"api.corp.example\"\naddresses = [\"192.0.2.7\"]\nprobe = \
               \"icmp\"\n";
    let mut server = server(&format!("{api}[[zone]]\nname = \"corp.example\"\nfile = {file:?}\n"));
    fs::remove_file(&file).unwrap();
    check(&mut server, "www.corp.example.", Rtype::A, "NOERROR 30 192.0.2.1");
    check(&mut server, "www.corp.example.", Rtype::TXT, "NOERROR 300 \"hello\"");
    check(&mut server, "api.corp.example.", Rtype::TXT, "NOERROR");
    check(&mut server, "far.corp.example.", Rtype::A, "NOERROR 300 api.corp.example. 30 192.0.2.7");
    let alias = "NOERROR 300 www.corp.example. 30 192.0.2.1";
    check(&mut server, "alias.corp.example.", Rtype::A, alias);
    check(&mut server, "ns.corp.example.", Rtype::A, "NOERROR 300 192.0.2.9");
}

#[test]
fn an_alias_of_the_zone_precedes_a_pool_for_every_type() {
    let file = std::env::temp_dir().join(format!("avocet-aliases-{}", std::process::id()));
    let zone = "$TTL 300\n@ SOA ns host 7 2h 3m 4w 60\n@ NS ns\nns A 192.0.2.9\nns TXT hello\nwww \
                CNAME ns\nalias CNAME www\nd DNAME w\nx.w A 192.0.2.10\n*.any CNAME ns\n";
    fs::write(&file, zone).unwrap();
    let pool = |name: &str| {
        format!("[[pool]]\nname = \"{name}\"\naddresses = [\"192.0.2.7\"]\nprobe = \"icmp\"\n")
    };
    let pools = ["x.d.corp.example", "x.any.corp.example"].map(pool).concat();
    let mut server =
        server(&format!("{pools}[[zone]]\nname = \"corp.example\"\nfile = {file:?}\n"));
    fs::remove_file(&file).unwrap();
    let alias = "NOERROR 300 ns.corp.example.";
    let name = "www.corp.example.";
    check(&mut server, name, Rtype::A, &format!("{alias} 300 192.0.2.9"));
    check(&mut server, name, Rtype::AAAA, alias);
    check(&mut server, name, Rtype::TXT, &format!("{alias} 300 \"hello\""));
    let aliases = "NOERROR 300 www.corp.example. 300 ns.corp.example. 300 192.0.2.9";
    check(&mut server, "alias.corp.example.", Rtype::A, aliases);
    let below = ask(&mut server, CLIENT, "x.d.corp.example.", Rtype::A);
    assert!(below.ends_with(" 300 x.w.corp.example. 300 192.0.2.10"), "{below}");
    // A pool is closer to its name than a wildcard.
    check(&mut server, "x.any.corp.example.", Rtype::A, "NOERROR 30 192.0.2.7");
    check(&mut server, "x.any.corp.example.", Rtype::TXT, "NOERROR");
    check(&mut server, "y.any.corp.example.", Rtype::A, &format!("{alias} 300 192.0.2.9"));
}

#[test]
fn any_gets_the_addresses_of_the_other_family_if_one_has_none() {
    let mut server = server("");
    let masks = [(HealthState::Down, MemberControl::Down); 2];
    let masks = masks.into_iter().chain([(HealthState::Up, MemberControl::Auto)]);
    let pool = server.state().names.pools.get(&wire("www.corp.example.")).unwrap().clone();
    pool.publish(PoolMasks::of(masks));
    check(&mut server, "www.corp.example.", Rtype::A, "NOERROR");
    check(&mut server, "www.corp.example.", Rtype::ANY, "NOERROR 30 fd00::1");
}

#[test]
fn a_reload_keeps_the_health_of_addresses() {
    let mut server = server("");
    publish(&server, "-++");
    let other = POOL.replace("\"192.0.2.1\", \"192.0.2.2\"", "\"192.0.2.3\", \"192.0.2.1\"");
    server.reload(&format!("{FORWARD}{POOL}[cache]\nprefetch = false\n")).unwrap();
    check(&mut server, "www.corp.example.", Rtype::A, "NOERROR 30 192.0.2.2");
    server.reload(&format!("{FORWARD}{}", other.replace("first", "all"))).unwrap();
    check(&mut server, "www.corp.example.", Rtype::A, "NOERROR 30 192.0.2.3");
    server.reload(FORWARD).unwrap();
    check(&mut server, "www.corp.example.", Rtype::A, "nothing");
}

#[test]
fn policy_applies_to_pools() {
    let rule = "[[rule]]\nname = \"no\"\nwhen = 'qname == \"www.corp.example\"'\naction = \
                \"block\"\n";
    let mut server = server(rule);
    let answer = ask(&mut server, CLIENT, "www.corp.example.", Rtype::A);
    assert!(!answer.contains("192.0.2."), "{answer}");
}

/// Returns the types in the answer and authority sections of the answer for a client that
/// validates.
fn types_for_validator(server: &mut InProcess, name: &str, rtype: Rtype) -> String {
    let (mut query, mut out) = (vec![0; 512], vec![0; 4096]);
    let mut builder = Builder::new(&mut query, 512, 7, 0x0100).unwrap();
    builder.question(&wire(name), rtype, Class::IN).unwrap();
    builder.opt(&OptFields { udp_size: 1232, rcode: Rcode(0), dnssec_ok: true }, &[]).unwrap();
    let len = builder.finish();
    let len = server.answer(&query[..len], &mut out).unwrap();
    let records = MessageView::new(&out[..len]).unwrap().records().unwrap().map(Result::unwrap);
    let types = |section| {
        let of_section = records.clone().filter(|record| record.section == section);
        of_section.map(|record| record.rtype.to_string()).collect::<Vec<_>>().join(" ")
    };
    format!("{} / {}", types(RecordSection::Answer), types(RecordSection::Authority))
}

#[test]
fn a_name_that_its_zone_delegates_gets_the_referral() {
    let directory = std::env::temp_dir().join(format!("avocet-cut-pool-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let file = directory.join("zone");
    let text = "$TTL 300\n@ SOA ns host 7 2h 3m 4w 60\n@ NS ns\nns A 192.0.2.9\nwww NS ns.www\n\
                ns.www A 192.0.2.8\n";
    fs::write(&file, text).unwrap();
    let pool = "[[pool]]\nname = \"a.www.corp.example\"\naddresses = [\"192.0.2.7\"]\nprobe = \
                \"icmp\"\n";
    let mut server = server(&format!("{pool}[[zone]]\nname = \"corp.example\"\nfile = {file:?}\n"));
    fs::remove_dir_all(&directory).unwrap();
    for name in ["www.corp.example.", "a.www.corp.example.", "b.www.corp.example."] {
        for rtype in [Rtype::A, Rtype::TXT] {
            let (mut query, mut out) = (vec![0; 512], vec![0; 4096]);
            let mut builder = Builder::new(&mut query, 512, 7, 0).unwrap();
            builder.question(&wire(name), rtype, Class::IN).unwrap();
            let len = builder.finish();
            let len = server.answer(&query[..len], &mut out).unwrap();
            let reply = MessageView::new(&out[..len]).unwrap();
            let records = reply.records().unwrap().map(Result::unwrap);
            let sections = records.map(|record| (record.section, record.rtype)).collect::<Vec<_>>();
            let referral =
                [(RecordSection::Authority, Rtype::NS), (RecordSection::Additional, Rtype::A)];
            assert_eq!((sections, out[2] & 4), (referral.to_vec(), 0), "{name} {rtype}");
        }
    }
}

/// A zone with the signatures that the look-up needs; nobody checks them.
const SIGNED: &str = "$TTL 300\n@ SOA ns host 7 2h 3m 4w 60\n@ NS ns\n@ NSEC *.any SOA NS RRSIG \
                      NSEC\n*.any CNAME svc\n*.any RRSIG CNAME 13 3 300 20991231235959 \
                      20200101000000 1 signed.example. AAAA\n*.any NSEC *.far CNAME RRSIG \
                      NSEC\n*.far CNAME flat.plain.example.\n*.far RRSIG CNAME 13 3 300 \
                      20991231235959 20200101000000 1 signed.example. AAAA\n*.far NSEC ns CNAME \
                      RRSIG NSEC\nns A 192.0.2.9\nns NSEC @ A NSEC\n";
const PLAIN: &str = "$TTL 300\n@ SOA ns host 7 2h 3m 4w 60\n@ NS ns\nns A 192.0.2.9\nflat ALIAS \
                     ns\n*.any CNAME svc.signed.example.\n";

#[test]
fn a_signed_alias_to_made_addresses_keeps_its_proof_for_every_type() {
    let directory = std::env::temp_dir().join(format!("avocet-proofs-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let mut tables = "[[pool]]\nname = \"svc.signed.example\"\naddresses = [\"192.0.2.7\"]\nprobe \
                      = \"icmp\"\n"
        .to_owned();
    for (name, text) in [("signed.example", SIGNED), ("plain.example", PLAIN)] {
        let file = directory.join(name);
        fs::write(&file, text).unwrap();
        tables.push_str(&format!("[[zone]]\nname = \"{name}\"\nfile = {file:?}\n"));
    }
    let mut server = server(&tables);
    fs::remove_dir_all(&directory).unwrap();
    for rtype in [1, 2, 5, 15, 16, 28, 43, 65, 255].map(Rtype) {
        let given = types_for_validator(&mut server, "x.any.signed.example.", rtype);
        assert_eq!(given, "CNAME RRSIG / NSEC", "{rtype}");
    }
    // The addresses of an ALIAS record in an unsigned zone do not follow a signed alias either.
    for rtype in [Rtype::A, Rtype::AAAA] {
        let given = types_for_validator(&mut server, "x.far.signed.example.", rtype);
        assert_eq!(given, "CNAME RRSIG / NSEC", "{rtype}");
    }
    // Unsigned aliases are followed for every client, and the alias itself is an answer.
    let name = "x.any.plain.example.";
    check(&mut server, name, Rtype::A, "NOERROR 300 svc.signed.example. 30 192.0.2.7");
    check(&mut server, name, Rtype::CNAME, "NOERROR 300 svc.signed.example.");
    assert_eq!(types_for_validator(&mut server, name, Rtype::CNAME), "CNAME / ");
    check(
        &mut server,
        "x.any.signed.example.",
        Rtype::A,
        "NOERROR 300 svc.signed.example. 30 192.0.2.7",
    );
}
