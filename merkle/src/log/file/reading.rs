//! Reads extents of a file log: on a ring where there is one.

use std::sync::Arc;

use super::{
    file_log::FileLog,
    read::{FIRST, Job, Target, direct, windows},
    segment::corrupt,
    state::unpack,
};
use crate::{
    log::backend::{Spot, VisitMany},
    log::disk::at,
    log::frames::read_frame,
    log::record::{FRAME_HEADER, Kind, frame_body, frame_header},
    types::{Error, Step},
};

impl FileLog {
    /// Hands extents to `visit`, in any order.
    ///
    /// # Errors
    /// [`Error::Corrupt`], [`Error::Io`].
    pub(super) fn read_extents(&self, spots: &[Spot], visit: VisitMany<'_>) -> Result<(), Error> {
        let targets = self.targets(spots)?;
        self.reads.asked(spots.len());
        if !self.rings.are_there() {
            return self.read_in_turn(spots, &targets, visit);
        }
        let windows = windows(spots, &targets);
        for window in &windows {
            self.disk.ask(Step::Read(&targets[window.target].path))?;
        }
        let job = Job { windows: &windows, targets: &targets, disk: &self.disk, counts: &self.reads };
        let mut frame = Vec::new();
        let on_ring = self.rings.read(&job, &mut |window, bytes| {
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
        if on_ring { Ok(()) } else { self.read_in_turn(spots, &targets, visit) }
    }

    /// Files of spots, each once, in the order of the spots. The lock is released then, so that many threads read at a time.
    fn targets(&self, spots: &[Spot]) -> Result<Vec<Target>, Error> {
        let past_cache = self.rings.bypass_page_cache();
        let mut targets: Vec<Target> = Vec::new();
        let mut state = self.state();
        state.push_buffer()?;
        for spot in spots {
            let (number, _) = unpack(spot.place);
            if targets.last().is_some_and(|last| last.number == number) {
                continue;
            }
            let Some(segment) = state.segment(number) else {
                return Err(corrupt(self.dir(), format!("segment {number} is missing")));
            };
            let opened = past_cache.then(|| segment.direct.get_or_init(|| direct(&segment.path)).as_ref()).flatten();
            let file = Arc::clone(opened.unwrap_or(&segment.file));
            targets.push(Target { number, file, cached: Arc::clone(&segment.file), path: segment.path.clone() });
        }
        Ok(targets)
    }

    /// Reads extents one after the other.
    fn read_in_turn(&self, spots: &[Spot], targets: &[Target], visit: VisitMany<'_>) -> Result<(), Error> {
        let (mut frame, mut target) = (Vec::new(), 0);
        for (at, spot) in spots.iter().enumerate() {
            while targets[target].number != unpack(spot.place).0 {
                target += 1;
            }
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
