//! Zones signed by this crate, examined by its own review and by `ldns-verify-zone`
//! and `dnssec-verify`, which are skipped if they are missing.

mod fixture;

use std::fs;
use std::process::Command;

use avocet_dnssec::signing::SigningAlgorithm::{EcdsaP256Sha256, Ed25519};
use avocet_dnssec::zonemd::DigestHash;
use avocet_zone::sign::{SignedDenial, review};

use fixture::{HAND_MADE, Keys, NOW, load, now, sign, signing, text, times};

const DENIALS: [SignedDenial; 3] =
    [SignedDenial::Nsec, SignedDenial::Nsec3, SignedDenial::Nsec3OptOut];

/// Runs a verifier with a file. Returns whether it exists.
fn verify(program: &str, arguments: &[&str], text: &str) -> bool {
    let file = std::env::temp_dir().join(format!("avocet-{program}-{}", std::process::id()));
    fs::write(&file, text).unwrap();
    let ran = Command::new(program).args(arguments).arg(&file).output();
    fs::remove_file(&file).unwrap();
    let Ok(ran) = ran else {
        assert!(std::env::var_os("CI").is_none(), "{program} is missing");
        return false;
    };
    let said = [ran.stdout, ran.stderr].concat();
    assert!(ran.status.success(), "{program}: {}\n{text}", String::from_utf8_lossy(&said));
    true
}

#[test]
fn signed_zones_pass_the_review_and_the_verifiers_of_others() {
    // Below the apex, ZONEMD is a type like any other.
    let below = format!("digest ZONEMD 1 1 1 {}", "ab".repeat(48));
    let source = load(&format!("{HAND_MADE}\n{below}\n"));
    for denial in DENIALS {
        for keys in [Keys::csk(EcdsaP256Sha256), Keys::split(Ed25519), Keys::split(EcdsaP256Sha256)]
        {
            let now_secs = now();
            let mut how = signing(&keys, denial, None);
            how.times = times(now_secs);
            let signed = how.sign(&source).unwrap();
            assert_eq!(signed.kept, 0);
            review(&signed.zone, &keys.signers, &how.times).unwrap();
            let text = text(&signed.zone);
            assert!(text.contains("digest.example. ") && text.contains(&"AB".repeat(48)), "{text}");
            verify("ldns-verify-zone", &["-ZZ"], &text);
            // With one key for everything, its flags say nothing.
            let flags = if keys.signers.published.len() == 1 { "-qzo" } else { "-qo" };
            verify("dnssec-verify", &[flags, "example"], &text);
            // What was signed is read as it was written.
            assert_eq!(load(&text).records(), signed.zone.records());
        }
    }
}

#[test]
fn a_signed_zone_that_is_signed_again_is_the_same() {
    let keys = Keys::split(EcdsaP256Sha256);
    let source = load(HAND_MADE);
    for denial in DENIALS {
        let first = sign(&source, &keys, denial, None);
        assert!(first.is_changed && first.zone.serial() == 1);
        let again = sign(&source, &keys, denial, Some(&first.zone));
        assert!(!again.is_changed);
        assert_eq!((again.made, again.kept, again.zone.serial()), (0, first.made, 1));
        // Its own records for DNSSEC are no part of the source.
        let of_signed = sign(&load(&text(&first.zone)), &keys, denial, Some(&first.zone));
        assert!(!of_signed.is_changed, "{}\n{}", text(&first.zone), text(&of_signed.zone));
    }
}

#[test]
fn another_hash_or_a_wrong_digest_is_a_change() {
    let keys = Keys::split(EcdsaP256Sha256);
    let source = load(HAND_MADE);
    for denial in DENIALS {
        let first = sign(&source, &keys, denial, None).zone;
        for digest in [None, Some(DigestHash::Sha512)] {
            let mut how = signing(&keys, denial, Some(&first));
            how.digest = digest;
            let other = how.sign(&source).unwrap();
            assert_eq!((other.zone.serial(), other.is_changed), (2, true));
            review(&other.zone, &keys.signers, &how.times).unwrap();
            let octets = other.zone.zonemd().map(|data| data.len() - 6);
            assert_eq!(octets, digest.map(DigestHash::octets));
        }
        // The copy of the last version on disk may be damaged.
        let good = text(&first);
        let line = good.lines().find(|line| line.contains(" ZONEMD ")).unwrap();
        let at = line.len() - 1;
        let other = if line.ends_with('0') { "1" } else { "0" };
        let damaged = load(&good.replace(line, &format!("{}{other}", &line[..at])));
        let fault = review(&damaged, &keys.signers, &times(NOW)).unwrap_err().to_string();
        assert!(fault.contains("ZONEMD"), "{fault}");
        let next = sign(&source, &keys, denial, Some(&damaged)).zone;
        assert_eq!(next.serial(), 2);
        review(&next, &keys.signers, &times(NOW)).unwrap();
    }
}

#[test]
fn only_what_has_changed_is_signed_and_the_serial_rises() {
    let keys = Keys::csk(Ed25519);
    let first = sign(&load(HAND_MADE), &keys, SignedDenial::Nsec, None);
    let with = |serial: u32, more: &str| {
        load(&format!("{}{more}", HAND_MADE.replace("host 1 ", &format!("host {serial} "))))
    };
    // The same serial with other records: this server counts.
    let more = sign(&with(1, "extra A 192.0.2.77\n"), &keys, SignedDenial::Nsec, Some(&first.zone));
    assert_eq!((more.zone.serial(), more.is_changed), (2, true));
    // A, its NSEC, the NSEC of the name before, and the SOA record.
    assert!(more.made <= 5, "{}", more.made);
    review(&more.zone, &keys.signers, &times(NOW)).unwrap();
    // A newer serial of the source is taken, an older one is not.
    let newer = sign(&with(9, ""), &keys, SignedDenial::Nsec, Some(&more.zone));
    assert_eq!((newer.zone.serial(), newer.is_changed), (9, true));
    let older = sign(&with(3, "x A 192.0.2.1\n"), &keys, SignedDenial::Nsec, Some(&newer.zone));
    assert_eq!(older.zone.serial(), 10);
    // A version that is gone still counts.
    let mut how = signing(&keys, SignedDenial::Nsec, None);
    how.last_serial = Some(50);
    assert_eq!(how.sign(&with(3, "")).unwrap().zone.serial(), 51);
}

#[test]
fn signatures_are_replaced_before_they_end_but_not_all_at_once() {
    let keys = Keys::csk(EcdsaP256Sha256);
    let mut zone = HAND_MADE.to_owned();
    for number in 0..200 {
        zone += &format!("h{number} A 10.0.0.{number}\n");
    }
    let source = load(&zone);
    let mut last = sign(&source, &keys, SignedDenial::Nsec, None);
    let (mut partly, mut now_secs) = (0, NOW);
    for _ in 0..100 {
        let due = last.expires_at_secs - u64::from(times(NOW).refresh_secs);
        assert!(due > now_secs);
        now_secs = due;
        let mut how = signing(&keys, SignedDenial::Nsec, Some(&last.zone));
        how.times = times(now_secs);
        let next = how.sign(&source).unwrap();
        assert!(next.made > 0 && next.is_changed);
        assert_eq!(next.zone.serial(), last.zone.serial() + 1);
        review(&next.zone, &keys.signers, &how.times).unwrap();
        partly += u32::from(next.kept > 0);
        last = next;
    }
    assert!(partly > 80, "{partly}");
}

#[test]
fn after_the_clock_went_back_no_signature_is_from_the_future() {
    let keys = Keys::csk(Ed25519);
    let source = load(HAND_MADE);
    let first = sign(&source, &keys, SignedDenial::Nsec3, None);
    for clock in [NOW - 90 * 86_400, NOW + 90 * 86_400] {
        let mut how = signing(&keys, SignedDenial::Nsec3, Some(&first.zone));
        how.times = times(clock);
        let next = how.sign(&source).unwrap();
        assert_eq!(next.kept, 0);
        review(&next.zone, &keys.signers, &how.times).unwrap();
    }
}

#[test]
fn the_review_finds_what_validators_would() {
    let keys = Keys::split(EcdsaP256Sha256);
    let signed = sign(&load(HAND_MADE), &keys, SignedDenial::Nsec, None).zone;
    let good = text(&signed);
    let check = |changed: String, expected: &str| {
        assert!(changed != good, "{expected}");
        let fault = review(&load(&changed), &keys.signers, &times(NOW)).unwrap_err().to_string();
        assert!(fault.contains(expected), "{fault}");
    };
    let without = |part: &str| {
        let lines = good.lines().filter(|line| !line.contains(part));
        lines.map(|line| format!("{line}\n")).collect::<String>()
    };
    check(good.replace("192.0.2.2\n", "192.0.2.99\n"), "the A records of mail.example");
    check(without("mail.example. 60 IN NSEC"), "");
    check(without("multi.example. 300 IN RRSIG AAAA"), "AAAA records of multi.example. have 0 sig");
    check(without("IN RRSIG DNSKEY"), "DNSKEY");
    check(good.replace("NSEC mail.example. ", "NSEC multi.example. "), "");
    check(format!("{good}new.example. 300 IN A 192.0.2.1\n"), "new.example");
    let other = Keys::split(EcdsaP256Sha256);
    let fault = review(&signed, &other.signers, &times(NOW)).unwrap_err().to_string();
    assert!(fault.contains("DNSKEY"), "{fault}");
    // A zone that is good now and not when it is signed the next time.
    let late = times(NOW + 8 * 86_400);
    assert!(review(&signed, &keys.signers, &late).is_err());
}

#[test]
fn in_a_change_of_algorithm_a_key_signs_beside_the_published_ones() {
    let (old, new) = (Keys::csk(EcdsaP256Sha256), Keys::csk(Ed25519));
    for denial in DENIALS {
        let mut keys = Keys::csk(EcdsaP256Sha256);
        keys.signers = old.signers.clone();
        keys.signers.zone.extend(new.signers.zone.clone());
        let source = load(HAND_MADE);
        let signed = sign(&source, &keys, denial, None).zone;
        review(&signed, &keys.signers, &times(NOW)).unwrap();
        // The signatures of a key that is not expected.
        let fault = review(&signed, &old.signers, &times(NOW)).unwrap_err().to_string();
        assert!(fault.contains("DnskeyMissing"), "{fault}");
        // Signatures of the new key only.
        keys.signers.zone.clone_from(&new.signers.zone);
        let signed = sign(&source, &keys, denial, None).zone;
        let fault = review(&signed, &keys.signers, &times(NOW)).unwrap_err().to_string();
        assert!(fault.contains("SignatureMissing"), "{fault}");
    }
}
