//! Fairness: the distance by which framing may move a transaction.

use phalanx::{
    access::Access,
    paraframer::{BlockFormer, BlockLimits, Formed, Framer, FramerConfig},
    pool::Fairness,
};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

/// Frames `txs` transfers, a share of them from and to a few accounts, into blocks.
fn framed(seed: u64, txs: u64, hot: f64, config: FramerConfig, max_txs: usize) -> Vec<Vec<u64>> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut framer = Framer::new(config);
    let mut former = BlockFormer::new(BlockLimits { max_txs, max_gas: u64::MAX });
    let mut blocks = Vec::new();
    let mut on_block = |formed: Formed<'_, u64>| match formed {
        Formed::Block(block) => blocks.push(block.txs.to_vec()),
        Formed::Rejected(too_large) => panic!("{too_large}"),
    };
    for tx in 0..txs {
        let mut side = || if rng.random_bool(hot) { rng.random_range(0..10) } else { rng.random::<u64>() };
        let (from, to) = (side(), side());
        let keys = [(from, Access::Write), (to, Access::Credit)];
        framer.push(tx, from, 1, &keys, &mut |frame| former.push(&frame, |_| 1, &mut on_block));
    }
    framer.flush(&mut |frame| former.push(&frame, |_| 1, &mut on_block));
    former.flush(&mut on_block);
    blocks
}

#[test]
fn framing_moves_no_transaction_further_than_the_age_of_a_frame() {
    let seed = std::env::var("PHALANX_FUZZ_SEED").map_or(1, |seed| seed.parse().expect("a number"));
    println!("seed {seed}");
    for (hot, max_age) in [(0.0, 8_192), (0.1, 8_192), (0.5, 1_024), (0.9, 1_024), (0.9, 100)] {
        let config = FramerConfig { max_age, ..FramerConfig::default() };
        let blocks = framed(seed, 20_000, hot, config, 500);
        let fairness = Fairness::measure(blocks.iter().map(|block| block.iter().copied()));
        println!("hot {hot}, max age {max_age}: {fairness:?}");
        assert_eq!(fairness.txs, 20_000);
        assert!(fairness.max_displacement as u64 <= max_age, "{fairness:?}");
        assert!(fairness.max_displacement > 0 && fairness.max_delay <= fairness.max_displacement);
        assert!(fairness.p50 <= fairness.p99 && fairness.p99 <= fairness.max_displacement);
        assert!(fairness.max_wait as u64 <= max_age.div_ceil(500), "{fairness:?}");
    }
}

#[test]
fn the_measure_equals_its_definition() {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    for _ in 0..200 {
        let mut order: Vec<u64> = (0..rng.random_range(0..40)).map(|rank| rank * 3 + 1).collect();
        for _ in 0..rng.random_range(0..10) {
            if !order.is_empty() {
                let (a, b) = (rng.random_range(0..order.len()), rng.random_range(0..order.len()));
                order.swap(a, b);
            }
        }
        let size = rng.random_range(1..9);
        let fairness = Fairness::measure(order.chunks(size).map(|block| block.iter().copied()));
        let before = |rank: u64| order.iter().filter(|other| **other < rank).count();
        let mut moves: Vec<usize> =
            (0..).zip(&order).map(|(at, rank): (usize, _)| at.abs_diff(before(*rank))).collect();
        moves.sort_unstable();
        let delays = (0..).zip(&order).map(|(at, rank): (usize, _)| at.saturating_sub(before(*rank)));
        let waits = (0..).zip(&order).map(|(at, rank): (usize, _)| (at / size).saturating_sub(before(*rank) / size));
        let expected = Fairness {
            txs: order.len(),
            max_displacement: moves.last().copied().unwrap_or(0),
            p50: if moves.is_empty() { 0 } else { moves[moves.len().div_ceil(2) - 1] },
            p99: if moves.is_empty() { 0 } else { moves[(moves.len() * 99).div_ceil(100) - 1] },
            max_delay: delays.max().unwrap_or(0),
            max_wait: waits.max().unwrap_or(0),
        };
        assert_eq!(fairness, expected, "{order:?} in blocks of {size}");
    }
}
