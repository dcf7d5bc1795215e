//! A rule as it is configured, and what it does.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use avocet_wire::NameBuf;
use avocet_wire::name::MAX_NAME;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::server::{SERVER_FORM, ServerFault, server_address};

/// Most addresses of a redirection or of an answer of a block.
pub(super) const MAX_ADDRESSES: usize = 32;
/// Most tokens of a bucket, and most queries a second.
const MAX_RATE: u32 = 1_000_000;
/// The longest TTL, in seconds (RFC 2181 §8).
const MAX_TTL_SECS: u32 = 0x7fff_ffff;

/// A rule as it stands in the configuration.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct RuleSpec {
    /// The name that explanations use.
    pub name: String,
    /// The condition, in CEL syntax.
    pub when: String,
    /// What is done where the condition holds.
    pub action: ActionKind,
    /// Rules that are not enabled are checked and left out.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// Lower numbers come first; rules of one priority come in the order of the file.
    #[serde(default)]
    pub priority: i32,
    /// The time zone of `now`, as `Europe/Berlin`; the policy's where this is not given.
    #[serde(default)]
    pub time_zone: Option<String>,
    /// Whether the rule is only recorded and counted where it holds, and does nothing.
    #[serde(default)]
    pub log_only: bool,
    /// How `block` answers; as the policy does where this is not given.
    #[serde(default)]
    pub answer: Option<BlockForm>,
    /// `redirect`: addresses, or one name. `block` with `answer = "addresses"`: the addresses.
    /// `forward`: addresses of servers, with `:PORT` where that is not 53.
    #[serde(default)]
    pub to: Vec<String>,
    /// `ttl`: the least TTL, in seconds.
    #[serde(default)]
    pub min_secs: Option<u32>,
    /// `ttl`: the greatest TTL, in seconds. `redirect` and `block`: the TTL of the answer.
    #[serde(default)]
    pub max_secs: Option<u32>,
    /// `rate-limit`: queries a second.
    #[serde(default)]
    pub rps: Option<u32>,
    /// `rate-limit`: queries at once; twice `rps` where this is not given.
    #[serde(default)]
    pub burst: Option<u32>,
    /// `rate-limit`: what has a limit of its own.
    #[serde(default)]
    pub per: Option<LimitKey>,
    /// `rate-limit`: what is done over the limit.
    #[serde(default)]
    pub over: Option<Over>,
    /// `tag`: the word that the log keeps.
    #[serde(default)]
    pub tag: Option<String>,
}

const fn yes() -> bool {
    true
}

/// What a rule does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ActionKind {
    /// The name is not resolved.
    #[default]
    Block,
    /// The name is resolved whatever the lists say.
    Allow,
    /// The answer is other addresses, or those of another name.
    Redirect,
    /// The answer comes from these upstreams.
    Forward,
    /// Search engines and video sites answer with their strict form.
    SafeSearch,
    /// TTLs are kept within bounds.
    Ttl,
    /// No answer is sent.
    Drop,
    /// An answer over UDP is empty and truncated, so that the client comes back over TCP. Over
    /// other transports the rule does not hold.
    Truncate,
    /// So many queries a second are answered.
    RateLimit,
    /// A word is put into the log.
    Tag,
}

/// How a blocked question is answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BlockForm {
    /// The name does not exist.
    Nxdomain,
    /// The name has no data of the type.
    Nodata,
    /// The server refuses.
    Refused,
    /// 0.0.0.0 and ::, and no data of other types.
    Zero,
    /// The addresses of `to`, and no data of other types.
    Addresses,
}

/// What has a bucket of its own.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LimitKey {
    /// Each client address; of IPv6 each network of 64 bits, as a client has all of it.
    #[default]
    Client,
    /// The rule: all that it holds for together.
    Rule,
    /// Each name asked for.
    Domain,
    /// Each name for each client.
    ClientDomain,
}

/// What is done with a query over the limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Over {
    /// No answer.
    Drop,
    /// REFUSED.
    #[default]
    Refuse,
    /// An empty truncated answer over UDP; over other transports the limit does not decide.
    Truncate,
}

/// What a rule does, checked.
#[derive(Clone, PartialEq, Debug)]
pub enum Action {
    /// Answer without resolving.
    Block(Block),
    /// Skip the lists.
    Allow,
    /// Answer with something else. The TTL in seconds, where the rule says one.
    Redirect(Target, Option<u32>),
    /// Ask these servers.
    Forward(Arc<[SocketAddr]>),
    /// Answer as [`super::safe_name`] says for the name.
    SafeSearch,
    /// Keep TTLs within these bounds, in seconds.
    Ttl {
        /// The least.
        min_secs: u32,
        /// The greatest.
        max_secs: u32,
    },
    /// Send nothing.
    Drop,
    /// Force the client to TCP.
    Truncate,
    /// Take a token from a bucket.
    RateLimit(RateLimit),
    /// Put a word into the log.
    Tag(String),
}

/// An answer of a block; what is none is as the policy says.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Block {
    /// Its form.
    pub form: Option<BlockForm>,
    /// The addresses of [`BlockForm::Addresses`].
    pub addresses: Vec<IpAddr>,
    /// Its TTL, in seconds.
    pub ttl_secs: Option<u32>,
}

/// Where a redirection leads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Target {
    /// To addresses; a type that has none gets no data.
    Addresses(Vec<IpAddr>),
    /// To a name, in folded wire form.
    Name(Box<[u8]>),
}

/// A limit of queries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RateLimit {
    /// Queries a second.
    pub rps: u32,
    /// Queries at once.
    pub burst: u32,
    /// What has a bucket of its own.
    pub per: LimitKey,
    /// What is done over the limit.
    pub over: Over,
}

impl Action {
    /// The word for it in a configuration.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Block(_) => "block",
            Self::Allow => "allow",
            Self::Redirect(..) => "redirect",
            Self::Forward(_) => "forward",
            Self::SafeSearch => "safe-search",
            Self::Ttl { .. } => "ttl",
            Self::Drop => "drop",
            Self::Truncate => "truncate",
            Self::RateLimit(_) => "rate-limit",
            Self::Tag(_) => "tag",
        }
    }

    /// Does a rule with this action end the search among the rules?
    #[must_use]
    pub const fn decides(&self) -> bool {
        !matches!(self, Self::Ttl { .. } | Self::RateLimit(_) | Self::Tag(_))
    }

    /// Is it filtering, which a pause or a grant lifts?
    #[must_use]
    pub const fn filters(&self) -> bool {
        matches!(self, Self::Block(_) | Self::SafeSearch | Self::Drop)
    }

    /// Is it taken before there is an answer, so that a condition on the answer is no use?
    pub(super) const fn is_of_question(&self) -> bool {
        matches!(self, Self::Forward(_) | Self::SafeSearch | Self::RateLimit(_))
    }

    /// Is it taken because of a name that the answer leads to, too? What lets an answer pass is
    /// not.
    pub(super) const fn looks_behind(&self) -> bool {
        !self.is_of_question() && !matches!(self, Self::Allow)
    }

    /// Reads the action of a rule.
    ///
    /// # Errors
    /// Settings are missing, wrong, or belong to another action: all of them.
    pub(super) fn of(spec: &RuleSpec) -> Result<Self, String> {
        match (refuse_stray_settings(spec), Self::read(spec)) {
            (Ok(()), read) => read,
            (Err(stray), Ok(_)) => Err(stray),
            (Err(stray), Err(wrong)) => Err(format!("{stray}; {wrong}")),
        }
    }

    fn read(spec: &RuleSpec) -> Result<Self, String> {
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
                Some(tag) if !tag.is_empty() && tag.len() <= 64 => Self::Tag(tag.to_owned()),
                _ => return Err("`tag` needs a word of at most 64 octets".to_owned()),
            },
        })
    }
}

/// A setting that the action does not read is a mistake of whoever wrote it.
fn refuse_stray_settings(spec: &RuleSpec) -> Result<(), String> {
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
    match &stray.map(|(name, ..)| format!("`{name}`")).collect::<Vec<_>>()[..] {
        [] => Ok(()),
        [name] => Err(format!("{name} has no meaning for this action")),
        names => Err(format!("{} have no meaning for this action", names.join(", "))),
    }
}

fn block(spec: &RuleSpec) -> Result<Block, String> {
    let ttl_secs = ttl_secs(spec.max_secs)?;
    let addresses = match spec.answer {
        Some(BlockForm::Addresses) => addresses(&spec.to)?,
        _ if spec.to.is_empty() => Vec::new(),
        _ => return Err("`to` needs `answer = \"addresses\"`".to_owned()),
    };
    Ok(Block { form: spec.answer, addresses, ttl_secs })
}

fn addresses(texts: &[String]) -> Result<Vec<IpAddr>, String> {
    if texts.is_empty() || texts.len() > MAX_ADDRESSES {
        return Err(format!("`to` needs 1 to {MAX_ADDRESSES} addresses"));
    }
    all(texts, |text| text.parse().map_err(|_| format!("`{text}` is no address")))
}

/// What each text is, or what is wrong with all that are wrong.
fn all<T>(texts: &[String], read: impl Fn(&String) -> Result<T, String>) -> Result<Vec<T>, String> {
    let (mut right, mut wrong) = (Vec::with_capacity(texts.len()), Vec::new());
    for text in texts {
        match read(text) {
            Ok(one) => right.push(one),
            Err(fault) => wrong.push(fault),
        }
    }
    if wrong.is_empty() { Ok(right) } else { Err(wrong.join("; ")) }
}

fn target(spec: &RuleSpec) -> Result<Target, String> {
    match spec.to.as_slice() {
        [one] if one.parse::<IpAddr>().is_err() => name(one).map(Target::Name),
        [] => Err("`to` needs addresses or a name".to_owned()),
        several => addresses(several).map(Target::Addresses),
    }
}

/// The folded wire form of a name that is written with or without its closing dot.
pub(super) fn name(text: &str) -> Result<Box<[u8]>, String> {
    if !text.is_ascii() {
        return Err("a name is written in its ASCII form, which begins with `xn--`".to_owned());
    }
    let mut wire = [0; MAX_NAME];
    let len = avocet_wire::text::name_to_wire(text.as_bytes(), Some(&[0]), &mut wire)
        .map_err(|e| e.to_string())?;
    let name = NameBuf::from_wire(&wire[..len]).map_err(|error| error.to_string())?;
    Ok(name.folded().wire().into())
}

fn servers(texts: &[String]) -> Result<Arc<[SocketAddr]>, String> {
    if texts.is_empty() || texts.len() > MAX_ADDRESSES {
        return Err(format!("`to` needs 1 to {MAX_ADDRESSES} servers"));
    }
    // Names of interfaces are numbers already.
    let server = |text: &String| match server_address(text, |_| None) {
        Ok(server) => Ok(server),
        Err(ServerFault::Form) => {
            Err(format!("`{text}` is neither {SERVER_FORM} nor the zone of a [[forward]] over UDP"))
        }
        Err(fault) => Err(format!("`{text}` {fault}")),
    };
    all(texts, server).map(Arc::from)
}

fn ttl_secs(given: Option<u32>) -> Result<Option<u32>, String> {
    match given {
        Some(secs) if secs > MAX_TTL_SECS => {
            Err(format!("a TTL is at most {MAX_TTL_SECS} seconds"))
        }
        given => Ok(given),
    }
}

fn ttl(spec: &RuleSpec) -> Result<Action, String> {
    let (min, max) = (ttl_secs(spec.min_secs)?, ttl_secs(spec.max_secs)?);
    if min.is_none() && max.is_none() {
        return Err("`ttl` needs `min-secs` or `max-secs`".to_owned());
    }
    let (min_secs, max_secs) = (min.unwrap_or(0), max.unwrap_or(MAX_TTL_SECS));
    if min_secs > max_secs {
        return Err("`min-secs` is greater than `max-secs`".to_owned());
    }
    Ok(Action::Ttl { min_secs, max_secs })
}

fn rate_limit(spec: &RuleSpec) -> Result<RateLimit, String> {
    let rps = spec.rps.ok_or("`rate-limit` needs `rps`")?;
    let burst = spec.burst.unwrap_or_else(|| rps.saturating_mul(2).min(MAX_RATE));
    if !(1..=MAX_RATE).contains(&rps) || !(1..=MAX_RATE).contains(&burst) {
        return Err(format!("`rps` and `burst` are from 1 to {MAX_RATE}"));
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
        assert_eq!(Action::of(&spec), expected.map_err(str::to_owned));
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
            Err("`rps`, `tag` have no meaning for this action; `a` is no address; `b` is no \
                 address"),
        );
        check("action = 'block'\nto = ['192.0.2.1']", Err("`to` needs `answer = \"addresses\"`"));
        check("action = 'redirect'", Err("`to` needs addresses or a name"));
        check("action = 'redirect'\nto = ['192.0.2.1', 'x']", Err("`x` is no address"));
        check("action = 'forward'", Err("`to` needs 1 to 32 servers"));
        check(
            "action = 'forward'\nto = ['home']",
            Err("`home` is neither a server such as \"192.0.2.1\", \"192.0.2.1:5353\" or \
                 \"[2001:db8::1]:5353\" nor the zone of a [[forward]] over UDP"),
        );
        check(
            "action = 'ttl'\nmin-secs = 9\nmax-secs = 8",
            Err("`min-secs` is greater than `max-secs`"),
        );
        check("action = 'rate-limit'", Err("`rate-limit` needs `rps`"));
        check("action = 'tag'", Err("`tag` needs a word of at most 64 octets"));
    }
}
