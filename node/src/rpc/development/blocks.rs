//! Blocks on request, snapshots, and when blocks are made.

use super::{
    common::{add, boolean, next, order, short},
    time::check_after,
};
use crate::{
    next::Said,
    orders::Order,
    rpc::{
        api::Api,
        args::{self, Args},
        error::RpcError,
        registry::Registry,
    },
};
use ::phalanx::pool::PooledTx;
use alloy_primitives::{B256, U64};
use serde_json::Value;
use std::time::Duration;

/// Maximum time from one block to the next, in seconds: a day.
const LONGEST: u64 = 86_400;

pub(super) fn register(registry: &mut Registry) {
    add(registry, &["evm_mine"], 1, mine_one);
    add(registry, &["anvil_mine", "hardhat_mine"], 2, mine);
    add(registry, &["evm_snapshot", "anvil_snapshot"], 0, |api, _| Ok(U64::from(order(api, Order::Snapshot)?)));
    add(registry, &["evm_revert", "anvil_revert"], 1, |api, args| {
        let number = args.required(0, short)?;
        Ok(order(api, Order::Revert(number))? == 1)
    });
    add(registry, &["anvil_reset", "hardhat_reset"], 1, reset);
    add(registry, &["anvil_rollback"], 1, |api, args| {
        let (depth, height) = (args.optional(0, short)?.unwrap_or(1), api.chain.height());
        let to = height.checked_sub(depth).filter(|to| *to >= api.chain.genesis.number);
        let to = to.ok_or_else(|| RpcError::invalid(format!("the chain has {height} blocks, not {depth}")))?;
        order(api, Order::Rewind(to))?;
        Ok(Value::Null)
    });
    add(registry, &["evm_setAutomine", "anvil_setAutomine"], 1, |api, args| {
        let is_instant = Some(args.required(0, boolean)?);
        order(api, Order::SetPace { is_instant, period: None }).map(|_| true)
    });
    add(registry, &["hardhat_getAutomine", "anvil_getAutomine"], 0, |api, _| Ok(api.exit.rounds().is_some()));
    add(registry, &["evm_setIntervalMining", "anvil_setIntervalMining"], 1, |api, args| {
        let seconds = args.required(0, short)?;
        if seconds > LONGEST {
            return Err(RpcError::invalid(format!("{seconds} s from block to block are more than a day")));
        }
        let period = Some((seconds > 0).then(|| Duration::from_secs(seconds)));
        order(api, Order::SetPace { is_instant: None, period }).map(|_| true)
    });
    add(registry, &["anvil_dropTransaction", "hardhat_dropTransaction"], 1, |api, args| {
        let hash: B256 = args.required(0, args::hash)?;
        Ok(api.chain.service.forget(&hash))
    });
    add(registry, &["anvil_removePoolTransactions"], 1, |api, args| {
        let sender = args.required(0, args::address)?;
        drop_waiting(api, |tx| tx.recovered().tx().caller == sender);
        Ok(Value::Null)
    });
    add(registry, &["anvil_dropAllTransactions"], 0, |api, _| {
        drop_waiting(api, |_| true);
        Ok(true)
    });
}

/// Drops the transactions of the pool that are meant.
fn drop_waiting(api: &Api, is_meant: impl Fn(&PooledTx) -> bool) {
    let all: Vec<B256> = api.chain.service.with_pool(|pool| {
        let meant = pool.iter().filter(|tx| is_meant(tx));
        meant.map(|tx| *tx.hash()).collect()
    });
    all.iter().for_each(|hash| _ = api.chain.service.forget(hash));
}

/// Makes a block: at a time, or as many as an object says.
fn mine_one(api: &Api, args: &Args) -> Result<&'static str, RpcError> {
    let (blocks, first) = match args.value(0) {
        Some(Value::Object(fields)) => {
            let of = |name: &str| fields.get(name).filter(|value| !value.is_null()).map(short).transpose();
            let read = of("blocks").and_then(|blocks| Ok((blocks.unwrap_or(1), of("timestamp")?)));
            read.map_err(RpcError::invalid)?
        }
        _ => (1, args.optional(0, short)?),
    };
    if let Some(time) = first {
        check_after(api, time)?;
    }
    order(api, Order::Mine { blocks, first, interval: None })?;
    Ok("0x0")
}

fn mine(api: &Api, args: &Args) -> Result<bool, RpcError> {
    let (blocks, interval) = (args.optional(0, short)?.unwrap_or(1), args.optional(1, short)?);
    order(api, Order::Mine { blocks, first: None, interval })?;
    Ok(true)
}

/// Goes back to the genesis.
fn reset(api: &Api, args: &Args) -> Result<bool, RpcError> {
    let forks = |value: &Value| value.get("forking").or(Some(value)).is_some_and(|of| of.get("jsonRpcUrl").is_some());
    if args.value(0).is_some_and(forks) {
        return Err(RpcError::invalid("another chain is named at the start, by --fork-url: leave out \"forking\""));
    }
    order(api, Order::Rewind(api.chain.genesis.number))?;
    next(api)?.say(|said| {
        *said = Said { gas_limit: said.gas_limit, beneficiary: said.beneficiary, ..Said::default() };
    });
    api.keyring.forget();
    Ok(true)
}
