use core::fmt;

use alloy_primitives::U256;
use revm::context::BlockEnv;

use crate::{
    accounts::Accounts,
    check::{CheckError, StateReader},
    config::TransferLoad,
    genesis::Genesis,
    ledger::Ledger,
    transactions::Transactions,
};

/// A deterministic load: who exists, what they send, and what must be true afterwards.
///
/// Tests, benches and the command line share it. Implementations keep three promises. The stream and the genesis depend
/// on the configuration alone. Every transaction ends as it is meant to in blocks like [`Self::block_env`], in any order
/// that keeps each sender's nonces in order: it succeeds, or it is made to fail and fails. And [`Self::check`] is arithmetic
/// over what was sent, so it cannot repeat an EVM's mistake.
pub trait Workload: fmt::Debug + Send + Sync {
    /// The name on the command line and in results.
    fn name(&self) -> &'static str;

    /// The configuration it was made from.
    fn load(&self) -> &TransferLoad;

    /// The accounts that send and receive, which also sign when the load asks for signatures.
    fn accounts(&self) -> &Accounts;

    /// The state before the first transaction. O(accounts), made anew at each call.
    fn genesis(&self) -> Genesis;

    /// The transactions, from the first.
    fn transactions(&self) -> Transactions<'_>;

    /// A ledger in which nothing has been executed, to record transactions in.
    fn ledger(&self) -> Ledger<'_>;

    /// A ledger in which the whole stream has been executed. O(accounts + transactions), some tens of nanoseconds each.
    fn full_ledger(&self) -> Ledger<'_>;

    /// Compares `state` with what the transactions in `ledger` must have led to in any order, having used `gas_used` in
    /// total.
    ///
    /// # Errors
    /// The first difference, or the reader's error.
    fn check(&self, ledger: &Ledger<'_>, gas_used: u64, state: &dyn StateReader) -> Result<(), CheckError>;

    /// The environment of block `number`: base fee and beneficiary are what [`Self::check`] counts with; the gas limit
    /// is without bound and is the caller's to set. Twelve seconds lie between blocks.
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
