//! Keys of test accounts, and transactions of every type signed by them.

use super::blobs::{Blobs, with_blobs};
use alloy_consensus::{
    SignableTransaction, Signed, TxEip1559, TxEip2930, TxEip7702, TxEnvelope, TxLegacy,
    crypto::secp256k1::{recover_signer_unchecked, sign_message},
};
use alloy_eips::{
    Encodable2718 as _,
    eip2930::{AccessList, AccessListItem},
    eip7702::{Authorization, SignedAuthorization},
};
use alloy_primitives::{Address, B256, Bytes, Signature, TxKind, U256};

/// Chain id of the tests.
pub(crate) const CHAIN: u64 = 4242;

fn key(account: u64) -> B256 {
    B256::from(U256::from(0xdef_000 + account))
}

/// Address of the account with a number.
pub(crate) fn address(account: u64) -> Address {
    let signature = sign_message(key(account), B256::ZERO).expect("a sound key");
    recover_signer_unchecked(&signature, B256::ZERO).expect("a signer")
}

pub(super) fn sign<T: SignableTransaction<Signature>>(account: u64, tx: T) -> Signed<T> {
    let signature = sign_message(key(account), tx.signature_hash()).expect("a sound key");
    tx.into_signed(signature)
}

/// Permission of `account` to run the code of `to`.
pub(crate) fn authorize(account: u64, nonce: u64, to: Address) -> SignedAuthorization {
    let authorization = Authorization { chain_id: U256::from(CHAIN), address: to, nonce };
    let signature = sign_message(key(account), authorization.signature_hash()).expect("a sound key");
    authorization.into_signed(signature)
}

/// Parts of a transaction that do not depend on its type.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) from: u64,
    pub(crate) nonce: u64,
    pub(crate) to: TxKind,
    pub(crate) value: u64,
    pub(crate) data: Bytes,
    pub(crate) tip: u128,
}

impl Call {
    pub(crate) const fn to(from: u64, nonce: u64, to: Address, value: u64) -> Self {
        Self { from, nonce, to: TxKind::Call(to), value, data: Bytes::new(), tip: 1_000 }
    }

    pub(crate) fn with_data(self, data: impl Into<Bytes>) -> Self {
        Self { data: data.into(), ..self }
    }

    pub(crate) fn with_tip(self, tip: u128) -> Self {
        Self { tip, ..self }
    }
}

pub(super) const GAS: u64 = 300_000;
pub(super) const FEE: u128 = 3_000_000_000;

/// A creation of a contract with this code.
pub(crate) fn deploy(from: u64, nonce: u64, code: &[u8]) -> Bytes {
    // PUSH1 length, DUP1, PUSH1 offset, PUSH0, CODECOPY, PUSH0, RETURN.
    let len = u8::try_from(code.len()).expect("short code");
    let init = [&[0x60, len, 0x80, 0x60, 0x09, 0x5f, 0x39, 0x5f, 0xf3], code].concat();
    let call = Call { from, nonce, to: TxKind::Create, value: 0, data: init.into(), tip: 7 };
    signed(2, &call, vec![])
}

/// A signed transaction of a type, as a node gets it: a blob transaction comes with its blobs.
pub(crate) fn signed(tx_type: u8, call: &Call, authorized: Vec<SignedAuthorization>) -> Bytes {
    if tx_type == 3 {
        return with_blobs(call, &Blobs::zero());
    }
    let Call { from, nonce, to, value, ref data, tip } = *call;
    let (value, input, chain_id) = (U256::from(value), data.clone(), CHAIN);
    let receiver = to.to().copied().unwrap_or_default();
    let list = AccessList(vec![AccessListItem { address: receiver, storage_keys: vec![B256::ZERO] }]);
    let (max_fee_per_gas, max_priority_fee_per_gas) = (FEE, tip);
    let envelope = match tx_type {
        0 => {
            let tx = TxLegacy { chain_id: Some(CHAIN), nonce, gas_price: FEE, gas_limit: GAS, to, value, input };
            TxEnvelope::Legacy(sign(from, tx))
        }
        1 => TxEnvelope::Eip2930(sign(
            from,
            TxEip2930 { chain_id, nonce, gas_price: FEE, gas_limit: GAS, to, value, access_list: list, input },
        )),
        4 => TxEnvelope::Eip7702(sign(
            from,
            TxEip7702 {
                chain_id,
                nonce,
                gas_limit: GAS,
                max_fee_per_gas,
                max_priority_fee_per_gas,
                to: receiver,
                value,
                access_list: AccessList::default(),
                authorization_list: authorized,
                input,
            },
        )),
        _ => TxEnvelope::Eip1559(sign(
            from,
            TxEip1559 {
                chain_id,
                nonce,
                gas_limit: GAS,
                max_fee_per_gas,
                max_priority_fee_per_gas,
                to,
                value,
                access_list: AccessList::default(),
                input,
            },
        )),
    };
    envelope.encoded_2718().into()
}

/// A transfer of nothing that may use this much gas.
pub(crate) fn hungry(from: u64, nonce: u64, gas_limit: u64) -> Bytes {
    let tx = TxEip1559 {
        chain_id: CHAIN,
        nonce,
        gas_limit,
        max_fee_per_gas: FEE,
        max_priority_fee_per_gas: 1_000,
        to: TxKind::Call(address(from)),
        value: U256::ZERO,
        access_list: AccessList::default(),
        input: Bytes::new(),
    };
    TxEnvelope::Eip1559(sign(from, tx)).encoded_2718().into()
}

/// A transfer of nothing with so many zeros as data, at a tip above the usual price.
pub(crate) fn heavy(from: u64, nonce: u64, tip: u128, bytes: usize) -> Bytes {
    let tx = TxEip1559 {
        chain_id: CHAIN,
        nonce,
        // Zeros cost ten each at least (EIP-7623).
        gas_limit: 30_000 + 10 * bytes as u64,
        max_fee_per_gas: FEE + tip,
        max_priority_fee_per_gas: tip,
        to: TxKind::Call(address(from)),
        value: U256::ZERO,
        access_list: AccessList::default(),
        input: vec![0; bytes].into(),
    };
    TxEnvelope::Eip1559(sign(from, tx)).encoded_2718().into()
}

/// A transfer without a signature, which names its sender instead: `r` is zero, and `s` the address.
pub(crate) fn named(from: Address, nonce: u64, to: Address) -> Bytes {
    let tx = TxEip1559 {
        chain_id: CHAIN,
        nonce,
        gas_limit: GAS,
        max_fee_per_gas: FEE,
        max_priority_fee_per_gas: 1_000,
        to: TxKind::Call(to),
        value: U256::from(1),
        access_list: AccessList::default(),
        input: Bytes::new(),
    };
    let signature = Signature::new(U256::ZERO, U256::from_be_bytes(from.into_word().0), false);
    TxEnvelope::Eip1559(tx.into_signed(signature)).encoded_2718().into()
}
