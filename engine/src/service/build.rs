//! Pool of a service, and blocks that are built from it.

use super::{
    Service,
    driver::{Driver, Order, rows_above},
    environment::check as check_environment,
    execute::{Executing, Failed, Frame, environment, keep, sound},
    failure::unread,
    kept::{Changed, Kept},
    shared::{PoolRules, Shared, is_forced},
    slot::{Ordered, Slot},
};
use crate::{
    builder::{Budget, Built, Reason, Target, Template},
    model::CandidateTx,
    pool::{Account, Accounts, Admission, Batch, Fees, Pool, Settled, Tip},
    recovery::{CacheStats, Form, RecoverError, RecoveredTx},
    state::{SnapshotError, StateSnapshot},
    trie::strings_root,
};
use alloy_primitives::{Address, B256, Bytes};
use phalanx_engine_api::{
    self as api, Build, BuildHandle, BuildRequest, BuiltCandidate, CommittedTip, ExecId, Failure, InvalidCause,
    RetryCause, desk::Desk,
};
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{Arc, atomic::Ordering},
};

/// Number of transactions that are taken from the pool at a time.
const TAKEN: usize = 4096;

/// Number of transactions that are recovered side by side for the pool.
const RECOVERED: usize = 256;

/// Reason for which a transaction did not reach the pool's rules.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The bytes are no transaction of this chain.
    #[error(transparent)]
    Recover(#[from] RecoverError),
    /// A blob transaction, and the service's blocks have none: it would keep out the sender's later transactions.
    #[error("blocks have no blobs here: the engine has no chain for whole blocks, or replicas order them")]
    Blobs,
    /// The state cannot be read now, or at all.
    #[error(transparent)]
    State(#[from] Failure),
}

/// Transactions of [`Service::recover`], each with its senders or the reason why it has none.
#[derive(Debug)]
pub struct Recovered(Vec<Result<Arc<RecoveredTx>, SendError>>);

/// A committed state as the pool reads it.
pub(super) struct Senders(pub(super) StateSnapshot);

impl Accounts for Senders {
    type Error = Failure;

    fn account(&self, address: &Address) -> Result<Account, Failure> {
        let Some(info) = self.0.account(address).map_err(unread)? else { return Ok(Account::default()) };
        let delegates = |hash: &B256| Ok::<_, SnapshotError>(self.0.code(hash)?.is_some_and(|code| code.is_eip7702()));
        let delegates = (!info.is_empty_code_hash()).then(|| delegates(&info.code_hash)).transpose().map_err(unread)?;
        Ok(Account::new(info.nonce, info.balance, delegates))
    }
}

impl Service {
    /// Offers a transaction, encoded as nodes send it, to the pool.
    ///
    /// # Errors
    /// If the bytes are no transaction of this chain and of the hard fork of its committed block. The pool's decision is
    /// in the [`Admission`].
    pub fn send(&self, bytes: &[u8]) -> Result<Admission, SendError> {
        self.send_all(&[bytes])?.pop().expect("a result per transaction")
    }

    /// Offers many transactions to the pool, in order. Costs a fraction of as many [`Self::send`]: signatures are recovered
    /// side by side and unknown senders are read in one call. Nothing waits for other calls.
    ///
    /// # Errors
    /// As [`Self::admit`].
    pub fn send_all<B: AsRef<[u8]>>(&self, encoded: &[B]) -> Result<Vec<Result<Admission, SendError>>, Failure> {
        self.admit(self.recover(encoded))
    }

    /// Does the part of [`Self::send_all`] that looks at no state: most of its time, and on as many threads as call it.
    pub fn recover<B: AsRef<[u8]>>(&self, encoded: &[B]) -> Recovered {
        let spec = *self.shared.spec.lock();
        let recovery = self.shared.recovery.clone().with_spec(spec);
        // What one pass leaves for the next stays in the cache of the core.
        let recovered = encoded.chunks(RECOVERED).flat_map(|chunk| recovery.recover_each(Form::Pooled, chunk));
        let fit = |tx: Arc<RecoveredTx>| match self.shared.has_blobs || tx.tx().blob_hashes.is_empty() {
            true => Ok(tx),
            false => Err(SendError::Blobs),
        };
        Recovered(recovered.map(|tx| tx.map_err(SendError::from).and_then(fit)).collect())
    }

    /// Offers recovered transactions to the pool, in order, under one lock.
    ///
    /// # Errors
    /// If the state cannot be read now, or at all; then the pool has not changed. Each transaction has its own result
    /// besides, as from [`Self::send`].
    pub fn admit(&self, recovered: Recovered) -> Result<Vec<Result<Admission, SendError>>, Failure> {
        // Without the lock: a remote state may take its time.
        let senders = recovered.0.iter().flatten().map(|tx| tx.sender());
        self.shared.views.read_ahead(senders).map_err(unread)?;
        self.admit_into(&mut self.shared.pool.lock(), recovered)
    }

    /// Does [`Self::admit`], unless the pool is in use at this moment. A remote state is read under the lock of the pool.
    ///
    /// # Errors
    /// The transactions, if it is.
    pub fn try_admit(
        &self,
        recovered: Recovered,
    ) -> Result<Result<Vec<Result<Admission, SendError>>, Failure>, Recovered> {
        match self.shared.pool.try_lock() {
            Some(mut pool) => Ok(self.admit_into(&mut pool, recovered)),
            None => Err(recovered),
        }
    }

    /// Admits into the locked pool.
    fn admit_into(&self, pool: &mut Pool, recovered: Recovered) -> Result<Vec<Result<Admission, SendError>>, Failure> {
        let mut fit = Vec::with_capacity(recovered.0.len());
        let refused = recovered.0.into_iter().map(|tx| tx.map(|tx| fit.push(tx)).err()).collect::<Vec<_>>();
        if fit.is_empty() {
            return Ok(refused.into_iter().flatten().map(Err).collect());
        }
        // In this order: the driver commits, then tells the pool which of its senders changed. A state from before the lock could be
        // older than that, and a sender that is new to the pool would keep its old nonce: its transactions would wait for ever.
        let senders = Senders(self.snapshot(api::ViewAt::Committed)?);
        let mut admitted = pool.add_all(fit, &senders)?.into_iter();
        let mut next = || admitted.next().expect("an admission per recovered transaction");
        Ok(refused.into_iter().map(|refused| refused.map_or_else(|| Ok(next()), Err)).collect())
    }

    /// Checks that all bytes are transactions of the chain under the hard fork of this environment, with signers: for proposals of
    /// others. State is not looked at. What is found is kept for the execution, within [`ServiceConfig::recovered_bytes`].
    ///
    /// Runs on all threads, in time linear in the bytes.
    ///
    /// # Errors
    /// Place of the first that is none, and the reason.
    ///
    /// [`ServiceConfig::recovered_bytes`]: super::ServiceConfig::recovered_bytes
    pub fn check_payload(&self, env: &api::BlockEnv, txs: &[Bytes]) -> Result<(), (usize, RecoverError)> {
        let Shared { recovery, rules, workers, .. } = &*self.shared;
        let recovery = recovery.clone().with_spec(rules.plain(&environment(env)).spec);
        let decoded = recovery.recover_batch(workers, Form::Block, txs);
        decoded.into_iter().enumerate().try_for_each(|(place, tx)| tx.map(drop).map_err(|why| (place, why)))
    }

    /// Root of a block's transactions by their encodings, as a header commits to it, on all threads. O(bytes).
    pub fn transactions_root(&self, txs: &[Bytes]) -> B256 {
        self.shared.workers.install(|| strings_root(txs))
    }

    /// Nonce of a sender's next transaction: after those in the pool that can run, and after those in the committed
    /// state.
    ///
    /// # Errors
    /// If the state cannot be read now, or at all.
    pub fn next_nonce(&self, sender: &Address) -> Result<u64, Failure> {
        if let Some(nonce) = self.shared.pool.lock().next_nonce(sender) {
            return Ok(nonce);
        }
        let info = self.snapshot(api::ViewAt::Committed)?.account(sender).map_err(unread)?;
        Ok(info.map_or(0, |info| info.nonce))
    }

    /// Counters of the recovered transactions that are kept: of those that wait, and of the newest blocks. O(1).
    pub fn recovered(&self) -> CacheStats {
        self.shared.recovery.cache_stats()
    }

    /// Gives the pool to `read`, which should be short: execution may wait for it.
    pub fn with_pool<R>(&self, read: impl FnOnce(&Pool) -> R) -> R {
        read(&self.shared.pool.lock())
    }

    /// Removes a transaction that waits, without its sender's later ones. Returns false if it is not there, or in a block that is being
    /// built.
    pub fn forget(&self, hash: &B256) -> bool {
        self.shared.pool.lock().remove(hash)
    }

    /// Number of transactions in the pool.
    pub fn waiting(&self) -> usize {
        self.shared.pool.lock().len()
    }
}

/// Job that the driver works on when no submitted block is waiting. A submission meanwhile ends it with its best
/// block so far.
#[derive(Debug)]
struct Job(Arc<Slot>);

impl BuildHandle for Job {
    fn best(&self) -> Result<BuiltCandidate, Failure> {
        self.0.best()
    }

    fn wait(&self, time: core::time::Duration) -> bool {
        self.0.wait(time)
    }

    fn finish(self: Box<Self>) -> Result<BuiltCandidate, Failure> {
        self.0.finish()
    }

    fn cancel(self: Box<Self>) {}
}

impl Drop for Job {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

impl Build for Service {
    /// Builds from the transactions of the pool that no uncommitted ancestor holds. The block is executed while it is
    /// built: submitting it costs nothing, as long as it is among the last four. The policy is the service's.
    ///
    /// Forced transactions run whatever is submitted meanwhile. Those of the chain ([`crate::encode_forced`]) need
    /// [`ServiceConfig::with_forced_check`](super::ServiceConfig::with_forced_check), and all of them are in the block.
    fn build(&self, request: BuildRequest) -> Result<Box<dyn BuildHandle>, Failure> {
        self.shared.check()?;
        let desk = self.shared.desk.lock();
        let tip = desk.rows().tip();
        let below = if tip.committed.exec == request.parent {
            Some(tip.committed.height)
        } else {
            desk.value(request.parent).and(desk.candidate(request.parent)).map(|parent| parent.env().height)
        };
        drop(desk);
        let below = below.ok_or(Failure::Retry(RetryCause::MissingParent(request.parent)))?;
        let (says, expected) = (request.env.height, below + 1);
        if says != expected {
            return Err(Failure::Invalid(api::InvalidCause::Height { says, expected }));
        }
        // Before the driver takes the job, whose first answer is the empty block. Behind a parent that has not run it is the driver's.
        if let Ok(parent) = self.kept(api::ViewAt::Exec(request.parent)) {
            check_environment(&self.shared.rules, &request.env, &parent.fees).map_err(Failure::Invalid)?;
        }
        let forced = self.shared.forced_of(&request).map_err(Failure::Invalid)?;
        let empty = self.shared.proposal(&request, Vec::new());
        let empty = BuiltCandidate { candidate: empty, outcome: None, dropped: Vec::new() };
        let slot = Arc::new(Slot::new(request, forced, empty));
        self.orders.send(Order::Build(Ordered(Arc::clone(&slot)))).map_err(|_| self.shared.stopped())?;
        Ok(Box::new(Job(slot)))
    }
}

/// Transactions that a job has offered to its builder, by rank.
type Offered = HashMap<u64, Arc<RecoveredTx>>;

fn bytes_of<'c>(candidates: impl Iterator<Item = &'c CandidateTx>, offered: &Offered) -> Vec<Bytes> {
    candidates.filter_map(|candidate| offered.get(&candidate.rank)).map(|tx| tx.bytes().clone()).collect()
}

/// A block so far, which has no outcome yet.
fn best_of(shared: &Shared, request: &BuildRequest, best: &Built, offered: &Offered) -> BuiltCandidate {
    let candidate = shared.proposal(request, bytes_of(best.txs.iter(), offered));
    let dropped = bytes_of(best.dropped.iter().map(|dropped| &dropped.candidate), offered);
    BuiltCandidate { candidate, outcome: None, dropped }
}

impl Driver {
    /// Works on a job until it is stopped, the pool is exhausted, or the block is full.
    pub(super) fn build(&mut self, slot: &Slot) {
        if slot.begin() {
            let mut taken = Vec::new();
            let built = self.try_build(slot, &mut taken);
            let built = sound(&self.engine, built);
            if built.is_err() {
                // What was taken for the block waits again.
                drop(self.shared.pool.lock().settle(taken.into_iter().map(|rank| (rank, Settled::Returned))));
            }
            self.follow(Changed::default());
            slot.end(built.map_err(|failed| match failed {
                Failed::Invalid(cause) => Failure::Invalid(cause),
                Failed::Engine(why) => why,
            }));
        }
    }

    /// Builds a block; `ranks` are those of the transactions that it takes from the pool.
    fn try_build(&mut self, slot: &Slot, ranks: &mut Vec<u64>) -> Result<BuiltCandidate, Failed> {
        let request = &slot.request;
        let Some((parent, passed, rows)) = self.ancestry(request.parent) else {
            return Err(Failed::Engine(Failure::Retry(RetryCause::MissingParent(request.parent))));
        };
        self.engine.checkout(parent.view.block())?;
        self.engine.state.set_ancestors(Arc::clone(&parent.ancestors));
        let shared = Arc::clone(&self.shared);
        let frame = Frame::new(&self.engine, &request.env, &request.attributes, &parent).map_err(Failed::Invalid)?;
        self.engine.set_edits(frame.edits());
        let target = match &frame.header {
            Some(header) => {
                let withdrawals = frame.withdrawals().map(<[_]>::to_vec);
                Target::Whole(Box::new(Template { header: header.clone(), ommers: Vec::new(), withdrawals }))
            }
            None => Target::Plain(Box::new(environment(&request.env))),
        };
        // Blocks beside this one may hold the same transactions.
        let ancestors = self.shared.desk.lock().path(request.parent).unwrap_or_default();
        self.release(|_, id| ancestors.contains(id));
        let at_tip = passed.is_empty();
        // Ranks of the pool follow those of the forced transactions.
        let mut offered: Offered = (0..).zip(slot.forced.iter().cloned()).collect();
        let first = slot.forced.len() as u64;
        let budget = Budget {
            gas: request.budget.gas,
            state_gas: request.budget.gas,
            blob_gas: if frame.header.is_some() { u64::MAX } else { 0 },
            bytes: request.budget.bytes,
            txs: request.budget.txs.into(),
        };
        let forced = (0..).zip(slot.forced.iter().cloned()).map(|(rank, tx)| CandidateTx { tx, rank });
        // After an error the chain may have no rules for this environment: there is no block with it.
        let mut job = self.builder.open(&mut self.engine, target, budget, forced)?;
        let is_over = || slot.is_stopped() || shared.urgent.load(Ordering::Relaxed);
        // Also to seal the block so far for a caller.
        let stop = || is_over() || slot.is_wanted();
        let blob = job.env().blob_excess_gas_and_price.map_or(1, |blobs| blobs.blob_gasprice);
        let fees = Fees { base: request.env.base_fee.into(), blob };
        let tip = Tip { now: request.env.height, fees, changed: Vec::new() };
        if let Ok(senders) = shared.views.of(parent.view.clone()) {
            let pool = &mut *shared.pool.lock();
            pool.set_env(job.env().clone());
            // No account is read for this.
            let _ = pool.advance(&tip, &Senders(senders));
        }
        let spec = shared.rules.plain(&environment(&request.env)).spec;
        // No block is without them, and the block's gas bounds them.
        let mut progress = job.extend([], &|| false)?;
        if first > 0 {
            let mut best = job.best();
            if let Some(failure) = best.failure.take() {
                return Err(failure.into());
            }
            let lost = |rank: u64| rank < first && is_forced(slot.forced[rank as usize].bytes());
            if let Some(lost) = best.dropped.iter().map(|dropped| dropped.candidate.rank).find(|rank| lost(*rank)) {
                return Err(Failed::Invalid(InvalidCause::Forced { index: lost as u32 }));
            }
            slot.improve(Some(best_of(&shared, request, &best, &offered)));
        }
        while !is_over() {
            if slot.is_wanted() {
                let best = job.best();
                // A failure costs the block all its transactions, the forced ones too.
                let sound = best.failure.is_none().then(|| best_of(&shared, request, &best, &offered));
                slot.improve(sound);
                // A step at least, however often callers ask.
                job.step(&is_over)?;
                progress = job.extend([], &stop)?;
                continue;
            }
            if progress.waiting > 0 {
                break;
            }
            let max_gas = budget.gas.min(request.env.gas_limit).saturating_sub(progress.used.gas);
            let taken = shared.pool.lock().take(&Batch { max_txs: TAKEN, max_gas, ..Batch::default() });
            if taken.is_empty() {
                break;
            }
            ranks.extend(taken.iter().map(|tx| tx.rank()));
            let fresh = taken.into_iter().filter(|tx| {
                // Where Osaka begins with this block, those that wait have proofs that no payload takes.
                !passed.contains(tx.hash()) && tx.recovered().has_proofs_of(spec)
            });
            let candidates: Vec<_> = fresh
                .map(|tx| {
                    let (rank, tx) = (first + tx.rank(), Arc::clone(tx.recovered()));
                    offered.insert(rank, Arc::clone(&tx));
                    CandidateTx { tx, rank }
                })
                .collect();
            progress = job.extend(candidates, &stop)?;
        }
        let mut built = job.finish();
        // Before anything is judged by it.
        sound(&self.engine, Ok(()))?;
        // Nothing is decided: transactions of the block stay reserved for it, the others are returned, except those that are invalid
        // on the committed state. What is invalid after forced transactions may be so because of them.
        let on_committed = at_tip && first == 0;
        let mut settled: BTreeMap<u64, Settled> = ranks.iter().map(|rank| (*rank, Settled::Returned)).collect();
        let reserved: Vec<u64> = built.txs.iter().filter_map(|tx| tx.rank.checked_sub(first)).collect();
        settled.extend(reserved.iter().map(|rank| (*rank, Settled::Included)));
        for dropped in &built.dropped {
            if let (Reason::Invalid(reason), Some(rank), true) =
                (&dropped.reason, dropped.candidate.rank.checked_sub(first), on_committed)
            {
                settled.insert(rank, Settled::Invalid(reason.clone()));
            }
        }
        drop(shared.pool.lock().settle(settled));
        if first > 0
            && let Some(failure) = built.failure.take()
        {
            // The block has lost its transactions, the forced ones too.
            return Err(failure.into());
        }
        let candidate = shared.proposal(request, bytes_of(built.txs.iter(), &offered));
        self.reserved.push((candidate.id(), reserved));
        let dropped = bytes_of(built.dropped.iter().map(|dropped| &dropped.candidate), &offered);
        let txs: Vec<_> = built.txs.iter().filter_map(|tx| offered.get(&tx.rank)).cloned().collect();
        let statuses = vec![None; txs.len()];
        let executing = Executing { candidate: &candidate, parent: &parent, frame, rows, statuses, txs };
        let kept = keep(&mut self.engine, executing, built.executed)?;
        let outcome = kept.outcome.clone();
        if let Some(oldest) = self.shelf.put(candidate.id(), parent.view.block(), kept) {
            self.engine.discard(oldest)?;
        }
        Ok(BuiltCandidate { candidate, outcome, dropped })
    }

    /// Returns the transactions of built blocks to the pool, but for those that stay. Those of committed blocks have left it.
    pub(super) fn release(&mut self, stays: impl Fn(&Desk<Kept>, &ExecId) -> bool) {
        if self.reserved.is_empty() {
            return;
        }
        let desk = self.shared.desk.lock();
        let (stay, gone): (Vec<_>, Vec<_>) = self.reserved.drain(..).partition(|(id, _)| stays(&desk, id));
        drop(desk);
        self.reserved = stay;
        let ranks = gone.into_iter().flat_map(|(_, ranks)| ranks);
        drop(self.shared.pool.lock().settle(ranks.map(|rank| (rank, Settled::Returned))));
    }

    /// A parent, the hashes of the transactions of its uncommitted ancestors and its own, and the rows of committed
    /// blocks that are in no tag.
    fn ancestry(&self, parent: ExecId) -> Option<(Kept, HashSet<B256>, Vec<CommittedTip>)> {
        let desk = self.shared.desk.lock();
        let tip = desk.rows().tip();
        if tip.committed.exec == parent {
            return Some((tip.value.clone(), HashSet::new(), rows_above(&desk, tip.value.covered)));
        }
        let kept = desk.value(parent)?.clone();
        let path = desk.path(parent).ok()?;
        let facts = path.iter().filter_map(|id| desk.value(*id)?.facts.as_ref());
        let hashes = facts.flat_map(|facts| facts.hashes.iter().copied());
        let (hashes, rows) = (hashes.collect(), rows_above(&desk, kept.covered));
        Some((kept, hashes, rows))
    }

    /// Moves the pool to the committed block, with the accounts that it changed: after a commit, after a rewind, and after a
    /// build, which judges by the environment of its own block.
    pub(super) fn follow(&self, changed: Changed) {
        let desk = self.shared.desk.lock();
        let (now, kept) = (desk.height(), desk.rows().tip().value.clone());
        drop(desk);
        let PoolRules { spec, base, blob, env } = self.shared.pool_rules(&kept.fees, now);
        *self.shared.spec.lock() = spec;
        let pool = &mut *self.shared.pool.lock();
        drop(pool.set_spec(spec));
        pool.set_env(env);
        let known = *pool.fees();
        let fees = Fees { base: base.map_or(known.base, u128::from), blob: blob.unwrap_or(known.blob) };
        let changed = match changed {
            Changed::All(changed) => changed,
            Changed::Named(mut changed) => {
                changed.extend(pool.delegated());
                changed
            }
            Changed::Unknown => pool.iter().map(|tx| tx.tx().caller).collect(),
        };
        let tip = Tip { now, fees, changed };
        // If the state cannot be read, the pool stays as it was: it offers transactions that are invalid by now, and
        // they are dropped.
        if let Ok(view) = self.shared.views.of(kept.view) {
            let _ = pool.advance(&tip, &Senders(view));
        }
    }
}
