//! Life of the block under decision: proposed, executed, decided, staged, committed. No clock, no thread, no engine.
//!
//! ```text
//!  process ──► Submit(Speculative) ┐
//!  finalize ─► Submit(Decided) ────┴─► Rooted ─► Stage ─► Staged ─► answer
//!  commit ───► Commit ─► Committed ─► answer, next height
//! ```
//!
//! The engine reports again what is already true, so every step may be repeated, and a block that it has lost begins anew.

use crate::{
    error::{CallError, Divergence, Halt},
    votes::{Majority, Votes, majority},
};
use alloy_primitives::{Address, B256};
use phalanx_engine_api::{
    BlockId, Candidate, CommitMeta, CommittedTip, EngineEvent, ExecId, ExecOutcome, Failure, Priority, RetryCause,
    Ticket,
};
use std::collections::BTreeMap;

/// Maximum number of proposals of a height that are executed before one is decided. Later ones wait for their decision.
const PROPOSALS: usize = 32;

/// Request to the shell around the core, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Out {
    Submit(Ticket, Candidate, Priority),
    Stage(Ticket, ExecId),
    Commit(Ticket, ExecId, CommitMeta),
    /// Drops every speculative block.
    Clear(Ticket),
    /// Some time passes, then [`Core::again`].
    Pause(RetryCause),
    Done(Done),
    /// Votes whose signatures are not checked contradict this node's result.
    Suspect(Box<Divergence>),
    Halt(Halt),
}

/// End of a call that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Done {
    Finalized(ExecOutcome),
    Committed(u64),
}

/// The newest committed block.
#[derive(Clone, Debug)]
struct Tip {
    height: u64,
    exec: ExecId,
    /// Hash in CometBFT, content and outcome, if this process has executed the block.
    result: Option<(B256, Candidate, ExecOutcome)>,
}

/// A proposal of the next height.
#[derive(Clone, Copy, Debug)]
struct Proposal {
    exec: ExecId,
    ticket: Ticket,
    /// Digest of the outcome, once it is known.
    digest: Option<B256>,
}

/// Call that waits for the decided block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Goal {
    Finalize,
    Commit,
}

/// Progress of the decided block.
#[derive(Clone, Debug)]
enum Step {
    Rooting,
    Staging(ExecOutcome),
    Staged(ExecOutcome),
    Committing(ExecOutcome),
}

/// The decided block.
#[derive(Clone, Debug)]
struct Decided {
    hash: B256,
    candidate: Candidate,
    powers: Vec<(Address, u64)>,
    step: Step,
    /// `None` while no call waits.
    goal: Option<Goal>,
    /// Ticket of the step's request.
    ticket: Ticket,
}

/// The block under decision on the newest committed one.
#[derive(Clone, Debug)]
pub(crate) struct Core {
    tip: Tip,
    is_begun: bool,
    proposals: BTreeMap<B256, Proposal>,
    votes: Votes,
    decided: Option<Decided>,
    ticket: u64,
}

impl Core {
    pub(crate) fn new(committed: &CommittedTip) -> Self {
        let tip = Tip { height: committed.height, exec: committed.exec, result: None };
        let (proposals, votes) = (BTreeMap::new(), Votes::default());
        Self { is_begun: tip.height > 0, tip, proposals, votes, decided: None, ticket: 0 }
    }

    /// Begins the chain.
    pub(crate) const fn begin(&mut self) -> Result<(), CallError> {
        if self.tip.height > 0 {
            return Err(CallError::Begun { height: self.tip.height });
        }
        self.is_begun = true;
        Ok(())
    }

    /// Height and parent of the next block, if a call is for it.
    pub(crate) fn next(&self, call: &'static str, says: i64) -> Result<(u64, ExecId), CallError> {
        if !self.is_begun {
            return Err(CallError::NotBegun { call });
        }
        let expected = self.tip.height + 1;
        let is_next = u64::try_from(says) == Ok(expected);
        if is_next { Ok((expected, self.tip.exec)) } else { Err(CallError::Height { call, says, expected }) }
    }

    /// Compares the votes for the committed block with this node's result. They are of one round, and CometBFT has checked
    /// their signatures: nothing else is a reason to halt.
    pub(crate) fn last_commit(&self, votes: &[(Address, u64, Option<B256>)]) -> Vec<Out> {
        let Some((hash, candidate, outcome)) = &self.tip.result else { return Vec::new() };
        let ours = outcome.digest();
        match majority(votes.iter().map(|(_, power, digest)| (*power, *digest))) {
            Some(found) if found.digest != ours => {
                let block = (candidate.clone(), outcome.clone());
                let votes = votes.iter().filter_map(|(voter, _, digest)| Some((*voter, (*digest)?))).collect();
                let found = divergence(self.tip.height, *hash, found, block, votes);
                vec![Out::Halt(Halt::Divergence(Box::new(found)))]
            }
            _ => Vec::new(),
        }
    }

    /// A proposal is accepted: it is executed while validators vote. Repeats cost nothing.
    pub(crate) fn process(&mut self, hash: B256, candidate: Candidate) -> Result<Vec<Out>, CallError> {
        if let Some(known) = self.proposals.get(&hash) {
            return if known.exec == candidate.id() { Ok(Vec::new()) } else { Err(CallError::Altered { hash }) };
        }
        if self.decided.is_some() || self.proposals.len() >= PROPOSALS {
            return Ok(Vec::new());
        }
        let (exec, ticket) = (candidate.id(), self.next_ticket());
        self.proposals.insert(hash, Proposal { exec, ticket, digest: None });
        Ok(vec![Out::Submit(ticket, candidate, Priority::Speculative)])
    }

    /// Digest of a proposal's outcome, once it is known.
    pub(crate) fn digest(&self, hash: &B256) -> Option<B256> {
        self.proposals.get(hash)?.digest
    }

    /// Notes the vote of another validator for a block of a height.
    pub(crate) fn vote(&mut self, height: i64, hash: B256, voter: Address, digest: B256) {
        if u64::try_from(height) == Ok(self.tip.height + 1) {
            self.votes.note(hash, voter, digest);
        }
    }

    /// A block is decided; `powers` are those of the validators.
    pub(crate) fn finalize(
        &mut self,
        hash: B256,
        candidate: Candidate,
        powers: Vec<(Address, u64)>,
    ) -> Result<Vec<Out>, CallError> {
        let known = self.proposals.get(&hash).map(|known| known.exec);
        let decided = self.decided.as_ref().map(|decided| (decided.hash, decided.candidate.id()));
        if let Some((first, _)) = decided.filter(|(first, _)| *first != hash) {
            return Err(CallError::DecidedTwice { height: self.tip.height + 1, first, second: hash });
        }
        if [known, decided.map(|(_, exec)| exec)].into_iter().flatten().any(|exec| exec != candidate.id()) {
            return Err(CallError::Altered { hash });
        }
        let (step, goal, ticket) = (Step::Rooting, Some(Goal::Finalize), Ticket(self.ticket));
        self.decided = Some(Decided { hash, candidate, powers, step, goal, ticket });
        Ok(self.again())
    }

    /// The decided block becomes the state.
    pub(crate) fn commit(&mut self) -> Result<Vec<Out>, CallError> {
        let Some(decided) = &mut self.decided else { return Err(CallError::NothingFinalized) };
        let (Step::Staged(outcome) | Step::Committing(outcome)) = &decided.step else {
            return Err(CallError::NothingFinalized);
        };
        (decided.step, decided.goal) = (Step::Committing(outcome.clone()), Some(Goal::Commit));
        Ok(self.again())
    }

    /// Repeats the request of the step that is under way.
    pub(crate) fn again(&mut self) -> Vec<Out> {
        let (ticket, height) = (self.next_ticket(), self.tip.height + 1);
        let Some(decided) = self.decided.as_mut().filter(|decided| decided.goal.is_some()) else { return Vec::new() };
        decided.ticket = ticket;
        let exec = decided.candidate.id();
        let meta = || CommitMeta { block: BlockId(decided.hash), cursor: height, ..CommitMeta::default() };
        match decided.step {
            Step::Rooting => vec![Out::Submit(ticket, decided.candidate.clone(), Priority::Decided)],
            Step::Staging(_) => vec![Out::Stage(ticket, exec)],
            Step::Staged(_) => Vec::new(),
            Step::Committing(_) => vec![Out::Commit(ticket, exec, meta())],
        }
    }

    /// The call that waits has ended without an answer.
    pub(crate) const fn give_up(&mut self) {
        if let Some(decided) = &mut self.decided {
            decided.goal = None;
        }
    }

    /// Completion of a request, or its refusal.
    pub(crate) fn event(&mut self, event: EngineEvent) -> Vec<Out> {
        match event {
            EngineEvent::Rooted { outcome, .. } => self.rooted(outcome),
            EngineEvent::Staged { id, .. } => self.staged(id),
            EngineEvent::Committed { tip, height, .. } => self.committed(tip, height),
            EngineEvent::Dropped { ids, .. } => {
                // A decided block that is dropped shows when its next step is refused.
                self.proposals.retain(|_, known| !ids.contains(&known.exec));
                Vec::new()
            }
            EngineEvent::Failed { ticket, why, .. } => self.failed(ticket, why),
            EngineEvent::Executed { .. } | EngineEvent::Rewound { .. } | EngineEvent::Quiesced { .. } => Vec::new(),
        }
    }

    const fn next_ticket(&mut self) -> Ticket {
        self.ticket += 1;
        Ticket(self.ticket)
    }

    /// The decided block, if a call waits for it and it is the one that an event is about.
    fn awaited(&mut self, exec: ExecId) -> Option<&mut Decided> {
        self.decided.as_mut().filter(|decided| decided.goal.is_some() && decided.candidate.id() == exec)
    }

    /// A block has a result, and the decided one is staged. Votes that contradict it only warn: CometBFT shows them before
    /// it checks their address, so a single validator may vote in the names of all.
    fn rooted(&mut self, outcome: ExecOutcome) -> Vec<Out> {
        let ours = outcome.digest();
        for known in self.proposals.values_mut().filter(|known| known.exec == outcome.id) {
            known.digest = Some(ours);
        }
        let height = self.tip.height + 1;
        let decided = self.decided.as_mut().filter(|decided| {
            let is_awaited = decided.goal.is_some() && matches!(decided.step, Step::Rooting);
            is_awaited && decided.candidate.id() == outcome.id
        });
        let Some(decided) = decided else { return Vec::new() };
        let hash = decided.hash;
        let suspect = self.votes.majority(&hash, &decided.powers).filter(|found| found.digest != ours).map(|found| {
            let block = (decided.candidate.clone(), outcome.clone());
            let votes = self.votes.of(&hash).collect();
            Out::Suspect(Box::new(divergence(height, hash, found, block, votes)))
        });
        decided.step = Step::Staging(outcome);
        suspect.into_iter().chain(self.again()).collect()
    }

    fn staged(&mut self, exec: ExecId) -> Vec<Out> {
        let Some(decided) = self.awaited(exec) else { return Vec::new() };
        let Step::Staging(outcome) = decided.step.clone() else { return Vec::new() };
        match decided.goal {
            Some(Goal::Commit) => {
                decided.step = Step::Committing(outcome);
                self.again()
            }
            _ => {
                (decided.step, decided.goal) = (Step::Staged(outcome.clone()), None);
                vec![Out::Done(Done::Finalized(outcome))]
            }
        }
    }

    fn committed(&mut self, exec: ExecId, height: u64) -> Vec<Out> {
        let Some(decided) = self.awaited(exec) else { return Vec::new() };
        let Step::Committing(outcome) = &decided.step else { return Vec::new() };
        let result = Some((decided.hash, decided.candidate.clone(), outcome.clone()));
        self.tip = Tip { height, exec, result };
        (self.decided, self.votes) = (None, Votes::default());
        self.proposals.clear();
        vec![Out::Done(Done::Committed(height))]
    }

    fn failed(&mut self, ticket: Ticket, why: Failure) -> Vec<Out> {
        let height = self.tip.height + 1;
        if matches!(why, Failure::Fatal(_)) {
            return vec![Out::Halt(Halt::Engine { height, why })];
        }
        let clear = Out::Clear(self.next_ticket());
        let waits = |decided: &&mut Decided| decided.goal.is_some() && decided.ticket == ticket;
        if let Some(decided) = self.decided.as_mut().filter(waits) {
            return match why {
                // Proposals that lost take the room of the decided block.
                Failure::Retry(cause @ RetryCause::Busy) => vec![clear, Out::Pause(cause)],
                Failure::Retry(cause @ (RetryCause::NotReady(_) | RetryCause::MissingParent(_))) => {
                    decided.step = Step::Rooting;
                    vec![Out::Pause(cause)]
                }
                Failure::Retry(cause) => vec![Out::Pause(cause)],
                why => vec![Out::Halt(Halt::Engine { height, why })],
            };
        }
        // A proposal that is not executed now is executed when it is decided.
        let lost = self.proposals.iter().find(|(_, known)| known.ticket == ticket).map(|(hash, _)| *hash);
        let is_lost = lost.is_some_and(|hash| self.proposals.remove(&hash).is_some());
        if is_lost && self.decided.is_none() && why == Failure::Retry(RetryCause::Busy) {
            self.proposals.clear();
            return vec![clear];
        }
        Vec::new()
    }
}

fn divergence(
    height: u64,
    hash: B256,
    found: Majority,
    block: (Candidate, ExecOutcome),
    votes: Vec<(Address, B256)>,
) -> Divergence {
    let Majority { digest: theirs, power, total } = found;
    Divergence { height, hash, ours: block.1.digest(), theirs, power, total, block, votes }
}
