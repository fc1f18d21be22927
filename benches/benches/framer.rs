//! ParaFramer: access sets to frames, on one core. Digests are given, as ParaLyze gives them.
#![expect(missing_docs, reason = "criterion's macros generate public functions")]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use phalanx::paraframer::{Frame, Framer, FramerConfig};
use phalanx_benches::Transfers;
use std::{hint::black_box, time::Duration};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const TXS: usize = 1 << 16;

/// Frames all transactions, and passes each frame to `emit`.
fn frame_all(framer: &mut Framer<u32>, transfers: &Transfers, emit: &mut impl FnMut(Frame<'_, u32>)) {
    for (tx, keys) in (0..).zip(transfers.digests.iter()) {
        framer.push(tx, keys[0].0, 21_000, keys, emit);
    }
    framer.flush(emit);
}

/// Proves that no two members of a frame conflict, each sender's order survives, and nothing is lost or doubled.
fn prove(transfers: &Transfers) {
    let mut order = Vec::new();
    frame_all(&mut Framer::new(FramerConfig::default()), transfers, &mut |frame| {
        let mut keys = std::collections::HashMap::new();
        for tx in frame.txs {
            for (key, access) in transfers.sets.get(*tx as usize) {
                let earlier = keys.insert(*key, *access);
                assert!(earlier.is_none_or(|earlier| !earlier.conflicts(*access)), "{key:?} conflicts within a frame");
            }
        }
        order.extend_from_slice(frame.txs);
    });
    let mut latest = std::collections::HashMap::new();
    for tx in &order {
        let before = latest.insert(transfers.sets.get(*tx as usize)[0].0, *tx);
        assert!(before.is_none_or(|before| before < *tx), "a sender's nonces changed places");
    }
    order.sort_unstable();
    assert!(order.into_iter().eq(0..transfers.len() as u32), "framing lost or doubled a transaction");
}

fn push(c: &mut Criterion) {
    let mut group = c.benchmark_group("framer::push");
    group.throughput(Throughput::Elements(TXS as u64)).measurement_time(Duration::from_secs(2));
    for transfers in Transfers::all(TXS as u64).expect("a load") {
        prove(&transfers);
        let mut framer = Framer::new(FramerConfig::default());
        group.bench_function(format!("txs={TXS} keys=2 {}", transfers.name), |b| {
            b.iter(|| {
                let mut frames = 0usize;
                frame_all(&mut framer, black_box(&transfers), &mut |frame| frames += frame.txs.len());
                frames
            });
        });
    }
    group.finish();
}

criterion_group!(benches, push);
criterion_main!(benches);
