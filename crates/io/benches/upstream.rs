//! Measures the CPU time of a client for a query and its answer over one of many connected sockets.
//! Compares plain calls with [`SyscallBatch`], and level-triggered with edge-triggered epoll. Run
//! with `cargo bench -p avocet-io`.
//!
//! Only the CPU time of the thread counts, so other threads disturb the result only through shared
//! caches. The variants take turns, and the median of their rounds is shown.

use std::io;
use std::os::fd::AsFd;
use std::thread;

use avocet_io::poll::{Events, Interest, Poller, Trigger};
use avocet_io::process;
use avocet_io::udp::{Datagram, UdpListener};
use avocet_io::upstream::UpstreamSocket;
use avocet_io::uring::{BATCH, SyscallBatch};

const SOCKETS: usize = 4096;
const EXCHANGES: usize = 60_000;
const ROUNDS: usize = 9;
const QUERY: [u8; 40] = [7; 40];

/// How queries are sent and answers are received.
#[derive(Clone, Copy, Debug)]
enum Variant {
    Plain(Trigger),
    Batched(Trigger),
}

const VARIANTS: [Variant; 4] = [
    Variant::Plain(Trigger::Level),
    Variant::Plain(Trigger::Edge),
    Variant::Batched(Trigger::Level),
    Variant::Batched(Trigger::Edge),
];

struct Bench {
    sockets: Vec<UpstreamSocket>,
    events: Events,
    batch: SyscallBatch,
    random: u64,
}

impl Bench {
    /// Returns the CPU nanoseconds per exchange with [`BATCH`] exchanges in flight.
    fn run(&mut self, variant: Variant) -> io::Result<u64> {
        let (Variant::Plain(trigger) | Variant::Batched(trigger)) = variant;
        let mut poller = Poller::new()?;
        for (socket, token) in self.sockets.iter().zip(0..) {
            poller.add(socket, token, Interest::Read, trigger)?;
        }
        let (mut done, mut under_way) = (0, 0);
        let begin = cpu_nanos();
        while done < EXCHANGES || under_way > 0 {
            let wanted = if done < EXCHANGES { BATCH - under_way } else { 0 };
            under_way += self.send(variant, wanted)?;
            poller.wait(&mut self.events, None)?;
            let answered = self.receive(variant)?;
            done += answered;
            under_way -= answered;
        }
        Ok((cpu_nanos() - begin) / done as u64)
    }

    fn send(&mut self, variant: Variant, wanted: usize) -> io::Result<usize> {
        let Self { sockets, batch, random, .. } = self;
        let chosen = (0..wanted).map(|_| &sockets[draw(random) % SOCKETS]);
        match variant {
            Variant::Plain(_) => {
                for socket in chosen {
                    socket.send(&QUERY)?;
                }
            }
            Variant::Batched(_) => {
                batch.send(chosen.map(|socket| (socket.as_fd(), QUERY.as_slice())), |_, _| {})?;
            }
        }
        Ok(wanted)
    }

    /// Reads once from each ready socket or, with edge triggering, until none has data left.
    fn receive(&mut self, variant: Variant) -> io::Result<usize> {
        let Self { sockets, batch, events, .. } = self;
        let mut received = 0;
        loop {
            let before = received;
            let ready = events.iter().map(|event| &sockets[event.token() as usize]);
            match variant {
                Variant::Plain(_) => {
                    let mut buffer = [0; 4096];
                    received += ready.filter(|socket| socket.recv(&mut buffer).is_ok()).count();
                }
                Variant::Batched(_) => {
                    let count =
                        |_, result: io::Result<&[u8]>| received += usize::from(result.is_ok());
                    batch.recv(ready.map(AsFd::as_fd), count)?;
                }
            }
            let (Variant::Plain(trigger) | Variant::Batched(trigger)) = variant;
            if trigger == Trigger::Level || received == before {
                return Ok(received);
            }
        }
    }
}

fn draw(random: &mut u64) -> usize {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    *random as usize
}

fn cpu_nanos() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` outlives the call, which writes it.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Answers every query with itself, on another core, until the process ends.
fn echo(mut listener: UdpListener) -> io::Result<()> {
    process::pin_to_core(1)?;
    let (mut poller, mut events) = (Poller::new()?, Events::with_capacity(1));
    poller.watch(&listener, 0);
    loop {
        poller.wait(&mut events, None)?;
        listener.serve(&mut |datagram: Datagram<'_>, reply: &mut [u8]| {
            reply[..datagram.bytes.len()].copy_from_slice(datagram.bytes);
            Some(datagram.bytes.len())
        })?;
    }
}

fn main() -> io::Result<()> {
    process::raise_open_files()?;
    let listener = UdpListener::bind(([127, 0, 0, 1], 0).into())?;
    let server = listener.local_addr()?;
    thread::spawn(|| echo(listener));
    process::pin_to_core(0)?;
    let begin = cpu_nanos();
    let opened: io::Result<Vec<_>> =
        (0..SOCKETS).map(|_| UpstreamSocket::connect(server, 0)).collect();
    let sockets = opened?;
    println!("open {} sockets: {} ns each", SOCKETS, (cpu_nanos() - begin) / SOCKETS as u64);
    let batch = SyscallBatch::new().ok_or(io::ErrorKind::Unsupported)?;
    let mut bench = Bench {
        sockets,
        events: Events::with_capacity(BATCH),
        batch,
        random: 88_172_645_463_325_252,
    };
    let mut nanos = VARIANTS.map(|_| Vec::new());
    for _ in 0..ROUNDS {
        for (variant, nanos) in VARIANTS.into_iter().zip(&mut nanos) {
            nanos.push(bench.run(variant)?);
        }
    }
    for (variant, mut nanos) in VARIANTS.into_iter().zip(nanos) {
        nanos.sort_unstable();
        println!(
            "{variant:?}: {} ns (of {} to {})",
            nanos[ROUNDS / 2],
            nanos[0],
            nanos[ROUNDS - 1]
        );
    }
    Ok(())
}
