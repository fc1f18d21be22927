//! The gas limit that a call needs: geth's search.

use super::{Called, Failure, SimulateError, Simulator, blob_price, failed, price};
use alloy_primitives::{KECCAK256_EMPTY, U256};
use revm::{
    DatabaseRef,
    context::{Cfg as _, TxEnv},
    context_interface::result::{EVMError, ExecutionResult, HaltReason, InvalidTransaction},
    inspector::NoOpInspector,
    primitives::{TxKind, hardfork::SpecId},
};

/// Share of the estimate by which it may exceed the least sufficient limit, as in geth.
pub const ESTIMATE_TOLERANCE: f64 = 0.015;

/// Gas of a plain transfer until Osaka.
const TRANSFER: u64 = 21_000;

/// Gas that a call with value gives beside the caller's, which the limit must cover without being used.
const STIPEND: u64 = 2_300;

/// A call with one gas limit.
enum Tried {
    Succeeded(Called),
    /// The limit does not even pay for the call's data.
    TooLow,
    Failed(ExecutionResult),
}

impl<D: DatabaseRef> Simulator<D> {
    /// Estimates the gas limit with which a call succeeds, like `eth_estimateGas`: within [`ESTIMATE_TOLERANCE`].
    ///
    /// The gas limit of `tx` is the most that it may get; beside it the block's limit counts, that per transaction
    /// (EIP-7825), and for a call with a price what the sender can pay for.
    ///
    /// # Errors
    /// The call fails with all gas that it may get, is invalid, or the state cannot be read.
    pub fn estimate_gas(&self, tx: &TxEnv) -> Result<u64, Failure<D>> {
        self.estimate_gas_within(tx, ESTIMATE_TOLERANCE)
    }

    /// Estimates like [`Self::estimate_gas`], and searches until the estimate exceeds the least sufficient limit by at
    /// most this share; with zero until it is that. The call succeeds with the result, always: of a call that fails
    /// with more gas as well, some limit that suffices is found, not the least. O(log gas) executions.
    ///
    /// # Errors
    /// The errors of [`Self::estimate_gas`].
    pub fn estimate_gas_within(&self, tx: &TxEnv, tolerance: f64) -> Result<u64, Failure<D>> {
        let most = self.allowance(tx)?;
        let is_priced = !self.rules.spec.is_enabled_in(SpecId::AMSTERDAM);
        if is_priced
            && self.is_transfer(tx)?
            && most >= TRANSFER
            && matches!(self.try_with(tx, TRANSFER)?, Tried::Succeeded(_))
        {
            return Ok(TRANSFER);
        }
        let gas = match self.try_with(tx, most)? {
            Tried::Succeeded(called) => *called.result.gas(),
            Tried::TooLow => return Err(SimulateError::GasAllowance { allowance: most }),
            Tried::Failed(result) => return Err(failure(result, most)),
        };
        // No lower limit can do: what is refunded must be there first.
        let (mut low, mut high) = (gas.tx_gas_used().saturating_sub(1), most);
        // All but one 64th of the gas is for a call (EIP-150), so that this often suffices.
        let needed = gas.total_gas_spent().max(gas.floor_gas()).saturating_add(STIPEND);
        let likely = u64::try_from(u128::from(needed) * 64 / 63).unwrap_or(u64::MAX);
        let mut next = Some(likely).filter(|likely| *likely < high);
        while low + 1 < high {
            if (high - low) as f64 / (high as f64) < tolerance {
                break;
            }
            // Most limits are near what is used, so the search leans that way.
            let middle =
                next.take().unwrap_or_else(|| (low + (high - low) / 2).min(low.saturating_mul(2).max(low + 1)));
            match self.try_with(tx, middle)? {
                Tried::Succeeded(_) => high = middle,
                Tried::TooLow | Tried::Failed(_) => low = middle.max(low),
            }
        }
        Ok(high)
    }

    /// Gas that a call may get.
    fn allowance(&self, tx: &TxEnv) -> Result<u64, Failure<D>> {
        // From Amsterdam on the cap bounds gas of execution alone, and more may pay for state (EIP-8037).
        let is_capped = !self.rules.spec.is_enabled_in(SpecId::AMSTERDAM);
        let cap = if is_capped { self.rules.tx_gas_limit_cap() } else { u64::MAX };
        let most = tx.gas_limit.min(self.env.gas_limit).min(cap);
        let price = price(tx);
        if price == 0 {
            return Ok(most);
        }
        let account = self.state.basic_ref(tx.caller).map_err(SimulateError::State)?;
        let balance = account.map_or(U256::ZERO, |account| account.balance);
        // The fee is the same for every limit that is tried, as it must not depend on it.
        let extra = self.rules.rules().map_or(U256::ZERO, |rules| rules.extra_fee(tx, &self.env));
        let fixed = tx.value.checked_add(U256::from(blob_price(tx))).and_then(|fixed| fixed.checked_add(extra));
        let Some(left) = fixed.and_then(|fixed| balance.checked_sub(fixed)) else {
            let fee = Box::new(fixed.unwrap_or(U256::MAX));
            return Err(SimulateError::Invalid(InvalidTransaction::LackOfFundForMaxFee {
                fee,
                balance: Box::new(balance),
            }));
        };
        Ok(most.min(u64::try_from(left / U256::from(price)).unwrap_or(u64::MAX)))
    }

    /// True if a call only moves value, unless a precompile runs.
    fn is_transfer(&self, tx: &TxEnv) -> Result<bool, Failure<D>> {
        let TxKind::Call(to) = tx.kind else { return Ok(false) };
        if !tx.data.is_empty() || !tx.access_list.is_empty() || !tx.authorization_list.is_empty() {
            return Ok(false);
        }
        let account = self.state.basic_ref(to).map_err(SimulateError::State)?;
        Ok(account.is_none_or(|account| account.code_hash == KECCAK256_EMPTY || account.code_hash.is_zero()))
    }

    fn try_with(&self, tx: &TxEnv, gas_limit: u64) -> Result<Tried, Failure<D>> {
        match self.run(TxEnv { gas_limit, ..tx.clone() }, NoOpInspector).0 {
            Ok(called) if called.result.is_success() => Ok(Tried::Succeeded(called)),
            Ok(called) => Ok(Tried::Failed(called.result)),
            Err(EVMError::Transaction(
                InvalidTransaction::CallGasCostMoreThanGasLimit { .. }
                | InvalidTransaction::GasFloorMoreThanGasLimit { .. },
            )) => Ok(Tried::TooLow),
            Err(error) => Err(failed(error)),
        }
    }
}

/// Reason why a call failed with all gas that it may get.
fn failure<E>(result: ExecutionResult, allowance: u64) -> SimulateError<E> {
    match result {
        ExecutionResult::Revert { output, .. } => SimulateError::Reverted { output },
        ExecutionResult::Halt { reason: HaltReason::OutOfGas(_), .. } => SimulateError::GasAllowance { allowance },
        ExecutionResult::Halt { reason, .. } => SimulateError::Halted { reason },
        ExecutionResult::Success { .. } => SimulateError::Evm("a call that succeeded".into()),
    }
}
