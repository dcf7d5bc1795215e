//! Patterns over names with octets that no host name has: none of them hides a name.

use avocet_policy::list::{Asker, Decision, Format, Image, ListQuestion, ListSet, Scratch};
use avocet_wire::Rtype;

use crate::lists::material::image;

/// Octets with a special meaning in texts, in expressions or in the presentation of names.
const OCTETS: [u8; 15] =
    [0x00, 0x09, 0x0a, 0x0b, 0x0d, 0x20, b'*', b'.', b'?', b'@', b'\\', 0x7f, 0x80, 0x85, 0xff];

/// Lines that block `xtrack?.bad` and `xtrack??.bad`, whatever the octets at the question marks
/// are.
const LINES: [(Format, &str); 16] = [
    (Format::Domains, r"/^xtrack.*\.bad$/"),
    (Format::Domains, r"/^xtrack[^.]*\.bad$/"),
    (Format::Wildcards, r"/^xtrack.+\.bad$/"),
    (Format::Adblock, r"/^xtrack.*\.bad$/"),
    (Format::Adblock, r"/^x[^b]{6,7}.bad$/"),
    (Format::Adblock, "|xtrack*.bad|"),
    (Format::Adblock, "||xtrack*.bad^"),
    (Format::PiholeRegex, r"^xtrack.*\.bad$"),
    (Format::PiholeRegex, r"^XTRACK.{1,2}\.BAD$"),
    (Format::PiholeRegex, r"^(.+\.)?xtrack[^x]+\.bad$"),
    (Format::PiholeRegex, r"^xtrack(.|..)\.bad$"),
    (Format::PiholeRegex, r"^.+\.bad$"),
    // Without three letters that a name must contain, one automaton tries all expressions.
    (Format::PiholeRegex, r"^x.*k.*d$"),
    (Format::PiholeRegex, r"^x[^9]+\.b[^.]d$"),
    (Format::PiholeRegex, r"^[a-w]|^xtrack$|^.{0,7}$;invert"),
    (Format::PiholeRegex, r"\.bad$"),
];

fn decision(image: &Image, label: &[u8]) -> Decision {
    let qname = [&[label.len() as u8][..], label, b"\x03bad\x00"].concat();
    let question = ListQuestion { qname: &qname, qtype: Rtype::A, asker: Asker::default() };
    image.lookup(question, &ListSet::ALL, &mut Scratch::empty()).decision()
}

#[test]
fn any_octet_is_within_what_a_pattern_spans() {
    for (format, line) in LINES {
        let image = image(&[(format, line)]);
        for octet in OCTETS.into_iter().chain([b'n']) {
            for label in [
                &[&b"xtrack"[..], &[octet]].concat()[..],
                &[&b"xtrack"[..], &[octet, b'n']].concat(),
                &[&b"xtrack"[..], &[octet, octet]].concat(),
            ] {
                let label_text = label.escape_ascii();
                assert_eq!(decision(&image, label), Decision::Blocked, "{line} {label_text}");
            }
        }
    }
}

#[test]
fn a_name_has_one_start_and_one_end() {
    let lines = [r"/^hidden\.bad$/", r"/^first$/", r"/^first.$/", r"/^bad/"];
    for octet in OCTETS {
        for line in lines {
            let image = image(&[(Format::Adblock, line)]);
            for before in ["first", "x"] {
                let label = [before.as_bytes(), &[octet], b"hidden"].concat();
                let label_text = label.escape_ascii();
                assert_eq!(decision(&image, &label), Decision::None, "{line} {label_text}");
            }
        }
    }
}

#[test]
fn an_octet_within_a_label_does_not_end_it() {
    let image = image(&[(Format::Adblock, r"/^xtrack\.bad$/"), (Format::Adblock, "||ads.bad^")]);
    assert_eq!(decision(&image, b"xtrack"), Decision::Blocked);
    for octet in OCTETS {
        let label = [&b"x"[..], &[octet], b"ads"].concat();
        assert_eq!(decision(&image, &label), Decision::None, "{}", label.escape_ascii());
    }
}
