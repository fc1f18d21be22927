use std::sync::{
    Arc, Mutex, MutexGuard,
    atomic::{AtomicU64, Ordering},
};

use super::{Batch, Log};
use crate::{Error, row::TipRow};

/// What a store and its pending writes share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) log: Box<dyn Log>,
    order: Mutex<Order>,
    /// Positions below it can be read from the log, on whatever branch they are. Raised, with `Release`, after the write
    /// that made it so; readers load with `Acquire` and then ask the log, which has its own lock.
    written_sn: AtomicU64,
}

#[derive(Debug)]
struct Order {
    next_seq: u64,
    written_height: Option<u64>,
    poisoned: bool,
}

/// Something that is applied in memory and goes to the log.
#[derive(Debug)]
pub(crate) enum Write {
    Block(Box<Batch>),
    /// The tip becomes this block, of this height and with this many positions.
    Tip {
        row: TipRow,
        height: u64,
        next_sn: u64,
    },
}

impl Write {
    const fn seq(&self) -> u64 {
        match self {
            Self::Block(batch) => batch.block.seq,
            Self::Tip { row, .. } => row.seq,
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
    pub(crate) fn new(log: Box<dyn Log>, written_height: Option<u64>, written_sn: u64) -> Arc<Self> {
        let next_seq = log.tip().1;
        let order = Mutex::new(Order { next_seq, written_height, poisoned: false });
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
        self.order().written_height
    }

    pub(crate) fn written_sn(&self) -> u64 {
        self.written_sn.load(Ordering::Acquire)
    }

    /// Does something to the log between two writes; a failure poisons.
    pub(crate) fn between<T>(&self, act: impl FnOnce(&dyn Log) -> Result<T, Error>) -> Result<T, Error> {
        let mut order = self.order();
        if order.poisoned {
            return Err(Error::Poisoned);
        }
        act(&*self.log).inspect_err(|_| order.poisoned = true)
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
        if order.poisoned {
            return Err(Error::Poisoned);
        }
        // Set beforehand, so that a panic in the log poisons as well.
        order.poisoned = true;
        if write.seq() != order.next_seq {
            return Err(Error::OutOfOrder { expected: order.next_seq, got: write.seq() });
        }
        match write {
            Write::Block(batch) => {
                let (committed, height) = (batch.block.committed, batch.block.height);
                let next_sn = batch.block.shape.next_sn;
                self.shared.log.write(*batch)?;
                if committed {
                    order.written_height = Some(height);
                    self.shared.written_sn.store(next_sn, Ordering::Release);
                }
            }
            Write::Tip { row, height, next_sn } => {
                self.shared.log.set_tip(row)?;
                order.written_height = Some(height);
                self.shared.written_sn.store(next_sn, Ordering::Release);
            }
        }
        order.poisoned = false;
        order.next_seq += 1;
        Ok(())
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if self.write.is_some() {
            self.shared.order().poisoned = true;
        }
    }
}
