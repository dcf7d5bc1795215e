//! Compares the query path with a simple model of the policy, written from the manual.
//!
//! Each seed gives a configuration of lists, rules, a policy zone, groups and schedules, and a
//! sequence of queries of two clients over UDP and TCP, for names that are cached and for names
//! that are resolved while the client waits. `AVOCET_POLICY_SEEDS` sets the number of seeds.

use crate::asked;
use crate::choices;
mod rule;

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;

use avocet_nameserver::{InProcess, MeantFor};
use avocet_policy::rule::{Grant, Pause, Scope, Switches};
use avocet_wire::Rtype;

use asked::{Over, ask_over, shown, wire};
use choices::{Choices, GARDEN, OWN, ZoneAction};
use rule::{Action, Rule, Test};

/// The default number of seeds.
const SEEDS: u64 = 150;
/// Queries per seed.
const QUERIES: u64 = 40;
/// 2026-11-21, a Saturday, 20:59 in UTC, a minute before schedules begin.
const START: u64 = 1_795_294_740;
/// The time at which schedules begin.
const NINE: u64 = START + 60;
const ALIAS: &str = "alias.example";
const HINT: &str = "hint.example";
/// An alias of [`LINK`], which is an alias too.
const CHAIN: &str = "chain.example";
const LINK: &str = "link.example";
/// A name with two services at other names.
const SERVICES: &str = "services.example";
/// Names with one address each, to which lists, zones and rules refer. The last one belongs to a
/// known service.
const NAMES: [&str; 5] = ["a.example", "x.a.example", "b.example", "c.example", "youtu.be"];
const ADDRESSES: [[u8; 4]; 3] = [[192, 0, 2, 1], [198, 51, 100, 1], [192, 168, 1, 1]];
/// The networks of the addresses, and their triggers in a policy zone.
const NETWORKS: [(&str, &str); 3] = [
    ("192.0.2.0/24", "24.0.2.0.192.rpz-ip"),
    ("198.51.100.0/24", "24.0.100.51.198.rpz-ip"),
    ("192.168.1.0/24", "24.0.1.168.192.rpz-ip"),
];
const CLIENTS: [[u8; 4]; 2] = [[10, 0, 0, 1], [10, 0, 0, 2]];
const KID: usize = 1;

/// Two lists of names, and the policy zone, which comes first or last.
const LISTS: [&str; 3] = ["first", "second", "zone"];
const ZONE: usize = 2;

/// A configuration, and the data of the network.
#[derive(Debug)]
struct Setting {
    rules: Vec<Rule>,
    blocked: [Vec<&'static str>; 2],
    allowed: [Vec<&'static str>; 2],
    zone_is_first: bool,
    zone_names: Vec<(&'static str, ZoneAction)>,
    zone_networks: Vec<(usize, ZoneAction)>,
    /// The lists in force: first for other clients, then for kids.
    in_force: [Vec<usize>; 2],
    blocks_private: bool,
    /// The address of each name.
    addresses: [usize; NAMES.len()],
    target: usize,
    service: usize,
    hint: usize,
}

impl Setting {
    fn any(choices: &mut Choices) -> Self {
        let some = |choices: &mut Choices, all: &[&'static str], rarity| {
            all.iter().copied().filter(|_| choices.one_in(rarity)).collect::<Vec<_>>()
        };
        let listed = [NAMES[0], NAMES[1], NAMES[2], NAMES[3], NAMES[4], OWN, HINT, ALIAS, LINK];
        let allowed = [NAMES[0], NAMES[1], NAMES[2], NAMES[3], ALIAS, LINK, CHAIN];
        let zone_names = some(choices, &listed, 6)
            .into_iter()
            .map(|name| (name, ZoneAction::any(choices)))
            .collect();
        let networks: Vec<usize> = (0..NETWORKS.len()).filter(|_| choices.one_in(6)).collect();
        let lists =
            |choices: &mut Choices| (0..LISTS.len()).filter(|_| !choices.one_in(4)).collect();
        Self {
            rules: rules(choices),
            blocked: [some(choices, &listed, 4), some(choices, &listed, 6)],
            allowed: [some(choices, &allowed, 10), some(choices, &allowed, 12)],
            zone_is_first: choices.one_in(2),
            zone_names,
            zone_networks: networks
                .into_iter()
                .map(|network| (network, ZoneAction::any(choices)))
                .collect(),
            in_force: [lists(choices), lists(choices)],
            blocks_private: choices.one_in(2),
            addresses: std::array::from_fn(|_| choices.below(ADDRESSES.len())),
            target: choices.below(NAMES.len()),
            service: choices.below(NAMES.len()),
            hint: choices.below(ADDRESSES.len()),
        }
    }

    fn configuration(&self, directory: &std::path::Path) -> String {
        let mut text = format!(
            "[resolver]\nmode = \"forward\"\n[[forward]]\nzone = \".\"\nupstreams = [\"192.0.2.53\"]\n\
             [cache]\npacket-bytes = \"1MiB\"\nrrset-bytes = \"1MiB\"\n[policy]\nblock-private = {}\n\
             [[record]]\nname = \"{OWN}\"\ntype = \"A\"\nvalues = [\"10.1.1.1\"]\n",
            self.blocks_private
        );
        for (name, place) in [("default", 0), ("kids", KID)] {
            let lists: Vec<&str> = self.in_force[place].iter().map(|list| LISTS[*list]).collect();
            writeln!(text, "[[group]]\nname = \"{name}\"\nlists = {lists:?}").unwrap();
            if place == KID {
                text.push_str("clients = [\"10.0.0.2\"]\n");
            }
        }
        let order = if self.zone_is_first { [ZONE, 0, 1] } else { [0, 1, ZONE] };
        for list in order {
            let file = directory.join(LISTS[list]);
            std::fs::write(&file, self.list_text(list)).unwrap();
            let format = if list == ZONE { "rpz" } else { "adblock" };
            let (name, file) = (LISTS[list], file.display());
            writeln!(text, "[[list]]\nname = \"{name}\"\nfile = \"{file}\"\nformat = \"{format}\"")
                .unwrap();
        }
        self.rules.iter().enumerate().for_each(|(place, rule)| text.push_str(&rule.text(place)));
        text
    }

    fn list_text(&self, list: usize) -> String {
        if list == ZONE {
            let mut text = "$TTL 40\n@ SOA rpz.example. nobody.example. 1 2 3 4 5\n".to_owned();
            for (name, action) in &self.zone_names {
                let action = action.text();
                writeln!(text, "{name} CNAME {action}\n*.{name} CNAME {action}").unwrap();
            }
            for (network, action) in &self.zone_networks {
                writeln!(text, "{} CNAME {}", NETWORKS[*network].1, action.text()).unwrap();
            }
            return text;
        }
        let blocked = self.blocked[list].iter().map(|name| format!("||{name}^\n"));
        let allowed = self.allowed[list].iter().map(|name| format!("@@||{name}^\n"));
        // A list needs at least one line.
        blocked.chain(allowed).chain(["||nobody.invalid^\n".to_owned()]).collect()
    }

    fn learn(&self, server: &InProcess, name: &str, base: &str) {
        let owner = wire(&format!("{name}."));
        let learn = |rtype: Rtype, data: &[u8]| server.learn(&owner, rtype.0, 86_400, &[data]);
        let target = |name: &str| wire(&format!("{name}."));
        match base {
            ALIAS | LINK => learn(Rtype::CNAME, &target(NAMES[self.target])),
            CHAIN => learn(Rtype::CNAME, &target(LINK)),
            SERVICES => {
                let [first, second] = [self.target, self.service].map(|place| target(NAMES[place]));
                let hint = [&b"\x00\x04\x00\x04"[..], &ADDRESSES[self.hint]].concat();
                let record =
                    |(place, name): (u8, Vec<u8>)| [&[0, place][..], &name, &hint].concat();
                let [first, second] = [(1, first), (2, second)].map(record);
                server.learn(&owner, Rtype::HTTPS.0, 86_400, &[&first, &second]);
            }
            HINT => learn(
                Rtype::HTTPS,
                &[&b"\x00\x01\x00\x00\x04\x00\x04"[..], &ADDRESSES[self.hint]].concat(),
            ),
            GARDEN => {
                learn(Rtype::A, &[203, 0, 113, 6]);
                learn(Rtype::HTTPS, b"\x00\x02\x00");
            }
            _ => {
                let place = NAMES.iter().position(|known| *known == base).unwrap();
                learn(Rtype::A, &ADDRESSES[self.addresses[place]]);
            }
        }
    }
}

/// A query in the model. Its name is the one with the data, or a subdomain.
#[derive(Clone, Copy, Debug)]
struct Query {
    client: usize,
    over: Over,
    name: &'static str,
    rtype: Rtype,
    now: u64,
}

fn rtype_of(name: &str) -> Rtype {
    if [HINT, SERVICES].contains(&name) { Rtype::HTTPS } else { Rtype::A }
}

fn is_under(name: &str, above: &str) -> bool {
    name == above || name.strip_suffix(above).is_some_and(|rest| rest.ends_with('.'))
}

/// Returns the rules. After a rule on answers there is no limit, because it would apply only to
/// queries without a cached answer.
fn rules(choices: &mut Choices) -> Vec<Rule> {
    let mut rules: Vec<Rule> = (0..choices.below(6)).map(|_| Rule::any(choices)).collect();
    let may_wait =
        |rule: &Rule| rule.action.decides() && (rule.reads_answer() || rule.looks_behind());
    if let Some(first) = rules.iter().position(may_wait) {
        let limits =
            rules[first..].iter_mut().filter(|rule| matches!(rule.action, Action::Limit(_)));
        limits.for_each(|rule| rule.action = Action::Tag);
    }
    rules
}

/// The properties of the answer: its aliases and its end.
struct Truth {
    aliases: Vec<&'static str>,
    services: Vec<&'static str>,
    address: usize,
}

impl Truth {
    fn names(&self) -> impl Iterator<Item = &'static str> {
        self.aliases.iter().chain(&self.services).copied()
    }
}

/// The treatment of queries according to the manual.
struct Model<'s> {
    setting: &'s Setting,
    pause_until: u64,
    grant: (&'static str, u64),
    /// When each rule's only token was last taken.
    taken: Vec<Option<u64>>,
}

impl Model<'_> {
    fn answer(&mut self, query: &Query) -> String {
        let is_lifted = self.is_lifted(query);
        let end = self.setting.rules.len();
        let (noted, decided) = self.rules(query, None, is_lifted, end);
        for place in noted {
            if let Some(answer) = self.limit(query, place) {
                return answer;
            }
        }
        if let Some(answer) = decided.and_then(|place| self.by_rule(query, place)) {
            return answer;
        }
        if decided.is_none()
            && !is_lifted
            && query.name != OWN
            && let Some(answer) = self.by_lists_on_question(query)
        {
            return answer;
        }
        if query.name == OWN {
            return "NOERROR 10.1.1.1".to_owned();
        }
        let truth = self.truth(query);
        let (_, later) = self.rules(query, Some(&truth), is_lifted, decided.unwrap_or(end));
        if let Some(answer) = later.and_then(|place| self.by_rule(query, place)) {
            return answer;
        }
        if later.is_none() && decided.is_none() {
            if !is_lifted && let Some(answer) = self.by_lists_on_answer(query, &truth) {
                return answer;
            }
            if self.setting.blocks_private
                && ADDRESSES[truth.address][0] == 192
                && ADDRESSES[truth.address][1] == 168
            {
                return "NOERROR [private]".to_owned();
            }
        }
        self.true_answer(query, &truth)
    }

    fn is_lifted(&self, query: &Query) -> bool {
        query.now < self.pause_until
            || (query.now < self.grant.1 && is_under(query.name, self.grant.0))
    }

    /// The names in the answer that no rule would allow if they were queried.
    fn judged(&self, query: &Query, truth: &Truth) -> Vec<&'static str> {
        let is_free = |name| {
            let query = Query { name, ..*query };
            let (_, decided) =
                self.rules(&query, None, self.is_lifted(&query), self.setting.rules.len());
            decided.is_some_and(|place| self.setting.rules[place].action == Action::Allow)
        };
        truth.names().filter(|name| !is_free(*name)).collect()
    }

    fn truth(&self, query: &Query) -> Truth {
        let Setting { target, service, hint, addresses, .. } = self.setting;
        let (target, service) = (NAMES[*target], NAMES[*service]);
        let at = |name| addresses[NAMES.iter().position(|known| *known == name).unwrap()];
        let (aliases, services, address) = match query.name {
            ALIAS => (vec![target], vec![], at(target)),
            CHAIN => (vec![LINK, target], vec![], at(target)),
            HINT => (vec![], vec![], *hint),
            SERVICES => (vec![], vec![target, service], *hint),
            name => (vec![], vec![], at(name)),
        };
        Truth { aliases, services, address }
    }

    fn true_answer(&self, query: &Query, truth: &Truth) -> String {
        let [a, b, c, d] = ADDRESSES[truth.address];
        let aliases: String = truth.aliases.iter().map(|alias| format!(" {alias}.")).collect();
        match query.name {
            HINT => format!("NOERROR . ipv4hint={a}.{b}.{c}.{d}"),
            SERVICES => {
                let service = |name: &&str| format!(" {name}. ipv4hint={a}.{b}.{c}.{d}");
                format!("NOERROR{}", truth.services.iter().map(service).collect::<String>())
            }
            _ => format!("NOERROR{aliases} {a}.{b}.{c}.{d}"),
        }
    }

    /// The matching rules before the deciding one, which is before `end`.
    fn rules(
        &self,
        query: &Query,
        truth: Option<&Truth>,
        is_lifted: bool,
        end: usize,
    ) -> (Vec<usize>, Option<usize>) {
        let mut noted = Vec::new();
        for (place, rule) in self.setting.rules.iter().enumerate().take(end) {
            let is_asked = match truth {
                None => !rule.reads_answer(),
                Some(_) => rule.reads_answer() || rule.looks_behind(),
            };
            let behind: Vec<&str> = truth
                .filter(|_| rule.looks_behind())
                .map_or_else(Vec::new, |truth| self.judged(query, truth));
            let holds = |test| match test {
                Test::OnList(list) => {
                    behind.iter().chain([&query.name]).any(|name| self.is_on(list, name))
                }
                Test::OfService => {
                    behind.iter().chain([&query.name]).any(|name| is_under(name, NAMES[4]))
                }
                test => self.holds(test, query, truth),
            };
            let holds = rule.tests.iter().all(|(test, is_negated)| holds(*test) != *is_negated);
            let is_void = (rule.action == Action::Truncate && query.over == Over::Tcp)
                || (is_lifted
                    && !rule.log_only
                    && matches!(rule.action, Action::Block | Action::Drop));
            if !is_asked || !holds || is_void {
                continue;
            }
            if rule.log_only || !rule.action.decides() {
                noted.push(place);
            } else {
                return (noted, Some(place));
            }
        }
        (noted, None)
    }

    fn holds(&self, test: Test, query: &Query, truth: Option<&Truth>) -> bool {
        match test {
            Test::Always => true,
            Test::Under(name) => is_under(query.name, name),
            Test::OnList(_) | Test::OfService => unreachable!("these are about several names"),
            Test::Kids => query.client == KID,
            Test::OverTcp => query.over == Over::Tcp,
            Test::IsAddress => query.rtype == Rtype::A,
            Test::AtNight => (NINE..NINE + 3600).contains(&query.now),
            Test::AnswerIn(network) => truth.is_some_and(|truth| truth.address == network),
            Test::AliasUnder(above) => {
                truth.is_some_and(|truth| truth.names().any(|name| is_under(name, above)))
            }
        }
    }

    fn is_on(&self, list: usize, name: &str) -> bool {
        match list {
            ZONE => self.zone_action(name).is_some_and(|action| action != ZoneAction::Passthru),
            list => self.setting.blocked[list].iter().any(|above| is_under(name, above)),
        }
    }

    /// The trigger for the closest name.
    fn zone_action(&self, name: &str) -> Option<ZoneAction> {
        let above = self.setting.zone_names.iter().filter(|(above, _)| is_under(name, above));
        let (above, action) = above.max_by_key(|(above, _)| above.len())?;
        // An alias of a name to itself is the old form of `rpz-passthru`.
        Some(if *action == ZoneAction::To(above) { ZoneAction::Passthru } else { *action })
    }

    fn limit(&mut self, query: &Query, place: usize) -> Option<String> {
        let rule = &self.setting.rules[place];
        let Action::Limit(over) = rule.action else { return None };
        if rule.log_only {
            return None;
        }
        if self.taken[place].is_none_or(|taken| query.now > taken) {
            self.taken[place] = Some(query.now);
            return None;
        }
        match over {
            "refuse" => Some(format!("REFUSED [rule r{place}]")),
            "drop" => Some("nothing".to_owned()),
            _ => (query.over == Over::Udp).then(|| "truncated".to_owned()),
        }
    }

    fn by_rule(&self, query: &Query, place: usize) -> Option<String> {
        let is_address = query.rtype == Rtype::A;
        match self.setting.rules[place].action {
            Action::Block => Some(format!("NXDOMAIN [rule r{place}]")),
            Action::ToAddress if is_address => Some(format!("NOERROR 203.0.113.5 [rule r{place}]")),
            Action::ToAddress => Some(format!("NOERROR [rule r{place}]")),
            // A name with itself as the target is resolved normally.
            Action::To(target) => (target != query.name)
                .then(|| format!("{} [rule r{place}]", redirected(query, "", target))),
            Action::Drop => Some("nothing".to_owned()),
            Action::Truncate => Some("truncated".to_owned()),
            Action::Allow | Action::Ttl | Action::Tag | Action::Limit(_) => None,
        }
    }

    fn is_in_force(&self, query: &Query, list: usize) -> bool {
        self.setting.in_force[query.client].contains(&list)
    }

    fn is_allowed(&self, query: &Query, name: &str) -> bool {
        (0..2).any(|list| {
            self.is_in_force(query, list)
                && self.setting.allowed[list].iter().any(|above| is_under(name, above))
        })
    }

    fn is_blocked(&self, query: &Query, name: &str) -> bool {
        !self.is_allowed(query, name)
            && (0..2).any(|list| self.is_in_force(query, list) && self.is_on(list, name))
    }

    fn by_lists_on_question(&self, query: &Query) -> Option<String> {
        let is_blocked = self.is_blocked(query, query.name);
        if self.is_in_force(query, ZONE)
            && !self.is_allowed(query, query.name)
            && let Some(action) = self.zone_action(query.name)
            && self.zone_goes_first(action, is_blocked)
            && let Some(answer) = by_zone(query, "", action)
        {
            return Some(answer);
        }
        is_blocked.then(|| blocked(query))
    }

    /// Between a zone and a list, the one that comes first decides; an action that only ends the
    /// evaluation of zones does not affect lists.
    fn zone_goes_first(&self, action: ZoneAction, is_listed: bool) -> bool {
        !is_listed || (self.setting.zone_is_first && action != ZoneAction::Passthru)
    }

    fn by_lists_on_answer(&self, query: &Query, truth: &Truth) -> Option<String> {
        if self.is_allowed(query, query.name) {
            return None;
        }
        // A name that a list allows exempts only itself.
        let is_listed =
            self.judged(query, truth).into_iter().any(|name| self.is_blocked(query, name));
        if self.is_in_force(query, ZONE)
            && let Some((action, aliases)) = self.zone_on_answer(query, truth)
            && self.zone_goes_first(action, is_listed)
            && let Some(answer) = by_zone(query, &aliases, action)
        {
            return Some(answer);
        }
        is_listed.then(|| blocked(query))
    }

    /// The trigger for the first name of the chain, with its address last; and the aliases before
    /// it.
    fn zone_on_answer(&self, query: &Query, truth: &Truth) -> Option<(ZoneAction, String)> {
        let mut aliases = String::new();
        for name in [query.name].into_iter().chain(truth.aliases.iter().copied()) {
            if name != query.name {
                write!(aliases, " {name}.").unwrap();
            }
            if let Some(action) = self.zone_action(name) {
                return Some((action, aliases));
            }
        }
        // An allowed service has no further effect.
        let mut of_services = truth.services.iter().filter_map(|name| self.zone_action(name));
        if let Some(action) = of_services.find(|action| *action != ZoneAction::Passthru) {
            return Some((action, aliases));
        }
        let (_, action) =
            self.setting.zone_networks.iter().find(|(network, _)| *network == truth.address)?;
        Some((*action, aliases))
    }
}

fn blocked(query: &Query) -> String {
    if query.rtype == Rtype::A {
        "NOERROR 0.0.0.0 [list]".to_owned()
    } else {
        "NOERROR [list]".to_owned()
    }
}

fn redirected(query: &Query, aliases: &str, target: &str) -> String {
    let data = match (target, query.rtype == Rtype::A) {
        (GARDEN, true) => " 203.0.113.6",
        (GARDEN, false) => " .",
        (_, true) => " 10.1.1.1",
        (_, false) => "",
    };
    format!("NOERROR{aliases} {target}.{data}")
}

/// The zone's action on a query; over TCP `rpz-tcp-only` has no effect.
fn by_zone(query: &Query, aliases: &str, action: ZoneAction) -> Option<String> {
    match action {
        ZoneAction::Nxdomain => Some(format!("NXDOMAIN{aliases} [list]")),
        ZoneAction::Nodata => Some(format!("NOERROR{aliases} [list]")),
        ZoneAction::Passthru => None,
        ZoneAction::Drop => Some("nothing".to_owned()),
        ZoneAction::TcpOnly => (query.over == Over::Udp).then(|| "truncated".to_owned()),
        ZoneAction::To(target) => Some(format!("{} [list]", redirected(query, aliases, target))),
    }
}

/// An answer in the notation of the model: without TTLs and other numbers, and with the deciding
/// part.
fn in_short(line: &str) -> String {
    if line.contains(" TC") {
        return "truncated".to_owned();
    }
    let (data, reason) = line.split_once(" [").unwrap_or((line, ""));
    let is_number = |word: &&str| word.bytes().all(|octet| octet.is_ascii_digit());
    let mut short = data.split(' ').filter(|word| !is_number(word)).collect::<Vec<_>>().join(" ");
    match reason.split_once(' ') {
        Some((_, reason)) if reason.starts_with("list ") => short.push_str(" [list]"),
        Some((_, reason)) if reason.starts_with("rule ") => write!(short, " [{reason}").unwrap(),
        Some((_, reason)) if reason.contains("private") => short.push_str(" [private]"),
        Some((_, reason)) => write!(short, " [{reason}").unwrap(),
        None => {}
    }
    short
}

struct Run {
    server: InProcess,
    directory: PathBuf,
    /// The number of names so far, so that each is new.
    made: u64,
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

impl Run {
    fn start(seed: u64, setting: &Setting) -> (Self, String) {
        let directory =
            std::env::temp_dir().join(format!("avocet-policy-model-{seed}-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let configuration = setting.configuration(&directory);
        let server = InProcess::new(&configuration, SocketAddr::from((CLIENTS[0], 4000)));
        let mut server =
            server.unwrap_or_else(|error| panic!("seed {seed}: {error}\n{configuration}"));
        server.set_wall_clock(START);
        for name in NAMES.into_iter().chain([ALIAS, CHAIN, LINK, HINT, SERVICES, GARDEN]) {
            setting.learn(&server, name, name);
        }
        (Self { server, directory, made: 0 }, configuration)
    }

    /// Queries the name, or a subdomain that the network resolves while the client waits.
    fn ask(&mut self, setting: &Setting, query: &Query, is_cached: bool) -> String {
        let mut name = query.name.to_owned();
        if !is_cached && name != OWN {
            self.made += 1;
            name = format!("n{}.{name}", self.made);
        }
        let line = ask_over(
            query.over,
            &mut self.server,
            (CLIENTS[query.client], &format!("{name}."), query.rtype),
        );
        if self.server.waits_for().is_none() {
            return in_short(&line);
        }
        setting.learn(&self.server, &name, query.name);
        let mut out = vec![0; 4096];
        let len = self.server.resume(MeantFor::All, &mut out);
        in_short(&len.map_or_else(|| "nothing".to_owned(), |len| shown(&out[..len])))
    }
}

fn check(seed: u64) {
    let mut choices = Choices(seed);
    let setting = Setting::any(&mut choices);
    let (mut run, configuration) = Run::start(seed, &setting);
    let taken = vec![None; setting.rules.len()];
    let mut model = Model { setting: &setting, pause_until: 0, grant: (OWN, 0), taken };
    let mut now = START;
    for number in 0..QUERIES {
        // Moves to the beginning of schedules, to their end, or a little further.
        let secs = match number {
            15 => NINE - now,
            30 => NINE + 3600 - now,
            _ => choices.below(3) as u64 / 2,
        };
        run.server.pass(secs as u32);
        now += secs;
        if choices.one_in(10) {
            let pauses = choices.one_in(2).then(|| Pause { scope: Scope::All, until: now + 1 });
            let name = choices.of(&NAMES);
            let grants = choices.one_in(2).then(|| Grant {
                name: name.to_owned(),
                scope: Scope::All,
                until: now + 2,
            });
            model.pause_until = if pauses.is_some() { now + 1 } else { 0 };
            model.grant = (name, if grants.is_some() { now + 2 } else { 0 });
            let switches = Switches {
                pauses: pauses.into_iter().collect(),
                grants: grants.into_iter().collect(),
            };
            run.server.switch(switches).unwrap();
        }
        let name = choices
            .of(&[NAMES[0], NAMES[1], NAMES[2], NAMES[4], ALIAS, CHAIN, HINT, SERVICES, OWN]);
        let over = choices.of(&[Over::Udp, Over::Tcp]);
        let query = Query { client: choices.below(2), over, name, rtype: rtype_of(name), now };
        let is_cached = choices.one_in(2);
        let (given, expected) = (run.ask(&setting, &query, is_cached), model.answer(&query));
        let zone = setting.list_text(ZONE);
        let lists = [0, 1].map(|list| setting.list_text(list));
        assert_eq!(
            given, expected,
            "seed {seed}, query {number}: {query:?}, cached {is_cached}, pause until {}, grant {:?}\n{configuration}\n{zone}\n{lists:?}",
            model.pause_until, model.grant
        );
    }
}

#[test]
fn the_way_of_a_query_says_what_the_manual_says() {
    let seeds = std::env::var("AVOCET_POLICY_SEEDS").ok().and_then(|count| count.parse().ok());
    (0..seeds.unwrap_or(SEEDS)).for_each(check);
}
