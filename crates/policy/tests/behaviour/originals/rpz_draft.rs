//! draft-vixie-dnsop-dns-rpz-00, "DNS Response Policy Zones (RPZ)", of 2018-06-21. Tests are named
//! after its sections.
//!
//! Sections on complete answers (§5.1 chains of aliases, §6 synthetic data and truncation) are
//! covered by `tests/conformance/rpz.rs`, in comparison with BIND, Unbound and Knot Resolver.

use avocet_policy::rpz::{Found, TriggerKind, ZoneSet};
use avocet_wire::Rtype;

use crate::originals::zones::Of::{Answer, Client, Name, ServerAddresses, Servers};
use crate::originals::zones::{
    HEAD, best, broken, check, data, find, passed_over, read, read_all, zone,
};

fn behind_head(records: &str) -> String {
    format!("{HEAD}{records}")
}

#[test]
fn section_2_the_apex_and_proofs_are_no_policy() {
    // The SOA and NS records at the apex are not triggers.
    let (zones, report) = zone(HEAD);
    assert_eq!((report.triggers, report.faults, report.skipped), ([0; 5], 0, 2));
    assert_eq!(zones.origin().to_string().to_ascii_lowercase(), "rpz.example.org.");
    passed_over(&[
        "@ TXT \"a label of the provider\"",
        "@ DNSKEY 256 3 13 AAAA",
        "@ NSEC a NS SOA",
    ]);
    // "any data which is not syntactically valid for DNS should cause normal error processing"
    broken(&[
        ("a.example A 192.0.2", "the data: field 1 (IPv4 address) at 12: badly encoded"),
        ("a.example NOTYPE x", "the record has no known type"),
        ("a.example.net. CNAME .", "the owner is not in the zone"),
    ]);
}

#[test]
fn section_2_a_broken_rrset_is_ignored_and_the_rest_counts() {
    let (found, report) =
        zone(&behind_head("a.example A 1\nb.example CNAME .\nc.rpz-unheard-of CNAME .\n"));
    assert_eq!((report.faults, report.triggers), (2, [0, 1, 0, 0, 0]));
    let zones = avocet_policy::rpz::Zones::of(vec![found]).unwrap();
    check(&zones, &[(Name("b.example"), "nxdomain"), (Name("a.example"), "-")]);
    // Triggers and actions of a later format are errors, not local data.
    broken(&[
        ("c.rpz-unheard-of CNAME .", "the owner is not a trigger"),
        ("c.example CNAME rpz-unheard-of.", "unknown action"),
        ("c.example CNAME a.rpz-unheard-of.", "unknown action"),
        ("c.example CNAME rpz-.", "unknown action"),
        ("c.example CNAME a.rpz-drop.", "unknown action"),
    ]);
}

#[test]
fn section_3_1_to_3_5_actions_without_data() {
    let zones = read(&behind_head(
        "nx.example.com CNAME . ; return NXDOMAIN\n*.nx.example.com CNAME .\nno.example.com CNAME \
         *.\n*.no.example.com CNAME *.\n\
         drop.example.com CNAME rpz-drop.\ntcp.example.com CNAME rpz-tcp-only.\nup.example.com \
         CNAME RPZ-Passthru.\n",
    ));
    check(
        &zones,
        &[
            (Name("nx.example.com"), "nxdomain"),
            (Name("a.b.nx.example.com"), "nxdomain"),
            (Name("no.example.com"), "nodata"),
            (Name("a.no.example.com"), "nodata"),
            (Name("drop.example.com"), "drop"),
            (Name("DROP.example.com"), "drop"),
            (Name("a.drop.example.com"), "-"),
            (Name("tcp.example.com"), "tcp-only"),
            (Name("up.example.com"), "passthru"),
        ],
    );
}

#[test]
fn section_3_3_passthru_exempts_names_and_clients() {
    let zones = read(&behind_head(
        "ok.example.com CNAME rpz-passthru.\n32.1.2.0.192.rpz-client-ip CNAME \
         rpz-passthru.\nexample.com CNAME .\n\
         *.example.com CNAME .\n",
    ));
    check(
        &zones,
        &[
            (Name("ok.example.com"), "passthru"),
            (Name("example.com"), "nxdomain"),
            (Name("bad.example.com"), "nxdomain"),
            (Client("192.0.2.1"), "passthru"),
            (Client("192.0.2.2"), "-"),
        ],
    );
    let found = best(&zones, &[Name("bad.example.com"), Client("192.0.2.1")]).unwrap();
    assert_eq!((found.kind, found.action.name()), (TriggerKind::ClientAddress, "passthru"));
}

#[test]
fn section_3_6_local_data() {
    // The draft's own example has names where A records need addresses.
    let zones = read(&behind_head(
        "bad1.example.com CNAME garden.example.net.\nbad2.example.com A \
         192.0.2.80\nbad2.example.com MX 10 garden-mail.example.net.\n\
         32.3.2.0.192.rpz-client-ip A 192.0.2.81\n",
    ));
    check(
        &zones,
        &[
            (Name("bad1.example.com"), "alias garden.example.net."),
            (Name("bad2.example.com"), "A 192.0.2.80"),
            (Client("192.0.2.3"), "A 192.0.2.81"),
        ],
    );
    let client = find(&zones, Client("192.0.2.3")).unwrap().action;
    assert_eq!(data(client, Rtype::MX), "nodata");
    let both = find(&zones, Name("bad2.example.com")).unwrap().action;
    assert_eq!(data(both, Rtype::ANY), "A 192.0.2.80, MX 10 garden-mail.example.net.");
}

#[test]
fn section_3_6_a_cname_stands_alone() {
    let reason = "a CNAME and other records with the same owner";
    for records in [
        "a.example CNAME .\na.example A 192.0.2.1\n",
        "a.example A 192.0.2.1\na.example CNAME x.\n",
    ] {
        let (_, report) = zone(&behind_head(records));
        assert_eq!(
            (report.faults, report.first_faults[0].reason.to_string().as_str()),
            (1, reason),
            "{records}"
        );
    }
}

#[test]
fn section_3_6_records_that_are_no_local_data() {
    passed_over(&[
        "a.example SOA a. b. 1 2 3 4 5",
        "a.example NS ns.example.",
        "a.example DNAME b.example.",
        "a.example RRSIG A 13 2 60 20300101000000 20200101000000 1 example. AAAA",
        "a.example NSEC b.example. A",
        "a.example DNSKEY 256 3 13 AAAA",
        "a.example DS 1 13 2 AAAA",
        "0p9mhaveqvm6t7vbl5lop2u3t2rp3tom NSEC3 1 1 0 - 2t7b4g4vsa5smi47k61mv5bv1a22bojr A",
    ]);
}

#[test]
fn section_3_6_a_wildcard_target_takes_the_qname_in() {
    let zones = read(&behind_head(
        "evil.example.org CNAME *.EXAMPLE.COM.\nbad.example.com CNAME \
         *.garden.example.net.\n*.bad.example.com CNAME *.garden.example.net.\n",
    ));
    check(
        &zones,
        &[
            (Name("evil.example.org"), "alias evil.example.org.example.com."),
            (Name("bad.example.com"), "alias bad.example.com.garden.example.net."),
            (Name("x.bad.example.com"), "alias x.bad.example.com.garden.example.net."),
        ],
    );
}

#[test]
fn section_4_1_client_addresses() {
    let zones = read(&behind_head(
        "24.0.2.0.192.rpz-client-ip CNAME rpz-drop.\n128.3.zz.db8.2001.rpz-client-ip CNAME \
         rpz-passthru.\n",
    ));
    check(
        &zones,
        &[
            (Client("192.0.2.0"), "drop"),
            (Client("192.0.2.255"), "drop"),
            (Client("192.0.3.0"), "-"),
            (Client("2001:db8::3"), "passthru"),
            (Client("2001:db8::4"), "-"),
        ],
    );
}

#[test]
fn section_4_1_1_encodings_of_addresses() {
    let zones = read(&behind_head(
        "24.0.2.0.192.rpz-ip CNAME .\n1.0.0.0.128.rpz-nsip CNAME \
         .\n32.255.255.255.255.rpz-client-ip CNAME .\n\
         128.8.7.6.5.4.3.2.1.rpz-ip CNAME .\n128.1.0.0.0.zz.2001.rpz-ip CNAME \
         *.\n1.zz.8000.rpz-client-ip CNAME .\n\
         128.zz.rpz-client-ip CNAME *.\n",
    ));
    check(
        &zones,
        &[
            (Answer(&["192.0.2.9"]), "nxdomain"),
            (ServerAddresses(&["200.0.2.9"]), "nxdomain"),
            (ServerAddresses(&["100.0.2.9"]), "-"),
            (Client("255.255.255.255"), "nxdomain"),
            (Answer(&["1:2:3:4:5:6:7:8"]), "nxdomain"),
            (Answer(&["2001::1"]), "nodata"),
            (Client("fe80::1"), "nxdomain"),
            (Client("::"), "nodata"),
            (Client("::1"), "-"),
        ],
    );
}

#[test]
fn section_4_1_1_encodings_that_are_not_valid() {
    let owners = [
        // A prefix is 1 to 32, or 1 to 128.
        "0.0.0.0.0.rpz-client-ip",
        "33.1.2.0.192.rpz-client-ip",
        "0.zz.rpz-client-ip",
        "129.1.zz.db8.2001.rpz-client-ip",
        // All four octets are present, as decimal integers.
        "24.0.2.192.rpz-client-ip",
        "24.0.0.2.0.192.rpz-client-ip",
        "24.0.256.0.192.rpz-client-ip",
        "24.0.-2.0.192.rpz-client-ip",
        "0.2.0.192.rpz-client-ip",
        // Leading zeros are not allowed.
        "024.0.2.0.192.rpz-client-ip",
        "24.0.02.0.192.rpz-client-ip",
        "128.03.zz.db8.2001.rpz-client-ip",
        "128.3.zz.0db8.2001.rpz-client-ip",
        // Eight groups of one to four hexadecimal digits, or one `zz`.
        "128.7.6.5.4.3.2.1.rpz-client-ip",
        "128.9.8.7.6.5.4.3.2.1.rpz-client-ip",
        "128.1.zz.2.zz.2001.rpz-client-ip",
        "128.10000.zz.db8.2001.rpz-client-ip",
        "128.g.zz.db8.2001.rpz-client-ip",
        "128.zzz.db8.2001.rpz-client-ip",
        // The draft's own example in §4.3 has a colon in place of a dot.
        "128.3.zz.101:db8.2001.rpz-ip",
        // Bits after the prefix must be zero: the draft's example.
        "8.2.0.0.10.rpz-client-ip",
        "24.1.2.0.192.rpz-ip",
        "32.10.zz.db8.2001.rpz-ip",
        "127.1.zz.db8.2001.rpz-nsip",
        // An address is missing.
        "rpz-ip",
        "24.rpz-ip",
        "example.com.rpz-ip",
    ];
    for owner in owners {
        broken(&[(&format!("{owner} CNAME ."), "the owner is not a trigger")]);
    }
}

#[test]
fn section_4_2_names() {
    let zones = read(&behind_head(
        "example.com CNAME .\n*.example.com CNAME .\nonly.example.org CNAME \
         .\n*.below.example.org CNAME .\n",
    ));
    check(
        &zones,
        &[
            (Name("example.com"), "nxdomain"),
            (Name("a.b.example.com"), "nxdomain"),
            (Name("only.example.org"), "nxdomain"),
            (Name("a.only.example.org"), "-"),
            (Name("below.example.org"), "-"),
            (Name("a.below.example.org"), "nxdomain"),
            (Name("com"), "-"),
            (Name("example.com.rpz.example.org"), "-"),
        ],
    );
    // Absolute owners belong to the zone.
    check(
        &read(&behind_head("EXAMPLE.COM.RPZ.EXAMPLE.ORG. CNAME .\n")),
        &[(Name("example.com"), "nxdomain")],
    );
}

#[test]
fn section_4_3_addresses_in_the_answer() {
    let zones = read(&behind_head(
        "24.0.2.0.192.rpz-ip CNAME .\n32.2.2.0.192.rpz-ip CNAME \
         rpz-passthru.\n48.zz.101.db8.2001.rpz-ip CNAME *.\n\
         128.3.zz.101.db8.2001.rpz-ip CNAME rpz-passthru.\n",
    ));
    check(
        &zones,
        &[
            (Answer(&["192.0.2.1"]), "nxdomain"),
            (Answer(&["192.0.2.1", "192.0.2.2"]), "passthru"),
            (Answer(&["192.0.2.2", "192.0.2.1"]), "passthru"),
            (Answer(&["192.0.3.1", "198.51.100.1"]), "-"),
            (Answer(&["198.51.100.1", "192.0.2.1"]), "nxdomain"),
            (Answer(&["2001:db8:101::4"]), "nodata"),
            (Answer(&["2001:db8:101::4", "2001:db8:101::3"]), "passthru"),
            (Answer(&[]), "-"),
        ],
    );
}

#[test]
fn section_4_4_and_4_5_names_and_addresses_of_servers() {
    let zones =
        read(&behind_head("ns.example.com.rpz-nsdname CNAME .\n24.0.2.0.192.rpz-nsip CNAME .\n"));
    check(
        &zones,
        &[
            (Servers(&["a.example.net", "NS.example.com"]), "nxdomain"),
            (Servers(&["a.example.net"]), "-"),
            (ServerAddresses(&["198.51.100.1", "192.0.2.53"]), "nxdomain"),
            (ServerAddresses(&["198.51.100.1"]), "-"),
            // They apply to servers only.
            (Name("ns.example.com"), "-"),
            (Answer(&["192.0.2.53"]), "-"),
        ],
    );
}

#[test]
fn section_5_actions_do_not_count() {
    let zones = read_all(&[
        &behind_head("a.example CNAME rpz-passthru.\n"),
        &behind_head("a.example CNAME .\n"),
    ]);
    check(&zones, &[(Name("a.example"), "passthru")]);
}

#[test]
fn section_5_2_the_earlier_zone_goes_first() {
    let zones = read_all(&[
        &behind_head("24.0.2.0.192.rpz-ip CNAME .\n"),
        &behind_head("a.example CNAME *.\n"),
    ]);
    let (name, answer) = (Name("a.example"), Answer(&["192.0.2.1"]));
    assert_eq!(best(&zones, &[name, answer]).unwrap().kind, TriggerKind::AnswerAddress);
    // "a matching QNAME trigger in the second RPZ could potentially be overruled" (§9.1)
    let by_name = find(&zones, name).unwrap();
    assert!(!zones.is_settled(ZoneSet::ALL, &by_name, TriggerKind::Qname));
    assert!(zones.is_settled(ZoneSet::ALL, &by_name, TriggerKind::AnswerAddress));
}

#[test]
fn section_5_3_the_closest_name_goes_first() {
    let zones = read(&behind_head(
        "*.example.com CNAME .\n*.a.example.com CNAME *.\nb.a.example.com CNAME rpz-drop.\n",
    ));
    check(
        &zones,
        &[
            (Name("b.a.example.com"), "drop"),
            (Name("c.a.example.com"), "nodata"),
            (Name("c.example.com"), "nxdomain"),
            // As in any zone, a wildcard does not apply below an existing name (RFC 4592 §3.3.1).
            (Name("c.b.a.example.com"), "-"),
        ],
    );
    // Among names of servers, the exact one precedes wildcards; of these, the one with the most
    // labels comes first.
    let zones = read(&behind_head(
        "*.com.rpz-nsdname CNAME .\n*.example.com.rpz-nsdname CNAME *.\nns.a.test.rpz-nsdname \
         CNAME rpz-drop.\n",
    ));
    check(
        &zones,
        &[
            (Servers(&["z.com", "a.example.com"]), "nodata"),
            (Servers(&["a.example.com", "z.com"]), "nodata"),
            (Servers(&["z.com", "a.example.com", "ns.a.test"]), "drop"),
            (Servers(&["ns.a.test", "z.com"]), "drop"),
        ],
    );
}

#[test]
fn section_5_4_kinds_of_triggers_in_their_order() {
    let zones = read(&behind_head(
        "8.0.0.0.10.rpz-nsip CNAME .\nns.example.rpz-nsdname CNAME .\n8.0.0.0.10.rpz-ip CNAME \
         .\na.example CNAME .\n\
         8.0.0.0.10.rpz-client-ip CNAME .\n",
    ));
    let mut all = vec![
        Client("10.0.0.1"),
        Name("a.example"),
        Answer(&["10.0.0.1"]),
        Servers(&["ns.example"]),
        ServerAddresses(&["10.0.0.1"]),
    ];
    for kind in TriggerKind::ALL {
        assert_eq!(best(&zones, &all).unwrap().kind, kind);
        all.remove(0);
    }
    // "a matched QNAME trigger in the first policy zone makes all Response IP Address, NSIP, and
    // NSDNAME triggers moot"
    let by_name: Found<'_> = find(&zones, Name("a.example")).unwrap();
    assert!(zones.is_settled(ZoneSet::ALL, &by_name, TriggerKind::Qname));
}

#[test]
fn section_5_5_of_names_of_servers_the_last_in_canonical_order_goes_first() {
    // In the draft's order, from the first to the last.
    let servers = [
        "z.example",
        "zABC.a.EXAMPLE",
        "Z.a.example",
        "yljkjljk.a.example",
        "a.example",
        "example",
    ];
    let records: String =
        servers.iter().map(|name| format!("{name}.rpz-nsdname CNAME {name}.found.\n")).collect();
    let zones = read(&behind_head(&records));
    for (better, worse) in servers
        .iter()
        .enumerate()
        .flat_map(|(at, better)| servers[at + 1..].iter().map(move |worse| (*better, *worse)))
    {
        for pair in [[better, worse], [worse, better]] {
            let names = pair.map(crate::originals::asking::wire);
            let found =
                zones.on_nsnames(ZoneSet::ALL, || names.iter().map(|name| &name[..])).unwrap();
            let target = found.action.alias(b"\0").unwrap().to_string();
            assert_eq!(target, format!("{}.found.", better.to_ascii_lowercase()), "{pair:?}");
        }
    }
    // The servers' names are compared, not those of the triggers.
    let zones =
        read(&behind_head("*.a.example.rpz-nsdname CNAME .\n*.b.example.rpz-nsdname CNAME *.\n"));
    check(&zones, &[(Servers(&["z.a.example", "a.b.example"]), "nodata")]);
    let zones = read(&behind_head("*.example.rpz-nsdname CNAME .\n*.test.rpz-nsdname CNAME *.\n"));
    check(&zones, &[(Servers(&["z.example", "a.test"]), "nodata")]);
}

#[test]
fn section_5_6_the_longest_prefix_goes_first() {
    let zones = read(&behind_head(
        "8.0.0.0.10.rpz-ip CNAME .\n16.0.0.1.10.rpz-ip CNAME *.\n103.zz.db8.2001.rpz-ip CNAME \
         rpz-drop.\n\
         8.0.0.0.10.rpz-nsip CNAME .\n16.0.0.1.10.rpz-nsip CNAME *.\n",
    ));
    check(
        &zones,
        &[
            (Answer(&["10.1.0.1"]), "nodata"),
            (Answer(&["10.2.0.1"]), "nxdomain"),
            (Answer(&["10.2.0.1", "10.1.0.1"]), "nodata"),
            // 96 + 8 is more than 103, and so is 96 + 16.
            (Answer(&["2001:db8::1", "10.2.0.1"]), "nxdomain"),
            (Answer(&["2001:db8::1"]), "drop"),
            (ServerAddresses(&["10.2.0.1", "10.1.0.1"]), "nodata"),
        ],
    );
}

#[test]
fn section_5_7_the_smaller_address_goes_first() {
    let zones = read(&behind_head(
        "25.0.2.0.192.rpz-ip CNAME most.example.com.\n25.128.2.0.192.rpz-ip CNAME \
         middle.example.com.\n\
         121.280.c000.zz.db8.2001.rpz-ip CNAME least.example.com.\n",
    ));
    let least = "2001:db8::c000:281";
    assert_eq!(find(&zones, Answer(&["2001:db8::c000:281"])).unwrap().line, 7, "{least}");
    check(
        &zones,
        &[
            (
                Answer(&["2001:db8::c000:281", "192.0.2.129", "192.0.2.1"]),
                "alias most.example.com.",
            ),
            (Answer(&["2001:db8::c000:281", "192.0.2.129"]), "alias middle.example.com."),
            (Answer(&["192.0.2.129", "2001:db8::c000:281"]), "alias middle.example.com."),
            (Answer(&["2001:db8::c000:281"]), "alias least.example.com."),
        ],
    );
}

#[test]
fn section_10_the_first_way_to_write_passthru() {
    let zones = read(&behind_head("ok.example.com CNAME ok.example.com.\n*.example.com CNAME .\n"));
    check(&zones, &[(Name("ok.example.com"), "passthru"), (Name("bad.example.com"), "nxdomain")]);
}

#[test]
fn appendix_a() {
    let zones = read(&behind_head(
        "bad.example.com MX 0 wgmail.example.net.\nbad.example.com A \
         192.0.2.66\n*.bad.example.com MX 0 wgmail.example.net.\n\
         *.bad.example.com A 192.0.2.66\n",
    ));
    for name in [Name("bad.example.com"), Name("x.bad.example.com")] {
        let action = find(&zones, name).unwrap().action;
        assert_eq!(data(action, Rtype::MX), "MX 0 wgmail.example.net.");
        assert_eq!(data(action, Rtype::A), "A 192.0.2.66");
        assert_eq!(data(action, Rtype::AAAA), "nodata");
    }
}

/// The extended example, without its comments.
const EXTENDED: &str = r#"
    $ORIGIN rpz.example.net.
$TTL 1H
@                   SOA LOCALHOST. named-mgr.example.net. (
                                        1 1h 15m 30d 2h)
                    NS LOCALHOST.
nxdomain.example.com        CNAME   .       ; NXDOMAIN policy
nodata.example.com          CNAME   *.      ; NODATA policy
bad.example.com             A       10.0.0.1
                            AAAA    2001:db8::1
*.azone.example.com         CNAME   garden.example.net.
ok.azone.example.com        CNAME   rpz-passthru.
bzone.example.com           CNAME   *.garden.example.net.
*.bzone.example.com         CNAME   *.garden.example.net.
24.0.2.0.192.rpz-ip         CNAME   .
32.1.2.0.192.rpz-ip         CNAME   rpz-passthru.
ns.example.com.rpz-nsdname  CNAME   .
32.zz.db8.2001.rpz-nsip     CNAME   .
25.128.2.0.192.rpz-ip       A       172.16.0.1
25.128.2.0.192.rpz-ip       A       172.16.0.2
25.128.2.0.192.rpz-ip       A       172.16.0.3
25.128.2.0.192.rpz-ip       MX      10 mx1.example.com
25.128.2.0.192.rpz-ip       MX      20 mx2.example.com
25.128.2.0.192.rpz-ip       TXT     "Contact Central Services"
25.128.2.0.192.rpz-ip       TXT     "Your system is infected."
"#;

#[test]
fn appendix_a_the_extended_example() {
    let zones = read(EXTENDED.trim_start());
    check(
        &zones,
        &[
            (Name("nxdomain.example.com"), "nxdomain"),
            (Name("nodata.example.com"), "nodata"),
            (Name("bad.example.com"), "A 10.0.0.1"),
            (Name("x.azone.example.com"), "alias garden.example.net."),
            (Name("azone.example.com"), "-"),
            (Name("ok.azone.example.com"), "passthru"),
            (Name("bzone.example.com"), "alias bzone.example.com.garden.example.net."),
            (Name("x.bzone.example.com"), "alias x.bzone.example.com.garden.example.net."),
            (Answer(&["192.0.2.2"]), "nxdomain"),
            (Answer(&["192.0.2.2", "192.0.2.1"]), "passthru"),
            (Answer(&["192.0.2.200"]), "A 172.16.0.1, A 172.16.0.2, A 172.16.0.3"),
            (Servers(&["ns.example.com"]), "nxdomain"),
            (ServerAddresses(&["2001:db8:ffff::53"]), "nxdomain"),
        ],
    );
    let action = find(&zones, Answer(&["192.0.2.200"])).unwrap().action;
    assert_eq!(
        data(action, Rtype::MX),
        "MX 10 mx1.example.com.rpz.example.net., MX 20 mx2.example.com.rpz.example.net."
    );
    assert_eq!(
        data(action, Rtype::TXT),
        "TXT \"Contact Central Services\", TXT \"Your system is infected.\""
    );
    assert_eq!(data(action, Rtype::ANY).split(", ").count(), 7);
    assert_eq!(
        data(find(&zones, Name("bad.example.com")).unwrap().action, Rtype::AAAA),
        "AAAA 2001:db8::1"
    );
}
