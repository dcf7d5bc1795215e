//! The parser of expressions, for the part of CEL that rules use.
//!
//! The parser omits maps, indices, floating point, octet strings and macros. As an addition, a
//! method may be named `in`. The parser does not resolve names: `check` does.

use super::fault::{Fault, Span};
use super::token::{Token, tokens};
use super::{MAX_DEPTH, MAX_EXPRESSION};

/// An expression and its location.
#[derive(Clone, Debug)]
pub(super) struct Expr {
    pub(super) kind: Kind,
    pub(super) span: Span,
}

/// A name and its location.
#[derive(Clone, Debug)]
pub(super) struct Word {
    pub(super) text: String,
    pub(super) span: Span,
}

/// The kind of an expression.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    Bool(bool),
    Number(i64),
    Text(String),
    List(Vec<Expr>),
    Name(String),
    Member(Box<Expr>, Word),
    Call { target: Option<Box<Expr>>, name: Word, arguments: Vec<Expr> },
    Not(Box<Expr>),
    All(Vec<Expr>),
    Any(Vec<Expr>),
    Compare(Comparison, Box<Expr>, Box<Expr>),
    If(Box<[Expr; 3]>),
}

/// A comparison operator.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Comparison {
    /// `==`
    Equal,
    /// `!=`
    Unequal,
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `>`
    Greater,
    /// `>=`
    AtLeast,
    /// `in`
    In,
}

impl Comparison {
    /// Returns the operator that gives the same result if the operands are swapped.
    pub(super) const fn mirrored(self) -> Self {
        match self {
            Self::Less => Self::Greater,
            Self::AtMost => Self::AtLeast,
            Self::Greater => Self::Less,
            Self::AtLeast => Self::AtMost,
            other => other,
        }
    }

    /// Reports whether the comparison holds for two numbers.
    pub(super) const fn holds(self, a: i64, b: i64) -> bool {
        match self {
            Self::Equal | Self::In => a == b,
            Self::Unequal => a != b,
            Self::Less => a < b,
            Self::AtMost => a <= b,
            Self::Greater => a > b,
            Self::AtLeast => a >= b,
        }
    }
}

/// Parses a whole expression.
///
/// # Errors
/// The expression is malformed, too long or nested too deeply.
pub(super) fn parse(expression: &str) -> Result<Expr, Fault> {
    if expression.len() > MAX_EXPRESSION {
        let message = format!("the expression is longer than {MAX_EXPRESSION} octets");
        return Err(Fault::at(Span::new(0, 1), message)
            .advise("put the names into a list and use `list(\"...\")`"));
    }
    let mut parser = Parser { tokens: tokens(expression)?, at: 0, depth: 0 };
    let tree = parser.expression()?;
    match parser.peek() {
        Token::End => Ok(tree),
        _ => Err(parser.unexpected("an operator such as `&&`")),
    }
}

struct Parser {
    tokens: Vec<(Token, Span)>,
    at: usize,
    depth: usize,
}

impl Parser {
    fn peek(&self) -> &Token {
        &self.tokens[self.at].0
    }

    fn span(&self) -> Span {
        self.tokens[self.at].1
    }

    /// Advances to the next token, but never past the last one.
    fn advance(&mut self) -> Span {
        let span = self.span();
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        span
    }

    fn accept(&mut self, sign: &'static str) -> Option<Span> {
        (*self.peek() == Token::Sign(sign)).then(|| self.advance())
    }

    fn expect(&mut self, sign: &'static str) -> Result<Span, Fault> {
        self.accept(sign).ok_or_else(|| self.unexpected(&format!("`{sign}`")))
    }

    fn unexpected(&self, wanted: &str) -> Fault {
        match self.peek() {
            Token::End => Fault::at(
                self.span(),
                format!("expected {wanted}, found the end of the expression"),
            ),
            _ => Fault::at(self.span(), format!("expected {wanted}")),
        }
    }

    fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, Fault>) -> Result<T, Fault> {
        if self.depth == MAX_DEPTH {
            return Err(Fault::at(
                self.span(),
                format!("nested more than {MAX_DEPTH} levels deep"),
            ));
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
    }

    fn expression(&mut self) -> Result<Expr, Fault> {
        self.nested(|parser| {
            let condition = parser.chain("||", Kind::Any, Self::all)?;
            if parser.accept("?").is_none() {
                return Ok(condition);
            }
            let then = parser.chain("||", Kind::Any, Self::all)?;
            parser.expect(":")?;
            let otherwise = parser.expression()?;
            let span = condition.span.to(otherwise.span);
            Ok(Expr { kind: Kind::If(Box::new([condition, then, otherwise])), span })
        })
    }

    fn all(&mut self) -> Result<Expr, Fault> {
        self.chain("&&", Kind::All, Self::comparison)
    }

    /// Parses one operand, or several operands separated by `sign`. Joins several operands into one
    /// flat expression.
    fn chain(
        &mut self,
        sign: &'static str,
        join: fn(Vec<Expr>) -> Kind,
        operand: fn(&mut Self) -> Result<Expr, Fault>,
    ) -> Result<Expr, Fault> {
        let first = operand(self)?;
        if *self.peek() != Token::Sign(sign) {
            return Ok(first);
        }
        let mut span = first.span;
        let mut operands = vec![first];
        while self.accept(sign).is_some() {
            let next = operand(self)?;
            span = span.to(next.span);
            operands.push(next);
        }
        Ok(Expr { kind: join(operands), span })
    }

    fn comparison(&mut self) -> Result<Expr, Fault> {
        let left = self.unary()?;
        let Some(comparison) = self.comparison_sign()? else { return Ok(left) };
        self.advance();
        let right = self.unary()?;
        if self.comparison_sign()?.is_some() {
            return Err(Fault::at(self.span(), "comparisons cannot be chained")
                .advise("join two comparisons with `&&`"));
        }
        let span = left.span.to(right.span);
        Ok(Expr { kind: Kind::Compare(comparison, Box::new(left), Box::new(right)), span })
    }

    fn comparison_sign(&self) -> Result<Option<Comparison>, Fault> {
        Ok(Some(match self.peek() {
            Token::Sign("==") => Comparison::Equal,
            Token::Sign("!=") => Comparison::Unequal,
            Token::Sign("<") => Comparison::Less,
            Token::Sign("<=") => Comparison::AtMost,
            Token::Sign(">") => Comparison::Greater,
            Token::Sign(">=") => Comparison::AtLeast,
            Token::Name(name) if name == "in" => Comparison::In,
            Token::Sign("+" | "-" | "*" | "/" | "%") => {
                return Err(
                    Fault::at(self.span(), "rules have no arithmetic").advise("write the result")
                );
            }
            _ => return Ok(None),
        }))
    }

    fn unary(&mut self) -> Result<Expr, Fault> {
        if let Some(span) = self.accept("!") {
            let inner = self.nested(Self::unary)?;
            let span = span.to(inner.span);
            return Ok(Expr { kind: Kind::Not(Box::new(inner)), span });
        }
        if let Some(span) = self.accept("-") {
            let Token::Number(number) = *self.peek() else {
                return Err(self.unexpected("a number"));
            };
            let span = span.to(self.advance());
            return Ok(Expr { kind: Kind::Number(-number), span });
        }
        let mut value = self.primary()?;
        while self.accept(".").is_some() {
            let name = self.word()?;
            value = match self.arguments()? {
                Some((arguments, end)) => {
                    let span = value.span.to(end);
                    Expr {
                        kind: Kind::Call { target: Some(Box::new(value)), name, arguments },
                        span,
                    }
                }
                None => {
                    let span = value.span.to(name.span);
                    Expr { kind: Kind::Member(Box::new(value), name), span }
                }
            };
        }
        Ok(value)
    }

    fn primary(&mut self) -> Result<Expr, Fault> {
        let kind = match self.peek().clone() {
            Token::Text(text) => Kind::Text(text),
            Token::Number(number) => Kind::Number(number),
            Token::Name(name) => match name.as_str() {
                "true" => Kind::Bool(true),
                "false" => Kind::Bool(false),
                "in" => return Err(self.unexpected("a value")),
                _ => return self.named(),
            },
            Token::Sign("(") => return self.bracketed(),
            Token::Sign("[") => {
                let start = self.advance();
                let (elements, end) = self.elements("]")?;
                return Ok(Expr { kind: Kind::List(elements), span: start.to(end) });
            }
            _ => return Err(self.unexpected("a value")),
        };
        let span = self.advance();
        Ok(Expr { kind, span })
    }

    fn bracketed(&mut self) -> Result<Expr, Fault> {
        let start = self.advance();
        let inner = self.expression()?;
        let end = self.expect(")")?;
        Ok(Expr { kind: inner.kind, span: start.to(end) })
    }

    fn named(&mut self) -> Result<Expr, Fault> {
        let name = self.word()?;
        let span = name.span;
        Ok(match self.arguments()? {
            Some((arguments, end)) => {
                Expr { kind: Kind::Call { target: None, name, arguments }, span: span.to(end) }
            }
            None => Expr { kind: Kind::Name(name.text), span },
        })
    }

    fn word(&mut self) -> Result<Word, Fault> {
        let Token::Name(text) = self.peek().clone() else { return Err(self.unexpected("a name")) };
        let span = self.advance();
        Ok(Word { text, span })
    }

    fn arguments(&mut self) -> Result<Option<(Vec<Expr>, Span)>, Fault> {
        match self.accept("(") {
            Some(_) => self.elements(")").map(Some),
            None => Ok(None),
        }
    }

    /// Parses expressions separated by commas, and the closing bracket. Accepts a comma before the
    /// bracket.
    fn elements(&mut self, close: &'static str) -> Result<(Vec<Expr>, Span), Fault> {
        let mut elements = Vec::new();
        loop {
            if let Some(end) = self.accept(close) {
                return Ok((elements, end));
            }
            elements.push(self.expression()?);
            if self.accept(",").is_none() {
                return Ok((elements, self.expect(close)?));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes the tree with brackets around every expression.
    fn written(expr: &Expr) -> String {
        let join =
            |parts: &[Expr], sign: &str| parts.iter().map(written).collect::<Vec<_>>().join(sign);
        match &expr.kind {
            Kind::Bool(value) => value.to_string(),
            Kind::Number(number) => number.to_string(),
            Kind::Text(text) => format!("{text:?}"),
            Kind::List(elements) => format!("[{}]", join(elements, ", ")),
            Kind::Name(name) => name.clone(),
            Kind::Member(target, name) => format!("{}.{}", written(target), name.text),
            Kind::Call { target, name, arguments } => {
                let target =
                    target.as_ref().map(|target| written(target) + ".").unwrap_or_default();
                format!("{target}{}({})", name.text, join(arguments, ", "))
            }
            Kind::Not(inner) => format!("!{}", written(inner)),
            Kind::All(parts) => format!("({})", join(parts, " && ")),
            Kind::Any(parts) => format!("({})", join(parts, " || ")),
            Kind::Compare(sign, a, b) => format!("({} {sign:?} {})", written(a), written(b)),
            Kind::If(parts) => format!("({})", join(&parts[..], " ? ")),
        }
    }

    #[track_caller]
    fn check(expression: &str, expected: &str) {
        assert_eq!(written(&parse(expression).unwrap()), expected);
    }

    #[test]
    fn operators_bind_as_in_cel() {
        check("a || b && !c == d", "(a || (b && (!c Equal d)))");
        check("(a || b) && c", "((a || b) && c)");
        check("a ? b : c ? d : e", "(a ? b ? (c ? d ? e))");
        check("x in [1, 'a', -2,]", r#"(x In [1, "a", -2])"#);
        check("!!a.b.c(1).d", "!!a.b.c(1).d");
        check("client.ip.in('10.0.0.0/8')", r#"client.ip.in("10.0.0.0/8")"#);
    }

    #[test]
    fn what_is_no_expression_is_a_fault_at_its_column() {
        for (expression, column) in [
            ("", 1),
            ("a &&", 5),
            ("a b", 3),
            ("(a", 3),
            ("a.1", 3),
            ("a == b == c", 8),
            ("a + 1", 3),
            ("f(a", 4),
            ("a ? b", 6),
            ("in", 1),
        ] {
            let fault = parse(expression).unwrap_err();
            assert_eq!(fault.column(expression), column, "{expression}: {fault}");
        }
    }

    #[test]
    fn depth_and_length_are_bounded() {
        let deep = |count: usize| format!("{}a{}", "(".repeat(count), ")".repeat(count));
        assert!(parse(&deep(MAX_DEPTH - 1)).is_ok());
        assert!(parse(&deep(100_000.min(MAX_EXPRESSION / 3))).is_err());
        assert!(parse(&format!("{}a", "!".repeat(MAX_DEPTH * 2))).is_err());
        assert!(parse(&" ".repeat(MAX_EXPRESSION + 1)).is_err());
    }
}
