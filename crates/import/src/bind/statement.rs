//! The statements of `named.conf` and of all files that it includes.
//!
//! A statement is a row of words and blocks up to a semicolon; a block has statements. Nesting,
//! included files and the number of items have limits, so that the work is proportional to the
//! length of the files.

use std::fmt;
use std::rc::Rc;

use crate::draft::Draft;
use crate::source::{self, Error, Files, MAX_INCLUDES, MAX_TEXT, malformed};

use super::token::{BindToken, Tokens};

/// Maximum nesting depth of blocks.
const MAX_NESTING: usize = 32;
/// Maximum nesting depth of files that include other files.
const MAX_INCLUDE_NESTING: usize = 16;
/// Maximum number of words and blocks of all files together.
const MAX_ITEMS: usize = 4_000_000;
/// Maximum number of words of a statement that are shown in a note.
const MAX_SHOWN: usize = 4;
/// Maximum number of characters of a word that are shown in a note.
const MAX_SHOWN_WORD: usize = 60;

/// A part of a statement.
#[derive(Clone, Debug)]
pub(super) enum Item {
    Word(String),
    Quoted(String),
    Block(Vec<Statement>),
}

/// A statement and its place in the source.
#[derive(Clone, Debug)]
pub(super) struct Statement {
    pub(super) items: Vec<Item>,
    file: Rc<str>,
    line: usize,
}

impl Statement {
    /// Returns the first word of the statement in lower case, or an empty text.
    pub(super) fn key(&self) -> String {
        self.word(0).unwrap_or_default().to_ascii_lowercase()
    }

    /// Returns a word or quoted text by its position.
    pub(super) fn word(&self, position: usize) -> Option<&str> {
        match self.items.get(position)? {
            Item::Word(text) | Item::Quoted(text) => Some(text),
            Item::Block(_) => None,
        }
    }

    /// Returns the word that follows a keyword in the statement.
    pub(super) fn after(&self, keyword: &str) -> Option<&str> {
        let is_keyword =
            |item: &Item| matches!(item, Item::Word(word) if word.eq_ignore_ascii_case(keyword));
        self.word(self.items.iter().position(is_keyword)? + 1)
    }

    /// Returns the statements of the first block, or an empty slice if there is no block.
    pub(super) fn block(&self) -> &[Self] {
        let block = self.items.iter().find_map(|item| match item {
            Item::Block(block) => Some(block.as_slice()),
            _ => None,
        });
        block.unwrap_or_default()
    }

    /// Returns whether the statement has a block.
    pub(super) fn has_block(&self) -> bool {
        self.items.iter().any(|item| matches!(item, Item::Block(_)))
    }

    /// Returns whether the value is one of BIND's words for "yes" or "no", or `None` for other
    /// values.
    pub(super) fn flag(&self) -> Option<bool> {
        match self.word(1)?.to_ascii_lowercase().as_str() {
            "yes" | "true" | "1" => Some(true),
            "no" | "false" | "0" => Some(false),
            _ => None,
        }
    }

    /// Returns the file and the line of the statement.
    pub(super) fn place(&self) -> String {
        format!("{}:{}", self.file, self.line)
    }

    /// Returns the directory of the file with the statement.
    pub(super) fn directory(&self) -> &str {
        self.file.rsplit_once('/').map_or("", |(directory, _)| directory)
    }
}

impl fmt::Display for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.place())?;
        let is_secret = self.key() == "secret";
        for (position, item) in self.items.iter().take(MAX_SHOWN).enumerate() {
            match item {
                Item::Word(_) | Item::Quoted(_) if is_secret && position > 0 => break,
                Item::Word(text) => write!(f, " {}", short(text))?,
                Item::Quoted(text) => write!(f, " \"{}\"", short(text))?,
                Item::Block(_) => break,
            }
        }
        Ok(())
    }
}

fn short(text: &str) -> String {
    text.chars().take(MAX_SHOWN_WORD).collect()
}

/// Returns the last statement with this key in a block.
pub(super) fn last<'s>(block: &'s [Statement], key: &str) -> Option<&'s Statement> {
    block.iter().rev().find(|statement| statement.key() == key)
}

/// Returns the statements of a file and of all files it includes.
///
/// # Errors
/// A file is not written in the syntax of BIND, or exceeds a limit.
pub(super) fn gather(
    path: &str,
    files: &dyn Files,
    draft: &mut Draft,
) -> Result<Vec<Statement>, Error> {
    let mut reading =
        StatementReading { files, draft, directory: None, room: MAX_TEXT, read: 0, items: 0 };
    let text = reading.text(path)?;
    reading.file(path, &text, (0, 0))
}

struct StatementReading<'r> {
    files: &'r dyn Files,
    draft: &'r mut Draft,
    /// The value of the statement `directory`, after it was read.
    directory: Option<String>,
    /// Number of octets that may still be read.
    room: u64,
    read: usize,
    items: usize,
}

impl StatementReading<'_> {
    fn text(&mut self, path: &str) -> Result<String, Error> {
        self.read += 1;
        let octets = source::octets(self.files, path, self.room)?;
        self.room -= octets.len() as u64;
        if let Some(at) = octets.iter().position(|octet| *octet == 0) {
            let line = 1 + octets.iter().take(at).filter(|octet| **octet == b'\n').count();
            return Err(malformed(path, format!("line {line}: not a text file")));
        }
        source::text(path, &octets)
    }

    /// Reads the statements of one file. The depths count the blocks and files around it.
    fn file(
        &mut self,
        path: &str,
        text: &str,
        depth: (usize, usize),
    ) -> Result<Vec<Statement>, Error> {
        let file = File { path: path.into(), includes: depth.1 };
        let mut tokens = Tokens::of(text);
        let (statements, last) = self.block(&mut tokens, &file, depth.0)?;
        match last {
            None => Ok(statements),
            Some(line) => Err(malformed(path, format!("line {line}: a }} without its {{"))),
        }
    }

    /// Reads statements up to the end of the block or of the file. Returns them, and the line of
    /// the brace that ends the block.
    fn block(
        &mut self,
        tokens: &mut Tokens<'_>,
        file: &File,
        depth: usize,
    ) -> Result<(Vec<Statement>, Option<usize>), Error> {
        let wrong =
            |line: usize, reason: &str| malformed(&file.path, format!("line {line}: {reason}"));
        let mut statements = Vec::new();
        let mut items: Vec<Item> = Vec::new();
        let mut start = 0;
        while let Some((token, line)) =
            tokens.take().map_err(|(line, reason)| wrong(line, reason))?
        {
            if items.is_empty() {
                start = line;
            }
            self.items += 1;
            if self.items > MAX_ITEMS {
                return Err(wrong(line, &format!("more than {MAX_ITEMS} words")));
            }
            match token {
                BindToken::Word(word) => items.push(Item::Word(word)),
                BindToken::Quoted(text) => items.push(Item::Quoted(text)),
                BindToken::Open if depth >= MAX_NESTING => {
                    return Err(wrong(line, "too deeply nested"));
                }
                BindToken::Open => {
                    let (inner, end) = self.block(tokens, file, depth + 1)?;
                    if end.is_none() {
                        return Err(wrong(line, "a { without its }"));
                    }
                    items.push(Item::Block(inner));
                }
                BindToken::Close if items.is_empty() => return Ok((statements, Some(line))),
                BindToken::Close => return Err(wrong(start, "a statement without its semicolon")),
                BindToken::End => {
                    let mut items = std::mem::take(&mut items);
                    items.shrink_to_fit();
                    let statement = Statement { items, file: file.path.clone(), line: start };
                    self.statement(statement, file, depth, &mut statements)?;
                }
            }
        }
        match items.is_empty() {
            true => Ok((statements, None)),
            false => Err(wrong(start, "a statement without its semicolon")),
        }
    }

    /// Adds a statement, or the statements of the files that it includes.
    fn statement(
        &mut self,
        statement: Statement,
        file: &File,
        depth: usize,
        statements: &mut Vec<Statement>,
    ) -> Result<(), Error> {
        match (statement.key().as_str(), statement.word(1)) {
            ("include", Some(written)) if statement.items.len() == 2 => {
                for path in self.included(written, &statement) {
                    let is_over = file.includes >= MAX_INCLUDE_NESTING || self.read >= MAX_INCLUDES;
                    if is_over {
                        let reason = format!(
                            "line {}: more than {MAX_INCLUDES} files, or {MAX_INCLUDE_NESTING} \
                             that include one another",
                            statement.line
                        );
                        return Err(malformed(&file.path, reason));
                    }
                    match self.text(&path) {
                        Ok(text) => {
                            let depth = (depth, file.includes + 1);
                            statements.extend(self.file(&path, &text, depth)?);
                        }
                        Err(Error::Unreadable { path, source }) => {
                            self.draft.note(&statement, format!("{path} cannot be read: {source}"));
                        }
                        Err(error) => return Err(error),
                    }
                }
            }
            ("directory", Some(written)) => {
                self.directory = Some(written.to_owned());
                statements.push(statement);
            }
            // An empty statement is allowed.
            ("", None) if statement.items.is_empty() => {}
            _ => statements.push(statement),
        }
        Ok(())
    }

    /// Returns the files that `include` names, relative to the directory of BIND. If they are not
    /// there, their paths are relative to the including file.
    fn included(&self, written: &str, statement: &Statement) -> Vec<String> {
        let own = statement.directory();
        let bases = [self.directory.as_deref().unwrap_or(own), own];
        let mut paths: Vec<String> = bases.iter().map(|base| beside(base, written)).collect();
        if let Some((head, tail)) = written.rsplit_once('*') {
            for path in &paths {
                let (directory, _) = path.rsplit_once('/').unwrap_or(("", path));
                let Some(names) = self.files.list(directory) else { continue };
                let start = head.rsplit('/').next().unwrap_or(head);
                let is_one = |name: &&String| {
                    name.len() >= start.len() + tail.len()
                        && name.starts_with(start)
                        && name.ends_with(tail)
                };
                return names.iter().filter(is_one).map(|name| beside(directory, name)).collect();
            }
            return Vec::new();
        }
        let other = paths.pop().filter(|other| paths.first() != Some(other));
        let is_there = |path: &String| self.files.read(path, self.room).is_ok();
        match other.filter(is_there) {
            Some(other) if !paths.first().is_some_and(is_there) => vec![other],
            _ => paths.into_iter().take(1).collect(),
        }
    }
}

struct File {
    path: Rc<str>,
    includes: usize,
}

/// Returns a path that is resolved relative to a directory.
pub(super) fn beside(directory: &str, written: &str) -> String {
    match directory {
        "" => written.to_owned(),
        _ if written.starts_with('/') => written.to_owned(),
        directory => format!("{}/{written}", directory.trim_end_matches('/')),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_relative_to_a_directory() {
        assert_eq!(beside("/var/cache/bind/", "db.a"), "/var/cache/bind/db.a");
        assert_eq!(beside("/var", "/etc/db.a"), "/etc/db.a");
        assert_eq!(beside("", "db.a"), "db.a");
    }
}
