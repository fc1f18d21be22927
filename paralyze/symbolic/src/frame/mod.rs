//! A call frame as it is followed: each word of its stack and each byte of its memory has a formula.
//!
//! The instructions of a frame become formulas and events. `Mode` says how exactly, see the crate's head.

mod formulas;
mod exact;

use crate::{
    expr::{Env, Node, Piece, Ref, Region, Shadow, is_raw, slice},
    memory::{ShadowMemory, Stop},
    mode::Mode,
    operator::is_binary,
    recording::{Call, CallKind, Event, Log, Recording, Slot},
};
use alloy_primitives::{Address, B256, U256};
use revm::{
    bytecode::{OpCode, opcode::*},
    interpreter::{Interpreter, interpreter_types::Jumps as _},
};

/// Slots and logs of an exact recording.
const MAX_SLOTS: usize = 64;
const MAX_LOGS: usize = 64;

/// A call of an exact recording that has not begun.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) delegates: bool,
    pub(crate) to: (Ref, Address),
    /// Maximum gas of the call, by formula and in this execution.
    pub(crate) at_most: (Ref, U256),
    pub(crate) input: Region,
    /// Gas that the caller had before the instruction, and has after it, without what the call got.
    pub(crate) before: u64,
    pub(crate) after: u64,
}

/// A frame.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) mode: Mode,
    /// In an exact recording, the recording of all frames, which the innermost frame has.
    pub(crate) recording: Recording,
    /// True if the frame does something that is not followed.
    pub(crate) dropped: bool,
    /// Account whose storage the frame works on, and in an exact recording its number.
    pub(crate) target: Address,
    pub(crate) account: u16,
    /// Formulas of that account and of the caller, if they are not the frame's own.
    pub(crate) around: Option<[Ref; 2]>,
    /// Calldata of an inner frame of an exact recording.
    pub(crate) input: Option<Region>,
    pub(crate) output: Region,
    pub(crate) pending: Option<Pending>,
    /// Gas that was left at the last event that names gas.
    pub(crate) last: u64,
    stack: Vec<Shadow>,
    memory: ShadowMemory,
    calls: u16,
    /// Number of the call that has not returned, and where its return data goes.
    awaits: Option<(u16, (usize, usize))>,
    /// Return data: its call by number, `None` if that is not followed; in an exact recording, the bytes.
    returned: Option<u16>,
    returned_bytes: Region,
    /// The instruction that runs, and the slot or account that it is about.
    op: u8,
    stored: Option<usize>,
    measured: Option<(Ref, Address)>,
}

impl Frame {
    pub(crate) fn new(mode: Mode, recording: Recording, target: Address) -> Self {
        Self {
            mode,
            recording,
            dropped: false,
            target,
            account: 0,
            around: None,
            input: None,
            output: Region::default(),
            pending: None,
            last: 0,
            stack: Vec::new(),
            memory: mode.memory(),
            calls: 0,
            awaits: None,
            returned: None,
            returned_bytes: Region::default(),
            op: 0,
            stored: None,
            measured: None,
        }
    }

    /// Ends a call of this frame. `output` is its return data, as far as that is followed in bytes; `followed` is true if code
    /// ran, `len` the number of bytes that it returned.
    pub(crate) fn call_ended(&mut self, output: Region, followed: bool, len: usize) -> Result<(), Stop> {
        let Some((call, (offset, room))) = self.awaits.take() else { return Ok(()) };
        self.returned = followed.then_some(call);
        let written = len.min(room) as u32;
        let region = match followed {
            true if self.is_exact() => slice(&output, 0, written as usize),
            true => [Piece::Returned { call, from: 0, len: written }].into(),
            false => [Piece::Unknown { len: written }].into(),
        };
        self.returned_bytes = output;
        if written > 0 { self.memory.write(offset, &region) } else { Ok(()) }
    }

    const fn is_exact(&self) -> bool {
        matches!(self.mode, Mode::Exact { .. })
    }

    /// Follows the next instruction, which is about to run.
    pub(crate) fn step(&mut self, interp: &Interpreter) -> Result<(), Stop> {
        let op = interp.bytecode.opcode();
        let real = interp.stack.data();
        let info = OpCode::info_by_op(op).ok_or(Stop)?;
        let inputs = usize::from(info.inputs());
        self.recording.steps += 1;
        if self.recording.is_too_long(self.mode) || self.stack.len() != real.len() || real.len() < inputs {
            return Err(Stop);
        }
        self.op = op;
        let now = Now { op, real, interp };
        match op {
            DUP1..=DUP16 => {
                let from = self.stack.len() - usize::from(op - DUP1) - 1;
                self.stack.push(self.stack[from]);
            }
            SWAP1..=SWAP16 => {
                let last = self.stack.len() - 1;
                self.stack.swap(last, last - usize::from(op - SWAP1) - 1);
            }
            _ => {
                let result = self.effect(&now)?;
                self.stack.truncate(real.len() - inputs);
                if info.outputs() > 0 {
                    self.stack.push(result);
                }
            }
        }
        Ok(())
    }

    /// Does what an instruction does besides taking its operands. Returns the formula of its result.
    fn effect(&mut self, now: &Now<'_>) -> Result<Shadow, Stop> {
        let exact = self.is_exact();
        match now.op {
            op if is_binary(op) => self.binary(now),
            ISZERO | NOT | CLZ => match self.top(0) {
                Some(a) => self.node(Node::Unary(now.op, a)),
                None => Ok(None),
            },
            ADDMOD | MULMOD if (0..3).all(|operand| self.top(operand).is_none()) => Ok(None),
            ADDMOD | MULMOD if exact => {
                let all = [self.operand(now, 0)?, self.operand(now, 1)?, self.operand(now, 2)?];
                self.node(Node::Ternary(now.op, all))
            }
            KECCAK256 => {
                let region = self.region(now, 0, 1)?;
                if is_raw(&region) { Ok(None) } else { self.node(Node::Keccak(region)) }
            }
            ADDRESS => self.address().map(|address| self.varying(address)),
            CALLER => match self.around {
                Some([_, caller]) => Ok(self.varying(caller)),
                None => self.node(Node::Caller),
            },
            ORIGIN => self.node(Node::Origin),
            CALLDATALOAD => {
                let region = self.input(now, 0, 32)?;
                self.word(region)
            }
            // Of an exact recording no value is sent along, and all lengths are expected.
            CALLVALUE | CALLDATASIZE | RETURNDATASIZE if exact => Ok(None),
            CALLVALUE => self.node(Node::Value),
            CALLDATASIZE => self.node(Node::InputLen),
            RETURNDATASIZE => self.returned.map_or(Ok(None), |call| self.node(Node::ReturnedLen(call))),
            COINBASE => self.node(Node::Env(Env::Beneficiary)),
            TIMESTAMP => self.node(Node::Env(Env::Timestamp)),
            NUMBER => self.node(Node::Env(Env::Number)),
            DIFFICULTY => self.node(Node::Env(Env::PrevRandao)),
            GASLIMIT => self.node(Node::Env(Env::GasLimit)),
            BASEFEE => self.node(Node::Env(Env::BaseFee)),
            GASPRICE => self.node(Node::Env(Env::GasPrice)),
            // `stepped` finds out more.
            GAS if exact => Ok(None),
            EXTCODESIZE if exact => {
                self.measured = Some(self.named(now, 0)?);
                Ok(None)
            }
            ADDMOD | MULMOD | BLOCKHASH | BLOBHASH | BLOBBASEFEE | SLOTNUM | SELFBALANCE | GAS => {
                self.node(Node::Unknown)
            }
            // Operands are named behind the instruction (EIP-8024).
            DUPN | SWAPN | EXCHANGE => Err(Stop),
            BALANCE | EXTCODESIZE | EXTCODEHASH => {
                self.looked_at(now)?;
                self.node(Node::Unknown)
            }
            SLOAD => {
                let slot = self.touch(now)?;
                let held = &mut self.recording.slots[slot];
                held.cold = false;
                match held.written {
                    Some(written) => Ok(written.and_then(|written| self.varying(written))),
                    None => self.original(slot).map(Some),
                }
            }
            SSTORE => self.store(now),
            TLOAD => {
                let slot = self.transient_slot(now)?;
                match self.recording.transient.get(&slot) {
                    Some(held) => Ok(*held),
                    None if exact => Ok(None),
                    None => self.node(Node::Unknown),
                }
            }
            TSTORE => {
                let (slot, value) = (self.transient_slot(now)?, self.top(1));
                self.recording.transient.insert(slot, value);
                Ok(None)
            }
            MLOAD => {
                let region = self.region_at(now, 0, 32)?;
                self.word(region)
            }
            MSTORE => self.store_bytes(now, 0, 32),
            MSTORE8 => self.store_bytes(now, 31, 1),
            MCOPY | CALLDATACOPY | CODECOPY | EXTCODECOPY | RETURNDATACOPY => self.copy(now).map(|()| None),
            JUMP => self.pin(now, 0).map(|()| None),
            JUMPI => {
                self.pin(now, 0)?;
                match self.top(1) {
                    Some(on) => self.branch(on, !now.word(1).is_zero()).map(|()| None),
                    None => Ok(None),
                }
            }
            LOG0..=LOG4 if exact => self.log(now),
            CALL | CALLCODE | DELEGATECALL | STATICCALL => self.call(now),
            CREATE | CREATE2 | SELFDESTRUCT => {
                self.recording.events.push(Event::Lost);
                self.returned = None;
                self.node(Node::Unknown)
            }
            RETURN | REVERT => {
                self.output = self.region(now, 0, 1)?;
                Ok(None)
            }
            // Code is always the same. What grows memory is expected, so that its size is.
            CODESIZE | CHAINID | PC | MSIZE | POP | JUMPDEST | STOP | PUSH0..=PUSH32 => Ok(None),
            _ if exact => Err(Stop),
            _ => Ok(None),
        }
    }

    fn binary(&mut self, now: &Now<'_>) -> Result<Shadow, Stop> {
        if now.op == EXP && self.is_exact() {
            // Its gas depends on the exponent's length.
            self.pin(now, 1)?;
        }
        if self.top(0).is_none() && self.top(1).is_none() {
            return Ok(None);
        }
        let (a, b) = (self.operand(now, 0)?, self.operand(now, 1)?);
        if self.is_selector(now.op, a, b) {
            return Ok(None);
        }
        if !self.is_exact() {
            return self.node(Node::Binary(now.op, a, b));
        }
        let nodes = &self.recording.nodes;
        if now.op == AND {
            for (mask, word) in [(a, b), (b, a)] {
                // Code masks again what was masked, or is short anyway.
                if nodes.constant_of(mask).is_some_and(|mask| {
                    let bits = mask.bit_len();
                    mask.count_ones() == bits && nodes.bits(word) <= bits
                }) {
                    return Ok(Some(word));
                }
            }
        }
        let (a, b) = if matches!(now.op, ADD | MUL | EQ | AND..=XOR) { (a.min(b), a.max(b)) } else { (a, b) };
        self.node(Node::Binary(now.op, a, b))
    }

    /// Returns true if an operator cuts the selector out of a word. All calls that share the recording share the selector.
    fn is_selector(&self, op: u8, a: Ref, b: Ref) -> bool {
        let nodes = &self.recording.nodes;
        let word = match op {
            SHR if nodes.constant_of(a) == Some(U256::from(224)) => b,
            DIV if nodes.constant_of(b) == Some(U256::ONE << 224) => a,
            _ => return false,
        };
        match (nodes.get(word), self.mode) {
            (Node::Input(at), Mode::Frames) => nodes.constant_of(*at) == Some(U256::ZERO),
            (Node::Input(at), Mode::Exact { has_selector, .. }) => {
                has_selector && nodes.constant_of(*at) == Some(U256::ZERO)
            }
            (Node::Word(region), _) => matches!(region.first(), Some(Piece::Raw(bytes)) if bytes.len() >= 4),
            _ => false,
        }
    }

    /// Notes an account that operand 0 names.
    fn looked_at(&mut self, now: &Now<'_>) -> Result<(), Stop> {
        let address = self.operand(now, 0)?;
        if self.recording.looked_at.insert(address) {
            self.recording.events.push(Event::Account { address, code: B256::ZERO });
        }
        Ok(())
    }

    /// Formula of the slot's first value.
    fn original(&mut self, slot: usize) -> Result<Ref, Stop> {
        let name = self.recording.slots[slot].name;
        if self.is_exact() {
            return self.intern(Node::Original(slot as u16));
        }
        let of = self.address()?;
        self.intern(Node::Load(of, name))
    }

    fn store(&mut self, now: &Now<'_>) -> Result<Shadow, Stop> {
        let slot = self.touch(now)?;
        let value = if self.is_exact() { Some(self.operand(now, 1)?) } else { self.top(1) };
        let Slot { name, written, cold, .. } = self.recording.slots[slot];
        if let (true, Some(value)) = (self.is_exact(), value) {
            let present = written.flatten().map_or_else(|| self.original(slot), Ok)?;
            let gas = self.since(now.interp.gas.remaining())?;
            // There are fewer than 2^16 slots.
            self.recording.events.push(Event::Store { slot: slot as u16, present, value, cold, gas });
            self.stored = Some(slot);
        }
        let held = &mut self.recording.slots[slot];
        let is_original = |value| matches!(self.recording.nodes.get(value), Node::Load(_, slot) if *slot == name);
        held.changed = value.is_some_and(|value| !is_original(value));
        held.written = Some(value);
        Ok(None)
    }

    /// Number of the slot that operand 0 names.
    fn touch(&mut self, now: &Now<'_>) -> Result<usize, Stop> {
        let (name, real, account) = (self.operand(now, 0)?, now.word(0), self.account);
        if let Some(slot) = self.recording.numbers.get(&(account, name)) {
            return Ok(*slot);
        }
        let slots = &mut self.recording.slots;
        let (exact, number) = (matches!(self.mode, Mode::Exact { .. }), slots.len());
        let mut known = slots.iter().take_while(|_| exact);
        let slot = match known.position(|slot| (slot.account, slot.real) == (account, real)) {
            // Two names of one slot: the path expects that they are equal.
            Some(slot) => {
                let other = slots[slot].name;
                self.alike(name, other)?;
                slot
            }
            None if exact && number == MAX_SLOTS => return Err(Stop),
            None => {
                let address = self.target;
                slots.push(Slot {
                    account,
                    address,
                    name,
                    real,
                    written: None,
                    changed: false,
                    held: None,
                    cold: true,
                });
                self.recording.events.push(Event::Slot(number));
                if exact {
                    self.original(number)?;
                }
                number
            }
        };
        self.recording.numbers.insert((account, name), slot);
        Ok(slot)
    }

    /// A slot of transient storage. In an exact recording its number must be the same in every run: nothing else tells whether
    /// two slots are one.
    fn transient_slot(&mut self, now: &Now<'_>) -> Result<(u16, Ref), Stop> {
        if self.is_exact() && self.top(0).is_some() {
            return Err(Stop);
        }
        Ok((self.account, self.operand(now, 0)?))
    }

    /// Writes `len` bytes of the word in operand 1 to memory.
    fn store_bytes(&mut self, now: &Now<'_>, from: u8, len: u8) -> Result<Shadow, Stop> {
        self.pin(now, 0)?;
        let offset = now.usize(0)?;
        match self.top(1) {
            Some(node) => self.memory.write(offset, &[Piece::Word { node, from, len }])?,
            None => self.memory.clear(offset, usize::from(len))?,
        }
        Ok(None)
    }

    /// Copies to memory.
    fn copy(&mut self, now: &Now<'_>) -> Result<(), Stop> {
        let (to, from, len) = match now.op {
            EXTCODECOPY => {
                self.looked_at(now)?;
                (1, 2, 3)
            }
            _ => (0, 1, 2),
        };
        match now.op {
            MCOPY | CODECOPY => {
                self.pin(now, to)?;
                self.pin(now, from)?;
            }
            RETURNDATACOPY => {
                self.pin(now, from)?;
                self.pin(now, to)?;
            }
            _ => self.pin(now, to)?,
        }
        self.pin(now, len)?;
        let length = now.usize(len)?;
        if length == 0 {
            return Ok(());
        }
        self.within(length)?;
        let offset = now.usize(to)?;
        let region = match now.op {
            MCOPY => self.region_at(now, from, length)?,
            CALLDATACOPY => self.input(now, from, length)?,
            RETURNDATACOPY if self.is_exact() => slice(&self.returned_bytes, now.usize(from)?, length),
            RETURNDATACOPY => match self.returned {
                Some(call) => [Piece::Returned { call, from: now.usize(from)? as u32, len: length as u32 }].into(),
                None => [Piece::Unknown { len: length as u32 }].into(),
            },
            CODECOPY => return self.memory.clear(offset, length),
            _ if self.is_exact() => return Err(Stop),
            _ => [Piece::Unknown { len: length as u32 }].into(),
        };
        self.memory.write(offset, &region)
    }

    fn log(&mut self, now: &Now<'_>) -> Result<Shadow, Stop> {
        let data = self.region(now, 0, 1)?;
        self.charge(&data)?;
        let topics = (0..usize::from(now.op - LOG0)).map(|topic| self.operand(now, 2 + topic));
        let topics = topics.collect::<Result<_, _>>()?;
        let address = self.address()?;
        if self.recording.logs.len() == MAX_LOGS {
            return Err(Stop);
        }
        self.recording.logs.push(Log { address, topics, data });
        Ok(None)
    }

    fn call(&mut self, now: &Now<'_>) -> Result<Shadow, Stop> {
        let valued = matches!(now.op, CALL | CALLCODE);
        let memory = if valued { 3 } else { 2 };
        let pays = valued && !now.word(2).is_zero();
        if self.is_exact() {
            // A call without value moves none.
            if valued {
                self.pin(now, 2)?;
            }
            if pays || now.op == CALLCODE {
                return Err(Stop);
            }
        }
        let to = self.operand(now, 1)?;
        let value = if valued { Some(self.operand(now, 2)?) } else { None };
        let input = self.region(now, memory, memory + 1)?;
        self.pin(now, memory + 2)?;
        self.pin(now, memory + 3)?;
        let room = now.usize(memory + 3)?;
        let output = (if room == 0 { 0 } else { now.usize(memory + 2)? }, room);
        let call = self.calls;
        self.calls = call.checked_add(1).ok_or(Stop)?;
        self.awaits = Some((call, output));
        if self.is_exact() {
            let at_most = (self.operand(now, 0)?, now.word(0));
            let (to, before) = (self.named(now, 1)?, now.interp.gas.remaining());
            let delegates = now.op == DELEGATECALL;
            self.pending = Some(Pending { delegates, to, at_most, input, before, after: before });
            // A call that fails is not followed.
            return Ok(None);
        }
        let kind = match now.op {
            CALLCODE => CallKind::CallCode,
            DELEGATECALL => CallKind::DelegateCall,
            _ => CallKind::Call,
        };
        let account = Address::from_word(now.word(1).into());
        self.recording.events.push(Event::Call(Call { kind, to, account, value, input, pays }));
        self.node(Node::Success(call))
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

    /// An operand as an offset or a length. No gas suffices for more than 2^32.
    fn usize(&self, operand: usize) -> Result<usize, Stop> {
        usize::try_from(self.word(operand)).ok().filter(|value| *value <= u32::MAX as usize).ok_or(Stop)
    }
}
