//! A checked expression: all its names are known and all its values are typed.

use ipnet::IpNet;

use super::fault::Span;
use super::schedule::TimeTest;
use super::syntax::Comparison;
use super::text::TextTest;
use crate::client::ClientTest;

/// The identifier of a list: its index in the [`super::Vocabulary`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ListId(pub u16);

/// A country as two upper-case letters (ISO 3166-1).
pub type Country = [u8; 2];

/// A condition and its location in the expression.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Node {
    pub(super) kind: NodeKind,
    pub(super) span: Span,
}

/// The kind of a condition.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum NodeKind {
    Const(bool),
    Not(Box<Node>),
    All(Vec<Node>),
    Any(Vec<Node>),
    If(Box<[Node; 3]>),
    Test(Test),
}

/// A condition that contains no other condition.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Test {
    Client(ClientTest),
    Time(TimeTest),
    Name(NameTest),
    /// The QNAME, or a name that the answer leads to, belongs to the service with these names.
    Service(Vec<NameKey>),
    Type(Vec<u16>),
    Class(Vec<u16>),
    Levels(NumberTest),
    List(ListId),
    /// An address in the answer is in one of the networks.
    AnswerAddress(Vec<IpNet>),
    /// An alias in the answer leads to a name that passes the test.
    AnswerName(NameTest),
    /// An address in the answer is in one of the countries.
    Country(Vec<Country>),
}

/// A test of a domain name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum NameTest {
    /// The name is one of these names or below one of them.
    OneOf(Vec<NameKey>),
    Text(TextTest),
}

impl NameTest {
    /// Reports whether the test holds for a folded name.
    pub(super) fn holds(&self, name: &[u8]) -> bool {
        match self {
            Self::OneOf(keys) => keys.iter().any(|key| key.holds(name)),
            Self::Text(test) => test.holds(super::text::NameText::of(name).octets()),
        }
    }
}

/// A name, with or without the names below it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct NameKey {
    /// The name in lower case and wire form.
    pub(super) name: Box<[u8]>,
    pub(super) reach: Reach,
}

impl NameKey {
    pub(super) fn holds(&self, name: &[u8]) -> bool {
        match self.reach {
            Reach::Exact => *self.name == *name,
            Reach::Under => avocet_wire::name::is_under(name, &self.name),
        }
    }
}

/// The names that a [`NameKey`] covers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Reach {
    /// The name itself.
    Exact,
    /// The name and all names below it.
    Under,
}

/// A test of a number: whether the comparison holds for the number and one of the operands.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct NumberTest {
    pub(super) comparison: Comparison,
    pub(super) operands: Vec<i64>,
}

impl NumberTest {
    pub(super) fn holds(&self, number: i64) -> bool {
        self.operands.iter().any(|operand| self.comparison.holds(number, *operand))
    }
}

/// The inputs, other than the question, that a condition reads.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Reads {
    pub(super) answer: bool,
    pub(super) lists: bool,
    /// Whether a test of the QNAME also applies to the names that an answer leads to.
    pub(super) names_behind: bool,
    pub(super) countries: bool,
}

impl Node {
    pub(super) fn reads(&self) -> Reads {
        let mut reads = Reads::default();
        self.for_each_test(&mut |test| match test {
            Test::AnswerAddress(_) | Test::AnswerName(_) => reads.answer = true,
            Test::Country(_) => (reads.answer, reads.countries) = (true, true),
            Test::List(_) => (reads.lists, reads.names_behind) = (true, true),
            Test::Service(_) => reads.names_behind = true,
            _ => {}
        });
        reads
    }

    pub(super) fn for_each_test<'a>(&'a self, take: &mut impl FnMut(&'a Test)) {
        match &self.kind {
            NodeKind::Const(_) => {}
            NodeKind::Test(test) => take(test),
            NodeKind::Not(inner) => inner.for_each_test(take),
            NodeKind::All(parts) | NodeKind::Any(parts) => {
                parts.iter().for_each(|part| part.for_each_test(take))
            }
            NodeKind::If(parts) => parts.iter().for_each(|part| part.for_each_test(take)),
        }
    }
}
