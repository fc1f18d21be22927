//! From transactions to blocks: analyse, frame, assemble, intern, build the graph. Order and block boundaries are
//! decided here, once.

mod assembly;
mod forming;
pub(crate) mod requeue;
mod block;
mod context;
pub(crate) mod graph;
pub(crate) mod hints;
pub(crate) mod intern;

pub use block::{Block, LeftTransactions, SourceCounts};
pub(crate) use context::{PlanContext, join_if};
#[cfg(feature = "lab")]
pub(crate) use intern::interns_in_shards;

use crate::model::{Order, Stage, observe};
use assembly::Assembly;
use forming::{CHUNK, FormingQueue};
use phalanx_paraframer::BlockLimits;
use phalanx_paralyze::{Layers, ParaLyze};
use revm::context::{BlockEnv, TxEnv};

/// Plans a list of transactions into blocks, one after the other.
///
/// With [`Order::Free`] it analyses and frames a chunk at a time; with [`Order::Given`] it cuts the input in order.
#[derive(Debug)]
pub struct Planner<'t> {
    forming: FormingQueue<'t>,
    assembly: Assembly<'t>,
}

impl<'t> Planner<'t> {
    pub(crate) fn new(txs: &'t [TxEnv], ordering: Order, limits: BlockLimits, paralyze: ParaLyze) -> Self {
        let assembly = Assembly::new(txs, ordering, limits, *paralyze.salt());
        Self { forming: FormingQueue::new(txs, ordering, limits, paralyze), assembly }
    }

    /// Predicts all further transactions by simulation alone, to measure the worth of the rules.
    pub const fn simulate_all(&mut self) {
        self.forming.paralyze().simulate_all();
    }

    /// Predicts all further transactions by these layers.
    pub const fn use_layers(&mut self, layers: Layers) {
        self.forming.paralyze().use_layers(layers);
    }

    /// Plans the next block; beside an execution, a large block is assembled one ahead. With few threads the execution
    /// occupies them, and one thread plans: a waiting worker could steal the framing.
    pub(crate) fn plan(&mut self, ctx: PlanContext<'_>, env: &BlockEnv, beside: bool) -> Option<Block> {
        let Self { forming, assembly } = self;
        forming.note_in_flight(assembly.first_in_flight());
        assembly.release();
        let is_full = assembly.is_full();
        if !is_full {
            forming.fill(ctx, env);
            assembly.take_over(forming.take_chunks(), forming.rejected());
        }
        let cut = || assembly.cut(if is_full { None } else { forming.take() });
        let (order, frames) = observe(ctx.observer, Stage::Frame, cut)?;
        assembly.predict_again(forming.paralyze(), ctx, env, &order);
        let ahead = beside && order.len() >= CHUNK;
        let share = ahead && ctx.interns_in_shards(order.len());
        let assemble = || assembly.assemble(ctx, env, order, frames);
        let stock_up = || {
            if ahead {
                forming.fill_ahead(ctx, env, share);
            }
        };
        let (block, ()) = join_if(share, assemble, stock_up);
        assembly.take_over(forming.take_chunks(), forming.rejected());
        Some(block)
    }

    /// Number of blocks that are assembled and not planned.
    pub fn formed(&self) -> usize {
        self.forming.formed().len()
    }

    /// True if the next plan needs no further transactions, which are analysed and framed thousands at a time: a block
    /// is assembled, and not so large that the one behind it is assembled beside it.
    pub fn is_stocked(&self) -> bool {
        self.forming.formed().next().is_some_and(|txs| txs < CHUNK)
    }

    /// Takes back the last planned block, which is not executed as it is: its transactions open the next one.
    pub fn unplan(&mut self, block: Block) {
        self.assembly.unplan(block);
    }

    /// Requeues the transactions that escaped an executed block, `left` in its order: they open the next block.
    pub fn requeue_escaped(&mut self, left: &LeftTransactions) {
        self.assembly.requeue_escaped(left);
    }

    /// Transactions whose gas limit exceeds a block's, by index: they are in no block.
    pub fn rejected(&self) -> &[u32] {
        self.forming.rejected()
    }

    /// Transactions ÷ frames so far, FAFO's measure of parallelism; zero before the first frame.
    pub fn tlp(&self) -> f64 {
        let (txs, frames) = self.forming.framed();
        if frames == 0 { 0.0 } else { txs as f64 / frames as f64 }
    }
}
