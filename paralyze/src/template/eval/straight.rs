//! The way of most calls of most functions, as a straight line.
//!
//! Transactions of one shape mostly go one of a few ways through templates. What all that go one way have in common is laid
//! out once (`lay.rs`), across all frames: a list of instructions over registers says what a walk of the trees would, at a
//! fraction of its cost. Where a transaction parts from the way, another is tried, and then the trees are walked.

mod lay;

pub(super) use lay::lay;

use super::{DEAR_FORMULA, Evaluator, hashes::Blank};
use crate::{Snapshot, StateKey};
use alloy_primitives::{Address, B256, U256, keccak256};
use phalanx_access::Access;
use phalanx_symbolic::{Inputs, Node, Op, Region, Register, Registers, parts};
use revm::{
    bytecode::opcode::EXP,
    context::{BlockEnv, TxEnv},
};

/// Expectation of the code at the address in a register.
#[derive(Clone, Debug)]
struct Code(Register, Option<B256>);

/// A step of a line.
type Instruction = Op<Code>;

/// Number of formulas that an instruction counts as.
fn cost(instruction: &Instruction) -> u64 {
    match instruction {
        Op::Set(_, Node::Load(..) | Node::Binary(EXP, ..)) | Op::Effect(_) => DEAR_FORMULA,
        Op::Set(_, Node::Keccak(region)) => 4 + parts(region) as u64,
        Op::Set(_, Node::Word(region)) => 1 + parts(region) as u64,
        _ => 1,
    }
}

/// Preimage of a slot: 64 bytes, parts of which may be other hashes of the line, computed with those of other
/// transactions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Mapping {
    region: Region,
    /// Hashes by number, and where they go: place, first byte, number of bytes.
    hashes: Vec<(u16, [u8; 3])>,
}

impl Mapping {
    /// Number of formulas that the hash counts as.
    fn cost(&self) -> u64 {
        4 + (parts(&self.region) + self.hashes.len()) as u64
    }
}

/// Something that is touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Key {
    Account(Register),
    Slot(Register, Register),
    /// The slot of an account that is a hash of the line.
    Mapping(Register, u16),
}

/// A path through templates.
#[derive(Clone, Debug, Default)]
pub(super) struct Straight {
    instructions: Vec<Instruction>,
    /// Constants are in their registers from the beginning.
    registers: Registers,
    /// Preimages of slots, each after those that it is made of.
    hashes: Vec<Mapping>,
    touched: Vec<(Key, Access)>,
    /// Cost of naming all keys, in formulas.
    cost: u64,
}

/// Inputs of a line.
struct Facts<'a, S> {
    tx: &'a TxEnv,
    to: Address,
    env: &'a BlockEnv,
    snapshot: &'a S,
}

impl<S: Snapshot> Inputs for Facts<'_, S> {
    #[inline]
    fn tx(&self) -> &TxEnv {
        self.tx
    }

    #[inline]
    fn to(&self) -> Address {
        self.to
    }

    #[inline]
    fn block(&self) -> &BlockEnv {
        self.env
    }

    #[inline]
    fn hash(&self, bytes: &[u8]) -> U256 {
        keccak256(bytes).into()
    }

    #[inline]
    fn load(&self, of: Address, slot: U256) -> Option<U256> {
        self.snapshot.storage_ref(of, slot).ok()
    }
}

#[cfg(test)]
std::thread_local! {
    /// Lines that were followed on this thread.
    pub(in crate::template) static FOLLOWED: core::cell::Cell<usize> = const { core::cell::Cell::new(0) };
    /// True if this thread lays no line.
    pub(in crate::template) static ONLY_WALKS: core::cell::Cell<bool> = const { core::cell::Cell::new(false) };
}

impl<S: Snapshot> Evaluator<'_, S> {
    /// Adds the keys of a transaction that takes this path; `None`, and nothing has happened, if it does not, or if it may not
    /// touch so much. Takes what it costs from `fuel`.
    pub(super) fn follow(&mut self, straight: &mut Straight, tx: &TxEnv, to: Address, fuel: &mut u64) -> Option<()> {
        if self.set.len() - self.begin + straight.touched.len() > self.most_keys {
            return None;
        }
        self.agree(straight, tx, to, fuel)?;
        *fuel = fuel.checked_sub(straight.cost)?;
        let Straight { registers, hashes, touched, .. } = straight;
        for Mapping { region, hashes } in hashes {
            self.bytes.clear();
            registers.write(region, &mut self.bytes);
            let preimage = *self.bytes.first_chunk()?;
            let asked = if hashes.is_empty() { self.hashes.ask(preimage) } else { self.hashes.ask_late(preimage) };
            for (hash, place) in hashes {
                self.hashes.insert(asked, self.asked[usize::from(*hash)], *place);
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

    /// Computes the registers; `None` if the transaction takes another path.
    fn agree(&mut self, straight: &mut Straight, tx: &TxEnv, to: Address, fuel: &mut u64) -> Option<()> {
        let Straight { instructions, registers, .. } = straight;
        let (facts, bytes) = (Facts { tx, to, env: self.env, snapshot: self.snapshot }, &mut self.bytes);
        for instruction in instructions {
            *fuel = fuel.checked_sub(cost(instruction))?;
            match instruction {
                Op::Set(register, node) => node.run(*register, registers, &facts, bytes)?,
                Op::Expect(register, value) if registers.holds(*register, value) => {}
                Op::Effect(Code(of, code)) if self.snapshot.code_hash(&registers.address(*of)) == *code => {}
                Op::Expect(..) | Op::Effect(_) => return None,
            }
        }
        Some(())
    }
}
