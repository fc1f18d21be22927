//! Roots that are computed beside the next block's execution, when something goes wrong with either.

use crate::common::{builder, call, env, eoa};
use phalanx::{
    Behind, Block, BlockLimits, Engine, Error, Order, Unsealed,
    revm::{
        context::{BlockEnv, TxEnv},
        primitives::{Address, B256, U256},
    },
};

const LIMITS: BlockLimits = BlockLimits { max_txs: 2, max_gas: u64::MAX };

fn to(receiver: u8, nonce: u64) -> TxEnv {
    call(1, nonce, Address::repeat_byte(receiver), 1)
}

fn engine() -> Engine {
    let mut engine = builder().with_threads(2).with_all_workers(true).build().expect("an engine in memory");
    engine.genesis([eoa(1), eoa(2)]).expect("a sound genesis");
    engine
}

/// Executes the next block of `txs` behind `before`.
fn step<'t>(
    engine: &mut Engine,
    before: Option<Unsealed<'t>>,
    txs: &'t [TxEnv],
    block: Block,
    env: &BlockEnv,
) -> Result<Behind<'t>, Error> {
    let mut none = engine.plan(&[], Order::Given, LIMITS);
    engine.execute_behind(before, env, txs, block, &mut none, env)
}

fn blocks(engine: &Engine, txs: &[TxEnv]) -> Vec<Block> {
    let mut planner = engine.plan(txs, Order::Given, LIMITS);
    core::iter::from_fn(|| planner.next_block(engine, &env(1))).collect()
}

/// The roots and balances that blocks lead to one after the other.
fn in_turns(txs: &[TxEnv]) -> (Vec<B256>, Engine) {
    let mut engine = engine();
    let mut commit = |(number, block)| {
        let executed = engine.execute(&env(number), txs, block).expect("execution");
        let committed = engine.merkleize(executed).and_then(|root| engine.commit(root)).expect("a commit");
        committed.state_root
    };
    let roots = (1..).zip(blocks(&self::engine(), txs)).map(&mut commit).collect();
    (roots, engine)
}

#[test]
fn the_block_before_is_committed_whatever_becomes_of_the_next_one() {
    let txs = [to(9, 0), to(8, 1), to(9, 2), to(7, 3)];
    let (roots, _) = in_turns(&txs);
    let mut engine = engine();
    let genesis = engine.state().root();
    let [first, second] = <[Block; 2]>::try_from(blocks(&engine, &txs)).expect("two blocks");
    let done = step(&mut engine, None, &txs, first, &env(1)).expect("execution");
    assert!(done.committed.is_none() && done.planned.is_none());
    assert_eq!(
        (engine.state().height(), engine.state().root(), done.executed.order()),
        (Some(0), genesis, &[0, 1][..])
    );
    // No block is executed without a source of randomness.
    let blind = BlockEnv { prevrandao: None, ..env(2) };
    let failed = step(&mut engine, Some(done.executed), &txs, second.clone(), &blind);
    assert!(matches!(failed, Err(Error::Environment { .. })), "{failed:?}");
    assert_eq!((engine.state().height(), engine.state().root()), (Some(1), roots[0]));
    // It goes on from there.
    let done = step(&mut engine, None, &txs, second, &env(2)).expect("execution");
    let committed = engine.commit_unsealed(done.executed).expect("a commit");
    assert_eq!((committed.state_root, engine.state().root()), (roots[1], roots[1]));
}

#[test]
fn a_block_executed_on_another_state_is_stale_and_changes_nothing() {
    let txs = [to(9, 0), to(8, 1), to(9, 2), to(7, 3)];
    let mut engine = engine();
    let [first, second] = <[Block; 2]>::try_from(blocks(&engine, &txs)).expect("two blocks");
    let [one, other, third] =
        [(); 3].map(|()| step(&mut engine, None, &txs, first.clone(), &env(1)).expect("execution").executed);
    let committed = engine.commit_unsealed(one).expect("a commit");
    let failed = engine.commit_unsealed(other);
    assert!(matches!(failed, Err(Error::Stale)), "{failed:?}");
    let failed = step(&mut engine, Some(third), &txs, second.clone(), &env(2));
    assert!(matches!(failed, Err(Error::Stale)), "{failed:?}");
    assert_eq!((engine.state().height(), engine.state().root()), (Some(1), committed.state_root));
    let balance = |engine: &Engine, of| engine.state().account(&Address::repeat_byte(of)).expect("readable");
    assert_eq!(balance(&engine, 9), Some((0, U256::from(1))));
    let done = step(&mut engine, None, &txs, second, &env(2)).expect("execution");
    assert_eq!(balance(&engine, 9), Some((0, U256::from(1))), "nothing of it is there before it is committed");
    assert_eq!(engine.commit_unsealed(done.executed).expect("a commit").state_root, in_turns(&txs).0[1]);
    assert_eq!(balance(&engine, 9), Some((0, U256::from(2))));
}

/// What was executed on a block while its root was computed may be sealed the other way as well.
#[test]
fn both_ways_lead_to_the_same_chain() {
    let txs: Vec<TxEnv> = (0..40).map(|nonce| to(nonce as u8 % 5 + 2, nonce)).collect();
    let (roots, other) = in_turns(&txs);
    let mut engine = engine();
    let (mut seen, mut before) = (Vec::new(), None);
    for (number, block) in (1..).zip(blocks(&engine, &txs)) {
        let done = step(&mut engine, before.take(), &txs, block, &env(number)).expect("execution");
        seen.extend(done.committed.map(|committed| committed.state_root));
        match number % 3 {
            0 => seen.push(engine.commit_unsealed(done.executed).expect("a commit").state_root),
            _ => before = Some(done.executed),
        }
    }
    seen.extend(before.map(|last| engine.commit_unsealed(last).expect("a commit").state_root));
    assert_eq!(seen, roots);
    assert_eq!(engine.state().dump().expect("sound"), other.state().dump().expect("sound"));
}
