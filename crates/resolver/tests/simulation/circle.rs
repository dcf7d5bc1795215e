//! Two servers that forward to each other (S25 in tests/SECURITY.md: TsuKing and misconfiguration).

use std::net::IpAddr;

use avocet_cache::{FailureCache, RrsetCache};
use avocet_resolver::{Action, Actions, Ask, Context, Resolver, SocketId};
use avocet_testkit::{Faults, Network, Query, question};
use avocet_wire::Question;
use avocet_wire::hash::HashKey;

use crate::world::{START_MS, TTL, addr, plan, rule};

/// One of the two servers: 192.0.2.1 or 192.0.2.2.
struct Side {
    resolver: Resolver<Waiter>,
    rrsets: RrsetCache,
    failures: FailureCache,
}

/// The socket and the query of the other server; `None` for the client.
type Waiter = Option<(SocketId, Vec<u8>)>;

#[derive(Clone)]
struct Packet {
    to: usize,
    socket: SocketId,
    octets: Vec<u8>,
}

impl Side {
    fn new(other: u8) -> Self {
        Self {
            resolver: Resolver::new(plan(vec![rule(".", &[other])]), [other; 32], 4096),
            rrsets: RrsetCache::new(1 << 20, 0, TTL, [1; 16]).unwrap(),
            failures: FailureCache::new(1 << 18, [2; 16]).unwrap(),
        }
    }

    fn event(
        &mut self,
        now_ms: u64,
        event: impl FnOnce(&mut Resolver<Waiter>, &mut Context<'_, Waiter>),
    ) -> Actions<Waiter> {
        let mut actions = Actions::default();
        let mut cx = Context {
            now_ms,
            wall_secs: 0,
            rrsets: &self.rrsets,
            failures: &self.failures,
            actions: &mut actions,
        };
        event(&mut self.resolver, &mut cx);
        actions
    }

    /// Submits a question of the client, or of the other server in a query from this socket.
    fn ask(
        &mut self,
        now_ms: u64,
        question: &[u8],
        waiter: Waiter,
        client: Option<IpAddr>,
    ) -> Actions<Waiter> {
        let (qname, fixed) = question.split_at(question.len() - 4);
        let question = [&qname.to_ascii_lowercase()[..], fixed].concat();
        let hash = HashKey::new([3; 32]).hash(&question, 0);
        let ask = Ask {
            question: Question::new(&question).unwrap(),
            hash,
            dnssec_ok: false,
            checking_disabled: false,
            ecs: &[],
            client,
            introduced: None,
            stale_available: false,
            servers: &[],
        };
        self.event(now_ms, |resolver, cx| {
            resolver.submit(&ask, Some(waiter), cx);
        })
    }

    fn take(&mut self, now_ms: u64, packet: &Packet, from: IpAddr) -> Actions<Waiter> {
        let Packet { socket, octets, .. } = packet;
        if octets[2] & 0x80 == 0 {
            let question = Query::read(octets, false).question;
            return self.ask(now_ms, &question, Some((*socket, octets.clone())), Some(from));
        }
        self.event(now_ms, |resolver, cx| resolver.received(*socket, octets, cx))
    }
}

/// Sends the queries of these actions to the other server. Returns the number of queries, and how
/// often the client was answered.
fn carry_out(actions: &Actions<Waiter>, other: usize, net: &mut Network<Packet>) -> (usize, usize) {
    let (mut queries, mut answers) = (0, 0);
    for action in &actions.list {
        match action {
            Action::Send { socket, octets, .. } => {
                queries += 1;
                let octets = actions.octets[octets.clone()].to_vec();
                net.send(&Packet { to: other, socket: *socket, octets }, 0);
            }
            Action::Finish { waiters, .. } => {
                for waiter in &actions.waiters[waiters.clone()] {
                    let Some((socket, query)) = waiter else {
                        answers += 1;
                        continue;
                    };
                    let mut octets = query.clone();
                    (octets[2], octets[3]) = (0x81, 0x82);
                    net.send(&Packet { to: other, socket: *socket, octets }, 0);
                }
            }
            _ => {}
        }
    }
    (queries, answers)
}

/// Returns the number of queries that one question causes, and how often it is answered.
fn queries_in_a_circle(addresses: [IpAddr; 2]) -> (usize, usize) {
    let mut sides = [Side::new(2), Side::new(1)];
    let mut net = Network::new(1, START_MS, Faults::NONE);
    let begun = sides[0].ask(START_MS, &question("www.example. A"), None, None);
    let (mut queries, mut answers) = carry_out(&begun, 1, &mut net);
    while let Some(next) = sides
        .iter()
        .map(|side| side.resolver.next_deadline())
        .chain([net.next_ms()])
        .flatten()
        .min()
    {
        net.now_ms = net.now_ms.max(next);
        let packet = net.arrived();
        for (at, side) in sides.iter_mut().enumerate() {
            let actions = match &packet {
                Some(packet) if packet.to == at => side.take(net.now_ms, packet, addresses[1 - at]),
                _ => side.event(net.now_ms, Resolver::tick),
            };
            let (sent, answered) = carry_out(&actions, 1 - at, &mut net);
            (queries, answers) = (queries + sent, answers + answered);
        }
    }
    assert!(net.now_ms - START_MS <= 5_100);
    (queries, answers)
}

#[test]
fn a_question_that_goes_in_a_circle_costs_five_queries_at_most() {
    let (queries, answers) = queries_in_a_circle([addr(1).ip(), addr(2).ip()]);
    assert_eq!(answers, 1);
    assert!(queries <= 5, "{queries}");
}
