//! One DNS query in HTTP/3: the request of a client, and the response on the same stream.

use avocet_wire::MAX_MESSAGE;
use data_encoding::BASE64URL_NOPAD;

use super::client::HttpMethod;
use super::form::MEDIA_TYPE;
use super::h3::{
    DATA, FrameSink, Frames, H3Error, HEADERS, Handling, MAX_BLOCK, PUSH_PROMISE, SETTINGS,
    write_varint,
};
use super::hpack::FieldName;
use super::qpack;

/// The status of a response with a message.
const OK: u16 = 200;

/// Returns the octets of a request for a query.
pub(crate) fn request(authority: &str, path: &str, query: &[u8], method: HttpMethod) -> Vec<u8> {
    /// Entries of the static table.
    const AUTHORITY: u8 = 0;
    const PATH: u8 = 1;
    const GET: u8 = 17;
    const POST: u8 = 20;
    const HTTPS: u8 = 23;
    const ACCEPT_DNS_MESSAGE: u8 = 30;
    const DNS_MESSAGE: u8 = 44;
    let mut block = qpack::PREFIX.to_vec();
    qpack::write_entry(if method == HttpMethod::Get { GET } else { POST }, &mut block);
    qpack::write_entry(HTTPS, &mut block);
    qpack::write_value(AUTHORITY, authority.as_bytes(), &mut block);
    if method == HttpMethod::Get {
        let path = format!("{path}?dns={}", BASE64URL_NOPAD.encode(query));
        qpack::write_value(PATH, path.as_bytes(), &mut block);
    } else {
        qpack::write_value(PATH, path.as_bytes(), &mut block);
        qpack::write_entry(DNS_MESSAGE, &mut block);
    }
    qpack::write_entry(ACCEPT_DNS_MESSAGE, &mut block);
    let mut out = Vec::new();
    write_varint(HEADERS, &mut out);
    write_varint(block.len() as u64, &mut out);
    out.extend_from_slice(&block);
    if method == HttpMethod::Post {
        write_varint(DATA, &mut out);
        write_varint(query.len() as u64, &mut out);
        out.extend_from_slice(query);
    }
    out
}

/// The reason why a response has no message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NoMessage {
    /// The server refuses the request with this status.
    Status(u16),
    /// The body is not a DNS message.
    MediaType,
    /// The stream ended within a frame, or before the response.
    Incomplete,
}

/// The response of a server, as far as it has arrived.
#[derive(Debug, Default)]
pub(crate) struct H3Response {
    frames: Frames,
    message: ResponseMessage,
}

#[derive(Debug, Default)]
struct ResponseMessage {
    status: u16,
    is_dns_message: bool,
    body: Vec<u8>,
}

impl H3Response {
    /// Takes octets of the stream.
    ///
    /// # Errors
    /// The octets are not a response, or the response is too long.
    pub(crate) fn take(&mut self, octets: &[u8]) -> Result<(), H3Error> {
        self.frames.take(octets, &mut self.message)
    }

    /// Returns the message of the response at the end of the stream.
    ///
    /// # Errors
    /// The response has no message.
    pub(crate) fn end(&mut self) -> Result<Vec<u8>, NoMessage> {
        if !self.frames.is_between_frames() {
            return Err(NoMessage::Incomplete);
        }
        match self.message.status {
            OK if !self.message.is_dns_message => Err(NoMessage::MediaType),
            OK => Ok(std::mem::take(&mut self.message.body)),
            0 => Err(NoMessage::Incomplete),
            status => Err(NoMessage::Status(status)),
        }
    }

    /// Returns the number of buffered octets.
    pub(crate) fn held(&self) -> usize {
        self.frames.held() + self.message.body.len()
    }
}

impl FrameSink for ResponseMessage {
    fn begin(&mut self, kind: u64, len: u64) -> Result<Handling, H3Error> {
        match kind {
            HEADERS if len > MAX_BLOCK => Err(H3Error::ExcessiveLoad),
            HEADERS => Ok(Handling::Collect),
            DATA => Ok(Handling::Pass),
            SETTINGS | PUSH_PROMISE => Err(H3Error::FrameUnexpected),
            _ => Ok(Handling::Skip),
        }
    }

    fn payload(&mut self, kind: u64, octets: &[u8]) -> Result<(), H3Error> {
        if kind == DATA {
            // Other contents, such as an HTML page, are ignored.
            if self.status == OK && self.is_dns_message {
                self.body.extend_from_slice(octets);
            }
            return if self.body.len() > MAX_MESSAGE {
                Err(H3Error::ExcessiveLoad)
            } else {
                Ok(())
            };
        }
        let (mut status, mut is_dns_message) = (0, false);
        qpack::read(octets, &mut |name, value| match name {
            FieldName::Status => {
                status = str::from_utf8(value).ok().and_then(|text| text.parse().ok()).unwrap_or(0);
            }
            FieldName::ContentType => is_dns_message = value.starts_with(MEDIA_TYPE),
            _ => {}
        })?;
        // Trailers have no status. After interim responses, the last status counts.
        if status != 0 {
            (self.status, self.is_dns_message) = (status, is_dns_message);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::form::{Media, ResponseExtent, ResponseForm, Status};
    use super::super::h3::{H3Asked, H3Request, response};
    use super::*;

    #[test]
    fn the_two_ends_understand_each_other() {
        for method in [HttpMethod::Get, HttpMethod::Post] {
            let octets = request("dns.example", "/dns-query", b"query", method);
            let mut asked = H3Request::default();
            assert_eq!(asked.take(&octets), Ok(None));
            let expected = H3Asked::Query(b"query".to_vec(), ResponseExtent::Whole);
            assert_eq!(asked.end(), Ok(expected));
        }
        let read = |octets: &[u8], size| {
            let mut response = H3Response::default();
            octets.chunks(size).for_each(|piece| response.take(piece).unwrap());
            response.end()
        };
        for size in [1, 3, 1_000] {
            let octets = response(Status::Ok, b"message", &ResponseForm::MESSAGE);
            assert_eq!(read(&octets, size), Ok(b"message".to_vec()));
            let octets = response(Status::BadMethod, b"", &ResponseForm::MESSAGE);
            assert_eq!(read(&octets, size), Err(NoMessage::Status(405)));
            let octets = response(Status::Ok, b"message", &ResponseForm::MESSAGE);
            assert_eq!(read(&octets[..octets.len() - 1], size), Err(NoMessage::Incomplete));
            assert_eq!(read(&[], size), Err(NoMessage::Incomplete));
            let json = ResponseForm { media: Media::Json, ..ResponseForm::MESSAGE };
            let octets = response(Status::Ok, &[0; 12], &json);
            assert_eq!(read(&octets, size), Err(NoMessage::MediaType));
        }
    }
}
