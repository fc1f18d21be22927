//! Messages of others, and what a node sends them; catching up.

use super::state::{Node, Todo};
use crate::{
    bft::Msg,
    machine::Machine,
    setup::Behaviour,
    shared::Shared,
    wire::{Certified, Wire},
};
use alloy_primitives::B256;
use phalanx_bft::Index;
use phalanx_engine_api::{BlockId, Payload};
use phalanx_pipeline::{ConsensusEvent, Downstream, PayloadRef};
use std::sync::Arc;

/// Minimum number of ordered blocks per answer, if there are as many.
const CHUNK: usize = 32;

impl<M: Machine> Node<M> {
    pub(super) fn protocol(&mut self, from: u32, msg: &Msg, shared: &mut Shared) {
        if let Msg::WantBlock(id) = msg
            && let Some(block) = self.known.get(&BlockId(*id)).cloned()
        {
            shared.send(self.index, from, &Arc::new(Wire::Bft(Msg::Proposal(block))));
            return;
        }
        let mut out = Vec::new();
        if let Some(replica) = &mut self.replica {
            replica.on_message(Index(from as u16), msg, &mut out);
        }
        self.todo.extend(out.into_iter().map(Todo::Out));
    }

    /// Counts a vote. A vote on a certified block is answered with the certificate.
    pub(super) fn state_vote(&mut self, from: u32, height: u64, (id, digest): (BlockId, B256), shared: &mut Shared) {
        if height <= self.pipeline.committed().0 {
            if let (Some(certified), false) = (self.certificates.get(&height), shared.setup.timed) {
                shared.send(self.index, from, &Arc::new(Wire::Certificate(certified.clone())));
            }
            return;
        }
        let signature = Default::default();
        self.todo.push_back(Todo::Consensus(ConsensusEvent::StateVote { from, id, digest, signature }));
    }

    pub(super) fn certified(&mut self, certified: &Certified) {
        let Certified { id, height, digest, bytes } = certified.clone();
        self.todo.push_back(Todo::Consensus(ConsensusEvent::StateCertificate { id, height, digest, bytes }));
    }

    /// Handles a message from the validator that this fullnode follows.
    pub(super) fn downstream(&mut self, downstream: &Downstream, payload: &Arc<Payload>, shared: &Shared) {
        let (meta, env) = match downstream {
            Downstream::Proposed { meta, env, .. } | Downstream::Committed { meta, env, .. } => (*meta, *env),
        };
        let now = shared.now();
        let marks = self.marks.entry(meta.id).or_default();
        if marks.seen == 0 {
            (marks.seen, marks.payload) = (now, now);
        }
        self.carried.entry(meta.id).or_insert_with(|| payload.clone());
        let payload = PayloadRef::Here(payload.clone());
        self.todo.push_back(Todo::Consensus(ConsensusEvent::Proposed { meta, env, payload }));
        if let Downstream::Committed { certificate: Some(certificate), .. } = downstream {
            marks.ordered = now;
            self.todo.push_back(Todo::Consensus(ConsensusEvent::StateCertificate {
                id: meta.id,
                height: meta.height,
                digest: certificate.digest,
                bytes: certificate.bytes.clone(),
            }));
        }
    }

    /// Sends ordered blocks up to one with an order certificate, and the state certificates of their heights.
    pub(super) fn serve(&self, to: u32, from: u64, shared: &mut Shared) {
        let mut blocks = Vec::new();
        let mut last = (0, None);
        for (block, cert) in self.history.range(from..).map(|(_, entry)| entry) {
            blocks.push(block.clone());
            if cert.is_some() {
                last = (blocks.len(), *cert);
            }
            if blocks.len() >= CHUNK && last.1.is_some() {
                break;
            }
        }
        blocks.truncate(last.0);
        let certificates: Vec<_> = self.certificates.range(from..).take(CHUNK).map(|(_, c)| c.clone()).collect();
        if last.1.is_some() || !certificates.is_empty() {
            shared.send(self.index, to, &Arc::new(Wire::Chain { blocks, cert: last.1, certificates }));
        }
    }

    /// Requests missing blocks from one peer after the other.
    pub(super) fn catch_up(&mut self, shared: &mut Shared) {
        let n = shared.setup.bft.n;
        self.asked = (self.asked + 1) % n;
        let peer = (self.index + self.asked) % n;
        if peer != self.index {
            let committed = self.pipeline.committed().0;
            let from = self.replica.as_ref().map_or(committed, |replica| committed.min(replica.ordered().1)) + 1;
            shared.send(self.index, peer, &Arc::new(Wire::WantChain(from)));
        }
    }

    /// Repeats messages that may have been lost, and requests missing blocks. Runs every `TICK`.
    pub(super) fn tick(&mut self, shared: &mut Shared) {
        let committed = self.pipeline.committed().0;
        let Some(replica) = &self.replica else {
            // A fullnode requests from other validators, too: its own may be down or Byzantine.
            if committed == self.last_height {
                self.catch_up(shared);
            }
            self.last_height = committed;
            return;
        };
        let (_, height, _) = replica.ordered();
        if height == self.last_height {
            let mut out = Vec::new();
            replica.resend(&mut out);
            self.todo.extend(out.into_iter().map(Todo::Out));
        }
        let stuck = replica.is_behind() || committed < height || height == self.last_height;
        self.last_height = height;
        if stuck {
            self.catch_up(shared);
        }
        let votes: Vec<_> = self.voted.range(committed + 1..).map(|(height, vote)| (*height, *vote)).collect();
        for (height, (id, digest)) in votes {
            self.broadcast(&Arc::new(Wire::StateVote { height, id, digest }), shared);
        }
    }

    /// Sends to all other validators, except those that this one withholds from.
    pub(super) fn broadcast(&self, wire: &Arc<Wire>, shared: &mut Shared) {
        let mut reach = shared.setup.bft.n;
        match shared.setup.behaviour(self.index) {
            Behaviour::Silent => return,
            Behaviour::Withhold(few) if matches!(**wire, Wire::Bft(Msg::Proposal(_))) => reach = few.min(reach),
            _ => {}
        }
        for to in (0..reach).filter(|to| *to != self.index) {
            shared.send(self.index, to, wire);
        }
    }
}
