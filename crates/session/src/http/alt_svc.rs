//! The header field `alt-svc` (RFC 7838), by which a server announces HTTP/3.
//!
//! Only alternatives at the same host count: another host would be an upstream that the operator
//! has not chosen.

/// Number of seconds for which an alternative is valid if the server does not state it (RFC 7838
/// §3.1). Longer periods are cut to this value.
const MAX_AGE_SECS: u32 = 86_400;
/// Maximum number of octets of a field value.
const MAX_VALUE: usize = 1_024;
/// Maximum number of alternatives in a value.
const MAX_ALTERNATIVES: usize = 16;

/// A server's announcement of HTTP/3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AltSvc {
    /// The server no longer offers an alternative.
    Clear,
    /// The server offers HTTP/3 at this UDP port of the same host.
    H3 {
        /// The port, never 0.
        port: u16,
        /// The number of seconds for which the announcement is valid.
        max_age_secs: u32,
    },
}

impl AltSvc {
    /// Reads the value of the field in a response of `host`, a name without port. Returns `None` if
    /// the value does not mention HTTP/3, or cannot be read.
    pub fn read(value: &[u8], host: &str) -> Option<Self> {
        let text = value.get(..value.len().min(MAX_VALUE)).and_then(|one| str::from_utf8(one).ok());
        let text = text.filter(|_| value.len() <= MAX_VALUE)?.trim_matches(is_space);
        if text == "clear" {
            return Some(Self::Clear);
        }
        split(text, ',').take(MAX_ALTERNATIVES).find_map(|one| alternative(one, host))
    }
}

fn is_space(one: char) -> bool {
    matches!(one, ' ' | '\t')
}

/// Splits a text at a character outside of quotes. Escapes are not supported, because no value with
/// an escape is used.
fn split(text: &str, at: char) -> impl Iterator<Item = &str> {
    let mut is_quoted = false;
    text.split(move |one| {
        is_quoted ^= one == '"';
        one == at && !is_quoted
    })
    .map(|part| part.trim_matches(is_space))
}

/// Reads `h3="HOST:PORT"; ma=SECONDS`.
fn alternative(text: &str, host: &str) -> Option<AltSvc> {
    let mut parts = split(text, ';');
    let authority = parts.next()?.strip_prefix("h3=")?;
    let authority = authority.strip_prefix('"')?.strip_suffix('"')?;
    let (named, port) = authority.rsplit_once(':')?;
    let is_same = named.is_empty() || named.eq_ignore_ascii_case(host);
    let is_number = !port.is_empty() && port.bytes().all(|octet| octet.is_ascii_digit());
    let port = port.parse().ok().filter(|port| *port != 0 && is_same && is_number)?;
    let mut max_age_secs = MAX_AGE_SECS;
    for part in parts {
        if let Some(written) = part.strip_prefix("ma=") {
            let written = written.trim_matches('"');
            let is_number = !written.is_empty() && written.bytes().all(|one| one.is_ascii_digit());
            // Digits that exceed the type mean a very long time.
            let secs = written.parse().unwrap_or(MAX_AGE_SECS);
            max_age_secs = if is_number { secs.min(MAX_AGE_SECS) } else { return None };
        }
    }
    Some(AltSvc::H3 { port, max_age_secs })
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn h3(port: u16, max_age_secs: u32) -> Option<AltSvc> {
        Some(AltSvc::H3 { port, max_age_secs })
    }

    #[test]
    fn alternatives_at_the_same_host_are_read() {
        for (value, expected) in [
            ("h3=\":443\"; ma=3600", h3(443, 3_600)),
            ("h3=\":443\"", h3(443, MAX_AGE_SECS)),
            ("h3-29=\":443\"; ma=5, h3=\":8443\"; persist=1; ma=7", h3(8_443, 7)),
            ("h2=\"other.example:443\", h3=\"DNS.example:853\";ma=1", h3(853, 1)),
            ("h3=\":443\"; ma=99999999999999999999", h3(443, MAX_AGE_SECS)),
            ("h3=\":443\"; ma=\"60\"", h3(443, 60)),
            ("h3=\":443\"; x=\"a,b;ma=1\"", h3(443, MAX_AGE_SECS)),
            ("h3=\"other.example:443\", h3=\":444\"", h3(444, MAX_AGE_SECS)),
            (" clear ", Some(AltSvc::Clear)),
        ] {
            assert_eq!(AltSvc::read(value.as_bytes(), "dns.example"), expected, "{value}");
        }
    }

    #[test]
    fn everything_else_says_nothing() {
        let long = format!("h3=\":443\"; x=\"{}\"", "a".repeat(MAX_VALUE));
        let many = "h2=\":1\",".repeat(MAX_ALTERNATIVES) + "h3=\":443\"";
        for value in [
            "",
            "h3",
            "h3=",
            "h3=:443",
            "h3=\":443",
            "h3=\"443\"",
            "h3=\":0\"",
            "h3=\":65536\"",
            "h3=\":+443\"",
            "h3=\":\"",
            "h3=\"other.example:443\"",
            "h3=\"\\:443\"",
            "h3=\":443\"; ma=-1",
            "h3=\":443\"; ma=",
            "H3=\":443\"",
            "Clear",
            "\u{e4}",
            &long,
            &many,
        ] {
            assert_eq!(AltSvc::read(value.as_bytes(), "dns.example"), None, "{value}");
        }
        assert_eq!(AltSvc::read(b"h3=\":443\"\xff", "dns.example"), None);
    }

    #[test]
    fn no_octets_are_read_out_of_bounds() {
        let whole = b"h3=\"dns.example:443\"; ma=\"60\", clear, h2=\":1\"";
        for len in 0..whole.len() {
            for octet in [0, b'"', b',', b';', b'=', b':', b'\\', 0xff] {
                let mut value = whole[..len].to_vec();
                value.push(octet);
                value.extend_from_slice(&whole[len..]);
                let _ = AltSvc::read(&value, "dns.example");
                let _ = AltSvc::read(&whole[..len], "");
            }
        }
    }
}
