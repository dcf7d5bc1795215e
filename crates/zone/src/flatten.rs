//! ALIAS records as addresses: the version of a zone for servers that do not answer ALIAS records.
//! The addresses of the targets are found elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::atomic::Ordering;

use avocet_dnssec::zonemd::ZONEMD;
use avocet_wire::{NameBuf, Rtype};

use crate::edits::{UnsoundZone, ZoneEdits};
use crate::tree::{Flags, HostedRecord, HostedSet, HostedZone, Node};

/// Maximum number of IPv4 addresses and of IPv6 addresses of a target that a zone gets. The target
/// belongs to others: it must not make the zone too large.
const MAX_TARGET_ADDRESSES: usize = 128;

/// The addresses of targets of ALIAS records, by the target, in lower case and wire form.
pub type TargetAddresses = BTreeMap<Box<[u8]>, BTreeSet<IpAddr>>;

/// Returns those addresses of a target that a zone gets. Of too many, these are the lowest: other
/// ones at each look-up would be a version each.
pub fn published_addresses(addresses: &BTreeSet<IpAddr>) -> impl Iterator<Item = IpAddr> {
    let four = addresses.iter().filter(|address| address.is_ipv4()).take(MAX_TARGET_ADDRESSES);
    let six = addresses.iter().filter(|address| address.is_ipv6()).take(MAX_TARGET_ADDRESSES);
    four.chain(six).copied()
}

impl HostedZone {
    /// Returns the targets of the ALIAS records, in lower case and wire form.
    #[must_use]
    pub fn alias_targets(&self) -> BTreeSet<Box<[u8]>> {
        self.iter().filter_map(|node| target_of(&alias_of(node)?)).collect()
    }

    /// Returns the zone with the addresses of the targets in place of the ALIAS records, with the
    /// TTL of the ALIAS record. The RRsets of addresses that a name already has stay. An ALIAS
    /// record stays if its target is not in `addresses`. It also stays if the target has no
    /// addresses and the name has no other records. A digest of the zone with its ALIAS records
    /// (ZONEMD) is left out. `now_secs` is the time since 1970.
    ///
    /// # Errors
    /// The zone would have errors.
    pub fn with_addresses(
        &self,
        addresses: &TargetAddresses,
        now_secs: u64,
    ) -> Result<Self, UnsoundZone> {
        let mut edits = ZoneEdits::of(self);
        edits.remove_all(self.apex(), |rtype| rtype == ZONEMD);
        for node in self.iter() {
            let Some(alias) = alias_of(node) else { continue };
            let target = target_of(&alias).and_then(|target| addresses.get(&target));
            let Some(found) = target else { continue };
            let is_alone = found.is_empty() && node.sets().count() == 1;
            let Some(first) = alias.iter().next().filter(|_| !is_alone) else { continue };
            edits.remove_all(node.name(), |rtype| rtype == Rtype::ALIAS);
            for address in published_addresses(found) {
                let (rtype, rdata) = match address {
                    IpAddr::V4(ip) => (Rtype::A, ip.octets().to_vec()),
                    IpAddr::V6(ip) => (Rtype::AAAA, ip.octets().to_vec()),
                };
                if node.set(rtype).is_none() {
                    let ttl_secs = first.ttl_secs;
                    edits.add(node.name(), &HostedRecord { rtype, ttl_secs, rdata: &rdata });
                }
            }
        }
        edits.finish(now_secs)
    }

    /// Permits answers from the version, but no transfers, because the addresses behind its ALIAS
    /// records are not known yet.
    pub fn hold_transfers(&self) {
        self.holds_transfers.store(true, Ordering::Relaxed);
    }

    /// Permits transfers again.
    pub fn release_transfers(&self) {
        self.holds_transfers.store(false, Ordering::Relaxed);
    }

    /// Returns whether transfers of the version are not permitted yet.
    #[must_use]
    pub fn holds_transfers(&self) -> bool {
        self.holds_transfers.load(Ordering::Relaxed)
    }
}

/// Returns the ALIAS RRset of a name that is in the zone, and not below a delegation.
fn alias_of(node: Node<'_>) -> Option<HostedSet<'_>> {
    node.set(Rtype::ALIAS).filter(|_| !node.flags().has(Flags::OCCLUDED))
}

fn target_of(alias: &HostedSet<'_>) -> Option<Box<[u8]>> {
    let target = NameBuf::from_wire(alias.iter().next()?.rdata).ok()?;
    Some(target.folded().view().wire().into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbound::tests::zone;

    fn text(zone: &HostedZone) -> Vec<String> {
        let line = |node: Node<'_>, record: HostedRecord<'_>| {
            let HostedRecord { rtype, ttl_secs, rdata } = record;
            format!("{} {ttl_secs} {rtype} {rdata:?}", node.name())
        };
        let lines = |node: Node<'_>| {
            node.sets().flat_map(|set| set.iter()).map(|one| line(node, one)).collect::<Vec<_>>()
        };
        zone.iter().flat_map(lines).filter(|line| !line.contains("SOA")).collect()
    }

    fn wire(text: &str) -> Box<[u8]> {
        let labels =
            text.split('.').flat_map(|label| [&[label.len() as u8], label.as_bytes()].concat());
        labels.chain([0]).collect()
    }

    #[test]
    fn addresses_take_the_place_of_alias_records() {
        let source = zone(
            "$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ NS ns\n@ 30 ALIAS Web.CDN.\nns A 192.0.2.1\nown A \
             192.0.2.2\nown ALIAS web.cdn.\n*.any ALIAS web.cdn.\nlost ALIAS lost.cdn.\nempty \
             ALIAS empty.cdn.\nmail MX 1 ns\nmail ALIAS empty.cdn.\nd NS ns.d\nns.d ALIAS web.cdn.\n",
        );
        let targets = ["empty.cdn", "lost.cdn", "web.cdn"].map(wire);
        assert!(source.alias_targets().iter().eq(targets.iter().collect::<BTreeSet<_>>()));
        let of_web = ["192.0.2.9", "2001:db8::9", "192.0.2.8"].map(|ip| ip.parse().unwrap());
        let addresses = [(wire("web.cdn"), of_web.into()), (wire("empty.cdn"), BTreeSet::new())];
        let flat = source.with_addresses(&addresses.into(), 0).unwrap();
        let lines = text(&flat);
        let of = |owner: &str| -> Vec<&str> {
            let own = lines.iter().filter_map(|line| line.strip_prefix(owner)?.strip_prefix(' '));
            own.filter(|line| !line.contains(" NS ")).collect()
        };
        let six = "AAAA [32, 1, 13, 184, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9]";
        let four = ["30 A [192, 0, 2, 8]", "30 A [192, 0, 2, 9]"];
        assert_eq!(of("example."), [four[0], four[1], &format!("30 {six}")]);
        // Records of the name itself stay.
        assert_eq!(of("own.example."), ["60 A [192, 0, 2, 2]", &format!("60 {six}")]);
        assert_eq!(of("*.any.example.").len(), 3);
        assert_eq!(of("mail.example.").len(), 1);
        // These names keep their ALIAS records: a target is not known, or the name must not vanish.
        for name in ["lost.example.", "empty.example.", "ns.d.example."] {
            assert!(of(name).iter().all(|line| line.contains("65401") || line.contains("ALIAS")));
            assert_eq!(of(name).len(), 1, "{name}");
        }
    }

    #[test]
    fn the_addresses_of_a_target_are_limited_and_a_digest_of_other_records_is_left_out() {
        let digest = "00".repeat(48);
        let source = zone(&format!(
            "$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\n@ ALIAS web.cdn.\n@ ZONEMD 1 \
             1 1 {digest}\n"
        ));
        assert!(source.zonemd().is_some());
        let many = (0..2_000_u32).map(|number| IpAddr::V4(number.into()));
        let many = many.chain(["2001:db8::1".parse().unwrap()]).collect();
        let flat = source.with_addresses(&[(wire("web.cdn"), many)].into(), 0).unwrap();
        assert!(flat.zonemd().is_none() && flat.first_alias().is_none());
        let count = |start: &str| text(&flat).iter().filter(|line| line.starts_with(start)).count();
        assert_eq!(count("example. 60 A "), MAX_TARGET_ADDRESSES);
        assert_eq!(count("example. 60 AAAA "), 1);
    }
}
