//! `[[forward]]`: the servers for each zone.

use std::collections::HashSet;
use std::mem;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use toml::Spanned;

use avocet_resolver::{Introduction, MAX_RACE, MAX_UPSTREAMS};

use super::check::Check;
use super::error::SettingError;
use super::introduction::{self, HeaderKeys, Resolving};
use super::name::{Name, ROOT, shown};
use super::recurse::Mode;
use super::setting::{FromText, List, Setting, Text, Written};
use super::spec::ForwardSpec;
use super::upstream::ServerAddress;
use super::upstream_proof::UsedTransports;
use super::{
    EcsPolicy, ForwardConfig, Strategy, Upstream, discover, named_file, upstream, upstream_proof,
};

/// The file with this machine's name servers.
const RESOLV_CONF: &str = "/etc/resolv.conf";
/// Maximum number of servers of `bootstrap`.
const MAX_BOOTSTRAP: usize = 8;
const LOOP: &str = "this server listens there itself; queries would loop";
const TIMEOUT_MIN_MS: u32 = 50;
const TIMEOUT_MAX_MS: u32 = 2_000;

/// The zone of a rule: a name, or an exception with a leading `!`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RuleZone {
    name: Name,
    exception: bool,
}

impl FromText for RuleZone {
    const EXPECTED: &'static str =
        "a name such as \".\", \"corp.example\" or \"!lab.corp.example\"";

    fn from_text(text: &str) -> Result<Self, Option<SettingError>> {
        let (written, exception) = match text.strip_prefix('!') {
            Some(rest) => (rest, true),
            None => (text, false),
        };
        let name = Name::from_text(written)?;
        if exception && *name == *ROOT {
            return Err(Some(SettingError::AllExcluded));
        }
        Ok(Self { name, exception })
    }
}

impl FromText for Strategy {
    const EXPECTED: &'static str =
        "\"ordered\", \"round-robin\", \"fastest\", or \"race 2\" to \"race 8\"";

    fn from_text(text: &str) -> Result<Self, Option<SettingError>> {
        match text {
            "ordered" => Ok(Self::Ordered),
            "round-robin" => Ok(Self::RoundRobin),
            "fastest" => Ok(Self::Fastest),
            _ => text
                .strip_prefix("race ")
                .and_then(|count| count.trim().parse().ok())
                .filter(|count| (2..=MAX_RACE).contains(count))
                .map(Self::Race)
                .ok_or(None),
        }
    }
}

impl FromText for EcsPolicy {
    const EXPECTED: &'static str = "\"strip\" or \"pass\"";
    const CHOICES: &'static [&'static str] = &["strip", "pass"];

    fn from_text(text: &str) -> Result<Self, Option<SettingError>> {
        match text {
            "strip" => Ok(Self::Strip),
            "pass" => Ok(Self::Pass),
            _ => Err(None),
        }
    }
}

/// Returns whether there is a rule for all names.
pub(super) fn forwards_all(specs: &[Spanned<ForwardSpec>]) -> bool {
    let zone = |spec: &Spanned<ForwardSpec>| match &spec.get_ref().zone.0 {
        Some(Written { value: Ok(Text(zone)), .. }) => *zone.name == *ROOT,
        _ => false,
    };
    specs.iter().any(zone)
}

/// Returns the configured rules. If names are resolved only by rules and no rule is configured,
/// returns a rule for all names with the resolvers of the system.
pub(super) fn rules(
    specs: Vec<Spanned<ForwardSpec>>,
    resolving: Resolving,
    listen: &[SocketAddr],
    check: &mut Check,
) -> Vec<ForwardConfig> {
    if specs.is_empty() && resolving.mode == Mode::Forward {
        return vec![system_rule(Path::new(RESOLV_CONF), listen, check)];
    }
    let mut zones = HashSet::new();
    let mut rules = Vec::with_capacity(specs.len());
    for spec in specs {
        let header = spec.span();
        let mut spec = spec.into_inner();
        let zone = check.need("zone", &header, mem::take(&mut spec.zone));
        let is_named = zone.is_some();
        // If the zone is not valid, the other keys are still checked.
        let (at, Text(zone)) = zone
            .unwrap_or_else(|| (header, Text(RuleZone { name: ROOT.into(), exception: false })));
        if is_named && !zones.insert(zone.name.clone()) {
            let name = shown(&zone.name);
            check.fault(at.clone(), format!("\"{name}\" already has a [[forward]]; merge them"));
        }
        let upstreams = upstreams(&zone, at, &mut spec, listen, check);
        let ecs = spec.ecs.span();
        let keys = HeaderKeys::take(&mut spec);
        let bootstrap = bootstrap(&mut spec, &upstreams, listen, check);
        let mut rule = ForwardConfig { bootstrap, ..rule(zone, upstreams, spec, check) };
        rule.introduction = introduction::read(keys, &rule, resolving, check);
        let recurses = resolving.mode == Mode::Recurse;
        if let Some(at) = ecs.filter(|_| recurses && rule.ecs == EcsPolicy::Pass) {
            let message = "recursion does not forward client subnets, because its results are for \
                           all clients; write \"strip\", or mode = \"forward\" in [resolver]";
            check.fault(at, message);
        }
        if is_named {
            rules.push(rule);
        }
    }
    rules
}

/// Returns the rule that forwards all names to this machine's name servers.
fn system_rule(path: &Path, listen: &[SocketAddr], check: &mut Check) -> ForwardConfig {
    let zone = RuleZone { name: ROOT.into(), exception: false };
    let upstreams = from_file(path, listen).unwrap_or_else(|message| {
        let advice = "write a [[forward]] with zone = \".\" and upstreams = [\"ADDRESS\"]";
        check.fault(0..0, format!("{message}; {advice}"));
        Vec::new()
    });
    rule(zone, upstreams, ForwardSpec::default(), check)
}

fn rule(
    zone: RuleZone,
    upstreams: Vec<Upstream>,
    mut spec: ForwardSpec,
    check: &mut Check,
) -> ForwardConfig {
    let discover = discover::read(mem::take(&mut spec.discover), &upstreams, check);
    let used = UsedTransports { upstreams: &upstreams, discover };
    let tls = upstream_proof::read(&mut spec, used, check);
    let https_method = upstream_proof::https_method(&mut spec, used, check);
    let h3 = upstream_proof::h3(&mut spec, used, check);
    let max_span = spec.timeout_max_ms.span();
    let min_span = spec.timeout_min_ms.span();
    let min = check.take(spec.timeout_min_ms).map_or(TIMEOUT_MIN_MS, |ms| ms.0);
    let max = check.take(spec.timeout_max_ms).map_or(TIMEOUT_MAX_MS, |ms| ms.0);
    if let Some(at) = max_span.or(min_span).filter(|_| min > max) {
        check.fault(at, format!("timeout-min-ms ({min}) is above timeout-max-ms ({max})"));
    }
    ForwardConfig {
        zone: zone.name,
        exception: zone.exception,
        upstreams,
        strategy: check.take(spec.strategy).map_or(Strategy::Fastest, |text| text.0),
        case_randomisation: check.take(spec.case_randomisation).unwrap_or(true),
        ecs: check.take(spec.ecs).map_or(EcsPolicy::Strip, |text| text.0),
        introduction: Introduction::None,
        timeout_min: Duration::from_millis(min.into()),
        timeout_max: Duration::from_millis(max.into()),
        tls,
        https_method,
        h3,
        discover,
        bootstrap: Vec::new(),
    }
}

/// Returns the servers of the rule with its zone at `at`.
fn upstreams(
    zone: &RuleZone,
    at: Range<usize>,
    spec: &mut ForwardSpec,
    listen: &[SocketAddr],
    check: &mut Check,
) -> Vec<Upstream> {
    match (spec.upstreams.0.take(), spec.resolv_conf.0.take()) {
        (Some(Written { span, .. }), _) | (_, Some(Written { span, .. })) if zone.exception => {
            check.fault(span, "an exception (`!`) has no servers; remove them");
            Vec::new()
        }
        (None, None) if zone.exception => Vec::new(),
        (None, None) => {
            check
                .fault(at, "the rule has no servers; add upstreams = [\"ADDRESS\"] or resolv-conf");
            Vec::new()
        }
        (Some(list), Some(file)) => {
            check.fault(file.span, "upstreams and resolv-conf exclude each other; remove one");
            written(list, (listen, &spec.bootstrap), check)
        }
        (Some(list), None) => written(list, (listen, &spec.bootstrap), check),
        (None, Some(file)) => {
            let span = file.span.clone();
            let path = check.take(Setting(Some(file))).unwrap_or_default();
            from_file(&check.path(path), listen).unwrap_or_else(|message| {
                check.fault(span, message);
                Vec::new()
            })
        }
    }
}

fn written(
    list: Written<List<Text<Upstream>>>,
    (listen, bootstrap): (&[SocketAddr], &Setting<List<Text<ServerAddress>>>),
    check: &mut Check,
) -> Vec<Upstream> {
    let has_bootstrap = bootstrap.span().is_some();
    let span = list.span.clone();
    let Some(List(items)) = check.take(Setting(Some(list))) else {
        return Vec::new();
    };
    if items.is_empty() || items.len() > MAX_UPSTREAMS {
        check.fault(span, format!("expected 1 to {MAX_UPSTREAMS} servers, found {}", items.len()));
    }
    let mut servers = Vec::with_capacity(items.len());
    for item in items {
        let at = item.span();
        let Text(server) = item.into_inner();
        let own = server.addr.filter(|addr| upstream::is_own(*addr, listen));
        if let Some(own) = own {
            check.fault(at, format!("{own}: {LOOP}"));
        } else if servers.contains(&server) {
            check.fault(at, format!("duplicate server {}", server.host()));
        } else if server.addr.is_none() && !has_bootstrap {
            let name = server.name.as_deref().unwrap_or_default();
            check.fault(at, SettingError::NoAddressOfName(name.to_owned()));
        } else {
            servers.push(server);
        }
    }
    servers
}

/// Returns the servers of `bootstrap`: they know the addresses of the servers of a rule that have
/// only a name.
fn bootstrap(
    spec: &mut ForwardSpec,
    upstreams: &[Upstream],
    listen: &[SocketAddr],
    check: &mut Check,
) -> Vec<SocketAddr> {
    let at = spec.bootstrap.span();
    let items = check.take(mem::take(&mut spec.bootstrap)).map_or_else(Vec::new, |list| list.0);
    if let Some(at) = at.clone().filter(|_| items.len() > MAX_BOOTSTRAP) {
        check.fault(at, format!("more than {MAX_BOOTSTRAP} servers"));
    } else if let Some(at) = at.filter(|_| !items.is_empty())
        && upstreams.iter().all(|one| one.addr.is_some())
    {
        check.doubt(at, "`bootstrap` has no effect: all servers of the rule have addresses");
    }
    let mut servers = Vec::new();
    for item in items {
        let at = item.span();
        let Text(ServerAddress(addr)) = item.into_inner();
        match upstream::is_own(addr, listen) {
            true => check.fault(at, format!("{addr}: {LOOP}")),
            false => servers.push(addr),
        }
    }
    servers
}

/// Returns the servers in a `resolv.conf`, without this server itself.
fn from_file(path: &Path, listen: &[SocketAddr]) -> Result<Vec<Upstream>, SettingError> {
    let text = named_file::read(path)?;
    let mut servers = Vec::new();
    for server in upstream::from_resolv_conf(&text) {
        let is_own = server.addr.is_some_and(|addr| upstream::is_own(addr, listen));
        if !is_own && !servers.contains(&server) {
            servers.push(server);
        }
    }
    if servers.is_empty() {
        return Err(SettingError::NoOtherServer(path.to_owned()));
    }
    servers.truncate(MAX_UPSTREAMS);
    Ok(servers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_rules_the_servers_of_the_machine_are_needed() {
        let mut check = Check::default();
        let rule = system_rule(Path::new("/nonexistent/resolv.conf"), &[], &mut check);
        assert_eq!((&*rule.zone, rule.exception), (ROOT, false));
        let faults = check.finish().1.err().unwrap_or_default();
        assert_eq!(faults.len(), 1);
        let message = &faults[0].message;
        assert!(message.starts_with("/nonexistent/resolv.conf cannot be read: "), "{message}");
        assert!(
            message
                .ends_with("write a [[forward]] with zone = \".\" and upstreams = [\"ADDRESS\"]")
        );
    }
}
