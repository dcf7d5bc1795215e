//! A query that is only looked at, for `why` and `query +trace`.
//!
//! A rehearsal takes the stages of a client's query in their order, by the same functions, so that
//! it ends as the client's query does. It has no effect: nothing is counted, no token of a rate
//! limit is taken, no final answer is kept. It asks no server either. A question that needs the
//! network ends as [`Ended::Wait`]; the caller has it resolved and [goes on](Rehearsal::go_on) with
//! what was found.

use std::net::{IpAddr, SocketAddr};

use avocet_cache::{PacketHit, PacketLookup};
use avocet_io::Peer;
use avocet_wire::QueryView;
use avocet_wire::header::{HEADER_LEN, Header, RD};

use super::alias::{Alias, End, write_behind};
use super::asked::{Asked, AskedEdns, Transport};
use super::decision::Stage;
use super::late::{self, Found, Late};
use super::local::Local;
use super::miss::{Miss, Waiter, Way};
use super::question::LocalQuestion;
use super::respond::Draft;
use super::scratch::Scratch;
use super::verdict::Judgement;
use super::witness::Witness;
use super::{
    Client, Exit, FromCache, Path, Query, Refusal, error, key_flags, miss, never_answered,
    packet_hash, profile, question_behind, refused, reply, special, stored, unanswered, verdict,
};
use crate::name_server::NameServer;
use crate::snapshot::Snapshot;

/// Octets of a query with the longest name.
const LONGEST_QUERY: usize = HEADER_LEN + 255 + 4;
/// Octets of an answer at most: as over TCP, so that nothing is cut off.
const LONGEST_ANSWER: usize = u16::MAX as usize;

/// How a rehearsal ended.
pub enum Ended {
    /// The client gets this message.
    Reply {
        /// The message.
        message: Vec<u8>,
        /// The stage that answered.
        stage: Stage,
    },
    /// The client gets no answer.
    Silent(Stage),
    /// A question must be put to other servers first.
    Wait(Box<Miss>),
}

/// When the query is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum At {
    /// Now.
    Now(u64),
    /// At another Unix second: final answers that are kept do not count, as they hold now.
    Then(u64),
}

impl At {
    /// Unix seconds.
    pub fn wall_secs(self) -> u64 {
        match self {
            Self::Now(secs) | Self::Then(secs) => secs,
        }
    }
}

/// A client whose query is looked at.
pub struct Rehearsal<'s> {
    shared: &'s NameServer,
    state: &'s Snapshot,
    ip: IpAddr,
    at: At,
    scratch: Scratch,
}

impl<'s> Rehearsal<'s> {
    /// A query of this client over UDP.
    pub fn new((shared, state): (&'s NameServer, &'s Snapshot), ip: IpAddr, at: At) -> Self {
        Self { shared, state, ip, at, scratch: Scratch::for_looking() }
    }

    /// Takes a folded question of class IN through all stages that need no network.
    pub fn begin(&self, question: &[u8]) -> Ended {
        self.with_query(question, |path, query, (out, misses)| {
            match kept(path, query, self.at, out) {
                Some(exit) => exit,
                None => match unanswered(path, query, FromCache::Nothing, (out, misses)) {
                    Exit::Wait => kept_verdict(path, query, self.at, out).unwrap_or(Exit::Wait),
                    exit => exit,
                },
            }
        })
    }

    /// Takes a folded question through the stages of this network's own names only, as if there
    /// were no policy, no access list and no cache.
    pub fn begin_without_policy(&self, question: &[u8]) -> Ended {
        self.with_query(question, |path, query, (out, misses)| own(path, query, (out, misses)))
    }

    /// Goes on where [`Ended::Wait`] ended, with what was found for its question.
    pub fn go_on(&self, waiter: &Waiter, found: &Found<'_>) -> Ended {
        let mut out = vec![0; LONGEST_ANSWER];
        match late::answer(&self.path(), waiter, Some(found), &mut out) {
            Late::Reply(len, outcome) => ended_with(out, len, outcome.stage),
            Late::Silent(stage) => Ended::Silent(stage),
            Late::Again(miss) => Ended::Wait(miss),
        }
    }

    /// What the policy said.
    pub fn into_witness(self) -> Witness {
        self.scratch.into_witness()
    }

    fn path(&self) -> Path<'_> {
        let Self { shared, state, scratch, at, .. } = self;
        Path { shared, state, now: shared.clock.now(), wall_secs: at.wall_secs(), scratch }
    }

    fn with_query(
        &self,
        question: &[u8],
        take: impl FnOnce(&Path<'_>, &Query<'_>, (&mut [u8], &mut Vec<Miss>)) -> Exit,
    ) -> Ended {
        let path = self.path();
        let (octets, peer) = (query_octets(question), Peer::from(SocketAddr::from((self.ip, 0))));
        let Ok(view) = QueryView::parse(&octets) else { return Ended::Silent(Stage::Malformed) };
        let client = Client {
            ip: self.ip,
            transport: Transport::Udp,
            route: Way::Datagram { listener: 0, peer: &peer },
        };
        let (asked, key) = (asked(), view.key(&self.shared.key, 0));
        let profile = profile(&path, self.ip, Transport::Udp);
        let hash = packet_hash(key.hash, profile, key_flags(&asked));
        let query = Query { view: &view, asked: &asked, key: &key, hash, client: &client, profile };
        let (mut out, mut misses) = (vec![0; LONGEST_ANSWER], Vec::new());
        match take(&path, &query, (&mut out, &mut misses)) {
            Exit::Reply { len, outcome } => ended_with(out, len, outcome.stage),
            Exit::Silent(stage) => Ended::Silent(stage),
            Exit::Wait => match misses.pop() {
                Some(miss) => Ended::Wait(Box::new(miss)),
                None => Ended::Silent(Stage::Malformed),
            },
        }
    }
}

fn ended_with(mut message: Vec<u8>, len: usize, stage: Stage) -> Ended {
    message.truncate(len);
    Ended::Reply { message, stage }
}

/// The end of a query that is not admitted, or whose resolved answer is kept; none where the stages
/// behind decide.
///
/// The policy is asked about a kept answer all the same: what it says explains why the answer was
/// kept.
fn kept(path: &Path<'_>, query: &Query<'_>, at: At, out: &mut [u8]) -> Option<Exit> {
    if !path.state.allow.contains(query.client.ip) {
        let octets = query_octets(query.key.question());
        return Some(refused(path, query.view, (&octets, query.client), out));
    }
    let hit = hit(path, query, at, out)?;
    if matches!(stored::stage_of_kept(hit.flags), Stage::Local | Stage::Blocked | Stage::Rewritten)
    {
        // The stages that gave it say the same again, and why.
        return None;
    }
    let mut spare = vec![0; LONGEST_ANSWER];
    let message = out.get(..hit.len)?.to_vec();
    if let Judgement::Pass { .. } | Judgement::Forward(_) = verdict::judge(path, query, &mut spare)
    {
        verdict::judge_answer(path, &query.wanted(path), &message, &mut spare);
    }
    let draft = stored::draft(hit.len, (hit.ede, hit.flags), out);
    Some(reply(path, query, (draft, stored::stage_of_kept(hit.flags)), out))
}

/// The end of a query by the kept verdict on an answer that is in no cache any more, or only as
/// clients get it that validate themselves. What is left of it tells what the verdict rests on.
fn kept_verdict(path: &Path<'_>, query: &Query<'_>, at: At, out: &mut [u8]) -> Option<Exit> {
    let hit = hit(path, query, at, out)?;
    let draft = stored::draft(hit.len, (hit.ede, hit.flags), out);
    let stage = stored::stage_of_kept(hit.flags);
    let policy = path.state.policy.as_ref().filter(|_| draft.note != 0)?;
    let known = stored::whatever_is_known(path, query.key.question());
    path.scratch.tell(|witness| {
        witness.of_policy(policy.said_by_note(draft.note, stage));
        known.iter().for_each(|message| witness.of_answer(message));
    });
    Some(reply(path, query, (draft, stage), out))
}

fn hit(path: &Path<'_>, query: &Query<'_>, at: At, out: &mut [u8]) -> Option<PacketHit> {
    let (key, now) = (query.packet_key(), path.now.secs());
    match path.shared.packets.lookup(query.hash, &key, now, path.state.epoch, out) {
        PacketLookup::Hit(hit) if matches!(at, At::Now(_)) => Some(hit),
        _ => None,
    }
}

/// The end of a query by local records and special names, or what is to be resolved for it.
fn own(path: &Path<'_>, query: &Query<'_>, (out, misses): (&mut [u8], &mut Vec<Miss>)) -> Exit {
    if let Some((rcode, ede)) = never_answered(query.view.qtype) {
        return error(path, query, Refusal { rcode, stage: Stage::Malformed, ede }, out);
    }
    let aliases = match path.state.local.answer(&query.local(), out) {
        Local::Answer(draft) => return reply(path, query, (draft, Stage::Local), out),
        Local::Outside(aliases) => aliases,
        Local::Absent => match special(path, &query.local(), out) {
            Some(draft) => return reply(path, query, (draft, Stage::Special), out),
            None => Vec::new(),
        },
    };
    if !aliases.is_empty()
        && let Some(draft) = special_behind(path, query, &aliases, out)
    {
        return reply(path, query, (draft, Stage::Special), out);
    }
    misses.push(miss(path, query, aliases));
    Exit::Wait
}

/// The special name at the end of aliases, if it is one.
fn special_behind(
    path: &Path<'_>,
    query: &Query<'_>,
    aliases: &[Alias],
    out: &mut [u8],
) -> Option<Draft> {
    let asked = query.key.question();
    let (question, _) = question_behind(path, asked, aliases.last()?);
    let draft = special(path, &LocalQuestion::of(&question), out)?;
    let message = out.get(..draft.len)?.to_vec();
    let end = End { message: &message, draft: Draft { ede: None, ..draft } };
    write_behind(aliases, &end, asked, out)
}

/// What a client says that wants recursion and all that explains the answer, however long it is.
fn asked() -> Asked {
    let edns = AskedEdns {
        dnssec_ok: false,
        nsid: false,
        keepalive: false,
        subnet: false,
        cookie_valid: false,
        cookie: None,
    };
    Asked {
        id: 0,
        flags: RD,
        wants_ad: true,
        limit: u16::MAX,
        transport: Transport::Udp,
        edns: Some(edns),
    }
}

fn query_octets(question: &[u8]) -> Vec<u8> {
    let mut octets = Vec::with_capacity(LONGEST_QUERY);
    let mut head = [0; HEADER_LEN];
    Header { id: 0, flags: RD, counts: [1, 0, 0, 0] }.write(&mut head);
    octets.extend_from_slice(&head);
    octets.extend_from_slice(question);
    octets
}
