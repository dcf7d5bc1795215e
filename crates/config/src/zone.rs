//! `[[zone]]`: the zones that the server hosts.

use std::path::PathBuf;

use toml::{Spanned, Table, Value};

use super::check::Check;
use super::name::shown as shown_name;
use super::setting::Text;
use super::spec::ZoneSpec;

/// Seconds for which a file must stay the same before it is read.
const SETTLE_SECS: u32 = 10;

/// `[[zone]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZoneConfig {
    /// The name, folded, in wire form.
    pub name: Box<[u8]>,
    /// The master file.
    pub file: PathBuf,
    /// Seconds for which a changed file must stay the same before it is read.
    pub settle_secs: u32,
}

/// Validates the tables. Each name occurs once.
pub(super) fn zones(specs: Vec<Spanned<ZoneSpec>>, check: &mut Check) -> Vec<ZoneConfig> {
    let mut zones: Vec<ZoneConfig> = Vec::new();
    for spec in specs {
        let header = spec.span();
        let spec = spec.into_inner();
        let name = check.need("name", &header, spec.name);
        let file = check.need("file", &header, spec.file);
        let settle_secs = check.take(spec.settle_secs).map_or(SETTLE_SECS, |secs| secs.0);
        let (Some((at, Text(name))), Some((file_at, file))) = (name, file) else { continue };
        if zones.iter().any(|zone| zone.name == name) {
            check.fault(at, format!("the zone {} has another table", shown_name(&name)));
        } else if file.is_empty() {
            check.fault(file_at, "expected a file, found \"\"");
        } else {
            zones.push(ZoneConfig { name, file: check.path(file), settle_secs });
        }
    }
    zones
}

/// Returns a table in the syntax of the file.
pub(super) fn shown(zone: &ZoneConfig) -> Value {
    let entries: [(&str, Value); 3] = [
        ("name", shown_name(&zone.name).into()),
        ("file", zone.file.to_string_lossy().into_owned().into()),
        ("settle-secs", i64::from(zone.settle_secs).into()),
    ];
    entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect::<Table>().into()
}
