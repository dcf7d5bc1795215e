//! Questions for existing and missing names, of all types, drawn from a seed.

use std::collections::HashSet;

use crate::random::Random;

use super::content::{self, Content};
use super::message::{ANY, CNAME, DS, NS, Question};
use super::plan::Internet;
use super::zone::{Fault, Liveness, Security};

/// The types and their weights in per cent.
const KINDS: &[(u16, u64)] = &[
    (1, 38),
    (28, 12),
    (16, 9),
    (15, 6),
    (NS, 6),
    (6, 5),
    (DS, 8),
    (48, 6),
    (CNAME, 4),
    (65_400, 4),
    (ANY, 2),
];
const DNSSEC_OK_PERCENT: u64 = 85;
const CHECKING_DISABLED_PERCENT: u64 = 10;
/// One question in this number may be for a zone without responding servers. Such a zone costs
/// seconds per name.
const QUESTIONS_PER_SILENCE: usize = 1000;
/// Maximum number of draws per question. A small internet may not have enough different questions,
/// so some are repeated.
const DRAWS_PER_QUESTION: usize = 20;

/// The zones from which the questions are drawn.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    All,
    /// Only zones without faults, so that each question has an answer.
    Sound,
}

/// Draws questions. There are no duplicates while there are enough different questions.
pub(super) fn draw(
    internet: &Internet,
    contents: &[Content],
    count: usize,
    seed: u64,
    scope: Scope,
) -> Vec<Question> {
    let mut random = Random(!seed);
    let mut questions = Vec::with_capacity(count);
    let mut asked = HashSet::new();
    let mut silent = 0;
    for draw in 0.. {
        if questions.len() == count {
            break;
        }
        let zone = random.below(internet.zones.len() as u64) as usize;
        let name = name(&contents[zone], &internet.zones[zone].name, &mut random);
        if scope == Scope::Sound && (!is_sound(internet, zone) || content::leads_away(&name)) {
            continue;
        }
        let kind = kind(&mut random);
        if scope == Scope::Sound && kind == ANY {
            continue;
        }
        let question = Question {
            name,
            kind,
            is_dnssec_ok: random.percent(DNSSEC_OK_PERCENT),
            is_checking_disabled: random.percent(CHECKING_DISABLED_PERCENT),
        };
        if internet.zones[zone].family.liveness == Liveness::NoneButSilent {
            silent += 1;
            if silent > count / QUESTIONS_PER_SILENCE {
                continue;
            }
        }
        if asked.insert(question.to_string()) || draw > count * DRAWS_PER_QUESTION {
            questions.push(question);
        }
    }
    questions
}

/// Returns whether a zone and its ancestors have no faults.
fn is_sound(internet: &Internet, zone: usize) -> bool {
    let of = &internet.zones[zone];
    let is_served = !matches!(of.family.liveness, Liveness::NoneButSilent | Liveness::NoneButLame);
    let is_whole = of.family.fault == Fault::None && of.security != Security::Bogus;
    is_served && is_whole && (of.parent == zone || is_sound(internet, of.parent))
}

fn kind(random: &mut Random) -> u16 {
    let mut drawn = random.below(KINDS.iter().map(|(_, weight)| weight).sum());
    for (kind, weight) in KINDS {
        match drawn.checked_sub(*weight) {
            Some(rest) => drawn = rest,
            None => return *kind,
        }
    }
    1
}

fn name(content: &Content, apex: &str, random: &mut Random) -> String {
    let known = random.pick(&content.names).clone();
    let label = format!("x{}", random.below(1000));
    match random.below(100) {
        0..75 => known,
        75..85 => apex.to_owned(),
        85..95 => format!("{label}.{}", apex.trim_start_matches('.')),
        _ => format!("{label}.{}", known.trim_start_matches('.')),
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan::Alive;
    use super::*;

    #[test]
    fn questions_follow_from_the_seed_and_differ() {
        let internet = Internet::draw(3, Alive::All);
        let contents: Vec<_> =
            (0..internet.zones.len()).map(|zone| Content::draw(&internet, zone, 3)).collect();
        let questions = draw(&internet, &contents, 2000, 3, Scope::All);
        assert_eq!(questions.len(), 2000);
        assert_eq!(questions.iter().map(ToString::to_string).collect::<HashSet<_>>().len(), 2000);
        assert!(questions == draw(&internet, &contents, 2000, 3, Scope::All));
        assert!(
            questions
                .iter()
                .all(|question| question.name.ends_with('.') && !question.name.contains(".."))
        );
    }
}
