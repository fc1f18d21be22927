//! From slots to blocks: names, environments and executions that follow from the order alone.
//!
//! A block's name covers the content of its slot and its parent's name, and no view: a batch that is proposed again keeps its
//! block and its execution.

use crate::change::SignedChange;
use alloy_primitives::{Address, B256, Bytes, keccak256};
use phalanx_adapter::DecidedBlock;
use phalanx_bft::{Batch, NULL, Slot, View};
use phalanx_engine_api::{BlockEnv, BlockId, BlockResult, ExecId, Payload, TxPolicy};
use phalanx_pipeline::BlockMeta;
use std::{collections::BTreeMap, sync::Arc};

/// Rules by which batches become blocks, equal at all replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRules {
    /// Chain id.
    pub chain: u64,
    /// Gas that a block may use.
    pub gas_limit: u64,
    /// Wei per gas that is burnt.
    pub base_fee: u64,
    /// Time of the genesis, in milliseconds since 1970.
    pub timestamp_ms: u64,
}

impl BlockRules {
    /// The genesis.
    pub(crate) fn genesis(&self) -> Tip {
        Tip { timestamp_ms: self.timestamp_ms, ..Tip::default() }
    }
}

/// The block of a slot.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub(crate) meta: BlockMeta,
    pub(crate) env: BlockEnv,
    pub(crate) batch: Option<Batch>,
    pub(crate) payload: Arc<Payload>,
    pub(crate) exec: ExecId,
    /// View of the own durable order vote, for this content.
    pub(crate) order_voted: Option<View>,
    /// Own result of the block, encoded, once it is in the log.
    pub(crate) outcome: Option<Bytes>,
}

impl Block {
    pub(crate) const fn tip(&self) -> Tip {
        let (slot, timestamp_ms) = (self.meta.height, self.env.timestamp_ms);
        Tip { slot, id: self.meta.id, exec: self.exec, timestamp_ms }
    }

    /// Returns true if the block holds what claims to be a change of members.
    pub(crate) fn claims_change(&self) -> bool {
        self.batch.iter().flat_map(Batch::transactions).any(|value| SignedChange::is_claimed(value))
    }

    pub(crate) fn decided(&self) -> DecidedBlock {
        let (meta, env, payload) = (self.meta, self.env, Arc::clone(&self.payload));
        DecidedBlock { meta, env, payload, proof: Bytes::new(), certificate: None }
    }
}

/// The block that a chain continues: the genesis, or the last one that was pruned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tip {
    /// Slot of the block.
    pub slot: Slot,
    /// Name of the block.
    pub id: BlockId,
    /// Execution of the block.
    pub exec: ExecId,
    /// Time of the block, in milliseconds since 1970.
    pub timestamp_ms: u64,
}

/// A committed block that a host still has.
#[derive(Clone, Debug)]
pub struct Retained {
    /// Place of the block.
    pub meta: BlockMeta,
    /// Environment of the block.
    pub env: BlockEnv,
    /// Transactions of the block.
    pub payload: Arc<Payload>,
    /// Result of the block; its digest is the one that replicas vote on.
    pub result: BlockResult,
}

/// Blocks from the oldest retained one to the last proposed one.
#[derive(Debug)]
pub(crate) struct Chain {
    rules: BlockRules,
    /// Parent of the oldest block, and the own result of it, encoded, if the log has it.
    base: Tip,
    base_outcome: Option<Bytes>,
    blocks: BTreeMap<Slot, Block>,
    /// Contents proposed beyond a gap.
    loose: BTreeMap<Slot, Option<Batch>>,
    /// Views of own order votes for undecided slots, some of which have no block yet.
    order_votes: BTreeMap<Slot, View>,
    /// Blocks up to this slot are decided.
    decided: Slot,
}

impl Chain {
    /// A chain that continues `base`.
    pub(crate) const fn new(rules: BlockRules, base: Tip) -> Self {
        let decided = base.slot;
        Self {
            rules,
            base,
            base_outcome: None,
            blocks: BTreeMap::new(),
            loose: BTreeMap::new(),
            order_votes: BTreeMap::new(),
            decided,
        }
    }

    /// Parent of the oldest block.
    pub(crate) const fn base(&self) -> Tip {
        self.base
    }

    /// Takes a result from the log, if it is that of a block here.
    pub(crate) fn set_outcome(&mut self, slot: Slot, outcome: Bytes) {
        let exec = decode_outcome(&outcome).map(|(exec, _)| exec);
        if slot == self.base.slot && exec == Some(self.base.exec) {
            self.base_outcome = Some(outcome);
        } else if let Some(block) = self.blocks.get_mut(&slot).filter(|block| exec == Some(block.exec)) {
            block.outcome = Some(outcome);
        }
    }

    /// The own result of a block, or of the one below the oldest.
    pub(crate) fn outcome(&self, slot: Slot) -> Option<&Bytes> {
        match slot == self.base.slot {
            true => self.base_outcome.as_ref(),
            false => self.blocks.get(&slot)?.outcome.as_ref(),
        }
    }

    /// The execution of a block, or of the one below the oldest.
    pub(crate) fn execution(&self, slot: Slot) -> Option<ExecId> {
        match slot == self.base.slot {
            true => Some(self.base.exec),
            false => self.blocks.get(&slot).map(|block| block.exec),
        }
    }

    /// Blocks up to this slot are decided.
    pub(crate) const fn decided(&self) -> Slot {
        self.decided
    }

    pub(crate) fn block(&self, slot: Slot) -> Option<&Block> {
        self.blocks.get(&slot)
    }

    pub(crate) fn block_mut(&mut self, slot: Slot) -> Option<&mut Block> {
        self.blocks.get_mut(&slot)
    }

    /// Notes a proposal. Returns the slots whose block is new.
    pub(crate) fn propose(&mut self, slot: Slot, batch: Option<Batch>) -> Vec<Slot> {
        if slot <= self.decided || self.blocks.get(&slot).is_some_and(|block| block.batch == batch) {
            return Vec::new();
        }
        // Blocks above name this one: their contents wait until it has its place.
        for (above, block) in self.blocks.split_off(&slot).into_iter().skip_while(|(at, _)| *at == slot) {
            self.loose.entry(above).or_insert(block.batch);
        }
        // An order vote belongs to the content that it was cast for.
        if self.loose.get(&slot) != Some(&batch) {
            self.order_votes.remove(&slot);
        }
        self.loose.insert(slot, batch);
        self.link()
    }

    /// Notes a decision, of any slot. Returns the slots whose block is new, and moves the decided prefix.
    pub(crate) fn decide(&mut self, slot: Slot, batch: Option<Batch>) -> Vec<Slot> {
        let new = self.propose(slot, batch);
        if slot == self.decided + 1 && self.blocks.contains_key(&slot) {
            self.decided = slot;
            self.order_votes.remove(&slot);
        }
        new
    }

    /// Notes an own order vote. A decision is the stronger promise.
    pub(crate) fn note_order_vote(&mut self, slot: Slot, view: View) {
        if slot > self.decided {
            self.order_votes.insert(slot, view);
        }
    }

    /// Drops the order votes above the last slot of an epoch.
    pub(crate) fn void_order_votes(&mut self, last: Slot) {
        self.order_votes.retain(|slot, _| *slot <= last);
    }

    /// Gives blocks their order votes, from the first undecided slot to `last`, as far as one view reaches: with slots in parallel, the
    /// order vote of a slot alone promises nothing of the one before it. Returns the blocks with a new one.
    pub(crate) fn take_order_votes(&mut self, last: Slot) -> Vec<BlockMeta> {
        let (mut common, mut new) = (None, Vec::new());
        for slot in self.decided + 1..=last {
            let view = self.order_votes.get(&slot).copied().filter(|view| *common.get_or_insert(*view) == *view);
            let (Some(view), Some(block)) = (view, self.blocks.get_mut(&slot)) else { break };
            if block.order_voted.replace(view) != Some(view) {
                new.push(block.meta);
            }
        }
        new
    }

    /// Gives loose contents their place behind the last block.
    fn link(&mut self) -> Vec<Slot> {
        let mut new = Vec::new();
        loop {
            let tip = self.blocks.last_key_value().map_or(self.base, |(_, block)| block.tip());
            let slot = tip.slot + 1;
            let Some(batch) = self.loose.remove(&slot) else { return new };
            self.blocks.insert(slot, make(&self.rules, slot, tip, batch));
            new.push(slot);
        }
    }

    /// The execution that these contents behind the decided prefix lead to.
    pub(crate) fn execution_after(&self, contents: &[Option<Batch>]) -> ExecId {
        let mut tip = self.blocks.get(&self.decided).map_or(self.base, Block::tip);
        for batch in contents {
            tip = make(&self.rules, tip.slot + 1, tip, batch.clone()).tip();
        }
        tip.exec
    }

    /// The slot from which on the blocks up to `slot` have no more than `most` bytes; `slot` itself passes at any length.
    pub(crate) fn heavy_below(&self, slot: Slot, most: usize) -> Slot {
        let mut bytes = 0;
        let lengths =
            self.blocks.range(..=slot).rev().map(|(at, block)| (*at, block.batch.as_ref().map_or(1, Batch::bytes)));
        let fits = lengths.take_while(|(at, length)| {
            bytes += length;
            bytes <= most || *at == slot
        });
        fits.last().map_or(slot, |(at, _)| at)
    }

    /// Drops decided blocks below a slot.
    pub(crate) fn prune(&mut self, below: Slot) {
        while let Some((slot, block)) = self.blocks.first_key_value()
            && *slot < below.min(self.decided)
        {
            (self.base, self.base_outcome) = (block.tip(), block.outcome.clone());
            self.blocks.pop_first();
        }
    }

    /// Slots and blocks from a slot on.
    pub(crate) fn from(&self, slot: Slot) -> impl Iterator<Item = (&Slot, &Block)> {
        self.blocks.range(slot..)
    }
}

/// Name of the block with this content on this parent.
pub(crate) fn name(slot: Slot, content: B256, parent: BlockId) -> BlockId {
    let mut bytes = b"phalanx-block-1".to_vec();
    bytes.extend_from_slice(&slot.to_be_bytes());
    bytes.extend_from_slice(content.as_slice());
    bytes.extend_from_slice(parent.0.as_slice());
    BlockId(keccak256(&bytes))
}

fn make(rules: &BlockRules, slot: Slot, parent: Tip, batch: Option<Batch>) -> Block {
    let id = name(slot, batch.as_ref().map_or(NULL, Batch::digest), parent.id);
    let timestamp_ms = batch.as_ref().map_or(0, Batch::timestamp_ms).max(parent.timestamp_ms);
    let beneficiary = batch.as_ref().map_or(Address::ZERO, Batch::beneficiary);
    let prevrandao = parent.exec.randomness(slot, timestamp_ms, beneficiary);
    let BlockRules { gas_limit, base_fee, .. } = *rules;
    let env = BlockEnv { height: slot, timestamp_ms, prevrandao, beneficiary, gas_limit, base_fee };
    // With a change of members, which an engine skips as no transaction: the execution binds all content.
    let payload = Arc::new(Payload::new(batch.iter().flat_map(Batch::transactions).cloned().collect()));
    let exec = ExecId::derive(rules.chain, parent.exec, &env, TxPolicy::SkipInvalid, payload.digest());
    let meta = BlockMeta { id, parent: parent.id, height: slot };
    Block { meta, env, batch, payload, exec, order_voted: None, outcome: None }
}

/// Result of a block as bytes, from which its digest can be checked.
pub(crate) fn encode_result(result: &BlockResult) -> Bytes {
    let BlockResult { execution, state_root, receipts_root, transactions_root, gas_used } = *result;
    let hashes = [execution, state_root, receipts_root, transactions_root];
    Bytes::from([hashes.as_flattened(), &gas_used.to_be_bytes()].concat())
}

/// Result of a block in the encoding of [`encode_result`].
pub(crate) fn decode_result(bytes: &[u8]) -> Option<BlockResult> {
    let (hashes, gas) = bytes.split_first_chunk::<128>()?;
    let hash = |at: usize| B256::from_slice(&hashes[at * 32..at * 32 + 32]).0;
    let (execution, state_root, receipts_root, transactions_root) = (hash(0), hash(1), hash(2), hash(3));
    let gas_used = u64::from_be_bytes(gas.try_into().ok()?);
    Some(BlockResult { execution, state_root, receipts_root, transactions_root, gas_used })
}

/// Execution and digest of an outcome in the encoding of [`encode_result`].
pub(crate) fn decode_outcome(bytes: &[u8]) -> Option<(ExecId, B256)> {
    let result = decode_result(bytes)?;
    Some((ExecId(B256::new(result.execution)), B256::new(result.digest())))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A peer that sends decided blocks can neither add a change of members nor leave one out: another execution follows.
    #[test]
    fn the_execution_binds_changes_and_transactions() {
        let rules = BlockRules { chain: 1, gas_limit: 1, base_fee: 0, timestamp_ms: 0 };
        let exec = |values: &[&'static [u8]]| {
            let values = values.iter().map(|value| Bytes::from_static(value)).collect();
            make(&rules, 1, rules.genesis(), Some(Batch::new(0, Address::ZERO, values))).exec
        };
        let all: [&[&[u8]]; 4] = [&[], &[b"tx"], &[b"tx", b"phalanx-change-1"], &[b"tx", b"phalanx-change-1x"]];
        let execs: std::collections::BTreeSet<_> = all.iter().map(|values| exec(values).0).collect();
        assert_eq!(execs.len(), all.len());
    }

    #[test]
    fn an_order_vote_counts_for_its_content_and_until_the_decision() {
        let rules = BlockRules { chain: 1, gas_limit: 1, base_fee: 0, timestamp_ms: 0 };
        let mut chain = Chain::new(rules, rules.genesis());
        let batch = Batch::new(0, Address::ZERO, vec![Bytes::from_static(b"tx")]);
        let slots = |new: Vec<BlockMeta>| new.iter().map(|meta| meta.height).collect::<Vec<_>>();
        (1..=4).for_each(|slot| drop(chain.propose(slot, None)));
        chain.note_order_vote(2, 5);
        assert!(chain.take_order_votes(Slot::MAX).is_empty(), "slot 1 has none");
        [(1, 5), (3, 6), (4, 6)].into_iter().for_each(|(slot, view)| chain.note_order_vote(slot, view));
        assert_eq!(slots(chain.take_order_votes(Slot::MAX)), [1, 2], "one view");
        assert!(chain.take_order_votes(Slot::MAX).is_empty(), "once");
        chain.decide(1, None);
        chain.decide(2, None);
        assert_eq!(slots(chain.take_order_votes(3)), [3], "up to the last slot");
        chain.propose(4, None);
        assert_eq!(slots(chain.take_order_votes(Slot::MAX)), [4], "for this content");
        chain.decide(4, Some(batch));
        assert!(chain.take_order_votes(Slot::MAX).is_empty(), "it was cast for another content");
        chain.note_order_vote(2, 7);
        chain.note_order_vote(5, 6);
        chain.void_order_votes(4);
        assert_eq!(
            chain.order_votes.into_keys().collect::<Vec<_>>(),
            [3],
            "decided, of another content, above the epoch"
        );
    }

    /// Memory is bounded in bytes, and the checkpoint's own block stays at any length.
    #[test]
    fn the_newest_blocks_of_a_length_are_kept() {
        let rules = BlockRules { chain: 1, gas_limit: 1, base_fee: 0, timestamp_ms: 0 };
        let mut chain = Chain::new(rules, rules.genesis());
        let batch = Batch::new(0, Address::ZERO, vec![Bytes::from(vec![7; 100])]);
        let length = batch.bytes();
        (1..=5).for_each(|slot| drop(chain.decide(slot, (slot != 3).then(|| batch.clone()))));
        let kept = [(0, 5), (length, 5), (2 * length, 4), (2 * length + 1, 3), (3 * length, 3), (3 * length + 1, 2)];
        kept.into_iter().for_each(|(most, from)| assert_eq!(chain.heavy_below(5, most), from, "{most} bytes"));
        chain.prune(chain.heavy_below(5, 0));
        assert_eq!((chain.base().slot, chain.block(5).is_some()), (4, true));
    }
}
