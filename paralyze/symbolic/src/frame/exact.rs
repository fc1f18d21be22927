//! Exact recordings: accounts and gas. The gas that was used must be what a replay will compute.

use super::{Frame, Pending};
use crate::{
    expr::{Node, Ref, region_len},
    memory::Stop,
    recording::{Event, MAX_EVENTS},
};
use alloy_primitives::{Address, U256};
use revm::{
    bytecode::opcode::*,
    context_interface::{Block as _, Cfg as _, ContextTr, JournalTr as _, Transaction as _, context::SStoreResult},
    inspector::JournalExt,
    interpreter::{CallInputs, Interpreter},
};

/// Maximum number of accounts of an exact recording.
const MAX_ACCOUNTS: usize = 16;

impl Frame {
    /// Begins an exact recording with the account that the transaction calls.
    pub(crate) fn begin(&mut self) -> Result<(), Stop> {
        let around = [self.intern(Node::Target)?, self.intern(Node::Origin)?];
        self.recording.accounts.push((around[0], self.target));
        self.around = Some(around);
        Ok(())
    }

    /// Ends a frame that returns `len` bytes, the last frame if `is_last`. Returns the gas since the last event that names gas.
    pub(crate) fn ends(&mut self, left: u64, len: usize, is_last: bool) -> Result<u64, Stop> {
        let output = core::mem::take(&mut self.output);
        if self.recording.events.len() > MAX_EVENTS || self.pending.is_some() || region_len(&output) != len {
            return Err(Stop);
        }
        if is_last {
            self.charge(&output)?;
        }
        self.output = output;
        self.since(left)
    }

    /// Notes the result of an instruction that has run.
    pub(crate) fn stepped<C: ContextTr<Journal: JournalExt>>(
        &mut self,
        interp: &Interpreter,
        context: &C,
    ) -> Result<(), Stop> {
        let left = interp.gas.remaining();
        let (op, stored, measured) = self.ran();
        match op {
            GAS => {
                let real = interp.stack.peek(0).ok().and_then(|gas| u64::try_from(gas).ok()).ok_or(Stop)?;
                let (gas, read) = (self.since(real)?, self.recording.gas_reads);
                self.recording.gas_reads = read.checked_add(1).ok_or(Stop)?;
                let to = self.intern(Node::Gas(read))?;
                self.recording.events.push(Event::Gas { to, gas });
                self.results_in(to)
            }
            EXTCODESIZE => self.meet(measured.ok_or(Stop)?, context),
            SSTORE => {
                let before = core::mem::replace(&mut self.last, left);
                self.stored(stored.ok_or(Stop)?, before, left, context)
            }
            CALL | DELEGATECALL | STATICCALL => {
                self.pending.as_mut().ok_or(Stop)?.after = left;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Checks the gas of a slot that was written.
    fn stored<C>(&mut self, slot: usize, before: u64, left: u64, context: &C) -> Result<(), Stop>
    where
        C: ContextTr<Journal: JournalExt>,
    {
        let slot = &mut self.recording.slots[slot];
        let account = context.journal_ref().evm_state().get(&slot.address).ok_or(Stop)?;
        let now = account.storage.get(&slot.real).ok_or(Stop)?;
        let present_value = slot.held.unwrap_or(now.original_value);
        let values = SStoreResult { original_value: now.original_value, present_value, new_value: now.present_value };
        slot.held = Some(now.present_value);
        let params = context.cfg().gas_params();
        let mut cost = params.sstore_static_gas() + params.sstore_dynamic_gas(true, &values, slot.cold);
        if context.cfg().is_amsterdam_eip8037_enabled() {
            if params.sstore_state_gas_refill(&values) > 0 {
                return Err(Stop);
            }
            cost += params.sstore_state_gas(&values);
        }
        slot.cold = false;
        let Some(Event::Store { gas, .. }) = self.recording.events.last() else { return Err(Stop) };
        if before.checked_sub(left) == gas.checked_add(cost) { Ok(()) } else { Err(Stop) }
    }

    /// Begins a call of this frame.
    pub(crate) fn called<C: ContextTr<Journal: JournalExt>>(
        &mut self,
        context: &C,
        inputs: &CallInputs,
    ) -> Result<(), Stop> {
        let Pending { to, at_most, before, after, delegates, .. } = self.pending.as_ref().ok_or(Stop)?;
        let (to, at_most, before, after, delegates) = (*to, *at_most, *before, *after, *delegates);
        // Where code is elsewhere (EIP-7702), there is more to pay.
        let account = context.journal_ref().evm_state().get(&to.1).ok_or(Stop)?;
        if account.info.code_hash != inputs.known_bytecode.0 || inputs.bytecode_address != to.1 {
            return Err(Stop);
        }
        self.meet(to, context)?;
        if inputs.target_address != if delegates { self.target } else { to.1 } {
            return Err(Stop);
        }
        let cost = before.checked_sub(after).and_then(|taken| taken.checked_sub(inputs.gas_limit)).ok_or(Stop)?;
        let reduced = context.cfg().gas_params().call_stipend_reduction(before - cost);
        if U256::from(inputs.gas_limit) != at_most.1.min(U256::from(reduced)) {
            return Err(Stop);
        }
        let gas = self.since(before)?.checked_add(cost).ok_or(Stop)?;
        self.recording.events.push(Event::Enter { gas, at_most: at_most.0 });
        self.last = after;
        Ok(())
    }

    /// Meets an account that is called, or whose code is measured; it is loaded.
    fn meet<C: ContextTr<Journal: JournalExt>>(
        &mut self,
        (name, address): (u32, Address),
        context: &C,
    ) -> Result<(), Stop> {
        if let Some((known, _)) = self.recording.accounts.iter().find(|(_, other)| *other == address) {
            // Two names of one account: the path expects that they are equal.
            let known = *known;
            return if known == name { Ok(()) } else { self.alike(known, name) };
        }
        let info = &context.journal_ref().evm_state().get(&address).ok_or(Stop)?.info;
        let is_legacy = info.code.as_ref().is_some_and(|code| !code.is_eip7702());
        // These are warm without having been touched.
        let is_warm = address == context.tx().caller() || address == context.block().beneficiary();
        if is_warm || !is_legacy || self.recording.accounts.len() == MAX_ACCOUNTS {
            return Err(Stop);
        }
        self.recording.events.push(Event::Account { address: name, code: info.code_hash });
        self.recording.accounts.push((name, address));
        Ok(())
    }

    /// Gas that was used since the last event that names gas, if so much is left now.
    pub(super) fn since(&self, left: u64) -> Result<u64, Stop> {
        self.last.checked_sub(left).ok_or(Stop)
    }

    /// Instruction, slot and account of an exact recording that the instruction which has just run is about.
    const fn ran(&mut self) -> (u8, Option<usize>, Option<(Ref, Address)>) {
        (self.op, self.stored.take(), self.measured.take())
    }

    /// Replaces the result of the instruction that has just run by a formula.
    fn results_in(&mut self, at: Ref) -> Result<(), Stop> {
        *self.stack.last_mut().ok_or(Stop)? = Some(at);
        Ok(())
    }
}
