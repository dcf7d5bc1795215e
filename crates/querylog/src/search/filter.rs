//! The filter of a search: a time range, and a list of conditions that an entry must meet.

use std::ops::Range;

use memchr::memmem::{self, Finder};

use crate::chunk::{Chunk, Words};
use crate::column::{Int, Set, Text};
use crate::error::LogError;
use crate::search::network::ClientNetwork;
use crate::segment::{FileColumn, RowGroup};

/// A condition on one column.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Condition {
    /// The text in the column is one of these texts. Names are in lower case and end with a dot.
    Is(Text, Vec<String>),
    /// The QNAME is this name, or a name below it. The name is in lower case and ends with a dot.
    Under(String),
    /// The QNAME in presentation format, with its final dot, has this text somewhere. The text is
    /// in lower case.
    Contains(String),
    /// The client is in this network.
    Within(ClientNetwork),
    /// The set in the column has this text.
    Has(Set, String),
    /// At least one of these conditions is true.
    Any(Vec<Condition>),
}

/// The conditions on the entries that a search selects.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Filter {
    /// The range of times, in microseconds since the epoch.
    pub time_us: Range<u64>,
    /// The conditions, which an entry must all meet.
    pub conditions: Vec<Condition>,
}

impl Default for Filter {
    fn default() -> Self {
        Self { time_us: 0..u64::MAX, conditions: Vec::new() }
    }
}

/// How many entries of a chunk are in a time range: none, some or all. The result is derived from
/// the times of the first and the last entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Overlap {
    None,
    Some,
    All,
}

impl Filter {
    /// Reports whether the filter selects every entry with this text in this column. Only the
    /// columns of the QNAME and of the client are supported.
    pub(crate) fn implies(&self, column: Text, text: &str) -> bool {
        let [condition] = self.conditions.as_slice() else { return false };
        match (condition, column) {
            (
                Condition::Is(Text::Qname, _) | Condition::Under(_) | Condition::Contains(_),
                Text::Qname,
            )
            | (Condition::Is(Text::Client, _) | Condition::Within(_), Text::Client) => {
                condition.matches(text.as_bytes())
            }
            _ => false,
        }
    }

    pub(crate) fn overlap(&self, times: Range<u64>) -> Overlap {
        if times.end <= self.time_us.start || times.start >= self.time_us.end {
            Overlap::None
        } else if times.start >= self.time_us.start && times.end <= self.time_us.end {
            Overlap::All
        } else {
            Overlap::Some
        }
    }

    /// Reports whether a row group may have an entry that the filter selects, according to the
    /// group's bloom filters.
    pub(crate) fn may_match(&self, group: &RowGroup) -> bool {
        self.conditions.iter().all(|condition| condition.may_match(group))
    }

    /// Returns, for each row of a range, whether the filter selects it.
    pub(crate) fn select(
        &self,
        chunk: &Chunk,
        rows: &Range<usize>,
        overlap: Overlap,
    ) -> Result<Vec<bool>, LogError> {
        let mut wanted = vec![true; rows.len()];
        if overlap != Overlap::All {
            let times = chunk.ints(Int::Time, rows.clone())?;
            for (wanted, time) in wanted.iter_mut().zip(times) {
                *wanted &= self.time_us.contains(&(time.max(0) as u64));
            }
        }
        for condition in &self.conditions {
            // Most conditions leave only a few rows or no rows, so the remaining conditions may be
            // skipped.
            if !wanted.contains(&true) {
                break;
            }
            condition.restrict(chunk, rows.start, &mut wanted)?;
        }
        Ok(wanted)
    }
}

impl Condition {
    /// Reports whether a row group may have an entry that meets the condition.
    fn may_match(&self, group: &RowGroup) -> bool {
        match self {
            Self::Is(text @ (Text::Qname | Text::Client), wanted) => {
                wanted.iter().any(|text_| group.may_have(FileColumn::Text(*text), text_))
            }
            Self::Has(set @ Set::Lists, wanted) => group.may_have(FileColumn::Set(*set), wanted),
            Self::Any(conditions) => conditions.iter().any(|one| one.may_match(group)),
            // A bloom filter knows whole texts only. The dictionary of the row group, which is read
            // before its rows, excludes the group instead.
            Self::Is(..) | Self::Under(_) | Self::Contains(_) | Self::Within(_) | Self::Has(..) => {
                true
            }
        }
    }

    /// Removes the rows that do not meet the condition from `wanted`. The first element of `wanted`
    /// is for row `start`.
    fn restrict(&self, chunk: &Chunk, start: usize, wanted: &mut [bool]) -> Result<(), LogError> {
        let column = match self {
            Self::Is(text, _) => Words::Text(*text),
            Self::Under(_) => Words::Text(Text::Qname),
            Self::Contains(part) => {
                let part = Finder::new(part);
                let has = |text: &[u8]| part.find(text).is_some();
                return chunk.restrict(Words::Text(Text::Qname), &has, start, wanted);
            }
            Self::Within(_) => Words::Text(Text::Client),
            Self::Has(set, _) => Words::Set(*set),
            Self::Any(conditions) => {
                let mut found = vec![false; wanted.len()];
                for condition in conditions {
                    let mut left = wanted.to_vec();
                    condition.restrict(chunk, start, &mut left)?;
                    found.iter_mut().zip(left).for_each(|(found, left)| *found |= left);
                }
                wanted.copy_from_slice(&found);
                return Ok(());
            }
        };
        chunk.restrict(column, &|text: &[u8]| self.matches(text), start, wanted)
    }

    /// Reports whether a text meets the condition.
    fn matches(&self, candidate: &[u8]) -> bool {
        match self {
            Self::Is(_, texts) => texts.iter().any(|text| text.as_bytes() == candidate),
            Self::Under(zone) => is_under(candidate, zone.as_bytes()),
            Self::Contains(part) => memmem::find(candidate, part.as_bytes()).is_some(),
            Self::Within(network) => {
                std::str::from_utf8(candidate).is_ok_and(|client| network.includes(client))
            }
            Self::Has(_, text) => text.as_bytes() == candidate,
            Self::Any(conditions) => conditions.iter().any(|one| one.matches(candidate)),
        }
    }
}

/// Reports whether a name in presentation format is `zone` or is below it.
fn is_under(name: &[u8], zone: &[u8]) -> bool {
    if zone == b"." {
        return !name.is_empty();
    }
    let Some(rest) = name.strip_suffix(zone) else { return false };
    match rest.split_last() {
        None => true,
        // A dot after an odd number of backslashes is part of a label.
        Some((b'.', labels)) => {
            let escapes = labels.iter().rev().take_while(|octet| **octet == b'\\').count();
            escapes.is_multiple_of(2)
        }
        Some(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_below_a_zone_are_found_at_labels_only() {
        let check = |name: &str, zone: &str, expected: bool| {
            assert_eq!(is_under(name.as_bytes(), zone.as_bytes()), expected, "{name} {zone}");
        };
        check("example.", "example.", true);
        check("www.example.", "example.", true);
        check("notexample.", "example.", false);
        check("a\\.example.", "example.", false);
        check("a\\\\.example.", "example.", true);
        check("example.", "www.example.", false);
        check("example.", ".", true);
        check(".", ".", true);
        check("", ".", false);
    }
}
