//! Blobs of transactions that wait in the pool, for a consensus client that proposes them or lacks them.

use crate::chain::Chain;
use alloy_consensus::{EthereumTxEnvelope, TxEip4844WithSidecar};
use alloy_eips::{
    Decodable2718 as _,
    eip4844::{BlobAndProofV1, BlobAndProofV2, BlobTransactionSidecar},
    eip7594::{BlobTransactionSidecarEip7594, BlobTransactionSidecarVariant},
};
use alloy_primitives::{B256, Bytes, keccak256};
use std::collections::{HashMap, HashSet};

/// First byte of a blob transaction.
const BLOB: u8 = 3;

/// True for a blob transaction.
pub(super) fn is_blob(tx: &Bytes) -> bool {
    tx.first() == Some(&BLOB)
}

/// Blobs of a payload's transactions, in order: those with a proof each, and those with proofs of cells.
#[derive(Debug, Default)]
pub(super) struct Blobs {
    pub(super) with_proofs: Vec<BlobTransactionSidecar>,
    pub(super) with_cells: Vec<BlobTransactionSidecarEip7594>,
}

/// A transaction of a pool, with proofs of blobs or of cells.
type Pooled = EthereumTxEnvelope<TxEip4844WithSidecar<BlobTransactionSidecarVariant>>;

/// Blobs of a transaction as its sender has encoded it.
fn sidecar(pooled: &Bytes) -> Option<BlobTransactionSidecarVariant> {
    match Pooled::decode_2718_exact(pooled).ok()? {
        Pooled::Eip4844(tx) => Some(tx.into_parts().0.sidecar),
        _ => None,
    }
}

/// Blobs of the transactions of a payload; `None` if the pool does not have all of them.
pub(super) fn of_payload(chain: &Chain, txs: &[Bytes]) -> Option<Blobs> {
    let mut blobs = Blobs::default();
    for tx in txs.iter().filter(|tx| is_blob(tx)) {
        let hash = keccak256(tx);
        let pooled = chain.service.with_pool(|pool| pool.get(&hash)?.recovered().pooled_bytes().cloned())?;
        match sidecar(&pooled)? {
            BlobTransactionSidecarVariant::Eip4844(sidecar) => blobs.with_proofs.push(sidecar),
            BlobTransactionSidecarVariant::Eip7594(sidecar) => blobs.with_cells.push(sidecar),
        }
    }
    Some(blobs)
}

/// Blobs of the pool by hash, of those that are wanted.
fn find(chain: &Chain, wanted: &[B256]) -> Vec<BlobTransactionSidecarVariant> {
    let wanted: HashSet<_> = wanted.iter().collect();
    let pooled: Vec<Bytes> = chain.service.with_pool(|pool| {
        let has = pool.with_blobs().filter(|tx| tx.tx().blob_hashes.iter().any(|hash| wanted.contains(hash)));
        has.filter_map(|tx| tx.recovered().pooled_bytes().cloned()).collect()
    });
    pooled.iter().filter_map(sidecar).collect()
}

/// Blobs with a proof each, in the order of their hashes; `None` for one that the pool lacks.
pub(crate) fn with_proofs(chain: &Chain, wanted: &[B256]) -> Vec<Option<BlobAndProofV1>> {
    let mut found = HashMap::new();
    for sidecar in find(chain, wanted) {
        if let BlobTransactionSidecarVariant::Eip4844(sidecar) = sidecar {
            let hashes: Vec<_> = sidecar.versioned_hashes().collect();
            let blobs = sidecar.blobs.into_iter().zip(sidecar.proofs);
            found
                .extend(hashes.into_iter().zip(blobs.map(|(blob, proof)| BlobAndProofV1 { blob: blob.into(), proof })));
        }
    }
    wanted.iter().map(|hash| found.get(hash).cloned()).collect()
}

/// Blobs with proofs of their cells, in the order of their hashes; `None` if the pool lacks one.
pub(crate) fn with_cells(chain: &Chain, wanted: &[B256]) -> Option<Vec<BlobAndProofV2>> {
    let mut found = HashMap::new();
    for sidecar in find(chain, wanted) {
        if let BlobTransactionSidecarVariant::Eip7594(sidecar) = sidecar {
            let hashes: Vec<_> = sidecar.versioned_hashes().collect();
            let cells = sidecar.cell_proofs.len() / sidecar.blobs.len().max(1);
            let proofs = sidecar.cell_proofs.chunks(cells.max(1)).map(<[_]>::to_vec);
            let blobs = sidecar.blobs.into_iter().zip(proofs.collect::<Vec<_>>());
            let blobs = blobs.map(|(blob, proofs)| BlobAndProofV2 { blob: blob.into(), proofs });
            found.extend(hashes.into_iter().zip(blobs));
        }
    }
    wanted.iter().map(|hash| found.get(hash).cloned()).collect()
}
