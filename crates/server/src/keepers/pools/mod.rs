//! The thread that probes the addresses of pools and publishes their health to the workers.
//!
//! ```text
//! due targets --> attempts, all in one poller --> results --> PoolWatch --> LivePool
//! ```
//! One probe serves all pools that use a target in the same way. Every probe over the network is a
//! state machine on a socket that does not block; only commands are processes. The thread looks at
//! its sockets once a tick, so that thousands of probes share a few system calls.

mod attempt;
mod command;
mod dns;
mod http;
mod stream;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use avocet_config::pool_probe::ProbeKind;
use avocet_io::poll::{Events, Poller, Trigger};
use avocet_nameserver::clock::wall_secs;
use avocet_nameserver::query::own::Names;
use avocet_zone::pool::next_probe_ms;

use crate::running::Running;
use crate::running::conditions::Condition;
use crate::running::pool_state;
use crate::running::pool_watch::{ProbeResult, TargetKey};
use attempt::{Attempt, AttemptStep, Begun};
use stream::TlsConfigs;

/// Time between two checks of the sockets while probes are in progress.
const TICK: Duration = Duration::from_millis(5);
/// Maximum number of concurrent probes. Each has at most one descriptor until its timeout.
const MAX_ATTEMPTS: usize = 4_096;
/// Maximum number of concurrent commands: each is a process.
const MAX_COMMANDS: usize = 16;
/// Maximum number of events that one wait returns.
const EVENTS: usize = 1_024;
/// Milliseconds over which the first probes of new targets are spread.
const SPREAD_MS: u64 = 1_000;
/// Seconds after which the state is saved, even without a change.
const SAVE_SECS: u64 = 60;
/// Minimum number of seconds between two writes of the state.
const LEAST_SAVE_SECS: u64 = 1;
/// The log line after a panic of the thread.
const FAULT: &str = "a panic ended the thread that probes the addresses of pools; their health no \
                     longer changes; restart the server";

/// Starts the thread.
///
/// # Errors
/// The system cannot start a thread, or has no descriptor left.
pub(crate) fn start(running: Arc<Running>) -> io::Result<JoinHandle<()>> {
    let mut prober = Prober::new(running.clone())?;
    let work = move || {
        running.conditions.contain(Condition::Threads, FAULT, || prober.run());
    };
    thread::Builder::new().name("pools".to_owned()).spawn(work)
}

/// A probe in progress.
struct InProgress {
    attempt: Attempt,
    target: Arc<TargetKey>,
    began_ms: u64,
    deadline_ms: u64,
}

struct Prober {
    running: Arc<Running>,
    poller: Poller,
    events: Events,
    /// The probes in progress. The index of a probe is its token in the poller.
    attempts: Vec<Option<InProgress>>,
    free: Vec<usize>,
    commands: usize,
    /// The times in milliseconds at which targets are due, each with the key of its target in
    /// `scheduled`.
    due: BinaryHeap<Reverse<(u64, u64)>>,
    scheduled: HashMap<u64, Arc<TargetKey>>,
    numbers: u64,
    names: Option<Arc<Names>>,
    tls: TlsConfigs,
    saved_at_secs: u64,
    /// Whether something has changed since the state was saved.
    is_unsaved: bool,
}

impl Prober {
    fn new(running: Arc<Running>) -> io::Result<Self> {
        Ok(Self {
            running,
            poller: Poller::new()?,
            events: Events::with_capacity(EVENTS),
            attempts: Vec::new(),
            free: Vec::new(),
            commands: 0,
            due: BinaryHeap::new(),
            scheduled: HashMap::new(),
            numbers: 0,
            names: None,
            tls: TlsConfigs::default(),
            saved_at_secs: wall_secs(),
            is_unsaved: false,
        })
    }

    fn now_ms(&self) -> u64 {
        self.running.shared.name_server.clock.now().millis()
    }

    fn run(&mut self) {
        loop {
            let is_open = self.running.shared.pool_waker.wait(self.idle_time());
            if !is_open {
                self.attempts.clear();
                self.save();
                return;
            }
            self.round();
        }
    }

    /// Returns the time until the next work is due; `None` if only a new configuration or the
    /// setting of an operator can cause work.
    fn idle_time(&self) -> Option<Duration> {
        if self.names.is_none() {
            return Some(Duration::ZERO);
        }
        if self.free.len() < self.attempts.len() {
            return Some(TICK);
        }
        let due_ms = self.due.peek().map(|Reverse((at, _))| at.saturating_sub(self.now_ms()));
        let due = due_ms.map(|wait_ms| Duration::from_millis(wait_ms.max(1)));
        let save = self.is_unsaved.then_some(Duration::from_secs(LEAST_SAVE_SECS));
        due.into_iter().chain(save).min()
    }

    fn round(&mut self) {
        let now_ms = self.now_ms();
        self.follow(now_ms);
        self.harvest(now_ms);
        self.expire(now_ms);
        self.begin_due(now_ms);
        let changed = self.running.pools.publish_changes();
        if changed {
            let text = self.running.pools.fault();
            self.running.conditions.set(Condition::Pools, text);
        }
        self.is_unsaved |= changed;
        let least_secs = if self.is_unsaved { LEAST_SAVE_SECS } else { SAVE_SECS };
        if wall_secs().saturating_sub(self.saved_at_secs) >= least_secs {
            self.save();
        }
    }

    fn save(&mut self) {
        (self.saved_at_secs, self.is_unsaved) = (wall_secs(), false);
        let directory = self.running.shared.snapshot().config.data.directory.clone();
        pool_state::save(&directory, &self.running.pools);
    }

    /// Applies the pools of the configuration in force, and schedules the probes of their new
    /// targets.
    fn follow(&mut self, now_ms: u64) {
        let names = self.running.shared.snapshot().names.clone();
        if self.names.as_ref().is_some_and(|known| Arc::ptr_eq(known, &names)) {
            return;
        }
        let new = self.running.pools.follow(&names);
        // At the start, the targets are already known and not scheduled yet.
        let new = if self.names.is_none() { self.running.pools.targets() } else { new };
        for target in new {
            let spread_ms = SPREAD_MS.min(u64::from(target.probe.interval_secs) * 1_000);
            let at_ms = now_ms + spread_ms * u64::from(random()) / (1 << 16);
            self.numbers += 1;
            self.due.push(Reverse((at_ms, self.numbers)));
            self.scheduled.insert(self.numbers, target);
        }
        self.names = Some(names);
        self.tls.forget();
    }

    /// Processes the data that has arrived on the sockets of probes in progress.
    fn harvest(&mut self, now_ms: u64) {
        if self.free.len() == self.attempts.len() {
            return;
        }
        if let Err(error) = self.poller.wait(&mut self.events, Some(0)) {
            tracing::error!(%error, "cannot poll the sockets of probes");
        }
        let ready: Vec<usize> = self.events.iter().map(|event| event.token() as usize).collect();
        for token in ready {
            let Some(Some(progress)) = self.attempts.get_mut(token) else { continue };
            match progress.attempt.advance() {
                AttemptStep::Done(result) => self.end(token, result, now_ms),
                AttemptStep::Wait(interest) => {
                    let (Some(Some(progress)), poller) = (self.attempts.get(token), &self.poller)
                    else {
                        continue;
                    };
                    let changed = progress
                        .attempt
                        .watched()
                        .map(|fd| poller.modify(&fd, token as u64, interest, Trigger::Level));
                    if let Some(Err(error)) = changed {
                        self.end(token, ProbeResult::NotRun(error.to_string()), now_ms);
                    }
                }
            }
        }
    }

    /// Ends probes whose timeout is over, and commands that have ended.
    fn expire(&mut self, now_ms: u64) {
        for token in 0..self.attempts.len() {
            let Some(Some(progress)) = self.attempts.get_mut(token) else { continue };
            let result = match &mut progress.attempt {
                Attempt::Command(command) => command.poll(),
                _ => None,
            };
            let is_over = progress.deadline_ms <= now_ms;
            let late = || is_over.then(|| ProbeResult::Failure("no reply in time".to_owned()));
            if let Some(result) = result.or_else(late) {
                self.end(token, result, now_ms);
            }
        }
    }

    fn end(&mut self, token: usize, result: ProbeResult, now_ms: u64) {
        let Some(progress) = self.attempts.get_mut(token).and_then(Option::take) else { return };
        self.free.push(token);
        self.commands -= usize::from(matches!(progress.attempt, Attempt::Command(_)));
        let took_ms = now_ms.saturating_sub(progress.began_ms);
        self.running.pools.take(&progress.target, result, (now_ms, took_ms));
    }

    /// Starts the probes of targets that are due, while the limits on concurrent probes permit it.
    fn begin_due(&mut self, now_ms: u64) {
        while let Some(Reverse((at_ms, number))) = self.due.peek().copied() {
            if at_ms > now_ms || self.attempts.len() - self.free.len() >= MAX_ATTEMPTS {
                return;
            }
            self.due.pop();
            let Some(target) = self.scheduled.get(&number).cloned() else { continue };
            if !self.running.pools.has(&target) {
                self.scheduled.remove(&number);
                continue;
            }
            let is_command = matches!(target.probe.kind, ProbeKind::Command(_));
            if is_command && self.commands >= MAX_COMMANDS {
                // The probe begins later, when others have ended.
                self.due.push(Reverse((now_ms + TICK.as_millis() as u64, number)));
                continue;
            }
            let interval_ms = u64::from(target.probe.interval_secs) * 1_000;
            let next_ms = next_probe_ms(at_ms, interval_ms, random()).max(now_ms + 1);
            self.due.push(Reverse((next_ms, number)));
            self.begin(&target, now_ms);
        }
    }

    fn begin(&mut self, target: &Arc<TargetKey>, now_ms: u64) {
        match Attempt::begin(target, &mut self.tls) {
            Begun::Ended(result) => self.running.pools.take(target, result, (now_ms, 0)),
            Begun::Waits(attempt, interest) => {
                let token = self.free.pop().unwrap_or_else(|| {
                    self.attempts.push(None);
                    self.attempts.len() - 1
                });
                let added = attempt
                    .watched()
                    .map(|fd| self.poller.add(&fd, token as u64, interest, Trigger::Level));
                if let Some(Err(error)) = added {
                    self.free.push(token);
                    let result = ProbeResult::NotRun(error.to_string());
                    return self.running.pools.take(target, result, (now_ms, 0));
                }
                self.commands += usize::from(matches!(attempt, Attempt::Command(_)));
                let deadline_ms = now_ms + u64::from(target.probe.timeout_ms);
                let (target, began_ms) = (target.clone(), now_ms);
                self.attempts[token] = Some(InProgress { attempt, target, began_ms, deadline_ms });
            }
        }
    }
}

/// Returns a random number for the schedule of probes.
fn random() -> u16 {
    let mut random = [0; 2];
    let _ = getrandom::fill(&mut random);
    u16::from_be_bytes(random)
}
