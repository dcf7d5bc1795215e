//! A client gets the same answers from Avocet as from its upstream.
//!
//! Both get the same queries, over both transports, with and without EDNS and DO. The replies must
//! agree except for these rules of forwarding:
//!
//! - AA is 0 and RA is 1, because the answer comes from a cache; AD is 0, because nothing is
//!   validated here. RD and CD are those of the query.
//! - RRsets are compared as sets. Their order is free, except that a CNAME precedes its target.
//! - TTLs may be lower, never higher.
//! - A chain that leaves the upstream's zones is followed at the upstream of the next zone.
//! - NS records and addresses that are not needed are omitted (a minimal response). The SOA of a
//!   negative answer and the proofs for DO remain.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use avocet_wire::header::{CD, QR, RA, RD, TC};
use avocet_wire::{Rcode, Rtype, name};

use crate::harness::peers::{self, Kind, Zone};
use crate::harness::{Ask, Record, Reply, Server, Setup, Tcp, Udp, wire_name};
use crate::zones::{self, APEX, OTHER, SIGNED, TYPES};

/// Most hops from zone to zone in a test's chains.
const MAX_HOPS: usize = 4;

type Records = BTreeMap<Record, u32>;

/// The form of a query.
#[derive(Clone, Copy, Debug)]
enum Manner {
    Plain,
    Edns,
    DnssecOk,
}

const MANNERS: [Manner; 3] = [Manner::Plain, Manner::Edns, Manner::DnssecOk];

impl Manner {
    fn of(self, ask: Ask) -> Ask {
        match self {
            Self::Plain => ask,
            Self::Edns => ask.edns(1232),
            Self::DnssecOk => ask.edns(1232).dnssec_ok().checking_disabled(),
        }
    }
}

/// The transport; a truncated answer is queried again over TCP.
#[derive(Clone, Copy, Debug)]
enum By {
    Udp,
    Tcp,
}

impl By {
    #[track_caller]
    fn ask(self, server: SocketAddr, ask: &Ask) -> Reply {
        let reply = match self {
            Self::Udp => Udp::to(server).ask(ask),
            Self::Tcp => return Tcp::to(server).ask(ask),
        };
        if reply.is_truncated() { Tcp::to(server).ask(ask) } else { reply }
    }
}

/// The upstream of a name, and those of chains.
struct Upstreams {
    first: SocketAddr,
    second: SocketAddr,
    /// By how many seconds a TTL may seem to grow: an upstream that counts down by itself uses
    /// another clock.
    beats: u32,
}

impl Upstreams {
    fn authoritative(first: SocketAddr, second: SocketAddr) -> Self {
        Self { first, second, beats: 0 }
    }
}

/// The answers of the upstreams, hop by hop.
#[derive(Default, Debug)]
struct Expected {
    rcode: Option<Rcode>,
    answer: Records,
    authority: Records,
    additional: Records,
}

/// All questions: every type, chains, wildcards, and missing names and types.
fn questions() -> Vec<(String, String)> {
    let mut found: Vec<_> =
        TYPES.iter().map(|(rtype, _)| (zones::owner_of(rtype), (*rtype).to_owned())).collect();
    let mut add = |labels: &str, apex: &str, rtypes: &str| {
        for rtype in rtypes.split(' ') {
            found.push((
                if labels.is_empty() { apex.to_owned() } else { format!("{labels}.{apex}") },
                rtype.to_owned(),
            ));
        }
    };
    add("", APEX, "SOA NS MX A AAAA DNSKEY TYPE65401");
    for name in
        ["many", "x.wild", "a.b.wild", "known.wild", "CamelCase", "cAMELcASE", "a.branch", "mail"]
    {
        add(name, APEX, "A TXT AAAA");
    }
    for name in
        ["absent", "a.absent", "empty.deep", "deep", "absent.deep", "wild", "known.wild.absent"]
    {
        add(name, APEX, "A MX");
    }
    for name in ["c1", "c2", "c3", "nodata", "nowhere", "any.star"] {
        add(name, APEX, "A CNAME TXT");
    }
    for name in [
        "out",
        "far",
        "lost",
        "tree",
        "a.tree",
        "b.tree",
        "absent.tree",
        "a.out-tree",
        "absent.out-tree",
    ] {
        add(name, APEX, "A CNAME DNAME");
    }
    add("d2", APEX, "DNAME");
    add("a.d2", APEX, "A");
    add("huge", APEX, "TXT");
    for (name, _) in zones::SIZED {
        add(name, APEX, "TXT");
    }
    found
}

/// Questions for the signed zone.
fn signed_questions() -> Vec<(String, String)> {
    let names = ["www", "alias", "x.wild", "absent", "empty", "a.tree", "absent.tree"];
    let below = names
        .iter()
        .flat_map(|name| ["A", "TXT"].map(|rtype| (format!("{name}.{SIGNED}"), rtype.to_owned())));
    let apex = ["SOA", "NS", "DNSKEY", "A"].map(|rtype| (SIGNED.to_owned(), rtype.to_owned()));
    // Only the DNAME's signature proves the CNAME that follows from it.
    below.chain(apex).chain([(format!("a.tree.{SIGNED}"), "CNAME".to_owned())]).collect()
}

/// Queries every upstream on the way to the answer.
fn expect(by: By, upstreams: &Upstreams, manner: Manner, qname: &str, qtype: &str) -> Expected {
    let mut expected = Expected::default();
    let mut qname = qname.to_owned();
    let mut server = upstreams.first;
    for _ in 0..MAX_HOPS {
        let reply = by.ask(server, &manner.of(Ask::of(&qname, qtype)));
        assert_eq!(reply.header.flags & TC, 0);
        let end = end_of_chain(&reply, &wire_name(&qname), crate::harness::rtype(qtype));
        expected.rcode = Some(reply.rcode);
        expected.answer.extend(reply.answer);
        expected.authority = reply.authority.into_iter().collect();
        expected.additional = reply.additional.into_iter().collect();
        let leads_on = end != wire_name(&qname).to_ascii_lowercase()
            && name::is_under(&end, &wire_name(OTHER))
            && !expected.answer.keys().any(|record| record.owner == end);
        if !leads_on {
            return expected;
        }
        qname = avocet_wire::NameBuf::from_wire(&end).expect("a name").to_string();
        server = upstreams.second;
    }
    panic!("a chain without end")
}

/// The name at the end of the CNAME chain of an answer. Panics if a CNAME follows its target.
#[track_caller]
fn end_of_chain(reply: &Reply, qname: &[u8], qtype: Rtype) -> Vec<u8> {
    let mut current = qname.to_ascii_lowercase();
    for (record, _) in reply
        .answer
        .iter()
        .filter(|(record, _)| record.rtype != Rtype::RRSIG || qtype == Rtype::RRSIG)
    {
        let is_dname = record.rtype == Rtype::DNAME && name::is_under(&current, &record.owner);
        assert!(
            is_dname || record.owner == current,
            "{record:?} is out of order in {:?}",
            reply.answer
        );
        if record.rtype == Rtype::CNAME && qtype != Rtype::CNAME {
            current = record.rdata.to_ascii_lowercase();
        }
    }
    current
}

/// The records of an authority section that a client needs: the SOA of a negative response, and
/// proofs.
fn needed(records: &Records, is_denial: bool) -> BTreeSet<&Record> {
    let covers = |record: &Record, types: &[u16]| {
        record.rtype == Rtype::RRSIG
            && record
                .rdata
                .first_chunk()
                .is_some_and(|covered| types.contains(&u16::from_be_bytes(*covered)))
    };
    let is_proof = |record: &&Record| {
        matches!(record.rtype, Rtype::NSEC | Rtype::NSEC3) || covers(record, &[47, 50])
    };
    let is_soa = |record: &&Record| record.rtype == Rtype::SOA || covers(record, &[6]);
    records.keys().filter(|record| is_proof(record) || is_denial && is_soa(record)).collect()
}

struct Compared<'a> {
    server: &'a Server,
    upstreams: &'a Upstreams,
    by: By,
}

impl Compared<'_> {
    /// Queries Avocet twice, for the miss and for the hit, and compares both replies with the
    /// upstreams' answers.
    fn compare(&self, manner: Manner, qname: &str, qtype: &str) -> Result<(), String> {
        let expected = expect(self.by, self.upstreams, manner, qname, qtype);
        let ask = manner.of(Ask::of(qname, qtype));
        let sent = ask.octets();
        let echoed = u16::from_be_bytes([sent[2], sent[3]]) & (RD | CD);
        for turn in ["miss", "hit"] {
            let reply = self.by.ask(self.server.addr, &ask);
            let fail = |what: &str| {
                Err(format!(
                    "{qname} {qtype} {manner:?} {:?} {turn}: {what}\n  got {reply:?}\n  expected {expected:?}",
                    self.by
                ))
            };
            if Some(reply.rcode) != expected.rcode {
                return fail("RCODE");
            }
            if reply.header.flags != QR | RA | echoed | reply.rcode.low() {
                return fail("flags");
            }
            if reply.question != ask.question() {
                return fail("question");
            }
            if reply.opt.is_some() != !matches!(manner, Manner::Plain) {
                return fail("OPT");
            }
            if !keys(&reply.answer).eq(expected.answer.keys()) {
                return fail("answer");
            }
            end_of_chain(&reply, &wire_name(qname), crate::harness::rtype(qtype));
            if let Err(what) = compare_rest(&reply, &expected, qtype, self.upstreams.beats) {
                return fail(what);
            }
        }
        Ok(())
    }
}

fn keys(records: &[(Record, u32)]) -> impl Iterator<Item = &Record> {
    records.iter().map(|(record, _)| record).collect::<BTreeSet<_>>().into_iter()
}

/// Compares the other sections, and all TTLs.
fn compare_rest(
    reply: &Reply,
    expected: &Expected,
    qtype: &str,
    beats: u32,
) -> Result<(), &'static str> {
    let end = end_of_chain(
        reply,
        &reply.question[..reply.question.len() - 4],
        crate::harness::rtype(qtype),
    );
    let is_denial =
        !reply.answer.iter().any(|(record, _)| record.owner == end && record.rtype != Rtype::RRSIG);
    let authority: Records = reply.authority.iter().cloned().collect();
    if needed(&authority, is_denial) != needed(&expected.authority, is_denial) {
        return Err("authority");
    }
    let others = [&expected.answer, &expected.authority, &expected.additional];
    for (record, ttl) in reply.answer.iter().chain(&reply.authority).chain(&reply.additional) {
        match others.iter().find_map(|records| records.get(record)) {
            None => return Err("a record that no upstream gave"),
            // A synthesized CNAME has the TTL of its DNAME (RFC 6672 §3.1), which a server may give
            // as 0.
            Some(0) if record.rtype == Rtype::CNAME => {}
            Some(given) if *ttl > given + beats => return Err("a TTL that has grown"),
            Some(_) => {}
        }
    }
    let is_more = !reply.additional.is_empty() || authority.len() > needed(&authority, false).len();
    if !is_denial && is_more {
        return Err("more than was asked for");
    }
    Ok(())
}

/// Compares all questions, with a new server for each transport so that each has cache misses.
fn compare_all(setup: &Setup, upstreams: &Upstreams, questions: &[(String, String)]) {
    let mut failures = Vec::new();
    for by in [By::Udp, By::Tcp] {
        let server = setup.clone().start();
        let compared = Compared { server: &server, upstreams, by };
        for (qname, qtype) in questions {
            for manner in MANNERS {
                failures.extend(compared.compare(manner, qname, qtype).err());
            }
        }
    }
    assert!(failures.is_empty(), "{} differences:\n{}", failures.len(), failures.join("\n"));
}

fn two_rules(first: SocketAddr, second: SocketAddr) -> Setup {
    Setup::plain().rule("equal.example", &[first], "").rule("other.example", &[second], "")
}

fn compare_with(kind: Kind) {
    let Some(first) = kind.serve(&[zones::everything()]) else { return };
    let Some(second) = kind.serve(&[zones::other()]) else { return };
    let upstreams = Upstreams::authoritative(first.addr, second.addr);
    compare_all(&two_rules(first.addr, second.addr), &upstreams, &questions());
}

#[test]
fn answers_equal_those_of_nsd() {
    compare_with(Kind::Nsd);
}

#[test]
fn answers_equal_those_of_knot() {
    compare_with(Kind::Knot);
}

#[test]
fn answers_equal_those_of_bind() {
    compare_with(Kind::Named);
}

#[test]
fn answers_equal_those_of_unbound_that_forwards_itself() {
    let Some(authority) = Kind::Nsd.serve(&[zones::everything(), zones::other()]) else { return };
    let Some(unbound) = peers::unbound(authority.addr, APEX) else { return };
    let upstreams = Upstreams { first: unbound.addr, second: unbound.addr, beats: 2 };
    compare_all(&Setup::forwarding_to(unbound.addr), &upstreams, &questions());
}

#[test]
fn signatures_and_proofs_pass_unchanged() {
    let Some(zone) = zones::signed() else { return };
    for kind in Kind::ALL {
        let zones: [Zone; 1] = [zone.clone()];
        let Some(peer) = kind.serve(&zones) else { continue };
        let upstreams = Upstreams::authoritative(peer.addr, peer.addr);
        compare_all(&Setup::forwarding_to(peer.addr), &upstreams, &signed_questions());
    }
}
