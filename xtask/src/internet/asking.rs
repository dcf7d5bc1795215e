//! Sends many questions to a server, a few at a time, like impatient clients.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream, UdpSocket};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::message::{self, Answer, Question, Reply};

/// Number of questions in flight.
const CLIENTS: usize = 32;
/// Time that a client waits for an answer. A resolver that waits for silent servers takes seconds.
const PATIENCE: Duration = Duration::from_millis(5500);
/// Number of times that a question is sent before the client gives up.
const TRIES: u32 = 2;
const LOOK_FOR: Duration = Duration::from_millis(50);

/// The result of a question.
#[derive(Clone, Default)]
pub(super) struct Asked {
    /// The answer, or `None` if there was none.
    pub(super) answer: Option<Answer>,
    /// The time until the answer, or until the client gave up.
    pub(super) took: Duration,
}

/// Sends all questions. Returns the results in the order of the questions.
pub(super) fn ask_all(server: SocketAddrV4, questions: &[Question]) -> Vec<Asked> {
    let next = AtomicUsize::new(0);
    let answers = Mutex::new(vec![Asked::default(); questions.len()]);
    let client = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(question) = questions.get(number) else { return };
            let started = Instant::now();
            let answer = ask(server, question, number as u16);
            let took = started.elapsed();
            if let Ok(mut answers) = answers.lock() {
                answers[number] = Asked { answer, took };
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(client);
        }
    });
    answers.into_inner().unwrap_or_default()
}

/// Returns whether a server answers. Waits for some time if it does not.
pub(super) fn is_answering(server: SocketAddrV4, name: &str) -> bool {
    let question = Question {
        name: name.to_owned(),
        kind: 1,
        is_dnssec_ok: false,
        is_checking_disabled: false,
    };
    let heard = || -> io::Result<bool> {
        // The socket is not connected, so that a port without a listener appears silent.
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        socket.set_read_timeout(Some(LOOK_FOR))?;
        socket.send_to(&question.wire(1), server)?;
        let mut buffer = [0; 4096];
        Ok(socket.recv(&mut buffer).is_ok())
    };
    heard().unwrap_or(false)
}

fn ask(server: SocketAddrV4, question: &Question, id: u16) -> Option<Answer> {
    let query = question.wire(id);
    (0..TRIES).find_map(|_| match by_udp(server, &query, id).ok()?? {
        Reply::Whole(answer) => Some(answer),
        Reply::Truncated => match by_tcp(server, &query, id).ok()?? {
            Reply::Whole(answer) => Some(answer),
            Reply::Truncated => None,
        },
    })
}

fn by_udp(server: SocketAddrV4, query: &[u8], id: u16) -> io::Result<Option<Reply>> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.connect(server)?;
    socket.send(query)?;
    let mut buffer = vec![0; usize::from(u16::MAX)];
    let length = socket.recv(&mut buffer)?;
    Ok(message::read(&buffer[..length], id))
}

fn by_tcp(server: SocketAddrV4, query: &[u8], id: u16) -> io::Result<Option<Reply>> {
    let mut stream = TcpStream::connect(server)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(&[&(query.len() as u16).to_be_bytes(), query].concat())?;
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut buffer = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut buffer)?;
    Ok(message::read(&buffer, id))
}
