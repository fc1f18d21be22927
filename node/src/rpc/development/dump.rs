//! The newest state as a text, and back: the `accounts` of anvil's dumps.
//!
//! A dump is JSON in hexadecimal bytes. That of anvil is the same, packed by gzip, and is taken as well.

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
        keys::keys,
        registry::Registry,
    },
};
use ::phalanx::{Edit, Edited};
use alloy_primitives::{Address, B256, Bytes, U64, U256};
use flate2::read::GzDecoder;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, io::Read as _};

/// Maximum number of values that a dump may set.
const MOST_VALUES: usize = 1 << 20;

/// Maximum length of a dump that was packed, in bytes.
const MOST_BYTES: u64 = 256 << 20;

/// Beginning of bytes that gzip has packed.
const GZIP: [u8; 2] = [0x1f, 0x8b];

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

fn dump(api: &Api, _: &Args) -> Result<Bytes, RpcError> {
    let until = api.until();
    let height = api.chain.height();
    let state = api.chain.state(height)?;
    let unread = |error| RpcError::from(crate::chain::StateUnread::from(error));
    let mut dump = Dump { best_block_number: Some(U64::from(height)), ..Dump::default() };
    for (address, slots) in keys(api, height, None, until)? {
        until.check()?;
        let Some(account) = state.account(&address).map_err(unread)? else { continue };
        let code = state.code(&account.code_hash).map_err(unread)?;
        let mut storage = BTreeMap::new();
        for slot in slots {
            until.check()?;
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

/// Unpacks a dump as anvil packs it.
fn unpacked(bytes: &[u8]) -> Result<Vec<u8>, RpcError> {
    let mut text = Vec::new();
    let read = GzDecoder::new(bytes).take(MOST_BYTES + 1).read_to_end(&mut text);
    read.map_err(|error| RpcError::invalid(format!("no dump: it is not packed by gzip: {error}")))?;
    if text.len() as u64 > MOST_BYTES {
        return Err(RpcError::invalid(format!("the dump is longer than {MOST_BYTES} bytes")));
    }
    Ok(text)
}

fn load(api: &Api, args: &Args) -> Result<bool, RpcError> {
    let bytes = args.required(0, args::bytes)?;
    let text = if bytes.starts_with(&GZIP) { unpacked(&bytes)? } else { bytes.into() };
    let dump: Dump = serde_json::from_slice(&text).map_err(|error| RpcError::invalid(format!("no dump: {error}")))?;
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
