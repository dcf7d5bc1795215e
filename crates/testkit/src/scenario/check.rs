//! Comparison of an answer with the expectations of a scenario.

use avocet_wire::edns::option;
use avocet_wire::header::{AD, TC};
use avocet_wire::name::is_under;
use avocet_wire::view::RecordSection;
use avocet_wire::{MessageView, Rtype, canonical, rdata};

use super::Entry;
use super::message::{ALL_FLAGS, FLAGS};
use super::record::Rr;

/// The differences between an answer and its expectation.
#[derive(Debug, Default)]
pub(super) struct Differences {
    /// RCODE, AD, TC, question and the set of records in the answer section.
    pub(super) core: Vec<String>,
    /// Other flags, the other sections, TTLs, extended errors.
    pub(super) others: Vec<String>,
}

/// Owner, class, type and canonical data: two records are equal if these are.
type Key = (Vec<u8>, u16, Rtype, Vec<u8>);

const SECTIONS: [&str; 3] = ["answer", "authority", "additional"];

/// Compares the parts that the scenario selects.
pub(super) fn compare(entry: &Entry, octets: &[u8]) -> Differences {
    let mut found = Differences::default();
    let Some(answer) = Answer::read(octets) else {
        found.core.push("the answer cannot be read".to_owned());
        return found;
    };
    let expected = entry.packet();
    let all = entry.matches.is_none() || entry.is_matched("all") || entry.is_matched("all_noedns");
    let compares = |word: &str| all || entry.is_matched(word);
    if compares("rcode") && answer.rcode != expected.rcode {
        found.core.push(format!("RCODE {}, expected {}", answer.rcode, expected.rcode));
    }
    if compares("flags") {
        if (answer.flags ^ expected.flags) & (AD | TC) != 0 {
            found.core.push(flags_differ(answer.flags & (AD | TC), expected.flags & (AD | TC)));
        } else if answer.flags != expected.flags & ALL_FLAGS {
            found.others.push(flags_differ(answer.flags, expected.flags & ALL_FLAGS));
        }
    }
    for (number, name) in SECTIONS.iter().enumerate().filter(|(_, name)| compares(name)) {
        let (have, want) = (&answer.sections[number], &expected.sections[number]);
        let differs = sections_differ(have, want, |_| 0).map(|text| format!("{name}: {text}"));
        let place = if number == 0 { &mut found.core } else { &mut found.others };
        let is_same = differs.is_none();
        place.extend(differs);
        if is_same && number == 0 && entry.is_matched("ttl") {
            let differs = sections_differ(have, want, |rr| rr.ttl_secs);
            found.others.extend(differs.map(|text| format!("TTLs in {name}: {text}")));
        }
    }
    if compares("question")
        && expected
            .question()
            .zip(answer.qname.as_ref())
            .is_some_and(|(want, have)| !want.is_of(have))
    {
        found.core.push("the question differs".to_owned());
    }
    found.others.extend(answer.out_of_order());
    if let Some(want) = entry.matched_value("ede")
        && !(want == "any" && !answer.errors.is_empty()
            || answer.errors.iter().any(|code| code.to_string() == want))
    {
        found.others.push(format!("extended errors {:?}, expected {want}", answer.errors));
    }
    found
}

/// Formats an answer.
pub(super) fn shown(octets: &[u8]) -> String {
    let Some(answer) = Answer::read(octets) else {
        return "an answer that cannot be read".to_owned();
    };
    let mut text = format!("answer, RCODE {} [{}]", answer.rcode, flag_names(answer.flags));
    for (name, section) in SECTIONS.iter().zip(&answer.sections) {
        for rr in section {
            let data = rdata::display(rr.rtype.0, &rr.rdata);
            text += &format!(
                "\n    {name}: {} {} {} {data}",
                crate::shown(&rr.owner),
                rr.ttl_secs,
                rr.rtype
            );
        }
    }
    for error in answer.errors {
        text += &format!("\n    extended error {error}");
    }
    text
}

struct Answer {
    flags: u16,
    rcode: u16,
    qname: Option<Vec<u8>>,
    sections: [Vec<Rr>; 3],
    /// Codes of extended errors (RFC 8914).
    errors: Vec<u16>,
}

impl Answer {
    /// Returns the first record of the answer section that no earlier alias leads to. Stub
    /// resolvers read from top to bottom.
    fn out_of_order(&self) -> Option<String> {
        let mut names = vec![self.qname.clone()?.to_ascii_lowercase()];
        for rr in &self.sections[0] {
            let owner = rr.owner.to_ascii_lowercase();
            let is_dname = [rr.rtype, rr.covered()].contains(&Rtype::DNAME);
            if !names.iter().any(|name| *name == owner || is_dname && is_under(name, &owner)) {
                return Some(format!("{} stands before what leads to it", crate::shown(&owner)));
            }
            if rr.rtype == Rtype::CNAME {
                names.push(rr.rdata.to_ascii_lowercase());
            }
        }
        None
    }

    fn read(octets: &[u8]) -> Option<Self> {
        let view = MessageView::new(octets).ok()?;
        let edns = view.edns().ok()?;
        let options = edns.iter().flat_map(|edns| edns.raw_options()).filter_map(Result::ok);
        let errors = options.filter(|(code, _)| *code == option::EDE);
        let mut answer = Self {
            flags: view.header().flags & ALL_FLAGS,
            rcode: u16::from(edns.map_or(0, |edns| edns.rcode_high)) << 4
                | view.header().flags & 0xf,
            qname: view
                .questions()
                .next()
                .and_then(|question| Some(question.ok()?.qname().ok()?.wire().to_vec())),
            sections: Default::default(),
            errors: errors
                .filter_map(|(_, data)| Some(u16::from_be_bytes(*data.first_chunk()?)))
                .collect(),
        };
        let mut data = vec![0; usize::from(u16::MAX)];
        for record in view.records().ok()? {
            let record = record.ok()?;
            if record.rtype == Rtype::OPT {
                continue;
            }
            let section = match record.section {
                RecordSection::Answer => 0,
                RecordSection::Authority => 1,
                RecordSection::Additional => 2,
            };
            let len = record.expand_rdata(&mut data).ok()?;
            answer.sections[section].push(Rr {
                owner: record.owner().ok()?.wire().to_vec(),
                rtype: record.rtype,
                class: record.class.0,
                ttl_secs: record.ttl_secs(),
                rdata: data[..len].to_vec(),
            });
        }
        Some(answer)
    }
}

fn flags_differ(have: u16, want: u16) -> String {
    format!("flags [{}], expected [{}]", flag_names(have), flag_names(want))
}

fn flag_names(flags: u16) -> String {
    let set: Vec<_> =
        FLAGS.iter().filter(|(_, flag)| flags & flag != 0).map(|(name, _)| *name).collect();
    set.join(" ")
}

/// Returns the difference between two sections as multisets, with `ttl` as part of each record.
fn sections_differ(have: &[Rr], want: &[Rr], ttl: fn(&Rr) -> u32) -> Option<String> {
    let keys = |section: &[Rr]| -> Vec<(Key, u32)> {
        section.iter().map(|rr| (key(rr), ttl(rr))).collect()
    };
    let mut missing = keys(want);
    let mut extra = Vec::new();
    for record in keys(have) {
        match missing.iter().position(|other| *other == record) {
            Some(at) => drop(missing.swap_remove(at)),
            None => extra.push(record),
        }
    }
    let shown = |records: &[(Key, u32)]| {
        let texts = records
            .iter()
            .map(|((owner, _, rtype, _), _)| crate::shown(owner) + "/" + &rtype.to_string());
        texts.take(6).collect::<Vec<_>>().join(" ")
    };
    let differs = !missing.is_empty() || !extra.is_empty();
    differs.then(|| format!("not expected [{}], missing [{}]", shown(&extra), shown(&missing)))
}

fn key(rr: &Rr) -> Key {
    let mut data = Vec::new();
    canonical::append_rdata(rr.rtype.0, &rr.rdata, &mut data);
    (rr.owner.to_ascii_lowercase(), rr.class, rr.rtype, data)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::message::{Envelope, Packet, Question};
    use crate::scenario::record;

    #[track_caller]
    fn check(records: &[&str], expected: Option<&str>) {
        let answer = records.iter().map(|line| record::record(line, 60).unwrap()).collect();
        let question = Question { qname: crate::name("a.old."), qtype: Rtype::A, qclass: 1 };
        let packet = Packet {
            questions: vec![question],
            sections: [answer, Vec::new(), Vec::new()],
            ..Packet::response(0, 0)
        };
        let answer = Answer::read(&packet.octets(&Envelope::default())).unwrap();
        assert_eq!(answer.out_of_order().as_deref(), expected);
    }

    #[test]
    fn an_alias_stands_before_what_it_leads_to() {
        let (dname, cname, target) =
            ("Old. DNAME new.", "A.old. CNAME a.New.", "a.new. A 192.0.2.1");
        check(&[dname, cname, target], None);
        check(&[cname, target, dname], None);
        check(&[target, cname], Some("a.new. stands before what leads to it"));
        check(&[cname, "b.new. A 192.0.2.1"], Some("b.new. stands before what leads to it"));
    }
}
