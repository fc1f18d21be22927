//! `eth_subscribe`: new heads, logs, transactions that wait, and the state of synchronisation, over WebSocket.
//!
//! A client that is too slow is dropped: it holds up no other, and memory per subscription is bounded.

use super::{api::Api, args, convert, logs, pool, registry::Registry};
use ::phalanx::pool::PooledTx;
use alloy_rpc_types_eth::Filter;
use jsonrpsee::{
    PendingSubscriptionSink, SubscriptionSink,
    types::{ErrorObjectOwned, Params},
};
use serde::Serialize;
use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};
use std::{sync::Arc, time::Duration};
use tokio::sync::broadcast::{Receiver, error::RecvError};

/// Time that a client may take for one message.
const PATIENCE: Duration = Duration::from_secs(10);

/// Subject of a subscription.
#[derive(Debug)]
enum Kind {
    NewHeads,
    Logs(Box<Filter>),
    Pending { full: bool },
    Syncing,
}

pub(super) fn register(registry: &mut Registry) {
    if !registry.serves("eth_subscribe") {
        return;
    }
    let added = registry.module.register_subscription(
        "eth_subscribe",
        "eth_subscription",
        "eth_unsubscribe",
        |params, pending, api, _| async move { serve(&params, pending, api).await },
    );
    debug_assert!(added.is_ok(), "registered once");
}

fn kind(params: &Params<'_>) -> Result<Kind, ErrorObjectOwned> {
    let invalid = |why: String| super::error::RpcError::invalid(why).into();
    let args = args::Args::read(params, 2).map_err(|why| invalid(why.to_string()))?;
    let name = args.required(0, args::json::<String>).map_err(|why| invalid(why.to_string()))?;
    match &name[..] {
        "newHeads" => Ok(Kind::NewHeads),
        "logs" => {
            let filter = args.optional(1, logs::filter).map_err(|why| invalid(why.to_string()))?;
            Ok(Kind::Logs(Box::new(filter.unwrap_or_default())))
        }
        "newPendingTransactions" => {
            let full = args.optional(1, args::json::<bool>).map_err(|why| invalid(why.to_string()))?;
            Ok(Kind::Pending { full: full.unwrap_or_default() })
        }
        "syncing" => Ok(Kind::Syncing),
        other => Err(invalid(format!("no \"{other}\" subscription in eth namespace"))),
    }
}

async fn serve(params: &Params<'_>, pending: PendingSubscriptionSink, api: Arc<Api>) {
    let kind = match kind(params) {
        Ok(kind) => kind,
        Err(error) => return pending.reject(error).await,
    };
    // Before the answer, so that nothing is missed behind it.
    let (blocks, admitted) = (api.chain.subscribe(), api.chain.subscribe_admitted());
    let Ok(sink) = pending.accept().await else { return };
    match kind {
        Kind::NewHeads => follow(&sink, blocks, |block| vec![encode(&convert::header(&block.head))]).await,
        Kind::Logs(filter) => {
            follow(&sink, blocks, |block| logs::matching(block, &filter).map(|log| encode(&log)).collect()).await;
        }
        Kind::Pending { full } => {
            drop(blocks);
            follow(&sink, admitted, |tx| vec![waiting(tx, full)]).await;
        }
        // A node without peers has nothing to catch up with.
        Kind::Syncing => {
            if send(&sink, encode(&false)).await {
                sink.closed().await;
            }
        }
    }
}

/// Sends what each new item gives, until the client goes or falls behind.
async fn follow<T: Clone>(
    sink: &SubscriptionSink,
    mut items: Receiver<T>,
    messages: impl Fn(&T) -> Vec<Box<RawValue>>,
) {
    loop {
        let item = tokio::select! {
            item = items.recv() => item,
            () = sink.closed() => return,
        };
        let item = match item {
            Ok(item) => item,
            Err(RecvError::Lagged(missed)) => {
                tracing::debug!(missed, "a subscriber is too slow and is dropped");
                return;
            }
            Err(RecvError::Closed) => return,
        };
        for message in messages(&item) {
            if !send(sink, message).await {
                return;
            }
        }
    }
}

/// Message about an admitted transaction, also if a block has taken it already.
fn waiting(tx: &PooledTx, full: bool) -> Box<RawValue> {
    match pool::transaction(tx) {
        Ok(transaction) if full => encode(&transaction),
        _ => encode(tx.hash()),
    }
}

/// Returns false if the client has gone, or is too slow.
async fn send(sink: &SubscriptionSink, message: Box<RawValue>) -> bool {
    sink.send_timeout(message, PATIENCE).await.is_ok()
}

/// The types of JSON-RPC have no keys that JSON cannot hold.
fn encode(value: &impl Serialize) -> Box<RawValue> {
    to_raw_value(value).or_else(|_| to_raw_value(&Value::Null)).unwrap_or_default()
}
