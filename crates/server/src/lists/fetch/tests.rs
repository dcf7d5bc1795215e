//! Fetches from a scripted HTTP server.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use super::*;

/// A reaction of the server to a request, with the head and the stream as arguments.
type Act = fn(&str, &mut TcpStream);

/// Starts a server that reacts in this way to each request until the process ends, and returns its
/// address.
fn serve(act: Act) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let head: Vec<String> =
                lines.by_ref().map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
            act(&head.join("\n").to_lowercase(), &mut stream);
        }
    });
    addr
}

fn say(stream: &mut TcpStream, text: impl AsRef<[u8]>) {
    // The client may have closed the connection.
    let _ = stream.write_all(text.as_ref());
}

fn whole(stream: &mut TcpStream, text: impl AsRef<[u8]>) {
    let text = text.as_ref();
    say(
        stream,
        format!("HTTP/1.1 200 OK\r\nETag: \"one\"\r\nContent-Length: {}\r\n\r\n", text.len()),
    );
    say(stream, text);
}

/// Returns a fetcher that resolves no names.
fn fetcher() -> Fetcher {
    let bounds =
        Bounds { time: Duration::from_secs(20), connect: Duration::from_secs(5), octets: 1 << 20 };
    Fetcher::new(nowhere(), bounds)
}

fn nowhere() -> Lookup {
    Box::new(|host| Err(LookupError::NoAddress(host.to_owned())))
}

fn fetch(act: Act) -> Result<Fetched, FetchError> {
    fetcher().fetch(&format!("http://{}/list", serve(act)), None)
}

fn text(fetched: Result<Fetched, FetchError>) -> Vec<u8> {
    match fetched {
        Ok(Fetched::Text { text, .. }) => text,
        other => panic!("no text: {other:?}"),
    }
}

#[test]
fn a_text_comes_whole_however_it_is_sent() {
    assert_eq!(text(fetch(|_, stream| whole(stream, "ads.example\n"))), b"ads.example\n");
    let chunked: Act = |_, stream| {
        say(
            stream,
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nads.\r\n8\r\nexample\n\r\n0\r\n\r\n",
        );
    };
    assert_eq!(text(fetch(chunked)), b"ads.example\n");
    // The gzip form of `ads.example\n`.
    let gzip: Act = |_, stream| {
        let octets = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\x4b\x4c\x29\xd6\x4b\xad\
            \x48\xcc\x2d\xc8\x49\xe5\x02\x00\xac\xdf\x49\x48\x0c\x00\x00\x00";
        say(
            stream,
            format!(
                "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n",
                octets.len()
            ),
        );
        say(stream, octets);
    };
    assert_eq!(text(fetch(gzip)), b"ads.example\n");
    assert_eq!(
        text(fetch(|_, stream| whole(stream, b"\xff\xfe\x00ads"))),
        b"\xff\xfe\x00ads",
        "octets as they come"
    );
}

#[test]
fn a_source_is_asked_whether_it_has_another_text() {
    let addr = serve(|head, stream| match head.contains("if-none-match: \"one\"") {
        true => say(stream, "HTTP/1.1 304 Not Modified\r\n\r\n"),
        false => whole(stream, "ads.example\n"),
    });
    let url = format!("http://{addr}/list");
    let first = fetcher().fetch(&url, None).unwrap();
    let Fetched::Text { etag, .. } = first else { panic!("{first:?}") };
    let known = Head { source: url.clone(), etag, ..Head::default() };
    assert_eq!(fetcher().fetch(&url, Some(&known)), Ok(Fetched::Unchanged));
    let elsewhere = Head { source: "http://elsewhere.example/".to_owned(), ..known };
    assert_eq!(
        text(fetcher().fetch(&url, Some(&elsewhere))),
        b"ads.example\n",
        "the copy is of another source"
    );
}

#[test]
fn what_is_not_a_whole_text_is_an_error() {
    let cases: [(Act, FetchError); 7] = [
        (
            |_, stream| say(stream, "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno"),
            FetchError::Status(404),
        ),
        (|_, stream| say(stream, "HTTP/1.1 304 Not Modified\r\n\r\n"), FetchError::Status(304)),
        (
            |_, stream| say(stream, "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nads.example\n"),
            FetchError::Truncated,
        ),
        (
            |_, stream| {
                say(
                    stream,
                    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8\r\nexample\n\r\n",
                )
            },
            FetchError::Truncated,
        ),
        (
            |_, stream| say(stream, "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n"),
            FetchError::TooLarge(1 << 20),
        ),
        (
            |_, stream| {
                say(stream, "HTTP/1.1 200 OK\r\n\r\n");
                while stream.write_all(&[b'a'; 4096]).is_ok() {}
            },
            FetchError::TooLarge(1 << 20),
        ),
        (
            |_, stream| {
                say(stream, "HTTP/1.1 302 Found\r\nLocation: /again\r\nContent-Length: 0\r\n\r\n")
            },
            FetchError::Redirects,
        ),
    ];
    for (number, (act, expected)) in cases.into_iter().enumerate() {
        assert_eq!(fetch(act), Err(expected), "case {number}");
    }
}

#[test]
fn a_text_that_unfolds_beyond_the_bound_is_not_taken() {
    // 16 KiB that decompress to 2.5 MB.
    let bomb: Act = |_, stream| {
        let mut octets = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03".to_vec();
        octets.extend(deflate_repeats(10_000));
        say(
            stream,
            format!(
                "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n",
                octets.len()
            ),
        );
        say(stream, octets);
    };
    assert_eq!(fetch(bomb), Err(FetchError::TooLarge(1 << 20)));
}

#[test]
fn a_compressed_text_that_never_yields_an_octet_ends_at_the_bound() {
    let endless: Act = |_, stream| {
        // The gzip form of an empty text.
        let empty = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\x03\x00\0\0\0\0\0\0\0\0";
        say(stream, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nConnection: close\r\n\r\n");
        say(stream, empty.repeat(100_000));
    };
    assert_eq!(fetch(endless), Err(FetchError::TooLarge(1 << 20)));
}

/// Returns one block with fixed codes (RFC 1951 §3.2.6): the letter `a`, then this many repetitions
/// of 258 octets.
fn deflate_repeats(times: usize) -> Vec<u8> {
    let (mut out, mut held, mut filled) = (Vec::new(), 0u32, 0);
    let mut put = |value: u32, len: u32| {
        held |= value << filled;
        filled += len;
        while filled >= 8 {
            out.push(held as u8);
            held >>= 8;
            filled -= 8;
        }
    };
    put(0b011, 3);
    // 0x61 has the code 0x30 + 0x61 of eight bits, the first bit first.
    put((0x91u32).reverse_bits() >> 24, 8);
    for _ in 0..times {
        // 285 has the code 0xc5 of eight bits; distance 1 has the code 0 of five.
        put((0xc5u32).reverse_bits() >> 24, 8);
        put(0, 5);
    }
    put(0, 7);
    put(0, 7);
    out
}

#[test]
fn a_source_that_gives_its_text_by_drops_runs_out_of_time() {
    let drops: Act = |_, stream| {
        say(stream, "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n");
        // The server sends nothing more, and keeps the connection open while the client waits.
        let _ = stream.read(&mut [0; 1]);
    };
    let bounds = Bounds {
        time: Duration::from_millis(200),
        connect: Duration::from_secs(5),
        octets: 1 << 20,
    };
    let fetcher = Fetcher::new(nowhere(), bounds);
    assert_eq!(
        fetcher.fetch(&format!("http://{}/list", serve(drops)), None),
        Err(FetchError::TimedOut)
    );
}

#[test]
fn an_https_source_is_never_asked_without_tls() {
    // The server does not speak TLS: its response is not used.
    let url = format!("https://{}/list", serve(|_, stream| whole(stream, "ads.example\n")));
    assert_eq!(fetcher().fetch(&url, None), Err(FetchError::NoTls));
    assert_eq!(fault(ureq::Error::RequireHttpsOnly(String::new())), FetchError::Downgrade);
}

/// Returns a fetcher for which every name has this address.
fn fetcher_with(address: [u8; 4]) -> Fetcher {
    Fetcher::new(Box::new(move |_| Ok(vec![IpAddr::from(address)])), fetcher().bounds)
}

#[test]
fn names_are_asked_of_the_server_itself() {
    let port = serve(|_, stream| whole(stream, "ads.example\n")).port();
    let url = format!("http://lists.test:{port}/list");
    assert_eq!(text(fetcher_with([127, 0, 0, 1]).fetch(&url, None)), b"ads.example\n");
    let blocked = fetcher_with([0; 4]).fetch(&url, None);
    assert_eq!(blocked, Err(FetchError::Unresolved(LookupError::Blocked("lists.test".to_owned()))));
    let unknown = fetcher().fetch(&url, None);
    assert_eq!(
        unknown,
        Err(FetchError::Unresolved(LookupError::NoAddress("lists.test".to_owned())))
    );
}

#[test]
fn a_redirect_leads_to_no_private_address() {
    let redirect: Act = |head, stream| {
        let target =
            head.lines().find_map(|line| line.strip_prefix("get /?to=")).unwrap_or_default();
        let target = target.split(' ').next().unwrap_or_default();
        say(
            stream,
            format!(
                "HTTP/1.1 302 Found\r\nLocation: http://{target}/\r\nContent-Length: 0\r\n\r\n"
            ),
        );
    };
    let from = serve(redirect);
    let to = serve(|_, stream| whole(stream, "ads.example\n"));
    let fetch = |target: &str| {
        fetcher_with([127, 0, 0, 1]).fetch(&format!("http://{from}/?to={target}"), None)
    };
    for target in [
        "169.254.169.254",
        "192.168.1.1:8080",
        "localhost:1",
        "[::1]:1",
        "0.0.0.0:1",
        "127.0.0.2:1",
    ] {
        assert_eq!(fetch(target), Err(FetchError::Private), "{target}");
    }
    // If the list itself is configured on a private address, redirects on that host are allowed.
    assert_eq!(text(fetch(&to.to_string())), b"ads.example\n");
}
