//! A recursive server to which questions are forwarded. It knows all zones. It may lie, or an
//! attacker on the path may.

use avocet_wire::Rcode;
use avocet_wire::header::RA;

use super::authority::{Delayed, Scene, deliver, folded_qname};
use super::internet::{Behaviour, Internet};
use super::reply::{Next, Reply};
use crate::{Chance, Query};

/// Maximum number of aliases that the forwarder follows.
const MAX_ALIASES: usize = 10;

/// Returns the replies of a forwarder.
pub(super) fn replies(scene: &mut Scene<'_>, behaviour: Behaviour, query: &Query) -> Vec<Delayed> {
    let qname = folded_qname(query);
    let mut reply = match behaviour {
        Behaviour::Silent => return Vec::new(),
        Behaviour::Refuses => Reply::of(Rcode::REFUSED),
        _ => resolved(scene.internet, &qname, query),
    };
    reply.flags |= RA;
    age(&mut reply, &mut scene.chance);
    deliver(scene, behaviour, (&qname, query), reply)
}

fn resolved(internet: &Internet, qname: &[u8], query: &Query) -> Reply {
    let mut reply = Reply::of(Rcode::NOERROR);
    let mut at = qname.to_vec();
    for _ in 0..MAX_ALIASES {
        let number = internet.zone_of(&at, query.qtype);
        match reply.say(internet, number, (&at, query.qtype)) {
            Next::Alias(target) => at = target,
            Next::End | Next::Cut(_) => break,
        }
    }
    if query.edns == Some(true) {
        reply.sign(internet);
    }
    reply
}

/// Lowers TTLs as a cache does. RRsets and their signatures have the same age.
fn age(reply: &mut Reply, chance: &mut Chance) {
    if chance.percent(70) {
        return;
    }
    let secs = chance.below(600) as u32;
    reply
        .parts
        .iter_mut()
        .for_each(|part| part.set.ttl_secs = part.set.ttl_secs.saturating_sub(secs));
}
