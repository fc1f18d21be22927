//! Forced transactions: no signature, no fee, and a mint. A chain derives them from another one, as rollups do.

use alloy_primitives::{Address, Bytes, U256};
use revm::{context::TxEnv, primitives::TxKind};

/// A transaction that the chain itself makes.
///
/// The sender pays nothing, needs no nonce, and may be a contract. First `mint` is added to its balance, unless the sum would
/// pass 2^256. The rest is an ordinary call or creation, and the sender's nonce grows by one. A call that fails keeps the mint.
/// So does a transaction that is invalid, for its gas or its code: it halts with all of its gas used, so that it cannot make a
/// block invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForcedTx {
    /// Sender.
    pub from: Address,
    /// Account that is called, or a creation.
    pub kind: TxKind,
    /// Wei that the sender gets first.
    pub mint: u128,
    /// Wei that the call or the creation moves.
    pub value: U256,
    /// Gas limit, which counts in the block's.
    pub gas_limit: u64,
    /// Calldata, or code of the creation.
    pub data: Bytes,
}

impl Default for ForcedTx {
    fn default() -> Self {
        let (from, kind) = (Address::ZERO, TxKind::Call(Address::ZERO));
        Self { from, kind, mint: 0, value: U256::ZERO, gas_limit: 21_000, data: Bytes::new() }
    }
}

impl ForcedTx {
    /// Type of forced transactions, also in receipts: that of deposits on rollups.
    pub const TYPE: u8 = 0x7e;

    /// Returns the transaction as the engine takes it.
    ///
    /// revm's environment has no field for the mint. It stands in `max_fee_per_blob_gas`, which only blob transactions use.
    pub fn env(&self) -> TxEnv {
        let Self { from, kind, mint, value, gas_limit, ref data } = *self;
        let data = data.clone();
        let max_fee_per_blob_gas = mint;
        TxEnv {
            tx_type: Self::TYPE,
            caller: from,
            kind,
            value,
            gas_limit,
            data,
            max_fee_per_blob_gas,
            chain_id: None,
            ..TxEnv::default()
        }
    }

    /// Returns true if `tx` is a forced transaction.
    #[inline]
    pub const fn is(tx: &TxEnv) -> bool {
        tx.tx_type == Self::TYPE
    }

    /// Returns the wei that a forced transaction mints.
    pub(crate) const fn minted(tx: &TxEnv) -> u128 {
        if Self::is(tx) { tx.max_fee_per_blob_gas } else { 0 }
    }
}
