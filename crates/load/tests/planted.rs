//! The purpose of a generator: it finds the faults planted in a server, and no others.

mod run;
mod server;

use std::sync::atomic::{AtomicBool, Ordering};

use avocet_load::measure;
use avocet_load::report::Report;

use run::{Output, Scratch, command, load, parse, zone};
use server::{Server, answer, answer_with, truncated};

#[test]
fn an_honest_server_passes() {
    let server = Server::honest();
    let zone = Scratch::write("honest", zone().as_bytes());
    let report = load(&server, &format!("--zone-file {}", zone.path()));
    assert!(report.passed, "{:?} {:?}", report.faults, report.examples);
    assert_eq!(
        (report.outcome.sent, report.outcome.answered, report.outcome.lost),
        (1000, 1000, 0)
    );
    assert_eq!(report.outcome.rcodes["NOERROR"], 1000);
    assert!(report.latency.p50_ns > 0 && report.latency.max_ns >= report.latency.p99_ns);
}

#[test]
fn an_honest_server_passes_over_tcp() {
    let server = Server::honest();
    let report = load(&server, "--transport tcp");
    assert!(report.passed, "{:?} {:?}", report.faults, report.examples);
    assert_eq!(report.outcome.answered, 1000);
}

/// Without an acknowledgement at once, each answer would wait 40 ms for a delayed one.
#[test]
fn a_server_with_nagles_algorithm_does_not_wait_for_acknowledgements() {
    let server = Server::honest();
    let report = load(&server, "--transport tcp --clients 1 --window 1 --count 200");
    assert!(report.passed, "{:?}", report.faults);
    assert!(report.latency.p50_ns < 20_000_000, "{:?}", report.latency);
}

#[test]
fn a_wrong_id_is_found() {
    let server = Server::udp(|number, query| {
        let mut reply = answer(query);
        if number % 100 == 99 {
            reply[0] ^= 0x55;
        }
        Some(reply)
    });
    let report = load(&server, "--timeout 1s");
    assert!(!report.passed);
    let wrong = &report.outcome.wrong;
    // The wrong ID may be that of another waiting query. In that case, the question differs.
    assert!(
        wrong.id + wrong.question >= 9 && wrong.total == wrong.id + wrong.question,
        "{wrong:?}"
    );
    assert_eq!(report.outcome.lost, wrong.total);
}

#[test]
fn a_wrong_rcode_is_found() {
    let server = Server::udp(|number, query| {
        let mut reply = answer(query);
        reply[3] |= if number % 100 == 99 { 2 } else { 0 };
        Some(reply)
    });
    let report = load(&server, "");
    assert!(!report.passed && report.outcome.wrong.rcode >= 9, "{:?}", report.outcome);
    assert!(report.faults[0].contains("RCODE"), "{:?}", report.faults);
    assert!(report.examples[0].contains("SERVFAIL, expected NOERROR"), "{:?}", report.examples);
    let lenient = load(&server, "--expect NOERROR,SERVFAIL");
    assert!(lenient.passed, "{:?}", lenient.faults);
    assert!(load(&server, "--check id").passed, "at that depth RCODEs are only counted");
}

/// Every tenth answer holds the address of another name.
fn swaps() -> Server {
    Server::udp(|number, query| {
        Some(if number % 10 == 9 { answer_with(query, |_| [192, 0, 2, 99]) } else { answer(query) })
    })
}

#[test]
fn swapped_records_are_found_with_a_zone_file() {
    let (server, zone) = (swaps(), Scratch::write("swapped", zone().as_bytes()));
    let report = load(&server, &format!("--zone-file {}", zone.path()));
    assert!(!report.passed && report.outcome.wrong.records >= 95, "{:?}", report.outcome.wrong);
    assert_eq!(report.outcome.wrong.total, report.outcome.wrong.records);
}

#[test]
fn swapped_records_are_found_with_a_reference() {
    let (server, reference) = (swaps(), Server::honest());
    let report = load(&server, &format!("--reference {}", reference.address()));
    assert!(!report.passed && report.outcome.wrong.records >= 95, "{:?}", report.outcome.wrong);
    let honest = load(&reference, &format!("--reference {}", reference.address()));
    assert!(honest.passed, "{:?}", honest.faults);
}

#[test]
fn lost_answers_are_counted_and_held_to_a_limit() {
    let server = Server::udp(|number, query| (number % 20 != 19).then(|| answer(query)));
    let report = load(&server, "--max-loss 1% --timeout 1s");
    let outcome = &report.outcome;
    assert!(outcome.lost >= 50, "{outcome:?}");
    assert_eq!(outcome.answered + outcome.lost, 1000);
    assert!(!report.passed && report.faults[0].contains("lost"), "{:?}", report.faults);
    assert!(load(&server, "--max-loss 50% --timeout 1s").passed);
}

#[test]
fn a_server_that_a_damaged_packet_kills_is_found() {
    let is_dead = AtomicBool::new(false);
    let server = Server::udp(move |_, query| {
        // The server trusts the length of the first label.
        if query.get(12).is_some_and(|len| (64..192).contains(len)) {
            is_dead.store(true, Ordering::Relaxed);
        }
        (!is_dead.load(Ordering::Relaxed)).then(|| answer(query))
    });
    let report = load(&server, "--scenario malformed --duration 2s --timeout 300ms --seed 7");
    assert!(!report.passed, "{:?}", report.outcome);
    assert!(report.faults.iter().any(|fault| fault.contains("--seed 7")), "{:?}", report.faults);
}

#[test]
fn a_server_that_bears_damaged_packets_passes() {
    let server = Server::honest();
    let report = load(&server, "--scenario malformed --rate 1000 --count 2000");
    assert!(report.passed, "{:?} {:?}", report.faults, report.examples);
    let probe = report.flows.iter().find(|flow| flow.name == "probe").unwrap();
    assert!(probe.outcome.answered > 0 && report.outcome.rcodes.contains_key("FORMERR"));
}

#[test]
fn nobody_at_home_is_told() {
    let unused = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let args =
        parse(&unused.to_string(), "--zone-name test. --population 3 --count 3 --timeout 50ms");
    let report = measure(&args, None).unwrap();
    assert!(
        !report.passed && report.faults[0].contains("connection refused"),
        "{:?}",
        report.faults
    );
    let args = parse(&unused.to_string(), "--zone-name test. --transport tcp");
    assert!(measure(&args, None).is_err());
}

#[test]
fn truncated_answers_are_asked_again_over_tcp() {
    let server = Server::start(|_, query| Some(truncated(query)), |_, query| Some(answer(query)));
    let names = Scratch::write("large", b"www1.test A\nwww2.test A\n");
    let report = load(&server, &format!("--scenario large --names {} --count 100", names.path()));
    assert!(report.passed, "{:?} {:?}", report.faults, report.examples);
    let outcome = &report.outcome;
    assert_eq!((outcome.truncated, outcome.retried_over_tcp, outcome.answered), (100, 100, 100));
}

#[test]
fn every_scenario_runs() {
    let server = Server::honest();
    for scenario in ["miss", "mixed", "nxdomain", "types", "blocked", "flood", "endurance"] {
        let report = load(&server, &format!("--scenario {scenario} --duration 1s"));
        // The addresses of the names are not filtered, which `blocked` must report.
        let found = report.outcome.wrong.total > 0;
        assert_eq!(
            found,
            scenario == "blocked",
            "{scenario}: {:?} {:?}",
            report.faults,
            report.examples
        );
        assert!(report.outcome.answered > 0, "{scenario}");
    }
    let report = load(&server, "--scenario flood --duration 1s");
    let names: Vec<&str> = report.flows.iter().map(|flow| flow.name.as_str()).collect();
    assert_eq!(names, ["quiet", "attacked", "flood"]);
}

#[test]
fn a_ramp_finds_a_rate() {
    let server = Server::honest();
    let report = load(
        &server,
        "--ramp --rate 200 --max-p99 60s --max-loss 50% --duration 1s --count 1200 --timeout 200ms",
    );
    let ramp = report.ramp.unwrap();
    assert!(ramp.highest_rate >= 200.0 && !ramp.steps.is_empty(), "{ramp:?}");
}

/// The server answers all queries of the first steps, and then loses a fifth.
#[test]
fn a_rate_that_no_whole_run_holds_is_not_reported() {
    let server =
        Server::udp(|number, query| (number < 210 || number % 5 != 4).then(|| answer(query)));
    let options = "--ramp --rate 200 --max-p99 60s --max-loss 5% --duration 1s --count 50 \
                   --timeout 300ms";
    let Output { status, text, report, .. } = command(&server, options);
    let ramp = report.ramp.unwrap();
    assert!(ramp.steps.iter().any(|step| step.held) && ramp.runs.len() > 1, "{ramp:?}");
    assert!(ramp.runs.iter().all(|run| !run.held && run.loss > 0.1), "{:?}", ramp.runs);
    assert!(ramp.highest_rate < f64::EPSILON, "{}", ramp.highest_rate);
    assert_eq!(status, 1);
    assert!(text.contains("FAILED           no rate held in a whole run"), "{text}");
}

#[test]
fn endurance_measures_the_memory_of_the_process_at_the_address() {
    let server = Server::honest();
    let Output { text, report, .. } = command(&server, "--scenario endurance --duration 1s");
    assert_eq!(report.server.pid, Some(std::process::id()));
    assert!(report.memory.is_some_and(|memory| memory.start_bytes > 0), "{:?}", report.memory);
    assert!(text.contains("memory           ") && report.remarks.is_empty(), "{text}");
    let other = load(&server, "--count 10");
    assert_eq!((other.server.pid, other.memory), (None, None), "only endurance looks for it");
}

#[test]
fn names_that_no_warm_up_cached_are_remarked() {
    let server = Server::udp(|number, query| (number != 3).then(|| answer(query)));
    let report = load(&server, "--timeout 1s");
    assert!(report.passed, "{:?}", report.faults);
    assert!(report.remarks[0].contains("not warm: 10.0% of the first pass"), "{report:?}");
}

fn pcap(packets: &[(u32, [u8; 4], &str)]) -> Vec<u8> {
    let mut out =
        vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 101, 0, 0, 0];
    for (micros, client, label) in packets {
        let mut query = vec![0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, label.len() as u8];
        query.extend(label.as_bytes());
        query.extend(b"\x04test\0\0\x01\0\x01");
        let udp_len = 8 + query.len() as u16;
        let mut packet = vec![0x45, 0];
        packet.extend((20 + udp_len).to_be_bytes());
        packet.extend([0, 0, 0, 0, 64, 17, 0, 0]);
        packet.extend(client);
        packet.extend([192, 0, 2, 53]);
        for word in [4000, 53, udp_len, 0] {
            packet.extend(word.to_be_bytes());
        }
        packet.extend(query);
        for word in [0, *micros, packet.len() as u32, packet.len() as u32] {
            out.extend(word.to_le_bytes());
        }
        out.extend(packet);
    }
    out
}

#[test]
fn a_recording_is_replayed_with_its_clients() {
    let packets =
        [(0, [10, 0, 0, 1], "www1"), (500, [10, 0, 0, 2], "www2"), (900, [10, 0, 0, 1], "www3")];
    let file = Scratch::write("pcap", &pcap(&packets));
    let server = Server::honest();
    let args = parse(&server.address(), &format!("--scenario replay --names {}", file.path()));
    let report = measure(&args, None).unwrap();
    assert!(report.passed, "{:?}", report.faults);
    assert_eq!((report.outcome.answered, report.pace.clients, report.pace.open_loop), (3, 2, true));
}

#[test]
fn results_are_read_back() {
    let server = Server::honest();
    let Output { status, text, html, report } = command(&server, "--count 100");
    assert_eq!((status, report.outcome.answered, report.outcome.rcodes["NOERROR"]), (0, 100, 100));
    assert!(
        text.contains("100 sent, 100 answered, 0 lost") && text.ends_with("passed\n"),
        "{text}"
    );
    assert!(
        html.contains("<th>lost</th><td>0 (0.000%)</td>") && !html.contains("\"bad\""),
        "{html}"
    );
    let other = Scratch::write("other", b"{\"format\":\"x\"}");
    assert!(Report::read(&other.0).is_err());
}

#[test]
fn what_cannot_be_measured_is_said() {
    for (server, options, wanted) in [
        ("192.0.2.1", "--zone-name test.", "--i-own-this-server"),
        ("127.0.0.1", "", "--names FILE"),
        ("127.0.0.1", "--scenario replay", "--names FILE"),
        ("127.0.0.1", "--zone-name test. --check answer", "--zone-file"),
        ("127.0.0.1", "--zone-name test. --expect WRONG", "not an RCODE"),
        ("127.0.0.1", "--zone-name test. --source fd00::/64", "different address families"),
        ("127.0.0.1", "--names /nonexistent", "nonexistent"),
    ] {
        let error = measure(&parse(server, options), None).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}");
    }
}
