//! The thread that fetches copies of the root zone when they are due, verifies them and puts them
//! into use.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{io, thread};

use avocet_config::Config;
use avocet_config::recurse::{LocalRootSource, Mode};
use avocet_dnssec::Context;
use avocet_nameserver::clock::wall_secs;
use avocet_nameserver::file_watch::{FileFingerprint, FileWatch};
use avocet_resolver::{LocalRoot, Timers};
use avocet_wire::FoldedName;
use avocet_zone::is_newer;

use crate::root::zone_file::{self, MAX_ZONE_OCTETS, MAX_ZONE_RECORDS};
use crate::root::{RootKeeping, Status};
use crate::running::Running;
use crate::running::conditions::Condition;
use crate::transfer::{TransferError, TransferLimits, UnverifiedRecord, ZoneSource};

/// Interval between two checks of the configuration and of a file, and for due work.
const TICK: Duration = Duration::from_secs(1);
/// Bounds of the interval between checks of the primaries, regardless of the SOA record.
const LOOK_SECS: (u32, u32) = (60, 86_400);
/// The time to the next attempt after a failure while there is no copy.
const FIRST_RETRY: Duration = Duration::from_secs(60);
/// The bounds of a transfer.
const LIMITS: TransferLimits = TransferLimits {
    octets: MAX_ZONE_OCTETS,
    records: MAX_ZONE_RECORDS,
    time: Duration::from_secs(120),
};
/// The file of transferred copies in the data directory.
const KEPT: &str = "root.zone";

/// The log line after a panic of the thread.
const FAULT: &str = "a panic ended the thread that maintains the copy of the root zone, see the \
                     log; restart the server";

/// Starts the thread.
///
/// # Errors
///
/// The system cannot start a thread.
pub(crate) fn start(running: Arc<Running>) -> io::Result<()> {
    let work = Work {
        running,
        source: LocalRootSource::None,
        due: Instant::now(),
        watch: FileWatch::new(None),
        next: 0,
    };
    let watched = move || {
        let running = work.running.clone();
        running.conditions.contain(Condition::Threads, FAULT, || work.run());
    };
    thread::Builder::new().name("root".to_owned()).spawn(watched).map(drop)
}

struct Work {
    running: Arc<Running>,
    /// The source of the copy in use.
    source: LocalRootSource,
    /// The time of the next check of the primaries.
    due: Instant,
    watch: FileWatch,
    /// The primary that is tried first.
    next: usize,
}

impl Work {
    fn run(mut self) {
        loop {
            let state = self.running.shared.snapshot();
            let config = &state.config;
            let source = match config.resolver.mode {
                Mode::Recurse => &config.resolver.local_root,
                Mode::Forward => &LocalRootSource::None,
            };
            if *source != self.source {
                self.begin(source.clone(), config);
            }
            match source {
                LocalRootSource::None => {}
                LocalRootSource::File(path) => {
                    if self.watch.has_settled(FileFingerprint::of(path)) {
                        self.take_file(path, config);
                    }
                }
                LocalRootSource::Primaries if Instant::now() >= self.due => {
                    self.look_at_primaries(config)
                }
                LocalRootSource::Primaries => {}
            }
            if !self.running.root.wait(TICK) {
                return;
            }
        }
    }

    /// Starts with a source from the configuration, at the start or after a change.
    fn begin(&mut self, source: LocalRootSource, config: &Config) {
        let keeping = &self.running.root;
        keeping.slot.clear();
        *keeping.status() =
            Status { is_wanted: source != LocalRootSource::None, ..Status::default() };
        self.due = Instant::now();
        match &source {
            LocalRootSource::None => {}
            LocalRootSource::File(path) => {
                self.watch = FileWatch::new(FileFingerprint::of(path));
                self.take_file(path, config);
            }
            LocalRootSource::Primaries => self.take_kept(config),
        }
        self.source = source;
    }

    /// Loads the copy that an earlier process transferred.
    fn take_kept(&mut self, config: &Config) {
        let path = kept(config);
        if !path.exists() {
            return;
        }
        if let Some(timers) = self.take_file(&path, config) {
            let checked_at_secs = self.running.root.status().checked_at_secs;
            let age = Duration::from_secs(wall_secs().saturating_sub(checked_at_secs));
            self.due = Instant::now() + refresh(timers).saturating_sub(age);
        }
    }

    fn take_file(&mut self, path: &Path, config: &Config) -> Option<Timers> {
        let keeping = &self.running.root;
        match zone_file::read(path) {
            Ok((lines, written_at_secs)) => {
                self.take(&lines, &path.display().to_string(), written_at_secs, config)
            }
            Err(fault) => {
                RootKeeping::count(&keeping.failed);
                keeping.note_fault(fault.to_string());
                None
            }
        }
    }

    /// Verifies a copy and puts it into use. It expires relative to `checked_at_secs`.
    fn take(
        &self,
        lines: &[UnverifiedRecord],
        from: &str,
        checked_at_secs: u64,
        config: &Config,
    ) -> Option<Timers> {
        let keeping = &self.running.root;
        let records: Vec<_> = lines.iter().map(UnverifiedRecord::record).collect();
        let context = Context { now_secs: wall_secs() as u32, policy: config.dnssec.policy() };
        let zone = match LocalRoot::new(&records, &self.running.anchors_in_force(config), &context)
        {
            Ok(zone) => zone,
            Err(fault) => {
                RootKeeping::count(&keeping.refused);
                keeping.note_fault(format!("the copy from {from} is rejected: {fault}"));
                return None;
            }
        };
        let timers = zone.timers();
        let expires_at_secs = zone.expires_at_secs(checked_at_secs);
        if expires_at_secs <= wall_secs() {
            RootKeeping::count(&keeping.refused);
            keeping.note_fault(format!("the copy from {from} has expired"));
            return None;
        }
        tracing::info!(
            from,
            serial = timers.serial,
            rrsets = zone.len(),
            "using a copy of the root zone"
        );
        keeping.slot.put(Arc::new(zone), expires_at_secs);
        RootKeeping::count(&keeping.taken);
        *keeping.status() =
            Status { is_wanted: true, from: from.to_owned(), checked_at_secs, fault: None };
        Some(timers)
    }

    /// Tries the primaries one after another, until one has the latest zone.
    fn look_at_primaries(&mut self, config: &Config) {
        let usable = |addr: &&SocketAddr| {
            if addr.is_ipv4() { config.resolver.ipv4 } else { config.resolver.ipv6 }
        };
        let primaries: Vec<SocketAddr> =
            config.resolver.local_root_primaries.iter().filter(usable).copied().collect();
        let mut fault = "no primary can be queried".to_owned();
        for at in 0..primaries.len() {
            let primary = primaries[(self.next + at) % primaries.len()];
            match self.look_at(primary, config) {
                Ok(Some(timers)) => {
                    self.due = Instant::now() + refresh(timers);
                    return;
                }
                // The copy was refused, and the refusal was logged.
                Ok(None) => fault.clear(),
                Err(TransferError::Closed) => return,
                Err(error) => fault = format!("{primary} did not transfer it: {error}"),
            }
        }
        self.next += 1;
        let keeping = &self.running.root;
        RootKeeping::count(&keeping.failed);
        if !fault.is_empty() {
            keeping.note_fault(fault.to_string());
        }
        let retry = keeping.slot.at(wall_secs()).map(|(zone, _)| bounded(zone.timers().retry_secs));
        self.due = Instant::now() + retry.unwrap_or(FIRST_RETRY);
    }

    /// Fetches the zone from this primary if the primary has another version.
    fn look_at(
        &self,
        primary: SocketAddr,
        config: &Config,
    ) -> Result<Option<Timers>, TransferError> {
        let keeping = &self.running.root;
        let is_closed = || keeping.is_closed();
        let (apex, limits) = (FoldedName::ROOT, LIMITS);
        let source = ZoneSource {
            primary,
            tls: None,
            apex,
            key: None,
            limits,
            share: None,
            is_closed: &is_closed,
        };
        let now_secs = wall_secs();
        let held = keeping.slot.at(now_secs);
        if let Some((zone, _)) = held {
            let theirs = source.timers()?;
            if !is_newer(theirs.serial, zone.timers().serial) {
                let timers = zone.timers();
                let expires_at_secs = zone.expires_at_secs(now_secs);
                keeping.slot.put(zone, expires_at_secs);
                let mut status = keeping.status();
                (status.checked_at_secs, status.fault) = (now_secs, None);
                if let Err(error) = zone_file::touch(&kept(config), now_secs) {
                    tracing::warn!(%error, "cannot record the check of the copy of the root zone");
                }
                return Ok(Some(timers));
            }
        }
        let lines = source.zone()?;
        let taken = self.take(&lines, &primary.to_string(), now_secs, config);
        if taken.is_some()
            && let Err(error) = zone_file::write(&kept(config), &lines)
        {
            tracing::warn!(%error, "cannot save the copy of the root zone");
        }
        Ok(taken)
    }
}

fn kept(config: &Config) -> PathBuf {
    config.data.directory.join(KEPT)
}

fn bounded(secs: u32) -> Duration {
    Duration::from_secs(secs.clamp(LOOK_SECS.0, LOOK_SECS.1).into())
}

fn refresh(timers: Timers) -> Duration {
    bounded(timers.refresh_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_of_a_zone_are_taken_within_bounds() {
        assert_eq!(bounded(0), Duration::from_secs(60));
        assert_eq!(bounded(1_800), Duration::from_secs(1_800));
        assert_eq!(bounded(u32::MAX), Duration::from_secs(86_400));
    }
}
