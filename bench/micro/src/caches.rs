//! Cache look-ups, among 1,000 names in turn.

use std::hint::black_box;

use avocet_cache::{
    PacketCache, PacketKey, PacketMeta, Provenance, Rank, ReadAt, ReceivedRrset, RrsetCache,
    RrsetKey, Security,
};
use avocet_wire::hash::HashKey;

use crate::cell::Cell;
use crate::material;
use crate::resolution::TTL;
use crate::rows::{self, OURS};

const NAMES: usize = 1000;
const BYTES: usize = 16 << 20;
const ADDRESS: [u8; 4] = [192, 0, 2, 1];

/// The cells of Avocet.
pub(crate) fn cells() -> Vec<Cell> {
    vec![packet_lookup(), rrset_lookup()]
}

fn packet_lookup() -> Cell {
    let cache = PacketCache::new(BYTES, 0).expect("a cache");
    let hash_key = HashKey::new([9; 32]);
    let questions: Vec<_> = (0..NAMES)
        .map(|number| {
            let question = material::numbered_question(number);
            let key = PacketKey { profile: 0, flags: 0, question: material::folded(&question) };
            let mut response = vec![0; 12];
            response.extend_from_slice(&question);
            let ttl_at = response.len() as u16 + 6;
            response.extend_from_slice(&[0xc0, 12, 0, 1, 0, 1, 0, 0, 1, 44, 0, 4]);
            response.extend_from_slice(&ADDRESS);
            let meta =
                PacketMeta { stored_at: 0, valid_for: 300, epoch: 1, flags: 0, ede: None, note: 0 };
            let hash = hash_key.hash(&question, 0);
            cache.insert(hash, &key, &response, &[ttl_at], &meta);
            (hash, question)
        })
        .collect();
    let (mut next, mut out) = (questions.leak().iter().cycle(), [0; 512]);
    Cell::new(rows::PACKET_LOOKUP, OURS, move || {
        let (hash, question) = next.next().expect("a cycle has no end");
        let key =
            PacketKey { profile: 0, flags: 0, question: material::folded(black_box(question)) };
        let found = cache.lookup(*hash, &key, 10, 1, &mut out);
        black_box(&out);
        found
    })
}

fn rrset_lookup() -> Cell {
    let cache = RrsetCache::new(BYTES, 0, TTL, [5; 16]).expect("a cache");
    let provenance = Provenance {
        security: Security::Unchecked,
        unsupported: None,
        rank: Rank::AuthoritativeAnswer,
        asked_with_do: false,
        asked_with_cd: false,
    };
    let questions: Vec<_> = (0..NAMES).map(material::numbered_question).collect();
    for question in &questions {
        let key = RrsetKey { owner: material::owner(question), rtype: 1, class: 1 };
        cache.insert(
            &key,
            &ReceivedRrset { provenance, ttl: 300, records: &[&ADDRESS], signatures: &[] },
            0,
        );
    }
    let (mut next, mut buf) = (questions.leak().iter().cycle(), [0; 512]);
    Cell::new(rows::RRSET_LOOKUP, OURS, move || {
        let question = next.next().expect("a cycle has no end");
        let key = RrsetKey { owner: material::owner(black_box(question)), rtype: 1, class: 1 };
        cache.lookup(&key, ReadAt { now: 1, stale_window: 0 }, &mut buf).is_some()
    })
}
