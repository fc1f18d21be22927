//! Hand-over of blocks to the node's sink, on a thread of its own: the driver executes the next block meanwhile.
//!
//! ```text
//!  driver ──stage──► writer ─────Written─────► driver ──commit──► writer
//!     └────blocks──► phalanx-sink ──Handed──────┘
//! ```
//!
//! A hand-over begins with the first write of its commit, and the commit waits for both: no block is committed that the sink does
//! not hold.

use super::{
    driver::{Completion, Driver, Order, path},
    failure::failure,
    kept::Handed,
    sink::{BlockSink, SinkBlock},
};
use crate::{model::Error, state::StateDiff};
use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use phalanx_engine_api::{CommittedTip, Failure, RetryCause, desk::Job};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    thread::JoinHandle,
};

/// Task of the sink's thread.
enum Task {
    /// Hands over blocks, oldest first. Each has its values, if the sink needs them.
    Put(u64, Vec<(Handed, Option<StateDiff>)>),
    /// Names the committed tip to the sink, and replies.
    Resume(CommittedTip, Sender<()>),
}

/// Progress of the pending commit's hand-over.
#[derive(Debug)]
enum Handing {
    No,
    Running,
    Done(Result<(), Failure>),
}

/// The sink and its thread, which ends when this is dropped.
pub(super) struct Keeper {
    sink: Arc<dyn BlockSink>,
    tasks: Option<Sender<Task>>,
    thread: Option<JoinHandle<()>>,
    /// Number of the newest hand-over: the result of an earlier one, whose commit has failed, is of no use.
    number: u64,
    handing: Handing,
}

impl Keeper {
    /// Starts the thread of a sink, which reports to the driver.
    pub(super) fn start(sink: Arc<dyn BlockSink>, orders: Sender<Order>) -> Result<Self, Error> {
        // At most one hand-over is in flight that counts, and those of failed commits before it.
        let (tasks, inbox) = unbounded();
        let kept = Arc::clone(&sink);
        let thread = std::thread::Builder::new().name("phalanx-sink".into());
        let thread = thread.spawn(move || keep(&*kept, &inbox, &orders));
        let thread = thread.map_err(|source| Error::Threads { threads: 1, source })?;
        Ok(Self { sink, tasks: Some(tasks), thread: Some(thread), number: 0, handing: Handing::No })
    }

    fn send(&self, task: Task) -> Result<(), Failure> {
        let is_sent = self.tasks.as_ref().is_some_and(|tasks| tasks.send(task).is_ok());
        if is_sent { Ok(()) } else { Err(Failure::Retry(RetryCause::Sink)) }
    }

    /// Forgets the hand-over of a commit that has ended.
    pub(super) fn end(&mut self) {
        self.handing = Handing::No;
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.tasks = None;
        if let Some(thread) = self.thread.take() {
            // Panics of the sink are caught.
            let _ = thread.join();
        }
    }
}

/// Works off the tasks of a sink. A sink that panics refuses the block.
fn keep(sink: &dyn BlockSink, inbox: &Receiver<Task>, orders: &Sender<Order>) {
    for task in inbox {
        match task {
            Task::Put(number, blocks) => {
                let is_taken = |(handed, diff)| {
                    matches!(catch_unwind(AssertUnwindSafe(|| put(sink, &handed, diff))), Ok(Some(())))
                };
                let all = blocks.into_iter().all(is_taken);
                let result = if all { Ok(()) } else { Err(Failure::Retry(RetryCause::Sink)) };
                // Without a driver the result has no receiver.
                let _ = orders.send(Order::Handed(number, result));
            }
            Task::Resume(tip, reply) => {
                let _ = catch_unwind(AssertUnwindSafe(|| sink.resumed(&tip)));
                let _ = reply.send(());
            }
        }
    }
}

fn put(sink: &dyn BlockSink, handed: &Handed, diff: Option<StateDiff>) -> Option<()> {
    let Handed { committed, candidate, kept } = handed;
    let (info, outcome, facts) = (kept.info.as_ref()?, kept.outcome.as_ref()?, kept.facts.as_ref()?);
    let (hash, header) = (kept.hash, kept.header.as_deref());
    let (hashes, senders) = (&facts.hashes[..], &facts.senders[..]);
    sink.put(&SinkBlock { committed, candidate, outcome, hash, header, info, hashes, senders, diff }).ok()
}

impl Driver {
    /// Begins the hand-over of the pending commit, unless it has begun.
    pub(super) fn begin_hand_over(&mut self) -> Result<(), Failure> {
        let Some(keeper) = self.keeper.as_mut().filter(|keeper| matches!(keeper.handing, Handing::No)) else {
            return Ok(());
        };
        let (_, steps) = path(&self.shared.desk.lock()).ok_or(Failure::Superseded)?;
        if steps.iter().any(|Handed { kept, .. }| kept.info.is_none() || kept.facts.is_none()) {
            return Err(Failure::Superseded);
        }
        let diff = |handed: &Handed| self.engine.state_diff(handed.kept.view.block()).map_err(|error| failure(&error));
        let needed = keeper.sink.needs_diff();
        let with_diff = |handed: Handed| Ok((needed.then(|| diff(&handed)).transpose()?, handed));
        let steps = steps.into_iter().map(with_diff).map(|step| step.map(|(diff, handed)| (handed, diff)));
        let steps = steps.collect::<Result<Vec<_>, Failure>>()?;
        keeper.number += 1;
        keeper.send(Task::Put(keeper.number, steps))?;
        keeper.handing = Handing::Running;
        self.writing += 1;
        Ok(())
    }

    /// True once the sink holds the blocks of the pending commit.
    ///
    /// # Errors
    /// The sink has refused one of them.
    pub(super) fn is_handed_over(&self) -> Result<bool, Failure> {
        match self.keeper.as_ref().map(|keeper| &keeper.handing) {
            None => Ok(true),
            Some(Handing::Done(result)) => result.clone().map(|()| true),
            Some(Handing::No | Handing::Running) => Ok(false),
        }
    }

    /// Notes the end of a hand-over, and performs the commit that has waited for it.
    pub(super) fn handed(&mut self, number: u64, result: Result<(), Failure>) -> Option<Completion> {
        self.writing -= 1;
        if let Some(keeper) = self.keeper.as_mut().filter(|keeper| keeper.number == number)
            && matches!(keeper.handing, Handing::Running)
        {
            keeper.handing = Handing::Done(result);
        }
        let job: Job = self.waiting.take()?;
        self.perform(job)
    }

    /// Names the committed tip to the sink, once it has all that was handed over before.
    pub(super) fn tell_sink(&self) {
        let Some(keeper) = &self.keeper else { return };
        let tip = self.shared.desk.lock().rows().tip().committed.clone();
        let (reply, done) = bounded(1);
        if keeper.send(Task::Resume(tip, reply)).is_ok() {
            let _ = done.recv();
        }
    }
}
