//! Large blocks are assembled one ahead of their planning, as long as predictions last.

use crate::kit::{builder, env};
use phalanx::{
    BlockLimits, Engine, Executor, GenesisAccount, Order, Outcome,
    revm::{
        context::TxEnv,
        context_interface::transaction::AccessListItem,
        primitives::{Address, B256, TxKind, U256},
    },
};

/// More transactions than are analysed at a time.
const LIMITS: BlockLimits = BlockLimits { max_txs: 9_000, max_gas: u64::MAX };
const TXS: u64 = 70_000;
const SENDERS: u64 = 400;
/// First transaction that is predicted from the state.
const UNDECLARED: u64 = 50_000;
/// `sstore(calldataload(0), 1)`.
const WRITES_ITS_INPUT: [u8; 6] = [0x60, 0x01, 0x5f, 0x35, 0x55, 0x00];
const WRITER: Address = Address::repeat_byte(0xee);

fn account(index: u64) -> Address {
    Address::left_padding_from(&(0x10_0000 + index).to_be_bytes())
}

/// Transfers; some calls that declare another slot than they touch, and behind [`UNDECLARED`] calls without
/// declarations.
fn transactions() -> Vec<TxEnv> {
    let tx = |index: u64| {
        let (sender, nonce) = (index % SENDERS, index / SENDERS);
        let to = TxKind::Call(account((sender * 7 + nonce * 13) % (2 * SENDERS)));
        let transfer = TxEnv {
            caller: account(sender),
            nonce,
            kind: to,
            value: U256::from(1),
            gas_limit: 21_000,
            gas_price: 100,
            ..Default::default()
        };
        // Every call selects a function of its own, so no template predicts it.
        let slot = U256::from(index) << 224usize;
        let call = TxEnv {
            kind: TxKind::Call(WRITER),
            value: U256::ZERO,
            data: slot.to_be_bytes_vec().into(),
            gas_limit: 100_000,
            tx_type: 1,
            ..transfer.clone()
        };
        let storage_keys = vec![B256::from(slot + U256::from(1))];
        match index % 1_000 {
            77 => TxEnv { access_list: vec![AccessListItem { address: WRITER, storage_keys }].into(), ..call },
            500 if index > UNDECLARED => call,
            _ => transfer,
        }
    };
    (0..TXS).map(tx).collect()
}

fn engine(executor: Executor, threads: usize, all: bool) -> Engine {
    let builder = builder().with_executor(executor).with_threads(threads).with_force_parallel(all);
    let mut engine = builder.build().expect("an engine in memory");
    let rich =
        |index| GenesisAccount { address: account(index), balance: U256::from(1u64 << 60), ..Default::default() };
    let writer = GenesisAccount {
        address: WRITER,
        nonce: 1,
        code: Some(WRITES_ITS_INPUT.to_vec().into()),
        ..Default::default()
    };
    engine.genesis((0..2 * SENDERS).map(rich).chain([writer])).expect("a sound genesis");
    engine
}

type Trace = (Vec<u32>, Vec<Outcome>, B256);

/// Blocks, flags of the blocks that executed with another one assembled ahead, and number of escapes.
fn run(txs: &[TxEnv], order: Order, threads: usize, all: bool) -> (Vec<Trace>, Vec<bool>, usize) {
    let mut engine = engine(Executor::Dag, threads, all);
    let mut planner = engine.plan(txs, order, LIMITS);
    let (mut traces, mut stocked, mut left) = (Vec::new(), Vec::new(), 0);
    let mut ahead = planner.next_block(&engine, &env(1));
    for number in 1.. {
        let Some(block) = ahead.take() else { break };
        let beside = engine.execute_and_plan(&env(number), txs, block, &mut planner, &env(number + 1));
        let (merkleized, planned) = beside.expect("execution");
        ahead = planned;
        stocked.push(planner.formed() > 0);
        let committed = engine.commit(merkleized).expect("a commit");
        let block = committed.block;
        left += block.left().len();
        if !block.left().is_empty() {
            if let Some(planned) = ahead.take() {
                planner.unplan(planned);
            }
            planner.requeue_escaped(block.left());
            ahead = planner.next_block(&engine, &env(number + 1));
        }
        let (order, outcomes) = block.into_outcomes();
        traces.push((order, outcomes, committed.state_root));
        assert!(number < 100, "the planner does not terminate");
    }
    (traces, stocked, left)
}

#[test]
fn blocks_assembled_ahead_are_equal_on_all_threads_and_lose_no_transaction() {
    let txs = transactions();
    for order in [Order::Free, Order::Given] {
        let (traces, stocked, left) = run(&txs, order, 1, false);
        assert_eq!(left > 0, order == Order::Free, "falsely declared calls escape in free order: {left}");
        assert!(stocked[..2].iter().all(|stocked| *stocked), "rules alone predicted the first blocks: {stocked:?}");
        // Requeued transactions delay assembled blocks, whether assembled ahead or not.
        let ahead = stocked.iter().filter(|stocked| **stocked).count();
        assert!(left > 0 || ahead <= UNDECLARED as usize / LIMITS.max_txs, "and none behind them: {stocked:?}");
        let mut seen: Vec<u32> = traces.iter().flat_map(|(order, ..)| order.clone()).collect();
        if order == Order::Given {
            assert!(seen.is_sorted(), "a given order is kept");
        }
        seen.sort_unstable();
        assert!(seen.into_iter().eq(0..txs.len() as u32), "every transaction is in exactly one block");
        for (threads, all) in [(2, false), (4, true), (8, false), (16, false)] {
            assert!(run(&txs, order, threads, all).0 == traces, "{threads} threads, {order:?}");
        }
        let mut sequential = engine(Executor::Sequential, 1, false);
        for (number, trace) in (1..).zip(&traces) {
            let block = phalanx::Block::unpredicted(trace.0.clone());
            let executed = sequential.execute(&env(number), &txs, block).expect("execution");
            let committed = sequential.merkleize(executed).and_then(|root| sequential.commit(root)).expect("a commit");
            let (order, outcomes) = committed.block.into_outcomes();
            assert!((order, outcomes, committed.state_root) == *trace, "block {number} on sequential revm");
        }
    }
}
