//! Several lists in one image: lists in force, and the lines about each name.

use avocet_policy::list::{Asker, Compiler, Format, Image, Kind, ListSet, MAX_LISTS};

use crate::lists::material::{SECRET, ask, ask_as, image, list, read, source};

#[test]
fn a_name_is_blocked_as_far_as_its_list_says() {
    let image = image(&[
        (Format::Hosts, "0.0.0.0 alone.example\n"),
        (Format::Wildcards, "*.tree.example\n"),
        (Format::Adblock, "||*.below.example^\n"),
    ]);
    assert_eq!(ask(&image, "alone.example"), "Blocked 0:1");
    assert_eq!(ask(&image, "www.alone.example"), "None");
    assert_eq!(ask(&image, "tree.example"), "Blocked 1:1");
    assert_eq!(ask(&image, "a.b.tree.example"), "Blocked 1:1");
    assert_eq!(ask(&image, "below.example"), "None");
    assert_eq!(ask(&image, "a.below.example"), "Blocked 2:1");
    assert_eq!(ask(&image, "example"), "None");
    assert_eq!(ask(&image, "xtree.example"), "None");
    assert_eq!(ask(&image, ""), "None");
}

#[test]
fn every_line_of_every_list_is_kept() {
    let image = image(&[
        (Format::Domains, "x.example\na.example\nx.example\n"),
        (Format::Hosts, "# one\n0.0.0.0 x.example\n"),
        (Format::Adblock, "||example^\n||x.example^\n"),
        (Format::Dnsmasq, "address=/x.example/\n"),
        (Format::Unbound, "local-zone: \"x.example\" refuse\n"),
        (Format::PiholeRegex, "^x\\.\n"),
    ]);
    assert_eq!(ask(&image, "x.example"), "Blocked 2:1 0:1 0:3 1:2 2:2 3:1 4:1 5:1");
    assert_eq!(ask(&image, "a.example"), "Blocked 2:1 0:2");
    assert_eq!(image.names(), 3);
}

#[test]
fn only_lists_in_force_have_a_say() {
    let image = image(&[(Format::Domains, "x.example\n"), (Format::Domains, "x.example\n")]);
    let ask = |in_force: &ListSet| ask_as(&image, "x.example", "A", Asker::default(), in_force);
    assert_eq!(ask(&ListSet::EMPTY), "None");
    assert_eq!(ask(&ListSet::from_iter([list(1)])), "Blocked 1:1");
    assert_eq!(ask(&ListSet::from_iter([list(0), list(9)])), "Blocked 0:1");
}

#[test]
fn a_list_of_allowed_names_beats_blocks_that_are_not_important() {
    let mut compiler = Compiler::new(SECRET);
    let block = "||a.example^\n||b.example^$important\n||c.example^$dnsrewrite=192.0.2.1\n";
    let _ = read(&mut compiler, source(0, Kind::Block, Some(Format::Adblock)), block.as_bytes(), 9);
    let _ = read(
        &mut compiler,
        source(1, Kind::Allow, None),
        b"*.a.example\n*.b.example\n*.c.example",
        9,
    );
    let image = Image::open(compiler.finish().0).unwrap();
    assert_eq!(ask(&image, "www.a.example"), "Allowed 0:1 1:1");
    assert_eq!(ask(&image, "www.b.example"), "Blocked! 0:2 1:2");
    assert_eq!(ask(&image, "www.c.example"), "Allowed 0:3 1:3");
}

#[test]
fn the_largest_number_of_lists_is_distinguished() {
    let mut compiler = Compiler::new(SECRET);
    for place in 0..MAX_LISTS {
        let text = format!("own{place}.example\nall.example\n");
        let _ = read(&mut compiler, source(place, Kind::Block, None), text.as_bytes(), 100);
    }
    let (octets, summary) = compiler.finish();
    let image = Image::open(octets).unwrap();
    assert_eq!((summary.names, summary.repeats), (MAX_LISTS as u64 + 1, 0));
    assert_eq!(ask(&image, "own255.example"), "Blocked 255:1");
    assert_eq!(ask(&image, "all.example").split(' ').count(), MAX_LISTS + 1);
}

#[test]
fn every_matching_line_is_shown() {
    let all = "||example.org^\n@@||ok.example.org^\n||bad.ok.example.org^$important\n@@||fine.bad.ok.example.org^$important\n";
    let image = image(&[(Format::Adblock, all)]);
    assert_eq!(ask(&image, "example.org"), "Blocked 0:1");
    assert_eq!(ask(&image, "ok.example.org"), "Allowed 0:1 0:2");
    assert_eq!(ask(&image, "bad.ok.example.org"), "Blocked! 0:1 0:2 0:3");
    assert_eq!(ask(&image, "fine.bad.ok.example.org"), "Allowed! 0:1 0:2 0:3 0:4");
}

#[test]
fn a_rule_is_switched_off_by_whatever_list_is_in_force() {
    let image = image(&[
        (Format::Adblock, "||example.org^\n/ads[0-9]/\n||b.example^$dnstype=A\n"),
        (
            Format::Adblock,
            "||example.org^$badfilter\n/ads[0-9]/$badfilter\n||b.example^$badfilter,dnstype=A\n",
        ),
    ]);
    let first_only = ListSet::from_iter([list(0)]);
    for (name, alone) in [
        ("example.org", "Blocked 0:1"),
        ("ads1.example", "Blocked 0:2"),
        ("b.example", "Blocked 0:3"),
    ] {
        assert_eq!(ask(&image, name), "None");
        assert_eq!(ask_as(&image, name, "A", Asker::default(), &first_only), alone);
    }
}

#[test]
fn clients_are_known_by_name_in_any_case() {
    let image = image(&[(
        Format::Adblock,
        "@@||a.example^$client=127.0.0.1\n||a.example^$client='Frank\\'s laptop'\n",
    )]);
    let names: [Box<str>; 1] = ["frank's LAPTOP".into()];
    let asker = |address: &str| Asker { address: address.parse().ok(), names: &names, tags: &[] };
    assert_eq!(ask_as(&image, "a.example", "A", asker("127.0.0.2"), &ListSet::ALL), "Blocked 0:2");
    assert_eq!(
        ask_as(&image, "a.example", "A", asker("127.0.0.1"), &ListSet::ALL),
        "Allowed 0:1 0:2"
    );
}

#[test]
fn of_given_answers_that_for_the_closest_name_holds_and_those_for_one_name_hold_together() {
    let image = image(&[
        (
            Format::Dnsmasq,
            "address=/a.example/192.0.2.1\naddress=/*b.a.example/192.0.2.2\naddress=/b.a.example/192.0.2.3\n",
        ),
        (Format::Hosts, "192.0.2.4 b.a.example\n192.0.2.5 c.b.a.example\n"),
        (Format::Dnsmasq, "server=/d.b.a.example/#\n"),
    ]);
    assert_eq!(ask(&image, "a.example"), "Rewritten 0:1 -> A 192.0.2.1");
    assert_eq!(ask(&image, "b.a.example"), "Rewritten 0:1 0:3 1:1 0:2 -> A 192.0.2.3");
    assert_eq!(ask(&image, "c.b.a.example"), "Rewritten 0:1 0:3 1:2 0:2 -> A 192.0.2.5");
    assert_eq!(ask(&image, "xb.a.example"), "Rewritten 0:1 0:2 -> A 192.0.2.1");
    assert_eq!(ask(&image, "d.b.a.example"), "Allowed 0:1 0:3 2:1 0:2");
}
