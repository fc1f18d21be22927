//! Shares of the kinds of transactions, and their parsing.

use core::{fmt, str::FromStr};

use crate::{config::ConfigError, rng::Rng};

/// Composition of a [`Mixed`](crate::Mixed) load: each kind's share, in parts of the sum.
///
/// ```
/// use phalanx_workloads::Mix;
///
/// let mix: Mix = "erc20=3,swap=1".parse()?;
/// assert_eq!(mix, Mix { erc20: 3, swap: 1, ..Mix::NONE });
/// assert_eq!(mix.to_string(), "native=0,erc20=3,swap=1,approve=0,create=0,revert=0");
/// # Ok::<(), phalanx_workloads::MixError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mix {
    /// Transfers of ether.
    pub native: u32,
    /// Transfers of a token.
    pub erc20: u32,
    /// Swaps in a pool.
    pub swap: u32,
    /// Approvals of another account.
    pub approve: u32,
    /// Deployments of a token.
    pub create: u32,
    /// Transactions built to fail: a third each overdraw a balance, miss a deadline, and demand too much of a pool.
    pub revert: u32,
}

/// A kind of a [`Mix`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Native,
    Erc20,
    Swap,
    Approve,
    Create,
    Revert,
}

const NAMED: [(&str, Kind); 6] = [
    ("native", Kind::Native),
    ("erc20", Kind::Erc20),
    ("swap", Kind::Swap),
    ("approve", Kind::Approve),
    ("create", Kind::Create),
    ("revert", Kind::Revert),
];

/// Words that describe no [`Mix`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MixError {
    /// A part is not `kind=share` with a whole number.
    #[error("{0:?} is not KIND=SHARE with a whole number")]
    Part(String),
    /// An unknown kind.
    #[error("{0:?} is none of native, erc20, swap, approve, create, revert")]
    Kind(String),
    /// A kind that is named twice.
    #[error("{0:?} is named twice")]
    Twice(String),
}

impl Mix {
    /// No transactions at all, to be filled in.
    pub const NONE: Self = Self { native: 0, erc20: 0, swap: 0, approve: 0, create: 0, revert: 0 };

    /// Swaps alone.
    pub(crate) const SWAPS: Self = Self { swap: 1, ..Self::NONE };

    const fn share(&mut self, kind: Kind) -> &mut u32 {
        match kind {
            Kind::Native => &mut self.native,
            Kind::Erc20 => &mut self.erc20,
            Kind::Swap => &mut self.swap,
            Kind::Approve => &mut self.approve,
            Kind::Create => &mut self.create,
            Kind::Revert => &mut self.revert,
        }
    }

    fn shares(mut self) -> [(&'static str, Kind, u32); 6] {
        NAMED.map(|(name, kind)| (name, kind, *self.share(kind)))
    }

    /// The sum of all shares.
    pub(crate) fn total(self) -> u64 {
        self.shares().iter().map(|(.., share)| u64::from(*share)).sum()
    }

    pub(crate) fn validate(self) -> Result<(), ConfigError> {
        if self.total() == 0 { Err(ConfigError::EmptyMix) } else { Ok(()) }
    }

    /// Draws the kind of the next transaction. The mix must not be empty.
    pub(crate) fn draw(self, rng: &mut Rng) -> Kind {
        let mut at = rng.below(self.total());
        for (_, kind, share) in self.shares() {
            match at.checked_sub(share.into()) {
                Some(rest) => at = rest,
                None => return kind,
            }
        }
        // Only for an empty mix, which no load has.
        Kind::Native
    }
}

impl Default for Mix {
    /// Median of the recorded mainnet blocks since London, with their other calls as swaps: see
    /// `docs/explanation/0016-swaps-and-mixed-loads.md`. The share of reverts is chosen.
    fn default() -> Self {
        Self { native: 44, erc20: 20, swap: 25, approve: 7, create: 1, revert: 3 }
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<_> = self.shares().iter().map(|(name, _, share)| format!("{name}={share}")).collect();
        f.pad(&parts.join(","))
    }
}

impl FromStr for Mix {
    type Err = MixError;

    /// Parses `KIND=SHARE`, separated by commas; a kind that is not named has no share.
    fn from_str(words: &str) -> Result<Self, MixError> {
        let mut mix = Self::NONE;
        let mut named = Vec::new();
        for part in words.split(',') {
            let (name, share) = part.split_once('=').ok_or_else(|| MixError::Part(part.to_owned()))?;
            let (name, share) = (name.trim(), share.trim());
            let kind = NAMED.iter().find(|(known, _)| *known == name).ok_or_else(|| MixError::Kind(name.to_owned()))?.1;
            if named.contains(&name) {
                return Err(MixError::Twice(name.to_owned()));
            }
            named.push(name);
            *mix.share(kind) = share.parse().map_err(|_| MixError::Part(part.to_owned()))?;
        }
        Ok(mix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixes_round_trip_through_words() {
        for mix in [Mix::default(), Mix::NONE, Mix::SWAPS, Mix { create: u32::MAX, revert: 7, ..Mix::NONE }] {
            assert_eq!(mix.to_string().parse(), Ok(mix));
        }
        assert_eq!(Mix::default().total(), 100);
    }

    #[test]
    fn nonsense_is_refused_with_its_reason() {
        let error = |words: &str| words.parse::<Mix>().unwrap_err();
        for part in ["", "swap", "swap=", "swap=-1", "swap=0.5", "swap=4294967296"] {
            assert_eq!(error(part), MixError::Part(part.into()));
        }
        assert_eq!(error("swap=1,mint=2"), MixError::Kind("mint".into()));
        assert_eq!(error("swap=1, swap=2"), MixError::Twice("swap".into()));
        assert_eq!(Mix::NONE.validate(), Err(ConfigError::EmptyMix));
    }

    #[test]
    fn kinds_come_in_their_shares() {
        let mix = Mix { native: 1, swap: 5, revert: 4, ..Mix::NONE };
        let (mut rng, mut seen) = (Rng::new(3), [0u32; 6]);
        for _ in 0..100_000 {
            seen[mix.draw(&mut rng) as usize] += 1;
        }
        assert_eq!([seen[1], seen[3], seen[4]], [0; 3]);
        // Five standard deviations of a binomial are below 800.
        for (at, expected) in [(0, 10_000u32), (2, 50_000), (5, 40_000)] {
            assert!(seen[at].abs_diff(expected) < 800, "{seen:?}");
        }
    }
}
