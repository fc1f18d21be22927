//! Opening of the log: a database that is there is checked before a byte of it changes.

use super::{
    database::{LOCK, PARAMS, open_for_reading, open_for_writing},
    options::{BLOCKS, ENTRIES, FAMILIES, META},
    rocks_log::{RocksLog, State, TIP, number},
    table::Tables,
    wal,
};
use crate::{
    log::{
        backend::Opening,
        disk::at,
        identity::{How, NAMELESS, Place},
        index::IndexedBlock,
        lock::{self, Lock},
        promise::{self, Promise, PromiseFile, same_boot},
        record::{BlockRecord, Kind, Other, TipRecord, check_head, encode_head, frame_body},
    },
    types::{Access, Durability, Error, Lost, Tail, Torn},
};
use rocksdb::WriteBatch;
use std::sync::Mutex;

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
        let Opening { access, durability, past_cache, params, note, disk, reading: _ } = opening;
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
            How::Open | How::Adopt => {
                (wal::check(&path, &place.marks, &found_promise, &disk)?, open_for_reading(&path)?)
            }
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

    /// Checks the parameters, or writes those of a new database; finds the first unused extent number.
    fn begin(&self) -> Result<(), Error> {
        // Every family is there once the store is created, and the parameters are written last.
        if let Some(name) = FAMILIES.iter().find(|name| self.db.cf_handle(name).is_none()) {
            return Err(self.damaged(format!("its family {name} is missing")));
        }
        let (entries, meta) = (self.family(ENTRIES), self.family(META));
        let head = encode_head(&self.params, self.marks(), 0).bytes;
        match self.db.get_pinned_cf(&meta, PARAMS).map_err(|error| self.typed(error))? {
            Some(found) => check_head(&found, &head, &self.params).map_err(|other| match other {
                Other::Params(found, expected) => Error::Format { path: self.path.clone(), found, expected },
                Other::Damage(_) if self.place.how == How::Adopt => self.damaged(NAMELESS.into()),
                Other::Damage(what) => self.damaged(format!("its parameters are {what}")),
            })?,
            None if self.place.how == How::Create => self.put_head()?,
            None => return Err(self.damaged("its parameters are missing".into())),
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
        let meta = self.family(META);
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
        let (db, rewritten) = if self.place.how == How::Create {
            (self.db, self.rewritten)
        } else {
            drop(self.db);
            open_for_writing(&self.path, self.past_cache, false)?
        };
        let tables = (self.past_cache && self.durability != Durability::None).then(|| Tables::new(&self.path));
        let log = Self { db, rewritten, tables, torn: None, beside: false, ..self };
        let get = |key: &[u8]| log.db.get_cf(&log.family(META), key).map_err(|error| log.typed(error));
        let tip = get(TIP)?.and_then(|frame| log.tip_of(&frame)).map(|tip| tip.id);
        if tip != log.state().tip {
            return Err(log.damaged("the database has another tip when it is opened for writing".into()));
        }
        Ok(log)
    }

    /// Ends the opening; see [`Log::heal`].
    pub(super) fn healed(mut self) -> Result<(Self, Tail), Error> {
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
        if log.durability == Durability::Block || how != How::Open {
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
}
