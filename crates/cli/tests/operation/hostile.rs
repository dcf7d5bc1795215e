//! Lists that are not lists, or that are designed to do harm: the server keeps answering, the lists
//! in force remain, and the report names the fault.
//!
//! `AVOCET_LONG_TESTS=1` adds those that take a minute or more.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::Value;

use crate::server::{Server, Site, ask_patiently, udp_client};
use crate::upstream::{ADDRESS, Upstream};

/// The address in responses to blocked questions.
const BLOCKED: [u8; 4] = [0; 4];
/// Entries of the list before the attack.
const GOOD: usize = 3_000;
/// The most memory that a server of a small network may use for any input: the text of one list
/// with at most 256 MiB, its compiled form, and the server itself.
const MOST_MEMORY: u64 = 448 << 20;
/// More octets than a list may have.
const GIGABYTE: usize = 1 << 30;

/// How the web server of the test reacts to a connection after the request.
type Act = Arc<dyn Fn(&mut TcpStream) + Send + Sync>;

/// The expected treatment of a list.
enum Becomes {
    /// Its last good copy remains in force, and the report contains these words.
    HeldBack(&'static str),
    /// It is accepted with this number of entries; its other lines are broken, if there are any.
    Taken(u64),
}
use Becomes::{HeldBack, Taken};

struct Web {
    port: u16,
    act: Arc<Mutex<Act>>,
}

impl Web {
    fn start() -> Self {
        let listener = crate::server::tcp_listener();
        let port = listener.local_addr().unwrap().port();
        let act: Arc<Mutex<Act>> = Arc::new(Mutex::new(text(names(GOOD))));
        let acts = act.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let lines =
                    BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
                lines.take_while(|line| !line.is_empty()).for_each(drop);
                let act = acts.lock().unwrap().clone();
                act(&mut stream);
            }
        });
        Self { port, act }
    }
}

/// Sends octets unchanged; the client may have closed the connection.
fn raw(octets: impl AsRef<[u8]> + Send + Sync + 'static) -> Act {
    Arc::new(move |stream| drop(stream.write_all(octets.as_ref())))
}

/// Sends a complete response with this text.
fn text(octets: impl AsRef<[u8]> + Send + Sync + 'static) -> Act {
    Arc::new(move |stream| {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", octets.as_ref().len());
        let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(octets.as_ref()));
    })
}

/// Sends the head, then repeats the part.
fn again(head: &'static str, part: impl AsRef<[u8]> + Send + Sync + 'static, times: usize) -> Act {
    Arc::new(move |stream| {
        let mut said = stream.write_all(head.as_bytes());
        for _ in 0..times {
            said = said.and_then(|()| stream.write_all(part.as_ref()));
        }
    })
}

const UNTIL_CLOSED: &str = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n";

fn names(count: usize) -> String {
    (0..count).map(|number| format!("n{number}.ads.example\n")).collect()
}

/// A good list with other lines in between.
fn among_good(bad: &[u8]) -> Vec<u8> {
    names(GOOD).lines().flat_map(|line| [line.as_bytes(), b"\n", bad, b"\n"].concat()).collect()
}

/// Octets like those of a program.
fn binary() -> Vec<u8> {
    let mut state = 1_u64;
    let mut octet = || {
        state = state.wrapping_mul(0xda94_2042_e4dd_58b5).wrapping_add(1);
        (state >> 33) as u8
    };
    (0..1 << 20).map(|_| octet()).collect()
}

/// A gigabyte of zeros in gzip format: blocks that encode 258 octets in one or two bits.
fn bomb() -> Act {
    let mut packed = Vec::new();
    let mut encoder = Command::new("sh")
        .args(["-c", "head -c 1073741824 /dev/zero | gzip -1"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Read::read_to_end(encoder.stdout.as_mut().unwrap(), &mut packed).unwrap();
    assert!(encoder.wait().unwrap().success() && packed.len() < GIGABYTE / 100);
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n",
        packed.len()
    );
    raw([head.into_bytes(), packed].concat())
}

/// One octet per packet, then silence.
fn drop_by_drop() -> Act {
    Arc::new(|stream| {
        let _ = stream.set_nodelay(true);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n");
        names(GOOD)
            .bytes()
            .take(5_000)
            .try_for_each(|octet| stream.write_all(&[octet]).ok())
            .unwrap_or_default();
    })
}

fn patterns(count: usize, pattern: impl Fn(usize) -> String) -> String {
    (0..count).map(|number| pattern(number) + "\n").collect()
}

/// Name, behaviour of the source, and expected treatment.
fn of_the_web(port: u16) -> Vec<(&'static str, Act, Becomes)> {
    let redirect = format!(
        "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:{port}/again\r\nContent-Length: 0\r\n\r\n"
    );
    let to_file = "HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\nContent-Length: 0\r\n\r\n";
    let cut = "HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\nads.example\n";
    let deep = format!("||deep.example^$denyallow={}\n", vec!["a.deep.example"; 5_000].join("|"));
    let nested = format!("/{}x{}/\n", "(".repeat(2_000), ")+".repeat(2_000));
    let page =
        "\n <!DOCTYPE html><html><body>The limit of your subscription is reached</body></html>";
    let long_name = format!("{}.example\n", vec!["a".repeat(63); 4].join("."));
    let clients =
        patterns(GOOD, |n| format!("||c{n}.example^$client=10.{}.{}.1", n / 256, n % 256));
    let named = patterns(GOOD, |n| format!("||c{n}.example^$client=c{n},ctag=t{n}"));
    let with_mark = format!("\u{feff}{}", names(GOOD));
    let gigabyte = format!("HTTP/1.1 200 OK\r\nContent-Length: {GIGABYTE}\r\n\r\n");
    vec![
        ("a gigabyte that is announced", raw(gigabyte), HeldBack("larger than 268435456 octets")),
        ("binary", text(binary()), HeldBack("not a text")),
        ("an archive", text(b"\x1f\x8b\x08\x00archive".repeat(999)), HeldBack("not a text")),
        ("an endless line", text(vec![b'a'; 8 << 20]), HeldBack("no entries, and 1 broken")),
        ("the root", text(".\n"), HeldBack("no entries, and 1 broken")),
        ("everything", text("||*^\n||.^\n*\n/.*/\n"), HeldBack("no entries")),
        ("top-level domains", text("com\nnet\norg\nde\n"), HeldBack("no entries, and 4 broken")),
        (
            "a name of 64 octets",
            text(format!("{}.example\n", "a".repeat(64))),
            HeldBack("no entries, and 1 broken"),
        ),
        ("a name of 256 octets", text(long_name), HeldBack("no entries, and 1 broken")),
        ("nothing", text(""), HeldBack("no entries")),
        ("a web page", text(page), HeldBack("a web page")),
        ("half of it", text(names(GOOD / 2 - 1)), HeldBack("1499 entries, down from 3000")),
        ("a redirect to itself", raw(redirect), HeldBack("too many redirects")),
        ("a redirect to a file", raw(to_file), HeldBack("")),
        ("an answer cut off", raw(cut), HeldBack("closed before the end of the text")),
        ("a drop at a time", drop_by_drop(), HeldBack("closed before the end of the text")),
        ("no answer", raw(""), HeldBack("")),
        ("not HTTP", raw("SSH-2.0-OpenSSH_9.9\r\n"), HeldBack("")),
        (
            "an endless head",
            again("HTTP/1.1 200 OK\r\n", "X-A: aaaaaaaaaaaaaaaa\r\n", 1 << 20),
            HeldBack(""),
        ),
        ("an error", raw("HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n"), HeldBack("status 500")),
        ("catastrophic", text("/(a+)+$/\n/(x{1000}){1000}/\n/(.*.*.*.*)*z/\n"), HeldBack("")),
        ("nested expressions", text(nested), HeldBack("no entries, and 1 broken")),
        ("nested denyallow", text(deep), HeldBack("no entries, and 1 broken")),
        ("octets of zero", text(among_good(b"\0")), HeldBack("not a text")),
        (
            "clients",
            text(format!("[Adblock Plus]\n{}{clients}", names(GOOD))),
            Taken(GOOD as u64 + 256),
        ),
        (
            "names of clients",
            text(format!("[Adblock Plus]\n{}{named}", names(GOOD))),
            Taken(2 * GOOD as u64),
        ),
        ("invalid UTF-8", text(among_good(b"\xff\xfe.example")), Taken(GOOD as u64)),
        (
            "punycode",
            text(among_good(b"xn--a.example\nxn--99999999999999.example")),
            Taken(3 * GOOD as u64),
        ),
        ("lines of Windows", text(names(GOOD).replace('\n', "\r\n")), Taken(GOOD as u64)),
        ("a byte order mark", text(with_mark), Taken(GOOD as u64)),
    ]
}

/// The same for slow sources.
fn that_take_long() -> Vec<(&'static str, Act, Becomes)> {
    let silent: Act = Arc::new(|stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n");
        // Until the client closes the connection.
        let _ = std::io::Read::read(stream, &mut [0]);
    });
    vec![
        (
            "a stream without end",
            again(UNTIL_CLOSED, "a.example\n".repeat(1 << 16), GIGABYTE),
            HeldBack("larger than 268435456 octets"),
        ),
        ("a bomb", bomb(), HeldBack("larger than 268435456 octets")),
        (
            "100,000 expressions",
            text(patterns(100_000, |n| format!("/^ad{n}[0-9]+\\./"))),
            Taken(10_000),
        ),
        ("100,000 patterns", text(patterns(100_000, |n| format!("||a*d{n}^"))), Taken(100_000)),
        ("a source that falls silent", silent, HeldBack("too long")),
    ]
}

/// Sends queries while something else happens, and checks each answer.
struct Crowd<'a> {
    site: &'a Site,
    is_over: AtomicBool,
    asked: AtomicU64,
    /// Whether the list under attack is unchanged.
    keeps: AtomicBool,
}

impl Crowd<'_> {
    fn ask_all_the_time(&self) {
        for number in (0..GOOD).cycle().take_while(|_| !self.is_over.load(Ordering::Relaxed)) {
            assert_eq!(ask(self.site, "other.example"), BLOCKED);
            assert_eq!(ask(self.site, "passes.example"), ADDRESS);
            assert_eq!(ask(self.site, &format!("m{number}.example")), ADDRESS);
            let keeps = self.keeps.load(Ordering::SeqCst);
            let answer = ask(self.site, &format!("n{number}.ads.example"));
            if keeps && self.keeps.load(Ordering::SeqCst) {
                assert_eq!(answer, BLOCKED, "n{number}.ads.example");
            }
            self.asked.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn ask(site: &Site, name: &str) -> Vec<u8> {
    ask_patiently(&udp_client(), site.dns, name)
}

fn refresh(site: &Site, list: &str) -> Value {
    // It exits with 1 if the source is not accepted.
    let text =
        String::from_utf8(site.avocet(&["lists", "refresh", "--json", list]).stdout).unwrap();
    let outcome: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    outcome["lists"][0].clone()
}

/// The entry of a list in `avocet lists status`.
fn status(site: &Site, list: &str) -> Value {
    let answer: Value =
        serde_json::from_str(&site.avocet_text(&["lists", "status", "--json"])).unwrap();
    let mut lists = answer["lists"].as_array().unwrap().iter();
    lists.find(|one| one["name"] == list).unwrap().clone()
}

fn list(name: &str, source: &str) -> String {
    format!("[[list]]\nname = \"{name}\"\n{source}\n")
}

/// A server with a good list and the one under attack, under load.
fn attacked(source: &str, attack: impl FnOnce(&Site, &Crowd<'_>)) {
    let (site, upstream) = (Site::new(), Upstream::start());
    let other = site.directory.join("other.txt");
    std::fs::write(&other, "other.example\n").unwrap();
    std::fs::write(site.directory.join("evil.txt"), names(GOOD)).unwrap();
    let source = source.replace("DIRECTORY", &site.directory.display().to_string());
    let lists = list("other", &format!("file = \"{}\"", other.display())) + &list("evil", &source);
    site.configure(upstream.addr, "workers = 2\n", &lists);
    let server: Server = site.start();
    assert_eq!(refresh(&site, "evil")["entries"], GOOD);
    let crowd = Crowd {
        site: &site,
        is_over: AtomicBool::new(false),
        asked: AtomicU64::new(0),
        keeps: AtomicBool::new(true),
    };
    thread::scope(|scope| {
        let crowd = &crowd;
        let _end = EndOnDrop(&crowd.is_over);
        scope.spawn(|| crowd.ask_all_the_time());
        attack(&site, crowd);
    });
    assert!(crowd.asked.load(Ordering::Relaxed) > 0);
    assert_eq!(site.metric("avocet_worker_panics_total"), 0.0);
    let memory = server.most_memory();
    assert!(memory < MOST_MEMORY, "{} MiB", memory >> 20);
    println!(
        "at most {} MiB in memory, {} rounds of the crowd",
        memory >> 20,
        crowd.asked.load(Ordering::Relaxed)
    );
    server.stop();
}

/// Ends the load also when the test fails, so that the failure is reported.
struct EndOnDrop<'a>(&'a AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn attack_over_the_web(
    web: &Web,
    cases: Vec<(&'static str, Act, Becomes)>,
    (site, crowd): (&Site, &Crowd<'_>),
) {
    for (name, act, becomes) in cases {
        *web.act.lock().unwrap() = act;
        if matches!(becomes, Taken(_)) {
            crowd.keeps.store(false, Ordering::SeqCst);
        }
        let outcome = refresh(site, "evil");
        judged(site, name, &outcome, &becomes);
        if matches!(becomes, Taken(_)) {
            *web.act.lock().unwrap() = text(names(GOOD));
            let arguments = ["lists", "refresh", "--force", "evil"];
            site.avocet_text(&arguments);
            assert_eq!(status(site, "evil")["entries"], GOOD, "after {name}");
            crowd.keeps.store(true, Ordering::SeqCst);
        }
    }
}

#[track_caller]
fn judged(site: &Site, name: &str, outcome: &Value, becomes: &Becomes) {
    let status = status(site, "evil");
    match becomes {
        HeldBack(words) => {
            let error =
                outcome["error"].as_str().unwrap_or_else(|| panic!("{name} was taken: {outcome}"));
            assert!(error.contains(words) && !error.is_empty(), "{name}: {error}");
            assert_eq!(status["error"], error, "{name}");
            assert_eq!(
                (&status["entries"], &status["in-force"]),
                (&GOOD.into(), &true.into()),
                "{name}"
            );
            assert_eq!(ask(site, "n7.ads.example"), BLOCKED, "{name}");
        }
        Taken(entries) => {
            assert!(outcome["error"].is_null() && status["error"].is_null(), "{name}: {outcome}");
            assert_eq!(status["entries"], *entries, "{name}");
        }
    }
    println!("{name}: {}", outcome["error"].as_str().unwrap_or("taken"));
}

#[test]
fn hostile_sources_change_nothing_and_are_reported() {
    let web = Web::start();
    attacked(&format!("url = \"http://127.0.0.1:{}/list\"", web.port), |site, crowd| {
        attack_over_the_web(&web, of_the_web(web.port), (site, crowd));
    });
}

#[test]
fn hostile_sources_that_take_long_change_nothing_and_are_reported() {
    if std::env::var_os("AVOCET_LONG_TESTS").is_none() {
        return;
    }
    let web = Web::start();
    attacked(&format!("url = \"http://127.0.0.1:{}/list\"", web.port), |site, crowd| {
        attack_over_the_web(&web, that_take_long(), (site, crowd));
    });
}

#[test]
fn something_other_than_a_file_at_its_path_changes_nothing_and_is_reported() {
    let shell = |script: &str, path: &Path| {
        let beside = path.with_extension("beside");
        let script = script.replace("PATH", &beside.display().to_string());
        assert!(Command::new("sh").args(["-c", &script]).status().unwrap().success(), "{script}");
        let _ = std::fs::remove_dir(path).or_else(|_| std::fs::remove_file(path));
        std::fs::rename(beside, path).unwrap();
    };
    let source = "file = \"DIRECTORY/evil.txt\"";
    let cases = [
        ("a directory", "mkdir PATH", HeldBack("it is a directory")),
        ("a pipe", "mkfifo PATH", HeldBack("a pipe or a device")),
        ("a device", "ln -s /dev/zero PATH", HeldBack("a pipe or a device")),
        ("a link to itself", "ln -s evil.txt PATH", HeldBack("")),
        ("a gigabyte", "truncate -s 1G PATH", HeldBack("larger than 268435456 octets")),
        ("zeros", "truncate -s 16M PATH", HeldBack("not a text")),
        ("nothing", ": > PATH", HeldBack("--force")),
    ];
    attacked(source, |site, _| {
        let path = site.directory.join("evil.txt");
        for (name, script, becomes) in cases {
            shell(script, &path);
            let outcome = refresh(site, "evil");
            judged(site, name, &outcome, &becomes);
        }
        let pipe = site.avocet(&["policy", "check"]);
        assert!(pipe.status.success());
        shell("mkfifo PATH", &path);
        let pipe = site.avocet(&["policy", "check"]);
        assert!(String::from_utf8_lossy(&pipe.stderr).contains("a pipe or a device"), "{pipe:?}");
    });
}
