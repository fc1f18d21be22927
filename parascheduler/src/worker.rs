//! A worker of a run over a DAG: takes a ready transaction, runs it, and counts its successors down.
//!
//! ```text
//! kept successor ─► own deque ─► claimed sources ─► another worker's deque ─► sleep
//! ```
//!
//! Correctness lives in `countdown.rs` (a successor sees its predecessors) and `idle.rs` (no lost wakeup, exact end); the
//! crate's README has the argument. Prefetches are in `prefetch.rs`.

use crate::{
    claimed::{Claimed, FAR},
    countdown::Ready,
    cursor::Cursor,
    dag::TxIndex,
    idle::{EndOnPanic, Idle},
    job::{Job, Report, Verdict},
    prefetch::{Chain, Graph},
};
use crossbeam_deque::{Steal, Stealer, Worker as Deque};

/// State that all workers of a run share.
#[derive(Debug)]
pub(crate) struct Shared<'a, J: ?Sized> {
    pub(crate) graph: Graph<'a, J>,
    pub(crate) cursor: &'a Cursor,
    pub(crate) idle: &'a Idle,
    pub(crate) stealers: &'a [Stealer<Ready>],
}

/// State that one worker of a run owns.
#[derive(Debug)]
pub(crate) struct Worker<'a, L, J: ?Sized> {
    shared: &'a Shared<'a, J>,
    /// Index of our own stealer.
    index: usize,
    local: &'a mut L,
    /// Ready nodes, stealable by other workers.
    deque: &'a mut Deque<Ready>,
    /// Sources claimed and not yet run; made stealable when another worker sleeps.
    claimed: Claimed,
    /// Number of claimed sources below which more are claimed.
    low: usize,
    chain: Chain,
    /// Transactions finished since the last [`Idle::retire`].
    done: usize,
    report: &'a mut Report,
}

/// Searches for work before sleeping, each pause twice as long as the one before: some 80 µs, about as long as waking a
/// thread takes on a virtual machine. A model checker gains nothing from the longer pauses.
const SPINS: u32 = if cfg!(loom) { 7 } else { 12 };

/// Successors pushed between two wakeups while many become ready at once.
const WAKE_EVERY: usize = 64;

impl<'a, L, J: Job<L> + ?Sized> Worker<'a, L, J> {
    pub(crate) const fn new(
        shared: &'a Shared<'a, J>,
        index: usize,
        local: &'a mut L,
        deque: &'a mut Deque<Ready>,
        report: &'a mut Report,
    ) -> Self {
        Self { shared, index, local, deque, claimed: Claimed::new(), low: 1, chain: Chain::new(), done: 0, report }
    }

    /// Works until the run is over.
    pub(crate) fn run(mut self) {
        let _guard = EndOnPanic(self.shared.idle);
        while let Some(mut ready) = self.next() {
            // One successor stays on this core, with what it needs in the cache; the chain goes on without the deque.
            while let Some(kept) = self.finish(ready) {
                ready = kept;
                if self.shared.idle.is_over() {
                    return;
                }
            }
        }
    }

    /// Runs a ready transaction unless it is poisoned, and returns one that became ready.
    #[inline]
    fn finish(&mut self, ready: Ready) -> Option<Ready> {
        let graph = &self.shared.graph;
        let tx = TxIndex(ready.node());
        let poisoned = if ready.is_poisoned() {
            self.report.withdrawn.push(tx);
            true
        } else {
            let unknown = self.chain.before_run(graph, self.local, tx);
            let escaped = graph.job.run(self.local, tx) == Verdict::Escaped;
            self.chain.after_run(graph, self.local, unknown);
            if escaped {
                self.report.escaped.push(tx);
            }
            escaped
        };
        self.done += 1;
        let mut kept = None;
        let mut pushed = 0;
        self.release(tx.0, poisoned, &mut kept, &mut pushed);
        if pushed != 0 {
            self.shared.idle.wake(pushed);
        }
        kept
    }

    /// Counts `node` as done with all its successors. The first that becomes ready is kept, the others are pushed. A join
    /// is done on the spot; its successors are transactions, so this recurs once.
    #[inline]
    fn release(&mut self, node: u32, poisoned: bool, kept: &mut Option<Ready>, pushed: &mut usize) {
        let Shared { graph, idle, .. } = self.shared;
        for next in graph.dag.successors(node as usize) {
            let Some(ready) = graph.countdown.arrive(*next, poisoned) else { continue };
            if graph.dag.is_join(*next) {
                self.release(*next, ready.is_poisoned(), kept, pushed);
            } else if kept.is_none() {
                *kept = Some(ready);
            } else {
                self.deque.push(ready);
                *pushed += 1;
                if *pushed == WAKE_EVERY {
                    idle.wake(*pushed);
                    *pushed = 0;
                }
            }
        }
    }

    /// Takes the next ready transaction: from the own deque, then a claimed source, then from another worker. [`None`] when
    /// the run is over.
    #[inline]
    fn next(&mut self) -> Option<Ready> {
        if self.shared.idle.is_over() {
            return None;
        }
        if let Some(ready) = self.deque.pop() {
            return Some(ready);
        }
        if self.claimed.len() < self.low {
            self.claim();
        }
        let (graph, local) = (&self.shared.graph, &mut *self.local);
        let Some(tx) = self.claimed.next(|tx, lookahead| graph.prefetch_source(local, tx, lookahead)) else {
            return self.starve();
        };
        self.chain.begin(graph, tx, self.claimed.near());
        if self.claimed.len() != 0 && self.shared.idle.is_awaited() {
            self.share_claimed();
        }
        Some(Ready::source(tx.0))
    }

    /// Claims a chunk of sources, if any are left. Unless sources are ranked, that is before the last chunk ends, so that each
    /// is prefetched in time. A worker owns at most two chunks, half of its share of what is left.
    fn claim(&mut self) {
        let local = &mut *self.local;
        let Shared { graph, cursor, stealers, .. } = self.shared;
        let chunk = &graph.dag.sources()[cursor.claim(self.index, stealers.len())];
        self.low = if graph.dag.ranked { 1 } else { chunk.len().clamp(1, FAR) };
        self.claimed.add(chunk.iter().copied(), |tx, lookahead| graph.prefetch_source(local, tx, lookahead));
    }

    /// Makes the claimed sources stealable: a worker sleeps, so the cursor has nothing left for it.
    #[cold]
    fn share_claimed(&mut self) {
        let mut shared = 0;
        for tx in self.claimed.drain() {
            self.deque.push(Ready::source(tx.0));
            shared += 1;
        }
        self.shared.idle.wake(shared);
    }

    /// Retires the finished transactions, then searches for work, then sleeps.
    #[cold]
    fn starve(&mut self) -> Option<Ready> {
        let idle = self.shared.idle;
        idle.retire(core::mem::take(&mut self.done));
        for spin in 0..SPINS {
            if idle.is_over() {
                return None;
            }
            if let Some(ready) = self.steal() {
                return Some(ready);
            }
            for _ in 0..1 << spin {
                core::hint::spin_loop();
            }
        }
        idle.wait_for(|| self.steal())
    }

    /// Takes half of another worker's ready nodes. [`None`] only if every deque was seen empty.
    fn steal(&self) -> Option<Ready> {
        let stealers = self.shared.stealers;
        loop {
            let mut raced = false;
            for i in 1..stealers.len() {
                let victim = &stealers[(self.index + i) % stealers.len()];
                match victim.steal_batch_and_pop(self.deque) {
                    Steal::Success(ready) => {
                        // A worker that looked while the batch was between two deques may have missed it.
                        if !self.deque.is_empty() {
                            self.shared.idle.wake(self.deque.len());
                        }
                        return Some(ready);
                    }
                    Steal::Retry => raced = true,
                    Steal::Empty => {}
                }
            }
            if !raced {
                return None;
            }
        }
    }
}
