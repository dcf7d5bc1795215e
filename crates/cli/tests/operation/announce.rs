//! Announcements to clients: designations of encrypted listeners, and names that tell programs to
//! leave DNS to the network.

use std::fs::{self, Permissions};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::server::{Site, ask, free_address, is_here};
use crate::upstream::{ADDRESS, Upstream};

const CERTIFICATE: &str = "[[certificate]]\nnames = [\"dns.example\", \"*.dns.example\"]\n\
                           cert = \"one.pem\"\nkey = \"one.key\"\n";

/// A server with a certificate.
struct Announcing {
    site: Site,
    upstream: Upstream,
}

impl Announcing {
    fn new() -> Self {
        let this = Self { site: Site::new(), upstream: Upstream::start() };
        let pairs = [
            ("one.pem", include_str!("certificates/one.pem")),
            ("one.key", include_str!("certificates/one.key")),
        ];
        for (name, text) in pairs {
            let path = this.site.directory.join(name);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        }
        this
    }

    /// Writes a configuration with these addresses next to the plain one.
    fn configure(&self, encrypted: &[String], rest: &str) {
        let own = self.site.dns.to_string();
        let listen: Vec<_> = [&own].into_iter().chain(encrypted).collect();
        self.site.write(&format!(
            "[server]\nlisten = {listen:?}\nhttp = \"{}\"\n[[forward]]\nzone = \".\"\n\
             upstreams = [\"udp://{}\"]\n[data]\ndirectory = \"{}\"\n[query-log]\nenabled = true\n\
             {rest}\n",
            self.site.http,
            self.upstream.addr,
            self.site.data().display()
        ));
    }

    /// Waits until the query log has these words: a thread of the server writes it.
    fn find_in_log(&self, words: &str) {
        let mut looks = (0..10_000).map(|_| self.site.avocet_text(&["log", "search"]));
        assert!(looks.any(|log| log.contains(words)), "{words}");
    }

    /// Returns the answer and additional sections, in short form.
    fn records(&self, at: SocketAddr, name: &str) -> Vec<String> {
        let at = [format!("@{}", at.ip()), format!("-p{}", at.port())];
        let output = Command::new("dig")
            .args(at)
            .args(["+noall", "+answer", "+additional", "+norec", "+time=60", name, "SVCB"])
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let is_record = |line: &&str| !line.starts_with(';') && !line.is_empty();
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        text.lines().filter(is_record).map(words).collect()
    }
}

#[test]
fn encrypted_listeners_are_announced_while_they_are_open() {
    if !is_here("dig") {
        return;
    }
    let here = Announcing::new();
    let (tls, https) = (free_address(), free_address());
    let all = [format!("tls://{tls}"), format!("https://{https}"), format!("quic://{tls}")];
    here.configure(&all, CERTIFICATE);
    let server = here.site.start();
    for owner in ["_dns.resolver.arpa", "_dns.dns.example"] {
        let found = here.records(here.site.dns, owner).join("\n");
        let dot = format!("1 dns.example. alpn=\"dot,doq\" port={} ipv4hint=127.0.0.1", tls.port());
        assert!(found.contains(&dot), "{found}");
        let doh = format!(
            "2 dns.example. alpn=\"h2,h3\" port={} ipv4hint=127.0.0.1 key7=\"/dns-query{{?dns}}\"",
            https.port()
        );
        assert!(found.replace("dohpath", "key7").contains(&doh), "{found}");
        assert!(found.contains("dns.example. 300 IN A 127.0.0.1"), "{found}");
        assert!(found.starts_with(owner) && found.contains(" 300 IN SVCB "), "{found}");
    }
    assert_eq!(here.records(here.site.dns, "_dns.www.dns.example").len(), 0);
    let why = here.site.avocet_text(&["why", "_dns.resolver.arpa", "--type", "SVCB"]);
    assert!(why.contains("dns.example") && why.contains("dohpath"), "{why}");
    here.find_in_log("_dns.resolver.arpa");

    // A reload keeps the sockets of removed addresses, and no longer announces these addresses.
    here.configure(&all[..1], CERTIFICATE);
    here.site.avocet_text(&["reload"]);
    let found = here.records(here.site.dns, "_dns.resolver.arpa");
    assert!(found[0].contains("alpn=\"dot\"") && !found[1].contains("SVCB"), "{found:?}");
    here.configure(&all, &CERTIFICATE.replace("dns.example", "other.example"));
    here.site.avocet_text(&["reload"]);
    let found = here.records(here.site.dns, "_dns.resolver.arpa");
    assert!(found[0].contains("other.example. alpn=\"dot,doq\""), "{found:?}");
    assert_eq!(here.records(here.site.dns, "_dns.dns.example").len(), 0);
    here.configure(&[], CERTIFICATE);
    here.site.avocet_text(&["reload"]);
    assert_eq!(here.records(here.site.dns, "_dns.resolver.arpa").len(), 0);
    server.stop();
}

#[test]
fn clients_of_a_listener_get_its_addresses_only() {
    if !is_here("dig") {
        return;
    }
    let here = Announcing::new();
    let (guest, tls) = (free_address(), free_address());
    let listener = |keys: &str| {
        format!("[[listener]]\nname = \"guests\"\nlisten = [\"{guest}\", \"tls://{tls}\"]\n{keys}")
    };
    here.configure(&[], &[&listener(""), CERTIFICATE].concat());
    let server = here.site.start();
    assert_eq!(here.records(here.site.dns, "_dns.resolver.arpa").len(), 0);
    let found = here.records(guest, "_dns.resolver.arpa");
    assert!(found[0].contains(&format!("port={}", tls.port())), "{found:?}");
    here.configure(&[], &[&listener("allow = [\"192.0.2.0/24\"]\n"), CERTIFICATE].concat());
    here.site.avocet_text(&["reload"]);
    assert_eq!(here.records(guest, "_dns.resolver.arpa").len(), 0, "REFUSED");
    server.stop();
}

#[test]
fn a_new_certificate_is_announced_by_the_names_in_it() {
    if !is_here("dig") || !is_here("openssl") {
        return;
    }
    let here = Announcing::new();
    let certificate = CERTIFICATE.replace("names = [\"dns.example\", \"*.dns.example\"]\n", "");
    here.configure(&[format!("tls://{}", free_address())], &certificate);
    let mut server = here.site.start();
    // The certificate has an address and no name.
    assert_eq!(here.records(here.site.dns, "_dns.resolver.arpa").len(), 0);
    let file = |name: &str| here.site.directory.join(name).display().to_string();
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"])
        .args(["-days", "9", "-subj", "/CN=x", "-addext", "subjectAltName=DNS:new.example"])
        .args(["-addext", "basicConstraints=CA:FALSE"])
        .args(["-keyout", &file("new.key"), "-out", &file("new.pem")])
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    fs::rename(file("new.key"), file("one.key")).unwrap();
    fs::rename(file("new.pem"), file("one.pem")).unwrap();
    server.wait_for_line("have changed and are in use");
    let mut looks = (0..10_000).map(|_| here.records(here.site.dns, "_dns.resolver.arpa"));
    let found = looks.find(|found| !found.is_empty()).unwrap();
    assert!(found[0].contains("new.example. alpn=\"dot\""), "{found:?}");
    server.stop();
}

/// The RCODE of a name.
fn status(site: &Site, name: &str) -> String {
    let at = format!("@{}", site.dns);
    let text = site.avocet_text(&["query", &at, name]);
    let status = text.split("status: ").nth(1).and_then(|rest| rest.split(',').next());
    status.unwrap_or_else(|| panic!("{text}")).to_owned()
}

#[test]
fn switches_tell_programs_to_leave_dns_to_the_network() {
    let here = Announcing::new();
    let names = ["use-application-dns.net", "mask.icloud.com", "mask-h2.icloud.com"];
    let check = |rest: &str, expected: [&str; 3]| {
        here.configure(&[], rest);
        here.site.avocet_text(&["reload"]);
        assert_eq!(names.map(|name| status(&here.site, name)), expected, "{rest}");
    };
    here.configure(&[], "");
    let server = here.site.start();
    assert_eq!(ask(here.site.dns, 1, names[0]).0, ADDRESS, "nothing is filtered");
    let (firefox, relay) = ("block-firefox-dns = true\n", "block-private-relay = true\n");
    check(&format!("[policy]\n{firefox}"), ["NXDOMAIN", "NOERROR", "NOERROR"]);
    check(&format!("[policy]\n{relay}"), ["NOERROR", "NXDOMAIN", "NXDOMAIN"]);
    let why = here.site.avocet_text(&["why", "mask.icloud.com"]);
    assert!(why.contains("block-private-relay"), "{why}");
    here.find_in_log("block-private-relay");
    let allow = "[[rule]]\nname = \"mine\"\nwhen = 'qname == \"mask.icloud.com\"'\naction = \"allow\"\n\
                 priority = 100\n";
    check(&format!("[policy]\n{relay}{allow}"), ["NOERROR", "NOERROR", "NXDOMAIN"]);
    fs::write(here.site.directory.join("list.txt"), "ads.example\n").unwrap();
    let list = "[[list]]\nname = \"ads\"\nfile = \"list.txt\"\n";
    check(list, ["NXDOMAIN", "NOERROR", "NOERROR"]);
    check(&format!("[policy]\nblock-firefox-dns = false\n{list}"), ["NOERROR"; 3]);
    server.stop();
}

#[test]
fn a_device_is_connected_by_what_connect_prints() {
    let here = Announcing::new();
    let encrypted = ["tls://127.0.0.1:853".to_owned(), "https://127.0.0.1:8443".to_owned()];
    here.configure(&encrypted, CERTIFICATE);
    let text = |form: &str| here.site.avocet_text(&["connect", form, "--id", "ana-7f3k9x"]);
    for form in ["text", "profile", "stamps", "qr", "resolved"] {
        assert_eq!(text(form), text(form), "{form}: the same each time");
    }
    let shown = text("text");
    let url = "https://dns.example:8443/dns-query/ana-7f3k9x";
    assert!(
        shown.contains(url) && shown.contains("Private DNS: ana-7f3k9x.dns.example"),
        "{shown}"
    );
    assert!(text("resolved").contains("DNS=127.0.0.1#ana-7f3k9x.dns.example\nDNSOverTLS=yes\n"));
    let code = text("qr");
    assert!(code.contains('█') && code.contains("\nsdns://Ag"), "{code}");
    if is_here("python3") {
        let path = here.site.directory.join("phone.mobileconfig");
        fs::write(&path, text("profile")).unwrap();
        let read = "import plistlib,sys;p=plistlib.load(open(sys.argv[1],'rb'));\
                    print(p['PayloadContent'][0]['DNSSettings'])";
        let output = Command::new("python3").args(["-c", read]).arg(&path).output().unwrap();
        let settings = String::from_utf8(output.stdout).unwrap();
        let expected = format!(
            "{{'DNSProtocol': 'HTTPS', 'ServerURL': '{url}{{?dns}}', 'ServerAddresses': ['127.0.0.1']}}\n"
        );
        assert_eq!(settings, expected);
    }
    for wrong in ["a b", "<x/>", "$(id)", "../x", ""] {
        let output = here.site.avocet(&["connect", "profile", "--id", wrong]);
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && output.stdout.is_empty(), "{wrong}");
        assert!(error.contains("is not a word"), "{error}");
    }
    here.configure(&[], CERTIFICATE);
    let output = here.site.avocet(&["connect"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.starts_with("Router "), "{text}");
    assert!(String::from_utf8(output.stderr).unwrap().contains("tls://, https:// or quic://"));
    let output = here.site.avocet(&["connect", "stamps"]);
    assert!(!output.status.success() && output.stdout.is_empty());
}
