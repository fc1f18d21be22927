//! Traitors: what they draw, and what they sign.

use crate::crypto;
use alloy_primitives::{Address, B256, Bytes};
use phalanx_bft::{Batch, Domain, Index, NULL, Signed, Statement};
use rand::Rng as _;
use rand_chacha::ChaCha8Rng;

/// A traitor that is about to send a message.
#[derive(Debug)]
pub struct Liar<'a> {
    /// The traitor.
    pub me: Index,
    /// Receiver of the message.
    pub to: usize,
    /// True once the world is healed: it sends less.
    pub calm: bool,
    /// Domain of its signatures.
    pub domain: Domain,
    /// Random numbers of the world.
    pub rng: &'a mut ChaCha8Rng,
}

/// Random choices of a lie.
#[derive(Clone, Debug)]
pub struct Lie {
    /// The traitor.
    pub me: Index,
    /// Domain of its signatures.
    pub domain: Domain,
    /// Batch that it would rather have.
    pub batch: Batch,
    /// Digest of this batch, or the null filler.
    pub digest: B256,
    /// Two numbers.
    pub random: [u64; 2],
}

impl Liar<'_> {
    /// Draws true in `of` out of `all` cases.
    pub fn chance(&mut self, of: u32, all: u32) -> bool {
        self.rng.random_ratio(of, all)
    }

    /// The message, a lie, or nothing.
    pub(crate) fn answer<M: Clone>(&mut self, message: &M, lie: impl FnOnce(&M, &Lie) -> Vec<M>) -> Vec<M> {
        if self.calm && self.chance(1, 2) {
            return Vec::new();
        }
        let batch = Batch::new(1, Address::ZERO, vec![Bytes::from(vec![(self.to % 2) as u8])]);
        let digest = if self.chance(1, 3) { NULL } else { batch.digest() };
        match self.rng.random_range(0..6) {
            0 => Vec::new(),
            1..4 => {
                let random = self.rng.random();
                lie(message, &Lie { me: self.me, domain: self.domain, batch, digest, random })
            }
            _ => vec![message.clone()],
        }
    }

    /// A statement with the traitor's signature.
    pub fn signed<T: Statement + alloy_rlp::Decodable>(&self, body: T) -> Signed<T> {
        crypto::signed(self.me, body, self.domain)
    }
}

impl Lie {
    /// A statement with the traitor's signature.
    pub fn signed<T: Statement + alloy_rlp::Decodable>(&self, body: T) -> Signed<T> {
        crypto::signed(self.me, body, self.domain)
    }
}
