//! Sets of addresses as disjoint networks, for access lists in which the first matching element
//! decides.

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// Maximum number of networks in a set. An exception to a network splits it into up to 128
/// networks.
const MAX_NETWORKS: usize = 2_048;

/// The private networks that `"local"` means in `allow` of `[server]`.
pub(crate) const PRIVATE: [&str; 8] = [
    "127.0.0.0/8",
    "10.0.0.0/8",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "169.254.0.0/16",
    "::1/128",
    "fc00::/7",
    "fe80::/10",
];

/// A set of addresses.
#[derive(Clone, Debug, Default)]
pub(crate) struct Networks {
    nets: Vec<IpNet>,
    /// Whether the list also has the networks of the host's interfaces.
    has_local: bool,
}

impl Networks {
    /// Returns the set of all addresses.
    pub(crate) fn any() -> Self {
        let nets = vec![IpNet::V4(Ipv4Net::default()), IpNet::V6(Ipv6Net::default())];
        Self { nets, has_local: false }
    }

    /// Returns the set of the private networks and the networks of the interfaces.
    pub(crate) fn local() -> Self {
        let nets = PRIVATE.iter().filter_map(|text| text.parse().ok()).collect();
        Self { nets, has_local: true }
    }

    /// Returns the set of the addresses in one network.
    pub(crate) fn of(net: IpNet) -> Self {
        Self { nets: vec![net.trunc()], has_local: false }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.nets.is_empty()
    }

    /// Returns whether the set contains all addresses.
    pub(crate) fn is_any(&self) -> bool {
        Self::any().without(self).is_some_and(|rest| rest.nets.is_empty())
    }

    /// Returns whether the set includes the networks of the interfaces, whose addresses the import
    /// does not know.
    pub(crate) fn has_local(&self) -> bool {
        self.has_local
    }

    /// Returns whether the set contains all addresses of another set.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        let has_local = self.has_interfaces() || !other.has_local;
        has_local && other.without(self).is_some_and(|rest| rest.nets.is_empty())
    }

    fn has_interfaces(&self) -> bool {
        self.has_local || self.is_any()
    }

    /// Returns the union of both sets.
    pub(crate) fn with(&self, other: &Self) -> Self {
        let all: Vec<IpNet> = self.nets.iter().chain(&other.nets).copied().collect();
        Self { nets: IpNet::aggregate(&all), has_local: self.has_local || other.has_local }
    }

    /// Returns the intersection of both sets.
    pub(crate) fn within(&self, other: &Self) -> Self {
        let pairs = self.nets.iter().flat_map(|one| other.nets.iter().map(move |two| (one, two)));
        let common = pairs.filter_map(|(one, two)| match () {
            () if one.contains(two) => Some(*two),
            () if two.contains(one) => Some(*one),
            () => None,
        });
        let nets: Vec<IpNet> = common.collect();
        let has_local = self.has_interfaces() && other.has_interfaces();
        let is_named = self.has_local || other.has_local;
        Self { nets: IpNet::aggregate(&nets), has_local: has_local && is_named }
    }

    /// Returns the addresses that are not in another set, or `None` if the result has too many
    /// networks.
    pub(crate) fn without(&self, other: &Self) -> Option<Self> {
        let mut nets = self.nets.clone();
        for taken in &other.nets {
            let mut rest = Vec::with_capacity(nets.len());
            nets.into_iter().for_each(|net| split(net, *taken, &mut rest));
            if rest.len() > MAX_NETWORKS {
                return None;
            }
            nets = rest;
        }
        Some(Self { nets, has_local: self.has_local && !other.has_interfaces() })
    }

    /// Returns the networks in the form of the configuration. Single addresses have no prefix
    /// length.
    pub(crate) fn texts(&self) -> Vec<String> {
        self.nets.iter().map(|net| text(*net)).collect()
    }

    /// Returns the networks in the form of `allow` of `[server]`.
    pub(crate) fn allowed(&self) -> Vec<String> {
        let local = Self::local();
        match self.without(&local) {
            // If the source excludes some private networks, `"local"` would include them again.
            Some(rest) if self.has_local && self.covers(&local) => {
                [vec!["local".to_owned()], rest.texts()].concat()
            }
            _ => self.texts(),
        }
    }
}

/// Adds the part of a network that is outside of another network.
fn split(net: IpNet, taken: IpNet, rest: &mut Vec<IpNet>) {
    if taken.contains(&net) {
        return;
    }
    if !net.contains(&taken) {
        return rest.push(net);
    }
    let mut part = net;
    while part != taken {
        let Ok(halves) = part.subnets(part.prefix_len() + 1) else { return };
        for half in halves {
            match half.contains(&taken) {
                true => part = half,
                false => rest.push(half),
            }
        }
    }
}

fn text(net: IpNet) -> String {
    if net.prefix_len() == net.max_prefix_len() { net.addr().to_string() } else { net.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(nets: &[&str]) -> Networks {
        nets.iter()
            .fold(Networks::default(), |all, net| all.with(&Networks::of(net.parse().unwrap())))
    }

    #[test]
    fn sets_are_exact() {
        let office = set(&["10.0.0.0/30"]);
        let most = office.without(&set(&["10.0.0.2/32"])).unwrap();
        assert_eq!(most.texts(), ["10.0.0.0/31", "10.0.0.3"]);
        assert!(office.covers(&most) && !most.covers(&office));
        assert_eq!(most.with(&set(&["10.0.0.2/32"])).texts(), ["10.0.0.0/30"]);
        assert_eq!(most.within(&set(&["10.0.0.3/32", "fd00::/8"])).texts(), ["10.0.0.3"]);
        assert!(Networks::any().is_any() && !office.is_any());
        let rest = Networks::any().without(&office).unwrap();
        assert!(rest.with(&office).is_any() && !rest.is_any());
    }

    #[test]
    fn the_networks_of_interfaces_have_a_word_of_their_own() {
        let both = Networks::local().with(&set(&["192.0.2.0/24", "10.1.0.0/16"]));
        assert_eq!(both.allowed(), ["local", "192.0.2.0/24"]);
        assert!(!set(&["10.0.0.0/8"]).covers(&Networks::local()));
        assert_eq!(Networks::any().allowed(), ["0.0.0.0/0", "::/0"]);
        assert_eq!(Networks::any().within(&Networks::local()).allowed(), ["local"]);
        let most = Networks::local().without(&set(&["10.0.0.0/9"])).unwrap();
        assert!(!most.allowed().contains(&"local".to_owned()), "it would have the exception");
    }

    #[test]
    fn a_set_has_bounds() {
        let all = (0..64).fold(Networks::any(), |all, host: u128| {
            let one = std::net::Ipv6Addr::from(host << 64 | 1);
            all.without(&Networks::of(IpNet::from(std::net::IpAddr::V6(one)))).unwrap_or_default()
        });
        assert!(all.is_empty());
    }
}
