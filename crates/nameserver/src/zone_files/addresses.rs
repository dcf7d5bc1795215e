//! The addresses behind the ALIAS records of zones that are published with these addresses. They
//! are looked up elsewhere.
//!
//! ```text
//! first look-up of each target --> a version with the addresses
//! other addresses ---------------> the next version
//! a target that is not resolved -> its last addresses stay; without any, its ALIAS record
//! ```

use std::collections::BTreeSet;
use std::fmt::Write;
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use avocet_config::transfer::AliasTransfer;
use avocet_config::zone::ZoneConfig;
use avocet_wire::NameBuf;
use avocet_zone::{HostedZone, TargetAddresses, ZoneId, published_addresses};

use super::ZoneFiles;
use crate::disk;
use crate::zone_signing::SigningError;

/// Shortest time between look-ups, in seconds: each change is a version of the zone, which all
/// other servers transfer.
const MIN_REFRESH_SECS: u32 = 60;
/// Longest time between look-ups, in seconds.
const MAX_REFRESH_SECS: u32 = 3_600;
/// Time after which targets that were not resolved are looked up again, in seconds. It doubles with
/// each look-up that fails as before.
const RETRY_SECS: u64 = 10;
/// Longest such time, in seconds.
const MAX_RETRY_SECS: u64 = 320;
/// The first line of the file with the last addresses. Each other line has a target, as its wire
/// form in hexadecimal digits, and its addresses.
const MAGIC: &str = "avocet-addresses-1";
/// Maximum number of octets of the file.
const MAX_OCTETS: u64 = 64 << 20;
/// Maximum number of targets in the description of a fault.
const MAX_SHOWN: usize = 3;

/// The addresses behind the ALIAS records of a zone.
#[derive(Clone, Default)]
pub(super) struct KnownAddresses {
    /// The folded targets of the source; empty if the zone is published in another way.
    targets: BTreeSet<Box<[u8]>>,
    /// The last addresses of targets.
    of_targets: TargetAddresses,
    /// The targets that their last look-up did not resolve.
    unresolved: BTreeSet<Box<[u8]>>,
    /// The Unix seconds of the last look-up and of the next one of all targets.
    looked_up_at_secs: u64,
    due_secs: u64,
    /// The Unix second of the next look-up of the targets that were not resolved, and the time to
    /// wait for it in seconds.
    retry_at_secs: u64,
    retry_secs: u64,
}

/// A zone whose targets must be looked up now.
pub struct AwaitedAddresses {
    /// The zone.
    pub id: ZoneId,
    /// The targets, in lower case and wire form: new ones first, then those that could be resolved.
    pub targets: Vec<Box<[u8]>>,
}

/// The result of the look-up of a target.
pub struct AddressLookUp {
    /// The target, in lower case and wire form.
    pub target: Box<[u8]>,
    /// The addresses; `None` if the target could not be resolved.
    pub addresses: Option<BTreeSet<IpAddr>>,
    /// The TTL of the addresses in seconds.
    pub ttl_secs: u32,
}

impl AddressLookUp {
    /// The result for a target that was resolved, with no more addresses than are published.
    pub fn found(target: &[u8], addresses: &BTreeSet<IpAddr>, ttl_secs: u32) -> Self {
        let addresses = Some(published_addresses(addresses).collect());
        Self { target: target.into(), addresses, ttl_secs }
    }

    /// The result for a target that could not be resolved.
    pub fn failed(target: &[u8]) -> Self {
        Self { target: target.into(), addresses: None, ttl_secs: 0 }
    }
}

impl KnownAddresses {
    /// Reads the last addresses, which other servers have since before a restart.
    pub(super) fn kept_in(path: &Path) -> Self {
        let read = disk::read(path, MAX_OCTETS).and_then(|octets| {
            let damaged = || io::Error::from(io::ErrorKind::InvalidData);
            let Some(octets) = octets else { return Ok(TargetAddresses::new()) };
            std::str::from_utf8(&octets).ok().and_then(read_addresses).ok_or_else(damaged)
        });
        let of_targets = read.unwrap_or_else(|error| {
            tracing::error!(%error, "cannot read {}", path.display());
            TargetAddresses::new()
        });
        Self { of_targets, ..Self::default() }
    }

    /// Writes the last addresses to disk.
    fn keep(&self, path: &Path) {
        let make = || path.parent().map_or(Ok(()), std::fs::create_dir_all);
        let text = text_of(&self.of_targets);
        if let Err(error) = make().and_then(|()| disk::replace(path, &[text.as_bytes()])) {
            tracing::error!(%error, "cannot keep the addresses behind ALIAS records on disk");
        }
    }

    /// Notes the targets of a source.
    pub(super) fn follow(&mut self, config: &ZoneConfig, source: &HostedZone) {
        self.targets = match config.transfer_alias {
            AliasTransfer::Addresses => source.alias_targets(),
            AliasTransfer::Refuse | AliasTransfer::Literal => BTreeSet::new(),
        };
        let targets = &self.targets;
        self.of_targets.retain(|target, _| targets.contains(target));
        self.unresolved.retain(|target| targets.contains(target));
    }

    /// Returns whether the zone is published with addresses.
    pub(super) fn are_used(&self) -> bool {
        !self.targets.is_empty()
    }

    /// Returns whether there was a look-up.
    pub(super) fn are_known(&self) -> bool {
        !self.of_targets.is_empty() || !self.unresolved.is_empty()
    }

    /// Returns whether a target was never looked up.
    pub(super) fn are_awaited(&self) -> bool {
        let is_known = |target: &[u8]| {
            self.of_targets.contains_key(target) || self.unresolved.contains(target)
        };
        !self.targets.iter().all(|target| is_known(target))
    }

    /// Lets the targets be looked up at the next opportunity.
    pub(super) const fn look_up_soon(&mut self) {
        self.due_secs = 0;
    }

    /// Returns the targets that must be looked up now, in the order of [`AwaitedAddresses`]. A
    /// target that is not resolved must not cause look-ups of the others: each of these may cause a
    /// version.
    fn due(&self, now_secs: u64) -> Vec<Box<[u8]>> {
        // A time before the last look-up means that the clock was set back; then everything is due.
        let is_over = |at_secs| now_secs >= at_secs || now_secs < self.looked_up_at_secs;
        let (are_due, is_retry) = (is_over(self.due_secs), is_over(self.retry_at_secs));
        let (mut targets, mut failed) = (Vec::new(), Vec::new());
        for target in &self.targets {
            if self.unresolved.contains(target) {
                failed.push(target);
            } else if are_due || !self.of_targets.contains_key(target) {
                targets.push(target);
            }
        }
        targets.sort_by_key(|target| self.of_targets.contains_key(*target));
        if are_due || is_retry {
            // If the time is not enough for all of them, each comes first now and then.
            let first = (now_secs % failed.len().max(1) as u64) as usize;
            failed.rotate_left(first);
            targets.append(&mut failed);
        }
        targets.into_iter().cloned().collect()
    }

    /// Keeps the results of a look-up. Returns whether another version must be published.
    fn note(&mut self, looked_up: Vec<AddressLookUp>, now_secs: u64) -> bool {
        let was_awaited = self.are_awaited();
        let (before, failed) = (self.of_targets.clone(), self.unresolved.clone());
        let is_retry = looked_up.iter().any(|one| failed.contains(&one.target));
        let (mut refresh_secs, mut count) = (MAX_REFRESH_SECS, 0);
        for one in looked_up.into_iter().filter(|one| self.targets.contains(&one.target)) {
            count += 1;
            match one.addresses {
                Some(addresses) => {
                    refresh_secs = refresh_secs.min(one.ttl_secs);
                    self.unresolved.remove(&one.target);
                    self.of_targets.insert(one.target, addresses);
                }
                None => drop(self.unresolved.insert(one.target)),
            }
        }
        let refresh_secs = u64::from(refresh_secs.max(MIN_REFRESH_SECS));
        // If only some targets were looked up, the others stay due at their earlier time.
        let is_partial = count < self.targets.len();
        let others = Some(self.due_secs).filter(|due| is_partial && *due > now_secs);
        self.due_secs = others.unwrap_or(u64::MAX).min(now_secs + refresh_secs);
        if self.unresolved.difference(&failed).next().is_some() {
            self.retry_secs = RETRY_SECS;
            self.retry_at_secs = now_secs + self.retry_secs;
        } else if is_retry {
            self.retry_secs = (2 * self.retry_secs).clamp(RETRY_SECS, MAX_RETRY_SECS);
            self.retry_at_secs = now_secs + self.retry_secs;
        }
        self.looked_up_at_secs = now_secs;
        was_awaited && !self.are_awaited() || before != self.of_targets
    }

    /// Returns the source with the known addresses.
    ///
    /// # Errors
    /// The zone would have errors.
    pub(super) fn flattened(
        &self,
        source: Arc<HostedZone>,
        now_secs: u64,
    ) -> Result<Arc<HostedZone>, SigningError> {
        if !self.are_used() {
            return Ok(source);
        }
        let zone = source.with_addresses(&self.of_targets, now_secs);
        zone.map(Arc::new).map_err(SigningError::Addresses)
    }

    /// Returns one sentence about targets that are not resolved.
    pub(super) fn fault(&self, zone: &ZoneId) -> Option<String> {
        let first = self.unresolved.iter().take(MAX_SHOWN);
        let mut shown: Vec<_> =
            first.filter_map(|name| Some(NameBuf::from_wire(name).ok()?.to_string())).collect();
        let rest = self.unresolved.len() - shown.len();
        if rest > 0 {
            shown.push(format!("{rest} more"));
        }
        (!shown.is_empty()).then(|| {
            let targets = shown.join(", ");
            format!(
                "zone {zone}: other servers have old addresses or none behind its ALIAS records, \
                 because this server cannot resolve {targets}"
            )
        })
    }
}

impl ZoneFiles {
    /// Returns the zones whose targets of ALIAS records must be looked up now. `now_secs` is the
    /// time since 1970.
    pub fn awaiting_addresses(&self, now_secs: u64) -> Vec<AwaitedAddresses> {
        let kept = self.kept();
        let mut zones: Vec<_> = kept.iter().filter(|(_, zone)| zone.source.is_some()).collect();
        // Zones with new targets come first, because their new versions wait for the look-up.
        zones.sort_by_key(|(_, zone)| !zone.addresses.are_awaited());
        let awaited = zones.into_iter().map(|(id, zone)| {
            let targets = zone.addresses.due(now_secs);
            AwaitedAddresses { id: id.clone(), targets }
        });
        awaited.filter(|zone| !zone.targets.is_empty()).collect()
    }

    /// Records the results of a look-up, and publishes the zone with them. Returns whether another
    /// version is in force. `now_secs` is the time since 1970.
    pub fn note_addresses(
        &self,
        id: &ZoneId,
        looked_up: Vec<AddressLookUp>,
        now_secs: u64,
    ) -> bool {
        let noted = self.alter(id, |zone, _| {
            let is_changed = zone.addresses.note(looked_up, now_secs);
            if is_changed {
                zone.addresses.keep(&zone.config.addresses_file());
            }
            is_changed && !zone.addresses.are_awaited() && self.sign_again(zone)
        });
        noted == Some(true)
    }
}

fn text_of(of_targets: &TargetAddresses) -> String {
    let mut text = format!("{MAGIC}\n");
    for (target, addresses) in of_targets {
        // Writing to a String does not fail.
        for octet in target {
            let _ = write!(text, "{octet:02x}");
        }
        for address in addresses {
            let _ = write!(text, " {address}");
        }
        text.push('\n');
    }
    text
}

fn read_addresses(text: &str) -> Option<TargetAddresses> {
    let lines = text.strip_prefix(MAGIC)?.strip_prefix('\n')?.lines();
    let read = |line: &str| {
        let mut words = line.split(' ');
        let digits = words.next()?.as_bytes().chunks(2);
        let octet = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        let target: Option<Box<[u8]>> = digits.map(octet).collect();
        let addresses: Option<BTreeSet<IpAddr>> = words.map(|word| word.parse().ok()).collect();
        Some((target?, addresses?))
    };
    lines.map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(target: &[u8], addresses: Option<&[&str]>, ttl_secs: u32) -> AddressLookUp {
        let parsed = |list: &[&str]| list.iter().map(|text| text.parse().unwrap()).collect();
        AddressLookUp { target: target.into(), addresses: addresses.map(parsed), ttl_secs }
    }

    const A: &[u8] = b"\x01a\x00";
    const B: &[u8] = b"\x01b\x00";

    fn known() -> KnownAddresses {
        KnownAddresses { targets: [A.into(), B.into()].into(), ..KnownAddresses::default() }
    }

    #[test]
    fn addresses_are_published_after_the_first_look_up_and_after_each_change() {
        let mut known = known();
        let is_due = |known: &KnownAddresses, now_secs| !known.due(now_secs).is_empty();
        assert!(is_due(&known, 0) && known.are_awaited());
        assert!(known.note(vec![found(A, Some(&["192.0.2.1"]), 300), found(B, None, 0)], 1_000));
        assert!(!known.are_awaited());
        // A target that is not resolved is soon looked up again.
        assert!(!is_due(&known, 1_000 + RETRY_SECS - 1) && is_due(&known, 1_000 + RETRY_SECS));
        let fault = known.fault(&ZoneId::common(b"\x07example\x00")).unwrap();
        assert!(fault.contains("example") && fault.ends_with("resolve b."), "{fault}");
        // The last addresses stay.
        assert!(!known.note(vec![found(A, None, 0), found(B, None, 0)], 1_010));
        assert_eq!(known.of_targets.len(), 1);
        let both = || vec![found(A, Some(&["192.0.2.1"]), 300), found(B, Some(&[]), 900)];
        assert!(known.note(both(), 1_020));
        assert_eq!(known.fault(&ZoneId::common(b"\x07example\x00")), None);
        assert!(!is_due(&known, 1_319) && is_due(&known, 1_320));
        assert!(!known.note(both(), 1_320));
        assert!(known.note(vec![found(A, Some(&["192.0.2.2"]), 1)], 1_620));
        assert!(!is_due(&known, 1_679) && is_due(&known, 1_680));
        known.look_up_soon();
        assert!(is_due(&known, 1_621));
    }

    #[test]
    fn a_target_that_is_not_resolved_is_tried_less_and_less_often_and_alone() {
        let mut known = known();
        let changing = |last: u8| found(A, Some(&[&format!("192.0.2.{last}")]), 0);
        known.note(vec![changing(1), found(B, None, 0)], 1_000);
        let mut looked_up = Vec::new();
        for now_secs in 1_001..3_000_u64 {
            let due = known.due(now_secs);
            if due.is_empty() {
                continue;
            }
            let results = due.iter().map(|target| match **target == *A {
                true => changing(now_secs as u8),
                false => found(B, None, 0),
            });
            known.note(results.collect(), now_secs);
            looked_up.push((now_secs, due.len()));
        }
        // Versions come once in a minute, with the look-up of both.
        let both: Vec<_> = looked_up.iter().filter(|(_, count)| *count == 2).collect();
        assert!(both.windows(2).all(|two| two[1].0 - two[0].0 == 60), "{looked_up:?}");
        let alone: Vec<_> = looked_up.iter().filter(|(_, count)| *count == 1).collect();
        assert_eq!(alone, [&(1_010, 1), &(1_030, 1)], "{looked_up:?}");
        // Another one that fails is tried soon.
        known.note(vec![found(A, None, 0), found(B, None, 0)], 3_000);
        assert_eq!(known.due(3_009), Vec::<Box<[u8]>>::new());
        assert_eq!(known.due(3_010).len(), 2);
        known.note(vec![changing(1), found(B, Some(&[]), 0)], 3_010);
        assert!(known.due(3_069).is_empty() && known.due(3_070).len() == 2);
    }

    #[test]
    fn new_targets_are_looked_up_first_and_failed_ones_last() {
        let names: Vec<Box<[u8]>> = (b'a'..=b'f').map(|letter| [1, letter, 0].into()).collect();
        let mut known = KnownAddresses {
            targets: names[..4].iter().cloned().collect(),
            ..KnownAddresses::default()
        };
        let results = [
            found(&names[0], None, 0),
            found(&names[1], Some(&["192.0.2.1"]), 0),
            found(&names[2], None, 0),
            found(&names[3], Some(&["192.0.2.1"]), 0),
        ];
        known.note(results.into(), 1_000);
        known.targets.extend(names[4..].iter().cloned());
        assert_eq!(known.due(1_001), names[4..]);
        let in_order = |now_secs| -> String {
            known.due(now_secs).iter().map(|name| char::from(name[1])).collect()
        };
        assert_eq!(in_order(1_060), "efbdac");
        assert_eq!(in_order(1_061), "efbdca");
    }

    #[test]
    fn no_more_addresses_are_kept_than_are_published() {
        let many = (0..5_000_u32).map(|number| IpAddr::V4(number.into()));
        let both = many.chain((0..5_000_u128).map(|number| IpAddr::V6(number.into()))).collect();
        let addresses = AddressLookUp::found(A, &both, 60).addresses.unwrap();
        let four = addresses.iter().filter(|address| address.is_ipv4()).count();
        assert_eq!((four, addresses.len()), (128, 256));
    }

    #[test]
    fn the_file_is_read_as_it_was_written_and_damage_is_noticed() {
        let mut known = known();
        known.note(
            vec![found(A, Some(&["192.0.2.1", "2001:db8::1"]), 0), found(B, Some(&[]), 0)],
            0,
        );
        let text = text_of(&known.of_targets);
        assert_eq!(read_addresses(&text), Some(known.of_targets));
        for text in ["", "avocet-addresses-1", "avocet-addresses-1\nx", "avocet-addresses-1\n00 x"]
        {
            assert_eq!(read_addresses(text), None, "{text}");
        }
    }
}
