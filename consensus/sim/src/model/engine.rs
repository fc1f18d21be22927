//! The model behind the engine's trait.

use super::{Costs, Disk, Work, inner::Inner};
use alloy_primitives::{Address, B256, Bytes, U256};
use phalanx_engine_api::{
    AccountView, Candidate, CommitMeta, CommittedTip, EngineEvent, EngineStatus, ExecId, ExecutionEngine, Failure,
    Limits, Pressure, Priority, ReadState, StateView, Ticket, ViewAt, Waker,
};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The reference engine. See the [module](super).
#[derive(Debug)]
pub struct ModelEngine {
    inner: Mutex<Inner>,
}

impl ModelEngine {
    /// Opens the engine on `disk`: the last committed block, and staged ones that can still win.
    #[must_use]
    pub fn open(chain: u64, limits: Limits, costs: Costs, disk: Disk) -> Self {
        Self { inner: Mutex::new(Inner::open(chain, limits, costs, disk)) }
    }

    /// Begins all work that can begin.
    pub fn start(&self) -> Vec<Work> {
        self.lock().start()
    }

    /// Completes a piece of work. Work that is no longer wanted has no effect.
    pub fn finish(&self, work: &Work) {
        self.then_wake(|inner| inner.finish(work));
    }

    /// Does all pending work, in no time.
    pub fn run(&self) {
        loop {
            let started = self.start();
            if started.is_empty() {
                return;
            }
            for work in &started {
                self.finish(work);
            }
        }
    }

    /// Cuts the power and returns the disk, for [`Disk::power_cut`] and [`ModelEngine::open`].
    #[must_use]
    pub fn unplug(&self) -> Disk {
        self.lock().disk.clone()
    }

    /// Sets how many more records fit on the disk.
    pub fn set_disk_room(&self, room: Option<usize>) {
        self.lock().disk.set_room(room);
    }

    /// Makes this engine compute a wrong root at a height, like a bug.
    pub fn diverge_at(&self, height: u64) {
        self.lock().diverge_at = Some(height);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `f`, then the waker if events are pending.
    fn then_wake<T>(&self, f: impl FnOnce(&mut Inner) -> T) -> T {
        let mut inner = self.lock();
        let result = f(&mut inner);
        // States are memory only, so dropping them is safe here.
        drop(inner.desk.take_dropped());
        let waker = if inner.desk.has_events() { inner.waker.clone() } else { None };
        drop(inner);
        if let Some(waker) = waker {
            waker.wake();
        }
        result
    }
}

impl ExecutionEngine for ModelEngine {
    fn status(&self) -> EngineStatus {
        self.lock().desk.status()
    }

    fn committed_at(&self, height: u64) -> Option<CommittedTip> {
        self.lock().desk.committed_at(height)
    }

    fn submit(&self, ticket: Ticket, candidate: Candidate, priority: Priority) -> Result<(), Failure> {
        self.then_wake(|inner| inner.desk.submit(ticket, candidate, priority))
    }

    fn stage(&self, ticket: Ticket, id: ExecId) -> Result<(), Failure> {
        self.then_wake(|inner| inner.desk.stage(ticket, id))
    }

    fn commit(&self, ticket: Ticket, tip: ExecId, meta: CommitMeta) -> Result<(), Failure> {
        self.then_wake(|inner| inner.desk.commit(ticket, tip, meta))
    }

    fn keep_only(&self, _ticket: Ticket, leaves: &[ExecId]) -> Result<(), Failure> {
        self.then_wake(|inner| inner.desk.keep_only(leaves))
    }

    fn finalise(&self, _ticket: Ticket, height: u64) -> Result<(), Failure> {
        self.then_wake(|inner| inner.finalise(height))
    }

    fn rewind(&self, ticket: Ticket, to: ExecId) -> Result<(), Failure> {
        self.then_wake(|inner| inner.rewind(ticket, to))
    }

    fn quiesce(&self, ticket: Ticket) {
        self.then_wake(|inner| inner.desk.quiesce(ticket));
    }

    fn resume(&self) {
        self.lock().desk.resume();
    }

    fn pressure(&self) -> Pressure {
        self.lock().desk.pressure()
    }

    fn poll(&self, max: usize, out: &mut Vec<EngineEvent>) -> usize {
        self.lock().desk.poll(max, out)
    }

    fn set_waker(&self, waker: Waker) {
        self.lock().waker = Some(waker);
    }
}

/// Counters of all accounts at one block.
#[derive(Debug)]
struct Snapshot {
    height: u64,
    root: B256,
    accounts: BTreeMap<Address, u64>,
}

impl StateView for Snapshot {
    fn height(&self) -> u64 {
        self.height
    }

    fn root(&self) -> B256 {
        self.root
    }

    fn account(&self, address: Address) -> Result<Option<AccountView>, Failure> {
        let count = self.accounts.get(&address);
        Ok(count.map(|count| AccountView { balance: U256::from(*count), nonce: *count, code_hash: B256::ZERO }))
    }

    fn storage(&self, _address: Address, _slot: B256) -> Result<B256, Failure> {
        // The model's accounts have no storage, and an unwritten word is zero.
        Ok(B256::ZERO)
    }

    fn code(&self, _hash: B256) -> Result<Option<Bytes>, Failure> {
        // Nor have they code.
        Ok(None)
    }
}

impl ReadState for ModelEngine {
    fn view(&self, at: ViewAt) -> Result<Arc<dyn StateView>, Failure> {
        let (height, root, accounts) = self.lock().accounts(at)?;
        Ok(Arc::new(Snapshot { height, root, accounts }))
    }
}
