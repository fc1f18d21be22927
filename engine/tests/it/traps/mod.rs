//! What is known to break parallel EVMs, each trap by its number and name: small blocks, run in every way, and with the
//! value that the trap is about asserted.

mod block;
mod code;
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

use crate::{
    common::{contract, eoa},
    kit::Asm,
};
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
/// What [`tx`] pays per gas.
const PRICE: u64 = 100;

const fn at(byte: u8) -> Address {
    Address::repeat_byte(byte)
}

fn word(number: u64) -> U256 {
    U256::from(number)
}

/// A hash as a slot holds it.
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

/// A call of the oldest type.
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

/// The transaction with authorities that delegate to somebody: address, nonce, target.
fn delegating(tx: TxEnv, list: &[(u8, u64, Address)]) -> TxEnv {
    let authorize = |(authority, nonce, address): &(u8, u64, Address)| {
        let authorization = Authorization { chain_id: U256::ONE, address: *address, nonce: *nonce };
        let authority = RecoveredAuthority::Valid(at(*authority));
        Either::Right(RecoveredAuthorization::new_unchecked(authorization, authority))
    };
    TxEnv { tx_type: 4, gas_priority_fee: Some(3), authorization_list: list.iter().map(authorize).collect(), ..tx }
}

/// What an account with delegation has for code.
fn designator(target: Address) -> Bytes {
    [&[0xef, 0x01, 0x00][..], target.as_slice()].concat().into()
}
