//! Advances every block as far as the knowledge permits, parents first.

use super::{
    state::Pipeline,
    track::{Phase, Staging},
};
use crate::{
    config::{Mode, OrderVote, Role, StateRule},
    event::{Effect, Verdict},
};
use phalanx_engine_api::{BlockId, Candidate, ExecId, FatalCause, Priority};

impl Pipeline {
    /// Does everything that can be done now.
    pub(super) fn advance(&mut self, out: &mut Vec<Effect>) {
        if self.halted {
            return;
        }
        let ids: Vec<BlockId> = self.by_height.iter().map(|(_, id)| *id).collect();
        for id in ids {
            self.step(id, out);
            if self.halted {
                return;
            }
        }
        self.commit_what_is_final(out);
        self.fetch_gaps(out);
        self.push_back(out);
        if self.finalised.wanted.min(self.committed.height) > self.finalised.done {
            self.finalised.done = self.finalised.wanted.min(self.committed.height);
            let ticket = self.next();
            out.push(Effect::Finalise(ticket, self.finalised.done));
        }
        self.set_timer(out);
    }

    fn step(&mut self, id: BlockId, out: &mut Vec<Effect>) {
        let Some(exec) = self.name(id) else { return };
        self.execute(id, exec, out);
        self.judge(id, exec, out);
        self.compare(id, out);
        if !self.halted {
            self.stage(id, exec, out);
            self.vote(id, exec, out);
        }
    }

    /// Execution of the block, known once its parent's is.
    fn name(&mut self, id: BlockId) -> Option<ExecId> {
        let block = self.blocks.get(&id)?;
        if block.exec.is_some() {
            return block.exec;
        }
        let parent = self.parent_exec(id)?;
        let exec = ExecId::derive(self.chain, parent, &block.env, self.config.policy, block.payload);
        self.blocks.get_mut(&id)?.exec = Some(exec);
        self.works.entry(exec).or_default();
        Some(exec)
    }

    fn parent_exec(&self, id: BlockId) -> Option<ExecId> {
        let parent = self.blocks.get(&id)?.meta.parent;
        match self.blocks.get(&parent) {
            Some(parent) => parent.exec,
            None => (parent == self.committed.block).then_some(self.committed.exec),
        }
    }

    /// Submits a block that is decided or, in optimistic mode, proposed.
    fn execute(&mut self, id: BlockId, exec: ExecId, out: &mut Vec<Effect>) {
        let (Some(block), Some(parent)) = (self.blocks.get(&id), self.parent_exec(id)) else { return };
        let priority = match (block.decided, self.config.mode) {
            (true, _) => Priority::Decided,
            (false, Mode::Optimistic) => Priority::Speculative,
            (false, Mode::Baseline) => return,
        };
        let ready = parent == self.committed.exec || self.works.get(&parent).is_some_and(|work| work.is_live());
        let Some(work) = self.works.get(&exec) else { return };
        let due = match work.phase {
            Phase::Idle => true,
            Phase::Submitted => priority > work.priority,
            Phase::Later | Phase::Rooted(_) | Phase::Invalid => false,
        };
        if !ready || !due {
            return;
        }
        let (env, digest) = (block.env, block.payload);
        let Some(payload) = self.payloads.get(&digest).cloned() else {
            if self.requested.payloads.insert(digest) {
                out.push(Effect::FetchPayload(digest));
            }
            return;
        };
        let candidate = Candidate::new(self.chain, parent, env, self.config.policy, payload);
        debug_assert_eq!(candidate.id(), exec);
        // A higher priority for the same submission: completions in flight still count.
        let raised = matches!(work.phase, Phase::Submitted).then_some(work.ticket);
        let ticket = raised.unwrap_or_else(|| self.next());
        if let Some(work) = self.works.get_mut(&exec) {
            (work.phase, work.ticket, work.priority) = (Phase::Submitted, ticket, priority);
        }
        out.push(Effect::Submit(ticket, candidate, priority));
    }

    /// Sends consensus the verdict on the block, once.
    fn judge(&mut self, id: BlockId, exec: ExecId, out: &mut Vec<Effect>) {
        let (Some(block), Some(work)) = (self.blocks.get_mut(&id), self.works.get(&exec)) else { return };
        let verdict = match work.phase {
            Phase::Rooted(_) => Verdict::Valid,
            Phase::Invalid => Verdict::Invalid,
            _ => return,
        };
        let (height, decided) = (block.meta.height, block.decided);
        if !block.judged {
            block.judged = true;
            out.push(Effect::Verdict(id, verdict));
        }
        if verdict == Verdict::Invalid && decided {
            self.halt(FatalCause::Contradiction { height }, Some(id), None, out);
        }
    }

    /// Stages the block, before a certificate exists.
    fn stage(&mut self, id: BlockId, exec: ExecId, out: &mut Vec<Effect>) {
        let Some(parent) = self.parent_exec(id) else { return };
        let follows = parent == self.committed.exec
            || self.works.get(&parent).is_some_and(|work| matches!(work.staging, Staging::Asked(_) | Staging::Done));
        let Some(work) = self.works.get(&exec) else { return };
        let due = work.outcome().is_some() && work.staging == Staging::No;
        if self.config.mode == Mode::Optimistic && follows && due {
            let ticket = self.next();
            if let Some(work) = self.works.get_mut(&exec) {
                work.staging = Staging::Asked(ticket);
            }
            out.push(Effect::Stage(ticket, exec));
        }
    }

    /// Votes for the result once it is executed and either the own order vote is durable or the block is ordered. An
    /// earlier vote could certify a block that is never ordered.
    fn vote(&mut self, id: BlockId, exec: ExecId, out: &mut Vec<Effect>) {
        if self.config.role != Role::Validator || self.config.rule != StateRule::Certified {
            return;
        }
        let Some(block) = self.blocks.get_mut(&id) else { return };
        let early = self.config.mode == Mode::Optimistic && self.config.order_vote == OrderVote::Distinct;
        let released = block.decided || (early && block.order_voted);
        let outcome = self.works.get(&exec).and_then(|work| work.outcome());
        if let (Some(outcome), true, false) = (outcome, released, block.voted) {
            block.voted = true;
            let (meta, digest, result) = (block.meta, outcome.digest(), outcome.result());
            out.push(Effect::StateVote { meta, digest, result });
        }
    }
}
