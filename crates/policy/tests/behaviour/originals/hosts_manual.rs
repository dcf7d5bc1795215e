//! hosts(5) of the Linux man-pages 6.03, of 2022-10-30, and extensions in published lists.

use avocet_policy::list::Format::{Adblock, Hosts};

use crate::originals::asking::{broken, check, check_all, passed_over};

#[test]
fn an_address_and_names_divided_by_any_blanks_and_tabs() {
    check_all(
        Hosts,
        "192.0.2.1\t \tfoo.example  foo \t bar.example\n2001:db8::1 foo.example\n",
        &[
            ("foo.example", "=A 192.0.2.1"),
            // Both IP versions may have a line.
            ("foo.example AAAA", "=AAAA 2001:db8::1"),
            ("foo", "=A 192.0.2.1"),
            ("bar.example", "=A 192.0.2.1"),
            ("www.bar.example", "-"),
        ],
    );
    check(Hosts, &[("  \t127.0.0.1 a.example", "a.example", "blocked")]);
}

#[test]
fn text_from_a_hash_to_the_end_of_the_line_is_a_comment() {
    for format in [Hosts, Adblock] {
        check(
            format,
            &[
                ("0.0.0.0 a.example # b.example", "a.example", "blocked"),
                ("0.0.0.0 a.example # b.example", "b.example", "-"),
                ("0.0.0.0 a.example #b.example", "a.example", "blocked"),
                ("0.0.0.0 a.example#b.example", "a.example", "blocked"),
                ("0.0.0.0 a.example#b.example", "b.example", "-"),
                ("0.0.0.0 a.example## b.example", "a.example", "blocked"),
                ("192.0.2.1 a.example b.example#", "b.example", "=A 192.0.2.1"),
            ],
        );
    }
    passed_over(Hosts, &["# 0.0.0.0 a.example", "#0.0.0.0 a.example", "\t # x", "\n"]);
    broken(
        Hosts,
        &[
            ("0.0.0.0 # a.example", "an address without a name"),
            ("0.0.0.0#x", "an address without a name"),
        ],
    );
}

#[test]
fn names_have_letters_digits_hyphens_and_dots() {
    check(
        Hosts,
        &[
            ("0.0.0.0 a-1.b2.example", "a-1.b2.example", "blocked"),
            // Accepted although the page requires a letter first: such names exist (RFC 1123 §2.1),
            // also with underscores.
            ("0.0.0.0 1a.example", "1a.example", "blocked"),
            ("0.0.0.0 a_b.example", "a_b.example", "blocked"),
            ("0.0.0.0 Example.ORG.", "example.org", "blocked"),
        ],
    );
    broken(Hosts, &[("0.0.0.0 a,b.example", "',' is not a valid character in a host name")]);
}

#[test]
fn generic_names_of_the_machine_block_nothing() {
    passed_over(
        Hosts,
        &[
            "127.0.0.1 localhost",
            "127.0.0.1 localhost.localdomain",
            "127.0.0.1 local",
            "255.255.255.255 broadcasthost",
            "::1 localhost ip6-localhost ip6-loopback",
            "fe80::1%lo0 localhost",
            "ff00::0 ip6-localnet",
            "ff00::0 ip6-mcastprefix",
            "ff02::1 ip6-allnodes",
            "ff02::2 ip6-allrouters",
            "ff02::3 ip6-allhosts",
            "0.0.0.0 0.0.0.0",
        ],
    );
    // Debian writes this line for the machine's own name. A name of one label with a loopback
    // address could be a top-level domain.
    broken(Hosts, &[("127.0.1.1 mymachine", "the line matches a top-level domain")]);
}
