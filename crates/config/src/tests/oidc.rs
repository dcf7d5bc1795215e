//! Tests of `[oidc]`.

use super::{errors, read};

#[test]
fn an_issuer_needs_a_client_and_the_url_of_this_server() {
    assert_eq!(read("").oidc, None);
    let oidc = read(
        "[oidc]\nissuer = \"https://login.example/a\"\nclient-id = \"avocet\"\n\
         public-url = \"https://dns.lan:8443/\"\nadmins = [\"dns\"]\nclient-secret = \"s3cret\"",
    )
    .oidc
    .unwrap();
    assert_eq!(
        (oidc.public_url.as_str(), oidc.role_claim.as_str()),
        ("https://dns.lan:8443", "groups")
    );
    assert_eq!(
        (oidc.scopes.as_slice(), oidc.admins.as_slice()),
        (&["profile".to_owned()][..], &["dns".to_owned()][..])
    );
    assert!(!format!("{oidc:?}").contains("s3cret"));
    for (text, expected) in [
        ("[oidc]\nissuer = \"https://login.example\"", "needs client-id and public-url"),
        ("[oidc]\nissuer = \"login.example\"", "expected a URL"),
        ("[oidc]\nissuer = \"https://a b\"", "expected a URL"),
        ("[oidc]\nissuer = \"https://\"", "expected a URL"),
        ("[oidc]\npublic-url = \"ftp://x\"", "expected a URL"),
    ] {
        let faults = errors(text);
        assert!(faults.contains(expected), "{text}: {faults}");
    }
}

#[test]
fn an_issuer_without_https_is_doubted_unless_it_is_on_this_machine() {
    let doubts = |issuer: &str| {
        read(&format!(
            "[oidc]\nissuer = \"{issuer}\"\nclient-id = \"a\"\nadmins = [\"a\"]\n\
             public-url = \"https://dns.lan\""
        ))
        .doubts
    };
    for issuer in ["http://login.example", "http://10.0.0.1:8080/a", "http://[fe80::1]/a"] {
        let doubts = doubts(issuer);
        assert!(doubts.len() == 1 && doubts[0].contains("without https"), "{issuer}: {doubts:?}");
    }
    for issuer in
        ["https://login.example", "http://127.0.0.1:80/a", "http://[::1]:80", "http://localhost/a"]
    {
        assert_eq!(doubts(issuer), [""; 0], "{issuer}");
    }
}
