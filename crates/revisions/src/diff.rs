//! The difference between two texts, in the unified format.

use std::fmt::Write;

/// Number of unchanged lines around each change.
const CONTEXT: usize = 3;
/// Maximum number of removed and added lines that are compared one by one; the work grows with
/// their square. A larger change is shown as one block.
const MAX_EDITS: usize = 1_000;

/// A line, and whether it is in both texts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum DiffLine<'t> {
    Same(&'t str),
    Removed(&'t str),
    Added(&'t str),
}

/// Returns the difference from `old` to `new`, each text with its name; empty if the texts are
/// equal.
pub fn unified((old_name, old): (&str, &str), (new_name, new): (&str, &str)) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let lines = compare(&old, &new);
    let changed: Vec<usize> = (0..lines.len()).filter(|at| !is_same(&lines[*at])).collect();
    let Some(first) = changed.first() else { return String::new() };
    let mut text = format!("--- {old_name}\n+++ {new_name}\n");
    let mut begin = *first;
    for (place, at) in changed.iter().enumerate() {
        let next = changed.get(place + 1).copied();
        if next.is_none_or(|next| next - at > 2 * CONTEXT + 1) {
            write_hunk(&lines, begin.saturating_sub(CONTEXT), at + CONTEXT + 1, &mut text);
            begin = next.unwrap_or_default();
        }
    }
    text
}

fn is_same(line: &DiffLine<'_>) -> bool {
    matches!(line, DiffLine::Same(_))
}

fn write_hunk(lines: &[DiffLine<'_>], from: usize, to: usize, text: &mut String) {
    let (before, hunk) = (&lines[..from], &lines[from..to.min(lines.len())]);
    let in_old = |lines: &[DiffLine<'_>]| {
        lines.iter().filter(|line| !matches!(line, DiffLine::Added(_))).count()
    };
    let in_new = |lines: &[DiffLine<'_>]| {
        lines.iter().filter(|line| !matches!(line, DiffLine::Removed(_))).count()
    };
    // A side without lines has the number of the line before it.
    let range = |before: usize, count: usize| match count {
        0 => format!("{before},0"),
        count => format!("{},{count}", before + 1),
    };
    let (old, new) = (range(in_old(before), in_old(hunk)), range(in_new(before), in_new(hunk)));
    // Writing to a string does not fail.
    let _ = writeln!(text, "@@ -{old} +{new} @@");
    for line in hunk {
        let (mark, line) = match line {
            DiffLine::Same(line) => (' ', line),
            DiffLine::Removed(line) => ('-', line),
            DiffLine::Added(line) => ('+', line),
        };
        let _ = writeln!(text, "{mark}{line}");
    }
}

/// Returns all lines of both texts in order.
fn compare<'t>(old: &[&'t str], new: &[&'t str]) -> Vec<DiffLine<'t>> {
    let start = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let (old_rest, new_rest) = (&old[start..], &new[start..]);
    let end = old_rest.iter().rev().zip(new_rest.iter().rev()).take_while(|(a, b)| a == b).count();
    let (old_part, same_end) = old_rest.split_at(old_rest.len() - end);
    let new_part = &new_rest[..new_rest.len() - end];
    let mut lines: Vec<_> = old[..start].iter().map(|line| DiffLine::Same(line)).collect();
    match shortest(old_part, new_part) {
        Some(part) => lines.extend(part),
        None => {
            lines.extend(old_part.iter().map(|line| DiffLine::Removed(line)));
            lines.extend(new_part.iter().map(|line| DiffLine::Added(line)));
        }
    }
    lines.extend(same_end.iter().map(|line| DiffLine::Same(line)));
    lines
}

/// Returns the shortest difference by the algorithm of Myers (1986); `None` if it has more than
/// [`MAX_EDITS`] changes.
fn shortest<'t>(old: &[&'t str], new: &[&'t str]) -> Option<Vec<DiffLine<'t>>> {
    let most = (old.len() + new.len()).min(MAX_EDITS);
    let middle = most + 1;
    // The furthest line of `old` that is reached on each diagonal, after each number of changes.
    let mut reached = vec![0_usize; 2 * middle + 1];
    let mut history = Vec::new();
    for edits in 0..=most {
        history.push(reached.clone());
        for diagonal in (middle - edits..=middle + edits).step_by(2) {
            let mut x = next_x(&reached, diagonal, (middle, edits));
            let mut y = x + middle - diagonal;
            while x < old.len() && y < new.len() && old[x] == new[y] {
                (x, y) = (x + 1, y + 1);
            }
            reached[diagonal] = x;
            if x >= old.len() && y >= new.len() {
                return Some(path(old, new, &history));
            }
        }
    }
    None
}

/// Returns the position at which a diagonal begins: after a removed line from the diagonal below,
/// or after an added line from the diagonal above.
fn next_x(reached: &[usize], diagonal: usize, (middle, edits): (usize, usize)) -> usize {
    let is_lowest = diagonal == middle - edits;
    let is_highest = diagonal == middle + edits;
    let (below, above) = (reached[diagonal - 1], reached[diagonal + 1]);
    if is_lowest || (!is_highest && below < above) { above } else { below + 1 }
}

/// Traces the path back from the ends of both texts.
fn path<'t>(old: &[&'t str], new: &[&'t str], history: &[Vec<usize>]) -> Vec<DiffLine<'t>> {
    let middle = history[0].len() / 2;
    let (mut x, mut y) = (old.len(), new.len());
    let mut lines = Vec::new();
    for (edits, reached) in history.iter().enumerate().rev() {
        let diagonal = x + middle - y;
        if edits == 0 {
            lines.extend(old[..x].iter().rev().map(|line| DiffLine::Same(line)));
            break;
        }
        let entered = next_x(reached, diagonal, (middle, edits));
        lines.extend(old[entered..x].iter().rev().map(|line| DiffLine::Same(line)));
        let is_lowest = diagonal == middle - edits;
        let is_highest = diagonal == middle + edits;
        let is_added = is_lowest || (!is_highest && reached[diagonal - 1] < reached[diagonal + 1]);
        let entered_y = entered + middle - diagonal;
        if is_added {
            lines.push(DiffLine::Added(new[entered_y - 1]));
            (x, y) = (entered, entered_y - 1);
        } else {
            lines.push(DiffLine::Removed(old[entered - 1]));
            (x, y) = (entered - 1, entered_y);
        }
    }
    lines.reverse();
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_shown_with_its_context() {
        let old = "a\nb\nc\nd\ne\nf\ng\nh\n";
        let new = "a\nb\nc\nd\nE\nf\ng\nh\ni\n";
        assert_eq!(
            unified(("1", old), ("2", new)),
            "--- 1\n+++ 2\n@@ -2,7 +2,8 @@\n b\n c\n d\n-e\n+E\n f\n g\n h\n+i\n"
        );
        assert_eq!(unified(("1", old), ("2", old)), "");
        assert_eq!(unified(("1", ""), ("2", "x")), "--- 1\n+++ 2\n@@ -0,0 +1,1 @@\n+x\n");
    }

    #[test]
    fn distant_changes_are_separate() {
        let old: String = (0..30).map(|line| format!("{line}\n")).collect();
        let new = old.replacen("5\n", "x\n", 1).replace("22\n", "");
        let text = unified(("1", &old), ("2", &new));
        assert_eq!(text.matches("@@ -").count(), 2, "{text}");
    }

    /// The lines of a difference produce both texts again.
    #[test]
    fn the_difference_has_both_texts() {
        let mut state = 7_u32;
        let mut random = |below: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 16) % below
        };
        for _ in 0..300 {
            let old: Vec<String> = (0..random(30)).map(|_| random(6).to_string()).collect();
            let mut new = old.clone();
            for _ in 0..random(8) {
                let at = random(new.len() as u32 + 1) as usize;
                match random(2) {
                    0 if at < new.len() => drop(new.remove(at)),
                    _ => new.insert(at, random(9).to_string()),
                }
            }
            let (old, new): (Vec<&str>, Vec<&str>) = (
                old.iter().map(String::as_str).collect(),
                new.iter().map(String::as_str).collect(),
            );
            let lines = compare(&old, &new);
            let texts = lines.iter().fold((vec![], vec![]), |(mut a, mut b), line| {
                match *line {
                    DiffLine::Same(line) => (a.push(line), b.push(line)),
                    DiffLine::Removed(line) => (a.push(line), ()),
                    DiffLine::Added(line) => (b.push(line), ()),
                };
                (a, b)
            });
            assert_eq!(texts, (old, new));
        }
    }
}
