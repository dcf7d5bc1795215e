//! Record data that is almost well-formed.

use avocet_wire::rdata::from_mnemonic;
use data_encoding::HEXUPPER;
use proptest::prelude::*;

use super::table::CASES;

/// Generates the octets of a case with some of them replaced, removed or inserted.
pub(crate) fn mutated() -> impl Strategy<Value = (u16, Vec<u8>)> {
    let edits = prop::collection::vec((any::<prop::sample::Index>(), 0..5_u8, any::<u8>()), 1..4);
    (prop::sample::select(CASES), edits).prop_map(|((mnemonic, _, octets, _), edits)| {
        let mut rdata = HEXUPPER.decode(octets.as_bytes()).unwrap();
        for (place, edit, octet) in edits {
            let at = place.index(rdata.len() + 1);
            match edit {
                0 => rdata.insert(at, octet),
                1 if at < rdata.len() => drop(rdata.remove(at)),
                2 if at < rdata.len() => rdata[at] = rdata[at].wrapping_add(1),
                3 if at < rdata.len() => rdata[at] = octet,
                _ => rdata.truncate(at),
            }
        }
        (from_mnemonic(mnemonic).unwrap(), rdata)
    })
}
