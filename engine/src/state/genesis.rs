//! Accounts of the genesis.

use super::CodeRule;
use crate::model::Error;
use alloy_genesis::Genesis;
use alloy_primitives::{Address, B256, Bytes, KECCAK256_EMPTY, Keccak256, U256, keccak256};
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

/// Digest of the accounts of a genesis, whatever their order: the hash of a hash of each, by address. Nothing else of a genesis is
/// in it; [`crate::chain_digest`] covers all.
#[must_use]
pub fn genesis_digest<'a>(accounts: impl IntoIterator<Item = &'a GenesisAccount>) -> B256 {
    let mut digests = AccountDigests::default();
    accounts.into_iter().for_each(|account| digests.add(account));
    digests.finish()
}

/// Digests of accounts.
#[derive(Debug, Default)]
pub(crate) struct AccountDigests {
    each: Vec<(Address, B256)>,
    /// Reused for each account.
    bytes: Vec<u8>,
}

impl AccountDigests {
    pub(crate) fn add(&mut self, account: &GenesisAccount) {
        let GenesisAccount { address, balance, nonce, code, storage } = account;
        let code = code.as_ref().filter(|code| !code.is_empty()).map_or(KECCAK256_EMPTY, keccak256);
        let mut slots: Vec<_> = storage.iter().filter(|(_, value)| !value.is_zero()).collect();
        slots.sort_unstable();
        // Every part has a fixed length, but for the slots at the end.
        self.bytes.clear();
        self.bytes.extend_from_slice(address.as_slice());
        self.bytes.extend_from_slice(&balance.to_be_bytes::<32>());
        self.bytes.extend_from_slice(&nonce.to_be_bytes());
        self.bytes.extend_from_slice(code.as_slice());
        for (slot, value) in slots {
            self.bytes.extend_from_slice(&slot.to_be_bytes::<32>());
            self.bytes.extend_from_slice(&value.to_be_bytes::<32>());
        }
        self.each.push((*address, keccak256(&self.bytes)));
    }

    /// Digest of all. O(n log n).
    pub(crate) fn finish(mut self) -> B256 {
        self.each.sort_unstable();
        let mut hasher = Keccak256::new();
        self.each.iter().for_each(|(_, digest)| hasher.update(digest));
        hasher.finalize()
    }
}

/// Hash and analysed form of genesis code. Code that begins like a delegation and is none is refused where delegations
/// exist: no transaction can make such code.
pub(crate) fn genesis_code(code: &Bytes, rule: CodeRule) -> Result<(B256, Bytecode), Error> {
    if rule == CodeRule::Delegates && code.starts_with(EIP7702_MAGIC_BYTES) && !rule.delegates(code) {
        return Err(Error::Genesis { what: "the genesis holds malformed delegation code" });
    }
    Ok((keccak256(code), rule.code(code.clone())))
}
