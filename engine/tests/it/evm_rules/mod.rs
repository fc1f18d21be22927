//! Rules of the protocol that parallel execution breaks easily. Each test is a small block, run in every way, with the
//! value asserted that the rule decides; names begin with the EIP where there is one.

mod amsterdam;
mod block;
mod code;
mod code_kinds;
mod coinbase;
mod delegation;
mod destruction;
mod existence;
mod gas;
mod journal;
mod keys;
mod limits;
mod nonces;
mod receipts;
mod storage;
mod validity;

use crate::kit::{Asm, contract, eoa};
use phalanx::{
    GenesisAccount,
    revm::{
        context::{TxEnv, either::Either},
        context_interface::transaction::{Authorization, RecoveredAuthority, RecoveredAuthorization},
        primitives::{Address, B256, Bytes, TxKind, U256},
    },
};

const ALICE: u8 = 1;
const BOB: u8 = 2;
const CAROL: u8 = 3;
/// Gas price of [`tx`].
const PRICE: u64 = 100;

const fn at(byte: u8) -> Address {
    Address::repeat_byte(byte)
}

fn word(number: u64) -> U256 {
    U256::from(number)
}

/// The word of a hash in a slot.
const fn of(hash: B256) -> U256 {
    U256::from_be_bytes(hash.0)
}

/// Ten rich accounts.
fn people() -> Vec<GenesisAccount> {
    (1..=10).map(eoa).collect()
}

fn holder(byte: u8, balance: u64) -> GenesisAccount {
    GenesisAccount { address: at(byte), balance: word(balance), ..GenesisAccount::default() }
}

fn code(byte: u8, code: Asm) -> GenesisAccount {
    contract(byte, &code.build())
}

/// A legacy call.
fn tx(from: u8, nonce: u64, to: Address) -> TxEnv {
    TxEnv {
        caller: at(from),
        nonce,
        kind: TxKind::Call(to),
        gas_limit: 300_000,
        gas_price: u128::from(PRICE),
        chain_id: Some(1),
        ..TxEnv::default()
    }
}

fn with(tx: TxEnv, input: u64) -> TxEnv {
    TxEnv { data: word(input).to_be_bytes_vec().into(), ..tx }
}

fn pay(from: u8, nonce: u64, to: Address, value: u64) -> TxEnv {
    TxEnv { value: word(value), ..tx(from, nonce, to) }
}

fn create(from: u8, nonce: u64, init: Bytes) -> TxEnv {
    TxEnv { kind: TxKind::Create, data: init, ..tx(from, nonce, Address::ZERO) }
}

/// Adds authorizations that delegate to the given targets: address, nonce, target.
fn delegating(tx: TxEnv, list: &[(u8, u64, Address)]) -> TxEnv {
    let authorize = |(authority, nonce, address): &(u8, u64, Address)| {
        let authorization = Authorization { chain_id: U256::ONE, address: *address, nonce: *nonce };
        let authority = RecoveredAuthority::Valid(at(*authority));
        Either::Right(RecoveredAuthorization::new_unchecked(authorization, authority))
    };
    TxEnv { tx_type: 4, gas_priority_fee: Some(3), authorization_list: list.iter().map(authorize).collect(), ..tx }
}

/// Code of an account with a delegation (EIP-7702).
fn designator(target: Address) -> Bytes {
    [&[0xef, 0x01, 0x00][..], target.as_slice()].concat().into()
}
