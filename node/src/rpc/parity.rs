//! `trace_*`: traces in the form of OpenEthereum, as explorers and indexers ask for them.

use super::{
    api::Api,
    args::{self, Args, BlockRef},
    calls,
    error::RpcError,
    meter::Room,
    registry::Registry,
    traced::{Placed, Traced, room, run, visit},
};
use crate::store::Block;
use ::phalanx::{recover, revm::DatabaseCommit as _};
use alloy_primitives::{B256, map::HashSet};
use alloy_rpc_types_eth::{BlockOverrides, TransactionInfo, state::StateOverride};
use alloy_rpc_types_trace::{
    filter::TraceFilter,
    parity::{LocalizedTransactionTrace, TraceResults, TraceResultsWithTransactionHash, TraceType},
};
use revm_inspectors::tracing::{DebugInspector, TracingInspector, TracingInspectorConfig, parity::ParityTraceBuilder};
use serde_json::Value;
use std::sync::Arc;

/// Maximum number of calls of a `trace_callMany`.
const MAX_CALLS: usize = 1_000;

/// Kinds of traces that a request asks for.
type Kinds = HashSet<TraceType>;

pub(super) fn register(registry: &mut Registry) {
    registry.heavy("trace_block", 1, |api, args| {
        let Some(block) = block(api, args)? else { return Ok(None) };
        localized(api, &block, &mut room(api), |_| true).map(Some)
    });
    registry.heavy("trace_transaction", 1, |api, args| of_transaction(api, args.required(0, args::hash)?));
    registry.heavy("trace_get", 2, |api, args| {
        let path: Vec<usize> = args.required(1, path)?;
        let traces = of_transaction(api, args.required(0, args::hash)?)?.unwrap_or_default();
        Ok(traces.into_iter().find(|one| one.trace.trace_address == path))
    });
    registry.heavy("trace_filter", 1, filter);
    registry.heavy("trace_replayTransaction", 2, |api, args| {
        let (hash, kinds) = (args.required(0, args::hash)?, args.required(1, kinds)?);
        let (block, index) = transaction(api, hash)?.ok_or_else(|| RpcError::server("transaction not found"))?;
        let mut replayed = replayed(api, &block, &kinds, |place| place == index)?;
        Ok(replayed.pop().map(|(_, trace)| trace))
    });
    registry.heavy("trace_replayBlockTransactions", 2, |api, args| {
        let (Some(block), kinds) = (block(api, args)?, args.required(1, kinds)?) else { return Ok(None) };
        let of = |(transaction_hash, full_trace)| TraceResultsWithTransactionHash { full_trace, transaction_hash };
        Ok(Some(replayed(api, &block, &kinds, |_| true)?.into_iter().map(of).collect::<Vec<_>>()))
    });
    registry.heavy("trace_call", 5, call);
    registry.heavy("trace_callMany", 2, call_many);
    registry.heavy("trace_rawTransaction", 3, raw_transaction);
}

fn kinds(value: &Value) -> Result<Kinds, String> {
    Ok(args::json::<Vec<TraceType>>(value)?.into_iter().collect())
}

/// Reads the place of a trace in its transaction: quantities, or plain numbers.
fn path(value: &Value) -> Result<Vec<usize>, String> {
    let places = value.as_array().ok_or("an array of places is expected")?;
    let place = |value| usize::try_from(args::count(value)?).map_err(|error| error.to_string());
    places.iter().map(place).collect()
}

fn block(api: &Api, args: &Args) -> Result<Option<Arc<Block>>, RpcError> {
    api.block(args.required(0, args::block)?)
}

/// Block and place of a transaction.
fn transaction(api: &Api, hash: B256) -> Result<Option<(Arc<Block>, u32)>, RpcError> {
    let Some((height, index, _)) = api.chain.transaction(&hash)? else { return Ok(None) };
    Ok(Some((api.chain.block(height)?.ok_or_else(RpcError::pruned)?, index)))
}

pub(super) fn of_transaction(api: &Api, hash: B256) -> Result<Option<Vec<LocalizedTransactionTrace>>, RpcError> {
    let Some((block, index)) = transaction(api, hash)? else { return Ok(None) };
    localized(api, &block, &mut room(api), |place| place == index).map(Some)
}

/// A tracer for these kinds of traces.
fn tracer(kinds: &Kinds) -> (DebugInspector, usize) {
    let config = TracingInspectorConfig::from_parity_config(kinds);
    (DebugInspector::FlatCallTracer(TracingInspector::new(config)), 0)
}

fn builder(tracer: DebugInspector) -> Result<ParityTraceBuilder, RpcError> {
    match tracer {
        DebugInspector::FlatCallTracer(tracer) => Ok(tracer.into_parity_builder()),
        _ => Err(RpcError::internal("another tracer has run")),
    }
}

/// Traces of the executed transactions of a block whose places `wanted` accepts, one after the other.
fn localized(
    api: &Api,
    block: &Block,
    room: &mut Room,
    wanted: impl Fn(u32) -> bool,
) -> Result<Vec<LocalizedTransactionTrace>, RpcError> {
    if block.entries.is_empty() {
        return Ok(Vec::new());
    }
    let kinds = Kinds::from_iter([TraceType::Trace]);
    let header = &block.head.header;
    let traces = visit(api, block, room, wanted, |placed, room| {
        let Placed { entry, tx, simulator, env, context } = placed;
        let info = TransactionInfo {
            hash: Some(entry.hash),
            index: context.tx_index.map(|index| index as u64),
            block_hash: Some(block.head.hash),
            block_number: Some(header.number),
            base_fee: header.base_fee_per_gas,
            ..TransactionInfo::default()
        };
        Ok(builder(run(simulator, env, tx, tracer(&kinds), room)?.tracer)?.into_localized_transaction_traces(info))
    })?;
    Ok(traces.into_iter().flatten().collect())
}

/// Results of a run, of the kinds that are requested.
fn results(traced: Traced<'_>, kinds: &Kinds) -> Result<TraceResults, RpcError> {
    let Traced { tracer, ran, state, .. } = traced;
    let shown = builder(tracer)?.into_trace_results_with_state(&ran, kinds, state);
    shown.map_err(|error| RpcError::internal(error.to_string()))
}

fn replayed(
    api: &Api,
    block: &Block,
    kinds: &Kinds,
    wanted: impl Fn(u32) -> bool,
) -> Result<Vec<(B256, TraceResults)>, RpcError> {
    if block.entries.is_empty() {
        return Ok(Vec::new());
    }
    visit(api, block, &mut room(api), wanted, |placed, room| {
        let Placed { entry, tx, simulator, env, .. } = placed;
        Ok((entry.hash, results(run(simulator, env, tx, tracer(kinds), room)?, kinds)?))
    })
}

/// Traces of a range of blocks by sender and receiver, within the limits of a log query and of a trace.
fn filter(api: &Api, args: &Args) -> Result<Vec<LocalizedTransactionTrace>, RpcError> {
    let (filter, from, to) = args.required(0, |value| {
        let fields = value.as_object().ok_or("an object is expected")?;
        let of = |name: &str| fields.get(name).filter(|value| !value.is_null()).map(args::number).transpose();
        let (from, to) = (of("fromBlock")?, of("toBlock")?);
        // Its own reader takes no tags.
        let mut rest = fields.clone();
        ["fromBlock", "toBlock"].iter().for_each(|name| _ = rest.remove(*name));
        Ok((args::json::<TraceFilter>(&Value::Object(rest))?, from, to))
    })?;
    let height = |block: Option<BlockRef>, default| match block {
        None => api.height(default),
        Some(BlockRef::Pending) => Ok(Some(api.chain.height())),
        Some(BlockRef::Height(height)) => Ok(Some(height)),
        Some(other) => api.height(other),
    };
    let missing = || RpcError::server("block not found");
    let from = height(from, BlockRef::Earliest)?.ok_or_else(missing)?;
    let to = height(to, BlockRef::Latest)?.ok_or_else(missing)?.min(api.chain.height());
    if from > to {
        return Err(RpcError::invalid("invalid block range params"));
    }
    if to - from >= api.limits.max_range {
        return Err(RpcError::server(format!("query exceeds max block range {}", api.limits.max_range)));
    }
    let matcher = filter.matcher();
    let count = filter.count.map_or(usize::MAX, |count| usize::try_from(count).unwrap_or(usize::MAX));
    let mut left_out = filter.after.unwrap_or_default();
    let (mut found, mut room) = (Vec::new(), room(api));
    for height in from..=to {
        room.until.check()?;
        let block = api.chain.block(height)?.ok_or_else(RpcError::pruned)?;
        for trace in localized(api, &block, &mut room, |_| true)? {
            if !matcher.matches(&trace.trace) {
                continue;
            }
            if left_out > 0 {
                left_out -= 1;
            } else if found.len() < count {
                found.push(trace);
            }
        }
        if found.len() >= count {
            break;
        }
    }
    Ok(found)
}

fn call(api: &Api, args: &Args) -> Result<TraceResults, RpcError> {
    let (request, kinds, block) = (args.required(0, args::call)?, args.required(1, kinds)?, args.block(2)?);
    let state = args.optional(3, args::json::<StateOverride>)?;
    let overrides = args.optional(4, args::json::<BlockOverrides>)?;
    let (simulator, env) = calls::simulator(api, block, state.as_ref(), overrides.as_ref())?;
    let tx = calls::transaction(request, api.chain.spec.chain_id(), &env, api.limits.gas_cap)?;
    results(run(&simulator, &env, &tx, tracer(&kinds), &mut room(api))?, &kinds)
}

/// Calls on one state, each on what those before it have left.
fn call_many(api: &Api, args: &Args) -> Result<Vec<TraceResults>, RpcError> {
    let calls = args.required(0, |value| {
        let calls = value.as_array().ok_or("an array of calls is expected")?;
        if calls.len() > MAX_CALLS {
            return Err(format!("too many calls (max {MAX_CALLS})"));
        }
        let read = |value: &Value| match value.as_array().map(Vec::as_slice) {
            Some([call, of]) => Ok((args::call(call)?, kinds(of)?)),
            _ => Err("a call and its kinds of traces are expected".to_owned()),
        };
        calls.iter().map(read).collect::<Result<Vec<_>, _>>()
    })?;
    let (mut simulator, env) = calls::simulator(api, args.block(1)?, None, None)?;
    let mut room = room(api);
    let each = |(request, kinds): (_, Kinds)| {
        room.until.check()?;
        let tx = calls::transaction(request, api.chain.spec.chain_id(), &env, api.limits.gas_cap)?;
        let traced = run(&simulator, &env, &tx, tracer(&kinds), &mut room)?;
        let changes = traced.ran.state.clone();
        let shown = results(traced, &kinds);
        simulator.state_mut().commit(changes);
        shown
    };
    calls.into_iter().map(each).collect()
}

/// A signed transaction on a state, as if it were the next one.
fn raw_transaction(api: &Api, args: &Args) -> Result<TraceResults, RpcError> {
    let (bytes, kinds) = (args.required(0, args::bytes)?, args.required(1, kinds)?);
    let tx = recover(&bytes).map_err(|error| RpcError::invalid(error.to_string()))?;
    let (simulator, env) = calls::simulator(api, args.block(2)?, None, None)?;
    results(run(&simulator, &env, &tx, tracer(&kinds), &mut room(api))?, &kinds)
}
