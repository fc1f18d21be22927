//! The pool: cost of a transaction from admission to its block, on one core.
#![expect(missing_docs, reason = "criterion's macros generate public functions")]

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use phalanx::{
    RecoveredTx,
    pool::{Account, Accounts, Admission, Batch, Fees, Load, Policy, Pool, PoolConfig, Settled, Tip},
    revm::{
        context::TxEnv,
        primitives::{Address, B256, U256, keccak256},
    },
};
use phalanx_workloads::{Native, TransferLoad, Workload as _};
use std::{collections::HashMap, convert::Infallible, sync::Arc, time::Duration};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const TXS: usize = 1 << 16;

/// Number of senders: as many as the default limits permit.
const SENDERS: u64 = 1 << 17;

/// A state in which every account is rich; nonces are the included ones.
#[derive(Clone, Default)]
struct World(HashMap<Address, u64>);

impl Accounts for World {
    type Error = Infallible;

    fn account(&self, address: &Address) -> Result<Account, Infallible> {
        let nonce = self.0.get(address).copied().unwrap_or(0);
        Ok(Account { nonce, balance: U256::from(u128::MAX), ..Account::default() })
    }
}

fn load(alpha: f64) -> Vec<Arc<RecoveredTx>> {
    let load = TransferLoad { accounts: 20_000, txs: TXS as u64, alpha, gamma: 100, ..TransferLoad::default() };
    let workload = Native::new(load).expect("a load");
    let recovered = |(number, tx): (usize, _)| {
        let hash: B256 = keccak256(number.to_le_bytes());
        Arc::new(RecoveredTx::unsigned(hash, tx))
    };
    workload.transactions().enumerate().map(recovered).collect()
}

fn config() -> PoolConfig {
    PoolConfig { policy: Policy::Price { boost: 1 }, window: 1 << 16, ..PoolConfig::default() }
}

fn filled(txs: &[Arc<RecoveredTx>]) -> Pool {
    let (mut pool, world) = (Pool::new(config()), World::default());
    for tx in txs {
        let Ok(admission) = pool.add(Arc::clone(tx), &world);
        assert!(matches!(admission, Admission::Admitted { .. }), "{admission:?}");
    }
    pool
}

/// Takes, includes and passes all transactions, 8192 at a time; returns their number.
fn drain(pool: &mut Pool) -> usize {
    let (mut world, mut now, mut count) = (World::default(), 0, 0);
    loop {
        let taken = pool.take(&Batch::default());
        if taken.is_empty() {
            assert!(pool.is_empty());
            return count;
        }
        let _ = pool.settle(taken.iter().map(|tx| (tx.rank(), Settled::Included)));
        let mut changed = Vec::with_capacity(taken.len());
        for tx in &taken {
            world.0.insert(tx.tx().caller, tx.tx().nonce + 1);
            changed.push(tx.tx().caller);
        }
        now += 1;
        let Ok(passed) = pool.advance(&Tip { now, fees: Fees::default(), changed }, &world);
        assert_eq!(passed.len(), taken.len());
        count += taken.len();
    }
}

/// Transactions of `count` senders whose numbers are unrelated to the place of their memory.
fn strangers(count: u64) -> impl Iterator<Item = Arc<RecoveredTx>> {
    let of = |number: u64| {
        let id = keccak256(number.to_le_bytes());
        let (caller, gas_price) = (Address::from_word(id), 1_000 + u128::from(id[0]));
        let tx = TxEnv { caller, gas_price, gas_limit: 21_000, ..TxEnv::default() };
        Arc::new(RecoveredTx::unsigned(id, tx))
    };
    let mut txs: Vec<Arc<RecoveredTx>> = (0..count).map(of).collect();
    txs.sort_by_key(|tx| keccak256(tx.hash()));
    txs.into_iter()
}

/// Measures another base fee on a pool of many senders: all are sorted again.
fn fees(c: &mut Criterion) {
    let mut group = c.benchmark_group("pool");
    group.throughput(Throughput::Elements(SENDERS)).sample_size(10).measurement_time(Duration::from_secs(2));
    // A sender more than the pool has room for: the order of eviction is known.
    for (name, count) in [("half full", SENDERS / 2), ("full", SENDERS + 1)] {
        let limits = PoolConfig::default();
        let mut pool = Pool::new(PoolConfig { max_ready: Load { bytes: usize::MAX, ..limits.max_ready }, ..limits });
        strangers(count).for_each(|tx| _ = pool.add(tx, &World::default()));
        let mut now = 0u64;
        group.bench_function(BenchmarkId::new("another base fee", name), |b| {
            b.iter(|| {
                now += 1;
                let fees = Fees { base: 7 + u128::from(now % 2), blob: 1 };
                pool.advance(&Tip { now: 0, fees, changed: Vec::new() }, &World::default())
            });
        });
    }
    group.finish();
}

fn bench(c: &mut Criterion) {
    let mut group = c.benchmark_group("pool");
    group.throughput(Throughput::Elements(TXS as u64)).sample_size(10).measurement_time(Duration::from_secs(2));
    for (name, alpha) in [("uniform", 0.0), ("half from 100", 0.5)] {
        let txs = load(alpha);
        assert_eq!(drain(&mut filled(&txs)), TXS);
        group.bench_function(BenchmarkId::new("add", name), |b| b.iter(|| filled(&txs)));
        group.bench_function(BenchmarkId::new("drain", name), |b| {
            b.iter_batched(|| filled(&txs), |mut pool| drain(&mut pool), BatchSize::LargeInput);
        });
    }
    group.finish();
}

criterion_group!(benches, bench, fees);
criterion_main!(benches);
