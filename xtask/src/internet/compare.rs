//! The majority of the peers' answers, and the differences of an answer from it.

use std::collections::BTreeSet;
use std::fmt;

use super::message::{ANY, Answer, CNAME, DNAME, DS, Question, Record};
use super::plan::Internet;
use super::zone::Security;

/// The part of an answer that differs from the majority. If several parts differ, it is the first
/// of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aspect {
    Silence,
    Rcode,
    Authenticity,
    Records,
}

impl Aspect {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Silence => "silence",
            Self::Rcode => "rcode",
            Self::Authenticity => "ad",
            Self::Records => "records",
        }
    }
}

/// An answer that differs from the majority.
pub(super) struct Difference {
    pub(super) aspect: Aspect,
    pub(super) question: Question,
    /// The families of all zones from which the answers come.
    pub(super) families: BTreeSet<&'static str>,
    pub(super) got: String,
    pub(super) expected: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let families: Vec<_> = self.families.iter().copied().collect();
        let (question, aspect) = (&self.question, self.aspect.name());
        write!(
            f,
            "{question}\t{aspect}\t{}\tgot {}\texpected {}",
            families.join(","),
            self.got,
            self.expected
        )
    }
}

/// Compares an answer with the answers of the voters. Returns `None` if it matches the majority.
///
/// RCODE, AD and records are voted on separately. If no two voters agree, any voter's value is
/// accepted.
pub(super) fn difference(
    internet: &Internet,
    question: &Question,
    answer: Option<&Answer>,
    votes: &[Option<&Answer>],
) -> Option<Difference> {
    let heard: Vec<&Answer> = votes.iter().copied().flatten().collect();
    let found = |aspect, got, expected| {
        let families =
            families(internet, question, answer.into_iter().chain(heard.iter().copied()));
        Some(Difference { aspect, question: question.clone(), families, got, expected })
    };
    let Some(answer) = answer else {
        let is_expected = heard.len() * 2 <= votes.len();
        let expected = || heard.first().map(|answer| answer.rcode_name()).unwrap_or_default();
        return if is_expected {
            None
        } else {
            found(Aspect::Silence, "silence".to_owned(), expected())
        };
    };
    let rcodes = accepted(heard.iter().map(|vote| vote.rcode_name()));
    if !heard.is_empty() && !rcodes.contains(&answer.rcode_name()) {
        return found(Aspect::Rcode, answer.rcode_name(), rcodes.join(" or "));
    }
    if !answer.is_conclusive() {
        return None;
    }
    // A voter with another RCODE has no vote on the other parts.
    let alike: Vec<&Answer> =
        heard.iter().copied().filter(|vote| vote.rcode == answer.rcode).collect();
    let flags = accepted(alike.iter().map(|vote| authenticity(vote)));
    // With CD set, a server need not validate (RFC 6840 §5.9), so AD depends on its cache.
    if !question.is_checking_disabled && !alike.is_empty() && !flags.contains(&authenticity(answer))
    {
        return found(Aspect::Authenticity, authenticity(answer).to_owned(), flags.join(" or "));
    }
    let records = accepted(alike.iter().map(|vote| &vote.records));
    // The server chooses the records of an answer to ANY (RFC 8482).
    if question.kind != ANY && !alike.is_empty() && !records.contains(&&answer.records) {
        let expected: Vec<_> = records.into_iter().map(written).collect();
        return found(Aspect::Records, written(&answer.records), expected.join(" OR "));
    }
    None
}

const fn authenticity(answer: &Answer) -> &'static str {
    if answer.is_authentic { "ad" } else { "no ad" }
}

fn written(records: &BTreeSet<Record>) -> String {
    let records: Vec<_> = records.iter().map(ToString::to_string).collect();
    format!("[{}]", records.join("; "))
}

/// Returns the values with the most votes, or all values if no two voters agree.
fn accepted<T: PartialEq>(votes: impl Iterator<Item = T>) -> Vec<T> {
    let mut counted: Vec<(T, usize)> = Vec::new();
    for vote in votes {
        match counted.iter_mut().find(|(value, _)| *value == vote) {
            Some((_, count)) => *count += 1,
            None => counted.push((vote, 1)),
        }
    }
    let most = counted.iter().map(|(_, count)| *count).max().unwrap_or(0);
    counted.into_iter().filter(|(_, count)| *count == most).map(|(value, _)| value).collect()
}

fn families<'a>(
    internet: &Internet,
    question: &Question,
    answers: impl Iterator<Item = &'a Answer>,
) -> BTreeSet<&'static str> {
    let mut names = vec![question.name.clone()];
    for record in answers.flat_map(|answer| &answer.records) {
        names.push(record.owner.clone());
        if matches!(record.kind, CNAME | DNAME) {
            names.push(record.data.clone());
        }
    }
    let mut families: BTreeSet<_> =
        names.iter().map(|name| internet.zone_of(name).family.label).collect();
    if question.kind == DS {
        families.insert(parent_side(internet, &question.name).0);
    }
    families
}

/// Returns the family and the best security status of the zone that contains the DS records of a
/// name.
fn parent_side(internet: &Internet, name: &str) -> (&'static str, Security) {
    let zone = internet.zone_of(name);
    let zone = if zone.name == name { &internet.zones[zone.parent] } else { zone };
    (zone.family.label, zone.security)
}

/// Returns whether an answer has AD set although its name is in no secure zone. Such an answer is
/// wrong, whatever the votes.
pub(super) fn is_falsely_authentic(
    internet: &Internet,
    question: &Question,
    answer: &Answer,
) -> bool {
    let security = match question.kind {
        DS => parent_side(internet, &question.name).1,
        _ => internet.zone_of(&question.name).security,
    };
    answer.is_authentic && security != Security::Secure
}

#[cfg(test)]
mod tests {
    use super::super::plan::Alive;
    use super::*;

    fn answer(rcode: u16, is_authentic: bool, owner: &str) -> Answer {
        let record = Record { owner: owner.to_owned(), kind: 1, data: "0a000001".to_owned() };
        Answer { rcode, is_authentic, records: [record].into() }
    }

    fn check(got: &Answer, votes: &[Answer], expected: Option<Aspect>) {
        let question = Question {
            name: "com.".to_owned(),
            kind: 1,
            is_dnssec_ok: true,
            is_checking_disabled: false,
        };
        let votes: Vec<_> = votes.iter().map(Some).collect();
        let found = difference(&Internet::draw(1, Alive::All), &question, Some(got), &votes);
        assert_eq!(found.map(|found| found.aspect), expected);
    }

    #[test]
    fn an_answer_is_measured_by_what_most_say() {
        let (usual, failed) = (answer(0, true, "a."), answer(2, false, "a."));
        check(&usual, &[usual.clone(), usual.clone(), failed.clone()], None);
        check(&failed, &[usual.clone(), usual.clone(), failed.clone()], Some(Aspect::Rcode));
        check(&failed, &[usual.clone(), failed.clone()], None);
        check(&answer(0, false, "a."), &[usual.clone(), usual.clone()], Some(Aspect::Authenticity));
        check(&answer(0, true, "b."), &[usual.clone(), usual], Some(Aspect::Records));
    }

    #[test]
    fn a_ds_belongs_to_the_parent() {
        let internet = Internet::draw(1, Alive::All);
        let question = |name: &str, kind| Question {
            name: name.to_owned(),
            kind,
            is_dnssec_ok: true,
            is_checking_disabled: false,
        };
        let authentic = answer(0, true, "info.");
        assert!(is_falsely_authentic(&internet, &question("info.", 1), &authentic));
        assert!(!is_falsely_authentic(&internet, &question("info.", DS), &authentic));
    }
}
