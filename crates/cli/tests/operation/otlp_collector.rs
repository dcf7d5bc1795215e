//! A collector of OpenTelemetry: takes requests by HTTP or HTTPS, and reads their spans.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

use avocet_protobuf::{FieldValue, Fields};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::Value;

use crate::server::{PATIENCE, listen_at};

/// A span with its attributes as texts.
#[derive(Debug, Default, Clone)]
pub(crate) struct Seen {
    pub(crate) trace: Vec<u8>,
    pub(crate) id: Vec<u8>,
    pub(crate) parent: Vec<u8>,
    pub(crate) name: String,
    pub(crate) kind: u64,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) attributes: BTreeMap<String, String>,
    /// Name and time.
    pub(crate) events: Vec<(String, u64)>,
    /// The message of its error.
    pub(crate) error: Option<String>,
}

impl Seen {
    /// Returns an attribute; empty without it.
    pub(crate) fn get(&self, key: &str) -> &str {
        self.attributes.get(key).map_or("", String::as_str)
    }

    pub(crate) fn has_event(&self, name: &str) -> bool {
        self.events.iter().any(|(one, _)| one == name)
    }
}

/// A request.
pub(crate) struct Request {
    /// Its first line and its header, in lower case.
    pub(crate) head: String,
    /// The attributes of the resource.
    pub(crate) resource: BTreeMap<String, String>,
    pub(crate) spans: Vec<Seen>,
}

/// Returns the response to a request by its number, or `None` for no response at all.
type Manner = Arc<Mutex<Box<dyn FnMut(usize) -> Option<String> + Send>>>;

pub(crate) struct TestCollector {
    pub(crate) addr: SocketAddr,
    requests: Receiver<Request>,
    manner: Manner,
}

/// The response of a collector that takes a request.
pub(crate) const TAKEN: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

impl TestCollector {
    pub(crate) fn start() -> Self {
        Self::on(crate::server::tcp_listener(), None)
    }

    /// Serves at an address that was free.
    pub(crate) fn at(addr: SocketAddr) -> Self {
        Self::on(listen_at(addr), None)
    }

    pub(crate) fn with_tls(config: Arc<ServerConfig>) -> Self {
        Self::on(crate::server::tcp_listener(), Some(config))
    }

    fn on(listener: TcpListener, tls: Option<Arc<ServerConfig>>) -> Self {
        let addr = listener.local_addr().unwrap();
        let (sender, requests) = channel();
        let take: Box<dyn FnMut(usize) -> Option<String> + Send> =
            Box::new(|_| Some(TAKEN.to_owned()));
        let manner: Manner = Arc::new(Mutex::new(take));
        let used = manner.clone();
        thread::spawn(move || {
            let mut held = Vec::new();
            for (number, socket) in listener.incoming().enumerate() {
                let socket = socket.unwrap();
                let response = used.lock().unwrap()(number);
                let Some(response) = response else {
                    held.push(socket);
                    continue;
                };
                match &tls {
                    None => serve(socket, &response, &sender),
                    Some(tls) => {
                        let session = ServerConnection::new(tls.clone()).unwrap();
                        serve(StreamOwned::new(session, socket), &response, &sender);
                    }
                }
            }
        });
        Self { addr, requests, manner }
    }

    /// Changes the responses.
    pub(crate) fn respond(&self, manner: impl FnMut(usize) -> Option<String> + Send + 'static) {
        *self.manner.lock().unwrap() = Box::new(manner);
    }

    pub(crate) fn next(&self) -> Request {
        self.requests.recv_timeout(PATIENCE).expect("a request")
    }

    /// Returns the spans of the next request, the root of each trace first.
    pub(crate) fn spans(&self) -> Vec<Seen> {
        self.next().spans
    }

    /// Returns the number of spans that no test has taken.
    pub(crate) fn spans_left(&self) -> usize {
        self.requests.try_iter().map(|request| request.spans.len()).sum()
    }

    /// Waits for the trace of a name, and returns its spans.
    pub(crate) fn trace_of(&self, name: &str) -> Vec<Seen> {
        loop {
            let spans = self.spans();
            let is_root = |span: &&Seen| span.kind == 2 && span.get("dns.question.name") == name;
            if let Some(root) = spans.iter().find(is_root) {
                let trace = root.trace.clone();
                return spans.into_iter().filter(|span| span.trace == trace).collect();
            }
        }
    }
}

/// Reads one request and responds. A client that fails is ignored.
fn serve(socket: impl Read + Write, response: &str, requests: &Sender<Request>) {
    let mut socket = BufReader::new(socket);
    let mut head = String::new();
    loop {
        let mut line = String::new();
        if socket.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        if line == "\r\n" {
            break;
        }
        head.push_str(&line.to_ascii_lowercase());
    }
    let len = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    let mut body = vec![0; len.parse().unwrap()];
    socket.read_exact(&mut body).unwrap();
    // Only accepted requests count.
    if response.starts_with("HTTP/1.1 200") {
        let _ = requests.send(read(head, &body));
    }
    let _ = socket.get_mut().write_all(response.as_bytes());
    let _ = socket.get_mut().flush();
}

fn read(head: String, body: &[u8]) -> Request {
    if head.contains("content-type: application/json") {
        let body: Value = serde_json::from_slice(body).unwrap();
        let resource = &body["resourceSpans"][0];
        let spans = resource["scopeSpans"][0]["spans"].as_array().unwrap();
        return Request {
            head,
            resource: json_attributes(&resource["resource"]),
            spans: spans.iter().map(json_span).collect(),
        };
    }
    assert!(head.contains("content-type: application/x-protobuf"), "{head}");
    let resource_spans = field(body, 1).remove(0);
    let scope_spans = field(&resource_spans, 2).remove(0);
    let resource = attributes(&field(&field(&resource_spans, 1)[0], 1));
    let spans = field(&scope_spans, 2).iter().map(|span| binary_span(span)).collect();
    Request { head, resource, spans }
}

/// Returns the octets of all fields with a number; numbers as eight octets.
fn field(message: &[u8], number: u64) -> Vec<Vec<u8>> {
    let (mut fields, mut found) = (Fields(message), Vec::new());
    while let Some(field) = fields.read_field().unwrap() {
        if field.number == number {
            found.push(match field.value {
                FieldValue::Octets(octets) => octets.to_vec(),
                FieldValue::Uint(value) | FieldValue::Fixed64(value) => {
                    value.to_be_bytes().to_vec()
                }
                FieldValue::Fixed32(value) => u64::from(value).to_be_bytes().to_vec(),
            });
        }
    }
    found
}

fn text(octets: &[u8]) -> String {
    String::from_utf8(octets.to_vec()).unwrap()
}

fn number(octets: &[u8]) -> u64 {
    u64::from_be_bytes(octets.try_into().unwrap())
}

fn attributes(all: &[Vec<u8>]) -> BTreeMap<String, String> {
    let one = |attribute: &Vec<u8>| {
        let value = field(attribute, 2).remove(0);
        let texts = field(&value, 1).into_iter().map(|octets| text(&octets));
        let bools = field(&value, 2).into_iter().map(|octets| (number(&octets) == 1).to_string());
        let ints = field(&value, 3).into_iter().map(|octets| number(&octets).to_string());
        (text(&field(attribute, 1)[0]), texts.chain(bools).chain(ints).next().unwrap())
    };
    all.iter().map(one).collect()
}

fn binary_span(octets: &[u8]) -> Seen {
    let first = |number| field(octets, number).into_iter().next().unwrap_or_default();
    let event = |octets: &Vec<u8>| (text(&field(octets, 2)[0]), number(&field(octets, 1)[0]));
    let status = field(octets, 15);
    Seen {
        trace: first(1),
        id: first(2),
        parent: first(4),
        name: text(&first(5)),
        kind: number(&first(6)),
        start: number(&first(7)),
        end: number(&first(8)),
        attributes: attributes(&field(octets, 9)),
        events: field(octets, 11).iter().map(event).collect(),
        error: status.first().map(|status| {
            field(status, 2).first().map_or_else(String::new, |message| text(message))
        }),
    }
}

fn json_attributes(holder: &Value) -> BTreeMap<String, String> {
    let one = |attribute: &Value| {
        let value = attribute["value"].as_object().unwrap().values().next().unwrap();
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        (attribute["key"].as_str().unwrap().to_owned(), value)
    };
    holder["attributes"].as_array().unwrap().iter().map(one).collect()
}

fn json_span(span: &Value) -> Seen {
    let octets = |key: &str| span[key].as_str().unwrap_or_default().as_bytes().to_vec();
    let time = |value: &Value| value.as_str().unwrap().parse().unwrap();
    let event =
        |event: &Value| (event["name"].as_str().unwrap().to_owned(), time(&event["timeUnixNano"]));
    Seen {
        trace: octets("traceId"),
        id: octets("spanId"),
        parent: octets("parentSpanId"),
        name: span["name"].as_str().unwrap().to_owned(),
        kind: span["kind"].as_u64().unwrap(),
        start: time(&span["startTimeUnixNano"]),
        end: time(&span["endTimeUnixNano"]),
        attributes: json_attributes(span),
        events: span["events"].as_array().into_iter().flatten().map(event).collect(),
        error: span["status"]["message"].as_str().map(str::to_owned),
    }
}
