//! `proxy-protocol` of a `[[forward]]`: whether the servers of the rule learn the client of each
//! query.

use std::mem;

use avocet_resolver::{HeaderPlace, Introduction};
use toml::Table;

use super::check::Check;
use super::discover::Discovery;
use super::recurse::Mode;
use super::setting::Setting;
use super::spec::ForwardSpec;
use super::{ForwardConfig, UpstreamTransport};

/// The settings that all rules depend on.
#[derive(Clone, Copy)]
pub(super) struct Resolving {
    /// The method by which names are resolved.
    pub(super) mode: Mode,
    /// Whether addresses are synthesised.
    pub(super) translation: Translation,
}

/// Whether `[dns64]` has a prefix.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Translation {
    /// There is no prefix.
    Off,
    /// There is a DNS64 prefix: some answers are made from answers to other questions, for all
    /// clients.
    Dns64,
}

/// The keys of a rule about the header that names the client.
pub(super) struct HeaderKeys {
    header: Setting<bool>,
    outside_tls: Setting<bool>,
}

impl HeaderKeys {
    /// Takes the keys of the header from a rule.
    pub(super) fn take(spec: &mut ForwardSpec) -> Self {
        Self {
            header: mem::take(&mut spec.proxy_protocol),
            outside_tls: mem::take(&mut spec.proxy_protocol_outside_tls),
        }
    }
}

/// Reads the keys of the header. A header names one client, so settings with answers for all
/// clients are a fault, and so are servers that cannot get a header.
pub(super) fn read(
    keys: HeaderKeys,
    rule: &ForwardConfig,
    resolving: Resolving,
    check: &mut Check,
) -> Introduction {
    let (at, outside_at) = (keys.header.span(), keys.outside_tls.span());
    let is_on = check.take(keys.header).unwrap_or(false);
    let is_outside = check.take(keys.outside_tls).unwrap_or(false);
    let outside_at = outside_at.filter(|_| is_outside);
    let Some(at) = at.filter(|_| is_on) else {
        if let Some(at) = outside_at {
            let message = "`proxy-protocol-outside-tls` has no effect without `proxy-protocol`";
            check.doubt(at, message);
        }
        return Introduction::None;
    };
    if let Some(message) = obstacle(rule, resolving) {
        check.fault(at, message);
    }
    let is_encrypted = rule.upstreams.iter().any(|one| one.transport.is_encrypted());
    if let Some(at) = outside_at.filter(|_| !is_encrypted) {
        let message = "`proxy-protocol-outside-tls` has no effect: no server is encrypted";
        check.doubt(at, message);
    }
    Introduction::ProxyHeader(match is_outside {
        true => HeaderPlace::OutsideTls,
        false => HeaderPlace::InsideTls,
    })
}

/// Adds the keys of the header to the table of a rule.
pub(super) fn show(rule: &ForwardConfig, out: &mut Table) {
    let (is_on, is_outside) = match rule.introduction {
        Introduction::None => (false, false),
        Introduction::ProxyHeader(place) => (true, place == HeaderPlace::OutsideTls),
    };
    out.insert("proxy-protocol".to_owned(), is_on.into());
    out.insert("proxy-protocol-outside-tls".to_owned(), is_outside.into());
}

fn obstacle(rule: &ForwardConfig, resolving: Resolving) -> Option<&'static str> {
    let is_quic = |transport| matches!(transport, UpstreamTransport::Quic | UpstreamTransport::H3);
    if rule.exception {
        Some("an exception (`!`) has no servers; remove `proxy-protocol`")
    } else if resolving.mode == Mode::Recurse {
        Some(
            "recursion names no clients, because its results are for all clients; remove \
             `proxy-protocol`, or write mode = \"forward\" in [resolver]",
        )
    } else if resolving.translation == Translation::Dns64 {
        Some(
            "answers of [dns64] are for all clients; remove `proxy-protocol`, or the prefix in \
             [dns64]",
        )
    } else if rule.upstreams.iter().any(|one| is_quic(one.transport)) {
        Some(
            "the PROXY protocol has no form for QUIC; remove `proxy-protocol`, or the servers with \
             quic:// and h3://",
        )
    } else if rule.discover != Discovery::Off {
        Some(
            "servers that are discovered may not know the PROXY protocol; remove `discover` or \
             `proxy-protocol`",
        )
    } else {
        None
    }
}
