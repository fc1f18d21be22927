//! The log in a RocksDB database: opens it, writes blocks as batches or tables, and reads them back.

use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use phalanx_merkle_proof::{Hash, Params};
use rocksdb::{
    BoundColumnFamily, ColumnFamilyDescriptor, DB, DBRawIteratorWithThreadMode, ErrorKind, FlushOptions, MultiThreaded,
    ReadOptions, WriteBatch, WriteOptions,
};

use super::{
    direct::bypasses_page_cache,
    options::{BLOCKS, CODE, ENTRIES, FAMILIES, META, database_options, family_options},
    table::{TABLE_BYTES, Tables},
};
use crate::metrics;
use crate::{
    log::backend::{Batch, Begin, Log, Spot, Visit, VisitCode, VisitMany},
    log::disk::{Disk, at},
    log::index::{IndexedBlock, LogIndex},
    log::places::{Places, opens_twig},
    log::record::{BlockRecord, FRAME_HEADER, Kind, Records, TipRecord, check_params, encode_params, frame_body},
    types::{Durability, Error, Step},
};

type Db = rocksdb::DBWithThreadMode<MultiThreaded>;

const PARAMS: &[u8] = b"params";
const TIP: &[u8] = b"tip";

/// Bytes of extents after which a block without a table is written in several batches. Extents count only with the
/// block record, which is in the last batch.
const BATCH_BYTES: u64 = 32 << 20;

/// Files that the database keeps open if little is read; four times as many otherwise. Most systems allow a process
/// 1024.
const OPEN_FILES: i32 = 128;

#[derive(Debug)]
pub(crate) struct RocksLog {
    path: PathBuf,
    durability: Durability,
    /// Tables of large blocks.
    tables: Option<Tables>,
    db: Db,
    disk: Disk,
    /// Bytes of entries that compaction rewrote; moving a file counts nothing.
    rewritten: Arc<AtomicU64>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// By extent number.
    places: Places<u64>,
    /// True if there may be extents in memtables.
    unflushed: bool,
    /// Block records found when opening, until they are taken.
    found: Vec<BlockRecord>,
    tip: Option<u64>,
    next_seq: u64,
    next_extent: u64,
    /// Note of the last tip, when the log was opened.
    note: Vec<u8>,
}

impl RocksLog {
    /// Opens or creates the database in `path`.
    ///
    /// `past_cache` is for logs of which little will be read. Large blocks then bring tables, unless there is no
    /// durability, and flushed memtables bypass the page cache if the file system can. Copying them to pages that
    /// nothing reads took 5 to 8 % of all processor time.
    ///
    /// # Errors
    /// [`Error::Locked`], [`Error::Format`], [`Error::Corrupt`], [`Error::Rocks`].
    pub(crate) fn open(
        path: &Path,
        durability: Durability,
        past_cache: bool,
        params: &Params,
        note: Option<&LogIndex>,
        disk: Disk,
    ) -> Result<Self, Error> {
        std::fs::create_dir_all(path).map_err(|source| Error::Io { path: path.to_path_buf(), source })?;
        let mut options = database_options(past_cache && bypasses_page_cache(path));
        options.set_max_open_files(if past_cache { OPEN_FILES } else { 4 * OPEN_FILES });
        let mut families: Vec<String> = FAMILIES.map(String::from).into();
        if path.join("CURRENT").exists() {
            // RocksDB insists that every family is opened, also those of a later version of this store.
            let present = DB::list_cf(&options, path).map_err(|error| typed(path, error))?;
            // A crash may have left only some of the families. A foreign family in a database without our meta data
            // belongs to another program.
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
        let rewritten = Arc::<AtomicU64>::default();
        let descriptors =
            families.iter().map(|name| ColumnFamilyDescriptor::new(name, family_options(name, &rewritten)));
        let db = Db::open_cf_descriptors(&options, path, descriptors).map_err(|error| typed(path, error))?;
        let state = State {
            places: Places::new(),
            unflushed: true,
            found: Vec::new(),
            tip: None,
            next_seq: 0,
            next_extent: 0,
            note: Vec::new(),
        };
        let tables = (past_cache && durability != Durability::None).then(|| Tables::new(path));
        let log = Self { path: path.to_path_buf(), durability, tables, db, disk, rewritten, state: Mutex::new(state) };
        log.begin(params)?;
        log.find_blocks()?;
        for IndexedBlock { record, begin, twigs, .. } in note.into_iter().flat_map(|note| &note.blocks) {
            log.state().places.learn(record.id, *begin, twigs);
        }
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
                self.put(batch, true)?;
                self.flush()?;
            }
        }
        let mut extents = self.db.raw_iterator_cf(&self.family(ENTRIES));
        extents.seek_to_last();
        extents.status().map_err(|error| self.typed(error))?;
        let last = extents.key().map(|key| number(key).ok_or_else(|| self.corrupt("an extent's key"))).transpose()?;
        self.state().next_extent = last.map_or(0, |last| last + 1);
        Ok(())
    }

    /// Reads all block records and the tip.
    fn find_blocks(&self) -> Result<(), Error> {
        let mut blocks = self.scan(BLOCKS);
        let state = &mut *self.state();
        blocks.seek_to_first();
        while let Some((key, frame)) = blocks.item() {
            let record = match frame_body(frame) {
                Some((Kind::Block, body)) => BlockRecord::decode(body),
                _ => None,
            };
            let record =
                record.filter(|record| number(key) == Some(record.id)).ok_or_else(|| self.corrupt("a block's row"))?;
            let end = record.first_extent.checked_add(record.extents).filter(|end| *end <= state.next_extent);
            end.ok_or_else(|| self.corrupt("the number of extents"))?;
            state.places.insert(record.id, record.first_extent, Vec::new());
            state.next_seq = state.next_seq.max(record.seq + 1);
            state.found.push(record);
            blocks.next();
        }
        blocks.status().map_err(|error| self.typed(error))?;
        let Some(frame) = self.db.get_pinned_cf(&self.family(META), TIP).map_err(|error| self.typed(error))? else {
            // A log may have staged blocks only; a committed block brings the tip with it.
            let committed = state.found.iter().any(|record| record.committed);
            return if committed { Err(self.corrupt("the recorded tip")) } else { Ok(()) };
        };
        let tip = match frame_body(&frame) {
            Some((Kind::Tip, body)) => TipRecord::decode(body),
            _ => None,
        };
        let tip = tip.ok_or_else(|| self.corrupt("the recorded tip"))?;
        state.next_seq = state.next_seq.max(tip.seq + 1);
        (state.tip, state.note) = (Some(tip.id), tip.note);
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Writes a batch; `last` is true for the last one of a block.
    fn put(&self, batch: WriteBatch, last: bool) -> Result<(), Error> {
        let bytes = batch.size_in_bytes();
        self.disk.ask(Step::Batch(&self.path, bytes))?;
        self.db.write_opt(batch, &self.write_options(last)).map_err(|error| self.typed(error))?;
        metrics::wrote(bytes);
        if last && self.durability == Durability::Block {
            metrics::synced();
        }
        Ok(())
    }

    /// Flushes all families together: without a write-ahead log, only that leaves them at one block.
    fn flush_memtables(&self) -> Result<(), Error> {
        let families = FAMILIES.map(|name| self.family(name));
        let mut options = FlushOptions::default();
        options.set_wait(true);
        self.db.flush_cfs_opt(&families.each_ref(), &options).map_err(|error| self.typed(error))
    }

    /// Ingests extents as a durable table.
    fn put_table<'r>(
        &self,
        tables: &Tables,
        frames: impl Iterator<Item = (u64, &'r [u8])>,
        bytes: usize,
    ) -> Result<(), Error> {
        self.disk.ask(Step::Batch(&self.path, bytes))?;
        tables.clear().map_err(at(tables.path()))?;
        tables.write(&family_options(ENTRIES, &self.rewritten), frames).map_err(|error| self.typed(error))?;
        if std::mem::take(&mut self.state().unflushed) {
            // A memtable with extents from both sides of this table would become a table that overlaps it. So the
            // memtables are flushed first, and out of the write-ahead log.
            self.flush_memtables()?;
        }
        self.disk.ask(Step::Rename(tables.path(), &self.path))?;
        let path = vec![tables.path()];
        let taken = self.db.ingest_external_file_cf_opts(&self.family(ENTRIES), &tables.how(), path);
        taken.map_err(|error| self.typed(error))?;
        metrics::wrote(bytes);
        metrics::synced();
        Ok(())
    }

    fn typed(&self, error: rocksdb::Error) -> Error {
        typed(&self.path, error)
    }

    fn corrupt(&self, what: &str) -> Error {
        Error::Corrupt { path: self.path.clone(), what: format!("{what} does not fit") }
    }

    /// Iterator for one pass over much of a family.
    fn scan(&self, family: &str) -> DBRawIteratorWithThreadMode<'_, Db> {
        let mut options = ReadOptions::default();
        options.fill_cache(false);
        options.set_readahead_size(2 << 20);
        options.set_verify_checksums(true);
        self.db.raw_iterator_cf_opt(&self.family(family), options)
    }

    fn get(&self, family: &str, key: &[u8], wanted: Kind) -> Result<Option<Vec<u8>>, Error> {
        self.disk.ask(Step::Read(&self.path))?;
        let Some(frame) = self.db.get_pinned_cf(&self.family(family), key).map_err(|error| self.typed(error))? else {
            return Ok(None);
        };
        match frame_body(&frame) {
            Some((kind, body)) if kind == wanted => Ok(Some(body.to_vec())),
            _ => Err(self.corrupt(family)),
        }
    }

    /// Records the twigs that a block's extents begin, which are known once the extents were read.
    fn note_twigs(&self, id: u64, begin: u64, twigs: Vec<(u64, u64)>) {
        self.state().places.insert(id, begin, twigs);
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
        let Batch { block, extents, codes } = batch;
        let (entries, code) = (self.family(ENTRIES), self.family(CODE));
        let bytes: usize = extents.iter().map(|records| records.bytes.len() + 24 * records.len()).sum();
        let frames = || (block.first_extent..).zip(extents.iter().flat_map(Records::iter));
        let opened = |(extent, frame): (u64, &[u8])| Some((opens_twig(&frame[FRAME_HEADER..])?, extent));
        let twigs = frames().filter_map(opened).collect();
        let tables = self.tables.as_ref().filter(|_| bytes as u64 >= self.disk.segment_bytes(TABLE_BYTES));
        let in_batch = if tables.is_some() { 0 } else { bytes.min(BATCH_BYTES as usize) };
        let mut out = WriteBatch::with_capacity_bytes(in_batch + 4096);
        for (hash, bytes) in codes {
            let mut records = Records::default();
            records.push(Kind::Code, |out| {
                out.extend_from_slice(&hash);
                out.extend_from_slice(&bytes);
            });
            out.put_cf(&code, hash, records.bytes);
        }
        if let Some(tables) = tables {
            self.put_table(tables, frames(), bytes)?;
        } else {
            self.state().unflushed = true;
            for (extent, frame) in frames() {
                out.put_cf(&entries, extent.to_be_bytes(), frame);
                if out.size_in_bytes() as u64 >= self.disk.segment_bytes(BATCH_BYTES) {
                    self.put(std::mem::take(&mut out), false)?;
                }
            }
        }
        out.put_cf(&self.family(BLOCKS), block.id.to_be_bytes(), block.encode().bytes);
        if block.committed {
            let tip = TipRecord { seq: block.seq, id: block.id, note: Vec::new() };
            out.put_cf(&self.family(META), TIP, tip.encode().bytes);
        }
        self.put(out, block.committed)?;
        let mut state = self.state();
        state.places.insert(block.id, block.first_extent, twigs);
        (state.next_extent, state.next_seq) = (block.first_extent + block.extents, block.seq + 1);
        if block.committed {
            state.tip = Some(block.id);
        }
        Ok(())
    }

    fn set_tip(&self, tip: TipRecord) -> Result<(), Error> {
        let mut out = WriteBatch::default();
        out.put_cf(&self.family(META), TIP, tip.encode().bytes);
        self.put(out, true)?;
        let mut state = self.state();
        (state.tip, state.next_seq) = (Some(tip.id), tip.seq + 1);
        Ok(())
    }

    fn flush(&self) -> Result<(), Error> {
        if self.durability != Durability::None {
            self.disk.ask(Step::Sync(&self.path))?;
            self.db.flush_wal(true).map_err(|error| self.typed(error))?;
            metrics::synced();
            return Ok(());
        }
        self.disk.ask(Step::Flush(&self.path))?;
        self.flush_memtables()
    }

    fn blocks(&self) -> Result<Vec<BlockRecord>, Error> {
        Ok(std::mem::take(&mut self.state().found))
    }

    fn tip(&self) -> (Option<u64>, u64) {
        let state = self.state();
        (state.tip, state.next_seq)
    }

    fn take_note(&self) -> Vec<u8> {
        std::mem::take(&mut self.state().note)
    }

    fn extents(&self, id: u64, twig: Option<u64>, visit: Visit<'_>) -> Result<(), Error> {
        let Some(record) = self.block(id)? else { return Ok(()) };
        self.disk.ask(Step::Read(&self.path))?;
        let (begin, end) = (record.first_extent, record.first_extent + record.extents);
        let from = self.state().places.find(id, twig).unwrap_or(begin);
        let mut twigs = Vec::new();
        let mut extents = self.scan(ENTRIES);
        extents.seek(from.to_be_bytes());
        for at in from..end {
            extents.status().map_err(|error| self.typed(error))?;
            match extents.item() {
                Some((key, frame)) if number(key) == Some(at) => match frame_body(frame) {
                    Some((kind @ (Kind::Extent | Kind::Moved), body)) => {
                        twigs.extend(opens_twig(body).map(|twig| (twig, at)));
                        if !visit(kind, body)? {
                            return Ok(());
                        }
                    }
                    _ => return Err(self.corrupt("an extent's checksum")),
                },
                _ => return Err(self.corrupt("the sequence of extents")),
            }
            extents.next();
        }
        if from == begin {
            self.note_twigs(id, begin, twigs);
        }
        extents.status().map_err(|error| self.typed(error))
    }

    fn block(&self, id: u64) -> Result<Option<BlockRecord>, Error> {
        let body = self.get(BLOCKS, &id.to_be_bytes(), Kind::Block)?;
        body.map(|body| BlockRecord::decode(&body).ok_or_else(|| self.corrupt("a block's row"))).transpose()
    }

    fn code(&self, hash: &Hash) -> Result<Option<Arc<[u8]>>, Error> {
        let body = self.get(CODE, hash, Kind::Code)?;
        Ok(body.map(|body| body.get(hash.len()..).unwrap_or_default().into()))
    }

    fn codes(&self, visit: VisitCode<'_>) -> Result<(), Error> {
        let mut codes = self.scan(CODE);
        codes.seek_to_first();
        while let Some((key, frame)) = codes.item() {
            match (key.first_chunk(), frame_body(frame)) {
                (Some(hash), Some((Kind::Code, body))) => visit(hash, body.get(hash.len()..).unwrap_or_default())?,
                _ => return Err(self.corrupt("a code's row")),
            }
            codes.next();
        }
        codes.status().map_err(|error| self.typed(error))
    }

    fn next_extent(&self) -> u64 {
        self.state().next_extent
    }

    fn begin(&self, id: u64) -> Option<Begin> {
        self.state().places.find(id, None).map(Begin::Extent)
    }

    fn read(&self, spots: &[Spot], visit: VisitMany<'_>) -> Result<(), Error> {
        let entries = self.family(ENTRIES);
        for (at, spot) in spots.iter().enumerate() {
            self.disk.ask(Step::Read(&self.path))?;
            let found = self.db.get_pinned_cf(&entries, spot.place.to_be_bytes());
            match found.map_err(|error| self.typed(error))?.as_deref().and_then(frame_body) {
                Some((kind @ (Kind::Extent | Kind::Moved), body)) => visit(at, kind, body),
                _ => return Err(self.corrupt("an extent")),
            }
        }
        Ok(())
    }

    fn note(&self) -> Result<LogIndex, Error> {
        // The records have a family of their own; only the begins of twigs would have to be read.
        let records: Vec<u64> = {
            let state = self.state();
            state.places.ids().collect()
        };
        let mut blocks = Vec::with_capacity(records.len());
        for id in records {
            let Some(record) = self.block(id)? else { continue };
            let state = self.state();
            let Some((begin, twigs)) = state.places.get(id) else { continue };
            blocks.push(IndexedBlock {
                record: BlockRecord { payload: Vec::new(), ..record },
                place: id,
                begin,
                twigs: twigs.to_vec(),
            });
        }
        let state = self.state();
        let (next_seq, next_extent) = (state.next_seq, state.next_extent);
        // The tip's record has a key of its own, too.
        Ok(LogIndex { blocks, end: 0, tip: state.tip.unwrap_or(0), tip_place: 0, next_seq, next_extent })
    }

    fn rewritten(&self) -> Option<u64> {
        Some(self.rewritten.load(Ordering::Relaxed))
    }

    fn settle(&self) -> Result<(), Error> {
        self.flush()
    }

    fn prune(&self, id: u64) -> Result<(), Error> {
        let end = self.state().places.find(id, None).unwrap_or_default();
        // First the block records, durably: a block without its extents would be damage.
        let mut out = WriteBatch::default();
        out.delete_range_cf(&self.family(BLOCKS), 0u64.to_be_bytes(), id.to_be_bytes());
        self.put(out, true)?;
        self.flush()?;
        // Whole files only: a tombstone would make files overlap, and compaction would rewrite them. The range includes
        // both bounds.
        if let Some(last) = end.checked_sub(1) {
            self.disk.ask(Step::Remove(&self.path))?;
            let (first, last, entries) = (0u64.to_be_bytes(), last.to_be_bytes(), self.family(ENTRIES));
            self.db.delete_file_in_range_cf(&entries, first, last).map_err(|error| self.typed(error))?;
        }
        self.state().places.prune(id);
        Ok(())
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
