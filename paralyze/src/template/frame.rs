//! One call frame as it is followed: beside each value of its stack and memory, the formula that it is.

use super::{
    expr::{Env, Node, Nodes, Piece, Ref, Region, region_len},
    memory::{ShadowMemory, word_of},
    tree::{Call, CallKind, Event, Leaf, Step},
};
use crate::{StateKey, operator::is_binary};
use alloy_primitives::{Address, U256};
use phalanx_access::Access;
use revm::{
    bytecode::{OpCode, opcode::*},
    interpreter::{Interpreter, interpreter_types::Jumps as _},
    primitives::map::{HashMap, HashSet},
};

/// Bytes of one piece of memory that are followed: longer ones count as unknown.
const MAX_REGION: usize = 1 << 14;

/// Bytes of constants that one frame may keep.
const MAX_RAW: usize = 1 << 16;

/// Events of one frame. A frame of more is not learned.
const MAX_EVENTS: usize = 2048;

/// The formula of a value; `None` for one that is the same in every execution of the path.
type Shadow = Option<Ref>;

/// What a step touches in this execution, by which its access is found when the transaction has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Touched {
    /// The event.
    pub(crate) event: usize,
    pub(crate) key: StateKey,
    /// A slot's last value is not the one it had, whatever the numbers say.
    pub(crate) written: bool,
}

/// A call that has not returned.
#[derive(Debug)]
struct Pending {
    call: u16,
    output: (usize, usize),
}

/// A frame.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) nodes: Nodes,
    pub(crate) events: Vec<Event>,
    pub(crate) touched: Vec<Touched>,
    /// It does something that is not followed; nothing of it is learned.
    pub(crate) dropped: bool,
    target: Address,
    stack: Vec<Shadow>,
    memory: ShadowMemory,
    /// Slots by formula: which touch it is, and what was last written.
    slots: HashMap<Ref, (usize, Option<Shadow>)>,
    transient: HashMap<Ref, Shadow>,
    accounts: HashSet<Ref>,
    guarded: HashSet<Ref>,
    calls: u16,
    pending: Option<Pending>,
    /// The call whose return data can be copied; `None` if it is not followed.
    returned: Option<u16>,
    output: Region,
    raw: usize,
}

impl Frame {
    pub(crate) fn new(target: Address) -> Self {
        Self {
            nodes: Nodes::default(),
            events: Vec::new(),
            touched: Vec::new(),
            dropped: false,
            target,
            stack: Vec::new(),
            memory: ShadowMemory::default(),
            slots: HashMap::default(),
            transient: HashMap::default(),
            accounts: HashSet::default(),
            guarded: HashSet::default(),
            calls: 0,
            pending: None,
            returned: None,
            output: Region::default(),
            raw: 0,
        }
    }

    pub(crate) fn leaf(&mut self, success: bool) -> Leaf {
        Leaf { success, output: core::mem::take(&mut self.output) }
    }

    /// A call of this frame is over. `followed` tells whether code ran, `len` how many bytes it returned.
    pub(crate) fn call_ended(&mut self, followed: bool, len: usize) {
        let Some(Pending { call, output: (offset, room) }) = self.pending.take() else { return };
        self.returned = followed.then_some(call);
        let len = len.min(room) as u32;
        if len > 0 {
            let piece = if followed { Piece::Returned { call, from: 0, len } } else { Piece::Unknown { len } };
            self.memory.write(offset, &[piece]);
        }
    }

    /// The next instruction is about to run.
    pub(crate) fn step(&mut self, interp: &Interpreter) {
        let op = interp.bytecode.opcode();
        let real = interp.stack.data();
        let Some(info) = OpCode::info_by_op(op) else { return };
        if self.dropped {
            return;
        }
        if self.stack.len() != real.len() || self.events.len() > MAX_EVENTS || self.memory.is_full() {
            // An instruction that is not known here; or a frame that is too long to be worth it.
            self.dropped = true;
            return;
        }
        let inputs = usize::from(info.inputs());
        if real.len() < inputs {
            return;
        }
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
                let result = self.effect(&now);
                self.stack.truncate(real.len() - inputs);
                if info.outputs() > 0 {
                    self.stack.push(result);
                }
            }
        }
    }

    /// What an instruction does besides taking its operands; gives the formula of its result.
    fn effect(&mut self, now: &Now<'_>) -> Shadow {
        match now.op {
            op if is_binary(op) => self.binary(now),
            ISZERO | NOT | CLZ => {
                let a = self.top(0)?;
                Some(self.nodes.intern(Node::Unary(now.op, a)))
            }
            ADDMOD | MULMOD => (0..3).any(|i| self.top(i).is_some()).then(|| self.unknown()),
            KECCAK256 => {
                let region = self.region(now, 0, 1);
                let plain = region.iter().all(|piece| matches!(piece, Piece::Raw(_)));
                (!plain).then(|| self.nodes.intern(Node::Keccak(region)))
            }
            ADDRESS => self.node(Node::Target),
            ORIGIN => self.node(Node::Origin),
            CALLER => self.node(Node::Caller),
            CALLVALUE => self.node(Node::Value),
            CALLDATASIZE => self.node(Node::InputLen),
            CALLDATALOAD => {
                let offset = self.formula(now, 0);
                Some(self.nodes.intern(Node::Input(offset)))
            }
            COINBASE => self.node(Node::Env(Env::Beneficiary)),
            TIMESTAMP => self.node(Node::Env(Env::Timestamp)),
            NUMBER => self.node(Node::Env(Env::Number)),
            DIFFICULTY => self.node(Node::Env(Env::PrevRandao)),
            GASLIMIT => self.node(Node::Env(Env::GasLimit)),
            BASEFEE => self.node(Node::Env(Env::BaseFee)),
            GASPRICE => self.node(Node::Env(Env::GasPrice)),
            RETURNDATASIZE => self.returned.and_then(|call| self.node(Node::ReturnedLen(call))),
            BLOCKHASH | BLOBHASH | BLOBBASEFEE | SELFBALANCE | GAS => Some(self.unknown()),
            BALANCE | EXTCODESIZE | EXTCODEHASH => {
                self.account(now);
                Some(self.unknown())
            }
            SLOAD => self.load(now),
            SSTORE => {
                self.store(now);
                None
            }
            TLOAD => {
                let slot = self.formula(now, 0);
                self.transient.get(&slot).copied().unwrap_or_else(|| Some(self.unknown()))
            }
            TSTORE => {
                let slot = self.formula(now, 0);
                let value = self.top(1);
                self.transient.insert(slot, value);
                None
            }
            MLOAD..=MSTORE8 | MCOPY | CALLDATACOPY | CODECOPY | EXTCODECOPY | RETURNDATACOPY => self.memory(now),
            JUMP => {
                self.pin(now, 0);
                None
            }
            JUMPI => {
                self.pin(now, 0);
                if let Some(on) = self.top(1) {
                    self.branch(on, !now.word(1).is_zero());
                }
                None
            }
            CALL | CALLCODE | DELEGATECALL | STATICCALL => self.call(now),
            CREATE | CREATE2 | SELFDESTRUCT => {
                self.events.push(Event::Step(Step::Lost));
                self.returned = None;
                Some(self.unknown())
            }
            RETURN | REVERT => {
                self.output = self.region(now, 0, 1);
                None
            }
            _ => None,
        }
    }

    fn binary(&mut self, now: &Now<'_>) -> Shadow {
        if self.top(0).is_none() && self.top(1).is_none() {
            return None;
        }
        let (a, b) = (self.formula(now, 0), self.formula(now, 1));
        // The selector, however it is cut out, is part of what this path is known by.
        let selector = match (now.op, self.nodes.get(a), self.nodes.get(b)) {
            (SHR, Node::Const(by), Node::Input(at)) => *by == U256::from(224) && self.is_zero(*at),
            (DIV, Node::Input(at), Node::Const(by)) => *by == U256::ONE << 224 && self.is_zero(*at),
            _ => false,
        };
        if selector {
            return None;
        }
        Some(self.nodes.intern(Node::Binary(now.op, a, b)))
    }

    fn is_zero(&self, at: Ref) -> bool {
        *self.nodes.get(at) == Node::Const(U256::ZERO)
    }

    fn account(&mut self, now: &Now<'_>) {
        let address = self.formula(now, 0);
        if self.accounts.insert(address) {
            self.events.push(Event::Step(Step::Account { address, access: Access::Read }));
        }
    }

    fn load(&mut self, now: &Now<'_>) -> Shadow {
        let slot = self.formula(now, 0);
        match self.touch(slot, now.word(0)) {
            (_, Some(written)) => written,
            (_, None) => Some(self.nodes.intern(Node::Load(slot))),
        }
    }

    fn store(&mut self, now: &Now<'_>) {
        let slot = self.formula(now, 0);
        let value = self.top(1);
        let (touch, _) = self.touch(slot, now.word(0));
        let same = value.is_none_or(|value| *self.nodes.get(value) == Node::Load(slot));
        self.touched[touch].written = !same;
        self.slots.insert(slot, (touch, Some(value)));
    }

    /// The touch of a slot, and what was last written there.
    fn touch(&mut self, slot: Ref, real: U256) -> (usize, Option<Shadow>) {
        if let Some(held) = self.slots.get(&slot) {
            return *held;
        }
        let key = StateKey::Slot(self.target, real);
        self.touched.push(Touched { event: self.events.len(), key, written: false });
        self.events.push(Event::Step(Step::Slot { slot, access: Access::Read }));
        let new = (self.touched.len() - 1, None);
        self.slots.insert(slot, new);
        new
    }

    fn memory(&mut self, now: &Now<'_>) -> Shadow {
        match now.op {
            MLOAD => {
                self.pin(now, 0);
                let offset = now.usize(0)?;
                let region = self.read(now, offset, 32);
                word_of(&mut self.nodes, region)
            }
            MSTORE => {
                self.pin(now, 0);
                let offset = now.usize(0)?;
                match self.top(1) {
                    Some(node) => self.memory.write(offset, &[Piece::Word { node, from: 0, len: 32 }]),
                    None => self.memory.clear(offset, 32),
                }
                None
            }
            MSTORE8 => {
                self.pin(now, 0);
                let offset = now.usize(0)?;
                match self.top(1) {
                    Some(node) => self.memory.write(offset, &[Piece::Word { node, from: 31, len: 1 }]),
                    None => self.memory.clear(offset, 1),
                }
                None
            }
            MCOPY => {
                self.pin(now, 0);
                let region = self.region(now, 1, 2);
                self.memory.write(now.usize(0)?, &region);
                None
            }
            EXTCODECOPY => {
                self.account(now);
                self.copy(now, 1, 3, |_, len| Piece::Unknown { len })
            }
            CODECOPY => {
                self.pin(now, 0);
                self.pin(now, 1);
                self.pin(now, 2);
                self.memory.clear(now.usize(0)?, now.usize(2)?);
                None
            }
            CALLDATACOPY => {
                let at = self.formula(now, 1);
                self.copy(now, 0, 2, |_, len| Piece::Input { at, skip: 0, len })
            }
            _ => {
                self.pin(now, 1);
                let from = u32::try_from(now.usize(1)?).ok()?;
                self.copy(now, 0, 2, |frame, len| match frame.returned {
                    Some(call) => Piece::Returned { call, from, len },
                    None => Piece::Unknown { len },
                })
            }
        }
    }

    /// Writes one piece at the offset in operand `to`, as long as operand `len` says.
    fn copy(&mut self, now: &Now<'_>, to: usize, len: usize, piece: impl FnOnce(&Self, u32) -> Piece) -> Shadow {
        self.pin(now, to);
        self.pin(now, len);
        let length = u32::try_from(now.usize(len)?).ok()?;
        if length > 0 {
            let piece = piece(self, length);
            self.memory.write(now.usize(to)?, &[piece]);
        }
        None
    }

    fn call(&mut self, now: &Now<'_>) -> Shadow {
        let (kind, valued) = match now.op {
            CALL => (CallKind::Call, true),
            CALLCODE => (CallKind::CallCode, true),
            DELEGATECALL => (CallKind::DelegateCall, false),
            _ => (CallKind::Call, false),
        };
        let memory = if valued { 3 } else { 2 };
        let to = self.formula(now, 1);
        let value = valued.then(|| self.formula(now, 2));
        let pays = valued && !now.word(2).is_zero();
        let input = self.region(now, memory, memory + 1);
        self.pin(now, memory + 2);
        self.pin(now, memory + 3);
        let key = StateKey::Basic(Address::from_word(now.word(1).into()));
        self.touched.push(Touched { event: self.events.len(), key, written: pays });
        let call = Call { kind, to, value, input, access: Access::Read, pays };
        self.events.push(Event::Step(Step::Call(call)));
        let call = self.calls;
        self.calls = self.calls.saturating_add(1);
        self.dropped |= self.calls == u16::MAX;
        let output = (now.usize(memory + 2).unwrap_or_default(), now.usize(memory + 3).unwrap_or_default());
        self.pending = Some(Pending { call, output });
        self.node(Node::Success(call))
    }

    /// What lies in memory where operands `offset` and `len` point to.
    fn region(&mut self, now: &Now<'_>, offset: usize, len: usize) -> Region {
        self.pin(now, offset);
        self.pin(now, len);
        match (now.usize(offset), now.usize(len)) {
            (_, Some(0)) => Region::default(),
            (Some(offset), Some(len)) => self.read(now, offset, len),
            // The instruction is going to fail.
            _ => Region::default(),
        }
    }

    fn read(&mut self, now: &Now<'_>, offset: usize, len: usize) -> Region {
        let memory = &now.interp.memory;
        let end = offset.saturating_add(len).min(memory.len());
        let unknown = || Region::from([Piece::Unknown { len: len as u32 }]);
        if len > MAX_REGION {
            return unknown();
        }
        let region = if offset < end {
            self.memory.read(offset, len, &memory.slice_range(offset..end))
        } else {
            self.memory.read(offset, len, &[])
        };
        debug_assert_eq!(region_len(&region), len);
        let raw = |piece: &Piece| if let Piece::Raw(bytes) = piece { bytes.len() } else { 0 };
        self.raw += region.iter().map(raw).sum::<usize>();
        if self.raw > MAX_RAW && len > 64 { unknown() } else { region }
    }

    /// The formula of an operand.
    fn formula(&mut self, now: &Now<'_>, operand: usize) -> Ref {
        match self.top(operand) {
            Some(at) => at,
            None => self.nodes.constant(now.word(operand)),
        }
    }

    fn top(&self, operand: usize) -> Shadow {
        self.stack[self.stack.len() - 1 - operand]
    }

    fn node(&mut self, node: Node) -> Shadow {
        Some(self.nodes.intern(node))
    }

    fn unknown(&mut self) -> Ref {
        self.nodes.intern(Node::Unknown)
    }

    /// What follows holds only for this value of an operand.
    fn pin(&mut self, now: &Now<'_>, operand: usize) {
        if let Some(on) = self.top(operand) {
            self.guard(on, now.word(operand));
        }
    }

    /// What follows holds only where `on` is true, or is not.
    fn branch(&mut self, on: Ref, taken: bool) {
        if matches!(self.nodes.get(on), Node::Unary(ISZERO, _) | Node::Binary(LT..=EQ, ..)) {
            return self.guard(on, U256::from(u8::from(taken)));
        }
        // Any other value is true if it is not zero.
        let negated = self.nodes.intern(Node::Unary(ISZERO, on));
        self.guard(negated, U256::from(u8::from(!taken)));
    }

    fn guard(&mut self, on: Ref, value: U256) {
        if *self.nodes.get(on) != Node::Unknown && self.guarded.insert(on) {
            self.events.push(Event::Guard { on, value });
        }
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

/// The first four bytes of calldata: what functions are told apart by.
pub(crate) const fn selector(input: &[u8]) -> Option<[u8; 4]> {
    match input.first_chunk() {
        Some(selector) => Some(*selector),
        None => None,
    }
}
