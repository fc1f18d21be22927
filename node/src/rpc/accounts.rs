//! Accounts at any kept height.

use super::{
    api::Api,
    args::{self, Args, BlockRef},
    error::RpcError,
    registry::Registry,
};
use alloy_primitives::{B256, Bytes, U64, U256};
use serde_json::json;

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
}

fn read(error: ::phalanx::SnapshotError) -> RpcError {
    crate::chain::StateUnread::from(error).into()
}

fn nonce(api: &Api, args: &Args) -> Result<U64, RpcError> {
    let (address, block) = (args.required(0, args::address)?, args.block(1)?);
    if block == BlockRef::Pending {
        if let Some(upstream) = api.exit.upstream() {
            return Ok(upstream.pass("eth_getTransactionCount", &json!([address, "pending"]))?);
        }
        let next = api.chain.service.next_nonce(&address).map_err(|failure| RpcError::server(failure.to_string()))?;
        return Ok(U64::from(next));
    }
    let account = api.state(block)?.account(&address).map_err(read)?;
    Ok(U64::from(account.map_or(0, |account| account.nonce)))
}

fn code(api: &Api, args: &Args) -> Result<Bytes, RpcError> {
    let address = args.required(0, args::address)?;
    let state = api.state(args.block(1)?)?;
    let Some(account) = state.account(&address).map_err(read)? else { return Ok(Bytes::new()) };
    let code = state.code(&account.code_hash).map_err(read)?;
    Ok(code.map_or_else(Bytes::new, |code| code.original_bytes()))
}
