//! Replies about trust anchors, negative trust anchors and the copy of the root zone.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::words::words;

/// The trust anchors, and the copy of the root zone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct AnchorsReport {
    /// Whether the server validates.
    pub validates: bool,
    /// Whether the server follows rollovers of the keys (RFC 5011).
    pub followed: bool,
    /// The keys.
    pub anchors: Vec<AnchorStatus>,
    /// The copy of the root zone, if the configuration requests one.
    pub root_zone: Option<RootZoneStatus>,
}

/// A key of a trust anchor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AnchorStatus {
    /// The zone.
    pub zone: String,
    /// The key tag.
    pub tag: u16,
    /// The state of the key.
    pub state: AnchorState,
    /// The Unix second at which the state began.
    pub since: Option<u64>,
    /// The Unix second at which the key is trusted or removed.
    pub until: Option<u64>,
    /// The Unix second of the last observation of the zone.
    pub observed: Option<u64>,
    /// The reason why the last query for the keys of the zone failed.
    pub fault: Option<String>,
}

words! {
    /// The state of a key (RFC 5011 §4).
    pub enum AnchorState {
        /// The key is configured, and was not seen yet.
        Configured = "configured",
        /// The key was seen, and is trusted after the hold-down time.
        AddPending = "add-pending",
        /// The key is trusted.
        Valid = "valid",
        /// The key is trusted, and no longer seen.
        Missing = "missing",
        /// The key is revoked.
        Revoked = "revoked",
    }
}

/// The copy of the root zone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RootZoneStatus {
    /// The serial of the copy in use.
    pub serial: Option<u32>,
    /// The Unix second at which it expires.
    pub expires: Option<u64>,
    /// The source of the copy.
    pub from: Option<String>,
    /// The Unix second of the last comparison with the source.
    pub checked: Option<u64>,
    /// The last failure.
    pub fault: Option<String>,
}

/// All negative trust anchors (RFC 7646).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NegativeAnchors {
    /// The Unix second of the reply.
    pub now: u64,
    /// The anchors, with those of the configuration first.
    pub anchors: Vec<NegativeAnchorStatus>,
}

/// A negative trust anchor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NegativeAnchorStatus {
    /// The name.
    pub name: String,
    /// The Unix second at which the anchor ends; none for an anchor of the configuration, which
    /// does not end.
    pub until: Option<u64>,
}

/// A negative trust anchor that was added.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NegativeAdded {
    /// The name.
    pub name: String,
    /// The Unix second at which it ends.
    pub until: u64,
    /// The reason why the disk does not have the change: a restart undoes it.
    pub unsaved: Option<String>,
}

/// A negative trust anchor that was removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NegativeRemoved {
    /// The name.
    pub name: String,
    /// The reason why the disk does not have the change: a restart undoes it.
    pub unsaved: Option<String>,
}
