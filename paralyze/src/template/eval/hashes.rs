//! Hashes of mapping slots, asked for by many transactions and computed together.

use super::{Stop, Value};
use alloy_primitives::{B256, keccak256};
use core::ops::Range;

/// Hashes that a transaction asks for at a time; what else it needs it computes.
const MAX_ASKED: usize = 64;

/// Hashes of 64 bytes, for all transactions of a piece.
#[derive(Default)]
pub(super) struct Hashes {
    pub(super) preimages: Vec<[u8; 64]>,
    /// Of the first preimages; the others are still asked for.
    pub(super) hashes: Vec<B256>,
    /// What the running transaction asked for earlier.
    pub(super) mine: Range<usize>,
    /// Where its questions of this round begin.
    pub(super) start: usize,
    /// Which hash was waited for last.
    pub(super) last: usize,
    pub(super) at_once: bool,
}

/// A slot of a set that is a hash still to be computed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Blank {
    pub(super) entry: usize,
    pub(super) hash: usize,
}

impl Hashes {
    /// Asks for a hash, to be filled in wherever it is needed. Gives its number.
    pub(super) fn ask(&mut self, write: impl FnOnce(&mut [u8; 64])) -> usize {
        let number = self.preimages.len();
        self.preimages.push([0; 64]);
        write(&mut self.preimages[number]);
        number
    }

    pub(super) fn of(&mut self, preimage: [u8; 64]) -> Value<B256> {
        let Range { start, end } = self.mine;
        if let Some(at) = self.preimages[start..end].iter().position(|asked| *asked == preimage) {
            return Ok(self.hashes[start + at]);
        }
        if self.at_once {
            return Ok(keccak256(preimage));
        }
        let asked = &self.preimages[self.start..];
        if let Some(at) = asked.iter().position(|asked| *asked == preimage) {
            self.last = self.start + at;
            return Err(Stop::Waits);
        }
        if asked.len() >= MAX_ASKED {
            return Ok(keccak256(preimage));
        }
        self.last = self.preimages.len();
        self.preimages.push(preimage);
        Err(Stop::Waits)
    }
}
