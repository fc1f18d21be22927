//! From a log back to the state: entries in order, hashed in parallel a batch at a time.

use std::collections::{BTreeMap, HashSet};

use phalanx_merkle_proof::{Params, Shape};

use super::{
    checkpoint::{Checkpoint, Ignored, Opened},
    replay::Reader,
};
use crate::{
    commit::Undo,
    log::{BlockRow, Log},
    state::{Keyed, Paged, Resident, State},
    tree::{Tree, sentinels},
    types::{Error, MAX_SN, Memory},
};

/// What a log leads to.
#[derive(Debug)]
pub(crate) struct Replayed {
    pub(crate) state: State,
    pub(crate) tree: Tree,
    /// The blocks up to the tip that the log still holds.
    pub(crate) chain: Vec<BlockRow>,
    /// The blocks that stand on the tip, by ascending id.
    pub(crate) staged: Vec<BlockRow>,
    /// What leads back from the last blocks.
    pub(crate) history: Vec<Undo>,
    /// Greater than all ids.
    pub(crate) next_id: u64,
    pub(crate) opened: Opened,
}

/// What a log is read with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct From {
    pub(crate) params: Params,
    pub(crate) salt: u64,
    /// Of so many last blocks what leads back is kept.
    pub(crate) window: usize,
    pub(crate) memory: Memory,
}

/// The state before the first block.
pub(super) fn genesis(params: Params, salt: u64, memory: Memory) -> (State, Tree) {
    let state = match memory {
        Memory::Resident => State::Resident(Resident::new(salt, &params)),
        Memory::Cached { bytes } => State::Paged(Paged::new(&params, Keyed::new(salt), bytes)),
    };
    (state, Tree::new(params, &sentinels(&params).collect::<Vec<_>>()))
}

impl From {
    /// Reads a log from a checkpoint on, or from the beginning, and checks it on the way: blocks continue each other,
    /// extents continue each other, entries and deletions name what is there, the recomputed root equals the recorded one.
    ///
    /// O(entries of the log from there on).
    ///
    /// # Errors
    /// [`Error::Corrupt`] where something does not fit, and what the log reports.
    pub(crate) fn replay(
        mut self,
        log: &dyn Log,
        checkpoint: Result<Option<Checkpoint>, Ignored>,
    ) -> Result<Replayed, Error> {
        if !log.keeps_entries() {
            self.memory = Memory::Resident;
        }
        let Found { chain, staged, next_id } = find(log)?;
        check(log, &chain)?;
        let restored = checkpoint.and_then(|checkpoint| match checkpoint {
            Some(Checkpoint { image, .. }) => self.restore(log, &chain, image).map(Some),
            None => Ok(None),
        });
        let (mut reader, at, opened) = match restored {
            Ok(Some(restored)) => restored,
            Ok(None) => self.begin(log, &chain, None)?,
            Err(ignored) => self.begin(log, &chain, Some(ignored))?,
        };
        if let Some(last) = chain.last() {
            reader.read(&chain, at, self.window)?;
            let sentinels = self.params.sentinels.count();
            let Reader { state, tree, .. } = &mut reader;
            let len = state.len() as u64 + sentinels;
            if *tree.shape() != last.shape || tree.root() != last.root || len != last.shape.active {
                return Err(reader.corrupt(format!("entries up to block {} do not lead to its root", last.height)));
            }
            let linked = match state {
                State::Resident(state) => state.link_all(),
                State::Paged(_) => true,
            };
            if !linked {
                return Err(reader.corrupt("two entries of one key".into()));
            }
        }
        let Reader { state, tree, history, .. } = reader;
        Ok(Replayed { state, tree, chain, staged, history, next_id, opened })
    }

    /// Begins before the first block that the log holds.
    fn begin<'l>(
        &self,
        log: &'l dyn Log,
        chain: &[BlockRow],
        ignored: Option<Ignored>,
    ) -> Result<(Reader<'l>, usize, Opened), Error> {
        let corrupt = |what: String| Error::Corrupt { path: log.path(), what };
        let (mut state, mut tree) = genesis(self.params, self.salt, self.memory);
        let mut start = 0;
        if let Some(first) = chain.first() {
            if first.first_sn >= MAX_SN {
                return Err(corrupt(format!("block {} begins beyond all positions", first.height)));
            }
            let begun = first.parent_id == 0;
            if begun && (first.parent != tree.root() || first.height != 0 || first.first_sn != tree.shape().next_sn) {
                return Err(corrupt("the first block does not continue the empty state".into()));
            }
            if !begun {
                let shape = Shape { next_sn: first.first_sn, floor: first.first_sn, active: 0 };
                tree = Tree::starting_at(self.params, shape);
                if let State::Resident(state) = &mut state {
                    state.begin_at(first.first_sn);
                }
                start = first.first_sn;
            }
        }
        Ok((self.reader(log, state, tree, start), 0, Opened::Replayed { ignored }))
    }

    pub(super) fn reader<'l>(&self, log: &'l dyn Log, state: State, tree: Tree, start: u64) -> Reader<'l> {
        let (floor, read_sn) = (if start == 0 { tree.shape().floor } else { 0 }, tree.shape().next_sn);
        let (history, recording) = (Vec::new(), None);
        Reader { log, params: self.params, state, tree, start, floor, extents: 0, read_sn, history, recording }
    }
}

/// Checks that blocks continue each other.
pub(super) fn check(log: &dyn Log, chain: &[BlockRow]) -> Result<(), Error> {
    let corrupt = |what: String| Error::Corrupt { path: log.path(), what };
    for pair in chain.windows(2) {
        let [parent, row] = pair else { continue };
        if row.shape.floor < parent.shape.floor {
            return Err(corrupt(format!("block {} lowers the floor", row.height)));
        }
        if row.height != parent.height + 1 || row.parent != parent.root || row.first_sn != parent.shape.next_sn {
            return Err(corrupt(format!("block {} does not continue block {}", row.height, parent.height)));
        }
    }
    Ok(())
}

pub(super) struct Found {
    chain: Vec<BlockRow>,
    staged: Vec<BlockRow>,
    next_id: u64,
}

/// The rows of the blocks that lead to the tip, and of those that stand on it.
pub(super) fn find(log: &dyn Log) -> Result<Found, Error> {
    let tip = log.tip().0.unwrap_or(0);
    let mut rows: BTreeMap<u64, BlockRow> = log.blocks()?.into_iter().map(|row| (row.id, row)).collect();
    let next_id = rows.last_key_value().map_or(0, |(id, _)| *id) + 1;
    let (mut chain, mut id) = (Vec::new(), tip);
    while let Some(row) = rows.remove(&id) {
        // Ids grow along a chain, so this ends.
        id = row.parent_id;
        chain.push(row);
    }
    chain.reverse();
    if chain.is_empty() && tip != 0 {
        return Err(Error::Corrupt { path: log.path(), what: "the block of the tip is missing".into() });
    }
    let mut above = HashSet::from([tip]);
    let staged = rows.into_values().filter(|row| above.contains(&row.parent_id) && above.insert(row.id)).collect();
    Ok(Found { chain, staged, next_id })
}
