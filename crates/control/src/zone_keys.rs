//! Requests and replies about the keys of zones that the server signs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A request for the keys of a zone that the server signs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ZoneKeys {
    /// The zone.
    pub name: String,
    /// An item of the zone's view, if only some clients see the zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub view: Option<String>,
}

/// A request to sign a zone at once. Signatures that are not due for renewal are kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ZoneSign {
    /// The zone.
    pub name: String,
    /// An item of the zone's view, if only some clients see the zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub view: Option<String>,
    /// The role of a key whose replacement begins: "csk", "ksk" or "zsk".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub roll: Option<String>,
    /// The tag of the only key that has a DS record in the parent zone, for zones with a parent
    /// that this server cannot query.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ds_published: Option<u16>,
}

/// The keys of a zone that the server signs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct ZoneKeysReport {
    /// The zone.
    pub name: String,
    /// The signing policy.
    pub policy: String,
    /// The keys, in the order in which they were made.
    pub keys: Vec<ZoneKey>,
    /// The data of the DS records that the parent zone should have, which CDS records announce.
    /// Empty until all caches have the signatures of the first keys.
    pub ds: Vec<String>,
    /// The tag of the key whose DS record the server waits for.
    pub awaited_ds: Option<u16>,
    /// Whether the server has waited for the DS record for longer than the policy permits.
    pub overdue: bool,
    /// The Unix second at which the first signature ends.
    pub signatures_end: Option<u64>,
    /// The Unix second at which signatures are renewed or a key changes its state.
    pub next_event: Option<u64>,
    /// Signatures that were made since the start.
    pub made: u64,
    /// The reason why the last version is not in force, if it is held back.
    pub error: Option<String>,
}

/// A key of a zone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct ZoneKey {
    /// The tag of the key.
    pub tag: u16,
    /// The mnemonic of its algorithm.
    pub algorithm: String,
    /// The role of the key: csk, ksk or zsk.
    pub role: String,
    /// The state of the key: prepared, published, submitted, confirmed, active, retired or leaving.
    pub state: String,
    /// The Unix second since which it is in this state.
    pub since: u64,
    /// The Unix second in which it was made.
    pub created: u64,
    /// The data of its DNSKEY record.
    pub dnskey: String,
    /// The data of its DS record; none for a ZSK.
    pub ds: Option<String>,
}
