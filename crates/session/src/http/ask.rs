//! One DNS query over HTTP/2 (RFC 8484): the client's end of a connection for a single request.

use std::mem;

use avocet_wire::MAX_MESSAGE;
use data_encoding::BASE64URL_NOPAD;
use thiserror::Error;

use super::frames::{
    ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, FrameHead, GOAWAY, HEADERS, MAX_BLOCK,
    MAX_PAYLOAD, PING, PREFACE, RST_STREAM, SETTINGS, WITH_PRIORITY, unpadded, write_frame,
};
use super::hpack::{self, FieldDecoder, FieldName};
use super::request::MEDIA_TYPE;
use crate::frame::Outgoing;

/// The only stream.
const STREAM: u32 = 1;
/// Most frames that a server may send besides the response.
const MAX_OTHER_FRAMES: u32 = 1_000;

/// How a query is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HttpMethod {
    /// In the path, so that caches of HTTP know it.
    Get,
    /// As the body.
    #[default]
    Post,
}

/// Why there is no response.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum HttpFault {
    /// The server refuses the request.
    #[error("the server answers with HTTP status {0}")]
    Status(String),
    /// The server ends the request or the connection.
    #[error("the server ends the request with HTTP/2 error {0}")]
    Ended(u32),
    /// The octets are not HTTP/2, or too many.
    #[error("the server does not speak HTTP/2 as expected")]
    Malformed,
}

/// A query and its response.
#[derive(Debug)]
pub struct HttpQuery {
    pub(crate) out: Outgoing,
    held: Vec<u8>,
    fields: FieldDecoder,
    /// A header block whose continuations are missing.
    block: Vec<u8>,
    is_block_open: bool,
    status: String,
    body: Vec<u8>,
    other_frames: u32,
    result: Option<Result<(), HttpFault>>,
}

impl HttpQuery {
    /// Writes the request for a query to the path of a server.
    pub fn new(authority: &str, path: &str, query: &[u8], method: HttpMethod) -> Self {
        const NO_PUSH: [u8; 6] = [0, 2, 0, 0, 0, 0];
        let mut out = Outgoing::new();
        let octets = out.end();
        octets.extend_from_slice(PREFACE);
        write_frame(octets, [SETTINGS, 0], 0, &NO_PUSH);
        let block = fields(authority, path, query, method);
        let is_get = method == HttpMethod::Get;
        let end = if is_get { END_STREAM } else { 0 };
        write_frame(octets, [HEADERS, END_HEADERS | end], STREAM, &block);
        if !is_get {
            write_frame(octets, [DATA, END_STREAM], STREAM, query);
        }
        Self {
            out,
            held: Vec::new(),
            fields: FieldDecoder::new(),
            block: Vec::new(),
            is_block_open: false,
            status: String::new(),
            body: Vec::new(),
            other_frames: 0,
            result: None,
        }
    }

    /// Returns the message of the response, once it is complete.
    pub fn response(&self) -> Option<Result<&[u8], HttpFault>> {
        self.result.clone().map(|result| result.map(|()| self.body.as_slice()))
    }

    /// Takes octets of the server.
    pub(crate) fn take(&mut self, octets: &[u8]) {
        self.held.extend_from_slice(octets);
        let held = mem::take(&mut self.held);
        let mut rest = held.as_slice();
        while self.result.is_none()
            && let Some((head, after)) = FrameHead::read(rest)
        {
            if head.len > MAX_PAYLOAD {
                self.result = Some(Err(HttpFault::Malformed));
            }
            let Some(payload) = after.get(..head.len) else { break };
            rest = &after[head.len..];
            if let Err(fault) = self.frame(head, payload) {
                self.result = Some(Err(fault));
            }
        }
        self.held = rest.to_vec();
    }

    fn frame(&mut self, head: FrameHead, payload: &[u8]) -> Result<(), HttpFault> {
        /// Weight and parent of a stream.
        const PRIORITY_LEN: usize = 5;
        if self.is_block_open != (head.kind == CONTINUATION) {
            return Err(HttpFault::Malformed);
        }
        let is_ours = head.id == STREAM;
        match head.kind {
            HEADERS if is_ours => {
                let block = unpadded(head, payload).map_err(|_| HttpFault::Malformed)?;
                let skipped = if head.has(WITH_PRIORITY) { PRIORITY_LEN } else { 0 };
                self.block = block.get(skipped..).ok_or(HttpFault::Malformed)?.to_vec();
                self.is_block_open = true;
                self.finish_block(head)?;
                self.end_stream(head);
            }
            CONTINUATION if is_ours && self.block.len() + payload.len() <= MAX_BLOCK => {
                self.block.extend_from_slice(payload);
                self.finish_block(head)?;
            }
            DATA if is_ours => {
                let content = unpadded(head, payload).map_err(|_| HttpFault::Malformed)?;
                if self.body.len() + content.len() > MAX_MESSAGE {
                    return Err(HttpFault::Malformed);
                }
                self.body.extend_from_slice(content);
                self.end_stream(head);
            }
            SETTINGS if !head.has(ACK) => write_frame(self.out.end(), [SETTINGS, ACK], 0, &[]),
            PING if !head.has(ACK) => write_frame(self.out.end(), [PING, ACK], 0, payload),
            RST_STREAM if is_ours => return Err(HttpFault::Ended(code(payload))),
            GOAWAY => {
                let code = code(payload.get(4..).unwrap_or_default());
                return Err(HttpFault::Ended(code));
            }
            DATA | HEADERS | CONTINUATION => return Err(HttpFault::Malformed),
            _ => {}
        }
        self.other_frames += 1;
        if self.other_frames > MAX_OTHER_FRAMES { Err(HttpFault::Malformed) } else { Ok(()) }
    }

    fn finish_block(&mut self, head: FrameHead) -> Result<(), HttpFault> {
        if !head.has(END_HEADERS) {
            return Ok(());
        }
        self.is_block_open = false;
        let (mut status, block) = (String::new(), mem::take(&mut self.block));
        let mut visit = |name, value: &[u8]| {
            if name == FieldName::Status {
                status = String::from_utf8_lossy(value).into_owned();
            }
        };
        self.fields.read(&block, &mut visit).map_err(|_| HttpFault::Malformed)?;
        // Trailers have none.
        if !status.is_empty() {
            self.status = status;
        }
        Ok(())
    }

    fn end_stream(&mut self, head: FrameHead) {
        if head.has(END_STREAM) {
            let is_ok = self.status == "200";
            let status = || HttpFault::Status(self.status.chars().take(3).collect());
            self.result = Some(if is_ok { Ok(()) } else { Err(status()) });
        }
    }
}

/// Writes the fields of a request.
fn fields(authority: &str, path: &str, query: &[u8], method: HttpMethod) -> Vec<u8> {
    const AUTHORITY: u8 = 1;
    const PATH: u8 = 4;
    const ACCEPT: u8 = 19;
    const CONTENT_TYPE: u8 = 31;
    /// `:method: GET`, `:method: POST` and `:scheme: https` in the static table.
    const GET: u8 = 0x82;
    const POST: u8 = 0x83;
    const HTTPS: u8 = 0x87;
    let is_get = method == HttpMethod::Get;
    let mut out = vec![if is_get { GET } else { POST }, HTTPS];
    hpack::write(AUTHORITY, authority.as_bytes(), &mut out);
    if is_get {
        let path = format!("{path}?dns={}", BASE64URL_NOPAD.encode(query));
        hpack::write(PATH, path.as_bytes(), &mut out);
    } else {
        hpack::write(PATH, path.as_bytes(), &mut out);
        hpack::write(CONTENT_TYPE, MEDIA_TYPE, &mut out);
    }
    hpack::write(ACCEPT, MEDIA_TYPE, &mut out);
    out
}

fn code(payload: &[u8]) -> u32 {
    payload.first_chunk().map_or(0, |octets| u32::from_be_bytes(*octets))
}
