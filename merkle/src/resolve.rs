//! From a delta to the ordered, coalesced changes of a block: who each operation is about, whether it changes anything,
//! and which of several operations on one key counts.

use phalanx_merkle_proof::{Hash, HashFn};

use crate::{
    Delta, Error,
    delta::{RUN, Target},
    ground::Ground,
    order::{Item, sort},
    par,
    resident::Lookup,
    ring::prefix,
};

/// In `Item::key`: the key is not in the state, the rest is the rank of its digest among those of its run.
const NEW: u32 = 1 << 31;

/// In `Item::op`, which is twice the operation's number so that the flag does not disturb the order: the operation leaves
/// its key as it is.
const NOOP: u32 = 1;

/// A block's changes in order of key hash, one per key.
#[derive(Debug)]
pub(crate) struct Changes {
    pub(crate) items: Vec<Item>,
    pub(crate) digests: Digests,
}

/// Digests of keys that are not in the state, by run of operations.
#[derive(Clone, Debug, Default)]
pub(crate) struct Digests(Vec<Vec<Hash>>);

impl Digests {
    /// The digest of the new key with rank `new` that operation `op` names.
    #[inline]
    pub(crate) fn get(&self, op: usize, new: u32) -> &Hash {
        &self.0[op / RUN][new as usize]
    }
}

/// A change of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    /// A key of the state.
    Known(u32),
    /// A new key, with its rank among the digests of new keys.
    New(u32),
}

impl Who {
    #[inline]
    pub(crate) const fn of(key: u32) -> Self {
        if key & NEW == 0 { Self::Known(key) } else { Self::New(key & !NEW) }
    }
}

impl Item {
    /// The operation and the key of a change.
    #[inline]
    pub(crate) const fn parts(&self) -> (usize, Who) {
        ((self.op >> 1) as usize, Who::of(self.key))
    }
}

/// Looks every operation up (in parallel), orders them, and keeps what changes the state.
///
/// # Errors
/// [`Error::StaleLocator`].
pub(crate) fn resolve(state: &impl Ground, hash: HashFn, delta: &Delta) -> Result<Changes, Error> {
    let each = delta.len() / delta.runs().max(1);
    let runs = par::map_range(delta.runs(), each * 60, |run| resolve_run(state, hash, delta, run));
    let runs = runs.into_iter().collect::<Result<Vec<_>, _>>()?;
    let items = sort(runs.iter().map(|(items, _)| items.as_slice()));
    let digests = Digests(runs.into_iter().map(|(_, hashes)| hashes).collect());
    Ok(coalesce(items, digests, state))
}

fn resolve_run(state: &impl Ground, hash: HashFn, delta: &Delta, run: usize) -> Result<(Vec<Item>, Vec<Hash>), Error> {
    let (first, mut ops) = (run * RUN, delta.run(run));
    let (mut items, mut hashes) = (Vec::with_capacity(ops.len()), Vec::new());
    let mut stale = false;
    let lookups = ops.clone().map(|op| match op.target() {
        Target::Key(key) => Lookup::Key(key),
        Target::At(locator) => Lookup::At(locator),
    });
    state.find_many(lookups, |found| {
        let Some(operation) = ops.next() else { return };
        let (op, target, value) = (first + items.len(), operation.target(), operation.value());
        let item = match (found, target) {
            (Some(id), _) => {
                let noop = value.is_some_and(|value| state.entry(id).1 == value);
                Item { prefix: state.prefix(id), op: flag(op, noop), key: id }
            }
            (None, Target::Key(key)) => {
                hashes.push(hash.key(key));
                let digest = &hashes[hashes.len() - 1];
                Item { prefix: prefix(digest), op: flag(op, value.is_none()), key: NEW | (hashes.len() - 1) as u32 }
            }
            (None, Target::At(_)) => {
                stale = true;
                Item::default()
            }
        };
        items.push(item);
    });
    if stale { Err(Error::StaleLocator) } else { Ok((items, hashes)) }
}

/// Keeps the last operation on each key, and of those what changes something.
fn coalesce(mut items: Vec<Item>, digests: Digests, state: &impl Ground) -> Changes {
    let digest = |item: &Item| match item.parts() {
        (_, Who::Known(id)) => state.hash(id),
        (op, Who::New(new)) => *digests.get(op, new),
    };
    let same = |a: &Item, b: &Item| match (a.parts().1, b.parts().1) {
        (Who::Known(a), Who::Known(b)) if a == b => true,
        _ => digest(a) == digest(b),
    };
    let (mut kept, mut start) = (0, 0);
    while start < items.len() {
        let mut end = start + 1;
        while end < items.len() && items[end].prefix == items[start].prefix {
            end += 1;
        }
        let alike = &items[start..end];
        if end - start > 1 && !alike.iter().all(|item| same(item, &alike[0])) {
            // Keys that share a prefix are ordered by their whole digests; the sort is stable, so that operations on one
            // key stay in their order.
            items[start..end].sort_by_cached_key(digest);
        }
        for at in start..end {
            let item = items[at];
            let superseded = at + 1 < end && same(&item, &items[at + 1]);
            if !superseded && item.op & NOOP == 0 {
                items[kept] = item;
                kept += 1;
            }
        }
        start = end;
    }
    items.truncate(kept);
    Changes { items, digests }
}

const fn flag(op: usize, noop: bool) -> u32 {
    (op as u32) << 1 | if noop { NOOP } else { 0 }
}
