//! Cost of framing, from push to emission. Every load is checked to come out complete before it is timed.
#![expect(missing_docs, reason = "criterion's macros generate public functions")]

use std::{hint::black_box, time::Duration};

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use load::{Hot, Load, Transfer};
use phalanx_access::Access::{Credit, Write};
use phalanx_paraframer::{BlockFormer, BlockLimits, Formed, Frame, Framer};

#[path = "load.rs"]
mod load;

const TXS: usize = 65_536;

/// Frames the whole load; the sum of the emitted indices and the number of frames.
fn frame_all(framer: &mut Framer<u32>, load: &[Transfer]) -> (u64, u64) {
    let (mut sum, mut frames) = (0, 0);
    let mut emit = |frame: Frame<'_, u32>| {
        sum += frame.txs.iter().map(|tx| u64::from(*tx)).sum::<u64>();
        frames += 1;
    };
    for (index, tx) in load.iter().enumerate() {
        framer.push(index as u32, tx.keys[0].0, 21_000, &tx.keys, &mut emit);
    }
    framer.flush(&mut emit);
    (sum, frames)
}

fn push(c: &mut Criterion) {
    let mut group = c.benchmark_group("framer::push");
    group.throughput(Throughput::Elements(TXS as u64)).measurement_time(Duration::from_secs(3));
    let load = |alpha, gamma, hot| Load { alpha, gamma, hot, receive: Credit };
    let loads = [
        ("uniform", Load::UNIFORM),
        ("uniform receive=write", Load { receive: Write, ..Load::UNIFORM }),
        ("hot=sender alpha=0.5 gamma=100", load(0.5, 100, Hot::Sender)),
        ("hot=sender alpha=0.99 gamma=100", load(0.99, 100, Hot::Sender)),
        ("hot=sender alpha=0.99 gamma=1000", load(0.99, 1000, Hot::Sender)),
        ("hot=receiver alpha=0.5 gamma=100", load(0.5, 100, Hot::Receiver)),
        ("hot=receiver alpha=0.99 gamma=100", load(0.99, 100, Hot::Receiver)),
        ("hot=receiver alpha=0.99 gamma=1000", load(0.99, 1000, Hot::Receiver)),
        ("hot=both alpha=0.99 gamma=100", load(0.99, 100, Hot::Both)),
        ("hot=sender alpha=1 gamma=1", load(1.0, 1, Hot::Sender)),
        ("hot=sender alpha=0.99 gamma=10", load(0.99, 10, Hot::Sender)),
    ];
    for (name, load) in loads {
        let transfers = load.transfers(TXS, 1);
        let mut framer = Framer::default();
        let (sum, frames) = frame_all(&mut framer, &transfers);
        assert_eq!(sum, (TXS as u64 - 1) * TXS as u64 / 2, "every transaction comes out once");
        assert!(frames >= TXS as u64 / 128);
        group.bench_function(format!("txs={TXS} keys=2 {name}"), |b| {
            b.iter(|| frame_all(black_box(&mut framer), black_box(&transfers)));
        });
    }
    group.finish();
}

fn form(c: &mut Criterion) {
    let mut group = c.benchmark_group("former::push");
    group.throughput(Throughput::Elements(TXS as u64)).measurement_time(Duration::from_secs(3));
    let transfers = Load::UNIFORM.transfers(TXS, 1);
    let form_all = |(mut framer, mut former): (Framer<u32>, BlockFormer<u32>)| {
        let mut formed = 0;
        let mut on_block = |out: Formed<'_, u32>| match out {
            Formed::Block(block) => formed += block.txs.len(),
            Formed::Rejected(_) => unreachable!("every transfer fits"),
        };
        for (index, tx) in transfers.iter().enumerate() {
            framer.push(index as u32, tx.keys[0].0, 21_000, &tx.keys, &mut |frame| {
                former.push(&frame, |_| 21_000, &mut on_block);
            });
        }
        framer.flush(&mut |frame| former.push(&frame, |_| 21_000, &mut on_block));
        former.flush(&mut on_block);
        formed
    };
    let fresh = || (Framer::default(), BlockFormer::new(BlockLimits { max_txs: 10_000, max_gas: u64::MAX }));
    assert_eq!(form_all(fresh()), TXS);
    group.bench_function(format!("txs={TXS} block=10000 uniform, with framing"), |b| {
        b.iter_batched(fresh, form_all, BatchSize::LargeInput);
    });
    group.finish();
}

criterion_group!(benches, push, form);
criterion_main!(benches);
