//! unbound.conf(5) of version 1.17.1, "local-zone", "local-data" and "Response Policy Zone
//! Options", with the zone types that the page adds at commit 469cc09c.

use avocet_policy::list::Format::Unbound;

use crate::originals::asking::{broken, check, check_all, passed_over};
use crate::originals::zones::Of::{Answer, Client, Name, ServerAddresses, Servers};
use crate::originals::zones::{HEAD, broken as broken_records, check as check_zone, read};

/// A zone of this type for `example.com`.
fn zone(kind: &str) -> String {
    format!("local-zone: \"example.com.\" {kind}")
}

#[test]
fn zones_without_an_answer_of_the_world_are_blocked_with_all_below_them() {
    let kinds = [
        "deny",
        "refuse",
        "static",
        "redirect",
        "inform_deny",
        "inform_redirect",
        "always_refuse",
        "always_nxdomain",
        "always_nodata",
        "always_deny",
        "always_null",
    ];
    for kind in kinds {
        let questions = [
            ("example.com", "blocked"),
            ("a.b.example.com MX", "blocked"),
            ("notexample.com", "-"),
            ("com", "-"),
        ];
        check_all(Unbound, &zone(kind), &questions);
    }
}

#[test]
fn zones_that_are_resolved_normally_are_let_through() {
    for kind in [
        "transparent",
        "typetransparent",
        "inform",
        "always_transparent",
        "nodefault",
        "noview",
        "ipset",
    ] {
        check_all(
            Unbound,
            &zone(kind),
            &[("example.com", "allowed"), ("a.example.com", "allowed"), ("com", "-")],
        );
    }
    // A nested zone is an exception to its parent.
    check_all(
        Unbound,
        "local-zone: \"example.com\" static\nlocal-zone: \"ok.example.com\" transparent",
        &[
            ("example.com", "blocked"),
            ("ok.example.com", "allowed"),
            ("a.ok.example.com", "allowed"),
        ],
    );
    // Unbound uses the closest zone; here an exception applies to all subdomains.
    check_all(
        Unbound,
        "local-zone: \"example.com\" transparent\nlocal-zone: \"ads.example.com\" refuse",
        &[("example.com", "allowed"), ("ads.example.com", "allowed")],
    );
}

#[test]
fn a_zone_may_block_addresses_of_one_family_alone() {
    check_all(
        Unbound,
        &zone("block_a"),
        &[("example.com A", "=NODATA"), ("a.example.com A", "=NODATA"), ("example.com AAAA", "-")],
    );
}

#[test]
fn local_data_is_answered_whatever_the_zone() {
    let data = "local-data: \"www.example.com. A 192.0.2.1\"\n";
    for kind in ["deny", "refuse", "static", "inform_deny"] {
        check_all(
            Unbound,
            &format!("{data}{}", zone(kind)),
            &[
                ("www.example.com A", "=A 192.0.2.1"),
                ("example.com", "blocked"),
                ("a.www.example.com", "blocked"),
            ],
        );
    }
    for kind in ["transparent", "inform"] {
        check_all(
            Unbound,
            &format!("{data}{}", zone(kind)),
            &[
                ("www.example.com A", "=A 192.0.2.1"),
                // The name exists, the type does not.
                ("www.example.com AAAA", "=NODATA"),
                ("a.example.com", "allowed"),
            ],
        );
    }
    // Each line is read independently: unlike in Unbound, data are the answer in these zones too,
    // for all types.
    for (kind, elsewhere) in
        [("always_nxdomain", "blocked"), ("always_null", "blocked"), ("typetransparent", "allowed")]
    {
        check_all(
            Unbound,
            &format!("{data}{}", zone(kind)),
            &[
                ("www.example.com A", "=A 192.0.2.1"),
                ("www.example.com AAAA", "=NODATA"),
                ("a.example.com", elsewhere),
            ],
        );
    }
    // Data create a transparent zone if there is none.
    check_all(
        Unbound,
        data,
        &[("www.example.com", "=A 192.0.2.1"), ("example.com", "-"), ("a.www.example.com", "-")],
    );
}

#[test]
fn data_have_types_classes_and_quotes() {
    check(
        Unbound,
        &[
            ("local-data: \"example. TXT 'a'\"", "example TXT", "=TXT \"'a'\""),
            (
                "local-data: 'example.com. 3600 IN TXT \"a text\"'",
                "example.com TXT",
                "=TXT \"a text\"",
            ),
            (
                "local-data: \"mail.example.com. MX 10 mx.example.com.\"",
                "mail.example.com MX",
                "=MX 10 mx.example.com.",
            ),
            (
                "local-data: \"a.example A 192.0.2.1\"\nlocal-data: \"a.example A 192.0.2.2\"",
                "a.example",
                "=A 192.0.2.1 =A 192.0.2.2",
            ),
            ("local-data: \"a.example A 0.0.0.0\"", "a.example", "blocked"),
            ("local-data: \"a.example AAAA ::\"", "a.example", "blocked"),
        ],
    );
}

#[test]
fn a_redirected_zone_answers_with_the_data_of_its_name() {
    let text = "local-zone: \"example.com.\" redirect\nlocal-data: \"example.com. A 127.0.0.1\"";
    check_all(Unbound, text, &[("example.com", "blocked"), ("www.foo.example.com", "blocked")]);
    // Subdomains are blocked, where Unbound returns the data: each line is read independently.
    let text = "local-zone: \"example.com.\" redirect\nlocal-data: \"example.com. A 192.0.2.1\"";
    check_all(Unbound, text, &[("example.com", "=A 192.0.2.1"), ("www.example.com", "blocked")]);
    let text = "local-zone: \"example.com.\" redirect\nlocal-data: \"example.com. CNAME \
                www.example.org.\"";
    check_all(
        Unbound,
        text,
        &[("example.com", "=CNAME www.example.org."), ("www.example.com", "blocked")],
    );
    // A line of a list cannot create an alias to the queried name followed by another.
    broken(
        Unbound,
        &[(
            "local-data: \"example.com. CNAME *.foo.net.\"",
            "an alias to a wildcard is not supported",
        )],
    );
}

#[test]
fn comments_and_other_lines() {
    passed_over(
        Unbound,
        &[
            "# comment",
            "server:",
            "local-data-ptr: \"192.0.2.3 www.example.com\"",
            "local-zone-tag: example.com \"tag2\"",
        ],
    );
    check(Unbound, &[("  local-zone: example.com refuse # why", "example.com", "blocked")]);
    broken(
        Unbound,
        &[
            ("local-zone: \"example.com\" nonesuch", "the type of zone does not exist"),
            ("local-zone: \".\" static", "the line matches every name"),
            ("forward-addr: 192.0.2.1", "expected local-zone: or local-data:"),
        ],
    );
}

#[test]
fn policy_zones() {
    let records = "example.com CNAME .\nclient CNAME *.\n24.0.2.0.192.rpz-client-ip CNAME \
                   rpz-passthru.\n\
        32.1.0.0.10.rpz-ip CNAME rpz-drop.\nns.example.rpz-nsdname CNAME \
        rpz-tcp-only.\n128.10.zz.db8.2001.rpz-nsip A 192.0.2.1\n\
        other.example CNAME walled.example.\n";
    check_zone(
        &read(&format!("{HEAD}{records}")),
        &[
            (Name("example.com"), "nxdomain"),
            (Name("client"), "nodata"),
            (Client("192.0.2.1"), "passthru"),
            (Answer(&["10.0.0.1"]), "drop"),
            (Servers(&["ns.example"]), "tcp-only"),
            (ServerAddresses(&["2001:db8::10"]), "A 192.0.2.1"),
            (Name("other.example"), "alias walled.example."),
        ],
    );
    // The page's own examples have non-zero bits after the prefix, which the draft calls invalid
    // (§4.1.1).
    broken_records(&[
        ("24.10.100.51.198.rpz-ip CNAME .", "the owner is not a trigger"),
        ("32.10.zz.db8.2001.rpz-ip CNAME .", "the owner is not a trigger"),
    ]);
}
