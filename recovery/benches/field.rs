//! Multiplications and squares of field elements in eight and in four lanes, the two groups of a kernel side by side.
//!
//! Times the counts of [28](../../docs/explanation/0028-recovery.md), they are the share of a recovery that field arithmetic
//! takes: `cargo bench -p phalanx-recovery --bench field`.
#![expect(missing_docs, reason = "criterion's macros generate public functions")]
#![allow(
    dead_code,
    unreachable_pub,
    unused_imports,
    reason = "the field as the crate has it, which exports none of it"
)]

#[path = "../src/field/mod.rs"]
mod field;
#[path = "../src/lanes/mod.rs"]
mod lanes;

use criterion::{Criterion, criterion_group, criterion_main};
use field::Fe;
use lanes::Word;
use std::{hint::black_box, time::Instant};

/// Multiplies two chains `steps` times.
#[inline(always)]
fn multiplied<W: Word>(steps: u64) {
    let by = Fe::<W>::splat(black_box([3, 5, 7, 11]));
    let mut chains = black_box([by, Fe::one()]);
    for _ in 0..steps {
        // A closure would be compiled without the instructions.
        for chain in &mut chains {
            *chain = chain.mul(by);
        }
    }
    black_box(chains);
}

#[inline(always)]
fn squared<W: Word>(steps: u64) {
    let mut chains = black_box([Fe::<W>::splat([3, 5, 7, 11]), Fe::splat([13, 17, 19, 23])]);
    for _ in 0..steps {
        for chain in &mut chains {
            *chain = chain.square();
        }
    }
    black_box(chains);
}

macro_rules! measure {
    ($c:ident, $lanes:path, $module:ident, $name:literal, $features:literal) => {
        if lanes::$module::available() {
            #[target_feature(enable = $features)]
            fn multiplied_here(steps: u64) {
                multiplied::<$lanes>(steps);
            }
            #[target_feature(enable = $features)]
            fn squared_here(steps: u64) {
                squared::<$lanes>(steps);
            }
            for (what, run) in [("multiplied", multiplied_here as unsafe fn(u64)), ("squared", squared_here)] {
                $c.bench_function(&format!("field/{}/{what}, two vectors", $name), |b| {
                    b.iter_custom(|steps| {
                        let start = Instant::now();
                        #[expect(unsafe_code, reason = "the features were detected")]
                        // SAFETY: `available` returned true.
                        unsafe {
                            run(steps);
                        }
                        start.elapsed()
                    });
                });
            }
        }
    };
}

fn field_operations(c: &mut Criterion) {
    #[cfg(target_arch = "x86_64")]
    {
        measure!(c, lanes::ifma::Eight, ifma, "Avx512Ifma", "avx512f,avx512ifma");
        measure!(c, lanes::avx2::Four, avx2, "Avx2", "avx2,fma");
    }
}

criterion_group!(benches, field_operations);
criterion_main!(benches);
