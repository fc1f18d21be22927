//! Accounts of the genesis.

use super::CodeRule;
use crate::model::Error;
use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use revm::{bytecode::eip7702::EIP7702_MAGIC_BYTES, state::Bytecode};

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

/// Hash and analysed form of genesis code. Code that begins like a delegation and is none is refused where delegations
/// exist: no transaction can make such code.
pub(crate) fn genesis_code(code: &Bytes, rule: CodeRule) -> Result<(B256, Bytecode), Error> {
    if rule == CodeRule::Delegates && code.starts_with(EIP7702_MAGIC_BYTES) && !rule.delegates(code) {
        return Err(Error::Genesis { what: "the genesis holds malformed delegation code" });
    }
    Ok((keccak256(code), rule.code(code.clone())))
}
