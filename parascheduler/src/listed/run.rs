//! A run of a block on the values of its list, on all threads.

use crate::{
    dag::{Dag, TxIndex},
    job::Verdict,
    listed::{Departure, Listed, ListedState},
    workers::Workers,
};
use alloy_eip7928::BlockAccessIndex;
use parking_lot::Mutex;
use revm_database_interface::DatabaseRef;
use revm_state::EvmState;

/// Steps of the protocol itself, around the transactions: system calls, and withdrawals. None by default.
#[derive(Clone, Debug, Default)]
pub struct Protocol {
    /// Accounts behind step 0, before the transactions.
    pub before: EvmState,
    /// Accounts behind the last step, after the transactions.
    pub after: EvmState,
}

/// Refusal of a block, by its lowest step that departs from the list. It does not depend on threads.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListedError<E> {
    /// A transaction did not do what the list says of it.
    #[error("transaction {} departs from the block access list: {departure}", tx.0)]
    Departs {
        /// The lowest such transaction.
        tx: TxIndex,
        /// Least difference of the step.
        departure: Departure,
    },
    /// A transaction has no outcome: it is invalid, or the database failed. All lower ones follow the list.
    #[error("transaction {} has no outcome: {error}", tx.0)]
    Fails {
        /// The transaction.
        tx: TxIndex,
        /// Error of its execution.
        error: E,
    },
    /// The protocol did not do what the list says before or behind the transactions.
    #[error("step {index}, which is no transaction, departs from the block access list: {departure}")]
    Protocol {
        /// Step 0, or the last one.
        index: BlockAccessIndex,
        /// Least difference of the step.
        departure: Departure,
    },
}

impl Workers {
    /// Executes all transactions of a block at once, each on what the list says of the ones before it, and compares what they
    /// do with the list. Returns their outputs in block order.
    ///
    /// `execute` gets the state that its transaction finds, and returns an output, such as a receipt, with the state that
    /// revm's `transact` returns. Each thread makes a local of its own by `local`, such as an EVM, which need not be [`Send`];
    /// after an error it makes another. Memory is O(length of the list + outputs).
    ///
    /// If this returns `Ok`, then each output is that of a loop over the block, and [`Listed::changes`] are its changes.
    ///
    /// # Errors
    /// [`ListedError`], for the lowest step that departs or fails.
    ///
    /// # Panics
    /// With a panic of `local` or `execute`.
    pub fn run_listed<'a, D, L, T, E>(
        &self,
        listed: &'a Listed<'a>,
        protocol: &Protocol,
        database: D,
        local: impl Fn(ListedState<'a, D>) -> L + Sync,
        execute: impl Fn(&mut L, TxIndex, ListedState<'a, D>) -> Result<(T, EvmState), E> + Sync,
    ) -> Result<Vec<T>, ListedError<E>>
    where
        D: DatabaseRef + Copy + Sync,
        T: Send,
        E: Send,
    {
        let check = |index, state: &EvmState| {
            listed.check(index, state).map_err(|departure| ListedError::Protocol { index, departure })
        };
        check(BlockAccessIndex::PRE_EXECUTION, &protocol.before)?;
        let ends: Vec<_> = (0..listed.transactions()).map(|_| Mutex::new(None)).collect();
        let job = |held: &mut Option<L>, tx: TxIndex| {
            let index = BlockAccessIndex::from_tx_index(u64::from(tx.0));
            let state = listed.before(index, database);
            let mut used = held.take().unwrap_or_else(|| local(state));
            let end = match execute(&mut used, tx, state) {
                Ok((output, state)) => {
                    *held = Some(used);
                    let checked = listed.check(index, &state);
                    checked.map(|()| output).map_err(|departure| ListedError::Departs { tx, departure })
                }
                // An EVM may keep what a failed transaction has loaded, which the next one must not find.
                Err(error) => Err(ListedError::Fails { tx, error }),
            };
            *ends[tx.index()].lock() = Some(end);
            Verdict::Done
        };
        self.run_with(&Dag::independent(listed.transactions()), || None, &job);
        let outputs = ends.into_iter().filter_map(Mutex::into_inner).collect::<Result<Vec<T>, _>>()?;
        check(listed.last(), &protocol.after)?;
        Ok(outputs)
    }
}
