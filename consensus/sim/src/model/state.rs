//! The model's virtual machine: a transaction is a name, its effect a counter and a hash chain.

use alloy_primitives::{Address, B256, Bytes, Keccak256, keccak256};
use phalanx_engine_api::{Candidate, InvalidCause, Outcome, TxPolicy, TxStatus};

/// First byte of a transaction that is invalid.
const INVALID: u8 = 0xff;
/// Bytes before a transaction's name: kind and weight.
const HEADER: usize = 5;

/// A transaction that stands for `weight` real ones when costs are counted.
#[must_use]
pub fn model_tx(weight: u32, name: &[u8]) -> Bytes {
    encode(0, weight, name)
}

/// A transaction that no state accepts.
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

/// How many real transactions one stands for. Bytes that are no model transaction count once.
#[must_use]
pub fn weight(tx: &Bytes) -> u64 {
    let weight = tx.get(1..HEADER).and_then(|bytes| bytes.try_into().ok()).map(u32::from_be_bytes);
    u64::from(weight.unwrap_or(1))
}

/// The account a transaction counts on.
pub(super) fn account(tx: &Bytes) -> Address {
    Address::from_word(keccak256(tx.get(HEADER..).unwrap_or_default()))
}

/// A state: its root, and what its block added to which account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct State {
    pub(super) root: B256,
    pub(super) writes: Vec<(Address, u64)>,
}

impl State {
    pub(super) fn genesis() -> Self {
        Self { root: keccak256(b"phalanx model genesis"), writes: Vec::new() }
    }

    /// Serial execution. Equal for equal blocks on equal states, which is all that consensus needs.
    pub(super) fn execute(parent: B256, candidate: &Candidate) -> Result<(Self, Outcome), InvalidCause> {
        let mut state = Self { root: parent, writes: Vec::new() };
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
            hash.update(state.root);
            hash.update(tx);
            state.root = hash.finalize();
            state.writes.push((account(tx), weight(tx)));
            receipts.update(keccak256(tx));
            statuses.push(TxStatus::Succeeded);
        }
        let outcome = Outcome {
            id: candidate.id(),
            state_root: state.root,
            receipts_root: receipts.finalize(),
            gas_used: state.writes.iter().map(|(_, weight)| weight * 21_000).sum(),
            txs: statuses.into(),
        };
        Ok((state, outcome))
    }
}
