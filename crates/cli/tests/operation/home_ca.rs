//! The certification authority of `[home-ca]`: what devices install, and what listeners then show.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::server::{Site, free_address, is_here};
use crate::upstream::Upstream;

/// The answer of the upstream.
const ANSWER: &str = "192.0.2.77";

/// A server with an authority of its own.
struct Home {
    site: Site,
    upstream: Upstream,
    tls: SocketAddr,
    https: SocketAddr,
}

impl Home {
    fn new() -> Self {
        let (site, upstream) = (Site::new(), Upstream::start());
        Self { site, upstream, tls: free_address(), https: free_address() }
    }

    fn configure(&self, names: &str) {
        self.site.write(&format!(
            "[server]\nlisten = [\"{}\", \"tls://{}\", \"https://{}\"]\n[home-ca]\nnames = {names}\n\
             [[forward]]\nzone = \".\"\nupstreams = [\"udp://{}\"]\n[data]\ndirectory = \"{}\"\n",
            self.site.dns,
            self.tls,
            self.https,
            self.upstream.addr,
            self.site.data().display()
        ));
    }

    fn file(&self, name: &str) -> PathBuf {
        self.site.data().join("home-ca").join(name)
    }

    /// Asks over TLS as a device that has installed the authority; returns the answer, or "".
    fn asks(&self, authority: &Path, host: &str) -> String {
        let output = Command::new("kdig")
            .args([format!("@{}", self.tls.ip()), format!("-p{}", self.tls.port())])
            .arg(format!("+tls-ca={}", authority.display()))
            .arg(format!("+tls-hostname={host}"))
            .args(["+short", "+time=60", "www.example", "A"])
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }
}

#[test]
fn devices_that_install_the_authority_trust_the_server() {
    if !is_here("kdig") {
        return;
    }
    let home = Home::new();
    home.configure("[\"avocet.home.arpa\", \"127.0.0.1\"]");
    let server = home.site.start();
    let authority = home.site.directory.join("installed.pem");
    fs::write(&authority, home.site.avocet_text(&["certificate", "authority"])).unwrap();
    assert_eq!(home.asks(&authority, "avocet.home.arpa"), ANSWER, "from the first second on");
    assert_eq!(home.asks(&authority, "dns.home.arpa"), "");
    let list = home.site.avocet_text(&["certificate", "list"]);
    assert!(
        list.contains("avocet.home.arpa (dns): expires in 39") && list.contains("SHA-256"),
        "{list}"
    );
    let profile = home.site.avocet_text(&["connect", "profile"]);
    assert!(profile.contains("com.apple.security.root"), "{profile}");
    let text = home.site.avocet_text(&["connect"]);
    assert!(text.contains("avocet certificate authority"), "{text}");

    // Other names: another certificate of the same authority.
    home.configure("[\"dns.home.arpa\"]");
    home.site.avocet_text(&["reload"]);
    let mut looks = (0..10_000).map(|_| home.asks(&authority, "dns.home.arpa"));
    assert!(looks.any(|answer| answer == ANSWER));
    assert_eq!(home.asks(&authority, "avocet.home.arpa"), "");
    server.stop();

    // A restart keeps both; the key alone is missing: the certificate stays in use.
    let issued = fs::read(home.file("certificate.pem")).unwrap();
    let server = home.site.start();
    assert_eq!(fs::read(home.file("certificate.pem")).unwrap(), issued);
    assert_eq!(home.asks(&authority, "dns.home.arpa"), ANSWER);
    server.stop();
    fs::remove_file(home.file("authority.key")).unwrap();
    let server = home.site.start();
    assert_eq!(home.asks(&authority, "dns.home.arpa"), ANSWER);
    let mut states = (0..10_000).map(|_| home.site.avocet_text(&["status"]));
    assert!(states.any(|state| state.contains("authority.key is missing")));
    server.stop();
}

#[test]
fn wrong_names_are_errors_of_their_lines() {
    let home = Home::new();
    for (names, expected) in [
        ("[\"a..b\"]", "expected a host name such as \"avocet.home.arpa\" or an address"),
        ("[\"a.example\", \"A.example.\"]", "duplicate name"),
        ("[\"127.0.0.1\", \"127.0.0.1\"]", "duplicate name 127.0.0.1"),
        ("[]", "[home-ca] with `names`"),
    ] {
        home.configure(names);
        let output = home.site.avocet(&["check"]);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && text.contains(expected), "{names}: {text}");
    }
}
