//! Runs the state machine on a thread of its own, with a real engine.

use crate::{
    call::{Called, call},
    config::Config,
    core::Pipeline,
    event::{ConsensusEvent, Effect},
};
use phalanx_engine_api::{EngineEvent, ExecutionEngine, Waker};
use std::{
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel},
    },
    thread::JoinHandle,
    time::Duration,
};

/// Capacity of the inbox, in events. A full inbox blocks `send` and makes `try_send` refuse: back-pressure in order.
const INBOX: usize = 1024;
/// Maximum number of completions taken per poll.
const BATCH: usize = 64;

/// Reason why the shell cannot serve.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShellError {
    /// The thread could not be started.
    #[error("starting the pipeline's thread failed: {0}")]
    Thread(#[from] std::io::Error),
    /// The pipeline has stopped, after [`Effect::Halt`] or [`Effect::AtRest`].
    #[error("the pipeline has stopped; see the last effect for the reason")]
    Stopped,
    /// The inbox is full: try again later.
    #[error("{INBOX} events are waiting; slow down")]
    Full,
}

enum Input {
    Consensus(ConsensusEvent),
    /// The engine has completions.
    Wake,
    Stop,
}

/// A pipeline on a thread of its own. Dropping it stops the thread; the engine keeps running.
#[derive(Debug)]
pub struct Shell {
    inbox: SyncSender<Input>,
    thread: Option<JoinHandle<()>>,
}

impl Shell {
    /// Starts the thread, named `phalanx-pipeline`.
    ///
    /// `sink` receives every effect that does not address the engine, on that thread, and may answer with events of
    /// consensus. It must not block on [`Shell::send`]. `clock` counts microseconds and never goes back.
    ///
    /// # Errors
    /// [`ShellError::Thread`] if the system cannot start a thread.
    pub fn start<E, S, C>(config: Config, engine: Arc<E>, sink: S, clock: C) -> Result<Self, ShellError>
    where
        E: ExecutionEngine + 'static,
        S: FnMut(Effect, &mut Vec<ConsensusEvent>) + Send + 'static,
        C: Fn() -> u64 + Send + 'static,
    {
        let (inbox, events) = sync_channel(INBOX);
        let wake = inbox.clone();
        // If the inbox is full the thread is awake, and it polls the engine after every event.
        engine.set_waker(Waker::new(move || drop(wake.try_send(Input::Wake))));
        let pipeline = Pipeline::new(config, &engine.status());
        let thread = std::thread::Builder::new().name("phalanx-pipeline".into()).spawn(move || {
            Worker { pipeline, engine, sink, clock, rings: None, effects: Vec::new() }.run(&events);
        })?;
        Ok(Self { inbox, thread: Some(thread) })
    }

    /// Hands in an event; waits while the inbox is full.
    ///
    /// # Errors
    /// [`ShellError::Stopped`].
    pub fn send(&self, event: ConsensusEvent) -> Result<(), ShellError> {
        self.inbox.send(Input::Consensus(event)).map_err(|_| ShellError::Stopped)
    }

    /// Hands in an event unless the inbox is full.
    ///
    /// # Errors
    /// [`ShellError::Full`], [`ShellError::Stopped`].
    pub fn try_send(&self, event: ConsensusEvent) -> Result<(), ShellError> {
        self.inbox.try_send(Input::Consensus(event)).map_err(|error| match error {
            TrySendError::Full(_) => ShellError::Full,
            TrySendError::Disconnected(_) => ShellError::Stopped,
        })
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = self.inbox.send(Input::Stop);
        if let Some(thread) = self.thread.take()
            && let Err(panic) = thread.join()
            && !std::thread::panicking()
        {
            std::panic::resume_unwind(panic);
        }
    }
}

struct Worker<E, S, C> {
    pipeline: Pipeline,
    engine: Arc<E>,
    sink: S,
    clock: C,
    /// Time at which the timer fires, in µs.
    rings: Option<u64>,
    effects: Vec<Effect>,
}

impl<E, S, C> Worker<E, S, C>
where
    E: ExecutionEngine,
    S: FnMut(Effect, &mut Vec<ConsensusEvent>),
    C: Fn() -> u64,
{
    fn run(&mut self, events: &Receiver<Input>) {
        let mut completions = Vec::new();
        loop {
            while self.engine.poll(BATCH, &mut completions) > 0 {
                for event in completions.drain(..) {
                    self.pipeline.on_engine(event, &mut self.effects);
                    self.carry_out();
                }
            }
            match self.next(events) {
                Some(Input::Consensus(event)) => self.pipeline.on_consensus(event, &mut self.effects),
                Some(Input::Wake) => {}
                Some(Input::Stop) => return,
                None => {
                    self.rings = None;
                    self.pipeline.on_timer(&mut self.effects);
                }
            }
            self.carry_out();
        }
    }

    /// Next input, or `None` when the timer fires.
    fn next(&self, events: &Receiver<Input>) -> Option<Input> {
        let Some(at) = self.rings else { return Some(events.recv().unwrap_or(Input::Stop)) };
        match events.recv_timeout(Duration::from_micros(at.saturating_sub((self.clock)()))) {
            Ok(input) => Some(input),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Input::Stop),
        }
    }

    /// Carries out effects in order until none is left.
    fn carry_out(&mut self) {
        let mut answers: Vec<ConsensusEvent> = Vec::new();
        let mut refusals: Vec<EngineEvent> = Vec::new();
        while !self.effects.is_empty() {
            for effect in core::mem::take(&mut self.effects) {
                match call(self.engine.as_ref(), effect) {
                    Called::Accepted => {}
                    Called::Refused(event) => refusals.push(event),
                    Called::NotForEngine(Effect::SetTimer(us)) => self.rings = Some((self.clock)().saturating_add(us)),
                    Called::NotForEngine(effect) => (self.sink)(effect, &mut answers),
                }
            }
            for event in refusals.drain(..) {
                self.pipeline.on_engine(event, &mut self.effects);
            }
            for event in answers.drain(..) {
                self.pipeline.on_consensus(event, &mut self.effects);
            }
        }
    }
}
