//! The addresses in an answer, and the names in its aliases and services.

use std::net::IpAddr;

use avocet_policy::rule::Country;
use avocet_resolver::Dns64;
use avocet_wire::special_purpose::{Scope, embedded};
use avocet_wire::view::RecordSection;
use avocet_wire::{FoldedName, FoldedNameBuf, MessageView, NameBuf, Rtype};

use super::{Asked, GeoDatabase};
use crate::query::alias::Alias;

/// Maximum number of addresses, and maximum number of names, of an answer that are examined. If
/// they do not suffice for the verdict, the client does not get the answer.
const MAX_FOUND: usize = 512;
/// Maximum number of aliases of one answer that are followed. Resolution follows fewer.
const MAX_CHAIN: usize = 16;
/// SvcParamKeys of address hints (RFC 9460 §7.3).
const IPV4_HINT: u16 = 4;
const IPV6_HINT: u16 = 6;

/// Buffers for the addresses and names of an answer.
#[derive(Default)]
pub(super) struct AnswerTargets {
    /// Addresses of A and AAAA records and of the hints in SVCB and HTTPS records, followed by IPv4
    /// addresses that are embedded in IPv6 addresses or translated by DNS64.
    pub addresses: Vec<IpAddr>,
    /// Targets of CNAME, DNAME, SVCB and HTTPS records.
    pub names: Vec<FoldedNameBuf>,
    /// The indexes in `names` of the targets of SVCB and HTTPS records.
    services: Vec<u16>,
    /// For each of `names`, whether a rule would allow the name if it were queried. Empty if no
    /// rule allows names.
    pub(super) freed: Vec<bool>,
    /// The countries of the addresses, without duplicates.
    pub countries: Vec<Country>,
    /// Whether the answer has more addresses or names than are examined.
    pub is_cut: bool,
}

impl AnswerTargets {
    /// Reads the answer section of a message. `translation` is the DNS64 in use.
    pub(super) fn read(&mut self, message: &[u8], translation: Option<&Dns64>) {
        self.addresses.clear();
        self.names.clear();
        self.freed.clear();
        self.services.clear();
        self.countries.clear();
        self.is_cut = false;
        self.read_records(message);
        for place in 0..self.addresses.len() {
            if let IpAddr::V6(address) = self.addresses[place] {
                let stands_for =
                    translation.and_then(|translation| translation.translated(address));
                self.addresses.extend(stands_for.or_else(|| embedded(address)).map(IpAddr::V4));
            }
        }
    }

    /// Returns the names that lists and conditions on lists examine: all names except those in
    /// `freed`.
    pub(super) fn judged(&self) -> impl Iterator<Item = &FoldedNameBuf> {
        let is_freed = |place: usize| self.freed.get(place).is_some_and(|freed| *freed);
        self.names
            .iter()
            .enumerate()
            .filter(move |(place, _)| !is_freed(*place))
            .map(|(_, name)| name)
    }

    /// Returns the targets of SVCB and HTTPS records.
    pub(super) fn services(&self) -> impl Iterator<Item = &FoldedNameBuf> {
        self.services.iter().filter_map(|place| self.names.get(usize::from(*place)))
    }

    /// Returns the addresses that clients reach. An address that DNS64 made is left out: it leads
    /// to the IPv4 address in it.
    pub(super) fn reached(&self, translation: Option<&Dns64>) -> impl Iterator<Item = IpAddr> {
        self.addresses.iter().copied().filter(move |address| match (address, translation) {
            (IpAddr::V6(address), Some(translation)) => translation.translated(*address).is_none(),
            _ => true,
        })
    }

    fn read_records(&mut self, message: &[u8]) {
        let Ok(records) = MessageView::new(message).and_then(|view| view.records()) else { return };
        for record in records
            .map_while(Result::ok)
            .take_while(|record| record.section == RecordSection::Answer)
        {
            let rdata = record.rdata();
            match record.rtype {
                Rtype::A => self.address(<[u8; 4]>::try_from(rdata).map(IpAddr::from).ok()),
                Rtype::AAAA => self.address(<[u8; 16]>::try_from(rdata).map(IpAddr::from).ok()),
                Rtype::CNAME | Rtype::DNAME => {
                    let at = record.ttl_offset() + 6;
                    self.name(NameBuf::read(message, at).ok());
                }
                Rtype::SVCB | Rtype::HTTPS => self.service(rdata),
                _ => {}
            }
        }
    }

    /// Looks up the countries of the addresses. An address that DNS64 made has the country of the
    /// IPv4 address in it.
    pub(super) fn locate(&mut self, database: &GeoDatabase, translation: Option<&Dns64>) {
        self.countries.clear();
        for address in &self.addresses {
            let v4 = match (address, translation) {
                (IpAddr::V6(address), Some(translation)) => {
                    translation.translated(*address).map(IpAddr::V4)
                }
                _ => None,
            };
            let country = database.country(v4.unwrap_or(*address));
            self.countries.extend(country.filter(|country| !self.countries.contains(country)));
        }
    }

    fn address(&mut self, address: Option<IpAddr>) {
        if self.addresses.len() < MAX_FOUND {
            self.addresses.extend(address);
        } else {
            self.is_cut |= address.is_some();
        }
    }

    fn name(&mut self, name: Option<NameBuf>) {
        if self.names.len() < MAX_FOUND {
            self.names.extend(name.map(|name| name.folded()));
        } else {
            self.is_cut |= name.is_some();
        }
    }

    /// Reads priority, target and parameters (RFC 9460 §2.2); the target is never compressed.
    fn service(&mut self, rdata: &[u8]) {
        let Some(target) = rdata.get(2..) else { return };
        let Ok(len) = avocet_wire::name::wire_len(target) else { return };
        let place = self.names.len();
        // The root as the target means the owner (RFC 9460 §2.5).
        self.name(NameBuf::from_wire(&target[..len]).ok().filter(|_| len > 1));
        self.services.extend((place..self.names.len()).map(|place| place as u16));
        let mut parameters = &target[len..];
        while let Some((head, rest)) = parameters.split_first_chunk::<4>() {
            let (key, len) =
                (u16::from_be_bytes([head[0], head[1]]), u16::from_be_bytes([head[2], head[3]]));
            let Some(value) = rest.get(..usize::from(len)) else { return };
            match key {
                IPV4_HINT => value
                    .as_chunks::<4>()
                    .0
                    .iter()
                    .for_each(|hint| self.address(Some(IpAddr::from(*hint)))),
                IPV6_HINT => value
                    .as_chunks::<16>()
                    .0
                    .iter()
                    .for_each(|hint| self.address(Some(IpAddr::from(*hint)))),
                _ => {}
            }
            parameters = &rest[usize::from(len)..];
        }
    }
}

/// Reports whether a SVCB or HTTPS record in the answer to a question of this type has a target for
/// which `is_meant` returns `true`. A client resolves the target itself, but connects to it in the
/// name of the owner.
pub fn has_service_target(
    message: &[u8],
    qtype: Rtype,
    is_meant: impl Fn(FoldedName<'_>) -> bool,
) -> bool {
    if !matches!(qtype, Rtype::SVCB | Rtype::HTTPS) {
        return false;
    }
    service_targets(message).iter().any(|name| is_meant(name.view()))
}

/// Returns the folded targets of the SVCB and HTTPS records in the answer section of a message.
pub fn service_targets(message: &[u8]) -> Vec<FoldedNameBuf> {
    let mut found = AnswerTargets::default();
    found.read_records(message);
    found.services().copied().collect()
}

/// Reports whether the answer section of a message has a private address.
pub fn has_private_address(message: &[u8]) -> bool {
    let mut found = AnswerTargets::default();
    found.read(message, None);
    found.addresses.iter().any(|address| Scope::Unroutable.contains(*address))
}

/// Returns the folded targets of the CNAME and ALIAS records in the answer section of a message, in
/// their order.
pub fn alias_targets(message: &[u8]) -> Vec<FoldedNameBuf> {
    let Ok(records) = MessageView::new(message).and_then(|view| view.records()) else {
        return Vec::new();
    };
    records
        .map_while(Result::ok)
        .take_while(|record| record.section == RecordSection::Answer)
        .filter(|record| matches!(record.rtype, Rtype::CNAME | Rtype::ALIAS))
        .filter_map(|record| NameBuf::read(message, record.ttl_offset() + 6).ok())
        .map(|target| target.folded())
        .collect()
}

/// Returns the folded aliases from the QNAME to the end of an answer; empty if the QTYPE is CNAME.
pub(super) fn chain(message: &[u8], asked: &Asked<'_>) -> Vec<Alias> {
    let mut chain: Vec<Alias> = Vec::new();
    if matches!(asked.qtype, Rtype::CNAME | Rtype::ANY) {
        return chain;
    }
    let Ok(records) = MessageView::new(message).and_then(|view| view.records()) else {
        return chain;
    };
    for record in
        records.map_while(Result::ok).take_while(|record| record.section == RecordSection::Answer)
    {
        let (Ok(owner), Ok(target)) =
            (record.owner(), NameBuf::read(message, record.ttl_offset() + 6))
        else {
            continue;
        };
        let (owner, ttl_secs) = (owner.folded(), record.ttl_secs());
        let end = chain.last().map_or(asked.qname.wire(), |last| last.target.wire());
        if record.rtype == Rtype::CNAME && owner.wire() == end && chain.len() < MAX_CHAIN {
            chain.push(Alias {
                owner,
                target: target.folded().into(),
                ttl_secs,
                note: 0,
                flattening: None,
            });
        }
    }
    chain
}

#[cfg(test)]
mod tests {
    use super::*;
    use avocet_wire::Class;
    use avocet_wire::builder::{Builder, Record, Section};
    use avocet_wire::header::QR;

    #[test]
    fn aliases_addresses_and_hints_are_found() {
        let mut out = [0; 512];
        let mut builder = Builder::new(&mut out, 512, 0, QR).unwrap();
        let owner: &[u8] = b"\x01a\x07example\x00";
        builder.question(owner, Rtype::HTTPS, Class::IN).unwrap();
        let service: &[u8] =
            b"\x00\x01\x03CDN\x04test\x00\x00\x04\x00\x08\xc0\x00\x02\x01\x0a\x00\x00\x01";
        let sets: [(Rtype, &[u8]); 4] = [
            (Rtype::CNAME, b"\x01b\x07example\x00"),
            (Rtype::A, &[192, 0, 2, 9]),
            (Rtype::HTTPS, service),
            (
                Rtype::HTTPS,
                b"\x00\x01\x00\x00\x06\x00\x10\xfd\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01",
            ),
        ];
        for (rtype, rdata) in sets {
            let record = Record { owner, rtype, class: Class::IN, ttl_secs: 5, rdata };
            builder.record(Section::Answer, &record).unwrap();
        }
        let len = builder.finish();
        let mut found = AnswerTargets::default();
        found.read(&out[..len], None);
        let addresses: Vec<String> = found.addresses.iter().map(ToString::to_string).collect();
        assert_eq!(addresses, ["192.0.2.9", "192.0.2.1", "10.0.0.1", "fd00::1"]);
        let names: Vec<&[u8]> = found.names.iter().map(|name| name.wire()).collect();
        assert_eq!(names, [&b"\x01b\x07example\x00"[..], b"\x03cdn\x04test\x00"]);
    }
}
