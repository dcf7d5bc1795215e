//! Converts entries from the rings to rows of a batch: conceals clients as configured, and replaces
//! numbers with texts.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::net::IpAddr;

use avocet_wire::name::NameBuf;
use avocet_wire::{Class, Rcode, Rtype, text};

use crate::batch::{Batch, EntryRow};
use crate::column::{INTS, NULL, SETS, Set, TEXTS, Text};
use crate::entry::{Entry, Label, Labels, NO_EDE, Privacy};
use crate::privacy::Concealment;
use crate::summary::Summary;

/// Maximum number of remembered labels. Labels of earlier revisions are not used again, so the
/// whole table is cleared when it is full.
const MAX_KNOWN: usize = 1 << 14;

/// The kinds of numbers that are stored as short texts.
#[derive(Clone, Copy)]
enum Code {
    Label(Label),
    Qtype,
    Qclass,
    Rcode,
}

/// The batch that is being collected.
pub(crate) struct Collector {
    pub(crate) batch: Batch,
    concealment: Concealment,
    summary: Summary,
    /// For each label, its texts. They are kept from batch to batch.
    known: HashMap<u64, Vec<Box<str>>>,
    /// For each label, the index of its text in the batch.
    codes: HashMap<u64, u32>,
    groups: HashMap<u64, u32>,
    clients: HashMap<(IpAddr, u8), u32>,
    qnames: HashMap<Box<[u8]>, u32>,
    text: String,
    members: Vec<u32>,
}

impl Collector {
    pub(crate) fn new(concealment: Concealment) -> Self {
        Self {
            batch: Batch::default(),
            concealment,
            summary: Summary::default(),
            known: HashMap::new(),
            codes: HashMap::new(),
            groups: HashMap::new(),
            clients: HashMap::new(),
            qnames: HashMap::new(),
            text: String::new(),
            members: Vec::new(),
        }
    }

    /// Clears the batch.
    pub(crate) fn clear(&mut self) {
        self.batch.clear();
        self.codes.clear();
        self.groups.clear();
        self.clients.clear();
        self.qnames.clear();
        if self.known.len() > MAX_KNOWN {
            self.known.clear();
        }
    }

    /// Adds an entry to the batch.
    pub(crate) fn add(&mut self, entry: &Entry<'_>, labels: &dyn Labels) {
        let row = EntryRow {
            ints: ints(entry),
            texts: self.texts(entry, labels),
            sets: self.sets(entry, labels),
        };
        self.batch.rows.push(row);
    }

    fn texts(&mut self, entry: &Entry<'_>, labels: &dyn Labels) -> [u32; TEXTS] {
        let facts = &entry.facts;
        let mut texts = [0; TEXTS];
        let mut set = |text: Text, number: u32| texts[text as usize] = number;
        set(Text::Client, self.client(facts.client, facts.privacy));
        let mut code = |code: Code, number: u16| self.code(code, facts.revision, number, labels);
        let mut label = |text: Text, label: Label, number: u16| {
            set(text, code(Code::Label(label), number));
        };
        label(Text::Stage, Label::Stage, facts.stage.into());
        label(Text::Transport, Label::Transport, facts.transport.into());
        label(Text::Cache, Label::Cache, facts.cache.into());
        label(Text::Validation, Label::Validation, facts.validation.into());
        let named = [
            (Text::Listener, Label::Listener, facts.listener),
            (Text::Upstream, Label::Upstream, facts.upstream),
            (Text::Rule, Label::Rule, facts.rule),
        ];
        for (text, kind, number) in named.into_iter().filter(|(_, _, number)| *number != 0) {
            label(text, kind, number);
        }
        let may_show_device = matches!(facts.privacy, Privacy::Full | Privacy::NoNames);
        if facts.device != 0 && may_show_device {
            label(Text::Device, Label::Device, facts.device);
        }
        set(Text::Qtype, code(Code::Qtype, facts.qtype));
        set(Text::Qclass, code(Code::Qclass, facts.qclass));
        // Without a reply, there is no RCODE.
        if facts.response_size > 0 {
            set(Text::Rcode, code(Code::Rcode, facts.rcode));
        }
        set(Text::Outcome, self.batch.texts.intern(facts.outcome.name()));
        if facts.privacy != Privacy::NoNames {
            set(Text::Qname, self.qname(entry.qname));
            set(Text::Answer, self.batch.texts.intern(self.summary.of(entry)));
        }
        texts
    }

    fn sets(&mut self, entry: &Entry<'_>, labels: &dyn Labels) -> [u32; SETS] {
        let revision = entry.facts.revision;
        let mut sets = [0; SETS];
        sets[Set::Groups as usize] = self.groups(revision, entry.facts.profile, labels);
        if !entry.lists.is_empty() {
            let mut members = std::mem::take(&mut self.members);
            members.clear();
            for list in entry.lists {
                members.push(self.code(Code::Label(Label::List), revision, *list, labels));
            }
            sets[Set::Lists as usize] = self.batch.sets.intern(&members);
            self.members = members;
        }
        sets
    }

    fn groups(&mut self, revision: u32, profile: u16, labels: &dyn Labels) -> u32 {
        let key = key(Label::Groups as u64, revision, profile);
        if let Some(number) = self.groups.get(&key) {
            return *number;
        }
        let texts = known(&mut self.known, Label::Groups, (revision, profile), labels);
        let members: Vec<u32> = texts.iter().map(|text| self.batch.texts.intern(text)).collect();
        let number = self.batch.sets.intern(&members);
        self.groups.insert(key, number);
        number
    }

    fn client(&mut self, client: IpAddr, privacy: Privacy) -> u32 {
        if let Some(number) = self.clients.get(&(client, privacy as u8)) {
            return *number;
        }
        self.text.clear();
        if let Some(shown) = self.concealment.shown(client, privacy) {
            let _ = write!(self.text, "{shown}");
        }
        let number = self.batch.texts.intern(&self.text);
        self.clients.insert((client, privacy as u8), number);
        number
    }

    fn qname(&mut self, wire: &[u8]) -> u32 {
        // Most clients send names in lower case. Such names are found directly.
        if let Some(number) = self.qnames.get(wire) {
            return *number;
        }
        let Ok(name) = NameBuf::from_wire(wire) else { return 0 };
        self.text.clear();
        // Writing to a string does not fail.
        let _ = text::write_name(name.folded().wire(), &mut self.text);
        let number = self.batch.texts.intern(&self.text);
        self.qnames.insert(wire.into(), number);
        number
    }

    fn code(&mut self, code: Code, revision: u32, number: u16, labels: &dyn Labels) -> u32 {
        let (kind, revision) = match code {
            Code::Label(label) => (label as u64, revision),
            Code::Qtype => (100, 0),
            Code::Qclass => (101, 0),
            Code::Rcode => (102, 0),
        };
        let key = key(kind, revision, number);
        if let Some(number) = self.codes.get(&key) {
            return *number;
        }
        self.text.clear();
        // Writing to a string does not fail.
        let _ = match code {
            Code::Label(label) => {
                let texts = known(&mut self.known, label, (revision, number), labels);
                self.text.push_str(texts.first().map_or("", |text| text));
                Ok(())
            }
            Code::Qtype => write!(self.text, "{}", Rtype(number)),
            Code::Qclass => write!(self.text, "{}", Class(number)),
            Code::Rcode => write!(self.text, "{}", Rcode(number)),
        };
        let interned = self.batch.texts.intern(&self.text);
        self.codes.insert(key, interned);
        interned
    }
}

/// Returns the texts of a number in a revision of the configuration.
fn known<'k>(
    known: &'k mut HashMap<u64, Vec<Box<str>>>,
    label: Label,
    (revision, number): (u32, u16),
    labels: &dyn Labels,
) -> &'k [Box<str>] {
    known.entry(key(label as u64, revision, number)).or_insert_with(|| {
        let mut texts = Vec::new();
        labels.texts(revision, label, number, &mut |text| texts.push(text.into()));
        texts
    })
}

fn key(kind: u64, revision: u32, number: u16) -> u64 {
    kind << 48 | u64::from(number) << 32 | u64::from(revision)
}

fn ints(entry: &Entry<'_>) -> [i64; INTS] {
    let facts = &entry.facts;
    let rtt = facts.upstream_rtt_us;
    [
        i64::try_from(facts.time_us).unwrap_or(i64::MAX),
        facts.revision.into(),
        facts.flags.into(),
        if facts.ede == NO_EDE { NULL } else { facts.ede.into() },
        facts.response_delay_us.into(),
        if rtt == 0 { NULL } else { rtt.into() },
        facts.query_size.into(),
        facts.response_size.into(),
        facts.answer_count.into(),
    ]
}
