//! Tests of response policy zones of other servers in `[[list]]`.

use super::{errors, read, read_with};
use crate::policy::ListSource;

const ZONE: &str = "[[list]]\nname = \"l\"\nformat = \"rpz\"\nzone = \"RPZ.example\"\n";

#[test]
fn a_zone_has_its_primaries_and_is_shown_as_it_reads() {
    let config = read(&format!("{ZONE}primaries = [\"192.0.2.1\", \"tls://ns.x@192.0.2.2\"]\n"));
    let ListSource::Zone(transferred) = &config.policy.lists[0].source else { panic!("a zone") };
    assert_eq!(*transferred.zone, *b"\x03rpz\x07example\x00");
    let shown: Vec<_> = transferred.primaries.servers.iter().map(|one| one.shown()).collect();
    assert_eq!(shown, ["192.0.2.1:53", "tls://ns.x@192.0.2.2:853"]);
    let text = toml::to_string(&config.effective()).unwrap();
    assert_eq!(read_with(&text, &[]).unwrap(), config, "{text}");
    let ip = "192.0.2.1".parse().unwrap();
    assert!(config.policy.lists[0].hears(b"\x03rpz\x07example\x00", ip, None));
    assert!(!config.policy.lists[0].hears(b"\x03rpz\x05other\x00", ip, None));
}

#[test]
fn a_zone_that_cannot_be_transferred_is_an_error_with_its_reason() {
    let check = |text: &str, expected: &str| {
        let errors = errors(text);
        assert!(errors.contains(expected), "{text}: {errors}");
    };
    let primaries = "primaries = [\"192.0.2.1\"]\n";
    check(&format!("{ZONE}{primaries}url = \"https://x.example/\"\n"), "not several of them");
    check(&format!("{ZONE}{primaries}file = \"x\"\n"), "not several of them");
    check(&format!("{ZONE}primaries = []\n"), "at least one server");
    check(&format!("{ZONE}primaries = [\"ns.example\"]\n"), "a server with or without port");
    check(&format!("{ZONE}{primaries}key = \"k\"\n"), "no [[key]] has the name \"k\"");
    let other = ZONE.replace("rpz\"\n", "hosts\"\n");
    check(&format!("{other}{primaries}"), "only a list of format \"rpz\"");
    let nameless = ZONE.replace("zone = ", "# zone = ");
    check(&format!("{nameless}{primaries}"), "`zone` is missing");
    check(ZONE, "`url`, `file` or `primaries` is missing");
}

#[test]
fn settings_of_primaries_are_doubted_without_primaries() {
    let of_primaries = "zone = \"z\"\nkey = \"k\"\nca = \"ca.pem\"\npins = []\n\
        client-cert = \"c.pem\"\nclient-key = \"k.pem\"\n";
    let config =
        read(&format!("[[list]]\nname = \"l\"\nurl = \"https://x.example/\"\n{of_primaries}"));
    let named = ["zone", "key", "ca", "pins", "client-cert", "client-key"];
    assert_eq!(config.doubts.len(), named.len(), "{:?}", config.doubts);
    for (doubt, name) in config.doubts.iter().zip(named) {
        assert!(doubt.ends_with(&format!("`{name}` has no effect without `primaries`")), "{doubt}");
    }
}
