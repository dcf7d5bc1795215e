//! The collector of traces: one request by HTTP or HTTPS for a batch.

use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use avocet_config::otlp::{OtlpConfig, OtlpEncoding};
use avocet_io::file::read_regular;
use avocet_nameserver::clock::wall_secs;
use avocet_otlp::{Encoding, Rejected, read_rejected};
use avocet_session::trust::authority_certificates;
use thiserror::Error;
use ureq::Agent;
use ureq::http::header::{CONTENT_TYPE, RETRY_AFTER};
use ureq::http::{HeaderName, HeaderValue};

use super::retry::{Backoff, retry_after};
use crate::error::LookupError;
use crate::lists::fetch::{Bounds, Lookup, agent_for_collector};
use crate::trace::own_questions;
use avocet_worker::certificates::MAX_PEM;
use avocet_worker::state::Shared;

/// The limits of one request: those of the protocol's own exporters.
const BOUNDS: Bounds =
    Bounds { time: Duration::from_secs(10), connect: Duration::from_secs(5), octets: 64 << 10 };
/// The time for a request while the server shuts down.
const LAST_TIME: Duration = Duration::from_secs(2);
/// The time for which the addresses of the collector are used.
const ADDRESSES_TIME: Duration = Duration::from_secs(60);
/// The responses after which the same request may be sent again (OTLP, "Retryable Response Codes").
const RETRYABLE: [u16; 4] = [429, 502, 503, 504];

/// The reason why no collector can be used.
#[derive(Debug, Error)]
pub(crate) enum CollectorFault {
    /// The file with the authorities cannot be used.
    #[error("[otlp] ca: {} cannot be read: {}", .0.display(), .1)]
    Ca(PathBuf, io::Error),
}

/// The result of a request.
#[derive(Debug, PartialEq)]
pub(crate) enum Delivered {
    /// The collector accepted all or some of the spans.
    Taken(Rejected),
    /// The request must be sent again. Holds the reason, and the wait if the collector stated one.
    Later(String, Option<Duration>),
    /// The collector rejects the request. Holds the reason.
    Refused(String),
}

/// The urgency of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// The server is running.
    Usual,
    /// The server is ending, so that no name can be resolved any more.
    Last,
}

/// A collector.
pub(crate) struct Collector {
    config: OtlpConfig,
    url: String,
    agent: Agent,
    backoff: Backoff,
    /// The earliest time of the next request.
    not_before: Instant,
}

/// A function that returns whether the server is shutting down.
pub(crate) type Draining = Box<dyn Fn() -> bool + Send + Sync>;

/// The addresses of the collector, and the time at which they were found.
type KnownAddresses = Option<(Instant, Vec<IpAddr>)>;

impl Collector {
    /// Prepares requests; `None` if the configuration has no endpoint. While the server shuts down,
    /// no name is resolved.
    ///
    /// # Errors
    /// A file cannot be used.
    pub(crate) fn open(
        shared: &Arc<Shared>,
        config: &OtlpConfig,
        is_draining: Draining,
    ) -> Result<Option<Self>, CollectorFault> {
        let Some(url) = config.url() else { return Ok(None) };
        let authorities = match &config.ca {
            None => None,
            Some(path) => {
                let read =
                    read_regular(path, MAX_PEM).and_then(|octets| authority_certificates(&octets));
                Some(read.map_err(|error| CollectorFault::Ca(path.clone(), error))?)
            }
        };
        let agent = agent_for_collector(
            lookup(shared.clone(), is_draining),
            BOUNDS,
            authorities.as_deref(),
        );
        let (backoff, not_before) = (Backoff::default(), Instant::now());
        Ok(Some(Self { config: config.clone(), url, agent, backoff, not_before }))
    }

    /// Returns the URL of requests.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Returns whether this is the collector of a configuration.
    pub(crate) fn is_of(&self, config: &OtlpConfig) -> bool {
        let OtlpConfig { endpoint, encoding, headers, ca, .. } = &self.config;
        (endpoint, encoding, headers, ca)
            == (&config.endpoint, &config.encoding, &config.headers, &config.ca)
    }

    /// Returns whether a request may be sent now.
    pub(crate) fn is_ready(&self, now: Instant) -> bool {
        now >= self.not_before
    }

    /// Sends a request, and waits for the response. After a request that must be sent again,
    /// [`Collector::is_ready`] waits for the time that the collector or `random` determines.
    pub(crate) fn deliver(&mut self, body: &[u8], urgency: Urgency, random: u32) -> Delivered {
        let encoding = encoding_of(&self.config);
        let delivered = match self.post(body, encoding, urgency) {
            Ok(delivered) => delivered,
            Err(error) => Delivered::Later(shown(&error), None),
        };
        match &delivered {
            Delivered::Later(_, after) => {
                self.not_before = Instant::now() + self.backoff.next(*after, random);
            }
            Delivered::Taken(_) | Delivered::Refused(_) => self.backoff.reset(),
        }
        delivered
    }

    fn post(
        &self,
        body: &[u8],
        encoding: Encoding,
        urgency: Urgency,
    ) -> Result<Delivered, ureq::Error> {
        let mut request = self.agent.post(&self.url).header(CONTENT_TYPE, encoding.media_type());
        if urgency == Urgency::Last {
            request = request.config().timeout_global(Some(LAST_TIME)).build();
        }
        for header in self.config.headers.iter() {
            let name = HeaderName::from_bytes(header.name.as_bytes());
            let value = HeaderValue::from_str(&header.value);
            // Neither conversion fails, because the check of the configuration has accepted name
            // and value.
            if let (Ok(name), Ok(mut value)) = (name, value) {
                value.set_sensitive(true);
                request = request.header(name, value);
            }
        }
        let mut response = request.send(body)?;
        let status = response.status().as_u16();
        if RETRYABLE.contains(&status) {
            let after = response.headers().get(RETRY_AFTER).and_then(|text| text.to_str().ok());
            let after = after.and_then(|text| retry_after(text, wall_secs()));
            return Ok(Delivered::Later(format!("status {status}"), after));
        }
        if !(200..300).contains(&status) {
            return Ok(Delivered::Refused(format!("status {status}")));
        }
        let body = response.body_mut().with_config().limit(BOUNDS.octets).read_to_vec();
        // The request was accepted, even if the rest of the response is lost.
        Ok(Delivered::Taken(
            body.map_or_else(|_| Rejected::default(), |body| read_rejected(encoding, &body)),
        ))
    }
}

/// Returns the encoding of a configuration.
pub(crate) fn encoding_of(config: &OtlpConfig) -> Encoding {
    match config.encoding {
        OtlpEncoding::Protobuf => Encoding::Protobuf,
        OtlpEncoding::Json => Encoding::Json,
    }
}

/// Returns the reason of an error.
fn shown(error: &ureq::Error) -> String {
    match error {
        ureq::Error::Timeout(_) => "timeout".to_owned(),
        ureq::Error::Other(error) => error.to_string(),
        error => error.to_string(),
    }
}

/// Returns the lookup of the collector's addresses. It remembers them, because the workers, which
/// resolve names, end before the last request is sent.
fn lookup(shared: Arc<Shared>, is_draining: Draining) -> Lookup {
    let known: Mutex<KnownAddresses> = Mutex::default();
    Box::new(move |host: &str| {
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        match &*known {
            Some((at, found)) if is_draining() || at.elapsed() < ADDRESSES_TIME => {
                return Ok(found.clone());
            }
            None if is_draining() => return Err(LookupError::NoAnswer(host.to_owned())),
            _ => {}
        }
        let found = own_questions::addresses(&shared, host)?;
        *known = Some((Instant::now(), found.clone()));
        Ok(found)
    })
}
