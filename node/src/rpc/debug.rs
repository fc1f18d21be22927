//! `debug_*`: traces of transactions, blocks and calls by geth's tracers, and raw encodings.

use super::{
    api::Api,
    args::{self, Args, BlockRef},
    calls::{self, CallState},
    convert,
    error::RpcError,
    meter::Room,
    registry::Registry,
    traced::{Placed, room, run, visit},
};
use crate::{chain::StateUnread, store::Block};
use ::phalanx::{
    revm::{
        DatabaseRef as _,
        context::{BlockEnv, TxEnv},
    },
    simulate::Simulator,
};
use alloy_consensus::TxEnvelope;
use alloy_eips::{Encodable2718 as _, eip4895::Withdrawals};
use alloy_primitives::{B256, Bytes};
use alloy_rlp::{Decodable as _, Encodable as _};
use alloy_rpc_types_trace::{
    common::TraceResult,
    geth::{DiffMode, GethDebugTracingCallOptions, GethDebugTracingOptions, GethTrace, PreStateFrame},
};
use revm_inspectors::tracing::{DebugInspector, TransactionContext};
use serde_json::Value;

pub(super) fn register(registry: &mut Registry) {
    registry.heavy("debug_traceTransaction", 2, trace_transaction);
    registry.heavy("debug_traceBlockByNumber", 2, |api, args| trace_block(api, args.required(0, args::number)?, args));
    registry.heavy("debug_traceBlockByHash", 2, |api, args| {
        trace_block(api, BlockRef::Hash(args.required(0, args::hash)?), args)
    });
    registry.heavy("debug_traceBlock", 2, |api, args| {
        let rlp = args.required(0, args::bytes)?;
        let block = alloy_consensus::Block::<TxEnvelope>::decode(&mut &rlp[..]);
        let block = block.map_err(|error| RpcError::invalid(format!("could not decode block: {error}")))?;
        // Its hash binds the rest. Other blocks than those of the chain have no state here.
        trace_block(api, BlockRef::Hash(block.header.hash_slow()), args)
    });
    registry.instant("debug_getBadBlocks", 0, |_, _| Ok(Vec::<Value>::new()));
    registry.heavy("debug_traceCall", 3, trace_call);
    registry.light("debug_getRawHeader", 1, |api, args| {
        let head = api.head(args.required(0, args::block)?)?.ok_or_else(|| RpcError::server("header not found"))?;
        Ok(Bytes::from(alloy_rlp::encode(&head.header)))
    });
    registry.light("debug_getRawBlock", 1, |api, args| {
        let block = api.block(args.required(0, args::block)?)?.ok_or_else(|| RpcError::server("block not found"))?;
        raw_block(&block)
    });
    registry.light("debug_getRawReceipts", 1, |api, args| {
        let block = api.block(args.required(0, args::block)?)?.ok_or_else(|| RpcError::server("block not found"))?;
        let receipts = (0..).zip(&block.entries).map(|(index, entry)| {
            let receipt = convert::receipt(&api.chain.spec, &block.head, index, entry)?;
            Ok(Bytes::from(receipt.inner.into_primitives_receipt().encoded_2718()))
        });
        receipts.collect::<Result<Vec<_>, RpcError>>()
    });
    registry.light("debug_getRawTransaction", 1, |api, args| {
        let found = api.chain.transaction(&args.required(0, args::hash)?)?;
        Ok(found.map_or_else(Bytes::new, |(_, _, entry)| entry.bytes))
    });
}

fn raw_block(block: &Block) -> Result<Bytes, RpcError> {
    let transactions = block.entries.iter().map(convert::envelope).collect::<Result<_, _>>()?;
    let attributes = ::phalanx::BlockAttributes::decode(&block.head.attributes)
        .ok_or_else(|| RpcError::internal("stored attributes cannot be decoded"))?;
    let withdrawals = block.head.header.withdrawals_root.map(|_| Withdrawals::new(attributes.withdrawals));
    let body = alloy_consensus::BlockBody { transactions, ommers: Vec::new(), withdrawals };
    let whole = alloy_consensus::Block { header: block.head.header.clone(), body };
    let mut out = Vec::with_capacity(whole.length());
    whole.encode(&mut out);
    Ok(out.into())
}

/// Traces one transaction or call on a state.
fn trace(
    simulator: &Simulator<CallState>,
    env: &BlockEnv,
    tx: &TxEnv,
    options: &GethDebugTracingOptions,
    room: &mut Room,
    place: Option<TransactionContext>,
) -> Result<GethTrace, RpcError> {
    let tracer = DebugInspector::new(options.clone()).map_err(|error| RpcError::invalid(error.to_string()))?;
    let mut traced = run(simulator, env, tx, (tracer, shown_steps(options)), room)?;
    let trace = traced.tracer.get_result(place, tx, env, &traced.ran, &mut traced.state);
    let mut trace = trace.map_err(|error| RpcError::internal(error.to_string()))?;
    if let GethTrace::PreStateTracer(PreStateFrame::Diff(diff)) = &mut trace {
        leave_out_new(diff, traced.state)?;
    }
    Ok(slim(trace, &traced.refunds))
}

/// Leaves accounts out of the state before that were not there, as geth does.
fn leave_out_new(diff: &mut DiffMode, state: &CallState) -> Result<(), RpcError> {
    let mut new = Vec::new();
    for address in diff.pre.keys() {
        let account = state.basic_ref(*address).map_err(StateUnread::from)?;
        new.extend(account.is_none_or(|account| account.is_empty()).then_some(*address));
    }
    new.iter().for_each(|address| _ = diff.pre.remove(address));
    Ok(())
}

/// Number of instructions that a trace shows at most: none, unless it is of struct logs.
fn shown_steps(options: &GethDebugTracingOptions) -> usize {
    let most = options.config.limit.filter(|limit| *limit != 0).unwrap_or(u64::MAX);
    if options.tracer.is_none() { usize::try_from(most).unwrap_or(usize::MAX) } else { 0 }
}

/// Sets the transaction's refund counter in struct logs, and leaves out what is zero or empty, as geth does.
fn slim(mut trace: GethTrace, refunds: &[u64]) -> GethTrace {
    if let GethTrace::Default(frame) = &mut trace {
        for (log, refund) in frame.struct_logs.iter_mut().zip(refunds) {
            log.refund_counter = Some(*refund).filter(|refund| *refund > 0);
            log.return_data = log.return_data.take().filter(|data| !data.is_empty());
            log.memory = log.memory.take().filter(|memory| !memory.is_empty());
        }
    }
    trace
}

fn options(args: &Args) -> Result<GethDebugTracingOptions, RpcError> {
    Ok(args.optional(1, args::json::<GethDebugTracingOptions>)?.unwrap_or_default())
}

/// Traces the executed transactions of a block whose places `wanted` accepts.
fn traces(
    api: &Api,
    block: &Block,
    options: &GethDebugTracingOptions,
    wanted: impl Fn(u32) -> bool,
) -> Result<Vec<(B256, GethTrace)>, RpcError> {
    visit(api, block, &mut room(api), wanted, |placed, room| {
        let Placed { entry, tx, simulator, env, context } = placed;
        Ok((entry.hash, trace(simulator, env, tx, options, room, Some(*context))?))
    })
}

fn trace_transaction(api: &Api, args: &Args) -> Result<GethTrace, RpcError> {
    let hash = args.required(0, args::hash)?;
    let options = options(args)?;
    let (height, index, _) = api.chain.transaction(&hash)?.ok_or_else(|| RpcError::server("transaction not found"))?;
    let block = api.chain.block(height)?.ok_or_else(RpcError::pruned)?;
    let mut traces = traces(api, &block, &options, |place| place == index)?;
    traces.pop().map(|(_, trace)| trace).ok_or_else(|| RpcError::server("transaction not found"))
}

fn trace_block(api: &Api, block: BlockRef, args: &Args) -> Result<Vec<TraceResult<GethTrace, String>>, RpcError> {
    let options = options(args)?;
    let block = api.block(block)?.ok_or_else(|| RpcError::server("block not found"))?;
    let traces = traces(api, &block, &options, |_| true)?;
    Ok(traces.into_iter().map(|(hash, result)| TraceResult::Success { result, tx_hash: Some(hash) }).collect())
}

fn trace_call(api: &Api, args: &Args) -> Result<GethTrace, RpcError> {
    let request = args.required(0, args::call)?;
    let block = args.block(1)?;
    let options = args.optional(2, args::json::<GethDebugTracingCallOptions>)?.unwrap_or_default();
    if options.tx_index.is_some() {
        return Err(RpcError::invalid("txIndex is not supported: the call runs on the state after the block"));
    }
    let (state, overrides) = (options.state_overrides.as_ref(), options.block_overrides.as_ref());
    let (simulator, env) = calls::simulator(api, block, state, overrides)?;
    let tx = calls::transaction(request, api.chain.spec.chain_id(), &env, api.limits.gas_cap)?;
    trace(&simulator, &env, &tx, &options.tracing_options, &mut room(api), None)
}
