//! Lists that are fetched, stored and replaced while the server runs.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::Value;

use crate::past::wait_until;
use crate::server::Site;
use crate::upstream::{ADDRESS, Upstream};

/// The address in responses to blocked questions.
const BLOCKED: [u8; 4] = [0; 4];

/// A web server with one text, until the test ends.
struct Web {
    port: u16,
    text: Arc<Mutex<Option<String>>>,
    whole: Arc<AtomicU32>,
}

impl Web {
    fn start(text: &str) -> Self {
        let listener = crate::server::tcp_listener();
        let port = listener.local_addr().unwrap().port();
        let text = Arc::new(Mutex::new(Some(text.to_owned())));
        let whole = Arc::new(AtomicU32::new(0));
        let (given, count) = (text.clone(), whole.clone());
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let lines =
                    BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
                let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
                let head = head.join("\n").to_lowercase();
                let text = given.lock().unwrap().clone();
                let answer = match text {
                    None => {
                        "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n".to_owned()
                    }
                    Some(text) => {
                        let tag = format!(
                            "\"{}-{}\"",
                            text.len(),
                            text.lines().next().unwrap_or_default()
                        );
                        if head.contains(&format!("if-none-match: {tag}")) {
                            "HTTP/1.1 304 Not Modified\r\n\r\n".to_owned()
                        } else {
                            count.fetch_add(1, Ordering::Relaxed);
                            format!(
                                "HTTP/1.1 200 OK\r\nETag: {tag}\r\nContent-Length: \
                                 {}\r\n\r\n{text}",
                                text.len()
                            )
                        }
                    }
                };
                // The client may be gone.
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        Self { port, text, whole }
    }

    fn give(&self, text: Option<&str>) {
        *self.text.lock().unwrap() = text.map(str::to_owned);
    }
}

fn list(name: &str, source: &str) -> String {
    format!("[[list]]\nname = \"{name}\"\n{source}\n")
}

fn names(count: usize) -> String {
    (0..count).map(|number| format!("n{number}.ads.example\n")).collect()
}

fn refresh(site: &Site, arguments: &[&str]) -> Value {
    let arguments: Vec<&str> =
        ["lists", "refresh", "--json"].iter().chain(arguments).copied().collect();
    // The last line has the outcome; earlier ones report progress.
    let output = site.avocet(&arguments);
    let text = String::from_utf8(output.stdout).unwrap();
    let outcome: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    let lists = outcome["lists"].as_array().unwrap();
    let has_failed = lists.iter().any(|list| list["error"].is_string());
    assert_eq!(output.status.code(), Some(i32::from(has_failed)), "{outcome}");
    outcome
}

#[test]
fn a_url_is_fetched_by_a_name_that_the_server_resolves_and_acts_on_the_next_query() {
    let (site, upstream, web) = (Site::new(), Upstream::start(), Web::start("ads.example\n"));
    let record = "[[record]]\nname = \"lists.lan\"\ntype = \"A\"\nvalues = [\"127.0.0.1\"]\n";
    let url = format!("url = \"http://lists.lan:{}/ads\"", web.port);
    site.configure(upstream.addr, "", &format!("{record}{}", list("ads", &url)));
    let server = site.start();
    refresh(&site, &[]);
    assert_eq!(site.ask("ads.example").0, BLOCKED);
    assert_eq!(site.ask("more.example").0, ADDRESS);

    web.give(Some("more.example\nads.example\n"));
    let outcome = refresh(&site, &["ads"]);
    assert_eq!(
        (&outcome["lists"][0]["entries-before"], &outcome["lists"][0]["entries"]),
        (&1.into(), &2.into())
    );
    assert_eq!(
        site.ask("more.example").0,
        BLOCKED,
        "the answer in the packet cache no longer holds"
    );
    let fetches = web.whole.load(Ordering::Relaxed);
    assert_eq!(refresh(&site, &["ads"])["lists"][0]["changed"], false);
    assert_eq!(
        web.whole.load(Ordering::Relaxed),
        fetches,
        "it asked whether there is another text"
    );
    server.stop();

    // Without the source, the stored image is in force, and nothing is compiled.
    web.give(None);
    let server = site.start();
    server.seen_line("loaded the image of the lists");
    assert_eq!(site.ask("ads.example").0, BLOCKED);
    assert_eq!(refresh(&site, &["ads"])["lists"][0]["error"], "its server returned status 503");
    assert_eq!(site.metric("avocet_list_compiles_total"), 0.0);
    assert_eq!(site.metric("avocet_list_failing{list=\"ads\"}"), 1.0);
    assert_eq!(site.ask("more.example").0, BLOCKED);
}

/// Starts a web server that begins a text for each client and does not end it. Returns its port and
/// its connections.
fn endless() -> (u16, Arc<Mutex<Vec<TcpStream>>>) {
    let listener = crate::server::tcp_listener();
    let port = listener.local_addr().unwrap().port();
    let all = Arc::<Mutex<Vec<TcpStream>>>::default();
    let kept = Arc::clone(&all);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nslow");
            kept.lock().unwrap().push(stream);
        }
    });
    (port, all)
}

#[test]
fn a_server_that_sends_slowly_delays_neither_files_nor_other_lists() {
    let (site, upstream, web) = (Site::new(), Upstream::start(), Web::start("ads.example\n"));
    let (port, connections) = endless();
    let own = site.directory.join("own.txt");
    fs::write(&own, "own.example\n").unwrap();
    let lists = list("own", "file = \"own.txt\"");
    site.configure(upstream.addr, "", &lists);
    let server = site.start();
    let is_blocked = |name: &str| site.ask(name).0 == BLOCKED;
    assert!(is_blocked("own.example"));

    // One reload brings all three.
    fs::write(site.directory.join("more.txt"), "more.example\n").unwrap();
    let lists = list("slow", &format!("url = \"http://127.0.0.1:{port}/slow\""))
        + &list("ads", &format!("url = \"http://127.0.0.1:{}/ads\"", web.port))
        + &list("more", "file = \"more.txt\"")
        + &lists;
    site.configure(upstream.addr, "", &lists);
    assert!(site.avocet(&["reload"]).status.success());
    wait_until("the new file is in force", || is_blocked("more.example"));
    wait_until("the other list is fetched", || web.whole.load(Ordering::Relaxed) > 0);

    fs::write(&own, "own.example\nsecond.example\n").unwrap();
    wait_until("the change of a file is in force", || is_blocked("second.example"));
    wait_until("the fetched list is in force, too", || is_blocked("ads.example"));

    fs::write(site.directory.join("last.txt"), "last.example\n").unwrap();
    web.give(Some("late.example\n"));
    let late = list("late", &format!("url = \"http://127.0.0.1:{}/late\"", web.port));
    site.configure(upstream.addr, "", &(lists + &list("last", "file = \"last.txt\"") + &late));
    assert!(site.avocet(&["reload"]).status.success());
    wait_until("the last file is in force", || is_blocked("last.example"));
    wait_until("a list that became due meanwhile is fetched", || {
        web.whole.load(Ordering::Relaxed) > 1
    });
    assert_eq!(connections.lock().unwrap().len(), 1, "the slow list is still on its way");

    // The end of its server ends the attempt.
    connections.lock().unwrap().clear();
    wait_until("the slow list has failed", || {
        site.metric("avocet_list_failing{list=\"slow\"}") == 1.0
    });
    server.stop();
}

#[test]
fn a_source_that_is_not_to_be_trusted_keeps_its_last_good_copy() {
    let (site, upstream, web) = (Site::new(), Upstream::start(), Web::start(&names(3_000)));
    let url = format!("url = \"http://127.0.0.1:{}/ads\"", web.port);
    site.configure(upstream.addr, "", &list("ads", &url));
    let _server = site.start();
    refresh(&site, &[]);
    for text in [names(1_499).as_str(), "", "<!DOCTYPE html>\n<html><body>log in</body></html>\n"] {
        web.give(Some(text));
        let outcome = refresh(&site, &["ads"]);
        assert!(outcome["lists"][0]["error"].is_string(), "{outcome}");
        assert_eq!(outcome["lists"][0]["entries"], 3_000);
        assert_eq!(site.ask("n2999.ads.example").0, BLOCKED);
    }
    web.give(Some(&names(10)));
    let text = site.avocet_text(&["lists", "status"]);
    assert!(text.contains("3000 entries") && text.contains("failed 3 times in a row"), "{text}");
    assert_eq!(refresh(&site, &["ads", "--force"])["lists"][0]["entries"], 10);
    assert_eq!(site.ask("n2999.ads.example").0, ADDRESS);
    assert_eq!(site.avocet(&["lists", "refresh", "none"]).status.code(), Some(1));
}

#[test]
fn swaps_under_load_lose_no_query_and_act() {
    let (site, upstream) = (Site::new(), Upstream::start());
    let file = site.directory.join("ads.txt");
    fs::write(&file, "other.example\n").unwrap();
    site.configure(
        upstream.addr,
        "workers = 2",
        &list("ads", &format!("file = \"{}\"", file.display())),
    );
    let _server = site.start();
    let is_over = AtomicBool::new(false);
    let asked = thread::scope(|scope| {
        let clients: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut asked = 0;
                    while !is_over.load(Ordering::Relaxed) {
                        // The command waits for the outcome, and fails without one.
                        assert!(
                            [ADDRESS, BLOCKED]
                                .contains(&site.ask("ads.example").0.try_into().unwrap())
                        );
                        asked += 1;
                    }
                    asked
                })
            })
            .collect();
        for round in 0..10 {
            let text = if round % 2 == 0 { "ads.example\n" } else { "# nothing\nother.example\n" };
            fs::write(&file, text).unwrap();
            refresh(&site, &["ads"]);
            let expected = if round % 2 == 0 { BLOCKED } else { ADDRESS };
            // Each query comes from another port, so both workers are covered: their next queries
            // get the new answer.
            for number in 0..16 {
                let (answer, _) = site.ask("ads.example");
                if answer != expected {
                    is_over.store(true, Ordering::Relaxed);
                    panic!("query {number} after swap {round} got {answer:?}");
                }
            }
        }
        is_over.store(true, Ordering::Relaxed);
        clients.into_iter().map(|client| client.join().unwrap()).sum::<u32>()
    });
    assert!(asked > 0);
    assert_eq!(site.metric("avocet_worker_panics_total"), 0.0);
}

#[test]
fn lists_follow_the_configuration() {
    let (site, upstream) = (Site::new(), Upstream::start());
    let of = |name: &str| {
        let file = site.directory.join(name);
        fs::write(&file, format!("{name}.example\nnot a name at all!\n")).unwrap();
        list(name, &format!("format = \"domains\"\nfile = \"{}\"", file.display()))
    };
    site.configure(upstream.addr, "", &format!("{}{}", of("one"), of("two")));
    let _server = site.start();
    assert_eq!(
        (site.ask("one.example").0, site.ask("two.example").0),
        (BLOCKED.into(), BLOCKED.into())
    );

    // The previous image has the lists in another order, and one that is no longer configured.
    site.configure(upstream.addr, "", &format!("{}{}", of("three"), of("two")));
    site.avocet_text(&["reload"]);
    refresh(&site, &[]);
    assert_eq!(
        (site.ask("three.example").0, site.ask("two.example").0),
        (BLOCKED.into(), BLOCKED.into())
    );
    assert_eq!(site.ask("one.example").0, ADDRESS);

    let text = site.avocet_text(&["lists", "check", "three"]);
    assert!(
        text.starts_with("line 2: ") && text.contains("1 entry, 0 skipped, 1 broken"),
        "{text}"
    );
    site.configure(upstream.addr, "", "");
    site.avocet_text(&["reload"]);
    assert_eq!(site.ask("two.example").0, ADDRESS);
}

#[test]
fn a_list_that_asks_for_endless_work_blocks_such_names_and_is_counted() {
    let hostile: String =
        (0..80).map(|number| format!("aaa[a-z.]{{0,{}}}[0-9]\n", 100 + number)).collect();
    let every = "||*^$client=~zz\n||x.example^$popup\n".to_owned();
    let (site, upstream, web) = (Site::new(), Upstream::start(), Web::start(&hostile));
    let own = site.directory.join("own");
    fs::write(&own, format!("{every}||own.example^\n/^own[0-9]+[.]/\n")).unwrap();
    let tables = list(
        "far",
        &format!("url = \"http://127.0.0.1:{}/x\"\nformat = \"pihole-regex\"", web.port),
    ) + &list("near", &format!("file = \"{}\"", own.display()));
    site.configure(upstream.addr, "", &tables);
    let server = site.start();
    refresh(&site, &[]);
    let label = "a".repeat(60);
    let long = format!("{label}.{label}.{label}.{}", "a".repeat(50));
    // The response has no records.
    assert_eq!(site.ask_any(&long), (0x8180, 0));
    assert_eq!(site.ask(&format!("own7.{long}")).0, BLOCKED);
    assert_eq!(
        (site.ask("www.example").0, site.ask("own.example").0),
        (ADDRESS.into(), BLOCKED.into())
    );
    assert!(site.metric("avocet_list_lookups_cut_short_total") >= 1.0);
    let text = site.avocet_text(&["lists", "check", "near", "--skipped"]);
    assert!(
        text.starts_with("line 2 has no effect: its modifiers apply to browsers only\n"),
        "{text}"
    );
    assert!(text.contains("line 1: the line matches every name"), "{text}");
    let lines = server.stop();
    assert_eq!(
        lines.iter().filter(|line| line.contains("reached the work limit of a query")).count(),
        1,
        "{lines:?}"
    );
}

#[test]
fn a_policy_zone_is_kept_as_lists_are_and_explained() {
    const HEAD: &str = "$TTL 60\n@ SOA rpz.example. nobody.example. 1 2 3 4 5\n";
    let first =
        format!("{HEAD}own.example A 192.0.2.99\nns.example.rpz-nsdname CNAME .\nbroken CNAME\n");
    let (site, upstream, web) = (Site::new(), Upstream::start(), Web::start(&first));
    let source = format!("url = \"http://127.0.0.1:{}/zone\"\nformat = \"rpz\"", web.port);
    site.configure(upstream.addr, "", &list("threats", &source));
    let server = site.start();
    refresh(&site, &[]);
    assert_eq!(site.ask("own.example").0, [192, 0, 2, 99]);
    let text = site.avocet_text(&["lists", "check", "threats"]);
    assert!(
        text.starts_with("line 5: the data: ") && text.contains("2 entries, 1 skipped, 1 broken"),
        "{text}"
    );
    let text = site.avocet_text(&["lists", "status"]);
    assert!(text.contains("triggers: 1 nsdname, 1 qname; 1 of them cannot match"), "{text}");
    let text = site.avocet_text(&["why", "own.example"]);
    assert!(
        text.contains("rewritten by list threats")
            && text.contains("list threats, line 3: local-data by qname, decides"),
        "{text}"
    );

    web.give(Some(&format!("{HEAD}own.example A 192.0.2.98\n127.0.0.1 CNAME .\n")));
    refresh(&site, &["threats"]);
    assert_eq!(site.ask("own.example").0, [192, 0, 2, 98], "the next query has the new answer");
    server.stop();
    web.give(None);
    let server = site.start();
    server.seen_line("loaded the image of the lists");
    assert_eq!(site.ask("own.example").0, [192, 0, 2, 98], "its copy is read at the start");
    assert_eq!(site.metric("avocet_list_entries{list=\"threats\"}"), 2.0);
}

#[test]
fn commands_judge_by_the_copies_of_what_was_fetched() {
    let (site, upstream, web) = (Site::new(), Upstream::start(), Web::start("ads.example\n"));
    let url = format!("url = \"http://127.0.0.1:{}/ads\"", web.port);
    site.configure(upstream.addr, "", &list("ads", &url));
    assert!(site.avocet_text(&["policy", "check"]).contains("no copy on this machine yet"));
    let server = site.start();
    refresh(&site, &[]);
    server.stop();
    web.give(None);
    assert!(site.avocet_text(&["policy", "check"]).contains("list ads: domains, 1 entry,"));
    let held =
        site.avocet_text(&["policy", "test", "list(\"ads\")", "--name", "ads.example", "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&held).unwrap()["holds"], true, "{held}");
    let queries = site.directory.join("queries");
    fs::write(&queries, "ads.example\nother.example\n").unwrap();
    let without = site.directory.join("without.toml");
    fs::write(&without, "").unwrap();
    let (queries, without) = (queries.to_str().unwrap(), without.to_str().unwrap());
    let changed = site.avocet_text(&["policy", "dry-run", without, "--queries", queries]);
    assert!(changed.contains("freed: 1 queries, 1 names"), "{changed}");
    let current = format!("compared with {}\n", site.file().display());
    assert!(changed.ends_with(&current), "{changed}");
    let arguments = ["policy", "dry-run", without, "--queries", queries];
    let mut alone = Command::new(env!("CARGO_BIN_EXE_avocet"));
    let alone = alone.args(arguments).env("AVOCET_CONFIG", "").output().unwrap();
    let alone = String::from_utf8(alone.stdout).unwrap();
    assert!(alone.contains("compared with a server without configuration"), "{alone}");
}

#[test]
fn what_a_list_blocks_and_allow_leaves_out_stops_no_fetch() {
    let (site, web) = (Site::new(), Web::start("ads.example\n"));
    let upstream = Upstream::answering([127, 0, 0, 1]);
    let own = site.directory.join("own.txt");
    fs::write(&own, "lists.example\n").unwrap();
    let lists = list("own", &format!("file = \"{}\"", own.display()))
        + &list("web", &format!("url = \"http://lists.example:{}/list\"", web.port));
    // No client on this machine is allowed.
    site.configure(upstream.addr, "allow = [\"192.0.2.0/24\"]", &lists);
    let _server = site.start();
    let outcome = refresh(&site, &["web"]);
    assert_eq!(outcome["lists"][0]["error"], Value::Null, "{outcome}");
    assert_eq!(web.whole.load(Ordering::Relaxed), 1);
}

#[test]
fn a_list_without_a_copy_is_said_to_have_no_effect_and_a_missing_file_once() {
    let (site, upstream, web) = (Site::new(), Upstream::start(), Web::start(""));
    web.give(None);
    let url = format!("url = \"http://127.0.0.1:{}/web.txt\"", web.port);
    let file = format!("file = \"{}\"", site.directory.join("gone.txt").display());
    let tables = list("web", &url) + &list("gone", &file);
    site.configure(upstream.addr, "", &tables);
    let mut server = site.start();
    for how in ["not fetched, the list has no effect", "not read, the list has no effect"] {
        if !server.seen().iter().any(|line| line.contains(how)) {
            server.wait_for_line(how);
        }
    }
    site.avocet_text(&["status"]);
    server.read_lines();
    let lines = server.seen().iter().filter(|line| line.contains("list=\"gone\""));
    assert_eq!(lines.count(), 1, "{:#?}", server.seen());
}

#[test]
fn a_list_that_tests_too_many_clients_does_not_keep_the_server_from_starting() {
    let (site, upstream) = (Site::new(), Upstream::start());
    let file = site.directory.join("rpz.txt");
    let write = |triggers: u32| {
        let of_client = |number: u32| {
            let (low, high) = (number % 250 + 1, number / 250);
            format!("32.{low}.{high}.0.10.rpz-client-ip.rpz. CNAME rpz-passthru.\n")
        };
        let head =
            "$TTL 300\nrpz. SOA ns. h. 1 3600 600 86400 300\nbad.example.rpz. A 192.0.2.99\n";
        let triggers: String = (0..triggers).map(of_client).collect();
        fs::write(&file, format!("{head}{triggers}")).unwrap();
    };
    write(1);
    let ads = site.directory.join("ads.txt");
    fs::write(&ads, "ads.example\n").unwrap();
    // Each device has its own profiles.
    let device = |number: u32| {
        format!(
            "[[group]]\nname = \"g{number}\"\nlists = [\"ads\"]\n[[client]]\nname = \
             \"c{number}\"\nids = [\"id:dev{number}\"]\ngroups = [\"g{number}\"]\n[[rule]]\nname = \
             \"r{number}\"\nwhen = 'client.group(\"g{number}\") && \
             qname.under(\"zz\")'\naction = \"block\"\n"
        )
    };
    let devices: String = (0..16).map(device).collect();
    let of_file = |path: &std::path::Path| format!("file = \"{}\"", path.display());
    let lists = list("zone", &format!("format = \"rpz\"\n{}", of_file(&file)))
        + &list("ads", &of_file(&ads));
    site.configure(upstream.addr, "", &(lists + &devices));
    let server = site.start();
    assert_eq!(site.ask("bad.example").0, [192, 0, 2, 99]);

    // The running server keeps the earlier text.
    write(4_000);
    let outcome = refresh(&site, &["zone"]);
    let error = outcome["lists"][0]["error"].as_str().unwrap();
    assert!(error.contains("too many different properties"), "{error}");
    assert_eq!(site.ask("bad.example").0, [192, 0, 2, 99]);
    server.stop();

    let server = site.start();
    server.seen_line("these lists are not in force");
    assert_eq!(site.ask("bad.example").0, ADDRESS);
    assert_eq!(site.ask("ads.example").0, BLOCKED);
    let status = || site.avocet_text(&["lists", "status"]);
    wait_until("the reason is shown", || {
        status().contains("not in force: these lists are not in force")
    });
    assert!(site.avocet_text(&["status"]).contains("too many different properties: zone"));
    // Changes of other lists come into force.
    fs::write(&ads, "ads.example\nmore.example\n").unwrap();
    refresh(&site, &["ads"]);
    assert_eq!(site.ask("more.example").0, BLOCKED);

    // Without `--force`, a text that lost most of its entries is not taken.
    write(2);
    refresh(&site, &["zone", "--force"]);
    assert_eq!(site.ask("bad.example").0, [192, 0, 2, 99]);
    assert!(!status().contains("not in force"), "{}", status());
}
