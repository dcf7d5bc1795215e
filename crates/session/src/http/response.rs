//! The fields of a response in HTTP/2, without any table: what every client understands.

use super::hpack;
use super::request::{MEDIA_TYPE, Status, max_age};

/// Names in the static table (RFC 7541 Appendix A).
const STATUS: u8 = 8;
const ALLOW: u8 = 22;
const CACHE_CONTROL: u8 = 24;
const CONTENT_LENGTH: u8 = 28;
const CONTENT_TYPE: u8 = 31;
/// `:status: 200` in the static table.
const OK: u8 = 0x88;

/// Appends the fields of the response to a request; with status 200 its body is `message`.
pub(super) fn write_fields(status: Status, message: &[u8], out: &mut Vec<u8>) {
    if status != Status::Ok {
        hpack::write(STATUS, status.digits().as_bytes(), out);
        if status == Status::BadMethod {
            hpack::write(ALLOW, b"GET, HEAD, POST", out);
        }
        return;
    }
    const MAX_AGE: &[u8] = b"max-age=";
    let mut digits = [0; 10];
    out.push(OK);
    hpack::write(CONTENT_TYPE, MEDIA_TYPE, out);
    hpack::write(CONTENT_LENGTH, decimal(message.len() as u32, &mut digits), out);
    let mut value = [0; 18];
    let age = decimal(max_age(message), &mut digits);
    let len = MAX_AGE.len() + age.len();
    value[..MAX_AGE.len()].copy_from_slice(MAX_AGE);
    value[MAX_AGE.len()..len].copy_from_slice(age);
    hpack::write(CACHE_CONTROL, &value[..len], out);
}

/// Writes a number in decimal digits.
pub(super) fn decimal(mut value: u32, digits: &mut [u8; 10]) -> &[u8] {
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            return &digits[at..];
        }
    }
}
