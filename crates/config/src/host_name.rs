//! Host names in the form of certificates.

/// Length of the longest host name in octets (RFC 1035 §2.3.4).
const MAX_HOST_NAME: usize = 253;

/// Returns a host name in lower case without final dot; `None` if the text is no host name.
pub(super) fn host_name(text: &str) -> Option<String> {
    let name = text.trim_end_matches('.').to_ascii_lowercase();
    let labels = name.strip_prefix("*.").unwrap_or(&name);
    let is_label = |label: &str| {
        let is_octet = |octet: u8| octet.is_ascii_alphanumeric() || b"-_".contains(&octet);
        !label.is_empty() && label.len() <= 63 && label.bytes().all(is_octet)
    };
    (name.len() <= MAX_HOST_NAME && labels.split('.').all(is_label)).then_some(name)
}
