//! The control socket: `control.sock` in the data directory, for its owner and a group that may be
//! configured.
//!
//! A client sends one line of JSON and gets lines of JSON; the last has `done` or `error`. Each
//! client has a thread of its own, for a dump may take as long as he likes to read.

mod status;

use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use std::{fs, thread};

use avocet_cache::StoreStats;
use avocet_config::name::{shown, typed_name};
use avocet_config::policy::MAX_SPAN;
use avocet_control::{MAX_LINE, Request, SOCKET, connect};
use avocet_io::poll::{Poller, Waker};
use avocet_io::process::give_to_group;
use avocet_nameserver::clock::wall_secs;
use avocet_nameserver::metrics::{Stage, WorkerMetrics};
use avocet_nameserver::query::rehearsal::At;
use avocet_policy::rule::{Grant, Pause, Scope};
use avocet_wire::NameBuf;
use serde_json::{Value, json};

use crate::explain;
use crate::keepers::lists;
use crate::lists::Taking;
use crate::running::switches::{self, Change};
use crate::running::{OperationError, Running};
use crate::trace::{self, TraceQuestion, dump};

/// Clients served at once.
const MAX_CONTROL_CLIENTS: usize = 8;
/// How long a client may keep silent, or not read.
const PATIENCE: Duration = Duration::from_secs(10);

const ROOT: &[u8] = &[0];
/// Who asks where `why` names no client.
const THIS_MACHINE: &str = "127.0.0.1";

/// The listening end.
pub(crate) struct ControlSocket {
    listener: UnixListener,
    path: PathBuf,
    clients: Arc<AtomicUsize>,
}

impl ControlSocket {
    /// Opens the socket of a data directory. One that a dead server left is replaced.
    pub(crate) fn open(directory: &Path, group: Option<&str>) -> Result<Self, OperationError> {
        if connect(directory).is_ok() {
            return Err(OperationError::AlreadyRunning(directory.to_owned()));
        }
        let path = directory.join(SOCKET);
        let listener =
            bind_for(&path, group).map_err(|error| OperationError::Control(path.clone(), error))?;
        Ok(Self { listener, path, clients: Arc::default() })
    }

    /// Goes on with the socket of the server that was taken over.
    pub(crate) fn adopt(listener: OwnedFd, directory: &Path) -> Self {
        Self {
            listener: UnixListener::from(listener),
            path: directory.join(SOCKET),
            clients: Arc::default(),
        }
    }

    /// Serves the clients that wait, each in a thread.
    ///
    /// # Errors
    /// The system has no descriptor left: the clients go on waiting.
    pub(crate) fn accept(&self, running: &Arc<Running>, orders: &Arc<Orders>) -> io::Result<()> {
        loop {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                // It has gone again.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
                Err(error) => return Err(error),
            };
            if self.clients.fetch_add(1, Ordering::Relaxed) >= MAX_CONTROL_CLIENTS {
                self.clients.fetch_sub(1, Ordering::Relaxed);
                refuse(stream, "too many control clients at once; try again");
                continue;
            }
            let (running, orders, clients) =
                (running.clone(), orders.clone(), self.clients.clone());
            let spawned = thread::Builder::new().name("control".to_owned()).spawn(move || {
                // A client that went away is no news.
                let _ = serve(stream, &running, &orders);
                clients.fetch_sub(1, Ordering::Relaxed);
            });
            if spawned.is_err() {
                self.clients.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    /// Removes the socket from the directory, as nobody listens any more.
    pub(crate) fn remove(&self) {
        let _ = fs::remove_file(&self.path);
    }
}

impl AsFd for ControlSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

/// Binds beside `path` and renames, so that nobody else can connect between bind and chmod. It is
/// for the owner, and for a group if there is one.
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

/// Requests that the main thread fulfils: streams of processes that want to take over.
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
        self.waker.wake();
    }

    pub(crate) fn take(&self) -> Vec<UnixStream> {
        self.waker.clear();
        std::mem::take(&mut *self.streams.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn serve(stream: UnixStream, running: &Running, orders: &Orders) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut line = Vec::new();
    BufReader::new((&stream).take(MAX_LINE as u64)).read_until(b'\n', &mut line)?;
    let mut out = BufWriter::new(&stream);
    let answer = match serde_json::from_slice(&line) {
        Err(error) => json!({ "error": format!("not a request: {error}") }),
        Ok(Request::Stats) => stats(running),
        Ok(Request::Dump) => dump::write(&running.shared, &mut out)?,
        Ok(Request::Pause { scope, secs }) => {
            with_scopes(running, scope, |scopes| match end(secs)? {
                None => Ok(Change::Resume(scopes)),
                Some(until) => Ok(Change::Pause(Pause { scope: first(scopes), until })),
            })
        }
        Ok(Request::Grant { name, scope, secs }) => {
            with_scopes(running, scope, |scopes| match (granted(&name)?, end(secs)?) {
                (name, None) => Ok(Change::Revoke(name, scopes)),
                (name, Some(until)) => {
                    Ok(Change::Grant(Grant { name, scope: first(scopes), until }))
                }
            })
        }
        Ok(Request::Switches) => switches::status(running),
        Ok(Request::Trace { name, rtype, dnssec, checking_disabled }) => {
            let mut asked = TraceQuestion::read(&name, rtype.as_deref());
            if let Ok(asked) = &mut asked {
                (asked.dnssec_ok, asked.checking_disabled) = (dnssec, checking_disabled);
            }
            tell(&mut out, asked.and_then(|asked| trace::trace(&running.shared, asked)))?
        }
        Ok(Request::Why { name, rtype, client, at }) => {
            let asked = TraceQuestion::read(&name, rtype.as_deref());
            tell(&mut out, asked.and_then(|asked| why(running, &asked, client.as_deref(), at)))?
        }
        Ok(Request::Flush { name }) => with_name(&name, |name| flush(running, name, Extent::Name)),
        Ok(Request::FlushTree { name }) => {
            with_name(&name, |name| flush(running, name, Extent::Tree))
        }
        Ok(Request::Anchors) => running.show_anchors(),
        Ok(Request::NtaList) => running.show_negative(),
        Ok(Request::NtaAdd { name, secs }) => {
            with_name(&name, |name| running.add_negative(name, secs))
        }
        Ok(Request::NtaRemove { name }) => with_name(&name, |name| running.remove_negative(name)),
        Ok(Request::Status) => status::of(running),
        Ok(Request::ListsStatus) => lists::status::of_all(running),
        Ok(Request::ListsCheck { name }) => lists::status::check(running, &name),
        Ok(Request::ListsRefresh { name, force }) => {
            let (sender, outcome) = channel();
            running.lists.refresh(
                name,
                if force { Taking::Forced } else { Taking::Judged },
                sender,
            );
            wait_for(&outcome, &mut out)?
        }
        Ok(Request::Reload) => reload(running),
        Ok(Request::TakeOver) => {
            drop(out);
            orders.send(stream);
            return Ok(());
        }
    };
    writeln!(out, "{answer}")?;
    out.flush()
}

/// Declines a request to take over.
pub(crate) fn refuse(mut stream: UnixStream, reason: &str) {
    // Whoever asked may be gone.
    let _ = writeln!(stream, "{}", serde_json::json!({ "error": reason }));
}

/// Explains what `client` would be given at `at`, in seconds since 1970: by default this machine,
/// now.
fn why(
    running: &Running,
    asked: &TraceQuestion,
    client: Option<&str>,
    at: Option<u64>,
) -> Result<Vec<Value>, String> {
    let at = at.map_or_else(|| At::Now(wall_secs()), At::Then);
    let client = client.unwrap_or(THIS_MACHINE);
    let client = explain::client_address(&running.shared.snapshot(), client)?;
    explain::why(running, asked, (client, at))
}

fn reload(running: &Running) -> Value {
    match running.reloader.reload() {
        Ok(reloaded) => json!({
            "done": true,
            "restart-needed-for": reloaded.restart,
            "removed": reloaded.removed.to_json(),
            "removed-text": reloaded.removed.to_string(),
        }),
        Err(error) => json!({ "error": error }),
    }
}

/// Waits for the outcome of something long. The client learns now and then that it goes on, and if
/// he has gone, that fails.
fn wait_for(outcome: &Receiver<Value>, out: &mut impl Write) -> io::Result<Value> {
    loop {
        match outcome.recv_timeout(PATIENCE) {
            Ok(outcome) => return Ok(outcome),
            Err(RecvTimeoutError::Disconnected) => {
                return Ok(json!({ "error": "the server is shutting down" }));
            }
            Err(RecvTimeoutError::Timeout) => {
                writeln!(out, "{}", json!({ "waiting": true }))?;
                out.flush()?;
            }
        }
    }
}

/// Makes a change for a scope, in which a client may be given by its address and then be called in
/// several ways.
fn with_scopes(
    running: &Running,
    scope: Scope,
    change: impl FnOnce(Vec<Scope>) -> Result<Change, String>,
) -> Value {
    let scopes = match scope {
        Scope::Client(client) => explain::client_scopes(&running.shared.snapshot(), client),
        scope => vec![scope],
    };
    match change(scopes) {
        Ok(change) => switches::change(running, change),
        Err(error) => json!({ "error": error }),
    }
}

fn first(scopes: Vec<Scope>) -> Scope {
    scopes.into_iter().next().unwrap_or_default()
}

/// The name of a grant as people type it. Names below are meant anyway, so `*.` before it adds
/// nothing.
fn granted(name: &str) -> Result<String, String> {
    let name = name.strip_prefix("*.").unwrap_or(name);
    if name.is_ascii() { Ok(name.to_owned()) } else { typed_name(name).map(|wire| shown(&wire)) }
}

/// The Unix second at which something ends that begins now; none: it ends now.
///
/// # Errors
/// That is too far away for anything that is to end by itself.
fn end(secs: u64) -> Result<Option<u64>, String> {
    let most = MAX_SPAN.as_secs();
    match secs {
        0 => Ok(None),
        _ if secs <= most => Ok(Some(wall_secs().saturating_add(secs))),
        _ => Err(format!(
            "expected 1 to {most} seconds (365 days), or 0 to end the pause or grant, found {secs}"
        )),
    }
}

/// Writes sections, and gives the last line.
fn tell(out: &mut impl Write, sections: Result<Vec<Value>, String>) -> io::Result<Value> {
    let sections = match sections {
        Ok(sections) => sections,
        Err(error) => return Ok(json!({ "error": error })),
    };
    for section in sections {
        writeln!(out, "{section}")?;
    }
    Ok(json!({ "done": true }))
}

#[derive(Clone, Copy)]
enum Extent {
    Name,
    Tree,
}

/// Does what is asked about a name, folded.
fn with_name(name: &str, act: impl FnOnce(&NameBuf) -> Value) -> Value {
    match typed_name(name)
        .and_then(|wire| NameBuf::from_wire(&wire).map_err(|error| error.to_string()))
    {
        Ok(name) => act(&name.folded()),
        Err(error) => json!({ "error": error }),
    }
}

/// Final answers are dropped all: one may hold what is flushed behind an alias. They are put
/// together again from the RRset cache.
fn flush(running: &Running, name: &NameBuf, extent: Extent) -> Value {
    let shared = &running.shared;
    let rrsets = match extent {
        Extent::Name => shared.name_server.rrsets.flush_name(name.wire()),
        Extent::Tree => shared.name_server.rrsets.flush(name.wire()),
    };
    shared.name_server.failures.flush(name.wire());
    // Another name may have been denied by a gap that this one lies in, or be judged by its keys.
    shared.forget_proofs();
    shared.name_server.packets.flush(ROOT);
    tracing::info!(%name, rrsets, "flushed");
    json!({ "done": true, "rrsets": rrsets })
}

fn stats(running: &Running) -> Value {
    let shared = &running.shared;
    let total =
        |count: fn(&WorkerMetrics) -> u64| -> u64 { shared.metrics.iter().map(count).sum() };
    let mut packets = store_stats(&shared.name_server.packets.stats());
    packets["hits"] = total(|worker| worker.stages[Stage::PacketHit as usize].value()).into();
    packets["misses"] = total(|worker| worker.packet_misses()).into();
    let mut rrsets = store_stats(&shared.name_server.rrsets.stats());
    rrsets["hits"] = total(|worker| worker.stages[Stage::RrsetHit as usize].value()).into();
    json!({
        "done": true,
        "packet-cache": packets,
        "rrset-cache": rrsets,
        "failure-cache": store_stats(&shared.name_server.failures.stats()),
        "stale-answers": total(|worker| worker.stages[Stage::Stale as usize].value()),
        "prefetches": total(|worker| worker.prefetches.value()),
    })
}

fn store_stats(stats: &StoreStats) -> Value {
    json!({
        "entries": stats.entries,
        "bytes": stats.bytes_used,
        "bytes-limit": stats.bytes_limit,
        "inserts": stats.inserts,
        "evictions": stats.evicted_unvisited + stats.evicted_main + stats.evicted_bucket,
        "expired": stats.outlived,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_one_line_and_comes_back() {
        for request in
            [Request::Stats, Request::Flush { name: "a\"\n".to_owned() }, Request::TakeOver]
        {
            let line = request.line();
            assert_eq!(line.find('\n'), Some(line.len() - 1));
            assert_eq!(serde_json::from_str::<Request>(&line).unwrap(), request);
        }
        assert_eq!(
            Request::FlushTree { name: "a".into() }.line(),
            "{\"command\":\"flush-tree\",\"name\":\"a\"}\n"
        );
    }
}
