//! Methods of installed filters.

use super::{
    api::Api,
    args::{self, Args},
    convert,
    error::RpcError,
    filters::{Cursor, Follows},
    logs::{self, Part},
    registry::Registry,
};
use crate::chain::Missed;
use ::phalanx::pool::PoolEvent;
use alloy_primitives::B256;
use alloy_rpc_types_eth::{Filter, FilterBlockOption, Log};
use serde_json::{Value, to_value};

pub(super) fn register(registry: &mut Registry) {
    registry.light("eth_newFilter", 1, |api, args| {
        let filter = Box::new(logs::read(args)?);
        install(api, Follows::Logs { filter, at: end(api) })
    });
    registry.light("eth_newBlockFilter", 0, |api, _| install(api, Follows::Blocks { at: end(api) }));
    registry.light("eth_newPendingTransactionFilter", 1, |api, _| {
        let cursor = api.chain.service.with_pool(|pool| pool.events_after(u64::MAX).next);
        install(api, Follows::Pending { cursor })
    });
    registry
        .light("eth_uninstallFilter", 1, |api, args| Ok(api.filters.remove(&args.required(0, args::json::<String>)?)));
    registry.heavy("eth_getFilterChanges", 1, changes);
    registry.heavy("eth_getFilterLogs", 1, all_logs);
}

/// Place behind the newest block.
fn end(api: &Api) -> Cursor {
    let returns = api.chain.returns();
    Cursor { next: api.chain.height() + 1, returns }
}

fn install(api: &Api, follows: Follows) -> Result<String, RpcError> {
    api.filters
        .install(follows)
        .ok_or_else(|| RpcError::server("too many filters: uninstall one, or use a subscription"))
}

fn find(api: &Api, args: &Args) -> Result<(String, Follows), RpcError> {
    let name = args.required(0, args::json::<String>)?;
    let follows = api.filters.get(&name).ok_or_else(|| RpcError::server("filter not found"))?;
    Ok((name, follows))
}

/// Bounds of a filter in heights.
const fn bounds(filter: &Filter) -> (Option<u64>, Option<u64>) {
    use alloy_rpc_types_eth::BlockNumberOrTag::Number;
    match filter.block_option {
        FilterBlockOption::Range { from_block, to_block } => (
            match from_block {
                Some(Number(height)) => Some(height),
                _ => None,
            },
            match to_block {
                Some(Number(height)) => Some(height),
                _ => None,
            },
        ),
        FilterBlockOption::AtBlockHash(_) => (None, None),
    }
}

fn changes(api: &Api, args: &Args) -> Result<Value, RpcError> {
    let (name, follows) = find(api, args)?;
    // The chain may have gone back: blocks that came in the place of others are new, and the others' logs are removed.
    let Missed { count: returns, next, removed } = match follows {
        Follows::Logs { at, .. } | Follows::Blocks { at } => api.chain.missed(at.returns, at.next),
        Follows::Pending { .. } => Missed::default(),
    };
    // Behind the look at the returns: what comes between is seen next time.
    let head = api.chain.height();
    let encoded = |value: serde_json::Result<Value>| value.map_err(|error| RpcError::internal(error.to_string()));
    match follows {
        Follows::Logs { filter, .. } => {
            let (least, most) = bounds(&filter);
            let (least, most) = (least.unwrap_or_default(), most.unwrap_or(u64::MAX));
            let given = removed.iter().filter(|block| (least..=most).contains(&block.height()));
            let mut found: Vec<Log> = given.flat_map(|block| convert::removed_logs(block)).collect();
            found.retain(|log| logs::matches(log, &filter));
            // A client that comes back late gets the blocks in parts.
            let end = head.min(next.saturating_add(api.limits.max_range.max(1) - 1));
            let (from, to) = (next.max(least), end.min(most));
            let go_on = |next: u64| {
                api.filters.advance(&name, Follows::Logs { filter: filter.clone(), at: Cursor { next, returns } });
            };
            if from > to {
                go_on(next.max(end + 1));
                return encoded(to_value(found));
            }
            // What cannot be given is an error once, behind the logs that are removed, and the filter goes on behind it.
            let first = api.chain.first()?;
            if from < first {
                if !found.is_empty() {
                    go_on(next);
                    return encoded(to_value(found));
                }
                go_on(first);
                return Err(RpcError::pruned());
            }
            let Part { logs, full } = logs::part(api, &filter, from, to)?;
            match full {
                None => go_on(end + 1),
                Some(height) if logs.is_empty() && found.is_empty() => {
                    go_on(height + 1);
                    return Err(logs::too_large(height));
                }
                Some(height) => go_on(height),
            }
            found.extend(logs);
            encoded(to_value(found))
        }
        Follows::Blocks { .. } => {
            let mut hashes: Vec<B256> = Vec::new();
            let end = head.min(next.saturating_add(api.limits.max_logs as u64 - 1));
            for height in next..=end {
                hashes.extend(api.chain.head_at(height)?.map(|head| head.hash));
            }
            let at = Cursor { next: next.max(end + 1), returns };
            api.filters.advance(&name, Follows::Blocks { at });
            encoded(to_value(hashes))
        }
        Follows::Pending { cursor } => {
            let events = api.chain.service.with_pool(|pool| pool.events_after(cursor));
            let admitted = events.events.iter().filter_map(|event| match event {
                PoolEvent::Admitted { hash, .. } => Some(*hash),
                _ => None,
            });
            let hashes: Vec<B256> = admitted.collect();
            api.filters.advance(&name, Follows::Pending { cursor: events.next });
            encoded(to_value(hashes))
        }
    }
}

fn all_logs(api: &Api, args: &Args) -> Result<Vec<Log>, RpcError> {
    match find(api, args)?.1 {
        Follows::Logs { filter, .. } => logs::query(api, &filter),
        Follows::Blocks { .. } | Follows::Pending { .. } => Err(RpcError::server("filter not found")),
    }
}
