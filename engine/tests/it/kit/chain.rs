//! Chains in memory, planned and run by one executor, and compared with sequential revm.

use phalanx::{
    BlockLimits, Engine, EngineBuilder, Executor, GenesisAccount, Order, Outcome, Traces, Tuning,
    revm::{
        context::{BlockEnv, CfgEnv, TxEnv},
        primitives::{Address, B256, Bytes, TxKind, U256, address, hardfork::SpecId},
    },
};

pub(crate) const COINBASE: Address = address!("0xc01ba5e0000000000000000000000000c01ba5e0");
pub(crate) const ETHER: u64 = 1_000_000_000_000_000_000;

/// State of a chain after a block.
#[derive(Debug, PartialEq)]
pub(crate) struct Trace {
    pub(crate) order: Vec<u32>,
    pub(crate) outcomes: Vec<Outcome>,
    pub(crate) receipts_root: Option<B256>,
    pub(crate) state_root: B256,
    pub(crate) gas_used: u64,
}

/// A run of all transactions.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) blocks: Vec<Trace>,
    pub(crate) escapes: usize,
    pub(crate) fallbacks: usize,
    pub(crate) reexecutions: usize,
    pub(crate) alone: usize,
    pub(crate) engine: Engine,
}

impl Ran {
    pub(crate) fn outcomes(&self) -> impl Iterator<Item = (u32, &Outcome)> {
        self.blocks.iter().flat_map(|block| block.order.iter().copied().zip(&block.outcomes))
    }

    pub(crate) fn succeeded(&self) -> usize {
        self.outcomes().filter(|(_, outcome)| outcome.is_success()).count()
    }
}

pub(crate) fn env(number: u64) -> BlockEnv {
    BlockEnv {
        number: U256::from(number),
        timestamp: U256::from(number * 12),
        beneficiary: COINBASE,
        basefee: 7,
        gas_limit: u64::MAX,
        ..Default::default()
    }
}

pub(crate) fn builder() -> EngineBuilder {
    let builder = Engine::builder().with_force_parallel(true).with_tuning(Tuning::new().with_traces(Traces::Checked));
    builder.with_cfg(CfgEnv::new_with_spec(SpecId::OSAKA))
}

pub(crate) fn eoa(byte: u8) -> GenesisAccount {
    GenesisAccount { address: Address::repeat_byte(byte), balance: U256::from(10 * ETHER), ..Default::default() }
}

pub(crate) fn contract(byte: u8, code: &[u8]) -> GenesisAccount {
    GenesisAccount {
        address: Address::repeat_byte(byte),
        nonce: 1,
        code: Some(Bytes::copy_from_slice(code)),
        ..Default::default()
    }
}

pub(crate) fn call(from: u8, nonce: u64, to: Address, value: u64) -> TxEnv {
    TxEnv {
        tx_type: 2,
        caller: Address::repeat_byte(from),
        gas_limit: 300_000,
        gas_price: 100,
        gas_priority_fee: Some(3),
        kind: TxKind::Call(to),
        value: U256::from(value),
        nonce,
        chain_id: Some(1),
        ..Default::default()
    }
}

/// Plans and runs all `txs` on a chain that starts with `genesis`.
pub(crate) fn run(
    builder: EngineBuilder,
    genesis: &[GenesisAccount],
    txs: &[TxEnv],
    order: Order,
    limits: BlockLimits,
    env: impl Fn(u64) -> BlockEnv,
) -> Ran {
    let mut engine = builder.build().expect("an engine in memory");
    engine.genesis(genesis.iter().cloned()).expect("a sound genesis");
    let mut planner = engine.plan(txs, order, limits);
    let mut ran = (Vec::new(), 0, 0, 0, 0);
    let mut number = 0;
    loop {
        number += 1;
        assert!(number < 10_000, "the planner does not terminate");
        let env = env(number);
        let Some(block) = planner.next_block(&engine, &env) else { break };
        ran.2 += block.serial_tail();
        let executed = engine.execute(&env, txs, block).expect("execution");
        let merkleized = engine.merkleize(executed).expect("a root");
        let committed = engine.commit(merkleized).expect("a commit");
        committed.write.wait().expect("durable");
        let block = committed.block;
        planner.requeue_escaped(block.left());
        ran.1 += block.stats().run.escapes;
        ran.3 += usize::from(block.stats().run.fallback);
        ran.4 += block.stats().run.reexecutions;
        let (receipts_root, gas_used) = (block.receipts_root(), block.gas_used());
        assert_eq!(receipts_root, Some(phalanx_receipts_root(&block)));
        let (order, outcomes) = block.into_outcomes();
        ran.0.push(Trace { order, outcomes, receipts_root, state_root: committed.state_root, gas_used });
    }
    assert!(planner.rejected().is_empty());
    drop(planner);
    let (blocks, escapes, alone, fallbacks, reexecutions) = ran;
    let mut seen: Vec<u32> = blocks.iter().flat_map(|block| block.order.clone()).collect();
    seen.sort_unstable();
    assert!(seen.into_iter().eq(0..txs.len() as u32), "every transaction is in exactly one block");
    Ran { blocks, escapes, fallbacks, reexecutions, alone, engine }
}

/// Receipts root by alloy.
fn phalanx_receipts_root(block: &phalanx::BlockInfo) -> B256 {
    alloy_consensus::proofs::calculate_receipt_root(&block.receipts())
}

/// Runs the blocks of `ran` on sequential revm.
pub(crate) fn replay(
    genesis: &[GenesisAccount],
    txs: &[TxEnv],
    ran: &Ran,
    env: impl Fn(u64) -> BlockEnv,
) -> Vec<Trace> {
    let mut engine = builder().with_executor(Executor::Sequential).build().expect("an engine in memory");
    engine.genesis(genesis.iter().cloned()).expect("a sound genesis");
    let mut traces = Vec::new();
    for (number, trace) in (1..).zip(&ran.blocks) {
        let executed =
            engine.execute(&env(number), txs, phalanx::Block::unpredicted(trace.order.clone())).expect("execution");
        let merkleized = engine.merkleize(executed).expect("a root");
        let committed = engine.commit(merkleized).expect("a commit");
        let (receipts_root, gas_used) = (committed.block.receipts_root(), committed.block.gas_used());
        let (order, outcomes) = committed.block.into_outcomes();
        traces.push(Trace { order, outcomes, receipts_root, state_root: committed.state_root, gas_used });
    }
    traces
}

/// Runs `txs` at several thread counts and in both orders. Compares each run with sequential revm on its own blocks,
/// and the runs with each other. Returns the runs on two threads, in free and in given order.
pub(crate) fn prove(
    genesis: &[GenesisAccount],
    txs: &[TxEnv],
    limits: BlockLimits,
    env: impl Fn(u64) -> BlockEnv + Copy,
) -> (Ran, Ran) {
    let [free, given] = [Order::Free, Order::Given].map(|order| {
        let one = run(builder().with_threads(1), genesis, txs, order, limits, env);
        let truth = replay(genesis, txs, &one, env);
        for (height, (ours, truth)) in (1..).zip(one.blocks.iter().zip(&truth)) {
            assert_eq!(ours, truth, "block {height}, {order:?}");
        }
        let mut last = one;
        for threads in [4, 8, 2] {
            let ran = run(builder().with_threads(threads), genesis, txs, order, limits, env);
            assert_eq!(ran.blocks, last.blocks, "{threads} threads, {order:?}");
            assert_eq!(ran.escapes, last.escapes, "{threads} threads, {order:?}");
            last = ran;
        }
        last
    });
    let input: Vec<u32> = given.blocks.iter().flat_map(|block| block.order.clone()).collect();
    assert!(input.into_iter().eq(0..txs.len() as u32), "a given order is kept");
    (free, given)
}
