//! Stores that are closed, reopened, locked, or of another kind.

use crate::kit::{builder, call, contract, env, eoa};
use phalanx::{
    Block, BlockLimits, Engine, Error, Order,
    merkle::{self, Backend, Durability, HashFn, Params, StoreConfig},
    revm::primitives::{Address, B256, U256},
};
use std::path::Path;

fn backends(dir: &Path) -> Vec<Backend> {
    vec![
        Backend::File(dir.join("file")),
        #[cfg(feature = "rocksdb")]
        Backend::Rocks(dir.join("rocks")),
    ]
}

fn open(backend: &Backend, durability: Durability) -> Result<Engine, Error> {
    builder().with_threads(2).with_store(StoreConfig::new(backend.clone()).with_durability(durability)).build()
}

/// Commits one transfer per block, from the state's present nonce on.
fn commit_blocks(engine: &mut Engine, blocks: u64) -> B256 {
    for _ in 0..blocks {
        let nonce = engine.state().account(&Address::repeat_byte(1)).expect("readable").expect("funded").nonce;
        let txs = [call(1, nonce, Address::repeat_byte(2), 1), call(3, nonce, Address::repeat_byte(0xee), 0)];
        let env = env(engine.state().height().expect("genesis") + 1);
        let block = engine
            .plan(&txs, Order::Free, BlockLimits { max_txs: 100, max_gas: u64::MAX })
            .next_block(engine, &env)
            .expect("a block");
        let executed = engine.execute(&env, &txs, block).expect("execution");
        assert!(executed.block().outcomes().iter().all(phalanx::Outcome::is_success));
        let merkleized = engine.merkleize(executed).expect("a root");
        engine.commit(merkleized).expect("a commit").write.wait().expect("durable");
    }
    engine.state().root()
}

#[test]
fn a_store_reopens_at_the_last_block_with_its_code() {
    let dir = tempfile::tempdir().expect("a folder");
    for backend in backends(dir.path()) {
        for durability in [Durability::Async, Durability::Block] {
            let mut engine = open(&backend, durability).expect("a store");
            if engine.state().height().is_none() {
                // sstore(0, sload(0) + 1)
                let code = [0x5f, 0x54, 0x60, 1, 0x01, 0x5f, 0x55, 0x00];
                engine.genesis([eoa(1), eoa(2), eoa(3), contract(0xee, &code)]).expect("a sound genesis");
            }
            let again = engine.genesis([eoa(1)]);
            assert!(matches!(again, Err(Error::Genesis { .. })), "{again:?}");
            let root = commit_blocks(&mut engine, 5);
            let height = engine.state().height();
            let counter = engine.state().storage(&Address::repeat_byte(0xee), &U256::ZERO).expect("a word");

            let second = open(&backend, durability);
            assert!(matches!(second, Err(Error::Store(merkle::Error::Locked { .. }))), "{second:?}");
            drop(engine);

            let mut engine = open(&backend, durability).expect("the same store");
            assert_eq!((engine.state().root(), engine.state().height()), (root, height));
            assert_eq!(engine.state().storage(&Address::repeat_byte(0xee), &U256::ZERO).expect("a word"), counter);
            commit_blocks(&mut engine, 1);
        }
        let keccak = StoreConfig::new(backend.clone()).with_params(Params::with_hash(HashFn::Keccak256));
        let other = builder().with_store(keccak).build();
        assert!(matches!(other, Err(Error::Store(merkle::Error::Format { .. }))), "{other:?}");
    }
}

#[test]
fn a_block_merkleized_on_another_parent_is_refused() {
    let mut engine = builder().build().expect("an engine in memory");
    engine.genesis([eoa(1), eoa(2)]).expect("a sound genesis");
    let txs = [call(1, 0, Address::repeat_byte(2), 1)];
    let merkleize = |engine: &mut Engine| {
        let executed = engine.execute(&env(1), &txs, Block::unpredicted(vec![0])).expect("execution");
        engine.merkleize(executed).expect("a root")
    };
    let (first, second) = (merkleize(&mut engine), merkleize(&mut engine));
    assert_eq!(first.state_root(), second.state_root());
    engine.commit(first).expect("a commit").write.wait().expect("durable");
    let stale = engine.commit(second);
    assert!(
        matches!(stale, Err(Error::Store(merkle::Error::Stale { .. } | merkle::Error::Height { .. }))),
        "{stale:?}"
    );
}

#[test]
fn a_block_executed_on_another_state_is_refused() {
    let txs = [call(1, 0, Address::repeat_byte(2), 1)];
    let mut engine = builder().build().expect("an engine in memory");
    engine.genesis([eoa(1), eoa(2)]).expect("a sound genesis");
    let mut other = builder().build().expect("an engine in memory");
    other.genesis([eoa(1), eoa(2)]).expect("a sound genesis");
    let mut execute = || engine.execute(&env(1), &txs, Block::unpredicted(vec![0])).expect("execution");
    let (first, second, third) = (execute(), execute(), execute());
    assert!(matches!(other.merkleize(third), Err(Error::Stale)), "executed by another engine");
    let first = engine.merkleize(first).expect("a root");
    engine.commit(first).expect("a commit").write.wait().expect("durable");
    assert!(matches!(engine.merkleize(second), Err(Error::Stale)), "executed on an older state");
}

#[test]
fn an_empty_block_keeps_the_state_root() {
    let mut engine = builder().with_threads(2).build().expect("an engine in memory");
    let genesis = engine.genesis([eoa(1)]).expect("a sound genesis");
    let executed = engine.execute(&env(1), &[], Block::unpredicted(vec![])).expect("execution");
    assert_eq!(executed.block().gas_used(), 0);
    let merkleized = engine.merkleize(executed).expect("a root");
    assert_eq!(merkleized.state_root(), genesis);
    engine.commit(merkleized).expect("a commit").write.wait().expect("durable");
    assert_eq!(engine.state().height(), Some(1));
}
