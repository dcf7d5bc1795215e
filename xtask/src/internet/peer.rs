//! The resolvers. Each is configured with the root hints and the trust anchor of the simulated
//! Internet, and otherwise has its defaults.

use std::fs;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::asking;
use super::authority::PORT;
use super::plan::Internet;
use crate::bench::output;
use crate::bench::process::{Launch, SERVER_CORE, Server};

const START_WITHIN: Duration = Duration::from_secs(30);

/// A compared resolver.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Peer {
    Unbound,
    Named,
    Kresd,
    /// Avocet, with the path of its binary.
    Avocet(PathBuf),
}

/// The settings that all resolvers share.
pub(super) struct Surroundings<'a> {
    pub(super) internet: &'a Internet,
    /// The DS records of the root.
    pub(super) anchors: &'a [String],
    pub(super) directory: &'a Path,
}

impl Peer {
    /// The peers that vote on the answers by default.
    pub(super) const VOTERS: [Self; 3] = [Self::Unbound, Self::Named, Self::Kresd];

    pub(super) fn named(name: &str) -> Result<Self, String> {
        let found = Self::VOTERS.into_iter().find(|peer| peer.name() == name);
        found.ok_or_else(|| format!("there is no peer `{name}`: unbound, named or kresd"))
    }

    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Unbound => "unbound",
            Self::Named => "named",
            Self::Kresd => "kresd",
            Self::Avocet(_) => "avocet",
        }
    }

    /// Returns whether the program is installed.
    pub(super) fn is_installed(&self) -> bool {
        match self {
            Self::Avocet(path) => path.is_file(),
            peer => output(which(peer.name())).is_ok(),
        }
    }

    pub(super) const fn address(&self) -> SocketAddrV4 {
        let last = match self {
            Self::Unbound => 1,
            Self::Named => 2,
            Self::Kresd => 3,
            Self::Avocet(_) => 4,
        };
        SocketAddrV4::new(Ipv4Addr::new(127, 0, 8, last), PORT)
    }

    /// Starts the resolver with a cold cache and waits until it answers.
    pub(super) fn start(&self, around: &Surroundings<'_>) -> Result<Server, String> {
        let home = around.directory.join(self.name());
        fs::create_dir_all(&home).map_err(|error| format!("{}: {error}", home.display()))?;
        write(&home.join("hints"), &hints(around.internet))?;
        write(&home.join("anchors"), &(around.anchors.join("\n") + "\n"))?;
        let command = self.configure(&home, around.anchors)?;
        let log = around.directory.join(format!("{}.log", self.name()));
        // This name causes no query to a name server.
        let is_ready = || asking::is_answering(self.address(), "localhost.");
        Server::start(
            &Launch { command: &command, core: SERVER_CORE, log: &log, within: START_WITHIN },
            is_ready,
        )
    }

    fn configure(&self, home: &Path, anchors: &[String]) -> Result<Vec<String>, String> {
        let (at, address) = (home.display().to_string(), self.address().ip().to_string());
        let file = |name: &str| format!("{at}/{name}");
        match self {
            Self::Unbound => {
                write(&home.join("unbound.conf"), &unbound(&at, &address))?;
                Ok(words(&["unbound", "-d", "-c", &file("unbound.conf")]))
            }
            Self::Named => {
                write(&home.join("named.conf"), &named(&at, &address, anchors))?;
                Ok(words(&["named", "-g", "-4", "-n", "1", "-c", &file("named.conf")]))
            }
            Self::Kresd => {
                write(&home.join("config"), &kresd(&at, &address, home)?)?;
                Ok(words(&["kresd", "-n", "-c", &file("config"), &at]))
            }
            Self::Avocet(path) => {
                write(&home.join("avocet.toml"), &avocet(&at, &address, anchors))?;
                Ok(words(&[&path.display().to_string(), "serve", "--config", &file("avocet.toml")]))
            }
        }
    }
}

fn which(program: &str) -> Command {
    let mut command = Command::new("which");
    command.arg(program);
    command
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

/// Returns the root hints as a zone file.
fn hints(internet: &Internet) -> String {
    let servers = &internet.zones[0].servers;
    let lines = servers
        .iter()
        .map(|of| format!(". 3600000 NS {0}\n{0} 3600000 A {1}\n", of.host, of.address));
    lines.collect()
}

fn unbound(at: &str, address: &str) -> String {
    format!(
        r#"server:
  interface: {address}
  port: {PORT}
  access-control: 127.0.0.0/8 allow
  num-threads: 1
  do-daemonize: no
  do-ip6: no
  username: ""
  chroot: ""
  directory: "{at}"
  pidfile: ""
  use-syslog: no
  verbosity: 0
  val-log-level: 2
  module-config: "validator iterator"
  do-not-query-localhost: no
  root-hints: "{at}/hints"
  trust-anchor-file: "{at}/anchors"
  trust-anchor-signaling: no
  qname-minimisation: yes
  aggressive-nsec: yes
remote-control:
  control-enable: no
"#
    )
}

fn named(at: &str, address: &str, anchors: &[String]) -> String {
    let anchor = |record: &String| {
        let data: Vec<&str> =
            record.split_whitespace().skip_while(|word| *word != "DS").skip(1).collect();
        let (numbers, digest) = data.split_at(data.len().min(3));
        format!("  \".\" static-ds {} \"{}\";\n", numbers.join(" "), digest.concat())
    };
    let anchors: String = anchors.iter().map(anchor).collect();
    format!(
        r#"options {{
  directory "{at}";
  listen-on port {PORT} {{ {address}; }};
  listen-on-v6 {{ none; }};
  pid-file none;
  session-keyfile "{at}/session.key";
  managed-keys-directory "{at}";
  recursion yes;
  allow-query {{ any; }};
  allow-recursion {{ any; }};
  allow-query-cache {{ any; }};
  qname-minimization relaxed;
  dnssec-validation yes;
  empty-zones-enable no;
  trust-anchor-telemetry no;
  prefetch 0;
}};
controls {{ }};
trust-anchors {{
{anchors}}};
zone "." {{ type hint; file "{at}/hints"; }};
"#
    )
}

fn kresd(at: &str, address: &str, home: &Path) -> Result<String, String> {
    let hints = fs::read_to_string(home.join("hints")).map_err(|error| error.to_string())?;
    let of_line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        (words.get(2) == Some(&"A")).then(|| format!("['{}']='{}'", words[0], words[3]))
    };
    let hints: Vec<_> = hints.lines().filter_map(of_line).collect();
    Ok(format!(
        r"net.ipv6 = false
net.listen('{address}', {PORT})
modules = {{ 'hints' }}
cache.size = 100*MB
hints.root({{ {} }})
trust_anchors.remove('.')
trust_anchors.add_file('{at}/anchors', true)
modules.unload('ta_update')
modules.unload('ta_signal_query')
modules.unload('priming')
modules.unload('detect_time_skew')
",
        hints.join(", ")
    ))
}

fn avocet(at: &str, address: &str, anchors: &[String]) -> String {
    let anchors: Vec<_> =
        anchors.iter().map(|anchor| format!("{anchor:?}").replace("\\t", " ")).collect();
    format!(
        r#"[server]
listen = ["{address}:{PORT}"]
workers = 1
allow = ["127.0.0.0/8"]
local-names = false
http = ""

[data]
directory = "{at}/data"

[resolver]
mode = "recurse"
root-hints = "{at}/hints"
qname-minimisation = true
ipv6 = false
query-private = true
aggressive-nsec = true

[dnssec]
validate = true
trust-anchors = [{}]
trust-anchor-updates = false
validate-sha1 = true
"#,
        anchors.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anchors_are_written_as_each_configuration_wants_them() {
        let anchors = [".\t\tIN DS 1 13 2 AB CD".to_owned()];
        assert!(named("/tmp", "127.0.8.2", &anchors).contains("\".\" static-ds 1 13 2 \"ABCD\";"));
        assert!(
            avocet("/tmp", "127.0.8.4", &anchors)
                .contains("trust-anchors = [\".  IN DS 1 13 2 AB CD\"]")
        );
    }

    #[test]
    fn an_unknown_peer_is_named() {
        assert_eq!(Peer::named("kresd"), Ok(Peer::Kresd));
        assert!(Peer::named("dnsmasq").unwrap_err().contains("`dnsmasq`"));
    }
}
