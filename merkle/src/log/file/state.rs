//! The state of a file log under its lock: segments, code, and the place of every record; scanned when the log is
//! opened.
//!
//! # Torn or damaged
//!
//! A scan reads up to the first bad record. The rest is damage, and the log is refused, where a crash cannot have left it:
//!
//! - the promise names it as durable ([`State::scan`], [`State::check_promise`], [`State::check_code`]);
//! - a later record or segment follows it ([`State::refuse_damage`], [`State::scan`], [`State::scan_code`]);
//! - it has all its bytes, and only its length is damaged ([`State::refuse_damage`]).
//!
//! Otherwise the rest is a torn end. A scan changes nothing: a torn end is kept and cut off when the log is healed.

use std::{
    collections::HashMap,
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering},
};

use phalanx_merkle_proof::Hash;

use super::segment::{Segment, corrupt};
use crate::{
    log::disk::{Disk, at},
    log::frames::{Frames, find_code, find_later, frame_up_to, read_at, seq_of},
    log::lock::Lock,
    log::places::{Places, opens_twig},
    log::promise::{Promise, PromiseFile, Reached, same_boot},
    log::record::{BlockRecord, FRAME_HEADER, Kind, Marks, Records, TipRecord, frame_body, frame_header},
    types::{Error, Step},
};

/// Name of the file of code.
pub(super) const CODE: &str = "code.log";

/// Bytes that [`Durability::None`](crate::types::Durability::None) buffers before it hands them to the kernel.
const BUFFER: usize = 1 << 20;

/// Bits of a place that hold the offset in a segment; the other bits hold the segment's number.
const OFFSET_BITS: u32 = 40;

/// Segment number and offset.
pub(super) type At = (u32, u64);

#[derive(Debug)]
pub(super) struct State {
    /// Absent if the log was opened for reading.
    pub(super) _lock: Option<Lock>,
    pub(super) disk: Disk,
    pub(super) marks: Marks,
    /// Promise as opening found it.
    pub(super) found_promise: Promise,
    /// Absent until the log is writable.
    pub(super) promise: Option<PromiseFile>,
    /// Torn ends of files, until they are cut off.
    pub(super) torn_ends: Vec<TornEnd>,
    /// By ascending number, without gaps; never empty.
    pub(super) segments: Vec<Segment>,
    /// Bytes of the last segment that `Durability::None` has not written yet.
    pub(super) buffer: Vec<u8>,
    /// True if an append to a segment or to the code failed: later bytes would follow an unknown part.
    pub(super) torn: bool,
    pub(super) code: Arc<File>,
    pub(super) code_len: u64,
    /// Length of code that the first block behind the log's end needs, if it is longer than the code.
    pub(super) without_code: Option<u64>,
    pub(super) codes: HashMap<Hash, u64>,
    pub(super) places: Places<At>,
    pub(super) records: HashMap<u64, At>,
    /// Begin and twigs of a block of which parts are written.
    pub(super) begun: Option<Unfinished>,
    /// True if the next block brings code that is written.
    pub(super) code_added: bool,
    /// Block records found when opening, until they are taken.
    pub(super) found: Vec<BlockRecord>,
    pub(super) tip: Option<u64>,
    /// Height of the tip.
    pub(super) height: Option<u64>,
    /// Place of the record that made it the tip.
    pub(super) tip_at: At,
    pub(super) next_seq: u64,
    pub(super) next_extent: u64,
    /// Note of the last tip, when the log was opened.
    pub(super) note: Vec<u8>,
}

/// Torn end of a file.
#[derive(Debug)]
pub(super) struct TornEnd {
    pub(super) file: Arc<File>,
    pub(super) path: PathBuf,
    pub(super) from: u64,
    pub(super) end: u64,
}

pub(super) const fn pack((number, offset): At) -> u64 {
    (number as u64) << OFFSET_BITS | offset
}

pub(super) const fn unpack(place: u64) -> At {
    ((place >> OFFSET_BITS) as u32, place & ((1 << OFFSET_BITS) - 1))
}

/// Extents of a block whose record the scan has not met yet.
#[derive(Debug, Default)]
pub(super) struct Unfinished {
    pub(super) begin: Option<At>,
    pub(super) twigs: Vec<(u64, At)>,
    /// Length of code that the block needs.
    pub(super) code: u64,
}

impl State {
    pub(super) fn last(&self) -> &Segment {
        self.segments.last().expect("a log has a segment")
    }

    /// Indexes a segment between two offsets, up to the last complete record whose code is there, and ends the last segment
    /// there. The file is not changed.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if what follows is damaged and not torn; [`Error::Io`].
    pub(super) fn scan(&mut self, index: usize, from: Option<u64>, end: u64) -> Result<(), Error> {
        if self.segments[index].begun {
            return Ok(());
        }
        let Segment { number, path, file, len: begin, .. } = &self.segments[index];
        let (number, path, begin) = (*number, path.clone(), from.unwrap_or(*begin));
        self.disk.ask(Step::Read(&path))?;
        let file = Arc::clone(file);
        let mut frames = Frames::new(&file, self.marks, begin, end);
        let (mut good, mut offset) = (begin, begin);
        let mut open = Unfinished::default();
        while let Some((kind, body)) = frames.next().map_err(at(&path))? {
            let place = (number, offset);
            if kind == Kind::Block && open.code > self.code_len {
                self.without_code = Some(open.code);
                break;
            }
            if !self.visit(kind, body, place, &mut open) {
                return Err(corrupt(&path, format!("row at byte {offset} does not fit")));
            }
            if matches!(kind, Kind::Block | Kind::Tip) {
                good = offset + (FRAME_HEADER + body.len()) as u64;
            }
            offset = frames.offset;
        }
        let promised = unpack(self.found_promise.end);
        if good
            < if promised.0 == number {
                promised.1
            } else if promised.0 > number {
                end
            } else {
                0
            }
        {
            // The blocks are there, and the code that they need is not whole.
            if let Some(needed) = self.without_code {
                return Err(self.code_is_damaged(&path.with_file_name(CODE), needed));
            }
            let Reached { height, .. } = self.found_promise.durable;
            let until = height.map_or_else(String::new, |height| format!(", up to block {height}"));
            let end = if promised.0 == number { format!("byte {}", promised.1) } else { "its end".into() };
            return Err(corrupt(&path, format!("bad row at byte {offset}; it was durable to {end}{until}")));
        }
        // After a power cut a block may be there without its code, and so may later ones.
        if self.without_code.is_none() && offset < end {
            self.refuse_damage(&file, &path, offset, end)?;
        }
        if good < end {
            if index + 1 < self.segments.len() {
                return Err(corrupt(&path, format!("bad row at byte {offset}, and segments follow")));
            }
            self.torn_ends.push(TornEnd { file: Arc::clone(&file), path, from: good, end });
        }
        self.segments[index].len = good;
        let inside = self.records.iter().filter(|(_, place)| place.0 == number);
        self.segments[index].last_id = inside.map(|(id, _)| *id).max().unwrap_or(0);
        Ok(())
    }

    /// Refuses a bad record that a crash cannot have left.
    ///
    /// # Errors
    /// [`Error::Corrupt`].
    fn refuse_damage(&self, file: &File, path: &Path, offset: u64, end: u64) -> Result<(), Error> {
        // A power cut may tear the last record anywhere, and may leave it without its extents. A record above it was written
        // only after it was complete. Without a power cut all bytes of a file are there up to its end.
        let least = self.next_seq + u64::from(!same_boot(&self.found_promise));
        if let Some(seq) = find_later(file, self.marks, offset, end, least).map_err(at(path))? {
            return Err(corrupt(path, format!("bad row at byte {offset} before row {seq}")));
        }
        let frame = frame_up_to(file, offset, end).map_err(at(path))?;
        // Without a secret what users store may have the right checksum.
        let seq = seq_of(frame_body(&frame, &self.marks), &self.marks).filter(|_| self.marks.is_secret());
        seq.map_or(Ok(()), |seq| Err(corrupt(path, format!("row {seq} at byte {offset} has a damaged length"))))
    }

    /// Indexes a record. Returns false if it does not continue what came before.
    fn visit(&mut self, kind: Kind, body: &[u8], place: At, open: &mut Unfinished) -> bool {
        match kind {
            Kind::Extent | Kind::Moved | Kind::Kept => {
                open.begin.get_or_insert(place);
                open.twigs.extend(opens_twig(body).map(|twig| (twig, place)));
            }
            Kind::Block => {
                let Some(record) = BlockRecord::decode(body, &self.marks) else { return false };
                // Nothing is known of what precedes the first record: it may be pruned.
                let first = self.found.is_empty() && place.0 > 0;
                let fits = record.seq == self.next_seq && record.first_extent == self.next_extent;
                if !(first || fits) || self.records.contains_key(&record.id) {
                    return false;
                }
                let Some(next_extent) = record.first_extent.checked_add(record.extents) else { return false };
                (self.next_extent, self.next_seq) = (next_extent, record.seq + 1);
                let Unfinished { begin, twigs, .. } = std::mem::take(open);
                self.places.insert(record.id, begin.unwrap_or(place), twigs);
                self.records.insert(record.id, place);
                if record.committed {
                    (self.tip, self.tip_at) = (Some(record.id), place);
                    self.note.clear();
                }
                self.found.push(record);
            }
            Kind::Tip => {
                let Some(record) = TipRecord::decode(body, &self.marks) else { return false };
                if !(self.found.is_empty() && place.0 > 0) && record.seq != self.next_seq {
                    return false;
                }
                (self.next_seq, self.tip, self.note) = (record.seq + 1, Some(record.id), record.note);
                self.tip_at = place;
            }
            Kind::CodeEnd => {
                let Some(needed) = body.try_into().ok().map(u64::from_be_bytes) else { return false };
                open.code = open.code.max(needed);
            }
            Kind::Params | Kind::Code | Kind::Checkpoint => return false,
        }
        true
    }

    /// Indexes the file of code, up to the last whole row.
    pub(super) fn scan_code(&mut self, path: &Path) -> Result<(), Error> {
        self.disk.ask(Step::Read(path))?;
        let end = self.code.metadata().map_err(at(path))?.len();
        let mut frames = Frames::new(&self.code, self.marks, 0, end);
        let mut offset = 0;
        while let Some((kind, body)) = frames.next().map_err(at(path))? {
            match body.first_chunk() {
                Some(hash) if kind == Kind::Code => _ = self.codes.insert(*hash, offset),
                _ => return Err(corrupt(path, format!("row at byte {offset} does not fit"))),
            }
            offset = frames.offset;
        }
        drop(frames);
        if offset < end && self.code_follows(offset, end).map_err(at(path))? {
            return Err(corrupt(path, format!("bad row at byte {offset}, and a whole one behind it")));
        }
        if offset < end {
            let (file, path) = (Arc::clone(&self.code), path.to_path_buf());
            self.torn_ends.push(TornEnd { file, path, from: offset, end });
        }
        self.code_len = offset;
        Ok(())
    }

    /// Returns true if a whole row of code follows the bad one at an offset, which then is damaged, not torn.
    fn code_follows(&self, offset: u64, end: u64) -> io::Result<bool> {
        if self.marks.is_secret() {
            return Ok(find_code(&self.code, &self.marks, offset + 1, end)?.is_some());
        }
        // Without a secret anything can look like a row, but not where the bad one says that it ends.
        let mut header = [0; FRAME_HEADER];
        if read_at(&self.code, &mut header, offset)? < FRAME_HEADER {
            return Ok(false);
        }
        let Some((_, len)) = frame_header(&header) else { return Ok(false) };
        let behind = offset + (FRAME_HEADER + len) as u64;
        Ok(matches!(Frames::new(&self.code, self.marks, behind, end).next()?, Some((Kind::Code, _))))
    }

    /// Returns true if all bytes of code up to an offset were written: a power cut leaves nothing or zeros in place of the last.
    fn is_code_written(&self, to: u64) -> io::Result<bool> {
        let mut last = [0];
        let read = read_at(&self.code, &mut last, to.saturating_sub(1))?;
        if last != [0] {
            return Ok(true);
        }
        // Code may end with zeros.
        let frame = if read == 1 { frame_up_to(&self.code, self.code_len, to)? } else { Vec::new() };
        Ok(matches!(frame_body(&frame, &self.marks), Some((Kind::Code, _))))
    }

    /// Compares the length of the code with what was promised, and with what blocks need that only a power cut can have left
    /// without their code.
    ///
    /// # Errors
    /// [`Error::Corrupt`].
    pub(super) fn check_code(&self, path: &Path) -> Result<(), Error> {
        let Promise { code, acked, .. } = self.found_promise;
        let reached = self.next_seq < acked.next_seq && same_boot(&self.found_promise);
        let mut needed = code;
        if let Some(to) = self.without_code
            && (reached || self.is_code_written(to).map_err(at(path))?)
        {
            needed = needed.max(to);
        }
        if self.code_len < needed { Err(self.code_is_damaged(path, needed)) } else { Ok(()) }
    }

    /// Error of a file of code that ends before what blocks need.
    fn code_is_damaged(&self, path: &Path, needed: u64) -> Error {
        let offset = self.code_len;
        corrupt(path, format!("bad row at byte {offset}; blocks need code up to byte {needed}"))
    }

    /// Compares what was found with the promise.
    ///
    /// # Errors
    /// [`Error::Corrupt`].
    pub(super) fn check_promise(&self, dir: &Path) -> Result<(), Error> {
        let Promise { durable, end, first, .. } = self.found_promise;
        let (Some(front), Some(back)) = (self.segments.first(), self.segments.last()) else {
            return Err(corrupt(dir, "all segments are missing".into()));
        };
        if u64::from(front.number) > first {
            return Err(corrupt(dir, format!("segment {first} is missing")));
        }
        let promised = unpack(end);
        if (back.number, back.len) < promised || (back.begun && back.number == promised.0) {
            return Err(corrupt(
                &back.path,
                format!("the log was durable to byte {} of segment {}", promised.1, promised.0),
            ));
        }
        if self.next_seq < durable.next_seq {
            let (found, promised) = (self.next_seq, durable.next_seq);
            return Err(corrupt(dir, format!("the log ends before row {found}, and was durable to row {promised}")));
        }
        Ok(())
    }

    /// Records that all writes so far reached the kernel, or are durable.
    pub(super) fn promise(&mut self, durable: bool) -> Result<(), Error> {
        let reached = Reached { next_seq: self.next_seq, height: self.height };
        let (end, code) = (pack((self.last().number, self.last().len)), self.code_len);
        let promise = self.promise.as_mut().ok_or(Error::ReadOnly)?;
        promise.put(|now| {
            now.acked = reached;
            if durable {
                (now.durable, now.end, now.code) = (reached, end, code);
            }
        })
    }

    /// Appends to the last segment. After a failed append nothing more is written.
    fn put(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let last = self.last();
        let result = self.disk.append(&last.file, &last.path, bytes);
        self.torn = result.is_err();
        result
    }

    pub(super) fn push_buffer(&mut self) -> Result<(), Error> {
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

    pub(super) fn append(&mut self, records: &Records, buffered: bool) -> Result<(), Error> {
        if self.torn {
            return Err(Error::Poisoned);
        }
        if buffered {
            self.buffer.extend_from_slice(&records.bytes);
            if self.buffer.len() >= BUFFER {
                self.push_buffer()?;
            }
        } else {
            self.put(&records.bytes)?;
        }
        if let Some(last) = self.segments.last_mut() {
            last.len += records.bytes.len() as u64;
        }
        Ok(())
    }

    pub(super) fn sync(&mut self) -> Result<(), Error> {
        self.push_buffer()?;
        let last = self.last();
        self.disk.sync(&last.file, &last.path)?;
        self.synced((last.number, last.len));
        Ok(())
    }

    /// Notes that a segment is durable up to an offset, and so may be read past the page cache.
    pub(super) fn synced(&self, (number, offset): At) {
        let first = self.segments[0].number;
        let at = number.checked_sub(first).map(|at| at as usize);
        if let Some(segment) = at.and_then(|at| self.segments.get(at)) {
            segment.readable.durable.fetch_max(offset, Ordering::Release);
        }
    }

    pub(super) fn segment(&self, number: u32) -> Option<&Segment> {
        let first = self.segments.first()?.number;
        self.segments.get(number.checked_sub(first)? as usize)
    }
}
