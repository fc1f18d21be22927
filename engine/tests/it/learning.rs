//! Learning: a validator that only follows blocks learns templates for calls that it could not predict.

use crate::kit::{Case, Hint, Way, call, contract, eoa};
use phalanx::{
    GenesisAccount, Hints, Tuning,
    revm::{
        context::TxEnv,
        primitives::{Address, B256, Bytes, U256},
    },
};

const CONTRACTS: u8 = 8;
/// Number of blocks. A hundredth of each block's gas is for learning, and a call has an eighth of it: thirteen blocks
/// for each contract, and some more to see the result.
const BLOCKS: u64 = 13 * CONTRACTS as u64 + 10;

/// Contracts with pairwise different code: slot[caller] = number + slot[argument].
fn contracts() -> impl Iterator<Item = GenesisAccount> {
    (1..=CONTRACTS).map(|n| contract(0xa0 + n, &[0x60, 0x04, 0x35, 0x54, 0x60, n, 0x01, 0x33, 0x55, 0x00]))
}

/// A block in which each sender calls a contract of its own: no call occurs twice in a block.
fn block(number: u64) -> Vec<TxEnv> {
    let input = |n: u8| [vec![1, 2, 3, 4], U256::from(number + u64::from(n)).to_be_bytes_vec()].concat();
    let tx = |n: u8| TxEnv {
        gas_limit: 100_000,
        data: Bytes::from(input(n)),
        ..call(n, number, Address::repeat_byte(0xa0 + n), 0)
    };
    (1..=CONTRACTS).map(tx).collect()
}

fn chain() -> Case {
    let case = Case::new("Osaka").with((1..=CONTRACTS).map(eoa)).with(contracts());
    (0..BLOCKS).fold(case, |case, number| case.block(block(number)))
}

/// Follows the chain. Returns for each block its root, the number of transactions that a template predicted, and true
/// if it ran without predictions.
fn follow(way: &Way, hints: Hints<'_>) -> Vec<(B256, usize, bool)> {
    let case = chain();
    let mut engine = case.engine(way);
    let mut blocks = Vec::new();
    for body in &case.blocks {
        let executed = engine.execute_block(&body.payload(), hints).expect("a valid block");
        let merkleized = engine.merkleize(executed).expect("a root");
        let committed = engine.commit(merkleized).expect("a commit");
        let stats = *committed.block.stats();
        assert_eq!(stats.run.escapes, 0);
        blocks.push((committed.state_root, stats.sources.template, stats.run.fallback));
    }
    blocks
}

#[test]
fn templates_are_learned_from_block_to_block() {
    let truth = follow(&Way::sequential(), Hints::None);
    for threads in [1, 2, 4] {
        let blocks = follow(&Way::dag(threads, Hint::None), Hints::Predict);
        assert!(blocks[..13].iter().all(|block| (block.1, block.2) == (0, true)), "learning takes time: {blocks:?}");
        let last = blocks.last().expect("blocks");
        assert_eq!((last.1, last.2), (usize::from(CONTRACTS), false), "all is: {blocks:?}");
        assert!(blocks[blocks.len() - 9..].iter().all(|block| !block.2), "{blocks:?}");
        assert!(blocks.iter().map(|block| block.0).eq(truth.iter().map(|block| block.0)), "{threads} threads");
    }
}

#[test]
fn learning_can_be_turned_off() {
    let case = chain();
    let mut engine = phalanx::Engine::builder()
        .with_force_parallel(true)
        .with_chain(case.rules.clone())
        .with_threads(2)
        .with_tuning(Tuning::new().with_learning(false))
        .build()
        .expect("an engine in memory");
    engine.genesis(case.genesis.iter().cloned()).expect("a sound genesis");
    for body in &case.blocks {
        let executed = engine.execute_block(&body.payload(), Hints::Predict).expect("a valid block");
        assert!(executed.block().stats().run.fallback, "no call occurs twice in a block, so no template is learned");
        let merkleized = engine.merkleize(executed).expect("a root");
        engine.commit(merkleized).expect("a commit").write.wait().expect("durable");
    }
    assert_eq!(engine.paralyze().templates().0, 0);
}

#[test]
fn templates_can_be_forgotten() {
    let case = chain();
    let mut engine = phalanx::Engine::builder()
        .with_force_parallel(true)
        .with_chain(case.rules.clone())
        .with_threads(2)
        .build()
        .expect("an engine in memory");
    engine.genesis(case.genesis.iter().cloned()).expect("a sound genesis");
    for body in &case.blocks {
        let executed = engine.execute_block(&body.payload(), Hints::Predict).expect("a valid block");
        let merkleized = engine.merkleize(executed).expect("a root");
        engine.commit(merkleized).expect("a commit").write.wait().expect("durable");
    }
    assert!(engine.paralyze().templates().0 > 0);
    engine.forget();
    assert_eq!(engine.paralyze().templates().0, 0);
}

#[test]
fn without_predictions_no_template_is_learned() {
    let blocks = follow(&Way::dag(2, Hint::None), Hints::None);
    assert!(blocks.iter().all(|(_, templates, fallback)| *templates == 0 && *fallback));
}
