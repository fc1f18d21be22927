//! Blob transactions: with blobs in the pool, without them in a block, the same transaction in both.

use super::signed::{encoded, key, recovery, sign};
use alloy_consensus::{Signed, TxEip4844, TxEip4844Variant, TxEip4844WithSidecar, TxEnvelope};
use alloy_eips::{
    eip4844::{Blob, BlobTransactionSidecar, Bytes48, kzg_to_versioned_hash},
    eip7594::BlobTransactionSidecarVariant,
};
use alloy_primitives::B256;
use phalanx::{
    Form, RecoverError, RecoveryCache, access::Salt, chain::TxRuleError, revm::primitives::hardfork::SpecId,
};
use std::sync::Arc;

fn sidecar(blobs: u8) -> BlobTransactionSidecar {
    let commitments: Vec<Bytes48> = (0..blobs).map(Bytes48::repeat_byte).collect();
    let blobs = vec![Blob::repeat_byte(1); usize::from(blobs)];
    BlobTransactionSidecar::new(blobs, commitments.clone(), commitments)
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

fn with(signed: &Signed<TxEip4844>, sidecar: BlobTransactionSidecar) -> TxEnvelope {
    let sidecar = BlobTransactionSidecarVariant::Eip4844(sidecar);
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
    assert_eq!((stats.hits, stats.entries), (0, 1));
    assert!(stats.bytes < 10_000, "blobs are not kept");

    let in_block = cancun.recover(Form::Block, &block).expect("valid");
    assert_eq!((in_block.tx(), in_block.pooled_bytes()), (tx.tx(), None));
    assert_eq!(cache.stats().hits, 1, "the validator recovers no signature");
    let again = cancun.recover(Form::Pooled, &pooled).expect("valid");
    assert_eq!((&*again, cache.stats().hits), (&*tx, 2));
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
        if !warm {
            assert!(cancun.recover(Form::Pooled, &encoded(&with(&signed, sidecar(2)))).is_ok());
        }
    }
    let none = plain(vec![]);
    let error = cancun.recover(Form::Block, &encoded(&in_block(&none))).expect_err("no blob");
    assert!(matches!(error, RecoverError::Rule(TxRuleError::BlobCount { blobs: 0 })));
    let many = plain(hashes(&sidecar(7)));
    let error = recovery(SpecId::OSAKA).recover(Form::Block, &encoded(&in_block(&many))).expect_err("seven");
    assert!(matches!(error, RecoverError::Rule(TxRuleError::BlobCount { blobs: 7 })));
}
