//! The verdicts of the policy on a question and on an answer.

use std::cell::Cell;
use std::net::IpAddr;

use avocet_policy::list::{self, Decision, ListId, ListSet, Rewrite};
use avocet_policy::rpz::{self, Found};
use avocet_policy::rule::{
    self, Action, Admission, Answer, BlockForm, Hours, ListLookup, NoLists, Over, Rule, RuleId,
    Target, Verdict, rebinds, safe_name,
};
use avocet_resolver::NameServers;
use avocet_wire::{Class, FoldedName, NameBuf, Rcode, Rtype};

use super::counts::PendingCounts;
use super::names::AnswerTargets;
use super::ruling::{
    AnswerRuling, AnswerVerdict, Decider, Made, QuestionRuling, QuestionVerdict, Validity,
};
use super::{Answered, Asked, Moment, Policy, Scratch, Tokens};
use crate::query::alias::Alias;
use crate::query::asked::Transport;
use crate::query::blocked::{Form, MAX_BLOCK_RECORDS};
use crate::query::decision::Stage;

/// The note of an answer from which the policy removed private addresses. A note is the index of a
/// reason; see [`Policy::notes`].
pub(super) const REBINDING_NOTE: u16 = 1;
/// The note of an answer that has more names or addresses than the policy examines.
pub(super) const UNREAD_NOTE: u16 = 2;
/// The note of a name for which the look-up in lists reached the limit on the work of a question.
pub(super) const UNDECIDED_NOTE: u16 = 3;
/// The note (index of the reason) of the first list.
pub(super) const FIRST_LIST_NOTE: usize = 4;
/// The note (index of the reason) of the first kind of triggers of the first policy zone.
pub(super) const FIRST_ZONE_NOTE: usize = FIRST_LIST_NOTE + list::MAX_LISTS;
/// The note (index of the reason) of the first rule.
pub(super) const FIRST_RULE_NOTE: usize =
    FIRST_ZONE_NOTE + rpz::MAX_POLICY_ZONES * rpz::TriggerKind::ALL.len();
/// The places of all kinds of notes. A note that an earlier build has stored has the same meaning
/// only if that build had the same places.
pub const NOTE_PLACES: [usize; 6] = [
    REBINDING_NOTE as usize,
    UNREAD_NOTE as usize,
    UNDECIDED_NOTE as usize,
    FIRST_LIST_NOTE,
    FIRST_ZONE_NOTE,
    FIRST_RULE_NOTE,
];
/// Nanoseconds of a millisecond.
const MILLI: u64 = 1_000_000;

/// The buffers that a decision on a question uses.
struct Rooms<'a> {
    hours: &'a Hours,
    named_lists: &'a mut list::Scratch,
    noted: &'a mut Vec<RuleId>,
    /// Set if a rule tests a list that could not be searched completely within the limit on the
    /// work of a question.
    is_undecided: &'a Cell<bool>,
}

impl Scratch {
    /// Prepares the memory for a question. The function is inlined, because almost always nothing
    /// has changed.
    #[inline(always)]
    pub(super) fn renew(&mut self, policy: &Policy, generation: u32, wall_secs: u64) {
        for lists in [&mut self.lists, &mut self.named_lists] {
            policy.counts.count_cut_short(lists.take_cut_short());
            lists.begin_question();
        }
        if self.generation != Some(generation) || !self.hours.is_current(wall_secs) {
            self.renew_hours(policy, generation, wall_secs);
        }
    }

    #[cold]
    fn renew_hours(&mut self, policy: &Policy, generation: u32, wall_secs: u64) {
        policy.program.renew(&mut self.hours, wall_secs);
        self.generation = Some(generation);
    }
}

impl Policy {
    /// Decides on a question: returns the verdict, its reason and its validity. Takes a token of
    /// each matching rate limit, except with [`Scratch::for_looking`]. `generation` is the number
    /// of this policy; a new policy has another number.
    pub fn question(
        &self,
        asked: &Asked<'_>,
        (moment, generation): (Moment, u32),
        scratch: &mut Scratch,
    ) -> QuestionRuling<'_> {
        scratch.renew(self, generation, moment.wall_secs);
        let verdict = self.decide(asked, moment, scratch);
        scratch.held.note(&scratch.noted, verdict.decided);
        let (validity, decided) = (Validity::of(&verdict, moment), verdict.decided);
        let is_undecided = self.is_undecided(&verdict, scratch);
        for &id in &scratch.noted {
            if let Some(over) = self.over_limit(id, asked, moment, scratch.tokens) {
                let limited = match over {
                    Over::Drop => QuestionVerdict::Drop,
                    Over::Truncate => QuestionVerdict::Truncate,
                    Over::Refuse => QuestionVerdict::Answer(self.refusal(id)),
                };
                let (by, note) = (Decider::Rule, rule_note(id));
                return QuestionRuling { verdict: limited, by, validity, note };
            }
        }
        if is_undecided {
            let verdict = QuestionVerdict::Answer(self.unread(UNDECIDED_NOTE, validity));
            return QuestionRuling { verdict, by: Decider::Rule, validity, note: UNDECIDED_NOTE };
        }
        match decided {
            None if verdict.lifted.is_some() => {
                let verdict = QuestionVerdict::Pass;
                QuestionRuling { verdict, by: Decider::Rule, validity, note: 0 }
            }
            None => self.ruling_of_lists(asked, validity, scratch),
            Some(id) => self.by_rule_or_lists(id, asked, validity, scratch),
        }
    }

    /// Decides on an answer.
    pub fn answer(
        &self,
        asked: &Asked<'_>,
        answered: &Answered<'_, impl Fn(FoldedName<'_>) -> NameServers>,
        (moment, generation): (Moment, u32),
        scratch: &mut Scratch,
    ) -> AnswerRuling<'_> {
        scratch.renew(self, generation, moment.wall_secs);
        let before = self.decide(asked, moment, scratch);
        if answered.lists_may_have_begun
            && let Some(ruling) = self.by_lists_begun(asked, (&before, moment), scratch)
        {
            return ruling;
        }
        scratch.found.read(answered.message, answered.translation);
        scratch.noted_later.clear();
        let until = self.free_names(asked, moment, scratch);
        let mut verdict = before;
        if self.program.reads_answers() {
            if let Some(database) = &self.countries {
                scratch.found.locate(database, answered.translation);
            }
            verdict = self.decide_answer(asked, &before, moment, scratch);
        }
        scratch.held.note(
            &scratch.noted_later,
            verdict.decided.filter(|_| verdict.decided != before.decided),
        );
        verdict.valid_until = verdict.valid_until.min(until);
        let validity = Validity::of(&verdict, moment);
        // While the query waited, a rule on the question may have started to match.
        let rule = verdict.decided.map(rule_note).unwrap_or_default();
        if let Some(id) = verdict.decided {
            let QuestionRuling { verdict: in_place, note, .. } =
                self.by_rule_or_lists(id, asked, validity, scratch);
            if let Some(verdict) = in_place.in_place_of_an_answer() {
                return AnswerRuling { verdict, note };
            }
        }
        if let Some(note) = self.unread_note(asked, &verdict, scratch) {
            return self.unread(note, validity).in_place_of_an_answer();
        }
        let (ttl_secs, forward) = (self.ttl_bounds(&scratch.noted), self.servers_of(&before));
        let passes = AnswerVerdict::Pass { validity, ttl_secs, forward };
        let pass = AnswerRuling { verdict: passes, note: rule };
        if verdict.decided.is_some() {
            return pass;
        }
        if verdict.lifted.is_some() {
            return self
                .against_rebinding(asked, answered, (validity, &scratch.found))
                .unwrap_or(pass);
        }
        let listed = self.by_lists_behind(asked, validity, scratch);
        if let Some(fired) = self.zone_at_answer(asked, answered, &scratch.found)
            && self.goes_first(&fired.found, listed.as_ref().map(|(_, list)| *list))
            && !self.is_allowed(asked, &mut scratch.lists)
        {
            let verdict = self.by_zone(fired, asked, (validity, &mut scratch.held));
            let note = scratch.note_of(&verdict);
            if let Some(verdict) = verdict.in_place_of_an_answer() {
                return AnswerRuling { verdict, note };
            }
        } else if let Some((made, _)) = listed {
            return made.in_place_of_an_answer();
        }
        self.against_rebinding(asked, answered, (validity, &scratch.found)).unwrap_or(pass)
    }

    /// Replaces an answer in which a public name leads to a private address or a local name. This
    /// protects clients, so pauses and grants do not suspend it.
    fn against_rebinding(
        &self,
        asked: &Asked<'_>,
        answered: &Answered<'_, impl Fn(FoldedName<'_>) -> NameServers>,
        (validity, found): (Validity, &AnswerTargets),
    ) -> Option<AnswerRuling<'_>> {
        let exceptions = self.rebinding.as_ref().filter(|_| !answered.has_own_servers)?;
        let is_local = answered.has_local_target && !exceptions.contains(&asked.qname);
        if !is_local {
            rebinds(&asked.qname, &mut found.reached(answered.translation), exceptions)?;
        }
        let made = self.blocked((self.block_form(), None), (REBINDING_NOTE, validity));
        Some(Made { form: Form::Nodata, ..made }.in_place_of_an_answer())
    }

    /// Decides on a question that gets no answer, for a policy zone that had waited for the answer.
    /// Returns `None` if no zone decides.
    pub fn without_answer(
        &self,
        asked: &Asked<'_>,
        (moment, generation): (Moment, u32),
        scratch: &mut Scratch,
    ) -> Option<QuestionVerdict<'_>> {
        let fired = self.zone_without_answer(asked)?;
        scratch.renew(self, generation, moment.wall_secs);
        let verdict = self.decide(asked, moment, scratch);
        scratch.held.clear();
        if verdict.decided.is_some()
            || verdict.lifted.is_some()
            || self.is_allowed(asked, &mut scratch.lists)
        {
            return None;
        }
        Some(self.by_zone(fired, asked, (Validity::of(&verdict, moment), &mut scratch.held)))
    }

    /// Returns the verdict of the rules on a question. The matching rules that do not decide are in
    /// `scratch.noted`.
    pub(super) fn decide(
        &self,
        asked: &Asked<'_>,
        moment: Moment,
        scratch: &mut Scratch,
    ) -> Verdict {
        let Scratch { hours, named_lists, noted, is_undecided, .. } = scratch;
        is_undecided.set(false);
        self.decide_in(asked, moment, Rooms { hours, named_lists, noted, is_undecided })
    }

    fn decide_in(
        &self,
        asked: &Asked<'_>,
        moment: Moment,
        Rooms { hours, named_lists, noted, is_undecided }: Rooms<'_>,
    ) -> Verdict {
        let question = to_rules(asked, moment);
        match self.lists.as_ref().filter(|_| self.asks_for_lists) {
            None => self.decide_with((&question, None), hours, &NoLists, noted),
            Some(lists) => {
                let found =
                    lists.lookup(self.to_lists(asked, &asked.qname), &ListSet::ALL, named_lists);
                let on_list = |wanted: rule::ListId| {
                    let is_on = found.matches().any(|one| self.is_on(&one, wanted))
                        || self
                            .zones_naming(&asked.qname)
                            .any(|place| place == usize::from(wanted.0));
                    if !is_on && found.is_incomplete() {
                        is_undecided.set(true);
                    }
                    is_on
                };
                self.decide_with((&question, None), hours, &on_list, noted)
            }
        }
    }

    /// Finds the names in an answer that a rule would allow if they were queried. Such names do not
    /// block the answer. Returns the Unix second until which the result is valid.
    pub(super) fn free_names(
        &self,
        asked: &Asked<'_>,
        moment: Moment,
        scratch: &mut Scratch,
    ) -> u64 {
        let Scratch { found, hours, named_lists, .. } = scratch;
        found.freed.clear();
        let mut until = u64::MAX;
        if !self.program.allows_names() {
            return until;
        }
        for name in &found.names {
            let asked = Asked { qname: name.view(), ..*asked };
            // Without a whole look-up, the name is free only if a list is found to have it.
            let (noted, is_undecided) = (&mut Vec::new(), &Cell::default());
            let rooms = Rooms { hours, named_lists, noted, is_undecided };
            let verdict = self.decide_in(&asked, moment, rooms);
            let rule = verdict.decided.and_then(|id| self.program.rule(id));
            let is_free = rule.is_some_and(|rule| matches!(rule.action, Action::Allow));
            found.freed.push(is_free && !is_undecided.get());
            until = until.min(verdict.valid_until);
        }
        until
    }

    /// Evaluates the rules on a question, or on its answer after the verdict on the question.
    /// `noted` receives all matching rules that do not decide.
    pub(super) fn decide_with(
        &self,
        (question, after): (&rule::RuleQuestion<'_>, Option<(&Answer<'_>, &Verdict)>),
        hours: &Hours,
        lists: &impl ListLookup,
        noted: &mut Vec<RuleId>,
    ) -> Verdict {
        let mut verdict = match after {
            None => self.program.decide(question, hours, lists),
            Some(after) => self.program.decide_answer(question, after, hours, lists),
        };
        if verdict.overflowed {
            // Rules that match the question are already in `noted`.
            let mut all = self.program.all_noted(
                question,
                (after.map(|(answer, _)| answer), verdict.decided),
                hours,
                lists,
            );
            all.extend(noted.iter().filter(|id| {
                after.is_some() && verdict.decided.is_none_or(|decided| **id < decided)
            }));
            all.sort_unstable();
            all.dedup();
            *noted = all;
            verdict.per_query =
                noted.iter().filter_map(|id| self.program.rule(*id)).any(Rule::is_per_query);
        } else {
            noted.clear();
            noted.extend_from_slice(verdict.noted());
        }
        verdict
    }

    fn over_limit(
        &self,
        id: RuleId,
        asked: &Asked<'_>,
        moment: Moment,
        tokens: Tokens,
    ) -> Option<Over> {
        let rule = self.program.rule(id).filter(|rule| !rule.log_only)?;
        let Action::RateLimit(limit) = &rule.action else { return None };
        let (whose, now) = ((asked.ip, asked.qname.wire()), moment.millis * MILLI);
        let admission = match tokens {
            Tokens::Take => self.limiter.admit(id, limit, whose, now),
            Tokens::Leave => self.limiter.would_admit(id, limit, whose, now),
        };
        // Truncation has no effect over TCP: the client has already switched to TCP, so the next
        // rule decides.
        let is_decision = limit.over != Over::Truncate || asked.transport == Transport::Udp;
        (admission == Admission::Over && is_decision).then_some(limit.over)
    }

    fn ttl_bounds(&self, noted: &[RuleId]) -> Option<(u32, u32)> {
        noted.iter().filter_map(|id| self.program.rule(*id)).find_map(|rule| match rule.action {
            Action::Ttl { min_secs, max_secs } if !rule.log_only => Some((min_secs, max_secs)),
            _ => None,
        })
    }

    /// Applies the deciding rule to the question. A safe-search rule does not override lists that
    /// block the name.
    fn by_rule_or_lists(
        &self,
        id: RuleId,
        asked: &Asked<'_>,
        validity: Validity,
        scratch: &mut Scratch,
    ) -> QuestionRuling<'_> {
        if self.program.rule(id).is_some_and(|rule| matches!(rule.action, Action::SafeSearch)) {
            let listed = self.ruling_of_lists(asked, validity, scratch);
            if !matches!(listed.verdict, QuestionVerdict::Pass) {
                return listed;
            }
        }
        let verdict = self.by_rule(id, asked, validity);
        QuestionRuling { verdict, by: Decider::Rule, validity, note: rule_note(id) }
    }

    #[inline(always)]
    pub(super) fn ruling_of_lists(
        &self,
        asked: &Asked<'_>,
        validity: Validity,
        scratch: &mut Scratch,
    ) -> QuestionRuling<'_> {
        let verdict = self.by_lists(asked, validity, scratch);
        let mut ruling = QuestionRuling { verdict, by: Decider::List, validity, note: 0 };
        ruling.note = scratch.note_of(&ruling.verdict);
        ruling
    }

    fn by_rule(&self, id: RuleId, asked: &Asked<'_>, validity: Validity) -> QuestionVerdict<'_> {
        let Some(rule) = self.program.rule(id) else { return QuestionVerdict::Pass };
        let why = (rule_note(id), validity);
        match &rule.action {
            Action::Block(block) => {
                let form =
                    block.form.map_or(self.block_form(), |form| to_form(form, &block.addresses));
                QuestionVerdict::Answer(self.blocked((form, block.ttl_secs), why))
            }
            Action::Redirect(target, ttl_secs) => self.redirected(asked, (target, *ttl_secs), why),
            Action::SafeSearch => match safe_name(&asked.qname) {
                // Other types are not redirected: mail to these domains and proofs of ownership
                // need them.
                Some(safe) if leads_to_address(asked.qtype) => {
                    self.redirected(asked, (&safe.target, None), why)
                }
                _ => QuestionVerdict::Pass,
            },
            Action::Drop => QuestionVerdict::Drop,
            Action::Truncate => QuestionVerdict::Truncate,
            Action::Forward(servers) => QuestionVerdict::Forward(servers.clone()),
            Action::Allow | Action::Ttl { .. } | Action::RateLimit(_) | Action::Tag(_) => {
                QuestionVerdict::Pass
            }
        }
    }

    fn redirected<'p>(
        &self,
        asked: &Asked<'_>,
        (target, ttl_secs): (&'p Target, Option<u32>),
        (note, validity): (u16, Validity),
    ) -> QuestionVerdict<'p> {
        let ttl_secs = ttl_secs.unwrap_or(self.block.ttl_secs).min(validity.secs);
        match target {
            Target::Addresses(addresses) => {
                let form = Form::Addresses(addresses);
                let stage = Stage::Rewritten;
                QuestionVerdict::Answer(Made {
                    form,
                    ttl_secs,
                    note,
                    validity,
                    stage,
                    behind: None,
                })
            }
            Target::Name(name) => rename(asked.qname, name, (ttl_secs, note)),
        }
    }

    fn by_lists(
        &self,
        asked: &Asked<'_>,
        validity: Validity,
        scratch: &mut Scratch,
    ) -> QuestionVerdict<'_> {
        let Some((lists, in_force)) = self.lists_for(asked) else { return QuestionVerdict::Pass };
        let Scratch { lists: scratch, held, .. } = scratch;
        let question = self.to_lists(asked, &asked.qname);
        let rest = self.rest(in_force, |all| lists.lookup(question, all, scratch).decision());
        let found = lists.lookup(question, rest.as_ref().unwrap_or(in_force), scratch);
        let is_undecided = found.is_incomplete() && found.decision() == Decision::None;
        let verdict = self.by_found(&found, asked, (validity, held));
        match verdict {
            QuestionVerdict::Pass if is_undecided => {
                QuestionVerdict::Answer(self.unread(UNDECIDED_NOTE, validity))
            }
            verdict => verdict,
        }
    }

    #[inline(always)]
    fn by_found(
        &self,
        found: &list::Found<'_>,
        asked: &Asked<'_>,
        (validity, held): (Validity, &mut PendingCounts),
    ) -> QuestionVerdict<'_> {
        if let Some(fired) = self.zone_at_question(asked)
            && found.decision() != Decision::Allowed
            && self.goes_first(&fired.found, found.deciding().map(|one| one.list))
        {
            return self.by_zone(fired, asked, (validity, held));
        }
        let note = found.deciding().map_or(0, |one| self.list_note(one.list));
        let made = self.blocked((self.block_form(), None), (note, validity));
        match found.decision() {
            Decision::None | Decision::Allowed => QuestionVerdict::Pass,
            Decision::Blocked => QuestionVerdict::Answer(made),
            Decision::Rewritten => match found.rewrite() {
                Some(Rewrite::Cname(target)) => rename(asked.qname, target, (made.ttl_secs, note)),
                Some(rewrite @ Rewrite::Rcode(_)) => match denial(rewrite) {
                    Some(form) => QuestionVerdict::Answer(Made { form, ..made }),
                    None => QuestionVerdict::Pass,
                },
                Some(Rewrite::Record(..)) => {
                    let records = found.all_deciding().filter_map(|one| match one.rewrite {
                        Some(Rewrite::Record(rtype, rdata)) => Some((*rtype, rdata.clone())),
                        _ => None,
                    });
                    let form = Form::Records(records.take(MAX_BLOCK_RECORDS).collect());
                    QuestionVerdict::Answer(Made { form, stage: Stage::Rewritten, ..made })
                }
                Some(Rewrite::Any) | None => QuestionVerdict::Pass,
            },
        }
    }

    /// Blocks an answer with a name on a block list, so that an alias does not hide the name.
    fn by_lists_behind(
        &self,
        asked: &Asked<'_>,
        validity: Validity,
        scratch: &mut Scratch,
    ) -> Option<(Made<'_>, ListId)> {
        let (lists, in_force) = self.lists_for(asked)?;
        let Scratch { found, lists: scratch, .. } = scratch;
        if found.names.is_empty() {
            return None;
        }
        if self.is_allowed(asked, scratch) {
            return None;
        }
        let mut is_undecided = false;
        for name in found.judged() {
            let question = self.to_lists(asked, name.wire());
            let look = |all: &_| lists.lookup_behind(question, all, scratch).decision();
            let rest = self.rest(in_force, look);
            let behind = lists.lookup_behind(question, rest.as_ref().unwrap_or(in_force), scratch);
            is_undecided |= behind.is_incomplete() && behind.decision() == Decision::None;
            let form = match behind.decision() {
                // An allowed name does not allow the other names of the answer.
                Decision::None | Decision::Allowed => continue,
                Decision::Blocked => self.block_form(),
                Decision::Rewritten => {
                    behind.rewrite().and_then(denial).unwrap_or_else(|| self.block_form())
                }
            };
            let list = behind.deciding()?.list;
            return Some((self.blocked((form, None), (self.list_note(list), validity)), list));
        }
        // No policy zone comes before the first list, so that none lets the name pass.
        is_undecided
            .then(|| Some((self.unread(UNDECIDED_NOTE, validity), ListId::at(0)?)))
            .flatten()
    }

    /// Returns whether a trigger of a policy zone takes precedence over `list`. Without a list, the
    /// trigger does. An `rpz-passthru` trigger, which only ends the evaluation of zones, never
    /// takes precedence over a list.
    fn goes_first(&self, found: &Found<'_>, list: Option<ListId>) -> bool {
        list.is_none_or(|list| {
            *found.action != rpz::Action::Passthru
                && self.list_of(found).is_some_and(|zone| zone < list)
        })
    }

    pub(super) fn to_lists<'a>(
        &'a self,
        asked: &Asked<'a>,
        name: &'a [u8],
    ) -> list::ListQuestion<'a> {
        let (names, tags): (&[_], &[_]) = match self.known_to_lists.get(usize::from(asked.profile))
        {
            Some(known) => (&known.names, &known.tags),
            None => (&[], &[]),
        };
        let asker = list::Asker { address: Some(asked.ip), names, tags };
        list::ListQuestion { qname: name, qtype: asked.qtype, asker }
    }

    fn is_on(&self, one: &list::Match<'_>, wanted: rule::ListId) -> bool {
        self.place_of(one.list) == Some(usize::from(wanted.0)) && names_it(one)
    }

    pub(super) fn zone_note(&self, found: &Found<'_>) -> u16 {
        (FIRST_ZONE_NOTE + found.zone * rpz::TriggerKind::ALL.len() + found.kind as usize) as u16
    }

    pub(super) fn block_form(&self) -> Form<'_> {
        to_form(self.block.answer, &self.block.addresses)
    }

    pub(super) fn blocked<'p>(
        &self,
        (form, ttl_secs): (Form<'p>, Option<u32>),
        (note, validity): (u16, Validity),
    ) -> Made<'p> {
        let ttl_secs = ttl_secs.unwrap_or(self.block.ttl_secs).min(validity.secs);
        Made { form, ttl_secs, note, validity, stage: Stage::Blocked, behind: None }
    }

    fn refusal(&self, id: RuleId) -> Made<'static> {
        let note = rule_note(id);
        Made {
            form: Form::Rcode(Rcode::REFUSED),
            ttl_secs: 0,
            note,
            validity: Validity::ALWAYS,
            stage: Stage::Limited,
            behind: None,
        }
    }
}

/// Returns the note of a rule.
fn rule_note(id: RuleId) -> u16 {
    (FIRST_RULE_NOTE + id.0 as usize) as u16
}

/// Returns whether a matching line means that the list has the name. An exception means so only on
/// an allow list.
pub(super) fn names_it(one: &list::Match<'_>) -> bool {
    one.effect == list::Effect::Block || one.is_of_allow_list
}

pub(super) fn to_rules<'a>(asked: &Asked<'a>, moment: Moment) -> rule::RuleQuestion<'a> {
    let profile = avocet_policy::client::Profile(asked.profile);
    rule::RuleQuestion {
        qname: asked.qname.wire(),
        qtype: asked.qtype,
        qclass: Class::IN,
        profile,
        now: moment.wall_secs,
    }
}

fn to_form(form: BlockForm, addresses: &[IpAddr]) -> Form<'_> {
    match form {
        BlockForm::Nxdomain => Form::Nxdomain,
        BlockForm::Nodata => Form::Nodata,
        BlockForm::Refused => Form::Rcode(Rcode::REFUSED),
        BlockForm::Zero => Form::Zero,
        BlockForm::Addresses => Form::Addresses(addresses),
    }
}

/// Returns the form of an answer without records, for a rule that rewrites to an RCODE.
fn denial(rewrite: &Rewrite) -> Option<Form<'static>> {
    match rewrite {
        Rewrite::Rcode(Rcode::NOERROR) => Some(Form::Nodata),
        Rewrite::Rcode(Rcode::NXDOMAIN) => Some(Form::Nxdomain),
        Rewrite::Rcode(rcode) => Some(Form::Rcode(*rcode)),
        _ => None,
    }
}

/// Returns an alias to another name. If the target is the QNAME itself, the query is resolved
/// normally.
fn rename(
    qname: FoldedName<'_>,
    target: &[u8],
    (ttl_secs, note): (u32, u16),
) -> QuestionVerdict<'static> {
    match NameBuf::from_wire(target) {
        Ok(target) if *qname != *target.wire() => {
            let alias = Alias { owner: qname.to_buf(), target, ttl_secs, note, flattening: None };
            QuestionVerdict::Rename(vec![alias])
        }
        _ => QuestionVerdict::Pass,
    }
}

/// Returns whether clients use records of this type to find the addresses of a site.
fn leads_to_address(qtype: Rtype) -> bool {
    matches!(qtype, Rtype::A | Rtype::AAAA | Rtype::CNAME | Rtype::SVCB | Rtype::HTTPS | Rtype::ANY)
}
