//! What a primary makes others hold: the batches of undecided slots are bounded in bytes.

#![allow(clippy::unwrap_used, reason = "a failed step fails the test")]

use crate::{
    manual::{Manual, Subject},
    sbft::lab,
};
use alloy_primitives::{Address, B256, Bytes};
use phalanx_bft::{Batch, Domain, Input, Quorums, Slot, pbft, sbft};
use phalanx_world::is_genuine;

/// Ten of these batches are held.
const LONG: usize = 100_000;
const MOST: usize = 10 * LONG + LONG / 2;

fn long(slot: Slot) -> Batch {
    Batch::new(1, Address::ZERO, vec![Bytes::from(vec![slot as u8; LONG])])
}

/// Batches that a replica has logged.
fn kept<P: Subject>(lab: &Manual<P>, node: u16) -> usize {
    lab.logs.get(&node).map_or(0, |log| log.iter().filter(|record| alloy_rlp::encode(*record).len() > LONG).count())
}

/// Replica 1 gets proposals of primary 0, which has no bound; then replica 0 proposes itself.
fn bounded<P: Subject>(
    config: impl Fn() -> P::Config,
    proposal: impl Fn(Slot, &Batch) -> P::Msg,
    decision: impl Fn(Slot, B256) -> P::Msg,
) {
    let mut lab = Manual::<P>::begin(config(), |claims| claims.iter().all(is_genuine), [1]);
    (2..=60).for_each(|slot| lab.tell(0, 1, proposal(slot, &long(slot))));
    assert_eq!(kept(&lab, 1), 10, "proposals behind the first undecided slot");
    lab.tell(0, 1, proposal(1, &long(1)));
    assert_eq!(kept(&lab, 1), 11, "that of the first undecided slot is held beside them");
    for slot in 1..=5 {
        [2, 3].into_iter().for_each(|from| lab.tell(from, 1, decision(slot, long(slot).digest())));
    }
    assert_eq!(lab.decided[&1].len(), 5);
    (12..=60).for_each(|slot| lab.tell(0, 1, proposal(slot, &long(slot))));
    assert_eq!(kept(&lab, 1), 15, "decided batches make room");
    let mut lab = Manual::<P>::begin(config(), |claims| claims.iter().all(is_genuine), [0]);
    (1..=60).for_each(|slot| lab.input(0, Input::Batch(long(slot))));
    assert_eq!(kept(&lab, 0), 6, "a primary leaves room for those that are behind it");
    assert_eq!(lab.replicas[&0].room(), 0);
}

#[test]
fn undecided_batches_are_bounded_in_bytes() {
    let quorums = Quorums::new(4, 1).unwrap();
    let bounds = || (LONG + 1_000, MOST);
    bounded::<pbft::Pbft>(
        || {
            let (batch_bytes, undecided_bytes) = bounds();
            pbft::Config { batch_bytes, undecided_bytes, ..pbft::Config::new(quorums, Domain::default()) }
        },
        |slot, batch| pbft::Msg::PrePrepare(pbft::PrePrepare { view: 0, slot, batch: batch.clone() }),
        |slot, digest| pbft::Msg::Decided(pbft::Decision { slot, digest }),
    );
    bounded::<sbft::Sbft>(
        || {
            let (batch_bytes, undecided_bytes) = bounds();
            // As many slots as the window has.
            sbft::Config {
                batch_bytes,
                undecided_bytes,
                active: Some(256),
                ..sbft::Config::new(quorums, Domain::default())
            }
        },
        |slot, batch| lab::proposal(0, slot, 0, batch),
        |slot, digest| sbft::Msg::Decided(lab::decision(sbft::Vote { view: 0, slot, digest }, true)),
    );
}
