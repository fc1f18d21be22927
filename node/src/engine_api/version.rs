//! Forks that the Engine API has structures and methods for.

use phalanx::{chain::ChainSpec, revm::primitives::hardfork::SpecId};

/// Fork of a payload, by its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Version {
    Paris,
    Shanghai,
    Cancun,
    Prague,
    Osaka,
    Amsterdam,
}

impl Version {
    /// Fork of a payload at a time, in seconds since 1970.
    pub(crate) fn at(chain: &ChainSpec, timestamp: u64) -> Self {
        // Forks behind the merge follow times alone.
        let spec = chain.spec_at(u64::MAX, timestamp, true);
        let forks = [
            (SpecId::AMSTERDAM, Self::Amsterdam),
            (SpecId::OSAKA, Self::Osaka),
            (SpecId::PRAGUE, Self::Prague),
            (SpecId::CANCUN, Self::Cancun),
            (SpecId::SHANGHAI, Self::Shanghai),
        ];
        forks.into_iter().find(|(since, _)| spec.is_enabled_in(*since)).map_or(Self::Paris, |(_, version)| version)
    }
}
