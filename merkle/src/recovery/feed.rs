//! Reads extents in order on a thread of its own, some batches ahead of their use.

use std::{
    sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel},
    thread::Builder,
};

use crate::{
    log::{BlockRecord, FRAME_HEADER, Kind, Log, at, extent_head},
    types::Error,
};

/// Positions after which a batch ends.
const BATCH: u64 = 1 << 16;

/// Bytes after which a batch ends: a few entries can be long.
const BYTES: usize = 32 << 20;

/// Batches that are read ahead. With the batch being read and the one in use they take about 30 MiB.
const BATCHES_AHEAD: usize = 2;

/// Extents of consecutive blocks.
#[derive(Debug, Default)]
pub(super) struct Batch {
    bytes: Vec<u8>,
    pub(super) parts: Vec<Part>,
    positions: u64,
}

#[derive(Debug)]
pub(super) enum Part {
    Extent(Extent),
    /// Marks the end of a block's extents.
    End,
}

/// Extent in a batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    pub(super) kind: Kind,
    start: usize,
    end: usize,
    /// Place in the log, if wanted.
    pub(super) place: Option<u64>,
}

impl Batch {
    pub(super) fn body(&self, extent: &Extent) -> &[u8] {
        &self.bytes[extent.start..extent.end]
    }

    pub(super) fn extents(&self) -> impl Iterator<Item = &Extent> {
        self.parts.iter().filter_map(|part| match part {
            Part::Extent(extent) => Some(extent),
            Part::End => None,
        })
    }

    /// Empties the batch and keeps its memory.
    fn cleared(mut self) -> Self {
        self.bytes.clear();
        self.parts.clear();
        Self { positions: 0, ..self }
    }

    const fn is_full(&self) -> bool {
        self.positions >= BATCH || self.bytes.len() >= BYTES
    }

    /// Reads a block into this batch, and hands the batch to `full` when it is full. Returns false as soon as `full`
    /// does.
    fn read(
        &mut self,
        log: &dyn Log,
        record: &BlockRecord,
        places: bool,
        full: &mut dyn FnMut(&mut Self) -> bool,
    ) -> Result<bool, Error> {
        let (begin, mut offset, mut index) = (if places { log.begin(record.id) } else { None }, 0, 0);
        let mut goes_on = true;
        log.extents(record.id, None, &mut |kind, body| {
            let start = self.bytes.len();
            self.bytes.extend_from_slice(body);
            let place = begin.map(|begin| begin.place(offset, index));
            self.parts.push(Part::Extent(Extent { kind, start, end: self.bytes.len(), place }));
            self.positions += extent_head(body).map_or(1, |(head, _)| u64::from(head.entries).max(1));
            offset += (FRAME_HEADER + body.len()) as u64;
            index += 1;
            goes_on = !self.is_full() || full(self);
            Ok(goes_on)
        })?;
        self.parts.push(Part::End);
        Ok(goes_on)
    }
}

/// Reads one block into a batch of its own.
///
/// # Errors
/// Errors of the log.
pub(super) fn whole(log: &dyn Log, record: &BlockRecord, places: bool) -> Result<Batch, Error> {
    let mut batch = Batch::default();
    batch.read(log, record, places, &mut |_| true)?;
    Ok(batch)
}

/// Hands all extents of some blocks to `visit`, which must not use the log. `places` adds their places.
///
/// # Errors
/// Errors of the log, and the first error of `visit`.
pub(super) fn feed(
    log: &dyn Log,
    records: &[BlockRecord],
    places: bool,
    mut visit: impl FnMut(&Batch) -> Result<(), Error>,
) -> Result<(), Error> {
    if records.is_empty() {
        return Ok(());
    }
    std::thread::scope(|scope| {
        let (to, batches): (SyncSender<Batch>, Receiver<Batch>) = sync_channel(BATCHES_AHEAD);
        // Batches come back for reuse: new pages for all that is read take longer than reading it.
        let (back, used): (Sender<Batch>, Receiver<Batch>) = channel();
        let read = move || -> Result<(), Error> {
            let mut batch = Batch::default();
            let mut send = |batch: &mut Batch| {
                let next = used.try_recv().map(Batch::cleared).unwrap_or_default();
                to.send(std::mem::replace(batch, next)).is_ok()
            };
            // A closed channel means that the user failed, and reports it.
            for record in records {
                if !batch.read(log, record, places, &mut send)? {
                    return Ok(());
                }
            }
            let _ = to.send(batch);
            Ok(())
        };
        let reader = Builder::new().name("phalanx-replay".into()).spawn_scoped(scope, read).map_err(at(&log.path()))?;
        let seen = batches.iter().try_for_each(|batch| {
            visit(&batch)?;
            // At the end no thread takes it back.
            let _ = back.send(batch);
            Ok(())
        });
        drop(batches);
        let read = reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        seen.and(read)
    })
}
