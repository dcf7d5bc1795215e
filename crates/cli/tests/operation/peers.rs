//! Transfers between this server and Knot DNS, NSD and BIND, in both directions, signed. Skipped
//! for each program that is missing.

use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use crate::server::{Server, Site, free_address, query};
use crate::upstream::Upstream;

pub(crate) const SECRET: &str = "c2VjcmV0IHNlY3JldCBzZWNyZXQgc2VjcmV0ISE=";
/// Hosts of the zone: their records need several messages.
const HOSTS: usize = 2_000;
/// Longest wait for another server.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// Pause between looks whether another server is ready.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Program {
    Knot,
    Nsd,
    Bind,
}

pub(crate) const ALL: [Program; 3] = [Program::Knot, Program::Nsd, Program::Bind];

/// The role of the other server.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Primary,
    /// A secondary of this primary.
    Secondary(SocketAddr),
}

impl Program {
    /// Returns the arguments, and the configuration.
    fn setup(self, at: &Path, own: SocketAddr, role: Role) -> (&'static str, Vec<&str>, String) {
        let (dir, port) = (at.display(), own.port());
        match self {
            Self::Knot => ("knotd", vec!["-c"], knot(at, port, role)),
            Self::Nsd => {
                let zone = match role {
                    Role::Primary => "  zonefile: zone\n  provide-xfr: 127.0.0.1 transfer\n  \
                                      store-ixfr: yes\n  create-ixfr: yes\n"
                        .into(),
                    Role::Secondary(addr) => format!(
                        "  zonefile: copy\n  allow-notify: 127.0.0.1 transfer\n  request-xfr: \
                         {}@{} transfer\n  provide-xfr: 127.0.0.1 NOKEY\n",
                        addr.ip(),
                        addr.port()
                    ),
                };
                let text = format!(
                    "server:\n  ip-address: 127.0.0.1@{port}\n  server-count: 1\n  username: \"\"\n  \
                     zonesdir: \"{dir}\"\n  pidfile: \"{dir}/nsd.pid\"\n  xfrdir: \"{dir}\"\n  \
                     zonelistfile: \"{dir}/zones\"\n  xfrdfile: \"\"\n  database: \"\"\n\
                     remote-control:\n  control-enable: no\nkey:\n  name: transfer\n  algorithm: \
                     hmac-sha256\n  secret: \"{SECRET}\"\nzone:\n  name: corp.example.\n{zone}"
                );
                ("nsd", vec!["-d", "-c"], text)
            }
            Self::Bind => {
                let zone = match role {
                    Role::Primary => {
                        "type master; file \"zone\"; ixfr-from-differences yes; allow-transfer { \
                         key transfer; };"
                            .to_owned()
                    }
                    Role::Secondary(addr) => format!(
                        "type slave; file \"copy\"; masters {{ {} port {} key transfer; }};",
                        addr.ip(),
                        addr.port()
                    ),
                };
                let text = format!(
                    "options {{ directory \"{dir}\"; listen-on port {port} {{ 127.0.0.1; }}; \
                     listen-on-v6 {{ none; }}; recursion no; pid-file none; session-keyfile none; \
                     lock-file none; dnssec-validation no; notify no; }};\ncontrols {{ }};\nkey \
                     transfer {{ algorithm hmac-sha256; secret \"{SECRET}\"; }};\nzone \
                     \"corp.example\" {{ {zone} }};\n"
                );
                ("named", vec!["-g", "-n", "1", "-c"], text)
            }
        }
    }
}

/// Returns the configuration of Knot DNS.
fn knot(at: &Path, port: u16, role: Role) -> String {
    let dir = at.display();
    let zone = match role {
        Role::Primary => "    file: zone\n    acl: out\n    zonefile-load: \
                          difference\n    zonefile-sync: -1\n    journal-content: \
                          all\n"
            .to_owned(),
        Role::Secondary(_) => "    master: avocet\n    acl: [in, any]\n".to_owned(),
    };
    let remote = match role {
        Role::Primary => String::new(),
        Role::Secondary(addr) => format!(
            "remote:\n  - id: avocet\n    address: {}@{}\n    key: transfer\n",
            addr.ip(),
            addr.port()
        ),
    };
    format!(
        "server:\n  listen: 127.0.0.1@{port}\n  rundir: \"{dir}\"\n  udp-workers: 1\n  \
         tcp-workers: 1\n  background-workers: 1\ncontrol:\n  listen: \
         \"{dir}/knot.sock\"\nlog:\n  - target: stderr\n    any: info\ndatabase:\n  \
         storage: \"{dir}/knot\"\nkey:\n  - id: transfer\n    algorithm: \
         hmac-sha256\n    secret: {SECRET}\nacl:\n  - id: out\n    key: transfer\n    \
         action: transfer\n  - id: in\n    key: transfer\n    action: notify\n  \
         - id: any\n    address: 127.0.0.1\n    action: transfer\n{remote}template:\n  - id: default\n    storage: \
         \"{dir}\"\nzone:\n  - domain: corp.example.\n{zone}"
    )
}

/// Starts a program, and waits until it is ready. If it ends, it is started again, because its port
/// may be in use for a moment by a socket of another test.
pub(crate) fn start_until(
    command: &mut Command,
    what: &str,
    mut is_ready: impl FnMut() -> bool,
) -> io::Result<Child> {
    let began = Instant::now();
    let mut child = command.spawn()?;
    while !is_ready() {
        assert!(began.elapsed() < PATIENCE, "never ready: {what}");
        if child.try_wait()?.is_some() {
            child = command.spawn()?;
        }
        thread::park_timeout(LOOK_AGAIN);
    }
    Ok(child)
}

/// Returns whether a server accepts connections. A socket that happens to get this port connects to
/// itself, and does not count.
pub(crate) fn accepts(addr: SocketAddr) -> bool {
    TcpStream::connect(addr).is_ok_and(|stream| stream.local_addr().is_ok_and(|own| own != addr))
}

/// A running server of another kind.
pub(crate) struct Peer {
    child: Child,
    addr: SocketAddr,
    site: Site,
}

impl Peer {
    /// Starts a server; `None` if the program is missing.
    pub(crate) fn start(
        program: Program,
        role: Role,
        zone: &str,
        addr: SocketAddr,
    ) -> Option<Self> {
        let site = Site::new();
        let at = site.directory.clone();
        fs::write(at.join("zone"), zone).unwrap();
        // Knot does not make the directory of its journal.
        fs::create_dir(at.join("knot")).unwrap();
        let (name, arguments, text) = program.setup(&at, addr, role);
        Self::run(site, (name, &arguments), &text, addr)
    }

    /// Starts a program with this configuration, which listens at an address; `None` if it is
    /// missing.
    pub(crate) fn run(
        site: Site,
        program: (&str, &[&str]),
        text: &str,
        addr: SocketAddr,
    ) -> Option<Self> {
        Self::run_at(site, program, text, &[addr])
    }

    /// Starts a program with this configuration, which listens at these addresses; `None` if it is
    /// missing.
    pub(crate) fn run_at(
        site: Site,
        (name, arguments): (&str, &[&str]),
        text: &str,
        addresses: &[SocketAddr],
    ) -> Option<Self> {
        let at = site.directory.clone();
        let conf = at.join("conf");
        fs::write(&conf, text).unwrap();
        let path = Path::new("/usr/sbin").join(name);
        let log = fs::File::create(at.join("log")).unwrap();
        let mut command = Command::new(if path.exists() { path } else { name.into() });
        command.args(arguments).arg(conf).stdout(Stdio::null()).stderr(log);
        let is_ready = || addresses.iter().all(|addr| accepts(*addr));
        let child = start_until(&mut command, name, is_ready).ok();
        assert!(child.is_some() || std::env::var_os("CI").is_none(), "{name} is missing");
        Some(Self { child: child?, addr: addresses[0], site })
    }

    pub(crate) const fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Replaces the file of the zone of a primary, and has it read.
    pub(crate) fn publish(&self, zone: &str) {
        let path = self.site.directory.join("zone");
        let before = fs::metadata(&path).unwrap().modified().unwrap();
        fs::write(&path, zone).unwrap();
        // Some servers compare only the seconds of the modification time.
        let file = fs::File::options().append(true).open(path).unwrap();
        file.set_modified(before + Duration::from_secs(2)).unwrap();
        let sent = Command::new("kill").arg("-HUP").arg(self.child.id().to_string()).status();
        assert!(sent.unwrap().success());
    }

    /// Returns what the server has written.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.site.directory.join("log")).unwrap_or_default()
    }

    /// Waits until the server has the last host of the zone.
    fn wait_for_zone(&self) {
        self.wait_for(&format!("h{}.corp.example", HOSTS - 1));
    }

    /// Waits until the server has addresses of a name.
    pub(crate) fn wait_for(&self, name: &str) {
        let socket = crate::server::udp_socket();
        socket.connect(self.addr).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        let until = Instant::now() + PATIENCE;
        let mut reply = [0; 512];
        loop {
            let _ = socket.send(&query(9, name));
            if let Ok(len) = socket.recv(&mut reply)
                && len > 12
                && (reply[3] & 15, reply[7]) == (0, 1)
            {
                return;
            }
            assert!(Instant::now() < until, "no {name} at {}: {}", self.addr, self.log());
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return;
        }
        // SIGTERM lets the parent end its child processes.
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        let _ = self.child.wait();
    }
}

/// A zone whose hosts before `from` are missing.
fn zone_text(serial: u32, from: usize) -> String {
    let host = |host: usize| format!("h{host} A 10.0.{}.{}\n", host >> 8, host & 255);
    let hosts: String = (from..HOSTS).map(host).collect();
    format!(
        "$ORIGIN corp.example.\n$TTL 60\n@ SOA ns host {serial} 2h 3m 4w 60\n@ NS ns\nns A \
         192.0.2.1\nv{serial} A 192.0.2.2\n{hosts}"
    )
}

/// Starts this server with the zone and these settings of it.
fn serve(settings: &str) -> (Site, Server, Upstream) {
    let (upstream, site) = (Upstream::start(), Site::new());
    let (file, secret) = (site.directory.join("corp.zone"), site.directory.join("secret"));
    fs::write(&file, zone_text(7, 0)).unwrap();
    fs::write(&secret, SECRET).unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    let settings = settings.replace("FILE", &file.display().to_string());
    let text = format!(
        "[[key]]\nname = \"transfer\"\nsecret-file = \"{}\"\n[[zone]]\nname = \
         \"corp.example\"\n{settings}\n",
        secret.display()
    );
    site.configure(upstream.addr, "", &text);
    let server = site.start();
    (site, server, upstream)
}

#[test]
fn knot_nsd_and_bind_transfer_a_zone_and_its_changes_after_notify() {
    let addresses = ALL.map(|_| free_address());
    let notify = addresses.map(|addr| format!("\"{addr} key transfer\"")).join(", ");
    let (site, mut server, _upstream) = serve(&format!(
        "file = \"FILE\"\nallow-transfer = [\"127.0.0.1 key transfer\"]\nnotify = [{notify}]"
    ));
    let start = |(program, addr)| Peer::start(program, Role::Secondary(site.dns), "", addr);
    let peers: Vec<_> = ALL.into_iter().zip(addresses).filter_map(start).collect();
    peers.iter().for_each(Peer::wait_for_zone);
    for (serial, from) in [(8, 1), (9, 60)] {
        fs::write(site.directory.join("corp.zone"), zone_text(serial, from)).unwrap();
        site.avocet_text(&["zone", "reload", "corp.example"]);
        peers.iter().for_each(|peer| peer.wait_for(&format!("v{serial}.corp.example")));
        for _ in &peers {
            let line = server.wait_for_line("changes of zone corp.example. transferred");
            assert!(line.contains(&format!("serial={serial}")), "{line}");
        }
    }
    assert_eq!(site.metric("avocet_zone_transfers_out_total{result=\"refused\"}"), 0.0);
    let sent = site.metric("avocet_zone_notifies_out_total{result=\"sent\"}");
    assert!(sent >= 2.0 * peers.len() as f64, "{sent}");
}

#[test]
fn this_server_transfers_a_zone_from_knot_nsd_and_bind() {
    for program in ALL {
        let text = zone_text(7, 0);
        let Some(peer) = Peer::start(program, Role::Primary, &text, free_address()) else {
            continue;
        };
        peer.wait_for_zone();
        let settings = format!("primaries = [\"{}\"]\nkey = \"transfer\"", peer.addr);
        let (site, mut server, _upstream) = serve(&settings);
        server.wait_for_line("corp.example. transferred");
        let text = site.avocet_text(&["zone", "export", "corp.example"]);
        assert_eq!(text.lines().count(), HOSTS + 4, "{program:?}");
        assert_eq!(site.ask("h300.corp.example").0, [10, 0, 1, 44], "{program:?}");
    }
}
