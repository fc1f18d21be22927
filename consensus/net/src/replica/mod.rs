//! A replica: opening it from its files, its threads, and a handle to steer it.

mod open;
mod join;
mod passage;
mod offerer;
mod worker;
mod keep;
mod timers;
mod keys;
mod error;
mod machine;
mod shared;
mod status;

pub use error::{LogError, ReplicaError};
pub use join::{Joining, Restorer, is_joining, join};
pub use keep::{Beginning, leave_token};
pub use keys::ReplicaKeys;
pub use machine::{
    Admission, Admit, Doorbell, Embedder, Genesis, Machine, Networked, Path as DecisionPath, PoolChanges, Step,
};
pub use passage::find_beginning;
pub use status::Status;

use crate::config::{Cut, NetConfig, NetConfigError, ProtocolName};
use phalanx_bft::{Index, autobahn::Autobahn, pbft::Pbft, sbft::Sbft};
use phalanx_engine_api::ExecutionEngine;
use shared::Shared;
use std::{
    net::{SocketAddr, TcpStream},
    path::Path,
    sync::{Arc, atomic::Ordering::Relaxed},
    thread::JoinHandle,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// A running replica. Dropping it stops it.
#[derive(Debug)]
pub struct Replica {
    shared: Arc<Shared>,
    /// Addresses of the listeners, which a last connection ends.
    listeners: [SocketAddr; 2],
    worker: Option<JoinHandle<Result<(), ReplicaError>>>,
    threads: Vec<JoinHandle<()>>,
    stop_inputs: Stop,
}

struct Stop(Box<dyn Fn() + Send + std::marker::Sync>);

impl core::fmt::Debug for Stop {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Stop")
    }
}

/// Time of a replica: µs since its start, and the wall clock then.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    pub(crate) start: Instant,
    pub(crate) epoch_ms: u64,
}

impl Clock {
    pub(crate) fn start() -> Self {
        // A wall clock before 1970 is wrong, and so is every time that follows from it; peers take the larger ones.
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { start: Instant::now(), epoch_ms: since.as_millis() as u64 }
    }

    pub(crate) fn now(&self) -> u64 {
        self.start.elapsed().as_micros() as u64
    }

    /// The moment at a number of µs since the start.
    pub(crate) fn at(&self, us: u64) -> Instant {
        self.start + Duration::from_micros(us)
    }
}

impl Replica {
    /// Opens the replica of a network whose keys these are, on the log in `dir`, and starts it.
    ///
    /// # Errors
    /// Configuration, keys, files or addresses cannot be used, or log and engine do not belong together.
    pub fn start<E: ExecutionEngine + 'static>(
        config: &NetConfig,
        keys: impl Into<ReplicaKeys>,
        dir: &Path,
        machine: Machine<E>,
        beginning: Beginning,
    ) -> Result<Self, ReplicaError> {
        config.check()?;
        let clock = Clock::start();
        let (keys, now) = (keys.into(), clock.epoch_ms);
        let clock = (clock, beginning);
        match config.protocol {
            ProtocolName::Pbft => {
                let protocol = config.pbft(now).map_err(NetConfigError::from)?;
                open::start::<Pbft, E>(config, protocol, &keys, dir, machine, clock)
            }
            ProtocolName::Sbft => {
                let protocol = config.sbft(now).map_err(NetConfigError::from)?;
                open::start::<Sbft, E>(config, protocol, &keys, dir, machine, clock)
            }
            ProtocolName::Autobahn => {
                let protocol = config.autobahn(now).map_err(NetConfigError::from)?;
                open::start::<Autobahn, E>(config, protocol, &keys, dir, machine, clock)
            }
        }
    }

    /// Index of the replica.
    #[must_use]
    pub fn index(&self) -> Index {
        self.shared.me
    }

    /// Progress of the replica, and what it refused.
    #[must_use]
    pub fn status(&self) -> Status {
        self.shared.status()
    }

    /// A reader of the status for other threads, which keeps nothing of the replica: `None` once that is gone.
    pub fn reporter(&self) -> impl Fn() -> Option<Status> + Send + Sync + use<> {
        let shared = Arc::downgrade(&self.shared);
        move || shared.upgrade().map(|shared| shared.status())
    }

    /// Cuts the links to some replicas, and makes all others whole.
    pub fn cut(&self, peers: &[Index], cut: Cut) {
        for (peer, output) in &self.shared.outputs {
            output.link.set_cut(peers.contains(peer).then_some(cut));
        }
    }

    /// Returns true if the worker has ended: [`Replica::stop`] tells the reason.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.worker.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Stops the replica: its log is written to the end.
    ///
    /// # Errors
    /// The replica had ended by itself, for this reason.
    pub fn stop(mut self) -> Result<(), ReplicaError> {
        self.end()
    }

    fn end(&mut self) -> Result<(), ReplicaError> {
        let Some(worker) = self.worker.take() else { return Ok(()) };
        self.shared.stopped.store(true, Relaxed);
        self.shared.bell.ring();
        let ended = worker.join();
        (self.stop_inputs.0)();
        self.shared.clients.stop();
        self.shared.outputs.values().for_each(|output| output.close());
        for address in self.listeners {
            // Wakes the accepting thread; one that has ended needs it no more.
            let _ = TcpStream::connect_timeout(&address, Duration::from_millis(200));
        }
        for thread in self.threads.drain(..) {
            // A panic of a thread has been printed.
            let _ = thread.join();
        }
        ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // The reason of an end is for `stop`.
            let _ = self.end();
        }
    }
}
