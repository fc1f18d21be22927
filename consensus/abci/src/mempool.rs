//! Calls of the application's mempool, which CometBFT has had since v0.39 (`mempool.type = "app"`): CometBFT keeps no transactions,
//! asks for those of this node's pool, and hands over those of others.
//!
//! The calls are fields of the same messages as all others, and the types of v0.38 do not know them.

use crate::host::{Host, Refused};
use alloy_primitives::Bytes;
use prost::{Message, bytes};

/// Code of a transaction that CometBFT may hand over again later: the smallest of them. For every other code but 0 it never does.
const RETRY: u32 = 32_000;

/// Code of a transaction that no pool of this chain ever admits.
const REFUSED: u32 = 1;

/// A request with a call of the mempool.
#[derive(Clone, PartialEq, Message)]
pub struct MempoolRequest {
    /// A transaction of another validator.
    #[prost(message, optional, tag = "21")]
    pub insert_tx: Option<RequestInsertTx>,
    /// A question for this node's transactions.
    #[prost(message, optional, tag = "22")]
    pub reap_txs: Option<RequestReapTxs>,
}

/// A transaction of another validator.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct RequestInsertTx {
    /// The transaction.
    #[prost(bytes = "bytes", tag = "1")]
    pub tx: bytes::Bytes,
}

/// A question for transactions that others have not got.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct RequestReapTxs {
    /// Maximum size of the transactions, in bytes; 0 leaves it to the node.
    #[prost(uint64, tag = "1")]
    pub max_bytes: u64,
    /// Maximum gas of the transactions; 0 for none. It is not followed: blocks have a limit of their own.
    #[prost(uint64, tag = "2")]
    pub max_gas: u64,
}

/// A response to a call of the mempool.
#[derive(Clone, PartialEq, Message)]
pub struct MempoolResponse {
    /// Fate of a transaction.
    #[prost(message, optional, tag = "22")]
    pub insert_tx: Option<ResponseInsertTx>,
    /// Transactions of this node.
    #[prost(message, optional, tag = "23")]
    pub reap_txs: Option<ResponseReapTxs>,
}

/// Fate of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct ResponseInsertTx {
    /// 0 if the pool has it, 32,000 if it may take it later, 1 if never.
    #[prost(uint32, tag = "1")]
    pub code: u32,
}

/// Transactions for other validators.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ResponseReapTxs {
    /// The transactions.
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub txs: Vec<bytes::Bytes>,
}

impl MempoolRequest {
    /// Reads a request; `None` for one without a call of the mempool.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let request = Self::decode(bytes).ok()?;
        (request.insert_tx.is_some() || request.reap_txs.is_some()).then_some(request)
    }
}

/// Answers offers of other validators' transactions. A node without a chain takes them later.
pub(crate) fn insert(host: Option<&impl Host>, txs: &[Bytes]) -> Vec<MempoolResponse> {
    let Some(host) = host else { return txs.iter().map(|_| inserted(RETRY)).collect() };
    let code = |result| match result {
        Ok(()) => 0,
        Err(refused) => {
            tracing::debug!(%refused, "a transaction of another validator is refused");
            match refused {
                Refused::Final(_) => REFUSED,
                Refused::Passing(_) => RETRY,
            }
        }
    };
    host.insert(txs).into_iter().map(|result| inserted(code(result))).collect()
}

const fn inserted(code: u32) -> MempoolResponse {
    MempoolResponse { insert_tx: Some(ResponseInsertTx { code }), reap_txs: None }
}

/// Answers a call of the mempool. A node without a chain has no transactions.
pub(crate) fn answer(host: Option<&impl Host>, asked: MempoolRequest) -> MempoolResponse {
    let insert_tx = asked.insert_tx.and_then(|tx| insert(host, &[Bytes(tx.tx)]).pop()?.insert_tx);
    let reap_txs = asked.reap_txs.map(|reap| {
        let most = if reap.max_bytes == 0 { u64::MAX } else { reap.max_bytes };
        let txs = host.map(|host| host.reap(most)).unwrap_or_default();
        ResponseReapTxs { txs: txs.into_iter().map(|tx| tx.0).collect() }
    });
    MempoolResponse { insert_tx, reap_txs }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::Request;

    #[test]
    fn calls_are_the_fields_that_the_types_of_v0_38_lack() {
        // InsertTx with the bytes "tx", and ReapTxs of at most 5 bytes, as CometBFT v0.40 encodes them.
        let insert = [0xaa, 0x01, 0x04, 0x0a, 0x02, b't', b'x'];
        let reap = [0xb2, 0x01, 0x02, 0x08, 0x05];
        let read = |bytes: &[u8]| MempoolRequest::read(bytes).expect("a call of the mempool");
        assert_eq!(read(&insert).insert_tx.expect("a transaction").tx, &b"tx"[..]);
        assert_eq!(read(&reap).reap_txs, Some(RequestReapTxs { max_bytes: 5, max_gas: 0 }));
        assert_eq!(Request::decode(&insert[..]).expect("sound").value, None);
        let response = MempoolResponse { insert_tx: Some(ResponseInsertTx { code: 1 }), reap_txs: None };
        assert_eq!(response.encode_to_vec(), [0xb2, 0x01, 0x02, 0x08, 0x01]);
        let txs = vec![bytes::Bytes::from_static(b"a"), bytes::Bytes::from_static(b"bc")];
        let response = MempoolResponse { insert_tx: None, reap_txs: Some(ResponseReapTxs { txs }) };
        assert_eq!(response.encode_to_vec(), [0xba, 0x01, 0x07, 0x0a, 0x01, b'a', 0x0a, 0x02, b'b', b'c']);
        // An Echo is none, nor is an empty request, nor what cannot be read.
        for other in [&[0x0a, 0x00][..], &[], &[0xaa, 0x01, 0x09]] {
            assert_eq!(MempoolRequest::read(other), None);
        }
    }
}
