//! The keys that decide who may use the server, and which programs it starts. A change of them
//! needs more rights than one of other keys.

use super::Config;
use super::pool_probe::ProbeKind;

/// Returns the keys that decide about access and differ between two configurations.
pub fn access_keys_between(before: &Config, after: &Config) -> Vec<&'static str> {
    let (server, other) = (&before.server, &after.server);
    let (web, other_web) = (&before.web, &after.web);
    [
        ("[oidc]", before.oidc != after.oidc),
        ("[web] https, tls-cert, tls-key", web.https != other_web.https),
        ("[web] trusted-proxies", web.trusted_proxies != other_web.trusted_proxies),
        ("[server] http", server.http != other.http),
        ("[server] http-names", server.http_names != other.http_names),
        ("[server] user", server.user != other.user),
        ("[server] control-group", server.control_group != other.control_group),
        ("[data] directory", before.data.directory != after.data.directory),
        ("[acme]", before.acme != after.acme),
        ("[[pool]] command", !programs(before).eq(programs(after))),
    ]
    .into_iter()
    .filter(|(_, differs)| *differs)
    .map(|(key, _)| key)
    .collect()
}

/// Returns the programs that the server starts, with their arguments and their pools.
fn programs(config: &Config) -> impl Iterator<Item = (&[u8], &[String])> {
    config.pools.iter().filter_map(|pool| match &pool.probe.kind {
        ProbeKind::Command(words) => Some((&*pool.name, &**words)),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let read = |text: &str| Config::from_text(None, text, &BTreeMap::new()).unwrap();
        assert_eq!(access_keys_between(&read(""), &read(text)), expected, "{text}");
        assert_eq!(access_keys_between(&read(text), &read(text)), [""; 0]);
    }

    #[test]
    fn keys_that_decide_who_may_use_the_server_are_found() {
        let oidc = "issuer = \"https://a.example\"\nclient-id = \"a\"\n\
                    public-url = \"https://b.example\"\nadmins = [\"a\"]";
        check(&format!("[oidc]\n{oidc}"), &["[oidc]"]);
        let https = "https = \"127.0.0.1:8443\"\ntls-cert = \"/a\"\ntls-key = \"/b\"";
        check(&format!("[web]\n{https}"), &["[web] https, tls-cert, tls-key"]);
        check("[web]\ntrusted-proxies = [\"10.0.0.1/32\"]", &["[web] trusted-proxies"]);
        check("[server]\nhttp = \"127.0.0.1:8054\"", &["[server] http"]);
        check("[server]\nhttp-names = [\"dns.example\"]", &["[server] http-names"]);
        check("[server]\nuser = \"nobody\"", &["[server] user"]);
        check("[server]\ncontrol-group = \"adm\"", &["[server] control-group"]);
        check("[data]\ndirectory = \"/elsewhere\"", &["[data] directory"]);
        let pool = "name = \"a.example\"\naddresses = [\"192.0.2.1\"]\nprobe = ";
        let command = format!("[[pool]]\n{pool}\"command\"\ncommand = [\"/bin/true\"]\n");
        check(&command, &["[[pool]] command"]);
        check(&format!("[[pool]]\n{pool}\"icmp\"\n"), &[]);
        check("[cache]\nprefetch = false\n[policy]\nblock-ttl-secs = 7", &[]);
    }
}
