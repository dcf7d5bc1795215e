//! Explains the policy in words, from the same verdicts that queries get.

use avocet_policy::list::{self, Decision};
use avocet_policy::rpz::ZoneSet;
use avocet_policy::rule::{self, Action, Verdict};
use avocet_wire::{FoldedName, Rtype};

use super::explanation::{ExplainedLine, Explanation, Importance, LineEntry, Outcome, Treatment};
use super::geo::letters;
use super::ruling::{AnswerRuling, AnswerVerdict, Decider, Made, QuestionRuling, QuestionVerdict};
use super::verdict::names_it;
use super::{Asked, KnownAnswer, Lists, Moment, Policy, Scratch, names};
use crate::query::decision::Stage;

impl Policy {
    /// Returns the outcome for a question and, if known, its answer, with the rule or list that
    /// decides.
    pub fn outcome(
        &self,
        asked: &Asked<'_>,
        answered: Option<&KnownAnswer<'_>>,
        moment: (Moment, u32),
        scratch: &mut Scratch,
    ) -> (Outcome, Decider) {
        let QuestionRuling { verdict, by, note, .. } = self.question(asked, moment, scratch);
        let said = match (verdict, answered) {
            (QuestionVerdict::Pass, Some(answered)) => {
                let AnswerRuling { verdict, note } = self.answer(asked, answered, moment, scratch);
                self.said_of_answer(&verdict, note)
            }
            // Triggers on the answer cannot be evaluated without an answer: the triggers on the
            // question decide.
            (QuestionVerdict::Pass, None) if by == Decider::List => {
                match self.without_answer(asked, moment, scratch) {
                    Some(verdict) => self.said_of_question(&verdict, scratch.note_of(&verdict)),
                    None => Outcome::passes(),
                }
            }
            (verdict, _) => self.said_of_question(&verdict, note),
        };
        (said, by)
    }

    /// Describes a verdict on a question with its [note](super::QuestionRuling::note).
    pub fn said_of_question(&self, verdict: &QuestionVerdict<'_>, note: u16) -> Outcome {
        self.said(of_question(verdict), note)
    }

    /// Describes a verdict on an answer with its [note](super::AnswerRuling::note).
    pub fn said_of_answer(&self, verdict: &AnswerVerdict<'_>, note: u16) -> Outcome {
        self.said(of_answer(verdict), note)
    }

    /// Describes the verdict of a cached answer by its note; see [`Policy::notes`].
    pub fn said_by_note(&self, note: u16, stage: Stage) -> Outcome {
        let is_rewritten = stage == Stage::Rewritten;
        self.said(if is_rewritten { Treatment::Rewrite } else { Treatment::Block }, note)
    }

    /// Returns the text of a [note](Policy::notes), or `None` for zero.
    pub fn note_text(&self, note: u16) -> Option<&str> {
        let place = usize::from(note).checked_sub(1)?;
        self.notes.get(place).map(|(_, text)| &**text)
    }

    fn said(&self, treatment: Treatment, note: u16) -> Outcome {
        let why = self.note_text(note).filter(|_| treatment != Treatment::Pass);
        Outcome { treatment, why: why.unwrap_or_default().to_owned() }
    }

    /// Explains the decision on a question and, if known, its answer. The explanation has the
    /// client, the rules, and each list line that matches the name or an alias in the answer.
    /// `outcome` is the result.
    pub fn explain<'p>(
        &'p self,
        asked: &Asked<'_>,
        (answered, outcome): (Option<&KnownAnswer<'_>>, &Outcome),
        (moment, generation): (Moment, u32),
        scratch: &mut Scratch,
    ) -> Explanation<'p> {
        let verdict = self.verdict(asked, answered, (moment, generation), scratch);
        let Outcome { treatment, why } = outcome.clone();
        let decided = verdict.decided.and_then(|id| self.program.rule(id));
        // Safe search does not block. If the query is blocked, a list has decided, not the rule.
        let decided = decided.filter(|rule| {
            !matches!(rule.action, Action::SafeSearch) || treatment != Treatment::Block
        });
        let why = match decided {
            // A redirected, dropped or truncated query has no reason for the client, so the rule's
            // name is used.
            Some(rule) if why.is_empty() && treatment != Treatment::Pass => {
                format!("rule {}", rule.name)
            }
            _ => why,
        };
        let mut lines = self.lines(asked, answered, moment, scratch);
        if decided.is_some() || verdict.lifted.is_some() {
            lines.iter_mut().for_each(ExplainedLine::overrule);
        }
        Explanation {
            outcome: Outcome { treatment, why },
            identity: self.clients.identify_with(asked.ip, asked.device),
            rule: decided,
            noted: scratch.noted.iter().filter_map(|id| self.program.rule(*id)).collect(),
            lifted: verdict.lifted,
            valid_until: Some(verdict.valid_until).filter(|until| *until != u64::MAX),
            countries: answered.and_then(|answered| self.countries_of(answered)),
            lines,
        }
    }

    /// Returns the verdict of the rules, including rules on the answer if it is known.
    fn verdict(
        &self,
        asked: &Asked<'_>,
        answered: Option<&KnownAnswer<'_>>,
        (moment, generation): (Moment, u32),
        scratch: &mut Scratch,
    ) -> Verdict {
        scratch.renew(self, generation, moment.wall_secs);
        let before = self.decide(asked, moment, scratch);
        match answered {
            Some(answered) if self.program.reads_answers() => {
                scratch.found.read(answered.message, answered.translation);
                if let Some(database) = &self.countries {
                    scratch.found.locate(database, answered.translation);
                }
                self.free_names(asked, moment, scratch);
                self.decide_answer(asked, &before, moment, scratch)
            }
            _ => before,
        }
    }

    /// Returns the countries of the addresses in an answer; `None` if no rule tests countries.
    fn countries_of(&self, answered: &KnownAnswer<'_>) -> Option<Vec<String>> {
        let mut found = names::AnswerTargets::default();
        found.read(answered.message, answered.translation);
        found.locate(self.countries.as_deref()?, answered.translation);
        Some(found.countries.iter().copied().map(letters).collect())
    }

    /// Returns each list line that matches the name or an alias in the answer, even if the list
    /// does not apply to the client.
    fn lines<'p>(
        &'p self,
        asked: &Asked<'_>,
        answered: Option<&KnownAnswer<'_>>,
        moment: Moment,
        scratch: &mut Scratch,
    ) -> Vec<ExplainedLine<'p>> {
        let Some(lists) = &self.lists else { return Vec::new() };
        let mut lines = self.lines_about(lists, asked, (&asked.qname, Standing::Asked), scratch);
        let is_named = lines.iter().any(|line| line.decides);
        let mut behind = Vec::new();
        if let Some(answered) = answered {
            scratch.found.read(answered.message, answered.translation);
            self.free_names(asked, moment, scratch);
        }
        let read = std::mem::take(&mut scratch.found);
        for (place, name) in read.names.iter().enumerate().filter(|_| answered.is_some()) {
            let is_freed = read.freed.get(place).is_some_and(|freed| *freed);
            let about = self.lines_about(lists, asked, (name.wire(), Standing::Behind), scratch);
            behind.extend(about.into_iter().map(|mut line| {
                line.decides &= !is_freed;
                (name, line)
            }));
        }
        // The first blocked name decides. An allowed name decides only if no name is blocked.
        let blocked = behind.iter().find(|(_, line)| line.blocks()).map(|(name, _)| *name);
        lines.extend(behind.into_iter().map(|(name, mut line)| {
            line.decides &= !is_named && blocked.is_none_or(|blocked| blocked == name);
            line.alias = Some(name.to_string());
            line
        }));
        lines.extend(self.triggers(lists, asked, answered));
        lines
    }

    fn lines_about<'p>(
        &'p self,
        lists: &'p Lists,
        asked: &Asked<'_>,
        (name, standing): (&[u8], Standing),
        scratch: &mut Scratch,
    ) -> Vec<ExplainedLine<'p>> {
        let question = self.to_lists(asked, name);
        let in_force = self.in_force.get(usize::from(asked.profile));
        let Scratch { lists: memory, named_lists, .. } = scratch;
        let all = standing.look(lists, (question, &list::ListSet::ALL), memory);
        let rest = in_force.and_then(|set| {
            self.rest(set, |all| standing.look(lists, (question, all), named_lists).decision())
        });
        let decision = rest.as_ref().or(in_force);
        let decision = decision.map(|set| standing.look(lists, (question, set), named_lists));
        let decides = |one: &list::Match<'_>| {
            decision.as_ref().is_some_and(|found| {
                found.decision() != Decision::None
                    && found
                        .all_deciding()
                        .any(|other| (other.list, other.line) == (one.list, one.line))
            })
        };
        let importance = |one: &list::Match<'_>| match one.is_important {
            true => Importance::Important,
            false => Importance::Plain,
        };
        let lines = all.matches().map(|one| ExplainedLine {
            list: lists.list_names().nth(one.list.place()),
            line: one.line,
            entry: LineEntry::Name(one.effect, importance(&one)),
            alias: None,
            is_in_force: in_force.is_some_and(|set| set.contains(one.list)),
            decides: decides(&one),
            is_overruled: false,
        });
        lines.collect()
    }

    /// Returns the triggers of policy zones that match the question and its answer, whether the
    /// zone applies to the client or not. For each zone, these are the triggers for the first
    /// matching name of the alias chain.
    fn triggers<'p>(
        &'p self,
        lists: &'p Lists,
        asked: &Asked<'_>,
        answered: Option<&KnownAnswer<'_>>,
    ) -> Vec<ExplainedLine<'p>> {
        let in_force =
            self.zones_for(asked.profile).map(|(_, in_force)| in_force).unwrap_or_default();
        let mut read = names::AnswerTargets::default();
        if let Some(answered) = answered {
            read.read(answered.message, answered.translation);
        }
        let fired = |zones: ZoneSet| {
            self.all_fired(zones, asked, answered.map(|answered| (answered, &read)))
        };
        let best = fired(in_force).into_iter().min_by_key(|found| (found.zone, found.kind));
        let decides = best.map(|found| (found.zone, found.line));
        let mut shown = Vec::new();
        for zone in 0..lists.zones().all().count() {
            let mut only = ZoneSet::default();
            only.insert(zone);
            shown.extend(fired(only).into_iter().map(|found| ExplainedLine {
                list: self.list_of(&found).and_then(|list| lists.list_names().nth(list.place())),
                line: found.line,
                entry: LineEntry::Trigger(found.kind, found.action),
                alias: None,
                is_in_force: in_force.contains(zone),
                decides: decides == Some((zone, found.line)),
                is_overruled: false,
            }));
        }
        shown
    }

    /// Returns the lists that have this name, whether they are in force or not.
    pub fn on_lists(
        &self,
        qname: FoldedName<'_>,
        qtype: Rtype,
        scratch: &mut list::Scratch,
    ) -> Vec<rule::ListId> {
        let Some(lists) = &self.lists else { return Vec::new() };
        let question = list::ListQuestion { qname: &qname, qtype, asker: list::Asker::default() };
        let found = lists.lookup(question, &list::ListSet::ALL, scratch);
        let naming = found.matches().filter(names_it);
        naming
            .filter_map(|one| self.place_of(one.list))
            .map(|place| rule::ListId(place as u16))
            .collect()
    }

    /// Returns whether the client at this address has this name, which is its name in the
    /// configuration or the learned name of its device.
    pub fn goes_by(&self, ip: std::net::IpAddr, name: &str) -> bool {
        let identity = self.clients.identify(ip);
        identity.client.as_deref() == Some(name)
            || identity.name.is_some_and(|known| known.eq_ignore_ascii_case(name))
    }

    /// Returns the name of this address in counts by client; without a name, returns the address
    /// itself.
    pub fn client_name(&self, ip: std::net::IpAddr) -> String {
        self.clients.identify(ip).name.unwrap_or_else(|| ip.to_string())
    }

    /// Returns the number of rules that test the answer.
    pub fn rules_on_answers(&self) -> usize {
        self.program.rules().iter().filter(|rule| rule.reads_answer()).count()
    }

    /// Returns the properties of each [profile](Policy::profile) as text.
    pub fn meanings(&self) -> String {
        self.clients.meanings()
    }

    /// Returns the number of profiles.
    pub fn profiles(&self) -> usize {
        self.clients.profiles()
    }
}

/// The position of a name in the resolution of a question.
#[derive(Clone, Copy)]
enum Standing {
    /// The name in the question.
    Asked,
    /// A name to which the aliases in the answer lead.
    Behind,
}

impl Standing {
    fn look<'a>(
        self,
        lists: &'a Lists,
        (question, set): (list::ListQuestion<'a>, &'a list::ListSet),
        scratch: &'a mut list::Scratch,
    ) -> list::Found<'a> {
        match self {
            Self::Asked => lists.lookup(question, set, scratch),
            Self::Behind => lists.lookup_behind(question, set, scratch),
        }
    }
}

fn of_question(verdict: &QuestionVerdict<'_>) -> Treatment {
    match verdict {
        QuestionVerdict::Pass => Treatment::Pass,
        QuestionVerdict::Answer(made) => of_made(made),
        QuestionVerdict::Rename(_) => Treatment::Rewrite,
        QuestionVerdict::Forward(_) => Treatment::Forward,
        QuestionVerdict::Drop => Treatment::Drop,
        QuestionVerdict::Truncate => Treatment::Truncate,
    }
}

fn of_answer(verdict: &AnswerVerdict<'_>) -> Treatment {
    match verdict {
        AnswerVerdict::Pass { .. } => Treatment::Pass,
        AnswerVerdict::Answer(made) => of_made(made),
        AnswerVerdict::Rename(_) => Treatment::Rewrite,
        AnswerVerdict::Drop => Treatment::Drop,
        AnswerVerdict::Truncate => Treatment::Truncate,
    }
}

fn of_made(made: &Made<'_>) -> Treatment {
    if made.stage == Stage::Rewritten { Treatment::Rewrite } else { Treatment::Block }
}
