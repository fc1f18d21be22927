//! Odd multiples of the generator, computed once per process.

use crate::{
    lanes::Row,
    scalar::{GENERATOR_WINDOW, HALF},
};
use secp256k1::{PublicKey, SECP256K1, SecretKey};
use std::sync::OnceLock;

/// Number of odd multiples below 2^[`GENERATOR_WINDOW`].
pub(crate) const MULTIPLES: usize = 1 << (GENERATOR_WINDOW - 1);

/// Row i holds the multiple 2 i + 1.
type Table = [Row; MULTIPLES];

/// Odd multiples of the generator, and of the generator times 2^[`HALF`].
#[derive(Debug)]
pub(crate) struct Generator(Box<[Table; 2]>);

impl Generator {
    /// The tables: 64 KiB, which take some milliseconds to compute on the first call.
    pub(crate) fn get() -> &'static Self {
        static TABLES: OnceLock<Generator> = OnceLock::new();
        TABLES.get_or_init(Self::new)
    }

    #[inline(always)]
    pub(crate) fn half(&self, half: usize) -> &Table {
        &self.0[half]
    }

    fn new() -> Self {
        let mut tables = Box::new([[Row([0; 8]); MULTIPLES]; 2]);
        for (half, table) in tables.iter_mut().enumerate() {
            let mut point = power_of_two(half * HALF);
            let step = power_of_two(half * HALF + 1);
            for row in table {
                *row = coordinates(&point);
                point = point.combine(&step).expect("multiples below the order");
            }
        }
        Self(tables)
    }
}

/// The generator times 2^`exponent`.
fn power_of_two(exponent: usize) -> PublicKey {
    let mut factor = [0; 32];
    factor[31 - exponent / 8] = 1 << (exponent % 8);
    let factor = SecretKey::from_slice(&factor).expect("below the order");
    PublicKey::from_secret_key(SECP256K1, &factor)
}

/// x and y of a point, little-endian words.
pub(crate) fn coordinates(point: &PublicKey) -> Row {
    let bytes = point.serialize_uncompressed();
    let (words, _) = bytes[1..].as_chunks::<8>();
    let mut row = Row([0; 8]);
    for half in 0..2 {
        for word in 0..4 {
            row.0[4 * half + word] = u64::from_be_bytes(words[4 * half + 3 - word]);
        }
    }
    row
}
