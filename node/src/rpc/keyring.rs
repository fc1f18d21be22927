//! Keys of a node's accounts, and the accounts of a chain for development that it acts for without a key.

use super::error::RpcError;
use crate::{config::Development, keys::DevAccount};
use alloy_primitives::{Address, B256, Signature, U256};
use parking_lot::Mutex;
use std::{
    collections::{HashMap, HashSet},
    sync::atomic::{AtomicBool, Ordering},
};

/// Keys of a node's accounts, and the accounts that it acts for without a key.
#[derive(Debug, Default)]
pub(super) struct Keyring {
    pub(super) accounts: Vec<DevAccount>,
    places: HashMap<Address, usize>,
    named: Mutex<HashSet<Address>>,
    /// True if the node acts for any account.
    acts_for_all: AtomicBool,
    /// Held from the choice of a nonce until the pool has the transaction.
    pub(super) nonces: Mutex<()>,
}

impl Keyring {
    pub(super) fn new(development: &Development) -> Self {
        let accounts = development.accounts.clone();
        let places = accounts.iter().enumerate().map(|(place, account)| (account.address, place)).collect();
        Self { accounts, places, ..Self::default() }
    }

    pub(super) fn act_for(&self, address: Address) {
        self.named.lock().insert(address);
    }

    /// Returns true if the node acted for the account.
    pub(super) fn leave(&self, address: &Address) -> bool {
        self.named.lock().remove(address)
    }

    pub(super) fn act_for_all(&self, all: bool) {
        self.acts_for_all.store(all, Ordering::Relaxed);
    }

    pub(super) fn forget(&self) {
        self.named.lock().clear();
        self.act_for_all(false);
    }

    fn account(&self, address: &Address) -> Option<&DevAccount> {
        self.places.get(address).map(|place| &self.accounts[*place])
    }

    /// Signs a hash with an account's key.
    pub(super) fn sign(&self, address: &Address, hash: B256) -> Result<Signature, RpcError> {
        let account = self.account(address).ok_or_else(|| unknown(address))?;
        account.sign(hash).map_err(RpcError::internal)
    }

    /// Signs a transaction with an account's key, or names the account instead, which a chain for development takes.
    pub(super) fn sign_tx(&self, from: &Address, hash: B256) -> Result<Signature, RpcError> {
        let is_named = || self.acts_for_all.load(Ordering::Relaxed) || self.named.lock().contains(from);
        match self.account(from) {
            Some(_) => self.sign(from, hash),
            None if is_named() => Ok(Signature::new(U256::ZERO, U256::from_be_bytes(from.into_word().0), false)),
            None => Err(unknown(from)),
        }
    }
}

fn unknown(address: &Address) -> RpcError {
    RpcError::server(format!(
        "unknown account {address}: a node for development (--dev) signs for its own accounts, and for those that it impersonates"
    ))
}
