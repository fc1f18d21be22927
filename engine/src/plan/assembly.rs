//! Assembles a block from its transactions: interns their keys and builds the graph of their conflicts. Requeued
//! transactions come first.

use super::{
    block::{Block, LeftTransactions},
    context::PlanContext,
    forming::{CHUNK, Chunk},
    graph::{Ahead, GraphBuilder},
    intern::{Interned, Interning},
    requeue::{Requeue, TAUGHT_SHARE},
};
use crate::model::{Order, Stage, observe};
use phalanx_access::{AccessSets, KeyId, Salt};
use phalanx_memory::BufferPool;
use phalanx_paraframer::BlockLimits;
use phalanx_paralyze::{BATCH_LEN, Batch, ParaLyze, Preimages, StateKey};
use revm::{
    context::{BlockEnv, TxEnv},
    primitives::Address,
};
use std::collections::VecDeque;

/// Input of assembly, and the state of transactions that are not done.
#[derive(Debug)]
pub(super) struct Assembly<'t> {
    txs: &'t [TxEnv],
    ordering: Order,
    limits: BlockLimits,
    interning: Interning,
    /// Framed chunks by index of their first transaction / [`CHUNK`], with the number of members in no block yet: a
    /// chunk is released with the last.
    chunks: VecDeque<(Chunk, usize)>,
    first_chunk: usize,
    /// Transactions of the last block that the chunks predict: they are released when the next block is planned.
    handed: Vec<u32>,
    /// Escaped transactions, and transactions of an unplanned block.
    requeue: Requeue,
    /// Number of frames of the unplanned blocks.
    frames: usize,
    /// Number of rejected transactions that have been released.
    forgotten: usize,
    /// Number of blocks planned so far.
    blocks: u64,
    /// Memory of earlier blocks.
    sets: BufferPool<AccessSets<KeyId>>,
    keys: BufferPool<Vec<StateKey>>,
    preimages: BufferPool<Preimages<KeyId>>,
    graphs: GraphBuilder,
}

impl<'t> Assembly<'t> {
    pub(super) fn new(txs: &'t [TxEnv], ordering: Order, limits: BlockLimits, salt: Salt) -> Self {
        Self {
            txs,
            ordering,
            limits,
            interning: Interning::new(salt),
            chunks: VecDeque::new(),
            first_chunk: 0,
            handed: Vec::new(),
            requeue: Requeue::default(),
            frames: 0,
            forgotten: 0,
            blocks: 0,
            sets: BufferPool::default(),
            keys: BufferPool::default(),
            preimages: BufferPool::default(),
            graphs: GraphBuilder::default(),
        }
    }

    /// Index up to which all transactions are in blocks before the last one and have not come back, and so have run.
    pub(super) fn first_in_flight(&self) -> usize {
        let came_back = self.requeue.waiting.iter().chain(self.requeue.escaped.keys()).min();
        came_back.map_or(usize::MAX, |tx| *tx as usize).min(self.first_chunk * CHUNK)
    }

    /// Releases the last block's transactions, which are handed to execution by now.
    pub(super) fn release(&mut self) {
        for tx in core::mem::take(&mut self.handed) {
            self.forget(tx);
        }
        // Planning is one block ahead of execution at most, so the blocks before the last one are done.
        let planned = self.blocks;
        let done = |block: u64| block + 1 < planned;
        self.requeue.escaped.retain(|_, escaped| !escaped.planned_in.is_some_and(done));
    }

    /// Takes framed chunks over.
    pub(super) fn take_over(&mut self, chunks: Vec<Chunk>, rejected: &[u32]) {
        for chunk in chunks {
            let txs = chunk.0.iter().map(Batch::len).sum();
            self.chunks.push_back((chunk, txs));
        }
        while let Some(tx) = rejected.get(self.forgotten) {
            self.forgotten += 1;
            self.forget(*tx);
        }
    }

    /// True if requeued transactions fill a block.
    pub(super) fn is_full(&self) -> bool {
        self.fitting() < self.requeue.waiting.len() || self.requeue.waiting.len() >= self.limits.max_txs.max(1)
    }

    /// Number of requeued transactions that fit into one block.
    fn fitting(&self) -> usize {
        let mut gas = 0u64;
        let fits = |tx: &&u32| {
            gas = gas.saturating_add(self.txs[**tx as usize].gas_limit);
            gas <= self.limits.max_gas
        };
        self.requeue.waiting.iter().take(self.limits.max_txs.max(1)).take_while(fits).count()
    }

    /// Order of the next block: requeued transactions, then `formed`, up to the limits.
    pub(super) fn cut(&mut self, formed: Option<(Vec<u32>, usize)>) -> Option<(Vec<u32>, usize)> {
        let (mut order, frames) = formed.unwrap_or_default();
        let frames = frames + core::mem::take(&mut self.frames);
        if !self.requeue.waiting.is_empty() {
            self.requeue.waiting.extend(order.drain(..));
            order.extend(self.requeue.waiting.drain(..self.fitting()));
        }
        (!order.is_empty()).then_some((order, frames))
    }

    /// Assembles the block of these transactions, for its environment.
    pub(super) fn assemble(&mut self, ctx: PlanContext<'_>, env: &BlockEnv, order: Vec<u32>, frames: usize) -> Block {
        let intern = || self.intern(ctx, order, frames, env.beneficiary);
        let (mut block, beneficiary) = observe(ctx.observer, Stage::Intern, intern);
        if ctx.builds_graphs && !block.is_unpredicted() {
            let build = || self.graphs.build(&block.sets, block.keys.len(), beneficiary);
            block.graph = Some(Ahead::new(observe(ctx.observer, Stage::Graph, build), env.beneficiary));
        }
        block
    }

    /// Interns the block of these transactions. Returns the id of the balance of `beneficiary`, if it is among the
    /// keys.
    fn intern(
        &mut self,
        ctx: PlanContext<'_>,
        mut order: Vec<u32>,
        frames: usize,
        beneficiary: Address,
    ) -> (Block, Option<KeyId>) {
        let txs = self.txs;
        let serial_tail = self.requeue.defer_to_serial(&mut order, |tx| txs[tx as usize].caller);
        let (mut sets, mut preimages, mut keys) = (self.sets.take(), self.preimages.take(), self.keys.take());
        let Self { requeue, chunks, first_chunk, interning, .. } = self;
        let predicted = &order[..order.len() - serial_tail];
        let place = |at: usize| {
            let tx = predicted[at] as usize;
            match requeue.escaped.get(&predicted[at]) {
                Some(escaped) => (&escaped.prediction, 0),
                None => (&chunks[tx / CHUNK - *first_chunk].0.0[tx % CHUNK / BATCH_LEN], tx % BATCH_LEN),
            }
        };
        let wanted = StateKey::Basic(beneficiary);
        let out = Interned { keys: &mut keys, sets: &mut sets, preimages: &mut preimages };
        let (sources, beneficiary) = if ctx.interns_in_shards(predicted.len()) {
            let work = || interning.many(place, predicted.len(), &wanted, out, ctx.observer);
            ctx.workers.install(work)
        } else {
            interning.one(place, predicted.len(), &wanted, out)
        };
        for tx in &order {
            if let Some(escaped) = self.requeue.escaped.get_mut(tx) {
                escaped.planned_in = Some(self.blocks);
            }
        }
        self.blocks += 1;
        self.handed = order.iter().copied().filter(|tx| !self.requeue.escaped.contains_key(tx)).collect();
        let frames = if self.ordering == Order::Free { frames } else { 0 };
        let ordering = self.ordering;
        (Block { order, sets, keys, preimages, graph: None, serial_tail, ordering, frames, sources }, beneficiary)
    }

    /// Releases a chunk with the last of its transactions.
    fn forget(&mut self, tx: u32) {
        self.chunks[tx as usize / CHUNK - self.first_chunk].1 -= 1;
        while self.chunks.pop_front_if(|(_, left)| *left == 0).is_some() {
            self.first_chunk += 1;
        }
    }

    /// Predicts the escaped transactions of a block by simulation, on the state and in the environment that they run
    /// in.
    pub(super) fn predict_again(
        &mut self,
        paralyze: &mut ParaLyze,
        ctx: PlanContext<'_>,
        env: &BlockEnv,
        order: &[u32],
    ) {
        let Self { requeue, txs, limits, .. } = self;
        if !requeue.escaped.is_empty() {
            let taught = limits.max_gas / TAUGHT_SHARE;
            let predict = || requeue.predict_again(paralyze, &ctx.state, env, order, taught, |tx| &txs[tx as usize]);
            observe(ctx.observer, Stage::Analyse, || ctx.workers.install(predict));
        }
    }

    /// Takes back the last planned block, which is not executed as it is: its transactions open the next one.
    pub(super) fn unplan(&mut self, block: Block) {
        self.handed.clear();
        self.frames += block.frames;
        for tx in block.order.into_iter().rev() {
            if let Some(escaped) = self.requeue.escaped.get_mut(&tx) {
                escaped.planned_in = None;
            }
            self.requeue.waiting.push_front(tx);
        }
    }

    /// Requeues the transactions that escaped an executed block, `left` in its order: they open the next block.
    pub(super) fn requeue_escaped(&mut self, left: &LeftTransactions) {
        for tx in left.0.iter().rev() {
            self.requeue.waiting.push_front(*tx);
            self.requeue.note_escape(*tx);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each block loses some transactions, and the block planned behind it is unplanned: fewer than two blocks wait.
    #[test]
    fn what_comes_back_does_not_pile_up_and_keeps_its_order() {
        let txs = vec![TxEnv { gas_limit: 21_000, ..Default::default() }; 1000];
        for limits in
            [BlockLimits { max_txs: 10, max_gas: u64::MAX }, BlockLimits { max_txs: 500, max_gas: 10 * 21_000 + 7 }]
        {
            let mut assembly = Assembly::new(&txs, Order::Given, limits, Salt::new(1));
            let mut formed = (0..1000u32).step_by(10).map(|first| ((first..first + 10).collect::<Vec<_>>(), 1));
            let mut formed_frames = 0;
            let mut plan = |assembly: &mut Assembly<'_>| {
                let formed = if assembly.is_full() { None } else { formed.next() };
                formed_frames += formed.as_ref().map_or(0, |(_, frames)| *frames);
                let (order, of) = assembly.cut(formed).expect("a block");
                assert_eq!(order.len(), 10, "blocks are full");
                assert!(order.is_sorted() && assembly.requeue.waiting.iter().is_sorted());
                assert!(assembly.requeue.waiting.len() < 20, "{} wait", assembly.requeue.waiting.len());
                Block { frames: of, ..Block::unpredicted(order) }
            };
            let mut block = plan(&mut assembly);
            let mut run_frames = 0;
            for _ in 0..90 {
                let behind = plan(&mut assembly);
                run_frames += block.frames;
                assembly.unplan(behind);
                assembly.requeue_escaped(&LeftTransactions(block.order.split_off(7)));
                block = plan(&mut assembly);
            }
            assert_eq!(run_frames + block.frames + assembly.frames, formed_frames, "every frame is counted once");
        }
    }
}
