//! A [`SteppedService`] whose finished jobs are reported at their virtual end.

use crate::cmd::simulate::args::ClockKind;
use phalanx::{Performed, SteppedService, api::desk::Job};
use phalanx_lab::machine::clock;
use phalanx_sim::{
    Workshop,
    model::{Costs, Work},
};
use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// Cost of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Charge {
    /// Measured here.
    Measured(ClockKind),
    /// Given, so that one seed is one history.
    Given(Costs),
}

/// A real engine that works on request. Work is done at its virtual begin, and reported at its end.
#[derive(Debug)]
pub(crate) struct RealWorkshop {
    service: SteppedService,
    charge: Charge,
    /// Finished jobs that are not reported, by serial number.
    done: Mutex<BTreeMap<u64, Performed>>,
}

impl RealWorkshop {
    pub(super) fn new(service: SteppedService, charge: Charge) -> Self {
        Self { service, charge, done: Mutex::default() }
    }

    /// Ends the engine with work in flight.
    pub(super) fn abandon(self) {
        self.service.abandon();
    }

    fn done(&self) -> MutexGuard<'_, BTreeMap<u64, Performed>> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Performs a job and returns its time in µs.
    fn perform(&self, job: Job) -> u64 {
        let txs = self.service.txs(job.id);
        let (began, spent) = (Instant::now(), clock::process());
        let performed = self.service.perform(job);
        // Only the job and its writers work in this process meanwhile.
        let (wall, cpu) = (began.elapsed(), Duration::from_nanos(clock::process().saturating_sub(spent)));
        self.done().insert(job.serial, performed);
        match self.charge {
            Charge::Measured(kind) => {
                let took = if kind == ClockKind::Wall { wall } else { cpu };
                u64::try_from(took.as_micros()).unwrap_or(u64::MAX)
            }
            Charge::Given(costs) => costs.of(job.kind, txs as u64),
        }
    }
}

impl Workshop for RealWorkshop {
    type Engine = SteppedService;

    fn engine(&self) -> &SteppedService {
        &self.service
    }

    fn start(&self) -> Vec<Work> {
        self.service.start().into_iter().map(|job| Work { job, cost_us: self.perform(job) }).collect()
    }

    fn finish(&self, work: &Work) {
        let performed = self.done().remove(&work.job.serial);
        if let Some(performed) = performed {
            self.service.complete(performed);
        }
    }
}
