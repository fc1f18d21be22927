//! Reads extents of a file log: on a ring where there is one.

use std::sync::Arc;

use super::{
    file_log::FileLog,
    read::{FIRST, direct, windows},
    segment::corrupt,
    state::unpack,
};
use crate::{
    log::backend::{Spot, Target, VisitMany},
    log::disk::at,
    log::frames::read_frame,
    log::record::{FRAME_HEADER, Kind, frame_body, frame_header},
    types::{Error, Step},
};

impl FileLog {
    /// Hands extents to `visit`, in any order; returns false, and has read nothing, if there is no ring for them now.
    ///
    /// # Errors
    /// [`Error::Corrupt`], [`Error::Io`].
    pub(super) fn read_on_ring(&self, spots: &[Spot], targets: &[Target], visit: VisitMany<'_>) -> Result<bool, Error> {
        let windows = windows(spots, targets);
        for window in &windows {
            self.disk.ask(Step::Read(&targets[window.target].path))?;
        }
        let mut frame = Vec::new();
        let on_ring = self.rings.read(&windows, targets, (&self.disk, &self.reads), &mut |window, bytes| {
            let window = &windows[window];
            for (at, spot) in spots.iter().enumerate().take(window.end).skip(window.first) {
                let (_, offset) = unpack(spot.place);
                let begun = bytes.get((offset - window.begin) as usize..).unwrap_or_default();
                let len = begun.first_chunk().and_then(frame_header).map_or(0, |(_, len)| FRAME_HEADER + len);
                let body = begun.get(..len).and_then(|frame| frame_body(frame, &self.marks));
                match body.filter(|(kind, _)| kind.is_extent()) {
                    Some((kind, body)) => visit(at, kind, body),
                    // It is longer than its window, or damaged.
                    None => self.read_one(&targets[window.target], *spot, &mut frame, &mut |kind, body| {
                        visit(at, kind, body);
                    })?,
                }
            }
            Ok(())
        })?;
        if on_ring {
            self.reads.asked(spots.len());
        }
        Ok(on_ring)
    }

    /// Files of spots, which ascend, each once. The lock is released then, so that many threads read at a time, and no write waits
    /// for a read.
    pub(super) fn targets(&self, spots: &[Spot]) -> Result<Vec<Target>, Error> {
        let past_cache = self.rings.bypass_page_cache();
        let mut targets: Vec<Target> = Vec::new();
        let mut state = self.state();
        state.push_buffer()?;
        let last = state.last().number;
        for spot in spots {
            let (number, _) = unpack(spot.place);
            if targets.last().is_some_and(|last| last.number == number) {
                continue;
            }
            let Some(segment) = state.segment(number) else {
                return Err(corrupt(self.dir(), format!("segment {number} is missing")));
            };
            let open = || segment.direct.get_or_init(|| direct(&segment.file, &segment.path)).as_ref();
            let opened = past_cache.then(open).flatten();
            // A segment is durable before the next one begins.
            let durable = if number < last { u64::MAX } else { segment.durable };
            let direct = opened.map(|file| (Arc::clone(file), durable));
            targets.push(Target { number, cached: Arc::clone(&segment.file), direct, path: segment.path.clone() });
        }
        Ok(targets)
    }

    /// Reads extents one after the other.
    ///
    /// # Errors
    /// [`Error::Corrupt`], [`Error::Io`].
    pub(super) fn read_in_turn(&self, spots: &[Spot], targets: &[Target], visit: VisitMany<'_>) -> Result<(), Error> {
        self.reads.asked(spots.len());
        let (mut frame, mut target) = (Vec::new(), 0);
        for (at, spot) in spots.iter().enumerate() {
            target += targets[target..].partition_point(|target| target.number < unpack(spot.place).0);
            self.disk.ask(Step::Read(&targets[target].path))?;
            self.read_one(&targets[target], *spot, &mut frame, &mut |kind, body| visit(at, kind, body))?;
        }
        Ok(())
    }

    /// Reads an extent through the page cache.
    fn read_one(
        &self,
        target: &Target,
        spot: Spot,
        frame: &mut Vec<u8>,
        visit: &mut dyn FnMut(Kind, &[u8]),
    ) -> Result<(), Error> {
        let (_, offset) = unpack(spot.place);
        self.reads.began(1);
        let read = read_frame(&target.cached, offset, spot.most.min(FIRST), frame);
        self.reads.ended(1, frame.len());
        read.map_err(at(&target.path))?;
        match frame_body(frame, &self.marks) {
            Some((kind, body)) if kind.is_extent() => {
                visit(kind, body);
                Ok(())
            }
            _ => Err(corrupt(&target.path, format!("no valid row at byte {offset}"))),
        }
    }
}
