//! Replicas, sets of them, and quorums.

use alloy_rlp::{RlpDecodableWrapper, RlpEncodableWrapper};
use core::fmt;

/// Maximum number of replicas of one instance.
pub const MAX_REPLICAS: usize = 256;

/// Number of a replica, from zero.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, RlpEncodableWrapper, RlpDecodableWrapper,
)]
pub struct Index(pub u16);

impl fmt::Display for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "replica {}", self.0)
    }
}

/// A set of replicas: 256 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReplicaSet([u64; MAX_REPLICAS / 64]);

impl ReplicaSet {
    /// Adds a replica. Returns true if it is new, false if it is a member or not below [`MAX_REPLICAS`].
    pub fn insert(&mut self, index: Index) -> bool {
        let Some(word) = self.0.get_mut(usize::from(index.0) / 64) else { return false };
        let bit = 1 << (index.0 % 64);
        let new = *word & bit == 0;
        *word |= bit;
        new
    }

    /// Removes a replica. Returns true if it was a member.
    pub fn remove(&mut self, index: Index) -> bool {
        let Some(word) = self.0.get_mut(usize::from(index.0) / 64) else { return false };
        let bit = 1 << (index.0 % 64);
        let was = *word & bit != 0;
        *word &= !bit;
        was
    }

    /// Returns true if the replica is a member.
    #[must_use]
    pub fn contains(&self, index: Index) -> bool {
        self.0.get(usize::from(index.0) / 64).is_some_and(|word| word >> (index.0 % 64) & 1 == 1)
    }

    /// Number of members.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Returns true if there is no member.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0 == [0; MAX_REPLICAS / 64]
    }

    /// Members in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = Index> + '_ {
        (0..MAX_REPLICAS as u16).map(Index).filter(|index| self.contains(*index))
    }
}

impl FromIterator<Index> for ReplicaSet {
    fn from_iter<I: IntoIterator<Item = Index>>(indices: I) -> Self {
        let mut set = Self::default();
        for index in indices {
            set.insert(index);
        }
        set
    }
}

/// Sizes of the sets of replicas that a protocol counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Quorums {
    n: u16,
    f: u16,
}

impl Quorums {
    /// Quorums of `n` replicas of which at most `f` are faulty.
    ///
    /// # Errors
    /// Fails if `n` is below 3f+1 or above [`MAX_REPLICAS`].
    pub const fn new(n: usize, f: usize) -> Result<Self, QuorumError> {
        if n > MAX_REPLICAS {
            return Err(QuorumError::TooMany { n });
        }
        if n < 3 * f + 1 {
            return Err(QuorumError::TooFew { n, f });
        }
        Ok(Self { n: n as u16, f: f as u16 })
    }

    /// Number of replicas.
    #[must_use]
    pub const fn n(self) -> usize {
        self.n as usize
    }

    /// Maximum number of faulty replicas.
    #[must_use]
    pub const fn f(self) -> usize {
        self.f as usize
    }

    /// Smallest set of which any two share a correct replica: ⌈(n+f+1)/2⌉. It is 2f+1 only if n = 3f+1.
    #[must_use]
    pub const fn quorum(self) -> usize {
        (self.n as usize + self.f as usize + 1).div_ceil(2)
    }

    /// Smallest set with a correct replica: f+1.
    #[must_use]
    pub const fn one_correct(self) -> usize {
        self.f as usize + 1
    }

    /// Largest set that a replica can wait for: n-f.
    #[must_use]
    pub const fn available(self) -> usize {
        self.n as usize - self.f as usize
    }

    /// All replicas, in ascending order.
    pub fn replicas(self) -> impl DoubleEndedIterator<Item = Index> + ExactSizeIterator {
        (0..self.n).map(Index)
    }
}

/// Numbers of replicas that no protocol can run with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum QuorumError {
    /// More than [`MAX_REPLICAS`].
    TooMany {
        /// Replicas asked for.
        n: usize,
    },
    /// Fewer than 3f+1.
    TooFew {
        /// Replicas asked for.
        n: usize,
        /// Faulty replicas asked for.
        f: usize,
    },
}

impl fmt::Display for QuorumError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMany { n } => write!(out, "{n} replicas are too many: the maximum is {MAX_REPLICAS}"),
            Self::TooFew { n, f } => {
                write!(
                    out,
                    "{n} replicas tolerate {} faulty ones, not {f}: use at least {}",
                    (n.max(&1) - 1) / 3,
                    3 * f + 1
                )
            }
        }
    }
}

impl core::error::Error for QuorumError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_quorums_share_a_correct_replica_and_correct_replicas_form_one() {
        for n in 1..=MAX_REPLICAS {
            for f in 0..=(n - 1) / 3 {
                let quorums = Quorums::new(n, f).unwrap();
                assert!(2 * quorums.quorum() > n + f, "n = {n}, f = {f}");
                assert!(2 * (quorums.quorum() - 1) <= n + f, "n = {n}, f = {f}: a smaller quorum would do");
                assert!(quorums.quorum() <= quorums.available(), "n = {n}, f = {f}");
                if n == 3 * f + 1 {
                    assert_eq!(quorums.quorum(), 2 * f + 1);
                }
            }
        }
        assert_eq!(Quorums::new(3, 1), Err(QuorumError::TooFew { n: 3, f: 1 }));
        assert_eq!(Quorums::new(257, 1), Err(QuorumError::TooMany { n: 257 }));
    }

    #[test]
    fn a_set_holds_all_256_replicas_and_none_beyond() {
        let mut set = ReplicaSet::default();
        for index in 0..=300 {
            assert_eq!(set.insert(Index(index)), index < 256);
            assert!(!set.insert(Index(index)));
        }
        assert_eq!(set.len(), 256);
        assert_eq!(set.iter().count(), 256);
        assert!(set.remove(Index(255)) && !set.contains(Index(255)) && !set.remove(Index(300)));
    }
}
