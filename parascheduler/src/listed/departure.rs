//! Differences between a step and its list.

use alloy_primitives::{Address, U256};
use core::fmt::{self, Display, Formatter};

/// A difference between what a step did and what its list says. The least of a step is a function of both alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
#[error("{place} of {address} {how}")]
pub struct Departure {
    /// The account.
    pub address: Address,
    /// Value of the account.
    pub place: Place,
    /// Kind of difference.
    pub how: How,
}

/// A value of an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// The account as a whole.
    Account,
    /// The balance.
    Balance,
    /// The nonce.
    Nonce,
    /// The code.
    Code,
    /// A slot of the storage.
    Slot(U256),
}

/// Kinds of differences.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum How {
    /// The step changes it, and the list has no such change.
    #[error("changes, which is not listed")]
    NotListed,
    /// The step leaves another value than the list has.
    #[error("gets another value than the listed one")]
    OtherValue,
    /// The list has a change at this step, and the step makes none.
    #[error("does not change as listed")]
    DidNotHappen,
    /// The step destroys an account that was there before it, as before Cancun: no list can say what that clears.
    #[error("is destroyed by rules before Cancun, for which there are no lists")]
    Destroyed,
}

impl Display for Place {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Account => f.write_str("all"),
            Self::Balance => f.write_str("the balance"),
            Self::Nonce => f.write_str("the nonce"),
            Self::Code => f.write_str("the code"),
            Self::Slot(slot) => write!(f, "slot {slot:#x}"),
        }
    }
}
