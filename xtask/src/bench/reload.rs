//! The cost of replacing a list of a million names repeatedly under an open loop of queries:
//! losses, latency and memory.
//!
//! The server has one core for its worker and the compiling thread, as on the smallest machine.
//! Half of the queries are for names on the list; the other half is cached. Each replacement makes
//! the policy evaluate all these names again.
//!
//! The same load is also run next to a busy loop at the lowest priority on the server's core. This
//! run shows the latency that a busy core causes by itself: a shared machine may take a busy core
//! away for milliseconds, but provides an idle core at once.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::ask::{self, Transport};
use super::load::{Generator, Latency, Load, Pace, Questions};
use super::options::Options;
use super::peer::Peer;
use super::process::{Launch, SERVER_CORE, Server, pinned};
use super::setup::Setup;
use super::{blocklist, json, machine};

/// Number of names on the list.
const NAMES: u32 = 1_000_000;
/// Number of lists that alternate.
const LISTS: usize = 2;
/// Number of names on the list that are queried.
const ASKED_OF_LIST: u32 = 10_000;
/// Default number of queries per second. A machine that also does other work can sustain it.
const RATE: u64 = 20_000;
/// Maximum time for the start, which includes the first compilation.
const START_WITHIN: Duration = Duration::from_secs(120);
/// Seconds after which the memory of a replacement is expected to be free.
const SETTLED_AFTER_SECS: u64 = 3;
/// Number of queries in flight while names are being cached.
const CACHING_WINDOW: u64 = 48;

/// Measures the cost of replacements. Takes `--rate N` in addition to the options of all benches.
/// `--secs` is the duration of each of the three runs in a round. Rounds alternate, so that other
/// work on the machine affects all runs. Their medians are compared.
pub(super) fn run(words: &[&str]) -> Result<(), String> {
    let (rate, rest) = rate_of(words)?;
    let options = Options::parse_for(&[Peer::Avocet], &rest)?;
    let options = Options { generator: Generator::Avocet, ..options };
    let setup = Setup::prepare(&options.peers, &options)?;
    let site = Site::write(&setup)?;
    let command = [
        &setup.avocet.display().to_string(),
        "serve",
        "--config",
        &site.config.display().to_string(),
    ];
    let command = command.map(str::to_owned);
    let log = setup.file("reload.log");
    let launch = Launch { command: &command, core: SERVER_CORE, log: &log, within: START_WITHIN };
    let server = Server::start(&launch, || ask::is_ready(site.dns))?;
    let questions =
        |pace| Questions { server: site.dns, file: &site.queries, transport: Transport::Udp, pace };
    let count = u64::from(2 * ASKED_OF_LIST);
    Generator::Avocet.ask(&setup, &questions(Pace::Count { count, window: CACHING_WINDOW }))?;

    let pace = Pace::Rate { per_sec: rate, secs: options.secs };
    let mut result = Outcome { rate, ..Outcome::default() };
    for round in 0..*options.rounds.start() {
        result.quiet.push(Generator::Avocet.ask(&setup, &questions(pace))?);
        if round == 0 {
            result.memory.before = memory(&server)?.now;
            server.forget_peak()?;
        }
        let circles = Circles::begin()?;
        result.busy.push(Generator::Avocet.ask(&setup, &questions(pace))?);
        drop(circles);
        let (swapped, swaps) = thread::scope(|scope| {
            let load = scope.spawn(|| Generator::Avocet.ask(&setup, &questions(pace)));
            let swaps = site.swap_while(result.swaps.len(), || !load.is_finished());
            let load =
                load.join().map_err(|_| "the generator's thread ended by a fault".to_owned())?;
            Ok::<_, String>((load?, swaps?))
        })?;
        result.swapped.push(swapped);
        result.swaps.extend(swaps);
    }
    result.memory.peak = memory(&server)?.peak;
    Generator::Avocet
        .ask(&setup, &questions(Pace::Rate { per_sec: rate, secs: SETTLED_AFTER_SECS }))?;
    (result.memory.after, result.image) = (memory(&server)?.now, site.image_bytes()?);
    result.print();
    machine::keep("reload", &options.peers, result.json()).map(drop)
}

fn rate_of<'w>(words: &[&'w str]) -> Result<(u64, Vec<&'w str>), String> {
    let Some(at) = words.iter().position(|word| *word == "--rate") else {
        return Ok((RATE, words.to_vec()));
    };
    let rate = words.get(at + 1).and_then(|value| value.parse().ok()).filter(|rate| *rate > 0);
    let rest = [&words[..at], words.get(at + 2..).unwrap_or_default()].concat();
    Ok((rate.ok_or("--rate wants a positive number")?, rest))
}

/// A process that loops on the server's core at the lowest priority.
struct Circles(Child);

impl Circles {
    fn begin() -> Result<Self, String> {
        let mut command = pinned(SERVER_CORE);
        command.args(["chrt", "--idle", "0", "sh", "-c", "while :; do :; done"]);
        command.spawn().map(Self).map_err(|error| format!("chrt: {error}"))
    }
}

impl Drop for Circles {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Resident memory, in octets.
#[derive(Default)]
struct Memories {
    before: u64,
    peak: u64,
    after: u64,
}

/// Memory of a process in octets.
struct Memory {
    now: u64,
    peak: u64,
}

fn memory(server: &Server) -> Result<Memory, String> {
    let (now, peak) = server.resident_bytes().ok_or("the memory of the server cannot be read")?;
    Ok(Memory { now, peak })
}

/// The addresses and the files of the measured server.
struct Site {
    dns: SocketAddr,
    config: PathBuf,
    list: PathBuf,
    queries: PathBuf,
    control: PathBuf,
}

impl Site {
    fn write(setup: &Setup) -> Result<Self, String> {
        let dns = SocketAddr::from((Ipv4Addr::LOCALHOST, setup.port));
        let data = setup.file("reload-data");
        let site = Self {
            dns,
            config: setup.file("reload.toml"),
            list: setup.file("reload.txt"),
            queries: setup.file("reload.queries"),
            control: data.join("control.sock"),
        };
        // The bench itself does not fetch the metrics, but a user can watch its progress there.
        let http =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
        let http = http.map_err(|error| error.to_string())?;
        let text = format!(
            "[server]\nlisten = [\"{dns}\"]\nworkers = 1\nlocal-names = false\nhttp = \"{http}\"\n\
             [resolver]\nmode = \"forward\"\n\
             [[forward]]\nzone = \".\"\nupstreams = [\"udp://127.0.0.1:{}\"]\n\
             [data]\ndirectory = \"{}\"\n[[list]]\nname = \"big\"\nformat = \"domains\"\nfile = \"{}\"\n",
            setup.upstream_port,
            data.display(),
            site.list.display()
        );
        let hot = fs::read_to_string(&setup.material.hot);
        let mixed = hot.map(|hot| {
            let hot = hot.lines().map(str::to_owned).take(ASKED_OF_LIST as usize);
            hot.zip(
                (0..ASKED_OF_LIST)
                    .map(|index| format!("{} A", blocklist::name(index * (NAMES / ASKED_OF_LIST)))),
            )
            .flat_map(|(resolved, listed)| [resolved, listed])
            .collect::<Vec<String>>()
            .join("\n")
        });
        let written = mixed
            .and_then(|mixed| fs::write(&site.queries, mixed + "\n"))
            .and_then(|()| fs::create_dir_all(&data))
            .and_then(|()| fs::write(&site.config, text))
            .and_then(|()| (0..LISTS).try_for_each(|number| site.write_list(number)))
            .and_then(|()| site.put_list(0));
        written.map_err(|error| format!("{}: {error}", setup.directory.display()))?;
        Ok(site)
    }

    fn list(&self, number: usize) -> PathBuf {
        self.list.with_extension(number.to_string())
    }

    /// Writes a list with one name that the other lists lack.
    fn write_list(&self, number: usize) -> std::io::Result<()> {
        let mut file = std::io::BufWriter::new(fs::File::create(self.list(number))?);
        for index in 0..NAMES {
            writeln!(file, "{}", blocklist::name(index))?;
        }
        writeln!(file, "swap{number}.example")?;
        file.flush()
    }

    /// Moves one of the lists to the path that the server reads. The rename costs almost nothing.
    fn put_list(&self, number: usize) -> std::io::Result<()> {
        let beside = self.list.with_extension("beside");
        fs::hard_link(self.list(number % LISTS), &beside)?;
        fs::rename(beside, &self.list)
    }

    /// Replaces the list again and again while `goes_on` is true, after `before` earlier
    /// replacements. Returns the duration of each in seconds.
    fn swap_while(&self, before: usize, goes_on: impl Fn() -> bool) -> Result<Vec<f64>, String> {
        let mut took = Vec::new();
        while goes_on() {
            self.put_list(before + took.len() + 1)
                .map_err(|error| format!("{}: {error}", self.list.display()))?;
            let began = Instant::now();
            self.order(r#"{"command":"lists-refresh","name":"big","force":false}"#)?;
            took.push(began.elapsed().as_secs_f64());
        }
        Ok(took)
    }

    fn image_bytes(&self) -> Result<u64, String> {
        let status = self.order(r#"{"command":"lists-status"}"#)?;
        status["image"]["octets"].as_u64().ok_or_else(|| format!("there is no image: {status}"))
    }

    /// Sends a request over the control socket and returns the last line of the reply. A separate
    /// process for this would compete with the generator, whose delay would count as the server's.
    fn order(&self, order: &str) -> Result<Value, String> {
        let failed = |error: std::io::Error| format!("{}: {error}", self.control.display());
        let mut stream = UnixStream::connect(&self.control).map_err(failed)?;
        writeln!(stream, "{order}").map_err(failed)?;
        let mut answer = Value::Null;
        for line in BufReader::new(stream).lines() {
            answer =
                serde_json::from_str(&line.map_err(failed)?).map_err(|error| error.to_string())?;
        }
        match &answer["error"] {
            Value::Null if answer["done"] == true => Ok(answer),
            error => Err(format!("{order}: {error}")),
        }
    }
}

/// The measurements of all rounds.
#[derive(Default)]
struct Outcome {
    rate: u64,
    quiet: Vec<Load>,
    /// The results with a busy loop on the server's core.
    busy: Vec<Load>,
    swapped: Vec<Load>,
    swaps: Vec<f64>,
    memory: Memories,
    image: u64,
}

impl Outcome {
    fn print(&self) {
        let line = |what: &str, loads: &[Load]| {
            let Latency { p50_us, p99_us, p999_us } = medians(loads);
            let (answered, lost) = sums(loads);
            println!(
                "{what:<16} {answered:>9} answered, {lost} lost, p50 {p50_us:.0} us, p99 \
                 {p99_us:.0} us, p99.9 {p999_us:.0} us"
            );
        };
        println!("{NAMES} names, {} queries per second", self.rate);
        line("quiet", &self.quiet);
        line("in a busy core", &self.busy);
        line("while swapped", &self.swapped);
        let slowest = self.swaps.iter().copied().fold(0.0, f64::max);
        let (swaps, rounds) = (self.swaps.len(), self.quiet.len());
        println!(
            "{swaps} swaps in {rounds} rounds, the slowest {slowest:.2} s; p99 {:+.0} % beside \
             quiet, {:+.0} % beside busy",
            self.p99_percent(&self.quiet),
            self.p99_percent(&self.busy)
        );
        let Memories { before, peak, after } = self.memory;
        println!(
            "memory {} MiB, at most {} MiB, {} MiB afterwards; the image has {:.1} MiB: at most \
             {:.2} images more, {:.2} stay",
            before >> 20,
            peak >> 20,
            after >> 20,
            self.image as f64 / f64::from(1 << 20),
            self.images(peak),
            self.images(after)
        );
    }

    /// Returns the percentage by which the p99 during replacements exceeds the p99 of `others`.
    fn p99_percent(&self, others: &[Load]) -> f64 {
        (medians(&self.swapped).p99_us / medians(others).p99_us - 1.0) * 100.0
    }

    /// Returns how far the memory exceeds the initial state, as a multiple of the size of the
    /// compiled list.
    fn images(&self, bytes: u64) -> f64 {
        (bytes as f64 - self.memory.before as f64) / self.image as f64
    }

    fn json(&self) -> json::Json {
        let load = |loads: &[Load]| {
            let Latency { p50_us, p99_us, p999_us } = medians(loads);
            let (answered, lost) = sums(loads);
            json::object([
                ("answered", json::number(answered as f64)),
                ("lost", json::number(lost as f64)),
                ("p50_us", json::number(p50_us)),
                ("p99_us", json::number(p99_us)),
                (
                    "p99_us_by_round",
                    json::array(loads.iter().map(|load| json::number(latency(load).p99_us))),
                ),
                ("p999_us", json::number(p999_us)),
            ])
        };
        json::object([
            ("names", json::number(f64::from(NAMES))),
            ("queries_per_sec", json::number(self.rate as f64)),
            ("quiet", load(&self.quiet)),
            ("in_a_busy_core", load(&self.busy)),
            ("while_swapped", load(&self.swapped)),
            ("swaps", json::number(self.swaps.len() as f64)),
            ("slowest_swap_secs", json::number(self.swaps.iter().copied().fold(0.0, f64::max))),
            ("image_bytes", json::number(self.image as f64)),
            ("memory_bytes", json::number(self.memory.before as f64)),
            ("peak_bytes", json::number(self.memory.peak as f64)),
            ("afterwards_bytes", json::number(self.memory.after as f64)),
        ])
    }
}

/// Returns the median over the rounds for each quantile.
fn medians(loads: &[Load]) -> Latency {
    let median = |of: fn(&Latency) -> f64| {
        let mut values: Vec<f64> = loads.iter().map(|load| of(&latency(load))).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
    };
    Latency {
        p50_us: median(|l| l.p50_us),
        p99_us: median(|l| l.p99_us),
        p999_us: median(|l| l.p999_us),
    }
}

/// Returns the number of responses, and the number of queries without a response.
fn sums(loads: &[Load]) -> (u64, u64) {
    (loads.iter().map(|load| load.answered).sum(), loads.iter().map(|load| load.lost).sum())
}

fn latency(load: &Load) -> Latency {
    load.latency.unwrap_or(Latency { p50_us: f64::NAN, p99_us: f64::NAN, p999_us: f64::NAN })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_an_option_of_its_own() {
        assert_eq!(rate_of(&["--secs", "3"]).unwrap(), (RATE, vec!["--secs", "3"]));
        assert_eq!(rate_of(&["--rate", "100", "--no-build"]).unwrap(), (100, vec!["--no-build"]));
        assert!(rate_of(&["--rate"]).is_err() && rate_of(&["--rate", "0"]).is_err());
    }

    #[test]
    fn memory_is_shown_in_multiples_of_the_image() {
        let load = |p99_us| Load {
            latency: Some(Latency { p50_us: 1.0, p99_us, p999_us: 9.0 }),
            ..Load::default()
        };
        let outcome = Outcome {
            rate: 1,
            quiet: vec![load(10.0), load(1.0), load(30.0)],
            busy: vec![load(24.0)],
            swapped: vec![load(12.0), load(2.0), load(90.0)],
            swaps: vec![0.5],
            memory: Memories { before: 100, peak: 160, after: 110 },
            image: 20,
        };
        assert_eq!((outcome.images(160), outcome.images(110)), (3.0, 0.5));
        assert!((outcome.p99_percent(&outcome.quiet) - 20.0).abs() < 1e-9);
        assert!((outcome.p99_percent(&outcome.busy) + 50.0).abs() < 1e-9);
    }
}
