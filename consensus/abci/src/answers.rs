//! Answers to CometBFT, out of the engine's results.

use crate::{
    host::Read,
    proto::{self, ExecTxResult},
};
use alloy_primitives::{B256, Bytes};
use phalanx_engine_api::{ExecOutcome, TxStatus};
use prost::bytes;

/// Version of the rules by which blocks become states. All validators need the same.
const APP_VERSION: u64 = 2;

/// Space of this application's codes.
const CODESPACE: &str = "phalanx";

/// Bytes beside a transaction in CometBFT's size of a block: a tag, and a length of at most four bytes.
const FRAMING: u64 = 5;

/// Size of the smallest transaction that has a signature, in bytes.
const SMALLEST: u64 = 96;

pub(crate) fn info(height: u64, state_root: &B256) -> proto::ResponseInfo {
    proto::ResponseInfo {
        data: "phalanx".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        app_version: APP_VERSION,
        last_block_height: height.try_into().unwrap_or(i64::MAX),
        // At height 0 CometBFT asks InitChain for the hash.
        last_block_app_hash: if height > 0 { shared(state_root) } else { bytes::Bytes::new() },
    }
}

pub(crate) fn begun(state_root: &B256) -> proto::ResponseInitChain {
    proto::ResponseInitChain { app_hash: shared(state_root), ..Default::default() }
}

pub(crate) fn check(checked: Result<(), String>) -> proto::ResponseCheckTx {
    match checked {
        Ok(()) => proto::ResponseCheckTx::default(),
        Err(log) => proto::ResponseCheckTx { code: 1, log, codespace: CODESPACE.into(), ..Default::default() },
    }
}

pub(crate) fn query(key: bytes::Bytes, read: Result<Read, String>) -> proto::ResponseQuery {
    use tendermint_proto::v0_38::crypto::{ProofOp, ProofOps};
    match read {
        Ok(Read { height, value, proof }) => {
            let op = |data: Bytes| ProofOp { r#type: "phalanx:state".into(), key: key.to_vec(), data: data.to_vec() };
            let proof_ops = proof.map(|proof| ProofOps { ops: vec![op(proof)] });
            let height = height.try_into().unwrap_or(i64::MAX);
            proto::ResponseQuery { key, value: value.0, proof_ops, height, ..Default::default() }
        }
        Err(log) => proto::ResponseQuery { code: 1, log, codespace: CODESPACE.into(), key, ..Default::default() },
    }
}

/// Results in CometBFT's header of the next block: its hash of them covers code and data. The data of the first one is the
/// digest of the whole outcome, under which every status, receipt and root can be proved.
pub(crate) fn finalized(outcome: &ExecOutcome) -> proto::ResponseFinalizeBlock {
    let digest = outcome.digest();
    let result = |(place, status): (usize, &TxStatus)| ExecTxResult {
        code: (*status as u8).into(),
        data: if place == 0 { shared(&digest) } else { bytes::Bytes::new() },
        ..ExecTxResult::default()
    };
    let tx_results = outcome.txs.iter().enumerate().map(result).collect();
    proto::ResponseFinalizeBlock { tx_results, app_hash: shared(&outcome.state_root), ..Default::default() }
}

/// Bytes of transactions that fit into CometBFT's room for them, however small they are.
pub(crate) const fn payload(room: u64) -> u64 {
    room - room.div_ceil(SMALLEST / FRAMING)
}

/// The first transactions that fit by CometBFT's own count: all of a block of [`payload`] bytes.
pub(crate) fn fitting(txs: &[Bytes], room: u64) -> Vec<bytes::Bytes> {
    let mut size = 0;
    let is_fit = |tx: &&Bytes| {
        size += tx.len() as u64 + FRAMING;
        size <= room
    };
    txs.iter().take_while(is_fit).map(|tx| tx.0.clone()).collect()
}

pub(crate) fn shared(hash: &B256) -> bytes::Bytes {
    bytes::Bytes::copy_from_slice(hash.as_slice())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_the_smallest_transactions_fit() {
        for room in [0, 1, 95, 96, 101, 102, 1_000, 22_020_096] {
            let most = payload(room) / SMALLEST;
            assert!(most * (SMALLEST + FRAMING) <= room, "{most} in {room}");
        }
        let txs = vec![Bytes::from(vec![0; 95]); 10];
        assert_eq!(fitting(&txs, 1_000).len(), 10);
        assert_eq!(fitting(&txs, 999).len(), 9);
        assert_eq!(fitting(&txs, 0).len(), 0);
    }
}
