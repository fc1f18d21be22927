//! `eth_sendRawTransactionSync` (EIP-7966): sends a transaction and waits for its receipt.

use super::{
    answer::{Answer, Out},
    api::Api,
    args::{self, Args},
    blocks, convert,
    error::RpcError,
    reads::panicked,
    registry::{Method, Registry},
    send,
};
use crate::{chain::Placed, raw};
use jsonrpsee::types::Params;
use serde_json::value::RawValue;
use std::{sync::Arc, time::Duration};
use tokio::{task::spawn_blocking, time::timeout};

pub(super) fn register(registry: &mut Registry) {
    registry.add("eth_sendRawTransactionSync", Method::Wait);
}

/// Answers the request of an id into an empty answer.
pub(super) async fn answer(params: &Params<'_>, api: &Arc<Api>, id: &RawValue, out: Out) -> Result<Answer, RpcError> {
    let placed = placed(params, api).await?;
    if placed.entry().is_none_or(|entry| blocks::bytes_if_few(core::slice::from_ref(entry)).is_some()) {
        return write(api, &placed, id, out);
    }
    // A long one would hold up the connections that share this thread.
    let (api, id) = (Arc::clone(api), id.to_owned());
    spawn_blocking(move || write(&api, &placed, &id, out)).await.unwrap_or_else(|_| Err(panicked()))
}

/// Sends the transaction, and waits until a visible block holds it.
async fn placed(params: &Params<'_>, api: &Api) -> Result<Placed, RpcError> {
    let args = Args::read(params, 2)?;
    let bytes = send::check(args.required(0, args::bytes)?)?;
    let wanted = args.optional(1, args::count)?.map(Duration::from_millis);
    let max = api.limits.max_wait;
    let wait = wanted.filter(|wanted| !wanted.is_zero()).unwrap_or(max).min(max);
    // Before the transaction is sent, so that its block is not missed.
    let noted = raw::hash_of(&bytes).map(|hash| api.chain.await_tx(hash).ok_or_else(too_many)).transpose()?;
    let hash = send::admitted(api, vec![bytes]).await.pop().ok_or_else(|| RpcError::internal("no answer"))??;
    // Bytes whose hash only the pool can tell are noted late. There is a transaction now, whose sender learns its hash.
    let noted = noted.or_else(|| api.chain.await_tx(hash));
    let mut awaiting = noted.ok_or_else(|| RpcError::no_receipt(&hash))?;
    // The pool follows the chain a moment later: it may admit what a block that was visible before the note holds.
    if let Some(placed) = api.chain.recent_transaction(&hash) {
        return Ok(placed);
    }
    // At the node's end the wait ends early.
    timeout(wait, awaiting.placed()).await.ok().flatten().ok_or_else(|| RpcError::no_receipt(&hash))
}

fn write(api: &Api, placed: &Placed, id: &RawValue, mut out: Out) -> Result<Answer, RpcError> {
    let entry = placed.entry().ok_or_else(|| RpcError::internal("the block lacks its transaction"))?;
    let receipt = convert::receipt(&api.chain.spec, &placed.block.head, placed.index as u64, entry)?;
    out.result(id, &receipt)?;
    Ok(out.finish())
}

fn too_many() -> RpcError {
    RpcError::limit("too many callers wait for receipts: retry later")
}
