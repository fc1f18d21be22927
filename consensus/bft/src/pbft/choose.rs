//! The decision of a view change: which batch each slot gets in the new view.
//!
//! Correctness of the protocol across views lives here. The journal form needs no forwarded certificates: each replica reports
//! what it has prepared (P) and pre-prepared (Q), and a quorum of reports decides (Castro and Liskov, *Practical Byzantine Fault
//! Tolerance and Proactive Recovery*, 2002, section 4.4). Quorums are ⌈(n+f+1)/2⌉ where the paper has 2f+1.

use super::{
    config::Config,
    message::{Checkpoint, NewView, Report, ViewChange, is_member},
};
use crate::core::{Index, NULL, Signed, Slot, View};
use alloy_primitives::B256;
use std::collections::{BTreeMap, BTreeSet};

/// Batches per slot that a VIEW-CHANGE reports as pre-prepared.
pub(super) const MOST_PREPREPARED: usize = 4;

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
        let slots = self.stable.saturating_add(1)..=self.stable.saturating_add(config.window());
        let known = |report: &Report| slots.contains(&report.slot) && report.view < self.view;
        let per_slot = |slot| self.preprepared.iter().filter(|report| report.slot == slot).count();
        self.view > 0
            && self.stable < Slot::MAX / 2
            && !self.checkpoints.is_empty()
            && self.checkpoints.len() <= 3
            && self.checkpoints[0].slot == self.stable
            && self.checkpoints.windows(2).all(|pair| pair[0].slot < pair[1].slot)
            && self.prepared.iter().all(known)
            && self.prepared.windows(2).all(|pair| pair[0].slot < pair[1].slot)
            && self.preprepared.len() <= MOST_PREPREPARED * config.window() as usize
            && self.preprepared.iter().all(known)
            && self.preprepared.windows(2).all(|pair| (pair[0].slot, pair[0].digest) < (pair[1].slot, pair[1].digest))
            && self
                .preprepared
                .chunk_by(|a, b| a.slot == b.slot)
                .all(|chunk| per_slot(chunk[0].slot) <= MOST_PREPREPARED)
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

/// Finds the checkpoint and the batches of a new view.
///
/// Returns `None` if these view changes do not decide every slot: then more have to come.
pub(super) fn choose(config: &Config, changes: &BTreeMap<Index, &ViewChange>) -> Option<Choice> {
    let stable = checkpoint(config, changes)?;
    let mut digests = Vec::new();
    for slot in stable.slot + 1..=last_reported(config, changes, stable.slot) {
        digests.push(batch(config, changes, slot)?);
    }
    Some(Choice { stable, digests })
}

/// Returns true if a NEW-VIEW follows from the view changes inside it.
pub(super) fn is_valid(config: &Config, signed: &Signed<NewView>) -> bool {
    let NewView { view, changes, stable, choices } = &signed.body;
    let signers: BTreeSet<Index> = changes.iter().map(|change| change.signer).collect();
    let reports: BTreeMap<Index, &ViewChange> = changes.iter().map(|change| (change.signer, &change.body)).collect();
    let well_formed = signed.signer == config.primary(*view)
        && *view > 0
        && signers.len() == changes.len()
        && signers.iter().all(|signer| is_member(*signer, config.quorums.n()))
        && signers.len() >= config.quorums.available()
        && changes.iter().all(|change| change.body.view == *view && change.body.is_well_formed(config));
    well_formed
        && checkpoint(config, &reports) == Some(*stable)
        && stable.slot + choices.len() as u64 == last_reported(config, &reports, stable.slot)
        && choices.iter().zip(stable.slot + 1..).all(|(digest, slot)| {
            is_chosen(config, &reports, slot, *digest) || *digest == NULL && is_null(config, &reports, slot)
        })
}

/// The highest checkpoint that a quorum has reached the low end of, and that a correct replica names.
fn checkpoint(config: &Config, changes: &BTreeMap<Index, &ViewChange>) -> Option<Checkpoint> {
    let named: BTreeSet<(Slot, B256)> =
        changes.values().flat_map(|change| change.checkpoints.iter().map(|c| (c.slot, c.digest))).collect();
    let is_usable = |(slot, digest): &(Slot, B256)| {
        let at_or_below = changes.values().filter(|change| change.stable <= *slot).count();
        let naming = |change: &&&ViewChange| change.checkpoints.contains(&Checkpoint { slot: *slot, digest: *digest });
        at_or_below >= config.quorum() && changes.values().filter(naming).count() >= config.quorums.one_correct()
    };
    named.into_iter().rev().find(is_usable).map(|(slot, digest)| Checkpoint { slot, digest })
}

/// The last slot of the window behind `stable` with a prepared batch.
///
/// Nothing beyond the window can be decided: its quorum would share a correct replica with the one that is at or below `stable`.
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
            change.stable < slot
                && change
                    .prepared(slot)
                    .is_none_or(|other| other.view < view || (other.view, other.digest) == (view, digest))
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
    let knows_nothing = |change: &&&ViewChange| change.stable < slot && change.prepared(slot).is_none();
    let count = changes.values().filter(knows_nothing).count();
    #[cfg(feature = "mutations")]
    if config.breaks(super::config::Mutation::NullTooSoon) {
        return count >= config.quorums.one_correct();
    }
    count >= config.quorum()
}
