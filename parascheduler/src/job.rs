//! The job that a caller of [`Workers::run`](crate::workers::Workers::run) implements, and the report of a run.

use crate::dag::TxIndex;

/// Work that [`Workers::run`](crate::workers::Workers::run) does for every transaction.
///
/// `L` is what each worker owns: an EVM, scratch buffers, counters. Any `Fn(&mut L, TxIndex) -> Verdict + Sync` is a job.
pub trait Job<L>: Sync {
    /// Runs one transaction. Everything that earlier conflicting transactions did is visible, and no conflicting transaction
    /// runs at the same time.
    ///
    /// A job must not wait for another transaction of the run, nor for a task of the workers' pool: both may sit on one worker.
    /// [`Workers::run`](crate::workers::Workers::run) is no such task. A panic ends the run.
    fn run(&self, local: &mut L, tx: TxIndex) -> Verdict;

    /// Prefetches for `tx`, which this worker will probably run soon. Does nothing by default.
    ///
    /// | transaction | calls, in order |
    /// |---|---|
    /// | a source, or any transaction of a single worker | [`Lookahead::Far`], [`Lookahead::Near`] |
    /// | one of the first successors of the transaction that runs next, whose last missing predecessor that is | `Far` |
    /// | the next transaction of a chain, each waiting for the one before | `Distant`, `Following`, `Far`, `Near` |
    ///
    /// A chain begins with a source, and its second transaction is prefetched with the source, unless sources are ranked
    /// ([`Dag::begin_with_heaviest`](crate::dag::Dag::begin_with_heaviest)). A source that moves to another worker may miss
    /// calls. `Far` and `Near` come at most once for a transaction; where chains meet, the others may come often. A
    /// transaction may still be withdrawn, or run by another worker, after it was prefetched.
    fn prefetch(&self, local: &mut L, tx: TxIndex, lookahead: Lookahead) {
        let _ = (local, tx, lookahead);
    }
}

impl<L, F: Fn(&mut L, TxIndex) -> Verdict + Sync> Job<L> for F {
    #[inline]
    fn run(&self, local: &mut L, tx: TxIndex) -> Verdict {
        self(local, tx)
    }
}

/// Time until a transaction runs, and so what a prefetch for it can reach by then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookahead {
    /// Two steps ahead in a chain: prefetch what the transaction's index leads to.
    Distant,
    /// Later than `Distant`: what that prefetched has arrived, and leads to more.
    Following,
    /// After some sixteen other transactions, or after its only missing predecessor.
    Far,
    /// After half as many, or at once in a chain: what `Far` prefetched has arrived, and leads to the rest.
    Near,
}

/// End of a transaction's job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The transaction stayed within its predicted access set; its successors may run.
    Done,
    /// The transaction reached for a key outside its predicted set and published nothing; its successors must not run.
    Escaped,
}

/// Transactions that did not complete in a run. A function of the DAG and the jobs' verdicts alone: threads and timing do
/// not enter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Transactions whose job returned [`Verdict::Escaped`], ascending.
    pub escaped: Vec<TxIndex>,
    /// Transactions that were not run because they depend, directly or not, on an escaped one; ascending.
    pub withdrawn: Vec<TxIndex>,
}

impl Report {
    /// Returns true if every transaction completed.
    pub const fn is_clean(&self) -> bool {
        self.escaped.is_empty() && self.withdrawn.is_empty()
    }

    /// Unites the reports of several workers, given in any order.
    pub(crate) fn collect<'a>(parts: impl Iterator<Item = &'a mut Self>) -> Self {
        let mut whole = Self::default();
        for part in parts {
            whole.escaped.append(&mut part.escaped);
            whole.withdrawn.append(&mut part.withdrawn);
        }
        whole.escaped.sort_unstable();
        whole.withdrawn.sort_unstable();
        whole
    }
}
