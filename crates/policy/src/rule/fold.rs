//! Preparation of a checked condition for indexing: the parts that depend only on the client become
//! one test of the profile. The parts that depend only on the time become one set of minutes. Only
//! leaves remain negated.

use ipnet::IpNet;

use super::fault::Span;
use super::schedule::{NamedTimeZone, Week, Window};
use super::text::TextTest;
use super::tree::{Country, ListId, NameKey, NameTest, Node, NodeKind, NumberTest, Test};
use crate::client::ClientTest;

/// A condition that is prepared for indexing (folded).
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Folded {
    Const(bool),
    All(Vec<Folded>),
    Any(Vec<Folded>),
    If(Box<[Folded; 3]>),
    Leaf(Leaf, Sense),
}

/// Whether a leaf is negated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sense {
    Plain,
    Negated,
}

impl Sense {
    const fn flipped(self) -> Self {
        match self {
            Self::Plain => Self::Negated,
            Self::Negated => Self::Plain,
        }
    }
}

/// The parameters of the preparation of a condition.
#[derive(Clone, Copy)]
pub(super) struct Reading<'z> {
    /// The time zone for `now` in the condition.
    pub(super) zone: &'z NamedTimeZone,
    pub(super) names: Names,
}

/// The names that `list()` and `service()` test.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Names {
    /// The QNAME.
    Asked,
    /// The QNAME and the names that the answer leads to.
    All,
}

/// A test that is evaluated for each query.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Leaf {
    /// The condition on clients at this index holds.
    Client(u32),
    /// The condition on the time at this index holds.
    Window(u32),
    Type(Vec<u16>),
    Class(Vec<u16>),
    Levels(NumberTest),
    Names(Vec<NameKey>),
    Text(TextTest),
    /// The QNAME, or a name that the answer leads to, is on the list.
    List(ListId),
    /// The QNAME is on the list.
    ListOfName(ListId),
    /// The QNAME, or a name that the answer leads to, is one of these names.
    NamesBehind(Vec<NameKey>),
    AnswerAddress(Vec<IpNet>),
    AnswerNames(Vec<NameKey>),
    AnswerText(TextTest),
    Country(Vec<Country>),
}

/// A step of a condition on the client, in postfix order.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum ClientStep {
    /// The result of the test on clients at this index.
    Test(u32),
    Const(bool),
    Not,
    /// The conjunction of this number of preceding values.
    All(u32),
    Any(u32),
    If,
}

/// The conditions on clients and on the time of all rules, each stored once.
#[derive(Default)]
pub(super) struct Shared {
    pub(super) tests: Vec<ClientTest>,
    pub(super) clients: Vec<Vec<ClientStep>>,
    pub(super) windows: Vec<Window>,
    client_numbers: std::collections::HashMap<Vec<ClientStep>, u32>,
    test_numbers: std::collections::HashMap<String, u32>,
}

impl Shared {
    /// Prepares a condition for indexing.
    pub(super) fn fold(&mut self, node: &Node, reading: Reading<'_>) -> Folded {
        self.folded(node, reading, Sense::Plain)
    }

    /// Prepares a test of the client for indexing.
    pub(super) fn fold_client(&mut self, test: ClientTest) -> Folded {
        let node = Node { kind: NodeKind::Test(Test::Client(test)), span: Span::default() };
        Folded::Leaf(Leaf::Client(self.client(&node)), Sense::Plain)
    }

    fn folded(&mut self, node: &Node, reading: Reading<'_>, sense: Sense) -> Folded {
        if let NodeKind::Const(value) = node.kind {
            return Folded::Const(value == (sense == Sense::Plain));
        }
        match subject(node) {
            Subject::Client => return Folded::Leaf(Leaf::Client(self.client(node)), sense),
            Subject::Time => return self.window(node, reading.zone, sense),
            Subject::Other => {}
        }
        match (&node.kind, sense) {
            (NodeKind::Not(inner), _) => self.folded(inner, reading, sense.flipped()),
            (NodeKind::All(parts), Sense::Plain) | (NodeKind::Any(parts), Sense::Negated) => {
                all(self.parts(parts, reading, sense, node))
            }
            (NodeKind::Any(parts), _) | (NodeKind::All(parts), _) => {
                any(self.parts(parts, reading, sense, node))
            }
            (NodeKind::If(parts), _) => {
                let [a, b, c] = &**parts;
                let condition = self.folded(a, reading, Sense::Plain);
                let (then, otherwise) =
                    (self.folded(b, reading, sense), self.folded(c, reading, sense));
                match condition {
                    Folded::Const(true) => then,
                    Folded::Const(false) => otherwise,
                    condition => Folded::If(Box::new([condition, then, otherwise])),
                }
            }
            (NodeKind::Test(test), _) => Folded::Leaf(leaf(test, reading.names), sense),
            (NodeKind::Const(value), _) => Folded::Const(*value),
        }
    }

    /// Folds the parts of a conjunction or disjunction. Combines the parts that test only the
    /// client, and combines the parts that test only the time.
    fn parts(
        &mut self,
        parts: &[Node],
        reading: Reading<'_>,
        sense: Sense,
        whole: &Node,
    ) -> Vec<Folded> {
        let join = |mut parts: Vec<Node>| {
            if parts.len() == 1 {
                return parts.remove(0);
            }
            let kind = match whole.kind {
                NodeKind::All(_) => NodeKind::All(parts),
                _ => NodeKind::Any(parts),
            };
            Node { kind, span: whole.span }
        };
        let of = |wanted: Subject| {
            parts.iter().filter(|part| subject(part) == wanted).cloned().collect::<Vec<_>>()
        };
        let mut folded = Vec::new();
        for alike in [of(Subject::Client), of(Subject::Time)] {
            if !alike.is_empty() {
                folded.push(self.folded(&join(alike), reading, sense));
            }
        }
        for part in parts.iter().filter(|part| subject(part) == Subject::Other) {
            folded.push(self.folded(part, reading, sense));
        }
        folded
    }

    fn client(&mut self, node: &Node) -> u32 {
        let mut steps = Vec::new();
        self.client_steps(node, &mut steps);
        let next = self.clients.len() as u32;
        *self.client_numbers.entry(steps.clone()).or_insert_with(|| {
            self.clients.push(steps);
            next
        })
    }

    fn client_steps(&mut self, node: &Node, steps: &mut Vec<ClientStep>) {
        match &node.kind {
            NodeKind::Const(value) => steps.push(ClientStep::Const(*value)),
            NodeKind::Not(inner) => {
                self.client_steps(inner, steps);
                steps.push(ClientStep::Not);
            }
            NodeKind::All(parts) => {
                parts.iter().for_each(|part| self.client_steps(part, steps));
                steps.push(ClientStep::All(parts.len() as u32));
            }
            NodeKind::Any(parts) => {
                parts.iter().for_each(|part| self.client_steps(part, steps));
                steps.push(ClientStep::Any(parts.len() as u32));
            }
            NodeKind::If(parts) => {
                parts.iter().for_each(|part| self.client_steps(part, steps));
                steps.push(ClientStep::If);
            }
            NodeKind::Test(Test::Client(test)) => {
                let test = ClientStep::Test(self.test(test));
                steps.push(test);
            }
            NodeKind::Test(_) => {}
        }
    }

    fn test(&mut self, test: &ClientTest) -> u32 {
        let next = self.tests.len() as u32;
        *self.test_numbers.entry(format!("{test:?}")).or_insert_with(|| {
            self.tests.push(test.clone());
            next
        })
    }

    fn window(&mut self, node: &Node, zone: &NamedTimeZone, sense: Sense) -> Folded {
        let week = Week::of(|minute| time_holds(node, minute));
        if let Some(value) = week.constant() {
            return Folded::Const(value == (sense == Sense::Plain));
        }
        let found =
            self.windows.iter().position(|window| window.zone == *zone && window.week == week);
        let number = found.unwrap_or_else(|| {
            self.windows.push(Window::new(zone.clone(), week));
            self.windows.len() - 1
        });
        Folded::Leaf(Leaf::Window(number as u32), sense)
    }
}

/// The inputs that a condition depends on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Subject {
    Client,
    Time,
    Other,
}

fn subject(node: &Node) -> Subject {
    let (mut clients, mut times, mut others) = (0, 0, 0);
    node.for_each_test(&mut |test| match test {
        Test::Client(_) => clients += 1,
        Test::Time(_) => times += 1,
        _ => others += 1,
    });
    match (clients, times, others) {
        (1.., 0, 0) => Subject::Client,
        (0, 1.., 0) => Subject::Time,
        _ => Subject::Other,
    }
}

/// Evaluates a condition that tests only the time, for a minute of the week.
fn time_holds(node: &Node, minute: u16) -> bool {
    match &node.kind {
        NodeKind::Const(value) => *value,
        NodeKind::Not(inner) => !time_holds(inner, minute),
        NodeKind::All(parts) => parts.iter().all(|part| time_holds(part, minute)),
        NodeKind::Any(parts) => parts.iter().any(|part| time_holds(part, minute)),
        NodeKind::If(parts) => {
            time_holds(&parts[if time_holds(&parts[0], minute) { 1 } else { 2 }], minute)
        }
        NodeKind::Test(Test::Time(test)) => test.holds(minute),
        NodeKind::Test(_) => false,
    }
}

fn leaf(test: &Test, names: Names) -> Leaf {
    match test {
        // Conditions on clients and times have their indices by now, so these indices are never
        // used.
        Test::Client(_) => Leaf::Client(u32::MAX),
        Test::Time(_) => Leaf::Window(u32::MAX),
        Test::Name(NameTest::OneOf(keys)) => Leaf::Names(keys.clone()),
        Test::Name(NameTest::Text(test)) => Leaf::Text(test.clone()),
        Test::Type(types) => Leaf::Type(types.clone()),
        Test::Class(classes) => Leaf::Class(classes.clone()),
        Test::Levels(test) => Leaf::Levels(test.clone()),
        Test::List(list) if names == Names::Asked => Leaf::ListOfName(*list),
        Test::List(list) => Leaf::List(*list),
        Test::Service(keys) if names == Names::Asked => Leaf::Names(keys.clone()),
        Test::Service(keys) => Leaf::NamesBehind(keys.clone()),
        Test::AnswerAddress(networks) => Leaf::AnswerAddress(networks.clone()),
        Test::AnswerName(NameTest::OneOf(keys)) => Leaf::AnswerNames(keys.clone()),
        Test::AnswerName(NameTest::Text(test)) => Leaf::AnswerText(test.clone()),
        Test::Country(countries) => Leaf::Country(countries.clone()),
    }
}

/// Returns the conjunction of the parts, ordered so that cheap parts are evaluated first.
pub(super) fn all(parts: Vec<Folded>) -> Folded {
    let mut flat = Vec::new();
    for part in parts {
        match part {
            Folded::Const(true) => {}
            Folded::Const(false) => return Folded::Const(false),
            Folded::All(inner) => flat.extend(inner),
            other => flat.push(other),
        }
    }
    flat.sort_by_key(cost);
    match flat.len() {
        0 => Folded::Const(true),
        1 => flat.remove(0),
        _ => Folded::All(flat),
    }
}

/// Returns the disjunction of the parts, ordered so that cheap parts are evaluated first. Merges
/// the sets of names of several parts.
fn any(parts: Vec<Folded>) -> Folded {
    let (mut flat, mut names) = (Vec::new(), Vec::new());
    for part in parts {
        match part {
            Folded::Const(false) => {}
            Folded::Const(true) => return Folded::Const(true),
            Folded::Any(inner) => flat.extend(inner),
            other => flat.push(other),
        }
    }
    flat.retain(|part| match part {
        Folded::Leaf(Leaf::Names(keys), Sense::Plain) => {
            names.extend(keys.iter().cloned());
            false
        }
        _ => true,
    });
    if !names.is_empty() {
        flat.push(Folded::Leaf(Leaf::Names(names), Sense::Plain));
    }
    flat.sort_by_key(cost);
    match flat.len() {
        0 => Folded::Const(false),
        1 => flat.remove(0),
        _ => Folded::Any(flat),
    }
}

/// Returns the position of a part in the order of evaluation. Conditions on the time come last,
/// because each one that is evaluated may shorten the validity of the verdict.
fn cost(folded: &Folded) -> u32 {
    match folded {
        Folded::Const(_) => 0,
        Folded::All(parts) | Folded::Any(parts) => 1 + parts.iter().map(cost).max().unwrap_or(0),
        Folded::If(parts) => 1 + parts.iter().map(cost).max().unwrap_or(0),
        Folded::Leaf(leaf, _) => match leaf {
            Leaf::Client(_) => 0,
            Leaf::Type(_) | Leaf::Class(_) => 10,
            Leaf::Levels(_) => 20,
            Leaf::Names(_) | Leaf::Country(_) | Leaf::AnswerAddress(_) => 30,
            Leaf::AnswerNames(_) | Leaf::NamesBehind(_) => 40,
            Leaf::Text(_) => 50,
            Leaf::AnswerText(_) => 60,
            Leaf::List(_) | Leaf::ListOfName(_) => 70,
            Leaf::Window(_) => 80,
        },
    }
}
