//! Errors of product code must be types. A text as an error would hide the kind of the error and
//! its source.

use super::code::Code;
use super::{Fault, Tree};

/// Paths whose errors may be texts: tools for tests, whose errors are only read by a person.
const EXCEPTED: &[&str] = &["crates/testkit/"];

/// Finds `Result<_, String>` and `Box<dyn Error>` in the code of the crates, except in tests.
pub(super) fn as_text(tree: &Tree) -> Vec<Fault> {
    tree.ending(".rs").filter(|(path, _)| is_product(path)).flat_map(in_file).collect()
}

fn is_product(path: &str) -> bool {
    path.starts_with("crates/")
        && path.contains("/src/")
        && !path.contains("/tests")
        && !EXCEPTED.iter().any(|excepted| path.starts_with(excepted))
}

fn in_file((path, source): (&str, &str)) -> Vec<Fault> {
    let end = source.find("#[cfg(test)]\nmod tests {").unwrap_or(source.len());
    let code = Code::of(&source[..end]);
    let mut faults = Vec::new();
    for at in code.words("Result") {
        let rest = &code.text()[at + "Result".len()..];
        if error_type(rest) == Some("String") {
            faults.push(Fault::at(path, code.line(at), "a text as an error: name an error type"));
        }
    }
    for (at, boxed) in code.text().match_indices("Box<dyn ") {
        let rest = &code.text()[at + boxed.len()..];
        let trait_name = rest.split(['+', '>']).next().unwrap_or_default().trim();
        if trait_name.rsplit("::").next() == Some("Error") {
            faults.push(Fault::at(path, code.line(at), "an opaque error: name an error type"));
        }
    }
    faults
}

/// Returns the second of two type arguments at the start of a text.
fn error_type(text: &str) -> Option<&str> {
    let text = text.strip_prefix('<')?;
    let (mut depth, mut second, mut before) = (0_usize, None, ' ');
    for (at, c) in text.char_indices() {
        match c {
            '<' | '(' | '[' => depth += 1,
            // This `>` belongs to the arrow of a closure's type.
            '>' if before == '-' => {}
            '>' if depth == 0 => return Some(text[second?..at].trim().trim_end_matches(',')),
            '>' | ')' | ']' => depth = depth.checked_sub(1)?,
            ',' if depth == 0 && second.is_none() => second = Some(at + 1),
            _ => {}
        }
        before = c;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, source: &str, lines: &[usize]) {
        let tree = Tree::planted(&[(path, source)]);
        let found: Vec<_> = as_text(&tree).iter().map(Fault::to_string).collect();
        assert_eq!(found.len(), lines.len(), "{found:?}");
        for (fault, line) in found.iter().zip(lines) {
            assert!(fault.starts_with(&format!("{path}:{line}:")), "{fault}");
        }
    }

    #[test]
    fn a_text_as_an_error_is_a_fault() {
        let product = "crates/policy/src/a.rs";
        check(product, "fn a() -> Result<(), String> {}", &[1]);
        check(product, "fn a() -> Result<Option<(u8, u8)>, String>;\n", &[1]);
        check(product, "\ntype A = fn(&str) -> Result<\n    Vec<u8>,\n    String,\n>;", &[2]);
        check(product, "type A = Result<fn() -> u8, String>;", &[1]);
        check(product, "fn a() -> Result<(), Box<dyn std::error::Error + Send>> {}", &[1]);
    }

    #[test]
    fn other_results_and_tests_are_none() {
        let product = "crates/policy/src/a.rs";
        check(product, "fn a() -> Result<String, Error> {} // Result<(), String>", &[]);
        check(
            product,
            "fn a() -> io::Result<String>; fn b() -> Result<Vec<(u8, String)>, E>;",
            &[],
        );
        check(product, "fn a() -> Result<(), Vec<String>>; type B = Box<dyn Read>;", &[]);
        check(product, "#[cfg(test)]\nmod tests {\n fn a() -> Result<(), String> {}\n}", &[]);
        check("crates/policy/tests/a.rs", "fn a() -> Result<(), String> {}", &[]);
        check("crates/testkit/src/a.rs", "fn a() -> Result<(), String> {}", &[]);
    }
}
