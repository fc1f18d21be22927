//! `txpool_*`: transactions that wait, by sender and nonce.

use super::{api::Api, args, error::RpcError, registry::Registry};
use ::phalanx::pool::{Pool, PooledTx};
use alloy_consensus::{Transaction as _, TxEnvelope, transaction::Recovered};
use alloy_eips::Decodable2718 as _;
use alloy_primitives::{Address, U64};
use alloy_rpc_types_eth::Transaction;
use serde::Serialize;
use serde_json::json;
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

/// Something by sender and nonce.
type BySender<T> = BTreeMap<String, BTreeMap<String, T>>;

/// Transactions that can run, and those that cannot yet.
#[derive(Clone, Debug, Serialize)]
struct Content<T> {
    pending: T,
    queued: T,
}

pub(super) fn register(registry: &mut Registry) {
    registry.light("txpool_status", 0, |api, _| {
        let (ready, future) = api.chain.service.with_pool(|pool| (pool.ready_load().txs, pool.future_load().txs));
        Ok(json!({ "pending": U64::from(ready), "queued": U64::from(future) }))
    });
    registry.heavy("txpool_content", 0, |api, _| content(api, None, transaction));
    registry.heavy("txpool_contentFrom", 1, |api, args| {
        let address = args.required(0, args::address)?;
        let Content { mut pending, mut queued } = content(api, Some(address), transaction)?;
        let of = |all: &mut BySender<Transaction>| all.remove(&address.to_string()).unwrap_or_default();
        Ok(Content { pending: of(&mut pending), queued: of(&mut queued) })
    });
    registry.heavy("txpool_inspect", 0, |api, _| content(api, None, summary));
}

/// A transaction of the pool: it has no place yet.
pub(super) fn transaction(pooled: &PooledTx) -> Result<Transaction, RpcError> {
    let envelope = TxEnvelope::decode_2718_exact(pooled.bytes())
        .map_err(|error| RpcError::internal(format!("a pooled transaction cannot be decoded: {error}")))?;
    let effective_gas_price = Some(envelope.max_fee_per_gas());
    Ok(Transaction {
        inner: Recovered::new_unchecked(envelope, pooled.tx().caller),
        block_hash: None,
        block_number: None,
        transaction_index: None,
        effective_gas_price,
        block_timestamp: None,
    })
}

fn summary(pooled: &PooledTx) -> Result<String, RpcError> {
    let tx = pooled.tx();
    let to = tx.kind.to().map_or_else(|| "contract creation".into(), ToString::to_string);
    Ok(format!("{to}: {} wei + {} gas × {} wei", tx.value, tx.gas_limit, tx.gas_price))
}

/// All transactions of the pool, or those of a sender. The pool is locked while handles are copied, no longer.
fn content<T>(
    api: &Api,
    sender: Option<Address>,
    show: fn(&PooledTx) -> Result<T, RpcError>,
) -> Result<Content<BySender<T>>, RpcError> {
    let (txs, next) = api.chain.service.with_pool(|pool| listed(pool, sender));
    let mut content = Content { pending: BySender::new(), queued: BySender::new() };
    for pooled in txs {
        let (caller, nonce) = (pooled.tx().caller, pooled.tx().nonce);
        let runs = next.get(&caller).is_some_and(|next| nonce < *next);
        let part = if runs { &mut content.pending } else { &mut content.queued };
        part.entry(caller.to_string()).or_default().insert(nonce.to_string(), show(&pooled)?);
    }
    Ok(content)
}

/// Transactions, and the nonce of each sender behind those that can run.
fn listed(pool: &Pool, sender: Option<Address>) -> (Vec<Arc<PooledTx>>, HashMap<Address, u64>) {
    let txs: Vec<_> = match &sender {
        Some(sender) => pool.of_sender(sender).cloned().collect(),
        None => pool.iter().cloned().collect(),
    };
    let mut next = HashMap::new();
    for pooled in &txs {
        let caller = pooled.tx().caller;
        if let std::collections::hash_map::Entry::Vacant(vacant) = next.entry(caller)
            && let Some(nonce) = pool.next_nonce(&caller)
        {
            vacant.insert(nonce);
        }
    }
    (txs, next)
}
