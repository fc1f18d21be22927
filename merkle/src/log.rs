//! Where blocks go so that they outlive the process.

mod file;
mod mem;
#[cfg(feature = "rocksdb")]
mod rocks;

use std::{
    fmt::Debug,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
};

pub(crate) use file::FileLog;
pub(crate) use mem::MemLog;
#[cfg(feature = "rocksdb")]
pub(crate) use rocks::RocksLog;

use crate::{
    Error,
    row::{BlockRow, Rows},
};

/// A block as rows.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) block: BlockRow,
    /// Its extents in order.
    pub(crate) extents: Vec<Rows>,
    pub(crate) codes: Vec<([u8; 32], Arc<[u8]>)>,
}

/// Who reads a log from its beginning.
pub(crate) trait Replay {
    /// The body of an extent of the block whose row comes next.
    fn extent(&mut self, body: &[u8]) -> Result<(), Error>;
    /// A block; all its extents came before.
    fn block(&mut self, row: BlockRow) -> Result<(), Error>;
}

/// A log of blocks. Calls come from several threads; writes come one at a time, by height.
pub(crate) trait Log: Debug + Send + Sync {
    /// Where the log is, for errors.
    fn path(&self) -> PathBuf;

    /// Whether entries can be read back.
    fn keeps_entries(&self) -> bool;

    /// Adds a block: all of it or, if the process dies, nothing of it.
    fn write(&self, batch: Batch) -> Result<(), Error>;

    /// Makes everything written survive power loss.
    fn flush(&self) -> Result<(), Error>;

    /// Reads the whole log in order.
    fn replay(&self, to: &mut dyn Replay) -> Result<(), Error>;

    /// Hands the bodies of the extents that reach into a full twig to `see`, in order, until it says stop.
    fn twig(&self, twig: u64, see: &mut dyn FnMut(&[u8]) -> bool) -> Result<(), Error>;

    /// The row of a written block.
    fn block(&self, height: u64) -> Result<Option<BlockRow>, Error>;

    /// The code with this hash, if it was written.
    fn code(&self, hash: &[u8; 32]) -> Result<Option<Arc<[u8]>>, Error>;

    /// The lowest extent number that was never used.
    fn next_extent(&self) -> u64;
}

/// What a store and its pending writes share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) log: Box<dyn Log>,
    order: Mutex<Order>,
    /// Positions below it can be read from the log. Raised, with `Release`, after the write that made it so; readers
    /// load with `Acquire` and then ask the log, which has its own lock.
    written_sn: AtomicU64,
}

#[derive(Debug)]
struct Order {
    next_height: u64,
    poisoned: bool,
}

impl Shared {
    pub(crate) fn new(log: Box<dyn Log>, next_height: u64, written_sn: u64) -> Arc<Self> {
        let order = Mutex::new(Order { next_height, poisoned: false });
        Arc::new(Self { log, order, written_sn: AtomicU64::new(written_sn) })
    }

    fn order(&self) -> MutexGuard<'_, Order> {
        // A thread that panicked while writing left the log in doubt: that is what poisoned means here too.
        self.order.lock().unwrap_or_else(|poison| {
            let mut order = poison.into_inner();
            order.poisoned = true;
            order
        })
    }

    /// # Errors
    /// [`Error::Poisoned`].
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.order().poisoned { Err(Error::Poisoned) } else { Ok(()) }
    }

    pub(crate) fn written_height(&self) -> Option<u64> {
        self.order().next_height.checked_sub(1)
    }

    pub(crate) fn written_sn(&self) -> u64 {
        self.written_sn.load(Ordering::Acquire)
    }

    /// Flushes between two writes.
    pub(crate) fn flush(&self) -> Result<(), Error> {
        let mut order = self.order();
        if order.poisoned {
            return Err(Error::Poisoned);
        }
        self.log.flush().inspect_err(|_| order.poisoned = true)
    }
}

/// A block that is applied in memory and not written to the log. Owned, so that another thread can write it while the next
/// block executes.
///
/// Blocks are written in the order in which they were applied. Dropping one unwritten ends the store, because no later
/// block could be written: further calls return [`Error::Poisoned`].
#[derive(Debug)]
#[must_use = "an applied block is not in the log until it is written"]
pub struct Pending {
    shared: Arc<Shared>,
    batch: Option<Batch>,
}

impl Pending {
    pub(crate) const fn new(shared: Arc<Shared>, batch: Batch) -> Self {
        Self { shared, batch: Some(batch) }
    }

    /// The block's height.
    pub fn height(&self) -> u64 {
        self.batch.as_ref().map_or(0, |batch| batch.block.height)
    }

    /// Writes the block as one atomic batch, to what the store's [`Durability`](crate::Durability) promises.
    ///
    /// # Errors
    /// [`Error::OutOfOrder`] if a lower block is not written yet, [`Error::Poisoned`], or what the log reports. After any
    /// of them the store is poisoned.
    pub fn write(mut self) -> Result<(), Error> {
        let Some(batch) = self.batch.take() else { return Err(Error::Poisoned) };
        let mut order = self.shared.order();
        if order.poisoned {
            return Err(Error::Poisoned);
        }
        let (height, next_sn) = (batch.block.height, batch.block.next_sn);
        if height != order.next_height {
            order.poisoned = true;
            return Err(Error::OutOfOrder { expected: order.next_height, got: height });
        }
        // Set beforehand, so that a panic in the log poisons as well.
        order.poisoned = true;
        self.shared.log.write(batch)?;
        order.poisoned = false;
        order.next_height += 1;
        self.shared.written_sn.store(next_sn, Ordering::Release);
        Ok(())
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if self.batch.is_some() {
            self.shared.order().poisoned = true;
        }
    }
}
