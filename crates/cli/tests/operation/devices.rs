//! Clients that are known by what their device sends or proves, over TLS, HTTPS and QUIC.

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::server::{
    PATIENCE, Server, Site, ask_over_tcp, free_address, is_here, query as query_message,
};
use crate::upstream::{ADDRESS, Upstream};

const FILES: [(&str, &str); 7] = [
    ("one.pem", include_str!("certificates/one.pem")),
    ("one.key", include_str!("certificates/one.key")),
    ("clients-ca.pem", include_str!("certificates/clients-ca.pem")),
    ("tablet.pem", include_str!("certificates/tablet.pem")),
    ("tablet.key", include_str!("certificates/tablet.key")),
    ("lapsed.pem", include_str!("certificates/lapsed.pem")),
    ("lapsed.key", include_str!("certificates/lapsed.key")),
];
/// The pin of `tablet.pem`.
const PIN: &str = "XrGHBxSOaeG34iE0z9SDbP+USEK1tnXaneCxjPt926E=";
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
             \"https://{https}\", \"quic://{tls}\"]\n{server}\n[[group]]\nname = \"kids\"\n[[rule]]\n\
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

    /// The same server in all forms, with a name and a path.
    fn ways(&self, name: &str, path: &str) -> [String; 4] {
        let Self { tls, https, .. } = self;
        [
            format!("@tls://{name}@{tls}"),
            format!("@quic://{name}@{tls}"),
            format!("@https://{name}@{https}{path}"),
            format!("@h3://{name}@{https}{path}"),
        ]
    }

    /// Returns whether a name is blocked for a client; `None` if it gets no answer.
    fn verdict(&self, at: &str, shown: &[String]) -> Option<bool> {
        let mut words = vec!["query", at, "a.kids.example", "+insecure", "+short", "+time=5"];
        words.extend(shown.iter().map(String::as_str));
        let output = self.site.avocet(&words);
        let text = String::from_utf8(output.stdout).unwrap();
        match text.as_str() {
            "0.0.0.0\n" => Some(true),
            "192.0.2.77\n" => Some(false),
            _ => {
                assert!(!output.status.success() && text.is_empty(), "{at}: {text}");
                None
            }
        }
    }

    /// Opens a connection over TLS, with the certificate of the tablet.
    fn connect(&self) -> StreamOwned<ClientConnection, TcpStream> {
        let pem = |name: &str| fs::read(self.site.directory.join(name)).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(&pem("one.pem")).unwrap()).unwrap();
        let shown = vec![CertificateDer::from_pem_slice(&pem("tablet.pem")).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(&pem("tablet.key")).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_client_auth_cert(shown, key)
            .unwrap();
        let connection = ClientConnection::new(Arc::new(config), self.tls.ip().into()).unwrap();
        let stream = TcpStream::connect(self.tls).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        StreamOwned::new(connection, stream)
    }

    /// Checks the verdict in all forms.
    fn check(&self, (name, path): (&str, &str), shown: &[String], expected: Option<bool>) {
        for at in self.ways(name, path) {
            assert_eq!(self.verdict(&at, shown), expected, "{at} {shown:?}");
        }
    }

    /// The options that show a certificate.
    fn showing(&self, name: &str) -> Vec<String> {
        let file = |end: &str| self.path(&format!("{name}.{end}"));
        vec![format!("+cert={}", file("pem")), format!("+key={}", file("key"))]
    }

    fn path(&self, name: &str) -> String {
        self.site.directory.join(name).display().to_string()
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
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
    let by_name = why(&["--client", "phone", "--transport", "https"]);
    assert!(by_name.contains("(phone, groups: kids)"), "{by_name}");
    let refused = devices.site.avocet(&["why", "a.kids.example", "--id", "ana phone"]);
    assert!(!refused.status.success());
    // An entry may still be on its way to the file.
    let logged = std::iter::repeat_with(|| {
        thread::yield_now();
        devices.site.avocet_text(&["log", "search", "--client", "phone", "--json"])
    });
    let logged = logged.take(1_000).find(|text| text.contains("b.kids.example"));
    assert!(logged.is_some_and(|text| text.contains("a.kids.example")));
    let past = why(&["--client", "phone", "--transport", "https", "--at", &now().to_string()]);
    assert!(past.contains("Decided then: blocked by rule kids"), "{past}");
    assert!(past.contains("query of 127.0.0.1 (phone) for a.kids.example."), "{past}");
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
    devices.check(("dns.example", ""), &devices.showing("tablet"), Some(false));
    for other in ["one", "lapsed"] {
        devices.check(("dns.example", ""), &devices.showing(other), None);
    }
    devices.check(("dns.example", ""), &[], None);
    fs::write(devices.path("clients-ca.pem"), "no certificate").unwrap();
    let reload = devices.site.avocet(&["reload"]);
    let text = String::from_utf8(reload.stderr).unwrap();
    assert!(!reload.status.success() && text.contains("clients-ca.pem"), "{text}");
    server.stop();
}

/// Sends a query over a connection. Returns the last octets of the response, its address; `None` if
/// the connection has ended.
fn ask_again(stream: &mut StreamOwned<ClientConnection, TcpStream>) -> Option<[u8; 4]> {
    let query = query_message(7, "a.kids.example");
    let mut message = (query.len() as u16).to_be_bytes().to_vec();
    message.extend(query);
    stream.write_all(&message).ok()?;
    let mut length = [0; 2];
    stream.read_exact(&mut length).ok()?;
    let mut response = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut response).ok()?;
    let end = response.windows(4).rev().find(|end| [[0; 4], ADDRESS].iter().any(|one| one == end));
    end.map(|end| end.try_into().unwrap())
}

/// The authority may have been replaced because its key is no longer secret.
#[test]
fn what_an_authority_proved_ends_with_the_authority_on_open_connections_too() {
    let clients = client("here", "127.0.0.0/8", "\"kids\"")
        + &client("tablet", "certificate:tablet.home", "");
    let asks = "client-ca = \"clients-ca.pem\"";
    let devices = Devices::new(&clients, asks);
    let server = devices.site.start();
    let mut before = devices.connect();
    assert_eq!(ask_again(&mut before), Some(ADDRESS));
    devices.change(&clients, asks);
    assert_eq!(ask_again(&mut before), Some(ADDRESS), "a reload without a change ends nothing");
    fs::copy(devices.path("one.pem"), devices.path("clients-ca.pem")).unwrap();
    devices.change(&clients, asks);
    while ask_again(&mut before).is_some() {}
    assert_eq!(ask_again(&mut devices.connect()), None, "another authority");
    for changed in ["", "client-ca = \"clients-ca.pem\""] {
        fs::write(devices.path("clients-ca.pem"), FILES[2].1).unwrap();
        let mut before = devices.connect();
        devices.change(&clients, changed);
        while ask_again(&mut before).is_some() {}
    }
    server.stop();
}

#[test]
fn all_encrypted_transports_know_words_and_reloads_and_a_new_process_keep_them() {
    let clients = client("phone", "id:ana-phone", "\"kids\"");
    let devices = Devices::new(&clients, "");
    let server = devices.site.start();
    let check = || {
        devices.check(("Ana-Phone.dns.example", ""), &[], Some(true));
        for name in ["dns.example", "ana.dns.example", "ana-phone.else.example"] {
            devices.check((name, ""), &[], Some(false));
        }
        // A wildcard is for one label.
        devices.check(("ana-phone.a.dns.example", ""), &[], Some(false));
        devices.check(("x.ana-phone.dns.example", ""), &[], Some(false));
        for at in &devices.ways("dns.example", "/dns-query/ANA-phone")[2..] {
            assert_eq!(devices.verdict(at, &[]), Some(true), "{at}");
        }
        // The path counts before the name of the server if both are known.
        for at in &devices.ways("ana-phone.dns.example", "/dns-query/nobody")[2..] {
            assert_eq!(devices.verdict(at, &[]), Some(true), "{at}");
        }
    };
    check();
    devices.change(&clients, "");
    check();
    let mut command = devices.site.serve();
    command.arg("--take-over");
    let successor = Server::start(command);
    server.wait();
    check();
    // Without the `[[client]]`, the identifier has no effect.
    devices.change("", "");
    devices.check(("ana-phone.dns.example", ""), &[], Some(false));
    successor.stop();
}

#[test]
fn paths_that_are_no_words_are_not_found_over_any_version_of_http() {
    let clients = client("phone", "id:ana-phone", "\"kids\"");
    let devices = Devices::new(&clients, "");
    let server = devices.site.start();
    let long = format!("/dns-query/{}", "a".repeat(64));
    let longer = format!("/dns-query/{}", "a".repeat(9_000));
    for path in [
        "/dns-query/",
        "/dns-query/ana-phone/",
        "/dns-query/%61na-phone",
        "/dns-query/ana-phone%00",
        "/dns-query/../dns-query/ana-phone",
        "/dns-query/ana.phone",
        "/dns-query//ana-phone",
        "/dns-query/\u{e4}na",
        "/DNS-QUERY/ana-phone",
        &long,
        &longer,
    ] {
        for at in &devices.ways("dns.example", path)[2..] {
            let output = devices.site.avocet(&["query", at, "a.kids.example", "+insecure"]);
            let text = String::from_utf8(output.stderr).unwrap();
            let is_rejected = ["status 404", "status 414"].iter().any(|one| text.contains(one));
            // Fields that are too long end the exchange before any status.
            assert!(!output.status.success() && (is_rejected || path == longer), "{at:.80} {text}");
        }
    }
    let longest = format!("/dns-query/{}", "a".repeat(63));
    for at in &devices.ways("dns.example", &longest)[2..] {
        assert_eq!(devices.verdict(at, &[]), Some(false), "{at}");
    }
    devices.check(("dns.example", ""), &[], Some(false));
    server.stop();
}

#[test]
fn certificates_prove_a_client_over_all_transports_and_words_do_not_replace_them() {
    let clients = client("here", "127.0.0.0/8", "\"kids\"")
        + &client("tablet", "certificate:tablet.home", "")
        + &client("dad", "id:tablet", "");
    let devices = Devices::new(&clients, "client-ca = \"clients-ca.pem\"");
    let server = devices.site.start();
    let shown = devices.showing("tablet");
    devices.check(("dns.example", ""), &shown, Some(false));
    devices.check(("dns.example", ""), &[], Some(true));
    // The identifier of another client, and the name in the certificate as an identifier, prove
    // nothing.
    devices.check(("tablet.dns.example", ""), &[], Some(true));
    for at in &devices.ways("dns.example", "/dns-query/tablet")[2..] {
        assert_eq!(devices.verdict(at, &[]), Some(true), "{at}");
    }
    // A certificate that belongs to no client, and an expired certificate, end the handshake.
    for other in ["one", "lapsed"] {
        devices.check(("dns.example", ""), &devices.showing(other), None);
    }
    let mut command = devices.site.serve();
    command.arg("--take-over");
    let successor = Server::start(command);
    server.wait();
    devices.check(("dns.example", ""), &shown, Some(false));
    devices.check(("dns.example", ""), &[], Some(true));
    successor.stop();
}
