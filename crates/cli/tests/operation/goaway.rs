//! Upstreams over HTTPS that announce the end of a connection (RFC 9113 §6.8), as many do after a
//! number of requests.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use rustls::{ServerConnection, StreamOwned};

use crate::alt_svc::{Http2Frame, forward_to_url, frame, http2_config, read_frame, response};
use crate::server::{PATIENCE, first_record, query, udp_client};
use crate::upstream::ADDRESS;

const DATA: u8 = 0;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
/// Flag of SETTINGS: the settings of the peer are in force. Flag of DATA: the request is complete.
const DONE: u8 = 1;

/// A server of DNS over HTTP/2. It answers `held.example` only after it got `free.example` on
/// another connection. After `last.example`, it announces the end of the connection.
struct Ending {
    addr: SocketAddr,
    state: Arc<EndingState>,
}

#[derive(Default)]
struct EndingState {
    accepted: AtomicUsize,
    holds: AtomicBool,
    is_free: AtomicBool,
}

impl Ending {
    fn start() -> Self {
        let listener = crate::server::tcp_listener();
        let addr = listener.local_addr().unwrap();
        let state = Arc::<EndingState>::default();
        let (shared, config) = (state.clone(), http2_config());
        thread::spawn(move || {
            for stream in listener.incoming() {
                shared.accepted.fetch_add(1, Ordering::Relaxed);
                let connection = ServerConnection::new(config.clone()).unwrap();
                let stream = StreamOwned::new(connection, stream.unwrap());
                let state = shared.clone();
                // The client may end the connection at any point.
                thread::spawn(move || serve(stream, &state));
            }
        });
        Self { addr, state }
    }
}

fn serve(
    mut stream: StreamOwned<ServerConnection, TcpStream>,
    state: &EndingState,
) -> io::Result<()> {
    stream.read_exact(&mut [0; 24])?;
    stream.write_all(&frame([SETTINGS, 0], 0, &[]))?;
    let mut held = Vec::new();
    loop {
        let Http2Frame { kind_and_flags, id, payload } = read_frame(&mut stream)?;
        if kind_and_flags == [SETTINGS, 0] {
            stream.write_all(&frame([SETTINGS, DONE], 0, &[]))?;
        }
        if kind_and_flags != [DATA, DONE] {
            continue;
        }
        let answer = response(id, "clear", &payload);
        match payload[13..17].to_ascii_lowercase().as_slice() {
            b"held" => {
                held.push(answer);
                state.holds.store(true, Ordering::Relaxed);
            }
            b"free" => {
                state.is_free.store(true, Ordering::Relaxed);
                stream.write_all(&answer)?;
            }
            b"last" => {
                stream.write_all(&answer)?;
                let last = [id.to_be_bytes(), [0; 4]].concat();
                stream.write_all(&frame([GOAWAY, 0], 0, &last))?;
                while !state.is_free.load(Ordering::Relaxed) {
                    thread::yield_now();
                }
                held.iter().try_for_each(|answer| stream.write_all(answer))?;
            }
            _ => stream.write_all(&answer)?,
        }
    }
}

#[test]
fn queries_after_the_announced_end_of_a_connection_do_not_wait_for_earlier_answers() {
    let upstream = Ending::start();
    let (site, _server) = forward_to_url(&format!("https://{}/dns-query", upstream.addr), "");
    let client = udp_client();
    let ask = |id: u16, name: &str| client.send_to(&query(id, name), site.dns).unwrap();
    let answered = |name: &str| {
        let mut reply = [0; 512];
        let len = client.recv(&mut reply).unwrap();
        assert_eq!(first_record(&reply[..len], name).0, ADDRESS, "{name}");
    };
    ask(1, "held.example");
    let began = Instant::now();
    while !upstream.state.holds.load(Ordering::Relaxed) {
        assert!(began.elapsed() < PATIENCE);
        thread::yield_now();
    }
    ask(2, "last.example");
    answered("last.example");
    for (id, name) in [(3, "next.example"), (4, "more.example"), (5, "free.example")] {
        ask(id, name);
        answered(name);
    }
    answered("held.example");
    assert_eq!(upstream.state.accepted.load(Ordering::Relaxed), 2);
}
