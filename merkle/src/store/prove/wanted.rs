//! Finds the entries that a proof needs: of a key, before a hash, or from a hash on.

use std::{
    collections::BTreeMap,
    ops::ControlFlow::{self, Break, Continue},
};

use phalanx_merkle_proof::{Entry, Hash};

use crate::{
    commit::{Overlaid, Overlay},
    state::{BaseState, Resident, State, StateView},
    store::held::{At, Held},
};

/// Entry that a proof needs: its position, and the bytes that follow the position in a proof.
pub(crate) struct Wanted {
    pub(crate) sn: u64,
    pub(super) hash: Hash,
    pub(crate) bytes: Vec<u8>,
}

impl Wanted {
    fn new(sn: u64, hash: Hash, entry: &Entry<'_>) -> Self {
        let mut bytes = entry.height.to_be_bytes().to_vec();
        entry.encode(&mut bytes);
        Self { sn, hash, bytes }
    }

    fn of(state: &impl StateView, id: u32) -> Self {
        Self::new(state.written(id).sn, state.hash(id), &state.committed(id))
    }
}

/// Visitor of entries, until it breaks.
type Visit<'a> = &'a mut dyn FnMut(Wanted) -> ControlFlow<()>;

impl Held<'_> {
    /// Entry of a key.
    pub(crate) fn wanted(&self, key: &[u8]) -> Option<Wanted> {
        match (&self.core.state, self.at) {
            (State::Resident(state), At::Tip) => state.find(key).map(|id| Wanted::of(state, id)),
            (State::Resident(state), At::Past(depth)) => {
                let was = self.core.find_past(state, key, depth)?;
                Some(Wanted::new(was.written.sn, self.hash_of(key), &was.entry(false, key)))
            }
            (State::Resident(state), At::Fork(overlay)) => of_key(&Overlaid { state, overlay }, key),
            (State::Paged(paged), at) => {
                let session = &self.session(paged);
                let found = match at {
                    At::Tip => session.find(key).map(|id| Wanted::of(session, id)),
                    At::Past(depth) => self.past_of(session, depth).find(key).map(|id| Wanted::of(session, id)),
                    At::Fork(overlay) => of_key(&Overlaid { state: session, overlay }, key),
                };
                self.noted(session);
                found
            }
        }
    }

    /// Last entry before a hash in key order.
    pub(crate) fn wanted_before(&self, hash: &Hash) -> Option<Wanted> {
        match (&self.core.state, self.at) {
            (State::Resident(state), At::Tip) => state.predecessor(hash).map(|id| Wanted::of(state, id)),
            (State::Resident(state), At::Past(depth)) => {
                self.name_before(state, depth, hash).and_then(|name| self.entry_named(state, depth, &name))
            }
            (_, At::Fork(overlay)) => self.wanted_before_over(overlay, hash),
            (State::Paged(paged), at) => {
                let session = &self.session(paged);
                let found = match at {
                    At::Past(depth) => self.past_of(session, depth).predecessor(hash).map(|id| Wanted::of(session, id)),
                    At::Tip | At::Fork(_) => before(session, hash),
                };
                self.noted(session);
                found
            }
        }
    }

    /// Last entry before a hash in key order, on an overlay.
    pub(crate) fn wanted_before_over(&self, overlay: &Overlay, hash: &Hash) -> Option<Wanted> {
        match &self.core.state {
            State::Resident(state) => before(&Overlaid { state, overlay }, hash),
            State::Paged(paged) => {
                let session = &self.session(paged);
                let found = before(&Overlaid { state: session, overlay }, hash);
                self.noted(session);
                found
            }
        }
    }

    /// Hands the entries from a hash on to `visit`, in key order.
    pub(super) fn each_wanted(&self, from: &Hash, visit: Visit<'_>) {
        match (&self.core.state, self.at) {
            (State::Resident(state), At::Tip) => each(state, state.in_key_order(from), visit),
            (State::Resident(state), At::Past(depth)) => {
                let ring = self.key_order_past(state, depth);
                let wanted = ring.range(*from..).filter_map(|(_, name)| self.entry_named(state, depth, name));
                wanted.map(visit).find(ControlFlow::is_break);
            }
            (State::Resident(state), At::Fork(overlay)) => {
                let over = Overlaid { state, overlay };
                each(&over, over.in_key_order(from), visit);
            }
            (State::Paged(paged), at) => {
                let session = &self.session(paged);
                match at {
                    At::Tip => each(session, session.in_key_order(from), visit),
                    At::Past(depth) => each(session, self.past_of(session, depth).in_key_order(from), visit),
                    At::Fork(overlay) => {
                        let over = Overlaid { state: session, overlay };
                        each(&over, over.in_key_order(from), visit);
                    }
                }
                self.noted(session);
            }
        }
    }

    /// Last member of an earlier block's key order before a hash. O(keys deleted since), besides a step back in key order for every
    /// key between the two that was created since.
    fn name_before(&self, state: &Resident, depth: usize, hash: &Hash) -> Option<Name> {
        let is_there = |key: &[u8]| self.core.find_past(state, key, depth).is_some();
        let mut at = *hash;
        let still = loop {
            let Some(id) = state.predecessor(&at) else { break None };
            at = state.hash(id);
            let key = state.entry(id).0;
            if state.is_sentinel(id) {
                break Some((at, Name::Sentinel(id)));
            }
            if is_there(key) {
                break Some((at, Name::Key(key.into())));
            }
        };
        let gone = self.core.history.iter().rev().take(depth).flat_map(|undo| undo.deleted());
        let gone = gone.filter(|gone| gone.links.hash < *hash && is_there(&gone.key));
        let gone = gone.max_by_key(|gone| gone.links.hash).map(|gone| (gone.links.hash, Name::Key(gone.key.clone())));
        match (still, gone) {
            (Some((at, still)), Some((then, gone))) => Some(if then > at { gone } else { still }),
            (still, gone) => still.or(gone).map(|(_, name)| name),
        }
    }

    /// Key order of an earlier block. O(keys): proofs of ranges in old states are rare.
    fn key_order_past(&self, state: &Resident, depth: usize) -> BTreeMap<Hash, Name> {
        let name = |id: u32| {
            let key = state.entry(id).0;
            if state.is_sentinel(id) { Name::Sentinel(id) } else { Name::Key(key.into()) }
        };
        let now = state.in_key_order(&[0; 32]).map(|id| (state.hash(id), name(id)));
        let gone = self.core.history.iter().rev().take(depth).flat_map(|undo| undo.deleted());
        let all = now.chain(gone.map(|gone| (gone.links.hash, Name::Key(gone.key.clone()))));
        all.filter(|(_, name)| match name {
            Name::Sentinel(_) => true,
            Name::Key(key) => self.core.find_past(state, key, depth).is_some(),
        })
        .collect()
    }

    fn entry_named(&self, state: &Resident, depth: usize, name: &Name) -> Option<Wanted> {
        match name {
            Name::Key(key) => self.wanted(key),
            Name::Sentinel(id) => self.core.sentinel_past(state, *id, depth).map(|was| {
                let key = state.entry(*id).0;
                Wanted::new(was.written.sn, state.hash(*id), &was.entry(true, key))
            }),
        }
    }
}

/// Member of key order.
enum Name {
    Key(Box<[u8]>),
    Sentinel(u32),
}

fn of_key<B: BaseState>(over: &Overlaid<'_, B>, key: &[u8]) -> Option<Wanted> {
    over.find(key).map(|id| Wanted::of(over, id))
}

fn before(state: &impl StateView, hash: &Hash) -> Option<Wanted> {
    state.predecessor(hash).map(|id| Wanted::of(state, id))
}

fn each(state: &impl StateView, ids: impl Iterator<Item = u32>, visit: Visit<'_>) {
    for id in ids {
        match visit(Wanted::of(state, id)) {
            Continue(()) => {}
            Break(()) => return,
        }
    }
}
