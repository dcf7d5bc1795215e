//! The HTTP API over HTTPS.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::server::{PATIENCE, Site, free_address};
use crate::upstream::Upstream;

/// Certificates for 127.0.0.1 and their keys, for these tests only.
const ONE: [&str; 2] = [include_str!("certificates/one.pem"), include_str!("certificates/one.key")];
const TWO: [&str; 2] = [include_str!("certificates/two.pem"), include_str!("certificates/two.key")];

/// Sends a request to a server that must have a certificate. Returns the whole response.
fn request(server: SocketAddr, certificate: &str, text: &str) -> std::io::Result<String> {
    let ip = server.ip().to_string();
    request_as(&ip, server, certificate, text).map(|(response, _)| response)
}

/// Sends a request to a server that must prove a name with a certificate of an authority. Returns
/// the whole response, and the certificate of the server in DER.
pub(crate) fn request_as(
    name: &str,
    server: SocketAddr,
    certificate: &str,
    text: &str,
) -> std::io::Result<(String, Vec<u8>)> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let connection = ClientConnection::new(Arc::new(config), name).unwrap();
    let stream = TcpStream::connect(server)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut stream = StreamOwned::new(connection, stream);
    let text = text.replacen("\r\n", "\r\nConnection: close\r\n", 1);
    stream.write_all(text.as_bytes())?;
    let mut response = String::new();
    stream.read_to_string(&mut response)?;
    let shown = stream.conn.peer_certificates().unwrap()[0].to_vec();
    Ok((response, shown))
}

fn install(site: &Site, [certificate, key]: [&str; 2]) {
    fs::write(site.directory.join("cert.pem"), certificate).unwrap();
    fs::write(site.directory.join("key.pem"), key).unwrap();
}

fn configure(site: &Site, upstream: &Upstream, https: SocketAddr) {
    let web = format!("[web]\nhttps = \"{https}\"\ntls-cert = \"cert.pem\"\ntls-key = \"key.pem\"");
    site.configure(upstream.addr, "", &web);
}

pub(crate) const HEALTH: &str = "GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";

#[test]
fn a_browser_gets_a_cookie_that_is_for_https_only() {
    let (site, upstream, https) = (Site::new(), Upstream::start(), free_address());
    install(&site, ONE);
    configure(&site, &upstream, https);
    let server = site.start();
    let offer = server.seen_line("/setup#");
    assert!(offer.contains(&format!("https://{https}/setup#")), "{offer}");
    let link = offer.split_once("/setup#").unwrap().1.split(' ').next().unwrap();
    let post = |path: &str, body: String| {
        let text = format!(
            "POST {path} HTTP/1.1\r\nHost: {https}\r\nOrigin: https://{https}\r\nContent-Type: \
             application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        request(https, ONE[0], &text).unwrap()
    };
    let user = "\"name\":\"ada\",\"password\":\"correct horse\"";
    let added = post("/api/v1/setup", format!("{{\"link\":\"{link}\",{user}}}"));
    assert!(added.starts_with("HTTP/1.1 200 "), "{added}");
    let response = post("/api/v1/session", format!("{{{user}}}"));
    for part in ["set-cookie: __Host-avocet-session=", "; Secure", "strict-transport-security: "] {
        assert!(response.contains(part), "{part} in {response}");
    }
    assert!(request(https, ONE[0], HEALTH).unwrap().ends_with("healthy\n"));
    assert_eq!(site.http_get("/health").0, 200, "HTTP is served too");
}

#[test]
fn a_certificate_that_is_replaced_is_used_without_a_restart() {
    let (site, upstream, https) = (Site::new(), Upstream::start(), free_address());
    install(&site, ONE);
    configure(&site, &upstream, https);
    let mut server = site.start();
    request(https, ONE[0], HEALTH).unwrap();
    install(&site, [TWO[0], ONE[1]]);
    while server.seen().iter().all(|line| !line.contains("the certificate before stays in use")) {
        request(https, ONE[0], HEALTH).unwrap();
        server.read_lines();
    }
    install(&site, TWO);
    while request(https, TWO[0], HEALTH).is_err() {
        std::thread::yield_now();
    }
    assert!(request(https, ONE[0], HEALTH).is_err());
}

#[test]
fn https_takes_the_certificate_of_encrypted_dns_and_its_replacement() {
    let (site, upstream, https) = (Site::new(), Upstream::start(), free_address());
    install(&site, ONE);
    let text = format!(
        "[web]\nhttps = \"{https}\"\n[[certificate]]\ncert = \"cert.pem\"\nkey = \"key.pem\"\n"
    );
    site.configure(upstream.addr, "", &text);
    let server = site.start();
    assert!(request(https, ONE[0], HEALTH).unwrap().ends_with("healthy\n"));
    let list = site.avocet_text(&["certificate", "list"]);
    assert!(list.contains(&format!("at https://{https}")), "{list}");
    install(&site, TWO);
    while request(https, TWO[0], HEALTH).is_err() {
        std::thread::yield_now();
    }
    server.stop();
}

#[test]
fn an_unusable_certificate_is_a_warning_until_it_is_usable() {
    let (site, upstream, https) = (Site::new(), Upstream::start(), free_address());
    install(&site, [ONE[0], TWO[1]]);
    configure(&site, &upstream, https);
    let checked = String::from_utf8(site.avocet(&["check", "--json"]).stdout).unwrap();
    assert!(checked.contains("cert.pem and its key cannot be used"), "{checked}");
    let mut server = site.start();
    server.wait_for_line("HTTPS is not served until");
    let shown = site.avocet_text(&["status"]);
    assert!(shown.contains("cert.pem and its key cannot be used"), "{shown}");
    let (status, health) = site.http_get("/health");
    assert!(status == 200 && health.contains("warning: certificate: "), "{health}");
    assert!(request(https, ONE[0], HEALTH).is_err());
    install(&site, ONE);
    while request(https, ONE[0], HEALTH).is_err() {
        std::thread::yield_now();
    }
    server.wait_for_line("condition resolved");
    fs::write(site.directory.join("cert.pem"), "not a certificate").unwrap();
    server.wait_for_line("the certificate before stays in use");
    request(https, ONE[0], HEALTH).unwrap();
}
