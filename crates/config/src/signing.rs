//! `[[signing-policy]]`, and `sign` of `[[zone]]`: how hosted zones are signed.

use std::borrow::Cow;
use std::ops::Range;
use std::path::PathBuf;

use avocet_dnssec::signing::SigningAlgorithm;
use avocet_zone::sign::SignedDenial;
use avocet_zone::sign::timeline::{KeyPolicy, KeyScheme};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use toml::{Spanned, Table, Value as TomlValue};

use super::check::Check;
use super::error::SettingError;
use super::setting::{FromText, Int, Raw, Setting, Text, Value};

/// The name of the policy that `sign = true` selects. A table with this name changes it.
const USUAL: &str = "default";
const DAY: u32 = 86_400;
/// Number of days after which a ZSK is replaced.
const ZSK_DAYS: u32 = 90;
/// Number of days for which a signature is valid, and number of days before its end at which it is
/// replaced.
const VALIDITY_DAYS: (u32, u32) = (14, 7);

/// Maximum of `propagation-secs`.
pub const MAX_PROPAGATION_SECS: u32 = 604_800;

/// A table `[[signing-policy]]`: how the server signs hosted zones.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(inline, extend("required" = ["name"]))]
pub(super) struct SigningPolicySpec {
    /// Name of the policy, for `sign` of a `[[zone]]`. The policy "default" changes the effect of
    /// `sign = true`.
    pub(super) name: Setting<String>,
    /// Algorithm of new keys: "ecdsap256sha256" or "ed25519". If the present keys have another
    /// algorithm, the server begins to replace them.
    #[schemars(extend("default" = "ecdsap256sha256"))]
    pub(super) algorithm: Setting<Text<SigningAlgorithm>>,
    /// Keys of a zone: "csk", one key that signs everything; or "ksk-zsk", a KSK for the DNSKEY,
    /// CDS and CDNSKEY records and a ZSK for all other records. A zone that has keys already keeps
    /// them.
    #[schemars(extend("default" = "csk"))]
    pub(super) keys: Setting<Text<KeyScheme>>,
    /// Proofs that names do not exist: "nsec", "nsec3" or "nsec3-opt-out".
    #[schemars(extend("default" = "nsec"))]
    pub(super) denial: Setting<Text<SignedDenial>>,
    /// Age in days at which the server replaces a KSK or CSK; 0 for never.
    #[schemars(extend("default" = 0))]
    pub(super) ksk_lifetime_days: Setting<Int<0, 36_500>>,
    /// Age in days at which the server replaces a ZSK; 0 for never.
    #[schemars(extend("default" = 90))]
    pub(super) zsk_lifetime_days: Setting<Int<0, 36_500>>,
    /// Number of days for which a signature is valid.
    #[schemars(extend("default" = 14))]
    pub(super) validity_days: Setting<Int<1, 365>>,
    /// Number of days before the end of a signature at which the server replaces it; less than
    /// `validity-days`.
    #[schemars(extend("default" = 7))]
    pub(super) refresh_days: Setting<Int<0, 364>>,
    /// TTL in seconds of the DNSKEY, CDS and CDNSKEY records.
    #[schemars(extend("default" = 3600))]
    pub(super) dnskey_ttl_secs: Setting<Int<1, 604_800>>,
    /// Number of seconds until all servers of the zone have a new version of the zone.
    #[schemars(extend("default" = 300))]
    pub(super) propagation_secs: Setting<Int<0, MAX_PROPAGATION_SECS>>,
    /// Lowest TTL in seconds that the server assumes for the DS records of the zone, which are at
    /// the parent zone.
    #[schemars(extend("default" = 86400))]
    pub(super) parent_ds_ttl_secs: Setting<Int<0, 604_800>>,
    /// Number of seconds until all servers of the parent zone have a new version of the parent
    /// zone.
    #[schemars(extend("default" = 3600))]
    pub(super) parent_propagation_secs: Setting<Int<0, 604_800>>,
    /// Longest time in seconds between two look-ups of the DS records, while the server waits until
    /// the parent zone adds or removes one.
    #[schemars(extend("default" = 3600))]
    pub(super) parent_check_secs: Setting<Int<1, 86_400>>,
    /// Number of days that the parent zone may take to publish the DS record of a new key. After
    /// that, the server reports a problem.
    #[schemars(extend("default" = 3))]
    pub(super) parent_patience_days: Setting<Int<1, 365>>,
}

/// One `[[signing-policy]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SigningPolicy {
    /// The name.
    pub name: String,
    /// The keys and the times of their roll-overs.
    pub keys: KeyPolicy,
    /// The kind of proofs.
    pub denial: SignedDenial,
    /// Duration of validity of signatures, in seconds.
    pub validity_secs: u32,
    /// Seconds before its end at which a signature is replaced.
    pub refresh_secs: u32,
    /// Seconds between two look-ups of the parent's DS records.
    pub parent_check_secs: u32,
    /// Seconds after which a missing DS record in the parent is a problem.
    pub parent_patience_secs: u32,
}

/// The signing of a zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZoneSigning {
    /// The policy.
    pub policy: SigningPolicy,
    /// The directory of the keys of the zone and their state.
    pub directory: PathBuf,
    /// The names of pools in the zone, in lower case and wire form. Their answers are signed.
    pub pools: Vec<Box<[u8]>>,
    /// The highest TTL of these pools in seconds; zero without pools.
    pub pools_ttl_secs: u32,
}

impl ZoneSigning {
    /// Returns the signing of a zone without pools.
    pub(super) const fn new(policy: SigningPolicy, directory: PathBuf) -> Self {
        Self { policy, directory, pools: Vec::new(), pools_ttl_secs: 0 }
    }
}

impl SigningPolicy {
    /// Returns the policy of `sign = true` if no table changes it.
    fn usual() -> Self {
        Self {
            name: USUAL.to_owned(),
            keys: KeyPolicy {
                algorithm: SigningAlgorithm::EcdsaP256Sha256,
                scheme: KeyScheme::Csk,
                entry_lifetime_secs: 0,
                zone_lifetime_secs: u64::from(ZSK_DAYS * DAY),
                dnskey_ttl_secs: 3_600,
                propagation_secs: 300,
                parent_ds_ttl_secs: DAY,
                parent_propagation_secs: 3_600,
            },
            denial: SignedDenial::Nsec,
            validity_secs: VALIDITY_DAYS.0 * DAY,
            refresh_secs: VALIDITY_DAYS.1 * DAY,
            parent_check_secs: 3_600,
            parent_patience_secs: 3 * DAY,
        }
    }
}

/// Whether and how a zone is signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SignSetting {
    /// The zone is not signed.
    No,
    /// The zone is signed by the policy with this name.
    Policy(String),
}

impl JsonSchema for SignSetting {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "SignSetting".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [{ "type": "boolean" }, { "type": "string", "minLength": 1 }] })
    }
}

impl Value for SignSetting {
    fn expected() -> String {
        "true, false, or the name of a [[signing-policy]]".to_owned()
    }

    fn from_scalar(raw: &Raw) -> Result<Self, SettingError> {
        match raw {
            Raw::Boolean(false) => Ok(Self::No),
            Raw::Boolean(true) => Ok(Self::Policy(USUAL.to_owned())),
            Raw::Text(name) if !name.is_empty() => Ok(Self::Policy(name.clone())),
            _ => Err(Self::mismatch(raw)),
        }
    }
}

/// The names of the algorithms, in order of preference.
const ALGORITHMS: [(&str, SigningAlgorithm); 2] = [
    ("ecdsap256sha256", SigningAlgorithm::EcdsaP256Sha256),
    ("ed25519", SigningAlgorithm::Ed25519),
];
const SCHEMES: [(&str, KeyScheme); 2] = [("csk", KeyScheme::Csk), ("ksk-zsk", KeyScheme::Split)];
const DENIALS: [(&str, SignedDenial); 3] = [
    ("nsec", SignedDenial::Nsec),
    ("nsec3", SignedDenial::Nsec3),
    ("nsec3-opt-out", SignedDenial::Nsec3OptOut),
];

/// Returns the choice with this name.
fn named<T: Copy>(choices: &[(&str, T)], text: &str) -> Result<T, Option<SettingError>> {
    choices.iter().find(|(name, _)| *name == text).map(|(_, value)| *value).ok_or(None)
}

/// Returns the name of a choice.
fn name_of<T: Copy + PartialEq>(choices: &[(&'static str, T)], value: T) -> &'static str {
    choices.iter().find(|(_, other)| *other == value).map_or("", |(name, _)| name)
}

impl FromText for SigningAlgorithm {
    const EXPECTED: &'static str = "\"ecdsap256sha256\" or \"ed25519\"";
    const CHOICES: &'static [&'static str] = &["ecdsap256sha256", "ed25519"];

    fn from_text(text: &str) -> Result<Self, Option<SettingError>> {
        named(&ALGORITHMS, text)
    }
}

impl FromText for KeyScheme {
    const EXPECTED: &'static str = "\"csk\" or \"ksk-zsk\"";
    const CHOICES: &'static [&'static str] = &["csk", "ksk-zsk"];

    fn from_text(text: &str) -> Result<Self, Option<SettingError>> {
        named(&SCHEMES, text)
    }
}

impl FromText for SignedDenial {
    const EXPECTED: &'static str = "\"nsec\", \"nsec3\" or \"nsec3-opt-out\"";
    const CHOICES: &'static [&'static str] = &["nsec", "nsec3", "nsec3-opt-out"];

    fn from_text(text: &str) -> Result<Self, Option<SettingError>> {
        named(&DENIALS, text)
    }
}

/// Validates the tables. Each name occurs once. The result always includes the policy of `sign =
/// true`.
pub(super) fn policies(
    specs: Vec<Spanned<SigningPolicySpec>>,
    check: &mut Check,
) -> Vec<SigningPolicy> {
    let mut policies: Vec<SigningPolicy> = Vec::new();
    for spec in specs {
        let header = spec.span();
        let Some((at, policy)) = policy(&header, spec.into_inner(), check) else { continue };
        if policies.iter().any(|other| other.name == policy.name) {
            check.fault(at, format!("the policy \"{}\" has another table", policy.name));
        } else {
            policies.push(policy);
        }
    }
    policies
}

fn policy(
    header: &Range<usize>,
    spec: SigningPolicySpec,
    check: &mut Check,
) -> Option<(Range<usize>, SigningPolicy)> {
    let usual = SigningPolicy::usual();
    let name = check.need("name", header, spec.name);
    let lifetime = |days: u32| u64::from(days) * u64::from(DAY);
    let keys = KeyPolicy {
        algorithm: check.take(spec.algorithm).map_or(usual.keys.algorithm, |text| text.0),
        scheme: check.take(spec.keys).map_or(usual.keys.scheme, |text| text.0),
        entry_lifetime_secs: check
            .take(spec.ksk_lifetime_days)
            .map_or(usual.keys.entry_lifetime_secs, |days| lifetime(days.0)),
        zone_lifetime_secs: check
            .take(spec.zsk_lifetime_days)
            .map_or(usual.keys.zone_lifetime_secs, |days| lifetime(days.0)),
        dnskey_ttl_secs: check
            .take(spec.dnskey_ttl_secs)
            .map_or(usual.keys.dnskey_ttl_secs, |secs| secs.0),
        propagation_secs: check
            .take(spec.propagation_secs)
            .map_or(usual.keys.propagation_secs, |secs| secs.0),
        parent_ds_ttl_secs: check
            .take(spec.parent_ds_ttl_secs)
            .map_or(usual.keys.parent_ds_ttl_secs, |secs| secs.0),
        parent_propagation_secs: check
            .take(spec.parent_propagation_secs)
            .map_or(usual.keys.parent_propagation_secs, |secs| secs.0),
    };
    let refresh_at = spec.refresh_days.span();
    let validity_secs =
        check.take(spec.validity_days).map_or(usual.validity_secs, |days| days.0 * DAY);
    let refresh_secs = check.take(spec.refresh_days).map(|days| days.0 * DAY);
    let refresh_secs = match refresh_secs {
        Some(secs) if secs >= validity_secs => {
            let days = validity_secs / DAY;
            let at = refresh_at.unwrap_or_else(|| header.clone());
            check.fault(at, format!("expected less than the {days} days of `validity-days`"));
            return None;
        }
        Some(secs) => secs,
        None => usual.refresh_secs.min(validity_secs / 2),
    };
    let policy = SigningPolicy {
        name: String::new(),
        keys,
        denial: check.take(spec.denial).map_or(usual.denial, |text| text.0),
        validity_secs,
        refresh_secs,
        parent_check_secs: check
            .take(spec.parent_check_secs)
            .map_or(usual.parent_check_secs, |secs| secs.0),
        parent_patience_secs: check
            .take(spec.parent_patience_days)
            .map_or(usual.parent_patience_secs, |days| days.0 * DAY),
    };
    let (at, name) = name?;
    if name.is_empty() {
        check.fault(at, "expected a name, found \"\"");
        return None;
    }
    Some((at, SigningPolicy { name, ..policy }))
}

/// Returns the policy that a zone is signed by. A policy that is not configured is a fault.
pub(super) fn chosen(
    setting: Setting<SignSetting>,
    policies: &[SigningPolicy],
    check: &mut Check,
) -> Option<SigningPolicy> {
    let at = setting.span()?;
    let SignSetting::Policy(name) = check.take(setting)? else { return None };
    match policies.iter().find(|policy| policy.name == name) {
        Some(policy) => Some(policy.clone()),
        None if name == USUAL => Some(SigningPolicy::usual()),
        None => {
            check.fault(at, format!("no [[signing-policy]] has the name \"{name}\""));
            None
        }
    }
}

/// Returns a table in the syntax of the configuration file.
pub(super) fn shown(policy: &SigningPolicy) -> TomlValue {
    let days = |secs: u64| i64::try_from(secs / u64::from(DAY)).unwrap_or(i64::MAX);
    let keys = &policy.keys;
    let entries: [(&str, TomlValue); 13] = [
        ("name", policy.name.clone().into()),
        ("algorithm", name_of(&ALGORITHMS, keys.algorithm).into()),
        ("keys", name_of(&SCHEMES, keys.scheme).into()),
        ("denial", name_of(&DENIALS, policy.denial).into()),
        ("ksk-lifetime-days", days(keys.entry_lifetime_secs).into()),
        ("zsk-lifetime-days", days(keys.zone_lifetime_secs).into()),
        ("validity-days", days(policy.validity_secs.into()).into()),
        ("refresh-days", days(policy.refresh_secs.into()).into()),
        ("dnskey-ttl-secs", i64::from(keys.dnskey_ttl_secs).into()),
        ("propagation-secs", i64::from(keys.propagation_secs).into()),
        ("parent-ds-ttl-secs", i64::from(keys.parent_ds_ttl_secs).into()),
        ("parent-propagation-secs", i64::from(keys.parent_propagation_secs).into()),
        ("parent-check-secs", i64::from(policy.parent_check_secs).into()),
    ];
    let mut table: Table =
        entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    let patience = days(policy.parent_patience_secs.into());
    table.insert("parent-patience-days".to_owned(), patience.into());
    table.into()
}
