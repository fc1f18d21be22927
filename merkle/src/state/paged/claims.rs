//! Positions that some thread reads now: what is read for one batch is not read for another as well.
//!
//! A thread that reads ahead leaves what others read already, and a batch waits for what is read ahead. Nothing else waits: the
//! thread of a batch may run another batch on top of it while it reads, and would wait for itself.

use std::{
    collections::HashMap,
    hash::BuildHasherDefault,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};

use super::cache::Spread;

/// Reader of a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    /// A thread that reads ahead: it does nothing else until it has read.
    Ahead,
    /// The thread of a batch that needs the entries now.
    Batch,
}

type Positions = HashMap<u64, Who, BuildHasherDefault<Spread>>;

/// Positions that are being read, and notice of those that have been.
#[derive(Debug, Default)]
pub(super) struct Claims {
    read_now: Mutex<Positions>,
    ended: Condvar,
}

/// Claim to positions, until it is dropped.
#[derive(Debug)]
pub(super) struct Claim {
    claims: Arc<Claims>,
    claimed: Vec<u64>,
}

impl Claims {
    fn read_now(&self) -> MutexGuard<'_, Positions> {
        self.read_now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Claims positions for a thread that reads ahead: those that no thread reads, which stay in `sns`.
    pub(super) fn ahead(self: &Arc<Self>, sns: &mut Vec<u64>) -> Claim {
        let mut read_now = self.read_now();
        sns.retain(|sn| !read_now.contains_key(sn));
        sns.iter().for_each(|sn| _ = read_now.insert(*sn, Who::Ahead));
        Claim { claims: Arc::clone(self), claimed: sns.clone() }
    }

    /// Claims positions for a batch: all but those that are read ahead, which leave `sns` and are returned.
    pub(super) fn batch(self: &Arc<Self>, sns: &mut Vec<u64>) -> (Claim, Vec<u64>) {
        let (mut read_now, mut awaited, mut claimed) = (self.read_now(), Vec::new(), Vec::new());
        sns.retain(|sn| match read_now.get(sn) {
            Some(Who::Ahead) => {
                awaited.push(*sn);
                false
            }
            Some(Who::Batch) => true,
            None => {
                read_now.insert(*sn, Who::Batch);
                claimed.push(*sn);
                true
            }
        });
        (Claim { claims: Arc::clone(self), claimed }, awaited)
    }

    /// Waits until positions that were read ahead are there, or could not be read.
    pub(super) fn wait_for(&self, awaited: &[u64]) {
        let (mut awaited, mut read_now) = (awaited.to_vec(), self.read_now());
        loop {
            // One that is read ahead again by the time this thread wakes is awaited again: it was evicted meanwhile.
            awaited.retain(|sn| read_now.get(sn) == Some(&Who::Ahead));
            if awaited.is_empty() {
                return;
            }
            read_now = self.ended.wait(read_now).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.claimed.is_empty() {
            return;
        }
        let mut read_now = self.claims.read_now();
        self.claimed.iter().for_each(|sn| _ = read_now.remove(sn));
        drop(read_now);
        self.claims.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn a_batch_waits_for_what_is_read_ahead_and_for_nothing_else() {
        let (claims, reads) = (Arc::<Claims>::default(), [const { AtomicUsize::new(0) }; 64]);
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let (claims, reads) = (&claims, &reads);
                scope.spawn(move || {
                    for round in 0..500 {
                        // In another order per thread.
                        let mut sns: Vec<u64> = (0..64).map(|at| (at * 7 + thread * 13 + round) % 64).collect();
                        let read = |sns: &[u64]| {
                            std::thread::yield_now();
                            sns.iter().for_each(|sn| _ = reads[*sn as usize].fetch_add(1, Ordering::SeqCst));
                        };
                        if thread < 2 {
                            let claim = claims.ahead(&mut sns);
                            read(&sns);
                            drop(claim);
                        } else {
                            let (claim, awaited) = claims.batch(&mut sns);
                            assert_eq!(sns.len() + awaited.len(), 64);
                            read(&sns);
                            drop(claim);
                            claims.wait_for(&awaited);
                            assert!(reads.iter().all(|reads| reads.load(Ordering::SeqCst) > 0));
                        }
                    }
                });
            }
        });
        assert!(claims.read_now().is_empty());
    }

    #[test]
    fn what_is_read_already_is_not_read_ahead() {
        let claims = Arc::<Claims>::default();
        let (batch, awaited) = claims.batch(&mut vec![1, 2]);
        assert!(awaited.is_empty());
        let mut sns = vec![2, 3];
        let ahead = claims.ahead(&mut sns);
        assert_eq!(sns, [3]);
        let mut again = vec![1, 3, 4];
        // A batch reads again what another batch reads: it may be on top of that one.
        let (other, awaited) = claims.batch(&mut again);
        assert_eq!((again, awaited), (vec![1, 4], vec![3]));
        drop((batch, ahead, other));
        assert!(claims.read_now().is_empty());
    }

    #[test]
    fn a_reader_that_panics_leaves_no_claim() {
        let claims = Arc::<Claims>::default();
        let panics = std::thread::scope(|scope| {
            let panicked = scope.spawn(|| {
                let _claim = claims.ahead(&mut vec![1, 2]);
                panic!("a read");
            });
            panicked.join().is_err()
        });
        assert!(panics);
        claims.wait_for(&[1, 2]);
    }
}
