//! A [`SteppedService`] that keeps what is done and not yet told.

use super::Charge;
use crate::{clock, simulate::ClockKind};
use phalanx::{
    Performed, SteppedService,
    api::{
        Candidate, CommitMeta, Committed, Engine, EngineEvent, EngineStatus, ExecId, Failure, Pressure, Priority,
        ReadState, StateView, Ticket, ViewAt, Waker, desk::Job,
    },
};
use phalanx_sim::{Workshop, model::Work};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// A real engine that works when it is told. Work is done when it begins, and told when it ends.
#[derive(Debug)]
pub(crate) struct RealEngine {
    service: SteppedService,
    charge: Charge,
    books: Mutex<Books>,
}

#[derive(Debug, Default)]
struct Books {
    /// Done and not told, by serial number.
    done: BTreeMap<u64, Performed>,
    /// Height and transactions of what was submitted and is not committed.
    sizes: BTreeMap<ExecId, (u64, u64)>,
}

impl RealEngine {
    pub(super) fn new(service: SteppedService, charge: Charge) -> Self {
        Self { service, charge, books: Mutex::default() }
    }

    /// Ends it, whatever is under way.
    pub(super) fn abandon(self) {
        self.service.abandon();
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does a job; how long it takes, µs.
    fn perform(&self, job: Job) -> u64 {
        let (began, spent) = (Instant::now(), clock::process());
        let performed = self.service.perform(job);
        // Nothing else works in this process meanwhile, but what the job has writers do.
        let (wall, cpu) = (began.elapsed(), Duration::from_nanos(clock::process().saturating_sub(spent)));
        let mut books = self.books();
        books.done.insert(job.serial, performed);
        match self.charge {
            Charge::Measured(kind) => {
                let took = if kind == ClockKind::Wall { wall } else { cpu };
                u64::try_from(took.as_micros()).unwrap_or(u64::MAX)
            }
            Charge::Given(costs) => costs.of(job.kind, books.sizes.get(&job.id).map_or(0, |(_, txs)| *txs)),
        }
    }
}

impl Workshop for RealEngine {
    fn start(&self) -> Vec<Work> {
        self.service.start().into_iter().map(|job| Work { job, cost_us: self.perform(job) }).collect()
    }

    fn finish(&self, work: &Work) {
        let performed = self.books().done.remove(&work.job.serial);
        if let Some(performed) = performed {
            self.service.complete(performed);
        }
    }
}

impl ReadState for RealEngine {
    fn view(&self, at: ViewAt) -> Result<Arc<dyn StateView>, Failure> {
        self.service.view(at)
    }
}

impl Engine for RealEngine {
    fn status(&self) -> EngineStatus {
        self.service.status()
    }

    fn committed_at(&self, height: u64) -> Option<Committed> {
        self.service.committed_at(height)
    }

    fn submit(&self, ticket: Ticket, candidate: Candidate, priority: Priority) -> Result<(), Failure> {
        let (id, size) = (candidate.id(), (candidate.env().height, candidate.payload().txs().len() as u64));
        self.service.submit(ticket, candidate, priority)?;
        let committed = self.service.status().committed.height;
        let mut books = self.books();
        books.sizes.retain(|_, (height, _)| *height > committed);
        books.sizes.insert(id, size);
        Ok(())
    }

    fn stage(&self, ticket: Ticket, id: ExecId) -> Result<(), Failure> {
        self.service.stage(ticket, id)
    }

    fn commit(&self, ticket: Ticket, tip: ExecId, meta: CommitMeta) -> Result<(), Failure> {
        self.service.commit(ticket, tip, meta)
    }

    fn keep_only(&self, ticket: Ticket, leaves: &[ExecId]) -> Result<(), Failure> {
        self.service.keep_only(ticket, leaves)
    }

    fn finalise(&self, ticket: Ticket, height: u64) -> Result<(), Failure> {
        self.service.finalise(ticket, height)
    }

    fn rewind(&self, ticket: Ticket, to: ExecId) -> Result<(), Failure> {
        self.service.rewind(ticket, to)
    }

    fn quiesce(&self, ticket: Ticket) {
        self.service.quiesce(ticket);
    }

    fn resume(&self) {
        self.service.resume();
    }

    fn pressure(&self) -> Pressure {
        self.service.pressure()
    }

    fn poll(&self, max: usize, out: &mut Vec<EngineEvent>) -> usize {
        self.service.poll(max, out)
    }

    fn set_waker(&self, waker: Waker) {
        self.service.set_waker(waker);
    }
}
