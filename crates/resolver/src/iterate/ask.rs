//! Asking the servers of a zone cut until one gives a reply of use; servers without an address are
//! looked for on the way, few at a time (S9).

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;

use avocet_dnssec::chain;
use avocet_wire::header::{AA, QR};
use avocet_wire::{Rcode, Rtype, name};

use super::addresses::{LookUps, MAX_FAILED_SERVERS, Need};
use super::channel::Note;
use super::classify::{Sort, is_malformed, sort};
use super::cut::{Cut, CutServers};
use super::fetch::{Extent, Fetched, Inquiry, Letters, Manner, NotFetched, Patience};
use super::frame::Frame;
use super::part::Part;
use super::rrset::{CachedAnswer, Name, Rrset, Side};
use super::{Silence, Walker};
use crate::exchange::endpoint::{Endpoint, Strategy, Transport};
use crate::failure::Failure;
use crate::local_root::{LocalRoot, Said};
use crate::read::ReplyRecord;
use crate::trace::{Step, Taken};

/// Most servers of a cut that may answer with an error or be lame before the cut is given up.
const MAX_BAD_REPLIES: u32 = 8;
/// Most servers of a cut that may give data that is not as its type says: most zones have the same
/// data everywhere.
pub(crate) const MAX_MALFORMED: u32 = 2;
/// Most servers of a zone that one question passes over because signatures are missing: what these
/// all do, others do, too (Unbound: 4).
const MAX_UNSIGNED: usize = 3;
/// Most servers of a zone that are asked again in lower case, where they gave errors to mixed case.
const MAX_LOWER_CASE: usize = 2;
/// Most signers of records of one question with keys that are asked for ahead.
const MAX_SIGNERS: usize = 16;
/// Bounds of the wait for one server, in ms.
const TIMEOUT_MS: (u32, u32) = (50, 2_000);

/// Who speaks where the copy of the root zone does: no server has this address.
const HERE: Endpoint = Endpoint {
    addr: SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0)),
    transport: Transport::Udp,
};

/// What the servers of a cut are asked.
#[derive(Clone, Copy)]
pub(crate) struct ZoneQuestion<'a> {
    pub(crate) name: &'a Name,
    pub(crate) rtype: Rtype,
    /// Is that all of the name in question?
    pub(crate) extent: Extent,
}

/// What the servers of a cut said.
pub(crate) enum Reply {
    /// Ask there.
    Referral(Cut),
    Part(Box<Part>),
}

/// What was tried at one cut.
#[derive(Default)]
struct Tried {
    servers: Vec<SocketAddr>,
    look_ups: LookUps,
    /// Those of `servers` that did not answer in one round.
    silent: Vec<SocketAddr>,
    bad_replies: u32,
    /// Replies with data that is not as its type says.
    malformed: u32,
    failure: Option<Failure>,
    /// What servers said that do not seem to serve the zone, or to know anything.
    hearsay: Option<Box<Part>>,
    /// What a server said before did not verify.
    is_retry: bool,
    letters: Letters,
    /// Servers whose errors may be for mixed case, to be asked in lower case.
    minding_case: Vec<Endpoint>,
    /// The first reply without signatures that were due: for want of better.
    unsigned: Option<(Inquiry, Arc<Fetched>)>,
}

impl Tried {
    fn note(&mut self, failure: Failure) {
        self.failure = self.failure.max(Some(failure));
    }

    /// Keeps a server that may answer in lower case.
    fn note_case(&mut self, inquiry: &Inquiry, fetched: &Fetched) {
        let server = inquiry.servers.iter().find(|server| **server == fetched.server);
        if let Some(server) = server
            && fetched.may_mind_case
            && self.minding_case.len() < MAX_LOWER_CASE
        {
            self.minding_case.push(*server);
        }
    }

    /// Returns whether the question fails unless a server answers in lower case.
    fn may_ask_in_lower_case(&self) -> bool {
        !self.minding_case.is_empty() && self.hearsay.is_none() && self.unsigned.is_none()
    }

    /// Takes the next server to be asked in lower case.
    fn next_in_lower_case(&mut self) -> Vec<Endpoint> {
        if !self.may_ask_in_lower_case() {
            return Vec::new();
        }
        self.letters = Letters::Lower;
        vec![self.minding_case.remove(0)]
    }

    /// Keeps what may be used for want of better: the first that says anything.
    fn note_hearsay(&mut self, part: Box<Part>) {
        if self.hearsay.as_ref().is_none_or(|known| known.is_empty()) {
            self.hearsay = Some(part);
        }
    }

    /// A server gave data that is not as its type says. An error if that is the end of it.
    fn note_malformed(&mut self, server: SocketAddr) -> Result<(), Failure> {
        self.note(Failure::Malformed);
        self.servers.push(server);
        self.malformed += 1;
        if self.malformed < MAX_MALFORMED { Ok(()) } else { Err(Failure::Malformed) }
    }

    /// The servers of an inquiry did not answer. An error if that is the end of it.
    fn note_no_reply(&mut self, inquiry: &Inquiry, why: NotFetched) -> Result<(), Failure> {
        if matches!(why, NotFetched::Exhausted | NotFetched::Crowded) {
            return Err(failure_of(why));
        }
        self.note(failure_of(why));
        let addresses = inquiry.servers.iter().map(|server| server.addr);
        if inquiry.patience != Patience::All
            && inquiry.letters == Letters::Random
            && matches!(why, NotFetched::Silence(_) | NotFetched::Unsent)
        {
            self.silent.extend(addresses.clone());
        }
        self.servers.extend(addresses);
        Ok(())
    }
}

impl Walker {
    /// Asks a cut's servers for a name and type.
    pub(crate) async fn ask(
        &mut self,
        cut: &mut Cut,
        question: ZoneQuestion<'_>,
        frame: &Frame<'_>,
    ) -> Result<Reply, Failure> {
        let ZoneQuestion { name: qname, rtype: qtype, extent } = question;
        let distrusted =
            self.distrusted.iter().filter(|(name, rtype, _)| name == qname && *rtype == qtype);
        let servers: Vec<_> = distrusted.map(|(.., addr)| *addr).collect();
        let mut tried = Tried { is_retry: !servers.is_empty(), servers, ..Tried::default() };
        loop {
            let (inquiry, fetched) =
                if let Some(said) = self.ask_local_root(cut, (qname, qtype), &tried) {
                    said
                } else {
                    let servers = self.servers_to_ask(cut, &mut tried, frame).await;
                    if servers.is_empty() {
                        return self.make_do(cut, tried);
                    }
                    let inquiry = self.inquiry(cut, question, servers, &tried, frame).await;
                    if frame.is_first() {
                        // As the walk itself will ask for them: then others join it.
                        let patience = self.patience(cut, &tried, Extent::Whole);
                        self.ask_keys_ahead(&inquiry, patience).await;
                    }
                    self.ask_signers_keys_ahead(&inquiry).await;
                    match self.io.fetch(inquiry.clone()).await {
                        Ok(fetched) => (inquiry, fetched),
                        Err(why) => {
                            self.tell_no_reply(why);
                            self.note_silence(&inquiry, why);
                            tried.note_no_reply(&inquiry, why)?;
                            if extent == Extent::Part && tried.unsigned.is_none() {
                                return Err(failure_of(why));
                            }
                            continue;
                        }
                    }
                };
            if let Some(agent) = fetched.reply.opt().agent {
                self.agents.insert(inquiry.zone.clone(), agent);
            }
            if is_malformed(&inquiry, &fetched) {
                self.io.record(Step::Taken(Taken::Unusable));
                tried.note_malformed(fetched.server.addr)?;
                continue;
            }
            let sorted = sort(&inquiry, &fetched);
            tried.servers.push(fetched.server.addr);
            tried.bad_replies += 1;
            tried.note_case(&inquiry, &fetched);
            self.rely_on(&inquiry, &fetched);
            if self.lacks_signatures(&inquiry, &fetched, &sorted) && self.has_untried(cut, &tried) {
                self.io.record(Step::Taken(Taken::Unsigned));
                tried.unsigned.get_or_insert((inquiry, fetched));
            } else if let Some(reply) =
                self.take_reply(sorted, cut, (&inquiry, &fetched), &mut tried)?
            {
                return Ok(reply);
            }
            if tried.bad_replies >= MAX_BAD_REPLIES && !tried.may_ask_in_lower_case() {
                tried.failure.get_or_insert(Failure::Unusable);
                return self.make_do(cut, Tried { hearsay: None, ..tried });
            }
        }
    }

    /// Returns the inquiry that asks `servers` of a cut a question.
    async fn inquiry(
        &mut self,
        cut: &Cut,
        question: ZoneQuestion<'_>,
        mut servers: Vec<Endpoint>,
        tried: &Tried,
        frame: &Frame<'_>,
    ) -> Inquiry {
        let manner = self.manner(cut).await;
        if manner.strategy == Strategy::Ordered {
            // Stable: the one that answered before comes first.
            servers.sort_by_key(|server| Some(server.addr) != self.relied_on);
        }
        Inquiry {
            zone: cut.zone.clone(),
            qname: question.name.clone(),
            qtype: question.rtype,
            manner,
            letters: tried.letters,
            patience: self.patience(cut, tried, question.extent),
            unanswered: self.unanswered(&cut.zone, &servers),
            servers,
            are_listed: !cut.is_named(),
            is_of_client: frame.is_first(),
        }
    }

    /// Has the rest of the question begin at the server that answered in place of a slow one, where
    /// they are asked in their order.
    fn rely_on(&mut self, inquiry: &Inquiry, fetched: &Fetched) {
        let is_answer = matches!(fetched.rcode, Rcode::NOERROR | Rcode::NXDOMAIN);
        let is_first = inquiry.servers.first().is_some_and(|first| *first == fetched.server);
        if inquiry.manner.strategy == Strategy::Ordered && is_answer && !is_first {
            self.relied_on = Some(fetched.server.addr);
        }
    }

    /// Takes a reply if it is of use, or else notes what it is worth.
    ///
    /// # Errors
    /// No other server of the zone can say more.
    fn take_reply(
        &mut self,
        sorted: Sort,
        cut: &Cut,
        (inquiry, fetched): (&Inquiry, &Fetched),
        tried: &mut Tried,
    ) -> Result<Option<Reply>, Failure> {
        self.tell_taken(&sorted);
        if sorted == Sort::Hearsay
            && let Ok(part) = self.part_of(inquiry, fetched)
        {
            tried.note_hearsay(Box::new(part));
        }
        match self.use_reply(sorted, cut, (inquiry, fetched)) {
            // Nothing at all may be the word of a server that knows nothing.
            Ok(Reply::Part(part)) if part.is_empty() => tried.note_hearsay(part),
            Ok(reply) => return Ok(Some(reply)),
            // What the zone has is too large, whoever is asked.
            Err(failure @ Failure::TooManyRecords) => return Err(failure),
            Err(failure) => tried.note(failure),
        }
        Ok(None)
    }

    /// What servers said that is of little use, where none said anything better.
    fn make_do(&mut self, cut: &Cut, tried: Tried) -> Result<Reply, Failure> {
        let failure = tried.failure.unwrap_or(Failure::NoServers);
        match &tried.unsigned {
            Some((inquiry, fetched)) => {
                self.use_reply(sort(inquiry, fetched), cut, (inquiry, fetched))
            }
            None => tried.hearsay.map(Reply::Part).ok_or(failure),
        }
    }

    /// Is an address of a server of the cut known that was not tried?
    fn has_untried(&self, cut: &Cut, tried: &Tried) -> bool {
        tried.bad_replies < MAX_BAD_REPLIES
            && self.candidates(cut).iter().any(|candidate| !tried.servers.contains(&candidate.addr))
    }

    /// Does a reply of this zone, which is signed, come without any signature, and does its server
    /// do so for the first time in this question? That shows where the zone speaks of itself: of
    /// its apex, of a zone right below it, or beside its SOA record. What else it says may be of an
    /// unsigned zone below it (RFC 4035 §5.2).
    fn lacks_signatures(&mut self, inquiry: &Inquiry, fetched: &Fetched, sorted: &Sort) -> bool {
        let Inquiry { zone, qname, manner, .. } = inquiry;
        if !manner.is_signed || !manner.dnssec_ok || fetched.server == HERE {
            return false;
        }
        let is_soa =
            |record: &ReplyRecord<'_>| record.rtype == Rtype::SOA && *record.owner == **zone;
        let is_due = match sorted {
            // One right below the apex: no other zone is between the two.
            Sort::Referral(child) => name::parent(child) == Some(&**zone),
            Sort::Answer => qname == zone || fetched.reply.records().any(|record| is_soa(&record)),
            Sort::Hearsay | Sort::Lame | Sort::Failed(_) => false,
        };
        let lacks = is_due && !fetched.reply.records().any(|record| record.rtype == Rtype::RRSIG);
        let is_new = lacks && self.note_unsigned(zone, fetched.server);
        is_new && self.unsigned.iter().filter(|(of, _)| of == zone).count() <= MAX_UNSIGNED
    }

    /// Takes note that a server left out the signatures of a zone. False if that was known to this
    /// question.
    pub(crate) fn note_unsigned(&mut self, zone: &Name, server: Endpoint) -> bool {
        let is_new = !self.unsigned.iter().any(|(of, by)| of == zone && *by == server);
        if is_new {
            self.unsigned.push((zone.clone(), server));
            self.io.note(Note::Unsigned(server, zone.clone()));
        }
        is_new
    }

    fn use_reply(
        &mut self,
        sorted: Sort,
        cut: &Cut,
        (inquiry, fetched): (&Inquiry, &Fetched),
    ) -> Result<Reply, Failure> {
        match sorted {
            Sort::Answer => match self.part_of(inquiry, fetched) {
                Ok(part) => Ok(Reply::Part(Box::new(part))),
                Err(failure) => {
                    self.io.record(Step::Taken(Taken::Unusable));
                    Err(failure)
                }
            },
            Sort::Referral(zone) => {
                let cut = self.take_referral(zone, cut, fetched);
                Ok(Reply::Referral(cut))
            }
            Sort::Hearsay => Err(Failure::Lame),
            Sort::Lame => {
                self.io.note(Note::Lame(fetched.server, inquiry.zone.clone()));
                Err(Failure::Lame)
            }
            Sort::Failed(Rcode::REFUSED) => {
                // Some refuse ANY alone.
                if inquiry.qtype != Rtype::ANY {
                    self.io.note(Note::Lame(fetched.server, inquiry.zone.clone()));
                }
                Err(Failure::Refused)
            }
            Sort::Failed(Rcode::SERVFAIL) => Err(Failure::Servfail(fetched.reply.opt().ede)),
            Sort::Failed(_) => Err(Failure::Unusable),
        }
    }

    /// What the copy of the root zone says, unless it was found to say what does not verify.
    fn ask_local_root(
        &self,
        cut: &Cut,
        (qname, qtype): (&Name, Rtype),
        tried: &Tried,
    ) -> Option<(Inquiry, Arc<Fetched>)> {
        if cut.zone.len() > 1 || !cut.is_named() || tried.servers.contains(&HERE.addr) {
            return None;
        }
        let Said { reply, rcode, is_authoritative } =
            self.local_root()?.say(qname.view(), qtype)?;
        self.io.record(Step::LocalRoot { name: qname.clone(), rtype: qtype });
        self.io.note(Note::LocalRoot);
        let flags = if is_authoritative { QR | AA } else { QR };
        let inquiry = inquiry_of(cut, (qname, qtype), Manner::OF_COPY);
        let fetched = Fetched { reply, rcode, flags, server: HERE, may_mind_case: false };
        Some((inquiry, Arc::new(fetched)))
    }

    /// The copy of the root zone, if there is one to use now.
    pub(crate) fn local_root(&self) -> Option<Arc<LocalRoot>> {
        let slot = self.recursion().local_root.as_ref()?;
        slot.at(self.io.moment().wall_secs).map(|(zone, _)| zone)
    }

    /// Has the keys of a zone asked for in the same round trip, if they will be needed.
    async fn ask_keys_ahead(&mut self, inquiry: &Inquiry, patience: Patience) {
        if self.will_need_keys(inquiry).await {
            let qname = inquiry.zone.clone();
            let keys = Inquiry { qname, qtype: Rtype::DNSKEY, patience, ..inquiry.clone() };
            self.io.note(Note::Ahead(Box::new(keys)));
        }
    }

    /// Has a forwarder asked for the keys of a zone in the round trip of its DS records, if the
    /// zone signed records of the question. A forwarder shows no cuts: otherwise each zone of the
    /// chain takes two round trips.
    async fn ask_signers_keys_ahead(&mut self, inquiry: &Inquiry) {
        let zone = &inquiry.qname;
        let is_wanted = inquiry.manner.recursion_desired
            && inquiry.qtype == Rtype::DS
            && self.signers.contains(zone)
            && !self.keys_ahead.contains(zone);
        if !is_wanted {
            return;
        }
        self.keys_ahead.push(zone.clone());
        if self.io.look_up(Side::Zone, zone, Rtype::DNSKEY).await.is_none() {
            let keys = Inquiry { qtype: Rtype::DNSKEY, ..inquiry.clone() };
            self.io.note(Note::Ahead(Box::new(keys)));
        }
    }

    /// Remembers a zone that signed records of the question.
    pub(super) fn note_signer(&mut self, zone: &Name) {
        if self.signers.len() < MAX_SIGNERS && !self.signers.contains(zone) {
            self.signers.push(zone.clone());
        }
    }

    /// Will the keys of the zone be needed, whatever its servers say? So it is where the parent has
    /// DS records that count, and nobody knows the keys.
    async fn will_need_keys(&mut self, inquiry: &Inquiry) -> bool {
        let zone = &inquiry.zone;
        let validates = !self.checking_disabled && !inquiry.manner.recursion_desired;
        let Some(validation) =
            self.validation().filter(|_| validates && inquiry.qtype != Rtype::DNSKEY)
        else {
            return false;
        };
        let is_ds = |set: &&Rrset| set.rtype == Rtype::DS && set.owner == *zone;
        let ds = self.referrals.get(zone).and_then(|sets| sets.iter().find(is_ds));
        let data: Option<Vec<&[u8]>> =
            ds.map(|set| set.records.iter().map(AsRef::as_ref).collect());
        let counts = data.is_some_and(|data| chain::check_ds(&data, validation.policy).is_ok());
        if !counts || self.keys_ahead.contains(zone) {
            return false;
        }
        self.keys_ahead.push(zone.clone());
        self.io.keys(zone).await.is_none()
            && self.io.look_up(Side::Zone, zone, Rtype::DNSKEY).await.is_none()
    }

    /// Asks servers whose addresses are known, once, for something that is not the question itself.
    pub(crate) async fn ask_once(
        &mut self,
        cut: &Cut,
        qname: &Name,
        qtype: Rtype,
    ) -> Option<Arc<Fetched>> {
        let servers = self.candidates(cut);
        let manner = self.manner(cut).await;
        let inquiry = Inquiry { servers, ..inquiry_of(cut, (qname, qtype), manner) };
        let fetched = self.io.fetch(inquiry).await.ok()?;
        (fetched.rcode == Rcode::NOERROR).then_some(fetched)
    }

    /// Servers are given up early while there are others that can be looked for.
    fn patience(&self, cut: &Cut, tried: &Tried, extent: Extent) -> Patience {
        let may_look_up = self.failed_servers < MAX_FAILED_SERVERS;
        match self.need(cut, &tried.look_ups).filter(|_| may_look_up) {
            _ if extent == Extent::Part => Patience::Shortened,
            _ if tried.letters == Letters::Lower => Patience::OneRound,
            // There is a reply to make do with.
            _ if tried.unsigned.is_some() => Patience::OneRound,
            Some(Need::NoAddress) => Patience::OneRound,
            // One that never answered is not waited for: that nothing better is known may be how
            // things are.
            _ if tried.is_retry => Patience::WhileKnown,
            Some(Need::Doubt) => Patience::WhileKnown,
            Some(Need::DeniedInPart) | None => Patience::All,
        }
    }

    fn note_silence(&mut self, inquiry: &Inquiry, why: NotFetched) {
        let NotFetched::Silence(sends) = why else { return };
        let known = self.silences.iter_mut().find(|silence| silence.zone == inquiry.zone);
        let Some(silence) = known else {
            let (zone, servers) = (inquiry.zone.clone(), inquiry.servers.clone());
            return self.silences.push(Silence { zone, servers, sends });
        };
        silence.sends += sends;
        for server in &inquiry.servers {
            if !silence.servers.contains(server) {
                silence.servers.push(*server);
            }
        }
    }

    /// How many queries these servers of a zone left unanswered before.
    fn unanswered(&self, zone: &Name, servers: &[Endpoint]) -> u32 {
        let of_zone = self.silences.iter().find(|silence| silence.zone == *zone);
        let are_known =
            |silence: &&Silence| servers.iter().all(|server| silence.servers.contains(server));
        of_zone.filter(are_known).map_or(0, |silence| silence.sends)
    }

    async fn manner(&self, cut: &Cut) -> Manner {
        let recursion = self.recursion();
        let forward = match &cut.servers {
            CutServers::Listed { forward, .. } => *forward,
            CutServers::Named(_) => None,
        };
        Manner {
            recursion_desired: forward.is_some(),
            dnssec_ok: true,
            checking_disabled: forward.is_some() && self.checking_disabled,
            strategy: forward.map_or(Strategy::Fastest, |forward| forward.strategy),
            case_randomisation: forward
                .map_or(recursion.case_randomisation, |forward| forward.case_randomisation),
            timeout_ms: forward.map_or(TIMEOUT_MS, |forward| forward.timeout_ms),
            is_signed: self.is_known_signed(&cut.zone).await,
        }
    }

    /// Is there an anchor for the zone, did its parent say that it is signed, or were its keys
    /// found?
    async fn is_known_signed(&self, zone: &Name) -> bool {
        let Some(validation) = self.validation() else { return false };
        if validation.anchors.point(zone).is_some() {
            return true;
        }
        let is_ds = |set: &Rrset| set.rtype == Rtype::DS && set.owner == *zone;
        if let Some(sets) = self.referrals.get(zone) {
            return sets.iter().any(is_ds);
        }
        match self.io.keys(zone).await {
            Some(Ok(keys)) => keys.zone().wire() == &**zone,
            Some(Err(_)) => false,
            None => matches!(
                self.io.look_up(Side::Zone, zone, Rtype::DS).await,
                Some((CachedAnswer::Set(_), _))
            ),
        }
    }

    /// As [`Walker::next_servers`]; where nobody else is left and nothing was said, those who kept
    /// silent are given more time, and at last some that gave errors are asked in lower case.
    async fn servers_to_ask(
        &mut self,
        cut: &mut Cut,
        tried: &mut Tried,
        frame: &Frame<'_>,
    ) -> Vec<Endpoint> {
        if tried.bad_replies >= MAX_BAD_REPLIES {
            return tried.next_in_lower_case();
        }
        let servers = self.next_servers(cut, tried, frame).await;
        if servers.is_empty() && tried.silent.is_empty() {
            return tried.next_in_lower_case();
        }
        let may_do_without = tried.unsigned.is_some() || tried.is_retry;
        if !servers.is_empty() || tried.silent.is_empty() || may_do_without {
            return servers;
        }
        let silent = std::mem::take(&mut tried.silent);
        tried.servers.retain(|addr| !silent.contains(addr));
        self.next_servers(cut, tried, frame).await
    }

    /// Servers of the cut that were not tried. Where none is left, the addresses of its servers are
    /// looked up.
    async fn next_servers(
        &mut self,
        cut: &mut Cut,
        tried: &mut Tried,
        frame: &Frame<'_>,
    ) -> Vec<Endpoint> {
        loop {
            let mut candidates = self.candidates(cut);
            candidates.retain(|candidate| !tried.servers.contains(&candidate.addr));
            if !candidates.is_empty() {
                return candidates;
            }
            let need = self.need(cut, &tried.look_ups);
            if need != Some(Need::NoAddress) && use_spare(cut) {
                continue;
            }
            let Some(look_up) = self.next_look_up(cut, &tried.look_ups).await else {
                return Vec::new();
            };
            if self.failed_servers >= MAX_FAILED_SERVERS {
                self.tell_limit("servers without an address");
                tried.note(Failure::TooManyServers);
                return Vec::new();
            }
            if self.look_up_server(cut, &mut tried.look_ups, look_up, frame).await {
                // Those who kept silent for a round are asked in turn with the one that was found.
                let silent = std::mem::take(&mut tried.silent);
                tried.servers.retain(|addr| !silent.contains(addr));
            } else {
                tried.note(Failure::NoServers);
            }
        }
    }
}

/// Takes the spare addresses of a cut's servers into use. False if there are none.
fn use_spare(cut: &mut Cut) -> bool {
    let CutServers::Named(servers) = &mut cut.servers else { return false };
    let had_any = servers.iter().any(|server| !server.spare.is_empty());
    for server in servers {
        server.addresses.append(&mut server.spare);
    }
    had_any
}

fn failure_of(why: NotFetched) -> Failure {
    match why {
        NotFetched::Silence(_) | NotFetched::Unsent => Failure::Silence,
        NotFetched::Unreachable => Failure::Network,
        NotFetched::Unusable => Failure::Unusable,
        NotFetched::NoServers => Failure::NoServers,
        NotFetched::Exhausted => Failure::TooManyQueries,
        NotFetched::Crowded => Failure::Crowded,
    }
}

/// An inquiry for something that is not the client's question, at servers that are still to be
/// named.
fn inquiry_of(cut: &Cut, (qname, qtype): (&Name, Rtype), manner: Manner) -> Inquiry {
    Inquiry {
        zone: cut.zone.clone(),
        qname: qname.clone(),
        qtype,
        servers: Vec::new(),
        manner,
        patience: Patience::All,
        are_listed: !cut.is_named(),
        is_of_client: false,
        letters: Letters::Random,
        unanswered: 0,
    }
}
