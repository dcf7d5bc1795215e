//! Compares answers with those of NSD, Knot DNS and BIND, for hand-made and random zones. The zones
//! are unsigned, or signed by `dnssec-signzone` with NSEC, NSEC3 or NSEC3 with opt-out. A test is
//! skipped if its programs are missing.
//!
//! With `AVOCET_LONG_TESTS=1`, each server gets more than 100,000 questions. Answers are compared
//! section by section, regardless of the order of records. Permitted differences are in
//! [`is_permitted`].

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use avocet_wire::builder::{Builder, OptFields};
use avocet_wire::view::{MessageView, RecordSection};
use avocet_wire::{Class, FoldedName, NameBuf, Rcode, Rtype, name, rdata};
use avocet_zone::{HostedQuestion, HostedZone, HostedZones, Proofs};

/// Number of questions for each zone in a plain `cargo test`.
const QUESTIONS: usize = 300;
/// Number of questions for each zone in a long test. There are 24 zones.
const LONG_QUESTIONS: usize = 4_200;
/// Longest message that both sides may send.
const LIMIT: usize = 4096;

/// A zone with everything that the rules of answers mention.
const HAND_MADE: &str = "$TTL 300
@ SOA ns1 host 1 2h 3m 4w 60
@ NS ns1
@ NS ns2.sub
@ MX 10 mail
@ TXT apex
ns1 A 192.0.2.1
ns1 AAAA 2001:db8::1
mail A 192.0.2.2
sub NS ns2.sub
sub NS ns1
sub NS ns.other.
ns2.sub A 192.0.2.3
deep.sub TXT occluded
secure NS ns1
secure DS 1 13 2 0000000000000000000000000000000000000000000000000000000000000001
a.b.c TXT ent
* TXT wild
*.w A 192.0.2.4
*.w MX 5 mail
x.w TXT beside
*.ent.w2 A 192.0.2.5
*.alias CNAME mail
in CNAME www
www CNAME mail
out CNAME www.other.
loop1 CNAME loop2
loop2 CNAME loop1
gone CNAME nothing.b.c
down CNAME a.sub
dn DNAME b.c
dx DNAME other.
to-dn CNAME x.dn
_s._tcp SRV 1 2 3 mail
_s._tcp SRV 1 2 3 ns1
_s._tcp SRV 1 2 3 gone
b.insecure NS ns1
multi A 192.0.2.6
multi A 192.0.2.7
multi AAAA 2001:db8::6
multi CAA 0 issue \"ca\"
h HTTPS 1 . alpn=h2
";

fn own_directory() -> PathBuf {
    let directory =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("zone-oracle-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    directory
}

/// Returns the next number of a series (xorshift64*).
fn next(state: &mut u64) -> usize {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as usize
}

const LABELS: [&str; 9] = ["a", "b", "c", "d", "w", "*", "sub", "x", "alias"];

/// Returns a random name of up to four labels, relative to the zone.
fn random_name(state: &mut u64) -> String {
    let labels: Vec<_> = (0..=next(state) % 4).map(|_| LABELS[next(state) % 9]).collect();
    labels.join(".")
}

/// Returns a random valid zone.
fn random_zone(seed: u64) -> String {
    let state = &mut (seed * 77 + 1);
    let mut zone = "$TTL 300\n@ SOA ns1 host 1 2h 3m 4w 60\n@ NS ns1\nns1 A 192.0.2.1\n".to_owned();
    let mut used = BTreeSet::new();
    for number in 0..30 {
        let name = random_name(state);
        if !used.insert(name.clone()) {
            continue;
        }
        let target = random_name(state).replace('*', "s");
        zone += &match next(state) % 8 {
            0 if !name.starts_with('*') => format!("{name} NS ns.{name}\nns.{name} A 192.0.2.9\n"),
            1 => format!("{name} CNAME {target}\n"),
            2 => format!("{name} MX 1 ns1\n{name} A 192.0.2.{number}\n"),
            3 if !name.starts_with('*') => format!("{name} DNAME {target}.x\n"),
            4 => format!("{name} AAAA 2001:db8::{number}\n"),
            _ => format!("{name} TXT t{number}\n{name} A 192.0.2.{number}\n"),
        };
    }
    zone
}

/// Signs a zone, or returns it as it is.
fn signed(directory: &Path, text: &str, how: &str) -> Option<String> {
    if how == "unsigned" {
        return Some(text.to_owned());
    }
    let key = |flag: &[&str]| {
        let made = Command::new("dnssec-keygen")
            .args(["-q", "-a", "ECDSAP256SHA256"])
            .args(flag)
            .arg("example")
            .current_dir(directory)
            .output()
            .ok()?;
        Some(String::from_utf8(made.stdout).unwrap().trim().to_owned())
    };
    let keys = [key(&["-f", "KSK"])?, key(&[])?];
    let keyed: String = keys
        .iter()
        .map(|key| fs::read_to_string(directory.join(format!("{key}.key"))).unwrap())
        .collect();
    fs::write(directory.join("unsigned"), format!("{text}$ORIGIN example.\n{keyed}")).unwrap();
    let nsec3: &[&str] = match how {
        "nsec3" => &["-3", "ab", "-H", "1"],
        "opt-out" => &["-3", "-", "-H", "0", "-A"],
        _ => &[],
    };
    let done = Command::new("dnssec-signzone")
        .args(["-q", "-P", "-o", "example", "-f", "signed"])
        .args(nsec3)
        .arg("unsigned")
        .args(&keys)
        .current_dir(directory)
        .output()
        .unwrap();
    assert!(done.status.success(), "{}\n{text}", String::from_utf8_lossy(&done.stderr));
    Some(fs::read_to_string(directory.join("signed")).unwrap())
}

/// A running server to compare with.
struct Peer {
    child: Child,
    socket: UdpSocket,
    /// The ID of the last query.
    asked: Cell<u16>,
}

/// The program of a server to compare with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Program {
    Nsd,
    Knot,
    Bind,
}

impl Program {
    /// Returns the command of the server, and writes its configuration.
    fn command(self, directory: &Path, port: u16) -> Command {
        let at = directory.display();
        let (name, conf, arguments): (_, _, &[&str]) = match self {
            Self::Nsd => (
                "nsd",
                format!(
                    "server:\n  ip-address: 127.0.0.1@{port}\n  server-count: 1\n  username: \
                     \"\"\n  zonesdir: \"{at}\"\n  pidfile: \"{at}/nsd.pid\"\n  xfrdir: \
                     \"{at}\"\n  zonelistfile: \"{at}/zones\"\n  xfrdfile: \"\"\n  database: \
                     \"\"\n  minimal-responses: yes\n  rrl-ratelimit: 0\n  ipv4-edns-size: \
                     4096\n  round-robin: no\nremote-control:\n  control-enable: \
                     no\nzone:\n  name: example.\n  zonefile: zone\n"
                ),
                &["-d", "-c"],
            ),
            Self::Knot => (
                "knotd",
                format!(
                    "server:\n  listen: 127.0.0.1@{port}\n  rundir: \"{at}\"\n  udp-workers: 1\n  \
                     tcp-workers: 1\n  background-workers: 1\n  udp-max-payload: \
                     4096\ncontrol:\n  listen: \"{at}/knot.sock\"\nlog:\n  - target: stderr\n    \
                     any: warning\ndatabase:\n  storage: \"{at}/knot\"\ntemplate:\n  - id: \
                     default\n    storage: \"{at}\"\n    zonefile-sync: -1\n    journal-content: \
                     none\nzone:\n  - domain: example.\n    file: zone\n"
                ),
                &["-c"],
            ),
            Self::Bind => (
                "named",
                format!(
                    "options {{ directory \"{at}\"; listen-on port {port} {{ 127.0.0.1; }}; \
                     listen-on-v6 {{ none; }}; recursion no; minimal-responses yes; pid-file none; \
                     session-keyfile none; lock-file none; dnssec-validation no; max-udp-size \
                     4096; edns-udp-size 4096; notify no; zero-no-soa-ttl no; }};\ncontrols {{ }};\nzone \"example\" {{ \
                     type master; file \"zone\"; check-integrity no; check-wildcard no; }};\n"
                ),
                &["-g", "-n", "1", "-c"],
            ),
        };
        let path = directory.join(format!("{name}.conf"));
        fs::write(&path, conf).unwrap();
        let program = Path::new("/usr/sbin").join(name);
        let mut command =
            Command::new(if program.exists() { program } else { PathBuf::from(name) });
        command.args(arguments).arg(path);
        command
    }
}

impl Peer {
    /// Starts a server; `None` if the program is missing.
    fn start(program: Program, directory: &Path, text: &str) -> Option<Self> {
        // Another program may take the port first.
        for _ in 0..5 {
            if let Some(peer) = Self::try_start(program, directory, text)? {
                return Some(peer);
            }
        }
        let log = fs::read_to_string(directory.join("log")).unwrap();
        panic!("{program:?} does not start: {log}");
    }

    /// Starts a server; `Some(None)` if the server ends.
    fn try_start(program: Program, directory: &Path, text: &str) -> Option<Option<Self>> {
        let stream = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = stream.local_addr().unwrap().port();
        drop(stream);
        fs::write(directory.join("zone"), text).unwrap();
        let path = directory.join("log");
        let log = fs::File::create(&path).unwrap();
        let mut command = program.command(directory, port);
        let child = command.stdout(Stdio::null()).stderr(log).spawn().ok()?;
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(("127.0.0.1", port)).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        let mut peer = Self { child, socket, asked: Cell::new(0) };
        let until = Instant::now() + Duration::from_secs(20);
        let apex = NameBuf::from_wire(b"\x07example\0").unwrap();
        while peer.ask(&apex, Rtype::SOA, Proofs::Omitted).is_none() {
            if peer.child.try_wait().unwrap().is_some() {
                return Some(None);
            }
            let log = fs::read_to_string(&path).unwrap();
            assert!(Instant::now() < until, "{program:?} does not answer: {log}");
        }
        Some(Some(peer))
    }

    fn ask(&self, qname: &NameBuf, qtype: Rtype, proofs: Proofs) -> Option<Vec<u8>> {
        let mut query = [0; 512];
        // Late replies to earlier queries do not count.
        let id = self.asked.get().wrapping_add(1);
        self.asked.set(id);
        let mut builder = Builder::new(&mut query, 512, id, 0).unwrap();
        builder.question(qname.wire(), qtype, Class::IN).unwrap();
        let (udp_size, rcode) = (LIMIT as u16, Rcode::NOERROR);
        let dnssec_ok = proofs == Proofs::Included;
        builder.opt(&OptFields { udp_size, rcode, dnssec_ok }, &[]).unwrap();
        let len = builder.finish();
        let mut reply = vec![0; 65_535];
        for _ in 0..3 {
            self.socket.send(&query[..len]).ok()?;
            while let Ok(len) = self.socket.recv(&mut reply) {
                if reply.starts_with(&id.to_be_bytes()) {
                    reply.truncate(len);
                    return Some(reply);
                }
            }
        }
        None
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return;
        }
        // SIGTERM lets the parent end its child processes.
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        let _ = self.child.wait();
    }
}

/// RCODE, AA, TC and the records of each section as text.
#[derive(PartialEq, Eq, Debug)]
struct Shown {
    head: String,
    sections: [BTreeSet<String>; 3],
}

fn shown(message: &[u8]) -> Shown {
    let view = MessageView::new(message).unwrap();
    let header = view.header();
    let head = format!("{} aa={} tc={}", header.rcode(), header.has(0x400), header.has(0x200));
    let mut sections: [BTreeSet<String>; 3] = Default::default();
    let mut room = vec![0; 65_535];
    for record in view.records().unwrap() {
        let record = record.unwrap();
        if record.rtype == Rtype::OPT {
            continue;
        }
        let len = record.expand_rdata(&mut room).unwrap();
        let section = match record.section {
            RecordSection::Answer => 0,
            RecordSection::Authority => 1,
            RecordSection::Additional => 2,
        };
        let data = rdata::display(record.rtype.0, &room[..len]).to_string();
        let owner = record.owner().unwrap().folded();
        let line = format!("{owner} {} {} {data}", record.ttl_secs(), record.rtype);
        sections[section].insert(line.to_lowercase());
    }
    Shown { head, sections }
}

/// Reports whether a difference is permitted.
///
/// - ANY: NSD answers with all RRsets, this server with one (RFC 8482 §4.1).
/// - RRSIG: the number of signatures may differ at wildcards and where there are none.
/// - An alias that leads to a delegation: NSD leaves the referral out.
/// - A name that does not exist behind a DNAME: NSD 4.6 leaves out the NSEC record for it.
/// - A question for a wildcard itself: NSD adds an NSEC3 record, though the name exists.
/// - DS at a delegation that opt-out leaves out: NSD 4.6 may leave out the NSEC3 record of the
///   closest provable encloser (RFC 5155 §7.2.4).
/// - Additional records are optional, except glue, which both give.
/// - The rest is in [`is_permitted_of`].
fn is_permitted(
    program: Program,
    (qname, qtype): (&NameBuf, Rtype),
    ours: &Shown,
    theirs: &Shown,
) -> bool {
    let is_dname = ours.sections[0].iter().any(|line| line.contains(" dname "));
    if program == Program::Bind && qtype == Rtype::ANY && is_dname {
        return true;
    }
    if matches!(qtype, Rtype::ANY | Rtype::RRSIG) {
        return ours.head.split(' ').next() == theirs.head.split(' ').next();
    }
    if is_permitted_of(program, qtype, ours, theirs) {
        return true;
    }
    let [answer, authority, additional] = &ours.sections;
    let [their_answer, their_authority, _] = &theirs.sections;
    if ours.head != theirs.head || answer != their_answer {
        return false;
    }
    let is_alias = answer.iter().any(|line| line.contains(" cname "));
    let is_referral = authority.iter().any(|line| line.contains(" ns "));
    let _ = additional;
    authority == their_authority
        || qname.wire().starts_with(b"\x01*") && their_authority.is_superset(authority)
        || qtype == Rtype::DS && authority.is_superset(their_authority)
        || is_dname && authority.is_superset(their_authority)
        || is_alias && is_referral && their_authority.is_empty()
}

/// Reports whether a difference to Knot DNS or BIND is permitted.
///
/// - NSEC at an alias, which may have NSEC records (RFC 4035 §2.5): both answer with NODATA if
///   there are none, this server and NSD follow the alias as for other types.
/// - NSEC at a delegation: BIND answers from the parent's side, which RFC 4035 §3.1.4.1 demands
///   only for DS; this server and NSD give a referral.
/// - ANY behind a DNAME: BIND does not follow the alias.
/// - Aliases in a circle: BIND answers SERVFAIL after following them 16 times; this server and NSD
///   give the circle once.
/// - A name without data by a wildcard that is an empty non-terminal: Knot DNS leaves out the NSEC
///   record that proves the wildcard, which RFC 4035 §3.1.3.4 demands.
/// - Opt-out: Knot DNS may prove another closest encloser, nearer to the apex; this server proves
///   the same one as NSD and BIND.
/// - A name below an empty non-terminal that opt-out leaves out: NSD leaves out the record of the
///   closest provable encloser, Knot DNS all records; this server sends what BIND does.
fn is_permitted_of(program: Program, qtype: Rtype, ours: &Shown, theirs: &Shown) -> bool {
    let [answer, authority, _] = &ours.sections;
    let [their_answer, their_authority, _] = &theirs.sections;
    let has = |section: &BTreeSet<String>, rtype: &str| {
        section.iter().any(|line| line.contains(&format!(" {rtype} ")))
    };
    let is_same_but = |rtype: &str| {
        let is_of = |line: &String| line.split(' ').skip(2).take(2).any(|word| word == rtype);
        let rest = |section: &BTreeSet<String>| -> BTreeSet<String> {
            section.iter().filter(|line| !is_of(line)).cloned().collect()
        };
        ours.head == theirs.head
            && answer == their_answer
            && rest(authority) == rest(their_authority)
    };
    let is_nsec = qtype == Rtype::NSEC;
    let is_unfollowed = is_nsec && has(answer, "cname") && !has(their_answer, "cname");
    let is_opt_out = ours.head.starts_with("NXDOMAIN") && has(authority, "nsec3 1 1");
    match program {
        Program::Nsd => is_opt_out && is_same_but("nsec3"),
        Program::Knot => {
            is_unfollowed
                || is_opt_out
                    && theirs.head.starts_with("NXDOMAIN aa=false")
                    && their_authority.is_empty()
                || is_same_but("nsec") && authority.is_superset(their_authority)
                || is_same_but("nsec3") && has(their_authority, "nsec3")
        }
        Program::Bind => {
            is_unfollowed
                || is_nsec && has(authority, "ns") && has(their_answer, "nsec")
                || theirs.head.starts_with("SERVFAIL") && answer.len() > 1 && has(answer, "cname")
        }
    }
}

/// Names that are asked for first: below an empty non-terminal that opt-out leaves out.
const ALWAYS: [&[u8]; 2] =
    [b"\x01c\x08insecure\x07example\0", b"\x01d\x01c\x08insecure\x07example\0"];

/// Returns a name to ask for: a name of the zone, a name below or next to it, or a random name.
fn random_qname(zone: &HostedZone, owners: &[NameBuf], state: &mut u64) -> NameBuf {
    let base = owners[next(state) % owners.len()];
    match next(state) % 5 {
        0 | 1 => base,
        2 => base.prefixed(b"nope").unwrap_or(base),
        3 => name::parent(base.wire())
            .filter(|parent| parent.len() >= zone.apex().len())
            .and_then(|parent| NameBuf::from_wire(parent).ok())
            .unwrap_or(base),
        _ => {
            let mut wire = [0; 255];
            let text = random_name(state).replace('*', "q");
            let apex = zone.apex().wire();
            let len =
                avocet_wire::text::name_to_wire(text.as_bytes(), Some(apex), &mut wire).unwrap();
            NameBuf::from_wire(&wire[..len]).unwrap()
        }
    }
}

const QTYPES: [u16; 14] = [1, 1, 28, 5, 15, 16, 2, 6, 43, 47, 33, 39, 65, 255];

fn compare(program: Program, directory: &Path, (label, text): (&str, &str)) -> bool {
    let apex = FoldedName::new(b"\x07example\0").unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let mut open = |_: &Path, _: u64| Ok(text.as_bytes().to_vec());
    let (zone, faults) = avocet_zone::load(apex, Path::new("zone"), now, &mut open);
    let zone = Arc::new(zone.unwrap_or_else(|| panic!("{:?}", faults.list())));
    let zones: HostedZones = std::iter::once((apex.wire().into(), Some(zone.clone()))).collect();
    let Some(peer) = Peer::start(program, directory, text) else { return false };
    // NSD treats the owners of NSEC3 records as names, contrary to RFC 5155 §7.2.8.
    let owners: Vec<NameBuf> = zone
        .iter()
        .filter(|node| node.sets().all(|set| set.rtype != Rtype::NSEC3))
        .map(|node| NameBuf::from_wire(node.name().wire()).unwrap())
        .collect();
    let soa = NameBuf::from_wire(apex.wire()).unwrap();
    let first = peer.ask(&soa, Rtype::SOA, Proofs::Omitted).expect("a reply");
    if label.starts_with("seed") && !shown(&first).head.starts_with("NOERROR") {
        // Servers other than NSD refuse zones with records below a DNAME.
        return true;
    }
    let is_long = std::env::var_os("AVOCET_LONG_TESTS").is_some();
    let questions = if is_long { LONG_QUESTIONS } else { QUESTIONS };
    let (state, mut different) = (&mut 4711_u64, Vec::new());
    let always = ALWAYS.map(|qname| NameBuf::from_wire(qname).unwrap());
    for number in 0..questions {
        let (qname, qtype, proofs) = match always.get(number) {
            Some(qname) => (*qname, Rtype::A, Proofs::Included),
            None => {
                let qname = random_qname(&zone, &owners, state);
                let qtype = Rtype(QTYPES[next(state) % QTYPES.len()]);
                (qname, qtype, [Proofs::Included, Proofs::Omitted][next(state) % 2])
            }
        };
        let folded = qname.folded();
        let mut out = vec![0; 65_535];
        let question = HostedQuestion { qname: folded.view(), qtype, proofs, limit: LIMIT - 11 };
        let answer = avocet_zone::answer(&zones, &question, &mut out).unwrap();
        let ours = shown(&out[..answer.len]);
        let reply = peer.ask(&qname, qtype, proofs).expect("a reply");
        let theirs = shown(&reply);
        if ours != theirs && !is_permitted(program, (&qname, qtype), &ours, &theirs) {
            different.push(format!(
                "{label}: {qname} {qtype} {proofs:?}\nours   {ours:#?}\n{program:?} {theirs:#?}"
            ));
        }
    }
    different.truncate(4);
    assert!(different.is_empty(), "{}", different.join("\n"));
    true
}

/// Compares the answers for all zones with those of a server.
fn compare_all(program: Program) {
    let directory = own_directory().join(format!("{program:?}"));
    fs::create_dir_all(directory.join("knot")).unwrap();
    let random = [1, 2, 4, 5, 6].map(|seed| (format!("seed {seed}"), random_zone(seed)));
    let made = std::iter::once(("hand-made".to_owned(), HAND_MADE.to_owned()));
    for (label, text) in made.chain(random) {
        for how in ["unsigned", "nsec", "nsec3", "opt-out"] {
            let compared = signed(&directory, &text, how).is_some_and(|text| {
                compare(program, &directory, (&format!("{label}, {how}"), &text))
            });
            if !compared {
                assert!(
                    std::env::var_os("CI").is_none(),
                    "{program:?} or dnssec-signzone is missing"
                );
                return;
            }
        }
    }
    fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn answers_equal_those_of_nsd() {
    compare_all(Program::Nsd);
}

#[test]
fn answers_equal_those_of_knot() {
    compare_all(Program::Knot);
}

#[test]
fn answers_equal_those_of_bind() {
    compare_all(Program::Bind);
}
