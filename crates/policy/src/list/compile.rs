//! Compilation of lists into one image.

use avocet_wire::hash::HashKey;

use super::entry::{self, Effect, Entry, Target};
use super::format::Format;
use super::hash::Suffixes;
use super::limits::{MAX_ENTRIES, MAX_LINES_A_NAME, MAX_REPEATS};
use super::modifier::Limit;
use super::patterns::PatternKind;
use super::quota::Quota;
use super::reader::{Kind, ListReader, Origin, Rewrites, Source};
use super::reason::Reason;
use super::rewrite::Rewrite;
use super::set::ListId;
use super::site::{self, Follow, Site};
use super::tables::{Admission, ModifierTable, PatternTable};
use super::{filter, layout, name};
use crate::rpz;

/// Collects the entries of all lists and builds an image from them. Takes about 24 octets per
/// entry.
pub struct Compiler {
    secret: [u8; 32],
    key: HashKey,
    suffixes: Suffixes,
    names: Vec<Row>,
    depths: u128,
    entries: Quota,
    modifiers: ModifierTable,
    patterns: PatternTable<Row>,
    has_badfilter: bool,
    zones: Vec<(ListId, rpz::Zone)>,
}

/// The contents of a compiled image.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Summary {
    /// Number of distinct names.
    pub names: u64,
    /// Number of distinct patterns.
    pub patterns: u64,
    /// Number of entries that were dropped because one list has too many entries about one name.
    pub repeats: u64,
}

/// An entry of a list. It is about the name with this hash, or about the pattern with this index.
#[derive(Clone, Copy)]
struct Row {
    subject: u64,
    line: u32,
    /// Index into the table of modifiers, plus one; zero if the entry has no modifiers.
    modifiers: u32,
    list: ListId,
    head: u8,
}

const _: () = assert!(size_of::<Row>() == 24);

impl Compiler {
    /// Creates a compiler. The key of the hashes is derived from `secret`, which should be random.
    #[must_use]
    pub fn new(secret: [u8; 32]) -> Self {
        Self {
            secret,
            key: HashKey::new(secret),
            suffixes: Suffixes::empty(),
            names: Vec::new(),
            depths: 0,
            entries: Quota::of(MAX_ENTRIES, "entries").halves(),
            modifiers: ModifierTable::empty(),
            patterns: PatternTable::empty(),
            has_badfilter: false,
            zones: Vec::new(),
        }
    }

    /// Begins to read a list. Returns the reader for its text.
    pub fn list(&mut self, source: Source) -> ListReader<'_> {
        self.entries.begin_list();
        self.modifiers.begin_list();
        self.patterns.begin_list();
        ListReader::of(self, source)
    }

    /// Adds an entry.
    ///
    /// # Errors
    /// A limit is reached, the pattern is invalid, or the list lacks the permission for the entry.
    pub(super) fn add(&mut self, entry: Entry, source: &Source, line: u32) -> Result<(), Reason> {
        let rewrite = entry.modifiers.as_ref().and_then(|modifiers| modifiers.rewrite.as_ref());
        let chooses = matches!(rewrite, Some(Rewrite::Cname(_) | Rewrite::Record(..)))
            && entry.effect == Effect::Block;
        if chooses && source.rewrites == Rewrites::Refused {
            return Err(Reason::RewriteRefused);
        }
        self.entries.room_for(1, source.origin)?;
        let limit = entry.modifiers.as_ref().map_or(Limit::Nothing, |modifiers| modifiers.limit());
        let is_own = source.origin == Origin::Own;
        // Expressions that the operator wrote, such as those of Pi-hole, may cover every name, to
        // deny a group everything.
        let is_written = is_own
            && source.rewrites == Rewrites::Permitted
            && source.format == Some(Format::PiholeRegex);
        let may_be_every_name =
            limit == Limit::Named || limit == Limit::AllBut && is_own || is_written;
        if entry.target.is_every_name() && !may_be_every_name {
            return Err(Reason::Everything);
        }
        let head = head_of(&entry, source.kind);
        let modifiers = entry
            .modifiers
            .map_or(Ok(0), |modifiers| self.modifiers.place_of(*modifiers, source.origin))?;
        let row = Row { subject: 0, line, modifiers, list: source.list, head };
        let admission = Admission { origin: source.origin, may_be_every_name };
        match &entry.target {
            Target::Name(_, name) => {
                self.suffixes.of(&self.key, name.wire());
                self.depths |= 1 << name::labels(name);
                self.names.push(Row { subject: self.suffixes.whole(), ..row });
            }
            Target::Glob(text) => self.patterns.add((PatternKind::Glob, text), admission, row)?,
            Target::Regex(text) => self.patterns.add((PatternKind::Regex, text), admission, row)?,
            Target::NotRegex(text) => {
                self.patterns.add((PatternKind::NotRegex, text), admission, row)?
            }
        }
        self.has_badfilter |= head & site::BADFILTER != 0;
        self.entries.take(1);
        Ok(())
    }

    /// Adds a list that is a policy zone, which no image holds.
    ///
    /// # Errors
    /// There are too many zones.
    pub(super) fn add_zone(
        &mut self,
        source: &Source,
        text: &[u8],
    ) -> Result<rpz::ZoneReport, Reason> {
        if self.zones.len() >= rpz::MAX_POLICY_ZONES {
            return Err(Reason::Limit("policy zones"));
        }
        let rewrites = match source.rewrites {
            Rewrites::Permitted => rpz::ZoneRewrites::Permitted,
            Rewrites::Refused => rpz::ZoneRewrites::Refused,
        };
        let (zone, report) = rpz::Zone::read(text, rewrites, self.key);
        let clients = |zone: &rpz::Zone| zone.client_networks().count();
        let known: usize = self.zones.iter().map(|(_, zone)| clients(zone)).sum();
        if known + clients(&zone) > rpz::MAX_CLIENTS {
            return Err(Reason::Limit("triggers on clients"));
        }
        self.zones.push((source.list, zone));
        Ok(report)
    }

    /// Returns the policy zones among the lists, in list order.
    pub fn take_zones(&mut self) -> Vec<(ListId, rpz::Zone)> {
        let mut zones = std::mem::take(&mut self.zones);
        zones.sort_by_key(|(list, _)| *list);
        zones
    }

    /// Builds the image.
    #[must_use]
    pub fn finish(mut self) -> (Vec<u8>, Summary) {
        self.names.sort_unstable_by_key(Row::order);
        let count = self.names.chunk_by(|a, b| a.subject == b.subject).count();
        let mut out = Sections::for_names(count);
        for rows in self.names.chunk_by(|a, b| a.subject == b.subject) {
            out.name(rows);
        }
        drop(std::mem::take(&mut self.names));
        let of_patterns = std::mem::replace(&mut self.patterns, PatternTable::empty());
        let (count_of_patterns, patterns) = (
            of_patterns.len(),
            of_patterns.write(|mut rows| {
                rows.sort_unstable_by_key(Row::order);
                out.sites(&rows)
            }),
        );
        let flags = if self.has_badfilter { layout::HAS_BADFILTER } else { 0 };
        let summary = Summary {
            names: count as u64,
            patterns: count_of_patterns as u64,
            repeats: out.repeats,
        };
        let sections = out.finish(self.modifiers.write(), patterns);
        (layout::assemble(flags, &self.secret, self.depths, count as u64, sections), summary)
    }
}

/// Returns the scope and the marks of an entry, encoded as in the image's sites (the lines about a
/// name).
fn head_of(entry: &Entry, kind: Kind) -> u8 {
    let scope = match &entry.target {
        Target::Name(scope, _) => scope.bits(),
        _ => entry::Scope::Subtree.bits(),
    };
    let mark = |is: bool, mark: u8| if is { mark } else { 0 };
    let allows = entry.effect == Effect::Allow || kind == Kind::Allow;
    scope
        | mark(allows, site::ALLOW)
        | mark(!allows && entry.marks & entry::GIVEN != 0, site::GIVEN)
        | mark(entry.marks & entry::IMPORTANT != 0, site::IMPORTANT)
        | mark(entry.marks & entry::BADFILTER != 0, site::BADFILTER)
        | mark(kind == Kind::Allow, site::ALLOW_LIST)
}

impl Row {
    /// Returns the sort key of a row. Rows about the same name or pattern are next to each other.
    /// Among these, rows that differ only in the line are next to each other.
    fn order(&self) -> (u64, ListId, u8, u32, u32) {
        (self.subject, self.list, self.head, self.modifiers, self.line)
    }

    fn says_as(&self, other: &Self) -> bool {
        (self.list, self.head, self.modifiers) == (other.list, other.head, other.modifiers)
    }

    fn site(&self) -> Site {
        Site {
            head: self.head,
            list: self.list,
            line: self.line,
            modifiers: self.modifiers.checked_sub(1),
        }
    }
}

/// The sections of the image about names, while the compiler writes them.
struct Sections {
    filter: Vec<u8>,
    /// For each bucket so far, the index of its first name.
    buckets: Vec<u8>,
    bucket_count: usize,
    entries: Vec<u8>,
    sites: Vec<u8>,
    repeats: u64,
}

impl Sections {
    fn for_names(names: usize) -> Self {
        let bucket_count = layout::buckets_for(names);
        Self {
            filter: vec![0; filter::octets_for(names)],
            buckets: Vec::with_capacity((bucket_count + 1) * 4),
            bucket_count,
            entries: Vec::with_capacity(names * layout::ENTRY),
            sites: Vec::with_capacity(names * 5),
            repeats: 0,
        }
    }

    fn name(&mut self, rows: &[Row]) {
        let Some(first) = rows.first() else { return };
        self.begin_buckets(layout::bucket_of(first.subject, self.bucket_count));
        filter::insert(&mut self.filter, first.subject);
        let place = self.sites(rows);
        self.entries.extend_from_slice(&first.subject.to_le_bytes());
        self.entries.extend_from_slice(&place.to_le_bytes());
    }

    /// Writes the start of each bucket up to this one.
    fn begin_buckets(&mut self, bucket: usize) {
        let names = (self.entries.len() / layout::ENTRY) as u32;
        while self.buckets.len() / 4 <= bucket {
            self.buckets.extend_from_slice(&names.to_le_bytes());
        }
    }

    /// Writes the sites (lines) of one name or pattern, ordered by list and line, those with
    /// `$badfilter` first. Returns their offset.
    fn sites(&mut self, rows: &[Row]) -> u32 {
        // There are at most 16 Mi entries of at most 11 octets, so an offset fits into 32 bits.
        let place = self.sites.len() as u32;
        let mut kept: Vec<&Row> = Vec::new();
        for of_list in rows.chunk_by(|a, b| a.list == b.list) {
            let different =
                of_list.chunk_by(Row::says_as).flat_map(|same| same.iter().take(MAX_REPEATS));
            let before = kept.len();
            kept.extend(different.take(MAX_LINES_A_NAME));
            self.repeats += (of_list.len() - (kept.len() - before)) as u64;
        }
        kept.sort_unstable_by_key(|row| (row.head & site::BADFILTER == 0, row.list, row.line));
        for (at, row) in kept.iter().enumerate() {
            let follow = if at + 1 < kept.len() { Follow::More } else { Follow::None };
            row.site().write(follow, &mut self.sites);
        }
        place
    }

    fn finish(mut self, modifiers: Vec<u8>, patterns: Vec<u8>) -> [Vec<u8>; layout::COUNT] {
        self.begin_buckets(self.bucket_count);
        [self.filter, self.buckets, self.entries, self.sites, modifiers, patterns]
    }
}
