//! The lines that Pi-hole reads from a subscribed list: `src/tools/gravity-parseList.c` of FTL at
//! commit 04742405, after `gravity.sh` of version 6 has removed comments.

use avocet_policy::list::Format::{Adblock, Domains, Hosts};

use crate::originals::asking::{broken, check, check_all, passed_over};

#[test]
fn exact_domains() {
    check(
        Domains,
        &[
            ("example.com", "example.com", "blocked"),
            ("example.com", "www.example.com", "-"),
            ("EXAMPLE.com", "example.com", "blocked"),
            ("example.com.", "example.com", "blocked"),
            ("a_b-c.1.example", "a_b-c.1.example", "blocked"),
            ("example.com\r", "example.com", "blocked"),
            ("\t example.com \t", "example.com", "blocked"),
        ],
    );
    broken(
        Domains,
        &[
            ("localhost1", "the line matches a top-level domain"),
            ("a..example", "a name with an empty label"),
            ("exam ple.com", "' ' is not a valid character in a host name"),
            ("a\u{202e}b.example", "an invalid internationalised name"),
            ("example.com/path", "'/' is not a valid character in a host name"),
            ("192.0.2.1", "an address where a name is expected"),
        ],
    );
    // Pi-hole rejects names in Unicode; the A-label is the same name.
    check(Domains, &[("b\u{fc}cher.example", "xn--bcher-kva.example", "blocked")]);
}

#[test]
fn a_list_of_domains_may_have_lines_of_a_hosts_file_and_the_other_way_round() {
    let mixed = "0.0.0.0 a.example\nb.example\n:: c.example # x\n127.0.0.1 localhost\n";
    for format in [Domains, Hosts] {
        check_all(
            format,
            mixed,
            &[
                ("a.example", "blocked"),
                ("b.example", "blocked"),
                ("www.b.example", "-"),
                ("c.example", "blocked"),
            ],
        );
    }
}

#[test]
fn rules_of_adblock_for_a_domain_and_all_below_it() {
    check(
        Adblock,
        &[
            ("||example.com^", "a.b.example.com", "blocked"),
            ("||example.com^", "example.com", "blocked"),
            // One label is enough here.
            ("||zip^", "a.zip", "blocked"),
            ("||com^\n@@||example.com^", "example.com", "allowed"),
            ("||com^\n@@||example.com^", "www.example.com", "allowed"),
        ],
    );
}

#[test]
fn comments_headers_and_cosmetic_rules_are_left_out() {
    passed_over(
        Adblock,
        &[
            "# comment",
            "! comment",
            "[Adblock Plus 2.0]",
            "example.com##.ad",
            "example.com#@#.ad",
            "example.com#?#.ad",
            "example.com#$#.ad { }",
            "example.com#%#window.ad = 1",
        ],
    );
    check(
        Domains,
        &[
            ("example.com # why", "example.com", "blocked"),
            ("example.com\t#why", "example.com", "blocked"),
        ],
    );
    passed_over(Domains, &["# comment", "! comment", "; comment"]);
    // Without a blank, the mark may belong to a cosmetic rule, which concerns pages of the domain,
    // not its name.
    broken(Domains, &[("example.com##.ad", "'#' is not a valid character in a host name")]);
}
