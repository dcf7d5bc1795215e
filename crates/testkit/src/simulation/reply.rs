//! A reply of a simulated server under construction, from a zone's records to octets.

use std::cell::RefCell;

use avocet_wire::builder::{OptFields, Record};
use avocet_wire::header::{HEADER_LEN, QR, TC};
use avocet_wire::{Builder, Class, Rcode, Rtype, Section, name};

use super::internet::Internet;
use super::zone::{Said, Set, Wire, Zone, below, next_closer};
use crate::Query;

/// Maximum number of octets of a datagram.
pub(super) const UDP_SIZE: usize = 1_232;
/// Room for any reply, in octets. An attacker adds a few RRsets to those of a chain of aliases.
const MAX_REPLY: usize = 16_384;

/// A reply under construction.
#[derive(Clone)]
pub(super) struct Reply {
    pub(super) flags: u16,
    pub(super) rcode: Rcode,
    pub(super) parts: Vec<Part>,
}

/// An RRset of a reply.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) section: Section,
    pub(super) set: Set,
    pub(super) signer: Signer,
}

/// The signer of an RRset.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Signer {
    /// Glue, delegations, synthesised aliases and signatures are unsigned.
    Nobody,
    /// The zone with this index, and the owner of the RRset in the zone. For a wildcard, this is
    /// the wildcard itself.
    Zone(usize, Wire),
}

/// The continuation of a resolution.
pub(super) enum Next<'z> {
    End,
    Alias(Wire),
    Cut(&'z Set),
}

impl Reply {
    pub(super) fn of(rcode: Rcode) -> Self {
        Self { flags: 0, rcode, parts: Vec::new() }
    }

    /// Adds an unsigned part.
    pub(super) fn push(&mut self, section: Section, set: Set) {
        self.add(Part { section, set, signer: Signer::Nobody });
    }

    /// Adds the zone's data for a question, with proofs if it is signed.
    pub(super) fn say<'i>(
        &mut self,
        internet: &'i Internet,
        number: usize,
        question: (&[u8], Rtype),
    ) -> Next<'i> {
        let (qname, qtype) = question;
        let zone = &internet.zones[number];
        match zone.say(qname, qtype) {
            Said::Records(sets, expanded_by) => {
                sets.into_iter().for_each(|set| self.answer(number, qname, set));
                self.prove(zone, number, expanded_by.as_slice());
                Next::End
            }
            Said::Cname(alias, expanded_by) => {
                self.answer(number, qname, alias);
                self.prove(zone, number, expanded_by.as_slice());
                Next::Alias(alias.data[0].clone())
            }
            Said::Dname(dname) => {
                self.answer(number, &dname.owner, dname);
                let Some(cname) = Zone::substitute(qname, dname) else {
                    self.rcode = Rcode::YXDOMAIN;
                    return Next::End;
                };
                let target = cname.data[0].clone();
                self.push(Section::Answer, cname);
                if qtype == Rtype::CNAME { Next::End } else { Next::Alias(target) }
            }
            Said::Nodata(wildcard) => {
                let closer = wildcard.as_ref().map(|wildcard| next_closer(qname, &wildcard[2..]));
                self.deny(zone, number);
                let names: Vec<Wire> =
                    wildcard.or(Some(qname.to_vec())).into_iter().chain(closer).collect();
                self.prove(zone, number, &names);
                Next::End
            }
            Said::Nxdomain(encloser) => {
                self.rcode = Rcode::NXDOMAIN;
                self.deny(zone, number);
                self.prove(zone, number, &[next_closer(qname, &encloser), below(b"*", &encloser)]);
                Next::End
            }
            Said::Delegated(cut) => Next::Cut(cut),
        }
    }

    fn answer(&mut self, number: usize, qname: &[u8], set: &Set) {
        let signer = Signer::Zone(number, set.owner.clone());
        let set = Set { owner: qname.to_vec(), ..set.clone() };
        self.add(Part { section: Section::Answer, set, signer });
    }

    fn deny(&mut self, zone: &Zone, number: usize) {
        if let Some(soa) = zone.get(&zone.apex, Rtype::SOA) {
            let signer = Signer::Zone(number, zone.apex.clone());
            self.add(Part { section: Section::Authority, set: soa.clone(), signer });
        }
    }

    /// Adds the NSEC or NSEC3 records that match or cover these names if the zone is signed.
    pub(super) fn prove(&mut self, zone: &Zone, number: usize, names: &[Wire]) {
        for set in zone.chain().iter().flat_map(|chain| chain.prove(names)) {
            let signer = Signer::Zone(number, set.owner.clone());
            self.add(Part { section: Section::Authority, set, signer });
        }
    }

    /// Adds a referral with its DS records or the proof that there are none, and with glue below
    /// the cut.
    pub(super) fn refer(&mut self, internet: &Internet, number: usize, cut: &Set) {
        let zone = &internet.zones[number];
        self.push(Section::Authority, cut.clone());
        match zone.get(&cut.owner, Rtype::DS) {
            Some(ds) => {
                let signer = Signer::Zone(number, ds.owner.clone());
                self.add(Part { section: Section::Authority, set: ds.clone(), signer });
            }
            None => self.prove(zone, number, std::slice::from_ref(&cut.owner)),
        }
        for target in cut.data.iter().filter(|target| name::is_under(target, &cut.owner)) {
            let Some(glue) = internet.servers.iter().find(|server| server.name == *target) else {
                continue;
            };
            let data = vec![glue.addr.octets().to_vec()];
            self.push(
                Section::Additional,
                Set { owner: target.clone(), rtype: Rtype::A, ttl_secs: 3_600, data },
            );
        }
    }

    fn add(&mut self, part: Part) {
        if !self.parts.contains(&part) {
            self.parts.push(part);
        }
    }

    /// Adds all signatures.
    pub(super) fn sign(&mut self, internet: &Internet) {
        let rrsig = |part: &Part| {
            let Signer::Zone(number, owner) = &part.signer else { return None };
            let key = internet.zones[*number].key.as_ref()?;
            let data = vec![key.sign(&Set { owner: owner.clone(), ..part.set.clone() })];
            Some((part.section, Set { rtype: Rtype::RRSIG, data, ..part.set.clone() }))
        };
        let rrsigs: Vec<_> = self.parts.iter().filter_map(rrsig).collect();
        rrsigs.into_iter().for_each(|(section, set)| self.push(section, set));
    }

    /// Returns the message as the answer to a query.
    pub(super) fn octets(&self, query: &Query, envelope: Envelope) -> Vec<u8> {
        // The buffer is reused, because it is large and most replies are small: clearing it each
        // time would be costly.
        thread_local!(static ROOM: RefCell<Vec<u8>> = RefCell::new(vec![0; MAX_REPLY]));
        ROOM.with_borrow_mut(|room| {
            let len = self.write(query, envelope, room);
            room[..len].to_vec()
        })
    }

    fn write(&self, query: &Query, envelope: Envelope, out: &mut [u8]) -> usize {
        let limit = out.len();
        let flags = QR | self.flags | self.rcode.low();
        let mut builder = Builder::new(out, limit, envelope.id, flags).expect("room");
        let (qname, fixed) = query.question.split_last_chunk::<4>().expect("a question");
        let class = Class(u16::from_be_bytes([fixed[2], fixed[3]]));
        builder.question(qname, query.qtype, class).expect("room");
        for wanted in [Section::Answer, Section::Authority, Section::Additional] {
            for Part { set, .. } in self.parts.iter().filter(|part| part.section == wanted) {
                for rdata in &set.data {
                    let Set { owner, rtype, ttl_secs, .. } = set;
                    let record = Record {
                        owner,
                        rtype: *rtype,
                        class: Class::IN,
                        ttl_secs: *ttl_secs,
                        rdata,
                    };
                    builder.record(wanted, &record).expect("room");
                }
            }
        }
        if envelope.edns == Edns::Present {
            let dnssec_ok = query.edns == Some(true);
            let fields = OptFields { udp_size: UDP_SIZE as u16, rcode: self.rcode, dnssec_ok };
            builder.opt(&fields, &[]).expect("room");
        }
        builder.finish()
    }
}

/// The parts of a message other than its records.
#[derive(Clone, Copy)]
pub(super) struct Envelope {
    pub(super) id: u16,
    pub(super) edns: Edns,
}

/// Whether a message has an OPT record.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Edns {
    Present,
    Absent,
}

impl Envelope {
    /// Returns the envelope of an honest server with EDNS.
    pub(super) fn of(query: &Query) -> Self {
        Self { id: query.id, edns: if query.edns.is_some() { Edns::Present } else { Edns::Absent } }
    }
}

/// Returns the header and question of a message, with TC set.
pub(super) fn truncated(whole: &[u8], query: &Query) -> Vec<u8> {
    let mut head = whole[..HEADER_LEN + query.question.len()].to_vec();
    head[2] |= (TC >> 8) as u8;
    head[6..HEADER_LEN].fill(0);
    head
}
