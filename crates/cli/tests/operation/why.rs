//! `avocet why` and `avocet query +trace` with a running server.

use std::net::SocketAddr;
use std::thread;

use serde_json::Value;

use crate::server::{Site, free_address, query, udp_client};
use crate::upstream::Upstream;

#[test]
fn a_trace_shows_the_upstream_and_the_answer() {
    let (site, upstream) = (Site::new(), Upstream::start());
    site.configure(upstream.addr, "", "");
    let _server = site.start();
    site.ask("www.example");
    assert_eq!(upstream.asked(), ["www.example."]);
    let text = site.avocet_text(&["query", "www.example", "A", "+trace"]);
    assert_eq!(upstream.asked(), ["www.example."], "it is asked anew");
    let asked = format!("ask {}, as a forwarder", upstream.addr);
    for part in [
        "www.example. A, ",
        " 1 query\n",
        &asked,
        "NOERROR",
        "\nwww.example. 300 IN A 192.0.2.77\n",
    ] {
        assert!(text.contains(part), "{part:?} in:\n{text}");
    }
    let json: Vec<Value> = site
        .avocet_text(&["query", "www.example", "A", "+trace", "--json"])
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(json[0]["steps"][0]["step"], "ask");
    assert_eq!(json[0]["steps"][0]["server"], upstream.addr.to_string());
    assert_eq!(json[0]["answer"][0]["data"], "192.0.2.77");
    assert_eq!(json[1]["done"], true);
}

#[test]
fn why_shows_cached_data_or_else_resolves() {
    let (site, upstream) = (Site::new(), Upstream::start());
    site.configure(upstream.addr, "", "");
    let _server = site.start();
    let text = site.avocet_text(&["why", "www.example"]);
    assert!(text.contains("as a forwarder") && text.contains("192.0.2.77"), "{text}");
    assert_eq!(upstream.asked().len(), 1);
    let text = site.avocet_text(&["why", "WWW.example"]);
    assert!(text.starts_with("In the cache, of www.example.:\n  www.example. "), "{text}");
    assert!(text.contains(" IN A 192.0.2.77  ; non authoritative answer, unchecked\n"), "{text}");
    let answer = "The answer to www.example. A for 127.0.0.1: NOERROR; from the cache, for ";
    let (_, rest) = text.split_once(answer).unwrap_or_else(|| panic!("{text}"));
    let (left, record) = rest.split_once(" s more\nwww.example. ").unwrap();
    assert_eq!(record, format!("{left} IN A 192.0.2.77\n"));
    assert_eq!(upstream.asked().len(), 0, "nobody is asked");
}

/// Local records, and the answers of `why` for names that this server answers by itself.
const OWN: &str = "[[record]]\nname = \"nas.lan\"\ntype = \"A\"\nvalues = [\"192.168.1.5\"]\n\
                   [[record]]\nname = \"*.dev.lan\"\ntype = \"A\"\nvalues = [\"192.168.1.6\"]\n\
                   [[record]]\nname = \"home.lan\"\ntype = \"CNAME\"\nvalues = [\"nas.lan\"]\n\
                   [[record]]\nname = \"odd.lan\"\ntype = \"CNAME\"\nvalues = [\"x.test\"]\n";

#[test]
fn no_command_sends_names_that_end_here_to_an_upstream() {
    let (site, upstream) = (Site::new(), Upstream::start());
    site.configure(upstream.addr, "local-zones = [\"lan\"]", OWN);
    let _server = site.start();
    for (name, rtype, rcode, data) in [
        ("unknown.lan", "A", "NXDOMAIN", ""),
        ("dev.lan", "A", "NOERROR", ""),
        ("lan", "AAAA", "NOERROR", ""),
        ("nas.lan", "A", "NOERROR", "192.168.1.5"),
        ("NAS.lan", "AAAA", "NOERROR", ""),
        ("a.b.dev.lan", "A", "NOERROR", "192.168.1.6"),
        ("home.lan", "A", "NOERROR", "192.168.1.5"),
        ("odd.lan", "A", "NXDOMAIN", ""),
        ("localhost", "A", "NOERROR", "127.0.0.1"),
        ("x.test", "A", "NXDOMAIN", ""),
        ("x.invalid", "AAAA", "NXDOMAIN", ""),
        ("facebook.onion", "A", "NXDOMAIN", ""),
        ("_dns.resolver.arpa", "SVCB", "NOERROR", ""),
        ("9.9.168.192.in-addr.arpa", "PTR", "NXDOMAIN", ""),
        ("5.1.168.192.in-addr.arpa", "PTR", "NOERROR", "nas.lan."),
        ("example", "AXFR", "REFUSED", ""),
    ] {
        let why: &[&str] = &["why", name, "--type", rtype, "--json"];
        let trace: &[&str] = &["query", name, rtype, "+trace", "--json"];
        for command in [why, trace].into_iter().take(if rtype == "AXFR" { 1 } else { 2 }) {
            let text = site.avocet_text(command);
            let lines: Vec<Value> =
                text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            let answer = lines
                .iter()
                .find(|line| line["section"] == "answer")
                .unwrap_or_else(|| panic!("{text}"));
            assert_eq!(answer["rcode"], rcode, "{command:?}: {text}");
            let mut records = answer["answer"].as_array().unwrap().iter();
            let last = records.rfind(|record| record["section"] == "answer");
            let given = last.map_or("", |record| record["data"].as_str().unwrap());
            assert!(given == data || name == "odd.lan", "{command:?}: {text}");
        }
    }
    assert_eq!(upstream.asked(), [""; 0], "nobody is asked");
    let dump = site.avocet_text(&["cache", "dump"]);
    assert!(!dump.contains("192.0.2.77"), "nothing false is kept: {dump}");
}

#[test]
fn why_takes_a_client_by_name_and_a_time_of_day_and_shows_the_line_that_decides() {
    let (site, upstream) = (Site::new(), Upstream::start());
    let list = site.directory.join("ads.txt");
    std::fs::write(&list, "# ads\n||www.example^\n").unwrap();
    let rest = format!(
        "[policy]\ntime-zone = \"Europe/Berlin\"\n[[list]]\nname = \"ads\"\nfile = \"{}\"\n\
         [[group]]\nname = \"kids\"\nclients = [\"127.0.0.0/24\"]\nlists = []\n\
         [[client]]\nname = \"tablet\"\nids = [\"127.0.0.9\"]\n\
         [[rule]]\nname = \"night\"\nwhen = 'client.group(\"kids\") && now.between(\"21:00\", \
         \"06:00\")'\naction = \"block\"\n",
        list.display()
    );
    site.configure(upstream.addr, "", &rest);
    let _server = site.start();
    let text =
        site.avocet_text(&["why", "www.example", "--client", "tablet", "--at", "2026-07-01 12:00"]);
    for part in [
        "blocked by list ads, for 127.0.0.9 (tablet, groups: default)",
        "\n  list ads, line 2: block, decides  ; ||www.example^\n",
        "group kids names only its network",
        "The answer to www.example. A for 127.0.0.9: NOERROR, extended error 17 (list ads); from \
         the policy",
    ] {
        assert!(text.contains(part), "{part:?} in:\n{text}");
    }
    let at =
        |time| site.avocet_text(&["why", "www.example", "--client", "127.0.0.3", "--at", time]);
    let text = at("2026-07-01 22:30");
    assert!(
        text.contains("blocked by rule night, for 127.0.0.3 (127.0.0.0/24, groups: kids)"),
        "{text}"
    );
    assert!(text.contains("\n  until 2026-07-02 06:00:00 +02:00 (Europe/Berlin)\n"), "{text}");
    assert!(at("1782900000").contains("The policy: passes, for 127.0.0.3"), "12:00 in Berlin");
    let unknown = site.avocet(&["why", "www.example", "--client", "fridge"]);
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("no client has the name \"fridge\""));
}

#[test]
fn why_says_which_lines_would_decide_without_a_rule_or_a_pause() {
    let (site, upstream) = (Site::new(), Upstream::start());
    let list = site.directory.join("ads.txt");
    std::fs::write(&list, "||example^\n").unwrap();
    let rest = format!(
        "[[list]]\nname = \"ads\"\nfile = \"{}\"\n\
         [[rule]]\nname = \"work\"\nwhen = 'qname == \"www.example\"'\naction = \"allow\"\n",
        list.display()
    );
    site.configure(upstream.addr, "", &rest);
    let _server = site.start();
    let text = site.avocet_text(&["why", "www.example"]);
    assert!(
        text.contains("list ads, line 1: block, would decide, but rule work goes first"),
        "{text}"
    );
    site.avocet_text(&["pause"]);
    let text = site.avocet_text(&["why", "other.example"]);
    assert!(
        text.contains("list ads, line 1: block, would decide, but filtering is lifted"),
        "{text}"
    );
}

#[test]
fn commands_take_addresses_and_names_in_any_alphabet() {
    let (site, upstream) = (Site::new(), Upstream::start());
    site.configure(upstream.addr, "", "");
    let _server = site.start();
    let server = format!("@{}", site.dns);
    site.avocet_text(&["query", &server, "-x", "8.8.4.4"]);
    assert!(upstream.asked().contains(&"4.4.8.8.in-addr.arpa.".to_owned()));
    site.avocet_text(&["query", &server, "-x", "2001:4860::8"]);
    let reverse = format!("8.{}0.6.8.4.1.0.0.2.ip6.arpa.", "0.".repeat(23));
    assert!(upstream.asked().contains(&reverse));
    let queries = [&["query", &server, "b\u{fc}cher.example"][..], &["why", "B\u{dc}CHER.example"]];
    for arguments in queries {
        let text = site.avocet_text(arguments);
        assert!(text.contains("xn--bcher-kva.example."), "{text}");
    }
    assert!(upstream.asked().contains(&"xn--bcher-kva.example.".to_owned()));
}

#[test]
fn why_shows_the_steps_of_a_failure() {
    let site = Site::new();
    let refusing = crate::server::udp_socket();
    let addr = refusing.local_addr().unwrap();
    thread::spawn(move || {
        let mut buffer = [0; 512];
        while let Ok((len, from)) = refusing.recv_from(&mut buffer) {
            // QR, and REFUSED.
            (buffer[2], buffer[3]) = (0x81, 0x85);
            refusing.send_to(&buffer[..len], from).unwrap();
        }
    });
    site.configure(addr, "", "");
    let _server = site.start();
    let client = udp_client();
    client.send_to(&query(9, "www.example"), site.dns).unwrap();
    let mut reply = [0; 512];
    let len = client.recv(&mut reply).unwrap();
    assert_eq!((len > 12, reply[3] & 15), (true, 2), "SERVFAIL");
    let text = site.avocet_text(&["why", "www.example", "--type", "A"]);
    for part in [
        "It failed ",
        &format!("{addr} after "),
        "REFUSED",
        "failed: the upstreams refused the query",
    ] {
        assert!(text.contains(part), "{part:?} in:\n{text}");
    }
    assert!(text.contains("The failure is cached"), "{text}");
    let json = site.avocet_text(&["why", "www.example", "--json"]);
    let first: Value = serde_json::from_str(json.lines().next().unwrap()).unwrap();
    // The second query is in lower case: the first may have been refused for its letters.
    assert_eq!((&first["section"], &first["queries"]), (&Value::from("failed"), &Value::from(2)));
}

#[test]
fn without_a_server_it_is_said_what_is_missing() {
    let site = Site::new();
    site.configure(free_address(), "", "");
    for arguments in [&["why", "www.example"][..], &["query", "www.example", "+trace"]] {
        let client = site.avocet(arguments);
        assert_eq!(client.status.code(), Some(1));
        let told = String::from_utf8_lossy(&client.stderr).into_owned();
        assert!(told.contains("no avocet is running with data directory"), "{told}");
    }
    let client = site.avocet(&["query", "@127.0.0.1", "www.example", "+trace"]);
    assert!(String::from_utf8_lossy(&client.stderr).contains("remove @SERVER"));
}

#[test]
fn why_shows_triggers_on_the_answer() {
    let (site, upstream) = (Site::new(), Upstream::start());
    let zone = site.directory.join("threats.zone");
    let text = "$ORIGIN rpz.example.\n$TTL 30\n@ SOA a. b. 1 2 3 4 5\n24.0.2.0.192.rpz-ip CNAME \
                .\nfine.example CNAME rpz-passthru.\n";
    std::fs::write(&zone, text).unwrap();
    let list =
        format!("[[list]]\nname = \"threats\"\nformat = \"rpz\"\nfile = \"{}\"\n", zone.display());
    site.configure(upstream.addr, "", &list);
    let _server = site.start();
    // First with the answer of its own resolution, then from the cache.
    for _ in 0..2 {
        let text = site.avocet_text(&["why", "www.example"]);
        let verdict = "The policy: blocked by list threats, ip of zone rpz.example., for \
                       127.0.0.1 (groups: default)\n  \
                       list threats, line 4: nxdomain by ip, decides  ; 24.0.2.0.192.rpz-ip CNAME \
                       .\n";
        assert!(text.starts_with(verdict), "{text}");
    }
    let text = site.avocet_text(&["why", "fine.example"]);
    assert!(
        text.starts_with("The policy: passes, ")
            && text.contains("line 5: passthru by qname, decides"),
        "{text}"
    );
}

#[test]
fn why_shows_the_trigger_if_the_answer_is_cached_for_validating_clients_only() {
    let (site, upstream) = (Site::new(), Upstream::start());
    let zone = site.directory.join("threats.zone");
    std::fs::write(
        &zone,
        "$ORIGIN rpz.example.\n$TTL 30\n@ SOA a. b. 1 2 3 4 5\n24.0.2.0.192.rpz-ip CNAME .\n",
    )
    .unwrap();
    let list =
        format!("[[list]]\nname = \"threats\"\nformat = \"rpz\"\nfile = \"{}\"\n", zone.display());
    site.configure(upstream.addr, "", &list);
    let _server = site.start();
    site.ask_any("www.example");
    let mut query = query(9, "www.example");
    // CD, and OPT with DO.
    (query[3], query[11]) = (0x10, 1);
    query.extend([0, 0, 41, 4, 208, 0, 0, 0x80, 0, 0, 0]);
    let (socket, mut reply) = (udp_client(), [0; 512]);
    socket.send_to(&query, site.dns).unwrap();
    socket.recv(&mut reply).unwrap();
    let text = site.avocet_text(&["why", "www.example"]);
    assert!(text.contains("list threats, line 4: nxdomain by ip, decides"), "{text}");
}

/// Answers each query with an alias to `ads.example` and its address, which expire in a second.
fn cloaking_upstream() -> SocketAddr {
    let socket = crate::server::udp_socket();
    let addr = socket.local_addr().unwrap();
    thread::spawn(move || {
        let mut buffer = [0; 512];
        while let Ok((len, from)) = socket.recv_from(&mut buffer) {
            let end = 12 + buffer[12..len].iter().position(|octet| *octet == 0).unwrap() + 5;
            let mut reply = buffer[..end].to_vec();
            reply[2..12].copy_from_slice(&[0x81, 0x80, 0, 1, 0, 2, 0, 0, 0, 0]);
            let target = b"\x03ads\x07example\x00";
            reply.extend(b"\xc0\x0c\x00\x05\x00\x01\x00\x00\x00\x01\x00\x0d");
            reply.extend(target);
            reply.extend(target);
            reply.extend(b"\x00\x01\x00\x01\x00\x00\x00\x01\x00\x04\xc0\x00\x02\x4d");
            socket.send_to(&reply, from).unwrap();
        }
    });
    addr
}

#[test]
fn a_cloaked_name_is_blocked_also_after_its_records_have_expired() {
    let (site, upstream) = (Site::new(), cloaking_upstream());
    let list = site.directory.join("ads.txt");
    std::fs::write(&list, "ads.example\n").unwrap();
    let table = format!("[[list]]\nname = \"ads\"\nfile = \"{}\"\n", list.display());
    site.configure(upstream, "", &table);
    let _server = site.start();
    assert_eq!(site.ask("cloak.example").0, [0, 0, 0, 0]);
    let mut is_expired = false;
    while !is_expired {
        let text = site.avocet_text(&["why", "cloak.example"]);
        assert!(text.contains("blocked by list ads"), "{text}");
        let line = "list ads, line 1: block the alias ads.example., decides";
        assert!(text.contains(line), "{text}");
        is_expired = text.contains("; expired ");
    }
}
