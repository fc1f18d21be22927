//! Cost of ordering and dispatching on top of the work itself.

use criterion::{BenchmarkId, Criterion, Throughput};
use phalanx_access::{
    Access::{Credit, Write},
    AccessSets, Interner, KeyId, Salt,
};
use phalanx_parascheduler::{Dag, DagBuilder, TxIndex, Verdict, Workers};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::hint::black_box;

const TXS: usize = 50_000;
const ACCOUNTS: u64 = 1 << 20;
const HOT_ACCOUNTS: u64 = 1_000;

/// Two-key blocks: a write of the sender, a write or credit of the receiver.
#[derive(Clone, Copy, Debug)]
enum Load {
    /// Sender and receiver are any of a million accounts, about 95,000 distinct ones in a block.
    Uniform,
    /// As uniform, with credits to the receivers.
    Credits,
    /// Half of the accounts are drawn from a thousand.
    Hot,
}

impl Load {
    const ALL: [Self; 3] = [Self::Uniform, Self::Credits, Self::Hot];

    const fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Credits => "credits",
            Self::Hot => "hot",
        }
    }

    fn block(self) -> (AccessSets<KeyId>, usize) {
        let mut rng = ChaCha8Rng::seed_from_u64(7);
        let mut interner = Interner::new(Salt::new(1));
        let mut sets = AccessSets::new();
        for _ in 0..TXS {
            let mut account = || match self {
                Self::Hot if rng.random() => rng.random_range(0..HOT_ACCOUNTS),
                _ => rng.random_range(0..ACCOUNTS),
            };
            let (from, to) = (account(), account());
            let receive = if matches!(self, Self::Credits) { Credit } else { Write };
            sets.add(interner.intern(&from), Write);
            if from != to {
                sets.add(interner.intern(&to), receive);
            }
            sets.close();
        }
        (sets, interner.len())
    }
}

fn build(c: &mut Criterion) {
    let mut group = c.benchmark_group("dag::build");
    group.throughput(Throughput::Elements(TXS as u64));
    for load in Load::ALL {
        let (sets, n_keys) = load.block();
        let mut builder = DagBuilder::new();
        let mut dag = Dag::default();
        builder.build(&sets, n_keys, &mut dag);
        check(load, &dag, n_keys);
        group.bench_function(BenchmarkId::from_parameter(format!("txs={TXS} keys=2 {}", load.name())), |b| {
            b.iter(|| builder.build(black_box(&sets), n_keys, &mut dag));
        });
    }
}

/// Every edge leads upwards and the load has the shape its name promises.
fn check(load: Load, dag: &Dag, n_keys: usize) {
    assert_eq!((dag.len(), dag.joins()), (TXS, 0));
    assert!((0..dag.len()).all(|tx| dag.successors(tx).iter().all(|next| *next as usize > tx)));
    let (keys, path) = match load {
        Load::Uniform | Load::Credits => (94_000..97_000, 2..12),
        Load::Hot => (45_000..55_000, 100..1_000),
    };
    assert!(keys.contains(&n_keys), "{load:?}: {n_keys} keys");
    assert!(path.contains(&dag.critical_path()), "{load:?}: critical path {}", dag.critical_path());
}

fn run_empty(c: &mut Criterion) {
    let mut group = c.benchmark_group("run::empty");
    group.throughput(Throughput::Elements(TXS as u64));
    for load in [Load::Uniform, Load::Hot] {
        let (sets, n_keys) = load.block();
        let dag = Dag::build(&sets, n_keys);
        for threads in [1, 2] {
            let workers = Workers::new(threads).expect("threads");
            let mut locals = vec![0u64; threads];
            let count = |seen: &mut u64, tx: TxIndex| {
                black_box(tx);
                *seen += 1;
                Verdict::Done
            };
            assert!(workers.run(&dag, &mut locals, &count).is_clean());
            assert_eq!(locals.iter().sum::<u64>(), TXS as u64);
            let id = BenchmarkId::from_parameter(format!("txs={TXS} {} threads={threads}", load.name()));
            group.bench_function(id, |b| b.iter(|| workers.run(black_box(&dag), &mut locals, &count)));
        }
    }
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    build(&mut criterion);
    run_empty(&mut criterion);
    criterion.final_summary();
}
