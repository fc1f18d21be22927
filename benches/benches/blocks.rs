//! Whole blocks from transactions to a state root: plan, execute, merkleize, in memory. Signatures are not included.
//! `PHALANX_BENCH_THREADS=1,2,16` names other numbers of threads than one and two.
#![expect(missing_docs, reason = "criterion's macros generate public functions")]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use phalanx_benches::{Case, Kind, THREADS_NAME, Truth, threads};
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const ACCOUNTS: u64 = 1 << 16;
const TXS: u64 = 10_000;

fn blocks(c: &mut Criterion) {
    let threads = threads(std::env::var(THREADS_NAME).ok().as_deref()).unwrap_or_else(|error| {
        eprintln!("{error}");
        std::process::exit(2)
    });
    for kind in Kind::ALL {
        let truth = Truth::new(kind.load(ACCOUNTS, TXS), kind).expect("every transaction ends as it is meant to");
        let mut group = c.benchmark_group(format!("block::{}", kind.name()));
        group.throughput(Throughput::Elements(TXS)).measurement_time(Duration::from_secs(3)).sample_size(20);
        for case in Case::matrix(&threads).filter(|case| case.workload == kind) {
            let mut chain = truth.chain(case).expect("an engine in memory");
            let block = chain.run().expect("a block");
            assert_eq!(block.block().outcomes().len(), truth.len(), "{case}");
            assert_eq!(block.state_root(), truth.state_root(), "{case}");
            drop(block);
            group
                .bench_function(format!("txs={TXS} {case}"), |b| b.iter(|| chain.run().expect("a block").state_root()));
        }
        group.finish();
    }
}

criterion_group!(benches, blocks);
criterion_main!(benches);
