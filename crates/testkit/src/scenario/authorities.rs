//! The servers of a scenario: the selection of the message that answers a query, and derived
//! answers for queries without one.

use std::net::IpAddr;

use avocet_wire::Rtype;
use avocet_wire::header::{AA, TC};
use avocet_wire::name::is_under;

use super::message::{ALL_FLAGS, Asked, Envelope, Packet, Transport, same_name};
use super::record::Rr;
use super::{Dialect, Entry, Range, Scenario};

const SERVFAIL: u16 = 2;
const REFUSED: u16 = 5;

/// A reply: delay in ms and octets.
pub(super) type Reply = (u64, Vec<u8>);

/// The treatment of a query.
pub(super) enum Handled {
    /// Sends these replies, possibly none.
    Replies(Vec<Reply>),
    /// The scenario has no message for the query here, but a later step answers it.
    Unlisted,
}

/// Reports whether a message of the scenario answers this query.
pub(super) fn is_for(entry: &Entry, asked: &Asked) -> bool {
    let packet = entry.packet();
    let whole = entry.is_matched("question") || entry.is_matched("all");
    let same = |word: &str, is_same: bool| !entry.is_matched(word) || is_same;
    let question = packet.question().is_none_or(|question| {
        let (qname, qtype) = (question.is_of(&asked.qname), question.qtype == asked.qtype);
        (!whole || qname && qtype)
            && same("qname", qname)
            && same("qtype", qtype)
            && same("subdomain", asked.is_under(&question.qname))
            && same("qcase", question.qname == asked.qname)
    });
    question
        && same("opcode", packet.opcode == 0)
        && same("DO", asked.dnssec_ok)
        && same("noedns", asked.opt.is_none())
        && same("UDP", asked.transport == Transport::Udp)
        && same("TCP", asked.transport == Transport::Tcp)
        && same("ednsdata", packet.options.as_deref().unwrap_or_default() == asked.opt.as_deref().unwrap_or_default())
        && same("flags", packet.flags & ALL_FLAGS == asked.flags)
        // Queries of the resolver have no SOA record.
        && entry.matched_value("serial").is_none()
}

/// Returns the replies of a message of the scenario to a query.
pub(super) fn replies(entry: &Entry, asked: &Asked) -> Vec<Reply> {
    if entry.is_adjusted("do_not_answer") {
        return Vec::new();
    }
    entry.packets.iter().map(|packet| (entry.sleep_ms, reply(entry, packet, asked))).collect()
}

fn reply(entry: &Entry, packet: &Packet, asked: &Asked) -> Vec<u8> {
    let copies_id = entry.is_adjusted("copy_id");
    if let Some(raw) = &packet.raw {
        let mut octets = raw.clone();
        if let Some(id) =
            octets.first_chunk_mut().filter(|_| copies_id || entry.is_adjusted("raw_id"))
        {
            *id = asked.id.to_be_bytes();
        }
        return octets;
    }
    // The name keeps the letter case of the query.
    let is_same_name = packet.question().is_some_and(|question| question.is_of(&asked.qname));
    let copied: Option<Vec<u8>> = if entry.is_adjusted("copy_query") {
        Some(asked.question.clone())
    } else if copies_id && is_same_name {
        packet
            .question()
            .map(|question| [&asked.qname[..], &question.octets()[asked.qname.len()..]].concat())
    } else {
        None
    };
    let options = match &asked.opt {
        Some(sent) if entry.is_adjusted("copy_ednsdata_assume_clientsubnet") => Some(&sent[..]),
        Some(_) => Some(packet.options.as_deref().unwrap_or_default()),
        None => None,
    };
    let envelope = Envelope {
        id: if copies_id { asked.id } else { 0 },
        question: copied.as_deref(),
        opt: options,
        dnssec_ok: asked.dnssec_ok,
    };
    let octets = packet.octets(&envelope);
    if asked.transport == Transport::Tcp || octets.len() <= asked.udp_size {
        return octets;
    }
    let cut = Packet { sections: Default::default(), flags: packet.flags | TC, ..packet.clone() };
    cut.octets(&envelope)
}

/// Returns the replies of the servers at a step.
pub(super) fn handle(scenario: &Scenario, step: f64, asked: &Asked) -> Handled {
    let ranges = ranges(scenario, step, asked.server);
    if let Some(entry) =
        ranges.clone().flat_map(|range| &range.entries).find(|entry| is_for(entry, asked))
    {
        return Handled::Replies(replies(entry, asked));
    }
    if scenario
        .steps
        .iter()
        .any(|step| matches!(step.what.as_str(), "REPLY" | "CHECK_OUT_QUERY" | "ERROR"))
    {
        return Handled::Unlisted;
    }
    let packet = match scenario.dialect {
        Dialect::Own => Packet::response(0, REFUSED),
        Dialect::Unbound | Dialect::Deckard => {
            let known = Known::of(ranges.filter(|range| !range.servers.is_empty()));
            known.answer(asked).unwrap_or_else(|| Packet::response(0, SERVFAIL))
        }
    };
    Handled::Replies(vec![(0, packet.octets(&asked.envelope()))])
}

fn ranges(scenario: &Scenario, step: f64, server: IpAddr) -> impl Iterator<Item = &Range> + Clone {
    scenario.ranges.iter().filter(move |range| {
        (range.first..=range.last).contains(&step)
            && (range.servers.is_empty() || range.servers.contains(&server))
    })
}

/// All messages of a server at a step. A scenario lists the queries of the resolver it was written
/// for; additional queries of another resolver are answered from the same data.
struct Known<'s> {
    packets: Vec<&'s Packet>,
}

impl<'s> Known<'s> {
    fn of(ranges: impl Iterator<Item = &'s Range>) -> Self {
        let packets = ranges
            .flat_map(|range| &range.entries)
            .map(Entry::packet)
            .filter(|packet| packet.raw.is_none());
        Self { packets: packets.collect() }
    }

    fn answer(&self, asked: &Asked) -> Option<Packet> {
        let cut = self.delegation(asked);
        match cut {
            Some((zone, packet)) if asked.qtype == Rtype::DS && same_name(zone, &asked.qname) => {
                return Some(ds_of(zone, packet));
            }
            Some((_, packet)) => {
                let [_, authority, additional] = packet.sections.clone();
                return Some(Packet {
                    sections: [Vec::new(), authority, additional],
                    ..Packet::response(0, 0)
                });
            }
            None => {}
        }
        let records = self.rrset(asked);
        if !records.is_empty() {
            return Some(Packet {
                sections: [records, Vec::new(), Vec::new()],
                ..Packet::response(AA, 0)
            });
        }
        let mut owners = self.data().map(|rr| &rr.owner);
        owners.any(|owner| is_under(owner, &asked.qname)).then(|| self.nodata(asked))
    }

    /// Returns the server's data: answers and additional addresses.
    fn data(&self) -> impl Iterator<Item = &'s Rr> {
        self.packets.iter().flat_map(|packet| {
            let addresses =
                packet.sections[2].iter().filter(|rr| matches!(rr.rtype, Rtype::A | Rtype::AAAA));
            packet.sections[0].iter().chain(addresses)
        })
    }

    /// Returns the lowest zone that the server delegates and that contains the name, with the
    /// referral.
    fn delegation(&self, asked: &Asked) -> Option<(&'s [u8], &'s Packet)> {
        let is_apex =
            |zone: &[u8]| self.data().any(|rr| rr.rtype == Rtype::NS && same_name(&rr.owner, zone));
        let mut longest: Option<(&[u8], &Packet)> = None;
        for packet in self.packets.iter().filter(|packet| is_referral(packet)) {
            for rr in packet.sections[1]
                .iter()
                .filter(|rr| rr.rtype == Rtype::NS && asked.is_under(&rr.owner))
            {
                if longest.is_none_or(|(zone, _)| rr.owner.len() > zone.len())
                    && !is_apex(&rr.owner)
                {
                    longest = Some((&rr.owner, packet));
                }
            }
        }
        longest
    }

    fn rrset(&self, asked: &Asked) -> Vec<Rr> {
        let mut found: Vec<Rr> = Vec::new();
        let records = self.data().filter(|rr| rr.rtype == asked.qtype);
        let signatures = self.data().filter(|rr| asked.dnssec_ok && rr.covered() == asked.qtype);
        for rr in records.chain(signatures).filter(|rr| same_name(&rr.owner, &asked.qname)) {
            let is_there =
                found.iter().any(|other| other.rtype == rr.rtype && other.rdata == rr.rdata);
            // A signature alone is not an answer.
            if !is_there && (rr.rtype == asked.qtype || !found.is_empty()) {
                found.push(rr.clone());
            }
        }
        found
    }

    fn nodata(&self, asked: &Asked) -> Packet {
        let sections = self
            .packets
            .iter()
            .flat_map(|packet| packet.sections[1].iter().chain(&packet.sections[0]));
        let soas = sections.filter(|rr| rr.rtype == Rtype::SOA && asked.is_under(&rr.owner));
        let soa = soas.max_by_key(|rr| rr.owner.len()).cloned();
        Packet {
            sections: [Vec::new(), soa.into_iter().collect(), Vec::new()],
            ..Packet::response(AA, 0)
        }
    }
}

fn is_referral(packet: &Packet) -> bool {
    let [answer, authority, _] = &packet.sections;
    packet.rcode == 0 && answer.is_empty() && !authority.iter().any(|rr| rr.rtype == Rtype::SOA)
}

/// Derives the answer to a DS query for a zone from its referral.
fn ds_of(zone: &[u8], referral: &Packet) -> Packet {
    let authority = &referral.sections[1];
    let is_ds = |rr: &&Rr| {
        same_name(&rr.owner, zone) && (rr.rtype == Rtype::DS || rr.covered() == Rtype::DS)
    };
    let found: Vec<Rr> = authority.iter().filter(is_ds).cloned().collect();
    let mut packet = Packet::response(AA, 0);
    if found.iter().any(|rr| rr.rtype == Rtype::DS) {
        packet.sections[0] = found;
        return packet;
    }
    let is_proof = |rr: &&Rr| match rr.rtype {
        Rtype::NSEC | Rtype::NSEC3 | Rtype::SOA => true,
        Rtype::RRSIG => rr.covered() != Rtype::NS,
        _ => false,
    };
    packet.sections[1] = authority.iter().filter(is_proof).cloned().collect();
    packet
}
