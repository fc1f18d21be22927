//! The core against the engine: requests go out, events come back, and a call waits for its end.

use crate::{
    core::{Core, Done, Out},
    error::{CallError, Halt},
};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use phalanx_engine_api::{EngineEvent, ExecId, ExecutionEngine, Operation, Waker};
use std::{
    collections::VecDeque,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

/// Time after which a step that cannot be done now is tried again.
const PAUSE: Duration = Duration::from_millis(250);

/// Interval at which a call that waits looks whether the node stops.
const INTERVAL: Duration = Duration::from_millis(100);

/// Number of events that are taken from the engine at a time.
const EVENTS: usize = 64;

/// Reason for which a call has no answer.
#[derive(Debug)]
pub(crate) enum Missed {
    Call(CallError),
    Halt(Halt),
}

impl From<CallError> for Missed {
    fn from(error: CallError) -> Self {
        Self::Call(error)
    }
}

/// State of the call that waits.
enum Progress {
    Done(Done),
    Waiting,
    /// The step is tried again after a pause.
    Paused,
}

/// The core, and the events that it gets.
#[derive(Debug)]
pub(crate) struct Driver {
    pub(crate) core: Core,
    woken: Receiver<()>,
    events: Vec<EngineEvent>,
}

impl Driver {
    /// Creates a driver that takes the engine's events from now on.
    pub(crate) fn new(engine: &dyn ExecutionEngine) -> Self {
        let (wake, woken): (Sender<()>, _) = bounded(1);
        engine.set_waker(Waker::new(move || _ = wake.try_send(())));
        Self { core: Core::new(&engine.status().committed), woken, events: Vec::new() }
    }

    /// Performs requests, and gives the core what has happened since the last call.
    pub(crate) fn settle(&mut self, engine: &dyn ExecutionEngine, outs: Vec<Out>) -> Result<(), Missed> {
        self.perform(engine, outs).map(drop)
    }

    /// Performs requests until the call that waits has its end.
    pub(crate) fn wait(
        &mut self,
        engine: &dyn ExecutionEngine,
        mut outs: Vec<Out>,
        stopping: &AtomicBool,
    ) -> Result<Done, Missed> {
        let mut retry: Option<Instant> = None;
        loop {
            match self.perform(engine, core::mem::take(&mut outs))? {
                Progress::Done(done) => return Ok(done),
                Progress::Paused => retry = Some(Instant::now() + PAUSE),
                Progress::Waiting => {}
            }
            if stopping.load(Ordering::Relaxed) {
                self.core.give_up();
                return Err(CallError::Stopping.into());
            }
            if self.woken.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Disconnected) {
                std::thread::sleep(INTERVAL);
            }
            if retry.is_some_and(|time| time <= Instant::now()) {
                retry = None;
                outs = self.core.again();
            }
        }
    }

    /// Performs requests and takes waiting events until there are none, or the call that waits has its end.
    fn perform(&mut self, engine: &dyn ExecutionEngine, outs: Vec<Out>) -> Result<Progress, Missed> {
        let (mut outs, mut progress) = (VecDeque::from(outs), Progress::Waiting);
        loop {
            while let Some(out) = outs.pop_front() {
                let (asked, ticket, id, operation) = match out {
                    Out::Submit(ticket, candidate, priority) => {
                        let id = candidate.id();
                        (engine.submit(ticket, candidate, priority), ticket, id, Operation::Submit)
                    }
                    Out::Stage(ticket, id) => (engine.stage(ticket, id), ticket, id, Operation::Stage),
                    Out::Commit(ticket, id, meta) => (engine.commit(ticket, id, meta), ticket, id, Operation::Commit),
                    Out::Clear(ticket) => {
                        (engine.keep_only(ticket, &[]), ticket, ExecId::default(), Operation::KeepOnly)
                    }
                    Out::Pause(why) => {
                        tracing::warn!(%why, "the decided block waits");
                        progress = Progress::Paused;
                        continue;
                    }
                    Out::Suspect(found) => {
                        tracing::warn!(%found, "unchecked votes contradict this node's result");
                        continue;
                    }
                    Out::Done(done) => return Ok(Progress::Done(done)),
                    Out::Halt(halt) => return Err(Missed::Halt(halt)),
                };
                if let Err(why) = asked {
                    outs.extend(self.core.event(EngineEvent::Failed { ticket, id, operation, why }));
                }
            }
            if engine.poll(EVENTS, &mut self.events) == 0 {
                return Ok(progress);
            }
            for event in core::mem::take(&mut self.events) {
                outs.extend(self.core.event(event));
            }
        }
    }
}
