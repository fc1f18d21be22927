//! Forks: every block equals that of a fresh engine on its path, wherever the engine stood in between, with either root.

use crate::{
    ethereum_roots::{state_root, verify},
    kit::{builder, call, contract, env, eoa},
};
use phalanx::{
    Block, Done, Engine, Executor, GenesisAccount, RootKind, SnapshotAt,
    merkle::{Backend, BlockId, Memory, StoreConfig},
    revm::{
        context::TxEnv,
        primitives::{Address, B256, Bytes, TxKind, U256},
    },
};
use rand::{Rng as _, SeedableRng as _, seq::IndexedRandom as _};
use rand_chacha::ChaCha8Rng;
use std::{collections::BTreeMap, path::Path, sync::mpsc};

const COUNTER: u8 = 0xee;

fn genesis() -> Vec<GenesisAccount> {
    // sstore(caller, sload(caller) + callvalue); a value of zero changes nothing.
    let code = [0x33, 0x54, 0x34, 0x01, 0x33, 0x55, 0x00];
    let clears = [0x5f, 0x33, 0x55, 0x00];
    let mut accounts: Vec<_> = (1..=6).map(eoa).collect();
    accounts.extend([contract(COUNTER, &code), contract(0xef, &clears)]);
    accounts
}

fn open(dir: &Path, threads: usize, root: RootKind) -> Engine {
    // One of three rounds keeps values on disk.
    let memory = if threads == 2 { Memory::Cached { bytes: 1 << 20 } } else { Memory::Resident };
    let store = StoreConfig::new(Backend::File(dir.into())).with_memory(memory);
    builder().with_threads(threads).with_store(store).with_root(root).build().expect("a store")
}

/// Transactions for a block on the engine's present state.
fn transactions(rng: &mut ChaCha8Rng, engine: &Engine) -> Vec<TxEnv> {
    let mut nonces = BTreeMap::new();
    let mut txs = Vec::new();
    for _ in 0..rng.random_range(0..12) {
        let from = rng.random_range(1..=6u8);
        let stored =
            engine.state().account(&Address::repeat_byte(from)).expect("readable").map_or(0, |account| account.nonce);
        let nonce = nonces.entry(from).or_insert(stored);
        let mut tx = match rng.random_range(0..6) {
            0 => call(from, *nonce, Address::repeat_byte(COUNTER), rng.random_range(0..3)),
            1 => call(from, *nonce, Address::repeat_byte(0xef), 0),
            // A new account, visible to blocks on top.
            2 => call(from, *nonce, Address::repeat_byte(rng.random_range(0x20..0x24)), 1),
            _ => call(from, *nonce, Address::repeat_byte(rng.random_range(1..=6)), 5),
        };
        if rng.random_bool(0.15) {
            // Deploys three bytes: sload(0).
            tx.kind = TxKind::Create;
            tx.value = U256::ZERO;
            tx.data = Bytes::from_static(&[0x62, 0x5f, 0x54, 0x00, 0x5f, 0x52, 0x60, 3, 0x60, 29, 0xf3]);
        } else if rng.random_bool(0.2) {
            // Calls a contract that a sibling may have deployed and this branch has not.
            tx.kind = TxKind::Call(Address::repeat_byte(rng.random_range(1..=6)).create(rng.random_range(0..4)));
        }
        *nonce += 1;
        txs.push(tx);
    }
    txs
}

/// Executes `txs` on the engine's present state, in `staged` order for the DAG to have predictions.
fn run(engine: &mut Engine, txs: &[TxEnv]) -> phalanx::Merkleized {
    let env = env(engine.state().height().expect("genesis") + 1);
    let limits = phalanx::BlockLimits { max_txs: 1000, max_gas: u64::MAX };
    let block = engine.plan(txs, phalanx::Order::Given, limits).next_block(engine, &env);
    let executed = engine.execute(&env, txs, block.unwrap_or_else(|| Block::unpredicted(vec![]))).expect("execution");
    engine.merkleize(executed).expect("a root")
}

/// Root of a path on a fresh engine; Ethereum's by another implementation.
fn truth(path: &[Vec<TxEnv>], kind: RootKind) -> B256 {
    let mut engine = builder().with_executor(Executor::Sequential).build().expect("an engine in memory");
    let mut root = engine.genesis(genesis()).expect("a sound genesis");
    for txs in path {
        let merkleized = run(&mut engine, txs);
        root = merkleized.state_root();
        engine.commit(merkleized).expect("a commit").write.wait().expect("durable");
    }
    match kind {
        RootKind::Twigs => root,
        RootKind::Ethereum => state_root(&engine),
    }
}

/// Compares all heights that can be read with the chain, and proves accounts under Ethereum's root at each.
fn check_heights(rng: &mut ChaCha8Rng, engine: &Engine, chain: &[(Vec<Vec<TxEnv>>, B256)], kind: RootKind) {
    for (height, (_, root)) in chain.iter().enumerate() {
        let Ok(state) = engine.snapshot(SnapshotAt::Height(height as u64)) else { continue };
        assert_eq!(state.root(), *root, "height {height}");
        let accounts = [rng.random_range(1..=7), 0xee, 0xef, 0x21].map(Address::repeat_byte);
        for address in accounts {
            let slots = [Address::repeat_byte(rng.random_range(1..=6)).into_word().into(), U256::from(9)];
            let proof = state.prove_ethereum(&address, &slots).expect("held");
            assert_eq!(proof.is_some(), kind == RootKind::Ethereum);
            if let Some(proof) = proof {
                assert_eq!(proof.account.is_some(), state.account(&address).expect("readable").is_some());
                assert_eq!(proof.slots[0].value, state.storage(&address, &slots[0]).expect("readable"));
                verify(*root, &address, &proof);
            }
        }
    }
}

/// A callback, and a function that waits for it.
fn awaited() -> (Done, impl FnOnce()) {
    let (done, wait) = mpsc::channel();
    (Box::new(move |result| done.send(result).expect("the test waits")), move || {
        wait.recv().expect("called").expect("written");
    })
}

struct Known {
    parent: BlockId,
    path: Vec<Vec<TxEnv>>,
    root: B256,
    staged: bool,
}

#[test]
fn every_fork_equals_a_fresh_engine_on_its_path() {
    let seed = std::env::var("PHALANX_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0xb4a7);
    let rounds = std::env::var("PHALANX_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(6);
    for round in 0..rounds {
        let threads = [1, 2, 8][round as usize % 3];
        for kind in [RootKind::Twigs, RootKind::Ethereum] {
            println!("PHALANX_SEED={seed} round {round}, {threads} threads, {kind}");
            explore(&mut ChaCha8Rng::seed_from_u64(seed + round), threads, kind);
        }
    }
}

fn explore(rng: &mut ChaCha8Rng, threads: usize, kind: RootKind) {
    let dir = crate::kit::folder();
    let mut engine = open(dir.path(), threads, kind);
    engine.genesis(genesis()).expect("a sound genesis");
    let mut chain: Vec<(Vec<Vec<TxEnv>>, B256)> = vec![(Vec::new(), engine.state().root())];
    let mut held: BTreeMap<BlockId, Known> = BTreeMap::new();
    assert_eq!(chain[0].1, truth(&[], kind));
    for step in 0..60 {
        let committed = engine.committed();
        match rng.random_range(0..12) {
            0..=5 => {
                let parents: Vec<_> = held.keys().copied().chain([committed]).collect();
                let parent = *parents.choose(rng).expect("the committed block");
                engine.checkout(parent).expect("it is there");
                let txs = transactions(rng, &engine);
                let merkleized = run(&mut engine, &txs);
                let root = merkleized.state_root();
                let below = held.get(&parent).map_or_else(|| &chain[chain.len() - 1].0, |known| &known.path);
                let path = [below.as_slice(), &[txs]].concat();
                assert_eq!(root, truth(&path, kind), "step {step}");
                if rng.random_bool(0.1) {
                    // The block is dropped before it is a fork.
                    continue;
                }
                let tag = step.to_string().into_bytes();
                let (block, _) = engine.add_fork(merkleized, tag).expect("room");
                held.insert(block, Known { parent, path, root, staged: false });
            }
            6 | 7 => {
                let Some((block, known)) = pick(rng, &held) else { continue };
                let ready = known.parent == committed || held[&known.parent].staged;
                let (done, wait) = awaited();
                assert_eq!(engine.stage(block, done).is_ok(), ready, "step {step}");
                if ready {
                    wait();
                    held.get_mut(&block).expect("picked").staged = true;
                }
            }
            8 | 9 => {
                let children: Vec<_> =
                    held.iter().filter(|(_, known)| known.parent == committed).map(|(block, _)| *block).collect();
                let Some(block) = children.choose(rng).copied() else { continue };
                let (done, wait) = awaited();
                let promoted = engine.promote(block, vec![step as u8], done);
                assert_eq!(
                    promoted.is_ok(),
                    held[&block].staged,
                    "step {step}: a commit with a note needs a staged block"
                );
                if promoted.is_ok() {
                    wait();
                    let known = held.remove(&block).expect("picked");
                    assert_eq!((engine.state().root(), engine.note()), (known.root, &[step as u8][..]));
                    chain.push((known.path, known.root));
                }
            }
            10 => {
                if rng.random_bool(0.5) {
                    let Some((block, _)) = pick(rng, &held) else { continue };
                    engine.discard(block).expect("it is there");
                } else if chain.len() > 1 {
                    let back = rng.random_range(1..=chain.len().min(5) - 1);
                    chain.truncate(chain.len() - back);
                    engine.rewind(chain.len() as u64 - 1, b"back".to_vec()).expect("within the history");
                    assert_eq!((engine.state().root(), engine.note()), (chain[chain.len() - 1].1, &b"back"[..]));
                    assert!(engine.forks().is_empty());
                }
            }
            _ => {
                let note = engine.note().to_vec();
                drop(engine);
                engine = open(dir.path(), threads, kind);
                assert_eq!((engine.state().root(), engine.note()), (chain[chain.len() - 1].1, &note[..]));
                // Staged blocks are restored; blocks dropped in the meantime may be.
                let restored: BTreeMap<_, _> = engine.forks().into_iter().map(|held| (held.block, held)).collect();
                held.retain(|block, known| {
                    assert_eq!(known.staged, restored.contains_key(block), "step {step}");
                    known.staged
                });
                for block in restored.keys().filter(|block| !held.contains_key(block)) {
                    engine.discard(*block).unwrap_or_default();
                }
                check_heights(rng, &engine, &chain, kind);
            }
        }
        let there: BTreeMap<_, _> = engine.forks().into_iter().map(|fork| (fork.block, fork.root)).collect();
        held.retain(|block, known| {
            assert!(there.get(block).is_none_or(|root| *root == known.root.0), "step {step}");
            there.contains_key(block)
        });
        assert_eq!(there.len(), held.len(), "step {step}");
        // From any block the engine can go to any other.
        if let Some((block, known)) = pick(rng, &held) {
            engine.checkout(block).expect("it is there");
            assert_eq!(engine.state().root(), known.root, "step {step}");
        }
        if rng.random_bool(0.3) {
            engine.checkout(engine.committed()).expect("it is there");
            assert_eq!(engine.state().root(), chain[chain.len() - 1].1, "step {step}");
        }
    }
    check_heights(rng, &engine, &chain, kind);
}

fn pick<'h>(rng: &mut ChaCha8Rng, held: &'h BTreeMap<BlockId, Known>) -> Option<(BlockId, &'h Known)> {
    let at = rng.random::<u32>() as usize;
    held.iter().nth(at % held.len().max(1)).map(|(block, known)| (*block, known))
}

#[test]
fn dropping_a_fork_returns_the_engine_to_the_committed_block() {
    let mut engine = builder().build().expect("an engine in memory");
    let root = engine.genesis(genesis()).expect("a sound genesis");
    let merkleized = run(&mut engine, &[call(1, 0, Address::repeat_byte(2), 1)]);
    let (block, _) = engine.add_fork(merkleized, Vec::new()).expect("room");
    engine.checkout(block).expect("it is there");
    assert_ne!(engine.state().root(), root);
    let child = run(&mut engine, &[call(1, 1, Address::repeat_byte(2), 1)]);
    let (child, _) = engine.add_fork(child, Vec::new()).expect("room");
    engine.checkout(child).expect("it is there");
    assert_eq!(engine.discard(block).expect("it is there"), 2);
    assert_eq!((engine.position(), engine.state().root()), (engine.committed(), root));
    assert!(engine.checkout(child).is_err());
    assert!(engine.discard(block).is_err());
}

#[test]
fn a_block_executed_on_another_state_is_not_merkleized() {
    let mut engine = builder().build().expect("an engine in memory");
    engine.genesis(genesis()).expect("a sound genesis");
    let txs = [call(1, 0, Address::repeat_byte(2), 1)];
    let executed = engine.execute(&env(1), &txs, Block::unpredicted(vec![0])).expect("execution");
    let other = run(&mut engine, &txs);
    let (block, _) = engine.add_fork(other, Vec::new()).expect("room");
    engine.checkout(block).expect("it is there");
    assert!(matches!(engine.merkleize(executed), Err(phalanx::Error::Stale)));
    let child = run(&mut engine, &[call(1, 1, Address::repeat_byte(2), 1)]);
    assert!(engine.commit(child).is_err(), "the parent is not committed");
}

/// A transfer on 60 uncommitted blocks of 5,000 transfers costs what it costs on the committed block.
#[test]
fn a_deep_fork_costs_what_it_changes() {
    const DEPTH: u64 = 60;
    const WIDE: u64 = 5_000;
    let address = |number: u64| Address::from_word(U256::from(0x10000 + number).into());
    let mut engine = builder().with_threads(1).build().expect("an engine in memory");
    let rich =
        |number| GenesisAccount { address: address(number), balance: U256::from(1u64 << 60), ..Default::default() };
    engine.genesis((0..WIDE + 100).map(rich)).expect("a sound genesis");
    let transfer = |from: u64, nonce: u64, to: u64| TxEnv { caller: address(from), ..call(1, nonce, address(to), 1) };
    let hold = |engine: &mut Engine, parent: BlockId, txs: &[TxEnv]| {
        engine.checkout(parent).expect("it is there");
        let height = engine.state().height().expect("genesis") + 1;
        let executed = engine.execute_given(&env(height), txs, phalanx::Invalid::Refuse).expect("valid");
        let merkleized = engine.merkleize(executed).expect("a root");
        engine.add_fork(merkleized, Vec::new()).expect("room").0
    };
    let committed = engine.committed();
    let mut at = committed;
    for block in 0..DEPTH {
        let txs: Vec<_> = (0..WIDE).map(|from| transfer(from, block, 1_000_000 * (block + 1) + from)).collect();
        at = hold(&mut engine, at, &txs);
    }
    let mut best = [std::time::Duration::MAX; 2];
    let mut bytes = [0; 2];
    for round in 0..30 {
        for (place, parent) in [committed, at].into_iter().enumerate() {
            // Leaving the state and coming back is part of the time.
            engine.checkout(if parent == at { committed } else { at }).expect("it is there");
            let txs = [transfer(WIDE + round, 0, 7_000_000_000 + round)];
            let start = std::time::Instant::now();
            let held = hold(&mut engine, parent, &txs);
            best[place] = best[place].min(start.elapsed());
            bytes[place] = engine.fork_memory(held).expect("a fork");
            engine.discard(held).expect("it is there");
        }
    }
    println!("a transfer on the committed block and at depth {DEPTH}: {best:?}, {bytes:?} bytes");
    assert!(bytes[1] < 2 * bytes[0], "{bytes:?} bytes");
    // Twice is promised; a loaded machine is less exact.
    assert!(best[1] < 3 * best[0], "{best:?}");
}
