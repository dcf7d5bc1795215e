//! Converts the contents of the caches to the types of the control interface.

use avocet_cache::{
    Freshness, Held, NegativeKind, PacketKey, Rank, ReadAt, RrsetKey, Security, StoredPacket,
    packet_flags,
};
use avocet_control::cache::{
    CacheAge, CacheEntry, CachedPacket, CachedRrset, DataRank, DenialKind, Dumped, QueryFlag,
    RrsetContent, SecurityStatus,
};
use avocet_control::{Disconnected, Parts};
use avocet_nameserver::query::still_holds;
use avocet_resolver::DELEGATIONS;
use avocet_wire::{Class, Rcode, Rtype, rdata, text};

use avocet_worker::state::Shared;

/// Reports each RRset, each denial and each final answer.
///
/// # Errors
/// The client has disconnected.
pub(crate) fn write(
    shared: &Shared,
    entries: Parts<'_, CacheEntry>,
) -> Result<Dumped, Disconnected> {
    let state = shared.snapshot();
    let now = shared.name_server.clock.now().secs();
    let stale_window = state.config.cache.serve_stale.as_ref().map_or(0, |stale| stale.max_secs);
    let (mut rrsets, mut packets) = (0, 0);
    shared.name_server.rrsets.try_visit(ReadAt { now, stale_window }, |key, held| {
        rrsets += 1;
        entries(rrset(key, held))
    })?;
    let holds = |stored: &StoredPacket<'_>| still_holds(&state, stored);
    shared.name_server.packets.try_visit(now, holds, |key, header, remaining_secs| {
        packets += 1;
        entries(CacheEntry::Packet(packet(key, header, remaining_secs)))
    })?;
    Ok(Dumped { rrsets, packets })
}

/// Returns an entry of the RRset cache.
pub(super) fn rrset(key: &RrsetKey<'_>, held: Held<'_>) -> CacheEntry {
    let rtype = Rtype(key.rtype).to_string();
    let (content, freshness) = match held {
        Held::Rrset(view) => {
            let records = RrsetContent::Records {
                rtype,
                data: view
                    .records()
                    .map(|data| rdata::display(key.rtype, data).to_string())
                    .collect(),
                signatures: view.signatures().count(),
                rank: rank(view.provenance.rank),
                security: security(view.provenance.security),
            };
            (records, view.freshness)
        }
        Held::Negative(NegativeKind::Nodata, view) => {
            let denial = RrsetContent::Denial { denies: DenialKind::Nodata, rtype: Some(rtype) };
            (denial, view.freshness)
        }
        Held::Negative(NegativeKind::Nxdomain, view) => {
            let denial = RrsetContent::Denial { denies: DenialKind::Nxdomain, rtype: None };
            (denial, view.freshness)
        }
    };
    let to_find_servers = key.class == DELEGATIONS;
    CacheEntry::Rrset(CachedRrset {
        name: shown(&key.owner),
        class: if to_find_servers { Class::IN } else { Class(key.class) }.to_string(),
        to_find_servers,
        content,
        age: match freshness {
            Freshness::Fresh { remaining_secs } => CacheAge::Fresh { ttl: remaining_secs },
            Freshness::Stale { since_secs } => CacheAge::Expired { expired_secs: since_secs },
        },
    })
}

fn packet(key: &PacketKey<'_>, header: &[u8; 12], remaining_secs: u32) -> CachedPacket {
    let flags = [
        (packet_flags::RD, QueryFlag::Rd),
        (packet_flags::CD, QueryFlag::Cd),
        (packet_flags::DO, QueryFlag::Do),
    ];
    let set = flags.iter().filter(|(bit, _)| key.flags & bit != 0);
    CachedPacket {
        name: key.question.qname().to_string(),
        rtype: key.question.qtype().to_string(),
        class: key.question.qclass().to_string(),
        rcode: Rcode(u16::from(header[3] & 0xf)).to_string(),
        flags: set.map(|(_, flag)| *flag).collect(),
        ttl: remaining_secs,
    }
}

/// Returns a name as text.
pub(crate) fn shown(wire: &[u8]) -> String {
    let mut name = String::new();
    // Writing to a `String` does not fail. If the octets are not a name, the text ends early.
    let _ = text::write_name(wire, &mut name);
    name
}

const fn rank(rank: Rank) -> DataRank {
    match rank {
        Rank::Additional => DataRank::Additional,
        Rank::NonAuthoritativeAnswer => DataRank::NonAuthoritativeAnswer,
        Rank::AuthoritativeAuthority => DataRank::AuthoritativeAuthority,
        Rank::AuthoritativeAnswer => DataRank::AuthoritativeAnswer,
    }
}

pub(crate) const fn security(security: Security) -> SecurityStatus {
    match security {
        Security::Unchecked => SecurityStatus::Unchecked,
        Security::Indeterminate => SecurityStatus::Indeterminate,
        Security::Insecure => SecurityStatus::Insecure,
        Security::Bogus => SecurityStatus::Bogus,
        Security::Secure => SecurityStatus::Secure,
    }
}
