//! Tests of `provider` of `[[zone]]`.

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
    check_fault(&zone("z.example", "provider = \"redis\""), "\"leases\", \"http\" or \"postgres\"");
    check_fault(&zone("z.example", "ttl-secs = 60"), "it is for a `provider`");
    check_fault(&csv("primaries = [\"192.0.2.1\"]"), "is not transferred from other servers");
    check_fault(&csv("allow-update = [\"key k\"]"), "is changed at its source");
    check_fault(&csv("domain = \"z.example\""), "only the hosts of a reverse zone");
    check_fault(&zone("8.b.d.ip6.arpa", "provider = \"csv\""), "`domain` is missing");
    check_fault(&zone("8.b.d.ip6.arpa", "provider = \"csv\"\ndomain = \"a b\""), "a b");
}

fn pulled(url: &str, rest: &str) -> String {
    format!("[[zone]]\nname = \"z.example\"\nprovider = \"http\"\nurl = \"{url}\"\n{rest}\n")
}

#[test]
fn a_zone_from_a_url_has_its_copy_in_the_data_directory() {
    let read = |text: &str| read_with(text, &[]).unwrap().zones[0].clone();
    let zone = read(&pulled("https://api.example/z", ""));
    assert!(zone.file.ends_with("zones/z.example.zone.json") && zone.is_fetched());
    let source = zone.source_url().unwrap();
    assert_eq!((&*source.url, source.refresh_secs), ("https://api.example/z", 300));
    let rest = "ca = \"ca.pem\"\nheaders-file = \"head\"\nrefresh-secs = 5\n\
                client-cert = \"c\"\nclient-key = \"k\"\nhead-file = \"soa\"";
    let zone = read(&pulled("https://[2001:db8::1]:8443/z?a=b", rest));
    let source = zone.source_url().unwrap();
    assert!(source.ca.as_ref().unwrap().ends_with("ca.pem") && source.client.is_some());
    assert_eq!(source.refresh_secs, 5);
    let doubts = |text: &str| read_with(text, &[]).unwrap().doubts.join("\n");
    assert_eq!(doubts(&pulled("https://api.example/z", rest)), "");
    let doubts = doubts(&pulled("http://api.example/z", rest));
    for expected in ["`ca` has no effect", "`client-cert` has no effect", "sent in clear"] {
        assert!(doubts.contains(expected), "{doubts}");
    }
}

#[test]
fn faults_of_urls_say_what_is_expected() {
    let url = "https://api.example/z";
    let no_url = pulled(url, "").replace("url = ", "group = ");
    check_fault(&no_url, "`url` is missing");
    check_fault(&pulled("ftp://api.example/", ""), "with http:// or https:// and a host");
    check_fault(&pulled("https://u:p@api.example/", ""), "no place for credentials");
    check_fault(&pulled(url, "file = \"f\""), "keeps a copy of what it fetches");
    check_fault(&pulled(url, "refresh-secs = 4"), "5 to 86400");
    check_fault(&pulled(url, "client-cert = \"c\""), "needs `client-key`");
    check_fault(&pulled(url, "primaries = [\"192.0.2.1\"]"), "is not transferred");
    let pins = "pins = [\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\"]";
    check_fault(&pulled(url, pins), "has no pins");
    check_fault(&pulled(url, "domain = \"a.example\""), "only the hosts of a reverse zone");
    check_fault(&zone("z.example", "url = \"https://a.example/\""), "provider = \"http\"");
    check_fault(&zone("z.example", "provider = \"json\"\nheaders-file = \"h\""), "it is for");
    check_fault(&pulled(url, "password-file = \"p\""), "it is for provider = \"postgres\"");
}

fn stored(url: &str, rest: &str) -> String {
    pulled(url, rest).replace("\"http\"", "\"postgres\"")
}

#[test]
fn a_zone_from_a_database_has_its_copy_in_the_data_directory() {
    let read = |text: &str| read_with(text, &[]).unwrap().zones[0].clone();
    let url = "postgresql://avocet@db.example/pdns";
    let zone = read(&stored(url, "password-file = \"p\"\nrefresh-secs = 60"));
    assert!(zone.file.ends_with("zones/z.example.zone.json") && zone.is_fetched());
    assert_eq!(zone.provided.as_ref().unwrap().kind, ProviderKind::Postgres);
    let source = zone.source_url().unwrap();
    assert_eq!((&*source.url, source.refresh_secs), (url, 60));
    assert!(source.password_file.as_ref().unwrap().ends_with("p"));
    assert_eq!(source.database.as_ref().unwrap().database, "pdns");
    let local = "postgresql://avocet@/pdns?host=/run/postgresql";
    let doubts = read_with(&stored(local, "ca = \"ca.pem\""), &[]).unwrap().doubts.join("\n");
    assert!(doubts.contains("`ca` has no effect: the url has a Unix socket"), "{doubts}");
}

#[test]
fn faults_of_databases_say_what_is_expected_and_no_secret() {
    let url = "postgresql://avocet@db.example/pdns";
    check_fault(&stored("https://db.example/", ""), "expected \"postgresql://USER@HOST");
    check_fault(&stored(url, "headers-file = \"h\""), "it is for provider = \"http\"");
    check_fault(&stored(url, "file = \"f\""), "keeps a copy of what it fetches");
    check_fault(&stored(url, "view = [\"10.0.0.0/8\"]"), "cannot have `provider = \"postgres\"`");
    check_fault(&stored(url, "allow-update = [\"key k\"]"), "is changed at its source");
    let secret = stored("postgresql://avocet:hush@db.example/pdns", "");
    check_fault(&secret, "`password-file` has it");
    let message = read_with(&secret, &[]).map(drop).unwrap_err().to_string();
    assert!(!message.contains("hush"), "{message}");
    check_fault(&zone("z.example", "password-file = \"p\""), "it is for");
}
