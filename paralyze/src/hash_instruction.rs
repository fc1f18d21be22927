//! KECCAK256 that asks the database before it hashes.

use crate::{KnownSlots, Preimage};
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

/// Makes KECCAK256 of 64 bytes ask for a known slot. Gas, stack and memory are as revm's instruction leaves them.
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
    // Two operands were there, or it would not be known.
    let _ = interpreter.stack.pop();
    if let Some(top) = interpreter.stack.top() {
        *top = slot;
    }
    Ok(())
}

/// The hash, if the operands are a known preimage in memory that is paid for already.
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
