//! Explains the answer to a client's query: evaluates the query without answering it, and reports
//! each stage.
//!
//! This evaluation has the same stages as a query ([`rehearsal`]). It affects neither counters nor
//! rate limits.

use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr};

use avocet_config::Config;
use avocet_control::ControlError;
use avocet_control::why::{
    ClientFacts, ListEffect, ListLine, PolicyDecision, PolicyVerdict, ResolvedTrace, RuleFacts,
    Suspended, WhySection,
};
use avocet_nameserver::policy::explanation::{ExplainedLine, Explanation, Importance, LineEntry};
use avocet_nameserver::policy::{
    Answered, Asked, KnownAnswer, Moment, Outcome, Policy, Scratch, Treatment, has_service_target,
};
use avocet_nameserver::query::Obtained;
use avocet_nameserver::query::asked::{Entrance, Transport};
use avocet_nameserver::query::decision::Stage;
use avocet_nameserver::query::miss::Miss;
use avocet_nameserver::query::rehearsal::{At, Ended, Rehearsal};
use avocet_nameserver::query::witness::Witness;
use avocet_nameserver::snapshot::Snapshot;
use avocet_policy::client::{DeviceId, Id, Identity};
use avocet_policy::list::Effect;
use avocet_policy::rule::{Action, Lift, NamedTimeZone, Rule, Scope};
use avocet_resolver::NameServers;
use avocet_wire::{Class, Ede, FoldedName, QuestionBuf, Rcode, Rtype};
use ipnet::IpNet;

use crate::clients;
use crate::lists::open_text;
use crate::running::Running;
use crate::trace::{self, Resolution, TraceFailure, TraceQuestion as Question, given};
use avocet_worker::state::Shared;

/// Maximum number of upstream questions of one query. These are its own question, and the targets
/// of aliases that the policy substitutes for the question and then for its answer.
const MAX_TURNS: usize = 4;
/// Maximum number of characters of a list's line that are shown.
const MAX_SHOWN: usize = 200;
/// Maximum number of addresses of a client's network that are tried; the first ones may belong to
/// other `[[client]]` tables.
const MAX_TRIED: usize = 256;

/// The sender of a query, and its transport.
#[derive(Clone, Copy)]
pub(crate) struct InquiringClient {
    /// The client's address.
    pub(crate) ip: IpAddr,
    /// The device of the sender, if it is known.
    pub(crate) device: DeviceId,
    /// The address of the server that receives the query.
    pub(crate) entrance: Entrance,
    /// The transport.
    pub(crate) transport: Transport,
}

/// The client's address that an explanation assumes if the request names no client.
pub(crate) const THIS_MACHINE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// The query to explain.
#[derive(Clone, Copy)]
pub(crate) struct Inquiry<'a> {
    /// The client.
    pub(crate) asker: InquiringClient,
    /// The QNAME of the query.
    pub(crate) qname: FoldedName<'a>,
    /// The QTYPE of the query.
    pub(crate) qtype: Rtype,
    /// The time of the query.
    pub(crate) at: At,
}

impl Inquiry<'_> {
    fn asked(&self, policy: &Policy) -> Asked<'_> {
        let InquiringClient { ip, device, entrance, transport } = self.asker;
        let profile = policy.profile_with((ip, device), entrance, transport);
        Asked { profile, ip, device, transport, qname: self.qname, qtype: self.qtype }
    }

    fn moment(&self, shared: &Shared, state: &Snapshot) -> (Moment, u32) {
        (
            Moment {
                wall_secs: self.at.wall_secs(),
                millis: shared.name_server.clock.now().millis(),
            },
            state.epoch,
        )
    }

    fn question(&self) -> QuestionBuf {
        QuestionBuf::new(self.qname, self.qtype, Class::IN)
    }
}

/// Returns the decision of the policy on a query, as far as the caches have its answer; `None`
/// without a policy.
pub(crate) fn outcome(shared: &Shared, state: &Snapshot, inquiry: &Inquiry<'_>) -> Option<Outcome> {
    let policy = state.policy.as_ref()?;
    let InquiringClient { ip, device, entrance, transport } = inquiry.asker;
    let rehearsal = Rehearsal::new((&shared.name_server, state), ip, inquiry.at)
        .from_device(device)
        .at_entrance(entrance)
        .over(transport);
    if let Ended::Wait(_) = rehearsal.begin(inquiry.question().view()) {
        // Without a cached answer, the policy decides on the question alone.
        let (asked, moment) = (inquiry.asked(policy), inquiry.moment(shared, state));
        return Some(policy.outcome(&asked, None, moment, &mut Scratch::for_looking()).0);
    }
    Some(rehearsal.into_witness().said().cloned().unwrap_or(Outcome::passes()))
}

/// Explains a query: the policy, the cached data of the name, its resolution by the servers that
/// the client's query would use, and the answer.
///
/// # Errors
///
/// The server is too busy to resolve the name.
pub(crate) fn why(
    running: &Running,
    question: &Question,
    asker: InquiringClient,
    at: At,
) -> Result<Vec<WhySection>, ControlError> {
    let (shared, state) = (&running.shared, running.shared.snapshot());
    let (qname, qtype) = question.name_and_type();
    let InquiringClient { ip, device, entrance, transport } = asker;
    let inquiry = Inquiry { asker, qname, qtype, at };
    let rehearsal = Rehearsal::new((&shared.name_server, &state), ip, at)
        .from_device(device)
        .at_entrance(entrance)
        .over(transport);
    let mut ended = rehearsal.begin(inquiry.question().view());
    let mut looked = Vec::new();
    for _ in 0..MAX_TURNS {
        let Ended::Wait(miss) = ended else { break };
        let (sections, next) = ask(shared, &state, (&rehearsal, &miss))?;
        looked.extend(sections);
        ended = next;
    }
    if looked.is_empty() && !is_own(&ended) {
        looked = trace::known(shared, question);
    }
    let answer = given::section(&state, question, ip, &ended);
    let policy = decision(shared, &state, (&inquiry, &rehearsal.into_witness()))
        .or_else(|| without_policy(&state, &inquiry));
    Ok(policy.map(WhySection::Policy).into_iter().chain(looked).chain([answer]).collect())
}

/// Returns whether this server answers without other servers, regardless of the caches.
fn is_own(ended: &Ended) -> bool {
    let Ended::Reply { decision, .. } = ended else { return false };
    matches!(
        decision.stage,
        Stage::Local
            | Stage::Hosted
            | Stage::Pool
            | Stage::Special
            | Stage::Refused
            | Stage::Malformed
            | Stage::Chaos
    )
}

/// Sends a question to the servers that the client's query would use, unless its failure is cached.
fn ask(
    shared: &Shared,
    state: &Snapshot,
    (rehearsal, miss): (&Rehearsal<'_>, &Miss),
) -> Result<(Vec<WhySection>, Ended), ControlError> {
    let Some(waiter) = &miss.waiter else { return Err(ControlError::InvalidQuery) };
    let servers = waiter.servers.as_deref().unwrap_or_default();
    let question = Question::of(miss.question.view());
    let now = shared.name_server.clock.now().secs();
    let remembered = shared.name_server.failures.lookup(&miss.failure_key(), now);
    if let Some(failure) = remembered.filter(|_| servers.is_empty()) {
        let sections = trace::failed_before(shared, &question);
        let ede = (Ede::CACHED_ERROR, Ede(failure.ede).meaning());
        let failed = Obtained::failure(Stage::FailureHit, ede);
        return Ok((sections, rehearsal.go_on(waiter, &failed)));
    }
    if servers.is_empty() && !state.plan.resolves(question.name_and_type().0) {
        let ede = Some((Ede::NOT_AUTHORITATIVE, "no forwarding rule for this name"));
        let message = trace::refusal(miss.question.view());
        let obtained = resolved(Rcode::REFUSED, &message, ede);
        return Ok((Vec::new(), rehearsal.go_on(waiter, &obtained)));
    }
    let Resolution { trace, message, failure } = trace::resolve(shared, &question.by(servers))?;
    let (rcode, ede) = match failure {
        Some(TraceFailure { ede, text }) => (Rcode::SERVFAIL, Some((Ede(ede), text))),
        None => (trace::rcode(&message), None),
    };
    let section = WhySection::Resolved(ResolvedTrace { trace, answer: None });
    Ok((vec![section], rehearsal.go_on(waiter, &resolved(rcode, &message, ede))))
}

/// Returns the result of a resolution for an explanation. The policy evaluates it for the client,
/// and it is not cached.
fn resolved<'a>(rcode: Rcode, message: &'a [u8], ede: Option<(Ede, &'static str)>) -> Obtained<'a> {
    let stage = Obtained::stage_of(rcode, ede);
    Obtained { rcode, message, ttl_offsets: &[], kept_for: None, ede, stage, upstream: None }
}

/// Returns the report of the policy, with everything that affects its decision; `None` without a
/// policy.
fn decision(
    shared: &Shared,
    state: &Snapshot,
    (inquiry, witness): (&Inquiry<'_>, &Witness),
) -> Option<PolicyDecision> {
    let policy = state.policy.as_ref()?;
    let passes = Outcome::passes();
    let said = witness.said().unwrap_or(&passes);
    let (asked, moment) = (inquiry.asked(policy), inquiry.moment(shared, state));
    let now = shared.name_server.clock.now().secs();
    let servers = |name: FoldedName<'_>| {
        NameServers::above((&state.plan, &shared.name_server.rrsets), name, now)
    };
    let answered: Option<KnownAnswer<'_>> = witness.judged().map(|message| Answered {
        message,
        has_own_servers: state.plan.has_own_rule(inquiry.qname),
        has_local_target: policy.blocks_private()
            && has_service_target(message, asked.qtype, |name| {
                state.is_of_this_network(name, asked.profile)
            }),
        lists_may_have_begun: false,
        translation: state.plan.translation(),
        servers: &servers as &dyn Fn(FoldedName<'_>) -> NameServers,
    });
    let mut scratch = Scratch::for_looking();
    let explanation = policy.explain(&asked, (answered.as_ref(), said), moment, &mut scratch);
    let Explanation { outcome, rule, noted, lifted, valid_until, .. } = &explanation;
    Some(PolicyDecision {
        verdict: verdict(outcome.treatment),
        why: outcome.why.clone(),
        client: client(&state.config, (asked.ip, asked.profile), &explanation.identity),
        rule: rule.map(rule_facts),
        noted: noted.iter().copied().map(rule_facts).collect(),
        lifted: lifted.map(suspended),
        valid_until: *valid_until,
        valid_until_local: valid_until.map(|until| shown_time(&state.config, until)),
        countries: explanation.countries.clone(),
        lists: explanation.lines.iter().map(|line| list_line(&state.config, line)).collect(),
        revision: state.revision,
        own_record: witness.is_overruled(),
    })
}

/// Returns the decision without a policy: the answer does not depend on lists and rules. It shows
/// the client, whose groups decide who may read the explanation; `None` if the configuration has no
/// clients and groups.
fn without_policy(state: &Snapshot, inquiry: &Inquiry<'_>) -> Option<PolicyDecision> {
    let policy = &state.config.policy;
    if policy.clients.is_empty() && policy.groups.is_empty() {
        return None;
    }
    let InquiringClient { ip, device, .. } = inquiry.asker;
    let identity = clients::without_policy(state)?.identify_with(ip, device);
    Some(PolicyDecision {
        verdict: PolicyVerdict::Passes,
        why: String::new(),
        client: client(&state.config, (ip, 0), &identity),
        rule: None,
        noted: Vec::new(),
        lifted: None,
        valid_until: None,
        valid_until_local: None,
        countries: None,
        lists: Vec::new(),
        revision: state.revision,
        own_record: false,
    })
}

const fn verdict(treatment: Treatment) -> PolicyVerdict {
    match treatment {
        Treatment::Pass => PolicyVerdict::Passes,
        Treatment::Block => PolicyVerdict::Blocked,
        Treatment::Rewrite => PolicyVerdict::Rewritten,
        Treatment::Forward => PolicyVerdict::Forwarded,
        Treatment::Drop => PolicyVerdict::Dropped,
        Treatment::Truncate => PolicyVerdict::Truncated,
    }
}

fn rule_facts(rule: &Rule) -> RuleFacts {
    RuleFacts {
        name: rule.name.to_string(),
        when: rule.when.to_string(),
        action: (&rule.action).into(),
        log_only: rule.log_only,
        tag: match &rule.action {
            Action::Tag(word) => Some(word.clone()),
            _ => None,
        },
    }
}

const fn suspended(lift: Lift) -> Suspended {
    match lift {
        Lift::Pause(_) => Suspended::Pause,
        Lift::Grant(_) => Suspended::Grant,
    }
}

fn client(config: &Config, (ip, profile): (IpAddr, u16), identity: &Identity) -> ClientFacts {
    ClientFacts {
        address: ip.to_string(),
        client: identity.client.clone(),
        name: identity.name.clone(),
        macs: identity.macs.iter().map(ToString::to_string).collect(),
        groups: identity.groups.clone(),
        profile,
        left_groups: left_groups(config, ip, identity),
    }
}

fn list_line(config: &Config, line: &ExplainedLine<'_>) -> ListLine {
    let (effect, important, trigger) = match line.entry {
        LineEntry::Name(effect, importance) => {
            let effect = match effect {
                Effect::Allow => ListEffect::Allow,
                Effect::Block => ListEffect::Block,
            };
            (effect, Some(importance == Importance::Important), None)
        }
        LineEntry::Trigger(kind, action) => (action.into(), None, Some(kind)),
    };
    ListLine {
        list: line.list.map(str::to_owned),
        line: line.line,
        effect,
        important,
        trigger,
        alias: line.alias.clone(),
        in_force: line.is_in_force,
        decides: line.decides,
        overruled: line.is_overruled,
        text: line_text(config, line),
    }
}

/// Returns a Unix second in the time zone of the policy.
pub(crate) fn shown_time(config: &Config, secs: u64) -> String {
    let name = &config.policy.time_zone;
    NamedTimeZone::named(name)
        .map_or_else(String::new, |zone| format!("{} ({name})", zone.shown(secs)))
}

/// Returns the groups that list the client's address or network but do not apply, because the
/// client has a table with other groups.
fn left_groups(config: &Config, ip: IpAddr, identity: &Identity) -> Vec<String> {
    let is_table = |name: &String| config.policy.clients.iter().any(|table| table.name == *name);
    if !identity.client.as_ref().is_some_and(is_table) {
        return Vec::new();
    }
    let names_it = |id: &String| match id.parse::<Id>() {
        Ok(Id::Prefix(network)) => network.contains(&ip.to_canonical()),
        _ => false,
    };
    let groups = config.policy.groups.iter();
    groups
        .filter(|group| {
            group.clients.iter().any(names_it) && !identity.groups.contains(&group.name)
        })
        .map(|group| group.name.clone())
        .collect()
}

/// Returns the text of a list's line in the current file or copy; `None` if it cannot be read.
fn line_text(config: &Config, line: &ExplainedLine<'_>) -> Option<String> {
    let list = config.policy.lists.iter().find(|list| line.list == Some(list.name.as_str()))?;
    let number = usize::try_from(line.line).ok()?.checked_sub(1)?;
    let text = open_text(&config.data.directory, list).ok()??;
    let octets = BufReader::new(text).split(b'\n').nth(number)?.ok()?;
    let text = String::from_utf8_lossy(&octets);
    Some(text.trim().chars().filter(|character| !character.is_control()).take(MAX_SHOWN).collect())
}

/// A client that is given by address or by name.
pub(crate) struct GivenClient<'a> {
    /// The address of the client; an address of this machine if the client has none.
    pub(crate) ip: IpAddr,
    /// The device of the client, or none if the address identifies the client.
    pub(crate) device: DeviceId,
    /// The name that the client was given by.
    pub(crate) name: Option<&'a str>,
}

/// Finds a client that is given by address or by name. `id` is the identifier of its device, if
/// that is also given.
///
/// # Errors
/// No client has this name, the client has neither an address at present nor a device identifier,
/// or `id` is not a device identifier.
pub(crate) fn given_client<'a>(
    state: &Snapshot,
    client: &'a str,
    id: Option<&str>,
) -> Result<GivenClient<'a>, ControlError> {
    let given = id.map(device).transpose()?;
    let name = client.parse::<IpAddr>().is_err().then_some(client);
    let without_address = ControlError::ClientWithoutAddress(client.to_owned());
    match client_address(state, client) {
        Ok(ip) => Ok(GivenClient { ip, device: given.unwrap_or(DeviceId::NONE), name }),
        Err(error) if error == without_address => {
            let tables = state.config.policy.clients.iter();
            let ids = tables.filter(|table| table.name == client).flat_map(|table| &table.ids);
            let own = ids.filter_map(|id| device(id).ok()).next();
            let device = given.or(own).ok_or(error)?;
            Ok(GivenClient { ip: THIS_MACHINE, device, name })
        }
        Err(error) => Err(error),
    }
}

/// Returns the address of a client that is given by address or by name.
///
/// # Errors
/// No client has this name, or the client has no address at the moment.
fn client_address(state: &Snapshot, client: &str) -> Result<IpAddr, ControlError> {
    if let Ok(ip) = client.parse::<IpAddr>() {
        return Ok(ip.to_canonical());
    }
    let config = &state.config.policy;
    let table = config.clients.iter().find(|known| known.name == client);
    let neighbours = &state.parts.neighbours;
    let ids = table.map_or(&[][..], |table| &table.ids);
    let of_ids = ids.iter().filter_map(|id| id.parse().ok()).flat_map(addresses);
    let candidates = of_ids.chain(neighbours.iter().map(|neighbour| neighbour.address));
    let goes_by =
        |ip: &IpAddr| state.policy.as_ref().is_some_and(|policy| policy.goes_by(*ip, client));
    let mut candidates = candidates.peekable();
    let first = candidates.peek().copied().filter(|_| state.policy.is_none() && table.is_some());
    first.or_else(|| candidates.find(goes_by)).ok_or_else(|| match table {
        Some(_) => ControlError::ClientWithoutAddress(client.to_owned()),
        None => ControlError::UnknownClient(client.to_owned()),
    })
}

/// Returns the device with an identifier as in `ids` of a `[[client]]`.
///
/// # Errors
/// The text is not an identifier of a device.
fn device(id: &str) -> Result<DeviceId, ControlError> {
    match id.parse() {
        Ok(Id::Device(key)) => Ok(key.device()),
        _ => Err(ControlError::UnknownClient(id.to_owned())),
    }
}

/// Returns the scopes that the client of a pause or a grant may mean, the most specific first. A
/// name means only itself. An address means the `[[client]]` that it belongs to, if any, and the
/// address.
pub(crate) fn client_scopes(state: &Snapshot, client: String) -> Vec<Scope> {
    let Ok(ip) = client.parse::<IpAddr>() else { return vec![Scope::Client(client)] };
    let ip = ip.to_canonical();
    let identity = state.policy.as_ref().map(|policy| policy.identify(ip)).unwrap_or_default();
    let is_table =
        |name: &String| state.config.policy.clients.iter().any(|table| table.name == *name);
    let named = identity.client.filter(is_table).map(Scope::Client);
    named.into_iter().chain([Scope::Address(ip)]).collect()
}

/// Returns the addresses that an id denotes; a network gives some of its addresses.
fn addresses(id: Id) -> Vec<IpAddr> {
    match id {
        Id::Address(ip) => vec![ip],
        Id::Prefix(IpNet::V4(network)) => network.hosts().take(MAX_TRIED).map(IpAddr::V4).collect(),
        Id::Prefix(IpNet::V6(network)) => network.hosts().take(MAX_TRIED).map(IpAddr::V6).collect(),
        Id::Mac(_) | Id::Name(_) | Id::Device(_) => Vec::new(),
    }
}
