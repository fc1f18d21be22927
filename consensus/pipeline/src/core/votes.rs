//! Counts state votes, compares certificates with own results, and halts on contradictions.

use super::{state::Pipeline, track::EarlyVote};
use crate::event::{Certificate, Effect};
use alloy_primitives::{B256, Bytes};
use phalanx_engine_api::{BlockId, FatalCause};
use std::collections::VecDeque;

/// Maximum number of votes of one validator kept for blocks not seen yet: more than an honest validator has in flight.
const EARLY_VOTES: usize = 64;

impl Pipeline {
    pub(super) fn on_vote(&mut self, from: u32, id: BlockId, digest: B256, signature: Bytes, out: &mut Vec<Effect>) {
        if self.config.committee.weight(from) == 0 {
            return;
        }
        let Some(block) = self.blocks.get_mut(&id) else {
            let early: &mut VecDeque<_> = self.early.votes.entry(from).or_default();
            if early.len() == EARLY_VOTES {
                early.pop_front();
            }
            early.push_back(EarlyVote { id, digest, signature });
            return;
        };
        if block.certificate.is_some() {
            return;
        }
        if let Some(certificate) = block.tally.add(&self.config.committee, from, digest, signature) {
            self.certify(id, certificate, out);
        }
    }

    /// Counts the votes that arrived before their block.
    pub(super) fn count_early_votes(&mut self, id: BlockId, out: &mut Vec<Effect>) {
        let mut votes = Vec::new();
        for (from, early) in &mut self.early.votes {
            early.retain(|vote| {
                let ours = vote.id == id;
                if ours {
                    votes.push((*from, vote.clone()));
                }
                !ours
            });
        }
        for (from, vote) in votes {
            self.on_vote(from, id, vote.digest, vote.signature, out);
        }
    }

    /// Records a certificate of a tracked block: the block is as good as ordered (Zaptos, Corollary 4.1).
    pub(super) fn certify(&mut self, id: BlockId, certificate: Certificate, out: &mut Vec<Effect>) {
        let Some(block) = self.blocks.get_mut(&id) else { return };
        if let Some(known) = &block.certificate {
            if known.digest != certificate.digest {
                let height = block.meta.height;
                self.halt(FatalCause::Fork { height }, Some(id), Some(certificate), out);
            }
            return;
        }
        out.push(Effect::Certified(block.meta, certificate.clone()));
        block.certificate = Some(certificate);
        let height = block.meta.height;
        self.order(id, height, None, out);
        self.compare(id, out);
    }

    /// Compares a certificate of a committed block, if the block is remembered. Chains that commit without one may
    /// receive it later.
    pub(super) fn certified_late(&mut self, id: BlockId, height: u64, certificate: Certificate, out: &mut Vec<Effect>) {
        let Some(recent) = self.recent.iter().find(|recent| recent.height == height) else { return };
        let cause = match &recent.known {
            _ if recent.id != id => FatalCause::Fork { height },
            Some((_, outcome)) if outcome.digest() != certificate.digest => {
                FatalCause::Divergence { id: outcome.id, ours: outcome.digest(), theirs: certificate.digest }
            }
            _ => return,
        };
        self.halt(cause, Some(recent.id), Some(certificate), out);
    }

    /// Halts if the own result is not the certified one: nothing that this node computes from here on can be trusted.
    pub(super) fn compare(&mut self, id: BlockId, out: &mut Vec<Effect>) {
        let Some(block) = self.blocks.get(&id) else { return };
        let outcome = block.exec.and_then(|exec| self.works.get(&exec)).and_then(|work| work.outcome());
        let (Some(certificate), Some(outcome)) = (&block.certificate, outcome) else { return };
        let ours = outcome.digest();
        if certificate.digest != ours {
            let cause = FatalCause::Divergence { id: outcome.id, ours, theirs: certificate.digest };
            let certificate = certificate.clone();
            self.halt(cause, Some(id), Some(certificate), out);
        }
    }
}
