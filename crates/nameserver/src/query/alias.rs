//! Aliases by local records or by the policy, and the answer at their end.

use avocet_wire::builder::{Builder, Full, Record, Section};
use avocet_wire::header::{HEADER_LEN, Header, QR, RA, TC};
use avocet_wire::view::{MessageView, RecordSection};
use avocet_wire::{Class, FoldedNameBuf, NameBuf, Rtype};

use super::respond::Draft;

/// A CNAME of a chain that continues outside the local records.
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
}

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

/// The answer at the end of aliases.
#[derive(Clone, Copy)]
pub(super) struct End<'m> {
    /// The message in packet form.
    pub(super) message: &'m [u8],
    /// RCODE and extended error.
    pub(super) draft: Draft,
}

/// Writes the answer to the question of the first alias: all aliases, and the data at their end.
/// The answer has the note of the first alias that the policy created.
pub(super) fn write_behind(
    aliases: &[Alias],
    end: &End<'_>,
    question: &[u8],
    out: &mut [u8],
) -> Option<Draft> {
    let limit = out.len();
    let (qname, fixed) = question.split_last_chunk::<4>()?;
    let qtype = Rtype(u16::from_be_bytes([fixed[0], fixed[1]]));
    let qclass = Class(u16::from_be_bytes([fixed[2], fixed[3]]));
    let mut builder = Builder::new(out, limit, 0, QR | RA | end.draft.rcode.low()).ok()?;
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

fn append(builder: &mut Builder<'_>, message: &[u8]) -> Option<()> {
    let mut rdata = vec![0; usize::from(u16::MAX)];
    for record in MessageView::new(message).ok()?.records().ok()? {
        let record = record.ok()?;
        let len = record.expand_rdata(&mut rdata).ok()?;
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
        builder.record(section, &record).map_err(|Full| ()).ok()?;
    }
    Some(())
}
