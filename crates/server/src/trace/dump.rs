//! What the caches hold, as lines: JSON from the server, text at the client.

use std::io::{self, Write};

use avocet_cache::{
    Freshness, Held, NegativeKind, PacketKey, Rank, ReadAt, RrsetKey, Security, packet_flags,
};
use avocet_resolver::DELEGATIONS;
use avocet_wire::{Class, Rcode, Rtype, rdata, text};
use serde_json::{Value, json};

use crate::state::Shared;

/// Writes a line for each RRset, each denial and each final answer, and gives the last line.
pub(crate) fn write(shared: &Shared, out: &mut impl Write) -> io::Result<Value> {
    let state = shared.snapshot();
    let now = shared.name_server.clock.now().secs();
    let stale_window = state.config.cache.serve_stale.as_ref().map_or(0, |stale| stale.max_secs);
    let (mut rrsets, mut packets) = (0u64, 0u64);
    shared.name_server.rrsets.try_visit(ReadAt { now, stale_window }, |key, held| {
        rrsets += 1;
        writeln!(out, "{}", rrset_line(key, held))
    })?;
    shared.name_server.packets.try_visit(now, state.epoch, |key, header, remaining_secs| {
        packets += 1;
        writeln!(out, "{}", packet_line(key, header, remaining_secs))
    })?;
    Ok(json!({ "done": true, "rrsets": rrsets, "packets": packets }))
}

pub(crate) fn rrset_line(key: &RrsetKey<'_>, held: Held<'_>) -> Value {
    let rtype = Rtype(key.rtype);
    let (mut line, freshness) = match held {
        Held::Rrset(view) => {
            let data: Vec<String> =
                view.records().map(|data| rdata::display(key.rtype, data).to_string()).collect();
            let line = json!({
                "type": rtype.to_string(),
                "data": data,
                "signatures": view.signatures().count(),
                "rank": rank(view.provenance.rank),
                "security": security(view.provenance.security),
            });
            (line, view.freshness)
        }
        Held::Negative(NegativeKind::Nodata, view) => {
            (json!({ "type": rtype.to_string(), "denies": "NODATA" }), view.freshness)
        }
        Held::Negative(NegativeKind::Nxdomain, view) => {
            (json!({ "denies": "NXDOMAIN" }), view.freshness)
        }
    };
    line["cache"] = "rrset".into();
    line["name"] = shown(key.owner).into();
    let to_find_servers = key.class == DELEGATIONS;
    line["class"] = if to_find_servers { Class::IN } else { Class(key.class) }.to_string().into();
    line["to-find-servers"] = to_find_servers.into();
    match freshness {
        Freshness::Fresh { remaining_secs } => line["ttl"] = remaining_secs.into(),
        Freshness::Stale { since_secs } => line["expired-secs"] = since_secs.into(),
    }
    line
}

fn packet_line(key: &PacketKey<'_>, header: &[u8; 12], remaining_secs: u32) -> Value {
    let (name, [t0, t1, c0, c1]) = key.question.split_last_chunk().unwrap_or((&[], &[0; 4]));
    let flags = [(packet_flags::RD, "RD"), (packet_flags::CD, "CD"), (packet_flags::DO, "DO")];
    let set: Vec<&str> =
        flags.iter().filter(|(bit, _)| key.flags & bit != 0).map(|(_, name)| *name).collect();
    json!({
        "cache": "packet",
        "name": shown(name),
        "type": Rtype(u16::from_be_bytes([*t0, *t1])).to_string(),
        "class": Class(u16::from_be_bytes([*c0, *c1])).to_string(),
        "rcode": Rcode(u16::from(header[3] & 0xf)).to_string(),
        "flags": set,
        "ttl": remaining_secs,
    })
}

pub(crate) fn shown(wire: &[u8]) -> String {
    let mut name = String::new();
    // Writing to a `String` does not fail; what is no name in a cache ends early.
    let _ = text::write_name(wire, &mut name);
    name
}

fn rank(rank: Rank) -> &'static str {
    match rank {
        Rank::Additional => "additional",
        Rank::NonAuthoritativeAnswer => "non-authoritative-answer",
        Rank::AuthoritativeAuthority => "authoritative-authority",
        Rank::AuthoritativeAnswer => "authoritative-answer",
    }
}

pub(crate) fn security(security: Security) -> &'static str {
    match security {
        Security::Unchecked => "unchecked",
        Security::Indeterminate => "indeterminate",
        Security::Insecure => "insecure",
        Security::Bogus => "bogus",
        Security::Secure => "secure",
    }
}
