//! All rules as one program: asked once for a question, and once more for its answer.
//!
//! Rules are found by what they need: a name, a type, or nothing but a client; see [`Stage`]. Of
//! those that hold the first one decides. Nothing here allocates or waits, and no rule is
//! asked that comes after one that already decided.

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
use crate::client::{ClientTest, Clients, Profile, Transport};

/// A question as the rules see it.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The name in wire form, folded.
    pub qname: &'a [u8],
    /// The type asked for.
    pub qtype: Rtype,
    /// The class asked for.
    pub qclass: Class,
    /// Who asks, as [`Clients::profile`] says.
    pub profile: Profile,
    /// The time, in Unix seconds.
    pub now: u64,
}

/// An answer as the rules see it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Answer<'a> {
    /// Addresses of A and AAAA records and of the hints of SVCB and HTTPS records.
    pub addresses: &'a [IpAddr],
    /// Targets of CNAME, DNAME, SVCB and HTTPS records, in folded wire form.
    pub names: &'a [&'a [u8]],
    /// Those of them that [`ListLookup`] and conditions on services look at.
    pub judged: &'a [&'a [u8]],
    /// The countries of the addresses, where there is a database for them.
    pub countries: &'a [Country],
}

/// Says on which lists a name is: the name asked for, and with an answer the names in it.
pub trait ListLookup {
    /// Is the name on the list, or one that the answer leads to?
    fn contains(&self, list: ListId) -> bool;

    /// Is the name asked for on the list?
    #[inline]
    fn contains_qname(&self, list: ListId) -> bool {
        self.contains(list)
    }
}

/// No name is on any list.
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

/// What holds of the time at a moment. Each thread keeps its own and renews it when it is over.
#[derive(Clone, Debug, Default)]
pub struct Hours {
    from: u64,
    until: u64,
    windows: Vec<(bool, u64)>,
}

impl Hours {
    /// Is it still so at `now`, in Unix seconds?
    #[inline]
    #[must_use]
    pub fn is_current(&self, now: u64) -> bool {
        (self.from..self.until).contains(&now)
    }

    /// Whether a condition on the time holds, and until which second.
    #[inline]
    pub(super) fn of(&self, window: u32) -> (bool, u64) {
        self.windows.get(window as usize).copied().unwrap_or((false, 0))
    }
}

/// What follows from the rules alone.
pub(super) struct Compiled {
    rules: Vec<Rule>,
    shared: Shared,
    code: Code,
    question: Stage,
    answer: Stage,
    allows_names: bool,
}

/// The rules, the clients and the pauses of a configuration, compiled.
#[derive(Clone)]
pub struct Program {
    compiled: Arc<Compiled>,
    /// For each profile its answers to all conditions on clients.
    facts: Box<[u64]>,
    words: usize,
    /// For each profile which of the lists of rules that need no name it gets, by stage.
    rests: [Rests; 2],
    lifts: Lifts,
    /// The answers of a profile that there is not: none.
    nobody: Box<[u64]>,
}

/// When filtering is lifted.
#[derive(Clone, Default)]
struct Lifts {
    /// For each profile the pause that ends last, and when.
    pauses: Box<[Option<(u16, u64)>]>,
    has_pauses: bool,
    grants: Vec<CompiledGrant>,
}

#[derive(Clone)]
struct CompiledGrant {
    number: u16,
    name: Box<[u8]>,
    until: u64,
    /// A bit for each profile in its scope.
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
                // A name behind an alias, which anybody may put there, must not let an answer pass.
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

    /// Which limit the rules exceed together, as a clause.
    pub(super) fn excess(&self) -> Option<String> {
        if self.shared.tests.len() > MAX_CLIENT_TESTS {
            return Some(format!(
                "all rules together ask more than {MAX_CLIENT_TESTS} things about clients"
            ));
        }
        let too_many = self.shared.windows.len() > MAX_WINDOWS;
        too_many.then(|| format!("all rules together have more than {MAX_WINDOWS} different times"))
    }
}

/// The condition of a rule, with what its action adds to it.
fn folded(rule: &Rule, names: Names, shared: &mut Shared) -> Folded {
    let folded = shared.fold(&rule.tree, Reading { zone: &rule.zone, names });
    match rule.action {
        Action::SafeSearch => {
            let keys = safe_names().map(|name| NameKey { name: name.clone(), reach: Reach::Exact });
            all(vec![Folded::Leaf(Leaf::Names(keys.collect()), Sense::Plain), folded])
        }
        // Over other transports there is nothing to be truncated: the rules and lists behind this
        // one decide.
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
    /// Joins rules with clients, pauses and grants.
    ///
    /// `clients` must have been built with what [`Rules::client_tests`] and
    /// [`Switches::client_tests`] ask; what was not asked then holds of nobody.
    #[must_use]
    pub fn build(rules: &Rules, clients: &Clients, switches: &Switches) -> Self {
        Self::of(Arc::clone(&rules.compiled), clients, switches)
    }

    /// The same rules for other clients or with other pauses and grants.
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

    /// The rules in the order in which they are tried; a [`RuleId`] is a place in it.
    #[must_use]
    pub fn rules(&self) -> &[Rule] {
        &self.compiled.rules
    }

    /// The rule of a verdict.
    #[must_use]
    pub fn rule(&self, id: RuleId) -> Option<&Rule> {
        self.compiled.rules.get(id.0 as usize)
    }

    /// Must [`Program::decide_answer`] be called at all?
    #[must_use]
    pub fn reads_answers(&self) -> bool {
        !self.compiled.answer.is_empty()
    }

    /// Whether a rule may let a name pass that an answer leads to.
    #[must_use]
    pub fn allows_names(&self) -> bool {
        self.compiled.allows_names
    }

    /// Whether any condition is on the time.
    #[must_use]
    pub fn goes_by_time(&self) -> bool {
        !self.compiled.shared.windows.is_empty()
    }

    /// What holds of the time at `now`, in Unix seconds.
    #[must_use]
    pub fn hours(&self, now: u64) -> Hours {
        let mut hours = Hours::default();
        self.renew(&mut hours, now);
        hours
    }

    /// As [`Program::hours`], into what is there; allocates only the first time.
    pub fn renew(&self, hours: &mut Hours, now: u64) {
        let windows = &self.compiled.shared.windows;
        hours.windows.clear();
        hours.windows.extend(windows.iter().map(|window| window.at(now)));
        hours.from = now;
        hours.until = hours.windows.iter().map(|(_, until)| *until).min().unwrap_or(u64::MAX);
    }

    /// What the rules say about a question. `hours` must be current at [`Question::now`].
    #[must_use]
    pub fn decide(
        &self,
        question: &Question<'_>,
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

    /// What the rules say about an answer, after what they said about its question.
    #[must_use]
    pub fn decide_answer(
        &self,
        question: &Question<'_>,
        (answer, before): (&Answer<'_>, &Verdict),
        hours: &Hours,
        lists: &impl ListLookup,
    ) -> Verdict {
        let (stage, rests) = (&self.compiled.answer, &self.rests[1]);
        let levels = stage.levels_of(question.qname);
        let mut search = self.search(question, (Some(answer), before), (levels, hours), lists);
        self.run(stage, &stage.candidates(question, rests), &mut search)
    }

    /// All rules that hold at a stage and do not decide, in their order, up to the rule that
    /// decided: where a verdict [has no room](Verdict::overflowed) for them.
    #[cold]
    #[must_use]
    pub fn all_noted(
        &self,
        question: &Question<'_>,
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

    /// A search that goes on from a verdict. It is made where it stays: moving it costs as much as
    /// a rule.
    #[inline(always)]
    fn search<'a, L>(
        &'a self,
        question: &'a Question<'a>,
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
    /// The place of the first rule found that decides.
    first: u32,
}

impl<L: ListLookup> Search<'_, L> {
    /// Looks among candidates, of which there are mostly none.
    #[inline]
    fn among(&mut self, candidates: &[Candidate]) {
        if !candidates.is_empty() {
            self.among_some(candidates);
        }
    }

    /// Looks among candidates in their order, up to the rule that decides.
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

    /// Adds the candidates that hold and do not decide, before the rule that decides.
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
            // A name that can't be read was refused when the grant was made.
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

    /// Is filtering lifted for nobody?
    #[inline]
    fn is_empty(&self) -> bool {
        self.grants.is_empty() && !self.has_pauses
    }

    /// Says in the verdict what lifts filtering, and bounds how long the verdict is valid.
    #[inline]
    fn apply(&self, question: &Question<'_>, verdict: &mut Verdict) {
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

/// The number of a test among those that the clients were asked.
fn place(clients: &Clients, test: &ClientTest) -> Option<usize> {
    clients.tests().iter().position(|other| other == test)
}

fn profiles(clients: &Clients) -> impl Iterator<Item = Profile> {
    (0..clients.profiles()).map(|profile| Profile(profile as u16))
}

/// Does a condition on the client hold, given the answers to its tests?
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
