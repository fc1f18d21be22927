//! Undo records: what a block changed in the state and the tree, to roll it back and to read the states before it.
//!
//! A record holds the prior value of each key that its block changed or deleted, and the ids of keys that it created. The
//! records of the last blocks, as many as the store's history, are in memory; the oldest is dropped as a block is applied.
//! None is written to disk: recovery makes them again, from the log's last blocks.

use std::{
    collections::{HashMap, HashSet},
    sync::OnceLock,
};

use phalanx_merkle_proof::{Entry, Hash};

use super::steps::PositionChanges;
use crate::{
    state::{PackedWritten, PositionChange, Resident},
    tree::TreePatch,
    types::{Links, MemoryUse, Written},
};

/// In [`OldRecord::next`]: the next key did not change.
const NEXT_UNCHANGED: u32 = u32::MAX;

/// In [`OldRecord::value`]: the value did not change.
const VALUE_UNCHANGED: u64 = u64::MAX;

/// Undo record of a block: rolls the state back to the block's parent, and answers reads of it.
#[derive(Debug)]
pub(crate) struct UndoRecord {
    pub(crate) tree: TreePatch,
    old_records: Vec<OldRecords>,
    created: Vec<u32>,
    deleted: Vec<DeletedKey>,
    /// Changes of positions, which are all that a paged state needs.
    pub(crate) steps: PositionChanges,
    /// Built by the first read.
    index: OnceLock<Index>,
}

/// Records that a block changed, as they were before: one chunk of them.
#[derive(Debug)]
pub(crate) struct OldRecords {
    changes: Vec<OldRecord>,
    values: Vec<u8>,
    nexts: Vec<Hash>,
}

/// Record of `id` before the block.
#[derive(Clone, Copy, Debug)]
struct OldRecord {
    id: u32,
    next: u32,
    /// Offset of the old value in [`OldRecords::values`], unless it did not change.
    value: u64,
    value_len: u16,
    written: PackedWritten,
}

const _: () = assert!(size_of::<OldRecord>() == 40);

/// Key that the block deleted.
#[derive(Debug)]
pub(crate) struct DeletedKey {
    id: u32,
    pub(crate) key: Box<[u8]>,
    value: Box<[u8]>,
    pub(crate) links: Links,
    written: Written,
}

#[derive(Debug, Default)]
struct Index {
    /// Chunk of old records, and index in it.
    changes: HashMap<u32, (u32, u32)>,
    created: HashSet<u32>,
    deleted: HashMap<Box<[u8]>, u32>,
}

/// A key as it was, without the key itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PastEntry<'u> {
    /// Id that the key has, or had, in the resident state.
    id: u32,
    pub(crate) value: &'u [u8],
    pub(crate) next: &'u Hash,
    pub(crate) written: Written,
}

impl<'u> PastEntry<'u> {
    /// The key as it is now.
    pub(crate) fn now(state: &'u Resident, id: u32) -> Self {
        Self { id, value: state.entry(id).1, next: state.next(id), written: state.written(id) }
    }

    /// The entry at the key's position.
    pub(crate) const fn entry<'k>(&self, sentinel: bool, key: &'k [u8]) -> Entry<'k>
    where
        'u: 'k,
    {
        let Written { height, .. } = self.written;
        Entry { sentinel, key, value: self.value, next: *self.next, previous: self.written.previous(), height }
    }
}

impl OldRecords {
    pub(crate) fn with_capacity(entries: usize) -> Self {
        Self { changes: Vec::with_capacity(entries), values: Vec::with_capacity(entries * 16), nexts: Vec::new() }
    }

    /// Records `id` before its position, and perhaps its value and next key, change.
    #[inline]
    pub(crate) fn note_change(&mut self, id: u32, value: Option<&[u8]>, next: Option<&Hash>, written: PackedWritten) {
        let (mut at, mut value_len) = (VALUE_UNCHANGED, 0);
        if let Some(value) = value {
            (at, value_len) = (self.values.len() as u64, value.len() as u16);
            self.values.extend_from_slice(value);
        }
        let mut to = NEXT_UNCHANGED;
        if let Some(next) = next {
            to = self.nexts.len() as u32;
            self.nexts.push(*next);
        }
        self.changes.push(OldRecord { id, next: to, value: at, value_len, written });
    }

    /// Value before the change, if it changed.
    fn value(&self, change: &OldRecord) -> Option<&[u8]> {
        (change.value != VALUE_UNCHANGED)
            .then(|| &self.values[change.value as usize..][..usize::from(change.value_len)])
    }

    /// Next key before the change, if it changed.
    fn next(&self, change: &OldRecord) -> Option<&Hash> {
        self.nexts.get(change.next as usize)
    }
}

impl UndoRecord {
    pub(crate) fn new(tree: TreePatch) -> Self {
        Self {
            tree,
            old_records: Vec::new(),
            created: Vec::new(),
            deleted: Vec::new(),
            steps: PositionChanges::default(),
            index: OnceLock::new(),
        }
    }

    /// Creates the undo record of a paged state.
    pub(crate) fn of_position_changes(tree: TreePatch, steps: Vec<PositionChange>) -> Self {
        Self { steps: steps.into(), ..Self::new(tree) }
    }

    /// Records one key before it changes.
    pub(crate) fn note_change(&mut self, state: &Resident, id: u32, value: bool, next: bool) {
        if self.old_records.is_empty() {
            self.old_records.push(OldRecords::with_capacity(0));
        }
        if let Some(old_records) = self.old_records.last_mut() {
            let (value, next) = (value.then(|| state.entry(id).1), next.then(|| state.next(id)));
            old_records.note_change(id, value, next, state.written(id).into());
        }
    }

    /// Adds old records; no key is in two of them.
    pub(crate) fn take_old_records(&mut self, old_records: impl IntoIterator<Item = OldRecords>) {
        self.old_records.extend(old_records);
    }

    pub(crate) fn note_created(&mut self, id: u32) {
        self.created.push(id);
    }

    /// Records a key before it is deleted.
    pub(crate) fn note_delete(&mut self, state: &Resident, id: u32) {
        let (key, value) = state.entry(id);
        let links = Links { hash: state.hash(id), next: *state.next(id) };
        let written = state.written(id);
        self.deleted.push(DeletedKey { id, key: key.into(), value: value.into(), links, written });
    }

    /// Rolls the state back. The tree is rolled back separately.
    pub(crate) fn roll_back(&self, state: &mut Resident) {
        state.truncate(self.tree.shape.next_sn);
        // In reverse, so that every key gets its place back.
        for id in self.created.iter().rev() {
            state.remove(*id);
        }
        for old_records in self.old_records.iter().rev() {
            for change in old_records.changes.iter().rev() {
                if let Some(value) = old_records.value(change) {
                    state.replace(change.id, value);
                }
                if let Some(next) = old_records.next(change) {
                    state.set_next(change.id, next);
                }
                state.write_back(change.id, change.written.into());
            }
        }
        for gone in self.deleted.iter().rev() {
            let id = state.insert_back(&gone.key, &gone.value, gone.links.clone(), gone.written);
            debug_assert_eq!(id, gone.id);
        }
    }

    fn index(&self) -> &Index {
        self.index.get_or_init(|| Index {
            changes: (0..)
                .zip(&self.old_records)
                .flat_map(|(of, old_records)| {
                    (0..).zip(&old_records.changes).map(move |(at, change)| (change.id, (of, at)))
                })
                .collect(),
            created: self.created.iter().copied().collect(),
            deleted: self.deleted.iter().zip(0..).map(|(gone, at)| (gone.key.clone(), at)).collect(),
        })
    }

    /// Returns a key as it was before the block, given the key after it.
    pub(crate) fn before<'u>(&'u self, key: &[u8], after: Option<PastEntry<'u>>) -> Option<PastEntry<'u>> {
        let index = self.index();
        let after = after.filter(|after| !index.created.contains(&after.id));
        let Some(mut was) = after else {
            let gone = &self.deleted[*index.deleted.get(key)? as usize];
            return Some(PastEntry { id: gone.id, value: &gone.value, next: &gone.links.next, written: gone.written });
        };
        if let Some((of, at)) = index.changes.get(&was.id) {
            let old_records = &self.old_records[*of as usize];
            let change = &old_records.changes[*at as usize];
            was.value = old_records.value(change).unwrap_or(was.value);
            was.next = old_records.next(change).unwrap_or(was.next);
            was.written = change.written.into();
        }
        Some(was)
    }

    /// Adds the memory of the undo record.
    pub(crate) fn memory(&self, to: &mut MemoryUse) {
        let gone: usize = self.deleted.iter().map(|gone| gone.key.len() + gone.value.len()).sum();
        let noted = |old_records: &OldRecords| {
            old_records.changes.capacity() * size_of::<OldRecord>()
                + old_records.values.capacity()
                + old_records.nexts.capacity() * size_of::<Hash>()
        };
        to.history += self.old_records.iter().map(noted).sum::<usize>()
            + self.created.capacity() * size_of::<u32>()
            + self.deleted.capacity() * size_of::<DeletedKey>()
            + gone
            + self.steps.all.capacity() * size_of::<PositionChange>()
            + self.tree.memory();
    }

    /// Keys that the block deleted.
    pub(crate) fn deleted(&self) -> &[DeletedKey] {
        &self.deleted
    }
}
