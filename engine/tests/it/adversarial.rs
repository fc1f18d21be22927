//! Adversarial transactions: they break predictions, orders and deferred rewards.

use crate::kit::{Asm, COINBASE, Case, ETHER, base_fee, builder, call, contract, env, eoa, prove};
use phalanx::{
    BlockLimits, Executor, GenesisAccount, Order, Outcome,
    paralyze::StateKey,
    revm::{
        context::{BlockEnv, TxEnv},
        context_interface::result::InvalidTransaction,
        primitives::{Address, Bytes, TxKind, U256},
        state::AccountInfo,
    },
};
use rand::{Rng as _, SeedableRng as _, seq::SliceRandom as _};

const LIMITS: BlockLimits = BlockLimits { max_txs: 40, max_gas: u64::MAX };

/// `sstore(sload(0) + 1, 1); sstore(0, sload(0) + 1)`: the written slot depends on the number of earlier calls.
const COUNTER_WRITES_ITS_COUNT: [u8; 16] =
    [0x5f, 0x54, 0x60, 1, 0x01, 0x60, 1, 0x81, 0x55, 0x5f, 0x55, 0x00, 0x00, 0x00, 0x00, 0x00];
/// `sstore(calldataload(0), balance(coinbase))`.
const LOOKS_AT_COINBASE: [u8; 6] = [0x41, 0x31, 0x5f, 0x35, 0x55, 0x00];
/// Deploys one byte of code, `stop`.
const DEPLOYS_STOP: [u8; 10] = [0x60, 0x00, 0x5f, 0x53, 0x60, 0x01, 0x5f, 0xf3, 0x00, 0x00];

#[test]
fn a_slot_that_depends_on_earlier_transactions_escapes_and_settles() {
    let mut genesis: Vec<_> = (1..=30).map(eoa).collect();
    genesis.push(contract(0xee, &COUNTER_WRITES_ITS_COUNT));
    let counter = Address::repeat_byte(0xee);
    let txs: Vec<_> = (0..90u64).map(|i| call(1 + (i % 30) as u8, i / 30, counter, 0)).collect();
    let (free, given) = prove(&genesis, &txs, LIMITS, env);
    assert!(free.escapes > 0, "the snapshot cannot know the count");
    assert!(free.alone > 0, "repeated escapes are deferred to serial");
    assert!(free.blocks.len() < 10, "{} blocks: a chain of escapes must not hold up the chain", free.blocks.len());
    assert!(given.escapes > 0, "nor can it in given order");
    assert_eq!(given.fallbacks, 2, "Block-STM takes over where nearly all of forty are mispredicted, and ten settle");
    for ran in [&free, &given] {
        assert_eq!(ran.succeeded(), 90);
        let count = ran.engine.state().storage(&counter, &U256::ZERO).expect("a word");
        assert_eq!(count, U256::from(90));
    }
}

#[test]
fn a_read_of_the_beneficiary_sees_all_earlier_rewards() {
    let mut genesis: Vec<_> = (1..=30).map(eoa).collect();
    genesis.push(contract(0xee, &LOOKS_AT_COINBASE));
    let looker = Address::repeat_byte(0xee);
    let txs: Vec<_> = (0..120u64)
        .map(|i| {
            let from = 1 + (i % 30) as u8;
            match i % 4 {
                0 => TxEnv { data: U256::from(i).to_be_bytes_vec().into(), ..call(from, i / 30, looker, 0) },
                1 => call(from, i / 30, COINBASE, i),
                _ => call(from, i / 30, Address::repeat_byte(0x80 + from), 1),
            }
        })
        .collect();
    let (free, given) = prove(&genesis, &txs, LIMITS, env);
    assert_eq!((free.succeeded(), given.succeeded()), (120, 120));
    let seen = given.engine.state().storage(&looker, &U256::from(116)).expect("a word");
    assert!(seen > U256::from(100u64 * 21_000 * 3), "rewards were visible in the middle of a block: {seen}");
}

/// A transaction is predicted to read the beneficiary; its neighbour is not, and reads it too.
#[test]
fn an_unpredicted_read_of_the_beneficiary_escapes() {
    use phalanx::revm::{context_interface::transaction::AccessListItem, primitives::B256};
    let mut genesis: Vec<_> = (1..=6).map(eoa).collect();
    genesis.push(contract(0xee, &LOOKS_AT_COINBASE));
    genesis.push(GenesisAccount { address: COINBASE, balance: U256::from(ETHER), ..Default::default() });
    let looker = Address::repeat_byte(0xee);
    // Every call selects a function of its own, so no template predicts it.
    let slot = |n: u64| -> U256 { U256::from(n) << 224usize };
    let look = |from: u8, n: u64| TxEnv { data: slot(n).to_be_bytes_vec().into(), ..call(from, 0, looker, 0) };
    let declared = |from: u8, n: u64| {
        let storage_keys = vec![B256::from(slot(n))];
        TxEnv { access_list: vec![AccessListItem { address: looker, storage_keys }].into(), ..look(from, n) }
    };
    let txs = [look(1, 1), declared(2, 2), call(3, 0, COINBASE, 0), declared(4, 4), look(5, 5), declared(6, 6)];
    let (free, given) = prove(&genesis, &txs, LIMITS, env);
    assert_eq!((free.succeeded(), given.succeeded()), (6, 6));
    assert!(free.escapes > 0);
    for n in [1, 2, 4, 5, 6u64] {
        let seen = given.engine.state().storage(&looker, &slot(n)).expect("a word");
        assert!(seen >= U256::from(ETHER), "slot {n}: {seen}");
    }
}

/// revm pays the reward into an account that the transaction has destroyed, and loses it.
#[test]
fn a_beneficiary_that_is_created_and_destroyed_keeps_no_reward() {
    let genesis: Vec<_> = (1..=4).map(eoa).collect();
    let doomed = Address::repeat_byte(1).create(0);
    // selfdestruct(caller), in the init code
    let create =
        TxEnv { kind: TxKind::Create, data: Bytes::from_static(&[0x33, 0xff]), ..call(1, 0, Address::ZERO, 0) };
    let txs = [create, call(2, 0, Address::repeat_byte(3), 1)];
    let rewarding = |number| BlockEnv { beneficiary: doomed, ..env(number) };
    let (free, given) = prove(&genesis, &txs, LIMITS, rewarding);
    assert_eq!((free.succeeded(), given.succeeded()), (2, 2));
    let balance = given.engine.state().account(&doomed).expect("readable").expect("paid by the second").balance;
    assert_eq!(balance, U256::from(21_000 * 3));
}

/// Thousands of listed keys and storage reads, from one sender each: the work stays in proportion.
#[test]
fn large_access_sets_are_predicted_and_executed() {
    use phalanx::revm::{context_interface::transaction::AccessListItem, primitives::B256};
    // for i in calldataload(0)..0: sload(i)
    let reads_many = [0x5f, 0x35, 0x5b, 0x80, 0x54, 0x50, 0x60, 1, 0x90, 0x03, 0x80, 0x60, 2, 0x57, 0x00];
    let mut genesis: Vec<_> = (1..=6).map(eoa).collect();
    genesis.push(contract(0xee, &reads_many));
    let reader = Address::repeat_byte(0xee);
    let data = |n: u64| Bytes::from(U256::from(n).to_be_bytes_vec());
    let list = |n: u64| {
        let storage_keys = (0..n).map(|slot| B256::from(U256::from(slot))).collect();
        vec![AccessListItem { address: reader, storage_keys }].into()
    };
    let txs = [
        TxEnv { gas_limit: 16_000_000, data: data(5_000), ..call(1, 0, reader, 0) },
        TxEnv { gas_limit: 16_000_000, data: data(900), access_list: list(1_000), ..call(2, 0, reader, 0) },
        TxEnv { gas_limit: 16_000_000, data: data(900), access_list: list(5_000), ..call(3, 0, reader, 0) },
        TxEnv { gas_limit: 21_000, access_list: list(100_000), ..call(4, 0, reader, 0) },
    ];
    let (free, given) = prove(&genesis, &txs, LIMITS, env);
    assert_eq!((free.succeeded(), given.succeeded()), (3, 3), "the last is invalid: it cannot pay");
    assert_eq!(free.escapes, 0);
}

#[test]
fn the_beneficiary_sends_receives_and_is_rewarded() {
    let mut genesis: Vec<_> = (1..=10).map(eoa).collect();
    genesis.push(GenesisAccount { address: COINBASE, balance: U256::from(ETHER), ..Default::default() });
    let mut txs = Vec::new();
    for nonce in 0..20u64 {
        for from in 1..=10u8 {
            let to = if nonce % 3 == 0 { COINBASE } else { Address::repeat_byte(from % 10 + 1) };
            txs.push(call(from, nonce, to, 5));
        }
        txs.push(TxEnv { caller: COINBASE, ..call(0, nonce, Address::repeat_byte(1), 9) });
    }
    let (free, given) = prove(&genesis, &txs, LIMITS, env);
    assert_eq!((free.succeeded(), given.succeeded()), (txs.len(), txs.len()));
}

/// The graph is made with the plan, for the rewards of the planned beneficiary.
#[test]
fn a_block_may_pay_another_beneficiary_than_planned() {
    let mut genesis: Vec<_> = (1..=30).map(eoa).collect();
    let poor = Address::repeat_byte(0xbe);
    genesis.push(GenesisAccount { address: poor, balance: U256::from(1), ..Default::default() });
    let mut txs: Vec<_> = (1..=30).map(|from| call(from, 0, Address::repeat_byte(from % 30 + 1), 5)).collect();
    // The beneficiary can pay for this only with the rewards of other transactions.
    txs.push(TxEnv { gas_limit: 21_000, gas_price: 10, ..call(0xbe, 0, Address::repeat_byte(1), 9) });
    let paid = BlockEnv { beneficiary: poor, ..env(1) };
    let run = |planned: &BlockEnv, executor, threads| {
        let mut engine = builder().with_executor(executor).with_threads(threads).build().expect("an engine");
        engine.genesis(genesis.iter().cloned()).expect("a sound genesis");
        let mut planner = engine.plan(&txs, Order::Given, LIMITS);
        let block = planner.next_block(&engine, planned).expect("a block");
        let executed = engine.execute(&paid, &txs, block).expect("execution");
        let committed = engine.merkleize(executed).and_then(|merkleized| engine.commit(merkleized)).expect("a commit");
        (committed.block.outcomes().iter().filter(|outcome| outcome.is_success()).count(), committed.state_root)
    };
    let truth = run(&paid, Executor::Sequential, 1);
    assert_eq!(truth.0, 31);
    for threads in [1, 2, 4] {
        assert_eq!(run(&paid, Executor::Dag, threads), truth, "planned for it, {threads} threads");
        assert_eq!(run(&env(1), Executor::Dag, threads), truth, "planned for another, {threads} threads");
    }
}

#[test]
fn exactly_the_invalid_transactions_are_skipped_with_their_reason() {
    let genesis: Vec<_> = (1..=10).map(eoa).collect();
    let to = Address::repeat_byte(0x99);
    let mut txs: Vec<_> = (1..=10).map(|from| call(from, 0, to, 1)).collect();
    txs.push(call(1, 5, to, 1)); // nonce gap
    txs.push(call(2, 0, to, 1)); // replay
    txs.push(call(3, 1, to, 10 * ETHER)); // too poor
    txs.push(call(3, 1, to, 1)); // valid after the skipped one
    txs.push(TxEnv { chain_id: Some(9), ..call(4, 1, to, 1) });
    txs.push(TxEnv { gas_limit: 20_999, ..call(5, 1, to, 1) });
    txs.push(TxEnv { gas_price: 6, gas_priority_fee: Some(1), ..call(6, 1, to, 1) }); // below the base fee
    txs.push(call(0x77, 0, to, 1)); // no such account
    let (free, given) = prove(&genesis, &txs, LIMITS, env);
    for ran in [free, given] {
        let reason = |tx: u32| {
            ran.outcomes().find(|(index, _)| *index == tx).and_then(|(_, outcome)| match outcome {
                Outcome::Skipped(reason) => Some(reason.clone()),
                Outcome::Executed(_) => None,
            })
        };
        assert_eq!(reason(10), Some(InvalidTransaction::NonceTooHigh { tx: 5, state: 1 }));
        assert_eq!(reason(11), Some(InvalidTransaction::NonceTooLow { tx: 0, state: 1 }));
        assert!(matches!(reason(12), Some(InvalidTransaction::LackOfFundForMaxFee { .. })));
        assert_eq!(reason(13), None);
        assert_eq!(reason(14), Some(InvalidTransaction::InvalidChainId));
        assert!(matches!(reason(15), Some(InvalidTransaction::CallGasCostMoreThanGasLimit { .. })));
        assert_eq!(reason(16), Some(InvalidTransaction::GasPriceLessThanBasefee));
        assert!(matches!(reason(17), Some(InvalidTransaction::LackOfFundForMaxFee { .. })));
        assert_eq!(ran.succeeded(), 11);
    }
}

#[test]
fn contracts_are_created_called_and_kept() {
    let genesis: Vec<_> = (1..=10).map(eoa).collect();
    let created = |by: u8| Address::repeat_byte(by).create(0);
    let create = |from| TxEnv {
        kind: TxKind::Create,
        data: Bytes::from_static(&DEPLOYS_STOP),
        ..call(from, 0, Address::ZERO, 0)
    };
    let mut txs: Vec<_> = (1..=10).map(create).collect();
    // Payments to contracts just created: plain transfers on the snapshot, calls in their turn.
    txs.extend((1..=10).map(|from| call(from, 1, created(from % 10 + 1), 7)));
    txs.extend((1..=10).map(|from| call(from, 2, created(from), 0)));
    let (free, given) = prove(&genesis, &txs, LIMITS, env);
    for ran in [free, given] {
        let AccountInfo { nonce, balance, .. } =
            ran.engine.state().account(&created(3)).expect("readable").expect("created");
        assert_eq!((nonce, balance), (1, U256::from(7)));
        assert_eq!(ran.succeeded(), 30);
    }
}

/// revm does not return a transfer that overflows its payee's balance to the payer, and forgets that only if nothing touches the
/// payer after it reverts. The reward of the block touches it.
#[test]
fn an_overflowing_transfer_of_the_beneficiary_ends_as_in_revm() {
    let (pays, full) = (Address::repeat_byte(0xee), Address::repeat_byte(0xdd));
    let code = Asm::new().call(0xf1, full, 5, 50_000).ops(&[0x50, 0x60, 0, 0x60, 0, 0xfd]).build();
    for fork in ["London", "Osaka"] {
        let mut case = Case::new(fork).with((1..=6).map(eoa)).with([
            GenesisAccount { balance: U256::from(12), ..contract(0xee, &code) },
            GenesisAccount { address: full, balance: U256::MAX - U256::from(4), ..Default::default() },
        ]);
        let price = u128::from(base_fee(&case.rules)) + 1;
        let tx = |from: u8, to| TxEnv { gas_price: price, ..call(from, 0, to, 0) };
        let txs = [tx(1, pays), tx(2, full), tx(3, pays), tx(4, Address::repeat_byte(1)), tx(5, pays), tx(6, full)];
        case = case.block_with(txs, |body| body.header.beneficiary = pays);
        let proof = case.prove();
        let ended: Vec<_> = (0..6).map(|tx| proof.succeeded(tx)).collect();
        assert_eq!(ended, [false, true, false, true, false, true], "{fork}");
        assert!(proof.balance(pays) % U256::from(ETHER) < U256::from(1_000_000), "rewards alone, less what is lost");
    }
}

#[test]
fn wrong_access_lists_cost_only_time() {
    use phalanx::revm::{context_interface::transaction::AccessListItem, primitives::B256};
    let mut genesis: Vec<_> = (1..=20).map(eoa).collect();
    genesis.push(contract(0xee, &LOOKS_AT_COINBASE));
    let looker = Address::repeat_byte(0xee);
    let txs: Vec<_> = (0..60u64)
        .map(|i| {
            let named = if i % 2 == 0 { i } else { 1_000 + i };
            let storage_keys = vec![B256::from(U256::from(named)); 2];
            let access_list = vec![AccessListItem { address: looker, storage_keys }].into();
            let data = U256::from(i).to_be_bytes_vec().into();
            TxEnv { access_list, data, ..call(1 + (i % 20) as u8, i / 20, looker, 0) }
        })
        .collect();
    let (free, given) = prove(&genesis, &txs, LIMITS, env);
    assert_eq!((free.succeeded(), given.succeeded()), (60, 60));
    assert!(free.escapes >= 30, "the lists omit the beneficiary");
}

/// Random blocks of everything above, with self-transfers and transfers to precompiles, contracts and absent accounts.
#[test]
fn random_blocks_equal_sequential_revm() {
    for seed in 0..40 {
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
        let mut genesis: Vec<_> = (1..=12).map(eoa).collect();
        genesis.push(contract(0xe1, &COUNTER_WRITES_ITS_COUNT));
        genesis.push(contract(0xe2, &LOOKS_AT_COINBASE));
        // Its solvency may depend on rewards within the block.
        genesis.push(GenesisAccount { address: COINBASE, balance: U256::from(29_900_000), ..Default::default() });
        let mut nonces = [0u64; 13];
        let mut txs = Vec::new();
        for _ in 0..120 {
            let from = rng.random_range(1..=12u8);
            let nonce = nonces[from as usize];
            let tx = match rng.random_range(0..12) {
                0 => call(from, nonce, Address::repeat_byte(0xe1), 0),
                1 => {
                    let slot = U256::from(rng.random_range(0..3u64));
                    TxEnv { data: slot.to_be_bytes_vec().into(), ..call(from, nonce, Address::repeat_byte(0xe2), 0) }
                }
                2 => call(from, nonce, COINBASE, rng.random_range(0..3)),
                3 => call(from, nonce, Address::repeat_byte(from), 5),
                4 => call(from, nonce, Address::with_last_byte(4), 5),
                5 => call(from, nonce, Address::repeat_byte(0xf0), 0),
                6 => TxEnv {
                    kind: TxKind::Create,
                    data: Bytes::from_static(&DEPLOYS_STOP),
                    ..call(from, nonce, Address::ZERO, rng.random_range(0..2))
                },
                7 => call(from, nonce, Address::repeat_byte(rng.random_range(1..=12)).create(0), 3),
                8 if rng.random_bool(0.5) => call(from, nonce + 3, Address::repeat_byte(1), 1),
                9 if rng.random_bool(0.3) => {
                    let nonce = nonces[0];
                    nonces[0] += 1;
                    txs.push(TxEnv {
                        caller: COINBASE,
                        ..call(0, nonce, Address::repeat_byte(1), rng.random_range(0..3))
                    });
                    continue;
                }
                _ => call(from, nonce, Address::repeat_byte(rng.random_range(1..=14)), rng.random_range(0..9)),
            };
            nonces[from as usize] += u64::from(tx.nonce == nonce);
            txs.push(tx);
        }
        if seed % 2 == 0 {
            let at = rng.random_range(0..txs.len());
            txs[at..].shuffle(&mut rng);
        }
        println!("seed {seed}");
        let limits = BlockLimits { max_txs: rng.random_range(1..80), max_gas: u64::MAX };
        prove(&genesis, &txs, limits, env);
    }
}

#[test]
fn a_plan_predicts_the_keys_of_the_rules() {
    let genesis: Vec<_> = (1..=2).map(eoa).collect();
    let mut engine = crate::kit::builder().build().expect("an engine in memory");
    engine.genesis(genesis).expect("a sound genesis");
    let txs = [call(1, 0, Address::repeat_byte(2), 1)];
    let mut planner = engine.plan(&txs, phalanx::Order::Free, LIMITS);
    let block = planner.next_block(&engine, &env(1)).expect("a block");
    let mut keys = block.keys().to_vec();
    keys.sort_unstable();
    assert_eq!(keys, [1, 2].map(|byte| StateKey::Basic(Address::repeat_byte(byte))));
    assert_eq!((block.order(), block.frames()), (&[0][..], 1));
    assert!(planner.next_block(&engine, &env(2)).is_none());
}
