//! From frames that were walked to a line.

use super::{
    super::{Called, Input, Running, Wei},
    Instruction, Key, Op, Part, Pattern, Register, Source, Straight,
};
use crate::{
    operator::{binary, unary},
    template::{
        Function,
        expr::{Node, Piece, Ref, region_len},
        tree::{Call, CallKind, End, Step},
    },
};
use alloy_primitives::{B256, U256};
use core::ops::Range;
use phalanx_access::Access;
use revm::{
    bytecode::opcode::{AND, SHR},
    primitives::map::{HashMap, HashSet},
};
use std::rc::Rc;

/// Registers, instructions and keys of one line; what needs more is walked.
const MAX_REGISTERS: usize = 512;
const MAX_INSTRUCTIONS: usize = 1024;
const MAX_KEYS: usize = 128;

/// Formulas in formulas, through all frames.
const MAX_DEPTH: u32 = 128;

/// The way of the transaction whose frames these are, for all that have this value and as much calldata. `None` if it takes
/// more than a line can say, or so much `work`, in formulas and pieces that are looked at.
pub(in super::super) fn lay(frames: &[Running<'_>], value: U256, len: usize, work: u64) -> Option<Straight> {
    #[cfg(test)]
    if super::ONLY_WALKS.get() {
        return None;
    }
    let mut line = Line { frames, len, work, ..Line::default() };
    let [caller, target] = [line.set(Op::Sender)?, line.set(Op::Target)?];
    let value = line.constant(value)?;
    line.accounts.resize(frames.len(), Around { caller, target, value });
    line.frame(0)?;
    let hashed = line.made.hashes.iter().map(|pattern| 4 + pattern.parts.len() as u64).sum::<u64>();
    line.made.cost = hashed + line.made.touched.len() as u64;
    Some(line.made)
}

/// Who takes part in a frame, and what came with the call.
#[derive(Clone, Copy)]
struct Around {
    caller: Register,
    target: Register,
    value: Register,
}

/// A line in the making.
#[derive(Default)]
struct Line<'a, 'f> {
    frames: &'f [Running<'a>],
    /// Of calldata.
    len: usize,
    /// By frame.
    accounts: Vec<Around>,
    /// Formulas of frames, operations and constants, each once.
    formulas: HashMap<(usize, Ref), Register>,
    ops: HashMap<Op, Register>,
    constants: HashMap<U256, Register>,
    is_constant: HashSet<Register>,
    /// Addresses whose code is expected already.
    met: HashSet<Register>,
    /// What slots of frames are hashes of, and the numbers of those that were asked for.
    patterns: HashMap<(usize, Ref), Rc<Pattern<64>>>,
    asked: HashMap<Rc<Pattern<64>>, u16>,
    /// Places of what is touched.
    places: HashMap<Key, usize>,
    /// That may still be done.
    work: u64,
    depth: u32,
    made: Straight,
}

/// Bytes in the making.
#[derive(Default)]
struct Gathered {
    /// Byte by byte, what is the same for all.
    fixed: Vec<u8>,
    parts: Vec<Part>,
    /// Whether hashes may be computed later.
    may_wait: bool,
}

impl<'a> Line<'a, '_> {
    /// All that a frame does, with its calls.
    fn frame(&mut self, frame: usize) -> Option<()> {
        let Running { template, path, .. } = &self.frames[frame];
        let (mut path, mut calls) = (path.iter(), 0);
        let mut block = &template.blocks[0];
        loop {
            for step in &block.steps {
                match step {
                    Step::Slot { slot, access } => {
                        let key = self.slot(frame, *slot)?;
                        self.touch(key, *access)?;
                    }
                    Step::Account { address, access } => {
                        let address = self.address(frame, *address)?;
                        self.touch(Key::Account(address), *access)?;
                    }
                    Step::Lost => return None,
                    Step::Call(call) => {
                        self.call(frame, call, calls)?;
                        calls += 1;
                    }
                }
            }
            let (on, asked, arms) = match &block.end {
                End::Open => return None,
                End::Leaf(_) => return Some(()),
                End::Switch { on, asked, arms, .. } => (*on, *asked, arms),
            };
            let next = path.next()?;
            // A walk takes the only known way where no formula says.
            let is_asked = arms.len() > 1 || asked && *template.nodes.get(on) != Node::Unknown;
            if is_asked {
                let (value, _) = arms.iter().find(|(_, to)| to == next)?;
                let on = self.register(frame, on)?;
                self.expect(on, *value)?;
            }
            block = &template.blocks[*next as usize];
        }
    }

    fn call(&mut self, frame: usize, call: &'a Call, number: usize) -> Option<()> {
        let to = self.address(frame, call.to)?;
        let value = match call.value {
            Some(value) => self.register(frame, value)?,
            None => self.constant(U256::ZERO)?,
        };
        let around = self.accounts[frame];
        let pays = call.value.is_some() && !self.constant_of(value)?.is_zero();
        if pays {
            self.touch(Key::Account(around.target), Access::Write)?;
        }
        let paid = pays && call.kind == CallKind::Call;
        self.touch(Key::Account(to), if paid { Access::Write } else { call.access })?;
        let inner = match self.frames[frame].calls.get(number)? {
            Called::Nothing { found: None } => return self.code(to, None),
            Called::Nothing { .. } => return None,
            Called::Frame(inner) => *inner,
            Called::Waits => return None,
        };
        let Function { code, selector } = self.frames[inner].function?;
        self.code(to, Some(code))?;
        if let Some(expected) = selector {
            let head = self.read(frame, &call.input, 0..32)?;
            let by = self.constant(U256::from(256 - 8 * expected.len()))?;
            let selector = self.set(Op::Binary(SHR, by, head))?;
            self.expect(selector, U256::from(u32::from_be_bytes(expected)))?;
        }
        self.accounts[inner] = match call.kind {
            CallKind::Call => Around { caller: around.target, target: to, value },
            CallKind::CallCode => Around { caller: around.target, target: around.target, value },
            CallKind::DelegateCall => around,
        };
        self.deeper(|it| it.frame(inner))
    }

    fn code(&mut self, of: Register, code: Option<B256>) -> Option<()> {
        if self.met.insert(of) { self.push(Instruction::Code(of, code)) } else { Some(()) }
    }

    fn push(&mut self, instruction: Instruction) -> Option<()> {
        let instructions = &mut self.made.instructions;
        (instructions.len() < MAX_INSTRUCTIONS).then(|| instructions.push(instruction))
    }

    fn expect(&mut self, register: Register, value: U256) -> Option<()> {
        match self.constant_of(register) {
            Some(constant) => (constant == value).then_some(()),
            None => self.push(Instruction::Expect(register, value)),
        }
    }

    fn constant_of(&self, register: Register) -> Option<U256> {
        self.is_constant.contains(&register).then(|| self.made.registers.get(register))
    }

    /// A register of its own.
    fn new_register(&mut self, value: U256) -> Option<Register> {
        let registers = &mut self.made.registers;
        (registers.len() < MAX_REGISTERS).then(|| registers.push(value))
    }

    fn constant(&mut self, value: U256) -> Option<Register> {
        if let Some(register) = self.constants.get(&value) {
            return Some(*register);
        }
        let register = self.new_register(value)?;
        self.constants.insert(value, register);
        self.is_constant.insert(register);
        Some(register)
    }

    /// The register of an operation, which is computed once.
    fn set(&mut self, op: Op) -> Option<Register> {
        if let Some(register) = self.ops.get(&op) {
            return Some(*register);
        }
        let constant = |register: &Register| self.constant_of(*register);
        let value = match &op {
            Op::Unary(op, a) => constant(a).map(|a| unary(*op, &a)),
            Op::Binary(op, a, b) => constant(a).zip(constant(b)).map(|(a, b)| binary(*op, &a, &b)),
            _ => None,
        };
        if let Some(value) = value {
            return self.constant(value?);
        }
        let register = self.new_register(U256::ZERO)?;
        self.push(Instruction::Set(register, op.clone()))?;
        self.ops.insert(op, register);
        Some(register)
    }

    fn deeper<T>(&mut self, work: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        (self.depth < MAX_DEPTH).then_some(())?;
        self.work = self.work.checked_sub(1)?;
        self.depth += 1;
        let result = work(self);
        self.depth -= 1;
        result
    }

    /// Where an address will be, without what a word may hold besides.
    fn address(&mut self, frame: usize, at: Ref) -> Option<Register> {
        let word = self.register(frame, at)?;
        let Around { caller, target, .. } = self.accounts[0];
        if word == caller || word == target {
            return Some(word);
        }
        let mask = self.constant(U256::MAX >> 96)?;
        self.set(Op::Binary(AND, mask, word))
    }

    /// Where the value of a formula of a frame will be.
    fn register(&mut self, frame: usize, at: Ref) -> Option<Register> {
        if let Some(register) = self.formulas.get(&(frame, at)) {
            return Some(*register);
        }
        let register = self.deeper(|it| it.formula(frame, at))?;
        self.formulas.insert((frame, at), register);
        Some(register)
    }

    fn formula(&mut self, frame: usize, at: Ref) -> Option<Register> {
        let Running { template, input, calls, value, .. } = &self.frames[frame];
        let Around { caller, target, value: paid } = self.accounts[frame];
        match template.nodes.get(at) {
            Node::Const(value) => self.constant(*value),
            Node::Caller => Some(caller),
            Node::Target => Some(target),
            Node::Origin => self.set(Op::Sender),
            Node::Value => match value {
                Wei::Known(_) => Some(paid),
                Wei::Of(frame, at) => self.register(*frame, *at),
            },
            Node::InputLen => {
                let len = match input {
                    Input::Transaction => self.len,
                    Input::Of(_, region) => region_len(region),
                };
                self.constant(U256::from(len))
            }
            Node::Input(offset) => {
                let offset = self.register(frame, *offset)?;
                let offset = usize::try_from(self.constant_of(offset)?).ok()?;
                let mut gathered = Gathered::default();
                self.input(frame, offset, 32, &mut gathered)?;
                self.word(gathered)
            }
            Node::Env(env) => self.set(Op::Env(*env)),
            Node::Load(slot) => {
                let slot = self.register(frame, *slot)?;
                self.set(Op::Load { of: target, slot })
            }
            Node::Unary(op, a) => {
                let a = self.register(frame, *a)?;
                self.set(Op::Unary(*op, a))
            }
            Node::Binary(op, a, b) => {
                let (a, b) = (self.register(frame, *a)?, self.register(frame, *b)?);
                self.set(Op::Binary(*op, a, b))
            }
            Node::Keccak(region) => {
                let pattern = self.preimage(frame, region, false)?;
                self.set(Op::Hash(Box::new(pattern)))
            }
            Node::Word(region) => self.read(frame, region, 0..32),
            Node::Success(call) => {
                let success = match calls.get(usize::from(*call))? {
                    Called::Frame(inner) => self.frames[*inner].leaf?.success,
                    Called::Nothing { .. } => true,
                    Called::Waits => return None,
                };
                self.constant(U256::from(u8::from(success)))
            }
            Node::ReturnedLen(call) => {
                let len = match calls.get(usize::from(*call))? {
                    Called::Frame(inner) => region_len(&self.frames[*inner].leaf?.output),
                    Called::Nothing { .. } => 0,
                    Called::Waits => return None,
                };
                self.constant(U256::from(len))
            }
            Node::Unknown => None,
        }
    }

    /// A slot as a key: if it is a hash, one that is computed with others.
    fn slot(&mut self, frame: usize, at: Ref) -> Option<Key> {
        let target = self.accounts[frame].target;
        if !self.is_hash(frame, at) {
            return self.register(frame, at).map(|slot| Key::Slot(target, slot));
        }
        let pattern = self.pattern(frame, at)?;
        self.ask(pattern).map(|hash| Key::Mapping(target, hash))
    }

    fn is_hash(&self, frame: usize, at: Ref) -> bool {
        matches!(self.frames[frame].template.nodes.get(at), Node::Keccak(_))
    }

    /// What a formula is the hash of, parts of other hashes among it.
    fn pattern(&mut self, frame: usize, at: Ref) -> Option<Rc<Pattern<64>>> {
        if let Some(pattern) = self.patterns.get(&(frame, at)) {
            return Some(Rc::clone(pattern));
        }
        let Node::Keccak(region) = self.frames[frame].template.nodes.get(at) else { return None };
        let pattern = Rc::new(self.deeper(|it| it.preimage(frame, region, true))?);
        self.patterns.insert((frame, at), Rc::clone(&pattern));
        Some(pattern)
    }

    /// The number of a hash that is computed with others.
    fn ask(&mut self, pattern: Rc<Pattern<64>>) -> Option<u16> {
        // To look for it takes as long as it has parts.
        self.work = self.work.checked_sub(1 + pattern.parts.len() as u64 / 8)?;
        if let Some(hash) = self.asked.get(&pattern) {
            return Some(*hash);
        }
        let hashes = &mut self.made.hashes;
        (hashes.len() < MAX_KEYS).then_some(())?;
        let hash = hashes.len() as u16;
        hashes.push(Pattern::clone(&pattern));
        self.asked.insert(pattern, hash);
        Some(hash)
    }

    fn preimage(&mut self, frame: usize, region: &'a [Piece], may_wait: bool) -> Option<Pattern<64>> {
        (region_len(region) == 64).then_some(())?;
        let mut gathered = Gathered { may_wait, ..Gathered::default() };
        self.gather(frame, region, 0..64, &mut gathered)?;
        gathered.pattern()
    }

    /// The word that is these bytes of a region; zeros behind its end.
    fn read(&mut self, frame: usize, region: &'a [Piece], bytes: Range<usize>) -> Option<Register> {
        let mut gathered = Gathered::default();
        self.gather(frame, region, bytes, &mut gathered)?;
        self.word(gathered)
    }

    fn word(&mut self, gathered: Gathered) -> Option<Register> {
        let pattern: Pattern<32> = gathered.pattern()?;
        match pattern.parts[..] {
            [] => self.constant(U256::from_be_bytes(pattern.fixed)),
            [Part { of: Source::Register(register), at: 0, from: 0, len: 32 }] => Some(register),
            _ => self.set(Op::Word(Box::new(pattern))),
        }
    }

    /// Adds these bytes of a region of a frame; zeros behind its end.
    fn gather(&mut self, frame: usize, region: &'a [Piece], bytes: Range<usize>, to: &mut Gathered) -> Option<()> {
        let (mut at, mut next) = (0, bytes.start);
        for piece in region {
            if at >= bytes.end {
                break;
            }
            self.work = self.work.checked_sub(1)?;
            let end = (at + piece.len()).min(bytes.end);
            if next < end && next >= at {
                self.deeper(|it| it.piece(frame, piece, next - at, end - next, to))?;
                next = end;
            }
            at += piece.len();
        }
        to.zeros(bytes.end - next);
        Some(())
    }

    /// Adds `len` bytes of a piece after the first `skipped`.
    fn piece(&mut self, frame: usize, piece: &'a Piece, skipped: usize, len: usize, to: &mut Gathered) -> Option<()> {
        match piece {
            Piece::Raw(bytes) => to.fixed.extend_from_slice(&bytes[skipped..skipped + len]),
            Piece::Word { node, from, .. } => {
                let from = usize::from(*from) + skipped;
                if to.may_wait
                    && let Some(hash) = self.early_hash(frame, *node)?
                {
                    return to.part(Source::Hash(hash), from, len);
                }
                let register = self.register(frame, *node)?;
                match self.constant_of(register) {
                    Some(value) => to.fixed.extend_from_slice(&value.to_be_bytes::<32>()[from..from + len]),
                    None => to.part(Source::Register(register), from, len)?,
                }
            }
            Piece::Input { at, skip, .. } => {
                let at = self.register(frame, *at)?;
                let at = usize::try_from(self.constant_of(at)?).ok()?;
                self.input(frame, at.checked_add(*skip as usize)?.checked_add(skipped)?, len, to)?;
            }
            Piece::Returned { call, from, .. } => match self.frames[frame].calls.get(usize::from(*call))? {
                Called::Frame(inner) => {
                    let from = *from as usize + skipped;
                    self.gather(*inner, &self.frames[*inner].leaf?.output, from..from + len, to)?;
                }
                Called::Nothing { .. } => to.zeros(len),
                Called::Waits => return None,
            },
            Piece::Unknown { .. } => return None,
        }
        Some(())
    }

    /// The number of a hash that takes no other. One that does has to be there before what is made of it.
    fn early_hash(&mut self, frame: usize, at: Ref) -> Option<Option<u16>> {
        if !matches!(self.frames[frame].template.nodes.get(at), Node::Keccak(region) if region_len(region) == 64) {
            return Some(None);
        }
        let pattern = self.pattern(frame, at)?;
        if pattern.of_hashes().next().is_some() { Some(None) } else { self.ask(pattern).map(Some) }
    }

    /// Adds `len` bytes of a frame's calldata from `offset` on; zeros where it has ended.
    fn input(&mut self, frame: usize, offset: usize, len: usize, to: &mut Gathered) -> Option<()> {
        if let Input::Of(caller, region) = self.frames[frame].input {
            return self.deeper(|it| it.gather(caller, region, offset..offset.checked_add(len)?, to));
        }
        let held = len.min(self.len.saturating_sub(offset));
        let mut at = offset;
        while at < offset + held {
            let n = (offset + held - at).min(32);
            // A word that is all there.
            let word = at.min(self.len.checked_sub(32)?);
            let n = n.min(word + 32 - at);
            let register = self.set(Op::Input(word))?;
            to.part(Source::Register(register), at - word, n)?;
            at += n;
        }
        to.zeros(len - held);
        Some(())
    }

    /// Touches a key, which may be one that was touched before.
    fn touch(&mut self, key: Key, access: Access) -> Option<()> {
        let touched = &mut self.made.touched;
        if let Some(place) = self.places.get(&key) {
            let (_, held) = &mut touched[*place];
            *held = held.join(access);
            return Some(());
        }
        (touched.len() < MAX_KEYS).then_some(())?;
        self.places.insert(key, touched.len());
        touched.push((key, access));
        Some(())
    }
}

impl Gathered {
    fn zeros(&mut self, len: usize) {
        self.fixed.resize(self.fixed.len() + len, 0);
    }

    fn part(&mut self, of: Source, from: usize, len: usize) -> Option<()> {
        let [at, from, size] = [self.fixed.len(), from, len].map(u8::try_from);
        self.parts.push(Part { of, at: at.ok()?, from: from.ok()?, len: size.ok()? });
        self.zeros(len);
        Some(())
    }

    fn pattern<const LEN: usize>(self) -> Option<Pattern<LEN>> {
        Some(Pattern { fixed: self.fixed.try_into().ok()?, parts: self.parts })
    }
}
