//! Callers that wait for transactions. Each is woken once, by the block that holds its transaction, and gets that block from memory.
//!
//! A caller notes the hash before it offers the transaction. A block that is made visible behind the note finds it. A pool that follows
//! the chain a moment later may admit a transaction of a block that was visible before. So the caller looks for the transaction in
//! memory once it is admitted, and waits only then.

use crate::store::{Block, Entry};
use parking_lot::Mutex;
use phalanx::alloy::primitives::B256;
use std::{collections::HashMap, sync::Arc};
use tokio::sync::oneshot;

/// Maximum number of transactions that callers wait for: as many as wait to be admitted.
const MOST: usize = 1 << 16;

/// Transactions of a block that are looked up at a time. A caller that comes meanwhile waits for no more than these.
const CHUNK: usize = 256;

/// A transaction in a visible block.
#[derive(Debug)]
pub(crate) struct Placed {
    pub(crate) block: Arc<Block>,
    pub(crate) index: usize,
}

impl Placed {
    pub(crate) fn entry(&self) -> Option<&Entry> {
        self.block.entries.get(self.index)
    }
}

/// A caller, which has a number of its own.
type Caller = (u64, oneshot::Sender<Placed>);

/// Callers by the hash of the transaction that they wait for.
#[derive(Debug, Default)]
pub(super) struct Awaited(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    callers: HashMap<B256, Vec<Caller>>,
    count: usize,
    last: u64,
    has_ended: bool,
}

impl Awaited {
    /// Notes a caller; `None` if as many wait as may. After the end its wait is over at once.
    pub(super) fn add(self: &Arc<Self>, hash: B256) -> Option<Awaiting> {
        let (placed, receiver) = oneshot::channel();
        let waiting = &mut *self.0.lock();
        if waiting.count == MOST {
            return None;
        }
        waiting.last += 1;
        if !waiting.has_ended {
            waiting.count += 1;
            waiting.callers.entry(hash).or_default().push((waiting.last, placed));
        }
        Some(Awaiting { all: Arc::clone(self), hash, number: waiting.last, receiver })
    }

    /// Wakes the callers whose transactions a block holds that has become visible.
    pub(super) fn wake(&self, block: &Arc<Block>) {
        for (chunk, first) in block.entries.chunks(CHUNK).zip((0..).step_by(CHUNK)) {
            let waiting = &mut *self.0.lock();
            if waiting.callers.is_empty() {
                return;
            }
            for (entry, index) in chunk.iter().zip(first..) {
                for (_, caller) in waiting.callers.remove(&entry.hash).into_iter().flatten() {
                    waiting.count -= 1;
                    // An error means that the caller has gone.
                    let _ = caller.send(Placed { block: Arc::clone(block), index });
                }
            }
        }
    }

    /// Ends the wait of all callers, and of those to come.
    pub(super) fn end(&self) {
        let waiting = &mut *self.0.lock();
        (waiting.has_ended, waiting.count) = (true, 0);
        waiting.callers = HashMap::new();
    }

    fn remove(&self, hash: &B256, number: u64) {
        let Waiting { callers, count, .. } = &mut *self.0.lock();
        let Some(of) = callers.get_mut(hash) else { return };
        let before = of.len();
        of.retain(|(of, _)| *of != number);
        *count -= before - of.len();
        if of.is_empty() {
            callers.remove(hash);
        }
    }
}

/// A noted caller, which is forgotten once this is dropped.
#[derive(Debug)]
pub(crate) struct Awaiting {
    all: Arc<Awaited>,
    hash: B256,
    number: u64,
    receiver: oneshot::Receiver<Placed>,
}

impl Awaiting {
    /// Waits until a visible block holds the transaction; `None` if the node stops.
    pub(crate) async fn placed(&mut self) -> Option<Placed> {
        (&mut self.receiver).await.ok()
    }
}

impl Drop for Awaiting {
    fn drop(&mut self) {
        self.all.remove(&self.hash, self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx::alloy::primitives::{Address, Bytes};

    fn hash(number: u64) -> B256 {
        B256::left_padding_from(&number.to_be_bytes())
    }

    fn block(height: u64, txs: impl Iterator<Item = u64>) -> Arc<Block> {
        let entry = |number| Entry {
            bytes: Bytes::new(),
            hash: hash(number),
            sender: Address::ZERO,
            succeeded: true,
            gas_used: 0,
            cumulative_gas: 0,
            first_log: 0,
            created: Bytes::new(),
            logs: Vec::new(),
        };
        Arc::new(Block { entries: txs.map(entry).collect(), ..Block::of(height, B256::ZERO, (0, 0)) })
    }

    /// Numbers of callers and of their transactions.
    fn counts(all: &Awaited) -> (usize, usize) {
        let waiting = all.0.lock();
        (waiting.count, waiting.callers.len())
    }

    fn found(awaiting: &mut Awaiting) -> Option<(u64, usize, B256)> {
        let placed = awaiting.receiver.try_recv().ok()?;
        Some((placed.block.height(), placed.index, placed.entry()?.hash))
    }

    #[test]
    fn each_caller_is_woken_by_the_block_of_its_transaction_alone() {
        let all = Arc::new(Awaited::default());
        let mut callers: Vec<_> = (0..1_000).map(|number| all.add(hash(number % 900)).expect("room")).collect();
        all.wake(&block(1, 5_000..6_000));
        assert!(callers.iter_mut().all(|caller| found(caller).is_none()));
        all.wake(&block(2, (0..800).rev()));
        for (number, caller) in (0..).zip(&mut callers) {
            let (of, own) = (number % 900, hash(number % 900));
            let expected = (of < 800).then(|| (2, 799 - of as usize, own));
            assert_eq!(found(caller), expected, "{number}");
        }
        assert_eq!(counts(&all), (100, 100));
        drop(callers);
        assert_eq!(counts(&all), (0, 0), "callers that go are forgotten");
        all.wake(&block(3, 800..900));
    }

    #[test]
    fn one_of_two_callers_goes_and_the_other_stays() {
        let all = Arc::new(Awaited::default());
        let (first, mut second) = (all.add(hash(1)).expect("room"), all.add(hash(1)).expect("room"));
        drop(first);
        all.wake(&block(7, 1..2));
        assert_eq!(found(&mut second), Some((7, 0, hash(1))));
        assert_eq!(counts(&all), (0, 0));
    }

    #[test]
    fn the_end_ends_every_wait_and_leaves_no_caller() {
        let (all, runtime) = (Arc::new(Awaited::default()), tokio::runtime::Builder::new_current_thread().build());
        let runtime = runtime.expect("a runtime");
        let mut before = all.add(hash(1)).expect("room");
        all.end();
        let mut after = all.add(hash(2)).expect("room");
        for caller in [&mut before, &mut after] {
            assert!(runtime.block_on(caller.placed()).is_none());
        }
        assert_eq!(counts(&all), (0, 0));
        all.wake(&block(1, 1..3));
        drop((before, after));
        assert_eq!(all.0.lock().count, 0);
    }

    #[test]
    fn a_caller_that_gives_up_its_wait_is_forgotten() {
        let all = Arc::new(Awaited::default());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        let mut caller = all.add(hash(1)).expect("room");
        // As the future of a request whose client disconnects, which is dropped while it waits.
        let waits = async move { caller.placed().await };
        let waited = runtime.block_on(async { tokio::time::timeout(std::time::Duration::from_millis(1), waits).await });
        assert!(waited.is_err());
        assert_eq!(counts(&all), (0, 0));
    }

    #[test]
    fn callers_are_bounded_and_there_is_room_again() {
        let all = Arc::new(Awaited::default());
        let mut callers: Vec<_> = (0..MOST as u64).map(|number| all.add(hash(number)).expect("room")).collect();
        assert!(all.add(hash(1)).is_none());
        callers.pop();
        assert!(all.add(hash(1)).is_some());
    }

    #[test]
    fn a_caller_that_is_noted_before_the_block_is_always_woken() {
        let all = Arc::new(Awaited::default());
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        std::thread::scope(|scope| {
            let (offer, offered) = std::sync::mpsc::channel();
            let makes = scope.spawn({
                let all = Arc::clone(&all);
                move || offered.iter().for_each(|number| all.wake(&block(number, number..number + 1)))
            });
            for number in 0..10_000 {
                let mut caller = all.add(hash(number)).expect("room");
                offer.send(number).expect("the maker lives");
                let placed = runtime.block_on(caller.placed());
                assert_eq!(placed.map(|placed| placed.block.height()), Some(number));
            }
            drop(offer);
            makes.join().expect("no panic");
        });
        assert_eq!(counts(&all), (0, 0));
    }
}
