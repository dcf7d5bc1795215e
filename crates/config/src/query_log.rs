//! `[query-log]`: which queries are logged, for how long, in which directory, and how much the log
//! stores about clients.

use std::mem;
use std::path::{Path, PathBuf};

use toml::{Spanned, Table, Value};

use super::check::Check;
use super::outcome::KindDays;
use super::policy_spec::{ClientTable, GroupTable};
use super::privacy::Privacy;
use super::setting::{List, Setting, Text};
use super::spec::QueryLogSpec;

/// The default age at which an entry is removed, in days.
const DEFAULT_DAYS: u32 = 90;
/// The default size of the log, in octets: about 70 million entries.
const DEFAULT_BYTES: u64 = 1 << 30;
/// The directory of the log within the data directory.
const SUBDIRECTORY: &str = "query-log";

/// `[query-log]`, with the keys `privacy` of clients and groups.
#[derive(Debug, Clone, PartialEq)]
pub struct QueryLogConfig {
    /// Whether queries are logged.
    pub enabled: bool,
    /// The configured directory; `None` for `query-log` in the data directory.
    pub directory: Option<PathBuf>,
    /// The age in days at which entries are removed; 0 for no limit.
    pub retention_days: u32,
    /// The size in octets at which the oldest entries are removed.
    pub retention_bytes: u64,
    /// The outcomes whose entries are removed earlier.
    pub retention_outcomes: Vec<KindDays>,
    /// The details that the log stores about clients without their own setting.
    pub privacy: Privacy,
    /// The privacy of each `[[client]]`, by name.
    pub clients: Vec<NamedPrivacy>,
    /// The privacy of the members of each `[[group]]`, by name.
    pub groups: Vec<NamedPrivacy>,
}

/// The privacy of a client or of the members of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedPrivacy {
    /// The name of the `[[client]]` or `[[group]]`.
    pub name: String,
    /// The privacy.
    pub privacy: Privacy,
}

impl QueryLogConfig {
    /// Returns the directory of the log, for a server with this data directory.
    #[must_use]
    pub fn directory_in(&self, data: &Path) -> PathBuf {
        self.directory.clone().unwrap_or_else(|| data.join(SUBDIRECTORY))
    }

    /// Returns how much the log stores about a client with this name, in these groups. The setting
    /// of the client comes first, then the strictest setting of its groups, then that of
    /// `[query-log]`.
    #[must_use]
    pub fn privacy_of<'g>(
        &self,
        client: Option<&str>,
        groups: impl IntoIterator<Item = &'g str>,
    ) -> Privacy {
        let of = |all: &[NamedPrivacy], name: &str| {
            all.iter().find(|one| one.name == name).map(|one| one.privacy)
        };
        let of_groups = || groups.into_iter().filter_map(|group| of(&self.groups, group)).max();
        client.and_then(|name| of(&self.clients, name)).or_else(of_groups).unwrap_or(self.privacy)
    }
}

impl Private for ClientTable {
    fn name(&self) -> &Setting<String> {
        &self.name
    }

    fn take_privacy(&mut self) -> Setting<Text<Privacy>> {
        mem::take(&mut self.privacy)
    }
}

impl Private for GroupTable {
    fn name(&self) -> &Setting<String> {
        &self.name
    }

    fn take_privacy(&mut self) -> Setting<Text<Privacy>> {
        mem::take(&mut self.privacy)
    }
}

/// The keys of clients and groups about the query log.
pub(super) struct PrivacyTables {
    clients: Vec<NamedPrivacy>,
    groups: Vec<NamedPrivacy>,
}

/// A table with the keys `name` and `privacy`.
pub(super) trait Private {
    /// Returns the key `name`.
    fn name(&self) -> &Setting<String>;
    /// Takes the key `privacy`.
    fn take_privacy(&mut self) -> Setting<Text<Privacy>>;
}

impl PrivacyTables {
    /// Takes the keys out of the tables.
    pub(super) fn take(
        clients: &mut [Spanned<impl Private>],
        groups: &mut [Spanned<impl Private>],
        check: &mut Check,
    ) -> Self {
        Self { clients: taken(clients, check), groups: taken(groups, check) }
    }
}

fn taken(tables: &mut [Spanned<impl Private>], check: &mut Check) -> Vec<NamedPrivacy> {
    let mut all = Vec::new();
    for table in tables.iter_mut().map(Spanned::get_mut) {
        let privacy = check.take(table.take_privacy());
        let name = table.name().valid();
        all.extend(
            name.zip(privacy)
                .map(|(name, Text(privacy))| NamedPrivacy { name: name.clone(), privacy }),
        );
    }
    all
}

/// Validates the table.
pub(super) fn query_log(
    spec: QueryLogSpec,
    PrivacyTables { clients, groups }: PrivacyTables,
    check: &mut Check,
) -> QueryLogConfig {
    let retention_days = check.take(spec.retention_days).map_or(DEFAULT_DAYS, |days| days.0);
    QueryLogConfig {
        enabled: check.take(spec.enabled).unwrap_or(false),
        directory: check.optional_path(spec.directory),
        retention_days,
        retention_outcomes: retention_outcomes(spec.retention_outcomes, retention_days, check),
        retention_bytes: check
            .take(spec.retention_bytes)
            .map_or(DEFAULT_BYTES, |bytes| bytes.0 as u64),
        privacy: check.take(spec.privacy).map_or(Privacy::Full, |text| text.0),
        clients,
        groups,
    }
}

/// Validates the times of outcomes. Each outcome occurs once, and its time is shorter than the time
/// of all entries.
fn retention_outcomes(
    setting: Setting<List<Text<KindDays>>>,
    retention_days: u32,
    check: &mut Check,
) -> Vec<KindDays> {
    let mut all: Vec<KindDays> = Vec::new();
    for item in check.take(setting).map_or_else(Vec::new, |list| list.0) {
        let Text(limit) = *item.get_ref();
        let word = limit.kind.word();
        if all.iter().any(|other| other.kind == limit.kind) {
            check.fault(item.span(), format!("duplicate outcome \"{word}\""));
        } else if retention_days > 0 && limit.days > retention_days {
            let message = format!(
                "entries are removed after {retention_days} days (`retention-days`): give fewer \
                 days, or raise it"
            );
            check.fault(item.span(), message);
        } else {
            all.push(limit);
        }
    }
    all
}

/// Returns the table in the syntax of the configuration file.
pub(super) fn shown(log: &QueryLogConfig) -> Table {
    let directory = log.directory.as_ref().map(|path| path.display().to_string());
    let outcomes = log.retention_outcomes.iter();
    let outcomes = outcomes.map(|limit| format!("{}:{}", limit.kind.word(), limit.days).into());
    let entries: [(&str, Value); 6] = [
        ("enabled", log.enabled.into()),
        ("directory", directory.unwrap_or_default().into()),
        ("retention-days", log.retention_days.into()),
        ("retention-bytes", i64::try_from(log.retention_bytes).unwrap_or(i64::MAX).into()),
        ("retention-outcomes", Value::Array(outcomes.collect())),
        ("privacy", log.privacy.word().into()),
    ];
    entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// Adds the key `privacy` to the shown tables of clients or groups.
pub(super) fn show_in(tables: &mut Value, all: &[NamedPrivacy]) {
    for table in tables.as_array_mut().into_iter().flatten().filter_map(Value::as_table_mut) {
        let name = table.get("name").and_then(Value::as_str);
        if let Some(one) = all.iter().find(|one| name == Some(one.name.as_str())) {
            table.insert("privacy".to_owned(), one.privacy.word().into());
        }
    }
}
