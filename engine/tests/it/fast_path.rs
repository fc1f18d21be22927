//! The fast path: plain transfers without the EVM end as in the EVM, in every edge case.

use crate::kit::{COINBASE, ETHER, contract};
use phalanx::{
    Block, BlockLimits, Engine, Executor, GenesisAccount, Invalid, Order, Outcome, Traces, Tuning,
    revm::{
        context::{BlockEnv, CfgEnv, TxEnv},
        primitives::{Address, B256, Bytes, TxKind, U256, hardfork::SpecId},
        state::Bytecode,
    },
};
use rand::{Rng as _, SeedableRng as _, seq::IndexedRandom as _};
use rand_chacha::ChaCha8Rng;

const SPECS: [SpecId; 10] = [
    SpecId::HOMESTEAD,
    SpecId::SPURIOUS_DRAGON,
    SpecId::ISTANBUL,
    SpecId::BERLIN,
    SpecId::LONDON,
    SpecId::SHANGHAI,
    SpecId::CANCUN,
    SpecId::PRAGUE,
    SpecId::OSAKA,
    SpecId::AMSTERDAM,
];
const SENDERS: u8 = 12;

fn env(rng: &mut ChaCha8Rng) -> BlockEnv {
    let beneficiary = *[COINBASE, Address::repeat_byte(1), Address::repeat_byte(0x31)].choose(rng).expect("an address");
    let gas_limit = *[30_000_000, 100_000, u64::MAX].choose(rng).expect("a limit");
    let basefee = *[0, 7, 1_000_000].choose(rng).expect("a fee");
    BlockEnv { number: U256::ONE, beneficiary, gas_limit, basefee, ..BlockEnv::default() }
}

fn genesis(rng: &mut ChaCha8Rng) -> Vec<GenesisAccount> {
    let mut accounts = Vec::new();
    for byte in 1..=SENDERS {
        let balance = match byte {
            1 => U256::MAX - U256::from(rng.random_range(0..3u64)),
            2 => U256::from(21_000 * 7 + rng.random_range(0..3u64)),
            3 => U256::from(rng.random_range(0..30_000_000u64)),
            _ => U256::from(10 * ETHER),
        };
        let nonce = if byte == 4 { u64::MAX - rng.random_range(0..3u64) } else { 0 };
        accounts.push(GenesisAccount { address: Address::repeat_byte(byte), balance, nonce, ..Default::default() });
    }
    // One account sends by delegation; another has code and may not send.
    let delegation = Bytecode::new_eip7702(Address::repeat_byte(0xc0)).original_bytes();
    for (byte, code) in [(5, delegation), (6, Bytes::from_static(&[0]))] {
        accounts[byte - 1].code = Some(code);
    }
    accounts.push(GenesisAccount { address: Address::repeat_byte(0x31), ..Default::default() });
    accounts.push(contract(0xc0, &[0x34, 0x5f, 0x55, 0x00]));
    accounts
}

fn transfer(rng: &mut ChaCha8Rng, from: u8, nonce: u64, env: &BlockEnv) -> TxEnv {
    let basefee = u128::from(env.basefee);
    let odd = |rng: &mut ChaCha8Rng| rng.random_bool(0.08);
    let to = match rng.random_range(0..12) {
        0 => Address::repeat_byte(from),
        1 => Address::with_last_byte(rng.random_range(0..12)),
        2 => Address::repeat_byte(0xc0),
        3 => Address::repeat_byte(0x31),
        4 => env.beneficiary,
        5 | 6 => Address::repeat_byte(rng.random_range(0x40..0x44)),
        _ => Address::repeat_byte(rng.random_range(1..=SENDERS)),
    };
    let tx_type = *[0, 0, 2, 2, 2, 1].choose(rng).expect("a type");
    let mut tx = TxEnv {
        tx_type,
        caller: Address::repeat_byte(from),
        gas_limit: *[21_000, 21_000, 50_000, 100_000, 250_000].choose(rng).expect("a limit"),
        gas_price: basefee + rng.random_range(0..5u128),
        gas_priority_fee: (tx_type == 2).then(|| rng.random_range(0..5)),
        kind: TxKind::Call(to),
        value: *[U256::ONE, U256::from(1000), U256::from(ETHER)].choose(rng).expect("a value"),
        nonce,
        chain_id: Some(1),
        ..Default::default()
    };
    if odd(rng) {
        tx.gas_limit = *[20_999, 21_001, 0, u64::MAX, 16_777_216, 16_777_217].choose(rng).expect("a limit");
    }
    if odd(rng) {
        tx.gas_price = *[0, basefee.saturating_sub(1), u128::MAX, u128::MAX / 21_000].choose(rng).expect("a price");
    }
    if odd(rng) {
        tx.gas_priority_fee = *[None, Some(u128::MAX), Some(tx.gas_price), Some(tx.gas_price.saturating_add(1))]
            .choose(rng)
            .expect("one");
    }
    if odd(rng) {
        tx.value = *[U256::ZERO, U256::MAX, U256::from(10 * ETHER)].choose(rng).expect("a value");
    }
    if odd(rng) {
        tx.nonce = *[0, nonce.wrapping_add(1), u64::MAX].choose(rng).expect("a nonce");
    }
    if odd(rng) {
        tx.chain_id = *[None, Some(2)].choose(rng).expect("a chain");
    }
    if rng.random_bool(0.25) {
        let length = *[1, 4, 68, 300, 2000].choose(rng).expect("a length");
        tx.data = (0..length).map(|_| if rng.random_bool(0.5) { 0 } else { 7 }).collect();
    }
    if odd(rng) {
        tx.access_list.0.push(alloy_eips::eip2930::AccessListItem { address: to, storage_keys: vec![B256::ZERO] });
    }
    if odd(rng) {
        tx.blob_hashes.push(B256::ZERO);
    }
    tx
}

/// Executor of the transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Runner {
    Dag,
    BlockStm,
    /// Without predictions, and one thread that runs nothing ahead.
    InOrder,
    Oracle,
}

/// Outcomes, root and access list of a block.
fn run(
    runner: Runner,
    (fast_path, lists): (bool, bool),
    threads: usize,
    cfg: &CfgEnv,
    (genesis, env, txs): &(Vec<GenesisAccount>, BlockEnv, Vec<TxEnv>),
) -> (Vec<Outcome>, B256, Option<Bytes>) {
    let executor = match runner {
        Runner::Dag | Runner::InOrder => Executor::Dag,
        Runner::BlockStm => Executor::BlockStm,
        Runner::Oracle => Executor::Sequential,
    };
    let builder = Engine::builder()
        .with_force_parallel(true)
        .with_tuning(Tuning::new().with_fast_path(fast_path).with_traces(Traces::Checked))
        .with_cfg(cfg.clone())
        .with_access_lists(lists)
        .with_executor(executor);
    let mut engine = builder.with_threads(threads).build().expect("an engine in memory");
    engine.genesis(genesis.iter().cloned()).expect("a sound genesis");
    let block = match runner {
        Runner::Dag if lists => {
            let limits = BlockLimits { max_txs: txs.len(), max_gas: u64::MAX };
            // A transaction with a huge gas limit ends a planned block.
            engine
                .plan(txs, Order::Given, limits)
                .next_block(&engine, env)
                .filter(|block| block.order().len() == txs.len())
        }
        Runner::Dag => None,
        _ => Some(Block::unpredicted((0..).take(txs.len()).collect())),
    };
    let executed = match block {
        Some(block) => engine.execute(env, txs, block).expect("execution"),
        None => engine.execute_given(env, txs, Invalid::Skip).expect("execution"),
    };
    let merkleized = engine.merkleize(executed).expect("a root");
    let root = merkleized.state_root();
    let committed = engine.commit(merkleized).expect("a commit");
    let list = committed.block.access_list().map(|list| list.rlp().clone());
    (committed.block.into_outcomes().1, root, list)
}

#[test]
fn transfers_on_the_fast_path_end_as_in_the_evm() {
    let seed = std::env::var("PHALANX_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0xfa57);
    let cases = std::env::var("PHALANX_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(100);
    let mut succeeded = 0;
    for case in 0..cases {
        let rng = &mut ChaCha8Rng::seed_from_u64(seed + case);
        let spec = *SPECS.choose(rng).expect("a spec");
        let mut cfg = CfgEnv::new_with_spec(spec);
        cfg.tx_chain_id_check = rng.random_bool(0.7);
        if rng.random_bool(0.1) {
            cfg.disable_nonce_check = true;
        }
        let (env, accounts) = (env(rng), genesis(rng));
        let mut nonces = [0; SENDERS as usize + 1];
        nonces[4] = accounts[3].nonce;
        let txs: Vec<_> = (0..rng.random_range(1..40))
            .map(|_| {
                let from = rng.random_range(1..=SENDERS);
                let nonce = nonces[usize::from(from)];
                nonces[usize::from(from)] = nonce.saturating_add(1);
                transfer(rng, from, nonce, &env)
            })
            .collect();
        let block = (accounts, env, txs);
        let truth = run(Runner::Oracle, (false, true), 1, &cfg, &block);
        let lists = rng.random_bool(0.5);
        let runs = [
            (Runner::Dag, (true, lists), 1),
            (Runner::Dag, (true, !lists), 3),
            (Runner::Dag, (false, lists), 2),
            (Runner::BlockStm, (true, lists), 1),
            (Runner::BlockStm, (true, !lists), 3),
            (Runner::InOrder, (true, lists), 1),
        ];
        for (runner, options, threads) in runs {
            let mut ours = run(runner, options, threads, &cfg, &block);
            ours.2 = ours.2.or_else(|| truth.2.clone());
            for (index, (ours, truth)) in ours.0.iter().zip(&truth.0).enumerate() {
                assert_eq!(ours, truth, "PHALANX_SEED={seed} case {case}, {spec:?}, {runner:?}: {:#?}", block.2[index]);
            }
            assert_eq!(ours, truth, "PHALANX_SEED={seed} case {case}, {spec:?}, {runner:?}");
        }
        succeeded += truth.0.iter().filter(|outcome| outcome.is_success()).count();
    }
    assert!(succeeded as u64 > 3 * cases, "only {succeeded} transfers succeed in {cases} cases");
}
