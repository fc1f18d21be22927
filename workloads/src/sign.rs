//! Signs the transactions of a load.

use alloy_consensus::{SignableTransaction, TxEip1559, crypto::secp256k1::sign_message};
use alloy_eips::eip2718::Encodable2718;
use alloy_primitives::{Address, Bytes};
use rayon::prelude::*;
use revm::context::TxEnv;

use crate::accounts::Accounts;

/// Reason why a transaction cannot be signed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SignError {
    /// The load was configured without signatures.
    #[error("the accounts have no keys: the load was made without signatures")]
    NoKeys,
    /// The sender is not an account of this load.
    #[error("{caller} is not an account of this load")]
    UnknownSender {
        /// Sender without a key.
        caller: Address,
    },
    /// The transaction is not of the kind that loads make: EIP-1559 with a chain id and a priority fee, nothing of
    /// later types.
    #[error("transaction {nonce} of {caller} is not an EIP-1559 transaction")]
    NotEip1559 {
        /// Sender of the transaction.
        caller: Address,
        /// Nonce of the transaction.
        nonce: u64,
    },
}

impl Accounts {
    /// Signs transactions, in parallel in the current rayon pool. Returns the EIP-2718 bytes of `txs[i]` at index `i`.
    ///
    /// Nonces of the signature are deterministic (RFC 6979), so the bytes are the same at every call. About 30 µs of a
    /// core per transaction.
    ///
    /// # Errors
    /// [`SignError`] of the first transaction that cannot be signed.
    pub fn sign(&self, txs: &[TxEnv]) -> Result<Vec<Bytes>, SignError> {
        if !self.has_keys() {
            return Err(SignError::NoKeys);
        }
        txs.par_iter().map(|tx| self.sign_one(tx)).collect()
    }

    fn sign_one(&self, tx: &TxEnv) -> Result<Bytes, SignError> {
        let unknown = SignError::UnknownSender { caller: tx.caller };
        let secret = self.position(&tx.caller).and_then(|position| self.secret(position)).ok_or(unknown.clone())?;
        let unsigned = unsigned(tx).ok_or(SignError::NotEip1559 { caller: tx.caller, nonce: tx.nonce })?;
        // The key was valid when its address was derived.
        let signature = sign_message(secret, unsigned.signature_hash()).map_err(|_| unknown)?;
        Ok(unsigned.into_signed(signature).encoded_2718().into())
    }
}

/// Returns the transaction without its sender.
fn unsigned(tx: &TxEnv) -> Option<TxEip1559> {
    let plain = tx.tx_type == 2 && tx.blob_hashes.is_empty() && tx.authorization_list.is_empty();
    plain.then_some(TxEip1559 {
        chain_id: tx.chain_id?,
        nonce: tx.nonce,
        gas_limit: tx.gas_limit,
        max_fee_per_gas: tx.gas_price,
        max_priority_fee_per_gas: tx.gas_priority_fee?,
        to: tx.kind,
        value: tx.value,
        access_list: tx.access_list.clone(),
        input: tx.data.clone(),
    })
}
