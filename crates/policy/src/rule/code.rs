//! The part of a condition that remains after indexing, as a branching program. Each step tests one
//! property, and then continues at one of two other steps, accepts, or rejects. A program needs no
//! stack. It always ends, because each step refers only to steps that were written before it.

use std::collections::HashMap;

use avocet_wire::name::is_under;
use ipnet::IpNet;

use super::fold::{Folded, Leaf, Sense};
use super::patterns::{Memo, PatternId, Patterns};
use super::program::{Answer, Hours, ListLookup, RuleQuestion};
use super::text::TextTest;
use super::tree::{Country, ListId, NameKey, NumberTest, Reach};

/// Target of a step: the condition holds.
pub(super) const ACCEPT: u32 = u32::MAX;
/// Target of a step: the condition does not hold.
pub(super) const REJECT: u32 = u32::MAX - 1;

/// A range of elements in one of the tables of [`Code`].
#[derive(Clone, Copy, Debug)]
struct Run {
    start: u32,
    len: u32,
}

impl Run {
    #[inline]
    fn of<T>(self, table: &[T]) -> &[T] {
        &table[self.start as usize..(self.start + self.len) as usize]
    }
}

/// The test of one step.
#[derive(Clone, Copy, Debug)]
enum Ask {
    Client(u32),
    Window(u32),
    Type(u16),
    Types(Run),
    Classes(Run),
    Levels(u32),
    Names(Run),
    Text(PatternId),
    List(ListId),
    ListOfName(ListId),
    NamesBehind(Run),
    AnswerAddress(Run),
    AnswerNames(Run),
    AnswerText(PatternId),
    Country(Run),
}

#[derive(Clone, Copy, Debug)]
struct Step {
    ask: Ask,
    yes: u32,
    no: u32,
}

/// The code of all rules of a program.
#[derive(Default)]
pub(super) struct Code {
    steps: Vec<Step>,
    numbers: Vec<u16>,
    /// For each test of the number of labels: the numbers that pass the test, one bit for each.
    levels: Vec<[u64; 2]>,
    keys: Vec<NameKey>,
    networks: Vec<IpNet>,
    countries: Vec<Country>,
    texts: Vec<TextTest>,
    text_numbers: HashMap<String, u32>,
    patterns: Patterns,
}

/// The inputs and intermediate results of evaluating rules for one question.
pub(super) struct Asking<'a, L> {
    pub(super) question: &'a RuleQuestion<'a>,
    /// The number of labels of the name, if a rule tests it: see
    /// [`Stage::levels_of`](super::stage::Stage::levels_of).
    pub(super) levels: usize,
    pub(super) answer: Option<&'a Answer<'a>>,
    pub(super) hours: &'a Hours,
    pub(super) lists: &'a L,
    /// The results of the conditions on clients for the profile.
    pub(super) facts: &'a [u64],
    /// The Unix second from which the result may change. Each condition on the time that is
    /// evaluated may lower it.
    pub(super) valid_until: u64,
    pub(super) memo: Memo,
}

impl<L> Asking<'_, L> {
    #[inline]
    pub(super) fn client_holds(&self, condition: u32) -> bool {
        self.facts[condition as usize / 64] >> (condition % 64) & 1 != 0
    }
}

impl Code {
    /// Writes the code of a condition. Returns the index of its first step.
    pub(super) fn write(&mut self, folded: &Folded) -> u32 {
        self.emit(folded, ACCEPT, REJECT)
    }

    /// Builds the automata of the text tests, after all conditions are written.
    pub(super) fn finish(&mut self) {
        let (patterns, places) = Patterns::build(&self.texts);
        for step in &mut self.steps {
            if let Ask::Text(text) | Ask::AnswerText(text) = &mut step.ask {
                *text = places[text.number()];
            }
        }
        self.patterns = patterns;
        self.text_numbers = HashMap::new();
    }

    fn emit(&mut self, folded: &Folded, yes: u32, no: u32) -> u32 {
        match folded {
            Folded::Const(true) => yes,
            Folded::Const(false) => no,
            Folded::All(parts) => {
                parts.iter().rev().fold(yes, |next, part| self.emit(part, next, no))
            }
            Folded::Any(parts) => {
                parts.iter().rev().fold(no, |next, part| self.emit(part, yes, next))
            }
            Folded::If(parts) => {
                let [condition, then, otherwise] = &**parts;
                let then = self.emit(then, yes, no);
                let otherwise = self.emit(otherwise, yes, no);
                self.emit(condition, then, otherwise)
            }
            Folded::Leaf(leaf, sense) => {
                let ask = self.ask(leaf);
                let (yes, no) = if *sense == Sense::Plain { (yes, no) } else { (no, yes) };
                self.steps.push(Step { ask, yes, no });
                self.steps.len() as u32 - 1
            }
        }
    }

    fn ask(&mut self, leaf: &Leaf) -> Ask {
        match leaf {
            Leaf::Client(number) => Ask::Client(*number),
            Leaf::Window(number) => Ask::Window(*number),
            Leaf::Type(types) => match types.as_slice() {
                [one] => Ask::Type(*one),
                types => Ask::Types(append(&mut self.numbers, types)),
            },
            Leaf::Class(classes) => Ask::Classes(append(&mut self.numbers, classes)),
            Leaf::Levels(test) => {
                self.levels.push(counts(test));
                Ask::Levels(self.levels.len() as u32 - 1)
            }
            Leaf::Names(keys) => Ask::Names(append(&mut self.keys, keys)),
            Leaf::Text(test) => Ask::Text(self.text(test)),
            Leaf::List(list) => Ask::List(*list),
            Leaf::ListOfName(list) => Ask::ListOfName(*list),
            Leaf::NamesBehind(keys) => Ask::NamesBehind(append(&mut self.keys, keys)),
            Leaf::AnswerAddress(networks) => {
                Ask::AnswerAddress(append(&mut self.networks, networks))
            }
            Leaf::AnswerNames(keys) => Ask::AnswerNames(append(&mut self.keys, keys)),
            Leaf::AnswerText(test) => Ask::AnswerText(self.text(test)),
            Leaf::Country(countries) => Ask::Country(append(&mut self.countries, countries)),
        }
    }

    /// Returns a number for a text test. It is final only after [`Self::finish`].
    fn text(&mut self, test: &TextTest) -> PatternId {
        let next = self.texts.len() as u32;
        let number = *self.text_numbers.entry(test.as_pattern()).or_insert_with(|| {
            self.texts.push(test.clone());
            next
        });
        PatternId::numbered(number)
    }

    /// Evaluates the condition that begins at `start`.
    #[inline]
    pub(super) fn holds<L: ListLookup>(&self, start: u32, asking: &mut Asking<'_, L>) -> bool {
        let mut at = start;
        while at < REJECT {
            let step = &self.steps[at as usize];
            at = if self.answer(&step.ask, asking) { step.yes } else { step.no };
        }
        at == ACCEPT
    }

    /// Evaluates the test of a step. Only tests of a few instructions are inline, so that the loop
    /// needs few registers.
    #[inline(always)]
    fn answer<L: ListLookup>(&self, ask: &Ask, asking: &mut Asking<'_, L>) -> bool {
        match *ask {
            Ask::Client(condition) => asking.client_holds(condition),
            Ask::Type(qtype) => asking.question.qtype.0 == qtype,
            Ask::Levels(test) => {
                let count = asking.levels;
                self.levels[test as usize]
                    .get(count / 64)
                    .is_some_and(|word| word >> (count % 64) & 1 != 0)
            }
            Ask::Text(place) => {
                self.patterns.matches(place, asking.question.qname, &mut asking.memo)
            }
            _ => self.answer_aside(*ask, asking),
        }
    }

    #[inline(never)]
    fn answer_aside<L: ListLookup>(&self, ask: Ask, asking: &mut Asking<'_, L>) -> bool {
        match ask {
            Ask::Names(run) => one_of(run.of(&self.keys), asking.question.qname),
            Ask::Window(window) => {
                let (holds, until) = asking.hours.of(window);
                asking.valid_until = asking.valid_until.min(until);
                holds
            }
            Ask::Types(run) => run.of(&self.numbers).contains(&asking.question.qtype.0),
            Ask::Classes(run) => run.of(&self.numbers).contains(&asking.question.qclass.0),
            Ask::List(list) => asking.lists.contains(list),
            Ask::ListOfName(list) => asking.lists.contains_qname(list),
            Ask::NamesBehind(run) => {
                let behind = asking.answer.map_or(&[][..], |answer| answer.judged);
                behind
                    .iter()
                    .chain([&asking.question.qname])
                    .any(|name| one_of(run.of(&self.keys), name))
            }
            other => asking.answer.is_some_and(|answer| self.of_answer(other, answer)),
        }
    }

    fn of_answer(&self, ask: Ask, answer: &Answer<'_>) -> bool {
        match ask {
            Ask::AnswerAddress(run) => {
                let networks = run.of(&self.networks);
                let holds = |network: &IpNet| {
                    answer.addresses.iter().any(|address| network.contains(&address.to_canonical()))
                };
                networks.iter().any(holds)
            }
            Ask::AnswerNames(run) => {
                answer.names.iter().any(|name| one_of(run.of(&self.keys), name))
            }
            Ask::AnswerText(place) => answer.names.iter().any(|name| {
                let mut memo = Memo::EMPTY;
                self.patterns.matches(place, name, &mut memo)
            }),
            Ask::Country(run) => {
                let countries = run.of(&self.countries);
                answer.countries.iter().any(|country| countries.contains(country))
            }
            _ => false,
        }
    }
}

/// Returns the set of the numbers of labels, up to 127, for which the test holds.
fn counts(test: &NumberTest) -> [u64; 2] {
    let mut bits = [0; 2];
    for count in (0..128).filter(|count| test.holds(*count as i64)) {
        bits[count / 64] |= 1 << (count % 64);
    }
    bits
}

#[inline]
fn one_of(keys: &[NameKey], name: &[u8]) -> bool {
    keys.iter().any(|key| match key.reach {
        Reach::Exact => *key.name == *name,
        // The end of the name is compared first, because most names differ there.
        Reach::Under => name.ends_with(&key.name) && is_under(name, &key.name),
    })
}

fn append<T: Clone>(table: &mut Vec<T>, values: &[T]) -> Run {
    let run = Run { start: table.len() as u32, len: values.len() as u32 };
    table.extend_from_slice(values);
    run
}
