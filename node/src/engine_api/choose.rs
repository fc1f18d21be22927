//! Fork choice: head, safe and finalised block, and the block to build on the head.

use super::{
    client::{Client, Stop},
    fault::Fault,
    handle::Wanted,
    marks::{Mark, Marks},
    reorganise::Moved,
    status::{Status, Updated},
};
use alloy_primitives::B256;
use alloy_rpc_types_engine::ForkchoiceState;
use phalanx::api::ExecutionEngine as _;

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
        let tip = self.chain.height();
        if path.is_empty() && fork < floor {
            // The client is behind: nothing is moved and nothing is built.
            return Ok(Updated::of(Status::valid(head)));
        }
        let marks = self.marks(state, fork, &path)?;
        if fork < floor {
            return Err(Fault::TooDeep("the finalised block is never left").into());
        }
        if fork < tip || !path.is_empty() {
            // The client may still fetch the block that was built on the old head.
            self.put_aside()?;
            match self.reorganise(fork, &path)? {
                Moved::There => {}
                Moved::Invalid(invalid) => return Ok(Updated::of(Status::invalid(&invalid))),
                Moved::Full => return Ok(Updated::of(Status::syncing())),
            }
        }
        if marks != self.marks {
            marks.write(&self.folder).map_err(|error| Fault::Server(error.to_string()))?;
            self.marks = marks;
            self.show_marks()?;
        }
        let updated = Updated::of(Status::valid(head));
        match wanted {
            None => Ok(updated),
            Some(wanted) => Ok(updated.building(self.begin(&wanted?)?)),
        }
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
