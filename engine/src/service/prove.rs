//! Proofs of the committed state and of its transactions, for clients that trust a certificate and nothing else.

use super::{
    Service,
    reads::{read, shown, stored},
};
use crate::{
    state::encoding::{StoredAccount, decode_account, decode_slot, slot_key},
    trie,
};
use alloy_consensus::ReceiptEnvelope;
use alloy_eips::{Decodable2718 as _, Encodable2718 as _};
use alloy_primitives::{Address, B256, Bytes, U256};
use alloy_rlp::{Decodable as _, RlpDecodable, RlpEncodable};
use phalanx_engine_api::{AccountView, Failure, FatalCause, Proof, ProofQuery, Prove, RetryCause, TxStatus, ViewAt};
use phalanx_merkle::{Params, verify_keys};

/// A transaction's receipt and the path to it.
#[derive(RlpEncodable, RlpDecodable)]
struct ReceiptProof {
    receipt: Bytes,
    nodes: Vec<Bytes>,
}

impl Prove for Service {
    /// Proves for [`verify_account`], [`verify_slot`] and [`verify_transaction`].
    ///
    /// Takes a millisecond or two for state; for a transaction, time linear in its block.
    fn prove(&self, query: ProofQuery) -> Result<Proof, Failure> {
        match query {
            ProofQuery::Account(address) => self.prove_state(&address, None),
            ProofQuery::Slot(address, slot) => self.prove_state(&address, Some(slot)),
            ProofQuery::Transaction { height, index } => self.prove_transaction(height, index),
        }
    }
}

impl Service {
    fn prove_state(&self, address: &Address, slot: Option<B256>) -> Result<Proof, Failure> {
        let kept = self.kept(ViewAt::Committed)?;
        let reader = read(&kept.view)?;
        let mut bytes = Vec::new();
        let mut names = vec![address.to_vec()];
        if let Some(slot) = slot {
            // The keys of slots hold the account's incarnation.
            let incarnation = stored(&reader, address)?.map_or(0, |account| account.incarnation);
            bytes.extend_from_slice(&incarnation.to_be_bytes());
            names.push(slot_key(address, &U256::from_be_bytes(slot.0), incarnation).as_slice().to_vec());
        }
        let proof = reader.prove_keys(&names).map_err(|error| match error {
            // The last block is being written.
            phalanx_merkle::Error::NotWritten => Failure::Retry(RetryCause::Busy),
            error => Failure::Fatal(FatalCause::Io(error.to_string())),
        })?;
        bytes.extend_from_slice(&proof);
        Ok(Proof { root: B256::new(reader.root()), bytes: bytes.into() })
    }

    fn prove_transaction(&self, height: u64, index: u32) -> Result<Proof, Failure> {
        let desk = self.shared.desk.lock();
        let missing = Failure::Retry(RetryCause::NotReady(desk.rows().tip().committed.exec));
        let kept = desk.rows().at(height).map(|row| row.value.clone());
        drop(desk);
        let Some((info, outcome)) = kept.and_then(|kept| kept.info.zip(kept.outcome)) else { return Err(missing) };
        let place = receipt_of(&outcome.txs, index).ok_or(missing)?;
        let receipts = info.receipts();
        let encode = |at: usize, out: &mut Vec<u8>| receipts[at].encode_2718(out);
        let nodes = trie::ordered_proof(receipts.len(), place, encode);
        let receipt = receipts.get(place).map(|receipt| receipt.encoded_2718().into()).unwrap_or_default();
        Ok(Proof { root: outcome.receipts_root, bytes: alloy_rlp::encode(ReceiptProof { receipt, nodes }).into() })
    }
}

/// Index of a transaction's receipt in its block; `None` if it was skipped, and has no receipt.
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
    Ok(decoded(account)?.as_ref().and_then(shown))
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
    let receipt = ReceiptEnvelope::decode_2718(&mut &receipt[..]).map_err(|_| ProofMismatch)?;
    Ok(if receipt.status() { TxStatus::Succeeded } else { TxStatus::Reverted })
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
