//! Decisions of a view change, by the rules as the papers state them: random reports, and every choice that could be made of them.

#![allow(clippy::unwrap_used, reason = "a failed step fails the test")]

use crate::{lab::Lab, manual::batch, sbft::lab as sbft_lab};
use alloy_primitives::B256;
use phalanx_bft::{
    Index, NULL, Protocol as _, Quorums, Signed, Slot, View,
    autobahn::{self, Mark, Phase, Qc, Tc, Timeout},
    pbft::{Checkpoint, Leaving, Msg, NewView, Report, ViewChange},
    sbft,
};
use rand::{Rng as _, SeedableRng as _, seq::SliceRandom as _};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;

const SIZES: [(usize, usize); 5] = [(4, 1), (5, 1), (6, 1), (7, 2), (10, 3)];
const INTERVAL: u64 = 2;
const WINDOW: u64 = 2 * INTERVAL;

/// Signers of a set of view changes: n-f of n replicas or more.
fn signers(quorums: Quorums, rng: &mut ChaCha8Rng) -> Vec<u16> {
    let mut all: Vec<u16> = (0..quorums.n() as u16).collect();
    all.shuffle(rng);
    all.truncate(rng.random_range(quorums.available()..=quorums.n()));
    all.sort_unstable();
    all
}

fn digest(rng: &mut ChaCha8Rng) -> B256 {
    [batch(1).digest(), batch(2).digest(), NULL][rng.random_range(0..3)]
}

/// Condition of a slot in a NEW-VIEW: A1 and A2 for a batch, or B for the null filler.
fn may_be(quorums: Quorums, changes: &[ViewChange], slot: Slot, choice: B256) -> bool {
    let prepared = |change: &ViewChange| change.prepared.iter().find(|report| report.slot == slot).copied();
    let a = changes.iter().filter_map(prepared).filter(|report| report.digest == choice).any(|of| {
        let a1 = changes.iter().filter(|change| {
            prepared(change).is_none_or(|other| other.view < of.view || (other.view, other.digest) == (of.view, choice))
        });
        let a2 = changes.iter().filter(|change| {
            let vouches = |report: &&Report| (report.slot, report.digest) == (slot, choice) && report.view >= of.view;
            change.preprepared.iter().any(|report| vouches(&report))
        });
        a1.count() >= quorums.quorum() && a2.count() > quorums.f()
    });
    a || choice == NULL && is_free(quorums, changes, slot)
}

fn is_free(quorums: Quorums, changes: &[ViewChange], slot: Slot) -> bool {
    let free = changes.iter().filter(|change| change.prepared.iter().all(|report| report.slot != slot));
    free.count() >= quorums.quorum()
}

/// Returns true if these choices follow from these view changes.
fn follows(quorums: Quorums, changes: &[ViewChange], stable: Slot, choices: &[B256]) -> bool {
    let highest = changes.iter().map(|change| change.stable.slot).max().unwrap();
    let reported = changes.iter().flat_map(|change| &change.prepared).map(|report| report.slot);
    let last = reported.filter(|slot| (stable + 1..=stable + WINDOW).contains(slot)).max().unwrap_or(stable);
    let end = stable + choices.len() as u64;
    highest == stable
        && end <= last
        && choices.iter().zip(stable + 1..).all(|(choice, slot)| may_be(quorums, changes, slot, *choice))
        && (end + 1..=last).all(|slot| is_free(quorums, changes, slot))
        && !(choices.last() == Some(&NULL) && is_free(quorums, changes, end))
}

/// A random report; sometimes on a checkpoint, sometimes of a shape that no correct replica sends.
fn report(view: View, rng: &mut ChaCha8Rng) -> (ViewChange, bool) {
    let stable = if rng.random_ratio(1, 5) { INTERVAL } else { 0 };
    let point = |slot| Checkpoint { slot, digest: if slot == 0 { B256::ZERO } else { B256::repeat_byte(7) } };
    let mut change = ViewChange { view, stable: point(stable), ..ViewChange::default() };
    for slot in stable + 1..=stable + 3 {
        let mut entry = || Report { slot, digest: digest(rng), view: rng.random_range(0..view) };
        let (one, other) = (entry(), entry());
        if rng.random_ratio(3, 5) {
            change.prepared.push(one);
            change.preprepared.extend(rng.random_ratio(4, 5).then_some(one));
        }
        let known = change.preprepared.last().is_some_and(|last| last.slot == slot && last.digest == other.digest);
        change.preprepared.extend((!known && rng.random_ratio(1, 2)).then_some(other));
    }
    change.preprepared.sort_unstable_by_key(|report| (report.slot, report.digest));
    let broken = rng.random_ratio(1, 12);
    if broken {
        let far = Report { slot: stable + WINDOW + 1, digest: digest(rng), view: 0 };
        match (rng.random_range(0..5), change.prepared.first_mut()) {
            (0, Some(first)) => first.view = view,
            (1, Some(first)) => first.slot = stable,
            (2, Some(first)) => {
                let twin = *first;
                change.prepared.insert(0, twin);
            }
            (3, _) => change.preprepared.push(far),
            _ => change.prepared.push(far),
        }
    }
    (change, broken)
}

/// A backup enters a view by exactly the choices that follow from its view changes, and the primary finds some of them if there are any.
#[test]
fn pbft_enters_a_view_by_the_choices_that_follow_from_its_view_changes() {
    let (mut rng, mut entered, mut refused, mut chosen) = (ChaCha8Rng::seed_from_u64(5), 0, 0, 0);
    for round in 0..150 {
        let (n, f) = SIZES[round % SIZES.len()];
        let quorums = Quorums::new(n, f).unwrap();
        // Its primary reports as well.
        let (view, primary) = (3, 3);
        let lab = Lab::new(n, f, INTERVAL, &[]);
        let signers = signers(quorums, &mut rng);
        let reports: Vec<(ViewChange, bool)> = signers.iter().map(|_| report(view, &mut rng)).collect();
        let is_whole = reports.iter().all(|(_, broken)| !broken);
        let bodies: Vec<ViewChange> = reports.into_iter().map(|(body, _)| body).collect();
        let changes: Vec<Signed<ViewChange>> =
            signers.iter().zip(&bodies).map(|(signer, body)| lab.signed(*signer, body.clone())).collect();
        let proof_of = |stable: Checkpoint| -> Vec<Signed<Checkpoint>> {
            let signed = (0..quorums.quorum() as u16).map(|signer| lab.signed(signer, stable));
            signed.filter(|_| stable.slot > 0).collect()
        };
        for stable in [0, INTERVAL] {
            let digest = if stable == 0 { B256::ZERO } else { B256::repeat_byte(7) };
            let at = Checkpoint { slot: stable, digest };
            // All vectors of up to three choices.
            for vector in 0..108u32 {
                let length = vector as usize % 4;
                let values = [batch(1).digest(), batch(2).digest(), NULL];
                let choices: Vec<B256> =
                    (0..length as u32).map(|at| values[(vector / 3u32.pow(at)) as usize % 3]).collect();
                let mut lab = Lab::new(n, f, INTERVAL, &[1]);
                let body = NewView {
                    view,
                    changes: changes.clone(),
                    stable: at,
                    proof: proof_of(at),
                    choices: choices.clone(),
                };
                let opening = lab.signed(primary, body);
                lab.tell(primary, 1, Msg::NewView(opening));
                let enters = lab.replicas[&1].view() == view;
                let right = is_whole && follows(quorums, &bodies, stable, &choices);
                assert_eq!(enters, right, "round {round}, n = {n}: {choices:?} behind {stable} by {bodies:#?}");
                *if enters { &mut entered } else { &mut refused } += 1;
            }
        }
        // The primary, to which the view changes come one after the other.
        let mut lab = Lab::new(n, f, INTERVAL, &[primary]);
        for change in changes.iter().filter(|change| change.signer != Index(primary)) {
            let leaving = Leaving { change: change.clone(), proof: proof_of(change.body.stable) };
            lab.tell(change.signer.0, primary, Msg::ViewChange(leaving));
        }
        [1, 2].into_iter().for_each(|of| lab.tell(0, primary, Msg::Fetched(batch(of))));
        let opened = lab.wire.iter().find_map(|(_, _, message)| match message {
            Msg::NewView(opening) => Some(opening.body.clone()),
            _ => None,
        });
        if let Some(NewView { changes, stable, choices, .. }) = opened {
            chosen += 1;
            let bodies: Vec<ViewChange> = changes.into_iter().map(|change| change.body).collect();
            assert!(bodies.len() >= quorums.available(), "round {round}: {} view changes", bodies.len());
            assert!(follows(quorums, &bodies, stable.slot, &choices), "round {round}: {choices:?} by {bodies:#?}");
        }
    }
    assert!(entered > 100 && refused > 10_000 && chosen > 20, "{entered} entered, {refused} refused, {chosen} chosen");
}

/// The choice of SBFT in one slot: a decision, the higher of the newest τ and of the newest batch that f+c+1 reports keep, or nothing.
fn kept(config: &sbft::Config, changes: &[sbft::ViewChange], slot: Slot) -> Option<B256> {
    let of = |vote: &sbft::Vote| vote.slot == slot;
    if let Some(decision) = changes.iter().flat_map(|change| &change.decided).find(|decision| of(&decision.vote)) {
        return Some(decision.vote.digest);
    }
    let certificates = changes.iter().flat_map(|change| &change.prepared).map(|own| own.vote).filter(of);
    let slow = certificates.map(|vote| (vote.view, 1, vote.digest)).max_by_key(|(view, ..)| *view);
    let mut by_batch: BTreeMap<B256, Vec<View>> = BTreeMap::new();
    for vote in changes.iter().flat_map(|change| &change.accepted).filter(|vote| of(vote)) {
        by_batch.entry(vote.digest).or_default().push(vote.view);
    }
    let needed = config.quorums.f() + config.c() + 1;
    // The highest view such that enough reports name the batch in that view or later.
    let view = |views: &[View]| {
        let enough = |view: &View| views.iter().filter(|other| *other >= view).count() >= needed;
        views.iter().copied().filter(enough).max()
    };
    let fast = by_batch.into_iter().filter_map(|(digest, views)| Some((view(&views)?, 0, digest))).max();
    slow.into_iter().chain(fast).max_by_key(|(view, slow, _)| (*view, *slow)).map(|(.., digest)| digest)
}

#[test]
fn sbft_chooses_what_may_be_decided() {
    let mut rng = ChaCha8Rng::seed_from_u64(6);
    for round in 0..4_000 {
        let (n, f) = [(4, 1), (6, 1), (7, 2), (9, 2), (10, 3)][round % 5];
        let config = sbft::Config { interval: INTERVAL, ..sbft_lab::config(n, f) };
        let mut bodies = Vec::new();
        let signers = signers(config.quorums, &mut rng);
        for _ in &signers {
            let stable = if rng.random_ratio(1, 8) { INTERVAL } else { 0 };
            let checkpoint = sbft::Checkpoint { slot: stable, digest: B256::repeat_byte(stable as u8) };
            let mut body = sbft::ViewChange { view: 4, ..sbft::ViewChange::default() };
            body.stable.checkpoint = if stable > 0 { checkpoint } else { sbft::Checkpoint::default() };
            for slot in stable + 1..=stable + WINDOW {
                let mut vote = || sbft::Vote { view: rng.random_range(0..4), slot, digest: digest(&mut rng) };
                let [accepted, prepared, decided] = [vote(), vote(), vote()];
                body.accepted.extend(rng.random_ratio(3, 4).then_some(accepted));
                body.prepared.extend(rng.random_ratio(1, 6).then(|| sbft_lab::certificate(prepared)));
                body.decided.extend(rng.random_ratio(1, 30).then(|| sbft_lab::decision(decided, true)));
            }
            bodies.push(body);
        }
        let changes = signers.iter().zip(&bodies).map(|(signer, body)| sbft_lab::signed(*signer, body.clone()));
        let opening = sbft_lab::signed(0, sbft::NewView { view: 4, changes: changes.collect() });
        let (stable, choices) = sbft::Sbft::choices(&config, &opening);
        assert_eq!(stable, bodies.iter().map(|body| body.stable.checkpoint.slot).max().unwrap());
        let mut expected: Vec<Option<B256>> =
            (stable + 1..=stable + WINDOW).map(|slot| kept(&config, &bodies, slot)).collect();
        while expected.last() == Some(&None) {
            expected.pop();
        }
        let expected: Vec<B256> = expected.into_iter().map(|kept| kept.unwrap_or(NULL)).collect();
        assert_eq!(choices, expected, "round {round}, n = {n}, c = {}: {bodies:#?}", config.c());
    }
}

/// The value that Autobahn's next view is bound to: the certificate named last, unless enough votes of a later view are reported.
#[test]
fn autobahn_is_bound_to_what_may_be_decided() {
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    for round in 0..20_000 {
        let (n, f) = SIZES[round % SIZES.len()];
        let config = autobahn::Config::new(Quorums::new(n, f).unwrap(), Default::default());
        let view = 4;
        let some = |rng: &mut ChaCha8Rng| Mark { view: rng.random_range(0..=view), digest: digest(rng) };
        let timeouts: Vec<Signed<Timeout>> = signers(config.quorums, &mut rng)
            .into_iter()
            .take(n - f)
            .map(|signer| {
                let prop = if rng.random_ratio(4, 5) { some(&mut rng) } else { Mark::default() };
                sbft_lab::signed(signer, Timeout { slot: 1, view, qc: Mark::default(), prop })
            })
            .collect();
        let qc = rng.random_ratio(1, 2).then(|| some(&mut rng)).filter(|mark| mark.digest != B256::ZERO);
        let (slot, phase, ballots) = (1, Phase::Prepare, Vec::new());
        let qc = qc.map(|Mark { view, digest }| Qc { slot, view, digest, phase, ballots });
        let mut voted: Option<(View, B256)> = None;
        for (of, digest) in timeouts.iter().filter_map(|timeout| timeout.body.prop.get()) {
            let reports = timeouts.iter().filter_map(|timeout| timeout.body.prop.get());
            let enough = reports.filter(|(view, other)| *other == digest && *view >= of).count() >= n - 2 * f;
            voted = voted.max(enough.then_some((of, digest)));
        }
        let expected = match (&qc, voted) {
            (Some(qc), Some((view, digest))) if view > qc.view => Some(digest),
            (Some(qc), _) => Some(qc.digest),
            (None, voted) => voted.map(|(_, digest)| digest),
        };
        let tc = Tc { timeouts, qc: qc.into_iter().collect() };
        assert_eq!(autobahn::winner(&config, &tc), expected, "round {round}, n = {n}: {tc:#?}");
    }
}
