//! Accounts of the genesis.

use crate::model::Error;
use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use revm::state::Bytecode;

/// An account of the genesis.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GenesisAccount {
    /// Address of the account.
    pub address: Address,
    /// Balance in wei.
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
