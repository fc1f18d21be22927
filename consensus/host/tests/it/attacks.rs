//! Attacks of one traitor on whole nodes, slow nodes and wide networks: certificates form, catching up ends, silence follows.

#![allow(clippy::unwrap_used, reason = "a failed step fails the test")]

use crate::{
    cluster::{Cluster, DOMAIN, Setup},
    script::{Script, batch, computed, host, play, proposed, state_votes, vote},
};
use alloy_primitives::{Address, B256, Bytes};
use phalanx_adapter::Consensus as _;
use phalanx_bft::{Batch, Index, Lean, Out, Protocol as _, Quorums, pbft};
use phalanx_host::{Blocks, Filled, Frame, Host, HostConfig};
use phalanx_keys::Simulated;
use phalanx_pipeline::ConsensusEvent;
use phalanx_sim::model::{Costs, model_tx};
use std::sync::Arc;

/// Votes of a liar for invented blocks keep no certificate of the true one from forming.
fn flood(flood: bool) {
    let mut cluster = Cluster::new(Setup { silent: [3].into(), ..Setup::new(4) });
    cluster.run(10_000);
    if flood {
        for slot in 1..=100 {
            for name in 0..5u8 {
                for to in 0..3 {
                    let lie = vote(3, slot, B256::repeat_byte(100 + name), B256::repeat_byte(1), Lean::Final);
                    cluster.inject(to, 3, Frame::StateVote(lie), 0);
                }
            }
        }
    }
    cluster.run(20_000);
    (0..20).for_each(|number| cluster.submit(number * 10_000, number));
    cluster.run(20_000_000);
    assert!(cluster.lowest() >= 20 || cluster.height(0) >= 20, "height {}\n{}", cluster.height(0), cluster.describe());
}

#[test]
fn invented_blocks_of_one_replica_keep_no_certificate_from_forming() {
    flood(true);
}

/// Correct replicas stop sending certificates once every block is committed.
#[test]
fn silence_follows_when_everything_is_committed() {
    // Blocks take longer to commit than votes wait to be repeated.
    let costs = Costs { execute_us: 100, stage_us: 60_000, flip_us: 100, ..Costs::default() };
    let mut cluster = Cluster::new(Setup { costs, ..Setup::new(4) });
    (0..10).for_each(|number| cluster.submit(number * 1_000, number));
    cluster.run(5_000_000);
    assert_eq!(cluster.lowest(), 10);
    cluster.delivered.clear();
    cluster.run(6_000_000);
    assert!(
        cluster.delivered.get("certificate").copied().unwrap_or(0) < 10,
        "in an idle second: {:?}",
        cluster.delivered
    );
}

/// A node that is far behind catches up also where round trips are long.
fn far_behind(delay: u64, resend: u64) {
    let blocks = 400;
    let mut cluster = Cluster::new(Setup { interval: 8, delay, resend, timeout: 3_000_000, ..Setup::new(4) });
    cluster.run(10_000);
    cluster.crash(3, 60_000_000);
    (0..blocks).for_each(|number| cluster.submit(number * 100_000, number));
    cluster.run(59_000_000);
    let height = cluster.height(0);
    assert!(height >= 400, "{height}");
    cluster.run(180_000_000);
    assert_eq!(cluster.height(3), height, "after two minutes; {:?}", cluster.delivered);
}

#[test]
fn catching_up_ends_where_round_trips_are_long() {
    // A round trip of 100 ms, the default repetition of 200 ms.
    far_behind(50_000, 200_000);
}

/// Blocks from a replica that was not asked are ignored.
fn poison(liar: bool) {
    let mut cluster = Cluster::new(Setup { interval: 8, n: 4, silent: [1].into(), ..Setup::new(4) });
    cluster.run(10_000);
    cluster.crash(3, 1_500_000);
    // Three correct replicas are needed for a quorum, so the traitor takes part until 3 is back.
    cluster.setup.silent.clear();
    (0..100).for_each(|number| cluster.submit(number * 10_000, number));
    cluster.run(1_499_000);
    let height = cluster.height(0);
    assert!(height >= 100, "{height}");
    cluster.setup.silent.insert(1);
    if liar {
        // Any time: a first block of junk that fits.
        for at in 0..20_000 {
            let batch = Batch::new(1, Address::ZERO, vec![Bytes::from(vec![at as u8])]);
            let lie = Blocks { from: 1, batches: vec![Filled::new(Some(batch))], outcome: Bytes::new() };
            cluster.inject(3, 1, Frame::Blocks(lie), 1_000 + at * 500);
        }
    }
    cluster.run(9_000_000);
    assert_eq!(cluster.height(3), height, "{:?}\n{}", cluster.delivered, cluster.describe());
}

#[test]
fn a_liar_that_was_not_asked_does_not_disturb_catching_up() {
    poison(true);
}

/// A view change while one replica catches up and one is silent.
fn change_while_catching_up(slow: bool) {
    let costs = Costs { execute_us: 40_000, ..Costs::default() };
    let slow = if slow { [(3, costs)].into() } else { Default::default() };
    let mut cluster = Cluster::new(Setup { interval: 32, slow, timeout: 500_000, ..Setup::new(4) });
    (0..900).for_each(|number| cluster.submit(number * 4_000, number));
    cluster.run(4_000_000);
    // The primary falls silent, and a view change follows. f = 1, so the rest must go on.
    cluster.setup.silent.insert(0);
    (1000..1010).for_each(|number| cluster.submit(0, number));
    cluster.run(600_000_000);
    assert!(cluster.height(1) >= 910 && cluster.height(3) >= 910, "after ten minutes\n{}", cluster.describe());
}

#[test]
fn a_view_changes_while_one_replica_catches_up() {
    change_while_catching_up(true);
}

/// A slow node reaches the top once nothing is added.
#[test]
fn a_slow_node_reaches_the_top() {
    let costs = Costs { execute_us: 40_000, ..Costs::default() };
    let mut cluster =
        Cluster::new(Setup { interval: 32, slow: [(3, costs)].into(), timeout: 500_000, ..Setup::new(4) });
    (0..900).for_each(|number| cluster.submit(number * 4_000, number));
    cluster.run(100_000_000);
    cluster.delivered.clear();
    cluster.run(101_000_000);
    assert_eq!(cluster.height(3), 900, "{:?}", cluster.delivered);
}

/// Cluster without its primary, which has proposed a batch from the future to all others.
fn with_a_proposal_from_the_future() -> Cluster {
    let mut cluster = Cluster::new(Setup { silent: [0].into(), ..Setup::new(4) });
    cluster.run(10_000);
    let batch = Batch::new(u64::MAX, Address::ZERO, vec![model_tx(1, b"x")]);
    for to in 1..4 {
        let proposal = pbft::Msg::PrePrepare(pbft::PrePrepare { view: 0, slot: 1, batch: batch.clone() });
        cluster.inject(to, 0, Frame::Protocol(proposal), 0);
    }
    cluster.run(20_000);
    cluster
}

#[test]
fn a_proposal_from_the_future_does_not_stop_the_chain() {
    let mut cluster = with_a_proposal_from_the_future();
    (0..5).for_each(|number| cluster.submit(number * 10_000, number));
    cluster.run(600_000_000);
    assert!(cluster.height(1) > 2, "height {} after ten minutes\n{}", cluster.height(1), cluster.describe());
}

#[test]
fn a_proposal_from_the_future_does_not_stop_a_chain_with_one_client() {
    let mut cluster = with_a_proposal_from_the_future();
    cluster.submit(10_000, 1);
    cluster.run(3_600_000_000);
    assert!(cluster.height(1) >= 1, "height {} after an hour\n{}", cluster.height(1), cluster.describe());
}

/// Default times on a wide network, nothing lost, nothing slow.
#[test]
fn silence_follows_on_a_wide_network() {
    let mut cluster = Cluster::new(Setup { delay: 40_000, resend: 50_000, timeout: 1_000_000, ..Setup::new(4) });
    (0..20).for_each(|number| cluster.submit(number * 10_000, number));
    cluster.run(5_000_000);
    assert_eq!(cluster.lowest(), 20);
    cluster.delivered.clear();
    cluster.run(6_000_000);
    assert!(
        cluster.delivered.get("certificate").copied().unwrap_or(0) < 10,
        "in an idle second: {:?}",
        cluster.delivered
    );
}

/// The order vote for one batch is no basis for a state vote on another.
#[test]
fn an_order_vote_belongs_to_the_batch_that_it_was_cast_for() {
    let mut host = host();
    let x = proposed(&play(
        &mut host,
        vec![Out::Proposed { slot: 1, view: 0, batch: Some(batch(1)) }, Out::OrderVoted { slot: 1, view: 0 }],
    ));
    // A new view gives the slot another batch. No order vote yet.
    let events = play(&mut host, vec![Out::Proposed { slot: 1, view: 1, batch: Some(batch(2)) }]);
    let y = proposed(&events);
    assert_ne!(x.id, y.id);
    let durable = events.iter().any(|event| *event == ConsensusEvent::OrderVoteDurable(y.id));
    host.take_actions();
    host.apply(computed(y, 2)).unwrap();
    let votes = state_votes(&mut host);
    assert!(!durable && votes.is_empty(), "durable {durable}, votes {votes:?} without an order vote for the block");
}

/// A vote for the block that wins in the end is sent, also if another one was voted for in between.
#[test]
fn the_vote_for_the_block_that_wins_is_sent() {
    let mut host = host();
    let x = proposed(&play(
        &mut host,
        vec![Out::Proposed { slot: 1, view: 0, batch: Some(batch(1)) }, Out::OrderVoted { slot: 1, view: 0 }],
    ));
    host.apply(computed(x, 1)).unwrap();
    let y = proposed(&play(
        &mut host,
        vec![Out::Proposed { slot: 1, view: 1, batch: Some(batch(2)) }, Out::OrderVoted { slot: 1, view: 1 }],
    ));
    host.apply(computed(y, 2)).unwrap();
    host.take_actions();
    // The first batch is chosen by a later view after all, and decided.
    play(
        &mut host,
        vec![
            Out::Proposed { slot: 1, view: 2, batch: Some(batch(1)) },
            Out::OrderVoted { slot: 1, view: 2 },
            Out::Decided { slot: 1, batch: Some(batch(1)) },
        ],
    );
    let votes = state_votes(&mut host);
    assert!(votes.iter().any(|vote| vote.block == x.id.0 && vote.lean() == Lean::Final), "votes: {votes:?}");
}

/// A decision that contradicts what the host has decided stops the node, whether or not the slots below it are decided.
#[test]
fn a_decision_that_contradicts_the_chain_stops_the_node() {
    for slot in [1, 2] {
        let mut host = host();
        play(&mut host, vec![Out::Decided { slot, batch: Some(batch(1)) }]);
        Script::next(vec![Out::Decided { slot, batch: Some(batch(1)) }, Out::Decided { slot, batch: Some(batch(2)) }]);
        host.on_frame(0, Index(0), Script::message());
        let stopped = host.next(0).unwrap_err();
        assert_eq!(stopped, phalanx_engine_api::FatalCause::Contradiction { height: slot });
    }
}

/// A view change orders no transaction twice, whenever it comes.
#[test]
fn a_view_change_orders_no_transaction_twice() {
    for at in (1_000..20_000).step_by(2_000) {
        let mut cluster = Cluster::new(Setup { persist: 300, batch_txs: 2, ..Setup::new(4) });
        (0..200).for_each(|number| cluster.submit(number * 100, number));
        cluster.run(at);
        cluster.separate([0, 1].into(), false);
        cluster.run(at + 150_000);
        cluster.separate([0].into(), false);
        cluster.run(2_000_000);
        let (mut seen, mut height) = (std::collections::BTreeMap::<Bytes, u64>::new(), 1);
        while let Some(block) = cluster.host(1).block(height).unwrap() {
            block.payload.txs().iter().for_each(|tx| *seen.entry(tx.clone()).or_default() += 1);
            height += 1;
        }
        let twice = seen.values().filter(|times| **times > 1).count();
        assert!(twice == 0 && seen.len() == 200, "at {at}: {twice} of {} twice, {height} blocks", seen.len());
    }
}

/// A request that reached one backup only is ordered, also if the leader ignores it, and a repeated one gets no second block.
#[test]
fn a_request_that_one_backup_has_is_ordered_once() {
    let mut cluster = Cluster::new(Setup { silent: [0].into(), ..Setup::new(4) });
    cluster.run(10_000);
    cluster.submit_to(2, 1);
    cluster.run(3_000_000);
    let height = cluster.height(1);
    assert!(height >= 1, "{}", cluster.describe());
    // The node restarts and the client, unsure, repeats its request.
    cluster.crash(2, 10_000);
    cluster.run(3_500_000);
    (1..4).for_each(|node| cluster.submit_to(node, 1));
    cluster.run(6_000_000);
    assert_eq!(cluster.height(1), height, "the transaction is ordered twice");
}

/// A primary that serves one client and ignores another is replaced.
#[test]
fn a_primary_that_ignores_a_client_is_replaced() {
    let mut cluster = Cluster::new(Setup { silent: [0].into(), timeout: 100_000, ..Setup::new(4) });
    cluster.run(10_000);
    (1..4).for_each(|node| cluster.submit_to(node, 1));
    // The traitor orders something else all the time.
    for slot in 1..=40u64 {
        let other = Batch::new(0, Address::ZERO, vec![model_tx(1, &(1_000 + slot).to_be_bytes())]);
        for to in 1..4 {
            let proposal = pbft::PrePrepare { view: 0, slot, batch: other.clone() };
            cluster.inject(to, 0, Frame::Protocol(pbft::Msg::PrePrepare(proposal)), slot * 20_000);
        }
    }
    cluster.run(1_000_000);
    let view = cluster.host(1).protocol().unwrap().view();
    assert!(view > 0, "the traitor still leads after ten timeouts");
    let mut found = false;
    for height in 1..=cluster.height(1) {
        let block = cluster.host(1).block(height).unwrap().unwrap();
        found |= block.payload.txs().contains(&model_tx(1, &1u64.to_be_bytes()));
    }
    assert!(found, "the client was not served");
}

/// Constants that no host can run with are named.
#[test]
fn constants_out_of_range_are_named() {
    let quorums = Quorums::new(4, 1).unwrap();
    let config = HostConfig::new(quorums, DOMAIN);
    let refused = |config: HostConfig, protocol: pbft::Config| {
        let scheme = Arc::new(Simulated::new(Index(0), 64));
        Host::<pbft::Pbft>::new(Index(0), config, Arc::new(protocol), scheme, Vec::new()).err().map(|error| error.name)
    };
    let protocol = pbft::Config::new(quorums, DOMAIN);
    assert_eq!(refused(config.clone(), protocol.clone()), None);
    assert_eq!(refused(HostConfig { batch_txs: 0, ..config.clone() }, protocol.clone()), Some("batch_txs"));
    assert_eq!(refused(HostConfig { resend: 0, ..config.clone() }, protocol.clone()), Some("resend"));
    assert_eq!(refused(HostConfig { retention: 0, ..config.clone() }, protocol.clone()), Some("retention"));
    let (bytes, quick) = (protocol.batch_bytes, pbft::Config { interval: 0, ..protocol });
    assert_eq!(refused(config.clone(), quick), Some("interval"));
    let long = HostConfig { batch_bytes: bytes, ..config };
    assert_eq!(
        refused(long, pbft::Config::new(quorums, DOMAIN)),
        Some("batch_bytes"),
        "batches that no replica accepts"
    );
}

/// Own engines that are behind are replayed to: what they lack is not pruned.
#[test]
fn blocks_that_the_own_engine_lacks_are_not_pruned() {
    let slow = [(3, Costs { execute_us: 40_000, ..Costs::default() })].into();
    let mut cluster = Cluster::new(Setup { interval: 4, retention: 4, slow, timeout: 500_000, ..Setup::new(4) });
    (0..60).for_each(|number| cluster.submit(number * 4_000, number));
    cluster.run(600_000);
    let committed = cluster.height(3);
    assert!(cluster.host(3).base().slot <= committed, "pruned up to {}", cluster.host(3).base().slot);
}
