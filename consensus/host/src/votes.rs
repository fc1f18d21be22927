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

#[derive(Debug)]
struct OfSlot {
    /// A tally per block: votes for different blocks of one slot are different things.
    tallies: BTreeMap<B256, StateVotes>,
    /// Newest vote of each replica.
    votes: BTreeMap<Index, Signed<StateVote>>,
    certified: Option<(B256, B256)>,
    /// Own result of each block, and the basis on which the vote was last sent.
    own: BTreeMap<B256, (B256, Option<Lean>)>,
}

impl Votes {
    pub(crate) const fn new(quorums: Quorums) -> Self {
        Self { quorums, slots: BTreeMap::new(), decided: BTreeMap::new(), own: BTreeMap::new() }
    }

    fn slot(&mut self, slot: Slot) -> &mut OfSlot {
        let new = || OfSlot { tallies: BTreeMap::new(), votes: BTreeMap::new(), certified: None, own: BTreeMap::new() };
        self.slots.entry(slot).or_insert_with(new)
    }

    /// Sets the own result of a block.
    pub(crate) fn set_own(&mut self, slot: Slot, block: B256, digest: B256) {
        self.slot(slot).own.insert(block, (digest, None));
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

    /// Counts a verified vote. Returns true if it completes a certificate.
    pub(crate) fn add(&mut self, vote: Signed<StateVote>) -> bool {
        let quorums = self.quorums;
        let StateVote { slot, block, digest, .. } = vote.body;
        let of = self.slot(slot);
        let (signer, lean) = (vote.signer, vote.body.lean());
        let newer = of.votes.get(&signer).is_none_or(|known| rank(lean) >= rank(known.body.lean()));
        let moved = of.votes.get(&signer).is_some_and(|known| (known.body.block, known.body.digest) != (block, digest));
        if newer {
            of.votes.insert(signer, vote);
        }
        if of.certified.is_some() {
            return false;
        }
        if !newer {
            return false;
        }
        // A replica has one vote per slot: a vote for another block takes the earlier one away.
        if moved {
            of.tallies.clear();
            for vote in of.votes.values().filter(|vote| vote.signer != signer) {
                let tally = of.tallies.entry(vote.body.block).or_insert_with(|| StateVotes::new(quorums));
                tally.add(vote.signer, vote.body.digest, vote.body.lean());
            }
        }
        let tally = of.tallies.entry(block).or_insert_with(|| StateVotes::new(quorums));
        let complete = tally.add(signer, digest, lean);
        if complete {
            of.certified = Some((block, digest));
        }
        complete
    }

    pub(crate) fn is_certified(&self, slot: Slot) -> bool {
        self.slots.get(&slot).is_some_and(|of| of.certified.is_some())
    }

    /// Votes behind a certificate.
    pub(crate) fn certificate(&self, slot: Slot) -> Vec<Signed<StateVote>> {
        let Some(of) = self.slots.get(&slot) else { return Vec::new() };
        let agrees = |vote: &&Signed<StateVote>| of.certified == Some((vote.body.block, vote.body.digest));
        of.votes.values().filter(agrees).cloned().collect()
    }

    /// Keeps a decision until the slots below it are decided.
    pub(crate) fn decide(&mut self, slot: Slot, batch: Option<Batch>) {
        self.decided.insert(slot, batch);
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

/// Final votes come after early ones, and these in the order of their views.
const fn rank(lean: Lean) -> u64 {
    match lean {
        Lean::Early(view) => view,
        Lean::Final => u64::MAX,
    }
}
