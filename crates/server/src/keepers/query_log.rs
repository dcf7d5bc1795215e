//! The thread that writes the query log: takes the entries out of the workers' rings, completes
//! them, and passes them to the files and the followers.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use avocet_querylog::{Consumer, Entry, Record};

use crate::query_log::shown::shown;
use crate::query_log::states::LoggedStates;
use crate::query_log::{LogCounts, QueryLog};
use crate::running::Running;
use crate::running::conditions::Condition;

/// Time between rounds while queries are logged: much less than a ring takes to fill.
const TICK: Duration = Duration::from_millis(25);
/// The same while none are.
const IDLE_TICK: Duration = Duration::from_millis(250);

/// Time between readings of the upstreams of the workers, which publish them twice a second.
const UPSTREAMS_AFTER: Duration = Duration::from_secs(1);

/// The condition after a panic of a round.
const FAULT: &str = "a panic interrupted the query log, see the log; the server retries";

/// Starts the thread.
///
/// # Errors
///
/// The system cannot start a thread.
pub(crate) fn start(running: Arc<Running>, rings: Vec<Consumer>) -> io::Result<JoinHandle<()>> {
    let states = LoggedStates::new(&running.shared.name_server);
    let work = LogWork {
        running,
        rings,
        states,
        record: Record::default(),
        lists: Vec::new(),
        upstreams_due: Instant::now(),
    };
    thread::Builder::new().name("query-log".to_owned()).spawn(move || work.run())
}

struct LogWork {
    running: Arc<Running>,
    rings: Vec<Consumer>,
    states: LoggedStates,
    record: Record,
    /// The lists of an entry.
    lists: Vec<u16>,
    /// When the upstreams of the workers are read again.
    upstreams_due: Instant,
}

impl LogWork {
    fn run(mut self) {
        let running = self.running.clone();
        loop {
            let is_open = running.query_log.wait(self.tick());
            let _ = running.conditions.contain(Condition::QueryLog, FAULT, || self.round());
            if !is_open {
                return;
            }
        }
    }

    fn tick(&self) -> Duration {
        if self.states.current().is_logging { TICK } else { IDLE_TICK }
    }

    /// Takes the snapshot in force, and now and then the upstreams of the workers.
    fn refresh(&mut self) {
        let shared = &self.running.shared;
        self.states.refresh(&shared.name_server);
        if Instant::now() < self.upstreams_due {
            return;
        }
        self.upstreams_due = Instant::now() + UPSTREAMS_AFTER;
        for (worker, report) in shared.resolver_reports.iter().enumerate() {
            let report = report.lock().unwrap_or_else(PoisonError::into_inner);
            let upstreams = report.upstreams.iter().map(|one| (one.id.0, one.addr.to_string()));
            self.states.learn_upstreams(worker, upstreams);
        }
    }

    /// Takes what the workers have logged.
    fn round(&mut self) {
        self.refresh();
        let Self { running, rings, states, record, lists, .. } = self;
        let log: &QueryLog = &running.query_log;
        let is_followed = !log.followers.is_empty();
        let mut taken = 0;
        for (worker, ring) in rings.iter_mut().enumerate() {
            while ring.pop(record) {
                taken += 1;
                let entry = record.entry();
                let Some(facts) = states.complete(worker, &entry, lists) else { continue };
                if is_followed {
                    let entry = Entry { facts, lists, ..entry };
                    log.followers.send(&Arc::new(shown(&entry, states)));
                }
            }
        }
        LogCounts::add(&log.counts.taken, taken);
        let dropped = rings.iter().map(Consumer::dropped).sum();
        log.counts.dropped.store(dropped, Ordering::Relaxed);
    }
}
