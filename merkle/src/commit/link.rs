//! Links new and deleted keys into key order. An entry commits to the next key's hash, so each of them also changes the
//! entry of its predecessor.

use phalanx_memory::PrefetchIterator as _;
use phalanx_merkle_proof::Hash;

use super::{
    resolve::{Changes, Digests, KeyRef, Part},
    sort::Item,
};
use crate::state::{KEY_ORDER_LOOKAHEAD, StateView};

/// In [`Append::op`]: the value stays.
const KEEP_VALUE: u32 = u32::MAX;

/// In [`Append::next`]: the next key stays.
const KEEP_NEXT: u32 = u32::MAX;

/// Entry to be appended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Append {
    op: u32,
    key: u32,
    next: u32,
}

/// Entries and deletions of a block, in key order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Linked {
    appends: Vec<Append>,
    /// Hashes of changed next keys.
    nexts: Vec<Hash>,
    /// Keys of the state that are deleted.
    pub(crate) deletes: Vec<u32>,
    digests: Digests,
    /// Number of new keys.
    pub(crate) created: usize,
}

impl Linked {
    /// Number of entries to be appended.
    pub(crate) const fn len(&self) -> usize {
        self.appends.len()
    }

    /// Bytes that it takes.
    pub(crate) const fn memory(&self) -> usize {
        self.appends.capacity() * size_of::<Append>()
            + (self.nexts.capacity() + self.created) * size_of::<Hash>()
            + self.deletes.capacity() * size_of::<u32>()
    }

    /// Key of the entry of this rank, and the operation that gives its value; `None` if the value stays.
    #[inline]
    pub(crate) fn get(&self, rank: usize) -> (Option<usize>, KeyRef) {
        let append = &self.appends[rank];
        ((append.op != KEEP_VALUE).then_some(append.op as usize), KeyRef::of(append.key))
    }

    /// As [`Self::get`], of the entry `distance` ranks behind `rank`, if there is one.
    #[inline]
    pub(crate) fn ahead(&self, rank: usize, distance: usize) -> Option<(Option<usize>, KeyRef)> {
        (rank + distance < self.len()).then(|| self.get(rank + distance))
    }

    /// Hash of the entry's next key, if it changes.
    #[inline]
    pub(crate) fn next(&self, rank: usize) -> Option<&Hash> {
        self.nexts.get(self.appends[rank].next as usize)
    }

    /// Digest of the new key that operation `op` names.
    #[inline]
    pub(crate) fn digest(&self, op: usize, new: u32) -> &Hash {
        self.digests.get(op, new)
    }

    /// Replaces the ids of keys of the state.
    pub(crate) fn rename(&mut self, name: impl Fn(u32) -> u32) {
        self.deletes.iter_mut().for_each(|id| *id = name(*id));
        for append in &mut self.appends {
            if let KeyRef::Known(id) = KeyRef::of(append.key) {
                append.key = name(id);
            }
        }
    }

    /// Appends entries of keys whose neighbours stay. `updated` becomes the last of these keys, and its slot.
    fn update(&mut self, items: &[Item], updated: &mut Option<(u32, usize)>) {
        self.appends.extend(items.iter().map(append));
        if let Some(last) = items.last() {
            *updated = Some((last.key, self.appends.len() - 1));
        }
    }

    fn push(&mut self, append: Append) -> usize {
        self.appends.push(append);
        self.appends.len() - 1
    }

    fn set_next(&mut self, slot: usize, next: Hash) {
        let append = &mut self.appends[slot];
        if append.next == KEEP_NEXT {
            append.next = self.nexts.len() as u32;
            self.nexts.push(next);
        } else {
            self.nexts[append.next as usize] = next;
        }
    }
}

/// Run of neighbouring changes in key order.
struct Chain {
    /// Last entry of the run that stays or is new.
    anchor: usize,
    /// First key of the state behind the anchor that is not deleted so far: the anchor's next key, unless a new key
    /// comes before it.
    limit: Hash,
}

/// Finds the neighbours of new and deleted keys. O(changes), and O(log keys) per run of neighbouring changes.
///
/// Returns `None` if the state cannot give a predecessor.
pub(crate) fn link(state: &impl StateView, changes: Changes) -> Option<Linked> {
    state.prefetch_predecessor_entries(changes.relinks().map(|item| match item.parts() {
        (op, KeyRef::New(new)) => *changes.digests.get(op, new),
        (_, KeyRef::Known(id)) => state.hash(id),
    }));
    let room = changes.len() + changes.len() / 8;
    let Changes { parts, digests } = changes;
    let mut linked = Linked { appends: Vec::with_capacity(room), digests, ..Linked::default() };
    let mut chain: Option<Chain> = None;
    // The last updated key, and its slot.
    let mut updated = None;
    let relinks = || parts.iter().flat_map(Part::relinks);
    let mut lookahead = relinks().lookahead([1, 2, 3].map(|times| times * KEY_ORDER_LOOKAHEAD));
    for Part { items, relinks } in &parts {
        let mut from = 0;
        for relink in relinks.iter().map(|at| *at as usize) {
            linked.update(&items[from..relink], &mut updated);
            from = relink + 1;
            let item = &items[relink];
            if let Some((_, ahead)) = lookahead.next() {
                state.prefetch_predecessors(ahead.map(|item| item.map(|item| item.prefix)));
            }
            match item.parts() {
                (op, KeyRef::New(new)) => {
                    let hash = *linked.digests.get(op, new);
                    let limit = enter(state, &mut linked, &mut chain, updated, &hash)?;
                    // The chain is open now, and its anchor is the predecessor of the new key.
                    if let Some(chain) = &mut chain {
                        linked.set_next(chain.anchor, hash);
                        chain.anchor = linked.push(append(item));
                        linked.set_next(chain.anchor, limit);
                    }
                    linked.created += 1;
                }
                (_, KeyRef::Known(id)) => {
                    enter(state, &mut linked, &mut chain, updated, &state.hash(id))?;
                    if let Some(chain) = &mut chain {
                        chain.limit = *state.next(id);
                        linked.set_next(chain.anchor, chain.limit);
                    }
                    linked.deletes.push(id);
                }
            }
        }
        linked.update(&items[from..], &mut updated);
    }
    Some(linked)
}

/// Continues the chain if `hash` is in it, else begins one at the predecessor of `hash`. Returns the chain's limit.
fn enter(
    state: &impl StateView,
    linked: &mut Linked,
    chain: &mut Option<Chain>,
    updated: Option<(u32, usize)>,
    hash: &Hash,
) -> Option<Hash> {
    if let Some(chain) = chain
        && *hash <= chain.limit
    {
        return Some(chain.limit);
    }
    let before = state.predecessor(hash)?;
    let anchor = match updated {
        Some((id, slot)) if state.is_same(id, before) => slot,
        // The predecessor comes after all entries so far: they belong to keys before it, or to new keys before a limit
        // below `hash`.
        _ => linked.push(Append { op: KEEP_VALUE, key: before, next: KEEP_NEXT }),
    };
    let limit = *state.next(before);
    *chain = Some(Chain { anchor, limit });
    Some(limit)
}

const fn append(item: &Item) -> Append {
    Append { op: item.parts().0 as u32, key: item.key, next: KEEP_NEXT }
}
