//! Checks expressions: resolves their names, and checks the types of their operands.

use ipnet::IpNet;

use super::Vocabulary;
use super::fault::{Fault, Span};
use super::schedule::TimeTest;
use super::syntax::{Comparison, Expr, Kind, Word, parse};
use super::text::{PatternBudget, TextTest};
use super::tree::{Country, ListId, NameKey, NameTest, Node, NodeKind, NumberTest, Reach, Test};
use crate::client::{ClientTest, Mac, Transport, canonical};

/// Parses and checks an expression.
///
/// # Errors
/// The expression is malformed, uses an unknown name, or compares incompatible values.
pub(super) fn check(expression: &str, vocabulary: &Vocabulary) -> Result<Node, Fault> {
    check_within(expression, vocabulary, &PatternBudget::default())
}

/// Parses and checks an expression, as [`check`] does. Several expressions share the budget for
/// patterns.
///
/// # Errors
/// The first error of the expression, with its position.
pub(super) fn check_within(
    expression: &str,
    vocabulary: &Vocabulary,
    patterns: &PatternBudget,
) -> Result<Node, Fault> {
    Checker { vocabulary, patterns }.condition(&parse(expression)?)
}

/// The value of a subexpression.
enum Value<'a> {
    Condition(NodeKind),
    Literal(&'a Expr),
    Field(Field),
}

/// The properties of a question, its client, the time and the answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Field {
    Qname,
    Levels,
    Qtype,
    Qclass,
    Client,
    ClientIp,
    ClientName,
    ClientMac,
    Listener,
    Transport,
    Now,
    Hour,
    Minute,
    Weekday,
    Answer,
    AnswerIp,
    AnswerCname,
    Geo,
    Country,
}

const ROOTS: [(&str, Field); 6] = [
    ("qname", Field::Qname),
    ("qtype", Field::Qtype),
    ("qclass", Field::Qclass),
    ("client", Field::Client),
    ("now", Field::Now),
    ("answer", Field::Answer),
];
const TEXT_METHODS: [&str; 4] = ["starts_with", "ends_with", "contains", "matches"];
const WEEKDAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

impl Field {
    const fn members(self) -> &'static [(&'static str, Self)] {
        match self {
            Self::Client => &[
                ("ip", Self::ClientIp),
                ("name", Self::ClientName),
                ("mac", Self::ClientMac),
                ("listener", Self::Listener),
                ("transport", Self::Transport),
            ],
            Self::Now => {
                &[("hour", Self::Hour), ("minute", Self::Minute), ("weekday", Self::Weekday)]
            }
            Self::Answer => &[("ip", Self::AnswerIp), ("cname", Self::AnswerCname)],
            Self::Geo => &[("country", Self::Country)],
            _ => &[],
        }
    }

    /// Returns the methods of the field, except for those that all texts have.
    const fn methods(self) -> &'static [&'static str] {
        match self {
            Self::Qname => &["under", "levels"],
            Self::AnswerCname => &["under"],
            Self::Client => &["group"],
            Self::ClientIp | Self::AnswerIp => &["in"],
            Self::Now => &["between"],
            _ => &[],
        }
    }

    const fn has_text(self) -> bool {
        matches!(self, Self::Qname | Self::AnswerCname | Self::ClientName)
    }
}

struct Checker<'a> {
    vocabulary: &'a Vocabulary,
    patterns: &'a PatternBudget,
}

impl Checker<'_> {
    fn condition(&self, expr: &Expr) -> Result<Node, Fault> {
        let all = |parts: &[Expr]| {
            parts.iter().map(|part| self.condition(part)).collect::<Result<Vec<_>, _>>()
        };
        let kind = match &expr.kind {
            Kind::Bool(value) => NodeKind::Const(*value),
            Kind::Not(inner) => NodeKind::Not(Box::new(self.condition(inner)?)),
            Kind::All(parts) => NodeKind::All(all(parts)?),
            Kind::Any(parts) => NodeKind::Any(all(parts)?),
            Kind::If(parts) => {
                let [a, b, c] = &**parts;
                NodeKind::If(Box::new([self.condition(a)?, self.condition(b)?, self.condition(c)?]))
            }
            Kind::Compare(comparison, left, right) => self.comparison(*comparison, left, right)?,
            _ => match self.value(expr)? {
                Value::Condition(kind) => kind,
                Value::Literal(_) => {
                    return Err(Fault::at(expr.span, "expected a condition, found a value"));
                }
                Value::Field(field) => {
                    let fault = Fault::at(expr.span, "this is a value, not a condition");
                    return Err(fault.advise(usage(field)));
                }
            },
        };
        Ok(Node { kind, span: expr.span })
    }

    fn value<'e>(&self, expr: &'e Expr) -> Result<Value<'e>, Fault> {
        match &expr.kind {
            Kind::Name(name) => self.root(name, expr.span).map(Value::Field),
            Kind::Member(target, word) => self.member(target, word),
            Kind::Call { target: Some(target), name, arguments } => match self.value(target)? {
                Value::Field(field) => self.method(field, name, arguments),
                _ => Err(Fault::at(
                    name.span,
                    "only names such as `qname` and `client` have methods",
                )),
            },
            Kind::Call { target: None, name, arguments } => {
                self.function(name, arguments).map(Value::Condition)
            }
            Kind::Text(_) | Kind::Number(_) | Kind::List(_) => Ok(Value::Literal(expr)),
            _ => self.condition(expr).map(|node| Value::Condition(node.kind)),
        }
    }

    fn root(&self, name: &str, span: Span) -> Result<Field, Fault> {
        if name == "geo" {
            return match self.vocabulary.has_countries {
                true => Ok(Field::Geo),
                false => Err(Fault::at(span, "countries need a geo database")
                    .advise("configure one, or test networks")),
            };
        }
        if let Some((_, field)) = ROOTS.iter().find(|(root, _)| *root == name) {
            return Ok(*field);
        }
        let fault = Fault::at(span, format!("there is no `{name}`"));
        Err(match avocet_wire::rdata::from_mnemonic(name) {
            Some(_) => fault.advise(format!(
                "write types in quotes, as in `qtype == \"{}\"`",
                name.to_uppercase()
            )),
            None => fault.suggest(name, ROOTS.iter().map(|(root, _)| *root).chain(["geo"])),
        })
    }

    fn member(&self, target: &Expr, word: &Word) -> Result<Value<'static>, Fault> {
        let Value::Field(field) = self.value(target)? else {
            return Err(Fault::at(word.span, "only names such as `client` and `now` have members"));
        };
        if field == Field::Now && word.text == "weekend" {
            return Ok(Value::Condition(test(Test::Time(TimeTest::Weekend))));
        }
        if let Some((_, member)) = field.members().iter().find(|(name, _)| *name == word.text) {
            return Ok(Value::Field(*member));
        }
        let fault = Fault::at(word.span, format!("unknown member `{}`", word.text));
        if field.methods().contains(&word.text.as_str())
            || (field.has_text() && is_text_method(&word.text))
        {
            return Err(fault.advise(format!("call it with parentheses, as `{}(...)`", word.text)));
        }
        let weekend = if field == Field::Now { &["weekend"][..] } else { &[] };
        let members = field.members().iter().map(|(name, _)| *name);
        Err(fault
            .suggest(&word.text, members.chain(weekend.iter().copied()).chain(all_methods(field))))
    }

    fn method<'e>(
        &self,
        field: Field,
        word: &Word,
        arguments: &[Expr],
    ) -> Result<Value<'e>, Fault> {
        if field.has_text() && is_text_method(&word.text) {
            let argument = only(word, arguments)?;
            return TextTest::called(&word.text, &text_of(argument)?, self.patterns)
                .map(|text| Value::Condition(test(on_text(field, text))))
                .map_err(|error| Fault::at(argument.span, error.to_string()));
        }
        let kind = match (field, word.text.as_str()) {
            (Field::Qname, "levels") if arguments.is_empty() => {
                return Ok(Value::Field(Field::Levels));
            }
            (Field::Qname, "levels") => {
                return Err(Fault::at(word.span, "`levels()` takes no arguments"));
            }
            (Field::Qname | Field::AnswerCname, "under") => {
                let keys =
                    each(word, arguments)?.into_iter().map(|text| name_key(text, Reach::Under));
                test(on_name(field, NameTest::OneOf(keys.collect::<Result<_, _>>()?)))
            }
            (Field::Client, "group") => {
                return self.groups(&each(word, arguments)?).map(Value::Condition);
            }
            (Field::ClientIp, "in") => {
                let networks = networks(&each(word, arguments)?)?;
                any_client(networks.into_iter().map(ClientTest::Within), word.span)
            }
            (Field::AnswerIp, "in") => {
                test(Test::AnswerAddress(networks(&each(word, arguments)?)?))
            }
            (Field::Now, "between") => test(Test::Time(between(word, arguments)?)),
            _ => {
                let fault = Fault::at(word.span, format!("unknown method `{}`", word.text));
                return Err(fault.suggest(&word.text, all_methods(field)));
            }
        };
        Ok(Value::Condition(kind))
    }

    fn groups(&self, names: &[&Expr]) -> Result<NodeKind, Fault> {
        let mut tests = Vec::new();
        for name in names {
            let group = text_of(name)?;
            if !self.vocabulary.groups.contains(&group) {
                let fault = Fault::at(name.span, format!("there is no group `{group}`"));
                return Err(
                    fault.suggest(&group, self.vocabulary.groups.iter().map(String::as_str))
                );
            }
            tests.push(ClientTest::Group(group));
        }
        Ok(any_client(tests, names.first().map_or_else(Span::default, |name| name.span)))
    }

    fn function(&self, name: &Word, arguments: &[Expr]) -> Result<NodeKind, Fault> {
        match name.text.as_str() {
            "list" => {
                let mut tests = Vec::new();
                for argument in each(name, arguments)? {
                    let kind = test(Test::List(self.list(argument)?));
                    tests.push(Node { kind, span: argument.span });
                }
                Ok(any(tests))
            }
            "service" => {
                let mut keys = Vec::new();
                for argument in each(name, arguments)? {
                    keys.extend(service(argument)?);
                }
                Ok(test(Test::Service(keys)))
            }
            _ => {
                let fault = Fault::at(name.span, format!("unknown function `{}`", name.text));
                Err(fault.suggest(&name.text, ["list", "service"]))
            }
        }
    }

    fn list(&self, argument: &Expr) -> Result<ListId, Fault> {
        let name = text_of(argument)?;
        let place = self.vocabulary.lists.iter().position(|list| *list == name);
        place.and_then(|place| u16::try_from(place).ok()).map(ListId).ok_or_else(|| {
            let fault = Fault::at(argument.span, format!("there is no list `{name}`"));
            fault.suggest(&name, self.vocabulary.lists.iter().map(String::as_str))
        })
    }

    fn comparison(&self, sign: Comparison, left: &Expr, right: &Expr) -> Result<NodeKind, Fault> {
        let (a, b) = (self.value(left)?, self.value(right)?);
        match (a, b) {
            (Value::Field(field), Value::Literal(literal)) => {
                self.compare(field, sign, left.span, literal)
            }
            (Value::Literal(literal), Value::Field(field)) if sign != Comparison::In => {
                self.compare(field, sign.mirrored(), right.span, literal)
            }
            (Value::Literal(_), Value::Field(field)) => {
                Err(Fault::at(right.span, "expected a list after `in`").advise(usage(field)))
            }
            (Value::Literal(a), Value::Literal(b)) => constant(sign, a, b),
            (Value::Condition(_), _) => Err(Fault::at(left.span, "a condition cannot be compared")
                .advise("write it without a comparison, or with `!`")),
            (_, Value::Condition(_)) => {
                Err(Fault::at(right.span, "a condition cannot be compared")
                    .advise("write it without a comparison, or with `!`"))
            }
            (Value::Field(_), Value::Field(_)) => {
                Err(Fault::at(right.span, "expected a literal to compare with")
                    .advise("write text in quotes"))
            }
        }
    }

    fn compare(
        &self,
        field: Field,
        sign: Comparison,
        span: Span,
        literal: &Expr,
    ) -> Result<NodeKind, Fault> {
        let operands = operands(sign, literal)?;
        if let Field::Levels | Field::Hour | Field::Minute = field {
            return number_test(field, sign, &operands);
        }
        if !matches!(sign, Comparison::Equal | Comparison::Unequal | Comparison::In) {
            return Err(Fault::at(span, "only numbers can be ordered")
                .advise("compare with `==`, `!=` or `in`"));
        }
        let kind = self.one_of(field, span, &operands)?;
        Ok(match sign {
            Comparison::Unequal => NodeKind::Not(Box::new(Node { kind, span })),
            _ => kind,
        })
    }

    /// Returns the condition that a field equals one of the operands.
    fn one_of(&self, field: Field, span: Span, operands: &[&Expr]) -> Result<NodeKind, Fault> {
        let texts =
            || operands.iter().map(|operand| text_of(operand)).collect::<Result<Vec<_>, _>>();
        Ok(match field {
            Field::Qname | Field::AnswerCname => {
                let keys = operands
                    .iter()
                    .map(|text| name_key(text, Reach::Exact))
                    .collect::<Result<_, _>>()?;
                test(on_name(field, NameTest::OneOf(keys)))
            }
            Field::Qtype => {
                test(Test::Type(operands.iter().map(|one| qtype(one)).collect::<Result<_, _>>()?))
            }
            Field::Qclass => {
                test(Test::Class(operands.iter().map(|one| qclass(one)).collect::<Result<_, _>>()?))
            }
            Field::ClientIp => {
                any_client(addresses(operands)?.into_iter().map(ClientTest::Within), span)
            }
            Field::AnswerIp => test(Test::AnswerAddress(addresses(operands)?)),
            Field::ClientName => {
                let names = texts()?.iter().map(|name| name.to_lowercase()).collect();
                test(Test::Client(ClientTest::Name(TextTest::OneOf(names))))
            }
            Field::ClientMac => {
                let macs = operands.iter().map(|one| mac(one)).collect::<Result<Vec<_>, _>>()?;
                any_client(macs.into_iter().map(ClientTest::Mac), span)
            }
            Field::Listener => any_client(self.listeners(operands)?, span),
            Field::Transport => any_client(transports(operands)?, span),
            Field::Weekday => test(Test::Time(TimeTest::Weekday(
                operands.iter().map(|one| weekday(one)).collect::<Result<_, _>>()?,
            ))),
            Field::Country => test(Test::Country(
                operands.iter().map(|one| country(one)).collect::<Result<_, _>>()?,
            )),
            _ => return Err(Fault::at(span, "this cannot be compared").advise(usage(field))),
        })
    }

    fn listeners(&self, operands: &[&Expr]) -> Result<Vec<ClientTest>, Fault> {
        let known = &self.vocabulary.listeners;
        let listener = |operand: &&Expr| {
            let name = text_of(operand)?;
            if known.contains(&name) {
                return Ok(ClientTest::Listener(name));
            }
            let fault = Fault::at(operand.span, format!("there is no listener `{name}`"));
            Err(fault.suggest(&name, known.iter().map(String::as_str)))
        };
        operands.iter().map(listener).collect()
    }
}

/// Describes the use of a field, for error messages.
fn usage(field: Field) -> &'static str {
    match field {
        Field::Qname => "write `qname == \"www.example.com\"` or `qname.under(\"example.com\")`",
        Field::Levels => "write `qname.levels() > 4`",
        Field::Qtype => "write `qtype == \"AAAA\"`",
        Field::Qclass => "write `qclass == \"IN\"`",
        Field::Client => "write `client.group(\"kids\")` or `client.ip.in(\"10.0.0.0/8\")`",
        Field::ClientIp => "write `client.ip.in(\"10.0.0.0/8\")`",
        Field::ClientName => "write `client.name == \"laptop\"`",
        Field::ClientMac => "write `client.mac == \"02:00:00:00:00:01\"`",
        Field::Listener => "write `client.listener == \"lan\"`",
        Field::Transport => "write `client.transport == \"tcp\"`",
        Field::Now => "write `now.between(\"21:00\", \"07:00\")` or `now.weekend`",
        Field::Hour | Field::Minute => "write `now.hour >= 21`",
        Field::Weekday => "write `now.weekday in [\"mon\", \"tue\"]`",
        Field::Answer => {
            "write `answer.ip.in(\"10.0.0.0/8\")` or `answer.cname.under(\"example.com\")`"
        }
        Field::AnswerIp => "write `answer.ip.in(\"10.0.0.0/8\")`",
        Field::AnswerCname => "write `answer.cname.under(\"example.com\")`",
        Field::Geo | Field::Country => "write `geo.country == \"NL\"`",
    }
}

fn all_methods(field: Field) -> impl Iterator<Item = &'static str> {
    let texts: &[&str] = if field.has_text() { &TEXT_METHODS } else { &[] };
    field.methods().iter().chain(texts).copied()
}

fn is_text_method(name: &str) -> bool {
    TEXT_METHODS.contains(&name)
}

fn test(test: Test) -> NodeKind {
    NodeKind::Test(test)
}

fn any(mut nodes: Vec<Node>) -> NodeKind {
    match nodes.len() {
        1 => nodes.remove(0).kind,
        _ => NodeKind::Any(nodes),
    }
}

fn any_client(tests: impl IntoIterator<Item = ClientTest>, span: Span) -> NodeKind {
    any(tests.into_iter().map(|client| Node { kind: test(Test::Client(client)), span }).collect())
}

fn on_name(field: Field, name: NameTest) -> Test {
    match field {
        Field::AnswerCname => Test::AnswerName(name),
        _ => Test::Name(name),
    }
}

fn on_text(field: Field, text: TextTest) -> Test {
    match field {
        Field::ClientName => Test::Client(ClientTest::Name(text)),
        _ => on_name(field, NameTest::Text(text)),
    }
}

/// Returns the argument of a method that takes exactly one.
fn only<'a>(word: &Word, arguments: &'a [Expr]) -> Result<&'a Expr, Fault> {
    match arguments {
        [one] => Ok(one),
        _ => Err(Fault::at(
            word.span,
            format!("`{}` takes one argument, not {}", word.text, arguments.len()),
        )),
    }
}

/// Returns the arguments of a method that takes any number of arguments, or one list.
fn each<'a>(word: &Word, arguments: &'a [Expr]) -> Result<Vec<&'a Expr>, Fault> {
    let flat: Vec<&Expr> = match arguments {
        [Expr { kind: Kind::List(elements), .. }] => elements.iter().collect(),
        arguments => arguments.iter().collect(),
    };
    match flat.is_empty() {
        true => Err(Fault::at(word.span, format!("`{}` takes at least one argument", word.text))),
        false => Ok(flat),
    }
}

/// Returns the operands on the right side of a comparison.
fn operands(sign: Comparison, literal: &Expr) -> Result<Vec<&Expr>, Fault> {
    match (&literal.kind, sign) {
        (Kind::List(elements), Comparison::In) if elements.is_empty() => {
            Err(Fault::at(literal.span, "an empty list matches nothing"))
        }
        (Kind::List(elements), Comparison::In) => Ok(elements.iter().collect()),
        (_, Comparison::In) => Err(Fault::at(literal.span, "expected a list after `in`")
            .advise("write `in [\"...\", \"...\"]`")),
        (Kind::List(_), _) => Err(Fault::at(literal.span, "use `in` for a list")),
        _ => Ok(vec![literal]),
    }
}

fn constant(sign: Comparison, a: &Expr, b: &Expr) -> Result<NodeKind, Fault> {
    let one = |operand: &&Expr| match (&a.kind, &operand.kind) {
        (Kind::Number(a), Kind::Number(b)) => Ok(sign.holds(*a, *b)),
        (Kind::Text(a), Kind::Text(b)) => match sign {
            Comparison::Equal | Comparison::In => Ok(a == b),
            Comparison::Unequal => Ok(a != b),
            _ => Err(Fault::at(a_span(operand), "only numbers can be ordered")),
        },
        _ => Err(Fault::at(operand.span, "a number and a text are never equal")),
    };
    let results = operands(sign, b)?.iter().map(one).collect::<Result<Vec<_>, _>>()?;
    Ok(NodeKind::Const(results.contains(&true)))
}

fn a_span(expr: &Expr) -> Span {
    expr.span
}

fn text_of(expr: &Expr) -> Result<String, Fault> {
    match &expr.kind {
        Kind::Text(text) => Ok(text.clone()),
        _ => Err(Fault::at(expr.span, "expected text in quotes")),
    }
}

fn name_key(expr: &Expr, reach: Reach) -> Result<NameKey, Fault> {
    let text = text_of(expr)?;
    if text.starts_with("*.") && reach == Reach::Exact {
        let advice = format!("write `qname.under(\"{}\")`", &text[2..]);
        return Err(Fault::at(expr.span, "names are compared as a whole").advise(advice));
    }
    let bare = text.strip_prefix("*.").unwrap_or(&text);
    let name = super::action::name(bare)
        .map_err(|reason| Fault::at(expr.span, format!("invalid name: {reason}")))?;
    Ok(NameKey { name, reach })
}

fn service(expr: &Expr) -> Result<Vec<NameKey>, Fault> {
    let service = text_of(expr)?;
    match super::shipped::service(&service) {
        Some(names) => Ok(names
            .iter()
            .map(|name| NameKey { name: name.clone(), reach: Reach::Under })
            .collect()),
        None => {
            let fault = Fault::at(expr.span, format!("there is no service `{service}`"));
            Err(fault.suggest(&service, super::shipped::service_names()))
        }
    }
}

fn qtype(expr: &Expr) -> Result<u16, Fault> {
    match &expr.kind {
        Kind::Number(number) => {
            u16::try_from(*number).map_err(|_| Fault::at(expr.span, "a type is at most 65535"))
        }
        Kind::Text(text) => {
            let upper = text.to_ascii_uppercase();
            let generic = || upper.strip_prefix("TYPE").and_then(|number| number.parse().ok());
            let meta = || (upper == "ANY").then_some(255);
            avocet_wire::rdata::from_mnemonic(&upper).or_else(meta).or_else(generic).ok_or_else(
                || {
                    let known = (0..=u16::MAX).filter_map(avocet_wire::rdata::mnemonic);
                    let lower: Vec<String> = known.map(str::to_lowercase).collect();
                    let fault = Fault::at(expr.span, format!("unknown type `{text}`"));
                    fault.suggest(text, lower.iter().map(String::as_str))
                },
            )
        }
        _ => Err(Fault::at(expr.span, "expected a type in quotes")),
    }
}

fn qclass(expr: &Expr) -> Result<u16, Fault> {
    let text = text_of(expr)?.to_ascii_uppercase();
    let known = [("IN", 1), ("CH", 3), ("HS", 4), ("ANY", 255)];
    match known.iter().find(|(name, _)| *name == text) {
        Some((_, class)) => Ok(*class),
        None => Err(Fault::at(expr.span, "the classes are IN, CH, HS and ANY")),
    }
}

fn networks(operands: &[&Expr]) -> Result<Vec<IpNet>, Fault> {
    let network = |operand: &&Expr| {
        let text = text_of(operand)?;
        if let Ok(address) = text.parse() {
            return Ok(IpNet::from(canonical(address)));
        }
        text.parse::<IpNet>().map(|network| network.trunc()).map_err(|_| {
            Fault::at(operand.span, format!("`{text}` is not a network"))
                .advise("write it as \"10.0.0.0/8\"")
        })
    };
    operands.iter().map(network).collect()
}

fn addresses(operands: &[&Expr]) -> Result<Vec<IpNet>, Fault> {
    let address = |operand: &&Expr| {
        let text = text_of(operand)?;
        text.parse().map(|address| IpNet::from(canonical(address))).map_err(|_| {
            Fault::at(operand.span, format!("`{text}` is not an address"))
                .advise("use `.in(...)` for networks")
        })
    };
    operands.iter().map(address).collect()
}

fn mac(expr: &Expr) -> Result<Mac, Fault> {
    let text = text_of(expr)?;
    text.parse().map_err(|()| {
        Fault::at(expr.span, "invalid MAC address").advise("write it as \"02:00:00:00:00:01\"")
    })
}

fn transports(operands: &[&Expr]) -> Result<Vec<ClientTest>, Fault> {
    let transport = |operand: &&Expr| {
        let text = text_of(operand)?;
        Transport::ALL
            .into_iter()
            .find(|one| one.name() == text)
            .map(ClientTest::Transport)
            .ok_or_else(|| {
                let fault = Fault::at(operand.span, format!("there is no transport `{text}`"));
                fault.suggest(&text, Transport::ALL.map(Transport::name))
            })
    };
    operands.iter().map(transport).collect()
}

fn weekday(expr: &Expr) -> Result<u8, Fault> {
    let text = text_of(expr)?.to_ascii_lowercase();
    match WEEKDAYS.iter().position(|day| text.starts_with(day)) {
        Some(day) => Ok(day as u8),
        None => Err(Fault::at(expr.span, "the days are mon, tue, wed, thu, fri, sat and sun")),
    }
}

fn country(expr: &Expr) -> Result<Country, Fault> {
    match text_of(expr)?.to_ascii_uppercase().as_bytes() {
        &[a @ b'A'..=b'Z', b @ b'A'..=b'Z'] => Ok([a, b]),
        _ => Err(Fault::at(expr.span, "a country has two letters").advise("write it as \"NL\"")),
    }
}

fn number_test(field: Field, sign: Comparison, operands: &[&Expr]) -> Result<NodeKind, Fault> {
    let number = |operand: &&Expr| match operand.kind {
        Kind::Number(number) => Ok(number),
        _ => Err(Fault::at(operand.span, "expected a number").advise(usage(field))),
    };
    let numbers = NumberTest {
        comparison: sign,
        operands: operands.iter().map(number).collect::<Result<_, _>>()?,
    };
    Ok(test(match field {
        Field::Hour => Test::Time(TimeTest::Hour(numbers)),
        Field::Minute => Test::Time(TimeTest::Minute(numbers)),
        _ => Test::Levels(numbers),
    }))
}

fn between(word: &Word, arguments: &[Expr]) -> Result<TimeTest, Fault> {
    let [from, to] = arguments else {
        return Err(Fault::at(word.span, "`between` takes two times")
            .advise("write `between(\"21:00\", \"07:00\")`"));
    };
    let (start, end) = (minute_of_day(from)?, minute_of_day(to)?);
    match start == end % (24 * 60) {
        true => Err(Fault::at(from.span.to(to.span), "the two times are the same")
            .advise("remove it for the whole day")),
        false => Ok(TimeTest::Between(start, end)),
    }
}

/// Parses a time of day. `24:00` is the end of the day.
fn minute_of_day(expr: &Expr) -> Result<u16, Fault> {
    let text = text_of(expr)?;
    let parts = text.split_once(':').and_then(|(hour, minute)| {
        let digits = |part: &str| part.bytes().all(|octet| octet.is_ascii_digit());
        let good = digits(hour) && digits(minute) && minute.len() == 2;
        good.then_some((hour.parse::<u16>().ok()?, minute.parse::<u16>().ok()?))
    });
    match parts {
        Some((hour, minute)) if minute < 60 && (hour < 24 || (hour, minute) == (24, 0)) => {
            Ok(hour * 60 + minute)
        }
        _ => Err(Fault::at(expr.span, "invalid time of day").advise("write it as \"21:30\"")),
    }
}

#[cfg(test)]
mod tests;
