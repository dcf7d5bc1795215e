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

/// A section of an explanation of the answer that a client gets. A reply has the sections that
/// apply, in the order of this list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "section", rename_all = "kebab-case")]
pub enum WhySection {
    /// The decision about a query in the past, from the query log.
    Past(PastDecision),
    /// The decision of the policy: rules, lists, pauses and grants.
    Policy(PolicyDecision),
    /// The trace of a recent failure to resolve the name.
    Failed(FailedTrace),
    /// The entry in the failure cache. Until it expires, the server does not try to resolve the
    /// question again.
    FailureCache(CachedFailure),
    /// The data of the name in the RRset cache.
    Cache(CachedName),
    /// The trace of a resolution that the server made for this request.
    Resolved(ResolvedTrace),
    /// The response that the client gets.
    Answer(GivenAnswer),
}

impl Part for WhySection {}

/// The end of an explanation, without fields.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Explained {}

/// The decision of the policy about a query and the answer to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct PolicyDecision {
    /// What the policy does with the query.
    pub verdict: PolicyVerdict,
    /// The rule or list that decided; empty if none did.
    pub why: String,
    /// The properties of the client that the policy uses.
    pub client: ClientFacts,
    /// The rule that decided; null if no rule decided.
    pub rule: Option<RuleFacts>,
    /// Rules that matched and do not decide: rules with `log-only`, and rules with the action
    /// `ttl`, `rate-limit` or `tag`.
    pub noted: Vec<RuleFacts>,
    /// Whether a pause or a grant suspends filtering for this query; null if neither does.
    pub lifted: Option<Suspended>,
    /// The Unix second until which the decision is valid; null if the decision does not depend on
    /// the time.
    pub valid_until: Option<u64>,
    /// The time until which the decision is valid, in the time zone of the policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_until_local: Option<String>,
    /// The countries of the addresses in the answer; null if no rule tests countries, or if the
    /// answer is not known.
    pub countries: Option<Vec<String>>,
    /// All lines of lists that match the query or the answer, also lines that do not decide.
    pub lists: Vec<ListLine>,
    /// The number of the state of configuration and lists in force, counted from 1 since the start
    /// of the server. This number is not the number of a revision in the history of the
    /// configuration.
    pub revision: u32,
    /// Whether a local record prevents a block: a list would decide, but local records take
    /// precedence over lists.
    pub own_record: bool,
}

words! {
    /// What the policy does with a query.
    pub enum PolicyVerdict {
        /// The policy does not change the response.
        Passes = "passes",
        /// The query is blocked.
        Blocked = "blocked",
        /// The policy replaces the response by other data.
        Rewritten = "rewritten",
        /// A rule sends the query to the servers that the rule names.
        Forwarded = "forwarded",
        /// The policy drops the query: the client gets no response.
        Dropped = "dropped",
        /// Over UDP, the client gets a truncated response, so that it repeats the query over TCP.
        Truncated = "truncated",
    }
}

/// The properties of a client that the policy uses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct ClientFacts {
    /// The IP address of the client.
    pub address: String,
    /// The name of the `[[client]]` table that matches the client; null if none does.
    pub client: Option<String>,
    /// The name of the client: from the configuration, a lease or a PTR record. Null if the client
    /// has no name.
    pub name: Option<String>,
    /// The MAC addresses of the device of the client; empty if they are not known.
    pub macs: Vec<String>,
    /// The groups to which the client belongs.
    pub groups: Vec<String>,
    /// The profile: a number that represents all properties of the client that the policy tests.
    /// Clients with the same profile get the same decisions.
    pub profile: u16,
    /// Groups that contain the address or network of the client and do not apply. The reason is
    /// that the client has a `[[client]]` of its own with other groups.
    pub left_groups: Vec<String>,
}

/// A rule of the policy.
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
    /// The word of a rule with the action `tag`; missing for other actions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
}

words! {
    /// The reason why filtering is suspended for a query.
    pub enum Suspended {
        /// A pause: all filtering is suspended for the client.
        Pause = "pause",
        /// A grant: filtering of this name is suspended.
        Grant = "grant",
    }
}

/// A line of a list that matches the queried name, an alias in the answer, or the answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct ListLine {
    /// The name of the list; null if it is not known.
    pub list: Option<String>,
    /// The number of the line, from 1.
    pub line: u32,
    /// What the line does.
    pub effect: ListEffect,
    /// Whether the line has `$important` and takes precedence over allow lists; missing for
    /// response policy zones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub important: Option<bool>,
    /// The kind of trigger, that is, what the line compares; only for response policy zones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger: Option<TriggerKind>,
    /// The alias in the answer that the line matches; missing if the line matches the queried name
    /// or an address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
    /// Whether the list of the line applies to this client.
    pub in_force: bool,
    /// Whether this line decides about the query.
    pub decides: bool,
    /// Whether this line would decide if no rule, pause or grant applied.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub overruled: bool,
    /// The text of the line, possibly shortened; null if it cannot be read.
    pub text: Option<String>,
}

words! {
    /// What a line of a list does. The last seven are actions of response policy zones.
    pub enum ListEffect {
        /// Allow the name.
        Allow = "allow",
        /// Block the name.
        Block = "block",
        /// Answer that the name does not exist (NXDOMAIN).
        Nxdomain = "nxdomain",
        /// Answer that the name has no data of the type (NODATA).
        Nodata = "nodata",
        /// Allow the answer, regardless of later policy zones.
        Passthru = "passthru",
        /// Send no response.
        Drop = "drop",
        /// Send a truncated response over UDP, so that the client repeats the query over TCP.
        TcpOnly = "tcp-only",
        /// Answer with an alias to another name.
        Alias = "alias",
        /// Answer with other records.
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

/// The trace of a recent failure to resolve the name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct FailedTrace {
    /// The steps of the failed resolution.
    #[serde(flatten)]
    pub trace: TraceReport,
    /// The number of seconds since the failure.
    pub secs_ago: u64,
}

/// The trace of a resolution that the server made for this request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResolvedTrace {
    /// The steps of the resolution.
    #[serde(flatten)]
    pub trace: TraceReport,
    /// The records of the answer; missing if another section contains them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Vec<AnswerRecord>>,
}

/// A cached failure: a question that the server could not resolve, and does not try again for a
/// while (RFC 9520).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CachedFailure {
    /// The name of the question (QNAME).
    pub name: String,
    /// The code of the extended error that clients get (RFC 8914).
    pub ede: u16,
    /// The meaning of the extended error.
    pub text: String,
}

/// The data of a name in the RRset cache.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CachedName {
    /// The name that was looked up.
    pub name: String,
    /// The entries of the name, and the delegations, DS and DNAME records above the name.
    pub rrsets: Vec<CacheEntry>,
}

/// The data of a name in the caches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CacheLook {
    /// The data in the RRset cache: the entries of the name, and the delegations, DS and DNAME
    /// records above the name.
    #[serde(flatten)]
    pub cached: CachedName,
    /// The failure in the failure cache for the question; null if there is none.
    pub failure: Option<CachedFailure>,
}

/// The response that the client gets, and the part of the server that produces it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GivenAnswer {
    /// The queried name (QNAME).
    pub name: String,
    /// The queried type (QTYPE).
    #[serde(rename = "type")]
    pub rtype: String,
    /// The address of the client.
    pub client: String,
    /// The stage of processing that ended the query, such as a cache.
    pub from: QueryStage,
    /// The hosted zone that answered; missing if none did. If only some clients see the zone, a
    /// slash and the first item of its view follow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// The decision that the server records for the query; null if it recorded none.
    pub decision: Option<RecordedDecision>,
    /// The response; null if the client gets no response.
    #[serde(flatten)]
    pub reply: Option<GivenReply>,
}

/// The response to a query.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct GivenReply {
    /// The RCODE of the response.
    pub rcode: String,
    /// Whether the response is truncated (flag TC).
    pub truncated: bool,
    /// The records of the response; null if they cannot be read.
    pub answer: Option<Vec<AnswerRecord>>,
    /// The code of the extended error in the response (RFC 8914); missing if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ede: Option<u16>,
    /// The text of the extended error; missing if there is no extended error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ede_text: Option<String>,
}

/// The decision that the server records for a query, as in the query log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RecordedDecision {
    /// The stage of processing that ended the query.
    pub stage: QueryStage,
    /// Whether the caches had an answer.
    pub cache: CacheUse,
    /// The result of DNSSEC validation of the answer.
    pub validated: ValidationState,
    /// The rule or list that decided; null if none did.
    pub by: Option<String>,
    /// The profile: a number that represents all properties of the client that the policy tests.
    pub profile: u16,
    /// The number of the state of configuration and lists in force, counted from 1 since the start
    /// of the server. This number is not the number of a revision in the history of the
    /// configuration.
    pub revision: u32,
}

words! {
    /// The stage of processing that ended a query. The server passes each query through several
    /// stages.
    pub enum QueryStage {
        /// The query is malformed or of a kind that the server does not implement, or has a type
        /// that is never answered with data. The client got an error.
        Malformed = "malformed",
        /// The address of the client is not permitted.
        Refused = "refused",
        /// The message is not a query, or is too short to answer. There was no response.
        Ignored = "ignored",
        /// The packet cache answered the query.
        PacketHit = "packet-hit",
        /// Expired data answered the query, because resolution failed or took long.
        Stale = "stale",
        /// Local records answered the query.
        Local = "local",
        /// The name is in a local zone or a special-use name, such as `localhost`.
        Special = "special",
        /// The query was for information about the server (class CH).
        Chaos = "chaos",
        /// The RRset cache answered the query.
        RrsetHit = "rrset-hit",
        /// Other servers answered the query.
        Resolved = "resolved",
        /// The server tried to resolve the query, and failed.
        Failed = "failed",
        /// Resolution failed recently, and the server did not try again (RFC 9520).
        FailureHit = "failure-hit",
        /// The query did not ask for recursion (RD), and the caches do not have the answer.
        NotRecursive = "not-recursive",
        /// The server rejected the query, because too many queries were being resolved.
        Shed = "shed",
        /// A list, a rule or a protection of the server blocked the query.
        Blocked = "blocked",
        /// A rule or list answered with other data.
        Rewritten = "rewritten",
        /// A rate limit of a rule applied, or a rule or a response policy zone truncated the
        /// response.
        Limited = "limited",
        /// A rule or a response policy zone dropped the query: there was no response.
        Dropped = "dropped",
        /// A hosted zone answered the query.
        Hosted = "hosted",
        /// A pool answered the query. The addresses in the answer depend on the health of the
        /// hosts.
        Pool = "pool",
    }
}

words! {
    /// Whether the caches had an answer to a query.
    pub enum CacheUse {
        /// The query was not looked up in the caches, because an earlier stage ended it.
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
    /// The result of DNSSEC validation of an answer.
    pub enum ValidationState {
        /// The answer is not signed, or was not validated.
        Unknown = "unknown",
        /// Validation of all records of the answer succeeded.
        Secure = "secure",
        /// Validation of the answer failed. The client gets an error.
        Bogus = "bogus",
    }
}
