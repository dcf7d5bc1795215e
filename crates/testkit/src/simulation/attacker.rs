//! An attacker that has all genuinely signed data, forges other data, and mixes both into the
//! replies that it can change: those of its own servers, of a forwarder, or all.

use avocet_wire::header::AA;
use avocet_wire::{Rcode, Rtype, Section, name};

use super::START_SECS;
use super::authority::{Delayed, Scene, folded_qname};
use super::internet::{Internet, MAX_TTL_SECS};
use super::reply::{Envelope, Part, Reply, Signer};
use super::sign::{Key, VALID_SECS};
use super::zone::{Set, Wire, Zone, below};
use crate::{Chance, Query};

/// The address in forged records, at which the attacker has a server.
pub(super) const FORGED: [u8; 4] = [203, 0, 113, 66];
/// Share of replies that are changed, in percent.
const CHANGED_PERCENT: u32 = 60;
/// Maximum number of changes of one reply.
const MAX_TRICKS: u64 = 4;
/// The TTL of most forged records, in seconds.
const TTL_SECS: u32 = 300;

/// A change of a reply.
#[derive(Clone, Copy, Debug)]
enum Trick {
    ForgeAddresses,
    ForgeAnswer,
    ForgeBeside,
    ForgeDelegation,
    ForgeReferral,
    StripSignatures,
    StripProofs,
    DropPart,
    DropSection,
    ReplaceByAlias,
    AddDname,
    AddSigned,
    AddDenial,
    AddSoa,
    ReplayDelegation,
    SwapSignature,
    MisplaceWildcard,
    NameSigner,
    FlipRcode,
    FlipAuthority,
    DenyAll,
    Fail,
}

/// Tricks that mix genuine and forged records are more frequent, because they depend on each other.
const TRICKS: [Trick; 28] = [
    Trick::ForgeAddresses,
    Trick::ForgeAnswer,
    Trick::ForgeBeside,
    Trick::ForgeDelegation,
    Trick::ForgeReferral,
    Trick::StripSignatures,
    Trick::StripProofs,
    Trick::DropPart,
    Trick::DropSection,
    Trick::DropSection,
    Trick::ReplaceByAlias,
    Trick::AddDname,
    Trick::AddSigned,
    Trick::AddSigned,
    Trick::AddDenial,
    Trick::AddDenial,
    Trick::AddDenial,
    Trick::AddDenial,
    Trick::AddSoa,
    Trick::ReplayDelegation,
    Trick::SwapSignature,
    Trick::MisplaceWildcard,
    Trick::MisplaceWildcard,
    Trick::NameSigner,
    Trick::FlipRcode,
    Trick::FlipAuthority,
    Trick::DenyAll,
    Trick::Fail,
];

/// Changes a reply, or leaves it unchanged.
pub(super) fn change(reply: &mut Reply, scene: &mut Scene<'_>, (qname, qtype): (&Wire, Rtype)) {
    if !scene.chance.percent(CHANGED_PERCENT) {
        return;
    }
    scene.changed += 1;
    let internet = scene.internet;
    let mut attacker = Attacker { internet, qname, qtype, chance: &mut scene.chance };
    for _ in 0..1 + attacker.chance.below(MAX_TRICKS) {
        let trick = TRICKS[attacker.chance.below(TRICKS.len() as u64) as usize];
        attacker.play(trick, reply);
    }
}

/// Returns the replies of the attacker's own server, which has an address for every name.
pub(super) fn replies(query: &Query) -> Vec<Delayed> {
    let mut reply = Reply { flags: AA, ..Reply::of(Rcode::NOERROR) };
    if query.qtype == Rtype::A {
        reply.push(Section::Answer, forged(&folded_qname(query), Rtype::A, FORGED.to_vec()));
    }
    vec![Delayed { after_ms: 0, octets: reply.octets(query, Envelope::of(query)) }]
}

/// Returns a forged record.
fn forged(owner: &[u8], rtype: Rtype, data: Vec<u8>) -> Set {
    Set { owner: owner.to_vec(), rtype, ttl_secs: TTL_SECS, data: vec![data] }
}

struct Attacker<'a> {
    internet: &'a Internet,
    qname: &'a Wire,
    qtype: Rtype,
    chance: &'a mut Chance,
}

impl Attacker<'_> {
    fn play(&mut self, trick: Trick, reply: &mut Reply) {
        match trick {
            Trick::ForgeAddresses => {
                let addresses = reply.parts.iter_mut().filter(|part| part.set.rtype == Rtype::A);
                addresses.for_each(|part| part.set.data = vec![FORGED.to_vec()]);
            }
            Trick::ForgeAnswer => self.forge_answer(reply),
            Trick::ForgeBeside => self.forge_beside(reply),
            Trick::ForgeDelegation => self.forge_delegation(reply),
            Trick::ForgeReferral => self.forge_referral(reply),
            Trick::StripSignatures => reply.parts.retain(|part| part.set.rtype != Rtype::RRSIG),
            Trick::StripProofs => {
                let is_proof = |rtype| matches!(rtype, Rtype::NSEC | Rtype::NSEC3 | Rtype::DS);
                reply.parts.retain(|part| !is_proof(part.set.rtype));
            }
            Trick::DropPart => {
                let at = self.chance.below(reply.parts.len() as u64) as usize;
                reply.parts.drain(at..reply.parts.len().min(at + 1));
            }
            Trick::DropSection => {
                let dropped =
                    if self.chance.percent(50) { Section::Answer } else { Section::Authority };
                reply.parts.retain(|part| part.section != dropped);
            }
            Trick::ReplaceByAlias => {
                reply.rcode = Rcode::NOERROR;
                reply.parts.retain(|part| part.section != Section::Answer);
                let target = self.any_name();
                reply.push(Section::Answer, forged(self.qname, Rtype::CNAME, target));
            }
            Trick::AddDname => {
                let (owner, target) = (self.name_nearby(), self.any_name());
                reply.push(Section::Answer, forged(&owner, Rtype::DNAME, target));
            }
            Trick::AddSigned => self.add_signed(reply),
            Trick::AddDenial => self.add_denial(reply),
            Trick::AddSoa => self.add_soa(reply),
            Trick::ReplayDelegation => self.replay_delegation(reply),
            Trick::SwapSignature => self.swap_signature(reply),
            Trick::MisplaceWildcard => self.misplace_wildcard(reply),
            Trick::NameSigner => self.name_signer(reply),
            Trick::FlipRcode => {
                let is_denied = reply.rcode == Rcode::NXDOMAIN;
                reply.rcode = if is_denied { Rcode::NOERROR } else { Rcode::NXDOMAIN };
            }
            Trick::FlipAuthority => reply.flags ^= AA,
            Trick::DenyAll => {
                reply.rcode = Rcode::NXDOMAIN;
                reply.parts.retain(|part| part.section == Section::Authority);
            }
            Trick::Fail => *reply = Reply::of(Rcode::SERVFAIL),
        }
    }

    fn any_name(&mut self) -> Wire {
        pick(&self.internet.names, self.chance).cloned().unwrap_or(vec![0])
    }

    /// Returns a random name. In most cases, it is the QNAME or an ancestor of the QNAME.
    fn name_nearby(&mut self) -> Wire {
        match self.chance.below(4) {
            0 => self.any_name(),
            1 => self.qname.clone(),
            _ => {
                let above: Vec<&[u8]> = name::ancestors(self.qname).collect();
                pick(&above, self.chance).map_or(vec![0], |name| name.to_vec())
            }
        }
    }

    /// Returns a random zone, usually one that contains the QNAME.
    fn zone(&mut self) -> usize {
        let zones = &self.internet.zones;
        if self.chance.percent(70) {
            let is_above = |number: &usize| name::is_under(self.qname, &zones[*number].apex);
            let above: Vec<usize> = (0..zones.len()).filter(is_above).collect();
            return pick(&above, self.chance).copied().unwrap_or(0);
        }
        self.chance.below(zones.len() as u64) as usize
    }

    fn forge_answer(&mut self, reply: &mut Reply) {
        let root_key = self.internet.zones[0].key.as_deref();
        let data = match self.qtype {
            Rtype::A => FORGED.to_vec(),
            Rtype::DS => root_key.map_or(vec![0; 36], Key::ds),
            Rtype::DNSKEY => root_key.map_or(vec![1, 1, 3, 15, 0], Key::dnskey),
            Rtype::NS => self.any_name(),
            _ => return,
        };
        reply.push(Section::Answer, forged(self.qname, self.qtype, data));
    }

    fn forge_beside(&mut self, reply: &mut Reply) {
        let victim = self.any_name();
        reply.push(Section::Answer, forged(&victim, Rtype::A, FORGED.to_vec()));
        reply.push(Section::Additional, forged(&victim, Rtype::A, FORGED.to_vec()));
    }

    fn forge_delegation(&mut self, reply: &mut Reply) {
        let victim = self.zone();
        let apex = self.internet.zones[victim].apex.clone();
        self.delegate(reply, &apex);
    }

    fn forge_referral(&mut self, reply: &mut Reply) {
        *reply = Reply::of(Rcode::NOERROR);
        let owner = if self.chance.percent(50) { self.qname.clone() } else { self.name_nearby() };
        self.delegate(reply, &owner);
    }

    /// Adds a delegation to the attacker's own server.
    fn delegate(&mut self, reply: &mut Reply, owner: &[u8]) {
        let server = below(b"evil", owner);
        if server.len() > name::MAX_NAME {
            return;
        }
        let ttl_secs = MAX_TTL_SECS;
        reply
            .push(Section::Authority, Set { ttl_secs, ..forged(owner, Rtype::NS, server.clone()) });
        reply.push(
            Section::Additional,
            Set { ttl_secs, ..forged(&server, Rtype::A, FORGED.to_vec()) },
        );
    }

    /// Adds genuinely signed data, under its own name or the QNAME.
    fn add_signed(&mut self, reply: &mut Reply) {
        let zone = &self.internet.zones[self.zone()];
        let Some(set) = pick(zone.sets(), self.chance) else { return };
        let owner = if self.chance.percent(30) { self.qname.clone() } else { set.owner.clone() };
        let section = if self.chance.percent(70) { Section::Answer } else { Section::Authority };
        add(reply, section, Moved { zone, set, owner });
    }

    fn add_denial(&mut self, reply: &mut Reply) {
        let (number, of) = (self.zone(), self.name_nearby());
        let zone = &self.internet.zones[number];
        for set in zone.chain().iter().flat_map(|chain| chain.prove(std::slice::from_ref(&of))) {
            if self.chance.percent(85) {
                add(reply, Section::Authority, Moved { zone, set: &set, owner: set.owner.clone() });
            }
        }
    }

    fn add_soa(&mut self, reply: &mut Reply) {
        let zone = &self.internet.zones[self.zone()];
        let Some(soa) = zone.get(&zone.apex, Rtype::SOA) else { return };
        if self.chance.percent(50) {
            add(reply, Section::Authority, Moved { zone, set: soa, owner: zone.apex.clone() });
        } else {
            reply.push(Section::Authority, soa.clone());
        }
    }

    /// Adds the genuine referral to a zone, for other tricks to corrupt.
    fn replay_delegation(&mut self, reply: &mut Reply) {
        let child = &self.internet.zones[self.zone()];
        let Some(parent) = child.parent else { return };
        let Some(cut) = self.internet.zones[parent].get(&child.apex, Rtype::NS) else { return };
        if self.chance.percent(50) {
            *reply = Reply::of(Rcode::NOERROR);
        }
        let mut referral = Reply::of(Rcode::NOERROR);
        referral.refer(self.internet, parent, cut);
        referral.sign(self.internet);
        referral.parts.into_iter().for_each(|part| reply.push(part.section, part.set));
    }

    /// Gives one RRset the signature of another.
    fn swap_signature(&mut self, reply: &mut Reply) {
        let is_rrsig = |part: &&Part| part.set.rtype == Rtype::RRSIG;
        let rrsigs: Vec<Vec<u8>> =
            reply.parts.iter().filter(is_rrsig).flat_map(|part| part.set.data.clone()).collect();
        let Some(rrsig) = pick(&rrsigs, self.chance) else { return };
        let owner = self.name_nearby();
        reply.push(Section::Answer, forged(&owner, Rtype::RRSIG, rrsig.clone()));
    }

    /// Answers from a wildcard of a zone for a name it does not cover.
    fn misplace_wildcard(&mut self, reply: &mut Reply) {
        let zone = &self.internet.zones[self.zone()];
        let wildcards: Vec<&Set> =
            zone.sets().iter().filter(|set| set.owner.starts_with(b"\x01*")).collect();
        let Some(&set) = pick(&wildcards, self.chance) else { return };
        reply.parts.retain(|part| part.section != Section::Answer);
        add(reply, Section::Answer, Moved { zone, set, owner: self.qname.clone() });
    }

    /// Adds a signature whose signer makes the resolver look for missing keys.
    fn name_signer(&mut self, reply: &mut Reply) {
        let mut data = self.qtype.0.to_be_bytes().to_vec();
        data.extend([15, name::labels(self.qname).count() as u8]);
        data.extend(TTL_SECS.to_be_bytes());
        data.extend(((START_SECS + VALID_SECS) as u32).to_be_bytes());
        data.extend(((START_SECS - VALID_SECS) as u32).to_be_bytes());
        data.extend([0, 1]);
        data.extend(self.name_nearby());
        data.extend([0; 64]);
        let set = forged(self.qname, Rtype::RRSIG, data);
        reply.parts.insert(0, Part { section: Section::Answer, set, signer: Signer::Nobody });
    }
}

/// An RRset of a zone under another owner.
struct Moved<'z> {
    zone: &'z Zone,
    set: &'z Set,
    owner: Wire,
}

/// Adds a set with its zone's signature.
fn add(reply: &mut Reply, section: Section, Moved { zone, set, owner }: Moved<'_>) {
    let rrsig = zone.key.as_ref().filter(|_| zone.signs(set)).map(|key| key.sign(set));
    reply.push(section, Set { owner: owner.clone(), ..set.clone() });
    let Set { ttl_secs, .. } = *set;
    rrsig.into_iter().for_each(|rrsig| {
        let data = vec![rrsig];
        reply.push(section, Set { owner: owner.clone(), rtype: Rtype::RRSIG, ttl_secs, data });
    });
}

fn pick<'a, T>(all: &'a [T], chance: &mut Chance) -> Option<&'a T> {
    all.get(chance.below(all.len() as u64) as usize)
}
