//! `[[listener]]`: addresses with a name, which conditions test as `client.listener`.

use std::collections::HashSet;
use std::iter::repeat_n;
use std::mem;
use std::net::SocketAddr;

use toml::Spanned;

use super::check::Check;
use super::policy::{Named, TableHeader, all, name};
use super::setting::{List, Text};
use super::spec::ListenerSpec;
use super::validate::allow;
use super::{AllowConfig, ServerConfig};

/// Most listeners: each may double the number of client profiles.
const MAX_LISTENERS: usize = 64;

/// One `[[listener]]`.
#[derive(Debug, Clone, PartialEq)]
pub struct ListenerConfig {
    /// The name that conditions use.
    pub name: String,
    /// Addresses served over UDP and TCP; never empty.
    pub listen: Vec<SocketAddr>,
    /// Whose queries are answered here; `None`: as `[server]` says.
    pub allow: Option<AllowConfig>,
}

impl Named for ListenerConfig {
    fn name(&self) -> &str {
        &self.name
    }
}

impl ServerConfig {
    /// Returns all addresses that are served, each once: those of `[server]`, then those of each
    /// listener. The place of an address here is its number in the whole server.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        let named = self.listeners.iter().flat_map(|listener| &listener.listen);
        self.listen.iter().chain(named).copied().collect()
    }

    /// Returns the name of the listener of each address, in the order of [`Self::addresses`]; empty
    /// for those of `[server]`.
    pub fn entrances(&self) -> Vec<&str> {
        self.listener_by_address().map(|one| one.map_or("", |one| one.name.as_str())).collect()
    }

    /// Reports whether an access list follows the networks of the host's interfaces.
    pub fn allows_local(&self) -> bool {
        let own = self.listeners.iter().filter_map(|listener| listener.allow.as_ref());
        own.chain([&self.allow]).any(|allow| allow.local)
    }

    /// Returns the listener of each address, in the order of [`Self::addresses`]; `None` for those
    /// of `[server]`.
    pub fn listener_by_address(&self) -> impl Iterator<Item = Option<&ListenerConfig>> {
        let named = self.listeners.iter();
        let named = named.flat_map(|one| repeat_n(Some(one), one.listen.len()));
        repeat_n(None, self.listen.len()).chain(named)
    }
}

/// Reads all listeners. An address of `server` or of another listener is a fault.
pub(super) fn listeners(
    specs: Vec<Spanned<ListenerSpec>>,
    server: &[SocketAddr],
    check: &mut Check,
) -> Vec<ListenerConfig> {
    let mut taken: HashSet<SocketAddr> = server.iter().copied().collect();
    let read =
        |header: &TableHeader, spec, check: &mut Check| listener(header, spec, &mut taken, check);
    all(specs, ("listeners", MAX_LISTENERS), check, read)
        .into_iter()
        .map(|(_, listener)| listener)
        .collect()
}

fn listener(
    header: &TableHeader,
    mut spec: ListenerSpec,
    taken: &mut HashSet<SocketAddr>,
    check: &mut Check,
) -> ListenerConfig {
    let name = name(header, mem::take(&mut spec.name), check);
    let items = match check.need("listen", &header.at, mem::take(&mut spec.listen)) {
        Some((at, List(items))) if items.is_empty() => {
            check.fault(at, "expected at least one address with port, such as \"127.0.0.1:53\"");
            items
        }
        Some((_, List(items))) => items,
        None => Vec::new(),
    };
    let mut listen = Vec::with_capacity(items.len());
    for item in items {
        let (at, Text(address)) = (item.span(), item.into_inner());
        if taken.insert(address) {
            listen.push(address);
        } else {
            check.fault(at, format!("duplicate address {address}"));
        }
    }
    let is_written = spec.allow.span().is_some();
    let allow = is_written.then(|| allow(spec.allow, check));
    ListenerConfig { name, listen, allow }
}
