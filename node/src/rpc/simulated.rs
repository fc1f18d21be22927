//! A simulated block: the calls run one after the other, and make a header, receipts and logs.

use super::{
    api::Api,
    calls::{self, CallState},
    error::{RpcError, halt, simulated},
    simulate::{Budget, Options, Wanted},
    traced::reward,
    transfers::Transfers,
};
use ::phalanx::{
    chain::{PreStep, requests_hash},
    revm::{
        DatabaseCommit as _, DatabaseRef as _,
        context::{BlockEnv, TxEnv},
        context_interface::{
            block::BlobExcessGasAndPrice,
            result::{ExecutionResult, InvalidTransaction, ResultAndState},
        },
        handler::SYSTEM_ADDRESS,
        primitives::{TxKind, hardfork::SpecId},
    },
    simulate::{SimulateError, Simulator},
};
use alloy_consensus::{
    Eip658Value, Header, Receipt, ReceiptEnvelope, ReceiptWithBloom, Transaction as _, TxEnvelope,
    proofs::{calculate_receipt_root, calculate_transaction_root},
    transaction::Recovered,
};
use alloy_eips::eip4895::Withdrawals;
use alloy_primitives::{Address, B256, Bytes, Log as Emitted, Signature, U64, U256, logs_bloom};
use alloy_rlp::Encodable as _;
use alloy_rpc_types_eth::{
    Block as RpcBlock, BlockTransactions, Header as RpcHeader, Log, Transaction, TransactionRequest,
};
use serde::Serialize;

/// Gas of a call of the protocol (EIP-4788, 7002), with what a transaction pays before it runs.
const SYSTEM_GAS: u64 = 30_000_000 + 100_000;

const NONCE_TOO_LOW: i32 = -38010;
const NONCE_TOO_HIGH: i32 = -38011;
const FEE_TOO_LOW: i32 = -38012;
const INTRINSIC_GAS: i32 = -38013;
const INSUFFICIENT_FUNDS: i32 = -38014;
const BLOCK_GAS: i32 = -38015;
const INITCODE_SIZE: i32 = -38025;
const HALTED: i32 = -32015;
const REVERTED: i32 = 3;

/// Result of a call.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Ran {
    return_data: Bytes,
    logs: Vec<Log>,
    gas_used: U64,
    /// Gas before refunds.
    max_used_gas: U64,
    status: U64,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Failed>,
}

/// Reason for which a call fails.
#[derive(Clone, Debug, Serialize)]
struct Failed {
    message: String,
    code: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Bytes>,
}

/// A block that was simulated.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) header: Header,
    txs: Vec<(TxEnvelope, Address)>,
    receipts: Vec<ReceiptEnvelope>,
    calls: Vec<Ran>,
}

impl Block {
    /// Runs the calls of a block, and gives it with the state after it.
    pub(super) fn run(
        api: &Api,
        header: Header,
        wanted: Wanted,
        mut state: CallState,
        options: Options,
        budget: &mut Budget,
    ) -> Result<(Self, CallState), RpcError> {
        let (rules, mut env) = api.chain.rules(&header);
        if let Some(fee) = wanted.env.blob_base_fee {
            let blob_gasprice =
                fee.try_into().map_err(|_| RpcError::invalid("block override \"blobBaseFee\" is too large"))?;
            let excess_blob_gas = header.excess_blob_gas.unwrap_or_default();
            env.blob_excess_gas_and_price = Some(BlobExcessGasAndPrice { excess_blob_gas, blob_gasprice });
        }
        let rules = calls::moved_precompiles(rules, &wanted.state)?;
        for (address, account) in &wanted.state {
            calls::override_account(&mut state, *address, account)?;
        }
        for (number, hash) in wanted.env.block_hash.iter().flatten() {
            state.cache.block_hashes.insert(U256::from(*number), *hash);
        }
        let spec = api.chain.spec.spec(&header);
        let simulator = Simulator::new(rules, env.clone(), state);
        let block = Self { header, txs: Vec::new(), receipts: Vec::new(), calls: Vec::new() };
        let mut running = Running { api, block, simulator, env, options, logs: 0 };
        for step in api.chain.spec.pre_steps(&running.block.header, spec) {
            if let PreStep::SystemCall { to, data } = step {
                running.system_call(to, Bytes::from(data.0))?;
            }
        }
        for call in wanted.calls {
            budget.until.check()?;
            running.call(call, budget)?;
        }
        for (address, amount) in api.chain.spec.post_credits(&running.block.header, &[], Some(&wanted.withdrawals)) {
            let state = running.simulator.state_mut();
            let mut info = state.basic_ref(address).map_err(unread)?.unwrap_or_default();
            info.balance = info.balance.saturating_add(amount);
            state.insert_account_info(address, info);
        }
        running.close(spec)?;
        Ok((running.block, running.simulator.into_state()))
    }

    /// Length of the encoded block.
    fn size(&self, withdrawals: &Withdrawals) -> usize {
        let body = alloy_consensus::BlockBody {
            transactions: self.txs.iter().map(|(envelope, _)| envelope.clone()).collect(),
            ommers: Vec::new(),
            withdrawals: self.header.withdrawals_root.map(|_| withdrawals.clone()),
        };
        alloy_consensus::Block { header: self.header.clone(), body }.length()
    }

    /// The block as it is shown, with the results of its calls, whose logs have places now.
    pub(super) fn show(self, full: bool, withdrawals: Withdrawals) -> (RpcBlock, Vec<Ran>) {
        let size = U256::from(self.size(&withdrawals));
        let Self { header, txs, mut calls, .. } = self;
        let hash = header.hash_slow();
        calls.iter_mut().flat_map(|call| &mut call.logs).for_each(|log| log.block_hash = Some(hash));
        let transactions = if full {
            let show = |(index, (envelope, from)): (u64, (TxEnvelope, Address))| Transaction {
                effective_gas_price: Some(envelope.effective_gas_price(header.base_fee_per_gas)),
                inner: Recovered::new_unchecked(envelope, from),
                block_hash: Some(hash),
                block_number: Some(header.number),
                transaction_index: Some(index),
                block_timestamp: Some(header.timestamp),
            };
            BlockTransactions::Full((0..).zip(txs).map(show).collect())
        } else {
            BlockTransactions::Hashes(txs.iter().map(|(envelope, _)| *envelope.tx_hash()).collect())
        };
        let withdrawals = header.withdrawals_root.map(|_| withdrawals);
        let header = RpcHeader { hash, inner: header, total_difficulty: None, size: Some(size) };
        (RpcBlock { header, uncles: Vec::new(), transactions, withdrawals }, calls)
    }
}

fn unread(error: ::phalanx::SnapshotError) -> RpcError {
    RpcError::from(crate::chain::StateUnread::from(error))
}

/// A block whose calls run.
struct Running<'a> {
    api: &'a Api,
    block: Block,
    simulator: Simulator<CallState>,
    env: BlockEnv,
    options: Options,
    /// Number of logs so far.
    logs: u64,
}

impl Running<'_> {
    /// Runs a call of the protocol, and gives its output. Without a contract it does nothing.
    fn system_call(&mut self, to: Address, data: Bytes) -> Result<Bytes, RpcError> {
        let tx = TxEnv {
            caller: SYSTEM_ADDRESS,
            kind: TxKind::Call(to),
            data,
            gas_limit: SYSTEM_GAS,
            gas_price: 0,
            ..TxEnv::default()
        };
        // It has this gas whatever the block's limit is.
        let limit = core::mem::replace(&mut self.simulator.env_mut().gas_limit, u64::MAX);
        let called = self.simulator.call(&tx).map_err(|error| simulated(SYSTEM_ADDRESS, &error));
        self.simulator.env_mut().gas_limit = limit;
        let called = called?;
        let mut changes = called.state;
        changes.retain(|address, _| *address == to);
        self.simulator.state_mut().commit(changes);
        Ok(called.result.into_output().unwrap_or_default())
    }

    /// Runs a call as the next transaction of the block.
    fn call(&mut self, request: TransactionRequest, budget: &mut Budget) -> Result<(), RpcError> {
        let (tx, envelope) = self.transaction(request, budget)?;
        let transfers = Transfers::default();
        let (ran, transfers) = self.simulator.inspect(&tx, transfers).map_err(|error| refused(tx.caller, &error))?;
        let mut ran = ResultAndState { result: ran.result, state: ran.state };
        reward(&mut ran, self.simulator.state(), &self.env, &tx)?;
        self.simulator.state_mut().commit(ran.state);
        let used = ran.result.tx_gas_used();
        budget.gas = budget.gas.saturating_sub(used);
        self.block.header.gas_used += used;
        if let Some(blobs) = &mut self.block.header.blob_gas_used {
            *blobs += envelope.blob_gas_used().unwrap_or_default();
        }
        let logs = if ran.result.is_success() { ran.result.logs().to_vec() } else { Vec::new() };
        // Transfers of ether are no logs of the chain.
        let shown = if self.options.traces_transfers { transfers.into_logs() } else { logs.clone() };
        let receipt = Receipt {
            status: Eip658Value::Eip658(ran.result.is_success()),
            cumulative_gas_used: self.block.header.gas_used,
            logs,
        };
        let logs_bloom = logs_bloom(&receipt.logs);
        let receipt = ReceiptEnvelope::from_typed(envelope.tx_type(), ReceiptWithBloom { receipt, logs_bloom });
        self.block.header.logs_bloom |= logs_bloom;
        self.block.receipts.push(receipt);
        let shown = self.shown(&ran.result, &shown, *envelope.tx_hash());
        self.block.calls.push(shown);
        self.block.txs.push((envelope, tx.caller));
        Ok(())
    }

    /// A call with geth's defaults, for the EVM and as the transaction that it would be.
    fn transaction(&self, mut request: TransactionRequest, budget: &Budget) -> Result<(TxEnv, TxEnvelope), RpcError> {
        let header = &self.block.header;
        let caller = request.from.unwrap_or_default();
        let account = self.simulator.state().basic_ref(caller).map_err(unread)?;
        let nonce = account.map_or(0, |account| account.nonce);
        let left = header.gas_limit.saturating_sub(header.gas_used);
        let gas = request.gas.unwrap_or(left);
        if gas > left {
            let what = format!("block gas limit reached: {} >= {}", header.gas_used, header.gas_limit);
            return Err(RpcError::of(BLOCK_GAS, what));
        }
        if budget.gas == 0 {
            return Err(RpcError::limit(format!("the calls use more than {} gas", self.api.limits.gas_cap)));
        }
        request.gas = Some(gas.min(budget.gas));
        request.nonce = Some(request.nonce.unwrap_or(nonce));
        if request.gas_price.is_none() {
            request.max_fee_per_gas = Some(request.max_fee_per_gas.unwrap_or_default());
            request.max_priority_fee_per_gas = Some(request.max_priority_fee_per_gas.unwrap_or_default());
        }
        let chain = self.api.chain.spec.chain_id();
        let tx = calls::transaction(request.clone(), chain, &self.env, budget.gas)?;
        if self.options.validates {
            valid(&tx, nonce, self.env.basefee)?;
        }
        let unsigned = TransactionRequest {
            from: None,
            to: Some(tx.kind),
            chain_id: Some(chain),
            input: tx.data.clone().into(),
            value: Some(tx.value),
            ..request
        };
        let built = unsigned.build_consensus_tx().map_err(|why| RpcError::invalid(why.error))?;
        Ok((tx, built.into_envelope(Signature::new(U256::ZERO, U256::ZERO, false))))
    }

    fn shown(&mut self, result: &ExecutionResult, logs: &[Emitted], hash: B256) -> Ran {
        let (header, index) = (&self.block.header, self.block.calls.len() as u64);
        let first = self.logs;
        let log = |(place, log): (u64, &Emitted)| Log {
            inner: log.clone(),
            block_hash: None,
            block_number: Some(header.number),
            block_timestamp: Some(header.timestamp),
            transaction_hash: Some(hash),
            transaction_index: Some(index),
            log_index: Some(place),
            removed: false,
        };
        let logs: Vec<Log> = (first..).zip(logs).map(log).collect();
        self.logs += logs.len() as u64;
        let (return_data, error) = match result {
            ExecutionResult::Success { output, .. } => (output.data().clone(), None),
            ExecutionResult::Revert { output, .. } => {
                let message = RpcError::reverted(output).to_string();
                (Bytes::new(), Some(Failed { message, code: REVERTED, data: Some(output.clone()) }))
            }
            ExecutionResult::Halt { reason, .. } => {
                (Bytes::new(), Some(Failed { message: halt(reason), code: HALTED, data: None }))
            }
        };
        let gas = result.gas();
        Ran {
            return_data,
            logs,
            gas_used: U64::from(result.tx_gas_used()),
            max_used_gas: U64::from(gas.total_gas_spent().max(gas.floor_gas())),
            status: U64::from(u64::from(result.is_success())),
            error,
        }
    }

    /// Sums the block up: the requests to consensus, and the roots of the body.
    fn close(&mut self, spec: SpecId) -> Result<(), RpcError> {
        if spec.is_enabled_in(SpecId::PRAGUE) {
            let logs = self.block.receipts.iter().flat_map(ReceiptEnvelope::logs);
            let deposits = self.api.chain.spec.deposit_requests(logs);
            let deposits = deposits.map_err(|error| RpcError::server(error.to_string()))?;
            let mut requests: Vec<Bytes> = deposits.into_iter().collect();
            for (kind, to) in self.api.chain.spec.request_calls(spec) {
                let output = self.system_call(*to, Bytes::new())?;
                if !output.is_empty() {
                    requests.push([&[*kind][..], &output].concat().into());
                }
            }
            self.block.header.requests_hash = Some(requests_hash(requests));
        }
        let txs: Vec<&TxEnvelope> = self.block.txs.iter().map(|(envelope, _)| envelope).collect();
        self.block.header.transactions_root = calculate_transaction_root(&txs);
        self.block.header.receipts_root = calculate_receipt_root(&self.block.receipts);
        Ok(())
    }
}

/// Checks what a simulation otherwise leaves unchecked: nonce and price.
fn valid(tx: &TxEnv, nonce: u64, base_fee: u64) -> Result<(), RpcError> {
    let (from, given) = (tx.caller, tx.nonce);
    if given < nonce {
        let what = format!("nonce too low: address {from}, tx: {given} state: {nonce}");
        return Err(RpcError::of(NONCE_TOO_LOW, what));
    }
    if given > nonce {
        let what = format!("nonce too high: address {from}, tx: {given} state: {nonce}");
        return Err(RpcError::of(NONCE_TOO_HIGH, what));
    }
    if nonce == u64::MAX {
        let gas = tx.gas_limit;
        return Err(RpcError::internal(format!(
            "err: nonce has max value: address {from}, nonce: {nonce} (supplied gas {gas})"
        )));
    }
    if tx.gas_price < base_fee.into() {
        let what = format!(
            "max fee per gas less than block base fee: address {from}, maxFeePerGas: {}, baseFee: {base_fee}",
            tx.gas_price
        );
        return Err(RpcError::of(FEE_TOO_LOW, what));
    }
    Ok(())
}

/// Error of a call that no block may contain: it ends the simulation, with a code of its own.
fn refused<E: core::fmt::Display>(sender: Address, error: &SimulateError<E>) -> RpcError {
    let plain = simulated(sender, error);
    let SimulateError::Invalid(reason) = error else { return plain };
    let code = match reason {
        InvalidTransaction::LackOfFundForMaxFee { .. } => INSUFFICIENT_FUNDS,
        InvalidTransaction::CallGasCostMoreThanGasLimit { .. }
        | InvalidTransaction::GasFloorMoreThanGasLimit { .. } => INTRINSIC_GAS,
        InvalidTransaction::GasPriceLessThanBasefee => FEE_TOO_LOW,
        InvalidTransaction::CreateInitCodeSizeLimit => INITCODE_SIZE,
        _ => return plain,
    };
    RpcError::of(code, plain.to_string())
}
