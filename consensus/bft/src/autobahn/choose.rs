//! The value of the next view, from the complaints of n-f replicas.
//!
//! A value that was decided on the fast path has the votes of all replicas, so that n-2f of any n-f complaints report it, in the
//! view of the decision **or a later one**: some replicas may have voted for it again since. So each value counts with its
//! (n-2f)-th largest reported view. A value that was decided on the slow path has a certificate in one of the complaints. The
//! higher view wins, the certificate if both are equal. Counting equal pairs of value and view instead loses fast decisions.

use super::{certificate::Tc, config::Config};
use crate::core::View;
use alloy_primitives::B256;
use std::collections::BTreeMap;

/// Digest of the only cut that the view after a timeout certificate may propose, `None` if it is free. The certificate is valid.
#[must_use]
pub fn winner(config: &Config, tc: &Tc) -> Option<B256> {
    let certified = tc.qc.first().map(|qc| (qc.view, qc.digest));
    let mut reported: BTreeMap<B256, Vec<View>> = BTreeMap::new();
    for timeout in &tc.timeouts {
        if let Some((view, digest)) = timeout.body.prop.get() {
            reported.entry(digest).or_default().push(view);
        }
    }
    let needed = config.reports();
    let mut voted: Option<(View, B256)> = None;
    for (digest, mut views) in reported {
        views.sort_unstable_by(|a, b| b.cmp(a));
        #[cfg(feature = "mutations")]
        if config.breaks(super::config::Mutation::ExactPairs) {
            let pair = views.iter().copied().find(|view| views.iter().filter(|other| *other == view).count() >= needed);
            voted = voted.max(pair.map(|view| (view, digest)));
            continue;
        }
        voted = voted.max(views.get(needed - 1).map(|view| (*view, digest)));
    }
    match (certified, voted) {
        (Some(certified), Some(voted)) if voted.0 > certified.0 => Some(voted.1),
        (Some(certified), _) => Some(certified.1),
        (None, voted) => voted.map(|(_, digest)| digest),
    }
}
