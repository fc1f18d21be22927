//! A pass over all entries of a paged state: threads read ahead of the caller, past the cache.

use std::{
    panic::resume_unwind,
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread::Builder,
};

use super::{
    cache::Stored,
    session::decode,
    state::{Paged, missing},
};
use crate::{
    log::{Log, at},
    types::Error,
};

/// Positions that a thread reads together. A quarter of them loses most of what two threads save.
const PART: usize = 1 << 12;

/// Parts that are in memory at most, and the threads that read them: the disk and the caller wait for each other less.
const PARTS: usize = 4;
const READERS: usize = 2;

type Read = Result<Vec<(u64, Stored)>, Error>;

impl Paged {
    /// Hands all keys with their values to `visit`, in the order of positions.
    ///
    /// # Errors
    /// Errors of the log, [`Error::Io`] if the system has no thread, or [`Error::Corrupt`] if two keys have one position.
    ///
    /// # Panics
    /// If the callback of the store's threads panics.
    pub(crate) fn each(&self, log: &dyn Log, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), Error> {
        let (mut positions, mut entries) = (self.keys.positions(), 0);
        let mut parts = std::iter::from_fn(|| {
            let part: Vec<u64> = positions.by_ref().take(PART).collect();
            entries += part.len() as u64;
            Some(part).filter(|part| !part.is_empty())
        });
        // Not on a rayon pool: the caller holds the store's lock, and a job that its thread ran meanwhile might wait for that lock.
        std::thread::scope(|scope| {
            let (mut readers, mut threads) = (Vec::new(), Vec::new());
            for number in 0..READERS {
                let (ask, asked): (SyncSender<Vec<u64>>, _) = sync_channel(PARTS);
                let (answer, answers): (_, Receiver<Read>) = sync_channel(PARTS);
                let start = self.thread_start();
                let read = move || {
                    start.call();
                    // A caller that met an error takes no more answers.
                    let _ = asked.iter().try_for_each(|part| answer.send(self.read_past_cache(log, &part)));
                };
                let thread = Builder::new().name(format!("phalanx-pass-{number}")).spawn_scoped(scope, read);
                threads.push(thread.map_err(at(&log.path()))?);
                readers.push((ask, answers));
            }
            let (mut asked, mut taken) = (0, 0);
            let mut visit_all = || {
                loop {
                    while asked < taken + PARTS
                        && let Some(part) = parts.next()
                    {
                        // A thread that has panicked gives no answer either.
                        let _ = readers[asked % READERS].0.send(part);
                        asked += 1;
                    }
                    if taken == asked {
                        return Ok(());
                    }
                    let Ok(read) = readers[taken % READERS].1.recv() else { return Ok(()) };
                    for (sn, stored) in read? {
                        let entry = decode(&stored).ok_or_else(|| missing(log, sn))?;
                        if !entry.sentinel {
                            visit(entry.key, entry.value);
                        }
                    }
                    taken += 1;
                }
            };
            let visited: Result<(), Error> = visit_all();
            drop(readers);
            threads.into_iter().for_each(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
            visited
        })?;
        if entries == self.keys.len() {
            return Ok(());
        }
        Err(Error::Corrupt { path: log.path(), what: "two keys have one position".into() })
    }
}
