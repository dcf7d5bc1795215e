//! Proofs that a name or type does not exist, from the NSEC or NSEC3 records of a zone (RFC 4035
//! §3.1.3, RFC 5155 §7.2).

use avocet_dnssec::nsec3::Parameters;
use avocet_wire::canonical::compare_names;
use avocet_wire::{FoldedName, Rtype};

use crate::find::wildcard_name;
use crate::tree::{Denial, HostedZone, Node, Nsec3Chain};

/// Maximum number of NSEC or NSEC3 records of a proof.
pub(crate) const MAX_PROOF: usize = 4;

/// The nodes whose NSEC or NSEC3 records form a proof, without duplicates.
#[derive(Clone, Copy)]
pub(crate) struct DenialProof<'z> {
    nodes: [Option<Node<'z>>; MAX_PROOF],
    /// The type of the records: NSEC or NSEC3.
    pub(crate) rtype: Rtype,
}

impl<'z> DenialProof<'z> {
    pub(crate) fn nodes(&self) -> impl Iterator<Item = Node<'z>> {
        self.nodes.into_iter().flatten()
    }

    fn add(&mut self, node: Option<Node<'z>>) {
        let Some(node) = node else { return };
        for place in &mut self.nodes {
            match place {
                Some(known) if known.at == node.at => return,
                Some(_) => {}
                None => {
                    *place = Some(node);
                    return;
                }
            }
        }
    }
}

/// The absence that a proof must show.
#[derive(Clone, Copy)]
pub(crate) enum Denied<'n> {
    /// Neither the name nor a wildcard for it exists. Contains the closest encloser.
    Name(FoldedName<'n>),
    /// The name does not exist, but a wildcard answered. Contains the closest encloser.
    Expanded(FoldedName<'n>),
    /// The name exists, but has no records of the type.
    Type,
    /// A wildcard matched, but has no records of the type. Contains the closest encloser, the
    /// parent of the wildcard.
    WildcardType(FoldedName<'n>),
}

impl HostedZone {
    /// Finds the records that prove an absence for a name.
    pub(crate) fn proof(&self, name: FoldedName<'_>, denied: Denied<'_>) -> DenialProof<'_> {
        let mut proof = DenialProof { nodes: [None; MAX_PROOF], rtype: Rtype::NSEC };
        match &self.denial {
            Denial::None => {}
            Denial::Nsec(nodes) => self.nsec(nodes, name, denied, &mut proof),
            Denial::Nsec3(chain) => {
                proof.rtype = Rtype::NSEC3;
                self.nsec3(chain, name, denied, &mut proof);
            }
        }
        proof
    }

    fn nsec<'z>(
        &'z self,
        nodes: &[u32],
        name: FoldedName<'_>,
        denied: Denied<'_>,
        proof: &mut DenialProof<'z>,
    ) {
        let at_or_before = |name: &[u8]| {
            let is_after = |at: &u32| compare_names(self.node_at(*at).name().wire(), name).is_gt();
            let after = nodes.partition_point(|at| !is_after(at));
            nodes.get(after.checked_sub(1)?).map(|at| self.node_at(*at))
        };
        proof.add(at_or_before(name.wire()));
        if let Denied::Name(closest) | Denied::WildcardType(closest) = denied
            && let Some(wildcard) = wildcard_name(closest)
        {
            proof.add(at_or_before(wildcard.wire()));
        }
    }

    fn nsec3<'z>(
        &'z self,
        chain: &Nsec3Chain,
        name: FoldedName<'_>,
        denied: Denied<'_>,
        proof: &mut DenialProof<'z>,
    ) {
        let place = |name: &[u8]| place_of_hash(chain, name);
        let node = |index: usize| chain.hashes.get(index).map(|(_, at)| self.node_at(*at));
        let matching = |name: &[u8]| place(name).ok().and_then(node);
        let covering = |name: &[u8]| match place(name) {
            Ok(index) => node(index),
            Err(0) => node(chain.hashes.len().wrapping_sub(1)),
            Err(after) => node(after - 1),
        };
        let next_closer = |closest: FoldedName<'_>| {
            name.ancestors().take_while(|above| above.len() > closest.len()).last()
        };
        match denied {
            Denied::Expanded(closest) => {
                proof.add(next_closer(closest).and_then(|next| covering(next.wire())));
            }
            Denied::Type => match matching(name.wire()) {
                Some(node) => proof.add(Some(node)),
                None => {
                    // The name has no NSEC3 record because of opt-out. The proof starts at the
                    // closest provable encloser (RFC 5155 §7.2.4 and §7.2.7).
                    if let Some(closest) =
                        name.parent().and_then(|above| self.provable(chain, above))
                    {
                        proof.add(matching(closest.wire()));
                        proof.add(next_closer(closest).and_then(|next| covering(next.wire())));
                    }
                }
            },
            Denied::Name(closest) | Denied::WildcardType(closest) => {
                let closest = self.provable(chain, closest).unwrap_or(closest);
                proof.add(matching(closest.wire()));
                proof.add(next_closer(closest).and_then(|next| covering(next.wire())));
                let wildcard = wildcard_name(closest);
                proof.add(wildcard.and_then(|wildcard| covering(wildcard.wire())));
            }
        }
    }

    /// Returns the nearest name with an NSEC3 record: `name` itself or an ancestor. With opt-out,
    /// insecure delegations have no NSEC3 record, nor have empty names that are only above these
    /// (RFC 5155 §7.1).
    fn provable<'n>(&self, chain: &Nsec3Chain, name: FoldedName<'n>) -> Option<FoldedName<'n>> {
        let mut above = name.ancestors().take_while(|above| above.len() >= self.apex().len());
        above.find(|above| place_of_hash(chain, above.wire()).is_ok())
    }
}

/// Finds the hash of a name in the sorted chain: returns its index, or as an error the index at
/// which the hash would be inserted.
fn place_of_hash(chain: &Nsec3Chain, name: &[u8]) -> Result<usize, usize> {
    let parameters = Parameters { iterations: chain.iterations, salt: &chain.salt };
    let hash = parameters.of_own(name);
    chain.hashes.binary_search_by(|(other, _)| other.cmp(&hash))
}
