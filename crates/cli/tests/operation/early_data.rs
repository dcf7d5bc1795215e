//! Early data over TLS at the running server: the setting, the metrics, and a reload.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread;

use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ClientConnection, RootCertStore, Stream};

use crate::server::{PATIENCE, Site, free_address, query};
use crate::upstream::{ADDRESS, Upstream};

const ONE: [&str; 2] = [include_str!("certificates/one.pem"), include_str!("certificates/one.key")];
/// The opcode UPDATE in the third octet of a message.
const UPDATE: u8 = 5 << 3;

fn configure(site: &Site, upstream: &Upstream, tls: SocketAddr, setting: &str) {
    for (name, text) in [("one.pem", ONE[0]), ("one.key", ONE[1])] {
        fs::write(site.directory.join(name), text).unwrap();
    }
    let rest = format!(
        "[[certificate]]\ncert = \"one.pem\"\nkey = \"one.key\"\n[[listener]]\nname = \"dot\"\n\
         listen = [\"tls://{tls}\"]\n"
    );
    site.configure(upstream.addr, &format!("workers = 1\n{setting}"), &rest);
}

/// Returns the configuration of a client that sends early data.
fn client_config() -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(ONE[0].as_bytes()).unwrap()).unwrap();
    let mut config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"dot".to_vec()];
    config.enable_early_data = true;
    Arc::new(config)
}

/// Connects, sends `early` as early data if the server permits it, and then `later`. Returns the
/// replies, and whether the server has accepted early data.
fn exchange(
    (tls, config): (SocketAddr, &Arc<ClientConfig>),
    early: &[Vec<u8>],
    later: &[Vec<u8>],
) -> (Vec<Vec<u8>>, bool) {
    let framed = |message: &Vec<u8>| {
        [&u16::try_from(message.len()).unwrap().to_be_bytes()[..], message].concat()
    };
    let name = tls.ip().into();
    let mut connection = ClientConnection::new(config.clone(), name).unwrap();
    let mut socket = TcpStream::connect(tls).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let octets: Vec<u8> = early.iter().flat_map(framed).collect();
    if let Some(mut writer) = connection.early_data() {
        writer.write_all(&octets).unwrap();
    }
    connection.complete_io(&mut socket).unwrap();
    let is_accepted = connection.is_early_data_accepted();
    let mut stream = Stream::new(&mut connection, &mut socket);
    if !is_accepted {
        stream.write_all(&octets).unwrap();
    }
    stream.write_all(&later.iter().flat_map(framed).collect::<Vec<_>>()).unwrap();
    stream.flush().unwrap();
    let mut replies = Vec::new();
    for _ in 0..early.len() + later.len() {
        let mut length = [0; 2];
        stream.read_exact(&mut length).unwrap();
        let mut reply = vec![0; usize::from(u16::from_be_bytes(length))];
        stream.read_exact(&mut reply).unwrap();
        replies.push(reply);
    }
    (replies, is_accepted)
}

#[test]
fn early_queries_are_answered_and_counted_if_the_setting_permits_them() {
    let (site, upstream, tls) = (Site::new(), Upstream::start(), free_address());
    configure(&site, &upstream, tls, "early-data = true");
    let server = site.start();
    let to = (tls, &client_config());
    let ask = |name: &str| query(1, name);
    let counted = || site.metric("avocet_early_data_total{transport=\"tls\"}");

    let (replies, is_early) = exchange(to, &[], &[ask("www.example")]);
    assert!(replies[0].ends_with(&ADDRESS) && !is_early);
    assert_eq!(counted(), 0.0);
    // The second query is in the packet cache, the first one must be resolved.
    let early = [ask("early.example"), ask("www.example")];
    let (replies, is_early) = exchange(to, &early, &[ask("later.example")]);
    assert!(is_early && replies.iter().all(|reply| reply.ends_with(&ADDRESS)));

    // An UPDATE waits for the end of the handshake, and is then refused as any other.
    let mut update = ask("www.example");
    update[2] = UPDATE;
    let (replies, is_early) = exchange(to, &[update], &[]);
    assert!(is_early);
    assert_eq!(replies[0][2] & UPDATE, UPDATE);
    assert_ne!(replies[0][3] & 0xf, 0);
    // Workers publish their counts twice a second.
    let published = || {
        thread::yield_now();
        counted()
    };
    assert!(std::iter::repeat_with(published).take(100_000).any(|count| count == 2.0));

    configure(&site, &upstream, tls, "early-data = false");
    site.avocet_text(&["reload"]);
    let (replies, is_early) = exchange(to, &[ask("www.example")], &[]);
    assert!(replies[0].ends_with(&ADDRESS) && !is_early);
    let shown = site.avocet_text(&["config", "show"]);
    assert!(shown.contains("early-data = false"), "{shown}");
    server.stop();
}
