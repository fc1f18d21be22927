//! A trace as code: operations over registers, one after the other, with neither stack nor jumps.

use crate::exec::trace::limit::Limit;
use crate::state::CodeId;
use alloy_primitives::U256;
use phalanx_paralyze::{Register, Registers};
use revm::{
    bytecode::opcode::{AND, EQ, ISZERO, LT, SHR},
    context_interface::result::SuccessReason,
    primitives::map::{HashMap, HashSet},
};

/// Bytes of which some are the same in every run, and others parts of registers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Pattern {
    /// With zeros where the parts go.
    pub(super) fixed: Box<[u8]>,
    pub(super) parts: Box<[Part]>,
}

/// `len` bytes of a register from its byte `from` on, the highest being 0, at place `at` of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Part {
    pub(super) at: u16,
    pub(super) register: Register,
    pub(super) from: u8,
    pub(super) len: u8,
}

/// What can be computed of what a transaction and its block say.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Formula {
    /// The sender.
    Origin,
    /// Whom the transaction calls.
    Target,
    Beneficiary,
    Timestamp,
    Number,
    PrevRandao,
    GasLimit,
    BaseFee,
    /// What the transaction pays per gas.
    GasPrice,
    /// The word of calldata from here on.
    Input(u32),
    Unary(u8, Register),
    Binary(u8, Register, Register),
    Ternary(u8, [Register; 3]),
    /// 32 bytes.
    Word(Pattern),
    Hash(Pattern),
    /// Gas that is left, so much after the last operation that took some.
    GasLeft(u64),
}

/// One operation. Those that name gas take what the instructions since the last of them cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Set(Register, Formula),
    /// The transaction goes another way if the register holds anything else.
    Expect(Register, U256),
    /// The account in a register takes part for the first time, and has this code.
    Account {
        address: Register,
        code: CodeId,
    },
    /// A slot of an account, by the account's number, is touched for the first time: what it holds goes to `original`.
    Slot {
        account: u16,
        slot: Register,
        original: Register,
    },
    /// What SSTORE costs when it replaces `present` in a slot, by its number.
    Store {
        slot: u16,
        present: Register,
        value: Register,
        cold: bool,
        gas: u64,
    },
    /// A call begins; it may use what is left but a 64th (EIP-150), and at most what is in a register.
    Enter {
        gas: u64,
        at_most: Register,
    },
    /// It ends and gives back what it has left.
    Leave {
        gas: u64,
    },
}

/// An event.
#[derive(Clone, Debug)]
pub(super) struct Emitted {
    pub(super) address: Register,
    pub(super) topics: Box<[Register]>,
    pub(super) data: Pattern,
}

/// How a call ends.
#[derive(Clone, Debug)]
pub(super) struct End {
    /// `None` if it reverts.
    pub(super) reason: Option<SuccessReason>,
    pub(super) output: Pattern,
    /// Of the instructions after the last operation that names gas.
    pub(super) gas: u64,
}

/// One way through a function, from a call to its end.
#[derive(Clone, Debug)]
pub(crate) struct Trace {
    pub(super) ops: Box<[Op]>,
    /// Constants are in theirs from the beginning; the others are written before they are read.
    pub(super) registers: Registers,
    /// By number of a slot, what it holds in the end.
    pub(super) slots: Box<[Register]>,
    pub(super) events: Box<[Emitted]>,
    pub(super) end: End,
    /// The least gas that it takes.
    pub(super) least: u64,
}

impl Trace {
    /// About how much memory it takes.
    pub(super) fn bytes(&self) -> usize {
        let formulas = self.ops.iter().map(|op| match op {
            Op::Set(_, Formula::Word(pattern) | Formula::Hash(pattern)) => pattern.bytes(),
            _ => 0,
        });
        let events = self.events.iter().map(|event| size_of::<Emitted>() + 2 * event.topics.len() + event.data.bytes());
        size_of_val(&*self.ops)
            + self.registers.len() * size_of::<U256>()
            + formulas.sum::<usize>()
            + events.sum::<usize>()
            + self.end.output.bytes()
    }
}

/// A trace in the making: every formula once.
#[derive(Debug, Default)]
pub(super) struct Assembler {
    pub(super) ops: Vec<Op>,
    registers: Vec<U256>,
    constants: HashMap<U256, Register>,
    is_constant: HashSet<Register>,
    formulas: HashMap<Formula, Register>,
    by_register: HashMap<Register, Formula>,
    /// Of all patterns.
    bytes: usize,
}

/// Bytes of all patterns of a trace: to put a word together of single bytes takes longer than to load it.
const MAX_PATTERNS: usize = 1 << 14;

/// What a store costs at least.
const LEAST_STORE: u64 = 100;

impl Assembler {
    /// A register that a later operation writes.
    pub(super) fn register(&mut self) -> Result<Register, Limit> {
        let register = Register::try_from(self.registers.len()).map_err(|_| Limit)?;
        self.registers.push(U256::ZERO);
        Ok(register)
    }

    /// The register of a constant.
    pub(super) fn constant(&mut self, value: U256) -> Result<Register, Limit> {
        if let Some(register) = self.constants.get(&value) {
            return Ok(*register);
        }
        let register = self.register()?;
        self.registers[usize::from(register)] = value;
        self.constants.insert(value, register);
        self.is_constant.insert(register);
        Ok(register)
    }

    /// What a register holds in every run.
    pub(super) fn constant_of(&self, register: Register) -> Option<U256> {
        self.is_constant.contains(&register).then(|| self.registers[usize::from(register)])
    }

    /// Bits that the value of a register has at most.
    pub(super) fn bits(&self, register: Register) -> usize {
        let constant = |register: &Register| self.constant_of(*register);
        match self.what(register) {
            None => constant(&register).map_or(256, |value| value.bit_len()),
            Some(Formula::Origin | Formula::Target | Formula::Beneficiary) => 160,
            Some(Formula::Unary(ISZERO, _) | Formula::Binary(LT..=EQ, ..)) => 1,
            Some(Formula::Binary(AND, a, b)) => {
                let masks = [a, b].into_iter().filter_map(constant);
                masks.map(|mask| mask.bit_len()).min().unwrap_or(256)
            }
            Some(Formula::Binary(SHR, by, _)) => {
                constant(by).and_then(|by| usize::try_from(by).ok()).map_or(256, |by| 256usize.saturating_sub(by))
            }
            Some(_) => 256,
        }
    }

    /// The register of what does not change from one place of the trace to another.
    pub(super) fn formula(&mut self, formula: Formula) -> Result<Register, Limit> {
        if let Some(register) = self.formulas.get(&formula) {
            return Ok(*register);
        }
        if let Formula::Word(pattern) | Formula::Hash(pattern) = &formula {
            self.charge(pattern)?;
        }
        let register = self.register()?;
        self.formulas.insert(formula.clone(), register);
        self.by_register.insert(register, formula.clone());
        self.ops.push(Op::Set(register, formula));
        Ok(register)
    }

    /// Counts a pattern that the trace will have.
    pub(super) fn charge(&mut self, pattern: &Pattern) -> Result<(), Limit> {
        self.bytes += pattern.bytes();
        if self.bytes > MAX_PATTERNS { Err(Limit) } else { Ok(()) }
    }

    /// What a register was computed by, if it is a formula.
    pub(super) fn what(&self, register: Register) -> Option<&Formula> {
        self.by_register.get(&register)
    }

    /// The trace, without what nothing depends on.
    pub(super) fn finish(self, slots: &[Register], events: Vec<Emitted>, end: End) -> Trace {
        let mut needed = vec![false; self.registers.len()];
        {
            let mut need = |register: Register| needed[usize::from(register)] = true;
            slots.iter().copied().for_each(&mut need);
            end.output.each(&mut need);
            for Emitted { address, topics, data } in &events {
                need(*address);
                topics.iter().copied().for_each(&mut need);
                data.each(&mut need);
            }
        }
        let mut kept = Vec::with_capacity(self.ops.len());
        for op in self.ops.into_iter().rev() {
            let mut need = |register: Register| needed[usize::from(register)] = true;
            match &op {
                Op::Set(register, formula) => {
                    if !needed[usize::from(*register)] {
                        continue;
                    }
                    formula.each(&mut |register| needed[usize::from(register)] = true);
                }
                Op::Expect(register, _) => need(*register),
                Op::Account { address, .. } => need(*address),
                Op::Slot { slot, .. } => need(*slot),
                Op::Store { present, value, .. } => {
                    need(*present);
                    need(*value);
                }
                Op::Enter { at_most, .. } => need(*at_most),
                Op::Leave { .. } => {}
            }
            kept.push(op);
        }
        kept.reverse();
        let least = kept.iter().map(|op| match op {
            Op::Store { gas, .. } => gas + LEAST_STORE,
            Op::Enter { gas, .. } | Op::Leave { gas } => *gas,
            _ => 0,
        });
        let least = least.sum::<u64>() + end.gas;
        let (registers, slots) = (Registers::from(self.registers), slots.into());
        Trace { ops: kept.into(), registers, slots, events: events.into(), end, least }
    }
}

impl Pattern {
    fn bytes(&self) -> usize {
        self.fixed.len() + size_of_val(&*self.parts)
    }

    fn each(&self, see: &mut impl FnMut(Register)) {
        self.parts.iter().for_each(|part| see(part.register));
    }

    pub(super) fn len(&self) -> usize {
        self.fixed.len()
    }

    /// Whether the bytes are those of this word, if that can be told without them: they are a register's, or the same in every
    /// call.
    #[inline]
    pub(super) fn is_word(&self, registers: &Registers, word: &U256) -> bool {
        match *self.parts {
            [] => *self.fixed == word.to_be_bytes::<32>(),
            [Part { at: 0, register, from: 0, len: 32 }] => self.fixed.len() == 32 && registers.holds(register, word),
            _ => false,
        }
    }

    /// Adds the bytes to `out`.
    #[inline]
    pub(super) fn write(&self, registers: &Registers, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.fixed);
        for Part { at, register, from, len } in &self.parts {
            let (at, from, len) = (start + usize::from(*at), usize::from(*from), usize::from(*len));
            registers.bytes(*register, from, &mut out[at..at + len]);
        }
    }

    /// The word that 32 such bytes are, where no parts lie on each other.
    #[inline]
    pub(super) fn word(&self, registers: &Registers) -> U256 {
        debug_assert_eq!(self.fixed.len(), 32, "a word");
        let fixed = U256::from_be_slice(&self.fixed);
        self.parts.iter().fold(fixed, |word, Part { at, register, from, len }| {
            let (at, from, len) = (usize::from(*at), usize::from(*from), usize::from(*len));
            word | registers.part(*register, from, len) << (8 * (32 - at - len))
        })
    }
}

impl Formula {
    fn each(&self, see: &mut impl FnMut(Register)) {
        match self {
            Self::Unary(_, a) => see(*a),
            Self::Binary(_, a, b) => {
                see(*a);
                see(*b);
            }
            Self::Ternary(_, all) => all.iter().copied().for_each(see),
            Self::Word(pattern) | Self::Hash(pattern) => pattern.each(see),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng as _, SeedableRng as _, seq::SliceRandom as _};

    #[test]
    fn the_word_of_a_pattern_is_that_of_its_bytes() {
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(11);
        for _ in 0..2000 {
            let registers: Vec<U256> = (0..4).map(|_| U256::from_be_bytes(rng.random::<[u8; 32]>())).collect();
            let mut fixed: [u8; 32] = rng.random();
            let mut parts = Vec::new();
            let mut at = 0usize;
            while at < 32 {
                let len = rng.random_range(1..=32 - at);
                if rng.random() {
                    let from = rng.random_range(0..=32 - len) as u8;
                    parts.push(Part { at: at as u16, register: rng.random_range(0..4), from, len: len as u8 });
                    fixed[at..at + len].fill(0);
                }
                at += len;
            }
            parts.shuffle(&mut rng);
            let (pattern, registers) =
                (Pattern { fixed: fixed.into(), parts: parts.into() }, Registers::from(registers));
            let mut bytes = Vec::new();
            pattern.write(&registers, &mut bytes);
            assert_eq!(pattern.word(&registers), U256::from_be_slice(&bytes), "{pattern:?}");
            let (word, simple) = (pattern.word(&registers), matches!(*pattern.parts, [] | [Part { len: 32, .. }]));
            assert_eq!((pattern.is_word(&registers, &word), pattern.len()), (simple, 32), "{pattern:?}");
            assert!(!pattern.is_word(&registers, &(word ^ U256::ONE << rng.random_range(0..256))), "{pattern:?}");
        }
    }

    #[test]
    fn what_is_longer_or_shorter_than_a_word_is_none() {
        let registers = Registers::from(vec![U256::ONE]);
        for (len, is_word) in [(31, false), (32, true), (33, false), (64, false)] {
            let fixed = |last: u8| -> Box<[u8]> { (0..len).map(|at| if at + 1 == len { last } else { 0 }).collect() };
            let whole = Part { at: 0, register: 0, from: 0, len: 32 };
            let of = |fixed, parts: &[Part]| Pattern { fixed, parts: parts.into() }.is_word(&registers, &U256::ONE);
            assert_eq!(of(fixed(1), &[]), is_word, "{len}");
            if len >= 32 {
                assert_eq!(of(fixed(0), &[whole]), is_word, "{len}");
            }
        }
    }
}
