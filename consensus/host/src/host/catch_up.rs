//! Catching up: decided blocks from one peer after the other, believed once they lead to the execution that a checkpoint names.
//!
//! A peer that lies, or sends nothing for a while, is left for the next one. The blocks of a transfer are bounded by what a correct
//! peer can have retained, in bytes.

use super::{Host, MOST_BLOCKS, MOST_RETAINED_BYTES};
use crate::{
    action::{Action, HostTimer},
    chain::decode_outcome,
    frame::{Blocks, Filled, Frame, WantBlocks},
};
use alloy_primitives::Bytes;
use phalanx_bft::{Base, Batch, Index, Micros, Protocol, ReplicaSet, Slot, To};

/// Length of the blocks in one answer, in bytes, at most; one block of any length passes.
const MOST_BYTES: usize = 4 << 20;

/// Share of a peer's budget that a refusal takes, in bytes.
const PRUNED_BYTES: usize = 64;

/// Patience with a peer that sends nothing, in repetitions. It doubles with each peer that is left, up to a bound, so that slow links
/// are given the time that an answer takes on them.
const PATIENCE: Micros = 4;
const MOST_PATIENCE: Micros = 256;

/// A transfer of decided blocks in progress.
#[derive(Debug)]
pub(super) struct Transfer {
    /// Checkpoint that the blocks lead to, and what proves it.
    base: Base,
    proof: Bytes,
    /// Blocks from this slot on that are not checked yet, and their length in bytes.
    first: Slot,
    blocks: Vec<Option<Batch>>,
    bytes: usize,
    patience: Micros,
    /// True if the same question was repeated: an answer may be lost, or be more than a peer sends within a period.
    repeated: bool,
    /// Peers that were left, and those among them that have pruned what is wanted.
    left: ReplicaSet,
    pruned: ReplicaSet,
}

impl Transfer {
    const fn next(&self) -> Slot {
        self.first + self.blocks.len() as u64
    }

    /// Drops blocks up to this slot: the protocol has decided them meanwhile.
    fn drop_decided(&mut self, decided: Slot) {
        let known = (decided + 1).saturating_sub(self.first) as usize;
        let known = self.blocks.drain(..known.min(self.blocks.len()));
        self.bytes -= known.flatten().map(|batch| batch.bytes()).sum::<usize>();
        self.first = self.first.max(decided + 1);
    }
}

impl<P: Protocol> Host<P> {
    /// Takes a checkpoint as a certificate: a correct replica behind it has executed the decided prefix, so that it certifies the
    /// state like a quorum of state votes. Votes for older slots may be lost with the replicas that counted them.
    pub(super) fn certify(&mut self, base: Base, proof: &Bytes) {
        // A newer checkpoint that waits certifies all blocks below it.
        let is_newest = self.handover.checkpoint.as_ref().is_none_or(|(known, _)| known.slot <= base.slot);
        if base.slot <= self.chain.decided() && base.slot > self.committed && is_newest {
            self.handover.checkpoint = Some((base, proof.clone()));
            self.handover.due.insert(base.slot);
        }
    }

    /// Asks peers for the decided blocks up to a checkpoint. A transfer that is in progress comes first.
    pub(super) fn want(&mut self, base: Base, proof: Bytes) {
        if base.slot <= self.chain.decided() {
            return self.certify(base, &proof);
        }
        if self.config.quorums.n() < 2 {
            return;
        }
        if self.transfer.is_some() {
            self.wanted = Some((base, proof));
            return;
        }
        let (first, blocks) = (self.chain.decided() + 1, Vec::new());
        let (left, pruned) = (ReplicaSet::default(), ReplicaSet::default());
        let (bytes, patience, repeated) = (0, PATIENCE, false);
        self.transfer = Some(Transfer { base, proof, first, blocks, bytes, patience, repeated, left, pruned });
        self.ask_next();
    }

    /// Leaves a peer that may have sent lies, or that sends nothing. Once all were left, and f+1 of them have pruned what is wanted, one of
    /// which is correct, no peer is known to have it.
    fn leave(&mut self) {
        let (quorums, decided) = (self.config.quorums, self.chain.decided());
        if let Some(transfer) = &mut self.transfer {
            transfer.left.insert(Index(self.asked));
            if transfer.left.len() >= quorums.n() - 1 {
                if transfer.pruned.len() >= quorums.one_correct() {
                    self.actions.push(Action::Behind(decided));
                }
                (transfer.left, transfer.pruned) = (ReplicaSet::default(), ReplicaSet::default());
            }
        }
        self.ask_next();
    }

    /// Begins the transfer anew at the next peer.
    fn ask_next(&mut self) {
        let n = self.config.quorums.n() as u16;
        self.asked = (self.asked + 1) % n;
        if self.asked == self.me.0 {
            self.asked = (self.asked + 1) % n;
        }
        if let Some(transfer) = &mut self.transfer {
            (transfer.first, transfer.blocks, transfer.bytes) = (self.chain.decided() + 1, Vec::new(), 0);
            transfer.repeated = false;
        }
        self.ask();
    }

    /// Asks for the next blocks of the transfer.
    fn ask(&mut self) {
        let Some(transfer) = &mut self.transfer else { return };
        let want = WantBlocks { from: transfer.next(), to: transfer.base.slot };
        self.actions.push(Action::Send(To::One(Index(self.asked)), Frame::WantBlocks(want)));
        let patience = transfer.patience.saturating_mul(self.config.resend);
        self.actions.push(Action::Timer(HostTimer::Transfer, patience));
    }

    /// Asks once more, then leaves a peer that sends nothing.
    pub(super) fn lose_patience(&mut self) {
        let Some(transfer) = &mut self.transfer else { return };
        if transfer.base.slot <= self.chain.decided() {
            return self.end_transfer();
        }
        if !core::mem::replace(&mut transfer.repeated, true) {
            return self.ask();
        }
        transfer.patience = (2 * transfer.patience).min(MOST_PATIENCE);
        self.leave();
    }

    /// Ends the transfer, and begins the one that waits.
    fn end_transfer(&mut self) {
        if let Some(Transfer { base, proof, .. }) = self.transfer.take() {
            self.actions.push(Action::Cancel(HostTimer::Transfer));
            self.certify(base, &proof);
        }
        if let Some((base, proof)) = self.wanted.take() {
            self.want(base, proof);
        }
    }

    pub(super) fn serve(&mut self, to: Index, want: WantBlocks) {
        if want.from > self.chain.decided() || want.to < want.from {
            return;
        }
        let base = self.chain.base().slot;
        if want.from <= base {
            if self.budgets.spend(to, self.now, self.config.resend, PRUNED_BYTES) {
                self.actions.push(Action::Send(To::One(to), Frame::Pruned(base)));
            }
            return;
        }
        let most = want.to.min(self.chain.decided()).min(want.from.saturating_add(MOST_BLOCKS as u64 - 1));
        let (mut batches, mut bytes, mut weight) = (Vec::new(), 0, 0);
        for (_, block) in self.chain.from(want.from).take_while(|(slot, _)| **slot <= most) {
            let length = block.batch.as_ref().map_or(1, Batch::bytes);
            // A transaction of one byte takes more where it arrives.
            weight += length + block.batch.as_ref().map_or(0, |batch| 8 * batch.transactions().len());
            if weight > MOST_BYTES && !batches.is_empty() {
                break;
            }
            bytes += length;
            batches.push(Filled::new(block.batch.clone()));
        }
        if !self.budgets.spend(to, self.now, self.config.resend, bytes) {
            return;
        }
        let last = want.from + batches.len() as u64 - 1;
        let outcome = self.chain.block(last).filter(|_| last == want.to).and_then(|block| block.outcome.clone());
        let outcome = outcome.unwrap_or_default();
        self.actions.push(Action::Send(To::One(to), Frame::Blocks(Blocks { from: want.from, batches, outcome })));
    }

    /// Leaves a peer that has pruned what is wanted.
    pub(super) fn on_pruned(&mut self, from: Index, slot: Slot) {
        let Some(transfer) = &mut self.transfer else { return };
        // An answer to another question.
        if from.0 != self.asked || slot < transfer.next() {
            return;
        }
        transfer.pruned.insert(from);
        self.leave();
    }

    /// Collects decided blocks, and believes them once they lead to the execution that the checkpoint names.
    pub(super) fn on_blocks(&mut self, from: Index, blocks: Blocks) {
        let decided = self.chain.decided();
        let Some(transfer) = &mut self.transfer else { return };
        // An answer to another question.
        if from.0 != self.asked || blocks.from != transfer.next() {
            return;
        }
        let room = (transfer.base.slot + 1).saturating_sub(transfer.next()) as usize;
        let contents: Option<Vec<Option<Batch>>> =
            blocks.batches.iter().map(|filled| filled.content().map(|batch| batch.cloned())).collect();
        let usable = blocks.batches.len() <= room && !blocks.batches.is_empty();
        let bytes: usize = contents.iter().flatten().flatten().map(Batch::bytes).sum();
        let Some(contents) = contents.filter(|_| usable && transfer.bytes + bytes <= MOST_RETAINED_BYTES + MOST_BYTES)
        else {
            return self.leave();
        };
        transfer.repeated = false;
        transfer.bytes += bytes;
        transfer.blocks.extend(contents);
        transfer.drop_decided(decided);
        if transfer.base.slot <= decided {
            return self.end_transfer();
        }
        if transfer.next() <= transfer.base.slot {
            return self.ask();
        }
        let leads = decode_outcome(&blocks.outcome).is_some_and(|(exec, digest)| {
            digest == transfer.base.digest && self.chain.execution_after(&transfer.blocks) == exec
        });
        if !leads {
            return self.leave();
        }
        let fetched = core::mem::take(&mut transfer.blocks);
        for (slot, batch) in (decided + 1..).zip(fetched) {
            self.decided(slot, batch);
        }
        self.end_transfer();
    }
}
