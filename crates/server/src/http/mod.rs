//! The HTTP listeners. One serves `/metrics` for Prometheus, `/health` and `/ready` for the
//! supervisor of the process, and the API of the crate `avocet_web`. Other listeners serve the
//! block page to browsers, because blocked names resolve to their addresses. All listeners share
//! one thread, which is not a worker. Connections are bounded in time, size, number and requests.

mod ask;
mod certificate;
mod exposition;
mod metrics;
mod page;
mod provider;
mod surroundings;
mod watched;

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::{IpAddr, TcpListener as StdTcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use avocet_web::host::{HostOwner, TargetFault, with_host};
use avocet_web::{Body, LinkSecurity, Peer, Web};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONNECTION, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use crate::running::Running;
use crate::running::conditions::Condition;
use avocet_worker::connections::{ConnectionCounts, ConnectionLimits};
use certificate::Certificate;
use surroundings::{RunningSurroundings, owner_of_host};
use watched::Watched;

/// Maximum number of concurrent connections of the first listener; more wait in the kernel's queue.
const MAX_CONNECTIONS: usize = 128;
/// Maximum number of concurrent connections of one client; further ones are closed, so that a
/// silent client does not block others. A browser opens six; a person may have several browsers, or
/// use a proxy.
const MAX_CONNECTIONS_PER_CLIENT: usize = 48;
const LIMITS: ConnectionLimits = ConnectionLimits::new(MAX_CONNECTIONS, MAX_CONNECTIONS_PER_CLIENT);
/// Maximum time for the arrival of a request.
const REQUEST_TIME: Duration = Duration::from_secs(5);
/// Maximum duration of a connection: a fetch of lists may take minutes. A client that does not read
/// is disconnected earlier.
const CONNECTION_TIME: Duration = Duration::from_secs(300);
/// Age of a connection after which its next request is its last one.
const KEPT_TIME: Duration = Duration::from_secs(60);
/// Maximum number of requests of a connection.
const MAX_REQUESTS: u32 = 100;
/// If fewer places than these are free, connections do not wait for further requests.
const FEW_PLACES: usize = MAX_CONNECTIONS / 2;
/// Maximum duration of a connection to the block page.
const PAGE_TIME: Duration = Duration::from_secs(15);
/// Maximum number of concurrent connections of clients that may request only a proof for a
/// certificate authority.
const MAX_PROOF_CONNECTIONS: usize = 64;
/// Maximum number of threads for blocking requests: eight in general, four for searches, four for
/// long replies, 24 for streams of events, and one for an upload.
const MAX_BLOCKING: usize = 41;
/// Maximum number of octets of a request's head (the least that hyper allows).
const MAX_HEAD: usize = 8192;
/// Pause after the system ran out of descriptors.
const REFUSED_PAUSE: Duration = Duration::from_millis(100);

/// Maximum time to complete the requests in progress when another process takes over.
const LAST_REQUESTS: Duration = Duration::from_secs(2);
/// Time between two checks whether these requests are complete.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

const PLAIN: &str = "text/plain; charset=utf-8";

/// Listening sockets.
pub(crate) struct Listeners {
    /// The listener for metrics, health and the API.
    pub(crate) own: Option<StdTcpListener>,
    /// The HTTPS listener for metrics, health and the API.
    pub(crate) secure: Option<StdTcpListener>,
    /// The listeners for the block page.
    pub(crate) pages: Vec<StdTcpListener>,
}

impl Listeners {
    /// Returns whether the list is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.own.is_none() && self.secure.is_none() && self.pages.is_empty()
    }
}

/// The label by which a process that takes over recognizes the socket of the HTTPS listener.
pub(crate) const SECURE: &[u8] = b"https";
/// The label by which a process that takes over recognizes the socket of the first listener.
pub(crate) const OWN: &[u8] = b"http";
/// The label by which a process that takes over recognizes the sockets for the block page.
pub(crate) const PAGE: &[u8] = b"page";

/// The listeners and their thread. Dropping the value stops accepting connections.
pub(crate) struct HttpServer {
    listeners: Vec<(&'static [u8], OwnedFd)>,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
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
            .chain(listeners.secure.iter().map(|one| (SECURE, one)))
            .chain(listeners.pages.iter().map(|one| (PAGE, one)));
        let copies = labelled.map(|(label, listener)| {
            listener.set_nonblocking(true)?;
            Ok((label, listener.as_fd().try_clone_to_owned()?))
        });
        let copies = copies.collect::<io::Result<_>>()?;
        let (stop, stopped) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(MAX_BLOCKING)
            .thread_name("http-work")
            .build()?;
        let serve = move || runtime.block_on(run(listeners, running, stopped));
        let thread = thread::Builder::new().name("http".to_owned()).spawn(serve)?;
        Ok(Self { listeners: copies, stop, thread })
    }

    /// Accepts no further connections, and completes the requests in progress. Returns the thread,
    /// which then ends.
    pub(crate) fn stop(self) -> JoinHandle<()> {
        drop(self.stop);
        self.thread
    }

    /// Returns the listening sockets with their labels, for the take-over by a new process.
    pub(crate) fn listeners(&self) -> impl Iterator<Item = (&'static [u8], BorrowedFd<'_>)> {
        self.listeners.iter().map(|(label, listener)| (*label, listener.as_fd()))
    }
}

async fn run(listeners: Listeners, running: Arc<Running>, stopped: oneshot::Receiver<()>) {
    let Listeners { own, secure, pages } = listeners;
    let site = Arc::new(Site::new(running.clone()));
    let in_progress = site.in_progress.clone();
    let mut accepting = JoinSet::new();
    if let Some(listener) = own.and_then(listen) {
        let site = site.clone();
        accepting.spawn(async move { accept(&listener, site, None).await });
    }
    if let Some(listener) = secure.and_then(listen) {
        let certificate = Arc::new(Certificate::default());
        certificate.look_for(&running);
        let (watched, running) = (certificate.clone(), running.clone());
        tokio::spawn(async move { watched.watch(&running).await });
        accepting.spawn(async move { accept(&listener, site, Some(certificate)).await });
    }
    for listener in pages.into_iter().filter_map(listen) {
        let running = running.clone();
        accepting.spawn(async move { accept_for_page(&listener, running).await });
    }
    // The channel carries no value: dropping the sender ends the wait. The runtime ends with this
    // thread.
    let _ = stopped.await;
    accepting.shutdown().await;
    let began = Instant::now();
    while in_progress.load(Ordering::Relaxed) > 0 && began.elapsed() < LAST_REQUESTS {
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

fn listen(listener: StdTcpListener) -> Option<TcpListener> {
    TcpListener::from_std(listener)
        .map_err(|error| tracing::error!("cannot serve HTTP: {error}"))
        .ok()
}

/// The state of the listeners for metrics, health and the API.
struct Site {
    running: Arc<Running>,
    web: Web,
    /// Number of requests in progress.
    in_progress: Arc<AtomicU32>,
}

impl Site {
    fn new(running: Arc<Running>) -> Self {
        let surroundings = Arc::new(RunningSurroundings::new(running.clone()));
        let stores = running.web.clone();
        let web = Web::new(running.clone(), surroundings, stores);
        Self { web, running, in_progress: Arc::default() }
    }

    /// Serves a connection, over TLS if there is a certificate. Slow and closed connections are
    /// normal.
    async fn serve(
        &self,
        stream: TcpStream,
        kept: &KeptConnection,
        secure: Option<Arc<Certificate>>,
    ) {
        let security = secure.as_ref().map_or(LinkSecurity::Plain, |_| LinkSecurity::Tls);
        let peer = Peer { address: kept.client, security };
        let respond = |request: Request<Incoming>| async move {
            let mut response = counted(&self.in_progress, self.respond(request, peer)).await;
            if kept.is_last() {
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            response
        };
        let Some(certificate) = secure else {
            let _ = serve(stream, Further::Requests, respond).await;
            return;
        };
        let Some(config) = certificate.in_force(&self.running) else { return };
        let acceptor = TlsAcceptor::from(config);
        if let Ok(Ok(stream)) = timeout(REQUEST_TIME, acceptor.accept(stream)).await {
            let _ = serve(stream, Further::Requests, respond).await;
        }
    }

    async fn respond(&self, request: Request<Incoming>, peer: Peer) -> Response<Body> {
        let request = match with_host(request) {
            Ok(request) => request,
            Err(fault) => return malformed(fault).map(Body::new),
        };
        let path = request.uri().path();
        if let Some(text) = self.running.acme.proofs.at(path) {
            return response(StatusCode::OK, PLAIN, text).map(Body::new);
        }
        if !OWN_PATHS.contains(&path) {
            return self.web.respond(request.map(Body::new), peer).await;
        }
        let asks = Asks { path, owner: owner_of_host(request.headers(), &self.running) };
        respond(request.method(), &asks, &self.running).map(Body::new)
    }
}

/// A request in progress. Dropping it ends the count of the request.
struct CountedRequest<'a>(&'a AtomicU32);

impl Drop for CountedRequest<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Counts a request until its response is complete, or its client disconnects and the future is
/// dropped.
async fn counted<T>(in_progress: &AtomicU32, response: impl Future<Output = T>) -> T {
    in_progress.fetch_add(1, Ordering::Relaxed);
    let _counted = CountedRequest(in_progress);
    response.await
}

/// Returns the response to a request with a malformed target or `Host`.
fn malformed(fault: TargetFault) -> Response<Full<Bytes>> {
    response(StatusCode::BAD_REQUEST, PLAIN, format!("{fault}\n"))
}

/// A connection that may send further requests.
struct KeptConnection {
    client: IpAddr,
    began: Instant,
    requests: AtomicU32,
    /// The free places for connections of all clients.
    places: Arc<Semaphore>,
}

impl KeptConnection {
    /// Counts a request, and returns whether it is the last request of the connection.
    fn is_last(&self) -> bool {
        let number = self.requests.fetch_add(1, Ordering::Relaxed) + 1;
        number >= MAX_REQUESTS
            || self.began.elapsed() >= KEPT_TIME
            || self.places.available_permits() < FEW_PLACES
    }
}

async fn accept(listener: &TcpListener, site: Arc<Site>, certificate: Option<Arc<Certificate>>) {
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
                let (site, certificate) = (site.clone(), certificate.clone());
                let kept = KeptConnection {
                    client: ip,
                    began: Instant::now(),
                    requests: AtomicU32::new(0),
                    places: places.clone(),
                };
                tokio::spawn(async move {
                    let served = site.serve(stream, &kept, certificate);
                    let _ = timeout(CONNECTION_TIME, served).await;
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
    let proofs = Arc::new(Semaphore::new(MAX_PROOF_CONNECTIONS));
    loop {
        let Ok((stream, peer)) = listener.accept().await else {
            tokio::time::sleep(REFUSED_PAUSE).await;
            continue;
        };
        let Some(visit) = page::Visit::begin(running.clone(), peer.ip()) else {
            serve_proof(stream, &running, &proofs);
            continue;
        };
        let visit = Arc::new(visit);
        tokio::spawn(async move {
            let respond = |request: Request<Incoming>| {
                let visit = visit.clone();
                async move { visit.respond(request).await.map(Body::new) }
            };
            let _ = timeout(PAGE_TIME, serve(stream, Further::None, respond)).await;
        });
    }
}

/// Serves a client that may not query this server, while a certificate authority requests the proof
/// that this server controls a name (RFC 8555 §8.3): the authority may use any address. Such a
/// client can request nothing but the proof.
fn serve_proof(stream: TcpStream, running: &Arc<Running>, places: &Arc<Semaphore>) {
    let proofs = running.acme.proofs.clone();
    let place = places.clone().try_acquire_owned();
    let (false, Ok(place)) = (proofs.is_empty(), place) else { return };
    tokio::spawn(async move {
        let respond = |request: Request<Incoming>| {
            let (status, text) = match proofs.at(request.uri().path()) {
                Some(text) => (StatusCode::OK, text),
                None => (StatusCode::NOT_FOUND, String::new()),
            };
            async move { response(status, PLAIN, text).map(Body::new) }
        };
        let _ = timeout(REQUEST_TIME, serve(stream, Further::None, respond)).await;
        drop(place);
    });
}

/// Whether a connection may send more than one request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Further {
    /// The connection may send more requests. The time for the head of a request also bounds the
    /// time without a request.
    Requests,
    /// The connection may send no further request.
    None,
}

async fn serve<S, F, R>(stream: S, further: Further, respond: F) -> hyper::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
    F: Fn(Request<Incoming>) -> R,
    R: Future<Output = Response<Body>>,
{
    let service = service_fn(move |request: Request<Incoming>| {
        let response = respond(request);
        async move { Ok::<_, Infallible>(response.await) }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_TIME)
        .max_buf_size(MAX_HEAD)
        .keep_alive(further == Further::Requests)
        .serve_connection(TokioIo::new(Watched::new(stream)), service)
        .await
}

/// The paths of this crate, which need no log-in.
const OWN_PATHS: [&str; 3] = ["/metrics", "/health", "/ready"];

/// The relevant parts of a request.
struct Asks<'a> {
    path: &'a str,
    owner: HostOwner,
}

/// Serves one of [`OWN_PATHS`]. Requests for these paths have no body.
fn respond(method: &Method, asks: &Asks<'_>, running: &Running) -> Response<Full<Bytes>> {
    let (status, kind, body) = match asks.path {
        _ if method != Method::GET && method != Method::HEAD => {
            (StatusCode::METHOD_NOT_ALLOWED, PLAIN, "only GET and HEAD are supported\n".to_owned())
        }
        "/metrics" if asks.owner == HostOwner::Foreign => {
            let text = "the name in Host does not belong to this network: use an address, or add \
                        the name to [server] http-names\n";
            (StatusCode::FORBIDDEN, PLAIN, text.to_owned())
        }
        "/metrics" => (StatusCode::OK, exposition::CONTENT_TYPE, metrics::text(running)),
        "/health" if running.is_healthy() && asks.owner == HostOwner::Foreign => {
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

/// Returns a line with the server's health, followed by one line per condition that the operator
/// should know. Anybody may read them, so they have no text from elsewhere.
fn with_warnings(first: &str, running: &Running) -> String {
    let shown =
        |condition: Condition| format!("warning: {}: {}\n", condition.name(), condition.meaning());
    let warnings: String = running.conditions.all().into_keys().map(shown).collect();
    let details = if warnings.is_empty() { "" } else { "for the causes: avocet status\n" };
    format!("{first}\n{warnings}{details}")
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
    use std::future::{pending, ready};
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    #[test]
    fn requests_of_clients_that_disconnect_are_not_in_progress() {
        let in_progress = AtomicU32::new(0);
        let count = || in_progress.load(Ordering::Relaxed);
        let mut context = Context::from_waker(Waker::noop());
        {
            let mut request = pin!(counted(&in_progress, pending::<()>()));
            assert!(request.as_mut().poll(&mut context).is_pending());
            assert_eq!(count(), 1);
        }
        assert_eq!(count(), 0);
        assert!(pin!(counted(&in_progress, ready(()))).poll(&mut context).is_ready());
        assert_eq!(count(), 0);
    }
}
