//! KECCAK256 that looks for a known slot in the database before it hashes.

use crate::preimage::{KnownSlots, Preimage};
use revm::{
    bytecode::opcode::KECCAK256,
    context_interface::Host as _,
    handler::{MainnetContext, instructions::EthInstructions},
    interpreter::{
        Instruction, InstructionContext, InstructionExecResult, InstructionResult, gas, instructions::system,
        interpreter::EthInterpreter,
    },
    primitives::U256,
};

/// Replaces KECCAK256: for 64 bytes it looks for a known slot. Gas, stack and memory stay as with revm's instruction.
pub(crate) fn install<D: KnownSlots>(instructions: &mut EthInstructions<EthInterpreter, MainnetContext<D>>) {
    let static_gas = u16::try_from(gas::KECCAK256).unwrap_or(u16::MAX);
    instructions.insert_instruction(KECCAK256, Instruction::new(keccak256), static_gas);
}

fn keccak256<D: KnownSlots>(
    context: InstructionContext<'_, MainnetContext<D>, EthInterpreter>,
) -> InstructionExecResult {
    let Some(slot) = known(&context) else { return system::keccak256(context) };
    let InstructionContext { interpreter, host } = context;
    if !interpreter.gas.record_regular_cost(host.gas_params().keccak256_cost(size_of::<Preimage>())) {
        return Err(InstructionResult::OutOfGas);
    }
    // Both operands are there, or the slot would not be known.
    let _ = interpreter.stack.pop();
    if let Some(top) = interpreter.stack.top() {
        *top = slot;
    }
    Ok(())
}

/// Returns the hash, if the operands are a known preimage in memory that is paid for already.
#[inline]
fn known<D: KnownSlots>(context: &InstructionContext<'_, MainnetContext<D>, EthInterpreter>) -> Option<U256> {
    let (stack, memory) = (&context.interpreter.stack, &context.interpreter.memory);
    if stack.peek(1).ok()? != U256::from(size_of::<Preimage>()) {
        return None;
    }
    let offset = usize::try_from(stack.peek(0).ok()?).ok()?;
    if offset.checked_add(size_of::<Preimage>())? > memory.len() {
        return None;
    }
    let bytes = memory.slice_len(offset, size_of::<Preimage>());
    context.host.journaled_state.database.known_slot(bytes.as_ref().try_into().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vm::{Vm, VmConfig};
    use revm::{
        Database, ExecuteEvm as _,
        bytecode::Bytecode,
        context::{CfgEnv, TxEnv},
        context_interface::result::ExecutionResult,
        database::{CacheDB, EmptyDB},
        primitives::{Address, B256, Bytes, StorageKey, StorageValue, TxKind, keccak256},
        state::AccountInfo,
    };

    const CONTRACT: Address = Address::repeat_byte(0xcc);

    /// Knows one preimage, with a slot that may be wrong.
    #[derive(Debug)]
    struct Knowing {
        db: CacheDB<EmptyDB>,
        known: Option<(Preimage, U256)>,
    }

    impl Database for Knowing {
        type Error = core::convert::Infallible;

        fn basic(&mut self, address: Address) -> Result<Option<AccountInfo>, Self::Error> {
            self.db.basic(address)
        }

        fn code_by_hash(&mut self, hash: B256) -> Result<Bytecode, Self::Error> {
            self.db.code_by_hash(hash)
        }

        fn storage(&mut self, address: Address, slot: StorageKey) -> Result<StorageValue, Self::Error> {
            self.db.storage(address, slot)
        }

        fn block_hash(&mut self, number: u64) -> Result<B256, Self::Error> {
            self.db.block_hash(number)
        }
    }

    impl KnownSlots for Knowing {
        fn known_slot(&self, preimage: &Preimage) -> Option<U256> {
            self.known.filter(|(known, _)| known == preimage).map(|(_, slot)| slot)
        }
    }

    /// Writes two words, hashes `len` bytes from `offset` on, and returns the hash.
    fn hashing(offset: u8, len: u8) -> Vec<u8> {
        let mut code = Vec::new();
        for (place, byte) in [(0, 0x11), (32, 0x22)] {
            code.push(0x7f);
            code.extend([byte; 32]);
            code.extend([0x60, place, 0x52]);
        }
        code.extend([0x60, len, 0x60, offset, 0x20, 0x60, 0, 0x52, 0x60, 32, 0x60, 0, 0xf3]);
        code
    }

    fn vm(code: &[u8], known: Option<(Preimage, U256)>) -> Vm<Knowing> {
        let mut db = CacheDB::new(EmptyDB::default());
        let code = Bytecode::new_raw(Bytes::copy_from_slice(code));
        db.insert_account_info(
            CONTRACT,
            AccountInfo { code_hash: code.hash_slow(), code: Some(code), ..Default::default() },
        );
        VmConfig::from(CfgEnv::default()).build_with_known_slots(Knowing { db, known })
    }

    fn run(vm: &mut Vm<Knowing>, gas_limit: u64) -> ExecutionResult {
        let tx = TxEnv { kind: TxKind::Call(CONTRACT), gas_limit, ..TxEnv::default() };
        vm.transact(tx).expect("valid").result
    }

    fn preimage() -> Preimage {
        core::array::from_fn(|i| if i < 32 { 0x11 } else { 0x22 })
    }

    #[test]
    fn only_the_known_preimage_gets_the_known_slot() {
        let told = U256::from(0x1234);
        for (offset, len) in [(0, 64), (1, 64), (32, 64), (0, 32), (0, 65), (0, 0)] {
            let code = hashing(offset, len);
            let output = run(&mut vm(&code, Some((preimage(), told))), 100_000).into_output().expect("output");
            let mut memory = preimage().to_vec();
            memory.resize(256, 0);
            let hash = keccak256(&memory[usize::from(offset)..][..usize::from(len)]);
            let is_known = (offset, len) == (0, 64);
            assert_eq!(output[..], if is_known { B256::from(told) } else { hash }[..], "{offset}, {len}");
        }
    }

    #[test]
    fn cost_and_out_of_gas_stay_the_same() {
        let right = U256::from_be_bytes(keccak256(preimage()).0);
        // The last lacks its second operand.
        let mut short = hashing(0, 64);
        let hash = short.len() - 9;
        short.drain(hash - 2..hash);
        for code in [hashing(0, 64), hashing(32, 64), hashing(0, 33), short] {
            let (mut plain, mut knowing) = (vm(&code, None), vm(&code, Some((preimage(), right))));
            let ends: Vec<_> = (21_000..21_200)
                .map(|gas| {
                    let (a, b) = (run(&mut plain, gas), run(&mut knowing, gas));
                    assert_eq!(a, b, "{gas} gas");
                    a.is_success()
                })
                .collect();
            assert!(!ends[0], "some run out of gas");
        }
    }
}
