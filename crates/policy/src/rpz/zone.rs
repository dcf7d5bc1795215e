//! One policy zone, read from its file.

use std::collections::HashMap;
use std::fmt;

use avocet_wire::hash::HashKey;
use avocet_wire::master::{MasterError, MasterFile, MasterRecord};
use avocet_wire::{NameBuf, Rtype, name};
use ipnet::IpNet;

use super::action::{Action, LocalRecord};
use super::names::{Gathering, Names};
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
    /// An alias below a top-level domain `rpz-...` is an action, and this one does not exist (draft §2, §3.6).
    Action,
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
            Self::Action => f.write_str("the action does not exist"),
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

/// What is done, and for how long it may be kept.
struct Effect {
    action: Action,
    ttl_secs: u32,
}

/// A trigger's effect, by its place, and the line where it stands.
#[derive(Clone, Copy)]
struct Rule {
    effect: u32,
    line: u32,
}

/// What a trigger that fired has to say.
#[derive(Clone, Copy)]
pub(super) struct Fired<'z> {
    pub(super) action: &'z Action,
    pub(super) line: u32,
    pub(super) ttl_secs: u32,
}

/// A policy zone. Immutable.
pub struct Zone {
    /// None where it has no SOA record.
    origin: Option<NameBuf>,
    /// Those of all triggers, what most have in common once.
    effects: Box<[Effect]>,
    rules: Box<[Rule]>,
    qnames: Names,
    nsnames: Names,
    networks: NetworkTriggers,
}

/// Triggers on addresses.
#[derive(Default)]
struct NetworkTriggers {
    clients: Networks,
    answers: Networks,
    nsaddresses: Networks,
}

impl Zone {
    /// Reads a zone, the origin of which is where its SOA record stands. Faults cost their entry alone.
    #[must_use]
    pub fn read(text: &[u8], rewrites: ZoneRewrites, hash_key: HashKey) -> (Self, ZoneReport) {
        let mut report = ZoneReport { is_cut: text.len() > MAX_TEXT, ..ZoneReport::default() };
        let mut reading = Reading::new(rewrites, hash_key);
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        for (line, record) in MasterFile::new(&text[..text.len().min(MAX_TEXT)], NameBuf::ROOT) {
            let taken = record.map_err(ZoneReason::Master).and_then(|record| reading.take(record, (line, &mut report)));
            if let Err(reason) = taken {
                report.fault(line, reason);
            }
        }
        (reading.finish(), report)
    }

    /// The name of the zone; the root where it has no SOA record.
    #[must_use]
    pub fn origin(&self) -> NameBuf {
        self.origin.unwrap_or(NameBuf::ROOT)
    }

    /// The networks of its triggers on clients.
    pub fn client_networks(&self) -> impl Iterator<Item = IpNet> {
        self.networks.clients.prefixes()
    }

    /// Is an action of this kind taken by any trigger?
    pub(super) fn acts(&self, acts: impl Fn(&Action) -> bool) -> bool {
        self.effects.iter().any(|effect| acts(&effect.action))
    }

    /// Does any trigger of this kind exist?
    #[must_use]
    pub fn has(&self, kind: TriggerKind) -> bool {
        match kind {
            TriggerKind::Qname => !self.qnames.is_empty(),
            TriggerKind::NsName => !self.nsnames.is_empty(),
            kind => !self.networks(kind).is_empty(),
        }
    }

    /// The rule for a folded name, its number and the owner of the trigger, whether that is a wildcard or not:
    /// the name itself, or the wildcard at its closest encloser (RFC 4592 §3.3.1).
    #[inline]
    pub(super) fn rule_of_name<'n>(&self, kind: TriggerKind, name: &'n [u8]) -> Option<(u32, &'n [u8])> {
        if kind == TriggerKind::NsName { self.nsnames.find(name) } else { self.qnames.find(name) }
    }

    pub(super) const fn networks(&self, kind: TriggerKind) -> &Networks {
        match kind {
            TriggerKind::ClientAddress => &self.networks.clients,
            TriggerKind::NsAddress => &self.networks.nsaddresses,
            _ => &self.networks.answers,
        }
    }

    pub(super) fn fired(&self, number: u32) -> Option<Fired<'_>> {
        let Rule { effect, line } = *self.rules.get(number as usize)?;
        let Effect { action, ttl_secs } = self.effects.get(effect as usize)?;
        Some(Fired { action, line, ttl_secs: *ttl_secs })
    }
}

/// A zone while it is read.
struct Reading {
    /// The owner of the SOA record; none before that is read.
    origin: Option<NameBuf>,
    rewrites: ZoneRewrites,
    effects: Vec<Effect>,
    /// Where the effects are that further records do not change.
    shared: HashMap<(Action, u32), u32>,
    rules: Vec<Rule>,
    qnames: Gathering,
    nsnames: Gathering,
    networks: NetworkTriggers,
}

impl Reading {
    fn new(rewrites: ZoneRewrites, hash_key: HashKey) -> Self {
        Self {
            origin: None,
            rewrites,
            effects: Vec::new(),
            shared: HashMap::new(),
            rules: Vec::new(),
            qnames: Gathering::new(hash_key),
            nsnames: Gathering::new(hash_key),
            networks: NetworkTriggers::default(),
        }
    }

    fn finish(self) -> Zone {
        let Self { origin, effects, rules, qnames, nsnames, networks, .. } = self;
        let (effects, rules) = (effects.into(), rules.into());
        Zone { origin, effects, rules, qnames: qnames.finish(), nsnames: nsnames.finish(), networks }
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
            && !matches!(record.rtype, Rtype::DNAME | Rtype::DNSKEY | Rtype::DS | Rtype::NS | Rtype::SOA);
        if !is_policy {
            report.skipped += 1;
            return Ok(());
        }
        let trigger = trigger::read(own).ok_or(ZoneReason::Trigger)?;
        let action = action_of(&record, &trigger);
        if action.is_unheard_of() {
            return Err(ZoneReason::Action);
        }
        if self.rewrites == ZoneRewrites::Refused && action.chooses() {
            return Err(ZoneReason::RewriteRefused);
        }
        let kind = trigger.kind();
        if self.rules.len() >= MAX_TRIGGERS
            || kind == TriggerKind::ClientAddress && report.triggers[kind as usize] >= MAX_CLIENTS as u64
        {
            return Err(ZoneReason::Limit);
        }
        let number = self.number_of(&trigger);
        let known = self.rules.get(number as usize).map(|rule| rule.effect as usize);
        match known.and_then(|effect| self.effects.get_mut(effect)) {
            Some(known) => known.add(record),
            None => {
                let effect = self.effect_of(action, record.ttl_secs);
                self.rules.push(Rule { effect, line });
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
            Trigger::Address(TriggerKind::ClientAddress, network) => self.networks.clients.entry(*network, next),
            Trigger::Address(TriggerKind::NsAddress, network) => self.networks.nsaddresses.entry(*network, next),
            Trigger::Address(_, network) => self.networks.answers.entry(*network, next),
            Trigger::Name(TriggerKind::NsName, covers, name) => self.nsnames.entry((*covers, name), next),
            Trigger::Name(_, covers, name) => self.qnames.entry((*covers, name), next),
        }
    }

    /// The place of an effect. Local data may grow by further records, so that each has its own.
    fn effect_of(&mut self, action: Action, ttl_secs: u32) -> u32 {
        let next = self.effects.len() as u32;
        if matches!(action, Action::Data(_)) {
            self.effects.push(Effect { action, ttl_secs });
            return next;
        }
        let place = *self.shared.entry((action.clone(), ttl_secs)).or_insert(next);
        if place == next {
            self.effects.push(Effect { action, ttl_secs });
        }
        place
    }
}

/// What the first record of a trigger says is to be done.
fn action_of(record: &MasterRecord, trigger: &Trigger) -> Action {
    let MasterRecord { rtype, ttl_secs, rdata, .. } = record;
    let action = match *rtype {
        Rtype::CNAME => Action::of_cname(rdata),
        rtype => Action::Data(vec![LocalRecord { rtype, ttl_secs: *ttl_secs, rdata: rdata[..].into() }]),
    };
    // An alias to the very name was how PASSTHRU was written first.
    let is_itself = matches!(trigger, Trigger::Name(TriggerKind::Qname, Covers::Name, name) if action.leads_to(name));
    if is_itself { Action::Passthru } else { action }
}

impl Effect {
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
