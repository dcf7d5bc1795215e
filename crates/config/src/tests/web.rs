//! Tests of `[web]`.

use super::{errors, read};
use crate::web::HttpsCertificate;

#[test]
fn https_needs_a_certificate_and_an_address_of_this_network() {
    let web = read(
        "[web]\nhttps = \"192.168.1.2:8443\"\ntls-cert = \"/a.pem\"\ntls-key = \"/a.key\"\n\
         trusted-proxies = [\"10.0.0.0/8\"]",
    )
    .web;
    assert_eq!(web.https.unwrap().address.to_string(), "192.168.1.2:8443");
    assert_eq!(web.trusted_proxies.len(), 1);
    assert_eq!(read("[web]\ntls-cert = \"/a.pem\"").web.https, None);
    for (text, expected) in [
        ("[web]\nhttps = \"127.0.0.1:8443\"", "https needs tls-cert and tls-key"),
        ("[web]\nhttps = \"127.0.0.1:8443\"\ntls-cert = \"a\"", "https needs tls-cert and tls-key"),
        (
            "[web]\nhttps = \"127.0.0.1:8443\"\ntls-key = \"a\"\n[home-ca]\nnames = [\"a.lan\"]",
            "https needs tls-cert and tls-key",
        ),
        (
            "[web]\nhttps = \"192.0.2.1:8443\"\ntls-cert = \"a\"\ntls-key = \"b\"",
            "neither loopback",
        ),
        ("[web]\nhttps = \"here\"", "such as \"127.0.0.1:8443\""),
    ] {
        let faults = errors(text);
        assert!(faults.contains(expected), "{text}: {faults}");
    }
}

#[test]
fn https_takes_the_certificates_of_other_tables_if_it_has_no_files() {
    let table = "[[certificate]]\ncert = \"/b.pem\"\nkey = \"/b.key\"\n";
    let https = |files: &str| {
        let text = format!("{table}[web]\nhttps = \"127.0.0.1:8443\"\n{files}");
        read(&text).web.https.unwrap().certificate
    };
    assert_eq!(https(""), HttpsCertificate::Shared);
    let own = https("tls-cert = \"/a.pem\"\ntls-key = \"/a.key\"");
    assert_eq!(own.files().unwrap().chain.to_str(), Some("/a.pem"));
}

#[test]
fn a_proxy_at_any_address_is_doubted() {
    let doubts = |proxies: &str| read(&format!("[web]\ntrusted-proxies = [\"{proxies}\"]")).doubts;
    for any in ["0.0.0.0/0", "::/0"] {
        assert!(doubts(any)[0].contains("every client may claim"), "{any}");
    }
    assert_eq!(doubts("10.0.0.0/8"), [""; 0]);
}
