//! What `avocet import` writes is a configuration that a server runs with, and that answers as the other one did.

use std::process::Command;

use crate::server::{Server, Site};
use crate::upstream::{ADDRESS, Upstream};

/// What a blocked question gets.
const BLOCKED: [u8; 4] = [0; 4];
/// A record of the network's own.
const NAS: [u8; 4] = [10, 9, 9, 9];

const ADGUARD: &str = "
dns:
  bind_hosts: [127.0.0.1]
  port: PORT
  upstream_dns: ['127.0.0.1:UPSTREAM']
filtering:
  filtering_enabled: true
  protection_enabled: true
  blocking_mode: null_ip
  rewrites:
    - domain: nas.lan
      answer: 10.9.9.9
filters: []
user_rules: ['||ads.example^', '@@||fine.ads.example^']
schema_version: 29
";

const BLOCKY: &str = "
ports: { dns: '127.0.0.1:PORT' }
upstreams: { groups: { default: ['127.0.0.1:UPSTREAM'] } }
customDNS: { mapping: { nas.lan: 10.9.9.9 } }
blocking:
  blockType: zeroIp
  denylists:
    ads: ['LISTED']
  allowlists:
    ads: ['ALLOWED']
  clientGroupsBlock: { default: [ads] }
";

const DNSMASQ: &str = "
port=PORT
listen-address=127.0.0.1
no-resolv
server=127.0.0.1#UPSTREAM
address=/ads.example/0.0.0.0
server=/fine.ads.example/127.0.0.1#UPSTREAM
address=/nas.lan/10.9.9.9
";

/// Imports a configuration and starts a server with what was written.
#[track_caller]
fn check(origin: &str, text: &str) {
    let (site, upstream) = (Site::new(), Upstream::start());
    let file = |name: &str, text: &str| {
        let path = site.directory.join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let text = text
        .replace("PORT", &site.dns.port().to_string())
        .replace("UPSTREAM", &upstream.addr.port().to_string())
        .replace("LISTED", &file("listed", "ads.example\nx.ads.example\n"))
        .replace("ALLOWED", &file("allowed", "fine.ads.example\n"));
    let source = file("source", &text);
    let mut import = Command::new(env!("CARGO_BIN_EXE_avocet"));
    let imported = import.args(["import", origin, &source, "--output"]).arg(site.file()).output().unwrap();
    assert!(imported.status.success(), "{}", String::from_utf8_lossy(&imported.stderr));
    let mut serve = site.serve();
    serve.env("AVOCET_DATA__DIRECTORY", site.data()).env("AVOCET_SERVER__HTTP", site.http.to_string());
    let _server = Server::start(serve);
    for (name, answer) in
        [("other.example", ADDRESS), ("x.ads.example", BLOCKED), ("fine.ads.example", ADDRESS), ("nas.lan", NAS)]
    {
        assert_eq!(site.ask(name).0, answer, "{name} of {origin}:\n{}", std::fs::read_to_string(site.file()).unwrap());
    }
}

#[test]
fn a_server_runs_with_what_was_imported() {
    check("adguard", ADGUARD);
    check("blocky", BLOCKY);
    check("dnsmasq", DNSMASQ);
}
