//! The clocks of a server under test, set by the test: an hour passes at once.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use super::{Directory, Setup, peers};

/// The unit of the library.
const NANOS_PER_SEC: i64 = 1_000_000_000;

/// The clocks of one server.
pub(crate) struct Clock {
    library: PathBuf,
    offsets: File,
    path: PathBuf,
    wall_secs: i64,
    monotonic_secs: i64,
    _directory: Directory,
}

impl Clock {
    /// Clocks without an offset; `None` if there is no C compiler to build the library.
    pub(crate) fn create() -> Option<Self> {
        let library = library()?;
        let directory = Directory::create();
        let path = directory.path().join("offsets");
        fs::write(&path, [0; 16]).expect("a file");
        let offsets = File::options().write(true).open(&path).expect("the file");
        Some(Self {
            library,
            offsets,
            path,
            wall_secs: 0,
            monotonic_secs: 0,
            _directory: directory,
        })
    }

    /// Makes the server use these clocks.
    pub(crate) fn of(&self, setup: Setup) -> Setup {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        setup
            .variable("LD_PRELOAD", &text(&self.library))
            .variable("SHIFTCLOCK_FILE", &text(&self.path))
    }

    /// Advances all clocks.
    pub(crate) fn advance(&mut self, secs: i64) {
        self.monotonic_secs += secs;
        self.step_wall(secs);
    }

    /// Sets the wall clock; the monotonic clock does not change.
    pub(crate) fn step_wall(&mut self, secs: i64) {
        self.wall_secs += secs;
        let nanos = |secs: i64| (secs * NANOS_PER_SEC).to_ne_bytes();
        let octets = [nanos(self.wall_secs), nanos(self.monotonic_secs)].concat();
        self.offsets.write_all_at(&octets, 0).expect("a file that can be written");
    }
}

/// Builds the library, once for all tests.
fn library() -> Option<PathBuf> {
    static LIBRARY: OnceLock<Option<PathBuf>> = OnceLock::new();
    let build = || {
        if !peers::is_installed("cc") {
            return None;
        }
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/clock.c");
        let library =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("clock-{}.so", std::process::id()));
        let built = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .arg(&library)
            .arg(source)
            .status();
        assert!(built.is_ok_and(|status| status.success()), "the library cannot be built");
        Some(library)
    };
    LIBRARY.get_or_init(build).clone()
}

/// Real seconds since a moment, rounded up. A TTL may be lower than the virtual clock implies by
/// this number.
pub(crate) fn real_secs(since: Instant) -> u32 {
    (since.elapsed() + Duration::from_secs(1)).as_secs() as u32 + 1
}
