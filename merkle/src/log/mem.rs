use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use super::{Batch, Log, Replay};
use crate::{Error, row::BlockRow};

/// No log: block rows and code stay in memory, entries are not kept.
#[derive(Debug, Default)]
pub(crate) struct MemLog {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    blocks: Vec<BlockRow>,
    codes: HashMap<[u8; 32], Arc<[u8]>>,
}

impl Log for MemLog {
    fn path(&self) -> PathBuf {
        PathBuf::from("(memory)")
    }

    fn keeps_entries(&self) -> bool {
        false
    }

    fn write(&self, batch: Batch) -> Result<(), Error> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.blocks.push(batch.block);
        kept.codes.extend(batch.codes);
        Ok(())
    }

    fn flush(&self) -> Result<(), Error> {
        Ok(())
    }

    fn replay(&self, _: &mut dyn Replay) -> Result<(), Error> {
        Ok(())
    }

    fn twig(&self, _: u64, _: &mut dyn FnMut(&[u8]) -> bool) -> Result<(), Error> {
        Ok(())
    }

    fn block(&self, height: u64) -> Result<Option<BlockRow>, Error> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(usize::try_from(height).ok().and_then(|height| kept.blocks.get(height)).cloned())
    }

    fn code(&self, hash: &[u8; 32]) -> Result<Option<Arc<[u8]>>, Error> {
        Ok(self.kept.lock().unwrap_or_else(PoisonError::into_inner).codes.get(hash).cloned())
    }

    fn next_extent(&self) -> u64 {
        0
    }
}
