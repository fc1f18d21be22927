//! Hand-over of blocks to the node's sink.

use super::{
    driver::Driver,
    failure::failure,
    kept::{Handed, Kept},
    sink::SinkBlock,
};
use crate::{model::Error, state::StateDiff};
use phalanx_engine_api::{Failure, RetryCause};
use std::panic::{AssertUnwindSafe, catch_unwind};

impl Driver {
    /// Hands over all blocks of a commit, oldest first.
    pub(super) fn hand_over(&self, path: &[Handed]) -> Result<(), Failure> {
        let Some(sink) = &self.sink else { return Ok(()) };
        for handed in path {
            let Handed { committed, candidate, kept } = handed;
            let (Some(info), Some(outcome), Some(facts)) = (&kept.info, &kept.outcome, &kept.facts) else {
                return Err(Failure::Superseded);
            };
            let diff = sink.needs_diff().then(|| self.diff(kept)).transpose().map_err(|error| failure(&error))?;
            let (hash, header) = (kept.hash, kept.header.as_deref());
            let (hashes, senders) = (&facts.hashes[..], &facts.senders[..]);
            let block = SinkBlock { committed, candidate, outcome, hash, header, info, hashes, senders, diff };
            let put = catch_unwind(AssertUnwindSafe(|| sink.put(&block)));
            if !matches!(put, Ok(Ok(()))) {
                return Err(Failure::Retry(RetryCause::Sink));
            }
        }
        Ok(())
    }

    fn diff(&self, kept: &Kept) -> Result<StateDiff, Error> {
        self.engine.state_diff(kept.view.block())
    }

    /// Tells the sink the committed tip.
    pub(super) fn tell_sink(&self) {
        let Some(sink) = &self.sink else { return };
        let tip = self.shared.desk.lock().rows().tip().committed.clone();
        // A sink that panics refuses the next block, too.
        let _ = catch_unwind(AssertUnwindSafe(|| sink.resumed(&tip)));
    }
}
