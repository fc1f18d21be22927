//! Reads entries of a paged state into its cache before a block needs them, on threads of its own.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread::JoinHandle,
};

use super::{handle::Store, link::Link};
use crate::{metrics, state::State};

/// Keys whose entries are read together: a block that needs some of them waits for all of them.
const SLICE: usize = 1024;

/// Threads that read: while some begin or end a slice, the others keep the disk busy.
const READERS: usize = 4;

/// Announcements that wait for each thread.
const WAITING: usize = 64;

/// Bytes of keys that wait for all threads: half a million slots of storage, several blocks' worth.
const WAITING_BYTES: usize = 32 << 20;

/// Reads entries of a paged state into its cache ahead of their use: those of keys that a later block reads or changes. Of a
/// key that is not there it reads the predecessor, which changes when the key is created.
///
/// It takes no part in a result: a key that was not announced is read when it is needed, and a failed read fails again there.
/// The cache bounds its memory; announced entries may be evicted before their use if the cache holds fewer than were announced.
/// The threads read without the store's lock, and a block that needs what is being read waits for that read instead of reading again.
///
/// Dropping it waits for reads that have begun, and so does dropping the store.
#[derive(Debug)]
pub struct Prefetcher {
    ended: Arc<AtomicBool>,
    readers: Vec<SyncSender<Announced>>,
    threads: Vec<JoinHandle<()>>,
    /// Bytes of keys that wait or are being read.
    waiting: Arc<AtomicUsize>,
    refused: AtomicU64,
    /// Number of announcements: each begins with another reader, so that small ones keep all of them busy.
    announced: AtomicUsize,
}

/// Keys, one after the other.
#[derive(Debug, Default)]
struct Announced {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Announced {
    /// Bytes that a key takes.
    const fn cost(key: &[u8]) -> usize {
        key.len() + size_of::<usize>()
    }

    const fn bytes(&self) -> usize {
        self.bytes.len() + self.ends.len() * size_of::<usize>()
    }

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
        self.link.tie(&self.core);
        let (ended, waiting) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (mut readers, mut threads) = (Vec::new(), Vec::new());
        for number in 0..READERS {
            let (announce, announced) = sync_channel(WAITING);
            let (start, link) = (paged.thread_start(), Arc::clone(&self.link));
            let (ended, waiting) = (Arc::clone(&ended), Arc::clone(&waiting));
            let read = move || {
                start.call();
                read_all(&announced, &link, &ended, &waiting);
            };
            // Without threads nothing is read ahead, which changes no result.
            let Ok(thread) = std::thread::Builder::new().name(format!("phalanx-ahead-{number}")).spawn(read) else {
                break;
            };
            readers.push(announce);
            threads.push(thread);
        }
        let (refused, announced) = (AtomicU64::new(0), AtomicUsize::new(0));
        Some(Prefetcher { ended, readers, threads, waiting, refused, announced })
    }

    /// Calls [`StoreConfig::with_thread_start`](crate::StoreConfig::with_thread_start)'s callback on this thread, for a thread of
    /// the caller that only reads a paged state. Does nothing if the state is resident.
    pub fn thread_begins(&self) {
        let start = match &self.core().state {
            State::Paged(paged) => Some(paged.thread_start()),
            State::Resident(_) => None,
        };
        start.into_iter().for_each(|start| start.call());
    }
}

impl Prefetcher {
    /// Announces keys whose entries are needed soon, and returns at once. Entries that the cache misses are read many at a time.
    ///
    /// Returns false if some keys were refused, because 32 MiB of earlier ones still wait ([`Self::refused`]).
    pub fn announce<'k>(&self, keys: impl IntoIterator<Item = &'k [u8]>) -> bool {
        let mut parts: Vec<Announced> = self.readers.iter().map(|_| Announced::default()).collect();
        let mut room = WAITING_BYTES.saturating_sub(self.waiting.load(Ordering::Relaxed));
        let first = self.announced.fetch_add(1, Ordering::Relaxed);
        let (mut at, mut refused) = (0, 0);
        for key in keys {
            let count = parts.len().max(1);
            match parts.get_mut(first.wrapping_add(at / SLICE) % count) {
                Some(part) if Announced::cost(key) <= room => {
                    room -= Announced::cost(key);
                    part.push(key);
                    at += 1;
                }
                _ => refused += 1,
            }
        }
        for (part, reader) in parts.into_iter().zip(&self.readers).filter(|(part, _)| !part.ends.is_empty()) {
            let (keys, bytes) = (part.ends.len() as u64, part.bytes());
            self.waiting.fetch_add(bytes, Ordering::Relaxed);
            if reader.try_send(part).is_err() {
                self.waiting.fetch_sub(bytes, Ordering::Relaxed);
                refused += keys;
            }
        }
        self.refused.fetch_add(refused, Ordering::Relaxed);
        metrics::not_read_ahead(refused);
        refused == 0
    }

    /// Keys that were announced and are not read ahead, because too many waited.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
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

/// Bytes that wait no more when it is dropped, also by a panic of the reader.
struct Read<'w> {
    waiting: &'w AtomicUsize,
    bytes: usize,
}

impl Drop for Read<'_> {
    fn drop(&mut self) {
        self.waiting.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Reads what is announced until the prefetcher is dropped, or the store.
fn read_all(announced: &Receiver<Announced>, link: &Link, ended: &AtomicBool, waiting: &AtomicUsize) {
    for part in announced {
        let _read = Read { waiting, bytes: part.bytes() };
        let mut keys = part.keys().peekable();
        while keys.peek().is_some() {
            if ended.load(Ordering::Relaxed) {
                return;
            }
            let Some(read) = link.read(keys.by_ref().take(SLICE)) else { return };
            if read.is_err() {
                break;
            }
        }
    }
}
