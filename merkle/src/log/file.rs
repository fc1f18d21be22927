//! The log as append-only files of frames, the segments. A block's row is written last and is what makes its extents
//! count; what follows the last complete row was torn and is cut off when the log is opened.
//!
//! Contract code has a file of its own, because it is needed for as long as the state is: segments go when they are
//! pruned. Code is written before the block that brings it.

mod notes;
mod segment;

use std::{
    collections::HashMap,
    fs::{File, TryLockError},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use phalanx_merkle_proof::Hash;

use super::{
    Batch, Begin, Disk, Log, Places, See, SeeCode, SeeMany, Spot, at,
    frames::{Frames, find_later, read_frame},
    opens_twig,
};
use crate::{
    Durability, Error, Params,
    checkpoint::Note,
    faults::Step,
    row::{BlockRow, FRAME_HEADER, Kind, Rows, TipRow, frame_body},
};
use segment::{Segment, append, corrupt, open_segments};

/// Bytes that [`Durability::None`] collects before it hands them to the kernel.
const BUFFER: usize = 1 << 20;

/// Size past which a segment takes no further block: what pruning drops at a time.
const SEGMENT: u64 = 64 << 20;

/// Bits of a place that are the offset in a segment; the others are the segment's number.
const OFFSET_BITS: u32 = 40;

/// Segment number and offset.
type At = (u32, u64);

#[derive(Debug)]
pub(crate) struct FileLog {
    dir: PathBuf,
    durability: Durability,
    params: Params,
    disk: Disk,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    _lock: Lock,
    disk: Disk,
    /// By ascending number, without gaps; never empty.
    segments: Vec<Segment>,
    /// Bytes of the last segment that `Durability::None` has not written yet.
    buffer: Vec<u8>,
    /// Whether appending to a segment failed: what follows would stand behind an unknown part.
    torn: bool,
    code: Arc<File>,
    code_len: u64,
    codes: HashMap<Hash, u64>,
    places: Places<At>,
    rows: HashMap<u64, At>,
    /// What opening found, until it is asked for.
    found: Vec<BlockRow>,
    tip: Option<u64>,
    /// Where the row is that made it the tip.
    tip_at: At,
    next_seq: u64,
    next_extent: u64,
    /// Of the last tip, when the log was opened.
    note: Vec<u8>,
}

/// Part of a segment.
struct Stretch {
    file: Arc<File>,
    path: PathBuf,
    begin: u64,
    end: u64,
}

/// A file that is exclusively locked while the log is open, or being opened.
#[derive(Debug)]
struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing would unlock as well, but not while a process that was just forked still holds the descriptor.
        let _ = self.0.unlock();
    }
}

impl FileLog {
    /// Opens or creates the log in `dir` and cuts off a torn tail.
    ///
    /// # Errors
    /// [`Error::Locked`], [`Error::Format`], [`Error::Corrupt`], [`Error::Io`].
    ///
    /// What `note` says of the log, if it fits, is not looked for again.
    pub(crate) fn open(
        dir: &Path,
        durability: Durability,
        params: &Params,
        note: Option<&Note>,
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
            rows: HashMap::new(),
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

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn append(&self, state: &mut State, rows: &Rows) -> Result<(), Error> {
        state.append(rows, self.durability == Durability::None)
    }

    /// Where in which file to read, to be read without the lock: whoever is handed what is there may take as long as it
    /// wants, or write. A segment that is pruned meanwhile can be read on.
    fn stretch(&self, find: impl FnOnce(&State) -> Option<At>) -> Result<Option<Stretch>, Error> {
        let mut state = self.state();
        state.push_buffer()?;
        let Some((number, begin)) = find(&state) else { return Ok(None) };
        Ok(state.segment(number).map(|segment| {
            let (file, path) = (Arc::clone(&segment.file), segment.path.clone());
            Stretch { file, path, begin, end: segment.len }
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

const fn pack((number, offset): At) -> u64 {
    (number as u64) << OFFSET_BITS | offset
}

const fn unpack(place: u64) -> At {
    ((place >> OFFSET_BITS) as u32, place & ((1 << OFFSET_BITS) - 1))
}

fn refuse_format_1(dir: &Path, params: &Params) -> Result<(), Error> {
    let path = dir.join("state.log");
    if !path.exists() {
        return Ok(());
    }
    let expected = format!("format {} with {}", phalanx_merkle_proof::FORMAT, params.hash);
    Err(Error::Format { path, found: "format 1, or no store".into(), expected })
}

/// What a scan has met of the block whose row has not come yet.
#[derive(Default)]
struct Unfinished {
    begin: Option<At>,
    twigs: Vec<(u64, At)>,
}

impl State {
    fn last(&self) -> &Segment {
        self.segments.last().expect("a log has a segment")
    }

    /// Notes where things are in a segment from an offset on, up to the last complete row, and cuts the last segment there.
    fn scan(&mut self, index: usize, from: Option<u64>) -> Result<(), Error> {
        let Segment { number, path, file, len: begin, .. } = &self.segments[index];
        let (number, path, begin) = (*number, path.clone(), from.unwrap_or(*begin));
        self.disk.ask(Step::Read(&path))?;
        let end = file.metadata().map_err(at(&path))?.len();
        let file = file.try_clone().map_err(at(&path))?;
        let mut frames = Frames::new(&file, begin, end);
        let (mut good, mut offset) = (begin, begin);
        let mut open = Unfinished::default();
        while let Some((kind, body)) = frames.next().map_err(at(&path))? {
            let place = (number, offset);
            if !self.see(kind, body, place, &mut open) {
                return Err(corrupt(&path, format!("row at byte {offset} does not fit")));
            }
            if matches!(kind, Kind::Block | Kind::Tip) {
                good = offset + (FRAME_HEADER + body.len()) as u64;
            }
            offset = frames.offset;
        }
        // The last row may be torn anywhere, and may have reached the disk before what it belongs to; a row above it was
        // written only after it was complete.
        if let Some(seq) = find_later(&file, offset, end, self.next_seq).map_err(at(&path))? {
            return Err(corrupt(&path, format!("bad row at byte {offset} before row {seq}")));
        }
        if good < end {
            if index + 1 < self.segments.len() {
                return Err(corrupt(&path, format!("bad row at byte {offset}, and segments follow")));
            }
            self.disk.cut(&file, &path, good)?;
            self.disk.sync(&file, &path)?;
        }
        self.segments[index].len = good;
        let inside = self.rows.iter().filter(|(_, place)| place.0 == number);
        self.segments[index].last_id = inside.map(|(id, _)| *id).max().unwrap_or(0);
        Ok(())
    }

    /// Takes note of a row. False if it does not fit what came before.
    fn see(&mut self, kind: Kind, body: &[u8], place: At, open: &mut Unfinished) -> bool {
        match kind {
            Kind::Extent | Kind::Moved => {
                open.begin.get_or_insert(place);
                open.twigs.extend(opens_twig(body).map(|twig| (twig, place)));
            }
            Kind::Block => {
                let Some(row) = BlockRow::decode(body) else { return false };
                // Of what comes before the first row nothing is known: it may be pruned.
                let first = self.found.is_empty() && place.0 > 0;
                let fits = row.seq == self.next_seq && row.first_extent == self.next_extent;
                if !(first || fits) || self.rows.contains_key(&row.id) {
                    return false;
                }
                let Some(next_extent) = row.first_extent.checked_add(row.extents) else { return false };
                (self.next_extent, self.next_seq) = (next_extent, row.seq + 1);
                let Unfinished { begin, twigs } = std::mem::take(open);
                self.places.insert(row.id, begin.unwrap_or(place), twigs);
                self.rows.insert(row.id, place);
                if row.committed {
                    (self.tip, self.tip_at) = (Some(row.id), place);
                    self.note.clear();
                }
                self.found.push(row);
            }
            Kind::Tip => {
                let Some(row) = TipRow::decode(body) else { return false };
                if !(self.found.is_empty() && place.0 > 0) && row.seq != self.next_seq {
                    return false;
                }
                (self.next_seq, self.tip, self.note) = (row.seq + 1, Some(row.id), row.note);
                self.tip_at = place;
            }
            Kind::Params | Kind::Code | Kind::Checkpoint => return false,
        }
        true
    }

    fn scan_code(&mut self, path: &Path) -> Result<(), Error> {
        self.disk.ask(Step::Read(path))?;
        let end = self.code.metadata().map_err(at(path))?.len();
        let mut frames = Frames::new(&self.code, 0, end);
        let mut offset = 0;
        while let Some((kind, body)) = frames.next().map_err(at(path))? {
            match body.first_chunk() {
                Some(hash) if kind == Kind::Code => _ = self.codes.insert(*hash, offset),
                _ => return Err(corrupt(path, format!("row at byte {offset} does not fit"))),
            }
            offset = frames.offset;
        }
        drop(frames);
        if offset < end {
            self.disk.cut(&self.code, path, offset)?;
        }
        self.code_len = offset;
        Ok(())
    }

    /// Appends to the last segment. A write that fails has put down an unknown part: it is the last one.
    fn put(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let last = self.last();
        let result = self.disk.append(&last.file, &last.path, bytes);
        self.torn = result.is_err();
        result
    }

    fn push_buffer(&mut self) -> Result<(), Error> {
        if self.torn {
            return Err(Error::Poisoned);
        }
        if self.buffer.is_empty() {
            return Ok(());
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        self.put(&buffer)?;
        buffer.clear();
        self.buffer = buffer;
        Ok(())
    }

    fn append(&mut self, rows: &Rows, buffered: bool) -> Result<(), Error> {
        if self.torn {
            return Err(Error::Poisoned);
        }
        if buffered {
            self.buffer.extend_from_slice(&rows.bytes);
            if self.buffer.len() >= BUFFER {
                self.push_buffer()?;
            }
        } else {
            self.put(&rows.bytes)?;
        }
        if let Some(last) = self.segments.last_mut() {
            last.len += rows.bytes.len() as u64;
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<(), Error> {
        self.push_buffer()?;
        let last = self.last();
        self.disk.sync(&last.file, &last.path)
    }

    fn segment(&self, number: u32) -> Option<&Segment> {
        let first = self.segments.first()?.number;
        self.segments.get(number.checked_sub(first)? as usize)
    }
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
            let mut rows = Rows::default();
            rows.push(Kind::Code, |out| {
                out.extend_from_slice(hash);
                out.extend_from_slice(code);
            });
            self.disk.append(&state.code, &code_path, &rows.bytes)?;
            state.codes.insert(*hash, state.code_len);
            state.code_len += rows.bytes.len() as u64;
        }
        if !codes.is_empty() && self.durability == Durability::Block {
            self.disk.sync(&state.code, &code_path)?;
        }
        let number = state.last().number;
        let begin = (number, state.last().len);
        let mut twigs = Vec::new();
        for rows in &*extents {
            let mut offset = state.last().len;
            for frame in rows.iter() {
                twigs.extend(opens_twig(&frame[FRAME_HEADER..]).map(|twig| (twig, (number, offset))));
                offset += frame.len() as u64;
            }
            self.append(state, rows)?;
        }
        state.places.insert(block.id, begin, twigs);
        let place = (number, state.last().len);
        state.rows.insert(block.id, place);
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

    fn set_tip(&self, tip: TipRow) -> Result<(), Error> {
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

    fn blocks(&self) -> Result<Vec<BlockRow>, Error> {
        Ok(std::mem::take(&mut self.state().found))
    }

    fn tip(&self) -> (Option<u64>, u64) {
        let state = self.state();
        (state.tip, state.next_seq)
    }

    fn take_note(&self) -> Vec<u8> {
        std::mem::take(&mut self.state().note)
    }

    fn extents(&self, id: u64, twig: Option<u64>, see: See<'_>) -> Result<(), Error> {
        let Some(Stretch { file, path, begin, end }) = self.stretch(|state| state.places.find(id, twig))? else {
            return Ok(());
        };
        self.disk.ask(Step::Read(&path))?;
        let mut frames = Frames::new(&file, begin, end);
        loop {
            let offset = frames.offset;
            match frames.next().map_err(at(&path))? {
                Some((kind @ (Kind::Extent | Kind::Moved), body)) => {
                    if !see(kind, body)? {
                        return Ok(());
                    }
                }
                Some((Kind::Block, _)) => return Ok(()),
                _ => return Err(corrupt(&path, format!("no valid row at byte {offset}"))),
            }
        }
    }

    fn block(&self, id: u64) -> Result<Option<BlockRow>, Error> {
        let Some(Stretch { file, path, begin, end }) = self.stretch(|state| state.rows.get(&id).copied())? else {
            return Ok(None);
        };
        self.disk.ask(Step::Read(&path))?;
        match Frames::new(&file, begin, end).next().map_err(at(&path))? {
            Some((Kind::Block, body)) => BlockRow::decode(body).map(Some),
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

    fn codes(&self, see: SeeCode<'_>) -> Result<(), Error> {
        let hashes: Vec<Hash> = self.state().codes.keys().copied().collect();
        for hash in hashes {
            if let Some(code) = self.code(&hash)? {
                see(&hash, &code)?;
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

    fn read(&self, spots: &[Spot], see: SeeMany<'_>) -> Result<(), Error> {
        let number_of = |spot: &Spot| unpack(spot.place).0;
        let mut frame = Vec::new();
        let mut first = 0;
        for same in spots.chunk_by(|a, b| number_of(a) == number_of(b)) {
            let number = number_of(&same[0]);
            // Read without the lock, so that many threads do at a time.
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
                read_frame(&file, offset, spot.most, &mut frame).map_err(super::at(&path))?;
                match frame_body(&frame) {
                    Some((kind @ (Kind::Extent | Kind::Moved), body)) => see(at, kind, body),
                    _ => return Err(corrupt(&path, format!("no valid row at byte {offset}"))),
                }
            }
            first += same.len();
        }
        Ok(())
    }

    fn note(&self) -> Result<Note, Error> {
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
            // One after the other: what remains never has a gap.
            self.disk.sync_names(&self.dir)?;
            state.places.prune(gone.last_id + 1);
            state.rows.retain(|at, _| *at > gone.last_id);
        }
        Ok(())
    }
}

impl Drop for FileLog {
    fn drop(&mut self) {
        // Durability::None promises nothing about the buffer; writing it is a kindness whose failure changes no promise.
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        let _ = state.push_buffer();
    }
}
