//! A payload as it arrives: everything that is judged without its ancestors.

use super::{
    blobs::is_blob,
    proposed::{Broken, Proposed},
    status::Status,
};
use crate::chain::Chain;
use alloy_consensus::{Transaction as _, TxEnvelope, constants::MAXIMUM_EXTRA_DATA_SIZE};
use alloy_eips::Decodable2718 as _;
use alloy_primitives::{B256, Bytes};
use alloy_rpc_types_engine::{ExecutionPayload, ExecutionPayloadSidecar};

/// Version of the method that a payload came by, as far as its answers differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// `newPayloadV1` has a state of its own for a wrong hash.
    First,
    Later,
}

/// A payload without regard to its ancestors.
#[derive(Clone, Debug)]
pub(crate) enum Received {
    /// The payload's hash is that of its header, and its blobs are those that the client expects. A transaction may still have no signer.
    Sound(Box<Proposed>),
    /// The answer to a payload that no ancestor makes valid.
    Broken(Status),
}

/// Checks a payload, in time linear in its bytes and on all threads. What is recovered is kept for the execution.
///
/// A payload with its own hash is sound even if it breaks a rule, and is remembered so that its descendants are invalid with it. The one
/// exception is a base fee of 2^64 and more, which no header here can hold: it is broken each time, and its descendants have no ancestor.
pub(crate) fn receive(
    chain: &Chain,
    mut payload: ExecutionPayload,
    sidecar: &ExecutionPayloadSidecar,
    by: By,
) -> Received {
    let blobs = blob_hashes(payload.transactions());
    // The client's own list is wrong, and not the payload.
    if blobs.as_ref().is_ok_and(|actual| sidecar.versioned_hashes().is_some_and(|expected| expected != actual)) {
        return Received::Broken(Status::broken("the blobs of the transactions are not the expected ones".into()));
    }
    let hash = payload.block_hash();
    let list = payload.block_access_list().cloned();
    let root = chain.service.transactions_root(payload.transactions());
    // A header with too much extra data has a hash as well.
    let extra = core::mem::take(&mut payload.as_v1_mut().extra_data);
    let mut block = match payload.into_block_with_sidecar_raw_with_transactions_root(sidecar, root) {
        Ok(block) => block,
        Err(error) => return Received::Broken(Status::broken(error.to_string())),
    };
    block.header.extra_data = extra;
    let actual = block.header.hash_slow();
    if actual != hash {
        let why = format!("the block hash is {hash}, and the header has the hash {actual}");
        return Received::Broken(match by {
            By::First => Status::of_another_hash(why),
            By::Later => Status::broken(why),
        });
    }
    let withdrawals = block.body.withdrawals.map_or_else(Vec::new, |list| list.into_inner());
    let proposed = Proposed::new(hash, &block.header, block.body.transactions, withdrawals).with_list(list);
    let extra = block.header.extra_data.len();
    let entry = match blobs {
        Err(place) => Some(format!("transaction {place} is no blob transaction")),
        Ok(_) => {
            let checked = chain.service.check_payload(proposed.env(), proposed.txs());
            checked.err().map(|(place, why)| format!("transaction {place}: {why}"))
        }
    };
    let broken = match entry {
        Some(why) => Some(Broken::Entry(why.into())),
        None if extra > MAXIMUM_EXTRA_DATA_SIZE => {
            let why = format!("{extra} bytes of extra data are more than {MAXIMUM_EXTRA_DATA_SIZE}");
            Some(Broken::Header(why.into()))
        }
        None => None,
    };
    Received::Sound(Box::new(broken.into_iter().fold(proposed, Proposed::breaking)))
}

/// Hashes of the blobs of all transactions, in order.
///
/// # Errors
/// Place of the first transaction with the type of a blob transaction that is none.
fn blob_hashes(txs: &[Bytes]) -> Result<Vec<B256>, usize> {
    let mut hashes = Vec::new();
    for (place, tx) in txs.iter().enumerate().filter(|(_, tx)| is_blob(tx)) {
        let tx = TxEnvelope::decode_2718_exact(tx).map_err(|_| place)?;
        hashes.extend_from_slice(tx.blob_versioned_hashes().unwrap_or_default());
    }
    Ok(hashes)
}
