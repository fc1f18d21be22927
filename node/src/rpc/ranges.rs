//! `debug_storageRangeAt`, `debug_accountRange`: parts of a state in the order of its keys' hashes, as geth's trie has them.

use super::{
    api::{Api, Until},
    args::{self, Args, BlockRef},
    error::RpcError,
    keys::{Keys, keys},
    registry::Registry,
    replay::Replay,
};
use crate::chain::StateUnread;
use ::phalanx::{SnapshotError, StateSnapshot, revm::DatabaseRef as _};
use alloy_primitives::{Address, B256, Bytes, KECCAK256_EMPTY, U256, keccak256};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of slots or accounts of an answer, as geth has it for accounts.
const MOST: usize = 256;

pub(super) fn register(registry: &mut Registry) {
    registry.heavy("debug_storageRangeAt", 5, storage);
    registry.heavy("debug_accountRange", 6, accounts);
}

fn unread(error: SnapshotError) -> RpcError {
    StateUnread::from(error).into()
}

/// Items from a hash on, at most so many, and the hash of the one behind them.
fn page<T>(mut all: BTreeMap<B256, T>, start: B256, most: usize) -> (BTreeMap<B256, T>, Option<B256>) {
    let mut from = all.split_off(&start);
    let next = from.keys().nth(most).copied();
    if let Some(next) = next {
        drop(from.split_off(&next));
    }
    (from, next)
}

/// Start of a range: a hash, of which bytes at the end may be left out.
fn start(value: &Value) -> Result<B256, String> {
    let bytes = args::bytes(value)?;
    if bytes.len() > 32 { Err("at most 32 bytes are expected".into()) } else { Ok(B256::right_padding_from(&bytes)) }
}

/// Keys of a state, of one account or of all.
fn all_keys(api: &Api, height: u64, only: Option<Address>, until: Until) -> Result<Keys, RpcError> {
    if api.chain.remote.is_some() {
        let why = "this chain knows the keys that have changed since it went on from a remote one, and lists no others";
        return Err(RpcError::server(why));
    }
    keys(api, height, only, until)
}

/// Slots of a contract before a transaction of a block.
fn storage(api: &Api, args: &Args) -> Result<Value, RpcError> {
    let block = args.required(0, args::block)?;
    let index = args.required(1, args::count)?;
    let address = args.required(2, args::address)?;
    let (start, most) = (args.required(3, start)?, args.required(4, args::count)?);
    let head = api.head(block)?.ok_or_else(|| RpcError::server("block not found"))?;
    let until = api.until();
    let known = all_keys(api, head.header.number, Some(address), until)?.remove(&address).unwrap_or_default();
    let mut replay = Replay::new(&api.chain, &head)?;
    let state = replay.before(index)?;
    let mut all = BTreeMap::new();
    for slot in known {
        until.check()?;
        let word = state.storage_ref(address, slot).map_err(unread)?;
        if !word.is_zero() {
            all.insert(keccak256(B256::from(slot)), json!({ "key": B256::from(slot), "value": B256::from(word) }));
        }
    }
    let (page, next) = page(all, start, usize::try_from(most).unwrap_or(MOST).min(MOST));
    Ok(json!({ "storage": page, "nextKey": next }))
}

/// Accounts of a state.
fn accounts(api: &Api, args: &Args) -> Result<Value, RpcError> {
    let block = args.block(0)?;
    let start = args.optional(1, start)?.unwrap_or_default();
    let most = args.optional(2, args::count)?.map_or(MOST, |most| usize::try_from(most).unwrap_or(MOST)).min(MOST);
    let is_set =
        |place| args.optional(place, |value| value.as_bool().ok_or_else(|| "true or false is expected".to_owned()));
    let (without_code, without_storage) = (is_set(3)?.unwrap_or(false), is_set(4)?.unwrap_or(false));
    let height = api.state_height(if block == BlockRef::Pending { BlockRef::Latest } else { block })?;
    let (state, until) = (api.chain.state(height)?, api.until());
    let known = all_keys(api, height, None, until)?;
    let mut all = BTreeMap::new();
    for (address, slots) in known {
        until.check()?;
        if state.account(&address).map_err(unread)?.is_some() {
            all.insert(keccak256(address), (address, slots));
        }
    }
    let (page, next) = page(all, start, most);
    let mut shown = BTreeMap::new();
    for (key, (address, slots)) in page {
        let slots = Some(slots).filter(|_| !without_storage);
        shown.insert(address, account(&state, key, (address, slots), without_code, until)?);
    }
    let mut answer = json!({ "root": state.root(), "accounts": shown });
    if let Some(next) = next {
        answer["next"] = json!(next);
    }
    Ok(answer)
}

fn account(
    state: &StateSnapshot,
    key: B256,
    (address, slots): (Address, Option<BTreeSet<U256>>),
    without_code: bool,
    until: Until,
) -> Result<Value, RpcError> {
    until.check()?;
    let account = state.account(&address).map_err(unread)?.unwrap_or_default();
    let mut shown = json!({
        "balance": account.balance.to_string(), "nonce": account.nonce, "codeHash": account.code_hash, "address": address, "key": key,
    });
    if account.code_hash != KECCAK256_EMPTY && !without_code {
        let code = state.code(&account.code_hash).map_err(unread)?;
        shown["code"] = json!(code.map_or_else(Bytes::new, |code| code.original_bytes()));
    }
    let mut storage = BTreeMap::new();
    for slot in slots.into_iter().flatten() {
        until.check()?;
        let word = state.storage(&address, &slot).map_err(unread)?;
        if !word.is_zero() {
            storage.insert(B256::from(slot), word);
        }
    }
    if !storage.is_empty() {
        shown["storage"] = json!(storage);
    }
    Ok(shown)
}
