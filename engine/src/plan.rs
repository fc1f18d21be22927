//! From transactions to blocks: analyse, frame, cut, intern, build the graph. Order and block boundaries are decided here,
//! once.

use crate::{
    LeftTransactions, Order, Stage,
    engine::{Engine, Ground},
    graph::{Ahead, GraphBuilder},
    intern::{Interned, Interning},
    lent::{Home, Lent},
    observer::{observe, observe_fork},
};
use phalanx_access::{AccessSets, Key as _, KeyId};
use phalanx_paraframer::{BlockFormer, BlockLimits, Cause, Formed, Frame, Framer, FramerConfig};
use phalanx_paralyze::{Batch, Layers, PIECE, ParaLyze, Preimages, Source, StateKey};
use rayon::prelude::*;
use revm::{
    context::{BlockEnv, TxEnv},
    primitives::{
        Address,
        map::{AddressSet, HashMap},
    },
};
use std::collections::VecDeque;

/// Transactions analysed at a time.
const CHUNK: usize = 16 * PIECE;

/// The predictions of a chunk, a batch for each [`PIECE`] transactions.
type Chunk = Vec<Batch>;

/// A transaction that left this many blocks, by its own escape or by that of one it depends on, runs alone, after the
/// others of its block and without a prediction. It bounds how often anybody can make others wait.
const MAX_DEPARTURES: u8 = 2;

/// A block to be executed: transactions in final order and what they are predicted to touch.
#[derive(Clone, Debug)]
pub struct Block {
    /// Which transactions, by their index in the planner's input, in final order.
    pub(crate) order: Vec<u32>,
    /// Predicted sets of all but the last `alone`, in final order.
    pub(crate) sets: Lent<AccessSets<KeyId>>,
    pub(crate) keys: Lent<Vec<StateKey>>,
    /// Of slots among the keys, by transaction.
    pub(crate) preimages: Lent<Preimages<KeyId>>,
    /// Of all but the last `alone`, if it was made ahead.
    pub(crate) graph: Option<Ahead>,
    /// How many of the last transactions run one by one, without a prediction.
    pub(crate) alone: usize,
    pub(crate) ordering: Order,
    /// Frames with a member in the block.
    pub(crate) frames: usize,
    pub(crate) sources: SourceCounts,
}

/// How many transactions each layer of ParaLyze predicted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SourceCounts {
    /// L0, native rule.
    pub native: usize,
    /// L1, EIP-2930 list.
    pub declared: usize,
    /// L2, ERC20 rule.
    pub erc20: usize,
    /// L3, learned templates.
    pub template: usize,
    /// L4, simulation.
    pub simulated: usize,
    /// Not predicted.
    pub unknown: usize,
}

impl SourceCounts {
    pub(crate) const fn count(&mut self, source: Source) {
        match source {
            Source::Native => self.native += 1,
            Source::Declared => self.declared += 1,
            Source::Erc20 => self.erc20 += 1,
            Source::Template => self.template += 1,
            Source::Simulated => self.simulated += 1,
            Source::Unknown => self.unknown += 1,
        }
    }

    pub(crate) const fn add(&mut self, other: &Self) {
        let Self { native, declared, erc20, template, simulated, unknown } = *other;
        self.native += native;
        self.declared += declared;
        self.erc20 += erc20;
        self.template += template;
        self.simulated += simulated;
        self.unknown += unknown;
    }
}

impl Block {
    /// A block in the given order without predictions: what the sequential executor needs.
    pub fn unpredicted(order: Vec<u32>) -> Self {
        Self {
            alone: order.len(),
            order,
            sets: Lent::default(),
            keys: Lent::default(),
            preimages: Lent::default(),
            graph: None,
            ordering: Order::Given,
            frames: 0,
            sources: SourceCounts::default(),
        }
    }

    /// The transactions in final order, by their index in the planner's input.
    pub fn order(&self) -> &[u32] {
        &self.order
    }

    /// The predicted sets, in final order, over the dense ids of [`Self::keys`].
    pub fn sets(&self) -> &AccessSets<KeyId> {
        &self.sets
    }

    /// The block's keys by id.
    pub fn keys(&self) -> &[StateKey] {
        &self.keys
    }

    /// How many of the last transactions run one by one, without a prediction.
    pub const fn alone(&self) -> usize {
        self.alone
    }

    /// Frames with a member in the block; zero for a given order.
    pub const fn frames(&self) -> usize {
        self.frames
    }
}

/// A transaction's second life.
#[derive(Debug, Default)]
struct Again {
    departures: u8,
    /// The number of the block that it is in.
    block: Option<u64>,
    /// Its new prediction; empty until the block is planned that it may return in.
    batch: Batch,
}

/// Turns a list of transactions into blocks, one after the other.
///
/// With [`Order::Free`] it analyses and frames a chunk at a time; with [`Order::Given`] it cuts the input as it is.
#[derive(Debug)]
pub struct Planner<'t> {
    txs: &'t [TxEnv],
    ordering: Order,
    limits: BlockLimits,
    paralyze: ParaLyze,
    framer: Framer<u32>,
    former: BlockFormer<u32>,
    interning: Interning,
    /// Index of the first transaction that is not analysed yet.
    next: usize,
    /// Analysed chunks by index of their first transaction / [`CHUNK`], and how many of their members are in no block yet: a
    /// chunk goes with the last.
    chunks: VecDeque<(Chunk, usize)>,
    first_chunk: usize,
    spare: Vec<Chunk>,
    formed: VecDeque<(Vec<u32>, usize)>,
    /// Of the last block, those that the chunks predict: they are let go of when the next block is planned.
    handed: Vec<u32>,
    /// Ahead of all formed blocks, in order: transactions that left earlier blocks, and those of a block that was put back.
    returned: VecDeque<u32>,
    /// Transactions that have left a block, until it is known that they stayed in another.
    again: HashMap<u32, Again>,
    rejected: Vec<u32>,
    /// How many of the rejected have been let go of.
    forgotten: usize,
    frames: usize,
    framed: usize,
    /// Blocks planned so far.
    blocks: u64,
    /// Memory of earlier blocks.
    sets: Home<AccessSets<KeyId>>,
    keys: Home<Vec<StateKey>>,
    preimages: Home<Preimages<KeyId>>,
    graphs: GraphBuilder,
}

impl<'t> Planner<'t> {
    pub(crate) fn new(txs: &'t [TxEnv], ordering: Order, limits: BlockLimits, paralyze: ParaLyze) -> Self {
        Self {
            txs,
            ordering,
            limits,
            framer: Framer::new(FramerConfig::default()),
            former: BlockFormer::new(limits),
            interning: Interning::new(*paralyze.salt()),
            paralyze,
            next: 0,
            chunks: VecDeque::new(),
            first_chunk: 0,
            spare: Vec::new(),
            formed: VecDeque::new(),
            handed: Vec::new(),
            returned: VecDeque::new(),
            again: HashMap::default(),
            rejected: Vec::new(),
            forgotten: 0,
            frames: 0,
            framed: 0,
            blocks: 0,
            sets: Home::default(),
            keys: Home::default(),
            preimages: Home::default(),
            graphs: GraphBuilder::default(),
        }
    }

    /// Predicts by simulation alone from now on, to measure what the rules are worth.
    pub const fn simulate_all(&mut self) {
        self.paralyze.simulate_all();
    }

    /// Predicts by these layers from now on.
    pub const fn use_layers(&mut self, layers: Layers) {
        self.paralyze.use_layers(layers);
    }

    /// The next block, predicted from the engine's committed state; `None` when every transaction is in a block.
    ///
    /// `env` is the environment that the block will have.
    pub fn next_block(&mut self, engine: &Engine, env: &BlockEnv) -> Option<Block> {
        self.plan(engine.ground(), env)
    }

    /// [`Self::next_block`], beside an execution if need be.
    pub(crate) fn plan(&mut self, ground: Ground<'_>, env: &BlockEnv) -> Option<Block> {
        for tx in core::mem::take(&mut self.handed) {
            self.forget(tx);
        }
        // Planning is one block ahead of execution at most, so the blocks before the last one are done.
        self.again.retain(|_, again| again.block.is_none_or(|block| block + 1 >= self.blocks));
        while self.formed.is_empty() && self.next < self.txs.len() {
            let end = self.txs.len().min(self.next + CHUNK);
            let batch = observe(ground.observer, Stage::Analyse, || self.analyse(ground, env, end));
            observe(ground.observer, Stage::Frame, || self.frame(batch, end));
        }
        let (order, frames) = observe(ground.observer, Stage::Frame, || self.cut())?;
        if !self.again.is_empty() {
            observe(ground.observer, Stage::Analyse, || self.predict_again(ground, env, &order));
        }
        let intern = || self.intern(ground, order, frames, env.beneficiary);
        let (mut block, beneficiary) = observe(ground.observer, Stage::Intern, intern);
        if ground.has_graphs && block.alone < block.order.len() {
            let build = || self.graphs.build(&block.sets, block.keys.len(), beneficiary);
            block.graph = Some(Ahead::new(observe(ground.observer, Stage::Graph, build), env.beneficiary));
        }
        Some(block)
    }

    /// Whether blocks are formed ahead, so that the next one's plan needs no further transactions; those are analysed and
    /// framed thousands at a time.
    pub fn is_stocked(&self) -> bool {
        !self.formed.is_empty()
    }

    fn analyse(&mut self, ground: Ground<'_>, env: &BlockEnv, end: usize) -> Chunk {
        let mut chunk = self.spare.pop().unwrap_or_default();
        let txs: Vec<&TxEnv> = self.txs[self.next..end].iter().collect();
        observe_fork(ground.observer, Stage::Analyse, txs.len().div_ceil(PIECE), || {
            ground.workers.install(|| self.paralyze.analyse_pieces(ground.state, env, &txs, &mut chunk));
        });
        chunk
    }

    fn frame(&mut self, chunk: Chunk, end: usize) {
        let Self { txs, former, formed, rejected, frames, .. } = self;
        let framed = usize::from(self.ordering == Order::Free);
        let mut form = |former: &mut BlockFormer<u32>, frame: Frame<'_, u32>| {
            *frames += framed;
            former.push(&frame, |tx| txs[*tx as usize].gas_limit, &mut |out| collect(out, formed, rejected));
        };
        match self.ordering {
            Order::Free => {
                for (index, tx) in (self.next..end).enumerate() {
                    let TxEnv { caller, gas_limit, .. } = self.txs[tx];
                    let sender = StateKey::Basic(caller).digest(self.interning.salt());
                    let keys = chunk[index / PIECE].digests(index % PIECE);
                    self.framer.push(tx as u32, sender, gas_limit, keys, &mut |frame| form(former, frame));
                }
                if end == self.txs.len() {
                    self.framer.flush(&mut |frame| form(former, frame));
                }
            }
            Order::Given => {
                let txs: Vec<u32> = (self.next as u32..end as u32).collect();
                form(former, Frame { txs: &txs, gas: 0, cause: Cause::Flushed });
            }
        }
        if end == self.txs.len() {
            former.flush(&mut |out| collect(out, formed, rejected));
        }
        self.framed += end - self.next;
        self.chunks.push_back((chunk, end - self.next));
        self.next = end;
        while let Some(tx) = self.rejected.get(self.forgotten) {
            let tx = *tx;
            self.forgotten += 1;
            self.forget(tx);
        }
    }

    /// The next block's order: what came back, then the next formed block, as far as the limits go.
    fn cut(&mut self) -> Option<(Vec<u32>, usize)> {
        let (mut order, frames) = self.formed.pop_front().unwrap_or_default();
        if !self.returned.is_empty() {
            self.returned.extend(order.drain(..));
            let mut gas = 0u64;
            while let Some(tx) = self.returned.front() {
                gas = gas.saturating_add(self.txs[*tx as usize].gas_limit);
                if order.len() == self.limits.max_txs.max(1) || gas > self.limits.max_gas {
                    break;
                }
                order.extend(self.returned.pop_front());
            }
        }
        (!order.is_empty()).then_some((order, frames))
    }

    /// The block of these transactions, and which of its keys is the balance of `beneficiary`.
    fn intern(
        &mut self,
        ground: Ground<'_>,
        mut order: Vec<u32>,
        frames: usize,
        beneficiary: Address,
    ) -> (Block, Option<KeyId>) {
        let alone = self.move_loners_back(&mut order);
        let (mut sets, mut preimages, mut keys) = (self.sets.lend(), self.preimages.lend(), self.keys.lend());
        let Self { again, chunks, first_chunk, interning, .. } = self;
        let predicted = &order[..order.len() - alone];
        let place = |at: usize| {
            let tx = predicted[at] as usize;
            match again.get(&predicted[at]) {
                Some(again) => (&again.batch, 0),
                None => (&chunks[tx / CHUNK - *first_chunk].0[tx % CHUNK / PIECE], tx % PIECE),
            }
        };
        let wanted = StateKey::Basic(beneficiary);
        let out = Interned { keys: &mut keys, sets: &mut sets, preimages: &mut preimages };
        let (sources, beneficiary) = if ground.interns_in_shards(predicted.len()) {
            let work = || interning.many(place, predicted.len(), &wanted, out, ground.observer);
            ground.workers.install(work)
        } else {
            interning.one(place, predicted.len(), &wanted, out)
        };
        for tx in &order {
            if let Some(again) = self.again.get_mut(tx) {
                again.block = Some(self.blocks);
            }
        }
        self.blocks += 1;
        self.handed = order.iter().copied().filter(|tx| !self.again.contains_key(tx)).collect();
        let frames = if self.ordering == Order::Free { frames } else { 0 };
        let ordering = self.ordering;
        (Block { order, sets, keys, preimages, graph: None, alone, ordering, frames, sources }, beneficiary)
    }

    /// Lets go of a chunk when the last of its transactions has found its block.
    fn forget(&mut self, tx: u32) {
        self.chunks[tx as usize / CHUNK - self.first_chunk].1 -= 1;
        while let Some((chunk, _)) = self.chunks.pop_front_if(|(_, left)| *left == 0) {
            self.first_chunk += 1;
            self.spare.push(chunk);
        }
    }

    /// Predicts the returned transactions of a block by simulation, from the state and in the environment that they meet.
    fn predict_again(&mut self, ground: Ground<'_>, env: &BlockEnv, order: &[u32]) {
        let mut returned: Vec<(u32, Again)> =
            order.iter().filter_map(|tx| Some((*tx, self.again.remove(tx)?))).collect();
        let (paralyze, txs, state) = (&mut self.paralyze, self.txs, ground.state);
        ground.workers.install(|| {
            let simulating = &*paralyze;
            returned.par_iter_mut().for_each(|(tx, again)| {
                again.batch.clear();
                simulating.simulate(state, env, &txs[*tx as usize], &mut again.batch);
            });
            // Some left because a template was wrong.
            let escaped = returned.iter().filter(|(_, again)| again.departures == 1);
            let truth: Vec<_> = escaped.map(|(tx, again)| (&txs[*tx as usize], again.batch.sets().get(0))).collect();
            paralyze.learn(state, env, &truth);
        });
        self.again.extend(returned);
    }

    /// Moves transactions that have left too often to the end of the block, and with them the later ones of their
    /// senders; gives their number.
    fn move_loners_back(&self, order: &mut Vec<u32>) -> usize {
        if self.again.is_empty() {
            return 0;
        }
        let mut senders = AddressSet::default();
        let (mut kept, mut loners) = (Vec::new(), Vec::new());
        for tx in order.drain(..) {
            let caller = self.txs[tx as usize].caller;
            let loner = self.again.get(&tx).is_some_and(|again| again.departures >= MAX_DEPARTURES);
            if loner || senders.contains(&caller) {
                senders.insert(caller);
                loners.push(tx);
            } else {
                kept.push(tx);
            }
        }
        *order = kept;
        order.extend_from_slice(&loners);
        loners.len()
    }

    /// Takes back the block that was planned last and will not be executed as it is: its transactions open the next one.
    pub fn put_back(&mut self, block: Block) {
        self.handed.clear();
        for tx in block.order.into_iter().rev() {
            if let Some(again) = self.again.get_mut(&tx) {
                again.block = None;
            }
            self.returned.push_front(tx);
        }
    }

    /// Takes back the transactions that left an executed block, `left` in its order: they open the next block.
    pub fn take_back(&mut self, left: &LeftTransactions) {
        for tx in left.0.iter().rev() {
            self.returned.push_front(*tx);
            let again = self.again.entry(*tx).or_default();
            again.departures += 1;
            again.block = None;
        }
    }

    /// Transactions whose gas limit exceeds a block's, by index: they are in no block.
    pub fn rejected(&self) -> &[u32] {
        &self.rejected
    }

    /// Transactions ÷ frames so far, FAFO's measure of parallelism; zero before the first frame.
    pub fn tlp(&self) -> f64 {
        if self.frames == 0 { 0.0 } else { self.framed as f64 / self.frames as f64 }
    }
}

fn collect(out: Formed<'_, u32>, formed: &mut VecDeque<(Vec<u32>, usize)>, rejected: &mut Vec<u32>) {
    match out {
        Formed::Block(block) => formed.push_back((block.txs.to_vec(), block.frames)),
        Formed::Rejected(too_large) => rejected.push(too_large.tx),
    }
}
