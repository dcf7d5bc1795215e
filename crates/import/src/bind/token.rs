//! The tokens of `named.conf`: words, quoted texts, braces and semicolons, between comments in the
//! styles of C, C++ and shells.

use std::iter::Peekable;
use std::str::Chars;

/// Maximum number of octets of a word or of a quoted text.
const MAX_WORD: usize = 64 << 10;

/// A token of the text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum BindToken {
    Word(String),
    Quoted(String),
    Open,
    Close,
    /// A semicolon.
    End,
}

/// The tokens of a text with their lines.
pub(super) struct Tokens<'t> {
    rest: Peekable<Chars<'t>>,
    /// The line of the next character, from 1.
    line: usize,
}

impl<'t> Tokens<'t> {
    pub(super) fn of(text: &'t str) -> Self {
        Self { rest: text.chars().peekable(), line: 1 }
    }

    /// Returns the next token and the line where it starts, or `None` at the end.
    ///
    /// # Errors
    /// A comment or a quoted text has no end, or a word is too long: the line and the reason.
    pub(super) fn take(&mut self) -> Result<Option<(BindToken, usize)>, (usize, &'static str)> {
        loop {
            self.skip_comment()?;
            let line = self.line;
            let Some(first) = self.next() else { return Ok(None) };
            let token = match first {
                c if c.is_whitespace() => continue,
                '{' => BindToken::Open,
                '}' => BindToken::Close,
                ';' => BindToken::End,
                '!' => BindToken::Word("!".to_owned()),
                '"' => BindToken::Quoted(self.quoted(line)?),
                first => BindToken::Word(self.word(first, line)?),
            };
            return Ok(Some((token, line)));
        }
    }

    fn next(&mut self) -> Option<char> {
        let next = self.rest.next();
        self.line += usize::from(next == Some('\n'));
        next
    }

    /// Skips all comments that start here.
    fn skip_comment(&mut self) -> Result<(), (usize, &'static str)> {
        while let Some(style) = self.comment() {
            let line = self.line;
            match style {
                Comment::Line => while self.next().is_some_and(|c| c != '\n') {},
                Comment::Block => {
                    // The two characters that start a comment cannot also end it.
                    let (_, _) = (self.next(), self.next());
                    let mut was_star = false;
                    loop {
                        match self.next() {
                            None => return Err((line, "a comment without an end")),
                            Some('/') if was_star => break,
                            other => was_star = other == Some('*'),
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns the style of the comment that starts here, if one does.
    fn comment(&mut self) -> Option<Comment> {
        match self.rest.peek()? {
            '#' => Some(Comment::Line),
            '/' => {
                let mut ahead = self.rest.clone();
                match (ahead.next(), ahead.next()) {
                    (_, Some('/')) => Some(Comment::Line),
                    (_, Some('*')) => Some(Comment::Block),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    fn quoted(&mut self, line: usize) -> Result<String, (usize, &'static str)> {
        let mut text = String::new();
        loop {
            match self.next() {
                None | Some('\n') => return Err((line, "a quoted text without an end")),
                Some('"') => return Ok(text),
                Some('\\') => text.extend(self.next()),
                Some(c) => text.push(c),
            }
            if text.len() > MAX_WORD {
                return Err((line, "a quoted text that is too long"));
            }
        }
    }

    fn word(&mut self, first: char, line: usize) -> Result<String, (usize, &'static str)> {
        let mut word = String::from(first);
        while let Some(c) = self.rest.peek().copied() {
            if c.is_whitespace() || "{};\"!".contains(c) || self.comment().is_some() {
                break;
            }
            word.extend(self.next());
            if word.len() > MAX_WORD {
                return Err((line, "a word that is too long"));
            }
        }
        Ok(word)
    }
}

enum Comment {
    Line,
    Block,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Vec<BindToken> {
        let mut tokens = Tokens::of(text);
        std::iter::from_fn(|| tokens.take().unwrap()).map(|(token, _)| token).collect()
    }

    #[test]
    fn comments_of_all_styles_end_a_word() {
        let word = |text: &str| BindToken::Word(text.to_owned());
        let found = tokens("a/* x */b // c\n# d\n10.0.0.0/8;e#f\n{!g}\"h // \\\"i\"");
        let expected = [
            word("a"),
            word("b"),
            word("10.0.0.0/8"),
            BindToken::End,
            word("e"),
            BindToken::Open,
            word("!"),
            word("g"),
            BindToken::Close,
            BindToken::Quoted("h // \"i".to_owned()),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn what_has_no_end_is_an_error_at_its_start() {
        for (text, line) in [("a;\n/* b\n\n", 2), ("\n\n\"a\nb\"", 3), ("/*/", 1)] {
            let mut tokens = Tokens::of(text);
            let fault = std::iter::repeat_with(|| tokens.take()).find_map(Result::err).unwrap();
            assert_eq!(fault.0, line, "{text:?}");
        }
        let long = "a".repeat(MAX_WORD + 1);
        assert!(Tokens::of(&long).take().is_err());
    }
}
