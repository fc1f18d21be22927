//! Signatures: the library alone, one transaction at a time, in batches on several threads, and from the cache.
#![expect(missing_docs, reason = "criterion's macros generate public functions")]

use alloy_consensus::{TxEnvelope, transaction::SignerRecoverable as _};
use alloy_eips::Decodable2718 as _;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use phalanx::{
    Form, Recovery, RecoveryCache,
    access::Salt,
    chain::ChainSpec,
    parascheduler::Workers,
    recover,
    revm::primitives::{Address, Bytes, hardfork::SpecId},
};
use phalanx_workloads::{Native, TransferLoad, Workload as _};
use std::{hint::black_box, sync::Arc, time::Duration};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const TXS: usize = 2_048;

fn signed() -> Vec<Bytes> {
    let load = TransferLoad { accounts: 500, txs: TXS as u64, signatures: true, ..TransferLoad::default() };
    let workload = Native::new(load).expect("a load");
    let txs: Vec<_> = workload.transactions().collect();
    workload.accounts().sign(&txs).expect("keys")
}

/// Recovers a sender with the library alone, without the other fields of a block's transaction.
fn by_library(bytes: &Bytes) -> Address {
    let envelope = TxEnvelope::decode_2718(&mut &bytes[..]).expect("a transaction");
    envelope.recover_signer().expect("a signature")
}

fn bench(c: &mut Criterion) {
    let signed = signed();
    let truth: Vec<Address> = signed.iter().map(by_library).collect();
    assert!(signed.iter().zip(&truth).all(|(bytes, sender)| recover(bytes).is_ok_and(|tx| tx.caller == *sender)));

    let mut group = c.benchmark_group("recovery");
    group.throughput(Throughput::Elements(TXS as u64)).sample_size(10).measurement_time(Duration::from_secs(2));
    group.bench_function("library", |b| b.iter(|| black_box(&signed).iter().map(by_library).collect::<Vec<_>>()));
    group.bench_function("recover", |b| {
        b.iter(|| black_box(&signed).iter().map(|bytes| recover(bytes)).collect::<Vec<_>>())
    });
    let recovery = Recovery::new(ChainSpec::mainnet(), SpecId::OSAKA);
    for threads in [1, 2, 4] {
        let workers = Workers::new(threads).expect("threads");
        group.bench_function(BenchmarkId::new("batch", threads), |b| {
            b.iter(|| recovery.recover_batch(&workers, Form::Block, black_box(&signed)));
        });
    }
    let cache = Arc::new(RecoveryCache::new(64 << 20, Salt::new(1)));
    let cached = recovery.with_cache(Arc::clone(&cache));
    let workers = Workers::new(1).expect("threads");
    let known = cached.recover_batch(&workers, Form::Pooled, &signed);
    assert!(known.iter().zip(&truth).all(|(tx, sender)| tx.as_ref().is_ok_and(|tx| tx.sender() == *sender)));
    group.bench_function("known", |b| {
        b.iter(|| cached.recover_batch(&workers, Form::Block, black_box(&signed)));
    });
    assert_eq!(cache.stats().misses, TXS as u64, "every second lookup was a hit");
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
