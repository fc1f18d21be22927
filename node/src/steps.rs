//! Steps of one block through the service: submitted, executed, committed. A thread that makes blocks takes them.

use crate::{chain::Chain, error::NodeError, metrics::Metrics, remote::Remote, store::Head};
use crossbeam_channel::{Receiver, bounded};
use phalanx::{
    alloy::{
        consensus::Header,
        primitives::{B256, Bytes},
    },
    api::{
        BlockEnv, BlockId, Build as _, BuildRequest, BuiltCandidate, Candidate, CommitMeta, EngineEvent, ExecId,
        ExecOutcome, ExecutionEngine as _, Failure, Priority, Ticket, ViewAt, Waker,
    },
    pool::Pool,
};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// Maximum time that a block is built for. A full one takes a part of a second.
const FULL: Duration = Duration::from_secs(60);

/// Reason for which a block was not made.
#[derive(Debug)]
pub(crate) enum Missed {
    /// Another try may succeed.
    Passing(String),
    /// The chain does not have the block.
    Invalid(Failure),
    Final(NodeError),
}

impl From<Failure> for Missed {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Fatal(_) => Self::Final(NodeError::Stopped(failure)),
            Failure::Invalid(_) => Self::Invalid(failure),
            other => Self::Passing(other.to_string()),
        }
    }
}

/// An executed block that is being committed, and is not visible yet.
#[derive(Debug)]
pub(crate) struct Landing {
    /// Head of the block, for its child. Lists of the block are left out.
    pub(crate) head: Arc<Head>,
    /// Number of its transactions.
    pub(crate) txs: usize,
    /// Time at which it was begun.
    pub(crate) begun: Instant,
}

impl Landing {
    /// Begins to commit an executed block.
    pub(crate) fn begin(
        steps: &mut Steps,
        id: ExecId,
        env: &BlockEnv,
        (txs, attributes): (usize, Bytes),
        begun: Instant,
    ) -> Result<Self, Missed> {
        let (at, service) = (ViewAt::Exec(id), &steps.chain.service);
        let (hash, header): (B256, _) = (service.block_hash(at)?, service.header(at)?);
        let header = header.ok_or_else(|| Missed::Passing("the block has no header".into()))?;
        steps.begin_commit(id, env.height)?;
        let head = Head {
            hash,
            exec: id.0,
            header: Header::clone(&header),
            timestamp_ms: env.timestamp_ms,
            attributes,
            access_list: Bytes::new(),
            skipped: Vec::new(),
        };
        Ok(Self { head: Arc::new(head), txs, begun })
    }

    /// Waits until the block is committed, and makes it visible.
    pub(crate) fn end(self, steps: &mut Steps, metrics: &Metrics) -> Result<(), Missed> {
        let (height, txs) = (self.head.header.number, self.txs as u64);
        steps.end_commit()?;
        steps.chain.publish(height).map_err(|error| Missed::Final(error.into()))?;
        metrics.block(height, txs);
        metrics.block_seconds.observe(self.begun.elapsed().as_secs_f64());
        tracing::info!(height, txs, ms = self.begun.elapsed().as_millis() as u64, "block");
        Ok(())
    }
}

/// The service for a single thread that commits blocks. It takes all its events.
#[derive(Debug)]
pub(crate) struct Steps {
    chain: Arc<Chain>,
    woken: Receiver<()>,
    ticket: u64,
    /// The commit in flight, and its result once that is there.
    commit: Option<(Ticket, Option<Result<(), Failure>>)>,
}

impl Steps {
    pub(crate) fn new(chain: Arc<Chain>) -> Self {
        let (wake, woken) = bounded(1);
        chain.service.set_waker(Waker::new(move || _ = wake.try_send(())));
        Self { chain, woken, ticket: 0, commit: None }
    }

    const fn next(&mut self) -> Ticket {
        self.ticket += 1;
        Ticket(self.ticket)
    }

    /// Drops what an earlier try has left.
    pub(crate) fn clear(&mut self) -> Result<(), Missed> {
        self.keep_only(&[])
    }

    /// Drops all blocks that are not committed, but these and their ancestors.
    pub(crate) fn keep_only(&mut self, leaves: &[ExecId]) -> Result<(), Missed> {
        let ticket = self.next();
        Ok(self.chain.service.keep_only(ticket, leaves)?)
    }

    /// Writes an executed block to the disk, where no reader sees it. Nothing waits for it: a commit writes what is not there yet.
    pub(crate) fn stage(&mut self, id: ExecId) {
        let ticket = self.next();
        if let Err(failure) = self.chain.service.stage(ticket, id) {
            tracing::debug!(%failure, "a block is not written before its commit");
        }
    }

    /// Builds a block from the pool.
    pub(crate) fn build(&self, request: BuildRequest) -> Result<BuiltCandidate, Missed> {
        let failures = |remote: &Option<Remote>| remote.as_ref().map_or(0, Remote::failures);
        let before = failures(&self.chain.remote);
        let job = self.chain.service.build(request)?;
        // The pool is exhausted, or the block is full: the gas limit bounds the wait.
        job.wait(FULL);
        let built = job.finish()?;
        // A build that fails gives its best block so far, which has nothing of what could not be read.
        let is_empty = built.candidate.payload().txs().is_empty();
        if is_empty && failures(&self.chain.remote) > before && self.chain.service.with_pool(Pool::has_ready) {
            let said = self.chain.remote.as_ref().and_then(Remote::last_failure);
            return Err(Missed::Passing(said.unwrap_or_default()));
        }
        Ok(built)
    }

    /// Executes a block.
    pub(crate) fn submit(&mut self, candidate: Candidate, priority: Priority) -> Result<ExecOutcome, Missed> {
        let asked = self.next();
        self.chain.service.submit(asked, candidate, priority)?;
        self.wait(asked, |event| match event {
            EngineEvent::Rooted { ticket, outcome } if *ticket == asked => Some(outcome.clone()),
            _ => None,
        })
    }

    /// Commits executed blocks that follow each other, oldest first, of which the last is at `height`.
    pub(crate) fn commit_path(&mut self, path: &[ExecId], height: u64) -> Result<(), Missed> {
        self.begin_path(path, height)?;
        self.end_commit()
    }

    /// Begins to commit an executed block. Blocks may be built and executed on it meanwhile.
    pub(crate) fn begin_commit(&mut self, id: ExecId, height: u64) -> Result<(), Missed> {
        self.begin_path(&[id], height)
    }

    fn begin_path(&mut self, path: &[ExecId], height: u64) -> Result<(), Missed> {
        let Some((&id, ancestors)) = path.split_last() else { return Ok(()) };
        let asked = self.next();
        let ancestors = ancestors.iter().map(|id| BlockId(id.0)).collect();
        let meta = CommitMeta { block: BlockId(id.0), ancestors, cursor: height, ..CommitMeta::default() };
        self.chain.service.commit(asked, id, meta)?;
        self.commit = Some((asked, None));
        Ok(())
    }

    /// Waits until the block is committed that [`Self::begin_commit`] has named; at once if there is none.
    pub(crate) fn end_commit(&mut self) -> Result<(), Missed> {
        while let Some((_, result)) = &mut self.commit {
            if let Some(result) = result.take() {
                self.commit = None;
                return Ok(result?);
            }
            drop(self.events()?);
        }
        Ok(())
    }

    /// Goes back to a committed block, within the history.
    pub(crate) fn rewind(&mut self, to: ExecId) -> Result<(), Missed> {
        let asked = self.next();
        Ok(self.chain.service.rewind(asked, to)?)
    }

    /// Waits for an event, or the failure of a request. The engine completes or fails every request.
    fn wait<T>(&mut self, asked: Ticket, take: impl Fn(&EngineEvent) -> Option<T>) -> Result<T, Missed> {
        loop {
            for event in self.events()? {
                if let Some(done) = take(&event) {
                    return Ok(done);
                }
                if let EngineEvent::Failed { ticket, why, .. } = event
                    && ticket == asked
                {
                    return Err(why.into());
                }
            }
        }
    }

    /// Waits for events, and notes the end of the commit in flight.
    ///
    /// # Errors
    /// The engine has ended.
    fn events(&mut self) -> Result<Vec<EngineEvent>, Missed> {
        let mut events = Vec::new();
        while self.chain.service.poll(64, &mut events) == 0 {
            self.woken.recv().map_err(|_| Missed::Passing("the engine has gone".into()))?;
        }
        for event in &events {
            let (done, result) = match event {
                EngineEvent::Committed { ticket, .. } => (ticket, Ok(())),
                EngineEvent::Failed { why: why @ Failure::Fatal(_), .. } => return Err(why.clone().into()),
                EngineEvent::Failed { ticket, why, .. } => (ticket, Err(why.clone())),
                _ => continue,
            };
            if let Some((asked, open @ None)) = &mut self.commit
                && asked == done
            {
                *open = Some(result);
            }
        }
        Ok(events)
    }
}
