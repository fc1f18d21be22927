//! Calls that are not part of the chain: `eth_call`, `eth_estimateGas`, `eth_createAccessList`, with overrides.

use super::{
    api::Api,
    args::{self, Args, BlockRef},
    error::{RpcError, halt, output, simulated},
    registry::Registry,
};
use ::phalanx::{
    StateSnapshot,
    paralyze::VmConfig,
    revm::{
        context::{BlockEnv, TxEnv, either::Either},
        context_interface::{block::BlobExcessGasAndPrice, result::ExecutionResult},
        database::CacheDB,
        primitives::{TxKind, U256},
        state::{AccountInfo, Bytecode},
    },
    simulate::Simulator,
};
use alloy_primitives::{Address, Bytes, U64};
use alloy_rpc_types_eth::{
    AccessListResult, BlockOverrides, TransactionRequest,
    state::{AccountOverride, StateOverride},
};

/// State of a call: a snapshot under a client's overrides.
pub(super) type CallState = CacheDB<StateSnapshot>;

pub(super) fn register(registry: &mut Registry) {
    registry.heavy("eth_call", 4, call);
    registry.heavy("eth_estimateGas", 4, estimate);
    registry.heavy("eth_createAccessList", 3, access_list);
}

/// Rules, environment and state of a call in a named block.
pub(super) fn simulator(
    api: &Api,
    block: BlockRef,
    state: Option<&StateOverride>,
    env: Option<&BlockOverrides>,
) -> Result<(Simulator<CallState>, BlockEnv), RpcError> {
    let (header, snapshot) = api.setting(block)?;
    let (rules, mut environment): (VmConfig, BlockEnv) = api.chain.rules(&header);
    let rules = match state {
        Some(state) => moved_precompiles(rules, state)?,
        None => rules,
    };
    let mut database = CacheDB::new(snapshot);
    if let Some(overrides) = env {
        override_block(&mut environment, &mut database, overrides)?;
    }
    for (address, account) in state.into_iter().flatten() {
        override_account(&mut database, *address, account)?;
    }
    Ok((Simulator::new(rules, environment.clone(), database), environment))
}

/// Applies a client's fields of the block.
pub(super) fn override_block(env: &mut BlockEnv, state: &mut CallState, with: &BlockOverrides) -> Result<(), RpcError> {
    if with.beacon_root.is_some() {
        return Err(RpcError::invalid("block override \"beaconRoot\" is not supported for this RPC method"));
    }
    env.number = with.number.unwrap_or(env.number);
    env.difficulty = with.difficulty.unwrap_or(env.difficulty);
    env.timestamp = with.time.map_or(env.timestamp, U256::from);
    env.gas_limit = with.gas_limit.unwrap_or(env.gas_limit);
    env.beneficiary = with.coinbase.unwrap_or(env.beneficiary);
    env.prevrandao = with.random.or(env.prevrandao);
    if let Some(fee) = with.base_fee {
        env.basefee = fee.try_into().map_err(|_| RpcError::invalid("block override \"baseFeePerGas\" is too large"))?;
    }
    if let Some(fee) = with.blob_base_fee {
        let blob_gasprice =
            fee.try_into().map_err(|_| RpcError::invalid("block override \"blobBaseFee\" is too large"))?;
        let excess_blob_gas = env.blob_excess_gas_and_price.map_or(0, |blobs| blobs.excess_blob_gas);
        env.blob_excess_gas_and_price = Some(BlobExcessGasAndPrice { excess_blob_gas, blob_gasprice });
    }
    for (height, hash) in with.block_hash.iter().flatten() {
        state.cache.block_hashes.insert(U256::from(*height), *hash);
    }
    Ok(())
}

/// Rules with a client's accounts, as in geth: none of them is a precompile, and one that was may run elsewhere.
pub(super) fn moved_precompiles(rules: VmConfig, state: &StateOverride) -> Result<VmConfig, RpcError> {
    // Few, however many accounts there are: every call in the EVM looks at them.
    let mut places: Vec<_> = state.keys().filter(|at| rules.is_precompile(at)).map(|at| (*at, None)).collect();
    for (address, account) in state {
        let Some(to) = account.move_precompile_to else { continue };
        if !rules.is_precompile(address) {
            return Err(RpcError::server(format!("account {address} is not a precompile")));
        }
        if state.contains_key(&to) {
            return Err(RpcError::server(format!("account {to} is already overridden")));
        }
        places.push((to, Some(*address)));
    }
    Ok(rules.with_moved_precompiles(places))
}

/// Applies a client's fields of an account.
pub(super) fn override_account(
    state: &mut CallState,
    address: Address,
    with: &AccountOverride,
) -> Result<(), RpcError> {
    let unread = |error: ::phalanx::SnapshotError| RpcError::server(error.to_string());
    let mut info: AccountInfo = state.load_account(address).map_err(unread)?.info().unwrap_or_default();
    info.balance = with.balance.unwrap_or(info.balance);
    info.nonce = with.nonce.unwrap_or(info.nonce);
    if let Some(code) = &with.code {
        let code = Bytecode::new_raw_checked(code.clone())
            .map_err(|error| RpcError::invalid(format!("code of {address}: {error}")))?;
        (info.code_hash, info.code) = (code.hash_slow(), Some(code));
    }
    state.insert_account_info(address, info);
    match (&with.state, &with.state_diff) {
        (Some(_), Some(_)) => {
            return Err(RpcError::server(format!("account {address} has both 'state' and 'stateDiff'")));
        }
        (Some(slots), None) => {
            let slots = slots.iter().map(|(slot, word)| ((*slot).into(), (*word).into())).collect();
            state.replace_account_storage(address, slots).map_err(unread)?;
        }
        (None, Some(slots)) => {
            for (slot, word) in slots {
                state.insert_account_storage(address, (*slot).into(), (*word).into()).map_err(unread)?;
            }
        }
        (None, None) => {}
    }
    Ok(())
}

/// A call as revm takes it, with at most `gas_cap` gas.
pub(super) fn transaction(
    request: TransactionRequest,
    chain: u64,
    env: &BlockEnv,
    gas_cap: u64,
) -> Result<TxEnv, RpcError> {
    let is_priced = request.max_fee_per_gas.is_some() || request.max_priority_fee_per_gas.is_some();
    if request.gas_price.is_some() && is_priced {
        return Err(RpcError::invalid("both gasPrice and (maxFeePerGas or maxPriorityFeePerGas) specified"));
    }
    if let (Some(cap), Some(tip)) = (request.max_fee_per_gas, request.max_priority_fee_per_gas)
        && cap < tip
    {
        return Err(RpcError::invalid(format!("maxFeePerGas ({cap}) < maxPriorityFeePerGas ({tip})")));
    }
    if let Some(have) = request.chain_id.filter(|have| *have != chain) {
        return Err(RpcError::invalid(format!("chainId does not match node's (have={have}, want={chain})")));
    }
    let data = request.input.try_into_unique_input().map_err(|_| {
        RpcError::invalid(
            "both \"data\" and \"input\" are set and not equal. Please use \"input\" to pass transaction call data",
        )
    })?;
    let blobs = request.blob_versioned_hashes.unwrap_or_default();
    let authorizations = request.authorization_list.unwrap_or_default();
    let kind = request.to.unwrap_or(TxKind::Create);
    if kind.is_create() && !(blobs.is_empty() && authorizations.is_empty()) {
        return Err(RpcError::invalid("missing \"to\" in a transaction that cannot create a contract"));
    }
    let tx_type = match (&authorizations[..], &blobs[..], is_priced, &request.access_list) {
        ([_, ..], ..) => 4,
        (_, [_, ..], ..) => 3,
        (_, _, true, _) => 2,
        (_, _, _, Some(_)) => 1,
        _ => 0,
    };
    // A tip alone has no cap: it is paid above the base fee.
    let tip = request.max_priority_fee_per_gas;
    let cap = request.max_fee_per_gas.or_else(|| tip.map(|tip| tip.saturating_add(env.basefee.into())));
    let gas_limit = request.gas.unwrap_or(env.gas_limit).min(gas_cap);
    Ok(TxEnv {
        tx_type,
        caller: request.from.unwrap_or_default(),
        gas_limit,
        gas_price: request.gas_price.or(cap).unwrap_or_default(),
        kind,
        value: request.value.unwrap_or_default(),
        data: data.unwrap_or_default(),
        nonce: request.nonce.unwrap_or_default(),
        chain_id: Some(chain),
        access_list: request.access_list.unwrap_or_default(),
        gas_priority_fee: if tx_type >= 2 { Some(tip.unwrap_or_default()) } else { None },
        blob_hashes: blobs,
        max_fee_per_blob_gas: request.max_fee_per_blob_gas.unwrap_or_default(),
        authorization_list: authorizations.into_iter().map(Either::Left).collect(),
    })
}

fn read(api: &Api, args: &Args, block: BlockRef) -> Result<(Simulator<CallState>, TxEnv), RpcError> {
    let request = args.required(0, args::call)?;
    let state = args.optional(2, args::json::<StateOverride>)?;
    let env = args.optional(3, args::json::<BlockOverrides>)?;
    let (simulator, environment) = simulator(api, block, state.as_ref(), env.as_ref())?;
    let tx = transaction(request, api.chain.spec.chain_id(), &environment, api.limits.gas_cap)?;
    Ok((simulator, tx))
}

fn call(api: &Api, args: &Args) -> Result<Bytes, RpcError> {
    let (simulator, tx) = read(api, args, args.block(1)?)?;
    let called = simulator.call(&tx).map_err(|error| simulated(tx.caller, &error))?;
    output(called.result)
}

/// Estimates for the next block, unless a block is named: a write that happens once time has passed is one there already.
fn estimate(api: &Api, args: &Args) -> Result<U64, RpcError> {
    let block = args.optional(1, args::block)?.unwrap_or(BlockRef::Pending);
    let (simulator, tx) = read(api, args, block)?;
    let gas = simulator.estimate_gas(&tx).map_err(|error| simulated(tx.caller, &error))?;
    Ok(U64::from(gas))
}

fn access_list(api: &Api, args: &Args) -> Result<AccessListResult, RpcError> {
    let request = args.required(0, args::call)?;
    let state = args.optional(2, args::json::<StateOverride>)?;
    let (simulator, environment) = simulator(api, args.block(1)?, state.as_ref(), None)?;
    let tx = transaction(request, api.chain.spec.chain_id(), &environment, api.limits.gas_cap)?;
    let listed = simulator.create_access_list(&tx).map_err(|error| simulated(tx.caller, &error))?;
    let error = match &listed.result {
        ExecutionResult::Success { .. } => None,
        ExecutionResult::Revert { output, .. } => Some(RpcError::reverted(output).to_string()),
        ExecutionResult::Halt { reason, .. } => Some(halt(reason)),
    };
    Ok(AccessListResult { access_list: listed.access_list, gas_used: U256::from(listed.gas_used), error })
}
