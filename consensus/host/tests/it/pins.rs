//! Pinned actions of hosts in worlds of every protocol: all that they write, send, time and report, in its order.
//!
//! A replica that lies changes one field of what it receives, and sends it on under its own signature. A change of behaviour changes the pins:
//! the failure prints the new ones. One that was not meant to is a defect.

use crate::{
    cluster::{Net, Setup},
    faults::world_with,
    parts::{Part, put_together, take_apart},
    script::vote,
    silence::{agree, until_it_speaks, world},
    watched::Watched,
};
use alloy_primitives::{B256, Bytes, keccak256};
use phalanx_bft::{Index, Lean, Reach, autobahn::Autobahn, pbft::Pbft, sbft::Sbft};
use phalanx_host::{Action, Blocks, Filled, Frame, Reached, WantBlocks};
use phalanx_sim::model::Costs;
use phalanx_world::Facts;
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeSet;

/// The hash of a history behind this action.
pub(crate) fn note<P: Facts>(before: u64, node: usize, action: &Action<Watched<P>>) -> u64 {
    let what = match action {
        Action::Append(number, record) => [&number.to_be_bytes()[..], &alloy_rlp::encode(record)].concat(),
        Action::Send(to, frame) => [format!("{to:?}").as_bytes(), &alloy_rlp::encode(frame)].concat(),
        Action::Timer(timer, after) => format!("set {timer:?} {after}").into_bytes(),
        Action::Cancel(timer) => format!("cancel {timer:?}").into_bytes(),
        Action::Committed(meta, outcome) => format!("committed {meta:?} {}", outcome.digest()).into_bytes(),
        Action::Certified { slot, digest, signature, answers, .. } => {
            format!("certified {slot} {digest} {signature} {answers}").into_bytes()
        }
        Action::Stable(base) => format!("stable {base:?}").into_bytes(),
        Action::Evidence(against, proof) => format!("evidence {against} {proof}").into_bytes(),
        Action::Forged(from) => format!("forged {from}").into_bytes(),
        Action::Behind(slot) => format!("behind {slot}").into_bytes(),
        Action::Ended(_) => b"ended".to_vec(),
        Action::Halted(_) => b"halted".to_vec(),
    };
    let hash = keccak256([&before.to_be_bytes()[..], &[node as u8], &what].concat());
    hash.0.iter().take(8).fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

/// Lies of replica 3 in answer to a frame.
fn lies<P: Facts>(from: usize, frame: &Frame<P::Msg>, rng: &mut ChaCha8Rng) -> Vec<(usize, Frame<P::Msg>)> {
    let to = rng.random_range(0..3);
    let lie = match frame {
        Frame::Protocol(message) => {
            let (kind, parts) = take_apart(message);
            let mut paths = Vec::new();
            parts.walk(&mut Vec::new(), &mut Vec::new(), &mut |around, path| {
                let known = around.last().is_some_and(|part| matches!(part, Part::Leaf(_)) && !part.is_signature());
                paths.extend(known.then(|| path.to_vec()));
            });
            let mut forged = parts;
            if !paths.is_empty() && rng.random_ratio(3, 4) {
                forged.at(&paths[rng.random_range(0..paths.len())]).change();
            }
            put_together(&(kind, forged), Some(Index(3))).map(Frame::Protocol)
        }
        Frame::StateVote(seen) => {
            let (body, other) = (seen.body, B256::repeat_byte(9));
            let slot = body.slot + rng.random_range(0..3) / 2 * 40;
            let block = if rng.random_ratio(1, 4) { other } else { body.block };
            let digest = if rng.random_ratio(1, 3) { other } else { body.digest };
            let lean = if rng.random_ratio(1, 2) { body.lean() } else { Lean::Early(rng.random_range(0..3)) };
            let lie = vote(3, slot, block, digest, lean);
            Some(match rng.random_range(0..3) {
                0 => Frame::Certificate(vec![seen.clone(), lie.clone(), lie.clone(), lie.clone(), lie]),
                1 => Frame::Certificate(vec![lie]),
                _ => Frame::StateVote(lie),
            })
        }
        Frame::Certificate(votes) => {
            Some(Frame::WantBlocks(WantBlocks { from: 1, to: votes.first().map_or(9, |vote| vote.body.slot) }))
        }
        Frame::WantBlocks(want) => Some(match rng.random_range(0..3) {
            0 => Frame::Pruned(want.to),
            _ => {
                let batches = vec![Filled::new(None); (want.to - want.from + rng.random_range(1..3)) as usize];
                Frame::Blocks(Blocks { from: want.from, batches, outcome: Bytes::from(vec![7; 136]) })
            }
        }),
        Frame::Blocks(_) | Frame::Pruned(_) => Some(Frame::WantReach(5)),
        Frame::Request(tx) => Some(Frame::Request([tx.as_ref(), &[rng.random()]].concat().into())),
        Frame::WantReach(start) => {
            let reach = Reach { view: 90, stable: 4_000, last: 4_008 };
            Some(Frame::Reached(Reached { start: start + rng.random_range(0..2), reach }))
        }
        Frame::Reached(_) => None,
    };
    let to = if matches!(frame, Frame::WantBlocks(_) | Frame::WantReach(_)) { from } else { to };
    lie.into_iter().map(|lie| (to, lie)).collect()
}

/// A world beside a replica that lies, in which a node is away past checkpoints and another one loses its power.
fn beside_a_liar<P: Facts + 'static>(seed: u64) -> Net<P> {
    let costs = Costs { execute_us: 200, stage_us: 300, flip_us: 50, ..Costs::default() };
    let setup = Setup { silent: [3].into(), interval: 4, persist: 50, jitter: 500, timeout: 30_000, ..Setup::new(4) };
    let mut cluster =
        Net::<P>::new(Setup { costs, seed, compacts: seed.is_multiple_of(2), retention: 16, batch_txs: 2, ..setup });
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    cluster.liar = Some(Box::new(move |_, from, frame| match rng.random_ratio(1, 4) {
        true => lies::<P>(from, frame, &mut rng),
        false => Vec::new(),
    }));
    (0..60).for_each(|number| cluster.submit(number * 3_000, number));
    for turn in 0..4 {
        let pause = cluster.random(30_000);
        cluster.run(cluster.now() + pause);
        cluster.crash(turn % 3, 20_000);
        cluster.run(cluster.now() + 60_000);
    }
    agree(&mut cluster, &[0, 1, 2]);
    assert!(cluster.halted.is_empty() && cluster.height(0) > 0, "seed {seed}: {:?}", cluster.halted);
    cluster
}

/// Heights and hashes of the worlds of a protocol: with crashes, cuts and losses; beside a liar; with a node that loses its log.
fn worlds<P: Facts + 'static>() -> [(u64, u64); 3] {
    let mut sums = [(0, 0); 3];
    let mut sum = |at: usize, cluster: &Net<P>| {
        let (heights, trace): &mut (u64, u64) = &mut sums[at];
        *heights += cluster.height(0);
        *trace = trace.rotate_left(1) ^ cluster.trace;
    };
    (0..6).for_each(|seed| sum(0, &world_with::<P>(seed, |_| ())));
    (0..8).for_each(|seed| sum(1, &beside_a_liar::<P>(seed)));
    for seed in 0..2 {
        let (mut cluster, mut number) = (world::<P>(seed), 0);
        cluster.setup.compacts = seed == 0;
        cluster.separate(BTreeSet::new(), false);
        (0..20).for_each(|at| cluster.submit(at * 4_000, 1_000 + at));
        cluster.run(cluster.now() + 100_000);
        cluster.wipe(2, 1_000);
        until_it_speaks(&mut cluster, 2, &mut number);
        sum(2, &cluster);
    }
    sums
}

fn compare<P: Facts + 'static>(pinned: [(u64, u64); 3]) {
    let found = worlds::<P>();
    assert!(
        found == pinned,
        "heights and hashes are [{}]",
        found.map(|(height, hash)| format!("({height}, {hash:#018x})")).join(", ")
    );
}

#[test]
fn hosts_of_pbft_do_what_they_did() {
    compare::<Pbft>([(136, 0x9e9f8ef57ff4659a), (621, 0xfc9365ee79528df0), (80, 0x8a8a45e0a24158ae)]);
}

#[test]
fn hosts_of_sbft_do_what_they_did() {
    compare::<Sbft>([(120, 0xb97549ad22cc07d2), (310, 0x393c4bd61ea65599), (87, 0xad030199562295fb)]);
}

#[test]
fn hosts_of_autobahn_do_what_they_did() {
    compare::<Autobahn>([(365, 0x342814835db2b307), (204, 0x1680fc34cd9b7ef4), (219, 0x1d8f3b4a515fe654)]);
}
