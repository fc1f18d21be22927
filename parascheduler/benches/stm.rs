//! Cost of Block-STM on top of the work itself, beside a plain loop on a map.

use criterion::{BenchmarkId, Criterion, Throughput};
use hashbrown::HashTable;
use phalanx_access::{Key, Salt};
use phalanx_parascheduler::{Execution, Interrupt, Program, StmConfig, TxIndex, View, Workers, Write};
use std::{convert::Infallible, hint::black_box};

const TXS: u32 = 10_000;

/// Two-key transactions: each reads and writes both.
#[derive(Clone, Copy, Debug)]
enum Load {
    /// No two transactions share a key.
    Distinct,
    /// All transactions share one key.
    Chain,
}

/// A load, and the length of each transaction's computation.
#[derive(Clone, Copy, Debug)]
struct Block {
    load: Load,
    /// Rounds of about a nanosecond that depend on what was read.
    rounds: u32,
}

impl Block {
    const fn keys(self, tx: u32) -> [u64; 2] {
        let shared = match self.load {
            Load::Distinct => 2 * tx as u64,
            Load::Chain => u64::MAX,
        };
        [shared, 2 * tx as u64 + 1]
    }

    fn compute(self, held: u64) -> u64 {
        (0..self.rounds).fold(held, |held, _| black_box(held.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ held >> 7)) + 1
    }

    /// The loop that runs are compared with, on a table like the memory's.
    fn in_a_loop(self, salt: &Salt) -> HashTable<(u64, u64)> {
        let mut state = HashTable::new();
        for tx in 0..TXS {
            for key in self.keys(tx) {
                let digest = key.digest(salt);
                let held = state.find(digest, |entry: &(u64, u64)| entry.0 == key).map_or(key, |entry| entry.1);
                let new = self.compute(held);
                match state.find_mut(digest, |entry| entry.0 == key) {
                    Some(entry) => entry.1 = new,
                    None => _ = state.insert_unique(digest, (key, new), |entry| entry.0.digest(salt)),
                }
            }
        }
        state
    }
}

impl Program for Block {
    type Key = u64;
    type Value = u64;
    type Credit = u64;
    type Output = ();
    type Error = Infallible;
    type Local = ();

    fn base(&self, key: &u64) -> Result<u64, Infallible> {
        Ok(*key)
    }

    fn credited(&self, value: &u64, credit: &u64) -> Option<u64> {
        value.checked_add(*credit)
    }

    fn execute(&self, (): &mut (), tx: TxIndex, view: &mut View<'_, Self>) -> Result<Execution<Self>, Interrupt> {
        let mut writes = Vec::with_capacity(2);
        for key in self.keys(tx.0) {
            let held = view.read(&key)?;
            writes.push((key, Write::Value(self.compute(held))));
        }
        Ok(Execution { output: (), writes })
    }
}

fn run(c: &mut Criterion) {
    let config = StmConfig::new(Salt::new(7));
    for load in [Load::Distinct, Load::Chain] {
        for rounds in [0, 1_000] {
            let block = Block { load, rounds };
            let mut group = c.benchmark_group("stm::run");
            group.throughput(Throughput::Elements(u64::from(TXS)));
            let name = |how: &str| BenchmarkId::from_parameter(format!("txs={TXS} {load:?} rounds={rounds} {how}"));
            group.bench_function(name("loop"), |b| b.iter(|| black_box(block.in_a_loop(&config.salt)).len()));
            let mut expected: Vec<_> = block.in_a_loop(&config.salt).into_iter().collect();
            expected.sort_unstable();
            for threads in [1, 2] {
                let workers = Workers::new(threads).expect("threads");
                let mut locals = vec![(); threads];
                let mut report = workers.run_stm(&block, TXS as usize, &mut locals, &config).expect("infallible");
                report.writes.sort_unstable();
                assert_eq!(report.writes, expected, "{block:?}, {threads} threads");
                eprintln!("{block:?}, {threads} threads: {:?}", report.stats);
                group.bench_function(name(&format!("threads={threads}")), |b| {
                    b.iter(|| workers.run_stm(black_box(&block), TXS as usize, &mut locals, &config));
                });
            }
        }
    }
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    run(&mut criterion);
    criterion.final_summary();
}
