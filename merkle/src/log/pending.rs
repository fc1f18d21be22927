//! Pending writes: a store hands them out in order, and they may be done on another thread. A failed or dropped write
//! poisons the store.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    sync::{Arc, Mutex, MutexGuard},
};

use phalanx_merkle_proof::Shape;

use super::{
    backend::{Batch, Log},
    record::{BlockRecord, TipRecord},
};
use crate::metrics;
use crate::types::{Access, Error};

/// State that a store and its pending writes share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) log: Box<dyn Log>,
    access: Access,
    /// Locked during a write.
    order: Mutex<Order>,
    /// Set, with `Release`, when something failed. Outside the lock, so that checking it waits for no write.
    poisoned: AtomicBool,
    /// Set when an entry seemed to be absent because a read failed.
    unread: AtomicBool,
    /// Writes below it are in the log. Raised with `Release` after the write; readers load with `Acquire` and then read
    /// the log, which has its own lock.
    next_seq: AtomicU64,
}

#[derive(Debug)]
struct Order {
    written_height: Option<u64>,
}

/// Write of something that is applied in memory.
#[derive(Debug)]
pub(crate) enum Write {
    Block(Box<Batch>),
    /// Makes a block of this height the tip.
    Tip {
        record: TipRecord,
        height: u64,
        shape: Shape,
    },
}

impl Write {
    const fn seq(&self) -> u64 {
        match self {
            Self::Block(batch) => batch.block.seq,
            Self::Tip { record, .. } => record.seq,
        }
    }

    const fn height(&self) -> u64 {
        match self {
            Self::Block(batch) => batch.block.height,
            Self::Tip { height, .. } => *height,
        }
    }
}

impl Shared {
    pub(crate) fn new(log: Box<dyn Log>, written_height: Option<u64>, access: Access) -> Arc<Self> {
        let next_seq = AtomicU64::new(log.tip().1);
        let (order, poisoned) = (Mutex::new(Order { written_height }), AtomicBool::new(false));
        Arc::new(Self { log, access, order, poisoned, unread: AtomicBool::new(false), next_seq })
    }

    fn order(&self) -> MutexGuard<'_, Order> {
        // A thread that panicked during a write left the log in doubt: poisoned means the same here.
        self.order.lock().unwrap_or_else(|poison| {
            self.poison();
            poison.into_inner()
        })
    }

    pub(crate) const fn access(&self) -> Access {
        self.access
    }

    /// Checks that the store may change and that nothing failed.
    ///
    /// # Errors
    /// [`Error::ReadOnly`], [`Error::Poisoned`].
    pub(crate) fn check_writable(&self) -> Result<(), Error> {
        if self.access == Access::Read { Err(Error::ReadOnly) } else { self.check() }
    }

    /// Checks that nothing failed.
    ///
    /// # Errors
    /// [`Error::Poisoned`].
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.poisoned.load(Ordering::Acquire) || self.order.is_poisoned() { Err(Error::Poisoned) } else { Ok(()) }
    }

    pub(crate) fn written_height(&self) -> Option<u64> {
        self.order().written_height
    }

    /// Ends the handle after a failure.
    pub(crate) fn poison(&self) {
        if !self.poisoned.swap(true, Ordering::AcqRel) {
            metrics::poisoned();
        }
    }

    /// Ends the handle after a failed read, whose caller saw the entry as absent.
    pub(crate) fn could_not_read(&self) {
        self.unread.store(true, Ordering::Release);
        self.poison();
    }

    /// Checks that no read failed.
    ///
    /// # Errors
    /// [`Error::Poisoned`].
    pub(crate) fn check_read(&self) -> Result<(), Error> {
        if self.unread.load(Ordering::Acquire) { Err(Error::Poisoned) } else { Ok(()) }
    }

    pub(crate) fn next_seq(&self) -> u64 {
        self.next_seq.load(Ordering::Acquire)
    }

    /// Writes to the log; returns true if the tip changed.
    fn put(&self, write: Write) -> Result<bool, Error> {
        match write {
            Write::Block(batch) => {
                let BlockRecord { committed, height, first_sn, shape, .. } = batch.block;
                self.log.write(*batch)?;
                metrics::block_written(shape.next_sn.saturating_sub(first_sn), committed);
                if committed {
                    metrics::tip(height, &shape);
                }
                Ok(committed)
            }
            Write::Tip { record, height, shape } => {
                self.log.set_tip(record, height)?;
                metrics::tip_written();
                metrics::tip(height, &shape);
                Ok(true)
            }
        }
    }

    /// Acts on the log between two writes; a failure poisons the store.
    pub(crate) fn between<T>(&self, act: impl FnOnce(&dyn Log) -> Result<T, Error>) -> Result<T, Error> {
        let _order = self.order();
        self.check()?;
        act(&*self.log).inspect_err(|_| self.poison())
    }
}

/// Pending write of something that is applied in memory. It is owned, so that another thread can write it while the
/// next block executes.
///
/// Writes must be done in the order in which they were made. Dropping an unwritten one poisons the store, because no
/// later one can be written: further calls return [`Error::Poisoned`].
#[derive(Debug)]
#[must_use = "an applied block is not in the log until it is written"]
pub struct Pending {
    shared: Arc<Shared>,
    write: Option<Write>,
}

impl Pending {
    pub(crate) const fn new(shared: Arc<Shared>, write: Write) -> Self {
        Self { shared, write: Some(write) }
    }

    /// Height of the block.
    pub fn height(&self) -> u64 {
        self.write.as_ref().map_or(0, Write::height)
    }

    /// Writes atomically, with the store's [`Durability`](crate::Durability). A staged block reaches the kernel; the
    /// write of its commit makes it durable.
    ///
    /// # Errors
    /// [`Error::OutOfOrder`] if an earlier write is still pending, [`Error::Poisoned`], or what the log reports. After
    /// any of them the store is poisoned.
    pub fn write(mut self) -> Result<(), Error> {
        let Some(write) = self.write.take() else { return Err(Error::Poisoned) };
        let mut order = self.shared.order();
        self.shared.check()?;
        let (seq, height, next_seq) = (write.seq(), write.height(), self.shared.next_seq());
        if seq != next_seq {
            self.shared.poison();
            return Err(Error::OutOfOrder { expected: next_seq, got: seq });
        }
        if self.shared.put(write).inspect_err(|_| self.shared.poison())? {
            order.written_height = Some(height);
        }
        self.shared.next_seq.store(seq + 1, Ordering::Release);
        Ok(())
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if self.write.is_some() {
            self.shared.poison();
        }
    }
}
