//! Errors in expressions, with their location.

use std::fmt;

/// A part of an expression, in octets from its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Span {
    /// The first octet.
    pub start: u32,
    /// The offset after the last octet.
    pub end: u32,
}

impl Span {
    pub(super) const fn new(start: usize, end: usize) -> Self {
        Self { start: start as u32, end: end as u32 }
    }

    /// Returns the span from the start of this span to the end of the other span.
    pub(super) const fn to(self, other: Self) -> Self {
        Self { start: self.start, end: other.end }
    }

    /// Returns the text of the span in its expression.
    #[must_use]
    pub fn of(self, expression: &str) -> &str {
        expression.get(self.start as usize..self.end as usize).unwrap_or_default()
    }
}

/// An error in an expression: location, problem and remedy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// The offending part of the expression.
    pub span: Span,
    /// The problem, as a clause without full stop.
    pub message: String,
    /// A suggested replacement, if there is one.
    pub advice: Option<String>,
}

impl Fault {
    pub(super) fn at(span: Span, message: impl Into<String>) -> Self {
        Self { span, message: message.into(), advice: None }
    }

    pub(super) fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }

    /// Adds a suggestion: the word of `known` that is most similar to `word`, or all of `known` if
    /// none is similar.
    pub(super) fn suggest<'a>(self, word: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        let known: Vec<&str> = known.into_iter().collect();
        let scored =
            known.iter().map(|name| (strsim::jaro_winkler(&word.to_lowercase(), name), *name));
        match scored.max_by(|a, b| a.0.total_cmp(&b.0)) {
            Some((score, name)) if score > LIKENESS => {
                self.advise(format!("did you mean `{name}`?"))
            }
            Some(_) if known.len() <= SHOWN => {
                self.advise(format!("available: {}", known.join(", ")))
            }
            Some(_) => self.advise(format!("available: {}, ...", known[..SHOWN].join(", "))),
            None => self,
        }
    }

    /// Returns the column of the error in its line, in characters from 1.
    #[must_use]
    pub fn column(&self, expression: &str) -> usize {
        let before = expression.get(..self.span.start as usize).unwrap_or(expression);
        before.rsplit('\n').next().unwrap_or(before).chars().count() + 1
    }

    /// Returns the faulty line of the expression, with carets under the error.
    #[must_use]
    pub fn shown<'a>(&'a self, expression: &'a str) -> Shown<'a> {
        Shown { fault: self, expression }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.advice {
            Some(advice) => write!(f, ": {advice}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Fault {}

/// Minimum similarity of a name that is suggested.
const LIKENESS: f64 = 0.75;
/// Maximum number of known names that a message lists.
const SHOWN: usize = 12;
/// Number of characters before the error that are shown of a long line.
const BEFORE: usize = 60;
/// Number of characters of a long line that are shown in total.
const LINE: usize = 100;

/// An error together with its line: see [`Fault::shown`].
pub struct Shown<'a> {
    fault: &'a Fault,
    expression: &'a str,
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let start = (self.fault.span.start as usize).min(self.expression.len());
        let line_start = self.expression[..start].rfind('\n').map_or(0, |at| at + 1);
        let line = self.expression[line_start..].lines().next().unwrap_or_default();
        let column = self.fault.column(self.expression);
        let width = self
            .fault
            .span
            .of(self.expression)
            .lines()
            .next()
            .unwrap_or_default()
            .chars()
            .count()
            .max(1);
        let skipped = column.saturating_sub(BEFORE);
        let shown: String = line.chars().skip(skipped).take(LINE).collect();
        let carets = "^".repeat(width.min(LINE.saturating_sub(column - skipped).max(1)));
        writeln!(f, "  {shown}")?;
        write!(f, "  {}{carets} {}", " ".repeat(column - skipped - 1), self.fault)
    }
}
