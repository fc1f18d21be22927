//! Registers of straight-line code, in which templates and traces run. Words are read and written limb by limb, for the reason
//! that `word.rs` gives.

use crate::{
    operator,
    word::{limbs, load, same},
};
use alloy_primitives::{Address, U256};

/// Index of a register.
pub type Register = u32;

/// Words, by [`Register`].
#[derive(Clone, Debug, Default)]
pub struct Registers(Vec<U256>);

impl From<Vec<U256>> for Registers {
    /// Keeps no spare memory.
    fn from(mut words: Vec<U256>) -> Self {
        words.shrink_to_fit();
        Self(words)
    }
}

impl Registers {
    /// Number of registers.
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if there is no register.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the word of a register.
    ///
    /// # Panics
    /// If there is no such register; so do the functions below.
    #[inline(always)]
    pub fn get(&self, register: Register) -> U256 {
        load(&self.0[register as usize])
    }

    /// Replaces the word of a register.
    #[inline(always)]
    pub fn set(&mut self, register: Register, value: U256) {
        let limbs = limbs(&value);
        #[expect(unsafe_code, reason = "the only way to a single limb")]
        // SAFETY: any four limbs are a word of 256 bits.
        let held = unsafe { self.0[register as usize].as_limbs_mut() };
        *held = limbs;
    }

    /// Returns true if a register holds `value`.
    #[inline(always)]
    pub fn holds(&self, register: Register, value: &U256) -> bool {
        same(&self.0[register as usize], value)
    }

    /// Returns the lower twenty bytes of a register as an address.
    #[inline(always)]
    pub fn address(&self, register: Register) -> Address {
        let mut address = Address::ZERO;
        write(self.get(register), address.as_mut_slice());
        address
    }

    /// Copies bytes of a register to `out`, from byte `from` on. The highest is byte 0.
    ///
    /// # Panics
    /// If the bytes exceed the word.
    #[inline]
    pub fn bytes(&self, register: Register, from: usize, out: &mut [u8]) {
        write(self.part(register, from, out.len()), out);
    }

    /// Returns `len` bytes of a register, from byte `from` on, as a number.
    ///
    /// # Panics
    /// If the bytes exceed the word.
    #[inline]
    pub fn part(&self, register: Register, from: usize, len: usize) -> U256 {
        let word = self.get(register);
        let below = 32usize.checked_sub(from + len).expect("bytes of one word");
        let word = if below == 0 { word } else { word >> (8 * below) };
        if len == 32 { word } else { word & low_bytes(len) }
    }

    /// Sets register `to` to the result of `op` on register `a`. Returns [`None`] if `op` is no unary operator.
    #[inline(always)]
    pub fn unary(&mut self, to: Register, op: u8, a: Register) -> Option<()> {
        let value = operator::unary(op, &self.0[a as usize])?;
        self.set(to, value);
        Some(())
    }

    /// Sets register `to` to the result of `op` on registers `a`, the top of the stack, and `b`. Returns [`None`] if `op` is no
    /// binary operator.
    #[inline(always)]
    pub fn binary(&mut self, to: Register, op: u8, a: Register, b: Register) -> Option<()> {
        let value = operator::binary(op, &self.0[a as usize], &self.0[b as usize])?;
        self.set(to, value);
        Some(())
    }
}

/// Mask of the lowest `len` bytes.
#[inline]
fn low_bytes(len: usize) -> U256 {
    U256::MAX >> (256 - 8 * len)
}

/// Writes the lowest bytes of a word, as many as `out` holds.
#[inline]
fn write(word: U256, out: &mut [u8]) {
    let mut end = out.len();
    for limb in limbs(&word) {
        let bytes = limb.to_be_bytes();
        match out[..end].last_chunk_mut::<8>() {
            Some(last) => *last = bytes,
            None => {
                out[..end].iter_mut().zip(&bytes[8 - end..]).for_each(|(out, byte)| *out = *byte);
                return;
            }
        }
        end -= 8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng as _, SeedableRng as _};
    use revm::bytecode::opcode::{ADD, ISZERO, KECCAK256};

    #[test]
    fn parts_equal_the_bytes_of_the_word() {
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(7);
        for _ in 0..2000 {
            let word: [u8; 32] = rng.random();
            let registers = Registers::from(vec![U256::from_be_bytes(word)]);
            let from = rng.random_range(0..=32);
            let len = rng.random_range(0..=32 - from);
            let mut out = vec![0xaa; len];
            registers.bytes(0, from, &mut out);
            assert_eq!(out, word[from..from + len], "{from}, {len}");
            assert_eq!(registers.part(0, from, len), U256::from_be_slice(&out), "{from}, {len}");
            assert_eq!(registers.address(0).as_slice(), &word[12..]);
        }
    }

    #[test]
    fn a_register_holds_the_last_result() {
        let mut registers = Registers::from(vec![U256::MAX, U256::ONE, U256::from(3)]);
        assert_eq!(registers.binary(2, ADD, 0, 1), Some(()));
        assert!(registers.holds(2, &U256::ZERO) && !registers.holds(2, &(U256::ONE << 200)));
        assert_eq!(registers.unary(2, ISZERO, 2), Some(()));
        assert_eq!((registers.get(2), registers.len()), (U256::ONE, 3));
        // An opcode that is no operator changes nothing.
        assert_eq!((registers.binary(0, KECCAK256, 0, 1), registers.unary(0, ADD, 0)), (None, None));
        assert_eq!(registers.get(0), U256::MAX);
    }
}
