//! The way of most calls of most functions, as a straight line.
//!
//! Transactions of one shape mostly go one way through a template, and where that way calls nothing and looks at nothing
//! that is stored, all that can differ are a few words of the input. Then a list of instructions over registers says what a
//! walk of the tree would, at a fraction of its cost. Where a transaction parts from the way, the tree is walked.

use super::{Evaluator, hashes::Blank};
use crate::{
    Preimage, Snapshot, StateKey,
    operator::{binary, unary},
    template::{
        expr::{Node, Nodes, Piece, Ref, region_len},
        tree::{End, Step, Template},
    },
};
use alloy_primitives::{Address, B256, U256};
use phalanx_access::Access;
use revm::{context::TxEnv, primitives::map::HashMap};

type Register = u16;

/// Registers of one line; whatever needs more is walked.
const MAX_REGISTERS: usize = 256;

/// What a transaction has to agree with, and what it takes to see that.
#[derive(Clone, Copy, Debug)]
enum Op {
    Caller,
    Target,
    /// The word of calldata from here on, all of it there.
    Input(usize),
    Unary(u8, Register),
    Binary(u8, Register, Register),
    /// Nothing is computed: the transaction goes another way if the register holds anything else.
    Expect(Register, U256),
}

/// Something that is touched.
#[derive(Clone, Debug)]
enum Key {
    Account(Register),
    Slot(Register),
    Mapping(Box<Hashed>),
}

/// What the slot of a mapping is the hash of: what is the same for all, and parts of registers that go over it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Hashed {
    fixed: Preimage,
    parts: Vec<Part>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    at: u8,
    register: Register,
    from: u8,
    len: u8,
}

/// One way through a template.
#[derive(Clone, Debug, Default)]
pub(super) struct Straight {
    /// Each writes the register of its number among all; of an `Expect` that stays unused.
    ops: Vec<(Register, Op)>,
    /// Constants are in their registers from the beginning.
    registers: Vec<U256>,
    touched: Vec<(Key, Access)>,
}

impl Straight {
    /// The way along these blocks, for calls with this value and as much calldata. `None` if it is not so simple.
    pub(super) fn new(template: &Template, path: &[u32], value: U256, len: usize) -> Option<Self> {
        let mut line = Line { nodes: &template.nodes, value, len, known: HashMap::default(), made: Self::default() };
        let mut path = path.iter();
        let mut block = &template.blocks[0];
        loop {
            for step in &block.steps {
                match step {
                    Step::Slot { slot, access } => {
                        let key = line.slot(*slot)?;
                        line.touch(key, *access);
                    }
                    Step::Account { address, access } => {
                        let key = Key::Account(line.register(*address)?);
                        line.touch(key, *access);
                    }
                    Step::Lost | Step::Call(_) => return None,
                }
            }
            let (on, asked, of_shape, arms) = match &block.end {
                End::Open => return None,
                End::Leaf(_) => return Some(line.made),
                End::Switch { on, asked, of_shape, arms } => (*on, *asked, *of_shape, arms),
            };
            let next = path.next()?;
            if !of_shape && (asked || arms.len() > 1) {
                let (value, _) = arms.iter().find(|(_, to)| to == next)?;
                let register = line.register(on)?;
                line.made.ops.push((register, Op::Expect(register, *value)));
            }
            block = &template.blocks[*next as usize];
        }
    }

    /// Computes the registers. Whether the transaction goes this way.
    fn agrees(&mut self, tx: &TxEnv, to: Address) -> bool {
        let Self { ops, registers, .. } = self;
        for (register, op) in ops {
            let value = match *op {
                Op::Caller => tx.caller.into_word().into(),
                Op::Target => to.into_word().into(),
                Op::Input(at) => {
                    let word = tx.data.get(at..).and_then(|rest| rest.first_chunk::<32>());
                    let Some(word) = word else { return false };
                    U256::from_be_bytes(*word)
                }
                Op::Unary(op, a) => match unary(op, registers[usize::from(a)]) {
                    Some(value) => value,
                    None => return false,
                },
                Op::Binary(op, a, b) => match binary(op, registers[usize::from(a)], registers[usize::from(b)]) {
                    Some(value) => value,
                    None => return false,
                },
                Op::Expect(a, value) => {
                    if registers[usize::from(a)] != value {
                        return false;
                    }
                    continue;
                }
            };
            registers[usize::from(*register)] = value;
        }
        true
    }

    fn write_preimage(&self, hashed: &Hashed, preimage: &mut Preimage) {
        *preimage = hashed.fixed;
        for Part { at, register, from, len } in &hashed.parts {
            let word = self.registers[usize::from(*register)].to_be_bytes::<32>();
            let [at, from, len] = [at, from, len].map(|place| usize::from(*place));
            preimage[at..at + len].copy_from_slice(&word[from..from + len]);
        }
    }
}

impl<S: Snapshot> Evaluator<'_, S> {
    /// What a transaction touches that goes this way; `None`, and nothing has happened, if it does not, or if it may not
    /// touch so much.
    pub(super) fn follow(&mut self, straight: &mut Straight, tx: &TxEnv, to: Address) -> Option<()> {
        let cost = straight.ops.len() + straight.touched.len();
        if cost as u64 > self.fuel || self.set.len() - self.begin + straight.touched.len() > self.most_keys {
            return None;
        }
        straight.agrees(tx, to).then_some(())?;
        for (key, access) in &straight.touched {
            let key = match key {
                Key::Account(a) => {
                    let word = straight.registers[usize::from(*a)];
                    StateKey::Basic(Address::from_word(B256::from(word)))
                }
                Key::Slot(a) => StateKey::Slot(to, straight.registers[usize::from(*a)]),
                Key::Mapping(hashed) => {
                    let hash = self.hashes.ask(|preimage| straight.write_preimage(hashed, preimage));
                    self.blanks.push(Blank { entry: self.set.len(), hash });
                    StateKey::Slot(to, U256::ZERO)
                }
            };
            self.set.push((key, *access));
        }
        Some(())
    }
}

/// A line in the making.
struct Line<'a> {
    nodes: &'a Nodes,
    value: U256,
    len: usize,
    known: HashMap<Ref, Register>,
    made: Straight,
}

impl Line<'_> {
    /// A register of its own.
    fn new_register(&mut self, value: U256) -> Option<Register> {
        let registers = &mut self.made.registers;
        (registers.len() < MAX_REGISTERS).then_some(())?;
        registers.push(value);
        Some(registers.len() as Register - 1)
    }

    fn compute(&mut self, op: Op) -> Option<Register> {
        let register = self.new_register(U256::ZERO)?;
        self.made.ops.push((register, op));
        Some(register)
    }

    /// Where the value of a formula will be. Formulas are no deeper than what recursion can take.
    fn register(&mut self, at: Ref) -> Option<Register> {
        if let Some(register) = self.known.get(&at) {
            return Some(*register);
        }
        let register = match self.nodes.get(at) {
            Node::Const(value) => self.new_register(*value)?,
            Node::Value => self.new_register(self.value)?,
            Node::InputLen => self.new_register(U256::from(self.len))?,
            Node::Caller | Node::Origin => self.compute(Op::Caller)?,
            Node::Target => self.compute(Op::Target)?,
            Node::Input(offset) => {
                let Node::Const(offset) = self.nodes.get(*offset) else { return None };
                self.input(usize::try_from(*offset).ok()?)?
            }
            Node::Unary(op, a) => {
                let a = self.register(*a)?;
                self.compute(Op::Unary(*op, a))?
            }
            Node::Binary(op, a, b) => {
                let (a, b) = (self.register(*a)?, self.register(*b)?);
                self.compute(Op::Binary(*op, a, b))?
            }
            _ => return None,
        };
        self.known.insert(at, register);
        Some(register)
    }

    /// A word of calldata that is all there.
    fn input(&mut self, at: usize) -> Option<Register> {
        (at.checked_add(32)? <= self.len).then_some(())?;
        self.compute(Op::Input(at))
    }

    fn slot(&mut self, at: Ref) -> Option<Key> {
        let Node::Keccak(region) = self.nodes.get(at) else { return self.register(at).map(Key::Slot) };
        let mut hashed = Hashed { fixed: [0; 64], parts: Vec::new() };
        (region_len(region) == hashed.fixed.len()).then_some(())?;
        let mut at = 0;
        for piece in region {
            let len = piece.len();
            let (register, from) = match piece {
                Piece::Raw(bytes) => {
                    hashed.fixed[at..at + len].copy_from_slice(bytes);
                    at += len;
                    continue;
                }
                Piece::Word { node, from, .. } => (self.register(*node)?, *from),
                Piece::Input { at, skip, len } if *len <= 32 => {
                    let Node::Const(at) = self.nodes.get(*at) else { return None };
                    (self.input(usize::try_from(*at).ok()?.checked_add(*skip as usize)?)?, 0)
                }
                _ => return None,
            };
            hashed.parts.push(Part { at: at as u8, register, from, len: len as u8 });
            at += len;
        }
        Some(Key::Mapping(Box::new(hashed)))
    }

    /// Touches a key, which may be one that was touched before.
    fn touch(&mut self, key: Key, access: Access) {
        let same = |held: &Key| match (held, &key) {
            (Key::Account(a), Key::Account(b)) | (Key::Slot(a), Key::Slot(b)) => a == b,
            (Key::Mapping(a), Key::Mapping(b)) => a == b,
            _ => false,
        };
        match self.made.touched.iter_mut().find(|(held, _)| same(held)) {
            Some((_, held)) => *held = held.join(access),
            None => self.made.touched.push((key, access)),
        }
    }
}
