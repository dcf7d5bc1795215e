//! Tests of `[otlp]` and `[[trace]]`.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::{errors, read, read_with};
use crate::outcome::OutcomeKind;

fn otlp(keys: &str) -> String {
    format!("[otlp]\nendpoint = \"https://collector.example:4318/\"\n{keys}\n")
}

#[test]
fn an_endpoint_is_the_base_of_the_url() {
    let check = |endpoint: &str, expected: Option<&str>| {
        let config = read(&format!("[otlp]\nendpoint = \"{endpoint}\"\n"));
        assert_eq!(config.otlp.url().as_deref(), expected, "{endpoint}");
    };
    check("", None);
    check("http://127.0.0.1:4318", Some("http://127.0.0.1:4318/v1/traces"));
    check("http://[::1]:4318/", Some("http://[::1]:4318/v1/traces"));
    check("https://a.example/otlp/", Some("https://a.example/otlp/v1/traces"));
    check("https://a.example/v1/traces", Some("https://a.example/v1/traces"));
    assert_eq!(read("").otlp.url(), None);
}

#[test]
fn faults_of_the_export_have_a_place_and_an_advice() {
    let check = |text: &str, expected: &str| {
        let faults = errors(text);
        assert!(faults.starts_with("a.toml:"), "{text}: {faults}");
        assert!(faults.contains(expected), "{text}: {faults}");
    };
    for endpoint in [
        "127.0.0.1:4318",
        "grpc://a.example",
        "http://",
        "http:///v1",
        "https://a.example?x=1",
        "http://a b",
        "http://a:0",
        "http://a:http",
        "http://::1:4318",
        "http://[a]:4318",
    ] {
        check(&format!("[otlp]\nendpoint = \"{endpoint}\""), "a URL such as");
    }
    check("[otlp]\nendpoint = \"https://u:secret@a.example\"", "headers-file");
    check(&otlp("encoding = \"grpc\""), "\"protobuf\" or \"json\"");
    check(&otlp("sample-share = 1.5"), "a number from 0 to 1, such as 0.001, found 1.5");
    check(&otlp("sample-share = -0.1"), "a number from 0 to 1");
    check(&otlp("sample-share = nan"), "a number from 0 to 1");
    check(&otlp("sample-share = 2"), "a number from 0 to 1");
    check(&otlp("sample-share = \"all\""), "found \"all\"");
    check(&otlp("per-second = 0"), "from 1 to 100000");
    check(&otlp("sampleshare = 1"), "sample-share");
    check(&otlp("headers-file = \"/missing\""), "/missing");
    check("[[trace]]\noutcomes = [\"failed\"]", "`name` is missing");
    check("[[trace]]\nname = \"a\"\n[[trace]]\nname = \"a\"", "another table");
    check("[[trace]]\nname = \"\"", "expected a name");
    check("[[trace]]\nname = \"a\"\noutcomes = [\"slow\"]", "\"failed\"");
    check("[[trace]]\nname = \"a\"\nclients = [\"tablet\"]", "tablet");
    check("[[trace]]\nname = \"a\"\nnames = [\"a..b\"]", "a..b");
    check("[[trace]]\nname = \"a\"\nslower-than-ms = 60001", "60000");
    let many: String = (0..33).map(|n| format!("[[trace]]\nname = \"{n}\"\n")).collect();
    check(&many, "more than 32 tables");
}

#[test]
fn selections_have_their_conditions() {
    let rule = "[[trace]]\nname = \"slow\"\nnames = [\"Shop.example\"]\nclients = [\"10.0.0.0/8\"]\n\
                outcomes = [\"failed\", \"blocked\"]\nslower-than-ms = 500\nshare = 0.5\n";
    let config = read(&otlp(&format!("sample-share = 1\n{rule}")));
    let rule = &config.otlp.rules[0];
    assert_eq!(rule.names, [b"\x04shop\x07example\0".as_slice().into()]);
    assert_eq!(rule.clients, ["10.0.0.0/8".parse().unwrap()]);
    assert_eq!(rule.outcomes, [OutcomeKind::Failed, OutcomeKind::Blocked]);
    assert_eq!((rule.slower_than_ms, rule.share, config.otlp.share), (500, 0.5, 1.0));
    let shown = toml::to_string(&config.effective()).unwrap();
    assert_eq!(read_with(&shown, &[]).unwrap().otlp, config.otlp);
    let variables = [("AVOCET_OTLP__SAMPLE_SHARE", "0.25"), ("AVOCET_OTLP__PER_SECOND", "7")];
    let config = read_with("", &variables).unwrap();
    assert_eq!((config.otlp.share, config.otlp.per_second), (0.25, 7));
}

#[test]
fn settings_without_effect_are_doubts() {
    let check = |text: &str, expected: &str| {
        let doubts = format!("{:?}", read(text).doubts);
        assert!(doubts.contains(expected), "{text}: {doubts}");
    };
    check(&otlp(""), "no query has a trace");
    check("[[trace]]\nname = \"a\"", "no endpoint");
    check(&otlp("[[trace]]\nname = \"a\"\nshare = 0"), "selects no query");
    let plain = "[otlp]\nendpoint = \"http://10.0.0.1\"\nsample-share = 1\nca = \"a.pem\"\n";
    check(plain, "without https");
    let right = read(&otlp("sample-share = 0.1\nca = \"a.pem\""));
    assert!(right.doubts.is_empty(), "{:?}", right.doubts);
}

#[test]
fn header_fields_are_read_and_never_shown() {
    let file = std::env::temp_dir().join(format!("avocet-otlp-headers-{}", std::process::id()));
    let keys = otlp(&format!("sample-share = 1\nheaders-file = \"{}\"", file.display()));
    let write = |text: &str, mode: u32| {
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
    };
    write("Authorization: Bearer s3cret==\n\n X-Scope : a b \r\n", 0o600);
    // A field name with a blank before the colon is not a token.
    assert!(errors(&keys).contains("line 3 of"));
    write("Authorization: Bearer s3cret==\n\nX-Scope: a b \r\n", 0o600);
    let config = read(&keys);
    let fields: Vec<_> =
        config.otlp.headers.iter().map(|one| (&*one.name, one.value.as_str())).collect();
    assert_eq!(fields, [("authorization", "Bearer s3cret=="), ("x-scope", "a b")]);
    assert!(!format!("{config:?}{:?}", config.effective()).contains("s3cret"));
    for (text, expected) in [
        ("s3cret", "line 1 of"),
        (": s3cret", "not a token"),
        ("a b: s3cret", "not a token"),
        ("a:", "empty"),
        ("a: s3cret\u{1}", "not ASCII"),
        ("a: s3cr\u{e9}t", "not ASCII"),
        ("Host: s3cret", "sets this field itself"),
        ("a: s3cret\nContent-Length: 0", "line 2 of"),
        (&"a: s3cret\n".repeat(17), "more than 16"),
        (&format!("a: {}", "s3cret".repeat(2_000)), "too long"),
    ] {
        write(text, 0o600);
        let faults = errors(&keys);
        assert!(faults.contains(expected) && !faults.contains("s3cret"), "{text}: {faults}");
    }
    write("a: s3cret", 0o644);
    assert!(errors(&keys).contains("others may read"));
    fs::remove_file(&file).unwrap();
}
