//! An assembler for test contracts. Uses only opcodes that every spec has; others are named by the caller.

use phalanx::revm::{
    bytecode::opcode::*,
    primitives::{Address, Bytes, U256},
};

/// Code under construction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asm(Vec<u8>);

impl Asm {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn op(mut self, op: u8) -> Self {
        self.0.push(op);
        self
    }

    pub(crate) fn ops(mut self, ops: &[u8]) -> Self {
        self.0.extend_from_slice(ops);
        self
    }

    /// The shortest push; never PUSH0, which old specs lack.
    pub(crate) fn push(mut self, value: impl TryInto<U256>) -> Self {
        let value = value.try_into().ok().expect("a word").to_be_bytes_trimmed_vec();
        let value = if value.is_empty() { vec![0] } else { value };
        self.0.push(PUSH1 + (value.len() - 1) as u8);
        self.0.extend(value);
        self
    }

    pub(crate) fn addr(mut self, address: Address) -> Self {
        self.0.push(PUSH20);
        self.0.extend(address);
        self
    }

    /// `sstore(slot, top)`.
    pub(crate) fn store(self, slot: u64) -> Self {
        self.push(U256::from(slot)).op(SSTORE)
    }

    /// `sload(slot)`.
    pub(crate) fn load(self, slot: u64) -> Self {
        self.push(U256::from(slot)).op(SLOAD)
    }

    /// `sstore(slot, value)`.
    pub(crate) fn set(self, slot: u64, value: u64) -> Self {
        self.push(U256::from(value)).store(slot)
    }

    /// `sstore(slot, sload(slot) + 1)`.
    pub(crate) fn count(self, slot: u64) -> Self {
        self.load(slot).push(U256::ONE).op(ADD).store(slot)
    }

    /// `calldataload(0)`.
    pub(crate) fn input(self) -> Self {
        self.push(U256::ZERO).op(CALLDATALOAD)
    }

    /// Calls with the first word of memory as input, and leaves 1 on success, 0 on failure.
    pub(crate) fn call(self, op: u8, to: Address, value: u64, gas: u64) -> Self {
        let code = self.push(U256::ZERO).push(U256::ZERO).push(U256::from(32)).push(U256::ZERO);
        let code = if matches!(op, CALL | CALLCODE) { code.push(U256::from(value)) } else { code };
        code.addr(to).push(U256::from(gas)).op(op)
    }

    /// [`Self::call`] with `input` in the first word of memory.
    pub(crate) fn call_with(self, op: u8, to: Address, input: u64, gas: u64) -> Self {
        self.push(U256::from(input)).push(U256::ZERO).op(MSTORE).call(op, to, 0, gas)
    }

    /// Runs `body` if the top of the stack is not zero. The body must leave the stack as it was.
    pub(crate) fn when(self, body: impl FnOnce(Self) -> Self) -> Self {
        let mut code = self.op(ISZERO).op(PUSH2);
        let at = code.0.len();
        code = body(code.ops(&[0, 0, JUMPI]));
        let target = u16::try_from(code.0.len()).expect("short code");
        code.0[at..at + 2].copy_from_slice(&target.to_be_bytes());
        code.op(JUMPDEST)
    }

    /// Returns the top of the stack as a word.
    pub(crate) fn give(self) -> Self {
        self.push(U256::ZERO).op(MSTORE).push(U256::from(32)).push(U256::ZERO).op(RETURN)
    }

    /// Creates a contract from the input of the call, `CREATE2` with salt zero, and leaves its address.
    pub(crate) fn create_from_input(self, op: u8) -> Self {
        let code = self.op(CALLDATASIZE).push(U256::ZERO).push(U256::ZERO).op(CALLDATACOPY);
        let code = if op == CREATE2 { code.push(U256::ZERO) } else { code };
        code.op(CALLDATASIZE).push(U256::ZERO).op(CALLVALUE).op(op)
    }

    pub(crate) fn build(self) -> Vec<u8> {
        self.0
    }

    pub(crate) fn bytes(self) -> Bytes {
        self.0.into()
    }
}

/// Init code that runs `before` and deploys `code`.
pub(crate) fn deploys(before: Asm, code: &[u8]) -> Bytes {
    let length = u16::try_from(code.len()).expect("short code").to_be_bytes();
    let mut init =
        before.ops(&[PUSH2, length[0], length[1], DUP1, PUSH2, 0, 0, PUSH1, 0, CODECOPY, PUSH1, 0, RETURN]).0;
    let at = u16::try_from(init.len()).expect("short code").to_be_bytes();
    let place = init.len() - 8;
    init[place..place + 2].copy_from_slice(&at);
    init.extend_from_slice(code);
    init.into()
}
