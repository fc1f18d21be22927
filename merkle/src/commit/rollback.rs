use std::{collections::HashMap, sync::OnceLock};

use phalanx_merkle_proof::{Entry, Hash};

use super::steps::PositionChanges;
use crate::{
    state::{PackedWritten, PositionChange, Resident},
    tree::TreePatch,
    types::{Links, MemoryUse, Written},
};

/// In [`OldRecord::next`]: the next key is as it was.
const NEXT_UNCHANGED: u32 = u32::MAX;

/// In [`OldRecord::value`]: the value is as it was.
const VALUE_UNCHANGED: u64 = u64::MAX;

/// What leads back from the state after a block to the one before it, and shows how things were then.
#[derive(Debug)]
pub(crate) struct UndoRecord {
    pub(crate) tree: TreePatch,
    old_records: Vec<OldRecords>,
    created: Vec<u32>,
    deleted: Vec<DeletedKey>,
    /// Where the state is on disk, all there is to know.
    pub(crate) steps: PositionChanges,
    /// Built when it is first asked for.
    index: OnceLock<Index>,
}

/// What the records of a stretch of the block were before.
#[derive(Debug)]
pub(crate) struct OldRecords {
    changes: Vec<OldRecord>,
    values: Vec<u8>,
    nexts: Vec<Hash>,
}

/// What `id` was before.
#[derive(Clone, Copy, Debug)]
struct OldRecord {
    id: u32,
    next: u32,
    /// Where in [`OldRecords::values`] the value is, unless it stays.
    value: u64,
    value_len: u16,
    written: PackedWritten,
}

const _: () = assert!(size_of::<OldRecord>() == 40);

/// A key that went.
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
    /// Which of the notes, and where in it.
    changes: HashMap<u32, (u32, u32)>,
    created: HashMap<u32, ()>,
    deleted: HashMap<Box<[u8]>, u32>,
}

/// A key as it was: everything but the key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PastEntry<'u> {
    /// Where it is, or was, in the resident state.
    id: u32,
    pub(crate) value: &'u [u8],
    pub(crate) next: &'u Hash,
    pub(crate) written: Written,
}

impl<'u> PastEntry<'u> {
    /// A key as it is.
    pub(crate) fn now(state: &'u Resident, id: u32) -> Self {
        Self { id, value: state.entry(id).1, next: state.next(id), written: state.written(id) }
    }

    /// The entry at its position.
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

    /// Notes what `id` is before its position, and perhaps its value and its next key, change.
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

    /// The value that a change replaced, if any.
    fn value(&self, change: &OldRecord) -> Option<&[u8]> {
        (change.value != VALUE_UNCHANGED)
            .then(|| &self.values[change.value as usize..][..usize::from(change.value_len)])
    }

    /// The next key that a change replaced, if any.
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

    /// What leads back where the state is on disk.
    pub(crate) fn of_position_changes(tree: TreePatch, steps: Vec<PositionChange>) -> Self {
        Self { steps: steps.into(), ..Self::new(tree) }
    }

    /// Notes what one record is before it changes.
    pub(crate) fn note_change(&mut self, state: &Resident, id: u32, value: bool, next: bool) {
        if self.old_records.is_empty() {
            self.old_records.push(OldRecords::with_capacity(0));
        }
        if let Some(old_records) = self.old_records.last_mut() {
            let (value, next) = (value.then(|| state.entry(id).1), next.then(|| state.next(id)));
            old_records.note_change(id, value, next, state.written(id).into());
        }
    }

    /// Takes what was noted of stretches of the block, no key of which is in two of them.
    pub(crate) fn take_old_records(&mut self, old_records: impl IntoIterator<Item = OldRecords>) {
        self.old_records.extend(old_records);
    }

    pub(crate) fn note_created(&mut self, id: u32) {
        self.created.push(id);
    }

    /// Notes what `id` is before it goes.
    pub(crate) fn note_delete(&mut self, state: &Resident, id: u32) {
        let (key, value) = state.entry(id);
        let links = Links { hash: state.hash(id), next: *state.next(id) };
        let written = state.written(id);
        self.deleted.push(DeletedKey { id, key: key.into(), value: value.into(), links, written });
    }

    /// Leads the state back. The tree is not touched.
    pub(crate) fn roll_back(&self, state: &mut Resident) {
        state.truncate(self.tree.shape.next_sn);
        // In reverse, so that every key comes back to its place.
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
            created: self.created.iter().map(|id| (*id, ())).collect(),
            deleted: self.deleted.iter().zip(0..).map(|(gone, at)| (gone.key.clone(), at)).collect(),
        })
    }

    /// What a key was before the block, given what it was after it.
    pub(crate) fn before<'u>(&'u self, key: &[u8], after: Option<PastEntry<'u>>) -> Option<PastEntry<'u>> {
        let index = self.index();
        let after = after.filter(|after| !index.created.contains_key(&after.id));
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

    /// Notes what it takes.
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

    /// The keys that went with the block.
    pub(crate) fn deleted(&self) -> &[DeletedKey] {
        &self.deleted
    }
}
