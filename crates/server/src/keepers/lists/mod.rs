//! The thread that reads sources when they are due, compiles changed texts and puts them in force.
//! It also reads the file of the geo database, which takes as long as a list.

mod pull;
pub(crate) mod status;

use std::collections::{HashMap, HashSet, VecDeque};
use std::panic::resume_unwind;
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use std::{io, thread};

use avocet_config::Config;
use avocet_config::policy::{ListConfig, ListSource};
use avocet_control::ControlError;
use avocet_control::lists::{Refreshed, RefreshedList};
use avocet_nameserver::clock::wall_secs;
use avocet_nameserver::file_watch::{FileFingerprint, FileWatch};
use avocet_nameserver::snapshot::Snapshot;
use avocet_resolver::Timers;

use crate::error::BackgroundError;
use crate::lists::fitting;
use crate::lists::source::Failure;
use crate::lists::store::{Pulled, Store, Taking, TextChange, source_text};
use crate::lists::{Order, RefreshResult};
use crate::running::conditions::Condition;
use crate::running::{GeoWatch, Running};
use pull::pull;

/// Interval between two checks of files and for due work.
const TICK: Duration = Duration::from_secs(1);
/// Maximum number of texts that are fetched at the same time. Each may have 256 MiB, so there are
/// only two: one can continue while the server of the other is slow.
const MAX_PULLS: usize = 2;
/// Time after which changed texts are compiled for the first time in a round, even if other sources
/// are still being fetched. The time doubles with each compilation, up to [`COMPILE_AFTER`].
const FIRST_COMPILE_AFTER: Duration = Duration::from_secs(3);
/// Maximum time after which changed texts are compiled. Also the time for which removed lists stay
/// in force until the lists that replace them are fetched.
const COMPILE_AFTER: Duration = Duration::from_secs(30);
/// Time after which a failed compilation is tried again. The time doubles with each failure, up to
/// [`MAX_RECOMPILE_AFTER`], because each attempt costs as much as all lists together. A changed
/// text or configuration does not wait.
const RECOMPILE_AFTER: Duration = Duration::from_secs(60);
/// Maximum time after which a failed compilation is tried again.
const MAX_RECOMPILE_AFTER: Duration = Duration::from_secs(3_600);

/// Bounds of the seconds between two checks of a zone, regardless of its SOA record.
const ZONE_SECS: (u64, u64) = (60, 86_400);
/// Minimum number of seconds between two checks of a zone after NOTIFY, because each new version
/// compiles all lists.
const NOTIFIED_SECS: u64 = 5;

/// Pause after a round that panicked.
const REST_AFTER_FAULT: Duration = Duration::from_secs(60);
/// The error of all sources after a panic.
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
        stand_ins_since: None,
        refused: None,
        unfit: HashMap::new(),
        geo: GeoWatch::default(),
    };
    thread::Builder::new().name("lists".to_owned()).spawn(move || work.run()).map(drop)
}

/// Whether the lists must be compiled again.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pending {
    /// No text has changed.
    None,
    /// A text has changed.
    Changed,
    /// The last attempt failed.
    Failed(FailedCompilation),
}

/// An attempt to compile the lists that failed.
#[derive(Clone, Copy, PartialEq, Eq)]
struct FailedCompilation {
    at: Instant,
    /// The time until the next attempt with the same texts and configuration.
    wait: Duration,
}

impl FailedCompilation {
    /// Returns the failure of the attempt that `pending` led to.
    fn after(pending: Pending, at: Instant) -> Self {
        let wait = match pending {
            Pending::Failed(last) => (2 * last.wait).min(MAX_RECOMPILE_AFTER),
            Pending::None | Pending::Changed => RECOMPILE_AFTER,
        };
        Self { at, wait }
    }

    fn is_due(self, now: Instant) -> bool {
        now.duration_since(self.at) >= self.wait
    }
}

/// The lists that a round fetches from other servers.
#[derive(Default)]
struct DuePulls {
    waiting: VecDeque<(ListConfig, Taking)>,
    /// The names of all these lists, including those that are no longer waiting. A list that is due
    /// again waits for the next round, so that each round ends.
    names: HashSet<String>,
}

/// The texts of a round that wait for other texts, so that all are compiled together.
struct ChangedTexts {
    /// The time since which the first of them waits.
    since: Option<Instant>,
    /// The time for which it waits.
    wait: Duration,
}

impl ChangedTexts {
    const NONE: Self = Self { since: None, wait: FIRST_COMPILE_AFTER };

    /// Notes that a text changed.
    fn note(&mut self, now: Instant) {
        self.since.get_or_insert(now);
    }

    /// Returns whether texts have changed and still wait.
    fn wait_at(&self, now: Instant) -> bool {
        self.since.is_some_and(|since| now.duration_since(since) < self.wait)
    }

    /// Notes a compilation. Each costs as much as all lists together, so the next texts wait
    /// longer.
    fn compiled(&mut self) {
        *self = Self { since: None, wait: (2 * self.wait).min(COMPILE_AFTER) };
    }
}

/// The results of attempts by the name of the list.
type Outcomes = HashMap<String, Result<TextChange, Failure>>;

struct Work {
    running: Arc<Running>,
    store: Store,
    watches: HashMap<String, FileWatch>,
    pending: Pending,
    /// The time since which removed lists are in force until the lists that replace them are
    /// compiled.
    stand_ins_since: Option<Instant>,
    /// The reason why some lists cannot be put in force, and the configuration for which this was
    /// found.
    refused: Option<(String, Arc<Config>)>,
    /// The lists with a text that was not taken because it does not fit the configuration.
    unfit: HashMap<String, Arc<Config>>,
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
            let round = || {
                self.round(&orders);
                self.refused.as_ref().map(|(text, _)| text.clone())
            };
            let done = running.conditions.contain_and_report(Condition::Lists, FAULT, round);
            faulty_since = (!done).then(Instant::now);
            if !done {
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
        let latest = self.running.shared.snapshot();
        if self.wants_image(&latest) {
            self.make_image(&latest);
        }
        for order in orders {
            answer(order, self.outcome(order, &state, &outcomes));
        }
    }

    /// Loads the state of the previous process.
    fn begin(&mut self) {
        let state = self.running.shared.snapshot();
        let mut sources = self.store.load_states();
        // A list without a copy is fetched at once, whatever the state says.
        for list in state.config.policy.lists.iter().filter(|list| !is_file(list)) {
            if self.store.head(list).is_none() {
                sources.remove(&list.name);
            }
        }
        *self.running.lists.sources() = sources;
        // The previous process may have ended after it stored a copy and before it stored the
        // compiled lists.
        let making = state.parts.lists.as_ref().map(|lists| &lists.making().lists);
        for (list, compiled) in state.config.policy.lists.iter().zip(making.into_iter().flatten()) {
            if self.store.head(list).map(|head| head.stamp()) != compiled.stamp {
                self.pending = Pending::Changed;
            }
        }
    }

    /// Tries the sources that are due or requested, and returns the results by name.
    fn look_at_sources(&mut self, state: &Snapshot, orders: &[Order]) -> Outcomes {
        self.forget_others(&state.config.policy.lists);
        let is_saved = match orders.is_empty() {
            true => self.store.save_again(),
            false => self.store.save_now(),
        };
        let mut outcomes = self.look_at_files(state, orders);
        let mut due = DuePulls::default();
        self.add_due(state, orders, &mut due);
        if !due.waiting.is_empty() {
            self.pull(due, &mut outcomes);
        }
        let is_unsaved =
            |list: &ListConfig| !is_file(list) && self.store.unsaved(&list.name).is_some();
        let is_unsaved = state.config.policy.lists.iter().any(is_unsaved);
        self.running.lists.is_unsaved.store(is_unsaved, Ordering::Relaxed);
        if (is_saved || !outcomes.is_empty())
            && let Err(error) = self.store.save_states(&self.running.lists.sources())
        {
            tracing::warn!("cannot save the state of the lists: {error}");
        }
        outcomes
    }

    /// Adds the lists of other servers that are due or requested, each once in a round.
    fn add_due(&mut self, state: &Snapshot, orders: &[Order], due: &mut DuePulls) {
        for list in state.config.policy.lists.iter().filter(|list| !is_file(list)) {
            let wanted = wanted(list, orders);
            let is_due = |work: &mut Self| work.is_due(list) || work.may_fit_now(list, state);
            if !due.names.contains(&list.name) && (wanted.is_some() || is_due(self)) {
                due.names.insert(list.name.clone());
                due.waiting.push_back((list.clone(), wanted.unwrap_or(Taking::Judged)));
            }
        }
    }

    /// Tries the files that are due or requested, and returns the results by name.
    fn look_at_files(&mut self, state: &Snapshot, orders: &[Order]) -> Outcomes {
        let mut outcomes = Outcomes::new();
        for list in &state.config.policy.lists {
            let ListSource::File(path) = &list.source else { continue };
            let wanted = wanted(list, orders);
            let is_due = |work: &mut Self| work.is_due(list) || work.may_fit_now(list, state);
            if self.running.lists.is_closed() || wanted.is_none() && !is_due(self) {
                continue;
            }
            let (running, store) = (&self.running, &mut self.store);
            let octets = std::fs::metadata(path).map_or(0, |facts| facts.len());
            let fits = |store: &Store, text: &[u8]| fitting::judge(state, store, (list, text));
            let take = || store.take_file(list, path, wanted.unwrap_or(Taking::Judged), fits);
            let taken = running.lists.leisure.work(octets, take);
            self.note_fit(list, state, taken.as_ref().err());
            outcomes.insert(list.name.clone(), self.record(list, taken, None));
        }
        outcomes
    }

    /// Fetches the texts of other servers, a few at a time, and records the results. A server may
    /// take minutes. In this time, the function reads files, puts changed files in force, and adds
    /// lists that become due.
    fn pull(&mut self, mut due: DuePulls, outcomes: &mut Outcomes) {
        let running = self.running.clone();
        let (ended, ends) = mpsc::channel();
        // A changed file must not wait for servers.
        let mut changed = ChangedTexts::NONE;
        self.go_on(&mut changed, outcomes);
        let mut went_on = Instant::now();
        thread::scope(|scope| {
            let mut numbers = 0..;
            let mut pulls = HashMap::new();
            loop {
                while pulls.len() < MAX_PULLS
                    && !running.lists.is_closed()
                    && let Some((list, taking)) = due.waiting.pop_front()
                    && let Some(number) = numbers.next()
                {
                    let known = self.store.known(&list);
                    let (running, source) = (&running, list.clone());
                    let end = PullEnd { number, ended: ended.clone() };
                    let work = move || {
                        let _end = end;
                        pull(running, &source, known, taking)
                    };
                    let thread = thread::Builder::new().name("list-pull".to_owned());
                    match thread.spawn_scoped(scope, work) {
                        Ok(thread) => drop(pulls.insert(number, (list, thread))),
                        Err(error) => {
                            let failure = Failure::Thread(error.to_string());
                            let outcome = self.record(&list, Err(failure), None);
                            outcomes.insert(list.name, outcome);
                        }
                    }
                }
                if pulls.is_empty() {
                    break;
                }
                let ended = ends.recv_timeout(TICK).ok();
                if let Some((list, thread)) = ended.and_then(|number| pulls.remove(&number)) {
                    let pulled = thread.join().unwrap_or_else(|panic| resume_unwind(panic));
                    let outcome = self.take(&list, pulled);
                    if outcome == Ok(TextChange::Changed) {
                        changed.note(Instant::now());
                    }
                    outcomes.insert(list.name, outcome);
                }
                if went_on.elapsed() >= TICK {
                    self.go_on(&mut changed, outcomes);
                    self.add_due(&running.shared.snapshot(), &[], &mut due);
                    went_on = Instant::now();
                }
            }
        });
    }

    /// Does the work that must not wait for texts of other servers. `outcomes` are the results of
    /// this round.
    fn go_on(&mut self, changed: &mut ChangedTexts, outcomes: &Outcomes) {
        self.geo.look(&self.running);
        let state = self.running.shared.snapshot();
        let has_new_file =
            self.look_at_files(&state, &[]).values().any(|one| *one == Ok(TextChange::Changed));
        // A change in a file, or in a text of an earlier round, does not wait.
        let waits =
            self.pending == Pending::Changed && !has_new_file && changed.wait_at(Instant::now());
        let waits_for_new = self.waits_for_new_text(&state, outcomes);
        if !waits && !waits_for_new && self.wants_image(&state) {
            self.make_image(&state);
            changed.compiled();
        }
    }

    /// Returns whether to wait for lists that replace removed lists and are still being fetched. A
    /// compilation without them would end the removed lists, which are in force until then.
    fn waits_for_new_text(&mut self, state: &Snapshot, outcomes: &Outcomes) -> bool {
        if !state.policy.as_ref().is_some_and(|policy| policy.has_stand_ins()) {
            self.stand_ins_since = None;
            return false;
        }
        let is_fetched_now = |list: &ListConfig| {
            !is_file(list) && self.store.head(list).is_none() && !outcomes.contains_key(&list.name)
        };
        self.stand_ins_since.get_or_insert_with(Instant::now).elapsed() < COMPILE_AFTER
            && state.config.policy.lists.iter().any(is_fetched_now)
    }

    /// Records a text that was fetched from other servers.
    fn take(
        &mut self,
        list: &ListConfig,
        pulled: Result<Pulled, Failure>,
    ) -> Result<TextChange, Failure> {
        let (running, store) = (&self.running, &mut self.store);
        let octets = store.head(list).map_or(u64::MAX, |head| head.octets);
        let state = running.shared.snapshot();
        let taken = pulled.and_then(|pulled| {
            running.lists.leisure.work(octets, || {
                pulled
                    .text
                    .new_text()
                    .map_or(Ok(()), |text| fitting::judge(&state, store, (list, text)))?;
                store.take_pulled(list, pulled)
            })
        });
        let timers = taken.as_ref().ok().and_then(|taken| taken.timers);
        self.note_fit(list, &state, taken.as_ref().err());
        self.record(list, taken.map(|taken| taken.change), timers)
    }

    /// Notes whether the text of a list was not taken because it does not fit the configuration.
    fn note_fit(&mut self, list: &ListConfig, state: &Snapshot, failure: Option<&Failure>) {
        match failure {
            Some(Failure::Unfit(_)) => {
                self.unfit.insert(list.name.clone(), state.config.clone());
            }
            _ => drop(self.unfit.remove(&list.name)),
        }
    }

    /// Returns whether the configuration has changed since the text of a list did not fit.
    fn may_fit_now(&self, list: &ListConfig, state: &Snapshot) -> bool {
        self.unfit.get(&list.name).is_some_and(|config| !Arc::ptr_eq(config, &state.config))
    }

    /// Drops the states of sources that are no longer configured.
    fn forget_others(&mut self, lists: &[ListConfig]) {
        let is_known = |name: &String| lists.iter().any(|list| list.name == *name);
        self.watches.retain(|name, _| is_known(name));
        self.unfit.retain(|name, _| is_known(name));
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

    /// Records the result of an attempt.
    fn record(
        &mut self,
        list: &ListConfig,
        taken: Result<TextChange, Failure>,
        timers: Option<Timers>,
    ) -> Result<TextChange, Failure> {
        let refresh_secs = timers.map_or(list.refresh.as_secs(), |timers| {
            u64::from(timers.refresh_secs).clamp(ZONE_SECS.0, ZONE_SECS.1)
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
                    (Failure::HeldBack(_) | Failure::Unfit(_), _) => "not taken",
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

    /// Returns whether a text or the configuration of the lists has changed.
    fn wants_image(&self, state: &Snapshot) -> bool {
        let belong = match &state.parts.lists {
            Some(lists) => lists.belong_to(&state.config.policy),
            None => state.config.policy.lists.is_empty(),
        };
        let may_fit_now =
            self.refused.as_ref().is_some_and(|(_, config)| !Arc::ptr_eq(config, &state.config));
        match self.pending {
            Pending::None => !belong || may_fit_now,
            Pending::Changed => true,
            Pending::Failed(last) => may_fit_now || last.is_due(Instant::now()),
        }
    }

    /// Compiles all lists and puts them in force. The previous compiled lists (the image) are freed
    /// when no worker uses them any more.
    fn make_image(&mut self, state: &Snapshot) {
        match self.try_make_image(state) {
            Ok(refused) => {
                self.refused = refused.map(|text| (text, state.config.clone()));
                self.pending = Pending::None;
            }
            Err(error) => {
                let refused =
                    format!("cannot compile the lists; the previous image stays in force: {error}");
                tracing::error!("{refused}");
                self.refused = Some((refused, state.config.clone()));
                let failed = FailedCompilation::after(self.pending, Instant::now());
                self.pending = Pending::Failed(failed);
            }
        }
    }

    /// Returns the lists that are left out because they do not fit, with the reason.
    fn try_make_image(&mut self, state: &Snapshot) -> Result<Option<String>, BackgroundError> {
        let config = &state.config.policy;
        let change = |lists| self.running.reloader.change_policy(|parts| parts.lists = lists);
        if config.lists.is_empty() {
            change(None)?;
            return Ok(None);
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
        let refusal = match change(Some(lists)) {
            Err(refusal) if fitting::is_about_clients(&refusal) => refusal,
            outcome => return Ok(outcome.map(|()| None)?),
        };
        // A list in force stays as it is, but a list that is not in force is left out.
        let is_absent = |name: &str| {
            status::compiled(state, name).is_none_or(|compiled| compiled.stamp.is_none())
        };
        let found = fitting::without((config, secret), &self.store, is_absent, |lists| {
            change(Some(Arc::new(lists)))
        });
        match found {
            Some(((), left_out)) => Ok(Some(fitting::reason(&left_out, &refusal))),
            None => Err(refusal.into()),
        }
    }

    /// Returns the outcome of an order.
    fn outcome(&self, order: &Order, before: &Snapshot, outcomes: &Outcomes) -> RefreshResult {
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

/// Returns whether the source of a list is a file of this machine.
fn is_file(list: &ListConfig) -> bool {
    matches!(list.source, ListSource::File(_))
}

/// Returns how the orders want the text of a list to be accepted; `None` if no order requests the
/// list.
fn wanted(list: &ListConfig, orders: &[Order]) -> Option<Taking> {
    let is_named = |order: &&Order| order.name.as_ref().is_none_or(|name| *name == list.name);
    let takings = orders.iter().filter(is_named).map(|order| order.taking);
    takings.max_by_key(|taking| *taking as u8)
}

/// A guard that reports the end of a thread, also after a panic.
struct PullEnd {
    number: usize,
    ended: mpsc::Sender<usize>,
}

impl Drop for PullEnd {
    fn drop(&mut self) {
        // The receiver exists until all threads have ended.
        let _ = self.ended.send(self.number);
    }
}

fn answer(order: &Order, outcome: RefreshResult) {
    // The receiver may have been dropped.
    let _ = order.reply.send(outcome);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_that_cannot_be_compiled_are_tried_less_often_until_a_text_changes() {
        let (mut pending, mut now) = (Pending::Changed, Instant::now());
        for minutes in [1, 2, 4, 8, 16, 32, 60, 60] {
            let failed = FailedCompilation::after(pending, now);
            let wait = Duration::from_secs(60 * minutes);
            assert!(!failed.is_due(now + wait - Duration::from_secs(1)), "{minutes}");
            now += wait;
            assert!(failed.is_due(now), "{minutes}");
            pending = Pending::Failed(failed);
        }
        let failed = FailedCompilation::after(Pending::Changed, now);
        assert!(failed.is_due(now + RECOMPILE_AFTER));
    }

    #[test]
    fn texts_that_arrived_wait_for_slow_servers_for_seconds_and_longer_after_each_compilation() {
        let (mut changed, began) = (ChangedTexts::NONE, Instant::now());
        assert!(!changed.wait_at(began));
        for secs in [3, 6, 12, 24, 30, 30] {
            changed.note(began);
            changed.note(began + Duration::from_secs(1));
            assert!(changed.wait_at(began + Duration::from_secs(secs - 1)), "{secs}");
            assert!(!changed.wait_at(began + Duration::from_secs(secs)), "{secs}");
            changed.compiled();
        }
    }
}
