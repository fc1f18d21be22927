//! The kind of consensus, and the role of the node.

use phalanx_engine_api::{Limits, TxPolicy};
use std::sync::Arc;

/// Schedule of the stages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// Stages follow each other (Zaptos, Algorithm 1).
    Baseline,
    /// Stages begin as early as is safe (Zaptos, Algorithm 2).
    #[default]
    Optimistic,
}

/// Promise of the protocol's last vote: with f+1 honest votes the block will be ordered (Zaptos, Corollary 4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderVote {
    /// The vote promises the order: PBFT's commit, Tendermint's precommit, Simplex's finalize. State votes may leave
    /// with it.
    Distinct,
    /// The vote promises nothing, or a fast path skips it. State votes wait for the order.
    None,
}

/// Condition under which a state is final.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateRule {
    /// A quorum of state votes.
    Certified,
    /// The order alone: the chain compares roots elsewhere, or not at all.
    Ordered,
}

/// Validators with their stakes, and the quorum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committee {
    weights: Arc<[u64]>,
    quorum: u64,
}

impl Committee {
    /// `n` equal validators and the smallest quorum such that any two share an honest one: `n - (n - 1) / 3`.
    #[must_use]
    pub fn equal(n: u32) -> Self {
        Self::weighted(vec![1; n as usize])
    }

    /// Committee of validators with stakes; a quorum is more than two thirds of the stake.
    #[must_use]
    pub fn weighted(weights: Vec<u64>) -> Self {
        let total: u64 = weights.iter().sum();
        Self { quorum: total - total.saturating_sub(1) / 3, weights: weights.into() }
    }

    /// Stake of a validator; zero for an index outside the committee.
    #[must_use]
    pub fn weight(&self, index: u32) -> u64 {
        self.weights.get(index as usize).copied().unwrap_or(0)
    }

    /// Smallest stake that decides.
    #[must_use]
    pub const fn quorum(&self) -> u64 {
        self.quorum
    }

    /// Number of validators.
    #[must_use]
    pub fn len(&self) -> usize {
        self.weights.len()
    }

    /// True if the committee has no validators.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.weights.is_empty()
    }
}

/// Role of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Votes on states.
    Validator,
    /// Executes what validators forward, and commits what they certify.
    Fullnode,
}

/// Distance by which execution may lag behind the order, in heights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Consensus should stop voting beyond this distance. Aptos: 7.
    pub vote: u64,
    /// Consensus should stop delivering beyond this distance. Aptos: 20.
    pub admit: u64,
}

/// A pipeline's configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Schedule of the stages.
    pub mode: Mode,
    /// Role of the node.
    pub role: Role,
    /// Validators with a state vote.
    pub committee: Committee,
    /// Promise of the protocol's last vote.
    pub order_vote: OrderVote,
    /// Condition under which a state is final.
    pub rule: StateRule,
    /// Treatment of invalid transactions.
    pub policy: TxPolicy,
    /// Bounds of speculation; at most the engine's own.
    pub limits: Limits,
    /// Thresholds of back-pressure.
    pub window: Window,
    /// Delay before a temporary failure is tried again, in µs.
    pub retry_us: u64,
}

impl Config {
    /// A validator of `committee` with optimistic stages, certificates and the limits of [`Limits::default`].
    #[must_use]
    pub fn validator(committee: Committee) -> Self {
        Self {
            mode: Mode::Optimistic,
            role: Role::Validator,
            committee,
            order_vote: OrderVote::Distinct,
            rule: StateRule::Certified,
            policy: TxPolicy::SkipInvalid,
            limits: Limits::default(),
            window: Window { vote: 7, admit: 20 },
            retry_us: 100_000,
        }
    }

    /// A fullnode that follows `committee`.
    #[must_use]
    pub fn fullnode(committee: Committee) -> Self {
        Self { role: Role::Fullnode, ..Self::validator(committee) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quorums_overlap_in_an_honest_validator() {
        for n in 1..200u32 {
            let faulty = u64::from((n - 1) / 3);
            let quorum = Committee::equal(n).quorum();
            assert!(2 * quorum > u64::from(n) + faulty, "n = {n}: two quorums may share only faulty ones");
            assert!(quorum <= u64::from(n) - faulty, "n = {n}: the honest alone are no quorum");
        }
    }
}
