//! The log on RocksDB: the only file that names it.
//!
//! | family | key | row |
//! |---|---|---|
//! | `entries` | extent number, big endian | extent |
//! | `blocks` | height, big endian | block |
//! | `meta` | `params`, `tip` | params; height and extent number after the last block |
//! | `code` | code hash | code |
//!
//! Keys of `entries` only ever grow and nothing there is deleted: its files never overlap, so compaction moves files
//! instead of rewriting them. A tombstone or a second compression type would end that.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use rocksdb::{
    BlockBasedIndexType, BlockBasedOptions, BoundColumnFamily, ChecksumType, ColumnFamilyDescriptor, DB,
    DBCompactionStyle, DBCompressionType, DBRawIteratorWithThreadMode, DBRecoveryMode, ErrorKind, FlushOptions,
    MultiThreaded, Options, ReadOptions, WriteBatch, WriteOptions,
};

use super::{Batch, Log, Replay};
use crate::{
    Durability, Error, Params,
    row::{BlockRow, FRAME_HEADER, Kind, Rows, check_params, encode_params, extent_head, frame_body},
};

type Db = rocksdb::DBWithThreadMode<MultiThreaded>;

const ENTRIES: &str = "entries";
const BLOCKS: &str = "blocks";
const META: &str = "meta";
const CODE: &str = "code";
const FAMILIES: [&str; 4] = [ENTRIES, BLOCKS, META, CODE];

const PARAMS: &[u8] = b"params";
const TIP: &[u8] = b"tip";

/// Bytes of extents past which a block is written in several batches. Extents without a block row count for nothing, so
/// only the last batch, which brings the row, makes the block exist.
const BATCH_BYTES: usize = 32 << 20;

#[derive(Debug)]
pub(crate) struct RocksLog {
    path: PathBuf,
    durability: Durability,
    db: Db,
    places: Mutex<Places>,
}

#[derive(Debug)]
struct Places {
    next_extent: u64,
    /// Per twig, the first extent that reaches into it.
    twigs: Vec<u64>,
    /// Extents that no block refers to: what a crash left of a block that was written in parts.
    orphans: Vec<std::ops::Range<u64>>,
}

impl RocksLog {
    /// Opens or creates the database in `path`.
    ///
    /// # Errors
    /// [`Error::Locked`], [`Error::Format`], [`Error::Corrupt`], [`Error::Rocks`].
    pub(crate) fn open(path: &Path, durability: Durability, params: &Params) -> Result<Self, Error> {
        std::fs::create_dir_all(path).map_err(|source| Error::Io { path: path.to_path_buf(), source })?;
        let options = database_options();
        let mut families: Vec<String> = FAMILIES.map(String::from).into();
        if path.join("CURRENT").exists() {
            // RocksDB insists that every family is opened, also those of a later version of this store.
            let present = DB::list_cf(&options, path).map_err(|error| typed(path, error))?;
            // A crash may have left the store with some of its families only; a family that is not ours in a database
            // without our meta data is another program's.
            let ours = |name: &String| name == "default" || FAMILIES.contains(&name.as_str());
            if !present.iter().any(|name| name == META) && !present.iter().all(ours) {
                return Err(Error::Format {
                    path: path.to_path_buf(),
                    found: format!("a database with families {present:?}"),
                    expected: format!("families {FAMILIES:?}"),
                });
            }
            families.extend(present.into_iter().filter(|name| !FAMILIES.contains(&name.as_str())));
        }
        let descriptors = families.iter().map(|name| ColumnFamilyDescriptor::new(name, family_options(name)));
        let db = Db::open_cf_descriptors(&options, path, descriptors).map_err(|error| typed(path, error))?;
        let places = Mutex::new(Places { next_extent: 0, twigs: Vec::new(), orphans: Vec::new() });
        let log = Self { path: path.to_path_buf(), durability, db, places };
        log.begin(params)?;
        Ok(log)
    }

    /// Writes or checks the parameters, and finds the first unused extent number.
    fn begin(&self, params: &Params) -> Result<(), Error> {
        let found = self.db.get_pinned_cf(&self.family(META), PARAMS).map_err(|error| self.typed(error))?;
        match found {
            Some(frame) => check_params(&frame, params).map_err(|(found, expected)| Error::Format {
                path: self.path.clone(),
                found,
                expected,
            })?,
            None => {
                let mut batch = WriteBatch::default();
                batch.put_cf(&self.family(META), PARAMS, encode_params(params).bytes);
                self.db.write_opt(batch, &self.write_options(true)).map_err(|error| self.typed(error))?;
                self.flush()?;
            }
        }
        let mut extents = self.db.raw_iterator_cf(&self.family(ENTRIES));
        extents.seek_to_last();
        extents.status().map_err(|error| self.typed(error))?;
        let last = extents.key().map(|key| number(key).ok_or_else(|| self.corrupt("an extent's key"))).transpose()?;
        self.places().next_extent = last.map_or(0, |last| last + 1);
        Ok(())
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn family(&self, name: &str) -> Arc<BoundColumnFamily<'_>> {
        self.db.cf_handle(name).expect("open opened every family")
    }

    fn write_options(&self, last: bool) -> WriteOptions {
        let mut options = WriteOptions::default();
        options.disable_wal(self.durability == Durability::None);
        options.set_sync(last && self.durability == Durability::Block);
        options.set_memtable_insert_hint_per_batch(true);
        options
    }

    fn typed(&self, error: rocksdb::Error) -> Error {
        typed(&self.path, error)
    }

    fn corrupt(&self, what: &str) -> Error {
        Error::Corrupt { path: self.path.clone(), what: format!("{what} does not fit") }
    }

    /// An iterator for one pass over much of a family.
    fn scan(&self, family: &str) -> DBRawIteratorWithThreadMode<'_, Db> {
        let mut options = ReadOptions::default();
        options.fill_cache(false);
        options.set_readahead_size(2 << 20);
        options.set_verify_checksums(true);
        self.db.raw_iterator_cf_opt(&self.family(family), options)
    }

    fn get(&self, family: &str, key: &[u8], wanted: Kind) -> Result<Option<Vec<u8>>, Error> {
        let Some(frame) = self.db.get_pinned_cf(&self.family(family), key).map_err(|error| self.typed(error))? else {
            return Ok(None);
        };
        match frame_body(&frame) {
            Some((kind, body)) if kind == wanted => Ok(Some(body.to_vec())),
            _ => Err(self.corrupt(family)),
        }
    }

    /// Hands the extents `numbers` to `see` while it returns true. `extents` stays where it stopped, so that neighbouring
    /// ranges are one pass.
    fn extents(
        &self,
        extents: &mut DBRawIteratorWithThreadMode<'_, Db>,
        numbers: std::ops::Range<u64>,
        mut see: impl FnMut(u64, &[u8]) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        for at in numbers {
            if extents.key().and_then(number) != Some(at) {
                extents.seek(at.to_be_bytes());
                extents.status().map_err(|error| self.typed(error))?;
            }
            match extents.item() {
                Some((key, frame)) if number(key) == Some(at) => match frame_body(frame) {
                    Some((Kind::Extent, body)) => {
                        if !see(at, body)? {
                            return Ok(());
                        }
                    }
                    _ => return Err(self.corrupt("an extent's checksum")),
                },
                _ => return Err(self.corrupt("the sequence of extents")),
            }
            extents.next();
        }
        extents.status().map_err(|error| self.typed(error))
    }
}

impl Log for RocksLog {
    fn path(&self) -> PathBuf {
        self.path.clone()
    }

    fn keeps_entries(&self) -> bool {
        true
    }

    fn write(&self, batch: Batch) -> Result<(), Error> {
        let (entries, code) = (self.family(ENTRIES), self.family(CODE));
        let bytes: usize = batch.extents.iter().map(|rows| rows.bytes.len() + 24 * rows.len()).sum();
        let mut out = WriteBatch::with_capacity_bytes(bytes.min(BATCH_BYTES) + 4096);
        let mut places = self.places();
        for (hash, bytes) in batch.codes {
            let mut rows = Rows::default();
            rows.push(Kind::Code, |out| {
                out.extend_from_slice(&hash);
                out.extend_from_slice(&bytes);
            });
            out.put_cf(&code, hash, rows.bytes);
        }
        let mut extent = batch.block.first_extent;
        for rows in batch.extents {
            for frame in rows.iter() {
                let opens = extent_head(&frame[FRAME_HEADER..]).and_then(|(head, _)| head.opens_twig());
                places.twigs.extend(opens.map(|_| extent));
                out.put_cf(&entries, extent.to_be_bytes(), frame);
                extent += 1;
            }
            if out.size_in_bytes() >= BATCH_BYTES {
                let full = std::mem::replace(&mut out, WriteBatch::with_capacity_bytes(BATCH_BYTES));
                self.db.write_opt(full, &self.write_options(false)).map_err(|error| self.typed(error))?;
            }
        }
        let height = batch.block.height.to_be_bytes();
        out.put_cf(&self.family(BLOCKS), height, batch.block.encode().bytes);
        out.put_cf(&self.family(META), TIP, [height, extent.to_be_bytes()].as_flattened());
        places.next_extent = extent;
        drop(places);
        self.db.write_opt(out, &self.write_options(true)).map_err(|error| self.typed(error))
    }

    fn flush(&self) -> Result<(), Error> {
        if self.durability != Durability::None {
            return self.db.flush_wal(true).map_err(|error| self.typed(error));
        }
        // Without a log ahead of the tables only a joint flush leaves the families at one block.
        let families = FAMILIES.map(|name| self.family(name));
        let mut options = FlushOptions::default();
        options.set_wait(true);
        self.db.flush_cfs_opt(&families.each_ref(), &options).map_err(|error| self.typed(error))
    }

    fn replay(&self, to: &mut dyn Replay) -> Result<(), Error> {
        let mut extents = self.scan(ENTRIES);
        let mut blocks = self.scan(BLOCKS);
        let mut twigs = Vec::new();
        let (mut orphans, mut last_end) = (Vec::new(), 0);
        let mut tip = None;
        blocks.seek_to_first();
        while let Some((key, frame)) = blocks.item() {
            let row = match frame_body(frame) {
                Some((Kind::Block, body)) => BlockRow::decode(body),
                _ => None,
            };
            let row = row.filter(|row| number(key) == Some(row.height)).ok_or_else(|| self.corrupt("a block's row"))?;
            let end = row.first_extent.checked_add(row.extents).ok_or_else(|| self.corrupt("a block's row"))?;
            if row.first_extent > last_end {
                orphans.push(last_end..row.first_extent);
            }
            last_end = end;
            self.extents(&mut extents, row.first_extent..end, |at, body| {
                twigs.extend(extent_head(body).and_then(|(head, _)| head.opens_twig()).map(|_| at));
                to.extent(body).map(|()| true)
            })?;
            tip = Some([row.height.to_be_bytes(), end.to_be_bytes()].concat());
            to.block(row)?;
            blocks.next();
        }
        blocks.status().map_err(|error| self.typed(error))?;
        let meta = self.db.get_pinned_cf(&self.family(META), TIP).map_err(|error| self.typed(error))?;
        if meta.as_deref() != tip.as_deref() {
            return Err(self.corrupt("the recorded tip"));
        }
        let mut places = self.places();
        orphans.push(last_end..places.next_extent);
        places.twigs = twigs;
        places.orphans = orphans;
        Ok(())
    }

    fn twig(&self, twig: u64, see: &mut dyn FnMut(&[u8]) -> bool) -> Result<(), Error> {
        let first = usize::try_from(twig).ok().and_then(|twig| self.places().twigs.get(twig).copied());
        let Some(first) = first else { return Ok(()) };
        let next = self.places().next_extent;
        let mut extents = self.db.raw_iterator_cf(&self.family(ENTRIES));
        let orphans = self.places().orphans.clone();
        self.extents(&mut extents, first..next, |at, body| {
            Ok(orphans.iter().any(|range| range.contains(&at)) || see(body))
        })
    }

    fn block(&self, height: u64) -> Result<Option<BlockRow>, Error> {
        let body = self.get(BLOCKS, &height.to_be_bytes(), Kind::Block)?;
        body.map(|body| BlockRow::decode(&body).ok_or_else(|| self.corrupt("a block's row"))).transpose()
    }

    fn code(&self, hash: &[u8; 32]) -> Result<Option<Arc<[u8]>>, Error> {
        let body = self.get(CODE, hash, Kind::Code)?;
        Ok(body.map(|body| body.get(hash.len()..).unwrap_or_default().into()))
    }

    fn next_extent(&self) -> u64 {
        self.places().next_extent
    }
}

fn number(key: &[u8]) -> Option<u64> {
    key.try_into().ok().map(u64::from_be_bytes)
}

/// Gives RocksDB's errors the types that callers act upon.
fn typed(path: &Path, source: rocksdb::Error) -> Error {
    let path = path.to_path_buf();
    let text = source.to_string();
    match source.kind() {
        ErrorKind::IOError if text.contains("lock hold") || text.contains("While lock file") => Error::Locked { path },
        ErrorKind::Corruption => Error::Corrupt { path, what: text },
        _ => Error::Rocks { path, source },
    }
}

fn database_options() -> Options {
    let mut options = Options::default();
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    options.set_paranoid_checks(true);
    // Cuts the log at the first torn record; what consensus knows to be committed is checked by the caller's minimum.
    options.set_wal_recovery_mode(DBRecoveryMode::PointInTime);
    options.set_track_and_verify_wals_in_manifest(true);
    // Keeps all families at one block, with or without a write-ahead log.
    options.set_atomic_flush(true);
    options.set_max_total_wal_size(512 << 20);
    options.set_wal_bytes_per_sync(512 << 10);
    options.set_bytes_per_sync(1 << 20);
    // Execution wants the cores; moving files costs little.
    options.set_max_background_jobs(2);
    options.set_avoid_unnecessary_blocking_io(true);
    options.set_skip_stats_update_on_db_open(true);
    options.set_stats_dump_period_sec(0);
    options.set_keep_log_file_num(4);
    options
}

fn family_options(name: &str) -> Options {
    let mut options = Options::default();
    options.set_compression_type(DBCompressionType::None);
    if name != ENTRIES {
        options.set_write_buffer_size(16 << 20);
        return options;
    }
    options.set_write_buffer_size(64 << 20);
    options.set_max_write_buffer_number(4);
    options.set_target_file_size_base(256 << 20);
    options.set_compaction_style(DBCompactionStyle::Level);
    // Compaction only moves files here, so there is nothing worth stalling writers for.
    options.set_soft_pending_compaction_bytes_limit(0);
    options.set_hard_pending_compaction_bytes_limit(0);
    options.set_level_zero_slowdown_writes_trigger(1000);
    options.set_level_zero_stop_writes_trigger(2000);
    // By default files are rewritten when they are a month old.
    options.set_ttl(0);
    options.set_periodic_compaction_seconds(0);
    let mut table = BlockBasedOptions::default();
    table.set_block_size(8 << 10);
    table.set_format_version(6);
    table.set_checksum_type(ChecksumType::XXH3);
    table.set_index_type(BlockBasedIndexType::TwoLevelIndexSearch);
    table.set_cache_index_and_filter_blocks(true);
    options.set_block_based_table_factory(&table);
    options
}
