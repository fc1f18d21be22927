//! The thread that reads values on disk beside the workers of a run.

use super::{
    apart::{Apart, Wanted},
    program::Program,
    run::Run,
    waiters::Line,
};
use crate::idle::EndOnPanic;
use parking_lot::Mutex;
use phalanx_access::KeyId;
use std::{panic::resume_unwind, thread};

/// Ends the thread that reads when the workers have ended, also by a panic.
struct EndOnDrop<'a>(&'a Apart);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Starts the thread that reads. Returns false if the system starts no thread.
pub(super) type Start<'a> = dyn Fn() -> bool + Sync + 'a;

impl<P: Program> Run<'_, P> {
    /// Calls `work`, the workers', beside a thread that reads what they want. It starts when they want the first value.
    pub(super) fn beside_reader<R>(&self, work: impl FnOnce(&Start<'_>) -> R) -> R {
        let Some(apart) = &self.apart else { return work(&|| false) };
        thread::scope(|scope| {
            let reader = Mutex::new(None);
            let start = || {
                let named = thread::Builder::new().name("phalanx-stm-read".into());
                let started = named.spawn_scoped(scope, || self.read_apart(apart)).ok();
                let is_started = started.is_some();
                *reader.lock() = started;
                is_started
            };
            let ended = EndOnDrop(apart);
            let result = work(&start);
            drop(ended);
            match reader.into_inner().map(thread::ScopedJoinHandle::join) {
                Some(Err(panic)) => resume_unwind(panic),
                _ => result,
            }
        })
    }

    /// Reads what is listed until the run is over.
    fn read_apart(&self, apart: &Apart) {
        let _guard = EndOnPanic(&self.idle);
        self.program.reader_begins();
        let (mut ids, mut keys, mut resumed) = (Vec::new(), Vec::new(), Vec::new());
        while let Some(wanted) = apart.take() {
            ids.extend(wanted.iter().map(|wanted| KeyId(wanted.key)));
            ids.sort_unstable();
            ids.dedup();
            // A worker that reads by itself may have one of them, or have loaded it.
            let claims: Vec<_> = ids.iter().filter_map(|id| Some((*id, self.memory.claim(*id)?))).collect();
            keys.extend(claims.iter().map(|(id, _)| self.memory.key(*id)));
            if !keys.is_empty() {
                self.program.read_apart(&keys, &mut |key, value| {
                    self.memory.chain(self.memory.id(key)).settle(value);
                });
            }
            keys.clear();
            drop(claims);
            // That worker waits for no key but its own. No transaction is resumed before its value is there, unless it cannot be
            // read: then all workers read by themselves, and the first transaction that needs it reports the error.
            if !ids.drain(..).fold(true, |all, id| self.memory.await_load(id) & all) {
                apart.close();
            }
            for Wanted { key, tx } in wanted {
                let Some(tx) = tx else { continue };
                self.slot(tx).resume(key, Line::new());
                resumed.push(tx);
            }
            let count = resumed.len();
            self.queue.push(resumed.drain(..));
            self.idle.wake(count);
        }
    }
}
