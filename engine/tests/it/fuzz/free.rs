//! Random transactions in a builder's blocks: the planner orders and cuts them, and requeues escaped ones.

use crate::kit::Case;
use phalanx::{
    Block, BlockLimits, Engine, Executor, LeftTransactions, Merkleized, Order, Outcome,
    revm::{
        context::{BlockEnv, TxEnv},
        primitives::{B256, Bytes, U256},
    },
};
use rand::Rng as _;
use rand_chacha::ChaCha8Rng;

/// An engine with the case's rules for all blocks.
fn engine(
    case: &Case,
    executor: Executor,
    (threads, all): (usize, bool),
    lists: bool,
    env: &alloy_consensus::Header,
) -> Engine {
    let spec = case.rules.spec(env);
    let cfg = case.rules.cfg(spec, env.timestamp);
    let builder = Engine::builder()
        .with_force_parallel(all)
        .with_tuning(phalanx::Tuning::new().with_traces(phalanx::Traces::Checked))
        .with_cfg(cfg)
        .with_executor(executor)
        .with_threads(threads)
        .with_access_lists(lists);
    let mut engine = builder.build().expect("an engine in memory");
    engine.genesis(case.genesis.iter().cloned()).expect("a sound genesis");
    engine.set_ancestors(case.ancestors.clone());
    engine
}

type Trace = (Vec<u32>, Vec<Outcome>, B256, Option<Bytes>);

fn commit(engine: &mut Engine, merkleized: Merkleized) -> (Trace, LeftTransactions) {
    let committed = engine.commit(merkleized).expect("a commit");
    let (order, outcomes) = (committed.block.order().to_vec(), committed.block.outcomes().to_vec());
    let list = committed.block.access_list().map(|list| list.rlp().clone());
    ((order, outcomes, committed.state_root, list), committed.block.left().clone())
}

/// Plans all transactions of `case` and compares each block with sequential execution. Returns the number of blocks.
pub(super) fn check(case: &Case, rng: &mut ChaCha8Rng) -> usize {
    let txs: Vec<TxEnv> = case.blocks.iter().flat_map(|body| body.txs.iter().cloned()).collect();
    let header = &case.blocks[0].header;
    let limits = BlockLimits { max_txs: rng.random_range(1..20), max_gas: u64::MAX };
    let env = |number: u64| BlockEnv { number: U256::from(number), ..case.rules.env(header) };
    let order = if rng.random_bool(0.7) { Order::Free } else { Order::Given };
    // True if each block is planned while its predecessor executes.
    let overlaps = rng.random_bool(0.5);
    // An engine that produces lists reads revm's journal and takes no shortcuts past it.
    let lists = rng.random_bool(0.3);
    let mut last: Option<Vec<Trace>> = None;
    for threads in [1, [2, 4, 8][rng.random_range(0..3)]] {
        let mut engine = engine(case, Executor::Dag, (threads, rng.random_bool(0.5)), lists, header);
        let mut planner = engine.plan(&txs, order, limits);
        let mut traces = Vec::new();
        let mut ahead: Option<Option<Block>> = None;
        for number in 10.. {
            let (env, next) = (env(number), env(number + 1));
            let planned = ahead.take().unwrap_or_else(|| planner.next_block(&engine, &env));
            let Some(block) = planned else { break };
            let merkleized = if overlaps {
                let beside = engine.execute_and_plan(&env, &txs, block, &mut planner, &next);
                let (merkleized, planned) = beside.expect("execution");
                ahead = Some(planned);
                merkleized
            } else {
                let executed = engine.execute(&env, &txs, block).expect("execution");
                engine.merkleize(executed).expect("a root")
            };
            let (trace, left) = commit(&mut engine, merkleized);
            traces.push(trace);
            if !left.is_empty()
                && let Some(Some(planned)) = ahead.take()
            {
                planner.unplan(planned);
            }
            planner.requeue_escaped(&left);
            assert!(traces.len() < 1_000, "the planner does not terminate");
        }
        let mut seen: Vec<u32> = traces.iter().flat_map(|(order, ..)| order.clone()).collect();
        if order == Order::Given {
            assert!(seen.is_sorted(), "a given order is kept");
        }
        seen.sort_unstable();
        assert!(seen.into_iter().eq(0..txs.len() as u32), "every transaction is in exactly one block");
        for (executor, threads) in [(Executor::Sequential, 1), (Executor::BlockStm, 4)] {
            let mut other = self::engine(case, executor, (threads, true), lists, header);
            for (number, trace) in (10..).zip(&traces) {
                let block = Block::unpredicted(trace.0.clone());
                let executed = other.execute(&env(number), &txs, block).expect("execution");
                let merkleized = other.merkleize(executed).expect("a root");
                let (theirs, _) = commit(&mut other, merkleized);
                assert_eq!(
                    *trace, theirs,
                    "block {number}, {threads} threads, {order:?}, ahead {overlaps}, {executor:?}\n{case}"
                );
            }
            assert_eq!(engine.state().dump().expect("sound"), other.state().dump().expect("sound"));
        }
        if let Some(last) = &last {
            assert_eq!(*last, traces, "{threads} threads");
        }
        last = Some(traces);
    }
    last.map_or(0, |traces| traces.len())
}
