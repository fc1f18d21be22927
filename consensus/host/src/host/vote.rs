//! State votes: sending the own ones, counting those of others.

use super::{Host, MOST_BLOCKS};
use crate::{
    action::{Action, HostTimer},
    chain::{Block, decode_outcome},
    frame::{Frame, StateVote},
    votes::Added,
};
use phalanx_bft::{Claim, Index, Lean, Protocol, Signed, Slot, Statement as _, To};

/// Share of a peer's budget that a state vote takes, in bytes.
const VOTE_BYTES: usize = 256;

impl<P: Protocol> Host<P> {
    /// Basis of the own state vote for a slot, as far as there is one.
    fn lean(&self, slot: Slot) -> Option<Lean> {
        if slot <= self.chain.decided() {
            return Some(Lean::Final);
        }
        let view = self.chain.block(slot)?.order_voted?;
        // What is ordered above a change is void once the change is decided: no vote for it may leave before.
        if (self.chain.decided() + 1..slot).any(|below| self.chain.block(below).is_some_and(Block::claims_change)) {
            return None;
        }
        let undecided = self.chain.decided() + 1..=slot;
        let all = undecided.into_iter().all(|slot| self.chain.block(slot).is_some_and(|b| b.order_voted == Some(view)));
        all.then_some(Lean::Early(view))
    }

    /// Sends the own state vote, or sends it again on a better basis.
    pub(super) fn say_vote(&mut self, slot: Slot) {
        if self.epoch.is_over(slot) {
            return;
        }
        let Some(lean) = self.lean(slot) else { return };
        let Some(block) = self.chain.block(slot).map(|block| block.meta.id.0) else { return };
        // A later view may give the same content another parent before its own order vote: a second vote on the basis of the first one
        // would contradict it.
        if self.votes.is_taken(slot, block, lean) {
            return;
        }
        let Some(digest) = self.votes.own_due(slot, block, lean) else { return };
        let body = StateVote::new(slot, block, digest, lean);
        let signature = self.scheme.sign(&body.signed_bytes(self.config.domain));
        let vote = Signed { signer: self.me, signature, body };
        self.outbox.send(To::All, Frame::StateVote(vote.clone()));
        self.votes.keep_own(vote.clone());
        self.count(vote);
        self.set_votes_timer();
    }

    /// Repeats own votes as long as their blocks are not committed.
    pub(super) fn set_votes_timer(&mut self) {
        if !self.votes_run && self.votes.has_own_above(self.settled()) {
            self.votes_run = true;
            self.outbox.set(HostTimer::Votes, self.config.resend);
        }
    }

    /// The own final vote for a committed block, from its logged outcome.
    fn final_vote(&self, slot: Slot) -> Option<Signed<StateVote>> {
        let block = self.chain.block(slot).filter(|_| slot <= self.committed)?;
        let (_, digest) = decode_outcome(block.outcome.as_ref()?)?;
        let body = StateVote::new(slot, block.meta.id.0, digest, Lean::Final);
        let signature = self.scheme.sign(&body.signed_bytes(self.config.domain));
        Some(Signed { signer: self.me, signature, body })
    }

    /// Sends the own final vote for a committed block, and repeats it until a quorum's votes are at hand.
    pub(super) fn repeat_final(&mut self, slot: Slot) {
        if let Some(vote) = self.final_vote(slot) {
            self.outbox.send(To::All, Frame::StateVote(vote.clone()));
            self.votes.keep_own(vote.clone());
            self.count(vote);
            self.set_votes_timer();
        }
    }

    /// Repeats own votes that wait for a certificate, and tells the pipeline again of certificates that it has not acted on.
    pub(super) fn repeat_votes(&mut self) {
        self.votes_run = false;
        for vote in self.votes.own_above(self.settled(), MOST_BLOCKS) {
            if self.votes.certificate(vote.body.slot).is_empty() {
                self.outbox.send(To::All, Frame::StateVote(vote));
            } else {
                self.handover.due.insert(vote.body.slot);
            }
        }
        self.set_votes_timer();
    }

    /// Counts votes of a peer. `asks` is true for a vote that stands alone: its sender may miss the certificate.
    pub(super) fn on_votes(&mut self, from: Index, votes: Vec<Signed<StateVote>>, asks: bool) {
        if votes.len() > self.config.quorums.n() {
            return;
        }
        if asks
            && let [vote] = votes.as_slice()
            && self.votes.is_repeated(vote)
        {
            return self.answer_vote(from, vote.body.slot);
        }
        // Votes for a window ahead are kept, so that memory stays bounded; only news is worth a verification.
        let slots = self.chain.base().slot + 1..=self.chain.decided().saturating_add(self.config.retention);
        let news = votes.into_iter().filter(|vote| slots.contains(&vote.body.slot) && self.votes.is_news(vote));
        let news: Vec<Signed<StateVote>> = news.collect();
        let claims: Vec<Claim> = news.iter().map(|vote| vote.claim(self.config.domain)).collect();
        if self.scheme.accepts(&claims) {
            news.into_iter().for_each(|vote| self.count(vote));
        } else {
            self.outbox.act(Action::Forged(from));
        }
    }

    /// Answers a replica that repeats its vote: with the certificate, or the own final vote from the log.
    fn answer_vote(&mut self, to: Index, slot: Slot) {
        let certificate = self.votes.certificate(slot);
        let frame = match certificate.is_empty() {
            false => Frame::Certificate(certificate.to_vec()),
            true => match self.final_vote(slot) {
                Some(vote) => Frame::StateVote(vote),
                None => return,
            },
        };
        let votes = if let Frame::Certificate(votes) = &frame { votes.len() } else { 1 };
        if self.budgets.spend(to, self.now, self.config.resend, votes * VOTE_BYTES) {
            self.outbox.send(To::One(to), frame);
        }
    }

    fn count(&mut self, vote: Signed<StateVote>) {
        let (slot, signer) = (vote.body.slot, vote.signer);
        match self.votes.add(vote) {
            Added::Certifies => drop(self.handover.due.insert(slot)),
            Added::Contradicts(proof) => self.outbox.act(Action::Evidence(signer, proof)),
            Added::Counted => {}
        }
    }
}
