use crate::TxIndex;

/// What [`Workers::run`](crate::Workers::run) does for every transaction. `L` is what each worker owns: an EVM, scratch
/// buffers, counters.
///
/// Any `Fn(&mut L, TxIndex) -> Verdict + Sync` is a job.
pub trait Job<L>: Sync {
    /// Runs one transaction. All that earlier conflicting transactions did is visible, and none that conflicts runs at
    /// the same time.
    ///
    /// It must not wait for another transaction of the run, nor for a task of the workers' pool: both may sit on one worker.
    /// [`Workers::run`](crate::Workers::run) is no such task. A panic ends the run.
    fn run(&self, local: &mut L, tx: TxIndex) -> Verdict;

    /// Called by a worker some time before it runs `tx`: the place to prefetch. Those that wait for none, and all where there
    /// is a single worker, are announced with [`Notice::Far`] and then with [`Notice::Near`], but for those that go to another
    /// worker before. Of those that wait for the transaction that is about to run, and for no other any more, the first are
    /// announced with [`Notice::Far`] alone; in a chain, of which each waits for the one before, with all four, one after the
    /// other.
    ///
    /// A chain begins with one that waits for none, and the first that waits for that is announced with it, unless those that wait
    /// for none are ranked ([`Dag::begin_with_heaviest`](crate::Dag::begin_with_heaviest)).
    ///
    /// Nobody is announced as [`Notice::Far`] or [`Notice::Near`] twice; where chains meet the other notices may come often. One
    /// that is announced may still be withdrawn, or run by another worker.
    fn upcoming(&self, local: &mut L, tx: TxIndex, notice: Notice) {
        let _ = (local, tx, notice);
    }
}

impl<L, F: Fn(&mut L, TxIndex) -> Verdict + Sync> Job<L> for F {
    #[inline]
    fn run(&self, local: &mut L, tx: TxIndex) -> Verdict {
        self(local, tx)
    }
}

/// How soon a transaction runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// After one or two others, or after one that was announced as far, if at all: ask for what its index leads to.
    Distant,
    /// One has run since, or that one is near: that has come, and leads to more.
    Following,
    /// After some sixteen others, or after the one that it waits for.
    Far,
    /// After half as many, or at once in a chain: what was asked for has come meanwhile, and tells where the rest is.
    Near,
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It stayed within its predicted access set; those that wait for it may run.
    Done,
    /// It reached for a key outside its predicted set and published nothing; those that wait for it must not run.
    Escaped,
}

/// What did not complete in a run. A function of the DAG and the jobs' verdicts alone: threads and timing do not enter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Transactions whose job returned [`Verdict::Escaped`], ascending.
    pub escaped: Vec<TxIndex>,
    /// Transactions that were not run because they depend, directly or not, on an escaped one; ascending.
    pub withdrawn: Vec<TxIndex>,
}

impl Report {
    /// Whether every transaction completed.
    pub const fn is_clean(&self) -> bool {
        self.escaped.is_empty() && self.withdrawn.is_empty()
    }

    /// Unites the parts that several workers wrote down, in any order.
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
