//! The registers of straight-line code, as templates and traces are run.
//!
//! **Words are read and written limb by limb.** A word that was just computed is still on its way to the cache, in four pieces
//! of eight bytes. A load of sixteen bytes, two of which compilers like to move a word by, finds no single piece that has
//! them all, and waits some fifteen cycles until they have arrived; a load of eight takes what it needs from a piece. Of the
//! time that a swap took to be replayed a third was such waiting.

use crate::operator;
use alloy_primitives::{Address, U256};

/// Where a word is.
pub type Register = u16;

/// Words by number.
#[derive(Clone, Debug, Default)]
pub struct Registers(Vec<U256>);

impl From<Vec<U256>> for Registers {
    /// Keeps no more memory than they need.
    fn from(mut words: Vec<U256>) -> Self {
        words.shrink_to_fit();
        Self(words)
    }
}

impl Registers {
    /// How many there are.
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// One more.
    ///
    /// # Panics
    /// If there are 2^16.
    pub fn push(&mut self, value: U256) -> Register {
        let register = Register::try_from(self.0.len()).expect("fewer than 2^16 registers");
        self.0.push(value);
        register
    }

    /// What a register holds.
    ///
    /// # Panics
    /// If there is no such register, like the others.
    #[inline(always)]
    pub fn get(&self, register: Register) -> U256 {
        load(&self.0[usize::from(register)])
    }

    /// Replaces it.
    #[inline(always)]
    pub fn set(&mut self, register: Register, value: U256) {
        let limbs = limbs(&value);
        #[expect(unsafe_code, reason = "the only way to a single limb")]
        // SAFETY: any limbs are a word of 256 bits.
        let held = unsafe { self.0[usize::from(register)].as_limbs_mut() };
        *held = limbs;
    }

    /// Whether it holds just this.
    #[inline(always)]
    pub fn holds(&self, register: Register, value: &U256) -> bool {
        same(&self.0[usize::from(register)], value)
    }

    /// The address in it, whatever is above its twenty bytes.
    #[inline(always)]
    pub fn address(&self, register: Register) -> Address {
        let mut address = Address::ZERO;
        write(self.get(register), address.as_mut_slice());
        address
    }

    /// Writes `out.len()` of its bytes, from byte `from` on, the highest being byte 0.
    ///
    /// # Panics
    /// If it has not so many.
    #[inline]
    pub fn bytes(&self, register: Register, from: usize, out: &mut [u8]) {
        write(self.part(register, from, out.len()), out);
    }

    /// The number that `len` of its bytes are, from byte `from` on.
    ///
    /// # Panics
    /// If it has not so many.
    #[inline]
    pub fn part(&self, register: Register, from: usize, len: usize) -> U256 {
        let word = self.get(register);
        let below = 32usize.checked_sub(from + len).expect("bytes of one word");
        let word = if below == 0 { word } else { word >> (8 * below) };
        if len == 32 { word } else { word & low_bytes(len) }
    }

    /// Has register `to` hold what `op` makes of another one's word; `None` if it is no such operator.
    #[inline(always)]
    pub fn unary(&mut self, to: Register, op: u8, a: Register) -> Option<()> {
        let value = operator::unary(op, &self.0[usize::from(a)])?;
        self.set(to, value);
        Some(())
    }

    /// The same of two words, `a` the upper one on a stack.
    #[inline(always)]
    pub fn binary(&mut self, to: Register, op: u8, a: Register, b: Register) -> Option<()> {
        let value = operator::binary(op, &self.0[usize::from(a)], &self.0[usize::from(b)])?;
        self.set(to, value);
        Some(())
    }
}

/// A number of so many bytes, all ones.
#[inline]
fn low_bytes(len: usize) -> U256 {
    U256::MAX >> (256 - 8 * len)
}

/// The lowest bytes of a word, as many as there is room for.
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

/// The word, loaded as it was stored.
#[inline(always)]
pub(crate) fn load(word: &U256) -> U256 {
    U256::from_limbs(limbs(word))
}

/// Whether two words are the same.
#[inline(always)]
pub(crate) fn same(a: &U256, b: &U256) -> bool {
    let [a, b] = [limbs(a), limbs(b)];
    (a[0] ^ b[0]) | (a[1] ^ b[1]) | (a[2] ^ b[2]) | (a[3] ^ b[3]) == 0
}

#[inline(always)]
#[expect(unsafe_code, reason = "the compiler is kept from joining the loads")]
fn limbs(word: &U256) -> [u64; 4] {
    // SAFETY: they are references.
    word.as_limbs().each_ref().map(|limb| unsafe { core::ptr::read_volatile(limb) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng as _, SeedableRng as _};
    use revm::bytecode::opcode::{ADD, ISZERO, KECCAK256};

    #[test]
    fn parts_are_those_of_the_bytes() {
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
    fn a_register_holds_what_it_was_given_last() {
        let mut registers = Registers::from(vec![U256::MAX, U256::ONE, U256::from(3)]);
        assert_eq!(registers.binary(2, ADD, 0, 1), Some(()));
        assert!(registers.holds(2, &U256::ZERO) && !registers.holds(2, &(U256::ONE << 200)));
        assert_eq!(registers.unary(2, ISZERO, 2), Some(()));
        assert_eq!((registers.get(2), registers.len()), (U256::ONE, 3));
        // What is no operator changes nothing.
        assert_eq!((registers.binary(0, KECCAK256, 0, 1), registers.unary(0, ADD, 0)), (None, None));
        assert_eq!(registers.get(0), U256::MAX);
    }
}
