//! What kind of consensus, what kind of node.

use phalanx_engine_api::{Limits, TxPolicy};
use std::sync::Arc;

/// When stages run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// One after the other (Zaptos, Algorithm 1).
    Baseline,
    /// As early as is safe (Zaptos, Algorithm 2).
    #[default]
    Optimistic,
}

/// Whether the protocol's last vote promises, with f+1 honest ones, that the block will be ordered (Zaptos, Corollary 4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderVote {
    /// It does: PBFT's commit, Tendermint's precommit, Simplex's finalize. State votes may leave with it.
    Distinct,
    /// It does not, or a fast path skips it. State votes wait for the order.
    None,
}

/// What makes a state final.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateRule {
    /// A quorum of state votes.
    Certified,
    /// The order alone: the chain compares roots elsewhere, or not at all.
    Ordered,
}

/// Who may vote, and how much it takes.
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

    /// Validators with stakes, more than two thirds of which are a quorum.
    #[must_use]
    pub fn weighted(weights: Vec<u64>) -> Self {
        let total: u64 = weights.iter().sum();
        Self { quorum: total - total.saturating_sub(1) / 3, weights: weights.into() }
    }

    /// The stake of a validator, zero for a stranger.
    #[must_use]
    pub fn weight(&self, index: u32) -> u64 {
        self.weights.get(index as usize).copied().unwrap_or(0)
    }

    /// What it takes.
    #[must_use]
    pub const fn quorum(&self) -> u64 {
        self.quorum
    }

    /// Validators.
    #[must_use]
    pub fn len(&self) -> usize {
        self.weights.len()
    }

    /// Whether there is nobody.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.weights.is_empty()
    }
}

/// What a node does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Votes on states.
    Validator,
    /// Executes what validators forward, and commits what they certify.
    Fullnode,
}

/// How far execution may be behind the order, in heights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Beyond it, consensus should stop voting. Aptos: 7.
    pub vote: u64,
    /// Beyond it, consensus should stop delivering. Aptos: 20.
    pub admit: u64,
}

/// A pipeline's configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// When stages run.
    pub mode: Mode,
    /// What the node does.
    pub role: Role,
    /// Whose state votes count.
    pub committee: Committee,
    /// What the last vote promises.
    pub order_vote: OrderVote,
    /// What makes a state final.
    pub rule: StateRule,
    /// What invalid transactions do.
    pub policy: TxPolicy,
    /// Bounds of speculation; at most the engine's own.
    pub limits: Limits,
    /// When to push back.
    pub window: Window,
    /// When what failed for the moment is tried again, µs.
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
