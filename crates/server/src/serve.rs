//! `avocet serve`: from the configuration to running workers.

use std::fs::Permissions;
use std::net::{SocketAddr, UdpSocket as StdUdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fmt, io};

use avocet_config::{
    Config, ConfigErrors, OpenAddress, Protocol, ServerConfig, environment, read_text,
};
use avocet_io::account::Account;
use avocet_io::ownership::{self, LockError};
use avocet_io::tcp::TcpListener;
use avocet_io::udp::UdpListener;
use avocet_io::{Local, process};
use avocet_nameserver::StateError;
use avocet_nameserver::clock::wall_secs;
use avocet_nameserver::file_watch::ConfigFile;
use avocet_nameserver::policy::{Counts, GeoDatabase, Parts};
use avocet_nameserver::query::asked::Transport;
use avocet_nameserver::query::cookie::CookieSecrets;
use avocet_nameserver::snapshot::Unconfigured;
use avocet_nameserver::zone_files::ZoneFiles;

use crate::backup::{self, BackupError, Place};
use crate::lists::Store;
use crate::lists::fitting::first_snapshot;
use crate::operate::take_over::TakenSocket;
use crate::operate::{self, Beginnings, ConfigText, ListeningSockets, Operation, TakenOver};
use crate::port_in_use::PortInUse;
use crate::running::catalogs::Catalogs;
use crate::running::networks::own_networks;
use crate::running::ports::own_reserved_ports;
use crate::running::reload::without_missing_families;
use crate::running::{OperationError, strangers, switches};
use avocet_worker::Listeners;
use avocet_worker::certificates::{CertificateFault, TlsListeners, warn_of_open_keys};
use avocet_worker::state::Shared;
use avocet_worker::threads::{StartSignal, ThreadError, mailboxes, rings, seats, start_workers};
use avocet_worker::upstream_tls::UpstreamPeers;

/// The reason why the server cannot listen on an address.
#[derive(Debug)]
pub struct ListenFault {
    address: SocketAddr,
    /// The listener that has the address; `None` for an address of `[server]`.
    listener: Option<String>,
    error: io::Error,
}

impl ListenFault {
    fn of(one: &OpenAddress) -> impl Fn(io::Error) -> StartError + '_ {
        |error| {
            let (address, listener) = (one.address, one.listener.clone());
            StartError::Listen(Self { address, listener, error })
        }
    }
}

impl fmt::Display for ListenFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot listen on {}: ", self.address)?;
        let addr = self.address;
        match (self.error.kind(), &self.listener) {
            (io::ErrorKind::AddrInUse, None) => {
                PortInUse { addr, setting: &"[server] listen" }.fmt(f)
            }
            (io::ErrorKind::AddrInUse, Some(name)) => {
                let setting = &format_args!("`listen` of the [[listener]] {name:?}");
                PortInUse { addr, setting }.fmt(f)
            }
            (io::ErrorKind::PermissionDenied, _) => {
                f.write_str("not permitted; ports below 1024 need CAP_NET_BIND_SERVICE or root")
            }
            _ => self.error.fmt(f),
        }
    }
}

/// The reason why the server did not start.
#[derive(Debug)]
pub enum StartError {
    /// The configuration is invalid.
    Config(ConfigErrors),
    /// The server cannot listen on an address.
    Listen(ListenFault),
    /// Another system error. Holds the failed action and the reason.
    System(String, io::Error),
    /// The configuration cannot be put in force.
    State(StateError),
    /// The path of the data directory is a file.
    NotADirectory(PathBuf),
    /// A certificate of a listener cannot be used.
    Certificate(CertificateFault),
    /// TLS to an upstream cannot be used.
    Upstream(CertificateFault),
    /// The server cannot be operated.
    Operation(OperationError),
    /// A restore is incomplete.
    Restore(BackupError),
    /// The running server could not be taken over.
    TakeOver(operate::TakeOverError),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(errors) => errors.fmt(f),
            Self::Listen(fault) => fault.fmt(f),
            Self::System(what, error) => write!(f, "cannot {what}: {error}"),
            Self::State(error) => error.fmt(f),
            Self::NotADirectory(path) => {
                write!(f, "{} is a file; [data] directory must be a directory", path.display())
            }
            Self::Certificate(fault) => write!(f, "[[certificate]]: {fault}"),
            Self::Upstream(fault) => write!(f, "TLS to other servers: {fault}"),
            Self::Operation(error) => error.fmt(f),
            Self::Restore(error) => write!(f, "cannot complete the restore: {error}"),
            Self::TakeOver(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for StartError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Listen(ListenFault { error, .. }) | Self::System(_, error) => Some(error),
            Self::Config(error) => error.source(),
            Self::State(error) => error.source(),
            Self::NotADirectory(_) => None,
            Self::Restore(error) => Some(error),
            Self::Operation(error) => error.source(),
            Self::Certificate(fault) | Self::Upstream(fault) => fault.source(),
            Self::TakeOver(error) => error.source(),
        }
    }
}

impl From<ThreadError> for StartError {
    fn from(fault: ThreadError) -> Self {
        Self::System(fault.attempt.to_owned(), fault.error)
    }
}

impl From<OperationError> for StartError {
    fn from(error: OperationError) -> Self {
        Self::Operation(error)
    }
}

/// The arguments of a start.
#[derive(Debug)]
pub struct Start {
    /// The configuration file; the defaults apply without one.
    pub file: Option<PathBuf>,
    /// Whether to take over the sockets and the cache of the running server.
    pub take_over: bool,
}

/// Runs the server until a signal ends it, or another server takes over.
///
/// # Errors
///
/// The server could not start.
pub fn run(start: Start) -> Result<(), StartError> {
    process::keep_large_memory_apart();
    // If this fails, the first thread that needs the permission reports the error.
    let _ = process::allow_ordinary_threads();
    let signals = avocet_io::signals::Signals::block().map_err(system("watch signals"))?;
    let file = ConfigFile::about_to_be_read(start.file.clone());
    let path = file.path.as_deref();
    let (mut text, mut config) = begin(&start, path)?;
    warn_of(&config, path);
    for addr in without_missing_families(&mut config.server) {
        tracing::warn!("not listening on {addr}: this system has no IPv6");
    }
    let open_files =
        process::raise_open_files().map_err(system("raise the limit of open files"))?;
    process::keep_files_private();
    let tls = TlsListeners::load(&config).map_err(StartError::Certificate)?;
    let peers = UpstreamPeers::load(&config).map_err(StartError::Upstream)?;
    warn_of_open_keys(&config);
    let (workers, addresses) = (config.server.workers, config.server.open_addresses());
    let (sockets, mut taken) = if start.take_over {
        let (sockets, taken) = as_account(&config, || {
            operate::take_over::request(&config).map_err(StartError::TakeOver)
        })?;
        (adopt(sockets, workers, &addresses)?, Some(taken))
    } else {
        probe(&addresses)?;
        (bind(&addresses, workers)?, None)
    };
    let pages = operate::open_pages(&config.policy.block.page, taken.as_mut())?;
    let listening =
        ListeningSockets::copy_of(&sockets).map_err(system("copy the listening sockets"))?;
    drop_privileges(&config.server)?;
    let zones = zones_of(&mut config, taken.as_ref());
    let certificates = tls.shown_names(&config);
    let mut secrets = Unconfigured { zones: zones.current(), certificates, ..draw_secrets()? };
    let (pollers, mailboxes) = mailboxes(workers)?;
    let countries = GeoDatabase::of(&config.policy).map_err(StartError::State)?;
    let mut store = Store::new(&config.data.directory);
    let lists_secret = random()?;
    let lists = store.load(&config.policy, lists_secret).map(Arc::new);
    let switches = switches::load(&config.data.directory, wall_secs());
    let counts = Arc::new(Counts::new(workers));
    let links = strangers::links_for(&config.policy);
    let parts = Parts { lists, switches, countries, counts, links, ..Parts::new(random()?) };
    let snapshot = first_snapshot(config, &secrets, (parts, lists_secret), &store)
        .map_err(StartError::State)?;
    let shared = Shared::new(snapshot, mailboxes, random()?, (tls, peers))
        .map_err(|error| StartError::State(error.into()))?;
    let shared = Arc::new(shared);
    let (ends, rings) = (0..workers).map(|_| rings()).unzip();
    let mut text_state = ConfigText::InForce;
    if let Some(taken) = &mut taken {
        secrets = take_state(taken, &shared, secrets)?;
        if let Some(newer) = load(path).ok().map(|(text, _)| text).filter(|it| *it != text) {
            (text, text_state) = (newer, ConfigText::Newer);
        }
    }
    let begin = Beginnings { unconfigured: secrets, zones, file, text, text_state, store, rings };
    let operation =
        Operation::start(signals, shared.clone(), begin, (listening, pages), taken.as_mut())?;
    let (seats, signal) = (seats(pollers, sockets, ends), StartSignal::default());
    let threads = start_workers(&shared, seats, open_files as usize, &signal)?;
    if let Some(taken) = taken {
        taken.confirm().map_err(StartError::TakeOver)?;
    }
    signal.give();
    Ok(operation.run(threads)?)
}

/// Reads the configuration. Owns the data directory, unless this process takes over from its owner,
/// and restores a backup that waits.
fn begin(start: &Start, path: Option<&Path>) -> Result<(String, Config), StartError> {
    let (text, config) = load(path)?;
    crate::log::start(&config.log).map_err(system("start a thread"))?;
    create_directory(&config)?;
    if start.take_over {
        ownership::await_owner();
        return Ok((text, config));
    }
    let is_restored = as_account(&config, || {
        own(&config)?;
        finish_restore(&config, path)
    })?;
    if is_restored { load(path) } else { Ok((text, config)) }
}

/// Returns the account that handles the files of the data directory: that of the running server.
fn account(config: &Config) -> io::Result<Account> {
    let Some(user) = &config.server.user else { return Ok(Account::of_process()) };
    let account = Account::find(user)?;
    config.server.control_group.iter().try_fold(account, |account, group| account.in_group(group))
}

/// Handles files in the data directory with the rights of its account only, although the process is
/// still root: the account may have replaced them by links.
fn as_account<T: Send>(
    config: &Config,
    work: impl FnOnce() -> Result<T, StartError> + Send,
) -> Result<T, StartError> {
    let done = account(config).and_then(|account| account.run(work));
    done.map_err(system("act for the account of the data directory"))?
}

/// Logs settings that are probably unintended.
fn warn_of(config: &Config, path: Option<&Path>) {
    if let Some(path) = path.filter(|_| config.is_bare) {
        tracing::warn!(
            "{} has no settings: the defaults apply, and nothing is filtered",
            path.display()
        );
    }
    config.doubts.iter().for_each(|doubt| tracing::warn!("{doubt}"));
}

/// Reads the configuration file.
fn load(path: Option<&Path>) -> Result<(String, Config), StartError> {
    let text = path.map_or_else(|| Ok(String::new()), read_text).map_err(StartError::Config)?;
    let config = Config::from_text(path, &text, &environment().collect());
    Ok((text, config.map_err(StartError::Config)?))
}

/// Restores a backup that waits for a start. Returns whether the state was replaced. If the backup
/// cannot be used, the server starts without it.
///
/// # Errors
/// A part of the backup is in place, and the rest cannot be put in place.
fn finish_restore(config: &Config, path: Option<&Path>) -> Result<bool, StartError> {
    let directory = config.data.directory.as_path();
    match backup::has_pending(directory) {
        Ok(true) if avocet_control::connect(directory).is_err() => {}
        Ok(_) => return Ok(false),
        Err(error) => {
            tracing::error!("no backup that waits is restored: {error}");
            return Ok(false);
        }
    }
    match backup::finish(Place { directory, configuration: path }, wall_secs()) {
        Ok(Some(facts)) => {
            tracing::info!(at = facts.at, files = facts.files, "backup restored");
            Ok(true)
        }
        Ok(None) => Ok(false),
        Err(error) if backup::has_begun(directory) => Err(StartError::Restore(error)),
        Err(error) => {
            tracing::error!("the backup that waits is not restored: {error}");
            if process::is_root() && config.server.user.is_some() {
                tracing::error!(
                    "to replace files of root, stop the server and run `avocet restore` as root"
                );
            }
            Ok(false)
        }
    }
}

/// Runs as the configured account from now on.
fn drop_privileges(server: &ServerConfig) -> Result<(), StartError> {
    match &server.user {
        Some(user) => process::drop_privileges(user, server.control_group.as_deref())
            .map_err(system(&format!("become user {user}")))?,
        None if process::is_root() => tracing::warn!(
            "running as root: set [server] user to an account that owns the data directory, or \
             use the unit file"
        ),
        None => {}
    }
    Ok(())
}

/// Returns the zones of the configuration. While another process owns the data directory, only
/// reads their files.
fn zones_of(config: &mut Config, taken: Option<&TakenOver>) -> ZoneFiles {
    match taken {
        Some(_) => {
            Catalogs::load(&config.data.directory).extend(config);
            ZoneFiles::prepared(&config.zones)
        }
        None => {
            Catalogs::complete(config);
            ZoneFiles::of(&config.zones)
        }
    }
}

/// Fills the caches, and then owns the data directory of the server that is taken over.
fn take_state(
    taken: &mut TakenOver,
    shared: &Shared,
    secrets: Unconfigured,
) -> Result<Unconfigured, StartError> {
    let directory = shared.snapshot().config.data.directory.clone();
    let secrets = operate::load_caches_early(&directory, shared, secrets);
    taken.own(&directory).map_err(StartError::TakeOver)?;
    Ok(secrets)
}

fn system(what: &str) -> impl Fn(io::Error) -> StartError + '_ {
    move |error| StartError::System(what.to_owned(), error)
}

/// Creates the data directory if it is missing, for the account under which the server will run. It
/// is private: the caches reveal the queries of clients.
fn create_directory(config: &Config) -> Result<(), StartError> {
    let directory = &config.data.directory;
    let failed = |what: &str, error| {
        StartError::System(format!("{what} the data directory {}", directory.display()), error)
    };
    if directory.exists() && !directory.is_dir() {
        return Err(StartError::NotADirectory(directory.clone()));
    }
    if !directory.exists() {
        let account = match &config.server.user {
            Some(user) => Account::find(user).map_err(|error| failed("create", error))?,
            None => Account::of_process(),
        };
        account.create_directory(directory).map_err(|error| failed("create", error))?;
    }
    let Some(group) = &config.server.control_group else { return Ok(()) };
    // The members of the group can use the control socket, but cannot read the files.
    let give = || {
        process::give_to_group(directory, group)?;
        std::fs::set_permissions(directory, Permissions::from_mode(0o710))
    };
    as_account(config, || give().map_err(|error| failed("give a group", error)))
}

/// Owns the data directory, so that no other process changes the state of the server.
fn own(config: &Config) -> Result<(), StartError> {
    let directory = &config.data.directory;
    ownership::own(directory).map_err(|error| match error {
        LockError::Held => OperationError::AlreadyRunning(directory.clone()).into(),
        LockError::System(path, error) => {
            StartError::System(format!("lock {}", path.display()), error)
        }
    })
}

/// Returns octets from the system's random source.
fn random<const N: usize>() -> Result<[u8; N], StartError> {
    let mut octets = [0; N];
    getrandom::fill(&mut octets).map_err(|error| {
        StartError::System("read the random source".to_owned(), io::Error::other(error.to_string()))
    })?;
    Ok(octets)
}

fn draw_secrets() -> Result<Unconfigured, StartError> {
    let cookies = CookieSecrets { current: random()?, previous: None };
    Ok(Unconfigured {
        own_networks: own_networks().into(),
        reserved_ports: own_reserved_ports().into(),
        ..Unconfigured::new(random()?, cookies)
    })
}

/// Checks that the addresses are free. The workers' sockets use `SO_REUSEPORT`, with which a second
/// server would share the addresses silently.
fn probe(listen: &[OpenAddress]) -> Result<(), StartError> {
    for one in listen {
        let addr = one.address;
        let local = match one.protocol {
            Protocol::Plain => avocet_io::probe::probe(addr),
            Protocol::Tls | Protocol::Https => avocet_io::probe::probe_stream(addr),
            Protocol::Quic | Protocol::H3 => avocet_io::probe::probe_datagrams(addr),
        };
        let local = local.map_err(ListenFault::of(one))?;
        if local == Local::NotYet {
            tracing::warn!(
                "this host does not have the address {} yet; the server will answer on it once it \
                 has",
                addr.ip()
            );
        }
    }
    Ok(())
}

fn bind(listen: &[OpenAddress], workers: usize) -> Result<Vec<Listeners>, StartError> {
    (0..workers).map(|_| bind_one(listen)).collect()
}

fn bind_one(listen: &[OpenAddress]) -> Result<Listeners, StartError> {
    let mut listeners = Listeners::default();
    for one in listen {
        let (addr, failed) = (one.address, ListenFault::of(one));
        if one.protocol.uses_datagrams() {
            let socket = UdpListener::bind(addr).map_err(&failed)?;
            listeners.datagrams_of(one.protocol).push(socket);
        }
        if one.protocol.uses_streams() {
            listeners.streams.push(TcpListener::bind(addr).map_err(&failed)?);
        }
    }
    Ok(listeners)
}

/// Distributes the sockets of the previous server among the workers, in the order of the addresses,
/// and opens those that are missing. The first worker gets the surplus in complete sets of
/// addresses, so that no queued query is lost.
fn adopt(
    mut taken: Vec<TakenSocket>,
    workers: usize,
    listen: &[OpenAddress],
) -> Result<Vec<Listeners>, StartError> {
    let former = taken.iter().map(|socket| socket.worker + 1).max().unwrap_or(0);
    let mut sets: Vec<Listeners> = Vec::new();
    for worker in 0..former.max(workers) {
        let mut set = Listeners::default();
        for one in listen {
            let (addr, failed) = (one.address, ListenFault::of(one));
            if one.protocol.uses_datagrams() {
                let place = SocketPlace { worker, transport: Transport::Udp, addr };
                set.datagrams_of(one.protocol).push(match take(&mut taken, &place) {
                    Some(fd) => UdpListener::from_fd(fd).map_err(&failed)?,
                    None => UdpListener::bind(addr).map_err(&failed)?,
                });
            }
            if one.protocol.uses_streams() {
                let place = SocketPlace { worker, transport: Transport::Tcp, addr };
                set.streams.push(match take(&mut taken, &place) {
                    Some(fd) => TcpListener::from_fd(fd).map_err(&failed)?,
                    None => TcpListener::bind(addr).map_err(&failed)?,
                });
            }
        }
        sets.push(set);
    }
    for surplus in sets.split_off(workers) {
        sets[0].datagrams.extend(surplus.datagrams);
        sets[0].streams.extend(surplus.streams);
        sets[0].quic.extend(surplus.quic);
    }
    Ok(sets)
}

/// The position of a listening socket.
struct SocketPlace {
    worker: usize,
    transport: Transport,
    addr: SocketAddr,
}

/// Removes the socket for this worker, transport and address from the sockets of the previous
/// server.
fn take(taken: &mut Vec<TakenSocket>, place: &SocketPlace) -> Option<OwnedFd> {
    let fits = |socket: &TakenSocket| {
        socket.worker == place.worker
            && socket.transport == place.transport
            && local_addr(socket).is_some_and(|local| local == place.addr)
    };
    let at = taken.iter().position(fits)?;
    Some(taken.swap_remove(at).fd)
}

/// Returns the address of a socket; works for UDP and TCP.
fn local_addr(socket: &TakenSocket) -> Option<SocketAddr> {
    let copy = socket.fd.try_clone().ok()?;
    StdUdpSocket::from(copy).local_addr().ok()
}
