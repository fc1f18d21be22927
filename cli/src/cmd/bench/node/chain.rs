//! The engine's service with nothing around it: blocks are executed and committed one after the other.

use anyhow::{Context as _, anyhow, ensure};
use phalanx::{
    EngineBuilder, Service, ServiceConfig,
    alloy::{consensus::Header, genesis::Genesis},
    api::{
        BlockEnv, Candidate, CommitMeta, EngineEvent, ExecId, ExecOutcome, ExecutionEngine as _, Failure, Payload,
        Priority, Ticket, TxPolicy,
    },
    chain::ChainSpec,
};

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

    /// Executes and commits a block.
    pub(super) fn add(&mut self, env: BlockEnv, payload: Payload) -> anyhow::Result<ExecOutcome> {
        let height = env.height;
        let candidate = Candidate::new(self.id, self.newest, env, TxPolicy::Strict, payload.into());
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
