//! The corpus of the fuzz target `expression`, replayed.

mod invariants;

#[test]
fn the_corpus_holds() {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/expression");
    let mut replayed = 0;
    for entry in std::fs::read_dir(corpus).expect("the corpus is in the repository") {
        let input = std::fs::read(entry.expect("an entry").path()).expect("a file");
        invariants::hold(&input);
        replayed += 1;
    }
    assert!(replayed > 0);
}
