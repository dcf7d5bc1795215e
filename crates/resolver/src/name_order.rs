//! The canonical order of names (RFC 4034 §6.1), as octet strings that can be compared.

use avocet_wire::name;

/// Maximum number of labels of a name of 255 octets, without the root.
const MAX_LABELS: usize = 127;

/// Converts a name so that comparing octets gives the canonical order (RFC 4034 §6.1). The labels
/// are reversed, and a value lower than any octet ends each label.
pub(crate) fn order(wire: &[u8]) -> Vec<u8> {
    let (mut starts, mut count, mut at) = ([0; MAX_LABELS], 0, 0);
    for (start, label) in starts.iter_mut().zip(name::labels(wire)) {
        (*start, count) = (at as u8, count + 1);
        at += 1 + label.len();
    }
    let mut key = Vec::with_capacity(2 * wire.len());
    let labels = starts[..count]
        .iter()
        .rev()
        .filter_map(|&start| name::labels(&wire[usize::from(start)..]).next());
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
