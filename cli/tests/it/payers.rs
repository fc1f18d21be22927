//! Accounts of a chain for development that pay one transaction after the other.

use crate::rpc::ask;
use alloy_consensus::{SignableTransaction as _, TxEip1559, TxEnvelope, crypto::secp256k1::sign_message};
use alloy_eips::Encodable2718 as _;
use alloy_primitives::{Address, B256, Bytes, TxKind, U256};
use serde_json::{Value, json};
use std::net::SocketAddr;

/// Number of accounts that pay, each by one transaction after the other.
pub(crate) const PAYERS: u64 = 4;

/// The first accounts of a chain for development, whose keys everybody knows.
const KEYS: [&str; PAYERS as usize] = [
    "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80",
    "0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d",
    "0x5de4111afa1a4b94908f83103eb1f1706367c2e68ca870fc3fb9a804cdab365a",
    "0x7c852118294e51e653712a81e05800f419141751be58f605c371e15141b007a6",
];

/// A quantity of JSON-RPC.
pub(crate) fn number(value: &Value) -> Option<u64> {
    u64::from_str_radix(value.as_str()?.strip_prefix("0x")?, 16).ok()
}

/// Height of a node; `None` if it does not answer.
pub(crate) fn height(address: SocketAddr) -> Option<u64> {
    number(&ask(address, "eth_blockNumber", &json!([]))?)
}

fn key(payer: u64) -> B256 {
    KEYS[payer as usize].parse().expect("a key")
}

/// Address of a payer.
pub(crate) fn payer(payer: u64) -> Address {
    let signature = sign_message(key(payer), B256::ZERO).expect("a sound key");
    alloy_consensus::crypto::secp256k1::recover_signer_unchecked(&signature, B256::ZERO).expect("a signer")
}

/// A signed transfer of one wei to an account without a known key.
pub(crate) fn payment(from: u64, nonce: u64) -> Bytes {
    let tx = TxEip1559 {
        chain_id: 1337,
        nonce,
        gas_limit: 21_000,
        max_fee_per_gas: 100_000_000_000,
        max_priority_fee_per_gas: 1,
        to: TxKind::Call(Address::repeat_byte(0x77)),
        value: U256::from(1),
        ..TxEip1559::default()
    };
    let signature = sign_message(key(from), tx.signature_hash()).expect("a sound key");
    TxEnvelope::Eip1559(tx.into_signed(signature)).encoded_2718().into()
}
