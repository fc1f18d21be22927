//! The decision of a view change: which batch each slot gets in the new view.
//!
//! Correctness of the protocol across views lives here. The journal form needs no forwarded certificates: each replica reports
//! what it has prepared (P) and pre-prepared (Q), and a quorum of reports decides (Castro and Liskov, *Practical Byzantine Fault
//! Tolerance and Proactive Recovery*, 2002, section 4.4). Quorums are ⌈(n+f+1)/2⌉ where the paper has 2f+1.
//!
//! Two differences keep reports small and the choice possible. A report names only a checkpoint that a quorum has signed. And a
//! replica that knows the NEW-VIEW of a view reports nothing that it supersedes, see `SlotState::supersede`: once all
//! correct replicas know the newest one, their reports agree well enough to choose.

use super::{
    config::Config,
    message::{Checkpoint, NewView, Report, ViewChange, is_member},
};
use crate::core::{Base, Index, NULL, ReplicaSet, Signed, Slot, View};
use alloy_primitives::B256;
use std::collections::{BTreeMap, BTreeSet};

/// Batches per slot that a VIEW-CHANGE reports as pre-prepared, at most. A correct replica reports one.
const MOST_PREPREPARED: usize = 4;

/// The state that a new view starts with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    /// Checkpoint below the first slot.
    pub(super) stable: Checkpoint,
    /// Digests for the slots behind it.
    pub(super) digests: Vec<B256>,
}

impl ViewChange {
    /// Returns true if the report has the shape that every correct replica gives it: bounded, ascending, below its view.
    pub(super) fn is_well_formed(&self, config: &Config) -> bool {
        let stable = self.stable.slot;
        if self.view == 0 || stable >= Slot::MAX / 2 {
            return false;
        }
        let known = |report: &Report| {
            report.slot > stable && report.slot <= stable + config.window() && report.view < self.view
        };
        self.prepared.iter().all(known)
            && self.prepared.is_sorted_by(|a, b| a.slot < b.slot)
            && self.preprepared.iter().all(known)
            && self.preprepared.is_sorted_by(|a, b| (a.slot, a.digest) < (b.slot, b.digest))
            && self.preprepared.chunk_by(|a, b| a.slot == b.slot).all(|slot| slot.len() <= MOST_PREPREPARED)
    }

    /// The batch prepared in `slot`.
    fn prepared(&self, slot: Slot) -> Option<&Report> {
        self.prepared.binary_search_by_key(&slot, |report| report.slot).ok().map(|at| &self.prepared[at])
    }

    /// Returns true if the report says that `digest` was pre-prepared in `slot` in `view` or later.
    fn vouches(&self, slot: Slot, digest: B256, view: View) -> bool {
        let at = self.preprepared.binary_search_by(|report| (report.slot, report.digest).cmp(&(slot, digest)));
        at.is_ok_and(|at| self.preprepared[at].view >= view)
    }
}

/// Returns true if a quorum of different replicas has signed the checkpoint, or it is the genesis state. Verifies no signature.
pub(super) fn is_proven(config: &Config, stable: &Checkpoint, proof: &[Signed<Checkpoint>]) -> bool {
    if stable.slot == 0 {
        return stable.digest == Base::default().digest && proof.is_empty();
    }
    let signers: ReplicaSet = proof.iter().map(|signed| signed.signer).collect();
    stable.slot.is_multiple_of(config.interval)
        && signers.len() == proof.len()
        && signers.len() >= config.quorum()
        && proof.iter().all(|signed| signed.body == *stable && is_member(signed.signer, config.quorums.n()))
}

/// Finds the checkpoint and the batches of a new view.
///
/// Returns `None` if these view changes do not decide every slot: then more have to come.
pub(super) fn choose(config: &Config, changes: &BTreeMap<Index, &ViewChange>) -> Option<Choice> {
    let stable = checkpoint(changes)?;
    let mut digests = Vec::new();
    for slot in stable.slot + 1..=last_reported(config, changes, stable.slot) {
        digests.push(batch(config, changes, slot)?);
    }
    // An invented report must not fill the window: free slots at the end stay free.
    while digests.last() == Some(&NULL) && is_null(config, changes, stable.slot + digests.len() as u64) {
        digests.pop();
    }
    Some(Choice { stable, digests })
}

/// Returns true if the outside of a NEW-VIEW is right: its primary, and view changes of its view by different replicas. Cheap, and
/// bounds the number of signatures to verify.
pub(super) fn is_bounded(config: &Config, signed: &Signed<NewView>) -> bool {
    let NewView { view, changes, stable, proof, choices } = &signed.body;
    *view > 0
        && signed.signer == config.primary(*view)
        && (config.quorums.available()..=config.quorums.n()).contains(&changes.len())
        && changes.is_sorted_by(|a, b| a.signer < b.signer)
        && changes.iter().all(|change| change.body.view == *view && is_member(change.signer, config.quorums.n()))
        && choices.len() as u64 <= config.window()
        && is_proven(config, stable, proof)
}

/// Returns true if a NEW-VIEW follows from the view changes inside it.
pub(super) fn is_valid(config: &Config, signed: &Signed<NewView>) -> bool {
    let NewView { changes, stable, choices, .. } = &signed.body;
    if !is_bounded(config, signed) || !changes.iter().all(|change| change.body.is_well_formed(config)) {
        return false;
    }
    let reports: BTreeMap<Index, &ViewChange> = changes.iter().map(|change| (change.signer, &change.body)).collect();
    let end = stable.slot + choices.len() as u64;
    let last = last_reported(config, &reports, stable.slot);
    checkpoint(&reports) == Some(*stable)
        && end <= last
        && choices.iter().zip(stable.slot + 1..).all(|(digest, slot)| {
            is_chosen(config, &reports, slot, *digest) || *digest == NULL && is_null(config, &reports, slot)
        })
        && (end + 1..=last).all(|slot| is_null(config, &reports, slot))
        && !(choices.last() == Some(&NULL) && is_null(config, &reports, end))
}

/// The highest checkpoint. Each is proven, so that a quorum is behind it and slots up to it are done.
fn checkpoint(changes: &BTreeMap<Index, &ViewChange>) -> Option<Checkpoint> {
    changes.values().map(|change| change.stable).max_by_key(|stable| stable.slot)
}

/// The last slot of the window behind `stable` with a prepared batch.
///
/// Nothing beyond the window can be decided: no correct replica accepts anything there before a higher checkpoint is proven.
fn last_reported(config: &Config, changes: &BTreeMap<Index, &ViewChange>, stable: Slot) -> Slot {
    let window = stable + 1..=stable + config.window();
    let reported = changes.values().flat_map(|change| &change.prepared).map(|report| report.slot);
    reported.filter(|slot| window.contains(slot)).max().unwrap_or(stable)
}

/// The batch of one slot.
fn batch(config: &Config, changes: &BTreeMap<Index, &ViewChange>, slot: Slot) -> Option<B256> {
    let candidates: BTreeSet<B256> =
        changes.values().filter_map(|change| change.prepared(slot)).map(|report| report.digest).collect();
    let chosen = candidates.into_iter().find(|digest| is_chosen(config, changes, slot, *digest));
    chosen.or_else(|| is_null(config, changes, slot).then_some(NULL))
}

/// Conditions A1 and A2: a batch that may have been decided, and that some correct replica has seen proposed.
fn is_chosen(config: &Config, changes: &BTreeMap<Index, &ViewChange>, slot: Slot, digest: B256) -> bool {
    let reports = changes.values().filter_map(|change| change.prepared(slot));
    reports.filter(|report| report.digest == digest).any(|report| {
        let Report { view, .. } = *report;
        // A1: a quorum that knows of nothing prepared later, nor of another batch prepared in that view.
        let agrees = |change: &&&ViewChange| {
            change.prepared(slot).is_none_or(|other| other.view < view || (other.view, other.digest) == (view, digest))
        };
        // A2: a correct replica that accepted the batch in that view or later, so that the report is no invention.
        let vouches = |change: &&&ViewChange| change.vouches(slot, digest, view);
        let a1 = changes.values().filter(agrees).count() >= config.quorum();
        let a2 = changes.values().filter(vouches).count() >= config.quorums.one_correct();
        #[cfg(feature = "mutations")]
        let (a1, a2) = {
            use super::config::Mutation;
            (a1 || config.breaks(Mutation::NoA1), a2 || config.breaks(Mutation::NoA2))
        };
        a1 && a2
    })
}

/// Condition B: a quorum has prepared nothing in the slot, so nothing was decided there.
fn is_null(config: &Config, changes: &BTreeMap<Index, &ViewChange>, slot: Slot) -> bool {
    let knows_nothing = |change: &&&ViewChange| change.prepared(slot).is_none();
    let count = changes.values().filter(knows_nothing).count();
    #[cfg(feature = "mutations")]
    if config.breaks(super::config::Mutation::NullTooSoon) {
        return count >= config.quorums.one_correct();
    }
    count >= config.quorum()
}
