//! Real blocks, on every executor, with good, bad and no hints.

use crate::kit::builder;
use alloy_consensus::Header;
use phalanx::{
    Engine, Executor, GenesisAccount, Hints, Outcome, RecoveredBlock,
    access::{Access, AccessSets},
    paralyze::StateKey,
    revm::primitives::{Address, B256, U256, keccak256},
};
use phalanx_workloads::fixtures::{RealBlock, find_blocks};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use std::{collections::BTreeMap, path::PathBuf};

/// Recorded blocks; only the committed ones without the shared folder.
pub(crate) fn blocks() -> Vec<RealBlock> {
    let root = std::env::var_os("PHALANX_FIXTURES").map_or_else(|| PathBuf::from("../../shared"), PathBuf::from);
    let required = std::env::var_os("PHALANX_REQUIRE_FIXTURES").is_some();
    let folder = root.join("blocks");
    let folder = if folder.is_dir() {
        folder
    } else {
        assert!(!required, "{} is required and missing", folder.display());
        println!("skipped: all recorded blocks but the committed ones, {} is missing", folder.display());
        PathBuf::from("../cli/tests/fixtures/blocks")
    };
    let found = find_blocks(&folder).expect("recorded blocks");
    found.iter().map(|dir| RealBlock::read(dir).expect("a recorded block")).collect()
}

/// The share of the recorded blocks that a run executes in every way: each eighth, or each that `PHALANX_STRIDE` says; all where they are
/// few.
pub(crate) fn share() -> impl Iterator<Item = RealBlock> {
    let blocks = blocks();
    let few = if blocks.len() < 8 { 1 } else { 8 };
    let stride = std::env::var("PHALANX_STRIDE").map_or(few, |stride| stride.parse().expect("a count of blocks"));
    println!("each of {stride} of {} blocks", blocks.len());
    blocks.into_iter().step_by(stride)
}

/// Result of a block.
#[derive(Debug, PartialEq)]
pub(crate) struct Result {
    outcomes: Vec<Outcome>,
    gas_used: u64,
    receipts_root: Option<B256>,
    state: BTreeMap<Address, GenesisAccount>,
    root: B256,
}

pub(crate) struct Replay<'b> {
    block: &'b RealBlock,
    ommers: Vec<Header>,
    access_lists: bool,
}

impl<'b> Replay<'b> {
    pub(crate) fn new(block: &'b RealBlock) -> Self {
        // Of ommers only the number is recorded: they have no reward, and neither has the beneficiary.
        let unknown = Header { beneficiary: block.header.beneficiary, ..Header::default() };
        Self { block, ommers: vec![unknown; block.uncles], access_lists: false }
    }

    /// Uses engines that produce access lists.
    pub(crate) fn with_access_lists(self) -> Self {
        Self { access_lists: true, ..self }
    }

    pub(crate) fn payload(&self) -> RecoveredBlock<'_> {
        let RealBlock { header, txs, withdrawals, .. } = self.block;
        RecoveredBlock { header, txs, ommers: &self.ommers, withdrawals: withdrawals.as_deref() }
    }

    pub(crate) fn engine(&self, executor: Executor, threads: usize, seed: Option<u64>) -> Engine {
        let mut engine = builder()
            .with_executor(executor)
            .with_threads(threads)
            .with_schedule_seed(seed)
            .with_access_lists(self.access_lists)
            .build()
            .expect("an engine");
        let genesis = self.block.prestate.iter().map(|(address, account)| GenesisAccount {
            address: *address,
            balance: account.balance,
            nonce: account.nonce,
            code: (!account.code.is_empty()).then(|| account.code.clone()),
            storage: account.storage.iter().map(|(slot, value)| (*slot, *value)).collect(),
        });
        engine.genesis(genesis).expect("a sound state");
        engine.set_ancestors(self.block.block_hashes.clone());
        engine
    }

    pub(crate) fn run(&self, engine: &mut Engine, hints: Hints<'_>) -> Result {
        let executed = engine.execute_block(&self.payload(), hints).expect("a valid block");
        let merkleized = engine.merkleize(executed).expect("a root");
        let committed = engine.commit(merkleized).expect("a commit");
        let (gas_used, receipts_root) = (committed.block.gas_used(), committed.block.receipts_root());
        let (_, outcomes) = committed.block.into_outcomes();
        let state = engine.state().dump().expect("a sound state");
        Result { outcomes, gas_used, receipts_root, state, root: committed.state_root }
    }

    fn hints(&self) -> AccessSets<StateKey> {
        self.engine(Executor::Sequential, 1, None).true_sets(&self.payload()).expect("a valid block")
    }
}

/// Drops each key with probability `wrong`, and adds as many from elsewhere in the block.
fn spoiled(hints: &AccessSets<StateKey>, wrong: f64, seed: u64) -> AccessSets<StateKey> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let all = hints.entries();
    let mut sets = AccessSets::new();
    for hint in hints.iter() {
        let mut set = Vec::new();
        for (key, access) in hint {
            if rng.random_bool(wrong) {
                let (foreign, _) = all[rng.random_range(0..all.len())];
                let access = [Access::Read, Access::Credit, Access::Write][rng.random_range(0..3)];
                set.push((foreign, access));
            } else {
                set.push((*key, *access));
            }
        }
        sets.push(set);
    }
    sets
}

fn digest(block: &RealBlock, after: &BTreeMap<Address, GenesisAccount>) -> B256 {
    use sha2::Digest as _;
    let clears = block.header.number >= 2_675_000;
    let empty = |nonce: u64, balance: U256, code: bool| clears && nonce == 0 && balance.is_zero() && !code;
    let mut addresses: Vec<Address> = block.prestate.keys().chain(after.keys()).copied().collect();
    addresses.sort_unstable();
    addresses.dedup();
    let mut hasher = sha2::Sha256::new();
    for address in addresses {
        let before = block.prestate.get(&address).filter(|a| !empty(a.nonce, a.balance, !a.code.is_empty()));
        let now = after.get(&address).filter(|a| !empty(a.nonce, a.balance, a.code.is_some()));
        let old_head = before.map(|a| (a.nonce, a.balance, keccak256(&a.code)));
        let new_head = now.map(|a| (a.nonce, a.balance, keccak256(a.code.clone().unwrap_or_default())));
        let mut slots: BTreeMap<U256, (U256, U256)> = BTreeMap::new();
        for (slot, value) in before.iter().flat_map(|a| &a.storage) {
            slots.entry(*slot).or_default().0 = *value;
        }
        for (slot, value) in now.iter().flat_map(|a| &a.storage) {
            slots.entry(*slot).or_default().1 = *value;
        }
        slots.retain(|_, (old, new)| old != new);
        if old_head == new_head && slots.is_empty() {
            continue;
        }
        hasher.update(address);
        let Some((nonce, balance, code)) = new_head else {
            hasher.update([0; 1 + 8 + 32 + 32 + 4]);
            continue;
        };
        hasher.update([1]);
        hasher.update(nonce.to_be_bytes());
        hasher.update(balance.to_be_bytes::<32>());
        hasher.update(code);
        hasher.update((slots.len() as u32).to_be_bytes());
        for (slot, (_, value)) in slots {
            hasher.update(slot.to_be_bytes::<32>());
            hasher.update(value.to_be_bytes::<32>());
        }
    }
    B256::from_slice(&hasher.finalize())
}

#[test]
fn real_blocks_end_as_recorded_and_every_executor_agrees() {
    for block in share() {
        let number = block.header.number;
        let replay = Replay::new(&block);
        let truth = replay.run(&mut replay.engine(Executor::Sequential, 1, None), Hints::None);
        let index = block.index.as_ref();
        if let Some(gas) = index.and_then(|index| index.gas_used) {
            assert_eq!(truth.gas_used, gas, "{number}");
        }
        if let (Some(root), Some(ours)) = (index.and_then(|i| i.computed_receipts_root), truth.receipts_root) {
            assert_eq!(ours, root, "{number}");
        }
        if let Some(expected) = index.and_then(|index| index.post_state_digest) {
            assert_eq!(digest(&block, &truth.state), expected, "{number}");
        }
        let perfect = replay.hints();
        let [hardly, wholly] = [0.1, 1.0].map(|wrong| spoiled(&perfect, wrong, number));
        for threads in [1, 2, 4] {
            for seed in [None, Some(number)] {
                let check = |executor, hints, name: &str| {
                    let mut engine = replay.engine(executor, threads, seed);
                    let ours = replay.run(&mut engine, hints);
                    assert!(ours == truth, "{number}: {executor:?}, {name}, {threads} threads, seed {seed:?}");
                };
                check(Executor::BlockStm, Hints::None, "no hints");
                check(Executor::Dag, Hints::Sets(&perfect), "perfect hints");
                check(Executor::Dag, Hints::Predict, "predictions");
                check(Executor::Dag, Hints::Sets(&hardly), "hints with a tenth wrong");
                check(Executor::Dag, Hints::Sets(&wholly), "wrong hints");
            }
        }
    }
}
