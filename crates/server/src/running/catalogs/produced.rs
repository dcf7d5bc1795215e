//! The catalogs that this server writes.
//!
//! If a zone moves from one of these catalogs to another, BIND and Knot DNS keep it only if they
//! have the announcement (`coo`, RFC 9432 §4.4.1) in the old catalog before the new one lists the
//! zone:
//!
//! ```text
//! old catalog:   Stays -- reload --> Leaves ------------------------- KEEP_SECS --> (not listed)
//! new catalog:   (not listed) --------------- ANNOUNCE_SECS --> Joins -- REPEAT_SECS --> Stays
//! ```
//! The steps are comments in the files of the catalogs, so a move continues after a restart.

use std::collections::BTreeMap;
use std::{fmt, fs, io};

use avocet_config::catalog::CatalogRole;
use avocet_config::name::shown;
use avocet_config::zone::ZoneConfig;
use avocet_control::zones::{CatalogMove, CatalogMoveStep};
use avocet_nameserver::clock::wall_secs;
use avocet_nameserver::disk;

use super::MAX_OCTETS;

/// The SOA record up to the serial.
const SOA: &str = "@ 3600 SOA invalid. invalid. ";
/// Seconds after which secondaries query a catalog again, and after which they try again.
const REFRESH_SECS: u64 = 3_600;
const RETRY_SECS: u64 = 600;
/// Seconds from the announcement of a move until the new catalog lists the zone. By then, all
/// secondaries that are in contact have the announcement.
pub(crate) const ANNOUNCE_SECS: u64 = REFRESH_SECS + RETRY_SECS;
/// Seconds during which both catalogs list a zone that moves. Meanwhile, all secondaries must have
/// the new catalog.
const KEEP_SECS: u64 = 86_400;
/// Seconds from the new catalog's first version with the zone until its next one. BIND refuses the
/// zone if it was out of contact and received the new catalog before the announcement. It does not
/// repeat the attempt until it receives another version.
const REPEAT_SECS: u64 = KEEP_SECS + ANNOUNCE_SECS;

/// Whether the catalogs are written with the next step of moves that are due for one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Steps {
    /// Moves begin, but do not proceed. After the start, secondaries may have missed the previous
    /// step.
    Begin,
    Proceed,
}

/// The part of a catalog in the move of a zone that it lists.
#[derive(Clone, PartialEq, Eq)]
enum MovePart {
    /// The zone does not move.
    Stays,
    /// The catalog announces that the zone moves to this catalog since this Unix second.
    Leaves { to: String, since_secs: u64 },
    /// The catalog lists the zone since this Unix second.
    Joins { since_secs: u64 },
}

/// A zone with `member-of`.
struct Member<'c> {
    /// The unique label.
    label: String,
    zone: &'c ZoneConfig,
    /// The catalog in `member-of`.
    of: &'c [u8],
}

/// A zone in a catalog.
struct CatalogEntry<'c> {
    member: &'c Member<'c>,
    part: MovePart,
}

/// A zone in the file of a catalog.
struct Listed {
    /// The name as text.
    zone: String,
    part: MovePart,
}

/// A catalog as it is in its file.
struct Present<'c> {
    catalog: &'c ZoneConfig,
    text: String,
    /// The zones by unique label.
    listed: BTreeMap<String, Listed>,
}

/// All catalogs of this server before they are written.
struct Catalogs<'c> {
    present: Vec<Present<'c>>,
    /// Whether all files could be read.
    is_complete: bool,
    steps: Steps,
    now_secs: u64,
}

/// The text of a catalog with a serial.
struct CatalogText<'c> {
    serial: u32,
    entries: &'c [CatalogEntry<'c>],
}

impl fmt::Display for CatalogText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "; Written by Avocet: the zones with `member-of`.")?;
        writeln!(f, "{SOA}{} {REFRESH_SECS} {RETRY_SECS} 2147483646 0", self.serial)?;
        writeln!(f, "@ 0 NS invalid.\nversion 0 TXT \"2\"")?;
        for CatalogEntry { member: Member { label, zone, .. }, part } in self.entries {
            let name = shown(&zone.name);
            match part {
                MovePart::Stays => writeln!(f, "{label}.zones 0 PTR {name}")?,
                MovePart::Joins { since_secs } => {
                    writeln!(f, "{label}.zones 0 PTR {name} ; since {since_secs}")?;
                }
                MovePart::Leaves { to, since_secs } => {
                    writeln!(f, "{label}.zones 0 PTR {name}")?;
                    writeln!(f, "coo.{label}.zones 0 PTR {to} ; since {since_secs}")?;
                }
            }
            if let CatalogRole::Listed { group, .. } = &zone.catalog
                && !group.is_empty()
            {
                writeln!(f, "group.{label}.zones 0 TXT \"{group}\"")?;
            }
        }
        Ok(())
    }
}

/// Writes the catalogs of this server for zones that are about to be in force. Other servers drop
/// zones that a catalog no longer lists.
pub(crate) fn write_catalogs(zones: &[ZoneConfig]) {
    write_catalogs_at(zones, Steps::Begin, wall_secs());
}

/// Returns the moves in progress, by the names of their zones in wire form. Reads the files of the
/// catalogs, which have the steps, if there are several.
pub(crate) fn moves_of(zones: &[ZoneConfig]) -> BTreeMap<Box<[u8]>, CatalogMove> {
    moves_at(zones, wall_secs())
}

fn moves_at(zones: &[ZoneConfig], now_secs: u64) -> BTreeMap<Box<[u8]>, CatalogMove> {
    let producers: Vec<_> =
        zones.iter().filter(|zone| zone.catalog == CatalogRole::Producer).collect();
    if producers.len() < 2 {
        return BTreeMap::new();
    }
    let present: Vec<_> = producers.into_iter().filter_map(|one| Present::read(one).ok()).collect();
    let catalogs = Catalogs { present, is_complete: true, steps: Steps::Begin, now_secs };
    let members = zones.iter().filter_map(Member::new);
    let moving = members.filter_map(|Member { label, zone, .. }| {
        Some((zone.name.clone(), catalogs.move_of(&label)?))
    });
    moving.collect()
}

/// Writes the catalogs again if zones may be moving from one to another, with the steps that are
/// due.
pub(crate) fn renew_catalogs(zones: &[ZoneConfig]) {
    let producers = zones.iter().filter(|zone| zone.catalog == CatalogRole::Producer);
    if producers.count() > 1 {
        write_catalogs_at(zones, Steps::Proceed, wall_secs());
    }
}

/// Writes the catalogs at this Unix second.
fn write_catalogs_at(zones: &[ZoneConfig], steps: Steps, now_secs: u64) {
    let failed = |catalog: &ZoneConfig, error: io::Error| {
        let (name, file) = (shown(&catalog.name), catalog.file.display());
        tracing::error!("zone {name}: cannot write the catalog {file}: {error}");
    };
    let mut catalogs = Catalogs { present: Vec::new(), is_complete: true, steps, now_secs };
    for catalog in zones.iter().filter(|zone| zone.catalog == CatalogRole::Producer) {
        match Present::read(catalog) {
            Ok(present) => catalogs.present.push(present),
            Err(error) => {
                failed(catalog, error);
                catalogs.is_complete = false;
            }
        }
    }
    let members: Vec<_> = zones.iter().filter_map(Member::new).collect();
    for catalog in &catalogs.present {
        let entries = catalogs.entries_of(catalog, &members);
        if let Err(error) = catalog.write(&entries, now_secs) {
            failed(catalog.catalog, error);
        }
    }
}

impl<'c> Member<'c> {
    fn new(zone: &'c ZoneConfig) -> Option<Self> {
        let CatalogRole::Listed { catalog, .. } = &zone.catalog else { return None };
        Some(Self { label: unique_label(&zone.name), zone, of: catalog })
    }
}

impl Catalogs<'_> {
    /// Returns the zones that a catalog must list now.
    fn entries_of<'m>(&self, of: &Present<'_>, members: &'m [Member<'m>]) -> Vec<CatalogEntry<'m>> {
        let entry = |member: &'m Member<'m>| {
            let label = &member.label;
            let to = self.destination(label, member.of);
            let part = match *of.catalog.name == *to {
                true => self.part_of_destination(of, label)?,
                false => self.part_of_origin(of, label, to)?,
            };
            Some(CatalogEntry { member, part })
        };
        members.iter().filter_map(entry).collect()
    }

    /// Returns the catalog to which a zone moves or belongs. If two catalogs list it, this is the
    /// later one: secondaries may have followed the move, so that it must end before another one
    /// begins.
    fn destination<'z>(&'z self, label: &str, configured: &'z [u8]) -> &'z [u8] {
        let next = |catalog: &Present<'_>| {
            let MovePart::Leaves { to, .. } = catalog.part_of(label)? else { return None };
            let mut present = self.present.iter();
            present.find(|next| shown(&next.catalog.name) == *to && next.listed.contains_key(label))
        };
        self.present.iter().find_map(next).map_or(configured, |next| &*next.catalog.name)
    }

    /// Returns the part of the catalog to which a zone moves or belongs; `None` if the catalog must
    /// not list it yet.
    fn part_of_destination(&self, of: &Present<'_>, label: &str) -> Option<MovePart> {
        let mut origins = self
            .present
            .iter()
            .filter(|other| other.catalog.name != of.catalog.name)
            .filter_map(|other| other.part_of(label))
            .peekable();
        let is_last = origins.peek().is_none();
        match of.part_of(label) {
            Some(MovePart::Joins { since_secs }) => {
                let is_over = is_last && self.is_due(*since_secs, REPEAT_SECS);
                let since_secs = self.now_secs.min(*since_secs);
                Some(if is_over { MovePart::Stays } else { MovePart::Joins { since_secs } })
            }
            Some(_) => Some(MovePart::Stays),
            // The zone may be in the catalog file that cannot be read.
            None if !self.is_complete => None,
            None if is_last => Some(MovePart::Stays),
            None => {
                let own = shown(&of.catalog.name);
                let is_announced = |part: &MovePart| match part {
                    MovePart::Leaves { to, since_secs } => {
                        *to == own && self.is_due(*since_secs, ANNOUNCE_SECS)
                    }
                    _ => false,
                };
                let joins = MovePart::Joins { since_secs: self.now_secs };
                origins.all(is_announced).then_some(joins)
            }
        }
    }

    /// Returns the part of a catalog from which a zone moves to another one; `None` if the catalog
    /// does not list it, or no longer.
    fn part_of_origin(&self, of: &Present<'_>, label: &str, to: &[u8]) -> Option<MovePart> {
        let name = shown(to);
        let since_secs = match of.part_of(label)? {
            MovePart::Leaves { to, since_secs } if *to == name => self.now_secs.min(*since_secs),
            _ => self.now_secs,
        };
        let next = self.present.iter().find(|next| *next.catalog.name == *to);
        let is_over = match next.and_then(|next| next.part_of(label)) {
            Some(MovePart::Joins { since_secs }) => self.is_due(*since_secs, KEEP_SECS),
            Some(_) => self.is_due(since_secs, KEEP_SECS),
            None => false,
        };
        (!is_over).then_some(MovePart::Leaves { to: name, since_secs })
    }

    /// Returns the move of a zone, if one of the catalogs announces it.
    fn move_of(&self, label: &str) -> Option<CatalogMove> {
        let leaves = |catalog: &Present<'_>| match catalog.part_of(label)? {
            MovePart::Leaves { to, since_secs } => {
                Some((shown(&catalog.catalog.name), to.clone(), *since_secs))
            }
            _ => None,
        };
        let (from, to, announced_secs) = self.present.iter().find_map(leaves)?;
        let next = self.present.iter().find(|next| shown(&next.catalog.name) == to);
        let (step, since_secs, wait_secs) = match next.and_then(|next| next.part_of(label)) {
            Some(MovePart::Joins { since_secs }) => {
                (CatalogMoveStep::ListedTwice, *since_secs, KEEP_SECS)
            }
            Some(_) => (CatalogMoveStep::ListedTwice, announced_secs, KEEP_SECS),
            None => (CatalogMoveStep::Announced, announced_secs, ANNOUNCE_SECS),
        };
        // Without a valid time in the file, the step begins again.
        let since = since_secs.min(self.now_secs);
        Some(CatalogMove { from, to, step, since, next_at: since + wait_secs })
    }

    /// Returns whether the next step of a move is due: `after_secs` have passed since the last
    /// step, at `since_secs`.
    fn is_due(&self, since_secs: u64, after_secs: u64) -> bool {
        self.steps == Steps::Proceed && self.now_secs.saturating_sub(since_secs) >= after_secs
    }
}

impl<'c> Present<'c> {
    fn read(catalog: &'c ZoneConfig) -> io::Result<Self> {
        let octets = disk::read(&catalog.file, MAX_OCTETS)?.unwrap_or_default();
        let text = String::from_utf8_lossy(&octets).into_owned();
        let mut listed: BTreeMap<String, Listed> = BTreeMap::new();
        for line in text.lines() {
            let words: Vec<_> = line.split(' ').collect();
            let Some((label, rest)) = words.split_first() else { continue };
            let Some(label) = label.strip_suffix(".zones") else { continue };
            // The number is missing in no file of this server; without it, the step begins again.
            let since_secs = |text: &str| text.parse().unwrap_or(u64::MAX);
            match (label.strip_prefix("coo."), rest) {
                (Some(label), ["0", "PTR", to, ";", "since", since]) => {
                    let leaves =
                        MovePart::Leaves { to: (*to).to_owned(), since_secs: since_secs(since) };
                    listed.entry(label.to_owned()).and_modify(|listed| listed.part = leaves);
                }
                (None, ["0", "PTR", zone, rest @ ..]) => {
                    let part = match rest {
                        [";", "since", since] => MovePart::Joins { since_secs: since_secs(since) },
                        _ => MovePart::Stays,
                    };
                    listed.insert(label.to_owned(), Listed { zone: (*zone).to_owned(), part });
                }
                _ => {}
            }
        }
        Ok(Self { catalog, text, listed })
    }

    fn part_of(&self, label: &str) -> Option<&MovePart> {
        self.listed.get(label).map(|listed| &listed.part)
    }

    /// Writes the catalog if it differs from its file.
    fn write(&self, entries: &[CatalogEntry<'_>], now_secs: u64) -> io::Result<()> {
        let soa = self.text.lines().find_map(|line| line.strip_prefix(SOA));
        let serial = soa.and_then(|rest| rest.split(' ').next()?.parse::<u32>().ok());
        let text = |serial| CatalogText { serial, entries }.to_string();
        if serial.is_some_and(|serial| text(serial) == self.text) {
            return Ok(());
        }
        if serial.is_none() && !self.text.is_empty() {
            let reason = "the file has something else than the catalog, and is not replaced: move \
                          it away, or set another `file`";
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, reason));
        }
        let clock = now_secs as u32;
        let next = serial.map_or(clock, |serial| clock.max(serial.wrapping_add(1)));
        if let Some(directory) = self.catalog.file.parent() {
            fs::create_dir_all(directory)?;
        }
        disk::replace_shared(&self.catalog.file, &[text(next).as_bytes()])?;
        self.log_moves(entries);
        Ok(())
    }

    /// Logs the steps of moves.
    fn log_moves(&self, entries: &[CatalogEntry<'_>]) {
        let catalog = shown(&self.catalog.name);
        for CatalogEntry { member: Member { label, zone, .. }, part } in entries {
            let zone = shown(&zone.name);
            match (self.part_of(label), part) {
                (Some(MovePart::Leaves { to: earlier, .. }), MovePart::Leaves { to, .. })
                    if earlier == to => {}
                (_, MovePart::Leaves { to, .. }) => tracing::info!(
                    "zone {zone}: the catalog {catalog} announces its move to {to}, which lists it \
                     in {} minutes at the earliest",
                    ANNOUNCE_SECS / 60
                ),
                (None, MovePart::Joins { .. }) => {
                    tracing::info!("zone {zone}: the catalog {catalog} lists it after its move");
                }
                _ => {}
            }
        }
        let is_kept = |label: &String| entries.iter().any(|entry| entry.member.label == *label);
        let moved =
            self.listed.iter().filter(|(_, listed)| matches!(listed.part, MovePart::Leaves { .. }));
        for (_, Listed { zone, .. }) in moved.filter(|(label, _)| !is_kept(label)) {
            tracing::info!("zone {zone}: the catalog {catalog} no longer lists it");
        }
    }
}

/// Returns the unique label of a zone, which depends only on the name of the zone.
fn unique_label(zone: &[u8]) -> String {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, zone);
    digest.as_ref()[..16].iter().map(|octet| format!("{octet:02x}")).collect()
}

#[cfg(test)]
mod tests;
