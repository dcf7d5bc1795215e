//! The verdict on an answer, at the requested depth.
//!
//! Answer sections are compared by a digest, the sum of the digests of their records. The order of
//! records therefore does not matter (RFC 2181 §5), and nothing is allocated.

use std::fmt;
use std::sync::Arc;

use avocet_wire::header::{QR, TC};
use avocet_wire::view::RecordSection;
use avocet_wire::{Header, MessageView, Rcode, Rtype, canonical};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::form::{Deviation, Deviations, FormReader};
use super::zone::Zone;
use crate::ask::Pick;
use crate::random::scramble;

/// The depth of the checks: what makes a response right.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Serialize,
    Deserialize,
    JsonSchema,
    clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum Depth {
    /// The ID belongs to a query in flight; every RCODE is right
    Id,
    /// In addition, the question matches, the RCODE is expected, and the message is well-formed
    Question,
    /// In addition, the answer section has the records of the zone file or of the reference server
    Answer,
}

/// The problem with an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    /// The message is not a response, or is malformed.
    Malformed,
    /// No query has this ID.
    Id,
    /// The query with this ID has another question.
    Question,
    /// The RCODE is not among the expected ones.
    Rcode,
    /// The records are not the expected ones.
    Answer,
    /// A record has another class than the question.
    Class,
    /// Octets follow the last record.
    Trailing,
    /// The answer is longer than the client permits.
    Long,
    /// The answer is truncated, which the scenario does not expect.
    Truncated,
    /// NOERROR without a record, which the scenario does not expect.
    Empty,
}

impl Wrong {
    /// All problems, in the order of the counts.
    pub(crate) const ALL: [Self; 10] = [
        Self::Malformed,
        Self::Id,
        Self::Question,
        Self::Rcode,
        Self::Answer,
        Self::Class,
        Self::Trailing,
        Self::Long,
        Self::Truncated,
        Self::Empty,
    ];
}

/// A set of RCODEs below 32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rcodes(u32);

impl Rcodes {
    /// Returns the set with one RCODE.
    #[must_use]
    pub const fn only(rcode: Rcode) -> Self {
        Self(1 << (rcode.0 & 31))
    }

    /// Returns the union of both sets.
    pub(crate) const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// All RCODEs.
    pub(crate) const ANY: Self = Self(u32::MAX);

    /// The RCODEs of a name that may or may not exist.
    pub(crate) const DATA_OR_NONE: Self =
        Self::only(Rcode::NOERROR).or(Self::only(Rcode::NXDOMAIN));

    /// Reports whether the RCODE is in the set.
    #[inline]
    #[must_use]
    pub const fn has(self, rcode: Rcode) -> bool {
        self.0 & (1 << (rcode.0 & 31)) != 0
    }
}

impl fmt::Display for Rcodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> =
            (0..24).map(Rcode).filter(|rcode| self.has(*rcode)).map(|r| r.to_string()).collect();
        f.write_str(&names.join(" or "))
    }
}

/// The expected answer to a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// The permitted RCODEs.
    pub rcodes: Rcodes,
    /// The digest of the answer section, if known.
    pub answers: Option<u64>,
}

/// The source of the expected answers.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// The scenario alone, which determines the RCODE.
    Scenario,
    /// A zone file.
    Zone(Arc<Zone>),
    /// The answers of another server to the listed queries. `None` means that the server gave no
    /// answer.
    Reference(Arc<[Option<Expected>]>),
    /// The answers of the reference server while they are being recorded.
    Learning(Vec<Option<Expected>>),
    /// Filtered names. Any form of a block is accepted; an answer with a usable address is wrong.
    Blocked,
}

/// A judge of the answers of one flow.
#[derive(Clone, Debug)]
pub(crate) struct Judge {
    pub(crate) depth: Depth,
    /// The RCODEs that are expected if the check has no more specific data.
    pub(crate) rcodes: Rcodes,
    pub(crate) source: Source,
    /// Deviations that do not count as faults.
    pub(crate) allowed: Deviations,
    form: FormReader,
}

impl Judge {
    /// Creates a judge that permits no deviation.
    pub(crate) fn new(depth: Depth, rcodes: Rcodes, source: Source) -> Self {
        Self { depth, rcodes, source, allowed: Deviations::NONE, form: FormReader::new() }
    }

    /// Judges an answer that has the question of its query. The client permits at most `longest`
    /// octets.
    pub(crate) fn look(&mut self, pick: Pick, octets: &[u8], longest: usize) -> Result<(), Wrong> {
        let Ok(message) = MessageView::new(octets) else { return Err(Wrong::Malformed) };
        if let Source::Learning(known) = &mut self.source {
            let expected = learn(&message, &mut self.form);
            if let Some(place) = pick.index().and_then(|index| known.get_mut(index)) {
                *place = expected;
            }
            return Ok(());
        }
        match self.form.read(&message) {
            Err(Wrong::Trailing) if self.allowed.has(Deviation::Trailing) => {}
            read => read?,
        }
        if octets.len() > longest && !self.allowed.has(Deviation::Long) {
            return Err(Wrong::Long);
        }
        let expected = self
            .expected(pick, &message)
            .unwrap_or(Expected { rcodes: self.rcodes, answers: None });
        let rcode = rcode(&message);
        if !expected.rcodes.has(rcode) {
            return Err(Wrong::Rcode);
        }
        let header = message.header();
        if header.has(TC) {
            // A truncated answer contains the part that fits (RFC 2181 §9).
            let is_allowed = self.allowed.has(Deviation::Truncated);
            return if is_allowed { Ok(()) } else { Err(Wrong::Truncated) };
        }
        if matches!(self.source, Source::Blocked) {
            return if leads_anywhere(&message) { Err(Wrong::Answer) } else { Ok(()) };
        }
        let Some(wanted) = expected.answers else {
            let is_empty = rcode == Rcode::NOERROR && header.counts[1] == 0;
            let is_fault = is_empty && !self.allowed.has(Deviation::Empty);
            return if is_fault { Err(Wrong::Empty) } else { Ok(()) };
        };
        match digest(&message, &mut self.form) {
            Some(found) if found == wanted => Ok(()),
            Some(_) => Err(Wrong::Answer),
            None => Err(Wrong::Malformed),
        }
    }

    fn expected(&self, pick: Pick, message: &MessageView<'_>) -> Option<Expected> {
        match &self.source {
            Source::Zone(zone) => {
                let question = message.question().ok()?;
                zone.answer(&question.qname().ok()?, question.qtype)
            }
            Source::Reference(known) => known.get(pick.index()?).copied().flatten(),
            _ => None,
        }
    }
}

/// Reports whether the message is a response. A response without a question must report an error
/// (RFC 1035 §4.1.1).
pub(crate) fn is_response(header: Header) -> bool {
    header.has(QR)
        && (header.counts[0] == 1 || (header.counts[0] == 0 && header.rcode() != Rcode::NOERROR))
}

fn rcode(message: &MessageView<'_>) -> Rcode {
    let header = message.header();
    let high = match header.counts[3] {
        0 => 0,
        _ => message.edns().ok().flatten().map_or(0, |edns| edns.rcode_high),
    };
    Rcode(u16::from(high) << 4 | header.rcode().0)
}

fn learn(message: &MessageView<'_>, form: &mut FormReader) -> Option<Expected> {
    let rcode = rcode(message);
    if !Rcodes::DATA_OR_NONE.has(rcode) {
        return None;
    }
    Some(Expected { rcodes: Rcodes::only(rcode), answers: Some(digest(message, form)?) })
}

/// Reports whether the answer contains an address that is not all zeros.
fn leads_anywhere(message: &MessageView<'_>) -> bool {
    let Ok(mut records) = message.section(RecordSection::Answer) else { return true };
    records.any(|record| {
        record.is_ok_and(|record| {
            matches!(record.rtype, Rtype::A | Rtype::AAAA)
                && record.rdata().iter().any(|octet| *octet != 0)
        })
    })
}

/// Returns the digest of an answer section, or `None` if a record violates its format. Signatures
/// are excluded, because they are sent only on request.
fn digest(message: &MessageView<'_>, form: &mut FormReader) -> Option<u64> {
    let mut sum = 0u64;
    let mut folded = Vec::new();
    for record in message.section(RecordSection::Answer).ok()? {
        let record = record.ok()?;
        if record.rtype == Rtype::RRSIG {
            continue;
        }
        let (owner, data) = form.expand(&record)?;
        folded.clear();
        canonical::append_rdata(record.rtype.0, data, &mut folded);
        sum = sum.wrapping_add(digest_record(owner.folded().wire(), record.rtype, &folded));
    }
    Some(sum)
}

/// Returns the digest of one record. The case of the owner and of names in the data is ignored.
pub(crate) fn digest_record(owner: &[u8], rtype: Rtype, rdata: &[u8]) -> u64 {
    let mut state = scramble(u64::from(rtype.0) << 32 | owner.len() as u64);
    for part in [owner, rdata] {
        for chunk in part.chunks(8) {
            let mut word = [0; 8];
            word.iter_mut().zip(chunk).for_each(|(to, from)| *to = *from);
            state = scramble(state ^ u64::from_le_bytes(word));
        }
        state = scramble(state ^ part.len() as u64);
    }
    state
}

#[cfg(test)]
mod tests {
    use super::*;
    use avocet_wire::builder::{Record, Section};
    use avocet_wire::{Builder, Class};

    const OWNER: &[u8] = b"\x01a\x04test\0";

    fn answer(rcode: Rcode, addresses: &[[u8; 4]]) -> Vec<u8> {
        let mut out = vec![0; 512];
        let mut message = Builder::new(&mut out, 512, 0, QR | rcode.0).unwrap();
        message.question(OWNER, Rtype::A, Class::IN).unwrap();
        for rdata in addresses {
            let record =
                Record { owner: OWNER, rtype: Rtype::A, class: Class::IN, ttl_secs: 5, rdata };
            message.record(Section::Answer, &record).unwrap();
        }
        let len = message.finish();
        out.truncate(len);
        out
    }

    fn judge(source: Source) -> Judge {
        Judge::new(Depth::Answer, Rcodes::only(Rcode::NOERROR), source)
    }

    impl Judge {
        fn look_udp(&mut self, pick: Pick, octets: &[u8]) -> Result<(), Wrong> {
            self.look(pick, octets, 512)
        }
    }

    #[test]
    fn the_rcode_is_checked() {
        let mut judge = judge(Source::Scenario);
        let whole = answer(Rcode::NOERROR, &[[192, 0, 2, 1]]);
        assert_eq!(judge.look_udp(Pick::listed(0), &whole), Ok(()));
        assert_eq!(
            judge.look_udp(Pick::listed(0), &answer(Rcode::SERVFAIL, &[])),
            Err(Wrong::Rcode)
        );
    }

    #[test]
    fn deviations_are_wrong_unless_they_are_allowed() {
        let whole = answer(Rcode::NOERROR, &[[192, 0, 2, 1]]);
        let truncated = {
            let mut octets = whole.clone();
            octets[2] |= (TC >> 8) as u8;
            octets
        };
        for (octets, longest, wrong, deviation) in [
            (answer(Rcode::NOERROR, &[]), 512, Wrong::Empty, Deviation::Empty),
            (truncated, 512, Wrong::Truncated, Deviation::Truncated),
            ([&whole[..], b"x"].concat(), 512, Wrong::Trailing, Deviation::Trailing),
            (whole.clone(), whole.len() - 1, Wrong::Long, Deviation::Long),
        ] {
            let mut strict = judge(Source::Scenario);
            assert_eq!(strict.look(Pick::listed(0), &octets, longest), Err(wrong));
            for allowed in Deviation::ALL {
                let mut judge = strict.clone();
                judge.allowed = Deviations::NONE.with(allowed);
                let looked = judge.look(Pick::listed(0), &octets, longest);
                assert_eq!(looked.is_ok(), allowed == deviation, "{wrong:?} {allowed:?}");
            }
        }
    }

    #[test]
    fn records_are_checked_against_a_zone_whatever_their_order() {
        let zone =
            Zone::parse(b"$ORIGIN test.\n@ SOA a b 1 1 1 1 1\na A 192.0.2.1\na A 192.0.2.2\n")
                .unwrap();
        let mut judge = judge(Source::Zone(Arc::new(zone)));
        let mut look = |addresses: &[[u8; 4]]| {
            judge.look_udp(Pick::listed(0), &answer(Rcode::NOERROR, addresses))
        };
        assert_eq!(look(&[[192, 0, 2, 2], [192, 0, 2, 1]]), Ok(()));
        assert_eq!(look(&[[192, 0, 2, 2], [192, 0, 2, 3]]), Err(Wrong::Answer));
        assert_eq!(look(&[[192, 0, 2, 2]]), Err(Wrong::Answer));
        assert_eq!(look(&[]), Err(Wrong::Answer));
    }

    #[test]
    fn what_a_reference_answered_is_expected() {
        let mut learning = judge(Source::Learning(vec![None; 2]));
        learning.look_udp(Pick::listed(1), &answer(Rcode::NOERROR, &[[1, 2, 3, 4]])).unwrap();
        let Source::Learning(known) = learning.source else { panic!("learning") };
        let mut judge = judge(Source::Reference(known.into()));
        assert_eq!(
            judge.look_udp(Pick::listed(1), &answer(Rcode::NOERROR, &[[1, 2, 3, 4]])),
            Ok(())
        );
        assert_eq!(
            judge.look_udp(Pick::listed(1), &answer(Rcode::NOERROR, &[[1, 2, 3, 5]])),
            Err(Wrong::Answer)
        );
        assert_eq!(
            judge.look_udp(Pick::listed(1), &answer(Rcode::NXDOMAIN, &[])),
            Err(Wrong::Rcode)
        );
        assert_eq!(
            judge.look_udp(Pick::listed(0), &answer(Rcode::NOERROR, &[[9, 9, 9, 9]])),
            Ok(()),
            "nothing is known of it"
        );
    }

    #[test]
    fn a_blocked_name_leads_nowhere() {
        let mut judge = judge(Source::Blocked);
        assert_eq!(judge.look_udp(Pick::listed(0), &answer(Rcode::NOERROR, &[[0; 4]])), Ok(()));
        assert_eq!(
            judge.look_udp(Pick::listed(0), &answer(Rcode::NOERROR, &[[192, 0, 2, 1]])),
            Err(Wrong::Answer)
        );
    }

    #[test]
    fn an_answer_that_cannot_be_read_is_wrong() {
        let mut whole = answer(Rcode::NOERROR, &[[1, 2, 3, 4]]);
        whole.pop();
        let zone = Zone::parse(b"$ORIGIN test.\n@ SOA a b 1 1 1 1 1\na A 1.2.3.4\n").unwrap();
        let mut judge = judge(Source::Zone(Arc::new(zone)));
        assert_eq!(judge.look_udp(Pick::listed(0), &whole), Err(Wrong::Malformed));
        assert_eq!(judge.look_udp(Pick::listed(0), &whole[..11]), Err(Wrong::Malformed));
    }
}
