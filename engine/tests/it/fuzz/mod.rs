//! Random adversarial blocks: shared senders, and few contracts that call, create, destroy and read each other. Every
//! executor must agree with stock revm, with any hints.
//!
//! `PHALANX_FUZZ_SEED` is the first seed and `PHALANX_FUZZ_SECONDS` the duration; without a duration some dozen cases
//! run. `PHALANX_FUZZ_FORK` is the hard fork of all cases, instead of a random one. A failure prints its seed and the smallest failing case.

mod code;
mod flat;
mod free;
mod lasting;
mod shrink;
mod txs;
pub(crate) mod world;

pub(crate) use world::case as random_case;

use crate::kit::{SlowDisk, some_ways, ways_on};
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;
use std::time::{Duration, Instant};

/// Number of cases of a run without a duration; each has two or three blocks.
const CASES: u64 = 40;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().expect("a number"))
}

/// Calls `case` with successive seeds, `count` of them unless a duration is set. Returns their number.
fn for_seeds(count: u64, mut case: impl FnMut(u64)) -> u64 {
    let first = number("PHALANX_FUZZ_SEED").unwrap_or(1);
    let end = number("PHALANX_FUZZ_SECONDS").map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let mut cases = 0;
    while end.map_or(cases < count, |end| Instant::now() < end) {
        let seed = first.wrapping_add(cases);
        // Shown if the case panics.
        println!("seed {seed}");
        case(seed);
        cases += 1;
    }
    cases
}

/// Calls `case` with successive seeds.
pub(crate) fn fuzz(mut case: impl FnMut(u64) -> usize) {
    let mut blocks = 0;
    let cases = for_seeds(CASES, |seed| blocks += case(seed));
    println!("{cases} cases, {blocks} valid blocks");
    assert!(cases != CASES || blocks > CASES as usize, "most blocks must be valid: {blocks} of {cases} cases are");
}

#[test]
fn random_blocks_end_alike_on_every_executor() {
    let mut txs = 0;
    fuzz(|seed| {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let case = world::case(&mut rng);
        let ways = some_ways(&mut rng);
        match case.check(&ways) {
            Ok(proof) => {
                txs += proof.blocks.iter().flatten().map(|block| block.outcomes.len()).sum::<usize>();
                proof.blocks.iter().flatten().count()
            }
            Err(what) => {
                let (smallest, what) = shrink::smallest(case, &ways, what);
                panic!("seed {seed}: {what}\n{smallest}");
            }
        }
    });
    println!("{txs} transactions of valid blocks");
}

/// With no value cached, or few. Block-STM parks transactions there, and the DAG finds escapes.
#[test]
fn random_blocks_on_a_slow_disk_end_alike_on_every_executor() {
    let disk = SlowDisk::new();
    let mut blocks = 0;
    for_seeds(3, |seed| {
        let mut rng = ChaCha8Rng::seed_from_u64(seed ^ 0x6469_736b);
        let case = world::case(&mut rng);
        let ways = ways_on(&disk, if seed % 2 == 0 { 0 } else { 3_000 }, seed);
        match case.check(&ways) {
            Ok(proof) => blocks += proof.blocks.iter().filter(|block| block.is_ok()).count(),
            Err(what) => {
                let (smallest, what) = shrink::smallest(case, &ways, what);
                panic!("seed {seed}: {what}\n{smallest}");
            }
        }
    });
    let (reads, apart) = disk.reads();
    println!("{blocks} valid blocks, {reads} reads, {apart} of them apart");
    assert!(blocks > 0 && reads > apart && apart > 0, "{blocks} blocks, {reads} reads, {apart} apart");
}

#[test]
fn random_transactions_in_free_order_end_alike_on_every_executor() {
    fuzz(|seed| {
        let mut rng = ChaCha8Rng::seed_from_u64(seed ^ 0x6672_6565);
        let case = world::case(&mut rng);
        free::check(&case, &mut rng)
    });
}
