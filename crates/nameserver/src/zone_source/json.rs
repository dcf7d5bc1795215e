//! RRsets in JSON, in the shape of a zone in the API of PowerDNS:
//!
//! ```json
//! {"rrsets": [{"name": "www.corp.example.", "type": "A", "ttl": 300,
//!              "records": [{"content": "192.0.2.1", "disabled": false}]}]}
//! ```
//!
//! Other members are ignored. A name without a final dot is relative to the zone.

use avocet_zone::{ProvidedReading, SourceProblem, ZoneProvider};
use serde::Deserialize;

/// RRsets in JSON.
pub(super) struct RrsetDocument;

#[derive(Deserialize)]
struct Document {
    rrsets: Vec<WrittenSet>,
}

#[derive(Deserialize)]
struct WrittenSet {
    name: String,
    r#type: String,
    ttl: Option<u32>,
    records: Vec<WrittenRecord>,
}

#[derive(Deserialize)]
struct WrittenRecord {
    content: String,
    #[serde(default)]
    disabled: bool,
}

impl ZoneProvider for RrsetDocument {
    fn read(&self, source: &[u8], reading: &mut ProvidedReading<'_>) {
        let document: Document = match serde_json::from_slice(source) {
            Ok(document) => document,
            Err(error) => {
                let line = u32::try_from(error.line()).unwrap_or(0);
                return reading.fault(line, SourceProblem::Json(error.to_string()));
            }
        };
        // A source that has lost its data, or a filter that selects nothing, must not empty a zone.
        if !document.rrsets.iter().any(|set| set.records.iter().any(|record| !record.disabled)) {
            return reading.fault(0, SourceProblem::NoRecords);
        }
        for set in &document.rrsets {
            let (name, rtype) = (&set.name, &set.r#type);
            let ttl_secs = set.ttl.unwrap_or(reading.ttl_secs());
            for record in set.records.iter().filter(|record| !record.disabled) {
                let content = &record.content;
                let entry = format!("{name} {ttl_secs} IN {rtype} {content}");
                // The name and the type are single words, so that neither can contain other fields
                // of a record.
                let is_word = |text: &str| {
                    !text.is_empty() && text.bytes().all(|octet| octet.is_ascii_graphic())
                };
                let is_line = !content.chars().any(|one| one.is_control() && one != '\t');
                if is_word(name) && is_word(rtype) && is_line && !name.starts_with('$') {
                    reading.entry(0, &entry);
                } else {
                    let start = entry.chars().take(80).flat_map(char::escape_debug);
                    reading.fault(0, SourceProblem::Record(start.collect()));
                }
            }
        }
    }
}
