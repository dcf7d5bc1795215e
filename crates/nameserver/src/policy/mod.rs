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
mod meanwhile;
mod names;
mod names_wanted;
mod noted;
mod rules_on_lists;
mod ruling;
mod stand_ins;
mod verdict;
mod zones;

use std::cell::Cell;
use std::net::IpAddr;
use std::sync::Arc;

use avocet_config::block::BlockConfig;
use avocet_policy::client::{self, Clients, DeviceClaims, DeviceId, Origin, Profile};
use avocet_policy::list::{self, ListId, ListSet};
use avocet_policy::rpz::ZoneSet;
use avocet_policy::rule::{Exceptions, Hours, Limiter, Program, Rule, RuleId};
use avocet_resolver::{Dns64, NameServers};
use avocet_wire::{FoldedName, Rtype};

use crate::query::asked::{Entrance, Transport};
use crate::query::respond::Note;
use crate::zone_views::ViewBits;
pub use build::Parts;
pub(crate) use build::{PolicyChange, PolicySources};
pub use counts::Counts;
pub use explanation::{Outcome, Treatment};
pub use geo::GeoDatabase;
pub use load::Lists;
pub use names::{alias_targets, has_private_address, has_service_target, service_targets};
pub use names_wanted::{are_wanted, macs_are_wanted};
pub use noted::Noted;
pub use ruling::{
    AnswerRuling, AnswerVerdict, Decider, Made, QuestionRuling, QuestionVerdict, Validity,
};
use stand_ins::StandIns;
pub use verdict::NOTE_PLACES;

/// The policy for all clients: rules, which block, rewrite and limit queries, and lists.
pub struct Policy {
    clients: Clients,
    program: Program,
    /// The lists; `None` if there are none.
    lists: Option<Arc<Lists>>,
    /// The index in the configuration of each compiled list; `None` if the list is no longer
    /// configured.
    places: Vec<Option<usize>>,
    /// The compiled lists that are no longer configured, but still block.
    stand_ins: StandIns,
    /// For each profile, the compiled lists that apply to its clients.
    in_force: Vec<ListSet>,
    /// For each profile, the policy zones that apply to its clients.
    zones_in_force: Vec<ZoneSet>,
    /// For each profile, the names and tags that lists test; empty if lists test none.
    known_to_lists: Vec<list_clients::ProfileLabels>,
    /// For each profile, the items of views that include its clients; empty if no zone has a view.
    view_bits: Box<[ViewBits]>,
    /// For each transport, the origin (the facts about listener and transport that the policy
    /// tests) of queries at the first address of the server.
    first_origins: [Origin; Transport::COUNT],
    /// The origins of queries at the other addresses, for each transport.
    other_origins: Box<[[Origin; Transport::COUNT]]>,
    block: BlockConfig,
    rebinding: Option<Exceptions>,
    limiter: Arc<Limiter>,
    notes: Arc<[Note]>,
    /// Whether a rule tests which lists have a name.
    asks_for_lists: bool,
    /// Whether the policy depends on the names of clients.
    wants_names: bool,
    /// The geo database; `None` if no rule tests countries.
    countries: Option<Arc<GeoDatabase>>,
    counts: Arc<Counts>,
    counted: counts::Places,
}

/// The data of a question that the policy evaluates.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    /// The client's [`Policy::profile`].
    pub profile: u16,
    /// The client's address.
    pub ip: IpAddr,
    /// The device of the question, if it is known.
    pub device: DeviceId,
    /// The transport of the query.
    pub transport: Transport,
    /// QNAME.
    pub qname: FoldedName<'a>,
    /// QTYPE.
    pub qtype: Rtype,
}

/// The data of an answer that the policy evaluates.
#[derive(Clone, Copy)]
pub struct Answered<'a, F: Fn(FoldedName<'_>) -> NameServers> {
    /// The message.
    pub message: &'a [u8],
    /// Whether the configuration has servers for the QNAME.
    pub has_own_servers: bool,
    /// Whether a SVCB or HTTPS record leads to a name [of this
    /// network](crate::snapshot::Snapshot::is_of_this_network).
    pub has_local_target: bool,
    /// Whether lists must decide on the QNAME, because the query has waited, and the lists did not
    /// allow the QNAME before, or may have changed since.
    pub lists_may_have_begun: bool,
    /// The DNS64 that may have translated addresses in the answer.
    pub translation: Option<&'a Dns64>,
    /// Returns the name servers of the zones above a name; called only for policy zones.
    pub servers: F,
}

/// An answer for explanations.
pub type KnownAnswer<'a> = Answered<'a, &'a dyn Fn(FoldedName<'_>) -> NameServers>;

/// The time. Schedules use the wall clock, and rate limits the monotonic clock.
#[derive(Clone, Copy)]
pub struct Moment {
    /// The wall clock in Unix seconds.
    pub wall_secs: u64,
    /// The monotonic clock in milliseconds.
    pub millis: u64,
}

/// Memory that a worker reuses for each question.
#[derive(Default)]
pub struct Scratch {
    /// The conditions on the time that are true now. They belong to the policy with this
    /// `generation`.
    hours: Hours,
    generation: Option<u32>,
    lists: list::Scratch,
    /// The state of look-ups in the lists that rules name. These lists need not be in force.
    named_lists: list::Scratch,
    found: names::AnswerTargets,
    /// The rules that match the question or its answer without deciding.
    noted: Vec<RuleId>,
    /// The rules of `noted` that match only with the answer.
    noted_later: Vec<RuleId>,
    held: counts::PendingCounts,
    /// Whether a rule has tested a list of which too little was read, so that the list may have the
    /// name.
    is_undecided: Cell<bool>,
    tokens: Tokens,
}

/// The use of rate-limit tokens.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Tokens {
    /// Each query takes a token.
    #[default]
    Take,
    /// No token is taken, because this is an explanation.
    Leave,
}

impl Scratch {
    /// Creates the memory for explanations, which take no tokens.
    pub fn for_looking() -> Self {
        Self { tokens: Tokens::Leave, ..Self::default() }
    }

    /// Returns the note (the index of the reason) of a verdict. If the verdict gives no answer,
    /// returns the note of the list that decided last.
    pub(crate) fn note_of(&self, verdict: &QuestionVerdict<'_>) -> u16 {
        match verdict {
            QuestionVerdict::Pass => 0,
            QuestionVerdict::Answer(made) => made.note,
            _ => self.held.list(),
        }
    }

    /// Discards the note of the last deciding list.
    pub fn forget_list(&mut self) {
        self.held.take_list();
    }
}

impl Policy {
    /// Returns the client's profile. All clients with the same profile get the same answers. Takes
    /// a few nanoseconds and allocates nothing.
    #[inline]
    pub fn profile(&self, ip: IpAddr, entrance: Entrance, transport: Transport) -> u16 {
        let Profile(profile) = self.clients.profile(ip, self.origin(entrance, transport));
        profile
    }

    /// Returns the profile of a client with a known device.
    pub fn profile_with(
        &self,
        (ip, device): (IpAddr, DeviceId),
        entrance: Entrance,
        transport: Transport,
    ) -> u16 {
        self.clients.profile_with(ip, device, self.origin(entrance, transport)).0
    }

    /// Returns the first known device among the claims of a client.
    pub fn device(&self, claims: &DeviceClaims<'_>) -> DeviceId {
        self.clients.device(claims)
    }

    /// Returns the items of views of zones for each profile; empty if no zone has a view.
    pub fn view_bits(&self) -> &[ViewBits] {
        &self.view_bits
    }

    #[inline]
    fn origin(&self, entrance: Entrance, transport: Transport) -> Origin {
        let origins = match usize::from(entrance.0).checked_sub(1) {
            None => &self.first_origins,
            Some(other) => self.other_origins.get(other).unwrap_or(&self.first_origins),
        };
        origins[transport as usize]
    }

    /// Reports whether a rule tests the time.
    pub fn goes_by_time(&self) -> bool {
        self.program.goes_by_time()
    }

    /// Reports whether the policy depends on the names of clients.
    #[inline]
    pub fn wants_names(&self) -> bool {
        self.wants_names
    }

    /// Reports whether the policy blocks public names that lead to private addresses.
    pub fn blocks_private(&self) -> bool {
        self.rebinding.is_some()
    }

    /// Returns the reasons shown to clients; [`Made::note`] is an index from 1.
    pub fn notes(&self) -> &Arc<[Note]> {
        &self.notes
    }

    /// Counts an answer of the policy by its note.
    #[inline]
    pub fn count_note(&self, worker: usize, note: u16) {
        self.counted.count_note(&self.counts, worker, note);
    }

    /// Counts the rules that matched the last question, and a list that decided without giving an
    /// answer. `note` is the note of the answer, which [`Self::count_note`] counts.
    #[inline]
    pub fn count_held(&self, worker: usize, scratch: &mut Scratch, note: u16) {
        if !scratch.held.is_empty() {
            self.count_all_held(worker, scratch, note);
        }
    }

    fn count_all_held(&self, worker: usize, scratch: &mut Scratch, note: u16) {
        if let Some(list) = scratch.held.take_list() {
            self.counted.count_note(&self.counts, worker, list);
        }
        for rule in scratch.held.take(counts::rule_of(note)) {
            self.counted.count_rule(&self.counts, worker, rule);
        }
    }

    /// Decides on a question that no client has sent, for additional records of an answer. Takes no
    /// token and counts nothing.
    pub fn unasked(
        &self,
        asked: &Asked<'_>,
        now: (Moment, u32),
        scratch: &mut Scratch,
    ) -> QuestionRuling<'_> {
        let tokens = std::mem::replace(&mut scratch.tokens, Tokens::Leave);
        let ruling = self.question(asked, now, scratch);
        scratch.tokens = tokens;
        scratch.held.clear();
        ruling
    }

    /// Returns each rule with the number of its matches.
    pub fn rule_counts(&self) -> impl Iterator<Item = (&Rule, u64)> {
        let rules = self.program.rules().iter();
        (0..)
            .zip(rules)
            .map(|(place, rule)| (rule, self.counted.of_rule(&self.counts, RuleId(place))))
    }

    /// Returns the number of answers that a list caused. `place` is its index in the configuration.
    pub fn list_count(&self, place: usize) -> u64 {
        self.counted.of_list(&self.counts, place)
    }

    /// Returns the number of rate limits of rules that were forgotten for lack of room.
    pub fn forgotten_limits_count(&self) -> u64 {
        self.limiter.forgotten()
    }

    /// Returns how often look-ups in lists were cut short because they exceeded the work limit of a
    /// question.
    pub fn cut_short_count(&self) -> u64 {
        self.counts.cut_short()
    }

    /// Returns how often private addresses of public names were removed.
    pub fn rebinding_count(&self) -> u64 {
        self.counted.of_rebinding(&self.counts)
    }

    /// Returns the index in the configuration of a compiled list; `None` if the list is no longer
    /// configured.
    fn place_of(&self, list: ListId) -> Option<usize> {
        self.places.get(list.place()).copied().flatten()
    }

    /// Returns the client at an address. This function searches and allocates, so it is only for
    /// explanations.
    pub fn identify(&self, ip: IpAddr) -> client::Identity {
        self.clients.identify(ip)
    }

    /// Returns the client at an address with a known device. Like [`Self::identify`], this function
    /// is only for explanations.
    pub fn identify_with(&self, ip: IpAddr, device: DeviceId) -> client::Identity {
        self.clients.identify_with(ip, device)
    }
}
