//! The inspector that follows a transaction through revm, frame by frame.

use crate::{
    expr::{Node, Region, region_len},
    frame::{Frame, Pending},
    memory::Stop,
    mode::Mode,
    recording::{Event, MAX_EVENTS, Recording},
};
use alloy_primitives::{Address, B256, KECCAK256_EMPTY, U256};
use revm::{
    bytecode::opcode::*,
    context_interface::{Block as _, Cfg as _, ContextTr, JournalTr as _, Transaction as _, context::SStoreResult},
    inspector::{Inspector, JournalExt},
    interpreter::{CallInputs, CallOutcome, CreateInputs, CreateOutcome, InstructionResult, Interpreter},
};

/// Frames of one transaction that are followed, one by one; in an exact recording, frames and accounts.
const MAX_FRAMES: usize = 256;
const MAX_OPEN: usize = 16;
const MAX_ACCOUNTS: usize = 16;

/// A frame that was followed to its end.
#[derive(Debug)]
pub struct Recorded {
    /// Hash of the code that ran.
    pub code: B256,
    /// First four bytes of calldata.
    pub selector: Option<[u8; 4]>,
    /// Result of the frame.
    pub result: InstructionResult,
    /// Return data.
    pub output: Region,
    /// Gas since the last event that names gas, in an exact recording.
    pub gas: u64,
    /// Formulas and events.
    pub recording: Recording,
}

/// Follows one transaction.
#[derive(Debug, Default)]
pub struct Recorder {
    mode: Mode,
    frames: Vec<(B256, Option<[u8; 4]>, Frame)>,
    /// Calls and creations that have not ended: true if a frame was made for them.
    open: Vec<bool>,
    done: Vec<Recorded>,
    delegations: Vec<(B256, Address)>,
    /// True while the code that is about to run is being created.
    creates: bool,
}

impl Recorder {
    /// A recorder of the next transaction.
    pub fn new(mode: Mode) -> Self {
        Self { mode, ..Self::default() }
    }

    /// Returns the frames that ended in a way that formulas can explain, inner frames first. An exact recording is one frame,
    /// or none. Also returns the codes that delegate (EIP-7702), and their targets.
    pub fn finish(self) -> (Vec<Recorded>, Vec<(B256, Address)>) {
        (self.done, self.delegations)
    }

    /// Follows with the innermost frame, which is dropped if it cannot.
    fn follow(&mut self, work: impl FnOnce(&mut Frame) -> Result<(), Stop>) {
        if let Some((.., frame)) = self.frames.last_mut().filter(|(.., frame)| !frame.dropped) {
            frame.dropped = work(frame).is_err();
        }
    }

    /// A frame whose code begins to run.
    fn enter(&mut self, interp: &Interpreter) -> Frame {
        let (mode, target, depth) = (self.mode, interp.input.target_address, self.frames.len());
        let caller = self.frames.last_mut().filter(|_| mode != Mode::Frames).map(|(.., frame)| frame);
        let Some(caller) = caller else {
            let mut frame = Frame::new(mode, Recording::new(mode), target);
            frame.dropped = self.creates || depth + self.done.len() >= MAX_FRAMES;
            if mode != Mode::Frames {
                frame.last = interp.gas.remaining();
                frame.dropped |= frame.begin().is_err();
            }
            return frame;
        };
        let mut frame = Frame::new(mode, core::mem::take(&mut caller.recording), target);
        frame.last = interp.gas.remaining();
        let accounts = &frame.recording.accounts;
        match (caller.pending.take(), caller.around) {
            (Some(Pending { delegates, to, input, .. }), Some([address, by])) if depth < MAX_OPEN => {
                frame.input = Some(input);
                let callee = accounts.iter().position(|(_, address)| *address == to.1);
                let around = if delegates { [address, by] } else { [to.0, address] };
                // There are fewer than 2^16 accounts.
                frame.account = if delegates { caller.account } else { callee.unwrap_or_default() as u16 };
                frame.around = Some(around);
                frame.dropped = caller.dropped || callee.is_none();
            }
            _ => frame.dropped = true,
        }
        frame
    }

    fn ended(&mut self, outcome: &CallOutcome) {
        let followed = self.open.pop().unwrap_or_default();
        let ended = if followed { self.frames.pop() } else { None };
        let (result, len) = (*outcome.instruction_result(), outcome.output().len());
        let mut output = Region::default();
        // How far a frame gets with too little gas is not a property of the code.
        let mut explained =
            result.is_ok() || matches!(result, InstructionResult::Revert | InstructionResult::InvalidFEOpcode);
        if let Mode::Exact { .. } = self.mode {
            let reverts = result == InstructionResult::Revert && self.frames.is_empty();
            explained = reverts || matches!(result, InstructionResult::Stop | InstructionResult::Return);
        }
        if let Some((code, selector, mut frame)) = ended {
            let gas = match self.mode {
                Mode::Frames => Ok(0),
                Mode::Exact { .. } => frame.ends(outcome.gas().remaining(), len, self.frames.is_empty()),
            };
            frame.dropped |= !explained || gas.is_err();
            let gas = gas.unwrap_or_default();
            match self.frames.last_mut().filter(|_| self.mode != Mode::Frames) {
                Some((.., caller)) => {
                    caller.recording = frame.recording;
                    caller.recording.events.push(Event::Leave { gas });
                    caller.dropped |= frame.dropped;
                    output = frame.output;
                    match caller.last.checked_add(outcome.gas().remaining()) {
                        Some(last) => caller.last = last,
                        None => caller.dropped = true,
                    }
                }
                None if !frame.dropped => {
                    let Frame { output, recording, .. } = frame;
                    self.done.push(Recorded { code, selector, result, output, gas, recording });
                }
                None => {}
            }
        } else if let (Mode::Exact { .. }, Some((.., caller))) = (self.mode, self.frames.last_mut()) {
            // A call that runs no code.
            caller.dropped = true;
        }
        self.follow(|caller| caller.call_ended(output, followed, len));
    }
}

impl<C: ContextTr<Journal: JournalExt>> Inspector<C> for Recorder {
    fn initialize_interp(&mut self, interp: &mut Interpreter, _: &mut C) {
        let code = interp.bytecode.get_or_calculate_hash();
        let input = &interp.input.input;
        // An empty input may point nowhere.
        let selector =
            if input.is_empty() { None } else { input.as_bytes_memory(&interp.memory).first_chunk::<4>().copied() };
        let frame = self.enter(interp);
        self.frames.push((code, selector, frame));
        if let Some(open) = self.open.last_mut() {
            *open = true;
        }
    }

    fn step(&mut self, interp: &mut Interpreter, _: &mut C) {
        self.follow(|frame| frame.step(interp));
    }

    fn step_end(&mut self, interp: &mut Interpreter, context: &mut C) {
        if self.mode != Mode::Frames {
            self.follow(|frame| frame.stepped(interp, context));
        }
    }

    fn call(&mut self, context: &mut C, inputs: &mut CallInputs) -> Option<CallOutcome> {
        self.open.push(false);
        self.creates = false;
        if self.mode != Mode::Frames {
            self.follow(|frame| frame.called(context, inputs));
        } else if let Some(account) = context.journal().evm_state().get(&inputs.bytecode_address)
            && let Some(to) = account.info.code.as_ref().and_then(|code| code.eip7702_address())
            && account.info.code_hash != KECCAK256_EMPTY
            && self.delegations.len() < MAX_FRAMES
        {
            self.delegations.push((account.info.code_hash, to));
        }
        None
    }

    fn call_end(&mut self, _: &mut C, _: &CallInputs, outcome: &mut CallOutcome) {
        self.ended(outcome);
    }

    fn create(&mut self, _: &mut C, _: &mut CreateInputs) -> Option<CreateOutcome> {
        self.open.push(false);
        self.creates = true;
        None
    }

    fn create_end(&mut self, _: &mut C, _: &CreateInputs, _: &mut CreateOutcome) {
        if self.open.pop().unwrap_or_default() {
            self.frames.pop();
        }
    }
}

/// Exact recordings: accounts and gas. What gas was used must be what a replay will compute.
impl Frame {
    /// Begins an exact recording with the account that the transaction calls.
    fn begin(&mut self) -> Result<(), Stop> {
        let around = [self.intern(Node::Target)?, self.intern(Node::Origin)?];
        self.recording.accounts.push((around[0], self.target));
        self.around = Some(around);
        Ok(())
    }

    /// Ends a frame that returns `len` bytes, the last frame if `is_last`. Returns the gas since the last event that names gas.
    fn ends(&mut self, left: u64, len: usize, is_last: bool) -> Result<u64, Stop> {
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
    fn stepped<C: ContextTr<Journal: JournalExt>>(&mut self, interp: &Interpreter, context: &C) -> Result<(), Stop> {
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
        let cost = params.sstore_static_gas() + params.sstore_dynamic_gas(true, &values, slot.cold);
        slot.cold = false;
        let Some(Event::Store { gas, .. }) = self.recording.events.last() else { return Err(Stop) };
        if before.checked_sub(left) == gas.checked_add(cost) { Ok(()) } else { Err(Stop) }
    }

    /// Begins a call of this frame.
    fn called<C: ContextTr<Journal: JournalExt>>(&mut self, context: &C, inputs: &CallInputs) -> Result<(), Stop> {
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
}
