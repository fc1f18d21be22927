//! Making blocks, honestly or not.

use super::Node;
use crate::{
    Behaviour, Load,
    bft::{Block, Msg, Out, Slot},
    model::model_tx,
    pool::batch_of,
    wire::Wire,
    world::{Event, Local, Shared},
};
use alloy_primitives::{Address, B256, Bytes};
use phalanx_engine_api::{BlockEnv, BlockId, Payload};
use std::{collections::BTreeSet, sync::Arc};

impl Node {
    /// Waits until a block is due: `interval` after its parent.
    pub(super) fn schedule(&self, slot: Slot, shared: &mut Shared) {
        let parent = self.known.get(&slot.parent).map(|block| block.env.timestamp_ms * 1000);
        let parent = parent.or_else(|| self.history.get(&(slot.height - 1)).map(|(b, _)| b.env.timestamp_ms * 1000));
        let due = parent.map_or(0, |made| made + shared.setup.interval_us);
        let (node, epoch) = (self.index, self.epoch);
        let wait = due.saturating_sub(shared.now());
        shared.queue.after(wait, Event::Local { node, epoch, local: Box::new(Local::Build(slot)) });
    }

    /// Makes the block, if nobody has gone past it.
    pub(super) fn build(&mut self, slot: &Slot, out: &mut Vec<Out>, shared: &mut Shared) {
        if self.replica.as_ref().is_none_or(|replica| slot.view < replica.view()) {
            return;
        }
        let (env, payload) = match &slot.again {
            Some(block) => (block.env, block.payload.clone()),
            None => {
                let env = BlockEnv {
                    height: slot.height,
                    timestamp_ms: shared.now() / 1000,
                    beneficiary: Address::with_last_byte(self.index as u8),
                    gas_limit: u64::MAX,
                    ..BlockEnv::default()
                };
                (env, Arc::new(Payload::new(self.transactions(slot, shared))))
            }
        };
        let parent = (slot.parent, slot.parent_view);
        let make = |env| Arc::new(Block::new(slot.view, parent, self.index, env, payload.clone()));
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

    /// Different blocks for different validators; to itself the first.
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

    fn transactions(&self, slot: &Slot, shared: &Shared) -> Vec<Bytes> {
        if self.hold {
            return Vec::new();
        }
        match shared.setup.load {
            Load::Invented(count) => (0..count)
                .map(|number| {
                    let mut name = self.index.to_be_bytes().to_vec();
                    name.extend_from_slice(&slot.view.to_be_bytes());
                    name.extend_from_slice(slot.parent.0.as_slice());
                    name.extend_from_slice(&number.to_be_bytes());
                    name.extend_from_slice(&self.epoch.to_be_bytes());
                    model_tx(1, &name)
                })
                .collect(),
            Load::Instant(weight) => vec![model_tx(weight, &slot.view.to_be_bytes())],
            Load::Batches { block_txs, .. } => self.pool.take(&self.taken(slot.parent), block_txs),
        }
    }

    /// Batches in the uncommitted ancestors.
    fn taken(&self, parent: BlockId) -> BTreeSet<(u32, u64)> {
        let mut taken = BTreeSet::new();
        let mut at = parent;
        while let Some(block) = self.known.get(&at) {
            taken.extend(block.payload.txs().iter().filter_map(batch_of).map(|batch| (batch.author, batch.number)));
            at = block.parent;
        }
        taken
    }
}
