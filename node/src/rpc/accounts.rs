//! Accounts at any kept height.

use super::{
    api::Api,
    args::{self, Args, BlockRef},
    error::RpcError,
    registry::Registry,
};
use alloy_primitives::{Address, B256, Bytes, U64, U256};
use alloy_rpc_types_eth::AccountInfo;
use serde_json::json;
use std::collections::BTreeMap;

/// Maximum number of slots of `eth_getStorageValues`, as in geth.
const MAX_SLOTS: usize = 1_024;

/// Code of a request for too much.
const TOO_MANY: i32 = -38026;

pub(super) fn register(registry: &mut Registry) {
    registry.of_state("eth_getBalance", 2, |api, args| {
        let address = args.required(0, args::address)?;
        let account = api.state(args.block(1)?)?.account(&address).map_err(read)?;
        Ok(account.map_or(U256::ZERO, |account| account.balance))
    });
    registry.of_state("eth_getTransactionCount", 2, nonce);
    registry.light("eth_getCode", 2, code);
    registry.of_state("eth_getStorageAt", 3, |api, args| {
        let (address, slot) = (args.required(0, args::address)?, args.required(1, args::slot)?);
        let word = api.state(args.block(2)?)?.storage(&address, &slot).map_err(read)?;
        Ok(B256::from(word))
    });
    registry.light("eth_getStorageValues", 2, storage_values);
    registry.light("eth_getAccountInfo", 2, info);
}

/// Words of several slots of several accounts.
fn storage_values(api: &Api, args: &Args) -> Result<BTreeMap<Address, Vec<B256>>, RpcError> {
    let wanted = args.required(0, args::json::<BTreeMap<Address, Vec<B256>>>)?;
    let count: usize = wanted.values().map(Vec::len).sum();
    if count > MAX_SLOTS {
        return Err(RpcError::of(TOO_MANY, format!("too many slots (max {MAX_SLOTS})")));
    }
    if count == 0 {
        return Err(RpcError::invalid("empty request"));
    }
    let state = api.state(args.block(1)?)?;
    let words = |(address, slots): (Address, Vec<B256>)| {
        let word = |slot: B256| state.storage(&address, &slot.into()).map(B256::from).map_err(read);
        Ok((address, slots.into_iter().map(word).collect::<Result<_, RpcError>>()?))
    };
    wanted.into_iter().map(words).collect()
}

/// Balance, nonce and code of an account.
fn info(api: &Api, args: &Args) -> Result<AccountInfo, RpcError> {
    let address = args.required(0, args::address)?;
    let state = api.state(args.block(1)?)?;
    let Some(account) = state.account(&address).map_err(read)? else { return Ok(AccountInfo::default()) };
    let code = state.code(&account.code_hash).map_err(read)?.map_or_else(Bytes::new, |code| code.original_bytes());
    Ok(AccountInfo { balance: account.balance, nonce: account.nonce, code })
}

fn read(error: ::phalanx::SnapshotError) -> RpcError {
    crate::chain::StateUnread::from(error).into()
}

fn nonce(api: &Api, args: &Args) -> Result<U64, RpcError> {
    let (address, block) = (args.required(0, args::address)?, args.block(1)?);
    if block == BlockRef::Pending {
        return next_nonce(api, &address).map(U64::from);
    }
    let account = api.state(block)?.account(&address).map_err(read)?;
    Ok(U64::from(account.map_or(0, |account| account.nonce)))
}

/// Nonce behind the transactions that wait, those of the node that is followed.
pub(super) fn next_nonce(api: &Api, address: &Address) -> Result<u64, RpcError> {
    if let Some(upstream) = api.exit.upstream() {
        let next: U64 = upstream.pass("eth_getTransactionCount", &json!([address, "pending"]))?;
        return Ok(next.to());
    }
    api.chain.service.next_nonce(address).map_err(|failure| RpcError::server(failure.to_string()))
}

fn code(api: &Api, args: &Args) -> Result<Bytes, RpcError> {
    let address = args.required(0, args::address)?;
    let state = api.state(args.block(1)?)?;
    let Some(account) = state.account(&address).map_err(read)? else { return Ok(Bytes::new()) };
    let code = state.code(&account.code_hash).map_err(read)?;
    Ok(code.map_or_else(Bytes::new, |code| code.original_bytes()))
}
