//! `eth_sendRawTransactionSync` (EIP-7966): sends a transaction and waits for its receipt.

use super::{
    api::Api,
    args::{self, Args},
    convert,
    error::RpcError,
    registry::{Method, Registry},
    send,
};
use alloy_primitives::B256;
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
    // Before the transaction is sent, so that its block is not missed.
    let mut blocks = api.chain.subscribe();
    let hash = send::admitted(api, vec![bytes]).await.pop().ok_or_else(|| RpcError::internal("no answer"))??;
    let wait = async {
        loop {
            if let Some(receipt) = find(api, hash)? {
                return Ok(receipt);
            }
            // Who falls behind looks at the newest state next.
            if let Err(tokio::sync::broadcast::error::RecvError::Closed) = blocks.recv().await {
                return Err(RpcError::server("the node stops"));
            }
        }
    };
    tokio::time::timeout(timeout, wait).await.unwrap_or_else(|_| Err(RpcError::no_receipt(hash.as_slice())))
}

fn find(api: &Api, hash: B256) -> Result<Option<TransactionReceipt>, RpcError> {
    let Some((height, index, entry)) = api.chain.transaction(&hash)? else { return Ok(None) };
    let head = api.chain.head_at(height)?.ok_or_else(RpcError::pruned)?;
    convert::receipt(&api.chain.spec, &head, index.into(), &entry).map(Some)
}
