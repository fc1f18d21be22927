//! Blobs with commitments and proofs of the ceremony's setup, and transactions that carry them.

use super::wallet::{CHAIN, Call, FEE, GAS, sign};
use alloy_consensus::{Signed, TxEip4844, TxEip4844Variant, TxEip4844WithSidecar, TxEnvelope};
use alloy_eips::{
    Encodable2718 as _,
    eip2930::AccessList,
    eip4844::{Blob, BlobTransactionSidecar, kzg_to_versioned_hash},
    eip7594::{BlobTransactionSidecarEip7594, BlobTransactionSidecarVariant},
};
use alloy_primitives::Bytes;
use c_kzg::{BYTES_PER_BLOB, ethereum_kzg_settings};

/// Point of a proof or a commitment.
type Point = [u8; 48];

/// Blobs of a transaction.
#[derive(Clone, Debug)]
pub(crate) struct Blobs {
    pub(crate) blobs: Vec<Box<[u8; BYTES_PER_BLOB]>>,
    pub(crate) commitments: Vec<Point>,
    pub(crate) proofs: Vec<Point>,
    are_of_cells: bool,
}

impl Blobs {
    /// A blob of zeros, whose commitment and proofs are the point at infinity.
    pub(crate) fn zero() -> Self {
        let mut infinity = [0; 48];
        infinity[0] = 0xc0;
        let blobs = vec![Box::new([0; BYTES_PER_BLOB])];
        Self { blobs, commitments: vec![infinity], proofs: vec![infinity; 128], are_of_cells: true }
    }

    /// Different blobs with proofs of their cells, as from Osaka on.
    pub(crate) fn cells(count: u8) -> Self {
        let setup = ethereum_kzg_settings(0);
        Self::with(count, true, |blob, _| {
            let (_, proofs) = setup.compute_cells_and_kzg_proofs(blob).expect("a blob");
            proofs.iter().map(|proof| proof.to_bytes().into_inner()).collect()
        })
    }

    /// The same blobs with a proof each, as before Osaka.
    pub(crate) fn whole(count: u8) -> Self {
        let setup = ethereum_kzg_settings(0);
        Self::with(count, false, |blob, commitment| {
            let proof = setup.compute_blob_kzg_proof(blob, &(*commitment).into()).expect("a blob");
            vec![proof.to_bytes().into_inner()]
        })
    }

    fn with(count: u8, are_of_cells: bool, prove: impl Fn(&c_kzg::Blob, &Point) -> Vec<Point>) -> Self {
        let setup = ethereum_kzg_settings(0);
        let (mut commitments, mut proofs) = (Vec::new(), Vec::new());
        let blobs = (1..=count).map(|number| {
            let mut blob = Box::new([0; BYTES_PER_BLOB]);
            // Two elements of the field.
            (blob[31], blob[63]) = (number, 1);
            let parsed = c_kzg::Blob::from_bytes(&*blob).expect("a blob");
            let commitment = setup.blob_to_kzg_commitment(&parsed).expect("a blob").to_bytes().into_inner();
            proofs.extend(prove(&parsed, &commitment));
            commitments.push(commitment);
            blob
        });
        let blobs = blobs.collect();
        Self { blobs, commitments, proofs, are_of_cells }
    }

    fn sidecar(&self) -> BlobTransactionSidecarVariant {
        let blobs = self.blobs.iter().map(|blob| Blob::from_slice(&**blob)).collect();
        let points = |points: &[Point]| points.iter().map(|point| (*point).into()).collect();
        let (commitments, proofs) = (points(&self.commitments), points(&self.proofs));
        if self.are_of_cells {
            BlobTransactionSidecarVariant::Eip7594(BlobTransactionSidecarEip7594 {
                blobs,
                commitments,
                cell_proofs: proofs,
            })
        } else {
            BlobTransactionSidecarVariant::Eip4844(BlobTransactionSidecar { blobs, commitments, proofs })
        }
    }
}

/// A signed transaction with blobs, as a node gets it.
pub(crate) fn with_blobs(call: &Call, blobs: &Blobs) -> Bytes {
    let tx = TxEip4844 {
        chain_id: CHAIN,
        nonce: call.nonce,
        gas_limit: GAS,
        max_fee_per_gas: FEE,
        max_priority_fee_per_gas: call.tip,
        to: call.to.to().copied().unwrap_or_default(),
        value: alloy_primitives::U256::from(call.value),
        access_list: AccessList::default(),
        blob_versioned_hashes: blobs.commitments.iter().map(|point| kzg_to_versioned_hash(point)).collect(),
        max_fee_per_blob_gas: 10_000_000_000,
        input: call.data.clone(),
    };
    let (tx, signature, hash) = sign(call.from, tx).into_parts();
    let with = TxEip4844Variant::TxEip4844WithSidecar(TxEip4844WithSidecar { tx, sidecar: blobs.sidecar() });
    TxEnvelope::Eip4844(Signed::new_unchecked(with, signature, hash)).encoded_2718().into()
}
