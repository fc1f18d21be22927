//! Blobs beside a transaction: those that its hashes are of, with proofs that hold (EIP-4844, EIP-7594).

use super::RecoverError;
use alloy_consensus::{Signed, TxEip4844, TxEip4844Variant, TxEnvelope};
use alloy_eips::{
    Encodable2718 as _,
    eip7594::{BlobTransactionSidecarVariant, CELLS_PER_EXT_BLOB},
};
use alloy_primitives::{B256, Bytes, keccak256};
use c_kzg::{Blob, Bytes48, Cell, Error, KzgSettings, ethereum_kzg_settings};
use revm::primitives::hardfork::SpecId;

/// Multiple of the setup's points that are computed in advance: none, as only provers need them.
const PRECOMPUTED: u64 = 0;

/// Encoding of a transaction with its blobs, as pools send it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pooled {
    pub(super) bytes: Bytes,
    proofs: Proofs,
}

/// Subject of the proofs of a blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Proofs {
    /// The blob as a whole.
    Blob,
    /// Each cell of the blob: from Osaka on.
    Cells,
}

impl Proofs {
    const fn of(sidecar: &BlobTransactionSidecarVariant) -> Self {
        match sidecar {
            BlobTransactionSidecarVariant::Eip4844(_) => Self::Blob,
            BlobTransactionSidecarVariant::Eip7594(_) => Self::Cells,
        }
    }

    fn fit(self, spec: SpecId) -> bool {
        spec.is_enabled_in(SpecId::OSAKA) == (self == Self::Cells)
    }
}

impl Pooled {
    /// Copies `bytes`, which `sidecar` was decoded from, and which is [checked](check).
    pub(super) fn new(bytes: &[u8], sidecar: &BlobTransactionSidecarVariant) -> Self {
        Self { bytes: Bytes::copy_from_slice(bytes), proofs: Proofs::of(sidecar) }
    }

    /// True if the proofs are those that a hard fork demands.
    pub(super) fn fits(&self, spec: SpecId) -> bool {
        self.proofs.fit(spec)
    }
}

/// Strips the blobs: returns the transaction as a block holds it, its bytes and its hash. `sidecar` must match its
/// hashes, and have as many proofs as blobs or, from Osaka on, cells. [`check`] is the dear part.
pub(super) fn strip(
    signed: Signed<TxEip4844>,
    sidecar: &BlobTransactionSidecarVariant,
    spec: SpecId,
) -> Result<(TxEnvelope, Vec<u8>, B256), RecoverError> {
    let (tx, signature, _) = signed.into_parts();
    let blobs = sidecar.blobs().len();
    let are_there = match sidecar {
        BlobTransactionSidecarVariant::Eip4844(of) => of.proofs.len() == blobs,
        BlobTransactionSidecarVariant::Eip7594(of) => of.cell_proofs.len() == blobs * CELLS_PER_EXT_BLOB,
    };
    if !are_there || !Proofs::of(sidecar).fit(spec) {
        return Err(RecoverError::Blobs { what: "the proofs that the hard fork demands" });
    }
    if blobs != tx.blob_versioned_hashes.len() {
        return Err(RecoverError::Blobs { what: "their number" });
    }
    if !sidecar.versioned_hashes().eq(tx.blob_versioned_hashes.iter().copied()) {
        return Err(RecoverError::Blobs { what: "a commitment" });
    }
    let envelope = TxEnvelope::Eip4844(Signed::new_unhashed(TxEip4844Variant::TxEip4844(tx), signature));
    let bytes = envelope.encoded_2718();
    let hash = keccak256(&bytes);
    Ok((envelope, bytes, hash))
}

/// Checks that commitments and proofs are those of the blobs (KZG). Takes some milliseconds per blob; the first call also loads the setup
/// of the ceremony.
pub(super) fn check(sidecar: &BlobTransactionSidecarVariant) -> Result<(), RecoverError> {
    let setup = ethereum_kzg_settings(PRECOMPUTED);
    let hold = match sidecar {
        BlobTransactionSidecarVariant::Eip4844(of) => blobs(sidecar)
            .and_then(|blobs| setup.verify_blob_kzg_proof_batch(&blobs, &points(&of.commitments), &points(&of.proofs))),
        BlobTransactionSidecarVariant::Eip7594(of) => cells_hold(setup, sidecar, &of.cell_proofs),
    };
    match hold {
        Ok(true) => Ok(()),
        // An error names a point that is none, or a number that is no element of the field.
        Ok(false) | Err(_) => Err(RecoverError::Blobs { what: "a proof" }),
    }
}

fn cells_hold(
    setup: &KzgSettings,
    sidecar: &BlobTransactionSidecarVariant,
    proofs: &[alloy_eips::eip4844::Bytes48],
) -> Result<bool, Error> {
    let mut cells: Vec<Cell> = Vec::with_capacity(proofs.len());
    for blob in blobs(sidecar)? {
        cells.extend_from_slice(&*setup.compute_cells(&blob)?);
    }
    let indices: Vec<u64> = (0..CELLS_PER_EXT_BLOB as u64).cycle().take(cells.len()).collect();
    let commitments = points(sidecar.commitments());
    let commitments: Vec<Bytes48> =
        commitments.into_iter().flat_map(|point| core::iter::repeat_n(point, CELLS_PER_EXT_BLOB)).collect();
    setup.verify_cell_kzg_proof_batch(&commitments, &indices, &cells, &points(proofs))
}

fn blobs(sidecar: &BlobTransactionSidecarVariant) -> Result<Vec<Blob>, Error> {
    sidecar.blobs().iter().map(|blob| Blob::from_bytes(blob.as_slice())).collect()
}

fn points(points: &[alloy_eips::eip4844::Bytes48]) -> Vec<Bytes48> {
    points.iter().map(|point| Bytes48::from(point.0)).collect()
}
