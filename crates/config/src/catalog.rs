//! Catalog zones (RFC 9432): `catalog`, `member-of` and `group` of `[[zone]]`.

use toml::Value;

use super::check::Check;
use super::error::SettingError;
use super::name::{shown as shown_name, typed_name};
use super::setting::{FromText, Setting, Text};

/// Length in octets of the longest group, which is a string of a TXT record.
const MAX_GROUP: usize = 255;

/// The relation of a zone to catalogs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum CatalogRole {
    /// The zone is in no catalog.
    #[default]
    Plain,
    /// A catalog of another server: this server also serves the zones that it lists.
    Consumer,
    /// A catalog that this server writes: it lists the zones that name it.
    Producer,
    /// A zone that a catalog of this server lists.
    Listed {
        /// The name of the catalog, in lower case and wire form.
        catalog: Box<[u8]>,
        /// The property `group`; empty if there is none.
        group: String,
    },
    /// A zone that a catalog of another server lists. It is not in the configuration file.
    Member {
        /// The name of the catalog, in lower case and wire form.
        catalog: Box<[u8]>,
    },
}

impl CatalogRole {
    /// Returns whether the zone comes from a catalog, and not from the file of the configuration.
    #[must_use]
    pub const fn is_member(&self) -> bool {
        matches!(self, Self::Member { .. })
    }

    /// Returns whether the zone is a catalog itself.
    #[must_use]
    pub const fn is_catalog(&self) -> bool {
        matches!(self, Self::Consumer | Self::Producer)
    }

    /// Returns whether a catalog of this server lists the zone.
    #[must_use]
    pub const fn is_listed(&self) -> bool {
        matches!(self, Self::Listed { .. })
    }
}

/// The values of `catalog`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CatalogSetting {
    No,
    Consumer,
    Producer,
}

impl FromText for CatalogSetting {
    const EXPECTED: &'static str = "\"no\", \"consumer\" or \"producer\"";
    const CHOICES: &'static [&'static str] = &["no", "consumer", "producer"];

    fn from_text(text: &str) -> Result<Self, Option<SettingError>> {
        match text {
            "no" => Ok(Self::No),
            "consumer" => Ok(Self::Consumer),
            "producer" => Ok(Self::Producer),
            _ => Err(None),
        }
    }
}

/// The settings of a zone for catalogs, as written.
pub(super) struct CatalogSettings {
    pub(super) catalog: Setting<Text<CatalogSetting>>,
    pub(super) member_of: Setting<String>,
    pub(super) group: Setting<String>,
}

/// Validates the settings.
pub(super) fn role(settings: CatalogSettings, check: &mut Check) -> CatalogRole {
    let CatalogSettings { catalog, member_of, group } = settings;
    let (member_at, group_at) = (member_of.span().unwrap_or_default(), group.span());
    let kind = check.take(catalog).map_or(CatalogSetting::No, |Text(kind)| kind);
    let member_of = check.take(member_of).filter(|name| !name.is_empty());
    let member_of = member_of.and_then(|text| match typed_name(&text) {
        Ok(name) => Some(name.to_ascii_lowercase().into_boxed_slice()),
        Err(_) => {
            check.fault(member_at.clone(), format!("expected the name of a zone, found {text:?}"));
            None
        }
    });
    let group = check.take(group).unwrap_or_default();
    if let Some(at) = group_at.filter(|_| !group.is_empty()) {
        let is_text = |octet: u8| matches!(octet, b' '..=b'~') && !matches!(octet, b'"' | b'\\');
        if group.len() > MAX_GROUP || !group.bytes().all(is_text) {
            let message = format!(
                "expected at most {MAX_GROUP} letters, digits and signs of ASCII without \" and \\"
            );
            check.fault(at, message);
        } else if member_of.is_none() {
            check.doubt(at, "without `member-of`, the group has no effect");
        }
    }
    match (kind, member_of) {
        (CatalogSetting::No, None) => CatalogRole::Plain,
        (CatalogSetting::No, Some(catalog)) => CatalogRole::Listed { catalog, group },
        (_, Some(_)) => {
            check.fault(member_at, "a catalog is no member of a catalog");
            CatalogRole::Plain
        }
        (CatalogSetting::Consumer, None) => CatalogRole::Consumer,
        (CatalogSetting::Producer, None) => CatalogRole::Producer,
    }
}

/// Returns the settings in the syntax of the configuration file.
pub(super) fn shown(role: &CatalogRole) -> [(String, Value); 3] {
    let kind = match role {
        CatalogRole::Consumer => "consumer",
        CatalogRole::Producer => "producer",
        _ => "no",
    };
    let (member_of, group) = match role {
        CatalogRole::Listed { catalog, group } => (shown_name(catalog), group.clone()),
        _ => (String::new(), String::new()),
    };
    [
        ("catalog".to_owned(), kind.into()),
        ("member-of".to_owned(), member_of.into()),
        ("group".to_owned(), group.into()),
    ]
}
