//! Negative trust anchors that the operator sets at run time (RFC 7646). Each expires, and data
//! that was cached under it expires at the same time.

use std::fmt::Write;
use std::path::Path;

use avocet_control::ControlError;
use avocet_dnssec::negative::{MAX_NEGATIVE_ANCHORS, NegativeAnchor};
use avocet_wire::{FoldedNameBuf, name, text};

use super::state_file::StateFile;

/// Maximum lifetime in seconds: a week (RFC 7646 §2).
pub const MAX_LIFETIME_SECS: u64 = 7 * 86_400;

const FILE: &str = "negative-anchors.state";
const FALLBACK: &str = "using only the negative trust anchors of the configuration";

/// The negative trust anchors in force.
#[derive(Debug)]
pub(crate) struct NegativeList {
    anchors: Vec<NegativeAnchor>,
    file: StateFile,
    /// The reason why the file differs from the anchors in force, if it does.
    unsaved: Option<String>,
}

impl NegativeList {
    /// Loads the anchors from the data directory; some may have expired.
    pub(crate) fn load(directory: &Path) -> Self {
        let file = StateFile::new(directory, FILE);
        let text = file.load(FALLBACK).unwrap_or_default();
        let anchors = read(&text).unwrap_or_else(|| {
            file.put_aside("not \"NAME SECONDS\" in each line", FALLBACK);
            Vec::new()
        });
        Self { anchors, file, unsaved: None }
    }

    /// Returns all anchors in force.
    pub(crate) fn anchors(&self) -> &[NegativeAnchor] {
        &self.anchors
    }

    /// Sets an anchor until a wall time in seconds. An anchor with the same name is replaced.
    ///
    /// # Errors
    ///
    /// There are too many anchors.
    pub(crate) fn add(
        &mut self,
        name: &FoldedNameBuf,
        expires_at_secs: u64,
    ) -> Result<(), ControlError> {
        self.anchors.retain(|anchor| anchor.name != *name);
        if self.anchors.len() >= MAX_NEGATIVE_ANCHORS {
            return Err(ControlError::TooManyNegativeAnchors(MAX_NEGATIVE_ANCHORS));
        }
        self.anchors.push(NegativeAnchor { name: *name, expires_at_secs: Some(expires_at_secs) });
        self.save();
        Ok(())
    }

    /// Removes an anchor; returns whether it existed.
    pub(crate) fn remove(&mut self, name: &FoldedNameBuf) -> bool {
        let before = self.anchors.len();
        self.anchors.retain(|anchor| anchor.name != *name);
        let is_removed = self.anchors.len() < before;
        if is_removed {
            self.save();
        }
        is_removed
    }

    /// Removes the anchors that have expired by this wall time, and returns their names.
    pub(crate) fn expire(&mut self, now_secs: u64) -> Vec<FoldedNameBuf> {
        let has_ended =
            |anchor: &&NegativeAnchor| anchor.expires_at_secs.is_some_and(|end| end <= now_secs);
        let ended: Vec<FoldedNameBuf> =
            self.anchors.iter().filter(has_ended).map(|anchor| anchor.name).collect();
        if !ended.is_empty() {
            self.anchors.retain(|anchor| !ended.contains(&anchor.name));
            self.save();
        }
        ended
    }

    /// Returns the reason why the last change could not be saved, if saving failed. The change is
    /// in force until a restart.
    pub(crate) fn unsaved(&self) -> Option<&str> {
        self.unsaved.as_deref()
    }

    /// Retries a failed save.
    pub(crate) fn save_again(&mut self) {
        if self.unsaved.is_some() {
            self.save();
        }
    }

    fn save(&mut self) {
        let mut text =
            "; Negative trust anchors (RFC 7646): name, end in seconds of 1970.\n".to_owned();
        for NegativeAnchor { name, expires_at_secs } in &self.anchors {
            let _ = writeln!(text, "{name} {}", expires_at_secs.unwrap_or(u64::MAX));
        }
        self.unsaved = self.file.save(&text).err().map(|error| error.to_string());
    }
}

fn read(text: &str) -> Option<Vec<NegativeAnchor>> {
    let lines = text.lines().filter(|line| !line.starts_with(';'));
    let anchors: Vec<_> = lines.map(read_line).collect::<Option<_>>()?;
    (anchors.len() <= MAX_NEGATIVE_ANCHORS).then_some(anchors)
}

fn read_line(line: &str) -> Option<NegativeAnchor> {
    let (owner, end) = line.split_once(' ')?;
    let mut wire = [0; name::MAX_NAME];
    let len = text::name_to_wire(owner.as_bytes(), None, &mut wire).ok()?;
    let name = FoldedNameBuf::from_wire(&wire[..len]).ok()?;
    Some(NegativeAnchor { name, expires_at_secs: Some(end.parse().ok()?) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn name(wire: &[u8]) -> FoldedNameBuf {
        FoldedNameBuf::from_wire(wire).unwrap()
    }

    #[test]
    fn they_outlive_the_process_and_end_in_time() {
        let directory = std::env::temp_dir().join(format!("avocet-nta-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let (a, b) = (name(b"\x01a\x04te\\t\0"), name(b"\x01b\0"));
        let mut list = NegativeList::load(&directory);
        list.add(&a, 100).unwrap();
        list.add(&b, 200).unwrap();
        list.add(&a, 150).unwrap();
        let mut list = NegativeList::load(&directory);
        assert_eq!(list.anchors().len(), 2);
        assert_eq!(list.expire(149), []);
        assert_eq!(list.expire(150), [a]);
        assert!(list.remove(&b) && !list.remove(&b));
        assert_eq!(NegativeList::load(&directory).anchors(), []);
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn what_the_disk_refuses_holds_and_is_saved_later() {
        let directory =
            std::env::temp_dir().join(format!("avocet-nta-full-{}", std::process::id()));
        let in_the_way = directory.join(FILE).with_added_extension("new");
        fs::create_dir_all(&in_the_way).unwrap();
        let a = name(b"\x01a\0");
        let mut list = NegativeList::load(&directory);
        list.add(&a, 100).unwrap();
        assert_eq!(list.anchors().len(), 1);
        assert!(list.unsaved().is_some_and(|why| why.contains(FILE)), "{:?}", list.unsaved());
        fs::remove_dir(&in_the_way).unwrap();
        list.save_again();
        assert_eq!((list.unsaved(), NegativeList::load(&directory).anchors().len()), (None, 1));
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn lines_that_say_something_else_are_refused() {
        for text in ["a.\n", "a. x\n", "a 1\n", "a. 1 2\n"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
