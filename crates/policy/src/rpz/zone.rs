//! A single policy zone, read from its file.

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

/// Maximum number of octets of a zone's text.
const MAX_TEXT: usize = 512 << 20;
/// Maximum number of trigger records of a zone. With 48 octets each while the zone is read, they
/// take 400 MB.
const MAX_TRIGGER_RECORDS: usize = 8 << 20;
/// Maximum number of triggers on client addresses, both in one zone and in all zones together. Each
/// may split the profiles of clients and thus the packet cache.
pub(crate) const MAX_CLIENTS: usize = 4096;
/// Maximum number of errors that are kept with line and reason. Further errors are only counted.
const MAX_FAULTS_KEPT: usize = 100;

/// The reason why an entry of a policy zone was rejected.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ZoneReason {
    /// The entry is not a record.
    Master(MasterError),
    /// The owner is outside the zone.
    OutOfZone,
    /// The owner is not a trigger.
    Trigger,
    /// The target is below a top-level domain `rpz-...`, which is reserved for actions, but the
    /// action is unknown (draft §2, §3.6).
    Action,
    /// The owner has a CNAME and other records.
    CnameAndOther,
    /// The entry has local data or an alias, but the zone has no permission to rewrite.
    RewriteRefused,
    /// The first record is not an SOA record, so the zone's origin is unknown and names are taken
    /// as written.
    NoSoa,
    /// A limit is exceeded.
    Limit,
}

impl fmt::Display for ZoneReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Master(error) => error.fmt(f),
            Self::OutOfZone => f.write_str("the owner is not in the zone"),
            Self::Trigger => f.write_str("the owner is not a trigger"),
            Self::Action => f.write_str("unknown action"),
            Self::CnameAndOther => f.write_str("a CNAME and other records with the same owner"),
            Self::RewriteRefused => f.write_str("the list may only block, not choose answers"),
            Self::NoSoa => {
                f.write_str("no SOA record before this line; names are taken as written")
            }
            Self::Limit => f.write_str("too many triggers, or too many records for one trigger"),
        }
    }
}

/// A rejected entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ZoneFault {
    /// The line at which the entry begins, from 1.
    pub line: u32,
    /// The reason.
    pub reason: ZoneReason,
}

/// The result of reading a policy zone.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ZoneReport {
    /// The number of triggers of each kind, in the order of [`TriggerKind::ALL`].
    pub triggers: [u64; 5],
    /// Number of records that have no effect on the policy, such as SOA and NS of the origin.
    pub skipped: u64,
    /// Number of rejected entries.
    pub faults: u64,
    /// The first rejected entries.
    pub first_faults: Vec<ZoneFault>,
    /// Whether the text exceeds the limit and was truncated.
    pub is_cut: bool,
}

impl ZoneReport {
    fn fault(&mut self, line: u32, reason: ZoneReason) {
        self.faults += 1;
        if self.first_faults.len() < MAX_FAULTS_KEPT {
            self.first_faults.push(ZoneFault { line, reason });
        }
    }

    /// Adds errors that were found after reading, at their places in the order of lines.
    fn late_faults(&mut self, faults: Vec<(u32, ZoneReason)>) {
        self.faults += faults.len() as u64;
        self.first_faults
            .extend(faults.into_iter().map(|(line, reason)| ZoneFault { line, reason }));
        self.first_faults.sort_by_key(|fault| fault.line);
        self.first_faults.truncate(MAX_FAULTS_KEPT);
    }
}

/// Whether a zone may answer with its own records and aliases.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ZoneRewrites {
    /// Rewrites are permitted.
    Permitted,
    /// The zone may only block, pass, drop and truncate. Its aliases and local data are errors.
    Refused,
}

/// A trigger that fired, with its effect.
#[derive(Clone, Copy)]
pub(super) struct Fired<'z> {
    pub(super) action: &'z Action,
    pub(super) line: u32,
    pub(super) ttl_secs: u32,
}

/// A policy zone. Immutable.
///
/// ```
/// use avocet_policy::rpz::{Action, TriggerKind, Zone, ZoneRewrites, ZoneSet, Zones};
/// use avocet_wire::hash::HashKey;
///
/// let text = b"$TTL 300\n\
///     rpz.example. SOA ns.example. host.example. 1 3600 600 86400 300\n\
///     bad.test.rpz.example. CNAME .\n\
///     32.1.2.0.192.rpz-ip.rpz.example. CNAME *.\n";
/// let (zone, report) = Zone::read(text, ZoneRewrites::Refused, HashKey::new([7; 32]));
/// assert_eq!(report.faults, 0);
///
/// let zones = Zones::of(vec![zone]).expect("few enough zones");
/// let found = zones.on_qname(ZoneSet::ALL, b"\x03bad\x04test\x00").expect("a trigger");
/// assert_eq!((found.kind, found.action), (TriggerKind::Qname, &Action::NxDomain));
/// let addresses = || [[192, 0, 2, 1].into()].into_iter();
/// let found = zones.on_answer_addresses(ZoneSet::ALL, addresses).expect("a trigger");
/// assert_eq!(found.action, &Action::NoData);
/// ```
pub struct Zone {
    /// The origin; `None` if the zone has no SOA record.
    origin: Option<NameBuf>,
    /// The distinct effects of the zone's triggers.
    effects: Box<[Effect]>,
    /// The number of triggers of each kind.
    triggers: [u64; 5],
    /// Triggers on addresses, indexed by the numbers of their networks.
    of_addresses: Box<[Row]>,
    networks: NetworkTriggers,
    /// Triggers on names, until they are moved to the common table of all zones.
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
    /// The total number of triggers.
    count: u32,
}

impl Zone {
    /// Reads a zone. The owner of its SOA record is the origin. An error in an entry affects no
    /// other entry.
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

    /// Returns the name of the zone, or the root if it has no SOA record.
    #[must_use]
    pub fn origin(&self) -> NameBuf {
        self.origin.unwrap_or(NameBuf::ROOT)
    }

    /// Returns the networks of the triggers on client addresses.
    pub fn client_networks(&self) -> impl Iterator<Item = IpNet> {
        self.networks.clients.prefixes()
    }

    /// Reports whether the zone has triggers of this kind.
    #[must_use]
    pub const fn has(&self, kind: TriggerKind) -> bool {
        self.triggers[kind as usize] > 0
    }

    /// Reports whether the action of any trigger satisfies `acts`.
    pub(super) fn acts(&self, acts: impl Fn(&Action) -> bool) -> bool {
        self.effects.iter().any(|effect| acts(&effect.action))
    }

    /// Removes the triggers on names from the zone, and returns them.
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

    /// Returns the effect of the trigger on the network with this number.
    pub(super) fn fired_by_address(&self, number: u32) -> Option<Fired<'_>> {
        self.fired(self.of_addresses.get(number as usize)?)
    }

    /// Returns the effect of a trigger.
    pub(super) fn fired(&self, row: &Row) -> Option<Fired<'_>> {
        let Effect { action, ttl_secs } = self.effects.get(row.stand.effect() as usize)?;
        Some(Fired { action, line: row.line, ttl_secs: *ttl_secs })
    }
}

/// The state of reading a zone.
struct Reading {
    /// The owner of the SOA record; `None` until the record is read.
    origin: Option<NameBuf>,
    rewrites: ZoneRewrites,
    drafts: Drafts,
    qnames: Gathering,
    nsnames: Gathering,
    /// Records of triggers on addresses, by the numbers of their networks.
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
        // Records of the origin, DNSSEC proofs and delegations are not triggers.
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

    /// Returns the index of the effect of a record.
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

/// Returns the origin, which is the owner of the first record. Reports an error if this record is
/// not an SOA record.
fn origin_at_first(record: &MasterRecord, (line, report): (u32, &mut ZoneReport)) -> NameBuf {
    if record.rtype == Rtype::SOA {
        return record.owner;
    }
    report.fault(line, ZoneReason::NoSoa);
    NameBuf::ROOT
}

/// Returns the action of a record.
fn action_of(record: &MasterRecord, trigger: &Trigger<'_>) -> Action {
    let MasterRecord { rtype, ttl_secs, rdata, .. } = record;
    let action = match *rtype {
        Rtype::CNAME => Action::of_cname(rdata),
        rtype => {
            Action::Data(vec![LocalRecord { rtype, ttl_secs: *ttl_secs, rdata: rdata[..].into() }])
        }
    };
    // An alias to the trigger's own name is the original encoding of PASSTHRU.
    let is_itself = match trigger {
        Trigger::Name(TriggerKind::Qname, Covers::Name, name) => action.leads_to(name),
        _ => false,
    };
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
