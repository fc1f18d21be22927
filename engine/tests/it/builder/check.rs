//! Requirements on every built block.

use super::envs;
use crate::kit::{Body, Case, Hint, Oracle, Way};
use phalanx::{
    Budget, Built, Engine, Outcome, Reason, Template,
    revm::{
        context::TxEnv,
        context_interface::result::ExecutionResult,
        primitives::{B256, Bytes},
    },
};

/// A block, and its results on the builder's engine.
pub(super) struct Made {
    pub(super) body: Body,
    pub(super) outcomes: Vec<Outcome>,
    receipts_root: Option<B256>,
    requests: Option<Vec<Bytes>>,
    access_list: Bytes,
    pub(super) root: B256,
}

/// The block as a validator receives it.
pub(super) fn body(template: &Template, built: &Built) -> Body {
    let Template { ommers, withdrawals, .. } = template.clone();
    let header = built.header.clone().expect("a whole block");
    Body { header, txs: envs(built), ommers, withdrawals }
}

/// Commits a block on its builder's engine.
pub(super) fn commit(engine: &mut Engine, template: &Template, built: Built) -> Made {
    let body = body(template, &built);
    let merkleized = engine.merkleize(built.executed).expect("a root");
    let committed = engine.commit(merkleized).expect("a commit");
    committed.write.wait().expect("durable");
    let block = committed.block;
    assert!(block.order().iter().copied().eq(0..body.txs.len() as u32));
    assert_eq!(body.header.gas_used, block.gas_used());
    let (receipts_root, requests) = (block.receipts_root(), block.requests().map(<[Bytes]>::to_vec));
    assert_eq!(block.requests_hash(), body.header.requests_hash);
    let access_list = block.access_list().expect("the engine keeps them").rlp().clone();
    let (_, outcomes) = block.into_outcomes();
    Made { body, outcomes, receipts_root, requests, access_list, root: committed.state_root }
}

/// Asserts that every block is valid and ends as on its builder: in order on 1, 2, 4 and 8 threads with each artefact,
/// sequentially, and on stock revm. `case` is the chain before them.
pub(super) fn replays(case: &Case, made: &[Made]) {
    let blocks = made.iter().map(|made| made.body.clone()).collect();
    let case = Case { blocks, ..case.clone() };
    let given = |threads| [Hint::Predict, Hint::Exceptions, Hint::AccessList].map(|hint| Way::dag(threads, hint));
    let ways = [1, 2, 4, 8].into_iter().flat_map(given).chain([Way::dag(2, Hint::Perfect), Way::stm(4, None)]);
    let proof = case.check(&ways.collect::<Vec<_>>()).unwrap_or_else(|what| panic!("{what}\n{case}"));
    assert_eq!(proof.blocks.len(), made.len());
    for (number, made) in made.iter().enumerate() {
        let truth = proof.blocks[number].as_ref().unwrap_or_else(|what| panic!("block {number}: {what}\n{case}"));
        assert_eq!(made.outcomes, truth.outcomes, "block {number}\n{case}");
        assert_eq!(made.receipts_root, truth.receipts_root, "block {number}\n{case}");
        assert_eq!(made.requests, truth.requests, "block {number}\n{case}");
        assert_eq!(Some(&made.access_list), truth.access_list.as_ref(), "block {number}\n{case}");
        assert_eq!(made.root, truth.root, "block {number}\n{case}");
    }
}

/// Asserts that every candidate is in the block, dropped or waiting, exactly once.
pub(super) fn complete(built: &Built, offered: usize) {
    let dropped = built.dropped.iter().map(|dropped| &dropped.candidate);
    let mut all = super::ranks(built.txs.iter().chain(&built.waiting).chain(dropped));
    all.sort_unstable();
    assert!(all.into_iter().eq(0..offered as u64), "every candidate is accounted for, once");
}

/// Asserts that every drop has its cause. A dropped transaction was invalid at its place for the given reason, or has
/// no room even now, if `budget` bounds the whole block. `oracle` is the state before the block.
pub(super) fn causes(case: &Case, oracle: &Oracle, template: &Template, built: &Built, budget: Option<Budget>) {
    let body = body(template, built);
    let blobs = case.rules.blob_params(body.header.timestamp).map_or(0, |params| params.max_blob_gas_per_block());
    let left = budget.map(|budget| {
        let used = held(built);
        Budget {
            gas: budget.gas.min(body.header.gas_limit) - used.gas,
            state_gas: budget.state_gas.min(body.header.gas_limit) - used.state_gas,
            blob_gas: budget.blob_gas.min(blobs) - used.blob_gas,
            bytes: budget.bytes - used.bytes,
            txs: budget.txs - used.txs,
        }
    });
    let short = |needs: &u64, then: &u64, now: fn(&Budget) -> u64| {
        assert!(needs > then);
        assert!(left.as_ref().is_none_or(|left| now(left) <= *then), "remaining room only shrinks");
    };
    let was_refused = |reason: &str, tx: &TxEnv| {
        let mut oracle = oracle.clone();
        oracle.begin(&body.header);
        let refuses = |oracle: &Oracle| oracle.clone().transact(tx).is_err_and(|what| what.contains(reason));
        let mut found = refuses(&oracle);
        for earlier in &body.txs {
            oracle.transact(earlier).expect("valid");
            found |= refuses(&oracle);
        }
        assert!(found, "{tx:?} was never refused with {reason}");
    };
    for dropped in &built.dropped {
        let tx = dropped.candidate.tx.env();
        match &dropped.reason {
            Reason::Invalid(reason) => was_refused(&format!("reason: {reason:?} }}"), tx),
            Reason::Gas { needs, left } => {
                assert!([tx.gas_limit, tx.gas_limit.min(1 << 24)].contains(needs), "{needs} of {}", tx.gas_limit);
                short(needs, left, |left| left.gas.min(left.state_gas));
            }
            Reason::BlobGas { needs, left } => short(needs, left, |left| left.blob_gas),
            Reason::Bytes { needs, left } => short(needs, left, |left| left.bytes),
            Reason::Count => assert!(left.is_none_or(|left| left.txs == 0)),
            Reason::Behind { nonce } => {
                assert!(tx.nonce > *nonce);
                was_refused(&format!("NonceTooHigh {{ tx: {}", tx.nonce), tx);
            }
            other => panic!("{other}"),
        }
    }
}

/// True from Amsterdam on: gas is of execution and of state growth.
fn is_split(built: &Built) -> bool {
    built.header.as_ref().is_some_and(|header| header.slot_number.is_some())
}

/// Gas that a transaction takes of its block: of execution and of state growth, which are one sum until Osaka.
fn gas_of(built: &Built, outcome: &Outcome) -> [u64; 2] {
    match outcome.result().map(ExecutionResult::gas).filter(|_| is_split(built)) {
        Some(gas) => {
            let state = gas.state_gas_spent_final();
            [(gas.total_gas_spent() - state).max(gas.floor_gas()), state]
        }
        None => [outcome.gas_used(), 0],
    }
}

/// Room that the block takes.
pub(super) fn held(built: &Built) -> Budget {
    let all = built.executed.block().outcomes().iter().map(|outcome| gas_of(built, outcome));
    let [gas, state_gas] = all.fold([0, 0], |sum, gas| [sum[0] + gas[0], sum[1] + gas[1]]);
    assert_eq!(built.executed.block().gas_used(), gas.max(state_gas));
    Budget {
        gas,
        state_gas,
        blob_gas: built.txs.iter().map(|candidate| candidate.tx.env().blob_hashes.len() as u64 * 131_072).sum(),
        bytes: built.txs.iter().map(|candidate| candidate.tx.size()).sum(),
        txs: built.txs.len() as u64,
    }
}

/// Asserts that the block keeps its limits, wherever it was stopped.
pub(super) fn within(built: &Built, budget: Budget) {
    let mut left = [budget.gas, budget.state_gas];
    for (candidate, (_, outcome)) in built.txs.iter().zip(built.executed.block().transactions()) {
        let gas_limit = candidate.tx.env().gas_limit;
        let needed = if is_split(built) { [gas_limit.min(1 << 24), gas_limit] } else { [gas_limit, 0] };
        assert!(needed[0] <= left[0] && needed[1] <= left[1], "admitted by its limit");
        let gas = gas_of(built, outcome);
        left = [left[0] - gas[0], left[1] - gas[1]];
    }
    let held = held(built);
    assert!(held.blob_gas <= budget.blob_gas && held.bytes <= budget.bytes && held.txs <= budget.txs, "{held:?}");
}
