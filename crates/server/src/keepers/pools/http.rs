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
    /// The position in the chunks; `None` if the body has no chunks.
    chunks: Option<ChunkPlace>,
}

/// The position in a chunked body (RFC 9112 §7.1).
enum ChunkPlace {
    /// The position is in the line with the size.
    Line(Vec<u8>),
    /// The position is in the data of a chunk. Holds the number of remaining octets, including the
    /// line end after them.
    Data(usize),
    /// The position is after the last chunk.
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
        let Some((status, chunks)) = read_head(&self.head) else {
            return Some(failure("the response is not HTTP"));
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
        self.body = Some(HttpBody { status, text: Vec::new(), chunks });
        self.take_body(&body)
    }

    /// Returns the result at the end of the connection.
    pub(super) fn end(&self) -> ProbeResult {
        match &self.body {
            Some(_) => failure("the body does not contain the expected text"),
            None => failure("the connection was closed before the response"),
        }
    }

    fn is_wanted(&self, status: u16) -> bool {
        self.wanted.status.iter().any(|range| range.contains(status))
    }

    fn take_body(&mut self, octets: &[u8]) -> Option<ProbeResult> {
        let (wanted, body) = (self.wanted.body.as_bytes(), self.body.as_mut()?);
        let searched = body.text.len().saturating_sub(wanted.len());
        let is_last = body.push(octets);
        if body.text[searched..].windows(wanted.len()).any(|text| text == wanted) {
            return Some(ProbeResult::Success(format!("status {}, text found", body.status)));
        }
        let is_too_long = body.text.len() >= MAX_BODY;
        match (is_last, is_too_long) {
            (_, true) => Some(failure("the first 64 KiB do not contain the expected text")),
            (IsLast::Yes, false) => Some(self.end()),
            (IsLast::No, false) => None,
        }
    }
}

/// Whether the body is complete.
#[derive(Clone, Copy, PartialEq, Eq)]
enum IsLast {
    Yes,
    No,
}

impl HttpBody {
    /// Appends octets of the connection to the body, without the sizes of chunks.
    fn push(&mut self, mut octets: &[u8]) -> IsLast {
        let Self { text, chunks, .. } = self;
        let Some(place) = chunks else {
            text.extend_from_slice(octets);
            return IsLast::No;
        };
        while let Some((first, rest)) = octets.split_first() {
            match place {
                ChunkPlace::End => return IsLast::Yes,
                ChunkPlace::Data(left) if *left > 0 => {
                    let (data, behind) = octets.split_at((*left).min(octets.len()));
                    text.extend_from_slice(data);
                    *left -= data.len();
                    octets = behind;
                }
                ChunkPlace::Data(_) => {
                    // The line end after the data.
                    if *first == b'\n' {
                        *place = ChunkPlace::Line(Vec::new());
                    }
                    octets = rest;
                }
                ChunkPlace::Line(line) => {
                    octets = rest;
                    if *first != b'\n' && line.len() < MAX_CHUNK_LINE {
                        line.push(*first);
                        continue;
                    }
                    *place = match chunk_size(line) {
                        None | Some(0) => ChunkPlace::End,
                        Some(size) => ChunkPlace::Data(size),
                    };
                }
            }
        }
        if matches!(place, ChunkPlace::End) { IsLast::Yes } else { IsLast::No }
    }
}

fn chunk_size(line: &[u8]) -> Option<usize> {
    let line = std::str::from_utf8(line).ok()?;
    let size = line.split(';').next()?.trim();
    usize::from_str_radix(size, 16).ok()
}

/// Reads the status code of a head, and whether chunks follow.
fn read_head(head: &[u8]) -> Option<(u16, Option<ChunkPlace>)> {
    let head = String::from_utf8_lossy(head);
    let mut lines = head.split("\r\n");
    let mut words = lines.next()?.split(' ');
    let status = words.next().filter(|version| version.starts_with("HTTP/1."))?;
    let status = words.next().filter(|_| !status.is_empty())?;
    let status = status.parse().ok().filter(|code| (100..=599).contains(code))?;
    let has_chunks = lines.any(|line| {
        line.split_once(':').is_some_and(|(name, value)| {
            name.eq_ignore_ascii_case("transfer-encoding")
                && value.trim().to_ascii_lowercase().ends_with("chunked")
        })
    });
    Some((status, has_chunks.then(|| ChunkPlace::Line(Vec::new()))))
}

fn failure(text: &str) -> ProbeResult {
    ProbeResult::Failure(text.to_owned())
}
