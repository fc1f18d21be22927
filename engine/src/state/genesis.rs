//! Accounts of the genesis.

use super::CodeRule;
use crate::model::Error;
use alloy_genesis::Genesis;
use alloy_primitives::{Address, B256, Bytes, KECCAK256_EMPTY, U256, keccak256};
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

impl GenesisAccount {
    /// Accounts of the `alloc` of geth's or reth's `genesis.json`.
    pub fn of(genesis: &Genesis) -> impl Iterator<Item = Self> {
        genesis.alloc.iter().map(|(address, account)| Self {
            address: *address,
            balance: account.balance,
            nonce: account.nonce.unwrap_or_default(),
            code: account.code.clone().filter(|code| !code.is_empty()),
            storage: account.storage.iter().flatten().map(|(slot, value)| ((*slot).into(), (*value).into())).collect(),
        })
    }
}

/// Digest of a genesis: the sum of a hash of each account, whatever their order. It tells chains apart whose operators
/// mean no harm; nothing else is promised.
#[must_use]
pub fn genesis_digest<'a>(accounts: impl IntoIterator<Item = &'a GenesisAccount>) -> B256 {
    let mut bytes = Vec::new();
    let sum = accounts.into_iter().fold(U256::ZERO, |sum, account| {
        let GenesisAccount { address, balance, nonce, code, storage } = account;
        bytes.clear();
        bytes.extend_from_slice(address.as_slice());
        bytes.extend_from_slice(&balance.to_be_bytes::<32>());
        bytes.extend_from_slice(&nonce.to_be_bytes());
        let code = code.as_ref().filter(|code| !code.is_empty());
        bytes.extend_from_slice(code.map_or(KECCAK256_EMPTY, keccak256).as_slice());
        let slots = storage.iter().filter(|(_, value)| !value.is_zero());
        let hashes = slots.map(|(slot, value)| {
            let pair = [slot.to_be_bytes::<32>(), value.to_be_bytes::<32>()];
            U256::from_be_bytes(keccak256(pair.as_flattened()).0)
        });
        bytes.extend_from_slice(&hashes.fold(U256::ZERO, U256::wrapping_add).to_be_bytes::<32>());
        sum.wrapping_add(U256::from_be_bytes(keccak256(&bytes).0))
    });
    sum.into()
}

/// Hash and analysed form of genesis code. Code that begins like a delegation and is none is refused where delegations
/// exist: no transaction can make such code.
pub(crate) fn genesis_code(code: &Bytes, rule: CodeRule) -> Result<(B256, Bytecode), Error> {
    if rule == CodeRule::Delegates && code.starts_with(EIP7702_MAGIC_BYTES) && !rule.delegates(code) {
        return Err(Error::Genesis { what: "the genesis holds malformed delegation code" });
    }
    Ok((keccak256(code), rule.code(code.clone())))
}
