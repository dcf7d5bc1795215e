//! Take-over: a new process replaces the running one, and no query is lost.
//!
//! ```text
//! new                                       old
//! connects to the control socket ───────>
//! {"command":"take-over"}        ───────>   saves the caches
//!                                <───────   {"sockets":N}, then N descriptors with their labels
//! adopts them, reads zones, lists
//! and caches
//! {"yield":true}                 ───────>   lets changes in progress end, releases the directory
//!                                <───────   {"yielded":true}
//! owns the directory, reads what
//! has changed, starts its workers
//! {"ready":true}                 ───────>   stops reading from the sockets, finishes, ends
//! ```
//! Meanwhile, a new process that works sends `{"working":true}` every few seconds, if the offer has
//! `"waits":true` ([`WorkSigns`]). Each such sign extends the time that the old process waits, up
//! to a limit.
//!
//! Both processes hold the same sockets, queues included: a query waits in its queue until either
//! of them reads it. Until `ready` the old process serves as before, and continues if the new one
//! ends. The HTTP listeners and the control socket are handed over in the same way.
//!
//! Only the owner of the data directory changes the state ([`ownership`]). Between `yield` and
//! `ready`, changes wait. If the new process ends before `ready`, the old one owns the directory
//! again. If the old process gives up the take-over, it sends `{"withdrawn":true}`, and the new one
//! ends at once, whatever it does. The old process never closes the connection without a message:
//! if the connection ends and the process is gone, it was killed, and the new one goes on.
//!
//! The workers and the other threads of the new process begin after `ready`, so that nothing
//! depends on a take-over that fails.
//!
//! Labels: `udp ADDRESS WORKER`, `tcp ADDRESS WORKER`, `http`, `https`, `page`, `control`.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use avocet_config::Config;
use avocet_control::hand_over::{self, Offer, OfferError};
use avocet_control::{ControlError, MAX_LINE, connect};
use avocet_io::handover::{recv_fds, send_fds};
use avocet_io::ownership::{self, LockError};
use avocet_nameserver::clock::Moment;
use avocet_nameserver::query::asked::Transport;

use super::work_signs::{WORKING, WorkSigns};
use crate::control::{ControlSocket, refuse};
use crate::http;
use avocet_worker::Listeners;

/// Maximum wait of each side for a step of the other that involves no work.
const STEP: Duration = Duration::from_secs(5);
/// Maximum wait while the running server saves its caches.
const SAVING: Duration = Duration::from_secs(60);
/// Maximum wait while the running server lets changes in progress end.
const YIELDING: Duration = Duration::from_secs(20);
/// Maximum wait in seconds for the next report or sign of work of the new process.
const SILENCE_SECS: u32 = 60;
/// Maximum wait in seconds for a new process that works: until it requests the data directory, and
/// again until it is ready. Two cores sign about a million RRsets a minute.
const WORK_SECS: u32 = 15 * 60;
/// Time between two checks whether the running server has ended.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

const YIELD: &[u8] = b"{\"yield\":true}\n";
const YIELDED: &[u8] = b"{\"yielded\":true}\n";
const READY: &[u8] = b"{\"ready\":true}\n";
const WITHDRAWN: &[u8] = b"{\"withdrawn\":true}\n";
const CONTROL: &[u8] = b"control";

/// The reason why the running server could not be taken over.
#[derive(Debug)]
pub enum TakeOverError {
    /// No server answers on the control socket of this directory.
    NoServer(PathBuf),
    /// The running server declines. Holds the reason.
    Refused(String),
    /// The exchange was interrupted.
    Io(io::Error),
    /// The running server has stopped waiting, and continues to serve.
    Withdrawn,
    /// The running server has closed the connection, and has not ended.
    Dropped,
    /// The file with the lock of the data directory cannot be used.
    Lock(PathBuf, io::Error),
}

impl fmt::Display for TakeOverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoServer(directory) => {
                write!(
                    f,
                    "no avocet is running with data directory {}; start without --take-over",
                    directory.display()
                )
            }
            Self::Refused(reason) => {
                write!(f, "the running avocet refused the take-over: {reason}")
            }
            Self::Io(error) => write!(f, "cannot take over from the running avocet: {error}"),
            Self::Withdrawn => write!(
                f,
                "the running avocet has stopped waiting, and continues. It waits at most {} \
                 minutes until this process has read and signed its zones, and at most \
                 {SILENCE_SECS} seconds without a sign of work: if this is too short, restart the \
                 server instead",
                WORK_SECS / 60
            ),
            Self::Dropped => f.write_str(
                "the running avocet has closed the connection, and has not ended: it continues",
            ),
            Self::Lock(path, error) => write!(f, "cannot lock {}: {error}", path.display()),
        }
    }
}

impl std::error::Error for TakeOverError {}

impl From<OfferError> for TakeOverError {
    fn from(error: OfferError) -> Self {
        match error {
            OfferError::Refused(reason) => Self::Refused(reason),
            OfferError::Malformed(error) => Self::Io(error.into()),
        }
    }
}

impl From<io::Error> for TakeOverError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Copies of the workers' listening sockets for a process that may take over. They keep the sockets
/// open: a worker that stops listening must remove its own socket from its poller.
pub(crate) struct ListeningSockets(Vec<(String, OwnedFd)>);

impl ListeningSockets {
    /// Copies the sockets of all workers.
    ///
    /// # Errors
    /// The process has no file descriptor left.
    pub(crate) fn copy_of(workers: &[Listeners]) -> io::Result<Self> {
        let mut copies = Vec::new();
        for (worker, listeners) in workers.iter().enumerate() {
            for socket in listeners.datagrams.iter().chain(&listeners.quic) {
                let label = format!("udp {} {worker}", socket.local_addr()?);
                copies.push((label, socket.as_fd().try_clone_to_owned()?));
            }
            for socket in &listeners.streams {
                let label = format!("tcp {} {worker}", socket.local_addr()?);
                copies.push((label, socket.as_fd().try_clone_to_owned()?));
            }
        }
        Ok(Self(copies))
    }
}

/// The running server, before this process replaces it.
pub(crate) struct TakenOver {
    stream: UnixStream,
    /// Whether the running server releases the data directory on request.
    cedes: bool,
    /// The ID of its process; `None` for an earlier version.
    process: Option<u32>,
    listeners: Option<AdoptedListeners>,
    pages: Vec<TcpListener>,
    /// The watch of its messages, after it has released the data directory.
    watch: Option<WithdrawalWatch>,
    /// The signs of work that it gets; `None` for an earlier version.
    signs: Option<WorkSigns>,
}

/// The sockets of the main thread and of the HTTP thread of the running server.
pub(super) struct AdoptedListeners {
    pub(super) control: ControlSocket,
    pub(super) own: Option<OwnedFd>,
    pub(super) secure: Option<OwnedFd>,
}

/// A listening socket of a worker of the server that is taken over.
pub(crate) struct TakenSocket {
    /// The transport of the listening socket.
    pub(crate) transport: Transport,
    /// Index of the worker that listens on the socket.
    pub(crate) worker: usize,
    /// The socket.
    pub(crate) fd: OwnedFd,
}

/// Requests the sockets of the running server. Returns those of its workers, ordered by worker and
/// address, and the connection with the other sockets, for [`super::Operation::start`].
///
/// # Errors
/// No server is running, the server declines, or the exchange was interrupted.
pub(crate) fn request(config: &Config) -> Result<(Vec<TakenSocket>, TakenOver), TakeOverError> {
    let directory = &config.data.directory;
    let mut stream = connect(directory).map_err(|_| TakeOverError::NoServer(directory.clone()))?;
    stream.set_read_timeout(Some(SAVING))?;
    stream.set_write_timeout(Some(STEP))?;
    stream.write_all(hand_over::request().as_bytes())?;
    let offer = Offer::read(&read_line(&mut stream)?)?;
    stream.set_read_timeout(Some(STEP))?;
    let (mut sockets, mut control, mut pages) = (Vec::new(), None, Vec::new());
    let (mut own, mut secure) = (None, None);
    for (label, fd) in recv_fds(&stream)? {
        match label.as_slice() {
            CONTROL => control = Some(ControlSocket::adopt(fd, directory)),
            http::OWN => own = Some(fd),
            http::SECURE => secure = Some(fd),
            http::PAGE => pages.push(TcpListener::from(fd)),
            label => sockets.extend(taken_socket(label, fd)),
        }
    }
    match control {
        Some(control) if offer.sockets == sockets.len() => {
            let listeners = Some(AdoptedListeners { control, own, secure });
            let Offer { cedes, process, .. } = offer;
            let signs = offer.waits.then(|| WorkSigns::start(stream.try_clone()?)).transpose()?;
            let watch = None;
            Ok((sockets, TakenOver { stream, cedes, process, listeners, pages, watch, signs }))
        }
        _ => Err(TakeOverError::Refused("its sockets are incomplete".to_owned())),
    }
}

/// Returns the socket with a label; `None` if the label is unknown.
fn taken_socket(label: &[u8], fd: OwnedFd) -> Option<TakenSocket> {
    let mut words = std::str::from_utf8(label).ok()?.split(' ');
    let transport = match words.next()? {
        "udp" => Transport::Udp,
        "tcp" => Transport::Tcp,
        _ => return None,
    };
    let _address = words.next()?;
    Some(TakenSocket { transport, worker: words.next()?.parse().ok()?, fd })
}

/// Reads a line and no octet after it, because descriptors follow.
fn read_line(stream: &mut UnixStream) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    let mut octet = [0];
    while octet != *b"\n" {
        if line.len() > MAX_LINE {
            return Err(io::Error::from(io::ErrorKind::InvalidData));
        }
        stream.read_exact(&mut octet)?;
        line.extend(octet);
    }
    Ok(line)
}

impl TakenOver {
    /// Returns the control socket and the listeners of HTTP and HTTPS.
    pub(super) fn listeners(&mut self) -> Option<AdoptedListeners> {
        self.listeners.take()
    }

    /// Returns the listeners of the block page.
    pub(super) fn pages(&mut self) -> Vec<TcpListener> {
        std::mem::take(&mut self.pages)
    }

    /// Waits until the running server has released the data directory, and owns it. If the running
    /// server was killed, this process owns the directory, too.
    ///
    /// # Errors
    /// The running server does not release the directory.
    pub(crate) fn own(&mut self, directory: &Path) -> Result<(), TakeOverError> {
        if self.cedes {
            self.request_release()?;
        } else {
            tracing::warn!(
                "the running avocet has an earlier version: changes that it receives during the \
                 take-over may be lost"
            );
        }
        ownership::begin(directory, STEP).map_err(|error| match error {
            LockError::Held => TakeOverError::Refused("it still owns its directory".to_owned()),
            LockError::System(path, error) => TakeOverError::Lock(path, error),
        })?;
        // Zones may take long to sign. The lock is free again as soon as this process has ended.
        let end = || {
            crate::log::write_last_line(&format!("avocet: {}", TakeOverError::Withdrawn));
            std::process::exit(1)
        };
        self.stream.set_read_timeout(None)?;
        self.watch = Some(WithdrawalWatch::start(self.stream.try_clone()?, end)?);
        Ok(())
    }

    /// Waits for the end of the running server after an error of the connection. Returns an error
    /// if the server still runs after [`STEP`].
    fn check_killed(&self, error: &io::Error) -> Result<(), TakeOverError> {
        let began = Instant::now();
        while self.process.is_some_and(is_running) {
            if began.elapsed() > STEP {
                return Err(TakeOverError::Dropped);
            }
            thread::park_timeout(LOOK_AGAIN);
        }
        tracing::warn!("the running avocet ended during the take-over: {error}");
        Ok(())
    }

    fn request_release(&mut self) -> Result<(), TakeOverError> {
        self.stream.set_read_timeout(Some(YIELDING))?;
        let reply = self.stream.write_all(YIELD).and_then(|()| read_line(&mut self.stream));
        match reply {
            Ok(line) if line == YIELDED => Ok(()),
            Ok(line) if line == WITHDRAWN => Err(TakeOverError::Withdrawn),
            Ok(line) => match Offer::read(&line) {
                Err(OfferError::Refused(reason)) => Err(TakeOverError::Refused(reason)),
                _ => Err(io::Error::from(io::ErrorKind::InvalidData).into()),
            },
            Err(error) => self.check_killed(&error),
        }
    }

    /// Reports to the running server that this process serves from now on, so that the running
    /// server ends. If the running server was killed meanwhile, this process serves nevertheless.
    ///
    /// # Errors
    /// The running server has stopped waiting, and continues to serve.
    pub(crate) fn confirm(mut self) -> Result<(), TakeOverError> {
        self.signs = None;
        let watch = self.watch.take();
        if let Some(watch) = &watch {
            watch.stop();
        }
        if let Err(error) = self.stream.write_all(READY) {
            if watch.is_some_and(|watch| watch.heard.recv_timeout(STEP) == Ok(Heard::Withdrawn)) {
                return Err(TakeOverError::Withdrawn);
            }
            self.check_killed(&error)?;
        }
        ownership::commit();
        Ok(())
    }
}

/// Returns whether a process runs. One that has ended and that nobody has waited for does not.
fn is_running(process: u32) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{process}/stat"));
    let state = state.ok().and_then(|text| text.rsplit_once(')')?.1.trim_start().chars().next());
    state.is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

/// The event on the connection to the running server after that server has released the data
/// directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Heard {
    /// The running server no longer waits for this process.
    Withdrawn,
    /// The connection has ended.
    End,
}

/// A thread that ends this process as soon as the running server has stopped waiting for it.
struct WithdrawalWatch {
    /// Whether this process has reported that it is ready, so that it must not end.
    is_ready: Arc<Mutex<bool>>,
    heard: Receiver<Heard>,
}

impl WithdrawalWatch {
    /// Starts the thread, which calls `end` if the running server withdraws before [`Self::stop`].
    fn start(mut stream: UnixStream, end: impl FnOnce() + Send + 'static) -> io::Result<Self> {
        let is_ready = Arc::new(Mutex::new(false));
        let (sender, heard) = channel();
        let seen = is_ready.clone();
        thread::Builder::new().name("take-over".to_owned()).spawn(move || {
            let is_withdrawn = read_line(&mut stream).is_ok_and(|line| line == WITHDRAWN);
            if is_withdrawn && !*seen.lock().unwrap_or_else(PoisonError::into_inner) {
                end();
            }
            // The receiver may be gone once this process is ready, so an error is ignored.
            let _ = sender.send(if is_withdrawn { Heard::Withdrawn } else { Heard::End });
        })?;
        Ok(Self { is_ready, heard })
    }

    /// Makes the thread only report events, and no longer end this process.
    fn stop(&self) {
        *self.is_ready.lock().unwrap_or_else(PoisonError::into_inner) = true;
    }
}

/// The state of the new process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SuccessorState {
    /// The process has not reported yet.
    None,
    /// The process works.
    Working,
    /// The process has read everything that it can read without owning the data directory.
    Prepared,
    /// The process serves queries.
    Ready,
    /// The process ended, or sent something other than the message that it is ready.
    Gone,
}

/// A new process that has the sockets and is not ready yet.
pub(super) struct Successor {
    stream: UnixStream,
    heard: Vec<u8>,
    wait: Wait,
}

/// The time for which the running server waits for a report of the new process.
#[derive(Clone, Copy, Debug)]
struct Wait {
    /// The monotonic second at which the wait ends without a further sign of work.
    deadline_secs: u32,
    /// The monotonic second at which the wait ends in any case.
    end_secs: u32,
}

impl Wait {
    fn begin(now_secs: u32) -> Self {
        let (deadline_secs, end_secs) = (now_secs, now_secs.saturating_add(WORK_SECS));
        Self { deadline_secs, end_secs }.extended(now_secs)
    }

    /// Returns the wait after a sign of work.
    fn extended(self, now_secs: u32) -> Self {
        let deadline_secs = now_secs.saturating_add(SILENCE_SECS).min(self.end_secs);
        Self { deadline_secs, ..self }
    }

    fn is_over(self, now_secs: u32) -> bool {
        now_secs >= self.deadline_secs
    }
}

/// The sockets that the new process gets.
pub(super) struct Handed<'a> {
    pub(super) listening: &'a ListeningSockets,
    pub(super) control: &'a ControlSocket,
    /// The labels and listeners of the HTTP thread.
    pub(super) http: Vec<(&'a [u8], BorrowedFd<'a>)>,
}

impl Successor {
    /// Sends all sockets to the new process.
    pub(super) fn begin(
        mut stream: UnixStream,
        handed: &Handed<'_>,
        now: Moment,
    ) -> io::Result<Self> {
        stream.set_write_timeout(Some(STEP))?;
        let Handed { listening, control, http } = handed;
        let process = Some(std::process::id());
        let offer = Offer { sockets: listening.0.len(), cedes: true, waits: true, process };
        stream.write_all(offer.line().as_bytes())?;
        let mut fds: Vec<(&[u8], BorrowedFd<'_>)> = vec![(CONTROL, control.as_fd())];
        fds.extend(http);
        fds.extend(listening.0.iter().map(|(label, fd)| (label.as_bytes(), fd.as_fd())));
        send_fds(&stream, &fds)?;
        stream.set_nonblocking(true)?;
        Ok(Self { stream, heard: Vec::new(), wait: Wait::begin(now.secs()) })
    }

    /// Returns the descriptor to wait on.
    pub(super) fn stream(&self) -> &UnixStream {
        &self.stream
    }

    /// Reads the next report of the new process.
    pub(super) fn hear(&mut self) -> SuccessorState {
        let mut octet = [0];
        loop {
            match self.stream.read(&mut octet) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return SuccessorState::None;
                }
                Err(_) | Ok(0) => return SuccessorState::Gone,
                Ok(_) => self.heard.extend(octet),
            }
            let state = match self.heard.as_slice() {
                READY => SuccessorState::Ready,
                YIELD => SuccessorState::Prepared,
                WORKING => SuccessorState::Working,
                part if [READY, YIELD, WORKING].iter().any(|all| all.starts_with(part)) => continue,
                _ => return SuccessorState::Gone,
            };
            self.heard.clear();
            return state;
        }
    }

    /// Waits longer, because the new process works.
    pub(super) fn extend(&mut self, now: Moment) {
        self.wait = self.wait.extended(now.secs());
    }

    /// Reports to the new process that the data directory is released.
    pub(super) fn report_release(&mut self, now: Moment) -> io::Result<()> {
        self.wait = Wait::begin(now.secs());
        self.stream.write_all(YIELDED)
    }

    /// Reports to the new process that the data directory is not released.
    pub(super) fn refuse(self, error: &ControlError) {
        refuse(self.stream, error);
    }

    /// Stops waiting for the new process, which then ends. Returns whether it is ready already, so
    /// that it serves.
    pub(super) fn withdraw(mut self) -> bool {
        // Later reports of the new process fail. Earlier ones can still be read, and a process that
        // is ready must not end.
        let _ = self.stream.shutdown(Shutdown::Read);
        loop {
            match self.hear() {
                SuccessorState::Ready => return true,
                SuccessorState::Gone => break,
                SuccessorState::None | SuccessorState::Working | SuccessorState::Prepared => {}
            }
        }
        // If the new process has ended, nobody reads this.
        let _ = self.stream.write_all(WITHDRAWN);
        false
    }

    /// Returns whether the new process has taken too long.
    pub(super) fn is_overdue(&self, now: Moment) -> bool {
        self.wait.is_over(now.secs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken_over(process: u32) -> (TakenOver, UnixStream) {
        let (stream, running) = UnixStream::pair().unwrap();
        let (listeners, pages) = (None, Vec::new());
        let (process, watch, signs) = (Some(process), None, None);
        (TakenOver { stream, cedes: true, process, listeners, pages, watch, signs }, running)
    }

    #[test]
    fn each_report_of_a_new_process_is_heard_by_itself() {
        let (mut new, stream) = UnixStream::pair().unwrap();
        stream.set_nonblocking(true).unwrap();
        let mut successor = Successor { stream, heard: Vec::new(), wait: Wait::begin(0) };
        assert_eq!(successor.hear(), SuccessorState::None);
        new.write_all(&[WORKING, &YIELD[..5]].concat()).unwrap();
        assert_eq!(successor.hear(), SuccessorState::Working);
        assert_eq!(successor.hear(), SuccessorState::None);
        new.write_all(&[&YIELD[5..], WORKING, WORKING, READY].concat()).unwrap();
        assert_eq!(successor.hear(), SuccessorState::Prepared);
        assert_eq!(successor.hear(), SuccessorState::Working);
        assert!(successor.withdraw(), "it was ready before the running server stopped waiting");
        assert!(new.write_all(WORKING).is_err());
        let (mut new, stream) = UnixStream::pair().unwrap();
        let mut successor = Successor { stream, heard: Vec::new(), wait: Wait::begin(0) };
        new.write_all(b"{\"ready\":false}\n").unwrap();
        assert_eq!(successor.hear(), SuccessorState::Gone);
    }

    #[test]
    fn signs_of_work_extend_the_wait_up_to_a_limit() {
        let mut wait = Wait::begin(1_000);
        assert!(!wait.is_over(1_059) && wait.is_over(1_060));
        wait = wait.extended(1_050);
        assert!(!wait.is_over(1_109) && wait.is_over(1_110));
        for now_secs in (1_100..1_900).step_by(50) {
            assert!(!wait.is_over(now_secs));
            wait = wait.extended(now_secs);
        }
        assert!(!wait.is_over(1_899) && wait.is_over(1_900));
    }

    #[test]
    fn a_server_that_ends_the_connection_was_killed_only_if_its_process_is_gone() {
        let (mut taken, running) = taken_over(std::process::id());
        drop(running);
        assert!(matches!(taken.request_release(), Err(TakeOverError::Dropped)));
        let mut child = std::process::Command::new("true").spawn().unwrap();
        // The process ends, and nobody has waited for it yet.
        let (mut taken, running) = taken_over(child.id());
        drop(running);
        taken.request_release().unwrap();
        child.wait().unwrap();
        assert!(!is_running(child.id()));
    }

    #[test]
    fn a_process_ends_at_once_if_the_running_server_withdraws_before_it_is_ready() {
        let watched = || {
            let (new, running) = UnixStream::pair().unwrap();
            let (ended, has_ended) = channel();
            let watch = WithdrawalWatch::start(new, move || ended.send(()).unwrap()).unwrap();
            (watch, running, has_ended)
        };
        let (watch, mut running, has_ended) = watched();
        running.write_all(WITHDRAWN).unwrap();
        has_ended.recv().unwrap();
        assert_eq!(watch.heard.recv(), Ok(Heard::Withdrawn));
        let (watch, mut running, has_ended) = watched();
        watch.stop();
        running.write_all(WITHDRAWN).unwrap();
        assert_eq!(watch.heard.recv(), Ok(Heard::Withdrawn));
        assert!(has_ended.recv().is_err(), "it is ready, and goes on");
        let (watch, running, has_ended) = watched();
        drop(running);
        assert_eq!(watch.heard.recv(), Ok(Heard::End));
        assert!(has_ended.recv().is_err(), "the other process was killed");
    }
}
