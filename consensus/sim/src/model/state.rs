//! The model's virtual machine: a transaction is a name, its effect a counter and a hash chain.

use alloy_primitives::{Address, B256, Bytes, Keccak256, keccak256};
use phalanx_engine_api::{
    Candidate, ExecId, ExecOutcome, InvalidCause, TxPolicy, TxStatus, transaction_hash, transactions_root,
};
use std::sync::Arc;

/// First byte of a transaction that is invalid.
const INVALID: u8 = 0xff;
/// Bytes before a transaction's name: kind and weight.
const HEADER: usize = 5;

/// Makes a transaction that costs as much as `weight` real ones.
#[must_use]
pub fn model_tx(weight: u32, name: &[u8]) -> Bytes {
    encode(0, weight, name)
}

/// Makes a transaction that is invalid in every state.
#[must_use]
pub fn invalid_tx(name: &[u8]) -> Bytes {
    encode(INVALID, 1, name)
}

fn encode(kind: u8, weight: u32, name: &[u8]) -> Bytes {
    let mut bytes = vec![kind];
    bytes.extend_from_slice(&weight.to_be_bytes());
    bytes.extend_from_slice(name);
    bytes.into()
}

/// Number of real transactions that this one stands for; 1 for bytes that are no model transaction.
#[must_use]
pub fn weight(tx: &Bytes) -> u64 {
    let weight = tx.get(1..HEADER).and_then(|bytes| bytes.try_into().ok()).map(u32::from_be_bytes);
    u64::from(weight.unwrap_or(1))
}

/// Account whose counter the transaction increments.
pub(super) fn account(tx: &Bytes) -> Address {
    Address::from_word(keccak256(tx.get(HEADER..).unwrap_or_default()))
}

/// A state: its root, and the effects of its block: counters per account, and the rest of the outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct State {
    pub(super) root: B256,
    pub(super) writes: Vec<(Address, u64)>,
    receipts_root: B256,
    transactions_root: B256,
    txs: Arc<[TxStatus]>,
}

impl State {
    pub(super) fn genesis() -> Self {
        let root = keccak256(b"phalanx model genesis");
        Self { root, writes: Vec::new(), receipts_root: B256::ZERO, transactions_root: B256::ZERO, txs: Arc::new([]) }
    }

    /// Executes serially. Equal blocks on equal states give equal results, which is all that consensus needs.
    pub(super) fn execute(parent: B256, candidate: &Candidate) -> Result<Self, InvalidCause> {
        let (mut root, mut writes) = (parent, Vec::new());
        let mut statuses = Vec::with_capacity(candidate.payload().txs().len());
        let mut receipts = Keccak256::new();
        for (index, tx) in candidate.payload().txs().iter().enumerate() {
            if tx.first() == Some(&INVALID) {
                if candidate.policy() == TxPolicy::Strict {
                    return Err(InvalidCause::Transaction { index: index as u32 });
                }
                statuses.push(TxStatus::Skipped);
                continue;
            }
            let mut hash = Keccak256::new();
            hash.update(root);
            hash.update(tx);
            root = hash.finalize();
            writes.push((account(tx), weight(tx)));
            receipts.update(keccak256(tx));
            statuses.push(TxStatus::Succeeded);
        }
        let hashes: Vec<_> = candidate.payload().txs().iter().map(|tx| transaction_hash(tx)).collect();
        let transactions_root = transactions_root(&hashes, &statuses);
        Ok(Self { root, writes, receipts_root: receipts.finalize(), transactions_root, txs: statuses.into() })
    }

    /// Outcome of the block that led to this state.
    pub(super) fn outcome(&self, id: ExecId) -> ExecOutcome {
        ExecOutcome {
            id,
            state_root: self.root,
            receipts_root: self.receipts_root,
            transactions_root: self.transactions_root,
            gas_used: self.writes.iter().map(|(_, weight)| weight * 21_000).sum(),
            txs: self.txs.clone(),
        }
    }
}
