//! The threads of the proxy of Oblivious DNS over HTTPS (RFC 9230 §4): each forwards one query at a
//! time to its target, by HTTPS, and sends the response to the worker that has the client.
//!
//! A target learns nothing about the client. The proxy forwards only to targets of the
//! configuration, follows no redirect, and connects to no private address unless the configuration
//! has this address.

use std::io::{self, Read};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use avocet_config::odoh::{OdohConfig, ProxyTarget};
use avocet_session::oblivious::{MEDIA_TYPE_OBLIVIOUS, NamedTarget, proxied_reply};
use avocet_worker::mailbox::Letter;
use avocet_worker::state::Shared;
use avocet_worker::state::proxied::{PROXY_PLACES, ProxiedQuery, ProxyResult};
use ureq::Agent;
use ureq::http::header::{ACCEPT, CONTENT_TYPE};

use crate::lists::fetch::{Bounds, Lookup, agent_for_targets};
use crate::running::Running;
use crate::running::conditions::Condition;
use crate::trace::own_questions;

/// The limits of one query. A client waits no longer for an answer of this server itself.
const BOUNDS: Bounds = Bounds {
    time: Duration::from_secs(5),
    connect: Duration::from_secs(3),
    octets: u16::MAX as u64,
};
/// Seconds in the queue after which a query is not forwarded, because its client has given up.
const MAX_WAIT_SECS: u32 = 5;
/// The log line after a panic of a thread.
const FAULT: &str = "a panic ended a thread of the proxy for oblivious queries; after a restart of \
                     the server, it runs again";
/// Statuses for the client, if the target gives none.
const BAD_GATEWAY: u16 = 502;
const BUSY: u16 = 503;
const GATEWAY_TIMEOUT: u16 = 504;
const OK: u16 = 200;

/// Starts the threads when the configuration has targets for the first time.
pub(crate) fn look(running: &Arc<Running>) {
    let is_proxy = !running.shared.snapshot().config.odoh.proxy_targets.is_empty();
    if is_proxy
        && !running.oblivious.has_proxy.swap(true, Ordering::Relaxed)
        && let Err(error) = start(running)
    {
        tracing::error!(%error, "cannot start the threads of the proxy for oblivious queries");
    }
}

fn start(running: &Arc<Running>) -> io::Result<()> {
    for _ in 0..PROXY_PLACES {
        let running = running.clone();
        let watched = move || {
            running.conditions.contain(Condition::Threads, FAULT, || work(&running.shared));
        };
        thread::Builder::new().name("odoh-proxy".to_owned()).spawn(watched)?;
    }
    Ok(())
}

fn work(shared: &Arc<Shared>) {
    let mut client: Option<ProxyClient> = None;
    while let Some(taken) = shared.proxied.take() {
        let query = &taken.query;
        let config = shared.snapshot().config.odoh.clone();
        let present = client.take().filter(|client| client.config == config);
        let present = client.insert(present.unwrap_or_else(|| ProxyClient::new(config, shared)));
        let now = shared.name_server.clock.now();
        let waited_secs = now.secs().saturating_sub(query.since.secs());
        let (result, reply) = match waited_secs > MAX_WAIT_SECS {
            true => (ProxyResult::Busy, proxied_reply(BUSY, b"")),
            false => present.forward(query),
        };
        let route = query.route;
        taken.finish(result);
        if let Some(mailbox) = shared.mailboxes.get(usize::from(route.worker)) {
            // If the mailbox is full, the client repeats its query, as after any lost reply.
            let _ = mailbox.send(Letter::Answer(route, reply.into()));
        }
    }
}

/// The client's end of one thread.
struct ProxyClient {
    config: OdohConfig,
    agent: Agent,
}

impl ProxyClient {
    fn new(config: OdohConfig, shared: &Arc<Shared>) -> Self {
        let (pinned, shared) = (config.proxy_targets.clone(), shared.clone());
        let is_pinned = |one: &&ProxyTarget| one.address.is_some();
        let internal = pinned.iter().filter(is_pinned).map(|one| one.host.clone()).collect();
        let lookup: Lookup = Box::new(move |host: &str| match addresses(&pinned, host) {
            found if !found.is_empty() => Ok(found),
            _ => own_questions::addresses(&shared, host),
        });
        Self { config, agent: agent_for_targets(lookup, BOUNDS, internal) }
    }

    /// Forwards a query. Returns the result with the reply for the client.
    fn forward(&self, query: &ProxiedQuery) -> (ProxyResult, Vec<u8>) {
        // The target is checked again, because the configuration may have changed while the query
        // waited.
        let NamedTarget { host, port, path } = &query.target;
        if !self.config.proxy_targets.iter().any(|one| one.is(host, *port)) {
            return (ProxyResult::Foreign, proxied_reply(BAD_GATEWAY, b""));
        }
        let url = format!("https://{host}:{port}{path}");
        let request = self.agent.post(&url);
        let request = request.header(CONTENT_TYPE, MEDIA_TYPE_OBLIVIOUS);
        let request = request.header(ACCEPT, MEDIA_TYPE_OBLIVIOUS);
        match request.send(&query.octets[..]) {
            // The target has responded, even if its response cannot be used.
            Ok(response) => match read(response) {
                Some((OK, body)) => (ProxyResult::Answered, proxied_reply(OK, &body)),
                Some((status, _)) => (ProxyResult::Rejected, proxied_reply(status, b"")),
                None => (ProxyResult::Rejected, proxied_reply(BAD_GATEWAY, b"")),
            },
            Err(error) => {
                tracing::debug!(host, "proxied query: {error}");
                let is_late = matches!(error, ureq::Error::Timeout(_));
                let status = if is_late { GATEWAY_TIMEOUT } else { BAD_GATEWAY };
                (ProxyResult::Failed, proxied_reply(status, b""))
            }
        }
    }
}

/// Returns the status of a response, with its body; `None` if the body is incomplete or too long. A
/// body of another media type is not passed on.
fn read(mut response: ureq::http::Response<ureq::Body>) -> Option<(u16, Vec<u8>)> {
    let status = response.status().as_u16();
    let media = response.headers().get(CONTENT_TYPE).and_then(|text| text.to_str().ok());
    let is_sealed = media.is_some_and(|media| media.starts_with(MEDIA_TYPE_OBLIVIOUS));
    if status != OK || !is_sealed {
        return Some((if status == OK { BAD_GATEWAY } else { status }, Vec::new()));
    }
    // The body may be compressed, so the limit also applies to the octets after decompression.
    let mut body = Vec::new();
    let received = response.body_mut().with_config().limit(BOUNDS.octets).reader();
    received.take(BOUNDS.octets + 1).read_to_end(&mut body).ok()?;
    (body.len() as u64 <= BOUNDS.octets).then_some((status, body))
}

/// Returns the addresses of a host in the configuration.
fn addresses(targets: &[ProxyTarget], host: &str) -> Vec<IpAddr> {
    let of_host = targets.iter().filter(|one| one.host.eq_ignore_ascii_case(host));
    of_host.filter_map(|one| one.address).collect()
}
