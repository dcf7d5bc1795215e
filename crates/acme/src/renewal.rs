//! The renewal information of an authority: when a certificate should be renewed (RFC 9773, ARI).

use data_encoding::BASE64URL_NOPAD;

use crate::der::{self, INTEGER, OCTET_STRING, OID, SEQUENCE, constructed, primitive};
use crate::error::AcmeError;
use crate::message::RenewalInfo;
use crate::requests::{Authority, Received};
use crate::world::World;

/// `authorityKeyIdentifier` (RFC 5280 §4.2.1.1).
const AUTHORITY_KEY: [u8; 3] = [0x55, 0x1d, 0x23];
/// Maximum number of extensions of a certificate that are read.
const MAX_EXTENSIONS: usize = 64;

/// The period in which a certificate should be renewed, in Unix seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// The first second of the period.
    pub start: u64,
    /// The last second of the period.
    pub end: u64,
    /// The number of seconds after which to request the window again.
    pub again_secs: u64,
}

/// Bounds of the time between two requests for renewal information, in seconds (RFC 9773 §4.3).
const AGAIN_SECS: (u64, u64) = (3_600, 86_400);
/// Number of seconds until the next request for renewal information, if the authority states none.
const DEFAULT_AGAIN_SECS: u64 = 21_600;

/// Returns the identifier of a certificate in DER (RFC 9773 §4.1), made of the key identifier of
/// its authority and its serial number. Returns `None` if the certificate lacks one of them.
pub fn identifier(certificate: &[u8]) -> Option<String> {
    let signed = der::expect(der::expect(certificate, SEQUENCE)?.content, SEQUENCE)?.content;
    let after_version = der::expect(signed, constructed(0)).map_or(signed, |field| field.rest);
    let serial = der::expect(after_version, INTEGER)?;
    let mut rest = serial.rest;
    // The algorithm, the issuer, the validity, the subject and the key precede the extensions.
    let extensions = loop {
        let field = der::read(rest)?;
        if field.tag == constructed(3) {
            break der::expect(field.content, SEQUENCE)?.content;
        }
        rest = field.rest;
    };
    let key = authority_key(extensions)?;
    let (key, serial) = (BASE64URL_NOPAD.encode(key), BASE64URL_NOPAD.encode(serial.content));
    Some(format!("{key}.{serial}"))
}

fn authority_key(mut extensions: &[u8]) -> Option<&[u8]> {
    for _ in 0..MAX_EXTENSIONS {
        let extension = der::expect(extensions, SEQUENCE)?;
        extensions = extension.rest;
        let kind = der::expect(extension.content, OID)?;
        if kind.content != AUTHORITY_KEY {
            continue;
        }
        // The flag `critical` may precede the value.
        let first = der::read(kind.rest)?;
        let value = if first.tag == OCTET_STRING { first } else { der::read(first.rest)? };
        let facts = der::expect(value.content, SEQUENCE)?;
        return Some(der::expect(facts.content, primitive(0))?.content);
    }
    None
}

/// Requests the time in which a certificate should be renewed. Returns `None` if the authority
/// offers no such time.
///
/// # Errors
/// The authority does not respond, or its response is invalid.
pub fn window<W: World>(
    authority: &mut Authority<'_, W>,
    identifier: &str,
) -> Result<Option<Window>, AcmeError> {
    let step = "the request for the time of renewal";
    let Some(url) = authority.directory.renewal_info.clone() else { return Ok(None) };
    let url = format!("{}/{identifier}", url.trim_end_matches('/'));
    let received: Received<RenewalInfo> = authority.get(step, url)?;
    let suggested = received.value.suggested_window;
    let invalid = || AcmeError::Invalid { step, what: "its window is no time".to_owned() };
    let start = unix_secs(&suggested.start).ok_or_else(invalid)?;
    let end = unix_secs(&suggested.end).ok_or_else(invalid)?;
    if end < start {
        return Err(invalid());
    }
    let again_secs = received.retry_after_secs.unwrap_or(DEFAULT_AGAIN_SECS);
    Ok(Some(Window { start, end, again_secs: again_secs.clamp(AGAIN_SECS.0, AGAIN_SECS.1) }))
}

fn unix_secs(text: &str) -> Option<u64> {
    let time: jiff::Timestamp = text.parse().ok()?;
    u64::try_from(time.as_second()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_rfc_3339_are_read() {
        assert_eq!(unix_secs("2025-01-02T04:00:00Z"), Some(1_735_790_400));
        assert_eq!(unix_secs("2025-01-02T05:00:00+01:00"), Some(1_735_790_400));
        assert_eq!(unix_secs("1925-01-02T05:00:00Z"), None);
        assert_eq!(unix_secs("soon"), None);
    }

    #[test]
    fn the_identifier_is_that_of_the_example_in_the_rfc() {
        // The key identifier and serial number of the example in RFC 9773 §4.1, in a certificate
        // with only the fields that the reader needs.
        let key = [
            0x69, 0x88, 0x5b, 0x6b, 0x87, 0x46, 0x40, 0x41, 0xe1, 0xb3, 0x7b, 0x84, 0x7b, 0xa0,
            0xae, 0x2c, 0xde, 0x01, 0xc8, 0xd4,
        ];
        let value = der::nested(SEQUENCE, &[&der::write(primitive(0), &key)]);
        let extension = der::nested(
            SEQUENCE,
            &[&der::write(OID, &AUTHORITY_KEY), &der::write(OCTET_STRING, &value)],
        );
        let extensions = der::nested(constructed(3), &[&der::nested(SEQUENCE, &[&extension])]);
        let serial = der::write(INTEGER, &[0, 0x87, 0x65, 0x43, 0x21]);
        let signed = der::nested(SEQUENCE, &[&serial, &extensions]);
        let certificate = der::nested(SEQUENCE, &[&signed]);
        let expected = "aYhba4dGQEHhs3uEe6CuLN4ByNQ.AIdlQyE";
        assert_eq!(identifier(&certificate).as_deref(), Some(expected));
        for len in 0..certificate.len() {
            assert_eq!(identifier(&certificate[..len]), None, "cut at {len}");
        }
    }
}
