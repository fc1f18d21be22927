//! Gas of a block: what its transactions use, and what is left.
//!
//! Until Osaka one sum bounds a block, of gas after refunds. From Amsterdam on there are two, and neither deducts refunds (EIP-7778):
//! gas of execution and gas of state growth (EIP-8037). Each is bounded by the block's gas limit, and the larger one is the block's
//! gas used. A transaction has one gas limit for both, of which execution can use no more than the cap of EIP-7825.

use super::{Fault, Outcome};
use phalanx_paralyze::VmConfig;
use revm::{
    context::TxEnv,
    context_interface::{Cfg as _, result::ExecutionResult},
    primitives::hardfork::SpecId,
};

/// Rules by which a transaction counts in its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GasRules {
    /// True from Amsterdam on.
    is_split: bool,
    /// Gas that the execution of a transaction can use at most.
    cap: u64,
}

/// Gas that transactions use of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct GasUse {
    /// All gas until Osaka.
    pub(crate) execution: u64,
    pub(crate) state: u64,
}

/// Gas of a block that is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GasRoom {
    pub(crate) execution: u64,
    pub(crate) state: u64,
}

impl GasRules {
    pub(crate) fn of(cfg: &VmConfig) -> Self {
        let is_split = cfg.spec.is_enabled_in(SpecId::AMSTERDAM);
        Self { is_split, cap: if is_split { cfg.tx_gas_limit_cap() } else { u64::MAX } }
    }

    /// Gas that a transaction has used of its block.
    pub(crate) fn used(self, outcome: &Outcome) -> GasUse {
        match outcome.result().map(ExecutionResult::gas) {
            None => GasUse::default(),
            Some(gas) if self.is_split => {
                GasUse { execution: gas.block_regular_gas_used(), state: gas.block_state_gas_used() }
            }
            Some(gas) => GasUse { execution: gas.tx_gas_used(), state: 0 },
        }
    }

    /// Gas that a transaction can use at most.
    pub(crate) fn most(self, tx: &TxEnv) -> GasUse {
        GasUse { execution: tx.gas_limit.min(self.cap), state: if self.is_split { tx.gas_limit } else { 0 } }
    }

    /// Gas that all of these transactions have used of their block; without refunds O(1) if `paid` is the sum of what they paid.
    pub(crate) fn total(self, paid: u64, outcomes: &[Outcome]) -> GasUse {
        match self.is_split {
            true => outcomes.iter().fold(GasUse::default(), |sum, outcome| sum.plus(self.used(outcome))),
            false => GasUse { execution: paid, state: 0 },
        }
    }
}

impl GasUse {
    pub(crate) const fn plus(self, other: Self) -> Self {
        Self {
            execution: self.execution.saturating_add(other.execution),
            state: self.state.saturating_add(other.state),
        }
    }

    /// Gas used, as the header of the block has it.
    pub(crate) fn in_header(self) -> u64 {
        self.execution.max(self.state)
    }
}

impl GasRoom {
    /// A block without transactions.
    pub(crate) const fn new(gas_limit: u64) -> Self {
        Self { execution: gas_limit, state: gas_limit }
    }

    #[must_use]
    pub(crate) const fn minus(self, used: GasUse) -> Self {
        Self { execution: self.execution.saturating_sub(used.execution), state: self.state.saturating_sub(used.state) }
    }

    /// Rest of the part that lacks room for a transaction; `None` if the transaction fits.
    pub(crate) fn lacks(self, most: GasUse) -> Option<u64> {
        let over = u64::from(Fault::BlockGas.is_seeded());
        if most.execution > self.execution.saturating_add(over) {
            Some(self.execution)
        } else {
            (most.state > self.state).then_some(self.state)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use revm::context::CfgEnv;

    fn rules(spec: SpecId) -> GasRules {
        GasRules::of(&VmConfig::from(CfgEnv::new_with_spec(spec)))
    }

    fn tx(gas_limit: u64) -> TxEnv {
        TxEnv { gas_limit, ..TxEnv::default() }
    }

    #[test]
    fn one_sum_until_osaka_and_two_from_amsterdam_on() {
        let gas = revm::context_interface::result::ResultGas::new_with_state_gas(100_000, 9_000, 0, 60_000);
        let outcome = Outcome::Executed(ExecutionResult::Revert { gas, logs: Vec::new(), output: Default::default() });
        let (osaka, amsterdam) = (rules(SpecId::OSAKA), rules(SpecId::AMSTERDAM));
        assert_eq!(osaka.used(&outcome), GasUse { execution: 91_000, state: 0 });
        assert_eq!(amsterdam.used(&outcome), GasUse { execution: 40_000, state: 60_000 });
        let all = [outcome.clone(), outcome];
        assert_eq!(osaka.total(182_000, &all).in_header(), 182_000);
        assert_eq!(amsterdam.total(182_000, &all), GasUse { execution: 80_000, state: 120_000 });
        assert_eq!(amsterdam.total(182_000, &all).in_header(), 120_000);
    }

    #[test]
    fn a_gas_limit_must_fit_both_parts_as_far_as_they_can_use_it() {
        let (osaka, amsterdam) = (rules(SpecId::OSAKA), rules(SpecId::AMSTERDAM));
        let room = GasRoom::new(30_000_000);
        assert_eq!(room.lacks(osaka.most(&tx(30_000_000))), None);
        assert_eq!(room.lacks(osaka.most(&tx(30_000_001))), Some(30_000_000));
        // Execution uses no more than 2^24, so the rest may be full.
        let left = room.minus(GasUse { execution: 30_000_000 - (1 << 24), state: 1 });
        assert_eq!(left.lacks(amsterdam.most(&tx(29_999_999))), None);
        assert_eq!(left.lacks(amsterdam.most(&tx(30_000_000))), Some(29_999_999));
        let less = left.minus(GasUse { execution: 1, state: 0 });
        assert_eq!(less.lacks(amsterdam.most(&tx(29_999_999))), Some((1 << 24) - 1));
        assert_eq!(less.lacks(osaka.most(&tx(1 << 24))), Some((1 << 24) - 1));
    }
}
