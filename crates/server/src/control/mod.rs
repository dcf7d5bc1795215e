//! The control socket: `control.sock` in the data directory, for its owner and, if configured, a
//! group.
//!
//! ```text
//! accept ──> thread ──> read the line ──> wait for a turn ──> Control (requests.rs) ──> reply
//!                             │                  └── no turn in time: the error `busy`
//!                             └── take-over: the main thread takes the connection
//! ```
//! The socket is a front end: it reads a line, calls the method of [`Control`] and writes the lines
//! of its reply in the format of [`avocet_control::line`]. Each client has a thread of its own,
//! because a dump takes as long as its client needs to read it.
//!
//! [`Control`]: avocet_control::Control

mod access_requests;
mod connection;
mod dry_run;
mod load;
mod log;
mod past;
mod pools;
mod requests;
mod revisions;
mod status;
mod zone_edit;
mod zone_keys;
mod zones;

use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{fs, thread};

use avocet_control::error::ErrorCode;
use avocet_control::{ControlError, Effect, MAX_LINE, Request, SOCKET, connect, hand_over, line};
use avocet_io::ownership;
use avocet_io::poll::{Poller, Waker};
use avocet_io::process::{give_to_group, peer_uid};
use avocet_nameserver::clock::wall_secs;
use avocet_web::audit::{AuditEntry, recorded};
use zeroize::Zeroizing;

use crate::running::{OperationError, Running};
use crate::turns::Turns;

/// Maximum number of concurrent connections. More clients wait in the queue of the socket.
const MAX_CONTROL_CLIENTS: usize = 64;
/// Maximum number of concurrent requests, which leaves CPU time to the workers. More requests wait
/// for their turn.
const MAX_REQUESTS: usize = 8;
/// Initial capacity for a request, in octets: every request except for a whole configuration fits.
const USUAL_LINE: usize = 4096;
/// Maximum time for which a client may send nothing, or not read.
const PATIENCE: Duration = Duration::from_secs(10);
/// Maximum wait of a request until it is processed; this is longer than a trace takes.
const TURN_PATIENCE: Duration = Duration::from_secs(15);

/// Time between two checks whether clients are connected.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// The listening socket.
pub(crate) struct ControlSocket {
    listener: UnixListener,
    path: PathBuf,
    clients: Arc<AtomicUsize>,
    turns: Arc<Turns>,
}

/// Whether more clients may be waiting in the queue of the socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Backlog {
    /// No client waits.
    Empty,
    /// Clients may wait in the queue, because the maximum number of clients is connected.
    Waiting,
}

impl ControlSocket {
    /// Opens the socket of a data directory. Replaces a socket that a server left when it crashed.
    pub(crate) fn open(directory: &Path, group: Option<&str>) -> Result<Self, OperationError> {
        if connect(directory).is_ok() {
            return Err(OperationError::AlreadyRunning(directory.to_owned()));
        }
        let path = directory.join(SOCKET);
        let listener =
            bind_for(&path, group).map_err(|error| OperationError::Control(path.clone(), error))?;
        Ok(Self::of(listener, path))
    }

    /// Adopts the socket of the server that was taken over.
    pub(crate) fn adopt(listener: OwnedFd, directory: &Path) -> Self {
        Self::of(UnixListener::from(listener), directory.join(SOCKET))
    }

    fn of(listener: UnixListener, path: PathBuf) -> Self {
        let turns = Arc::new(Turns::new(MAX_REQUESTS));
        Self { listener, path, clients: Arc::default(), turns }
    }

    /// Serves the waiting clients, each in a thread.
    ///
    /// # Errors
    /// The system has no descriptor left: the clients keep waiting.
    pub(crate) fn accept(
        &self,
        running: &Arc<Running>,
        orders: &Arc<Orders>,
    ) -> io::Result<Backlog> {
        while self.clients.load(Ordering::Relaxed) < MAX_CONTROL_CLIENTS {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(Backlog::Empty);
                }
                // The client has disconnected.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
                Err(error) => return Err(error),
            };
            self.clients.fetch_add(1, Ordering::Relaxed);
            let client = ControlClient { running: running.clone(), turns: self.turns.clone() };
            let (orders, clients) = (orders.clone(), self.clients.clone());
            let spawned = thread::Builder::new().name("control".to_owned()).spawn(move || {
                // A client that disconnects is not an error.
                let _ = client.serve(stream, &orders);
                if clients.fetch_sub(1, Ordering::Relaxed) == MAX_CONTROL_CLIENTS {
                    orders.wake();
                }
            });
            if spawned.is_err() {
                self.clients.fetch_sub(1, Ordering::Relaxed);
            }
        }
        Ok(Backlog::Waiting)
    }

    /// Waits for at most `most` until no client is connected.
    pub(crate) fn wait_for_clients(&self, most: Duration) {
        let began = Instant::now();
        while self.clients.load(Ordering::Relaxed) > 0 && began.elapsed() < most {
            thread::park_timeout(LOOK_AGAIN);
        }
    }

    /// Removes the socket from the directory when no process listens on it.
    pub(crate) fn remove(&self) {
        let _ = fs::remove_file(&self.path);
    }
}

impl AsFd for ControlSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

/// Binds next to `path` and renames, so that no other user can connect between bind and chmod. The
/// socket is for the owner and, if given, a group.
fn bind_for(path: &Path, group: Option<&str>) -> io::Result<UnixListener> {
    let beside = path.with_extension("tmp");
    let _ = fs::remove_file(&beside);
    let listener = UnixListener::bind(&beside)?;
    if let Some(group) = group {
        give_to_group(&beside, group)?;
    }
    let mode = if group.is_some() { 0o660 } else { 0o600 };
    fs::set_permissions(&beside, fs::Permissions::from_mode(mode))?;
    listener.set_nonblocking(true)?;
    fs::rename(&beside, path)?;
    Ok(listener)
}

/// Messages to the main thread: connections of processes that want to take over from this server.
pub(crate) struct Orders {
    streams: Mutex<Vec<UnixStream>>,
    waker: Waker,
}

impl Orders {
    pub(crate) fn new(poller: &Poller, token: u64) -> io::Result<Self> {
        Ok(Self { streams: Mutex::default(), waker: Waker::new(poller, token)? })
    }

    fn send(&self, stream: UnixStream) {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner).push(stream);
        self.wake();
    }

    /// Wakes the main thread, which then accepts the waiting clients.
    fn wake(&self) {
        self.waker.wake();
    }

    pub(crate) fn take(&self) -> Vec<UnixStream> {
        self.waker.clear();
        std::mem::take(&mut *self.streams.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The state of the thread of one client.
struct ControlClient {
    running: Arc<Running>,
    turns: Arc<Turns>,
}

impl ControlClient {
    fn serve(&self, stream: UnixStream, orders: &Orders) -> io::Result<()> {
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        // The request may hold a password. The vector has its full capacity from the start, because
        // a vector that grows leaves copies of its content. Only requests with a whole
        // configuration are longer.
        let mut request = Zeroizing::new(Vec::with_capacity(USUAL_LINE));
        BufReader::new((&stream).take(MAX_LINE as u64)).read_until(b'\n', &mut request)?;
        if hand_over::is_request(&request) {
            orders.send(stream);
            return Ok(());
        }
        let mut out = BufWriter::new(&stream);
        match line::read_request(&request) {
            Err(error) => line::write_error(&mut out, &error)?,
            // A follower waits for queries most of the time, and the number of followers is
            // limited.
            Ok(request @ Request::LogTail(_)) => {
                self.answer(request, &mut out)?;
            }
            Ok(request) => match self.turns.take(TURN_PATIENCE) {
                None => line::write_error(&mut out, &ControlError::Busy)?,
                Some(_turn) => self.answer(request, &mut out)?,
            },
        }
        out.flush()
    }

    /// Answers a request; a change gets an entry in the audit log.
    fn answer(&self, request: Request, out: &mut BufWriter<&UnixStream>) -> io::Result<()> {
        // Held until the audit log has its entry: another process that takes over reads both.
        let change = request.changes_state().then(ownership::change).transpose();
        let Ok(_change) = change else {
            let postponed = ControlError::Postponed("another process is taking over");
            return line::write_error(out, &postponed);
        };
        let what = request.command();
        let fields = match request.effect() {
            Effect::Reads => return request.answer(&*self.running, out).map(drop),
            Effect::Changes | Effect::Reveals => serde_json::to_value(&request),
        };
        let who = match peer_uid(out.get_ref().as_fd()) {
            Ok(uid) => format!("uid {uid}"),
            Err(_) => "unknown".to_owned(),
        };
        let answered = request.answer(&*self.running, out);
        let result = match &answered {
            Ok(None) => "ok",
            Ok(Some(code)) => code.text(),
            Err(_) => ErrorCode::Disconnected.text(),
        };
        let fields = fields.ok().and_then(|fields| fields.as_object().map(recorded));
        self.running.web.audit.record(&AuditEntry {
            at: wall_secs(),
            who,
            by: "socket".to_owned(),
            from: String::new(),
            what,
            fields: fields.unwrap_or_default(),
            result: result.to_owned(),
        });
        answered.map(drop)
    }
}

/// Declines a request to take over.
pub(crate) fn refuse(mut stream: UnixStream, error: &ControlError) {
    // The other process may have ended.
    let _ = line::write_error(&mut stream, error);
}
