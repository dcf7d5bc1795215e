//! The answer that a client gets, and the reason, in sections.

use avocet_policy::rpz::{Action, TriggerKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cache::CacheEntry;
use crate::part::Part;
use crate::past::PastDecision;
use crate::policy::RuleAction;
use crate::trace::{AnswerRecord, TraceReport};
use crate::words::words;

/// A section of an explanation. A reply has the sections that apply, in this order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "section", rename_all = "kebab-case")]
pub enum WhySection {
    /// A past decision.
    Past(PastDecision),
    /// The decision of the policy.
    Policy(PolicyDecision),
    /// The trace of a recent failure.
    Failed(FailedTrace),
    /// The cached failure.
    FailureCache(CachedFailure),
    /// The content of the RRset cache.
    Cache(CachedName),
    /// The trace of a resolution for this request.
    Resolved(ResolvedTrace),
    /// The response that the client gets.
    Answer(GivenAnswer),
}

impl Part for WhySection {}

/// The end of an explanation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Explained {}

/// The decision of the policy about a query and its answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct PolicyDecision {
    /// The decision.
    pub verdict: PolicyVerdict,
    /// The rule or list that decided; empty if none did.
    pub why: String,
    /// The client.
    pub client: ClientFacts,
    /// The rule that decided.
    pub rule: Option<RuleFacts>,
    /// Rules that matched and did not end the evaluation: log-only rules and rules that set a tag.
    pub noted: Vec<RuleFacts>,
    /// The suspension of filtering, if filtering is suspended.
    pub lifted: Option<Suspended>,
    /// The Unix second until which the decision is valid; none if time does not change it.
    pub valid_until: Option<u64>,
    /// The end of validity in the time zone of the policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_until_local: Option<String>,
    /// The countries of the addresses in the answer; none if no rule tests countries.
    pub countries: Option<Vec<String>>,
    /// Each line of a list that matches.
    pub lists: Vec<ListLine>,
    /// The number of the configuration and lists in force, counted from 1 since the start. It is
    /// not the number of a revision in the history of the configuration.
    pub revision: u32,
    /// Whether a list would decide, but the name has a local record.
    pub own_record: bool,
}

words! {
    /// The decision of the policy about a query.
    pub enum PolicyVerdict {
        /// The policy does not change the response.
        Passes = "passes",
        /// The query is blocked.
        Blocked = "blocked",
        /// The response is replaced.
        Rewritten = "rewritten",
        /// Other servers than usual resolve the name.
        Forwarded = "forwarded",
        /// There is no response.
        Dropped = "dropped",
        /// The response is truncated, so that the client uses TCP.
        Truncated = "truncated",
    }
}

/// The properties of a client that the policy uses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct ClientFacts {
    /// The address.
    pub address: String,
    /// The `[[client]]`.
    pub client: Option<String>,
    /// The name.
    pub name: Option<String>,
    /// The MAC addresses.
    pub macs: Vec<String>,
    /// The groups.
    pub groups: Vec<String>,
    /// The profile: a number that represents all properties of the client that the policy tests.
    pub profile: u16,
    /// Groups that contain the client's address or network. They do not apply, because the client
    /// has a `[[client]]` of its own with other groups.
    pub left_groups: Vec<String>,
}

/// A rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct RuleFacts {
    /// The name of the rule.
    pub name: String,
    /// The condition of the rule.
    pub when: String,
    /// The action of the rule.
    pub action: RuleAction,
    /// Whether the rule only counts its matches.
    pub log_only: bool,
}

words! {
    /// The causes of a suspension of filtering.
    pub enum Suspended {
        /// A pause.
        Pause = "pause",
        /// A grant.
        Grant = "grant",
    }
}

/// A line of a list that matches the name, an alias in its answer, or the answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct ListLine {
    /// The list.
    pub list: Option<String>,
    /// The number of the line, from 1.
    pub line: u32,
    /// The effect of the line.
    pub effect: ListEffect,
    /// Whether the line takes precedence over allow lists; none for policy zones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub important: Option<bool>,
    /// The kind of trigger, for policy zones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger: Option<TriggerKind>,
    /// The alias that the line matches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
    /// Whether the list applies to this client.
    pub in_force: bool,
    /// Whether the line decides.
    pub decides: bool,
    /// Whether the line would decide if no rule, pause or grant applied.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub overruled: bool,
    /// The text of the line.
    pub text: Option<String>,
}

words! {
    /// The effects of a line of a list.
    pub enum ListEffect {
        /// The line allows names.
        Allow = "allow",
        /// The line blocks names.
        Block = "block",
        /// A policy zone: the name does not exist.
        Nxdomain = "nxdomain",
        /// A policy zone: the type does not exist.
        Nodata = "nodata",
        /// A policy zone: it allows.
        Passthru = "passthru",
        /// A policy zone: no response.
        Drop = "drop",
        /// A policy zone: a truncated response, so that the client uses TCP.
        TcpOnly = "tcp-only",
        /// A policy zone: an alias.
        Alias = "alias",
        /// A policy zone: other records.
        LocalData = "local-data",
    }
}

impl From<&Action> for ListEffect {
    fn from(action: &Action) -> Self {
        match action {
            Action::NxDomain => Self::Nxdomain,
            Action::NoData => Self::Nodata,
            Action::Passthru => Self::Passthru,
            Action::Drop => Self::Drop,
            Action::TcpOnly => Self::TcpOnly,
            Action::Cname(_) | Action::CnameUnder(_) => Self::Alias,
            Action::Data(_) => Self::LocalData,
        }
    }
}

/// The trace of a recent failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct FailedTrace {
    /// The trace.
    #[serde(flatten)]
    pub trace: TraceReport,
    /// Seconds since the failure.
    pub secs_ago: u64,
}

/// The trace of a resolution for this request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResolvedTrace {
    /// The trace.
    #[serde(flatten)]
    pub trace: TraceReport,
    /// The records of the answer, if no other section contains them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Vec<AnswerRecord>>,
}

/// A failure that the server does not retry for a while (RFC 9520).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CachedFailure {
    /// QNAME.
    pub name: String,
    /// The extended error.
    pub ede: u16,
    /// The meaning of the failure.
    pub text: String,
}

/// The data of the RRset cache for a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CachedName {
    /// The name.
    pub name: String,
    /// The entries of the name, and the delegations, DS and DNAME records above the name.
    pub rrsets: Vec<CacheEntry>,
}

/// The cached data of a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CacheLook {
    /// The data of the RRset cache: the entries of the name, and the delegations, DS and DNAME
    /// records above the name.
    #[serde(flatten)]
    pub cached: CachedName,
    /// The cached failure of the question.
    pub failure: Option<CachedFailure>,
}

/// The response that a client gets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GivenAnswer {
    /// QNAME.
    pub name: String,
    /// QTYPE.
    #[serde(rename = "type")]
    pub rtype: String,
    /// The address of the client.
    pub client: String,
    /// The stage that ended the query.
    pub from: QueryStage,
    /// The hosted zone with the name. If only some clients see the zone, a slash and its view
    /// follow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// The decision that the server records for the query.
    pub decision: Option<RecordedDecision>,
    /// The response; none if the server sends none.
    #[serde(flatten)]
    pub reply: Option<GivenReply>,
}

/// A response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct GivenReply {
    /// RCODE.
    pub rcode: String,
    /// The flag TC.
    pub truncated: bool,
    /// The records.
    pub answer: Option<Vec<AnswerRecord>>,
    /// The extended error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ede: Option<u16>,
    /// The text of the extended error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ede_text: Option<String>,
}

/// The decision that the server records for a query.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RecordedDecision {
    /// The stage.
    pub stage: QueryStage,
    /// The use of the caches.
    pub cache: CacheUse,
    /// The result of validation.
    pub validated: ValidationState,
    /// The rule or list that decided.
    pub by: Option<String>,
    /// The profile of the client: a number for all its properties that the policy tests.
    pub profile: u16,
    /// The number of the configuration and lists in force, counted from 1 since the start. It is
    /// not the number of a revision in the history of the configuration.
    pub revision: u32,
}

words! {
    /// The stage that ended a query.
    pub enum QueryStage {
        /// The query got FORMERR, NOTIMP or BADVERS, or has a question that is never answered with
        /// data.
        Malformed = "malformed",
        /// The client's address is not allowed.
        Refused = "refused",
        /// The message is not a query, or is too short to answer: there is no response.
        Ignored = "ignored",
        /// The packet cache answered the query.
        PacketHit = "packet-hit",
        /// Expired data answered the query, because resolution failed or took long.
        Stale = "stale",
        /// Local records answered the query.
        Local = "local",
        /// Special names answered the query.
        Special = "special",
        /// The query is of class CH, for information about the server.
        Chaos = "chaos",
        /// The RRset cache answered the query.
        RrsetHit = "rrset-hit",
        /// The query was resolved.
        Resolved = "resolved",
        /// Resolution was tried, and failed.
        Failed = "failed",
        /// A cached failure ended the query (RFC 9520).
        FailureHit = "failure-hit",
        /// RD is not set, and the caches do not have the answer.
        NotRecursive = "not-recursive",
        /// Too many queries were in flight.
        Shed = "shed",
        /// A list or rule blocked the query.
        Blocked = "blocked",
        /// A rule answered with other records.
        Rewritten = "rewritten",
        /// A rule limited the rate or truncated the response.
        Limited = "limited",
        /// A rule dropped the query.
        Dropped = "dropped",
        /// A hosted zone answered the query.
        Hosted = "hosted",
        /// A pool answered the query: its addresses depend on the health of its hosts.
        Pool = "pool",
    }
}

words! {
    /// The use of the caches for a query.
    pub enum CacheUse {
        /// An earlier stage ended the query.
        NotAsked = "not-asked",
        /// The caches had the answer.
        Hit = "hit",
        /// The caches had an expired answer.
        Stale = "stale",
        /// The caches had no usable data.
        Miss = "miss",
    }
}

words! {
    /// The results of validation of an answer.
    pub enum ValidationState {
        /// The answer is insecure, or was not validated.
        Unknown = "unknown",
        /// All records of the answer are secure.
        Secure = "secure",
        /// The answer is bogus: the client gets an error.
        Bogus = "bogus",
    }
}
