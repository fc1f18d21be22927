//! The cache changes only the time that recovery takes.

use super::signed::{dynamic, encoded, legacy, mirrored, recovery, samples};
use alloy_consensus::{Signed, TxEnvelope};
use alloy_eips::Encodable2718 as _;
use alloy_primitives::Bytes;
use phalanx::{
    Form, RecoverError, Recovery, RecoveryCache,
    access::Salt,
    chain::{ChainSpec, TxRuleError},
    parascheduler::Workers,
    revm::primitives::hardfork::SpecId,
};
use std::sync::Arc;

const PLENTY: usize = 128 << 20;

fn cached(bytes: usize) -> (Recovery, Arc<RecoveryCache>) {
    let cache = Arc::new(RecoveryCache::new(bytes, Salt::new(3)));
    (recovery(SpecId::OSAKA).with_cache(Arc::clone(&cache)), cache)
}

#[test]
fn known_transactions_are_shared_between_pool_and_validator() {
    let (recovery, cache) = cached(PLENTY);
    let bytes: Vec<Bytes> = samples().iter().map(encoded).collect();
    let pooled: Vec<_> = bytes.iter().map(|b| recovery.recover(Form::Pooled, b).expect("valid")).collect();
    let stats = cache.stats();
    assert_eq!((stats.hits, stats.misses, stats.entries), (0, 6, 6));
    let workers = Workers::new(2).expect("threads");
    let block = recovery.recover_batch(&workers, Form::Block, &bytes);
    for (pooled, block) in pooled.iter().zip(block) {
        assert!(Arc::ptr_eq(pooled, &block.expect("valid")), "the same value, without a recovery");
    }
    let stats = cache.stats();
    assert_eq!((stats.hits, stats.misses, stats.entries, stats.evicted), (6, 6, 6, 0));
    let size: usize = pooled.iter().map(|tx| tx.size()).sum();
    assert!(stats.bytes > size && stats.bytes < size + 6 * 1_000);
}

#[test]
fn a_hit_obeys_the_rules_of_its_caller() {
    let (osaka, cache) = cached(PLENTY);
    let frontier = osaka.clone().with_spec(SpecId::FRONTIER);
    let TxEnvelope::Legacy(signed) = legacy(None) else { unreachable!("a legacy transaction") };
    let mirror: TxEnvelope = Signed::new_unhashed(signed.tx().clone(), mirrored(signed.signature())).into();
    let mirror = encoded(&mirror);
    assert!(frontier.recover(Form::Block, &mirror).is_ok());
    for _ in 0..2 {
        let error = osaka.recover(Form::Block, &mirror).expect_err("high s");
        assert!(matches!(error, RecoverError::Rule(TxRuleError::HighS)));
    }
    assert!(frontier.recover(Form::Block, &mirror).is_ok());
    let foreign = ChainSpec::mainnet().with_chain_id(5);
    let foreign = Recovery::new(foreign, SpecId::OSAKA).with_cache(Arc::clone(&cache));
    let bytes = encoded(&dynamic(0, Bytes::new()));
    assert!(osaka.recover(Form::Block, &bytes).is_ok());
    let error = foreign.recover(Form::Block, &bytes).expect_err("another chain");
    assert!(matches!(error, RecoverError::Rule(TxRuleError::ChainId { .. })));
    assert_eq!(cache.stats().entries, 2);
}

/// Bytes that nearly equal those of a cached transaction neither find nor change it.
#[test]
fn a_warm_cache_answers_like_a_cold_one_for_every_flipped_bit() {
    let (warm, cache) = cached(PLENTY);
    for envelope in samples() {
        let bytes = envelope.encoded_2718();
        let original = warm.recover(Form::Block, &bytes).expect("valid");
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let ours = warm.recover(Form::Block, &flipped);
            if bit % 7 == 0 {
                let cold = recovery(SpecId::OSAKA).recover(Form::Block, &flipped);
                assert_eq!(format!("{ours:?}"), format!("{cold:?}"), "bit {bit}");
            }
            assert!(ours.ok().is_none_or(|tx| tx.hash() != original.hash()), "bit {bit}");
        }
        assert!(Arc::ptr_eq(&original, &warm.recover(Form::Block, &bytes).expect("valid")));
    }
    assert_eq!(cache.stats().evicted, 0);
}

#[test]
fn the_cache_is_bounded_and_keeps_requested_entries() {
    let (recovery, cache) = cached(256 << 10);
    let send = |nonce| recovery.recover(Form::Pooled, &encoded(&dynamic(nonce, Bytes::new()))).expect("valid");
    let kept: Vec<_> = (0..64).map(send).collect();
    for nonce in 64..2_000 {
        let _ = send(nonce);
        if nonce % 20 == 0 {
            for (nonce, first) in (0..).zip(&kept) {
                assert!(Arc::ptr_eq(first, &send(nonce)), "an entry that is requested again and again");
            }
        }
        assert!(cache.stats().bytes <= 256 << 10);
    }
    let stats = cache.stats();
    assert!(stats.evicted > 1_000 && stats.entries + stats.evicted as usize == 2_000, "{stats:?}");
    // A transaction larger than its share is recovered and not kept; failures are not kept either.
    let before = cache.stats();
    let large = encoded(&dynamic(0, vec![1; 64 << 10].into()));
    assert!(recovery.recover(Form::Pooled, &large).is_ok());
    assert!(recovery.recover(Form::Pooled, &large[..300]).is_err());
    assert_eq!((cache.stats().entries, cache.stats().evicted), (before.entries, before.evicted));
}

#[test]
fn threads_that_share_a_small_cache_agree_with_a_single_thread() {
    let (shared, cache) = cached(64 << 10);
    let bytes: Vec<Bytes> = (0..120).map(|nonce| encoded(&dynamic(nonce, Bytes::new()))).collect();
    let truth: Vec<_> =
        bytes.iter().map(|bytes| recovery(SpecId::OSAKA).recover(Form::Block, bytes).expect("valid")).collect();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (shared, bytes, truth) = (&shared, &bytes, &truth);
            scope.spawn(move || {
                for step in 0..400 {
                    let at = (step * (2 * thread + 1) + thread * 31) % bytes.len();
                    assert_eq!(shared.recover(Form::Block, &bytes[at]).expect("valid"), truth[at]);
                }
            });
        }
    });
    let stats = cache.stats();
    assert_eq!(stats.hits + stats.misses, 1_600);
    assert!(stats.bytes <= 64 << 10 && stats.evicted > 0, "{stats:?}");
}
