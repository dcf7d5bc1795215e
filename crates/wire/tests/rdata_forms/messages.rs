//! Record data copied from messages.

use avocet_wire::name::NameError;
use avocet_wire::rdata::{NameLayout, Problem, compressible_names, expand, from_mnemonic};

/// Returns a header and the name `example.com.` at offset 12, to which the data points.
fn message(rdata: &[u8]) -> Vec<u8> {
    [&[0; 12], &b"\x07example\x03com\0"[..], rdata, b"after"].concat()
}

/// Offset of the data in [`message`].
const START: usize = 25;

fn expanded(mnemonic: &str, rdata: &[u8]) -> Result<Vec<u8>, Problem> {
    let mut out = [0; 1024];
    let rtype = from_mnemonic(mnemonic).unwrap();
    let len = expand(rtype, &message(rdata), START, rdata.len(), &mut out);
    len.map(|len| out[..len].to_vec()).map_err(|error| error.problem)
}

fn check(mnemonic: &str, rdata: &[u8], expected: &[u8]) {
    assert_eq!(expanded(mnemonic, rdata).as_deref(), Ok(expected), "{mnemonic}");
}

#[test]
fn names_are_expanded_in_the_types_that_may_have_pointers() {
    const NAME: &[u8] = b"\x07example\x03com\0";
    for mnemonic in ["NS", "MD", "MF", "CNAME", "MB", "MG", "MR", "PTR"] {
        check(mnemonic, b"\xc0\x0c", NAME);
    }
    for mnemonic in ["MX", "AFSDB", "RT"] {
        check(mnemonic, b"\0\x0a\x02mx\xc0\x0c", &[b"\0\x0a\x02mx", NAME].concat());
    }
    for mnemonic in ["MINFO", "RP"] {
        check(mnemonic, b"\x01a\xc0\x0c\xc0\x14", &[b"\x01a", NAME, b"\x03com\0"].concat());
    }
    let soa = b"\xc0\x0c\x01h\xc0\x0c01234567890123456789";
    check("SOA", soa, &[NAME, b"\x01h", NAME, b"01234567890123456789"].concat());
    check("SRV", b"012345\xc0\x0c", &[b"012345", NAME].concat());
    check("PX", b"01\xc0\x0c\xc0\x0c", &[b"01", NAME, NAME].concat());
    check("NXT", b"\xc0\x0c\x40", &[NAME, b"\x40"].concat());
    let naptr = b"0123\x01S\x00\x03a.b";
    check("NAPTR", &[&naptr[..], b"\xc0\x0c"].concat(), &[&naptr[..], NAME].concat());
    check("SIG", &[&[1; 18][..], b"\xc0\x0csig"].concat(), &[&[1; 18][..], NAME, b"sig"].concat());
}

#[test]
fn all_other_data_is_copied_as_it_is() {
    for mnemonic in ["A", "AAAA", "TXT", "DNAME", "RRSIG", "NSEC", "KX", "SVCB", "TYPE65400"] {
        check(mnemonic, b"\xc0\x0c", b"\xc0\x0c");
        check(mnemonic, b"", b"");
    }
}

#[test]
fn names_must_lie_within_the_data() {
    let short = Err(Problem::Name(NameError::Short));
    assert_eq!(expanded("NS", b"\x05aft"), short);
    assert_eq!(expanded("NS", b"\xc0"), short);
    assert_eq!(expanded("NS", b""), short);
    assert_eq!(expanded("MX", b"\0"), Err(Problem::Missing));
    assert_eq!(expanded("PX", b"\0\x0a\0"), short);
    assert_eq!(expanded("NAPTR", b"0123\x09S"), Err(Problem::Missing));
    assert_eq!(expanded("NAPTR", b"0123\x01S\0\0"), short);
}

#[test]
fn pointers_lead_backwards_only() {
    let pointer = Err(Problem::Name(NameError::Pointer));
    for rdata in [b"\xc0\x19", b"\xc0\x1a", b"\xc0\x1b", b"\xff\xff"] {
        assert_eq!(expanded("NS", rdata), pointer);
    }
    assert_eq!(expanded("MINFO", b"\x01a\xc0\x1d\xc0\x19"), pointer);
}

#[test]
fn names_that_grow_too_long_by_a_pointer_are_refused() {
    let labels = b"\x3f".iter().chain([b'a'; 63].iter()).copied().collect::<Vec<u8>>().repeat(3);
    let fits = [&labels[..], b"\x2e", &[b'b'; 46], b"\xc0\x0c"].concat();
    assert_eq!(expanded("NS", &fits).map(|name| name.len()), Ok(252));
    let long = [&labels[..], b"\x32", &[b'b'; 50], b"\xc0\x0c"].concat();
    assert_eq!(expanded("NS", &long), Err(Problem::Name(NameError::TooLong)));
}

#[test]
fn a_long_chain_of_pointers_ends_with_an_error() {
    let mut message = vec![0; 12];
    message.push(0);
    for target in 0..200_u16 {
        let place = if target == 0 { 12 } else { 13 + 2 * (target - 1) };
        message.extend_from_slice(&(0xc000 | place).to_be_bytes());
    }
    let mut out = [0; 255];
    let at = message.len() - 2;
    let error = expand(2, &message, at, 2, &mut out).unwrap_err();
    assert_eq!(error.problem, Problem::Name(NameError::Pointer));
    assert_eq!(expand(2, &message, 13 + 2 * 100, 2, &mut out), Ok(1));
}

#[test]
fn data_outside_of_the_message_and_buffers_too_small_are_refused() {
    let message = message(b"\xc0\x0c");
    let mut out = [0; 12];
    for (start, len) in [(START, 100), (1000, 0), (usize::MAX, 2), (2, usize::MAX)] {
        assert_eq!(
            expand(1, &message, start, len, &mut out).unwrap_err().problem,
            Problem::Missing
        );
    }
    assert_eq!(expand(2, &message, START, 2, &mut out).unwrap_err().problem, Problem::TooLong);
    assert_eq!(expand(16, &message, 0, 13, &mut out).unwrap_err().problem, Problem::TooLong);
}

#[test]
fn only_names_of_rfc_1035_are_compressed_when_sent() {
    let layout = |mnemonic| compressible_names(from_mnemonic(mnemonic).unwrap());
    for mnemonic in ["NS", "MD", "MF", "CNAME", "MB", "MG", "MR", "PTR"] {
        assert_eq!((layout(mnemonic).prefix, layout(mnemonic).names), (0, 1), "{mnemonic}");
    }
    assert_eq!((layout("MX").prefix, layout("MX").names), (2, 1));
    assert_eq!((layout("SOA").prefix, layout("SOA").names), (0, 2));
    assert_eq!((layout("MINFO").prefix, layout("MINFO").names), (0, 2));
    let all = (0..=u16::MAX).filter(|rtype| compressible_names(*rtype) != NameLayout::NONE);
    assert_eq!(all.count(), 11);
}
