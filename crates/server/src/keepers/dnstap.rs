//! The thread of dnstap: it takes the replies out of the workers' rings, conceals data that the
//! privacy of each client withholds, and sends them to the receiver.
//!
//! While the receiver cannot be reached, replies stay in the rings. When a ring is full, the worker
//! drops replies and counts them.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use avocet_config::Config;
use avocet_config::dnstap::{DnstapConfig, TapOutput};
use avocet_config::privacy::Privacy;
use avocet_dnstap::{
    MessageKind, TapMessage, TapReceiver, TapRecord, TapTime, TapTransport, TappedReply,
};
use avocet_nameserver::query::asked::Transport;
use avocet_policy::client::DeviceId;
use avocet_wire::header::{HEADER_LEN, Header, RD};
use avocet_wire::{MessageView, Rtype};

use super::concealed::Concealed;
use crate::query_log::states::LoggedStates;
use crate::running::Running;
use crate::running::conditions::Condition;
use crate::tap::TapConnection;

/// Time between two passes of the thread's loop while replies are sent.
const TICK: Duration = Duration::from_millis(25);
/// Time between two passes of the thread's loop while no replies are sent.
const IDLE_TICK: Duration = Duration::from_millis(250);
/// Time between attempts to connect.
const RETRY_AFTER: Duration = Duration::from_secs(2);
/// The problem that the status reports after a panic in a pass of the loop.
const FAULT: &str = "a panic interrupted dnstap, see the log; the server retries";
/// The name and version of the software in each message.
const VERSION: &str = concat!("avocet ", env!("CARGO_PKG_VERSION"));

/// Starts the thread.
///
/// # Errors
///
/// The system cannot start a thread.
pub(crate) fn start(running: Arc<Running>, rings: Vec<TapReceiver>) -> io::Result<JoinHandle<()>> {
    let states = LoggedStates::new(&running.shared.name_server);
    let work = TapWork {
        running,
        rings,
        states,
        connection: None,
        retry: Instant::now(),
        concealed: Concealed::new(),
        record: TapRecord::default(),
        message: Vec::new(),
        octets: Vec::new(),
    };
    thread::Builder::new().name("dnstap".to_owned()).spawn(move || work.run())
}

struct TapWork {
    running: Arc<Running>,
    rings: Vec<TapReceiver>,
    states: LoggedStates,
    /// The connection, and its receiver.
    connection: Option<(TapOutput, TapConnection)>,
    /// The time of the next attempt to connect.
    retry: Instant,
    concealed: Concealed,
    record: TapRecord,
    /// Memory for the message.
    message: Vec<u8>,
    /// Memory for the octets of a reply without data that privacy conceals.
    octets: Vec<u8>,
}

impl TapWork {
    fn run(mut self) {
        let running = self.running.clone();
        loop {
            let is_tapping = self.states.current().is_tapping;
            let is_open = running.query_log.wait(if is_tapping { TICK } else { IDLE_TICK });
            let rounded = running.conditions.contain(Condition::Dnstap, FAULT, || self.round());
            if rounded.is_none() {
                // After a panic, the state of the frame that was being sent is unknown.
                self.lose();
            }
            if !is_open {
                self.close();
                return;
            }
        }
    }

    /// Takes replies out of the workers' rings, and sends them.
    fn round(&mut self) {
        self.states.refresh(&self.running.shared.name_server);
        let config = self.states.current().config.clone();
        let counts = &self.running.tap_counts;
        let dropped = self.rings.iter().map(TapReceiver::dropped).sum();
        counts.dropped.store(dropped, Ordering::Relaxed);
        let Some(output) = &config.dnstap.output else {
            self.close();
            self.running.conditions.set(Condition::DnstapReceiver, None);
            while self.rings.iter_mut().any(|ring| ring.pop(&mut self.record)) {}
            return;
        };
        if self.connection.as_ref().is_some_and(|(known, _)| known != output) {
            self.close();
            self.retry = Instant::now();
        }
        let result = self.connect(output).and_then(|()| self.send(&config));
        if let Err(error) = result {
            self.lose();
            let text = format!(
                "the dnstap receiver {output} cannot be used: {error}; the server keeps what fits, \
                 counts what it drops, and tries again"
            );
            self.running.conditions.set(Condition::DnstapReceiver, Some(text));
        }
    }

    /// Connects, if the next attempt is due.
    fn connect(&mut self, output: &TapOutput) -> io::Result<()> {
        if self.connection.is_some() || Instant::now() < self.retry {
            return Ok(());
        }
        self.retry = Instant::now() + RETRY_AFTER;
        self.connection = Some((output.clone(), TapConnection::open(output)?));
        self.running.tap_counts.connected.store(1, Ordering::Relaxed);
        self.running.conditions.set(Condition::DnstapReceiver, None);
        tracing::info!("dnstap messages go to {output}");
        Ok(())
    }

    /// Sends all replies in the rings, while there is a connection.
    fn send(&mut self, config: &Config) -> io::Result<()> {
        let sent = &self.running.tap_counts.sent;
        let Some((_, connection)) = &mut self.connection else { return Ok(()) };
        let addresses = config.server.addresses();
        for ring in &mut self.rings {
            while ring.pop(&mut self.record) {
                let reply = self.record.reply();
                let device = DeviceId::from_number(reply.device);
                let privacy = self.states.privacy_of(reply.revision, (reply.client, device));
                if privacy == Privacy::Off {
                    continue;
                }
                let client = self.concealed.shown(config, reply.client, privacy);
                let server = addresses.get(usize::from(reply.entrance)).copied();
                // The unspecified address means all addresses and is left out.
                let server = server.filter(|address| !address.ip().is_unspecified());
                let known = Known { reply: &reply, client, server, privacy };
                known.write(config, &mut self.octets, &mut self.message);
                sent.fetch_add(connection.add(&self.message)?, Ordering::Relaxed);
            }
        }
        sent.fetch_add(connection.flush()?, Ordering::Relaxed);
        Ok(())
    }

    /// Forgets a connection that has failed, with the messages that it was sending.
    fn lose(&mut self) {
        let counts = &self.running.tap_counts;
        if let Some((_, connection)) = self.connection.take() {
            counts.lost.fetch_add(connection.waiting(), Ordering::Relaxed);
        }
        counts.connected.store(0, Ordering::Relaxed);
        self.retry = Instant::now() + RETRY_AFTER;
    }

    /// Ends the stream, if there is one.
    fn close(&mut self) {
        let Some((_, mut connection)) = self.connection.take() else { return };
        let counts = &self.running.tap_counts;
        match connection.close() {
            Ok(sent) => counts.sent.fetch_add(sent, Ordering::Relaxed),
            Err(_) => counts.lost.fetch_add(connection.waiting(), Ordering::Relaxed),
        };
        counts.connected.store(0, Ordering::Relaxed);
    }
}

/// A reply, with the data about its client that may be shown.
struct Known<'r> {
    reply: &'r TappedReply<'r>,
    client: Option<IpAddr>,
    /// The server's address at which the query arrived.
    server: Option<SocketAddr>,
    privacy: Privacy,
}

impl Known<'_> {
    /// Writes the message. `octets` is memory for a changed reply.
    fn write(&self, config: &Config, octets: &mut Vec<u8>, message: &mut Vec<u8>) {
        let DnstapConfig { identity, .. } = &config.dnstap;
        let reply = self.reply;
        let server = self.server;
        octets.clear();
        self.octets(octets);
        let wire = Some(octets.as_slice()).filter(|octets| !octets.is_empty());
        let query_us = reply.time_us.saturating_sub(reply.delay_us.into());
        let one = TapMessage {
            identity: identity.as_bytes(),
            version: VERSION.as_bytes(),
            transport: Some(match Transport::of_number(reply.transport) {
                Transport::Udp => TapTransport::Udp,
                Transport::Tcp => TapTransport::Tcp,
                Transport::Tls => TapTransport::Tls,
                // dnstap has no value of its own for oblivious queries.
                Transport::Https | Transport::Odoh => TapTransport::Https,
                Transport::Quic => TapTransport::Quic,
            }),
            query_address: self.client,
            // The message has only one address family, which is that of the client. An address of
            // another family would be misread.
            response_address: server
                .map(|server| server.ip())
                .filter(|ip| self.client.is_none_or(|client| client.is_ipv4() == ip.is_ipv4())),
            response_port: server.map(|server| server.port()),
            query_time: Some(TapTime::of_micros(query_us)),
            ..TapMessage::of(MessageKind::ClientQuery)
        };
        let one = match reply.is_reply {
            true => TapMessage {
                kind: MessageKind::ClientResponse,
                response_time: Some(TapTime::of_micros(reply.time_us)),
                response_message: wire,
                ..one
            },
            false => TapMessage { query_message: wire, ..one },
        };
        one.write(message);
    }

    /// Appends the reply, or the query if there is no reply, without parts that privacy conceals.
    fn octets(&self, out: &mut Vec<u8>) {
        let reply = self.reply;
        match (self.privacy, reply.is_reply) {
            (Privacy::NoNames | Privacy::Off, _) => {}
            (_, false) if reply.octets.is_empty() => {}
            // The ID and the options of the query are no longer known.
            (_, false) => {
                let mut head = [0; HEADER_LEN];
                Header { id: 0, flags: RD, counts: [1, 0, 0, 0] }.write(&mut head);
                out.extend_from_slice(&head);
                out.extend_from_slice(reply.octets);
            }
            (Privacy::Full, true) => out.extend_from_slice(reply.octets),
            (Privacy::Truncated | Privacy::Pseudonym, true) => without_edns(reply.octets, out),
        }
    }
}

/// Appends a reply without its OPT record, because a cookie identifies a client (RFC 7873). If OPT
/// is not the last record, appends nothing.
fn without_edns(reply: &[u8], out: &mut Vec<u8>) {
    let Some(records) = MessageView::new(reply).ok().and_then(|view| view.records().ok()) else {
        return;
    };
    let mut end = reply.len();
    for record in records {
        let Ok(record) = record else { return };
        let is_opt = record.rtype == Rtype::OPT;
        // The owner of OPT is the root: one octet before the type.
        match is_opt {
            true if record.ttl_offset() + 6 + record.rdata().len() == reply.len() => {
                end = record.ttl_offset() - 5
            }
            true => return,
            false => {}
        }
    }
    out.extend_from_slice(&reply[..end]);
    if end < reply.len()
        && let Some(count) = out.get_mut(10..12)
    {
        let additional = u16::from_be_bytes([count[0], count[1]]).saturating_sub(1);
        count.copy_from_slice(&additional.to_be_bytes());
    }
}
