//! State before a transaction of a committed block: the state before the block, under what its access list says happened.
//!
//! So nothing runs again but the traced transaction. From Cancun on the list holds every change; before, a destroyed
//! contract's storage goes without being listed, so that such blocks are not traced.

use super::{calls::CallState, error::RpcError};
use crate::{chain::Chain, store::Head};
use ::phalanx::{
    eip7928::AccountChanges,
    revm::{database::CacheDB, primitives::hardfork::SpecId, state::Bytecode},
};
use alloy_rlp::Decodable as _;

/// Access list of a block, which holds all that the block changes.
pub(super) fn access_list(chain: &Chain, head: &Head) -> Result<Vec<AccountChanges>, RpcError> {
    let height = head.header.number;
    if height == 0 {
        return Err(RpcError::server("genesis is not traceable"));
    }
    if !chain.spec.spec(&head.header).is_enabled_in(SpecId::CANCUN) {
        return Err(RpcError::server("blocks before the Cancun fork are not traceable"));
    }
    if head.access_list.is_empty() {
        return Err(RpcError::server(format!("block {height} has no access list, so that it is not traceable")));
    }
    Vec::<AccountChanges>::decode(&mut &head.access_list[..])
        .map_err(|error| RpcError::internal(format!("the access list of block {height}: {error}")))
}

/// States before the transactions of a block, in order.
#[derive(Debug)]
pub(super) struct Replay {
    state: CallState,
    changes: Vec<AccountChanges>,
    /// Index of the changes that are applied, itself included.
    applied: Option<u64>,
}

impl Replay {
    pub(super) fn new(chain: &Chain, head: &Head) -> Result<Self, RpcError> {
        let changes = access_list(chain, head)?;
        // Genesis has been refused.
        let before = head.header.number.saturating_sub(1);
        Ok(Self { state: CacheDB::new(chain.state(before)?), changes, applied: None })
    }

    /// State before the executed transaction at a place. Places must not decrease from call to call.
    pub(super) fn before(&mut self, place: u64) -> Result<&CallState, RpcError> {
        // Index 0 is what precedes the transactions, and transaction i has index i + 1.
        let first = self.applied.map_or(0, |applied| applied + 1);
        if first <= place {
            self.apply(first, place)?;
            self.applied = Some(place);
        }
        Ok(&self.state)
    }

    fn apply(&mut self, first: u64, last: u64) -> Result<(), RpcError> {
        let unread = |error: ::phalanx::SnapshotError| RpcError::from(crate::chain::StateUnread::from(error));
        let within = |index: u64| (first..=last).contains(&index);
        for account in &self.changes {
            let address = account.address;
            let balance = account.balance_changes.iter().rfind(|change| within(change.block_access_index.0));
            let nonce = account.nonce_changes.iter().rfind(|change| within(change.block_access_index.0));
            let code = account.code_changes.iter().rfind(|change| within(change.block_access_index.0));
            if balance.is_some() || nonce.is_some() || code.is_some() {
                let mut info = self.state.load_account(address).map_err(unread)?.info().unwrap_or_default();
                info.balance = balance.map_or(info.balance, |change| change.post_balance);
                info.nonce = nonce.map_or(info.nonce, |change| change.new_nonce);
                if let Some(change) = code {
                    let code = Bytecode::new_raw_checked(change.new_code.clone())
                        .map_err(|error| RpcError::internal(format!("code of {address}: {error}")))?;
                    (info.code_hash, info.code) = (code.hash_slow(), Some(code));
                }
                self.state.insert_account_info(address, info);
            }
            for slot in &account.storage_changes {
                if let Some(change) = slot.changes.iter().rfind(|change| within(change.block_access_index.0)) {
                    self.state.insert_account_storage(address, slot.slot, change.new_value).map_err(unread)?;
                }
            }
        }
        Ok(())
    }
}
