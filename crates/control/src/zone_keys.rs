//! Requests and replies about the keys of zones that the server signs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A request for the keys of a zone that the server signs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ZoneKeys {
    /// The zone.
    pub name: String,
    /// An item of its view, if only some clients see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub view: Option<String>,
}

/// A request to sign a zone at once. Signatures that are still good are kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ZoneSign {
    /// The zone.
    pub name: String,
    /// An item of its view, if only some clients see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub view: Option<String>,
    /// The role of a key whose replacement begins: "csk", "ksk" or "zsk".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub roll: Option<String>,
    /// The parent has the DS record of the key with this tag, and of no other: for zones whose
    /// parent this server cannot ask.
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
    /// The data of the DS records that the parent should have; that of CDS is the same. Empty until
    /// all caches have the signatures of the first keys.
    pub ds: Vec<String>,
    /// The tag of the key whose DS record the server waits for.
    pub awaited_ds: Option<u16>,
    /// Whether it waits for longer than the policy permits.
    pub overdue: bool,
    /// The Unix second at which the first signature ends.
    pub signatures_end: Option<u64>,
    /// The Unix second at which signatures are renewed or a key changes its state.
    pub next_event: Option<u64>,
    /// Signatures that were made since the start.
    pub made: u64,
    /// Why the last version is held back.
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
