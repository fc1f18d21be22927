//! Plain blocks of the workloads, in many batches: they validate in given order.

use super::{NEVER, candidates, envs};
use crate::kit::{self, builder as engine_builder, genesis};
use phalanx::{
    BlockLimits, Budget, Builder, CandidateTx, GenesisAccount, Order, Target,
    revm::{context::TxEnv, primitives::B256},
};
use phalanx_workloads::{Erc20, HotSide, Native, TransferLoad, Workload};

/// Builds one block, offered in groups. Returns its transactions, root and receipts root.
fn build(workload: &dyn Workload, genesis: &[GenesisAccount], threads: usize) -> (Vec<TxEnv>, B256, Option<B256>) {
    let mut engine = engine_builder().with_threads(threads).build().expect("an engine in memory");
    engine.genesis(genesis.iter().cloned()).expect("a sound genesis");
    let offered: Vec<CandidateTx> = candidates(workload.transactions());
    let mut builder = Builder::new(&engine);
    let target = Target::Plain(Box::new(workload.block_env(1)));
    builder.prepare(&engine, &target, offered[..500].iter().cloned());
    let mut job = builder.open(&mut engine, target, Budget::default(), []).expect("a block");
    for group in offered[500..].chunks(450) {
        let progress = job.extend(group.iter().cloned(), NEVER).expect("execution");
        assert_eq!((progress.waiting, progress.dropped), (0, 0));
    }
    let built = job.finish();
    assert_eq!(built.txs.len(), offered.len());
    assert!(built.header.is_none());
    let (txs, receipts_root) = (envs(&built), built.executed.block().receipts_root());
    assert_eq!(built.executed.block().stats().run.escapes, 0);
    let sources = built.executed.block().stats().sources;
    assert_eq!(sources.native + sources.erc20 + sources.simulated, txs.len());
    assert!(built.executed.block().stats().frames > 0);
    let merkleized = engine.merkleize(built.executed).expect("a root");
    (txs, merkleized.state_root(), receipts_root)
}

fn proved(workload: &dyn Workload) {
    let genesis = genesis(workload);
    let (txs, root, receipts_root) = build(workload, &genesis, 1);
    for threads in [2, 4, 8] {
        let again = build(workload, &genesis, threads);
        assert!(again == (txs.clone(), root, receipts_root), "{threads} threads, {:?}", workload.load());
    }
    let limits = BlockLimits { max_txs: usize::MAX, max_gas: u64::MAX };
    for threads in [1, 2, 4, 8] {
        let builder = engine_builder().with_threads(threads);
        let ran = kit::run(builder, &genesis, &txs, Order::Given, limits, |number| workload.block_env(number));
        assert_eq!(ran.blocks.len(), 1);
        assert_eq!((ran.blocks[0].state_root, ran.blocks[0].receipts_root), (root, receipts_root));
        if threads == 1 {
            let truth = kit::replay(&genesis, &txs, &ran, |number| workload.block_env(number));
            assert_eq!(truth, ran.blocks);
        }
    }
}

#[test]
fn plain_blocks_of_transfers_validate() {
    let cases = [(0.0, 1, HotSide::Sender), (0.5, 10, HotSide::Both), (0.99, 3, HotSide::Sender)];
    for ((alpha, gamma, hot), seed) in cases.into_iter().zip(1..) {
        let load = TransferLoad { accounts: 3_000, txs: 2_300, alpha, gamma, hot, seed, ..Default::default() };
        proved(&Native::new(load.clone()).expect("a sound load"));
        proved(&Erc20::new(load).expect("a sound load"));
    }
}
