//! The log of a replica, on a thread of its own: group commit, and compaction in the order of appends.

mod begin;
mod error;
mod owner;
mod pass;

pub(crate) use begin::begin_log;
pub use error::LogError;
pub(crate) use owner::Owner;

use crate::{config::Durability, queue::Bell};
use alloy_primitives::Bytes;
use alloy_rlp::{Decodable, Encodable};
use crossbeam_channel::{Receiver, Sender, unbounded};
use parking_lot::Mutex;
use pass::{decode, pass};
use phalanx_adapter::{Sync, Wal, WalError};
use phalanx_host::{Boundary, HostRecord};
use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
};

/// Records in one group, at most.
const MOST_RECORDS: usize = 4_096;
/// Length of one group from which on another begins, in bytes.
const MOST_BYTES: usize = 8 << 20;

/// Work for the log's thread.
enum Job<R> {
    Append(u64, HostRecord<R>),
    /// Records that replace all appends up to the number.
    Replace(u64, Vec<HostRecord<R>>),
}

/// State that the log's thread and the worker share.
#[derive(Debug, Default)]
struct Shared {
    /// Every record up to this number is durable.
    durable: AtomicU64,
    /// Length of the file, and that after the last replacement, in bytes.
    bytes: AtomicU64,
    replaced: AtomicU64,
    /// True while a replacement waits or is written.
    replacing: AtomicBool,
    failure: Mutex<Option<WalError>>,
}

/// The log of a replica. Dropping it writes what is queued.
#[derive(Debug)]
pub(crate) struct Log<R> {
    jobs: Option<Sender<Job<R>>>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    durability: Durability,
    appended: u64,
    /// Length from which on the log is long, in bytes.
    long: u64,
}

/// Condition of the log that a replica starts with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begins {
    /// The log has what the replica has said.
    Continued,
    /// The replica has said nothing yet: an empty log becomes its own.
    First,
    /// The log may lack what the replica has said, whatever is in it: it stays silent.
    Silent,
}

/// Owner that a log must have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ownership<'a> {
    /// Owner; `None` for logs without one.
    pub(crate) owner: Option<&'a Owner>,
    /// Condition of the log.
    pub(crate) begins: Begins,
    /// Block that the epoch begins above: a log of an earlier one goes on there.
    pub(crate) boundary: Option<&'a Boundary>,
}

impl Ownership<'_> {
    /// Checks the records of a log, marks it where that is due, and returns the records behind the owner's.
    fn check<R: Encodable + Decodable>(
        &self,
        wal: &mut Wal,
        mut found: Vec<Bytes>,
        path: &Path,
    ) -> Result<Vec<Bytes>, LogError> {
        let (mut new, mut passed) = (Vec::new(), false);
        if let Some(owner) = self.owner {
            match (found.first(), self.boundary) {
                (Some(first), _) if *first == owner.record() => drop(found.remove(0)),
                (Some(first), Some(boundary)) if owner.follows(first) => {
                    (found, passed) = (pass::<R>(boundary, &found[1..])?, true);
                }
                (Some(_), _) => return Err(LogError::Foreign { path: path.to_path_buf() }),
                (None, _) if self.begins == Begins::Continued => {
                    return Err(LogError::Lost { path: path.to_path_buf() });
                }
                (None, boundary) => {
                    new.push(owner.record());
                    found.extend(boundary.map(|boundary| {
                        Bytes::from(alloy_rlp::encode(HostRecord::<R>::Epoch(Box::new(boundary.clone()))))
                    }));
                    new.extend(found.iter().cloned());
                }
            }
        }
        // In one write with the owner: a log that has begun is silent from its first record on.
        if self.begins == Begins::Silent {
            let silent = Bytes::from(alloy_rlp::encode(HostRecord::<R>::Silent(true)));
            found.push(silent.clone());
            new.push(silent);
        }
        if passed {
            wal.replace(
                &self.owner.iter().map(|owner| owner.record()).chain(found.iter().cloned()).collect::<Vec<_>>(),
            )?;
        } else if !new.is_empty() {
            wal.append(&new)?;
        }
        Ok(found)
    }
}

impl<R: Encodable + Decodable + Send + 'static> Log<R> {
    /// Opens the log in a file and returns its records. `bell` rings when records are durable; the log is long from `long` bytes on.
    pub(crate) fn open(
        path: &Path,
        belongs: Ownership<'_>,
        durability: Durability,
        bell: Arc<Bell>,
        long: u64,
    ) -> Result<(Self, Vec<HostRecord<R>>), LogError> {
        let sync = if durability == Durability::None { Sync::Never } else { Sync::Always };
        let (mut wal, found) = Wal::open(path, sync)?;
        let found = belongs.check::<R>(&mut wal, found, path)?;
        let records = found.iter().enumerate().map(decode).collect::<Result<_, _>>()?;
        let shared = Arc::new(Shared::default());
        shared.bytes.store(wal.bytes(), Relaxed);
        shared.replaced.store(wal.bytes(), Relaxed);
        let (jobs, inbox) = unbounded();
        let most_records = if durability == Durability::Each { 1 } else { MOST_RECORDS };
        let run = {
            let shared = Arc::clone(&shared);
            let path = path.to_path_buf();
            let first = belongs.owner.map(Owner::record);
            move || {
                let guard = Panicked { shared: &shared, bell: &bell, path };
                if let Err(error) = write((wal, first), &inbox, &shared, &bell, most_records) {
                    *shared.failure.lock() = Some(error);
                    bell.ring();
                }
                drop(guard);
            }
        };
        let thread = thread::Builder::new().name("log".into()).spawn(run)?;
        let log = Self { jobs: Some(jobs), shared, thread: Some(thread), durability, appended: 0, long };
        Ok((log, records))
    }

    pub(crate) fn append(&mut self, number: u64, record: HostRecord<R>) {
        self.appended = number;
        self.submit(Job::Append(number, record));
    }

    /// Replaces all records up to a number.
    pub(crate) fn replace(&self, number: u64, records: Vec<HostRecord<R>>) {
        self.shared.replacing.store(true, Relaxed);
        self.submit(Job::Replace(number, records));
    }

    fn submit(&self, job: Job<R>) {
        if let Some(jobs) = &self.jobs {
            // A thread that has ended has left its reason.
            let _ = jobs.send(job);
        }
    }

    /// Every record up to this number is durable.
    pub(crate) fn durable(&self) -> u64 {
        // Without durability a record counts before it is written.
        if self.durability == Durability::None { self.appended } else { self.shared.durable.load(Relaxed) }
    }

    /// Number of records that are not written yet.
    pub(crate) fn backlog(&self) -> u64 {
        self.appended.saturating_sub(self.shared.durable.load(Relaxed))
    }

    /// Returns true if the file is so long that a replacement is worth its writes: each byte is written twice on average.
    pub(crate) fn is_long(&self) -> bool {
        let least = self.long.max(2 * self.shared.replaced.load(Relaxed));
        self.shared.bytes.load(Relaxed) > least && !self.shared.replacing.load(Relaxed)
    }

    /// The failure that ended the log, once.
    pub(crate) fn failure(&self) -> Option<WalError> {
        self.shared.failure.lock().take()
    }
}

impl<R> Drop for Log<R> {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been printed; the worker ends anyway.
            let _ = thread.join();
        }
    }
}

/// Tells the worker of a panic of the log's thread: nothing becomes durable any more.
struct Panicked<'a> {
    shared: &'a Shared,
    bell: &'a Bell,
    path: PathBuf,
}

impl Drop for Panicked<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            *self.shared.failure.lock() = Some(WalError::Broken { path: self.path.clone() });
            self.bell.ring();
        }
    }
}

/// Writes jobs in order until the channel ends.
fn write<R: Encodable>(
    (mut wal, first): (Wal, Option<Bytes>),
    inbox: &Receiver<Job<R>>,
    shared: &Shared,
    bell: &Bell,
    most_records: usize,
) -> Result<(), WalError> {
    let mut next = inbox.recv().ok();
    let mut written = 0;
    while let Some(job) = next.take() {
        match job {
            Job::Replace(number, records) => {
                let records = records.iter().map(|record| Bytes::from(alloy_rlp::encode(record)));
                wal.replace(&first.iter().cloned().chain(records).collect::<Vec<Bytes>>())?;
                written = number;
                shared.replaced.store(wal.bytes(), Relaxed);
                shared.replacing.store(false, Relaxed);
            }
            Job::Append(number, record) => {
                let mut group: Vec<Bytes> = Vec::new();
                let mut last = number;
                let mut bytes = 0;
                let mut job = Some((number, record));
                while let Some((number, record)) = job.take() {
                    // A replacement has the records that were on the way to it.
                    if number > written {
                        let record = Bytes::from(alloy_rlp::encode(&record));
                        bytes += record.len();
                        group.push(record);
                    }
                    last = number;
                    if group.len() < most_records && bytes < MOST_BYTES {
                        match inbox.try_recv() {
                            Ok(Job::Append(number, record)) => job = Some((number, record)),
                            Ok(replace) => next = Some(replace),
                            Err(_) => {}
                        }
                    }
                }
                wal.append(&group)?;
                written = written.max(last);
            }
        }
        shared.bytes.store(wal.bytes(), Relaxed);
        shared.durable.fetch_max(written, Relaxed);
        bell.ring();
        if next.is_none() {
            next = inbox.recv().ok();
        }
    }
    Ok(())
}
