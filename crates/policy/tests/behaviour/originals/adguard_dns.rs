//! AdGuard's "DNS filtering rules syntax": `docs/general/dns-filtering-syntax.md` of the knowledge
//! base of AdGuard DNS, at commit 11826cce; the page "Hosts Blocklists" of AdGuard Home's wiki says
//! the same.

use avocet_policy::list::Format::{Adblock, Domains, Hosts};

use crate::originals::asking::{
    Who, broken, check, check_all, check_behind, check_who, passed_over,
};

#[test]
fn basic_examples() {
    check(
        Adblock,
        &[
            ("||example.org^", "example.org", "blocked"),
            ("||example.org^", "www.example.org", "blocked"),
            ("||org^\n@@||example.org^", "example.org", "allowed"),
            ("||org^\n@@||example.org^", "www.example.org", "allowed"),
            ("1.2.3.4 example.org", "example.org", "=A 1.2.3.4"),
            ("1.2.3.4 example.org", "www.example.org", "-"),
            ("0.0.0.0 example.org", "example.org", "blocked"),
            ("127.0.0.1 example.org", "example.org", "blocked"),
            ("127.9.9.9 example.org", "example.org", "blocked"),
            ("example.org", "example.org", "blocked"),
            ("example.org", "www.example.org", "-"),
            ("/example[0-9]/", "example7.org", "blocked"),
            ("/example[0-9]/", "example.org", "-"),
        ],
    );
    passed_over(Adblock, &["! Here goes a comment", "# Also a comment"]);
}

#[test]
fn special_characters() {
    check(
        Adblock,
        &[
            // Matches any text, including the empty one.
            ("||exam*ple.org^", "example.org", "blocked"),
            ("||exam*ple.org^", "exam.a.b.ple.org", "blocked"),
            ("||example.org", "example.org", "blocked"),
            ("||example.org", "test.example.org", "blocked"),
            ("||example.org", "testexample.org", "-"),
            // `|` and `^` match only at the end of the name.
            ("||example.org^", "example.org.com", "-"),
            ("ample.org|", "example.org", "blocked"),
            ("ample.org|", "example.org.com", "-"),
            ("|example", "example.org", "blocked"),
            ("|example", "test.example", "-"),
        ],
    );
}

#[test]
fn a_word_alone_is_refused_where_the_original_takes_it_as_a_part_of_names() {
    let reason = "a word alone is a part of too many names: `||word^` is a domain, `*word*` a part";
    broken(Adblock, &[("com", reason), ("adserver", reason), ("@@com", reason)]);
}

#[test]
fn regular_expressions() {
    check(
        Adblock,
        &[
            ("/example.*/", "example.org", "blocked"),
            ("/example.*/", "an.example", "blocked"),
            ("/example.*/", "other.org", "-"),
            ("||example.org^$important\n@@/example.*/$important", "example.org", "allowed"),
        ],
    );
}

#[test]
fn modifiers_follow_the_dollar_and_unknown_ones_invalidate_the_rule() {
    check_who(
        Adblock,
        "||example.org^$client=127.0.0.1,dnstype=A",
        &[
            ("example.org A", Who("127.0.0.1", "", ""), "blocked"),
            ("example.org AAAA", Who("127.0.0.1", "", ""), "-"),
            ("example.org A", Who("127.0.0.2", "", ""), "-"),
        ],
    );
    passed_over(
        Adblock,
        &["||example.org^$third-party", "||example.org^$important,script", "||example.org^$~image"],
    );
    broken(Adblock, &[("||example.org^$nonesuch", "unknown modifier \"nonesuch\"")]);
}

#[test]
fn client() {
    let by_name = |name| Who("192.0.2.1", name, "");
    check_who(
        Adblock,
        "||org^\n@@||*^$client=127.0.0.1",
        &[("a.org", Who("127.0.0.1", "", ""), "allowed"), ("a.org", by_name("x"), "blocked")],
    );
    check_who(
        Adblock,
        r"||example.org^$client='Frank\'s laptop'",
        &[
            ("example.org", by_name("Frank's laptop"), "blocked"),
            ("example.org", by_name("Frank"), "-"),
            ("example.org", by_name(""), "-"),
        ],
    );
    check_who(
        Adblock,
        r"||example.org^$client=~'Mary\'s\, John\'s\, and Boris\'s laptops'",
        &[
            ("example.org", by_name("Mary's, John's, and Boris's laptops"), "-"),
            ("example.org", by_name("Mary's"), "blocked"),
            ("example.org", by_name(""), "blocked"),
        ],
    );
    check_who(
        Adblock,
        "||example.org^$client=~Mom|~Dad|Kids",
        &[
            ("example.org", by_name("Kids"), "blocked"),
            ("example.org", by_name("Mom"), "-"),
            ("example.org", by_name("Dad"), "-"),
        ],
    );
    check_who(
        Adblock,
        "||example.org^$client=192.168.0.0/24",
        &[
            ("example.org", Who("192.168.0.0", "", ""), "blocked"),
            ("example.org", Who("192.168.0.255", "", ""), "blocked"),
            ("example.org", Who("192.168.1.0", "", ""), "-"),
        ],
    );
    // Double quotes work like single ones; a pipe is escaped like a comma.
    check_who(
        Adblock,
        r#"||example.org^$client="Frank\"s \| laptop""#,
        &[("example.org", by_name("Frank\"s | laptop"), "blocked")],
    );
}

#[test]
fn denyallow() {
    check_all(
        Adblock,
        "*$denyallow=com|net",
        &[("example.org", "blocked"), ("example.com", "-"), ("a.example.net", "-"), ("com", "-")],
    );
    check_all(
        Adblock,
        "||example.com^\n||example.org^\n@@*$denyallow=com|net",
        &[("example.org", "allowed"), ("example.com", "blocked")],
    );
    check_all(
        Adblock,
        "||example.org^$denyallow=sub.example.org",
        &[("example.org", "blocked"), ("a.example.org", "blocked"), ("sub.example.org", "-")],
    );
    // The page uses this rule, which blocks everything, to explain denyallow. Lists may not contain
    // it.
    broken(Adblock, &[("/.*/", "the line matches every name")]);
}

#[test]
fn dnstype() {
    check_all(
        Adblock,
        "||example.org^$dnstype=AAAA",
        &[
            ("example.org AAAA", "blocked"),
            ("example.org A", "-"),
            ("www.example.org AAAA", "blocked"),
        ],
    );
    check_all(
        Adblock,
        "||example.org^$dnstype=~A|~CNAME",
        &[("example.org A", "-"), ("example.org CNAME", "-"), ("example.org AAAA", "blocked")],
    );
    // In a mix of both, types with a tilde have no effect.
    for rule in ["||example.org^$dnstype=~A|AAAA", "||example.org^$dnstype=AAAA"] {
        check_all(
            Adblock,
            rule,
            &[("example.org AAAA", "blocked"), ("example.org MX", "-"), ("example.org A", "-")],
        );
    }
    check(Adblock, &[("||example.org^$dnstype=aaaa", "example.org AAAA", "blocked")]);
    broken(
        Adblock,
        &[("||example.org^$dnstype=NONE_SUCH", "invalid value of the modifier \"dnstype\"")],
    );
}

#[test]
fn dnstype_of_the_record_that_leads_to_a_name() {
    let text = "||canon.example.com^$dnstype=~CNAME";
    check_behind(Adblock, text, &[("canon.example.com A", "-"), ("canon.example.com AAAA", "-")]);
    check_all(
        Adblock,
        text,
        &[("canon.example.com CNAME", "-"), ("canon.example.com A", "blocked")],
    );
    check_behind(
        Adblock,
        "||canon.example.com^$dnstype=CNAME",
        &[("canon.example.com A", "blocked")],
    );
    check_behind(Adblock, "||canon.example.com^", &[("canon.example.com A", "blocked")]);
    // The queried type counts as well, as in Pi-hole.
    let text = "||canon.example.com^$dnstype=AAAA";
    check_behind(
        Adblock,
        text,
        &[("canon.example.com AAAA", "blocked"), ("canon.example.com A", "-")],
    );
}

#[test]
fn dnsrewrite_in_its_short_form() {
    check(
        Adblock,
        &[
            ("||a.example^$dnsrewrite=1.2.3.4", "a.example", "=A 1.2.3.4"),
            ("||a.example^$dnsrewrite=1.2.3.4", "a.example AAAA", "=NODATA"),
            ("||a.example^$dnsrewrite=abcd::1234", "a.example AAAA", "=AAAA abcd::1234"),
            ("||a.example^$dnsrewrite=example.net", "a.example", "=CNAME example.net."),
            ("||a.example^$dnsrewrite=REFUSED", "a.example", "=REFUSED"),
            ("||a.example^$dnsrewrite=NXDOMAIN", "a.example", "=NXDOMAIN"),
            ("||a.example^$dnsrewrite=SERVFAIL", "a.example", "=SERVFAIL"),
            ("||a.example^$dnsrewrite=NOERROR", "a.example", "=NODATA"),
            // Keywords are in upper case, so `refused` is a name.
            ("||a.example^$dnsrewrite=refused", "a.example", "=CNAME refused."),
        ],
    );
}

#[test]
fn dnsrewrite_in_its_full_form() {
    check(
        Adblock,
        &[
            ("||example.com^$dnsrewrite=NOERROR;A;1.2.3.4", "example.com", "=A 1.2.3.4"),
            (
                "||example.com^$dnsrewrite=NOERROR;AAAA;abcd::1234",
                "example.com AAAA",
                "=AAAA abcd::1234",
            ),
            (
                "||example.com^$dnsrewrite=NOERROR;CNAME;example.net",
                "example.com",
                "=CNAME example.net.",
            ),
            ("||example.com^$dnsrewrite=REFUSED;;", "example.com", "=REFUSED"),
            ("||example.com^$dnsrewrite=NOERROR;;", "example.com", "=NODATA"),
            ("||example.com^$dnsrewrite=NXDOMAIN;;", "example.com", "=NXDOMAIN"),
            (
                "||4.3.2.1.in-addr.arpa^$dnsrewrite=NOERROR;PTR;example.net.",
                "4.3.2.1.in-addr.arpa PTR",
                "=PTR example.net.",
            ),
            (
                "||example.com^$dnsrewrite=NOERROR;HTTPS;32 example.com alpn=h3",
                "example.com HTTPS",
                "=HTTPS 32 example.com. alpn=\"h3\"",
            ),
            (
                "||example.com^$dnsrewrite=NOERROR;HTTPS;1 . ipv4hint=127.0.0.1",
                "example.com HTTPS",
                "=HTTPS 1 . ipv4hint=127.0.0.1",
            ),
            (
                "||example.com^$dnsrewrite=NOERROR;SVCB;32 example.com alpn=h3",
                "example.com SVCB",
                "=SVCB 32 example.com. alpn=\"h3\"",
            ),
            (
                "||example.com^$dnsrewrite=NOERROR;MX;32 example.mail",
                "example.com MX",
                "=MX 32 example.mail.",
            ),
            (
                "||example.com^$dnsrewrite=NOERROR;TXT;hello_world",
                "example.com TXT",
                "=TXT \"hello_world\"",
            ),
            (
                "||_svctype._tcp.example.com^$dnsrewrite=NOERROR;SRV;10 60 8080 example.com",
                "_svctype._tcp.example.com SRV",
                "=SRV 10 60 8080 example.com.",
            ),
        ],
    );
    check_all(
        Adblock,
        "$dnstype=AAAA,denyallow=example.org,dnsrewrite=NOERROR;;",
        &[("example.com AAAA", "=NODATA"), ("example.org AAAA", "-"), ("example.com A", "-")],
    );
}

#[test]
fn dnsrewrite_goes_before_other_rules_and_exceptions_take_it_away() {
    check(
        Adblock,
        &[
            (
                "||example.com^\n@@||example.com^\n||example.com^$dnsrewrite=1.2.3.4",
                "example.com",
                "=A 1.2.3.4",
            ),
            // According to the page, `important` precedes any rule without it; here it does.
            (
                "@@||example.com^$important\n||example.com^$dnsrewrite=1.2.3.4",
                "example.com",
                "allowed",
            ),
            (
                "||example.com^$important\n||example.com^$dnsrewrite=1.2.3.4",
                "example.com",
                "blocked",
            ),
            (
                "||example.com^$important\n||example.com^$important,dnsrewrite=1.2.3.4",
                "example.com",
                "=A 1.2.3.4",
            ),
            // Keywords first, then aliases, then all records together.
            (
                "||a.example^$dnsrewrite=1.2.3.4\n||a.example^$dnsrewrite=b.example\n||a.example^$dnsrewrite=REFUSED",
                "a.example",
                "=REFUSED",
            ),
            (
                "||a.example^$dnsrewrite=1.2.3.4\n||a.example^$dnsrewrite=NOERROR;CNAME;b.example",
                "a.example",
                "=CNAME b.example.",
            ),
            (
                "||example.com^$dnsrewrite=NOERROR;A;1.2.3.4\n||example.com^$dnsrewrite=NOERROR;A;1.2.3.5",
                "example.com",
                "=A 1.2.3.4 =A 1.2.3.5",
            ),
            ("||example.com^$dnsrewrite=1.2.3.4\n@@||example.com^$dnsrewrite", "example.com", "-"),
            (
                "||example.com^$dnsrewrite=NXDOMAIN;;\n@@||example.com^$dnsrewrite",
                "example.com",
                "-",
            ),
            (
                "||example.com^$dnsrewrite=1.2.3.4\n||example.com^$dnsrewrite=1.2.3.5\n@@||example.com^$dnsrewrite=1.2.3.4",
                "example.com",
                "=A 1.2.3.5",
            ),
        ],
    );
}

#[test]
fn important() {
    check(
        Adblock,
        &[
            ("||example.org^$important\n@@||example.org^", "example.org", "blocked"),
            ("||example.org^$important\n@@||example.org^", "www.example.org", "blocked"),
            ("||example.org^$important\n@@||example.org^$important", "example.org", "allowed"),
        ],
    );
}

#[test]
fn exceptions_from_important_rewrites_are_important() {
    let important = "|a.example^$important,dnsrewrite=1.2.3.4";
    let plain = "|a.example^$dnsrewrite=1.2.3.4";
    for (rule, exception, expected) in [
        (important, "@@||a.example^$dnsrewrite", "=A 1.2.3.4"),
        (important, "@@||a.example^$dnsrewrite=1.2.3.4", "=A 1.2.3.4"),
        (important, "@@||a.example^$important,dnsrewrite", "-"),
        (important, "@@||a.example^$important,dnsrewrite=1.2.3.4", "-"),
        (plain, "@@||a.example^$important,dnsrewrite=1.2.3.4", "-"),
        (plain, "@@||a.example^$dnsrewrite", "-"),
    ] {
        check_all(Adblock, &format!("{rule}\n{exception}"), &[("a.example", expected)]);
    }
}

/// Tests the kinds of rules of AdGuard's own SDN filter and of lists for browsers.
#[test]
fn patterns_of_a_host_as_part_of_an_address() {
    check(
        Adblock,
        &[
            ("||ads.example/*", "ads.example", "blocked"),
            ("||ads.example/", "www.ads.example", "blocked"),
            ("://ads.example^", "ads.example", "blocked"),
            ("://ads.example^", "www.ads.example", "-"),
            ("//ads.example^", "ads.example", "blocked"),
            ("/ads.", "ads.example", "blocked"),
            ("/ads.", "www.ads.example", "-"),
            ("||ads.example/banner", "ads.example", "-"),
            ("_prebid_", "x_prebid_y.example", "blocked"),
            ("_728x90.", "banner_728x90.example", "blocked"),
        ],
    );
}

#[test]
fn badfilter() {
    check(
        Adblock,
        &[
            ("||example.com\n||example.com$badfilter", "example.com", "-"),
            (
                "||example.org^\n@@||example.org^\n@@||example.org^$badfilter",
                "example.org",
                "blocked",
            ),
            ("||example.org^$important\n||example.org^$badfilter", "example.org", "blocked"),
            ("||example.org^$important\n||example.org^$badfilter,important", "example.org", "-"),
            ("example.org\nexample.org$badfilter", "example.org", "-"),
        ],
    );
    // A line of a hosts file cannot be disabled; the attempt is an error.
    broken(
        Adblock,
        &[("127.0.0.1 example.org$badfilter", "'$' is not a valid character in a host name")],
    );
}

#[test]
fn ctag() {
    let tagged = |tag| Who("", "", tag);
    check_who(
        Adblock,
        "||example.org^$ctag=device_pc|device_phone",
        &[
            ("example.org", tagged("device_pc"), "blocked"),
            ("example.org", tagged("device_phone"), "blocked"),
            ("example.org", tagged("device_tv"), "-"),
            ("example.org", tagged(""), "-"),
        ],
    );
    check_who(
        Adblock,
        "||example.org^$ctag=~device_phone",
        &[
            ("example.org", tagged("device_phone"), "-"),
            ("example.org", tagged("user_child"), "blocked"),
        ],
    );
}

#[test]
fn lines_of_hosts_files() {
    let text = "# This is a comment\n127.0.0.1 example.org example.info\n127.0.0.1 example.com\n\
        127.0.0.1 example.net # this is also a comment\n";
    for format in [Adblock, Hosts] {
        check_all(
            format,
            text,
            &[
                ("example.org", "blocked"),
                ("example.info", "blocked"),
                ("example.com", "blocked"),
                ("example.net", "blocked"),
                ("www.example.net", "-"),
                ("comment", "-"),
            ],
        );
    }
    check(Hosts, &[("1.2.3.4\t \texample.org\t\talias", "alias", "=A 1.2.3.4")]);
}

#[test]
fn lists_of_domains() {
    let text =
        "# This is a comment\nexample.com\nexample.org\nexample.net # this is also a comment\n";
    for format in [Adblock, Domains] {
        check_all(
            format,
            text,
            &[("example.com", "blocked"), ("example.net", "blocked"), ("www.example.com", "-")],
        );
    }
    // Text that is not a domain is a rule, and its anchors are those of a rule.
    check_all(
        Adblock,
        "*.example.org",
        &[("www.example.org", "blocked"), ("a.b.example.org", "blocked"), ("example.org", "-")],
    );
}
