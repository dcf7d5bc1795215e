//! Compares the image with a plain table of names, on random lists and questions.

use std::collections::{HashMap, HashSet};

use avocet_policy::list::{
    Asker, Compiler, Decision, Format, Image, Kind, ListQuestion, ListSet, Scratch,
};
use avocet_testkit::Chance;
use avocet_wire::{Rtype, name};

use crate::lists::material::{SECRET, list, read, source, wire};

/// Returns a name of one to four labels from a small set, so that names collide.
fn random_name(chance: &mut Chance) -> String {
    let labels = 2 + chance.below(3);
    let label = |chance: &mut Chance| {
        format!("{}{}", ["a", "b", "ads", "x-1"][chance.below(4) as usize], chance.below(9))
    };
    (0..labels).map(|_| label(chance)).collect::<Vec<_>>().join(".")
}

/// List and number of each line.
type Lines = Vec<(usize, u32)>;

/// A plain model of a list.
#[derive(Default)]
struct Model {
    /// Name and whether it covers names below it, with the lines.
    entries: HashMap<(Vec<u8>, bool), Lines>,
}

impl Model {
    fn lines(&self, qname: &[u8], in_force: &HashSet<usize>) -> HashSet<(usize, u32)> {
        let mut lines = HashSet::new();
        for ancestor in name::ancestors(qname) {
            for below in [false, true] {
                if ancestor != qname && !below {
                    continue;
                }
                let found = self.entries.get(&(ancestor.to_vec(), below)).into_iter().flatten();
                lines.extend(found.filter(|(list, _)| in_force.contains(list)));
            }
        }
        lines
    }
}

#[test]
fn the_image_finds_what_a_plain_table_finds() {
    for seed in 0..20 {
        let mut chance = Chance::new(seed);
        let (mut model, mut compiler) = (Model::default(), Compiler::new(SECRET));
        for place in 0..4 {
            let mut text = String::new();
            for line in 1..=chance.below(600) as u32 {
                let (name, below) = (random_name(&mut chance), chance.percent(40));
                model.entries.entry((wire(&name), below)).or_default().push((place, line));
                text += &format!("{}{name}\n", if below { "*." } else { "" });
            }
            let report = read(
                &mut compiler,
                source(place, Kind::Block, Some(Format::Domains)),
                text.as_bytes(),
                1 + seed as usize * 50,
            );
            assert_eq!(report.faults, 0);
        }
        let image = Image::open(compiler.finish().0).unwrap();
        let mut scratch = Scratch::empty();
        for _ in 0..2_000 {
            let in_force: HashSet<usize> = (0..4).filter(|_| chance.percent(60)).collect();
            let qname = wire(&random_name(&mut chance));
            let expected = model.lines(&qname, &in_force);
            let set: ListSet = in_force.iter().map(|place| list(*place)).collect();
            let question = ListQuestion { qname: &qname, qtype: Rtype::A, asker: Asker::default() };
            let found = image.lookup(question, &set, &mut scratch);
            let lines: HashSet<_> =
                found.matches().map(|one| (one.list.place(), one.line)).collect();
            assert_eq!(lines, expected);
            assert_eq!(found.decision() == Decision::Blocked, !expected.is_empty());
        }
    }
}
