//! Requests and replies about the keys of zones that the server signs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A request for the keys with which the server signs a zone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ZoneKeys {
    /// The name of the zone.
    pub name: String,
    /// An item in `view` of the zone, such as the name of a group. Without this field, the request
    /// is about the zone without a view.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub view: Option<String>,
}

/// A request to sign a zone at once. The server keeps signatures that it need not renew yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ZoneSign {
    /// The name of the zone.
    pub name: String,
    /// An item in `view` of the zone, such as the name of a group. Without this field, the request
    /// is about the zone without a view.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub view: Option<String>,
    /// The role of a key to replace: `csk`, `ksk` or `zsk`. Without this field, the server replaces
    /// no key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub roll: Option<String>,
    /// The tag of a key. The sender confirms that the parent zone has the DS record of this key and
    /// of no other key. This field is for zones with a parent that this server cannot query.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ds_published: Option<u16>,
}

/// The keys with which the server signs a zone, and the state of the signatures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct ZoneKeysReport {
    /// The name of the zone.
    pub name: String,
    /// The name of the signing policy of the zone.
    pub policy: String,
    /// The keys, in the order in which they were made.
    pub keys: Vec<ZoneKey>,
    /// The data of the DS records that the parent zone should have. CDS records of the zone request
    /// the same. Empty while caches may still hold the zone without signatures of its first keys.
    pub ds: Vec<String>,
    /// The tag of the key with the DS record that the parent must publish next; null if the server
    /// waits for none.
    pub awaited_ds: Option<u16>,
    /// Whether the parent has taken longer to publish this DS record than `parent-patience-days`
    /// permits.
    pub overdue: bool,
    /// The Unix second at which the first signature of the zone expires.
    pub signatures_end: Option<u64>,
    /// The Unix second at which the server next renews signatures or changes the state of a key.
    pub next_event: Option<u64>,
    /// The number of signatures that the server made for the zone since the start.
    pub made: u64,
    /// The reason why the last version of the zone is not in force; null if it is in force.
    pub error: Option<String>,
}

/// A key with which the server signs a zone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct ZoneKey {
    /// The tag of the key.
    pub tag: u16,
    /// The name of the algorithm of the key, such as `ECDSAP256SHA256`.
    pub algorithm: String,
    /// The role of the key. `csk` signs everything, `ksk` signs the keys, and `zsk` signs all other
    /// records.
    pub role: String,
    /// The state of the key: prepared, published, submitted, confirmed, active, retired or leaving.
    /// The manual page on signed zones explains the states.
    pub state: String,
    /// The Unix second at which the key reached this state.
    pub since: u64,
    /// The Unix second at which the key was made.
    pub created: u64,
    /// The data of the DNSKEY record of the key.
    pub dnskey: String,
    /// The data of the DS record of the key; null for a `zsk`, which has none.
    pub ds: Option<String>,
}
