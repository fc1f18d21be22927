//! A block that the engine has executed, handed out transaction by transaction.

use crate::{model::Outcome, seal::BlockInfo};
use alloy_consensus::{ReceiptEnvelope, Transaction as _, TxEnvelope, TxType};
use alloy_eips::{
    eip7685::Requests,
    eip7928::{AccountChanges, BlockAccessIndex},
};
use alloy_evm::{
    Evm, FromRecoveredTx, FromTxWithEncoded, RecoveredTx as _,
    block::{BlockExecutionError, BlockExecutionResult, BlockExecutor, ExecutableTx, GasOutput, StateDB},
    eth::EthTxResult,
};
use alloy_primitives::{Address, B256, Bytes, KECCAK256_EMPTY, U256};
use revm::{
    Database as _, DatabaseCommit as _,
    context_interface::result::{ExecutionResult, HaltReason, ResultAndState},
    primitives::hardfork::SpecId,
    state::{Account, AccountInfo, AccountStatus, Bytecode, EvmState, EvmStorageSlot, TransactionId},
};
use std::collections::BTreeMap;

/// Reason why a block cannot be handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KnownBlockError {
    /// The block has no access list, which holds the changes of each step.
    #[error("the block has no access list: build the engine with `EngineBuilder::with_access_lists`")]
    NoAccessList,
    /// A transaction of the block was skipped.
    #[error("transaction {index} was skipped: only whole blocks are handed out")]
    Skipped {
        /// Position in the block.
        index: usize,
    },
    /// There must be one hash per transaction.
    #[error("there are {hashes} hashes for {txs} transactions")]
    Hashes {
        /// Number of hashes.
        hashes: usize,
        /// Number of transactions.
        txs: usize,
    },
    /// Before Cancun an access list does not tell which storage goes with a destroyed account.
    #[error("the rules of {spec:?} are too old: blocks are handed out from Cancun on")]
    TooOld {
        /// Rules of the block.
        spec: SpecId,
    },
}

/// Changes of one account in one step.
#[derive(Clone, Debug, Default)]
struct Change {
    balance: Option<U256>,
    nonce: Option<u64>,
    code: Option<Bytes>,
    slots: Vec<(U256, U256)>,
}

/// A block that the engine has executed in parallel, as alloy-evm's `BlockExecutor`: results and changes come from the block,
/// and no transaction runs again.
///
/// Any transaction but the next one of the block is an error, so this serves validators, and not builders.
#[derive(Debug)]
pub struct KnownBlock<E> {
    evm: E,
    hashes: Vec<B256>,
    results: Vec<ExecutionResult>,
    known_receipts: Vec<ReceiptEnvelope>,
    /// Changes of each step: before the transactions, of each, and behind them.
    steps: Vec<BTreeMap<Address, Change>>,
    requests: Requests,
    /// Receipts, gas and blob gas of the transactions so far.
    receipts: Vec<ReceiptEnvelope>,
    gas_used: u64,
    blob_gas_used: u64,
}

impl<E: Evm<DB: StateDB, Spec = SpecId>> KnownBlock<E> {
    /// Hands out `block` on the database of `evm`, which holds the state before it. `hashes` are those of its transactions.
    /// O(access list).
    ///
    /// # Errors
    /// The block does not tell enough.
    pub fn new(evm: E, block: &BlockInfo, hashes: Vec<B256>) -> Result<Self, KnownBlockError> {
        let spec = *evm.cfg_env().spec();
        if !spec.is_enabled_in(SpecId::CANCUN) {
            return Err(KnownBlockError::TooOld { spec });
        }
        let list = block.access_list().ok_or(KnownBlockError::NoAccessList)?;
        let result =
            |(index, outcome): (usize, &Outcome)| outcome.result().cloned().ok_or(KnownBlockError::Skipped { index });
        let results = block.outcomes().iter().enumerate().map(result).collect::<Result<Vec<_>, _>>()?;
        if hashes.len() != results.len() {
            return Err(KnownBlockError::Hashes { hashes: hashes.len(), txs: results.len() });
        }
        let steps = steps(list.accounts(), results.len() + 2);
        Ok(Self {
            evm,
            hashes,
            results,
            known_receipts: block.receipts(),
            steps,
            requests: Requests::new(block.requests().unwrap_or_default().to_vec()),
            receipts: Vec::new(),
            gas_used: 0,
            blob_gas_used: 0,
        })
    }

    /// Changes of a step as revm's journal has them.
    fn changes(&mut self, step: usize) -> Result<EvmState, BlockExecutionError> {
        let mut state = EvmState::default();
        let Some(changes) = self.steps.get(step) else { return Ok(state) };
        let db = self.evm.db_mut();
        for (address, change) in changes {
            let before = db.basic(*address).map_err(BlockExecutionError::other)?;
            let existed = before.is_some();
            let before: AccountInfo = before.unwrap_or_default();
            let mut info = before.clone();
            info.balance = change.balance.unwrap_or(info.balance);
            info.nonce = change.nonce.unwrap_or(info.nonce);
            if let Some(code) = &change.code {
                let code = if code.is_empty() { Bytecode::default() } else { Bytecode::new_raw(code.clone()) };
                info.code_hash = if code.is_empty() { KECCAK256_EMPTY } else { code.hash_slow() };
                info.code = Some(code);
            }
            let mut account =
                if existed { Account::from(before) } else { Account::new_not_existing(TransactionId::ZERO) };
            account.info = info;
            account.status |= AccountStatus::Touched;
            if !existed && change.code.is_some() {
                account.status |= AccountStatus::Created;
            }
            for (slot, value) in &change.slots {
                let original = db.storage(*address, *slot).map_err(BlockExecutionError::other)?;
                let slot_change = EvmStorageSlot::new_changed(original, *value, TransactionId::ZERO);
                account.storage.insert(*slot, slot_change);
            }
            state.insert(*address, account);
        }
        Ok(state)
    }

    fn commit_step(&mut self, step: usize) -> Result<(), BlockExecutionError> {
        let changes = self.changes(step)?;
        self.evm.db_mut().commit(changes);
        Ok(())
    }
}

/// Changes of a list by step.
fn steps(list: &[AccountChanges], count: usize) -> Vec<BTreeMap<Address, Change>> {
    let mut steps = vec![BTreeMap::<Address, Change>::new(); count];
    for account in list {
        let mut at = |index: BlockAccessIndex, set: &mut dyn FnMut(&mut Change)| {
            let step = usize::try_from(index.get()).ok().and_then(|index| steps.get_mut(index));
            step.into_iter().for_each(|step| set(step.entry(account.address).or_default()));
        };
        for change in &account.balance_changes {
            at(change.block_access_index, &mut |held| held.balance = Some(change.post_balance));
        }
        for change in &account.nonce_changes {
            at(change.block_access_index, &mut |held| held.nonce = Some(change.new_nonce));
        }
        for change in &account.code_changes {
            at(change.block_access_index, &mut |held| held.code = Some(change.new_code.clone()));
        }
        for slot in &account.storage_changes {
            for change in &slot.changes {
                at(change.block_access_index, &mut |held| held.slots.push((slot.slot, change.new_value)));
            }
        }
    }
    steps
}

impl<E> BlockExecutor for KnownBlock<E>
where
    E: Evm<
            DB: StateDB,
            Spec = SpecId,
            HaltReason = HaltReason,
            Tx: FromRecoveredTx<TxEnvelope> + FromTxWithEncoded<TxEnvelope>,
        >,
{
    type Transaction = TxEnvelope;
    type Receipt = ReceiptEnvelope;
    type Evm = E;
    type Result = EthTxResult<HaltReason, TxType>;

    fn apply_pre_execution_changes(&mut self) -> Result<(), BlockExecutionError> {
        self.commit_step(0)
    }

    fn execute_transaction_without_commit(
        &mut self,
        tx: impl ExecutableTx<Self>,
    ) -> Result<Self::Result, BlockExecutionError> {
        let (_, tx) = tx.into_parts();
        let (tx, index) = (tx.tx(), self.receipts.len());
        let expected = self.hashes.get(index).copied();
        if expected != Some(*tx.tx_hash()) {
            return Err(BlockExecutionError::msg(format!(
                "transaction {} is not the one at position {index} of the block, which is {expected:?}",
                tx.tx_hash()
            )));
        }
        let state = self.changes(index + 1)?;
        let result = ResultAndState { result: self.results[index].clone(), state };
        Ok(EthTxResult { result, blob_gas_used: tx.blob_gas_used().unwrap_or(0), tx_type: tx.tx_type() })
    }

    fn commit_transaction(&mut self, output: Self::Result) -> GasOutput {
        let EthTxResult { result, blob_gas_used, .. } = output;
        let gas_used = result.result.tx_gas_used();
        self.gas_used += gas_used;
        self.blob_gas_used += blob_gas_used;
        self.receipts.extend(self.known_receipts.get(self.receipts.len()).cloned());
        self.evm.db_mut().commit(result.state);
        GasOutput::new(gas_used)
    }

    fn finish(mut self) -> Result<(E, BlockExecutionResult<ReceiptEnvelope>), BlockExecutionError> {
        if self.receipts.len() != self.results.len() {
            let (done, txs) = (self.receipts.len(), self.results.len());
            return Err(BlockExecutionError::msg(format!(
                "the block has {txs} transactions, and {done} were asked for"
            )));
        }
        self.commit_step(self.results.len() + 1)?;
        let Self { evm, receipts, requests, gas_used, blob_gas_used, .. } = self;
        Ok((evm, BlockExecutionResult { receipts, requests, gas_used, blob_gas_used }))
    }

    fn evm_mut(&mut self) -> &mut E {
        &mut self.evm
    }

    fn evm(&self) -> &E {
        &self.evm
    }

    fn receipts(&self) -> &[ReceiptEnvelope] {
        &self.receipts
    }
}
