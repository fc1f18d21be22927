//! Answers of a remote node as values. They come from another program: their form is checked here, and the hashes of ancestors where
//! they are read. Values of the state are taken as they are, without a proof.

use super::client::{Call, Client, RemoteError, quoted};
use alloy_primitives::{Address, B256, Bytes, KECCAK256_EMPTY, U256, keccak256};
use alloy_rpc_types_eth::Header as RpcHeader;
use phalanx::{RemoteAccount, alloy::consensus::Header, paralyze::StateKey};
use serde::de::DeserializeOwned;
use serde_json::{Value, json, value::RawValue};

/// Method that gives headers.
const METHOD: &str = "eth_getBlockByNumber";

/// An account as the remote node has it, with its code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Account {
    pub(super) nonce: u64,
    pub(super) balance: U256,
    pub(super) code: Bytes,
}

impl Account {
    /// The account with the hash of its code; `None` if it is empty, which since EIP-161 is to be absent.
    pub(super) fn digest(&self) -> Option<RemoteAccount> {
        let Self { nonce, balance, code } = self;
        let code_hash = Some(keccak256(code)).filter(|hash| *hash != KECCAK256_EMPTY);
        let is_empty = *nonce == 0 && balance.is_zero() && code_hash.is_none();
        (!is_empty).then_some(RemoteAccount { nonce: *nonce, balance: *balance, code_hash })
    }
}

/// Value of a key as the remote node has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Read {
    Account(Account),
    Word(U256),
}

/// Reads keys at a block, in order. Accounts come with their code.
pub(super) fn read(client: &Client, at: &Value, keys: &[StateKey]) -> Result<Vec<Read>, RemoteError> {
    let calls = keys.iter().flat_map(|key| calls(key, at)).collect();
    let mut answers = client.ask_all(calls)?.into_iter();
    let mut next = || answers.next().ok_or_else(|| client.unusable("a batch", "it lacks answers"));
    let value = |key: &StateKey| match key {
        StateKey::Basic(_) => {
            let balance = parsed(client, "eth_getBalance", &next()?)?;
            let nonce: U256 = parsed(client, "eth_getTransactionCount", &next()?)?;
            let code = parsed(client, "eth_getCode", &next()?)?;
            let wide = |_| client.unusable("eth_getTransactionCount", "it is above 2^64 - 1");
            Ok(Read::Account(Account { nonce: nonce.try_into().map_err(wide)?, balance, code }))
        }
        StateKey::Slot(..) | StateKey::Code(_) => {
            // A word, whose leading zeros some nodes leave out.
            let word: U256 = parsed(client, "eth_getStorageAt", &next()?)?;
            Ok(Read::Word(word))
        }
    };
    keys.iter().map(value).collect()
}

fn calls(key: &StateKey, at: &Value) -> Vec<Call> {
    let of = |method: &'static str, address: &Address| (method, json!([address, at]));
    match key {
        StateKey::Basic(address) => {
            vec![of("eth_getBalance", address), of("eth_getTransactionCount", address), of("eth_getCode", address)]
        }
        StateKey::Slot(address, slot) => {
            vec![("eth_getStorageAt", json!([address, B256::from(*slot), at]))]
        }
        StateKey::Code(_) => Vec::new(),
    }
}

/// Chain id of the remote node.
pub(super) fn chain_id(client: &Client) -> Result<u64, RemoteError> {
    let id: U256 = parsed(client, "eth_chainId", &client.ask("eth_chainId", json!([]))?)?;
    id.try_into().map_err(|_| client.unusable("eth_chainId", "it is above 2^64 - 1"))
}

/// Header and hash of a block; `None` if there is none.
pub(super) fn header(client: &Client, block: Value) -> Result<Option<(Header, B256)>, RemoteError> {
    named(client, &client.ask(METHOD, json!([block, false]))?)
}

/// The same of many blocks, by their heights, in order.
pub(super) fn headers(
    client: &Client,
    heights: impl Iterator<Item = u64>,
) -> Result<Vec<Option<(Header, B256)>>, RemoteError> {
    let calls = heights.map(|height| (METHOD, json!([format!("{height:#x}"), false]))).collect();
    client.ask_all(calls)?.iter().map(|result| named(client, result)).collect()
}

/// A header with the hash that comes with it.
fn named(client: &Client, result: &RawValue) -> Result<Option<(Header, B256)>, RemoteError> {
    let found: Option<RpcHeader> = parsed(client, METHOD, result)?;
    Ok(found.map(|header| (header.inner, header.hash)))
}

/// A result of a type.
fn parsed<T: DeserializeOwned>(client: &Client, method: &str, result: &RawValue) -> Result<T, RemoteError> {
    let text = result.get();
    serde_json::from_str(text)
        .map_err(|error| client.unusable(method, format_args!("{error}, in {}", quoted(text.as_bytes()))))
}
