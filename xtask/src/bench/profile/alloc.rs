//! Allocations of the workers. Valgrind's dhat counts bytes per stack in two runs of different
//! length. The difference is the cost of the queries, without the allocations at the start.

use std::collections::HashMap;
use std::fs;
use std::time::Duration;

use super::{
    Launch, Peer, SERVER_CORE, Server, Setup, Stacks, WINDOW, Workload, ask, configuration, load,
};

/// Numbers of queries of the shorter and the longer run.
const COUNTS: [u64; 2] = [12_000, 32_000];
/// Maximum time for the start of a server. Under valgrind, it is about fifty times slower.
const START_WITHIN: Duration = Duration::from_secs(180);
const RUN_SECS: &str = "120";
/// The outermost frame of a worker. Other threads answer no queries.
const WORKER: &str = "Worker::run";
/// A substring of the names of Avocet's functions. The allocator's frames below them are cut off.
const OURS: &str = "avocet";

pub(super) fn stacks(setup: &Setup, workload: Workload) -> Result<Stacks, String> {
    let [shorter, longer] = [run(setup, workload, COUNTS[0])?, run(setup, workload, COUNTS[1])?];
    println!("of {} queries, beyond what the server allocates without them", COUNTS[1] - COUNTS[0]);
    Ok(longer.without(&shorter))
}

fn run(setup: &Setup, workload: Workload, queries: u64) -> Result<Stacks, String> {
    let out = setup.file("dhat.json");
    let mut command =
        vec!["valgrind".to_owned(), "--tool=dhat".to_owned(), "--num-callers=40".to_owned()];
    command.push(format!("--dhat-out-file={}", out.display()));
    command.extend(configuration::prepare(setup, Peer::Avocet, workload)?);
    let log = setup.file("profiled.log");
    let launch = Launch { command: &command, core: SERVER_CORE, log: &log, within: START_WITHIN };
    let server = Server::start(&launch, || ask::is_ready(setup.target(workload)))?;
    let options = ["--count", &queries.to_string(), "--window", WINDOW, "--secs", RUN_SECS];
    let load = load::blast(setup, setup.queries(workload), &options)?;
    workload.judge(&load, None)?;
    drop(server);
    fs::read_to_string(&out)
        .map(|text| read(&text))
        .map_err(|error| format!("{}: {error}", out.display()))
}

/// Parses dhat's output. It has program points with bytes and frame numbers, and a frame table with
/// one frame per line.
fn read(text: &str) -> Stacks {
    let (points, table) = text.split_once("\"ftbl\"").unwrap_or((text, ""));
    let names: HashMap<usize, String> =
        table.lines().filter_map(quoted).enumerate().map(named).collect();
    let mut stacks = Stacks::default();
    for point in points.split("{\"tb\":").skip(1) {
        let bytes =
            point.split(',').next().and_then(|number| number.trim().parse().ok()).unwrap_or(0);
        let frames = point
            .split_once("\"fs\":[")
            .and_then(|(_, rest)| rest.split(']').next())
            .unwrap_or_default();
        let numbers = frames.split(',').filter_map(|number| number.trim().parse::<usize>().ok());
        let mut frames: Vec<String> =
            numbers.filter_map(|number| names.get(&number).cloned()).collect();
        frames.reverse();
        stacks.add(of_worker(&frames), bytes);
    }
    stacks
}

/// Returns the frames from the worker's outermost frame to the innermost frame of Avocet. The
/// result is empty for other threads.
fn of_worker(frames: &[String]) -> &[String] {
    let first = frames.iter().position(|frame| frame.contains(WORKER));
    let last = frames.iter().rposition(|frame| frame.contains(OURS));
    first.zip(last).and_then(|(first, last)| frames.get(first..=last)).unwrap_or_default()
}

/// Returns the text between the first and the last quotation mark of a line.
fn quoted(line: &str) -> Option<&str> {
    let (start, end) = (line.find('"')?, line.rfind('"')?);
    line.get(start + 1..end)
}

/// Removes the address and the location from `0x1234: function (file:line)`.
fn named((number, frame): (usize, &str)) -> (usize, String) {
    let function = frame.split_once(": ").map_or(frame, |(_, function)| function);
    (number, function.rsplit_once(" (").map_or(function, |(name, _)| name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_points_are_read_with_their_frames() {
        let text = "{\"dhatFileVersion\":2\n,\"pps\":\n [{\"tb\":64,\"tbk\":2,\"tl\":1\n  \
                    ,\"fs\":[1,2,3,4]\n  }\n ,{\"tb\":8,\"tbk\":1\n  ,\"fs\":[1,4]\n  }\n \
                    ]\n,\"ftbl\":\n [\"[root]\"\n ,\"0x1: malloc (in /x.so)\"\n ,\"0x2: avocet::a \
                    (a.rs:3)\"\n ,\"0x3: avocet::Worker::run (a.rs:1)\"\n ,\"0x4: start (in \
                    /x.so)\"\n ]\n}\n";
        assert_eq!(read(text).folded(), "avocet::Worker::run;avocet::a 64\n");
    }
}
