//! From transactions to blocks: analyse, frame, cut, intern, build the graph. Order and block boundaries are decided here,
//! once.

mod assembly;
mod stock;

use crate::{
    LeftTransactions, Order, Stage,
    engine::{Engine, Ground, join_if},
    graph::Ahead,
    lent::Lent,
    observer::observe,
};
use assembly::Assembly;
use phalanx_access::{AccessSets, KeyId};
use phalanx_paraframer::BlockLimits;
use phalanx_paralyze::{Batch, Layers, ParaLyze, Preimages, Source, StateKey};
use revm::context::{BlockEnv, TxEnv};
use stock::{CHUNK, Stock};

/// The predictions of a chunk, a batch for each [`PIECE`](phalanx_paralyze::PIECE) transactions.
type Chunk = Vec<Batch>;

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
    stock: Stock<'t>,
    assembly: Assembly<'t>,
}

impl<'t> Planner<'t> {
    pub(crate) fn new(txs: &'t [TxEnv], ordering: Order, limits: BlockLimits, paralyze: ParaLyze) -> Self {
        let assembly = Assembly::new(txs, ordering, limits, *paralyze.salt());
        Self { stock: Stock::new(txs, ordering, limits, paralyze), assembly }
    }

    /// Predicts what is not analysed yet by simulation alone, to measure what the rules are worth.
    pub const fn simulate_all(&mut self) {
        self.stock.paralyze().simulate_all();
    }

    /// Predicts what is not analysed yet by these layers.
    pub const fn use_layers(&mut self, layers: Layers) {
        self.stock.paralyze().use_layers(layers);
    }

    /// The next block, predicted from the engine's committed state; `None` when every transaction is in a block.
    ///
    /// `env` is the environment that the block will have.
    pub fn next_block(&mut self, engine: &Engine, env: &BlockEnv) -> Option<Block> {
        self.plan(engine.ground(), env, false)
    }

    /// [`Self::next_block`]; `beside` an execution, a large block is formed one ahead. Few threads have enough to do with that
    /// execution, and then one of them does all of this: whoever waits for a part of theirs could take the framing up.
    pub(crate) fn plan(&mut self, ground: Ground<'_>, env: &BlockEnv, beside: bool) -> Option<Block> {
        let Self { stock, assembly } = self;
        assembly.let_go();
        stock.give_spare(&mut assembly.spare);
        let is_full = assembly.is_full();
        if !is_full {
            stock.fill(ground, env);
            assembly.take_over(stock.take_chunks(), stock.rejected());
        }
        let cut = || assembly.cut(if is_full { None } else { stock.take() });
        let (order, frames) = observe(ground.observer, Stage::Frame, cut)?;
        assembly.predict_again(stock.paralyze(), ground, env, &order);
        let ahead = beside && order.len() >= CHUNK;
        let share = ahead && ground.interns_in_shards(order.len());
        let assemble = || assembly.assemble(ground, env, order, frames);
        let stock_up = || {
            if ahead {
                stock.fill_ahead(ground, env, share);
            }
        };
        let (block, ()) = join_if(share, assemble, stock_up);
        assembly.take_over(stock.take_chunks(), stock.rejected());
        Some(block)
    }

    /// Blocks that are formed and not planned.
    pub fn formed(&self) -> usize {
        self.stock.formed().len()
    }

    /// Whether the next plan needs no further transactions, which are analysed and framed thousands at a time: a block is
    /// formed, and not so large that the one behind it is formed beside it.
    pub fn is_stocked(&self) -> bool {
        self.stock.formed().next().is_some_and(|txs| txs < CHUNK)
    }

    /// Takes back the block that was planned last and will not be executed as it is: its transactions open the next one.
    pub fn put_back(&mut self, block: Block) {
        self.assembly.put_back(block);
    }

    /// Takes back the transactions that left an executed block, `left` in its order: they open the next block.
    pub fn take_back(&mut self, left: &LeftTransactions) {
        self.assembly.take_back(left);
    }

    /// Transactions whose gas limit exceeds a block's, by index: they are in no block.
    pub fn rejected(&self) -> &[u32] {
        self.stock.rejected()
    }

    /// Transactions ÷ frames so far, FAFO's measure of parallelism; zero before the first frame.
    pub fn tlp(&self) -> f64 {
        let (txs, frames) = self.stock.framed();
        if frames == 0 { 0.0 } else { txs as f64 / frames as f64 }
    }
}
