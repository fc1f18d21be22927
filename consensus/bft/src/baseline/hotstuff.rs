//! Two-chain HotStuff with rotating leaders, as the evaluation of Autobahn compares with it.
//!
//! ```text
//! leader v ── block v, certificate of v-1 ──► all ── votes ──► leader v+1 ── block v+1, certificate of v ──► all
//! ```
//!
//! A block is decided when its child of the next view has a certificate. In the plain form a block carries batches of its leader; in
//! the batched form replicas spread batches at once, blocks name their digests, and a vote waits for the batches that it lacks.
//! Certificates are sets of votes that replicas believe each other, and nothing is durable: a baseline, not for production.

use crate::core::{
    Base, Batch, Checked, Claim, ConfigError, Domain, Index, Input, Message, Micros, Out, Outs, Protocol, Quorums,
    ReplicaSet, To, View, short, tagged,
};
use alloy_primitives::{B256, Bytes, keccak256};
use alloy_rlp::{Encodable as _, RlpDecodable, RlpEncodable};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

/// Views of blocks that are kept behind the decided one.
const KEPT: View = 64;

/// Place of batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// In the blocks of the replica that has them.
    Plain,
    /// Spread beforehand; blocks name them.
    Batched,
}

/// Constants of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HotStuffConfig {
    /// Replicas and faults.
    pub quorums: Quorums,
    /// Place of batches.
    pub form: Form,
    /// Patience with a leader, in µs.
    pub timeout: Micros,
    /// True if patience doubles with each view that fails, up to 16 times.
    pub doubles: bool,
    /// Transactions that a block carries in the plain form.
    pub block_txs: usize,
    /// Batches that a block names in the batched form.
    pub block_batches: usize,
    /// Maximum length of an encoded batch, in bytes.
    pub batch_bytes: usize,
}

impl HotStuffConfig {
    /// Leader of a view: round robin.
    #[must_use]
    pub const fn leader(&self, view: View) -> Index {
        Index((view % self.quorums.n() as u64) as u16)
    }
}

/// A block.
#[derive(Clone, Debug, PartialEq, Eq, Hash, RlpEncodable, RlpDecodable)]
pub struct Block {
    /// View.
    pub view: View,
    /// Digest of the certified block that it continues.
    pub parent: B256,
    /// View of that block.
    pub parent_view: View,
    /// Batches of the leader: plain form.
    pub batches: Vec<Batch>,
    /// Digests of batches: batched form.
    pub named: Vec<B256>,
}

impl Block {
    fn digest(&self) -> B256 {
        let mut bytes = b"phalanx-hotstuff-1".to_vec();
        (self.view, self.parent_view).0.encode(&mut bytes);
        self.parent.encode(&mut bytes);
        for digest in self.batches.iter().map(Batch::digest).chain(self.named.iter().copied()) {
            digest.encode(&mut bytes);
        }
        keccak256(&bytes)
    }
}

/// A message between replicas.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum HotStuffMsg {
    /// A batch, spread beforehand.
    Batch(Batch),
    /// A leader's block; true if n-f replicas have given up the view before.
    Propose(Block, bool),
    /// A vote, for the leader of the next view.
    Vote(View, B256),
    /// A replica gives up a view; its highest certified block.
    Timeout(View, View, B256),
    /// Asks for batches or blocks by digest.
    Want(Vec<B256>),
    /// Answers [`HotStuffMsg::Want`] with blocks.
    Block(Block),
}

tagged! {
    HotStuffMsg, "message",
    1 => Batch(batch),
    2 => Propose(block, timeout),
    4 => Vote(view, digest),
    5 => Timeout(view, high, digest),
    6 => Want(digests),
    7 => Block(block),
}

impl HotStuffMsg {
    /// The baseline trusts its replicas.
    const fn bounds(&self) -> alloy_rlp::Result<()> {
        Ok(())
    }
}

impl Message for HotStuffMsg {
    fn claims(&self, _: Domain, _: &mut Vec<Claim>) {}

    fn batches(&self) -> Vec<&Batch> {
        match self {
            Self::Batch(batch) => vec![batch],
            Self::Propose(block, _) | Self::Block(block) => block.batches.iter().collect(),
            _ => Vec::new(),
        }
    }

    fn label(&self) -> u64 {
        let fields = match self {
            Self::Batch(batch) => short(&batch.digest()),
            Self::Propose(block, _) | Self::Block(block) => block.view,
            Self::Vote(view, digest) => view ^ short(digest),
            Self::Timeout(view, high, _) => view ^ high << 28,
            Self::Want(digests) => digests.first().map_or(0, short),
        };
        u64::from(self.kind()) << 56 ^ fields
    }
}

/// Timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HotStuffTimer {
    /// Patience with the leader of the present view.
    Patience,
}

/// A replica.
#[derive(Clone, Debug)]
pub struct HotStuff {
    me: Index,
    config: Arc<HotStuffConfig>,
    view: View,
    voted: View,
    led: View,
    /// Highest certified block: view and digest.
    high: (View, B256),
    blocks: BTreeMap<B256, Block>,
    /// View of the newest decided block, and number of decided batches.
    decided: View,
    height: u64,
    votes: BTreeMap<(View, B256), ReplicaSet>,
    timeouts: BTreeMap<View, ReplicaSet>,
    /// Views that end by timeouts here.
    gave_up: View,
    /// Own batches that wait, plain form.
    pool: VecDeque<Batch>,
    /// Own batches of blocks that are not decided.
    own: BTreeMap<View, Vec<Batch>>,
    /// Batches of the batched form: all, and those in no decided block by arrival.
    known: BTreeMap<B256, Batch>,
    fresh: VecDeque<B256>,
    done: BTreeSet<B256>,
    /// A block whose vote waits for batches or for its parent.
    waiting: Option<(Index, Block, bool)>,
    /// Digests that are asked for.
    asked: BTreeSet<B256>,
    /// Timeouts since the last certificate: patience doubles with each.
    failures: u32,
}

impl Protocol for HotStuff {
    type Config = HotStuffConfig;
    type Msg = HotStuffMsg;
    type Record = Bytes;
    type Timer = HotStuffTimer;

    const OWN_REQUESTS: bool = true;

    fn check(config: &HotStuffConfig) -> Result<(), ConfigError> {
        ConfigError::within("timeout", config.timeout, 1, 3_600_000_000)?;
        ConfigError::within("block_txs", config.block_txs as u64, 1, 1 << 20)?;
        ConfigError::within("block_batches", config.block_batches as u64, 1, 1 << 20)
    }

    fn batch_bytes(config: &HotStuffConfig) -> usize {
        config.batch_bytes
    }

    fn open(me: Index, config: Arc<HotStuffConfig>, _: Base, _: &[Bytes], out: &mut Outs<Self>) -> Self {
        let mut replica = Self {
            me,
            config,
            view: 0,
            voted: 0,
            led: 0,
            high: (0, B256::ZERO),
            blocks: BTreeMap::new(),
            decided: 0,
            height: 0,
            votes: BTreeMap::new(),
            timeouts: BTreeMap::new(),
            gave_up: 0,
            pool: VecDeque::new(),
            own: BTreeMap::new(),
            known: BTreeMap::new(),
            fresh: VecDeque::new(),
            done: BTreeSet::new(),
            waiting: None,
            asked: BTreeSet::new(),
            failures: 0,
        };
        replica.enter(1, out);
        replica.lead(false, out);
        replica
    }

    fn wants(&self, from: Index, _: &HotStuffMsg) -> bool {
        usize::from(from.0) < self.config.quorums.n() && from != self.me
    }

    fn on_message(&mut self, _: Micros, from: Index, message: Checked<HotStuffMsg>, out: &mut Outs<Self>) {
        match message.into_inner() {
            HotStuffMsg::Batch(batch) => self.learn(batch, out),
            HotStuffMsg::Propose(block, timeout) => self.on_propose(from, block, timeout, out),
            HotStuffMsg::Vote(view, digest) => self.on_vote(from, view, digest, out),
            HotStuffMsg::Timeout(view, high, digest) => self.on_timeout(from, view, (high, digest), out),
            HotStuffMsg::Want(digests) => {
                for digest in digests {
                    let answer = self.known.get(&digest).cloned().map(HotStuffMsg::Batch);
                    let answer = answer.or_else(|| self.blocks.get(&digest).cloned().map(HotStuffMsg::Block));
                    out.extend(answer.map(|answer| Out::Send(To::One(from), answer)));
                }
            }
            HotStuffMsg::Block(block) => {
                self.blocks.insert(block.digest(), block);
                self.retry(out);
            }
        }
    }

    fn on_timer(&mut self, _: Micros, _: HotStuffTimer, out: &mut Outs<Self>) {
        self.give_up(self.view, out);
        // What was asked for may be lost.
        self.asked.clear();
        self.retry(out);
        out.push(Out::Timer(HotStuffTimer::Patience, self.patience()));
    }

    fn on_input(&mut self, _: Micros, input: Input, out: &mut Outs<Self>) {
        let Input::Batch(batch) = input else { return };
        match self.config.form {
            Form::Plain => self.pool.push_back(batch),
            Form::Batched => {
                out.push(Out::Send(To::All, HotStuffMsg::Batch(batch.clone())));
                self.learn(batch, out);
            }
        }
    }

    fn room(&self) -> u64 {
        u64::MAX
    }

    fn leader(&self) -> Index {
        self.me
    }

    fn view(&self) -> View {
        self.view
    }

    fn journal(&self) -> Vec<Bytes> {
        Vec::new()
    }
}

impl HotStuff {
    /// Number of decided batches.
    #[must_use]
    pub const fn height(&self) -> u64 {
        self.height
    }

    fn enter(&mut self, view: View, out: &mut Outs<Self>) {
        if view > self.view {
            self.view = view;
            self.votes = self.votes.split_off(&(view.saturating_sub(2), B256::ZERO));
            self.timeouts = self.timeouts.split_off(&view.saturating_sub(2));
            out.push(Out::Timer(HotStuffTimer::Patience, self.patience()));
        }
    }

    fn patience(&self) -> Micros {
        let doublings = self.failures.min(4);
        if self.config.doubles { self.config.timeout << doublings } else { self.config.timeout }
    }

    fn certify(&mut self, view: View, digest: B256, out: &mut Outs<Self>) {
        if view > self.high.0 {
            self.high = (view, digest);
            self.failures = 0;
            self.commit(digest, out);
        }
        self.enter(view + 1, out);
    }

    /// Decides the parent of a certified block, if no view lies between them, and all before it.
    fn commit(&mut self, certified: B256, out: &mut Outs<Self>) {
        let Some(block) = self.blocks.get(&certified) else { return };
        if block.parent_view + 1 != block.view || block.parent_view <= self.decided {
            return;
        }
        let mut chain = Vec::new();
        let mut next = block.parent;
        while let Some(block) = self.blocks.get(&next).filter(|block| block.view > self.decided) {
            chain.push(block.clone());
            next = block.parent;
        }
        for block in chain.into_iter().rev() {
            self.decided = block.view;
            self.own.remove(&block.view);
            let named: Vec<Batch> = block.named.iter().filter_map(|digest| self.known.remove(digest)).collect();
            self.done.extend(block.named.iter().copied());
            for batch in block.batches.into_iter().chain(named) {
                self.height += 1;
                out.push(Out::Decided { slot: self.height, batch: Some(batch) });
            }
        }
        self.fresh.retain(|digest| !self.done.contains(digest));
        // Own blocks that were passed over give their batches back.
        let above = self.own.split_off(&self.decided);
        for batches in core::mem::replace(&mut self.own, above).into_values().rev() {
            batches.into_iter().rev().for_each(|batch| self.pool.push_front(batch));
        }
        let kept = self.decided.saturating_sub(KEPT);
        self.blocks.retain(|_, block| block.view >= kept);
    }

    fn lead(&mut self, timeout: bool, out: &mut Outs<Self>) {
        if self.config.leader(self.view) != self.me || self.led >= self.view {
            return;
        }
        self.led = self.view;
        let (parent_view, parent) = self.high;
        let mut batches = Vec::new();
        let mut named = Vec::new();
        match self.config.form {
            Form::Plain => {
                let mut txs = 0;
                while let Some(batch) = self.pool.front() {
                    txs += batch.transactions().len();
                    if !batches.is_empty() && txs > self.config.block_txs {
                        break;
                    }
                    batches.extend(self.pool.pop_front());
                }
                self.own.insert(self.view, batches.clone());
            }
            Form::Batched => {
                let mut taken = BTreeSet::new();
                let mut next = parent;
                while let Some(block) = self.blocks.get(&next).filter(|block| block.view > self.decided) {
                    taken.extend(block.named.iter().copied());
                    next = block.parent;
                }
                let free = self.fresh.iter().filter(|digest| !taken.contains(*digest));
                named.extend(free.take(self.config.block_batches).copied());
            }
        }
        let block = Block { view: self.view, parent, parent_view, batches, named };
        out.push(Out::Send(To::All, HotStuffMsg::Propose(block.clone(), timeout)));
        self.on_propose(self.me, block, timeout, out);
    }

    fn learn(&mut self, batch: Batch, out: &mut Outs<Self>) {
        let digest = batch.digest();
        if !self.done.contains(&digest) && self.known.insert(digest, batch).is_none() {
            self.fresh.push_back(digest);
        }
        self.retry(out);
    }

    fn retry(&mut self, out: &mut Outs<Self>) {
        if let Some((from, block, timeout)) = self.waiting.take() {
            self.on_propose(from, block, timeout, out);
        }
    }

    fn on_propose(&mut self, from: Index, block: Block, timeout: bool, out: &mut Outs<Self>) {
        if block.view < self.view || from != self.config.leader(block.view) {
            return;
        }
        let digest = block.digest();
        let lacks = |digest: &B256| !self.known.contains_key(digest) && !self.done.contains(digest);
        let mut missing: Vec<B256> = block.named.iter().copied().filter(lacks).collect();
        missing.extend(self.gap(&block));
        if !missing.is_empty() {
            missing.retain(|digest| self.asked.insert(*digest));
            if !missing.is_empty() && from != self.me {
                out.push(Out::Send(To::One(from), HotStuffMsg::Want(missing)));
            }
            self.waiting = Some((from, block, timeout));
            return;
        }
        self.blocks.insert(digest, block.clone());
        self.certify(block.parent_view, block.parent, out);
        self.enter(block.view, out);
        let continues = block.parent_view + 1 == block.view || timeout;
        if block.view == self.view && block.view > self.voted && block.view > self.gave_up && continues {
            self.voted = block.view;
            let to = self.config.leader(block.view + 1);
            if to == self.me {
                self.on_vote(self.me, block.view, digest, out);
            } else {
                out.push(Out::Send(To::One(to), HotStuffMsg::Vote(block.view, digest)));
            }
        }
    }

    /// The newest ancestor that is not here and not decided, or a batch that an ancestor names and that is not here.
    fn gap(&self, block: &Block) -> Vec<B256> {
        let (mut view, mut next) = (block.parent_view, block.parent);
        while view > self.decided {
            let Some(ancestor) = self.blocks.get(&next) else { return vec![next] };
            let lacks = |digest: &&B256| !self.known.contains_key(*digest) && !self.done.contains(*digest);
            let missing: Vec<B256> = ancestor.named.iter().filter(lacks).copied().collect();
            if !missing.is_empty() {
                return missing;
            }
            (view, next) = (ancestor.parent_view, ancestor.parent);
        }
        Vec::new()
    }

    fn on_vote(&mut self, from: Index, view: View, digest: B256, out: &mut Outs<Self>) {
        if view + 1 < self.view {
            return;
        }
        let voters = self.votes.entry((view, digest)).or_default();
        voters.insert(from);
        if voters.len() == self.config.quorums.available() && self.blocks.contains_key(&digest) {
            self.certify(view, digest, out);
            self.lead(false, out);
        }
    }

    fn give_up(&mut self, view: View, out: &mut Outs<Self>) {
        self.gave_up = self.gave_up.max(view);
        let (high, digest) = self.high;
        out.push(Out::Send(To::All, HotStuffMsg::Timeout(view, high, digest)));
        self.on_timeout(self.me, view, (high, digest), out);
    }

    fn on_timeout(&mut self, from: Index, view: View, high: (View, B256), out: &mut Outs<Self>) {
        if high.0 > self.high.0 && self.blocks.contains_key(&high.1) {
            self.certify(high.0, high.1, out);
        }
        if view < self.view {
            return;
        }
        let givers = self.timeouts.entry(view).or_default();
        givers.insert(from);
        let count = givers.len();
        if count >= self.config.quorums.available() {
            self.failures += 1;
            self.enter(view + 1, out);
            self.lead(true, out);
        } else if count == self.config.quorums.one_correct() && !self.timeouts[&view].contains(self.me) {
            self.give_up(view, out);
        }
    }
}
