//! Every signature that a message carries has to be among its claims: a host verifies nothing else.

use alloy_primitives::Bytes;
use alloy_rlp::Header;
use phalanx_bft::{Claim, Domain, Message};
use std::{cell::RefCell, collections::BTreeSet};

thread_local! {
    /// Signatures that this thread's worlds have made, and messages with any; `None` where nothing is noted.
    static MADE: RefCell<Option<(BTreeSet<Bytes>, u64)>> = const { RefCell::new(None) };
}

/// Runs worlds by their seeds, and checks the messages that carry signatures: more than a thousand.
///
/// # Panics
/// If a message carries a signature that it does not claim, or if few messages carry any.
pub fn are_claimed(world: impl Fn(u64)) {
    MADE.set(Some((BTreeSet::new(), 0)));
    (0..60).for_each(world);
    let messages = MADE.take().map_or(0, |(_, messages)| messages);
    assert!(messages > 1_000, "{messages} messages with signatures");
}

pub(crate) fn note(signature: &Bytes) {
    MADE.with_borrow_mut(|made| {
        if let Some((made, _)) = made {
            made.insert(signature.clone());
        }
    });
}

/// Checks the claims of a message that is delivered.
pub(crate) fn check<M: Message + core::fmt::Debug>(message: &M, domain: Domain) {
    MADE.with_borrow_mut(|made| {
        let Some((made, messages)) = made else { return };
        let mut carried = BTreeSet::new();
        // A byte of kind, then RLP.
        let encoded = alloy_rlp::encode(message);
        find(&encoded[1..], made, &mut carried);
        let mut claims: Vec<Claim> = Vec::new();
        message.claims(domain, &mut claims);
        let claimed: BTreeSet<Bytes> = claims.into_iter().map(|claim| claim.signature).collect();
        *messages += u64::from(!carried.is_empty());
        assert!(carried.is_subset(&claimed), "a signature that no host verifies: {message:?}");
    });
}

/// Finds known signatures in RLP.
fn find(mut bytes: &[u8], made: &BTreeSet<Bytes>, found: &mut BTreeSet<Bytes>) {
    while !bytes.is_empty() {
        let Ok(header) = Header::decode(&mut bytes) else { return };
        let Some((payload, rest)) = bytes.split_at_checked(header.payload_length) else { return };
        bytes = rest;
        if header.list {
            find(payload, made, found);
        } else if let Some(signature) = made.get(payload) {
            found.insert(signature.clone());
        }
    }
}
