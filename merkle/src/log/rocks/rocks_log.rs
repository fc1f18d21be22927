//! The log in a RocksDB database: writes blocks as batches or tables, and reads them back.

use super::{
    database::{Db, typed},
    options::{BLOCKS, CODE, ENTRIES, FAMILIES, META, family_options},
    table::{TABLE_BYTES, Tables},
    wal::TornWal,
};
use crate::{
    log::{
        backend::{Batch, Begin, Files, Log, Spot, Visit, VisitCode, VisitMany},
        disk::{Disk, at},
        identity::Place,
        index::{IndexedBlock, LogIndex},
        lock::Lock,
        places::{Places, opens_twig},
        promise::{Promise, PromiseFile, Reached},
        record::{BlockRecord, FRAME_HEADER, Kind, Marks, Records, TipRecord, frame_body},
    },
    metrics,
    types::{Durability, Error, Step, Tail},
};
use phalanx_merkle_proof::{Hash, Params};
use rocksdb::{BoundColumnFamily, DBRawIteratorWithThreadMode, FlushOptions, ReadOptions, WriteBatch, WriteOptions};
use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

/// Key of the tip.
pub(super) const TIP: &[u8] = b"tip";

/// Bytes of extents after which a block without a table is written in several batches. Extents count only with the
/// block record, which is in the last batch.
const BATCH_BYTES: u64 = 32 << 20;

#[derive(Debug)]
pub(crate) struct RocksLog {
    pub(super) place: Place,
    pub(super) path: PathBuf,
    pub(super) durability: Durability,
    pub(super) params: Params,
    pub(super) past_cache: bool,
    /// Tables of large blocks.
    pub(super) tables: Option<Tables>,
    pub(super) db: Db,
    pub(super) disk: Disk,
    /// Bytes of entries that compaction rewrote; moving a file counts nothing.
    pub(super) rewritten: Arc<AtomicU64>,
    pub(super) state: Mutex<State>,
    /// Torn end of the write-ahead log, until it is cut off.
    pub(super) torn: Option<TornWal>,
    /// True if it was opened for reading beside a node that runs: its last write is not torn, but goes on.
    pub(super) beside: bool,
    /// Absent if the log was opened for reading. Released after the database.
    pub(super) lock: Option<Lock>,
}

#[derive(Debug)]
pub(super) struct State {
    /// By extent number.
    pub(super) places: Places<u64>,
    /// True if there may be extents in memtables.
    pub(super) unflushed: bool,
    /// Block records found when opening, until they are taken.
    pub(super) found: Vec<BlockRecord>,
    pub(super) tip: Option<u64>,
    /// Height of the tip.
    pub(super) height: Option<u64>,
    pub(super) next_seq: u64,
    pub(super) next_extent: u64,
    /// Number of the first extent, and twigs, of a block of which parts are written.
    pub(super) begun: Option<(u64, Vec<(u64, u64)>)>,
    /// Note of the last tip, when the log was opened.
    pub(super) note: Vec<u8>,
    /// Promise as opening found it.
    pub(super) found_promise: Promise,
    /// Absent until the log is writable.
    pub(super) promise: Option<PromiseFile>,
}

impl State {
    pub(super) fn new(found_promise: Promise) -> Self {
        Self {
            places: Places::new(),
            unflushed: true,
            found: Vec::new(),
            tip: None,
            height: None,
            next_seq: 0,
            next_extent: 0,
            begun: None,
            note: Vec::new(),
            found_promise,
            promise: None,
        }
    }

    pub(super) const fn reached(&self) -> Reached {
        Reached { next_seq: self.next_seq, height: self.height }
    }

    /// Records that all writes so far reached the kernel, or are durable.
    pub(super) fn promise(&mut self, durable: bool) -> Result<(), Error> {
        let reached = self.reached();
        self.promise.as_mut().ok_or(Error::ReadOnly)?.put(|now| {
            now.acked = reached;
            if durable {
                now.durable = reached;
            }
        })
    }
}

impl Drop for State {
    fn drop(&mut self) {
        if let Some(promise) = &mut self.promise {
            // Without it the next opening knows of some writes less that were promised.
            let _ = promise.settle();
        }
    }
}

impl RocksLog {
    pub(super) const fn marks(&self) -> &Marks {
        &self.place.marks
    }

    pub(super) fn damaged(&self, what: String) -> Error {
        Error::Corrupt { path: self.path.clone(), what }
    }

    /// Records how durable a write is, before the caller is told. [`Self::put`] has made it so.
    fn written(&self, state: &mut State, committed: bool) -> Result<(), Error> {
        match self.durability {
            // The write is in memory only.
            Durability::None => Ok(()),
            Durability::Async => state.promise(false),
            Durability::Block => state.promise(committed),
        }
    }

    /// Makes all writes durable.
    pub(super) fn sync(&self) -> Result<(), Error> {
        if self.durability != Durability::None {
            self.disk.ask(Step::Sync(&self.path))?;
            self.db.flush_wal(true).map_err(|error| self.typed(error))?;
            metrics::synced();
            return Ok(());
        }
        self.disk.ask(Step::Flush(&self.path))?;
        self.flush_memtables()
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn family(&self, name: &str) -> Arc<BoundColumnFamily<'_>> {
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
    pub(super) fn put(&self, batch: WriteBatch, last: bool) -> Result<(), Error> {
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

    pub(super) fn typed(&self, error: rocksdb::Error) -> Error {
        typed(&self.path, error)
    }

    pub(super) fn corrupt(&self, what: &str) -> Error {
        Error::Corrupt { path: self.path.clone(), what: format!("{what} does not fit") }
    }

    /// Iterator for one pass over much of a family.
    pub(super) fn scan(&self, family: &str) -> DBRawIteratorWithThreadMode<'_, Db> {
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
        match frame_body(&frame, self.marks()) {
            Some((kind, body)) if kind == wanted => Ok(Some(body.to_vec())),
            _ => Err(self.corrupt(family)),
        }
    }

    /// Records the twigs that a block's extents begin, which are known once the extents were read.
    fn note_twigs(&self, id: u64, begin: u64, twigs: Vec<(u64, u64)>) {
        self.state().places.insert(id, begin, twigs);
    }
}

fn code_row(hash: &Hash, code: &[u8], marks: &Marks) -> Records {
    let mut records = Records::default();
    records.push_marked(Kind::Code, marks, |out| {
        out.extend_from_slice(hash);
        out.extend_from_slice(code);
    });
    records
}

impl Log for RocksLog {
    fn path(&self) -> PathBuf {
        self.path.clone()
    }

    fn marks(&self) -> &Marks {
        self.marks()
    }

    fn heal(self: Box<Self>) -> Result<(Box<dyn Log>, Tail), Error> {
        let (log, tail) = self.healed()?;
        Ok((Box::new(log), tail))
    }

    fn keeps_entries(&self) -> bool {
        true
    }

    fn write(&self, batch: Batch) -> Result<(), Error> {
        let Batch { block, extents, codes } = batch;
        let (entries, code) = (self.family(ENTRIES), self.family(CODE));
        let bytes: usize = extents.iter().map(|records| records.bytes.len() + 24 * records.len()).sum();
        let (begin, mut twigs) = self.state().begun.take().unwrap_or((block.first_extent, Vec::new()));
        let rest = extents.iter().map(|records| records.len() as u64).sum::<u64>();
        let first_extent = block.first_extent + block.extents - rest;
        let frames = || (first_extent..).zip(extents.iter().flat_map(Records::iter));
        let opened = |(extent, frame): (u64, &[u8])| Some((opens_twig(&frame[FRAME_HEADER..])?, extent));
        twigs.extend(frames().filter_map(opened));
        let tables = self.tables.as_ref().filter(|_| bytes as u64 >= self.disk.segment_bytes(TABLE_BYTES));
        let in_batch = if tables.is_some() { 0 } else { bytes.min(BATCH_BYTES as usize) };
        let mut out = WriteBatch::with_capacity_bytes(in_batch + 4096);
        for (hash, bytes) in codes {
            out.put_cf(&code, hash, code_row(&hash, &bytes, self.marks()).bytes);
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
        let row = block.encode(self.marks()).bytes;
        let mut rows = row.len();
        out.put_cf(&self.family(BLOCKS), block.id.to_be_bytes(), row);
        if block.committed {
            let tip = TipRecord { seq: block.seq, id: block.id, note: Vec::new() }.encode(self.marks()).bytes;
            rows += tip.len();
            out.put_cf(&self.family(META), TIP, tip);
        }
        self.put(out, block.committed)?;
        metrics::wrote_rows(rows);
        let state = &mut *self.state();
        state.places.insert(block.id, begin, twigs);
        (state.next_extent, state.next_seq) = (block.first_extent + block.extents, block.seq + 1);
        if block.committed {
            (state.tip, state.height) = (Some(block.id), Some(block.height));
        }
        self.written(state, block.committed)
    }

    fn write_code(&self, hash: &Hash, code: &[u8]) -> Result<(), Error> {
        let mut out = WriteBatch::default();
        out.put_cf(&self.family(CODE), hash, code_row(hash, code, self.marks()).bytes);
        self.put(out, false)
    }

    fn write_part(&self, extents: &Records, first_extent: u64) -> Result<(), Error> {
        let (entries, mut out) = (self.family(ENTRIES), WriteBatch::default());
        let frames = || (first_extent..).zip(extents.iter());
        {
            let mut state = self.state();
            state.unflushed = true;
            let (_, twigs) = state.begun.get_or_insert((first_extent, Vec::new()));
            twigs.extend(frames().filter_map(|(extent, frame)| Some((opens_twig(&frame[FRAME_HEADER..])?, extent))));
        }
        frames().for_each(|(extent, frame)| out.put_cf(&entries, extent.to_be_bytes(), frame));
        self.put(out, false)
    }

    fn set_tip(&self, tip: TipRecord, height: u64) -> Result<(), Error> {
        let mut out = WriteBatch::default();
        let row = tip.encode(self.marks()).bytes;
        let rows = row.len();
        out.put_cf(&self.family(META), TIP, row);
        self.put(out, true)?;
        metrics::wrote_rows(rows);
        let state = &mut *self.state();
        (state.tip, state.next_seq, state.height) = (Some(tip.id), tip.seq + 1, Some(height));
        self.written(state, true)
    }

    fn flush(&self) -> Result<(), Error> {
        // Writes that come meanwhile are not promised.
        let reached = self.state().reached();
        self.sync()?;
        let mut state = self.state();
        let promise = state.promise.as_mut().ok_or(Error::ReadOnly)?;
        if promise.now().durable.next_seq < reached.next_seq {
            promise.put_synced(|now| {
                now.durable = reached;
                if now.acked.next_seq < reached.next_seq {
                    now.acked = reached;
                }
            })?;
        }
        Ok(())
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
                Some((key, frame)) if number(key) == Some(at) => match frame_body(frame, self.marks()) {
                    Some((kind, body)) if kind.is_extent() => {
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
        body.map(|body| BlockRecord::decode(&body, self.marks()).ok_or_else(|| self.corrupt("a block's row")))
            .transpose()
    }

    fn code(&self, hash: &Hash) -> Result<Option<Arc<[u8]>>, Error> {
        let body = self.get(CODE, hash, Kind::Code)?;
        Ok(body.map(|body| body.get(hash.len()..).unwrap_or_default().into()))
    }

    fn codes(&self, visit: VisitCode<'_>) -> Result<(), Error> {
        let mut codes = self.scan(CODE);
        codes.seek_to_first();
        while let Some((key, frame)) = codes.item() {
            match (key.first_chunk(), frame_body(frame, self.marks())) {
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

    fn read(&self, spots: &[Spot], _: &Files, visit: VisitMany<'_>) -> Result<(), Error> {
        let entries = self.family(ENTRIES);
        for (at, spot) in spots.iter().enumerate() {
            self.disk.ask(Step::Read(&self.path))?;
            let found = self.db.get_pinned_cf(&entries, spot.place.to_be_bytes());
            match found.map_err(|error| self.typed(error))?.as_deref().and_then(|frame| frame_body(frame, self.marks()))
            {
                Some((kind, body)) if kind.is_extent() => visit(at, kind, body),
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
        let end = {
            let mut state = self.state();
            let promise = state.promise.as_mut().ok_or(Error::ReadOnly)?;
            promise.put_synced(|now| now.first = now.first.max(id))?;
            state.places.find(id, None).unwrap_or_default()
        };
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

pub(super) fn number(key: &[u8]) -> Option<u64> {
    key.try_into().ok().map(u64::from_be_bytes)
}
