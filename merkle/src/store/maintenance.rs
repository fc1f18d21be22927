//! Flushing, pruning, and checking the log against the tree.

use std::{collections::HashSet, sync::Arc};

use phalanx_merkle_proof::TWIG_LEAVES;

use super::{background::Background, handle::Store};
use crate::{
    log::Shared,
    state::State,
    types::{CodeRule, Error},
};

impl Store {
    /// Makes every written block durable, whatever the store's durability.
    ///
    /// # Errors
    /// [`Error::Poisoned`], or what the log reports, after which the store is poisoned.
    pub fn flush(&self) -> Result<(), Error> {
        self.shared.check_writable()?;
        self.shared.between(|log| log.flush())
    }

    /// Bytes of entries that the backend rewrote by itself since the store was opened; `None` for backends that never
    /// do. RocksDB's compaction should only move files.
    pub fn rewritten_bytes(&self) -> Option<u64> {
        self.shared.log.rewritten()
    }

    /// Drops the beginning of the log that no state, rewind, exporter or checkpoint needs, and returns the number of dropped
    /// blocks.
    ///
    /// Flushes first, so that no crash can need it. Logs drop whole files, so some of it may stay on disk.
    ///
    /// # Errors
    /// [`Error::Poisoned`], or what the log reports, after which the store is poisoned.
    pub fn prune(&mut self) -> Result<u64, Error> {
        self.shared.check_writable()?;
        let core = &mut *self.core.write();
        let written = core.written_blocks();
        let Some(oldest) = written.checked_sub(core.window + 1) else { return Ok(0) };
        // The oldest state of the history needs everything from its floor's twig on.
        let first = core.chain[oldest].shape.first_twig() * TWIG_LEAVES as u64;
        let first = core.pins.first().map_or(first, |pinned| first.min(pinned));
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
    /// Reads all full twigs in use from the log and compares them with the tree; reads every row of every block, and all
    /// code. With a rule of code in its [`Contents`](crate::Contents), [`Self::check_code`] follows. Returns the number of twigs.
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
        self.check_rows(&shared)?;
        shared.log.codes(&mut |_, _| Ok(()))?;
        let rule = self.read().core.contents.code;
        if let Some(rule) = &rule {
            self.check_code(rule)?;
        }
        Ok(checked)
    }

    /// Reads all rows of the blocks that the log has.
    fn check_rows(&self, shared: &Shared) -> Result<(), Error> {
        if !shared.log.keeps_entries() {
            return Ok(());
        }
        let ids: Vec<u64> = {
            let core = &self.read().core;
            core.chain.iter().take(core.written_blocks()).map(|block| block.id).collect()
        };
        for id in ids {
            let read = shared.log.extents(id, None, &mut |_, _| Ok(true)).and_then(|()| shared.log.block(id));
            match read {
                Ok(Some(_)) => {}
                // It was pruned or rewound meanwhile.
                _ if !self.read().core.chain.iter().any(|block| block.id == id) => {}
                Ok(None) => {
                    let what = format!("the row of block {id} is missing");
                    return Err(Error::Corrupt { path: shared.log.path(), what });
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Checks that all code that the state names is there and has its hash. Returns the number of different codes.
    ///
    /// Reads the whole state under a lock: blocks of this handle's store wait to be applied.
    ///
    /// # Errors
    /// [`Error::Corrupt`] at the first code that is missing or another, [`Error::Poisoned`], or what the log reports.
    pub fn check_code(&self, rule: &CodeRule) -> Result<u64, Error> {
        let mut named = HashSet::new();
        let shared = {
            let reader = self.read();
            reader.core.shared.check()?;
            reader.each_committed(|key, value| named.extend((rule.named)(key, value)))?;
            Arc::clone(&reader.core.shared)
        };
        for hash in &named {
            let fresh = self.read().core.fresh_codes.get(hash).map(|(_, code)| Arc::clone(code));
            let code = if fresh.is_some() { fresh } else { shared.log.code(hash)? };
            let what = match code {
                Some(code) if (rule.hash)(&code) == *hash => continue,
                Some(_) => "has another hash",
                None => "is missing",
            };
            let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
            let what = format!("code {hash}, which the state names, {what}");
            return Err(Error::Corrupt { path: shared.log.path(), what });
        }
        Ok(named.len() as u64)
    }
}
