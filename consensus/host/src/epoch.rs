//! Bounds of an epoch in the chain.

use crate::boundary::Boundary;
use alloy_primitives::Bytes;
use phalanx_bft::Slot;

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

    /// Returns true for a slot above the last one of the epoch.
    pub(crate) fn is_over(&self, slot: Slot) -> bool {
        self.end.is_some_and(|end| slot > end)
    }
}
