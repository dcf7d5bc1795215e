//! A map from addresses to numbers: nested networks as disjoint intervals.

/// Intervals over all addresses of a family: each extends from its start to the next start.
#[derive(Clone, Debug)]
pub(super) struct Intervals<A> {
    starts: Box<[A]>,
    values: Box<[u16]>,
}

/// A network as its first and last address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Range<A> {
    pub(super) first: A,
    /// The last address of the network, reversed so that the larger of two networks with the same
    /// start sorts first.
    pub(super) last: std::cmp::Reverse<A>,
}

/// An address of one family.
pub(super) trait Address: Copy + Ord {
    const ZERO: Self;
    fn next(self) -> Option<Self>;
}

impl Address for u32 {
    const ZERO: Self = 0;
    fn next(self) -> Option<Self> {
        self.checked_add(1)
    }
}

impl Address for u128 {
    const ZERO: Self = 0;
    fn next(self) -> Option<Self> {
        self.checked_add(1)
    }
}

impl<A: Address> Intervals<A> {
    /// Builds the intervals of the innermost networks. Calls `value` once for each network, with
    /// the list of all networks that contain this network, ending with the network itself. Also
    /// calls `value` once with an empty list, for the addresses outside all networks.
    ///
    /// # Errors
    /// `value` returned an error.
    pub(super) fn build<E>(
        mut networks: Vec<Range<A>>,
        mut value: impl FnMut(&[Range<A>]) -> Result<u16, E>,
    ) -> Result<Self, E> {
        networks.sort_unstable();
        networks.dedup();
        let mut table = Building { starts: vec![A::ZERO], values: vec![value(&[])?] };
        let outside = table.values[0];
        let mut open: Vec<Range<A>> = Vec::new();
        let mut values: Vec<u16> = Vec::new();
        for network in networks {
            while let Some(inner) =
                open.last().copied().filter(|inner| inner.last.0 < network.first)
            {
                open.pop();
                values.pop();
                table.begin(inner.last.0.next(), values.last().copied().unwrap_or(outside));
            }
            open.push(network);
            values.push(value(&open)?);
            table.begin(Some(network.first), values.last().copied().unwrap_or(outside));
        }
        while let Some(inner) = open.pop() {
            values.pop();
            table.begin(inner.last.0.next(), values.last().copied().unwrap_or(outside));
        }
        Ok(table.merged())
    }

    /// Returns the number to which an address is mapped, by a branch-free binary search.
    #[inline]
    pub(super) fn find(&self, address: A) -> u16 {
        match &*self.values {
            [only] => *only,
            values => {
                let after = self.starts.partition_point(|start| *start <= address);
                // The first interval begins at address zero, so every address is in an interval.
                values[after.saturating_sub(1)]
            }
        }
    }
}

struct Building<A> {
    starts: Vec<A>,
    values: Vec<u16>,
}

impl<A: Address> Building<A> {
    /// Starts an interval with this value. It extends to the start of the next interval.
    fn begin(&mut self, start: Option<A>, value: u16) {
        let Some(start) = start else { return };
        if self.starts.last() == Some(&start) {
            self.values.pop();
            self.values.push(value);
        } else {
            self.starts.push(start);
            self.values.push(value);
        }
    }

    /// Merges adjacent intervals with the same value.
    fn merged(self) -> Intervals<A> {
        let mut pairs: Vec<(A, u16)> = self.starts.into_iter().zip(self.values).collect();
        pairs.dedup_by_key(|(_, value)| *value);
        let (starts, values): (Vec<A>, Vec<u16>) = pairs.into_iter().unzip();
        Intervals { starts: starts.into(), values: values.into() }
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;

    use proptest::prelude::*;

    use super::*;

    fn range(address: u32, length: u32) -> Range<u32> {
        let mask = u32::MAX.checked_shl(32 - length).unwrap_or(0);
        Range { first: address & mask, last: Reverse(address & mask | !mask) }
    }

    proptest! {
        #[test]
        fn the_longest_network_is_found(
            networks in prop::collection::vec((any::<u32>(), 0u32..=32), 0..20),
            asked in prop::collection::vec(any::<u32>(), 20),
        ) {
            let networks: Vec<Range<u32>> = networks.into_iter().map(|(at, len)| range(at & 0xff00_00ff, len)).collect();
            let mut found: Vec<Range<u32>> = Vec::new();
            let table = Intervals::build(networks.clone(), |open| {
                let Some(inner) = open.last() else { return Ok::<_, ()>(0) };
                found.push(*inner);
                Ok(found.len() as u16)
            }).unwrap();
            let edges = networks.iter().flat_map(|n| [n.first, n.last.0, n.first.wrapping_sub(1), n.last.0.wrapping_add(1)]);
            for address in asked.into_iter().chain(edges) {
                let holding = networks.iter().filter(|n| n.first <= address && address <= n.last.0);
                let wanted = holding.min_by_key(|n| n.last.0 - n.first);
                let value = usize::from(table.find(address));
                let got = value.checked_sub(1).map(|at| found[at]);
                prop_assert_eq!(got.as_ref(), wanted);
            }
        }
    }
}
