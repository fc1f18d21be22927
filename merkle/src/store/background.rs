//! A handle for long reads beside the running store: online backup and scrubbing.

use std::sync::Arc;

use parking_lot::RwLock;

use super::{
    handle::Store,
    held::{At, Held},
};
use crate::commit::Core;

/// Handle that reads a whole store beside its work, on another thread: [`Self::export`] is an online backup,
/// [`Self::check`] a scrubber. Blocks are prepared, applied, written and pruned meanwhile.
///
/// While a handle exists, dropping the store does not close its log.
///
/// The handle takes turns with blocks that wait to be applied. So its thread must hold no [`Reader`](crate::Reader): the block would
/// wait for the reader, and the handle for the block.
#[derive(Clone, Debug)]
pub struct Background {
    pub(crate) core: Arc<RwLock<Core>>,
}

impl Background {
    /// Lets a waiting block be applied first: one read per twig would leave it no gap. The caller has dropped the
    /// previous reader.
    pub(crate) fn read(&self) -> Held<'_> {
        Held::new(self.core.read(), At::Tip)
    }
}

impl Store {
    /// Handle that reads the whole store on another thread.
    pub fn background(&self) -> Background {
        Background { core: Arc::clone(&self.core) }
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc::channel, time::Duration};

    use super::Store;
    use crate::types::{Backend, Delta, StoreConfig};

    /// A waiting block is applied before the next read, however many reads follow each other.
    #[test]
    fn takes_turns_with_a_block_that_waits() {
        let mut store = Store::open(StoreConfig::new(Backend::Mem)).expect("a store");
        let mut delta = Delta::new();
        delta.put(b"a", b"1");
        let prepared = store.prepare(delta, 0).expect("a block");
        let (snapshot, background) = (store.snapshot(store.tip()).expect("the tip"), store.background());
        let held = snapshot.read().expect("it is the tip");
        std::thread::scope(|scope| {
            scope.spawn(move || store.commit(prepared).expect("a block"));
            // The lock refuses a fair reader as soon as a writer waits.
            while background.core.try_read().is_some() {
                std::thread::yield_now();
            }
            let (to, seen) = channel();
            let background = &background;
            scope.spawn(move || to.send(background.read().height()).expect("the receiver lives"));
            // No read succeeds while the reader is held.
            assert!(seen.recv_timeout(Duration::from_millis(100)).is_err(), "it went before the block that waits");
            drop(held);
            assert_eq!(seen.recv(), Ok(Some(0)));
        });
    }
}
