//! The state with an overlay on top, as one state; and how an effect becomes a layer of an overlay.

use std::sync::{Arc, Mutex};

use phalanx_memory::prefetch;
use phalanx_merkle_proof::{Entry, Hash};

use super::{
    core::Core,
    effect::{Effect, name},
    layers::{Layer, OVERLAID, Overlay, Unapplied, digest},
    resolve::KeyRef,
};
use crate::{
    state::{BaseState, KeyDigester, Reads, Resident, State, StateView, Wait},
    types::{Error, Lookup, Written, prefix},
};

impl Layer {
    /// Spells out an effect on the state that it was computed from.
    pub(crate) fn new(id: u64, core: &Core, base: Option<Arc<Overlay>>, effect: Effect) -> Self {
        let (state, log) = (&core.state, &*core.shared.log);
        let digester = &state.digester();
        let mut layer = match (state, &base) {
            (State::Resident(state), Some(overlay)) => {
                Self::spell_out(id, digester, &Overlaid { state, overlay }, &effect)
            }
            (State::Resident(state), None) => Self::spell_out(id, digester, state, &effect),
            (State::Paged(paged), base) => {
                let state = &paged.session(
                    &core.tree,
                    log,
                    effect.arena.clone().unwrap_or_default(),
                    Reads::Now(Wait::Stealing),
                );
                match base {
                    Some(overlay) => Self::spell_out(id, digester, &Overlaid { state, overlay }, &effect),
                    None => Self::spell_out(id, digester, state, &effect),
                }
            }
        };
        layer.unapplied = Mutex::new(Some(Unapplied { effect, base }));
        layer
    }

    fn spell_out(id: u64, digester: &KeyDigester, state: &impl StateView, effect: &Effect) -> Self {
        let count = effect.linked.len() + effect.moves.len();
        let mut layer = Self {
            id,
            bytes: Vec::with_capacity(count * 48),
            items: Vec::with_capacity(count + effect.linked.deletes.len()),
            created: Vec::with_capacity(effect.linked.created),
            owners: (0..count as u32).collect(),
            first_sn: effect.first_sn,
            tree: effect.tree.clone(),
            unapplied: Mutex::new(None),
        };
        let Effect { delta, linked, moves, first_sn, height, .. } = effect;
        for rank in 0..linked.len() {
            let (op, key_ref) = linked.get(rank);
            let sn = first_sn + rank as u64;
            let value = op.map(|op| delta.at(op).value().unwrap_or_default());
            match key_ref {
                KeyRef::Known(id) => {
                    let entry = state.committed(id);
                    let entry = Entry { value: value.unwrap_or(entry.value), ..entry };
                    let place = (state.prefix(id), linked.next(rank).copied().unwrap_or(entry.next));
                    let written = Written::new(sn, Some(state.written(id).sn), *height);
                    layer.push(digester, entry.sentinel, entry.key, Some(entry.value), place, written);
                }
                KeyRef::New(new) => {
                    let op = op.unwrap_or_default();
                    let next = linked.next(rank).copied().unwrap_or_default();
                    let hash = *linked.digest(op, new);
                    let key = name(delta.at(op));
                    layer.push(digester, false, key, value, (prefix(&hash), next), Written::new(sn, None, *height));
                    layer.created.push(hash);
                    layer.items.iter_mut().next_back().into_iter().for_each(|item| item.created = true);
                }
            }
        }
        for (rank, (id, _)) in moves.iter().enumerate() {
            let entry = state.committed(*id);
            let sn = first_sn + (linked.len() + rank) as u64;
            let written = Written::new(sn, entry.previous, entry.height);
            layer.push(
                digester,
                entry.sentinel,
                entry.key,
                Some(entry.value),
                (state.prefix(*id), entry.next),
                written,
            );
        }
        for id in &linked.deletes {
            let place = (state.prefix(*id), *state.next(*id));
            layer.push(digester, false, state.entry(*id).0, None, place, state.written(*id));
        }
        layer
    }
}

/// A state with an overlay on top.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Overlaid<'s, B> {
    pub(crate) state: &'s B,
    pub(crate) overlay: &'s Overlay,
}

impl Overlaid<'_, Resident> {
    /// Id in the base state of a key, or sentinel, that exists there.
    pub(crate) fn lower(&self, id: u32) -> Option<u32> {
        if id & OVERLAID == 0 {
            return Some(id);
        }
        let (layer, item) = self.overlay.item(id & !OVERLAID);
        if item.sentinel { self.state.sentinel(layer.key(item)) } else { self.state.find(layer.key(item)) }
    }
}

impl<'s, B: BaseState> Overlaid<'s, B> {
    /// Id of a key, in the overlay or below.
    #[inline]
    pub(crate) fn find(&self, key: &[u8]) -> Option<u32> {
        let digest = digest(&self.overlay.digester, false, key);
        match self.overlay.find(digest, false, key) {
            Some(entry) => self.overlay.item(entry).1.present.then_some(OVERLAID | entry),
            None => self.state.find(key),
        }
    }

    /// Id in this view of a key, or sentinel, of the base state; `None` if the overlay deletes it.
    fn lift(&self, id: u32) -> Option<u32> {
        let (sentinel, key) = (self.state.is_sentinel(id), self.state.entry(id).0);
        match self.overlay.find(digest(&self.overlay.digester, sentinel, key), sentinel, key) {
            Some(entry) => self.overlay.item(entry).1.present.then_some(OVERLAID | entry),
            None => Some(id),
        }
    }

    /// Key and value.
    #[inline]
    pub(crate) fn entry(&self, id: u32) -> (&'s [u8], &'s [u8]) {
        if id & OVERLAID == 0 {
            return self.state.entry(id);
        }
        let (layer, item) = self.overlay.item(id & !OVERLAID);
        (layer.key(item), layer.value(item))
    }

    /// Keys and sentinels in key order, from `from` on.
    pub(crate) fn in_key_order<'r>(&'r self, from: &'r Hash) -> impl Iterator<Item = u32> + 'r {
        let mut below = self.state.in_key_order(from).filter_map(|id| self.lift(id)).peekable();
        let mut created = self.overlay.created_from(from).map(|(hash, place)| (hash, OVERLAID | place)).peekable();
        std::iter::from_fn(move || match (below.peek(), created.peek()) {
            // A key of a committed layer is in both.
            (Some(id), Some((_, new))) if id == new => {
                created.next();
                below.next()
            }
            (Some(id), Some((hash, _))) if self.hash(*id) < *hash => below.next(),
            (Some(_), None) => below.next(),
            (_, _) => created.next().map(|(_, id)| id),
        })
    }
}

impl<B: BaseState> StateView for Overlaid<'_, B> {
    fn len(&self) -> usize {
        self.overlay.len
    }

    fn max_len(&self) -> usize {
        self.state.max_len()
    }

    fn find_many<'k>(
        &self,
        lookups: impl ExactSizeIterator<Item = Lookup<'k>> + Clone,
        mut found: impl FnMut(Option<u32>),
    ) {
        // Keys that no layer changes are looked up below, all at once.
        let over = |lookup: Lookup<'_>| match lookup {
            Lookup::Key(key) => self.overlay.find(digest(&self.overlay.digester, false, key), false, key),
            Lookup::At(_) => None,
        };
        let below: Vec<Lookup<'k>> = lookups.clone().filter(|lookup| over(*lookup).is_none()).collect();
        let mut ids = Vec::with_capacity(below.len());
        self.state.find_many(below.into_iter(), |id| ids.push(id));
        let mut ids = ids.into_iter();
        for lookup in lookups {
            found(match (over(lookup), lookup) {
                (Some(entry), _) => self.overlay.item(entry).1.present.then_some(OVERLAID | entry),
                (None, Lookup::Key(_)) => ids.next().flatten(),
                (None, Lookup::At(_)) => ids.next().flatten().and_then(|id| self.lift(id)),
            });
        }
    }

    #[inline]
    fn entry(&self, id: u32) -> (&[u8], &[u8]) {
        Overlaid::entry(self, id)
    }

    fn committed(&self, id: u32) -> Entry<'_> {
        if id & OVERLAID == 0 {
            return self.state.committed(id);
        }
        let (layer, item) = self.overlay.item(id & !OVERLAID);
        let (previous, height, next) = (item.written.previous(), item.written.height, item.next);
        Entry { sentinel: item.sentinel, key: layer.key(item), value: layer.value(item), next, previous, height }
    }

    fn hash(&self, id: u32) -> Hash {
        if id & OVERLAID == 0 { self.state.hash(id) } else { self.committed(id).key_hash(self.overlay.hash) }
    }

    #[inline]
    fn prefix(&self, id: u32) -> u64 {
        if id & OVERLAID == 0 { self.state.prefix(id) } else { self.overlay.item(id & !OVERLAID).1.prefix }
    }

    #[inline]
    fn next(&self, id: u32) -> &Hash {
        if id & OVERLAID == 0 { self.state.next(id) } else { &self.overlay.item(id & !OVERLAID).1.next }
    }

    #[inline]
    fn written(&self, id: u32) -> Written {
        if id & OVERLAID == 0 { self.state.written(id) } else { self.overlay.item(id & !OVERLAID).1.written }
    }

    fn owners(&self, sns: &[u64]) -> Option<Vec<u32>> {
        let first = self.overlay.first_sn();
        let below: Vec<u64> = sns.iter().copied().filter(|sn| *sn < first).collect();
        let mut below = self.state.owners(&below)?.into_iter();
        let owner = |sn: &u64| match *sn < first {
            true => below.next(),
            false => self.overlay.owner(*sn).map(|place| OVERLAID | place),
        };
        sns.iter().map(owner).collect()
    }

    fn prefetch_predecessor_entries(&self, hashes: impl Iterator<Item = Hash>) {
        self.state.prefetch_predecessor_entries(hashes);
    }

    fn predecessor(&self, hash: &Hash) -> Option<u32> {
        let mut below = self.state.predecessor(hash);
        let below = loop {
            let Some(id) = below else { break None };
            if let Some(lifted) = self.lift(id) {
                break Some(lifted);
            }
            below = self.state.predecessor(&self.state.hash(id));
        };
        let below = below.map(|id| (self.hash(id), id));
        let created = self.overlay.created_before(hash).map(|(hash, place)| (hash, OVERLAID | place));
        below.max(created).map(|(_, id)| id)
    }

    #[inline]
    fn prefetch(&self, id: u32) {
        if id & OVERLAID == 0 {
            self.state.prefetch(id);
        } else {
            prefetch(self.overlay.item(id & !OVERLAID).1);
        }
    }

    fn check(&self) -> Result<(), Error> {
        self.state.check()
    }
}

impl Effect {
    /// Replaces all ids by those of the base state, which has the overlay's layers by now.
    pub(crate) fn lower(&mut self, over: &Overlaid<'_, Resident>) {
        let lower = |id: u32| over.lower(id).expect("a key of the parent is in the state");
        self.linked.rename(lower);
        self.moves.iter_mut().for_each(|(id, _)| *id = lower(*id));
    }
}
