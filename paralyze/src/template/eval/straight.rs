//! The way of most calls of most functions, as a straight line.
//!
//! Transactions of one shape mostly go one of a few ways through templates. What all that go one way have in common is laid
//! out once (`lay.rs`), across all frames: a list of instructions over registers says what a walk of the trees would, at a
//! fraction of its cost. Where a transaction parts from the way, another is tried, and then the trees are walked.

mod lay;

pub(super) use lay::lay;

use super::{DEAR_FORMULA, Evaluator, hashes::Blank};
use crate::{Preimage, Register, Registers, Snapshot, StateKey, template::expr::Env};
use alloy_primitives::{Address, B256, U256, keccak256};
use phalanx_access::Access;
use revm::{bytecode::opcode::EXP, context::TxEnv};

/// What a transaction has to agree with, and what it takes to see that.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Op {
    /// Who sends the transaction.
    Sender,
    /// Whom it calls.
    Target,
    Env(Env),
    /// The word of calldata from here on, all of it there.
    Input(usize),
    Unary(u8, Register),
    Binary(u8, Register, Register),
    /// 32 bytes.
    Word(Box<Pattern<32>>),
    /// A hash that is needed to go on.
    Hash(Box<Pattern<64>>),
    /// A slot of an account, before the transaction.
    Load {
        of: Register,
        slot: Register,
    },
}

/// One step of a line.
#[derive(Clone, Debug)]
enum Instruction {
    Set(Register, Op),
    /// The transaction goes another way if the register holds anything else.
    Expect(Register, U256),
    /// Or if other code is found at this address.
    Code(Register, Option<B256>),
}

impl Instruction {
    /// In formulas.
    fn cost(&self) -> u64 {
        match self {
            Self::Set(_, Op::Load { .. } | Op::Binary(EXP, ..)) => DEAR_FORMULA,
            Self::Set(_, Op::Hash(pattern)) => 4 + pattern.parts.len() as u64,
            Self::Set(_, Op::Word(pattern)) => 1 + pattern.parts.len() as u64,
            Self::Code(..) => DEAR_FORMULA,
            _ => 1,
        }
    }
}

/// Bytes of which some are the same for all, and others parts of values.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Pattern<const LEN: usize> {
    /// With zeros where the parts go.
    fixed: [u8; LEN],
    parts: Vec<Part>,
}

/// `len` bytes from byte `from` of a value on, that go to place `at`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Part {
    of: Source,
    at: u8,
    from: u8,
    len: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Source {
    Register(Register),
    /// A hash that is computed with those of other transactions, by its number in the line.
    Hash(u16),
}

/// Something that is touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Key {
    Account(Register),
    Slot(Register, Register),
    /// The slot of an account that is a hash of the line.
    Mapping(Register, u16),
}

/// One way through templates.
#[derive(Clone, Debug, Default)]
pub(super) struct Straight {
    instructions: Vec<Instruction>,
    /// Constants are in their registers from the beginning.
    registers: Registers,
    /// What slots are hashes of; those that others are made of come before them.
    hashes: Vec<Pattern<64>>,
    touched: Vec<(Key, Access)>,
    /// Of naming all that, in formulas.
    cost: u64,
}

impl<const LEN: usize> Pattern<LEN> {
    /// The bytes, without what is a hash.
    fn bytes(&self, registers: &Registers) -> [u8; LEN] {
        let mut bytes = self.fixed;
        for Part { of, at, from, len } in &self.parts {
            if let Source::Register(register) = of {
                let [at, from, len] = [at, from, len].map(|place| usize::from(*place));
                registers.bytes(*register, from, &mut bytes[at..at + len]);
            }
        }
        bytes
    }

    fn of_hashes(&self) -> impl Iterator<Item = (u16, [u8; 3])> {
        self.parts.iter().filter_map(|part| match part.of {
            Source::Hash(hash) => Some((hash, [part.at, part.from, part.len])),
            Source::Register(_) => None,
        })
    }
}

#[cfg(test)]
std::thread_local! {
    /// Lines that were followed on this thread.
    pub(in crate::template) static FOLLOWED: core::cell::Cell<usize> = const { core::cell::Cell::new(0) };
    /// Whether this thread lays no line.
    pub(in crate::template) static ONLY_WALKS: core::cell::Cell<bool> = const { core::cell::Cell::new(false) };
}

impl<S: Snapshot> Evaluator<'_, S> {
    /// What a transaction touches that goes this way; `None`, and nothing has happened, if it does not, or if it may not
    /// touch so much. Takes what it costs from `fuel`.
    pub(super) fn follow(&mut self, straight: &mut Straight, tx: &TxEnv, to: Address, fuel: &mut u64) -> Option<()> {
        if self.set.len() - self.begin + straight.touched.len() > self.most_keys {
            return None;
        }
        self.agree(straight, tx, to, fuel)?;
        *fuel = fuel.checked_sub(straight.cost)?;
        let Straight { registers, hashes, touched, .. } = straight;
        for pattern in hashes {
            let preimage: Preimage = pattern.bytes(registers);
            let is_late = pattern.of_hashes().next().is_some();
            let asked = if is_late { self.hashes.ask_late(preimage) } else { self.hashes.ask(preimage) };
            for (hash, place) in pattern.of_hashes() {
                self.hashes.insert(asked, self.asked[usize::from(hash)], place);
            }
            self.asked.push(asked);
        }
        let address = |register: Register| registers.address(register);
        for (key, access) in touched {
            let key = match *key {
                Key::Account(of) => StateKey::Basic(address(of)),
                Key::Slot(of, slot) => StateKey::Slot(address(of), registers.get(slot)),
                Key::Mapping(of, hash) => {
                    let hash = self.asked[usize::from(hash)];
                    self.blanks.push(Blank { entry: self.set.len(), hash });
                    StateKey::Slot(address(of), U256::ZERO)
                }
            };
            self.set.push((key, *access));
        }
        self.asked.clear();
        #[cfg(test)]
        FOLLOWED.set(FOLLOWED.get() + 1);
        Some(())
    }

    /// Computes the registers; `None` if the transaction goes another way.
    fn agree(&self, straight: &mut Straight, tx: &TxEnv, to: Address, fuel: &mut u64) -> Option<()> {
        let Straight { instructions, registers, .. } = straight;
        for instruction in instructions {
            *fuel = fuel.checked_sub(instruction.cost())?;
            let (register, op) = match instruction {
                Instruction::Set(register, op) => (*register, op),
                Instruction::Expect(register, value) if registers.holds(*register, value) => continue,
                Instruction::Code(register, code)
                    if self.snapshot.code_hash(&registers.address(*register)) == *code =>
                {
                    continue;
                }
                Instruction::Expect(..) | Instruction::Code(..) => return None,
            };
            let value = match op {
                Op::Unary(op, a) => {
                    registers.unary(register, *op, *a)?;
                    continue;
                }
                Op::Binary(op, a, b) => {
                    registers.binary(register, *op, *a, *b)?;
                    continue;
                }
                Op::Sender => tx.caller.into_word().into(),
                Op::Target => to.into_word().into(),
                Op::Env(env) => self.env_value(*env).ok()?,
                Op::Input(at) => U256::from_be_bytes(*tx.data.get(*at..)?.first_chunk::<32>()?),
                Op::Word(pattern) => U256::from_be_bytes(pattern.bytes(registers)),
                Op::Hash(pattern) => keccak256(pattern.bytes(registers)).into(),
                Op::Load { of, slot } => {
                    self.snapshot.storage_ref(registers.address(*of), registers.get(*slot)).ok()?
                }
            };
            registers.set(register, value);
        }
        Some(())
    }
}
