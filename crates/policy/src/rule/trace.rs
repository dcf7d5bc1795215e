//! Evaluation of an expression on one sample question, with the result of each part.
//!
//! This evaluation walks the checked tree and shares no code with the compiled program, so that
//! tests can compare the two.

use std::fmt;
use std::net::IpAddr;

use super::Vocabulary;
use super::check::check;
use super::fault::{Fault, Span};
use super::schedule::NamedTimeZone;
use super::tree::{Country, ListId, Node, NodeKind, Test};
use crate::client::Asker;

/// A sample question with its client and answer.
#[derive(Clone, Debug, Default)]
pub struct Sample<'a> {
    /// The name in lower case and wire form.
    pub qname: &'a [u8],
    /// The QTYPE.
    pub qtype: u16,
    /// The QCLASS.
    pub qclass: u16,
    /// The client.
    pub asker: Asker<'a>,
    /// The time, in Unix seconds.
    pub now: u64,
    /// The lists that contain the QNAME.
    pub lists: &'a [ListId],
    /// The addresses in the answer.
    pub addresses: &'a [IpAddr],
    /// The names in the answer, in lower-case wire form.
    pub names: &'a [&'a [u8]],
    /// The countries of the addresses.
    pub countries: &'a [Country],
}

/// The result of a part of an expression.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// The location of the part in the expression.
    pub span: Span,
    /// The nesting depth of the part in the expression.
    pub depth: usize,
    /// Whether the part holds, or `None` if it was not evaluated.
    pub holds: Option<bool>,
}

/// The results of an expression and all its parts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trace {
    expression: String,
    /// The results, in the order of the text. Each part comes before the parts inside it.
    pub steps: Vec<Step>,
}

impl Trace {
    /// Reports whether the expression holds.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.steps.first().and_then(|step| step.holds).unwrap_or_default()
    }

    /// Returns the text of a part.
    #[must_use]
    pub fn text(&self, step: &Step) -> &str {
        step.span.of(&self.expression)
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in &self.steps {
            let says = match step.holds {
                Some(true) => "true",
                Some(false) => "false",
                None => "-",
            };
            let text = self.text(step).split_whitespace().collect::<Vec<_>>().join(" ");
            writeln!(f, "{says:<6}{}{text}", "  ".repeat(step.depth))?;
        }
        Ok(())
    }
}

/// Parses, checks and evaluates an expression on a sample, with `now` in the vocabulary's time
/// zone.
///
/// # Errors
/// The expression is invalid.
pub fn test(
    expression: &str,
    vocabulary: &Vocabulary,
    sample: &Sample<'_>,
) -> Result<Trace, Fault> {
    let tree = check(expression, vocabulary)?;
    let Some(zone) = NamedTimeZone::named(&vocabulary.time_zone) else {
        return Err(Fault::at(
            Span::default(),
            format!("there is no time zone `{}`", vocabulary.time_zone),
        ));
    };
    let mut steps = Vec::new();
    tree.traced(&zone, sample, 0, &mut steps);
    Ok(Trace { expression: expression.to_owned(), steps })
}

impl Node {
    /// Evaluates the condition on the sample.
    fn traced(
        &self,
        zone: &NamedTimeZone,
        sample: &Sample<'_>,
        depth: usize,
        steps: &mut Vec<Step>,
    ) -> bool {
        let place = steps.len();
        steps.push(Step { span: self.span, depth, holds: None });
        let mut ask = |part: &Self| part.traced(zone, sample, depth + 1, steps);
        let holds = match &self.kind {
            NodeKind::Const(value) => *value,
            NodeKind::Not(inner) => !ask(inner),
            NodeKind::All(parts) => chain(parts, EndsAt::False, depth, steps, |part, steps| {
                part.traced(zone, sample, depth + 1, steps)
            }),
            NodeKind::Any(parts) => chain(parts, EndsAt::True, depth, steps, |part, steps| {
                part.traced(zone, sample, depth + 1, steps)
            }),
            NodeKind::If(parts) => {
                let [condition, then, otherwise] = &**parts;
                if ask(condition) { ask(then) } else { ask(otherwise) }
            }
            NodeKind::Test(test) => test.holds(zone, sample),
        };
        steps[place].holds = Some(holds);
        holds
    }
}

/// The value that ends a chain: `true` for a disjunction, and `false` for a conjunction.
#[derive(Clone, Copy, PartialEq, Eq)]
enum EndsAt {
    False,
    True,
}

/// Evaluates parts until one equals `end`. The remaining parts are recorded as not evaluated.
fn chain(
    parts: &[Node],
    ends_at: EndsAt,
    depth: usize,
    steps: &mut Vec<Step>,
    ask: impl Fn(&Node, &mut Vec<Step>) -> bool,
) -> bool {
    let end = ends_at == EndsAt::True;
    for (at, part) in parts.iter().enumerate() {
        if ask(part, steps) == end {
            let rest = parts[at + 1..].iter().map(|part| Step {
                span: part.span,
                depth: depth + 1,
                holds: None,
            });
            steps.extend(rest);
            return end;
        }
    }
    !end
}

impl Test {
    fn holds(&self, zone: &NamedTimeZone, sample: &Sample<'_>) -> bool {
        match self {
            Self::Client(test) => test.holds(&sample.asker),
            Self::Time(test) => test.holds(zone.minute_of_week(sample.now)),
            Self::Name(test) => test.holds(sample.qname),
            Self::Service(keys) => {
                let mut names = sample.names.iter().chain([&sample.qname]);
                names.any(|name| keys.iter().any(|key| key.holds(name)))
            }
            Self::Type(types) => types.contains(&sample.qtype),
            Self::Class(classes) => classes.contains(&sample.qclass),
            Self::Levels(test) => {
                test.holds(avocet_wire::name::labels(sample.qname).count() as i64)
            }
            Self::List(list) => sample.lists.contains(list),
            Self::AnswerAddress(networks) => {
                let inside = |address: &IpAddr| {
                    networks.iter().any(|net| net.contains(&address.to_canonical()))
                };
                sample.addresses.iter().any(inside)
            }
            Self::AnswerName(test) => sample.names.iter().any(|name| test.holds(name)),
            Self::Country(countries) => {
                sample.countries.iter().any(|country| countries.contains(country))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_says_what_it_holds() {
        let sample = Sample {
            qname: b"\x03www\x07example\x03com\x00",
            qtype: 1,
            qclass: 1,
            ..Sample::default()
        };
        let expression = "qtype == \"A\" && (qname.under(\"net\") || qname.levels() == 3) && \
                          !(false && now.weekend)";
        let trace = test(expression, &Vocabulary::default(), &sample).unwrap();
        assert!(trace.holds());
        let expected = "\
true  qtype == \"A\" && (qname.under(\"net\") || qname.levels() == 3) && !(false && now.weekend)
true    qtype == \"A\"
true    (qname.under(\"net\") || qname.levels() == 3)
false     qname.under(\"net\")
true      qname.levels() == 3
true    !(false && now.weekend)
false     (false && now.weekend)
false       false
-           now.weekend
";
        assert_eq!(trace.to_string(), expected);
    }

    #[test]
    fn a_wrong_expression_is_a_fault() {
        assert!(test("qname.under(", &Vocabulary::default(), &Sample::default()).is_err());
    }
}
