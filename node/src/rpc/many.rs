//! `eth_callMany`: bundles of calls on one state, each call on what those before it have left.

use super::{
    api::Api,
    args::{self, Args, BlockRef},
    calls,
    error::{RpcError, output, simulated},
    registry::Registry,
};
use ::phalanx::revm::DatabaseCommit as _;
use alloy_rpc_types_eth::{BlockOverrides, EthCallResponse, TransactionRequest, state::StateOverride};
use serde_json::Value;

/// Maximum number of calls of all bundles.
const MAX_CALLS: usize = 1_000;

/// Calls that share fields of their block.
struct Bundle {
    calls: Vec<TransactionRequest>,
    overrides: Option<BlockOverrides>,
}

pub(super) fn register(registry: &mut Registry) {
    registry.heavy("eth_callMany", 4, call_many);
}

fn bundles(value: &Value) -> Result<Vec<Bundle>, String> {
    let bundles = value.as_array().ok_or("an array of bundles is expected")?;
    let mut left = MAX_CALLS;
    let bundle = |value: &Value| {
        let calls = value.get("transactions").and_then(Value::as_array).ok_or("a bundle has \"transactions\"")?;
        left = left.checked_sub(calls.len()).ok_or_else(|| format!("too many calls (max {MAX_CALLS})"))?;
        let overrides = value.get("blockOverride").filter(|of| !of.is_null()).map(args::json).transpose()?;
        Ok(Bundle { calls: calls.iter().map(args::call).collect::<Result<_, _>>()?, overrides })
    };
    bundles.iter().map(bundle).collect()
}

/// The state that a context names, which is that after a whole block.
fn context(value: &Value) -> Result<BlockRef, String> {
    let Value::Object(fields) = value else { return args::block(value) };
    let index = fields.get("transactionIndex").filter(|index| !index.is_null());
    if index.is_some_and(|index| index.as_i64() != Some(-1)) {
        return Err("\"transactionIndex\" is not supported: calls run on the state after the block".into());
    }
    fields.get("blockNumber").map_or(Ok(BlockRef::Latest), args::block)
}

fn call_many(api: &Api, args: &Args) -> Result<Vec<Vec<EthCallResponse>>, RpcError> {
    let bundles = args.required(0, bundles)?;
    let block = args.optional(1, context)?.unwrap_or(BlockRef::Latest);
    let state = args.optional(2, args::json::<StateOverride>)?;
    let until = api.until();
    let mut gas = api.limits.gas_cap;
    let mut answers = Vec::with_capacity(bundles.len());
    let (mut simulator, plain) = calls::simulator(api, block, state.as_ref(), None)?;
    for Bundle { calls, overrides } in bundles {
        let mut env = plain.clone();
        if let Some(overrides) = &overrides {
            calls::override_block(&mut env, simulator.state_mut(), overrides)?;
        }
        simulator.env_mut().clone_from(&env);
        let mut bundle = Vec::with_capacity(calls.len());
        for request in calls {
            until.check()?;
            let tx = calls::transaction(request, api.chain.spec.chain_id(), &env, gas)?;
            bundle.push(match simulator.call(&tx) {
                Ok(called) => {
                    gas = gas.saturating_sub(called.result.tx_gas_used());
                    simulator.state_mut().commit(called.state);
                    match output(called.result) {
                        Ok(value) => EthCallResponse { value: Some(value), error: None },
                        Err(error) => EthCallResponse { value: None, error: Some(error.to_string()) },
                    }
                }
                Err(error) => {
                    let error = simulated(tx.caller, &error).to_string();
                    EthCallResponse { value: None, error: Some(error) }
                }
            });
        }
        answers.push(bundle);
    }
    Ok(answers)
}
