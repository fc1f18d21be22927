//! Prefetches for the transactions that a worker runs next, while others run. It changes timing and no result.
//!
//! ```text
//! sources    ···  16 ahead: Far  ···  8 ahead: Near  ···  run            when: `Claimed`
//!
//! a chain    tx ──► next ──► distant                                     when: `Chain`
//!                   Far      Distant before tx runs, Following after it
//!                   Near
//! ```
//!
//! Framing has shuffled a block's transactions and the graph was built on another core, so nearly each line is a miss.

use crate::{
    countdown::Countdown,
    dag::{Dag, TxIndex},
    job::{Job, Lookahead},
};

/// Successors prefetched per transaction. The first one to become ready runs next on the same worker; a second one is about
/// what the rest of a chain needs.
const SUCCESSORS: usize = 2;

/// Nodes of the graph between the source that a worker runs and the one whose successors it prefetches: some cache lines.
const GRAPH_LOOKAHEAD: usize = 64;

/// A graph in execution: what prefetches are based on.
#[derive(Debug)]
pub(crate) struct Graph<'a, J: ?Sized> {
    pub(crate) dag: &'a Dag,
    pub(crate) job: &'a J,
    pub(crate) countdown: &'a Countdown,
}

impl<J: ?Sized> Graph<'_, J> {
    /// Prefetches for a source. Where sources come in the order of the graph's memory, also for its first successor.
    #[inline]
    pub(crate) fn prefetch_source<L>(&self, local: &mut L, tx: TxIndex, lookahead: Lookahead)
    where
        J: Job<L>,
    {
        let Self { dag, job, countdown } = self;
        job.prefetch(local, tx, lookahead);
        let Some(next) = (if dag.ranked { None } else { dag.next(tx) }) else { return };
        if lookahead == Lookahead::Far {
            dag.prefetch(next.index());
            countdown.prefetch(next.0);
            job.prefetch(local, next, Lookahead::Distant);
        } else if countdown.awaits_one(next.0) {
            // A successor of many sources is not prefetched by each of them.
            dag.prefetch_successors(next.index());
            job.prefetch(local, next, Lookahead::Following);
        }
    }
}

/// Position of a worker in a chain of transactions, each of which waits for the one before.
#[derive(Debug)]
pub(crate) struct Chain {
    /// The second successor of the transaction that runs, or the first of a source that is about to run, if known. It was
    /// prefetched as distant, and its node in the graph as well.
    distant: Option<TxIndex>,
}

impl Chain {
    pub(crate) const fn new() -> Self {
        Self { distant: None }
    }

    /// Begins with a source. `near` is the source that runs some steps later.
    #[inline]
    pub(crate) fn begin<J: ?Sized>(&mut self, graph: &Graph<'_, J>, tx: TxIndex, near: Option<TxIndex>) {
        let Graph { dag, countdown, .. } = graph;
        dag.prefetch(tx.index() + GRAPH_LOOKAHEAD);
        self.distant = if dag.ranked { None } else { dag.next(tx) };
        if let Some(next) = near.and_then(|near| dag.successors(near.index()).first()) {
            countdown.prefetch(*next);
        }
    }

    /// Prefetches up to [`SUCCESSORS`] successors of `tx`, which is about to run, and the second successor as distant. Only
    /// successors that miss no other predecessor: all others run later.
    ///
    /// Returns the first successor if nothing is known of it yet: [`Self::after_run`] then looks for the one behind it.
    #[inline]
    pub(crate) fn before_run<L, J: Job<L> + ?Sized>(
        &mut self,
        graph: &Graph<'_, J>,
        local: &mut L,
        tx: TxIndex,
    ) -> Option<TxIndex> {
        let Graph { dag, job, countdown } = graph;
        let known = self.distant.take();
        let next = dag.next(tx);
        let in_chain = next.filter(|next| known == Some(*next));
        if let Some(next) = in_chain {
            self.prefetch_distant(graph, local, next);
        }
        let soon = |next: &&u32| !dag.is_join(**next) && countdown.awaits_one(**next);
        for soon in dag.successors(tx.index()).iter().filter(soon).take(SUCCESSORS).map(|next| TxIndex(*next)) {
            job.prefetch(local, soon, Lookahead::Far);
            if in_chain == Some(soon) {
                job.prefetch(local, soon, Lookahead::Near);
            } else {
                dag.prefetch(soon.index());
            }
        }
        next.filter(|_| in_chain.is_none())
    }

    /// Continues after a transaction ran: what was prefetched before has arrived. `unknown` is what [`Self::before_run`] gave.
    #[inline]
    pub(crate) fn after_run<L, J: Job<L> + ?Sized>(
        &mut self,
        graph: &Graph<'_, J>,
        local: &mut L,
        unknown: Option<TxIndex>,
    ) {
        let Graph { dag, job, countdown } = graph;
        if let Some(next) = unknown {
            self.prefetch_distant(graph, local, next);
        } else if let Some(distant) = self.distant {
            dag.prefetch_successors(distant.index());
            dag.next(distant).into_iter().for_each(|next| countdown.prefetch(next.0));
            job.prefetch(local, distant, Lookahead::Following);
        }
    }

    /// Prefetches the first successor of `next`, which waits for the transaction that runs.
    #[inline]
    fn prefetch_distant<L, J: Job<L> + ?Sized>(&mut self, graph: &Graph<'_, J>, local: &mut L, next: TxIndex) {
        let Graph { dag, job, .. } = graph;
        self.distant = dag.next(next);
        if let Some(distant) = self.distant {
            dag.prefetch(distant.index());
            job.prefetch(local, distant, Lookahead::Distant);
        }
    }
}
