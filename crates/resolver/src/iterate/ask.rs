//! Queries the servers of a zone cut until one returns a usable reply. If servers lack addresses,
//! looks up a few of these at a time (S9 in tests/SECURITY.md).

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

/// Maximum number of servers of a zone cut that may return an error or be lame before the cut is
/// given up.
const MAX_BAD_REPLIES: u32 = 8;
/// Maximum number of servers of a zone cut that may return data that does not match its type. More
/// attempts would be useless, because most zones have the same data on all servers.
pub(crate) const MAX_MALFORMED: u32 = 2;
/// Maximum number of servers of a zone that one question skips because of missing signatures. If
/// this number of servers omits signatures, the others probably do, too (Unbound: 4).
const MAX_UNSIGNED: usize = 3;
/// Maximum number of servers of a zone that are queried again in lower case after errors in mixed
/// case.
const MAX_LOWER_CASE: usize = 2;
/// Maximum number of zones for which keys are prefetched because the zones signed records of one
/// question.
const MAX_SIGNERS: usize = 16;
/// The shortest and the longest wait for one server, in ms.
const TIMEOUT_MS: (u32, u32) = (50, 2_000);

/// The endpoint that represents the copy of the root zone in replies. No server has this address.
const HERE: Endpoint = Endpoint {
    addr: SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0)),
    transport: Transport::Udp,
};

/// A question to the servers of a zone cut.
#[derive(Clone, Copy)]
pub(crate) struct ZoneQuestion<'a> {
    pub(crate) name: &'a Name,
    pub(crate) rtype: Rtype,
    /// Whether the name is the complete name of the question, or was shortened.
    pub(crate) extent: Extent,
}

/// The result of querying the servers of a zone cut.
pub(crate) enum Reply {
    /// The servers refer to this zone cut, at which the resolution continues.
    Referral(Cut),
    Part(Box<Part>),
}

/// The servers of one zone cut that were queried so far, and the replies of these servers.
#[derive(Default)]
struct Tried {
    servers: Vec<SocketAddr>,
    look_ups: LookUps,
    /// Servers that were queried without an answer in one round; a subset of `servers`.
    silent: Vec<SocketAddr>,
    bad_replies: u32,
    /// Number of replies with data that does not match its type.
    malformed: u32,
    failure: Option<Failure>,
    /// A reply from a server that does not seem to serve the zone, or that has no data. It is used
    /// only if there is no better reply.
    hearsay: Option<Box<Part>>,
    /// Whether an earlier reply failed validation.
    is_retry: bool,
    letters: Letters,
    /// Servers that returned errors, perhaps because of mixed letter case. They can be queried in
    /// lower case.
    minding_case: Vec<Endpoint>,
    /// The first reply without the expected signatures, as a fallback.
    unsigned: Option<(Inquiry, Arc<Fetched>)>,
}

impl Tried {
    fn note(&mut self, failure: Failure) {
        self.failure = self.failure.max(Some(failure));
    }

    /// Records that a server returned an error and may answer a query in lower case.
    fn note_case(&mut self, inquiry: &Inquiry, fetched: &Fetched) {
        let server = inquiry.servers.iter().find(|server| **server == fetched.server);
        if let Some(server) = server
            && fetched.may_mind_case
            && self.minding_case.len() < MAX_LOWER_CASE
        {
            self.minding_case.push(*server);
        }
    }

    /// Returns whether servers can be queried in lower case, because there is no usable reply
    /// otherwise.
    fn may_ask_in_lower_case(&self) -> bool {
        !self.minding_case.is_empty() && self.hearsay.is_none() && self.unsigned.is_none()
    }

    /// Removes and returns the next server to query in lower case.
    fn next_in_lower_case(&mut self) -> Vec<Endpoint> {
        if !self.may_ask_in_lower_case() {
            return Vec::new();
        }
        self.letters = Letters::Lower;
        vec![self.minding_case.remove(0)]
    }

    /// Keeps the first reply with any data, for use if there is no better reply.
    fn note_hearsay(&mut self, part: Box<Part>) {
        if self.hearsay.as_ref().is_none_or(|known| known.is_empty()) {
            self.hearsay = Some(part);
        }
    }

    /// Counts a server that returned data that does not match its type.
    ///
    /// # Errors
    /// The limit is reached.
    fn note_malformed(&mut self, server: SocketAddr) -> Result<(), Failure> {
        self.note(Failure::Malformed);
        self.servers.push(server);
        self.malformed += 1;
        if self.malformed < MAX_MALFORMED { Ok(()) } else { Err(Failure::Malformed) }
    }

    /// Counts the servers of an inquiry that did not answer.
    ///
    /// # Errors
    /// The limit is reached.
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
    /// Queries the servers of a zone cut for a name and type.
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
                        // The walk will request the same data later, and then gets the result of
                        // this early inquiry.
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

    /// Returns the inquiry that asks these `servers` of a zone cut a question.
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
            // The server that answered before comes first. The others keep their order, because the
            // sort is stable.
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
            is_of_client: frame.is_first() && question.extent == Extent::Whole,
        }
    }

    /// If servers are queried in order, and this server answered after slower servers did not, the
    /// rest of the question begins with this server.
    fn rely_on(&mut self, inquiry: &Inquiry, fetched: &Fetched) {
        let is_answer = matches!(fetched.rcode, Rcode::NOERROR | Rcode::NXDOMAIN);
        let is_first = inquiry.servers.first().is_some_and(|first| *first == fetched.server);
        if inquiry.manner.strategy == Strategy::Ordered && is_answer && !is_first {
            self.relied_on = Some(fetched.server.addr);
        }
    }

    /// Accepts a usable reply, or keeps it for use if there is no better one.
    ///
    /// # Errors
    /// No other server of the zone can give a better reply.
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
            // An empty reply may come from a server without the zone.
            Ok(Reply::Part(part)) if part.is_empty() => tried.note_hearsay(part),
            Ok(reply) => return Ok(Some(reply)),
            // The data is too large, which is probably the same on every server of the zone.
            Err(failure @ Failure::TooManyRecords) => return Err(failure),
            Err(failure) => tried.note(failure),
        }
        Ok(None)
    }

    /// Returns the best reply that was kept, because no server gave a better one.
    fn make_do(&mut self, cut: &Cut, tried: Tried) -> Result<Reply, Failure> {
        let failure = tried.failure.unwrap_or(Failure::NoServers);
        match &tried.unsigned {
            Some((inquiry, fetched)) => {
                self.use_reply(sort(inquiry, fetched), cut, (inquiry, fetched))
            }
            None => tried.hearsay.map(Reply::Part).ok_or(failure),
        }
    }

    /// Returns whether the zone cut has a server with a known address that was not queried yet.
    fn has_untried(&self, cut: &Cut, tried: &Tried) -> bool {
        tried.bad_replies < MAX_BAD_REPLIES
            && self.candidates(cut).iter().any(|candidate| !tried.servers.contains(&candidate.addr))
    }

    /// Returns whether a reply from this signed zone has no signatures, and this is the server's
    /// first such reply in this question. Signatures can only be expected if the reply is about the
    /// zone itself: its apex, a zone directly below it, or its SOA record. Other data may belong to
    /// an unsigned zone below the signed one (RFC 4035 §5.2).
    fn lacks_signatures(&mut self, inquiry: &Inquiry, fetched: &Fetched, sorted: &Sort) -> bool {
        let Inquiry { zone, qname, manner, .. } = inquiry;
        if !manner.is_signed || !manner.dnssec_ok || fetched.server == HERE {
            return false;
        }
        let is_soa =
            |record: &ReplyRecord<'_>| record.rtype == Rtype::SOA && *record.owner == **zone;
        let is_due = match sorted {
            // No other zone can be between the apex and a zone directly below it.
            Sort::Referral(child) => name::parent(child) == Some(&**zone),
            Sort::Answer => qname == zone || fetched.reply.records().any(|record| is_soa(&record)),
            Sort::Hearsay | Sort::Lame | Sort::Failed(_) => false,
        };
        let lacks = is_due && !fetched.reply.records().any(|record| record.rtype == Rtype::RRSIG);
        let is_new = lacks && self.note_unsigned(zone, fetched.server);
        is_new && self.unsigned.iter().filter(|(of, _)| of == zone).count() <= MAX_UNSIGNED
    }

    /// Records that a server omitted the signatures of a zone. Returns `false` if this was already
    /// recorded in this question.
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
                // An error for ANY does not show that the server is lame: some servers refuse only
                // ANY.
                if inquiry.qtype != Rtype::ANY {
                    self.io.note(Note::Lame(fetched.server, inquiry.zone.clone()));
                }
                Err(Failure::Refused)
            }
            Sort::Failed(Rcode::SERVFAIL) => Err(Failure::Servfail(fetched.reply.opt().ede)),
            Sort::Failed(_) => Err(Failure::Unusable),
        }
    }

    /// Answers from the copy of the root zone, unless data of the copy has failed validation
    /// before.
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

    /// Returns the copy of the root zone; `None` if there is no usable copy.
    pub(crate) fn local_root(&self) -> Option<Arc<LocalRoot>> {
        let slot = self.recursion().local_root.as_ref()?;
        slot.at(self.io.moment().wall_secs).map(|(zone, _)| zone)
    }

    /// Fetches the keys of a zone early, in the same round trip as the inquiry, if they will be
    /// needed.
    async fn ask_keys_ahead(&mut self, inquiry: &Inquiry, patience: Patience) {
        if self.will_need_keys(inquiry).await {
            let qname = inquiry.zone.clone();
            let keys = Inquiry { qname, qtype: Rtype::DNSKEY, patience, ..inquiry.clone() };
            self.io.note(Note::Ahead(Box::new(keys)));
        }
    }

    /// Fetches the keys of a zone from a forwarder early, in the same round trip as the zone's DS
    /// records, if the zone signed records of the question. Otherwise, each zone of the chain would
    /// take two round trips, because a forwarder shows no zone cuts.
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

    /// Records a zone that signed records of the question.
    pub(super) fn note_signer(&mut self, zone: &Name) {
        if self.signers.len() < MAX_SIGNERS && !self.signers.contains(zone) {
            self.signers.push(zone.clone());
        }
    }

    /// Returns whether the keys of the zone will certainly be needed: its parent has usable DS
    /// records, and the keys are not cached.
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
        let data: Option<Vec<&[u8]>> = ds.map(|set| set.records.iter().collect());
        let counts = data.is_some_and(|data| chain::check_ds(&data, validation.policy).is_ok());
        if !counts || self.keys_ahead.contains(zone) {
            return false;
        }
        self.keys_ahead.push(zone.clone());
        self.io.keys(zone).await.is_none()
            && self.io.look_up(Side::Zone, zone, Rtype::DNSKEY).await.is_none()
    }

    /// Queries servers with known addresses once, for data that the resolution needs, other than
    /// the answer.
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

    /// Returns how long to query the servers of a zone cut that do not answer. The patience is low
    /// while addresses of other servers can be looked up.
    fn patience(&self, cut: &Cut, tried: &Tried, extent: Extent) -> Patience {
        let may_look_up = self.failed_servers < MAX_FAILED_SERVERS;
        match self.need(cut, &tried.look_ups).filter(|_| may_look_up) {
            _ if extent == Extent::Part => Patience::Shortened,
            _ if tried.letters == Letters::Lower => Patience::OneRound,
            // A reply without signatures has arrived and can be used instead.
            _ if tried.unsigned.is_some() => Patience::OneRound,
            Some(Need::NoAddress) => Patience::OneRound,
            // Validation of an earlier reply failed, and may fail again with the reply of any
            // server. So it is not worth waiting for servers that never answered.
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

    /// Returns the number of earlier queries to these servers of a zone that were not answered.
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

    /// Returns whether the zone is known to be signed: because of an anchor, its parent's DS
    /// records, or its keys.
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

    /// Returns the next servers to query, like [`Walker::next_servers`]. If no other server is left
    /// and there was no reply, servers that did not answer get more time. Finally, some servers
    /// with errors are queried in lower case.
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

    /// Returns the servers of the zone cut that were not queried yet. If none is left, looks up
    /// addresses of servers of the cut.
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
                // Servers that did not answer for a round are queried again, in turn with the new
                // servers.
                let silent = std::mem::take(&mut tried.silent);
                tried.servers.retain(|addr| !silent.contains(addr));
            } else {
                tried.note(Failure::NoServers);
            }
        }
    }
}

/// Adds the spare addresses of a zone cut's servers. Returns `false` if there are none.
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
        NotFetched::Tls(fault) => Failure::Tls(fault),
        NotFetched::Unusable => Failure::Unusable,
        NotFetched::NoServers => Failure::NoServers,
        NotFetched::Exhausted => Failure::TooManyQueries,
        NotFetched::Crowded => Failure::Crowded,
    }
}

/// Returns an inquiry for data that the resolution needs, other than the answer for the client. The
/// caller sets the servers of the inquiry.
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
