//! The host: feeds the protocol, performs its effects when their records are durable, and speaks to the pipeline.

mod consensus;
mod vote;
mod request;
mod catch_up;
mod handover;
mod epoch;
mod speak;
mod retained;

use crate::{
    action::{Action, HostTimer},
    chain::{Chain, Tip},
    config::HostConfig,
    epoch::Epoch,
    frame::Frame,
    pool::Pool,
    record::HostRecord,
    silence::Silence,
    votes::Votes,
};
use alloy_primitives::{B256, Bytes};
use catch_up::Transfer;
use handover::Handover;
use phalanx_bft::{
    Base, Batch, Budgets, Checked, ConfigError, Crypto, Index, Input, Message as _, Micros, Out, Protocol, Slot, View,
    Want,
};
use phalanx_engine_api::{ExecOutcome, FatalCause};
use phalanx_keys::Scheme;
use phalanx_pipeline::{BlockMeta, ConsensusEvent, PayloadRef};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

/// Blocks in one answer to a replica that is behind.
const MOST_BLOCKS: usize = 64;

/// Length of the decided blocks that are retained below the stable checkpoint, in bytes: memory, and the most of a transfer.
const MOST_RETAINED_BYTES: usize = 256 << 20;

/// A replica of protocol `P` without I/O. The shell verifies, delivers, writes and keeps time; [`phalanx_adapter::Node`] joins the
/// host with a pipeline and an engine.
pub struct Host<P: Protocol> {
    me: Index,
    config: HostConfig,
    protocol_config: Arc<P::Config>,
    scheme: Arc<dyn Scheme>,
    /// Records of the protocol, until the engine has told where it is.
    records: Vec<P::Record>,
    protocol: Option<P>,
    chain: Chain,
    votes: Votes,
    /// Views of own order votes on proposals that have no block yet.
    loose_votes: BTreeMap<Slot, View>,
    now: Micros,
    actions: Vec<Action<P>>,
    /// Effects and events, each with the record that it waits for.
    effects: VecDeque<(u64, Out<P>)>,
    events: VecDeque<(u64, ConsensusEvent)>,
    appended: u64,
    durable: u64,
    pool: Pool,
    /// View whose proposals the pool knows.
    view: View,
    batch_runs: bool,
    votes_run: bool,
    requests_run: bool,
    /// Oldest request when requests were last looked at.
    stuck: Option<u64>,
    budgets: Budgets,
    /// Height of the newest acknowledged block.
    committed: Slot,
    handover: Handover,
    epoch: Epoch,
    /// `None` for a replica that votes.
    silence: Option<Silence>,
    transfer: Option<Transfer>,
    /// Checkpoint that was wanted while a transfer was in progress.
    wanted: Option<(Base, Bytes)>,
    /// Peer that requests for decided blocks go to.
    asked: u16,
    fatal: Option<FatalCause>,
}

impl<P: Protocol> core::fmt::Debug for Host<P> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Host").field("me", &self.me).field("decided", &self.chain.decided()).finish_non_exhaustive()
    }
}

impl<P: Protocol> Host<P> {
    /// A host that continues its log.
    ///
    /// # Errors
    /// Names the first constant that no host can run with.
    pub fn new(
        me: Index,
        config: HostConfig,
        protocol_config: Arc<P::Config>,
        scheme: Arc<dyn Scheme>,
        log: impl IntoIterator<Item = HostRecord<P::Record>>,
    ) -> Result<Self, ConfigError> {
        config.check()?;
        P::check(&protocol_config)?;
        // Beside its transactions, a batch has a few fields.
        let most = P::batch_bytes(&protocol_config).saturating_sub(64) as u64;
        ConfigError::within("batch_bytes", config.batch_bytes as u64, 64, most)?;
        let mut chain = Chain::new(config.rules, config.rules.genesis());
        let (mut records, mut outcomes, mut silent, mut epoch) = (Vec::new(), Vec::new(), false, Epoch::default());
        for record in log {
            match record {
                HostRecord::Base(tip) => chain = Chain::new(config.rules, tip),
                HostRecord::Protocol(record) => records.push(record),
                HostRecord::Block(slot, batch) => drop(chain.decide(slot, batch)),
                HostRecord::Outcome(slot, outcome) => outcomes.push((slot, outcome)),
                HostRecord::Silent(now) => silent = now,
                HostRecord::Epoch(boundary) => epoch.begins = Some(boundary),
            }
        }
        // A result is logged before its block is decided, and another block of the slot may have had one as well.
        outcomes.into_iter().for_each(|(slot, outcome)| chain.set_outcome(slot, outcome));
        let votes = Votes::new(config.quorums);
        Ok(Self {
            me,
            config,
            protocol_config,
            scheme,
            records,
            protocol: None,
            chain,
            votes,
            loose_votes: BTreeMap::new(),
            now: 0,
            actions: Vec::new(),
            effects: VecDeque::new(),
            events: VecDeque::new(),
            appended: 0,
            durable: 0,
            pool: Pool::default(),
            view: 0,
            batch_runs: false,
            votes_run: false,
            committed: 0,
            requests_run: false,
            stuck: None,
            budgets: Budgets::default(),
            handover: Handover::default(),
            epoch,
            silence: silent.then(Silence::default),
            transfer: None,
            wanted: None,
            asked: 0,
            fatal: None,
        })
    }

    /// Actions since the last call, in order.
    pub fn take_actions(&mut self) -> Vec<Action<P>> {
        core::mem::take(&mut self.actions)
    }

    /// The protocol, once the engine has told where it is.
    #[must_use]
    pub const fn protocol(&self) -> Option<&P> {
        self.protocol.as_ref()
    }

    /// Blocks up to this slot are decided.
    #[must_use]
    pub const fn decided_slot(&self) -> Slot {
        self.chain.decided()
    }

    /// The block below the oldest retained one.
    #[must_use]
    pub const fn base(&self) -> Tip {
        self.chain.base()
    }

    /// Reports that every record up to this number is durable.
    pub fn durable(&mut self, now: Micros, number: u64) {
        self.now = now;
        self.durable = self.durable.max(number);
        self.perform();
    }

    /// Handles a frame that the channel proves to be from `from`. One with a wrong signature, or with a batch that no replica orders, is
    /// dropped, and its sender is named: a correct replica verifies before it hands on.
    pub fn on_frame(&mut self, now: Micros, from: Index, frame: Frame<P::Msg>) {
        self.now = now;
        match frame {
            Frame::Protocol(message) => {
                let (scheme, domain) = (Arc::clone(&self.scheme), self.config.domain);
                let heard = !self.is_silent() || message.informs();
                if heard && self.protocol.as_ref().is_some_and(|protocol| protocol.wants(from, &message)) {
                    let sound =
                        message.batches().iter().flat_map(|batch| batch.transactions()).all(|tx| self.takes(tx));
                    match Checked::new(message, domain, |claims| scheme.accepts(claims)).filter(|_| sound) {
                        Some(checked) => self.call(|protocol, out| protocol.on_message(now, from, checked, out)),
                        None => self.actions.push(Action::Forged(from)),
                    }
                }
            }
            Frame::StateVote(vote) => self.on_votes(from, vec![vote], true),
            Frame::Certificate(votes) => self.on_votes(from, votes, false),
            Frame::WantBlocks(want) => self.serve(from, want),
            Frame::Blocks(blocks) => self.on_blocks(from, blocks),
            Frame::Request(tx) => self.submit_forwarded(from, tx),
            Frame::WantReach(start) => self.tell_reach(from, start),
            Frame::Reached(reached) => self.on_reached(from, reached),
            Frame::Pruned(slot) => self.on_pruned(from, slot),
        }
        self.perform();
    }

    /// Handles a timer that was set and not cancelled.
    pub fn on_timer(&mut self, now: Micros, timer: HostTimer<P::Timer>) {
        self.now = now;
        match timer {
            HostTimer::Protocol(timer) => self.call(|protocol, out| protocol.on_timer(now, timer, out)),
            HostTimer::Batch => {
                self.batch_runs = false;
                self.propose(true);
            }
            HostTimer::Transfer => self.lose_patience(),
            HostTimer::Votes => self.repeat_votes(),
            HostTimer::Requests => self.repeat_requests(),
            HostTimer::Silence => self.ask_reach(),
        }
        self.perform();
    }

    fn call(&mut self, act: impl FnOnce(&mut P, &mut Vec<Out<P>>)) {
        let Some(protocol) = &mut self.protocol else { return };
        let mut out = Vec::new();
        act(protocol, &mut out);
        let view = protocol.view();
        if view > self.view {
            self.enter(view);
        }
        self.enqueue(out);
    }

    /// Appends records at once, and lets what follows wait for them. Proposals are noted at once as well, so that none of their
    /// transactions is proposed again while a record is not durable yet.
    fn enqueue(&mut self, out: Vec<Out<P>>) {
        let out: Vec<_> = out.into_iter().filter(|effect| self.may_pass(effect)).collect();
        for effect in out {
            let effect = self.raise(effect);
            match &effect {
                Out::Proposed { view, batch: Some(batch), .. } => self.pool.propose(*view, batch.transactions()),
                // Whatever view comes: a decided batch keeps its slot.
                Out::Decided { batch: Some(batch), .. } => self.pool.propose(View::MAX, batch.transactions()),
                Out::Returned(batch) => self.pool.give_back(batch.transactions()),
                _ => {}
            }
            match effect {
                Out::Persist(record) => self.append(HostRecord::Protocol(record)),
                effect => self.effects.push_back((self.appended, effect)),
            }
        }
    }

    fn append(&mut self, record: HostRecord<P::Record>) {
        self.appended += 1;
        self.actions.push(Action::Append(self.appended, record));
    }

    /// Performs every effect whose record is durable, and proposes what there is room for.
    fn perform(&mut self) {
        loop {
            while let Some((_, effect)) = self.effects.pop_front_if(|(after, _)| *after <= self.durable) {
                self.effect(effect);
            }
            if !self.hand_over() && !self.propose(false) {
                return self.try_end();
            }
        }
    }

    fn effect(&mut self, effect: Out<P>) {
        match effect {
            Out::Persist(record) => self.append(HostRecord::Protocol(record)),
            Out::Send(to, message) => self.actions.push(Action::Send(to, Frame::Protocol(message))),
            Out::Timer(timer, after) => self.actions.push(Action::Timer(HostTimer::Protocol(timer), after)),
            Out::Cancel(timer) => self.actions.push(Action::Cancel(HostTimer::Protocol(timer))),
            Out::Work { job, crypto } => {
                let (now, input) = (self.now, work(&*self.scheme, job, crypto));
                self.call(|protocol, out| protocol.on_input(now, input, out));
            }
            // What is ordered above the end of the epoch is void.
            Out::Proposed { slot, .. } | Out::OrderVoted { slot, .. } if self.epoch.is_over(slot) => {}
            Out::Proposed { slot, batch, .. } => {
                // An order vote belongs to the content that it was cast for.
                if self.chain.block(slot).is_none_or(|block| block.batch != batch) {
                    self.loose_votes.remove(&slot);
                }
                let new = self.chain.propose(slot, batch);
                self.tell_proposed(&new);
            }
            Out::OrderVoted { slot, view } => {
                self.loose_votes.insert(slot, view);
                self.tell_order_votes();
            }
            Out::Decided { slot, batch } => self.decided(slot, batch),
            Out::Conflict { slot } => self.fatal = Some(FatalCause::Contradiction { height: slot }),
            Out::Stable { base, proof } => {
                // What the own engine has not committed is still to be replayed to it.
                let below = base.slot.saturating_sub(self.config.retention);
                self.chain.prune(below.max(self.chain.heavy_below(base.slot, MOST_RETAINED_BYTES)).min(self.committed));
                self.events.push_back((self.appended, ConsensusEvent::Finalised(base.slot)));
                self.certify(base, &proof);
                self.actions.push(Action::Stable(base));
                self.try_speak();
            }
            Out::Want(Want::State { base, proof }) => self.want(base, proof),
            Out::Certificate { slot, digest, signature, answers } => {
                let in_epoch = slot.saturating_sub(self.epoch.origin());
                self.actions.push(Action::Certified { slot, in_epoch, digest, signature, answers });
            }
            // Its transactions are back in the pool.
            Out::Returned(_) => {}
            Out::Evidence { against, proof } => self.actions.push(Action::Evidence(against, proof)),
        }
    }

    /// Hands new blocks to the pipeline, in the order of their slots.
    fn tell_proposed(&mut self, new: &[Slot]) {
        for slot in new {
            let Some(block) = self.chain.block(*slot) else { continue };
            let payload = PayloadRef::Here(Arc::clone(&block.payload));
            let event = ConsensusEvent::Proposed { meta: block.meta, env: block.env, payload };
            self.events.push_back((self.appended, event));
            self.came_back(*slot);
        }
        if !new.is_empty() {
            self.tell_order_votes();
        }
    }

    /// Tells the pipeline of order votes, from the first undecided slot as far as one view reaches: with slots in parallel, the
    /// order vote of a slot alone promises nothing of the one before it.
    fn tell_order_votes(&mut self) {
        let mut common = None;
        let mut slot = self.chain.decided() + 1;
        while !self.epoch.is_over(slot)
            && let Some(view) = self.loose_votes.get(&slot).copied()
            && common.is_none_or(|common| common == view)
            && let Some(block) = self.chain.block_mut(slot)
        {
            common = Some(view);
            if block.order_voted != Some(view) {
                block.order_voted = Some(view);
                self.events.push_back((self.appended, ConsensusEvent::OrderVoteDurable(block.meta.id)));
                self.say_vote(slot);
            }
            slot += 1;
        }
    }

    fn decided(&mut self, slot: Slot, batch: Option<Batch>) {
        if self.epoch.is_over(slot) {
            return;
        }
        let before = self.chain.decided();
        let contradicts = match slot <= before {
            true => self.chain.block(slot).is_some_and(|block| block.batch != batch),
            false => !self.votes.decide(slot, batch.clone()),
        };
        if contradicts {
            self.fatal = Some(FatalCause::Contradiction { height: slot });
        }
        if contradicts || slot <= before {
            return;
        }
        let new = self.chain.propose(slot, batch);
        self.tell_proposed(&new);
        // The contiguous prefix is ordered.
        while !self.epoch.is_over(self.chain.decided() + 1)
            && let Some(batch) = self.votes.take_decided(self.chain.decided() + 1)
        {
            let slot = self.chain.decided() + 1;
            let new = self.chain.decide(slot, batch.clone());
            self.tell_proposed(&new);
            if self.chain.decided() < slot {
                break;
            }
            if let Some(batch) = &batch {
                self.pool.order(slot, batch.transactions());
                self.note_end(slot, batch);
            }
            self.append(HostRecord::Block(slot, batch));
            self.loose_votes.remove(&slot);
        }
        let decided = self.chain.decided();
        if decided > before
            && let Some(block) = self.chain.block(decided)
        {
            let (tip, height) = (block.meta.id, decided);
            self.events.push_back((self.appended, ConsensusEvent::Ordered { tip, height, proof: Bytes::new() }));
            (before + 1..=decided).for_each(|slot| self.say_vote(slot));
            self.tell_pending();
        }
    }

    /// Notifies the protocol of a committed block of its epoch.
    fn tell_committed(&mut self, slot: Slot, digest: B256) {
        let now = self.now;
        if let Some(slot) = self.slot_of(slot) {
            self.call(|protocol, out| protocol.on_input(now, Input::Committed { slot, digest }, out));
        }
    }

    /// A block is committed: the protocol moves on, and clients are answered. Its decision and its result are in the log.
    fn committed(&mut self, meta: BlockMeta, outcome: ExecOutcome) {
        let (slot, digest) = (meta.height, outcome.digest());
        if slot > self.chain.decided() || self.chain.block(slot).is_none_or(|block| block.outcome.is_none()) {
            // No certificate left this host for it.
            self.fatal = Some(FatalCause::Contradiction { height: slot });
            return;
        }
        self.committed = slot;
        let below = slot.saturating_sub(self.config.retention);
        self.votes.prune(below);
        self.pool.prune(below);
        self.actions.push(Action::Committed(meta, outcome));
        self.tell_committed(slot, digest);
    }
}

/// Does cryptographic work of a protocol.
fn work(scheme: &dyn Scheme, job: u64, crypto: Crypto) -> Input {
    match crypto {
        Crypto::Sign(bytes) => Input::Signed { job, signature: scheme.sign(&bytes) },
        Crypto::Share { group, bytes } => Input::Signed { job, signature: scheme.share(group, &bytes) },
        Crypto::Combine { group, bytes, shares } => {
            Input::Combined { job, result: scheme.combine(group, &bytes, &shares) }
        }
    }
}
