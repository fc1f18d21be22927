//! A log that keeps nothing on disk: the state ends with the process.

use std::{
    collections::{BTreeMap, HashMap},
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use phalanx_merkle_proof::Hash;

use super::{
    backend::{Batch, Begin, Files, Log, Spot, Visit, VisitCode, VisitMany},
    index::LogIndex,
    record::{BlockRecord, Marks, Records, TipRecord},
};
use crate::types::{Error, Tail};

/// Log in memory: keeps block records and code, but no entries.
#[derive(Debug, Default)]
pub(crate) struct MemLog {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    blocks: BTreeMap<u64, BlockRecord>,
    codes: HashMap<Hash, Arc<[u8]>>,
}

impl MemLog {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Log for MemLog {
    fn path(&self) -> PathBuf {
        PathBuf::from("(memory)")
    }

    fn marks(&self) -> &Marks {
        &Marks::PLAIN
    }

    fn heal(self: Box<Self>) -> Result<(Box<dyn Log>, Tail), Error> {
        Ok((self, Tail::default()))
    }

    fn keeps_entries(&self) -> bool {
        false
    }

    fn write(&self, batch: Batch) -> Result<(), Error> {
        let mut kept = self.kept();
        kept.blocks.insert(batch.block.id, batch.block);
        kept.codes.extend(batch.codes);
        Ok(())
    }

    fn write_code(&self, hash: &Hash, code: &[u8]) -> Result<(), Error> {
        self.kept().codes.insert(*hash, code.into());
        Ok(())
    }

    fn write_part(&self, _extents: &Records, _first_extent: u64) -> Result<(), Error> {
        Ok(())
    }

    fn set_tip(&self, _: TipRecord, _: u64) -> Result<(), Error> {
        Ok(())
    }

    fn flush(&self) -> Result<(), Error> {
        Ok(())
    }

    fn blocks(&self) -> Result<Vec<BlockRecord>, Error> {
        Ok(self.kept().blocks.values().cloned().collect())
    }

    fn tip(&self) -> (Option<u64>, u64) {
        (None, 0)
    }

    fn take_note(&self) -> Vec<u8> {
        Vec::new()
    }

    fn extents(&self, _: u64, _: Option<u64>, _: Visit<'_>) -> Result<(), Error> {
        Ok(())
    }

    fn block(&self, id: u64) -> Result<Option<BlockRecord>, Error> {
        Ok(self.kept().blocks.get(&id).cloned())
    }

    fn code(&self, hash: &Hash) -> Result<Option<Arc<[u8]>>, Error> {
        Ok(self.kept().codes.get(hash).cloned())
    }

    fn codes(&self, visit: VisitCode<'_>) -> Result<(), Error> {
        let codes = self.kept().codes.clone();
        codes.iter().try_for_each(|(hash, code)| visit(hash, code))
    }

    fn next_extent(&self) -> u64 {
        0
    }

    fn begin(&self, _: u64) -> Option<Begin> {
        None
    }

    fn read(&self, _: &[Spot], _: &Files, _: VisitMany<'_>) -> Result<(), Error> {
        Ok(())
    }

    fn note(&self) -> Result<LogIndex, Error> {
        Ok(LogIndex::default())
    }

    fn settle(&self) -> Result<(), Error> {
        Ok(())
    }

    fn prune(&self, id: u64) -> Result<(), Error> {
        let mut kept = self.kept();
        kept.blocks = kept.blocks.split_off(&id);
        Ok(())
    }
}
