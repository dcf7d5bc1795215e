//! Integers of variable length: seven bits per octet, the low bits first.

/// Appends a number in this form.
pub(crate) fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends a signed number. Numbers with small magnitudes are short.
pub(crate) fn put_signed(out: &mut Vec<u8>, number: i64) {
    put(out, (number << 1 ^ number >> 63) as u64);
}

/// Removes a number from the start of `octets`. Returns `None` if it is incomplete or too long.
pub(crate) fn take(octets: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (octet, rest) = octets.split_first()?;
        *octets = rest;
        number |= u64::from(octet & 0x7f) << shift;
        if octet & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// Removes a signed number from the start of `octets`. Returns `None` if it is incomplete or too
/// long.
pub(crate) fn take_signed(octets: &mut &[u8]) -> Option<i64> {
    take(octets).map(|number| (number >> 1) as i64 ^ -((number & 1) as i64))
}

/// Removes a number from the start of `octets`, and as many octets as it says; returns these
/// octets.
pub(crate) fn take_octets<'a>(octets: &mut &'a [u8]) -> Option<&'a [u8]> {
    let count = usize::try_from(take(octets)?).ok()?;
    let (taken, rest) = octets.split_at_checked(count)?;
    *octets = rest;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_survive(numbers: Vec<u64>) {
            let mut octets = Vec::new();
            for number in &numbers {
                put(&mut octets, *number);
                put_signed(&mut octets, *number as i64);
            }
            let mut rest = octets.as_slice();
            for number in &numbers {
                prop_assert_eq!(take(&mut rest), Some(*number));
                prop_assert_eq!(take_signed(&mut rest), Some(*number as i64));
            }
            prop_assert!(rest.is_empty());
        }

        #[test]
        fn no_octets_cause_a_panic(octets: Vec<u8>) {
            let mut rest = octets.as_slice();
            while take_octets(&mut rest).is_some() {}
        }
    }
}
