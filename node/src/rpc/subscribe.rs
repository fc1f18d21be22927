//! `eth_subscribe`: new heads, logs, transactions that wait, and the state of synchronisation, over WebSocket.
//!
//! A client that is too slow is dropped: it holds up no other, and memory per subscription is bounded.

use super::{api::Api, args, convert, logs, pool, registry::Registry};
use crate::chain::NewBlock;
use ::phalanx::pool::PoolEvent;
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

/// Interval at which the pool is asked for new transactions.
const POOL_INTERVAL: Duration = Duration::from_millis(50);

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
    // Before the answer, so that no block is missed behind it.
    let blocks = api.chain.subscribe();
    let Ok(sink) = pending.accept().await else { return };
    match kind {
        Kind::NewHeads => follow(&sink, blocks, |block| vec![encode(&convert::header(&block.head))]).await,
        Kind::Logs(filter) => {
            follow(&sink, blocks, |block| logs::matching(block, &filter).map(|log| encode(&log)).collect()).await;
        }
        Kind::Pending { full } => follow_pool(&sink, &api, full).await,
        // A node without peers has nothing to catch up with.
        Kind::Syncing => {
            if send(&sink, encode(&false)).await {
                sink.closed().await;
            }
        }
    }
}

/// Sends what each new block gives, until the client goes or falls behind.
async fn follow(
    sink: &SubscriptionSink,
    mut blocks: Receiver<NewBlock>,
    messages: impl Fn(&NewBlock) -> Vec<Box<RawValue>>,
) {
    loop {
        let block = tokio::select! {
            block = blocks.recv() => block,
            () = sink.closed() => return,
        };
        let block = match block {
            Ok(block) => block,
            Err(RecvError::Lagged(missed)) => {
                tracing::debug!(missed, "a subscriber is too slow and is dropped");
                return;
            }
            Err(RecvError::Closed) => return,
        };
        for message in messages(&block) {
            if !send(sink, message).await {
                return;
            }
        }
    }
}

async fn follow_pool(sink: &SubscriptionSink, api: &Api, full: bool) {
    let mut cursor = api.chain.service.with_pool(|pool| pool.events_after(u64::MAX).next);
    let mut interval = tokio::time::interval(POOL_INTERVAL);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = interval.tick() => {}
            () = sink.closed() => return,
        }
        let events = api.chain.service.with_pool(|pool| pool.events_after(cursor));
        cursor = events.next;
        for event in events.events {
            let PoolEvent::Admitted { hash, .. } = event else { continue };
            let message = if full {
                // A block may have taken it already.
                let Some(pooled) = api.chain.service.with_pool(|pool| pool.get(&hash).cloned()) else { continue };
                let Ok(transaction) = pool::transaction(&pooled) else { continue };
                encode(&transaction)
            } else {
                encode(&hash)
            };
            if !send(sink, message).await {
                return;
            }
        }
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
