//! Serial execution of the agreed order: sequential revm must give every result that the replicas have.

use super::engine;
use alloy_primitives::{B256, Bytes};
use anyhow::{Context as _, bail};
use phalanx::{
    Executor, Service, ServiceConfig,
    api::{
        Candidate, CommitMeta, Engine as _, EngineEvent, ExecId, Outcome, Payload, Priority, Ticket, TxPolicy,
        transaction_hash,
    },
};
use phalanx_lab::error::Different;
use phalanx_net::Notice;
use phalanx_workloads::Native;
use std::collections::HashMap;

/// Executes blocks in order on sequential revm over a store in memory, and compares every result.
pub(crate) fn compare(load: &Native, chain: u64, blocks: &[Notice], txs: &HashMap<B256, Bytes>) -> anyhow::Result<()> {
    let service = Service::open(engine::open(load, None, Executor::Sequential, 1)?, ServiceConfig::default())?;
    let mut parent = ExecId::GENESIS;
    for (height, block) in (1u64..).zip(blocks) {
        if block.height != height {
            return Err(Different(format!("the agreed order lacks height {height}")).into());
        }
        let known = block.txs.iter().map(|hash| txs.get(hash).cloned().ok_or(hash));
        let payload = known.collect::<Result<Vec<Bytes>, _>>().map_err(|hash| {
            Different(format!("height {height}: the replicas committed {hash}, which no client has sent"))
        })?;
        debug_assert!(payload.iter().zip(&block.txs).all(|(tx, hash)| transaction_hash(tx) == *hash));
        let payload = Payload::new(payload).into();
        let candidate = Candidate::new(chain, parent, block.env(), TxPolicy::SkipInvalid, payload);
        parent = candidate.id();
        let outcome = execute(&service, candidate, block)?;
        if outcome.digest() != block.digest() {
            let (serial, theirs) = (outcome.state_root, block.state_root);
            let why =
                format!("height {height}: serial execution has the state root {serial}, the replicas have {theirs}");
            return Err(Different(why).into());
        }
    }
    Ok(())
}

fn execute(service: &Service, candidate: Candidate, block: &Notice) -> anyhow::Result<Outcome> {
    let (id, ticket) = (candidate.id(), Ticket(block.height));
    let fault = || format!("serial execution of height {}", block.height);
    service.submit(ticket, candidate, Priority::Decided).with_context(fault)?;
    service.settle();
    let mut events = Vec::new();
    while service.poll(64, &mut events) > 0 {}
    let outcome = events.iter().find_map(|event| match event {
        EngineEvent::Rooted { outcome, .. } => Some(outcome.clone()),
        _ => None,
    });
    let Some(outcome) = outcome else { bail!("{}: {events:?}", fault()) };
    let meta = CommitMeta { block: block.id(), cursor: block.height, ..CommitMeta::default() };
    service.commit(ticket, id, meta).with_context(fault)?;
    service.settle();
    while service.poll(64, &mut Vec::new()) > 0 {}
    Ok(outcome)
}
