//! Requests and replies about hosted zones.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::ErrorCode;
use crate::part::Part;
use crate::words::words;

/// Maximum number of records of a page. A page ends with a whole RRset, so it may have more
/// records.
pub const MAX_ZONE_PAGE: u32 = 1000;
/// Maximum number of records of one change.
pub const MAX_EDITED_RECORDS: usize = 4096;

/// A request for the state of the hosted zones.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ZonesStatus {
    /// The zone; all zones without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// An item of the zone's view, if only some clients see the zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub view: Option<String>,
}

/// A request for a page of the records of a zone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ZoneRecords {
    /// The zone.
    pub name: String,
    /// An item of the zone's view, if only some clients see the zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub view: Option<String>,
    /// A name, which may be relative to the zone. With it, the page has only the records of this
    /// name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// A type. With it, the page has only the records of this type.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub rtype: Option<String>,
    /// A text. With it, the page has only records of names that contain this text. A page may then
    /// have no records although there is a next page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contains: Option<String>,
    /// Whether to read the records that can be changed, without those that this server adds by
    /// signing. They include a version that is held back.
    #[serde(default)]
    pub unsigned: bool,
    /// The `next` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Maximum number of records, 1 to 1000; 100 without it. The page ends with a whole RRset, so
    /// it may have more records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// A request to read the file of a zone at once, even if it has not changed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ZoneReload {
    /// The zone; all zones without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// An item of the zone's view, if only some clients see the zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub view: Option<String>,
}

/// A request for a zone as a master file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ZoneExport {
    /// The zone.
    pub name: String,
    /// An item of the zone's view, if only some clients see the zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub view: Option<String>,
}

/// The state of hosted zones.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ZonesReport {
    /// The zones, by name.
    pub zones: Vec<ZoneStatus>,
}

/// A hosted zone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct ZoneStatus {
    /// The name of the hosted zone.
    pub name: String,
    /// The clients that see the zone: groups, networks and listeners. Empty for all clients that
    /// see no other zone with this name.
    pub view: Vec<String>,
    /// The file of the hosted zone.
    pub file: String,
    /// The state of the zone: whether it is served.
    pub state: ZoneState,
    /// The serial in force.
    pub serial: Option<u32>,
    /// The number of its records.
    pub records: u32,
    /// The number of its names, including empty non-terminals.
    pub names: u32,
    /// Number of octets in memory.
    pub octets: usize,
    /// Whether the zone has signatures.
    pub signed: bool,
    /// The Unix second at which the version in force was read.
    pub loaded_at: Option<u64>,
    /// The number of times since the start that the server read the file and found errors.
    pub failures: u64,
    /// The first error of the last reading.
    pub error: Option<String>,
    /// The format of its file: "file" for a master file, or that of its provider.
    pub provider: String,
    /// The relation to catalogs (RFC 9432) of the hosted zone, if it has one.
    pub catalog: Option<ZoneCatalog>,
    /// The servers that it is transferred from; empty if this server is the primary.
    pub primaries: Vec<String>,
    /// The URL from which its records are fetched, with the provider "http" or "postgres".
    pub url: Option<String>,
    /// The transfers of the hosted zone, if it has primaries, or the requests to its URL.
    pub transfers: Option<ZoneTransfers>,
    /// With the provider "postgres": whether notifications of its database arrive.
    pub notifications: Option<ZoneNotifications>,
    /// The earliest serial from which other servers can get the changes alone (IXFR).
    pub changes_since: Option<u32>,
    /// The servers that get NOTIFY.
    pub notify: Vec<ZoneNotify>,
}

/// The connection over which a database announces changes of a zone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct ZoneNotifications {
    /// Whether notifications arrive.
    pub listening: bool,
    /// The reason why notifications do not arrive; none while the first connection is being made.
    pub error: Option<String>,
}

/// The relation of a zone to catalogs (RFC 9432).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct ZoneCatalog {
    /// The role of the zone in catalogs.
    pub role: CatalogPart,
    /// The catalog that lists the zone, if the zone is not a catalog itself.
    pub name: Option<String>,
    /// The groups of the zone in the catalog.
    pub groups: Vec<String>,
    /// The number of its members, if it is a catalog.
    pub members: Option<u64>,
    /// The reason why the version in force is not used as a catalog. The members remain those of
    /// the version before.
    pub error: Option<String>,
    /// Members that are not served, each with the reason; at most 16.
    pub refused: Vec<String>,
    /// The move of the zone from one catalog of this server to another, while it is in progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moving: Option<CatalogMove>,
}

/// A move of a zone from one catalog of this server to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct CatalogMove {
    /// The catalog that the zone leaves.
    pub from: String,
    /// The catalog to which the zone moves.
    pub to: String,
    /// The step of the move.
    pub step: CatalogMoveStep,
    /// The Unix second at which the step began.
    pub since: u64,
    /// The Unix second at which the next step begins at the earliest.
    pub next_at: u64,
}

words! {
    /// The steps of a move between catalogs.
    pub enum CatalogMoveStep {
        /// The first catalog announces the move.
        Announced = "announced",
        /// Both catalogs list the zone.
        ListedTwice = "listed-twice",
    }
}

words! {
    /// The roles of a zone in catalogs.
    pub enum CatalogPart {
        /// A catalog of another server.
        Consumer = "consumer",
        /// A catalog that this server writes.
        Producer = "producer",
        /// A zone that a catalog of this server lists.
        Listed = "listed",
        /// A zone that a catalog of another server lists.
        Member = "member",
    }
}

/// A server that gets NOTIFY of a zone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct ZoneNotify {
    /// The address of the server with the port.
    pub server: String,
    /// The latest serial that it was sent.
    pub serial: u32,
    /// Whether the server has acknowledged this serial.
    pub acknowledged: bool,
    /// The number of messages about this serial.
    pub tries: u32,
    /// The error of the last message.
    pub error: Option<String>,
}

/// The transfers of a zone from its primaries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct ZoneTransfers {
    /// The Unix second of the last check in which a primary answered.
    pub checked_at: Option<u64>,
    /// The Unix second of the next check; none while a check is in progress.
    pub next_check: Option<u64>,
    /// The Unix second at which the zone expires and is no longer served.
    pub expires: Option<u64>,
    /// Versions that were transferred since the start.
    pub transferred: u64,
    /// Checks without a usable primary since the start.
    pub failures: u64,
    /// The errors of the last check.
    pub error: Option<String>,
}

words! {
    /// Whether a zone is served.
    pub enum ZoneState {
        /// The version of the last reading is served.
        Served = "served",
        /// The last reading found errors, and the server still serves the version before.
        OutOfDate = "out-of-date",
        /// No version could be read: the names of the zone get SERVFAIL.
        Failed = "failed",
    }
}

/// A page of the records of a zone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ZonePage {
    /// The zone.
    pub name: String,
    /// The serial of the version that the page is from: the one in force, or the one that is held
    /// back. It may differ between pages.
    pub serial: u32,
    /// The records, by name in canonical order and by type, with signatures after the records that
    /// they sign.
    pub records: Vec<ZoneRecord>,
    /// The position at which the next page begins, if there is one.
    pub next: Option<String>,
}

/// A record of a zone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ZoneRecord {
    /// The owner.
    pub name: String,
    /// The TTL in seconds.
    pub ttl: u32,
    /// The type.
    #[serde(rename = "type")]
    pub rtype: String,
    /// The data, as in a master file.
    pub data: String,
}

/// A part of a zone as a master file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ZoneText {
    /// Whole lines of text, without the end of the last line.
    pub text: String,
}

impl Part for ZoneText {}

/// The end of a zone as a master file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ZoneExported {
    /// The serial.
    pub serial: u32,
    /// The number of records.
    pub records: u32,
}

/// The reason why a request about a zone has no reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ZoneFault {
    /// No hosted zone has the name.
    UnknownZone(String),
    /// The zones with the name are in other views than the one of the request.
    OtherView {
        /// The name.
        name: String,
        /// The views of the zones with the name.
        views: Vec<String>,
    },
    /// No version of the zone could be read.
    NotLoaded(String),
    /// The zone does not have the name.
    UnknownOwner(String),
    /// The zone is not signed here.
    NotSigned(String),
    /// The request about the keys of a zone cannot be met now. Holds the reason.
    Keys(String),
    /// The text is not the `next` of a page.
    InvalidCursor(String),
    /// The number of records is out of bounds.
    InvalidLimit,
    /// The zone is transferred from other servers.
    Secondary(String),
    /// The zone comes from a file that is no master file.
    Provided(String),
    /// The zone is a catalog that the server writes.
    Catalog(String),
    /// The zone has signatures of another server.
    SignedElsewhere(String),
    /// The serial in force is not the one that the change expects.
    OtherSerial {
        /// The zone.
        name: String,
        /// The serial that is expected.
        expected: u32,
        /// The serial in force.
        found: u32,
    },
    /// A record cannot be changed in this way. Holds the reason.
    Edit(String),
    /// The zone would have errors. Holds the first.
    Unsound(String),
    /// The request has too many records.
    TooManyRecords,
    /// The file of the zone was edited and not read since, or it has errors.
    FileEdited {
        /// The zone.
        name: String,
        /// The copy of an edited file that a later edit replaced.
        kept: Option<String>,
    },
    /// The change cannot be stored on disk. Holds the reason.
    Disk(String),
    /// The server is still reading zones for another request.
    Reading,
}

impl ZoneFault {
    /// Returns the code of the error.
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::UnknownZone(_)
            | Self::OtherView { .. }
            | Self::UnknownOwner(_)
            | Self::NotSigned(_) => ErrorCode::NotFound,
            Self::NotLoaded(_) | Self::Disk(_) => ErrorCode::Unavailable,
            Self::InvalidCursor(_)
            | Self::InvalidLimit
            | Self::Keys(_)
            | Self::Edit(_)
            | Self::Unsound(_) => ErrorCode::InvalidValue,
            Self::Secondary(_)
            | Self::Provided(_)
            | Self::Catalog(_)
            | Self::SignedElsewhere(_) => ErrorCode::NotPossible,
            Self::OtherSerial { .. } | Self::FileEdited { .. } => ErrorCode::Conflict,
            Self::TooManyRecords => ErrorCode::LimitReached,
            Self::Reading => ErrorCode::Busy,
        }
    }

    /// Returns the next step for the user, if the message does not state it.
    pub const fn next(&self) -> Option<&'static str> {
        Some(match self {
            Self::UnknownZone(_) | Self::NotLoaded(_) => "see `avocet zone list`",
            Self::InvalidCursor(_) => "use the `next` of a page",
            Self::NotSigned(_) => "set `sign` in its [[zone]]",
            Self::Secondary(_) => "change it on its primary server",
            Self::Catalog(_) => "set `member-of` in the [[zone]] of its members",
            Self::Provided(_) => "change its source, which `avocet zone list` shows",
            Self::SignedElsewhere(_) => "change it where it is signed, or let this server sign it",
            Self::OtherSerial { .. } => "look at the zone again",
            Self::FileEdited { .. } => "see `avocet zone list`, then `avocet zone reload`",
            Self::TooManyRecords => "send them in several requests",
            Self::Reading => "try again when it has ended",
            Self::Disk(_) => "the server must be able to write the zone's file and its directory",
            Self::OtherView { .. } => {
                "see `avocet zone list`, and name one with `--view` or `view`"
            }
            Self::UnknownOwner(_)
            | Self::InvalidLimit
            | Self::Keys(_)
            | Self::Edit(_)
            | Self::Unsound(_) => return None,
        })
    }
}

impl fmt::Display for ZoneFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownZone(name) => write!(f, "there is no hosted zone {name:?}"),
            Self::OtherView { name, views } if views.is_empty() => {
                write!(f, "the zone {name} has no view: all clients see it")
            }
            Self::OtherView { name, views } => {
                write!(f, "the zone {name} has the views \"{}\"", views.join("\", \""))
            }
            Self::NotLoaded(name) => write!(f, "no version of the zone {name} could be read"),
            Self::UnknownOwner(name) => write!(f, "the zone does not have the name {name}"),
            Self::NotSigned(name) => write!(f, "the zone {name} is not signed here"),
            Self::Keys(reason) | Self::Edit(reason) => f.write_str(reason),
            Self::Secondary(name) => {
                write!(f, "the zone {name} is transferred from another server")
            }
            Self::Catalog(name) => write!(f, "the server writes the catalog {name} itself"),
            Self::Provided(name) => {
                write!(f, "the zone {name} comes from a provider, and not from a master file")
            }
            Self::SignedElsewhere(name) => {
                write!(f, "the zone {name} has signatures of another server, which would be wrong")
            }
            Self::OtherSerial { name, expected, found } => write!(
                f,
                "the zone {name} has the serial {found}, not {expected}: it has changed meanwhile"
            ),
            Self::Unsound(error) => write!(f, "the zone would have an error: {error}"),
            Self::TooManyRecords => {
                write!(f, "one request changes {MAX_EDITED_RECORDS} records at most")
            }
            Self::FileEdited { name, kept } => {
                let kept = kept.iter().map(|kept| format!("; another edit is in {kept}"));
                let kept: String = kept.collect();
                write!(
                    f,
                    "the file of the zone {name} was edited and is not read yet, or has errors{kept}"
                )
            }
            Self::Disk(reason) => write!(f, "the change cannot be kept on disk: {reason}"),
            Self::Reading => f.write_str("the server is reading zones for another request"),
            Self::InvalidCursor(text) => write!(f, "{text:?} is not the place of a page"),
            Self::InvalidLimit => {
                write!(f, "expected a limit of 1 to {MAX_ZONE_PAGE} records")
            }
        }
    }
}
