//! Rankings of the entries that a filter selects. They are made by counting entries, because
//! roll-ups cannot be filtered.

use std::collections::HashSet;

use crate::column::{Set, Text};
use crate::entry::Outcome;
use crate::rollup::{Ranking, Top};
use crate::search::{Broken, Filter, LogReader, SearchExtent};

/// Number of entries that the ranking reads at once.
const PAGE_ENTRIES: usize = 4096;
/// Maximum number of texts that are kept, which limits the memory. The users of a household or an
/// office query fewer names.
const KEPT: usize = 1 << 16;

/// The most frequent texts of some entries.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Ranked {
    /// The texts with their counts.
    pub top: Top,
    /// Number of entries that were counted.
    pub entries: u64,
    /// The files that were skipped, or were read only in part.
    pub broken: Vec<Broken>,
}

/// Counts the texts of the entries that a filter selects. Calls `progress` occasionally with the
/// number of entries so far.
pub fn rank(
    reader: &LogReader,
    filter: &Filter,
    ranking: Ranking,
    mut progress: impl FnMut(u64),
) -> Ranked {
    let mut ranked = Ranked::default();
    let mut broken = HashSet::new();
    let mut before_id = Some(u64::MAX);
    while let Some(id) = before_id {
        let extent = SearchExtent { before_id: id, entries: PAGE_ENTRIES, max_rows: u64::MAX };
        let page = reader.search(filter, extent);
        for entry in &page.entries {
            if !ranking.takes(Outcome::named(entry.text(Text::Outcome))) {
                continue;
            }
            ranked.entries += 1;
            match ranking.column().map(|column| entry.text(column)) {
                Some("") => {}
                Some(text) => ranked.top.add(text, 1, KEPT),
                None => {
                    let lists = entry.set(Set::Lists);
                    if ranking.takes_lists(lists.len(), entry.text(Text::Rule)) {
                        lists.iter().for_each(|list| ranked.top.add(list, 1, KEPT));
                    }
                }
            }
        }
        broken.extend(page.broken);
        progress(ranked.entries);
        before_id = page.next_before_id;
    }
    ranked.broken = broken.into_iter().collect();
    ranked
}
