//! The thread that writes committed blocks while the next block executes.

use crate::model::{Error, Observer, Stage, ThreadRole, ThreadStart, observe};
use crossbeam_channel::{Receiver, Sender, bounded};
use phalanx_merkle::Pending;
use std::{sync::Arc, thread::JoinHandle};

/// Maximum number of blocks that wait while another one is written. More would only hide a disk that is too slow.
const QUEUE: usize = 2;

/// A handle on the durability of a block.
#[derive(Debug)]
#[must_use = "a block is durable only once its handle says so"]
pub struct WriteHandle(Receiver<Result<(), Error>>);

impl WriteHandle {
    /// Waits until the block is durable by the store's setting.
    ///
    /// # Errors
    /// Writing failed: the block, and all after it, are lost, and the store must be reopened.
    pub fn wait(self) -> Result<(), Error> {
        self.0.recv().map_err(|_| Error::WriterGone)?
    }
}

/// Callback on the writer's thread with the result of a write. It must be quick.
pub type Done = Box<dyn FnOnce(Result<(), Error>) + Send>;

struct Job {
    pending: Pending,
    done: Done,
}

impl core::fmt::Debug for Job {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Job").field("pending", &self.pending).finish_non_exhaustive()
    }
}

/// The writer. Dropping it writes the queued blocks and joins the thread.
#[derive(Debug)]
pub(crate) struct Persister {
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Persister {
    pub(crate) fn start(observer: Arc<dyn Observer>, thread_start: Option<ThreadStart>) -> std::io::Result<Self> {
        let (jobs, queue) = bounded::<Job>(QUEUE);
        let thread = std::thread::Builder::new().name("phalanx-persist".into()).spawn(move || {
            if let Some(start) = thread_start {
                start(ThreadRole::Writer);
            }
            for Job { pending, done } in queue {
                done(observe(&*observer, Stage::Persist, || pending.write()).map_err(Error::Store));
            }
        })?;
        Ok(Self { jobs: Some(jobs), thread: Some(thread) })
    }

    /// Queues a block; waits while the queue is full.
    pub(crate) fn submit(&self, pending: Pending) -> Result<WriteHandle, Error> {
        let (done, result) = bounded(1);
        // The handle may be dropped; the next block meets the poisoned store.
        self.submit_then(pending, Box::new(move |result| _ = done.send(result)))?;
        Ok(WriteHandle(result))
    }

    /// Queues a block, and calls `done` when it is written; waits while the queue is full.
    pub(crate) fn submit_then(&self, pending: Pending, done: Done) -> Result<(), Error> {
        let jobs = self.jobs.as_ref().ok_or(Error::WriterGone)?;
        jobs.send(Job { pending, done }).map_err(|_| Error::WriterGone)
    }
}

impl Drop for Persister {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the writer has already reached the holders of its handles.
            let _ = thread.join();
        }
    }
}
