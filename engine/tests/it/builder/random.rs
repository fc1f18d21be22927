//! Random worlds: for any offers, cuts and stops, the block is valid, and every transaction left out has a reason that
//! holds. Seeds are those of [`crate::fuzz`].

use super::{NEVER, check};
use crate::{
    fuzz::{fuzz, world},
    kit::{Case, Oracle, Way},
};
use phalanx::{
    AccessListFault, BlockError, Budget, Builder, Built, CandidateTx, Executor, Target, Template, revm::context::TxEnv,
};
use rand::{Rng as _, SeedableRng as _, seq::SliceRandom as _};
use rand_chacha::ChaCha8Rng;
use std::sync::atomic::{AtomicUsize, Ordering};

#[test]
fn random_offers_become_valid_blocks() {
    fuzz(|seed| {
        let mut rng = ChaCha8Rng::seed_from_u64(seed ^ 0x6275_696c_6400);
        let case = world::case(&mut rng);
        blocks(&case, &mut rng)
    });
}

/// Builds a block from the transactions of each block of `case`, one after the other.
fn blocks(case: &Case, rng: &mut ChaCha8Rng) -> usize {
    let threads = [1, 2, 4, 8][rng.random_range(0..4)];
    let executor = [Executor::Dag, Executor::Dag, Executor::Dag, Executor::Sequential][rng.random_range(0..4)];
    let seed = rng.random_bool(0.5).then(|| rng.random());
    let way = Way { seed, threads, executor, ..Way::sequential() };
    let mut engine = case.engine(&way);
    let mut builder = Builder::new(&engine);
    let mut oracle = Oracle::new(case);
    let mut made = Vec::new();
    for body in &case.blocks {
        let template = Template {
            header: body.header.clone(),
            ommers: body.ommers.clone(),
            withdrawals: body.withdrawals.clone(),
        };
        let txs = spoiled(&body.txs, rng);
        let budget = budget(rng);
        let offered: Vec<_> = (0..).zip(&txs).map(|(rank, tx)| CandidateTx::new(tx.clone(), rank)).collect();
        let forced = if rng.random_bool(0.3) { rng.random_range(0..3.min(offered.len() + 1)) } else { 0 };
        let (forced, mut rest) = offered.split_at(forced);
        let bound = Some(budget).filter(|_| forced.is_empty());
        if rng.random_bool(0.3) && !rest.is_empty() {
            let (ahead, later) = rest.split_at(rng.random_range(0..rest.len()));
            builder.prepare(&engine, &Target::Whole(Box::new(template.clone())), ahead.iter().cloned());
            assert_eq!(builder.prepared(), ahead.len());
            rest = later;
        }
        let target = Target::Whole(Box::new(template.clone()));
        let mut job = match builder.open(&mut engine, target, budget, forced.iter().cloned()) {
            // Not even the empty block fits so small a gas limit.
            Err(error) if is_too_long(&error) => break,
            opened => opened.expect("a valid empty block"),
        };
        let parts = rng.random_range(1..5);
        for part in rest.chunks(rest.len().div_ceil(parts).max(1)) {
            if rng.random_bool(0.3) {
                let calls = AtomicUsize::new(rng.random_range(0..12));
                let soon = || calls.try_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1)).is_err();
                job.extend(part.iter().cloned(), &soon).expect("execution");
            } else {
                job.offer(part.iter().cloned());
                while job.step(NEVER).expect("execution") {
                    if rng.random_bool(0.2) {
                        // The best block is valid on its own.
                        let best = job.best();
                        if is_whole(&best) {
                            check::causes(case, &oracle, &template, &best, bound);
                        }
                    }
                }
                assert_eq!(job.progress().waiting, 0);
            }
        }
        let stopped = job.progress().waiting > 0 && rng.random_bool(0.5);
        if !stopped {
            let progress = job.extend([], NEVER).expect("execution");
            assert_eq!(progress.waiting, 0);
        }
        let built = job.finish();
        check::complete(&built, txs.len());
        if is_whole(&built) {
            assert!(stopped || built.waiting.is_empty());
            check::causes(case, &oracle, &template, &built, bound);
        }
        if forced.is_empty() {
            check::within(&built, budget);
        }
        let one = check::commit(&mut engine, &template, built);
        oracle.block(&one.body).expect("a valid block");
        made.push(one);
    }
    check::replays(case, &made);
    made.len()
}

/// True unless the block is the empty one, since the transactions' own would touch more than its small gas limit permits.
fn is_whole(built: &Built) -> bool {
    assert!(
        built.failure.as_ref().is_none_or(|error| is_too_long(error) && built.txs.is_empty()),
        "{:?}",
        built.failure
    );
    built.failure.is_none()
}

const fn is_too_long(error: &BlockError) -> bool {
    matches!(error, BlockError::AccessList { what: AccessListFault::TooLong { .. }, .. })
}

/// Transactions that a pool would not offer: duplicates, foreign orders, arbitrary nonces.
fn spoiled(txs: &[TxEnv], rng: &mut ChaCha8Rng) -> Vec<TxEnv> {
    let mut txs = txs.to_vec();
    for _ in 0..rng.random_range(0..4) {
        if txs.is_empty() {
            break;
        }
        let mut tx = txs[rng.random_range(0..txs.len())].clone();
        match rng.random_range(0..3) {
            0 => tx.nonce += rng.random_range(0..3),
            1 => tx.gas_limit = rng.random_range(20_000..40_000_000),
            _ => {}
        }
        txs.insert(rng.random_range(0..=txs.len()), tx);
    }
    if rng.random_bool(0.2) {
        txs.shuffle(rng);
    }
    txs
}

fn budget(rng: &mut ChaCha8Rng) -> Budget {
    let mut budget = Budget::default();
    if rng.random_bool(0.4) {
        budget.gas = rng.random_range(0..2_000_000);
    }
    if rng.random_bool(0.2) {
        budget.state_gas = rng.random_range(0..2_000_000);
    }
    if rng.random_bool(0.2) {
        budget.txs = rng.random_range(0..12);
    }
    if rng.random_bool(0.3) {
        budget.blob_gas = rng.random_range(0..4) * 131_072;
    }
    budget
}
