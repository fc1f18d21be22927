//! Serial execution of the agreed order: sequential revm must give every result that the replicas have.

use super::engine;
use alloy_primitives::{B256, Bytes};
use anyhow::{Context as _, bail};
use phalanx::{
    Executor, Service, ServiceConfig,
    api::{
        Candidate, CommitMeta, EngineEvent, ExecId, ExecOutcome, ExecutionEngine as _, Payload, Priority, Ticket,
        TxPolicy, TxStatus,
    },
};
use phalanx_lab::error::Different;
use phalanx_net::Notice;
use phalanx_workloads::Native;
use std::collections::{HashMap, HashSet};

/// Blocks that are handed in at once, within the limits of an engine.
const CHUNK: usize = 16;

/// Result of a serial execution that agrees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Compared {
    /// Number of blocks.
    pub(crate) executed: u64,
    /// Transactions that no block has executed: each of their places is skipped.
    pub(crate) skipped: u64,
}

/// Executes blocks in order on sequential revm over a store in memory, and compares every result.
pub(crate) fn compare(
    load: &Native,
    chain: u64,
    blocks: &[Notice],
    txs: &HashMap<B256, Bytes>,
) -> anyhow::Result<Compared> {
    let service = Service::open(engine::open(load, None, Executor::Sequential, 1)?, ServiceConfig::default())?;
    let (mut parent, mut executed) = (ExecId::GENESIS, 0);
    let (mut done, mut skipped) = (HashSet::new(), HashSet::new());
    for (first, chunk) in (1u64..).step_by(CHUNK).zip(blocks.chunks(CHUNK)) {
        let mut candidates = Vec::with_capacity(chunk.len());
        for (height, block) in (first..).zip(chunk) {
            if block.height != height {
                return Err(Different(format!("the agreed order lacks height {height}")).into());
            }
            let known = block.txs.iter().map(|hash| txs.get(hash).cloned().ok_or(hash));
            let payload = known.collect::<Result<Vec<Bytes>, _>>().map_err(|hash| {
                Different(format!("height {height}: the replicas committed {hash}, which no client has sent"))
            })?;
            let payload = Payload::new(payload).into();
            let candidate = Candidate::new(chain, parent, block.env(), TxPolicy::SkipInvalid, payload);
            parent = candidate.id();
            candidates.push(candidate);
        }
        for (outcome, block) in execute(&service, candidates, chunk)?.iter().zip(chunk) {
            if outcome.digest() != block.digest() {
                let (height, serial, theirs) = (block.height, outcome.state_root, block.state_root);
                let why = format!(
                    "height {height}: serial execution has the state root {serial}, the replicas have {theirs}"
                );
                return Err(Different(why).into());
            }
            executed += 1;
            for (hash, status) in block.txs.iter().zip(outcome.txs.iter()) {
                let place = if *status == TxStatus::Skipped { &mut skipped } else { &mut done };
                place.insert(*hash);
            }
        }
    }
    // A transaction that two replicas proposed has two places, and the second one is skipped.
    let skipped = skipped.difference(&done).count() as u64;
    Ok(Compared { executed, skipped })
}

/// Executes and commits consecutive blocks.
fn execute(service: &Service, candidates: Vec<Candidate>, blocks: &[Notice]) -> anyhow::Result<Vec<ExecOutcome>> {
    let ids: Vec<ExecId> = candidates.iter().map(Candidate::id).collect();
    let (Some(tip), Some(last)) = (ids.last().copied(), blocks.last()) else { return Ok(Vec::new()) };
    let fault = || format!("serial execution up to height {}", last.height);
    for candidate in candidates {
        service.submit(Ticket(last.height), candidate, Priority::Decided).with_context(fault)?;
    }
    service.settle();
    let mut events = Vec::new();
    while service.poll(64, &mut events) > 0 {}
    let rooted = |id: &ExecId| {
        events.iter().find_map(|event| match event {
            EngineEvent::Rooted { outcome, .. } if outcome.id == *id => Some(outcome.clone()),
            _ => None,
        })
    };
    let Some(outcomes) = ids.iter().map(rooted).collect::<Option<Vec<ExecOutcome>>>() else {
        bail!("{}: {events:?}", fault())
    };
    let ancestors = blocks[..blocks.len() - 1].iter().map(Notice::id).collect();
    let meta = CommitMeta { block: last.id(), ancestors, cursor: last.height, ..CommitMeta::default() };
    service.commit(Ticket(last.height), tip, meta).with_context(fault)?;
    service.settle();
    while service.poll(64, &mut Vec::new()) > 0 {}
    Ok(outcomes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx::api::transaction_hash;
    use phalanx_workloads::{TransferLoad, Workload as _};

    /// A block of the load's first transactions with its true result, and its transactions by hash.
    fn block(load: &Native) -> (Notice, HashMap<B256, Bytes>) {
        let envelopes: Vec<_> = load.transactions().take(8).collect();
        let signed = load.accounts().sign(&envelopes).expect("keys");
        let mut notice = Notice {
            height: 1,
            block: B256::repeat_byte(1),
            timestamp_ms: 5_000,
            prevrandao: B256::repeat_byte(2),
            beneficiary: load.load().coinbase,
            gas_limit: u64::MAX,
            base_fee: load.load().fees.base_fee,
            execution: B256::ZERO,
            state_root: B256::ZERO,
            receipts_root: B256::ZERO,
            transactions_root: B256::ZERO,
            gas_used: 0,
            leader: 0,
            path: 0,
            txs: signed.iter().map(|tx| transaction_hash(tx)).collect(),
            statuses: Bytes::new(),
        };
        let engine = engine::open(load, None, Executor::Dag, 2).expect("an engine");
        let service = Service::open(engine, ServiceConfig::default()).expect("a service");
        let payload = Payload::new(signed.clone()).into();
        let candidate = Candidate::new(1, ExecId::GENESIS, notice.env(), TxPolicy::SkipInvalid, payload);
        let outcomes = execute(&service, vec![candidate], core::slice::from_ref(&notice)).expect("a valid block");
        let outcome = &outcomes[0];
        notice.execution = outcome.id.0;
        notice.state_root = outcome.state_root;
        notice.receipts_root = outcome.receipts_root;
        notice.transactions_root = outcome.transactions_root;
        notice.gas_used = outcome.gas_used;
        let txs = notice.txs.iter().copied().zip(signed).collect();
        (notice, txs)
    }

    #[test]
    fn a_true_result_passes_and_every_other_is_found() {
        let load = TransferLoad { accounts: 16, txs: 8, signatures: true, ..Default::default() };
        let load = Native::new(load).expect("a load");
        let (whole, txs) = block(&load);
        assert!(whole.gas_used == 8 * Native::GAS, "all succeed");
        assert_eq!(
            compare(&load, 1, core::slice::from_ref(&whole), &txs).expect("equal"),
            Compared { executed: 1, skipped: 0 }
        );
        assert_eq!(compare(&load, 1, &[], &txs).expect("nothing differs").executed, 0);
        let differs = |change: fn(&mut Notice)| {
            let mut notice = whole.clone();
            change(&mut notice);
            let error = compare(&load, 1, &[notice], &txs).expect_err("a difference");
            assert!(error.is::<Different>(), "{error}");
        };
        differs(|notice| notice.state_root = B256::ZERO);
        differs(|notice| notice.receipts_root = B256::ZERO);
        differs(|notice| notice.gas_used += 1);
        differs(|notice| notice.txs.swap(0, 1));
        differs(|notice| notice.txs.truncate(7));
        differs(|notice| notice.txs[3] = B256::ZERO);
        differs(|notice| notice.timestamp_ms += 1);
        differs(|notice| notice.height = 2);
    }
}
