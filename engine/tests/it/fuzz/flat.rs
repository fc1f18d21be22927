//! Memory of engines that run for long: honest blocks between hostile ones, on 1, 2, 8 and 32 threads. Nothing that does not
//! commit may stay: wrong lists full of codes, invalid blocks, dropped forks that deploy, delegations that change.
//!
//! `PHALANX_FLAT_BLOCKS` sets the number of blocks. The measured process runs nothing else.

use crate::kit::{Asm, Body, Case, call, contract, deploys, eoa, header};
use alloy_rlp::Encodable as _;
use phalanx::{
    BlockError, Engine, Executor, Hints,
    eip7928::{AccountChanges, BlockAccessIndex, CodeChange},
    merkle::{Backend, Durability, StoreConfig},
    revm::{
        bytecode::opcode::{CODECOPY, POP},
        context::{TxEnv, either::Either},
        context_interface::transaction::{Authorization, RecoveredAuthority, RecoveredAuthorization},
        primitives::{Address, Bytes, TxKind, U256, keccak256},
    },
};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

/// Growth after the first tenth that is noise of the allocator and of caches that fill, in bytes.
const SLACK: usize = 48 << 20;

/// Memory of the place of a code in the store, in bytes: a store keeps all codes that blocks committed.
const CODE_PLACE: usize = 96;

/// Commits between two prunings.
const PRUNING: u64 = 64;

/// Set in the process that is measured.
const CHILD: &str = "PHALANX_FLAT_CHILD";

/// Resident memory of the process, in bytes.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).expect("pages") * 4096
}

/// Code that exists once: 1 KiB of no use behind a counter.
fn unique(rng: &mut ChaCha8Rng) -> Vec<u8> {
    let mut code = Asm::new().count(0).build();
    code.push(0);
    code.extend((0..1024).map(|_| [POP, CODECOPY, rng.random_range(0x60..0x80)][rng.random_range(0..3)]));
    code
}

struct Chain {
    nonces: [u64; 17],
    authorized: u64,
    number: u64,
}

impl Chain {
    /// Transfers, calls and a new delegation, on accounts that exist.
    fn honest(&mut self, rng: &mut ChaCha8Rng) -> Vec<TxEnv> {
        let mut txs = Vec::new();
        for _ in 0..12 {
            let from = rng.random_range(1..=16u8);
            let to = if rng.random() { 0xee } else { rng.random_range(1..=16) };
            let mut tx = call(from, self.nonces[usize::from(from)], Address::repeat_byte(to), 0);
            self.nonces[usize::from(from)] += 1;
            if rng.random_bool(0.1) {
                let target = Address::from_word(U256::from(rng.random::<u128>()).into());
                let authorization = Authorization { chain_id: U256::ONE, address: target, nonce: self.authorized };
                self.authorized += 1;
                let authority = RecoveredAuthority::Valid(Address::repeat_byte(0xd0));
                tx.tx_type = 4;
                tx.authorization_list =
                    vec![Either::Right(RecoveredAuthorization::new_unchecked(authorization, authority))];
            }
            txs.push(tx);
        }
        txs
    }

    /// A transaction that deploys unique code.
    fn deployment(&self, rng: &mut ChaCha8Rng) -> TxEnv {
        let code = unique(rng);
        let tx = call(1, self.nonces[1], Address::ZERO, 0);
        TxEnv { kind: TxKind::Create, gas_limit: 2_000_000, data: deploys(Asm::new(), &code), ..tx }
    }
}

fn body(case: &Case, number: u64, txs: Vec<TxEnv>) -> Body {
    Body { header: header(&case.rules, number), txs, ommers: Vec::new(), withdrawals: Some(Vec::new()) }
}

/// A list that names many codes, for a block that has none of them.
fn full_of_codes(rng: &mut ChaCha8Rng) -> Bytes {
    let account = |number: u64| {
        let mut changes = AccountChanges::new(Address::from_word(U256::from(number + 1).into()));
        let code = rng.random::<[u8; 8]>().to_vec();
        changes.code_changes.push(CodeChange::new(BlockAccessIndex::new(1), code.into()));
        changes
    };
    let mut out = Vec::new();
    (0..1_500).map(account).collect::<Vec<_>>().encode(&mut out);
    out.into()
}

/// Blocks that must leave nothing.
fn hostile(rng: &mut ChaCha8Rng, case: &Case, chain: &Chain, engine: &mut Engine) {
    let refused = |result: Result<phalanx::Executed, BlockError>| match result {
        Err(BlockError::Engine(error)) => panic!("{error}"),
        Err(_) => {}
        Ok(_) => panic!("a wrong block is accepted"),
    };
    match rng.random_range(0..4) {
        0 => {
            let block = body(case, chain.number, vec![call(2, chain.nonces[2], Address::repeat_byte(3), 1)]);
            let list = full_of_codes(rng);
            let hints = Hints::AccessList { rlp: &list, hash: keccak256(&list) };
            refused(engine.execute_block(&block.payload(), hints));
        }
        1 => {
            let last = call(5, chain.nonces[5] + 9, Address::repeat_byte(6), 1);
            let block = body(case, chain.number, vec![chain.deployment(rng), last]);
            refused(engine.execute_block(&block.payload(), Hints::Predict));
        }
        2 => {
            let block = body(case, chain.number, vec![chain.deployment(rng)]);
            let executed = engine.execute_block(&block.payload(), Hints::Predict).expect("a valid block");
            let committed = engine.committed();
            let merkleized = engine.merkleize(executed).expect("a root");
            let (fork, _) = engine.add_fork(merkleized, Vec::new()).expect("room");
            engine.checkout(fork).expect("it is there");
            engine.discard(fork).expect("it is there");
            engine.checkout(committed).expect("it is there");
        }
        _ => {
            let block = body(case, chain.number, vec![chain.deployment(rng)]);
            let garbage: Vec<u8> = (0..200).map(|_| rng.random()).collect();
            drop(engine.execute_block(&block.payload(), Hints::Exceptions(&garbage)).expect("a valid block"));
        }
    }
}

#[test]
fn engines_that_run_for_long_keep_their_size() {
    if std::env::var_os(CHILD).is_some() {
        return run();
    }
    let mut child = std::process::Command::new(std::env::current_exe().expect("the test's program"));
    let name = "fuzz::flat::engines_that_run_for_long_keep_their_size";
    let ended = child.args(["--exact", name, "--nocapture"]).env(CHILD, "1").status().expect("a process");
    assert!(ended.success(), "{ended}");
}

fn run() {
    let blocks = super::number("PHALANX_FLAT_BLOCKS").unwrap_or(600);
    let case =
        Case::new("Osaka").with((1..=16).map(eoa)).with([eoa(0xd0), contract(0xee, &Asm::new().count(0).build())]);
    let mut rng = ChaCha8Rng::seed_from_u64(40);
    let mut engines: Vec<(Engine, tempfile::TempDir)> = [1, 2, 8, 32]
        .map(|threads| {
            let dir = crate::kit::folder();
            let store = StoreConfig::new(Backend::File(dir.path().into())).with_durability(Durability::None);
            let executor = if threads == 2 { Executor::BlockStm } else { Executor::Dag };
            let mut engine = Engine::builder()
                .with_store(store)
                .with_chain(case.rules.clone())
                .with_executor(executor)
                .with_threads(threads)
                .with_access_lists(threads == 1)
                .with_pruning(PRUNING)
                .build()
                .expect("an engine");
            engine.genesis(case.genesis.iter().cloned()).expect("a sound genesis");
            (engine, dir)
        })
        .into();
    let mut chain = Chain { nonces: [0; 17], authorized: 0, number: 10 };
    let mut warm = 0;
    for block in 0..blocks {
        for (engine, _) in &mut engines {
            hostile(&mut rng, &case, &chain, engine);
        }
        let block_body = body(&case, chain.number, chain.honest(&mut rng));
        let mut roots = Vec::new();
        for (engine, _) in &mut engines {
            let executed = engine.execute_block(&block_body.payload(), Hints::Predict).expect("a valid block");
            let merkleized = engine.merkleize(executed).expect("a root");
            roots.push(merkleized.state_root());
            engine.commit(merkleized).expect("a commit").write.wait().expect("written");
        }
        assert!(roots.iter().all(|root| *root == roots[0]), "block {block}");
        chain.number += 1;
        if block == blocks / 10 {
            warm = resident();
        }
        if block % (blocks / 10).max(1) == 0 {
            println!("block {block}: {} MB", resident() >> 20);
        }
    }
    let end = resident();
    println!("{blocks} blocks on four engines: {} MB after a tenth, {} MB at the end", warm >> 20, end >> 20);
    let places = chain.authorized as usize * engines.len() * CODE_PLACE;
    println!("{} codes of delegations, whose places take at most {} MB", chain.authorized, places >> 20);
    assert!(end < warm + SLACK + places, "{} MB after a tenth, {} MB at the end", warm >> 20, end >> 20);
}
