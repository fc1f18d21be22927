//! Loads a resident state from the active entries of a log: all threads write records, then the index and the key order
//! are built.

use phalanx_merkle_proof::{Entry, HashFn};
use rayon::prelude::*;

use super::{
    index::{Index, MAX_KEYS},
    slab::Record,
    state::Resident,
};
use crate::{
    parallel::Par,
    types::{Written, prefix},
};

/// Records that one task writes.
const TASK: usize = 2048;

/// Consecutive entries of a log.
pub(crate) trait Run: Sync {
    /// First position.
    fn first_sn(&self) -> u64;
    /// Number of positions.
    fn len(&self) -> u64;
    /// Hands the entries to `visit`, in order.
    fn each<'s>(&'s self, visit: &mut dyn FnMut(Entry<'s>));
}

/// Entries that a task cannot write into its records, by id.
#[derive(Default)]
struct Rest<'r> {
    /// Entries that are too long for their records.
    long: Vec<(u32, Entry<'r>)>,
    sentinels: Vec<(u32, Written, Entry<'r>)>,
}

impl Resident {
    /// Adds the entries of active positions: keys that the state does not have, from the next position on, and
    /// sentinels.
    ///
    /// [`Self::link_all`] completes the state, which must not be read before. Returns false if a run has fewer entries
    /// than positions, or if there is no room.
    #[must_use]
    pub(crate) fn load<R: Run>(&mut self, runs: &[R], is_active: impl Fn(u64) -> bool + Sync) -> bool {
        let positions = |run: &R| run.first_sn()..run.first_sn() + run.len();
        let counts: Vec<usize> =
            Par::UNOBSERVED.map(runs, 100, |run| positions(run).filter(|sn| is_active(*sn)).count());
        // Rank of each run's first active entry.
        let mut total = 0;
        let begins: Vec<usize> = counts.iter().map(|count| (total, total += count).0).collect();
        let first = self.places;
        if first as usize + total > MAX_KEYS {
            return false;
        }
        self.places += total as u32;
        self.slab.reserve(self.places as usize);

        let hash = self.slab.hash_fn();
        let (mut tasks, mut rank) = (Vec::with_capacity(total / TASK + 2), 0);
        for records in self.slab.slices(first, self.places, TASK) {
            let len = records.len();
            tasks.push((rank, records));
            rank += len;
        }
        let write = |(rank, records): (usize, &mut [Record])| {
            let run = begins.partition_point(|begin| *begin <= rank).saturating_sub(1);
            let mut task = Task { hash, records, id: first + rank as u32, written: 0, rest: Rest::default() };
            let mut passed = rank - begins[run];
            for run in &runs[run..] {
                if task.written == task.records.len() {
                    break;
                }
                let mut sn = run.first_sn();
                run.each(&mut |entry| {
                    if is_active(sn) {
                        if passed > 0 { passed -= 1 } else { task.write(sn, entry) }
                    }
                    sn += 1;
                });
            }
            (task.written == task.records.len()).then_some(task.rest)
        };
        let Some(rests) = tasks.into_par_iter().map(write).collect::<Option<Vec<_>>>() else { return false };

        let mut id = first;
        for sn in runs.iter().flat_map(positions) {
            let active = is_active(sn);
            self.owners.push(active.then_some(id));
            id += u32::from(active);
        }
        rests.into_iter().all(|rest| self.finish(rest))
    }

    fn finish(&mut self, rest: Rest<'_>) -> bool {
        for (id, entry) in rest.long {
            self.slab.fill(id, entry.key, entry.value);
        }
        for (place, written, entry) in rest.sentinels {
            let Some(id) = self.sentinel(entry.key) else { return false };
            // A sentinel has a place of its own.
            self.free.push(place);
            self.set_next(id, &entry.next);
            self.write_back(id, written);
        }
        true
    }

    /// Builds the index of all keys anew.
    pub(crate) fn index_all(&mut self) {
        let Self { digester, slab, sentinels, places, .. } = self;
        let digest = |id: u32| slab.record(id).is_alive().then(|| digester.digest(slab.key(id)));
        self.index = Index::build(*sentinels..*places, digest);
    }
}

/// Task that writes consecutive records.
struct Task<'t, 'r> {
    hash: HashFn,
    records: &'t mut [Record],
    /// Id of the first record.
    id: u32,
    written: usize,
    rest: Rest<'r>,
}

impl<'r> Task<'_, 'r> {
    fn write(&mut self, sn: u64, entry: Entry<'r>) {
        let written = Written::new(sn, entry.previous, entry.height);
        // Entries past the end belong to the next task.
        let Some(record) = self.records.get_mut(self.written).filter(|_| written.fits()) else { return };
        let id = self.id + self.written as u32;
        self.written += 1;
        if entry.sentinel {
            self.rest.sentinels.push((id, written, entry));
            return;
        }
        record.generation += 1;
        record.prefix = prefix(&entry.key_hash(self.hash));
        (record.written, record.next) = (written.into(), entry.next);
        if !record.fill_inline(entry.key, entry.value) {
            self.rest.long.push((id, entry));
        }
    }
}
