//! Straight-line programs: formulas in the order in which they are computed, with neither stack nor jumps.
//!
//! A program is made for one path through code. An expectation says where another call would leave that path. The value of each
//! formula is in the register of its index. Lines of templates and traces are programs; each adds operations of its own.

use crate::{
    expr::{Env, Node, Piece, Ref},
    operator::ternary,
    registers::{Register, Registers},
};
use alloy_primitives::{Address, U256, keccak256};
use revm::{
    context::{BlockEnv, TxEnv},
    context_interface::Transaction as _,
};

/// An operation; `E` are those of one kind of program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op<E> {
    /// Computes a formula.
    Set(Ref, Node),
    /// Ends the run, on another path, if the register holds anything else.
    Expect(Register, U256),
    /// Anything else.
    Effect(E),
}

/// A transaction that a program runs for.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'a> {
    /// The transaction.
    pub tx: &'a TxEnv,
    /// The account that the transaction calls.
    pub to: Address,
    /// The block's environment.
    pub block: &'a BlockEnv,
}

/// Inputs of formulas, besides registers.
pub trait Inputs {
    /// The transaction and its block.
    fn scope(&self) -> &Scope<'_>;
    /// Keccak-256 of `bytes`.
    #[inline]
    fn hash(&self, bytes: &[u8]) -> U256 {
        keccak256(bytes).into()
    }
    /// The value of a slot before the transaction; `None` if it cannot be told.
    fn load(&self, of: Address, slot: U256) -> Option<U256>;
}

impl Env {
    /// Returns the value for a transaction of a block.
    #[inline]
    pub fn of(self, block: &BlockEnv, tx: &TxEnv) -> U256 {
        match self {
            Self::Beneficiary => block.beneficiary.into_word().into(),
            Self::Timestamp => block.timestamp,
            Self::Number => block.number,
            Self::PrevRandao => block.prevrandao.map_or(block.difficulty, Into::into),
            Self::GasLimit => U256::from(block.gas_limit),
            Self::BaseFee => U256::from(block.basefee),
            Self::GasPrice => U256::from(tx.effective_gas_price(u128::from(block.basefee))),
        }
    }
}

impl Node {
    /// Computes the formula of register `to`, over a transaction's inputs. `bytes` is scratch memory. `None` if there is no
    /// value: calldata ends before, a slot cannot be read, or only frames by themselves have such formulas.
    #[inline(always)]
    pub fn run(
        &self,
        to: Register,
        registers: &mut Registers,
        inputs: &impl Inputs,
        bytes: &mut Vec<u8>,
    ) -> Option<()> {
        match self {
            Self::Binary(op, a, b) => registers.binary(to, *op, *a, *b),
            Self::Unary(op, a) => registers.unary(to, *op, *a),
            _ => {
                let value = self.compute(registers, inputs, bytes)?;
                registers.set(to, value);
                Some(())
            }
        }
    }

    #[inline]
    fn compute(&self, registers: &Registers, inputs: &impl Inputs, bytes: &mut Vec<u8>) -> Option<U256> {
        let Scope { tx, to, block } = *inputs.scope();
        Some(match self {
            Self::Origin => tx.caller.into_word().into(),
            Self::Target => to.into_word().into(),
            Self::Env(env) => env.of(block, tx),
            Self::Input(at) => {
                let rest = tx.data.get(usize::try_from(registers.get(*at)).ok()?..)?;
                match rest.first_chunk::<32>() {
                    Some(word) => U256::from_be_bytes(*word),
                    None => {
                        let mut word = [0; 32];
                        word[..rest.len()].copy_from_slice(rest);
                        U256::from_be_bytes(word)
                    }
                }
            }
            Self::Ternary(op, words) => {
                let [a, b, c] = words.map(|register| registers.get(register));
                ternary(*op, a, b, c)?
            }
            Self::Word(region) => registers.word(region),
            Self::Keccak(region) => {
                bytes.clear();
                registers.write(region, bytes);
                inputs.hash(bytes)
            }
            Self::Load(of, slot) => inputs.load(registers.address(*of), registers.get(*slot))?,
            _ => return None,
        })
    }
}

/// Regions of constants and words; other pieces have no bytes here.
impl Registers {
    /// True if the bytes are those of `word`, as far as that can be told without them: they are a register's, or constant.
    #[inline]
    pub fn is_word(&self, region: &[Piece], word: &U256) -> bool {
        match region {
            [Piece::Raw(bytes)] => bytes[..] == word.to_be_bytes::<32>(),
            [Piece::Word { node, from: 0, len: 32 }] => self.holds(*node, word),
            _ => false,
        }
    }

    /// Appends the bytes of a region to `out`.
    #[inline]
    pub fn write(&self, region: &[Piece], out: &mut Vec<u8>) {
        for piece in region {
            match piece {
                Piece::Raw(bytes) => out.extend_from_slice(bytes),
                Piece::Word { node, from, len } => {
                    let start = out.len();
                    out.resize(start + usize::from(*len), 0);
                    self.bytes(*node, usize::from(*from), &mut out[start..]);
                }
                _ => debug_assert!(false, "a frame by itself"),
            }
        }
    }

    /// Returns the word that the 32 bytes of a region are.
    #[inline]
    pub fn word(&self, region: &[Piece]) -> U256 {
        let (mut word, mut end) = (U256::ZERO, 32);
        for piece in region {
            end -= piece.len();
            let part = match piece {
                Piece::Raw(bytes) => U256::from_be_slice(bytes),
                Piece::Word { node, from, len } => self.part(*node, usize::from(*from), usize::from(*len)),
                _ => U256::ZERO,
            };
            word |= part << (8 * end);
        }
        word
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expr::{append, region_len};
    use rand::{Rng as _, SeedableRng as _};

    #[test]
    fn the_word_of_a_region_is_that_of_its_bytes() {
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(11);
        for _ in 0..2000 {
            let registers: Vec<U256> = (0..4).map(|_| U256::from_be_bytes(rng.random::<[u8; 32]>())).collect();
            let registers = Registers::from(registers);
            let mut region = Vec::new();
            while region_len(&region) < 32 {
                let len = rng.random_range(1..=32 - region_len(&region));
                let piece = if rng.random() {
                    let from = rng.random_range(0..=32 - len) as u8;
                    Piece::Word { node: rng.random_range(0..4), from, len: len as u8 }
                } else {
                    Piece::Raw((0..len).map(|_| rng.random::<u8>()).collect())
                };
                append(&mut region, piece);
            }
            let mut bytes = Vec::new();
            registers.write(&region, &mut bytes);
            let word = registers.word(&region);
            assert_eq!((word, bytes.len()), (U256::from_be_slice(&bytes), 32), "{region:?}");
            assert_eq!(registers.is_word(&region, &word), region.len() == 1, "{region:?}");
            assert!(!registers.is_word(&region, &(word ^ U256::ONE << rng.random_range(0..256))), "{region:?}");
        }
    }

    #[test]
    fn what_is_longer_or_shorter_than_a_word_is_none() {
        let registers = Registers::from(vec![U256::ONE]);
        for (len, is_word) in [(31, false), (32, true), (33, false), (64, false)] {
            let constant: Vec<u8> = (0..len).map(|at| u8::from(at + 1 == len)).collect();
            assert_eq!(registers.is_word(&[Piece::Raw(constant.into())], &U256::ONE), is_word, "{len}");
            let word = Piece::Word { node: 0, from: 0, len: 32 };
            let region = [word, Piece::Raw(vec![0; len].into())];
            assert!(!registers.is_word(&region, &U256::ONE), "{len}");
        }
    }
}
