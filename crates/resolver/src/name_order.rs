//! The canonical order of names (RFC 4034 §6.1) as octets to compare.

use avocet_wire::name;

/// Returns octets that compare like names in canonical order (RFC 4034 §6.1): labels from the root,
/// each ended by a value below any octet.
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
