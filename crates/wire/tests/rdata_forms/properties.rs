//! Properties of arbitrary octets, of arbitrary text, and of data that is almost well-formed.

use proptest::prelude::*;

use super::invariants::{text_holds, wire_holds};
use super::mutation::mutated;
use super::table::CASES;

/// Generates the text of a case with some characters replaced, removed or inserted.
fn mutated_text() -> impl Strategy<Value = String> {
    let spice = "\"\\.;@ =,/:-!0129azAZ\u{e4}\t()*$";
    let spice: Vec<char> = spice.chars().collect();
    let edit = (any::<prop::sample::Index>(), 0..4_u8, prop::sample::select(spice));
    let edits = prop::collection::vec(edit, 1..4);
    (prop::sample::select(CASES), edits).prop_map(|((mnemonic, text, _, _), edits)| {
        let mut line: Vec<char> = text.chars().collect();
        for (place, edit, character) in edits {
            let at = place.index(line.len() + 1);
            match edit {
                0 => line.insert(at, character),
                1 if at < line.len() => drop(line.remove(at)),
                2 if at < line.len() => line[at] = character,
                _ => line.truncate(at),
            }
        }
        format!("{mnemonic} {}", line.into_iter().collect::<String>())
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_octets_of_any_type_hold(
        rtype in prop_oneof![0..270_u16, Just(32_768), any::<u16>()],
        rdata in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        wire_holds(rtype, &rdata);
    }

    #[test]
    fn small_octets_of_structured_types_hold(
        rtype in 1..265_u16,
        rdata in prop::collection::vec(0..4_u8, 0..24),
    ) {
        wire_holds(rtype, &rdata);
    }

    #[test]
    fn nearly_well_formed_octets_hold((rtype, rdata) in mutated()) {
        wire_holds(rtype, &rdata);
    }

    #[test]
    fn nearly_well_formed_text_holds(line in mutated_text()) {
        text_holds(&line);
    }
}
