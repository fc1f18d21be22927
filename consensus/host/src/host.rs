//! The host: feeds the protocol, performs its effects when their records are durable, and speaks to the pipeline.

use crate::{
    chain::{BlockRules, Chain, Tip, decode_outcome, encode_outcome},
    frame::{Blocks, Filled, Frame, StateVote, WantBlocks},
    pool::Pool,
    votes::Votes,
};
use alloy_primitives::{Address, B256, Bytes};
use phalanx_adapter::{Consensus, Decided, DecidedBlock, Standing};
use phalanx_bft::{
    Base, Batch, Checked, Claim, Crypto, Domain, Index, Input, Lean, Micros, Out, Protocol, Quorums, Signed, Slot,
    Statement as _, To, View, Want,
};
use phalanx_engine_api::{Committed, FatalCause, Outcome};
use phalanx_keys::Scheme;
use phalanx_pipeline::{BlockMeta, Certificate, Committee, Config, ConsensusEvent, Effect, Incident, PayloadRef};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

/// Blocks in one answer to a replica that is behind.
const MOST_BLOCKS: usize = 64;

/// Constants of a host.
#[derive(Clone, Debug)]
pub struct HostConfig {
    /// Replicas and faults.
    pub quorums: Quorums,
    /// Separates signatures from those of other instances.
    pub domain: Domain,
    /// From batches to blocks.
    pub rules: BlockRules,
    /// Configuration of the pipeline.
    pub pipeline: Config,
    /// Receiver of the fees of own batches.
    pub beneficiary: Address,
    /// Maximum number of transactions per batch.
    pub batch_txs: usize,
    /// Time that a batch waits to become full, in µs.
    pub batch_delay: Micros,
    /// Time between two repetitions of state votes, in µs.
    pub resend: Micros,
    /// Milliseconds since 1970 at the clock's zero.
    pub epoch_ms: u64,
    /// Decided blocks kept below the stable checkpoint, for replicas that are behind.
    pub retention: u64,
}

impl HostConfig {
    /// A configuration for `quorums`: batches of 100 transactions or 1 ms, 1,024 blocks retained.
    #[must_use]
    pub fn new(quorums: Quorums, domain: Domain) -> Self {
        let rules = BlockRules { chain: domain.chain, gas_limit: u64::MAX, base_fee: 0 };
        let committee = Committee::equal(quorums.n() as u32);
        let pipeline = Config::validator(committee);
        let (batch_txs, batch_delay, resend, epoch_ms, retention) = (100, 1_000, 50_000, 0, 1_024);
        Self {
            quorums,
            domain,
            rules,
            pipeline,
            beneficiary: Address::ZERO,
            batch_txs,
            batch_delay,
            resend,
            epoch_ms,
            retention,
        }
    }
}

/// A record of a host's log.
#[derive(Clone, Debug)]
pub enum HostRecord<R> {
    /// The block below the oldest one of the log. First record of a compacted log.
    Base(Tip),
    /// A record of the protocol.
    Protocol(R),
    /// A decided block. Slots come in order.
    Block(Slot, Option<Batch>),
    /// Outcome of a committed block, encoded: a replica that is behind checks blocks against it.
    Outcome(Slot, Bytes),
}

/// Timers of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HostTimer<T> {
    /// A timer of the protocol.
    Protocol(T),
    /// A batch has waited long enough.
    Batch,
    /// Own state votes may have been lost, or the certificates that they helped to form.
    Votes,
}

/// An action that a host asks its shell for, in order.
#[derive(Debug)]
pub enum Action<P: Protocol> {
    /// Append a record to the log and report [`Host::durable`] with its number. Appends may be grouped.
    Append(u64, HostRecord<P::Record>),
    /// Send a frame.
    Send(To, Frame<P::Msg>),
    /// Set a timer, replacing one of the same name.
    Timer(HostTimer<P::Timer>, Micros),
    /// Cancel a timer.
    Cancel(HostTimer<P::Timer>),
    /// A block is committed: clients can be answered.
    Committed(BlockMeta, Outcome),
    /// Older records can go once [`Host::base`] and what follows is written anew.
    Stable(Base),
    /// Proof that a replica broke the protocol. Keep it.
    Evidence(Index, Bytes),
    /// The node has stopped. Keep the incident.
    Halted(Box<Incident>),
}

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
    /// Height of the newest acknowledged block.
    committed: Slot,
    /// Decided blocks from a peer that are not checked yet, and the checkpoint that they lead to.
    fetched: Option<(Base, Vec<Option<Batch>>)>,
    /// Peer that is asked, and the number of blocks that it had sent when the protocol last wanted the state.
    asked: u16,
    sent_before: usize,
    fatal: Option<FatalCause>,
}

impl<P: Protocol> core::fmt::Debug for Host<P> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Host").field("me", &self.me).field("decided", &self.chain.decided()).finish_non_exhaustive()
    }
}

impl<P: Protocol> Host<P> {
    /// A host that continues its log.
    #[must_use]
    pub fn new(
        me: Index,
        config: HostConfig,
        protocol_config: Arc<P::Config>,
        scheme: Arc<dyn Scheme>,
        log: impl IntoIterator<Item = HostRecord<P::Record>>,
    ) -> Self {
        let mut chain = Chain::new(config.rules, Tip::default());
        let mut records = Vec::new();
        for record in log {
            match record {
                HostRecord::Base(tip) => chain = Chain::new(config.rules, tip),
                HostRecord::Protocol(record) => records.push(record),
                HostRecord::Block(slot, batch) => drop(chain.decide(slot, batch)),
                HostRecord::Outcome(slot, outcome) => {
                    if let Some(block) = chain.block_mut(slot) {
                        block.outcome = Some(outcome);
                    }
                }
            }
        }
        let votes = Votes::new(config.quorums);
        Self {
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
            fetched: None,
            asked: 0,
            sent_before: 0,
            fatal: None,
        }
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

    /// Handles a frame that the channel proves to be from `from`. Frames with a wrong signature are dropped.
    pub fn on_frame(&mut self, now: Micros, from: Index, frame: Frame<P::Msg>) {
        self.now = now;
        match frame {
            Frame::Protocol(message) => {
                let (scheme, domain) = (Arc::clone(&self.scheme), self.config.domain);
                if let Some(checked) = Checked::new(message, domain, |claims| scheme.verify(claims).is_ok()) {
                    self.call(|protocol, out| protocol.on_message(now, from, checked, out));
                }
            }
            Frame::StateVote(vote) => self.on_votes(from, vec![vote], true),
            Frame::Certificate(votes) => self.on_votes(from, votes, false),
            Frame::WantBlocks(want) => self.serve(from, want),
            Frame::Blocks(blocks) if from.0 == self.asked => self.on_blocks(blocks),
            Frame::Blocks(_) => {}
            Frame::Request(tx) => self.submit(now, tx),
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
            HostTimer::Votes => {
                self.votes_run = false;
                for vote in self.votes.own_above(self.committed, MOST_BLOCKS) {
                    if self.votes.is_certified(vote.body.slot) {
                        self.tell_certificate(vote.body.slot);
                        continue;
                    }
                    self.actions.push(Action::Send(To::All, Frame::StateVote(vote)));
                }
                self.set_votes_timer();
            }
        }
        self.perform();
    }

    /// Takes a client's transaction. A full host drops it.
    pub fn submit(&mut self, now: Micros, tx: Bytes) {
        self.now = now;
        if !self.pool.add(tx.clone()) {
            return;
        }
        if let Some(protocol) = &self.protocol
            && protocol.leader() != self.me
        {
            self.actions.push(Action::Send(To::One(protocol.leader()), Frame::Request(tx)));
        }
        self.tell_pending();
        self.perform();
    }

    fn tell_pending(&mut self) {
        let (now, pending) = (self.now, self.pool.len() > 0);
        self.call(|protocol, out| protocol.on_input(now, Input::Pending(pending), out));
    }

    fn call(&mut self, act: impl FnOnce(&mut P, &mut Vec<Out<P>>)) {
        let Some(protocol) = &mut self.protocol else { return };
        let mut out = Vec::new();
        act(protocol, &mut out);
        self.enqueue(out);
    }

    /// Appends records at once, and lets what follows wait for them.
    fn enqueue(&mut self, out: Vec<Out<P>>) {
        for effect in out {
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
            if !self.propose(false) {
                return;
            }
        }
    }

    fn effect(&mut self, effect: Out<P>) {
        match effect {
            Out::Persist(record) => self.append(HostRecord::Protocol(record)),
            Out::Send(to, message) => self.actions.push(Action::Send(to, Frame::Protocol(message))),
            Out::Timer(timer, after) => self.actions.push(Action::Timer(HostTimer::Protocol(timer), after)),
            Out::Cancel(timer) => self.actions.push(Action::Cancel(HostTimer::Protocol(timer))),
            Out::Work { job, crypto: Crypto::Sign(bytes) } => {
                let (now, signature) = (self.now, self.scheme.sign(&bytes));
                self.call(|protocol, out| protocol.on_input(now, Input::Signed { job, signature }, out));
            }
            Out::Proposed { slot, view, batch } => {
                // An order vote belongs to the content that it was cast for.
                if self.chain.block(slot).is_none_or(|block| block.batch != batch) {
                    self.loose_votes.remove(&slot);
                }
                if let Some(batch) = &batch {
                    self.pool.propose(view, batch.transactions());
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
            Out::Stable { base, .. } => {
                self.chain.prune(base.slot.saturating_sub(self.config.retention));
                self.events.push_back((self.appended, ConsensusEvent::Finalised(base.slot)));
                self.certify(base);
                self.actions.push(Action::Stable(base));
            }
            Out::Want(Want::State(base)) => self.want(base),
            // The transactions wait for the next view in the pool.
            Out::Returned(_) => {}
            Out::Evidence { against, proof } => self.actions.push(Action::Evidence(against, proof)),
        }
    }

    /// Hands new blocks to the pipeline, in the order of their slots.
    fn tell_proposed(&mut self, new: &[Slot]) {
        for block in new.iter().filter_map(|slot| self.chain.block(*slot)) {
            let payload = PayloadRef::Here(Arc::clone(&block.payload));
            let event = ConsensusEvent::Proposed { meta: block.meta, env: block.env, payload };
            self.events.push_back((self.appended, event));
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
        while let Some(view) = self.loose_votes.get(&slot).copied()
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

    /// Basis of the own state vote for a slot, as far as there is one.
    fn lean(&self, slot: Slot) -> Option<Lean> {
        if slot <= self.chain.decided() {
            return Some(Lean::Final);
        }
        let view = self.chain.block(slot)?.order_voted?;
        let undecided = self.chain.decided() + 1..=slot;
        let all = undecided.into_iter().all(|slot| self.chain.block(slot).is_some_and(|b| b.order_voted == Some(view)));
        all.then_some(Lean::Early(view))
    }

    fn decided(&mut self, slot: Slot, batch: Option<Batch>) {
        let before = self.chain.decided();
        let new = self.chain.propose(slot, batch.clone());
        self.tell_proposed(&new);
        self.votes.decide(slot, batch);
        // The contiguous prefix is ordered.
        while let Some(batch) = self.votes.take_decided(self.chain.decided() + 1) {
            let slot = self.chain.decided() + 1;
            let new = self.chain.decide(slot, batch.clone());
            self.tell_proposed(&new);
            if self.chain.decided() < slot {
                break;
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
        }
    }

    /// Sends the own state vote, or sends it again on a better basis.
    fn say_vote(&mut self, slot: Slot) {
        let Some(lean) = self.lean(slot) else { return };
        let Some(block) = self.chain.block(slot).map(|block| block.meta.id.0) else { return };
        let Some(digest) = self.votes.own_due(slot, block, lean) else { return };
        let body = StateVote::new(slot, block, digest, lean);
        let signature = self.scheme.sign(&body.signed_bytes(self.config.domain));
        let vote = Signed { signer: self.me, signature, body };
        self.actions.push(Action::Send(To::All, Frame::StateVote(vote.clone())));
        self.votes.keep_own(vote.clone());
        self.count(vote);
        self.set_votes_timer();
    }

    /// Repeats own votes as long as their blocks are not committed.
    fn set_votes_timer(&mut self) {
        if !self.votes_run && self.votes.has_own_above(self.committed) {
            self.votes_run = true;
            self.actions.push(Action::Timer(HostTimer::Votes, self.config.resend));
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

    fn on_votes(&mut self, from: Index, votes: Vec<Signed<StateVote>>, asks: bool) {
        if votes.len() > self.config.quorums.n() {
            return;
        }
        let claims: Vec<Claim> = votes.iter().map(|vote| vote.claim(self.config.domain)).collect();
        if self.scheme.verify(&claims).is_err() {
            return;
        }
        for vote in votes {
            let slot = vote.body.slot;
            // A repeated vote comes from a replica that misses the certificate.
            if asks && from != self.me && self.votes.is_repeated(&vote) {
                let frame = match self.votes.is_certified(slot) {
                    true => Some(Frame::Certificate(self.votes.certificate(slot))),
                    false => self.final_vote(slot).map(Frame::StateVote),
                };
                self.actions.extend(frame.map(|frame| Action::Send(To::One(from), frame)));
                return;
            }
            self.count(vote);
        }
    }

    fn count(&mut self, vote: Signed<StateVote>) {
        let slot = vote.body.slot;
        // Votes for a window ahead are kept, so that memory stays bounded.
        if slot > self.chain.decided() + self.config.retention || slot <= self.chain.base().slot {
            return;
        }
        if self.votes.add(vote) {
            self.tell_certificate(slot);
        }
    }

    /// Tells the pipeline that a slot is certified.
    fn tell_certificate(&mut self, slot: Slot) {
        if let Some((block, digest)) = self.votes.certificate(slot).first().map(|v| (v.body.block, v.body.digest)) {
            let signatures = self.votes.certificate(slot);
            let pairs: Vec<(u32, Bytes)> =
                signatures.iter().map(|vote| (u32::from(vote.signer.0), vote.signature.clone())).collect();
            let bytes = Certificate::encode(digest, pairs.iter().map(|(from, signature)| (from, signature))).bytes;
            let id = phalanx_engine_api::BlockId(block);
            let event = ConsensusEvent::StateCertificate { id, height: slot, digest, bytes };
            self.events.push_back((self.appended, event));
        }
    }

    /// Proposes full batches, or a partial one if `now`. Returns true if it proposed.
    fn propose(&mut self, now: bool) -> bool {
        let Some(protocol) = &self.protocol else { return false };
        let (view, leads) = (protocol.view(), protocol.leader() == self.me);
        if view > self.view {
            self.view = view;
            self.pool.enter(view);
        }
        if !leads {
            return false;
        }
        let (mut partial, mut proposed) = (now, false);
        while self.protocol.as_ref().is_some_and(|protocol| protocol.room() > 0)
            && self.pool.waiting() >= if partial { 1 } else { self.config.batch_txs }
        {
            (partial, proposed) = (false, true);
            let txs = self.pool.take(view, self.config.batch_txs);
            let (time, timestamp_ms) = (self.now, self.config.epoch_ms + self.now / 1000);
            let batch = Batch::new(timestamp_ms, self.config.beneficiary, txs);
            self.call(|protocol, out| protocol.on_input(time, Input::Batch(batch), out));
        }
        if self.pool.waiting() > 0 && !self.batch_runs {
            self.batch_runs = true;
            self.actions.push(Action::Timer(HostTimer::Batch, self.config.batch_delay));
        }
        proposed
    }

    /// Tells the pipeline of a checkpoint: a correct replica behind it has executed the decided prefix, so that it certifies the
    /// state like a quorum of state votes. Votes for older slots may be lost with the replicas that counted them.
    fn certify(&mut self, base: Base) {
        let decided = base.slot <= self.chain.decided() && base.slot > self.committed;
        if let Some(block) = self.chain.block(base.slot).filter(|_| decided) {
            let (id, height, digest, bytes) = (block.meta.id, base.slot, base.digest, Bytes::new());
            self.events.push_back((self.appended, ConsensusEvent::StateCertificate { id, height, digest, bytes }));
        }
    }

    /// Asks a peer for the decided blocks up to a checkpoint.
    fn want(&mut self, base: Base) {
        let n = self.config.quorums.n() as u16;
        if base.slot <= self.chain.decided() {
            return self.certify(base);
        }
        if n < 2 {
            return;
        }
        // A peer that goes on sending is not replaced.
        if let Some((_, fetched)) = &self.fetched
            && fetched.len() > self.sent_before
        {
            self.sent_before = fetched.len();
            return;
        }
        self.sent_before = 0;
        self.asked = (self.asked + 1) % n;
        if self.asked == self.me.0 {
            self.asked = (self.asked + 1) % n;
        }
        // Another peer may have answered with lies: begin anew.
        self.fetched = Some((base, Vec::new()));
        let want = WantBlocks { from: self.chain.decided() + 1, to: base.slot };
        self.actions.push(Action::Send(To::One(Index(self.asked)), Frame::WantBlocks(want)));
    }

    fn serve(&mut self, to: Index, want: WantBlocks) {
        if want.from <= self.chain.base().slot || want.from > self.chain.decided() {
            return;
        }
        let last = want.to.min(self.chain.decided()).min(want.from + MOST_BLOCKS as u64 - 1);
        let blocks = self.chain.from(want.from).take_while(|(slot, _)| **slot <= last);
        let batches = blocks.map(|(_, block)| Filled::new(block.batch.clone())).collect();
        let outcome = self.chain.block(last).filter(|_| last == want.to).and_then(|block| block.outcome.clone());
        let outcome = outcome.unwrap_or_default();
        self.actions.push(Action::Send(To::One(to), Frame::Blocks(Blocks { from: want.from, batches, outcome })));
    }

    /// Collects decided blocks, and believes them once they lead to the execution that the checkpoint names.
    fn on_blocks(&mut self, blocks: Blocks) {
        let Some((base, mut fetched)) = self.fetched.take() else { return };
        let next = self.chain.decided() + 1 + fetched.len() as u64;
        let room = (base.slot + 1).saturating_sub(next) as usize;
        let contents: Option<Vec<Option<Batch>>> =
            blocks.batches.iter().map(|filled| filled.content().map(|batch| batch.cloned())).collect();
        let usable = blocks.from == next && blocks.batches.len() <= room && !blocks.batches.is_empty();
        let Some(contents) = contents.filter(|_| usable) else {
            self.fetched = Some((base, fetched));
            return;
        };
        fetched.extend(contents);
        let last = self.chain.decided() + fetched.len() as u64;
        if last < base.slot {
            let want = WantBlocks { from: last + 1, to: base.slot };
            self.actions.push(Action::Send(To::One(Index(self.asked)), Frame::WantBlocks(want)));
            self.fetched = Some((base, fetched));
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
        self.certify(base);
    }

    /// A block is committed: the protocol moves on, and clients are answered.
    fn committed(&mut self, meta: BlockMeta, outcome: Outcome) {
        let (slot, digest) = (meta.height, outcome.digest());
        self.committed = slot;
        // A certificate of the state implies the order, before the protocol knows it.
        while self.chain.decided() < slot
            && let Some(block) = self.chain.block(self.chain.decided() + 1)
        {
            let batch = block.batch.clone();
            self.decided(self.chain.decided() + 1, batch);
        }
        let encoded = encode_outcome(&outcome);
        if let Some(block) = self.chain.block_mut(slot) {
            block.outcome = Some(encoded.clone());
            self.pool.commit(slot, block.payload.txs());
        }
        // Durable before the checkpoint that names it.
        self.append(HostRecord::Outcome(slot, encoded));
        let below = slot.saturating_sub(self.config.retention);
        self.votes.prune(below);
        self.pool.prune(below);
        self.actions.push(Action::Committed(meta, outcome));
        let now = self.now;
        self.call(|protocol, out| protocol.on_input(now, Input::Committed { slot, digest }, out));
        self.tell_pending();
    }
}

impl<P: Protocol> Consensus for Host<P> {
    fn config(&self) -> Config {
        self.config.pipeline.clone()
    }

    fn standing(&self) -> Standing {
        let last = self.chain.block(self.chain.decided());
        let last = last.map(|block| Decided { height: block.meta.height, id: block.meta.id });
        Standing { first: self.chain.base().slot + 1, last }
    }

    fn resumed(&mut self, committed: &Committed) {
        let base = Base { slot: committed.height, digest: B256::ZERO };
        let records = core::mem::take(&mut self.records);
        self.committed = committed.height;
        let mut out = Vec::new();
        self.protocol = Some(P::open(self.me, Arc::clone(&self.protocol_config), base, &records, &mut out));
        self.enqueue(out);
        self.perform();
    }

    fn block(&mut self, height: u64) -> Result<Option<DecidedBlock>, FatalCause> {
        let block = self.chain.block(height).filter(|_| height <= self.chain.decided());
        Ok(block.map(|block| {
            let mut decided = block.decided();
            let votes = self.votes.certificate(height);
            if let Some(first) = votes.first().filter(|vote| vote.body.block == block.meta.id.0) {
                let pairs: Vec<(u32, Bytes)> =
                    votes.iter().map(|vote| (u32::from(vote.signer.0), vote.signature.clone())).collect();
                let digest = first.body.digest;
                decided.certificate =
                    Some(Certificate::encode(digest, pairs.iter().map(|(from, signature)| (from, signature))));
            }
            decided
        }))
    }

    fn next(&mut self, now_us: u64) -> Result<Option<ConsensusEvent>, FatalCause> {
        self.now = now_us;
        if let Some(cause) = self.fatal.take() {
            return Err(cause);
        }
        self.perform();
        Ok(self.events.pop_front_if(|(after, _)| *after <= self.durable).map(|(_, event)| event))
    }

    fn apply(&mut self, effect: Effect) -> Result<(), FatalCause> {
        match effect {
            Effect::StateVote { meta, digest } => {
                self.votes.set_own(meta.height, meta.id.0, digest);
                self.say_vote(meta.height);
            }
            Effect::Ack { meta, outcome } => self.committed(meta, outcome),
            Effect::Pressure(pressure) => {
                let (now, hold) = (self.now, pressure.hold_votes);
                self.call(|protocol, out| protocol.on_input(now, Input::Hold(hold), out));
            }
            Effect::Halt(incident) => self.actions.push(Action::Halted(incident)),
            // Payloads come with their batches, certificates are formed here, transactions wait in the pool.
            _ => {}
        }
        self.perform();
        Ok(())
    }
}
