//! Flushing, pruning, and checking the log against the tree.

use std::sync::Arc;

use phalanx_merkle_proof::TWIG_LEAVES;

use super::{background::Background, handle::Store};
use crate::{state::State, tree::twig_of, types::Error};

impl Store {
    /// Makes every written block durable, whatever the store's durability.
    ///
    /// # Errors
    /// [`Error::Poisoned`], or what the log reports, after which the store is poisoned.
    pub fn flush(&self) -> Result<(), Error> {
        self.shared.between(|log| log.flush())
    }

    /// Bytes of entries that the backend rewrote by itself since the store was opened; `None` for backends that never
    /// do. RocksDB's compaction should only move files.
    pub fn rewritten_bytes(&self) -> Option<u64> {
        self.shared.log.rewritten()
    }

    /// Drops the beginning of the log that neither the state nor a rewind needs, and returns the number of dropped
    /// blocks.
    ///
    /// Flushes first, so that no crash can need it. Logs drop whole files, so some of it may stay on disk.
    ///
    /// # Errors
    /// [`Error::Poisoned`], or what the log reports, after which the store is poisoned.
    pub fn prune(&mut self) -> Result<u64, Error> {
        self.shared.check()?;
        let core = &mut *self.core.write();
        let written = core.written_blocks();
        let Some(oldest) = written.checked_sub(core.window + 1) else { return Ok(0) };
        // The oldest state of the history needs everything from its floor's twig on.
        let first = twig_of(core.chain[oldest].shape.floor) * TWIG_LEAVES as u64;
        let kept = core.chain.partition_point(|block| block.shape.next_sn <= first).min(oldest);
        let id = core.chain[kept].id;
        self.shared.between(|log| {
            log.flush()?;
            log.prune(id)
        })?;
        let first_sn = core.chain[kept].first_sn;
        if let State::Paged(paged) = &mut core.state {
            paged.extents.prune(first_sn);
        }
        core.chain.drain(..kept);
        crate::metrics::pruned(kept as u64);
        Ok(kept as u64)
    }

    /// Checks the log; see [`Background::check`].
    ///
    /// # Errors
    /// Errors of [`Background::check`].
    pub fn check(&self) -> Result<u64, Error> {
        self.background().check()
    }
}

impl Background {
    /// Reads all full twigs in use from the log and compares them with the tree; reads all code. Returns the number of
    /// twigs.
    ///
    /// Holds a lock for one twig at a time, so that blocks are applied meanwhile.
    ///
    /// # Errors
    /// [`Error::Corrupt`] at the first twig that differs, [`Error::Poisoned`], or what the log reports.
    pub fn check(&self) -> Result<u64, Error> {
        let shared = Arc::clone(&self.read().core.shared);
        shared.check()?;
        let mut checked = 0;
        let mut twig = 0;
        loop {
            let reader = self.read();
            twig = twig.max(reader.shape().first_twig());
            if !shared.log.keeps_entries() || (twig + 1) * TWIG_LEAVES as u64 > reader.core.written_sn() {
                break;
            }
            reader.check_twig(twig)?;
            (checked, twig) = (checked + 1, twig + 1);
        }
        shared.log.codes(&mut |_, _| Ok(()))?;
        Ok(checked)
    }
}
