//! `[dns64]`: IPv6 addresses synthesized for IPv6-only clients (RFC 6147).

use std::mem;
use std::net::Ipv6Addr;

use avocet_resolver::{Dns64, Prefix};
use ipnet::{IpNet, Ipv6Net};

use super::check::Check;
use super::introduction::{Resolving, Translation};
use super::recurse::Mode;
use super::setting::List;
use super::spec::Dns64Spec;

/// The settings of DNS64.
#[derive(Debug, Clone, PartialEq)]
pub struct Dns64Config {
    /// The translator's prefix; `None` disables DNS64.
    pub prefix: Option<Ipv6Net>,
    /// The networks whose AAAA records are ignored.
    pub exclude: Vec<Ipv6Net>,
}

impl Dns64Config {
    /// Returns the settings for the resolver; `None` if DNS64 is disabled.
    pub fn translation(&self) -> Option<Dns64> {
        let exclude = self.exclude.iter().map(|net| prefix(*net)).collect();
        Dns64::new(prefix(self.prefix?), exclude)
    }

    /// Returns the settings that forwarding rules depend on, for a mode of resolution.
    pub(super) fn by(&self, mode: Mode) -> Resolving {
        let translation = if self.prefix.is_some() { Translation::Dns64 } else { Translation::Off };
        Resolving { mode, translation }
    }
}

fn prefix(net: Ipv6Net) -> Prefix {
    Prefix::new(net.network(), net.prefix_len())
}

/// Checks `[dns64]`.
pub(super) fn dns64(mut spec: Dns64Spec, check: &mut Check) -> Dns64Config {
    let span = spec.prefix.span();
    let text = check.take(mem::take(&mut spec.prefix)).filter(|text| !text.is_empty());
    let translator = text.as_deref().and_then(|text| text.parse::<Ipv6Net>().ok());
    let is_sound = |net: &Ipv6Net| {
        Dns64::new(prefix(*net), Vec::new()).is_some() && net.addr() == net.network()
    };
    if let (Some(text), Some(span)) = (&text, span)
        && !translator.as_ref().is_some_and(is_sound)
    {
        let message = "is not a translator prefix; write one such as \"64:ff9b::/96\", of 32, 40, \
                       48, 56, 64 or 96 bits";
        check.fault(span, format!("\"{text}\" {message}"));
    }
    Dns64Config { prefix: translator, exclude: excluded(spec, check) }
}

fn excluded(spec: Dns64Spec, check: &mut Check) -> Vec<Ipv6Net> {
    let Some(List(written)) = check.take(spec.exclude) else {
        let net = Ipv6Net::new_assert(Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0), 96);
        return vec![net];
    };
    let mut nets = Vec::with_capacity(written.len());
    for item in written {
        match (item.span(), item.into_inner().0) {
            (_, IpNet::V6(net)) => nets.push(net),
            (at, IpNet::V4(net)) => {
                check.fault(at, format!("{net} is an IPv4 network, which AAAA records never match"))
            }
        }
    }
    nets
}
