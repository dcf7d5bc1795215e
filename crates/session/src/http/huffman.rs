//! The Huffman code of header fields (RFC 7541 §5.2, Appendix B).
//!
//! The code is canonical: within a length, codes ascend with their symbols. So the lengths of
//! Appendix B determine all codes, and the decoder finds a symbol by the length of its code. A
//! state machine of many kilobytes would displace other data from the processor's cache.

/// Number of symbols: all octets, and the end of a string.
const SYMBOLS: usize = 257;
/// The symbol that ends a string. An encoder must not write it (RFC 7541 §5.2).
const END: u16 = 256;
/// Number of bits of the longest code.
const MAX_BITS: usize = 30;
/// Maximum number of bits of padding.
const MAX_PADDING: u32 = 7;

/// The length of the code of each symbol.
const LENGTHS: [u8; SYMBOLS] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28,
    28, 28, 28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5,
    5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6,
    6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22,
    23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22,
    21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20,
    22, 22, 22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19,
    21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22,
    22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, 30,
];

/// The codes of one length.
#[derive(Clone, Copy)]
struct OfLength {
    /// The code after the last code of this length, shifted to the most significant bits.
    end: u64,
    /// The first code of this length.
    first: u32,
    /// The index in [`TABLE`] at which the symbols with codes of this length begin.
    place: u16,
}

struct CodeTable {
    lengths: [OfLength; MAX_BITS + 1],
    /// The symbols by length, and within a length in order.
    symbols: [u16; SYMBOLS],
}

static TABLE: CodeTable = table();

const fn table() -> CodeTable {
    let none = OfLength { end: 0, first: 0, place: 0 };
    let mut table = CodeTable { lengths: [none; MAX_BITS + 1], symbols: [0; SYMBOLS] };
    let (mut bits, mut code, mut place) = (1, 0u32, 0);
    while bits <= MAX_BITS {
        code <<= 1;
        table.lengths[bits] = OfLength { end: 0, first: code, place: place as u16 };
        let mut symbol = 0;
        while symbol < SYMBOLS {
            if LENGTHS[symbol] as usize == bits {
                table.symbols[place] = symbol as u16;
                place += 1;
                code += 1;
            }
            symbol += 1;
        }
        table.lengths[bits].end = (code as u64) << (64 - bits);
        // The longest codes use up the code space: `end` is 2 to the 64th.
        if bits == MAX_BITS {
            table.lengths[bits].end = u64::MAX;
        }
        bits += 1;
    }
    table
}

/// The error that a string is not a valid Huffman code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadCode;

/// Decodes `coded` and appends the result to `out`: at most eight octets for each five octets of
/// `coded`.
pub(crate) fn decode(coded: &[u8], out: &mut Vec<u8>) -> Result<(), BadCode> {
    // The next bits. The first of them is the most significant bit of `window`.
    let (mut window, mut bits) = (0u64, 0u32);
    let mut rest = coded.iter();
    loop {
        while bits <= 56
            && let Some(octet) = rest.next()
        {
            window |= u64::from(*octet) << (56 - bits);
            bits += 8;
        }
        if bits == 0 {
            return Ok(());
        }
        if bits <= MAX_PADDING && window == !0 << (64 - bits) {
            return Ok(());
        }
        let (symbol, used) = next(window)?;
        if symbol == END || used > bits {
            return Err(BadCode);
        }
        out.push(symbol as u8);
        window <<= used;
        bits -= used;
    }
}

/// Returns the first symbol and the number of bits of its code.
fn next(window: u64) -> Result<(u16, u32), BadCode> {
    /// Number of bits of the shortest code.
    const MIN_BITS: usize = 5;
    for bits in MIN_BITS..=MAX_BITS {
        let OfLength { end, first, place } = TABLE.lengths[bits];
        if window < end {
            let above = (window >> (64 - bits)) as u32 - first;
            let symbol = TABLE.symbols.get(usize::from(place) + above as usize);
            return Ok((*symbol.ok_or(BadCode)?, bits as u32));
        }
    }
    // Only thirty bits of one are left: the code of the symbol that ends a string.
    Err(BadCode)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(coded: &[u8], expected: Result<&[u8], BadCode>) {
        let mut out = Vec::new();
        let result = decode(coded, &mut out).map(|()| out.as_slice());
        assert_eq!(result, expected, "{coded:x?}");
    }

    #[test]
    fn the_examples_of_the_rfc_are_read() {
        // The examples of RFC 7541 C.4.1, C.4.2 and C.6.1.
        check(
            &[0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff],
            Ok(b"www.example.com"),
        );
        check(&[0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf], Ok(b"no-cache"));
        check(&[0x64, 0x02], Ok(b"302"));
        check(b"", Ok(b""));
    }

    #[test]
    fn each_symbol_has_its_own_code() {
        for symbol in 0..=255u8 {
            let bits = usize::from(LENGTHS[usize::from(symbol)]);
            let of_length = TABLE.lengths[bits];
            let of_symbol = TABLE.symbols.iter().position(|one| *one == symbol.into()).unwrap();
            let code = of_length.first + (of_symbol - usize::from(of_length.place)) as u32;
            let padded = u64::from(code) << (64 - bits) | u64::MAX >> bits;
            check(&padded.to_be_bytes()[..bits.div_ceil(8)], Ok(&[symbol]));
        }
    }

    #[test]
    fn padding_and_the_end_are_checked() {
        // Padding of a whole octet, padding with zeros, and the symbol that ends a string.
        for coded in [&[0xff][..], &[0x64, 0x02, 0xff], &[0x64, 0x02, 0x00], &[0xff; 4], &[0xff; 9]]
        {
            check(coded, Err(BadCode));
        }
    }
}
