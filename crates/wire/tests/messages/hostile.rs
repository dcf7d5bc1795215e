//! Messages that attack their reader (RFC 9267). For each message, the test knows where reading
//! fails, or that it succeeds.

/// The expected outcome of reading a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    /// The message is shorter than a header.
    NoMessage,
    /// The question cannot be read.
    BadQuestion,
    /// This many records can be iterated before an error ends the iteration.
    WalkedTo(usize),
    /// All records can be iterated, but this many owners or data cannot be read.
    Unreadable(usize),
    /// The whole message can be read.
    Sound,
}

use Fate::{BadQuestion, NoMessage, Sound, Unreadable, WalkedTo};

/// Returns a header with these counts.
pub(crate) fn header(counts: [u16; 4]) -> Vec<u8> {
    let mut octets = vec![0x2a, 0x17, 0x81, 0x80];
    octets.extend(counts.iter().flat_map(|count| count.to_be_bytes()));
    octets
}

fn message(counts: [u16; 4], parts: &[&[u8]]) -> Vec<u8> {
    [&header(counts)[..], &parts.concat()].concat()
}

/// Returns a message with a question for the root and the given parts from offset 17 on.
fn after_root(answers: u16, parts: &[&[u8]]) -> Vec<u8> {
    message([1, answers, 0, 0], &[b"\x00\x00\x01\x00\x01", &parts.concat()])
}

/// Returns TYPE, CLASS, TTL and RDLENGTH.
fn fixed(rtype: u8, rdlength: u16) -> Vec<u8> {
    let [high, low] = rdlength.to_be_bytes();
    vec![0, rtype, 0, 1, 0, 0, 0, 60, high, low]
}

/// Returns a name of this many octets, with labels of 63 octets and a shorter last one.
pub(crate) fn long_name(octets: usize) -> Vec<u8> {
    let mut name = Vec::new();
    while name.len() + 1 < octets {
        let length = (octets - name.len() - 2).min(63);
        name.push(length as u8);
        name.extend(std::iter::repeat_n(b'n', length));
    }
    name.push(0);
    name
}

/// Returns `count` pointers, each to the previous one, the first to the root at offset 12.
fn chain(count: u16) -> Vec<u8> {
    let first = 17 + 10 + 1;
    (0..count)
        .flat_map(|at| (0xc000 | if at == 0 { 12 } else { first + 2 * (at - 1) }).to_be_bytes())
        .collect()
}

/// Returns a record of private type whose data is the chain, and one whose owner points to its end.
fn chained(count: u16) -> Vec<u8> {
    let last = 0xc000 | (28 + 2 * (count - 1));
    let chain = chain(count);
    after_root(
        2,
        &[b"\x00", &fixed(99, 2 * count), &chain, &last.to_be_bytes(), &fixed(1, 4), &[1; 4]],
    )
}

/// Returns all messages with their names and outcomes.
#[rustfmt::skip]
pub(crate) fn all() -> Vec<(&'static str, Fate, Vec<u8>)> {
    let a = fixed(1, 4);
    let opt = b"\x00\x00\x29\x04\xd0\x00\x00\x80\x00\x00\x00";
    let mut cases = vec![
        ("nothing", NoMessage, vec![]),
        ("header-cut", NoMessage, header([0; 4])[..11].to_vec()),
        ("pointer-to-itself", BadQuestion, message([1, 0, 0, 0], &[b"\xc0\x0c\x00\x01\x00\x01"])),
        ("pointer-into-header", Unreadable(1), after_root(1, &[b"\xc0\x00", &a, &[1; 4]])),
        ("pointer-forward", BadQuestion, message([1, 0, 0, 0], &[b"\xc0\x12\x00\x01\x00\x01\x00"])),
        ("pointer-past-the-end", WalkedTo(0), after_root(1, &[b"\xff\xff", &a, &[1; 4]])),
        ("pointer-cut", WalkedTo(0), after_root(1, &[b"\xc0"])),
        ("loop-of-two", Unreadable(1), after_root(2, &[
            b"\x00", &fixed(99, 4), b"\xc0\x1e\xc0\x1c", b"\xc0\x1e", &a, &[1; 4]])),
        ("label-then-loop", WalkedTo(0), after_root(1, &[b"\x01a\xc0\x11", &a, &[1; 4]])),
        ("loop-in-rdata", Unreadable(1), after_root(1, &[b"\x00", &fixed(5, 2), b"\xc0\x1c"])),
        ("rdata-pointer-forward", Unreadable(1), after_root(1, &[b"\x00", &fixed(2, 2), b"\xc0\x40"])),
        ("rdata-name-leaves-rdata", Unreadable(1), after_root(2, &[b"\x00", &fixed(2, 2), b"\x05a", b"\x00", &a, &[1; 4]])),
        ("rdata-name-cut-at-pointer", Unreadable(1), after_root(1, &[b"\x00", &fixed(2, 1), b"\xc0"])),
        ("soa-of-one-name", Unreadable(1), after_root(1, &[b"\x00", &fixed(6, 1), b"\x00"])),
        ("mx-of-one-octet", Unreadable(1), after_root(1, &[b"\x00", &fixed(15, 1), b"\x00"])),
        ("naptr-string-overrun", Unreadable(1), after_root(1, &[b"\x00", &fixed(35, 6), b"\x00\x01\x00\x01\xff\x00"])),
        ("127-pointers", Sound, chained(126)),
        ("128-pointers", Unreadable(1), chained(128)),
        ("8000-pointers", Unreadable(1), chained(8000)),
        ("name-of-255", Sound, message([1, 0, 0, 0], &[&long_name(255), b"\x00\x01\x00\x01"])),
        ("name-of-256", BadQuestion, message([1, 0, 0, 0], &[&long_name(256), b"\x00\x01\x00\x01"])),
        ("name-of-255-by-pointer", Sound, message([1, 1, 0, 0], &[
            &long_name(253), b"\x00\x01\x00\x01", b"\x01x\xc0\x0c", &a, &[1; 4]])),
        ("name-of-256-by-pointer", Unreadable(1), message([1, 1, 0, 0], &[
            &long_name(254), b"\x00\x01\x00\x01", b"\x01x\xc0\x0c", &a, &[1; 4]])),
        ("127-labels", Sound, message([1, 0, 0, 0], &[&b"\x01l".repeat(127), b"\x00\x00\x01\x00\x01"])),
        ("128-labels", BadQuestion, message([1, 0, 0, 0], &[&b"\x01l".repeat(128), b"\x00\x00\x01\x00\x01"])),
        ("label-type-40", BadQuestion, message([1, 0, 0, 0], &[b"\x41\x01x\x00\x00\x01\x00\x01"])),
        ("label-type-80", BadQuestion, message([1, 0, 0, 0], &[b"\x80\x01x\x00\x00\x01\x00\x01"])),
        ("question-missing", BadQuestion, header([1, 0, 0, 0])),
        ("question-cut", BadQuestion, message([1, 0, 0, 0], &[b"\x00\x00\x01\x00"])),
        ("65535-questions", BadQuestion, message([65_535, 0, 0, 0], &[b"\x00\x00\x01\x00\x01"])),
        ("65535-answers", WalkedTo(1), after_root(65_535, &[b"\x00", &a, &[1; 4]])),
        ("all-counts-65535", BadQuestion, header([65_535; 4])),
        ("rdlength-65535", WalkedTo(0), after_root(1, &[b"\x00", &fixed(1, 65_535), &[1; 4]])),
        ("rdlength-one-more", WalkedTo(0), after_root(1, &[b"\x00", &fixed(1, 5), &[1; 4]])),
        ("fixed-fields-cut", WalkedTo(0), after_root(1, &[b"\x00", &a[..9]])),
        ("two-opt", Sound, message([1, 0, 0, 2], &[b"\x00\x00\x01\x00\x01", opt, opt])),
    ];
    cases.push(("16000-empty-options", Sound, option_flood(16_000)));
    cases.push(("label-bomb", Unreadable(2_300), label_bomb()));
    cases
}

/// Returns a query whose OPT holds `count` empty options.
pub(crate) fn option_flood(count: u16) -> Vec<u8> {
    let mut octets =
        message([1, 0, 0, 1], &[b"\x00\x00\x01\x00\x01\x00\x00\x29\x04\xd0\x00\x00\x00\x00"]);
    octets[2..4].fill(0);
    octets.extend((4 * count).to_be_bytes());
    octets.extend(b"\x00\x03\x00\x00".repeat(usize::from(count)));
    octets
}

/// Returns records whose owners each prepend a label to the previous one until names are too long.
fn label_bomb() -> Vec<u8> {
    let mut octets = after_root(2_427, &[]);
    let mut previous = 12_u16;
    for _ in 0..2_427 {
        let here = octets.len() as u16;
        octets.extend_from_slice(b"\x01l");
        octets.extend((0xc000 | previous.min(0x3fff)).to_be_bytes());
        octets.extend(fixed(99, 0));
        previous = if here <= 0x3fff { here } else { previous };
    }
    octets
}
