//! The cost of a query that no cache answers, without I/O: submit, query, reply, RRset cache,
//! answer.
//!
//! `cargo bench -p avocet-resolver` prints the median of the nanoseconds per query over rounds of
//! [`BATCH`] queries that are all in flight at once.

use std::hint::black_box;
use std::net::SocketAddr;
use std::time::Instant;

use avocet_cache::{FailureCache, RrsetCache, TtlBounds};
use avocet_resolver::{
    Action, Actions, Ask, Context, EcsPolicy, Endpoint, Introduction, Plan, Resolver, Settings,
    Strategy, Transport, ZoneRule,
};
use avocet_testkit::question;
use avocet_wire::Question;
use avocet_wire::hash::HashKey;

const BATCH: usize = 64;
const ROUNDS: usize = 4_000;
const TTL: TtlBounds = TtlBounds { min: 0, max: 86_400, negative_min: 0, negative_max: 3600 };

fn plan() -> Plan {
    let upstream = |last| Endpoint {
        addr: SocketAddr::from(([192, 0, 2, last], 53)),
        transport: Transport::Udp,
    };
    let rule = ZoneRule {
        zone: [0].into(),
        exception: false,
        upstreams: vec![upstream(1), upstream(2)],
        reserves: Vec::new(),
        strategy: Strategy::Fastest,
        case_randomisation: true,
        ecs: EcsPolicy::Strip,
        introduction: Introduction::None,
        timeout_ms: (50, 2000),
    };
    let settings = Settings {
        minimal: true,
        stale_client_ms: 1800,
        in_flight: 4096,
        waiters: 65_536,
        ttl: TTL,
    };
    Plan::new(vec![rule], settings).expect("a plan")
}

/// Writes the reply to a query: one address. In the query and in the reply, OPT follows the
/// question.
fn reply_to(query: &[u8], out: &mut Vec<u8>) {
    let opt_at = query.len() - 23;
    out.clear();
    out.extend_from_slice(&query[..opt_at]);
    out.extend_from_slice(b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x01\x2c\x00\x04\xc0\x00\x02\x50");
    out.extend_from_slice(&[0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 0]);
    out[2] |= 0x80;
    out[7] = 1;
}

fn main() {
    let rrsets = RrsetCache::new(64 << 20, 0, TTL, [1; 16]).expect("a cache");
    let failures = FailureCache::new(1 << 20, [2; 16]).expect("a cache");
    let mut resolver: Resolver<u64> = Resolver::new(plan().into(), [7; 32], 4096);
    let mut actions = Actions::default();
    let mut queries = Actions::default();
    let hash_key = HashKey::new([9; 32]);
    let mut reply = Vec::new();
    let mut took = Vec::with_capacity(ROUNDS);
    let mut answered = 0;
    for round in 0..ROUNDS {
        let mut now_ms = 1_000_000 + round as u64;
        let questions: Vec<_> =
            (0..BATCH).map(|at| question(&format!("host-{round}-{at}.example.com. A"))).collect();
        let begun = Instant::now();
        for (waiter, question) in (0..).zip(&questions) {
            let hash = hash_key.hash(question, 0);
            let ask = Ask {
                question: Question::from_folded_unchecked(question),
                hash,
                dnssec_ok: false,
                checking_disabled: false,
                ecs: &[],
                client: None,
                introduced: None,
                stale_available: false,
                servers: &[],
            };
            let mut cx = Context {
                now_ms,
                wall_secs: 0,
                rrsets: &rrsets,
                failures: &failures,
                actions: &mut actions,
            };
            black_box(resolver.submit(&ask, Some(waiter), &mut cx));
        }
        std::mem::swap(&mut actions, &mut queries);
        now_ms += 1;
        for action in &queries.list {
            let Action::Send { socket, octets, .. } = action else { continue };
            reply_to(&queries.octets[octets.clone()], &mut reply);
            let mut cx = Context {
                now_ms,
                wall_secs: 0,
                rrsets: &rrsets,
                failures: &failures,
                actions: &mut actions,
            };
            resolver.received(*socket, &reply, &mut cx);
        }
        let mut cx = Context {
            now_ms,
            wall_secs: 0,
            rrsets: &rrsets,
            failures: &failures,
            actions: &mut actions,
        };
        resolver.tick(&mut cx);
        answered += actions.waiters.len();
        actions.clear();
        queries.clear();
        took.push(begun.elapsed().as_nanos() as usize / BATCH);
    }
    assert_eq!(answered, ROUNDS * BATCH, "each miss is answered");
    took.sort_unstable();
    println!("ns a miss: median {}, of 100 the best {}", took[ROUNDS / 2], took[ROUNDS / 100]);
}
