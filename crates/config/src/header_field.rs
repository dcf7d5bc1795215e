//! The header fields of requests, in the form of the files of `headers-file`.

use std::fmt;

use zeroize::Zeroizing;

/// Maximum number of header fields of a file.
pub const MAX_HEADER_FIELDS: usize = 16;
/// Maximum number of octets of a header field.
const MAX_HEADER: usize = 8_192;
/// Fields that the server sets itself.
const OWN_HEADERS: [&str; 7] = [
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "host",
    "transfer-encoding",
    "upgrade",
];

/// A header field with a secret value.
#[derive(Clone, PartialEq, Eq)]
pub struct HeaderField {
    /// The name of the header field, in lower case.
    pub name: String,
    /// The value of the header field.
    pub value: Zeroizing<String>,
}

impl HeaderField {
    /// Reads a header field (RFC 9110 §5.5 and §5.6.2).
    ///
    /// # Errors
    /// The reason why the line is not a header field. The reason contains no part of the line.
    pub fn read(line: &str) -> Result<Self, &'static str> {
        let (name, value) =
            line.split_once(':').ok_or("expected a field such as \"Authorization: Bearer ...\"")?;
        let (name, value) = (name.to_ascii_lowercase(), value.trim());
        let is_token =
            |octet: u8| octet.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&octet);
        if name.is_empty() || !name.bytes().all(is_token) {
            return Err("the name of the field is not a token");
        }
        if OWN_HEADERS.contains(&name.as_str()) {
            return Err("the server sets this field itself");
        }
        let is_plain = value.bytes().all(|octet| octet.is_ascii_graphic() || octet == b' ');
        if value.is_empty() || !is_plain || line.len() > MAX_HEADER {
            return Err("the value of the field is empty, too long, or not ASCII");
        }
        Ok(Self { name, value: Zeroizing::new(value.to_owned()) })
    }
}

impl fmt::Debug for HeaderField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The value is secret and is not shown.
        self.name.fmt(f)
    }
}
