//! Service without a thread, driven step by step: for a simulation that puts its own time between the steps.

use super::{
    Service, ServiceConfig,
    driver::{Completion, Driver, Order},
};
use crate::{engine::Engine, model::Error};
use crossbeam_channel::Receiver;
use parking_lot::Mutex;
use phalanx_engine_api::{
    self as api, Candidate, CommitMeta, CommittedTip, EngineEvent, EngineStatus, ExecId, Failure, Pressure, Priority,
    ReadState, StateView, Ticket, ViewAt, Waker, desk::Job,
};
use std::sync::Arc;

/// Engine of a [`Service`] without its thread. [`Self::start`] begins jobs, [`Self::perform`] performs one, and
/// [`Self::complete`] reports it: only then does consensus get its events.
#[derive(Debug)]
pub struct SteppedService {
    service: Service,
    stepper: Mutex<Stepper>,
}

#[derive(Debug)]
struct Stepper {
    driver: Driver,
    inbox: Receiver<Order>,
}

/// A job that is done and not yet reported.
#[derive(Debug)]
#[must_use = "the engine waits until it is told that the job has ended"]
pub struct Performed(Completion);

impl SteppedService {
    /// As [`Service::open`].
    ///
    /// # Errors
    /// The errors of [`Service::open`].
    pub fn open(engine: Engine, config: ServiceConfig) -> Result<Self, Error> {
        let (service, driver, inbox) = Service::assemble(engine, config)?;
        Ok(Self { service, stepper: Mutex::new(Stepper { driver, inbox }) })
    }

    /// Begins jobs, at most one for each of executor, hasher, disk and marker. All of them must be performed and
    /// completed.
    pub fn start(&self) -> Vec<Job> {
        self.stepper.lock().driver.start()
    }

    /// Number of transactions of a speculative block.
    #[must_use]
    pub fn txs(&self, id: ExecId) -> usize {
        self.service.shared.desk.lock().candidate(id).map_or(0, |candidate| candidate.payload().txs().len())
    }

    /// Performs a job, its write included. Until it is completed, only later jobs of the engine see its effect.
    pub fn perform(&self, job: Job) -> Performed {
        let service = &self.service;
        let Stepper { driver, inbox } = &mut *self.stepper.lock();
        let mut done = driver.perform(job);
        while done.is_none() {
            // Requests leave messages that there is a job; the caller knows.
            done = match inbox.recv() {
                Ok(Order::Written(job, result)) => Some(driver.written(job, result)),
                Ok(Order::Handed(number, result)) => driver.handed(number, result),
                Ok(_) => None,
                Err(_) => Some(Completion::Failed(job, service.shared.stopped())),
            };
        }
        Performed(done.unwrap_or(Completion::Failed(job, service.shared.stopped())))
    }

    /// Reports the end of a job.
    pub fn complete(&self, performed: Performed) {
        self.stepper.lock().driver.complete(performed.0);
    }

    /// Ends the service with jobs in flight. Written blocks can be opened again.
    pub fn abandon(self) {
        drop(self);
    }
}

impl api::ExecutionEngine for SteppedService {
    fn status(&self) -> EngineStatus {
        self.service.status()
    }

    fn committed_at(&self, height: u64) -> Option<CommittedTip> {
        self.service.committed_at(height)
    }

    fn submit(&self, ticket: Ticket, candidate: Candidate, priority: Priority) -> Result<(), Failure> {
        self.service.submit(ticket, candidate, priority)
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
        self.stepper.lock().driver.rewind(ticket, to)
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

impl ReadState for SteppedService {
    fn view(&self, at: ViewAt) -> Result<Arc<dyn StateView>, Failure> {
        self.service.view(at)
    }
}
