//! The networks of the host's own interfaces, for `allow = ["local"]`. Addresses change (DHCP,
//! prefixes that a provider delegates), so they are read every few seconds.

use std::net::{IpAddr, SocketAddr};

use avocet_config::ServerConfig;
use avocet_io::interfaces::{OwnAddress, own_addresses};
use avocet_nameserver::query::asked::Entrance;
use ipnet::IpNet;

use crate::running::Running;
use crate::running::conditions::Condition;

/// Seconds between two readings. A client of a new network may be refused for this time.
const LOOK_SECS: u32 = 5;
/// Minimum lengths of prefixes that count as the network of a link, for IPv4 and IPv6. Allocations
/// to providers are shorter.
const MIN_PREFIX: (u8, u8) = (8, 32);

/// Returns the networks of the host's own addresses; none if the system does not report them.
pub fn own_networks() -> Vec<IpNet> {
    own_addresses().map(|own| networks(&own)).unwrap_or_default()
}

fn networks(own: &[OwnAddress]) -> Vec<IpNet> {
    let network = |own: &OwnAddress| {
        let least = if own.ip.is_ipv4() { MIN_PREFIX.0 } else { MIN_PREFIX.1 };
        let net = IpNet::new(own.ip, own.prefix_len).ok()?.trunc();
        (own.prefix_len >= least && !own.ip.is_unspecified()).then_some(net)
    };
    let mut networks: Vec<IpNet> = own.iter().filter_map(network).collect();
    networks.sort_unstable();
    networks.dedup();
    networks
}

/// The watch over the host's addresses, which reads them periodically.
#[derive(Default)]
pub(crate) struct NetworkWatch {
    due: u32,
}

impl NetworkWatch {
    /// Reads the networks if that is due, and puts changes in force. `now` is monotonic, in
    /// seconds.
    pub(crate) fn look(&mut self, running: &Running, now: u32) {
        if now < self.due {
            return;
        }
        self.due = now.saturating_add(LOOK_SECS);
        let own = own_addresses().map(|own| networks(&own));
        let is_local = running.shared.snapshot().config.server.allows_local();
        let fault = own.as_ref().err().filter(|_| is_local).map(|error| {
            format!(
                "cannot read the addresses of this host: {error}; `allow = [\"local\"]` covers \
                 private networks only: allow AF_NETLINK (RestrictAddressFamilies= in the unit \
                 file)"
            )
        });
        running.conditions.set(Condition::Interfaces, fault);
        let Ok(own) = own else { return };
        running.reloader.change_own_networks(&own);
        let state = running.shared.snapshot();
        let entrance = Entrance::of_server(&state.config.server);
        running.conditions.set(
            Condition::Allow,
            refused(&state.config.server, &own, |ip| state.allow.admits(entrance, ip)),
        );
    }
}

/// Returns the reason why clients of the host's own networks are refused over IPv6, if the server
/// listens on all IPv6 addresses; `None` if they are not refused.
fn refused(
    server: &ServerConfig,
    own: &[IpNet],
    is_allowed: impl Fn(IpAddr) -> bool,
) -> Option<String> {
    let is_any = |addr: SocketAddr| addr.is_ipv6() && addr.ip().is_unspecified();
    let mut served = server.open_addresses().into_iter().filter(|one| one.listener.is_none());
    let listens = served.any(|one| is_any(one.address));
    let global: Vec<&IpNet> = own.iter().filter(|network| is_global(network)).collect();
    if !listens || global.is_empty() || global.iter().any(|network| is_allowed(network.addr())) {
        return None;
    }
    let networks: Vec<String> = global.iter().map(ToString::to_string).collect();
    let networks = networks.join(", ");
    Some(format!(
        "listening on [::], but `allow` has none of this host's IPv6 networks ({networks}): \
         clients in them are refused; add \"local\" to [server] allow"
    ))
}

/// Returns whether a network is in the global unicast range 2000::/3 (RFC 4291 §2.4).
fn is_global(network: &IpNet) -> bool {
    matches!(network, IpNet::V6(network) if network.addr().octets()[0] >> 5 == 1)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use avocet_config::Config;

    fn own(text: &str) -> OwnAddress {
        let network: IpNet = text.parse().unwrap();
        OwnAddress { ip: network.addr(), prefix_len: network.prefix_len() }
    }

    #[test]
    fn networks_of_own_addresses_are_those_of_links() {
        let addresses = [
            "192.168.1.7/24",
            "192.168.1.8/24",
            "2001:db8:1:2::7/64",
            "198.51.100.1/32",
            "0.0.0.1/0",
        ];
        let found: Vec<String> =
            networks(&addresses.map(own)).iter().map(ToString::to_string).collect();
        assert_eq!(found, ["192.168.1.0/24", "198.51.100.1/32", "2001:db8:1:2::/64"]);
    }

    #[track_caller]
    fn check(keys: &str, own: &[&str], is_allowed: bool, is_warned: bool) {
        let config =
            Config::from_text(None, &format!("[server]\n{keys}\n"), &BTreeMap::new()).unwrap();
        let own: Vec<IpNet> = own.iter().map(|network| network.parse().unwrap()).collect();
        assert_eq!(
            refused(&config.server, &own, |_| is_allowed).is_some(),
            is_warned,
            "{keys} {own:?}"
        );
    }

    #[test]
    fn a_host_of_ipv6_that_refuses_its_own_networks_is_warned_of() {
        let home = &["2001:db8:1:2::/64", "fe80::/64", "192.168.1.0/24"];
        check("listen = [\"[::]:53\"]", home, false, true);
        check("listen = [\"[::]:53\"]", home, true, false);
        check("listen = [\"0.0.0.0:53\"]", home, false, false);
        check("listen = [\"[::]:53\"]", &["fd00::/64", "192.168.1.0/24"], false, false);
    }
}
