//! The rules of one stage (the question or the answer), indexed by what they require.

use std::collections::HashMap;

use avocet_wire::name::labels;

use super::code::Code;
use super::fold::{Folded, Leaf, Sense};
use super::index::{Candidate, NameIndex, Nearest, Role};
use super::program::RuleQuestion;
use super::rules::RuleId;
use super::tree::NameKey;

/// The rules of one stage: by the names or types that they require, and those that require neither.
pub(super) struct Stage {
    pub(super) names: NameIndex,
    /// The rules that require a type, in the order of the types.
    types: Vec<(u16, Vec<Candidate>)>,
    rest: Vec<Candidate>,
    /// Whether a rule tests the number of labels of a name.
    asks_for_levels: bool,
}

/// For each profile, the rules that require neither a name nor a type. Rules with a condition on
/// the client that the profile does not meet are left out.
#[derive(Clone)]
pub(super) struct Rests {
    by_profile: Box<[u32]>,
    lists: Vec<Box<[Candidate]>>,
}

/// The rules that may match a question, grouped by their requirements.
pub(super) struct Candidates<'a> {
    /// Rules that require neither name nor type.
    pub(super) rest: &'a [Candidate],
    /// Rules that require the type.
    pub(super) of_type: &'a [Candidate],
    /// Rules that require the name or an ancestor of it.
    pub(super) nearest: Option<Nearest<'a, 'a>>,
}

impl Candidates<'_> {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.nearest.is_none() && self.rest.is_empty() && self.of_type.is_empty()
    }
}

impl Rests {
    #[inline]
    pub(super) fn of(&self, profile: usize) -> &[Candidate] {
        self.by_profile.get(profile).map_or(&[], |list| &self.lists[*list as usize])
    }
}

impl Stage {
    /// Reports whether the stage has no rules.
    pub(super) fn is_empty(&self) -> bool {
        self.names.is_empty() && self.types.is_empty() && self.rest.is_empty()
    }

    /// Returns the number of labels of a name without the root; zero if no rule tests this number.
    #[inline]
    pub(super) fn levels_of(&self, name: &[u8]) -> usize {
        if self.asks_for_levels { labels(name).count() } else { 0 }
    }

    /// Returns the rules that may match the question, according to its name, type and client.
    #[inline]
    pub(super) fn candidates<'a>(
        &'a self,
        question: &RuleQuestion<'a>,
        rests: &'a Rests,
    ) -> Candidates<'a> {
        Candidates {
            rest: rests.of(question.profile.0.into()),
            of_type: self.of_type(question.qtype.0),
            nearest: self.names.nearest(question.qname),
        }
    }

    /// Returns the rules that require the type.
    #[inline]
    pub(super) fn of_type(&self, qtype: u16) -> &[Candidate] {
        match self.types.as_slice() {
            [] => &[],
            types => match types.binary_search_by_key(&qtype, |(qtype, _)| *qtype) {
                Ok(at) => &types[at].1,
                Err(_) => &[],
            },
        }
    }

    /// Finds, for each profile, the rules that require neither a name nor a type and may match.
    /// `facts` has `words` words per profile.
    pub(super) fn rests(&self, facts: &[u64], words: usize, profiles: usize) -> Rests {
        let mut numbers: HashMap<Vec<u32>, u32> = HashMap::new();
        let mut rests =
            Rests { by_profile: vec![0; profiles].into_boxed_slice(), lists: Vec::new() };
        for (profile, list) in rests.by_profile.iter_mut().enumerate() {
            let facts = &facts[profile * words..(profile + 1) * words];
            let holds =
                |condition: u32| facts[condition as usize / 64] >> (condition % 64) & 1 != 0;
            let may_hold = |candidate: &Candidate| {
                candidate.client == Candidate::ANYBODY || holds(candidate.client)
            };
            let places: Vec<u32> = (0..self.rest.len() as u32)
                .filter(|at| may_hold(&self.rest[*at as usize]))
                .collect();
            *list = *numbers.entry(places).or_insert_with_key(|places| {
                let free =
                    |at: &u32| Candidate { client: Candidate::ANYBODY, ..self.rest[*at as usize] };
                rests.lists.push(places.iter().map(free).collect());
                rests.lists.len() as u32 - 1
            });
        }
        rests
    }
}

/// A [`Stage`] to which rules are added in order.
#[derive(Default)]
pub(super) struct StageBuilder {
    names: Vec<(NameKey, Candidate)>,
    types: HashMap<u16, Vec<Candidate>>,
    rest: Vec<Candidate>,
    asks_for_levels: bool,
}

impl StageBuilder {
    /// Adds a rule to the index. If its condition has alternatives with different requirements,
    /// adds each alternative separately.
    pub(super) fn add(&mut self, rule: RuleId, role: Role, folded: &Folded, code: &mut Code) {
        self.asks_for_levels |= asks_for_levels(folded);
        match folded {
            Folded::Const(false) => {}
            Folded::Any(parts) if need(folded) == Need::Nothing => {
                parts.iter().for_each(|part| self.add_one(rule, role, part, code));
            }
            other => self.add_one(rule, role, other, code),
        }
    }

    fn add_one(&mut self, rule: RuleId, role: Role, folded: &Folded, code: &mut Code) {
        let need = need(folded);
        let mut parts = match folded {
            Folded::All(parts) => parts.clone(),
            other => vec![other.clone()],
        };
        // The index ensures this requirement, so it need not be tested again.
        parts.retain(|part| !is_what_is_needed(part, &need));
        let client = parts
            .iter()
            .position(|part| matches!(part, Folded::Leaf(Leaf::Client(_), Sense::Plain)));
        let client = match client.map(|at| parts.remove(at)) {
            Some(Folded::Leaf(Leaf::Client(number), _)) => number,
            _ => Candidate::ANYBODY,
        };
        let candidate =
            Candidate { rule: rule.0, client, code: code.write(&Folded::All(parts)), role };
        match need {
            Need::Names(keys) => self.names.extend(keys.into_iter().map(|key| (key, candidate))),
            Need::Types(types) => {
                types.iter().for_each(|qtype| self.types.entry(*qtype).or_default().push(candidate))
            }
            Need::Nothing => self.rest.push(candidate),
        }
    }

    pub(super) fn build(self) -> Stage {
        let mut types: Vec<(u16, Vec<Candidate>)> = self.types.into_iter().collect();
        types.sort_by_key(|(qtype, _)| *qtype);
        types.iter_mut().for_each(|(_, list)| list.dedup());
        let names = NameIndex::build(&self.names);
        Stage { names, types, rest: self.rest, asks_for_levels: self.asks_for_levels }
    }
}

fn asks_for_levels(folded: &Folded) -> bool {
    match folded {
        Folded::Const(_) => false,
        Folded::Leaf(leaf, _) => matches!(leaf, Leaf::Levels(_)),
        Folded::All(parts) | Folded::Any(parts) => parts.iter().any(asks_for_levels),
        Folded::If(parts) => parts.iter().any(asks_for_levels),
    }
}

/// A requirement that a condition needs in order to hold.
#[derive(Clone, PartialEq, Debug)]
enum Need {
    /// The name is one of these.
    Names(Vec<NameKey>),
    /// The type is one of these.
    Types(Vec<u16>),
    Nothing,
}

fn need(folded: &Folded) -> Need {
    match folded {
        Folded::Leaf(Leaf::Names(keys), Sense::Plain) => Need::Names(keys.clone()),
        Folded::Leaf(Leaf::Type(types), Sense::Plain) => Need::Types(types.clone()),
        Folded::All(parts) => parts.iter().map(need).min_by_key(rank).unwrap_or(Need::Nothing),
        Folded::Any(parts) => parts.iter().map(need).reduce(either).unwrap_or(Need::Nothing),
        _ => Need::Nothing,
    }
}

/// Returns the number by which requirements are compared. The lowest is used for the index: few
/// names are better than many, and many names are better than types.
fn rank(need: &Need) -> usize {
    match need {
        Need::Names(keys) => keys.len(),
        Need::Types(types) => usize::MAX / 2 + types.len(),
        Need::Nothing => usize::MAX,
    }
}

fn either(a: Need, b: Need) -> Need {
    match (a, b) {
        (Need::Names(mut a), Need::Names(b)) => {
            a.extend(b);
            Need::Names(a)
        }
        (Need::Types(mut a), Need::Types(b)) => {
            a.extend(b);
            Need::Types(a)
        }
        _ => Need::Nothing,
    }
}

fn is_what_is_needed(part: &Folded, need: &Need) -> bool {
    match (part, need) {
        (Folded::Leaf(Leaf::Names(keys), Sense::Plain), Need::Names(needed)) => keys == needed,
        (Folded::Leaf(Leaf::Type(types), Sense::Plain), Need::Types(needed)) => types == needed,
        _ => false,
    }
}
