//! Blob transactions: with blobs in the pool, without them in a block, the same transaction in both.

use super::signed::{encoded, key, recovery, sign};
use alloy_consensus::{Signed, TxEip4844, TxEip4844Variant, TxEip4844WithSidecar, TxEnvelope};
use alloy_eips::{
    eip4844::{Blob, BlobTransactionSidecar, Bytes48, kzg_to_versioned_hash},
    eip7594::{BlobTransactionSidecarEip7594, BlobTransactionSidecarVariant},
};
use alloy_primitives::B256;
use c_kzg::ethereum_kzg_settings;
use phalanx::{
    Form, RecoverError, RecoveryCache, access::Salt, chain::TxRuleError, revm::primitives::hardfork::SpecId,
};
use std::sync::Arc;

fn sidecar(blobs: u8) -> BlobTransactionSidecar {
    let setup = ethereum_kzg_settings(0);
    let (mut all, mut commitments, mut proofs) = (Vec::new(), Vec::new(), Vec::new());
    for number in 1..=blobs {
        // Two elements of the field.
        let mut blob = Blob::ZERO;
        (blob[31], blob[63]) = (number, 1);
        let parsed = c_kzg::Blob::from_bytes(blob.as_slice()).expect("a blob");
        let commitment = setup.blob_to_kzg_commitment(&parsed).expect("a blob").to_bytes();
        let proof = setup.compute_blob_kzg_proof(&parsed, &commitment).expect("a blob").to_bytes();
        commitments.push(Bytes48::from(commitment.into_inner()));
        proofs.push(Bytes48::from(proof.into_inner()));
        all.push(blob);
    }
    BlobTransactionSidecar::new(all, commitments, proofs)
}

/// The same blobs with proofs of their cells.
fn cells(sidecar: &BlobTransactionSidecar) -> BlobTransactionSidecarEip7594 {
    let setup = ethereum_kzg_settings(0);
    let prove = |blob: &Blob| {
        let parsed = c_kzg::Blob::from_bytes(blob.as_slice()).expect("a blob");
        let (_, proofs) = setup.compute_cells_and_kzg_proofs(&parsed).expect("a blob");
        proofs.map(|proof| Bytes48::from(proof.to_bytes().into_inner()))
    };
    let cell_proofs = sidecar.blobs.iter().flat_map(prove).collect();
    BlobTransactionSidecarEip7594 {
        blobs: sidecar.blobs.clone(),
        commitments: sidecar.commitments.clone(),
        cell_proofs,
    }
}

fn hashes(sidecar: &BlobTransactionSidecar) -> Vec<B256> {
    sidecar.commitments.iter().map(|commitment| kzg_to_versioned_hash(commitment.as_slice())).collect()
}

fn plain(blob_versioned_hashes: Vec<B256>) -> Signed<TxEip4844> {
    let tx =
        TxEip4844 { chain_id: 1, gas_limit: 21_000, max_fee_per_gas: 9, blob_versioned_hashes, ..Default::default() };
    sign(key(1), tx)
}

fn in_block(signed: &Signed<TxEip4844>) -> TxEnvelope {
    let tx = TxEip4844Variant::TxEip4844(signed.tx().clone());
    TxEnvelope::Eip4844(Signed::new_unhashed(tx, *signed.signature()))
}

fn with(signed: &Signed<TxEip4844>, sidecar: impl Into<BlobTransactionSidecarVariant>) -> TxEnvelope {
    let sidecar = sidecar.into();
    let tx = TxEip4844WithSidecar { tx: signed.tx().clone(), sidecar };
    TxEnvelope::Eip4844(Signed::new_unhashed(TxEip4844Variant::TxEip4844WithSidecar(tx), *signed.signature()))
}

#[test]
fn blobs_enter_the_pool_and_stay_out_of_blocks() {
    let cache = Arc::new(RecoveryCache::new(1 << 20, Salt::new(1)));
    let cancun = recovery(SpecId::CANCUN).with_cache(Arc::clone(&cache));
    let signed = plain(hashes(&sidecar(2)));
    let (block, pooled) = (encoded(&in_block(&signed)), encoded(&with(&signed, sidecar(2))));

    let error = cancun.recover(Form::Block, &pooled).expect_err("blobs in a block");
    assert!(matches!(error, RecoverError::Rule(TxRuleError::Sidecar)));
    let tx = cancun.recover(Form::Pooled, &pooled).expect("valid");
    assert_eq!((tx.hash(), tx.bytes()), (in_block(&signed).tx_hash(), &block), "as a block holds it");
    assert_eq!(tx.pooled_bytes(), Some(&pooled));
    assert!(tx.size() > 2 * (128 << 10));
    let stats = cache.stats();
    assert_eq!((stats.hits, stats.entries, stats.proven), (0, 1, 0));
    assert!(stats.bytes < 10_000, "blobs are not kept");

    let in_block = cancun.recover(Form::Block, &block).expect("valid");
    assert_eq!((in_block.tx(), in_block.pooled_bytes()), (tx.tx(), None));
    assert_eq!(cache.stats().hits, 1, "the validator recovers no signature");
    let again = cancun.recover(Form::Pooled, &pooled).expect("valid");
    assert_eq!((&*again, cache.stats().hits), (&*tx, 2));
    assert_eq!(cache.stats().proven, 1, "the same proofs are checked once");
    // Known or not, a transaction without its blobs is not for a pool.
    for cancun in [cancun, recovery(SpecId::CANCUN)] {
        assert!(matches!(cancun.recover(Form::Pooled, &block), Err(RecoverError::NoBlobs)));
    }
}

#[test]
fn foreign_blobs_are_refused_and_leave_the_cache_intact() {
    let cache = Arc::new(RecoveryCache::new(1 << 20, Salt::new(1)));
    let cancun = recovery(SpecId::CANCUN).with_cache(cache);
    let signed = plain(hashes(&sidecar(2)));
    for warm in [false, true] {
        let fewer = cancun.recover(Form::Pooled, &encoded(&with(&signed, sidecar(1)))).expect_err("a blob is missing");
        assert!(matches!(fewer, RecoverError::Blobs { what: "their number" }), "{fewer}");
        let mut other = sidecar(2);
        other.commitments.swap(0, 1);
        let other = cancun.recover(Form::Pooled, &encoded(&with(&signed, other))).expect_err("in another order");
        assert!(matches!(other, RecoverError::Blobs { what: "a commitment" }), "{other}");
        let mut other = sidecar(2);
        other.proofs[1] = other.proofs[0];
        let other = cancun.recover(Form::Pooled, &encoded(&with(&signed, other))).expect_err("another proof");
        assert!(matches!(other, RecoverError::Blobs { what: "a proof" }), "{other}");
        if !warm {
            assert!(cancun.recover(Form::Pooled, &encoded(&with(&signed, sidecar(2)))).is_ok());
        }
    }
    let none = plain(vec![]);
    let error = cancun.recover(Form::Block, &encoded(&in_block(&none))).expect_err("no blob");
    assert!(matches!(error, RecoverError::Rule(TxRuleError::BlobCount { blobs: 0 })));
    let many = plain(vec![hashes(&sidecar(1))[0]; 7]);
    let error = recovery(SpecId::OSAKA).recover(Form::Block, &encoded(&in_block(&many))).expect_err("seven");
    assert!(matches!(error, RecoverError::Rule(TxRuleError::BlobCount { blobs: 7 })));
}

#[test]
fn each_hard_fork_takes_its_proofs_alone_and_checks_them() {
    let (whole, of_cells) = (sidecar(2), cells(&sidecar(2)));
    let signed = plain(hashes(&whole));
    let (whole, sound) = (encoded(&with(&signed, whole)), encoded(&with(&signed, of_cells.clone())));
    for spec in [SpecId::CANCUN, SpecId::PRAGUE, SpecId::OSAKA, SpecId::AMSTERDAM] {
        let is_osaka = spec.is_enabled_in(SpecId::OSAKA);
        let (fit, unfit) = if is_osaka { (&sound, &whole) } else { (&whole, &sound) };
        let tx = recovery(spec).recover(Form::Pooled, fit).expect("sound");
        for other in [SpecId::CANCUN, SpecId::OSAKA] {
            assert_eq!(tx.has_proofs_of(other), other.is_enabled_in(SpecId::OSAKA) == is_osaka, "{spec:?}, {other:?}");
        }
        let why = recovery(spec).recover(Form::Pooled, unfit).expect_err("other proofs");
        assert!(matches!(why, RecoverError::Blobs { what: "the proofs that the hard fork demands" }), "{why}");
    }
    let wrong: [fn(&mut BlobTransactionSidecarEip7594); 4] = [
        |of| of.cell_proofs.swap(0, 255),
        |of| of.blobs.swap(0, 1),
        |of| of.cell_proofs[7] = Bytes48::repeat_byte(0x11),
        |of| of.blobs[1] = Blob::repeat_byte(0xff),
    ];
    for (place, change) in wrong.into_iter().enumerate() {
        let mut changed = of_cells.clone();
        change(&mut changed);
        let why = recovery(SpecId::OSAKA).recover(Form::Pooled, &encoded(&with(&signed, changed))).expect_err("wrong");
        assert!(matches!(why, RecoverError::Blobs { what: "a proof" }), "{place}: {why}");
    }
}
