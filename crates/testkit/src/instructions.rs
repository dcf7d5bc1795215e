//! Counts of instructions: callgrind runs one test of the calling test binary again.

use std::path::PathBuf;
use std::process::Command;
use std::{env, fs};

/// A test whose instructions are counted, and the functions that delimit the counts. Both functions
/// must not be inlined. Their paths are as callgrind shows them.
pub struct CountedTest<'a> {
    /// The path of the test.
    pub test: &'a str,
    /// The function whose instructions are counted.
    pub counted: &'a str,
    /// The function after which counts begin again at zero. It prints a line that begins with
    /// `case `.
    pub case_end: &'a str,
    /// An empty directory for the counts, which is created.
    pub directory: PathBuf,
}

/// Marks the end of a case: prints the line from which [`CountedTest::run`] takes the name of the
/// case. The caller is the function [`CountedTest::case_end`].
pub fn end_case(name: &str) {
    // The output of libtest before this line does not end with a line feed.
    println!("\ncase {name}");
}

impl CountedTest<'_> {
    /// Runs the test. Returns the name of each case, and its number of instructions.
    ///
    /// # Panics
    /// Valgrind is not installed, the test fails, or nothing was counted for a case.
    #[must_use]
    pub fn run(&self) -> Vec<(String, u64)> {
        let _ = fs::remove_dir_all(&self.directory);
        fs::create_dir_all(&self.directory).expect("the directory can be created");
        let mut command = Command::new("valgrind");
        command.args(["--quiet", "--tool=callgrind", "--collect-atstart=no"]);
        command.arg(format!("--toggle-collect={}", self.counted));
        command.arg(format!("--dump-after={}", self.case_end));
        command.arg(format!("--callgrind-out-file={}", self.directory.join("counts").display()));
        command.arg(env::current_exe().expect("the path of the test binary"));
        command.args(["--exact", self.test, "--nocapture", "--test-threads=1"]);
        let output = command.output().expect("valgrind is installed");
        let text = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{text}{errors}");
        let names = text.lines().filter_map(|line| line.strip_prefix("case "));
        (1..).zip(names).map(|(number, name)| (name.to_owned(), self.count(number))).collect()
    }

    fn count(&self, number: usize) -> u64 {
        let path = self.directory.join(format!("counts.{number}"));
        let counts = fs::read_to_string(&path).expect("callgrind writes a file for each case");
        let total = counts.lines().find_map(|line| line.strip_prefix("totals:"));
        let count = total.and_then(|total| total.trim().split(' ').next()?.parse().ok());
        count.filter(|count| *count > 0).expect("instructions were counted")
    }
}
