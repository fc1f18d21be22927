//! The loads of tokens and pools under stock revm. In any order, transactions end as they are built to; the check
//! passes and detects any single wrong value.
//!
//! `PHALANX_SEED` is the first seed of the random orders and `PHALANX_SEEDS` how many there are per load.

#![expect(clippy::unwrap_used, reason = "the helpers are tests too")]

use crate::common::{Db, Lie, Lying, balance, database, execute, run, shuffle_by_sender};
use phalanx_workloads::{
    Amm, CheckError, ConfigError, HotSide, Mix, Mixed, PhalanxPool, PhalanxToken, Pools, TransferLoad, Workload,
};
use revm::{
    DatabaseRef,
    context::TxEnv,
    primitives::{Address, B256, TxKind, U256, hardfork::SpecId},
};
use std::collections::{HashMap, HashSet, VecDeque};

const fn pools(count: u32, hot_share: f64) -> Pools {
    Pools { count, hot_share }
}

fn load(accounts: u64, txs: u64, seed: u64) -> TransferLoad {
    TransferLoad { accounts, txs, seed, ..Default::default() }
}

/// Few accounts and pools, contended in every way, so that all of them meet.
fn workloads() -> Vec<Box<dyn Workload>> {
    let mut workloads: Vec<Box<dyn Workload>> = Vec::new();
    let skews = [(0.0, 1, HotSide::Sender), (0.6, 3, HotSide::Sender), (1.0, 1, HotSide::Sender)];
    let sides = [(0.5, 5, HotSide::Receiver), (0.8, 4, HotSide::Both)];
    for (seed, (alpha, gamma, hot)) in (0..).zip(skews.into_iter().chain(sides)) {
        let load = TransferLoad { alpha, gamma, hot, ..load(120, 700, seed) };
        for pools in [pools(1, 0.0), pools(7, 0.0), pools(7, 0.5), pools(30, 1.0)] {
            if hot == HotSide::Sender {
                workloads.push(Box::new(Amm::new(load.clone(), pools).unwrap()));
            }
            workloads.push(Box::new(Mixed::new(load.clone(), pools, Mix::default()).unwrap()));
        }
        let odd = Mix { native: 1, create: 1, revert: 5, approve: 5, ..Mix::NONE };
        workloads.push(Box::new(Mixed::new(load, pools(3, 0.1), odd).unwrap()));
    }
    workloads
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().unwrap())
}

#[test]
fn transactions_end_as_built_on_every_fork_with_type_2_transactions() {
    let specs = [SpecId::OSAKA, SpecId::PRAGUE, SpecId::CANCUN, SpecId::SHANGHAI, SpecId::MERGE, SpecId::LONDON];
    for (workload, spec) in workloads().iter().zip(specs.iter().cycle()) {
        let (db, gas) = run(&**workload, *spec, None);
        let ledger = workload.full_ledger();
        assert_eq!(ledger.transactions(), workload.load().txs);
        workload.check(&ledger, gas, &db).unwrap_or_else(|error| panic!("{error}: {workload:?} on {spec:?}"));
    }
}

#[test]
fn any_order_that_keeps_nonces_ends_as_built() {
    let (first, seeds) = (number("PHALANX_SEED", 1), number("PHALANX_SEEDS", 3));
    for workload in workloads() {
        for seed in first..first + seeds {
            println!("PHALANX_SEED={seed}");
            let order = shuffle_by_sender(workload.transactions().collect(), seed);
            let (db, gas) = run(&*workload, SpecId::OSAKA, Some(order));
            let verdict = workload.check(&workload.full_ledger(), gas, &db);
            verdict.unwrap_or_else(|error| panic!("seed {seed}: {error}: {workload:?}"));
        }
    }
}

/// Kind of a transaction of these loads, decoded from the transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Word {
    Native,
    Transfer(Address),
    Swap { pool: Address, sold: Address },
    Approve(Address),
    Create,
}

fn word(tx: &TxEnv) -> Word {
    match tx.kind {
        TxKind::Create => Word::Create,
        TxKind::Call(_) if tx.data.is_empty() => Word::Native,
        TxKind::Call(to) if PhalanxToken::decode_transfer(&tx.data).is_some() => Word::Transfer(to),
        TxKind::Call(to) if PhalanxToken::decode_approve(&tx.data).is_some() => Word::Approve(to),
        TxKind::Call(pool) => Word::Swap { pool, sold: PhalanxPool::decode_swap(&tx.data).unwrap().sold },
    }
}

/// Moves prices as far as possible: as many sales of one token as nonces allow, then as many of the other, and so on.
#[test]
fn swaps_succeed_when_all_sales_of_a_direction_come_first() {
    let workload = Amm::new(load(400, 900, 5), pools(1, 0.0)).unwrap();
    let mut queues: HashMap<Address, VecDeque<TxEnv>> = HashMap::new();
    for tx in workload.transactions() {
        queues.entry(tx.caller).or_default().push_back(tx);
    }
    let hub = workload.genesis().accounts[400].address;
    for start in [true, false] {
        let (mut queues, mut order, mut sells_hub) = (queues.clone(), Vec::new(), start);
        let mut longest = 0;
        while order.len() < 900 {
            let before = order.len();
            for queue in queues.values_mut() {
                while let Some(tx) =
                    queue.pop_front_if(|tx| matches!(word(tx), Word::Swap { sold, .. } if (sold == hub) == sells_hub))
                {
                    order.push(tx);
                }
            }
            longest = longest.max(order.len() - before);
            sells_hub = !sells_hub;
        }
        assert!(longest > 250, "{longest}");
        let (db, gas) = run(&workload, SpecId::OSAKA, Some(order));
        workload.check(&workload.full_ledger(), gas, &db).unwrap();
    }
}

#[test]
fn a_recorded_part_checks_on_its_own() {
    for workload in workloads() {
        let (mut db, mut gas) = (database(workload.genesis()), 0);
        let mut ledger = workload.ledger();
        workload.check(&ledger, 0, &db).unwrap();
        let (mut stream, mut reverted) = (workload.transactions(), 0);
        for number in 1..=4 {
            let mut txs = Vec::new();
            stream.fill(&mut txs, 150);
            for (result, tx) in execute(&mut db, workload.block_env(number), SpecId::OSAKA, &txs).iter().zip(&txs) {
                gas += result.tx_gas_used();
                let [right, wrong] = if result.is_success() { [true, false] } else { [false, true] };
                let mut note = |success| if success { ledger.record(tx) } else { ledger.record_failed(tx) };
                assert!(matches!(note(wrong), Err(CheckError::Outcome { reverts, .. }) if reverts == wrong));
                note(right).unwrap();
                reverted += u64::from(!result.is_success());
            }
            workload.check(&ledger, gas, &db).unwrap();
        }
        assert_eq!((ledger.transactions(), ledger.reverted()), (600, reverted));
        assert!(workload.check(&workload.full_ledger(), gas, &db).is_err(), "100 transactions are missing");
        let last = workload.transactions().last().unwrap();
        for tx in stream {
            ledger.record(&tx).or_else(|_| ledger.record_failed(&tx)).unwrap();
        }
        assert_eq!(ledger.reverted(), workload.full_ledger().reverted());
        assert!(matches!(ledger.record(&last), Err(CheckError::TooMany { txs: 700 })));
    }
}

#[test]
fn foreign_transactions_are_not_recorded() {
    for workload in workloads() {
        let mut seen = HashSet::new();
        for tx in workload.transactions() {
            if !seen.insert(core::mem::discriminant(&word(&tx))) {
                continue;
            }
            let mut changed = vec![
                TxEnv { caller: Address::repeat_byte(9), ..tx.clone() },
                TxEnv { value: tx.value + U256::from(1_000), ..tx.clone() },
                TxEnv { gas_limit: tx.gas_limit + 1, ..tx.clone() },
                TxEnv { kind: TxKind::Call(workload.load().coinbase), ..tx.clone() },
                TxEnv { tx_type: 0, ..tx.clone() },
                TxEnv { nonce: u64::MAX, ..tx.clone() },
            ];
            for at in [0, tx.data.len() / 2, tx.data.len().saturating_sub(32)] {
                let mut data = tx.data.to_vec();
                if let Some(byte) = data.get_mut(at) {
                    *byte ^= 0x80;
                    changed.push(TxEnv { data: data.into(), ..tx.clone() });
                }
            }
            for foreign in changed {
                let mut ledger = workload.ledger();
                for noted in [ledger.record(&foreign), ledger.record_failed(&foreign)] {
                    assert!(matches!(noted, Err(CheckError::ForeignTransaction { .. })), "{foreign:?}");
                }
                assert_eq!(ledger.transactions(), 0);
            }
        }
    }
}

#[test]
fn a_ledger_of_another_load_is_refused() {
    let [one, other] = [1, 2].map(|seed| Amm::new(load(20, 30, seed), pools(2, 0.0)).unwrap());
    let (db, gas) = run(&one, SpecId::OSAKA, None);
    one.check(&one.clone().full_ledger(), gas, &db).unwrap();
    assert!(matches!(one.check(&other.full_ledger(), gas, &db), Err(CheckError::OtherLoad)));
    let native = phalanx_workloads::Native::new(load(20, 30, 1)).unwrap();
    assert!(matches!(one.check(&native.full_ledger(), gas, &db), Err(CheckError::OtherLoad)));
    assert!(matches!(native.check(&one.full_ledger(), 30 * 21_000, &db), Err(CheckError::OtherLoad)));
}

/// Contracts of a load, with all slots that the genesis or a transaction can have written.
fn slots(workload: &dyn Workload, db: &Db) -> Vec<(Address, U256)> {
    let contracts = workload.genesis().accounts.into_iter().filter(|account| account.code.is_some());
    contracts
        .flat_map(|account| {
            let cached = db.cache.accounts[&account.address].storage.keys().copied().collect::<Vec<_>>();
            cached.into_iter().map(move |slot| (account.address, slot))
        })
        .collect()
}

#[test]
fn a_single_wrong_value_fails_the_check() {
    for hot_share in [0.0, 0.4] {
        let workload = Mixed::new(load(25, 250, 3), pools(4, hot_share), Mix::default()).unwrap();
        let (db, gas) = run(&workload, SpecId::OSAKA, None);
        let ledger = workload.full_ledger();
        let verdict = |about| workload.check(&ledger, gas, &Lying { db: &db, about });
        let members = workload.accounts().addresses();

        // Unlimited allowances are never written; all other slots are checked.
        let mut lies = 0;
        for (contract, slot) in slots(&workload, &db) {
            let unlimited = db.storage_ref(contract, slot).unwrap() == U256::MAX;
            let found = verdict(Lie::Slot(contract, slot));
            assert_eq!(found.is_ok(), unlimited, "{found:?}: slot {slot} of {contract}");
            lies += u32::from(!unlimited);
        }
        assert!(lies > 50, "{lies}");
        for address in members {
            let error = verdict(Lie::Balance(address)).unwrap_err();
            let caught = matches!(error, CheckError::FeesPaid { .. } | CheckError::BalanceOutside { .. });
            assert!(caught, "{error}");
            let error = verdict(Lie::Nonce(address)).unwrap_err();
            assert!(matches!(error, CheckError::Nonce { address: at, .. } if at == address), "{error}");
        }
        let mut deployed = 0;
        for tx in workload.transactions().filter(|tx| tx.kind == TxKind::Create) {
            let address = tx.caller.create(tx.nonce);
            for slot in [U256::from(2), U256::from(3), U256::from(4), PhalanxToken::balance_slot(tx.caller)] {
                let error = verdict(Lie::Slot(address, slot)).unwrap_err();
                assert!(matches!(error, CheckError::ContractSlot { address: at, .. } if at == address), "{error}");
            }
            assert!(matches!(verdict(Lie::Nonce(address)), Err(CheckError::Nonce { .. })));
            deployed += 1;
        }
        assert!(deployed > 0);
        for account in workload.genesis().accounts.iter().filter(|account| account.code.is_some()) {
            assert!(matches!(verdict(Lie::Balance(account.address)), Err(CheckError::Balance { .. })));
            assert!(matches!(verdict(Lie::Nonce(account.address)), Err(CheckError::Nonce { .. })));
        }
        assert!(matches!(verdict(Lie::Balance(workload.load().coinbase)), Err(CheckError::Reward { .. })));
        assert!(matches!(verdict(Lie::Failure), Err(CheckError::Read(_))));
        for wrong in [gas + 1, gas - 1, u64::MAX] {
            assert!(matches!(workload.check(&ledger, wrong, &db), Err(CheckError::FeesPaid { .. })));
        }
    }
}

#[test]
fn ether_is_conserved_but_for_the_burned_base_fee() {
    for workload in workloads() {
        let total = |db: &Db| {
            let all = workload.accounts().addresses().chain([workload.load().coinbase]);
            all.map(|address| balance(db, address)).sum::<U256>()
        };
        let before = total(&database(workload.genesis()));
        let (db, gas) = run(&*workload, SpecId::OSAKA, None);
        assert_eq!(total(&db), before - U256::from(gas) * U256::from(workload.load().fees.base_fee));
    }
}

#[test]
fn every_move_emits_its_event() {
    let workload = Mixed::new(load(50, 1_000, 8), pools(5, 0.2), Mix::default()).unwrap();
    let txs: Vec<_> = workload.transactions().collect();
    let mut db = database(workload.genesis());
    let results = execute(&mut db, workload.block_env(1), SpecId::OSAKA, &txs);
    for (result, tx) in results.iter().zip(&txs) {
        let topics: Vec<B256> = result.logs().iter().map(|log| log.topics()[0]).collect();
        let transfer = PhalanxToken::TRANSFER_EVENT;
        let expected = match word(tx) {
            _ if !result.is_success() => vec![],
            Word::Native => vec![],
            Word::Transfer(_) | Word::Create => vec![transfer],
            Word::Approve(_) => vec![revm::primitives::keccak256("Approval(address,address,uint256)")],
            Word::Swap { .. } => vec![transfer, transfer, PhalanxPool::SYNC_EVENT, PhalanxPool::SWAP_EVENT],
        };
        assert_eq!(topics, expected, "{tx:?}");
    }
}

/// Asserts that `count` of `n` is a share of `p`, to five standard deviations.
fn share(what: &str, count: usize, n: usize, p: f64) {
    let (count, n) = (count as f64, n as f64);
    let sigma = (n * p * (1.0 - p)).sqrt();
    assert!((count - n * p).abs() <= 5.0 * sigma, "{what}: {count} of {n}, expected {}", n * p);
}

#[test]
fn kinds_tokens_and_pools_occur_in_their_shares() {
    let (count, hot) = (9u32, 0.3);
    let mix = Mix::default();
    let workload = Mixed::new(load(30_000, 60_000, 2), pools(count, hot), mix).unwrap();
    let n = workload.load().txs as usize;
    let mut seen: HashMap<&str, usize> = HashMap::new();
    let (mut tokens, mut markets): (HashMap<Address, usize>, HashMap<Address, usize>) = Default::default();
    for tx in workload.transactions() {
        let name = match word(&tx) {
            Word::Native => "native",
            Word::Transfer(token) => {
                *tokens.entry(token).or_default() += 1;
                "erc20"
            }
            Word::Swap { pool, .. } => {
                *markets.entry(pool).or_default() += 1;
                "swap"
            }
            Word::Approve(_) => "approve",
            Word::Create => "create",
        };
        *seen.entry(name).or_default() += 1;
    }
    let third = f64::from(mix.revert) / 3.0;
    for (name, of_100) in [
        ("native", mix.native.into()),
        ("erc20", f64::from(mix.erc20) + third),
        ("swap", f64::from(mix.swap) + 2.0 * third),
        ("approve", mix.approve.into()),
        ("create", mix.create.into()),
    ] {
        share(name, seen[name], n, of_100 / 100.0);
    }
    share("reverts", workload.full_ledger().reverted() as usize, n, f64::from(mix.revert) / 100.0);

    // Contracts follow each other in the genesis by rank: the tokens, then the pools.
    let contracts: Vec<_> =
        workload.genesis().accounts.into_iter().filter(|a| a.code.is_some()).map(|a| a.address).collect();
    let (ranked, in_order) = contracts.split_at(count as usize + 1);
    let harmonic: f64 = (1..=count + 1).map(|rank| 1.0 / f64::from(rank)).sum();
    for (token, rank) in ranked.iter().zip(1u32..) {
        // Homes are drawn once per account, which is a second source of variance.
        let found = tokens[token] as f64 / seen["erc20"] as f64;
        let expected = 1.0 / f64::from(rank) / harmonic;
        assert!((found - expected).abs() < 0.02, "rank {rank}: {found}, expected {expected}");
    }
    let homes = harmonic - 1.0;
    for (pool, rank) in in_order.iter().zip(2u32..) {
        let found = markets[pool] as f64 / seen["swap"] as f64;
        let home = (1.0 - hot) / f64::from(rank) / homes;
        let expected = if rank == 2 { hot + home } else { home };
        assert!((found - expected).abs() < 0.02, "pool of rank {rank}: {found}, expected {expected}");
    }
}

#[test]
fn the_hot_pool_gets_its_share_on_any_hot_side() {
    for (alpha, hot) in [(0.0, 0.0), (0.0, 0.5), (0.99, 0.5), (0.5, 0.9), (0.0, 1.0)] {
        let load = TransferLoad { alpha, gamma: 2, ..load(5_000, 20_000, 6) };
        let workload = Amm::new(load, pools(50, hot)).unwrap();
        let (mut first, mut sold) = (0, 0);
        let contracts: Vec<_> =
            workload.genesis().accounts.into_iter().filter(|a| a.code.is_some()).map(|a| a.address).collect();
        for tx in workload.transactions() {
            let Word::Swap { pool, sold: token } = word(&tx) else { panic!("{tx:?}") };
            first += usize::from(pool == contracts[51]);
            sold += usize::from(token == contracts[0]);
        }
        // Up to two per cent of the traders are at home in the hot pool.
        let n = 20_000;
        let expected = hot + if alpha > 0.0 { 0.0 } else { (1.0 - hot) * 0.02 };
        assert!((first as f64 / n as f64 - expected).abs() < 0.02, "{alpha} {hot}: {first}");
        share("direction", sold, n, 0.5);
    }
}

#[test]
fn constructors_refuse_impossible_loads() {
    let amm = |load: TransferLoad, pools| Amm::new(load, pools).map(drop);
    let plain = load(10, 10, 1);
    for count in [0, Pools::MAX + 1] {
        assert_eq!(amm(plain.clone(), pools(count, 0.0)), Err(ConfigError::Pools { pools: count }));
    }
    for share in [-0.1, 1.1, f64::INFINITY, f64::NAN] {
        assert!(matches!(amm(plain.clone(), pools(1, share)), Err(ConfigError::HotShare { .. })));
    }
    for hot in [HotSide::Receiver, HotSide::Both] {
        let contended = TransferLoad { alpha: 0.5, gamma: 2, hot, ..plain.clone() };
        assert_eq!(amm(contended.clone(), pools(1, 0.0)), Err(ConfigError::NoReceiver { hot }));
        assert!(Mixed::new(contended, pools(1, 0.0), Mix::default()).is_ok());
        assert!(amm(TransferLoad { hot, ..plain.clone() }, pools(1, 0.0)).is_ok(), "without alpha it means nothing");
    }
    let mixed = Mixed::new(plain.clone(), pools(1, 0.0), Mix::NONE).map(drop);
    assert_eq!(mixed, Err(ConfigError::EmptyMix));
    for account in Amm::new(plain.clone(), pools(2, 0.0)).unwrap().genesis().accounts {
        let coinbase = account.address;
        let taken = TransferLoad { coinbase, ..plain.clone() };
        assert_eq!(amm(taken, pools(2, 0.0)), Err(ConfigError::CoinbaseTakesPart { coinbase }));
    }
    for accounts in [0, 1, 1 << 32, u64::MAX] {
        assert_eq!(amm(load(accounts, 1, 1), pools(1, 0.0)), Err(ConfigError::Accounts { accounts }));
    }
    for txs in [1 << 32, u64::MAX] {
        assert_eq!(amm(load(2, txs, 1), pools(1, 0.0)), Err(ConfigError::Txs { txs }));
    }
    for (accounts, txs) in [(1_000, 1), (2, 10_000)] {
        let tight = TransferLoad { memory_limit: Some(100_000), ..load(accounts, txs, 1) };
        assert!(matches!(amm(tight, pools(1, 0.0)), Err(ConfigError::Memory { limit: 100_000, .. })));
    }
}

#[test]
fn transactions_stay_within_their_gas_limits() {
    let workload = Mixed::new(load(300, 3_000, 4), pools(3, 0.2), Mix::default()).unwrap();
    let txs: Vec<_> = workload.transactions().collect();
    let results = execute(&mut database(workload.genesis()), workload.block_env(1), SpecId::OSAKA, &txs);
    let mut most: HashMap<&str, (u64, u64)> = HashMap::new();
    for (result, tx) in results.iter().zip(&txs).filter(|(result, _)| result.is_success()) {
        let name = match word(tx) {
            Word::Native => "native",
            Word::Transfer(_) => "erc20",
            Word::Swap { .. } => "swap",
            Word::Approve(_) => "approve",
            Word::Create => "create",
        };
        let (used, limit) = most.entry(name).or_default();
        (*used, *limit) = ((*used).max(result.tx_gas_used()), tx.gas_limit);
    }
    println!("{most:?}");
    for (name, (used, limit)) in most {
        assert!(used == limit || used + used / 10 <= limit && limit <= 2 * used, "{name}: {used} of {limit}");
    }
}
