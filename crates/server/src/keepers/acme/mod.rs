//! The thread that obtains and renews the certificate of `[acme]` (RFC 8555).
//!
//! ```text
//! no certificate, other settings, `avocet certificate renew`: at once ─┐
//! two thirds of its life, or the window of the authority (RFC 9773) ───┼─> attempt ─> file, in use
//! a failure: after ten minutes, doubled after each further one ────────┘      │
//!                                  ^───────────── the state on disk ──────────┘
//! ```
//! The certificate is a file that `TlsListeners` watches like the files of a `[[certificate]]`.
//! State is kept over restarts, so that restarts do not cause more requests to the authority.

mod dns01;
mod http01;
mod spread;
mod store;
mod update;
mod world;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{io, thread};

use avocet_acme::schedule::{FIRST_RETRY_SECS, Life, renewal, retry_secs};
use avocet_acme::{Account, AccountKey, AcmeError, Authority, Issued, Stopped, Wanted, obtain};
use avocet_config::acme::{AcmeChallenge, AcmeConfig};
use avocet_nameserver::clock::wall_secs;
use avocet_session::certificate::Certificate;
use thiserror::Error;

use crate::running::Running;
use crate::running::conditions::Condition;
use crate::running::renewals::ShownRenewal;
use dns01::ProofRecords;
use store::{AcmeStore, StoredState};
use world::RunningWorld;

/// Time between two checks for due work.
const TICK: Duration = Duration::from_millis(500);
/// Time between two checks whether a wait must end.
const LOOK_TIME: Duration = Duration::from_millis(100);
/// Seconds after which a failed request for the time of renewal is repeated.
const WINDOW_RETRY_SECS: u64 = 21_600;
/// Minimum number of seconds from a certificate to its renewal at the time that the authority
/// suggests. Without this minimum, an authority that suggests a past time for each new certificate
/// would be asked for one certificate after another.
const SUGGESTED_AFTER_SECS: u64 = 86_400;
/// Time between two attempts to remove the proofs that an interrupted attempt left.
const LEFT_RETRY: Duration = Duration::from_secs(3_600);
/// The log line after a panic of the thread.
const FAULT: &str = "a panic ended the thread that renews the certificate of [acme], see the log; \
                     restart the server";

/// Starts the thread.
///
/// # Errors
/// The system cannot start a thread.
pub(crate) fn start(running: Arc<Running>) -> io::Result<()> {
    let mut renewer = Renewer { running, current: None, former: None };
    let watched = move || {
        let running = renewer.running.clone();
        running.conditions.contain(Condition::Threads, FAULT, || {
            while !running.acme.is_closing() {
                renewer.look();
                thread::park_timeout(TICK);
            }
        });
    };
    thread::Builder::new().name("acme".to_owned()).spawn(watched).map(drop)
}

/// The reason why an attempt failed.
#[derive(Debug, Error)]
enum RenewalFault {
    #[error("{0}")]
    Acme(#[from] AcmeError),
    #[error("{0}")]
    World(#[from] world::WorldFault),
    #[error("cannot write {0}: {1}")]
    Disk(String, io::Error),
    #[error("the certificate of the authority cannot be used: {0}")]
    Certificate(#[from] avocet_session::certificate::CertificateError),
    #[error("the certificate of the authority lacks the name {0}")]
    Name(String),
    #[error("the certificate of the authority does not say when it is valid")]
    NoLife,
    #[error(
        "the certificate of the authority is valid {0}, so it is due for renewal already; is the \
         clock of this host right?"
    )]
    DueAtOnce(Life),
}

/// The settings in force, and their stored state.
struct Current {
    config: AcmeConfig,
    store: AcmeStore,
    state: StoredState,
    /// The Unix second of the next request for the renewal window.
    window_due: u64,
    /// The time to look for proofs that an interrupted attempt left; `None` if there are none.
    left_due: Option<Instant>,
}

struct Renewer {
    running: Arc<Running>,
    current: Option<Current>,
    /// The settings of the proofs that may be left, if there is no `[acme]` any more.
    former: Option<Current>,
}

impl Renewer {
    fn look(&mut self) {
        let snapshot = self.running.shared.snapshot();
        let Some(config) = &snapshot.config.acme else {
            let former = self.current.take();
            if former.is_some() {
                self.running.acme.show(None);
                self.running.conditions.set(Condition::Acme, None);
                self.former = former;
            }
            let data = &snapshot.config.data.directory;
            let former = self.former.get_or_insert_with(|| Current::load(&removed(data)));
            return former.clear_left(&self.running);
        };
        self.former = None;
        if self.current.as_ref().is_none_or(|current| current.config != *config) {
            let mut current = Current::load(config);
            // New settings may solve the problem of failed attempts, so the next attempt does not
            // wait.
            if self.current.is_some() && current.state.failures > 0 {
                current.state.next_attempt = 0;
            }
            self.current = Some(current);
        }
        let Some(current) = &mut self.current else { return };
        let now = wall_secs();
        current.follow_clock(now);
        current.clear_left(&self.running);
        let is_asked = self.running.acme.take_order();
        if is_asked || now >= current.state.next_attempt {
            current.attempt(&self.running, now);
        } else if now >= current.window_due && current.state.identifier.is_some() {
            current.ask_for_window(&self.running, now);
        }
        current.show(&self.running);
    }
}

/// Returns the settings with which proofs of a removed `[acme]` can be withdrawn from hosted zones,
/// if it had the standard `storage`.
fn removed(data: &Path) -> AcmeConfig {
    AcmeConfig {
        names: Vec::new(),
        directory: String::new(),
        email: None,
        challenge: AcmeChallenge::Dns01,
        http_listen: Vec::new(),
        update: None,
        ca: None,
        storage: data.join("acme"),
    }
}

impl Current {
    fn load(config: &AcmeConfig) -> Self {
        let store = AcmeStore::at(&config.storage);
        let mut state = store.state();
        // A certificate for other names or of another authority stays in use until a better one
        // exists. If there is no certificate and no attempt has failed, the first attempt is due at
        // once.
        if state.settings != store::settings(config) {
            state = StoredState { settings: store::settings(config), ..StoredState::default() };
        } else if !store.has_certificate() && state.failures == 0 {
            state.next_attempt = 0;
        }
        let left_due = Some(Instant::now());
        Self { config: config.clone(), store, state, window_due: 0, left_due }
    }

    /// Plans the next attempt again if the clock was set back since the last one. The planned time
    /// may be years away.
    fn follow_clock(&mut self, now: u64) {
        if self.state.follow_clock(now, draw()) {
            tracing::info!(
                "the clock was set back: the renewal of the certificate is planned again"
            );
            self.window_due = 0;
            self.save();
        }
    }

    /// Removes the proofs that an interrupted attempt left, if it is time to look for them.
    fn clear_left(&mut self, running: &Running) {
        if self.left_due.is_some_and(|due| due <= Instant::now()) {
            let remain = ProofRecords::of(running, &self.config).clear_left();
            self.left_due = remain.then(|| Instant::now() + LEFT_RETRY);
        }
    }

    /// Tries to obtain a certificate, and stores the time of the next attempt.
    fn attempt(&mut self, running: &Running, now: u64) {
        tracing::info!(
            names = self.config.names.join(", "),
            directory = self.config.directory,
            "asking for a certificate"
        );
        self.state.last_attempt = Some(now);
        self.left_due = Some(Instant::now() + LEFT_RETRY);
        // An attempt may take minutes, so its start is shown first.
        running.acme.show(Some(ShownRenewal { next_attempt: now, ..self.shown() }));
        match self.obtain(running) {
            Ok(()) => {
                self.state.failures = 0;
                self.state.last_error = None;
                self.window_due = 0;
                running.acme.count_success();
                tracing::info!(names = self.config.names.join(", "), "certificate obtained");
            }
            Err(RenewalFault::Acme(AcmeError::Stopped(_))) => return,
            Err(fault) => {
                let refusal = match &fault {
                    RenewalFault::Acme(error) => Some(error),
                    _ => None,
                };
                self.state.failures = self.state.failures.saturating_add(1);
                let secs = retry_secs(self.state.failures, refusal, draw());
                self.state.next_attempt = wall_secs() + secs;
                tracing::warn!(
                    failures = self.state.failures,
                    retry_secs = secs,
                    "no certificate for {}: {fault}",
                    self.config.names.join(", ")
                );
                self.state.last_error = Some(fault.to_string());
                running.acme.count_failure();
            }
        }
        self.save();
    }

    fn obtain(&mut self, running: &Running) -> Result<(), RenewalFault> {
        self.store.create().map_err(|error| self.store_fault(error))?;
        let issued = self.ask(running)?;
        self.put(&issued)
    }

    fn ask(&self, running: &Running) -> Result<Issued, RenewalFault> {
        let mut account = self.account()?;
        let mut world = RunningWorld::new(running, &self.config)?;
        let wanted = Wanted {
            names: &self.config.names,
            challenge: match self.config.challenge {
                AcmeChallenge::Http01 => avocet_acme::ChallengeKind::Http01,
                AcmeChallenge::TlsAlpn01 => avocet_acme::ChallengeKind::TlsAlpn01,
                AcmeChallenge::Dns01 => avocet_acme::ChallengeKind::Dns01,
            },
            email: self.config.email.as_deref(),
            replaces: self.state.identifier.as_deref(),
        };
        let known_url = account.url.clone();
        let issued = Authority::open(&mut world, &self.config.directory)
            .and_then(|mut authority| obtain(&mut authority, &mut account, &wanted));
        if account.url != known_url {
            // The account is stored even after a failure, so that it is not created again.
            let stored = self.store.put_account(&self.config.directory, &account);
            stored.map_err(|error| self.store_fault(error))?;
        }
        Ok(issued?)
    }

    fn account(&self) -> Result<Account, RenewalFault> {
        match self.store.account(&self.config.directory) {
            Some(account) => Ok(account),
            None => {
                let key = AccountKey::draw().map_err(AcmeError::from)?;
                Ok(Account { key, url: None })
            }
        }
    }

    /// Checks a certificate, stores it and plans its renewal. A certificate outside its period of
    /// validity does not replace one within its period of validity.
    fn put(&mut self, issued: &Issued) -> Result<(), RenewalFault> {
        let Issued { chain, key } = issued;
        let read = Certificate::read(chain.as_bytes(), key.as_bytes(), &[])?;
        let lacking = self.config.names.iter().find(|name| !read.names().contains(name));
        if let Some(name) = lacking {
            return Err(RenewalFault::Name(name.clone()));
        }
        let validity = read.validity().ok_or(RenewalFault::NoLife)?;
        let life = Life { not_before: validity.not_before, not_after: validity.not_after };
        let now = wall_secs();
        let is_valid = |[from, to]: [u64; 2]| (from..=to).contains(&now);
        if self.state.life.is_some_and(is_valid) && !is_valid([life.not_before, life.not_after]) {
            return Err(RenewalFault::DueAtOnce(life));
        }
        self.store.put_certificate(chain, key).map_err(|error| self.store_fault(error))?;
        self.state.last_success = Some(now);
        self.state.life = Some([life.not_before, life.not_after]);
        self.state.identifier = read.first().and_then(avocet_acme::renewal::identifier);
        self.state.next_attempt = renewal(life, None, draw());
        if self.state.next_attempt > now {
            return Ok(());
        }
        // A new certificate with a short validity may be due at once, because the order has taken
        // most of its validity.
        let secs = life.not_after.saturating_sub(life.not_before);
        if secs >= FIRST_RETRY_SECS || !is_valid([life.not_before, life.not_after]) {
            return Err(RenewalFault::DueAtOnce(life));
        }
        self.state.next_attempt = now + (secs / 6).max(1);
        Ok(())
    }

    /// Requests the time at which the authority wants the certificate to be renewed (RFC 9773).
    fn ask_for_window(&mut self, running: &Running, now: u64) {
        self.window_due = now + WINDOW_RETRY_SECS;
        let (Some(identifier), Some([not_before, not_after])) =
            (self.state.identifier.clone(), self.state.life)
        else {
            return;
        };
        let Ok(mut world) = RunningWorld::new(running, &self.config) else { return };
        let window = Authority::open(&mut world, &self.config.directory)
            .and_then(|mut authority| avocet_acme::renewal::window(&mut authority, &identifier));
        match window {
            Ok(Some(window)) => {
                self.window_due = now + window.again_secs;
                let is_planned = (window.start..=window.end).contains(&self.state.next_attempt);
                if self.state.failures == 0 && !is_planned {
                    let life = Life { not_before, not_after };
                    let earliest = self.state.last_success.unwrap_or(0) + SUGGESTED_AFTER_SECS;
                    let earliest = earliest.min(renewal(life, None, draw()));
                    self.state.next_attempt = renewal(life, Some(window), draw()).max(earliest);
                    self.save();
                }
            }
            Ok(None) => {}
            Err(error) => tracing::debug!("no time of renewal from the authority: {error}"),
        }
    }

    fn save(&self) {
        if let Err(error) = self.store.put_state(&self.state) {
            tracing::warn!("{}", self.store_fault(error));
        }
    }

    fn store_fault(&self, error: io::Error) -> RenewalFault {
        RenewalFault::Disk(self.config.storage.display().to_string(), error)
    }

    fn show(&self, running: &Running) {
        let state = &self.state;
        let text = state.last_error.as_ref().map(|error| {
            let names = self.config.names.join(", ");
            let minutes = state.next_attempt.saturating_sub(wall_secs()).div_ceil(60);
            format!(
                "the certificate for {names} cannot be obtained: {error}; the next attempt is in \
                 {minutes} min, or by `avocet certificate renew`"
            )
        });
        running.conditions.set(Condition::Acme, text);
        running.acme.show(Some(self.shown()));
    }

    fn shown(&self) -> ShownRenewal {
        let state = &self.state;
        ShownRenewal {
            directory: self.config.directory.clone(),
            next_attempt: state.next_attempt,
            last_attempt: state.last_attempt,
            last_success: state.last_success,
            failures: state.failures,
            error: state.last_error.clone(),
        }
    }
}

/// Waits for a time.
///
/// # Errors
/// The server ends, or the configuration has changed.
fn wait(running: &Running, config: &AcmeConfig, time: Duration) -> Result<(), Stopped> {
    let end = Instant::now() + time;
    loop {
        let snapshot = running.shared.snapshot();
        if running.acme.is_closing() || snapshot.config.acme.as_ref() != Some(config) {
            return Err(Stopped);
        }
        match end.saturating_duration_since(Instant::now()) {
            Duration::ZERO => return Ok(()),
            left => thread::park_timeout(left.min(LOOK_TIME)),
        }
    }
}

/// Returns a random number from 0 to 1.
fn draw() -> f64 {
    let mut octets = [0; 4];
    // Without randomness, all servers renew at the earliest time.
    let _ = getrandom::fill(&mut octets);
    f64::from(u32::from_le_bytes(octets)) / f64::from(u32::MAX)
}
