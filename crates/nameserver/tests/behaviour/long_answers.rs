//! The work of the policy and of the response for answers of up to 64 KiB from the cache, counted
//! in instructions.

use std::net::SocketAddr;
use std::path::Path;
use std::{env, fs};

use avocet_nameserver::InProcess;
use avocet_testkit::instructions::{CountedTest, end_case};
use avocet_wire::{Builder, Class, Rtype};

use crate::asked::wire;

const CLIENT: [u8; 4] = [10, 0, 0, 1];
/// Most instructions of one query in a debug build.
const MOST_INSTRUCTIONS: u64 = 20_000_000;
/// The function whose instructions are counted.
const COUNTED: &str = "behaviour::long_answers::answer";
/// The function after which counts begin again at zero.
const CASE_END: &str = "behaviour::long_answers::end_of_case";

/// Rules and a list that read all addresses and names of an answer.
const POLICY: &str = "[resolver]\nmode = \"forward\"\n[[forward]]\nzone = \".\"\nupstreams = \
                      [\"192.0.2.53\"]\n[policy]\nblock-private = true\n\
                      [[rule]]\nname = \"r\"\nwhen = 'answer.ip.in(\"192.0.2.0/28\")'\n\
                      action = \"block\"\n";

/// Queries the server over TCP. Returns the length of the response.
#[inline(never)]
fn answer(server: &mut InProcess, query: &[u8], out: &mut [u8]) -> usize {
    server.answer_over_tcp(query, out).unwrap()
}

#[inline(never)]
fn end_of_case(name: &str, len: usize) {
    end_case(&format!("{name}, {len} octets"));
}

/// Returns `count` records of this form.
fn records(count: u16, record: impl Fn(u16) -> Vec<u8>) -> Vec<Vec<u8>> {
    (0..count).map(record).collect()
}

/// Gets one answer of each kind from the cache. The test below counts the instructions of this
/// test.
#[test]
fn long_answers_are_given() {
    let directory = env::temp_dir().join(format!("avocet-long-answers-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let list = directory.join("list");
    fs::write(&list, "||ads.example^\n/^track[0-9]+x/\n").unwrap();
    let list =
        format!("[[list]]\nname = \"l\"\nformat = \"adblock\"\nfile = \"{}\"\n", list.display());
    let address = |number: u16| [&[198, 51], &number.to_be_bytes()[..]].concat();
    let name = |number: u16| wire(&format!("host{number}.some.rather.long.name.example."));
    let hints = [&b"\x00\x01\x00\x00\x04\x08\x00"[..], &records(512, address).concat()].concat();
    let exchange = |number: u16| [&[0, 10][..], &name(number)].concat();
    let service = |number: u16| [&[0, 1][..], &name(number)].concat();
    let cases = [
        ("addresses", Rtype::A, records(400, address)),
        ("address hints", Rtype::HTTPS, vec![hints]),
        ("mail exchanges", Rtype::MX, records(400, exchange)),
        ("services", Rtype::SVCB, records(400, service)),
        ("one long text", Rtype::TXT, vec![[255; 256].repeat(200)]),
        ("texts", Rtype::TXT, records(400, |number| [&[2], &number.to_be_bytes()[..]].concat())),
    ];
    for (case, rtype, records) in cases {
        let mut server =
            InProcess::new(&format!("{POLICY}{list}"), SocketAddr::from((CLIENT, 4000))).unwrap();
        let owner = wire("x.example.");
        let records: Vec<&[u8]> = records.iter().map(Vec::as_slice).collect();
        server.learn(&owner, rtype.0, 300, &records);
        let (mut query, mut out) = (vec![0; 512], vec![0; 65_535]);
        let mut builder = Builder::new(&mut query, 512, 7, 0x0100).unwrap();
        builder.question(&owner, rtype, Class::IN).unwrap();
        let len = builder.finish();
        let len = answer(&mut server, &query[..len], &mut out);
        let count = u16::from_be_bytes([out[6], out[7]]);
        assert!(out[3] & 0xf == 0 && usize::from(count) == records.len(), "{case}: {count}");
        end_of_case(case, len);
    }
    let _ = fs::remove_dir_all(&directory);
}

#[test]
fn a_long_answer_costs_bounded_instructions() {
    let counted = CountedTest {
        test: "long_answers::long_answers_are_given",
        counted: COUNTED,
        case_end: CASE_END,
        directory: Path::new(env!("CARGO_TARGET_TMPDIR")).join("long-answers"),
    };
    let cases = counted.run();
    assert_eq!(cases.len(), 6, "{cases:?}");
    for (case, instructions) in cases {
        println!("{case}: {instructions} instructions");
        assert!(instructions <= MOST_INSTRUCTIONS, "{case}: {instructions} instructions");
    }
}
