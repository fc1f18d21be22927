//! Blocks and certificates, and what replicas say and keep.

use crate::core::{Batch, Index, ReplicaSet, View};
use alloy_primitives::{B256, keccak256};
use core::fmt::Debug;
use std::sync::Arc;

/// Place of a block in the chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Place {
    /// View of the proposal.
    pub view: View,
    /// Name of the parent.
    pub parent: B256,
    /// View of the parent.
    pub parent_view: View,
    /// The proposer.
    pub author: Index,
    /// Number of ancestors.
    pub height: u64,
}

/// Content of a block.
pub trait Content: Clone + Debug + PartialEq + Eq {
    /// Name of a block with this content in a place: a hash over both.
    fn name(&self, place: &Place) -> B256;
}

impl Content for Batch {
    fn name(&self, place: &Place) -> B256 {
        let mut bytes = b"phalanx-rounds-1".to_vec();
        for number in [place.view, place.parent_view, u64::from(place.author.0), place.height] {
            bytes.extend_from_slice(&number.to_be_bytes());
        }
        bytes.extend_from_slice(place.parent.as_slice());
        bytes.extend_from_slice(self.digest().as_slice());
        keccak256(bytes)
    }
}

/// A proposal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Block<C> {
    /// Hash of all other fields.
    pub id: B256,
    /// Place of the block.
    pub place: Place,
    /// Content of the block.
    pub content: C,
}

impl<C: Content> Block<C> {
    /// Creates a block and computes its name.
    #[must_use]
    pub fn new(place: Place, content: C) -> Self {
        Self { id: content.name(&place), place, content }
    }
}

/// Statement of a quorum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CertKind {
    /// Votes for the block.
    Notarise,
    /// Nullifies of the view.
    Nullify,
    /// Order votes for the block.
    Order,
}

/// A certificate: collected votes, verified by the caller that hands it in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cert {
    /// Statement that the signers make.
    pub kind: CertKind,
    /// View of the statement.
    pub view: View,
    /// Block of the statement; zero for [`CertKind::Nullify`].
    pub id: B256,
    /// Replicas that signed.
    pub signers: ReplicaSet,
}

/// Message of a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note<C> {
    /// A block, from its author or relayed.
    Proposal(Arc<Block<C>>),
    /// Vote of the first round.
    Vote(View, B256),
    /// Vote of the second round.
    OrderVote(View, B256),
    /// Nullify of a view.
    Nullify(View),
    /// A certificate, relayed to replicas that may have missed it.
    Cert(Cert),
    /// Requests a block.
    WantBlock(B256),
}

/// Record that a replica writes before the note that it allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kept<C> {
    /// Vote for the block in its view. It holds the whole block: if all replicas lose power at once, a block with a quorum of
    /// votes must survive. Otherwise it could be ordered and never executed.
    Voted(Arc<Block<C>>),
    /// Order vote for the block.
    OrderVoted(View, B256),
    /// Nullify of the view.
    Nullified(View),
    /// Proposal in the view, on this parent.
    Proposed(View, B256),
}
