//! The log as append-only files of frames, the segments.
//!
//! ```text
//! lock           held by the process that writes
//! store          backend, parameters, secret       (log/identity.rs)
//! promise        how far the log is durable        (log/promise.rs)
//! 00000000.seg   head | extents, block | extents, block | tip | ...     and 00000001.seg, ...
//! code.log       contract code
//! checkpoint     image of keys and tree, and an index of the segments  (recovery/checkpoint/)
//! *.torn         torn ends that an opening has cut off
//! ```
//!
//! A block's record is written last and makes its extents count. Opening cuts off a torn tail: what follows the last
//! complete record.
//!
//! Contract code has a file of its own: it is needed as long as the state, while segments are pruned. Code is written
//! before the block that brings it.

use std::{
    collections::{HashMap, VecDeque},
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockWriteGuard, atomic::Ordering},
};

use phalanx_merkle_proof::{Hash, Params};

use super::{
    read::{Counts, Rings},
    segment::{Readable, Segment, Segments, append, corrupt, existing, lengths, open_segments},
    state::{At, CODE, State, TornEnd, Unfinished, pack, unpack},
};
use crate::{
    log::backend::Opening,
    log::backend::{Batch, Begin, Files, Log, Spot, Visit, VisitCode, VisitMany},
    log::disk::{Disk, at},
    log::frames::Frames,
    log::identity::{How, Place},
    log::index::LogIndex,
    log::lock::{self, Lock},
    log::places::{Places, opens_twig},
    log::promise::{self, Promise, PromiseFile, Reached},
    log::record::{BlockRecord, FRAME_HEADER, Kind, Marks, Records, TipRecord},
    log::torn::keep,
    metrics,
    types::{Access, Durability, Error, Lost, ReadUse, Step, Tail, Torn},
};

/// Name of the file that is locked.
const LOCK: &str = "lock";

/// Size after which a segment takes no further block: the unit of pruning, in bytes.
const SEGMENT: u64 = 64 << 20;

#[derive(Debug)]
pub(crate) struct FileLog {
    place: Place,
    durability: Durability,
    params: Params,
    pub(super) marks: Marks,
    /// False if it was opened for reading.
    writes: bool,
    /// True if it was opened for reading beside a node that runs: its last write is not torn, but goes on.
    beside: bool,
    pub(super) disk: Disk,
    pub(super) rings: Rings,
    pub(super) reads: Counts,
    /// Segments by ascending number, without gaps, for reads: `state` is locked while a write is made durable.
    pub(super) readable: RwLock<VecDeque<Arc<Readable>>>,
    state: Mutex<State>,
}

/// Part of a segment.
struct SegmentPart {
    file: Arc<File>,
    path: PathBuf,
    begin: u64,
    end: u64,
}

impl FileLog {
    /// Opens or creates the log at a place. What the note indexes, if it fits the log, is not scanned.
    ///
    /// # Errors
    /// [`Error::Locked`], [`Error::Format`], [`Error::Corrupt`], [`Error::Io`].
    pub(crate) fn open(place: &Place, opening: Opening<'_>) -> Result<Self, Error> {
        let Opening { access, durability, reading, params, note, disk, .. } = opening;
        let (dir, marks, writes) = (place.dir(), place.marks, access != Access::Read);
        refuse_format_1(dir, params)?;
        let beside = !writes && lock::is_taken(dir, LOCK);
        if place.how == How::Create {
            std::fs::create_dir_all(dir).map_err(at(dir))?;
        }
        let lock = if writes { Some(Lock::take(dir, LOCK)?) } else { None };
        place.begin(&disk)?;
        // The promise first: a node that runs may write more meanwhile, and never takes a promise back.
        let mut found_promise = match place.how {
            How::Open => promise::read(dir, &marks)?,
            How::Create | How::Adopt => Promise::default(),
        };
        let code_path = dir.join(CODE);
        // Code is written before the block that brings it: what these lengths hold needs no code that is written from now on.
        let (segments, ends) = match place.how {
            How::Create => {
                let segments = vec![Segment::create(dir, 0, params, &marks, &disk)?];
                let ends = lengths(&segments)?;
                (segments, ends)
            }
            How::Open | How::Adopt => open_segments(&Segments { dir, params, marks: &marks, disk: &disk, writes })?,
        };
        if place.how == How::Open {
            found_promise.renew_begin(dir, &marks)?;
        }
        let code = match place.how {
            How::Open | How::Adopt => existing(&code_path, writes)
                .map_err(|error| if_missing(error, &code_path, "the file of contract code is missing"))?,
            How::Create => append(&code_path, true)?,
        };
        let mut state = State {
            _lock: lock,
            disk: disk.clone(),
            marks,
            found_promise,
            promise: None,
            torn_ends: Vec::new(),
            segments,
            buffer: Vec::new(),
            torn: false,
            code: Arc::new(code),
            code_len: 0,
            without_code: None,
            codes: HashMap::new(),
            places: Places::new(),
            records: HashMap::new(),
            begun: None,
            code_added: false,
            found: Vec::new(),
            tip: None,
            height: None,
            tip_at: (0, 0),
            next_seq: 0,
            next_extent: 0,
            note: Vec::new(),
        };
        if state.segments.is_empty() {
            return Err(corrupt(dir, "all segments are missing".into()));
        }
        state.scan_code(&code_path)?;
        let (first, mut from) = note.and_then(|note| state.take(note)).unwrap_or((0, None));
        for (index, end) in ends.iter().enumerate().skip(first) {
            state.scan(index, from.take(), *end)?;
        }
        state.check_promise(dir)?;
        state.check_code(&code_path)?;
        let tip = state.tip;
        state.height = state.found.iter().find(|record| Some(record.id) == tip).map(|record| record.height);
        let place = place.clone();
        let readable: VecDeque<Arc<Readable>> =
            state.segments.iter().map(|segment| Arc::clone(&segment.readable)).collect();
        // A segment is durable before the next one begins.
        let before = readable.len() - 1;
        readable.iter().take(before).for_each(|segment| segment.durable.store(u64::MAX, Ordering::Release));
        let (rings, reads, readable) = (Rings::new(reading), Counts::default(), RwLock::new(readable));
        let state = Mutex::new(state);
        Ok(Self { place, durability, params: *params, marks, writes, beside, disk, rings, reads, readable, state })
    }

    pub(super) fn dir(&self) -> &Path {
        self.place.dir()
    }

    /// Keeps a torn end beside its file, and cuts it off.
    fn cut_off(&self, end: TornEnd) -> Result<Torn, Error> {
        let TornEnd { file, path, from, end } = end;
        let mut torn = Torn { file: path.clone(), offset: from, bytes: end - from, kept: None };
        if self.writes {
            torn.kept = keep(&file, &path, from, end, &self.disk)?;
            self.disk.cut(&file, &path, from)?;
            self.disk.sync(&file, &path)?;
        }
        Ok(torn)
    }

    fn readable_mut(&self) -> RwLockWriteGuard<'_, VecDeque<Arc<Readable>>> {
        self.readable.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands what `Durability::None` holds back to the kernel. Other durabilities hold nothing back.
    pub(super) fn push_buffer(&self) -> Result<(), Error> {
        if self.durability == Durability::None { self.state().push_buffer() } else { Ok(()) }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// State of a log that takes writes.
    ///
    /// # Errors
    /// [`Error::ReadOnly`]; after a failed append [`Error::Poisoned`], before any step that could fail on its own.
    fn writing(&self) -> Result<MutexGuard<'_, State>, Error> {
        let state = self.state();
        if state.promise.is_none() {
            return Err(Error::ReadOnly);
        }
        if state.torn {
            return Err(Error::Poisoned);
        }
        Ok(state)
    }

    fn append(&self, state: &mut State, records: &Records) -> Result<(), Error> {
        state.append(records, self.durability == Durability::None)
    }

    fn append_code(&self, state: &mut State, hash: &Hash, code: &[u8]) -> Result<(), Error> {
        let mut records = Records::default();
        records.push_marked(Kind::Code, &self.marks, |out| {
            out.extend_from_slice(hash);
            out.extend_from_slice(code);
        });
        // Later rows would follow an unknown part.
        self.disk.append(&state.code, &self.dir().join(CODE), &records.bytes).inspect_err(|_| state.torn = true)?;
        state.codes.insert(*hash, state.code_len);
        state.code_len += records.bytes.len() as u64;
        state.code_added = true;
        Ok(())
    }

    /// Appends extents to the block that is being written; the first ones begin it.
    fn append_extents(&self, state: &mut State, records: &Records) -> Result<(), Error> {
        if state.begun.is_none() {
            self.rotate(state)?;
        }
        let mut at = (state.last().number, state.last().len);
        let mut begun = state.begun.take().unwrap_or_default();
        begun.begin.get_or_insert(at);
        for frame in records.iter() {
            begun.twigs.extend(opens_twig(&frame[FRAME_HEADER..]).map(|twig| (twig, at)));
            at.1 += frame.len() as u64;
        }
        state.begun = Some(begun);
        self.append(state, records)
    }

    /// Part of a segment to be read without the lock: a visitor may take long, or write. A segment that is pruned
    /// meanwhile stays readable.
    fn stretch(&self, find: impl FnOnce(&State) -> Option<At>) -> Result<Option<SegmentPart>, Error> {
        let mut state = self.state();
        state.push_buffer()?;
        let Some((number, begin)) = find(&state) else { return Ok(None) };
        Ok(state.segment(number).map(|segment| {
            let (file, path) = (Arc::clone(&segment.file), segment.path.clone());
            SegmentPart { file, path, begin, end: segment.len }
        }))
    }

    /// Makes a write as durable as the store promises, before the caller is told. An fsync only with [`Durability::Block`].
    fn written(&self, state: &mut State, committed: bool) -> Result<(), Error> {
        match self.durability {
            // Nothing is promised about the buffer.
            Durability::None => Ok(()),
            Durability::Block if committed => {
                state.sync()?;
                state.promise(true)
            }
            Durability::Async | Durability::Block => state.promise(false),
        }
    }

    /// Makes all writes durable, and promises it.
    fn make_durable(&self, state: &mut State) -> Result<(), Error> {
        self.disk.sync(&state.code, &self.dir().join(CODE))?;
        state.sync()?;
        let reached = Reached { next_seq: state.next_seq, height: state.height };
        let (end, code) = (pack((state.last().number, state.last().len)), state.code_len);
        let promise = state.promise.as_mut().ok_or(Error::ReadOnly)?;
        promise.put_synced(|now| (now.durable, now.acked, now.end, now.code) = (reached, reached, end, code))
    }

    /// Begins another segment if the last one is full.
    fn rotate(&self, state: &mut State) -> Result<(), Error> {
        let last = state.last();
        if last.len < self.disk.segment_bytes(SEGMENT) {
            return Ok(());
        }
        let number = last.number + 1;
        // Only the last segment may be torn, and a log without its last segment is damaged.
        self.disk.sync(&state.code, &self.dir().join(CODE))?;
        state.sync()?;
        let segment = Segment::create(self.dir(), number, &self.params, &self.marks, &self.disk)?;
        let (end, code) = (pack((number, segment.len)), state.code_len);
        let reached = Reached { next_seq: state.next_seq, height: state.height };
        state.last().readable.durable.store(u64::MAX, Ordering::Release);
        self.readable_mut().push_back(Arc::clone(&segment.readable));
        state.segments.push(segment);
        let promise = state.promise.as_mut().ok_or(Error::ReadOnly)?;
        promise.put_synced(|now| (now.durable, now.acked, now.end, now.code) = (reached, reached, end, code))
    }
}

/// Turns the error of a file that is not there into damage.
fn if_missing(error: Error, path: &Path, what: &str) -> Error {
    match error {
        Error::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => corrupt(path, what.into()),
        other => other,
    }
}

/// Refuses the log of the first format, which was one file.
pub(in crate::log) fn refuse_format_1(dir: &Path, params: &Params) -> Result<(), Error> {
    let path = dir.join("state.log");
    if !path.exists() {
        return Ok(());
    }
    let expected = format!("format {} with {}", phalanx_merkle_proof::FORMAT, params.hash);
    Err(Error::Format { path, found: "format 1, or no store".into(), expected })
}

impl Log for FileLog {
    fn path(&self) -> PathBuf {
        self.dir().to_path_buf()
    }

    fn marks(&self) -> &Marks {
        &self.marks
    }

    fn heal(self: Box<Self>) -> Result<(Box<dyn Log>, Tail), Error> {
        if self.beside || !self.writes && lock::is_taken(self.dir(), LOCK) {
            return Ok((self, Tail::default()));
        }
        let mut guard = self.state();
        let state = &mut *guard;
        let torn =
            std::mem::take(&mut state.torn_ends).into_iter().map(|end| self.cut_off(end)).collect::<Result<_, _>>()?;
        let found = state.found_promise;
        let lost = found.acked.next_seq.checked_sub(state.next_seq).filter(|writes| *writes > 0);
        let lost = lost.map(|writes| Lost { writes, height: found.acked.height });
        if self.writes {
            if let Some(last) = state.segments.last_mut().filter(|last| last.begun) {
                last.begin(self.dir(), &self.params, &self.marks, &self.disk)?;
            }
            let new =
                (self.place.how != How::Open).then(|| Promise { first: u64::from(state.segments[0].number), ..found });
            state.promise = Some(PromiseFile::open(self.dir(), self.marks, new, &self.disk)?);
            if self.durability == Durability::Block || self.place.how != How::Open {
                // Earlier blocks may have been written without that durability.
                self.make_durable(state)?;
            } else if lost.is_some() {
                state.promise(false)?;
            }
            self.place.finish(&self.disk)?;
        }
        drop(guard);
        Ok((self, Tail { torn, lost }))
    }

    fn keeps_entries(&self) -> bool {
        true
    }

    fn write(&self, batch: Batch) -> Result<(), Error> {
        let Batch { block, extents, codes } = batch;
        let state = &mut *self.writing()?;
        if state.begun.is_none() {
            self.rotate(state)?;
        }
        for (hash, code) in &codes {
            self.append_code(state, hash, code)?;
        }
        let codes = std::mem::take(&mut state.code_added);
        if codes && self.durability == Durability::Block {
            self.disk.sync(&state.code, &self.dir().join(CODE))?;
        }
        for records in &*extents {
            self.append_extents(state, records)?;
        }
        let Unfinished { begin, twigs, .. } = state.begun.take().unwrap_or_default();
        let (number, end) = (state.last().number, state.last().len);
        let mut records = Records::default();
        if codes {
            records.push_marked(Kind::CodeEnd, &self.marks, |out| out.extend_from_slice(&state.code_len.to_be_bytes()));
        }
        let place = (number, end + records.bytes.len() as u64);
        state.places.insert(block.id, begin.unwrap_or(place), twigs);
        block.encode_into(&mut records, &self.marks);
        state.records.insert(block.id, place);
        state.next_extent = block.first_extent + block.extents;
        state.next_seq = block.seq + 1;
        if let Some(last) = state.segments.last_mut() {
            last.last_id = last.last_id.max(block.id);
        }
        self.append(state, &records)?;
        metrics::wrote_rows(records.bytes.len());
        if block.committed {
            (state.tip, state.tip_at, state.height) = (Some(block.id), place, Some(block.height));
        }
        self.written(state, block.committed)
    }

    fn write_code(&self, hash: &Hash, code: &[u8]) -> Result<(), Error> {
        self.append_code(&mut *self.writing()?, hash, code)
    }

    fn write_part(&self, extents: &Records, _first_extent: u64) -> Result<(), Error> {
        self.append_extents(&mut *self.writing()?, extents)
    }

    fn set_tip(&self, tip: TipRecord, height: u64) -> Result<(), Error> {
        let state = &mut *self.writing()?;
        let place = (state.last().number, state.last().len);
        let row = tip.encode(&self.marks);
        self.append(state, &row)?;
        metrics::wrote_rows(row.bytes.len());
        (state.tip, state.tip_at, state.next_seq) = (Some(tip.id), place, tip.seq + 1);
        state.height = Some(height);
        self.written(state, true)
    }

    fn flush(&self) -> Result<(), Error> {
        self.make_durable(&mut *self.writing()?)
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
        let Some(SegmentPart { file, path, begin, end }) = self.stretch(|state| state.places.find(id, twig))? else {
            return Ok(());
        };
        self.disk.ask(Step::Read(&path))?;
        let mut frames = Frames::new(&file, self.marks, begin, end);
        loop {
            let offset = frames.offset;
            match frames.next().map_err(at(&path))? {
                Some((kind, body)) if kind.is_extent() => {
                    if !visit(kind, body)? {
                        return Ok(());
                    }
                }
                Some((Kind::CodeEnd, _)) => {}
                Some((Kind::Block, _)) => return Ok(()),
                _ => return Err(corrupt(&path, format!("no valid row at byte {offset}"))),
            }
        }
    }

    fn block(&self, id: u64) -> Result<Option<BlockRecord>, Error> {
        let Some(SegmentPart { file, path, begin, end }) = self.stretch(|state| state.records.get(&id).copied())?
        else {
            return Ok(None);
        };
        self.disk.ask(Step::Read(&path))?;
        match Frames::new(&file, self.marks, begin, end).next().map_err(at(&path))? {
            Some((Kind::Block, body)) => BlockRecord::decode(body, &self.marks).map(Some),
            _ => None,
        }
        .ok_or_else(|| corrupt(&path, format!("no valid row at byte {begin}")))
    }

    fn code(&self, hash: &Hash) -> Result<Option<Arc<[u8]>>, Error> {
        let path = self.dir().join(CODE);
        let (file, offset, end) = {
            let state = self.state();
            let Some(&offset) = state.codes.get(hash) else { return Ok(None) };
            (Arc::clone(&state.code), offset, state.code_len)
        };
        self.disk.ask(Step::Read(&path))?;
        match Frames::new(&file, self.marks, offset, end).next().map_err(at(&path))? {
            Some((Kind::Code, body)) => Ok(Some(body.get(hash.len()..).unwrap_or_default().into())),
            _ => Err(corrupt(&path, format!("no valid row at byte {offset}"))),
        }
    }

    fn codes(&self, visit: VisitCode<'_>) -> Result<(), Error> {
        let hashes: Vec<Hash> = self.state().codes.keys().copied().collect();
        for hash in hashes {
            if let Some(code) = self.code(&hash)? {
                visit(&hash, &code)?;
            }
        }
        Ok(())
    }

    fn next_extent(&self) -> u64 {
        self.state().next_extent
    }

    fn begin(&self, id: u64) -> Option<Begin> {
        self.state().places.find(id, None).map(|begin| Begin::Byte(pack(begin)))
    }

    fn hold(&self, spots: &[Spot]) -> Result<Files, Error> {
        self.targets(spots).map(Files)
    }

    fn read(&self, spots: &[Spot], files: &Files, visit: VisitMany<'_>) -> Result<(), Error> {
        self.read_in_turn(spots, &files.0, visit)
    }

    fn read_deep(&self, spots: &[Spot], files: &Files, visit: VisitMany<'_>) -> Result<bool, Error> {
        self.read_on_ring(spots, &files.0, visit)
    }

    fn reads_at_depth(&self) -> bool {
        self.rings.are_there()
    }

    fn reads(&self) -> Option<ReadUse> {
        Some(self.reads.total(self.rings.are_there()))
    }

    fn note(&self) -> Result<LogIndex, Error> {
        self.write_note()
    }

    fn settle(&self) -> Result<(), Error> {
        let (code, last, path, reached, place) = {
            let mut state = self.writing()?;
            state.push_buffer()?;
            let reached = Reached { next_seq: state.next_seq, height: state.height };
            let place = (pack((state.last().number, state.last().len)), state.code_len);
            let last = state.last();
            (Arc::clone(&state.code), Arc::clone(&last.file), last.path.clone(), reached, place)
        };
        self.disk.sync(&code, &self.dir().join(CODE))?;
        self.disk.sync(&last, &path)?;
        let mut state = self.state();
        state.synced(unpack(place.0));
        let promise = state.promise.as_mut().ok_or(Error::ReadOnly)?;
        if promise.now().durable.next_seq < reached.next_seq {
            promise.put_synced(|now| (now.durable, now.end, now.code) = (reached, place.0, place.1))?;
        }
        Ok(())
    }

    fn prune(&self, id: u64) -> Result<(), Error> {
        let state = &mut *self.writing()?;
        state.push_buffer()?;
        let last = state.segments.len() - 1;
        let gone = state.segments[..last].iter().take_while(|segment| segment.last_id < id).count();
        if gone == 0 {
            return Ok(());
        }
        let first = u64::from(state.segments[gone].number);
        state.promise.as_mut().ok_or(Error::ReadOnly)?.put_synced(|now| now.first = first)?;
        let mut below = 0;
        for _ in 0..gone {
            let gone = state.segments.remove(0);
            self.readable_mut().pop_front();
            self.disk.remove(&gone.path)?;
            // One at a time: the remaining segments never have a gap.
            self.disk.sync_names(self.dir())?;
            below = gone.last_id + 1;
        }
        // Once: a log that was never pruned has many segments.
        state.places.prune(below);
        state.records.retain(|at, _| *at >= below);
        Ok(())
    }
}

impl Drop for FileLog {
    fn drop(&mut self) {
        // `Durability::None` promises nothing about the buffer, so a failure to write it breaks no promise.
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        let _ = state.push_buffer();
        if let Some(promise) = &mut state.promise {
            let _ = promise.settle();
        }
    }
}
