//! From a delta to the ordered changes of a block, one per key: the key of each operation, whether it changes the
//! value, and the last of several operations on a key.

use phalanx_merkle_proof::{Hash, HashFn};

use super::sort::{Item, PARTS, Parted, sort, sort_part};
use crate::{
    parallel::Par,
    state::StateView,
    types::{Delta, Error, Lookup, MAX_RUNS, Operation, RUN, Target, prefix, same},
};

/// In `Item::key`: the key is new, and the rest is the rank of its digest in its run.
const NEW: u32 = 1 << 31;

/// Low bits of `Item::op`, below the operation's number, where they do not disturb the order: the kind of change.
const KIND_BITS: u32 = 2;
const PUT: u32 = 0;
/// The key is deleted.
const DELETE: u32 = 1;
/// The key stays as it is.
const NOOP: u32 = 2;
const KIND: u32 = (1 << KIND_BITS) - 1;
const _: () = assert!(MAX_RUNS * RUN <= 1 << (u32::BITS - KIND_BITS));

/// Operations below which one thread sorts.
const WORTH_PARTS: usize = 2 * RUN;

/// Changes of a block in key order, one per key.
#[derive(Debug)]
pub(crate) struct Changes {
    /// Ascending by prefix.
    pub(crate) parts: Vec<Part>,
    pub(crate) digests: Digests,
}

impl Changes {
    /// Number of changes.
    pub(crate) fn len(&self) -> usize {
        self.parts.iter().map(|part| part.items.len()).sum()
    }

    /// Changes that create or delete a key, in order.
    pub(crate) fn relinks(&self) -> impl Iterator<Item = &Item> {
        self.parts.iter().flat_map(Part::relinks)
    }
}

/// Neighbouring changes.
#[derive(Debug, Default)]
pub(crate) struct Part {
    pub(crate) items: Vec<Item>,
    /// Indices of the items that create or delete a key, and so change key order. The others only change a value.
    pub(crate) relinks: Vec<u32>,
}

impl Part {
    /// Items that create or delete a key, in order.
    pub(crate) fn relinks(&self) -> impl Iterator<Item = &Item> + Clone {
        self.relinks.iter().map(|at| &self.items[*at as usize])
    }
}

/// Digests of new keys, by run of operations.
#[derive(Clone, Debug, Default)]
pub(crate) struct Digests(Vec<Vec<Hash>>);

impl Digests {
    /// Digest of the new key with rank `new` that operation `op` names.
    #[inline]
    pub(crate) fn get(&self, op: usize, new: u32) -> &Hash {
        &self.0[op / RUN][new as usize]
    }
}

/// Key of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyRef {
    /// Id of a key of the state.
    Known(u32),
    /// Rank of a new key among the digests of its run.
    New(u32),
}

impl KeyRef {
    #[inline]
    pub(crate) const fn of(key: u32) -> Self {
        if key & NEW == 0 { Self::Known(key) } else { Self::New(key & !NEW) }
    }
}

impl Item {
    /// Operation and key of the change.
    #[inline]
    pub(crate) const fn parts(&self) -> (usize, KeyRef) {
        ((self.op >> KIND_BITS) as usize, KeyRef::of(self.key))
    }

    /// Returns true if the change deletes its key.
    #[inline]
    pub(crate) const fn is_delete(&self) -> bool {
        self.op & KIND == DELETE
    }

    /// Returns true if the change creates or deletes its key.
    const fn is_relink(&self) -> bool {
        self.key & NEW != 0 || self.is_delete()
    }

    const fn is_noop(&self) -> bool {
        self.op & KIND == NOOP
    }
}

/// Looks up every operation (in parallel), sorts the operations, and keeps those that change the state.
///
/// A located change is not looked up where the locator gives the id ([`StateView::id_of_locator`]): its encoder checks
/// it ([`check_change`]).
///
/// # Errors
/// [`Error::StaleLocator`].
pub(crate) fn resolve(state: &impl StateView, hash: HashFn, delta: &Delta, par: Par<'_>) -> Result<Changes, Error> {
    let each = delta.len() / delta.runs().max(1);
    let resolved = |run| resolve_run(state, hash, delta, run);
    let mut digests = Vec::with_capacity(delta.runs());
    if delta.len() < WORTH_PARTS {
        let mut items = Vec::with_capacity(delta.len());
        for run in par.map_range(delta.runs(), each * 60, resolved) {
            let (of_run, hashes) = run?;
            items.extend(of_run);
            digests.push(hashes);
        }
        let digests = Digests(digests);
        return Ok(Changes { parts: vec![coalesce(sort(&items), &digests, state)], digests });
    }
    let parted = |run| resolved(run).map(|(items, hashes)| (Parted::new(&items), hashes));
    let mut runs = Vec::with_capacity(delta.runs());
    for run in par.map_range(delta.runs(), each * 65, parted) {
        let (items, hashes) = run?;
        runs.push(items);
        digests.push(hashes);
    }
    let digests = Digests(digests);
    let part = |part| coalesce(sort_part(&runs, part), &digests, state);
    let parts = par.map_range(PARTS, delta.len() / PARTS * 25, part);
    Ok(Changes { parts, digests })
}

fn resolve_run(
    state: &impl StateView,
    hash: HashFn,
    delta: &Delta,
    run: usize,
) -> Result<(Vec<Item>, Vec<Hash>), Error> {
    let (first, ops) = (run * RUN, delta.run(run));
    let (mut items, mut hashes) = (Vec::with_capacity(ops.len()), Vec::new());
    // Operations to be looked up. A located change need not be: its locator says enough.
    let mut unknown = Vec::new();
    for (at, operation) in ops.enumerate() {
        let known = operation.changes().and_then(|locator| Some((locator.prefix(), state.id_of_locator(locator)?)));
        if known.is_none() {
            unknown.push(first + at);
        }
        let (prefix, key) = known.unwrap_or_default();
        items.push(Item { prefix, op: packed(first + at, PUT), key });
    }
    let lookups = unknown.iter().map(|op| match delta.at(*op).target() {
        Target::Key(key) => Lookup::Key(key),
        Target::At(locator) => Lookup::At(locator),
    });
    let (mut ops, mut stale) = (unknown.iter().copied(), false);
    state.find_many(lookups, |found| {
        let Some(op) = ops.next() else { return };
        let (operation, value) = (delta.at(op), delta.at(op).value());
        items[op - first] = match (found, operation.target()) {
            (Some(id), _) => {
                let kind = match value {
                    // A declared change is checked when it is encoded, if no operation supersedes it: alike on any
                    // state.
                    Some(_) if operation.changes().is_some() => PUT,
                    Some(value) if same(state.entry(id).1, value) => NOOP,
                    Some(_) => PUT,
                    None => DELETE,
                };
                Item { prefix: state.prefix(id), op: packed(op, kind), key: id }
            }
            (None, Target::Key(key)) => {
                hashes.push(hash.key(key));
                let digest = &hashes[hashes.len() - 1];
                let kind = if value.is_some() { PUT } else { NOOP };
                Item { prefix: prefix(digest), op: packed(op, kind), key: NEW | (hashes.len() - 1) as u32 }
            }
            (None, Target::At(_)) => {
                stale = true;
                Item::default()
            }
        };
    });
    if stale { Err(Error::StaleLocator) } else { Ok((items, hashes)) }
}

/// Checks an operation that declares a change of the located key `id`.
///
/// # Errors
/// [`Error::StaleLocator`], [`Error::Unchanged`].
#[inline]
pub(crate) fn check_change(state: &impl StateView, operation: Operation<'_>, id: u32) -> Result<(), Error> {
    match (operation.changes(), operation.value()) {
        (Some(locator), _) if !state.is_current(locator) => Err(Error::StaleLocator),
        (Some(_), Some(value)) if same(state.entry(id).1, value) => Err(Error::Unchanged),
        _ => Ok(()),
    }
}

/// Keeps the last operation on each key, if it changes the state.
fn coalesce(mut items: Vec<Item>, digests: &Digests, state: &impl StateView) -> Part {
    let digest = |item: &Item| match item.parts() {
        (_, KeyRef::Known(id)) => state.hash(id),
        (op, KeyRef::New(new)) => *digests.get(op, new),
    };
    let same = |a: &Item, b: &Item| match (a.parts().1, b.parts().1) {
        (KeyRef::Known(a), KeyRef::Known(b)) if a == b => true,
        _ => digest(a) == digest(b),
    };
    let mut relinks = Vec::new();
    let (mut kept, mut start) = (0, 0);
    while start < items.len() {
        let mut end = start + 1;
        while end < items.len() && items[end].prefix == items[start].prefix {
            end += 1;
        }
        let alike = &items[start..end];
        if end - start > 1 && !alike.iter().all(|item| same(item, &alike[0])) {
            // Keys that share a prefix are ordered by their whole hashes; the sort is stable, so operations on one key
            // stay in order.
            items[start..end].sort_by_cached_key(digest);
        }
        for at in start..end {
            let item = items[at];
            let superseded = at + 1 < end && same(&item, &items[at + 1]);
            if !superseded && !item.is_noop() {
                items[kept] = item;
                if item.is_relink() {
                    relinks.push(kept as u32);
                }
                kept += 1;
            }
        }
        start = end;
    }
    items.truncate(kept);
    Part { items, relinks }
}

const fn packed(op: usize, kind: u32) -> u32 {
    (op as u32) << KIND_BITS | kind
}
