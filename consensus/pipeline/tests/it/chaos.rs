//! Random trees of proposals, with events repeated and in any order, reach one outcome.
//!
//! `PHALANX_PIPELINE_RUNS` sets the number of runs; `PHALANX_PIPELINE_SEED` runs one seed.

use crate::common::{Block, Node};
use alloy_primitives::B256;
use phalanx_engine_api::{BlockId, ExecutionEngine as _};
use phalanx_pipeline::{ConsensusEvent, Mode, PayloadRef};
use phalanx_sim::Rng;
use std::collections::{BTreeMap, BTreeSet};

const RUNS: u64 = 3000;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

fn shuffle<T>(items: &mut [T], rng: &mut Rng) {
    for last in (1..items.len()).rev() {
        items.swap(last, rng.below(last as u64 + 1) as usize);
    }
}

#[test]
fn any_order_of_events_commits_the_winning_chain() {
    let seeds =
        number("PHALANX_PIPELINE_SEED").map_or(0..number("PHALANX_PIPELINE_RUNS").unwrap_or(RUNS), |s| s..s + 1);
    for seed in seeds {
        let mut rng = Rng::new(seed);
        let mode = if rng.chance(300) { Mode::Baseline } else { Mode::Optimistic };
        let height = 1 + rng.below(7);
        // The winners, and at every height losers that build on any block below.
        let mut winners: Vec<Block> = Vec::new();
        let mut all: Vec<Block> = Vec::new();
        for height in 1..=height {
            let parents: Vec<BlockId> = if height == 1 {
                vec![BlockId::default()]
            } else {
                all.iter().filter(|block| block.meta.height == height - 1).map(|block| block.meta.id).collect()
            };
            let parent = winners.last().map_or(BlockId::default(), |block| block.meta.id);
            // Views differ; blocks with the same content share one execution.
            winners.push(Block::new(parent, height, 0, rng.below(2)));
            all.extend(winners.last().cloned());
            for view in 1..=rng.below(3) {
                let parent = parents[rng.below(parents.len() as u64) as usize];
                all.push(Block::new(parent, height, view, rng.below(2)));
            }
        }
        let digests = Node::digests(&winners);
        let order_voted: BTreeSet<BlockId> =
            all.iter().filter(|_| rng.chance(500)).map(|block| block.meta.id).collect();
        let mut events: Vec<ConsensusEvent> = Vec::new();
        for block in &all {
            if rng.chance(500) {
                events.push(block.proposed());
            } else {
                events.push(block.named());
                events.push(ConsensusEvent::Payload(block.payload.clone()));
            }
            if order_voted.contains(&block.meta.id) {
                events.push(ConsensusEvent::OrderVoteDurable(block.meta.id));
            }
        }
        for (block, digest) in winners.iter().zip(&digests) {
            events.push(block.ordered());
            events.extend((1..4).map(|from| block.vote(from, *digest)));
        }
        let again: Vec<_> = events.iter().filter(|_| rng.chance(300)).cloned().collect();
        events.extend(again);
        shuffle(&mut events, &mut rng);

        let mut node = Node::new(|config| config.mode = mode);
        let mut released: BTreeSet<BlockId> = BTreeSet::new();
        for event in events {
            if let ConsensusEvent::OrderVoteDurable(id) = &event {
                released.insert(*id);
            }
            if let ConsensusEvent::Ordered { .. } | ConsensusEvent::StateVote { .. } = &event {
                // An order, or the certificate that implies it, releases every ancestor.
                released.extend(winners.iter().map(|block| block.meta.id));
            }
            node.consensus(event);
            for _ in 0..rng.below(3) {
                node.work(rng.below(4) as usize);
            }
            for (id, _) in node.votes() {
                assert!(released.contains(&id), "seed {seed}: a vote left before it was released");
            }
        }
        // Events that came before their block were lost on purpose; consensus repeats them, and time passes.
        for block in &winners {
            let payload = PayloadRef::Here(block.payload.clone());
            node.consensus(ConsensusEvent::Proposed { meta: block.meta, env: block.env, payload });
            node.consensus(block.ordered());
        }
        for _ in 0..4 {
            node.settle();
            node.timer();
        }
        node.settle();

        let expected: Vec<_> = winners.iter().map(|block| (block.meta.height, block.meta.id)).collect();
        assert_eq!(node.acks(), expected, "seed {seed}: {mode:?}, every height once and in order");
        let mut votes = BTreeMap::new();
        for (id, digest) in node.votes() {
            // A block that was dropped and proposed again may be voted for again, but never otherwise.
            assert!(
                votes.insert(id, digest).is_none_or(|before| before == digest),
                "seed {seed}: two results of one block"
            );
        }
        let theirs: BTreeMap<BlockId, B256> = winners.iter().map(|block| block.meta.id).zip(digests).collect();
        assert!(theirs.iter().all(|(id, digest)| votes.get(id).is_none_or(|vote| vote == digest)), "seed {seed}");
        let status = node.engine.status();
        assert_eq!((status.committed.height, status.staged), (height, vec![]), "seed {seed}: losers leave nothing");
        assert_eq!(status.committed.meta.block, winners.last().expect("one").meta.id, "seed {seed}");
        assert!(!node.pipeline.is_halted() && node.pipeline.tracked() == 0, "seed {seed}");
    }
}

#[test]
fn a_payload_proposed_in_a_later_view_is_executed_once() {
    let mut node = Node::new(|_| {});
    let first = Block::new(BlockId::default(), 1, 1, 5);
    let later = Block::new(BlockId::default(), 1, 2, 5);
    node.consensus(first.proposed());
    node.settle();
    node.consensus(later.proposed());
    node.settle();
    assert_eq!(node.submitted, 1);
    // The execution exists already when the later view orders it.
    node.consensus(later.ordered());
    assert_eq!(node.votes().iter().map(|(id, _)| *id).collect::<Vec<_>>(), [later.meta.id]);
    assert_eq!(node.submitted, 1);
}
