//! The engine's service with nothing around it: blocks are executed and committed one after the other.

use anyhow::{Context as _, anyhow, ensure};
use phalanx::{
    EngineBuilder, Service, ServiceConfig,
    alloy::{consensus::Header, genesis::Genesis, primitives::Bytes},
    api::{
        BlockBudget, BlockEnv, Build as _, BuildRequest, Candidate, CommitMeta, EngineEvent, ExecId, ExecOutcome,
        ExecutionEngine as _, Failure, Payload, Priority, Ticket, TxPolicy,
    },
    chain::{Attributes, ChainSpec},
    pool::Admission,
};
use std::time::Duration;

/// Maximum time that a block is built for: it ends when the pool is exhausted, or the block full.
const PATIENCE: Duration = Duration::from_secs(60);

/// A chain at its newest block.
#[derive(Debug)]
pub(super) struct Chain {
    service: Service,
    id: u64,
    newest: ExecId,
    events: Vec<EngineEvent>,
}

fn failed(failure: Failure) -> anyhow::Error {
    anyhow!("{failure}")
}

impl Chain {
    /// Begins a chain, and gives the header of its genesis.
    pub(super) fn begin(genesis: &Genesis, spec: &ChainSpec, builder: EngineBuilder) -> anyhow::Result<(Self, Header)> {
        let mut engine = builder.with_chain(spec.clone()).build()?;
        let header = engine.begin(genesis)?;
        let service = Service::open(engine, ServiceConfig::default())?;
        Ok((Self { service, id: spec.chain_id(), newest: ExecId::GENESIS, events: Vec::new() }, header))
    }

    /// Environment of the next block.
    pub(super) fn next_env(&self, attributes: &Attributes) -> anyhow::Result<BlockEnv> {
        self.service.next_env(self.newest, attributes).map_err(failed)
    }

    /// Executes and commits a block.
    pub(super) fn add(&mut self, env: BlockEnv, payload: Payload) -> anyhow::Result<ExecOutcome> {
        self.commit(Candidate::new(self.id, self.newest, env, TxPolicy::Strict, payload.into()))
    }

    /// Offers transactions to the pool, and commits a block that is built from it. Returns the number of the block's transactions.
    pub(super) fn build(&mut self, env: BlockEnv, txs: &[Bytes]) -> anyhow::Result<usize> {
        for admission in self.service.send_all(txs).map_err(failed)? {
            let admission = admission?;
            ensure!(matches!(admission, Admission::Admitted { .. }), "the pool refuses a transaction: {admission:?}");
        }
        let (budget, parent) = (BlockBudget::UNLIMITED, self.newest);
        let request = BuildRequest { parent, env, budget, forced: Vec::new(), attributes: Bytes::new() };
        let job = self.service.build(request).map_err(failed)?;
        job.wait(PATIENCE);
        let built = job.finish().map_err(failed)?;
        Ok(self.commit(built.candidate)?.txs.len())
    }

    fn commit(&mut self, candidate: Candidate) -> anyhow::Result<ExecOutcome> {
        let height = candidate.env().height;
        self.newest = candidate.id();
        self.service.submit(Ticket(2 * height), candidate, Priority::Decided).map_err(failed)?;
        let meta = CommitMeta { cursor: height, ..CommitMeta::default() };
        self.service.settle();
        self.service.commit(Ticket(2 * height + 1), self.newest, meta).map_err(failed)?;
        self.service.settle();
        while self.service.poll(64, &mut self.events) > 0 {}
        let outcome = self.events.drain(..).find_map(|event| match event {
            EngineEvent::Rooted { outcome, .. } => Some(outcome),
            _ => None,
        });
        ensure!(self.service.status().committed.height == height, "block {height} is not committed");
        outcome.with_context(|| format!("block {height} has no outcome"))
    }
}
