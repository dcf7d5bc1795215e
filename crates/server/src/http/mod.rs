//! The HTTP listeners. One serves `/metrics` for Prometheus, and `/health` and `/ready` for the
//! supervisor of the process. Others serve the block page to browsers that the answer for a blocked
//! name led here. They share one thread apart from the workers, and serve one request per
//! connection, bounded in time, size and number.

mod exposition;
mod metrics;
mod page;

use std::convert::Infallible;
use std::future::Future;
use std::net::{IpAddr, SocketAddr, TcpListener as StdTcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;
use std::{io, thread};

use avocet_wire::FoldedNameBuf;
use avocet_wire::name::MAX_NAME;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE, HOST, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;

use crate::connections::{ConnectionCounts, ConnectionLimits};
use crate::running::Running;

/// Connections of the first listener that are served at once; more wait in the kernel's queue.
const MAX_CONNECTIONS: usize = 32;
/// Connections of one client that are served at once; further ones are closed. A silent client must
/// not block others.
const MAX_CONNECTIONS_PER_CLIENT: usize = 8;
const LIMITS: ConnectionLimits =
    ConnectionLimits { total: MAX_CONNECTIONS, per_client: MAX_CONNECTIONS_PER_CLIENT };
/// How long a request may take to arrive.
const REQUEST_TIME: Duration = Duration::from_secs(5);
/// The longest duration of a connection.
const CONNECTION_TIME: Duration = Duration::from_secs(15);
/// Most octets of a request's head (the least that hyper allows).
const MAX_HEAD: usize = 8192;
/// Pause after the system ran out of descriptors.
const REFUSED_PAUSE: Duration = Duration::from_millis(100);

const PLAIN: &str = "text/plain; charset=utf-8";

/// Listening sockets.
pub(crate) struct Listeners {
    /// The listener for metrics and health.
    pub(crate) own: Option<StdTcpListener>,
    /// The listeners for the block page.
    pub(crate) pages: Vec<StdTcpListener>,
}

/// The label of the first listener.
pub(crate) const OWN: &[u8] = b"http";
/// The label of the listeners for the block page.
pub(crate) const PAGE: &[u8] = b"page";

/// The listeners and their thread. Dropping the value stops accepting connections.
pub(crate) struct HttpServer {
    listeners: Vec<(&'static [u8], OwnedFd)>,
    _stop: oneshot::Sender<()>,
}

impl HttpServer {
    /// Serves on listening sockets.
    ///
    /// # Errors
    ///
    /// The system cannot provide a thread or a descriptor.
    pub(crate) fn start(listeners: Listeners, running: Arc<Running>) -> io::Result<Self> {
        let labelled = listeners
            .own
            .iter()
            .map(|one| (OWN, one))
            .chain(listeners.pages.iter().map(|one| (PAGE, one)));
        let copies = labelled.map(|(label, listener)| {
            listener.set_nonblocking(true)?;
            Ok((label, listener.as_fd().try_clone_to_owned()?))
        });
        let copies = copies.collect::<io::Result<_>>()?;
        let (stop, stopped) = oneshot::channel();
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let serve = move || runtime.block_on(run(listeners, running, stopped));
        thread::Builder::new().name("http".to_owned()).spawn(serve)?;
        Ok(Self { listeners: copies, _stop: stop })
    }

    /// The listening sockets with their labels, for the take-over by a new process.
    pub(crate) fn listeners(&self) -> impl Iterator<Item = (&'static [u8], BorrowedFd<'_>)> {
        self.listeners.iter().map(|(label, listener)| (*label, listener.as_fd()))
    }
}

async fn run(listeners: Listeners, running: Arc<Running>, stopped: oneshot::Receiver<()>) {
    let Listeners { own, pages } = listeners;
    if let Some(listener) = own.and_then(listen) {
        let running = running.clone();
        tokio::spawn(async move { accept(&listener, running).await });
    }
    for listener in pages.into_iter().filter_map(listen) {
        let running = running.clone();
        tokio::spawn(async move { accept_for_page(&listener, running).await });
    }
    // Nothing is ever sent, only the sender is dropped; the runtime ends with this thread.
    let _ = stopped.await;
}

fn listen(listener: StdTcpListener) -> Option<TcpListener> {
    TcpListener::from_std(listener)
        .map_err(|error| tracing::error!("cannot serve HTTP: {error}"))
        .ok()
}

async fn accept(listener: &TcpListener, running: Arc<Running>) {
    let (places, clients) =
        (Arc::new(Semaphore::new(MAX_CONNECTIONS)), Arc::new(ConnectionCounts::default()));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, peer)) => {
                let (clients, ip) = (clients.clone(), peer.ip().to_canonical());
                if clients.open(ip, &LIMITS).is_err() {
                    continue;
                }
                let running = running.clone();
                tokio::spawn(async move {
                    let respond = |request: &Request<Incoming>| {
                        let host =
                            request.headers().get(HOST).map_or(&b""[..], HeaderValue::as_bytes);
                        let asks =
                            Asks { path: request.uri().path(), whose: whose_host(host, &running) };
                        respond(request.method(), &asks, &running)
                    };
                    // Slow and closed connections are normal.
                    let _ = timeout(CONNECTION_TIME, serve(stream, respond)).await;
                    clients.close(ip);
                    drop(place);
                });
            }
            Err(_) => tokio::time::sleep(REFUSED_PAUSE).await,
        }
    }
}

/// Accepts connections for the block page. A client that may not query this server, or exceeds the
/// limit, is disconnected at once.
async fn accept_for_page(listener: &TcpListener, running: Arc<Running>) {
    loop {
        let Ok((stream, peer)) = listener.accept().await else {
            tokio::time::sleep(REFUSED_PAUSE).await;
            continue;
        };
        let Some(visit) = page::Visit::begin(running.clone(), peer.ip()) else { continue };
        tokio::spawn(async move {
            let _ = timeout(
                CONNECTION_TIME,
                serve(stream, |request: &Request<Incoming>| visit.respond(request)),
            )
            .await;
        });
    }
}

fn serve(
    stream: TcpStream,
    respond: impl Fn(&Request<Incoming>) -> Response<Full<Bytes>>,
) -> impl Future<Output = hyper::Result<()>> {
    let service = service_fn(move |request: Request<Incoming>| {
        let response = respond(&request);
        async move { Ok::<_, Infallible>(response) }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_TIME)
        .max_buf_size(MAX_HEAD)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service)
}

/// The relevant parts of a request.
struct Asks<'a> {
    path: &'a str,
    whose: Whose,
}

/// The owner of the name in the `Host` of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Whose {
    /// An address, or a name of this network.
    Ours,
    /// A foreign name that resolves to this address: a web page of its owner could read the
    /// response in a browser of this network.
    Foreign,
}

/// Domains of private networks: RFC 6762, RFC 8375, RFC 6761, and others that are reserved or used
/// for this purpose.
const PRIVATE_DOMAINS: [&str; 9] = [
    "localhost",
    "local",
    "lan",
    "home.arpa",
    "internal",
    "intranet",
    "home",
    "localdomain",
    "test",
];

fn whose_host(host: &[u8], running: &Running) -> Whose {
    let state = running.shared.snapshot();
    let is_record =
        |name: &str| text_to_name(name).is_some_and(|name| state.names.local.has(name.view()));
    let names = &state.config.server.http_names;
    judge_host(host, |name| names.iter().any(|known| known == name) || is_record(name))
}

fn judge_host(host: &[u8], is_known: impl Fn(&str) -> bool) -> Whose {
    let Ok(host) = std::str::from_utf8(host) else { return Whose::Foreign };
    let is_address = host.parse::<SocketAddr>().is_ok()
        || host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().is_ok();
    let name = host
        .rsplit_once(':')
        .map_or(host, |(name, _)| name)
        .trim_end_matches('.')
        .to_ascii_lowercase();
    let is_below = |domain: &&str| {
        name.strip_suffix(*domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    let is_private = !name.contains('.') || PRIVATE_DOMAINS.iter().any(is_below);
    if is_address || is_private || is_known(&name) { Whose::Ours } else { Whose::Foreign }
}

fn text_to_name(text: &str) -> Option<FoldedNameBuf> {
    let mut wire = [0; MAX_NAME];
    let len = avocet_wire::text::name_to_wire(text.as_bytes(), Some(&[0]), &mut wire).ok()?;
    FoldedNameBuf::from_wire(wire.get(..len)?).ok()
}

/// The body of a request is never read: no path accepts one.
fn respond(method: &Method, asks: &Asks<'_>, running: &Running) -> Response<Full<Bytes>> {
    let (status, kind, body) = match asks.path {
        _ if method != Method::GET && method != Method::HEAD => {
            (StatusCode::METHOD_NOT_ALLOWED, PLAIN, "only GET and HEAD are supported\n".to_owned())
        }
        "/metrics" if asks.whose == Whose::Foreign => {
            let text = "the name in Host does not belong to this network: use an address, or add \
                        the name to [server] http-names\n";
            (StatusCode::FORBIDDEN, PLAIN, text.to_owned())
        }
        "/metrics" => (StatusCode::OK, exposition::CONTENT_TYPE, metrics::text(running)),
        "/health" if running.is_healthy() && asks.whose == Whose::Foreign => {
            (StatusCode::OK, PLAIN, "healthy\n".to_owned())
        }
        "/health" if running.is_healthy() => {
            (StatusCode::OK, PLAIN, with_warnings("healthy", running))
        }
        "/health" => (StatusCode::SERVICE_UNAVAILABLE, PLAIN, "a worker is stuck\n".to_owned()),
        "/ready" => match running.unready() {
            None => (StatusCode::OK, PLAIN, "ready\n".to_owned()),
            Some(why) => (StatusCode::SERVICE_UNAVAILABLE, PLAIN, format!("{why}\n")),
        },
        _ => (StatusCode::NOT_FOUND, PLAIN, "available: /metrics, /health and /ready\n".to_owned()),
    };
    response(status, kind, body)
}

/// A line with the server's health, followed by one line per condition that the operator should
/// know.
fn with_warnings(first: &str, running: &Running) -> String {
    let warnings = running.conditions.all().into_values().map(|text| format!("warning: {text}\n"));
    format!("{first}\n{}", warnings.collect::<String>())
}

fn response(status: StatusCode, kind: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    if status == StatusCode::METHOD_NOT_ALLOWED {
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_strangers_can_register_is_foreign() {
        let of = |host: &str| judge_host(host.as_bytes(), |name| name == "dns.example.net");
        for host in [
            "",
            "127.0.0.1",
            "127.0.0.1:8053",
            "[::1]:8053",
            "[fd00::1]",
            "localhost:8053",
            "router",
            "NAS.lan:80",
            "dns.home.arpa.",
            "dns.example.net:8053",
            "Dns.Example.Net",
        ] {
            assert_eq!(of(host), Whose::Ours, "{host:?}");
        }
        for host in [
            "evil.example",
            "evil.example:8053",
            "127.0.0.1.evil.example",
            "lan.example",
            "evillan.example",
            "notlan.xlan.example",
        ] {
            assert_eq!(of(host), Whose::Foreign, "{host:?}");
        }
    }
}
