//! Tests of transaction signatures: test vectors, the cause of each error, and arbitrary octets.

use std::sync::Arc;

use avocet_wire::FoldedName;
use avocet_zone::{
    TsigAlgorithm, TsigError, TsigFault, TsigKey, TsigRecord, TsigSigner, UntrustedReply,
    append_error, verify_request,
};
use proptest::prelude::*;
use zeroize::Zeroizing;

const NOW: u64 = 1_700_000_000;

fn key(algorithm: &str, secret: &[u8]) -> Arc<TsigKey> {
    let name = FoldedName::new(b"\x08transfer\x03key\0").unwrap();
    let algorithm = TsigAlgorithm::from_name(algorithm).unwrap();
    Arc::new(TsigKey::new(name, algorithm, Zeroizing::new(secret.to_vec())))
}

fn usual() -> Arc<TsigKey> {
    key("hmac-sha256", b"0123456789abcdef")
}

/// Returns a message with this ID and a question.
fn message(id: u16) -> Vec<u8> {
    let [high, low] = id.to_be_bytes();
    let head = [high, low, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    [&head[..], b"\x07example\0\x00\x06\x00\x01"].concat()
}

fn signed(key: &Arc<TsigKey>) -> Vec<u8> {
    let mut octets = message(7);
    TsigSigner::of_request(key).sign(&mut octets, NOW);
    octets
}

fn verify(octets: &[u8], key: Option<&Arc<TsigKey>>, now: u64) -> Result<TsigSigner, TsigFault> {
    verify_request(octets, &TsigRecord::find(octets).unwrap().unwrap(), key, now)
}

#[track_caller]
fn refused(octets: &[u8], key: Option<&Arc<TsigKey>>, now: u64, expected: TsigFault) {
    assert_eq!(verify(octets, key, now).err(), Some(expected));
}

#[test]
fn each_algorithm_signs_and_verifies_and_the_bare_message_is_the_one_before() {
    for algorithm in TsigAlgorithm::all() {
        let key = key(algorithm.name(), b"secret secret secret");
        let mut octets = signed(&key);
        assert_eq!(TsigRecord::find(&octets).unwrap().unwrap().bare(&octets), message(7));
        // A forwarder may change the ID (RFC 8945 §4.2).
        octets[..2].copy_from_slice(&[9, 9]);
        assert!(verify(&octets, Some(&key), NOW).is_ok(), "{}", algorithm.name());
    }
}

#[test]
fn a_code_equals_the_one_by_definition() {
    let octets = signed(&usual());
    let record = TsigRecord::find(&octets).unwrap().unwrap();
    let variables = [
        &message(7)[..],
        b"\x08transfer\x03key\0\0\xff\0\0\0\0\x0bhmac-sha256\0",
        &NOW.to_be_bytes()[2..],
        &300_u16.to_be_bytes(),
        &[0, 0, 0, 0],
    ]
    .concat();
    // HMAC by its definition (RFC 2104), on another implementation of SHA-256.
    let pad = |with: u8| {
        let mut block = [with; 64];
        block.iter_mut().zip(b"0123456789abcdef").for_each(|(octet, key)| *octet ^= key);
        block
    };
    let inner = digest(&[&pad(0x36), &variables[..]].concat());
    assert_eq!(record.mac, digest(&[&pad(0x5c), &inner[..]].concat()));
}

fn digest(octets: &[u8]) -> Vec<u8> {
    aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, octets).as_ref().to_vec()
}

#[test]
fn the_errors_of_requests_have_the_order_of_the_standard() {
    let (own, other) = (usual(), key("hmac-sha256", b"another secret!!"));
    let octets = signed(&own);
    refused(&octets, None, NOW, TsigFault::NotAuth(TsigError::BadKey));
    let same_name = key("hmac-sha512", b"0123456789abcdef");
    refused(&octets, Some(&same_name), NOW, TsigFault::NotAuth(TsigError::BadKey));
    refused(&octets, Some(&other), NOW + 301, TsigFault::NotAuth(TsigError::BadSig));
    refused(&octets, Some(&own), NOW + 301, TsigFault::NotAuth(TsigError::BadTime));
    refused(&octets, Some(&own), NOW - 301, TsigFault::NotAuth(TsigError::BadTime));
    assert!(verify(&octets, Some(&own), NOW + 300).is_ok());
    assert!(verify(&octets, Some(&own), NOW - 300).is_ok());
}

/// Shortens the MAC of a signed message to this number of octets, or lengthens it with zeros.
fn with_mac_len(octets: &[u8], len: usize) -> Vec<u8> {
    let record = TsigRecord::find(octets).unwrap().unwrap();
    let mut mac = record.mac.to_vec();
    let at = octets.windows(mac.len()).position(|window| window == mac).unwrap();
    let change = len as isize - mac.len() as isize;
    let rdlen_at = at - 2 - 8 - 13 - 2;
    mac.resize(len, 0);
    let mut cut = [&octets[..at - 2], &(len as u16).to_be_bytes(), &mac[..]].concat();
    cut.extend_from_slice(&octets[at + record.mac.len()..]);
    let rdlen = u16::from_be_bytes([cut[rdlen_at], cut[rdlen_at + 1]]) as isize + change;
    cut[rdlen_at..rdlen_at + 2].copy_from_slice(&(rdlen as u16).to_be_bytes());
    cut
}

#[test]
fn a_shortened_code_is_refused_by_its_length() {
    let own = usual();
    let octets = signed(&own);
    assert!(verify(&with_mac_len(&octets, 32), Some(&own), NOW).is_ok());
    for (len, expected) in [
        (33, TsigFault::Malformed),
        (15, TsigFault::Malformed),
        (0, TsigFault::Malformed),
        (16, TsigFault::NotAuth(TsigError::BadTrunc)),
        (31, TsigFault::NotAuth(TsigError::BadTrunc)),
    ] {
        refused(&with_mac_len(&octets, len), Some(&own), NOW, expected);
    }
    let mut wrong = with_mac_len(&octets, 16);
    wrong[13] ^= 1;
    refused(&wrong, Some(&own), NOW, TsigFault::NotAuth(TsigError::BadSig));
}

/// Returns the messages of a reply. The messages that `is_signed` accepts are signed.
fn reply(key: &Arc<TsigKey>, messages: usize, is_signed: impl Fn(usize) -> bool) -> Replied {
    let mut query = message(7);
    let mut client = TsigSigner::of_request(key);
    client.sign(&mut query, NOW);
    let mut server = verify(&query, Some(key), NOW).unwrap();
    let mut sent = Vec::new();
    for number in 0..messages {
        let mut octets = message(number as u16);
        if is_signed(number) {
            server.sign(&mut octets, NOW);
        }
        sent.push(octets);
    }
    Replied { client, sent }
}

struct Replied {
    client: TsigSigner,
    sent: Vec<Vec<u8>>,
}

impl Replied {
    fn verify(&self) -> Result<bool, UntrustedReply> {
        let mut verifier = self.client.verifier();
        self.sent.iter().try_for_each(|octets| verifier.take(octets, NOW))?;
        Ok(verifier.is_complete())
    }
}

#[test]
fn the_messages_of_a_transfer_are_verified_in_their_order() {
    let own = usual();
    assert_eq!(reply(&own, 200, |_| true).verify(), Ok(true));
    assert_eq!(reply(&own, 3, |number| number == 0).verify(), Ok(false));
    assert_eq!(reply(&own, 1, |_| false).verify(), Err(UntrustedReply::Unsigned));
    assert_eq!(reply(&own, 101, |number| number == 0).verify(), Err(UntrustedReply::Unsigned));
    let mut swapped = reply(&own, 4, |_| true);
    swapped.sent.swap(1, 2);
    assert_eq!(swapped.verify(), Err(UntrustedReply::BadSig));
    let mut missing = reply(&own, 4, |_| true);
    missing.sent.remove(2);
    assert_eq!(missing.verify(), Err(UntrustedReply::BadSig));
    let mut changed = reply(&own, 4, |_| true);
    changed.sent[3][14] ^= 1;
    assert_eq!(changed.verify(), Err(UntrustedReply::BadSig));
}

#[test]
fn errors_of_the_server_reach_the_client() {
    let own = usual();
    for (error, expected) in [
        (TsigError::BadTime, UntrustedReply::Reported(TsigError::BadTime)),
        (TsigError::BadKey, UntrustedReply::Reported(TsigError::BadKey)),
        (TsigError::BadSig, UntrustedReply::Reported(TsigError::BadSig)),
        (TsigError::BadTrunc, UntrustedReply::Reported(TsigError::BadTrunc)),
    ] {
        let mut query = message(7);
        let mut client = TsigSigner::of_request(&own);
        client.sign(&mut query, NOW);
        let record = TsigRecord::find(&query).unwrap().unwrap();
        let mut octets = message(7);
        append_error(&mut octets, &record, (error, Some(&own)), NOW + 1000);
        let received = TsigRecord::find(&octets).unwrap().unwrap();
        let is_time = error == TsigError::BadTime;
        let is_signed = is_time || error == TsigError::BadTrunc;
        assert_eq!(
            (received.mac.is_empty(), received.other.len()),
            (!is_signed, 6 * usize::from(is_time))
        );
        if is_signed {
            let mut changed = octets.clone();
            changed[3] ^= 1;
            assert_eq!(client.verifier().take(&changed, NOW), Err(UntrustedReply::BadSig));
        }
        assert_eq!(client.verifier().take(&octets, NOW), Err(expected));
    }
}

#[test]
fn a_record_that_is_not_last_or_not_alone_is_malformed() {
    let own = usual();
    let octets = signed(&own);
    let trailing = [&octets[..], b"x"].concat();
    assert!(TsigRecord::find(&trailing).is_err());
    let mut twice = octets.clone();
    TsigSigner::of_request(&own).sign(&mut twice, NOW);
    assert!(TsigRecord::find(&twice).is_err());
    assert!(TsigRecord::find(&message(1)).unwrap().is_none());
}

proptest! {
    #[test]
    fn no_changed_octet_passes(at in 0_usize..200, to in 1_u8..) {
        let own = usual();
        let mut octets = signed(&own);
        let at = 2 + at % (octets.len() - 2);
        octets[at] ^= to;
        if let Ok(Some(record)) = TsigRecord::find(&octets) {
            let is_folded = record.bare(&octets) == message(7) && record.mac == {
                let whole = signed(&own);
                TsigRecord::find(&whole).unwrap().unwrap().mac.to_vec()
            };
            // The letter case of names is not signed.
            prop_assert!(is_folded || verify_request(&octets, &record, Some(&own), NOW).is_err());
        }
    }

    #[test]
    fn hostile_octets_never_panic(octets in prop::collection::vec(any::<u8>(), 0..300), cut in 0_usize..150) {
        let own = usual();
        let _ = TsigRecord::find(&octets);
        let whole = signed(&own);
        let mixed = [&whole[..cut.min(whole.len() - 1)], &octets[..]].concat();
        if let Ok(Some(record)) = TsigRecord::find(&mixed) {
            prop_assert!(verify_request(&mixed, &record, Some(&own), NOW).is_err());
            let _ = TsigSigner::of_request(&own).verifier().take(&mixed, NOW);
        }
    }
}
