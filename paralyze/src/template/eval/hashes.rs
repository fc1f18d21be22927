//! Hashes of mapping slots, requested by many transactions and computed together.

use crate::preimage::Preimage;
use alloy_primitives::B256;
use phalanx_hash_lanes::keccak256_many;

/// Where a hash goes in the preimage of a mapping of mappings.
const SECOND_HALF: [u8; 3] = [32, 0, 32];

/// Hashes of 64 bytes, for all transactions of a piece.
#[derive(Default)]
pub(super) struct Hashes {
    preimages: Vec<Preimage>,
    hashes: Vec<B256>,
    /// Preimages that take other hashes, which are computed first.
    late: Vec<Preimage>,
    /// By late preimage, the early hash that its second half is, if it is all of one.
    halves: Vec<Option<usize>>,
    inserts: Vec<Insert>,
    late_hashes: Vec<B256>,
}

/// A hash that was asked for, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Early(usize),
    /// Hash of a preimage that has parts of early hashes.
    Late(usize),
}

/// `len` bytes of an early hash, from its byte `from` on, that go to place `at` of a late preimage.
#[derive(Clone, Copy, Debug)]
struct Insert {
    into: usize,
    hash: usize,
    at: u8,
    from: u8,
    len: u8,
}

/// A slot of a set that is a hash still to be computed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Blank {
    pub(super) entry: usize,
    pub(super) hash: Asked,
}

impl Hashes {
    /// Asks for a hash, to be filled in wherever it is needed.
    pub(super) fn ask(&mut self, preimage: Preimage) -> Asked {
        self.preimages.push(preimage);
        Asked::Early(self.preimages.len() - 1)
    }

    /// Asks for the hash of a preimage that still lacks other hashes, which are to be [inserted](Self::insert).
    pub(super) fn ask_late(&mut self, preimage: Preimage) -> Asked {
        self.late.push(preimage);
        self.halves.push(None);
        Asked::Late(self.late.len() - 1)
    }

    /// Has `len` bytes of `hash`, from its byte `from` on, put into the preimage of `into`.
    pub(super) fn insert(&mut self, into: Asked, hash: Asked, [at, from, len]: [u8; 3]) {
        if let (Asked::Late(into), Asked::Early(hash)) = (into, hash) {
            if [at, from, len] == SECOND_HALF {
                self.halves[into] = Some(hash);
            }
            self.inserts.push(Insert { into, hash, at, from, len });
        }
    }

    /// Number of preimages that take no other hash.
    pub(super) const fn len(&self) -> usize {
        self.preimages.len()
    }

    /// Forgets all preimages behind the first `len`, of a transaction without a late one.
    pub(super) fn truncate(&mut self, len: usize) {
        self.preimages.truncate(len);
    }

    /// Computes all hashes.
    pub(super) fn finish(&mut self) {
        let Self { preimages, hashes, late, inserts, late_hashes, .. } = self;
        keccak256_many(preimages.iter().map(|preimage| &preimage[..]), hashes);
        for Insert { into, hash, at, from, len } in inserts.drain(..) {
            let [at, from, len] = [at, from, len].map(usize::from);
            late[into][at..at + len].copy_from_slice(&hashes[hash][from..from + len]);
        }
        keccak256_many(late.iter().map(|preimage| &preimage[..]), late_hashes);
    }

    /// Preimage of a hash; what a late one still lacks is zero.
    pub(super) fn preimage(&self, asked: Asked) -> &Preimage {
        match asked {
            Asked::Early(hash) => &self.preimages[hash],
            Asked::Late(hash) => &self.late[hash],
        }
    }

    /// Preimage and hash, once computed.
    pub(super) fn get(&self, asked: Asked) -> (Preimage, B256) {
        match asked {
            Asked::Early(hash) => (self.preimages[hash], self.hashes[hash]),
            Asked::Late(hash) => (self.late[hash], self.late_hashes[hash]),
        }
    }

    /// Preimage of the second half, if that is known.
    pub(super) fn inner(&self, asked: Asked) -> Option<&Preimage> {
        match asked {
            Asked::Early(_) => None,
            Asked::Late(hash) => self.halves[hash].map(|inner| &self.preimages[inner]),
        }
    }
}
