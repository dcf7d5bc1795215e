//! `provider` of `[[zone]]`.

use super::read_with;
use crate::provided::ProviderKind;

fn zone(name: &str, rest: &str) -> String {
    format!("[[zone]]\nname = \"{name}\"\nfile = \"hosts\"\n{rest}\n")
}

#[track_caller]
fn check_fault(text: &str, expected: &str) {
    let message = read_with(text, &[]).map(drop).unwrap_err().to_string();
    assert!(message.contains(expected), "{message}");
}

#[test]
fn a_provider_has_its_settings_and_a_master_file_has_none() {
    let read = |text: &str| read_with(text, &[]).unwrap().zones[0].clone();
    assert_eq!(read(&zone("z.example", "provider = \"file\"")).provided, None);
    let leases = read(&zone("z.example", "provider = \"leases\"\nhead-file = \"head\""));
    assert_eq!(leases.settle_secs, 1);
    let provided = leases.provided.unwrap();
    assert_eq!((provided.kind, provided.ttl_secs), (ProviderKind::Leases, 300));
    assert!(provided.head.unwrap().ends_with("head"));
    let reverse = zone("2.0.192.in-addr.arpa", "provider = \"csv\"\ndomain = \"z.example\"");
    let reverse = read(&reverse);
    assert_eq!(reverse.settle_secs, 10);
    assert_eq!(reverse.provided.unwrap().domain.unwrap(), b"\x01z\x07example\x00"[..].into());
}

#[test]
fn faults_of_providers_say_what_is_expected() {
    let csv = |rest: &str| zone("z.example", &format!("provider = \"csv\"\n{rest}"));
    check_fault(&zone("z.example", "provider = \"redis\""), "\"csv\", \"json\" or \"leases\"");
    check_fault(&zone("z.example", "ttl-secs = 60"), "it is for a `provider`");
    check_fault(&csv("primaries = [\"192.0.2.1\"]"), "is not transferred from other servers");
    check_fault(&csv("allow-update = [\"key k\"]"), "is changed at its source");
    check_fault(&csv("domain = \"z.example\""), "only the hosts of a reverse zone");
    check_fault(&zone("8.b.d.ip6.arpa", "provider = \"csv\""), "`domain` is missing");
    check_fault(&zone("8.b.d.ip6.arpa", "provider = \"csv\"\ndomain = \"a b\""), "a b");
}
