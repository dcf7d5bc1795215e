//! What a server of a simulated internet replies: what its zones say, in its own way.

use avocet_wire::builder::{OptFields, Record};
use avocet_wire::header::{AA, HEADER_LEN, QR};
use avocet_wire::{Builder, Class, Rcode, Rtype, Section, name};

use super::internet::{Behaviour, Internet, MAX_TTL_SECS, Server};
use super::sign::nsec;
use super::zone::{Said, Set, Wire, Zone, next_closer};
use crate::{Chance, Query};

/// Most octets of a datagram.
const UDP_SIZE: usize = 1_232;
/// How long slow servers take, in ms.
const SLOW_MS: u64 = 400;
/// The address in forged records.
pub(super) const FORGED: [u8; 4] = [203, 0, 113, 66];
const SHORTEST_LIE: u64 = 8;

/// A reply in the making.
struct Reply {
    flags: u16,
    rcode: Rcode,
    sets: Vec<(Section, Set)>,
}

impl Reply {
    fn of(rcode: Rcode) -> Self {
        Self { flags: 0, rcode, sets: Vec::new() }
    }
}

/// Replies to a query, each after so many ms.
pub(super) fn replies(
    internet: &Internet,
    server: &Server,
    query: &Query,
    (chance, start_secs): (&mut Chance, u64),
) -> Vec<(u64, Vec<u8>)> {
    let qname = query.question[..query.question.len() - 4].to_ascii_lowercase();
    let mut reply = match server.behaviour {
        Behaviour::Silent => return Vec::new(),
        Behaviour::Refuses => Reply::of(Rcode::REFUSED),
        Behaviour::Upward => upward(internet),
        Behaviour::WithoutEdns if query.edns.is_some() => Reply::of(Rcode::FORMERR),
        _ => honest(internet, server, &qname, (query, start_secs)),
    };
    let has_opt = query.edns.is_some() && server.behaviour != Behaviour::WithoutEdns;
    let mut all = Vec::new();
    if server.behaviour == Behaviour::Hostile {
        if chance.percent(20) {
            // Somebody else guesses, and guesses wrong.
            all.push((0, octets(&reply, query, (has_opt, query.id ^ (1 + chance.below(65_000) as u16)))));
        }
        lie(&mut reply, internet, &qname, chance);
    }
    let whole = octets(&reply, query, (has_opt, query.id));
    let is_cut =
        !query.over_tcp && (whole.len() > UDP_SIZE || server.behaviour == Behaviour::Truncates && chance.percent(40));
    let octets = if is_cut { truncated(&whole, query) } else { whole };
    all.push((if server.behaviour == Behaviour::Slow { SLOW_MS } else { 0 }, octets));
    all
}

/// A referral to the root, by a server that does not know what it is to serve.
fn upward(internet: &Internet) -> Reply {
    let root = &internet.zones[0];
    let ns = root.get(&[0], Rtype::NS).cloned();
    Reply { sets: ns.into_iter().map(|ns| (Section::Authority, ns)).collect(), ..Reply::of(Rcode::NOERROR) }
}

fn honest(internet: &Internet, server: &Server, qname: &[u8], (query, start_secs): (&Query, u64)) -> Reply {
    let serves = |number: &&usize| name::is_under(qname, &internet.zones[**number].apex);
    let of_ds = |number: &&usize| {
        let is_apex = query.qtype == Rtype::DS && internet.zones[**number].apex == qname && qname.len() > 1;
        !is_apex || server.zones.len() == 1
    };
    let nearest =
        server.zones.iter().filter(serves).filter(of_ds).max_by_key(|number| internet.zones[**number].apex.len());
    let Some(&number) = nearest else { return Reply::of(Rcode::REFUSED) };
    let zone = &internet.zones[number];
    let mut reply = Reply { flags: AA, ..Reply::of(Rcode::NOERROR) };
    match zone.say(qname, query.qtype) {
        Said::Records(sets, expanded_by) => {
            reply.sets.extend(sets.into_iter().map(|set| (Section::Answer, at(qname, set))));
            reply.prove(zone, expanded_by.iter());
        }
        Said::Cname(alias, expanded_by) => {
            reply.sets.push((Section::Answer, at(qname, alias)));
            reply.prove(zone, expanded_by.iter());
        }
        Said::Dname(dname) => {
            reply.sets.push((Section::Answer, dname.clone()));
            reply.sets.extend(substituted(qname, dname).map(|cname| (Section::Answer, cname)));
        }
        Said::Nodata(wildcard) => {
            reply.deny(zone);
            let closer = wildcard.as_ref().map(|wildcard| next_closer(qname, &wildcard[2..]));
            reply.prove(zone, [wildcard.unwrap_or_else(|| qname.to_vec())].iter().chain(&closer));
        }
        Said::Nxdomain(encloser) => {
            reply.rcode = Rcode::NXDOMAIN;
            reply.deny(zone);
            reply.prove(zone, [next_closer(qname, &encloser), [b"\x01*", &encloser[..]].concat()].iter());
        }
        Said::Delegated(cut) => {
            reply.flags = 0;
            reply.refer(internet, zone, cut);
        }
    }
    if query.edns == Some(true) {
        reply.sign(zone, start_secs);
    }
    reply
}

impl Reply {
    fn deny(&mut self, zone: &Zone) {
        self.sets.extend(zone.get(&zone.apex, Rtype::SOA).cloned().map(|soa| (Section::Authority, soa)));
    }

    /// The NSEC records at or around these names, where the zone is signed.
    fn prove<'n>(&mut self, zone: &Zone, names: impl Iterator<Item = &'n Wire>) {
        for name in names.filter(|_| zone.key.is_some()) {
            let set = (Section::Authority, nsec(zone, name));
            if !self.sets.contains(&set) {
                self.sets.push(set);
            }
        }
    }

    fn refer(&mut self, internet: &Internet, zone: &Zone, cut: &Set) {
        self.sets.push((Section::Authority, cut.clone()));
        match zone.get(&cut.owner, Rtype::DS) {
            Some(ds) => self.sets.push((Section::Authority, ds.clone())),
            None => self.prove(zone, [cut.owner.clone()].iter()),
        }
        for target in &cut.data {
            let glue = internet.servers.iter().find(|server| server.name == *target);
            let Some(glue) = glue.filter(|_| name::is_under(target, &cut.owner)) else { continue };
            let data = vec![glue.addr.octets().to_vec()];
            self.sets
                .push((Section::Additional, Set { owner: target.clone(), rtype: Rtype::A, ttl_secs: 3_600, data }));
        }
    }

    /// Adds the signatures of all that is the zone's own. Wildcards are signed under their own name.
    fn sign(&mut self, zone: &Zone, start_secs: u64) {
        let Some(key) = &zone.key else { return };
        let mut signed = Vec::new();
        for (section, set) in &self.sets {
            let is_delegation = set.rtype == Rtype::NS && set.owner != zone.apex;
            let is_synthesised = set.rtype == Rtype::CNAME && zone.get(&set.owner, Rtype::CNAME).is_none();
            if *section == Section::Additional || is_delegation {
                continue;
            }
            let mut of = set.clone();
            if zone.get(&set.owner, set.rtype).is_none() && set.rtype != Rtype::NSEC {
                let mut wildcard = name::ancestors(&set.owner).skip(1).map(|above| [b"\x01*", above].concat());
                match wildcard.find(|wildcard| zone.get(wildcard, set.rtype).is_some()) {
                    Some(wildcard) => of.owner = wildcard,
                    None if is_synthesised => continue,
                    None => {}
                }
            }
            let rrsig = key.sign(&of, start_secs);
            let data = vec![rrsig];
            signed
                .push((*section, Set { owner: set.owner.clone(), rtype: Rtype::RRSIG, ttl_secs: set.ttl_secs, data }));
        }
        self.sets.extend(signed);
    }
}

/// A set under another owner: the expansion of a wildcard.
fn at(qname: &[u8], set: &Set) -> Set {
    Set { owner: qname.to_vec(), ..set.clone() }
}

/// The CNAME that follows from a DNAME, if there is room for it.
pub(super) fn substituted(qname: &[u8], dname: &Set) -> Option<Set> {
    let kept = &qname[..qname.len() - dname.owner.len()];
    let target = [kept, &dname.data[0]].concat();
    let fits = target.len() <= 255;
    fits.then(|| Set { owner: qname.to_vec(), rtype: Rtype::CNAME, ttl_secs: dname.ttl_secs, data: vec![target] })
}

/// Changes a reply as somebody does who means harm.
fn lie(reply: &mut Reply, internet: &Internet, qname: &[u8], chance: &mut Chance) {
    let victim = internet.zones[chance.below(internet.zones.len() as u64) as usize].apex.clone();
    let forged = |owner: &[u8], rtype, data: Vec<u8>| Set {
        owner: owner.to_vec(),
        rtype,
        ttl_secs: MAX_TTL_SECS,
        data: vec![data],
    };
    match chance.below(SHORTEST_LIE + 2) {
        0 => {
            for (_, set) in reply.sets.iter_mut().filter(|(_, set)| set.rtype == Rtype::A) {
                set.data = vec![FORGED.to_vec()];
            }
        }
        1 => reply.sets.retain(|(_, set)| set.rtype != Rtype::RRSIG),
        2 => {
            let server = [b"\x04evil", &victim[..]].concat();
            reply.sets.push((Section::Authority, forged(&victim, Rtype::NS, server.clone())));
            reply.sets.push((Section::Additional, forged(&server, Rtype::A, FORGED.to_vec())));
        }
        3 => {
            let www = [b"\x03www", &victim[..]].concat();
            reply.sets.push((Section::Answer, forged(&www, Rtype::A, FORGED.to_vec())));
            reply.sets.push((Section::Additional, forged(&www, Rtype::A, FORGED.to_vec())));
        }
        4 => {
            reply.rcode = Rcode::NXDOMAIN;
            reply.sets.retain(|(section, _)| *section == Section::Authority);
        }
        5 => {
            let server = [b"\x04evil", qname].concat();
            reply.flags = 0;
            reply.sets = vec![(Section::Authority, forged(qname, Rtype::NS, server.clone()))];
            if server.len() <= 255 {
                reply.sets.push((Section::Additional, forged(&server, Rtype::A, FORGED.to_vec())));
            }
        }
        6 => *reply = Reply::of(Rcode::SERVFAIL),
        7 => reply.sets.retain(|(_, set)| !matches!(set.rtype, Rtype::NSEC | Rtype::DS)),
        _ => {}
    }
}

fn octets(reply: &Reply, query: &Query, (has_opt, id): (bool, u16)) -> Vec<u8> {
    let mut out = vec![0; usize::from(u16::MAX)];
    let limit = out.len();
    let mut builder = Builder::new(&mut out, limit, id, QR | reply.flags | reply.rcode.low()).expect("room");
    let (qname, fixed) = query.question.split_last_chunk::<4>().expect("a question");
    let rtype = |high: u8, low: u8| u16::from_be_bytes([high, low]);
    builder.question(qname, Rtype(rtype(fixed[0], fixed[1])), Class(rtype(fixed[2], fixed[3]))).expect("room");
    for wanted in [Section::Answer, Section::Authority, Section::Additional] {
        for (_, set) in reply.sets.iter().filter(|(section, _)| *section == wanted) {
            for rdata in &set.data {
                let Set { owner, rtype, ttl_secs, .. } = set;
                let record = Record { owner, rtype: *rtype, class: Class::IN, ttl_secs: *ttl_secs, rdata };
                builder.record(wanted, &record).expect("room");
            }
        }
    }
    if has_opt {
        let fields = OptFields { udp_size: UDP_SIZE as u16, rcode: reply.rcode, dnssec_ok: query.edns == Some(true) };
        builder.opt(&fields, &[]).expect("room");
    }
    let len = builder.finish();
    out.truncate(len);
    out
}

/// The head and question of a message, with TC.
fn truncated(whole: &[u8], query: &Query) -> Vec<u8> {
    let mut head = whole[..HEADER_LEN + query.question.len()].to_vec();
    head[2] |= 2;
    head[6..HEADER_LEN].fill(0);
    head
}
