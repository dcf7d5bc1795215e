//! The first queries of clients that are identified by device or name, in network namespaces.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use crate::namespace::in_namespace;
use crate::server::{PATIENCE, Server, Site};
use crate::upstream::{ADDRESS, Upstream};

/// The device that is filtered.
const TABLET: &str = "02:00:00:00:00:77";
/// Another device.
const OTHER: &str = "02:00:00:00:00:99";
const LIST: &str = "[[list]]\nname = \"ads\"\nfile = \"ads.txt\"\n";

/// Number of queries that take longer together than the server needs to hear of a network.
const MANY: usize = 200;

/// Runs a test of this file in a network namespace of its own.
fn in_own_namespace(name: &str, check: impl FnOnce()) {
    in_namespace(&format!("strangers::{name}"), &["dig", "nsenter"], check);
}

fn run(line: &str) {
    let mut words = line.split(' ');
    let status = Command::new(words.next().unwrap()).args(words).status();
    assert!(status.is_ok_and(|status| status.success()), "{line}");
}

/// The other end of the server's link `d0`: the link `d1` in another namespace.
struct Device {
    holder: Child,
}

impl Device {
    /// Makes the link. The device knows the hardware address of the server, so it does not ask for
    /// it, and the kernel does not hear of the device before its first query.
    fn attach() -> Self {
        run(&format!("ip link add d0 type veth peer name d1 address {TABLET}"));
        let mut command = Command::new("unshare");
        let holder = command.args(["--net", "cat"]).stdin(Stdio::piped()).spawn().unwrap();
        let device = Self { holder };
        let of = |id: &str| fs::read_link(format!("/proc/{id}/ns/net")).ok();
        let began = Instant::now();
        while of(&device.id()).is_none_or(|net| Some(net) == of("self")) {
            assert!(began.elapsed() < PATIENCE);
            std::thread::yield_now();
        }
        run(&format!("ip link set d1 netns {}", device.id()));
        for line in ["ip address add 192.168.7.1/24 dev d0", "ip link set d0 up"] {
            run(line);
        }
        run("ip address add 2001:db8::1/64 dev d0 nodad");
        device.run("ip link set d1 up");
        device.run("ip address add 2001:db8::2/64 dev d1 nodad");
        device.run("ip address add 192.168.7.2/24 dev d1");
        let mac = own_mac();
        for server in ["2001:db8::1", "192.168.7.1"] {
            device.run(&format!("ip neigh replace {server} lladdr {mac} dev d1 nud permanent"));
        }
        device
    }

    fn id(&self) -> String {
        self.holder.id().to_string()
    }

    fn run(&self, line: &str) {
        run(&format!("nsenter --net=/proc/{}/ns/net {line}", self.id()));
    }

    /// Sends one query over UDP from an address, and returns the whole output of `dig`.
    fn ask(&self, from: &str, server: &str, port: u16, name: &str) -> String {
        let enter = format!("--net=/proc/{}/ns/net", self.id());
        let mut command = Command::new("nsenter");
        command.args([&enter, "dig", "+tries=1", "+time=10", "+ignore", "-b", from]);
        let output =
            command.args([&format!("@{server}"), "-p", &port.to_string(), name]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// The hardware address of `d0`.
fn own_mac() -> String {
    let output = Command::new("ip").args(["-o", "link", "show", "d0"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let mut words = text.split_whitespace().skip_while(|word| *word != "link/ether");
    words.nth(1).unwrap().to_owned()
}

/// Starts a server that also listens on the addresses of `d0`, with a list and `rest`.
fn serve(site: &Site, upstream: &Upstream, rest: &str) -> Server {
    let list = site.directory.join("ads.txt");
    fs::write(&list, "ads.example\n").unwrap();
    let listener = "[[listener]]\nname = \"lan\"\n\
                    listen = [\"[2001:db8::1]:5353\", \"192.168.7.1:5353\"]\n\
                    allow = [\"2001:db8::/32\", \"192.168.7.0/24\"]\n";
    let list = LIST.replace("ads.txt", &list.display().to_string());
    site.configure(upstream.addr, "", &format!("{listener}{list}{rest}"));
    site.start()
}

fn shown(address: [u8; 4]) -> String {
    std::net::Ipv4Addr::from(address).to_string()
}

#[test]
fn each_new_address_of_a_device_gets_its_verdict_with_the_first_query() {
    in_own_namespace("each_new_address_of_a_device_gets_its_verdict_with_the_first_query", || {
        let (device, upstream, site) = (Device::attach(), Upstream::start(), Site::new());
        let groups = format!(
            "[[group]]\nname = \"default\"\nlists = []\n[[group]]\nname = \"kids\"\nclients = \
             [\"{TABLET}\"]\nlists = [\"ads\"]\n"
        );
        let _server = serve(&site, &upstream, &groups);
        for last in 0x10..0x28 {
            let from = format!("2001:db8::{last:x}");
            device.run(&format!("ip address add {from}/64 dev d1 nodad"));
            let said = device.ask(&from, "2001:db8::1", 5353, "ads.example");
            assert!(said.contains("0.0.0.0"), "{from}: {said}");
        }
        let said = device.ask("192.168.7.2", "192.168.7.1", 5353, "ads.example");
        assert!(said.contains("0.0.0.0"), "{said}");
        assert!(site.metric("avocet_held_total") >= 25.0);
        assert_eq!(site.metric("avocet_unidentified_total"), 0.0);

        // Networks that the host gets while the server runs. The kernel reports them, so they are
        // known after few queries; without reports, each would take hundreds.
        let mut asked = 0;
        for network in 1..=8 {
            run(&format!("ip address add 2001:db8:{network}::1/64 dev d0 nodad"));
            let is_known = (2..MANY).any(|host| {
                let from = format!("2001:db8:{network}::{host:x}");
                device.run(&format!("ip address add {from}/64 dev d1 nodad"));
                asked += 1;
                device.ask(&from, "2001:db8::1", 5353, "ads.example").contains("0.0.0.0")
            });
            assert!(is_known && asked < MANY, "{network}: {asked}");
        }

        // Another device is not filtered, and is looked up once.
        device.run("ip link set d1 down");
        device.run(&format!("ip link set d1 address {OTHER}"));
        device.run("ip link set d1 up");
        device.run("ip address add 2001:db8::50/64 dev d1 nodad");
        let mac = own_mac();
        device.run(&format!("ip neigh replace 2001:db8::1 lladdr {mac} dev d1 nud permanent"));
        let held = site.metric("avocet_held_total");
        for name in ["ads.example", "www.example"] {
            let said = device.ask("2001:db8::50", "2001:db8::1", 5353, name);
            assert!(said.contains(&shown(ADDRESS)), "{said}");
        }
        assert_eq!(site.metric("avocet_held_total"), held + 1.0);
        // The host itself has no entry in its own table.
        let own = Command::new("dig")
            .args(["+tries=1", "+time=10", "-p", "5353", "@192.168.7.1", "ads.example"])
            .output()
            .unwrap();
        assert!(String::from_utf8_lossy(&own.stdout).contains(&shown(ADDRESS)));
    });
}

#[test]
fn a_name_decides_from_the_first_query_after_the_start() {
    in_own_namespace("a_name_decides_from_the_first_query_after_the_start", || {
        let (device, upstream, site) = (Device::attach(), Upstream::start(), Site::new());
        let rest = "[[record]]\nname = \"tablet.lan\"\ntype = \"A\"\nvalues = [\"192.168.7.2\"]\n[[group]]\nname = \
                    \"default\"\nlists = []\n[[group]]\nname = \"kids\"\nclients = \
                    [\"tablet.lan\"]\nlists = [\"ads\"]\n";
        for _ in 0..2 {
            let server = serve(&site, &upstream, rest);
            let said = device.ask("192.168.7.2", "192.168.7.1", 5353, "ads.example");
            assert!(said.contains("0.0.0.0"), "{said}");
            server.stop();
        }
    });
}

#[test]
fn a_lease_names_its_device_at_all_addresses_and_no_other_device() {
    in_own_namespace("a_lease_names_its_device_at_all_addresses_and_no_other_device", || {
        let (device, upstream, site) = (Device::attach(), Upstream::start(), Site::new());
        let leases = site.directory.join("leases");
        let text = format!("0 {TABLET} 192.168.7.2 tablet *\n0 {OTHER} 192.168.7.9 console *\n");
        fs::write(&leases, text).unwrap();
        let groups = format!(
            "[policy]\nleases = \"{}\"\n[[group]]\nname = \"default\"\nlists = [\"ads\"]\n\
             [[group]]\nname = \"free\"\nclients = [\"tablet\"]\nlists = []\n\
             [[client]]\nname = \"console\"\nids = [\"console\"]\n",
            leases.display()
        );
        let _server = serve(&site, &upstream, &groups);
        let ask = |from: &str, server: &str| device.ask(from, server, 5353, "ads.example");
        for (from, server) in [("2001:db8::2", "2001:db8::1"), ("192.168.7.2", "192.168.7.1")] {
            let said = ask(from, server);
            assert!(said.contains(&shown(ADDRESS)), "{from}: {said}");
        }

        // The tablet has left, and another device uses its address, of which the lease remains.
        device.run("ip link set d1 down");
        device.run("ip link set d1 address 02:00:00:00:00:55");
        device.run("ip link set d1 up");
        let mac = own_mac();
        device.run(&format!("ip neigh replace 192.168.7.1 lladdr {mac} dev d1 nud permanent"));
        run("ip neigh flush dev d0");
        let began = Instant::now();
        while !ask("192.168.7.2", "192.168.7.1").contains("0.0.0.0") {
            assert!(began.elapsed() < PATIENCE, "another device has the policy of the tablet");
        }
    });
}
