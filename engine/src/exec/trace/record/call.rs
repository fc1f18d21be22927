//! Calls between contracts. All frames of a transaction become one trace.

use crate::exec::trace::record::{MAX_ACCOUNTS, MAX_FRAMES, Now, Recording, frame::Frame};
use crate::exec::{
    dag::view::View,
    trace::{
        limit::Limit,
        program::{End, Formula, Op},
        shadow::{Origin, Region, Shadow},
    },
};
use alloy_primitives::{Address, U256};
use phalanx_paralyze::Register;
use revm::{
    bytecode::opcode::*,
    context_interface::{Cfg as _, ContextTr as _, result::SuccessReason},
    handler::MainnetContext,
    interpreter::{CallInputs, CallOutcome, InstructionResult, Interpreter},
};

/// A call that has not begun.
#[derive(Debug)]
pub(super) struct Pending {
    op: u8,
    to: (Register, Address),
    /// The most gas that it may use, and its register.
    at_most: (Register, U256),
    input: Region,
    /// Where its caller wants what it gives back, and how much of it.
    output: (usize, usize),
    /// Gas that its caller had left before and has left after, what the call got apart.
    before: u64,
    pub(super) after: u64,
}

impl Recording {
    /// A call is about to be made.
    pub(super) fn call(&mut self, now: &Now<'_>) -> Result<Shadow, Limit> {
        // A call without value moves none.
        let memory = if now.op == CALL { 3 } else { 2 };
        if now.op == CALL {
            self.pin(now, 2)?;
            if !now.word(2).is_zero() {
                return Err(Limit);
            }
        }
        let to = self.address(now, 1)?;
        let at_most = (self.operand(now, 0)?, now.word(0));
        let input = self.region(now, memory, memory + 1)?;
        let len = self.len(now, memory + 3)?;
        self.pin(now, memory + 2)?;
        let output = (if len == 0 { 0 } else { now.usize(memory + 2).ok_or(Limit)? }, len);
        let before = now.interp.gas.remaining();
        self.pending = Some(Pending { op: now.op, to, at_most, input, output, before, after: before });
        // One that fails is not followed.
        Ok(None)
    }

    /// A call begins: the transaction's own, or one of a frame.
    pub(super) fn called(&mut self, context: &MainnetContext<View>, inputs: &CallInputs) -> Result<(), Limit> {
        if self.frames.is_empty() {
            let target = self.program.formula(Formula::Target)?;
            self.accounts.push((target, inputs.target_address));
            let code = context.journaled_state.database.code_id(&inputs.known_bytecode.0);
            return if code == Some(self.code) { Ok(()) } else { Err(Limit) };
        }
        let Pending { op, to, at_most, before, after, .. } = self.pending.as_ref().ok_or(Limit)?;
        let (at_most, before, after) = (*at_most, *before, *after);
        // Where code is elsewhere (EIP-7702), there is more to pay.
        let (to, delegates) = (*to, *op == DELEGATECALL);
        let account = context.journaled_state.inner.state.get(&to.1).ok_or(Limit)?;
        if account.info.code_hash != inputs.known_bytecode.0 || inputs.bytecode_address != to.1 {
            return Err(Limit);
        }
        self.account(to, context)?;
        let account = usize::from(self.frame()?.account);
        let own = self.accounts[account].1;
        if inputs.target_address != if delegates { own } else { to.1 } {
            return Err(Limit);
        }
        let cost = before.checked_sub(after).and_then(|taken| taken.checked_sub(inputs.gas_limit)).ok_or(Limit)?;
        let left = before - cost;
        let reduced = context.cfg().gas_params().call_stipend_reduction(left);
        if U256::from(inputs.gas_limit) != at_most.1.min(U256::from(reduced)) {
            return Err(Limit);
        }
        let gas = self.frame()?.since(before)?.checked_add(cost).ok_or(Limit)?;
        self.program.ops.push(Op::Enter { gas, at_most: at_most.0 });
        self.frame()?.last = after;
        Ok(())
    }

    /// The code of a call begins to run.
    pub(super) fn entered(&mut self, interp: &Interpreter) -> Result<(), Limit> {
        let gas = interp.gas.remaining();
        let frame = match self.pending.take() {
            None => {
                let (address, _) = *self.accounts.first().filter(|_| self.frames.is_empty()).ok_or(Limit)?;
                let caller = self.program.formula(Formula::Origin)?;
                Frame::new(0, address, caller, None, gas)
            }
            Some(Pending { op, to, input, output, .. }) => {
                let callee = self.accounts.iter().position(|(_, address)| *address == to.1).ok_or(Limit)?;
                let frame = self.frame()?;
                frame.awaits = output;
                let (account, address, caller) = if op == DELEGATECALL {
                    (frame.account, frame.address, frame.caller)
                } else {
                    // There are fewer than 2^16 accounts.
                    (callee as u16, to.0, frame.address)
                };
                Frame::new(account, address, caller, Some(input), gas)
            }
        };
        if self.frames.len() == MAX_FRAMES {
            return Err(Limit);
        }
        self.frames.push(frame);
        Ok(())
    }

    /// A call has ended.
    pub(super) fn returned(&mut self, outcome: &CallOutcome) -> Result<(), Limit> {
        let reason = match *outcome.instruction_result() {
            InstructionResult::Stop => Some(SuccessReason::Stop),
            InstructionResult::Return => Some(SuccessReason::Return),
            InstructionResult::Revert if self.frames.len() == 1 => None,
            _ => return Err(Limit),
        };
        // A call that ran no code has no frame.
        let frame = self.frames.pop().filter(|_| self.pending.is_none()).ok_or(Limit)?;
        let left = outcome.gas().remaining();
        let gas = frame.since(left)?;
        if frame.output.bytes.len() != outcome.output().len() {
            return Err(Limit);
        }
        let Some(caller) = self.frames.last_mut() else {
            let output = frame.output.pattern();
            self.program.charge(&output)?;
            self.end = Some(End { reason, output, gas });
            return Ok(());
        };
        self.program.ops.push(Op::Leave { gas });
        caller.last = caller.last.checked_add(left).ok_or(Limit)?;
        let (to, room) = caller.awaits;
        let origins: &[Origin] = &frame.output.origins;
        caller.memory.write(to, &origins[..room.min(origins.len())])?;
        caller.returned = frame.output;
        Ok(())
    }

    /// Meets an account that the transaction calls, or whose code it measures; it is loaded.
    pub(super) fn account(
        &mut self,
        (register, address): (Register, Address),
        context: &MainnetContext<View>,
    ) -> Result<(), Limit> {
        if let Some((known, _)) = self.accounts.iter().find(|(_, other)| *other == address) {
            // Two names of one account: who comes this way has them alike.
            let known = *known;
            return if known == register { Ok(()) } else { self.alike(known, register) };
        }
        let info = &context.journaled_state.inner.state.get(&address).ok_or(Limit)?.info;
        let code = context.journaled_state.database.code_id(&info.code_hash).filter(|code| !code.is_none());
        let is_legacy = info.code.as_ref().is_some_and(|code| !code.is_eip7702());
        // These are warm without having been touched.
        let is_warm = address == context.tx.caller || address == context.block.beneficiary;
        if is_warm || !is_legacy || self.accounts.len() == MAX_ACCOUNTS {
            return Err(Limit);
        }
        self.program.ops.push(Op::Account { address: register, code: code.ok_or(Limit)? });
        self.accounts.push((register, address));
        Ok(())
    }

    /// Calldata from `offset` on.
    pub(super) fn input(&mut self, offset: usize, len: usize) -> Result<Region, Limit> {
        if let Some(input) = &self.frame()?.input {
            return input.slice(offset, len);
        }
        let mut region = Region::default().slice(0, len)?;
        for start in (0..len).step_by(32) {
            let at = offset.saturating_add(start);
            if at >= self.input_len {
                break;
            }
            let register = self.program.formula(Formula::Input(u32::try_from(at).map_err(|_| Limit)?))?;
            let here = (len - start).min(32).min(self.input_len - at);
            for (i, origin) in region.origins[start..start + here].iter_mut().enumerate() {
                *origin = Some((register, i as u8));
            }
        }
        Ok(region)
    }
}
