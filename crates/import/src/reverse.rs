//! The zones below in-addr.arpa and ip6.arpa for the addresses of a network (RFC 1035 §3.5, RFC
//! 3596 §2.5).

use ipnet::IpNet;

/// Returns the reverse zones of a network. There is one zone if the prefix ends at an octet (IPv4)
/// or a digit (IPv6), and otherwise at most 256 zones of the next such length.
pub(crate) fn zones(network: IpNet) -> Vec<String> {
    let step = if network.addr().is_ipv4() { 8 } else { 4 };
    let length = network.prefix_len().next_multiple_of(step).max(step);
    let network = network.trunc();
    // The network can always be split at a prefix length between its own length and the length of
    // an address.
    let Ok(subnets) = network.subnets(length) else {
        return Vec::new();
    };
    subnets.map(zone).collect()
}

/// Returns the reverse zones of private addresses (RFC 6303 §4.1, RFC 4193).
pub(crate) fn private_zones() -> impl Iterator<Item = String> {
    let middle = (16..32).map(|octet| format!("{octet}.172.in-addr.arpa"));
    ["10.in-addr.arpa", "168.192.in-addr.arpa", "d.f.ip6.arpa"]
        .map(str::to_owned)
        .into_iter()
        .chain(middle)
}

fn zone(network: IpNet) -> String {
    let mut labels: Vec<String> = match network {
        IpNet::V4(net) => net
            .addr()
            .octets()
            .iter()
            .take(usize::from(net.prefix_len() / 8))
            .map(u8::to_string)
            .collect(),
        IpNet::V6(net) => {
            let digits =
                net.addr().octets().into_iter().flat_map(|octet| [octet >> 4, octet & 0xf]);
            digits
                .take(usize::from(net.prefix_len() / 4))
                .map(|digit| format!("{digit:x}"))
                .collect()
        }
    };
    labels.reverse();
    labels.push(if network.addr().is_ipv4() { "in-addr.arpa" } else { "ip6.arpa" }.to_owned());
    labels.join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_become_zones() {
        let of = |net: &str| zones(net.parse().unwrap());
        assert_eq!(of("192.168.1.7/24"), ["1.168.192.in-addr.arpa"]);
        assert_eq!(of("10.0.0.0/8"), ["10.in-addr.arpa"]);
        assert_eq!(of("192.168.4.0/23"), ["4.168.192.in-addr.arpa", "5.168.192.in-addr.arpa"]);
        assert_eq!(of("192.168.1.5/32"), ["5.1.168.192.in-addr.arpa"]);
        assert_eq!(of("fd00::/8"), ["d.f.ip6.arpa"]);
        assert_eq!(of("fe80::/10").len(), 4);
        assert_eq!(of("0.0.0.0/0").len(), 256);
    }
}
