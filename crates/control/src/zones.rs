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

/// A request for the state of hosted zones.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ZonesStatus {
    /// The name of the zone; all zones if the field is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// An item in `view` of the zone, such as the name of a group. With `name` and without this
    /// field, the request is about the zone without a view.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub view: Option<String>,
}

/// A request for a page of the records of a hosted zone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ZoneRecords {
    /// The name of the zone.
    pub name: String,
    /// An item in `view` of the zone, such as the name of a group. Without this field, the request
    /// is about the zone without a view.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub view: Option<String>,
    /// An owner: a name relative to the zone, or a name that ends with the name of the zone. With
    /// this field, the page has only the records of this owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// A type. With this field, the page has only records of this type.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub rtype: Option<String>,
    /// A text. With this field, the page has only records with this text in the owner. The page may
    /// then have no records although there is a next page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contains: Option<String>,
    /// Whether to read the zone without the records that this server adds by signing. The page then
    /// shows the last version, even if it is not in force because it could not be signed.
    #[serde(default)]
    pub unsigned: bool,
    /// The place at which the page begins: the value of `next` in the previous reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// The maximum number of records, from 1 to 1000; 100 by default. The page may have more
    /// records, because it never divides an RRset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// A request to read the file of a zone at once, even if the file has not changed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ZoneReload {
    /// The name of the zone; all zones if the field is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// An item in `view` of the zone, such as the name of a group. With `name` and without this
    /// field, the request is about the zone without a view.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub view: Option<String>,
}

/// A request for a hosted zone as the text of a master file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ZoneExport {
    /// The name of the zone.
    pub name: String,
    /// An item in `view` of the zone, such as the name of a group. Without this field, the request
    /// is about the zone without a view.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub view: Option<String>,
}

/// The state of hosted zones.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ZonesReport {
    /// The zones, in the order of their names.
    pub zones: Vec<ZoneStatus>,
}

/// The state of a hosted zone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct ZoneStatus {
    /// The name of the hosted zone.
    pub name: String,
    /// The clients that see the zone: groups, networks and listeners. If the list is empty, all
    /// clients see the zone, except those that see another zone with this name.
    pub view: Vec<String>,
    /// The path of the file of the zone.
    pub file: String,
    /// Whether the server serves the zone, and whether the last reading of its file found errors.
    pub state: ZoneState,
    /// The serial in force; null if no version is in force.
    pub serial: Option<u32>,
    /// The number of records of the zone.
    pub records: u32,
    /// The number of names of the zone, including empty non-terminals.
    pub names: u32,
    /// The memory that the zone uses, in octets.
    pub octets: usize,
    /// Whether the zone has DNSSEC signatures.
    pub signed: bool,
    /// The Unix second at which the server read the version in force; null if no version is in
    /// force.
    pub loaded_at: Option<u64>,
    /// The number of readings since the start in which the server found errors.
    pub failures: u64,
    /// The first error of the last reading; null if there was none.
    pub error: Option<String>,
    /// The source of the records, as in `provider` of `[[zone]]`: `file` for a master file.
    pub provider: String,
    /// The relation of the zone to catalogs (RFC 9432); null if it has none. A catalog is a zone
    /// that lists other zones.
    pub catalog: Option<ZoneCatalog>,
    /// The servers from which the zone is transferred; empty if there are none.
    pub primaries: Vec<String>,
    /// The URL from which the records are fetched; null unless the provider is `http` or
    /// `postgres`.
    pub url: Option<String>,
    /// The checks and transfers of a zone with primaries, or the requests to `url`; null for other
    /// zones.
    pub transfers: Option<ZoneTransfers>,
    /// Whether the database announces changes of the zone; null unless the provider is `postgres`.
    pub notifications: Option<ZoneNotifications>,
    /// The earliest serial from which other servers can get the changes alone (IXFR); null if there
    /// are no such changes.
    pub changes_since: Option<u32>,
    /// The servers to which this server sends NOTIFY after each change of the zone.
    pub notify: Vec<ZoneNotify>,
}

/// The connection over which a database announces changes of a zone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct ZoneNotifications {
    /// Whether announcements of the database arrive.
    pub listening: bool,
    /// The reason why no announcements arrive; null if they arrive, or while the first connection
    /// is being made.
    pub error: Option<String>,
}

/// The relation of a zone to catalogs (RFC 9432). A catalog is a zone that lists other zones, its
/// members.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct ZoneCatalog {
    /// The role of the zone: a catalog, or a zone that a catalog lists.
    pub role: CatalogPart,
    /// The catalog that lists the zone; null if the zone is a catalog.
    pub name: Option<String>,
    /// The groups that the catalog states for the zone.
    pub groups: Vec<String>,
    /// The number of zones that this catalog lists; null if the zone is not a catalog.
    pub members: Option<u64>,
    /// The reason why the version in force cannot be used as a catalog; null if it can. The members
    /// stay those of the previous version.
    pub error: Option<String>,
    /// Members that the server does not serve, each with the reason; at most 16.
    pub refused: Vec<String>,
    /// The move of the zone from one catalog of this server to another; missing if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moving: Option<CatalogMove>,
}

/// A move of a zone from one catalog of this server to another. A move takes about a day.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct CatalogMove {
    /// The catalog that the zone leaves.
    pub from: String,
    /// The catalog to which the zone moves.
    pub to: String,
    /// The present step of the move.
    pub step: CatalogMoveStep,
    /// The Unix second at which the present step began.
    pub since: u64,
    /// The Unix second at which the next step can begin.
    pub next_at: u64,
}

words! {
    /// A step of a move of a zone from one catalog to another.
    pub enum CatalogMoveStep {
        /// The old catalog announces the move. Only the old catalog lists the zone.
        Announced = "announced",
        /// Both catalogs list the zone.
        ListedTwice = "listed-twice",
    }
}

words! {
    /// The role of a zone: a catalog, or a zone that a catalog lists.
    pub enum CatalogPart {
        /// A catalog of another server. This server also serves the zones that the catalog lists.
        Consumer = "consumer",
        /// A catalog that this server writes from `member-of` of its zones.
        Producer = "producer",
        /// A zone that a catalog of this server lists.
        Listed = "listed",
        /// A zone that a catalog of another server lists.
        Member = "member",
    }
}

/// A server to which this server sends NOTIFY after each change of a zone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct ZoneNotify {
    /// The address and port of the notified server.
    pub server: String,
    /// The latest serial for which this server sent NOTIFY.
    pub serial: u32,
    /// Whether the notified server has acknowledged this serial.
    pub acknowledged: bool,
    /// The number of messages about this serial, at most eight.
    pub tries: u32,
    /// The error of the last message; null if there was none.
    pub error: Option<String>,
}

/// The checks and transfers of a zone from its primaries, or the requests to its URL.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct ZoneTransfers {
    /// The Unix second of the last check to which a primary responded; null if there was none.
    pub checked_at: Option<u64>,
    /// The Unix second of the next check; null while a check is in progress.
    pub next_check: Option<u64>,
    /// The Unix second at which the zone expires if no primary confirms it. After that, its names
    /// get SERVFAIL.
    pub expires: Option<u64>,
    /// The number of versions that were transferred since the start.
    pub transferred: u64,
    /// The number of checks since the start in which no primary was usable.
    pub failures: u64,
    /// The errors of the last check; null if there were none.
    pub error: Option<String>,
}

words! {
    /// Whether the server serves a zone, and whether the last reading of its file found errors.
    pub enum ZoneState {
        /// The last reading found no errors, and this version is served.
        Served = "served",
        /// The last reading found errors. The server still serves the previous version.
        OutOfDate = "out-of-date",
        /// The server could read no version. Names of the zone get SERVFAIL.
        Failed = "failed",
    }
}

/// A page of the records of a hosted zone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ZonePage {
    /// The name of the zone.
    pub name: String,
    /// The serial of the version from which the page is. If the zone changes between two pages,
    /// they have different serials.
    pub serial: u32,
    /// The records in the canonical order of the names, and by type. Signatures follow the records
    /// that they sign.
    pub records: Vec<ZoneRecord>,
    /// The place at which the next page begins, for `after` in the next request; null if there is
    /// no further page.
    pub next: Option<String>,
}

/// A record of a hosted zone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ZoneRecord {
    /// The owner of the record.
    pub name: String,
    /// The TTL of the record in seconds.
    pub ttl: u32,
    /// The type of the record.
    #[serde(rename = "type")]
    pub rtype: String,
    /// The data of the record, as in a master file.
    pub data: String,
}

/// A part of the text of a zone as a master file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ZoneText {
    /// One or more whole lines, without the end of the last line.
    pub text: String,
}

impl Part for ZoneText {}

/// The last line of a reply with a zone as a master file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ZoneExported {
    /// The serial of the zone.
    pub serial: u32,
    /// The number of records in the text.
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
                    "the file of the zone {name} was edited and is not read yet, or has \
                     errors{kept}"
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
