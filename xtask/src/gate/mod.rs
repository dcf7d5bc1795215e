//! The gate: instructions of the hot operations, counted by callgrind and compared with the counts
//! stored in the tree.
//!
//! Counts do not depend on the load of the machine. They depend on the compiler, the C library and
//! the instruction set of the processor. If these differ from the stored ones, the gate only
//! reports and never fails.

mod baseline;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::bench::{PROFILE, output, target_directory};
use baseline::{Baseline, Verdict};

/// The file with the stored counts.
const KEPT: &str = "bench/baseline/instructions.toml";
/// The package with the operations; see bench/micro/src/main.rs.
const PACKAGE: &str = "avocet-bench-micro";
/// The function that runs one operation. Callgrind writes the counts of each call to a separate
/// file. The name must be complete, because callgrind accepts no pattern here.
const COUNTED: &str = "avocet_bench_micro::count::counted_operation";
/// Number of repetitions of an operation in one count. It is large enough to average over hash
/// tables with random keys.
const RUNS: u32 = 1000;
const OUTPUT: &str = "gate.out";

/// Counts the instructions. Compares them with the stored counts, or replaces these.
pub(crate) fn run(words: &[&str]) -> Result<(), String> {
    let update = match words {
        [] => false,
        ["--update"] => true,
        _ => return Err(format!("the gate knows --update, not `{}`", words.join(" "))),
    };
    if Command::new("valgrind").arg("--version").output().is_err() {
        return without_valgrind();
    }
    let found = Baseline { surroundings: surroundings()?, counts: count(&build()?)? };
    let path = crate::root().join(KEPT);
    let said = |error: std::io::Error| format!("{KEPT}: {error}");
    if update {
        let directory = path.parent().unwrap_or(&path);
        fs::create_dir_all(directory)
            .and_then(|()| fs::write(&path, found.text()))
            .map_err(said)?;
        println!("{} counts kept in {KEPT}", found.counts.len());
        return Ok(());
    }
    let kept = Baseline::parse(&fs::read_to_string(&path).map_err(said)?)?;
    judge(&kept, &found)
}

/// Reports that valgrind is missing. This is an error in continuous builds, which must have it.
fn without_valgrind() -> Result<(), String> {
    if std::env::var("CI").is_ok_and(|value| value == "true") {
        return Err("valgrind is not installed: the gate cannot count".to_owned());
    }
    println!("nothing counted: valgrind is not installed");
    Ok(())
}

fn judge(kept: &Baseline, found: &Baseline) -> Result<(), String> {
    let verdicts = found.against(kept);
    for verdict in &verdicts {
        println!("{}", verdict.line());
    }
    let refused: Vec<_> =
        verdicts.iter().filter(|verdict| verdict.is_refused()).map(Verdict::name).collect();
    if refused.is_empty() {
        println!(
            "no operation takes more than {} % more instructions than kept",
            baseline::LIMIT_PERCENT
        );
        return Ok(());
    }
    let differing = found.surroundings.iter().filter(|entry| !kept.surroundings.contains(entry));
    let differing: Vec<_> = differing.map(|(key, value)| format!("{key} is {value}")).collect();
    if differing.is_empty() {
        let advice = "if that is meant, keep the new counts with `cargo xtask gate --update` and \
                      say why in the commit";
        return Err(format!("refused: {}\n{advice}", refused.join(", ")));
    }
    println!("only reported, as the counts were kept elsewhere: here {}", differing.join(", "));
    Ok(())
}

/// Builds the operations and returns the path of the binary.
fn build() -> Result<PathBuf, String> {
    let mut command = Command::new("cargo");
    command.args(["build", "--quiet", "--locked", "--profile", PROFILE, "--no-default-features"]);
    command.args(["--package", PACKAGE]).current_dir(crate::root());
    output(command)?;
    Ok(target_directory().join(PROFILE).join(PACKAGE))
}

/// Returns the properties of the machine and the build that the counts depend on.
fn surroundings() -> Result<Vec<(String, String)>, String> {
    let first_line = |program: &str, argument: &str| {
        let mut command = Command::new(program);
        command.arg(argument);
        output(command).map(|text| text.lines().next().unwrap_or_default().trim().to_owned())
    };
    let known = [
        ("compiler", first_line("rustc", "--version")?),
        ("architecture", std::env::consts::ARCH.to_owned()),
        ("libc", first_line("ldd", "--version")?),
        ("valgrind", first_line("valgrind", "--version")?),
    ];
    Ok(known.map(|(key, value)| (key.to_owned(), value)).into())
}

/// Runs the operations under callgrind in one process. Each operation has its own file of counts.
fn count(binary: &Path) -> Result<Vec<(String, f64)>, String> {
    let directory = target_directory().join("gate");
    let said = |error: std::io::Error| format!("{}: {error}", directory.display());
    // Files of an earlier run would be counted as files of this run.
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).map_err(said)?;
    let out = directory.join(OUTPUT);
    let mut command = Command::new("valgrind");
    command.args(["--quiet", "--tool=callgrind", "--collect-atstart=no"]);
    command.arg(format!("--toggle-collect={COUNTED}")).arg(format!("--dump-after={COUNTED}"));
    command.arg(format!("--callgrind-out-file={}", out.display()));
    // Without this, the C library uses the widest instructions of this processor.
    command.env("GLIBC_TUNABLES", "glibc.cpu.hwcaps=-AVX512F,-AVX2,-AVX,-ERMS,-FSRM");
    command.arg(binary).args(["count", &RUNS.to_string()]);
    let names = output(command)?;
    let mut counts = Vec::new();
    for (number, name) in (1..).zip(names.lines()) {
        let path = directory.join(format!("{OUTPUT}.{number}"));
        let text =
            fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let total = text
            .lines()
            .find_map(totals)
            .ok_or_else(|| format!("{}: no totals", path.display()))?;
        counts.push((name.to_owned(), total as f64 / f64::from(RUNS)));
    }
    if counts.is_empty() { Err("no operation was counted".to_owned()) } else { Ok(counts) }
}

fn totals(line: &str) -> Option<u64> {
    line.strip_prefix("totals:")?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(compiler: &str, count: f64) -> Baseline {
        Baseline {
            surroundings: vec![("compiler".to_owned(), compiler.to_owned())],
            counts: vec![("cache hit".to_owned(), count)],
        }
    }

    #[test]
    fn totals_are_read_from_what_callgrind_writes() {
        assert_eq!(totals("totals: 123456"), Some(123_456));
        assert_eq!(totals("summary: 5"), None);
    }

    #[test]
    fn more_instructions_are_refused_by_the_same_compiler_only() {
        assert!(judge(&counts("1.95", 100.0), &counts("1.95", 102.9)).is_ok());
        let error = judge(&counts("1.95", 100.0), &counts("1.95", 103.1)).unwrap_err();
        assert!(error.contains("cache hit"), "{error}");
        assert!(judge(&counts("1.95", 100.0), &counts("1.96", 200.0)).is_ok());
    }
}
