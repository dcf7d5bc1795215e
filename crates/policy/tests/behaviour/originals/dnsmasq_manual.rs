//! dnsmasq(8) of version 2.90, `--address`, `--server` and `--local`.

use avocet_policy::list::Format::Dnsmasq;

use crate::originals::asking::{broken, check, check_all};

#[test]
fn domains_are_matched_by_whole_labels() {
    check_all(
        Dnsmasq,
        "server=/google.com/",
        &[("google.com", "blocked"), ("www.google.com", "blocked"), ("supergoogle.com", "-")],
    );
    check_all(
        Dnsmasq,
        "server=/*google.com/",
        &[
            ("google.com", "blocked"),
            ("www.google.com", "blocked"),
            ("supergoogle.com", "blocked"),
            ("google.org", "-"),
        ],
    );
    check_all(
        Dnsmasq,
        "server=/.google.com/",
        &[("google.com", "blocked"), ("www.google.com", "blocked")],
    );
    check_all(
        Dnsmasq,
        "server=/*.google.com/",
        &[("google.com", "-"), ("www.google.com", "blocked")],
    );
    broken(Dnsmasq, &[("server=/goo*gle.com/", "'*' is not a valid character in a host name")]);
}

#[test]
fn the_form_without_a_star_goes_before_the_one_with_it() {
    check_all(
        Dnsmasq,
        "server=/google.com/#\naddress=/*google.com/",
        &[("google.com", "allowed"), ("www.google.com", "allowed"), ("supergoogle.com", "blocked")],
    );
}

#[test]
fn the_standard_servers_take_names_out_of_a_domain() {
    check_all(
        Dnsmasq,
        "server=/google.com/\nserver=/www.google.com/#",
        &[
            ("google.com", "blocked"),
            ("www.google.com", "allowed"),
            ("a.www.google.com", "allowed"),
        ],
    );
    // dnsmasq uses the more specific domain; here an exception applies to all subdomains,
    // regardless of the order of lines.
    check_all(
        Dnsmasq,
        "server=/google.com/#\naddress=/ads.google.com/",
        &[("google.com", "allowed"), ("ads.google.com", "allowed")],
    );
}

#[test]
fn a_domain_without_a_server_is_never_forwarded() {
    for option in ["server", "local", "address", "--local"] {
        let line = format!("{option}=/example.com/");
        check_all(
            Dnsmasq,
            &line,
            &[("example.com", "blocked"), ("a.b.example.com AAAA", "blocked"), ("com", "-")],
        );
    }
    // Lists cannot set a server for a domain.
    broken(
        Dnsmasq,
        &[
            (
                "server=/internal.thekelleys.org.uk/192.168.1.1",
                "forwarding belongs in the configuration, not in a list",
            ),
            ("server=//", "the line matches every name"),
            ("server=1.2.3.4", "expected /name/ after the option"),
        ],
    );
}

#[test]
fn addresses_are_returned_for_any_host_in_the_domains() {
    check(
        Dnsmasq,
        &[
            ("address=/example.com/1.2.3.4", "example.com", "=A 1.2.3.4"),
            ("address=/example.com/1.2.3.4", "a.b.example.com", "=A 1.2.3.4"),
            ("address=/example.com/2001:db8::1", "example.com AAAA", "=AAAA 2001:db8::1"),
            ("address=/a.example/b.example/1.2.3.4", "x.a.example", "=A 1.2.3.4"),
            ("address=/a.example/b.example/1.2.3.4", "x.b.example", "=A 1.2.3.4"),
            // Several addresses, and both families, need several lines.
            (
                "address=/a.example/1.2.3.4\naddress=/a.example/1.2.3.5",
                "a.example",
                "=A 1.2.3.4 =A 1.2.3.5",
            ),
            (
                "address=/a.example/1.2.3.4\naddress=/a.example/2001:db8::1",
                "a.example AAAA",
                "=AAAA 2001:db8::1",
            ),
            // As in dnsmasq before 2.86: other types have no data and are not forwarded.
            ("address=/example.com/1.2.3.4", "example.com MX", "=NODATA"),
            ("address=/example.com/1.2.3.4\nlocal=/example.com/", "example.com MX", "=NODATA"),
        ],
    );
}

#[test]
fn a_more_specific_domain_has_an_address_of_its_own() {
    check_all(
        Dnsmasq,
        "address=/google.com/1.2.3.4\naddress=/www.google.com/2.3.4.5",
        &[
            ("google.com", "=A 1.2.3.4"),
            ("gmail.google.com", "=A 1.2.3.4"),
            ("www.google.com", "=A 2.3.4.5"),
        ],
    );
}

#[test]
fn null_addresses_block() {
    for address in ["#", "0.0.0.0", "::", ""] {
        let line = format!("address=/example.com/{address}");
        check_all(
            Dnsmasq,
            &line,
            &[("example.com", "blocked"), ("www.example.com AAAA", "blocked")],
        );
    }
}

#[test]
fn any_domain_is_more_than_a_list_may_say() {
    broken(
        Dnsmasq,
        &[
            ("address=/#/1.2.3.4", "the line matches every name"),
            ("address=/#/", "the line matches every name"),
            ("local=/*/", "the line matches every name"),
        ],
    );
}
