//! Catching up: decided blocks from one peer after the other, believed once they lead to the execution that a checkpoint names.

use super::{Host, MOST_BLOCKS};
use crate::{
    chain::decode_outcome,
    config::Action,
    frame::{Blocks, Filled, Frame, WantBlocks},
    proof::StateProof,
};
use alloy_primitives::Bytes;
use phalanx_bft::{Base, Batch, Index, Protocol, To};
use phalanx_pipeline::ConsensusEvent;

/// Length of the blocks in one answer, in bytes, at most; one block of any length passes.
const MOST_BYTES: usize = 4 << 20;

/// A transfer of decided blocks in progress.
#[derive(Debug)]
pub(super) struct Transfer {
    /// Checkpoint that the blocks lead to, and what proves it.
    base: Base,
    proof: Bytes,
    /// Blocks that are not checked yet.
    blocks: Vec<Option<Batch>>,
}

impl<P: Protocol> Host<P> {
    /// Tells the pipeline of a checkpoint: a correct replica behind it has executed the decided prefix, so that it certifies the
    /// state like a quorum of state votes. Votes for older slots may be lost with the replicas that counted them.
    pub(super) fn certify(&mut self, base: Base, proof: &Bytes) {
        let decided = base.slot <= self.chain.decided() && base.slot > self.committed;
        if let Some(block) = self.chain.block(base.slot).filter(|_| decided) {
            let (id, height, digest) = (block.meta.id, base.slot, base.digest);
            let bytes = StateProof::Checkpoint(proof.clone()).encode();
            self.events.push_back((self.appended, ConsensusEvent::StateCertificate { id, height, digest, bytes }));
        }
    }

    /// Asks a peer for the decided blocks up to a checkpoint.
    pub(super) fn want(&mut self, base: Base, proof: Bytes) {
        let n = self.config.quorums.n() as u16;
        if base.slot <= self.chain.decided() {
            return self.certify(base, &proof);
        }
        if n < 2 {
            return;
        }
        // A peer that goes on sending is not replaced.
        if let Some(transfer) = &self.transfer
            && transfer.blocks.len() > self.sent_before
        {
            self.sent_before = transfer.blocks.len();
            return;
        }
        self.sent_before = 0;
        self.asked = (self.asked + 1) % n;
        if self.asked == self.me.0 {
            self.asked = (self.asked + 1) % n;
        }
        // Another peer may have answered with lies: begin anew.
        self.transfer = Some(Transfer { base, proof, blocks: Vec::new() });
        let want = WantBlocks { from: self.chain.decided() + 1, to: base.slot };
        self.actions.push(Action::Send(To::One(Index(self.asked)), Frame::WantBlocks(want)));
    }

    pub(super) fn serve(&mut self, to: Index, want: WantBlocks) {
        if want.from <= self.chain.base().slot || want.from > self.chain.decided() || want.to < want.from {
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

    /// Collects decided blocks, and believes them once they lead to the execution that the checkpoint names.
    pub(super) fn on_blocks(&mut self, blocks: Blocks) {
        let Some(Transfer { base, proof, blocks: mut fetched }) = self.transfer.take() else { return };
        let next = self.chain.decided() + 1 + fetched.len() as u64;
        let room = (base.slot + 1).saturating_sub(next) as usize;
        let contents: Option<Vec<Option<Batch>>> =
            blocks.batches.iter().map(|filled| filled.content().map(|batch| batch.cloned())).collect();
        let usable = blocks.from == next && blocks.batches.len() <= room && !blocks.batches.is_empty();
        let Some(contents) = contents.filter(|_| usable) else {
            self.transfer = Some(Transfer { base, proof, blocks: fetched });
            return;
        };
        fetched.extend(contents);
        let last = self.chain.decided() + fetched.len() as u64;
        if last < base.slot {
            let want = WantBlocks { from: last + 1, to: base.slot };
            self.actions.push(Action::Send(To::One(Index(self.asked)), Frame::WantBlocks(want)));
            self.transfer = Some(Transfer { base, proof, blocks: fetched });
            return;
        }
        let Some((exec, digest)) = decode_outcome(&blocks.outcome) else { return };
        if digest != base.digest || self.chain.execution_after(&fetched) != exec {
            return;
        }
        let first = self.chain.decided() + 1;
        for (slot, batch) in (first..).zip(fetched) {
            self.decided(slot, batch);
        }
        self.certify(base, &proof);
    }
}
