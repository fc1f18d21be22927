//! Accounts, calls and contracts of the hostile lists.

use phalanx::{
    GenesisAccount,
    revm::{
        bytecode::opcode::*,
        context::TxEnv,
        primitives::{Address, TxKind, U256},
    },
};

/// Balance that pays for everything.
const RICH: u128 = 1_000_000_000_000_000_000;

/// Gas of a turn of [`Code::burn`]'s loop.
const TURN: u64 = 26;

/// Address of a sender.
pub(super) fn sender(number: u64) -> Address {
    Address::from_word(U256::from(0x10_000 + number).into())
}

/// Word of a contract's address; contracts of successive numbers have successive words.
pub(super) fn word(number: u64) -> U256 {
    (U256::from(0xc0de_u64) << 128_usize) | U256::from(number)
}

/// Address of a contract.
pub(super) fn at(number: u64) -> Address {
    Address::from_word(word(number).into())
}

/// A sender with a balance.
pub(super) fn account(number: u64, balance: u128) -> GenesisAccount {
    GenesisAccount { address: sender(number), balance: U256::from(balance), ..GenesisAccount::default() }
}

/// Senders that can pay for everything.
pub(super) fn senders(count: u64) -> impl Iterator<Item = GenesisAccount> {
    (0..count).map(|number| account(number, RICH))
}

/// A contract.
pub(super) fn contract(number: u64, code: Vec<u8>) -> GenesisAccount {
    GenesisAccount { address: at(number), nonce: 1, code: Some(code.into()), ..GenesisAccount::default() }
}

/// A call without value and input, at the lowest price.
pub(super) fn call(from: u64, nonce: u64, to: Address, gas_limit: u64) -> TxEnv {
    TxEnv {
        caller: sender(from),
        nonce,
        kind: TxKind::Call(to),
        gas_limit,
        gas_price: 1,
        chain_id: Some(1),
        ..TxEnv::default()
    }
}

/// Code under construction.
#[derive(Clone, Debug, Default)]
pub(super) struct Code(pub(super) Vec<u8>);

impl Code {
    /// Appends opcodes.
    pub(super) fn ops(mut self, ops: &[u8]) -> Self {
        self.0.extend_from_slice(ops);
        self
    }

    /// Pushes a word, by its shortest form of one byte or more.
    pub(super) fn word(mut self, word: U256) -> Self {
        let bytes = word.to_be_bytes_trimmed_vec();
        let bytes = if bytes.is_empty() { vec![0] } else { bytes };
        self.0.push(PUSH1 + (bytes.len() - 1) as u8);
        self.0.extend(bytes);
        self
    }

    /// Pushes a number.
    pub(super) fn push(self, number: u64) -> Self {
        self.word(U256::from(number))
    }

    /// Marks the place of a jump, and returns it.
    pub(super) fn mark(self) -> (Self, [u8; 2]) {
        let place = (self.0.len() as u16).to_be_bytes();
        (self.ops(&[JUMPDEST]), place)
    }

    /// Burns about so much gas in a loop.
    pub(super) fn burn(self, gas: u64) -> Self {
        let (code, [high, low]) = self.push(gas / TURN).mark();
        code.ops(&[PUSH1, 1, SWAP1, SUB, DUP1, PUSH2, high, low, JUMPI, POP])
    }

    /// Stores a number.
    pub(super) fn store(self, slot: u64, number: u64) -> Self {
        self.push(number).push(slot).ops(&[SSTORE])
    }

    /// Adds one to slot 0, and leaves its former value on the stack.
    pub(super) fn count(self) -> Self {
        self.ops(&[PUSH1, 0, SLOAD, DUP1, PUSH1, 1, ADD, PUSH1, 0, SSTORE])
    }

    /// Calls an account, whose word is on the stack, with all gas and no input, and drops the result.
    pub(super) fn call(self) -> Self {
        // The word is at the bottom; the call wants it above five zeros.
        self.ops(&[PUSH1, 0, PUSH1, 0, PUSH1, 0, PUSH1, 0, PUSH1, 0, DUP6, GAS, CALL, POP, POP])
    }

    /// Code that differs from that of all other numbers.
    pub(super) fn distinct(number: u64) -> Self {
        Self::default().push(number).ops(&[POP])
    }

    /// Ends the code.
    pub(super) fn end(self) -> Vec<u8> {
        self.ops(&[STOP]).0
    }
}

/// Code of the largest size that a chain permits, which differs from that of all other numbers and stops at once. Every byte
/// is a place to jump to.
pub(super) fn large(number: u64) -> Vec<u8> {
    let mut code = vec![JUMPDEST; 24_576];
    code[0] = STOP;
    code[24_000..24_008].copy_from_slice(&number.to_be_bytes());
    code
}
