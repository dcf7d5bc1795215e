//! Rules as configured, and their actions.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use avocet_wire::NameBuf;
use avocet_wire::name::MAX_NAME;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::server::{ServerFault, server_address};
use crate::PolicyError;

/// Maximum number of addresses of a redirection or of the answer of a block.
pub(super) const MAX_ADDRESSES: usize = 32;
/// Maximum number of tokens of a bucket, and maximum number of queries per second.
const MAX_RATE: u32 = 1_000_000;
/// Maximum number of octets of a tag.
const MAX_TAG: usize = 64;
/// Longest TTL, in seconds (RFC 2181 §8).
const MAX_TTL_SECS: u32 = 0x7fff_ffff;

/// A rule of the configuration.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct RuleSpec {
    /// The name of the rule, which explanations show.
    pub name: String,
    /// The condition, in CEL syntax.
    pub when: String,
    /// The action for queries or answers that meet the condition.
    pub action: ActionKind,
    /// Whether the rule applies. A rule that does not apply is still checked for errors.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// The place of the rule in the order of rules. Lower numbers come first. Rules with the same
    /// number keep the order of the file.
    #[serde(default)]
    pub priority: i32,
    /// The time zone of `now` in the condition, such as `Europe/Berlin`; `None` for the time zone
    /// of the policy.
    #[serde(default)]
    pub time_zone: Option<String>,
    /// Whether the rule only counts its matches, and does not act.
    #[serde(default)]
    pub log_only: bool,
    /// For `block`: the form of the response; `None` for the form of the policy.
    #[serde(default)]
    pub answer: Option<BlockForm>,
    /// For `redirect`: addresses, or one name. For `block` with `answer = "addresses"`: these
    /// addresses. For `forward`: addresses of servers, with `:PORT` if it is not 53.
    #[serde(default)]
    pub to: Vec<String>,
    /// For `ttl`: the lowest TTL in seconds.
    #[serde(default)]
    pub min_secs: Option<u32>,
    /// For `ttl`: the highest TTL in seconds. For `redirect` and `block`: the TTL of the response
    /// in seconds.
    #[serde(default)]
    pub max_secs: Option<u32>,
    /// For `rate-limit`: the maximum number of answered queries per second.
    #[serde(default)]
    pub rps: Option<u32>,
    /// For `rate-limit`: the number of queries that may arrive at once; by default twice `rps`.
    #[serde(default)]
    pub burst: Option<u32>,
    /// For `rate-limit`: the queries that share a limit.
    #[serde(default)]
    pub per: Option<LimitKey>,
    /// For `rate-limit`: what happens to queries over the limit.
    #[serde(default)]
    pub over: Option<Over>,
    /// For `tag`: a keyword of at most 64 octets. It has no effect.
    #[serde(default)]
    pub tag: Option<String>,
}

impl RuleSpec {
    /// Returns the servers that the rule forwards to; `None` if it is disabled, has another action
    /// or its servers cannot be read. Does not compile the condition, which may take long.
    #[must_use]
    pub fn forwards_to(&self) -> Option<Arc<[SocketAddr]>> {
        let forwards = self.enabled && self.action == ActionKind::Forward;
        forwards.then(|| servers(&self.to).ok()).flatten()
    }
}

const fn yes() -> bool {
    true
}

/// The action of a rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ActionKind {
    /// Answer without resolving the name, as for a blocked name.
    #[default]
    Block,
    /// Resolve the name even if a list blocks it.
    Allow,
    /// Answer with other addresses, or with the records of another name.
    Redirect,
    /// Send the query to the servers of this rule.
    Forward,
    /// Answer for names of search engines and video sites with the addresses of their strict mode.
    SafeSearch,
    /// Limit the TTLs of the answer.
    Ttl,
    /// Send no response.
    Drop,
    /// Send an empty truncated response over UDP, so that the client repeats the query over TCP.
    /// Over other transports, the rule has no effect.
    Truncate,
    /// Limit the number of answered queries per second.
    RateLimit,
    /// Count the matches. The response does not change.
    Tag,
}

/// The form of the response to a blocked query.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BlockForm {
    /// NXDOMAIN: the name does not exist.
    Nxdomain,
    /// NODATA: the name exists, and has no records of the type.
    Nodata,
    /// REFUSED: the server refuses to answer.
    Refused,
    /// The addresses 0.0.0.0 and ::, and no data of other types.
    Zero,
    /// The addresses in `to` of the rule or in `block-addresses`, and no data of other types.
    Addresses,
}

/// The queries that share one limit of a `rate-limit` rule.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LimitKey {
    /// The queries of one client. A client is an IPv4 address, or an IPv6 network with the prefix
    /// length 64, because one client may control all addresses of such a network.
    #[default]
    Client,
    /// All queries that the rule matches.
    Rule,
    /// The queries for one queried name (QNAME), from all clients.
    Domain,
    /// The queries of one client for one queried name (QNAME).
    ClientDomain,
}

/// What happens to a query over the limit of a `rate-limit` rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Over {
    /// Send no response.
    Drop,
    /// Answer with REFUSED.
    #[default]
    Refuse,
    /// Send an empty truncated response over UDP. Over other transports, the rule has no effect on
    /// queries over the limit.
    Truncate,
}

/// A validated action.
#[derive(Clone, PartialEq, Debug)]
pub enum Action {
    /// Answer without resolving.
    Block(Block),
    /// Do not apply the lists.
    Allow,
    /// Answer with this target instead. Holds the TTL in seconds, if the rule sets one.
    Redirect(Target, Option<u32>),
    /// Resolve with these servers.
    Forward(Arc<[SocketAddr]>),
    /// Answer with the strict variant that [`super::safe_name`] returns.
    SafeSearch,
    /// Keep TTLs within these bounds, in seconds.
    Ttl {
        /// Lower bound.
        min_secs: u32,
        /// Upper bound.
        max_secs: u32,
    },
    /// Send nothing.
    Drop,
    /// Send an empty truncated response over UDP, so that the client uses TCP.
    Truncate,
    /// Take a token from a bucket. Without a token, the query is over the limit.
    RateLimit(RateLimit),
    /// Log a word.
    Tag(String),
}

/// The answer of a block. The settings of the policy replace missing settings.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Block {
    /// The form of the answer.
    pub form: Option<BlockForm>,
    /// The addresses for [`BlockForm::Addresses`].
    pub addresses: Vec<IpAddr>,
    /// The TTL in seconds.
    pub ttl_secs: Option<u32>,
}

/// The target of a redirection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Target {
    /// Addresses. A type without addresses gets no data.
    Addresses(Vec<IpAddr>),
    /// A name, in lower-case wire form.
    Name(Box<[u8]>),
}

/// A rate limit for queries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RateLimit {
    /// Queries per second.
    pub rps: u32,
    /// Maximum number of queries in a burst.
    pub burst: u32,
    /// The unit for which the limit has a separate bucket.
    pub per: LimitKey,
    /// The reaction to queries over the limit.
    pub over: Over,
}

impl Action {
    /// Reports whether a matching rule with this action decides, so that later rules are not
    /// evaluated.
    #[must_use]
    pub const fn decides(&self) -> bool {
        !matches!(self, Self::Ttl { .. } | Self::RateLimit(_) | Self::Tag(_))
    }

    /// Reports whether the action is filtering, which a pause or a grant suspends.
    #[must_use]
    pub const fn filters(&self) -> bool {
        matches!(self, Self::Block(_) | Self::SafeSearch | Self::Drop)
    }

    /// Reports whether the action takes effect before there is an answer, so that a condition on
    /// the answer is useless.
    pub(super) const fn is_of_question(&self) -> bool {
        matches!(self, Self::Forward(_) | Self::SafeSearch | Self::RateLimit(_))
    }

    /// Reports whether the action is also taken for a name that the answer leads to. Actions that
    /// allow are not.
    pub(super) const fn looks_behind(&self) -> bool {
        !self.is_of_question() && !matches!(self, Self::Allow)
    }

    /// Parses the action of a rule.
    ///
    /// # Errors
    /// A setting is missing, is invalid, or belongs to another action. The error lists all such
    /// settings.
    pub(super) fn of(spec: &RuleSpec) -> Result<Self, PolicyError> {
        match (refuse_stray_settings(spec), Self::read(spec)) {
            (Ok(()), read) => read,
            (Err(stray), Ok(_)) => Err(stray),
            (Err(stray), Err(wrong)) => Err(PolicyError::Several(vec![stray, wrong])),
        }
    }

    fn read(spec: &RuleSpec) -> Result<Self, PolicyError> {
        Ok(match spec.action {
            ActionKind::Block => Self::Block(block(spec)?),
            ActionKind::Allow => Self::Allow,
            ActionKind::Redirect => Self::Redirect(target(spec)?, ttl_secs(spec.max_secs)?),
            ActionKind::Forward => Self::Forward(servers(&spec.to)?),
            ActionKind::SafeSearch => Self::SafeSearch,
            ActionKind::Ttl => ttl(spec)?,
            ActionKind::Drop => Self::Drop,
            ActionKind::Truncate => Self::Truncate,
            ActionKind::RateLimit => Self::RateLimit(rate_limit(spec)?),
            ActionKind::Tag => match spec.tag.as_deref() {
                Some(tag) if !tag.is_empty() && tag.len() <= MAX_TAG => Self::Tag(tag.to_owned()),
                _ => return Err(PolicyError::Tag(MAX_TAG)),
            },
        })
    }
}

/// Returns an error if a rule has settings that its action does not use, because they are probably
/// a mistake.
fn refuse_stray_settings(spec: &RuleSpec) -> Result<(), PolicyError> {
    use ActionKind as Kind;
    let settings: [(&str, bool, &[ActionKind]); 9] = [
        ("answer", spec.answer.is_some(), &[Kind::Block]),
        ("to", !spec.to.is_empty(), &[Kind::Redirect, Kind::Block, Kind::Forward]),
        ("min-secs", spec.min_secs.is_some(), &[Kind::Ttl]),
        ("max-secs", spec.max_secs.is_some(), &[Kind::Ttl, Kind::Redirect, Kind::Block]),
        ("rps", spec.rps.is_some(), &[Kind::RateLimit]),
        ("burst", spec.burst.is_some(), &[Kind::RateLimit]),
        ("per", spec.per.is_some(), &[Kind::RateLimit]),
        ("over", spec.over.is_some(), &[Kind::RateLimit]),
        ("tag", spec.tag.is_some(), &[Kind::Tag]),
    ];
    let stray =
        settings.iter().filter(|(_, given, readers)| *given && !readers.contains(&spec.action));
    let stray: Vec<_> = stray.map(|(name, ..)| *name).collect();
    if stray.is_empty() { Ok(()) } else { Err(PolicyError::StraySettings(stray)) }
}

fn block(spec: &RuleSpec) -> Result<Block, PolicyError> {
    let ttl_secs = ttl_secs(spec.max_secs)?;
    let addresses = match spec.answer {
        Some(BlockForm::Addresses) => addresses(&spec.to)?,
        _ if spec.to.is_empty() => Vec::new(),
        _ => return Err(PolicyError::UnusedAddresses),
    };
    Ok(Block { form: spec.answer, addresses, ttl_secs })
}

fn addresses(texts: &[String]) -> Result<Vec<IpAddr>, PolicyError> {
    if texts.is_empty() || texts.len() > MAX_ADDRESSES {
        return Err(PolicyError::TargetCount { what: "addresses", most: MAX_ADDRESSES });
    }
    all(texts, |text| text.parse().map_err(|_| PolicyError::NotAnAddress(text.clone())))
}

/// Reads all texts with `read`. If any of them are invalid, returns all their errors.
fn all<T>(
    texts: &[String],
    read: impl Fn(&String) -> Result<T, PolicyError>,
) -> Result<Vec<T>, PolicyError> {
    let (mut right, mut wrong) = (Vec::with_capacity(texts.len()), Vec::new());
    for text in texts {
        match read(text) {
            Ok(one) => right.push(one),
            Err(fault) => wrong.push(fault),
        }
    }
    if wrong.is_empty() { Ok(right) } else { Err(PolicyError::Several(wrong)) }
}

fn target(spec: &RuleSpec) -> Result<Target, PolicyError> {
    match spec.to.as_slice() {
        [one] if one.parse::<IpAddr>().is_err() => name(one).map(Target::Name),
        [] => Err(PolicyError::NoTarget),
        several => addresses(several).map(Target::Addresses),
    }
}

/// Returns the lower-case wire form of a name, which may lack the final dot. Labels in other
/// alphabets become A-labels (RFC 5890 §2.3.2.1).
pub(super) fn name(text: &str) -> Result<Box<[u8]>, PolicyError> {
    let ascii = if text.is_ascii() {
        Cow::Borrowed(text)
    } else {
        let converted = idna::domain_to_ascii(text);
        Cow::Owned(converted.map_err(|_| PolicyError::InternationalisedName)?)
    };
    let mut wire = [0; MAX_NAME];
    let len = avocet_wire::text::name_to_wire(ascii.as_bytes(), Some(&[0]), &mut wire)?;
    Ok(NameBuf::from_wire(&wire[..len])?.folded().wire().into())
}

fn servers(texts: &[String]) -> Result<Arc<[SocketAddr]>, PolicyError> {
    if texts.is_empty() || texts.len() > MAX_ADDRESSES {
        return Err(PolicyError::TargetCount { what: "servers", most: MAX_ADDRESSES });
    }
    // Scopes with interface names were already replaced by numbers.
    let server = |text: &String| match server_address(text, |_| None) {
        Ok(server) => Ok(server),
        Err(ServerFault::Form) => Err(PolicyError::NotAServer(text.clone())),
        Err(source) => Err(PolicyError::Server { text: text.clone(), source }),
    };
    all(texts, server).map(Arc::from)
}

fn ttl_secs(given: Option<u32>) -> Result<Option<u32>, PolicyError> {
    match given {
        Some(secs) if secs > MAX_TTL_SECS => Err(PolicyError::LongTtl(MAX_TTL_SECS)),
        given => Ok(given),
    }
}

fn ttl(spec: &RuleSpec) -> Result<Action, PolicyError> {
    let (min, max) = (ttl_secs(spec.min_secs)?, ttl_secs(spec.max_secs)?);
    if min.is_none() && max.is_none() {
        return Err(PolicyError::NoTtlBound);
    }
    let (min_secs, max_secs) = (min.unwrap_or(0), max.unwrap_or(MAX_TTL_SECS));
    if min_secs > max_secs {
        return Err(PolicyError::CrossedTtlBounds);
    }
    Ok(Action::Ttl { min_secs, max_secs })
}

fn rate_limit(spec: &RuleSpec) -> Result<RateLimit, PolicyError> {
    let rps = spec.rps.ok_or(PolicyError::NoRate)?;
    let burst = spec.burst.unwrap_or_else(|| rps.saturating_mul(2).min(MAX_RATE));
    if !(1..=MAX_RATE).contains(&rps) || !(1..=MAX_RATE).contains(&burst) {
        return Err(PolicyError::RateOutOfBounds(MAX_RATE));
    }
    Ok(RateLimit {
        rps,
        burst,
        per: spec.per.unwrap_or_default(),
        over: spec.over.unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(settings: &str, expected: Result<Action, &str>) {
        let spec: RuleSpec =
            toml::from_str(&format!("name = 'x'\nwhen = 'true'\n{settings}")).unwrap();
        let found = Action::of(&spec).map_err(|error| error.to_string());
        assert_eq!(found, expected.map_err(str::to_owned));
    }

    #[test]
    fn actions_are_read_with_their_settings() {
        check("action = 'block'", Ok(Action::Block(Block::default())));
        let addresses = vec!["192.0.2.1".parse().unwrap(), "2001:db8::1".parse().unwrap()];
        let block = Block {
            form: Some(BlockForm::Addresses),
            addresses: addresses.clone(),
            ttl_secs: Some(9),
        };
        check(
            "action = 'block'\nanswer = 'addresses'\nto = ['192.0.2.1', '2001:db8::1']\nmax-secs \
             = 9",
            Ok(Action::Block(block)),
        );
        check(
            "action = 'redirect'\nto = ['192.0.2.1', '2001:db8::1']",
            Ok(Action::Redirect(Target::Addresses(addresses), None)),
        );
        let name: &[u8] = b"\x04host\x07example\x00";
        check(
            "action = 'redirect'\nto = ['Host.example']",
            Ok(Action::Redirect(Target::Name(name.into()), None)),
        );
        let limit =
            RateLimit { rps: 5, burst: 10, per: LimitKey::ClientDomain, over: Over::Truncate };
        check(
            "action = 'rate-limit'\nrps = 5\nper = 'client-domain'\nover = 'truncate'",
            Ok(Action::RateLimit(limit)),
        );
        let servers = ["192.0.2.1:53", "[2001:db8::1]:5353"].map(|server| server.parse().unwrap());
        check(
            "action = 'forward'\nto = ['192.0.2.1', '2001:db8::1@5353']",
            Ok(Action::Forward(servers.into())),
        );
        check("action = 'ttl'\nmax-secs = 60", Ok(Action::Ttl { min_secs: 0, max_secs: 60 }));
    }

    #[test]
    fn settings_that_are_missing_wrong_or_stray_are_faults() {
        check("action = 'allow'\nrps = 5", Err("`rps` has no meaning for this action"));
        check(
            "action = 'redirect'\nrps = 5\ntag = 'x'\nto = ['a', '192.0.2.1', 'b']",
            Err("`rps`, `tag` have no meaning for this action; `a` is not an address; `b` is not \
                 an address"),
        );
        check("action = 'block'\nto = ['192.0.2.1']", Err("`to` needs `answer = \"addresses\"`"));
        check("action = 'redirect'", Err("`to` needs addresses or a name"));
        check("action = 'redirect'\nto = ['192.0.2.1', 'x']", Err("`x` is not an address"));
        check("action = 'forward'", Err("`to` needs 1 to 32 servers"));
        check(
            "action = 'forward'\nto = ['home']",
            Err("`home` is neither a server such as \"192.0.2.1\", \"192.0.2.1:5353\" or \
                 \"[2001:db8::1]:5353\" nor the zone of a [[forward]] over UDP, without \
                 discover = \"strict\" and proxy-protocol"),
        );
        check(
            "action = 'ttl'\nmin-secs = 9\nmax-secs = 8",
            Err("`min-secs` is greater than `max-secs`"),
        );
        check("action = 'rate-limit'", Err("`rate-limit` needs `rps`"));
        check("action = 'tag'", Err("`tag` needs a word of at most 64 octets"));
    }
}
