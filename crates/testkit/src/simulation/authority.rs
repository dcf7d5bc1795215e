//! An authoritative server of a simulated internet, with its data and behaviour.

use avocet_wire::header::AA;
use avocet_wire::{Rcode, Rtype, Section, name};

use super::attacker;
use super::internet::{Behaviour, Internet, Server};
use super::reply::{Edns, Envelope, Next, Reply, UDP_SIZE, truncated};
use super::zone::Wire;
use crate::{Chance, Query};

/// Delay of slow servers, in ms.
const SLOW_MS: u64 = 400;

/// A reply with its delay.
pub(super) struct Delayed {
    pub(super) after_ms: u64,
    pub(super) octets: Vec<u8>,
}

/// The state that determines replies, in addition to the query.
pub(super) struct Scene<'i> {
    pub(super) internet: &'i Internet,
    /// Whether attackers are active. They stop at some point.
    pub(super) is_attacked: bool,
    pub(super) chance: Chance,
    /// Number of replies changed by an attacker.
    pub(super) changed: u64,
}

/// Returns the replies of a server.
pub(super) fn replies(scene: &mut Scene<'_>, server: &Server, query: &Query) -> Vec<Delayed> {
    let qname = folded_qname(query);
    let internet = scene.internet;
    let reply = match server.behaviour {
        Behaviour::Silent => return Vec::new(),
        Behaviour::Refuses => Reply::of(Rcode::REFUSED),
        Behaviour::Upward => upward(internet),
        Behaviour::WithoutEdns if query.edns.is_some() => Reply::of(Rcode::FORMERR),
        _ => honest(internet, server, &qname, query),
    };
    deliver(scene, server.behaviour, (&qname, query), reply)
}

/// Sends a reply according to the server's behaviour, with the attacker's changes.
pub(super) fn deliver(
    scene: &mut Scene<'_>,
    behaviour: Behaviour,
    (qname, query): (&Wire, &Query),
    mut reply: Reply,
) -> Vec<Delayed> {
    let mut envelope = Envelope::of(query);
    if behaviour == Behaviour::WithoutEdns {
        envelope.edns = Edns::Absent;
    }
    let mut all = Vec::new();
    if scene.is_attacked
        && (behaviour == Behaviour::Hostile || scene.internet.adversary.is_on_path())
    {
        if scene.chance.percent(15) {
            // An off-path attacker guesses the ID, wrongly.
            let id = query.id ^ (1 + scene.chance.below(65_000) as u16);
            all.push(Delayed {
                after_ms: 0,
                octets: reply.octets(query, Envelope { id, ..envelope }),
            });
        }
        attacker::change(&mut reply, scene, (qname, query.qtype));
    }
    let whole = reply.octets(query, envelope);
    let truncates = behaviour == Behaviour::Truncates && scene.chance.percent(40);
    let is_cut = !query.over_tcp && (whole.len() > UDP_SIZE || truncates);
    let octets = if is_cut { truncated(&whole, query) } else { whole };
    all.push(Delayed { after_ms: if behaviour == Behaviour::Slow { SLOW_MS } else { 0 }, octets });
    all
}

pub(super) fn folded_qname(query: &Query) -> Wire {
    query.question[..query.question.len() - 4].to_ascii_lowercase()
}

/// Returns a referral to the root, from a server that does not know its zones.
fn upward(internet: &Internet) -> Reply {
    let mut reply = Reply::of(Rcode::NOERROR);
    let ns = internet.zones[0].get(&[0], Rtype::NS).cloned();
    ns.into_iter().for_each(|ns| reply.push(Section::Authority, ns));
    reply
}

fn honest(internet: &Internet, server: &Server, qname: &[u8], query: &Query) -> Reply {
    let Some(number) = nearest(internet, server, (qname, query.qtype)) else {
        return Reply::of(Rcode::REFUSED);
    };
    let mut reply = Reply { flags: AA, ..Reply::of(Rcode::NOERROR) };
    if let Next::Cut(cut) = reply.say(internet, number, (qname, query.qtype)) {
        reply.flags = 0;
        reply.refer(internet, number, cut);
    }
    if query.edns == Some(true) {
        reply.sign(internet);
    }
    reply
}

/// Returns the server's zone for a question: the lowest one, except for DS at an apex, for which it
/// is the zone above if the server has one (RFC 4035 §3.1.4.1).
fn nearest(internet: &Internet, server: &Server, (qname, qtype): (&[u8], Rtype)) -> Option<usize> {
    let apex = |number: &usize| &internet.zones[*number].apex;
    let serving =
        || server.zones.iter().copied().filter(|number| name::is_under(qname, apex(number)));
    let above = serving().filter(|number| apex(number).len() < qname.len());
    let parent = above.max_by_key(|number| apex(number).len()).filter(|_| qtype == Rtype::DS);
    parent.or_else(|| serving().max_by_key(|number| apex(number).len()))
}
