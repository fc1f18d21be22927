//! Digests that validators have voted for, by block.
//!
//! ABCI names no round in a vote extension, so a vote says nothing about an undecided block: votes of different rounds must
//! not be added up there. They are counted for a block that is decided, and for no other; even then they only warn, since
//! CometBFT passes on an extension before it has checked the address of its vote.

use alloy_primitives::{Address, B256};
use std::collections::BTreeMap;

/// Maximum number of blocks of a height whose votes are kept: rounds beyond it are rare, and their votes only warn.
const BLOCKS: usize = 16;

/// Maximum number of votes for a block.
const VOTERS: usize = 1024;

/// Digest with more than two thirds of the power.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Majority {
    pub(crate) digest: B256,
    pub(crate) power: u64,
    pub(crate) total: u64,
}

/// Votes for the blocks of one height.
#[derive(Clone, Debug, Default)]
pub(crate) struct Votes(BTreeMap<B256, BTreeMap<Address, B256>>);

impl Votes {
    /// Notes a vote. A later one of the same validator for the same block replaces it.
    pub(crate) fn note(&mut self, block: B256, voter: Address, digest: B256) {
        if self.0.len() >= BLOCKS && !self.0.contains_key(&block) {
            return;
        }
        let votes = self.0.entry(block).or_default();
        if votes.len() < VOTERS || votes.contains_key(&voter) {
            votes.insert(voter, digest);
        }
    }

    /// Votes for a block.
    pub(crate) fn of(&self, block: &B256) -> impl Iterator<Item = (Address, B256)> {
        self.0.get(block).into_iter().flatten().map(|(voter, digest)| (*voter, *digest))
    }

    /// Digest of a decided block that more than two thirds of the power vote for.
    pub(crate) fn majority(&self, block: &B256, powers: &[(Address, u64)]) -> Option<Majority> {
        let votes = self.0.get(block)?;
        majority(powers.iter().map(|(voter, power)| (*power, votes.get(voter).copied())))
    }
}

/// Digest with more than two thirds of the power of all votes, among them those for none.
pub(crate) fn majority(votes: impl Iterator<Item = (u64, Option<B256>)>) -> Option<Majority> {
    let (mut total, mut powers) = (0_u64, BTreeMap::<B256, u64>::new());
    for (power, digest) in votes {
        total = total.saturating_add(power);
        if let Some(digest) = digest {
            let sum = powers.entry(digest).or_default();
            *sum = sum.saturating_add(power);
        }
    }
    let is_enough = |power: u64| u128::from(power) * 3 > u128::from(total) * 2;
    let (digest, power) = powers.into_iter().find(|(_, power)| is_enough(*power))?;
    Some(Majority { digest, power, total })
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn digest(byte: u8) -> B256 {
        B256::with_last_byte(byte)
    }

    #[test]
    fn more_than_two_thirds_are_needed() {
        let votes = |powers: [u64; 4]| {
            let votes = [Some(digest(1)), Some(digest(1)), Some(digest(1)), None];
            majority(powers.into_iter().zip(votes)).map(|majority| majority.digest)
        };
        assert_eq!(votes([1, 1, 1, 1]), Some(digest(1)));
        assert_eq!(votes([1, 1, 2, 2]), None, "exactly two thirds");
        assert_eq!(votes([1, 1, 0, 1]), None);
        assert_eq!(votes([u64::MAX; 4]), Some(digest(1)), "no overflow");
        assert_eq!(majority(core::iter::empty()), None);
    }

    #[test]
    fn votes_for_different_blocks_are_not_added_up() {
        let mut votes = Votes::default();
        let voters: Vec<_> = (1..=4).map(Address::with_last_byte).collect();
        let powers: Vec<_> = voters.iter().map(|voter| (*voter, 1)).collect();
        for (voter, block) in voters.iter().zip([7, 7, 8, 8]) {
            votes.note(digest(block), *voter, digest(1));
        }
        assert_eq!(votes.majority(&digest(7), &powers), None);
        votes.note(digest(7), voters[2], digest(1));
        assert_eq!(votes.majority(&digest(7), &powers).map(|majority| majority.power), Some(3));
        votes.note(digest(7), voters[2], digest(2));
        assert_eq!(votes.majority(&digest(7), &powers), None, "the newest vote of a validator counts");
    }

    #[test]
    fn memory_is_bounded() {
        let mut votes = Votes::default();
        let number = |number: usize| B256::from(alloy_primitives::U256::from(number));
        for block in 0..4 * BLOCKS {
            votes.note(number(block), Address::ZERO, digest(1));
        }
        for voter in 0..2 * VOTERS {
            votes.note(number(0), Address::from_word(number(voter)), digest(1));
        }
        assert_eq!(votes.0.len(), BLOCKS);
        assert_eq!(votes.of(&number(0)).count(), VOTERS);
    }
}
