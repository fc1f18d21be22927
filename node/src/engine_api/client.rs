//! The thread that carries out the orders of a consensus client: payloads are executed on the chain, or kept beside it.

use super::{
    fault::Fault,
    handle::{Handle, Order, Reply},
    jobs::Jobs,
    marks::{Mark, Marks},
    proposed::Proposed,
    status::Status,
    tree::{Invalid, Tree},
};
use crate::{
    chain::{Chain, Finality},
    error::NodeError,
    metrics::Metrics,
    steps::{Missed, Steps},
    store::StoreError,
};
use alloy_primitives::B256;
use crossbeam_channel::{Receiver, after, never};
use phalanx::api::{Candidate, ExecId, ExecOutcome, ExecutionEngine as _, Failure, Priority, Ticket, ViewAt};
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

/// Result of the execution of a payload on its parent.
#[derive(Debug)]
pub(super) enum Ran {
    Valid(ExecId),
    Invalid(Invalid),
    /// The engine has no room for another block above the committed one.
    Full,
}

/// Facts of a parent that a payload depends on.
#[derive(Clone, Copy, Debug)]
struct Parent {
    /// Name of the execution; `None` for a payload that is not executed.
    exec: Option<ExecId>,
    number: u64,
    timestamp: u64,
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
    pub(super) folder: PathBuf,
    orders: Receiver<Order>,
    /// Closed when the node stops.
    stop: Receiver<()>,
}

impl Client {
    /// Creates the receiver, which ends when the other side of `stop` is dropped. `gas_limit` is that of built blocks whose
    /// attributes have none.
    ///
    /// # Errors
    /// The safe and the finalised block of an earlier run cannot be read.
    pub(crate) fn new(
        chain: Arc<Chain>,
        metrics: Arc<Metrics>,
        gas_limit: Option<u64>,
        folder: PathBuf,
        stop: Receiver<()>,
    ) -> Result<(Self, Handle), NodeError> {
        let (handle, orders) = Handle::new();
        let is_there = |mark: &Mark| matches!(chain.head_at(mark.number), Ok(Some(head)) if head.hash == mark.hash);
        let marks = Marks::read(&folder)?.filter(is_there);
        let steps = Steps::new(Arc::clone(&chain));
        let jobs = Jobs::new(handle.clone(), gas_limit);
        let mut client = Self { chain, metrics, steps, tree: Tree::default(), marks, jobs, folder, orders, stop };
        client.show_marks().map_err(NodeError::Stopped)?;
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
                Ok(Order::Take(block, reply)) => answer(&reply, self.take(*block))?,
                Ok(Order::Choose(state, wanted, reply)) => answer(&reply, self.choose(&state, *wanted))?,
                Ok(Order::Fetch(id, reply)) => answer(&reply, self.fetch(id))?,
                Err(_) => return Ok(()),
            }
        }
    }

    /// Shows the marks to readers, and promises the engine that nothing goes back behind them.
    pub(super) fn show_marks(&mut self) -> Result<(), Failure> {
        let Marks { safe, finalised } = self.marks;
        let finality =
            Finality::Marked { safe: safe.map(|mark| mark.number), finalised: finalised.map(|mark| mark.number) };
        self.chain.mark(finality);
        self.tree.remove_up_to(self.marks.floor());
        self.chain.service.finalise(Ticket::default(), self.marks.floor())
    }

    /// Judges a payload whose hash is that of its header.
    fn take(&mut self, block: Proposed) -> Result<Status, Stop> {
        let hash = block.hash;
        if let Some(invalid) = self.tree.invalid(&hash) {
            return Ok(Status::invalid(invalid));
        }
        let is_valid = self.tree.get(&hash).is_some_and(|held| held.exec.is_some());
        if is_valid || self.chain.height_of(&hash)?.is_some() {
            return Ok(Status::valid(hash));
        }
        let inherited = self.tree.invalid(&block.parent).cloned();
        let invalid = match inherited {
            Some(invalid) => Some(invalid),
            None => match block.broken() {
                Some(why) => {
                    let parent = self.parent(&block.parent)?.and_then(|parent| parent.exec);
                    Some(Invalid { latest_valid: parent.map(|_| block.parent), why: why.to_owned() })
                }
                None => self.misfit(&block)?,
            },
        };
        if let Some(invalid) = invalid {
            self.tree.condemn(hash, &invalid);
            return Ok(Status::invalid(&invalid));
        }
        self.tree.hold(block, None);
        let (path, root) = self.tree.path(hash);
        let Some(below) = self.chain.height_of(&root)? else { return Ok(Status::syncing()) };
        if below < self.chain.height() {
            return Ok(Status::accepted());
        }
        for next in path {
            match self.execute(next)? {
                Ran::Valid(_) => {}
                Ran::Invalid(invalid) => return Ok(Status::invalid(&invalid)),
                Ran::Full => return Ok(Status::syncing()),
            }
        }
        Ok(Status::valid(hash))
    }

    /// Parent of a payload, if it is on the chain or held.
    fn parent(&self, hash: &B256) -> Result<Option<Parent>, Stop> {
        if let Some(held) = self.tree.get(hash) {
            let (number, timestamp) = (held.block.number(), held.block.timestamp());
            return Ok(Some(Parent { exec: held.exec, number, timestamp }));
        }
        let Some(height) = self.chain.height_of(hash)? else { return Ok(None) };
        let head = self.chain.head_at(height)?;
        Ok(head.map(|head| Parent { exec: Some(ExecId(head.exec)), number: height, timestamp: head.header.timestamp }))
    }

    /// The reason for which a payload cannot be a child of its parent, if that is known.
    fn misfit(&self, block: &Proposed) -> Result<Option<Invalid>, Stop> {
        let Some(Parent { exec, number, timestamp }) = self.parent(&block.parent)? else { return Ok(None) };
        let why = if Some(block.number()) != number.checked_add(1) {
            format!("its number is {}, and its parent's is {number}", block.number())
        } else if block.timestamp() <= timestamp {
            format!("its time is {}, and its parent's is {timestamp}", block.timestamp())
        } else {
            return Ok(None);
        };
        Ok(Some(Invalid { latest_valid: exec.map(|_| block.parent), why }))
    }

    /// Executes a held payload on its parent, which is executed, and compares the hash. A valid one goes to the disk at once, where
    /// no reader sees it before it is chosen.
    pub(super) fn execute(&mut self, hash: B256) -> Result<Ran, Stop> {
        let lost = || Fault::Server("the payload is no longer held: send it again".into());
        let block = self.tree.get(&hash).ok_or_else(lost)?.block.clone();
        if let Some(invalid) = self.misfit(&block)? {
            self.tree.condemn(hash, &invalid);
            return Ok(Ran::Invalid(invalid));
        }
        let parent = self.parent(&block.parent)?.and_then(|parent| parent.exec).ok_or_else(lost)?;
        let candidate = block.candidate(self.chain.spec.chain_id(), parent);
        let id = candidate.id();
        let why = match self.submit(candidate) {
            Ok(outcome) => {
                let found = self.chain.service.block_hash(ViewAt::Exec(id))?;
                if found == hash {
                    self.steps.stage(id);
                    self.tree.hold(block, Some(id));
                    return Ok(Ran::Valid(id));
                }
                let ExecOutcome { state_root, receipts_root, gas_used, .. } = outcome;
                format!(
                    "its execution gives block {found}: state root {state_root}, receipts root {receipts_root}, gas {gas_used}"
                )
            }
            Err(Missed::Invalid(failure)) => failure.to_string(),
            Err(Missed::Passing(why)) => {
                tracing::debug!(why, %hash, "the payload is not executed now");
                return Ok(Ran::Full);
            }
            Err(Missed::Final(error)) => return Err(error.into()),
        };
        let invalid = Invalid { latest_valid: Some(block.parent), why };
        self.tree.condemn(hash, &invalid);
        Ok(Ran::Invalid(invalid))
    }

    /// Executes a block. Where the engine has no room, other branches than this one leave it: they are executed again if they are
    /// chosen.
    pub(super) fn submit(&mut self, candidate: Candidate) -> Result<ExecOutcome, Missed> {
        // It may end a builder early, so that the block is built anew.
        self.jobs.ring();
        match self.steps.submit(candidate.clone(), Priority::Speculative) {
            Err(Missed::Passing(_)) => {
                self.steps.keep_only(&[candidate.parent()])?;
                self.steps.submit(candidate, Priority::Speculative)
            }
            done => done,
        }
    }
}

/// Answers an order. An error ends the thread.
fn answer<T>(reply: &Reply<T>, done: Result<T, Stop>) -> Result<(), NodeError> {
    let (said, ended) = match done {
        Ok(done) => (Ok(done), Ok(())),
        Err(Stop::Fault(fault)) => (Err(fault), Ok(())),
        Err(Stop::Final(error)) => (Err(Fault::Server(error.to_string())), Err(error)),
    };
    // An error means that the client has stopped waiting.
    let _ = reply.send(said);
    ended
}
