//! Payloads that wait for their verdicts: each once, with all callers that have sent it. A pure core, bounded in number and bytes.

use alloy_primitives::B256;
use std::collections::HashMap;

/// Maximum memory of the payloads, in bytes. One alone may be longer.
const MOST_BYTES: usize = 256 << 20;

/// Maximum number of callers that wait for one payload.
const CALLERS: usize = 64;

/// Answer to a caller that joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Joined {
    /// The payload is to be judged.
    First,
    /// The payload waits already, or is being judged.
    Again,
    /// The payload's callers, or the bytes of all payloads, are too many.
    Full,
}

/// A payload that waits.
#[derive(Debug)]
struct Entry<C> {
    bytes: usize,
    callers: Vec<C>,
}

/// Payloads by hash, with their callers.
#[derive(Debug)]
pub(super) struct Waiting<C> {
    payloads: HashMap<B256, Entry<C>>,
    bytes: usize,
}

impl<C> Default for Waiting<C> {
    fn default() -> Self {
        Self { payloads: HashMap::new(), bytes: 0 }
    }
}

impl<C> Waiting<C> {
    /// Adds a caller to a payload of so many bytes. One that joins gets the verdict of the first: that is as of the first's place in the
    /// line, also if other orders have come between them. `VALID` and `INVALID` are for ever, and an older `SYNCING` or `ACCEPTED` only
    /// makes the client ask again.
    pub(super) fn join(&mut self, hash: B256, bytes: usize, caller: C) -> Joined {
        if let Some(entry) = self.payloads.get_mut(&hash) {
            if entry.callers.len() >= CALLERS {
                return Joined::Full;
            }
            entry.callers.push(caller);
            return Joined::Again;
        }
        let all = self.bytes.saturating_add(bytes);
        if self.bytes > 0 && all > MOST_BYTES {
            return Joined::Full;
        }
        self.bytes = all;
        self.payloads.insert(hash, Entry { bytes, callers: vec![caller] });
        Joined::First
    }

    /// Removes a payload. Returns its callers.
    pub(super) fn leave(&mut self, hash: &B256) -> Vec<C> {
        let Some(Entry { bytes, callers }) = self.payloads.remove(hash) else { return Vec::new() };
        self.bytes = self.bytes.saturating_sub(bytes);
        callers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_callers_are_bounded_and_one_payload_always_fits() {
        let (mut waiting, name) = (Waiting::default(), B256::with_last_byte);
        assert_eq!(waiting.join(name(1), 2 * MOST_BYTES, 1), Joined::First, "alone");
        assert_eq!(waiting.join(name(2), 1, 2), Joined::Full, "behind a large one");
        assert_eq!(waiting.join(name(1), 2 * MOST_BYTES, 3), Joined::Again, "it takes no more memory");
        assert_eq!(waiting.leave(&name(1)), [1, 3]);
        assert!(waiting.leave(&name(1)).is_empty());
        assert_eq!(waiting.join(name(1), MOST_BYTES - 1, 4), Joined::First);
        assert_eq!(waiting.join(name(2), 1, 5), Joined::First, "exactly full");
        assert_eq!(waiting.join(name(3), 1, 6), Joined::Full, "not a byte more");
        for caller in 1..CALLERS {
            assert_eq!(waiting.join(name(2), 1, caller), Joined::Again);
        }
        assert_eq!(waiting.join(name(2), 1, 7), Joined::Full);
        assert_eq!(waiting.leave(&name(2)).len(), CALLERS);
        assert_eq!((waiting.leave(&name(1)).len(), waiting.bytes, waiting.payloads.len()), (1, 0, 0));
    }
}
