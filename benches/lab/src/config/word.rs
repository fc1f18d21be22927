//! Names of choices, as results and the command line write them.

use phalanx::{
    Executor, Order, Traces,
    merkle::{Durability, HashFn},
    paralyze::Layers,
    revm::primitives::hardfork::SpecId,
};

/// A choice that has a name.
pub trait Word: Copy {
    /// Name of the choice in results and on the command line.
    fn word(self) -> &'static str;
}

/// Name of `choice`, owned.
pub fn word(choice: impl Word) -> String {
    choice.word().to_owned()
}

impl Word for bool {
    fn word(self) -> &'static str {
        if self { "on" } else { "off" }
    }
}

impl Word for Executor {
    fn word(self) -> &'static str {
        match self {
            Self::Dag => "dag",
            Self::BlockStm => "block-stm",
            Self::Sequential => "sequential",
        }
    }
}

impl Word for Order {
    fn word(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Given => "given",
        }
    }
}

impl Word for Layers {
    fn word(self) -> &'static str {
        match self {
            Self::All => "static",
            Self::WithoutTemplates => "rules",
            Self::WithoutStandards => "templates",
            Self::Simulation => "simulate",
        }
    }
}

impl Word for Traces {
    fn word(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::On => "on",
            Self::Checked => "check",
        }
    }
}

impl Word for Durability {
    fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Async => "async",
            Self::Block => "block",
        }
    }
}

impl Word for HashFn {
    fn word(self) -> &'static str {
        match self {
            Self::Sha256 => "sha256",
            Self::Keccak256 => "keccak256",
            Self::Blake3 => "blake3",
        }
    }
}

/// Hard forks of the workloads' chain.
impl Word for SpecId {
    fn word(self) -> &'static str {
        match self {
            Self::CANCUN => "cancun",
            Self::PRAGUE => "prague",
            _ => "osaka",
        }
    }
}
