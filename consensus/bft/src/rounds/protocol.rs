//! The protocol for a host: signatures, checkpoints and catching up around the votes of [`Replica`].

use super::{
    block::{Block, CertKind, Offered, Place},
    config::Config,
    message::{Certificate, Checkpoint, Msg, Status, Vote},
    record::Record,
    replica::{Due, Replica},
};
use crate::core::{
    Base, Batch, Budgets, Checked, ConfigError, Crypto, Index, Input, Micros, Out, Outs, Protocol, ReplicaSet, Signed,
    Slot, To, View,
};
use alloy_primitives::{B256, Bytes};
use std::{collections::BTreeMap, sync::Arc};

/// Repetition is slower by this factor while a replica waits for nothing: it may have missed that there is something.
const IDLE_RATE: u64 = 16;

/// Timers of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Timer {
    /// The view has brought no block in time.
    View,
    /// Others may have missed something.
    Resend,
}

/// A signature that the host owes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Job {
    Offer(Place, Batch),
    Vote(Vote),
    Checkpoint(Checkpoint),
}

/// A replica of the three-round protocol. Its slots are the heights of the chain.
#[derive(Clone, Debug)]
pub struct Rounds {
    pub(super) me: Index,
    pub(super) config: Arc<Config>,
    pub(super) core: Replica<Offered>,
    /// Votes above the ordered block, one of each replica per kind and view.
    pub(super) votes: BTreeMap<(CertKind, View), BTreeMap<Index, (B256, Bytes)>>,
    /// Certificates from the ordered block on.
    pub(super) certificates: BTreeMap<(CertKind, View), Certificate>,
    /// Ordered blocks above the stable checkpoint; some have the certificate that names them.
    pub(super) history: BTreeMap<Slot, (Arc<Block<Offered>>, Option<Certificate>)>,
    pub(super) stable: Checkpoint,
    pub(super) proof: Vec<Signed<Checkpoint>>,
    /// Newest checkpoints above the stable one, of each replica, ascending.
    pub(super) checkpoints: BTreeMap<Index, Vec<Signed<Checkpoint>>>,
    /// Every slot up to this one is executed and durable.
    pub(super) committed: Slot,
    /// Digests of the outcomes of checkpoints whose blocks are committed, and not ordered at this replica yet.
    pub(super) unnamed: BTreeMap<Slot, B256>,
    /// Names of the blocks above the ordered one that the host speculates on.
    pub(super) told: BTreeMap<Slot, B256>,
    /// Blocks that this replica may make, by view.
    pub(super) due: BTreeMap<View, Due<Offered>>,
    pub(super) jobs: BTreeMap<u64, Job>,
    pub(super) next_job: u64,
    pub(super) accused: ReplicaSet,
    /// Number of the oldest client's request without a place in the order.
    pub(super) pending: Option<u64>,
    /// The pipeline is behind; a few proposals per view wait for it.
    pub(super) hold: bool,
    pub(super) held: BTreeMap<View, Vec<Arc<Block<Offered>>>>,
    /// Proposals of views below this one may be lost.
    pub(super) lost: View,
    /// Every view below this one is left.
    pub(super) left: View,
    /// Timeout of the current view.
    pub(super) patience: Micros,
    pub(super) view_runs: bool,
    /// Decided slot when notes were last repeated.
    pub(super) repeated: Slot,
    /// `Some(true)` if repetition runs at its full rate.
    pub(super) resend_runs: Option<bool>,
    pub(super) budgets: Budgets,
}

impl Protocol for Rounds {
    type Config = Config;
    type Msg = Msg;
    type Record = Record;
    type Timer = Timer;

    fn check(config: &Config) -> Result<(), ConfigError> {
        config.check()
    }

    fn batch_bytes(config: &Config) -> usize {
        config.batch_bytes
    }

    fn open(me: Index, config: Arc<Config>, base: Base, log: &[Record], out: &mut Outs<Self>) -> Self {
        let mut replica = Self::restored(me, config, base, log);
        replica.resume(out);
        replica
    }

    fn wants(&self, from: Index, message: &Msg) -> bool {
        self.is_member(from)
            && from != self.me
            && match message {
                Msg::Proposal(block) => self.wants_block(block),
                Msg::Vote(signed) => self.wants_vote(signed),
                Msg::Certificate(certificate) => self.wants_certificate(certificate),
                Msg::Checkpoint(signed) => self.wants_checkpoint(signed),
                Msg::Chain(chain) => self.new_blocks(chain).is_some(),
                Msg::Fetch(_) | Msg::Status(_) => true,
            }
    }

    fn on_message(&mut self, now: Micros, from: Index, message: Checked<Msg>, out: &mut Outs<Self>) {
        if !self.wants(from, message.get()) {
            return;
        }
        match message.into_inner() {
            Msg::Proposal(block) => self.on_proposal(now, block, out),
            Msg::Vote(signed) => self.on_vote(signed, out),
            Msg::Certificate(certificate) => self.on_certificate(certificate, out),
            Msg::Fetch(id) => self.on_fetch(now, from, id, out),
            Msg::Checkpoint(signed) => self.on_checkpoint(signed, out),
            Msg::Status(status) => self.on_status(now, from, status, out),
            Msg::Chain(chain) => self.on_chain(chain, out),
        }
        self.set_timers(out);
    }

    fn on_timer(&mut self, _: Micros, timer: Timer, out: &mut Outs<Self>) {
        match timer {
            Timer::View => {
                self.view_runs = false;
                // What the own pipeline keeps back is not the leader's fault.
                if self.is_waiting() && !self.hold {
                    self.give_up(out);
                }
            }
            Timer::Resend => {
                self.resend_runs = None;
                self.repeat(out);
            }
        }
        self.set_timers(out);
    }

    fn on_input(&mut self, now: Micros, input: Input, out: &mut Outs<Self>) {
        match input {
            Input::Batch(batch) => self.propose(batch, out),
            Input::Pending(pending) => self.pending = pending,
            Input::Committed { slot, digest } => self.on_committed(slot, digest, out),
            Input::Signed { job, signature } => match self.jobs.remove(&job) {
                Some(Job::Offer(place, batch)) => self.on_offered(place, Offered { batch, signature }, out),
                Some(Job::Vote(body)) => self.on_own_vote(Signed { signer: self.me, signature, body }, out),
                Some(Job::Checkpoint(body)) => self.announce(Signed { signer: self.me, signature, body }, out),
                None => {}
            },
            // No shares are combined here.
            Input::Combined { .. } => {}
            Input::Hold(hold) => {
                self.hold = hold;
                if !hold {
                    let held = std::mem::take(&mut self.held);
                    held.into_values().flatten().for_each(|block| self.on_proposal(now, block, out));
                }
            }
            Input::Installed(base) => self.install(base, out),
        }
        self.set_timers(out);
    }

    fn room(&self) -> u64 {
        if self.hold { 0 } else { self.due.len() as u64 }
    }

    /// Leaders propose before their view begins: a replica with room needs no other one.
    fn leader(&self) -> Index {
        if self.room() > 0 { self.me } else { self.core.settings.leader(self.core.view) }
    }

    fn view(&self) -> View {
        self.lost
    }

    fn journal(&self) -> Vec<Record> {
        self.records()
    }
}

impl Rounds {
    /// The stable checkpoint's slot.
    #[must_use]
    pub const fn stable(&self) -> Slot {
        self.stable.slot
    }

    /// Every slot up to this one is decided.
    #[must_use]
    pub const fn decided(&self) -> Slot {
        self.core.ordered().1
    }

    /// View that the replica votes in. [`Protocol::view`] stays below it while no proposal is lost.
    #[must_use]
    pub const fn current_view(&self) -> View {
        self.core.view()
    }

    /// The digest decided in a slot above the stable checkpoint.
    #[must_use]
    pub fn decision(&self, slot: Slot) -> Option<B256> {
        self.history.get(&slot).map(|(block, _)| block.content.batch.digest())
    }

    /// Returns true if the batch is decided above the stable checkpoint, or proposed and not lost.
    #[must_use]
    pub fn is_in_flight(&self, digest: B256) -> bool {
        let named = |block: &Arc<Block<Offered>>| block.content.batch.digest() == digest;
        let alive = |block: &&Arc<Block<Offered>>| {
            block.place.view >= self.lost || self.told.get(&block.place.height) == Some(&block.id)
        };
        self.jobs.values().any(|job| matches!(job, Job::Offer(_, batch) if batch.digest() == digest))
            || self.history.values().any(|(block, _)| named(block))
            || self.core.blocks.values().filter(alive).any(named)
    }

    pub(super) fn is_member(&self, index: Index) -> bool {
        usize::from(index.0) < self.config.quorums.n()
    }

    /// Returns true if a block that can be voted for, or has a quorum's votes, waits for its place in the order, or a client for its
    /// block. What one leader makes up beyond the view waits for nothing.
    pub(super) fn is_waiting(&self) -> bool {
        let (after, ..) = self.core.ordered();
        let here = self.core.proposals.get(&self.core.view);
        self.pending.is_some()
            || self.core.notarised.range(after + 1..).next().is_some()
            || here.is_some_and(|ids| ids.iter().any(|id| self.core.follows(*id)))
    }

    /// Has something signed.
    pub(super) fn sign(&mut self, job: Job, bytes: Vec<u8>, out: &mut Outs<Self>) {
        let number = self.next_job;
        self.next_job += 1;
        self.jobs.insert(number, job);
        out.push(Out::Work { job: number, crypto: Crypto::Sign(bytes) });
    }

    fn give_up(&mut self, out: &mut Outs<Self>) {
        let view = self.core.view;
        let mut acts = Vec::new();
        self.core.on_timeout(view, &mut acts);
        self.act(acts, out);
    }

    /// Sets and cancels timers by the state.
    pub(super) fn set_timers(&mut self, out: &mut Outs<Self>) {
        let waits = self.is_waiting();
        if waits && !self.view_runs {
            out.push(Out::Timer(Timer::View, self.patience));
        } else if !waits && self.view_runs {
            out.push(Out::Cancel(Timer::View));
        }
        self.view_runs = waits;
        let behind = self.committed < self.stable.slot || self.certified(Slot::MAX).is_some();
        let resend = waits || behind || self.checkpoints.contains_key(&self.me);
        if self.resend_runs.is_none() || resend && self.resend_runs == Some(false) {
            let rest = if resend { 1 } else { IDLE_RATE };
            out.push(Out::Timer(Timer::Resend, self.config.resend * rest));
            self.resend_runs = Some(resend);
        }
    }

    /// This replica's progress.
    pub(super) const fn status(&self) -> Status {
        Status { view: self.core.view(), stable: self.stable.slot, decided: self.decided() }
    }

    /// Sends to every other replica.
    pub(super) fn send(message: Msg, out: &mut Outs<Self>) {
        out.push(Out::Send(To::All, message));
    }
}
