//! The block page, as a browser gets it.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::server::{PATIENCE, Server, Site, free_address};
use crate::upstream::{ADDRESS, Upstream};

const POLICY: &str = r#"
[policy]
block-answer = "addresses"
block-page = ["PAGE"]
time-zone = "Europe/Berlin"

[[list]]
name = "<ads> & more"
file = "ADS"

[[list]]
name = "threats"
format = "rpz"
file = "RPZ"

[[rule]]
name = "games"
when = 'qname.under("game.example")'
action = "block"

[[group]]
name = "free"
clients = []
lists = []
"#;

struct Pages {
    site: Site,
    page: SocketAddr,
    upstream: Upstream,
}

impl Pages {
    fn new(server: &str) -> Self {
        let (site, page, upstream) = (Site::new(), free_address(), Upstream::start());
        let ads = site.directory.join("ads.txt");
        std::fs::write(&ads, "ads.example\n").unwrap();
        let rpz = site.directory.join("rpz.zone");
        // The address to which every name resolves here.
        let text = "$ORIGIN rpz.example.\n$TTL 30\n@ SOA a. b. 1 2 3 4 5\n32.77.2.0.192.rpz-ip CNAME .\nfine CNAME rpz-passthru.\n";
        std::fs::write(&rpz, text).unwrap();
        let policy =
            POLICY.replace("PAGE", &page.to_string()).replace("ADS", &ads.display().to_string());
        site.configure(upstream.addr, server, &policy.replace("RPZ", &rpz.display().to_string()));
        Self { site, page, upstream }
    }

    fn start(&self) -> Server {
        self.site.start()
    }

    /// Head and body of the response; `None` if the connection is rejected.
    fn send(&self, request: &str) -> Option<(String, String)> {
        let mut stream = TcpStream::connect(self.page).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut octets = Vec::new();
        let sent =
            stream.write_all(request.as_bytes()).and_then(|()| stream.read_to_end(&mut octets));
        let text = String::from_utf8(octets).unwrap();
        match sent {
            Ok(_) => {
                text.split_once("\r\n\r\n").map(|(head, body)| (head.to_owned(), body.to_owned()))
            }
            Err(error)
                if error.kind() == ErrorKind::ConnectionReset
                    || error.kind() == ErrorKind::BrokenPipe =>
            {
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// Status and body for a host.
    fn get(&self, host: &str) -> (u16, String) {
        let request = format!("GET /a/b?x=%3Cscript%3E HTTP/1.1\r\nHost: {host}\r\n\r\n");
        let (head, body) = self.send(&request).unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body)
    }
}

#[test]
fn who_is_led_to_the_page_reads_which_name_is_blocked_and_why() {
    let pages = Pages::new("");
    let _server = pages.start();
    assert_eq!(pages.site.ask("ads.example").0, [127, 0, 0, 1]);
    let (head, body) = pages.send("GET / HTTP/1.1\r\nHost: Ads.Example\r\n\r\n").unwrap();
    assert!(
        head.starts_with("HTTP/1.1 403 ")
            && head.contains("content-security-policy: default-src 'none'"),
        "{head}"
    );
    for part in [
        "<h1>ads.example is blocked</h1>",
        "<dd lang=\"en\">list &lt;ads&gt; &amp; more</dd>",
        " (Europe/Berlin)</dd>",
    ] {
        assert!(body.contains(part), "{part} in {body}");
    }
    let (status, body) = pages.get("a.game.example:80");
    assert!(status == 403 && body.contains(">rule games</dd>"), "{body}");

    // The page shows a decision on the answer only if the answer is cached, because the page sends
    // no query.
    pages.upstream.asked();
    assert_eq!(pages.get("cloaked.example").0, 404);
    assert_eq!(pages.upstream.asked().len(), 0);
    pages.site.ask_any("cloaked.example");
    let (status, body) = pages.get("cloaked.example");
    assert!(
        status == 403 && body.contains(">list threats, ip of zone rpz.example.</dd>"),
        "{body}"
    );
    assert_eq!(pages.site.metric("avocet_block_page_requests_total{outcome=\"blocked\"}"), 3.0);
    assert_eq!(pages.site.metric("avocet_block_page_requests_total{outcome=\"not-blocked\"}"), 1.0);
}

#[test]
fn the_page_speaks_the_language_of_the_browser_and_applies_only_its_own_style() {
    let pages = Pages::new("");
    let _server = pages.start();
    let request = |language: &str| {
        let headers = format!("Host: ads.example\r\nAccept-Language: {language}");
        pages.send(&format!("GET / HTTP/1.1\r\n{headers}\r\n\r\n")).unwrap()
    };
    let (head, body) = request("de-DE,de;q=0.9,en;q=0.5");
    for part in ["<html lang=\"de\">", "ads.example ist gesperrt", "Zugang erbitten"] {
        assert!(body.contains(part), "{part} in {body}");
    }
    assert!(head.contains("style-src 'sha256-") && !head.contains("unsafe"), "{head}");
    assert!(head.contains("vary: Accept-Language"), "{head}");
    assert!(request("fr").1.contains("<html lang=\"en\">"));
    let asked = form("ads.example", "Accept-Language: de\r\n", "text=bitte");
    assert!(pages.send(&asked).unwrap().1.contains("Ihre Bitte wurde"));
    assert!(request("de").1.contains("Sie haben um Zugang gebeten."));
}

#[test]
fn the_page_goes_by_what_holds_for_the_client_now() {
    let pages = Pages::new("");
    let _server = pages.start();
    assert_eq!(pages.get("ads.example").0, 403);
    pages.site.avocet_text(&["grant", "ads.example", "--for", "5m"]);
    let (status, body) = pages.get("ads.example");
    assert!(status == 404 && body.contains("ads.example is not blocked"), "{body}");
    pages.site.avocet_text(&["grant", "ads.example", "--end"]);
    assert_eq!(pages.get("ads.example").0, 403);
    let text = std::fs::read_to_string(pages.site.file()).unwrap();
    pages.site.write(&text.replace("clients = []", "clients = [\"127.0.0.1\"]"));
    pages.site.avocet_text(&["reload"]);
    assert_eq!(pages.get("ads.example").0, 404, "the client has no lists");
    assert_eq!(pages.get("game.example").0, 403, "rules hold for all");
    assert_eq!(pages.site.ask("ads.example").0, ADDRESS);
}

/// A form for a host, with further headers.
fn form(host: &str, headers: &str, body: &str) -> String {
    format!(
        "POST /.avocet/request-access HTTP/1.1\r\nHost: {host}\r\nContent-Type: \
         application/x-www-form-urlencoded\r\n{headers}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

#[test]
fn a_client_asks_for_access_and_the_operator_answers() {
    let pages = Pages::new("");
    let _server = pages.start();
    let send = |request: String| {
        let (head, body) = pages.send(&request).unwrap();
        (head.split(' ').nth(1).unwrap().parse::<u16>().unwrap(), body)
    };
    let (head, body) = pages.send("GET / HTTP/1.1\r\nHost: ads.example\r\n\r\n").unwrap();
    assert!(head.contains("form-action 'self'") && !head.contains("script-src"), "{head}");
    assert!(body.contains("<form method=\"post\" action=\"/.avocet/request-access\">"), "{body}");
    assert!(!body.contains("<script"), "{body}");

    // Another site, another form, a name that is not blocked: no request.
    let list = || pages.site.avocet_text(&["requests", "list"]);
    assert_eq!(send(form("ads.example", "Origin: http://evil.example\r\n", "text=a")).0, 403);
    assert_eq!(send(form("ads.example", "", &"text=".repeat(1000))).0, 413);
    assert_eq!(send(form("fine.example", "", "text=a")).0, 404);
    assert_eq!(list().trim(), "no requests wait");

    let origin = "Origin: http://ads.example\r\n";
    let text = "text=%3Cb%3E+please%1B%5B2J&x=1";
    let (status, body) = send(form("ads.example", origin, text));
    assert!(status == 200 && body.contains("was sent"), "{body}");
    let (status, body) = send(form("ads.example", origin, text));
    assert!(status == 200 && body.contains("already"), "{body}");
    assert!(pages.get("ads.example").1.contains("You have asked"), "instead of the form");
    assert_eq!(send(form("a.game.example", "", "")).0, 200);
    let shown = list();
    assert!(shown.contains("1 ads.example. for 127.0.0.1"), "{shown}");
    assert!(shown.contains("\"<b> please[2J\"") && !shown.contains('\u{1b}'), "{shown}");
    assert_eq!(pages.site.metric("avocet_access_requests_waiting"), 2.0);
    assert_eq!(pages.site.metric("avocet_access_requests_total{result=\"known\"}"), 1.0);

    let wrong = pages.site.avocet(&["requests", "grant", "1", "--for", "16"]);
    assert!(String::from_utf8(wrong.stderr).unwrap().contains("15, 45, 120"));
    let granted = pages.site.avocet_text(&["requests", "grant", "1", "--for", "45"]);
    assert!(granted.contains("ads.example is allowed for address 127.0.0.1"), "{granted}");
    assert_eq!(pages.get("ads.example").0, 404);
    let refused = pages.site.avocet_text(&["requests", "refuse", "2"]);
    assert!(refused.contains("a.game.example."), "{refused}");
    assert_eq!(list().trim(), "no requests wait");
    assert_eq!(pages.get("a.game.example").0, 403);
    assert!(!pages.site.avocet(&["requests", "refuse", "2"]).status.success());
    let audit = std::fs::read_to_string(pages.site.data().join("audit.jsonl")).unwrap();
    for what in ["ask for access", "request-grant", "request-refuse"] {
        assert!(audit.contains(&format!("\"what\":\"{what}\"")), "{audit}");
    }
}

#[test]
fn a_grant_is_for_the_device_that_asked_whatever_address_it_has_now() {
    let pages = Pages::new("");
    let text = std::fs::read_to_string(pages.site.file()).unwrap();
    let with_clients = |tablet: &str, console: &str| {
        let client =
            |name: &str, id: &str| format!("[[client]]\nname = \"{name}\"\nids = [\"{id}\"]\n");
        pages.site.write(&format!(
            "{text}\n{}{}",
            client("tablet", tablet),
            client("console", console)
        ));
    };
    with_clients("127.0.0.1", "127.0.0.2");
    let _server = pages.start();
    let asked = pages.send(&form("ads.example", "", "text=")).unwrap().1;
    assert!(asked.contains("was sent"), "{asked}");

    // The addresses change hands between request and answer.
    with_clients("127.0.0.2", "127.0.0.1");
    pages.site.avocet_text(&["reload"]);
    let list = pages.site.avocet_text(&["requests", "list"]);
    assert!(list.contains("for tablet (127.0.0.1)"), "{list}");
    let asked = pages.send(&form("ads.example", "", "text=")).unwrap().1;
    assert!(asked.contains("was sent"), "the console has not asked before: {asked}");
    let granted = pages.site.avocet_text(&["requests", "grant", "1", "--for", "15"]);
    assert!(granted.contains("ads.example is allowed for client tablet"), "{granted}");
    assert_eq!(pages.get("ads.example").0, 403, "of the console");
    with_clients("127.0.0.1", "127.0.0.2");
    pages.site.avocet_text(&["reload"]);
    assert_eq!(pages.get("ads.example").0, 404, "of the tablet");
}

#[test]
fn what_strangers_send_is_read_as_a_name_or_not_at_all() {
    let pages = Pages::new("");
    let _server = pages.start();
    for host in
        ["", "127.0.0.1", "[::1]:80", "<script>alert(1)</script>", "a..b", "\u{1b}[2J", "..", "x y"]
    {
        let (status, body) = pages.get(host);
        assert!(status == 400 && !body.contains("script"), "{host:?}: {status} {body}");
    }
    assert_eq!(pages.get(&format!("{}example", "a.".repeat(200))).0, 400);
    assert_eq!(pages.get(&"a".repeat(7_000)).0, 400);
    let (head, _) = pages.send("GET / HTTP/1.0\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.0 400 "), "{head}");
    let (head, _) = pages
        .send("POST / HTTP/1.1\r\nHost: ads.example\r\nContent-Length: 99999999999\r\n\r\n")
        .unwrap();
    assert!(head.starts_with("HTTP/1.1 405 "), "{head}");
    let (head, _) = pages.send(&format!("GET / HTTP/1.1\r\nX: {}", "x".repeat(8 << 10))).unwrap();
    assert!(head.starts_with("HTTP/1.1 431 "), "{head}");
    let (head, body) = pages.send("GET /metrics HTTP/1.1\r\nHost: ads.example\r\n\r\n").unwrap();
    assert!(
        head.starts_with("HTTP/1.1 403 ") && !body.contains("avocet_"),
        "nothing else is served here: {body}"
    );
}

#[test]
fn a_client_that_may_not_query_the_server_gets_no_page() {
    let pages = Pages::new("allow = [\"10.0.0.0/8\"]");
    let _server = pages.start();
    assert_eq!(pages.send("GET / HTTP/1.1\r\nHost: ads.example\r\n\r\n"), None);
    assert_eq!(pages.site.metric("avocet_block_page_requests_total{outcome=\"refused\"}"), 1.0);
}

#[test]
fn one_client_cannot_exhaust_the_connections_of_the_page() {
    let pages = Pages::new("");
    let _server = pages.start();
    let idle: Vec<TcpStream> = (0..8).map(|_| TcpStream::connect(pages.page).unwrap()).collect();
    assert_eq!(pages.send("GET / HTTP/1.1\r\nHost: ads.example\r\n\r\n"), None);
    drop(idle);
    while pages.send("GET / HTTP/1.1\r\nHost: ads.example\r\n\r\n").is_none() {
        std::thread::yield_now();
    }
}

#[test]
fn a_page_is_handed_over_and_a_new_address_needs_a_restart() {
    let pages = Pages::new("");
    let mut server = pages.start();
    let text = std::fs::read_to_string(pages.site.file()).unwrap();
    pages.site.write(&text.replace(&pages.page.to_string(), &free_address().to_string()));
    let told = pages.site.avocet_text(&["reload"]);
    assert!(told.contains("policy.block-page"), "{told}");
    assert_eq!(pages.get("ads.example").0, 403);
    pages.site.write(&text);
    let mut command = pages.site.serve();
    command.arg("--take-over");
    let _successor = Server::start(command);
    server.wait_for_line("ended");
    assert_eq!(pages.get("ads.example").0, 403);
}
