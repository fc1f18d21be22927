//! Evidence that must stop a node, input that must not, and conditions that only delay.

use crate::common::{Block, Node, chain};
use alloy_primitives::{B256, Bytes};
use phalanx_engine_api::{BlockId, ExecutionEngine as _, FatalCause};
use phalanx_pipeline::{Committee, ConsensusEvent, Effect, Mode, OrderVote, StateRule};

fn halts(node: &Node) -> Vec<FatalCause> {
    let cause = |effect: &Effect| match effect {
        Effect::Halt(incident) => Some(incident.cause.clone()),
        _ => None,
    };
    node.effects.iter().filter_map(cause).collect()
}

#[test]
fn a_certificate_for_another_result_stops_the_node_with_a_report() {
    for late in [false, true] {
        let blocks = chain(1);
        let block = &blocks[0];
        let mut node = Node::new(|_| {});
        node.consensus(block.proposed());
        if !late {
            node.settle();
        }
        node.consensus(ConsensusEvent::OrderVoteDurable(block.meta.id));
        for from in 1..4 {
            node.consensus(block.vote(from, B256::repeat_byte(9)));
        }
        node.settle();
        let ours = Node::digests(&blocks)[0];
        let Some(Effect::Halt(incident)) = node.effects.last() else { panic!("{:?}", node.effects) };
        assert!(
            matches!(incident.cause, FatalCause::Divergence { ours: o, theirs, .. } if o == ours && theirs == B256::repeat_byte(9))
        );
        assert_eq!(incident.block, Some(block.meta));
        assert!(incident.outcome.is_some() && incident.certificate.is_some());
        assert!(node.pipeline.is_halted());
        // No effect follows a halt.
        let effects = node.effects.len();
        let next = Block::new(block.meta.id, 2, 2, 2);
        node.consensus(next.proposed());
        node.consensus(next.ordered());
        node.timer();
        node.settle();
        assert_eq!((node.effects.len(), node.engine.status().committed.height), (effects, 0));
    }
}

#[test]
fn a_certificate_that_arrives_after_the_commit_is_compared() {
    let blocks = chain(3);
    let digests = Node::digests(&blocks);
    let certificate =
        |id, height: u64, digest| ConsensusEvent::StateCertificate { id, height, digest, bytes: Bytes::new() };
    for (height, digest, name, cause) in [
        (2, digests[1], blocks[1].meta.id, None),
        (2, B256::repeat_byte(9), blocks[1].meta.id, Some("divergence")),
        (2, digests[1], BlockId(B256::repeat_byte(8)), Some("fork")),
        // The result of the genesis block is not remembered.
        (0, B256::repeat_byte(9), BlockId::default(), None),
    ] {
        let mut node = Node::new(|config| config.rule = StateRule::Ordered);
        for block in &blocks {
            node.consensus(block.proposed());
            node.consensus(block.ordered());
        }
        node.settle();
        assert_eq!(node.acks().len(), 3);
        node.consensus(certificate(name, height, digest));
        assert_eq!(node.pipeline.is_halted(), cause.is_some());
        let Some(cause) = cause else { continue };
        let Some(Effect::Halt(incident)) = node.effects.last() else { panic!("{:?}", node.effects) };
        let found = match incident.cause {
            FatalCause::Divergence { ours, theirs, .. } if (ours, theirs) == (digests[1], digest) => "divergence",
            FatalCause::Fork { height: 2 } => "fork",
            _ => "something else",
        };
        assert_eq!(found, cause, "{incident:?}");
        assert_eq!(incident.block, Some(blocks[1].meta));
        assert_eq!(incident.outcome.as_ref().map(|outcome| outcome.digest()), Some(digests[1]));
        assert_eq!(incident.certificate.as_ref().map(|certificate| certificate.digest), Some(digest));
    }
}

#[test]
fn no_effect_follows_a_halt() {
    // The rival was never submitted: its order would submit it, had it not halted the node. Names come in either order.
    for view in 1..20 {
        let a = Block::new(BlockId::default(), 1, view, 1);
        let b = Block::new(BlockId::default(), 1, view + 100, 2);
        let mut node = Node::new(|config| config.mode = Mode::Baseline);
        for block in [&a, &b] {
            node.consensus(block.proposed());
        }
        node.consensus(a.ordered());
        node.consensus(b.ordered());
        node.consensus(b.proposed());
        assert_eq!(halts(&node), [FatalCause::Fork { height: 1 }]);
        assert_eq!(node.submitted, 1);
    }
}

#[test]
fn wrong_votes_of_a_minority_change_nothing() {
    let blocks = chain(1);
    let digest = Node::digests(&blocks)[0];
    let mut node = Node::new(|_| {});
    node.consensus(blocks[0].vote(3, B256::repeat_byte(9)));
    node.consensus(blocks[0].proposed());
    node.consensus(blocks[0].ordered());
    node.settle();
    for (from, digest) in [(3, digest), (1, digest), (1, digest), (7, digest), (0, digest)] {
        node.consensus(blocks[0].vote(from, digest));
    }
    node.settle();
    // Validator 3 has used up its vote, 1 counts once, 7 is not in the committee: two votes of three.
    assert_eq!(node.acks(), []);
    node.consensus(blocks[0].vote(2, digest));
    node.settle();
    assert_eq!(node.acks(), [(1, blocks[0].meta.id)]);
}

#[test]
fn consensus_that_contradicts_itself_stops_the_node() {
    let a = Block::new(BlockId::default(), 1, 1, 1);
    let b = Block::new(BlockId::default(), 1, 2, 2);
    let mut node = Node::new(|_| {});
    for block in [&a, &b] {
        node.consensus(block.proposed());
    }
    node.consensus(a.ordered());
    // b was dropped with its height decided, so consensus has to bring it again.
    node.consensus(b.ordered());
    node.consensus(b.proposed());
    assert_eq!(halts(&node), [FatalCause::Fork { height: 1 }]);

    let mut node = Node::new(|_| {});
    node.consensus(a.proposed());
    node.consensus(a.ordered());
    node.consensus(ConsensusEvent::Abandoned(a.meta.id));
    assert_eq!(halts(&node), [FatalCause::Contradiction { height: 1 }]);

    // Another block at a committed height.
    let mut node = Node::new(|config| config.rule = StateRule::Ordered);
    node.consensus(a.proposed());
    node.consensus(a.ordered());
    node.settle();
    assert_eq!(node.acks().len(), 1);
    node.consensus(b.ordered());
    assert_eq!(halts(&node), [FatalCause::Fork { height: 1 }]);
}

#[test]
fn an_abandoned_branch_is_dropped_and_returns_its_transactions() {
    let a = Block::new(BlockId::default(), 1, 1, 1);
    let child = Block::new(a.meta.id, 2, 2, 2);
    let b = Block::new(BlockId::default(), 1, 3, 3);
    let mut node = Node::new(|_| {});
    for block in [&a, &child, &b] {
        node.consensus(block.proposed());
    }
    node.settle();
    assert_eq!(node.engine.status().staged.len(), 3);
    node.consensus(ConsensusEvent::Abandoned(a.meta.id));
    node.settle();
    assert_eq!((node.engine.status().staged.len(), node.pipeline.tracked()), (1, 1));
    let returned: Vec<&Vec<Bytes>> = node
        .effects
        .iter()
        .filter_map(|effect| if let Effect::Return(txs) = effect { Some(txs) } else { None })
        .collect();
    assert_eq!(returned.iter().map(|txs| txs.len()).sum::<usize>(), 2);
}

#[test]
fn without_a_binding_order_vote_the_state_vote_waits_for_the_order() {
    let blocks = chain(1);
    for (mode, order_vote) in [(Mode::Optimistic, OrderVote::None), (Mode::Baseline, OrderVote::Distinct)] {
        let mut node = Node::new(|config| (config.mode, config.order_vote) = (mode, order_vote));
        node.consensus(blocks[0].proposed());
        node.consensus(ConsensusEvent::OrderVoteDurable(blocks[0].meta.id));
        node.settle();
        assert_eq!(node.votes(), []);
        node.consensus(blocks[0].ordered());
        node.settle();
        assert_eq!(node.votes().len(), 1);
    }
}

#[test]
fn a_full_disk_delays_commits_until_there_is_room() {
    let blocks = chain(2);
    let digests = Node::digests(&blocks);
    let mut node = Node::new(|_| {});
    node.engine.set_disk_room(Some(0));
    for (block, digest) in blocks.iter().zip(&digests) {
        node.consensus(block.proposed());
        node.consensus(block.ordered());
        node.settle();
        for from in 0..3 {
            node.consensus(block.vote(from, *digest));
        }
        node.settle();
    }
    for _ in 0..3 {
        node.timer();
        node.settle();
    }
    assert_eq!((node.acks(), node.pipeline.is_halted()), (vec![], false));
    node.engine.set_disk_room(None);
    node.timer();
    node.settle();
    assert_eq!(node.acks().len(), 2);
}

#[test]
fn a_node_far_behind_requests_what_it_can_hold() {
    let blocks = chain(100);
    let mut node = Node::new(|config| {
        config.rule = StateRule::Ordered;
        config.committee = Committee::equal(1);
    });
    node.consensus(blocks[99].ordered());
    let mut rounds = 0;
    while node.acks().len() < 100 && rounds < 50 {
        rounds += 1;
        let asked: Vec<_> = node
            .effects
            .iter()
            .filter_map(|effect| if let Effect::FetchDecided(range) = effect { Some(range.clone()) } else { None })
            .collect();
        node.effects.retain(|effect| !matches!(effect, Effect::FetchDecided(_)));
        for height in asked.into_iter().flatten() {
            node.consensus(blocks[height as usize - 1].proposed());
            node.consensus(blocks[height as usize - 1].ordered());
        }
        assert!(node.pipeline.tracked() <= 33, "bounded by the depth");
        node.settle();
        node.timer();
    }
    assert_eq!(node.acks().len(), 100);
    let held: Vec<_> = node
        .effects
        .iter()
        .filter_map(|effect| if let Effect::Pressure(p) = effect { Some(p.hold_blocks) } else { None })
        .collect();
    assert_eq!((held.first(), held.last()), (Some(&true), Some(&false)), "it said so while it was behind");
}

#[test]
fn at_rest_nothing_happens_until_state_is_synced() {
    let blocks = chain(3);
    let mut node = Node::new(|config| config.rule = StateRule::Ordered);
    node.consensus(blocks[0].proposed());
    node.consensus(blocks[0].ordered());
    node.settle();
    node.consensus(blocks[1].proposed());
    node.consensus(ConsensusEvent::SyncStart);
    node.settle();
    assert!(node.effects.contains(&Effect::AtRest));
    node.consensus(blocks[1].ordered());
    node.settle();
    assert_eq!(node.acks().len(), 1);
    let status = node.engine.status();
    node.consensus(ConsensusEvent::SyncDone(Box::new(status)));
    for block in &blocks[1..] {
        node.consensus(block.proposed());
        node.consensus(block.ordered());
    }
    node.settle();
    assert_eq!(node.acks().len(), 3);
}
