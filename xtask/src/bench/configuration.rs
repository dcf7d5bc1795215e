//! The configurations in `bench/peers`, completed for a run, and the commands that start the
//! servers.
//!
//! A template has a `%WORD%` for each value that differs between runs. The block list settings of a
//! server are in a separate file next to the template.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::process::Command;

use super::blocklist::Form;
use super::load::output;
use super::peer::Peer;
use super::process;
use super::setup::Setup;
use super::veth::Veth;
use super::workload::Workload;

macro_rules! template {
    ($file:literal) => {
        include_str!(concat!("../../../bench/peers/", $file))
    };
}

/// The files of a server's configuration and the command that starts the server. Both contain
/// placeholders such as `%WORD%`.
struct Recipe {
    /// Directories of the run that are emptied before the server starts, so that it has no cached
    /// data.
    fresh: &'static [&'static str],
    /// The name of each file, with the template of its content.
    files: &'static [(&'static str, &'static str)],
    /// The command that runs the server in the foreground; its words are separated by spaces.
    command: &'static str,
}

const UNBOUND: Recipe = Recipe {
    fresh: &[],
    files: &[("unbound.conf", template!("unbound/unbound.conf"))],
    command: "unbound -d -c %DIRECTORY%/unbound.conf",
};
const DNSDIST: Recipe = Recipe {
    fresh: &[],
    files: &[("dnsdist.conf", template!("dnsdist/dnsdist.conf"))],
    command: "dnsdist --supervised --disable-syslog -C %DIRECTORY%/dnsdist.conf",
};
const NSD: Recipe = Recipe {
    fresh: &[],
    files: &[("%NAME%.conf", template!("nsd/nsd.conf"))],
    command: "nsd -d -c %DIRECTORY%/%NAME%.conf",
};
const KNOT: Recipe = Recipe {
    fresh: &["knot"],
    files: &[("knot.conf", template!("knot/knot.conf"))],
    command: "knotd -c %DIRECTORY%/knot.conf",
};
const PDNS_RECURSOR: Recipe = Recipe {
    fresh: &["pdns-recursor"],
    files: &[
        ("pdns-recursor/recursor.conf", template!("pdns-recursor/recursor.conf")),
        ("pdns-recursor/blocking.lua", template!("pdns-recursor/blocking.lua")),
    ],
    command: "pdns_recursor --config-dir=%DIRECTORY%/pdns-recursor",
};
const BIND9: Recipe = Recipe {
    fresh: &["bind9"],
    files: &[("named.conf", template!("bind9/named.conf"))],
    command: "named -f -n %WORKERS% -U %WORKERS% -c %DIRECTORY%/named.conf",
};
const KNOT_RESOLVER: Recipe = Recipe {
    fresh: &["knot-resolver"],
    files: &[("kresd.conf", template!("knot-resolver/kresd.conf"))],
    command: "kresd -n -c %DIRECTORY%/kresd.conf %DIRECTORY%/knot-resolver",
};
const KNOT_RESOLVER_TWICE: Recipe = Recipe {
    fresh: &["knot-resolver"],
    files: &[
        ("kresd.conf", template!("knot-resolver/kresd.conf")),
        ("two.sh", template!("knot-resolver/two.sh")),
    ],
    command: "sh %DIRECTORY%/two.sh",
};
const DNSMASQ: Recipe = Recipe {
    fresh: &[],
    files: &[("dnsmasq.conf", template!("dnsmasq/dnsmasq.conf"))],
    command: "dnsmasq --keep-in-foreground --conf-file=%DIRECTORY%/dnsmasq.conf",
};
const COREDNS: Recipe = Recipe {
    fresh: &[],
    files: &[("Corefile", template!("coredns/Corefile"))],
    // `GOMAXPROCS` gives Go code as many threads as the other servers have.
    command: "env GOMAXPROCS=%WORKERS% %COREDNS% -conf %DIRECTORY%/Corefile",
};
const DNSPROXY: Recipe = Recipe {
    fresh: &[],
    files: &[("dnsproxy.yaml", template!("dnsproxy/dnsproxy.yaml"))],
    command: "env GOMAXPROCS=%WORKERS% %DNSPROXY% --config-path=%DIRECTORY%/dnsproxy.yaml",
};
const AVOCET: Recipe = Recipe {
    fresh: &["%PEER%-data"],
    files: &[("%PEER%.toml", template!("avocet/avocet.toml"))],
    command: "%AVOCET% serve --config %DIRECTORY%/%PEER%.toml",
};

fn recipe(peer: Peer, workload: Workload) -> Recipe {
    let floor = |command| Recipe { fresh: &[], files: &[], command };
    match peer {
        Peer::Bare if workload == Workload::Miss => floor("%BARE% forward %PORT% %UPSTREAM% 8"),
        Peer::Bare if workload == Workload::Tcp => floor("%BARE% tcp %PORT%"),
        Peer::Bare => floor("%BARE% udp %ADDRESS%:%PORT%"),
        Peer::BareMmsg => floor("%BARE% mmsg %PORT%"),
        Peer::BarePool => floor("%BARE% pool %PORT% %UPSTREAM% 512"),
        Peer::Nsd => NSD,
        Peer::Knot | Peer::KnotXdp => KNOT,
        Peer::Unbound => UNBOUND,
        Peer::Dnsdist => DNSDIST,
        Peer::PdnsRecursor => PDNS_RECURSOR,
        Peer::Bind9 => BIND9,
        Peer::KnotResolver if workload.workers() > 1 => KNOT_RESOLVER_TWICE,
        Peer::KnotResolver => KNOT_RESOLVER,
        Peer::Dnsmasq => DNSMASQ,
        Peer::CoreDns => COREDNS,
        Peer::Dnsproxy => DNSPROXY,
        Peer::Earlier | Peer::Logged | Peer::Avocet => AVOCET,
    }
}

/// Returns the lines for `%BLOCKING%` that load the block list, and the format of the list.
fn blocking(peer: Peer) -> Option<(&'static str, Form)> {
    match peer {
        Peer::Unbound => Some((template!("unbound/blocking.conf"), Form::LocalZones)),
        Peer::Dnsdist => Some((template!("dnsdist/blocking.conf"), Form::Names)),
        Peer::PdnsRecursor => Some((template!("pdns-recursor/blocking.conf"), Form::Policy)),
        Peer::Bind9 => Some((template!("bind9/blocking.conf"), Form::Policy)),
        Peer::KnotResolver => Some((template!("knot-resolver/blocking.conf"), Form::Policy)),
        Peer::Dnsmasq => Some((template!("dnsmasq/blocking.conf"), Form::Addresses)),
        Peer::CoreDns => Some((template!("coredns/blocking.conf"), Form::Hosts)),
        Peer::Earlier | Peer::Logged | Peer::Avocet => {
            Some((template!("avocet/blocking.conf"), Form::Names))
        }
        _ => None,
    }
}

/// Returns the lines for `%SIGNED%` with which an authoritative server loads the signed zone.
fn signed(peer: Peer) -> &'static str {
    match peer {
        Peer::Nsd => template!("nsd/signed.conf"),
        Peer::Knot => template!("knot/signed.conf"),
        _ => "",
    }
}

/// Writes the configuration of a peer and returns the command that runs it in the foreground.
pub(super) fn prepare(
    setup: &Setup,
    peer: Peer,
    workload: Workload,
) -> Result<Vec<String>, String> {
    let mut words = Words::of(setup, setup.target(workload).port(), "peer");
    words.set("PEER", peer.name());
    if let Some(program) = Some(peer).filter(|peer| *peer == Peer::Earlier).and_then(Peer::program)
    {
        words.set("AVOCET", program.display().to_string());
    }
    words.set("CONTROL", "  control-enable: no");
    words.set_address(setup.target(workload).ip());
    words.set("WORKERS", workload.workers().to_string());
    words.set("SECOND", if workload.workers() > 1 { template!("dnsdist/second.conf") } else { "" });
    words.set("DNSSEC", if workload == Workload::HotDo { "process-no-validate" } else { "off" });
    words.set("SIGNED", if setup.has_signed_zone() { signed(peer) } else { "" });
    words.set_cache(peer, workload);
    words.set("INTERFACE", setup.veth.as_ref().map_or_else(String::new, Veth::interface));
    words.set("SECURE", setup.encrypted_port.to_string());
    words.set("ENCRYPTED", workload.session().map_or("", |session| session.listener(peer)));
    // The inserted texts contain placeholders themselves. `fill` replaces the last placeholder of
    // the list first.
    words.set("LOGGING", if peer == Peer::Logged { template!("avocet/logging.conf") } else { "" });
    words.set("XDP", if peer == Peer::KnotXdp { template!("knot/xdp.conf") } else { "" });
    let blocking = if workload.has_list() { blocking(peer) } else { None };
    words.set("POLICY", if blocking.is_some() { template!("bind9/policy.conf") } else { "" });
    words.set("BLOCKING", blocking.map_or("", |(text, _)| text));
    if let Some((_, form)) = blocking {
        let list = form.write(&setup.directory).map_err(|error| format!("block list: {error}"))?;
        words.values.insert(0, ("LIST", list.display().to_string()));
    }
    empty(&setup.memory)?;
    let command = write(setup, &recipe(peer, workload), &words)?;
    match &setup.veth {
        Some(veth) if workload == Workload::Veth => Ok([veth.inside(), command].concat()),
        _ => Ok(command),
    }
}

/// Writes the configuration of the upstream, which serves the zone, and returns its command.
pub(super) fn prepare_upstream(setup: &Setup) -> Result<Vec<String>, String> {
    let mut words = Words::of(setup, setup.upstream_port, "upstream");
    words.set("CONTROL", template!("nsd/control.conf"));
    words.set("SIGNED", if setup.has_signed_zone() { signed(Peer::Nsd) } else { "" });
    write(setup, &NSD, &words)
}

/// Returns the number of queries that the upstream has received.
pub(super) fn upstream_queries(setup: &Setup) -> Result<u64, String> {
    let program = process::find("nsd-control").ok_or("nsd-control is not installed")?;
    let mut command = Command::new(program);
    command.arg("-c").arg(setup.file("upstream.conf")).arg("stats_noreset");
    let text = output(command)?;
    parse_queries(&text).ok_or_else(|| format!("nsd-control said: {text}"))
}

fn parse_queries(statistics: &str) -> Option<u64> {
    statistics.lines().find_map(|line| line.strip_prefix("num.queries="))?.parse().ok()
}

/// Writes the files of a recipe and returns its command, with the full path of the program.
fn write(setup: &Setup, recipe: &Recipe, words: &Words) -> Result<Vec<String>, String> {
    for name in recipe.fresh {
        empty(&setup.file(&words.fill(name)))?;
    }
    for (name, template) in recipe.files {
        let path = setup.file(&words.fill(name));
        fs::write(&path, words.fill(template))
            .map_err(|error| format!("{}: {error}", path.display()))?;
    }
    let mut command: Vec<String> = recipe.command.split(' ').map(|word| words.fill(word)).collect();
    if !command[0].contains('/') {
        let path =
            process::find(&command[0]).ok_or_else(|| format!("{} is not installed", command[0]))?;
        command[0] = path.display().to_string();
    }
    Ok(command)
}

fn empty(directory: &Path) -> Result<(), String> {
    // The directory may not exist.
    let _ = fs::remove_dir_all(directory);
    fs::create_dir_all(directory).map_err(|error| format!("{}: {error}", directory.display()))
}

/// The values of the placeholders in the templates.
struct Words {
    values: Vec<(&'static str, String)>,
}

impl Words {
    fn of(setup: &Setup, port: u16, name: &str) -> Self {
        let shown = |path: &Path| path.display().to_string();
        let values = vec![
            ("NAME", name.to_owned()),
            ("PORT", port.to_string()),
            ("UPSTREAM", setup.upstream_port.to_string()),
            ("DIRECTORY", shown(&setup.directory)),
            ("MEMORY", shown(&setup.memory)),
            ("ZONE", shown(&setup.material.zone)),
            ("USER", user()),
            ("BARE", shown(&setup.bare)),
            ("AVOCET", shown(&setup.avocet)),
            ("COREDNS", shown(&process::coredns())),
            ("DNSPROXY", shown(&process::dnsproxy())),
            ("WORKERS", "1".to_owned()),
        ];
        let mut words = Self { values };
        words.set_address(Ipv4Addr::LOCALHOST.into());
        words
    }

    /// Sets the address to listen on, in the forms that configurations require.
    fn set_address(&mut self, address: IpAddr) {
        let (literal, ipv6, listen) = match address {
            IpAddr::V4(_) => (address.to_string(), "no", template!("bind9/ipv4.conf")),
            IpAddr::V6(_) => (format!("[{address}]"), "yes", template!("bind9/ipv6.conf")),
        };
        self.set("ADDRESS", address.to_string());
        self.set("LITERAL", literal);
        self.set("IPV6", ipv6);
        self.set("LISTEN", listen);
    }

    fn set(&mut self, word: &'static str, value: impl Into<String>) {
        self.values.push((word, value.into()));
    }

    /// Sets the size of the cache, and whether it is saved. Usually nothing is evicted, and nothing
    /// is saved: the instructions for the file that the server writes at its end would count. In
    /// `endurance`, Avocet saves as by default, and all servers have the same size as far as their
    /// units permit.
    fn set_cache(&mut self, peer: Peer, workload: Workload) {
        let (octets, messages, rrsets, entries) = match (workload, peer) {
            // Unbound's manual recommends that the RRset cache is twice as large as the message
            // cache.
            (Workload::Endurance, _) => (32, 11, 21, 100_000),
            (_, Peer::Bind9) => (4096, 0, 0, 0),
            (_, Peer::KnotResolver) => (1200, 0, 0, 0),
            (_, Peer::Earlier | Peer::Logged | Peer::Avocet) => (0, 128, 96, 0),
            _ => (0, 1024, 1024, 2_000_000),
        };
        let snapshot_secs = if workload == Workload::Endurance { 300 } else { 0 };
        self.set("SNAPSHOTS", snapshot_secs.to_string());
        self.set("CACHE", octets.to_string());
        self.set("MESSAGES", messages.to_string());
        self.set("RRSETS", rrsets.to_string());
        self.set("ENTRIES", entries.to_string());
    }

    /// Replaces the placeholders. The values that were set last are inserted first. They may
    /// contain placeholders that were set earlier.
    fn fill(&self, text: &str) -> String {
        self.values.iter().rev().fold(text.to_owned(), |text, (word, value)| {
            text.replace(&format!("%{word}%"), value.trim_end_matches('\n'))
        })
    }
}

/// Returns the name of the current user. Some servers would change to another user by default.
fn user() -> String {
    let mut command = Command::new("id");
    command.arg("-un");
    output(command).map_or_else(|_| "root".to_owned(), |name| name.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use super::*;

    #[test]
    fn each_server_with_a_block_list_gets_it() {
        for peer in Peer::ALL {
            assert_eq!(blocking(*peer).is_some(), peer.refusal().is_some(), "{peer:?}");
        }
    }

    #[test]
    fn the_address_has_the_form_of_each_configuration() {
        let mut words = Words { values: vec![("PORT", "53".to_owned())] };
        words.set_address(Ipv4Addr::LOCALHOST.into());
        let form = "%ADDRESS%@%PORT% %LITERAL%:%PORT% %IPV6%";
        assert_eq!(words.fill(form), "127.0.0.1@53 127.0.0.1:53 no");
        words.set_address(Ipv6Addr::LOCALHOST.into());
        assert_eq!(words.fill(form), "::1@53 [::1]:53 yes");
        assert!(words.fill("%LISTEN%").contains("listen-on-v6 port 53 { ::1; };"));
    }

    #[test]
    fn what_is_inserted_is_filled_in_too() {
        let mut words = Words { values: vec![("PORT", "53".to_owned())] };
        words.set("XDP", "listen: eth0@%PORT%\n");
        assert_eq!(words.fill("a\n%XDP%\nb %PORT%"), "a\nlisten: eth0@53\nb 53");
    }

    #[test]
    fn the_queries_of_the_upstream_are_all_of_them() {
        let statistics = "server0.queries=7\nnum.queries=12\ntime.boot=3.5\nnum.queriesx=1\n";
        assert_eq!(parse_queries(statistics), Some(12));
        assert_eq!(parse_queries("error"), None);
    }

    #[test]
    fn no_template_has_a_word_without_a_value() {
        let known = "NAME PORT UPSTREAM DIRECTORY MEMORY ZONE USER BARE AVOCET COREDNS DNSPROXY CONTROL \
                     ADDRESS \
                     INTERFACE XDP POLICY BLOCKING LIST LITERAL IPV6 LISTEN WORKERS SECOND DNSSEC \
                     SIGNED CACHE MESSAGES RRSETS SNAPSHOTS ENTRIES PEER LOGGING SECURE \
                     ENCRYPTED";
        let known: Vec<_> = known.split(' ').collect();
        let commands = Peer::ALL.iter().flat_map(|peer| {
            let recipe = recipe(*peer, Workload::Hot);
            recipe.files.iter().map(|(_, text)| *text).chain([recipe.command]).collect::<Vec<_>>()
        });
        for text in commands.chain(Peer::ALL.iter().filter_map(|peer| Some(blocking(*peer)?.0))) {
            for word in text.split('%').skip(1).step_by(2) {
                assert!(known.contains(&word), "%{word}% in {text}");
            }
        }
    }
}
