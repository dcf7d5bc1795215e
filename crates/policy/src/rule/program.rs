//! All rules as one program, evaluated once for a question and once more for its answer.
//!
//! An index finds the rules by their requirements: a name, a type, or only a client; see [`Stage`].
//! The first match in rule order decides. Evaluation neither allocates nor blocks. It skips the
//! rules after the deciding rule.

use std::net::IpAddr;
use std::sync::Arc;

use avocet_wire::name::is_under;
use avocet_wire::{Class, Rtype};

use super::action::Action;
use super::code::{Asking, Code};
use super::fold::{ClientStep, Folded, Leaf, Names, Reading, Sense, Shared, all};
use super::index::{Candidate, Role};
use super::patterns::Memo;
use super::rules::{Rule, RuleId, Rules};
use super::shipped::safe_names;
use super::stage::{Candidates, Rests, Stage, StageBuilder};
use super::switches::{Scope, Switches};
use super::tree::{Country, ListId, NameKey, Reach};
use super::verdict::{Lift, Verdict};
use super::{MAX_CLIENT_TESTS, MAX_WINDOWS};
use crate::PolicyError;
use crate::client::{ClientTest, Clients, Profile, Transport};

/// A question on which rules are evaluated.
#[derive(Clone, Copy, Debug)]
pub struct RuleQuestion<'a> {
    /// The name in lower case and wire form.
    pub qname: &'a [u8],
    /// The QTYPE.
    pub qtype: Rtype,
    /// The QCLASS.
    pub qclass: Class,
    /// The client, as returned by [`Clients::profile`].
    pub profile: Profile,
    /// The time, in Unix seconds.
    pub now: u64,
}

/// An answer on which rules are evaluated.
#[derive(Clone, Copy, Debug, Default)]
pub struct Answer<'a> {
    /// Addresses of A and AAAA records and of the hints of SVCB and HTTPS records.
    pub addresses: &'a [IpAddr],
    /// Targets of CNAME, DNAME, SVCB and HTTPS records, in lower-case wire form.
    pub names: &'a [&'a [u8]],
    /// The names on which [`ListLookup`] and conditions on services are tested.
    pub judged: &'a [&'a [u8]],
    /// The countries of the addresses, if there is a database.
    pub countries: &'a [Country],
}

/// A test for the lists that contain a name: the QNAME or, with an answer, a name in the answer.
pub trait ListLookup {
    /// Reports whether the list contains the QNAME or a name that the answer leads to.
    fn contains(&self, list: ListId) -> bool;

    /// Reports whether the list contains the QNAME.
    #[inline]
    fn contains_qname(&self, list: ListId) -> bool {
        self.contains(list)
    }
}

/// A [`ListLookup`] without lists, which contains no name.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoLists;

impl ListLookup for NoLists {
    #[inline]
    fn contains(&self, _: ListId) -> bool {
        false
    }
}

impl<F: Fn(ListId) -> bool> ListLookup for F {
    #[inline]
    fn contains(&self, list: ListId) -> bool {
        self(list)
    }
}

/// The results of all conditions on the time at one moment. Each thread has its own results, and
/// renews them when they expire.
#[derive(Clone, Debug, Default)]
pub struct Hours {
    from: u64,
    until: u64,
    windows: Vec<(bool, u64)>,
}

impl Hours {
    /// Reports whether the results still hold at `now`, in Unix seconds.
    #[inline]
    #[must_use]
    pub fn is_current(&self, now: u64) -> bool {
        (self.from..self.until).contains(&now)
    }

    /// Returns whether the time condition with this index holds, and the Unix second until which
    /// this result is certain.
    #[inline]
    pub(super) fn of(&self, window: u32) -> (bool, u64) {
        self.windows.get(window as usize).copied().unwrap_or((false, 0))
    }
}

/// The tables that are compiled from the rules alone.
pub(super) struct Compiled {
    rules: Vec<Rule>,
    shared: Shared,
    code: Code,
    question: Stage,
    answer: Stage,
    allows_names: bool,
}

/// The compiled rules, clients and pauses of a configuration.
#[derive(Clone)]
pub struct Program {
    compiled: Arc<Compiled>,
    /// The results of all conditions on clients, for each profile.
    facts: Box<[u64]>,
    words: usize,
    /// For each stage and profile, the rules that require neither a name nor a type.
    rests: [Rests; 2],
    lifts: Lifts,
    /// The results for an unknown profile: all false.
    nobody: Box<[u64]>,
}

/// The pauses and grants, which suspend filtering.
#[derive(Clone, Default)]
struct Lifts {
    /// For each profile, the pause that ends last, and its end.
    pauses: Box<[Option<(u16, u64)>]>,
    has_pauses: bool,
    grants: Vec<CompiledGrant>,
}

#[derive(Clone)]
struct CompiledGrant {
    number: u16,
    name: Box<[u8]>,
    until: u64,
    /// The profiles in the scope of the grant, with one bit for each.
    profiles: Box<[u64]>,
}

impl Compiled {
    pub(super) fn build(rules: Vec<Rule>) -> Self {
        let (mut shared, mut code) = (Shared::default(), Code::default());
        let (mut question, mut answer) = (StageBuilder::default(), StageBuilder::default());
        for (place, rule) in (0..).zip(&rules) {
            if !rule.reads.answer {
                question.add(
                    RuleId(place),
                    role(rule),
                    &folded(rule, Names::Asked, &mut shared),
                    &mut code,
                );
            }
            if rule.reads.answer || (rule.reads.names_behind && rule.action.looks_behind()) {
                // A name behind an alias must not allow an answer, because anyone can create an
                // alias to it.
                let names = if rule.action.looks_behind() { Names::All } else { Names::Asked };
                answer.add(RuleId(place), role(rule), &folded(rule, names, &mut shared), &mut code);
            }
        }
        code.finish();
        let allows_names = rules
            .iter()
            .any(|rule| rule.decides() && rule.action == Action::Allow && !rule.reads.answer);
        Self {
            rules,
            shared,
            code,
            question: question.build(),
            answer: answer.build(),
            allows_names,
        }
    }

    pub(super) fn rules(&self) -> &[Rule] {
        &self.rules
    }

    pub(super) fn client_tests(&self) -> &[ClientTest] {
        &self.shared.tests
    }

    /// Returns an error if all rules together exceed a limit; the error names the limit.
    pub(super) fn excess(&self) -> Option<PolicyError> {
        if self.shared.tests.len() > MAX_CLIENT_TESTS {
            return Some(PolicyError::RulesTooLarge {
                what: "conditions on clients",
                most: MAX_CLIENT_TESTS,
            });
        }
        let too_many = self.shared.windows.len() > MAX_WINDOWS;
        too_many
            .then_some(PolicyError::RulesTooLarge { what: "different times", most: MAX_WINDOWS })
    }
}

/// Returns the condition of a rule, prepared for indexing, together with the condition that the
/// rule's action implies.
fn folded(rule: &Rule, names: Names, shared: &mut Shared) -> Folded {
    let folded = shared.fold(&rule.tree, Reading { zone: &rule.zone, names });
    match rule.action {
        Action::SafeSearch => {
            let keys = safe_names().map(|name| NameKey { name: name.clone(), reach: Reach::Exact });
            all(vec![Folded::Leaf(Leaf::Names(keys.collect()), Sense::Plain), folded])
        }
        // Truncation works only over UDP. Over other transports, later rules and the lists decide.
        Action::Truncate => {
            all(vec![shared.fold_client(ClientTest::Transport(Transport::Udp)), folded])
        }
        _ => folded,
    }
}

fn role(rule: &Rule) -> Role {
    match rule.decides() {
        false => Role::Noted,
        true if rule.action.filters() => Role::Filters,
        true => Role::Decides,
    }
}

impl Program {
    /// Combines rules with clients, pauses and grants.
    ///
    /// `clients` must have been built with the tests from [`Rules::client_tests`] and
    /// [`Switches::client_tests`]. A test that is not among them is false for every client.
    #[must_use]
    pub fn build(rules: &Rules, clients: &Clients, switches: &Switches) -> Self {
        Self::of(Arc::clone(&rules.compiled), clients, switches)
    }

    /// Combines the same rules with other clients, pauses or grants.
    #[must_use]
    pub fn with(&self, clients: &Clients, switches: &Switches) -> Self {
        Self::of(Arc::clone(&self.compiled), clients, switches)
    }

    fn of(compiled: Arc<Compiled>, clients: &Clients, switches: &Switches) -> Self {
        let shared = &compiled.shared;
        let words = shared.clients.len().div_ceil(64);
        let mut facts = vec![0u64; words * clients.profiles()].into_boxed_slice();
        let places: Vec<Option<usize>> =
            shared.tests.iter().map(|test| place(clients, test)).collect();
        for (profile, facts) in profiles(clients).zip(facts.chunks_exact_mut(words.max(1))) {
            let holds = |test: u32| {
                places[test as usize].is_some_and(|place| clients.holds(profile, place))
            };
            for (condition, _) in
                shared.clients.iter().enumerate().filter(|(_, steps)| client_holds(steps, holds))
            {
                facts[condition / 64] |= 1 << (condition % 64);
            }
        }
        let rests = [&compiled.question, &compiled.answer]
            .map(|stage| stage.rests(&facts, words, clients.profiles()));
        let lifts = Lifts::build(clients, switches);
        let nobody = vec![0; words].into_boxed_slice();
        Self { compiled, facts, words, rests, lifts, nobody }
    }

    /// Returns the rules in order of evaluation. A [`RuleId`] is an index into them.
    #[must_use]
    pub fn rules(&self) -> &[Rule] {
        &self.compiled.rules
    }

    /// Returns the rule of a verdict.
    #[must_use]
    pub fn rule(&self, id: RuleId) -> Option<&Rule> {
        self.compiled.rules.get(id.0 as usize)
    }

    /// Reports whether any rule tests the answer, so that [`Program::decide_answer`] must be
    /// called.
    #[must_use]
    pub fn reads_answers(&self) -> bool {
        !self.compiled.answer.is_empty()
    }

    /// Reports whether a rule may allow a name that an answer leads to.
    #[must_use]
    pub fn allows_names(&self) -> bool {
        self.compiled.allows_names
    }

    /// Reports whether any condition depends on the time.
    #[must_use]
    pub fn goes_by_time(&self) -> bool {
        !self.compiled.shared.windows.is_empty()
    }

    /// Evaluates the conditions on the time at `now`, in Unix seconds.
    #[must_use]
    pub fn hours(&self, now: u64) -> Hours {
        let mut hours = Hours::default();
        self.renew(&mut hours, now);
        hours
    }

    /// Evaluates the conditions on the time as [`Program::hours`] does, but reuses the memory of
    /// `hours`. Allocates only the first time.
    pub fn renew(&self, hours: &mut Hours, now: u64) {
        let windows = &self.compiled.shared.windows;
        hours.windows.clear();
        hours.windows.extend(windows.iter().map(|window| window.at(now)));
        hours.from = now;
        hours.until = hours.windows.iter().map(|(_, until)| *until).min().unwrap_or(u64::MAX);
    }

    /// Evaluates the rules for a question. `hours` must be current at [`RuleQuestion::now`].
    #[must_use]
    pub fn decide(
        &self,
        question: &RuleQuestion<'_>,
        hours: &Hours,
        lists: &impl ListLookup,
    ) -> Verdict {
        let (stage, rests) = (&self.compiled.question, &self.rests[0]);
        let candidates = stage.candidates(question, rests);
        if candidates.is_empty() && self.lifts.is_empty() {
            return Verdict::NONE;
        }
        let levels = stage.levels_of(question.qname);
        let mut search = self.search(question, (None, &Verdict::NONE), (levels, hours), lists);
        self.lifts.apply(question, &mut search.verdict);
        self.run(stage, &candidates, &mut search)
    }

    /// Evaluates the rules for an answer, given their verdict on its question.
    #[must_use]
    pub fn decide_answer(
        &self,
        question: &RuleQuestion<'_>,
        (answer, before): (&Answer<'_>, &Verdict),
        hours: &Hours,
        lists: &impl ListLookup,
    ) -> Verdict {
        let (stage, rests) = (&self.compiled.answer, &self.rests[1]);
        let levels = stage.levels_of(question.qname);
        let mut search = self.search(question, (Some(answer), before), (levels, hours), lists);
        self.run(stage, &stage.candidates(question, rests), &mut search)
    }

    /// Returns, in order, the rules of a stage that match but do not decide, up to the rule that
    /// decided. The caller needs them if a verdict [has no room](Verdict::overflowed) for all of
    /// them.
    #[cold]
    #[must_use]
    pub fn all_noted(
        &self,
        question: &RuleQuestion<'_>,
        (answer, decided): (Option<&Answer<'_>>, Option<RuleId>),
        hours: &Hours,
        lists: &impl ListLookup,
    ) -> Vec<RuleId> {
        let (stage, rests) = match answer {
            None => (&self.compiled.question, &self.rests[0]),
            Some(_) => (&self.compiled.answer, &self.rests[1]),
        };
        let mut before = Verdict::NONE;
        before.decided = decided;
        let levels = stage.levels_of(question.qname);
        let mut search = self.search(question, (answer, &before), (levels, hours), lists);
        let candidates = stage.candidates(question, rests);
        let mut noted = Vec::new();
        search.noted_among(candidates.rest, &mut noted);
        search.noted_among(candidates.of_type, &mut noted);
        if let Some(nearest) = &candidates.nearest {
            stage.names.for_each(nearest, |list| search.noted_among(list, &mut noted));
        }
        noted.sort_unstable();
        noted.dedup();
        noted
    }

    /// Creates a search that continues from an earlier verdict. The search is constructed in place,
    /// because moving it costs as much as evaluating a rule.
    #[inline(always)]
    fn search<'a, L>(
        &'a self,
        question: &'a RuleQuestion<'a>,
        (answer, before): (Option<&'a Answer<'a>>, &Verdict),
        (levels, hours): (usize, &'a Hours),
        lists: &'a L,
    ) -> Search<'a, L> {
        let start = usize::from(question.profile.0) * self.words;
        let facts = self.facts.get(start..start + self.words).unwrap_or(&self.nobody);
        Search {
            code: &self.compiled.code,
            asking: Asking {
                question,
                levels,
                answer,
                hours,
                lists,
                facts,
                valid_until: u64::MAX,
                memo: Memo::EMPTY,
            },
            verdict: *before,
            first: before.decided.map_or(u32::MAX, |rule| rule.0),
        }
    }

    #[inline]
    fn run<L: ListLookup>(
        &self,
        stage: &Stage,
        candidates: &Candidates<'_>,
        search: &mut Search<'_, L>,
    ) -> Verdict {
        search.among(candidates.rest);
        search.among(candidates.of_type);
        if let Some(nearest) = &candidates.nearest {
            stage.names.for_each(nearest, |list| search.among(list));
        }
        search.finish(&self.compiled.rules);
        search.verdict
    }
}

/// The search for the first rule that decides.
struct Search<'a, L> {
    code: &'a Code,
    asking: Asking<'a, L>,
    verdict: Verdict,
    /// The index of the first rule found so far that decides.
    first: u32,
}

impl<L: ListLookup> Search<'_, L> {
    /// Searches these candidates. Usually there are none, so this test is inlined.
    #[inline]
    fn among(&mut self, candidates: &[Candidate]) {
        if !candidates.is_empty() {
            self.among_some(candidates);
        }
    }

    /// Searches these candidates in order, until one decides.
    fn among_some(&mut self, candidates: &[Candidate]) {
        let is_lifted = self.verdict.lifted.is_some();
        for candidate in candidates {
            if candidate.rule >= self.first {
                return;
            }
            if is_lifted && candidate.role == Role::Filters {
                continue;
            }
            if candidate.client != Candidate::ANYBODY && !self.asking.client_holds(candidate.client)
            {
                continue;
            }
            if !self.code.holds(candidate.code, &mut self.asking) {
                continue;
            }
            match candidate.role {
                Role::Noted => self.verdict.note(RuleId(candidate.rule)),
                Role::Decides | Role::Filters => self.first = candidate.rule,
            }
        }
    }

    /// Adds to `noted` the candidates that match without deciding and are before the rule that
    /// decides.
    fn noted_among(&mut self, candidates: &[Candidate], noted: &mut Vec<RuleId>) {
        for candidate in candidates.iter().filter(|candidate| candidate.role == Role::Noted) {
            let is_for = candidate.client == Candidate::ANYBODY
                || self.asking.client_holds(candidate.client);
            if candidate.rule < self.first
                && is_for
                && self.code.holds(candidate.code, &mut self.asking)
            {
                noted.push(RuleId(candidate.rule));
            }
        }
    }

    #[inline]
    fn finish(&mut self, rules: &[Rule]) {
        if self.first != u32::MAX {
            self.verdict.decided = Some(RuleId(self.first));
            self.verdict.forget_after(RuleId(self.first));
        }
        let noted = self.verdict.noted().iter();
        let is_seen = noted.filter_map(|rule| rules.get(rule.0 as usize)).any(Rule::is_per_query);
        self.verdict.per_query = is_seen || self.verdict.overflowed;
        self.verdict.valid_until = self.verdict.valid_until.min(self.asking.valid_until);
    }
}

impl Lifts {
    fn build(clients: &Clients, switches: &Switches) -> Self {
        let pauses = vec![None; clients.profiles()].into_boxed_slice();
        let mut lifts =
            Self { pauses, has_pauses: !switches.pauses.is_empty(), grants: Vec::new() };
        for (number, pause) in (0..).zip(&switches.pauses) {
            for profile in
                profiles(clients).filter(|profile| is_for(&pause.scope, clients, *profile))
            {
                let longest = &mut lifts.pauses[usize::from(profile.0)];
                if longest.is_none_or(|(_, until)| until < pause.until) {
                    *longest = Some((number, pause.until));
                }
            }
        }
        for (number, grant) in (0..).zip(&switches.grants) {
            // An invalid name was already refused when the grant was made.
            let Ok(name) = super::action::name(&grant.name) else { continue };
            let mut bits = vec![0u64; clients.profiles().div_ceil(64)].into_boxed_slice();
            for profile in
                profiles(clients).filter(|profile| is_for(&grant.scope, clients, *profile))
            {
                bits[usize::from(profile.0) / 64] |= 1 << (profile.0 % 64);
            }
            lifts.grants.push(CompiledGrant { number, name, until: grant.until, profiles: bits });
        }
        lifts
    }

    /// Reports whether no filtering is suspended.
    #[inline]
    fn is_empty(&self) -> bool {
        self.grants.is_empty() && !self.has_pauses
    }

    /// Records in the verdict whether filtering is suspended. Limits the validity of the verdict to
    /// the next beginning or end of a suspension.
    #[inline]
    fn apply(&self, question: &RuleQuestion<'_>, verdict: &mut Verdict) {
        let place = usize::from(question.profile.0);
        if let Some(Some((number, until))) = self.pauses.get(place)
            && question.now < *until
        {
            verdict.lifted = Some(Lift::Pause(*number));
            verdict.valid_until = *until;
            return;
        }
        for grant in &self.grants {
            let is_for =
                grant.profiles.get(place / 64).is_some_and(|word| word >> (place % 64) & 1 != 0);
            if is_for && question.now < grant.until && is_under(question.qname, &grant.name) {
                verdict.lifted = Some(Lift::Grant(grant.number));
                verdict.valid_until = grant.until;
                return;
            }
        }
    }
}

fn is_for(scope: &Scope, clients: &Clients, profile: Profile) -> bool {
    match scope.test() {
        None => true,
        Some(test) => place(clients, &test).is_some_and(|place| clients.holds(profile, place)),
    }
}

/// Returns the index of a test among the tests of `clients`.
fn place(clients: &Clients, test: &ClientTest) -> Option<usize> {
    clients.tests().iter().position(|other| other == test)
}

fn profiles(clients: &Clients) -> impl Iterator<Item = Profile> {
    (0..clients.profiles()).map(|profile| Profile(profile as u16))
}

/// Evaluates a condition on the client from the results of its tests.
fn client_holds(steps: &[ClientStep], holds: impl Fn(u32) -> bool) -> bool {
    let mut values: Vec<bool> = Vec::new();
    for step in steps {
        let value = match *step {
            ClientStep::Test(test) => holds(test),
            ClientStep::Const(value) => value,
            ClientStep::Not => !values.pop().unwrap_or_default(),
            ClientStep::All(count) => {
                let parts = values.split_off(values.len().saturating_sub(count as usize));
                parts.into_iter().all(|part| part)
            }
            ClientStep::Any(count) => {
                let parts = values.split_off(values.len().saturating_sub(count as usize));
                parts.into_iter().any(|part| part)
            }
            ClientStep::If => match values.split_off(values.len().saturating_sub(3)).as_slice() {
                [condition, then, otherwise] => *if *condition { then } else { otherwise },
                _ => false,
            },
        };
        values.push(value);
    }
    values.pop().unwrap_or_default()
}
