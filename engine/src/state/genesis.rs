//! Accounts of the first state.

use crate::model::Error;
use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use revm::state::Bytecode;

/// An account of the first state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GenesisAccount {
    /// Where it lives.
    pub address: Address,
    /// Wei.
    pub balance: U256,
    /// Transactions sent, or contracts created.
    pub nonce: u64,
    /// Runtime code.
    pub code: Option<Bytes>,
    /// Slots that are not zero.
    pub storage: Vec<(U256, U256)>,
}

/// Hash and analysed form of genesis code.
pub(crate) fn genesis_code(code: &Bytes) -> Result<(B256, Bytecode), Error> {
    let analysed = Bytecode::new_raw_checked(code.clone())
        .map_err(|_| Error::Genesis { what: "the genesis holds malformed delegation code" })?;
    Ok((keccak256(code), analysed))
}
