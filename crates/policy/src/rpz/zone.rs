//! One policy zone, read from its file.

use std::collections::HashMap;
use std::fmt;

use avocet_wire::hash::HashKey;
use avocet_wire::master::{MasterError, MasterFile, MasterRecord};
use avocet_wire::{NameBuf, Rtype, name};
use ipnet::IpNet;

use super::action::{Action, LocalRecord};
use super::networks::Networks;
use super::trigger::{self, Covers, Trigger, TriggerKind};

/// Most octets of a zone's text.
const MAX_TEXT: usize = 512 << 20;
/// Most triggers of a zone.
const MAX_TRIGGERS: usize = 8 << 20;
/// Most triggers on clients, of one zone and of all together: whoever they tell apart has answers of his own in the
/// packet cache.
pub(crate) const MAX_CLIENTS: usize = 4096;
/// Most records of local data of one trigger.
const MAX_RECORDS: usize = 48;
/// Faults that are kept with line and reason; the others are only counted.
const MAX_FAULTS_KEPT: usize = 100;

/// Why an entry of a policy zone was not taken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ZoneReason {
    /// It is no record.
    Master(MasterError),
    /// The owner is not in the zone.
    OutOfZone,
    /// The owner is no trigger.
    Trigger,
    /// A CNAME beside other records.
    CnameAndOther,
    /// Records or an alias of its choice, and the zone is not trusted with such.
    RewriteRefused,
    /// No SOA record says of which zone the first record is: names are taken as they are written.
    NoSoa,
    /// There is too much of it.
    Limit,
}

impl fmt::Display for ZoneReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Master(error) => error.fmt(f),
            Self::OutOfZone => f.write_str("the owner is not in the zone"),
            Self::Trigger => f.write_str("the owner is no trigger"),
            Self::CnameAndOther => f.write_str("a CNAME stands beside other records"),
            Self::RewriteRefused => f.write_str("the list may block only, not choose answers"),
            Self::NoSoa => f.write_str("no SOA record stands before this; names are taken as they are written"),
            Self::Limit => f.write_str("there are too many triggers, or too many records for one"),
        }
    }
}

/// An entry that was not taken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ZoneFault {
    /// The line where it begins, from 1.
    pub line: u32,
    /// What is wrong with it.
    pub reason: ZoneReason,
}

/// What came out of reading a policy zone.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ZoneReport {
    /// How many triggers there are of each kind, in the order of [`TriggerKind::ALL`].
    pub triggers: [u64; 5],
    /// Records that say nothing of policy, such as those of the origin.
    pub skipped: u64,
    /// Entries that were not taken.
    pub faults: u64,
    /// The first of these.
    pub first_faults: Vec<ZoneFault>,
    /// Whether the text is larger than is read.
    pub is_cut: bool,
}

impl ZoneReport {
    fn fault(&mut self, line: u32, reason: ZoneReason) {
        self.faults += 1;
        if self.first_faults.len() < MAX_FAULTS_KEPT {
            self.first_faults.push(ZoneFault { line, reason });
        }
    }
}

/// Whether the zone may answer with records and aliases of its choice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ZoneRewrites {
    /// It may.
    Permitted,
    /// It may block, let through, drop and truncate; its local data are faults.
    Refused,
}

/// What stands at a name: triggers for it and for what is below it, or nothing but names below.
#[derive(Clone, Copy, Default)]
struct Node {
    exact: Option<u32>,
    below: Option<u32>,
}

/// A trigger's action and where it stands.
pub(super) struct Rule {
    pub(super) action: Action,
    pub(super) line: u32,
    pub(super) ttl_secs: u32,
}

type Names = HashMap<Box<[u8]>, Node, HashKey>;

/// A policy zone. Immutable.
pub struct Zone {
    /// The owner of the SOA record; none before that is read.
    origin: Option<NameBuf>,
    rewrites: ZoneRewrites,
    rules: Vec<Rule>,
    qnames: Names,
    nsnames: Names,
    clients: Networks,
    answers: Networks,
    nsaddresses: Networks,
}

impl Zone {
    /// Reads a zone, the origin of which is where its SOA record stands. Faults cost their entry alone.
    #[must_use]
    pub fn read(text: &[u8], rewrites: ZoneRewrites, hash_key: HashKey) -> (Self, ZoneReport) {
        let mut report = ZoneReport { is_cut: text.len() > MAX_TEXT, ..ZoneReport::default() };
        let mut zone = Self {
            origin: None,
            rewrites,
            rules: Vec::new(),
            qnames: Names::with_hasher(hash_key),
            nsnames: Names::with_hasher(hash_key),
            clients: Networks::default(),
            answers: Networks::default(),
            nsaddresses: Networks::default(),
        };
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        for (line, record) in MasterFile::new(&text[..text.len().min(MAX_TEXT)], NameBuf::ROOT) {
            let taken = record.map_err(ZoneReason::Master).and_then(|record| zone.take(record, (line, &mut report)));
            if let Err(reason) = taken {
                report.fault(line, reason);
            }
        }
        (zone, report)
    }

    /// The name of the zone; the root where it has no SOA record.
    #[must_use]
    pub fn origin(&self) -> NameBuf {
        self.origin.unwrap_or(NameBuf::ROOT)
    }

    /// The networks of its triggers on clients.
    pub fn client_networks(&self) -> impl Iterator<Item = IpNet> {
        self.clients.prefixes()
    }

    /// Is an action of this kind taken by any trigger?
    pub(super) fn acts(&self, acts: impl Fn(&Action) -> bool) -> bool {
        self.rules.iter().any(|rule| acts(&rule.action))
    }

    /// Does any trigger of this kind exist?
    #[must_use]
    pub fn has(&self, kind: TriggerKind) -> bool {
        match kind {
            TriggerKind::ClientAddress => !self.clients.is_empty(),
            TriggerKind::Qname => !self.qnames.is_empty(),
            TriggerKind::AnswerAddress => !self.answers.is_empty(),
            TriggerKind::NsName => !self.nsnames.is_empty(),
            TriggerKind::NsAddress => !self.nsaddresses.is_empty(),
        }
    }

    /// The rule for a folded name, its number and the owner of the trigger, whether that is a wildcard or not:
    /// the name itself, or the wildcard at its closest encloser (RFC 4592 §3.3.1).
    pub(super) fn rule_of_name<'n>(&self, kind: TriggerKind, name: &'n [u8]) -> Option<(u32, &'n [u8])> {
        let names = if kind == TriggerKind::NsName { &self.nsnames } else { &self.qnames };
        if let Some(node) = names.get(name) {
            return node.exact.map(|number| (number, name));
        }
        let encloser = name::ancestors(name).skip(1).find_map(|above| names.get(above).map(|node| (node, above)));
        encloser.and_then(|(node, above)| node.below.map(|number| (number, above)))
    }

    pub(super) const fn networks(&self, kind: TriggerKind) -> &Networks {
        match kind {
            TriggerKind::ClientAddress => &self.clients,
            TriggerKind::NsAddress => &self.nsaddresses,
            _ => &self.answers,
        }
    }

    pub(super) fn rule(&self, number: u32) -> Option<&Rule> {
        self.rules.get(number as usize)
    }

    fn take(&mut self, record: MasterRecord, (line, report): (u32, &mut ZoneReport)) -> Result<(), ZoneReason> {
        let owner = record.owner;
        let origin = self.origin_at(&record, (line, report));
        if !name::is_under(owner.wire(), origin.wire()) {
            return Err(ZoneReason::OutOfZone);
        }
        let labels: Vec<&[u8]> = name::labels(owner.wire()).collect();
        let own = &labels[..labels.len() - name::labels(origin.wire()).count()];
        // The origin's own records are no policy, and neither are those that prove or delegate.
        let is_policy = !own.is_empty()
            && !record.rtype.is_dnssec_proof()
            && !matches!(record.rtype, Rtype::DNAME | Rtype::NS | Rtype::SOA);
        if !is_policy {
            report.skipped += 1;
            return Ok(());
        }
        let trigger = trigger::read(own).ok_or(ZoneReason::Trigger)?;
        let rule = Rule::of(&record, line, &trigger);
        if self.rewrites == ZoneRewrites::Refused && rule.action.chooses() {
            return Err(ZoneReason::RewriteRefused);
        }
        let kind = trigger.kind();
        if self.rules.len() >= MAX_TRIGGERS
            || kind == TriggerKind::ClientAddress && report.triggers[kind as usize] >= MAX_CLIENTS as u64
        {
            return Err(ZoneReason::Limit);
        }
        let number = self.number_of(&trigger);
        match self.rules.get_mut(number as usize) {
            Some(known) => known.add(record),
            None => {
                self.rules.push(rule);
                report.triggers[kind as usize] += 1;
                Ok(())
            }
        }
    }

    /// The origin, as it is known when this record comes. The first record is the SOA.
    fn origin_at(&mut self, record: &MasterRecord, (line, report): (u32, &mut ZoneReport)) -> NameBuf {
        *self.origin.get_or_insert_with(|| {
            if record.rtype == Rtype::SOA {
                return record.owner;
            }
            report.fault(line, ZoneReason::NoSoa);
            NameBuf::ROOT
        })
    }

    /// The number of the trigger's rule; that of the next rule if it has none.
    fn number_of(&mut self, trigger: &Trigger) -> u32 {
        let next = self.rules.len() as u32;
        match trigger {
            Trigger::Address(TriggerKind::ClientAddress, network) => self.clients.entry(*network, next),
            Trigger::Address(TriggerKind::NsAddress, network) => self.nsaddresses.entry(*network, next),
            Trigger::Address(_, network) => self.answers.entry(*network, next),
            Trigger::Name(kind, covers, name) => {
                let names = if *kind == TriggerKind::NsName { &mut self.nsnames } else { &mut self.qnames };
                let node = node_of(names, name);
                let slot = if *covers == Covers::Name { &mut node.exact } else { &mut node.below };
                *slot.get_or_insert(next)
            }
        }
    }
}

/// The node of a name, with nodes for all names above it.
fn node_of<'n>(names: &'n mut Names, name: &[u8]) -> &'n mut Node {
    for above in name::ancestors(name).skip(1) {
        if names.contains_key(above) {
            break;
        }
        names.insert(above.into(), Node::default());
    }
    names.entry(name.into()).or_default()
}

impl Rule {
    fn of(record: &MasterRecord, line: u32, trigger: &Trigger) -> Self {
        let ttl_secs = record.ttl_secs;
        let action = match record.rtype {
            Rtype::CNAME => Action::of_cname(&record.rdata),
            rtype => Action::Data(vec![LocalRecord { rtype, ttl_secs, rdata: record.rdata[..].into() }]),
        };
        // An alias to the very name was how PASSTHRU was written first.
        let is_itself =
            matches!(trigger, Trigger::Name(TriggerKind::Qname, Covers::Name, name) if action.leads_to(name));
        Self { action: if is_itself { Action::Passthru } else { action }, line, ttl_secs }
    }

    /// Adds another record of the same trigger; one that is there already adds nothing (RFC 2181 §5).
    fn add(&mut self, record: MasterRecord) -> Result<(), ZoneReason> {
        let is_alias = record.rtype == Rtype::CNAME;
        let records = match &mut self.action {
            Action::Data(records) if !is_alias => records,
            action if is_alias && Action::of_cname(&record.rdata) == *action => return Ok(()),
            _ => return Err(ZoneReason::CnameAndOther),
        };
        if records.iter().any(|known| known.rtype == record.rtype && *known.rdata == *record.rdata) {
            return Ok(());
        }
        if records.len() >= MAX_RECORDS {
            return Err(ZoneReason::Limit);
        }
        let (rtype, ttl_secs) = (record.rtype, record.ttl_secs);
        records.push(LocalRecord { rtype, ttl_secs, rdata: record.rdata.into() });
        Ok(())
    }
}

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Zone").field("origin", &self.origin).field("rules", &self.rules.len()).finish_non_exhaustive()
    }
}
