//! Builds blocks, honest and equivocating ones.

use super::state::{Node, Todo};
use crate::{
    bft::{Block, Due, Filled, Msg, Named as _, Out},
    machine::{Machine, Sent, Workshop as _},
    pool::BatchName,
    setup::{Behaviour, Load},
    shared::{Event, Local, Shared},
    wire::Wire,
};
use alloy_primitives::{Address, B256, Bytes};
use phalanx_engine_api::{BlockEnv, BlockId, Payload};
use phalanx_pipeline::ConsensusEvent;
use std::{collections::BTreeSet, sync::Arc};

impl<M: Machine> Node<M> {
    /// Schedules the next block, due `interval` after its parent.
    pub(super) fn schedule(&self, due: Due, shared: &mut Shared) {
        let parent = self.known.get(&BlockId(due.place.parent)).map(|block| block.content.env.timestamp_ms * 1000);
        let parent = parent
            .or_else(|| self.history.get(&(due.place.height - 1)).map(|(b, _)| b.content.env.timestamp_ms * 1000));
        let at = parent.map_or(0, |made| made + shared.setup.interval_us);
        let (node, epoch) = (self.index, self.epoch);
        let wait = at.saturating_sub(shared.now());
        shared.queue.after(wait, Event::Local { node, epoch, local: Box::new(Local::Build(due)) });
    }

    /// Builds the block, unless the replica is past its view.
    pub(super) fn build(&mut self, due: &Due, out: &mut Vec<Out>, shared: &mut Shared) {
        if self.replica.as_ref().is_none_or(|replica| due.place.view < replica.view()) {
            return;
        }
        let (env, payload) = match &due.again {
            Some(block) => (block.content.env, block.content.payload.clone()),
            None => {
                let env = BlockEnv {
                    height: due.place.height,
                    timestamp_ms: shared.now() / 1000,
                    beneficiary: Address::with_last_byte(self.index as u8),
                    gas_limit: u64::MAX,
                    ..BlockEnv::default()
                };
                (env, Arc::new(Payload::new(self.transactions(due, shared))))
            }
        };
        let make = |env| Arc::new(Block::new(due.place, Filled { env, payload: payload.clone() }));
        match shared.setup.behaviour(self.index) {
            Behaviour::Equivocate(variants) => self.equivocate(variants, env, make, shared),
            Behaviour::Traitor => self.equivocate(2, env, make, shared),
            Behaviour::Honest | Behaviour::Withhold(_) | Behaviour::Silent | Behaviour::Diverge(_) => {
                if let Some(replica) = &mut self.replica {
                    replica.propose(make(env), out);
                }
            }
        }
    }

    /// Sends different blocks to different validators; the first one to itself.
    fn equivocate(&self, variants: u32, env: BlockEnv, make: impl Fn(BlockEnv) -> Arc<Block>, shared: &mut Shared) {
        let variant = |number: u32| BlockEnv { prevrandao: B256::with_last_byte(number as u8), ..env };
        let blocks: Vec<_> =
            (0..variants.max(1)).map(|number| Arc::new(Wire::Bft(Msg::Proposal(make(variant(number)))))).collect();
        for to in 0..shared.setup.bft.n {
            if let Some(block) = blocks.get((to % variants.max(1)) as usize) {
                shared.send(self.index, to, block);
            }
        }
    }

    fn transactions(&mut self, due: &Due, shared: &Shared) -> Vec<Bytes> {
        if self.hold {
            return Vec::new();
        }
        match shared.setup.load {
            Load::Invented(count) => {
                let (author, life) = (self.index, self.epoch);
                self.sent(&Sent::Invented {
                    author,
                    view: due.place.view,
                    parent: BlockId(due.place.parent),
                    life,
                    count,
                })
            }
            Load::Instant(weight) => self.sent(&Sent::Instant { view: due.place.view, weight }),
            Load::Batches { block_txs, .. } => self.pool.take(&self.taken(BlockId(due.place.parent)), block_txs),
        }
    }

    /// Transactions that clients send; none without an engine.
    pub(super) fn sent(&mut self, sent: &Sent) -> Vec<Bytes> {
        let engine = self.workshop.as_ref().map(M::Workshop::engine);
        engine.map_or_else(Vec::new, |engine| self.machine.transactions(engine, sent))
    }

    /// Names of the batches that contain the transactions.
    pub(super) fn batches(&self, txs: &[Bytes]) -> BTreeSet<BatchName> {
        txs.iter().filter_map(|tx| self.machine.batch_of(tx)).map(|batch| batch.name()).collect()
    }

    /// True if all batches of these transactions are present.
    pub(super) fn is_whole(&self, txs: &[Bytes]) -> bool {
        txs.iter().all(|tx| self.machine.batch_of(tx).is_some_and(|batch| self.pool.has(&batch)))
    }

    /// Batches in the uncommitted ancestors.
    fn taken(&self, parent: BlockId) -> BTreeSet<BatchName> {
        let mut taken = BTreeSet::new();
        let mut at = parent;
        while let Some(block) = self.known.get(&at) {
            taken.extend(self.batches(block.content.payload.txs()));
            at = block.meta().parent;
        }
        taken
    }

    /// Completes the blocks whose batches have all arrived.
    pub(super) fn complete(&mut self) {
        let waiting = core::mem::take(&mut self.incomplete);
        let (whole, rest): (Vec<_>, Vec<_>) =
            waiting.into_iter().partition(|block| self.is_whole(block.content.payload.txs()));
        self.incomplete = rest;
        for block in whole {
            self.todo.push_back(Todo::Consensus(ConsensusEvent::Payload(block.content.payload.clone())));
        }
    }
}
