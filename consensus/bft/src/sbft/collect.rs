//! The part of a commit collector: gather shares, wait for one's turn, combine, send.

use super::{
    message::{Certificate, CommitShare, Decision, Msg, Prepared, SignShare, Vote},
    replica::{Job, Phase, Sbft, Timer},
    slots::{Collect, Progress, Step},
    wait::Noted,
};
use crate::core::{Crypto, Group, Index, Micros, Out, Outs, Slot, Statement as _, To};
use alloy_primitives::Bytes;

/// Slots for which a missing share ends the wait for the shares of all.
const REST_WITHOUT_ALL: u32 = 64;

/// Longest share that is kept, in bytes.
const MOST_SHARE_BYTES: usize = 256;

impl Sbft {
    pub(super) fn on_sign_share(&mut self, now: Micros, from: Index, share: SignShare, out: &mut Outs<Self>) {
        if self.collects(from, share.vote) && share.fast.len().max(share.slow.len()) <= MOST_SHARE_BYTES {
            self.add_share(now, from, share, out);
        }
    }

    pub(super) fn on_commit(&mut self, now: Micros, from: Index, commit: CommitShare, out: &mut Outs<Self>) {
        if self.collects(from, commit.vote) && commit.share.len() <= MOST_SHARE_BYTES {
            self.add_commit(now, from, commit, out);
        }
    }

    /// Returns true if shares over the vote are this replica's to collect. Those of a view to come wait for it.
    fn collects(&self, from: Index, vote: Vote) -> bool {
        vote.view >= self.view && self.in_window(vote.slot) && !self.banned.contains(from) && self.rank(vote).is_some()
    }

    /// Place among the collectors of a slot. The primary, where it is none of them, waits for none.
    fn rank(&self, vote: Vote) -> Option<u64> {
        let place = self.config.collectors(vote.slot, vote.view).position(|index| index == self.me);
        place.map(|place| place as u64).or_else(|| (self.config.primary(vote.view) == self.me).then_some(0))
    }

    /// True for the primary of a slot that has other collectors: replicas come to it after their patience.
    fn is_last_resort(&self, vote: Vote) -> bool {
        !self.config.collectors(vote.slot, vote.view).any(|index| index == self.me)
    }

    pub(super) fn add_share(&mut self, now: Micros, from: Index, share: SignShare, out: &mut Outs<Self>) {
        let slot = share.vote.slot;
        if self.banned.contains(from) {
            return;
        }
        let shares = &mut self.slots.entry(slot).or_default().collect.shares;
        // One vote per replica and view.
        if shares.get(&from).is_none_or(|known| known.vote.view < share.vote.view) {
            shares.insert(from, share);
            self.collect(now, slot, out);
            self.learn_late(now, slot);
        }
    }

    pub(super) fn add_commit(&mut self, now: Micros, from: Index, commit: CommitShare, out: &mut Outs<Self>) {
        let CommitShare { vote, share } = commit;
        if self.banned.contains(from) {
            return;
        }
        let commits = &mut self.slots.entry(vote.slot).or_default().collect.commits;
        if commits.get(&from).is_none_or(|(known, _)| known.view < vote.view) {
            commits.insert(from, (vote, share));
            self.collect(now, vote.slot, out);
        }
    }

    /// Goes on with a slot as far as its shares allow.
    pub(super) fn collect(&mut self, now: Micros, slot: Slot, out: &mut Outs<Self>) {
        if self.phase != Phase::Active || !self.in_window(slot) {
            return;
        }
        for step in Step::ALL {
            self.collect_step(now, slot, step, out);
        }
    }

    fn collect_step(&mut self, now: Micros, slot: Slot, step: Step, out: &mut Outs<Self>) {
        let (view, wait) = (self.view, self.fast_wait());
        let Some(state) = self.slots.get_mut(&slot) else { return };
        state.collect.turn_to(view);
        let over = state.decided.is_some() || step == Step::Slow && state.prepared_in(view).is_some();
        let progress = *state.collect.step(step);
        let (needed, here, n) = match step {
            Step::Fast => (self.config.fast(), state.collect.shares.len(), self.config.quorums.n()),
            Step::Slow => (self.config.slow(), state.collect.shares.len(), usize::MAX),
            Step::Commit => (self.config.slow(), state.collect.commits.len(), usize::MAX),
        };
        let waits = progress == Progress::Waiting && here < n;
        if over || waits || here < needed || matches!(progress, Progress::Working | Progress::Done) {
            return;
        }
        let Some((vote, shares)) = state.collect.best(view, step) else { return };
        if shares.len() < needed {
            return;
        }
        if step == Step::Slow {
            state.collect.slow_since.get_or_insert(now);
        }
        let n = self.config.quorums.n();
        let may_wait_for_all = step == Step::Fast && shares.len() < n && self.fast_path.without_all == 0;
        let Some(rank) = self.rank(vote) else { return };
        let turn = rank * self.config.stagger
            + match step {
                Step::Fast if may_wait_for_all => self.config.all_wait.unwrap_or(0),
                Step::Slow if self.config.paths == super::Paths::Dual && !self.is_last_resort(vote) => wait,
                _ => 0,
            };
        let complete = step == Step::Fast && rank == 0 && shares.len() == n;
        let Some(state) = self.slots.get_mut(&slot) else { return };
        match progress {
            Progress::Idle if turn > 0 && !complete => {
                *state.collect.step(step) = Progress::Waiting;
                out.push(Out::Timer(Timer::Collect(slot, step), turn));
            }
            Progress::Waiting if !complete => {}
            _ => {
                if progress == Progress::Waiting {
                    out.push(Out::Cancel(Timer::Collect(slot, step)));
                }
                self.combine(vote, step, shares, out);
            }
        }
    }

    fn combine(&mut self, vote: Vote, step: Step, mut shares: Vec<(Index, Bytes)>, out: &mut Outs<Self>) {
        let domain = self.config.domain;
        let (group, needed, bytes) = match step {
            Step::Fast if self.config.all_wait.is_some() && shares.len() == self.config.quorums.n() => {
                self.fast_path.without_all = self.fast_path.without_all.saturating_sub(1);
                (Group::All, shares.len(), vote.signed_bytes(domain))
            }
            Step::Fast => (Group::Fast, self.config.fast(), vote.signed_bytes(domain)),
            Step::Slow => (Group::Slow, self.config.slow(), vote.signed_bytes(domain)),
            Step::Commit => (Group::Slow, self.config.slow(), Prepared(vote).signed_bytes(domain)),
        };
        if group == Group::Fast && self.config.all_wait.is_some() {
            // Something failed: the next slots do not wait for all, until some have passed.
            let rest = self.fast_path.without_all.checked_sub(1);
            self.fast_path.without_all = rest.unwrap_or(REST_WITHOUT_ALL);
        }
        shares.truncate(needed);
        if let Some(state) = self.slots.get_mut(&vote.slot) {
            *state.collect.step(step) = Progress::Working;
        }
        self.work(Job::Collect(vote, step, group), Crypto::Combine { group, bytes, shares }, out);
    }

    /// A collector's turn has come, if no other one was faster.
    pub(super) fn turn_comes(&mut self, now: Micros, slot: Slot, step: Step, out: &mut Outs<Self>) {
        let view = self.view;
        if let Some(state) = self.slots.get_mut(&slot)
            && state.collect.view == view
            && *state.collect.step(step) == Progress::Waiting
        {
            *state.collect.step(step) = Progress::Due;
            // Shares that wait for their turn, or are being combined, are not absent.
            let absent = matches!(*state.collect.step(Step::Fast), Progress::Idle | Progress::Due);
            if step == Step::Slow && absent {
                self.fast_path.failed(&mut state.collect.noted, self.config.fast_wait);
            }
            self.collect(now, slot, out);
        }
    }

    /// Notes that the shares of σ are there, after a turn of this collector that is no delay of the network.
    fn note_fast(&mut self, now: Micros, slot: Slot, turn: Micros) {
        if let Some(Collect { noted, slow_since, .. }) = self.slots.get_mut(&slot).map(|state| &mut state.collect) {
            let delay = slow_since.map_or(0, |since| now.saturating_sub(since).saturating_sub(turn));
            self.fast_path.came(noted, delay, self.config.fast_wait);
        }
    }

    /// Learns from shares that come after a decision: the fast path works with a wait of this length.
    fn learn_late(&mut self, now: Micros, slot: Slot) {
        let (needed, view) = (self.config.fast(), self.view);
        let late = self.slots.get(&slot).is_some_and(|state| {
            let collect = &state.collect;
            state.decided.is_some()
                && collect.view == view
                && collect.slow_since.is_some()
                && collect.noted != Noted::Shares
                && collect.shares.len() >= needed
                && collect.best(view, Step::Fast).is_some_and(|(_, shares)| shares.len() >= needed)
        });
        if late && !self.ignores_late_shares() {
            self.note_fast(now, slot, 0);
        }
    }

    /// Time that this collector leaves to those before it.
    fn turn(&self, vote: Vote) -> Micros {
        #[cfg(feature = "mutations")]
        if self.config.breaks(super::Mutation::TurnIsDelay) {
            return 0;
        }
        self.rank(vote).unwrap_or(0) * self.config.stagger
    }

    /// True if a rule is broken on purpose: what comes after a decision teaches nothing.
    #[cfg(feature = "mutations")]
    fn ignores_late_shares(&self) -> bool {
        self.config.breaks(super::Mutation::LateSharesIgnored)
    }

    #[cfg(not(feature = "mutations"))]
    #[expect(clippy::unused_self, reason = "the tests break a rule here")]
    const fn ignores_late_shares(&self) -> bool {
        false
    }

    /// Sends a combined signature, or tries again without the replicas whose shares were wrong.
    pub(super) fn collected(
        &mut self,
        now: Micros,
        vote: Vote,
        step: Step,
        group: Group,
        signature: Option<Bytes>,
        out: &mut Outs<Self>,
    ) {
        let slot = vote.slot;
        let Some(state) = self.slots.get_mut(&slot) else { return };
        if state.collect.view != vote.view || vote.view != self.view {
            return;
        }
        let Some(signature) = signature else {
            *state.collect.step(step) = Progress::Due;
            return self.collect(now, slot, out);
        };
        *state.collect.step(step) = Progress::Done;
        if self.phase != Phase::Active {
            return;
        }
        match step {
            Step::Fast => {
                let turn = self.turn(vote);
                self.note_fast(now, slot, turn);
                self.announce(Decision { vote, group, signature }, out);
            }
            Step::Slow => {
                let certificate = Certificate { vote, signature };
                out.push(Out::Send(To::All, Msg::Prepare(certificate.clone())));
                self.on_prepare(self.me, certificate, out);
            }
            Step::Commit => self.announce(Decision { vote, group, signature }, out),
        }
    }

    fn announce(&mut self, decision: Decision, out: &mut Outs<Self>) {
        out.push(Out::Send(To::All, Msg::Decided(decision.clone())));
        self.on_decision(self.me, decision, out);
    }
}
