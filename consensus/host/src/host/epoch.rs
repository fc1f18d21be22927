//! Epochs: slots of the protocol as heights of the chain, and the end of an epoch.
//!
//! A protocol's instance counts its slots from 1, above the block that begins the epoch. The first valid change of members ends the epoch
//! with its block: what the protocol orders above is void, here as at every other host. The epoch is over once the block is committed, and a
//! quorum's votes for its result are at hand, which prove that to a replica that missed it.

use super::Host;
use crate::{
    action::Action,
    boundary::Boundary,
    change::{ChangeError, SignedChange},
    frame::Frame,
    proof::StateProof,
};
use alloy_primitives::{B256, Bytes};
use phalanx_bft::{Base, Batch, Protocol, Slot, To};

impl<P: Protocol> Host<P> {
    /// Slot of the protocol's instance for a height; `None` for a block of an earlier epoch.
    #[must_use]
    pub fn slot_of(&self, height: Slot) -> Option<Slot> {
        height.checked_sub(self.epoch.origin()).filter(|slot| *slot > 0)
    }

    /// Checks a change of members: it ends this epoch.
    ///
    /// # Errors
    /// The reason why it does not.
    pub(super) fn check_change(&self, value: &[u8]) -> Result<(), ChangeError> {
        SignedChange::check(value, self.config.quorums, self.config.domain, &*self.scheme).map(drop)
    }

    /// Returns true for a value that replicas order: a transaction, or a change that ends this epoch.
    pub(super) fn takes(&self, value: &[u8]) -> bool {
        match SignedChange::is_claimed(value) {
            true => self.check_change(value).is_ok(),
            false => self.config.content.takes(value),
        }
    }

    /// The committed block as the protocol starts from it: that of an earlier epoch is its genesis.
    pub(super) fn base_of(&self, slot: Slot, digest: B256) -> Base {
        self.slot_of(slot).map_or_else(Base::default, |slot| Base { slot, digest })
    }

    /// Notes the end of the epoch, if this decided block is its last.
    pub(super) fn note_end(&mut self, slot: Slot, batch: &Batch) {
        let change = SignedChange::first_in(batch, self.config.quorums, self.config.domain, &*self.scheme);
        if self.epoch.end.is_none() && change.is_some() {
            self.epoch.end = Some(slot);
            self.chain.void_order_votes(slot);
        }
    }

    /// Finds the end of the epoch in the log, after a start on a committed block with this certificate. Returns it if that is the block.
    pub(super) fn find_end(&mut self, certificate: Option<&Bytes>) -> Option<Slot> {
        let decided = self.chain.decided();
        let blocks = self.chain.from(0).take_while(|(slot, _)| **slot <= decided);
        let blocks: Vec<(Slot, Batch)> =
            blocks.filter_map(|(slot, block)| Some((*slot, block.batch.clone()?))).collect();
        blocks.iter().for_each(|(slot, batch)| self.note_end(*slot, batch));
        let end = self.epoch.end.filter(|end| *end == self.committed)?;
        self.epoch.certificate = certificate.cloned();
        Some(end)
    }

    /// The block that the epoch begins above and its votes, if the state is below.
    pub(super) fn missing_beginning(&self) -> Option<(Base, Bytes)> {
        let begins = self.epoch.begins.as_ref().filter(|begins| begins.slot() > self.committed)?;
        Some((begins.base()?, begins.block.certificate.clone()))
    }

    /// Slot up to which own state votes have done their work.
    pub(super) fn settled(&self) -> Slot {
        match self.epoch.end {
            Some(end) if !self.epoch.told => self.committed.min(end.saturating_sub(1)),
            _ => self.committed,
        }
    }

    /// Hands the shell the proof that the epoch is over, once it is, and sends the votes to the others.
    pub(super) fn try_end(&mut self) {
        let Some(end) = self.epoch.end.filter(|end| *end <= self.committed && !self.epoch.told) else { return };
        let votes = self.votes.certificate(end);
        let counted = (!votes.is_empty()).then(|| StateProof::Votes(votes.to_vec()).encode());
        let known = counted.or_else(|| self.epoch.certificate.clone());
        let Some(boundary) = known.and_then(|certificate| self.boundary(end, &certificate)) else { return };
        self.epoch.told = true;
        if let Some(StateProof::Votes(votes)) = StateProof::decode(&boundary.block.certificate) {
            self.outbox.send(To::All, Frame::Certificate(votes));
        }
        self.outbox.act(Action::Ended(Box::new(boundary)));
    }

    fn boundary(&self, end: Slot, certificate: &Bytes) -> Option<Boundary> {
        let block = self.certified(end, certificate)?;
        let of_chain = self.chain.block(end)?;
        let (parent, batch) = (of_chain.meta.parent.0, of_chain.batch.clone()?);
        let change = SignedChange::first_in(&batch, self.config.quorums, self.config.domain, &*self.scheme)?;
        Some(Boundary { change, block, parent, batch })
    }
}
