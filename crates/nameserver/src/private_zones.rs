//! Configured zones that are not part of the public tree.
//!
//! The root and `arpa.` are signed and prove that these zones do not exist. The server therefore
//! cannot validate these zones, and treats them as if a negative trust anchor (RFC 7646) were above
//! them. In Unbound, `domain-insecure` has this effect.

use avocet_config::Config;
use avocet_config::recurse::Mode;
use avocet_wire::special_purpose::Scope;
use avocet_wire::{NameBuf, name};

use crate::query::special::{special_apexes, wire};

/// Names for private use that no RFC reserves: `internal` (ICANN, 2024), RFC 6762 appendix G, and
/// names that routers use.
const PRIVATE: &str = "internal intranet private corp home lan localdomain";

/// Returns the names of the configured zones that are private: zones in a local zone, a special-use
/// name or a name for private use. If a configured zone is not private, returns the special-use
/// names below it.
pub fn private_zones(config: &Config) -> Vec<Box<[u8]>> {
    let special: Vec<Box<[u8]>> = special_apexes().collect();
    let private: Vec<Box<[u8]>> = PRIVATE.split_whitespace().map(wire).collect();
    let is_denied = |zone: &[u8]| {
        let above = special.iter().chain(&private).chain(&config.server.local_zones);
        above.into_iter().any(|apex| name::is_under(zone, apex))
    };
    let mut zones = Vec::new();
    for zone in served_zones(config) {
        if is_denied(zone) {
            zones.push(zone.into());
        } else {
            zones.extend(special.iter().filter(|apex| name::is_under(apex, zone)).cloned());
        }
    }
    zones
}

/// Returns the zones with configured servers, except the root.
pub fn served_zones(config: &Config) -> impl Iterator<Item = &[u8]> {
    let forwards =
        config.forwards.iter().filter(|forward| !forward.exception).map(|forward| &*forward.zone);
    forwards.chain(config.stubs.iter().map(|stub| &*stub.zone)).filter(|zone| zone.len() > 1)
}

/// Returns the zones that need a warning. All their servers have private addresses, so the public
/// tree may deny the zones or have other keys for them, and the configuration does not say whether
/// to validate them.
pub fn doubtful_zones(config: &Config) -> Vec<String> {
    let dnssec = &config.dnssec;
    if config.resolver.mode != Mode::Recurse || !dnssec.validate {
        return Vec::new();
    }
    let known = private_zones(config);
    let is_settled = |zone: &[u8]| {
        let has_anchor =
            dnssec.trust_anchors.iter().any(|anchor| is_below_anchor(zone, anchor.zone().wire()));
        has_anchor
            || dnssec.negative_anchors.iter().chain(&known).any(|above| name::is_under(zone, above))
    };
    let forwards = config.forwards.iter().filter(|forward| !forward.exception).filter(|forward| {
        forward.zone.len() > 1
            && forward.upstreams.iter().all(|upstream| {
                upstream.addr.is_some_and(|addr| Scope::Internal.contains(addr.ip()))
            })
    });
    let stubs = config
        .stubs
        .iter()
        .filter(|stub| stub.servers.iter().all(|server| Scope::Internal.contains(server.ip())));
    let zones = forwards.map(|forward| &*forward.zone).chain(stubs.map(|stub| &*stub.zone));
    let zones =
        zones.filter(|zone| !is_settled(zone)).filter_map(|zone| NameBuf::from_wire(zone).ok());
    zones.map(|zone| zone.to_string()).collect()
}

/// Returns whether an anchor is at or above the zone. The root's anchor counts only for the root
/// zone itself, because the root is above every zone.
fn is_below_anchor(zone: &[u8], anchor: &[u8]) -> bool {
    (anchor.len() > 1 || zone.len() <= 1) && name::is_under(zone, &anchor.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    #[test]
    fn zones_that_the_public_tree_denies_are_private() {
        let forward =
            |zone: &str| format!("[[forward]]\nzone = \"{zone}\"\nupstreams = [\"192.0.2.1\"]\n");
        let zones = [
            "iot.house",
            "corp.lan",
            "10.in-addr.arpa",
            "internal",
            "example.com",
            "ip6.arpa",
            ".",
        ];
        let text: String = zones.map(forward).concat();
        let stub = "[[stub]]\nzone = \"x.test\"\nservers = [\"192.0.2.1\"]\n[server]\nlocal-zones \
                    = [\"house\"]\n[resolver]\nmode = \"recurse\"\n";
        let config = Config::from_text(None, &(text + stub), &BTreeMap::new()).unwrap();
        let shown = |zone: Box<[u8]>| NameBuf::from_wire(&zone).unwrap().to_string();
        let found: BTreeSet<String> = private_zones(&config).into_iter().map(shown).collect();
        for zone in
            ["iot.house.", "corp.lan.", "10.in-addr.arpa.", "internal.", "x.test.", "d.f.ip6.arpa."]
        {
            assert!(found.contains(zone), "{zone}: {found:?}");
        }
        for zone in ["example.com.", "ip6.arpa.", ".", "house.", "168.192.in-addr.arpa."] {
            assert!(!found.contains(zone), "{zone}: {found:?}");
        }
    }

    #[test]
    fn zones_on_private_servers_that_nothing_is_said_of_are_warned_of() {
        let check = |text: &str, expected: &[&str]| {
            let config = Config::from_text(None, text, &BTreeMap::new()).unwrap();
            assert_eq!(doubtful_zones(&config), expected, "{text}");
        };
        let corp = "[[forward]]\nzone = \"corp.example\"\nupstreams = [\"10.0.0.1\"]\n";
        check(corp, &["corp.example."]);
        check(&corp.replace("corp.example", "corp.lan"), &[]);
        check(&corp.replace("10.0.0.1", "192.0.2.1"), &[]);
        check(&format!("{corp}[dnssec]\nnegative-anchors = [\"example\"]\n"), &[]);
        check(&format!("{corp}[dnssec]\nvalidate = false\n"), &[]);
        check(&format!("{corp}[resolver]\nmode = \"forward\"\n"), &[]);
        check("[[stub]]\nzone = \"corp.example\"\nservers = [\"10.0.0.1\"]\n", &["corp.example."]);
        let root = "[[stub]]\nzone = \".\"\nservers = [\"10.0.0.1\"]\n";
        check(root, &["."]);
        let anchor =
            format!("[dnssec]\ntrust-anchors = [\". IN DS 20326 8 2 {}\"]\n", "e0".repeat(32));
        check(&format!("{root}{anchor}"), &[]);
        check(&format!("{corp}{anchor}"), &["corp.example."]);
    }
}
