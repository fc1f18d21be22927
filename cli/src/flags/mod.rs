//! Flags that several commands share.

mod load;
pub(crate) mod profile;
pub(crate) mod words;

pub(crate) use load::LoadArgs;

use clap::ValueEnum;
use phalanx::{Executor, Order, Traces, merkle, paralyze::Layers, revm::primitives::hardfork::SpecId};
use phalanx_lab::config::{Artefact, OracleKind};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExecutorKind {
    /// Workers on the exact per-slot DAG
    Dag,
    /// Block-STM: optimistic, without predictions
    BlockStm,
    /// Stock revm, in sequence
    Sequential,
}

impl From<ExecutorKind> for Executor {
    fn from(kind: ExecutorKind) -> Self {
        match kind {
            ExecutorKind::Dag => Self::Dag,
            ExecutorKind::BlockStm => Self::BlockStm,
            ExecutorKind::Sequential => Self::Sequential,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TracesKind {
    /// revm interprets every call
    Off,
    /// Calls with a recorded trace are replayed
    On,
    /// Replayed calls are interpreted as well, and a difference is an error
    Check,
}

impl From<TracesKind> for Traces {
    fn from(kind: TracesKind) -> Self {
        match kind {
            TracesKind::Off => Self::Off,
            TracesKind::On => Self::On,
            TracesKind::Check => Self::Checked,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OrderKind {
    /// Order of the engine's framer
    Free,
    /// Order of generation
    Given,
}

impl From<OrderKind> for Order {
    fn from(kind: OrderKind) -> Self {
        match kind {
            OrderKind::Free => Self::Free,
            OrderKind::Given => Self::Given,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AccessKind {
    /// Native and ERC20 rules, access lists, learned templates, simulation for the rest
    Static,
    /// Like static, without templates
    Rules,
    /// Like static, without the ERC20 rule
    Templates,
    /// Simulation for all
    Simulate,
}

impl From<AccessKind> for Layers {
    fn from(kind: AccessKind) -> Self {
        match kind {
            AccessKind::Static => Self::All,
            AccessKind::Rules => Self::WithoutTemplates,
            AccessKind::Templates => Self::WithoutStandards,
            AccessKind::Simulate => Self::Simulation,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Switch {
    On,
    Off,
}

impl From<Switch> for bool {
    fn from(switch: Switch) -> Self {
        switch == Switch::On
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DurabilityKind {
    /// No log: survives only a clean end
    None,
    /// Survives kill -9
    Async,
    /// Survives power loss: fsync per block
    Block,
}

impl From<DurabilityKind> for merkle::Durability {
    fn from(kind: DurabilityKind) -> Self {
        match kind {
            DurabilityKind::None => Self::None,
            DurabilityKind::Async => Self::Async,
            DurabilityKind::Block => Self::Block,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Hasher {
    Sha256,
    Keccak256,
    Blake3,
}

impl From<Hasher> for merkle::HashFn {
    fn from(hasher: Hasher) -> Self {
        match hasher {
            Hasher::Sha256 => Self::Sha256,
            Hasher::Keccak256 => Self::Keccak256,
            Hasher::Blake3 => Self::Blake3,
        }
    }
}

impl Hasher {
    /// Parameters of a state commitment with this hash.
    pub(crate) fn params(self) -> merkle::Params {
        merkle::Params::with_hash(self.into())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SpecKind {
    Cancun,
    Prague,
    Osaka,
}

impl From<SpecKind> for SpecId {
    fn from(kind: SpecKind) -> Self {
        match kind {
            SpecKind::Cancun => Self::CANCUN,
            SpecKind::Prague => Self::PRAGUE,
            SpecKind::Osaka => Self::OSAKA,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Oracle {
    /// Every block is compared with sequential revm
    Full,
    /// The first eighth of the blocks, at least one, is compared
    Sampled,
    /// Only the final balances are checked by arithmetic
    Off,
}

impl From<Oracle> for OracleKind {
    fn from(oracle: Oracle) -> Self {
        match oracle {
            Oracle::Full => Self::Full,
            Oracle::Sampled => Self::Sampled,
            Oracle::Off => Self::Off,
        }
    }
}

/// Data that a validator gets beside a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ArtefactKind {
    /// No data: the validator predicts.
    None,
    /// Access sets of the transactions that no rule predicts; a hint.
    Exceptions,
    /// Block access list (EIP-7928), part of the block.
    AccessList,
}

impl ArtefactKind {
    /// All artefacts.
    pub(crate) const ALL: [Self; 3] = [Self::None, Self::Exceptions, Self::AccessList];
}

impl From<ArtefactKind> for Artefact {
    fn from(kind: ArtefactKind) -> Self {
        match kind {
            ArtefactKind::None => Self::None,
            ArtefactKind::Exceptions => Self::Exceptions,
            ArtefactKind::AccessList => Self::AccessList,
        }
    }
}

/// Name of a choice on the command line.
pub(crate) fn word(choice: impl ValueEnum) -> String {
    choice.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_lab::config::Word;

    #[test]
    fn results_name_choices_as_the_command_line_does() {
        fn check<K: ValueEnum + Into<W>, W: Word>() {
            for kind in K::value_variants() {
                assert_eq!(word(kind.clone()), kind.clone().into().word());
            }
        }
        check::<ExecutorKind, Executor>();
        check::<TracesKind, Traces>();
        check::<OrderKind, Order>();
        check::<AccessKind, Layers>();
        check::<Switch, bool>();
        check::<DurabilityKind, merkle::Durability>();
        check::<Hasher, merkle::HashFn>();
        check::<SpecKind, SpecId>();
        check::<Oracle, OracleKind>();
        check::<ArtefactKind, Artefact>();
        check::<load::Workload, phalanx_lab::config::WorkloadKind>();
    }
}
