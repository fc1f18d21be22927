//! Stored blocks as the types of JSON-RPC.

use super::error::RpcError;
use crate::store::{Block, Entry, Head};
use alloy_consensus::{
    Eip658Value, Receipt, ReceiptEnvelope, ReceiptWithBloom, Transaction as _, TxEnvelope, transaction::Recovered,
};
use alloy_eips::{Decodable2718 as _, eip4895::Withdrawals};
use alloy_primitives::{B256, U256, logs_bloom};
use alloy_rlp::Encodable as _;
use alloy_rpc_types_eth::{
    Block as RpcBlock, BlockTransactions, Header as RpcHeader, Log, Transaction, TransactionReceipt,
};
use phalanx::{BlockAttributes, chain::ChainSpec};

/// Decodes a stored transaction.
pub(super) fn envelope(entry: &Entry) -> Result<TxEnvelope, RpcError> {
    TxEnvelope::decode_2718_exact(&entry.bytes)
        .map_err(|error| RpcError::internal(format!("a stored transaction cannot be decoded: {error}")))
}

/// A stored transaction at its place.
pub(super) fn transaction(head: &Head, index: u64, entry: &Entry) -> Result<Transaction, RpcError> {
    let envelope = envelope(entry)?;
    let effective = envelope.effective_gas_price(head.header.base_fee_per_gas);
    Ok(Transaction {
        inner: Recovered::new_unchecked(envelope, entry.sender),
        block_hash: Some(head.hash),
        block_number: Some(head.header.number),
        transaction_index: Some(index),
        effective_gas_price: Some(effective),
        block_timestamp: Some(head.header.timestamp),
    })
}

/// Logs of a stored transaction at their places.
pub(super) fn logs<'b>(head: &'b Head, index: u64, entry: &'b Entry) -> impl Iterator<Item = Log> + 'b {
    (entry.first_log..).zip(&entry.logs).map(move |(place, log)| Log {
        inner: log.clone(),
        block_hash: Some(head.hash),
        block_number: Some(head.header.number),
        block_timestamp: Some(head.header.timestamp),
        transaction_hash: Some(entry.hash),
        transaction_index: Some(index),
        log_index: Some(place),
        removed: false,
    })
}

/// All logs of a block, in order.
pub(super) fn all_logs(block: &Block) -> impl Iterator<Item = Log> + '_ {
    (0..).zip(&block.entries).flat_map(|(index, entry)| logs(&block.head, index, entry))
}

/// Logs of a block that is on the chain no more.
pub(super) fn removed_logs(block: &Block) -> impl Iterator<Item = Log> + '_ {
    all_logs(block).map(|log| Log { removed: true, ..log })
}

/// Receipt of a stored transaction.
pub(super) fn receipt(
    chain: &ChainSpec,
    head: &Head,
    index: u64,
    entry: &Entry,
) -> Result<TransactionReceipt, RpcError> {
    let envelope = envelope(entry)?;
    let receipt = Receipt {
        status: Eip658Value::Eip658(entry.succeeded),
        cumulative_gas_used: entry.cumulative_gas,
        logs: logs(head, index, entry).collect::<Vec<_>>(),
    };
    let with_bloom = ReceiptWithBloom { receipt, logs_bloom: logs_bloom(&entry.logs) };
    let blob_gas_used = envelope.blob_gas_used();
    let blob_gas_price = blob_gas_used.and_then(|_| blob_fee(chain, head));
    Ok(TransactionReceipt {
        inner: ReceiptEnvelope::from_typed(envelope.tx_type(), with_bloom),
        transaction_hash: entry.hash,
        transaction_index: Some(index),
        block_hash: Some(head.hash),
        block_number: Some(head.header.number),
        gas_used: entry.gas_used,
        effective_gas_price: envelope.effective_gas_price(head.header.base_fee_per_gas),
        blob_gas_used,
        blob_gas_price,
        from: entry.sender,
        to: envelope.to(),
        // A creation that fails has an address as well, where no contract is.
        contract_address: envelope.is_create().then(|| entry.sender.create(envelope.nonce())),
    })
}

/// Price of blob gas in a block, in wei.
pub(super) fn blob_fee(chain: &ChainSpec, head: &Head) -> Option<u128> {
    let params = chain.blob_params(head.header.timestamp)?;
    head.header.excess_blob_gas.map(|excess| params.calc_blob_fee(excess))
}

/// Length of a stored block as RLP, in bytes.
fn size(block: &Block, withdrawals: Option<&Withdrawals>) -> usize {
    // In a body a legacy transaction is a list, any other a string.
    let item = |entry: &Entry| match entry.bytes.first() {
        Some(first) if *first < 0xc0 => entry.bytes.length(),
        _ => entry.bytes.len(),
    };
    let list = |payload: usize| payload + alloy_rlp::length_of_length(payload);
    let txs = list(block.entries.iter().map(item).sum());
    let withdrawals = withdrawals.map_or(0, |withdrawals| withdrawals.length());
    list(block.head.header.length() + txs + list(0) + withdrawals)
}

/// A header with its name.
pub(super) fn header(head: &Head) -> RpcHeader {
    RpcHeader { hash: head.hash, inner: head.header.clone(), total_difficulty: None, size: None }
}

/// A block with whole transactions, or with their hashes.
pub(super) fn block(block: &Block, full: bool) -> Result<RpcBlock, RpcError> {
    let Block { head, entries } = block;
    let transactions = if full {
        let txs = (0..).zip(entries).map(|(index, entry)| transaction(head, index, entry));
        BlockTransactions::Full(txs.collect::<Result<_, _>>()?)
    } else {
        BlockTransactions::Hashes(entries.iter().map(|entry| entry.hash).collect::<Vec<B256>>())
    };
    let withdrawals = match head.header.withdrawals_root {
        Some(_) => {
            let attributes = BlockAttributes::decode(&head.attributes);
            let attributes = attributes.ok_or_else(|| RpcError::internal("stored attributes cannot be decoded"))?;
            Some(Withdrawals::new(attributes.withdrawals))
        }
        None => None,
    };
    let size = Some(U256::from(size(block, withdrawals.as_ref())));
    let header = RpcHeader { size, ..header(head) };
    Ok(RpcBlock { header, uncles: Vec::new(), transactions, withdrawals })
}

/// Prices of stored transactions above the base fee, in wei per gas, with the gas that each used.
pub(super) fn tips(block: &Block) -> Result<Vec<(u128, u64)>, RpcError> {
    let base = block.head.header.base_fee_per_gas;
    let tip = |entry: &Entry| {
        let envelope = envelope(entry)?;
        let tip = envelope.effective_gas_price(base).saturating_sub(base.unwrap_or_default().into());
        Ok((tip, entry.gas_used))
    };
    block.entries.iter().map(tip).collect()
}
