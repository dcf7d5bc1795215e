//! The clocks of a server under test: hours pass at once.

use std::cell::Cell;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::server::is_here;

/// The wall clock of one server, and its time since boot.
pub(crate) struct ShiftedClock {
    /// Both files are in it: `tests/clock.c` as a library, and the shift.
    directory: PathBuf,
    secs: Cell<i64>,
}

impl ShiftedClock {
    /// Makes clocks without a shift; `None` if there is no C compiler.
    pub(crate) fn new() -> Option<Self> {
        if !is_here("cc") {
            return None;
        }
        let directory =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("clocks-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/clock.c");
        let mut compile = Command::new("cc");
        // Threads of the server wait by the monotonic clock of the kernel.
        compile.args(["-shared", "-fPIC", "-O1", "-DWAITS_BY_MONOTONIC_TIME", "-o"]);
        compile.arg(directory.join("clock.so"));
        assert!(compile.arg(source).status().unwrap().success());
        fs::write(directory.join("shift"), [0; 16]).unwrap();
        Some(Self { directory, secs: Cell::new(0) })
    }

    /// Makes a command use these clocks.
    pub(crate) fn set_for(&self, command: &mut Command) {
        command.env("LD_PRELOAD", self.directory.join("clock.so"));
        command.env("SHIFTCLOCK_FILE", self.directory.join("shift"));
    }

    /// Lets time pass on both clocks.
    pub(crate) fn advance(&self, secs: i64) {
        self.secs.set(self.secs.get() + secs);
        let nanos = (self.secs.get() * 1_000_000_000).to_ne_bytes();
        let file = fs::File::options().write(true).open(self.directory.join("shift")).unwrap();
        file.write_all_at(&[nanos, nanos].concat(), 0).unwrap();
    }
}

impl Drop for ShiftedClock {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}
