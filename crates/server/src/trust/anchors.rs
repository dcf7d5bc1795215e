//! Following the roll-over of trust anchors in the running server (RFC 5011): the DNSKEY RRset of
//! each zone with an anchor is queried when it is due (§2.3), and the result is passed to the
//! zone's [`Rollover`].
//!
//! ```text
//!           due: drop the cached RRset, have it asked for
//!   Resting ─────────────────────────────────────────────> Asked
//!      ^       it is in the cache: observe                   │
//!      ├─────────────────────────────────────────────────────┤
//!      └─────────────── not within PATIENCE_SECS: retry ─────┘
//! ```
//! The query has the flag CD, because this module verifies the signatures: a key may revoke itself
//! even if no other key is trusted.

use std::path::Path;

use avocet_cache::{Cached, Freshness, ReadAt, RrsetCache, RrsetKey};
use avocet_dnssec::anchor::{Anchor, Anchors};
use avocet_dnssec::rollover::{HOLD_DOWN_SECS, KeyState, Rollover};
use avocet_dnssec::signal::key_tag_query;
use avocet_dnssec::{Budget, Policy, Rrset};
use avocet_wire::{Class, FoldedNameBuf, Rtype};

use super::state_file::StateFile;

/// Seconds between the start and the first check: client queries go first.
const FIRST_LOOK_SECS: u32 = 10;
/// The time to wait for a response, in seconds: longer than any resolution takes.
const PATIENCE_SECS: u32 = 15;
/// Seconds to a retry before the first observation: the network may not be up yet.
const FIRST_RETRY_SECS: u32 = 300;
/// Maximum number of zones with tracked keys. Anchors of other zones stay as configured.
const MAX_ZONES: usize = 64;

/// The type of key tag queries (RFC 8145 §5.1).
const NULL: Rtype = Rtype(10);

const FILE: &str = "trust-anchors.state";
const FALLBACK: &str = "using the configured trust anchors";

/// The actions that [`TrustAnchors`] needs from the server.
pub(crate) trait Asker {
    /// Drops the cached RRset of a name, and resolves it again.
    fn ask_anew(&self, name: &FoldedNameBuf, rtype: Rtype);
    /// Sends a query and ignores the answer.
    fn tell(&self, name: &FoldedNameBuf, rtype: Rtype);
}

/// The current time on both clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now {
    /// The time on the monotonic clock of the caches, in seconds.
    pub(crate) secs: u32,
    /// Seconds since 1970, for the validity of keys and signatures.
    pub(crate) wall_secs: u64,
}

/// The relevant configuration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings<'a> {
    /// The anchors of `trust-anchors`, or the built-in ones.
    pub(crate) anchors: &'a Anchors,
    /// The supported algorithms.
    pub(crate) policy: Policy,
    /// Whether to send key tag queries (RFC 8145).
    pub(crate) signals: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Resting { until_secs: u32 },
    Asked { since_secs: u32 },
}

/// A zone with a trust anchor.
#[derive(Debug)]
struct Point {
    rollover: Rollover,
    phase: Phase,
    retry_secs: u32,
    /// Wall time of the last observation.
    observed_at_secs: Option<u64>,
    fault: Option<String>,
}

/// The status of a trusted key, for display.
#[derive(Clone, Debug)]
pub(crate) struct KeyStatus {
    /// The zone.
    pub(crate) zone: FoldedNameBuf,
    /// The key's tag.
    pub(crate) tag: u16,
    /// The state; `None` for a configured anchor whose key was not seen.
    pub(crate) state: Option<KeyState>,
    /// Wall time in seconds since which the key has this state.
    pub(crate) since_secs: Option<u64>,
    /// Wall time in seconds at which the key becomes trusted, or is removed, if no further event
    /// occurs.
    pub(crate) until_secs: Option<u64>,
    /// Wall time in seconds of the zone's last observation.
    pub(crate) observed_at_secs: Option<u64>,
    /// The reason why the last check failed.
    pub(crate) fault: Option<String>,
}

/// The trust anchors in force, with the state of their rollovers.
#[derive(Debug)]
pub(crate) struct TrustAnchors {
    points: Vec<Point>,
    configured: Anchors,
    file: StateFile,
    /// The reason why the state in the file is older than the state in memory, if it is.
    unsaved: Option<String>,
}

impl TrustAnchors {
    /// Loads the state of configured zones from the data directory.
    pub(crate) fn load(directory: &Path, configured: &Anchors, now: Now) -> Self {
        let file = StateFile::new(directory, FILE);
        let text = file.load(FALLBACK).unwrap_or_default();
        let mut anchors =
            Self { points: Vec::new(), configured: Anchors::default(), file, unsaved: None };
        anchors.configure(configured, &text, now);
        anchors
    }

    /// Replaces the anchors by these; `state` supplies the state of zones that remain.
    fn configure(&mut self, configured: &Anchors, state: &str, now: Now) {
        let mut zones: Vec<FoldedNameBuf> = Vec::new();
        for anchor in configured.iter() {
            if !zones.contains(anchor.zone()) && zones.len() < MAX_ZONES {
                zones.push(*anchor.zone());
            }
        }
        let until_secs = now.secs.saturating_add(FIRST_LOOK_SECS);
        self.points = zones.iter().map(|zone| Point::begin(zone, configured, until_secs)).collect();
        for point in &mut self.points {
            if let Err(fault) = point.rollover.resume(&lines_of(state, point.rollover.zone())) {
                self.file.put_aside(&fault.to_string(), FALLBACK);
            }
        }
        self.configured = configured.clone();
    }

    /// Returns the tracked keys, which replace the configured anchors.
    pub(crate) fn followed(&self) -> Vec<(FoldedNameBuf, Vec<Anchor>)> {
        self.points.iter().map(|point| (*point.rollover.zone(), point.rollover.anchors())).collect()
    }

    /// Performs the actions that are due. Returns true if the trusted keys have changed.
    pub(crate) fn tick(
        &mut self,
        settings: &Settings<'_>,
        now: Now,
        cache: &RrsetCache,
        asker: &impl Asker,
    ) -> bool {
        let before = self.followed();
        if !self.configured.iter().eq(settings.anchors.iter()) {
            self.configure(settings.anchors, &self.to_string(), now);
        }
        let mut is_unsaved = self.unsaved.is_some();
        for point in &mut self.points {
            let was = point.rollover.to_string();
            point.tick(settings, now, cache, asker);
            is_unsaved |= was != point.rollover.to_string();
        }
        if is_unsaved {
            self.unsaved = self.file.save(&self.to_string()).err().map(|error| error.to_string());
        }
        before != self.followed()
    }

    /// Returns the reason why the last state could not be saved, if saving failed.
    pub(crate) fn unsaved(&self) -> Option<&str> {
        self.unsaved.as_deref()
    }

    /// Returns the state of all keys and anchors.
    pub(crate) fn status(&self) -> Vec<KeyStatus> {
        self.points.iter().flat_map(Point::status).collect()
    }
}

impl std::fmt::Display for TrustAnchors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.points.iter().try_for_each(|point| point.rollover.fmt(f))
    }
}

/// Returns the zones that have lost trusted keys. If a key replaces its digest, this is not a loss.
pub(crate) fn less_trusted(
    before: &[(FoldedNameBuf, Vec<Anchor>)],
    now: &[(FoldedNameBuf, Vec<Anchor>)],
) -> Vec<FoldedNameBuf> {
    let holds = |(zone, trusted): &&(FoldedNameBuf, Vec<Anchor>)| {
        let now = now.iter().find(|(other, _)| other == zone);
        let is_covered = |anchor: &Anchor, now: &[Anchor]| now.iter().any(|key| key.covers(anchor));
        now.is_some_and(|(_, now)| trusted.iter().all(|anchor| is_covered(anchor, now)))
    };
    before.iter().filter(|point| !holds(point)).map(|(zone, _)| *zone).collect()
}

/// Returns the lines about a zone in a state: `STATE SECONDS ZONE ...`.
fn lines_of(state: &str, zone: &FoldedNameBuf) -> String {
    let zone = zone.to_string();
    let is_of = |line: &&str| line.split(' ').nth(2) == Some(&zone) && !line.starts_with(';');
    state.lines().filter(is_of).map(|line| format!("{line}\n")).collect()
}

impl Point {
    fn begin(zone: &FoldedNameBuf, configured: &Anchors, until_secs: u32) -> Self {
        Self {
            rollover: Rollover::begin(zone, configured),
            phase: Phase::Resting { until_secs },
            retry_secs: FIRST_RETRY_SECS,
            observed_at_secs: None,
            fault: None,
        }
    }

    fn tick(&mut self, settings: &Settings<'_>, now: Now, cache: &RrsetCache, asker: &impl Asker) {
        match self.phase {
            Phase::Resting { until_secs } if now.secs < until_secs => {}
            Phase::Resting { .. } => {
                self.phase = Phase::Asked { since_secs: now.secs };
                let zone = *self.rollover.zone();
                asker.ask_anew(&zone, Rtype::DNSKEY);
                let tags = self.rollover.anchors();
                let signal = key_tag_query(&zone, tags.iter().map(Anchor::key_tag))
                    .filter(|_| settings.signals);
                signal.iter().for_each(|signal| asker.tell(signal, NULL));
            }
            Phase::Asked { since_secs } => {
                if self.observe(settings.policy, now, cache) {
                    return;
                }
                if now.secs.saturating_sub(since_secs) >= PATIENCE_SECS {
                    self.fail("no server returned its keys", now);
                }
            }
        }
    }

    /// Passes the RRset in the cache to the rollover. Returns false if the RRset has not arrived.
    fn observe(&mut self, policy: Policy, now: Now, cache: &RrsetCache) -> bool {
        let mut buffer = vec![0; avocet_cache::MAX_PAYLOAD_BYTES];
        let zone = *self.rollover.zone();
        let key = RrsetKey { owner: zone.view(), rtype: Rtype::DNSKEY.0, class: Class::IN.0 };
        let found = cache.lookup(&key, ReadAt { now: now.secs, stale_window: 0 }, &mut buffer);
        let Some(Cached::Rrset(view)) = found else { return false };
        let Freshness::Fresh { remaining_secs: ttl_secs } = view.freshness else { return false };
        let records: Vec<&[u8]> = view.records().collect();
        let signatures: Vec<&[u8]> = view.signatures().collect();
        let dnskeys = Rrset {
            owner: zone.wire(),
            rtype: Rtype::DNSKEY,
            class: Class::IN,
            ttl_secs,
            records: &records,
            signatures: &signatures,
        };
        match self.rollover.observe(&dnskeys, policy, now.wall_secs, &mut Budget::default()) {
            Ok(observation) => {
                for change in &observation.changes {
                    let from = change.from.map_or("unknown".to_owned(), |state| state.to_string());
                    let to = change.to.map_or("forgotten".to_owned(), |state| state.to_string());
                    tracing::warn!(%zone, tag = change.key_tag, from, to, "a trust anchor changed \
                                                                           its state");
                }
                self.retry_secs = observation.retry_after_secs;
                self.observed_at_secs = Some(now.wall_secs);
                self.fault = None;
                self.phase = Phase::Resting {
                    until_secs: now.secs.saturating_add(observation.query_after_secs),
                };
            }
            Err(reason) => self.fail(&format!("its keys do not validate: {reason}"), now),
        }
        true
    }

    fn fail(&mut self, fault: &str, now: Now) {
        tracing::warn!(zone = %self.rollover.zone(), "trust anchors: {fault}; retrying in {} \
                                                      s", self.retry_secs);
        self.fault = Some(fault.to_owned());
        self.phase = Phase::Resting { until_secs: now.secs.saturating_add(self.retry_secs) };
    }

    fn status(&self) -> Vec<KeyStatus> {
        let zone = *self.rollover.zone();
        let of = |tag, state, since_secs: Option<u64>| KeyStatus {
            zone,
            tag,
            state,
            since_secs,
            until_secs: since_secs
                .filter(|_| matches!(state, Some(KeyState::AddPending | KeyState::Revoked)))
                .map(|since_secs| since_secs.saturating_add(HOLD_DOWN_SECS)),
            observed_at_secs: self.observed_at_secs,
            fault: self.fault.clone(),
        };
        let keys = self.rollover.keys();
        let followed =
            keys.iter().map(|key| of(key.tag(), Some(key.state()), Some(key.since_secs())));
        let is_unseen = |anchor: &&Anchor| !keys.iter().any(|key| key.tag() == anchor.key_tag());
        let anchors = self.rollover.anchors();
        let unseen =
            anchors.iter().filter(is_unseen).map(|anchor| of(anchor.key_tag(), None, None));
        followed.chain(unseen).collect()
    }
}

#[cfg(test)]
mod tests;
