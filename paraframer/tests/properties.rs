//! Properties of every stream, checked against the true keys instead of their digests.

use std::collections::{HashMap, HashSet};

use load::{Hot, Load};
use phalanx_access::{
    Access::{self, Credit, Read, Write},
    AccessSet, Key, Salt,
};
use phalanx_paraframer::{BlockFormer, BlockLimits, Cause, Formed, Framer, FramerConfig};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

#[path = "../benches/load.rs"]
mod load;

/// A transaction as the caller knows it.
#[derive(Clone, Debug)]
struct Tx {
    sender: u64,
    gas: u64,
    set: AccessSet<u64>,
}

/// A frame that left, and the number of the push during which it left (from one; none for the flush).
#[derive(Debug, PartialEq)]
struct Left {
    txs: Vec<usize>,
    gas: u64,
    cause: Cause,
    at: Option<u64>,
}

/// Digests of keys: honest, or such that many keys share few digests.
#[derive(Clone, Copy, Debug)]
enum Digests {
    Salted,
    Few(u64),
}

impl Digests {
    fn of(self, key: u64) -> u64 {
        match self {
            Self::Salted => key.digest(&Salt::new(1)),
            Self::Few(values) => (key % values).digest(&Salt::new(1)),
        }
    }
}

fn one_of<T: Copy, const N: usize>(rng: &mut ChaCha8Rng, choices: [T; N]) -> T {
    choices[rng.random_range(0..N)]
}

/// A stream in which a few hot keys are touched in every way, and senders send many transactions.
fn stream(seed: u64, count: usize) -> Vec<Tx> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let senders = one_of(&mut rng, [1, 4, 40, 100_000]);
    let hot = one_of(&mut rng, [2, 20, 200]);
    let alpha = one_of(&mut rng, [0.0, 0.1, 0.5, 0.99]);
    let most_keys = one_of(&mut rng, [1, 3, 8]);
    (0..count)
        .map(|_| {
            let sender = rng.random_range(0..senders);
            // Sometimes the sender's key is not listed, or only as read: it must count as written.
            let own = match rng.random_range(0..10) {
                0 => None,
                1 => Some((sender, Read)),
                _ => Some((sender, Write)),
            };
            let others: Vec<_> = (0..rng.random_range(0..=most_keys))
                .map(|_| {
                    let key = if rng.random_bool(alpha) { rng.random_range(0..hot) } else { rng.random() };
                    (key, one_of(&mut rng, [Read, Credit, Write]))
                })
                .collect();
            Tx { sender, gas: rng.random_range(0..100_000), set: own.into_iter().chain(others).collect() }
        })
        .collect()
}

fn transfers(load: Load, count: usize, seed: u64) -> Vec<Tx> {
    load.transfers(count, seed)
        .iter()
        .map(|tx| Tx {
            sender: tx.from,
            gas: 21_000,
            set: [(tx.from, Write), (tx.to, load.receive)].into_iter().collect(),
        })
        .collect()
}

fn frame(txs: &[Tx], config: FramerConfig, digests: Digests) -> Vec<Left> {
    let mut framer = Framer::new(config);
    let mut left = Vec::new();
    let mut pending = 0;
    for (index, tx) in txs.iter().enumerate() {
        let keys: Vec<(u64, Access)> = tx.set.as_slice().iter().map(|(key, kind)| (digests.of(*key), *kind)).collect();
        framer.push(index, digests.of(tx.sender), tx.gas, &keys, &mut |frame| {
            pending -= frame.txs.len() as isize;
            let at = Some(index as u64 + 1);
            left.push(Left { txs: frame.txs.to_vec(), gas: frame.gas, cause: frame.cause, at });
        });
        pending += 1;
        assert_eq!(framer.pending() as isize, pending);
    }
    framer.flush(&mut |frame| {
        left.push(Left { txs: frame.txs.to_vec(), gas: frame.gas, cause: frame.cause, at: None });
    });
    assert_eq!(framer.pending(), 0);
    framer.flush(&mut |_| panic!("nothing is left"));
    left
}

/// Every property of frames. `why` names the seed and the configuration.
fn check(txs: &[Tx], frames: &[Left], config: FramerConfig, why: &str) {
    let stream: Vec<usize> = frames.iter().flat_map(|frame| frame.txs.iter().copied()).collect();
    let distinct: HashSet<_> = stream.iter().collect();
    assert!(stream.len() == txs.len() && distinct.len() == txs.len(), "lost or duplicated: {why}");

    let mut last: HashMap<u64, usize> = HashMap::new();
    for &index in &stream {
        if let Some(earlier) = last.insert(txs[index].sender, index) {
            assert!(earlier < index, "sender {} leaves {earlier} before {index}: {why}", txs[index].sender);
        }
    }

    for frame in frames {
        let mut union: AccessSet<u64> = AccessSet::new();
        let mut keys_before_last = 0;
        for &index in &frame.txs {
            keys_before_last = union.as_slice().len();
            let mut set = txs[index].set.clone();
            set.add(txs[index].sender, Write);
            assert!(!set.conflicts(&union), "transaction {index} conflicts within its frame: {why}");
            for (key, access) in set.as_slice() {
                union.add(*key, *access);
            }
        }
        let gas: u64 = frame.txs.iter().map(|index| txs[*index].gas).sum();
        let last = frame.txs.last().expect("a frame has members");
        assert_eq!(gas, frame.gas, "{why}");
        assert!(frame.txs.len() <= config.max_txs.max(1), "count limit: {why}");
        assert!(gas - txs[*last].gas < config.max_gas, "gas limit: {why}");
        // The filters count a key as known when its bits are all set: a few per cent of the keys at this load.
        assert!(keys_before_last <= config.max_keys + config.max_keys / 8, "key limit: {why}");
        let arrived = *frame.txs.first().expect("a frame has members") as u64 + 1;
        assert!(frame.at.unwrap_or(txs.len() as u64) - arrived <= config.max_age.max(1), "age limit: {why}");
        assert!(frame.txs.is_sorted(), "members stand in order of arrival: {why}");
    }
}

#[test]
fn frames_of_random_streams_hold_every_property() {
    let mut causes = HashSet::new();
    for seed in 0..120 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed + 1_000);
        let txs = stream(seed, 3_000);
        let config = FramerConfig {
            max_txs: one_of(&mut rng, [0, 1, 7, 128, 1_000]),
            max_keys: one_of(&mut rng, [1, 64, 256]),
            max_gas: one_of(&mut rng, [1, 500_000, u64::MAX]),
            max_age: one_of(&mut rng, [0, 5, 300, 8_192, u64::MAX]),
        };
        for digests in [Digests::Salted, Digests::Few(1), Digests::Few(7), Digests::Few(300)] {
            let why = format!("seed {seed}, {digests:?}, {config:?}");
            let frames = frame(&txs, config, digests);
            check(&txs, &frames, config, &why);
            assert_eq!(frames, frame(&txs, config, digests), "same input, same frames: {why}");
            causes.extend(frames.iter().map(|frame| frame.cause));
        }
    }
    assert_eq!(causes.len(), 5, "the streams reach every cause: {causes:?}");
}

/// Hot senders under the default limits, where frames wait for each other in long chains and are ejected.
#[test]
fn hot_senders_keep_their_nonce_order_and_frames_stay_large() {
    // Transactions per frame a little below what is measured, so that a worse placement or ejection rule fails.
    // No rule can do better than one transaction per hot sender and frame, here about 100 in the third and fourth line.
    for (alpha, gamma, hot, receive, least) in [
        (0.0, 1, Hot::Both, Credit, 122.0),
        (0.5, 100, Hot::Sender, Credit, 115.0),
        (0.99, 100, Hot::Sender, Credit, 82.0),
        (0.99, 100, Hot::Sender, Write, 82.0),
        (0.99, 1_000, Hot::Sender, Credit, 118.0),
        (0.99, 100, Hot::Receiver, Credit, 120.0),
        (0.99, 100, Hot::Receiver, Write, 75.0),
        (0.5, 100, Hot::Both, Credit, 74.0),
        (0.99, 100, Hot::Both, Credit, 43.0),
        (0.99, 100, Hot::Both, Write, 28.0),
        (0.99, 3, Hot::Sender, Credit, 2.5),
    ] {
        let load = Load { alpha, gamma, hot, receive };
        let txs = transfers(load, 60_000, 3);
        let config = FramerConfig::default();
        let frames = frame(&txs, config, Digests::Salted);
        check(&txs, &frames, config, &format!("{load:?}"));
        let mean = txs.len() as f64 / frames.len() as f64;
        assert!(mean >= least, "{mean:.1} transactions per frame, expected {least}: {load:?}");
    }
}

/// A single sender gets frames of one transaction, in order.
#[test]
fn a_single_sender_comes_out_in_order_one_by_one() {
    let txs = vec![Tx { sender: 5, gas: 1, set: AccessSet::new() }; 500];
    let frames = frame(&txs, FramerConfig::default(), Digests::Salted);
    let members: Vec<_> = frames.iter().map(|frame| frame.txs.clone()).collect();
    assert_eq!(members, (0..500).map(|index| vec![index]).collect::<Vec<_>>());
}

#[test]
fn a_transaction_wider_than_any_limit_leaves_at_once() {
    let wide: AccessSet<u64> = (1_000..6_000).map(|key| (key, Write)).collect();
    let mut txs = transfers(Load::UNIFORM, 200, 9);
    txs.insert(100, Tx { sender: 1, gas: u64::MAX, set: wide });
    let mut framer = Framer::default();
    let mut left_with = None;
    for (index, tx) in txs.iter().enumerate() {
        let keys: Vec<_> = tx.set.as_slice().iter().map(|(key, kind)| (Digests::Salted.of(*key), *kind)).collect();
        framer.push(index, Digests::Salted.of(tx.sender), tx.gas, &keys, &mut |frame| {
            if frame.txs.contains(&100) {
                left_with = Some(index);
                assert_eq!(frame.gas, u64::MAX, "gas saturates");
            }
        });
    }
    assert_eq!(left_with, Some(100));
}

/// Frames into blocks: order, limits and nothing lost.
#[test]
fn blocks_are_the_frames_in_order_cut_by_limits() {
    for seed in 0..40 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let txs = stream(seed, 2_000);
        let limits = BlockLimits {
            max_txs: one_of(&mut rng, [1, 10, 333, 100_000]),
            max_gas: one_of(&mut rng, [90_000, 1_000_000, u64::MAX]),
        };
        let (mut blocks, mut rejected, mut counted) = (Vec::new(), Vec::new(), Vec::new());
        let mut sink = |formed: Formed<'_, usize>| match formed {
            Formed::Block(block) => {
                assert_eq!(block.gas, block.txs.iter().map(|tx| txs[*tx].gas).sum::<u64>());
                assert!(block.txs.len() <= limits.max_txs && block.gas <= limits.max_gas, "seed {seed}");
                assert!((1..=block.txs.len()).contains(&block.frames), "seed {seed}");
                counted.push(block.frames);
                blocks.push(block.txs.to_vec());
            }
            Formed::Rejected(too_large) => rejected.push(too_large.tx),
        };
        let mut framer = Framer::default();
        let mut former = BlockFormer::new(limits);
        let mut order = Vec::new();
        let mut frames = 0;
        let mut on_frame = |frame: phalanx_paraframer::Frame<'_, usize>| {
            order.extend_from_slice(frame.txs);
            frames += 1;
            former.push(&frame, |tx| txs[*tx].gas, &mut sink);
        };
        for (index, tx) in txs.iter().enumerate() {
            let keys: Vec<_> = tx.set.as_slice().iter().map(|(key, kind)| (Digests::Salted.of(*key), *kind)).collect();
            framer.push(index, Digests::Salted.of(tx.sender), tx.gas, &keys, &mut on_frame);
        }
        framer.flush(&mut on_frame);
        former.flush(&mut sink);

        let fits = |tx: &usize| txs[*tx].gas <= limits.max_gas;
        assert_eq!(blocks.concat(), order.iter().copied().filter(fits).collect::<Vec<_>>(), "seed {seed}");
        assert_eq!(rejected, order.iter().copied().filter(|tx| !fits(tx)).collect::<Vec<_>>(), "seed {seed}");
        assert!(
            counted.iter().sum::<usize>() <= frames + blocks.len(),
            "a cut frame counts in two blocks: seed {seed}"
        );
        for pair in blocks.windows(2) {
            let gas: u64 = pair[0].iter().map(|tx| txs[*tx].gas).sum();
            let next = txs[pair[1][0]].gas;
            assert!(pair[0].len() == limits.max_txs || gas + next > limits.max_gas, "closed too early: seed {seed}");
        }
    }
}
