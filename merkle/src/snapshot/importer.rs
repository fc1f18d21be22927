//! The importer: which chunks are verified and which are missing.

use phalanx_merkle_proof::Hash;

use super::{chunk::Chunk, manifest::Manifest};
use crate::types::{Contents, SnapshotError};

/// Importer of one snapshot, without I/O: says which chunks are missing, and checks each that comes, in any order and from any
/// peer.
#[derive(Clone, Debug)]
pub struct Importer {
    manifest: Manifest,
    contents: Contents,
    verified: Vec<bool>,
}

impl Importer {
    /// Begins the import of the snapshot that has a trusted height and root.
    ///
    /// # Errors
    /// [`SnapshotError::Manifest`], [`SnapshotError::Untrusted`].
    pub fn new(manifest: &[u8], contents: Contents, height: u64, root: &Hash) -> Result<Self, SnapshotError> {
        let manifest = Manifest::decode(manifest)?;
        if (manifest.height, &manifest.root) != (height, root) {
            return Err(SnapshotError::Untrusted);
        }
        let chunks = usize::try_from(manifest.chunks()).map_err(|_| SnapshotError::Manifest)?;
        Ok(Self { manifest, contents, verified: vec![false; chunks] })
    }

    /// Manifest of the snapshot.
    pub const fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Numbers of the chunks that were not accepted yet.
    pub fn missing(&self) -> impl Iterator<Item = u64> + '_ {
        self.verified.iter().enumerate().filter(|(_, verified)| !**verified).map(|(number, _)| number as u64)
    }

    /// True if all chunks were accepted.
    pub fn is_complete(&self) -> bool {
        self.verified.iter().all(|verified| *verified)
    }

    /// Checks a chunk, and returns its content.
    ///
    /// # Errors
    /// [`SnapshotError`]: the peer that sent it is at fault.
    pub fn accept<'b>(&mut self, number: u64, bytes: &'b [u8]) -> Result<Chunk<'b>, SnapshotError> {
        let chunk = self.verify(number, bytes)?;
        self.note(number);
        Ok(chunk)
    }

    /// Checks a chunk, which stays missing.
    pub(crate) fn verify<'b>(&self, number: u64, bytes: &'b [u8]) -> Result<Chunk<'b>, SnapshotError> {
        Chunk::verify(&self.manifest, &self.contents, number, bytes)
    }

    /// Notes that a chunk was verified.
    pub(crate) fn note(&mut self, number: u64) {
        if let Some(verified) = self.verified.get_mut(number as usize) {
            *verified = true;
        }
    }
}
