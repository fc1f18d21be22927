use crate::{
    Dag, Job, Notice, Report, TxIndex, Verdict,
    claimed::{Claimed, FAR},
    countdown::{Countdown, Ready},
    cursor::Cursor,
    idle::{EndOnPanic, Idle},
};
use crossbeam_deque::{Steal, Stealer, Worker as Deque};

/// What all workers of a run share.
#[derive(Debug)]
pub(crate) struct Shared<'a, J: ?Sized> {
    pub(crate) dag: &'a Dag,
    pub(crate) job: &'a J,
    pub(crate) countdown: &'a Countdown,
    pub(crate) cursor: &'a Cursor,
    pub(crate) idle: &'a Idle,
    pub(crate) stealers: &'a [Stealer<Ready>],
}

/// What one worker of a run owns.
#[derive(Debug)]
pub(crate) struct Worker<'a, L, J: ?Sized> {
    shared: &'a Shared<'a, J>,
    /// Which of the stealers is our own.
    index: usize,
    local: &'a mut L,
    /// Ready nodes, stealable by others.
    deque: &'a mut Deque<Ready>,
    /// Sources claimed and not yet run; shared out when somebody starves.
    claimed: Claimed,
    /// When fewer of them are left, more are claimed.
    low: usize,
    /// The next but one of the chain that is being run, or the one behind the source that is about to run, if that is known: it
    /// was announced as distant, and what the graph says of it was asked for.
    distant: Option<TxIndex>,
    /// Transactions finished since the last [`Idle::retire`].
    done: usize,
    report: &'a mut Report,
}

/// Looks for work this often, waiting twice as long each time, before sleeping: some 80 µs, about what waking a thread takes
/// on a virtual machine. A model checker has nothing to gain from the longer ones.
const SPINS: u32 = if cfg!(loom) { 7 } else { 12 };

/// Most transactions that one announces of those that wait for it. The first of them to become ready runs next on the same
/// worker, and one more is about what the rest of a chain needs.
const SOON: usize = 2;

/// How far ahead of the sources that a worker runs the graph is asked for: some cache lines.
const AHEAD: usize = 64;

/// Wakes others this often while many successors become ready at once.
const WAKE_EVERY: usize = 64;

impl<'a, L, J: Job<L> + ?Sized> Worker<'a, L, J> {
    pub(crate) const fn new(
        shared: &'a Shared<'a, J>,
        index: usize,
        local: &'a mut L,
        deque: &'a mut Deque<Ready>,
        report: &'a mut Report,
    ) -> Self {
        Self { shared, index, local, deque, claimed: Claimed::new(), low: 1, distant: None, done: 0, report }
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

    /// Runs a ready transaction unless it is poisoned, and returns one of those that became ready.
    #[inline]
    fn finish(&mut self, ready: Ready) -> Option<Ready> {
        let tx = TxIndex(ready.node());
        let poisoned = if ready.is_poisoned() {
            self.report.withdrawn.push(tx);
            true
        } else {
            let unknown = self.announce_successors(tx);
            let escaped = self.shared.job.run(self.local, tx) == Verdict::Escaped;
            self.follow_chain(unknown);
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

    /// Announces the first of those that wait for `tx`, which is about to run, and for no other any more: of what they touch
    /// only a part was just touched by those they waited for. And the one behind the first of them, as distant. If it is not
    /// known which one that is, gives the first, to be asked when `tx` has run.
    #[inline]
    fn announce_successors(&mut self, tx: TxIndex) -> Option<TxIndex> {
        let Shared { dag, job, countdown, .. } = self.shared;
        let known = self.distant.take();
        let next = dag.next(tx);
        let in_chain = next.filter(|next| known == Some(*next));
        if let Some(next) = in_chain {
            self.announce_distant(next);
        }
        let soon = |next: &&u32| !dag.is_join(**next) && countdown.waits_for_one(**next);
        for soon in dag.successors(tx.index()).iter().filter(soon).take(SOON).map(|next| TxIndex(*next)) {
            job.upcoming(self.local, soon, Notice::Far);
            if in_chain == Some(soon) {
                job.upcoming(self.local, soon, Notice::Near);
            } else {
                dag.prefetch(soon.index());
            }
        }
        next.filter(|_| in_chain.is_none())
    }

    /// While a transaction ran, what was asked for before has come. `unknown` is one that waits for it, if nothing is known
    /// of who waits for that one.
    #[inline]
    fn follow_chain(&mut self, unknown: Option<TxIndex>) {
        let Shared { dag, job, countdown, .. } = self.shared;
        if let Some(next) = unknown {
            self.announce_distant(next);
        } else if let Some(distant) = self.distant {
            dag.prefetch_successors(distant.index());
            dag.next(distant).into_iter().for_each(|next| countdown.prefetch(next.0));
            job.upcoming(self.local, distant, Notice::Following);
        }
    }

    /// Announces who waits for `next`, which waits for the transaction that runs.
    #[inline]
    fn announce_distant(&mut self, next: TxIndex) {
        let Shared { dag, job, .. } = self.shared;
        self.distant = dag.next(next);
        if let Some(distant) = self.distant {
            dag.prefetch(distant.index());
            job.upcoming(self.local, distant, Notice::Distant);
        }
    }

    /// Counts `node` as done with all its successors. The first that becomes ready is kept, the others are pushed; a
    /// join is done on the spot (its successors are transactions, so this recurs once).
    #[inline]
    fn release(&mut self, node: u32, poisoned: bool, kept: &mut Option<Ready>, pushed: &mut usize) {
        let shared = self.shared;
        for next in shared.dag.successors(node as usize) {
            let Some(ready) = shared.countdown.arrive(*next, poisoned) else { continue };
            if shared.dag.is_join(*next) {
                self.release(*next, ready.is_poisoned(), kept, pushed);
            } else if kept.is_none() {
                *kept = Some(ready);
            } else {
                self.deque.push(ready);
                *pushed += 1;
                if *pushed == WAKE_EVERY {
                    shared.idle.wake(*pushed);
                    *pushed = 0;
                }
            }
        }
    }

    /// The next ready transaction: own successors first, then own sources, then the cursor's, then somebody else's.
    /// Nothing when the run is over.
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
        let (shared, local) = (self.shared, &mut *self.local);
        let Some(tx) = self.claimed.next(|tx, notice| announce_source(shared, local, tx, notice)) else {
            return self.starve();
        };
        // Another core has made the graph, and its lines come one by one.
        let Shared { dag, countdown, .. } = self.shared;
        dag.prefetch(tx.index() + AHEAD);
        self.distant = if dag.ranked { None } else { dag.next(tx) };
        if let Some(next) = self.claimed.near().and_then(|near| dag.successors(near.index()).first()) {
            countdown.prefetch(*next);
        }
        if self.claimed.len() != 0 && self.shared.idle.is_awaited() {
            self.share_claimed();
        }
        Some(Ready::source(tx.0))
    }

    /// Claims a chunk of sources, if any are left. Where they are not ranked, that is before the last chunk is through, so that
    /// they are announced in time; what a worker has of its own is two chunks at most, half of its share of what is left.
    fn claim(&mut self) {
        let (shared, local) = (self.shared, &mut *self.local);
        let Shared { dag, cursor, stealers, .. } = shared;
        let chunk = &dag.sources()[cursor.claim(self.index, stealers.len())];
        self.low = if dag.ranked { 1 } else { chunk.len().clamp(1, FAR) };
        self.claimed.add(chunk.iter().copied(), |tx, notice| announce_source(shared, local, tx, notice));
    }

    /// Makes the claimed sources stealable: somebody sleeps, so the cursor has nothing left for them.
    #[cold]
    fn share_claimed(&mut self) {
        let mut shared = 0;
        for tx in self.claimed.drain() {
            self.deque.push(Ready::source(tx.0));
            shared += 1;
        }
        self.shared.idle.wake(shared);
    }

    /// Nothing of our own is left: settles the count, then searches, then sleeps.
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

    /// Takes half of what another worker has ready. Empty-handed only if every deque was seen empty.
    fn steal(&self) -> Option<Ready> {
        let stealers = self.shared.stealers;
        loop {
            let mut raced = false;
            for i in 1..stealers.len() {
                let victim = &stealers[(self.index + i) % stealers.len()];
                match victim.steal_batch_and_pop(self.deque) {
                    Steal::Success(ready) => {
                        // Whoever looked while the batch was between two deques may have missed it.
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

/// Announces a source, and with it, if sources come in the order in which the graph was asked for, the first that waits for it.
#[inline]
fn announce_source<L, J: Job<L> + ?Sized>(shared: &Shared<'_, J>, local: &mut L, tx: TxIndex, notice: Notice) {
    let Shared { dag, job, countdown, .. } = shared;
    job.upcoming(local, tx, notice);
    let Some(next) = (if dag.ranked { None } else { dag.next(tx) }) else { return };
    if notice == Notice::Far {
        dag.prefetch(next.index());
        countdown.prefetch(next.0);
        job.upcoming(local, next, Notice::Distant);
    } else if countdown.waits_for_one(next.0) {
        // One that many sources lead to is not asked for by each.
        dag.prefetch_successors(next.index());
        job.upcoming(local, next, Notice::Following);
    }
}
