//! Triggers: the conditions that owners of policy records encode.

use std::net::{Ipv4Addr, Ipv6Addr};

use avocet_wire::name;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The kind of trigger of a response policy zone: what an entry compares. The kinds are in the
/// order of their precedence within a zone.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, JsonSchema,
)]
pub enum TriggerKind {
    /// The address of the client.
    #[serde(rename = "client-ip")]
    ClientAddress,
    /// The queried name (QNAME), or a name to which the answer leads.
    #[serde(rename = "qname")]
    Qname,
    /// An address in the answer.
    #[serde(rename = "ip")]
    AnswerAddress,
    /// The name of a name server of a zone that contains the queried name.
    #[serde(rename = "nsdname")]
    NsName,
    /// The address of a name server of a zone that contains the queried name.
    #[serde(rename = "nsip")]
    NsAddress,
}

impl TriggerKind {
    /// All kinds, in the order of precedence.
    pub const ALL: [Self; 5] =
        [Self::ClientAddress, Self::Qname, Self::AnswerAddress, Self::NsName, Self::NsAddress];

    /// Returns the name used in zones (draft-vixie-dnsop-dns-rpz §4).
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ClientAddress => "client-ip",
            Self::Qname => "qname",
            Self::AnswerAddress => "ip",
            Self::NsName => "nsdname",
            Self::NsAddress => "nsip",
        }
    }
}

/// A prefix. An IPv4 prefix is represented as an IPv6 prefix below `::ffff:0:0/96`, so its length
/// is increased by 96.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Network {
    pub(super) bits: u128,
    pub(super) len: u8,
}

/// A trigger that was decoded from an owner name, without the origin of its zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Trigger<'o> {
    Address(TriggerKind, Network),
    /// A trigger on a name or, with `Covers::Below`, on the names below it. Holds the labels of the
    /// name without the root.
    Name(TriggerKind, Covers, &'o [u8]),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Covers {
    Name,
    Below,
}

/// The labels of an owner before the origin, in folded form.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct OwnLabels<'o> {
    octets: &'o [u8],
    /// Offset of the last label.
    last: usize,
}

impl<'o> OwnLabels<'o> {
    /// Returns the labels of a name in wire form; `None` if the name is not in the zone.
    #[inline]
    pub(super) fn of(owner: &'o [u8], origin: &[u8]) -> Option<Self> {
        let end = owner.len().checked_sub(origin.len())?;
        let (mut last, mut at) = (0, 0);
        while at < end {
            (last, at) = (at, at + 1 + usize::from(owner[at]));
        }
        let (octets, rest) = owner.split_at(end);
        (at == end && rest == origin).then_some(Self { octets, last })
    }

    /// Reports whether the owner is the origin.
    pub(super) const fn is_empty(&self) -> bool {
        self.octets.is_empty()
    }
}

/// The label directly before the origin that marks the kind of a trigger. Triggers on QNAMEs have
/// no such label.
const MARKS: [(&[u8], TriggerKind); 4] = [
    (b"rpz-client-ip", TriggerKind::ClientAddress),
    (b"rpz-ip", TriggerKind::AnswerAddress),
    (b"rpz-nsdname", TriggerKind::NsName),
    (b"rpz-nsip", TriggerKind::NsAddress),
];

/// Parses the labels before the origin. Returns `None` if they are not a trigger.
#[inline]
pub(super) fn read(own: OwnLabels<'_>) -> Option<Trigger<'_>> {
    let (before, last) = own.octets.split_at(own.last);
    let (_, last) = last.split_first()?;
    if !last.starts_with(b"rpz-") {
        return named(TriggerKind::Qname, own.octets);
    }
    match MARKS.iter().find(|(mark, _)| *mark == last).map(|(_, kind)| *kind)? {
        TriggerKind::NsName => named(TriggerKind::NsName, before),
        kind => network(&name::labels(before).collect::<Vec<_>>())
            .map(|network| Trigger::Address(kind, network)),
    }
}

fn named(kind: TriggerKind, labels: &[u8]) -> Option<Trigger<'_>> {
    match labels {
        [] => None,
        [1, b'*', rest @ ..] => Some(Trigger::Name(kind, Covers::Below, rest)),
        _ => Some(Trigger::Name(kind, Covers::Name, labels)),
    }
}

/// Parses `LENGTH.D.C.B.A` as A.B.C.D/LENGTH, and `LENGTH.W8...W1` with at most one `zz` for zeros
/// as IPv6. Numbers have no leading zeros, and no bit after the prefix is set (draft §4.1.1).
fn network(labels: &[&[u8]]) -> Option<Network> {
    let texts: Option<Vec<&str>> = labels.iter().map(|label| str::from_utf8(label).ok()).collect();
    let texts = texts?;
    let (len, reversed) = texts.split_first()?;
    let len = decimal(len).filter(|len| *len > 0)?;
    let groups: Vec<&str> = reversed.iter().rev().copied().collect();
    let v4: Option<Vec<u8>> = groups.iter().map(|group| decimal(group)).collect();
    let (bits, len) = match v4.and_then(|octets| <[u8; 4]>::try_from(octets).ok()) {
        Some(octets) if len <= 32 => (Ipv4Addr::from(octets).to_ipv6_mapped().to_bits(), len + 96),
        Some(_) => return None,
        None if len <= 128 => (v6(&groups)?, len),
        None => return None,
    };
    (bits & !mask(len) == 0).then_some(Network { bits, len })
}

fn decimal(text: &str) -> Option<u8> {
    text.parse().ok().filter(|_| is_plain(text) && text.bytes().all(|octet| octet.is_ascii_digit()))
}

/// Reports whether a number has no leading zeros.
fn is_plain(number: &str) -> bool {
    number == "0" || !number.starts_with('0')
}

fn v6(groups: &[&str]) -> Option<u128> {
    let filled = groups.iter().filter(|group| **group == "zz").count();
    let known: Vec<&str> = groups.iter().copied().filter(|group| *group != "zz").collect();
    if filled > 1 || known.len() > 8 || (filled == 0 && known.len() != 8) {
        return None;
    }
    let mut segments = Vec::with_capacity(8);
    for group in groups {
        match *group {
            "zz" => segments.extend(std::iter::repeat_n(0, 8 - known.len())),
            group if group.len() <= 4 && is_plain(group) => {
                segments
                    .push(u16::from_str_radix(group, 16).ok().filter(|_| !group.starts_with('+'))?);
            }
            _ => return None,
        }
    }
    let segments = <[u16; 8]>::try_from(segments).ok()?;
    Some(Ipv6Addr::from(segments).to_bits())
}

/// Returns a mask of the first `len` bits.
pub(super) const fn mask(len: u8) -> u128 {
    match len {
        0 => 0,
        len => u128::MAX << (128 - len),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(owner: &str, expected: Option<&str>) {
        let labels =
            owner.split('.').flat_map(|label| [&[label.len() as u8], label.as_bytes()].concat());
        let wire: Vec<u8> = labels.chain(*b"\x03rpz\0").collect();
        let own = OwnLabels::of(&wire, b"\x03rpz\0").unwrap();
        let shown = read(own).map(|trigger| match trigger {
            Trigger::Address(kind, Network { bits, len }) => {
                format!("{kind:?} {}/{len}", Ipv6Addr::from_bits(bits))
            }
            Trigger::Name(kind, covers, labels) => {
                let name = avocet_wire::NameBuf::from_wire(&[labels, &[0]].concat()).unwrap();
                format!("{kind:?} {covers:?} {name}")
            }
        });
        assert_eq!(shown.as_deref(), expected, "{owner}");
    }

    #[test]
    fn own_labels_end_where_the_origin_begins() {
        let own = |owner, origin| OwnLabels::of(owner, origin).map(|own| own.octets);
        assert_eq!(own(b"\x01a\x03rpz\0", b"\x03rpz\0"), Some(&b"\x01a"[..]));
        assert_eq!(own(b"\x03rpz\0", b"\x03rpz\0"), Some(&b""[..]));
        assert_eq!(own(b"\x05a\x03rpz\0", b"\x03rpz\0"), None);
        assert_eq!(own(b"\x01a\x03zpr\0", b"\x03rpz\0"), None);
        assert_eq!(own(b"\0", b"\x03rpz\0"), None);
    }

    #[test]
    fn names_are_triggers_of_qnames_and_of_servers() {
        check("bad.example", Some("Qname Name bad.example."));
        check("*.bad.example", Some("Qname Below bad.example."));
        check("*", Some("Qname Below ."));
        check("ns.bad.example.rpz-nsdname", Some("NsName Name ns.bad.example."));
        check("*.bad.example.rpz-nsdname", Some("NsName Below bad.example."));
    }

    #[test]
    fn addresses_are_reversed_after_the_length_of_the_prefix() {
        check("32.1.2.0.192.rpz-ip", Some("AnswerAddress ::ffff:192.0.2.1/128"));
        check("24.0.2.0.192.rpz-client-ip", Some("ClientAddress ::ffff:192.0.2.0/120"));
        check("128.57.zz.102.db8.2001.rpz-ip", Some("AnswerAddress 2001:db8:102::57/128"));
        check("48.zz.101.db8.2001.rpz-nsip", Some("NsAddress 2001:db8:101::/48"));
        check("32.zz.db8.2001.rpz-ip", Some("AnswerAddress 2001:db8::/32"));
        check("128.8.7.6.5.4.3.2.1.rpz-ip", Some("AnswerAddress 1:2:3:4:5:6:7:8/128"));
    }

    #[test]
    fn what_is_no_trigger_is_none() {
        for owner in [
            "33.1.2.0.192.rpz-ip",
            "129.zz.1.rpz-ip",
            "0.0.0.0.0.rpz-ip",
            "24.10.100.51.198.rpz-ip",
            "32.10.zz.db8.2001.rpz-ip",
            "24.0.02.0.192.rpz-ip",
            "128.1.zz.0db8.2001.rpz-ip",
            "128.+1.zz.db8.2001.rpz-ip",
            "24.256.2.0.192.rpz-ip",
            "24.2.0.192.rpz-ip",
            "128.zz.1.zz.2.rpz-ip",
            "x.1.2.0.192.rpz-ip",
            "+8.1.2.0.10.rpz-ip",
            "rpz-ip",
            "rpz-nsdname",
            "a.rpz-unheard-of",
        ] {
            check(owner, None);
        }
    }
}
