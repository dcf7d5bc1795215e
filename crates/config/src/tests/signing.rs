//! Tests of `[[signing-policy]]`, and of `sign` of `[[zone]]`.

use avocet_dnssec::signing::SigningAlgorithm;
use avocet_zone::sign::SignedDenial;
use avocet_zone::sign::timeline::KeyScheme;

use super::read_with;

fn zone(sign: &str) -> String {
    format!("[[zone]]\nname = \"z.example\"\nfile = \"z\"\nsign = {sign}\n")
}

#[track_caller]
fn check_fault(text: &str, expected: &str) {
    let message = read_with(text, &[]).map(drop).unwrap_err().to_string();
    assert!(message.contains(expected), "{message}");
}

#[test]
fn a_zone_is_signed_by_the_usual_policy_or_by_a_named_one() {
    let signing = |text: &str| read_with(text, &[]).unwrap().zones[0].signing.clone();
    assert_eq!(signing(&zone("false")), None);
    let usual = signing(&zone("true")).unwrap();
    assert_eq!(usual.policy.keys.algorithm, SigningAlgorithm::EcdsaP256Sha256);
    assert_eq!(usual.policy.keys.scheme, KeyScheme::Csk);
    assert!(usual.directory.ends_with("keys/z.example.zone"), "{usual:?}");
    let strict = "[[signing-policy]]\nname = \"strict\"\nalgorithm = \"ed25519\"\nkeys = \
                  \"ksk-zsk\"\ndenial = \"nsec3\"\nvalidity-days = 4\n";
    let named = signing(&format!("{}{strict}", zone("\"strict\""))).unwrap().policy;
    assert_eq!(named.keys.algorithm, SigningAlgorithm::Ed25519);
    assert_eq!((named.keys.scheme, named.denial), (KeyScheme::Split, SignedDenial::Nsec3));
    // Half of the validity, because the default of seven days would exceed the validity.
    assert_eq!((named.validity_secs, named.refresh_secs), (4 * 86_400, 2 * 86_400));
    let other = strict.replace("strict", "default");
    let changed = signing(&format!("{}{other}", zone("true"))).unwrap().policy;
    assert_eq!(changed.denial, SignedDenial::Nsec3);
}

#[test]
fn faults_name_what_is_expected() {
    check_fault(&zone("\"none\""), "no [[signing-policy]] has the name \"none\"");
    check_fault(&zone("1"), "expected true, false, or the name of a [[signing-policy]]");
    let policy = |rest: &str| format!("[[signing-policy]]\nname = \"p\"\n{rest}\n");
    check_fault(&policy("algorithm = \"rsasha256\""), "\"ecdsap256sha256\" or \"ed25519\"");
    check_fault(&policy("denial = \"nsec5\""), "\"nsec\", \"nsec3\" or \"nsec3-opt-out\"");
    check_fault(&policy("keys = \"zsk\""), "\"csk\" or \"ksk-zsk\"");
    check_fault(&policy("validity-days = 5\nrefresh-days = 5"), "less than the 5 days");
    check_fault(&policy("validity-days = 0"), "from 1 to 365");
    check_fault(&format!("{}{}", policy(""), policy("")), "has another table");
    check_fault("[[signing-policy]]\nalgorithm = \"ed25519\"\n", "`name` is missing");
}
