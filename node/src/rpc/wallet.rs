//! Accounts that the node signs for: those of a chain for development, and there any account that its operator acts for.

use super::{
    api::Api,
    args::{self, Args, BlockRef},
    calls::{simulator, transaction},
    error::{RpcError, simulated},
    fees,
    registry::Registry,
    send,
};
use alloy_consensus::{SignableTransaction, Signed, TxEnvelope, TypedTransaction, transaction::RlpEcdsaEncodableTx};
use alloy_dyn_abi::TypedData;
use alloy_eips::Encodable2718 as _;
use alloy_primitives::{Address, B256, Bytes, Signature, TxKind, eip191_hash_message};
use alloy_rpc_types_eth::TransactionRequest;
use serde_json::Value;
use tokio::runtime::Handle;

pub(super) fn register(registry: &mut Registry) {
    registry.instant("eth_accounts", 0, |api, _| {
        Ok(api.keyring.accounts.iter().map(|account| account.address).collect::<Vec<_>>())
    });
    registry.heavy("eth_sendTransaction", 1, send_transaction);
    registry.heavy("eth_signTransaction", 1, |api, args| {
        let (request, from) = request(api, args)?;
        filled(api, request, from)
    });
    registry
        .light("eth_sign", 2, |api, args| sign(api, args.required(0, args::address)?, &args.required(1, args::bytes)?));
    // The third argument, a password, belongs to nodes that keep keys locked.
    registry.light("personal_sign", 3, |api, args| {
        sign(api, args.required(1, args::address)?, &args.required(0, args::bytes)?)
    });
    for name in ["eth_signTypedData_v4", "eth_signTypedData"] {
        registry.light(name, 2, sign_typed);
    }
}

fn sign(api: &Api, address: Address, message: &Bytes) -> Result<Bytes, RpcError> {
    let signature = api.keyring.sign(&address, eip191_hash_message(message))?;
    Ok(signature.as_bytes().into())
}

fn sign_typed(api: &Api, args: &Args) -> Result<Bytes, RpcError> {
    let address = args.required(0, args::address)?;
    // Libraries send an object, or its text.
    let data = args.required(1, |value| {
        let read = match value {
            Value::String(text) => serde_json::from_str::<TypedData>(text),
            other => serde_json::from_value(other.clone()),
        };
        read.map_err(|error| error.to_string())
    })?;
    let hash = data.eip712_signing_hash().map_err(|error| RpcError::invalid(error.to_string()))?;
    Ok(api.keyring.sign(&address, hash)?.as_bytes().into())
}

fn request(api: &Api, args: &Args) -> Result<(TransactionRequest, Address), RpcError> {
    let request = args.required(0, args::call)?;
    let first = api.keyring.accounts.first().map(|account| account.address);
    let from = request.from.or(first).ok_or_else(|| RpcError::invalid("missing \"from\""))?;
    Ok((TransactionRequest { from: Some(from), ..request }, from))
}

/// Fills in what a transaction lacks, signs it and sends it. The answer waits as that of a raw one does.
fn send_transaction(api: &Api, args: &Args) -> Result<B256, RpcError> {
    let (request, from) = request(api, args)?;
    let nonces = api.keyring.nonces.lock();
    let bytes = filled(api, request, from)?;
    let (runtime, txs) = (Handle::current(), vec![bytes]);
    let awaiting = send::awaiting(api, &txs);
    let sent = runtime.block_on(send::admitted(api, txs));
    drop(nonces);
    runtime.block_on(send::included(api, awaiting, &sent));
    sent.into_iter().next().unwrap_or_else(|| Err(RpcError::internal("no answer")))
}

/// The signed bytes of a transaction, of which nonce, gas and fees are filled in where they are missing.
fn filled(api: &Api, request: TransactionRequest, from: Address) -> Result<Bytes, RpcError> {
    let chain = api.chain.spec.chain_id();
    let (simulator, env) = simulator(api, BlockRef::Pending, None, None)?;
    // The checks of a call, with its texts.
    let call = transaction(request.clone(), chain, &env, api.limits.gas_cap)?;
    let gas = match request.gas {
        Some(gas) => gas,
        None => simulator.estimate_gas(&call).map_err(|error| simulated(from, &error))?,
    };
    let nonce = match request.nonce {
        Some(nonce) => nonce,
        None => api.chain.service.next_nonce(&from).map_err(|failure| RpcError::server(failure.to_string()))?,
    };
    let mut request = TransactionRequest {
        chain_id: Some(chain),
        gas: Some(gas),
        nonce: Some(nonce),
        to: Some(request.to.unwrap_or(TxKind::Create)),
        input: call.data.into(),
        ..request
    };
    if request.gas_price.is_none() {
        let base: u128 = env.basefee.into();
        let tip = match (request.max_priority_fee_per_gas, request.max_fee_per_gas) {
            (Some(tip), _) => tip,
            (None, Some(cap)) => fees::tip(api)?.min(cap),
            (None, None) => fees::tip(api)?,
        };
        request.max_priority_fee_per_gas = Some(tip);
        let cap = request.max_fee_per_gas.unwrap_or_else(|| base.saturating_mul(2).saturating_add(tip));
        request.max_fee_per_gas = Some(cap);
    }
    let typed = request.build_typed_tx().map_err(|request| {
        RpcError::invalid(format!("a transaction that can be signed has more fields than {request:?}"))
    })?;
    let sign = |hash| api.keyring.sign_tx(&from, hash);
    let envelope = match typed {
        TypedTransaction::Legacy(tx) => TxEnvelope::Legacy(signed(tx, sign)?),
        TypedTransaction::Eip2930(tx) => TxEnvelope::Eip2930(signed(tx, sign)?),
        TypedTransaction::Eip1559(tx) => TxEnvelope::Eip1559(signed(tx, sign)?),
        TypedTransaction::Eip7702(tx) => TxEnvelope::Eip7702(signed(tx, sign)?),
        TypedTransaction::Eip4844(_) => {
            return Err(RpcError::invalid("a blob transaction comes signed, with its blobs: eth_sendRawTransaction"));
        }
    };
    Ok(envelope.encoded_2718().into())
}

fn signed<T: SignableTransaction<Signature> + RlpEcdsaEncodableTx>(
    tx: T,
    sign: impl FnOnce(B256) -> Result<Signature, RpcError>,
) -> Result<Signed<T>, RpcError> {
    let signature = sign(tx.signature_hash())?;
    Ok(tx.into_signed(signature))
}
