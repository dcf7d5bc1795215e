//! DNS over QUIC of the running server: clients, transports and limits.

use std::fs;
use std::net::SocketAddr;
use std::process::{Command, Output};
use std::thread;

use crate::server::{Site, free_address};
use crate::upstream::Upstream;

const ONE: [&str; 2] = [include_str!("certificates/one.pem"), include_str!("certificates/one.key")];

fn configure(site: &Site, upstream: &Upstream, quic: SocketAddr) {
    for (name, text) in [("one.pem", ONE[0]), ("one.key", ONE[1])] {
        fs::write(site.directory.join(name), text).unwrap();
    }
    let rest = format!(
        "[[certificate]]\ncert = \"one.pem\"\nkey = \"one.key\"\n[[listener]]\nname = \"doq\"\n\
         listen = [\"quic://{quic}\", \"tls://{quic}\"]\n[[rule]]\nname = \"safe\"\n\
         when = '''client.transport == \"quic\" && qname.under(\"secret.example\")'''\n\
         action = \"block\"\n[[rule]]\nname = \"gone\"\n\
         when = '''qname.under(\"gone.example\")'''\naction = \"drop\"\n\
         [query-log]\nenabled = true\n"
    );
    site.configure(upstream.addr, "workers = 2", &rest);
}

fn text(output: &Output) -> String {
    [String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr)].concat()
}

#[test]
fn the_client_and_all_that_knows_transports_know_quic() {
    let (site, upstream, quic) = (Site::new(), Upstream::start(), free_address());
    configure(&site, &upstream, quic);
    let server = site.start();
    let at = format!("@quic://{quic}");
    let ca = format!("+ca={}", site.directory.join("one.pem").display());
    for _ in 0..3 {
        let reply = site.avocet_text(&["query", &at, "www.example", &ca, "+json"]);
        let reply: serde_json::Value = serde_json::from_str(&reply).unwrap();
        let (transport, size) = (&reply["transport"], &reply["size"]);
        assert_eq!((transport, size), (&"quic".into(), &468.into()), "{reply}");
    }
    let words = ["query", &at, "a.secret.example", "+insecure", "+short"];
    assert_eq!(site.avocet_text(&words), "0.0.0.0\n");
    let tls = format!("@tls://{quic}");
    let words = ["query", &tls, "a.secret.example", "+insecure", "+short"];
    assert_eq!(site.avocet_text(&words), "192.0.2.77\n", "TLS has the same port");
    let dropped = site.avocet(&["query", &at, "a.gone.example", "+insecure"]);
    assert!(text(&dropped).contains("error code 5"), "{}", text(&dropped));
    let stranger = site.avocet(&["query", &at, "www.example"]);
    assert!(text(&stranger).contains("certificate"), "{}", text(&stranger));
    let why = site.avocet_text(&["why", "a.secret.example", "--transport", "quic"]);
    assert!(why.contains(" IN A 0.0.0.0\n"), "{why}");
    assert!(site.avocet_text(&["status"]).contains(&format!("quic://{quic}")));
    // An entry may still be on its way to the file.
    let logged = std::iter::repeat_with(|| {
        thread::yield_now();
        site.avocet_text(&["log", "search", "--name", "a.secret.example", "--json"])
    });
    let logged = logged.take(1_000).find(|text| text.contains("\"quic\""));
    assert!(logged.is_some_and(|text| text.contains("a.secret.example")));
    assert!(site.metric("avocet_queries_total{transport=\"quic\"}") >= 5.0);
    // The worker publishes its counts twice a second.
    let completed = || site.metric("avocet_quic_handshakes_total{result=\"complete\"}");
    assert!(std::iter::repeat_with(completed).take(1_000).any(|count| count >= 5.0));
    server.stop();
}

#[test]
fn clients_that_are_not_allowed_get_no_handshake() {
    let (site, upstream, quic) = (Site::new(), Upstream::start(), free_address());
    for (name, text) in [("one.pem", ONE[0]), ("one.key", ONE[1])] {
        fs::write(site.directory.join(name), text).unwrap();
    }
    let rest = format!(
        "[[certificate]]\ncert = \"one.pem\"\nkey = \"one.key\"\n[[listener]]\nname = \"doq\"\n\
         listen = [\"quic://{quic}\"]\nallow = [\"192.0.2.0/24\"]\n"
    );
    site.configure(upstream.addr, "", &rest);
    let server = site.start();
    let at = format!("@quic://{quic}");
    let output = site.avocet(&["query", &at, "www.example", "+insecure", "+time=1"]);
    assert!(!output.status.success());
    assert!(site.metric("avocet_quic_refused_total") >= 1.0);
    let handshakes = "avocet_quic_handshakes_total{result=\"complete\"}";
    assert!(site.metric(handshakes) < 1.0);
    server.stop();
}

/// Asks by the libraries dnspython and aioquic.
const PYTHON: &str = "
import sys, dns.message, dns.query
query = dns.message.make_query('www.example', 'A')
print(dns.query.quic(query, sys.argv[1], port=int(sys.argv[2]), verify=False, timeout=5))
";

/// Clients of others, where they are installed.
#[test]
fn other_clients_ask_over_quic() {
    let (site, upstream, quic) = (Site::new(), Upstream::start(), free_address());
    configure(&site, &upstream, quic);
    let server = site.start();
    let (ip, port) = (quic.ip().to_string(), quic.port().to_string());
    let kdig = ["+quic", "+noall", "+answer", "www.example", &format!("@{ip}"), "-p", &port];
    let address = format!("quic://{quic}");
    let q = ["www.example", "A", "-i", "-s", &address];
    let python = ["-c", PYTHON, &ip, &port];
    for (program, words) in [("kdig", &kdig[..]), ("q", &q), ("python3", &python)] {
        let Ok(output) = Command::new(program).args(words).output() else { continue };
        let text = text(&output);
        // Some builds of kdig have no QUIC, and few systems have the libraries.
        let is_without = text.contains("not supported")
            || ["ModuleNotFoundError", "NoDOQ"].iter().any(|error| text.contains(error));
        assert!(is_without || text.contains("192.0.2.77"), "{program}: {text}");
    }
    server.stop();
}
