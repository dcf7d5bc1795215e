//! The thread that reads sources when they are due, compiles changed texts and puts them in force.
//! It also reads the file of the geo database, which takes as long as a list.

pub(crate) mod status;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{io, thread};

use avocet_config::policy::{ListConfig, ListSource};
use avocet_control::ControlError;
use avocet_control::lists::{Refreshed, RefreshedList};
use avocet_nameserver::clock::wall_secs;
use avocet_nameserver::file_watch::{FileFingerprint, FileWatch};
use avocet_nameserver::snapshot::Snapshot;

use crate::error::BackgroundError;
use crate::lists::fetch::{BOUNDS, Fetcher, Lookup};
use crate::lists::source::Failure;
use crate::lists::store::{Store, Taking, TextChange, source_text};
use crate::lists::zone::ZonePrimaries;
use crate::lists::{Order, RefreshResult};
use crate::running::conditions::Condition;
use crate::running::{GeoWatch, Running};
use crate::trace::own_questions;

/// Interval between checks of files and of what is due.
const TICK: Duration = Duration::from_secs(1);
/// Changed texts are compiled after this time, even if other sources are still being fetched.
const COMPILE_AFTER: Duration = Duration::from_secs(30);
/// Time after which a failed compilation is tried again.
const RECOMPILE_AFTER: Duration = Duration::from_secs(60);

/// Bounds of the seconds between two checks of a zone, regardless of its SOA record.
const ZONE_SECS: (u64, u64) = (60, 86_400);
/// Seconds from a check of a zone to the next one, however often primaries send NOTIFY: each new
/// version compiles all lists.
const NOTIFIED_SECS: u64 = 5;

/// Pause after a round that panicked.
const REST_AFTER_FAULT: Duration = Duration::from_secs(60);
/// The error of all sources then.
const FAULT: &str = "a panic interrupted the maintenance of lists, see the log; lists in force \
                     stay, and the server retries";

/// Starts the thread.
///
/// # Errors
///
/// The system cannot start a thread.
pub(crate) fn start(running: Arc<Running>, store: Store) -> io::Result<()> {
    let work = Work {
        running,
        store,
        watches: HashMap::new(),
        pending: Pending::None,
        geo: GeoWatch::default(),
    };
    thread::Builder::new().name("lists".to_owned()).spawn(move || work.run()).map(drop)
}

/// Whether an image must be compiled.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pending {
    /// No text has changed.
    None,
    /// A text has changed.
    Changed,
    /// The last attempt failed.
    Failed(Instant),
}

struct Work {
    running: Arc<Running>,
    store: Store,
    watches: HashMap<String, FileWatch>,
    pending: Pending,
    geo: GeoWatch,
}

impl Drop for Work {
    fn drop(&mut self) {
        // Waiting callers must get a result even if a panic ended the thread.
        self.running.lists.close();
    }
}

impl Work {
    fn run(mut self) {
        self.begin();
        let running = self.running.clone();
        let mut faulty_since: Option<Instant> = None;
        while let Some(orders) = running.lists.wait(TICK) {
            if orders.is_empty()
                && faulty_since.is_some_and(|since| since.elapsed() < REST_AFTER_FAULT)
            {
                continue;
            }
            let done = running.conditions.contain(Condition::Lists, FAULT, || self.round(&orders));
            faulty_since = done.is_none().then(Instant::now);
            if done.is_none() {
                orders
                    .iter()
                    .for_each(|order| answer(order, Err(ControlError::Interrupted(FAULT))));
            }
        }
    }

    /// Processes all sources that are due or requested.
    fn round(&mut self, orders: &[Order]) {
        self.geo.look(&self.running);
        let state = self.running.shared.snapshot();
        if state.config.policy.lists.is_empty() && state.parts.lists.is_none() {
            orders.iter().for_each(|order| answer(order, Err(ControlError::NoLists)));
            return;
        }
        let outcomes = self.look_at_sources(&state, orders);
        if self.wants_image(&state) {
            self.make_image(&state);
        }
        for order in orders {
            answer(order, self.outcome(order, &state, &outcomes));
        }
    }

    /// Loads the state of the previous process.
    fn begin(&mut self) {
        let state = self.running.shared.snapshot();
        *self.running.lists.sources() = self.store.load_states();
        // The previous process may have ended between storing a copy and its image.
        let making = state.parts.lists.as_ref().map(|lists| &lists.making().lists);
        for (list, compiled) in state.config.policy.lists.iter().zip(making.into_iter().flatten()) {
            if self.store.head(list).map(|head| head.stamp()) != compiled.stamp {
                self.pending = Pending::Changed;
            }
        }
    }

    /// Tries the sources that are due or requested; returns the results by name.
    fn look_at_sources(
        &mut self,
        state: &Snapshot,
        orders: &[Order],
    ) -> HashMap<String, Result<TextChange, Failure>> {
        let began = Instant::now();
        let mut outcomes = HashMap::new();
        let mut fetcher = None;
        self.forget_others(&state.config.policy.lists);
        for list in &state.config.policy.lists {
            let is_named =
                |order: &&Order| order.name.as_ref().is_none_or(|name| *name == list.name);
            let wanted = orders
                .iter()
                .filter(is_named)
                .map(|order| order.taking)
                .max_by_key(|taking| *taking as u8);
            let has_time = self.pending == Pending::None
                || began.elapsed() < COMPILE_AFTER
                || wanted.is_some();
            if self.running.lists.is_closed() || !has_time {
                break;
            }
            if wanted.is_some() || self.is_due(list) {
                let shared = &self.running.shared;
                let lookup = || -> Lookup {
                    let shared = shared.clone();
                    Box::new(move |host| own_questions::addresses(&shared, host))
                };
                let fetcher = fetcher.get_or_insert_with(|| Fetcher::new(lookup(), BOUNDS));
                outcomes.insert(
                    list.name.clone(),
                    self.look(list, fetcher, wanted.unwrap_or(Taking::Judged)),
                );
            }
        }
        if !outcomes.is_empty()
            && let Err(error) = self.store.save_states(&self.running.lists.sources())
        {
            tracing::warn!("cannot save the state of the lists: {error}");
        }
        outcomes
    }

    /// Drops the states of sources that are no longer configured.
    fn forget_others(&mut self, lists: &[ListConfig]) {
        let is_known = |name: &String| lists.iter().any(|list| list.name == *name);
        self.watches.retain(|name, _| is_known(name));
        self.running.lists.sources().retain(|name, _| is_known(name));
    }

    fn is_due(&mut self, list: &ListConfig) -> bool {
        let mut sources = self.running.lists.sources();
        let source = sources.entry(list.name.clone()).or_default();
        if source.source != source_text(list) {
            *source = Default::default();
            source.source = source_text(list);
            self.watches.remove(&list.name);
        }
        match &list.source {
            ListSource::Url(_) => source.is_due(wall_secs(), list.refresh.as_secs()),
            ListSource::Zone(_) => {
                let now_secs = wall_secs();
                let is_noted = source.may_follow_notify(now_secs, NOTIFIED_SECS)
                    && self.running.lists.take_note(&list.name);
                is_noted || source.is_due(now_secs, ZONE_SECS.1)
            }
            ListSource::File(path) => {
                let now = FileFingerprint::of(path);
                let Some(watch) = self.watches.get_mut(&list.name) else {
                    self.watches.insert(list.name.clone(), FileWatch::new(now));
                    return true;
                };
                // A missing or unreadable file is reported once, and tried again.
                watch.has_settled(now) || now.is_none() && source.error.is_none()
            }
        }
    }

    /// Tries one source, and records the result.
    fn look(
        &mut self,
        list: &ListConfig,
        fetcher: &Fetcher,
        taking: Taking,
    ) -> Result<TextChange, Failure> {
        let mut refresh_secs = list.refresh.as_secs();
        let (running, store) = (&self.running, &mut self.store);
        let octets = octets(store, list);
        let taken = running.lists.leisure.work(octets, || match &list.source {
            ListSource::Url(url) => store.take_url(list, url, (fetcher, taking)),
            ListSource::File(path) => store.take_file(list, path, taking),
            ListSource::Zone(zone) => {
                let state = running.shared.snapshot();
                let is_closed = || running.lists.is_closed();
                let primaries =
                    ZonePrimaries { list: zone, config: &state.config, is_closed: &is_closed };
                let taken = store.take_zone(list, &primaries, taking)?;
                let secs = u64::from(taken.timers.refresh_secs);
                refresh_secs = secs.clamp(ZONE_SECS.0, ZONE_SECS.1);
                Ok(taken.change)
            }
        });
        let head = self.store.head(list);
        let (has_copy, head) = (head.is_some(), head.unwrap_or_default());
        let random = getrandom::u64().unwrap_or_default();
        let mut sources = self.running.lists.sources();
        let source = sources.entry(list.name.clone()).or_default();
        source.source = source_text(list);
        (source.octets, source.fetched_at_secs) = (head.octets, head.fetched_at_secs);
        match &taken {
            Ok(_) => source.succeed(wall_secs(), refresh_secs, random),
            Err(failure) => {
                source.fail(wall_secs(), failure, random);
                let how = match (&failure, &list.source) {
                    (Failure::HeldBack(_), _) => "not taken",
                    (_, ListSource::Url(_)) => "not fetched",
                    (_, ListSource::Zone(_)) => "not transferred",
                    (_, ListSource::File(_)) => "not read",
                };
                let what = if has_copy {
                    "the last good copy stays in force"
                } else {
                    "the list has no effect"
                };
                tracing::warn!(list = list.name, "{how}, {what}: {failure}");
            }
        }
        if taken == Ok(TextChange::Changed) {
            self.pending = Pending::Changed;
        }
        taken
    }

    /// Whether a text or the configuration of the lists has changed.
    fn wants_image(&self, state: &Snapshot) -> bool {
        let belong = match &state.parts.lists {
            Some(lists) => lists.belong_to(&state.config.policy),
            None => state.config.policy.lists.is_empty(),
        };
        match self.pending {
            Pending::None => !belong,
            Pending::Changed => true,
            Pending::Failed(at) => at.elapsed() >= RECOMPILE_AFTER,
        }
    }

    /// Compiles all lists and puts them in force. The previous image is freed when no worker uses
    /// it any more.
    fn make_image(&mut self, state: &Snapshot) {
        match self.try_make_image(state) {
            Ok(()) => self.pending = Pending::None,
            Err(error) => {
                tracing::error!(
                    "cannot compile the lists; the previous image stays in force: {error}"
                );
                self.pending = Pending::Failed(Instant::now());
            }
        }
    }

    fn try_make_image(&mut self, state: &Snapshot) -> Result<(), BackgroundError> {
        let config = &state.config.policy;
        if config.lists.is_empty() {
            return Ok(self.running.reloader.change_policy(|parts| parts.lists = None)?);
        }
        let mut secret = [0; 32];
        getrandom::fill(&mut secret).map_err(BackgroundError::Random)?;
        let octets = self.running.lists.sources().values().map(|source| source.octets).sum();
        let lists = Arc::new(
            self.running.lists.leisure.work(octets, || self.store.compile(config, secret))?,
        );
        self.running.lists.count_compile();
        let mut sources = self.running.lists.sources();
        for list in lists.making().lists.iter().filter(|list| list.stamp.is_none()) {
            // There is no usable copy: fetch the source again now, even if its last attempt
            // succeeded.
            if let Some(source) =
                sources.get_mut(&list.name).filter(|source| source.failures_in_row == 0)
            {
                source.due_at_secs = 0;
            }
        }
        drop(sources);
        Ok(self.running.reloader.change_policy(|parts| parts.lists = Some(lists))?)
    }

    /// The outcome of an order.
    fn outcome(
        &self,
        order: &Order,
        before: &Snapshot,
        outcomes: &HashMap<String, Result<TextChange, Failure>>,
    ) -> RefreshResult {
        let now = self.running.shared.snapshot();
        let entries =
            |state: &Snapshot, name: &str| status::compiled(state, name).map(|list| list.entries);
        let mut lists = Vec::new();
        for list in &now.config.policy.lists {
            let name = &list.name;
            let Some(outcome) = outcomes
                .get(name)
                .filter(|_| order.name.as_ref().is_none_or(|wanted| wanted == name))
            else {
                continue;
            };
            lists.push(RefreshedList {
                name: name.clone(),
                changed: *outcome == Ok(TextChange::Changed),
                error: outcome.as_ref().err().map(ToString::to_string),
                unsaved: self.store.unsaved(name).map(Into::into),
                entries_before: entries(before, name),
                entries: entries(&now, name),
            });
        }
        match &order.name {
            Some(name) if lists.is_empty() => Err(ControlError::UnknownList(name.clone())),
            _ => Ok(Refreshed { lists, image: status::image(&now) }),
        }
    }
}

/// The expected octets, if known.
fn octets(store: &Store, list: &ListConfig) -> u64 {
    match &list.source {
        ListSource::File(path) => std::fs::metadata(path).map_or(0, |facts| facts.len()),
        ListSource::Url(_) | ListSource::Zone(_) => {
            store.head(list).map_or(u64::MAX, |head| head.octets)
        }
    }
}

fn answer(order: &Order, outcome: RefreshResult) {
    // The receiver may be gone.
    let _ = order.reply.send(outcome);
}
