//! The search tree over the bits of addresses, converted from its octets to nodes with countries as
//! leaves.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};

use super::{GeoError, MAX_DATABASE_RECORDS, SEPARATOR};
use crate::rule::Country;

/// The bit that is set in a leaf cell. The low 16 bits of such a cell are the country, or zero for
/// none.
const END: u32 = 1 << 31;
/// The mark of a node that has no new number yet.
const UNSEEN: u32 = u32::MAX;

/// The encoding of the tree.
#[derive(Clone, Copy)]
pub(super) struct Layout {
    pub(super) nodes: u32,
    /// The size of a record in bits: 24, 28 or 32. A node has two records.
    pub(super) record_bits: usize,
}

/// The target of a branch of the tree: a node, given by its number, or a leaf.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Cell(pub(super) u32);

/// Nodes, each with a cell for a bit of 0 and one for a bit of 1.
pub(super) struct Tree {
    nodes: Vec<[Cell; 2]>,
}

impl Layout {
    pub(super) fn node_octets(self) -> usize {
        self.record_bits / 4
    }

    /// Returns the two records of a node. With 28 bits, the middle octet has the highest four bits
    /// of both.
    fn records(self, node: &[u8]) -> [u32; 2] {
        let number =
            |octets: &[u8]| octets.iter().fold(0, |number, octet| number << 8 | u32::from(*octet));
        let half = self.record_bits / 8;
        let (left, right) = (number(&node[..half]), number(&node[node.len() - half..]));
        match node {
            [_, _, _, middle, _, _, _] => {
                [left | u32::from(middle >> 4) << 24, right | u32::from(middle & 0xf) << 24]
            }
            _ => [left, right],
        }
    }
}

impl Cell {
    /// A leaf without a country.
    pub(super) const NOWHERE: Self = Self(END);

    fn end(country: Option<Country>) -> Self {
        Self(END | country.map_or(0, |country| u32::from(u16::from_be_bytes(country))))
    }

    fn node(self) -> Option<usize> {
        (self.0 < END).then_some(self.0 as usize)
    }

    /// Returns the country of a leaf. `None` for a node and for a leaf without a country.
    pub(super) fn country(self) -> Option<Country> {
        let country = (self.0 & 0xffff) as u16;
        (self.0 >= END && country != 0).then(|| country.to_be_bytes())
    }
}

impl Tree {
    /// Reads the octets of a tree, in the number that the layout requires. Calls `country` once for
    /// each data record that the tree refers to, with the record's offset.
    ///
    /// # Errors
    /// A node points outside the data, a record is damaged, or there are too many records.
    pub(super) fn translate(
        (octets, layout): (&[u8], Layout),
        data_octets: usize,
        country: &mut impl FnMut(usize) -> Result<Option<Country>, GeoError>,
    ) -> Result<Self, GeoError> {
        let mut known: HashMap<u32, Cell> = HashMap::new();
        let mut nodes = Vec::with_capacity(octets.len() / layout.node_octets());
        for octets in octets.chunks_exact(layout.node_octets()) {
            let mut cells = [Cell::NOWHERE; 2];
            for (cell, record) in cells.iter_mut().zip(layout.records(octets)) {
                let Some(beyond) = record.checked_sub(layout.nodes) else {
                    *cell = Cell(record);
                    continue;
                };
                if beyond == 0 {
                    continue;
                }
                if let Some(end) = known.get(&beyond) {
                    *cell = *end;
                    continue;
                }
                if known.len() == MAX_DATABASE_RECORDS {
                    return Err(GeoError::Limit("different records"));
                }
                let place =
                    (beyond as usize).checked_sub(SEPARATOR).filter(|place| *place < data_octets);
                let place = place.ok_or(GeoError::Node(nodes.len()))?;
                *cell = Cell::end(country(place)?);
                known.insert(beyond, *cell);
            }
            nodes.push(cells);
        }
        Ok(Self { nodes })
    }

    /// Returns the tree without nodes that separate nothing and without unreachable nodes, and its
    /// root. A node comes after its parent, so a walk goes forward in memory.
    ///
    /// In usual files, the number of a node is higher than the number of its parent, so one pass
    /// from the last node to the first removes all redundant nodes. In other files, some redundant
    /// nodes remain.
    pub(super) fn folded(mut self) -> (Self, Cell) {
        for number in (0..self.nodes.len()).rev() {
            self.nodes[number] = self.nodes[number].map(|cell| self.without_node(cell));
        }
        let mut order =
            Order { numbers: vec![UNSEEN; self.nodes.len()], kept: Vec::new(), ways: Vec::new() };
        let root = order.moved(self.without_node(Cell(0)), &self.nodes);
        while let Some((node, bit)) = order.next() {
            order.kept[node][bit] = order.moved(order.kept[node][bit], &self.nodes);
        }
        order.kept.shrink_to_fit();
        (Self { nodes: order.kept }, root)
    }

    /// Returns the leaf that replaces the node of a cell, if both cells of the node are that leaf.
    /// Otherwise returns the cell itself.
    fn without_node(&self, cell: Cell) -> Cell {
        match cell.node().map(|node| self.nodes[node]) {
            Some([left, right]) if left == right && left.node().is_none() => left,
            _ => cell,
        }
    }

    /// Walks from a cell along the `count` highest bits, or until a leaf. Returns the last cell.
    #[inline]
    pub(super) fn walk(&self, from: Cell, bits: u128, count: u32) -> Cell {
        let (mut cell, mut bits) = (from, bits);
        for _ in 0..count {
            let Some(cells) = cell.node().and_then(|node| self.nodes.get(node)) else { break };
            cell = cells[(bits >> 127) as usize];
            bits <<= 1;
        }
        cell
    }

    /// Returns the memory in use, in octets.
    pub(super) fn octets(&self) -> usize {
        self.nodes.capacity() * size_of::<[Cell; 2]>()
    }
}

/// The nodes that are kept, in a new order.
struct Order {
    /// The new number of each node, by the old number.
    numbers: Vec<u32>,
    kept: Vec<[Cell; 2]>,
    /// The cells that still contain the old number of a node. Each entry is twice the new number of
    /// a kept node, plus 0 or 1 for the cell of that node.
    ways: Vec<u32>,
}

impl Order {
    /// Returns the cell with the new number of its node. Numbers the node if it has no new number
    /// yet.
    fn moved(&mut self, cell: Cell, nodes: &[[Cell; 2]]) -> Cell {
        let Some(node) = cell.node() else { return cell };
        if self.numbers[node] == UNSEEN {
            let number = self.kept.len() as u32;
            self.numbers[node] = number;
            self.kept.push(nodes[node]);
            self.ways.extend([2 * number + 1, 2 * number]);
        }
        Cell(self.numbers[node])
    }

    fn next(&mut self) -> Option<(usize, usize)> {
        self.ways.pop().map(|way| ((way / 2) as usize, (way % 2) as usize))
    }
}

impl Hash for Tree {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.nodes.hash(hasher);
    }
}
