//! A case: genesis, blocks, and the form in which a validator gets them.

use phalanx::{GenesisAccount, revm::context::TxEnv};

/// A genesis, the transactions of each block, and the form in which a validator gets them.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) genesis: Vec<GenesisAccount>,
    pub(crate) blocks: Vec<Vec<TxEnv>>,
    pub(crate) given: Given,
}

impl Case {
    pub(super) fn new(genesis: impl IntoIterator<Item = GenesisAccount>, blocks: Vec<Vec<TxEnv>>) -> Self {
        Self { genesis: genesis.into_iter().collect(), blocks, given: Given::List }
    }

    pub(super) fn given(self, given: Given) -> Self {
        Self { given, ..self }
    }
}

/// Form in which a validator gets a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Given {
    /// As it is; invalid transactions are skipped.
    List,
    /// The first so many transactions, which fill a block; only builders and planners get more.
    First(usize),
    /// As a block that its last transaction makes invalid.
    Invalid,
    /// As a block with hints that lie.
    Hinted(Lie),
}

/// False data beside a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lie {
    /// Sets that chain all transactions by one key and leave out all others.
    Sets,
    /// Exceptions with flipped bits.
    Exceptions,
    /// A block access list whose last change of a slot is wrong.
    LastChange,
    /// A block access list full of codes, wrong at its first step.
    Codes,
}

/// Gas limit of the blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size(pub(crate) u64);

/// Maximum gas limit of a transaction (EIP-7825), rounded down.
const MAX_TX_GAS: u64 = 16_000_000;

impl Size {
    /// Number of transactions of so much gas that fit.
    pub(super) fn count(self, gas: u64) -> u64 {
        (self.0 / gas).max(1)
    }

    /// Gas limit of a heavy call: a share of the block's, as far as a transaction may have it.
    pub(super) fn share(self, parts: u64) -> u64 {
        (self.0 / parts).min(MAX_TX_GAS)
    }
}
