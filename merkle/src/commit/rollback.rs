use std::{collections::HashMap, sync::OnceLock};

use phalanx_merkle_proof::{Entry, Hash};

use super::steps::Steps;
use crate::{
    state::{Packed, Resident, Step},
    tree::TreePatch,
    types::{Links, MemoryUse, Written},
};

/// In [`Change::next`]: the next key is as it was.
const SAME: u32 = u32::MAX;

/// In [`Change::value`]: the value is as it was.
const KEPT: u64 = u64::MAX;

/// What leads back from the state after a block to the one before it, and shows how things were then.
#[derive(Debug)]
pub(crate) struct Undo {
    pub(crate) tree: TreePatch,
    notes: Vec<Notes>,
    created: Vec<u32>,
    deleted: Vec<Deleted>,
    /// Where the state is on disk, all there is to know.
    pub(crate) steps: Steps,
    /// Built when it is first asked for.
    index: OnceLock<Index>,
}

/// What the records of a stretch of the block were before.
#[derive(Debug)]
pub(crate) struct Notes {
    changes: Vec<Change>,
    values: Vec<u8>,
    nexts: Vec<Hash>,
}

/// What `id` was before.
#[derive(Clone, Copy, Debug)]
struct Change {
    id: u32,
    next: u32,
    /// Where in [`Notes::values`] the value is, unless it stays.
    value: u64,
    value_len: u16,
    written: Packed,
}

const _: () = assert!(size_of::<Change>() == 40);

/// A key that went.
#[derive(Debug)]
pub(crate) struct Deleted {
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
pub(crate) struct Was<'u> {
    /// Where it is, or was, in the resident state.
    id: u32,
    pub(crate) value: &'u [u8],
    pub(crate) next: &'u Hash,
    pub(crate) written: Written,
}

impl<'u> Was<'u> {
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

impl Notes {
    pub(crate) fn with_capacity(entries: usize) -> Self {
        Self { changes: Vec::with_capacity(entries), values: Vec::with_capacity(entries * 16), nexts: Vec::new() }
    }

    /// Notes what `id` is before its position, and perhaps its value and its next key, change.
    #[inline]
    pub(crate) fn changing(&mut self, id: u32, value: Option<&[u8]>, next: Option<&Hash>, written: Packed) {
        let (mut at, mut value_len) = (KEPT, 0);
        if let Some(value) = value {
            (at, value_len) = (self.values.len() as u64, value.len() as u16);
            self.values.extend_from_slice(value);
        }
        let mut to = SAME;
        if let Some(next) = next {
            to = self.nexts.len() as u32;
            self.nexts.push(*next);
        }
        self.changes.push(Change { id, next: to, value: at, value_len, written });
    }

    /// The value that a change replaced, if any.
    fn value(&self, change: &Change) -> Option<&[u8]> {
        (change.value != KEPT).then(|| &self.values[change.value as usize..][..usize::from(change.value_len)])
    }

    /// The next key that a change replaced, if any.
    fn next(&self, change: &Change) -> Option<&Hash> {
        self.nexts.get(change.next as usize)
    }
}

impl Undo {
    pub(crate) fn new(tree: TreePatch) -> Self {
        Self {
            tree,
            notes: Vec::new(),
            created: Vec::new(),
            deleted: Vec::new(),
            steps: Steps::default(),
            index: OnceLock::new(),
        }
    }

    /// What leads back where the state is on disk.
    pub(crate) fn of_steps(tree: TreePatch, steps: Vec<Step>) -> Self {
        Self { steps: steps.into(), ..Self::new(tree) }
    }

    /// Notes what one record is before it changes.
    pub(crate) fn changing(&mut self, state: &Resident, id: u32, value: bool, next: bool) {
        if self.notes.is_empty() {
            self.notes.push(Notes::with_capacity(0));
        }
        if let Some(notes) = self.notes.last_mut() {
            let (value, next) = (value.then(|| state.entry(id).1), next.then(|| state.next(id)));
            notes.changing(id, value, next, state.written(id).into());
        }
    }

    /// Takes what was noted of stretches of the block, no key of which is in two of them.
    pub(crate) fn take_notes(&mut self, notes: impl IntoIterator<Item = Notes>) {
        self.notes.extend(notes);
    }

    pub(crate) fn created(&mut self, id: u32) {
        self.created.push(id);
    }

    /// Notes what `id` is before it goes.
    pub(crate) fn deleting(&mut self, state: &Resident, id: u32) {
        let (key, value) = state.entry(id);
        let links = Links { hash: state.hash(id), next: *state.next(id) };
        let written = state.written(id);
        self.deleted.push(Deleted { id, key: key.into(), value: value.into(), links, written });
    }

    /// Leads the state back. The tree is not touched.
    pub(crate) fn unfold(&self, state: &mut Resident) {
        state.truncate(self.tree.shape.next_sn);
        // In reverse, so that every key comes back to its place.
        for id in self.created.iter().rev() {
            state.remove(*id);
        }
        for notes in self.notes.iter().rev() {
            for change in notes.changes.iter().rev() {
                if let Some(value) = notes.value(change) {
                    state.replace(change.id, value);
                }
                if let Some(next) = notes.next(change) {
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
                .zip(&self.notes)
                .flat_map(|(of, notes)| (0..).zip(&notes.changes).map(move |(at, change)| (change.id, (of, at))))
                .collect(),
            created: self.created.iter().map(|id| (*id, ())).collect(),
            deleted: self.deleted.iter().zip(0..).map(|(gone, at)| (gone.key.clone(), at)).collect(),
        })
    }

    /// What a key was before the block, given what it was after it.
    pub(crate) fn before<'u>(&'u self, key: &[u8], after: Option<Was<'u>>) -> Option<Was<'u>> {
        let index = self.index();
        let after = after.filter(|after| !index.created.contains_key(&after.id));
        let Some(mut was) = after else {
            let gone = &self.deleted[*index.deleted.get(key)? as usize];
            return Some(Was { id: gone.id, value: &gone.value, next: &gone.links.next, written: gone.written });
        };
        if let Some((of, at)) = index.changes.get(&was.id) {
            let notes = &self.notes[*of as usize];
            let change = &notes.changes[*at as usize];
            was.value = notes.value(change).unwrap_or(was.value);
            was.next = notes.next(change).unwrap_or(was.next);
            was.written = change.written.into();
        }
        Some(was)
    }

    /// Notes what it takes.
    pub(crate) fn memory(&self, to: &mut MemoryUse) {
        let gone: usize = self.deleted.iter().map(|gone| gone.key.len() + gone.value.len()).sum();
        let noted = |notes: &Notes| {
            notes.changes.capacity() * size_of::<Change>()
                + notes.values.capacity()
                + notes.nexts.capacity() * size_of::<Hash>()
        };
        to.history += self.notes.iter().map(noted).sum::<usize>()
            + self.created.capacity() * size_of::<u32>()
            + self.deleted.capacity() * size_of::<Deleted>()
            + gone
            + self.steps.all.capacity() * size_of::<Step>()
            + self.tree.memory();
    }

    /// The keys that went with the block.
    pub(crate) fn deleted(&self) -> &[Deleted] {
        &self.deleted
    }
}
