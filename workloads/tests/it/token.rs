//! The committed bytecode behaves like an ERC-20 token.

#![expect(clippy::unwrap_used, reason = "the helpers are tests too")]

use crate::common::{Db, database, execute};
use phalanx_workloads::{Erc20, PhalanxToken, TransferLoad, Workload};
use revm::{
    context::{BlockEnv, TxEnv, result::ExecutionResult},
    primitives::{Address, TxKind, U256, hardfork::SpecId, keccak256},
};

/// A token with three holders, and their nonces.
struct Token {
    db: Db,
    holders: Vec<Address>,
    held: U256,
}

const fn word(value: U256) -> [u8; 32] {
    value.to_be_bytes()
}

fn number(value: u64) -> [u8; 32] {
    word(U256::from(value))
}

fn padded(address: Address) -> [u8; 32] {
    address.into_word().0
}

impl Token {
    fn new() -> Self {
        let workload = Erc20::new(TransferLoad { accounts: 3, txs: 9, ..Default::default() }).unwrap();
        let holders = workload.accounts().addresses().collect();
        Self { db: database(workload.genesis()), holders, held: U256::from(9_001) }
    }

    fn call(&mut self, caller: Address, signature: &str, args: &[[u8; 32]]) -> ExecutionResult {
        let mut data = keccak256(signature)[..4].to_vec();
        data.extend(args.iter().flatten());
        let nonce = revm::DatabaseRef::basic_ref(&self.db, caller).unwrap().unwrap_or_default().nonce;
        let kind = TxKind::Call(PhalanxToken::ADDRESS);
        let tx = TxEnv { caller, nonce, kind, data: data.into(), gas_limit: 200_000, ..Default::default() };
        execute(&mut self.db, BlockEnv::default(), SpecId::OSAKA, &[tx]).remove(0)
    }

    fn read(&mut self, signature: &str, args: &[[u8; 32]]) -> Vec<u8> {
        let result = self.call(self.holders[0], signature, args);
        assert!(result.is_success(), "{result:?}");
        result.into_output().unwrap().to_vec()
    }
}

fn error(result: ExecutionResult, signature: &str, args: &[[u8; 32]]) {
    let ExecutionResult::Revert { output, .. } = result else { panic!("{result:?}") };
    let mut expected = keccak256(signature)[..4].to_vec();
    expected.extend(args.iter().flatten());
    assert_eq!(output[..], expected, "{signature}");
}

#[test]
fn views_answer_from_the_genesis() {
    let mut token = Token::new();
    let holder = padded(token.holders[1]);
    assert_eq!(token.read("balanceOf(address)", &[holder]), word(token.held));
    assert_eq!(token.read("balanceOf(address)", &[padded(Address::repeat_byte(7))]), number(0));
    assert_eq!(token.read("totalSupply()", &[]), number(27_003));
    assert_eq!(token.read("decimals()", &[]), number(18));
    assert_eq!(token.read("allowance(address,address)", &[holder, holder]), number(0));
    for (getter, text) in [("name()", "Phalanx Token"), ("symbol()", "PHX")] {
        let output = token.read(getter, &[]);
        assert_eq!(output[..64], [number(32), number(text.len() as u64)].concat());
        assert_eq!(&output[64..64 + text.len()], text.as_bytes());
    }
}

#[test]
fn a_transfer_moves_and_emits_its_event() {
    let mut token = Token::new();
    let [from, to] = [token.holders[0], token.holders[1]];
    let result = token.call(from, "transfer(address,uint256)", &[padded(to), number(5)]);
    assert!(result.is_success(), "{result:?}");
    assert_eq!(result.output().unwrap()[..], number(1));
    let [log] = result.logs() else { panic!("{result:?}") };
    assert_eq!(log.address, PhalanxToken::ADDRESS);
    assert_eq!(log.topics(), [PhalanxToken::TRANSFER_EVENT, from.into_word(), to.into_word()]);
    assert_eq!(log.data.data[..], number(5));
    assert_eq!(token.read("balanceOf(address)", &[padded(from)]), word(token.held - U256::from(5)));
    assert_eq!(token.read("balanceOf(address)", &[padded(to)]), word(token.held + U256::from(5)));
}

#[test]
fn a_transfer_to_oneself_changes_nothing() {
    let mut token = Token::new();
    let (me, held) = (token.holders[0], token.held);
    assert!(token.call(me, "transfer(address,uint256)", &[padded(me), word(held)]).is_success());
    assert_eq!(token.read("balanceOf(address)", &[padded(me)]), word(held));
}

#[test]
fn transfers_above_the_balance_revert() {
    let mut token = Token::new();
    let (from, to, held) = (token.holders[0], padded(token.holders[1]), token.held);
    let more = held + U256::ONE;
    let result = token.call(from, "transfer(address,uint256)", &[to, word(more)]);
    let expected = [padded(from), word(held), word(more)];
    error(result, "ERC20InsufficientBalance(address,uint256,uint256)", &expected);
    let result = token.call(from, "transfer(address,uint256)", &[[0; 32], number(1)]);
    error(result, "ERC20InvalidReceiver(address)", &[[0; 32]]);
    assert_eq!(token.read("balanceOf(address)", &[padded(from)]), word(held));
}

#[test]
fn allowances_are_given_used_and_exhausted() {
    let mut token = Token::new();
    let [owner, spender, to] = [0, 1, 2].map(|at| token.holders[at]);
    let result = token.call(owner, "approve(address,uint256)", &[padded(spender), number(10)]);
    let [log] = result.logs() else { panic!("{result:?}") };
    let approval = keccak256("Approval(address,address,uint256)");
    assert_eq!(log.topics(), [approval, owner.into_word(), spender.into_word()]);

    let from = "transferFrom(address,address,uint256)";
    assert!(token.call(spender, from, &[padded(owner), padded(to), number(7)]).is_success());
    assert_eq!(token.read("allowance(address,address)", &[padded(owner), padded(spender)]), number(3));
    let result = token.call(spender, from, &[padded(owner), padded(to), number(4)]);
    let expected = [padded(spender), number(3), number(4)];
    error(result, "ERC20InsufficientAllowance(address,uint256,uint256)", &expected);

    assert!(token.call(owner, "approve(address,uint256)", &[padded(spender), word(U256::MAX)]).is_success());
    assert!(token.call(spender, from, &[padded(owner), padded(to), number(4)]).is_success());
    assert_eq!(token.read("allowance(address,address)", &[padded(owner), padded(spender)]), word(U256::MAX));
    assert_eq!(token.read("balanceOf(address)", &[padded(to)]), word(token.held + U256::from(11)));
    let result = token.call(owner, "approve(address,uint256)", &[[0; 32], number(1)]);
    error(result, "ERC20InvalidSpender(address)", &[[0; 32]]);
}

#[test]
fn unknown_calls_and_ether_are_refused() {
    let mut token = Token::new();
    let caller = token.holders[0];
    assert!(matches!(token.call(caller, "mint(uint256)", &[number(1)]), ExecutionResult::Revert { .. }));
    let nonce = revm::DatabaseRef::basic_ref(&token.db, caller).unwrap().unwrap().nonce;
    let kind = TxKind::Call(PhalanxToken::ADDRESS);
    let tx = TxEnv { caller, nonce, kind, value: U256::ONE, gas_limit: 100_000, ..Default::default() };
    let result = execute(&mut token.db, BlockEnv::default(), SpecId::OSAKA, &[tx]).remove(0);
    assert!(matches!(result, ExecutionResult::Revert { .. }), "{result:?}");
}
