//! Proofs of the committed state and of its transactions, for clients that trust a certificate and nothing else.

use super::{Service, execute::included, failure::unread, kept::Kept};
use crate::{
    state::{
        SnapshotError, StateSnapshot,
        encoding::{StoredAccount, decode_account, decode_slot, slot_key},
    },
    trie,
};
use alloy_consensus::{Receipt, ReceiptEnvelope, ReceiptWithBloom};
use alloy_eips::Decodable2718 as _;
use alloy_primitives::{Address, B256, Bytes, KECCAK256_EMPTY, U256, keccak256};
use alloy_rlp::{Decodable as _, RlpDecodable, RlpEncodable};
use phalanx_engine_api::{AccountView, ExecId, Failure, Proof, ProofQuery, Prove, RetryCause, TxStatus, ViewAt, fates};
use phalanx_merkle::{Params, prove_fate, verify_keys};
use phalanx_paralyze::ForcedTx;

/// A transaction's receipt, or the transaction, and the path to it.
#[derive(RlpEncodable, RlpDecodable)]
struct ReceiptProof {
    receipt: Bytes,
    nodes: Vec<Bytes>,
}

impl Prove for Service {
    /// Proves for [`verify_account`], [`verify_code`], [`verify_slot`], [`verify_transaction`] and [`verify_inclusion`].
    ///
    /// Takes a millisecond or two for state; for a transaction, time linear in its block. Proofs of state lead to the root of the store,
    /// which no header of a chain with Ethereum's root has: [`StateSnapshot::prove_ethereum`] proves there.
    fn prove(&self, query: ProofQuery) -> Result<Proof, Failure> {
        self.prove_at(ViewAt::Committed, query)
    }
}

impl Service {
    /// Proves like [`Prove::prove`], with statements about state after the block `at`.
    ///
    /// # Errors
    /// `Retry` if the block is not executed or is being written, `Pruned` if it has left the history.
    pub fn prove_at(&self, at: ViewAt, query: ProofQuery) -> Result<Proof, Failure> {
        let of = |prove: &dyn Fn(&StateSnapshot) -> Result<Bytes, SnapshotError>| {
            let state = self.snapshot(at)?;
            let bytes = prove(&state).map_err(unread)?;
            Ok(Proof { root: state.store_root(), bytes })
        };
        match query {
            ProofQuery::Account(address) => of(&|state| state.prove_account(&address)),
            ProofQuery::Slot(address, slot) => of(&|state| state.prove_slot(&address, &slot.into())),
            ProofQuery::Transaction { height, index } => self.prove_transaction(height, index),
            ProofQuery::Inclusion { height, index } => self.prove_inclusion(height, index),
            ProofQuery::Fate { height, index } => self.prove_fate(height, index),
        }
    }

    /// A committed block; a height that has left the history is pruned.
    fn committed_block(&self, height: u64) -> Result<Kept, Failure> {
        self.kept(ViewAt::Height(height))
    }

    fn prove_transaction(&self, height: u64, index: u32) -> Result<Proof, Failure> {
        let kept = self.committed_block(height)?;
        let missing = || Failure::Retry(RetryCause::NotReady(self.shared.desk.lock().rows().tip().committed.exec));
        let (info, outcome) = kept.info.zip(kept.outcome).ok_or_else(missing)?;
        let place = receipt_of(&outcome.txs, index).ok_or_else(missing)?;
        let receipts = info.encoded_receipts();
        let encode = |at: usize, out: &mut Vec<u8>| out.extend_from_slice(&receipts[at]);
        let nodes = trie::ordered_proof(receipts.len(), place, encode);
        let receipt = receipts.get(place).cloned().unwrap_or_default();
        Ok(Proof { root: outcome.receipts_root, bytes: alloy_rlp::encode(ReceiptProof { receipt, nodes }).into() })
    }

    fn prove_fate(&self, height: u64, index: u32) -> Result<Proof, Failure> {
        let kept = self.committed_block(height)?;
        let missing = || Failure::Retry(RetryCause::NotReady(self.shared.desk.lock().rows().tip().committed.exec));
        let outcome = kept.outcome.ok_or_else(missing)?;
        let fates = fates(&kept.hashes, &outcome.txs);
        let bytes = prove_fate(&outcome.result(), &fates, index).ok_or_else(missing)?;
        Ok(Proof { root: outcome.digest(), bytes: bytes.into() })
    }

    fn prove_inclusion(&self, height: u64, index: u32) -> Result<Proof, Failure> {
        let kept = self.committed_block(height)?;
        let missing = || Failure::Retry(RetryCause::NotReady(self.shared.desk.lock().rows().tip().committed.exec));
        let (payload, outcome) = kept.payload.zip(kept.outcome).ok_or_else(missing)?;
        let place = receipt_of(&outcome.txs, index).ok_or_else(missing)?;
        let txs: Vec<&Bytes> = included(&payload, &outcome.txs).collect();
        let tx = txs.get(place).copied().cloned().ok_or_else(missing)?;
        let nodes = trie::ordered_proof(txs.len(), place, |at, out| out.extend_from_slice(txs[at]));
        let bytes = alloy_rlp::encode(ReceiptProof { receipt: tx, nodes }).into();
        Ok(Proof { root: self.shared.workers.install(|| trie::strings_root(&txs)), bytes })
    }
}

/// Place of a transaction, and of its receipt, in its block; `None` if it was skipped, and is not in the block.
fn receipt_of(statuses: &[TxStatus], index: u32) -> Option<usize> {
    let (before, rest) = statuses.split_at_checked(index as usize)?;
    let executed = |status: &&TxStatus| **status != TxStatus::Skipped;
    rest.first().filter(executed).map(|_| before.iter().filter(executed).count())
}

/// Mismatch between a proof, a root and the claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the proof does not show this under this root")]
pub struct ProofMismatch;

/// Verifies an account by a proof from [`Prove::prove`] under a state root; `None` if it does not exist.
///
/// # Errors
/// [`ProofMismatch`] if the proof does not show it.
pub fn verify_account(
    params: &Params,
    root: B256,
    address: Address,
    proof: &[u8],
) -> Result<Option<AccountView>, ProofMismatch> {
    let [account] = proven(params, root, [address.as_slice()], proof)?;
    Ok(decoded(account)?.filter(|account| account.exists).map(|account| AccountView {
        balance: account.balance,
        nonce: account.nonce,
        code_hash: account.code_hash.unwrap_or(KECCAK256_EMPTY),
    }))
}

/// Verifies the code of an account by a proof of the account from [`Prove::prove`] under a state root.
///
/// # Errors
/// [`ProofMismatch`] if the proof does not show that the account has this code.
pub fn verify_code(
    params: &Params,
    root: B256,
    address: Address,
    code: &[u8],
    proof: &[u8],
) -> Result<(), ProofMismatch> {
    let account = verify_account(params, root, address, proof)?.ok_or(ProofMismatch)?;
    if account.code_hash == keccak256(code) { Ok(()) } else { Err(ProofMismatch) }
}

/// Verifies a transaction's place in its block, among those that were not skipped, by a proof from [`Prove::prove`] under a transactions root. Returns its
/// encoding.
///
/// # Errors
/// [`ProofMismatch`] if the proof does not show it.
pub fn verify_inclusion(transactions_root: B256, index: usize, proof: &[u8]) -> Result<Bytes, ProofMismatch> {
    let mut rest = proof;
    let ReceiptProof { receipt: tx, nodes } = ReceiptProof::decode(&mut rest).map_err(|_| ProofMismatch)?;
    if !rest.is_empty() || !trie::verify_ordered(transactions_root, index, &tx, &nodes) {
        return Err(ProofMismatch);
    }
    Ok(tx)
}

/// Verifies a word of storage by a proof from [`Prove::prove`] under a state root; zero if it is not stored.
///
/// # Errors
/// [`ProofMismatch`] if the proof does not show it.
pub fn verify_slot(
    params: &Params,
    root: B256,
    address: Address,
    slot: B256,
    proof: &[u8],
) -> Result<B256, ProofMismatch> {
    let (incarnation, proof) = proof.split_first_chunk().ok_or(ProofMismatch)?;
    let incarnation = u32::from_be_bytes(*incarnation);
    let name = slot_key(&address, &U256::from_be_bytes(slot.0), incarnation);
    let [account, word] = proven(params, root, [address.as_slice(), name.as_slice()], proof)?;
    if decoded(account)?.map_or(0, |account| account.incarnation) != incarnation {
        return Err(ProofMismatch);
    }
    word.map_or(Ok(B256::ZERO), |word| decode_slot(word).map(B256::from).ok_or(ProofMismatch))
}

/// Verifies the status of a transaction by a proof from [`Prove::prove`] under a receipts root. `place` is the
/// transaction's index among those of its block that were not skipped.
///
/// # Errors
/// [`ProofMismatch`] if the proof does not show it.
pub fn verify_transaction(receipts_root: B256, place: usize, proof: &[u8]) -> Result<TxStatus, ProofMismatch> {
    let mut rest = proof;
    let ReceiptProof { receipt, nodes } = ReceiptProof::decode(&mut rest).map_err(|_| ProofMismatch)?;
    if !rest.is_empty() || !trie::verify_ordered(receipts_root, place, &receipt, &nodes) {
        return Err(ProofMismatch);
    }
    let succeeded = match receipt.split_first() {
        // alloy does not know the type. After it the receipt is like every other one.
        Some((&ForcedTx::TYPE, mut body)) => {
            ReceiptWithBloom::<Receipt>::decode(&mut body).map(|receipt| receipt.receipt.status.coerce_status()).ok()
        }
        _ => ReceiptEnvelope::decode_2718(&mut &receipt[..]).map(|receipt| receipt.status()).ok(),
    };
    Ok(if succeeded.ok_or(ProofMismatch)? { TxStatus::Succeeded } else { TxStatus::Reverted })
}

/// Proven end of a transaction, skipped or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProvenTransaction {
    /// Status of the transaction.
    pub status: TxStatus,
    /// Position in the block.
    pub place: u32,
    /// Number of transactions of the block, skipped ones included.
    pub count: u32,
    /// Identity of the block's execution.
    pub execution: ExecId,
    /// Root of the state after the block: for proofs of state.
    pub state_root: B256,
    /// Root of the block's receipts: for [`verify_transaction`].
    pub receipts_root: B256,
    /// Gas of all executed transactions of the block.
    pub gas_used: u64,
}

/// Verifies the end of the transaction with this hash by a proof from [`Prove::prove`], under the digest of its block's
/// outcome ([`phalanx_engine_api::ExecOutcome::digest`]), which state votes sign. `phalanx-merkle-proof` does the same
/// without `std`.
///
/// *Skipped* speaks of one place alone: a block may hold the same bytes twice, and have skipped one of them. *Succeeded* and
/// *reverted* are final.
///
/// # Errors
/// [`ProofMismatch`] if the proof does not show it.
pub fn verify_fate(digest: B256, tx: B256, proof: &[u8]) -> Result<ProvenTransaction, ProofMismatch> {
    let proven = phalanx_merkle::verify_fate(&digest.0, &tx.0, proof).map_err(|_| ProofMismatch)?;
    let phalanx_merkle::ProvenFate { status, place, count, block } = proven;
    Ok(ProvenTransaction {
        status: TxStatus::from_number(status).ok_or(ProofMismatch)?,
        place,
        count,
        execution: ExecId(B256::new(block.execution)),
        state_root: B256::new(block.state_root),
        receipts_root: B256::new(block.receipts_root),
        gas_used: block.gas_used,
    })
}

/// Proven values of keys.
fn proven<'p, const N: usize>(
    params: &Params,
    root: B256,
    names: [&[u8]; N],
    proof: &'p [u8],
) -> Result<[Option<&'p [u8]>; N], ProofMismatch> {
    let mut values = [None; N];
    verify_keys(params, &root.0, &names, proof, |index, value| values[index] = value).map_err(|_| ProofMismatch)?;
    Ok(values)
}

fn decoded(account: Option<&[u8]>) -> Result<Option<StoredAccount>, ProofMismatch> {
    account.map(|bytes| decode_account(bytes).ok_or(ProofMismatch)).transpose()
}
