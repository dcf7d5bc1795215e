//! Conditions that can never be true, such as `now.hour >= 24`: mistakes that are valid CEL.
//!
//! Tests of the time are evaluated for every minute of a week. Tests of the number of labels and of
//! the text of a name are evaluated once. The result of any other test is unknown: it may be true
//! or false.

use std::ops::Not as _;

use super::fault::Span;
use super::schedule::WEEK_MINUTES;
use super::tree::{NameTest, Node, NodeKind, NumberTest, Test};

/// Maximum number of tests in a condition that is examined. The examination takes up to a tenth of
/// a second.
const MAX_TESTS: usize = 64;
/// Maximum number of labels of a name without the root (RFC 1035 §3.1).
const MAX_LEVELS: i64 = 127;

impl Node {
    /// Returns the largest parts of the condition that can never be true. Does not report the
    /// constant `false`, because the author of the rule wrote it intentionally.
    pub(super) fn never_true(&self) -> Vec<Span> {
        let (mut tests, mut found) = (0, Vec::new());
        self.for_each_test(&mut |_| tests += 1);
        if tests <= MAX_TESTS {
            self.add_never_true(&mut found);
        }
        found
    }

    fn add_never_true(&self, found: &mut Vec<Span>) {
        let is_constant = matches!(self.kind, NodeKind::Const(_));
        if !is_constant && (0..WEEK_MINUTES as u16).all(|minute| self.at(minute) == Some(false)) {
            found.push(self.span);
            return;
        }
        match &self.kind {
            NodeKind::Const(_) | NodeKind::Test(_) => {}
            NodeKind::Not(inner) => inner.add_never_true(found),
            NodeKind::All(parts) | NodeKind::Any(parts) => {
                parts.iter().for_each(|part| part.add_never_true(found))
            }
            NodeKind::If(parts) => parts.iter().for_each(|part| part.add_never_true(found)),
        }
    }

    /// Returns the value of the condition in a minute of the week; `None` if it depends on more
    /// than the time.
    fn at(&self, minute: u16) -> Option<bool> {
        match &self.kind {
            NodeKind::Const(value) => Some(*value),
            NodeKind::Not(inner) => inner.at(minute).map(|value| !value),
            NodeKind::All(parts) => all(parts.iter().map(|part| part.at(minute))),
            NodeKind::Any(parts) => {
                let negated = parts.iter().map(|part| part.at(minute).map(|value| !value));
                all(negated).map(|value| !value)
            }
            NodeKind::If(parts) => {
                let [condition, then, otherwise] = &**parts;
                let (then, otherwise) = (then.at(minute), otherwise.at(minute));
                match condition.at(minute) {
                    Some(true) => then,
                    Some(false) => otherwise,
                    None => then.filter(|_| then == otherwise),
                }
            }
            NodeKind::Test(Test::Time(time)) => Some(time.holds(minute)),
            NodeKind::Test(Test::Levels(number)) => constant(number),
            NodeKind::Test(
                Test::Name(NameTest::Text(text)) | Test::AnswerName(NameTest::Text(text)),
            ) => text.may_hold_for_name().not().then_some(false),
            NodeKind::Test(_) => None,
        }
    }
}

/// Returns the conjunction of values; `None` if it is unknown. A value is `None` if it is unknown.
fn all(values: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    let mut result = Some(true);
    for value in values {
        match value {
            Some(false) => return Some(false),
            Some(true) => {}
            None => result = None,
        }
    }
    result
}

/// Returns the result of a test of the number of labels if the result is the same for all names;
/// otherwise `None`.
fn constant(test: &NumberTest) -> Option<bool> {
    let first = test.holds(0);
    (1..=MAX_LEVELS).all(|levels| test.holds(levels) == first).then_some(first)
}

#[cfg(test)]
mod tests {
    use crate::rule::Vocabulary;
    use crate::rule::check::check as parse;

    #[track_caller]
    fn check(when: &str, expected: &[&str]) {
        let node = parse(when, &Vocabulary::default()).unwrap_or_else(|fault| panic!("{fault:?}"));
        let found: Vec<_> = node.never_true().into_iter().map(|span| span.of(when)).collect();
        assert_eq!(found, expected, "{when}");
    }

    #[test]
    fn parts_that_no_time_fulfils_are_found() {
        check("now.hour >= 24", &["now.hour >= 24"]);
        check("now.minute == 60 || qtype == \"A\"", &["now.minute == 60"]);
        check("!(now.hour < 24)", &["!(now.hour < 24)"]);
        let evening = "now.hour >= 22 && now.hour < 6";
        check(evening, &[evening]);
        let more = "qtype == \"A\" && now.hour >= 22 && now.hour < 6";
        check(more, &[more]);
        let weekend = "now.weekend && now.weekday in [\"mon\", \"tue\"]";
        check(weekend, &[weekend]);
        check("qname.levels() > 127", &["qname.levels() > 127"]);
        for text in [
            "qname.ends_with(\".com.\")",
            "qname.contains(\"ücher\")",
            "qname.contains(\"a b\")",
            "answer.cname.starts_with(\".ads\")",
            "qname.contains(\"ads..\")",
        ] {
            check(text, &[text]);
        }
    }

    #[test]
    fn conditions_that_may_hold_are_not_reported() {
        for when in [
            "false",
            "true",
            "now.hour >= 22 || now.hour < 6",
            "now.between(\"22:00\", \"06:00\")",
            "now.hour == 23 && now.minute == 59 && now.weekday == \"sun\"",
            "qname.levels() > 4",
            "qname.contains(\"ads.\")",
            "qname.starts_with(\"*.\")",
            "qname.ends_with(\"?\")",
            "answer.cname.ends_with(\".com\")",
            "client.name.contains(\"ü\")",
            "qname.matches(\"ü\")",
            "qtype == \"A\" && qtype == \"AAAA\"",
            "now.weekend ? qtype == \"A\" : now.hour < 1",
        ] {
            check(when, &[]);
        }
    }
}
