//! Decides when a checkpoint is due, and writes it on a thread of its own.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    thread::JoinHandle,
};

use phalanx_merkle_proof::{Params, TWIG_LEAVES};

use super::image::{Checkpoint, CheckpointBlock, Image, NAME, NEW_NAME};
use crate::{
    commit::{Core, Pin},
    log::{Disk, Shared},
    state::{State, UnwrittenExtents},
    types::Error,
};

/// Minimum distance of two checkpoints in lengths of a checkpoint: checkpoints add at most a quarter to what is
/// written.
const APART: u64 = 4;

/// Fraction of the distance between checkpoints after which closing the store writes one.
const CLOSING: u64 = 8;

/// Copy of the state, to be written once its block is in the log.
#[derive(Debug)]
struct Due {
    image: Image,
    /// Extents of the last blocks, whose places are not known yet.
    fresh: UnwrittenExtents,
    /// Sequence number of the write that brings the block to the log.
    seq: u64,
    /// Bytes of log before it, as [`Job::total`] counts.
    total: u64,
}

/// Block of a written file, and the bytes of log before it.
#[derive(Clone, Copy, Debug)]
struct Written {
    of: CheckpointBlock,
    total: u64,
}

/// Checkpoints of one store.
#[derive(Debug)]
pub(crate) struct Job {
    /// Directory of the store, if there is one.
    dir: Option<PathBuf>,
    disk: Disk,
    /// Minimum bytes of log between two checkpoints.
    every: u64,
    /// Bytes of log since the checkpoint that the store was opened from, or since it was opened without one.
    total: u64,
    /// Value of `total` at the last copy, and at the checkpoint that has its name.
    copied: u64,
    named: u64,
    /// Length of the last checkpoint.
    length: u64,
    due: Option<Due>,
    /// Thread that writes the new file; returns also its length.
    thread: Option<JoinHandle<Option<(Written, u64)>>>,
    /// Content of the new file.
    written: Option<Written>,
    /// Holds the log that an opening from the named checkpoint reads.
    pin: Option<Arc<Pin>>,
}

impl Job {
    /// Checkpoints of a store that was opened from one of this length with so many bytes of log behind it, or without one.
    pub(crate) const fn new(dir: Option<PathBuf>, every: u64, (length, behind): (u64, u64), disk: Disk) -> Self {
        let (copied, named, due, thread, written, pin) = (0, 0, None, None, None, None);
        Self { dir, disk, every, total: behind, copied, named, length, due, thread, written, pin }
    }

    /// Holds the log that a checkpoint needs, until another one has its name.
    pub(crate) fn hold(&mut self, pin: Arc<Pin>) {
        self.pin = Some(pin);
    }

    /// Bytes of log between two checkpoints.
    fn distance(&self) -> u64 {
        self.every.max(APART * self.length)
    }

    /// Counts an applied block of this many bytes of log. Copies the state if a checkpoint is due, writes the copy if
    /// its block is in the log, and renames the file if enough blocks follow.
    pub(crate) fn applied(&mut self, core: &Core, seq: u64, bytes: u64) {
        self.total += bytes;
        if self.thread.as_ref().is_some_and(JoinHandle::is_finished) {
            self.join();
        }
        self.publish(core);
        if let Some(due) = self.due.take_if(|due| due.seq < core.shared.next_seq()) {
            self.start(due, core);
        }
        let busy = self.thread.is_some() || self.written.is_some() || self.due.is_some();
        if !busy && self.dir.is_some() && self.every > 0 && self.total - self.copied >= self.distance() {
            self.copied = self.total;
            self.due = copy(core, seq, self.total);
        }
    }

    /// Waits for the thread, and renames the file if enough blocks follow.
    pub(crate) fn finish(&mut self, core: &Core) {
        self.join();
        self.publish(core);
    }

    /// Writes a last checkpoint of a store without readers, if that makes opening it much shorter.
    ///
    /// The checkpoint is of the last block that cannot be rewound; the blocks above it are rolled back in memory.
    pub(crate) fn close(&mut self, core: &mut Core) {
        self.finish(core);
        let Some(dir) = self.dir.clone().filter(|_| self.every > 0) else { return };
        let is_whole = core.shared.check().is_ok() && core.written_blocks() == core.chain.len();
        let is_long = self.total - self.named > self.distance() / CLOSING;
        if !is_whole || !is_long || core.history.len() < core.window || core.chain.len() <= core.window {
            return;
        }
        (0..core.window).for_each(|_| core.roll_back_image());
        let Some(due) = copy(core, 0, self.total) else { return };
        if write(&self.disk, &dir, due, core.params, &core.shared).is_ok() {
            self.name();
        }
    }

    /// Drops a copy that is not written yet: its block may be gone.
    pub(crate) fn forget(&mut self) {
        self.due = None;
    }

    /// Writes a copy on a thread of its own. A failure only delays the next checkpoint.
    fn start(&mut self, due: Due, core: &Core) {
        let Some(dir) = self.dir.clone() else { return };
        let (params, shared, disk) = (core.params, Arc::clone(&core.shared), self.disk.clone());
        let thread_start = core.thread_start.clone();
        let work = move || {
            thread_start.call();
            write(&disk, &dir, due, params, &shared).ok()
        };
        self.thread = std::thread::Builder::new().name("phalanx-checkpoint".into()).spawn(work).ok();
    }

    /// Renames the new file if enough blocks follow.
    fn publish(&mut self, core: &Core) {
        let Some(Written { of, total }) = self.written else { return };
        let written = core.written_blocks();
        match core.chain.iter().position(|block| block.id == of.id) {
            Some(at) if at + core.window < written => {}
            // Too few blocks follow yet.
            Some(_) => return,
            None => {
                self.written = None;
                return;
            }
        }
        (self.written, self.named) = (None, total);
        self.name();
        self.hold(core.pins.pin(of.shape.first_twig() * TWIG_LEAVES as u64));
    }

    /// Renames the new file; without the name it counts for nothing.
    fn name(&self) {
        if let Some(dir) = &self.dir {
            let named = self.disk.rename(&dir.join(NEW_NAME), &dir.join(NAME));
            let _ = named.and_then(|()| self.disk.sync_names(dir));
        }
    }

    fn join(&mut self) {
        let outcome = self.thread.take().map(JoinHandle::join);
        if let Some(Ok(Some((written, bytes)))) = outcome {
            (self.written, self.length) = (Some(written), bytes);
        }
    }
}

fn copy(core: &Core, seq: u64, total: u64) -> Option<Due> {
    let tip = core.chain.back()?;
    let of = CheckpointBlock { id: tip.id, height: tip.height, root: tip.root, shape: tip.shape };
    let (index, fresh) = match &core.state {
        State::Resident(_) => (None, UnwrittenExtents::default()),
        State::Paged(paged) => (Some((paged.keys.clone(), paged.extents.clone())), paged.unwritten_extents()),
    };
    Some(Due { image: Image { of, tree: core.tree.image(), index }, fresh, seq, total })
}

fn write(disk: &Disk, dir: &Path, due: Due, params: Params, shared: &Shared) -> Result<(Written, u64), Error> {
    let log = &*shared.log;
    let Due { mut image, fresh, total, .. } = due;
    if let Some((_, extents)) = &mut image.index {
        fresh.settle(log, extents);
    }
    let (of, note) = (image.of, log.note()?);
    // The blocks below a checkpoint must be durable before it. The system reports a failed sync only once: a later sync
    // would take lost data for durable.
    log.settle().inspect_err(|_| shared.poison())?;
    let bytes = super::file::write(disk, &dir.join(NEW_NAME), &Checkpoint { params, image, note }, log.marks())?;
    Ok((Written { of, total }, bytes))
}
