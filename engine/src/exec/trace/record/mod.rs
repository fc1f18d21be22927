//! Records a trace: follows revm through one transaction and notes, instead of instructions, what they compute from what.

mod call;
mod frame;

use crate::exec::trace::record::{call::Pending, frame::Frame};
use crate::exec::trace::{
    limit::Limit,
    program::{Assembler, Emitted, End, Formula, Op, Trace},
    shadow::{Region, Shadow},
};
use crate::{exec::dag::view::View, state::CodeId};
use alloy_primitives::{Address, U256};
use phalanx_paralyze::Register;
use revm::{
    bytecode::{OpCode, opcode::*},
    context_interface::{Cfg as _, ContextTr as _, context::SStoreResult},
    handler::MainnetContext,
    inspector::Inspector,
    interpreter::{CallInputs, CallOutcome, CreateInputs, CreateOutcome, Interpreter, interpreter_types::Jumps as _},
    primitives::map::HashMap,
};

/// Instructions that are followed, and operations of one trace.
const MAX_STEPS: usize = 1 << 13;
const MAX_OPS: usize = 1 << 11;

/// Slots, accounts and events of one trace, and calls that are open at a time.
const MAX_SLOTS: usize = 64;
const MAX_ACCOUNTS: usize = 16;
const MAX_EVENTS: usize = 64;
const MAX_FRAMES: usize = 16;

/// Watches one transaction, if it is told to.
#[derive(Debug, Default)]
pub(crate) struct Recorder(Option<Box<Recording>>);

/// A transaction that is followed.
#[derive(Debug)]
struct Recording {
    /// The code that the transaction calls.
    code: CodeId,
    /// What the transaction is alike in: the length of its calldata, and whether there is a selector that calls share.
    input_len: usize,
    has_selector: bool,
    program: Assembler,
    frames: Vec<Frame>,
    pending: Option<Pending>,
    accounts: Vec<(Register, Address)>,
    /// By account and register of their number.
    numbers: HashMap<(u16, Register), usize>,
    slots: Vec<Slot>,
    transient: HashMap<(u16, U256), Shadow>,
    guarded: HashMap<Register, U256>,
    events: Vec<Emitted>,
    end: Option<End>,
    /// Instructions that have run.
    steps: usize,
    /// It went where traces do not go.
    lost: bool,
}

/// A slot as it is now.
#[derive(Clone, Copy, Debug)]
struct Slot {
    account: u16,
    name: Register,
    /// Its number in this run.
    real: U256,
    present: Register,
    /// What it holds in this run, once it was written.
    held: Option<U256>,
    /// It was touched by nothing but the instruction that runs.
    cold: bool,
}

impl Recorder {
    /// Follows the next transaction that the EVM runs, which calls `code` with so many bytes.
    pub(super) fn begin(&mut self, code: CodeId, input_len: usize, has_selector: bool) {
        self.0 = Some(Box::new(Recording {
            code,
            input_len,
            has_selector,
            program: Assembler::default(),
            frames: Vec::new(),
            pending: None,
            accounts: Vec::new(),
            numbers: HashMap::default(),
            slots: Vec::new(),
            transient: HashMap::default(),
            guarded: HashMap::default(),
            events: Vec::new(),
            end: None,
            steps: 0,
            lost: false,
        }));
    }

    /// The trace of the transaction that was followed; `None` if a trace cannot say what it did.
    pub(super) fn take(&mut self) -> Option<Trace> {
        let Recording { program, slots, events, end, lost, .. } = *self.0.take()?;
        let end = end.filter(|_| !lost && program.ops.len() <= MAX_OPS)?;
        // A call that reverts leaves nothing.
        let (slots, events) = if end.reason.is_some() { (slots, events) } else { (Vec::new(), Vec::new()) };
        let slots: Vec<Register> = slots.iter().map(|slot| slot.present).collect();
        Some(program.finish(&slots, events, end))
    }

    /// Whoever meets a limit is lost.
    fn with(&mut self, work: impl FnOnce(&mut Recording) -> Result<(), Limit>) {
        if let Some(recording) = self.0.as_mut().filter(|recording| !recording.lost) {
            recording.lost = work(recording).is_err() || recording.program.ops.len() > MAX_OPS;
        }
    }
}

impl Inspector<MainnetContext<View>> for Recorder {
    fn initialize_interp(&mut self, interp: &mut Interpreter, _: &mut MainnetContext<View>) {
        self.with(|recording| recording.entered(interp));
    }

    fn step(&mut self, interp: &mut Interpreter, _: &mut MainnetContext<View>) {
        self.with(|recording| recording.step(interp));
    }

    fn step_end(&mut self, interp: &mut Interpreter, context: &mut MainnetContext<View>) {
        self.with(|recording| recording.stepped(interp, context));
    }

    fn call(&mut self, context: &mut MainnetContext<View>, inputs: &mut CallInputs) -> Option<CallOutcome> {
        self.with(|recording| recording.called(context, inputs));
        None
    }

    fn call_end(&mut self, _: &mut MainnetContext<View>, _: &CallInputs, outcome: &mut CallOutcome) {
        self.with(|recording| recording.returned(outcome));
    }

    fn create(&mut self, _: &mut MainnetContext<View>, _: &mut CreateInputs) -> Option<CreateOutcome> {
        self.with(|_| Err(Limit));
        None
    }
}

impl Recording {
    fn frame(&mut self) -> Result<&mut Frame, Limit> {
        self.frames.last_mut().ok_or(Limit)
    }

    /// The next instruction is about to run.
    fn step(&mut self, interp: &Interpreter) -> Result<(), Limit> {
        self.steps += 1;
        if self.steps > MAX_STEPS {
            return Err(Limit);
        }
        let op = interp.bytecode.opcode();
        let real = interp.stack.data();
        let info = OpCode::info_by_op(op).ok_or(Limit)?;
        let inputs = usize::from(info.inputs());
        let frame = self.frame()?;
        if frame.stack.len() != real.len() || real.len() < inputs {
            return Err(Limit);
        }
        frame.op = op;
        match op {
            DUP1..=DUP16 => {
                let from = frame.stack.len().checked_sub(usize::from(op - DUP1) + 1).ok_or(Limit)?;
                frame.stack.push(frame.stack[from]);
            }
            SWAP1..=SWAP16 => {
                let last = frame.stack.len() - 1;
                let other = last.checked_sub(usize::from(op - SWAP1) + 1).ok_or(Limit)?;
                frame.stack.swap(last, other);
            }
            _ => {
                let result = self.effect(&Now { op, real, interp })?;
                let frame = self.frame()?;
                frame.stack.truncate(real.len() - inputs);
                if info.outputs() > 0 {
                    frame.stack.push(result);
                }
            }
        }
        Ok(())
    }

    /// What an instruction does besides taking its operands; gives where its result comes from.
    fn effect(&mut self, now: &Now<'_>) -> Result<Shadow, Limit> {
        match now.op {
            // What an exponent costs depends on its length.
            EXP => {
                self.pin(now, 1)?;
                self.binary(now)
            }
            ADD..=SMOD | SIGNEXTEND | LT..=EQ | AND..=XOR | BYTE..=SAR => self.binary(now),
            ADDMOD | MULMOD => {
                if (0..3).all(|operand| self.shadow(operand).is_none()) {
                    return Ok(None);
                }
                let all = [self.operand(now, 0)?, self.operand(now, 1)?, self.operand(now, 2)?];
                self.program.formula(Formula::Ternary(now.op, all)).map(Some)
            }
            ISZERO | NOT | CLZ => match self.shadow(0) {
                Some(a) => self.program.formula(Formula::Unary(now.op, a)).map(Some),
                None => Ok(None),
            },
            KECCAK256 => {
                let region = self.region(now, 0, 1)?;
                if region.origins.iter().all(Option::is_none) {
                    return Ok(None);
                }
                self.program.formula(Formula::Hash(region.pattern())).map(Some)
            }
            ADDRESS => Ok(self.frame()?.address).map(|register| self.varying(register)),
            CALLER => Ok(self.frame()?.caller).map(|register| self.varying(register)),
            ORIGIN => self.program.formula(Formula::Origin).map(Some),
            COINBASE => self.program.formula(Formula::Beneficiary).map(Some),
            TIMESTAMP => self.program.formula(Formula::Timestamp).map(Some),
            NUMBER => self.program.formula(Formula::Number).map(Some),
            DIFFICULTY => self.program.formula(Formula::PrevRandao).map(Some),
            GASLIMIT => self.program.formula(Formula::GasLimit).map(Some),
            BASEFEE => self.program.formula(Formula::BaseFee).map(Some),
            GASPRICE => self.program.formula(Formula::GasPrice).map(Some),
            CALLDATALOAD => {
                self.pin(now, 0)?;
                let Some(offset) = now.usize(0) else { return Ok(None) };
                self.input(offset, 32)?.word(&mut self.program)
            }
            // No value is sent along, calldata is as long in every run, and code is always the same. What grows memory
            // is pinned, so that its size is.
            CALLVALUE | CALLDATASIZE | CODESIZE | RETURNDATASIZE | CHAINID | PC | MSIZE | POP | JUMPDEST => Ok(None),
            PUSH0..=PUSH32 => Ok(None),
            STOP => {
                self.frame()?.output = Region::default();
                Ok(None)
            }
            RETURN | REVERT => {
                self.frame()?.output = self.region(now, 0, 1)?;
                Ok(None)
            }
            // `stepped` finds out more.
            GAS => Ok(None),
            EXTCODESIZE => {
                let asked = self.address(now, 0)?;
                self.frame()?.asked = Some(asked);
                Ok(None)
            }
            SLOAD => {
                let slot = self.touch(now)?;
                self.slots[slot].cold = false;
                Ok(self.slots[slot].present).map(|register| self.varying(register))
            }
            SSTORE => self.store(now),
            TLOAD => {
                let slot = self.transient_slot(now)?;
                Ok(self.transient.get(&slot).copied().flatten())
            }
            TSTORE => {
                let (slot, value) = (self.transient_slot(now)?, self.shadow(1));
                self.transient.insert(slot, value);
                Ok(None)
            }
            MLOAD => self.region_at(now, 0, 32)?.word(&mut self.program),
            MSTORE => {
                let (offset, value) = (self.offset(now, 0)?, self.shadow(1));
                self.frame()?.memory.write_word(offset, value)?;
                Ok(None)
            }
            MSTORE8 => {
                let offset = self.offset(now, 0)?;
                let byte = self.shadow(1).map(|register| (register, 31));
                self.frame()?.memory.write(offset, &[byte])?;
                Ok(None)
            }
            MCOPY => {
                let region = self.region(now, 1, 2)?;
                self.copy(now, 0, &region)
            }
            CALLDATACOPY => {
                let len = self.len(now, 2)?;
                self.pin(now, 1)?;
                let region = match now.usize(1) {
                    Some(offset) => self.input(offset, len)?,
                    None => Region::default().slice(0, len)?,
                };
                self.copy(now, 0, &region)
            }
            CODECOPY => {
                let len = self.len(now, 2)?;
                self.pin(now, 1)?;
                self.copy(now, 0, &Region::default().slice(0, len)?)
            }
            RETURNDATACOPY => {
                let len = self.len(now, 2)?;
                self.pin(now, 1)?;
                let from = now.usize(1).ok_or(Limit)?;
                let region = self.frame()?.returned.slice(from, len)?;
                self.copy(now, 0, &region)
            }
            JUMP => {
                self.pin(now, 0)?;
                Ok(None)
            }
            JUMPI => {
                self.pin(now, 0)?;
                if let Some(on) = self.shadow(1) {
                    self.branch(on, !now.word(1).is_zero())?;
                }
                Ok(None)
            }
            LOG0..=LOG4 => {
                let data = self.region(now, 0, 1)?.pattern();
                self.program.charge(&data)?;
                let topics = (0..usize::from(now.op - LOG0)).map(|topic| self.operand(now, 2 + topic));
                let topics = topics.collect::<Result<_, _>>()?;
                let address = self.frame()?.address;
                if self.events.len() == MAX_EVENTS {
                    return Err(Limit);
                }
                self.events.push(Emitted { address, topics, data });
                Ok(None)
            }
            CALL | DELEGATECALL | STATICCALL => self.call(now),
            // What fails, creates, destroys, or looks at balances, other code or ancestors.
            _ => Err(Limit),
        }
    }

    fn binary(&mut self, now: &Now<'_>) -> Result<Shadow, Limit> {
        let (upper, lower) = (self.shadow(0), self.shadow(1));
        if upper.is_none() && lower.is_none() {
            return Ok(None);
        }
        if now.op == SHR && upper.is_none() && now.word(0) == U256::from(224) && self.is_selector(lower) {
            return Ok(None);
        }
        let (a, b) = (self.operand(now, 0)?, self.operand(now, 1)?);
        if now.op == AND {
            for (mask, word) in [(a, b), (b, a)] {
                // Code masks again what was masked, or is short anyway.
                if self.program.constant_of(mask).is_some_and(|mask| {
                    let bits = mask.bit_len();
                    mask.count_ones() == bits && self.program.bits(word) <= bits
                }) {
                    return Ok(Some(word));
                }
            }
        }
        let (a, b) = if matches!(now.op, ADD | MUL | EQ | AND..=XOR) { (a.min(b), a.max(b)) } else { (a, b) };
        self.program.formula(Formula::Binary(now.op, a, b)).map(Some)
    }

    /// Whether the first four bytes of a word are the same in every run.
    fn is_selector(&self, word: Shadow) -> bool {
        match word.and_then(|register| self.program.what(register)) {
            Some(Formula::Input(0)) => self.has_selector,
            Some(Formula::Word(pattern)) => pattern.parts.iter().all(|part| part.at >= 4),
            _ => false,
        }
    }

    /// The slot that operand 0 names, by its number among the trace's.
    fn touch(&mut self, now: &Now<'_>) -> Result<usize, Limit> {
        let register = self.operand(now, 0)?;
        let account = self.frame()?.account;
        if let Some(slot) = self.numbers.get(&(account, register)) {
            return Ok(*slot);
        }
        let real = now.word(0);
        let known = self.slots.iter().position(|slot| (slot.account, slot.real) == (account, real));
        let slot = match known {
            // Two names of one slot: who comes this way has them alike.
            Some(slot) => {
                self.alike(register, self.slots[slot].name)?;
                slot
            }
            None if self.slots.len() == MAX_SLOTS => return Err(Limit),
            None => {
                let original = self.program.register()?;
                self.program.ops.push(Op::Slot { account, slot: register, original });
                self.slots.push(Slot { account, name: register, real, present: original, held: None, cold: true });
                self.slots.len() - 1
            }
        };
        self.numbers.insert((account, register), slot);
        Ok(slot)
    }

    /// What follows holds only where two registers hold the same.
    fn alike(&mut self, a: Register, b: Register) -> Result<(), Limit> {
        let same = self.program.formula(Formula::Binary(EQ, a.min(b), a.max(b)))?;
        self.guard(same, U256::ONE)
    }

    fn store(&mut self, now: &Now<'_>) -> Result<Shadow, Limit> {
        let (slot, value) = (self.touch(now)?, self.operand(now, 1)?);
        let gas = self.frame()?.since(now.interp.gas.remaining())?;
        let Slot { present, cold, .. } = self.slots[slot];
        // There are fewer than 2^16 slots.
        self.program.ops.push(Op::Store { slot: slot as u16, present, value, cold, gas });
        self.frame()?.stored = Some(slot);
        self.slots[slot].present = value;
        Ok(None)
    }

    /// A slot of transient storage. Its number must be the same in every run, as nothing tells otherwise whether two are one.
    fn transient_slot(&mut self, now: &Now<'_>) -> Result<(u16, U256), Limit> {
        if self.shadow(0).is_some() {
            return Err(Limit);
        }
        Ok((self.frame()?.account, now.word(0)))
    }

    /// An instruction has run.
    fn stepped(&mut self, interp: &Interpreter, context: &MainnetContext<View>) -> Result<(), Limit> {
        let frame = self.frames.last_mut().ok_or(Limit)?;
        let left = interp.gas.remaining();
        match frame.op {
            GAS => {
                let real = interp.stack.peek(0).ok().and_then(|gas| u64::try_from(gas).ok()).ok_or(Limit)?;
                let gas = frame.since(real)?;
                let register = self.program.register()?;
                self.program.ops.push(Op::Set(register, Formula::GasLeft(gas)));
                *frame.stack.last_mut().ok_or(Limit)? = Some(register);
            }
            EXTCODESIZE => {
                let asked = frame.asked.take().ok_or(Limit)?;
                self.account(asked, context)?;
            }
            SSTORE => {
                let stored = frame.stored.take().ok_or(Limit)?;
                let before = core::mem::replace(&mut frame.last, left);
                self.stored(stored, before, left, context)?;
            }
            CALL | DELEGATECALL | STATICCALL => {
                self.pending.as_mut().ok_or(Limit)?.after = left;
            }
            _ => {}
        }
        Ok(())
    }

    /// A slot was written. What that took must be what will be computed when the trace is replayed.
    fn stored(&mut self, stored: usize, before: u64, left: u64, context: &MainnetContext<View>) -> Result<(), Limit> {
        let slot = &mut self.slots[stored];
        let (_, address) = self.accounts[usize::from(slot.account)];
        let account = context.journaled_state.inner.state.get(&address).ok_or(Limit)?;
        let now = account.storage.get(&slot.real).ok_or(Limit)?;
        let present_value = slot.held.unwrap_or(now.original_value);
        let values = SStoreResult { original_value: now.original_value, present_value, new_value: now.present_value };
        slot.held = Some(now.present_value);
        let params = context.cfg().gas_params();
        let cost = params.sstore_static_gas() + params.sstore_dynamic_gas(true, &values, slot.cold);
        slot.cold = false;
        let Some(Op::Store { gas, .. }) = self.program.ops.last() else { return Err(Limit) };
        if before.checked_sub(left) == gas.checked_add(cost) { Ok(()) } else { Err(Limit) }
    }

    /// What lies in memory where operands `offset` and `len` point to.
    fn region(&mut self, now: &Now<'_>, offset: usize, len: usize) -> Result<Region, Limit> {
        let len = self.len(now, len)?;
        self.region_at(now, offset, len)
    }

    fn region_at(&mut self, now: &Now<'_>, offset: usize, len: usize) -> Result<Region, Limit> {
        self.pin(now, offset)?;
        if len == 0 {
            return Ok(Region::default());
        }
        let offset = now.usize(offset).ok_or(Limit)?;
        let memory = &now.interp.memory;
        let end = offset.saturating_add(len).min(memory.len());
        let frame = self.frame()?;
        if offset < end {
            frame.memory.read(offset, len, &memory.slice_range(offset..end))
        } else {
            frame.memory.read(offset, len, &[])
        }
    }

    /// Writes to where operand `to` points.
    fn copy(&mut self, now: &Now<'_>, to: usize, region: &Region) -> Result<Shadow, Limit> {
        self.pin(now, to)?;
        if !region.origins.is_empty() {
            let to = now.usize(to).ok_or(Limit)?;
            self.frame()?.memory.write(to, &region.origins)?;
        }
        Ok(None)
    }

    /// An offset, which is the same in every run.
    fn offset(&mut self, now: &Now<'_>, operand: usize) -> Result<usize, Limit> {
        self.pin(now, operand)?;
        now.usize(operand).ok_or(Limit)
    }

    /// A length, which is the same in every run.
    fn len(&mut self, now: &Now<'_>, operand: usize) -> Result<usize, Limit> {
        self.offset(now, operand)
    }

    fn shadow(&self, operand: usize) -> Shadow {
        let stack = &self.frames.last()?.stack;
        *stack.get(stack.len().checked_sub(1 + operand)?)?
    }

    /// The register of an operand.
    fn operand(&mut self, now: &Now<'_>, operand: usize) -> Result<Register, Limit> {
        match self.shadow(operand) {
            Some(register) => Ok(register),
            None => self.program.constant(now.word(operand)),
        }
    }

    /// The account that an operand names. A word that is more than an address is not followed: what the code makes of it
    /// depends on all its bytes, what the EVM finds there on the last 20.
    fn address(&mut self, now: &Now<'_>, operand: usize) -> Result<(Register, Address), Limit> {
        let word = now.word(operand);
        if word.bit_len() > 160 {
            return Err(Limit);
        }
        Ok((self.operand(now, operand)?, Address::from_word(word.into())))
    }

    /// A register as a shadow: constants have none.
    fn varying(&self, register: Register) -> Shadow {
        self.program.constant_of(register).is_none().then_some(register)
    }

    /// What follows holds only for this value of an operand.
    fn pin(&mut self, now: &Now<'_>, operand: usize) -> Result<(), Limit> {
        match self.shadow(operand) {
            Some(on) => self.guard(on, now.word(operand)),
            None => Ok(()),
        }
    }

    /// What follows holds only where `on` is true, or is not.
    fn branch(&mut self, on: Register, taken: bool) -> Result<(), Limit> {
        let truth = |holds: bool| U256::from(u8::from(holds));
        if let Some(Formula::Unary(ISZERO, _) | Formula::Binary(LT..=EQ, ..)) = self.program.what(on) {
            return self.guard(on, truth(taken));
        }
        // Any other value is true if it is not zero.
        let negated = self.program.formula(Formula::Unary(ISZERO, on))?;
        self.guard(negated, truth(!taken))
    }

    fn guard(&mut self, on: Register, value: U256) -> Result<(), Limit> {
        match self.guarded.insert(on, value) {
            None => self.program.ops.push(Op::Expect(on, value)),
            Some(before) if before == value => {}
            // What is to be expected is not what was found.
            Some(_) => return Err(Limit),
        }
        Ok(())
    }
}

/// An instruction and its operands.
struct Now<'a> {
    op: u8,
    real: &'a [U256],
    interp: &'a Interpreter,
}

impl Now<'_> {
    fn word(&self, operand: usize) -> U256 {
        self.real[self.real.len() - 1 - operand]
    }

    fn usize(&self, operand: usize) -> Option<usize> {
        usize::try_from(self.word(operand)).ok().filter(|value| *value <= u32::MAX as usize)
    }
}
