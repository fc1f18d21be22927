//! Blocks and transactions as other nodes send them: a block has its content, and the result that it must have.

use crate::store::Block;
use alloy_consensus::{EthereumTxEnvelope, TxEip4844WithSidecar};
use alloy_eips::{Decodable2718 as _, eip7594::BlobTransactionSidecarVariant};
use core::{fmt, marker::PhantomData};
use phalanx::{
    alloy::primitives::{Address, B256, Bytes, U64, keccak256},
    api::{BlockEnv, Candidate, ExecId, Payload, TxPolicy},
};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{Error as _, SeqAccess, Visitor},
};
use serde_json::value::RawValue;
use std::sync::Arc;

/// Maximum number of blocks in an answer.
pub(crate) const MOST_BLOCKS: u64 = 64;

/// Maximum number of transactions that are read of a block, of 22 billion gas: empty ones take more memory than text.
const MOST_TXS: usize = 1 << 20;

/// First byte of a blob transaction.
const BLOB: u8 = 3;

/// A transaction as its sender has encoded it: blobs have proofs of their cells, or a proof each before Osaka.
type Sent = EthereumTxEnvelope<TxEip4844WithSidecar<BlobTransactionSidecarVariant>>;

/// True for bytes that are a blob transaction, if they are a transaction.
pub(crate) fn is_blob(tx: &[u8]) -> bool {
    tx.first() == Some(&BLOB)
}

/// Hash of a transaction as its sender has encoded it: a blob transaction comes with its blobs, and its hash is without them. `None`
/// for bytes with the type of a blob transaction that are none.
pub(crate) fn hash_of(tx: &[u8]) -> Option<B256> {
    if is_blob(tx) { Sent::decode_2718_exact(tx).ok().map(|tx| *tx.hash()) } else { Some(keccak256(tx)) }
}

/// A block with everything that its execution depends on but the parent. The name of the execution binds all of that, the chain id
/// included, and the hash binds the result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct RawBlock {
    pub(crate) number: U64,
    pub(crate) hash: B256,
    /// Name of the execution.
    pub(crate) execution: B256,
    pub(crate) parent_hash: B256,
    pub(crate) timestamp_ms: U64,
    pub(crate) prev_randao: B256,
    pub(crate) beneficiary: Address,
    pub(crate) gas_limit: U64,
    pub(crate) base_fee_per_gas: U64,
    /// Attributes beside the environment, such as withdrawals, in the engine's encoding.
    pub(crate) attributes: Bytes,
    /// Transactions of the payload, those that were skipped included.
    #[serde(deserialize_with = "few_txs")]
    pub(crate) transactions: Vec<Bytes>,
    /// The block access list that the header commits to, from Amsterdam on. The name of the execution does not bind it: it is a hint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) block_access_list: Option<Bytes>,
    pub(crate) state_root: B256,
    pub(crate) receipts_root: B256,
    pub(crate) gas_used: U64,
}

fn few_txs<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Bytes>, D::Error> {
    deserializer.deserialize_seq(Few(MOST_TXS, PhantomData))
}

/// Blocks of an answer, not parsed yet; at most [`MOST_BLOCKS`].
#[derive(Debug)]
pub(crate) struct RawBlocks<'a>(pub(crate) Vec<&'a RawValue>);

impl<'de: 'a, 'a> Deserialize<'de> for RawBlocks<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Few(MOST_BLOCKS as usize, PhantomData)).map(Self)
    }
}

/// A list of at most so many items: the first one beyond ends the parsing.
struct Few<T>(usize, PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Few<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of at most {} items", self.0)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Vec<T>, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            if list.len() == self.0 {
                return Err(A::Error::custom(format!("a list has more than {} items", self.0)));
            }
            list.push(item);
        }
        Ok(list)
    }
}

impl RawBlock {
    pub(crate) fn of(block: &Block) -> Self {
        let header = &block.head.header;
        let payload = block.payload();
        Self {
            number: U64::from(header.number),
            hash: block.head.hash,
            execution: block.head.exec,
            parent_hash: header.parent_hash,
            timestamp_ms: U64::from(block.head.timestamp_ms),
            prev_randao: header.mix_hash,
            beneficiary: header.beneficiary,
            gas_limit: U64::from(header.gas_limit),
            base_fee_per_gas: U64::from(header.base_fee_per_gas.unwrap_or_default()),
            attributes: payload.attributes().clone(),
            transactions: payload.txs().to_vec(),
            block_access_list: header.block_access_list_hash.map(|_| block.head.access_list.clone()),
            state_root: header.state_root,
            receipts_root: header.receipts_root,
            gas_used: U64::from(header.gas_used),
        }
    }

    /// The block of a chain, on a parent, that the execution's name is of; `None` if no block with this content has the name.
    pub(crate) fn candidate(&self, chain: u64, parent: ExecId) -> Option<Candidate> {
        let env = BlockEnv {
            height: self.number.to(),
            timestamp_ms: self.timestamp_ms.to(),
            prevrandao: self.prev_randao,
            beneficiary: self.beneficiary,
            gas_limit: self.gas_limit.to(),
            base_fee: self.base_fee_per_gas.to(),
        };
        let payload = Arc::new(Payload::with_attributes(self.transactions.clone(), self.attributes.clone()));
        // The name binds the policy as well.
        let by = |policy| Candidate::new(chain, parent, env, policy, Arc::clone(&payload));
        let named = [TxPolicy::Strict, TxPolicy::SkipInvalid]
            .into_iter()
            .map(by)
            .find(|found| found.id().0 == self.execution)?;
        Some(self.block_access_list.iter().cloned().fold(named, Candidate::with_hints))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_consensus::{SignableTransaction as _, TxEip4844};
    use alloy_eips::{Encodable2718 as _, eip4844::BlobTransactionSidecar, eip7594::BlobTransactionSidecarEip7594};
    use phalanx::alloy::primitives::Signature;

    #[test]
    fn a_blob_transaction_has_one_hash_whatever_its_proofs_are() {
        let (tx, signature) = (TxEip4844 { chain_id: 7, ..TxEip4844::default() }, Signature::test_signature());
        let hash = *tx.clone().into_signed(signature).hash();
        let sidecars = [
            BlobTransactionSidecarVariant::Eip4844(BlobTransactionSidecar::default()),
            BlobTransactionSidecarVariant::Eip7594(BlobTransactionSidecarEip7594::default()),
        ];
        for sidecar in sidecars {
            let with = TxEip4844WithSidecar { tx: tx.clone(), sidecar };
            let bytes = Sent::Eip4844(with.into_signed(signature)).encoded_2718();
            assert!(is_blob(&bytes));
            assert_eq!(hash_of(&bytes), Some(hash));
            assert_eq!(hash_of(&bytes[..bytes.len() - 1]), None);
        }
    }

    #[test]
    fn lists_end_at_their_maximum() {
        let blocks = |count: u64| format!("[{}]", vec!["{}"; count as usize].join(","));
        let (most, more) = (blocks(MOST_BLOCKS), blocks(MOST_BLOCKS + 1));
        assert_eq!(serde_json::from_str::<RawBlocks<'_>>(&most).expect("a list").0.len() as u64, MOST_BLOCKS);
        let why = serde_json::from_str::<RawBlocks<'_>>(&more).expect_err("too many").to_string();
        assert!(why.contains("more than 64"), "{why}");
        // The text behind the last item that is taken is not read.
        let open = format!("{},{{}},\"", &most[..most.len() - 1]);
        assert!(
            serde_json::from_str::<RawBlocks<'_>>(&open).expect_err("too many").to_string().contains("more than 64")
        );
    }
}
