//! The few bytes of a DNS message that a responder without a parser has to touch.

/// A record for the name at offset 12: A, IN, TTL 3600, 192.0.2.1.
const ANSWER: [u8; 16] = [0xc0, 12, 0, 1, 0, 1, 0, 0, 0x0e, 0x10, 0, 4, 192, 0, 2, 1];

/// The additional section of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// No OPT record.
    Plain,
    /// An OPT record.
    Edns,
    /// An OPT record with DO.
    DnssecOk,
}

const HEADER: usize = 12;
/// Type and class behind the name of a question.
const QUESTION_TAIL: usize = 4;

/// Turns the query in the first `length` bytes into its answer and returns the answer's length.
///
/// What follows the question, such as an OPT record, is overwritten. None if it is no query.
pub(crate) fn answer_in_place(buffer: &mut [u8], length: usize) -> Option<usize> {
    let end = question_end(buffer.get(..length)?)?;
    let whole = end + ANSWER.len();
    buffer.get_mut(end..whole)?.copy_from_slice(&ANSWER);
    let header = buffer.first_chunk_mut::<HEADER>()?;
    header[2] |= 0x80;
    header[3] = 0x80;
    header[6..HEADER].copy_from_slice(&[0, 1, 0, 0, 0, 0]);
    Some(whole)
}

fn question_end(message: &[u8]) -> Option<usize> {
    let mut at = HEADER;
    loop {
        match *message.get(at)? {
            0 => break,
            label => at += usize::from(label) + 1,
        }
    }
    let end = at + 1 + QUESTION_TAIL;
    (end <= message.len()).then_some(end)
}

/// The ID of a message of at least two bytes.
pub(crate) fn id(message: &[u8]) -> Option<u16> {
    message.first_chunk().map(|bytes| u16::from_be_bytes(*bytes))
}

/// Writes the ID of a message of at least two bytes.
pub(crate) fn set_id(message: &mut [u8], id: u16) {
    if let Some(bytes) = message.first_chunk_mut() {
        *bytes = id.to_be_bytes();
    }
}

/// Encodes a query with RD set for a line `name TYPE`; none if a part of it cannot be encoded.
///
/// Its OPT record is that of dnsperf, which offers 4096 bytes: some caches tell sizes apart, and
/// names that are warmed up by one are asked for by the other.
pub(crate) fn query(line: &str, form: Form) -> Option<Vec<u8>> {
    let (name, rrtype) = line.trim().split_once([' ', '\t'])?;
    let mut message = vec![0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, u8::from(form != Form::Plain)];
    for label in name.split('.').filter(|label| !label.is_empty()) {
        message.push(u8::try_from(label.len()).ok().filter(|length| *length < 64)?);
        message.extend_from_slice(label.as_bytes());
    }
    message.extend_from_slice(&[0, 0, type_code(rrtype.trim())?, 0, 1]);
    match form {
        Form::Plain => {}
        Form::Edns => message.extend_from_slice(&[0, 0, 41, 0x10, 0x00, 0, 0, 0, 0, 0, 0]),
        // DO is the first of the flags (RFC 3225 §3).
        Form::DnssecOk => message.extend_from_slice(&[0, 0, 41, 0x10, 0x00, 0, 0, 0x80, 0, 0, 0]),
    }
    Some(message)
}

fn type_code(name: &str) -> Option<u8> {
    match name {
        "A" => Some(1),
        "NS" => Some(2),
        "CNAME" => Some(5),
        "SOA" => Some(6),
        "PTR" => Some(12),
        "MX" => Some(15),
        "TXT" => Some(16),
        "AAAA" => Some(28),
        "HTTPS" => Some(65),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_answered_with_one_address() {
        let mut buffer = query("a.test A", Form::Edns).unwrap();
        let length = buffer.len();
        buffer.resize(512, 0);
        let end = answer_in_place(&mut buffer, length).unwrap();
        assert_eq!(buffer[2..12], [0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]);
        assert_eq!(buffer[end - 4..end], [192, 0, 2, 1]);
        assert_eq!(end, 12 + 8 + 4 + ANSWER.len());
    }

    #[test]
    fn what_is_no_query_is_not_answered() {
        for bad in [&b"\0"[..], &[0; 12], &[0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 63, 1]] {
            let mut buffer = [0; 64];
            buffer[..bad.len()].copy_from_slice(bad);
            assert_eq!(answer_in_place(&mut buffer, bad.len()), None);
        }
    }

    #[test]
    fn queries_name_their_type() {
        assert_eq!(
            query("a.test. AAAA", Form::Plain).unwrap()[12..],
            *b"\x01a\x04test\0\0\x1c\0\x01"
        );
        assert_eq!(query("a.test NOSUCH", Form::Plain), None);
        assert_eq!(query("a.test", Form::Plain), None);
    }
}
