//! The newest state as a text, and back: the `accounts` of anvil's dumps.
//!
//! A dump is JSON in hexadecimal bytes. That of anvil is the same, packed by gzip; it is unpacked before it is loaded here.

use super::{
    common::{add, order},
    state::check_code,
};
use crate::{
    orders::Order,
    rpc::{
        api::Api,
        args::{self, Args},
        error::RpcError,
        registry::Registry,
    },
};
use ::phalanx::{Edit, Edited, eip7928::AccountChanges};
use alloy_primitives::{Address, B256, Bytes, U64, U256};
use alloy_rlp::Decodable as _;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of values that a dump may set.
const MOST_VALUES: usize = 1 << 20;

#[derive(Debug, Default, Serialize, Deserialize)]
struct Dump {
    accounts: BTreeMap<Address, Dumped>,
    /// Height of the dumped state, which is not read.
    #[serde(default)]
    best_block_number: Option<U64>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Dumped {
    #[serde(default, with = "nonce")]
    nonce: u64,
    balance: U256,
    #[serde(default)]
    code: Bytes,
    #[serde(default)]
    storage: BTreeMap<B256, B256>,
}

/// A nonce is a number in a dump, and hexadecimal where others write it so.
mod nonce {
    use super::super::common::short;
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    pub(super) fn serialize<S: Serializer>(nonce: &u64, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(*nonce)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
        short(&serde_json::Value::deserialize(from)?).map_err(D::Error::custom)
    }
}

pub(super) fn register(registry: &mut Registry) {
    registry.heavy("anvil_dumpState", 1, dump);
    add(registry, &["anvil_loadState"], 1, load);
}

/// Keys of the state: the genesis has the first ones, and every later one is in the access list of a block.
fn keys(api: &Api) -> Result<BTreeMap<Address, BTreeSet<U256>>, RpcError> {
    let mut keys: BTreeMap<Address, BTreeSet<U256>> = BTreeMap::new();
    for (address, account) in &*api.alloc {
        let slots = account.storage.iter().flatten().map(|(slot, _)| U256::from_be_bytes(slot.0));
        keys.entry(*address).or_default().extend(slots);
    }
    let first = api.chain.first()?;
    if first > 1 {
        return Err(RpcError::server("a dump needs every block: leave out --keep-blocks"));
    }
    for height in first.max(1)..=api.chain.height() {
        let head = api.chain.head_at(height)?.ok_or_else(RpcError::pruned)?;
        let list = Vec::<AccountChanges>::decode(&mut &head.access_list[..])
            .map_err(|error| RpcError::internal(format!("the access list of block {height}: {error}")))?;
        for account in list {
            let slots = keys.entry(account.address).or_default();
            slots.extend(account.storage_changes.iter().map(|change| change.slot));
        }
    }
    Ok(keys)
}

fn dump(api: &Api, _: &Args) -> Result<Bytes, RpcError> {
    let until = api.until();
    let height = api.chain.height();
    let state = api.chain.state(height)?;
    let unread = |error| RpcError::from(crate::chain::StateUnread::from(error));
    let mut dump = Dump { best_block_number: Some(U64::from(height)), ..Dump::default() };
    for (address, slots) in keys(api)? {
        until.check()?;
        let Some(account) = state.account(&address).map_err(unread)? else { continue };
        let code = state.code(&account.code_hash).map_err(unread)?;
        let mut storage = BTreeMap::new();
        for slot in slots {
            let word = state.storage(&address, &slot).map_err(unread)?;
            if !word.is_zero() {
                storage.insert(B256::from(slot), B256::from(word));
            }
        }
        let code = code.map_or_else(Bytes::new, |code| code.original_bytes());
        let dumped = Dumped { nonce: account.nonce, balance: account.balance, code, storage };
        dump.accounts.insert(address, dumped);
    }
    let text = serde_json::to_vec(&dump).map_err(|error| RpcError::internal(error.to_string()))?;
    Ok(text.into())
}

fn load(api: &Api, args: &Args) -> Result<bool, RpcError> {
    let bytes = args.required(0, args::bytes)?;
    if bytes.starts_with(&[0x1f, 0x8b]) {
        return Err(RpcError::invalid("the dump is packed by gzip: unpack it, and send the JSON in hexadecimal bytes"));
    }
    let dump: Dump = serde_json::from_slice(&bytes).map_err(|error| RpcError::invalid(format!("no dump: {error}")))?;
    let mut edits = Vec::new();
    for (account, Dumped { nonce, balance, code, storage }) in dump.accounts {
        check_code(&account, &code)?;
        let slots = storage.into_iter().map(|(slot, word)| Edited::Slot(slot.into(), word.into()));
        let values = [Edited::Nonce(nonce), Edited::Balance(balance), Edited::Code(code)];
        edits.extend(values.into_iter().chain(slots).map(|value| Edit { account, value }));
        if edits.len() > MOST_VALUES {
            return Err(RpcError::invalid(format!("a dump sets at most {MOST_VALUES} values")));
        }
    }
    if !edits.is_empty() {
        order(api, Order::Edit(edits))?;
    }
    Ok(true)
}
