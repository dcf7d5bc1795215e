//! Transfers of hosted zones over TLS (RFC 9103), with this server at both ends, with kdig, with
//! NSD, and with primaries at fault.

use std::fs::{self, Permissions};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::Arc;
use std::thread;

use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::version::{TLS12, TLS13};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned,
    SupportedProtocolVersion,
};

use crate::peers::Peer;
use crate::server::{Server, Site, free_address, is_here};
use crate::transfers::send_notify;
use crate::upstream::Upstream;

const SECRET: &str = "c2VjcmV0IHNlY3JldCBzZWNyZXQgc2VjcmV0ISE=";
/// A certificate for `ns1.example` and its key, for these tests only.
const NAMED: [&str; 2] =
    [include_str!("certificates/named.pem"), include_str!("certificates/named.key")];
/// One for another name.
const ONE: [&str; 2] = [include_str!("certificates/one.pem"), include_str!("certificates/one.key")];
/// The pins of both.
const PIN: &str = "cvu3kVSSjhYYEXBjLnjbNFJqribF2pSmQnAJ+pxiFJ0=";
const PIN_OF_ONE: &str = "mqDDURc1dZr5YY+aTgGL4+n6/7FD8REgJO/s6fqdbxM=";
/// Hosts of the zone: their records need several messages.
const HOSTS: usize = 2_000;

fn zone_text(serial: u32) -> String {
    let host = |host: usize| format!("h{host} A 10.0.{}.{}\n", host >> 8, host & 255);
    let hosts: String = (0..HOSTS).map(host).collect();
    format!(
        "$ORIGIN corp.example.\n$TTL 60\n@ SOA ns host {serial} 2h 3m 4w 60\n@ NS ns\nns A \
         192.0.2.1\nv{serial} A 192.0.2.2\n{hosts}"
    )
}

/// Writes the key of transfers and the certificates. Returns the tables of the keys.
fn install(site: &Site) -> String {
    let write = |name: &str, text: &str| {
        let path = site.directory.join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    };
    for (stem, [certificate, key]) in [("named", NAMED), ("one", ONE)] {
        write(&format!("{stem}.pem"), certificate);
        write(&format!("{stem}.key"), key);
    }
    write("secret", SECRET);
    let key = |name: &str| format!("[[key]]\nname = \"{name}\"\nsecret-file = \"secret\"\n");
    key("transfer") + &key("other")
}

/// A server with `corp.example` and a listener for TLS.
struct Primary {
    site: Site,
    tls: SocketAddr,
    _server: Server,
    _upstream: Upstream,
}

impl Primary {
    fn start(settings: &str) -> Self {
        let (upstream, site, tls) = (Upstream::start(), Site::new(), free_address());
        let keys = install(&site);
        fs::write(site.directory.join("corp.zone"), zone_text(7)).unwrap();
        let text = format!(
            "{keys}[[certificate]]\nnames = [\"ns1.example\"]\ncert = \"named.pem\"\nkey = \
             \"named.key\"\n[[listener]]\nname = \"dot\"\nlisten = [\"tls://{tls}\"]\n[[zone]]\nname \
             = \"corp.example\"\nfile = \"corp.zone\"\nsettle-secs = 3600\n{settings}\n"
        );
        site.configure(upstream.addr, "", &text);
        let server = site.start();
        Self { site, tls, _server: server, _upstream: upstream }
    }

    fn publish(&self, serial: u32) {
        fs::write(self.site.directory.join("corp.zone"), zone_text(serial)).unwrap();
        self.site.avocet_text(&["zone", "reload", "corp.example"]);
    }
}

/// Configures a server with `corp.example` of others.
fn secondary(primaries: &str, settings: &str) -> (Site, Upstream) {
    let (upstream, site) = (Upstream::start(), Site::new());
    let keys = install(&site);
    let zone =
        format!("{keys}[[zone]]\nname = \"corp.example\"\nprimaries = [{primaries}]\n{settings}\n");
    site.configure(upstream.addr, "", &zone);
    (site, upstream)
}

#[test]
fn a_zone_and_its_changes_are_transferred_over_tls_alone() {
    let notified = Site::new();
    let settings = format!(
        "allow-transfer = [\"key transfer tls\"]\nnotify = [\"{} key transfer\"]",
        notified.dns
    );
    let primary = Primary::start(&settings);
    // The first primary has no TLS: it refuses. Each has a key of its own.
    let primaries = format!(
        "\"{} key transfer\", \"tls://ns1.example@{} key transfer\"",
        primary.site.dns, primary.tls
    );
    let keys = install(&notified);
    let upstream = Upstream::start();
    let zone = format!(
        "{keys}[[zone]]\nname = \"corp.example\"\nprimaries = [{primaries}]\nca = \"named.pem\"\n"
    );
    notified.configure(upstream.addr, "", &zone);
    let mut server = notified.start();
    let line = server.wait_for_line("zone corp.example. transferred");
    assert!(line.contains(&format!("tls://ns1.example@{}", primary.tls)), "{line}");
    assert!(server.seen().iter().any(|line| line.contains("REFUSED")), "{:?}", server.seen());
    assert_eq!(notified.ask("h300.corp.example").0, [10, 0, 1, 44]);
    primary.publish(8);
    let line = server.wait_for_line("zone corp.example. transferred");
    assert!(line.contains("serial=8"), "{line}");
    assert_eq!(notified.ask("v8.corp.example").0, [192, 0, 2, 2]);
    assert_eq!(notified.metric("avocet_zone_tls_transfers_in_total"), 2.0);
    assert_eq!(notified.metric("avocet_zone_changes_in_total"), 1.0);
    let list = notified.avocet_text(&["zone", "list"]);
    let shown = format!("tls://ns1.example@{} key transfer.", primary.tls);
    assert!(list.contains(&shown), "{list}");
    let config = notified.avocet_text(&["config", "show"]);
    assert!(config.contains(&shown), "{config}");
}

/// The behaviour of a primary in TLS.
#[derive(Clone, Copy)]
enum Manner {
    /// Speaks this version of TLS, and selects this protocol.
    Speaks(&'static SupportedProtocolVersion, Option<&'static [u8]>),
    /// Speaks another protocol than TLS.
    Plain,
}

/// Starts a primary with a certificate that accepts all connections, and ends each after the
/// handshake.
fn faulty(certificate: [&str; 2], manner: Manner) -> SocketAddr {
    let listener = crate::server::tcp_listener();
    let addr = listener.local_addr().unwrap();
    let version = match manner {
        Manner::Speaks(version, _) => version,
        Manner::Plain => &TLS13,
    };
    let mut config = server_config(certificate, version);
    if let Manner::Speaks(_, Some(alpn)) = manner {
        config.alpn_protocols = vec![alpn.to_vec()];
    }
    let config = Arc::new(config);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            // The client may end the connection at any point.
            let _ = match manner {
                Manner::Plain => stream.write_all(b"220 mail.example ESMTP\r\n"),
                Manner::Speaks(..) => {
                    let connection = ServerConnection::new(config.clone()).unwrap();
                    receive(&mut StreamOwned::new(connection, stream)).map(drop)
                }
            };
        }
    });
    addr
}

fn server_config(
    [certificate, key]: [&str; 2],
    version: &'static SupportedProtocolVersion,
) -> ServerConfig {
    let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
    ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[version])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap()
}

/// Reads one message.
fn receive(stream: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut len = [0; 2];
    stream.read_exact(&mut len)?;
    let mut message = vec![0; usize::from(u16::from_be_bytes(len))];
    stream.read_exact(&mut message)?;
    Ok(message)
}

#[test]
fn a_primary_that_does_not_prove_its_name_over_tls_1_3_gets_no_query() {
    let dot = Manner::Speaks(&TLS13, Some(b"dot"));
    let check = |certificate, manner, settings: &str, expected: &str| {
        let addr = faulty(certificate, manner);
        let (site, _upstream) = secondary(&format!("\"tls://ns1.example@{addr}\""), settings);
        let mut server = site.start();
        let line = server.wait_for_line(&format!("tls://ns1.example@{addr}: "));
        assert!(line.contains(expected), "{settings}: {line}");
        assert_eq!(site.ask_any("ns.corp.example").0 & 15, 2);
        assert!(site.avocet_text(&["status"]).contains("no primary is usable"));
    };
    let pins = |pin: &str| format!("pins = [\"{pin}\"]");
    check(NAMED, dot, "ca = \"one.pem\"", "TLS: invalid peer certificate");
    check(ONE, dot, "ca = \"one.pem\"", "not valid for name \"ns1.example\"");
    check(NAMED, dot, &pins(PIN_OF_ONE), "TLS: invalid peer certificate");
    // The authority has issued the certificate, but the certificate has another key.
    let both = format!("ca = \"named.pem\"\n{}", pins(PIN_OF_ONE));
    check(NAMED, dot, &both, "TLS: invalid peer certificate");
    let old = Manner::Speaks(&TLS12, Some(b"dot"));
    check(NAMED, old, "ca = \"named.pem\"", "TLS: received fatal alert: ProtocolVersion");
    let http = Manner::Speaks(&TLS13, Some(b"h2"));
    check(NAMED, http, "ca = \"named.pem\"", "TLS: received fatal alert: NoApplicationProtocol");
    check(NAMED, Manner::Plain, "ca = \"named.pem\"", "TLS: received corrupt message");
    // The proof is good: the query is sent, and then the connection ends.
    check(NAMED, dot, &pins(PIN), "unexpected end of file");
    let both = format!("ca = \"named.pem\"\n{}", pins(PIN));
    check(NAMED, dot, &both, "unexpected end of file");
}

/// A message with these answers of `corp.example`: types and data.
fn answers(records: &[(u8, &[u8])]) -> Vec<u8> {
    let mut message = vec![0, 0, 0x84, 0, 0, 1, 0, records.len() as u8, 0, 0, 0, 0];
    message.extend_from_slice(b"\x04corp\x07example\0\0\xfc\0\x01");
    for (rtype, data) in records {
        message.extend_from_slice(&[0xc0, 12, 0, *rtype, 0, 1, 0, 0, 0, 60, 0, data.len() as u8]);
        message.extend_from_slice(data);
    }
    message
}

/// Answers a check of the zone: the SOA record, then the transfer up to a place. Ends each
/// connection, with or without the alert of TLS.
fn cut_transfer(
    listener: &TcpListener,
    config: &Arc<ServerConfig>,
    messages: &[Vec<u8>],
    place: usize,
) {
    for answers in [&messages[..1], &messages[..place]] {
        let (stream, _) = listener.accept().unwrap();
        let connection = ServerConnection::new(config.clone()).unwrap();
        let mut stream: StreamOwned<_, TcpStream> = StreamOwned::new(connection, stream);
        let asked = receive(&mut stream).unwrap();
        for message in answers {
            let mut message = message.clone();
            message[..2].copy_from_slice(&asked[..2]);
            let frame = [&(message.len() as u16).to_be_bytes()[..], &message].concat();
            stream.write_all(&frame).unwrap();
        }
        if place.is_multiple_of(2) {
            stream.conn.send_close_notify();
        }
        stream.flush().unwrap();
    }
}

#[test]
fn a_transfer_over_tls_that_is_cut_at_any_message_changes_nothing() {
    let listener = crate::server::tcp_listener();
    let addr = listener.local_addr().unwrap();
    let config = Arc::new(server_config(NAMED, &TLS13));
    let (site, _upstream) =
        secondary(&format!("\"tls://ns1.example@{addr}\""), &format!("pins = [\"{PIN}\"]"));
    let mut server = site.start();
    let of = |serial: u32| {
        let numbers = [serial, 3_600, 3_600, 2_419_200, 60].map(u32::to_be_bytes).concat();
        let soa = [&b"\x02ns\xc0\x0c\x01h\xc0\x0c"[..], &numbers].concat();
        let one = |rtype, data: &[u8]| answers(&[(rtype, data)]);
        let (soa, ns) = (one(6, &soa), one(2, b"\x03ns1\x05other\0"));
        vec![soa.clone(), ns, one(16, &[1, serial as u8]), one(16, &[1, 200]), soa]
    };
    let first = of(65);
    cut_transfer(&listener, &config, &first, first.len());
    server.wait_for_line("zone corp.example. transferred");
    let held = site.avocet_text(&["zone", "export", "corp.example"]);
    let second = of(66);
    for place in 0..second.len() {
        assert_eq!(send_notify(site.dns, "corp.example", "127.0.0.1"), 0);
        cut_transfer(&listener, &config, &second, place);
        server.wait_for_line("unexpected end of file");
        assert_eq!(site.avocet_text(&["zone", "export", "corp.example"]), held, "{place}");
    }
    assert_eq!(send_notify(site.dns, "corp.example", "127.0.0.1"), 0);
    cut_transfer(&listener, &config, &second, second.len());
    server.wait_for_line("zone corp.example. transferred");
    assert_eq!(site.metric("avocet_zone_tls_transfers_in_total"), 2.0);
}

#[test]
fn kdig_transfers_a_zone_over_tls_that_it_does_not_get_otherwise() {
    if !is_here("kdig") {
        return;
    }
    let primary = Primary::start("allow-transfer = [\"127.0.0.0/8 tls\"]");
    let ask = |server: SocketAddr, more: &[&str]| {
        let output = Command::new("kdig")
            .args([&format!("@{}", server.ip()), "-p", &server.port().to_string()])
            .args(["+retry=0", "corp.example"])
            .args(more)
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let pin = format!("+tls-pin={PIN}");
    let text = ask(primary.tls, &["AXFR", "+tls", &pin]);
    assert!(text.contains("h1999.corp.example."), "{}", &text[..text.len().min(2_000)]);
    let text = ask(primary.tls, &["IXFR=7", "+tls", &pin]);
    assert!(text.contains("SOA") && !text.contains("h1999"), "{text}");
    for more in [["AXFR", "+tcp"], ["IXFR=6", "+tcp"], ["IXFR=6", "+notcp"]] {
        let text = ask(primary.site.dns, &more);
        assert!(!text.contains("SOA") && !text.contains("h1999.corp.example."), "{text}");
    }
}

/// Asks for a transfer of `corp.example` over TLS of a version. Returns the first response.
fn first_of_transfer(server: SocketAddr, version: &'static SupportedProtocolVersion) -> Vec<u8> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(NAMED[0].as_bytes()).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[version])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = "ns1.example".try_into().unwrap();
    let connection = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut stream = StreamOwned::new(connection, TcpStream::connect(server).unwrap());
    let query = b"\0\x1e\0\x07\0\0\0\x01\0\0\0\0\0\0\x04corp\x07example\0\0\xfc\0\x01";
    stream.write_all(query).unwrap();
    receive(&mut stream).unwrap()
}

#[test]
fn a_transfer_over_tls_1_2_is_refused_where_tls_is_required() {
    let check = |rule: &str, version, expected: u8| {
        let primary = Primary::start(&format!("allow-transfer = [\"{rule}\"]"));
        let response = first_of_transfer(primary.tls, version);
        assert_eq!(response[3] & 15, expected, "{rule} {version:?}");
    };
    check("127.0.0.0/8 tls", &TLS12, 5);
    check("127.0.0.0/8 tls", &TLS13, 0);
    check("127.0.0.0/8", &TLS12, 0);
}

#[test]
fn bad_settings_of_primaries_are_errors() {
    let check = |primaries: &str, settings: &str, expected: &str| {
        let (site, _upstream) = secondary(primaries, settings);
        let output = site.avocet(&["check"]);
        let text =
            String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
        assert!(text.contains(expected), "{primaries} {settings}: {text}");
    };
    check("\"tls://ns1.example\"", "", "\"ns1.example\" has no address");
    check("\"tls://*.example@192.0.2.1\"", "", "is not a host name");
    check("\"https://ns1.example@192.0.2.1\"", "", "expected a server");
    check("\"192.0.2.1 key nobody\"", "", "no [[key]] has the name \"nobody.\"");
    check("\"192.0.2.1\", \"192.0.2.1:53\"", "", "duplicate server 192.0.2.1:53");
    check("\"192.0.2.1 key other\"", "key = \"transfer\"", "each primary has a key of its own");
    check("\"192.0.2.1\"", "ca = \"one.pem\"", "`ca` has no effect: no primary has tls://");
    let tls = "\"tls://ns1.example@192.0.2.1\"";
    check(tls, "ca = \"nothing.pem\"", "nothing.pem");
    check(tls, "ca = \"secret\"", "secret");
    check(tls, "pins = [\"AAAA\"]", "44 characters");
    check(tls, "client-cert = \"one.pem\"", "`client-cert` needs `client-key`");
}

/// Starts NSD with `corp.example` and these settings of the server, of TLS and of the zone.
fn nsd(site: Site, addr: SocketAddr, [server, tls, zone]: [&str; 3]) -> Option<Peer> {
    let (dir, port) = (site.directory.display(), addr.port());
    let text = format!(
        "server:\n  ip-address: 127.0.0.1@{port}\n  server-count: 1\n  username: \"\"\n  zonesdir: \
         \"{dir}\"\n  pidfile: \"{dir}/nsd.pid\"\n  xfrdir: \"{dir}\"\n  zonelistfile: \
         \"{dir}/zones\"\n  xfrdfile: \"\"\n  database: \"\"\n{server}remote-control:\n  \
         control-enable: no\nkey:\n  name: transfer\n  algorithm: hmac-sha256\n  secret: \
         \"{SECRET}\"\n{tls}zone:\n  name: corp.example.\n{zone}"
    );
    Peer::run(site, ("nsd", &["-d", "-c"]), &text, addr)
}

#[test]
fn nsd_transfers_a_zone_over_tls() {
    let primary = Primary::start("allow-transfer = [\"key transfer tls\"]");
    let (site, addr) = (Site::new(), free_address());
    let server = format!("  tls-cert-bundle: \"{}/named.pem\"\n", primary.site.directory.display());
    let tls = "tls-auth:\n  name: avocet\n  auth-domain-name: ns1.example\n";
    let zone = format!(
        "  zonefile: copy\n  request-xfr: {}@{} transfer avocet\n",
        primary.tls.ip(),
        primary.tls.port()
    );
    if let Some(peer) = nsd(site, addr, [&server, tls, &zone]) {
        peer.wait_for("h1999.corp.example");
    }
}

#[test]
fn this_server_transfers_a_zone_from_nsd_over_tls() {
    let (site, addr, tls) = (Site::new(), free_address(), free_address());
    install(&site);
    fs::write(site.directory.join("zone"), zone_text(7)).unwrap();
    let (dir, port) = (site.directory.display(), tls.port());
    let server = format!(
        "  ip-address: 127.0.0.1@{port}\n  tls-port: {port}\n  tls-service-key: \
         \"{dir}/named.key\"\n  tls-service-pem: \"{dir}/named.pem\"\n"
    );
    let zone = "  zonefile: zone\n  provide-xfr: 127.0.0.1 transfer\n";
    let Some(peer) = nsd(site, addr, [&server, "", zone]) else { return };
    peer.wait_for("h1999.corp.example");
    let primaries = format!("\"tls://ns1.example@{tls} key transfer\"");
    let (site, _upstream) = secondary(&primaries, "ca = \"named.pem\"");
    let mut server = site.start();
    server.wait_for_line("zone corp.example. transferred");
    assert_eq!(site.ask("h300.corp.example").0, [10, 0, 1, 44]);
    assert_eq!(site.metric("avocet_zone_tls_transfers_in_total"), 1.0);
}
