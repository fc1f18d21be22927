//! Nodes that reading some keys of a state and changing it takes.

use alloy_primitives::{Address, B256, Bytes, keccak256, map::B256Map};

use super::{
    prove::Prover,
    trie::{Trie, Version},
};
use crate::{
    partial::{Nodes, Owner, Partial, PartialError, Place},
    types::{Changes, Error, Values},
};

impl Trie {
    /// Nodes of a version, in RLP, from which [`Partial`] reads some accounts and slots and computes the root after
    /// changes: also siblings that take the place of a branch whose other children the changes remove.
    ///
    /// # Errors
    /// If there is no such version, the store fails or lacks what the trie has, or a change keeps an account that does not
    /// exist.
    pub fn witness<V: Values>(
        &self,
        version: Version,
        reads: &[(Address, Vec<B256>)],
        changes: &Changes,
        values: &V,
    ) -> Result<Vec<Bytes>, Error<V::Error>> {
        let state = self.state(version)?;
        let prover = Prover { state, view: self.view(version), values };
        let nodes = Needed { prover, known: B256Map::default(), needed: Vec::new(), failed: None };
        let mut partial = Partial::new(&state.accounts.root, nodes);
        let result = read(&mut partial, reads).and_then(|()| partial.update(changes));
        let Needed { needed, failed, .. } = partial.into_nodes();
        match (failed, result) {
            (Some(error), _) => Err(error),
            (None, Err(PartialError::NoAccount { address })) => Err(Error::NoAccount { address }),
            // All nodes that are asked for are those of this state.
            (None, Err(PartialError::Absent { .. } | PartialError::Malformed { .. })) => {
                Err(Error::Unknown { version: version.0 })
            }
            (None, Ok(_)) => Ok(needed),
        }
    }
}

fn read<N: Nodes>(partial: &mut Partial<N>, reads: &[(Address, Vec<B256>)]) -> Result<(), PartialError> {
    for (address, slots) in reads {
        partial.account(address)?;
        for slot in slots {
            partial.slot(address, slot)?;
        }
    }
    Ok(())
}

/// Nodes of a version that were asked for.
struct Needed<'a, V: Values> {
    prover: Prover<'a, V>,
    known: B256Map<Bytes>,
    needed: Vec<Bytes>,
    failed: Option<Error<V::Error>>,
}

impl<V: Values> Nodes for Needed<'_, V> {
    fn node(&mut self, hash: &B256, place: &Place) -> Option<Bytes> {
        if !self.known.contains_key(hash) {
            // All nodes on the way to a key below the place, of which the rest is zero.
            let mut key = B256::ZERO;
            place.path.pack_to(key.as_mut_slice());
            let path = match place.owner {
                Owner::State => self.prover.account(&key).map(|(nodes, _)| nodes),
                Owner::Storage(owner) => self
                    .prover
                    .account(&owner)
                    .and_then(|(_, owner)| self.prover.slot(owner.as_ref(), &key).map(|(nodes, _)| nodes)),
            };
            match path {
                Ok(nodes) => self.known.extend(nodes.into_iter().map(|node| (keccak256(&node), node))),
                Err(error) => self.failed = Some(error),
            }
        }
        let node = self.known.get(hash)?.clone();
        self.needed.push(node.clone());
        Some(node)
    }
}
