//! The trait that every workload implements.

use core::fmt;

use alloy_primitives::U256;
use revm::context::BlockEnv;

use crate::{
    accounts::Accounts,
    check::{CheckError, StateReader},
    config::TransferLoad,
    genesis::{Genesis, Wanted},
    ledger::Ledger,
    transactions::Transactions,
};

/// A deterministic load: accounts, transactions, and a check of the final state.
///
/// Tests, benches and the command line share it. Implementations keep three promises. The stream and the genesis depend
/// on the configuration alone. Every transaction ends as it is built to, in blocks like [`Self::block_env`] and in any
/// order that keeps each sender's nonces in order: it succeeds, or it is built to fail and fails. [`Self::check`] is
/// arithmetic over the sent transactions, so it cannot repeat an EVM's mistake.
pub trait Workload: fmt::Debug + Send + Sync {
    /// Name on the command line and in results.
    fn name(&self) -> &'static str;

    /// Configuration of the load.
    fn load(&self) -> &TransferLoad;

    /// Accounts that send and receive; with signatures on, they also sign.
    fn accounts(&self) -> &Accounts;

    /// State before the first transaction. O(accounts), created anew at each call.
    fn genesis(&self) -> Genesis {
        self.genesis_part(&|_, _| true)
    }

    /// Part of the state before the first transaction: the accounts and slots that are `wanted`, asked from any thread in the
    /// current rayon pool. A contract is there with its slots, also if it is in other parts. O(accounts) in time, and in memory
    /// O(the part).
    fn genesis_part(&self, wanted: &Wanted<'_>) -> Genesis;

    /// Stream of all transactions, from the first.
    fn transactions(&self) -> Transactions<'_>;

    /// Empty ledger, to record executed transactions in.
    fn ledger(&self) -> Ledger<'_>;

    /// Ledger of the whole stream. O(accounts + transactions), some tens of nanoseconds each.
    fn full_ledger(&self) -> Ledger<'_>;

    /// Compares `state` with the result of the transactions in `ledger`, in any order, with `gas_used` paid for in total.
    ///
    /// # Errors
    /// The first difference, or the reader's error.
    fn check(&self, ledger: &Ledger<'_>, gas_used: u64, state: &dyn StateReader) -> Result<(), CheckError>;

    /// Environment of block `number`: base fee and beneficiary are those of [`Self::check`]; the gas limit is unbounded
    /// and up to the caller. Twelve seconds lie between blocks.
    fn block_env(&self, number: u64) -> BlockEnv {
        let load = self.load();
        BlockEnv {
            number: U256::from(number),
            timestamp: U256::from(number) * U256::from(12),
            beneficiary: load.coinbase,
            basefee: load.fees.base_fee,
            gas_limit: u64::MAX,
            ..Default::default()
        }
    }
}
