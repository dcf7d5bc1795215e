//! Requests of HTTP/2 that are malformed (RFC 9113 §8.1.1).

use super::*;

/// Returns a header block with literal fields.
fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let part = |text: &str| [&[text.len() as u8], text.as_bytes()].concat();
    let field = |(name, value): &(&str, &str)| [vec![0], part(name), part(value)].concat();
    fields.iter().flat_map(field).collect()
}

/// Checks that a request ends with a reset for a violation, and that other requests go on.
fn check_malformed(octets: &[u8]) {
    let mut client = Client::two(Then::Answer);
    client.send(octets);
    let out = client.out();
    assert_eq!(frames(&out), [(3, 0, 1, &[0, 0, 0, 1][..])], "{octets:x?}");
    assert_eq!(client.two_mut().kept_octets(), 0);
    client.send(&post(3, QUERY));
    assert_eq!(client.messages, [QUERY], "{octets:x?}");
}

#[test]
fn malformed_requests_end_their_stream() {
    let path = "/dns-query?dns=AAAA";
    let request = [(":method", "GET"), (":scheme", "https"), (":path", path)];
    let with = |field| block(&[&request[..], &[field]].concat());
    let mut client = Client::two(Then::Answer);
    let fields = [(":authority", "x"), ("te", "trailers"), ("content-length", "0")];
    client.send(&frame(1, 5, 1, &block(&[&request[..], &fields].concat())));
    assert_eq!(client.messages.len(), 1);
    for field in [
        ("X-Id", "x"),
        ("x id", "x"),
        ("", "x"),
        ("connection", "close"),
        ("keep-alive", "x"),
        ("proxy-connection", "x"),
        ("transfer-encoding", "chunked"),
        ("upgrade", "x"),
        ("te", "gzip"),
        (":other", "x"),
        (":status", "200"),
        (":method", "GET"),
        (":scheme", "https"),
        (":path", path),
        ("content-length", "1"),
    ] {
        check_malformed(&frame(1, 5, 1, &with(field)));
    }
    check_malformed(&frame(1, 4, 1, &with(("X-Id", "x"))));
    for left_out in 0..request.len() {
        let mut fields = request.to_vec();
        fields.remove(left_out);
        check_malformed(&frame(1, 5, 1, &block(&fields)));
    }
    check_malformed(&frame(1, 5, 1, &block(&[&request[..2], &[(":path", "")]].concat())));
    let late = [request[0], request[1], ("accept", "x"), request[2]];
    check_malformed(&frame(1, 5, 1, &block(&late)));
    // The same field comes from a table.
    let mut octets = vec![0x82, 0x87, 0x40, 4];
    octets.extend_from_slice(b"X-Id\x01x\xbe");
    check_malformed(&frame(1, 5, 1, &octets));
}

#[test]
fn bodies_have_the_length_that_the_request_says() {
    let announced = |len: &str| {
        let len = [&[0x0f, 0x0d, len.len() as u8], len.as_bytes()].concat();
        frame(1, 4, 1, &[POST, &len].concat())
    };
    let mut client = Client::two(Then::Answer);
    let parts = [announced("19"), frame(0, 0, 1, &QUERY[..9]), frame(0, 1, 1, &QUERY[9..])];
    client.send(&parts.concat());
    assert_eq!(client.messages, [QUERY]);
    let trailers = |fields: &[(&str, &str)]| frame(1, 5, 1, &block(fields));
    let plain = [("x", "y")];
    let mut client = Client::two(Then::Answer);
    let whole = [announced("19"), frame(0, 0, 1, QUERY)].concat();
    client.send(&[&whole[..], &trailers(&plain)].concat());
    assert_eq!(client.messages, [QUERY]);
    let late = frame(0, 0, 1, b"late");
    for parts in [
        &[announced("18"), frame(0, 1, 1, QUERY)][..],
        &[announced("20"), frame(0, 1, 1, QUERY)],
        &[announced("18"), frame(0, 0, 1, QUERY)],
        &[announced("18"), frame(0, 0, 1, QUERY), late.clone(), trailers(&plain)],
        &[announced("20"), frame(0, 0, 1, &QUERY[..9]), frame(0, 1, 1, &QUERY[9..])],
        &[announced("1"), trailers(&plain)],
        &[whole.clone(), trailers(&[(":path", "/")])],
        &[whole.clone(), trailers(&[("X-Id", "x")])],
    ] {
        check_malformed(&parts.concat());
    }
}

#[test]
fn a_query_in_the_path_may_have_an_empty_body() {
    let get = |flags| frame(1, flags, 1, b"\x82\x87\x44\x13/dns-query?dns=AAAA");
    for parts in [
        [get(4), frame(0, 1, 1, b"")].concat(),
        [get(4), frame(0, 0, 1, b""), frame(0, 9, 1, b"\x01\0")].concat(),
        [get(4), frame(1, 5, 1, &block(&[("x", "y")]))].concat(),
    ] {
        let mut client = Client::two(Then::Answer);
        client.send(&parts[..parts.len() - 1]);
        assert_eq!((client.messages.len(), client.two_mut().kept_octets()), (0, 3));
        client.send(&parts[parts.len() - 1..]);
        assert_eq!(client.messages, [[0; 3]], "{parts:x?}");
        assert_eq!(client.two_mut().kept_octets(), 0);
    }
    // A body in addition to the query in the path is refused.
    let mut client = Client::two(Then::Answer);
    client.send(&[get(4), frame(0, 1, 1, b"x")].concat());
    assert_eq!(&frames(&client.out())[0].3[..5], b"\x08\x03400");
    assert_eq!((client.messages.len(), client.two_mut().kept_octets()), (0, 0));
    check_malformed(&[get(4), frame(1, 5, 1, NO_PATH)].concat());
    check_malformed(&[get(4), frame(8, 0, 1, &[0; 4])].concat());
}

#[test]
fn a_body_without_a_query_is_refused() {
    let head = frame(1, 4, 1, POST);
    for parts in [
        [&head[..], &frame(0, 1, 1, b"")].concat(),
        [&head[..], &frame(0, 0, 1, b""), &frame(0, 9, 1, b"\x01\0")].concat(),
        [&head[..], &frame(1, 5, 1, &block(&[("x", "y")]))].concat(),
    ] {
        let mut client = Client::two(Then::Answer);
        client.send(&parts);
        assert_eq!(&frames(&client.out())[0].3[..5], b"\x08\x03400", "{parts:x?}");
        client.send(&post(3, QUERY));
        assert_eq!(client.messages, [QUERY], "the connection goes on");
    }
    let empty = post_one("Content-Length: 0\r\n", b"");
    let (client, text) =
        one(Then::Answer, &[empty, post_one("Content-Length: 19\r\n", QUERY)].concat());
    assert!(text.starts_with("HTTP/1.1 400 "), "{text}");
    assert_eq!(client.messages, [QUERY], "the connection goes on");
}

#[test]
fn queries_in_paths_that_wait_for_the_end_of_their_request_are_bounded() {
    let mut client = Client::two(Then::Answer);
    let path = format!("/dns-query?dns={}", "A".repeat(8_000));
    for n in 0..80 {
        let mut octets = get(2 * n + 1, &path);
        octets[4] = 4;
        client.send(&octets);
    }
    let kept = client.two_mut().kept_octets();
    assert!((200 << 10..=256 << 10).contains(&kept), "{kept}");
    let refused = frames(&client.out()).iter().filter(|one| one.3 == [0, 0, 0, 7]).count();
    assert_eq!((refused, client.messages.len()), (80 - kept / 6_000, 0));
}

#[test]
fn resets_that_a_client_provokes_cost_as_much_as_its_own() {
    let mut client = Client::two(Then::Wait);
    let attack: Vec<u8> = (0..1000)
        .flat_map(|n| [post(2 * n + 1, QUERY), frame(8, 0, 2 * n + 1, &[0; 4])].concat())
        .collect();
    client.send(&attack);
    assert_eq!(goaway(&mut client), Some(11));
    assert!(client.messages.len() <= MAX_BUDGET as usize / 5 + 1, "{}", client.messages.len());
}
