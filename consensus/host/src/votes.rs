//! State votes and decisions per slot.

use crate::frame::StateVote;
use alloy_primitives::{B256, Bytes};
use phalanx_bft::{Batch, Index, Lean, Quorums, ReplicaSet, Signed, Slot, StateVotes};
use std::{cmp::Ordering, collections::BTreeMap};

/// Votes on results, and decisions that wait for the slots below them.
#[derive(Debug)]
pub(crate) struct Votes {
    quorums: Quorums,
    slots: BTreeMap<Slot, OfSlot>,
    decided: BTreeMap<Slot, Option<Batch>>,
    /// Own votes as they were last sent.
    own: BTreeMap<Slot, Signed<StateVote>>,
    /// Replicas that contradicted themselves.
    accused: ReplicaSet,
}

/// Consequence of a vote.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Added {
    /// None yet.
    Counted,
    /// The vote completes a certificate.
    Certifies,
    /// The vote contradicts an earlier one of its replica: both, encoded one after the other.
    Contradicts(Bytes),
}

#[derive(Debug, Default)]
struct OfSlot {
    /// A tally per block that has votes: votes for different blocks of one slot are different things. At most one per replica.
    tallies: BTreeMap<B256, StateVotes>,
    /// Newest vote of each replica.
    votes: BTreeMap<Index, Signed<StateVote>>,
    /// The first votes that certified together. Later votes lean on newer views and may not add up with them.
    certificate: Vec<Signed<StateVote>>,
    /// Own result of each block.
    own: BTreeMap<B256, Own>,
}

/// Own result of a block.
#[derive(Debug)]
struct Own {
    digest: B256,
    /// Result that the digest covers, encoded.
    outcome: Bytes,
    /// Basis on which the vote was last sent.
    sent: Option<Lean>,
}

impl Votes {
    pub(crate) fn new(quorums: Quorums) -> Self {
        Self {
            quorums,
            slots: BTreeMap::new(),
            decided: BTreeMap::new(),
            own: BTreeMap::new(),
            accused: ReplicaSet::default(),
        }
    }

    /// Sets the own result of a block.
    pub(crate) fn set_own(&mut self, slot: Slot, block: B256, (digest, outcome): (B256, Bytes)) {
        self.slots.entry(slot).or_default().own.insert(block, Own { digest, outcome, sent: None });
    }

    /// The own result of a block, encoded.
    pub(crate) fn own_outcome(&self, slot: Slot, block: B256) -> Option<Bytes> {
        Some(self.slots.get(&slot)?.own.get(&block)?.outcome.clone())
    }

    /// The own digest to vote for, unless the vote was sent on this basis or a final one.
    pub(crate) fn own_due(&mut self, slot: Slot, block: B256, lean: Lean) -> Option<B256> {
        let Own { digest, sent, .. } = self.slots.get_mut(&slot)?.own.get_mut(&block)?;
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

    /// True if the own vote on this basis is for another block.
    pub(crate) fn is_taken(&self, slot: Slot, block: B256, lean: Lean) -> bool {
        self.own.get(&slot).is_some_and(|vote| vote.body.lean() == lean && vote.body.block != block)
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
        let known_signer = usize::from(vote.signer.0) < self.quorums.n();
        known_signer
            && known.is_none_or(|known| match vote.body.lean().cmp(&known.body.lean()) {
                Ordering::Less => false,
                // One contradiction of a replica is enough.
                Ordering::Equal => known.body != vote.body && !self.accused.contains(vote.signer),
                Ordering::Greater => true,
            })
    }

    /// Counts a verified vote.
    pub(crate) fn add(&mut self, vote: Signed<StateVote>) -> Added {
        if !self.is_news(&vote) {
            return Added::Counted;
        }
        let quorums = self.quorums;
        let StateVote { slot, block, digest, .. } = vote.body;
        let (signer, lean) = (vote.signer, vote.body.lean());
        let of = self.slots.entry(slot).or_default();
        // A replica has one result on one basis. The first stays.
        if let Some(before) = of.votes.get(&signer).filter(|before| before.body.lean() == lean) {
            self.accused.insert(signer);
            return Added::Contradicts([alloy_rlp::encode(before), alloy_rlp::encode(&vote)].concat().into());
        }
        // It has one vote per slot: a vote on a newer basis for another block takes the earlier one away.
        if let Some(before) = of.votes.insert(signer, vote)
            && (before.body.block, before.body.digest) != (block, digest)
            && let Some(tally) = of.tallies.get_mut(&before.body.block)
        {
            tally.remove(signer);
            if tally.is_empty() {
                of.tallies.remove(&before.body.block);
            }
        }
        if !of.certificate.is_empty() {
            return Added::Counted;
        }
        let tally = of.tallies.entry(block).or_insert_with(|| StateVotes::new(quorums));
        tally.add(signer, digest, lean);
        let Some(signers) = tally.certifiers(digest) else { return Added::Counted };
        of.certificate = signers.iter().filter_map(|signer| of.votes.get(signer)).cloned().collect();
        // Only the votes behind the certificate still count.
        of.tallies.clear();
        Added::Certifies
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

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_bft::Lean;

    fn vote(signer: u16, slot: Slot, block: u8, view: u64) -> Signed<StateVote> {
        let body = StateVote::new(slot, B256::repeat_byte(block), B256::ZERO, Lean::Early(view));
        Signed { signer: Index(signer), signature: Bytes::new(), body }
    }

    fn votes() -> Votes {
        Votes::new(Quorums::new(4, 1).expect("a legal size"))
    }

    /// A replica that names another block in each view takes no more memory than one that names one.
    #[test]
    fn a_replica_has_one_vote_in_one_tally_of_a_slot() {
        let mut votes = votes();
        for view in 0..9 {
            assert_eq!(votes.add(vote(3, 1, view as u8, view)), Added::Counted);
        }
        assert_eq!((votes.slots[&1].tallies.len(), votes.slots[&1].votes.len()), (1, 1));
        assert_eq!(votes.add(vote(3, 1, 0, 3)), Added::Counted, "older than the newest");
        assert_eq!(votes.slots[&1].votes[&Index(3)], vote(3, 1, 8, 8));
    }

    #[test]
    fn what_is_below_a_slot_is_dropped() {
        let mut votes = votes();
        for slot in 1..=9 {
            votes.add(vote(3, slot, 1, 0));
            votes.keep_own(vote(0, slot, 1, 0));
            assert!(votes.decide(slot, None));
        }
        votes.prune(5);
        let kept: Vec<Slot> = (5..=9).collect();
        assert!(votes.slots.keys().eq(&kept) && votes.own.keys().eq(&kept) && votes.decided.keys().eq(&kept));
    }
}
