//! The keys of the configuration, each assigned to the parts of the snapshot that are built from
//! it.
//!
//! Every key belongs to one part or more, or to the configuration alone if no answer in the packet
//! cache depends on the key. [`Inputs::of`] has no `..`, so the crate does not compile until a new
//! key is assigned to its parts.

use std::net::SocketAddr;
use std::time::Duration;

use avocet_cache::TtlBounds;
use avocet_config::dns64::Dns64Config;
use avocet_config::policy::PolicyConfig;
use avocet_config::pool::PoolConfig;
use avocet_config::{
    CacheConfig, Config, DnssecConfig, ForwardConfig, OpenAddress, Protocol, RecordConfig,
    ResolverConfig, ServerConfig,
};
use avocet_resolver::StubZone;

use super::ttl_bounds;
use crate::private_zones::{private_zones, served_zones};
use crate::query::designation::requires_certificate;

/// The inputs from which the parts of a snapshot are built. Equal inputs make equal parts.
#[derive(PartialEq, Debug)]
pub struct Inputs<'c> {
    /// The inputs of the policy.
    pub policy: &'c PolicyConfig,
    /// The inputs of the plan.
    pub plan: PlanInputs<'c>,
    /// The inputs of the server's own names.
    pub names: NameInputs<'c>,
}

/// The inputs of the plan.
#[derive(PartialEq, Debug)]
pub struct PlanInputs<'c> {
    resolver: &'c ResolverConfig,
    stubs: &'c [StubZone],
    dnssec: &'c DnssecConfig,
    dns64: &'c Dns64Config,
    forwards: &'c [ForwardConfig],
    /// Sets of servers to which rules of the policy forward.
    sets: Vec<Box<[SocketAddr]>>,
    /// Zones that are not validated.
    private: Vec<Box<[u8]>>,
    ttl: TtlBounds,
    stale_client_timeout: Option<Duration>,
    is_minimal: bool,
}

/// The inputs of the server's own names.
#[derive(PartialEq, Debug)]
pub struct NameInputs<'c> {
    records: &'c [RecordConfig],
    pools: &'c [PoolConfig],
    local_zones: &'c [Box<[u8]>],
    has_special_names: bool,
    /// The services that are announced to clients, if any.
    announced: Option<Announced<'c>>,
    /// Zones for which the configuration has servers.
    served: Vec<&'c [u8]>,
}

/// The listeners that are announced to clients.
#[derive(PartialEq, Debug)]
struct Announced<'c> {
    open: Vec<OpenAddress>,
    /// For each address, whether clients must have a certificate.
    closed: Vec<bool>,
    certificates: Vec<(&'c str, Option<&'c str>)>,
}

impl<'c> Announced<'c> {
    fn of(server: &'c ServerConfig) -> Option<Self> {
        let open = server.open_addresses();
        let closed = open.iter().map(|one| requires_certificate(server, one)).collect();
        let is_encrypted = |one: &OpenAddress| one.protocol != Protocol::Plain;
        let certificates =
            server.listeners.iter().map(|one| (&*one.name, one.certificate.as_deref()));
        (server.announce && open.iter().any(is_encrypted)).then(|| Self {
            closed,
            open,
            certificates: certificates.collect(),
        })
    }
}

/// The parts of the plan that depend on the number of workers and sockets, and change no answer.
#[derive(PartialEq, Debug)]
pub(super) struct Placement {
    workers: usize,
    addresses: Vec<SocketAddr>,
}

impl<'c> Inputs<'c> {
    /// Assigns every key of a configuration to the parts of the snapshot that are built from it.
    pub fn of(config: &'c Config) -> Self {
        let Config {
            // No part is built from `is_bare`, because the other fields determine its value.
            is_bare: _,
            server,
            resolver,
            // No query is sent from these ports, and no answer depends on them.
            avoid_ports: _,
            stubs,
            dnssec,
            dns64,
            forwards,
            cache,
            records,
            pools,
            // Zones are read separately; a change of a zone builds new names.
            zones: _,
            // Signatures are checked for each message, so no cached answer depends on the keys.
            keys: _,
            // Each zone has a copy of its signing policy.
            signing_policies: _,
            policy,
            // The next two settings are applied to each query or reply. Answers in the packet cache
            // do not depend on them.
            rate_limit: _,
            query_log: _,
            // Connections use the certificates only at their start.
            certificates: _,
            acme: _,
            home_ca: _,
            // A reply is encrypted only after it is complete.
            odoh: _,
            dnstap: _,
            otlp: _,
            log: _,
            web: _,
            oidc: _,
            data: _,
            revisions: _,
            doubts: _,
        } = config;
        let OfServer { has_special_names, local_zones, is_minimal } = OfServer::of(server);
        let (ttl, stale_client_timeout) = of_cache(cache);
        let plan = PlanInputs {
            resolver,
            stubs,
            dnssec,
            dns64,
            forwards,
            sets: policy.forward_sets(),
            private: private_zones(config),
            ttl,
            stale_client_timeout,
            is_minimal,
        };
        let served = served_zones(config).collect();
        let announced = Announced::of(server);
        let names =
            NameInputs { records, pools, local_zones, has_special_names, announced, served };
        Self { policy, plan, names }
    }
}

impl Placement {
    pub(super) fn of(config: &Config) -> Self {
        Self { workers: config.server.workers, addresses: config.server.addresses() }
    }
}

/// The keys of `[server]` on which the contents of the packet cache depend.
struct OfServer<'c> {
    has_special_names: bool,
    local_zones: &'c [Box<[u8]>],
    is_minimal: bool,
}

impl<'c> OfServer<'c> {
    fn of(server: &'c ServerConfig) -> Self {
        let ServerConfig {
            local_names,
            // The inputs of this key are in `Announced`.
            announce: _,
            local_zones,
            minimal_responses,
            // The packet cache holds answers before they are truncated to a client's size.
            max_udp_size: _,
            // The inputs of this key are in `Placement`.
            listen: _,
            encrypted: _,
            h3: _,
            // Queries in TLS early data get the same answers as other queries.
            early_data: _,
            // Client certificates prove the identity of a client, which its profile contains.
            client_certificates: _,
            // Rules test the names of listeners, so the policy has them, too.
            listeners: _,
            open: _,
            workers: _,
            // The following settings decide which clients are served, and where.
            pin_workers: _,
            http: _,
            http_names: _,
            allow: _,
            user: _,
            control_group: _,
            tcp: _,
            // Answers of class CH are not cached, and OPT is appended to each reply.
            version: _,
            id_server: _,
            nsid: _,
            cookies: _,
            cookie_secret: _,
        } = server;
        Self { has_special_names: *local_names, local_zones, is_minimal: *minimal_responses }
    }
}

fn of_cache(cache: &CacheConfig) -> (TtlBounds, Option<Duration>) {
    let CacheConfig {
        min_ttl_secs: _,
        max_ttl_secs: _,
        negative_min_ttl_secs: _,
        negative_max_ttl_secs: _,
        // The time for which expired data is used is read from the configuration at each look-up.
        serve_stale,
        // At a cache hit, this key decides whether the name is prefetched.
        prefetch: _,
        packet_bytes: _,
        rrset_bytes: _,
        snapshot_interval: _,
    } = cache;
    (ttl_bounds(cache), serve_stale.as_ref().map(|stale| stale.client_timeout))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Returns the parts that change if this text is added to a configuration.
    fn changed_by(text: &str) -> [bool; 3] {
        let config = |text: &str| {
            let text =
                format!("{text}\n[[forward]]\nzone = \"b.example\"\nupstreams = [\"192.0.2.1\"]\n");
            Config::from_text(None, &text, &BTreeMap::new())
                .unwrap_or_else(|faults| panic!("{text}: {faults}"))
        };
        let (old, new) = (config(""), config(text));
        let (old, new) = (Inputs::of(&old), Inputs::of(&new));
        [old.policy != new.policy, old.plan != new.plan, old.names != new.names]
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let parts = changed_by(text).into_iter().zip(["policy", "plan", "names"]);
        let changed: Vec<_> = parts.filter(|(is, _)| *is).map(|(_, part)| part).collect();
        assert_eq!(changed.join(" "), expected, "{text}");
    }

    #[test]
    fn each_key_is_of_the_parts_that_are_built_from_it() {
        check("[log]\nlevel = \"debug\"", "");
        check("[server]\nallow = [\"127.0.0.0/8\"]", "");
        check("[server]\ncookie-secret = \"00112233445566778899aabbccddeeff\"", "");
        check("[server]\nmax-udp-size = 512", "");
        check("[server]\nversion = \"none\"", "");
        check("[rate-limit]\nresponses-per-second = 5", "");
        check("[cache]\nprefetch = false", "");
        check("[resolver]\navoid-ports = []", "");
        check("[server]\nminimal-responses = false", "plan");
        check("[cache]\nmin-ttl-secs = 10", "plan");
        check("[dnssec]\nvalidate = false", "plan");
        check("[dns64]\nprefix = \"64:ff9b::/96\"", "plan");
        check("[resolver]\nqname-minimisation = false", "plan");
        check("[[stub]]\nzone = \"a.example\"\nservers = [\"192.0.2.9\"]", "plan names");
        check("[[record]]\nname = \"a.lan\"\ntype = \"A\"\nvalues = [\"10.0.0.1\"]", "names");
        check("[server]\nlocal-zones = [\"lan\"]", "names");
        check("[server]\nlocal-names = false", "names");
        check("[policy]\nblock-ttl-secs = 7", "policy");
        check("[[client]]\nname = \"tv\"\nids = [\"10.0.0.9\"]", "policy");
        let forward = "[[rule]]\nname = \"r\"\nwhen = \"true\"\naction = \"forward\"\nto = \
                       [\"192.0.2.3\"]";
        check(forward, "policy plan");
    }

    #[test]
    fn a_local_zone_above_a_zone_with_servers_is_of_the_plan_too() {
        let config = |text: &str| {
            let stub = "[[stub]]\nzone = \"a.house\"\nservers = [\"192.0.2.9\"]\n";
            Config::from_text(None, &format!("{text}{stub}"), &BTreeMap::new()).unwrap()
        };
        let (old, new) = (config(""), config("[server]\nlocal-zones = [\"house\"]\n"));
        assert_ne!(Inputs::of(&old).plan, Inputs::of(&new).plan);
    }
}
