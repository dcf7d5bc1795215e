//! Replies about trust anchors, negative trust anchors and the copy of the root zone.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::words::words;

/// The state of the trust anchors for DNSSEC, and of the copy of the root zone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct AnchorsReport {
    /// Whether the server validates responses.
    pub validates: bool,
    /// Whether the server replaces trust anchors by itself when a zone replaces its keys (RFC
    /// 5011).
    pub followed: bool,
    /// The keys of all trust anchors.
    pub anchors: Vec<AnchorStatus>,
    /// The copy of the root zone that the server uses instead of the root servers; null if
    /// `local-root` is off.
    pub root_zone: Option<RootZoneStatus>,
}

/// A key that is a trust anchor of a zone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AnchorStatus {
    /// The zone to which the trust anchor belongs.
    pub zone: String,
    /// The tag of the key.
    pub tag: u16,
    /// The state of the key.
    pub state: AnchorState,
    /// The Unix second at which the present state began; null if the key was never seen.
    pub since: Option<u64>,
    /// The Unix second at which the server will trust a new key, or will remove a revoked key; null
    /// in other states.
    pub until: Option<u64>,
    /// The Unix second at which the server last read the keys of the zone; null if it never has.
    pub observed: Option<u64>,
    /// The reason why the last query for the keys of the zone failed; null if it succeeded.
    pub fault: Option<String>,
}

words! {
    /// The state of a key of a trust anchor (RFC 5011 §4).
    pub enum AnchorState {
        /// The key is configured and trusted. The server has not seen it in the zone yet.
        Configured = "configured",
        /// The key is new in the zone. The server trusts it after the waiting time of 30 days.
        AddPending = "add-pending",
        /// The key is trusted, and is in the zone.
        Valid = "valid",
        /// The key is trusted, but is no longer in the zone.
        Missing = "missing",
        /// The zone has revoked the key. The server no longer trusts it.
        Revoked = "revoked",
    }
}

/// The copy of the root zone that the server uses instead of the root servers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RootZoneStatus {
    /// The serial of the copy in use; null if no copy is in use.
    pub serial: Option<u32>,
    /// The Unix second at which the copy expires.
    pub expires: Option<u64>,
    /// The server or file from which the copy comes.
    pub from: Option<String>,
    /// The Unix second at which the copy was last found to be the latest version.
    pub checked: Option<u64>,
    /// The last error; null if the last attempt succeeded.
    pub fault: Option<String>,
}

/// All negative trust anchors: names below which the server does not validate (RFC 7646).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NegativeAnchors {
    /// The Unix second at which the reply was made.
    pub now: u64,
    /// The negative trust anchors. Those of the configuration come first.
    pub anchors: Vec<NegativeAnchorStatus>,
}

/// A negative trust anchor: a name below which the server does not validate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NegativeAnchorStatus {
    /// The name. The anchor includes all names below it.
    pub name: String,
    /// The Unix second at which the anchor ends; null for an anchor of the configuration, which has
    /// no end.
    pub until: Option<u64>,
}

/// The reply to a request that added a negative trust anchor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NegativeAdded {
    /// The name of the added negative trust anchor, which also covers all names below this name.
    pub name: String,
    /// The Unix second at which the anchor ends.
    pub until: u64,
    /// The reason why the change is not on the disk: a restart undoes the change. Null if the
    /// change is on the disk.
    pub unsaved: Option<String>,
}

/// The reply to a request that removed a negative trust anchor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NegativeRemoved {
    /// The name of the removed anchor.
    pub name: String,
    /// The reason why the change is not on the disk: a restart undoes the change. Null if the
    /// change is on the disk.
    pub unsaved: Option<String>,
}
