//! A sealed block: order, outcomes, gas, receipts, logs bloom.

use super::receipts::{ReceiptRef, Receipts};
use crate::{
    chain::{BlockOutcome, requests_hash},
    exec::{outcomes::Outcomes, run::RunStats},
    model::{BlockAccessList, GasRules, Observer, Outcome, Stage, Txs, observe_fork},
    plan::{LeftTransactions, SourceCounts},
    state::{StateRef, Tip},
    trie,
};
use alloy_consensus::ReceiptEnvelope;
use alloy_eips::eip4844::DATA_GAS_PER_BLOB;
use alloy_primitives::{B256, Bloom, Bytes};
use phalanx_memory::{prefetch, prefetch_ahead};
use phalanx_paralyze::VmConfig;
use rayon::prelude::*;
use revm::{context::BlockEnv, primitives::hardfork::SpecId};
use std::sync::Arc;

/// Facts about a block after its execution.
#[derive(Debug)]
pub struct BlockInfo {
    env: BlockEnv,
    is_whole: bool,
    order: Vec<u32>,
    outcomes: Outcomes,
    tx_types: Vec<u8>,
    blobs: u64,
    gas_used: u64,
    receipts_root: Option<B256>,
    logs_bloom: Bloom,
    requests: Option<Vec<Bytes>>,
    access_list: Option<BlockAccessList>,
    /// True if the header of the block has the list's hash.
    commits_to_list: bool,
    left: LeftTransactions,
    stats: BlockStats,
}

/// Figures of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct BlockStats {
    /// Figures of the execution.
    pub run: RunStats,
    /// Number of frames with a member in the block.
    pub frames: usize,
    /// Sources of the predictions.
    pub sources: SourceCounts,
}

/// Type number of blob transactions (EIP-4844).
const BLOB: u8 = 3;

/// Minimum number of transactions that several threads look up.
const WORTH_SHARING: usize = 4096;

/// Distance at which the loop over a block's order prefetches the types of transactions, in transactions.
const TYPE_LOOKAHEAD: usize = 24;

impl BlockInfo {
    /// Orders the results: prefix sums of gas, receipts, their root and bloom. Hashes in the current rayon pool.
    pub(crate) fn seal(results: Results, txs: Txs<'_>, sealing: Sealing, observer: &dyn Observer) -> Self {
        let Results { order, outcomes, left, stats } = results;
        let Sealing { spec, gas, env, is_whole, frames, sources, requests, access_list, .. } = sealing;
        let pieces = outcomes.len().div_ceil(trie::GROUP);
        let blob_count = |tx: &u32| txs[*tx as usize].blob_hashes.len() as u64;
        let (tx_types, gas_used, (root, logs_bloom)) = observe_fork(observer, Stage::Seal, pieces, || {
            let tx_types = tx_types(&order, txs);
            let receipts = Receipts::new_shared(&outcomes, &tx_types);
            let gas_used = gas.total(receipts.gas_used(), &outcomes).in_header();
            let sealed = receipts.seal();
            (tx_types, gas_used, sealed)
        });
        // Only transactions of this type have blobs, so those of other types are not read again.
        let with_blobs = order.iter().zip(&tx_types).zip(&*outcomes);
        let blobs = with_blobs.filter(|((_, kind), outcome)| **kind == BLOB && outcome.result().is_some());
        let blobs = blobs.map(|((tx, _), _)| blob_count(tx)).sum();
        Self {
            env,
            is_whole,
            blobs,
            order,
            outcomes,
            tx_types,
            gas_used,
            receipts_root: spec.is_enabled_in(SpecId::BYZANTIUM).then_some(root),
            logs_bloom,
            requests,
            access_list,
            commits_to_list: is_whole && spec.is_enabled_in(SpecId::AMSTERDAM),
            left: LeftTransactions(left),
            stats: BlockStats { run: stats, frames, sources },
        }
    }

    /// Environment of the block.
    pub const fn env(&self) -> &BlockEnv {
        &self.env
    }

    /// Number of the block, if it was executed as a whole.
    pub(crate) fn number_of_whole(&self) -> Option<u64> {
        u64::try_from(self.env.number).ok().filter(|_| self.is_whole)
    }

    /// Final order of the transactions, by their index in the planner's input.
    pub fn order(&self) -> &[u32] {
        &self.order
    }

    /// Outcomes in final order.
    pub fn outcomes(&self) -> &[Outcome] {
        &self.outcomes
    }

    /// Index in the planner's input and outcome of each transaction, in final order.
    pub fn transactions(&self) -> impl ExactSizeIterator<Item = (u32, &Outcome)> {
        self.order.iter().copied().zip(&*self.outcomes)
    }

    #[cfg(test)]
    pub(crate) const fn outcomes_of_wave(&self) -> &Outcomes {
        &self.outcomes
    }

    /// Gas used by the block.
    pub const fn gas_used(&self) -> u64 {
        self.gas_used
    }

    /// Blob gas used by the block.
    pub const fn blob_gas_used(&self) -> u64 {
        self.blobs * DATA_GAS_PER_BLOB
    }

    /// Results that the header of the block states, beside a state root.
    pub(crate) fn outcome(&self, state_root: B256) -> BlockOutcome {
        BlockOutcome {
            state_root,
            receipts_root: self.receipts_root(),
            logs_bloom: self.logs_bloom(),
            gas_used: self.gas_used(),
            blob_gas_used: self.blob_gas_used(),
            requests_hash: self.requests_hash(),
            access_list_hash: self.access_list_hash(),
        }
    }

    /// Root of the receipts trie; `None` before Byzantium, when receipts held the root of Ethereum's state trie after
    /// each transaction, which this engine does not keep.
    pub const fn receipts_root(&self) -> Option<B256> {
        self.receipts_root
    }

    /// Requests of the block to consensus, each with its type (EIP-7685); `None` before Prague and for blocks that were
    /// not executed as a whole.
    pub fn requests(&self) -> Option<&[Bytes]> {
        self.requests.as_deref()
    }

    /// Commitment to [`Self::requests`].
    pub fn requests_hash(&self) -> Option<B256> {
        self.requests.as_ref().map(|requests| requests_hash(requests.iter().cloned()))
    }

    /// Access list of the block (EIP-7928), if the engine produces them or the block came with one.
    pub const fn access_list(&self) -> Option<&BlockAccessList> {
        self.access_list.as_ref()
    }

    /// Hash of the access list, of a whole block from Amsterdam on: its header has it.
    pub(crate) fn access_list_hash(&self) -> Option<B256> {
        self.access_list.as_ref().filter(|_| self.commits_to_list).map(BlockAccessList::hash)
    }

    /// Bloom of all logs.
    pub const fn logs_bloom(&self) -> Bloom {
        self.logs_bloom
    }

    /// Receipts in final order, without skipped transactions. O(logs).
    pub fn receipts(&self) -> Vec<ReceiptEnvelope> {
        let receipts = Receipts::new(&self.outcomes, &self.tx_types);
        receipts.of(0..receipts.len()).map(ReceiptRef::to_envelope).collect()
    }

    /// Receipts in final order as the receipts trie holds them, without skipped transactions. O(logs).
    pub(crate) fn encoded_receipts(&self) -> Vec<Bytes> {
        let receipts = Receipts::new(&self.outcomes, &self.tx_types);
        receipts.of(0..receipts.len()).map(ReceiptRef::encoded).collect()
    }

    /// Transactions that escaped the block.
    pub const fn left(&self) -> &LeftTransactions {
        &self.left
    }

    /// Figures of the block.
    pub const fn stats(&self) -> &BlockStats {
        &self.stats
    }

    /// Takes the final order and the outcomes, for callers that keep them. Other callers do better to borrow and drop
    /// the block as a whole: then the threads that allocated its memory free it.
    pub fn into_outcomes(self) -> (Vec<u32>, Vec<Outcome>) {
        (self.order, self.outcomes.into_vec())
    }
}

/// Input of sealing besides the run.
pub(crate) struct Sealing {
    pub(crate) parent: Arc<Tip>,
    pub(crate) spec: SpecId,
    pub(crate) gas: GasRules,
    pub(crate) env: BlockEnv,
    /// True for a whole block of a chain.
    pub(crate) is_whole: bool,
    pub(crate) frames: usize,
    pub(crate) sources: SourceCounts,
    pub(crate) requests: Option<Vec<Bytes>>,
    pub(crate) access_list: Option<BlockAccessList>,
}

impl Sealing {
    /// A block in the environment `env` on `state`, without frames, predictions, requests and access list.
    pub(crate) fn new(state: StateRef<'_>, cfg: &VmConfig, env: &BlockEnv) -> Self {
        let (parent, env, sources) = (Arc::clone(state.tip()), env.clone(), SourceCounts::default());
        let (spec, gas) = (cfg.spec, GasRules::of(cfg));
        Self { parent, spec, gas, env, is_whole: false, frames: 0, sources, requests: None, access_list: None }
    }
}

/// A run without its changes.
#[derive(Debug)]
pub(crate) struct Results {
    pub(super) order: Vec<u32>,
    pub(super) outcomes: Outcomes,
    pub(super) left: Vec<u32>,
    pub(super) stats: RunStats,
}

impl Results {
    /// Number of transactions.
    pub(crate) const fn len(&self) -> usize {
        self.order.len()
    }
}

/// Type of each transaction of a block in its order.
fn tx_types(order: &[u32], txs: Txs<'_>) -> Vec<u8> {
    let of = |(at, tx): (usize, &u32)| {
        prefetch_ahead(order, at, TYPE_LOOKAHEAD, |tx| prefetch(&txs[*tx as usize].tx_type));
        txs[*tx as usize].tx_type
    };
    if order.len() < WORTH_SHARING {
        order.iter().enumerate().map(of).collect()
    } else {
        order.par_iter().enumerate().with_max_len(WORTH_SHARING).map(of).collect()
    }
}
