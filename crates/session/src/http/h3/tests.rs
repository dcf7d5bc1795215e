//! Requests, responses and streams of HTTP/3 in memory.

use super::*;

fn frame(kind: u64, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    write_varint(kind, &mut out);
    write_varint(payload.len() as u64, &mut out);
    out.extend_from_slice(payload);
    out
}

fn post(fields: &[(&[u8], &[u8])]) -> Vec<u8> {
    let mut block = qpack::PREFIX.to_vec();
    qpack::write_entry(20, &mut block);
    qpack::write_entry(23, &mut block);
    qpack::write_value(0, b"x", &mut block);
    qpack::write_value(1, b"/dns-query", &mut block);
    qpack::write_entry(44, &mut block);
    fields.iter().for_each(|(name, value)| qpack::write_field(name, value, &mut block));
    frame(HEADERS, &block)
}

fn get(path: &[u8]) -> Vec<u8> {
    let mut block = qpack::PREFIX.to_vec();
    qpack::write_entry(17, &mut block);
    qpack::write_entry(23, &mut block);
    qpack::write_value(0, b"x", &mut block);
    qpack::write_value(1, path, &mut block);
    frame(HEADERS, &block)
}

/// Returns a request for a query in the path, with these fields for the host.
fn without(left_out: u8, host: &[(&[u8], &[u8])]) -> Vec<u8> {
    let mut block = qpack::PREFIX.to_vec();
    [17, 23].iter().filter(|entry| **entry != left_out).for_each(|entry| {
        qpack::write_entry(*entry, &mut block);
    });
    if left_out != 1 {
        qpack::write_value(1, b"/dns-query?dns=AAEB", &mut block);
    }
    host.iter().for_each(|(name, value)| qpack::write_field(name, value, &mut block));
    frame(HEADERS, &block)
}

#[test]
fn malformed_requests_end_their_stream() {
    let malformed = Err(H3Error::Message);
    let host: [(&[u8], &[u8]); 1] = [(b":authority", b"x")];
    let query = Ok(H3Asked::Query(vec![0, 1, 1], ResponseExtent::Whole));
    check(&[&without(0, &host)], &query);
    check(&[&without(0, &[(b"host", b"x")])], &query);
    check(&[&without(0, &[host[0], (b"te", b"trailers")])], &query);
    for left_out in [1, 17, 23] {
        check(&[&without(left_out, &host)], &malformed);
    }
    for fields in [
        &[][..],
        &[(&b":authority"[..], &b""[..])],
        &[(b"host", b"")],
        &[host[0], host[0]],
        &[host[0], (b":method", b"GET")],
        &[host[0], (b":scheme", b"https")],
        &[host[0], (b":path", b"/")],
        &[host[0], (b":status", b"200")],
        &[host[0], (b":other", b"x")],
        &[(b"accept", b"x"), host[0]],
        &[host[0], (b"X-Id", b"x")],
        &[host[0], (b"te", b"gzip")],
        &[host[0], (b"transfer-encoding", b"chunked")],
        &[host[0], (b"content-length", b"1")],
    ] {
        check(&[&without(0, fields)], &malformed);
    }
    let trailers = |name: &[u8]| {
        let mut block = qpack::PREFIX.to_vec();
        qpack::write_field(name, b"x", &mut block);
        frame(HEADERS, &block)
    };
    for name in [&b":path"[..], b":other", b"X-Id", b"connection"] {
        check(&[&post(&[]), &frame(DATA, b"query"), &trailers(name)], &malformed);
    }
}

fn asked(octets: &[u8], size: usize) -> Result<H3Asked, H3Error> {
    let mut request = H3Request::default();
    for piece in octets.chunks(size) {
        if let Some(status) = request.take(piece)? {
            return Ok(H3Asked::Reject(status));
        }
    }
    request.end()
}

fn check(parts: &[&[u8]], expected: &Result<H3Asked, H3Error>) {
    let octets = parts.concat();
    for size in [1, 2, 3, 7, 1_000, 100_000] {
        assert_eq!(&asked(&octets, size), expected, "{octets:.200x?} by {size}");
    }
}

#[test]
fn integers_have_four_lengths() {
    for value in [0, 1, 63, 64, 16_383, 16_384, (1 << 30) - 1, 1 << 30, (1 << 62) - 1] {
        let mut out = Vec::new();
        write_varint(value, &mut out);
        for len in 0..out.len() {
            assert_eq!(varint(&mut &out[..len]), None);
        }
        let mut rest = out.as_slice();
        assert_eq!((varint(&mut rest), rest.len()), (Some(value), 0));
    }
}

#[test]
fn requests_are_the_same_in_any_pieces() {
    let query = |octets: &[u8], extent| Ok(H3Asked::Query(octets.to_vec(), extent));
    let whole = query(b"query", ResponseExtent::Whole);
    check(&[&post(&[]), &frame(DATA, b"query")], &whole);
    check(&[&post(&[]), &frame(DATA, b"qu"), &frame(DATA, b"ery")], &whole);
    let reserved = frame(0x21, &[7; 300]);
    let parts = [&reserved[..], &post(&[]), &reserved, &frame(DATA, b"query"), &reserved];
    check(&parts, &whole);
    let trailers = frame(HEADERS, &[0, 0, 0x21, b'x', 1, b'y']);
    check(&[&post(&[]), &frame(DATA, b"query"), &trailers], &whole);
    check(&[&get(b"/dns-query?dns=AAEB")], &query(&[0, 1, 1], ResponseExtent::Whole));
    let long = vec![3; MAX_MESSAGE];
    check(&[&post(&[]), &frame(DATA, &long)], &query(&long, ResponseExtent::Whole));
}

#[test]
fn requests_without_a_query_are_rejected() {
    let reject = |status| Ok(H3Asked::Reject(status));
    check(&[&get(b"/")], &reject(Status::NotFound));
    check(&[&post(&[])], &reject(Status::BadRequest));
    let parts = [&get(b"/dns-query?dns=AAEB")[..], &frame(DATA, b"x")];
    check(&parts, &reject(Status::BadRequest));
    let long = vec![3; MAX_MESSAGE + 1];
    check(&[&post(&[]), &frame(DATA, &long)], &reject(Status::LargeBody));
    let large = vec![b'v'; 17_000];
    check(&[&post(&[(b"x", &large)])], &reject(Status::LargeFields));
}

#[test]
fn violations_have_their_error() {
    let data = frame(DATA, b"query");
    for (parts, error) in [
        (vec![data.clone()], H3Error::FrameUnexpected),
        (vec![frame(SETTINGS, &[])], H3Error::FrameUnexpected),
        (vec![frame(2, &[])], H3Error::FrameUnexpected),
        (vec![frame(PUSH_PROMISE, &[0])], H3Error::FrameUnexpected),
        (vec![frame(HEADERS, &[0, 0, 0x80])], H3Error::Decompression),
        (vec![frame(HEADERS, &[0, 0])], H3Error::Message),
        (vec![], H3Error::RequestIncomplete),
        (vec![frame(0x21, &[])], H3Error::RequestIncomplete),
        (vec![post(&[]), data[..data.len() - 1].to_vec()], H3Error::RequestIncomplete),
        (vec![post(&[(b"content-length", b"4")]), data.clone()], H3Error::Message),
        (vec![post(&[(b"connection", b"close")])], H3Error::Message),
    ] {
        let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        check(&parts, &Err(error));
    }
    // A header block that is too long is refused because of its stated length alone.
    let mut announced = vec![HEADERS as u8];
    write_varint(MAX_BLOCK + 1, &mut announced);
    check(&[&announced], &Err(H3Error::ExcessiveLoad));
}

#[test]
fn data_without_end_is_not_kept() {
    let mut request = H3Request::default();
    request.take(&post(&[])).unwrap();
    let mut announced = vec![DATA as u8];
    write_varint(1 << 40, &mut announced);
    request.take(&announced).unwrap();
    let rejected = (0..20).find_map(|_| request.take(&[0; 10_000]).unwrap());
    assert_eq!(rejected, Some(Status::LargeBody));
    assert_eq!(request.held(), 0);
    // A frame of an unknown kind is not buffered.
    let mut request = H3Request::default();
    let mut announced = vec![0x40, 0x21];
    write_varint(1 << 40, &mut announced);
    request.take(&announced).unwrap();
    request.take(&[0; 100_000]).unwrap();
    assert_eq!(request.held(), 0);
}

fn stream(octets: &[u8], size: usize) -> Result<Option<StreamKind>, H3Error> {
    let mut stream = H3Stream::default();
    for piece in octets.chunks(size) {
        stream.take(piece)?;
    }
    assert!(stream.held.len() + stream.frames.held.len() < 16);
    Ok(stream.kind())
}

#[test]
fn streams_of_the_connection_follow_their_rules() {
    let settings_frame = frame(SETTINGS, &[1, 0, 6, 0x40, 0xff, 0x21, 3]);
    let control = |frames: &[&[u8]]| [&[0][..], &frames.concat()].concat();
    for (octets, expected) in [
        (control(&[&settings_frame]), Ok(Some(StreamKind::Control))),
        (settings(), Ok(Some(StreamKind::Control))),
        (control(&[&settings_frame, &frame(13, &[5])]), Ok(Some(StreamKind::Control))),
        (control(&[&settings_frame, &goaway(0)]), Ok(Some(StreamKind::Control))),
        (control(&[&settings_frame, &frame(0x21, &[9; 99])]), Ok(Some(StreamKind::Control))),
        (control(&[&frame(0x21, &[])]), Err(H3Error::MissingSettings)),
        (control(&[&settings_frame, &settings_frame]), Err(H3Error::FrameUnexpected)),
        (control(&[&settings_frame, &frame(DATA, &[])]), Err(H3Error::FrameUnexpected)),
        (control(&[&settings_frame, &frame(8, &[])]), Err(H3Error::FrameUnexpected)),
        (control(&[&settings_frame, &frame(7, &[])]), Err(H3Error::Frame)),
        (control(&[&settings_frame, &frame(13, &[5, 5])]), Err(H3Error::Frame)),
        (
            control(&[&settings_frame, &frame(13, &[5]), &frame(13, &[5]), &frame(13, &[9])]),
            Ok(Some(StreamKind::Control)),
        ),
        (control(&[&settings_frame, &frame(13, &[5]), &frame(13, &[4])]), Err(H3Error::Id)),
        (control(&[&settings_frame, &goaway(8), &goaway(4)]), Ok(Some(StreamKind::Control))),
        (control(&[&settings_frame, &goaway(4), &goaway(8)]), Err(H3Error::Id)),
        (control(&[&settings_frame, &frame(3, &[0])]), Err(H3Error::Id)),
        (control(&[&frame(SETTINGS, &[4, 0])]), Err(H3Error::Settings)),
        (control(&[&frame(SETTINGS, &[6])]), Err(H3Error::Frame)),
        (control(&[&frame(SETTINGS, &[0x21; 2_000])]), Err(H3Error::ExcessiveLoad)),
        (vec![1, 0], Err(H3Error::StreamCreation)),
        (vec![2], Ok(Some(StreamKind::Encoder))),
        (vec![2, 0x20], Ok(Some(StreamKind::Encoder))),
        (vec![2, 0x3f, 0xe1, 0x1f], Err(H3Error::EncoderStream)),
        (vec![3, 0x44], Ok(Some(StreamKind::Decoder))),
        (vec![0x21, 1, 2, 3], Ok(Some(StreamKind::Unknown))),
        (vec![0x40], Ok(None)),
    ] {
        for size in [1, 2, 5, 10_000] {
            assert_eq!(stream(&octets, size), expected, "{octets:x?} by {size}");
        }
    }
}

#[test]
fn responses_have_fields_and_body() {
    let octets = response(Status::NotFound, b"", &ResponseForm::MESSAGE);
    assert_eq!(octets[..2], [1, octets.len() as u8 - 2]);
    let whole = response(Status::Ok, b"message", &ResponseForm::MESSAGE);
    assert!(whole.ends_with(b"\x00\x07message"));
    let form = ResponseForm { extent: ResponseExtent::Fields, ..ResponseForm::MESSAGE };
    let fields = response(Status::Ok, b"message", &form);
    assert_eq!(whole[..fields.len()], fields);
}
