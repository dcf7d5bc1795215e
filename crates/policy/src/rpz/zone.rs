//! One policy zone, read from its file.

use std::fmt;

use avocet_wire::hash::HashKey;
use avocet_wire::master::{MasterError, MasterFile, MasterRecord};
use avocet_wire::{NameBuf, Rtype};
use ipnet::IpNet;

use super::action::{Action, LocalRecord};
use super::effects::{Drafts, Effect};
use super::names::{Gathering, Presence, Row, Stand, ZoneNames};
use super::networks::Networks;
use super::trigger::{self, Covers, Network, OwnLabels, Trigger, TriggerKind};

/// Most octets of a zone's text.
const MAX_TEXT: usize = 512 << 20;
/// Most records of triggers of a zone: with 48 octets for each of them while it is read, 400 MB.
const MAX_TRIGGER_RECORDS: usize = 8 << 20;
/// Most triggers on clients, of one zone and of all together: whoever they tell apart has answers
/// of his own in the packet cache.
pub(crate) const MAX_CLIENTS: usize = 4096;
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
    /// An alias below a top-level domain `rpz-...` is an action, and this one does not exist (draft
    /// §2, §3.6).
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
            Self::NoSoa => {
                f.write_str("no SOA record stands before this; names are taken as they are written")
            }
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

    /// Takes in faults that are found when all has been read, on lines among the others.
    fn late_faults(&mut self, faults: Vec<(u32, ZoneReason)>) {
        self.faults += faults.len() as u64;
        self.first_faults
            .extend(faults.into_iter().map(|(line, reason)| ZoneFault { line, reason }));
        self.first_faults.sort_by_key(|fault| fault.line);
        self.first_faults.truncate(MAX_FAULTS_KEPT);
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
    /// What its triggers do, each once.
    effects: Box<[Effect]>,
    /// How many there are of each kind.
    triggers: [u64; 5],
    /// Those on addresses, by the numbers that networks have for them.
    of_addresses: Box<[Row]>,
    networks: NetworkTriggers,
    /// Those on names, until they are in the table of all zones.
    names: Option<NameTriggers>,
}

/// Triggers on names.
pub(super) struct NameTriggers {
    pub(super) qnames: ZoneNames,
    pub(super) nsnames: ZoneNames,
}

/// Triggers on addresses.
#[derive(Default)]
struct NetworkTriggers {
    clients: Networks,
    answers: Networks,
    nsaddresses: Networks,
    /// How many there are of all kinds.
    count: u32,
}

impl Zone {
    /// Reads a zone, the origin of which is where its SOA record stands. Faults cost their entry
    /// alone.
    #[must_use]
    pub fn read(text: &[u8], rewrites: ZoneRewrites, hash_key: HashKey) -> (Self, ZoneReport) {
        let mut report = ZoneReport { is_cut: text.len() > MAX_TEXT, ..ZoneReport::default() };
        let mut reading = Reading::new(rewrites, hash_key);
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        let mut file = MasterFile::new(&text[..text.len().min(MAX_TEXT)], NameBuf::ROOT);
        let mut record = MasterRecord::empty();
        while let Some((line, read)) = file.read_into(&mut record) {
            let taken = read.map_err(ZoneReason::Master);
            if let Err(reason) = taken.and_then(|()| reading.take(&record, (line, &mut report))) {
                report.fault(line, reason);
            }
        }
        (reading.finish(&mut report), report)
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

    /// Does any trigger of this kind exist?
    #[must_use]
    pub const fn has(&self, kind: TriggerKind) -> bool {
        self.triggers[kind as usize] > 0
    }

    /// Is an action of this kind taken by any trigger?
    pub(super) fn acts(&self, acts: impl Fn(&Action) -> bool) -> bool {
        self.effects.iter().any(|effect| acts(&effect.action))
    }

    /// Hands over the triggers on names; there are none afterwards.
    pub(super) fn take_names(&mut self) -> Option<NameTriggers> {
        self.names.take()
    }

    pub(super) const fn networks(&self, kind: TriggerKind) -> &Networks {
        match kind {
            TriggerKind::ClientAddress => &self.networks.clients,
            TriggerKind::NsAddress => &self.networks.nsaddresses,
            _ => &self.networks.answers,
        }
    }

    /// What the trigger on an address with this number has to say.
    pub(super) fn fired_by_address(&self, number: u32) -> Option<Fired<'_>> {
        self.fired(self.of_addresses.get(number as usize)?)
    }

    /// What a trigger has to say.
    pub(super) fn fired(&self, row: &Row) -> Option<Fired<'_>> {
        let Effect { action, ttl_secs } = self.effects.get(row.stand.effect() as usize)?;
        Some(Fired { action, line: row.line, ttl_secs: *ttl_secs })
    }
}

/// A zone while it is read.
struct Reading {
    /// The owner of the SOA record; none before that is read.
    origin: Option<NameBuf>,
    rewrites: ZoneRewrites,
    drafts: Drafts,
    qnames: Gathering,
    nsnames: Gathering,
    /// Records of triggers on addresses, by the numbers that networks have for them.
    of_addresses: Vec<Row>,
    networks: NetworkTriggers,
}

impl Reading {
    fn new(rewrites: ZoneRewrites, hash_key: HashKey) -> Self {
        Self {
            origin: None,
            rewrites,
            drafts: Drafts::default(),
            qnames: Gathering::new(hash_key),
            nsnames: Gathering::new(hash_key),
            of_addresses: Vec::new(),
            networks: NetworkTriggers::default(),
        }
    }

    fn finish(self, report: &mut ZoneReport) -> Zone {
        let Self { origin, mut drafts, qnames, nsnames, mut of_addresses, networks, .. } = self;
        let mut faults = Vec::new();
        let mut count =
            |kind: TriggerKind, rows: &[Row]| report.triggers[kind as usize] = rows.len() as u64;
        let [mut qnames, mut nsnames] =
            [(TriggerKind::Qname, qnames), (TriggerKind::NsName, nsnames)].map(|(kind, names)| {
                names.finish(|rows| {
                    drafts.merge(rows, &mut faults);
                    count(kind, rows);
                })
            });
        of_addresses.sort_by_key(Row::order);
        drafts.merge(&mut of_addresses, &mut faults);
        let rows = qnames.rows.iter_mut().chain(&mut nsnames.rows).chain(&mut of_addresses);
        let effects = drafts.finish(rows);
        report.late_faults(faults);
        let names = Some(NameTriggers { qnames, nsnames });
        Zone {
            origin,
            effects,
            triggers: report.triggers,
            of_addresses: of_addresses.into(),
            networks,
            names,
        }
    }

    fn take(
        &mut self,
        record: &MasterRecord,
        (line, report): (u32, &mut ZoneReport),
    ) -> Result<(), ZoneReason> {
        let origin = self.origin.get_or_insert_with(|| origin_at_first(record, (line, report)));
        let own = OwnLabels::of(record.owner.wire(), origin.wire()).ok_or(ZoneReason::OutOfZone)?;
        // The origin's own records are no policy, and neither are those that prove or delegate.
        let is_policy = !own.is_empty()
            && !record.rtype.is_dnssec_proof()
            && !matches!(
                record.rtype,
                Rtype::DNAME | Rtype::DNSKEY | Rtype::DS | Rtype::NS | Rtype::SOA
            );
        if !is_policy {
            report.skipped += 1;
            return Ok(());
        }
        let trigger = trigger::read(own).ok_or(ZoneReason::Trigger)?;
        if self.qnames.len() + self.nsnames.len() + self.of_addresses.len() >= MAX_TRIGGER_RECORDS {
            return Err(ZoneReason::Limit);
        }
        let effect = match self.drafts.known(record) {
            Some(effect) => effect,
            None => self.effect_of(record, &trigger)?,
        };
        match trigger {
            Trigger::Name(TriggerKind::NsName, covers, name) => {
                self.nsnames.add((covers, name), (effect, line))
            }
            Trigger::Name(_, covers, name) => self.qnames.add((covers, name), (effect, line)),
            Trigger::Address(kind, network) => {
                self.take_address((kind, network), (effect, line), report)?
            }
        }
        Ok(())
    }

    fn take_address(
        &mut self,
        (kind, network): (TriggerKind, Network),
        (effect, line): (u32, u32),
        report: &mut ZoneReport,
    ) -> Result<(), ZoneReason> {
        let count = &mut report.triggers[kind as usize];
        let networks = match kind {
            TriggerKind::ClientAddress => &mut self.networks.clients,
            TriggerKind::NsAddress => &mut self.networks.nsaddresses,
            _ => &mut self.networks.answers,
        };
        let number = match networks.number_of(network) {
            Some(number) => number,
            None if kind == TriggerKind::ClientAddress && *count >= MAX_CLIENTS as u64 => {
                return Err(ZoneReason::Limit);
            }
            None => {
                *count += 1;
                let number = self.networks.count;
                networks.add(network, number);
                self.networks.count += 1;
                number
            }
        };
        let stand = Stand::of(Presence::Name, effect);
        self.of_addresses.push(Row { subject: number.into(), stand, line });
        Ok(())
    }

    /// The number of the effect of a record.
    fn effect_of(
        &mut self,
        record: &MasterRecord,
        trigger: &Trigger<'_>,
    ) -> Result<u32, ZoneReason> {
        let action = action_of(record, trigger);
        if action.is_unheard_of() {
            return Err(ZoneReason::Action);
        }
        if self.rewrites == ZoneRewrites::Refused && action.chooses() {
            return Err(ZoneReason::RewriteRefused);
        }
        self.drafts.number_of(record, action).ok_or(ZoneReason::Limit)
    }
}

/// The origin, as the first record says, which is to be the SOA.
fn origin_at_first(record: &MasterRecord, (line, report): (u32, &mut ZoneReport)) -> NameBuf {
    if record.rtype == Rtype::SOA {
        return record.owner;
    }
    report.fault(line, ZoneReason::NoSoa);
    NameBuf::ROOT
}

/// What a record says is to be done.
fn action_of(record: &MasterRecord, trigger: &Trigger<'_>) -> Action {
    let MasterRecord { rtype, ttl_secs, rdata, .. } = record;
    let action = match *rtype {
        Rtype::CNAME => Action::of_cname(rdata),
        rtype => {
            Action::Data(vec![LocalRecord { rtype, ttl_secs: *ttl_secs, rdata: rdata[..].into() }])
        }
    };
    // An alias to the very name was how PASSTHRU was written first.
    let is_itself = matches!(trigger, Trigger::Name(TriggerKind::Qname, Covers::Name, name) if action.leads_to(name));
    if is_itself { Action::Passthru } else { action }
}

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Zone")
            .field("origin", &self.origin)
            .field("triggers", &self.triggers)
            .finish_non_exhaustive()
    }
}
