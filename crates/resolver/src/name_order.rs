//! The canonical order of names (RFC 4034 §6.1), as octet strings that can be compared.

use avocet_wire::name;

/// Converts a name so that comparing octets gives the canonical order (RFC 4034 §6.1). The labels
/// are reversed, and a value lower than any octet ends each label.
pub(crate) fn order(wire: &[u8]) -> Vec<u8> {
    let mut labels: Vec<&[u8]> = name::labels(wire).collect();
    labels.reverse();
    let mut key = Vec::with_capacity(2 * wire.len());
    for label in labels {
        for &octet in label {
            key.push(octet.to_ascii_lowercase());
            if octet == 0 {
                key.push(1);
            }
        }
        key.extend([0, 0]);
    }
    key
}
