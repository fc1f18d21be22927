//! Block access lists (EIP-7928), as execution-apis and other clients write them.
//!
//! The node keeps the list of every block beside the block, under its checksum and for as long. Blocks from before Amsterdam have one
//! as well, to which no header commits.

use super::{
    api::Api,
    args::{self, BlockRef},
    error::RpcError,
    registry::Registry,
};
use ::phalanx::eip7928::{
    AccountChanges, BalanceChange, BlockAccessIndex, CodeChange, NonceChange, SlotChanges, StorageChange,
};
use alloy_primitives::{Address, B256, Bytes, U64, U256};
use alloy_rlp::Decodable as _;
use serde::Serialize;

pub(super) fn register(registry: &mut Registry) {
    registry.light("eth_getBlockAccessList", 1, |api, args| list(api, args.required(0, args::block)?));
    registry.light("eth_getBlockAccessListByBlockNumber", 1, |api, args| list(api, args.required(0, args::number)?));
    registry.light("eth_getBlockAccessListByBlockHash", 1, |api, args| {
        list(api, BlockRef::Hash(args.required(0, args::hash)?))
    });
    registry.light("debug_getRawBlockAccessList", 1, |api, args| raw(api, args.required(0, args::block)?));
}

/// Accesses and changes of an account. Slots and their values are words of 32 bytes, as geth's client reads them.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Account {
    address: Address,
    balance_changes: Vec<Change<U256>>,
    code_changes: Vec<Code>,
    nonce_changes: Vec<Change<U64>>,
    storage_changes: Vec<Slot>,
    storage_reads: Vec<B256>,
}

/// Value of a field or slot behind the transaction at an index.
#[derive(Debug, Serialize)]
struct Change<V> {
    index: U64,
    value: V,
}

/// Code of an account behind the transaction at an index.
#[derive(Debug, Serialize)]
struct Code {
    index: U64,
    code: Bytes,
}

/// Changes of a slot.
#[derive(Debug, Serialize)]
struct Slot {
    key: B256,
    changes: Vec<Change<B256>>,
}

impl From<AccountChanges> for Account {
    fn from(account: AccountChanges) -> Self {
        let at = |index: BlockAccessIndex| U64::from(index.get());
        let balance =
            |change: BalanceChange| Change { index: at(change.block_access_index), value: change.post_balance };
        let nonce =
            |change: NonceChange| Change { index: at(change.block_access_index), value: U64::from(change.new_nonce) };
        let code = |change: CodeChange| Code { index: at(change.block_access_index), code: change.new_code };
        let word = |change: StorageChange| Change {
            index: at(change.block_access_index),
            value: B256::from(change.new_value),
        };
        let slot =
            |slot: SlotChanges| Slot { key: slot.slot.into(), changes: slot.changes.into_iter().map(word).collect() };
        Self {
            address: account.address,
            balance_changes: account.balance_changes.into_iter().map(balance).collect(),
            code_changes: account.code_changes.into_iter().map(code).collect(),
            nonce_changes: account.nonce_changes.into_iter().map(nonce).collect(),
            storage_changes: account.storage_changes.into_iter().map(slot).collect(),
            storage_reads: account.storage_reads.into_iter().map(B256::from).collect(),
        }
    }
}

/// The list of a block; that of a block that is not there is null.
fn list(api: &Api, block: BlockRef) -> Result<Option<Vec<Account>>, RpcError> {
    let Some(bytes) = raw(api, block)? else { return Ok(None) };
    let list = Vec::<AccountChanges>::decode(&mut &bytes[..])
        .map_err(|error| RpcError::internal(format!("the list of a block cannot be read: {error}")))?;
    Ok(Some(list.into_iter().map(Account::from).collect()))
}

/// The encoding of a block's list, whose hash the header has from Amsterdam on; `None` for a block that is not there.
fn raw(api: &Api, block: BlockRef) -> Result<Option<Bytes>, RpcError> {
    let list = api.head(block)?.map(|head| head.access_list.clone());
    Ok(list.filter(|list| !list.is_empty()))
}
