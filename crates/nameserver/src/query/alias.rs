//! Aliases from local records, hosted zones or the policy, and the answer for their last target.

use std::net::Ipv6Addr;
use std::sync::Arc;

use avocet_resolver::Dns64;
use avocet_wire::builder::{Builder, Full, Record, Section};
use avocet_wire::header::{AA, HEADER_LEN, Header, QR, RA, TC};
use avocet_wire::view::{MessageView, RecordSection, RecordView};
use avocet_wire::{Class, Ede, FoldedNameBuf, NameBuf, Rcode, Rtype};
use avocet_zone::{HostedZone, MadeSet, Proofs};

use super::respond::{Draft, draft_empty};

/// A CNAME from this server's own data or from the policy, in a chain that continues elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alias {
    /// The owner.
    pub owner: FoldedNameBuf,
    /// The target as configured.
    pub target: NameBuf,
    /// TTL in seconds.
    pub ttl_secs: u32,
    /// The reason, as in [`Draft::note`], if the policy created it; otherwise 0.
    pub note: u16,
    /// The zone of an ALIAS record; `None` for a CNAME.
    pub flattening: Option<Box<Flattening>>,
}

impl Alias {
    /// Returns whether this is the alias of an ALIAS record.
    pub fn is_flattened(&self) -> bool {
        self.flattening.is_some()
    }
}

/// What becomes of IPv6 addresses that DNS64 made from those of the target of an ALIAS record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MadeAddresses {
    /// There is no DNS64.
    Absent,
    /// The client gets them, without signatures.
    Shown(Dns64),
    /// The client does not get them: it queries the zone without recursion, or validates.
    Withheld(Dns64),
}

/// The zone of an ALIAS record. In place of a CNAME, the client gets the addresses at the end of
/// the aliases as records of the owner.
#[derive(Clone, Debug)]
pub struct Flattening {
    /// The zone, which signs the records.
    pub zone: Arc<HostedZone>,
    /// Whether the client wants signatures.
    pub proofs: Proofs,
    /// When the query arrived, in seconds since 1970.
    pub at_secs: u64,
    /// What becomes of addresses that DNS64 made.
    pub made: MadeAddresses,
}

impl Flattening {
    /// Removes the addresses that the client does not get. Returns whether the others are signed.
    fn admit(&self, data: &mut Vec<Vec<u8>>) -> Proofs {
        let is_made = |dns64: &Dns64, data: &[u8]| {
            let address = <[u8; 16]>::try_from(data).map(Ipv6Addr::from);
            address.is_ok_and(|address| dns64.translated(address).is_some())
        };
        match &self.made {
            MadeAddresses::Shown(dns64) if data.iter().any(|data| is_made(dns64, data)) => {
                return Proofs::Omitted;
            }
            MadeAddresses::Withheld(dns64) => data.retain(|data| !is_made(dns64, data)),
            MadeAddresses::Absent | MadeAddresses::Shown(_) => {}
        }
        self.proofs
    }
}

impl PartialEq for Flattening {
    fn eq(&self, other: &Self) -> bool {
        let Self { zone, proofs, at_secs, made } = self;
        Arc::ptr_eq(zone, &other.zone)
            && (*proofs, *at_secs, made) == (other.proofs, other.at_secs, &other.made)
    }
}

impl Eq for Flattening {}

/// Writes the CNAMEs of a chain to the answer section.
pub fn write_aliases(builder: &mut Builder<'_>, aliases: &[Alias]) -> Result<(), Full> {
    for alias in aliases {
        let record = Record {
            owner: alias.owner.wire(),
            rtype: Rtype::CNAME,
            class: Class::IN,
            ttl_secs: alias.ttl_secs,
            rdata: alias.target.wire(),
        };
        builder.record(Section::Answer, &record)?;
    }
    Ok(())
}

/// The answer for the last target of an alias chain.
#[derive(Clone, Copy)]
pub(super) struct End<'m> {
    /// The message in the form of the packet cache.
    pub(super) message: &'m [u8],
    /// RCODE and extended error.
    pub(super) draft: Draft,
}

/// Writes the complete answer for the owner of the first alias: all aliases, and the data of their
/// last target. The answer has the note of the first alias that the policy created. The flag AA is
/// for the first owner (RFC 1035 §4.1.1).
pub(super) fn write_behind(
    aliases: &[Alias],
    end: &End<'_>,
    question: &[u8],
    out: &mut [u8],
) -> Option<Draft> {
    if let Some(at) = aliases.iter().position(Alias::is_flattened) {
        return write_flattened(aliases.split_at(at), end, question, out);
    }
    let limit = out.len();
    let (qname, fixed) = question.split_last_chunk::<4>()?;
    let qtype = Rtype(u16::from_be_bytes([fixed[0], fixed[1]]));
    let qclass = Class(u16::from_be_bytes([fixed[2], fixed[3]]));
    let is_own = aliases.first().is_some_and(|alias| alias.note == 0);
    let flags = if is_own { QR | RA | AA } else { QR | RA };
    let mut builder = Builder::new(out, limit, 0, flags | end.draft.rcode.low()).ok()?;
    builder.question(qname, qtype, qclass).ok()?;
    write_aliases(&mut builder, aliases).ok()?;
    let is_cut = Header::read(end.message).is_some_and(|header| header.has(TC));
    if append(&mut builder, end.message).is_none() || is_cut {
        builder.truncate();
    }
    debug_assert!(builder.len() >= HEADER_LEN);
    let note = aliases.iter().map(|alias| alias.note).find(|note| *note != 0).unwrap_or(0);
    Some(Draft { len: builder.finish(), note, ..end.draft })
}

/// Writes the addresses at the end of an alias chain as records of the first owner of an ALIAS
/// record, after the CNAMEs that lead to this owner.
#[cold]
fn write_flattened(
    (shown, flattened): (&[Alias], &[Alias]),
    end: &End<'_>,
    question: &[u8],
    out: &mut [u8],
) -> Option<Draft> {
    let Alias { owner, flattening: Some(flattening), .. } = flattened.first()? else { return None };
    // The owner exists even if its target does not, so NXDOMAIN becomes NODATA. Other RCODEs are
    // failures.
    if !matches!(end.draft.rcode, Rcode::NOERROR | Rcode::NXDOMAIN) {
        let unknown = (Ede::OTHER, "the target of the ALIAS record cannot be resolved");
        let ede = end.draft.ede.or(Some(unknown));
        return Some(Draft { ede, ..draft_empty(out, Some(question), Rcode::SERVFAIL) });
    }
    let limit = out.len();
    let (qname, fixed) = question.split_last_chunk::<4>()?;
    let qtype = Rtype(u16::from_be_bytes([fixed[0], fixed[1]]));
    let is_own = shown.iter().all(|alias| alias.note == 0);
    let flags = if is_own { QR | RA | AA } else { QR | RA };
    let mut builder = Builder::new(out, limit, 0, flags).ok()?;
    builder.question(qname, qtype, Class::IN).ok()?;
    let mut addresses = addresses_of(end.message, qtype)?;
    let proofs = flattening.admit(&mut addresses.data);
    let of_aliases = flattened.iter().map(|alias| alias.ttl_secs).min().unwrap_or(0);
    let data: Vec<&[u8]> = addresses.data.iter().map(|data| &**data).collect();
    let set = MadeSet {
        qname: owner.view(),
        qtype,
        ttl_secs: addresses.ttl_secs.min(of_aliases),
        data: &data,
        proofs,
        now_secs: flattening.at_secs,
    };
    let is_cut = Header::read(end.message).is_some_and(|header| header.has(TC));
    let written = write_aliases(&mut builder, shown)
        .and_then(|()| flattening.zone.write_made(&set, &mut builder));
    if written.is_err() || is_cut {
        builder.truncate();
    }
    let note = shown.iter().map(|alias| alias.note).find(|note| *note != 0).unwrap_or(0);
    Some(Draft { len: builder.finish(), rcode: Rcode::NOERROR, note, ..end.draft })
}

/// The addresses in an answer.
struct Addresses {
    data: Vec<Vec<u8>>,
    /// The lowest TTL of the addresses and of the aliases and SOA records in the answer.
    ttl_secs: u32,
}

/// Returns the addresses of a type in an answer, without duplicates; `None` if the message is
/// malformed.
fn addresses_of(message: &[u8], qtype: Rtype) -> Option<Addresses> {
    let mut addresses = Addresses { data: Vec::new(), ttl_secs: u32::MAX };
    for record in MessageView::new(message).ok()?.records().ok()? {
        let record = record.ok()?;
        let is_address = record.section == RecordSection::Answer && record.rtype == qtype;
        let data = record.rdata().to_vec();
        if is_address && !addresses.data.contains(&data) {
            addresses.data.push(data);
        }
        if is_address || matches!(record.rtype, Rtype::CNAME | Rtype::DNAME | Rtype::SOA) {
            addresses.ttl_secs = addresses.ttl_secs.min(record.ttl_secs());
        }
    }
    Some(addresses)
}

fn append(builder: &mut Builder<'_>, message: &[u8]) -> Option<()> {
    let mut rdata = vec![0; usize::from(u16::MAX)];
    for record in MessageView::new(message).ok()?.records().ok()? {
        append_record(builder, &record.ok()?, &mut rdata)?;
    }
    Some(())
}

/// Writes a record of another message. `rdata` is room for the longest data of a record. Returns
/// `None` if the record is malformed or there is no room.
pub(super) fn append_record(
    builder: &mut Builder<'_>,
    record: &RecordView<'_>,
    rdata: &mut [u8],
) -> Option<()> {
    let len = record.expand_rdata(rdata).ok()?;
    let owner = record.owner().ok()?;
    let section = match record.section {
        RecordSection::Answer => Section::Answer,
        RecordSection::Authority => Section::Authority,
        RecordSection::Additional => Section::Additional,
    };
    let record = Record {
        owner: owner.wire(),
        rtype: record.rtype,
        class: record.class,
        ttl_secs: record.ttl_secs(),
        rdata: &rdata[..len],
    };
    builder.record(section, &record).map_err(|Full| ()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alias_of_this_server_is_authoritative_and_one_of_the_policy_is_not() {
        let name = |wire: &[u8]| NameBuf::from_wire(wire).unwrap();
        let question = b"\x01a\x04test\0\0\x01\0\x01";
        let mut message = [0; 64];
        let draft = draft_empty(&mut message, Some(question), Rcode::NOERROR);
        for (note, expected) in [(0, AA), (3, 0)] {
            let (owner, target) = (name(b"\x01a\x04test\0").folded(), name(b"\x01b\0"));
            let alias = Alias { owner, target, ttl_secs: 60, note, flattening: None };
            let end = End { message: &message[..draft.len], draft };
            let mut out = [0; 512];
            let made = write_behind(&[alias], &end, question, &mut out).unwrap();
            let header = Header::read(&out[..made.len]).unwrap();
            assert_eq!((header.flags & AA, header.counts[1]), (expected, 1), "{note}");
        }
    }
}
