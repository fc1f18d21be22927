//! Lookups over the index and the newest blocks, which it does not have yet.
//!
//! The index takes many blocks at once for a fraction of what it takes for one after the other, so a thread of its own adds what has
//! gathered. Until then the newest blocks are found in memory; after a crash the store reads them from its segments, as ever.

use super::{
    error::StoreError,
    index::{Extent, Index, Indexed, Key},
    record::Block,
};
use parking_lot::{Condvar, Mutex, RwLock};
use phalanx::alloy::primitives::B256;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::RangeInclusive,
    sync::Arc,
    thread::JoinHandle,
};

/// Numbers of entries, which are transactions and keys of logs, and of blocks that are added to the index together.
const GATHERED: (usize, usize) = (1 << 15, 64);

/// Number of times that so much may wait, before a further block waits for the index.
const MOST: usize = 8;

/// The newest blocks, and the index over all others.
#[derive(Debug)]
pub(super) struct Lookup {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    index: Index,
    fresh: RwLock<Fresh>,
    /// Held while blocks move from `fresh` into the index.
    moving: Mutex<()>,
    /// True once the thread is to end.
    ends: Mutex<bool>,
    /// Notified when much has gathered, or the thread is to end.
    bell: Condvar,
}

/// Blocks that the index lacks. A block leaves once the index shows it, so that a reader who looks here first misses nothing.
#[derive(Debug, Default)]
struct Fresh {
    blocks: BTreeMap<u64, Arc<Indexed>>,
    hashes: HashMap<B256, u64>,
    txs: HashMap<B256, (u64, u32)>,
    /// Number of transactions and of keys of logs in `blocks`.
    entries: usize,
}

impl Fresh {
    fn add(&mut self, block: Arc<Indexed>) {
        let height = block.height;
        self.entries += block.entries();
        self.hashes.insert(block.hash, height);
        self.txs.extend(block.txs.iter().copied().zip((0..).map(|index| (height, index))));
        self.blocks.insert(height, block);
    }

    fn remove(&mut self, blocks: &[Arc<Indexed>]) {
        for block in blocks {
            if self.blocks.remove(&block.height).is_some() {
                self.entries -= block.entries();
            }
            self.hashes.remove(&block.hash);
            for tx in &block.txs {
                // A later block may hold the same bytes.
                if self.txs.get(tx).is_some_and(|(height, _)| *height == block.height) {
                    self.txs.remove(tx);
                }
            }
        }
    }

    /// True if so many times of what is added together has gathered.
    fn has(&self, times: usize) -> bool {
        self.entries >= times * GATHERED.0 || self.blocks.len() >= times * GATHERED.1
    }
}

impl Shared {
    /// Moves what has gathered into the index.
    fn settle(&self, durable: bool) -> Result<(), StoreError> {
        let _alone = self.moving.lock();
        let blocks: Vec<_> = self.fresh.read().blocks.values().cloned().collect();
        if !blocks.is_empty() {
            self.index.add(&blocks, durable)?;
            // One by one: readers wait for no more than that.
            for block in &blocks {
                self.fresh.write().remove(core::slice::from_ref(block));
            }
        }
        Ok(())
    }

    fn run(&self) {
        loop {
            let mut ends = self.ends.lock();
            self.bell.wait_while(&mut ends, |ends| !*ends && !self.fresh.read().has(1));
            if *ends {
                return;
            }
            drop(ends);
            if let Err(error) = self.settle(false) {
                tracing::warn!(%error, "the newest blocks are not indexed; trying again with the next one");
                let mut ends = self.ends.lock();
                if !*ends {
                    // The next block rings again.
                    self.bell.wait(&mut ends);
                }
            }
        }
    }
}

impl Lookup {
    /// # Errors
    /// The system starts no thread.
    pub(super) fn new(index: Index) -> Result<Self, StoreError> {
        let shared = Arc::new(Shared {
            index,
            fresh: RwLock::default(),
            moving: Mutex::default(),
            ends: Mutex::default(),
            bell: Condvar::new(),
        });
        let inner = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("phalanx-index".into()).spawn(move || inner.run());
        let path = &shared.index.path;
        let thread = thread.map_err(StoreError::io(path))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Makes room for a block: waits for the index if very much has gathered.
    ///
    /// # Errors
    /// The index fails.
    pub(super) fn make_room(&self) -> Result<(), StoreError> {
        if self.shared.fresh.read().has(MOST) { self.shared.settle(false) } else { Ok(()) }
    }

    /// Adds a block at its place.
    pub(super) fn add(&self, block: &Block, place: (u64, u64)) {
        let block = Arc::new(Indexed::of(block, place));
        let mut fresh = self.shared.fresh.write();
        fresh.add(block);
        let is_due = fresh.has(1);
        drop(fresh);
        if is_due {
            // Under the lock: the thread is not between its look and its wait.
            let _ends = self.shared.ends.lock();
            self.shared.bell.notify_one();
        }
    }

    /// Removes blocks, durably.
    pub(super) fn remove(&self, blocks: &[Block]) -> Result<(), StoreError> {
        self.shared.settle(false)?;
        self.shared.index.remove(blocks)
    }

    /// Removes the blocks above a height without their content, durably ([`Index::remove_above`]).
    pub(super) fn remove_above(&self, height: u64) -> Result<(), StoreError> {
        self.shared.settle(false)?;
        self.shared.index.remove_above(height)
    }

    /// Makes everything durable.
    pub(super) fn flush(&self) -> Result<(), StoreError> {
        self.shared.settle(true)?;
        self.shared.index.flush()
    }

    pub(super) fn extent(&self) -> Result<Extent, StoreError> {
        // Nothing moves meanwhile, so that no block counts twice.
        let _alone = self.shared.moving.lock();
        let Extent { mut last, mut first, mut txs } = self.shared.index.extent()?;
        let fresh = self.shared.fresh.read();
        if let Some((lowest, _)) = fresh.blocks.first_key_value()
            && last.is_none()
        {
            first = *lowest;
        }
        if let Some((height, block)) = fresh.blocks.last_key_value() {
            last = Some((*height, block.place.0, block.place.1));
        }
        txs += fresh.blocks.values().map(|block| block.txs.len() as u64).sum::<u64>();
        Ok(Extent { last, first, txs })
    }

    /// First height of the segment of a block, and its offset there.
    pub(super) fn place(&self, height: u64) -> Result<Option<(u64, u64)>, StoreError> {
        let fresh = self.shared.fresh.read().blocks.get(&height).map(|block| block.place);
        fresh.map_or_else(|| self.shared.index.place(height), |place| Ok(Some(place)))
    }

    pub(super) fn height_of(&self, hash: &B256) -> Result<Option<u64>, StoreError> {
        let fresh = self.shared.fresh.read().hashes.get(hash).copied();
        fresh.map_or_else(|| self.shared.index.height_of(hash), |height| Ok(Some(height)))
    }

    pub(super) fn place_of(&self, tx: &B256) -> Result<Option<(u64, u32)>, StoreError> {
        let fresh = self.shared.fresh.read().txs.get(tx).copied();
        fresh.map_or_else(|| self.shared.index.place_of(tx), |place| Ok(Some(place)))
    }

    /// Heights from `range` whose logs match ([`Index::heights`]).
    pub(super) fn heights(
        &self,
        lists: &[Vec<Key>],
        range: RangeInclusive<u64>,
        max: usize,
    ) -> Result<Vec<u64>, StoreError> {
        let fresh: Vec<u64> = {
            let fresh = self.shared.fresh.read();
            let blocks = fresh.blocks.range(range.clone());
            blocks.filter(|(_, block)| block.matches(lists)).map(|(height, _)| *height).collect()
        };
        let mut heights = self.shared.index.heights(lists, range, max)?;
        if !fresh.is_empty() {
            heights.extend(fresh);
            heights = heights.into_iter().collect::<BTreeSet<_>>().into_iter().take(max).collect();
        }
        Ok(heights)
    }

    /// Size of the index's file, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.shared.index.bytes()
    }
}

impl Drop for Lookup {
    fn drop(&mut self) {
        *self.shared.ends.lock() = true;
        self.shared.bell.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic of the database is an error already.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Entry;
    use phalanx::alloy::primitives::{Address, Bytes, Log, LogData};

    /// A block with a transaction of its own, one that every seventh block repeats, and a log of the contract that its height names.
    fn block(number: u64) -> Block {
        let entry = |hash: B256, logs: Vec<Log>| Entry {
            bytes: Bytes::new(),
            hash,
            sender: Address::ZERO,
            succeeded: true,
            gas_used: 0,
            cumulative_gas: 0,
            first_log: 0,
            created: Bytes::new(),
            logs,
        };
        let log = Log {
            address: Address::repeat_byte((number % 5) as u8),
            data: LogData::new_unchecked(Vec::new(), Bytes::new()),
        };
        let mut entries = vec![entry(own(number), vec![log])];
        if number.is_multiple_of(7) {
            entries.push(entry(B256::repeat_byte(0x77), Vec::new()));
        }
        Block { entries, ..Block::of(number, name(number), (0, 0)) }
    }

    fn own(number: u64) -> B256 {
        B256::left_padding_from(&number.to_be_bytes())
    }

    fn name(number: u64) -> B256 {
        B256::right_padding_from(&(number + 1).to_be_bytes())
    }

    fn check(lookup: &Lookup, range: RangeInclusive<u64>) {
        for number in range.clone() {
            assert_eq!(lookup.place(number).expect("sound"), Some((0, 10 * number)), "{number}");
            assert_eq!(lookup.height_of(&name(number)).expect("sound"), Some(number));
            assert_eq!(lookup.place_of(&own(number)).expect("sound"), Some((number, 0)));
        }
        let (first, last) = (*range.start(), *range.end());
        let repeated = range.clone().filter(|number| number.is_multiple_of(7)).count() as u64;
        let extent = lookup.extent().expect("sound");
        let txs = last + 1 - first + repeated;
        assert_eq!(extent, Extent { last: Some((last, 0, 10 * last)), first, txs });
        assert_eq!(lookup.place_of(&B256::repeat_byte(0x77)).expect("sound"), Some((last - last % 7, 1)));
        let of = |contract: u64| vec![Key::Address(Address::repeat_byte(contract as u8))];
        for contract in 0..5 {
            let found = lookup.heights(&[of(contract)], 0..=u64::from(u32::MAX), 9).expect("sound");
            let expected = range.clone().filter(|number| number % 5 == contract).take(9).collect::<Vec<_>>();
            assert_eq!(found, expected);
        }
        assert_eq!(lookup.heights(&[], first..=last, usize::MAX).expect("sound"), range.collect::<Vec<_>>());
        assert_eq!(lookup.place(last + 1).expect("sound"), None);
    }

    #[test]
    fn a_block_is_found_before_while_and_after_it_is_indexed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("index.redb");
        let lookup = Lookup::new(Index::open(&path).expect("an index")).expect("a thread");
        let last = 5 * GATHERED.1 as u64 + 3;
        for number in 1..=last {
            lookup.make_room().expect("room");
            lookup.add(&block(number), (0, 10 * number));
            // The thread moves blocks meanwhile.
            if number % 60 == 0 || number == 7 {
                check(&lookup, 1..=number);
            } else {
                assert_eq!(lookup.place_of(&own(number)).expect("sound"), Some((number, 0)));
            }
        }
        check(&lookup, 1..=last);
        lookup.shared.settle(false).expect("indexed");
        assert!(lookup.shared.fresh.read().blocks.is_empty() && lookup.shared.fresh.read().txs.is_empty());
        check(&lookup, 1..=last);
        // Some are cut off, of which the index has some and some are fresh.
        (last + 1..last + 4).for_each(|number| lookup.add(&block(number), (0, 10 * number)));
        lookup.remove(&(last - 2..last + 4).map(block).collect::<Vec<_>>()).expect("removed");
        let last = last - 3;
        assert_eq!(lookup.place_of(&own(last + 1)).expect("sound"), None);
        assert_eq!(lookup.extent().expect("sound").last, Some((last, 0, 10 * last)));
        lookup.flush().expect("durable");
        drop(lookup);
        let lookup = Lookup::new(Index::open(&path).expect("an index")).expect("a thread");
        assert_eq!(lookup.place_of(&own(last)).expect("sound"), Some((last, 0)));
    }

    #[test]
    fn very_much_waits_for_the_index() {
        let folder = tempfile::tempdir().expect("a folder");
        let lookup = Lookup::new(Index::open(&folder.path().join("index.redb")).expect("an index")).expect("a thread");
        // The thread moves nothing.
        let held = lookup.shared.moving.lock();
        let most = (MOST * GATHERED.1) as u64;
        for number in 1..=most {
            assert!(!lookup.shared.fresh.read().has(MOST), "{number}");
            lookup.add(&block(number), (0, 10 * number));
        }
        assert!(lookup.shared.fresh.read().has(MOST));
        drop(held);
        lookup.make_room().expect("the index takes them");
        assert!(!lookup.shared.fresh.read().has(1));
    }
}
