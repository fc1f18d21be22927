//! Parts of a replica's state: open slots, questions, checkpoints, timers.

use super::{
    message::{Msg, Prepare},
    slot::Instance,
    statement::{Checkpoint, PrepVote},
};
use crate::{
    core::{Batch, Index, Signed, Slot, To, View},
    lanes::{Cut, Missing, Tip},
};
use alloy_primitives::B256;
use std::collections::{BTreeMap, BTreeSet};

/// Kinds of own messages that are repeated while a slot is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Said {
    Prepare,
    Vote,
    Confirm,
    Ack,
    Timeout,
    Tc,
}

/// A slot, and the cuts that its digests stand for.
#[derive(Clone, Debug)]
pub(super) struct SlotState {
    pub(super) instance: Instance,
    /// Proposal of the present view or a later one that this replica has not voted for.
    pub(super) pending: Option<Prepare>,
    /// The leader's own vote in the newest proposal, unless it came before a restart.
    pub(super) lead: Option<Signed<PrepVote>>,
    pub(super) cuts: BTreeMap<B256, Cut>,
    /// True if a proposal of some view was seen: the ticket of the next slot.
    pub(super) seen: bool,
    /// View that the patience timer runs for.
    pub(super) patience: Option<View>,
    /// View that this replica has proposed for.
    pub(super) led: Option<View>,
    /// View in which a cut was asked for.
    pub(super) asked: Option<View>,
    /// Latest own messages of each kind.
    pub(super) said: BTreeMap<Said, (To, Msg)>,
}

impl SlotState {
    /// A slot of which nothing is known.
    pub(super) const fn new(me: Index, slot: Slot) -> Self {
        Self {
            instance: Instance::new(me, slot),
            pending: None,
            lead: None,
            cuts: BTreeMap::new(),
            seen: false,
            patience: None,
            led: None,
            asked: None,
            said: BTreeMap::new(),
        }
    }

    /// Drops a complaint and its cut.
    pub(super) fn forget_complaint(&mut self, from: Index) {
        if let Some(complaint) = self.instance.complaints.remove(&from) {
            let digest = complaint.timeout.body.prop.digest;
            if !self.named().contains(&digest) {
                self.cuts.remove(&digest);
            }
        }
    }

    /// Drops cuts that nothing names beyond 2n+4 in all, however many views the slot has.
    pub(super) fn bound_cuts(&mut self, n: usize) {
        let many = self.cuts.len().saturating_sub(2 * n + 4);
        if many > 0 {
            let named = self.named();
            let free: Vec<B256> = self.cuts.keys().filter(|digest| !named.contains(*digest)).copied().collect();
            free.iter().take(many).for_each(|digest| drop(self.cuts.remove(digest)));
        }
    }

    /// Digests of cuts that something names: a proposal, a vote, a certificate, a ticket, a complaint.
    fn named(&self) -> BTreeSet<B256> {
        let Instance { locked, committed, ticket, complaints, .. } = &self.instance;
        let pending = self.pending.iter().map(|prepare| prepare.vote.body.digest);
        let certified = locked.iter().chain(committed).map(|qc| qc.digest);
        let of_ticket = ticket.iter().flat_map(|tc| &tc.timeouts).map(|timeout| timeout.body.prop.digest);
        let of_complaints = complaints.values().map(|complaint| complaint.timeout.body.prop.digest);
        let voted = [self.instance.vote().digest];
        pending.chain(certified).chain(of_ticket).chain(of_complaints).chain(voted).collect()
    }

    /// The cut that the slot probably gets.
    pub(super) fn newest_cut(&self) -> Option<&[Tip]> {
        let decided = self.instance.committed.as_ref().map(|qc| qc.digest);
        let pending = self.pending.as_ref().map(|prepare| prepare.vote.body.digest);
        let digest = decided.or(pending).unwrap_or(self.instance.vote().digest);
        self.cuts.get(&digest).map(Vec::as_slice)
    }
}

/// Blocks of a slot that is not decided yet, or whose decision waits for those before.
#[derive(Clone, Debug)]
pub(super) struct Planned {
    pub(super) slot: Slot,
    pub(super) digest: B256,
    /// Height of the first block.
    pub(super) first: u64,
    pub(super) blocks: Vec<Batch>,
    pub(super) frontier: Cut,
    /// View of the order vote that the host knows.
    pub(super) voted: Option<View>,
}

/// A question for cars.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ask {
    pub(super) missing: Missing,
    /// Replica that is asked first.
    pub(super) first: Option<Index>,
    pub(super) attempts: usize,
    /// Repetitions since the question came up: it is asked again after 1, 2, 4, ... of them, since answers are long.
    pub(super) ticks: usize,
}

/// Questions for cars, by lane and digest, and the replicas that can answer.
#[derive(Clone, Debug, Default)]
pub(super) struct Questions {
    pub(super) asked: BTreeMap<(Index, B256), Ask>,
    /// Replicas that certified the newest known tip of each lane.
    pub(super) sources: BTreeMap<Index, Vec<Index>>,
}

/// Checkpoints, and what the next ones follow from.
#[derive(Clone, Debug, Default)]
pub(super) struct Checkpoints {
    /// Stable checkpoint with its proof, and the one before.
    pub(super) stable: Checkpoint,
    pub(super) proof: Vec<Signed<Checkpoint>>,
    pub(super) older: Checkpoint,
    /// A proven checkpoint above what this replica can reach, and repetitions since it came.
    pub(super) beyond: Option<(Vec<Signed<Checkpoint>>, u32)>,
    /// Newest checkpoint of each replica above the stable one.
    pub(super) newest: BTreeMap<Index, Signed<Checkpoint>>,
    /// Checkpoint slots that are done: height and frontier.
    pub(super) marks: BTreeMap<Slot, (u64, Cut)>,
    /// Outcomes that may belong to a checkpoint.
    pub(super) outcomes: BTreeMap<u64, B256>,
}

/// Timers of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Timer {
    /// Patience with the leader of a slot.
    Patience(Slot),
    /// The votes of all replicas may still come.
    Fast(Slot),
    /// The data of optimistic tips may still come from its owners.
    Tips,
    /// More lanes may grow before this replica proposes.
    Cover,
    /// Others may have missed something.
    Resend,
}

/// Timers that run.
#[derive(Clone, Debug, Default)]
pub(super) struct Timers {
    pub(super) tips: bool,
    pub(super) cover: bool,
    pub(super) cover_ended: bool,
    /// `Some(true)` if repetition runs at its full rate.
    pub(super) resend: Option<bool>,
    /// Highest slot and uncertified own car at the last repetition.
    pub(super) repeated: (Slot, B256),
}
