//! Calls that break a design principle outside of permitted places, with their replacements.

use super::code::Code;
use super::{Fault, Tree};

/// A call and its permitted places.
struct Ban {
    call: &'static str,
    instead: &'static str,
    /// Paths, or prefixes of paths, where the call is permitted.
    allowed: &'static [&'static str],
    /// Whether the ban also covers tests and benches.
    in_tests: bool,
}

const RIM: &[&str] = &[
    "crates/nameserver/src/clock.rs",
    "crates/server/",
    "crates/worker/",
    "crates/cli/",
    "crates/client/",
    "crates/io/",
    "crates/load/",
    "xtask/",
    "bench/",
];
const TERMINAL: &[&str] = &["crates/cli/", "crates/load/", "xtask/", "bench/"];

const BANS: &[Ban] = &[
    Ban {
        call: "thread::sleep",
        instead: "wait for the event itself: a channel, a poll with a deadline, virtual time in \
                  tests",
        // The relay must sleep to simulate delay.
        allowed: &["xtask/src/bench/process.rs", "xtask/src/internet/link.rs"],
        in_tests: true,
    },
    Ban {
        call: "time::sleep",
        instead: "tests use virtual time; timers belong to the server",
        allowed: &["crates/server/src/", "crates/worker/src/"],
        in_tests: true,
    },
    Ban {
        call: "SystemTime::now",
        instead: "take the time as an argument",
        allowed: RIM,
        in_tests: false,
    },
    Ban {
        call: "Instant::now",
        instead: "take the time as an argument",
        allowed: RIM,
        in_tests: false,
    },
    Ban {
        call: "UdpSocket",
        instead: "sockets belong to io, workers and the server",
        allowed: RIM,
        in_tests: false,
    },
    Ban {
        call: "TcpStream",
        instead: "sockets belong to io, workers and the server",
        allowed: RIM,
        in_tests: false,
    },
    Ban {
        call: "TcpListener",
        instead: "sockets belong to io, workers and the server",
        allowed: RIM,
        in_tests: false,
    },
    Ban {
        call: "println!",
        instead: "return the text or use tracing",
        allowed: TERMINAL,
        in_tests: false,
    },
    Ban {
        call: "eprintln!",
        instead: "return an error or use tracing",
        allowed: TERMINAL,
        in_tests: false,
    },
    Ban {
        call: "print!",
        instead: "return the text or use tracing",
        allowed: TERMINAL,
        in_tests: false,
    },
    Ban {
        call: "eprint!",
        instead: "return an error or use tracing",
        allowed: TERMINAL,
        in_tests: false,
    },
    Ban {
        call: "unbounded_channel",
        instead: "a bounded channel and a counter for when it is full",
        allowed: &[],
        in_tests: false,
    },
    Ban { call: "dbg!", instead: "an assertion or tracing", allowed: &[], in_tests: true },
    Ban {
        call: "todo!",
        instead: "the code itself, or no item at all",
        allowed: &[],
        in_tests: true,
    },
    Ban {
        call: "unimplemented!",
        instead: "the code itself, or no item at all",
        allowed: &[],
        in_tests: true,
    },
];

/// Finds banned calls outside the permitted places.
pub(super) fn banned(tree: &Tree) -> Vec<Fault> {
    tree.ending(".rs").flat_map(|(path, text)| banned_in(path, text)).collect()
}

fn banned_in(path: &str, text: &str) -> Vec<Fault> {
    let code = Code::of(text);
    let test_ranges = code.test_ranges();
    let mut faults = Vec::new();
    for ban in BANS.iter().filter(|ban| !ban.allowed.iter().any(|start| path.starts_with(start))) {
        if is_test_file(path) && !ban.in_tests {
            continue;
        }
        let in_test = |at: &usize| test_ranges.iter().any(|range| range.contains(at));
        for at in code.words(ban.call).filter(|at| ban.in_tests || !in_test(at)) {
            faults.push(Fault::at(path, code.line(at), format!("`{}`: {}", ban.call, ban.instead)));
        }
    }
    faults
}

/// Returns whether cargo uses the file only for tests, benches or the build.
fn is_test_file(path: &str) -> bool {
    let parts: Vec<_> = path.split('/').collect();
    let directories = parts.len() - 1;
    parts[..directories]
        .iter()
        .any(|part| matches!(*part, "tests" | "benches" | "examples" | "testkit" | "fuzz"))
        || matches!(parts[directories], "tests.rs" | "build.rs")
}

/// Finds disabled tests.
pub(super) fn ignored_tests(tree: &Tree) -> Vec<Fault> {
    let found = tree.ending(".rs").flat_map(|(path, text)| {
        let code = Code::of(text);
        let lines: Vec<_> = code.words("#[ignore").map(|at| code.line(at)).collect();
        lines.into_iter().map(move |line| {
            Fault::at(path, line, "a test that does not run: mend it or delete it")
        })
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, text: &str, lines: &[usize]) {
        let found: Vec<_> =
            banned(&Tree::planted(&[(path, text)])).iter().map(Fault::to_string).collect();
        let matches =
            found.iter().zip(lines).all(|(f, line)| f.starts_with(&format!("{path}:{line}: ")));
        assert!(found.len() == lines.len() && matches, "{found:?} is not at {lines:?}");
    }

    #[test]
    fn the_clock_is_read_at_the_rim_only() {
        let text = "fn a() { let t = Instant::now(); }\n#[cfg(test)]\nmod tests { fn b() { \
                    Instant::now(); } }\n";
        check("crates/cache/src/lib.rs", text, &[1]);
        check("crates/nameserver/src/clock.rs", text, &[]);
        check("crates/cache/benches/micro.rs", text, &[]);
    }

    #[test]
    fn sleeping_is_a_fault_in_tests_too() {
        check("crates/server/tests/a.rs", "fn a() {\n    std::thread::sleep(d);\n}\n", &[2]);
    }

    #[test]
    fn printing_belongs_to_the_command_line() {
        let text = "fn a() { println!(\"x\"); }\n// println!\n";
        check("crates/wire/src/lib.rs", text, &[1]);
        check("crates/cli/src/main.rs", text, &[]);
    }

    #[test]
    fn a_socket_in_a_pure_crate_is_a_fault() {
        check("crates/resolver/src/lib.rs", "use std::net::UdpSocket;\n", &[1]);
    }

    #[test]
    fn a_test_switched_off_is_a_fault() {
        let tree =
            Tree::planted(&[("a.rs", "#[test]\n#[ignore = \"slow\"]\nfn a() {}\n// #[ignore]\n")]);
        assert_eq!(
            ignored_tests(&tree),
            [Fault::at("a.rs", 2, "a test that does not run: mend it or delete it")]
        );
    }
}
