//! The look-up of a forwarding rule, the table of pending queries, and the cost of a miss without
//! its packets.

use std::hint::black_box;
use std::net::SocketAddr;
use std::sync::Arc;

use avocet_cache::{FailureCache, RrsetCache, TtlBounds};
use avocet_resolver::{
    Action, Actions, Ask, Context, EcsPolicy, Endpoint, Introduction, Plan, Resolver, Settings,
    Strategy, Transport, ZoneRule,
};
use avocet_wire::hash::{self, HashKey};
use avocet_wire::{FoldedName, Question};

use crate::cell::Cell;
use crate::material;
use crate::rows::{self, OURS};

/// Bounds of stored TTLs.
pub(crate) const TTL: TtlBounds =
    TtlBounds { min: 0, max: 86_400, negative_min: 0, negative_max: 3600 };
/// The wall clock, which forwarding does not use.
const WALL_SECS: u64 = 1_790_000_000;
/// Forwarding rules besides the root's.
const ZONES: usize = 64;
/// Pool slots of an upstream.
const POOL: usize = 4096;
/// Octets of the OPT record of our queries, with a client cookie.
const OPT_LEN: usize = 23;

/// The cells of Avocet.
pub(crate) fn cells() -> Vec<Cell> {
    vec![zone_key(), zone_lookup(), in_flight(), miss()]
}

fn rule(zone: &[u8], last: u8) -> ZoneRule {
    let addr = SocketAddr::from(([192, 0, 2, last], 53));
    ZoneRule {
        zone: zone.into(),
        exception: false,
        upstreams: vec![Endpoint { addr, transport: Transport::Udp }],
        reserves: Vec::new(),
        strategy: Strategy::Fastest,
        case_randomisation: true,
        ecs: EcsPolicy::Strip,
        introduction: Introduction::None,
        timeout_ms: (50, 2000),
    }
}

/// A plan with the root and some zones. Of these only `example.com` is above the queried names.
fn plan(zones: usize) -> Arc<Plan> {
    let settings = Settings {
        minimal: true,
        stale_client_ms: 1800,
        in_flight: 4096,
        waiters: 65_536,
        ttl: TTL,
    };
    let mut rules = vec![rule(b"\0", 1)];
    rules.extend((0..zones).map(|number| match number {
        0 => rule(b"\x07example\x03com\x00", 2),
        _ => rule(&material::owner(&material::numbered_question(number)), 3),
    }));
    Plan::new(rules, settings).expect("a plan").into()
}

/// Folds a name into the key of the zone table.
fn zone_key() -> Cell {
    let mut folded = [0; 255];
    Cell::new(rows::ZONE_KEY, OURS, move || {
        let name = black_box(material::WWW);
        hash::fold_into(name, &mut folded[..name.len()]);
        black_box(&folded);
    })
}

/// Finds the longest zone above a name.
fn zone_lookup() -> Cell {
    let plan = plan(ZONES);
    let name = FoldedName::from_folded_unchecked(material::WWW);
    Cell::new(rows::ZONE_LOOKUP, OURS, move || plan.has_own_rule(black_box(name)))
}

/// A resolver with its arguments.
struct Resolution {
    resolver: Resolver<u64>,
    rrsets: RrsetCache,
    failures: FailureCache,
    actions: Actions<u64>,
    hash_key: HashKey,
    now_ms: u64,
}

impl Resolution {
    fn new() -> Self {
        Self {
            resolver: Resolver::new(plan(0), [7; 32], POOL),
            rrsets: RrsetCache::new(16 << 20, 0, TTL, [1; 16]).expect("a cache"),
            failures: FailureCache::new(1 << 20, [2; 16]).expect("a cache"),
            actions: Actions::default(),
            hash_key: HashKey::new([9; 32]),
            now_ms: 1_000_000,
        }
    }

    fn submit(&mut self, question: &[u8], waiter: Option<u64>) {
        self.submit_hashed((question, self.hash_key.hash(question, 0)), waiter);
    }

    fn submit_hashed(&mut self, (question, hash): (&[u8], u64), waiter: Option<u64>) {
        let Self { resolver, rrsets, failures, actions, now_ms, .. } = self;
        let ask = Ask {
            question: Question::from_folded_unchecked(question),
            hash,
            dnssec_ok: false,
            checking_disabled: false,
            ecs: &[],
            client: None,
            introduced: None,
            servers: &[],
            stale_available: false,
        };
        black_box(resolver.submit(
            &ask,
            waiter,
            &mut Context { now_ms: *now_ms, wall_secs: WALL_SECS, rrsets, failures, actions },
        ));
    }

    /// Answers every query among the actions.
    fn reply(&mut self, queries: &Actions<u64>, reply: &mut Vec<u8>) {
        let Self { resolver, rrsets, failures, actions, now_ms, .. } = self;
        for action in &queries.list {
            let Action::Send { socket, octets, .. } = action else { continue };
            write_reply(&queries.octets[octets.clone()], reply);
            resolver.received(
                *socket,
                reply,
                &mut Context { now_ms: *now_ms, wall_secs: WALL_SECS, rrsets, failures, actions },
            );
        }
    }

    /// Advances the clock by a millisecond.
    fn tick(&mut self) {
        let Self { resolver, rrsets, failures, actions, now_ms, .. } = self;
        *now_ms += 1;
        resolver.tick(&mut Context {
            now_ms: *now_ms,
            wall_secs: WALL_SECS,
            rrsets,
            failures,
            actions,
        });
    }
}

/// Writes the response to a query: one address, and OPT.
fn write_reply(query: &[u8], out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(&query[..query.len() - OPT_LEN]);
    out.extend_from_slice(b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x01\x2c\x00\x04\xc0\x00\x02\x50");
    out.extend_from_slice(&[0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 0]);
    out[2] |= 0x80;
    out[7] = 1;
}

/// Joins an equal question in flight. The hash of the question is part of the request key, which is
/// a row of its own.
fn in_flight() -> Cell {
    let mut resolution = Resolution::new();
    for number in 0..1000 {
        resolution.submit(&material::numbered_question(number), Some(number as u64));
    }
    resolution.actions.clear();
    let question = material::numbered_question(500);
    let hash = resolution.hash_key.hash(&question, 0);
    Cell::new(rows::IN_FLIGHT, OURS, move || {
        resolution.submit_hashed((black_box(&question), hash), None);
        assert!(resolution.actions.list.is_empty(), "it joins");
    })
}

/// Turns a question into a query, matches, reads and caches its response, and makes the client's
/// answer.
fn miss() -> Cell {
    let mut resolution = Resolution::new();
    let (mut queries, mut reply, mut number) = (Actions::default(), Vec::new(), 0);
    Cell::new(rows::MISS, OURS, move || {
        number += 1;
        resolution.submit(&material::numbered_question(number), Some(number as u64));
        std::mem::swap(&mut resolution.actions, &mut queries);
        resolution.tick();
        resolution.reply(&queries, &mut reply);
        assert_eq!(resolution.actions.waiters.len(), 1, "it is answered");
        resolution.actions.clear();
        queries.clear();
    })
}
