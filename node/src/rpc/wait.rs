//! `eth_sendRawTransactionSync` (EIP-7966): sends a transaction and waits for its receipt.

use super::{
    api::Api,
    args::{self, Args},
    convert,
    error::RpcError,
    registry::{Method, Registry},
    send,
};
use crate::raw;
use alloy_rpc_types_eth::TransactionReceipt;
use jsonrpsee::types::Params;
use std::{sync::Arc, time::Duration};

pub(super) fn register(registry: &mut Registry) {
    registry.add("eth_sendRawTransactionSync", Method::Wait);
}

pub(super) async fn answer(params: &Params<'_>, api: &Arc<Api>) -> Result<TransactionReceipt, RpcError> {
    let args = Args::read(params, 2)?;
    let bytes = send::check(args.required(0, args::bytes)?)?;
    let wanted = args.optional(1, args::count)?.map(Duration::from_millis);
    let max = api.limits.max_wait;
    let timeout = wanted.filter(|wanted| !wanted.is_zero()).unwrap_or(max).min(max);
    // Before the transaction is sent, so that its block is not missed. Bytes without a hash are refused below.
    let awaiting = raw::hash_of(&bytes).map(|hash| api.chain.await_tx(hash).ok_or_else(too_many)).transpose()?;
    let hash = send::admitted(api, vec![bytes]).await.pop().ok_or_else(|| RpcError::internal("no answer"))??;
    let placed = match awaiting {
        Some(mut awaiting) => tokio::time::timeout(timeout, async move { awaiting.placed().await }).await,
        None => Ok(None),
    };
    let placed = placed.map_err(|_| RpcError::no_receipt(&hash))?;
    let placed = placed.ok_or_else(|| RpcError::server("the node stops"))?;
    let entry = placed.entry().ok_or_else(|| RpcError::internal("the block lacks its transaction"))?;
    convert::receipt(&api.chain.spec, &placed.block.head, placed.index as u64, entry)
}

fn too_many() -> RpcError {
    RpcError::limit("too many callers wait for receipts: retry later")
}
