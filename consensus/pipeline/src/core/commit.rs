//! Commit, report and prune: the last steps of a block.

use super::{
    state::{Pipeline, Recent, Tip},
    track::{Phase, Staging, Tracked},
};
use crate::{
    config::{Role, StateRule},
    event::{Backpressure, Downstream, Effect},
};
use phalanx_engine_api::{BlockId, CommitMeta, FatalCause, Ticket};
use std::collections::BTreeSet;

/// Number of committed blocks that are remembered by name.
const RECENT: usize = 64;

impl Pipeline {
    /// Commits the highest final block and with it its ancestors; one commit is in flight at a time.
    pub(super) fn commit_what_is_final(&mut self, out: &mut Vec<Effect>) {
        if self.commits.in_flight.is_some() || self.commits.later {
            return;
        }
        let highest = self.by_height.iter().rev().filter_map(|(_, id)| self.blocks.get(id)).find(|b| self.is_final(b));
        let Some(block) = highest else { return };
        let Some(exec) = block.exec else { return };
        let meta = CommitMeta {
            block: block.meta.id,
            ancestors: self.ancestors(block),
            cursor: block.meta.height,
            order_proof: block.order_proof.clone(),
            state_certificate: block.certificate.as_ref().map(|certificate| certificate.bytes.clone()),
        };
        let id = block.meta.id;
        let ticket = self.next();
        self.commits.in_flight = Some((ticket, id));
        out.push(Effect::Commit(ticket, exec, meta));
    }

    /// Names of the blocks between the committed block and this one, oldest first.
    fn ancestors(&self, block: &Tracked) -> Vec<BlockId> {
        let mut names = Vec::new();
        let mut at = block.meta.parent;
        while let Some(parent) = self.blocks.get(&at) {
            names.push(at);
            at = parent.meta.parent;
        }
        names.reverse();
        names
    }

    /// True if the block is decided, has a result, and is certified where the chain certifies. The result was compared
    /// with the certificate before.
    fn is_final(&self, block: &Tracked) -> bool {
        let certified = match self.config.rule {
            StateRule::Certified => block.certificate.is_some(),
            StateRule::Ordered => true,
        };
        block.decided && certified && self.path_is_rooted(block)
    }

    /// True if the results of a block and of its ancestors down to the committed block are known.
    fn path_is_rooted(&self, block: &Tracked) -> bool {
        let rooted = |block: &Tracked| {
            block.exec.and_then(|exec| self.works.get(&exec)).is_some_and(|work| work.outcome().is_some())
        };
        let mut at = block;
        while rooted(at) {
            if at.meta.parent == self.committed.block {
                return true;
            }
            let Some(parent) = self.blocks.get(&at.meta.parent) else { return false };
            at = parent;
        }
        false
    }

    pub(super) fn on_committed(&mut self, ticket: Ticket, height: u64, out: &mut Vec<Effect>) {
        let Some((_, id)) = self.commits.in_flight.take_if(|(asked, _)| *asked == ticket) else { return };
        let mut path = Vec::new();
        let mut at = id;
        while let Some(block) = self.blocks.get(&at) {
            path.push(block.clone());
            at = block.meta.parent;
        }
        path.reverse();
        let Some(tip) = path.last() else { return };
        if at != self.committed.block || tip.meta.height != height {
            self.halt(FatalCause::Fork { height }, Some(id), None, out);
            return;
        }
        for block in &path {
            self.report(block, out);
        }
        let exec = tip.exec.unwrap_or_default();
        self.committed = Tip { height, block: id, exec };
        if self.decided.is_some_and(|(decided, _)| decided <= height) {
            self.decided = None;
        }
        self.prune(id);
    }

    /// Reports a committed block to consensus and fullnodes.
    fn report(&mut self, block: &Tracked, out: &mut Vec<Effect>) {
        let work = block.exec.and_then(|exec| self.works.get(&exec));
        let outcome = work.and_then(|work| work.outcome()).cloned();
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        let known = outcome.clone().map(|outcome| (block.meta, outcome));
        self.recent.push_back(Recent { height: block.meta.height, id: block.meta.id, known });
        if self.config.role == Role::Validator {
            out.push(Effect::Forward(Downstream::Committed {
                meta: block.meta,
                env: block.env,
                payload: block.payload,
                certificate: block.certificate.clone(),
            }));
        }
        // The acknowledgement comes last: consensus may release the block when it receives it.
        if let Some(outcome) = outcome {
            out.push(Effect::Ack { meta: block.meta, outcome });
        }
    }

    /// Keeps only descendants of the committed block, and blocks that may turn out to be some. The engine has dropped
    /// the rest.
    fn prune(&mut self, tip: BlockId) {
        let height = self.committed.height;
        let mut alive = BTreeSet::from([tip]);
        for (h, id) in &self.by_height {
            let Some(block) = self.blocks.get(id) else { continue };
            let orphan = !self.blocks.contains_key(&block.meta.parent);
            if *h > height && (alive.contains(&block.meta.parent) || (orphan && *h > height + 1)) {
                alive.insert(*id);
            }
        }
        alive.remove(&tip);
        self.blocks.retain(|id, _| alive.contains(id));
        self.by_height.retain(|(_, id)| alive.contains(id));
        self.unlinked.retain(|id, _| alive.contains(id));
        self.early.orders.retain(|_, (h, _)| *h > height);
        self.early.certificates.retain(|_, (h, _)| *h > height);
        self.sweep();
    }

    /// Requests decided blocks that are announced and missing, as far as there is room.
    pub(super) fn fetch_gaps(&mut self, out: &mut Vec<Effect>) {
        let known = self.decided.map_or(self.committed.height, |(height, _)| height);
        let from = known.max(self.requested.heights) + 1;
        let to = self.announced.min(self.committed.height + u64::from(self.config.limits.depth));
        if from <= to {
            self.requested.heights = to;
            out.push(Effect::FetchDecided(from..=to));
        }
    }

    pub(super) fn push_back(&mut self, out: &mut Vec<Effect>) {
        let behind = self.announced - self.committed.height.min(self.announced);
        let window = self.config.window;
        let pressure = Backpressure { behind, hold_votes: behind > window.vote, hold_blocks: behind > window.admit };
        let acts = |p: Backpressure| (p.hold_votes, p.hold_blocks);
        if acts(pressure) != acts(self.pressure) {
            out.push(Effect::Pressure(pressure));
        }
        self.pressure = pressure;
    }

    /// Sets one timer for everything that waits for a retry.
    pub(super) fn set_timer(&mut self, out: &mut Vec<Effect>) {
        let later = self.works.values().any(|w| matches!(w.phase, Phase::Later) || w.staging == Staging::Later);
        let known = self.decided.map_or(self.committed.height, |(height, _)| height);
        let waits = later || self.commits.later || !self.requested.payloads.is_empty() || self.announced > known;
        if waits && !self.timer_set {
            self.timer_set = true;
            out.push(Effect::SetTimer(self.config.retry_us));
        }
    }
}
