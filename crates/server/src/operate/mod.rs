//! The running server: signals, reload, the control socket, snapshots of the cache, take-over.
//!
//! ```text
//!            signals, timers ──┐
//!   control clients (threads) ─┼─> Operation::run, on the main thread ──> Shared ──> workers
//!       successor's stream ────┘
//! ```
//! The main thread reaches a worker only through [`Shared`]: it puts snapshots in force, sends
//! messages and reads counters. `serve` uses this module in four steps:
//!
//! 1. [`take_over::request`], for a take-over: gets the sockets of the running server.
//! 2. [`Operation::start`], before the threads of the workers start: fills the caches from disk,
//!    opens the control socket and the HTTP listener (or adopts those of the running server).
//! 3. [`take_over::TakenOver::confirm`], for a take-over, before the workers read their first
//!    query: lets the other server shut down.
//! 4. [`Operation::run`] until all workers have drained.
//!
//! ```text
//!   Serving ──SIGTERM, SIGINT, a worker ended──────> Draining ──all workers ended──> save, exit
//!     │  ^                                                ^
//!  take-over └─successor gone or silent─┐                 │
//!     v                                 │                 │
//!   HandingOver ─"yield"─> Released ────┴──"ready"──> HandedOver: nothing is saved or removed
//! ```

mod control_rest;
mod release;
mod successor;
pub(crate) mod take_over;
mod work_signs;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use avocet_config::Config;
use avocet_control::ControlError;
use avocet_io::ownership;
use avocet_io::poll::{Events, Interest, Poller, Trigger};
use avocet_io::signals::{Signal, Signals};
use avocet_io::tcp::listen;
use avocet_nameserver::clock::{WallClock, wall_secs};
use avocet_nameserver::file_watch::{ConfigFile, FileFingerprint, FileWatch};
use avocet_nameserver::snapshot::Unconfigured;
use avocet_nameserver::zone_files::ZoneFiles;
use avocet_web::WebStores;
use avocet_web::access::Access;

use crate::control::{ControlSocket, Orders, refuse};
use crate::http::{self, HttpServer};
use crate::keepers;
use crate::lists::leisure::free_at_leisure;
use crate::lists::{Keeping, Store};
use crate::otlp::OtlpCounts;
use crate::query_log::QueryLog;
use crate::root::RootKeeping;
use crate::running::access_requests::AccessRequests;
use crate::running::conditions::{Condition, Conditions};
use crate::running::devices::Devices;
use crate::running::names::{self, ClientNames};
use crate::running::neighbours::NeighbourWatch;
use crate::running::networks::NetworkWatch;
use crate::running::notifier::{self, Notifier};
use crate::running::oblivious::{self, ObliviousKeeping};
use crate::running::persist::CacheFile;
use crate::running::pool_watch::PoolWatch;
use crate::running::reach::{self, Reach};
use crate::running::reload::Reloader;
use crate::running::renewals::AcmeKeeping;
use crate::running::revisions::Revisions;
use crate::running::secondaries;
use crate::running::shown_certificates;
use crate::running::strangers;
use crate::running::switches::{self, Unsaved};
use crate::running::trust::KeptTrust;
use crate::running::updates;
use crate::running::zones::{self, ZoneWatch};
use crate::running::{OperationError, Running, Visits};
use crate::tap::TapCounts;
use avocet_worker::home_ca::HomeCa;
use avocet_worker::mailbox::Letter;
use avocet_worker::state::Shared;
use avocet_worker::threads::RingEnds;
use control_rest::ControlRest;
use release::Release;
pub(crate) use successor::{ConfigText, load_caches_early};
pub use take_over::TakeOverError;
use take_over::{AdoptedListeners, Handed, Successor, SuccessorState};
pub(crate) use take_over::{ListeningSockets, TakenOver};

/// Milliseconds between checks of timers and of the configuration file.
const TICK_MS: u32 = 1_000;
/// Milliseconds between two checks of timers while the workers drain.
const DRAIN_TICK_MS: u32 = 20;
/// Seconds for which the server makes cookies with one secret. It accepts the previous secret for
/// the same time. A cookie is valid for an hour.
const COOKIE_SECRET_SECS: u32 = 24 * 3600;
/// The time that a shutdown waits until the last traces are sent: a request in flight may take
/// longer.
const EXPORT_TIME: Duration = Duration::from_secs(3);
/// Maximum wait of a server that was taken over until its control clients have their replies.
const CLIENTS_TIME: Duration = Duration::from_secs(1);
/// Time between two checks whether the traces were sent.
const EXPORT_LOOK: Duration = Duration::from_millis(5);

const SIGNALS: u64 = 0;
const CONTROL: u64 = 1;
const ORDERS: u64 = 2;
const SUCCESSOR: u64 = 3;
const NEIGHBOURS: u64 = 4;
const LINKS: u64 = 5;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ending {
    /// The workers serve.
    None,
    /// A signal or a command requested the shutdown.
    Told,
    /// The sockets were handed over to another process.
    HandedOver,
    /// A worker ended by itself.
    Failed,
}

/// The results of the start, for the running server.
pub(crate) struct Beginnings {
    pub(crate) unconfigured: Unconfigured,
    /// The files of the hosted zones.
    pub(crate) zones: ZoneFiles,
    pub(crate) file: ConfigFile,
    /// The text of the configuration file.
    pub(crate) text: String,
    /// Whether this text is in force.
    pub(crate) text_state: ConfigText,
    pub(crate) store: Store,
    /// The receiving ends of the workers' rings.
    pub(crate) rings: Vec<RingEnds>,
}

/// The main thread of the server.
pub(crate) struct Operation {
    running: Arc<Running>,
    signals: Signals,
    /// The store; `None` after the thread for the lists has started.
    store: Option<Store>,
    /// The receiving ends of the workers' rings; empty after the threads of the query log, of
    /// dnstap and of traces have started.
    rings: Vec<RingEnds>,
    /// The threads of the query log and of dnstap.
    query_log: Vec<JoinHandle<()>>,
    /// The thread that exports traces.
    otlp: Option<JoinHandle<()>>,
    /// The thread of the pools.
    pools: Option<JoinHandle<()>>,
    control: ControlSocket,
    control_rest: ControlRest,
    http: Option<HttpServer>,
    /// The thread of the HTTP listener after the server was taken over.
    http_ends: Option<JoinHandle<()>>,
    listening: ListeningSockets,
    poller: Poller,
    orders: Arc<Orders>,
    successor: Option<Successor>,
    release: Release,
    /// Whether a signal requested a reload while another process owned the data directory.
    is_reload_due: bool,
    ending: Ending,
    watch: FileWatch,
    neighbours: NeighbourWatch,
    networks: NetworkWatch,
    save_due: u32,
    rotation_due: u32,
}

impl Operation {
    /// Fills the caches from disk and opens the control socket and the HTTP listener, or adopts
    /// those of the server that is taken over.
    ///
    /// # Errors
    /// Another server runs in the same directory, or one of the sockets cannot be opened.
    pub(crate) fn start(
        signals: Signals,
        shared: Arc<Shared>,
        begin: Beginnings,
        (listening, pages): (ListeningSockets, Vec<TcpListener>),
        taken: Option<&mut TakenOver>,
    ) -> Result<Self, OperationError> {
        let Beginnings { unconfigured, zones, file, text, text_state, store, rings } = begin;
        let config = shared.snapshot().config.clone();
        let revisions = Revisions::begin(&config.data.directory, file.path.clone(), &text);
        let is_successor = taken.is_some();
        let Opened { control, own, secure } = open(&config, taken)?;
        let listeners = Some(http::Listeners { own, secure, pages }).filter(|all| !all.is_empty());
        let local_root = unconfigured.local_root.clone();
        let reloader = Reloader::new(file.path, shared.clone(), (unconfigured, zones), revisions);
        let running = running_of(shared, (reloader, RootKeeping::new(local_root)), &config);
        let started = running.started;
        match is_successor {
            true => running.begin_as_successor(text_state),
            false => load_caches(&running),
        }
        offer_setup(&running.web.access, &config);
        let http = listeners.map(|all| HttpServer::start(all, running.clone())).transpose();
        let poller = polling(&signals, &control).map_err(OperationError::System)?;
        let orders = Arc::new(Orders::new(&poller, ORDERS).map_err(OperationError::System)?);
        let neighbours = neighbours_at_start(&running, &poller, started);
        Ok(Self {
            signals,
            store: Some(store),
            rings,
            query_log: Vec::new(),
            otlp: None,
            pools: None,
            control,
            control_rest: ControlRest::default(),
            http: http.map_err(OperationError::System)?,
            http_ends: None,
            listening,
            poller,
            orders,
            successor: None,
            release: Release::None,
            is_reload_due: false,
            ending: Ending::None,
            watch: FileWatch::new(file.seen),
            neighbours,
            networks: NetworkWatch::default(),
            save_due: started.saturating_add(save_interval(&running.shared).unwrap_or(0)),
            rotation_due: started.saturating_add(COOKIE_SECRET_SECS),
            running,
        })
    }

    /// Runs until the workers have drained; then saves the caches, unless another process has taken
    /// over.
    ///
    /// # Errors
    /// A worker ended by itself.
    pub(crate) fn run(mut self, workers: Vec<JoinHandle<()>>) -> Result<(), OperationError> {
        let mut events = Events::with_capacity(16);
        self.running.note_waiting_restore();
        self.running.note_access_fault();
        // The store must not be used earlier, because a server that is taken over maintains the
        // same lists until it ends.
        if let Some(store) = self.store.take() {
            keepers::lists::start(self.running.clone(), store).map_err(OperationError::System)?;
            keepers::root::start(self.running.clone()).map_err(OperationError::System)?;
            keepers::bootstrap::start(self.running.clone()).map_err(OperationError::System)?;
            keepers::discovery::start(self.running.clone()).map_err(OperationError::System)?;
            keepers::acme::start(self.running.clone()).map_err(OperationError::System)?;
            strangers::start(self.running.clone()).map_err(OperationError::System)?;
            names::start(self.running.clone()).map_err(OperationError::System)?;
            reach::start(self.running.clone()).map_err(OperationError::System)?;
            zones::start(self.running.clone()).map_err(OperationError::System)?;
            secondaries::start(self.running.clone()).map_err(OperationError::System)?;
            notifier::start(self.running.clone()).map_err(OperationError::System)?;
            updates::start(&self.running).map_err(OperationError::System)?;
            let probing = keepers::pools::start(self.running.clone());
            self.pools = Some(probing.map_err(OperationError::System)?);
            self.start_takers()?;
        }
        loop {
            let is_calm = self.ending == Ending::None && self.release == Release::None;
            let tick = if is_calm { self.control_rest.tick_ms() } else { DRAIN_TICK_MS };
            self.poller.wait(&mut events, Some(tick)).map_err(OperationError::System)?;
            let mut is_impatient = false;
            for event in events.iter() {
                match event.token() {
                    SIGNALS => is_impatient |= self.read_signals(),
                    CONTROL => self.accept_control_clients(),
                    ORDERS => {
                        self.control_rest.shorten();
                        self.take_orders();
                    }
                    NEIGHBOURS => self.neighbours.hear(&self.running, &self.poller),
                    LINKS => self.neighbours.hear_links(&self.running, &self.poller),
                    _ => self.hear_successor(),
                }
            }
            if workers.iter().all(JoinHandle::is_finished) && self.ending != Ending::None
                || is_impatient
            {
                break;
            }
            if self.ending == Ending::None && workers.iter().any(JoinHandle::is_finished) {
                tracing::error!("a worker thread ended by itself; shutting down");
                self.shut_down(Ending::Failed);
            }
            self.look_at_timers();
        }
        self.end()
    }

    /// Starts the threads that take entries from the rings of the workers.
    fn start_takers(&mut self) -> Result<(), OperationError> {
        let (mut logged, mut tapped, mut traced) = (Vec::new(), Vec::new(), Vec::new());
        for ends in std::mem::take(&mut self.rings) {
            logged.push(ends.logged);
            tapped.push(ends.tapped);
            traced.push(ends.traced);
        }
        let running = || self.running.clone();
        let system = OperationError::System;
        self.otlp = Some(keepers::otlp::start(running(), traced).map_err(system)?);
        let started = [
            keepers::dnstap::start(running(), tapped),
            keepers::query_log::start(running(), logged),
            keepers::query_log::start_upkeep(running()),
        ];
        for thread in started {
            self.query_log.push(thread.map_err(OperationError::System)?);
        }
        Ok(())
    }

    /// Reads pending signals. Returns true at the second signal to end: the server then ends
    /// without waiting.
    fn read_signals(&mut self) -> bool {
        let mut is_impatient = false;
        while let Ok(Some(signal)) = self.signals.next() {
            match signal {
                Signal::Hangup => self.reload(),
                Signal::Terminate | Signal::Interrupt if self.ending == Ending::None => {
                    tracing::info!("shutting down; completing queries in flight");
                    self.shut_down(Ending::Told);
                }
                Signal::Terminate | Signal::Interrupt => is_impatient = true,
                Signal::User => {
                    tracing::info!("SIGUSR1 and SIGUSR2 have no effect; use `avocet status`")
                }
            }
        }
        is_impatient
    }

    /// Shuts down, unless another process has just taken over.
    fn shut_down(&mut self, ending: Ending) {
        let is_taken = self.successor.is_some() && self.withdraw("the server is shutting down");
        if is_taken { self.hand_over() } else { self.drain(ending) }
    }

    /// Ends, because another process serves.
    fn hand_over(&mut self) {
        tracing::info!("another process has taken over; completing queries in flight");
        ownership::leave();
        self.http_ends = self.http.take().map(HttpServer::stop);
        self.drain(Ending::HandedOver);
    }

    fn drain(&mut self, ending: Ending) {
        self.ending = ending;
        self.running.draining.store(true, Ordering::Relaxed);
        self.running.lists.close();
        self.running.acme.close();
        self.running.root.close();
        self.running.names.close();
        self.running.reach.close();
        self.running.zone_watch.close();
        self.running.shared.pool_waker.close();
        self.running.shared.proxied.close();
        self.running.shared.name_server.notices.close();
        updates::close(&self.running);
        self.neighbours.close();
        let _ = self.poller.remove(&self.control);
        for mailbox in &self.running.shared.mailboxes {
            // A full mailbox still has room for this message.
            let _ = mailbox.send(Letter::Drain);
        }
    }

    /// Starts a take-over for a control client.
    fn take_orders(&mut self) {
        for stream in self.orders.take() {
            let is_free = self.successor.is_none() && self.release == Release::None;
            if self.ending != Ending::None || !is_free {
                refuse(stream, &ControlError::TakeOverRefused);
                continue;
            }
            self.running.cache_file.save(&self.running.shared);
            let http = self.http.iter().flat_map(HttpServer::listeners).collect();
            let handed = Handed { listening: &self.listening, control: &self.control, http };
            match Successor::begin(stream, &handed, self.running.shared.name_server.clock.now()) {
                Ok(successor) => {
                    let added = self.poller.add(
                        successor.stream(),
                        SUCCESSOR,
                        Interest::Read,
                        Trigger::Level,
                    );
                    match added {
                        Ok(()) => self.successor = Some(successor),
                        Err(_) => successor.refuse(&ControlError::TakeOverRefused),
                    }
                }
                Err(error) => tracing::warn!("cannot hand over the sockets: {error}; continuing"),
            }
        }
    }

    fn hear_successor(&mut self) {
        let Some(successor) = &mut self.successor else { return };
        match successor.hear() {
            SuccessorState::None => {}
            SuccessorState::Working => {
                successor.extend(self.running.shared.name_server.clock.now());
            }
            SuccessorState::Prepared => self.release(),
            SuccessorState::Ready => {
                self.successor = None;
                self.hand_over();
            }
            SuccessorState::Gone => {
                self.lose_successor("the new process ended before the take-over");
            }
        }
    }

    fn look_at_timers(&mut self) {
        if self.ending != Ending::None {
            return;
        }
        self.reclaim();
        let moment = self.running.shared.name_server.clock.now();
        if self.successor.as_ref().is_some_and(|successor| successor.is_overdue(moment))
            && self.withdraw(
                "the new process did not get ready to take over in time: it may have to read or \
                 sign large zones, and a restart has no limit",
            )
        {
            return self.hand_over();
        }
        self.end_control_rest();
        // While another process may own the data directory, nothing is due that writes it.
        let Ok(_change) = ownership::try_change() else { return };
        self.look_at_file();
        let shared = &self.running.shared;
        let now = moment.secs();
        // The interval may have become shorter since the time of the next save was set.
        if let Some(interval) = save_interval(shared)
            && now >= self.save_due.min(now.saturating_add(interval))
            && self.successor.is_none()
        {
            self.running.cache_file.save(shared);
            self.save_due = now.saturating_add(interval);
        }
        if let WallClock::WasSet { by_secs } = shared.name_server.clock.follow_wall_clock() {
            self.running.follow_wall_clock(by_secs);
        }
        self.running.lists.leisure.hurry();
        let retired = shared.name_server.take_retired();
        if !retired.is_empty() {
            free_at_leisure(retired);
        }
        self.running.tick_trust();
        switches::expire(&self.running);
        self.running.tick_revisions();
        self.running.save_again();
        let snapshot = shared.snapshot();
        let fault = self.running.home_ca.look(snapshot.config.home_ca.as_ref(), wall_secs());
        self.running.conditions.set(Condition::HomeCa, fault);
        if shared.tls.look(&snapshot.config) {
            self.running.reloader.announce_certificates();
        }
        oblivious::look(&self.running);
        keepers::odoh_proxy::look(&self.running);
        shown_certificates::look(&self.running);
        self.neighbours.look(&self.running, &self.poller, now);
        self.networks.look(&self.running, now);
        if now >= self.rotation_due {
            self.rotation_due = now.saturating_add(COOKIE_SECRET_SECS);
            self.rotate_cookie_secret();
        }
    }

    /// Reloads the configuration file if it has changed, and reports a missing file.
    fn look_at_file(&mut self) {
        let Some(path) = self.running.reloader.path() else { return };
        let now = FileFingerprint::of(path);
        let gone = self.watch.has_gone(now).then(|| {
            format!(
                "the configuration file {} is missing; the configuration in force stays, but the \
                 server cannot start again without the file",
                path.display()
            )
        });
        let unwritten = self.running.reloader.revisions.unwritten().map(|fault| {
            format!(
                "the configuration in force is not in its file, so that a restart undoes the \
                 rollback: {fault}"
            )
        });
        self.running.conditions.set(Condition::Configuration, gone.or(unwritten));
        if self.watch.has_settled(now) && !self.running.reloader.has_text_of_file() {
            tracing::info!("{} has changed", path.display());
            let _ = self.running.reloader.reload();
        }
    }

    fn rotate_cookie_secret(&self) {
        let mut secret = [0; 16];
        match getrandom::fill(&mut secret) {
            Ok(()) => self.running.reloader.rotate_cookie_secret(secret),
            Err(error) => tracing::warn!(%error, "cannot draw a cookie secret"),
        }
    }

    fn end(mut self) -> Result<(), OperationError> {
        if self.await_return() && save_interval(&self.running.shared).is_some() {
            self.running.cache_file.save(&self.running.shared);
        }
        match self.ending {
            Ending::HandedOver => self.control.wait_for_clients(CLIENTS_TIME),
            _ => self.control.remove(),
        }
        self.running.shared.strangers.close();
        // The workers have ended: the threads take their last entries.
        self.running.query_log.close();
        let threads = self.query_log.into_iter().chain(self.pools).chain(self.http_ends);
        for thread in threads {
            let _ = thread.join();
        }
        let since = Instant::now();
        while self.otlp.as_ref().is_some_and(|thread| !thread.is_finished())
            && since.elapsed() < EXPORT_TIME
        {
            thread::park_timeout(EXPORT_LOOK);
        }
        tracing::info!("ended");
        if self.ending == Ending::Failed { Err(OperationError::WorkerEnded) } else { Ok(()) }
    }
}

/// Creates the state that the threads share.
fn running_of(
    shared: Arc<Shared>,
    (reloader, root): (Reloader, RootKeeping),
    config: &Config,
) -> Arc<Running> {
    let started = shared.name_server.clock.now().secs();
    Arc::new(Running {
        root,
        reloader,
        cache_file: CacheFile::new(&config.data.directory),
        lists: Keeping::default(),
        query_log: QueryLog::default(),
        tap_counts: TapCounts::default(),
        otlp_counts: OtlpCounts::default(),
        devices: Devices::default(),
        names: ClientNames::default(),
        visits: Visits::default(),
        requests: AccessRequests::default(),
        web: WebStores::open(&config.data.directory, Arc::new(wall_secs)),
        reach: Reach::default(),
        zone_watch: ZoneWatch::default(),
        notifier: Notifier::default(),
        pools: PoolWatch::begin(&config.data.directory, &shared.snapshot().names),
        web_certificate: Mutex::default(),
        acme: AcmeKeeping::default(),
        oblivious: ObliviousKeeping::begin(&shared, wall_secs()),
        home_ca: HomeCa::begin(config.home_ca.as_ref(), wall_secs()),
        conditions: Conditions::default(),
        unsaved_switches: Unsaved::default(),
        trust: KeptTrust::load(&config.data.directory, &shared),
        draining: AtomicBool::new(false),
        started_at_secs: wall_secs(),
        started,
        shared,
    })
}

/// Fills the caches from disk. Then removes names below negative trust anchors that ended while no
/// server was running.
fn load_caches(running: &Running) {
    let judged_anew = running.begin_trust();
    running.cache_file.load(&running.shared);
    running.drop_below(&judged_anew);
}

/// Returns the watch of neighbours after its first check, so that the policy knows a device at its
/// first query.
fn neighbours_at_start(running: &Running, poller: &Poller, started: u32) -> NeighbourWatch {
    let mut neighbours = NeighbourWatch::new(NEIGHBOURS, LINKS);
    neighbours.look(running, poller, started);
    neighbours
}

/// Returns a poller that waits for signals and clients of the control socket.
fn polling(signals: &Signals, control: &ControlSocket) -> io::Result<Poller> {
    let poller = Poller::new()?;
    poller.add(signals, SIGNALS, Interest::Read, Trigger::Level)?;
    poller.add(control, CONTROL, Interest::Read, Trigger::Level)?;
    Ok(poller)
}

/// Returns the number of seconds between two snapshots of the cache; `None` if snapshots are off.
fn save_interval(shared: &Shared) -> Option<u32> {
    let interval = shared.snapshot().config.cache.snapshot_interval?;
    Some(u32::try_from(interval.as_secs()).unwrap_or(u32::MAX))
}

/// The sockets of the main thread and of the HTTP thread.
struct Opened {
    control: ControlSocket,
    own: Option<TcpListener>,
    secure: Option<TcpListener>,
}

fn open(config: &Config, taken: Option<&mut TakenOver>) -> Result<Opened, OperationError> {
    let adopted = match taken.and_then(TakenOver::listeners) {
        Some(adopted) => adopted,
        None => {
            let group = config.server.control_group.as_deref();
            let control = ControlSocket::open(&config.data.directory, group)?;
            AdoptedListeners { control, own: None, secure: None }
        }
    };
    let own = config.server.http.map(|addr| adopt_or_listen(addr, adopted.own)).transpose()?;
    let https = config.web.https.as_ref();
    let secure = https.map(|https| adopt_or_listen(https.address, adopted.secure)).transpose()?;
    Ok(Opened { control: adopted.control, own, secure })
}

fn adopt_or_listen(
    addr: SocketAddr,
    adopted: Option<OwnedFd>,
) -> Result<TcpListener, OperationError> {
    match adopted.map(TcpListener::from).filter(|listener| is_at(listener, addr)) {
        Some(listener) => Ok(listener),
        None => listen(addr).map_err(|error| OperationError::Http(addr, error)),
    }
}

/// Writes the link with which the first user is created to the log, if there are no users.
fn offer_setup(access: &Access, config: &Config) {
    let https = config.web.https.as_ref().map(|https| ("https", https.address));
    let Some((scheme, address)) = https.or(config.server.http.map(|http| ("http", http))) else {
        return;
    };
    match access.draw_setup() {
        Ok(None) => {}
        Ok(Some(link)) => tracing::info!(
            "there are no users yet; to add the first, open {scheme}://{address}/setup#{} within a \
             day, from this network",
            link.reveal()
        ),
        Err(error) => tracing::warn!(%error, "there is no set-up link"),
    }
}

fn is_at(listener: &TcpListener, addr: SocketAddr) -> bool {
    listener.local_addr().is_ok_and(|local| local == addr)
}

/// Opens the listeners of the block page before privileges are dropped, or adopts those of the
/// server that is taken over.
///
/// # Errors
/// An address cannot be listened on.
pub(crate) fn open_pages(
    page: &[SocketAddr],
    taken: Option<&mut TakenOver>,
) -> Result<Vec<TcpListener>, OperationError> {
    let mut adopted: Vec<TcpListener> = taken.map_or_else(Vec::new, TakenOver::pages);
    let open = |addr: &SocketAddr| match adopted.iter().position(|listener| is_at(listener, *addr))
    {
        Some(place) => Ok(adopted.swap_remove(place)),
        None => listen(*addr).map_err(|error| OperationError::Page(*addr, error)),
    };
    page.iter().map(open).collect()
}
