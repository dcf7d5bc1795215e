//! An HTTP/1.1 request, and the parts of the response that a probe needs. This module only converts
//! octets to a result.

use avocet_config::pool_probe::ProbeRequest;

use crate::running::pool_watch::ProbeResult;

/// Maximum number of octets of the head of a response.
const MAX_HEAD: usize = 16 << 10;
/// Maximum number of octets of the body in which a text is searched.
const MAX_BODY: usize = 64 << 10;
/// Maximum number of octets in the line with the size of a chunk.
const MAX_CHUNK_LINE: usize = 1 << 10;
/// Maximum number of hexadecimal digits in the size of a chunk: no chunk has a pebibyte.
const MAX_CHUNK_DIGITS: usize = 12;

/// Returns the octets of a request.
pub(super) fn request_octets(request: &ProbeRequest) -> Vec<u8> {
    let ProbeRequest { host, path, .. } = request;
    format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: avocet\r\nAccept: */*\r\nConnection: \
         close\r\n\r\n"
    )
    .into_bytes()
}

/// A response that is being received.
pub(super) struct HttpResponse {
    wanted: ProbeRequest,
    head: Vec<u8>,
    /// The status code, and the body, once the head is complete.
    body: Option<HttpBody>,
}

struct HttpBody {
    status: u16,
    text: Vec<u8>,
    place: BodyPlace,
}

/// The position in a body. The head determines where the body ends (RFC 9112 §6.3).
enum BodyPlace {
    /// The body ends with the connection.
    Open,
    /// The number of octets before the end of a body with Content-Length.
    Left(u64),
    /// The position is in the line with the size of a chunk (RFC 9112 §7.1).
    ChunkLine(Vec<u8>),
    /// The position is in the data of a chunk. Holds the number of remaining octets.
    Chunk(u64),
    /// The position is at the line end after the data of a chunk.
    ChunkEnd,
    /// The position is after CR in the line end after the data of a chunk.
    ChunkLineFeed,
    /// The position is after the last octet of the body.
    End,
}

impl HttpResponse {
    /// Creates the state for the response to a request.
    pub(super) fn new(wanted: &ProbeRequest) -> Self {
        Self { wanted: wanted.clone(), head: Vec::new(), body: None }
    }

    /// Processes octets of the response. Returns the result as soon as it is certain.
    pub(super) fn take(&mut self, octets: &[u8]) -> Option<ProbeResult> {
        if self.body.is_some() {
            return self.take_body(octets);
        }
        let searched = self.head.len().saturating_sub(3);
        self.head.extend_from_slice(octets);
        let end = self.head[searched..].windows(4).position(|four| four == b"\r\n\r\n");
        let Some(end) = end.map(|at| searched + at + 4) else {
            let is_http = self.head.starts_with(&b"HTTP/1."[..self.head.len().min(7)]);
            return match (is_http, self.head.len() > MAX_HEAD) {
                (false, _) => Some(failure("the response is not HTTP")),
                (true, true) => Some(failure("the head of the response is too long")),
                (true, false) => None,
            };
        };
        let body = self.head.split_off(end);
        let (status, place) = match read_head(&self.head) {
            Ok(read) => read,
            Err(reason) => return Some(failure(reason)),
        };
        // Interim responses precede the final one (RFC 9110 §15.2).
        if (100..200).contains(&status) && !self.is_wanted(status) {
            self.head.clear();
            return if body.is_empty() { None } else { self.take(&body) };
        }
        if !self.is_wanted(status) {
            return Some(ProbeResult::Failure(format!("status {status}")));
        }
        if self.wanted.body.is_empty() {
            return Some(ProbeResult::Success(format!("status {status}")));
        }
        self.body = Some(HttpBody { status, text: Vec::new(), place });
        self.take_body(&body)
    }

    /// Returns the result at the end of the connection.
    pub(super) fn end(&self) -> ProbeResult {
        match self.body.as_ref().map(|body| &body.place) {
            Some(BodyPlace::Open | BodyPlace::End) => {
                failure("the body does not contain the expected text")
            }
            Some(_) => failure("the connection was closed before the end of the body"),
            None => failure("the connection was closed before the response"),
        }
    }

    fn is_wanted(&self, status: u16) -> bool {
        self.wanted.status.iter().any(|range| range.contains(status))
    }

    fn take_body(&mut self, octets: &[u8]) -> Option<ProbeResult> {
        let (wanted, body) = (self.wanted.body.as_bytes(), self.body.as_mut()?);
        let searched = body.text.len().saturating_sub(wanted.len());
        let pushed = body.push(octets);
        if body.text[searched..].windows(wanted.len()).any(|text| text == wanted) {
            return Some(ProbeResult::Success(format!("status {}, text found", body.status)));
        }
        if pushed.is_err() {
            return Some(failure("a chunk of the body is malformed"));
        }
        if body.text.len() >= MAX_BODY {
            return Some(failure("the first 64 KiB do not contain the expected text"));
        }
        matches!(body.place, BodyPlace::End).then(|| self.end())
    }
}

/// A chunk is malformed.
struct BadChunk;

impl HttpBody {
    /// Appends octets of the connection to the body, without the sizes of chunks. Ignores what
    /// follows the end of the body.
    fn push(&mut self, mut octets: &[u8]) -> Result<(), BadChunk> {
        let Self { text, place, .. } = self;
        while let Some((first, rest)) = octets.split_first() {
            match place {
                BodyPlace::End => return Ok(()),
                BodyPlace::Open => {
                    text.extend_from_slice(octets);
                    return Ok(());
                }
                BodyPlace::Left(left) | BodyPlace::Chunk(left) => {
                    let most = usize::try_from(*left).unwrap_or(usize::MAX).min(octets.len());
                    text.extend_from_slice(&octets[..most]);
                    octets = &octets[most..];
                    *left -= most as u64;
                    if *left == 0 {
                        let is_chunk = matches!(place, BodyPlace::Chunk(_));
                        *place = if is_chunk { BodyPlace::ChunkEnd } else { BodyPlace::End };
                    }
                    continue;
                }
                BodyPlace::ChunkEnd => match first {
                    b'\r' => *place = BodyPlace::ChunkLineFeed,
                    b'\n' => *place = BodyPlace::ChunkLine(Vec::new()),
                    _ => return Err(BadChunk),
                },
                BodyPlace::ChunkLineFeed if *first == b'\n' => {
                    *place = BodyPlace::ChunkLine(Vec::new());
                }
                BodyPlace::ChunkLineFeed => return Err(BadChunk),
                BodyPlace::ChunkLine(line) if *first != b'\n' => {
                    if line.len() == MAX_CHUNK_LINE {
                        return Err(BadChunk);
                    }
                    line.push(*first);
                }
                BodyPlace::ChunkLine(line) => {
                    *place = match chunk_size(line).ok_or(BadChunk)? {
                        0 => BodyPlace::End,
                        size => BodyPlace::Chunk(size),
                    };
                }
            }
            octets = rest;
        }
        Ok(())
    }
}

fn chunk_size(line: &[u8]) -> Option<u64> {
    let line = std::str::from_utf8(line).ok()?;
    // Extensions follow the size.
    let size = line.split(';').next()?.trim_ascii();
    let is_size =
        size.len() <= MAX_CHUNK_DIGITS && size.bytes().all(|digit| digit.is_ascii_hexdigit());
    u64::from_str_radix(size, 16).ok().filter(|_| is_size)
}

/// Reads the status code of a head, and where its body begins.
fn read_head(head: &[u8]) -> Result<(u16, BodyPlace), &'static str> {
    let head = String::from_utf8_lossy(head);
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(status_of).ok_or("the response is not HTTP")?;
    let fields: Vec<_> = lines.filter_map(|line| line.split_once(':')).collect();
    let values = |wanted: &'static str| {
        let named = fields.iter().filter(move |(name, _)| name.eq_ignore_ascii_case(wanted));
        named.flat_map(|(_, value)| value.split(',')).map(str::trim)
    };
    let length = length_of(values("content-length"))?;
    // RFC 9112 §6.3: chunks take precedence over a length.
    let place = match (values("transfer-encoding").next_back(), length) {
        _ if matches!(status, 100..200 | 204 | 304) => BodyPlace::End,
        (Some(coding), _) if coding.eq_ignore_ascii_case("chunked") => {
            BodyPlace::ChunkLine(Vec::new())
        }
        (None, Some(0)) => BodyPlace::End,
        (None, Some(length)) => BodyPlace::Left(length),
        _ => BodyPlace::Open,
    };
    Ok((status, place))
}

fn status_of(line: &str) -> Option<u16> {
    let mut words = line.split(' ');
    words.next().filter(|version| version.starts_with("HTTP/1."))?;
    words.next()?.parse().ok().filter(|code| (100..=599).contains(code))
}

/// Returns the length in the Content-Length fields, which must all have the same value.
fn length_of<'h>(mut values: impl Iterator<Item = &'h str>) -> Result<Option<u64>, &'static str> {
    const FAULT: &str = "the Content-Length of the response is malformed";
    let Some(first) = values.next() else { return Ok(None) };
    let is_number = !first.is_empty() && first.bytes().all(|digit| digit.is_ascii_digit());
    let length = first.parse().ok().filter(|_| is_number && values.all(|value| value == first));
    length.map(Some).ok_or(FAULT)
}

fn failure(text: &str) -> ProbeResult {
    ProbeResult::Failure(text.to_owned())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use avocet_config::Config;
    use avocet_config::pool_probe::ProbeKind;

    use super::*;

    fn wanted() -> ProbeRequest {
        let text = "[[pool]]\nname = \"x.example\"\naddresses = [\"192.0.2.1\"]\nprobe = \"http\"\n\
                    body = \"alive\"\n";
        let config = Config::from_text(None, text, &BTreeMap::new()).unwrap();
        match &config.pools[0].probe.kind {
            ProbeKind::Http { request, .. } => request.clone(),
            other => panic!("{other:?}"),
        }
    }

    /// Returns the result of a probe that expects the text `alive`. The result must not depend on
    /// how the octets are divided.
    fn result(head: &str, body: &str) -> String {
        let octets = format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n{body}").into_bytes();
        let wanted = wanted();
        let said = |size: usize| {
            let mut response = HttpResponse::new(&wanted);
            let mut parts = octets.chunks(size);
            let result = parts.find_map(|part| response.take(part));
            match result.unwrap_or_else(|| response.end()) {
                ProbeResult::Success(text) => format!("+{text}"),
                ProbeResult::Failure(text) | ProbeResult::NotRun(text) => text,
            }
        };
        let whole = said(octets.len());
        for size in [1, 2, 3, 7] {
            assert_eq!(said(size), whole, "{head:?} {body:?} in parts of {size}");
        }
        whole
    }

    #[test]
    fn a_text_counts_only_within_the_body() {
        const FOUND: &str = "+status 200, text found";
        const NOT_FOUND: &str = "the body does not contain the expected text";
        const LENGTH: &str = "the Content-Length of the response is malformed";
        const CHUNK: &str = "a chunk of the body is malformed";
        const CLOSED: &str = "the connection was closed before the end of the body";
        let chunked = "Transfer-Encoding: chunked";
        for (head, body, expected) in [
            ("Server: x", "it is alive", FOUND),
            ("Content-Length: 11", "it is alive", FOUND),
            ("content-length: 11, 11\r\nContent-Length:11", "it is alive", FOUND),
            ("Content-Length: 10", "it is alive", NOT_FOUND),
            ("Content-Length: 1", "alive", NOT_FOUND),
            ("Content-Length: 0", "alive", NOT_FOUND),
            ("Content-Length: 20", "nothing", CLOSED),
            ("Content-Length: -1", "alive", LENGTH),
            ("Content-Length: +5", "alive", LENGTH),
            ("Content-Length:", "alive", LENGTH),
            ("Content-Length: 5\r\nContent-Length: 6", "alive", LENGTH),
            ("Content-Length: 18446744073709551616", "alive", LENGTH),
            (chunked, "2\r\nal\r\n3;a=b\r\nive\r\n0\r\n\r\n", FOUND),
            ("Transfer-Encoding: gzip, chunked", "5\r\nalive\r\n0\r\n\r\n", FOUND),
            ("Transfer-Encoding: chunked\r\nContent-Length: 2", "5\r\nalive\r\n0\r\n", FOUND),
            (chunked, "2\r\nal\r\n0\r\n\r\nalive", NOT_FOUND),
            (chunked, "0\r\nalive", NOT_FOUND),
            (chunked, "ffffffffffffffff\r\nalive", CHUNK),
            (chunked, "+5\r\nalive", CHUNK),
            (chunked, "\r\nalive", CHUNK),
            (chunked, "alive\r\nalive", CHUNK),
            (chunked, "2\r\nalive\r\n", CHUNK),
            (chunked, "2\r\nno\rx5\r\nalive\r\n", CHUNK),
            (chunked, "2\r\nno\r\nx\r\nalive\r\n", CHUNK),
            (chunked, "9\r\nno", CLOSED),
        ] {
            assert_eq!(result(head, body), expected, "{head:?} {body:?}");
        }
    }
}
