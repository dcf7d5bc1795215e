//! NOTIFY to other servers (RFC 1996). Each server in `notify` of a zone gets the serial of each
//! version that comes into force, until it acknowledges the serial.
//!
//! ```text
//! new serial --> sent --reply--> acknowledged
//!                 |  ^
//!                 +--+ again after 2, 4, 8 ... seconds, at most 8 times --> failed, a warning
//! ```
//! One thread checks all zones twice a second: several versions between two checks cause one
//! message.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{io, thread};

use avocet_config::Config;
use avocet_config::transfer::NotifyTarget;
use avocet_nameserver::clock::wall_secs;
use avocet_nameserver::transfers::ServerEvent;
use avocet_wire::header::{AA, HEADER_LEN, Header, QR};
use avocet_wire::{Class, MessageView, Opcode, Rcode, Rtype};
use avocet_zone::{HostedZone, HostedZones, TsigSigner, TsigVerifier, ZoneId};

use super::Running;
use super::conditions::Condition;

/// Time between two checks of the zones.
const TICK: Duration = Duration::from_millis(500);
/// Maximum number of messages about one serial to one server.
const MAX_TRIES: u32 = 8;
/// Time until the second message; it doubles with each further message.
const FIRST_PAUSE: Duration = Duration::from_secs(2);
/// Maximum number of messages between two checks: further messages wait for the next check.
const MAX_MESSAGES: usize = 256;
/// Maximum number of octets of a reply that are read.
const REPLY: usize = 4_096;
/// The log line after a panic of the thread.
const FAULT: &str =
    "a panic ended the thread that sends NOTIFY to other servers; restart the server";

/// The state of the NOTIFY messages to other servers.
#[derive(Default)]
pub(crate) struct Notifier {
    targets: Mutex<NotifyTargets>,
    /// A condition variable that is never notified, for waits while no socket is open.
    idle: Condvar,
}

/// The state of each server of each zone.
type NotifyTargets = BTreeMap<(ZoneId, NotifyTarget), NotifyState>;

/// The state of the NOTIFY messages to one server about one zone.
#[derive(Default)]
pub(crate) struct NotifyState {
    /// The serial that was sent last, or that will be sent next.
    pub(crate) serial: u32,
    /// Whether the server has acknowledged that serial.
    pub(crate) is_acknowledged: bool,
    /// The number of messages about the serial.
    pub(crate) tries: u32,
    /// The reason why the last message failed.
    pub(crate) fault: Option<String>,
    next: Option<Instant>,
    id: u16,
    verifier: Option<TsigVerifier>,
}

/// The state of NOTIFY to a server, for reports.
pub(crate) struct NotifyReport {
    pub(crate) server: SocketAddr,
    pub(crate) serial: u32,
    pub(crate) is_acknowledged: bool,
    pub(crate) tries: u32,
    pub(crate) fault: Option<String>,
}

impl Notifier {
    /// Returns the state of NOTIFY to the servers of a zone.
    pub(crate) fn reports(&self, zone: &ZoneId) -> Vec<NotifyReport> {
        let targets = self.targets();
        let of_zone = targets.iter().filter(|((id, _), _)| id == zone);
        let report = |((_, target), state): (&(_, NotifyTarget), &NotifyState)| NotifyReport {
            server: target.server,
            serial: state.serial,
            is_acknowledged: state.is_acknowledged,
            tries: state.tries,
            fault: state.fault.clone(),
        };
        of_zone.map(report).collect()
    }

    fn targets(&self) -> MutexGuard<'_, NotifyTargets> {
        self.targets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for [`TICK`].
    fn pause(&self) {
        drop(self.idle.wait_timeout(self.targets(), TICK));
    }

    /// Updates the targets from the configuration and the serials in force.
    fn follow(&self, config: &Config, zones: &HostedZones) {
        let mut targets = self.targets();
        let configured = config.zones.iter().filter(|zone| !zone.notify.is_empty());
        let configured: BTreeMap<_, _> = configured.map(|zone| (zone.id(), zone)).collect();
        let is_configured = |zone: &ZoneId, target: &NotifyTarget| {
            configured.get(zone).is_some_and(|zone| zone.notify.contains(target))
        };
        targets.retain(|(zone, target), _| is_configured(zone, target));
        for config in config.zones.iter().filter(|zone| !zone.notify.is_empty()) {
            let Some(Some(zone)) = zones.by_id(&config.id()) else { continue };
            let serial = zone.serial();
            for target in &config.notify {
                let key = (config.id(), target.clone());
                let state = targets.entry(key).or_insert_with(|| NotifyState::about(serial));
                if state.serial != serial {
                    *state = NotifyState::about(serial);
                }
            }
        }
    }

    /// Returns the messages that are due, and counts them as sent.
    fn take_due(&self, config: &Config, zones: &HostedZones) -> Vec<(SocketAddr, Vec<u8>)> {
        let now = Instant::now();
        let mut messages = Vec::new();
        for ((id, target), state) in self.targets().iter_mut() {
            if messages.len() >= MAX_MESSAGES {
                break;
            }
            let is_due = !state.is_acknowledged
                && state.tries < MAX_TRIES
                && state.next.is_some_and(|next| next <= now);
            let Some(Some(zone)) = zones.by_id(id).filter(|_| is_due) else { continue };
            state.tries += 1;
            let pause = FIRST_PAUSE * (1 << (state.tries - 1).min(MAX_TRIES));
            // The pause after the last message is the longest: it is the time for the reply.
            state.next = Some(now + pause);
            messages.push((target.server, state.message(zone, target, config)));
        }
        messages
    }

    /// Gives up on servers that got the maximum number of messages. Returns a sentence for each.
    fn give_up(&self) -> Vec<String> {
        let now = Instant::now();
        let mut given_up = Vec::new();
        for ((id, target), state) in self.targets().iter_mut() {
            let is_over = state.tries >= MAX_TRIES && state.next.is_some_and(|next| next <= now);
            if !state.is_acknowledged && is_over {
                state.next = None;
                let fault = state.fault.get_or_insert_with(|| "it did not respond".to_owned());
                let (server, serial) = (target.server, state.serial);
                given_up.push(format!("zone {id}: NOTIFY of serial {serial} to {server}: {fault}"));
            }
        }
        given_up
    }

    /// Processes a reply. Returns whether it acknowledges a message.
    fn take_reply(&self, from: SocketAddr, reply: &[u8]) -> bool {
        let Some(header) = MessageView::new(reply).ok().map(|view| view.header()) else {
            return false;
        };
        if !header.has(QR) || header.opcode() != Opcode::NOTIFY {
            return false;
        }
        let from = SocketAddr::new(from.ip().to_canonical(), from.port());
        for ((id, target), state) in self.targets().iter_mut() {
            let is_awaited = target.server == from && state.tries > 0 && state.id == header.id;
            if !is_awaited || state.is_acknowledged {
                continue;
            }
            if let Some(verifier) = &mut state.verifier
                && let Err(error) = verifier.take(reply, wall_secs())
            {
                state.fault = Some(error.to_string());
                return false;
            }
            let rcode = header.rcode();
            state.is_acknowledged = rcode == Rcode::NOERROR;
            state.fault = (!state.is_acknowledged).then(|| format!("it responded with {rcode}"));
            let serial = state.serial;
            if state.is_acknowledged {
                tracing::info!(server = %from, serial, "zone {id}: NOTIFY acknowledged");
            }
            return state.is_acknowledged;
        }
        false
    }
}

impl NotifyState {
    /// Returns the state before the first message about a serial.
    fn about(serial: u32) -> Self {
        Self { serial, next: Some(Instant::now()), ..Self::default() }
    }

    /// Returns the next message.
    fn message(&mut self, zone: &HostedZone, target: &NotifyTarget, config: &Config) -> Vec<u8> {
        let mut id = [0; 2];
        let _ = getrandom::fill(&mut id);
        self.id = u16::from_be_bytes(id);
        let soa = zone.soa();
        let counts = [1, u16::from(soa.is_some()), 0, 0];
        let mut message = vec![0; HEADER_LEN];
        if let Some(head) = message.first_chunk_mut() {
            let flags = AA | u16::from(Opcode::NOTIFY.0) << 11;
            Header { id: self.id, flags, counts }.write(head);
        }
        let (soa_type, internet) = (Rtype::SOA.0.to_be_bytes(), Class::IN.0.to_be_bytes());
        message.extend_from_slice(zone.apex().wire());
        message.extend_from_slice(&[soa_type, internet].concat());
        if let Some(soa) = soa {
            // The owner is a compression pointer to QNAME.
            message.extend_from_slice(&[0xc0, HEADER_LEN as u8]);
            message.extend_from_slice(&[soa_type, internet].concat());
            message.extend_from_slice(&soa.ttl_secs.to_be_bytes());
            message.extend_from_slice(&(soa.rdata.len() as u16).to_be_bytes());
            message.extend_from_slice(soa.rdata);
        }
        let key = target.key.as_ref().and_then(|name| config.key(name));
        self.verifier = key.map(|key| {
            let mut signer = TsigSigner::of_request(key);
            signer.sign(&mut message, wall_secs());
            signer.verifier()
        });
        message
    }
}

/// Starts the thread.
///
/// # Errors
/// The system cannot start a thread.
pub(crate) fn start(running: Arc<Running>) -> io::Result<()> {
    let work = move || {
        running.conditions.contain(Condition::Threads, FAULT, || work(&running));
    };
    thread::Builder::new().name("notify".to_owned()).spawn(work).map(drop)
}

fn work(running: &Running) {
    let shared = &running.shared.name_server;
    let mut sockets = Sockets::default();
    while !shared.notices.is_closed() {
        let snapshot = running.shared.snapshot();
        let notifier = &running.notifier;
        notifier.follow(&snapshot.config, &snapshot.names.zones);
        for fault in notifier.give_up() {
            shared.transfers.count(ServerEvent::NoticeFailed);
            tracing::warn!("{fault}");
        }
        for (server, message) in notifier.take_due(&snapshot.config, &snapshot.names.zones) {
            shared.transfers.count(ServerEvent::NoticeSent);
            if let Err(error) = sockets.send(server, &message) {
                tracing::warn!("NOTIFY to {server}: {error}");
            }
        }
        drop(snapshot);
        if sockets.are_closed() {
            notifier.pause();
        }
        sockets.receive(|from, reply| {
            if notifier.take_reply(from, reply) {
                shared.transfers.count(ServerEvent::NoticeAcknowledged);
            }
        });
    }
}

/// The sockets, one for each family. Each is opened at its first use.
#[derive(Default)]
struct Sockets {
    v4: Option<UdpSocket>,
    v6: Option<UdpSocket>,
}

impl Sockets {
    /// Returns whether no socket is open.
    const fn are_closed(&self) -> bool {
        self.v4.is_none() && self.v6.is_none()
    }

    fn send(&mut self, server: SocketAddr, message: &[u8]) -> io::Result<()> {
        let (socket, any) = match server {
            SocketAddr::V4(_) => (&mut self.v4, IpAddr::from(Ipv4Addr::UNSPECIFIED)),
            SocketAddr::V6(_) => (&mut self.v6, IpAddr::from(Ipv6Addr::UNSPECIFIED)),
        };
        let socket = match socket {
            Some(socket) => socket,
            None => socket.insert(UdpSocket::bind((any, 0))?),
        };
        socket.send_to(message, server).map(drop)
    }

    /// Waits for [`TICK`], and passes the replies that arrive to `take`.
    fn receive(&mut self, mut take: impl FnMut(SocketAddr, &[u8])) {
        let ends = Instant::now() + TICK;
        let mut room = [0; REPLY];
        let sockets: Vec<_> = self.v4.iter().chain(&self.v6).collect();
        let part = TICK / sockets.len().max(1) as u32;
        for socket in sockets {
            let ends = ends.min(Instant::now() + part);
            loop {
                let left = ends.saturating_duration_since(Instant::now());
                if left.is_zero() || socket.set_read_timeout(Some(left)).is_err() {
                    break;
                }
                match socket.recv_from(&mut room) {
                    Ok((len, from)) => take(from, &room[..len]),
                    // The server cannot be reached, but the next message may arrive.
                    Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                    Err(_) => break,
                }
            }
        }
    }
}
