//! The complete path of a query in a worker, without its socket.

use std::fmt::Write as _;
use std::hint::black_box;
use std::net::SocketAddr;

use avocet_nameserver::InProcess;
use avocet_querylog::Record;
use avocet_wire::edns::EdnsOption;
use avocet_wire::{MessageView, Rtype};

use crate::cell::Cell;
use crate::material;
use crate::rows::{self, OURS};

/// Local records in addition to the one that is queried.
const RECORDS: usize = 1000;

/// The cells of Avocet.
pub(crate) fn cells() -> Vec<Cell> {
    let mut cells = vec![local_record()];
    for (policy, list, configuration) in [
        (rows::POLICY_BLOCK, rows::LIST_BLOCK, ""),
        (rows::POLICY_BLOCK_DECIDED, rows::LIST_BLOCK_DECIDED, DECIDED),
    ] {
        cells.extend([policy_block(policy, configuration), list_block(list, configuration)]);
    }
    cells.extend([cache_hit(), logged_hit(), full_stack()]);
    cells
}

fn client() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 40_000))
}

fn configuration(more: &str) -> String {
    let mut text = "[cache]\npacket-bytes = \"16MiB\"\nrrset-bytes = \"16MiB\"\n".to_owned();
    text.push_str("[[forward]]\nzone = \".\"\nupstreams = [\"192.0.2.1\"]\n");
    for number in 0..RECORDS {
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "[[record]]\nname = \"host-{number}.lan\"\ntype = \"A\"\nvalues = [\"10.0.0.1\"]"
        );
    }
    text + more
}

fn server(more: &str) -> InProcess {
    let server = InProcess::new(&configuration(more), client()).expect("a configuration");
    server.learn(material::WWW, Rtype::A.0, 300, &[&[192, 0, 2, 1]]);
    server
}

/// Repeats a query whose answer is one address.
fn answered(row: &'static str, mut server: InProcess, query: Vec<u8>) -> Cell {
    let mut out = vec![0; 4096];
    let len = server.answer(&query, &mut out).expect("an answer");
    let answers = MessageView::new(&out[..len]).expect("a message").header().counts[1];
    assert_eq!(answers, 1, "{row}");
    Cell::new(row, OURS, move || {
        let len = server.answer(black_box(&query), &mut out);
        black_box(&out);
        len
    })
}

fn local_record() -> Cell {
    answered(
        rows::LOCAL_RECORD,
        server(""),
        material::query(b"\x08host-500\x03lan\x00", Rtype::A, false),
    )
}

/// A TTL that keeps answers out of the cache, as for rules on the client's rate: the policy
/// evaluates each query.
const DECIDED: &str = "[policy]\nblock-ttl-secs = 0\n";
/// Queries after which the entries of the log are taken: more than the gate counts.
const TAKEN_AT_ONCE: u32 = 2_000;
/// Names on the list.
const LISTED: usize = 100_000;

fn policy_block(row: &'static str, configuration: &str) -> Cell {
    let rule =
        "[[rule]]\nname = \"ads\"\nwhen = 'qname.under(\"ads.example\")'\naction = \"block\"\n";
    let server = server(&format!("{configuration}{rule}"));
    answered(row, server, material::query(b"\x01a\x03ads\x07example\x00", Rtype::A, false))
}

fn list_block(row: &'static str, configuration: &str) -> Cell {
    let path = std::env::temp_dir().join(format!("avocet-micro-{}.txt", std::process::id()));
    let names: String = (0..LISTED).map(|number| format!("host-{number}.ads.example\n")).collect();
    std::fs::write(&path, names).expect("a directory for temporary files");
    let list =
        format!("[[list]]\nname = \"ads\"\nfile = \"{}\"\nformat = \"domains\"\n", path.display());
    let server = server(&format!("{configuration}{list}"));
    std::fs::remove_file(&path).expect("the file that was written");
    answered(row, server, material::query(b"\x08host-500\x03ads\x07example\x00", Rtype::A, false))
}

fn cache_hit() -> Cell {
    answered(rows::CACHE_HIT, server(""), material::query(material::WWW, Rtype::A, false))
}

/// A hit that the query log takes. The ring is emptied often enough to take each entry.
fn logged_hit() -> Cell {
    let mut server = server("[query-log]\nenabled = true\n");
    let query = material::query(material::WWW, Rtype::A, false);
    let (mut out, mut record, mut logged) = (vec![0; 4096], Record::default(), 0);
    Cell::new(rows::LOGGED_HIT, OURS, move || {
        logged += 1;
        if logged == TAKEN_AT_ONCE {
            while server.take_logged(&mut record) {
                logged -= 1;
            }
            assert_eq!(logged, 1, "entries were dropped");
        }
        let len = server.answer(black_box(&query), &mut out);
        black_box(&out);
        len
    })
}

/// A hit that passes all stages: rate limit, access list, OPT, and a cookie that is checked and
/// renewed.
fn full_stack() -> Cell {
    let mut server = server("[rate-limit]\nresponses-per-second = 1000\n");
    let mut out = vec![0; 4096];
    let client = b"8 octets";
    let first = material::query_with(&[EdnsOption::Cookie { client, server: &[] }]);
    let len = server.answer(&first, &mut out).expect("an answer");
    let view = MessageView::new(&out[..len]).expect("a message");
    let edns = view.edns().expect("sound records").expect("an OPT record");
    let given = edns.options().find_map(|option| match option {
        Ok(EdnsOption::Cookie { server, .. }) => Some(server.to_vec()),
        _ => None,
    });
    let cookie = EdnsOption::Cookie { client, server: &given.expect("a cookie") };
    answered(rows::FULL_STACK, server, material::query_with(&[cookie]))
}
