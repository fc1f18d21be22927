//! A block from its transactions: their keys become ids, and their conflicts a graph. What left earlier blocks comes first.

use super::{Again, Block, Chunk, stock::CHUNK};
use crate::{
    LeftTransactions, Order, Stage,
    engine::Ground,
    graph::{Ahead, GraphBuilder},
    intern::{Interned, Interning},
    lent::Home,
    observer::observe,
};
use phalanx_access::{AccessSets, KeyId, Salt};
use phalanx_paraframer::BlockLimits;
use phalanx_paralyze::{Batch, PIECE, ParaLyze, Preimages, StateKey};
use rayon::prelude::*;
use revm::{
    context::{BlockEnv, TxEnv},
    primitives::{
        Address,
        map::{AddressSet, HashMap},
    },
};
use std::collections::VecDeque;

/// A transaction that left this many blocks, by its own escape or by that of one it depends on, runs alone, after the
/// others of its block and without a prediction. It bounds how often anybody can make others wait.
const MAX_DEPARTURES: u8 = 2;

/// What blocks are made with, and what is known of those that are not done.
#[derive(Debug)]
pub(super) struct Assembly<'t> {
    txs: &'t [TxEnv],
    ordering: Order,
    limits: BlockLimits,
    interning: Interning,
    /// Framed chunks by index of their first transaction / [`CHUNK`], and how many of their members are in no block yet: a
    /// chunk goes with the last.
    chunks: VecDeque<(Chunk, usize)>,
    first_chunk: usize,
    /// Chunks that have gone.
    pub(super) spare: Vec<Chunk>,
    /// Of the last block, those that the chunks predict: they are let go of when the next block is planned.
    handed: Vec<u32>,
    /// Ahead of all formed blocks, in order: transactions that left earlier blocks, and those of a block that was put back.
    returned: VecDeque<u32>,
    /// Frames of the blocks that were put back.
    frames: usize,
    /// Transactions that have left a block, until it is known that they stayed in another.
    again: HashMap<u32, Again>,
    /// How many of the rejected have been let go of.
    forgotten: usize,
    /// Blocks planned so far.
    blocks: u64,
    /// Memory of earlier blocks.
    sets: Home<AccessSets<KeyId>>,
    keys: Home<Vec<StateKey>>,
    preimages: Home<Preimages<KeyId>>,
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
            spare: Vec::new(),
            handed: Vec::new(),
            returned: VecDeque::new(),
            frames: 0,
            again: HashMap::default(),
            forgotten: 0,
            blocks: 0,
            sets: Home::default(),
            keys: Home::default(),
            preimages: Home::default(),
            graphs: GraphBuilder::default(),
        }
    }

    /// Lets go of the transactions of the last block, of which it is known by now what became of them.
    pub(super) fn let_go(&mut self) {
        for tx in core::mem::take(&mut self.handed) {
            self.forget(tx);
        }
        // Planning is one block ahead of execution at most, so the blocks before the last one are done.
        self.again.retain(|_, again| again.block.is_none_or(|block| block + 1 >= self.blocks));
    }

    /// Takes over what was framed.
    pub(super) fn take_over(&mut self, chunks: Vec<Chunk>, rejected: &[u32]) {
        for chunk in chunks {
            let txs = chunk.iter().map(Batch::len).sum();
            self.chunks.push_back((chunk, txs));
        }
        while let Some(tx) = rejected.get(self.forgotten) {
            self.forgotten += 1;
            self.forget(*tx);
        }
    }

    /// Whether what came back fills a block.
    pub(super) fn is_full(&self) -> bool {
        self.fitting() < self.returned.len() || self.returned.len() >= self.limits.max_txs.max(1)
    }

    /// How many of those that came back go into one block.
    fn fitting(&self) -> usize {
        let mut gas = 0u64;
        let fits = |tx: &&u32| {
            gas = gas.saturating_add(self.txs[**tx as usize].gas_limit);
            gas <= self.limits.max_gas
        };
        self.returned.iter().take(self.limits.max_txs.max(1)).take_while(fits).count()
    }

    /// The next block's order: what came back, then `formed`, as far as the limits go.
    pub(super) fn cut(&mut self, formed: Option<(Vec<u32>, usize)>) -> Option<(Vec<u32>, usize)> {
        let (mut order, frames) = formed.unwrap_or_default();
        let frames = frames + core::mem::take(&mut self.frames);
        if !self.returned.is_empty() {
            self.returned.extend(order.drain(..));
            order.extend(self.returned.drain(..self.fitting()));
        }
        (!order.is_empty()).then_some((order, frames))
    }

    /// The block of these transactions, in the environment that it will have.
    pub(super) fn assemble(&mut self, ground: Ground<'_>, env: &BlockEnv, order: Vec<u32>, frames: usize) -> Block {
        let intern = || self.intern(ground, order, frames, env.beneficiary);
        let (mut block, beneficiary) = observe(ground.observer, Stage::Intern, intern);
        if ground.has_graphs && block.alone < block.order.len() {
            let build = || self.graphs.build(&block.sets, block.keys.len(), beneficiary);
            block.graph = Some(Ahead::new(observe(ground.observer, Stage::Graph, build), env.beneficiary));
        }
        block
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
    pub(super) fn predict_again(&mut self, paralyze: &mut ParaLyze, ground: Ground<'_>, env: &BlockEnv, order: &[u32]) {
        if self.again.is_empty() {
            return;
        }
        let mut returned: Vec<(u32, Again)> =
            order.iter().filter_map(|tx| Some((*tx, self.again.remove(tx)?))).collect();
        let (txs, state) = (self.txs, ground.state);
        let work = || {
            let simulating = &*paralyze;
            returned.par_iter_mut().for_each(|(tx, again)| {
                again.batch.clear();
                simulating.simulate(state, env, &txs[*tx as usize], &mut again.batch);
            });
            // Some left because a template was wrong.
            let escaped = returned.iter().filter(|(_, again)| again.departures == 1);
            let truth: Vec<_> = escaped.map(|(tx, again)| (&txs[*tx as usize], again.batch.sets().get(0))).collect();
            paralyze.learn(state, env, &truth);
        };
        observe(ground.observer, Stage::Analyse, || ground.workers.install(work));
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
    pub(super) fn put_back(&mut self, block: Block) {
        self.handed.clear();
        self.frames += block.frames;
        for tx in block.order.into_iter().rev() {
            if let Some(again) = self.again.get_mut(&tx) {
                again.block = None;
            }
            self.returned.push_front(tx);
        }
    }

    /// Takes back the transactions that left an executed block, `left` in its order: they open the next block.
    pub(super) fn take_back(&mut self, left: &LeftTransactions) {
        for tx in left.0.iter().rev() {
            self.returned.push_front(*tx);
            let again = self.again.entry(*tx).or_default();
            again.departures += 1;
            again.block = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each block loses some, and the one that was planned behind it is put back: fewer than two blocks wait.
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
                assert!(order.is_sorted() && assembly.returned.iter().is_sorted());
                assert!(assembly.returned.len() < 20, "{} wait", assembly.returned.len());
                Block { frames: of, ..Block::unpredicted(order) }
            };
            let mut block = plan(&mut assembly);
            let mut run_frames = 0;
            for _ in 0..90 {
                let behind = plan(&mut assembly);
                run_frames += block.frames;
                assembly.put_back(behind);
                assembly.take_back(&LeftTransactions(block.order.split_off(7)));
                block = plan(&mut assembly);
            }
            assert_eq!(run_frames + block.frames + assembly.frames, formed_frames, "every frame is counted once");
        }
    }
}
