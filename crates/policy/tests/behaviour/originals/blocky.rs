//! blocky's `docs/configuration.md`, "Definition black and whitelists" and the sections on
//! wildcards and regular expressions, at commit db7b4073.

use avocet_policy::list::Format::{Domains, Hosts, Wildcards};

use crate::originals::asking::{broken, check, check_all, passed_over};

#[test]
fn a_list_is_a_hosts_file_or_has_a_domain_a_wildcard_or_an_expression_a_line() {
    check(Hosts, &[("0.0.0.0 someadsdomain.com\n", "someadsdomain.com", "blocked")]);
    let inline = "# inline definition\nsomeadsdomain.com\nanotheradsdomain.com\n\
        *.wildcard.example.com # blocks wildcard.example.com and all \
        subdomains\n/^banners?[_.-]/\n";
    check_all(
        Domains,
        inline,
        &[
            ("someadsdomain.com", "blocked"),
            ("www.someadsdomain.com", "-"),
            ("anotheradsdomain.com", "blocked"),
            ("wildcard.example.com", "blocked"),
            ("a.b.wildcard.example.com", "blocked"),
            ("example.com", "-"),
            ("banner.example", "blocked"),
            ("banners-1.example", "blocked"),
            ("a.banner.example", "-"),
        ],
    );
    passed_over(Domains, &["# inline definition"]);
}

#[test]
fn wildcards_are_a_domain_and_all_below_it() {
    for format in [Domains, Wildcards] {
        check_all(
            format,
            "*.example.com",
            &[
                ("example.com", "blocked"),
                ("any.subdomains.example.com", "blocked"),
                ("notexample.com", "-"),
                ("com", "-"),
            ],
        );
    }
}

#[test]
fn expressions_are_between_slashes_and_match_anywhere() {
    for format in [Domains, Wildcards] {
        check_all(
            format,
            "/baddomain/",
            &[
                ("www.baddomain.com", "blocked"),
                ("baddomain.com", "blocked"),
                ("mybaddomain-sometext.com", "blocked"),
                ("domain.com", "-"),
            ],
        );
        check_all(
            format,
            "/^baddomain/",
            &[("baddomain.com", "blocked"), ("www.baddomain.com", "-")],
        );
        check_all(
            format,
            r"/^apple\.(de|com)$/",
            &[
                ("apple.de", "blocked"),
                ("apple.com", "blocked"),
                ("apple.org", "-"),
                ("www.apple.com", "-"),
            ],
        );
    }
    broken(
        Domains,
        &[
            ("/.*/", "the line matches every name"),
            ("/(/", "the regular expression is wrong: unclosed group"),
            ("/no-end", "'/' is not a valid character in a host name"),
        ],
    );
}
