//! The thread that looks up the addresses of upstreams that are configured by name, such as
//! `https://dns.example/dns-query`.
//!
//! It queries the servers of `bootstrap` in plain DNS, one after the other. A forged address is
//! harmless: the server at this address gets no query before it has proved the name. Addresses stay
//! in force until other addresses are found.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{io, thread};

use avocet_client::ClientError;
use avocet_client::stub::{self, StubServer};
use avocet_config::Config;
use avocet_wire::{NameBuf, Rtype};
use thiserror::Error;

use crate::running::Running;
use crate::running::conditions::Condition;

/// Time between two checks of the configuration and for due work.
const TICK: Duration = Duration::from_millis(500);
/// Maximum number of addresses of a name.
const MAX_ADDRESSES: usize = 8;
/// Bounds of the seconds after which a name is looked up again, regardless of the TTL.
const KEEP_SECS: (u32, u32) = (60, 3_600);
/// The first and the maximum number of seconds until a failed look-up is repeated.
const RETRY_SECS: (u64, u64) = (2, 60);
/// The log line after a panic of the thread.
const FAULT: &str = "a panic ended the thread that looks up the addresses of upstreams, see the \
                     log; restart the server";

/// Starts the thread.
///
/// # Errors
/// The system cannot start a thread.
pub(crate) fn start(running: Arc<Running>) -> io::Result<()> {
    let mut bootstrapper = Bootstrapper { running, names: BTreeMap::new() };
    let watched = move || {
        let running = bootstrapper.running.clone();
        running.conditions.contain(Condition::Threads, FAULT, || {
            loop {
                bootstrapper.look();
                thread::park_timeout(TICK);
            }
        });
    };
    thread::Builder::new().name("bootstrap".to_owned()).spawn(watched).map(drop)
}

/// The reason why the addresses of a name are not known, from the last server that was queried.
#[derive(Debug, Error)]
enum LookUpFault {
    #[error("it is no host name")]
    Name,
    #[error("{0} knows no address")]
    NoAddress(SocketAddr),
    #[error("{0}: {1}")]
    Client(SocketAddr, ClientError),
}

/// A name, and the state of its look-up.
struct LookedUp {
    servers: Vec<SocketAddr>,
    due: Instant,
    failures: u32,
    fault: Option<LookUpFault>,
}

struct Bootstrapper {
    running: Arc<Running>,
    names: BTreeMap<Box<str>, LookedUp>,
}

/// A name, its servers, and the zones of the rules that need it.
#[derive(Default)]
struct WantedName {
    servers: Vec<SocketAddr>,
    zones: Vec<Box<[u8]>>,
}

fn wanted(config: &Config) -> BTreeMap<Box<str>, WantedName> {
    let mut names = BTreeMap::<_, WantedName>::new();
    for forward in &config.forwards {
        let named = forward.upstreams.iter().filter(|upstream| upstream.addr.is_none());
        for name in named.filter_map(|upstream| upstream.name.clone()) {
            let wanted = names.entry(name).or_default();
            wanted.zones.push(forward.zone.clone());
            for server in &forward.bootstrap {
                if !wanted.servers.contains(server) {
                    wanted.servers.push(*server);
                }
            }
        }
    }
    names
}

impl Bootstrapper {
    fn look(&mut self) {
        let state = self.running.shared.snapshot();
        let names = wanted(&state.config);
        if self.names.keys().any(|name| !names.contains_key(name)) {
            self.names.retain(|name, _| names.contains_key(name));
            let is_wanted = |name: &str| names.contains_key(name);
            self.running.reloader.change_upstream_addresses(|all| all.keep(is_wanted), &[]);
        }
        for (name, WantedName { servers, zones }) in names {
            let now = Instant::now();
            let looked_up = self.names.entry(name.clone()).or_insert_with(|| LookedUp {
                servers: servers.clone(),
                due: now,
                failures: 0,
                fault: None,
            });
            if looked_up.servers == servers && now < looked_up.due {
                continue;
            }
            looked_up.servers.clone_from(&servers);
            match addresses(&name, &servers) {
                Ok((addresses, ttl_secs)) => {
                    tracing::debug!(%name, ?addresses, "addresses of an upstream");
                    let secs = ttl_secs.clamp(KEEP_SECS.0, KEEP_SECS.1);
                    looked_up.due = now + Duration::from_secs(secs.into());
                    (looked_up.failures, looked_up.fault) = (0, None);
                    self.running
                        .reloader
                        .change_upstream_addresses(|all| all.put(&name, addresses), &zones);
                }
                Err(fault) => {
                    let secs = RETRY_SECS.0 << looked_up.failures.min(8);
                    looked_up.due = now + Duration::from_secs(secs.min(RETRY_SECS.1));
                    looked_up.failures = looked_up.failures.saturating_add(1);
                    looked_up.fault = Some(fault);
                }
            }
        }
        self.report();
    }

    fn report(&self) {
        let addresses = self.running.reloader.upstream_addresses();
        let faulty = self.names.iter().filter_map(|(name, one)| Some((name, one.fault.as_ref()?)));
        let texts: Vec<String> = faulty
            .map(|(name, fault)| match addresses.of(name) {
                [] => format!("the addresses of the upstream {name} are not known: {fault}"),
                _ => format!("the addresses of the upstream {name} may be old: {fault}"),
            })
            .collect();
        let text = (!texts.is_empty())
            .then(|| format!("{}; check `bootstrap` of [[forward]]", texts.join("; ")));
        self.running.conditions.set(Condition::Upstreams, text);
    }
}

/// Returns the sorted addresses of a name, and their TTL in seconds, from the first server that
/// knows any.
fn addresses(name: &str, servers: &[SocketAddr]) -> Result<(Vec<IpAddr>, u32), LookUpFault> {
    let wire = wire_name(name).ok_or(LookUpFault::Name)?;
    let mut fault = LookUpFault::Name;
    for server in servers {
        match addresses_by((*server).into(), &wire) {
            Ok((addresses, ttl_secs)) if !addresses.is_empty() => return Ok((addresses, ttl_secs)),
            Ok(_) => fault = LookUpFault::NoAddress(*server),
            Err(error) => fault = LookUpFault::Client(*server, error),
        }
    }
    Err(fault)
}

/// Returns a host name in wire format.
fn wire_name(host: &str) -> Option<NameBuf> {
    let mut wire = Vec::with_capacity(host.len() + 2);
    for label in host.split('.') {
        wire.push(u8::try_from(label.len()).ok()?);
        wire.extend_from_slice(label.as_bytes());
    }
    wire.push(0);
    NameBuf::from_wire(&wire).ok()
}

/// Returns the sorted addresses of a name according to a server, and their TTL in seconds.
///
/// # Errors
/// The server does not answer, or answers with an error.
pub(super) fn addresses_by(
    server: StubServer,
    name: &NameBuf,
) -> Result<(Vec<IpAddr>, u32), ClientError> {
    let (v4, ttl_secs) = stub::records_of(server, name, Rtype::A)?;
    let v4 = v4.iter().filter_map(|data| Some(IpAddr::from(<[u8; 4]>::try_from(&**data).ok()?)));
    // A server that answered for A is expected to answer for AAAA, so an error is ignored.
    let (v6, ttl6_secs) = stub::records_of(server, name, Rtype::AAAA).unwrap_or_default();
    let v6 = v6.iter().filter_map(|data| Some(IpAddr::from(<[u8; 16]>::try_from(&**data).ok()?)));
    let mut all: Vec<IpAddr> =
        v4.chain(v6).filter(|ip| !ip.is_unspecified() && !ip.is_multicast()).collect();
    // Servers rotate the order of records. Another order must not count as a change.
    all.sort_unstable();
    all.dedup();
    all.truncate(MAX_ADDRESSES);
    Ok((all, if ttl_secs == 0 { ttl6_secs } else { ttl_secs }))
}
