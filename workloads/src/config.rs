//! Parameters of a load, and the reasons to refuse them.

use core::{fmt, str::FromStr};

use alloy_primitives::{Address, address};

use crate::{accounts::Accounts, per_account::DENSE};

/// Contended side of a transfer.
///
/// A hot sender serialises on its nonce, which no engine can avoid. A hot receiver is an exchange or a fee collector:
/// credits commute, so an engine may keep the parallelism.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum HotSide {
    /// The sender is hot with probability α, the receiver is always cold: the definition of FAFO, section 3.2.
    #[default]
    Sender,
    /// The receiver is hot with probability α, the sender is always cold.
    Receiver,
    /// Each side is hot with probability α, independently; a pair of equal addresses is drawn again.
    Both,
}

impl fmt::Display for HotSide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Sender => "sender",
            Self::Receiver => "receiver",
            Self::Both => "both",
        })
    }
}

/// Maximum number of pools of a load: more than any chain has in use within minutes.
pub(crate) const MAX_POOLS: u32 = 1 << 16;

/// A word that names no [`HotSide`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is none of sender, receiver, both")]
pub struct UnknownHotSide(pub String);

impl FromStr for HotSide {
    type Err = UnknownHotSide;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        [Self::Sender, Self::Receiver, Self::Both]
            .into_iter()
            .find(|side| side.to_string() == word)
            .ok_or_else(|| UnknownHotSide(word.to_owned()))
    }
}

/// Price of gas, in wei. The same in every block of a run: blocks must carry [`Self::base_fee`] unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fees {
    /// Fee per gas that is burned. Above zero.
    pub base_fee: u64,
    /// Fee per gas for the beneficiary. Above zero, so that there is a reward to check.
    pub priority_fee: u64,
    /// Maximum fee per gas that a sender offers; at least the sum of the two.
    pub max_fee: u64,
}

impl Fees {
    /// Fee per gas that a sender pays (EIP-1559).
    pub const fn effective(&self) -> u128 {
        self.base_fee as u128 + self.priority_fee as u128
    }
}

impl Default for Fees {
    /// 1 gwei burned, 1 gwei priority fee, at most 3 gwei.
    fn default() -> Self {
        Self { base_fee: 1_000_000_000, priority_fee: 1_000_000_000, max_fee: 3_000_000_000 }
    }
}

/// A load of transfers between existing accounts (FAFO, section 3.2), and the parameters that other loads share with
/// it: senders and receivers, number of transactions, price of gas.
///
/// The addresses are sorted lexicographically and the first γ of them are hot. With probability α the hot side of a
/// transfer is drawn uniformly from the hot addresses, otherwise from the rest; the other side is drawn uniformly from
/// the rest. α = 0 means uniform over all. In place of α and γ, [`zipf`](Self::zipf) draws both sides by Zipf's law. Sender
/// and receiver always differ.
#[derive(Clone, Debug, PartialEq)]
pub struct TransferLoad {
    /// Number of funded accounts.
    pub accounts: u64,
    /// Number of transactions of the stream.
    pub txs: u64,
    /// α, the probability that the hot side is hot, `0..=1`.
    pub alpha: f64,
    /// γ, the number of hot accounts. Ignored when α = 0.
    pub gamma: u64,
    /// Contended side.
    pub hot: HotSide,
    /// Exponent of Zipf's law, by which both sides are drawn from the sorted addresses, the first the most frequent; above
    /// 0, at most 4. `None`: hot and cold accounts. With an exponent α is zero.
    pub zipf: Option<f64>,
    /// Seed of addresses, keys, pairs and amounts.
    pub seed: u64,
    /// Price of gas.
    pub fees: Fees,
    /// Receiver of the priority fees; never a sender, receiver or contract of the load.
    pub coinbase: Address,
    /// Chain id of every transaction (EIP-155).
    pub chain_id: u64,
    /// True if the accounts have secret keys, so that [`Accounts::sign`](crate::Accounts::sign) works. Deriving a key
    /// costs about 20 µs of a core; without keys an address is a hash of its index.
    pub signatures: bool,
    /// True if new state is paid for by its size, as from Amsterdam on (EIP-8037): what makes state in a mix offers more gas.
    pub state_gas: bool,
    /// Maximum memory of the load, its genesis or the parts of it, one stream and one ledger together, in bytes. `None`: no
    /// limit.
    pub memory_limit: Option<u64>,
}

impl Default for TransferLoad {
    /// A million uncontended transfers among 2^20 accounts, unsigned.
    fn default() -> Self {
        Self {
            accounts: 1 << 20,
            txs: 1_000_000,
            alpha: 0.0,
            gamma: 1,
            hot: HotSide::Sender,
            zipf: None,
            seed: 42,
            fees: Fees::default(),
            coinbase: address!("0xc01ba5e0000000000000000000000000c01ba5e0"),
            chain_id: 1,
            signatures: false,
            state_gas: false,
            memory_limit: None,
        }
    }
}

/// Reason why a [`TransferLoad`] describes no workload.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A probability outside 0 to 1, or NaN.
    #[error("alpha must be between 0 and 1, not {alpha}")]
    Alpha {
        /// Given value.
        alpha: f64,
    },
    /// α is above zero and γ is zero or larger than the number of accounts.
    #[error("gamma must be between 1 and the {accounts} accounts when alpha > 0, not {gamma}")]
    Gamma {
        /// Given value.
        gamma: u64,
        /// Number of accounts.
        accounts: u64,
    },
    /// An exponent that is not above 0 and at most 4.
    #[error("the exponent of zipf must be above 0 and at most 4, not {exponent}")]
    Zipf {
        /// Given value.
        exponent: f64,
    },
    /// Two contentions at once.
    #[error("zipf draws both sides, so alpha must be 0 beside it, not {alpha}")]
    ZipfAndAlpha {
        /// Given α.
        alpha: f64,
    },
    /// Fewer than the two accounts a transfer needs, or more than a 32-bit index can name.
    #[error("the number of accounts must be between 2 and 2^32 - 1, not {accounts}")]
    Accounts {
        /// Given number.
        accounts: u64,
    },
    /// More transactions than a 32-bit nonce counter can number.
    #[error("at most 2^32 - 1 transactions, not {txs}")]
    Txs {
        /// Given number.
        txs: u64,
    },
    /// Too few cold accounts are left to draw a pair of distinct addresses.
    #[error("{cold} cold accounts remain beside the hot ones, this load needs {needed}")]
    TooFewCold {
        /// Accounts minus γ.
        cold: u64,
        /// Minimum for this α and side.
        needed: u64,
    },
    /// Both sides are always hot and there is one hot account.
    #[error("hot both with alpha 1 needs at least two hot accounts")]
    OneHotForBoth,
    /// The fees are not 0 < base, 0 < priority, base + priority <= max.
    #[error("fees must satisfy 0 < base fee, 0 < priority fee, base + priority <= max, not {fees:?}")]
    Fees {
        /// Given fees.
        fees: Fees,
    },
    /// The coinbase is an account or a contract of the load, so its balance would not be the fees alone.
    #[error("the coinbase {coinbase} takes part in the load")]
    CoinbaseTakesPart {
        /// Given address.
        coinbase: Address,
    },
    /// No pools, or more than [`Pools::MAX`](crate::Pools::MAX).
    #[error("the number of pools must be between 1 and {}, not {pools}", MAX_POOLS)]
    Pools {
        /// Given number.
        pools: u32,
    },
    /// A probability outside 0 to 1, or NaN.
    #[error("the share of the hot pool must be between 0 and 1, not {share}")]
    HotShare {
        /// Given share.
        share: f64,
    },
    /// Hot receivers for transactions without a receiver.
    #[error("a swap has no receiver to be hot: hot must be sender with alpha > 0, not {hot}; pools have a hot share")]
    NoReceiver {
        /// Given side.
        hot: HotSide,
    },
    /// All shares are zero.
    #[error("a mix must have a share above zero")]
    EmptyMix,
    /// The load would take more memory than the caller allows.
    #[error("the load needs about {needed} bytes, the limit is {limit}")]
    Memory {
        /// Estimate, in bytes.
        needed: u64,
        /// Limit of the caller, in bytes.
        limit: u64,
    },
}

impl TransferLoad {
    /// Checks everything that needs neither the addresses nor the draw, given the bytes of one account of a small load.
    pub(crate) fn validate(&self, bytes_per_account: u64) -> Result<(), ConfigError> {
        let Self { accounts, txs, fees, .. } = *self;
        if accounts < 2 || accounts > u64::from(u32::MAX) {
            return Err(ConfigError::Accounts { accounts });
        }
        if txs > u64::from(u32::MAX) {
            return Err(ConfigError::Txs { txs });
        }
        if fees.base_fee == 0 || fees.priority_fee == 0 || fees.effective() > u128::from(fees.max_fee) {
            return Err(ConfigError::Fees { fees });
        }
        // An address without a key is computed.
        let (small, held) = (DENSE as u64, if self.signatures { Accounts::BYTES_PER_ACCOUNT as u64 } else { 0 });
        // No factor exceeds 2^32, so the products fit.
        let needed = accounts.min(small) * bytes_per_account + accounts.saturating_sub(small) * held;
        match self.memory_limit {
            Some(limit) if needed > limit => Err(ConfigError::Memory { needed, limit }),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(change: impl FnOnce(&mut TransferLoad)) -> Result<(), ConfigError> {
        let mut load = TransferLoad { accounts: 100, txs: 10, ..Default::default() };
        change(&mut load);
        load.validate(200)
    }

    #[test]
    fn nonsense_is_refused_with_its_reason() {
        assert_eq!(verdict(|_| ()), Ok(()));
        assert_eq!(verdict(|l| l.accounts = 1), Err(ConfigError::Accounts { accounts: 1 }));
        assert_eq!(verdict(|l| l.accounts = 1 << 32), Err(ConfigError::Accounts { accounts: 1 << 32 }));
        assert_eq!(verdict(|l| l.txs = 1 << 32), Err(ConfigError::Txs { txs: 1 << 32 }));
        for (base_fee, priority_fee, max_fee) in [(0, 1, 9), (1, 0, 9), (5, 5, 9), (u64::MAX, 1, u64::MAX)] {
            let fees = Fees { base_fee, priority_fee, max_fee };
            assert_eq!(verdict(|l| l.fees = fees), Err(ConfigError::Fees { fees }));
        }
        assert_eq!(verdict(|l| l.memory_limit = Some(20_000)), Ok(()));
        let (needed, limit) = (20_000, 19_999);
        assert_eq!(verdict(|l| l.memory_limit = Some(limit)), Err(ConfigError::Memory { needed, limit }));
    }

    #[test]
    fn sides_round_trip_through_words() {
        for side in [HotSide::Sender, HotSide::Receiver, HotSide::Both] {
            assert_eq!(side.to_string().parse(), Ok(side));
        }
        assert_eq!("all".parse::<HotSide>(), Err(UnknownHotSide("all".into())));
    }
}
