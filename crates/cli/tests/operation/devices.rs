//! Clients that are known by what their device sends or proves: over TLS and HTTPS.

use std::fs::{self, Permissions};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::thread;

use crate::server::{Site, ask_over_tcp, free_address, is_here};
use crate::upstream::{ADDRESS, Upstream};

const FILES: [(&str, &str); 5] = [
    ("one.pem", include_str!("certificates/one.pem")),
    ("one.key", include_str!("certificates/one.key")),
    ("clients-ca.pem", include_str!("certificates/clients-ca.pem")),
    ("tablet.pem", include_str!("certificates/tablet.pem")),
    ("tablet.key", include_str!("certificates/tablet.key")),
];
/// The pin of `tablet.pem`.
const PIN: &str = "GNTOtuTPWxGPQurMpdQSbJ8SBsAA/l+66Ey6wVDVmf4=";
/// The parameter with a query for a.kids.example.
const IN_PATH: &str = "dns=AAABAAABAAAAAAAAAWEEa2lkcwdleGFtcGxlAAABAAE";

/// A server whose rule blocks `kids.example` for the group `kids`.
struct Devices {
    site: Site,
    tls: SocketAddr,
    https: SocketAddr,
    upstream: Upstream,
}

impl Devices {
    /// `server` has keys of the listener.
    fn new(clients: &str, server: &str) -> Self {
        let (site, upstream) = (Site::new(), Upstream::start());
        let (tls, https) = (free_address(), free_address());
        for (name, text) in FILES {
            let path = site.directory.join(name);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        }
        let this = Self { site, tls, https, upstream };
        this.configure(clients, server);
        this
    }

    fn configure(&self, clients: &str, server: &str) {
        let Self { site, tls, https, upstream } = self;
        let rest = format!(
            "[[certificate]]\nnames = [\"dns.example\", \"*.dns.example\"]\ncert = \"one.pem\"\n\
             key = \"one.key\"\n[[listener]]\nname = \"dot\"\nlisten = [\"tls://{tls}\", \
             \"https://{https}\"]\n{server}\n[[group]]\nname = \"kids\"\n[[rule]]\n\
             name = \"kids\"\n\
             when = '''client.group(\"kids\") && qname.under(\"kids.example\")'''\n\
             action = \"block\"\n[query-log]\nenabled = true\n{clients}"
        );
        site.configure(upstream.addr, "workers = 2", &rest);
    }

    /// Configures and reloads.
    fn change(&self, clients: &str, server: &str) {
        self.configure(clients, server);
        self.site.avocet_text(&["reload"]);
    }

    /// Returns whether a name is blocked for a client over TLS that asks for this server.
    fn is_blocked_over_tls(&self, server: &str, name: &str) -> bool {
        let at = format!("@tls://{server}@{}", self.tls);
        let text = self.site.avocet_text(&["query", &at, name, "+insecure", "+short"]);
        assert!(["0.0.0.0\n", "192.0.2.77\n"].contains(&text.as_str()), "{text}");
        text == "0.0.0.0\n"
    }

    /// Returns whether the name in [`IN_PATH`] is blocked for a client over HTTPS.
    fn is_blocked_over_https(&self, path: &str, options: &[&str]) -> bool {
        let url = format!("https://{}{path}?{IN_PATH}", self.https);
        let output = Command::new("curl").args(["-sk", &url]).args(options).output().unwrap();
        let ends = |address: [u8; 4]| output.stdout.ends_with(&address);
        assert!(ends([0; 4]) || ends(ADDRESS), "{path} {options:?}: {output:?}");
        ends([0; 4])
    }

    fn path(&self, name: &str) -> String {
        self.site.directory.join(name).display().to_string()
    }
}

fn client(name: &str, id: &str, groups: &str) -> String {
    format!("[[client]]\nname = \"{name}\"\nids = [\"{id}\"]\ngroups = [{groups}]\n")
}

#[test]
fn a_word_in_the_path_or_in_the_name_of_the_server_is_a_client() {
    if !is_here("curl") {
        return;
    }
    let devices = Devices::new(&client("phone", "id:ana-phone", "\"kids\""), "");
    let server = devices.site.start();
    for path in ["/dns-query/ana-phone", "/dns-query/ANA-Phone"] {
        assert!(devices.is_blocked_over_https(path, &[]), "{path}");
        assert!(devices.is_blocked_over_https(path, &["--http1.1"]), "{path}");
    }
    for path in ["/dns-query", "/dns-query/ana", "/dns-query/ana-phone-2"] {
        assert!(!devices.is_blocked_over_https(path, &[]), "{path}");
    }
    assert!(devices.is_blocked_over_tls("ana-phone.dns.example", "b.kids.example"));
    assert!(!devices.is_blocked_over_tls("other.dns.example", "b.kids.example"));
    assert!(!devices.is_blocked_over_tls("dns.example", "b.kids.example"));
    assert_eq!(ask_over_tcp(devices.site.dns, "a.kids.example").0, ADDRESS);

    let why =
        |words: &[&str]| devices.site.avocet_text(&[&["why", "a.kids.example"], words].concat());
    let text = why(&["--id", "id:ana-phone", "--transport", "https"]);
    assert!(text.contains("0.0.0.0") && text.contains("(phone, groups: kids)"), "{text}");
    assert!(why(&[]).contains("192.0.2.77"));
    let refused = devices.site.avocet(&["why", "a.kids.example", "--id", "ana phone"]);
    assert!(!refused.status.success());
    // An entry may still be on its way to the file.
    let logged = std::iter::repeat_with(|| {
        thread::yield_now();
        devices.site.avocet_text(&["log", "search", "--client", "phone", "--json"])
    });
    let logged = logged.take(1_000).find(|text| text.contains("b.kids.example"));
    assert!(logged.is_some_and(|text| text.contains("a.kids.example")));
    server.stop();
}

#[test]
fn a_word_is_no_way_around_the_rules_of_an_address_unless_configured() {
    if !is_here("curl") {
        return;
    }
    let clients = client("here", "127.0.0.0/8", "\"kids\"") + &client("dad", "id:dad", "");
    let devices = Devices::new(&clients, "");
    let server = devices.site.start();
    assert!(devices.is_blocked_over_https("/dns-query/dad", &[]));
    assert!(devices.is_blocked_over_tls("dad.dns.example", "a.kids.example"));
    devices.change(&format!("[policy]\nids-override-addresses = true\n{clients}"), "");
    assert!(!devices.is_blocked_over_https("/dns-query/dad", &[]));
    assert!(!devices.is_blocked_over_tls("dad.dns.example", "a.kids.example"));
    assert!(devices.is_blocked_over_https("/dns-query/mom", &[]));
    server.stop();
}

#[test]
fn a_certificate_proves_a_client_by_name_or_key_at_any_address() {
    if !is_here("curl") {
        return;
    }
    let clients = |id: &str| client("here", "127.0.0.0/8", "\"kids\"") + &client("tablet", id, "");
    let asks = "client-ca = \"clients-ca.pem\"";
    let devices = Devices::new(&clients("certificate:tablet.home"), asks);
    let server = devices.site.start();
    let (cert, key) = (devices.path("tablet.pem"), devices.path("tablet.key"));
    let shown = ["--cert", cert.as_str(), "--key", key.as_str()];
    assert!(!devices.is_blocked_over_https("/dns-query", &shown));
    assert!(devices.is_blocked_over_https("/dns-query", &[]));
    let pin = format!("pin:{PIN}");
    for (id, is_blocked) in
        [("certificate:also.home", false), ("certificate:no.home", true), (&pin, false)]
    {
        devices.change(&clients(id), asks);
        assert_eq!(devices.is_blocked_over_https("/dns-query", &shown), is_blocked, "{id}");
    }
    let required = format!("{asks}\nclient-certificate = \"required\"");
    devices.change(&clients("certificate:tablet.home"), &required);
    assert!(!devices.is_blocked_over_https("/dns-query", &shown));
    let url = format!("https://{}/dns-query?{IN_PATH}", devices.https);
    let (cert, key) = (devices.path("one.pem"), devices.path("one.key"));
    for other in [&[][..], &["--cert", &cert, "--key", &key]] {
        let output = Command::new("curl").args(["-sk", &url]).args(other).output().unwrap();
        assert!(!output.status.success() && output.stdout.is_empty(), "{other:?}");
    }
    fs::write(devices.path("clients-ca.pem"), "no certificate").unwrap();
    let reload = devices.site.avocet(&["reload"]);
    let text = String::from_utf8(reload.stderr).unwrap();
    assert!(!reload.status.success() && text.contains("clients-ca.pem"), "{text}");
    server.stop();
}
