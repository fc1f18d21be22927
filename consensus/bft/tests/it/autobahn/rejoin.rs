//! A replica without its log goes on in its lane, behind the state that others transfer to it.

use super::{
    attacks::{car, config},
    signed,
};
use alloy_primitives::B256;
use phalanx_bft::{
    Base, Checked, Domain, Index, Input, Out, Outs, Protocol as _, To,
    autobahn::{Autobahn, Checkpoint, Msg, Timer},
    lanes::{Cut, LaneVote, Tip},
};
use std::sync::Arc;

/// Hands a message to a replica. Its signatures are right.
fn hand(owner: &mut Autobahn, from: usize, message: Msg) -> Outs<Autobahn> {
    let mut out = Vec::new();
    let checked = Checked::new(message, Domain::default(), |_| true).expect("signed");
    owner.on_message(0, Index(from as u16), checked, &mut out);
    out
}

fn repeat(owner: &mut Autobahn) -> Outs<Autobahn> {
    let mut out = Vec::new();
    owner.on_timer(0, Timer::Resend, &mut out);
    out
}

/// The checkpoint names a car of the owner, and no car above it will come: nothing but a question brings it back.
#[test]
fn a_lane_goes_on_behind_a_checkpoint_whose_car_its_owner_has_lost() {
    let first = car(3, Tip::default(), 1, &[]);
    let second = car(3, first.tip(), 2, &[0, 1]);
    let config = Arc::new(config());
    let frontier: Cut = vec![Tip::default(), Tip::default(), Tip::default(), second.tip()];
    let checkpoint = Checkpoint { slot: config.interval, height: 2, digest: B256::repeat_byte(7), frontier };
    let mut owner = Autobahn::open(Index(3), config, Base::default(), &[], &mut Vec::new());
    assert_eq!(owner.room(), 1);
    hand(&mut owner, 0, Msg::Stable((0..3).map(|node| signed(node, checkpoint.clone())).collect()));
    (0..3).for_each(|_| drop(repeat(&mut owner)));
    assert_eq!(owner.stable(), &checkpoint, "the state is transferred");
    owner.on_input(0, Input::Installed(checkpoint.base()), &mut Vec::new());
    assert_eq!(owner.room(), 0, "the next car needs votes on the last one");

    // A question that is lost goes to another replica.
    let asked = |out: Outs<Autobahn>| {
        let to = out.into_iter().find_map(|out| match out {
            Out::Send(To::One(to), Msg::Sync(sync)) if sync.tip == second.tip() => Some(to),
            _ => None,
        });
        to.map(|to| usize::from(to.0))
    };
    let mut receivers: Vec<usize> = (0..4).filter_map(|_| asked(repeat(&mut owner))).collect();
    receivers.dedup();
    assert!(receivers.len() > 1 && !receivers.contains(&3), "{receivers:?}");
    hand(&mut owner, receivers[0], Msg::Cars(vec![second.clone()]));
    let sent = (0..2)
        .flat_map(|_| repeat(&mut owner))
        .any(|out| matches!(out, Out::Send(To::All, Msg::Car(car)) if car == second));
    assert!(sent, "others vote again");
    for voter in 0..2 {
        let vote = LaneVote { lane: Index(3), tip: second.tip() };
        hand(&mut owner, voter, Msg::LaneVote(signed(voter, vote)));
    }
    assert_eq!(owner.room(), 1, "the lane goes on");
}
