//! What is below the first block of a chain that goes on from another one: the other node answers, and its answers come back as they
//! are.

use super::{
    api::Api,
    args::{self, Args, BlockRef},
    error::RpcError,
    logs,
};
use crate::remote::{Remote, RemoteError};
use alloy_primitives::B256;
use serde_json::{Value, json, value::RawValue};

/// What a method names first of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Names {
    /// The state after a block, by an argument at this place.
    State(usize),
    /// A block with its transactions, by an argument at this place.
    Block(usize),
    /// A transaction, by its hash.
    Transaction,
    /// A range of blocks.
    Logs,
}

/// What a method names; `None` for one that names nothing below the chain.
fn names(method: &str) -> Option<Names> {
    Some(match method {
        "eth_getBalance"
        | "eth_getCode"
        | "eth_getTransactionCount"
        | "eth_getStorageValues"
        | "eth_getAccountInfo"
        | "eth_call"
        | "eth_callMany"
        | "eth_estimateGas"
        | "eth_createAccessList"
        | "eth_simulateV1"
        | "debug_traceCall"
        | "eth_feeHistory"
        | "trace_callMany"
        | "ots_hasCode" => Names::State(1),
        "eth_getStorageAt" | "eth_getProof" | "trace_call" => Names::State(2),
        "eth_getBlockByNumber"
        | "eth_getBlockByHash"
        | "eth_getHeaderByNumber"
        | "eth_getHeaderByHash"
        | "eth_getBlockReceipts"
        | "eth_getBlockTransactionCountByNumber"
        | "eth_getBlockTransactionCountByHash"
        | "eth_getUncleCountByBlockNumber"
        | "eth_getUncleCountByBlockHash"
        | "eth_getUncleByBlockNumberAndIndex"
        | "eth_getUncleByBlockHashAndIndex"
        | "eth_getTransactionByBlockNumberAndIndex"
        | "eth_getTransactionByBlockHashAndIndex"
        | "eth_getRawTransactionByBlockNumberAndIndex"
        | "eth_getRawTransactionByBlockHashAndIndex"
        | "erigon_getHeaderByNumber"
        | "debug_traceBlockByNumber"
        | "debug_traceBlockByHash"
        | "debug_getRawHeader"
        | "debug_getRawBlock"
        | "debug_getRawReceipts"
        | "trace_block"
        | "trace_replayBlockTransactions"
        | "ots_getBlockDetails"
        | "ots_getBlockDetailsByHash"
        | "ots_getBlockTransactions" => Names::Block(0),
        "eth_getTransactionByHash"
        | "eth_getRawTransactionByHash"
        | "eth_getTransactionReceipt"
        | "debug_traceTransaction"
        | "debug_getRawTransaction"
        | "trace_transaction"
        | "trace_get"
        | "trace_replayTransaction"
        | "ots_getTransactionError"
        | "ots_getInternalOperations"
        | "ots_traceTransaction" => Names::Transaction,
        "eth_getLogs" => Names::Logs,
        _ => return None,
    })
}

/// Answer of the other node to a request for what is below the chain; `None` if the chain itself answers.
///
/// # Errors
/// The other node's, with its code.
pub(super) fn answer(api: &Api, method: &str, args: &Args) -> Result<Option<Box<RawValue>>, RpcError> {
    let Some(remote) = &api.chain.remote else { return Ok(None) };
    let height = remote.block().number;
    let passed = match names(method) {
        None => None,
        Some(Names::State(place)) => below(api, remote, args, place, height)?,
        Some(Names::Block(place)) => below(api, remote, args, place, height + 1)?,
        Some(Names::Transaction) => match args.value(0).map(args::hash) {
            Some(Ok(hash)) if api.chain.transaction(&hash)?.is_none() && !is_pooled(api, &hash) => Some(args.all()),
            _ => None,
        },
        Some(Names::Logs) => return logs_below(api, remote, args),
    };
    Ok(passed.map(|params| remote.pass(method, params)).transpose()?)
}

/// Arguments for the other node, if the one at `place` names a block below `first`, or one that this chain lacks.
fn below(api: &Api, remote: &Remote, args: &Args, place: usize, first: u64) -> Result<Option<Value>, RpcError> {
    // What is no block gets the error of the method.
    let Some(Ok(block)) = args.value(place).map(args::block) else { return Ok(None) };
    let number = remote.block().number;
    let is_below = match block {
        BlockRef::Height(height) => height < first,
        BlockRef::Earliest => true,
        BlockRef::Hash(hash) if hash == remote.block().hash() => number < first,
        BlockRef::Hash(hash) => api.chain.height_of(&hash)?.is_none(),
        // The newest of all is the first one, and the other node has newer ones.
        BlockRef::Latest | BlockRef::Safe | BlockRef::Finalised if api.chain.height() < first => {
            return Ok(Some(args.with(place, json!(format!("{number:#x}")))));
        }
        BlockRef::Latest | BlockRef::Safe | BlockRef::Finalised | BlockRef::Pending => false,
    };
    Ok(is_below.then(|| args.all()))
}

fn is_pooled(api: &Api, hash: &B256) -> bool {
    api.chain.service.with_pool(|pool| pool.get(hash).is_some())
}

/// Logs of a range that begins below the chain: the other node's, and behind them the chain's own.
fn logs_below(api: &Api, remote: &Remote, args: &Args) -> Result<Option<Box<RawValue>>, RpcError> {
    const METHOD: &str = "eth_getLogs";
    let last = remote.block().number;
    let Some(Value::Object(fields)) = args.value(0) else { return Ok(None) };
    let named = |name: &str| fields.get(name).filter(|value| !value.is_null());
    if let Some(hash) = named("blockHash") {
        let hash = args::hash(hash).map_err(RpcError::invalid)?;
        let is_below = hash == remote.block().hash() || api.chain.height_of(&hash)?.is_none();
        return if is_below { Ok(Some(remote.pass(METHOD, args.all())?)) } else { Ok(None) };
    }
    let end = |name: &str| named(name).map(args::number).transpose().map_err(RpcError::invalid);
    let from = match end("fromBlock")? {
        Some(BlockRef::Height(height)) => height,
        Some(BlockRef::Earliest) => 0,
        _ => api.chain.height(),
    };
    if from > last {
        return Ok(None);
    }
    let to = match end("toBlock")? {
        Some(BlockRef::Height(height)) => height,
        Some(BlockRef::Earliest) => 0,
        _ => api.chain.height(),
    };
    let range = |from: u64, to: u64| {
        let mut fields = fields.clone();
        fields.insert("fromBlock".into(), json!(format!("{from:#x}")));
        fields.insert("toBlock".into(), json!(format!("{to:#x}")));
        Value::Object(fields)
    };
    let below = remote.pass(METHOD, json!([range(from, to.min(last))]))?;
    if to <= last {
        return Ok(Some(below));
    }
    let mut all: Vec<Value> = serde_json::from_str(below.get())
        .map_err(|error| RpcError::server(format!("the remote node's logs cannot be used: {error}")))?;
    let own = logs::filter(&range(last + 1, to)).map_err(RpcError::invalid)?;
    logs::bounded(&own)?;
    for log in logs::range(api, &own, last + 1, to)? {
        all.push(serde_json::to_value(log).map_err(|error| RpcError::internal(error.to_string()))?);
    }
    if all.len() > api.limits.max_logs {
        return Err(RpcError::limit(format!("the range has more than {} logs", api.limits.max_logs)));
    }
    serde_json::value::to_raw_value(&all).map(Some).map_err(|error| RpcError::internal(error.to_string()))
}

impl From<RemoteError> for RpcError {
    fn from(error: RemoteError) -> Self {
        match error {
            // Libraries match its code and text.
            RemoteError::Refused { code, message, data, .. } => Self::refused_elsewhere(code, message, data.as_deref()),
            other => Self::server(other.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_name_states_blocks_transactions_or_nothing() {
        assert_eq!(names("eth_getStorageAt"), Some(Names::State(2)));
        assert_eq!(names("eth_getBlockByHash"), Some(Names::Block(0)));
        assert_eq!(names("eth_getTransactionReceipt"), Some(Names::Transaction));
        assert_eq!([names("eth_chainId"), names("eth_sendRawTransaction"), names("anvil_mine")], [None; 3]);
    }
}
