//! Limits on what a peer gets in answer to its questions: a small message must not cost a replica its bandwidth.

use super::{protocol::Micros, replica::Index};
use std::collections::BTreeMap;

/// Maximum length of all answers to one peer within a period, in bytes.
const MOST_BYTES: usize = 8 << 20;

/// Share of a budget that a small message takes, in bytes.
pub(crate) const SMALL: usize = 256;

/// Bytes that went to each peer in its current period, in answer to its questions.
#[derive(Clone, Debug, Default)]
pub struct Budgets(BTreeMap<Index, (Micros, usize)>);

impl Budgets {
    /// Returns true if `bytes` more may go to `peer` now, and notes them.
    pub fn spend(&mut self, peer: Index, now: Micros, period: Micros, bytes: usize) -> bool {
        let (since, spent) = self.0.entry(peer).or_insert((now, 0));
        if now.saturating_sub(*since) >= period {
            (*since, *spent) = (now, 0);
        }
        // One message of any length passes, so that the largest batch can be fetched.
        let passes = *spent == 0 || spent.saturating_add(bytes) <= MOST_BYTES;
        if passes {
            *spent = spent.saturating_add(bytes);
        }
        passes
    }
}
