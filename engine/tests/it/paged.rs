//! A state on disk with a small cache equals a resident one, whatever is read ahead; a genesis in parts is one state.

use crate::kit;
use phalanx::{
    Block, BlockLimits, Engine, Error, Executor, GenesisAccount, Order, Tuning,
    merkle::{Backend, Memory, Reading, StoreConfig},
    paralyze::StateKey,
    revm::primitives::{Address, B256, U256},
};
use phalanx_workloads::{Erc20, Native, TransferLoad, Workload};

/// Runs a load block by block, each planned beside the one before, and returns the roots.
fn run(engine: &mut Engine, workload: &dyn Workload, executor: Executor) -> Vec<B256> {
    let txs: Vec<_> = workload.transactions().collect();
    let limits = BlockLimits { max_txs: 300, max_gas: u64::MAX };
    let mut planner = engine.plan(&txs, Order::Given, limits);
    let env = |number| workload.block_env(number);
    let (mut roots, mut next) = (Vec::new(), planner.next_block(engine, &env(1)));
    for number in 1.. {
        let Some(block) = next else { break };
        let block = if executor == Executor::Dag { block } else { Block::unpredicted(block.order().to_vec()) };
        let (merkleized, planned) =
            engine.execute_and_plan(&env(number), &txs, block, &mut planner, &env(number + 1)).expect("a block");
        let committed = engine.commit(merkleized).expect("a committed block");
        assert!(committed.block.left().is_empty());
        committed.write.wait().expect("a written block");
        roots.push(committed.state_root);
        next = planned;
    }
    roots
}

fn engine(memory: Memory, executor: Executor, read_ahead: usize, dir: &std::path::Path) -> Engine {
    let backend = if memory == Memory::Resident { Backend::Mem } else { Backend::File(dir.join("store")) };
    let store = StoreConfig::new(backend).with_memory(memory).with_reading(Reading::Direct);
    let tuning = Tuning::new().with_read_ahead(read_ahead);
    let builder = kit::builder().with_store(store).with_threads(2).with_executor(executor).with_tuning(tuning);
    builder.build().expect("an engine")
}

#[test]
fn a_state_on_disk_has_the_roots_of_a_resident_one_whatever_is_read_ahead() {
    let load = TransferLoad { accounts: 4_000, txs: 2_000, alpha: 0.3, gamma: 20, ..Default::default() };
    let loads: [Box<dyn Workload>; 2] =
        [Box::new(Native::new(load.clone()).expect("a load")), Box::new(Erc20::new(load).expect("a load"))];
    for workload in &loads {
        let resident = {
            let dir = crate::kit::folder();
            let mut engine = engine(Memory::Resident, Executor::Dag, 1 << 20, dir.path());
            engine.genesis(kit::genesis(&**workload)).expect("a genesis");
            assert!(engine.state().reads().is_none());
            engine.state().announce(&[StateKey::Basic(Address::ZERO)]);
            run(&mut engine, &**workload, Executor::Dag)
        };
        for executor in [Executor::Dag, Executor::BlockStm, Executor::Sequential] {
            for read_ahead in [0, 1 << 10, 1 << 20] {
                let dir = crate::kit::folder();
                let memory = Memory::Cached { bytes: 1 << 17 };
                let mut engine = engine(memory, executor, read_ahead, dir.path());
                engine.genesis(kit::genesis(&**workload)).expect("a genesis");
                let roots = run(&mut engine, &**workload, executor);
                let what = format!("{} on {executor:?}, {read_ahead} bytes ahead", workload.name());
                assert_eq!(roots, resident, "{what}");
                let (reads, cache) = engine.state().reads().expect("a state on disk");
                assert!(reads.extents > 0 && cache.misses > 0, "{what}: {reads:?} {cache:?}");
            }
        }
    }
}

/// An announced value is in memory when the block needs it: no lookup misses once the announcement was read.
#[test]
fn announced_values_are_in_memory_before_their_block() {
    let load = TransferLoad { accounts: 20_000, txs: 200, ..Default::default() };
    let workload = Native::new(load).expect("a load");
    let dir = crate::kit::folder();
    let open = || engine(Memory::Cached { bytes: 1 << 20 }, Executor::Dag, 1 << 20, dir.path());
    open().genesis(kit::genesis(&workload)).expect("a genesis");
    // Opened again, so that no value is in memory and no write is pending.
    let engine = open();
    let keys: Vec<StateKey> = workload.accounts().addresses().take(500).map(StateKey::Basic).collect();
    let (before, _) = engine.state().reads().expect("a state on disk");
    engine.state().announce(&keys);
    // The announcement has been read when threads have begun to read and have read nothing more for two seconds.
    let (mut last, mut unchanged, mut left) = (before, 0, 2_400);
    while last == before || unchanged < 40 {
        left -= 1;
        assert!(left > 0, "nothing is read ahead, or without an end: {last:?}");
        std::thread::sleep(std::time::Duration::from_millis(50));
        let (now, _) = engine.state().reads().expect("a state on disk");
        unchanged = if now == last { unchanged + 1 } else { 0 };
        last = now;
    }
    let (_, before) = engine.state().reads().expect("a state on disk");
    for key in &keys {
        let StateKey::Basic(address) = key else { continue };
        assert!(engine.state().account(address).expect("a state").is_some());
    }
    let (_, after) = engine.state().reads().expect("a state on disk");
    assert_eq!(after.misses, before.misses, "every announced value was read ahead");
    assert_eq!(after.hits - before.hits, keys.len() as u64);
}

#[test]
fn a_genesis_in_parts_is_the_same_state_and_no_chain_until_it_is_finished() {
    let load = TransferLoad { accounts: 400, txs: 10, ..Default::default() };
    let workload = Erc20::new(load).expect("a load");
    let whole = kit::genesis(&workload);
    let dir = crate::kit::folder();
    let store = || StoreConfig::new(Backend::File(dir.path().join("store")));
    let mut once = kit::builder().build().expect("an engine");
    once.genesis(whole.clone()).expect("a genesis");

    let mut engine = kit::builder().with_store(store()).build().expect("an engine");
    let mut parts = engine.genesis_in_parts().expect("an empty store");
    let (last, first) = whole.split_last().expect("accounts");
    let (some, others) = first.split_at(150);
    parts.commit(some.to_vec()).expect("a part");
    // The token's slots are in two parts.
    let (half, rest) = last.storage.split_at(last.storage.len() / 2);
    parts.commit([GenesisAccount { storage: half.to_vec(), ..last.clone() }]).expect("a part");
    drop(parts);
    drop(engine);
    let refused = kit::builder().with_store(store()).build().expect_err("no chain");
    assert!(matches!(refused, Error::OtherChain { .. }), "{refused}");

    std::fs::remove_dir_all(dir.path().join("store")).expect("a folder");
    let mut engine = kit::builder().with_store(store()).build().expect("an engine");
    let mut parts = engine.genesis_in_parts().expect("an empty store");
    parts.commit(some.to_vec()).expect("a part");
    parts.commit([GenesisAccount { storage: half.to_vec(), ..last.clone() }]).expect("a part");
    let end = others.iter().cloned().chain([GenesisAccount { storage: rest.to_vec(), ..last.clone() }]);
    parts.finish(end).expect("the last part");
    assert_eq!(engine.state().height(), Some(2));
    assert!(engine.state().dump().expect("a state") == once.state().dump().expect("a state"));
    assert!(engine.genesis_in_parts().is_err(), "the store holds a chain");
    drop(engine);
    let engine = kit::builder().with_store(store()).build().expect("a chain");
    assert_eq!(engine.state().storage(&last.address, &last.storage[0].0).expect("a state"), last.storage[0].1);
    assert_ne!(last.storage[0].1, U256::ZERO);
}
