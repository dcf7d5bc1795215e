//! Queries of strangers: clients that the policy may identify by device or name, but that the
//! server has not looked up yet. These queries are held until the server has looked up their
//! clients.
//!
//! ```text
//! path -- HeldQuery --> hold_strangers --> HeldQueries, and the address to the thread `strangers`
//!                            \\-- no room --> unidentified
//! Letter::Identified, sweep --> resume_held --> the path again, or unidentified after a while
//! ```

use avocet_nameserver::close::Ended;
use avocet_nameserver::query::held::HeldQuery;
use avocet_nameserver::query::{self, Decision, Output, QueryContext, QueryStep, Stage};

use super::Resolution;
use crate::allowance::Allowance;
use crate::fault::contained;
use crate::state::strangers::Urgency;
use crate::values::{Deliver, LateStep, Time, WorkerTurn};

/// Maximum number of held queries of a worker over UDP, and maximum number over streams. The limits
/// are separate, so that a flood of datagrams with forged addresses does not affect connections,
/// whose clients cannot forge their addresses.
const MAX_HELD: usize = 1_024;
/// Maximum number of octets of the held queries of a worker over UDP, and maximum number over
/// streams.
const MAX_OCTETS: usize = 1 << 20;
/// Maximum number of milliseconds for which a query is held. A device on the local network answers
/// the kernel within some milliseconds, and clients repeat a query after one second or more.
const PATIENCE_MS: u64 = 1_500;

/// The held queries of a worker.
#[derive(Default)]
pub(super) struct HeldQueries {
    datagrams: Hall,
    streams: Hall,
    /// The time that held queries may take in this turn of the event loop. It ensures that the
    /// actions of the resolver do not wait for all held queries.
    allowance: Allowance,
    /// Whether the last turn of the event loop left held queries, because their time was used up.
    is_behind: bool,
}

/// Either the held queries over UDP, or the held queries over streams.
#[derive(Default)]
struct Hall {
    queries: Vec<HeldQuery>,
    octets: usize,
}

impl HeldQueries {
    /// Refills the time that held queries may take, at the start of a turn of the event loop.
    pub(super) fn renew(&mut self) {
        self.allowance.renew();
    }

    /// Returns the number of held queries.
    pub(super) fn len(&self) -> usize {
        self.datagrams.queries.len() + self.streams.queries.len()
    }

    /// Returns whether the last turn of the event loop left held queries, because their time was
    /// used up.
    pub(super) const fn is_behind(&self) -> bool {
        self.is_behind
    }

    /// Holds a query. Returns the query if there is no room for it.
    fn keep(&mut self, query: HeldQuery) -> Result<(), HeldQuery> {
        let hall =
            if query.transport.is_stream() { &mut self.streams } else { &mut self.datagrams };
        let octets = hall.octets + query.octets.len();
        if hall.queries.len() >= MAX_HELD || octets > MAX_OCTETS {
            return Err(query);
        }
        hall.octets = octets;
        hall.queries.push(query);
        Ok(())
    }

    /// Removes and returns the queries for which `is_over` returns `true`.
    fn take(&mut self, mut is_over: impl FnMut(&HeldQuery) -> bool) -> Vec<HeldQuery> {
        let mut taken = Vec::new();
        for hall in [&mut self.datagrams, &mut self.streams] {
            taken.extend(hall.queries.extract_if(.., |query| is_over(query)));
            hall.octets = hall.queries.iter().map(|query| query.octets.len()).sum();
        }
        taken
    }
}

impl Resolution {
    /// Takes the queries of clients that are not identified yet from the query path, and holds
    /// them. Requests that their clients are looked up.
    pub(crate) fn hold_strangers<D: Deliver>(&mut self, turn: &mut WorkerTurn<'_, D>) {
        for query in self.scratch.take_held() {
            let urgency =
                if query.transport.is_stream() { Urgency::Proven } else { Urgency::Claimed };
            let ip = query.ip;
            match self.held.keep(query) {
                Ok(()) => {
                    self.metrics().held.add(1);
                    self.shared.strangers.push(ip, urgency);
                }
                Err(query) => self.turn_off(&query, turn),
            }
        }
    }

    /// Answers the held queries whose clients are identified, or that were held for too long. Stops
    /// when the time for held queries is used up.
    pub(crate) fn resume_held<D: Deliver>(&mut self, turn: &mut WorkerTurn<'_, D>) {
        if self.held.len() == 0 {
            return;
        }
        let Self { held, shared, state, scratch, .. } = self;
        let Time { now, wall_secs } = turn.time;
        let cx = QueryContext { shared: &shared.name_server, state, now, wall_secs, scratch };
        let is_overdue =
            |query: &HeldQuery| now.millis() >= query.since.millis().saturating_add(PATIENCE_MS);
        let taken = held.take(|query| !cx.is_stranger(query.ip) || is_overdue(query));
        held.is_behind = false;
        self.held.allowance.begin(self.now_us());
        for query in taken {
            if !self.held.allowance.begin_share() {
                self.held.is_behind = true;
                // The room that the query had before is still free.
                let _ = self.held.keep(query);
                continue;
            }
            if self.query_context(turn.time).is_stranger(query.ip) {
                self.turn_off(&query, turn);
                continue;
            }
            self.answer_held(&query, turn, |cx, output| query::answer_held(cx, &query, output));
        }
        self.held.allowance.end(self.now_us());
        self.submit_misses(turn);
    }

    /// Ends a held query whose client cannot be identified now.
    fn turn_off<D: Deliver>(&mut self, query: &HeldQuery, turn: &mut WorkerTurn<'_, D>) {
        self.metrics().unidentified.add(1);
        self.answer_held(query, turn, |cx, output| query::unidentified(cx, query, output));
    }

    fn answer_held<D: Deliver>(
        &mut self,
        query: &HeldQuery,
        turn: &mut WorkerTurn<'_, D>,
        take: impl FnOnce(&QueryContext<'_>, Output<'_>) -> QueryStep,
    ) {
        let Self { index, shared, state, scratch, misses, message, .. } = self;
        let metrics = &shared.metrics[usize::from(*index)];
        let Time { now, wall_secs } = turn.time;
        let cx = QueryContext { shared: &shared.name_server, state, now, wall_secs, scratch };
        let output = Output { message: &mut *message, misses };
        let failed = || Decision::at(Stage::Failed, query.transport, state.revision);
        let step =
            contained(metrics, || take(&cx, output)).unwrap_or_else(|| QueryStep::Silent(failed()));
        let ended = Ended {
            ip: &query.ip,
            device: query.device,
            entrance: query.entrance,
            question: query.question(),
            octets: query.octets.len() as u16,
            since: query.since,
            rtt_ms: 0,
            trace: None,
        };
        turn.late.deliver(LateStep { ended, route: &query.route, step, message, cx: &cx });
        self.held.allowance.note(|| shared.name_server.clock.now().micros());
    }
}

#[cfg(test)]
mod tests {
    use avocet_nameserver::clock::Clock;
    use avocet_nameserver::query::asked::{Entrance, Transport};
    use avocet_nameserver::query::miss::{ReplyRoute, StreamRoute};
    use avocet_policy::client::DeviceId;

    use super::*;

    fn query(transport: Transport, octets: usize) -> HeldQuery {
        let route = StreamRoute { worker: 0, slot: 0, generation: 0, request: 0 };
        HeldQuery {
            octets: vec![0; octets].into(),
            ip: [192, 0, 2, 1].into(),
            device: DeviceId::NONE,
            transport,
            entrance: Entrance(0),
            route: ReplyRoute::Stream(route),
            since: Clock::start().now(),
        }
    }

    #[test]
    fn a_flood_of_datagrams_is_bounded_and_leaves_room_for_streams() {
        let mut held = HeldQueries::default();
        let room = (0..).take_while(|_| held.keep(query(Transport::Udp, 40)).is_ok()).count();
        assert_eq!(room, MAX_HELD);
        let large = || query(Transport::Tls, 60_000);
        let room = (0..).take_while(|_| held.keep(large()).is_ok()).count();
        assert_eq!(room, MAX_OCTETS / 60_000);
        assert_eq!(held.take(|query| query.transport == Transport::Tls).len(), room);
        assert!(held.keep(large()).is_ok(), "their octets are free again");
        assert!(held.keep(query(Transport::Udp, 40)).is_err());
        assert_eq!(held.len(), MAX_HELD + 1);
    }
}
