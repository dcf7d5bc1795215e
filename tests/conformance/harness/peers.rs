//! Other servers from their packages: authoritative ones with a zone, and a resolver.

use std::fs::File;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::server::free_port;
use super::{Ask, Directory, Reply, Tcp, Udp, until};

/// Retries with other ports, for the case that another process took one.
const STARTS: usize = 5;

/// An authoritative server for comparison.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// NSD.
    Nsd,
    /// Knot DNS.
    Knot,
    /// BIND as an authoritative server.
    Named,
}

/// A zone: its name and the text of its file.
#[derive(Clone, Debug)]
pub(crate) struct Zone {
    /// The apex, with its final dot.
    pub(crate) name: String,
    /// The complete zone file.
    pub(crate) text: String,
}

/// A running server. Dropping it ends the process.
pub(crate) struct Peer {
    child: Child,
    directory: Directory,
    /// The address for queries.
    pub(crate) addr: SocketAddr,
}

/// Whether the program is installed. If not, the test prints that it is skipped; a continuous build
/// fails.
pub(crate) fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places: Vec<_> = std::env::split_paths(&path).collect();
    places.extend(["/usr/sbin".into(), "/usr/local/sbin".into()]);
    let found = places.iter().any(|place| place.join(program).is_file());
    assert!(
        found || std::env::var_os("CI").is_none_or(|value| value != "true"),
        "{program} is not installed"
    );
    if !found {
        eprintln!("{program} is not installed: left out");
    }
    found
}

impl Kind {
    /// All of them.
    pub(crate) const ALL: [Self; 3] = [Self::Nsd, Self::Knot, Self::Named];

    fn program(self) -> &'static str {
        match self {
            Self::Nsd => "nsd",
            Self::Knot => "knotd",
            Self::Named => "named",
        }
    }

    /// Serves the zones; `None` if the program is missing.
    pub(crate) fn serve(self, zones: &[Zone]) -> Option<Peer> {
        if !is_installed(self.program()) {
            return None;
        }
        let probe = Ask::of(&zones[0].name, "SOA");
        Some(Peer::start(&probe, |directory, addr| {
            for (number, zone) in zones.iter().enumerate() {
                directory.write(&format!("{number}.zone"), &zone.text);
            }
            match self {
                Self::Nsd => nsd(directory, addr, zones),
                Self::Knot => knot(directory, addr, zones),
                Self::Named => named(directory, addr, zones),
            }
        }))
    }
}

/// Unbound, which forwards everything to another server; `None` if it is missing.
pub(crate) fn unbound(upstream: SocketAddr, probe: &str) -> Option<Peer> {
    is_installed("unbound").then(|| {
        Peer::start(&Ask::of(probe, "SOA"), |directory, addr| {
            let config = format!(
                "server:\n interface: {ip}@{port}\n port: {port}\n directory: \"{dir}\"\n chroot: \"\"\n username: \"\"\n \
                 pidfile: \"\"\n use-syslog: no\n do-daemonize: no\n do-ip6: no\n do-not-query-localhost: no\n \
                 module-config: \"iterator\"\n num-threads: 1\n edns-buffer-size: 4096\n max-udp-size: 4096\n \
                 minimal-responses: no\n local-zone: \"example.\" nodefault\nremote-control:\n control-enable: no\n\
                 forward-zone:\n name: \".\"\n forward-addr: {up}@{up_port}\n",
                ip = addr.ip(),
                port = addr.port(),
                dir = directory.path().display(),
                up = upstream.ip(),
                up_port = upstream.port(),
            );
            let path = directory.write("unbound.conf", &config);
            let mut command = Command::new("unbound");
            command.args(["-d", "-c"]).arg(path);
            command
        })
    })
}

/// Knot, which signs this root zone, adds its digest (RFC 8976), and allows transfers to any
/// client; `None` if it is missing.
pub(crate) fn signing_root(text: &str) -> Option<Peer> {
    is_installed("knotd").then(|| {
        Peer::start(&Ask::of(".", "DNSKEY"), |directory, addr| {
            directory.write("root.zone", text);
            std::fs::create_dir_all(directory.path().join("db")).expect("a directory for keys");
            let dir = directory.path().display();
            let config = format!(
                "server:\n    listen: {}@{}\n    rundir: \"{dir}\"\n    udp-workers: 1\n    tcp-workers: 1\n    \
                 background-workers: 1\ndatabase:\n    storage: \"{dir}/db\"\nlog:\n  - target: stderr\n    any: warning\n\
                 acl:\n  - id: all\n    address: 127.0.0.0/8\n    action: transfer\n\
                 policy:\n  - id: one\n    single-type-signing: on\n    nsec3: off\nzone:\n  - domain: .\n    \
                 storage: \"{dir}\"\n    file: root.zone\n    semantic-checks: off\n    acl: all\n    \
                 dnssec-signing: on\n    dnssec-policy: one\n    zonemd-generate: zonemd-sha384\n",
                addr.ip(),
                addr.port(),
            );
            let path = directory.write("knot.conf", &config);
            let mut command = Command::new("knotd");
            command.arg("-c").arg(path);
            command
        })
    })
}

impl Peer {
    /// Starts the command of `prepare`, and waits until the reply to the probe has one record.
    pub(super) fn start(probe: &Ask, prepare: impl Fn(&Directory, SocketAddr) -> Command) -> Self {
        for _ in 0..STARTS {
            let directory = Directory::create();
            let addr = free_port([127, 0, 0, 1].into());
            let log = File::create(directory.path().join("log")).expect("a log");
            let mut command = prepare(&directory, addr);
            command.env("PATH", format!("{}:/usr/sbin", std::env::var("PATH").unwrap_or_default()));
            command.stdin(Stdio::null()).stdout(log.try_clone().expect("a descriptor")).stderr(log);
            let child = command.spawn().expect("the peer starts");
            let mut peer = Self { child, directory, addr };
            if peer.wait_until_it_answers(&probe.octets()) {
                return peer;
            }
        }
        panic!("the peer does not start");
    }

    /// Returns false if the process ended.
    fn wait_until_it_answers(&mut self, probe: &[u8]) -> bool {
        until("the peer answers", || {
            if let Ok(Some(status)) = self.child.try_wait() {
                eprintln!("{status}: {}", self.directory.read("log"));
                return Some(false);
            }
            let client = Udp::to(self.addr);
            client.send(probe);
            let reply = Reply::read(&client.receive(Duration::from_millis(100))?);
            // Some peers listen on TCP after they have answered over UDP.
            (reply.header.counts[1] == 1 && Tcp::try_to(self.addr).is_ok()).then_some(true)
        })
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("the peer's log:\n{}", self.directory.read("log"));
        }
    }
}

fn nsd(directory: &Directory, addr: SocketAddr, zones: &[Zone]) -> Command {
    let dir = directory.path().display();
    let mut config = format!(
        "server:\n ip-address: {}@{}\n server-count: 1\n username: \"\"\n chroot: \"\"\n zonesdir: \"{dir}\"\n \
         pidfile: \"{dir}/pid\"\n database: \"\"\n xfrdfile: \"{dir}/xfrd\"\n zonelistfile: \"{dir}/list\"\n \
         xfrdir: \"{dir}\"\n ipv4-edns-size: 4096\n rrl-ratelimit: 0\nremote-control:\n control-enable: no\n",
        addr.ip(),
        addr.port(),
    );
    for (number, zone) in zones.iter().enumerate() {
        config += &format!("zone:\n name: \"{}\"\n zonefile: \"{number}.zone\"\n", zone.name);
    }
    let path = directory.write("nsd.conf", &config);
    let mut command = Command::new("nsd");
    command.args(["-d", "-c"]).arg(path);
    command
}

fn knot(directory: &Directory, addr: SocketAddr, zones: &[Zone]) -> Command {
    let dir = directory.path().display();
    let mut config = format!(
        "server:\n    listen: {}@{}\n    rundir: \"{dir}\"\n    udp-workers: 1\n    tcp-workers: 1\n    \
         background-workers: 1\n    udp-max-payload: 4096\ndatabase:\n    storage: \"{dir}/db\"\n\
         log:\n  - target: stderr\n    any: warning\ntemplate:\n  - id: default\n    storage: \"{dir}\"\n    \
         semantic-checks: off\nzone:\n",
        addr.ip(),
        addr.port(),
    );
    for (number, zone) in zones.iter().enumerate() {
        config += &format!("  - domain: {}\n    file: {number}.zone\n", zone.name);
    }
    let path = directory.write("knot.conf", &config);
    let mut command = Command::new("knotd");
    command.arg("-c").arg(path);
    command
}

fn named(directory: &Directory, addr: SocketAddr, zones: &[Zone]) -> Command {
    let dir = directory.path().display();
    let mut config = format!(
        "options {{\n directory \"{dir}\"; pid-file \"{dir}/pid\"; listen-on port {} {{ {}; }}; listen-on-v6 {{ none; }};\n \
         recursion no; dnssec-validation no; notify no; session-keyfile \"{dir}/session\"; max-udp-size 4096;\n \
         edns-udp-size 4096; minimal-responses no; empty-zones-enable no; allow-query {{ any; }};\n \
         managed-keys-directory \"{dir}\"; check-integrity no; zone-statistics none; }};\ncontrols {{ }};\n",
        addr.port(),
        addr.ip(),
    );
    for (number, zone) in zones.iter().enumerate() {
        config += &format!(
            "zone \"{}\" {{ type primary; file \"{number}.zone\"; check-names ignore; check-integrity no; }};\n",
            zone.name
        );
    }
    let path = directory.write("named.conf", &config);
    let mut command = Command::new("named");
    command.args(["-g", "-n", "1", "-c"]).arg(path);
    command
}
