//! Statements that replicas sign, but for those of lanes.

use crate::{
    core::{Base, Slot, Statement, View},
    lanes::Cut,
};
use alloy_primitives::B256;
use alloy_rlp::{RlpDecodable, RlpEncodable};

/// A value and the highest view in which a replica has it; the zero digest stands for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, RlpEncodable, RlpDecodable)]
pub struct Mark {
    /// View.
    pub view: View,
    /// Digest of the cut.
    pub digest: B256,
}

impl Mark {
    /// View and digest, if there is a value.
    #[must_use]
    pub fn get(&self) -> Option<(View, B256)> {
        (self.digest != B256::ZERO).then_some((self.view, self.digest))
    }
}

/// PREP-VOTE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, RlpEncodable, RlpDecodable)]
pub struct PrepVote {
    /// Slot.
    pub slot: Slot,
    /// View.
    pub view: View,
    /// Digest of the cut.
    pub digest: B256,
}

impl Statement for PrepVote {
    const KIND: u8 = 34;
}

/// CONFIRM-ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, RlpEncodable, RlpDecodable)]
pub struct Ack {
    /// Slot.
    pub slot: Slot,
    /// View.
    pub view: View,
    /// Digest of the cut.
    pub digest: B256,
}

impl Statement for Ack {
    const KIND: u8 = 35;
}

/// TIMEOUT: a replica gives up a view of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, RlpEncodable, RlpDecodable)]
pub struct Timeout {
    /// Slot.
    pub slot: Slot,
    /// View that is given up.
    pub view: View,
    /// Highest certified value.
    pub qc: Mark,
    /// Value of the highest view that the replica has voted in.
    pub prop: Mark,
}

impl Statement for Timeout {
    const KIND: u8 = 36;
}

/// State after a slot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, RlpEncodable, RlpDecodable)]
pub struct Checkpoint {
    /// Slot.
    pub slot: Slot,
    /// Height of its last block.
    pub height: u64,
    /// Digest of that block's outcome.
    pub digest: B256,
    /// Last committed car of each lane.
    pub frontier: Cut,
}

impl Statement for Checkpoint {
    const KIND: u8 = 37;
}

impl Checkpoint {
    /// The state as the host knows it.
    #[must_use]
    pub const fn base(&self) -> Base {
        Base { slot: self.height, digest: self.digest }
    }
}

/// Returns true if a complaint names no view above its own.
pub(super) const fn is_possible(timeout: &Timeout) -> bool {
    timeout.qc.view <= timeout.view && timeout.prop.view <= timeout.view
}
