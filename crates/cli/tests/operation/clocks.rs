//! The clocks of a server under test: hours pass at once.

use std::cell::Cell;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

use crate::server::{Server, Site, is_here};
use crate::upstream::Upstream;

/// Number of clocks that tests of this process have made.
static MADE: AtomicU32 = AtomicU32::new(0);

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
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("clocks-{}-{number}", std::process::id());
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
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
        self.shift([self.secs.get(); 2]);
    }

    /// Sets the wall clock forward. No time passes.
    pub(crate) fn set_wall(&self, secs: i64) {
        self.shift([self.secs.get() + secs, self.secs.get()]);
    }

    fn shift(&self, secs: [i64; 2]) {
        let nanos = secs.map(|secs| (secs * 1_000_000_000).to_ne_bytes());
        let file = fs::File::options().write(true).open(self.directory.join("shift")).unwrap();
        file.write_all_at(&nanos.concat(), 0).unwrap();
    }
}

impl Drop for ShiftedClock {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

#[test]
fn the_time_since_the_start_does_not_follow_the_wall_clock() {
    const STEP_SECS: i64 = 50 * 365 * 86_400;
    let Some(clock) = ShiftedClock::new() else { return };
    let (site, upstream) = (Site::new(), Upstream::start());
    site.configure(upstream.addr, "", "");
    let mut command = site.serve();
    clock.set_for(&mut command);
    let server = Server::start(command);
    clock.set_wall(STEP_SECS);
    for arguments in [&["status", "--json"][..], &["status", "--load", "--json"]] {
        let status: Value = serde_json::from_str(&site.avocet_text(arguments)).unwrap();
        let uptime_secs = status["uptime-secs"].as_i64().unwrap();
        assert!((0..STEP_SECS).contains(&uptime_secs), "{status}");
    }
    server.stop();
}
