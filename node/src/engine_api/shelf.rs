//! Blocks that can be fetched, also while the client's thread is busy. A pure core behind a lock, bounded in number.

use super::built::Built;
use alloy_primitives::B64;
use parking_lot::Mutex;
use std::{collections::VecDeque, sync::Arc};

/// Maximum number of blocks of jobs that have ended.
const MOST: usize = 8;

/// Blocks by the names of their jobs.
#[derive(Debug)]
pub(super) struct Shelf<B = Built>(Mutex<Kept<B>>);

#[derive(Debug)]
struct Kept<B> {
    /// Blocks of jobs that have ended, oldest first.
    sealed: VecDeque<(B64, Arc<B>)>,
    /// The best block so far of the job that goes on, as the thread has left it before the last executed payload.
    draft: Option<(B64, Arc<B>)>,
}

impl<B> Default for Shelf<B> {
    fn default() -> Self {
        Self(Mutex::new(Kept { sealed: VecDeque::new(), draft: None }))
    }
}

impl<B> Shelf<B> {
    /// Adds the block of a job that has ended.
    pub(super) fn seal(&self, id: B64, block: B) {
        let mut kept = self.0.lock();
        kept.draft = None;
        kept.sealed.push_back((id, Arc::new(block)));
        if kept.sealed.len() > MOST {
            kept.sealed.pop_front();
        }
    }

    /// Replaces the block of the job that goes on.
    pub(super) fn draft(&self, id: B64, block: B) {
        self.0.lock().draft = Some((id, Arc::new(block)));
    }

    /// Removes the block of the job that goes on: a better one comes soon.
    pub(super) fn clear(&self) {
        self.0.lock().draft = None;
    }

    /// The block of a job that has ended.
    pub(super) fn sealed(&self, id: B64) -> Option<Arc<B>> {
        self.0.lock().sealed.iter().find(|(name, _)| *name == id).map(|(_, block)| Arc::clone(block))
    }

    /// The best known block of a job.
    pub(super) fn find(&self, id: B64) -> Option<Arc<B>> {
        let draft = || self.0.lock().draft.as_ref().filter(|(name, _)| *name == id).map(|(_, block)| Arc::clone(block));
        self.sealed(id).or_else(draft)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_blocks_of_ended_jobs_stay_and_a_draft_until_its_job_ends() {
        let (shelf, name) = (Shelf::default(), |job: u8| B64::with_last_byte(job));
        shelf.draft(name(0), 'd');
        shelf.clear();
        assert_eq!(shelf.find(name(0)), None);
        shelf.draft(name(0), 'e');
        assert_eq!((shelf.find(name(0)).as_deref(), shelf.sealed(name(0))), (Some(&'e'), None));
        shelf.seal(name(0), 'f');
        assert_eq!(shelf.find(name(0)).as_deref(), Some(&'f'));
        (1..=8).for_each(|job| shelf.seal(name(job), 'x'));
        assert_eq!((shelf.find(name(0)), shelf.sealed(name(1)).as_deref()), (None, Some(&'x')));
        assert!(shelf.0.lock().draft.is_none() && shelf.0.lock().sealed.len() == MOST);
    }
}
