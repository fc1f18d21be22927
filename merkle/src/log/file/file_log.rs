//! The log as append-only files of frames, the segments.
//!
//! A block's record is written last and makes its extents count. Opening cuts off a torn tail: what follows the last
//! complete record.
//!
//! Contract code has a file of its own: it is needed as long as the state, while segments are pruned. Code is written
//! before the block that brings it.

use std::{
    collections::HashMap,
    fs::{File, TryLockError},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use phalanx_merkle_proof::{Hash, Params};

use super::{
    segment::{Segment, append, corrupt, open_segments},
    state::{At, Lock, State, pack, unpack},
};
use crate::{
    log::backend::{Batch, Begin, Log, Spot, Visit, VisitCode, VisitMany},
    log::disk::{Disk, at},
    log::frames::{Frames, read_frame},
    log::index::LogIndex,
    log::places::{Places, opens_twig},
    log::record::{BlockRecord, FRAME_HEADER, Kind, Records, TipRecord, frame_body},
    types::{Durability, Error, Step},
};

/// Size after which a segment takes no further block: the unit of pruning, in bytes.
const SEGMENT: u64 = 64 << 20;

#[derive(Debug)]
pub(crate) struct FileLog {
    pub(super) dir: PathBuf,
    durability: Durability,
    params: Params,
    disk: Disk,
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
    /// Opens or creates the log in `dir` and cuts off a torn tail. What `note` indexes, if it fits the log, is not
    /// scanned.
    ///
    /// # Errors
    /// [`Error::Locked`], [`Error::Format`], [`Error::Corrupt`], [`Error::Io`].
    pub(crate) fn open(
        dir: &Path,
        durability: Durability,
        params: &Params,
        note: Option<&LogIndex>,
        disk: Disk,
    ) -> Result<Self, Error> {
        std::fs::create_dir_all(dir).map_err(at(dir))?;
        refuse_format_1(dir, params)?;
        let lock_path = dir.join("lock");
        let lock = append(&lock_path)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(Error::Locked { path: dir.to_path_buf() }),
            Err(TryLockError::Error(source)) => return Err(at(&lock_path)(source)),
        }
        let lock = Lock(lock);
        let code_path = dir.join("code.log");
        let code = append(&code_path)?;
        let mut state = State {
            _lock: lock,
            disk: disk.clone(),
            segments: open_segments(dir, params, &disk)?,
            buffer: Vec::new(),
            torn: false,
            code: Arc::new(code),
            code_len: 0,
            codes: HashMap::new(),
            places: Places::new(),
            records: HashMap::new(),
            found: Vec::new(),
            tip: None,
            tip_at: (0, 0),
            next_seq: 0,
            next_extent: 0,
            note: Vec::new(),
        };
        state.scan_code(&code_path)?;
        let (first, mut from) = note.and_then(|note| state.take(note)).unwrap_or((0, None));
        for index in first..state.segments.len() {
            state.scan(index, from.take())?;
        }
        Ok(Self { dir: dir.to_path_buf(), durability, params: *params, disk, state: Mutex::new(state) })
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn append(&self, state: &mut State, records: &Records) -> Result<(), Error> {
        state.append(records, self.durability == Durability::None)
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

    /// Begins another segment if the last one is full.
    fn rotate(&self, state: &mut State) -> Result<(), Error> {
        let last = state.last();
        if last.len < self.disk.segment_bytes(SEGMENT) {
            return Ok(());
        }
        let number = last.number + 1;
        // Only the last segment may be torn.
        state.sync()?;
        state.segments.push(Segment::open(&self.dir, number, &self.params, &self.disk)?);
        Ok(())
    }
}

fn refuse_format_1(dir: &Path, params: &Params) -> Result<(), Error> {
    let path = dir.join("state.log");
    if !path.exists() {
        return Ok(());
    }
    let expected = format!("format {} with {}", phalanx_merkle_proof::FORMAT, params.hash);
    Err(Error::Format { path, found: "format 1, or no store".into(), expected })
}

impl Log for FileLog {
    fn path(&self) -> PathBuf {
        self.dir.clone()
    }

    fn keeps_entries(&self) -> bool {
        true
    }

    fn write(&self, batch: Batch) -> Result<(), Error> {
        let Batch { block, extents, codes } = batch;
        let state = &mut *self.state();
        self.rotate(state)?;
        let code_path = self.dir.join("code.log");
        for (hash, code) in &codes {
            let mut records = Records::default();
            records.push(Kind::Code, |out| {
                out.extend_from_slice(hash);
                out.extend_from_slice(code);
            });
            self.disk.append(&state.code, &code_path, &records.bytes)?;
            state.codes.insert(*hash, state.code_len);
            state.code_len += records.bytes.len() as u64;
        }
        if !codes.is_empty() && self.durability == Durability::Block {
            self.disk.sync(&state.code, &code_path)?;
        }
        let number = state.last().number;
        let begin = (number, state.last().len);
        let mut twigs = Vec::new();
        for records in &*extents {
            let mut offset = state.last().len;
            for frame in records.iter() {
                twigs.extend(opens_twig(&frame[FRAME_HEADER..]).map(|twig| (twig, (number, offset))));
                offset += frame.len() as u64;
            }
            self.append(state, records)?;
        }
        state.places.insert(block.id, begin, twigs);
        let place = (number, state.last().len);
        state.records.insert(block.id, place);
        state.next_extent = block.first_extent + block.extents;
        state.next_seq = block.seq + 1;
        if let Some(last) = state.segments.last_mut() {
            last.last_id = last.last_id.max(block.id);
        }
        self.append(state, &block.encode())?;
        if block.committed {
            (state.tip, state.tip_at) = (Some(block.id), place);
            if self.durability == Durability::Block {
                state.sync()?;
            }
        }
        Ok(())
    }

    fn set_tip(&self, tip: TipRecord) -> Result<(), Error> {
        let state = &mut *self.state();
        let place = (state.last().number, state.last().len);
        self.append(state, &tip.encode())?;
        (state.tip, state.tip_at, state.next_seq) = (Some(tip.id), place, tip.seq + 1);
        if self.durability == Durability::Block { state.sync() } else { Ok(()) }
    }

    fn flush(&self) -> Result<(), Error> {
        let mut state = self.state();
        self.disk.sync(&state.code, &self.dir.join("code.log"))?;
        state.sync()
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
        let mut frames = Frames::new(&file, begin, end);
        loop {
            let offset = frames.offset;
            match frames.next().map_err(at(&path))? {
                Some((kind @ (Kind::Extent | Kind::Moved), body)) => {
                    if !visit(kind, body)? {
                        return Ok(());
                    }
                }
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
        match Frames::new(&file, begin, end).next().map_err(at(&path))? {
            Some((Kind::Block, body)) => BlockRecord::decode(body).map(Some),
            _ => None,
        }
        .ok_or_else(|| corrupt(&path, format!("no valid row at byte {begin}")))
    }

    fn code(&self, hash: &Hash) -> Result<Option<Arc<[u8]>>, Error> {
        let path = self.dir.join("code.log");
        let (file, offset, end) = {
            let state = self.state();
            let Some(&offset) = state.codes.get(hash) else { return Ok(None) };
            (Arc::clone(&state.code), offset, state.code_len)
        };
        self.disk.ask(Step::Read(&path))?;
        match Frames::new(&file, offset, end).next().map_err(at(&path))? {
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

    fn read(&self, spots: &[Spot], visit: VisitMany<'_>) -> Result<(), Error> {
        let number_of = |spot: &Spot| unpack(spot.place).0;
        let mut frame = Vec::new();
        let mut first = 0;
        for same in spots.chunk_by(|a, b| number_of(a) == number_of(b)) {
            let number = number_of(&same[0]);
            // The lock is released, so that many threads read at a time.
            let (file, path) = {
                let mut state = self.state();
                state.push_buffer()?;
                let Some(segment) = state.segment(number) else {
                    return Err(corrupt(&self.dir, format!("segment {number} is missing")));
                };
                (Arc::clone(&segment.file), segment.path.clone())
            };
            for (at, spot) in (first..).zip(same) {
                self.disk.ask(Step::Read(&path))?;
                let (_, offset) = unpack(spot.place);
                read_frame(&file, offset, spot.most, &mut frame).map_err(crate::log::disk::at(&path))?;
                match frame_body(&frame) {
                    Some((kind @ (Kind::Extent | Kind::Moved), body)) => visit(at, kind, body),
                    _ => return Err(corrupt(&path, format!("no valid row at byte {offset}"))),
                }
            }
            first += same.len();
        }
        Ok(())
    }

    fn note(&self) -> Result<LogIndex, Error> {
        self.write_note()
    }

    fn settle(&self) -> Result<(), Error> {
        let (code, last, path) = {
            let mut state = self.state();
            state.push_buffer()?;
            (Arc::clone(&state.code), Arc::clone(&state.last().file), state.last().path.clone())
        };
        self.disk.sync(&code, &self.dir.join("code.log"))?;
        self.disk.sync(&last, &path)
    }

    fn prune(&self, id: u64) -> Result<(), Error> {
        let state = &mut *self.state();
        state.push_buffer()?;
        while state.segments.len() > 1 && state.segments[0].last_id < id {
            let gone = state.segments.remove(0);
            self.disk.remove(&gone.path)?;
            // One at a time: the remaining segments never have a gap.
            self.disk.sync_names(&self.dir)?;
            state.places.prune(gone.last_id + 1);
            state.records.retain(|at, _| *at > gone.last_id);
        }
        Ok(())
    }
}

impl Drop for FileLog {
    fn drop(&mut self) {
        // `Durability::None` promises nothing about the buffer, so a failure to write it breaks no promise.
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        let _ = state.push_buffer();
    }
}
