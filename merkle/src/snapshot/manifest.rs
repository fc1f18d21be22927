//! The manifest of a snapshot: what its chunks lead to, and how many there are.

use core::ops::Range;

use phalanx_merkle_proof::{Hash, Params, Shape, TWIG_LEVEL, upper_levels};

use crate::{log::Fields, types::SnapshotError};

const MAGIC: [u8; 8] = *b"PHXSNAP1";

/// Twigs of a chunk, as a power of two.
pub(super) const CHUNK_LEVELS: u8 = 4;

/// Description of a snapshot: what its chunks lead to.
///
/// The root binds everything in it but the height, so both must come from a trusted source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// Genesis parameters.
    pub params: Params,
    /// Height of the block.
    pub height: u64,
    /// State root after the block.
    pub root: Hash,
    /// Shape of the log under the root.
    pub shape: Shape,
    /// Digest above all twigs.
    pub top: Hash,
}

impl Manifest {
    /// Length of an encoded manifest, in bytes.
    pub const LEN: usize = MAGIC.len() + Params::LEN + 8 + 32 + 24 + 32;

    /// Canonical encoding.
    pub fn encode(&self) -> [u8; Self::LEN] {
        let Shape { next_sn, floor, active } = self.shape;
        let words = [next_sn, floor, active].map(u64::to_be_bytes).concat();
        let (params, height) = (self.params.encode(), self.height.to_be_bytes());
        let parts = [&MAGIC[..], &params, &height, &self.root, &words, &self.top];
        let mut out = [0; Self::LEN];
        parts.concat().iter().zip(&mut out).for_each(|(byte, out)| *out = *byte);
        out
    }

    /// Decodes a manifest, and checks that it is consistent.
    ///
    /// # Errors
    /// [`SnapshotError::Manifest`].
    pub fn decode(bytes: &[u8]) -> Result<Self, SnapshotError> {
        let decode = || {
            let mut fields = Fields(bytes);
            (*fields.array()? == MAGIC).then_some(())?;
            let params = Params::decode(fields.take(Params::LEN)?)?;
            let (height, root) = (fields.u64()?, *fields.array()?);
            let shape = Shape { next_sn: fields.u64()?, floor: fields.u64()?, active: fields.u64()? };
            let manifest = Self { params, height, root, shape, top: *fields.array()? };
            (fields.0.is_empty() && manifest.is_consistent()).then_some(manifest)
        };
        decode().ok_or(SnapshotError::Manifest)
    }

    fn is_consistent(&self) -> bool {
        let Shape { next_sn, floor, active } = self.shape;
        let sentinels = self.params.sentinels.count();
        let fits = floor < next_sn && (sentinels..=next_sn - floor).contains(&active) && next_sn < crate::types::MAX_SN;
        fits && self.params.root(&self.shape, &self.top) == self.root
    }

    /// Number of chunks.
    pub const fn chunks(&self) -> u64 {
        ((self.shape.twigs() - 1) >> CHUNK_LEVELS) - (self.shape.first_twig() >> CHUNK_LEVELS) + 1
    }

    /// Node above a chunk's twigs: its level and index.
    pub(super) fn node(&self, chunk: u64) -> (u8, u64) {
        let up = CHUNK_LEVELS.min(upper_levels(self.shape.twigs()) as u8);
        (TWIG_LEVEL + up, (self.shape.first_twig() >> CHUNK_LEVELS) + chunk)
    }

    /// Twigs of a chunk.
    pub(crate) fn twigs(&self, chunk: u64) -> Range<u64> {
        let group = (self.shape.first_twig() >> CHUNK_LEVELS) + chunk;
        let (begin, end) = (group << CHUNK_LEVELS, (group + 1) << CHUNK_LEVELS);
        begin.max(self.shape.first_twig())..end.min(self.shape.twigs())
    }
}
