//! The log in a RocksDB database: opens it, writes blocks as batches or tables, and reads them back.

use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use phalanx_merkle_proof::{Hash, Params};
use rocksdb::{
    BoundColumnFamily, ColumnFamilyDescriptor, DB, DBRawIteratorWithThreadMode, ErrorKind, FlushOptions, MultiThreaded,
    Options, ReadOptions, WriteBatch, WriteOptions,
};

use super::{
    direct::bypasses_page_cache,
    options::{BLOCKS, CODE, ENTRIES, FAMILIES, META, database_options, family_options, reading_options},
    table::{TABLE_BYTES, Tables},
    wal::{self, TornWal},
};
use crate::metrics;
use crate::{
    log::backend::Opening,
    log::backend::{Batch, Begin, Log, Spot, Visit, VisitCode, VisitMany},
    log::disk::{Disk, at},
    log::identity::{How, Place},
    log::index::{IndexedBlock, LogIndex},
    log::lock::{self, Lock},
    log::places::{Places, opens_twig},
    log::promise::{self, Promise, PromiseFile, Reached, same_boot},
    log::record::{
        BlockRecord, FRAME_HEADER, Kind, Marks, Other, Records, TipRecord, check_head, encode_head, frame_body,
    },
    types::{Access, Durability, Error, Lost, Step, Tail, Torn},
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

/// Name of the file that is locked.
const LOCK: &str = "store.lock";

/// Times that opening for reading is tried: a node that runs replaces files at any moment.
const TRIES: u32 = 16;

#[derive(Debug)]
pub(crate) struct RocksLog {
    place: Place,
    path: PathBuf,
    durability: Durability,
    params: Params,
    past_cache: bool,
    /// Tables of large blocks.
    tables: Option<Tables>,
    db: Db,
    disk: Disk,
    /// Bytes of entries that compaction rewrote; moving a file counts nothing.
    rewritten: Arc<AtomicU64>,
    state: Mutex<State>,
    /// Torn end of the write-ahead log, until it is cut off.
    torn: Option<TornWal>,
    /// True if it was opened for reading beside a node that runs: its last write is not torn, but goes on.
    beside: bool,
    /// Absent if the log was opened for reading. Released after the database.
    lock: Option<Lock>,
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
    /// Height of the tip.
    height: Option<u64>,
    next_seq: u64,
    next_extent: u64,
    /// Number of the first extent, and twigs, of a block of which parts are written.
    begun: Option<(u64, Vec<(u64, u64)>)>,
    /// Note of the last tip, when the log was opened.
    note: Vec<u8>,
    /// Promise as opening found it.
    found_promise: Promise,
    /// Absent until the log is writable.
    promise: Option<PromiseFile>,
}

impl State {
    fn new(found_promise: Promise) -> Self {
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

    const fn reached(&self) -> Reached {
        Reached { next_seq: self.next_seq, height: self.height }
    }

    /// Records that all writes so far reached the kernel, or are durable.
    fn promise(&mut self, durable: bool) -> Result<(), Error> {
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

/// Row of the parameters of a database that is only read.
pub(in crate::log) fn params_row(path: &Path) -> Result<Option<Vec<u8>>, Error> {
    let (db, _) = open_for_reading(path)?;
    let meta = db.cf_handle(META).ok_or_else(|| Error::NoStore { path: path.into(), found: "another database" })?;
    db.get_cf(&meta, PARAMS).map_err(|error| typed(path, error))
}

/// Opens the database at a path without changing a byte of it.
fn open_for_reading(path: &Path) -> Result<(Db, Arc<AtomicU64>), Error> {
    if !path.join("CURRENT").exists() {
        return Err(Error::Corrupt { path: path.to_path_buf(), what: "the database's file CURRENT is missing".into() });
    }
    let open = || {
        let options = reading_options();
        let families = families(path, &options)?;
        let rewritten = Arc::<AtomicU64>::default();
        let descriptors =
            families.iter().map(|name| ColumnFamilyDescriptor::new(name, family_options(name, &rewritten)));
        let db = Db::open_cf_descriptors_read_only(&options, path, descriptors, false);
        db.map(|db| (db, rewritten)).map_err(|error| typed(path, error))
    };
    for _ in 1..TRIES {
        if !lock::is_taken(path, LOCK) {
            break;
        }
        if let Ok(opened) = open() {
            return Ok(opened);
        }
    }
    open()
}

/// Families that a database has: RocksDB insists that every family is opened, also those of a later version of this store.
fn families(path: &Path, options: &Options) -> Result<Vec<String>, Error> {
    let present = DB::list_cf(options, path).map_err(|error| typed(path, error))?;
    // A crash may have left only some of the families. A foreign family in a database without our meta data belongs to
    // another program.
    let ours = |name: &String| name == "default" || FAMILIES.contains(&name.as_str());
    if !present.iter().any(|name| name == META) && !present.iter().all(ours) {
        return Err(Error::Format {
            path: path.to_path_buf(),
            found: format!("a database with families {present:?}"),
            expected: format!("families {FAMILIES:?}"),
        });
    }
    Ok(present)
}

/// Opens the database at a path for writing, and creates what is missing of it.
fn open_for_writing(path: &Path, past_cache: bool, create: bool) -> Result<(Db, Arc<AtomicU64>), Error> {
    let mut options = database_options(past_cache && bypasses_page_cache(path));
    options.create_if_missing(create);
    options.set_max_open_files(if past_cache { OPEN_FILES } else { 4 * OPEN_FILES });
    let mut all: Vec<String> = FAMILIES.map(String::from).into();
    if path.join("CURRENT").exists() {
        let present = families(path, &options)?;
        all.extend(present.into_iter().filter(|name| !FAMILIES.contains(&name.as_str())));
    }
    let rewritten = Arc::<AtomicU64>::default();
    let descriptors = all.iter().map(|name| ColumnFamilyDescriptor::new(name, family_options(name, &rewritten)));
    let db = Db::open_cf_descriptors(&options, path, descriptors).map_err(|error| typed(path, error))?;
    Ok((db, rewritten))
}

impl RocksLog {
    /// Opens or creates the database at a place. A database that is there is opened for reading first.
    ///
    /// `past_cache` is for logs of which little will be read. Large blocks then bring tables, unless there is no
    /// durability, and flushed memtables bypass the page cache if the file system can. Copying them to pages that
    /// nothing reads took 5 to 8 % of all processor time.
    ///
    /// # Errors
    /// [`Error::Locked`], [`Error::Format`], [`Error::Corrupt`], [`Error::Rocks`].
    pub(crate) fn open(place: &Place, opening: Opening<'_>) -> Result<Self, Error> {
        let Opening { access, durability, past_cache, params, note, disk } = opening;
        let path = place.dir().to_path_buf();
        if place.how == How::Create {
            std::fs::create_dir_all(&path).map_err(at(&path))?;
        }
        let lock = if access == Access::Read { None } else { Some(Lock::take(&path, LOCK)?) };
        let beside = lock.is_none() && lock::is_taken(&path, LOCK);
        place.begin(&disk)?;
        // The promise first: a node that runs may write more meanwhile, and never takes a promise back.
        let mut found_promise = match place.how {
            How::Open => promise::read(&path, &place.marks)?,
            How::Create | How::Adopt => Promise::default(),
        };
        let (torn, (db, rewritten)) = match place.how {
            How::Create => (None, open_for_writing(&path, past_cache, true)?),
            How::Open | How::Adopt => (wal::check(&path, &place.marks, &disk)?, open_for_reading(&path)?),
        };
        if place.how == How::Open {
            found_promise.renew_begin(&path, &place.marks)?;
        }
        let (place, params, state) = (place.clone(), *params, Mutex::new(State::new(found_promise)));
        let log = Self {
            place,
            path,
            durability,
            params,
            past_cache,
            tables: None,
            db,
            disk,
            rewritten,
            state,
            torn,
            beside,
            lock,
        };
        log.begin()?;
        log.find_blocks()?;
        log.check_promise()?;
        for IndexedBlock { record, begin, twigs, .. } in note.into_iter().flat_map(|note| &note.blocks) {
            log.state().places.learn(record.id, *begin, twigs);
        }
        Ok(log)
    }

    const fn marks(&self) -> &Marks {
        &self.place.marks
    }

    fn damaged(&self, what: String) -> Error {
        Error::Corrupt { path: self.path.clone(), what }
    }

    /// Checks the parameters, or writes those of a new database; finds the first unused extent number.
    fn begin(&self) -> Result<(), Error> {
        let (Some(entries), Some(meta)) = (self.db.cf_handle(ENTRIES), self.db.cf_handle(META)) else {
            // The creation of a database of an earlier layout was interrupted.
            return if self.place.how == How::Adopt { Ok(()) } else { Err(self.damaged("a family is missing".into())) };
        };
        let head = encode_head(&self.params, self.marks(), 0).bytes;
        match self.db.get_pinned_cf(&meta, PARAMS).map_err(|error| self.typed(error))? {
            Some(found) => check_head(&found, &head, &self.params).map_err(|other| match other {
                Other::Params(found, expected) => Error::Format { path: self.path.clone(), found, expected },
                Other::Damage(what) => self.damaged(format!("its parameters are {what}")),
            })?,
            None => match self.place.how {
                How::Create => self.put_head()?,
                How::Adopt => {}
                How::Open => return Err(self.damaged("its parameters are missing".into())),
            },
        }
        let mut extents = self.db.raw_iterator_cf(&entries);
        extents.seek_to_last();
        extents.status().map_err(|error| self.typed(error))?;
        let last = extents.key().map(|key| number(key).ok_or_else(|| self.corrupt("an extent's key"))).transpose()?;
        self.state().next_extent = last.map_or(0, |last| last + 1);
        Ok(())
    }

    /// Writes the parameters.
    fn put_head(&self) -> Result<(), Error> {
        let mut batch = WriteBatch::default();
        batch.put_cf(&self.family(META), PARAMS, encode_head(&self.params, self.marks(), 0).bytes);
        self.put(batch, true)?;
        self.sync()
    }

    /// Reads all block records and the tip.
    fn find_blocks(&self) -> Result<(), Error> {
        let (Some(_), Some(meta)) = (self.db.cf_handle(BLOCKS), self.db.cf_handle(META)) else { return Ok(()) };
        let mut blocks = self.scan(BLOCKS);
        let state = &mut *self.state();
        blocks.seek_to_first();
        while let Some((key, frame)) = blocks.item() {
            let record = match frame_body(frame, self.marks()) {
                Some((Kind::Block, body)) => BlockRecord::decode(body, self.marks()),
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
        let Some(frame) = self.db.get_pinned_cf(&meta, TIP).map_err(|error| self.typed(error))? else {
            // A log may have staged blocks only; a committed block brings the tip with it.
            let committed = state.found.iter().any(|record| record.committed);
            return if committed { Err(self.corrupt("the recorded tip")) } else { Ok(()) };
        };
        let tip = self.tip_of(&frame).ok_or_else(|| self.corrupt("the recorded tip"))?;
        state.next_seq = state.next_seq.max(tip.seq + 1);
        state.height = state.found.iter().find(|record| record.id == tip.id).map(|record| record.height);
        (state.tip, state.note) = (Some(tip.id), tip.note);
        Ok(())
    }

    fn tip_of(&self, frame: &[u8]) -> Option<TipRecord> {
        let (_, body) = frame_body(frame, self.marks()).filter(|(kind, _)| *kind == Kind::Tip)?;
        TipRecord::decode(body, self.marks())
    }

    /// Compares what was found with the promise.
    fn check_promise(&self) -> Result<(), Error> {
        let state = self.state();
        let Promise { durable, first, acked, .. } = state.found_promise;
        if first > 0 && state.found.first().is_none_or(|record| record.id > first) {
            return Err(self.damaged(format!("block record {first}, at the begin of the log, is missing")));
        }
        let behind = match &self.torn {
            Some(torn) => format!(" behind byte {} of {}", torn.from, torn.path.display()),
            None => String::new(),
        };
        if state.next_seq < durable.next_seq {
            let until = durable.height.map_or_else(String::new, |height| format!(", up to block {height}"));
            let (found, promised) = (state.next_seq, durable.next_seq);
            return Err(self.damaged(format!(
                "{} writes are missing{behind}: the log ends before row {found}, and was durable to row {promised}{until}",
                promised - found
            )));
        }
        // An open database always has a log.
        if state.next_seq < acked.next_seq && !wal::is_there(&self.path)? {
            return Err(self.damaged("the write-ahead log is missing".into()));
        }
        // A process that ends loses nothing of a table. Those that the database does not know are lost with its own
        // records, which are always durable.
        if state.next_seq < acked.next_seq && same_boot(&state.found_promise) && self.has_unknown_tables()? {
            return Err(self.damaged("tables are not in the database's own records, some of which are lost".into()));
        }
        Ok(())
    }

    /// Returns true if there are tables that the database does not know.
    fn has_unknown_tables(&self) -> Result<bool, Error> {
        let known = self.db.live_files().map_err(|error| self.typed(error))?;
        for entry in std::fs::read_dir(&self.path).map_err(at(&self.path))? {
            let name = entry.map_err(at(&self.path))?.file_name();
            let name = name.to_string_lossy();
            if name.ends_with(".sst") && !known.iter().any(|file| file.name.ends_with(&*name)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Opens for writing what was checked.
    fn writable(self) -> Result<Self, Error> {
        let Self { place, path, durability, params, past_cache, db, disk, rewritten, state, lock, .. } = self;
        let (db, rewritten) = if place.how == How::Create {
            (db, rewritten)
        } else {
            drop(db);
            open_for_writing(&path, past_cache, false)?
        };
        let tables = (past_cache && durability != Durability::None).then(|| Tables::new(&path));
        let (torn, beside) = (None, false);
        let log = Self {
            place,
            path,
            durability,
            params,
            past_cache,
            tables,
            db,
            disk,
            rewritten,
            state,
            torn,
            beside,
            lock,
        };
        let get = |key: &[u8]| log.db.get_cf(&log.family(META), key).map_err(|error| log.typed(error));
        if log.place.how == How::Adopt && get(PARAMS)?.is_none() {
            log.put_head()?;
        }
        let tip = get(TIP)?.and_then(|frame| log.tip_of(&frame)).map(|tip| tip.id);
        if tip != log.state().tip {
            return Err(log.damaged("the database has another tip when it is opened for writing".into()));
        }
        Ok(log)
    }

    /// Ends the opening; see [`Log::heal`].
    fn healed(mut self) -> Result<(Self, Tail), Error> {
        if self.beside || self.lock.is_none() && lock::is_taken(&self.path, LOCK) {
            return Ok((self, Tail::default()));
        }
        let mut torn = Vec::new();
        if let Some(end) = self.torn.take() {
            let kept = if self.lock.is_some() { end.cut_off(&self.disk)? } else { None };
            torn.push(Torn { file: end.path, offset: end.from, bytes: end.end - end.from, kept });
        }
        let (found, reached) = {
            let state = self.state();
            (state.found_promise, state.reached())
        };
        let lost = found.acked.next_seq.checked_sub(reached.next_seq).filter(|writes| *writes > 0);
        let lost = lost.map(|writes| Lost { writes, height: found.acked.height });
        if self.lock.is_none() {
            return Ok((self, Tail { torn, lost }));
        }
        let log = self.writable()?;
        let how = log.place.how;
        let first = log.state().found.first().map_or(0, |record| record.id);
        let new = (how != How::Open).then_some(Promise { first, ..found });
        let promise = PromiseFile::open(&log.path, log.place.marks, new, &log.disk)?;
        log.state().promise = Some(promise);
        if log.durability == Durability::Block || how == How::Create {
            // Earlier blocks may have been written without that durability.
            log.sync()?;
            let mut state = log.state();
            let promise = state.promise.as_mut().ok_or(Error::ReadOnly)?;
            promise.put_synced(|now| (now.durable, now.acked) = (reached, reached))?;
        } else if lost.is_some() {
            log.state().promise(false)?;
        }
        log.place.finish(&log.disk)?;
        Ok((log, Tail { torn, lost }))
    }

    /// Ends a write, before it is told.
    fn written(&self, state: &mut State, committed: bool) -> Result<(), Error> {
        match self.durability {
            // The write is in memory only.
            Durability::None => Ok(()),
            Durability::Async => state.promise(false),
            Durability::Block => state.promise(committed),
        }
    }

    /// Makes all writes durable.
    fn sync(&self) -> Result<(), Error> {
        if self.durability != Durability::None {
            self.disk.ask(Step::Sync(&self.path))?;
            self.db.flush_wal(true).map_err(|error| self.typed(error))?;
            metrics::synced();
            return Ok(());
        }
        self.disk.ask(Step::Flush(&self.path))?;
        self.flush_memtables()
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

    fn read(&self, spots: &[Spot], visit: VisitMany<'_>) -> Result<(), Error> {
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
        // A file that the database's own records name.
        ErrorKind::IOError if text.contains("No such file or directory") => Error::Corrupt { path, what: text },
        _ => Error::Rocks { path, source },
    }
}
