//! The texts of the lists and their compiled form (the image): read from their sources, stored on
//! disk, compiled.
//!
//! If the disk is full or cannot be written, the lists are still compiled and used, and a log line
//! reports the problem.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use avocet_config::name::shown;
use avocet_config::policy::{ListConfig, ListSource, PolicyConfig};
use avocet_config::primary::Primary;
use avocet_nameserver::clock::wall_secs;
use avocet_nameserver::disk;
use avocet_nameserver::file_watch::FileFingerprint;
use avocet_nameserver::policy::Lists;
use avocet_nameserver::policy::load::{self, Compilation, Compiled, Making, NumberedZones};
use avocet_policy::list::{ImageError, Report};
use avocet_resolver::Timers;

use super::copies::{Copies, Copy, CopyError, Head, Kept};
use super::fetch::{Fetched, MAX_LIST_BYTES};
use super::image_file::{ImageFile, Unusable};
use super::source::{Failure, SourceState, judge};
use super::zone::FetchedZone;

const DIRECTORY: &str = "lists";
const STATES: &str = "state.json";
/// Maximum number of octets of the file of states.
const MAX_STATES: u64 = 4 << 20;

/// The treatment of a text that has lost most of its entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taking {
    /// A text that lost most of its entries is held back.
    Judged,
    /// The text is accepted unconditionally.
    Forced,
}

/// The result of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextChange {
    /// A different text.
    Changed,
    /// There is no text, or it did not change.
    Same,
}

/// The result of an attempt to get a text from other servers.
pub(crate) struct TakenText {
    pub(crate) change: TextChange,
    /// The timers of the SOA record of a zone.
    pub(crate) timers: Option<Timers>,
}

/// A text that was fetched from other servers, and the properties of the copy before it.
pub(crate) struct Pulled {
    pub(crate) known: Option<Head>,
    pub(crate) taking: Taking,
    pub(crate) text: PulledText,
}

/// The text of a source.
pub(crate) enum PulledText {
    /// The result for a URL.
    Url(Fetched),
    /// The result for a zone.
    Zone(FetchedZone),
}

impl PulledText {
    /// Returns the text, unless it is the known one.
    pub(crate) fn new_text(&self) -> Option<&[u8]> {
        match self {
            Self::Url(Fetched::Text { text, .. }) | Self::Zone(FetchedZone::Text(text, _)) => {
                Some(text)
            }
            Self::Url(Fetched::Unchanged) | Self::Zone(FetchedZone::Same(_)) => None,
        }
    }
}

/// Time between two attempts to write a copy that could not be written.
const SAVE_AGAIN_AFTER: Duration = Duration::from_secs(60);

/// The directory `lists` in the data directory.
pub(crate) struct Store {
    directory: PathBuf,
    copies: Copies,
    image: ImageFile,
    /// Lists in force whose copy could not be written: their names, with the reason.
    unsaved: HashMap<String, String>,
    /// The time from which these copies are written again.
    save_again_at: Option<Instant>,
}

/// Returns the name of a list's source.
pub(crate) fn source_text(list: &ListConfig) -> String {
    match &list.source {
        ListSource::Url(url) => url.clone(),
        ListSource::File(path) => path.display().to_string(),
        ListSource::Zone(transferred) => {
            let servers: Vec<_> =
                transferred.primaries.servers.iter().map(Primary::shown).collect();
            format!("{} from {}", shown(&transferred.zone), servers.join(", "))
        }
    }
}

impl Store {
    /// Returns the store of a data directory.
    pub(crate) fn new(data: &Path) -> Self {
        let directory = data.join(DIRECTORY);
        Self {
            copies: Copies::new(&directory),
            image: ImageFile::new(&directory),
            directory,
            unsaved: HashMap::new(),
            save_again_at: None,
        }
    }

    /// Loads the lists at a start: the image if it was made for this configuration, otherwise the
    /// compiled copies. Returns `None` if there are no lists.
    pub(crate) fn load(&mut self, config: &PolicyConfig, secret: [u8; 32]) -> Option<Lists> {
        if config.lists.is_empty() {
            return None;
        }
        self.copies.adopt(&config.lists);
        // An image is not used if the files that it was made from have changed.
        for (list, path) in files(config) {
            if self.is_other_than_copy(list, path) {
                self.take_at_start(list, path);
            }
        }
        match self.load_image(config, secret) {
            Ok(Some(lists)) => {
                tracing::info!(names = lists.names(), image = %digest(&lists), "loaded the image \
                                                                                of the lists");
                return Some(lists);
            }
            Ok(None) => {}
            Err(why) => {
                tracing::warn!("{}: {why}; compiling the lists again", self.image.path().display())
            }
        }
        for (list, path) in files(config) {
            self.take_at_start(list, path);
        }
        self.compile(config, secret)
            .inspect_err(|error| tracing::error!("the lists cannot be compiled: {error}"))
            .ok()
    }

    fn take_at_start(&mut self, list: &ListConfig, path: &Path) {
        // The thread that maintains the lists tries again and reports the error. The start leaves
        // out lists that do not fit.
        let _ = self.take_file(list, path, Taking::Judged, |_, _| Ok(()));
    }

    /// Returns whether the file differs from its copy. An unreadable file counts as unchanged if
    /// the copy was made from it. Removes a copy that was made from another file.
    fn is_other_than_copy(&mut self, list: &ListConfig, path: &Path) -> bool {
        let Some(head) = self.copies.head(list) else { return true };
        if head.source != source_text(list) {
            self.copies.remove(list);
            return true;
        }
        let now = FileFingerprint::of(path).map(|fingerprint| format!("{fingerprint:?}"));
        now.is_some() && now != head.fingerprint
    }

    /// Returns whether an image was made from the current copies. A list of another server may lack
    /// its copy.
    fn is_of_copies(&self, config: &PolicyConfig, making: &Making) -> bool {
        config.lists.iter().zip(&making.lists).all(|(list, made)| {
            let stamp = self.copies.head(list).map(|head| head.stamp());
            let may_lack = list.source.is_fetched() && stamp.is_none();
            may_lack || stamp == made.stamp
        })
    }

    /// Loads the image if it was made for this configuration and from these texts. Reads policy
    /// zones from their copies.
    fn load_image(
        &self,
        config: &PolicyConfig,
        secret: [u8; 32],
    ) -> Result<Option<Lists>, Unusable> {
        let Some((octets, making)) = self.image.load()? else {
            return Ok(None);
        };
        if !making.is_for(config) || !self.is_of_copies(config, &making) {
            tracing::info!(
                "{} was compiled from other lists; compiling the lists again",
                self.image.path().display()
            );
            return Ok(None);
        }
        let open = |list: &ListConfig| {
            let copy =
                self.copies.open(list).map_err(|error| io::Error::other(error.to_string()))?;
            let made = making
                .lists
                .iter()
                .find(|made| made.name == list.name)
                .and_then(|made| made.stamp.as_ref());
            let copy = copy.filter(|copy| Some(&copy.head.stamp()) == made);
            copy.map(Cursor::<Copy>::new)
                .ok_or_else(|| io::Error::other(format!("{:?} has changed", list.name)))
        };
        let zones = load::read_zones((config, &making), secret, open).map_err(Unusable::Io)?;
        Lists::open(octets, zones, making).map(Some).map_err(Unusable::Image)
    }

    /// Compiles all copies, and stores the image.
    ///
    /// # Errors
    ///
    /// The image cannot be opened. The lists in force do not change.
    pub(crate) fn compile(
        &mut self,
        config: &PolicyConfig,
        secret: [u8; 32],
    ) -> Result<Lists, ImageError> {
        self.copies.adopt(&config.lists);
        let (octets, zones, making) = self.compiled(config, secret, |_| true);
        if let Err(error) = self.make_directory().and_then(|()| self.image.save(&octets, &making)) {
            let path = self.image.path().display();
            tracing::warn!(
                "cannot write {path}: {error}; the lists are in force, the next start compiles \
                 them again"
            );
        }
        self.copies.clear(&config.lists);
        let millis = making.millis;
        let lists = Lists::open(octets, zones, making)?;
        tracing::info!(names = lists.names(), millis, image = %digest(&lists), "compiled the \
                                                                                lists");
        Ok(lists)
    }

    /// Compiles some of the copies, without storing the image. The other lists have no effect.
    ///
    /// # Errors
    ///
    /// The image cannot be opened.
    pub(crate) fn compile_some(
        &self,
        config: &PolicyConfig,
        secret: [u8; 32],
        is_wanted: impl Fn(&str) -> bool,
    ) -> Result<Lists, ImageError> {
        let (octets, zones, making) = self.compiled(config, secret, is_wanted);
        Lists::open(octets, zones, making)
    }

    fn compiled(
        &self,
        config: &PolicyConfig,
        secret: [u8; 32],
        is_wanted: impl Fn(&str) -> bool,
    ) -> (Vec<u8>, NumberedZones, Making) {
        let began = Instant::now();
        let mut stamps = HashMap::with_capacity(config.lists.len());
        let Compilation { octets, zones, reports } = load::compile(config, secret, |list| {
            if !is_wanted(&list.name) {
                return Ok(None);
            }
            let copy = self.copies.open(list).map_err(|error| io::Error::other(error.to_string()));
            let stamp = copy.as_ref().ok().and_then(|copy| Some(copy.as_ref()?.head.stamp()));
            stamps.extend(stamp.map(|stamp| (list.name.clone(), stamp)));
            copy.map(|copy| copy.map(Cursor::<Copy>::new))
        });
        let mut lists = Vec::with_capacity(config.lists.len());
        for (list, report) in config.lists.iter().zip(reports) {
            if is_wanted(&list.name) {
                tell(list, &report);
            }
            lists.push(Compiled::of(
                list,
                report.ok().flatten().as_ref(),
                stamps.remove(&list.name),
            ));
        }
        let making =
            Making { at_secs: wall_secs(), millis: began.elapsed().as_millis() as u64, lists };
        (octets, zones, making)
    }

    /// Returns the copy of a list, if it can be used.
    pub(crate) fn known(&self, list: &ListConfig) -> Option<Copy> {
        self.copies.open(list).ok().flatten()
    }

    /// Checks and stores a text that was fetched from other servers.
    ///
    /// # Errors
    ///
    /// The text is not accepted: the last good copy remains.
    pub(crate) fn take_pulled(
        &mut self,
        list: &ListConfig,
        pulled: Pulled,
    ) -> Result<TakenText, Failure> {
        let Pulled { known, taking, text } = pulled;
        let source = source_text(list);
        let same = |timers| Ok(TakenText { change: TextChange::Same, timers });
        let (text, head, timers) = match text {
            PulledText::Url(Fetched::Unchanged) => return same(None),
            PulledText::Zone(FetchedZone::Same(timers)) => return same(Some(timers)),
            PulledText::Url(Fetched::Text { text, etag, last_modified }) => {
                (text, Head { source, etag, last_modified, ..Head::default() }, None)
            }
            PulledText::Zone(FetchedZone::Text(text, timers)) => {
                (text, Head { source, ..Head::default() }, Some(timers))
            }
        };
        let report = examine(list, &text)?;
        if taking == Taking::Judged {
            let same_source = known.as_ref().filter(|known| known.source == head.source);
            judge(&report, same_source.map(|known| known.entries))?;
        }
        let head = Head { entries: report.entries, ..head };
        let change = self.keep(list, head, text, known.as_ref())?;
        Ok(TakenText { change, timers })
    }

    /// Reads a file, checks its text, also with `fits`, and stores it. An empty file is accepted if
    /// the list never had entries.
    ///
    /// # Errors
    ///
    /// The file cannot be read, is not a list, or lost most of its entries: the last good copy
    /// remains.
    pub(crate) fn take_file(
        &mut self,
        list: &ListConfig,
        path: &Path,
        taking: Taking,
        fits: impl Fn(&Self, &[u8]) -> Result<(), Failure>,
    ) -> Result<TextChange, Failure> {
        let unreadable =
            |why: String| Failure::File(format!("cannot read {}: {why}", path.display()));
        let fingerprint = FileFingerprint::of(path).map(|fingerprint| format!("{fingerprint:?}"));
        let known = self.copies.open(list).ok().flatten().map(|copy| copy.head);
        let source = source_text(list);
        if known
            .as_ref()
            .is_some_and(|head| head.source == source && head.fingerprint == fingerprint)
            && fingerprint.is_some()
        {
            return Ok(TextChange::Same);
        }
        let text =
            disk::read(path, MAX_LIST_BYTES).map_err(|error| unreadable(error.to_string()))?;
        let text = text.ok_or_else(|| unreadable("no such file".to_owned()))?;
        let report = examine(list, &text)?;
        if let Some(refusal) = report.refusal {
            return Err(Failure::HeldBack(refusal.to_string()));
        }
        let same_source = known.as_ref().filter(|head| head.source == source);
        let entries = same_source.map_or(0, |head| head.entries);
        if taking == Taking::Judged && entries > 0 {
            judge(&report, Some(entries))?;
        }
        fits(self, &text)?;
        let head = Head { source, fingerprint, entries: report.entries, ..Head::default() };
        self.keep(list, head, text, known.as_ref())
    }

    fn keep(
        &mut self,
        list: &ListConfig,
        mut head: Head,
        text: Vec<u8>,
        known: Option<&Head>,
    ) -> Result<TextChange, Failure> {
        head.seal(&text);
        head.fetched_at_secs = wall_secs();
        let is_same = known.is_some_and(|known| known.stamp() == head.stamp());
        match self.copies.keep(list, head, text) {
            Ok(Kept::OnDisk) => drop(self.unsaved.remove(&list.name)),
            Ok(Kept::InMemory(error)) => {
                self.unsaved.insert(list.name.clone(), format!("cannot save a copy: {error}"));
                self.save_again_at = Some(Instant::now() + SAVE_AGAIN_AFTER);
                tracing::warn!(
                    list = list.name,
                    "no copy on disk: {error}; the list stays in force until the server ends"
                );
            }
            Err(error) => return Err(Failure::File(format!("cannot rename it: {error}"))),
        }
        Ok(if is_same { TextChange::Same } else { TextChange::Changed })
    }

    /// Tries again to write the copies that could not be written, if the last attempt was a while
    /// ago. Returns whether a copy was written.
    pub(crate) fn save_again(&mut self) -> bool {
        let is_due = self.save_again_at.is_none_or(|at| at <= Instant::now());
        is_due && self.save_now()
    }

    /// Tries again to write the copies that could not be written. Returns whether a copy was
    /// written.
    pub(crate) fn save_now(&mut self) -> bool {
        if self.unsaved.is_empty() {
            return false;
        }
        self.save_again_at = Some(Instant::now() + SAVE_AGAIN_AFTER);
        let written = self.copies.save_again();
        for name in &written {
            tracing::info!(list = name, "the copy is on disk now");
            self.unsaved.remove(name);
        }
        !written.is_empty()
    }

    /// Returns the reason why a list in force has no copy on disk; `None` if it has a copy.
    pub(crate) fn unsaved(&self, name: &str) -> Option<&str> {
        self.unsaved.get(name).map(String::as_str)
    }

    /// Returns the properties of the copy of a list.
    pub(crate) fn head(&self, list: &ListConfig) -> Option<Head> {
        self.copies.head(list)
    }

    /// Returns the stored states of the sources; empty if there are none.
    pub(crate) fn load_states(&self) -> BTreeMap<String, SourceState> {
        let octets =
            disk::read(&self.directory.join(STATES), MAX_STATES).ok().flatten().unwrap_or_default();
        serde_json::from_slice(&octets).unwrap_or_default()
    }

    /// Stores the states of the sources. Leaves out lists with a copy that could not be written:
    /// the next start has no copy of their present text, so it must fetch it again.
    ///
    /// # Errors
    ///
    /// The disk cannot be written.
    pub(crate) fn save_states(&self, states: &BTreeMap<String, SourceState>) -> io::Result<()> {
        self.make_directory()?;
        let is_saved = |(name, _): &(&String, _)| !self.unsaved.contains_key(*name);
        let states: BTreeMap<_, _> = states.iter().filter(is_saved).collect();
        disk::replace(&self.directory.join(STATES), &[&serde_json::to_vec(&states)?])
    }

    fn make_directory(&self) -> io::Result<()> {
        fs::create_dir_all(&self.directory)
    }
}

/// Returns the lists that are files.
fn files(config: &PolicyConfig) -> impl Iterator<Item = (&ListConfig, &Path)> {
    config.lists.iter().filter_map(|list| match &list.source {
        ListSource::File(path) => Some((list, path.as_path())),
        ListSource::Url(_) | ListSource::Zone(_) => None,
    })
}

/// Reports the broken lines of a list's copy; `None` if there is no copy.
///
/// # Errors
///
/// The copy cannot be read.
pub(crate) fn check(data: &Path, list: &ListConfig) -> Result<Option<Report>, CopyError> {
    let Some(copy) = Copies::new(&data.join(DIRECTORY)).open(list)? else {
        return Ok(None);
    };
    load::examine(list, copy.text()).map(Some).map_err(CopyError::Io)
}

/// Opens the text of a list for a command outside the server. This is the current file, or the last
/// good copy of a fetched list. Returns `None` if there is no copy from the same source.
///
/// # Errors
///
/// The text cannot be read.
pub fn open_text(data: &Path, list: &ListConfig) -> io::Result<Option<Box<dyn Read>>> {
    if let ListSource::File(_) = list.source {
        return Ok(load::open_file(list)?.map(|file| Box::new(file) as Box<dyn Read>));
    }
    let copy = Copies::new(&data.join(DIRECTORY)).open(list).map_err(|error| match error {
        CopyError::Io(error) => error,
        damaged => io::Error::other(damaged.to_string()),
    })?;
    let copy = copy.filter(|copy| copy.head.source == source_text(list));
    Ok(copy.map(|copy| Box::new(Cursor::<Copy>::new(copy)) as Box<dyn Read>))
}

/// Returns the hash of an image, for display.
pub(crate) fn digest(lists: &Lists) -> String {
    format!("{:032x}", lists.digest())
}

fn examine(list: &ListConfig, text: &[u8]) -> Result<Report, Failure> {
    load::examine(list, text).map_err(|error| Failure::File(error.to_string()))
}

fn tell(list: &ListConfig, report: &io::Result<Option<Report>>) {
    let name = &list.name;
    match report {
        Ok(Some(report)) if report.faults > 0 => tracing::warn!(
            list = name,
            entries = report.entries,
            faults = report.faults,
            beyond_limits = report.beyond_limits,
            "has broken lines; see `avocet lists check`"
        ),
        Ok(Some(report)) => tracing::info!(list = name, entries = report.entries, "read"),
        Ok(None) if list.source.is_fetched() => {
            tracing::warn!(list = name, "not fetched yet: it has no effect");
        }
        // The thread that reads the file reports its errors.
        Ok(None) => {}
        Err(error) => {
            tracing::error!(list = name, "its copy cannot be used: {error}; fetching it again")
        }
    }
}

#[cfg(test)]
mod tests;
