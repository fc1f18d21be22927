use std::sync::Arc;

use phalanx_merkle_proof::TWIG_LEAVES;

use super::{background::Background, handle::Store};
use crate::{state::State, tree::twig_of, types::Error};

impl Store {
    /// Makes every written block survive power loss, whatever the durability.
    ///
    /// # Errors
    /// [`Error::Poisoned`], or what the log reports, after which the store is poisoned.
    pub fn flush(&self) -> Result<(), Error> {
        self.shared.between(|log| log.flush())
    }

    /// Bytes of entries that the backend wrote again by itself since the store was opened: RocksDB's compaction, which is
    /// to move files only. `None` for backends that never do.
    pub fn rewritten_bytes(&self) -> Option<u64> {
        self.shared.log.rewritten()
    }

    /// Drops the beginning of the log, as far as neither the state nor the blocks that can be undone need it; flushes
    /// before, so that no crash can need it either. Returns how many blocks the store no longer knows. Logs drop whole
    /// files, so some of it may stay on disk.
    ///
    /// # Errors
    /// [`Error::Poisoned`], or what the log reports, after which the store is poisoned.
    pub fn prune(&mut self) -> Result<u64, Error> {
        self.shared.check()?;
        let core = &mut *self.core.write();
        let written = core.written_blocks();
        let Some(oldest) = written.checked_sub(core.window + 1) else { return Ok(0) };
        // The oldest state that is ever gone back to needs everything from its floor's twig on.
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

    /// Like [`Background::check`].
    ///
    /// # Errors
    /// Those of [`Background::check`].
    pub fn check(&self) -> Result<u64, Error> {
        self.background().check()
    }
}

impl Background {
    /// Reads all full twigs that are in use back from the log and compares them with what the state's root stands on, and
    /// all code. Returns how many twigs there are.
    ///
    /// Takes no longer lock than for one twig at a time, so that blocks are applied meanwhile.
    ///
    /// # Errors
    /// [`Error::Corrupt`] at the first twig that is not what it was, [`Error::Poisoned`], or what the log reports.
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
