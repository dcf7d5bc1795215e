//! Copies and comparisons of strings that are mostly short, such as names, labels and addresses.
//!
//! For a few octets, a call into the C library takes longer than the copy itself, because the
//! library first dispatches on the length. Up to 32 octets are moved or compared here as two words
//! or blocks that overlap where the length requires it. Longer strings go to the library.

/// Copies `source` to `target`, which has the same length.
///
/// # Panics
/// The lengths differ.
#[inline]
pub fn copy(source: &[u8], target: &mut [u8]) {
    assert_eq!(source.len(), target.len(), "as many octets as there is room for");
    if source.len() > 32 {
        target.copy_from_slice(source);
    } else if !(copy_ends::<16>(source, target)
        || copy_ends::<8>(source, target)
        || copy_ends::<4>(source, target))
    {
        for (place, octet) in target.iter_mut().zip(source) {
            *place = *octet;
        }
    }
}

/// Reports whether the two strings are equal.
#[inline]
#[must_use]
pub fn same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    if a.len() > 32 {
        return a == b;
    }
    same_ends::<16>(a, b)
        .or_else(|| same_ends::<8>(a, b))
        .or_else(|| same_ends::<4>(a, b))
        .unwrap_or_else(|| a.iter().zip(b).all(|(x, y)| x == y))
}

/// Copies the first and the last `N` octets, which together cover a string of up to `2 * N` octets.
/// Returns false if the string is shorter than `N` octets.
#[inline(always)]
fn copy_ends<const N: usize>(source: &[u8], target: &mut [u8]) -> bool {
    let (Some(first), Some(last)) = (source.first_chunk::<N>(), source.last_chunk::<N>()) else {
        return false;
    };
    if let Some(place) = target.first_chunk_mut() {
        *place = *first;
    }
    if let Some(place) = target.last_chunk_mut() {
        *place = *last;
    }
    true
}

/// Compares the first and the last `N` octets. Returns `None` if the strings are shorter than `N`
/// octets.
#[inline(always)]
fn same_ends<const N: usize>(a: &[u8], b: &[u8]) -> Option<bool> {
    let same =
        a.first_chunk::<N>()? == b.first_chunk()? && a.last_chunk::<N>()? == b.last_chunk()?;
    Some(same)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_is_copied_whole_and_nothing_beside_it() {
        let octets: Vec<u8> = (1..=80).collect();
        for len in 0..80 {
            let mut target = [0; 80];
            copy(&octets[..len], &mut target[..len]);
            assert_eq!(
                (&target[..len], target[len..].iter().any(|octet| *octet != 0)),
                (&octets[..len], false)
            );
        }
    }

    #[test]
    fn a_difference_is_seen_at_every_place_and_length() {
        for len in 0..80 {
            let octets = vec![7; len];
            assert!(same(&octets, &octets.clone()));
            assert!(!same(&octets, &[&octets[..], &[7]].concat()));
            for place in 0..len {
                let mut other = octets.clone();
                other[place] ^= 1;
                assert!(!same(&octets, &other), "{place} of {len}");
            }
        }
    }
}
