//! Other resolvers with response policy zones, which forward all other queries to one server.

use std::net::SocketAddr;
use std::process::Command;

use super::peers::{Peer, Zone, is_installed};
use super::{Ask, Directory};

/// A resolver that filters by policy zones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Filter {
    /// Unbound.
    Unbound,
    /// Knot Resolver, which only supports triggers on QNAMEs.
    Kresd,
    /// BIND.
    Named,
}

impl Filter {
    /// Starts the resolver with the zones in this order; `None` if the program is missing. `probe`
    /// is a name with an address.
    pub(crate) fn start(self, upstream: SocketAddr, zones: &[Zone], probe: &str) -> Option<Peer> {
        let program = match self {
            Self::Unbound => "unbound",
            Self::Kresd => "kresd",
            Self::Named => "named",
        };
        if !is_installed(program) {
            return None;
        }
        Some(Peer::start(&Ask::of(probe, "A"), |directory, addr| {
            for (number, zone) in zones.iter().enumerate() {
                directory.write(&format!("{number}.zone"), &zone.text);
            }
            match self {
                Self::Unbound => unbound(directory, (addr, upstream), zones),
                Self::Kresd => kresd(directory, (addr, upstream), zones),
                Self::Named => named(directory, (addr, upstream), zones),
            }
        }))
    }
}

fn unbound(
    directory: &Directory,
    (addr, upstream): (SocketAddr, SocketAddr),
    zones: &[Zone],
) -> Command {
    let (dir, ip, port) = (directory.path().display(), addr.ip(), addr.port());
    let mut config = format!(
        "server:\n interface: {ip}@{port}\n port: {port}\n directory: \"{dir}\"\n chroot: \"\"\n username: \"\"\n \
         pidfile: \"\"\n use-syslog: no\n do-daemonize: no\n do-ip6: no\n do-not-query-localhost: no\n \
         module-config: \"respip iterator\"\n num-threads: 1\n local-zone: \"example.\" nodefault\n\
         remote-control:\n control-enable: no\nforward-zone:\n name: \".\"\n forward-addr: {}@{}\n",
        upstream.ip(),
        upstream.port(),
    );
    for (number, zone) in zones.iter().enumerate() {
        config += &format!("rpz:\n name: \"{}\"\n zonefile: \"{number}.zone\"\n", zone.name);
    }
    let mut command = Command::new("unbound");
    command.args(["-d", "-c"]).arg(directory.write("unbound.conf", &config));
    command
}

fn kresd(
    directory: &Directory,
    (addr, upstream): (SocketAddr, SocketAddr),
    zones: &[Zone],
) -> Command {
    let mut config = format!(
        "net.ipv6 = false\nnet.listen('{}', {}, {{ kind = 'dns' }})\ntrust_anchors.remove('.')\n\
         cache.size = 20 * MB\nlocal onwards = policy.STUB({{'{}@{}'}})\n",
        addr.ip(),
        addr.port(),
        upstream.ip(),
        upstream.port(),
    );
    // Names that a zone passes through, possibly only over TCP, are forwarded like all others.
    for number in 0..zones.len() {
        let path = directory.path().join(format!("{number}.zone"));
        config += &format!(
            "local zone{number} = policy.rpz(policy.DENY, '{}', false)\npolicy.add(function (request, query)\n  \
             local action = zone{number}(request, query)\n  \
             local asked_by_tcp = request.qsource.flags.tcp and action == policy.TC\n  \
             if action == policy.PASS or asked_by_tcp then return onwards end\n  return action\nend)\n",
            path.display()
        );
    }
    config += "policy.add(policy.all(onwards))\n";
    let path = directory.write("kresd.conf", &config);
    let mut command = Command::new("kresd");
    command.args(["-n", "-c"]).arg(path).arg(directory.path());
    command
}

fn named(
    directory: &Directory,
    (addr, upstream): (SocketAddr, SocketAddr),
    zones: &[Zone],
) -> Command {
    let dir = directory.path().display();
    let policy: String = zones.iter().map(|zone| format!(" zone \"{}\";", zone.name)).collect();
    let mut config = format!(
        "options {{\n directory \"{dir}\"; pid-file \"{dir}/pid\"; listen-on port {} {{ {}; }}; listen-on-v6 {{ none; }};\n \
         recursion yes; allow-query {{ any; }}; allow-recursion {{ any; }}; dnssec-validation no; notify no;\n \
         session-keyfile \"{dir}/session\"; empty-zones-enable no; managed-keys-directory \"{dir}\";\n \
         zone-statistics none; forward only; forwarders port {} {{ {}; }};\n \
         response-policy {{{policy} }} break-dnssec yes qname-wait-recurse yes;\n}};\ncontrols {{ }};\n",
        addr.port(),
        addr.ip(),
        upstream.port(),
        upstream.ip(),
    );
    for (number, zone) in zones.iter().enumerate() {
        config += &format!(
            "zone \"{}\" {{ type primary; file \"{number}.zone\"; check-names ignore; check-integrity no; }};\n",
            zone.name
        );
    }
    let mut command = Command::new("named");
    command.args(["-g", "-n", "1", "-c"]).arg(directory.write("named.conf", &config));
    command
}
