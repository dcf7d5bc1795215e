//! The signing of hosted zones: keys in files, key roll-overs, and the renewal of signatures before
//! they expire.
//!
//! ```text
//! zone as read --active keys--> signed --review--> state on disk --> in force
//!      ^------- due: signatures end, a key takes a step, the parent has another DS -------'
//! ```
//! A zone that cannot be signed, or does not pass the review, is not published, and the version in
//! force stays. The state of the keys changes only if the review passes.

mod key_files;
mod parent;
mod report;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use avocet_config::signing::{SigningPolicy, ZoneSigning};
use avocet_dnssec::rrsig::Rrsig;
use avocet_dnssec::signing::SigningKey;
use avocet_dnssec::zonemd::DigestHash;
use avocet_io::process::{Eagerness, Thread};
use avocet_wire::{FoldedName, FoldedNameBuf};
use avocet_zone::sign::timeline::{
    DsWitness, HeldTtl, KeyFacts, KeyPhase, KeyRole, KeyStep, KeyUse, TimedKey,
};
use avocet_zone::sign::{
    ReviewFault, SignFault, SignatureTimes, SignedZone, Signing, ZoneSigners, review,
};
use avocet_zone::{HostedZone, UnsoundZone, is_newer};
use thiserror::Error;

pub use key_files::KeyFileError;
use key_files::{KeyFiles, SignerState, Waits};
use parent::ParentView;
pub use report::{KeyReport, SigningReport, role_of as key_role};

/// Number of seconds after which an unpublished zone is signed again.
const RETRY_SECS: u64 = 60;
/// Interval in seconds at which a file records that the zone is still published, while one of its
/// keys is being replaced, or caches may hold records with a TTL that was lowered.
const NOTE_SECS: u64 = 600;
/// Maximum number of seconds between two times that the key state is written. A longer gap does
/// not count towards the waiting times of keys, because clients could not get the zone in that
/// time, or the clock was set.
const GAP_SECS: u64 = 2 * NOTE_SECS;
/// Maximum number of records of a small zone. Signing a small zone delays no query noticeably.
const SMALL_ZONE: u32 = 2_000;
/// Maximum number of threads that sign one zone at the same time.
const MAX_THREADS: usize = 16;

/// The reason why a zone is not published, or why a request about its keys is refused.
#[derive(Debug, Error)]
pub enum SigningError {
    /// This server cannot add a ZONEMD record to the zone.
    #[error("no ZONEMD record can be added to it: {0}")]
    Digest(UndigestedZone),
    /// The zone cannot get a serial that follows the last published one.
    #[error("it cannot get another serial: {0}")]
    Renumbered(UnsoundZone),
    /// The files of the keys cannot be used.
    #[error("{0}")]
    Files(#[from] KeyFileError),
    /// The zone cannot be signed.
    #[error("it cannot be signed: {0}")]
    Sign(#[from] SignFault),
    /// The names of pools cannot be added to the zone.
    #[error("it cannot have the names of its pools: {0}")]
    Pools(#[from] UnsoundZone),
    /// The zone cannot have the addresses behind its ALIAS records.
    #[error("it cannot have the addresses behind its ALIAS records: {0}")]
    Addresses(UnsoundZone),
    /// Validators would not accept the signed zone.
    #[error("it is held back because the signed zone does not pass its review: {0}")]
    Review(#[from] ReviewFault),
    /// A key is being replaced already.
    #[error("the key is not active yet, or is being replaced already: see `avocet zone keys`")]
    Rolling,
    /// No key has this tag, or the key does not wait for its DS record.
    #[error("no key with tag {0} awaits its DS record")]
    NotAwaited(u16),
    /// The zone has no key of the role.
    #[error("the zone has no key of this role")]
    NoSuchKey,
}

/// The reason why a zone without signatures of this server cannot get a ZONEMD record.
#[derive(Debug, Error)]
pub enum UndigestedZone {
    /// Another server has signed the zone, and the NSEC or NSEC3 records of that server deny the
    /// ZONEMD record.
    #[error("it has signatures of another server; set zonemd-hash = \"none\"")]
    SignedElsewhere,
    /// The zone with the ZONEMD record would have errors.
    #[error("{0}")]
    Unsound(#[from] UnsoundZone),
}

/// A version that is signed, but not published yet.
struct NextVersion {
    zone: Arc<HostedZone>,
    steps: Vec<KeyStep>,
    /// The Unix second at which its first signature expires.
    expires_at_secs: u64,
    /// The numbers of new and of kept signatures; `None` if the last version stays.
    signatures: Option<(u32, u32)>,
    /// Whether a copy is on the disk.
    has_copy: bool,
}

/// The signer of one zone.
#[derive(Debug)]
pub(crate) struct ZoneSigner {
    apex: FoldedNameBuf,
    policy: SigningPolicy,
    /// The names of the pools in the zone.
    pools: Vec<Box<[u8]>>,
    /// The highest TTL of these pools, whose answers are signed when they are made.
    pools_ttl_secs: u32,
    /// The hash algorithm of the ZONEMD record; `None` if the zone gets no such record.
    digest: Option<DigestHash>,
    files: KeyFiles,
    /// The state of the keys; `None` until the files were read.
    state: Option<SignerState>,
    keys: BTreeMap<u16, Arc<SigningKey>>,
    /// The last signed version.
    last: Option<Arc<HostedZone>>,
    /// Whether `last` was read from the disk, and no version was published since.
    is_last_read: bool,
    /// The TTLs of versions that were published without signatures since the last signed one.
    unsigned: Option<HeldTtl>,
    /// The role whose key the operator wants to replace now.
    forced: Option<KeyRole>,
    parent: ParentView,
    /// The Unix second of the last check.
    looked_at_secs: u64,
    /// The Unix second by which the zone must be signed again.
    due_secs: u64,
    /// The Unix second at which the first signature expires.
    expires_at_secs: Option<u64>,
    made: u64,
    seed: u64,
}

impl ZoneSigner {
    pub(crate) fn new(apex: FoldedName<'_>, config: &ZoneSigning) -> Self {
        Self {
            apex: apex.to_buf(),
            policy: config.policy.clone(),
            pools: config.pools.clone(),
            pools_ttl_secs: config.pools_ttl_secs,
            digest: None,
            files: KeyFiles::new(config.directory.clone()),
            state: None,
            keys: BTreeMap::new(),
            last: None,
            is_last_read: false,
            unsigned: None,
            forced: None,
            parent: ParentView::default(),
            looked_at_secs: 0,
            due_secs: 0,
            expires_at_secs: None,
            made: 0,
            seed: std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0_u8),
        }
    }

    /// Uses the files of the keys in another directory, to which they were moved.
    pub(crate) fn move_files(&mut self, directory: PathBuf) {
        self.files = KeyFiles::new(directory);
    }

    /// Applies the configuration in force.
    pub(crate) fn follow(&mut self, config: &ZoneSigning, digest: Option<DigestHash>) {
        let is_same = (&self.policy, &self.pools) == (&config.policy, &config.pools);
        if !is_same || self.digest != digest || self.pools_ttl_secs != config.pools_ttl_secs {
            self.pools_ttl_secs = config.pools_ttl_secs;
            self.pools.clone_from(&config.pools);
            (self.policy, self.digest) = (config.policy.clone(), digest);
            self.due_secs = 0;
        }
    }

    /// Records the TTLs of versions that were published without signatures since the last signed
    /// one; `None` if there are none. The next version takes them into account.
    pub(crate) fn follow_unsigned(&mut self, unsigned: Option<HeldTtl>) {
        self.unsigned = unsigned;
    }

    /// Reports whether the zone must be signed again.
    pub(crate) fn is_due(&self, now_secs: u64) -> bool {
        // A time before the last check means that the clock was set back.
        now_secs >= self.due_secs || now_secs < self.looked_at_secs
    }

    /// Records that the zone is published, so that the time until now counts for the states of its
    /// keys.
    ///
    /// # Errors
    /// The state cannot be written.
    pub(crate) fn note(&mut self, now_secs: u64) -> Result<(), SigningError> {
        let Some(state) = &mut self.state else { return Ok(()) };
        let since = now_secs.saturating_sub(state.looked_at_secs);
        if since < NOTE_SECS || !state.is_waiting(&self.policy.keys) {
            return Ok(());
        }
        state.leave_out_gap(now_secs, GAP_SECS);
        let Waits { policy, max_ttl_secs } = state.waits(&self.policy.keys, now_secs);
        let due = state.timeline.next_due_secs(&policy, max_ttl_secs, now_secs);
        self.due_secs = self.due_secs.min(due.unwrap_or(u64::MAX));
        Ok(self.files.save(state)?)
    }

    /// Signs a zone, and changes the states of its keys if that is due. The result has passed the
    /// review. The serial of the result is newer than `published`, or is the same if nothing
    /// changed.
    ///
    /// # Errors
    /// The zone cannot be published. The state of the keys is then unchanged.
    pub(crate) fn publish(
        &mut self,
        source: &HostedZone,
        published: Option<u32>,
        now_secs: u64,
    ) -> Result<Arc<HostedZone>, SigningError> {
        (self.looked_at_secs, self.due_secs) = (now_secs, now_secs + RETRY_SECS);
        self.read_files()?;
        let mut next = self.state.clone().unwrap_or_default();
        if let Some(serial) = published
            && next.last_serial.is_none_or(|last| is_newer(serial, last))
        {
            next.last_serial = Some(serial);
        }
        let mut all_steps = self.count_time(&mut next, now_secs);
        let zone_ttl_secs = source.max_ttl_secs().max(self.pools_ttl_secs);
        next.note_ttls(zone_ttl_secs, &self.policy.keys, now_secs);
        let made = self.make_keys(&mut next, now_secs)?;
        let result = self.step_and_sign(source, &mut next, now_secs);
        let signed = result.inspect_err(|_| self.unmake(&made))?;
        if let Err(error) = self.files.save(&next) {
            self.unmake(&made);
            self.files.drop_copy();
            return Err(error.into());
        }
        let NextVersion { zone, steps, expires_at_secs, signatures, has_copy } = signed;
        if has_copy {
            self.files.confirm_copy();
        }
        if let Some((made, kept)) = signatures {
            let (name, serial) = (self.name(), zone.serial());
            tracing::info!(serial, made, kept, "zone {name} signed");
            self.made += u64::from(made);
        }
        (self.last, self.expires_at_secs) = (Some(zone.clone()), Some(expires_at_secs));
        self.is_last_read = false;
        all_steps.extend(steps);
        self.log_steps(&made, &all_steps);
        for step in all_steps.iter().filter(|step| step.to.is_none()) {
            self.keys.remove(&step.tag);
            self.files.remove(step.tag);
        }
        let Waits { policy, max_ttl_secs } = next.waits(&self.policy.keys, now_secs);
        let of_keys = next.timeline.next_due_secs(&policy, max_ttl_secs, now_secs);
        let of_signatures =
            self.expires_at_secs.map(|end| end.saturating_sub(self.policy.refresh_secs.into()));
        let due = [of_keys, of_signatures].into_iter().flatten().min();
        self.due_secs = due.unwrap_or(u64::MAX).max(now_secs + 1);
        (self.unsigned, self.forced) = (None, None);
        self.parent.clear();
        self.state = Some(next);
        Ok(zone)
    }

    /// Adds the time since the last check to the state. Takes over the TTLs of versions that were
    /// published without signatures until now: while caches may hold them, the parent must not get
    /// a DS record. Returns the steps of keys.
    fn count_time(&self, next: &mut SignerState, now_secs: u64) -> Vec<KeyStep> {
        let was_signed_here = next.looked_at_secs > 0;
        next.leave_out_gap(now_secs, GAP_SECS);
        let Some(unsigned) = self.unsigned else { return Vec::new() };
        next.zone_ttl.join(unsigned, self.policy.keys.propagation_secs, now_secs);
        // The parent already has the DS record of an imported key.
        if was_signed_here { next.timeline.begin_again(now_secs) } else { Vec::new() }
    }

    /// Returns the last published version, from its file, if it still passes the review. The
    /// version is served after a start while no new version can be signed, for example because the
    /// disk is full.
    pub(crate) fn kept_version(&mut self, now_secs: u64) -> Option<Arc<HostedZone>> {
        self.read_files().ok()?;
        let (last, state) = (self.last.clone()?, self.state.as_ref()?);
        // The last version may have been published without a copy.
        if state.last_serial != Some(last.serial()) {
            return None;
        }
        let signers = self.signers(&state.timeline.key_use());
        // A server that did not restart would also serve signatures until they expire.
        let times = SignatureTimes { refresh_secs: 0, ..self.times(now_secs) };
        review(&last, &signers, &times).ok()?;
        last.sign_online_with(&signers, self.policy.validity_secs);
        self.expires_at_secs = self.expires_at_secs.or_else(|| first_end(&last, now_secs));
        Some(last)
    }

    fn times(&self, now_secs: u64) -> SignatureTimes {
        SignatureTimes {
            now_secs,
            validity_secs: self.policy.validity_secs,
            refresh_secs: self.policy.refresh_secs,
            dnskey_ttl_secs: self.policy.keys.dnskey_ttl_secs,
        }
    }

    /// Reads the state, the keys and the last signed version. The files are read only once.
    fn read_files(&mut self) -> Result<(), SigningError> {
        if self.state.is_some() {
            return Ok(());
        }
        let state = self.files.load()?;
        for key in &state.timeline.keys {
            let read = self.files.read_key(key)?;
            self.keys.insert(key.tag, Arc::new(read));
        }
        let copy = self.files.signed_copy(self.apex.view(), state.last_serial);
        let made = copy.as_ref().and_then(|copy| copy.with_made_names(&self.pools, 0).ok()?);
        self.last = made.or(copy).map(Arc::new);
        self.is_last_read = self.last.is_some();
        self.state = Some(state);
        Ok(())
    }

    /// Makes the keys that the next state needs, and returns their tags.
    fn make_keys(
        &mut self,
        next: &mut SignerState,
        now_secs: u64,
    ) -> Result<Vec<u16>, SigningError> {
        // After a crash in the middle of the first signing, this state shows that the keys on disk
        // have never been in force.
        if let Some(state) = self.state.as_ref().filter(|state| state.timeline.keys.is_empty()) {
            self.files.save(state)?;
        }
        let mut made = Vec::new();
        for wanted in next.timeline.wanted(&self.policy.keys, now_secs, self.forced) {
            let key = match self.files.make_key(&wanted, &self.keys) {
                Ok(key) => key,
                Err(error) => {
                    self.unmake(&made);
                    return Err(error.into());
                }
            };
            let tag = key.tag();
            made.push(tag);
            self.keys.insert(tag, Arc::new(key));
            next.timeline.keys.push(TimedKey {
                tag,
                algorithm: wanted.algorithm,
                role: wanted.role,
                phase: wanted.phase,
                since_secs: now_secs,
                created_secs: now_secs,
                ds_ttl_secs: 0,
                witness: DsWitness::None,
            });
        }
        Ok(made)
    }

    /// Deletes new keys after the version that would have used them was not published.
    fn unmake(&mut self, made: &[u16]) {
        for tag in made {
            self.keys.remove(tag);
            self.files.remove(*tag);
        }
    }

    fn step_and_sign(
        &mut self,
        source: &HostedZone,
        next: &mut SignerState,
        now_secs: u64,
    ) -> Result<NextVersion, SigningError> {
        let Waits { policy, max_ttl_secs } = next.waits(&self.policy.keys, now_secs);
        let facts = KeyFacts {
            now_secs,
            max_ttl_secs,
            parent: self.parent.fresh(now_secs),
            word: self.parent.word,
        };
        let steps = next.timeline.advance(&policy, &facts);
        let signers = self.signers(&next.timeline.key_use());
        let times = self.times(now_secs);
        let mut signed = self.sign(source, &signers, (times, next.last_serial))?;
        let is_kept = |signed: &SignedZone| !signed.is_changed && self.last.is_some();
        // The copy of the last version may be damaged.
        if (self.is_last_read || !is_kept(&signed))
            && let Err(fault) = review(&signed.zone, &signers, &times)
        {
            if !std::mem::take(&mut self.is_last_read) {
                return Err(fault.into());
            }
            let name = self.name();
            tracing::error!(
                "zone {name}: its signed copy is damaged; all its signatures are made again: {fault}"
            );
            self.last = None;
            signed = self.sign(source, &signers, (times, next.last_serial))?;
            review(&signed.zone, &signers, &times)?;
        }
        next.last_serial = Some(signed.zone.serial());
        if !signed.is_changed
            && let Some(last) = &self.last
        {
            last.sign_online_with(&signers, times.validity_secs);
            return Ok(NextVersion {
                zone: last.clone(),
                steps,
                expires_at_secs: signed.expires_at_secs,
                signatures: None,
                has_copy: false,
            });
        }
        let SignedZone { made, kept, expires_at_secs, .. } = signed;
        // The new version keeps the changes from the last signed version, because IXFR sends the
        // differences of signed versions.
        let zone = match &self.last {
            Some(last) => signed.zone.following(last, 0),
            None => signed.zone,
        };
        let zone = Arc::new(zone);
        zone.sign_online_with(&signers, times.validity_secs);
        // Without the copy, a server that restarts on a full disk would have no version to serve.
        let has_copy = match self.files.keep_copy(&zone) {
            Ok(()) => true,
            Err(error) if self.ends_soon(now_secs) => {
                let name = self.name();
                tracing::error!(%error, "zone {name}: published without a copy on the disk");
                false
            }
            Err(error) => return Err(error.into()),
        };
        let signatures = Some((made, kept));
        Ok(NextVersion { zone, steps, expires_at_secs, signatures, has_copy })
    }

    /// Signs a version of the zone, and keeps signatures of the last signed version.
    fn sign(
        &self,
        source: &HostedZone,
        signers: &ZoneSigners,
        (times, last_serial): (SignatureTimes, Option<u32>),
    ) -> Result<SignedZone, SigningError> {
        let is_small = is_small(source) || self.last.is_none();
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
        let now_secs = times.now_secs;
        let signing = Signing {
            signers,
            denial: self.policy.denial,
            digest: self.digest,
            times,
            last: self.last.as_deref(),
            last_serial,
            seed: self.seed,
            threads: cores.min(MAX_THREADS),
            begin: if is_small { || {} } else { yield_to_workers },
        };
        let with_pools = source.with_made_names(&self.pools, now_secs)?;
        Ok(signing.sign(with_pools.as_ref().unwrap_or(source))?)
    }

    /// Returns whether more than half of the time for renewals has passed, so that the signatures
    /// of the last version are close to their end.
    fn ends_soon(&self, now_secs: u64) -> bool {
        let patience_secs = u64::from(self.policy.refresh_secs) / 2;
        self.expires_at_secs.is_some_and(|end_secs| end_secs <= now_secs + patience_secs)
    }

    /// Returns the keys that sign, as `used` states.
    fn signers(&self, used: &KeyUse) -> ZoneSigners {
        let keys = |tags: &[u16]| {
            tags.iter().filter_map(|tag| self.keys.get(tag).cloned()).collect::<Vec<_>>()
        };
        ZoneSigners {
            published: keys(&used.published),
            entry: keys(&used.entry),
            zone: keys(&used.zone),
            parent: keys(&used.parent),
        }
    }

    fn log_steps(&self, made: &[u16], steps: &[KeyStep]) {
        let name = self.name();
        for tag in made {
            tracing::info!("zone {name}: key {tag} was made");
        }
        for KeyStep { tag, from, to } in steps {
            let (from, to) = (report::phase_name(*from), to.map_or("removed", report::phase_name));
            tracing::info!("zone {name}: key {tag} was {from} and is {to}");
        }
        self.warn_of_lost(steps);
    }

    fn name(&self) -> String {
        avocet_config::name::shown(self.apex.view().wire())
    }

    /// Begins to replace the key of a role.
    ///
    /// # Errors
    /// A key is being replaced, or the zone has no such key.
    pub(crate) fn roll(&mut self, role: KeyRole) -> Result<(), SigningError> {
        self.read_files()?;
        let keys = self.state.as_ref().map_or(&[][..], |state| &state.timeline.keys);
        let mut of_role = keys.iter().filter(|key| key.role == role);
        match (of_role.next(), of_role.next()) {
            (None, _) => Err(SigningError::NoSuchKey),
            (Some(key), None) if key.phase == KeyPhase::Active => {
                (self.forced, self.due_secs) = (Some(role), 0);
                Ok(())
            }
            _ => Err(SigningError::Rolling),
        }
    }
}

/// Returns the Unix second at which the first signature of a zone expires.
fn first_end(zone: &HostedZone, now_secs: u64) -> Option<u64> {
    let signatures = zone.iter().flat_map(|node| node.sets()).flat_map(|set| set.signatures());
    // The times of RRSIG records are serial numbers (RFC 4034 §3.1.5).
    let end_secs = |rrsig: Rrsig<'_>| {
        let left_secs = rrsig.expiration.wrapping_sub(now_secs as u32).cast_signed();
        now_secs.saturating_add_signed(left_secs.into())
    };
    signatures.filter_map(|record| Rrsig::read(record.rdata)).map(end_secs).min()
}

/// Returns whether work on the whole zone is so short that it delays no query noticeably.
pub(crate) fn is_small(zone: &HostedZone) -> bool {
    zone.records() < SMALL_ZONE
}

/// Lets the current thread, which signs, run only while no other thread needs its core.
pub(crate) fn yield_to_workers() {
    // If the system refuses, the workers are delayed slightly.
    let _ = Thread::current().set_eagerness(Eagerness::Idle);
}
