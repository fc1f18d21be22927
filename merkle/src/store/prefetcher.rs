//! Reads entries of a paged state into its cache before a block needs them, on threads of its own.

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread::JoinHandle,
};

use parking_lot::RwLock;

use super::handle::Store;
use crate::{
    commit::Core,
    state::State,
    types::{Error, prefix},
};

/// Keys whose entries are read under one hold of the lock, which a block waits for that is applied meanwhile.
const SLICE: usize = 1024;

/// Threads that read: while one ends its slice, the other keeps the disk busy.
const READERS: usize = 2;

/// Announcements that wait for each thread. A caller that is further ahead than that has its next one dropped.
const WAITING: usize = 4;

/// Reads entries of a paged state into its cache ahead of their use: those of keys that a later block reads or changes.
///
/// It takes no part in a result: a key that was not announced is read when it is needed, and a failed read fails again there.
/// The cache bounds its memory; announced entries may be evicted before their use if the cache holds fewer than were announced.
///
/// Dropping it waits for reads that have begun. Drop it before the store, which could not close in order beside them, and
/// without a [`Reader`](crate::Reader) in hand, which they might wait for.
#[derive(Debug)]
pub struct Prefetcher {
    ended: Arc<AtomicBool>,
    readers: Vec<SyncSender<Announced>>,
    threads: Vec<JoinHandle<()>>,
}

/// Keys, one after the other.
#[derive(Debug, Default)]
struct Announced {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Announced {
    fn push(&mut self, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
    }

    fn keys(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.bytes[start..*end])
    }
}

impl Store {
    /// Starts the prefetcher of this store; `None` if the state is resident. It does not keep the store open.
    pub fn prefetcher(&self) -> Option<Prefetcher> {
        let core = self.core();
        let State::Paged(paged) = &core.state else { return None };
        let (ended, mut readers, mut threads) = (Arc::new(AtomicBool::new(false)), Vec::new(), Vec::new());
        for number in 0..READERS {
            let (announce, announced) = sync_channel(WAITING);
            let (start, core, ended) = (paged.thread_start.clone(), Arc::downgrade(&self.core), Arc::clone(&ended));
            let read = move || {
                start.call();
                read_all(&announced, &core, &ended);
            };
            // Without threads nothing is read ahead, which changes no result.
            let Ok(thread) = std::thread::Builder::new().name(format!("phalanx-ahead-{number}")).spawn(read) else {
                break;
            };
            readers.push(announce);
            threads.push(thread);
        }
        Some(Prefetcher { ended, readers, threads })
    }
}

impl Prefetcher {
    /// Announces keys whose entries are needed soon, and returns at once. Entries that the cache misses are read many at a time;
    /// blocks are applied between slices of them.
    ///
    /// Returns false if some keys were dropped, because earlier announcements still wait.
    pub fn announce<'k>(&self, keys: impl IntoIterator<Item = &'k [u8]>) -> bool {
        let mut parts: Vec<Announced> = self.readers.iter().map(|_| Announced::default()).collect();
        if parts.is_empty() {
            return false;
        }
        for (at, key) in keys.into_iter().enumerate() {
            let part = at / SLICE % parts.len();
            parts[part].push(key);
        }
        let wanted = parts.into_iter().zip(&self.readers).filter(|(part, _)| !part.ends.is_empty());
        wanted.fold(true, |all, (part, reader)| reader.try_send(part).is_ok() && all)
    }
}

impl Drop for Prefetcher {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        self.readers.clear();
        for thread in self.threads.drain(..) {
            // A panic of a reader changed nothing but the cache.
            let _ = thread.join();
        }
    }
}

/// Reads what is announced until the prefetcher is dropped, or the store.
fn read_all(announced: &Receiver<Announced>, core: &Weak<RwLock<Core>>, ended: &AtomicBool) {
    for part in announced {
        let mut keys = part.keys().peekable();
        while keys.peek().is_some() {
            let Some(core) = core.upgrade().filter(|_| !ended.load(Ordering::Relaxed)) else { return };
            if read_slice(&core, keys.by_ref().take(SLICE)).is_err() {
                break;
            }
        }
    }
}

fn read_slice<'k>(core: &RwLock<Core>, keys: impl Iterator<Item = &'k [u8]>) -> Result<(), Error> {
    // A block that waits to be applied comes first.
    let core = core.read();
    let State::Paged(paged) = &core.state else { return Ok(()) };
    let hash = core.params.hash;
    paged.prefetch(&*core.shared.log, keys.map(|key| prefix(&hash.key(key))))
}
