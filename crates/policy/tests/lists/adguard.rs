//! What the documents of AdGuard say of their rules for DNS, case by case.

use std::net::IpAddr;

use avocet_policy::list::{Asker, Format, Image, ListSet};

use crate::material::{ask, ask_as, image, list};

fn rules(text: &str) -> Image {
    image(&[(Format::Adblock, text)])
}

#[track_caller]
fn check(text: &str, name: &str, expected: &str) {
    assert_eq!(ask(&rules(text), name), expected, "{text} {name}");
}

#[test]
fn anchors_and_wildcards() {
    check("||example.org^", "example.org", "Blocked 0:1");
    check("||example.org^", "www.example.org", "Blocked 0:1");
    check("||example.org^", "badexample.org", "None");
    check("ample.org|", "example.org", "Blocked 0:1");
    check("ample.org|", "example.org.com", "None");
    check("|example", "example.org", "Blocked 0:1");
    check("|example", "test.example", "None");
    check("example.org", "example.org", "Blocked 0:1");
    check("example.org", "www.example.org", "None");
    check("*.example.org", "www.example.org", "Blocked 0:1");
    check("||ad*.example.org^", "adserver.example.org", "Blocked 0:1");
    check("||ad*.example.org^", "badserver.example.org", "None");
    check("/example.*/", "test.example.com", "Blocked 0:1");
}

#[test]
fn exceptions_and_importance() {
    let all = "||example.org^\n@@||ok.example.org^\n||bad.ok.example.org^$important\n@@||fine.bad.ok.example.org^$important\n";
    check(all, "example.org", "Blocked 0:1");
    check(all, "ok.example.org", "Allowed 0:1 0:2");
    check(all, "bad.ok.example.org", "Blocked! 0:1 0:2 0:3");
    check(all, "fine.bad.ok.example.org", "Allowed! 0:1 0:2 0:3 0:4");
}

#[test]
fn badfilter_switches_off_what_is_equal_but_for_it() {
    check("||example.org^\n||example.org^$badfilter", "example.org", "None");
    check("||example.org^$important\n||example.org^$badfilter", "example.org", "Blocked! 0:1");
    check("||example.org^$important\n||example.org^$important,badfilter", "example.org", "None");
    check("@@||example.org^\n||example.org^$badfilter", "example.org", "Allowed 0:1");
    check("||example.org^$dnstype=A\n||example.org^$badfilter,dnstype=A", "example.org", "None");
    check("/ads[0-9]/\n/ads[0-9]/$badfilter", "ads1.example", "None");
    let two = image(&[(Format::Adblock, "||example.org^"), (Format::Adblock, "||example.org^$badfilter")]);
    assert_eq!(ask(&two, "example.org"), "None");
    let first_only = ListSet::from_iter([list(0)]);
    assert_eq!(ask_as(&two, "example.org", "A", Asker::default(), &first_only), "Blocked 0:1");
}

#[test]
fn dnstype_asks_for_a_type_or_for_others() {
    let image = rules("||a.example^$dnstype=AAAA\n||b.example^$dnstype=~A|~CNAME\n||c.example^$dnstype=HTTPS|SVCB");
    let ask = |name, rtype| ask_as(&image, name, rtype, Asker::default(), &ListSet::ALL);
    assert_eq!(ask("a.example", "AAAA"), "Blocked 0:1");
    assert_eq!(ask("a.example", "A"), "None");
    assert_eq!(ask("b.example", "A"), "None");
    assert_eq!(ask("b.example", "TXT"), "Blocked 0:2");
    assert_eq!(ask("c.example", "HTTPS"), "Blocked 0:3");
}

#[test]
fn denyallow_leaves_names_out() {
    let image = rules("*$denyallow=com|net\n@@*$denyallow=org\n");
    assert_eq!(ask(&image, "example.com"), "Allowed 0:2");
    assert_eq!(ask(&image, "example.org"), "Blocked 0:1");
    let image = rules("||example.org^$denyallow=sub.example.org");
    assert_eq!(ask(&image, "www.example.org"), "Blocked 0:1");
    assert_eq!(ask(&image, "sub.example.org"), "None");
    assert_eq!(ask(&image, "a.sub.example.org"), "None");
    assert_eq!(ask(&image, "asub.example.org"), "Blocked 0:1");
}

#[test]
fn clients_are_addresses_networks_or_names_and_tags_are_theirs() {
    let image = rules(
        "@@||a.example^$client=127.0.0.1\n||a.example^$client='Frank\\'s laptop'\n||b.example^$client=~'Mary\\'s'\n\
         ||c.example^$client=192.168.0.0/24\n||d.example^$ctag=device_pc|device_phone\n||e.example^$ctag=~device_phone\n",
    );
    let ask = |name, address: &str, named: &[&str], tags: &[&str]| {
        let [names, tags] = [named, tags].map(|all| all.iter().map(|one| (*one).into()).collect::<Vec<Box<str>>>());
        let asker = Asker { address: address.parse::<IpAddr>().ok(), names: &names, tags: &tags };
        ask_as(&image, name, "A", asker, &ListSet::ALL)
    };
    assert_eq!(ask("a.example", "127.0.0.1", &["Frank's laptop"], &[]), "Allowed 0:1 0:2");
    assert_eq!(ask("a.example", "127.0.0.2", &["frank's LAPTOP"], &[]), "Blocked 0:2");
    assert_eq!(ask("a.example", "127.0.0.2", &[], &[]), "None");
    assert_eq!(ask("b.example", "", &["Mary's"], &[]), "None");
    assert_eq!(ask("b.example", "", &["John's"], &[]), "Blocked 0:3");
    assert_eq!(ask("c.example", "192.168.0.99", &[], &[]), "Blocked 0:4");
    assert_eq!(ask("c.example", "192.168.1.99", &[], &[]), "None");
    assert_eq!(ask("d.example", "", &[], &["device_phone"]), "Blocked 0:5");
    assert_eq!(ask("d.example", "", &[], &["device_tv"]), "None");
    assert_eq!(ask("e.example", "", &[], &["device_phone"]), "None");
    assert_eq!(ask("e.example", "", &[], &[]), "Blocked 0:6");
}

#[test]
fn rewrites_go_before_plain_exceptions_and_are_taken_away_by_their_own() {
    check("||a.example^$dnsrewrite=1.2.3.4", "a.example", "Rewritten 0:1 -> A 1.2.3.4");
    check("||a.example^$dnsrewrite=1.2.3.4\n@@||a.example^", "a.example", "Rewritten 0:1 0:2 -> A 1.2.3.4");
    check("||a.example^$dnsrewrite=1.2.3.4\n@@||a.example^$dnsrewrite", "a.example", "None 0:1 0:2");
    check(
        "||a.example^$dnsrewrite=1.2.3.4\n||a.example^$dnsrewrite=1.2.3.5\n@@||a.example^$dnsrewrite=1.2.3.4",
        "a.example",
        "Rewritten 0:1 0:2 0:3 -> A 1.2.3.5",
    );
    check(
        "||a.example^$dnsrewrite=1.2.3.4\n||a.example^$dnsrewrite=b.example",
        "a.example",
        "Rewritten 0:1 0:2 -> CNAME b.example.",
    );
    check(
        "|a.example^$dnsrewrite=REFUSED\n||a.example^$dnsrewrite=b.example",
        "a.example",
        "Rewritten 0:1 0:2 -> REFUSED",
    );
    check("||a.example^\n||a.example^$dnsrewrite=NOERROR;;", "a.example", "Rewritten 0:1 0:2 -> NOERROR");
}

#[test]
fn lines_of_hosts_files_block_or_answer() {
    check("0.0.0.0 a.example", "a.example", "Blocked 0:1");
    check("1.2.3.4 a.example", "a.example", "Rewritten 0:1 -> A 1.2.3.4");
    check("1.2.3.4 a.example", "www.a.example", "None");
    check("1.2.3.4 a.example\n||a.example^", "a.example", "Rewritten 0:1 0:2 -> A 1.2.3.4");
    check("1.2.3.4 a.example\n@@||a.example^", "a.example", "Allowed 0:1 0:2");
}
