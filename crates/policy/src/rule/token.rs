//! The tokens of expressions in CEL syntax: names, literals, operators.

use super::fault::{Fault, Span};

/// A token.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Token {
    Name(String),
    Text(String),
    Number(i64),
    /// An operator or a bracket.
    Sign(&'static str),
    End,
}

/// The operators and brackets. Longer operators come before shorter operators.
const SIGNS: [&str; 22] = [
    "&&", "||", "==", "!=", "<=", ">=", "!", "<", ">", "?", ":", ".", ",", "(", ")", "[", "]", "-",
    "+", "*", "/", "%",
];

/// Splits an expression into tokens. The last one is [`Token::End`].
pub(super) fn tokens(expression: &str) -> Result<Vec<(Token, Span)>, Fault> {
    let mut found = Vec::new();
    let mut at = 0;
    loop {
        at = skip_blank(expression, at);
        let rest = &expression[at..];
        let Some(first) = rest.chars().next() else { break };
        let (token, len) = match first {
            '"' | '\'' => text(expression, at, Escapes::Read)?,
            'r' | 'R' if rest[1..].starts_with(['"', '\'']) => {
                let (token, len) = text(expression, at + 1, Escapes::Kept)?;
                (token, len + 1)
            }
            'a'..='z' | 'A'..='Z' | '_' => name(rest),
            '0'..='9' => number(rest, at)?,
            _ => sign(rest, at)?,
        };
        found.push((token, Span::new(at, at + len)));
        at += len;
    }
    found.push((Token::End, Span::new(expression.len(), expression.len())));
    Ok(found)
}

/// Skips white space and comments, which extend from `//` to the end of the line.
fn skip_blank(expression: &str, from: usize) -> usize {
    let mut rest = &expression[from..];
    loop {
        rest = rest.trim_start();
        match rest.strip_prefix("//") {
            Some(comment) => rest = comment.find('\n').map_or("", |end| &comment[end..]),
            None => return expression.len() - rest.len(),
        }
    }
}

fn name(rest: &str) -> (Token, usize) {
    let len = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
    (Token::Name(rest[..len].to_owned()), len)
}

fn number(rest: &str, at: usize) -> Result<(Token, usize), Fault> {
    let len = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
    let value = match rest[..len].strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16),
        None => rest[..len].parse(),
    };
    match value {
        Ok(value) => Ok((Token::Number(value), len)),
        Err(_) => {
            Err(Fault::at(Span::new(at, at + len), "not a whole number")
                .advise("write text in quotes"))
        }
    }
}

fn sign(rest: &str, at: usize) -> Result<(Token, usize), Fault> {
    if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
        return Ok((Token::Sign(sign), sign.len()));
    }
    let len = rest.chars().next().map_or(1, char::len_utf8);
    let fault = Fault::at(Span::new(at, at + len), "unexpected character");
    Err(match &rest[..len] {
        "=" => fault.advise("equality is written `==`"),
        "&" => fault.advise("and is written `&&`"),
        "|" => fault.advise("or is written `||`"),
        "“" | "”" | "‘" | "’" | "`" => fault.advise("quotes are \" or '"),
        _ => fault,
    })
}

/// Whether a backslash in a text literal begins an escape. In `r"..."` it does not.
#[derive(Clone, Copy, PartialEq)]
enum Escapes {
    Read,
    Kept,
}

/// Returns the text literal with an opening quote at `start`, and the literal's length including
/// both quotes.
fn text(expression: &str, start: usize, escapes: Escapes) -> Result<(Token, usize), Fault> {
    let quote = expression.as_bytes()[start];
    let mut value = String::new();
    let mut rest = expression[start + 1..].char_indices();
    while let Some((offset, c)) = rest.next() {
        match c {
            _ if c == char::from(quote) => return Ok((Token::Text(value), offset + 2)),
            '\n' => break,
            '\\' if escapes == Escapes::Read => {
                let at = start + 1 + offset;
                value.push(unescape(rest.next().map(|(_, c)| c), at)?);
            }
            _ => value.push(c),
        }
    }
    Err(Fault::at(Span::new(start, start + 1), "the closing quote is missing"))
}

fn unescape(c: Option<char>, at: usize) -> Result<char, Fault> {
    match c {
        Some(c @ ('\\' | '"' | '\'' | '`' | '?')) => Ok(c),
        Some('n') => Ok('\n'),
        Some('t') => Ok('\t'),
        Some('r') => Ok('\r'),
        _ => {
            let fault = Fault::at(Span::new(at, at + 2), "no such escape in a text");
            Err(fault.advise(r#"write patterns as r"..." or double the backslash"#))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(expression: &str, expected: &[Token]) {
        let found: Vec<Token> =
            tokens(expression).unwrap().into_iter().map(|(token, _)| token).collect();
        assert_eq!(found, expected);
    }

    fn text(text: &str) -> Token {
        Token::Text(text.to_owned())
    }

    #[test]
    fn texts_have_two_quotes_and_escapes() {
        check(r#"'a"b' "c'd\"\\""#, &[text("a\"b"), text("c'd\"\\"), Token::End]);
        check(r#"r"^ad\d+\." // all of them"#, &[text(r"^ad\d+\."), Token::End]);
    }

    #[test]
    fn signs_are_read_longest_first() {
        let expected = ["!", "(", "<=", "<", "&&"].map(Token::Sign);
        check("!(<= <&&", &[&expected[..], &[Token::End]].concat());
    }

    #[test]
    fn what_is_no_word_is_a_fault_at_its_column() {
        for (expression, column) in
            [("qtype = 1", 7), ("a \"b", 3), (r#""a\d""#, 3), ("12ab", 1), ("ä", 1)]
        {
            let fault = tokens(expression).unwrap_err();
            assert_eq!(fault.column(expression), column, "{expression}: {fault}");
        }
    }
}
