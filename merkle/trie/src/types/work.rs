//! Counts of what an update hashed.

use core::ops::AddAssign;

/// Number of nodes that an update hashed, and of Keccak permutations that this took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Leaves of accounts and slots.
    pub leaves: u64,
    /// Branches.
    pub branches: u64,
    /// Extensions.
    pub extensions: u64,
    /// Permutations of Keccak-f\[1600\], one per 136 bytes of a node begun. Hashing of keys is not among them.
    pub permutations: u64,
}

impl AddAssign for Work {
    fn add_assign(&mut self, other: Self) {
        self.leaves += other.leaves;
        self.branches += other.branches;
        self.extensions += other.extensions;
        self.permutations += other.permutations;
    }
}
