//! Bounds of an epoch in the chain.

use crate::boundary::Boundary;
use alloy_primitives::Bytes;
use phalanx_bft::{Base, Out, Protocol, Slot, Want};

/// Bounds of the present epoch.
#[derive(Debug, Default)]
pub(crate) struct Epoch {
    /// Block that the epoch begins above; `None` for the genesis.
    pub(crate) begins: Option<Box<Boundary>>,
    /// Slot of the last block, once it is decided.
    pub(crate) end: Option<Slot>,
    /// Certificate of the last block with which an earlier start has committed it.
    pub(crate) certificate: Option<Bytes>,
    /// True once the shell has the proof that the epoch is over.
    pub(crate) told: bool,
}

impl Epoch {
    /// Height of the block that the epoch begins above.
    pub(crate) fn origin(&self) -> Slot {
        self.begins.as_ref().map_or(0, |begins| begins.slot())
    }

    /// An effect of the protocol, with heights of the chain in the place of its slots.
    pub(crate) fn raise<P: Protocol>(&self, effect: Out<P>) -> Out<P> {
        let origin = self.origin();
        let at = |base: Base| Base { slot: base.slot.saturating_add(origin), ..base };
        match effect {
            Out::Proposed { slot, view, batch } => Out::Proposed { slot: slot.saturating_add(origin), view, batch },
            Out::OrderVoted { slot, view } => Out::OrderVoted { slot: slot.saturating_add(origin), view },
            Out::Decided { slot, batch } => Out::Decided { slot: slot.saturating_add(origin), batch },
            Out::Certificate { slot, digest, signature, answers } => {
                Out::Certificate { slot: slot.saturating_add(origin), digest, signature, answers }
            }
            Out::Conflict { slot } => Out::Conflict { slot: slot.saturating_add(origin) },
            Out::Stable { base, proof } => Out::Stable { base: at(base), proof },
            Out::Want(Want::State { base, proof }) => Out::Want(Want::State { base: at(base), proof }),
            effect => effect,
        }
    }

    /// Returns true for a slot above the last one of the epoch.
    pub(crate) fn is_over(&self, slot: Slot) -> bool {
        self.end.is_some_and(|end| slot > end)
    }
}
