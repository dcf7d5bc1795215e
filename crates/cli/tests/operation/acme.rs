//! Certificates that the server obtains by itself, from an authority of the tests, and from Pebble
//! where it is installed.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use avocet_testkit::authority::{Answered, Asked, AuthorityFault, Sought, TestAuthority};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::https::{HEALTH, request_as};
use crate::peers::{Peer, SECRET, accepts, start_until};
use crate::server::{PATIENCE, Server, Site, free_address};
use crate::upstream::Upstream;

/// A certificate for 127.0.0.1 and its key, for these tests only.
const OWN: [&str; 2] = [include_str!("certificates/one.pem"), include_str!("certificates/one.key")];

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// An authority over HTTPS, on a thread of its own.
struct RunningAuthority {
    address: SocketAddr,
    authority: Arc<Mutex<TestAuthority>>,
    is_ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl RunningAuthority {
    fn start(proofs: SocketAddr, faults: &[AuthorityFault]) -> Self {
        Self::looking(move |sought| look_by_http(proofs, sought), faults)
    }

    fn looking(look: impl Fn(&Sought) -> bool + Send + 'static, faults: &[AuthorityFault]) -> Self {
        let listener = crate::server::tcp_listener();
        let address = listener.local_addr().unwrap();
        let mut authority = TestAuthority::new(&format!("https://{address}"), now(), look);
        authority.faults.extend(faults);
        let authority = Arc::new(Mutex::new(authority));
        let is_ending = Arc::new(AtomicBool::new(false));
        let (shared, ending) = (authority.clone(), is_ending.clone());
        let thread = thread::spawn(move || {
            let config = tls();
            for stream in listener.incoming() {
                if ending.load(Ordering::Relaxed) {
                    return;
                }
                let connection = ServerConnection::new(config.clone()).unwrap();
                let stream = StreamOwned::new(connection, stream.unwrap());
                // The client may disconnect.
                let _ = serve(stream, &shared, address);
            }
        });
        Self { address, authority, is_ending, thread: Some(thread) }
    }

    fn directory(&self) -> String {
        format!("https://{}/directory", self.address)
    }

    fn change(&self, change: impl FnOnce(&mut TestAuthority)) {
        change(&mut self.authority.lock().unwrap());
    }
}

impl Drop for RunningAuthority {
    fn drop(&mut self) {
        self.is_ending.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address);
        let _ = self.thread.take().unwrap().join();
    }
}

fn tls() -> Arc<ServerConfig> {
    let chain = vec![CertificateDer::from_pem_slice(OWN[0].as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(OWN[1].as_bytes()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key);
    Arc::new(config.unwrap())
}

/// Serves one request.
fn serve(
    mut stream: StreamOwned<ServerConnection, TcpStream>,
    authority: &Mutex<TestAuthority>,
    address: SocketAddr,
) -> std::io::Result<()> {
    stream.sock.set_read_timeout(Some(PATIENCE))?;
    let (mut octets, mut buffer) = (Vec::new(), [0; 4_096]);
    let (head, body_at) = loop {
        let len = stream.read(&mut buffer)?;
        octets.extend_from_slice(&buffer[..len]);
        if let Some(end) = octets.windows(4).position(|four| four == b"\r\n\r\n") {
            break (String::from_utf8_lossy(&octets[..end]).to_ascii_lowercase(), end + 4);
        }
        if len == 0 {
            return Ok(());
        }
    };
    let len = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let len: usize = len.map_or(0, |len| len.parse().unwrap());
    while octets.len() < body_at + len {
        let more = stream.read(&mut buffer)?;
        octets.extend_from_slice(&buffer[..more]);
    }
    let line = String::from_utf8_lossy(&octets).lines().next().unwrap().to_owned();
    let path = line.split(' ').nth(1).unwrap();
    let body = line.starts_with("POST").then(|| &octets[body_at..]);
    let url = format!("https://{address}{path}");
    let Answered { status, fields, body } =
        authority.lock().unwrap().respond(Asked { url: &url, body });
    write!(stream, "HTTP/1.1 {status} Status\r\nconnection: close\r\n")?;
    for (name, value) in fields {
        write!(stream, "{name}: {value}\r\n")?;
    }
    write!(stream, "content-length: {}\r\n\r\n", body.len())?;
    stream.write_all(&body)?;
    stream.conn.send_close_notify();
    stream.flush()
}

/// Reports whether the proof is at its path.
fn look_by_http(proofs: SocketAddr, sought: &Sought) -> bool {
    let Ok(mut stream) = TcpStream::connect(proofs) else { return false };
    let path = format!("/.well-known/acme-challenge/{}", sought.token);
    let _ = write!(stream, "GET {path} HTTP/1.1\r\nhost: {}\r\n\r\n", sought.name);
    let mut text = String::new();
    let _ = stream.read_to_string(&mut text);
    text.starts_with("HTTP/1.1 200 OK\r\n") && text.ends_with(&sought.authorization)
}

/// Reports whether a TXT record has the proof.
fn look_by_dns(dns: SocketAddr, sought: &Sought) -> bool {
    assert_eq!(sought.kind, "dns-01");
    texts(dns, &sought.name).contains(&format!("\"{}\"", sought.record()))
}

/// Asks for the proofs of a name.
fn texts(dns: SocketAddr, name: &str) -> Vec<String> {
    let owner = format!("_acme-challenge.{}", name.trim_start_matches("*."));
    let output = Command::new("dig")
        .args([&format!("@{}", dns.ip()), "-p", &dns.port().to_string(), "+short", "TXT", &owner])
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// Writes the zone `dns.example`, and returns its table with `rest`.
fn hosted(site: &Site, rest: &str) -> String {
    let file = site.directory.join("dns.zone");
    let text = "$TTL 60\n; kept\n@ SOA ns h 1 2 3 4 5\n@ NS ns\n@ A 127.0.0.1\nns A 127.0.0.1\n\
                _acme-challenge TXT left-behind\n";
    fs::write(&file, text).unwrap();
    format!("[[zone]]\nname = \"dns.example\"\nfile = \"{}\"\n{rest}\n", file.display())
}

/// A program with the zone `dns.example`, which the key `acme` may change.
fn updated(program: &str, addr: SocketAddr) -> Option<Peer> {
    let (site, port) = (Site::new(), addr.port());
    let at = site.directory.clone();
    fs::create_dir(at.join("knot")).unwrap();
    let zone = "$ORIGIN dns.example.\n$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ NS ns\n@ A 127.0.0.1\n\
                ns A 127.0.0.1\n";
    fs::write(at.join("zone"), zone).unwrap();
    let dir = at.display();
    let (arguments, text): (&[&str], _) = match program {
        "named" => {
            let text = format!(
                "options {{ directory \"{dir}\"; listen-on port {port} {{ 127.0.0.1; }}; \
                 listen-on-v6 {{ none; }}; recursion no; pid-file none; session-keyfile none; \
                 lock-file none; dnssec-validation no; notify no; }};\ncontrols {{ }};\nkey acme \
                 {{ algorithm hmac-sha256; secret \"{SECRET}\"; }};\nzone \"dns.example\" {{ type \
                 master; file \"zone\"; update-policy {{ grant acme name \
                 _acme-challenge.dns.example. TXT; }}; }};\n"
            );
            (&["-g", "-n", "1", "-c"], text)
        }
        _ => {
            let text = format!(
                "server:\n  listen: 127.0.0.1@{port}\n  rundir: \"{dir}\"\ncontrol:\n  listen: \
                 \"{dir}/knot.sock\"\nlog:\n  - target: stderr\n    any: info\ndatabase:\n  \
                 storage: \"{dir}/knot\"\nkey:\n  - id: acme\n    algorithm: hmac-sha256\n    \
                 secret: {SECRET}\nacl:\n  - id: acme\n    key: acme\n    action: update\n    \
                 update-owner: name\n    update-owner-name: _acme-challenge\n    update-type: \
                 TXT\ntemplate:\n  - id: default\n    storage: \"{dir}\"\nzone:\n  - domain: \
                 dns.example.\n    file: zone\n    acl: acme\n"
            );
            (&["-c"], text)
        }
    };
    let peer = Peer::run(site, (program, arguments), &text, addr)?;
    peer.wait_for("dns.example");
    Some(peer)
}

/// The settings for proofs in the zone of another server.
fn elsewhere(addr: SocketAddr) -> String {
    format!("challenge = \"dns-01\"\nupdate-server = \"{addr}\"\nupdate-key = \"acme\"")
}

/// Writes the key for updates, and returns its table, with the address of the name server, at which
/// nothing listens.
fn key_for_updates(site: &Site, secret: &str) -> String {
    let file = site.directory.join("secret");
    fs::write(&file, secret).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    "[[key]]\nname = \"acme\"\nsecret-file = \"secret\"\n[[record]]\nname = \"ns.dns.example\"\n\
     type = \"A\"\nvalues = [\"127.0.0.1\"]\n"
        .to_owned()
}

/// Writes a configuration with `[acme]` and a listener with TLS.
fn configure(site: &Site, upstream: &Upstream, tls: SocketAddr, acme: &str) {
    fs::write(site.directory.join("ca.pem"), OWN[0]).unwrap();
    let listener = format!("[[listener]]\nname = \"dot\"\nlisten = [\"tls://{tls}\"]\n");
    let acme = format!(
        "[acme]\nnames = [\"dns.example\"]\nagree-to-terms = true\nca = \"ca.pem\"\n{acme}\n"
    );
    site.configure(upstream.addr, "", &[acme, listener].concat());
}

fn settings(authority: &RunningAuthority, proofs: SocketAddr) -> String {
    format!("directory = \"{}\"\nhttp-listen = [\"{proofs}\"]", authority.directory())
}

/// Asks over TLS until the certificate is in use, and checks it against the authority.
fn ask_over_tls(site: &Site, tls: SocketAddr, root: &str) -> String {
    fs::write(site.directory.join("root.pem"), root).unwrap();
    let ca = format!("+ca={}", site.directory.join("root.pem").display());
    let server = format!("@tls://dns.example@{tls}");
    let asked = std::iter::repeat_with(|| {
        let output = site.avocet(&["query", &server, "www.example", &ca, "+short"]);
        output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
    });
    asked.take(10_000).flatten().next().unwrap()
}

fn root(authority: &RunningAuthority) -> String {
    authority.authority.lock().unwrap().root_pem()
}

fn wait_for(server: &mut Server, text: &str) {
    server.wait_for_line(text);
}

#[test]
fn a_certificate_is_obtained_used_renewed_and_kept_over_a_restart() {
    let (site, upstream) = (Site::new(), Upstream::start());
    let (tls, proofs) = (free_address(), free_address());
    let authority = RunningAuthority::start(proofs, &[AuthorityFault::Nonce]);
    authority.change(|authority| authority.life_secs = 3_600);
    configure(&site, &upstream, tls, &settings(&authority, proofs));
    let mut server = site.start();
    wait_for(&mut server, "certificate obtained");
    assert_eq!(ask_over_tls(&site, tls, &root(&authority)), "192.0.2.77\n");
    assert!(TcpStream::connect(proofs).is_err(), "the listener for proofs stays open");

    let storage = site.data().join("acme");
    let mode = |path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(storage.clone()), 0o700);
    let names = ["account.json", "certificate.pem", "state.json"];
    let modes = names.map(|name| mode(storage.join(name)));
    assert_eq!(modes, [0o600; 3]);
    let status = site.avocet_text(&["status"]);
    assert!(status.contains("certificate dns.example (dns): expires in"), "{status}");
    assert!(
        status.contains(&format!("from {}: next attempt in", authority.directory())),
        "{status}"
    );
    assert_eq!(site.metric("avocet_certificate_renewals_total{result=\"success\"}"), 1.0);
    let next = site.metric("avocet_certificate_next_renewal_timestamp_seconds");
    assert!((now() as f64 + 2_000.0..now() as f64 + 3_000.0).contains(&next), "{next}");
    server.stop();

    // A restart requests no certificate: the certificate is on disk.
    let server = site.start();
    assert_eq!(ask_over_tls(&site, tls, &root(&authority)), "192.0.2.77\n");
    assert_eq!(authority.authority.lock().unwrap().ordered, 1);
    server.stop();

    // Two thirds of its life have passed, as the state on disk says.
    let state = fs::read_to_string(storage.join("state.json")).unwrap();
    let mut state: serde_json::Value = serde_json::from_str(&state).unwrap();
    state["next-attempt"] = (now() - 1).into();
    fs::write(storage.join("state.json"), state.to_string()).unwrap();
    let before = fs::read(storage.join("certificate.pem")).unwrap();
    let mut server = site.start();
    wait_for(&mut server, "certificate obtained");
    assert_ne!(fs::read(storage.join("certificate.pem")).unwrap(), before);
    assert_eq!(authority.authority.lock().unwrap().accounts(), 1);
    wait_for(&mut server, "the files of certificates have changed and are in use");
    assert_eq!(ask_over_tls(&site, tls, &root(&authority)), "192.0.2.77\n");
    server.stop();
}

#[test]
fn a_wildcard_is_proven_by_records_in_a_hosted_zone_that_go_afterwards() {
    for rest in ["", "allow-transfer = [\"127.0.0.0/8\"]\nsign = true"] {
        let (site, upstream) = (Site::new(), Upstream::start());
        let (tls, dns) = (free_address(), site.dns);
        let authority = RunningAuthority::looking(move |sought| look_by_dns(dns, sought), &[]);
        let directory = authority.directory();
        let zone = hosted(&site, rest);
        let settings = format!("directory = \"{directory}\"\nchallenge = \"dns-01\"\n{zone}");
        configure(&site, &upstream, tls, &settings);
        let text = fs::read_to_string(site.file()).unwrap();
        let names = "names = [\"dns.example\", \"*.dns.example\"]";
        fs::write(site.file(), text.replace("names = [\"dns.example\"]", names)).unwrap();
        let mut server = site.start();
        wait_for(&mut server, "certificate obtained");
        assert_eq!(ask_over_tls(&site, tls, &root(&authority)), "192.0.2.77\n");
        assert_eq!(texts(dns, "dns.example"), [""; 0]);
        assert!(fs::read_to_string(site.directory.join("dns.zone")).unwrap().contains("; kept"));
        server.stop();
    }
}

#[test]
fn records_of_an_attempt_that_a_crash_ended_go_after_the_next_start() {
    let (site, upstream) = (Site::new(), Upstream::start());
    let (tls, dns) = (free_address(), site.dns);
    let pid = Arc::new(Mutex::new(String::new()));
    let killed = pid.clone();
    let look = move |sought: &Sought| {
        let is_shown = look_by_dns(dns, sought);
        let pid = killed.lock().unwrap().clone();
        is_shown && !Command::new("kill").args(["-KILL", &pid]).status().unwrap().success()
    };
    let authority = RunningAuthority::looking(look, &[]);
    let zone = hosted(&site, "");
    let settings =
        |directory: &str| format!("directory = \"{directory}\"\nchallenge = \"dns-01\"\n{zone}");
    configure(&site, &upstream, tls, &settings(&authority.directory()));
    let mut locked = pid.lock().unwrap();
    let server = site.start();
    *locked = server.id().to_string();
    drop(locked);
    assert_eq!(server.wait().0, None, "killed");

    // No attempt of this server gets as far as to publish records.
    let nobody = format!("https://{}/directory", free_address());
    configure(&site, &upstream, tls, &settings(&nobody));
    let mut server = site.start();
    wait_for(&mut server, "removed the proof for dns.example");
    assert_eq!(texts(dns, "dns.example"), [""; 0]);
    server.stop();
}

#[test]
fn a_wildcard_is_proven_by_updates_of_another_server_once_the_key_is_right() {
    let (site, upstream) = (Site::new(), Upstream::start());
    let (tls, dns) = (free_address(), free_address());
    let Some(_peer) = updated("named", dns) else { return };
    let authority = RunningAuthority::looking(move |sought| look_by_dns(dns, sought), &[]);
    let key = key_for_updates(&site, "b3RoZXIgc2VjcmV0IG90aGVyIHNlY3JldA==");
    let directory = authority.directory();
    let settings = format!("directory = \"{directory}\"\n{}\n{key}", elsewhere(dns));
    configure(&site, &upstream, tls, &settings);
    let text = fs::read_to_string(site.file()).unwrap();
    let names = "names = [\"dns.example\", \"*.dns.example\"]";
    fs::write(site.file(), text.replace("names = [\"dns.example\"]", names)).unwrap();
    let mut server = site.start();
    wait_for(&mut server, "cannot be obtained");
    let reason = format!("{dns} with the key acme.: the server refuses the signature");
    let shown = [["certificate", "list"].as_slice(), &["status"]].map(|one| site.avocet_text(one));
    assert!(shown.iter().all(|text| text.contains(&reason)), "{shown:?}");

    key_for_updates(&site, SECRET);
    site.avocet_text(&["reload"]);
    wait_for(&mut server, "certificate obtained");
    assert_eq!(ask_over_tls(&site, tls, &root(&authority)), "192.0.2.77\n");
    assert_eq!(texts(dns, "dns.example"), [""; 0]);
    server.stop();
}

#[test]
fn plain_dns_is_served_while_the_authority_refuses() {
    let (site, upstream) = (Site::new(), Upstream::start());
    let (tls, proofs) = (free_address(), free_address());
    let authority = RunningAuthority::start(proofs, &[AuthorityFault::Proof]);
    configure(&site, &upstream, tls, &settings(&authority, proofs));
    let mut server = site.start();
    let line = server.wait_for_line("no certificate for dns.example");
    assert!(line.contains("no proof at this name (unauthorized)"), "{line}");
    assert_eq!(site.ask("www.example").1, 300);
    let query = site.avocet(&["query", &format!("@tls://{tls}"), "a.example", "+insecure"]);
    assert!(!query.status.success());
    let health = site.avocet_text(&["status"]);
    assert!(
        health.contains("warning: the certificate for dns.example cannot be obtained"),
        "{health}"
    );
    assert!(health.contains("no proof at this name"), "{health}");
    let status = site.avocet_text(&["status"]);
    assert!(status.contains("certificate dns.example (dns): not obtained yet"), "{status}");
    assert_eq!(site.metric("avocet_certificate_renewals_total{result=\"failure\"}"), 1.0);
    let condition = "avocet_condition{condition=\"certificate-renewal\"}";
    assert_eq!(site.metric(condition), 1.0);
    server.stop();

    // A restart does not request a certificate earlier, but a change of the settings does.
    let mut server = site.start();
    let began = Instant::now();
    // The thread of the certificates may still read its state.
    while !site.avocet_text(&["status"]).contains("1 failures") {
        assert!(began.elapsed() < PATIENCE);
    }
    assert_eq!(authority.authority.lock().unwrap().ordered, 1);
    configure(
        &site,
        &upstream,
        tls,
        &format!("{}\nemail = \"a@b.example\"", settings(&authority, proofs)),
    );
    site.avocet_text(&["reload"]);
    wait_for(&mut server, "certificate obtained");
    wait_for(&mut server, "condition resolved");
    assert_eq!(ask_over_tls(&site, tls, &root(&authority)), "192.0.2.77\n");
    server.stop();
}

#[test]
fn the_interface_shows_the_certificate_once_it_is_obtained_and_renewed() {
    let (site, upstream) = (Site::new(), Upstream::start());
    let [tls, proofs, https] = [(); 3].map(|()| free_address());
    let authority = RunningAuthority::start(proofs, &[AuthorityFault::Proof]);
    let web = format!("[web]\nhttps = \"{https}\"");
    let text = format!("{}\n{web}", settings(&authority, proofs));
    configure(&site, &upstream, tls, &text);
    let mut server = site.start();
    wait_for(&mut server, "no certificate for dns.example");
    let shown = || request_as("dns.example", https, &root(&authority), HEALTH);
    assert!(shown().is_err());
    let health = site.avocet_text(&["status"]);
    assert!(health.contains("warning: HTTPS is not served until"), "{health}");

    let mut certificates = Vec::new();
    for _ in 0..2 {
        site.avocet_text(&["certificate", "renew"]);
        wait_for(&mut server, "certificate obtained");
        wait_for(&mut server, "the files of certificates have changed and are in use");
        certificates.push(shown().unwrap().1);
    }
    assert_ne!(certificates[0], certificates[1]);
    let list = site.avocet_text(&["certificate", "list"]);
    assert!(list.contains(&format!("https://{https}")), "{list}");
    while site.avocet_text(&["status"]).contains("HTTPS is not served") {
        thread::yield_now();
    }
    server.stop();
}

#[test]
fn the_first_attempt_is_shown_while_it_runs() {
    let (site, upstream) = (Site::new(), Upstream::start());
    let authority = crate::server::tcp_listener();
    let directory = format!("https://{}/directory", authority.local_addr().unwrap());
    configure(&site, &upstream, free_address(), &format!("directory = \"{directory}\""));
    let mut server = site.start();
    wait_for(&mut server, "asking for a certificate");
    // The attempt waits for the handshake of this connection.
    let silent = authority.accept().unwrap();
    let list = site.avocet_text(&["certificate", "list"]);
    assert!(list.contains("certificate dns.example (dns): not obtained yet"), "{list}");
    assert!(list.contains(&format!("from {directory}: an attempt is running since")), "{list}");
    let ordered = site.avocet_text(&["certificate", "renew"]);
    assert!(ordered.contains("asking for a certificate for dns.example"), "{ordered}");
    drop((silent, authority));
    server.stop();
}

#[test]
fn a_certificate_that_is_due_when_it_arrives_is_used_and_not_ordered_again_at_once() {
    let (site, upstream) = (Site::new(), Upstream::start());
    let (tls, proofs) = (free_address(), free_address());
    let authority = RunningAuthority::start(proofs, &[]);
    // As with a clock that is 80 days ahead.
    authority.change(|authority| authority.now = now() - 80 * 86_400);
    configure(&site, &upstream, tls, &settings(&authority, proofs));
    let mut server = site.start();
    wait_for(&mut server, "due for renewal already");
    assert_eq!(ask_over_tls(&site, tls, &root(&authority)), "192.0.2.77\n");
    let status = site.avocet_text(&["status"]);
    assert!(status.contains("is the clock of this host right?"), "{status}");
    let next = site.metric("avocet_certificate_next_renewal_timestamp_seconds");
    assert!(next > now() as f64 + 400.0, "{next}");
    assert_eq!(authority.authority.lock().unwrap().ordered, 1);

    // An expired certificate does not replace a valid one.
    let storage = site.data().join("acme").join("certificate.pem");
    let before = fs::read(&storage).unwrap();
    authority.change(|authority| authority.now = now() - 100 * 86_400);
    site.avocet_text(&["certificate", "renew"]);
    wait_for(&mut server, "due for renewal already");
    assert_eq!(fs::read(&storage).unwrap(), before);
    server.stop();
}

#[test]
fn a_suggestion_to_renew_at_once_counts_a_day_after_the_last_certificate() {
    let (site, upstream) = (Site::new(), Upstream::start());
    let (tls, proofs) = (free_address(), free_address());
    let authority = RunningAuthority::start(proofs, &[]);
    authority.change(|authority| authority.window = Some([now() - 100, now() - 10]));
    configure(&site, &upstream, tls, &settings(&authority, proofs));
    let mut server = site.start();
    wait_for(&mut server, "certificate obtained");
    let next = || site.metric("avocet_certificate_next_renewal_timestamp_seconds");
    let (day, began) = (now() as f64 + 86_400.0, Instant::now());
    while !(day - 120.0..day + 60.0).contains(&next()) {
        assert!(began.elapsed() < PATIENCE, "{}", next());
    }
    assert_eq!(authority.authority.lock().unwrap().ordered, 1);
    server.stop();
}

#[test]
fn a_damaged_certificate_is_obtained_again() {
    let (site, upstream) = (Site::new(), Upstream::start());
    let (tls, proofs) = (free_address(), free_address());
    let authority = RunningAuthority::start(proofs, &[]);
    configure(&site, &upstream, tls, &settings(&authority, proofs));
    let storage = site.data().join("acme");
    fs::create_dir_all(&storage).unwrap();
    fs::write(storage.join("certificate.pem"), "no certificate").unwrap();
    fs::write(storage.join("account.json"), "{").unwrap();
    fs::write(storage.join("state.json"), "[").unwrap();
    let mut server = site.start();
    wait_for(&mut server, "certificate obtained");
    assert_eq!(ask_over_tls(&site, tls, &root(&authority)), "192.0.2.77\n");
    server.stop();
}

#[test]
fn settings_without_consent_or_with_impossible_names_are_refused() {
    let site = Site::new();
    let check = |acme: &str, expected: &str| {
        site.write(&format!("[acme]\n{acme}\n"));
        let output = site.avocet(&["check"]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && text.contains(expected), "{acme}: {text}");
    };
    check("names = [\"dns.example\"]", "set `agree-to-terms = true`");
    let agreed = "agree-to-terms = true\n";
    check(&format!("{agreed}names = [\"*.dns.example\"]"), "http-01 cannot prove");
    check(&format!("{agreed}names = [\"dns.example\", \"DNS.example.\"]"), "duplicate name");
    check(&format!("{agreed}names = [\"dns\"]"), "expected a host name");
    let named = format!("{agreed}names = [\"dns.example\"]\n");
    check(&format!("{named}directory = \"http://ca.example/\""), "begins with https://");
    check(&format!("{named}directory = \"https://\""), "begins with https://");
    check(&format!("{named}email = \"nobody\""), "expected an address");
    check(&format!("{named}challenge = \"dns-02\""), "http-01");
    let by_dns = format!("{named}challenge = \"dns-01\"\n");
    check(&by_dns, "no [[zone]] of this server has the name dns.example");
    let other = "[[zone]]\nname = \"xdns.example\"\nfile = \"z\"\n";
    check(&format!("{by_dns}{other}"), "no [[zone]] of this server has the name dns.example");
    let secondary = "[[zone]]\nname = \"example\"\nprimaries = [\"192.0.2.1\"]\n";
    check(&format!("{by_dns}{secondary}"), "the zone example. is changed elsewhere");
    let updates = format!("{by_dns}update-server = \"192.0.2.1\"\n");
    check(&updates, "`update-server` needs `update-key`");
    check(&format!("{updates}update-key = \"k\""), "no [[key]] has the name \"k\"");
    check(&format!("{by_dns}update-key = \"k\""), "`update-key` needs `update-server`");
    check(&updates.replace("192.0.2.1", "ns.example"), "`update-server` needs `update-key`");
}

/// Returns the path of Pebble, the test server of Let's Encrypt; `None` if it is not installed.
fn pebble() -> Option<String> {
    let path = std::env::var("AVOCET_PEBBLE").unwrap_or_else(|_| "pebble".to_owned());
    Command::new(&path).arg("-version").output().ok().map(|_| path)
}

#[test]
fn pebble_issues_and_renews_a_certificate() {
    renew_by_pebble("http-01", None);
}

#[test]
fn pebble_accepts_proofs_in_a_hosted_zone() {
    renew_by_pebble("dns-01", None);
}

#[test]
fn pebble_accepts_proofs_in_zones_of_bind_and_knot() {
    for program in ["named", "knotd"] {
        let addr = free_address();
        let Some(_peer) = updated(program, addr) else { continue };
        renew_by_pebble("dns-01", Some(addr));
        assert_eq!(texts(addr, "dns.example"), [""; 0], "{program}");
    }
}

#[test]
fn pebble_accepts_proofs_on_the_listener_with_tls() {
    // The authority may not query this server.
    renew_by_pebble("tls-alpn-01", None);
}

/// Obtains certificates with proofs on this server, or in the zone of the server at `updated`.
fn renew_by_pebble(challenge: &str, updated: Option<SocketAddr>) {
    let Some(path) = pebble() else {
        println!("skipped: pebble is not installed; .ci/run does it where Go is");
        return;
    };
    let (site, upstream) = (Site::new(), Upstream::start());
    let [tls, proofs, acme, management] = [(); 4].map(|()| free_address());
    for (name, text) in [("own.pem", OWN[0]), ("own.key", OWN[1])] {
        fs::write(site.directory.join(name), text).unwrap();
    }
    let config = serde_json::json!({ "pebble": {
        "listenAddress": acme.to_string(), "managementListenAddress": management.to_string(),
        "certificate": "own.pem", "privateKey": "own.key", "httpPort": proofs.port(),
        "tlsPort": tls.port(), "ocspResponderURL": "", "externalAccountBindingRequired": false,
        "profiles": { "default": { "description": "short", "validityPeriod": 6 } },
    } });
    fs::write(site.directory.join("pebble.json"), config.to_string()).unwrap();
    let record = "[[record]]\nname = \"dns.example\"\ntype = \"A\"\nvalues = [\"127.0.0.1\"]";
    let place = updated.map_or_else(|| format!("challenge = \"{challenge}\""), elsewhere);
    let zone = match updated {
        Some(_) => key_for_updates(&site, SECRET),
        None if challenge == "dns-01" => hosted(&site, ""),
        None => String::new(),
    };
    let settings = format!(
        "directory = \"https://{acme}/dir\"\nhttp-listen = [\"{proofs}\"]\n{place}\n\
         {record}\n{zone}"
    );
    configure(&site, &upstream, tls, &settings);
    if challenge == "tls-alpn-01" {
        let text = fs::read_to_string(site.file()).unwrap();
        // Only the address of a neighbour may query the listener.
        let listener = format!("listen = [\"tls://{tls}\"]");
        let closed = format!("{listener}\nallow = [\"192.0.2.1/32\"]");
        fs::write(site.file(), text.replace(&listener, &closed)).unwrap();
    }
    let mut pebble = Command::new(path);
    pebble
        .args(["-config", "pebble.json", "-dnsserver", &updated.unwrap_or(site.dns).to_string()])
        .current_dir(&site.directory)
        .env("PEBBLE_VA_NOSLEEP", "1")
        .env("PEBBLE_WFE_NONCEREJECT", "10")
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null());
    let mut pebble = start_until(&mut pebble, "pebble", || accepts(acme)).unwrap();
    let mut server = site.start();
    // The first certificate, and two renewals.
    for _ in 0..3 {
        wait_for(&mut server, "certificate obtained");
    }
    let names = site.avocet_text(&["status"]);
    assert!(names.contains("certificate dns.example (dns): "), "{names}");
    server.stop();
    pebble.kill().unwrap();
    pebble.wait().unwrap();
}

#[test]
fn proofs_that_a_crash_left_go_without_settings_too() {
    let (site, upstream) = (Site::new(), Upstream::start());
    let zone = hosted(&site, "");
    let storage = site.data().join("acme");
    fs::create_dir_all(&storage).unwrap();
    let left = "[{\"name\": \"dns.example\", \"text\": \"left-behind\", \"zone\": null}]";
    fs::write(storage.join("proofs.json"), left).unwrap();
    site.configure(upstream.addr, "", &zone);
    let mut server = site.start();
    wait_for(&mut server, "removed the proof for dns.example");
    assert_eq!(texts(site.dns, "dns.example"), [""; 0]);
}
