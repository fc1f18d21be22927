//! Patience with a primary: a replica that was suspended or cut off stays in its view, and a silent primary is left by all.

#![allow(clippy::unwrap_used, reason = "a failed step fails the test")]

use crate::lab::Lab;
use phalanx_bft::{
    Base, Checked, Domain, Impatience, Index, Input, Micros, Out, Protocol, Quorums, To, View,
    pbft::{Config, Msg, Mutation, Pbft, Timer},
    sbft::{self, Sbft},
};
use phalanx_world::{Conditions, Facts, World};
use std::sync::Arc;

/// Time between two requests, and the patience with a primary.
const STEP: Micros = 200_000;

/// Cuts replica 3 off for thirty times its patience, and replica 2 later, so that a quorum needs replica 3. Returns the highest
/// view, and the lowest height of the replicas that are connected then.
fn away_and_back(mutation: Option<Mutation>) -> (u64, u64) {
    let quorums = Quorums::new(4, 1).unwrap();
    let config = Config { timeout: STEP, mutation, ..Config::new(quorums, Domain::unnamed(1, 0)) };
    let mut world = World::<Pbft>::new(Conditions::new(config));
    (0..120).for_each(|number| drop(world.request(number * STEP, number)));
    world.run(30 * STEP - STEP / 2);
    world.links.cut = [3].into();
    world.run(60 * STEP - STEP / 2);
    world.links.cut.clear();
    world.run(70 * STEP - STEP / 2);
    world.links.cut = [2].into();
    world.run(100 * STEP - STEP / 2);
    let height = [0, 1, 3].map(|node| world.replica(node).unwrap().decided()).into_iter().min().unwrap();
    world.links.cut.clear();
    world.run(300 * STEP);
    assert_eq!((world.ledger.violation.clone(), world.unexecuted()), (None, 0));
    let view = (0..4).filter_map(|node| world.replica(node)).map(|replica| replica.view()).max().unwrap();
    (view, height)
}

#[test]
fn a_replica_that_was_cut_off_votes_again_without_a_view_change() {
    assert_eq!(away_and_back(None), (0, 100));
    let (view, _) = away_and_back(Some(Mutation::Patience(Impatience::LeaveAlone)));
    assert!(view > 0, "the test notices a replica that leaves alone");
}

/// A replica leaves its view when its own patience is over and f other ones complain about that view.
#[test]
fn complaints_count_once_for_their_view_and_until_progress() {
    let expire = |lab: &mut Lab| lab.replicas.get_mut(&1).unwrap().on_timer(0, Timer::Progress, &mut Vec::new());
    let waiting = || {
        let mut lab = Lab::new(7, 2, 4, &[0, 1, 2, 3, 4, 5, 6]);
        lab.input(1, Input::Pending(Some(0)));
        lab
    };
    let view = |told: &[(u16, u64)], overdue: bool| {
        let mut lab = waiting();
        if overdue {
            expire(&mut lab);
        }
        told.iter().for_each(|(from, view)| lab.tell(*from, 1, Msg::Complaint(*view)));
        lab.replicas[&1].view()
    };
    assert_eq!(view(&[(3, 0), (4, 0)], true), 1, "f other ones");
    assert_eq!(view(&[(3, 0); 20], true), 0, "a replica counts once");
    assert_eq!(view(&[(3, 1), (4, 1)], true), 0, "another view");
    assert_eq!(view(&[(2, 0), (3, 0), (4, 0), (5, 0), (6, 0)], false), 0, "own patience is not over");
    let mut lab = waiting();
    lab.tell(3, 1, Msg::Complaint(0));
    lab.input(1, Input::Pending(Some(1)));
    expire(&mut lab);
    lab.tell(4, 1, Msg::Complaint(0));
    assert_eq!(lab.replicas[&1].view(), 0, "progress ends complaints");
    // A replica that has left its view counts like one that complains.
    let mut lab = waiting();
    expire(&mut lab);
    lab.tell(3, 1, Msg::Complaint(0));
    let change = lab.empty_change(4, 1);
    lab.tell(4, 1, crate::lab::leaving(change));
    assert_eq!(lab.replicas[&1].view(), 1);
}

/// Half of the patience later the others know of it, so that a silent primary costs no more than the patience.
#[test]
fn a_replica_complains_after_half_of_its_patience_and_repeats_that() {
    let mut lab = Lab::new(4, 1, 4, &[1]);
    lab.input(1, Input::Pending(Some(0)));
    let (half, all) = (lab.timers[&1][&Timer::Complain], lab.timers[&1][&Timer::Progress]);
    assert_eq!((2 * half, all), (all, lab.config.timeout));
    let complaints = |lab: &Lab| lab.wire.iter().filter(|(_, _, m)| matches!(m, Msg::Complaint(0))).count();
    lab.timer(1, Timer::Complain);
    assert_eq!(complaints(&lab), 3);
    lab.timer(1, Timer::Resend);
    assert_eq!(complaints(&lab), 6, "a lost complaint comes again");
    lab.input(1, Input::Pending(None));
    lab.timer(1, Timer::Resend);
    assert_eq!(complaints(&lab), 6, "a replica that is served is quiet");
}

/// A replica alone with its patience: f = 2, its timers, and what it says.
struct Lone<P: Protocol> {
    replica: P,
    out: Vec<Out<P>>,
    complaint: fn(View) -> P::Msg,
    /// Timers of the complaint, of patience and of repetition.
    timers: [P::Timer; 3],
}

impl Lone<Pbft> {
    fn pbft(rule: Option<Impatience>) -> Self {
        let quorums = Quorums::new(7, 2).unwrap();
        let mutation = rule.map(Mutation::Patience);
        let config = Config { mutation, ..Config::new(quorums, Domain::unnamed(1, 0)) };
        Self::waiting(config, Msg::Complaint, [Timer::Complain, Timer::Progress, Timer::Resend])
    }
}

impl Lone<Sbft> {
    fn sbft(rule: Option<Impatience>) -> Self {
        let quorums = Quorums::new(7, 2).unwrap();
        let mutation = rule.map(sbft::Mutation::Patience);
        let config = sbft::Config { mutation, ..sbft::Config::new(quorums, Domain::unnamed(1, 0)) };
        let timers = [sbft::Timer::Complain, sbft::Timer::Progress, sbft::Timer::Resend];
        Self::waiting(config, sbft::Msg::Complaint, timers)
    }
}

impl<P: Facts> Lone<P> {
    /// Replica 1, with a client's request that has no place in the order.
    fn waiting(config: P::Config, complaint: fn(View) -> P::Msg, timers: [P::Timer; 3]) -> Self {
        let mut out = Vec::new();
        let replica = P::open(Index(1), Arc::new(config), Base::default(), &[], &mut out);
        let mut lone = Self { replica, out, complaint, timers };
        lone.input(Input::Pending(Some(0)));
        lone
    }

    fn input(&mut self, input: Input) {
        self.replica.on_input(0, input, &mut self.out);
    }

    fn fire(&mut self, timer: usize) {
        self.replica.on_timer(0, self.timers[timer], &mut self.out);
    }

    /// Another replica complains about the first view. Returns the own view.
    fn hear(&mut self, from: u16) -> View {
        let message = Checked::new((self.complaint)(0), Domain::default(), |_| true).unwrap();
        self.replica.on_message(0, Index(from), message, &mut self.out);
        self.replica.view()
    }

    /// A replica complains now, another one three times the patience later, and a third one. Returns the views that follow.
    fn complaints_of_two_times(mut self) -> [View; 2] {
        self.hear(3);
        (0..3).for_each(|_| self.fire(1));
        [self.hear(4), self.hear(5)]
    }

    /// Complaints so far: after half of the patience, after a repetition while the own pipeline is behind, after one when it is
    /// not.
    fn complaints_behind_a_hold(mut self) -> [usize; 3] {
        let complaint = (self.complaint)(0);
        let said =
            |lone: &Self| lone.out.iter().filter(|o| matches!(o, Out::Send(To::All, m) if *m == complaint)).count();
        self.fire(0);
        let first = said(&self);
        self.input(Input::Hold(true));
        self.fire(2);
        let held = said(&self);
        self.input(Input::Hold(false));
        self.fire(2);
        [first, held, said(&self)]
    }
}

/// A replica that is served does not take its complaint back: that of another time must not make others leave.
#[test]
fn complaints_of_different_times_do_not_add_up() {
    assert_eq!(Lone::pbft(None).complaints_of_two_times(), [0, 1]);
    assert_eq!(Lone::sbft(None).complaints_of_two_times(), [0, 1]);
    let broken = Some(Impatience::OldComplaints);
    assert_eq!(Lone::pbft(broken).complaints_of_two_times(), [1, 1], "the test notices old complaints that count");
    assert_eq!(Lone::sbft(broken).complaints_of_two_times(), [1, 1], "the test notices old complaints that count");
}

#[test]
fn what_the_own_pipeline_keeps_back_is_not_the_primarys_fault() {
    assert_eq!(Lone::pbft(None).complaints_behind_a_hold(), [1, 1, 2]);
    assert_eq!(Lone::sbft(None).complaints_behind_a_hold(), [1, 1, 2]);
    let broken = Some(Impatience::BlameForHold);
    assert_eq!(Lone::pbft(broken).complaints_behind_a_hold(), [1, 2, 3], "the test notices a replica that blames");
    assert_eq!(Lone::sbft(broken).complaints_behind_a_hold(), [1, 2, 3], "the test notices a replica that blames");
}

/// Of n replicas f are silent and f+1 wait; the primary and all others know of no request. Every first complaint is lost. Returns
/// the lowest view of the others.
fn lowest_view<P: Facts>(config: P::Config, (timeout, resend): (Micros, Micros)) -> u64 {
    let quorums = P::quorums(&config);
    let (n, f) = (quorums.n(), quorums.f());
    let silent = (n - f..n).map(|node| Index(node as u16)).collect();
    let mut world = World::<P>::new(Conditions { silent, ..Conditions::new(config) });
    let arrival = 10 * timeout;
    world.request_at(arrival, 0, (1..f + 2).collect());
    world.run(arrival + timeout / 2 - 1);
    world.links.lost = 1_000;
    world.run(arrival + timeout / 2 + 1);
    world.links.lost = 0;
    world.run(arrival + timeout + 2 * resend);
    assert_eq!(world.ledger.violation, None);
    (0..n - f).filter_map(|node| world.replica(node)).map(Protocol::view).min().unwrap()
}

/// Complaints that come again are enough, whatever the repetition: it may be rarer than the patience.
#[test]
fn f_and_one_that_wait_are_enough_when_first_complaints_are_lost() {
    let (timeout, domain) = (STEP, Domain::unnamed(1, 0));
    for resend in [STEP / 5, STEP / 2, 2 * STEP] {
        for (n, f) in [(4, 1), (6, 1), (7, 2), (8, 2)] {
            let quorums = Quorums::new(n, f).unwrap();
            let config = Config { timeout, resend, ..Config::new(quorums, domain) };
            assert_eq!(lowest_view::<Pbft>(config, (timeout, resend)), 1, "PBFT, n = {n}, f = {f}, resend {resend}");
            if n != 8 || f != 2 {
                let config = sbft::Config { timeout, resend, ..sbft::Config::new(quorums, domain) };
                assert_eq!(
                    lowest_view::<Sbft>(config, (timeout, resend)),
                    1,
                    "SBFT, n = {n}, f = {f}, resend {resend}"
                );
            }
        }
    }
}
