//! Serial numbers of zones (RFC 1982).

/// Returns whether a serial is newer than another one. Of two whose difference is exactly 2^31,
/// neither is.
#[must_use]
pub const fn is_newer(serial: u32, than: u32) -> bool {
    serial.wrapping_sub(than).cast_signed() > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serials_wrap() {
        assert!(is_newer(1, 0) && !is_newer(0, 1) && !is_newer(7, 7));
        assert!(is_newer(5, u32::MAX - 5) && !is_newer(u32::MAX - 5, 5));
        assert!(!is_newer(1 << 31, 0) && !is_newer(0, 1 << 31));
        assert!(is_newer((1 << 31) - 1, 0));
    }
}
