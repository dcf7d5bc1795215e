//! Lists in, one image out.

use std::collections::{HashMap, HashSet};

use avocet_wire::hash::HashKey;
use ipnet::IpNet;

use super::binary::Write;
use super::entry::{self, Effect, Entry, Target};
use super::filter;
use super::hash::Suffixes;
use super::layout;
use super::limits::{
    MAX_CLIENT_NETWORKS, MAX_ENTRIES, MAX_GLOBS, MAX_MODIFIER_OCTETS, MAX_MODIFIERS, MAX_REGEXES, MAX_REGEXES_OCTETS,
    MAX_REPEATS, MAX_SHARING_LITERAL, MAX_UNFILTERED,
};
use super::modifier::{ClientTest, Modifiers};
use super::name;
use super::patterns::{self, Checked, Form, PatternError};
use super::reader::{Kind, ListReader, Rewrites, Source};
use super::report::Reason;
use super::rewrite::Rewrite;
use super::set::ListId;
use super::site::{self, Follow, Site};
use crate::rpz;

/// Takes the entries of all lists and makes one image of them. About 24 octets for each entry.
pub struct Compiler {
    secret: [u8; 32],
    key: HashKey,
    suffixes: Suffixes,
    names: Vec<Row>,
    depths: u128,
    modifiers: Table,
    patterns: PatternTable,
    has_badfilter: bool,
    zones: Vec<(ListId, rpz::Zone)>,
}

/// What an image was made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Summary {
    /// Different names.
    pub names: u64,
    /// Different patterns.
    pub patterns: u64,
    /// Entries that are not kept with their line, as the same list says the same of a name too often.
    pub repeats: u64,
}

/// An entry about the name of this hash, or about the pattern of this number.
#[derive(Clone, Copy)]
struct Row {
    subject: u64,
    line: u32,
    /// Place in the table of modifiers plus one; zero for none.
    modifiers: u32,
    list: ListId,
    head: u8,
}

const _: () = assert!(size_of::<Row>() == 24);

impl Compiler {
    /// A compiler whose hashes are keyed with 32 octets of randomness.
    #[must_use]
    pub fn new(secret: [u8; 32]) -> Self {
        Self {
            secret,
            key: HashKey::new(secret),
            suffixes: Suffixes::empty(),
            names: Vec::new(),
            depths: 0,
            modifiers: Table::default(),
            patterns: PatternTable::default(),
            has_badfilter: false,
            zones: Vec::new(),
        }
    }

    /// Begins to read a list.
    pub fn list(&mut self, source: Source) -> ListReader<'_> {
        ListReader::of(self, source)
    }

    /// Adds an entry.
    ///
    /// # Errors
    /// A limit is reached, the pattern is wrong, or the list may not say this.
    pub(super) fn add(&mut self, entry: Entry, source: &Source, line: u32) -> Result<(), Reason> {
        let rewrite = entry.modifiers.as_ref().and_then(|modifiers| modifiers.rewrite.as_ref());
        let chooses = matches!(rewrite, Some(Rewrite::Cname(_) | Rewrite::Record(..))) && entry.effect == Effect::Block;
        if chooses && source.rewrites == Rewrites::Refused {
            return Err(Reason::RewriteRefused);
        }
        if self.names.len() + self.patterns.rows.len() >= MAX_ENTRIES {
            return Err(Reason::Limit("entries"));
        }
        let restricted = entry.modifiers.as_ref().is_some_and(|modifiers| modifiers.restrict());
        let head = head_of(&entry, source.kind);
        let modifiers = entry.modifiers.map_or(Ok(0), |modifiers| self.modifiers.place_of(*modifiers))?;
        let row = Row { subject: 0, line, modifiers, list: source.list, head };
        self.has_badfilter |= row.head & site::BADFILTER != 0;
        match &entry.target {
            Target::Name(_, name) => {
                self.suffixes.of(&self.key, name.wire());
                self.depths |= 1 << name::labels(name);
                self.names.push(Row { subject: self.suffixes.whole(), ..row });
            }
            Target::Glob(text) => self.patterns.add(Form::Glob, text, restricted, row)?,
            Target::Regex(text) => self.patterns.add(Form::Regex, text, restricted, row)?,
            Target::NotRegex(text) => self.patterns.add(Form::NotRegex, text, restricted, row)?,
        }
        Ok(())
    }

    /// Adds the list that is a policy zone, which no image holds.
    ///
    /// # Errors
    /// There are too many of them.
    pub(super) fn add_zone(&mut self, source: &Source, text: &[u8]) -> Result<rpz::ZoneReport, Reason> {
        if self.zones.len() >= rpz::MAX_ZONES {
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

    /// The policy zones among the lists, in the order in which they were read.
    pub fn take_zones(&mut self) -> Vec<(ListId, rpz::Zone)> {
        std::mem::take(&mut self.zones)
    }

    /// The image.
    #[must_use]
    pub fn finish(mut self) -> (Vec<u8>, Summary) {
        self.names.sort_unstable_by_key(Row::order);
        let count = self.names.chunk_by(|a, b| a.subject == b.subject).count();
        let mut out = Sections::for_names(count);
        for rows in self.names.chunk_by(|a, b| a.subject == b.subject) {
            out.name(rows);
        }
        drop(std::mem::take(&mut self.names));
        let patterns = self.patterns.write(&mut out);
        let flags = if self.has_badfilter { layout::HAS_BADFILTER } else { 0 };
        let summary = Summary { names: count as u64, patterns: self.patterns.texts.len() as u64, repeats: out.repeats };
        drop(std::mem::take(&mut self.patterns));
        let sections = out.finish(self.modifiers.write(), patterns);
        (layout::assemble(flags, &self.secret, self.depths, count as u64, sections), summary)
    }
}

/// Scope and marks of an entry as its sites have them.
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
    /// By subject; then so that what says the same is together.
    fn order(&self) -> (u64, ListId, u8, u32, u32) {
        (self.subject, self.list, self.head, self.modifiers, self.line)
    }

    fn says_as(&self, other: &Self) -> bool {
        (self.list, self.head, self.modifiers) == (other.list, other.head, other.modifiers)
    }

    fn site(&self) -> Site {
        Site { head: self.head, list: self.list, line: self.line, modifiers: self.modifiers.checked_sub(1) }
    }
}

/// The sections about names, as they grow.
struct Sections {
    filter: Vec<u8>,
    /// First name of each bucket so far.
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

    /// Notes where all buckets begin up to this one.
    fn begin_buckets(&mut self, bucket: usize) {
        let names = (self.entries.len() / layout::ENTRY) as u32;
        while self.buckets.len() / 4 <= bucket {
            self.buckets.extend_from_slice(&names.to_le_bytes());
        }
    }

    /// Writes the sites of one name or pattern, and says where they begin: first what switches others
    /// off, then by list and line.
    fn sites(&mut self, rows: &[Row]) -> u32 {
        // 16 Mi entries of at most 11 octets each: an offset has 32 bits.
        let place = self.sites.len() as u32;
        let mut kept: Vec<&Row> = Vec::new();
        for same in rows.chunk_by(Row::says_as) {
            kept.extend(same.iter().take(MAX_REPEATS));
            self.repeats += same.len().saturating_sub(MAX_REPEATS) as u64;
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

/// Sets of modifiers, each once.
#[derive(Default)]
struct Table {
    /// Places plus one.
    places: HashMap<Modifiers, u32>,
    written: Vec<u8>,
    /// That entries name as clients.
    networks: HashSet<IpNet>,
}

impl Table {
    fn place_of(&mut self, modifiers: Modifiers) -> Result<u32, Reason> {
        if let Some(place) = self.places.get(&modifiers) {
            return Ok(*place);
        }
        if self.places.len() >= MAX_MODIFIERS || self.written.len() >= MAX_MODIFIER_OCTETS {
            return Err(Reason::Limit("modifiers"));
        }
        self.note_networks(&modifiers)?;
        modifiers.write(&mut self.written);
        let place = self.places.len() as u32 + 1;
        self.places.insert(modifiers, place);
        Ok(place)
    }

    fn note_networks(&mut self, modifiers: &Modifiers) -> Result<(), Reason> {
        for subject in &modifiers.clients {
            if let ClientTest::Network(network) = subject.inner()
                && !self.networks.contains(network)
            {
                if self.networks.len() >= MAX_CLIENT_NETWORKS {
                    return Err(Reason::Limit("addresses of clients"));
                }
                self.networks.insert(*network);
            }
        }
        Ok(())
    }

    fn write(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.written.len() + 8);
        out.number(self.places.len() as u64);
        out.extend_from_slice(&self.written);
        out
    }
}

/// Patterns, each once.
#[derive(Default)]
struct PatternTable {
    numbers: HashMap<(Form, Box<str>), u32>,
    texts: Vec<(Form, Box<str>)>,
    rows: Vec<Row>,
    globs: usize,
    regexes: usize,
    unfiltered: usize,
    octets: usize,
    /// How many patterns are found by a literal.
    sharing: HashMap<Vec<u8>, usize>,
}

impl PatternTable {
    fn add(&mut self, form: Form, text: &str, restricted: bool, row: Row) -> Result<(), Reason> {
        let number = match self.numbers.get(&(form, Box::from(text))) {
            Some(number) => *number,
            None => self.admit(form, text, restricted)?,
        };
        self.rows.push(Row { subject: u64::from(number), ..row });
        Ok(())
    }

    fn admit(&mut self, form: Form, text: &str, restricted: bool) -> Result<u32, Reason> {
        let (count, limit) = match form {
            Form::Glob => (&mut self.globs, MAX_GLOBS),
            Form::Regex | Form::NotRegex => (&mut self.regexes, MAX_REGEXES),
        };
        if *count >= limit {
            return Err(Reason::Limit(if form == Form::Glob { "patterns" } else { "regular expressions" }));
        }
        let checked = patterns::check(form, text)?;
        if checked.covers_everything && !restricted {
            return Err(Reason::Everything);
        }
        *count += 1;
        self.find_by(&checked)?;
        let number = self.texts.len() as u32;
        self.texts.push((form, text.into()));
        self.numbers.insert((form, text.into()), number);
        Ok(number)
    }

    /// Notes how the pattern is found.
    fn find_by(&mut self, checked: &Checked) -> Result<(), Reason> {
        if self.octets + checked.octets > MAX_REGEXES_OCTETS {
            return Err(PatternError::TooLarge.into());
        }
        match &checked.literals {
            Some(literals) => {
                if literals.iter().any(|literal| self.sharing.get(literal).is_some_and(|n| *n >= MAX_SHARING_LITERAL)) {
                    return Err(PatternError::SharedLetters.into());
                }
                for literal in literals {
                    *self.sharing.entry(literal.clone()).or_default() += 1;
                }
            }
            None if self.unfiltered >= MAX_UNFILTERED => {
                return Err(Reason::Limit("regular expressions without letters to find them by"));
            }
            None => self.unfiltered += 1,
        }
        self.octets += checked.octets;
        Ok(())
    }

    fn write(&mut self, out: &mut Sections) -> Vec<u8> {
        self.rows.sort_unstable_by_key(Row::order);
        let mut octets = Vec::new();
        octets.number(self.texts.len() as u64);
        for ((form, text), rows) in self.texts.iter().zip(self.rows.chunk_by(|a, b| a.subject == b.subject)) {
            octets.push(form.octet());
            octets.number(u64::from(out.sites(rows)));
            octets.octets(text.as_bytes());
        }
        octets
    }
}
