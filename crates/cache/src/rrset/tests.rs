use super::*;

const OWNER: &[u8] = b"\x03www\x02ab\x00";
const KEY: RrsetKey = RrsetKey { owner: name(OWNER), rtype: 1, class: 1 };
const BOUNDS: TtlBounds = TtlBounds { min: 5, max: 86_400, negative_min: 0, negative_max: 3_600 };
const ANSWER: Provenance = Provenance {
    security: Security::Insecure,
    unsupported: None,
    rank: Rank::AuthoritativeAnswer,
    asked_with_do: true,
    asked_with_cd: false,
};
const SOA: &[u8] =
    b"\x00\x00\x00\x00\x00\x01\x00\x00\x00\x02\x00\x00\x00\x03\x00\x00\x00\x04\x00\x00\x02\x58";
const SOA_RECORD: NegativeRecord =
    NegativeRecord { owner: name(b"\x02ab\x00"), rtype: 6, rdata: SOA };

const fn name(wire: &[u8]) -> FoldedName<'_> {
    FoldedName::from_folded_unchecked(wire)
}

fn cache() -> RrsetCache {
    RrsetCache::new(128 << 10, 7_200, BOUNDS, [3; 16]).unwrap()
}

fn rrset<'a>(provenance: Provenance, ttl: u32, records: &'a [&'a [u8]]) -> ReceivedRrset<'a> {
    ReceivedRrset { provenance, ttl, records, signatures: &[] }
}

fn negative(kind: NegativeKind, soa_ttl: u32) -> Negative<'static> {
    Negative { kind, provenance: ANSWER, soa: SOA_RECORD, soa_ttl, proof: &[] }
}

fn at(now: u32) -> ReadAt {
    ReadAt { now, stale_window: 0 }
}

/// Returns the records at the key.
fn records(cache: &RrsetCache, key: &RrsetKey<'_>, now: u32) -> Option<Vec<Vec<u8>>> {
    let mut buf = vec![0; crate::MAX_PAYLOAD_BYTES];
    match cache.lookup(key, at(now), &mut buf)? {
        Cached::Rrset(view) => Some(view.records().map(<[u8]>::to_vec).collect()),
        Cached::Nodata(_) => None,
    }
}

fn freshness(cache: &RrsetCache, key: &RrsetKey<'_>, at: ReadAt) -> Option<Freshness> {
    match cache.lookup(key, at, &mut [0; 512])? {
        Cached::Rrset(view) => Some(view.freshness),
        Cached::Nodata(view) => Some(view.freshness),
    }
}

#[test]
fn a_set_comes_back_with_its_signatures_and_provenance() {
    let cache = cache();
    let provenance = Provenance { security: Security::Secure, asked_with_cd: true, ..ANSWER };
    let set = ReceivedRrset {
        provenance,
        ttl: 300,
        records: &[b"\xc0\x00\x02\x01", b"", b"\xc0\x00\x02\x03"],
        signatures: &[b"first", b"second"],
    };
    assert_eq!(cache.insert(&KEY, &set, 100), Inserted::Stored);
    let mut buf = [0; 256];
    let Some(Cached::Rrset(view)) = cache.lookup(&KEY, at(110), &mut buf) else { panic!("a set") };
    assert!(view.records().eq(set.records.iter().copied()));
    assert!(view.signatures().eq(set.signatures.iter().copied()));
    assert_eq!((view.provenance, view.original_ttl), (provenance, 300));
    assert_eq!(view.freshness, Freshness::Fresh { remaining_secs: 290 });
    for other in [
        RrsetKey { rtype: 28, ..KEY },
        RrsetKey { class: 3, ..KEY },
        RrsetKey { owner: name(b"\x02ab\x00"), ..KEY },
    ] {
        assert!(cache.lookup(&other, at(110), &mut buf).is_none());
    }
}

#[test]
fn all_securities_and_ranks_come_back() {
    let cache = cache();
    let securities = [
        Security::Unchecked,
        Security::Indeterminate,
        Security::Insecure,
        Security::Bogus,
        Security::Secure,
    ];
    let ranks = [
        Rank::Additional,
        Rank::NonAuthoritativeAnswer,
        Rank::AuthoritativeAuthority,
        Rank::AuthoritativeAnswer,
    ];
    for (security, rank) in securities.iter().flat_map(|s| ranks.iter().map(move |r| (*s, *r))) {
        let provenance = Provenance { security, rank, ..ANSWER };
        let key = RrsetKey { rtype: 100 + security as u16 * 8 + rank as u16, ..KEY };
        cache.insert(&key, &rrset(provenance, 60, &[b"x"]), 0);
        let mut buf = [0; 64];
        let Some(Cached::Rrset(view)) = cache.lookup(&key, at(0), &mut buf) else {
            panic!("a set")
        };
        assert_eq!(view.provenance, provenance);
    }
}

#[test]
fn lower_ranks_never_replace_higher_ones_that_live() {
    let cache = cache();
    let ranks = [
        Rank::Additional,
        Rank::NonAuthoritativeAnswer,
        Rank::AuthoritativeAuthority,
        Rank::AuthoritativeAnswer,
    ];
    for (type_offset, held) in ranks.into_iter().enumerate() {
        let key = RrsetKey { rtype: 1000 + type_offset as u16, ..KEY };
        for offered in ranks {
            cache.flush(FoldedName::new(b"\x00").unwrap());
            cache.insert(&key, &rrset(Provenance { rank: held, ..ANSWER }, 60, &[b"held"]), 0);
            let new = Provenance { rank: offered, ..ANSWER };
            let expected = if offered < held { Inserted::Kept } else { Inserted::Stored };
            assert_eq!(
                cache.insert(&key, &rrset(new, 60, &[b"new"]), 59),
                expected,
                "{held:?} {offered:?}"
            );
        }
        cache.flush(FoldedName::new(b"\x00").unwrap());
        cache.insert(&key, &rrset(Provenance { rank: held, ..ANSWER }, 60, &[b"held"]), 0);
        let late = Provenance { rank: Rank::Additional, ..ANSWER };
        assert_eq!(
            cache.insert(&key, &rrset(late, 60, &[b"new"]), 60),
            Inserted::Stored,
            "it had expired"
        );
    }
}

#[test]
fn what_is_not_validated_does_not_replace_what_is() {
    let cache = cache();
    let with = |security| Provenance { security, ..ANSWER };
    cache.insert(&KEY, &rrset(with(Security::Secure), 60, &[b"true"]), 0);
    for security in [Security::Bogus, Security::Unchecked, Security::Indeterminate] {
        assert_eq!(cache.insert(&KEY, &rrset(with(security), 60, &[b"false"]), 1), Inserted::Kept);
    }
    assert_eq!(records(&cache, &KEY, 1), Some(vec![b"true".to_vec()]));
    assert_eq!(
        cache.insert(&KEY, &rrset(with(Security::Insecure), 60, &[b"moved"]), 1),
        Inserted::Stored
    );
}

#[test]
fn ttls_are_clamped() {
    let cache = cache();
    for (ttl, expected) in [(1, 5), (5, 5), (300, 300), (1_000_000, 86_400), (0x8000_0000, 5)] {
        cache.insert(&KEY, &rrset(ANSWER, ttl, &[b"x"]), 0);
        let fresh = Freshness::Fresh { remaining_secs: expected };
        assert_eq!(freshness(&cache, &KEY, at(0)), Some(fresh), "{ttl}");
    }
}

/// RFC 4035 §5.3.3: signatures limit the lifetime of data.
#[test]
fn the_ttl_of_validated_data_is_never_raised() {
    let bounds = TtlBounds { negative_min: 10, ..BOUNDS };
    let cache = RrsetCache::new(128 << 10, 7_200, bounds, [3; 16]).unwrap();
    for (security, expected) in [(Security::Secure, (2, 2)), (Security::Insecure, (5, 10))] {
        let provenance = Provenance { security, ..ANSWER };
        cache.insert(&KEY, &rrset(provenance, 2, &[b"x"]), 0);
        let positive = freshness(&cache, &KEY, at(0));
        cache.flush(FoldedName::new(b"\x00").unwrap());
        cache.insert_negative(
            &KEY,
            &Negative { provenance, ..negative(NegativeKind::Nodata, 2) },
            0,
        );
        let fresh = |remaining_secs| Some(Freshness::Fresh { remaining_secs });
        assert_eq!(
            (positive, freshness(&cache, &KEY, at(0))),
            (fresh(expected.0), fresh(expected.1)),
            "{security:?}"
        );
        cache.flush(FoldedName::new(b"\x00").unwrap());
    }
}

#[test]
fn a_ttl_of_zero_is_not_kept() {
    let bounds = TtlBounds { min: 0, ..BOUNDS };
    let cache = RrsetCache::new(64 << 10, 7_200, bounds, [3; 16]).unwrap();
    assert_eq!(cache.insert(&KEY, &rrset(ANSWER, 0, &[b"x"]), 0), Inserted::Refused);
}

#[test]
fn stale_data_is_given_only_within_the_window_and_says_so() {
    let cache = cache();
    cache.insert(&KEY, &rrset(ANSWER, 60, &[b"x"]), 1000);
    let wanted = |now| ReadAt { now, stale_window: 100 };
    assert_eq!(freshness(&cache, &KEY, at(1060)), None);
    assert_eq!(freshness(&cache, &KEY, wanted(1059)), Some(Freshness::Fresh { remaining_secs: 1 }));
    assert_eq!(freshness(&cache, &KEY, wanted(1060)), Some(Freshness::Stale { since_secs: 0 }));
    assert_eq!(freshness(&cache, &KEY, wanted(1159)), Some(Freshness::Stale { since_secs: 99 }));
    assert_eq!(freshness(&cache, &KEY, wanted(1160)), None);
}

#[test]
fn a_negative_answer_lives_for_the_lesser_of_soa_ttl_and_minimum() {
    // The MINIMUM field of the SOA record is 600.
    for (soa_ttl, expected) in [(300, 300), (900, 600)] {
        let cache = cache();
        cache.insert_negative(&KEY, &negative(NegativeKind::Nodata, soa_ttl), 0);
        assert_eq!(
            freshness(&cache, &KEY, at(0)),
            Some(Freshness::Fresh { remaining_secs: expected })
        );
    }
    let bounds = TtlBounds { negative_min: 10, negative_max: 60, ..BOUNDS };
    for (soa_ttl, expected) in [(900, 60), (1, 10)] {
        let cache = RrsetCache::new(64 << 10, 0, bounds, [3; 16]).unwrap();
        cache.insert_negative(&KEY, &negative(NegativeKind::Nodata, soa_ttl), 0);
        assert_eq!(
            freshness(&cache, &KEY, at(0)),
            Some(Freshness::Fresh { remaining_secs: expected })
        );
    }
}

#[test]
fn a_negative_answer_comes_back_with_soa_and_proof() {
    let cache = cache();
    let nsec =
        NegativeRecord { owner: name(b"\x01a\x02ab\x00"), rtype: 47, rdata: b"next and bitmap" };
    let rrsig = NegativeRecord { rtype: 46, rdata: b"signature", ..nsec };
    let denial = Negative { proof: &[nsec, rrsig], ..negative(NegativeKind::Nodata, 300) };
    cache.insert_negative(&KEY, &denial, 0);
    let mut buf = [0; 512];
    let Some(Cached::Nodata(view)) = cache.lookup(&KEY, at(0), &mut buf) else {
        panic!("a NODATA")
    };
    assert_eq!((view.soa(), view.provenance), (Some(SOA_RECORD), ANSWER));
    assert!(view.proof().eq([nsec, rrsig]));
    assert!(cache.covering_nxdomain(KEY.owner, 1, at(0), &mut buf).is_none(), "the name exists");
}

#[test]
fn an_nxdomain_answers_for_all_names_below_it_and_no_other() {
    let cache = cache();
    cache.insert_negative(&KEY, &negative(NegativeKind::Nxdomain, 300), 0);
    let covered = |owner: &[u8], class, now| {
        cache
            .covering_nxdomain(name(owner), class, at(now), &mut [0; 512])
            .map(|(length, _)| length)
    };
    assert_eq!(covered(OWNER, 1, 0), Some(OWNER.len()));
    assert_eq!(covered(b"\x01x\x01y\x03www\x02ab\x00", 1, 299), Some(OWNER.len()));
    assert_eq!(covered(b"\x01x\x03www\x02ab\x00", 1, 300), None, "it has expired");
    assert_eq!(covered(b"\x04xwww\x02ab\x00", 1, 0), None, "a sibling");
    assert_eq!(covered(b"\x02ab\x00", 1, 0), None, "the parent");
    assert_eq!(covered(OWNER, 3, 0), None, "another class");
    assert!(freshness(&cache, &KEY, at(0)).is_none(), "no set lies there");
}

#[test]
fn the_nearest_nxdomain_answers() {
    let cache = cache();
    for owner in [&b"\x02ab\x00"[..], OWNER] {
        cache.insert_negative(
            &RrsetKey { owner: name(owner), ..KEY },
            &negative(NegativeKind::Nxdomain, 300),
            0,
        );
    }
    let mut buf = [0; 512];
    let (length, _) =
        cache.covering_nxdomain(name(b"\x01x\x03www\x02ab\x00"), 1, at(0), &mut buf).unwrap();
    assert_eq!(length, OWNER.len());
}

#[test]
fn a_nodata_and_a_set_replace_each_other() {
    let cache = cache();
    cache.insert(&KEY, &rrset(ANSWER, 60, &[b"x"]), 0);
    cache.insert_negative(&KEY, &negative(NegativeKind::Nodata, 300), 1);
    assert!(matches!(cache.lookup(&KEY, at(1), &mut [0; 512]), Some(Cached::Nodata(_))));
    cache.insert(&KEY, &rrset(ANSWER, 60, &[b"y"]), 2);
    assert_eq!(records(&cache, &KEY, 2), Some(vec![b"y".to_vec()]));
}

#[test]
fn malformed_records_are_refused() {
    let cache = cache();
    let too_long = vec![0; 65_536];
    assert_eq!(cache.insert(&KEY, &rrset(ANSWER, 60, &[&too_long]), 0), Inserted::Refused);
    let soa = NegativeRecord { rdata: b"abc", ..SOA_RECORD };
    let no_minimum = Negative { soa, ..negative(NegativeKind::Nodata, 60) };
    assert_eq!(cache.insert_negative(&KEY, &no_minimum, 0), Inserted::Refused);
}

#[test]
fn a_buffer_that_is_too_short_finds_nothing() {
    let cache = cache();
    cache.insert(&KEY, &rrset(ANSWER, 60, &[&[1; 100]]), 0);
    assert!(cache.lookup(&KEY, at(0), &mut [0; 100]).is_none());
    assert!(cache.lookup(&KEY, at(0), &mut [0; 128]).is_some());
}

#[test]
fn flushing_a_name_takes_sets_and_denials_below_it() {
    let cache = cache();
    let other = RrsetKey { owner: name(b"\x02cd\x00"), ..KEY };
    cache.insert(&KEY, &rrset(ANSWER, 60, &[b"x"]), 0);
    cache.insert(&other, &rrset(ANSWER, 60, &[b"x"]), 0);
    cache.insert_negative(&KEY, &negative(NegativeKind::Nxdomain, 300), 0);
    assert_eq!(cache.flush(name(b"\x02ab\x00")), 2);
    assert!(records(&cache, &other, 0).is_some());
}

#[test]
fn flushing_one_name_takes_what_denies_it_and_leaves_the_names_below() {
    let cache = cache();
    let below = RrsetKey { owner: name(b"\x01x\x03www\x02ab\x00"), ..KEY };
    let sibling = RrsetKey { owner: name(b"\x02yy\x02ab\x00"), ..KEY };
    for key in [&KEY, &below, &sibling] {
        cache.insert(key, &rrset(ANSWER, 60, &[b"x"]), 0);
    }
    cache.insert_negative(
        &RrsetKey { owner: name(b"\x02ab\x00"), ..KEY },
        &negative(NegativeKind::Nxdomain, 300),
        0,
    );
    assert_eq!(cache.flush_name(KEY.owner), 2);
    assert!(records(&cache, &KEY, 0).is_none());
    assert!(records(&cache, &below, 0).is_some() && records(&cache, &sibling, 0).is_some());
    assert!(cache.covering_nxdomain(KEY.owner, 1, at(0), &mut [0; 512]).is_none());
}

#[test]
fn visiting_shows_what_is_of_use_and_stops_at_an_error() {
    let cache = cache();
    let other = RrsetKey { owner: name(b"\x02cd\x00"), ..KEY };
    cache.insert(&KEY, &rrset(ANSWER, 60, &[b"x"]), 0);
    cache.insert(&other, &rrset(ANSWER, 600, &[b"y"]), 0);
    cache.insert_negative(&KEY, &negative(NegativeKind::Nxdomain, 300), 0);
    let mut seen = Vec::new();
    let shown = cache.try_visit(at(100), |key, held| -> Result<(), ()> {
        let kind = match held {
            Held::Rrset(view) => view.records().next().unwrap().to_vec(),
            Held::Negative(kind, view) => {
                format!("{kind:?} {}", view.soa().unwrap().rtype).into_bytes()
            }
        };
        seen.push((key.owner.to_vec(), kind));
        Ok(())
    });
    assert_eq!(shown, Ok(()));
    seen.sort();
    assert_eq!(
        seen,
        [(other.owner.to_vec(), b"y".to_vec()), (OWNER.to_vec(), b"Nxdomain 6".to_vec())]
    );
    assert_eq!(cache.try_visit(at(0), |_, _| Err(7)), Err(7));
}
