//! The policy in force: the combination of lists, rules and clients, and its verdicts on questions
//! and answers.
//!
//! ```text
//! address -> profile -> packet cache   for each query
//!         -> question()                rules, then lists, unless the packet cache has an answer
//!         -> answer()                  rules and lists on the answer, before it is stored
//!                                      for the profile
//! ```
//! A [`Policy`] is part of a [`Snapshot`](crate::snapshot::Snapshot) and never changes. This module
//! does not resolve, write or cache answers: [`query`](crate::query) does.

mod build;
mod counts;
mod explain;
pub mod explanation;
mod geo;
mod list_clients;
pub mod load;
mod names;
mod names_wanted;
mod ruling;
mod verdict;
mod zones;

use std::net::IpAddr;
use std::sync::Arc;

use avocet_config::block::BlockConfig;
use avocet_policy::client::{self, Clients, Origin, Profile};
use avocet_policy::list::{self, ListId, ListSet};
use avocet_policy::rpz::ZoneSet;
use avocet_policy::rule::{Exceptions, Hours, Limiter, Program, Rule, RuleId};
use avocet_resolver::{Dns64, NameServers};
use avocet_wire::{FoldedName, Rtype};

use crate::query::asked::{Entrance, Transport};
use crate::query::respond::Note;
pub use build::Parts;
pub(crate) use build::PolicySources;
pub use counts::Counts;
pub use explanation::{Outcome, Treatment};
pub use geo::GeoDatabase;
pub use load::Lists;
pub use names_wanted::are_wanted;
pub use ruling::{
    AnswerRuling, AnswerVerdict, Decider, Made, QuestionRuling, QuestionVerdict, Validity,
};

/// What is filtered, rewritten and limited, for whom.
pub struct Policy {
    clients: Clients,
    program: Program,
    /// None where there is no list.
    lists: Option<Arc<Lists>>,
    /// For each list of the image its place in the configuration; none where it has none any more.
    places: Vec<Option<usize>>,
    /// The lists of the image that are in force, by profile.
    in_force: Vec<ListSet>,
    /// The same for the lists that are policy zones.
    zones_in_force: Vec<ZoneSet>,
    /// What lists may ask of clients, by profile; empty where they ask nothing.
    known_to_lists: Vec<list_clients::ProfileLabels>,
    /// Of the first address of the server, by transport.
    first_origins: [Origin; 2],
    /// The same of the other addresses.
    other_origins: Box<[[Origin; 2]]>,
    block: BlockConfig,
    rebinding: Option<Exceptions>,
    limiter: Arc<Limiter>,
    notes: Arc<[Note]>,
    /// Whether rules ask on which lists a name is.
    asks_for_lists: bool,
    /// Whether anything goes by the names of clients.
    wants_names: bool,
    /// None where no rule asks for countries.
    countries: Option<Arc<GeoDatabase>>,
    counts: Arc<Counts>,
    counted: counts::Places,
}

/// A question as the policy sees it.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    /// [`Policy::profile`] of the client.
    pub profile: u16,
    /// The client's address.
    pub ip: IpAddr,
    /// How the query came.
    pub transport: Transport,
    /// QNAME.
    pub qname: FoldedName<'a>,
    /// QTYPE.
    pub qtype: Rtype,
}

/// What was found for a question, as the policy sees it.
#[derive(Clone, Copy)]
pub struct Answered<'a, F: Fn(FoldedName<'_>) -> NameServers> {
    /// The message.
    pub message: &'a [u8],
    /// Whether the name has servers of its own in the configuration.
    pub has_own_servers: bool,
    /// How addresses in it may be translated.
    pub translation: Option<&'a Dns64>,
    /// Who serves the zones that a name lies in; asked only where a policy zone wants to know.
    pub servers: F,
}

/// What explanations know of an answer.
pub type KnownAnswer<'a> = Answered<'a, &'a dyn Fn(FoldedName<'_>) -> NameServers>;

/// The time: schedules go by the wall clock, limits by the monotonic one.
#[derive(Clone, Copy)]
pub struct Moment {
    /// Unix seconds.
    pub wall_secs: u64,
    /// Monotonic milliseconds.
    pub millis: u64,
}

/// What a worker keeps between questions.
#[derive(Default)]
pub struct Scratch {
    /// What holds of the time, for the program of the generation beside it.
    hours: Hours,
    generation: Option<u32>,
    lists: list::Scratch,
    /// The same for lists that rules ask for by name, in force or not.
    named_lists: list::Scratch,
    found: names::AnswerTargets,
    /// The rules that hold for the question, and for its answer where that was asked about, and do
    /// not decide.
    noted: Vec<RuleId>,
    /// Those of them that hold for the answer only.
    noted_later: Vec<RuleId>,
    held: counts::PendingCounts,
    tokens: Tokens,
}

/// What becomes of the tokens of rate limits.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Tokens {
    /// One is taken for each query.
    #[default]
    Take,
    /// Nobody asks: it is only looked whether there is one.
    Leave,
}

impl Scratch {
    /// For explanations: no client's tokens are taken.
    pub fn for_looking() -> Self {
        Self { tokens: Tokens::Leave, ..Self::default() }
    }

    /// The note of a verdict of lists that was given last.
    pub(crate) fn note_of(&self, verdict: &QuestionVerdict<'_>) -> u16 {
        match verdict {
            QuestionVerdict::Pass => 0,
            QuestionVerdict::Answer(made) => made.note,
            _ => self.held.list(),
        }
    }

    /// What a list said last has no effect.
    pub fn forget_list(&mut self) {
        self.held.take_list();
    }
}

impl Policy {
    /// The client's profile: all with the same one get the same answers. No allocation, a few
    /// nanoseconds.
    #[inline]
    pub fn profile(&self, ip: IpAddr, entrance: Entrance, transport: Transport) -> u16 {
        let Profile(profile) = self.clients.profile(ip, self.origin(entrance, transport));
        profile
    }

    #[inline]
    fn origin(&self, entrance: Entrance, transport: Transport) -> Origin {
        let origins = match usize::from(entrance.0).checked_sub(1) {
            None => &self.first_origins,
            Some(other) => self.other_origins.get(other).unwrap_or(&self.first_origins),
        };
        origins[transport as usize]
    }

    /// Whether a rule asks for the time.
    pub fn goes_by_time(&self) -> bool {
        self.program.goes_by_time()
    }

    /// Does anything go by the names of clients?
    #[inline]
    pub fn wants_names(&self) -> bool {
        self.wants_names
    }

    /// What clients are told of reasons, by the number in a [`Made`] less one.
    pub fn notes(&self) -> &Arc<[Note]> {
        &self.notes
    }

    /// Counts an answer that the policy gave, by its note.
    #[inline]
    pub fn count_note(&self, worker: usize, note: u16) {
        self.counted.count_note(&self.counts, worker, note);
    }

    /// Counts what held for what was asked last: the list that spoke without an answer of its own,
    /// and the rules; `note` is that of the answer which is counted by it.
    pub fn count_held(&self, worker: usize, scratch: &mut Scratch, note: u16) {
        if let Some(list) = scratch.held.take_list() {
            self.counted.count_note(&self.counts, worker, list);
        }
        for rule in scratch.held.take(counts::rule_of(note)) {
            self.counted.count_rule(&self.counts, worker, rule);
        }
    }

    /// Each rule with how often it held.
    pub fn rule_counts(&self) -> impl Iterator<Item = (&Rule, u64)> {
        let rules = self.program.rules().iter();
        (0..)
            .zip(rules)
            .map(|(place, rule)| (rule, self.counted.of_rule(&self.counts, RuleId(place))))
    }

    /// How often answers were given for a list, by its place in the configuration.
    pub fn list_count(&self, place: usize) -> u64 {
        self.counted.of_list(&self.counts, place)
    }

    /// How often look-ups in lists were cut short, as they asked for more work than a question may
    /// cost.
    pub fn cut_short_count(&self) -> u64 {
        self.counts.cut_short()
    }

    /// How often private addresses of public names were taken out.
    pub fn rebinding_count(&self) -> u64 {
        self.counted.of_rebinding(&self.counts)
    }

    /// The place in the configuration of a list of the image.
    fn place_of(&self, list: ListId) -> Option<usize> {
        self.places.get(list.place()).copied().flatten()
    }

    /// Whom an address belongs to. Searches and allocates: for explanations.
    pub fn identify(&self, ip: IpAddr) -> client::Identity {
        self.clients.identify(ip)
    }
}
