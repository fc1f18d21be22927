//! State votes and decisions per slot.

use crate::frame::StateVote;
use alloy_primitives::B256;
use phalanx_bft::{Batch, Index, Lean, Quorums, Signed, Slot, StateVotes};
use std::collections::BTreeMap;

/// Votes on results, and decisions that wait for the slots below them.
#[derive(Debug)]
pub(crate) struct Votes {
    quorums: Quorums,
    slots: BTreeMap<Slot, OfSlot>,
    decided: BTreeMap<Slot, Option<Batch>>,
    /// Own votes as they were last sent.
    own: BTreeMap<Slot, Signed<StateVote>>,
}

#[derive(Debug, Default)]
struct OfSlot {
    /// A tally per block: votes for different blocks of one slot are different things.
    tallies: BTreeMap<B256, StateVotes>,
    /// Newest vote of each replica.
    votes: BTreeMap<Index, Signed<StateVote>>,
    /// The first votes that certified together. Later votes lean on newer views and may not add up with them.
    certificate: Vec<Signed<StateVote>>,
    /// Own result of each block, and the basis on which the vote was last sent.
    own: BTreeMap<B256, (B256, Option<Lean>)>,
}

impl Votes {
    pub(crate) const fn new(quorums: Quorums) -> Self {
        Self { quorums, slots: BTreeMap::new(), decided: BTreeMap::new(), own: BTreeMap::new() }
    }

    /// Sets the own result of a block.
    pub(crate) fn set_own(&mut self, slot: Slot, block: B256, digest: B256) {
        self.slots.entry(slot).or_default().own.insert(block, (digest, None));
    }

    /// The own digest to vote for, unless the vote was sent on this basis or a final one.
    pub(crate) fn own_due(&mut self, slot: Slot, block: B256, lean: Lean) -> Option<B256> {
        let (digest, sent) = self.slots.get_mut(&slot)?.own.get_mut(&block)?;
        if *sent == Some(lean) || *sent == Some(Lean::Final) {
            return None;
        }
        *sent = Some(lean);
        Some(*digest)
    }

    /// Keeps the own vote for repetition.
    pub(crate) fn keep_own(&mut self, vote: Signed<StateVote>) {
        self.own.insert(vote.body.slot, vote);
    }

    /// Own votes for slots above this one, lowest first.
    pub(crate) fn own_above(&self, slot: Slot, most: usize) -> Vec<Signed<StateVote>> {
        self.own.range(slot + 1..).take(most).map(|(_, vote)| vote.clone()).collect()
    }

    pub(crate) fn has_own_above(&self, slot: Slot) -> bool {
        self.own.range(slot + 1..).next().is_some()
    }

    /// Returns true if this very vote is known.
    pub(crate) fn is_repeated(&self, vote: &Signed<StateVote>) -> bool {
        self.slots.get(&vote.body.slot).is_some_and(|of| of.votes.get(&vote.signer) == Some(vote))
    }

    /// Returns true if the vote can change something: it is not known, nor older than the known one of its replica.
    pub(crate) fn is_news(&self, vote: &Signed<StateVote>) -> bool {
        let known = self.slots.get(&vote.body.slot).and_then(|of| of.votes.get(&vote.signer));
        usize::from(vote.signer.0) < self.quorums.n()
            && known.is_none_or(|known| known != vote && vote.body.lean() >= known.body.lean())
    }

    /// Counts a verified vote. Returns true if it completes a certificate.
    pub(crate) fn add(&mut self, vote: Signed<StateVote>) -> bool {
        if !self.is_news(&vote) {
            return false;
        }
        let quorums = self.quorums;
        let StateVote { slot, block, digest, .. } = vote.body;
        let (signer, lean) = (vote.signer, vote.body.lean());
        let of = self.slots.entry(slot).or_default();
        // A replica has one vote per slot: a vote for another result takes the earlier one away.
        if let Some(before) = of.votes.insert(signer, vote)
            && (before.body.block, before.body.digest) != (block, digest)
            && let Some(tally) = of.tallies.get_mut(&before.body.block)
        {
            tally.remove(signer);
        }
        if !of.certificate.is_empty() {
            return false;
        }
        let tally = of.tallies.entry(block).or_insert_with(|| StateVotes::new(quorums));
        tally.add(signer, digest, lean);
        let Some(signers) = tally.certifiers(digest) else { return false };
        of.certificate = signers.iter().filter_map(|signer| of.votes.get(signer)).cloned().collect();
        // Only the votes behind the certificate still count.
        of.tallies.clear();
        true
    }

    /// Votes that certified a slot together; empty without a certificate.
    pub(crate) fn certificate(&self, slot: Slot) -> &[Signed<StateVote>] {
        self.slots.get(&slot).map_or(&[], |of| &of.certificate)
    }

    /// Keeps a decision until the slots below it are decided. Returns false if another one is known.
    pub(crate) fn decide(&mut self, slot: Slot, batch: Option<Batch>) -> bool {
        *self.decided.entry(slot).or_insert_with(|| batch.clone()) == batch
    }

    pub(crate) fn take_decided(&mut self, slot: Slot) -> Option<Option<Batch>> {
        self.decided.remove(&slot)
    }

    /// Drops what is below a slot.
    pub(crate) fn prune(&mut self, below: Slot) {
        self.slots = self.slots.split_off(&below);
        self.decided = self.decided.split_off(&below);
        self.own = self.own.split_off(&below);
    }
}
