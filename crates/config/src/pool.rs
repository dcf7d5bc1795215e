//! `[[pool]]`: names with addresses that depend on the health of their hosts.

use std::net::IpAddr;
use std::ops::Range;

use avocet_wire::Rtype;
use avocet_zone::pool::{
    MAX_POOL_ADDRESSES, MemberPlace, PlaceNetwork, PoolMember, PoolMode, PoolRule, WhenAllDown,
};
use ipnet::IpNet;
use toml::{Spanned, Table, Value};

use super::RecordConfig;
use super::check::Check;
use super::error::{ChoiceAdvice, PoolItemFault, SettingError};
use super::known;
use super::name::shown as shown_name;
use super::policy::PolicyConfig;
use super::pool_probe::{self, ProbeAddress, ProbeConfig};
use super::pool_spec::PoolSpec;
use super::setting::{FromText, List, Setting, Text};

/// Seconds for which clients keep an answer: they follow a change of health about as fast as
/// probes find it.
const TTL_SECS: u32 = 30;
/// Maximum number of addresses of an answer by default.
const ANSWERS: u8 = 4;

/// `[[pool]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolConfig {
    /// The name, in lower case and wire form.
    pub name: Box<[u8]>,
    /// The TTL of the records.
    pub ttl_secs: u32,
    /// The addresses, and the rule that chooses the addresses of an answer.
    pub rule: PoolRule,
    /// The probe addresses, in the order of the addresses; `None` to probe the address itself.
    pub probed_at: Vec<Option<ProbeAddress>>,
    /// The probe of the addresses.
    pub probe: ProbeConfig,
    /// The items of `addresses` as written.
    written: Vec<String>,
}

/// An item of `addresses`: `ADDRESS [weight N] [probe ADDRESS[:PORT]] [near PLACE[,PLACE]]`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PoolItem {
    member: PoolMember,
    probed_at: Option<ProbeAddress>,
    written: String,
}

impl FromText for PoolItem {
    const EXPECTED: &'static str = "an address such as \"192.0.2.1\", with options such as \
                                    \"192.0.2.1 weight 3 probe 10.0.0.1:8080 near country:DE\"";

    fn from_text(text: &str) -> Result<Self, Option<SettingError>> {
        let fault = |fault| Some(SettingError::PoolItem { text: text.to_owned(), fault });
        let mut words = text.split_whitespace();
        let address = words.next().and_then(|word| word.parse::<IpAddr>().ok());
        let address = address.ok_or_else(|| fault(PoolItemFault::Address))?;
        let (mut weight, mut probed_at, mut places) = (None, None, None);
        while let Some(word) = words.next() {
            let value = words.next().unwrap_or_default();
            let owned = || value.to_owned();
            let is_twice = match word {
                "weight" => {
                    let number = value.parse::<u16>().ok();
                    let number = number.ok_or_else(|| fault(PoolItemFault::Weight(owned())))?;
                    weight.replace(u32::from(number)).is_some()
                }
                "probe" => {
                    let at = ProbeAddress::read(value);
                    probed_at
                        .replace(at.ok_or_else(|| fault(PoolItemFault::Probe(owned())))?)
                        .is_some()
                }
                "near" => {
                    let read = value.split(',').map(place).collect::<Option<Vec<_>>>();
                    places
                        .replace(read.ok_or_else(|| fault(PoolItemFault::Place(owned())))?)
                        .is_some()
                }
                _ => return Err(fault(PoolItemFault::Word(word.to_owned()))),
            };
            if is_twice {
                return Err(fault(PoolItemFault::Twice(word.to_owned())));
            }
        }
        let (weight, places) = (weight.unwrap_or(1), places.unwrap_or_default());
        let written = text.split_whitespace().collect::<Vec<_>>().join(" ");
        Ok(Self { member: PoolMember { address, weight, places }, probed_at, written })
    }
}

/// Reads a place: a network, `country:DE` or `continent:EU`.
fn place(text: &str) -> Option<MemberPlace> {
    let code = |text: &str| {
        let code: [u8; 2] = text.as_bytes().try_into().ok()?;
        code.iter()
            .all(u8::is_ascii_alphabetic)
            .then(|| code.map(|letter| letter.to_ascii_uppercase()))
    };
    if let Some(country) = text.strip_prefix("country:") {
        let is_known = |code: &[u8; 2]| avocet_zone::pool::continent_of(*code).is_some();
        return code(country).filter(is_known).map(MemberPlace::Country);
    }
    if let Some(continent) = text.strip_prefix("continent:") {
        let known = avocet_zone::pool::CONTINENTS;
        let is_known = |code: &[u8; 2]| known.iter().any(|(continent, _)| continent == code);
        return code(continent).filter(is_known).map(MemberPlace::Continent);
    }
    let network = IpNet::from_text(text).ok()?;
    Some(MemberPlace::Network(PlaceNetwork::new(network.addr(), network.prefix_len())))
}

/// A mode, without the number of addresses in an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ModeWord {
    All,
    First,
    Weighted,
    Rotate,
    Consistent,
    Nearest,
}

impl FromText for ModeWord {
    const EXPECTED: &'static str = "a mode: \"all\", \"first\", \"weighted\", \"rotate\", \
                                    \"consistent\" or \"nearest\"";
    const CHOICES: &'static [&'static str] =
        &["all", "first", "weighted", "rotate", "consistent", "nearest"];

    fn from_text(text: &str) -> Result<Self, Option<SettingError>> {
        Ok(match text {
            "all" => Self::All,
            "first" => Self::First,
            "weighted" => Self::Weighted,
            "rotate" => Self::Rotate,
            "consistent" => Self::Consistent,
            "nearest" => Self::Nearest,
            _ => return Err(Some(not_one_of("a mode", text, Self::CHOICES))),
        })
    }
}

/// The contents of an answer if no address is healthy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AllDownWord(WhenAllDown);

impl FromText for AllDownWord {
    const EXPECTED: &'static str = "\"all\", \"none\" or \"fallback\"";
    const CHOICES: &'static [&'static str] = &["all", "none", "fallback"];

    fn from_text(text: &str) -> Result<Self, Option<SettingError>> {
        Ok(Self(match text {
            "all" => WhenAllDown::All,
            "none" => WhenAllDown::None,
            "fallback" => WhenAllDown::Fallback,
            _ => return Err(Some(not_one_of("a value of when-all-down", text, Self::CHOICES))),
        }))
    }
}

/// Returns the error for a word that a key does not take.
pub(super) fn not_one_of(
    what: &'static str,
    found: &str,
    choices: &'static [&'static str],
) -> SettingError {
    let near = known::nearest(found, choices.iter().copied());
    let near = near.and_then(|near| choices.iter().find(|choice| **choice == near));
    let advice = near.map_or(ChoiceAdvice::Known(choices), |near| ChoiceAdvice::Similar(near));
    SettingError::Choice { found: found.to_owned(), what, advice }
}

/// Validates the tables. Each name occurs once, and has no addresses of `[[record]]`.
pub(super) fn pools(
    specs: Vec<Spanned<PoolSpec>>,
    (records, policy): (&[RecordConfig], &mut PolicyConfig),
    check: &mut Check,
) -> Vec<PoolConfig> {
    let mut pools: Vec<PoolConfig> = Vec::new();
    for spec in specs {
        let header = spec.span();
        let Some((at, pool)) = pool(&header, spec.into_inner(), check) else { continue };
        let is_addresses = |rtype| matches!(rtype, Rtype::A | Rtype::AAAA | Rtype::CNAME);
        let other_record =
            records.iter().find(|record| record.name == pool.name && is_addresses(record.rtype));
        let name = shown_name(&pool.name);
        if pool.name.starts_with(b"\x01*") {
            check.fault(at, "a pool cannot be a wildcard; alias the names to it");
        } else if pools.iter().any(|other| other.name == pool.name) {
            check.fault(at, format!("the pool {name} has another table"));
        } else if let Some(record) = other_record {
            check.fault(at, format!("{name} has {} records in [[record]]", record.rtype));
        } else {
            locate_clients(&pool, &at, policy, check);
            pools.push(pool);
        }
    }
    pools
}

/// Requests the geo database if a pool chooses by country. Without a database, no client is near to
/// a country.
fn locate_clients(
    pool: &PoolConfig,
    at: &Range<usize>,
    policy: &mut PolicyConfig,
    check: &mut Check,
) {
    let is_located = |place: &MemberPlace| !matches!(place, MemberPlace::Network(_));
    let is_nearest = matches!(pool.rule.mode, PoolMode::Nearest(_));
    if !is_nearest || !pool.rule.members.iter().any(|one| one.places.iter().any(is_located)) {
        return;
    }
    policy.locates_clients = true;
    if policy.geo_database.is_none() {
        let message = "no client is near to a country or continent without [policy] geo-database";
        check.doubt(at.clone(), message);
    }
}

fn pool(
    header: &Range<usize>,
    mut spec: PoolSpec,
    check: &mut Check,
) -> Option<(Range<usize>, PoolConfig)> {
    let name = check.need("name", header, std::mem::take(&mut spec.name));
    let addresses = check.need("addresses", header, std::mem::take(&mut spec.addresses));
    let ttl_secs = check.take(std::mem::take(&mut spec.ttl_secs)).map_or(TTL_SECS, |secs| secs.0);
    let mode = mode(&mut spec, check);
    let (when_all_down, fallback) = all_down(&mut spec, check);
    let (at, Text(name)) = name?;
    let (addresses_at, List(items)) = addresses?;
    let items = different(items, addresses_at, check);
    let probe = pool_probe::probe(header, spec, &name, check)?;
    let needs_port = probe.kind.port().is_none_with_port();
    if needs_port && items.iter().any(|item| item.probed_at.is_none_or(|at| at.port.is_none())) {
        let kind = probe.kind.name();
        check.fault(header.clone(), format!("`port` is missing: the probe \"{kind}\" needs one"));
        return None;
    }
    let rule = PoolRule {
        members: items.iter().map(|item| item.member.clone()).collect(),
        mode,
        when_all_down,
        fallback,
    };
    let probed_at = items.iter().map(|item| item.probed_at).collect();
    let written = items.into_iter().map(|item| item.written).collect();
    Some((at, PoolConfig { name, ttl_secs, rule, probed_at, probe, written }))
}

fn mode(spec: &mut PoolSpec, check: &mut Check) -> PoolMode {
    let word = check.take(std::mem::take(&mut spec.mode)).map_or(ModeWord::All, |word| word.0);
    let at = spec.answers.span();
    let answers = check.take(std::mem::take(&mut spec.answers)).map(|number| number.0 as u8);
    let most = answers.unwrap_or(ANSWERS);
    match word {
        ModeWord::All | ModeWord::First => {
            if let Some(at) = at {
                check.doubt(at, "`answers` has no effect with this mode");
            }
            if word == ModeWord::All { PoolMode::All } else { PoolMode::First }
        }
        ModeWord::Weighted => PoolMode::Weighted(answers.unwrap_or(1)),
        ModeWord::Rotate => PoolMode::Rotate(most),
        ModeWord::Consistent => PoolMode::Consistent(answers.unwrap_or(1)),
        ModeWord::Nearest => PoolMode::Nearest(most),
    }
}

fn all_down(spec: &mut PoolSpec, check: &mut Check) -> (WhenAllDown, Vec<IpAddr>) {
    let at = spec.when_all_down.span();
    let word = check.take(std::mem::take(&mut spec.when_all_down));
    let when_all_down = word.map_or(WhenAllDown::All, |Text(AllDownWord(word))| word);
    let fallback_at = spec.fallback.span();
    let fallback = check.take(std::mem::take(&mut spec.fallback));
    let fallback = fallback.map_or_else(Vec::new, |list| list.0);
    let fallback: Vec<_> = fallback.into_iter().map(|item| item.into_inner().0).collect();
    match (when_all_down == WhenAllDown::Fallback, fallback_at, at) {
        (true, _, Some(at)) if fallback.is_empty() => {
            check.fault(at, "`fallback` is missing: the addresses of answers if none is healthy");
        }
        (_, Some(at), _) if fallback.len() > MAX_POOL_ADDRESSES => {
            check.fault(at, format!("expected at most {MAX_POOL_ADDRESSES} addresses"));
        }
        (false, Some(at), _) if !fallback.is_empty() => {
            check.doubt(at, "`fallback` has no effect without when-all-down = \"fallback\"");
        }
        _ => {}
    }
    (when_all_down, fallback)
}

fn different(
    items: Vec<Spanned<Text<PoolItem>>>,
    at: Range<usize>,
    check: &mut Check,
) -> Vec<PoolItem> {
    if items.is_empty() {
        check.fault(at, "expected at least one address, found none");
    } else if items.len() > MAX_POOL_ADDRESSES {
        check.fault(at, format!("expected at most {MAX_POOL_ADDRESSES} addresses"));
    }
    let mut kept: Vec<PoolItem> = Vec::with_capacity(items.len());
    for item in items {
        let (at, Text(item)) = (item.span(), item.into_inner());
        let address = item.member.address;
        if kept.iter().any(|other| other.member.address == address) {
            check.fault(at, format!("duplicate address {address}"));
        } else {
            kept.push(item);
        }
    }
    kept
}

/// Returns a table in the syntax of the configuration file.
pub(super) fn shown(pool: &PoolConfig) -> Value {
    let (mode, answers) = match pool.rule.mode {
        PoolMode::All => ("all", None),
        PoolMode::First => ("first", None),
        PoolMode::Weighted(most) => ("weighted", Some(most)),
        PoolMode::Rotate(most) => ("rotate", Some(most)),
        PoolMode::Consistent(most) => ("consistent", Some(most)),
        PoolMode::Nearest(most) => ("nearest", Some(most)),
    };
    let when_all_down = match pool.rule.when_all_down {
        WhenAllDown::All => "all",
        WhenAllDown::None => "none",
        WhenAllDown::Fallback => "fallback",
    };
    let texts = |texts: Vec<String>| Value::Array(texts.into_iter().map(Value::from).collect());
    let fallback = pool.rule.fallback.iter().map(ToString::to_string).collect();
    let mut table = Table::new();
    let mut put = |key: &str, value: Value| {
        table.insert(key.to_owned(), value);
    };
    put("name", shown_name(&pool.name).into());
    put("addresses", texts(pool.written.clone()));
    put("ttl-secs", i64::from(pool.ttl_secs).into());
    put("mode", mode.into());
    if let Some(answers) = answers {
        put("answers", i64::from(answers).into());
    }
    put("when-all-down", when_all_down.into());
    put("fallback", texts(fallback));
    pool_probe::shown(&pool.probe, &mut put);
    table.into()
}

/// Takes the value of a key and leaves the setting unset. Returns `None` if it has no valid value.
pub(super) fn take<T>(setting: &mut Setting<T>, check: &mut Check) -> Option<T> {
    check.take(std::mem::take(setting))
}
