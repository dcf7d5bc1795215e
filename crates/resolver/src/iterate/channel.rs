//! The channel between a walk (the recursive resolution of one question) and the resolver that
//! drives it.
//!
//! A walk is an `async` function without wakers: the resolver polls it when it can continue. A walk
//! sends a [`Request`] and is pending; the resolver sends a [`Response`] and polls again. [`Note`]s
//! need no response. The walk therefore needs no socket, no clock and no runtime. Only the driver
//! determines the order of events.

use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use avocet_cache::Provenance;
use avocet_wire::Rtype;

use super::cut::Cut;
use super::fetch::{Fetched, Inquiry, NotFetched};
use super::gaps::{Gap, Sought};
use super::part::Part;
use super::rrset::{CachedAnswer, Denial, Name, Rrset, Side, Stored};
use crate::exchange::endpoint::Endpoint;
use crate::report::Report;
use crate::trace::{Step, Trace, Why};
use crate::validation::Chain;

/// A request of a walk (the recursive resolution of one question) to the resolver.
#[derive(Debug)]
pub(crate) enum Request {
    /// Look up the cached data of a name and type.
    LookUp(Side, Name, Rtype),
    /// Look up what the cache has for a question: a name, its type, and the length of the
    /// configured zone that contains the name.
    Part(Name, Rtype, usize),
    /// Look up the nearest delegation at or above a name, down to names of this length.
    Delegation(Name, usize),
    /// Look up the addresses of a server.
    Addresses(Side, Name),
    /// Look up the cached keys of a zone, or the reason why it has none.
    Keys(Name),
    /// Look up the cached keys of the nearest zone at or above a name that has any, or the reason
    /// why it has none.
    NearestKeys(Name),
    /// Look up the cached NXDOMAIN that covers a name.
    LookUpNxdomain(Side, Name),
    /// Look up the NSEC or NSEC3 record that covers a name.
    Gap(Sought),
    /// Send a question to the servers of a zone.
    Fetch(Box<Inquiry>),
}

/// The answer to a [`Request`].
#[derive(Debug)]
pub(crate) enum Response {
    LookedUp(Option<(CachedAnswer, Provenance)>),
    Covering(Option<(usize, Denial, Provenance)>),
    Part(Option<Box<Part>>),
    Delegation(Option<Cut>),
    Addresses(Vec<IpAddr>),
    Keys(Option<Chain>),
    /// The length of the zone's name, and its keys.
    NearestKeys(Option<(usize, Chain)>),
    Gap(Option<Gap>),
    Fetched(Result<Arc<Fetched>, NotFetched>),
}

/// A message of a walk (the recursive resolution of one question) to the resolver that needs no
/// response.
#[derive(Debug)]
pub(crate) enum Note {
    Store(Rrset, Stored),
    StoreDenial {
        owner: Name,
        rtype: Rtype,
        denial: Denial,
        how: Stored,
    },
    /// A server does not serve a zone.
    Lame(Endpoint, Name),
    /// A server omitted the signatures of a signed zone.
    Unsigned(Endpoint, Name),
    /// The walk will soon send this question. Its response may arrive in the meantime.
    Ahead(Box<Inquiry>),
    /// The walk continues with the target of an alias.
    Alias,
    /// The walk has synthesized an answer from NSEC or NSEC3 records.
    Synthesised,
    /// The walk has used the copy of the root zone.
    LocalRoot,
    /// There is an error in a zone that has a reporting agent.
    Report(Box<Report>),
    /// The walk has validated these NSEC or NSEC3 RRsets of the zone with this apex. Its SOA RRset
    /// is included if there was one.
    Gaps(Name, Option<Rrset>, Vec<Rrset>),
    /// The question has reached limits of validation. Holds the number of times for each limit.
    Limits([u32; avocet_dnssec::Limit::ALL.len()]),
    /// The walk has found the keys of this zone, or the reason why it has no usable keys. The
    /// result is valid for this number of seconds.
    Keys(Name, Chain, u32),
}

/// The time at which the resolver continues a walk (the recursive resolution of one question).
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Moment {
    /// Seconds since 1970, for the validity of signatures.
    pub(crate) wall_secs: u64,
    /// The monotonic clock, in ms.
    pub(crate) now_ms: u64,
}

#[derive(Debug, Default)]
struct Channel {
    request: Option<Request>,
    response: Option<Response>,
    notes: Vec<Note>,
    moment: Moment,
    trace: Trace,
}

/// The walk's end of the channel. [`DriverEnd`] is the other end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Io(Arc<Mutex<Channel>>);

impl Io {
    fn with<R>(&self, act: impl FnOnce(&mut Channel) -> R) -> R {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) async fn look_up(
        &self,
        side: Side,
        owner: &Name,
        rtype: Rtype,
    ) -> Option<(CachedAnswer, Provenance)> {
        match self.call(Request::LookUp(side, owner.clone(), rtype)).await {
            Response::LookedUp(found) => found,
            _ => None,
        }
    }

    pub(crate) async fn covering_nxdomain(
        &self,
        side: Side,
        owner: &Name,
    ) -> Option<(usize, Denial, Provenance)> {
        match self.call(Request::LookUpNxdomain(side, owner.clone())).await {
            Response::Covering(found) => found,
            _ => None,
        }
    }

    /// Returns the part of an answer that the cache has for a question. Aliases and denials above
    /// the configured zone that contains the name, which has `boundary_len` octets, are ignored.
    pub(crate) async fn cached_part(
        &self,
        qname: &Name,
        qtype: Rtype,
        boundary_len: usize,
    ) -> Option<Part> {
        match self.call(Request::Part(qname.clone(), qtype, boundary_len)).await {
            Response::Part(part) => part.map(|part| *part),
            _ => None,
        }
    }

    /// Returns the nearest cached delegation at or above `start`, down to names of `least_len`
    /// octets. The addresses of its servers come from the parent, and the spare ones from the
    /// servers' own zones.
    pub(crate) async fn delegation(&self, start: Name, least_len: usize) -> Option<Cut> {
        match self.call(Request::Delegation(start, least_len)).await {
            Response::Delegation(cut) => cut,
            _ => None,
        }
    }

    /// Returns the cached addresses of a server.
    pub(crate) async fn addresses(&self, side: Side, server: &Name) -> Vec<IpAddr> {
        match self.call(Request::Addresses(side, server.clone())).await {
            Response::Addresses(addresses) => addresses,
            _ => Vec::new(),
        }
    }

    pub(crate) async fn gap(&self, sought: Sought) -> Option<Gap> {
        match self.call(Request::Gap(sought)).await {
            Response::Gap(gap) => gap,
            _ => None,
        }
    }

    pub(crate) async fn keys(&self, zone: &Name) -> Option<Chain> {
        match self.call(Request::Keys(zone.clone())).await {
            Response::Keys(chain) => chain,
            _ => None,
        }
    }

    /// Returns the cached keys of the nearest zone at or above a name that has any, or the reason
    /// why it has none, with the length of the zone's name.
    pub(crate) async fn nearest_keys(&self, name: &Name) -> Option<(usize, Chain)> {
        match self.call(Request::NearestKeys(name.clone())).await {
            Response::NearestKeys(found) => found,
            _ => None,
        }
    }

    pub(crate) async fn fetch(&self, inquiry: Inquiry) -> Result<Arc<Fetched>, NotFetched> {
        match self.call(Request::Fetch(Box::new(inquiry))).await {
            Response::Fetched(result) => result,
            _ => Err(NotFetched::NoServers),
        }
    }

    pub(crate) fn note(&self, note: Note) {
        self.with(|channel| channel.notes.push(note));
    }

    /// Records a step of the walk in the trace.
    pub(crate) fn record(&self, step: Step) {
        self.with(|channel| channel.trace.record(step));
    }

    /// Marks the following steps in the trace as part of resolving this name, until [`Io::leave`].
    pub(crate) fn enter(&self, why: Why, name: &Name, rtype: Rtype) {
        self.with(|channel| channel.trace.enter(why, name, rtype));
    }

    pub(crate) fn leave(&self) {
        self.with(|channel| channel.trace.leave());
    }

    pub(crate) fn moment(&self) -> Moment {
        self.with(|channel| channel.moment)
    }

    fn call(&self, request: Request) -> Call<'_> {
        Call { io: self, request: Some(request) }
    }
}

/// A request that waits for its response.
struct Call<'a> {
    io: &'a Io,
    request: Option<Request>,
}

impl Future for Call<'_> {
    type Output = Response;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Response> {
        if let Some(request) = self.request.take() {
            self.io.with(|channel| channel.request = Some(request));
            return Poll::Pending;
        }
        self.io.with(|channel| channel.response.take()).map_or(Poll::Pending, Poll::Ready)
    }
}

/// The driver's end of the channel.
#[derive(Debug, Default)]
pub(crate) struct DriverEnd(Io);

impl DriverEnd {
    pub(crate) fn io(&self) -> Io {
        self.0.clone()
    }

    /// Sets the response and the time that the walk gets at the next poll.
    pub(crate) fn supply(&self, response: Option<Response>, moment: Moment) {
        self.0.with(|channel| {
            channel.response = response;
            channel.moment = moment;
            channel.trace.turn_to(moment.now_ms);
        });
    }

    /// Gives access to the trace, to extend or to replace it.
    pub(crate) fn with_trace<R>(&self, act: impl FnOnce(&mut Trace) -> R) -> R {
        self.0.with(|channel| act(&mut channel.trace))
    }

    pub(crate) fn take_request(&self) -> Option<Request> {
        self.0.with(|channel| channel.request.take())
    }

    pub(crate) fn take_notes(&self) -> Vec<Note> {
        self.0.with(|channel| std::mem::take(&mut channel.notes))
    }
}
