//! Junk: messages whose bytes have changed on the way.

use phalanx_bft::{Checked, Claim, Domain, Index, Message};
use phalanx_world::is_genuine;
use rand::Rng as _;
use rand_chacha::ChaCha8Rng;

/// The replica that is faulty: it signs what it likes, for itself alone, and has the genuine signatures of all messages.
pub(crate) const LIAR: Index = Index(3);

/// A message of these with up to five changes; `None` if its bytes are none any more, or claim a signature that another replica
/// has not made.
pub(crate) fn junk<M: Message>(messages: &[M], domain: Domain, rng: &mut ChaCha8Rng) -> Option<Checked<M>> {
    let mut bytes = alloy_rlp::encode(&messages[rng.random_range(0..messages.len())]);
    for _ in 0..rng.random_range(0..6) {
        let at = rng.random_range(0..bytes.len());
        match rng.random_range(0..4) {
            0 => bytes[at] = rng.random(),
            1 => bytes[at] ^= 1 << rng.random_range(0..8),
            2 => bytes.truncate(at.max(1)),
            _ => bytes.insert(at, rng.random()),
        }
    }
    let message = M::decode(&mut bytes.as_slice()).ok()?;
    let genuine = |claims: &[Claim]| claims.iter().all(|claim| claim.signer == LIAR || is_genuine(claim));
    Checked::new(message, domain, genuine)
}

/// Asserts that every message survives its encoding, and that no part of one is a message.
pub(crate) fn assert_encodings<M: Message + PartialEq + core::fmt::Debug>(messages: Vec<M>) {
    for message in messages {
        let bytes = alloy_rlp::encode(&message);
        assert_eq!(M::decode(&mut bytes.as_slice()).expect("a message"), message);
        for cut in 0..bytes.len() {
            assert!(M::decode(&mut &bytes[..cut]).is_err(), "{message:?} cut at {cut}");
        }
    }
}
