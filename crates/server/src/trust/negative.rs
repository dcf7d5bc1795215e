//! Negative trust anchors that the operator sets at run time (RFC 7646). Each expires, and data
//! that was cached under it expires at the same time. The end is a wall time; if the clock is set
//! back, even while no server runs, it moves to an earlier time, so that no anchor becomes longer.

use std::fmt::Write;
use std::path::Path;

use avocet_control::ControlError;
use avocet_dnssec::negative::{MAX_NEGATIVE_ANCHORS, NegativeAnchor};
use avocet_wire::{FoldedNameBuf, name, text};

use super::state_file::StateFile;

/// Maximum lifetime in seconds: a week (RFC 7646 §2).
pub const MAX_LIFETIME_SECS: u64 = 7 * 86_400;

const FILE: &str = "negative-anchors.state";
/// The start of the line with the wall time at which the file was saved, in seconds.
const SAVED_AT: &str = "; saved at ";
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
    /// Loads the anchors from the data directory at a wall time; some may have expired. If they
    /// were saved later than that, the clock was set back meanwhile, and they end earlier.
    pub(crate) fn load(directory: &Path, now_secs: u64) -> Self {
        let file = StateFile::new(directory, FILE);
        let text = file.load(FALLBACK).unwrap_or_default();
        let anchors = read(&text).unwrap_or_else(|| {
            file.put_aside("not \"NAME SECONDS\" in each line", FALLBACK);
            Vec::new()
        });
        let mut list = Self { anchors, file, unsaved: None };
        list.end_earlier(saved_at_secs(&text).saturating_sub(now_secs), now_secs);
        list
    }

    /// Returns all anchors in force.
    pub(crate) fn anchors(&self) -> &[NegativeAnchor] {
        &self.anchors
    }

    /// Sets an anchor for a number of seconds from a wall time on. An anchor with the same name is
    /// replaced. Returns the wall time at which the anchor ends.
    ///
    /// # Errors
    ///
    /// There are too many anchors.
    pub(crate) fn add(
        &mut self,
        name: &FoldedNameBuf,
        lifetime_secs: u64,
        now_secs: u64,
    ) -> Result<u64, ControlError> {
        self.anchors.retain(|anchor| anchor.name != *name);
        if self.anchors.len() >= MAX_NEGATIVE_ANCHORS {
            return Err(ControlError::TooManyNegativeAnchors(MAX_NEGATIVE_ANCHORS));
        }
        let end = now_secs.saturating_add(lifetime_secs);
        self.anchors.push(NegativeAnchor { name: *name, expires_at_secs: Some(end) });
        self.save(now_secs);
        Ok(end)
    }

    /// Removes an anchor; returns whether it existed.
    pub(crate) fn remove(&mut self, name: &FoldedNameBuf, now_secs: u64) -> bool {
        let before = self.anchors.len();
        self.anchors.retain(|anchor| anchor.name != *name);
        let is_removed = self.anchors.len() < before;
        if is_removed {
            self.save(now_secs);
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
            self.save(now_secs);
        }
        ended
    }

    /// Moves the ends of the anchors to an earlier wall time, by the number of seconds by which the
    /// clock was set back to `now_secs`. Returns whether an end was moved.
    pub(crate) fn end_earlier(&mut self, back_secs: u64, now_secs: u64) -> bool {
        if back_secs == 0 || self.anchors.is_empty() {
            return false;
        }
        let ends = self.anchors.iter_mut().filter_map(|anchor| anchor.expires_at_secs.as_mut());
        ends.for_each(|end| *end = end.saturating_sub(back_secs));
        self.save(now_secs);
        true
    }

    /// Returns the reason why the last change could not be saved, if saving failed. The change is
    /// in force until a restart.
    pub(crate) fn unsaved(&self) -> Option<&str> {
        self.unsaved.as_deref()
    }

    /// Retries a failed save.
    pub(crate) fn save_again(&mut self, now_secs: u64) {
        if self.unsaved.is_some() {
            self.save(now_secs);
        }
    }

    fn save(&mut self, now_secs: u64) {
        let mut text =
            "; Negative trust anchors (RFC 7646): name, end in seconds of 1970.\n".to_owned();
        let _ = writeln!(text, "{SAVED_AT}{now_secs}");
        for NegativeAnchor { name, expires_at_secs } in &self.anchors {
            let _ = writeln!(text, "{name} {}", expires_at_secs.unwrap_or(u64::MAX));
        }
        self.unsaved = self.file.save(&text).err().map(|error| error.to_string());
    }
}

/// Returns the wall time at which a text was saved; 0 if it does not say so.
fn saved_at_secs(text: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(SAVED_AT));
    line.and_then(|secs| secs.parse().ok()).unwrap_or_default()
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
        let mut list = NegativeList::load(&directory, 10);
        list.add(&a, 90, 10).unwrap();
        list.add(&b, 190, 10).unwrap();
        assert_eq!(list.add(&a, 140, 10).unwrap(), 150);
        let mut list = NegativeList::load(&directory, 10);
        assert_eq!(list.anchors().len(), 2);
        assert_eq!(list.expire(149), []);
        assert_eq!(list.expire(150), [a]);
        assert!(list.remove(&b, 150) && !list.remove(&b, 150));
        assert_eq!(NegativeList::load(&directory, 150).anchors(), []);
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn they_are_no_longer_if_the_clock_is_set_back() {
        let directory =
            std::env::temp_dir().join(format!("avocet-nta-clock-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let a = name(b"\x01a\0");
        let end = |list: &NegativeList| list.anchors()[0].expires_at_secs.unwrap();
        let mut list = NegativeList::load(&directory, 900_000);
        assert!(!list.end_earlier(7, 900_000), "there is none");
        list.add(&a, 600, 900_000).unwrap();
        // After one minute, the clock is set back by 400,000 seconds.
        assert!(list.end_earlier(400_000, 500_060));
        assert_eq!(end(&list), 500_600);
        // The server ends, and starts again with a clock that was set back further.
        let list = NegativeList::load(&directory, 1_000);
        assert_eq!(end(&list), 1_540);
        // Each start shortens them once, and time passes between two starts.
        assert_eq!(end(&NegativeList::load(&directory, 1_000)), 1_540);
        assert_eq!(NegativeList::load(&directory, 1_540).expire(1_540), [a]);
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn what_the_disk_refuses_holds_and_is_saved_later() {
        let directory =
            std::env::temp_dir().join(format!("avocet-nta-full-{}", std::process::id()));
        let in_the_way = directory.join(FILE).with_added_extension("new");
        fs::create_dir_all(&in_the_way).unwrap();
        let a = name(b"\x01a\0");
        let mut list = NegativeList::load(&directory, 10);
        list.add(&a, 90, 10).unwrap();
        assert_eq!(list.anchors().len(), 1);
        assert!(list.unsaved().is_some_and(|why| why.contains(FILE)), "{:?}", list.unsaved());
        fs::remove_dir(&in_the_way).unwrap();
        list.save_again(10);
        assert_eq!((list.unsaved(), NegativeList::load(&directory, 10).anchors().len()), (None, 1));
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn lines_that_say_something_else_are_refused() {
        for text in ["a.\n", "a. x\n", "a 1\n", "a. 1 2\n"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
