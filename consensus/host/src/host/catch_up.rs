//! Catching up: decided blocks from one peer after the other, believed once they lead to the execution that a checkpoint names.
//!
//! A peer that lies, or sends nothing for a while, is left for the next one. The blocks of a transfer are bounded by what a correct
//! peer can have retained, in bytes.

use super::{Host, MOST_BLOCKS, MOST_RETAINED_BYTES};
use crate::{
    action::{Action, HostTimer},
    chain::decode_outcome,
    frame::{Blocks, Filled, Frame, WantBlocks},
    transfer::Transfer,
};
use alloy_primitives::Bytes;
use phalanx_bft::{Base, Batch, Index, Protocol, Slot, To};

/// Length of the blocks in one answer, in bytes, at most; one block of any length passes.
const MOST_BYTES: usize = 4 << 20;

/// Share of a peer's budget that a refusal takes, in bytes.
const PRUNED_BYTES: usize = 64;

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
        if self.catch_up.transfer.is_some() {
            self.catch_up.wanted = Some((base, proof));
            return;
        }
        self.catch_up.transfer = Some(Transfer::new(base, proof, self.chain.decided() + 1));
        self.ask_next();
    }

    /// Leaves a peer that may have sent lies, or that sends nothing.
    fn leave(&mut self) {
        let (peer, quorums) = (self.catch_up.peer, self.config.quorums);
        if self.catch_up.transfer.as_mut().is_some_and(|transfer| transfer.leave(peer, quorums)) {
            self.outbox.act(Action::Behind(self.chain.decided()));
        }
        self.ask_next();
    }

    /// Begins the transfer anew at the next peer.
    fn ask_next(&mut self) {
        self.catch_up.turn(self.me, self.config.quorums.n());
        if let Some(transfer) = &mut self.catch_up.transfer {
            transfer.restart(self.chain.decided() + 1);
        }
        self.ask();
    }

    /// Asks for the next blocks of the transfer.
    fn ask(&mut self) {
        let Some(transfer) = &mut self.catch_up.transfer else { return };
        let want = WantBlocks { from: transfer.next(), to: transfer.base.slot };
        self.outbox.send(To::One(self.catch_up.peer), Frame::WantBlocks(want));
        let patience = transfer.patience.saturating_mul(self.config.resend);
        self.outbox.set(HostTimer::Transfer, patience);
    }

    /// Asks once more, then leaves a peer that sends nothing.
    pub(super) fn lose_patience(&mut self) {
        let Some(transfer) = &mut self.catch_up.transfer else { return };
        if transfer.base.slot <= self.chain.decided() {
            return self.end_transfer();
        }
        if !core::mem::replace(&mut transfer.repeated, true) {
            return self.ask();
        }
        transfer.grow_patience();
        self.leave();
    }

    /// Ends the transfer, and begins the one that waits.
    fn end_transfer(&mut self) {
        if let Some(Transfer { base, proof, .. }) = self.catch_up.transfer.take() {
            self.outbox.cancel(HostTimer::Transfer);
            self.certify(base, &proof);
        }
        if let Some((base, proof)) = self.catch_up.wanted.take() {
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
                self.outbox.send(To::One(to), Frame::Pruned(base));
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
        self.outbox.send(To::One(to), Frame::Blocks(Blocks { from: want.from, batches, outcome }));
    }

    /// Leaves a peer that has pruned what is wanted.
    pub(super) fn on_pruned(&mut self, from: Index, slot: Slot) {
        let Some(transfer) = &mut self.catch_up.transfer else { return };
        // An answer to another question.
        if from != self.catch_up.peer || slot < transfer.next() {
            return;
        }
        transfer.pruned.insert(from);
        self.leave();
    }

    /// Collects decided blocks, and believes them once they lead to the execution that the checkpoint names.
    pub(super) fn on_blocks(&mut self, from: Index, blocks: Blocks) {
        let decided = self.chain.decided();
        let Some(transfer) = &mut self.catch_up.transfer else { return };
        // An answer to another question.
        if from != self.catch_up.peer || blocks.from != transfer.next() {
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
        transfer.extend(contents, bytes);
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
