//! Recovers a store: finds the blocks that lead to the tip, chooses a checkpoint or the beginning, replays, and
//! compares the root.

use std::collections::{BTreeMap, HashSet};

use phalanx_merkle_proof::{Params, Shape};

use super::{
    checkpoint::{Checkpoint, Ignored, Opened},
    replay::Replayer,
};
use crate::{
    commit::UndoRecord,
    log::{BlockRecord, Log},
    state::{KeyDigester, Paged, Resident, State},
    tree::{Tree, sentinels},
    types::{Error, MAX_SN, Memory},
};

/// State that a log leads to.
#[derive(Debug)]
pub(crate) struct Recovered {
    pub(crate) state: State,
    pub(crate) tree: Tree,
    /// Blocks up to the tip that the log still has.
    pub(crate) chain: Vec<BlockRecord>,
    /// Blocks on top of the tip, by ascending id.
    pub(crate) staged: Vec<BlockRecord>,
    /// Undo records of the last blocks.
    pub(crate) history: Vec<UndoRecord>,
    /// Exclusive bound of all ids.
    pub(crate) next_id: u64,
    pub(crate) opened: Opened,
    /// Bytes of log between the checkpoint that was used and the blocks that can be rolled back.
    pub(crate) behind: u64,
}

/// Parameters of a recovery.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recovery {
    pub(crate) params: Params,
    pub(crate) salt: u64,
    /// Number of last blocks whose undo records are kept.
    pub(crate) window: usize,
    pub(crate) memory: Memory,
    /// Height of the first block of all; `None` for any.
    pub(crate) first_height: Option<u64>,
}

/// State and tree before the first block.
pub(super) fn genesis(params: Params, salt: u64, memory: Memory) -> (State, Tree) {
    let state = match memory {
        Memory::Resident => State::Resident(Resident::new(salt, &params)),
        Memory::Cached { bytes } => State::Paged(Paged::new(&params, KeyDigester::new(salt), bytes)),
    };
    (state, Tree::new(params, &sentinels(&params).collect::<Vec<_>>()))
}

impl Recovery {
    /// Replays a log from a checkpoint or from its beginning, and checks it: blocks and extents continue each other,
    /// entries and deletions refer to current positions, and the computed root equals the recorded root.
    ///
    /// O(entries of the log from there on).
    ///
    /// # Errors
    /// [`Error::Corrupt`] where a check fails, [`Error::TooLong`] for more keys than this memory holds, and what the log reports.
    pub(crate) fn replay(
        mut self,
        log: &dyn Log,
        checkpoint: Result<Option<Checkpoint>, Ignored>,
    ) -> Result<Recovered, Error> {
        if !log.keeps_entries() {
            self.memory = Memory::Resident;
        }
        let Found { chain, staged, next_id } = find(log)?;
        check(log, &chain)?;
        self.has_room(&chain)?;
        // All that a checkpoint names is durable before it.
        if let Ok(Some(Checkpoint { image, note, .. })) = &checkpoint
            && log.marks().is_secret()
            && note.next_seq > log.tip().1
        {
            let (checkpoint, ends) = (image.of.height, log.tip().1);
            let what =
                format!("the log ends before row {ends}, and is older than its checkpoint of block {checkpoint}");
            return Err(Error::Corrupt { path: log.path(), what });
        }
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
            let Replayer { state, tree, .. } = &mut reader;
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
        let Replayer { state, tree, history, bytes, .. } = reader;
        let behind = if matches!(opened, Opened::Checkpoint { .. }) { bytes } else { 0 };
        Ok(Recovered { state, tree, chain, staged, history, next_id, opened, behind })
    }

    /// Checks that this memory holds the state of every block.
    ///
    /// # Errors
    /// [`Error::TooLong`].
    fn has_room(&self, chain: &[BlockRecord]) -> Result<(), Error> {
        // A record that claims more entries than it has positions is damaged, which its replay says.
        let shapes = chain.iter().map(|record| record.shape);
        let sound = shapes.filter(|shape| shape.active <= shape.next_sn.saturating_sub(shape.floor));
        let active = sound.map(|shape| shape.active).max().unwrap_or_default();
        let (keys, most) = (active.saturating_sub(self.params.sentinels.count()), self.memory.max_keys());
        if keys > most {
            return Err(Error::TooLong { what: "state in keys", len: keys as usize, max: most as usize });
        }
        Ok(())
    }

    /// Begins before the first block that the log has.
    fn begin<'l>(
        &self,
        log: &'l dyn Log,
        chain: &[BlockRecord],
        ignored: Option<Ignored>,
    ) -> Result<(Replayer<'l>, usize, Opened), Error> {
        let corrupt = |what: String| Error::Corrupt { path: log.path(), what };
        let (mut state, mut tree) = genesis(self.params, self.salt, self.memory);
        let mut start = 0;
        if let Some(first) = chain.first() {
            if first.first_sn >= MAX_SN {
                return Err(corrupt(format!("block {} begins beyond all positions", first.height)));
            }
            let begun = first.parent_id == 0;
            // Sentinels come first, so a snapshot that begins behind them begins with them.
            let known = begun || first.is_base() && first.first_sn == tree.shape().next_sn;
            let is_first = self.first_height.is_none_or(|height| height == first.height);
            let follows = first.parent == tree.root() && is_first;
            if begun && (!follows || first.first_sn != tree.shape().next_sn) {
                return Err(corrupt("the first block does not continue the empty state".into()));
            }
            if !known {
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

    pub(super) fn reader<'l>(&self, log: &'l dyn Log, state: State, tree: Tree, start: u64) -> Replayer<'l> {
        let (floor, read_sn) = (if start == 0 { tree.shape().floor } else { 0 }, tree.shape().next_sn);
        let (history, recording) = (Vec::new(), None);
        let (extents, bytes) = (0, 0);
        Replayer { log, params: self.params, state, tree, start, floor, extents, read_sn, bytes, history, recording }
    }
}

/// Checks that blocks continue each other.
pub(super) fn check(log: &dyn Log, chain: &[BlockRecord]) -> Result<(), Error> {
    let corrupt = |what: String| Error::Corrupt { path: log.path(), what };
    for pair in chain.windows(2) {
        let [parent, record] = pair else { continue };
        if record.shape.floor < parent.shape.floor {
            return Err(corrupt(format!("block {} lowers the floor", record.height)));
        }
        if record.height != parent.height + 1 || record.parent != parent.root || record.first_sn != parent.shape.next_sn
        {
            return Err(corrupt(format!("block {} does not continue block {}", record.height, parent.height)));
        }
    }
    Ok(())
}

pub(super) struct Found {
    chain: Vec<BlockRecord>,
    staged: Vec<BlockRecord>,
    next_id: u64,
}

/// Finds the records of the blocks that lead to the tip, and of those on top of it.
pub(super) fn find(log: &dyn Log) -> Result<Found, Error> {
    let tip = log.tip().0.unwrap_or(0);
    let mut records: BTreeMap<u64, BlockRecord> = log.blocks()?.into_iter().map(|record| (record.id, record)).collect();
    let next_id = records.last_key_value().map_or(0, |(id, _)| *id) + 1;
    let (mut chain, mut id) = (Vec::new(), tip);
    while let Some(record) = records.remove(&id) {
        // Ids ascend along a chain, so the loop ends.
        id = record.parent_id;
        chain.push(record);
    }
    chain.reverse();
    if chain.is_empty() && tip != 0 {
        return Err(Error::Corrupt { path: log.path(), what: "the block of the tip is missing".into() });
    }
    let mut above = HashSet::from([tip]);
    let staged =
        records.into_values().filter(|record| above.contains(&record.parent_id) && above.insert(record.id)).collect();
    Ok(Found { chain, staged, next_id })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A log of so many keys is too long to be made by a test.
    #[test]
    fn a_log_of_more_keys_than_memory_holds_is_refused_by_name() {
        let params = Params::default();
        let open = |memory: Memory, keys: u64, next_sn: u64| {
            let shape = Shape { next_sn, floor: 0, active: keys + params.sentinels.count() };
            let record = BlockRecord {
                seq: 1,
                committed: true,
                id: 1,
                parent_id: 0,
                height: 0,
                parent: [0; 32],
                root: [0; 32],
                first_extent: 0,
                extents: 0,
                first_sn: 0,
                shape,
                payload: Vec::new(),
            };
            Recovery { params, salt: 0, window: 8, memory, first_height: None }.has_room(&[record])
        };
        for memory in [Memory::Resident, Memory::Cached { bytes: 0 }] {
            let most = memory.max_keys();
            assert!(open(memory, most, 1 << 40).is_ok(), "{memory:?}");
            let refused = open(memory, most + 1, 1 << 40);
            let expected = (most as usize + 1, most as usize);
            assert!(matches!(refused, Err(Error::TooLong { len, max, .. }) if (len, max) == expected), "{refused:?}");
            // It has fewer positions than it claims entries, so it is damaged.
            assert!(open(memory, most + 1, 1000).is_ok(), "{memory:?}");
        }
    }
}
