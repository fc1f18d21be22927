//! Index of the blocks: hash to height, transaction to place, address and topic to heights. Derived from the segments.
//!
//! Most commits are not durable: after a crash the index is as it was some blocks ago, and the store adds the rest again. What is
//! read is checked ([`CheckedFile`]): an answer is right, or an error that names the file.

use super::{checked_file::CheckedFile, error::StoreError, record::Block};
use phalanx::alloy::primitives::{Address, B256};
use redb::{
    Database, Durability, MultimapTableDefinition, ReadOnlyMultimapTable, ReadableDatabase as _, ReadableTable as _,
    ReadableTableMetadata as _, TableDefinition, WriteTransaction,
};
use std::{
    collections::BTreeSet,
    fs::{File, OpenOptions, TryLockError},
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

/// Facts about the index itself, by name.
const FACTS: TableDefinition<'_, &str, u64> = TableDefinition::new("facts");
/// First height of the segment, and the offset in it, by height.
const PLACES: TableDefinition<'_, u64, (u64, u64)> = TableDefinition::new("places");
/// Height by the name of a block.
const HASHES: TableDefinition<'_, [u8; 32], u64> = TableDefinition::new("hashes");
/// Height and place of an executed transaction, by its hash.
const TXS: TableDefinition<'_, [u8; 32], (u64, u32)> = TableDefinition::new("transactions");
/// Heights of blocks with logs, by what the logs hold and the height's chunk: see [`Key`].
const LOGS: MultimapTableDefinition<'_, &[u8], u64> = MultimapTableDefinition::new("logs");

/// Version of the tables. Another one is built anew.
const VERSION: u64 = 1;

/// Number of blocks after which the index is made durable: so many are indexed again after a crash.
const DURABLE_EVERY: u64 = 64;

/// Number of heights that a key of the logs covers, so that a query reads the heights of its range alone.
const CHUNK: u64 = 4096;

/// Memory of the index's cache, in bytes.
const CACHE: usize = 64 << 20;

/// Property that logs are looked up by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// Any log.
    Any,
    /// A log of this contract.
    Address(Address),
    /// A log with this topic at this position.
    Topic(u8, B256),
}

impl Key {
    fn bytes(&self, chunk: u64) -> Vec<u8> {
        let chunk = chunk.to_be_bytes();
        match self {
            Self::Any => [&[0][..], &chunk].concat(),
            Self::Address(address) => [&[1], address.as_slice(), &chunk].concat(),
            Self::Topic(position, topic) => [&[2 + position], topic.as_slice(), &chunk].concat(),
        }
    }
}

/// Part of a block that the index holds.
#[derive(Debug)]
pub(super) struct Indexed {
    pub(super) height: u64,
    pub(super) hash: B256,
    /// First height of the segment, and the offset in it.
    pub(super) place: (u64, u64),
    /// Hashes of the executed transactions, in order.
    pub(super) txs: Vec<B256>,
    /// Keys of the logs, each once.
    keys: BTreeSet<Vec<u8>>,
}

impl Indexed {
    pub(super) fn of(block: &Block, place: (u64, u64)) -> Self {
        let txs = block.entries.iter().map(|entry| entry.hash).collect();
        Self { height: block.height(), hash: block.head.hash, place, txs, keys: keys(block) }
    }

    /// Number of transactions and of keys of logs.
    pub(super) fn entries(&self) -> usize {
        self.txs.len() + self.keys.len()
    }

    /// True if the block has logs that may match: one of the keys of every list. An empty list matches every log.
    pub(super) fn matches(&self, lists: &[Vec<Key>]) -> bool {
        let chunk = self.height / CHUNK;
        let has = |key: &Key| self.keys.contains(&key.bytes(chunk));
        has(&Key::Any) && lists.iter().all(|list| list.is_empty() || list.iter().any(has))
    }
}

/// Keys of a block's logs, each once.
fn keys(block: &Block) -> BTreeSet<Vec<u8>> {
    let chunk = block.height() / CHUNK;
    let mut keys = BTreeSet::new();
    for log in block.entries.iter().flat_map(|entry| &entry.logs) {
        keys.insert(Key::Any.bytes(chunk));
        keys.insert(Key::Address(log.address).bytes(chunk));
        for (position, topic) in (0..).zip(log.topics()) {
            keys.insert(Key::Topic(position, *topic).bytes(chunk));
        }
    }
    keys
}

/// Numbers of an index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Extent {
    /// Highest indexed height, and the first height of its segment and its offset there.
    pub(super) last: Option<(u64, u64, u64)>,
    /// Lowest indexed height.
    pub(super) first: u64,
    /// Number of indexed transactions.
    pub(super) txs: u64,
}

/// Locks the file: two nodes never share it. A process that this one has begun holds the lock of a closed file until it executes its
/// program, so the lock is tried for half a second.
fn lock(file: &File, path: &Path) -> Result<(), StoreError> {
    for _ in 0..20 {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) => thread::sleep(Duration::from_millis(25)),
            Err(TryLockError::Error(error)) => return Err(StoreError::io(path)(error)),
        }
    }
    Err(StoreError::Locked { path: path.to_owned() })
}

#[derive(Debug)]
pub(super) struct Index {
    pub(super) path: PathBuf,
    database: Database,
    /// Number of commits that are not durable.
    pending: AtomicU64,
    /// True once a part of the file was read that is not as written.
    damaged: Arc<AtomicBool>,
}

impl Drop for Index {
    /// Removes a damaged file, so that the next opening builds it anew.
    fn drop(&mut self) {
        if self.damaged.load(Ordering::Relaxed) {
            let removed = std::fs::remove_file(&self.path);
            tracing::warn!(path = %self.path.display(), ?removed, "the index of blocks is damaged: the next start builds it anew");
        }
    }
}

impl Index {
    /// Opens the index, or creates it. Its file, if it is no sound index, is replaced by an empty one.
    pub(super) fn open(path: &Path) -> Result<Self, StoreError> {
        if path.exists() {
            match Self::open_at(path).and_then(|index| index.check().map(|()| index)) {
                Ok(index) => return Ok(index),
                Err(why @ StoreError::Index { .. }) => {
                    tracing::warn!(path = %path.display(), %why, "the index of blocks is not sound: it is built anew");
                    Self::remove_file(path)?;
                }
                Err(error) => return Err(error),
            }
        }
        let index = Self::open_at(path)?;
        index.write(true, |txn| {
            txn.open_table(FACTS)?.insert("version", VERSION)?;
            txn.open_table(PLACES)?;
            txn.open_table(HASHES)?;
            txn.open_table(TXS)?;
            txn.open_multimap_table(LOGS)?;
            Ok(())
        })?;
        Ok(index)
    }

    fn open_at(path: &Path) -> Result<Self, StoreError> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
        let file = file.map_err(StoreError::io(path))?;
        lock(&file, path)?;
        let damaged = Arc::new(AtomicBool::new(false));
        let file = CheckedFile::new(file, Arc::clone(&damaged));
        let open = || Database::builder().set_cache_size(CACHE).create_with_backend(file);
        let path = path.to_owned();
        // A damaged file may make the database panic.
        let database = match catch_unwind(AssertUnwindSafe(open)) {
            Ok(Ok(database)) => database,
            Ok(Err(error)) => return Err(StoreError::Index { path, what: error.to_string() }),
            Err(_) => return Err(StoreError::Index { path, what: "it panicked".into() }),
        };
        Ok(Self { path, database, pending: AtomicU64::new(0), damaged })
    }

    /// Removes the file of an index that is closed, if it is there.
    pub(super) fn remove_file(path: &Path) -> Result<(), StoreError> {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(StoreError::io(path)(error)),
            _ => Ok(()),
        }
    }

    fn check(&self) -> Result<(), StoreError> {
        let version = self.read(|txn| Ok(txn.open_table(FACTS)?.get("version")?.map(|version| version.value())))?;
        self.extent()?;
        match version {
            Some(VERSION) => Ok(()),
            other => Err(self.failed(format!("its version is {other:?}, and this program has {VERSION}"))),
        }
    }

    fn failed(&self, what: String) -> StoreError {
        StoreError::Index { path: self.path.clone(), what }
    }

    /// Runs on the database. Damaged pages may make it panic, which is an error here.
    fn guard<T>(&self, run: impl FnOnce() -> Result<T, redb::Error>) -> Result<T, StoreError> {
        match catch_unwind(AssertUnwindSafe(run)) {
            Ok(result) => result.map_err(|error| self.failed(error.to_string())),
            Err(_) => Err(self.failed("the database panicked".into())),
        }
    }

    fn read<T>(&self, run: impl FnOnce(&redb::ReadTransaction) -> Result<T, redb::Error>) -> Result<T, StoreError> {
        self.guard(|| run(&self.database.begin_read()?))
    }

    fn write<T>(
        &self,
        durable: bool,
        run: impl FnOnce(&WriteTransaction) -> Result<T, redb::Error>,
    ) -> Result<T, StoreError> {
        self.guard(|| {
            let mut txn = self.database.begin_write()?;
            txn.set_durability(if durable { Durability::Immediate } else { Durability::None })?;
            // Pages are durable before the header names them: after a power cut none of them is half written.
            txn.set_two_phase_commit(durable);
            let result = run(&txn)?;
            txn.commit()?;
            Ok(result)
        })
    }

    /// Adds blocks; `durable` makes the index durable up to them.
    pub(super) fn add(&self, blocks: &[Arc<Indexed>], durable: bool) -> Result<(), StoreError> {
        let added = blocks.len() as u64;
        let of = |block: &Arc<Indexed>| {
            let height = block.height;
            block.txs.iter().zip(0..).map(move |(hash, index)| (hash.0, (height, index))).collect::<Vec<_>>()
        };
        // In order: neighbours share a page. The last block with a hash counts.
        let mut hashed: Vec<([u8; 32], (u64, u32))> = blocks.iter().flat_map(of).collect();
        hashed.sort_unstable();
        let pending = self.pending.fetch_add(added, Ordering::Relaxed) + added;
        let durable = durable || pending >= DURABLE_EVERY;
        self.write(durable, |txn| {
            let (mut places, mut hashes) = (txn.open_table(PLACES)?, txn.open_table(HASHES)?);
            let (mut txs, mut logs) = (txn.open_table(TXS)?, txn.open_multimap_table(LOGS)?);
            let mut facts = txn.open_table(FACTS)?;
            let mut count = facts.get("txs")?.map_or(0, |count| count.value());
            for (hash, place) in &hashed {
                txs.insert(hash, place)?;
            }
            count += hashed.len() as u64;
            for block in blocks {
                places.insert(block.height, block.place)?;
                hashes.insert(block.hash.0, block.height)?;
                for key in &block.keys {
                    logs.insert(&key[..], block.height)?;
                }
            }
            facts.insert("txs", count)?;
            Ok(())
        })?;
        if durable {
            self.pending.store(0, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Removes blocks, durably.
    pub(super) fn remove(&self, blocks: &[Block]) -> Result<(), StoreError> {
        self.write(true, |txn| {
            let (mut places, mut hashes) = (txn.open_table(PLACES)?, txn.open_table(HASHES)?);
            let (mut txs, mut logs) = (txn.open_table(TXS)?, txn.open_multimap_table(LOGS)?);
            let mut facts = txn.open_table(FACTS)?;
            let mut count = facts.get("txs")?.map_or(0, |count| count.value());
            for block in blocks {
                let height = block.height();
                places.remove(height)?;
                hashes.remove(block.head.hash.0)?;
                for entry in &block.entries {
                    // A later block may hold the same bytes.
                    if txs.get(entry.hash.0)?.is_some_and(|place| place.value().0 == height) {
                        txs.remove(entry.hash.0)?;
                    }
                }
                count = count.saturating_sub(block.entries.len() as u64);
                for key in keys(block) {
                    logs.remove(&key[..], height)?;
                }
            }
            facts.insert("txs", count)?;
            Ok(())
        })
    }

    /// Removes the blocks above a height without their content, durably. Their logs' keys stay: a lookup that finds them
    /// reads a block that does not match. O(index).
    pub(super) fn remove_above(&self, height: u64) -> Result<(), StoreError> {
        self.write(true, |txn| {
            txn.open_table(PLACES)?.retain(|at, _| at <= height)?;
            txn.open_table(HASHES)?.retain(|_, at| at <= height)?;
            let mut txs = txn.open_table(TXS)?;
            txs.retain(|_, (at, _)| at <= height)?;
            txn.open_table(FACTS)?.insert("txs", txs.len()?)?;
            Ok(())
        })
    }

    /// Makes everything durable.
    pub(super) fn flush(&self) -> Result<(), StoreError> {
        self.write(true, |_| Ok(()))?;
        self.pending.store(0, Ordering::Relaxed);
        Ok(())
    }

    pub(super) fn extent(&self) -> Result<Extent, StoreError> {
        self.read(|txn| {
            let places = txn.open_table(PLACES)?;
            let last = places.last()?.map(|(height, place)| (height.value(), place.value().0, place.value().1));
            let first = places.first()?.map_or(0, |(height, _)| height.value());
            let txs = txn.open_table(FACTS)?.get("txs")?.map_or(0, |count| count.value());
            Ok(Extent { last, first, txs })
        })
    }

    /// First height of the segment of a block, and its offset there.
    pub(super) fn place(&self, height: u64) -> Result<Option<(u64, u64)>, StoreError> {
        self.read(|txn| Ok(txn.open_table(PLACES)?.get(height)?.map(|place| place.value())))
    }

    pub(super) fn height_of(&self, hash: &B256) -> Result<Option<u64>, StoreError> {
        self.read(|txn| Ok(txn.open_table(HASHES)?.get(hash.0)?.map(|height| height.value())))
    }

    pub(super) fn place_of(&self, tx: &B256) -> Result<Option<(u64, u32)>, StoreError> {
        self.read(|txn| Ok(txn.open_table(TXS)?.get(tx.0)?.map(|place| place.value())))
    }

    /// Heights from `range` whose logs match: one of the keys of every list. An empty list matches every log. At most
    /// `max` heights are returned, the lowest. O(heights with one of the rarest list's keys).
    pub(super) fn heights(
        &self,
        lists: &[Vec<Key>],
        range: core::ops::RangeInclusive<u64>,
        max: usize,
    ) -> Result<Vec<u64>, StoreError> {
        self.read(|txn| {
            let logs = txn.open_multimap_table(LOGS)?;
            let mut found: Option<BTreeSet<u64>> = None;
            let any = [vec![Key::Any]];
            let asked: Vec<_> = lists.iter().filter(|list| !list.is_empty()).collect();
            let asked = if asked.is_empty() { any.iter().collect() } else { asked };
            for list in asked {
                let mut heights = BTreeSet::new();
                for key in list {
                    collect(&logs, key, &range, &mut heights)?;
                }
                found = Some(match found {
                    Some(found) => found.intersection(&heights).copied().collect(),
                    None => heights,
                });
            }
            Ok(found.unwrap_or_default().into_iter().take(max).collect())
        })
    }

    /// Size of the file, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        std::fs::metadata(&self.path).map_or(0, |file| file.len())
    }
}

fn collect(
    logs: &ReadOnlyMultimapTable<&'static [u8], u64>,
    key: &Key,
    range: &core::ops::RangeInclusive<u64>,
    into: &mut BTreeSet<u64>,
) -> Result<(), redb::Error> {
    for chunk in range.start() / CHUNK..=range.end() / CHUNK {
        for height in logs.get(&key.bytes(chunk)[..])? {
            let height = height?.value();
            if range.contains(&height) {
                into.insert(height);
            }
        }
    }
    Ok(())
}
