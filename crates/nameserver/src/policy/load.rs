//! Lists in memory: all compiled lists in one block of octets (the image), with a record of their
//! sources.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Deref;

use avocet_config::policy::{ListConfig, ListKind, ListSource, PolicyConfig};
use avocet_config::recurse::Mode;
use avocet_io::file::open_regular;
use avocet_policy::list::{
    Compiler, Format, Image, ImageError, Kind, ListId, Origin, Progress, Report, Rewrites, Source,
};
use avocet_policy::rpz::{TriggerKind, Zone, Zones};
use serde::{Deserialize, Serialize};

use super::list_clients;
use crate::StateError;
use crate::disk::PIECE;

/// All lists of a configuration, compiled. The identifiers of lists in the image are indexes into
/// [`Making::lists`]. A later configuration is mapped to these identifiers by the names of the
/// lists.
pub struct Lists {
    image: Image<Vec<u8>>,
    making: Making,
    zones: Zones,
    /// The identifiers of the lists that are policy zones.
    zone_lists: Vec<ListId>,
}

/// Policy zones with the identifiers of their lists.
pub type NumberedZones = Vec<(ListId, Zone)>;

/// The lists from which an image was compiled, with the time of the compilation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Making {
    /// Wall time of the compilation, in seconds.
    pub at_secs: u64,
    /// Duration of the compilation, in milliseconds.
    pub millis: u64,
    /// The lists in the order of their identifiers.
    pub lists: Vec<Compiled>,
}

/// The result of compiling one list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Compiled {
    /// The name.
    pub name: String,
    /// The settings that affect how the list's text is read.
    pub reading: String,
    /// The source of the list's text; empty if an earlier release of Avocet made the image.
    #[serde(default)]
    pub source: String,
    /// The version of the text; `None` if there was no text.
    pub stamp: Option<String>,
    /// The format, configured or detected.
    pub format: String,
    /// Number of lines.
    pub lines: u32,
    /// Number of entries.
    pub entries: u64,
    /// Number of lines without an entry, such as comments.
    pub skipped: u64,
    /// Number of broken lines.
    pub faults: u64,
    /// Number of broken lines that exceeded a limit shared by all lists.
    #[serde(default)]
    pub beyond_limits: u64,
    /// Number of triggers of each kind; `None` unless the list is a policy zone.
    #[serde(default)]
    pub triggers: Option<[u64; 5]>,
}

impl Lists {
    /// Opens an image.
    ///
    /// # Errors
    /// The octets are not an image, or are damaged.
    pub fn open(octets: Vec<u8>, zones: NumberedZones, making: Making) -> Result<Self, ImageError> {
        let image = Image::open(octets)?;
        let (zone_lists, zones) = zones.into_iter().unzip();
        // The compiler of lists enforces the limit on the number of zones.
        let zones = Zones::of(zones).unwrap_or_default();
        Ok(Self { image, making, zones, zone_lists })
    }

    /// Returns the policy zones, in the order of the configuration.
    pub fn zones(&self) -> &Zones {
        &self.zones
    }

    /// Returns the list of the policy zone with this index.
    pub fn list_of_zone(&self, zone: usize) -> Option<ListId> {
        self.zone_lists.get(zone).copied()
    }

    /// Returns the origin of the image.
    pub fn making(&self) -> &Making {
        &self.making
    }

    /// Returns whether the image was made from these lists, in this order, with the same settings.
    pub fn belong_to(&self, config: &PolicyConfig) -> bool {
        self.making.is_for(config)
    }

    /// Returns the number of properties of clients that these lists test. Each may double the
    /// number of profiles of clients.
    pub fn client_tests(&self, config: &PolicyConfig) -> usize {
        let of_zones: usize = self.zones.all().map(|zone| zone.client_networks().count()).sum();
        list_clients::tests(config, self).len() + of_zones
    }

    /// Returns the names of the lists in the order of their identifiers.
    pub fn list_names(&self) -> impl Iterator<Item = &str> {
        self.making.lists.iter().map(|list| list.name.as_str())
    }
}

/// Returns the number of triggers of a policy zone that cannot match. In forwarding mode, these are
/// triggers on name servers, which the server does not know. `counts` are in the order of
/// [`TriggerKind::ALL`].
pub fn idle_triggers(counts: [u64; TriggerKind::ALL.len()], mode: Mode) -> u64 {
    let is_of_servers = |(kind, _): &(&TriggerKind, u64)| {
        matches!(kind, TriggerKind::NsName | TriggerKind::NsAddress)
    };
    let of_servers = TriggerKind::ALL.iter().zip(counts).filter(is_of_servers);
    match mode {
        Mode::Forward => of_servers.map(|(_, count)| count).sum(),
        Mode::Recurse => 0,
    }
}

impl Deref for Lists {
    type Target = Image<Vec<u8>>;

    fn deref(&self) -> &Self::Target {
        &self.image
    }
}

impl Making {
    /// Returns whether the image was made from these lists, in this order, with the same settings.
    pub fn is_for(&self, config: &PolicyConfig) -> bool {
        let made = self.lists.iter().map(|list| (list.name.as_str(), list.reading.clone()));
        made.eq(config.lists.iter().map(|list| (list.name.as_str(), reading(list))))
    }
}

/// The word for block lists in [`Compiled::reading`].
const BLOCK: &str = "block";

/// Returns the settings of a list that affect how its text is read.
fn reading(list: &ListConfig) -> String {
    let kind = match list.kind {
        ListKind::Block => BLOCK,
        ListKind::Allow => "allow",
    };
    format!("{kind} {} {}", list.format.0, if list.rewrites { "rewrites" } else { "plain" })
}

/// Returns the source of a list as a text.
fn source(list: &ListConfig) -> String {
    format!("{:?}", list.source)
}

impl Compiled {
    /// Returns whether a list of the configuration has the same source and settings, even if its
    /// name differs.
    pub fn has_text_of(&self, list: &ListConfig) -> bool {
        self.source == source(list) && self.reading == reading(list)
    }

    /// Returns whether the list blocks names.
    pub fn blocks(&self) -> bool {
        self.reading.split(' ').next() == Some(BLOCK)
    }

    /// Creates the result for a text with this stamp. `report` is `None` if there was no text.
    pub fn of(list: &ListConfig, report: Option<&Report>, stamp: Option<String>) -> Self {
        Self {
            name: list.name.clone(),
            reading: reading(list),
            source: source(list),
            stamp,
            format: report.map_or(list.format.0, |report| report.format.name()).to_owned(),
            lines: report.map_or(0, |report| report.lines),
            entries: report.map_or(0, |report| report.entries),
            skipped: report.map_or(0, |report| report.skipped),
            faults: report.map_or(0, |report| report.faults),
            beyond_limits: report.map_or(0, |report| report.beyond_limits),
            triggers: report.and_then(|report| report.triggers),
        }
    }
}

/// The compilation of all lists.
pub struct Compilation {
    /// The image, which has all compiled lists.
    pub octets: Vec<u8>,
    /// The policy zones, which are not part of the image.
    pub zones: NumberedZones,
    /// The report on each list.
    pub reports: Vec<io::Result<Option<Report>>>,
}

/// Compiles the texts of all lists. `open` returns the text of a list; `None` if there is none yet.
/// Local files are read first, so that fetched lists cannot use up the limits shared by all lists.
pub fn compile<R: Read>(
    config: &PolicyConfig,
    secret: [u8; 32],
    mut open: impl FnMut(&ListConfig) -> io::Result<Option<R>>,
) -> Compilation {
    let mut compiler = Compiler::new(secret);
    let mut reports: Vec<io::Result<Option<Report>>> =
        config.lists.iter().map(|_| Ok(None)).collect();
    let by_origin = |wanted: Origin| {
        config.lists.iter().enumerate().filter(move |(_, list)| origin(list) == wanted)
    };
    for (place, list) in by_origin(Origin::Own).chain(by_origin(Origin::Fetched)) {
        reports[place] = match open(list) {
            Ok(Some(text)) => read(&mut compiler, (place, list), text).map(Some),
            Ok(None) => Ok(None),
            Err(error) => Err(error),
        };
    }
    let zones = compiler.take_zones();
    Compilation { octets: compiler.finish().0, zones, reports }
}

fn origin(list: &ListConfig) -> Origin {
    match list.source {
        ListSource::File(_) => Origin::Own,
        ListSource::Url(_) | ListSource::Zone(_) => Origin::Fetched,
    }
}

/// Reads only the policy zones, for an existing image of these lists.
///
/// # Errors
/// The text of a zone cannot be read.
pub fn read_zones<R: Read>(
    (config, making): (&PolicyConfig, &Making),
    secret: [u8; 32],
    mut open: impl FnMut(&ListConfig) -> io::Result<R>,
) -> io::Result<NumberedZones> {
    let mut compiler = Compiler::new(secret);
    for (place, list) in config.lists.iter().enumerate() {
        if making.lists.get(place).is_some_and(|made| made.triggers.is_some()) {
            let _ = read(&mut compiler, (place, list), open(list)?)?;
        }
    }
    Ok(compiler.take_zones())
}

/// Reads the text of one list and reports its entries, without other lists.
pub fn examine(list: &ListConfig, text: impl Read) -> io::Result<Report> {
    read(&mut Compiler::new([0; 32]), (0, list), text)
}

fn read(
    compiler: &mut Compiler,
    (place, list): (usize, &ListConfig),
    mut text: impl Read,
) -> io::Result<Report> {
    let number = ListId::at(place).ok_or_else(|| io::Error::other("there are too many lists"))?;
    let mut reader = compiler.list(Source {
        list: number,
        kind: match list.kind {
            ListKind::Block => Kind::Block,
            ListKind::Allow => Kind::Allow,
        },
        format: Format::from_name(list.format.0),
        rewrites: if list.rewrites { Rewrites::Permitted } else { Rewrites::Refused },
        origin: origin(list),
    });
    let mut chunk = vec![0; PIECE];
    loop {
        let len = text.read(&mut chunk)?;
        if len == 0 || reader.feed(&chunk[..len]) == Progress::Enough {
            return Ok(reader.finish());
        }
    }
}

/// Opens the file of a list; returns `None` if the list is not a local file.
pub fn open_file(list: &ListConfig) -> io::Result<Option<File>> {
    match &list.source {
        ListSource::File(path) => open_regular(path).map(Some),
        ListSource::Url(_) | ListSource::Zone(_) => Ok(None),
    }
}

/// Compiles the lists that are local files, for a server without a data directory.
pub fn from_files(config: &PolicyConfig, secret: [u8; 32]) -> Result<Option<Lists>, StateError> {
    from_texts(config, secret, open_file)
}

/// Compiles all lists from the texts that `open` returns; returns `None` if no list is configured.
pub fn from_texts<R: Read>(
    config: &PolicyConfig,
    secret: [u8; 32],
    open: impl FnMut(&ListConfig) -> io::Result<Option<R>>,
) -> Result<Option<Lists>, StateError> {
    if config.lists.is_empty() {
        return Ok(None);
    }
    let Compilation { octets, zones, reports } = compile(config, secret, open);
    let mut lists = Vec::new();
    for (list, report) in config.lists.iter().zip(reports) {
        let report =
            report.map_err(|source| StateError::List { name: list.name.clone(), source })?;
        lists.push(Compiled::of(list, report.as_ref(), None));
    }
    let making = Making { at_secs: 0, millis: 0, lists };
    Ok(Some(Lists::open(octets, zones, making)?))
}
