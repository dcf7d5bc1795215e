//! Cycles among imports: the strongly connected components, found by Tarjan's algorithm.

use super::modules::Imports;

/// Returns the groups of two or more files that depend on one another, the largest first.
pub(super) fn cycles(imports: &Imports) -> Vec<Vec<usize>> {
    let mut search = Search::of(imports);
    for file in 0..imports.len() {
        if search.order[file].is_none() {
            search.visit(file);
        }
    }
    search.found.sort_by_key(|group| std::cmp::Reverse(group.len()));
    search.found
}

struct Search<'a> {
    imports: &'a Imports,
    order: Vec<Option<usize>>,
    low: Vec<usize>,
    stack: Vec<usize>,
    next: usize,
    found: Vec<Vec<usize>>,
}

impl<'a> Search<'a> {
    fn of(imports: &'a Imports) -> Self {
        let (order, low) = (vec![None; imports.len()], vec![0; imports.len()]);
        Self { imports, order, low, stack: Vec::new(), next: 0, found: Vec::new() }
    }

    fn visit(&mut self, file: usize) {
        self.order[file] = Some(self.next);
        self.low[file] = self.next;
        self.next += 1;
        self.stack.push(file);
        for &to in self.imports[file].keys() {
            match self.order[to] {
                None => {
                    self.visit(to);
                    self.low[file] = self.low[file].min(self.low[to]);
                }
                Some(order) if self.stack.contains(&to) => {
                    self.low[file] = self.low[file].min(order)
                }
                Some(_) => {}
            }
        }
        if Some(self.low[file]) == self.order[file] {
            let start = self.stack.iter().position(|one| *one == file).unwrap_or_default();
            let mut group = self.stack.split_off(start);
            if group.len() > 1 {
                group.sort_unstable();
                self.found.push(group);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn files_that_lead_to_one_another_are_a_cycle() {
        let edges = [vec![1], vec![2], vec![0, 3], vec![4], vec![3], vec![0]];
        let imports: Imports = edges
            .iter()
            .map(|to| to.iter().map(|to| (*to, Default::default())).collect::<BTreeMap<_, _>>())
            .collect();
        assert_eq!(cycles(&imports), [vec![0, 1, 2], vec![3, 4]]);
    }
}
