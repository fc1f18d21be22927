//! The pool: what a transaction costs from admission to the block that holds it, on one core.
#![expect(missing_docs, reason = "criterion's macros generate public functions")]

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use phalanx::{
    RecoveredTx,
    pool::{Account, Accounts, Admission, Batch, Fees, Policy, Pool, PoolConfig, Settled, Tip},
    revm::primitives::{Address, B256, U256, keccak256},
};
use phalanx_workloads::{Native, TransferLoad, Workload as _};
use std::{collections::HashMap, convert::Infallible, sync::Arc, time::Duration};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const TXS: usize = 1 << 16;

/// Everybody is rich; nonces are what was included.
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

/// Takes, includes and passes everything, 8192 at a time; gives how many there were.
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

criterion_group!(benches, bench);
criterion_main!(benches);
