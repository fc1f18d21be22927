//! The index of a log of files, which a checkpoint keeps: opening then reads only what follows.

use std::{collections::BTreeMap, fs::File, io, sync::Arc};

use super::{
    file_log::FileLog,
    segment::corrupt,
    state::{State, pack, unpack},
};
use crate::{
    log::backend::Log as _,
    log::disk::at,
    log::frames::read_frame,
    log::index::{IndexedBlock, LogIndex},
    log::record::{BlockRecord, Kind, Marks, TipRecord, frame_body},
    types::Error,
};

impl FileLog {
    /// Index of all blocks up to the end of the log.
    pub(super) fn write_note(&self) -> Result<LogIndex, Error> {
        let (found, mut note) = {
            let mut state = self.state();
            state.push_buffer()?;
            let mut found = Vec::with_capacity(state.records.len());
            for (id, place) in &state.records {
                if let (Some(segment), Some((begin, twigs))) = (state.segment(place.0), state.places.get(*id)) {
                    let twigs: Vec<(u64, u64)> = twigs.iter().map(|(twig, at)| (*twig, pack(*at))).collect();
                    found.push((Arc::clone(&segment.file), *place, pack(begin), twigs));
                }
            }
            let end = pack((state.last().number, state.last().len));
            let (next_seq, next_extent) = (state.next_seq, state.next_extent);
            let (tip, tip_place) = (state.tip.unwrap_or(0), pack(state.tip_at));
            (found, LogIndex { blocks: Vec::new(), end, tip, tip_place, next_seq, next_extent })
        };
        // Without the lock: blocks are written meanwhile.
        for (file, place, begin, twigs) in found {
            let record = record_at(&file, place.1, self.marks()).map_err(at(&self.path()))?;
            let record = record.ok_or_else(|| corrupt(&self.path(), format!("no valid row at byte {}", place.1)))?;
            note.blocks.push(IndexedBlock { record, place: pack(place), begin, twigs });
        }
        note.blocks.sort_unstable_by_key(|block| block.record.id);
        Ok(note)
    }
}

/// Block record at an offset, without its payload.
fn record_at(file: &File, offset: u64, marks: &Marks) -> io::Result<Option<BlockRecord>> {
    let mut frame = Vec::new();
    read_frame(file, offset, u64::MAX, &mut frame)?;
    let body = frame_body(&frame, marks).filter(|(kind, _)| *kind == Kind::Block).map(|(_, body)| body);
    Ok(body
        .and_then(|body| BlockRecord::decode(body, marks))
        .map(|record| BlockRecord { payload: Vec::new(), ..record }))
}

/// Note of the tip that the record at an offset makes, if it makes this block the tip.
fn note_at(file: &File, offset: u64, tip: u64, marks: &Marks) -> io::Result<Option<Vec<u8>>> {
    let mut frame = Vec::new();
    read_frame(file, offset, u64::MAX, &mut frame)?;
    Ok(match frame_body(&frame, marks) {
        Some((Kind::Tip, body)) => {
            TipRecord::decode(body, marks).filter(|record| record.id == tip).map(|record| record.note)
        }
        Some((Kind::Block, body)) => {
            BlockRecord::decode(body, marks).filter(|record| record.committed && record.id == tip).map(|_| Vec::new())
        }
        _ => None,
    })
}

impl State {
    /// Takes over an index for segments that are still there. Returns the segment and offset from which on the log must
    /// be scanned; `None` if the index does not fit.
    pub(super) fn take(&mut self, note: &LogIndex) -> Option<(usize, Option<u64>)> {
        let (number, offset) = unpack(note.end);
        let last = number.checked_sub(self.segments.first()?.number)? as usize;
        let len = self.segments.get(last)?.file.metadata().ok()?.len();
        if len < offset {
            return None;
        }
        // An index of another log names records that are not there. One record binds all blocks below it by their
        // roots.
        let newest = note.blocks.iter().max_by_key(|noted| noted.record.id)?;
        let (at, record) = (unpack(newest.place), &newest.record);
        if record_at(&self.segment(at.0)?.file, at.1, &self.marks).ok()?.as_ref() != Some(record) {
            return None;
        }
        // The tip's note is in no block record, and no later record may bring another.
        let tip_at = unpack(note.tip_place);
        let tip_note = note_at(&self.segment(tip_at.0)?.file, tip_at.1, note.tip, &self.marks).ok()??;
        if note.blocks.iter().any(|noted| unpack(noted.place).0 > number) {
            return None;
        }
        let lens = self.segments[..last].iter().map(|segment| segment.file.metadata().map(|meta| meta.len()));
        let lens = lens.collect::<io::Result<Vec<u64>>>().ok()?;
        // A segment whose last noted record is not there has become shorter: the scan says where.
        let mut ends: BTreeMap<u32, &IndexedBlock> = BTreeMap::new();
        for noted in &note.blocks {
            let end = ends.entry(unpack(noted.place).0).or_insert(noted);
            if noted.place > end.place {
                *end = noted;
            }
        }
        for (number, noted) in ends {
            let Some(segment) = self.segment(number) else { continue };
            let found = record_at(&segment.file, unpack(noted.place).1, &self.marks).ok()?;
            (found.as_ref() == Some(&noted.record)).then_some(())?;
        }
        for (segment, len) in self.segments.iter_mut().zip(lens) {
            segment.len = len;
        }
        for IndexedBlock { record, place, begin, twigs } in &note.blocks {
            let at = unpack(*place);
            let Some(index) = at.0.checked_sub(self.segments[0].number) else { continue };
            let Some(segment) = self.segments.get_mut(index as usize) else { continue };
            segment.last_id = segment.last_id.max(record.id);
            let twigs = twigs.iter().map(|(twig, place)| (*twig, unpack(*place))).collect();
            self.places.insert(record.id, unpack(*begin), twigs);
            self.records.insert(record.id, at);
            self.found.push(record.clone());
        }
        (self.next_seq, self.next_extent) = (note.next_seq, note.next_extent);
        (self.tip, self.tip_at, self.note) = (Some(note.tip), tip_at, tip_note);
        Some((last, Some(offset)))
    }
}
