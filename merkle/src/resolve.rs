//! From a delta to the ordered, coalesced changes of a block: who each operation is about, whether it changes anything,
//! and which of several operations on one key counts.

use phalanx_merkle_proof::{Hash, HashFn};

use crate::{
    Delta, Error,
    delta::Target,
    order::{Item, sort},
    par,
    resident::{Lookup, Resident},
};

/// Operations that one task looks up.
const CHUNK: usize = 4096;

/// In `Item::key`: the key is not in the state, the rest is the rank of its digest among those of its chunk.
const NEW: u32 = 1 << 31;

/// In `Item::op`, which is twice the operation's rank so that the flag does not disturb the order: the operation leaves
/// its key as it is.
const NOOP: u32 = 1;

/// A change of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    /// A key of the state.
    Known(u32),
    /// A new key, with its rank among the digests of new keys.
    New(u32),
}

/// A block's changes in order of key hash.
#[derive(Debug)]
pub(crate) struct Changes {
    puts: Vec<Item>,
    /// Keys of the state that go.
    pub(crate) deletes: Vec<u32>,
    /// Digests of keys that are not in the state, by chunk.
    hashes: Vec<Vec<Hash>>,
}

impl Changes {
    pub(crate) const fn len(&self) -> usize {
        self.puts.len()
    }

    /// How many keys the puts add.
    pub(crate) fn created(&self) -> usize {
        self.puts.iter().filter(|item| item.key & NEW != 0).count()
    }

    /// The operation and the key of the put with this rank.
    #[inline]
    pub(crate) fn put(&self, rank: usize) -> (usize, Who) {
        let item = &self.puts[rank];
        let who = if item.key & NEW == 0 { Who::Known(item.key) } else { Who::New(item.key & !NEW) };
        ((item.op >> 1) as usize, who)
    }

    /// The digest of the new key that operation `op` names.
    #[inline]
    pub(crate) fn hash(&self, op: usize, new: u32) -> &Hash {
        &self.hashes[op / CHUNK][new as usize]
    }
}

/// Looks every operation up (in parallel), orders them, and keeps what changes the state.
///
/// # Errors
/// [`Error::StaleLocator`].
pub(crate) fn resolve(state: &Resident, hash: HashFn, delta: &Delta) -> Result<Changes, Error> {
    let ops = delta.ops();
    let chunks = par::map_range(ops.len().div_ceil(CHUNK), CHUNK.min(ops.len()) * 60, |chunk| {
        resolve_chunk(state, hash, delta, chunk)
    });
    let chunks = chunks.into_iter().collect::<Result<Vec<_>, _>>()?;
    let items = sort(chunks.iter().map(|(items, _)| items.as_slice()));
    let hashes = chunks.into_iter().map(|(_, hashes)| hashes).collect();
    Ok(coalesce(items, hashes, state, delta))
}

fn resolve_chunk(state: &Resident, hash: HashFn, delta: &Delta, chunk: usize) -> Result<(Vec<Item>, Vec<Hash>), Error> {
    let first = chunk * CHUNK;
    let ops = &delta.ops()[first..delta.ops().len().min(first + CHUNK)];
    let (mut items, mut hashes) = (Vec::with_capacity(ops.len()), Vec::new());
    let mut stale = false;
    let lookups = ops.iter().map(|op| match delta.target(op) {
        Target::Key(key) => Lookup::Key(key),
        Target::At(locator) => Lookup::At(locator),
    });
    state.find_many::<true>(lookups, |found| {
        let op = first + items.len();
        let (target, value) = (delta.target(&ops[items.len()]), delta.value(&ops[items.len()]));
        let item = match (found, target) {
            (Some(id), _) => {
                let noop = value.is_some_and(|value| state.entry(id).1 == value);
                Item { prefix: prefix(&state.written(id).hash), op: flag(op, noop), key: id }
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
fn coalesce(mut items: Vec<Item>, hashes: Vec<Vec<Hash>>, state: &Resident, delta: &Delta) -> Changes {
    let digest = |item: &Item| match item.key & NEW {
        0 => &state.written(item.key).hash,
        _ => &hashes[(item.op >> 1) as usize / CHUNK][(item.key & !NEW) as usize],
    };
    let mut deletes = Vec::new();
    let (mut kept, mut start) = (0, 0);
    while start < items.len() {
        let mut end = start + 1;
        while end < items.len() && items[end].prefix == items[start].prefix {
            end += 1;
        }
        if end - start > 1 {
            // Keys that share a prefix are ordered by their whole digests; the sort is stable, so that operations on one
            // key stay in their order.
            items[start..end].sort_by(|a, b| digest(a).cmp(digest(b)));
        }
        for at in start..end {
            let item = items[at];
            let superseded = at + 1 < end && digest(&item) == digest(&items[at + 1]);
            if superseded || item.op & NOOP != 0 {
                continue;
            }
            if delta.value(&delta.ops()[(item.op >> 1) as usize]).is_none() {
                deletes.push(item.key);
            } else {
                items[kept] = item;
                kept += 1;
            }
        }
        start = end;
    }
    items.truncate(kept);
    Changes { puts: items, deletes, hashes }
}

const fn prefix(hash: &Hash) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = *hash;
    u64::from_be_bytes([a, b, c, d, e, f, g, h])
}

const fn flag(op: usize, noop: bool) -> u32 {
    (op as u32) << 1 | if noop { NOOP } else { 0 }
}
