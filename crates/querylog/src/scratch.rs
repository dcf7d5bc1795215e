//! Tools that several tests share: a directory for each test, and texts for numbers.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::entry::{Label, Labels};

/// A directory that is deleted at the end of a test.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn create() -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("avocet-querylog-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).expect("the temporary directory is writable");
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Labels with texts that show the kind, the revision and the number.
pub(crate) struct Numbered;

impl Labels for Numbered {
    fn texts(&self, revision: u32, label: Label, number: u16, found: &mut dyn FnMut(&str)) {
        let count = if label == Label::Groups { number } else { 1 };
        (0..count).for_each(|n| found(&format!("{label:?}-{revision}-{number}-{n}")));
    }
}
