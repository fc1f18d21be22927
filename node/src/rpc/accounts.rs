//! Accounts at any kept height, and transactions for the pool.

use super::{
    api::Api,
    args::{self, Args, BlockRef},
    error::{RpcError, refused, unsent},
    registry::Registry,
};
use crate::raw;
use ::phalanx::pool::Admission;
use alloy_primitives::{B256, Bytes, U64, U256};
use serde_json::json;

pub(super) fn register(registry: &mut Registry) {
    registry.light("eth_getBalance", 2, |api, args| {
        let address = args.required(0, args::address)?;
        let account = api.state(args.block(1)?)?.account(&address).map_err(read)?;
        Ok(account.map_or(U256::ZERO, |account| account.balance))
    });
    registry.light("eth_getTransactionCount", 2, nonce);
    registry.light("eth_getCode", 2, code);
    registry.light("eth_getStorageAt", 3, |api, args| {
        let (address, slot) = (args.required(0, args::address)?, args.required(1, args::slot)?);
        let word = api.state(args.block(2)?)?.storage(&address, &slot).map_err(read)?;
        Ok(B256::from(word))
    });
    registry.light("eth_sendRawTransaction", 1, |api, args| send(api, &args.required(0, args::bytes)?));
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

/// Offers a transaction to the pool, or to the node that this one follows, and returns its hash.
pub(super) fn send(api: &Api, bytes: &Bytes) -> Result<B256, RpcError> {
    match bytes.first() {
        None => return Err(RpcError::server("typed transaction too short")),
        Some(first) if *first < 0xc0 && *first > 4 => return Err(RpcError::server("transaction type not supported")),
        Some(_) => {}
    }
    if let Some(upstream) = api.exit.upstream() {
        let said = upstream.pass::<B256>("eth_sendRawTransaction", &json!([bytes]))?;
        let hash = raw::hash_of(bytes).filter(|hash| *hash == said);
        return hash.ok_or_else(|| {
            RpcError::server(format!("the upstream node names the transaction {said}, not by its hash"))
        });
    }
    match api.chain.service.send(bytes).map_err(|error| unsent(&error))? {
        Admission::Admitted { tx, .. } => {
            let hash = *tx.hash();
            api.chain.announce(tx);
            api.exit.pass(bytes);
            Ok(hash)
        }
        Admission::Refused(refusal) => Err(refused(&refusal)),
    }
}
