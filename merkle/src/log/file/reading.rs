//! Reads extents of a file log: on a ring where there is one.

use std::sync::{Arc, PoisonError, atomic::Ordering};

use super::{
    file_log::FileLog,
    read::{FIRST, windows},
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
        let windows = windows(spots, targets, self.rings.unit());
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

    /// Files of spots, which ascend, each once. Waits for no write, except for those that `Durability::None` holds back.
    pub(super) fn targets(&self, spots: &[Spot]) -> Result<Vec<Target>, Error> {
        self.push_buffer()?;
        let readable = self.readable.read().unwrap_or_else(PoisonError::into_inner);
        let first = readable.front().map_or(0, |segment| segment.number);
        let mut targets: Vec<Target> = Vec::new();
        for spot in spots {
            let (number, _) = unpack(spot.place);
            if targets.last().is_some_and(|last| last.number == number) {
                continue;
            }
            let segment = number.checked_sub(first).and_then(|at| readable.get(at as usize));
            let Some(segment) = segment else {
                return Err(corrupt(self.dir(), format!("segment {number} is missing")));
            };
            // Before it is opened or read: what is durable then stays so.
            let durable = segment.durable.load(Ordering::Acquire);
            let direct = segment.direct.get().cloned().filter(|_| self.rings.bypass_page_cache()).or_else(|| {
                let opened = self.rings.open_direct(&segment.file, &segment.path)?;
                Some(Arc::clone(segment.direct.get_or_init(|| opened)))
            });
            let direct = direct.map(|file| (file, durable));
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
