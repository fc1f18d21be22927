//! ParaScheduler: the exact DAG of one block from dense key ids, on one core.
#![expect(missing_docs, reason = "criterion's macros generate public functions")]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use phalanx::{
    access::{Access, AccessSets, KeyId},
    parascheduler::{Dag, DagBuilder},
};
use phalanx_benches::Transfers;
use std::{hint::black_box, time::Duration};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const TXS: usize = 50_000;

/// The longest chain of conflicting transactions, found without a graph: a write comes after every earlier access of
/// its key, a credit only after every earlier access that is none.
fn longest_chain(sets: &AccessSets<KeyId>, keys: usize) -> usize {
    // Longest chain by key: through any access, and through any but credits.
    let mut through = vec![(0, 0); keys];
    let mut longest = 0;
    for set in sets.iter() {
        let before = set.iter().map(|(key, access)| {
            let (any, ordered) = through[key.index()];
            if matches!(access, Access::Credit) { ordered } else { any }
        });
        let here = 1 + before.max().unwrap_or(0);
        longest = longest.max(here);
        for (key, access) in set {
            let (any, ordered) = &mut through[key.index()];
            *any = here.max(*any);
            if !matches!(access, Access::Credit) {
                *ordered = here.max(*ordered);
            }
        }
    }
    longest
}

fn build(c: &mut Criterion) {
    let mut group = c.benchmark_group("dag::build");
    group.throughput(Throughput::Elements(TXS as u64)).measurement_time(Duration::from_secs(2));
    for transfers in Transfers::all(TXS as u64).expect("a load") {
        let (sets, keys) = transfers.block(TXS);
        let (mut builder, mut dag) = (DagBuilder::new(), Dag::default());
        builder.build(&sets, keys, &mut dag);
        assert_eq!(dag.len(), TXS);
        assert_eq!(dag.critical_path(), longest_chain(&sets, keys), "{}", transfers.name);
        group.bench_function(format!("txs={TXS} keys=2 {}", transfers.name), |b| {
            b.iter(|| builder.build(black_box(&sets), keys, &mut dag));
        });
    }
    group.finish();
}

criterion_group!(benches, build);
criterion_main!(benches);
