//! `eth_fillTransaction`: a transaction as its sender would sign it, with geth's defaults for what is left out.

use super::{
    accounts,
    api::Api,
    args::{self, Args, BlockRef},
    calls,
    error::{RpcError, simulated},
    fees,
    registry::Registry,
};
use alloy_consensus::TxEnvelope;
use alloy_eips::Encodable2718 as _;
use alloy_primitives::{Bytes, Signature, TxKind, U256};
use serde::Serialize;

pub(super) fn register(registry: &mut Registry) {
    registry.heavy("eth_fillTransaction", 1, fill);
}

/// A transaction with a signature of zeros, and its encoding.
#[derive(Clone, Debug, Serialize)]
struct Filled {
    raw: Bytes,
    tx: TxEnvelope,
}

fn fill(api: &Api, args: &Args) -> Result<Filled, RpcError> {
    let mut request = args.required(0, args::call)?;
    let chain = api.chain.spec.chain_id();
    if request.to.is_none_or(|to| to.is_create()) && request.input.input().is_none_or(|data| data.is_empty()) {
        return Err(RpcError::server("contract creation without any data provided"));
    }
    if request.gas_price.is_none() {
        let tip = match request.max_priority_fee_per_gas {
            Some(tip) => tip,
            None => fees::tip(api)?,
        };
        let base = u128::from(api.chain.head().header.base_fee_per_gas.unwrap_or_default());
        let most = request.max_fee_per_gas.unwrap_or_else(|| base.saturating_mul(2).saturating_add(tip));
        if most < tip {
            return Err(RpcError::server(format!("maxFeePerGas ({most}) < maxPriorityFeePerGas ({tip})")));
        }
        (request.max_fee_per_gas, request.max_priority_fee_per_gas) = (Some(most), Some(tip));
    }
    if request.nonce.is_none() {
        request.nonce = Some(accounts::next_nonce(api, &request.from.unwrap_or_default())?);
    }
    let (simulator, env) = calls::simulator(api, BlockRef::Pending, None, None)?;
    let tx = calls::transaction(request.clone(), chain, &env, api.limits.gas_cap)?;
    if request.gas.is_none() {
        let gas = simulator.estimate_gas(&tx).map_err(|error| simulated(tx.caller, &error))?;
        request.gas = Some(gas);
    }
    request.to = Some(request.to.unwrap_or(TxKind::Create));
    (request.chain_id, request.value) = (Some(chain), Some(tx.value));
    (request.input, request.from) = (tx.data.into(), None);
    let built = request.build_consensus_tx().map_err(|why| RpcError::invalid(why.error))?;
    let tx = built.into_envelope(Signature::new(U256::ZERO, U256::ZERO, false));
    Ok(Filled { raw: tx.encoded_2718().into(), tx })
}
