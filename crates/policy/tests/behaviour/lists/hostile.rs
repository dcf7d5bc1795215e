//! Texts that are not lists, and hostile lists: bounded work and a clear report.

use std::fmt::Write as _;

use avocet_policy::list::{
    Compiler, Format, Image, Kind, Origin, Reason, Refusal, Report, Rewrites, Source,
};

use crate::lists::material::{SECRET, ask, read, source};

/// Reads one list together with a good list, whose entries must still be found.
fn load(format: Option<Format>, text: &[u8]) -> (Report, Image) {
    let mut compiler = Compiler::new(SECRET);
    let report = read(&mut compiler, source(0, Kind::Block, format), text, 64 << 10);
    let good = read(&mut compiler, source(1, Kind::Block, None), b"good.example\n", 64);
    assert_eq!(good.entries, 1);
    let (octets, _) = compiler.finish();
    let image = Image::open(octets).unwrap();
    assert!(ask(&image, "good.example").starts_with("Blocked"));
    (report, image)
}

#[track_caller]
fn check(format: Option<Format>, text: &[u8], entries: u64, faults: u64, first: &str) {
    let (report, _) = load(format, text);
    let told = report.first_faults.first().map(ToString::to_string).unwrap_or_default();
    assert_eq!(
        (report.entries, report.faults, told.as_str()),
        (entries, faults, first),
        "{report:?}"
    );
}

#[test]
fn a_binary_an_archive_and_a_web_page_are_refused() {
    for (text, refusal) in [
        (&b"\x1f\x8b\x08\0\0\0\0\0"[..], Refusal::Binary),
        (b"\x7fELF\x02\x01\x01\0\0\0", Refusal::Binary),
        (&[0x01; 100_000], Refusal::Binary),
        (b"<!DOCTYPE html><html><body>Please log in</body></html>", Refusal::WebPage),
    ] {
        let (report, _) = load(None, text);
        assert_eq!((report.refusal, report.entries), (Some(refusal), 0));
    }
}

#[test]
fn a_gigabyte_is_read_up_to_the_limit_and_takes_no_memory_for_it() {
    let mut compiler = Compiler::new(SECRET);
    let mut reader = compiler.list(source(0, Kind::Block, Some(Format::Domains)));
    let chunk = [&b"a.example\n"[..], &b"#".repeat((1 << 20) - 11), b"\n"].concat();
    let mut fed = 0;
    while fed < 1024 && reader.feed(&chunk) == avocet_policy::list::Progress::More {
        fed += 1;
    }
    let report = reader.finish();
    assert_eq!((fed, report.refusal), (256, Some(Refusal::TooLarge)));
    assert_eq!(report.entries, 256);
}

#[test]
fn an_endless_line_is_one_fault() {
    check(None, &[b'a'; 5_000_000], 0, 1, "line 1: the line is too long");
    let text = [&b"ok.example\n"[..], &[b'x'; 1_000_000], b"\nfine.example\n"].concat();
    check(Some(Format::Domains), &text, 2, 1, "line 2: the line is too long");
}

#[test]
fn the_root_and_top_level_domains_are_reported_and_not_blocked() {
    check(
        Some(Format::Domains),
        b".\n*\ncom\nnet.\nok.example\n",
        1,
        4,
        "line 1: the line matches every name",
    );
    check(
        Some(Format::Hosts),
        b"0.0.0.0 com\n0.0.0.0 .\n",
        0,
        2,
        "line 1: the line matches a top-level domain",
    );
    check(
        Some(Format::Adblock),
        b"||^\n*\n||*^$important\n",
        0,
        3,
        "line 1: the line matches every name",
    );
    check(Some(Format::Dnsmasq), b"address=/#/\n", 0, 1, "line 1: the line matches every name");
    check(
        Some(Format::Unbound),
        b"local-zone: \".\" refuse\n",
        0,
        1,
        "line 1: the line matches every name",
    );
}

#[test]
fn a_fetched_list_is_about_every_name_only_for_clients_tags_and_types_that_it_names() {
    let fetched = |format, text: &str| {
        let mut compiler = Compiler::new(SECRET);
        let of = Source { origin: Origin::Fetched, ..source(0, Kind::Block, Some(format)) };
        read(&mut compiler, of, text.as_bytes(), 100)
    };
    let every = [
        "||*^$client=~zz",
        "||*^$dnstype=~TYPE65000",
        "||*^$denyallow=zz.invalid",
        "@@||*^$client=~zz,important",
        "@@*$dnstype=~TYPE65000,important",
        "||*^$client=0.0.0.0/0|::/0",
        "/.*/$denyallow=zz.invalid",
        "||*.*^$dnstype=~A",
        "*$ctag=~x",
    ];
    let report = fetched(Format::Adblock, &every.join("\n"));
    assert_eq!((report.entries, report.faults), (0, every.len() as u64), "{report:?}");
    assert!(report.first_faults.iter().all(|fault| fault.reason == Reason::Everything));
    let report =
        fetched(Format::Adblock, "||*^$client=10.0.0.7\n*$dnstype=AAAA\n||*^$ctag=user_child\n");
    assert_eq!((report.entries, report.faults), (3, 0), "{report:?}");
    let report = fetched(
        Format::PiholeRegex,
        ".*;querytype=!A\nexample$;invert\n.*;querytype=OTHER\n.*;querytype=PTR\n",
    );
    assert_eq!((report.entries, report.faults), (1, 3), "{report:?}");
    // Only the operator may block everything except some names.
    let text = b"*$denyallow=com|net\n*$dnstype=~A\n";
    check(Some(Format::Adblock), text, 2, 0, "");
    check(Some(Format::PiholeRegex), b".*;querytype=!A\nexample$;invert\n", 2, 0, "");
}

#[test]
fn the_expressions_that_an_operator_wrote_may_deny_everything_and_give_others_no_permission() {
    let mut compiler = Compiler::new(SECRET);
    let list = |place| source(place, Kind::Block, Some(Format::PiholeRegex));
    let own = |place, rewrites| Source { origin: Origin::Own, rewrites, ..list(place) };
    let fetched = Source { origin: Origin::Fetched, rewrites: Rewrites::Permitted, ..list(2) };
    let mut load = |of, text: &str| {
        let report = read(&mut compiler, of, text.as_bytes(), 100);
        (report.entries, report.faults)
    };
    let text = ".*\n.\n[a-z0-9]\n";
    assert_eq!(load(own(0, Rewrites::Refused), text), (0, 3));
    assert_eq!(load(own(1, Rewrites::Permitted), text), (3, 0));
    assert_eq!(load(fetched, text), (0, 3), "the pattern is known, and still refused");
}

#[test]
fn a_fetched_list_leaves_room_for_others() {
    let mut text = String::new();
    for number in 0..20_000 {
        writeln!(text, "^tracker{number}[a-z]+\\.").unwrap();
    }
    let mut compiler = Compiler::new(SECRET);
    let of =
        |place, origin| Source { origin, ..source(place, Kind::Block, Some(Format::PiholeRegex)) };
    let mut load = |place, origin, text: &str| {
        read(&mut compiler, of(place, origin), text.as_bytes(), 1 << 16)
    };
    let hostile = load(1, Origin::Fetched, &text);
    assert_eq!((hostile.entries, hostile.faults, hostile.beyond_limits), (2_500, 17_500, 17_500));
    assert_eq!(hostile.first_faults[0].reason, Reason::Share("regular expressions"));
    let broken = load(2, Origin::Fetched, &"(a\n".repeat(3_000));
    assert_eq!((broken.entries, broken.faults, broken.beyond_limits), (0, 3_000, 0));
    let other = load(3, Origin::Fetched, "^ads[0-9]+\\.\n");
    let own = load(0, Origin::Own, &text.replace("tracker", "own"));
    assert_eq!((other.entries, own.entries, own.beyond_limits), (1, 7_499, 12_501));
    let image = Image::open(compiler.finish().0).unwrap();
    assert!(ask(&image, "ads7.example").starts_with("Blocked 3:1"));
    assert!(ask(&image, "own77x.example").starts_with("Blocked 0:78"));
}

#[test]
fn expressions_that_are_refused_are_not_read_without_end() {
    let text: String = (0..60_000).map(|number| format!("(x)\\1{number}\n")).collect();
    let (report, _) = load(Some(Format::PiholeRegex), (text + "^good[0-9]+\n").as_bytes());
    assert_eq!((report.entries, report.faults, report.beyond_limits), (0, 60_001, 20_001));
}

#[test]
fn encodings_and_ends_of_lines_of_all_kinds_are_read() {
    check(None, b"\xef\xbb\xbf0.0.0.0 a.example\r\n0.0.0.0 b.example\r\n", 2, 0, "");
    check(
        Some(Format::Domains),
        b"# caf\xe9\na.example\n\xff\xfe.example\n",
        1,
        1,
        "line 3: the line is not UTF-8",
    );
    check(
        Some(Format::Domains),
        "b\u{fc}cher.example\nxn--bcher-kva.example\n".as_bytes(),
        2,
        0,
        "",
    );
    check(
        Some(Format::Domains),
        "a\u{202e}b.example\n\u{fffd}.example\n".as_bytes(),
        0,
        2,
        "line 1: an invalid internationalised name",
    );
    check(
        Some(Format::Domains),
        b"a\tb\na~b.example\n",
        0,
        2,
        "line 1: '\\t' is not a valid character in a host name",
    );
    // UTF-16 is not accepted.
    let (report, _) = load(None, b"a\0.\0e\0x\0a\0m\0p\0l\0e\0\n\0");
    assert_eq!(report.refusal, Some(Refusal::Binary));
}

#[test]
fn names_that_are_too_long_are_faults() {
    let label = format!("{}.example\n", "a".repeat(64));
    let name = format!("{}example\n", "a.".repeat(130));
    check(
        Some(Format::Domains),
        (label + &name).as_bytes(),
        0,
        2,
        "line 1: a name or a label is too long",
    );
}

#[test]
fn a_hundred_thousand_expressions_are_cut_off() {
    let mut text = String::new();
    for number in 0..100_000 {
        writeln!(text, "^tracker{number}[a-z]+\\.").unwrap();
    }
    let (report, image) = load(Some(Format::PiholeRegex), text.as_bytes());
    assert_eq!(report.entries + report.faults, 100_000);
    assert_eq!(report.entries, 10_000);
    assert_eq!(report.first_faults.len(), 100);
    assert_eq!(report.first_faults[0].reason, Reason::Limit("regular expressions"));
    assert!(ask(&image, "tracker77x.example").starts_with("Blocked 0:78"));
    assert_eq!(ask(&image, "tracker.example"), "None");
}

#[test]
fn expressions_that_are_tried_on_every_name_are_few() {
    let text: String = (0..1000)
        .map(|number| format!("[0-9]{{{}}}[a-z]{{{}}}\n", number % 40 + 1, number / 40 + 1))
        .collect();
    let (report, _) = load(Some(Format::PiholeRegex), text.as_bytes());
    assert_eq!((report.entries, report.faults), (256, 744));
}

#[test]
fn patterns_that_share_their_letters_are_few() {
    let text: String = (0..5000).map(|number| format!("||advertising*{number}.\n")).collect();
    let (report, _) = load(Some(Format::Adblock), text.as_bytes());
    assert_eq!((report.entries, report.faults), (1000, 4000));
}

#[test]
fn catastrophic_expressions_are_linear_or_refused() {
    let text = "(a+)+$\n(a|aa)+$\n([a-z]+)*x$\n(.*)(.*)(.*)(.*)y$\n((((a{1,50}){1,50}){1,50}){1,50})\n(x)\\1\n\
        (?!a)b\n((((((((((((((((((((((((((((((((((((((((((((((((((((((((a))))))))))))))))))))))))))))))))))))))))))))))))))))))))\n";
    let (report, image) = load(Some(Format::PiholeRegex), text.as_bytes());
    assert_eq!((report.entries, report.faults), (4, 4), "{report:?}");
    let evil = format!("{}.{}.{}.b", "a".repeat(63), "a".repeat(63), "a".repeat(63));
    assert_eq!(ask(&image, &evil), "None");
}

#[test]
fn a_million_times_the_same_name_is_kept_a_few_times() {
    let text = b"same.example\n".repeat(1_000_000);
    let mut compiler = Compiler::new(SECRET);
    let report = read(&mut compiler, source(0, Kind::Block, None), &text, 1 << 20);
    assert_eq!(report.entries, 1_000_000);
    let (octets, summary) = compiler.finish();
    assert_eq!((summary.names, summary.repeats), (1, 1_000_000 - 32));
    assert!(octets.len() < 2_000);
}

#[test]
fn junk_in_every_format_is_counted_and_nothing_more() {
    let junk = b"||||^^^^$$$$\n@@@@\n$=,,,~~\n/(/\n||a^$client=,\n||a^$dnsrewrite=;;;\n|\n/\n//\n$\n=\n;\n:\n\"\n";
    for (_, format) in Format::NAMES {
        let (report, _) = load(Some(format), junk);
        assert_eq!(report.lines, 14, "{format}");
        // In a zone, the unclosed parenthesis extends to the end.
        let counted = report.faults + report.skipped + report.entries;
        assert!(counted >= if format == Format::Rpz { 4 } else { 14 }, "{report:?}");
    }
}

#[test]
fn zones_that_distinguish_too_many_clients_are_rejected() {
    let zone = |third: usize, count: usize| {
        let triggers = (0..count).map(|number| {
            format!("32.{}.{}.{third}.10.rpz-client-ip CNAME .\n", number % 256, number / 256)
        });
        format!("$TTL 60\n@ SOA a. b. 1 2 3 4 5\n{}", triggers.collect::<String>())
    };
    let mut compiler = Compiler::new(SECRET);
    let mut load = |place, text: String| {
        read(&mut compiler, source(place, Kind::Block, None), text.as_bytes(), 1 << 20)
    };
    let (first, second, third) =
        (load(0, zone(1, 4_000)), load(1, zone(2, 97)), load(2, zone(3, 96)));
    assert_eq!((first.entries, second.entries, third.entries), (4_000, 0, 96));
    assert_eq!(
        second.first_faults[0].reason.to_string(),
        "too many triggers on clients in all lists together"
    );
    assert_eq!(compiler.take_zones().len(), 2);
}
