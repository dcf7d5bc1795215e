//! The work of a question over lists that are designed to be costly: in the steps that the lists
//! count themselves, and in instructions, which include work that is no step.

use std::fmt::Write as _;
use std::path::Path;

use avocet_policy::list::{
    Asker, Compiler, Decision, Format, Image, Kind, ListQuestion, ListSet, Origin, Reason, Report,
    Scratch,
};
use avocet_testkit::instructions::{CountedTest, end_case};
use avocet_wire::Rtype;

use crate::lists::material::{SECRET, read, source, wire};

/// Most steps of one name: a quarter of a million, about a millisecond.
const MOST: u32 = (256 << 10) + RESERVE;
/// Most steps of a question, for any names it leads to.
const MOST_OF_A_QUESTION: u32 = 1 << 20;
/// Steps reserved for each name.
const RESERVE: u32 = 4 << 10;
/// Most instructions of one name in a debug build, where a step takes up to 420 of them.
const MOST_INSTRUCTIONS: u64 = 150_000_000;
/// The function whose instructions are counted.
const COUNTED: &str = "behaviour::lists::work::Lists::ask";
/// The function after which counts begin again at zero.
const CASE_END: &str = "behaviour::lists::work::end_of_case";

/// Returns a name of 243 octets that repeats these letters.
fn long_name(letters: &str) -> String {
    let mut letters = letters.chars().cycle();
    (0..4).map(|_| letters.by_ref().take(60).collect::<String>()).collect::<Vec<_>>().join(".")
}

/// A fetched list, and the operator's own file with one pattern and one name.
struct Lists {
    hostile: Report,
    image: Image,
}

impl Lists {
    fn of(format: Format, hostile: &str) -> Self {
        let mut compiler = Compiler::new(SECRET);
        let own = "/^own[0-9]+\\./\n||own.example^\n/^[0-9][a-z]\\./\n";
        let report = read(
            &mut compiler,
            source(0, Kind::Block, Some(Format::Adblock)),
            own.as_bytes(),
            1 << 16,
        );
        assert_eq!((report.entries, report.faults), (3, 0));
        let fetched = source(1, Kind::Block, Some(format));
        let fetched = avocet_policy::list::Source { origin: Origin::Fetched, ..fetched };
        let hostile = read(&mut compiler, fetched, hostile.as_bytes(), 1 << 16);
        Self { hostile, image: Image::open(compiler.finish().0).unwrap() }
    }

    /// Returns the decision on a name, the steps it took, and how often look-ups were cut short.
    #[inline(never)]
    fn ask(&self, name: &str, scratch: &mut Scratch) -> (Decision, u32, u64) {
        let qname = wire(name);
        let asker =
            Asker { address: "10.1.1.1".parse().ok(), names: &["tablet".into()], tags: &[] };
        let question = ListQuestion { qname: &qname, qtype: Rtype::A, asker };
        let found = self.image.lookup(question, &ListSet::ALL, scratch);
        // The work on the result is proportional to the matches.
        let (decision, _, _) = (found.decision(), found.rewrite(), found.all_deciding().count());
        (decision, scratch.steps(), scratch.take_cut_short())
    }
}

/// Checks that each name costs a bounded number of steps, and that the operator's own list applies
/// next to a hostile one.
#[track_caller]
fn check(format: Format, hostile: &str, name: &str, most: u32) {
    let lists = Lists::of(format, hostile);
    let mut scratch = Scratch::empty();
    for prefix in ["", "x.", "own7.", "1a."] {
        let (decision, steps, cut_short) = lists.ask(&format!("{prefix}{name}"), &mut scratch);
        assert!(steps <= most, "{steps} steps for {prefix}{name}");
        assert!(cut_short <= 1);
        if prefix.len() > 2 {
            assert_ne!(decision, Decision::None, "{prefix}{name}");
        }
    }
    assert_eq!(lists.ask("own.example", &mut scratch).0, Decision::Blocked);
}

fn lines(count: usize, line: impl Fn(usize) -> String) -> String {
    (0..count).fold(String::new(), |mut text, number| {
        writeln!(text, "{}", line(number)).unwrap();
        text
    })
}

#[test]
fn expressions_that_share_letters_which_a_name_repeats_are_tried_once() {
    for count in [5, 20, 80] {
        let hostile = lines(count, |number| format!("aaa[a-z.]{{0,{}}}[0-9]", 100 + number));
        check(Format::PiholeRegex, &hostile, &long_name("a"), MOST);
    }
}

#[test]
fn octets_that_no_host_name_has_cost_no_more_than_letters() {
    let hostile = lines(80, |number| format!("aaa.{{0,{}}}[0-9]", 100 + number));
    for letters in ["a", "aaa\n", "aaa\0", "aaa\\", "aaa\u{7f}"] {
        check(Format::PiholeRegex, &hostile, &long_name(letters), MOST);
    }
}

#[test]
fn expressions_without_letters_have_few_states_together() {
    let hostile = lines(256, |number| format!("([a-z.]?){{{}}}!", 300 + number));
    let lists = Lists::of(Format::PiholeRegex, &hostile);
    assert!(lists.hostile.entries < 8, "{:?}", lists.hostile.entries);
    let what = "large regular expressions without required letters";
    assert_eq!(lists.hostile.first_faults[0].reason, Reason::Share(what));
    check(Format::PiholeRegex, &hostile, "www.another-name.example.org", MOST);
    check(Format::PiholeRegex, &hostile, &long_name("abcdefghijklm"), MOST);
}

#[test]
fn rewrites_of_one_name_for_many_clients_are_read_once_each() {
    let hostile = lines(16_000, |number| {
        format!("||victim.example.com^$dnsrewrite=REFUSED,client=~c{number}")
    });
    check(Format::Adblock, &hostile, "victim.example.com", 4_000);
    check(Format::Adblock, &hostile, "below.victim.example.com", 4_000);
}

#[test]
fn lines_that_switch_others_off_are_found_in_the_order_of_what_they_say() {
    let hostile = lines(10_000, |number| match number % 2 {
        0 => format!("||victim.example.com^$badfilter,client=~c{number}"),
        _ => format!("||victim.example.com^$client=~c{number}"),
    });
    check(Format::Adblock, &hostile, "victim.example.com", 4_000);
}

#[test]
fn exceptions_from_rewrites_are_found_in_order() {
    let hostile = lines(10_000, |number| match number % 2 {
        0 => format!("@@||victim.example.com^$dnsrewrite=10.0.{}.{}", number / 256, number % 256),
        _ => format!("||victim.example.com^$dnsrewrite=10.1.{}.{}", number / 256, number % 256),
    });
    check(Format::Adblock, &hostile, "victim.example.com", 4_000);
}

#[test]
fn lines_about_each_name_above_a_long_one_are_bounded_together() {
    let name = "v.".repeat(100) + "example";
    let zones: Vec<&str> = name.match_indices("v.").map(|(at, _)| &name[at..]).collect();
    let hostile =
        lines(25_000, |number| format!("||{}^$client=~c{number}", zones[number % zones.len()]));
    check(Format::Adblock, &hostile, &name, MOST);
}

#[test]
fn modifiers_with_many_values_cost_what_they_compare() {
    let clients = lines(250, |number| format!("~c{number}")).replace('\n', "|");
    let hostile =
        lines(2_000, |number| format!("||victim.example.com^$client={clients}~d{number}"));
    check(Format::Adblock, &hostile, "victim.example.com", MOST);
}

#[test]
fn globs_of_many_parts_are_tried_once() {
    let hostile = lines(1_000, |number| {
        let parts: Vec<String> = (0..30)
            .map(|part| char::from(b'a' + ((number + part) % 17) as u8).to_string())
            .collect();
        format!("{}*a", parts.join("*"))
    });
    check(Format::Adblock, &hostile, &long_name("abcdefghijklmnopq"), MOST);
    let hostile =
        lines(1_000, |number| format!("{}*{}b*c", "a".repeat(60), "a".repeat(20 + number % 40)));
    check(Format::Adblock, &hostile, &long_name("a"), MOST);
}

#[test]
fn letters_that_are_in_a_name_at_each_place_cost_one_step_each() {
    let hostile = lines(32, |number| format!("{}*{number}z", "a".repeat(number + 1)));
    check(Format::Adblock, &hostile, &long_name("a"), 80_000);
}

#[test]
fn the_names_of_one_question_are_bounded_together() {
    let hostile = lines(80, |number| format!("aaa[a-z.]{{0,{}}}[0-9]", 100 + number));
    let lists = Lists::of(Format::PiholeRegex, &hostile);
    let mut scratch = Scratch::empty();
    scratch.begin_question();
    let names = (0..100).map(|number| format!("x{number}.{}", long_name("a")));
    let spent: u32 = names.map(|name| lists.ask(&name, &mut scratch).1).sum();
    assert!(spent <= MOST_OF_A_QUESTION + 100 * 2 * RESERVE, "{spent}");
    assert_eq!(lists.ask("own.example", &mut scratch).0, Decision::Blocked);
}

#[test]
fn ordinary_lists_are_far_from_the_bounds() {
    let ordinary = lines(200, |number| format!("^(.+[._-])?track(er|ing)?{number}[0-9]*\\."))
        + &lines(40, |number| format!("^ad[sx]?[0-9]*[_.-]{number}"));
    let lists = Lists::of(Format::PiholeRegex, &ordinary);
    assert_eq!(lists.hostile.faults, 0, "{:?}", lists.hostile.first_faults);
    let mut scratch = Scratch::empty();
    for name in [
        "tracker77.cdn.some-host.example.com",
        "www.example.com",
        "a-rather.long-name.of.an-edge.cdn.example",
    ] {
        let (_, first, _) = lists.ask(name, &mut scratch);
        let (_, again, cut_short) = lists.ask(name, &mut scratch);
        assert!(
            first < MOST && again < MOST / 4 && cut_short == 0,
            "{name}: {first}, then {again}"
        );
    }
}

#[inline(never)]
fn end_of_case(name: &str, steps: u32) {
    end_case(&format!("{name}, {steps} steps"));
}

/// Looks up one name in each of these lists. The test below counts the instructions of this test.
#[test]
fn names_are_looked_up_in_hostile_lists() {
    let (same, all) = (long_name("a"), long_name("abcdefghijklmnopq"));
    let globs = |number: usize| {
        let letter = |part: usize| char::from(b'a' + ((number + part) % 17) as u8).to_string();
        (0..30).map(letter).collect::<Vec<_>>().join("*") + "*a"
    };
    let expressions = lines(80, |number| format!("aaa[a-z.]{{0,{}}}[0-9]", 100 + number));
    let no_letters = lines(256, |number| format!("([a-z.]?){{{}}}!", 300 + number));
    let of_clients =
        lines(2_000, |number| format!("||victim.example^$dnsrewrite=REFUSED,client=~c{number}"));
    let switched_off = lines(1_000, |number| match number % 2 {
        0 => format!("||victim.example^$badfilter,client=~c{number}"),
        _ => format!("||victim.example^$client=~c{number}"),
    });
    let letters = lines(32, |number| format!("{}*{number}z", "a".repeat(number + 1)));
    for (name, format, hostile, asked) in [
        ("expressions that share letters", Format::PiholeRegex, expressions, &*same),
        ("expressions without letters", Format::PiholeRegex, no_letters, &*all),
        ("rewrites of one name", Format::Adblock, of_clients, "victim.example"),
        ("lines that switch others off", Format::Adblock, switched_off, "victim.example"),
        ("patterns of many parts", Format::Adblock, lines(500, globs), &*all),
        ("letters at each place", Format::Adblock, letters, &*same),
    ] {
        let lists = Lists::of(format, &hostile);
        let (_, steps, _) = lists.ask(asked, &mut Scratch::empty());
        end_of_case(name, steps);
    }
}

#[test]
fn a_name_costs_bounded_instructions_over_hostile_lists() {
    let counted = CountedTest {
        test: "lists::work::names_are_looked_up_in_hostile_lists",
        counted: COUNTED,
        case_end: CASE_END,
        directory: Path::new(env!("CARGO_TARGET_TMPDIR")).join("list-work"),
    };
    let cases = counted.run();
    assert_eq!(cases.len(), 6, "{cases:?}");
    for (case, instructions) in cases {
        println!("{case}: {instructions} instructions");
        assert!(instructions <= MOST_INSTRUCTIONS, "{case}: {instructions} instructions");
    }
}
