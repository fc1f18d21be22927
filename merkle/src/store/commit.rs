//! Prepares blocks, applies them, and hands out their writes.

use std::sync::Arc;

use parking_lot::RwLockWriteGuard;
use phalanx_merkle_proof::Hash;

use super::{handle::Store, prepared::Prepared};
use crate::{
    commit::{Effect, Overlaid},
    log::{Batch, BlockRecord, Pending, TipRecord, Write},
    state::State,
    tree::TreeView,
    types::{Delta, Error, MAX_PAYLOAD_LEN},
};

impl Store {
    /// Replaces the tip's note.
    ///
    /// # Errors
    /// [`Error::Stale`] before the first block, [`Error::TooLong`] past 16 MiB, [`Error::Poisoned`].
    pub fn annotate(&mut self, note: Vec<u8>) -> Result<Pending, Error> {
        self.shared.check_writable()?;
        let height = self.height().ok_or(Error::Stale { height: 0 })?;
        let id = self.tip().0;
        self.write_tip(id, height, note)
    }

    /// Creates the write that makes `id` the tip with a note.
    pub(crate) fn write_tip(&mut self, id: u64, height: u64, note: Vec<u8>) -> Result<Pending, Error> {
        check_note(&note)?;
        self.note.clone_from(&note);
        let record = TipRecord { seq: self.next_seq, id, note };
        self.next_seq += 1;
        let shape = self.shape();
        Ok(Pending::new(Arc::clone(&self.shared), Write::Tip { record, height, shape }))
    }
}

impl Store {
    /// Prepares the block that `delta` makes at `height`, which must follow the tip's ([`StoreConfig::first_height`](crate::StoreConfig::first_height) first): computes its root
    /// without I/O and without changing the store.
    ///
    /// Entries are in the order of key hashes, so the root depends only on the parent and the changes. Large blocks use
    /// the current rayon pool. Takes about 200 bytes per operation besides the delta.
    ///
    /// # Errors
    /// [`Error::Height`], [`Error::StaleLocator`], [`Error::Unchanged`], [`Error::TooLong`], [`Error::Poisoned`].
    pub fn prepare(&self, delta: Delta, height: u64) -> Result<Prepared, Error> {
        self.shared.check()?;
        let core = self.core();
        let expected = core.next_height();
        if height != expected {
            return Err(Error::Height { expected, got: height });
        }
        let log = &*self.shared.log;
        let effect = core.state.compute(
            log,
            None,
            TreeView::from(&core.tree).observed_by(core.fork_join.par()),
            self.params.hash,
            delta,
            height,
        )?;
        Ok(self.prepared(core.tip_id(), effect))
    }

    pub(crate) fn prepared(&self, parent_id: u64, effect: Effect) -> Prepared {
        Prepared { shared: Arc::clone(&self.shared), parent_id, base: None, effect, payload: Vec::new() }
    }

    /// Makes a prepared block the tip in memory, and returns its write, to be done in order on any thread.
    ///
    /// Forks on other blocks are gone. Idle workers of the current rayon pool help with large blocks.
    ///
    /// # Errors
    /// [`Error::Stale`] if the block was prepared on another tip or by another store; nothing has changed then.
    /// [`Error::Poisoned`].
    pub fn apply(&mut self, prepared: Prepared) -> Result<Pending, Error> {
        self.shared.check_writable()?;
        let Prepared { shared, parent_id, base, mut effect, payload } = prepared;
        let height = effect.height;
        if !Arc::ptr_eq(&shared, &self.shared) || parent_id != self.tip().0 {
            return Err(Error::Stale { height });
        }
        if let (Some(overlay), State::Resident(state)) = (&base, &self.core().state) {
            effect.lower(&Overlaid { state, overlay });
        }
        let id = self.new_id();
        let parent = self.root();
        let batch = self.batch(&mut effect, id, parent_id, parent, payload.clone(), true);
        self.advance(effect, &batch, payload);
        self.note.clear();
        Ok(Pending::new(shared, Write::Block(Box::new(batch))))
    }

    pub(crate) const fn new_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id - 1
    }

    /// Makes a block the tip in memory.
    pub(crate) fn advance(&mut self, effect: Effect, batch: &Batch, payload: Vec<u8>) {
        self.payload = payload;
        let seq = batch.block.seq;
        let codes = batch.codes.iter().map(|(hash, code)| (*hash, (seq, Arc::clone(code))));
        let bytes = batch.extents.iter().map(|records| records.bytes.len() as u64).sum();
        let plan = self.core().apply_plan(&effect);
        let gone = match &self.core().state {
            State::Paged(paged) => paged.gone(&effect.steps),
            State::Resident(_) => Vec::new(),
        };
        let mut core = self.core.write();
        core.apply(effect, plan, &batch.block);
        core.fresh_codes.extend(codes);
        // Rayon may wait for other jobs only now that they can read.
        let core = RwLockWriteGuard::downgrade(core);
        if let State::Paged(paged) = &core.state {
            paged.cache_block(&gone);
        }
        let tip = core.tip_id();
        self.job.applied(&core, seq, bytes);
        drop(core);
        self.forks.retain(|id, fork| *id != tip && fork.overlay.depth_above(tip).is_some());
    }

    /// Log records of a block.
    pub(crate) fn batch(
        &mut self,
        effect: &mut Effect,
        id: u64,
        parent_id: u64,
        parent: Hash,
        payload: Vec<u8>,
        committed: bool,
    ) -> Batch {
        let extents = effect.records.iter().map(|records| records.len() as u64).sum();
        let block = BlockRecord {
            seq: self.next_seq,
            committed,
            id,
            parent_id,
            height: effect.height,
            parent,
            root: effect.tree.root,
            first_extent: self.next_extent,
            extents,
            first_sn: effect.first_sn,
            shape: effect.tree.shape,
            payload,
        };
        self.next_seq += 1;
        self.next_extent += extents;
        let records = Arc::new(std::mem::take(&mut effect.records));
        // A staged block has no records left except those that it kept.
        if matches!(self.core().state, State::Paged(_)) && effect.kept.is_none() {
            effect.kept = Some(Arc::clone(&records));
        }
        let extents = if self.shared.log.keeps_entries() { records } else { Arc::default() };
        Batch { block, extents, codes: effect.delta.codes.clone() }
    }

    pub(crate) fn set_payload(&mut self, payload: Vec<u8>) {
        self.payload = payload;
    }

    /// Applies a prepared block and writes it to the log.
    ///
    /// # Errors
    /// Errors of [`Self::apply`] and of [`Pending::write`].
    pub fn commit(&mut self, prepared: Prepared) -> Result<(), Error> {
        self.apply(prepared)?.write()
    }
}

/// Checks the length of a note.
///
/// # Errors
/// [`Error::TooLong`].
pub(crate) const fn check_note(note: &[u8]) -> Result<(), Error> {
    if note.len() > MAX_PAYLOAD_LEN {
        return Err(Error::TooLong { what: "note", len: note.len(), max: MAX_PAYLOAD_LEN });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{Backend, Memory, StoreConfig};

    #[test]
    fn a_paged_state_has_room_for_billions_of_keys() {
        let dir = tempfile::tempdir().expect("a folder");
        let config = StoreConfig::new(Backend::File(dir.path().into())).with_memory(Memory::Cached { bytes: 1 << 20 });
        let mut store = Store::open(config).expect("a store");
        let put = |key: &[u8]| {
            let mut delta = Delta::new();
            delta.put(key, b"value");
            delta
        };
        let (sentinels, most) = (store.params().sentinels.count(), 1 << 38);
        let lengths = [(0, true), (1 << 29, true), (1 << 30, true), (1 << 33, true), (most - 1, true), (most, false)];
        for (height, (len, has_room)) in lengths.into_iter().enumerate() {
            match &mut store.core.write().state {
                State::Paged(paged) => paged.keys.pretend(len + sentinels),
                State::Resident(_) => panic!("the state is paged"),
            }
            let key = (height as u64).to_be_bytes();
            match store.prepare(put(&key), height as u64) {
                Ok(prepared) if has_room => store.commit(prepared).expect("a block"),
                Err(Error::TooLong { what: "state in keys", max, .. }) if !has_room => assert_eq!(max as u64, most),
                other => panic!("{len} keys: {other:?}"),
            }
            assert_eq!(store.read().get(&key).is_some(), has_room, "{len} keys");
        }
    }
}
