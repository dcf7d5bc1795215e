//! Sends a query: decides its form and its socket, and how long to wait for the reply.

use std::net::IpAddr;

use avocet_wire::Question;
use avocet_wire::proxy::{self, ProxiedBy};
use chacha20::rand_core::Rng;

use super::endpoint::{Carrier, EndpointId, SocketId, SocketSlot, Transport};
use super::pending::{Owner, PendingQuery};
use super::rtt::Rtt;
use super::server::CookieAttempt;
use super::{Exchange, Exchanges};
use crate::action::{Action, Actions};
use crate::plan::HeaderPlace;
use crate::query::{self, OptOf, Privacy};

/// Minimum number of unpredictable bits of a query from a pool (RFC 5452 §9). A query with too few
/// letters for this gets its own socket.
const MIN_BITS: u32 = 32;
/// Number of bits of the ID.
const ID_BITS: u32 = 16;
/// Number of unpredictable bits of the port of a socket for one query. The port is drawn from at
/// least 32,768 ports; by default from some 59,700, which is 15.9 bits. A query for a name without
/// letters has only the bits of ID and port.
const SINGLE_PORT_BITS: u32 = 15;
/// Maximum number of IDs that are drawn to find one that is not in use on the socket.
const ID_DRAWS: usize = 8;
/// The wait for each reply under heavy loss, in ms, if the server is fast enough.
const LOSSY_TIMEOUT_MS: u32 = 250;
/// Lowest and highest wait for a reply over TCP, in ms. The system retransmits lost segments in
/// this time.
const TCP_TIMEOUT_MS: (u32, u32) = (1_000, 3_000);

/// Whether a query counts against the limits of its exchange.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Weight {
    Counts,
    /// The query does not count, because it only measures another server.
    Aside,
}

/// The sockets that the queries of an exchange use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sockets {
    /// The server's pool and its kept connection. A query that would be too easy to forge gets its
    /// own socket.
    Shared,
    /// Each query has its own socket.
    Single,
}

/// The transports over which a query with EDNS has a cookie (RFC 7873).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cookies {
    /// No query has a cookie.
    Off,
    /// Only queries over UDP to servers that have sent a cookie before have one.
    OverUdpIfKnown,
    /// Only queries over UDP have a cookie. To an authoritative server, a TCP connection proves the
    /// client's address as well as a cookie does.
    OverUdp,
    /// Queries over all transports have a cookie, because some forwarders send BADCOOKIE over TCP,
    /// too.
    Always,
}

/// Information about the client that is sent to a server before the query.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Preface {
    /// The server gets no information.
    None,
    /// The server gets a header with the address of the client, or with no address (`None`) if this
    /// server itself causes the query.
    Header(HeaderPlace, Option<IpAddr>),
}

/// The longest time to wait for a reply over UDP before another server is queried, in ms.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Longest {
    pub(crate) measured_ms: u32,
    /// The longest wait for a server that was not measured yet.
    pub(crate) blind_ms: u32,
}

impl Longest {
    /// Limits that do not shorten the wait: only the limits of the rule apply.
    pub(crate) const OF_RULE: Self = Self { measured_ms: u32::MAX, blind_ms: u32::MAX };
}

/// The requirements that an exchange sets for its queries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms<'a> {
    pub(crate) question: Question<'a>,
    /// The flags RD and CD.
    pub(crate) flags: u16,
    pub(crate) udp_size: u16,
    pub(crate) dnssec_ok: bool,
    /// The data of the client subnet option; empty if the query has no such option.
    pub(crate) ecs: &'a [u8],
    pub(crate) cookies: Cookies,
    pub(crate) case_randomisation: bool,
    /// The round from which a server is queried without EDNS if it is not known to support EDNS,
    /// because it may drop queries with EDNS. `None` if queries always have EDNS.
    pub(crate) plain_round: Option<u32>,
    /// The shortest and the longest wait for a reply, in ms.
    pub(crate) timeout_ms: (u32, u32),
    pub(crate) longest: Longest,
    pub(crate) sockets: Sockets,
    pub(crate) preface: Preface,
}

/// The instruction to send a query to one server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueryOrder {
    pub(crate) owner: Owner,
    pub(crate) server: EndpointId,
    /// The server whose round-trip time determines the wait. For an unproven endpoint, it is the
    /// plain server at the same address, so that no client waits longer than for a reply over UDP.
    pub(crate) timed_as: EndpointId,
    /// The server's index among the candidates.
    pub(crate) place: u8,
    pub(crate) weight: Weight,
    pub(crate) now_ms: u64,
}

/// A sent query.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) carrier: Carrier,
    pub(crate) with_edns: bool,
    /// Whether a header of the PROXY protocol came before the query.
    pub(crate) with_proxy_header: bool,
    pub(crate) socket: DrawnSocket,
}

/// The socket from which a query is sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DrawnSocket {
    pub(crate) slot: SocketSlot,
    /// Whether the driver must open the socket again with another port.
    pub(crate) renew: bool,
    /// Number of unpredictable bits of the query, from ID, port and letter case.
    pub(crate) bits: u32,
}

/// The decisions about the form of one query.
struct QueryForm {
    carrier: Carrier,
    with_edns: bool,
    with_cookie: bool,
    exact_case: bool,
    wait_ms: u32,
}

impl Exchanges {
    /// Sends a query of an exchange.
    pub(crate) fn send<W>(
        &mut self,
        exchange: &mut Exchange,
        order: &QueryOrder,
        terms: &Terms<'_>,
        actions: &mut Actions<W>,
    ) -> Sent {
        let QueryOrder { owner, server, place, weight, now_ms, .. } = *order;
        let form = self.form(exchange, order, terms);
        let at = self.pending.allocate(terms.question.octets());
        let letters = if form.exact_case { self.vary_case(at) } else { 0 };
        let drawn = self.draw_socket(order, &form, (terms, letters), at);
        let socket = SocketId { endpoint: server, slot: drawn.slot };
        let id = self.draw_id(socket);

        let query = &mut self.pending[at];
        (query.owner, query.socket, query.id, query.place) = (owner, socket, id, place);
        (query.sent_ms, query.due_ms) = (now_ms, now_ms + u64::from(form.wait_ms));
        query.aside = weight == Weight::Aside;
        query.with_cookie = form.with_cookie;
        (query.with_edns, query.exact_case) = (form.with_edns, form.exact_case);
        let start = actions.octets.len();
        if let Preface::Header(_, client) = terms.preface {
            write_preface(&mut actions.octets, client, form.carrier);
        }
        const { assert!(proxy::MAX_PROXY_HEADER <= u8::MAX as usize) };
        let header_len = (actions.octets.len() - start) as u8;
        self.write(&form, at, terms, actions);
        let octets = start..actions.octets.len();
        self.pending.enter(at);
        exchange.queries.push(at);
        exchange.sends += u32::from(weight == Weight::Counts);
        let server = &mut self.servers[server];
        server.outstanding += 1;
        match socket.slot {
            SocketSlot::Stream => server.streams.asked(now_ms),
            SocketSlot::SingleStream(_) => server.streams.singles += 1,
            SocketSlot::Pooled(_) | SocketSlot::Single(_) => {}
        }
        let to = server.endpoint;
        let header_place = match terms.preface {
            Preface::Header(place, _) => place,
            Preface::None => HeaderPlace::InsideTls,
        };
        let renew = drawn.renew;
        actions.list.push(Action::Send { socket, to, renew, octets, header_len, header_place });
        let QueryForm { carrier, with_edns, .. } = form;
        Sent { carrier, with_edns, with_proxy_header: header_len > 0, socket: drawn }
    }

    /// Decides the form of a query to a server.
    fn form(&self, exchange: &mut Exchange, order: &QueryOrder, terms: &Terms<'_>) -> QueryForm {
        let server = &self.servers[order.server];
        let bit = 1 << order.place;
        let carrier = match server.endpoint.transport {
            Transport::Tls(_) => Carrier::Tls,
            Transport::Https(_) => Carrier::Https,
            Transport::Quic(_) => Carrier::Quic,
            Transport::H3(_) => Carrier::H3,
            Transport::Tcp => Carrier::Tcp,
            Transport::Udp if exchange.by_tcp & bit != 0 => Carrier::Tcp,
            Transport::Udp => Carrier::Udp,
        };
        // If a server does not answer over TLS, the reason is not EDNS.
        let may_drop_edns = !carrier.is_encrypted()
            && terms.plain_round.is_some_and(|round| exchange.round >= round);
        if may_drop_edns && !server.speaks_edns && exchange.plain & bit == 0 {
            exchange.plain |= bit;
            exchange.guessed_plain |= bit;
        }
        let rtt = &self.servers[order.timed_as].rtt;
        let is_measured = rtt.smoothed_ms().is_some();
        let Longest { measured_ms, blind_ms } = terms.longest;
        let is_timed_as_stream = carrier.is_stream() && order.timed_as == order.server;
        let wait_ms = match is_timed_as_stream {
            true => stream_timeout(rtt),
            false => timeout(rtt, exchange.round, terms.timeout_ms),
        };
        let longest_ms = if is_measured { measured_ms } else { blind_ms };
        let with_edns = server.takes_edns(order.now_ms) && exchange.plain & bit == 0;
        // Some servers drop or reject queries with cookies, or deny their names.
        let is_first = terms.cookies != Cookies::OverUdpIfKnown
            && exchange.round == 0
            && (exchange.without_cookie | exchange.lower_case) & bit == 0;
        let attempt = if is_first { CookieAttempt::First } else { CookieAttempt::Further };
        QueryForm {
            carrier,
            with_edns,
            with_cookie: with_edns
                // On an encrypted connection, a cookie would only help the server to track clients.
                && !carrier.is_encrypted()
                && server.takes_cookies(attempt, order.now_ms)
                && match terms.cookies {
                    Cookies::Off => false,
                    Cookies::OverUdp | Cookies::OverUdpIfKnown => !carrier.is_stream(),
                    Cookies::Always => true,
                },
            exact_case: !carrier.is_stream()
                && terms.case_randomisation
                && exchange.lower_case & bit == 0
                && server.keeps_case(order.now_ms),
            // After the wait, a late reply is still accepted.
            wait_ms: if is_timed_as_stream { wait_ms } else { wait_ms.min(longest_ms) },
        }
    }

    /// Randomises the letter case of a query's name. Returns the number of letters.
    fn vary_case(&mut self, at: u32) -> u32 {
        let PendingQuery { question, is_mixed, .. } = &mut self.pending[at];
        let qname_len = question.len().saturating_sub(4);
        let qname = &mut question[..qname_len];
        let case = query::randomise_case(qname, &mut self.rng);
        *is_mixed = case.is_mixed;
        case.letters
    }

    /// Draws the socket of the query at `at`. It is a socket of the pool if ID, slot and letter
    /// case have at least [`MIN_BITS`] unpredictable bits; otherwise the query gets its own socket.
    /// A connection that begins with a PROXY header carries only one query.
    fn draw_socket(
        &mut self,
        order: &QueryOrder,
        form: &QueryForm,
        (terms, letters): (&Terms<'_>, u32),
        at: u32,
    ) -> DrawnSocket {
        let single = SINGLE_PORT_BITS + ID_BITS + letters;
        let has_preface = terms.preface != Preface::None;
        let (slot, bits) = match (terms.sockets, form.carrier) {
            (_, carrier) if has_preface && carrier.is_stream() => {
                (SocketSlot::SingleStream(at), u32::MAX)
            }
            (Sockets::Shared, Carrier::Tcp)
            | (_, Carrier::Tls | Carrier::Https | Carrier::Quic | Carrier::H3) => {
                let is_single = self.servers[order.server].streams.wants_single(order.now_ms);
                let slot =
                    if is_single { SocketSlot::SingleStream(at) } else { SocketSlot::Stream };
                (slot, u32::MAX)
            }
            (Sockets::Single, Carrier::Tcp) => (SocketSlot::SingleStream(at), u32::MAX),
            (Sockets::Single, Carrier::Udp) => (SocketSlot::Single(at), single),
            (Sockets::Shared, Carrier::Udp) => {
                let pinned = self.servers[order.server].pinned.as_mut();
                let drawn = pinned.and_then(|pinned| {
                    let bits = ID_BITS + pinned.pool.bits() + letters;
                    let enough = bits >= MIN_BITS;
                    Some((enough.then(|| pinned.pool.draw(&mut self.rng))??, bits))
                });
                if let Some((drawn, bits)) = drawn {
                    let slot = SocketSlot::Pooled(drawn.slot);
                    return DrawnSocket { slot, renew: drawn.renew, bits };
                }
                (SocketSlot::Single(at), single)
            }
        };
        DrawnSocket { slot, renew: false, bits }
    }

    /// Draws an ID. Uses an ID that is in use on the socket only if several draws yield no other
    /// ID.
    fn draw_id(&mut self, socket: SocketId) -> u16 {
        let mut id = self.rng.next_u32() as u16;
        for _ in 1..ID_DRAWS {
            if self.pending.find(socket, id).is_none() {
                break;
            }
            id = self.rng.next_u32() as u16;
        }
        id
    }

    /// Appends the message of the query at `at` to the octets of the actions.
    fn write<W>(&self, form: &QueryForm, at: u32, terms: &Terms<'_>, actions: &mut Actions<W>) {
        let query = &self.pending[at];
        let cookie =
            if form.with_cookie { self.servers[query.server()].cookie.octets() } else { &[] };
        let Terms { udp_size, dnssec_ok, ecs, .. } = *terms;
        let privacy = match form.carrier {
            Carrier::Udp | Carrier::Tcp => Privacy::None,
            Carrier::Tls | Carrier::Https => Privacy::PaddedWithKeepalive,
            Carrier::Quic | Carrier::H3 => Privacy::Padded,
        };
        let opt = OptOf { udp_size, dnssec_ok, cookie, ecs, privacy };
        let opt = form.with_edns.then_some(&opt);
        query::write(&mut actions.octets, query.id, terms.flags, &query.question, opt);
    }
}

/// Appends the PROXY protocol header that comes before a message.
#[cold]
fn write_preface(octets: &mut Vec<u8>, client: Option<IpAddr>, carrier: Carrier) {
    let by = if carrier.is_stream() { ProxiedBy::Stream } else { ProxiedBy::Datagram };
    proxy::write(octets, client, by);
}

fn stream_timeout(rtt: &Rtt) -> u32 {
    (rtt.timeout_ms() * 4).clamp(TCP_TIMEOUT_MS.0, TCP_TIMEOUT_MS.1)
}

fn timeout(rtt: &Rtt, round: u32, (min, max): (u32, u32)) -> u32 {
    let measured = rtt.timeout_ms();
    let doubled = measured.clamp(min, max) << round.min(6);
    let longest = if rtt.is_lossy() { measured.max(LOSSY_TIMEOUT_MS) } else { max };
    doubled.min(longest).clamp(min, max)
}
