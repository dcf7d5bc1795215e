//! The verdicts of response policy zones on a question and its answer (draft-vixie-dnsop-dns-rpz).
//!
//! ```text
//! question   client address, QNAME                 the action is taken at once if no later
//!                                                  trigger could take precedence
//! answer     the same, each alias in turn, the     the trigger for the first name
//!            addresses at the end of the chain,    of the chain decides
//!            the name servers of each name
//! ```
//! A zone is configured as a list. Groups determine the clients it applies to. Rules, local
//! records, pauses and lists that allow a name take precedence over it. Between a zone and a block
//! list, the source that is configured first decides.

use avocet_policy::list::ListId;
use avocet_policy::rpz::{Action, Found, TriggerKind, ZoneSet, Zones};
use avocet_resolver::NameServers;
use avocet_wire::{FoldedName, FoldedNameBuf, Rcode, Rtype};

use super::counts::PendingCounts;
use super::ruling::{QuestionVerdict, Validity};
use super::{Answered, Asked, KnownAnswer, Made, Policy, names};
use crate::query::alias::Alias;
use crate::query::asked::Transport;
use crate::query::blocked::Form;
use crate::query::decision::Stage;

/// A trigger that matches, and the aliases that lead from the QNAME to the matching name.
pub(super) struct Fired<'p> {
    pub(super) found: Found<'p>,
    behind: Vec<Alias>,
}

impl Policy {
    /// Reports whether a policy zone tests the name servers of a name.
    #[must_use]
    pub fn tests_name_servers(&self) -> bool {
        let zones = self.lists.as_ref().map(|lists| lists.zones());
        zones.is_some_and(has_server_triggers)
    }

    /// Returns the zones, and the set that applies to a profile.
    pub(super) fn zones_for(&self, profile: u16) -> Option<(&Zones, ZoneSet)> {
        let in_force =
            self.zones_in_force.get(usize::from(profile)).copied().filter(|set| !set.is_empty())?;
        Some((self.lists.as_ref()?.zones(), in_force))
    }

    /// Returns the trigger that matches a question that cannot be resolved. Only triggers on the
    /// question can match.
    pub(super) fn zone_without_answer(&self, asked: &Asked<'_>) -> Option<Fired<'_>> {
        let (zones, in_force) = self.zones_for(asked.profile)?;
        let (found, _) =
            self.first_effective(asked, in_force, |left| on_question((zones, left), asked))?;
        Some(Fired { found, behind: Vec::new() })
    }

    /// Returns the trigger that matches the question, unless a trigger on the answer could take
    /// precedence.
    pub(super) fn zone_at_question(&self, asked: &Asked<'_>) -> Option<Fired<'_>> {
        let (zones, in_force) = self.zones_for(asked.profile)?;
        let (found, in_force) =
            self.first_effective(asked, in_force, |left| on_question((zones, left), asked))?;
        zones
            .is_settled(in_force, &found, TriggerKind::Qname)
            .then(|| Fired { found, behind: Vec::new() })
    }

    /// Returns the trigger that matches an answer. The first name of the alias chain with a trigger
    /// decides.
    pub(super) fn zone_at_answer(
        &self,
        asked: &Asked<'_>,
        answered: &Answered<'_, impl Fn(FoldedName<'_>) -> NameServers>,
        found: &names::AnswerTargets,
    ) -> Option<Fired<'_>> {
        let (zones, in_force) = self.zones_for(asked.profile)?;
        let mut chain = names::chain(answered.message, asked);
        let place_of = std::cell::Cell::new(0);
        let (found, _) = self.first_effective(asked, in_force, |in_force| {
            (0..=chain.len()).find_map(|place| {
                place_of.set(place);
                let fired = fired_at((zones, in_force), asked, (answered, found), (&chain, place));
                fired.into_iter().reduce(Found::best).flatten()
            })
        })?;
        chain.truncate(place_of.get());
        Some(Fired { found, behind: chain })
    }

    /// Returns all triggers of these zones that match a question and, if known, its answer. Only
    /// the first name of the alias chain that has triggers is used.
    pub(super) fn all_fired(
        &self,
        in_force: ZoneSet,
        asked: &Asked<'_>,
        answer: Option<(&KnownAnswer<'_>, &names::AnswerTargets)>,
    ) -> Vec<Found<'_>> {
        let Some(lists) = &self.lists else { return Vec::new() };
        let zones = (lists.zones(), in_force);
        let Some(answer) = answer else {
            let fired =
                [zones.0.on_client(in_force, asked.ip), zones.0.on_qname(in_force, &asked.qname)];
            return fired.into_iter().flatten().collect();
        };
        let chain = names::chain(answer.0.message, asked);
        let by_name =
            (0..=chain.len()).map(|place| fired_at(zones, asked, answer, (&chain, place)));
        let mut fired = by_name.map(|fired| fired.into_iter().flatten().collect::<Vec<_>>());
        fired.find(|fired| !fired.is_empty()).unwrap_or_default()
    }

    /// Returns the indexes in the configuration of the policy zones with a trigger for a name,
    /// except `rpz-passthru` triggers. The zones need not be in force.
    pub(super) fn zones_naming<'p>(&'p self, name: &'p [u8]) -> impl Iterator<Item = usize> + 'p {
        let lists = self.lists.as_deref();
        let zones = lists
            .into_iter()
            .flat_map(|lists| (0..lists.zones().all().count()).map(move |zone| (lists, zone)));
        zones.filter_map(move |(lists, zone)| {
            let mut only = ZoneSet::default();
            only.insert(zone);
            let found = lists
                .zones()
                .on_qname(only, name)
                .filter(|found| *found.action != Action::Passthru)?;
            self.place_of(self.list_of(&found)?)
        })
    }

    /// Returns the first trigger from `find` that has an effect, with the zones that remained when
    /// it was found. These triggers have no effect, and end only the evaluation of their own zone:
    ///
    /// - `rpz-tcp-only` over TCP. If the next zones were not evaluated, a client could evade their
    ///   blocks by using TCP.
    /// - `rpz-passthru` of a removed list, which can only block.
    fn first_effective<'p>(
        &self,
        asked: &Asked<'_>,
        mut in_force: ZoneSet,
        find: impl Fn(ZoneSet) -> Option<Found<'p>>,
    ) -> Option<(Found<'p>, ZoneSet)> {
        loop {
            let found = find(in_force)?;
            let is_idle = match found.action {
                Action::TcpOnly => asked.transport != Transport::Udp,
                Action::Passthru => {
                    self.list_of(&found).is_some_and(|list| self.stand_ins.has(list))
                }
                _ => false,
            };
            if !is_idle {
                return Some((found, in_force));
            }
            in_force.remove(found.zone);
        }
    }

    /// Returns the list of a trigger's policy zone.
    pub(super) fn list_of(&self, found: &Found<'_>) -> Option<ListId> {
        self.lists.as_ref()?.list_of_zone(found.zone)
    }

    /// Applies a trigger to the question. If no answer carries the trigger's note, adds the note to
    /// `held`.
    pub(super) fn by_zone<'p>(
        &'p self,
        fired: Fired<'p>,
        asked: &Asked<'_>,
        (validity, held): (Validity, &mut PendingCounts),
    ) -> QuestionVerdict<'p> {
        let Fired { found, mut behind } = fired;
        let note = self.zone_note(&found);
        let qname = behind.last().map_or_else(|| asked.qname.to_buf(), |last| last.target.folded());
        let form = match found.action {
            Action::Passthru => return QuestionVerdict::Pass,
            Action::Drop => {
                held.note_list(note);
                return QuestionVerdict::Drop;
            }
            Action::TcpOnly => {
                held.note_list(note);
                return QuestionVerdict::Truncate;
            }
            Action::NxDomain => Form::Nxdomain,
            Action::NoData => Form::Nodata,
            Action::Data(_) => Form::Local(found.action),
            Action::Cname(_) | Action::CnameUnder(_) => match found.action.alias(qname.wire()) {
                // The target of the alias would be too long (RFC 6672 §2.2).
                None => Form::Rcode(Rcode::YXDOMAIN),
                Some(target) if matches!(asked.qtype, Rtype::CNAME | Rtype::ANY) => {
                    Form::Alias(Box::new(target))
                }
                // A redirection to the QNAME itself has no effect.
                Some(target) if target.wire() == qname.wire() => return QuestionVerdict::Pass,
                Some(target) => {
                    held.note_list(note);
                    let ttl_secs = found.ttl_secs;
                    behind.push(Alias { owner: qname, target, ttl_secs, note, flattening: None });
                    behind
                        .iter_mut()
                        .for_each(|alias| alias.ttl_secs = alias.ttl_secs.min(validity.secs));
                    return QuestionVerdict::Rename(behind);
                }
            },
        };
        let least = found
            .action
            .records(asked.qtype)
            .map(|record| record.ttl_secs)
            .min()
            .unwrap_or(found.ttl_secs);
        let ttl_secs =
            behind.iter().map(|alias| alias.ttl_secs).fold(least.min(validity.secs), u32::min);
        let stage = if found.action.chooses() { Stage::Rewritten } else { Stage::Blocked };
        let behind = (!behind.is_empty()).then(|| behind.into_boxed_slice());
        QuestionVerdict::Answer(Made { form, ttl_secs, note, validity, stage, behind })
    }
}

fn on_question<'p>(
    (zones, in_force): (&'p Zones, ZoneSet),
    asked: &Asked<'_>,
) -> Option<Found<'p>> {
    Found::best(zones.on_client(in_force, asked.ip), zones.on_qname(in_force, &asked.qname))
}

/// Returns the trigger for the targets of SVCB and HTTPS records: address hints let clients reach a
/// target without a query. An allowed target does not end the evaluation, because anyone can refer
/// to it.
fn on_services<'p>(
    (zones, in_force): (&'p Zones, ZoneSet),
    found: &names::AnswerTargets,
) -> Option<Found<'p>> {
    let fired = found.services().filter_map(|name| {
        let mut left = in_force;
        while let Some(fired) = zones.on_qname(left, name.wire()) {
            if *fired.action != Action::Passthru {
                return Some(fired);
            }
            left.remove(fired.zone);
        }
        None
    });
    fired.map(Some).reduce(Found::best).flatten()
}

/// Returns the triggers, at most one of each kind, for the name at this position of the alias
/// chain. Position 0 is the QNAME.
fn fired_at<'p>(
    (zones, in_force): (&'p Zones, ZoneSet),
    asked: &Asked<'_>,
    (answered, found): (
        &Answered<'_, impl Fn(FoldedName<'_>) -> NameServers>,
        &names::AnswerTargets,
    ),
    (chain, place): (&[Alias], usize),
) -> [Option<Found<'p>>; 5] {
    let mut fired = [None; 5];
    let target = place.checked_sub(1).map(|before| chain[before].target.folded());
    let name = target.as_ref().map_or(asked.qname, FoldedNameBuf::view);
    if place == 0 {
        fired[0] = zones.on_client(in_force, asked.ip);
    }
    fired[1] = zones.on_qname(in_force, &name);
    if place == chain.len() {
        fired[1] = fired[1].or_else(|| on_services((zones, in_force), found));
        fired[2] = zones.on_answer_addresses(in_force, || found.addresses.iter().copied());
    }
    if has_server_triggers(zones) {
        let servers = (answered.servers)(name);
        fired[3] = zones.on_nsnames(in_force, || servers.names.iter().map(|name| name.wire()));
        fired[4] = zones.on_nsaddresses(in_force, || servers.addresses.iter().copied());
    }
    fired
}

fn has_server_triggers(zones: &Zones) -> bool {
    zones.has(TriggerKind::NsName) || zones.has(TriggerKind::NsAddress)
}
