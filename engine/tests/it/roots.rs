//! The root that a chain reports: chosen with its genesis, the same for every way to make it, and read from any thread.

use crate::{
    ethereum_roots::{state_root, verify},
    kit::{builder, call, contract, env, eoa},
};
use phalanx::{
    Block, Engine, Error, GenesisAccount, RootKind, SnapshotAt, SnapshotError,
    chain::ChainSpec,
    merkle::{Backend, StoreConfig},
    revm::primitives::{Address, B256, U256},
};
use std::{
    path::Path,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
};

fn open(dir: &Path, root: RootKind) -> Result<Engine, Error> {
    builder().with_store(StoreConfig::new(Backend::File(dir.into()))).with_threads(2).with_root(root).build()
}

fn accounts() -> Vec<GenesisAccount> {
    let storage = (0..100u64).map(|slot| (U256::from(slot), U256::from(slot % 7))).collect();
    let mut accounts = vec![GenesisAccount { storage, ..contract(0xee, &[0x00]) }];
    accounts.extend((1..=40).map(eoa));
    accounts
}

/// Commits a block of transfers.
fn advance(engine: &mut Engine, height: u64) -> B256 {
    let to = |from: u8| Address::repeat_byte(from.wrapping_add(height as u8).max(1));
    let txs: Vec<_> = (1..=40).map(|from| call(from, height - 1, to(from), 1)).collect();
    let executed = engine.execute(&env(height), &txs, Block::unpredicted((0..40).collect())).expect("execution");
    let merkleized = engine.merkleize(executed).expect("a root");
    let committed = engine.commit(merkleized).expect("a commit");
    committed.write.wait().expect("durable");
    committed.state_root
}

#[test]
fn a_store_keeps_the_root_of_its_genesis() {
    let kinds = [RootKind::Twigs, RootKind::Ethereum];
    let roots = kinds.map(|kind| {
        let dir = tempfile::tempdir().expect("a folder");
        let mut engine = open(dir.path(), kind).expect("a store");
        let first = engine.genesis(accounts()).expect("a sound genesis");
        let last = advance(&mut engine, 1);
        assert_eq!(state_root(&engine) == last, kind == RootKind::Ethereum);
        drop(engine);
        let other = kinds.into_iter().find(|other| *other != kind).expect("two kinds");
        let error = open(dir.path(), other).expect_err("another root").to_string();
        assert!(error.contains("Ethereum's root") && error.contains("the root of its twigs"), "{error}");
        let engine = open(dir.path(), kind).expect("the same root");
        assert_eq!(engine.state().root(), last);
        assert_eq!(engine.snapshot(SnapshotAt::Height(0)).expect("held").root(), first);
        [first, last]
    });
    assert_ne!(roots[0], roots[1]);
}

#[test]
fn a_chain_chooses_its_root_and_a_builder_may_choose_another() {
    let root = |chain: ChainSpec, own: Option<RootKind>| {
        let engine = Engine::builder().with_chain(chain);
        let engine = own.into_iter().fold(engine, |engine, own| engine.with_root(own));
        let mut engine = engine.build().expect("an engine in memory");
        let root = engine.genesis(accounts()).expect("a sound genesis");
        root == state_root(&engine)
    };
    let ethereum = || ChainSpec::mainnet().with_root(RootKind::Ethereum);
    assert!(!root(ChainSpec::mainnet(), None) && root(ethereum(), None));
    assert!(root(ChainSpec::mainnet(), Some(RootKind::Ethereum)) && !root(ethereum(), Some(RootKind::Twigs)));
    assert!(!ethereum().agrees_until(&ChainSpec::mainnet(), 0, 0));
}

/// The empty state, and a genesis in parts whose accounts come with some of their slots at a time.
#[test]
fn a_genesis_in_parts_has_the_root_of_the_whole() {
    let engine = || builder().with_root(RootKind::Ethereum).with_threads(2).build().expect("an engine in memory");
    let mut empty = engine();
    let nothing = empty.genesis([]).expect("an empty genesis");
    assert_eq!((nothing, nothing), (alloy_trie::EMPTY_ROOT_HASH, empty.state().root()));

    let whole = engine().genesis(accounts()).expect("a sound genesis");
    let mut engine = engine();
    let mut parts = engine.genesis_in_parts().expect("an empty store");
    let of = |part: usize| {
        let some = accounts().into_iter().enumerate().filter(move |(at, _)| *at == 0 || at % 3 == part);
        some.map(move |(_, account)| {
            let storage = account.storage.iter().enumerate().filter(|(at, _)| at % 3 == part);
            GenesisAccount { storage: storage.map(|(_, slot)| *slot).collect(), ..account.clone() }
        })
    };
    (0..2).for_each(|part| parts.commit(of(part)).expect("a part"));
    assert_eq!(parts.finish(of(2)).expect("the last part"), whole);
    assert_eq!(state_root(&engine), whole);
}

/// Jobs of the engine's own pool, on whose threads the trie is updated, and other threads prove while blocks come.
#[test]
fn proofs_wait_for_no_block_on_a_thread_that_makes_it() {
    let mut engine = builder().with_root(RootKind::Ethereum).with_threads(2).build().expect("an engine in memory");
    engine.genesis(accounts()).expect("a sound genesis");
    let workers = std::sync::Arc::clone(engine.workers());
    let state = engine.snapshot(SnapshotAt::Committed).expect("a state");
    let (done, proofs) = (AtomicBool::new(false), AtomicU64::new(0));
    let prove = || {
        let address = Address::repeat_byte(0xee);
        match state.prove_ethereum(&address, &[U256::from(3), U256::from(1000)]) {
            Ok(proof) => {
                verify(state.root(), &address, &proof.expect("Ethereum's root"));
                proofs.fetch_add(1, Relaxed);
            }
            // The caller may come again, or the block has left the history.
            Err(SnapshotError::NotWritten | SnapshotError::Pruned { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    };
    std::thread::scope(|scope| {
        for is_of_pool in [true, false] {
            let (workers, done, prove) = (&workers, &done, &prove);
            scope.spawn(move || {
                while !done.load(Relaxed) {
                    if is_of_pool { workers.install(prove) } else { prove() }
                }
            });
        }
        // As many as the history holds, and some more.
        for height in 1..=12 {
            advance(&mut engine, height);
        }
        done.store(true, Relaxed);
    });
    println!("{} proofs", proofs.into_inner());
    assert_eq!(engine.state().root(), state_root(&engine));
}
