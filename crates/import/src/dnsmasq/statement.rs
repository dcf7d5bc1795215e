//! The statements of a configuration and of all files that it includes: lines `KEY` and
//! `KEY=VALUE`.

use std::fmt;

use crate::draft::Draft;
use crate::source::{self, Error, Files, MAX_INCLUDES, MAX_TEXT};

/// One line of a configuration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Statement {
    pub(crate) key: String,
    pub(crate) value: String,
    /// File and line.
    pub(crate) place: String,
}

impl fmt::Display for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.key)?;
        if self.value.is_empty() { Ok(()) } else { write!(f, "={}", self.value) }
    }
}

/// Parses the statements of a text.
pub(crate) fn statements(path: &str, text: &str) -> Vec<Statement> {
    let numbered = source::lines(text).filter(|(_, line)| !line.starts_with('#'));
    numbered
        .map(|(number, line)| {
            let line = without_comment(line);
            let (key, value) = line.split_once('=').unwrap_or((line, ""));
            let place = format!("{path}:{number}");
            Statement { key: key.trim().to_owned(), value: value.trim().to_owned(), place }
        })
        .collect()
}

/// Returns a line up to a `#` that follows white space outside quotes.
fn without_comment(line: &str) -> &str {
    let mut is_quoted = false;
    let mut was_blank = false;
    for (at, c) in line.char_indices() {
        match c {
            '"' => is_quoted = !is_quoted,
            '#' if was_blank && !is_quoted => return line.get(..at).unwrap_or(line).trim_end(),
            _ => {}
        }
        was_blank = c.is_whitespace();
    }
    line
}

/// Returns the statements of a file and of all files it includes, in order.
pub(crate) fn gather(
    path: &str,
    files: &dyn Files,
    draft: &mut Draft,
) -> Result<Vec<Statement>, Error> {
    let mut found = Vec::new();
    let mut seen = vec![path.to_owned()];
    // An explicit stack avoids recursion if files include each other.
    let mut waiting = vec![read(path, files, draft)?.into_iter()];
    while let Some(statements) = waiting.last_mut() {
        let Some(statement) = statements.next() else {
            waiting.pop();
            continue;
        };
        let included = match statement.key.as_str() {
            "conf-file" | "servers-file" => vec![statement.value.clone()],
            "conf-dir" => in_directory(&statement, files, draft),
            _ => {
                found.push(statement);
                continue;
            }
        };
        for path in included.into_iter().rev() {
            if seen.contains(&path) || seen.len() >= MAX_INCLUDES {
                draft.note(path, format!("included twice, or more than {MAX_INCLUDES} files"));
                continue;
            }
            match read(&path, files, draft) {
                Ok(statements) => waiting.push(statements.into_iter()),
                Err(error) => draft.note(&statement, error),
            }
            seen.push(path);
        }
    }
    Ok(found)
}

fn read(path: &str, files: &dyn Files, draft: &mut Draft) -> Result<Vec<Statement>, Error> {
    let text = source::text(path, &source::octets(files, path, MAX_TEXT)?)?;
    draft.note_lines_left_out(path, &text);
    Ok(statements(path, &text))
}

/// Returns the files of `conf-dir=DIRECTORY[,EXTENSION..]`. `*.conf` selects only files with this
/// ending; `.bak` excludes them.
fn in_directory(statement: &Statement, files: &dyn Files, draft: &mut Draft) -> Vec<String> {
    let mut words = statement.value.split(',').map(str::trim);
    let directory = words.next().unwrap_or_default().trim_end_matches('/');
    let (wanted, unwanted): (Vec<&str>, Vec<&str>) = words.partition(|word| word.starts_with('*'));
    let Some(names) = files.list(directory) else {
        draft.note(statement, "there is no such directory");
        return Vec::new();
    };
    let is_hidden = |name: &str| name.starts_with(['.', '#']) || name.ends_with('~');
    let is_taken = |name: &&String| {
        let is_wanted = wanted.is_empty()
            || wanted.iter().any(|end| name.ends_with(end.trim_start_matches('*')));
        is_wanted && !is_hidden(name) && !unwanted.iter().any(|end| name.ends_with(end))
    };
    names.iter().filter(is_taken).map(|name| format!("{directory}/{name}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_begins_after_a_blank() {
        let found = statements(
            "a",
            "# x\naddress=/x/#\nport=5353 # why\ntxt-record=x,\"a # b\"\n\n expand-hosts\n",
        );
        let shown: Vec<String> = found.iter().map(Statement::to_string).collect();
        assert_eq!(
            shown,
            [
                "a:2: address=/x/#",
                "a:3: port=5353",
                "a:4: txt-record=x,\"a # b\"",
                "a:6: expand-hosts"
            ]
        );
    }
}
