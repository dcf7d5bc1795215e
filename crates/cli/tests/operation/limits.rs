//! What users with limits see of the query log: the queries of their groups and zones.

use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::query_log::wait_for_written;
use crate::server::{PATIENCE, Server, Site, query};
use crate::upstream::Upstream;

/// Each client has an address of this machine, and the children a group.
const GROUPS: &str = "[query-log]\nenabled = true\n[[client]]\nname = \"tablet\"\n\
                      ids = [\"127.0.0.2\"]\ngroups = [\"kids\"]\n[[client]]\nname = \"desk\"\n\
                      ids = [\"127.0.0.3\"]\n[[group]]\nname = \"kids\"\n\
                      [[rule]]\nname = \"no-ads\"\naction = \"block\"\n\
                      when = 'qname.under(\"ads.example\")'\n";
const PASSWORD: &str = "correct horse";

/// A server with three queries of the tablet and two of the desk.
fn site() -> (Site, Upstream, Server) {
    let (site, upstream) = (Site::new(), Upstream::start());
    site.configure(upstream.addr, "", GROUPS);
    let server = site.start();
    for (client, names) in [
        ("127.0.0.2:0", &["game.example", "game.example", "school.example"][..]),
        ("127.0.0.3:0", &["bank.example", "www.few.example"]),
    ] {
        let socket = UdpSocket::bind(client).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        for name in names {
            // Each query has one entry in the log, so none is repeated.
            socket.send_to(&query(7, name), site.dns).unwrap();
            socket.recv(&mut [0; 4096]).unwrap();
        }
    }
    wait_for_written(&site, 5.0);
    (site, upstream, server)
}

/// Adds a user with limits, logs it in, and returns its cookie.
fn log_in(site: &Site, name: &str, limits: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_avocet"));
    command.args(["user", "add", name, "--role", "viewer"]).args(limits);
    command.arg("--config").arg(site.file()).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(format!("{PASSWORD}\n").as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
    let body = json!({"name": name, "password": PASSWORD}).to_string();
    let mut stream = TcpStream::connect(site.http).unwrap();
    let head = "POST /api/v1/session HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\
                Content-Type: application/json\r\nContent-Length:";
    stream.write_all(format!("{head} {}\r\n\r\n{body}", body.len()).as_bytes()).unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    let cookie = reply.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
    cookie.split(';').next().unwrap().to_owned()
}

fn get(site: &Site, path: &str, cookie: &str) -> (u16, Value) {
    let head = format!("GET /api/v1/{path} HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: {cookie}");
    let (status, body) = site.http(&format!("{head}\r\n\r\n"));
    (status, serde_json::from_str(&body).unwrap_or_default())
}

#[test]
fn a_user_with_limits_checks_a_name_without_lists_and_rules() {
    let (site, upstream) = (Site::new(), Upstream::start());
    let (groups, _rule) = GROUPS.split_once("[[rule]]").unwrap();
    site.configure(upstream.addr, "", groups);
    let _server = site.start();
    let kim = log_in(&site, "kim", &["--group", "kids"]);
    let (status, reply) = get(&site, "explain?name=x.example&client=tablet", &kim);
    assert_eq!(status, 200, "{reply}");
    let sections: Vec<_> = reply["sections"].as_array().unwrap().iter().collect();
    let [policy, answer] = sections[..] else { panic!("{reply}") };
    assert_eq!((&policy["section"], &policy["verdict"]), (&json!("policy"), &json!("passes")));
    assert_eq!(policy["client"]["groups"], json!(["kids"]), "{policy}");
    assert_eq!((&answer["section"], &answer["rcode"]), (&json!("answer"), &json!("NOERROR")));
    assert_eq!(get(&site, "explain?name=x.example&client=desk", &kim).0, 403);
}

/// The texts of a ranking.
fn top(statistics: &Value, of: &str) -> Vec<(String, u64)> {
    let tops = statistics["tops"].as_array().unwrap();
    let texts = &tops.iter().find(|one| one["of"] == of).unwrap()["texts"];
    let text =
        |one: &Value| (one["text"].as_str().unwrap().to_owned(), one["queries"].as_u64().unwrap());
    texts.as_array().unwrap().iter().map(text).collect()
}

#[test]
fn users_with_limits_see_and_count_queries_of_their_groups_and_zones() {
    let (site, _upstream, _server) = site();
    let kim = log_in(&site, "kim", &["--group", "kids"]);
    let names = |path: &str, cookie: &str| -> Vec<String> {
        let (status, page) = get(&site, path, cookie);
        assert_eq!(status, 200, "{page}");
        let queries = page["queries"].as_array().unwrap().iter();
        queries.map(|one| one["name"].as_str().unwrap().to_owned()).collect()
    };
    let own = ["school.example.", "game.example.", "game.example."];
    assert_eq!(names("queries", &kim), own);
    assert_eq!(names("queries?client=desk", &kim), [""; 0]);
    assert_eq!(names("queries?group=kids&name=game.example", &kim), own[1..]);
    // The number of examined queries would reveal queries of other users.
    let examined = |path: &str, cookie: &str| get(&site, path, cookie).1["examined"].clone();
    assert_eq!(examined("queries", &kim), 3);
    assert_eq!(examined("queries?name=bank.example", &kim), 0);
    assert_eq!(get(&site, "queries/count", &kim).1["queries"], 3);
    let (status, statistics) = get(&site, "statistics", &kim);
    assert_eq!((status, &statistics["queries"]), (200, &json!(3)), "{statistics}");
    assert_eq!(statistics["rates"]["secs"], 0.0);
    assert_eq!(top(&statistics, "clients"), [("127.0.0.2".to_owned(), 3)]);
    let named = [("game.example.".to_owned(), 2), ("school.example.".to_owned(), 1)];
    assert_eq!(top(&statistics, "names"), named);
    let (status, series) = get(&site, "series?step=60", &kim);
    let steps = series["steps"].as_array().unwrap().iter();
    let counts = steps.map(|one| one["queries"].as_u64().unwrap());
    assert_eq!((status, counts.sum::<u64>()), (200, 3));
    let (status, clients) = get(&site, "queries/clients", &kim);
    assert_eq!((status, clients["clients"].as_array().unwrap().len()), (200, 1), "{clients}");
    assert_eq!(clients["clients"][0]["client-name"], "tablet");

    // For this user, entries of others do not exist, whatever their IDs are.
    let found: Vec<u16> =
        (0..5).map(|id| get(&site, &format!("queries/entry?id={id}"), &kim).0).collect();
    assert_eq!(found.iter().filter(|status| **status == 200).count(), 3, "{found:?}");
    assert_eq!(found.iter().filter(|status| **status == 404).count(), 2, "{found:?}");
    let explained =
        |client: &str| get(&site, &format!("explain?name=x.example&client={client}"), &kim).0;
    assert_eq!((explained("tablet"), explained("127.0.0.3")), (200, 403));
    // The desk has queried this name, so that the cache has it.
    let sections = |cookie: &str| -> Vec<String> {
        let (status, reply) = get(&site, "explain?name=bank.example&client=tablet", cookie);
        assert_eq!(status, 200, "{reply}");
        let sections = reply["sections"].as_array().unwrap().iter();
        sections.map(|one| one["section"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(sections(&kim), ["policy", "answer"]);

    let zoe = log_in(&site, "zoe", &["--zone", "few.example"]);
    assert_eq!(names("queries", &zoe), ["www.few.example."]);
    assert_eq!(get(&site, "statistics", &zoe).1["queries"], 1);
    let both = log_in(&site, "bo", &["--group", "kids", "--zone", "few.example"]);
    assert_eq!(get(&site, "statistics", &both).1["queries"], 4);
    let all = log_in(&site, "al", &[]);
    assert_eq!(examined("queries?name=bank.example", &all), 5);
    assert_eq!(sections(&all).len(), 3, "the cache or a trace too");
    assert_eq!(get(&site, "statistics", &all).1["queries"], 5);
}
