//! Properties of arbitrary octets, checked by the tests and the fuzz target `presentation`.

use avocet_wire::canonical::{append_rdata, compare_rdata};
use avocet_wire::rdata::{check, display, expand, from_mnemonic, parse};

const ROOT: &[u8] = &[0];

/// Checks the input as a type with its data in wire form, and as a line `TYPE DATA`.
pub(crate) fn hold(input: &[u8]) {
    if let Some((rtype, rdata)) = input.split_first_chunk() {
        wire_holds(u16::from_be_bytes(*rtype), rdata);
    }
    if let Ok(line) = str::from_utf8(input) {
        text_holds(line);
    }
}

/// Checks that nothing panics, that well-formed data has no pointers, and that its text parses to
/// the same data.
pub(crate) fn wire_holds(rtype: u16, rdata: &[u8]) {
    let text = display(rtype, rdata).to_string();
    let mut canonical = Vec::new();
    append_rdata(rtype, rdata, &mut canonical);
    assert_eq!(canonical.len(), rdata.len());
    assert!(compare_rdata(rtype, rdata, &canonical).is_eq());
    let mut out = vec![0; rdata.len() + 3 * 255];
    let expanded = expand(rtype, rdata, 0, rdata.len(), &mut out);
    if check(rtype, rdata).is_ok() {
        assert_eq!(expanded.map(|len| &out[..len]), Ok(rdata));
        let mut back = Vec::new();
        let parsed = parse(rtype, &text, ROOT, &mut back);
        assert_eq!(parsed, Ok(()), "type {rtype}: {text}");
        assert_eq!(back, rdata, "type {rtype}: {text}");
    }
}

/// Checks that nothing panics, that parsed data is well-formed, and that its text parses to the
/// same data.
pub(crate) fn text_holds(line: &str) {
    let (mnemonic, text) = line.split_once(' ').unwrap_or((line, ""));
    let Some(rtype) = from_mnemonic(mnemonic) else { return };
    let mut rdata = Vec::new();
    match parse(rtype, text, ROOT, &mut rdata) {
        Ok(()) => {
            assert_eq!(check(rtype, &rdata), Ok(()), "{line}");
            wire_holds(rtype, &rdata);
        }
        Err(_) => assert!(rdata.is_empty(), "{line}"),
    }
}
