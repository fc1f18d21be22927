use std::sync::Arc;

use parking_lot::RwLock;

use super::{
    handle::Store,
    reader::{At, Reader},
};
use crate::commit::Core;

/// Reads a whole store while it goes on, on a thread of its own: [`Self::export`] is an online backup, [`Self::check`] a
/// scrubber. Blocks are prepared, applied, written and pruned meanwhile.
///
/// While there is one, dropping the store does not close its log.
///
/// It takes turns with blocks that wait to be applied. So the thread that calls it must hold no [`Reader`]: a block would
/// wait for that one, and this for the block.
#[derive(Clone, Debug)]
pub struct Background {
    pub(crate) core: Arc<RwLock<Core>>,
}

impl Background {
    /// Lets a block pass that waits to be applied: one twig after the other would never leave it a gap. Whoever calls this
    /// has dropped what it returned before.
    pub(crate) fn read(&self) -> Reader<'_> {
        Reader::new(self.core.read(), At::Tip)
    }
}

impl Store {
    /// What reads the whole store on another thread.
    pub fn background(&self) -> Background {
        Background { core: Arc::clone(&self.core) }
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc::channel, time::Duration};

    use super::Store;
    use crate::types::{Backend, Delta, StoreConfig};

    /// A block that waits is applied before what is read next, however many read one after the other.
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
            // The lock refuses who would be fair as soon as somebody waits for it.
            while background.core.try_read().is_some() {
                std::thread::yield_now();
            }
            let (to, seen) = channel();
            let background = &background;
            scope.spawn(move || to.send(background.read().height()).expect("somebody listens"));
            // Nothing comes while the reader is held, however long it is waited for.
            assert!(seen.recv_timeout(Duration::from_millis(100)).is_err(), "it went before the block that waits");
            drop(held);
            assert_eq!(seen.recv(), Ok(Some(0)));
        });
    }
}
