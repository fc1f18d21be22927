//! Steps of a block besides its transactions: before them, and after.

use super::{
    dao::{DAO_ACCOUNTS, DAO_REFUND},
    spec::ChainSpec,
};
use alloy_consensus::Header;
use alloy_eips::{
    eip2935::HISTORY_STORAGE_ADDRESS, eip4788::BEACON_ROOTS_ADDRESS, eip4895::Withdrawal, eip7002, eip7251, eip8282,
};
use alloy_primitives::{Address, B256, U256};
use revm::primitives::hardfork::SpecId;

/// Step of a block before its first transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreStep {
    /// Moves the whole balance of each account to another one (EIP-779), which is created by it. The accounts exist
    /// on every chain that has the fork.
    Drain {
        /// Accounts to drain.
        accounts: &'static [Address],
        /// Account that gets the balances.
        refund: Address,
    },
    /// Calls a contract from the system address with 30 million gas, which is not paid and does not count as the
    /// block's gas (EIP-4788, 2935). Without code nothing happens; if the call fails, its changes are undone and the
    /// block goes on.
    SystemCall {
        /// The contract called.
        to: Address,
        /// The input.
        data: B256,
    },
}

/// Contracts that are called for requests after the withdrawals, with their request type, in order: those of Prague, then those
/// of Amsterdam (EIP-8282).
const REQUEST_CALLS: [(u8, Address); 4] = [
    (eip7002::WITHDRAWAL_REQUEST_TYPE, eip7002::WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS),
    (eip7251::CONSOLIDATION_REQUEST_TYPE, eip7251::CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS),
    (eip8282::BUILDER_DEPOSIT_REQUEST_TYPE, eip8282::BUILDER_DEPOSIT_CONTRACT_ADDRESS),
    (eip8282::BUILDER_EXIT_REQUEST_TYPE, eip8282::BUILDER_EXIT_CONTRACT_ADDRESS),
];

/// Number of Prague's contracts among them.
const OF_PRAGUE: usize = 2;

impl ChainSpec {
    /// Steps of a block before its transactions, in order. None at genesis, which is not executed.
    pub fn pre_steps(&self, header: &Header, spec: SpecId) -> Vec<PreStep> {
        let mut steps = Vec::new();
        if header.number == 0 {
            return steps;
        }
        if self.dao.is_some_and(|dao| dao.support && dao.block == header.number) {
            steps.push(PreStep::Drain { accounts: &DAO_ACCOUNTS, refund: DAO_REFUND });
        }
        if spec.is_enabled_in(SpecId::CANCUN)
            && let Some(root) = header.parent_beacon_block_root
        {
            steps.push(PreStep::SystemCall { to: BEACON_ROOTS_ADDRESS, data: root });
        }
        if spec.is_enabled_in(SpecId::PRAGUE) {
            steps.push(PreStep::SystemCall { to: HISTORY_STORAGE_ADDRESS, data: header.parent_hash });
        }
        steps
    }

    /// Calls for requests after a block's transactions and withdrawals: the request type of each contract's answer,
    /// and the contract (EIP-7002, 7251, 8282). The calls have no input. Unlike the calls of [`PreStep`] they must not
    /// fail, and the contracts must exist: else the block is invalid.
    pub fn request_calls(&self, spec: SpecId) -> &'static [(u8, Address)] {
        match spec {
            spec if spec.is_enabled_in(SpecId::AMSTERDAM) => &REQUEST_CALLS,
            spec if spec.is_enabled_in(SpecId::PRAGUE) => &REQUEST_CALLS[..OF_PRAGUE],
            _ => &[],
        }
    }

    /// Static reward of a block, in wei: `None` from the merge on, when nothing is paid.
    pub fn block_reward(&self, spec: SpecId) -> Option<U256> {
        if spec.is_enabled_in(SpecId::MERGE) {
            return None;
        }
        let mut rewards = self.parameters.rewards.iter().rev();
        rewards.find(|(from, _)| spec.is_enabled_in(*from)).map(|(_, reward)| *reward)
    }

    /// Reward of a block's miner for the block and for naming ommers, in wei: 1/32 of the static reward for each.
    pub fn miner_reward(&self, spec: SpecId, ommers: usize) -> Option<U256> {
        let reward = self.block_reward(spec)?;
        let per_ommer: U256 = reward >> 5;
        Some(reward.saturating_add(per_ommer.saturating_mul(U256::from(ommers))))
    }

    /// Recipients and amounts in wei after the transactions, in order: ommers' miners, the miner, then withdrawals.
    ///
    /// Amounts are not summed up, and may be zero: the recipient is touched all the same, and so deleted if empty,
    /// from Spurious Dragon on.
    pub fn post_credits(
        &self,
        header: &Header,
        ommers: &[Header],
        withdrawals: Option<&[Withdrawal]>,
    ) -> Vec<(Address, U256)> {
        let spec = self.spec(header);
        let mut credits = Vec::new();
        if let Some((reward, miner)) = self.block_reward(spec).zip(self.miner_reward(spec, ommers.len())) {
            for ommer in ommers {
                // An ommer one generation back gets 7/8 of the reward, six back 2/8; a valid block names no other.
                let eighths = (8 + u128::from(ommer.number)).saturating_sub(u128::from(header.number));
                credits.push((ommer.beneficiary, reward.saturating_mul(U256::from(eighths)) >> 3));
            }
            credits.push((header.beneficiary, miner));
        }
        let withdrawals = withdrawals.filter(|_| spec.is_enabled_in(SpecId::SHANGHAI)).unwrap_or_default();
        credits.extend(withdrawals.iter().map(|withdrawal| (withdrawal.address, withdrawal.amount_wei())));
        credits
    }
}
