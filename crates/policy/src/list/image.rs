//! An opened image: see [`super::layout`].

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;

use avocet_wire::hash::HashKey;

use super::binary::Octets;
use super::layout::{self, u32_at, u64_at, u128_at};
use super::limits::{MAX_GLOBS, MAX_MODIFIERS, MAX_REGEXES};
use super::modifier::Modifiers;
use super::patterns::{PatternKind, Patterns};
use super::rewrite::Rewrite;
use super::set::ListSet;
use super::site::Sites;

/// The identifier of the answer [`Rewrite::Any`].
pub(super) const ANY_ANSWER: u32 = 0;
/// The identifier that means no answer. No set of modifiers can have an answer with this
/// identifier, because there are fewer sets.
pub(super) const NO_ANSWER: u32 = u32::MAX;

/// Maximum number of names in a bucket that are compared. With a secret hash key, no bucket reaches
/// this number.
const MAX_BUCKET: usize = 64;

/// The reason why octets are not a valid image. In each case the lists are compiled again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ImageError {
    /// The octets are not an image.
    Foreign,
    /// The image is of another version of the program.
    Version(u32),
    /// The image is truncated, or was changed after it was written.
    Torn,
    /// The image is complete, but no compiler writes such contents.
    Malformed,
}

impl fmt::Display for ImageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Foreign => f.write_str("not an image of lists"),
            Self::Version(version) => {
                write!(f, "an image with version {version}, not {}", layout::VERSION)
            }
            Self::Torn => f.write_str("the image is incomplete"),
            Self::Malformed => f.write_str("the image is malformed"),
        }
    }
}

impl std::error::Error for ImageError {}

/// Whether some entries of the image disable others (`$badfilter`).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Badfilter {
    Nowhere,
    Somewhere,
}

/// All lists, ready for look-ups. Immutable and shared by all threads.
///
/// ```
/// use avocet_policy::list::{
///     Asker, Compiler, Decision, Format, Image, Kind, ListId, ListQuestion, ListSet, Origin,
///     Rewrites, Scratch, Source,
/// };
/// use avocet_wire::Rtype;
///
/// let mut compiler = Compiler::new([7; 32]);
/// let mut reader = compiler.list(Source {
///     list: ListId::at(0).expect("the first list"),
///     kind: Kind::Block,
///     format: Some(Format::Adblock),
///     rewrites: Rewrites::Refused,
///     origin: Origin::Fetched,
/// });
/// reader.feed(b"||ads.example^\n");
/// assert_eq!(reader.finish().entries, 1);
/// let (octets, summary) = compiler.finish();
/// assert_eq!(summary.names, 1);
///
/// let image = Image::open(octets).expect("the output of a compiler");
/// let qname = b"\x01a\x03ads\x07example\x00";
/// let question = ListQuestion { qname, qtype: Rtype::A, asker: Asker::default() };
/// let mut scratch = Scratch::empty();
/// let found = image.lookup(question, &ListSet::ALL, &mut scratch);
/// assert_eq!(found.decision(), Decision::Blocked);
/// assert_eq!(found.deciding().map(|line| line.line), Some(1));
/// ```
pub struct Image<B = Vec<u8>> {
    octets: B,
    pub(super) key: HashKey,
    pub(super) depths: u128,
    pub(super) badfilter: Badfilter,
    sections: [Range<usize>; 4],
    pub(super) modifiers: Vec<Modifiers>,
    /// For each set of modifiers, the identifier of its answer. Equal answers have equal
    /// identifiers.
    pub(super) answers: Vec<u32>,
    pub(super) patterns: Patterns,
    /// For each pattern, the offset of its sites (the lines with the pattern).
    pub(super) pattern_places: Vec<u32>,
    /// The lists that have patterns.
    pub(super) with_patterns: ListSet,
    names: u64,
    pub(super) digest: u128,
}

impl<B: AsRef<[u8]>> Image<B> {
    /// Opens an image: the octets of a file, or a memory map of one. The image is checked as a
    /// whole here, and each part again when it is read.
    ///
    /// # Errors
    /// The octets are not an image, are of another version, or are incomplete.
    pub fn open(octets: B) -> Result<Self, ImageError> {
        let image = octets.as_ref();
        if image.get(..8) != Some(&layout::MAGIC[..]) {
            return Err(ImageError::Foreign);
        }
        match u32_at(image, 8).ok_or(ImageError::Torn)? {
            layout::VERSION => {}
            other => return Err(ImageError::Version(other)),
        }
        let digest = u128_at(image, layout::DIGEST).ok_or(ImageError::Torn)?;
        if image.len() < layout::HEADER || layout::digest_of(image) != digest {
            return Err(ImageError::Torn);
        }
        Self::of_whole(octets, digest).ok_or(ImageError::Malformed)
    }

    fn of_whole(octets: B, digest: u128) -> Option<Self> {
        let image = octets.as_ref();
        let secret: [u8; 32] = *image.get(layout::KEY..)?.first_chunk()?;
        let section = |number| layout::section(image, number);
        let sections =
            [layout::FILTER, layout::BUCKETS, layout::ENTRIES, layout::SITES].map(section);
        let [Some(filter), Some(buckets), Some(entries), Some(sites)] = sections else {
            return None;
        };
        let modifiers = read_modifiers(image.get(section(layout::MODIFIERS)?)?)?;
        let (patterns, pattern_places) = read_patterns(image.get(section(layout::PATTERNS)?)?)?;
        let flags = u32_at(image, layout::FLAGS)?;
        let mut with_patterns = ListSet::EMPTY;
        let all_sites = image.get(sites.clone())?;
        let lines = pattern_places.iter().flat_map(|place| Sites::at(all_sites, *place));
        lines.for_each(|site| with_patterns.insert(site.list));
        Some(Self {
            key: HashKey::new(secret),
            depths: u128_at(image, layout::DEPTHS)?,
            badfilter: if flags & layout::HAS_BADFILTER == 0 {
                Badfilter::Nowhere
            } else {
                Badfilter::Somewhere
            },
            names: u64_at(image, layout::NAMES)?,
            sections: [filter, buckets, entries, sites],
            answers: numbered_answers(&modifiers),
            modifiers,
            patterns,
            pattern_places,
            with_patterns,
            digest,
            octets,
        })
    }

    /// Returns the number of distinct names.
    #[must_use]
    pub const fn names(&self) -> u64 {
        self.names
    }

    /// Returns the number of distinct patterns.
    #[must_use]
    pub fn patterns(&self) -> usize {
        self.pattern_places.len()
    }

    /// Returns a value that identifies the image.
    #[must_use]
    pub const fn digest(&self) -> u128 {
        self.digest
    }

    /// Returns the size of the image in octets.
    #[must_use]
    pub fn octets(&self) -> usize {
        self.octets.as_ref().len()
    }

    /// Returns all sets of modifiers of the entries. Their conditions on clients must be part of a
    /// profile.
    #[must_use]
    pub fn modifiers(&self) -> &[Modifiers] {
        &self.modifiers
    }

    /// Returns the pre-filter, which excludes most names that are in no list.
    #[inline]
    pub(super) fn filter(&self) -> &[u8] {
        self.section(0)
    }

    /// Returns the offset of the sites (the lines) of the name with this hash, if the name is
    /// listed.
    pub(super) fn find(&self, hash: u64) -> Option<u32> {
        let (buckets, entries) = (self.section(1), self.section(2));
        let bucket = layout::bucket_of(hash, (buckets.len() / 4).checked_sub(1)?);
        let first = u32_at(buckets, bucket * 4)? as usize;
        let end = u32_at(buckets, bucket * 4 + 4)? as usize;
        let entries =
            entries.get(first.checked_mul(layout::ENTRY)?..end.checked_mul(layout::ENTRY)?)?;
        let (entries, _) = entries.as_chunks::<{ layout::ENTRY }>();
        let known = hash.to_le_bytes();
        entries
            .iter()
            .take(MAX_BUCKET)
            .find(|entry| entry[..8] == known)
            .and_then(|entry| u32_at(entry, 8))
    }

    /// Returns the section of the sites.
    #[inline]
    pub(super) fn sites(&self) -> &[u8] {
        self.section(3)
    }

    #[inline]
    fn section(&self, at: usize) -> &[u8] {
        self.octets.as_ref().get(self.sections[at].clone()).unwrap_or_default()
    }
}

impl<B> fmt::Debug for Image<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Image")
            .field("names", &self.names)
            .field("digest", &self.digest)
            .finish_non_exhaustive()
    }
}

fn read_modifiers(octets: &[u8]) -> Option<Vec<Modifiers>> {
    let mut octets = Octets::new(octets);
    let count = octets.count().filter(|count| *count <= MAX_MODIFIERS)?;
    let modifiers: Option<Vec<_>> =
        (0..count).map(|_| Modifiers::from_octets(&mut octets)).collect();
    modifiers.filter(|_| octets.is_empty())
}

/// Returns, for each set of modifiers, the identifier of its answer. Equal answers get equal
/// identifiers.
fn numbered_answers(modifiers: &[Modifiers]) -> Vec<u32> {
    let mut numbers = HashMap::from([(&Rewrite::Any, ANY_ANSWER)]);
    let rewrites = modifiers.iter().map(|modifiers| modifiers.rewrite.as_ref());
    let mut number_of = |rewrite| {
        let next = numbers.len() as u32;
        *numbers.entry(rewrite).or_insert(next)
    };
    rewrites.map(|rewrite| rewrite.map_or(NO_ANSWER, &mut number_of)).collect()
}

fn read_patterns(octets: &[u8]) -> Option<(Patterns, Vec<u32>)> {
    let mut octets = Octets::new(octets);
    let count = octets.count().filter(|count| *count <= MAX_GLOBS + MAX_REGEXES)?;
    let own = octets.number()?.try_into().ok().filter(|own| *own <= count)?;
    let (mut patterns, mut places) = (Vec::with_capacity(count), Vec::with_capacity(count));
    for _ in 0..count {
        let form = PatternKind::from_octet(octets.octet()?)?;
        places.push(u32::try_from(octets.number()?).ok()?);
        patterns.push((form, octets.text()?));
    }
    let regexes = patterns.iter().filter(|(form, _)| *form != PatternKind::Glob).count();
    if !octets.is_empty() || regexes > MAX_REGEXES {
        return None;
    }
    Some((Patterns::build(&patterns, own).ok()?, places))
}
