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
use crate::types::Error;

/// What a store and its pending writes share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) log: Box<dyn Log>,
    /// Held while something is written.
    order: Mutex<Order>,
    /// Set, with `Release`, when something failed; beside the lock, so that asking for it waits for no write.
    poisoned: AtomicBool,
    /// Set when something seemed to be absent because it could not be read.
    unread: AtomicBool,
    /// Writes below it are in the log. Raised, with `Release`, after the write that made it so; readers load with
    /// `Acquire` and then ask the log, which has its own lock.
    next_seq: AtomicU64,
}

#[derive(Debug)]
struct Order {
    written_height: Option<u64>,
}

/// Something that is applied in memory and goes to the log.
#[derive(Debug)]
pub(crate) enum Write {
    Block(Box<Batch>),
    /// The tip becomes this block of this height.
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
    pub(crate) fn new(log: Box<dyn Log>, written_height: Option<u64>) -> Arc<Self> {
        let next_seq = AtomicU64::new(log.tip().1);
        let (order, poisoned) = (Mutex::new(Order { written_height }), AtomicBool::new(false));
        Arc::new(Self { log, order, poisoned, unread: AtomicBool::new(false), next_seq })
    }

    fn order(&self) -> MutexGuard<'_, Order> {
        // A thread that panicked while writing left the log in doubt: that is what poisoned means here too.
        self.order.lock().unwrap_or_else(|poison| {
            self.poison();
            poison.into_inner()
        })
    }

    /// # Errors
    /// [`Error::Poisoned`].
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.poisoned.load(Ordering::Acquire) || self.order.is_poisoned() { Err(Error::Poisoned) } else { Ok(()) }
    }

    pub(crate) fn written_height(&self) -> Option<u64> {
        self.order().written_height
    }

    /// Ends the handle: something was not what it should have been.
    pub(crate) fn poison(&self) {
        if !self.poisoned.swap(true, Ordering::AcqRel) {
            metrics::poisoned();
        }
    }

    /// Ends the handle: something could not be read, and whoever asked was told that it was not there.
    pub(crate) fn could_not_read(&self) {
        self.unread.store(true, Ordering::Release);
        self.poison();
    }

    /// # Errors
    /// [`Error::Poisoned`] if something could not be read.
    pub(crate) fn check_read(&self) -> Result<(), Error> {
        if self.unread.load(Ordering::Acquire) { Err(Error::Poisoned) } else { Ok(()) }
    }

    pub(crate) fn next_seq(&self) -> u64 {
        self.next_seq.load(Ordering::Acquire)
    }

    /// Brings something to the log; returns whether there is another tip now.
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
                self.log.set_tip(record)?;
                metrics::tip_written();
                metrics::tip(height, &shape);
                Ok(true)
            }
        }
    }

    /// Does something to the log between two writes; a failure poisons.
    pub(crate) fn between<T>(&self, act: impl FnOnce(&dyn Log) -> Result<T, Error>) -> Result<T, Error> {
        let _order = self.order();
        self.check()?;
        act(&*self.log).inspect_err(|_| self.poison())
    }
}

/// Something that is applied in memory and not written to the log. Owned, so that another thread can write it while the
/// next block executes.
///
/// Writes go in the order in which they were made. Dropping one unwritten ends the store, because no later one could be
/// written: further calls return [`Error::Poisoned`].
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

    /// The block's height.
    pub fn height(&self) -> u64 {
        self.write.as_ref().map_or(0, Write::height)
    }

    /// Writes as one atomic batch, to what the store's [`Durability`](crate::Durability) promises. Staging reaches the
    /// kernel and no further; the commit's write brings it further.
    ///
    /// # Errors
    /// [`Error::OutOfOrder`] if an earlier write is still to be done, [`Error::Poisoned`], or what the log reports. After
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
