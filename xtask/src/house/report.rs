//! The report as text.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::cycles::cycles;
use super::items::{self, Function, Items};
use super::modules::{Imports, imports};
use super::source::{Crate, File};

/// Number of columns above which lines are counted.
const WIDTH: usize = 100;
/// Number of lines above which functions are counted.
const LONG_FUNCTION: usize = 30;
/// Number of longest functions that are listed.
const NAMED: usize = 10;
/// Number of types with the same name above which the name is counted.
const MAX_HOMONYMS: usize = 3;

/// The level of detail of the report.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Details {
    Figures,
    /// The report also contains the files and imports of each cycle.
    Cycles,
}

/// Returns the report on these crates.
pub(super) fn of(crates: &[Crate], details: Details) -> String {
    let mut out = String::new();
    if details == Details::Figures {
        sizes(crates, &mut out);
    }
    ties(crates, details, &mut out);
    if details == Details::Figures {
        let items = items::of(crates);
        functions(&items, &mut out);
        parameters(&items, &mut out);
        homonyms(&items, &mut out);
    }
    out
}

macro_rules! say {
    ($out:expr, $($words:tt)*) => { writeln!($out, $($words)*).unwrap_or_default() };
}

fn sizes(crates: &[Crate], out: &mut String) {
    let all: usize = crates.iter().map(lines).sum();
    say!(
        out,
        "crate        files   lines  share  file median/p90/max  comments  lines over {WIDTH}"
    );
    for krate in crates {
        let mut files: Vec<usize> = krate.files.iter().map(|file| file.lines.len()).collect();
        let (median, p90, max) = spread(&mut files);
        let comments =
            percent(count(krate, is_comment), count(krate, |line| !line.trim().is_empty()));
        let wide = count(krate, |line| line.chars().count() > WIDTH);
        let share = percent(lines(krate), all);
        say!(
            out,
            "{:<12} {:>5} {:>7} {share:>5.1}% {:>20} {comments:>8.1}% {wide:>8}",
            krate.name,
            krate.files.len(),
            lines(krate),
            format!("{median}/{p90}/{max}")
        );
    }
    let files: usize = crates.iter().map(|krate| krate.files.len()).sum();
    say!(out, "{:<12} {files:>5} {all:>7}", "all");
}

fn lines(krate: &Crate) -> usize {
    krate.files.iter().map(|file| file.lines.len()).sum()
}

fn count(krate: &Crate, test: impl Fn(&str) -> bool) -> usize {
    krate.files.iter().flat_map(|file| &file.lines).filter(|line| test(line)).count()
}

fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with("//")
}

fn percent(part: usize, whole: usize) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

/// Returns the median, the 90th percentile and the maximum.
fn spread(values: &mut [usize]) -> (usize, usize, usize) {
    values.sort_unstable();
    let at = |percent: usize| {
        values.get((values.len() * percent / 100).min(values.len().saturating_sub(1)))
    };
    (
        at(50).copied().unwrap_or(0),
        at(90).copied().unwrap_or(0),
        values.last().copied().unwrap_or(0),
    )
}

/// Reports the cycles of files within each crate, and the cycles of its top folders.
fn ties(crates: &[Crate], details: Details, out: &mut String) {
    let mut largest = 0;
    for krate in crates {
        let imports = imports(krate);
        let files = cycles(&imports);
        let folders = Folders::of(krate, &imports);
        let tied = cycles(&folders.imports);
        let sizes: Vec<String> = files.iter().map(|cycle| cycle.len().to_string()).collect();
        largest = largest.max(files.first().map_or(0, Vec::len));
        if files.is_empty() && tied.is_empty() {
            continue;
        }
        say!(
            out,
            "{}: cycles of {} files",
            krate.name,
            if sizes.is_empty() { "no".to_owned() } else { sizes.join(", ") }
        );
        for cycle in &tied {
            let names: Vec<&str> = cycle.iter().map(|at| folders.names[*at].as_str()).collect();
            say!(out, "  folders in a cycle: {}", names.join(", "));
        }
        if details == Details::Cycles {
            files.iter().for_each(|cycle| describe(krate, &imports, cycle, out));
            folders.describe(&tied, out);
        }
    }
    say!(out, "largest cycle of files: {largest}");
}

fn describe(krate: &Crate, imports: &Imports, cycle: &[usize], out: &mut String) {
    for &from in cycle {
        say!(out, "  {}", krate.files[from].path);
        for (to, names) in imports[from].iter().filter(|(to, _)| cycle.contains(to)) {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            say!(out, "    takes from {}: {}", krate.files[*to].path, names.join(", "));
        }
    }
}

/// The top modules of a crate.
struct Folders {
    names: Vec<String>,
    imports: Imports,
}

impl Folders {
    fn of(krate: &Crate, imports: &Imports) -> Self {
        let names: BTreeSet<String> = krate.files.iter().filter_map(folder).collect();
        let names: Vec<String> = names.into_iter().collect();
        let place = |file: usize| {
            folder(&krate.files[file]).and_then(|name| names.binary_search(&name).ok())
        };
        let mut between: Imports = vec![BTreeMap::new(); names.len()];
        for (from, taken) in imports.iter().enumerate() {
            for (&to, what) in taken {
                let (Some(here), Some(there)) = (place(from), place(to)) else { continue };
                if here != there {
                    let file = |at: usize| krate.files[at].path.as_str();
                    let words = what
                        .iter()
                        .map(|name| format!("{} takes {name} from {}", file(from), file(to)));
                    between[here].entry(there).or_default().extend(words);
                }
            }
        }
        Self { names, imports: between }
    }

    fn describe(&self, tied: &[Vec<usize>], out: &mut String) {
        for cycle in tied {
            for &from in cycle {
                for (to, words) in self.imports[from].iter().filter(|(to, _)| cycle.contains(to)) {
                    say!(out, "  {} -> {}", self.names[from], self.names[*to]);
                    words.iter().for_each(|words| say!(out, "    {words}"));
                }
            }
        }
    }
}

fn folder(file: &File) -> Option<String> {
    file.module.first().cloned()
}

fn functions(items: &Items, out: &mut String) {
    let mut lengths: Vec<usize> = items.functions.iter().map(|function| function.lines).collect();
    let long = lengths.iter().filter(|lines| **lines > LONG_FUNCTION).count();
    let share = percent(long, lengths.len());
    let (median, p90, max) = spread(&mut lengths);
    say!(
        out,
        "functions: {}, lines median/p90/max {median}/{p90}/{max}, {share:.1}% over \
         {LONG_FUNCTION}",
        lengths.len()
    );
    let mut longest: Vec<&Function> = items.functions.iter().collect();
    longest.sort_by_key(|function| std::cmp::Reverse(function.lines));
    longest
        .iter()
        .take(NAMED)
        .for_each(|function| say!(out, "  {} {}", function.lines, function.place));
}

fn parameters(items: &Items, out: &mut String) {
    let of =
        |test: fn(&Function) -> bool| items.functions.iter().filter(move |function| test(function));
    for (what, test) in [
        (
            "a tuple of three values or more",
            (|function| function.takes_tuple) as fn(&Function) -> bool,
        ),
        ("a bool", |function| function.takes_bool),
        ("more than five values", |function| function.parameters > 5),
    ] {
        say!(out, "functions that take {what}: {}", of(test).count());
        of(test).for_each(|function| say!(out, "  {}", function.place));
    }
}

fn homonyms(items: &Items, out: &mut String) {
    let mut places: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, place) in &items.types {
        places.entry(name).or_default().push(place);
    }
    let shared = places.values().filter(|places| places.len() > 1).count();
    let mut often: Vec<_> =
        places.iter().filter(|(_, places)| places.len() > MAX_HOMONYMS).collect();
    often.sort_by_key(|(_, places)| std::cmp::Reverse(places.len()));
    say!(
        out,
        "types: {}, {shared} names for more than one, {} for more than {MAX_HOMONYMS}",
        items.types.len(),
        often.len()
    );
    often
        .iter()
        .for_each(|(name, places)| say!(out, "  {name} {}: {}", places.len(), places.join(" ")));
}
