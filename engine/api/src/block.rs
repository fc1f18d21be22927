//! Input of an execution (environment, policy, payload) and its result.

use crate::env::{BlockEnv, TxPolicy};
use crate::id::ExecId;
use alloy_primitives::{B256, Bytes, Keccak256, keccak256};
use phalanx_merkle_proof::{BlockResult, Fate};
use std::sync::Arc;

/// Transactions in their final order, as bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Payload {
    txs: Vec<Bytes>,
    attributes: Bytes,
    digest: B256,
}

impl Payload {
    /// Creates the list and its digest: Keccak-256 over the count and the length-prefixed transactions.
    #[must_use]
    pub fn new(txs: Vec<Bytes>) -> Self {
        let mut hash = Keccak256::new();
        hash.update((txs.len() as u64).to_be_bytes());
        for tx in &txs {
            hash.update((tx.len() as u64).to_be_bytes());
            hash.update(tx);
        }
        Self { txs, attributes: Bytes::new(), digest: hash.finalize() }
    }

    /// Creates the list with attributes of the block in the engine's own encoding: what the result depends on beside
    /// environment, parent and transactions, such as withdrawals. The digest covers them; without any it is that of
    /// [`Self::new`].
    #[must_use]
    pub fn with_attributes(txs: Vec<Bytes>, attributes: Bytes) -> Self {
        let plain = Self::new(txs);
        if attributes.is_empty() {
            return plain;
        }
        let mut hash = Keccak256::new();
        hash.update(b"phalanx-payload-attributes-1");
        hash.update(plain.digest);
        hash.update(&attributes);
        Self { attributes, digest: hash.finalize(), ..plain }
    }

    /// Attributes of the block, empty for most chains.
    #[must_use]
    pub const fn attributes(&self) -> &Bytes {
        &self.attributes
    }

    /// The transactions.
    #[must_use]
    pub fn txs(&self) -> &[Bytes] {
        &self.txs
    }

    /// Digest of the list, which names it.
    #[must_use]
    pub const fn digest(&self) -> B256 {
        self.digest
    }

    /// Bytes that transactions and attributes take.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.txs.iter().chain([&self.attributes]).map(|bytes| bytes.len() as u64).sum()
    }
}

/// A block that may be executed. The identity is derived from the content, so it cannot lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    id: ExecId,
    parent: ExecId,
    env: BlockEnv,
    policy: TxPolicy,
    payload: Arc<Payload>,
    hints: Option<Bytes>,
}

impl Candidate {
    /// `payload` executed under `env` on `parent`.
    #[must_use]
    pub fn new(chain: u64, parent: ExecId, env: BlockEnv, policy: TxPolicy, payload: Arc<Payload>) -> Self {
        let id = ExecId::derive(chain, parent, &env, policy, payload.digest());
        Self { id, parent, env, policy, payload, hints: None }
    }

    /// Adds predictions in the engine's own encoding: for Phalanx the block access list of a whole block, as EIP-7928 encodes it. They
    /// may change speed, never a result, so they are not part of the identity; an engine ignores what it cannot read.
    #[must_use]
    pub fn with_hints(mut self, hints: Bytes) -> Self {
        self.hints = Some(hints);
        self
    }

    /// Identity of the execution.
    #[must_use]
    pub const fn id(&self) -> ExecId {
        self.id
    }

    /// Execution that this block builds on.
    #[must_use]
    pub const fn parent(&self) -> ExecId {
        self.parent
    }

    /// Environment of the block.
    #[must_use]
    pub const fn env(&self) -> &BlockEnv {
        &self.env
    }

    /// Effect of invalid transactions on the block.
    #[must_use]
    pub const fn policy(&self) -> TxPolicy {
        self.policy
    }

    /// Transactions of the block.
    #[must_use]
    pub const fn payload(&self) -> &Arc<Payload> {
        &self.payload
    }

    /// Predictions, if the candidate carries any.
    #[must_use]
    pub const fn hints(&self) -> Option<&Bytes> {
        self.hints.as_ref()
    }
}

/// Result of one transaction. Its number is part of what votes sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TxStatus {
    /// Executed; the changes hold.
    Succeeded = 0,
    /// Executed; the changes do not hold.
    Reverted = 1,
    /// Invalid, left out ([`TxPolicy::SkipInvalid`]).
    Skipped = 2,
}

impl TxStatus {
    /// Status with this number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        [Self::Succeeded, Self::Reverted, Self::Skipped].into_iter().find(|status| *status as u8 == number)
    }
}

/// The result of an execution: a function of the candidate and its parent's state alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecOutcome {
    /// Execution that this is the result of.
    pub id: ExecId,
    /// Commitment to the state after the block.
    pub state_root: B256,
    /// Commitment to the receipts of the block.
    pub receipts_root: B256,
    /// Commitment to the hash, status and place of every transaction: [`transactions_root`].
    pub transactions_root: B256,
    /// Gas of all executed transactions.
    pub gas_used: u64,
    /// One status per transaction, in order.
    pub txs: Arc<[TxStatus]>,
}

impl ExecOutcome {
    /// The part that is voted on.
    #[must_use]
    pub const fn result(&self) -> BlockResult {
        BlockResult {
            execution: self.id.0.0,
            state_root: self.state_root.0,
            receipts_root: self.receipts_root.0,
            transactions_root: self.transactions_root.0,
            gas_used: self.gas_used,
        }
    }

    /// Digest that a state vote signs, together with chain, epoch, height and [`crate::BlockId`]. The whole outcome,
    /// named by the execution: two empty siblings have equal states and different digests, so they never share a
    /// certificate. A client who trusts it needs a path of hashes to learn what became of one transaction
    /// ([`ProofQuery::Fate`](crate::ProofQuery::Fate)).
    #[must_use]
    pub fn digest(&self) -> B256 {
        B256::new(self.result().digest())
    }
}

/// Hash of a transaction as it is named in [`transactions_root`]: Keccak-256 of its bytes, whatever they are.
#[must_use]
pub fn transaction_hash(tx: &[u8]) -> B256 {
    keccak256(tx)
}

/// Commitment to the transactions of a block by their hashes, with their statuses. O(transactions).
#[must_use]
pub fn transactions_root(hashes: &[B256], statuses: &[TxStatus]) -> B256 {
    B256::new(phalanx_merkle_proof::transactions_root(&fates(hashes, statuses)))
}

/// Leaves of [`transactions_root`].
#[must_use]
pub fn fates(hashes: &[B256], statuses: &[TxStatus]) -> Vec<Fate> {
    hashes.iter().zip(statuses).map(|(hash, status)| (hash.0, *status as u8)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_tell_lists_apart_that_concatenate_alike() {
        let list = |txs: &[&'static [u8]]| Payload::new(txs.iter().map(|tx| Bytes::from_static(tx)).collect()).digest();
        let lists = [list(&[b"ab"]), list(&[b"a", b"b"]), list(&[b"", b"ab"]), list(&[]), list(&[b""])];
        for (i, a) in lists.iter().enumerate() {
            assert!(lists[i + 1..].iter().all(|b| a != b), "list {i}");
        }
    }

    #[test]
    fn attributes_are_identity() {
        let txs = || vec![Bytes::from_static(b"tx")];
        let plain = Payload::new(txs());
        assert_eq!(Payload::with_attributes(txs(), Bytes::new()), plain);
        let [one, two] =
            [b"1", b"2"].map(|attributes| Payload::with_attributes(txs(), Bytes::from_static(attributes)).digest());
        assert!(one != two && one != plain.digest());
        assert_eq!(Payload::with_attributes(txs(), Bytes::from_static(b"1")).bytes(), 3);
    }

    #[test]
    fn hints_are_not_identity() {
        let candidate =
            Candidate::new(1, ExecId::GENESIS, BlockEnv::default(), TxPolicy::Strict, Payload::default().into());
        let hinted = candidate.clone().with_hints(Bytes::from_static(b"all conflict"));
        assert_eq!(candidate.id(), hinted.id());
    }

    #[test]
    fn equal_states_of_siblings_have_different_digests() {
        let outcome = |byte| ExecOutcome {
            id: ExecId(B256::with_last_byte(byte)),
            state_root: B256::ZERO,
            receipts_root: B256::ZERO,
            transactions_root: B256::ZERO,
            gas_used: 0,
            txs: Arc::new([]),
        };
        assert_ne!(outcome(1).digest(), outcome(2).digest());
    }
}
