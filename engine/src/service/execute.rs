//! Execution of a candidate: from its bytes to a fork of the chain.

use super::{
    attributes::BlockAttributes,
    codec::{Fees, Tag},
    environment::check as check_environment,
    failure::failure,
    kept::{Facts, Kept},
};
use crate::{
    engine::Engine,
    model::{BlockError, Edit, Error, Hints, Invalid, Outcome, RecoveredBlock},
    recovery::{Form, RecoveredTx, Recovery},
    seal::{BlockInfo, Executed},
    state::{Ancestors, State},
    trie,
};
use alloy_consensus::{EMPTY_OMMER_ROOT_HASH, Header};
use alloy_primitives::{B256, Bytes, U256, keccak256};
use phalanx_engine_api::{self as api, Candidate, CommittedTip, Failure, InvalidCause, RetryCause, TxPolicy, TxStatus};
use revm::{
    context::{BlockEnv, TxEnv},
    context_interface::block::BlobExcessGasAndPrice,
    primitives::hardfork::SpecId,
};
use std::sync::Arc;

/// Number of blocks that BLOCKHASH reaches back.
const REACH: u64 = 256;

/// Reason for which a candidate has no result.
pub(super) enum Failed {
    /// The candidate is invalid.
    Invalid(InvalidCause),
    /// The engine failed.
    Engine(Failure),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        match error {
            Error::Environment { .. } | Error::TooWide(_) => Self::Invalid(InvalidCause::Environment),
            error => Self::Engine(failure(&error)),
        }
    }
}

impl From<BlockError> for Failed {
    fn from(error: BlockError) -> Self {
        match error {
            BlockError::InvalidTransaction { index, .. } => {
                Self::Invalid(InvalidCause::Transaction { index: index as u32 })
            }
            BlockError::GasLimit { .. } => Self::Invalid(InvalidCause::GasLimit),
            BlockError::AccessList { .. } => Self::Invalid(InvalidCause::AccessList),
            BlockError::Engine(error) => error.into(),
            // The chain's contracts do not permit such a block.
            BlockError::SystemContract { .. } | BlockError::Deposit { .. } => Self::Invalid(InvalidCause::Environment),
            // The other errors cannot come from our own hints.
            error => Self::Engine(Failure::Fatal(api::FatalCause::Corrupt(error.to_string()))),
        }
    }
}

/// Ancestors of a child of the block with `hash` at `height`.
pub(super) fn named(ancestors: &Ancestors, height: u64, hash: B256) -> Ancestors {
    let mut ancestors = ancestors.clone();
    ancestors.insert(height, hash);
    ancestors.retain(|at, _| at + REACH > height);
    ancestors
}

/// A block of a service before it runs: its rules, and the fields that follow from its parent.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    pub(super) spec: SpecId,
    /// Header without outcome, if the chain's blocks are executed as a whole.
    pub(super) header: Option<Header>,
    pub(super) attributes: BlockAttributes,
    /// Maximum number of blobs.
    pub(super) max_blobs: u64,
    /// Fields for the child's fees, without gas and blob gas used.
    pub(super) fees: Fees,
}

impl Frame {
    /// Derives the frame from environment, attributes and parent.
    pub(super) fn new(
        engine: &Engine,
        env: &api::BlockEnv,
        attributes: &Bytes,
        parent: &Kept,
    ) -> Result<Self, InvalidCause> {
        let (rules, timestamp) = (&engine.rules, env.timestamp_ms / 1000);
        let attributes = BlockAttributes::decode(attributes).ok_or(InvalidCause::Environment)?;
        let plain = environment(env);
        let spec = rules.plain(&plain).spec;
        let mut fees = Fees { timestamp, gas_limit: env.gas_limit, base_fee: env.base_fee, ..Fees::default() };
        if !rules.follow_chain() {
            let is_plain = attributes == BlockAttributes::default();
            return if is_plain {
                Ok(Self { spec, header: None, attributes, max_blobs: 0, fees })
            } else {
                Err(InvalidCause::Environment)
            };
        }
        check_environment(rules, env, &parent.fees)?;
        let from = |since: SpecId| spec.is_enabled_in(since);
        let params = rules.chain.blob_params(timestamp).filter(|_| from(SpecId::CANCUN));
        let excess = match &params {
            Some(_) => {
                let Fees { excess_blob_gas, blob_gas_used, base_fee, .. } = parent.fees;
                let next = rules.chain.next_excess_blob_gas(timestamp, excess_blob_gas, blob_gas_used, base_fee);
                Some(next.ok_or(InvalidCause::Environment)?)
            }
            None => None,
        };
        fees.excess_blob_gas = excess.unwrap_or_default();
        if !attributes.has_short_extra_data() {
            return Err(InvalidCause::Environment);
        }
        let is_edited = attributes.edits.is_some();
        if is_edited && !(rules.chain.parameters().development && attributes.have_sound_codes()) {
            return Err(InvalidCause::Environment);
        }
        let is_early = (!from(SpecId::SHANGHAI) && !attributes.withdrawals.is_empty())
            || (!from(SpecId::CANCUN) && !attributes.parent_beacon_block_root.is_zero())
            || (!from(SpecId::AMSTERDAM) && attributes.slot_number.is_some());
        if is_early || !from(SpecId::MERGE) {
            // Without proof of stake consensus is not the engine's caller.
            return Err(InvalidCause::Environment);
        }
        let withdrawals_root = alloy_consensus::proofs::calculate_withdrawals_root(&attributes.withdrawals);
        let header = Header {
            parent_hash: parent.hash,
            ommers_hash: EMPTY_OMMER_ROOT_HASH,
            beneficiary: env.beneficiary,
            number: env.height,
            timestamp,
            gas_limit: env.gas_limit,
            mix_hash: env.prevrandao,
            base_fee_per_gas: Some(env.base_fee),
            withdrawals_root: from(SpecId::SHANGHAI).then_some(withdrawals_root),
            blob_gas_used: excess.map(|_| 0),
            excess_blob_gas: excess,
            parent_beacon_block_root: excess.map(|_| attributes.parent_beacon_block_root),
            slot_number: from(SpecId::AMSTERDAM).then_some(attributes.slot_number.unwrap_or(env.height)),
            extra_data: attributes.extra_data.clone().unwrap_or_default(),
            ..Header::default()
        };
        let max_blobs = params.map_or(0, |params| params.max_blob_count);
        Ok(Self { spec, header: Some(header), attributes, max_blobs, fees })
    }

    /// Edits before the transactions.
    pub(super) fn edits(&self) -> Arc<[Edit]> {
        self.attributes.edits.iter().flatten().cloned().collect()
    }

    /// Withdrawals, from Shanghai on.
    pub(super) fn withdrawals(&self) -> Option<&[alloy_eips::eip4895::Withdrawal]> {
        self.spec.is_enabled_in(SpecId::SHANGHAI).then_some(&self.attributes.withdrawals)
    }
}

/// Candidate under execution.
pub(super) struct Executing<'a> {
    pub(super) candidate: &'a Candidate,
    pub(super) parent: &'a Kept,
    pub(super) frame: Frame,
    /// Committed blocks whose rows are in no tag yet.
    pub(super) rows: Vec<CommittedTip>,
    /// Status of every transaction; `None` for executed ones until their results are known.
    pub(super) statuses: Vec<Option<TxStatus>>,
    /// Transactions that are executed.
    pub(super) txs: Vec<Arc<RecoveredTx>>,
}

/// Executes a candidate on its parent and adds the fork. `rows` are the committed blocks that are in no tag yet.
pub(super) fn execute(
    engine: &mut Engine,
    recovery: &Recovery,
    candidate: &Candidate,
    parent: &Kept,
    rows: Vec<CommittedTip>,
) -> Result<Kept, Failed> {
    let executed = try_execute(engine, recovery, candidate, parent, rows);
    sound(engine, executed)
}

/// A result of the engine, unless the remote state could not be read meanwhile: then it is worth nothing.
pub(super) fn sound<T>(engine: &Engine, result: Result<T, Failed>) -> Result<T, Failed> {
    match engine.state.take_remote_failure() {
        Some(_) => Err(Failed::Engine(Failure::Retry(RetryCause::Remote))),
        None => result,
    }
}

fn try_execute(
    engine: &mut Engine,
    recovery: &Recovery,
    candidate: &Candidate,
    parent: &Kept,
    rows: Vec<CommittedTip>,
) -> Result<Kept, Failed> {
    engine.checkout(parent.view.block())?;
    engine.state.set_ancestors(Arc::clone(&parent.ancestors));
    let frame =
        Frame::new(engine, candidate.env(), candidate.payload().attributes(), parent).map_err(Failed::Invalid)?;
    engine.set_edits(frame.edits());
    let executing = decode(engine, recovery, candidate, parent, frame, rows)?;
    let policy = match candidate.policy() {
        TxPolicy::Strict => Invalid::Refuse,
        TxPolicy::SkipInvalid => Invalid::Skip,
    };
    let txs: Vec<TxEnv> = executing.txs.iter().map(|tx| tx.tx().clone()).collect();
    let executed = match &executing.frame.header {
        Some(header) => {
            let payload = RecoveredBlock { header, txs: &txs, ommers: &[], withdrawals: executing.frame.withdrawals() };
            execute_hinted(engine, &payload, candidate.hints(), policy)?
        }
        None => engine.execute_given(&environment(candidate.env()), &txs, policy)?,
    };
    // What is not sound gets no fork: nothing would discard it.
    sound(engine, Ok(()))?;
    Ok(keep(engine, executing, executed)?)
}

/// Executes a whole block on the block access list that came with it, or by predictions. No hint changes a result: the candidate
/// does not commit to the list, so where a block departs from it, or cannot be executed on it, it is executed again without.
fn execute_hinted(
    engine: &mut Engine,
    payload: &RecoveredBlock<'_>,
    list: Option<&Bytes>,
    policy: Invalid,
) -> Result<Executed, BlockError> {
    // A block with skipped transactions has no list.
    if let Some(rlp) = list.filter(|_| policy == Invalid::Refuse) {
        let hints = Hints::AccessList { rlp, hash: keccak256(rlp) };
        match engine.execute_open_block(payload, hints, policy) {
            Err(BlockError::AccessList { .. } | BlockError::Engine(_)) => {}
            executed => return executed,
        }
        // What could not be read may have been the list's alone.
        engine.state.take_remote_failure();
    }
    engine.execute_open_block(payload, Hints::Predict, policy)
}

/// Names and hashes a block, and adds the fork.
pub(super) fn keep(engine: &mut Engine, executing: Executing<'_>, mut executed: Executed) -> Result<Kept, Error> {
    let Executing { candidate, parent, frame, rows, mut statuses, txs } = executing;
    let (id, height) = (candidate.id(), candidate.env().height);
    fill(&mut statuses, executed.block());
    let statuses: Arc<[TxStatus]> = statuses.into_iter().map(|status| status.unwrap_or(TxStatus::Skipped)).collect();
    let header = frame.header.map(|mut header| {
        executed.block().outcome(B256::ZERO).write_to(&mut header);
        let txs: Vec<&Bytes> = included(candidate.payload(), &statuses).collect();
        header.transactions_root = engine.workers().install(|| trie::strings_root(&txs));
        header
    });
    // The state binds its own block, whose hash it cannot hold.
    let digest = header.as_ref().map_or(B256::ZERO, Header::hash_slow);
    State::put_last(&mut executed.changes, height, id.0, digest);
    // A whole block has put its parent's hash with its header.
    if let Some(below) = height.checked_sub(1).filter(|_| header.is_none()) {
        State::put_hash(&mut executed.changes, below, parent.hash);
    }
    let merkleized = engine.merkleize(executed)?;
    let sealed = merkleized.outcome();
    let hashes: Arc<[B256]> = if txs.len() == statuses.len() {
        txs.iter().map(|tx| *tx.hash()).collect()
    } else {
        candidate.payload().txs().iter().map(|tx| api::transaction_hash(tx)).collect()
    };
    let outcome = api::ExecOutcome {
        id,
        state_root: sealed.state_root,
        receipts_root: sealed.receipts_root.unwrap_or_default(),
        transactions_root: api::transactions_root(&hashes, &statuses),
        gas_used: sealed.gas_used,
        txs: statuses,
    };
    let header = header.map(|header| Header { state_root: sealed.state_root, ..header });
    let hash = header.as_ref().map_or(id.0, Header::hash_slow);
    let fees = Fees { gas_used: sealed.gas_used, blob_gas_used: sealed.blob_gas_used, ..frame.fees };
    let covered = rows.last().map_or(parent.covered, |row| row.height);
    let tag = Tag { hash, outcome: outcome.clone(), fees, covered, rows, hashes: Arc::clone(&hashes) };
    let log_bytes = merkleized.prepared.block.log_bytes() as u64;
    let (block, info) = engine.add_fork(merkleized, tag.write())?;
    let view = engine.state.store.snapshot(block)?;
    let memory = engine.fork_memory(block).unwrap_or_default() as u64;
    let ancestors = Arc::new(named(&parent.ancestors, height, hash));
    let facts = Some(Arc::new(Facts::of(&txs, info.access_list())));
    let (info, header) = (Some(Arc::new(info)), header.map(Arc::new));
    let payload = Some(Arc::clone(candidate.payload()));
    let outcome = Some(outcome);
    Ok(Kept { view, ancestors, hash, outcome, info, facts, header, payload, hashes, fees, covered, log_bytes, memory })
}

/// Transactions of a payload that were executed, in order: those of the block.
pub(super) fn included<'p>(payload: &'p api::Payload, statuses: &'p [TxStatus]) -> impl Iterator<Item = &'p Bytes> {
    let all = payload.txs().iter().zip(statuses);
    all.filter(|(_, status)| **status != TxStatus::Skipped).map(|(tx, _)| tx)
}

/// Decodes the transactions. Returns those that can be executed, and a status for every other.
fn decode<'a>(
    engine: &Engine,
    recovery: &Recovery,
    candidate: &'a Candidate,
    parent: &'a Kept,
    frame: Frame,
    rows: Vec<CommittedTip>,
) -> Result<Executing<'a>, Failed> {
    let recovery = recovery.clone().with_spec(frame.spec);
    let decoded = recovery.recover_batch(engine.workers(), Form::Block, candidate.payload().txs());
    let strict = candidate.policy() == TxPolicy::Strict;
    let (mut txs, mut statuses) = (Vec::with_capacity(decoded.len()), Vec::with_capacity(decoded.len()));
    let (mut left, mut blobs_left) = (candidate.env().gas_limit, frame.max_blobs);
    for (tx, index) in decoded.into_iter().zip(0..) {
        // Blobs are counted before execution: a block may not carry more than its maximum.
        let blobs = |tx: &Arc<RecoveredTx>| tx.tx().blob_hashes.len() as u64;
        match tx.ok().filter(|tx| blobs(tx) <= blobs_left) {
            Some(tx) if strict => {
                blobs_left -= blobs(&tx);
                txs.push(tx);
            }
            None if strict => return Err(Failed::Invalid(InvalidCause::Transaction { index })),
            // Gas limits decide before execution which transactions fit.
            Some(tx) if tx.tx().gas_limit <= left => {
                left -= tx.tx().gas_limit;
                blobs_left -= blobs(&tx);
                txs.push(tx);
            }
            Some(_) | None => {
                statuses.push(Some(TxStatus::Skipped));
                continue;
            }
        }
        statuses.push(None);
    }
    Ok(Executing { candidate, parent, frame, rows, statuses, txs })
}

/// Sets the statuses of executed transactions.
fn fill(statuses: &mut [Option<TxStatus>], block: &BlockInfo) {
    let open = statuses.iter_mut().filter(|status| status.is_none());
    for (status, outcome) in open.zip(block.outcomes()) {
        *status = Some(match outcome {
            Outcome::Skipped(_) => TxStatus::Skipped,
            outcome if outcome.is_success() => TxStatus::Succeeded,
            Outcome::Executed(_) => TxStatus::Reverted,
        });
    }
}

/// Block environment of the EVM.
pub(super) fn environment(env: &api::BlockEnv) -> BlockEnv {
    BlockEnv {
        number: U256::from(env.height),
        timestamp: U256::from(env.timestamp_ms / 1000),
        beneficiary: env.beneficiary,
        gas_limit: env.gas_limit,
        basefee: env.base_fee,
        difficulty: U256::ZERO,
        prevrandao: Some(env.prevrandao),
        blob_excess_gas_and_price: Some(BlobExcessGasAndPrice { excess_blob_gas: 0, blob_gasprice: 1 }),
        ..BlockEnv::default()
    }
}
