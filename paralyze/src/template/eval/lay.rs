//! From frames that were walked to a line.

use super::{
    frame::{Called, Input, Running, Wei},
    straight::{Code, Instruction, Key, Mapping, Straight},
};
use crate::template::{
    Function,
    tree::{Call, End, Step},
};
use alloy_primitives::{B256, Bytes, U256};
use core::ops::Range;
use phalanx_access::Access;
use phalanx_symbolic::{
    Bounds, CallKind, Node, Nodes, Op, Piece, Ref, Register, append,
    operator::{binary, unary},
    region_len, zeros,
};
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
pub(super) fn lay(frames: &[Running<'_>], value: U256, len: usize, work: u64) -> Option<Straight> {
    #[cfg(test)]
    if super::straight::ONLY_WALKS.get() {
        return None;
    }
    let nodes = Nodes::within(Bounds { depth: u16::MAX, nodes: MAX_REGISTERS });
    let mut line = Line { frames, nodes, len, work, ..Line::default() };
    let [caller, target] = [line.set(Node::Origin)?, line.set(Node::Target)?];
    let value = line.constant(value)?;
    line.accounts.resize(frames.len(), Around { caller, target, value });
    line.frame(0)?;
    let hashed = line.made.hashes.iter().map(Mapping::cost).sum::<u64>();
    line.made.cost = hashed + line.made.touched.len() as u64;
    line.made.registers = line.nodes.registers();
    Some(line.made)
}

/// Caller, account and value of a frame.
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
    /// Length of calldata.
    len: usize,
    /// By frame.
    accounts: Vec<Around>,
    /// Formulas of the line, and their indices by frame and formula.
    nodes: Nodes,
    formulas: HashMap<(usize, Ref), Register>,
    /// Addresses whose code is expected already.
    met: HashSet<Register>,
    /// Preimages of slots by frame and formula, and the numbers of hashes that the line computes.
    mappings: HashMap<(usize, Ref), Rc<Mapping>>,
    asked: HashMap<Rc<Mapping>, u16>,
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
    region: Vec<Piece>,
    /// Hashes that are computed later, and where they go; `None` if none may.
    hashes: Option<Vec<(u16, [u8; 3])>>,
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
        };
        let Function { code, selector } = self.frames[inner].function?;
        self.code(to, Some(code))?;
        if let Some(expected) = selector {
            let head = self.read(frame, &call.input, 0..32)?;
            let by = self.constant(U256::from(256 - 8 * expected.len()))?;
            let selector = self.set(Node::Binary(SHR, by, head))?;
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
        if self.met.insert(of) { self.push(Op::Effect(Code(of, code))) } else { Some(()) }
    }

    fn push(&mut self, instruction: Instruction) -> Option<()> {
        let instructions = &mut self.made.instructions;
        (instructions.len() < MAX_INSTRUCTIONS).then(|| instructions.push(instruction))
    }

    fn expect(&mut self, register: Register, value: U256) -> Option<()> {
        match self.constant_of(register) {
            Some(constant) => (constant == value).then_some(()),
            None => self.push(Op::Expect(register, value)),
        }
    }

    fn constant_of(&self, register: Register) -> Option<U256> {
        self.nodes.constant_of(register)
    }

    fn constant(&mut self, value: U256) -> Option<Register> {
        self.set(Node::Const(value))
    }

    /// The register of a formula, which is computed once.
    fn set(&mut self, node: Node) -> Option<Register> {
        let constant = |register: &Register| self.constant_of(*register);
        let value = match &node {
            Node::Unary(op, a) => constant(a).map(|a| unary(*op, &a)),
            Node::Binary(op, a, b) => constant(a).zip(constant(b)).map(|(a, b)| binary(*op, &a, &b)),
            _ => None,
        };
        let node = value.map_or(Some(node), |value| value.map(Node::Const))?;
        let known = self.nodes.len();
        let register = self.nodes.intern(node);
        match self.nodes.get(register) {
            Node::Unknown => return None,
            node if register as usize == known && !matches!(node, Node::Const(_)) => {
                let node = node.clone();
                self.push(Op::Set(register, node))?;
            }
            _ => {}
        }
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
        self.set(Node::Binary(AND, mask, word))
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
            Node::Origin => self.set(Node::Origin),
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
            Node::Env(env) => self.set(Node::Env(*env)),
            Node::Load(_, slot) => {
                let slot = self.register(frame, *slot)?;
                self.set(Node::Load(target, slot))
            }
            Node::Unary(op, a) => {
                let a = self.register(frame, *a)?;
                self.set(Node::Unary(*op, a))
            }
            Node::Binary(op, a, b) => {
                let (a, b) = (self.register(frame, *a)?, self.register(frame, *b)?);
                self.set(Node::Binary(*op, a, b))
            }
            Node::Keccak(region) => {
                let Mapping { region, .. } = self.preimage(frame, region, None)?;
                self.set(Node::Keccak(region))
            }
            Node::Word(region) => self.read(frame, region, 0..32),
            Node::Success(call) => {
                let success = match calls.get(usize::from(*call))? {
                    Called::Frame(inner) => self.frames[*inner].leaf?.success,
                    Called::Nothing { .. } => true,
                };
                self.constant(U256::from(u8::from(success)))
            }
            Node::ReturnedLen(call) => {
                let len = match calls.get(usize::from(*call))? {
                    Called::Frame(inner) => region_len(&self.frames[*inner].leaf?.output),
                    Called::Nothing { .. } => 0,
                };
                self.constant(U256::from(len))
            }
            // The last three are of exact recordings.
            Node::Unknown | Node::Original(_) | Node::Gas(_) | Node::Ternary(..) => None,
        }
    }

    /// A slot as a key: if it is a hash, one that is computed with others.
    fn slot(&mut self, frame: usize, at: Ref) -> Option<Key> {
        let target = self.accounts[frame].target;
        if !self.is_hash(frame, at) {
            return self.register(frame, at).map(|slot| Key::Slot(target, slot));
        }
        let mapping = self.mapping(frame, at)?;
        self.ask(mapping).map(|hash| Key::Mapping(target, hash))
    }

    fn is_hash(&self, frame: usize, at: Ref) -> bool {
        matches!(self.frames[frame].template.nodes.get(at), Node::Keccak(_))
    }

    /// Preimage of a formula that is a hash, which may have parts of other hashes.
    fn mapping(&mut self, frame: usize, at: Ref) -> Option<Rc<Mapping>> {
        if let Some(mapping) = self.mappings.get(&(frame, at)) {
            return Some(Rc::clone(mapping));
        }
        let Node::Keccak(region) = self.frames[frame].template.nodes.get(at) else { return None };
        let mapping = Rc::new(self.deeper(|it| it.preimage(frame, region, Some(Vec::new())))?);
        self.mappings.insert((frame, at), Rc::clone(&mapping));
        Some(mapping)
    }

    /// The number of a hash that is computed with others.
    fn ask(&mut self, mapping: Rc<Mapping>) -> Option<u16> {
        // The look-up takes as long as there are parts.
        self.work = self.work.checked_sub(1 + (mapping.cost() - 4) / 8)?;
        if let Some(hash) = self.asked.get(&mapping) {
            return Some(*hash);
        }
        let hashes = &mut self.made.hashes;
        (hashes.len() < MAX_KEYS).then_some(())?;
        let hash = hashes.len() as u16;
        hashes.push(Mapping::clone(&mapping));
        self.asked.insert(mapping, hash);
        Some(hash)
    }

    fn preimage(&mut self, frame: usize, region: &'a [Piece], hashes: Option<Vec<(u16, [u8; 3])>>) -> Option<Mapping> {
        (region_len(region) == 64).then_some(())?;
        let mut gathered = Gathered { hashes, ..Gathered::default() };
        self.gather(frame, region, 0..64, &mut gathered)?;
        let hashes = gathered.hashes.take().unwrap_or_default();
        Some(Mapping { region: gathered.region.into(), hashes })
    }

    /// The word that is these bytes of a region; zeros behind its end.
    fn read(&mut self, frame: usize, region: &'a [Piece], bytes: Range<usize>) -> Option<Register> {
        let mut gathered = Gathered::default();
        self.gather(frame, region, bytes, &mut gathered)?;
        self.word(gathered)
    }

    fn word(&mut self, gathered: Gathered) -> Option<Register> {
        match gathered.region[..] {
            [Piece::Word { node, from: 0, len: 32 }] => Some(node),
            [Piece::Raw(ref bytes)] => self.constant(U256::from_be_slice(bytes)),
            _ => self.set(Node::Word(gathered.region.into())),
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
            Piece::Raw(bytes) => append(&mut to.region, Piece::Raw(bytes.slice(skipped..skipped + len))),
            Piece::Word { node, from, .. } => {
                let from = usize::from(*from) + skipped;
                if to.hashes.is_some()
                    && let Some(hash) = self.early_hash(frame, *node)?
                {
                    return to.hash(hash, from, len);
                }
                let register = self.register(frame, *node)?;
                match self.constant_of(register) {
                    Some(value) => {
                        let bytes = Bytes::copy_from_slice(&value.to_be_bytes::<32>()[from..from + len]);
                        append(&mut to.region, Piece::Raw(bytes));
                    }
                    None => to.part(register, from, len)?,
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
        let mapping = self.mapping(frame, at)?;
        if mapping.hashes.is_empty() { self.ask(mapping).map(Some) } else { Some(None) }
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
            let word_at = self.constant(U256::from(word))?;
            let register = self.set(Node::Input(word_at))?;
            to.part(register, at - word, n)?;
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
        if len > 0 {
            append(&mut self.region, zeros(len));
        }
    }

    fn part(&mut self, node: Register, from: usize, len: usize) -> Option<()> {
        let (from, len) = (u8::try_from(from).ok()?, u8::try_from(len).ok()?);
        append(&mut self.region, Piece::Word { node, from, len });
        Some(())
    }

    fn hash(&mut self, hash: u16, from: usize, len: usize) -> Option<()> {
        let [at, from, size] = [region_len(&self.region), from, len].map(u8::try_from);
        self.hashes.as_mut()?.push((hash, [at.ok()?, from.ok()?, size.ok()?]));
        self.zeros(len);
        Some(())
    }
}
