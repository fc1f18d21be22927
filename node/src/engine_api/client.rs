//! The thread that carries out the orders of a consensus client, one after the other.

use super::{
    fault::Fault,
    handle::{Handle, Order, Reply},
    jobs::{Jobs, Shape},
    journal::Journal,
    marks::{Mark, Marks},
    sidecars::Sidecars,
    tree::Tree,
};
use crate::{
    chain::Chain,
    error::NodeError,
    metrics::Metrics,
    steps::{Missed, Steps},
    store::StoreError,
};
use crossbeam_channel::{Receiver, after, never};
use phalanx::api::Failure;
use std::{path::PathBuf, sync::Arc, time::Duration};

/// Interval at which a block that is built is looked at.
const TICK: Duration = Duration::from_millis(50);

/// Reason for which an order is not carried out.
#[derive(Debug)]
pub(super) enum Stop {
    /// The client gets an error, and the next order may succeed.
    Fault(Fault),
    /// The node cannot go on.
    Final(NodeError),
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<NodeError> for Stop {
    fn from(error: NodeError) -> Self {
        Self::Final(error)
    }
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Self {
        Self::Fault(Fault::Server(error.to_string()))
    }
}

impl From<Missed> for Stop {
    fn from(missed: Missed) -> Self {
        match missed {
            Missed::Final(error) => Self::Final(error),
            Missed::Invalid(failure) => Self::Fault(Fault::Server(failure.to_string())),
            Missed::Passing(why) => Self::Fault(Fault::Server(why)),
        }
    }
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Missed::from(failure).into()
    }
}

/// Receiver of a consensus client's orders, before its thread starts.
#[derive(Debug)]
pub(crate) struct Client {
    pub(super) chain: Arc<Chain>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) steps: Steps,
    pub(super) tree: Tree,
    pub(super) marks: Marks,
    pub(super) jobs: Jobs,
    pub(super) sidecars: Sidecars,
    pub(super) folder: PathBuf,
    pub(super) journal: Journal,
    orders: Receiver<Order>,
    /// Closed when the node stops.
    stop: Receiver<()>,
}

impl Client {
    /// Creates the receiver, which ends when the other side of `stop` is dropped.
    ///
    /// # Errors
    /// The marks or the payloads of an earlier run cannot be read.
    pub(crate) fn new(
        chain: Arc<Chain>,
        metrics: Arc<Metrics>,
        shape: Shape,
        folder: PathBuf,
        stop: Receiver<()>,
    ) -> Result<(Self, Handle), NodeError> {
        let (handle, orders) = Handle::new();
        let is_there = |mark: &Mark| matches!(chain.head_at(mark.number), Ok(Some(head)) if head.hash == mark.hash);
        let marks = Marks::read(&folder)?.filter(is_there);
        let steps = Steps::new(Arc::clone(&chain));
        let jobs = Jobs::new(handle.clone(), shape);
        let (journal, held) = Journal::open(&folder)?;
        let (tree, sidecars) = (Tree::default(), Sidecars::default());
        let mut client = Self { chain, metrics, steps, tree, marks, jobs, sidecars, folder, journal, orders, stop };
        for block in held {
            // An earlier run has committed some, and has not removed their files.
            match client.chain.height_of(&block.hash)? {
                Some(_) => client.journal.remove(&block.hash),
                None => client.tree.hold(block, None),
            }
        }
        client.tree.remove_up_to(client.marks.floor());
        client.show_marks().map_err(NodeError::Stopped)?;
        client.sweep();
        Ok((client, handle))
    }

    /// Carries out orders until the node stops.
    ///
    /// # Errors
    /// If the engine has ended.
    pub(crate) fn run(mut self) -> Result<(), NodeError> {
        loop {
            let tick = if self.jobs.is_building() { after(TICK) } else { never() };
            let order = crossbeam_channel::select_biased! {
                recv(self.stop) -> _ => return Ok(()),
                recv(self.orders) -> order => order,
                recv(tick) -> _ => {
                    self.improve();
                    continue;
                }
            };
            match order {
                Ok(Order::Take(block)) => {
                    let (hash, handle) = (block.hash, self.jobs.handle.clone());
                    answer(self.take(*block), |verdict| handle.judged(&hash, &verdict))?;
                }
                Ok(Order::Choose(state, wanted, reply)) => answer(self.choose(&state, *wanted), to(&reply))?,
                Ok(Order::Fetch(id, reply)) => answer(self.fetch(id), to(&reply))?,
                Err(_) => return Ok(()),
            }
            self.sweep();
        }
    }

    /// Removes payloads where there are too many, and the files of those that are no longer held. They come after the answer: one too many does no harm.
    fn sweep(&mut self) {
        self.tree.trim();
        self.tree.take_gone().iter().for_each(|hash| self.journal.remove(hash));
    }
}

impl Drop for Client {
    /// Ends the waiting of all callers, also after a panic. In this order: what comes in between finds the line closed.
    fn drop(&mut self) {
        drop(core::mem::replace(&mut self.orders, never()));
        self.jobs.handle.end();
    }
}

/// Way to the caller of an order.
fn to<T>(reply: &Reply<T>) -> impl FnOnce(Result<T, Fault>) {
    // An error means that the client has stopped waiting.
    |said| _ = reply.send(said)
}

/// Answers an order. An error ends the thread.
fn answer<T>(done: Result<T, Stop>, tell: impl FnOnce(Result<T, Fault>)) -> Result<(), NodeError> {
    let (said, ended) = match done {
        Ok(done) => (Ok(done), Ok(())),
        Err(Stop::Fault(fault)) => (Err(fault), Ok(())),
        Err(Stop::Final(error)) => (Err(Fault::Server(error.to_string())), Err(error)),
    };
    tell(said);
    ended
}
