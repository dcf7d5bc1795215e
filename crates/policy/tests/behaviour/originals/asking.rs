//! Compact notation for cases: a text, a question, and the result.

use std::net::IpAddr;

use avocet_policy::list::{
    Asker, Compiler, Decision, Format, Image, Kind, ListId, ListQuestion, ListSet, Origin,
    Progress, Report, Rewrite, Rewrites, Scratch, Source,
};
use avocet_wire::{Rcode, Rtype, rdata};

/// A text, the question `NAME` or `NAME TYPE`, and the result:
///
/// ```text
/// -                   nothing
/// blocked, allowed
/// =A 192.0.2.1        the answer
/// =NODATA, =NXDOMAIN  an answer without records
/// ```
pub(crate) type Case = (&'static str, &'static str, &'static str);

/// A client: its address, its name, and a tag, each possibly empty.
#[derive(Clone, Copy, Default)]
pub(crate) struct Who(pub(crate) &'static str, pub(crate) &'static str, pub(crate) &'static str);

/// Checks that each text is accepted completely and gives the expected result.
#[track_caller]
pub(crate) fn check(format: Format, cases: &[Case]) {
    for (text, question, expected) in cases {
        let (image, report) = compile(format, text);
        assert_eq!(report.first_faults, [], "{text}");
        assert_eq!(
            ask(&image, question, Who::default()),
            *expected,
            "{text:?} asked for {question}"
        );
    }
}

/// Checks one text with many questions.
#[track_caller]
pub(crate) fn check_all(format: Format, text: &str, questions: &[(&str, &str)]) {
    let (image, report) = compile(format, text);
    assert_eq!(report.first_faults, [], "{text}");
    for (question, expected) in questions {
        assert_eq!(
            ask(&image, question, Who::default()),
            *expected,
            "{text:?} asked for {question}"
        );
    }
}

/// Checks one text with questions of different clients.
#[track_caller]
pub(crate) fn check_who(format: Format, text: &str, questions: &[(&str, Who, &str)]) {
    let (image, report) = compile(format, text);
    assert_eq!(report.first_faults, [], "{text}");
    for (question, who, expected) in questions {
        assert_eq!(
            ask(&image, question, *who),
            *expected,
            "{text:?} asked for {question} by {who:?}"
        );
    }
}

/// Checks that the lines are rejected with these messages.
#[track_caller]
pub(crate) fn broken(format: Format, lines: &[(&str, &str)]) {
    for (line, reason) in lines {
        let (_, report) = compile(format, line);
        let told: Vec<String> =
            report.first_faults.iter().map(|fault| fault.reason.to_string()).collect();
        assert_eq!((report.entries, told.join("; ").as_str()), (0, *reason), "{line:?}");
    }
}

/// Checks that the lines are valid without effect.
#[track_caller]
pub(crate) fn passed_over(format: Format, lines: &[&str]) {
    for line in lines {
        let (_, report) = compile(format, line);
        assert_eq!((report.entries, report.faults, report.skipped), (0, 0, 1), "{line:?}");
    }
}

fn compile(format: Format, text: &str) -> (Image, Report) {
    let mut compiler = Compiler::new([7; 32]);
    let list = ListId::at(0).unwrap();
    let source = Source {
        list,
        kind: Kind::Block,
        format: Some(format),
        rewrites: Rewrites::Permitted,
        origin: Origin::Own,
    };
    let mut reader = compiler.list(source);
    assert_eq!(reader.feed(text.as_bytes()), Progress::More);
    let report = reader.finish();
    (Image::open(compiler.finish().0).unwrap(), report)
}

/// Checks one text with names that the answer to a question leads to: `NAME TYPE`.
#[track_caller]
pub(crate) fn check_behind(format: Format, text: &str, targets: &[(&str, &str)]) {
    let (image, report) = compile(format, text);
    assert_eq!(report.first_faults, [], "{text}");
    for (target, expected) in targets {
        let (name, qtype) = target.split_once(' ').unwrap();
        let (qname, qtype) = (wire(name), Rtype(rdata::from_mnemonic(qtype).unwrap()));
        let question = ListQuestion { qname: &qname, qtype, asker: Asker::default() };
        let mut scratch = Scratch::empty();
        let found = image.lookup_behind(question, &ListSet::ALL, &mut scratch);
        let says = match found.decision() {
            Decision::None => "-",
            Decision::Blocked => "blocked",
            other => panic!("{other:?}"),
        };
        assert_eq!(says, *expected, "{text:?} for {target}");
    }
}

fn ask(image: &Image, question: &str, Who(address, name, tag): Who) -> String {
    let (qname, qtype) = question.split_once(' ').unwrap_or((question, "A"));
    let qtype = Rtype(rdata::from_mnemonic(qtype).unwrap());
    let one = |text: &str| -> Vec<Box<str>> {
        (!text.is_empty()).then(|| text.into()).into_iter().collect()
    };
    let (names, tags) = (one(name), one(tag));
    let asker = Asker { address: address.parse::<IpAddr>().ok(), names: &names, tags: &tags };
    let mut scratch = Scratch::empty();
    let qname = wire(qname);
    let found =
        image.lookup(ListQuestion { qname: &qname, qtype, asker }, &ListSet::ALL, &mut scratch);
    match found.decision() {
        Decision::None => "-".to_owned(),
        Decision::Allowed => "allowed".to_owned(),
        Decision::Blocked => "blocked".to_owned(),
        Decision::Rewritten => match found.rewrite() {
            Some(Rewrite::Record(..)) => {
                let rewrites = found.all_deciding().filter_map(|one| one.rewrite);
                records(qtype, rewrites)
            }
            Some(Rewrite::Rcode(Rcode::NOERROR)) => "=NODATA".to_owned(),
            Some(other) => format!("={other}"),
            None => panic!("an answer without one"),
        },
    }
}

/// Returns the records that answer a question of this type.
fn records<'r>(qtype: Rtype, rewrites: impl Iterator<Item = &'r Rewrite>) -> String {
    let fits = |rewrite: &&Rewrite| matches!(rewrite, Rewrite::Record(rtype, _) if *rtype == qtype);
    let all: Vec<String> = rewrites.filter(fits).map(|rewrite| format!("={rewrite}")).collect();
    if all.is_empty() { "=NODATA".to_owned() } else { all.join(" ") }
}

impl std::fmt::Debug for Who {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self(address, name, tag) = self;
        write!(f, "{address} {name:?} {tag}")
    }
}

/// Returns the folded wire form of a name.
pub(crate) fn wire(name: &str) -> Vec<u8> {
    let mut wire = Vec::new();
    for label in name.split('.').filter(|label| !label.is_empty()) {
        wire.push(label.len() as u8);
        wire.extend(label.to_ascii_lowercase().bytes());
    }
    wire.push(0);
    wire
}
