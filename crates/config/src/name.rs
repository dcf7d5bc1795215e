//! Domain names and record types as written in the configuration file.

use std::net::IpAddr;

use avocet_wire::name::MAX_NAME;
use avocet_wire::{Rtype, rdata, text};

use super::error::SettingError;
use super::setting::FromText;

/// The root in wire format; names in the file are relative to it.
pub(super) const ROOT: &[u8] = &[0];

/// A name in wire format, in lower case.
pub(super) type Name = Box<[u8]>;

impl FromText for Name {
    const EXPECTED: &'static str = "a name such as \"corp.example\"";

    fn from_text(written: &str) -> Result<Self, Option<SettingError>> {
        if written.is_empty() {
            return Err(None);
        }
        if written.contains(char::is_whitespace) {
            return Err(Some(SettingError::BlankInName(written.to_owned())));
        }
        // Length octets are at most 63, which is below the codes of letters, so they stay
        // unchanged.
        typed_name(written).map(|wire| wire.to_ascii_lowercase().into()).map_err(Some)
    }
}

/// Converts a name as people type it to wire format. Labels in other alphabets become A-labels (RFC
/// 5890 §2.3.2.1); an ASCII name keeps its upper case.
///
/// # Errors
///
/// The text is not a name.
pub fn typed_name(text: &str) -> Result<Box<[u8]>, SettingError> {
    let ascii = if text.is_ascii() { Ok(text.to_owned()) } else { idna::domain_to_ascii(text) };
    let ascii = ascii.map_err(|_| SettingError::InternationalisedName(text.to_owned()))?;
    let mut wire = [0; MAX_NAME];
    let len = text::name_to_wire(ascii.as_bytes(), Some(ROOT), &mut wire)
        .map_err(|source| SettingError::Name { text: text.to_owned(), source })?;
    Ok(wire[..len].into())
}

/// Returns the name as text, with a final dot.
pub fn shown(name: &[u8]) -> String {
    let mut out = String::new();
    // Writing to a `String` cannot fail, and names here are well-formed.
    let _ = text::write_name(name, &mut out);
    out
}

impl FromText for Rtype {
    const EXPECTED: &'static str = "a record type such as \"A\", \"CNAME\" or \"TYPE65280\"";

    fn from_text(written: &str) -> Result<Self, Option<SettingError>> {
        let rtype = rdata::from_mnemonic(written).map(Self).ok_or(None)?;
        if rtype.is_meta() || rtype.0 == 0 {
            return Err(Some(SettingError::MetaType(rtype)));
        }
        Ok(rtype)
    }
}

/// Returns the name under in-addr.arpa or ip6.arpa of an address (RFC 1035 §3.5, RFC 3596 §2.5).
pub fn reverse_name(address: IpAddr) -> Name {
    let mut wire = Vec::with_capacity(74);
    let mut push = |label: &[u8]| {
        wire.push(label.len() as u8);
        wire.extend_from_slice(label);
    };
    match address {
        IpAddr::V4(address) => {
            for octet in address.octets().iter().rev() {
                push(octet.to_string().as_bytes());
            }
            push(b"in-addr");
        }
        IpAddr::V6(address) => {
            for octet in address.octets().iter().rev() {
                push(format!("{:x}", octet & 0xf).as_bytes());
                push(format!("{:x}", octet >> 4).as_bytes());
            }
            push(b"ip6");
        }
    }
    push(b"arpa");
    push(b"");
    wire.into()
}
