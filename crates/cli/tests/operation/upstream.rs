//! An upstream that answers every A query with one address, when the test permits it.

use std::net::{SocketAddr, UdpSocket};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

/// The address in every answer.
pub(crate) const ADDRESS: [u8; 4] = [192, 0, 2, 77];
/// The TTL of every answer.
pub(crate) const TTL_SECS: u32 = 300;

/// A running upstream.
pub(crate) struct Upstream {
    pub(crate) addr: SocketAddr,
    questions: Receiver<String>,
    gate: Arc<Mutex<()>>,
}

impl Upstream {
    /// Starts an upstream that answers until the process ends.
    pub(crate) fn start() -> Self {
        Self::answering(ADDRESS)
    }

    /// Starts an upstream that answers with this address.
    pub(crate) fn answering(address: [u8; 4]) -> Self {
        let socket = crate::server::udp_socket();
        let addr = socket.local_addr().unwrap();
        let (sender, questions) = channel();
        let gate = Arc::new(Mutex::new(()));
        let passed = gate.clone();
        thread::spawn(move || answer(&socket, address, (&sender, &passed)));
        Self { addr, questions, gate }
    }

    /// Names queried since the last call, in lower case.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.questions.try_iter().collect()
    }

    /// Waits for a query.
    pub(crate) fn wait_for_question(&self) -> String {
        self.questions.recv_timeout(super::server::PATIENCE).unwrap()
    }

    /// Holds all answers back while the guard lives.
    pub(crate) fn hold(&self) -> std::sync::MutexGuard<'_, ()> {
        self.gate.lock().unwrap()
    }
}

fn answer(socket: &UdpSocket, address: [u8; 4], (questions, gate): (&Sender<String>, &Mutex<()>)) {
    let mut buffer = [0; 4096];
    while let Ok((len, from)) = socket.recv_from(&mut buffer) {
        let query = &buffer[..len];
        let question_end = 12 + query[12..].iter().position(|octet| *octet == 0).unwrap() + 5;
        let name = shown(&query[12..question_end - 4]);
        // The test may be over.
        let _ = questions.send(name);
        let mut reply = query[..question_end].to_vec();
        reply[2..12].copy_from_slice(&[0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]);
        reply.extend([0xc0, 12, 0, 1, 0, 1]);
        reply.extend(TTL_SECS.to_be_bytes());
        reply.extend([0, 4]);
        reply.extend(address);
        drop(gate.lock());
        socket.send_to(&reply, from).unwrap();
    }
}

fn shown(wire: &[u8]) -> String {
    let mut name = String::new();
    let mut rest = wire;
    while let [len @ (1..), after @ ..] = rest {
        let (label, behind) = after.split_at(usize::from(*len));
        name.push_str(&String::from_utf8_lossy(label).to_ascii_lowercase());
        name.push('.');
        rest = behind;
    }
    name
}
