//! The way of most calls of most functions, as a straight line.
//!
//! Transactions of one shape mostly go one of a few ways through templates. What all that go one way have in common is laid
//! out once (`lay.rs`), across all frames: a list of instructions over registers says what a walk of the trees would, at a
//! fraction of its cost. Where a transaction parts from the way, another is tried, and then the trees are walked.

use super::frame::DEAR_FORMULA;
use alloy_primitives::B256;
use phalanx_access::Access;
use phalanx_symbolic::{Node, Op, Region, Register, Registers, parts};
use revm::bytecode::opcode::EXP;

/// Expectation of the code at the address in a register.
#[derive(Clone, Debug)]
pub(super) struct Code(pub(super) Register, pub(super) Option<B256>);

/// A step of a line.
pub(super) type Instruction = Op<Code>;

/// Number of formulas that an instruction counts as.
pub(super) fn cost(instruction: &Instruction) -> u64 {
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
pub(super) struct Mapping {
    pub(super) region: Region,
    /// Hashes by number, and where they go: place, first byte, number of bytes.
    pub(super) hashes: Vec<(u16, [u8; 3])>,
}

impl Mapping {
    /// Number of formulas that the hash counts as.
    pub(super) fn cost(&self) -> u64 {
        4 + (parts(&self.region) + self.hashes.len()) as u64
    }
}

/// Something that is touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Key {
    Account(Register),
    Slot(Register, Register),
    /// The slot of an account that is a hash of the line.
    Mapping(Register, u16),
}

/// A path through templates.
#[derive(Clone, Debug, Default)]
pub(super) struct Straight {
    pub(super) instructions: Vec<Instruction>,
    /// Constants are in their registers from the beginning.
    pub(super) registers: Registers,
    /// Preimages of slots, each after those that it is made of.
    pub(super) hashes: Vec<Mapping>,
    pub(super) touched: Vec<(Key, Access)>,
    /// Cost of naming all keys, in formulas.
    pub(super) cost: u64,
}

#[cfg(test)]
std::thread_local! {
    /// Lines that were followed on this thread.
    pub(in crate::template) static FOLLOWED: core::cell::Cell<usize> = const { core::cell::Cell::new(0) };
    /// True if this thread lays no line.
    pub(in crate::template) static ONLY_WALKS: core::cell::Cell<bool> = const { core::cell::Cell::new(false) };
}
