//! Fork choice: head, safe and finalised block, and the block to build on the head.

use super::{
    client::{Client, Stop},
    fault::Fault,
    handle::Wanted,
    marks::{Mark, Marks},
    reorganise::Moved,
    status::{Status, Updated},
};
use crate::chain::Finality;
use alloy_primitives::B256;
use alloy_rpc_types_engine::ForkchoiceState;
use phalanx::api::{ExecutionEngine as _, Failure, Ticket};
use std::time::Instant;

impl Client {
    /// Moves the chain to a head, and marks its safe and its finalised block.
    pub(super) fn choose(&mut self, state: &ForkchoiceState, wanted: Wanted) -> Result<Updated, Stop> {
        let head = state.head_block_hash;
        if head.is_zero() {
            return Err(Fault::ForkchoiceState("the head is zero").into());
        }
        if let Some(invalid) = self.tree.invalid(&head) {
            return Ok(Updated::of(Status::invalid(invalid)));
        }
        let (path, root) = self.tree.path(head);
        let Some(fork) = self.chain.height_of(&root)? else { return Ok(Updated::of(Status::syncing())) };
        // The engine keeps what is final, also where the file of marks is lost.
        let floor = self.marks.floor().max(self.chain.service.status().finalised);
        let (tip, was) = (self.chain.height(), self.chain.head().hash);
        if fork < floor {
            if path.is_empty() {
                // The client is behind: nothing is moved and nothing is built.
                return Ok(Updated::of(Status::valid(head)));
            }
            return Err(Fault::TooDeep("the finalised block is never left").into());
        }
        let marks = match self.marks(state, fork, &path) {
            // A wrong mark counts on a valid head alone.
            Err(fault) if path.iter().all(|hash| self.tree.is_valid(hash)) => return Err(fault),
            marks => marks,
        };
        if fork < tip || !path.is_empty() {
            let begun = Instant::now();
            // The client may still fetch the block that was built on the old head.
            self.put_aside()?;
            match self.reorganise(fork, &path)? {
                Moved::There => {}
                Moved::Invalid(invalid) => return Ok(Updated::of(Status::invalid(&invalid))),
                Moved::Full => return Ok(Updated::of(Status::syncing())),
            }
            self.metrics.choice_seconds.inc_by(begun.elapsed().as_secs_f64());
        }
        let marks = match marks {
            Ok(marks) => marks,
            Err(fault) => {
                self.go_back(was)?;
                return Err(fault);
            }
        };
        if marks != self.marks {
            marks.write(&self.folder).map_err(|error| Fault::Server(error.to_string()))?;
            self.marks = marks;
            self.show_marks()?;
        }
        // What has come since with a height that is final can never be chosen.
        self.tree.remove_up_to(self.marks.floor());
        let updated = Updated::of(Status::valid(head));
        match wanted {
            None => Ok(updated),
            Some(wanted) => Ok(updated.building(self.begin(&wanted?)?)),
        }
    }

    /// Makes the block the head that it was before a move.
    fn go_back(&mut self, was: B256) -> Result<(), Stop> {
        let (path, root) = self.tree.path(was);
        let moved = match self.chain.height_of(&root)? {
            Some(fork) => Some(self.reorganise(fork, &path)?),
            None => None,
        };
        if !matches!(moved, Some(Moved::There)) {
            tracing::error!(height = self.chain.height(), "the chain cannot go back to the head that it had");
        }
        Ok(())
    }

    /// Shows the marks to readers, and promises the engine that nothing goes back behind them.
    pub(super) fn show_marks(&mut self) -> Result<(), Failure> {
        let Marks { safe, finalised } = self.marks;
        let finality =
            Finality::Marked { safe: safe.map(|mark| mark.number), finalised: finalised.map(|mark| mark.number) };
        self.chain.mark(finality);
        self.chain.service.finalise(Ticket::default(), self.marks.floor())
    }

    /// The marks of a fork choice whose head is at the end of `path`, behind the block at height `fork`. A zero hash, and a finalised
    /// block below the one that is known, change nothing.
    fn marks(&self, state: &ForkchoiceState, fork: u64, path: &[B256]) -> Result<Marks, Stop> {
        let find = |hash: B256, what: &'static str| -> Result<Option<Mark>, Stop> {
            if hash.is_zero() {
                return Ok(None);
            }
            let number = match self.chain.height_of(&hash)? {
                Some(height) => Some(height).filter(|height| *height <= fork),
                None => path.iter().zip(fork + 1..).find(|(held, _)| **held == hash).map(|(_, number)| number),
            };
            let number = number.ok_or(Fault::ForkchoiceState(what))?;
            Ok(Some(Mark { number, hash }))
        };
        let safe = find(state.safe_block_hash, "the safe block is no ancestor of the head")?;
        let finalised = find(state.finalized_block_hash, "the finalised block is no ancestor of the head")?;
        let finalised = finalised.filter(|mark| mark.number >= self.marks.floor()).or(self.marks.finalised);
        // One that is left with its branch is safe no longer, and what is final is safe.
        let safe = safe.or(self.marks.safe.filter(|mark| mark.number <= fork));
        let safe = safe.filter(|safe| finalised.is_none_or(|mark| mark.number <= safe.number)).or(finalised);
        Ok(Marks { safe, finalised })
    }
}
