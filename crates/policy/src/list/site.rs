//! The sites of a name: one for each line of a list about the name, one after another.
//!
//! ```text
//! head octet: scope 0-1 | allow 2 | important 3 | modifiers 4 | badfilter 5 | more follow 7
//!             6: with allow, list of allowed names; else, an answer that is given
//! list octet, number of the modifiers if there are some, number of the line
//! ```

use super::binary::{Octets, Write};
use super::entry::Scope;
use super::set::ListId;

pub(super) const ALLOW: u8 = 1 << 2;
pub(super) const IMPORTANT: u8 = 1 << 3;
const MODIFIERS: u8 = 1 << 4;
pub(super) const BADFILTER: u8 = 1 << 5;
/// For sites that allow the name: their list is an allow list.
pub(super) const ALLOW_LIST: u8 = 1 << 6;
/// For other sites: the line supplies an answer as hosts files do. [`ALLOW_LIST`] and this meaning
/// share one bit, because they exclude each other.
pub(super) const GIVEN: u8 = ALLOW_LIST;
const MORE: u8 = 1 << 7;
const SCOPE: u8 = 3;

/// A line of a list about a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Site {
    /// The scope of the line and its marks.
    pub(super) head: u8,
    pub(super) list: ListId,
    pub(super) line: u32,
    /// Index into the table of modifiers.
    pub(super) modifiers: Option<u32>,
}

impl Site {
    pub(super) fn write(&self, follow: Follow, out: &mut Vec<u8>) {
        let modified = if self.modifiers.is_some() { MODIFIERS } else { 0 };
        let more = if follow == Follow::More { MORE } else { 0 };
        out.push(self.head & !(MODIFIERS | MORE) | modified | more);
        out.push(self.list.octet());
        if let Some(place) = self.modifiers {
            out.number(u64::from(place));
        }
        out.number(u64::from(self.line));
    }

    /// Returns the effect and the conditions of the line, without its line number and `$badfilter`.
    pub(super) const fn saying(&self) -> Saying {
        let mark = match self.head & ALLOW {
            0 => self.head & (SCOPE | IMPORTANT | GIVEN),
            _ => self.head & (SCOPE | IMPORTANT | ALLOW),
        };
        Saying { mark, modifiers: self.modifiers }
    }

    #[inline]
    pub(super) fn covers(&self, depth: usize, labels: usize) -> bool {
        Scope::covers(self.head & SCOPE, depth, labels)
    }

    /// Reports whether the site supplies an answer as hosts files do.
    pub(super) const fn is_given(&self) -> bool {
        self.head & (ALLOW | GIVEN) == GIVEN
    }

    /// Reports whether the site belongs to an allow list.
    pub(super) const fn is_of_allow_list(&self) -> bool {
        self.head & (ALLOW | ALLOW_LIST) == ALLOW | ALLOW_LIST
    }

    pub(super) const fn is(&self, mark: u8) -> bool {
        self.head & mark != 0
    }
}

/// The effect and the conditions that a line states for its name. Several lines of several lists
/// may state the same.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Saying {
    mark: u8,
    modifiers: Option<u32>,
}

/// Whether another site of the same name follows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Follow {
    More,
    None,
}

/// An iterator over the sites of a name. Ends at a malformed site.
#[derive(Clone, Copy)]
pub(super) struct Sites<'a> {
    octets: Octets<'a>,
    ended: bool,
}

impl<'a> Sites<'a> {
    /// Creates an iterator over the sites at an offset of the section.
    #[inline]
    pub(super) fn at(table: &'a [u8], offset: u32) -> Self {
        Self { octets: Octets::new(table.get(offset as usize..).unwrap_or_default()), ended: false }
    }

    /// Reads a site, and whether another site follows.
    #[inline]
    fn read(&mut self) -> Option<(Site, Follow)> {
        let (head, list) = (self.octets.octet()?, ListId::from_octet(self.octets.octet()?));
        let modifiers = match head & MODIFIERS {
            0 => None,
            _ => Some(self.octets.number()?.try_into().ok()?),
        };
        let line = self.octets.number()?.try_into().ok()?;
        let follow = if head & MORE == 0 { Follow::None } else { Follow::More };
        Some((Site { head: head & !(MORE | MODIFIERS), list, line, modifiers }, follow))
    }
}

impl Iterator for Sites<'_> {
    type Item = Site;

    #[inline]
    fn next(&mut self) -> Option<Site> {
        if self.ended {
            return None;
        }
        let read = self.read();
        self.ended = !matches!(read, Some((_, Follow::More)));
        read.map(|(site, _)| site)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sites_are_read_as_written_and_end() {
        let site =
            |head, line, modifiers| Site { head, list: ListId::at(7).unwrap(), line, modifiers };
        let all = [
            site(1, 1, None),
            site(ALLOW | IMPORTANT, 2_000_000, Some(300)),
            site(ALLOW_LIST, u32::MAX, None),
        ];
        let mut out = vec![0xff];
        all[0].write(Follow::More, &mut out);
        all[1].write(Follow::More, &mut out);
        all[2].write(Follow::None, &mut out);
        out.push(0xff);
        assert_eq!(Sites::at(&out, 1).collect::<Vec<_>>(), all);
        assert_eq!(Sites::at(&out[..6], 1).count(), 1);
        assert_eq!(Sites::at(&out, 900).count(), 0);
    }
}
