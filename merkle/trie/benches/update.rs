//! Blocks of 100,000 changes against a million keys and more: `cargo bench -p phalanx-trie`.
//!
//! Time is that of all cores, from changes with hashed keys in random order to the root, with dropping the version before
//! last. Another implementation, which computes roots anew, is timed
//! beside it on the same keys. `PHALANX_TRIE_KEYS=24` takes 2^24 keys instead of 2^20.

use std::time::Duration;

use alloy_primitives::{Address, B256, KECCAK256_EMPTY, U256};
use alloy_trie::{EMPTY_ROOT_HASH, TrieAccount, root::state_root};
use criterion::{Criterion, Throughput};
use phalanx_trie::{Account, Changes, Config, Fate, Lanes, Trie, Values, Version, Wipe, Work};
use rand::{Rng as _, RngCore as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

/// Allocator of programs that commit at this rate.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Time that the process has had on all cores.
fn cores() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

const UPDATES: usize = 100_000;

/// Values that follow from names, so that the bench does not measure a store.
struct Fixed;

fn account(height: u64) -> Account {
    Account { nonce: height, balance: U256::from(1_000_000_000_000_000_000_u64), code_hash: KECCAK256_EMPTY }
}

impl Values for Fixed {
    type Error = core::convert::Infallible;

    fn account(&self, _: &Address) -> Result<Option<Account>, Self::Error> {
        Ok(Some(account(1)))
    }

    fn slot(&self, _: &Address, _: &B256) -> Result<U256, Self::Error> {
        Ok(U256::ONE)
    }
}

fn address(key: &B256) -> Address {
    Address::from_slice(&key[12..])
}

fn keys(count: usize) -> Vec<B256> {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut key = || {
        let mut key = B256::ZERO;
        rng.fill_bytes(key.as_mut_slice());
        key
    };
    (0..count).map(|_| key()).collect()
}

/// Keys that a block changes.
#[derive(Clone, Copy, Debug)]
enum Load {
    /// Accounts without storage.
    Accounts,
    /// Slots of one contract.
    Slots,
    /// A slot each of contracts with 64.
    Contracts,
}

const SLOTS_PER_CONTRACT: usize = 64;

struct Chain {
    trie: Trie,
    load: Load,
    keys: Vec<B256>,
    rng: ChaCha8Rng,
    height: u64,
    tip: Version,
    work: Work,
}

impl Chain {
    fn new(load: Load, lanes: Lanes, keys: &[B256]) -> Self {
        let trie = Trie::new(Config { lanes, ..Config::default() });
        let (rng, tip) = (ChaCha8Rng::seed_from_u64(2), trie.oldest());
        let mut chain = Self { trie, load, keys: keys.to_vec(), rng, height: 1, tip, work: Work::default() };
        if let Load::Slots = load {
            chain.commit(&chain.changes(&keys[..1], Load::Accounts));
        }
        chain.commit(&chain.changes(keys, load));
        chain.block();
        chain
    }

    fn changes(&self, keys: &[B256], load: Load) -> Changes {
        let mut changes = Changes::new();
        let own = |key: &B256| (*key, address(key), Fate::Set(account(self.height)), Wipe::Nothing);
        let value = U256::from(self.height);
        match load {
            Load::Accounts => keys.iter().map(own).for_each(|(key, address, fate, wipe)| {
                changes.account(key, address, fate, wipe);
            }),
            Load::Slots => {
                let (key, address, fate, wipe) = own(&self.keys[0]);
                changes.account(key, address, fate, wipe);
                keys.iter().for_each(|key| changes.slot(*key, *key, value));
            }
            Load::Contracts => {
                for key in keys {
                    let (key, address, fate, wipe) = own(key);
                    changes.account(key, address, fate, wipe);
                    let all = if self.height == 1 { SLOTS_PER_CONTRACT } else { 1 };
                    for number in 0..all {
                        let mut slot = key;
                        slot[0] = (number * 4) as u8 ^ key[1];
                        changes.slot(slot, slot, value);
                    }
                }
            }
        }
        changes
    }

    fn commit(&mut self, changes: &Changes) -> Duration {
        let begin = cores();
        let made = self.trie.update(self.tip, changes, &Fixed).expect("a block");
        // The version before stays, as it would for a reader.
        if self.tip != self.trie.oldest() {
            self.trie.advance(self.tip).expect("the block before");
        }
        let took = cores() - begin;
        (self.tip, self.work, self.height) = (made.version, made.work, self.height + 1);
        took
    }

    fn block(&mut self) -> Duration {
        let updates = UPDATES.min(self.keys.len() / 2);
        for at in 0..updates {
            // The first one owns the slots.
            let pick = self.rng.random_range(at..self.keys.len() - 1);
            self.keys.swap(at + 1, pick + 1);
        }
        let changes = self.changes(&self.keys[1..=updates], self.load);
        self.commit(&changes)
    }
}

fn update(criterion: &mut Criterion, log: u32) {
    let mut group = criterion.benchmark_group("update");
    group.sample_size(10).warm_up_time(Duration::from_millis(500));
    let all = keys(1 << log);
    let rows = [
        (Load::Accounts, Lanes::Eight, 1),
        (Load::Accounts, Lanes::Four, 1),
        (Load::Accounts, Lanes::One, 1),
        (Load::Accounts, Lanes::Eight, 2),
        (Load::Slots, Lanes::Eight, 1),
        (Load::Slots, Lanes::Eight, 2),
        (Load::Contracts, Lanes::Eight, 1),
        (Load::Contracts, Lanes::Eight, 2),
    ];
    for (load, lanes, threads) in rows.into_iter().filter(|(_, lanes, _)| lanes.available()) {
        let keys = if let Load::Contracts = load { &all[..all.len() / SLOTS_PER_CONTRACT] } else { &all };
        let updates = UPDATES.min(keys.len() / 2);
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
        group.throughput(Throughput::Elements(updates as u64));
        let mut chain = None;
        let name = format!("keys=2^{log} load={load:?} updates={updates} lanes={lanes:?} threads={threads}");
        group.bench_function(&name, |bencher| {
            let chain = chain.get_or_insert_with(|| pool.install(|| Chain::new(load, lanes, keys)));
            bencher.iter_custom(|blocks| pool.install(|| (0..blocks).map(|_| chain.block()).sum()));
        });
        if let Some(chain) = chain {
            let per = |count: u64| count as f64 / updates as f64;
            let Work { leaves, branches, extensions, permutations } = chain.work;
            println!(
                "{name}: per update {:.2} permutations, {:.2} leaves, {:.2} branches, {:.3} extensions; {} MB",
                per(permutations),
                per(leaves),
                per(branches),
                per(extensions),
                chain.trie.memory() >> 20
            );
        }
    }
    group.finish();
}

/// The root of all accounts at once: here, and by the other implementation, which has nothing else.
fn build(criterion: &mut Criterion, log: u32) {
    let mut group = criterion.benchmark_group("build");
    let mut sorted = keys(1 << log);
    sorted.sort_unstable();
    group
        .sample_size(10)
        .throughput(Throughput::Elements(sorted.len() as u64))
        .warm_up_time(Duration::from_millis(500));
    let expected = TrieAccount::new(1, account(1).balance, EMPTY_ROOT_HASH, KECCAK256_EMPTY);
    let anew = || state_root(sorted.iter().map(|key| (*key, expected)));
    let root = anew();
    group.bench_function(format!("keys=2^{log} alloy-trie threads=1"), |bencher| {
        bencher.iter_custom(|times| {
            let begin = cores();
            (0..times).for_each(|_| assert_eq!(anew(), root));
            cores() - begin
        });
    });
    for lanes in [Lanes::Eight, Lanes::Four, Lanes::One].into_iter().filter(|lanes| lanes.available()) {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a pool");
        let mut changes = Changes::new();
        for key in &sorted {
            changes.account(*key, address(key), Fate::Set(account(1)), Wipe::Nothing);
        }
        group.bench_function(format!("keys=2^{log} lanes={lanes:?} threads=1"), |bencher| {
            bencher.iter_custom(|times| {
                let begin = cores();
                for _ in 0..times {
                    let mut trie = Trie::new(Config { lanes, ..Config::default() });
                    let made = pool.install(|| trie.update(trie.oldest(), &changes, &Fixed)).expect("a block");
                    assert_eq!(made.root, root);
                }
                cores() - begin
            });
        });
    }
    group.finish();
}

fn main() {
    let log = std::env::var("PHALANX_TRIE_KEYS").ok().and_then(|log| log.parse().ok()).unwrap_or(20);
    let mut criterion = Criterion::default().configure_from_args();
    update(&mut criterion, log);
    build(&mut criterion, log);
    criterion.final_summary();
}
