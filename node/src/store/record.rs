//! A block as the store keeps it: a head, and one entry per executed transaction.

use alloy_rlp::{Decodable as _, RlpDecodable, RlpEncodable};
use phalanx::{
    alloy::{
        consensus::Header,
        primitives::{Address, B256, Bytes, Log},
    },
    api::Payload,
};

/// Head of a stored block: everything but its executed transactions.
#[derive(Clone, Debug, PartialEq, Eq, RlpEncodable, RlpDecodable)]
pub struct Head {
    /// Hash of the header, which children and BLOCKHASH have.
    pub hash: B256,
    /// Name of the block's execution, by which consensus and the engine know the block before it runs.
    pub exec: B256,
    /// Header with the outcome.
    pub header: Header,
    /// Milliseconds since 1970, as consensus set them.
    pub timestamp_ms: u64,
    /// Attributes of the block beside its environment: [`phalanx::BlockAttributes`].
    pub attributes: Bytes,
    /// Access list of the block (EIP-7928), as RLP; empty if the engine made none.
    pub access_list: Bytes,
    /// Transactions of the payload that were skipped.
    pub skipped: Vec<Skipped>,
}

/// A transaction of a payload that was not executed: it has no receipt, and no place among the executed ones.
#[derive(Clone, Debug, PartialEq, Eq, RlpEncodable, RlpDecodable)]
pub struct Skipped {
    /// Position in the payload.
    pub position: u64,
    /// Bytes of the payload.
    pub bytes: Bytes,
}

/// An executed transaction with its receipt.
#[derive(Clone, Debug, PartialEq, Eq, RlpEncodable, RlpDecodable)]
pub struct Entry {
    /// EIP-2718 bytes.
    pub bytes: Bytes,
    /// Hash of the transaction.
    pub hash: B256,
    /// Sender of the transaction.
    pub sender: Address,
    /// True if the changes hold.
    pub succeeded: bool,
    /// Gas that the transaction used.
    pub gas_used: u64,
    /// Gas that the block used up to and with this transaction.
    pub cumulative_gas: u64,
    /// Number of logs of the block before this transaction's.
    pub first_log: u64,
    /// Address of the created contract; empty if none was created.
    pub created: Bytes,
    /// Logs, in order.
    pub logs: Vec<Log>,
}

#[cfg(test)]
impl Block {
    /// A block with a name at a height, and this many transactions of as many bytes.
    pub(crate) fn of(number: u64, name: B256, (txs, bytes): (usize, usize)) -> Self {
        let entry = Entry {
            bytes: Bytes::from(vec![0; bytes]),
            hash: B256::ZERO,
            sender: Address::ZERO,
            succeeded: true,
            gas_used: 21_000,
            cumulative_gas: 21_000,
            first_log: 0,
            created: Bytes::new(),
            logs: Vec::new(),
        };
        let head = Head {
            hash: name,
            exec: B256::ZERO,
            header: Header { number, ..Header::default() },
            timestamp_ms: 0,
            attributes: Bytes::new(),
            access_list: Bytes::new(),
            skipped: Vec::new(),
        };
        Self { head, entries: vec![entry; txs] }
    }
}

impl Entry {
    /// Address of the created contract.
    pub fn created(&self) -> Option<Address> {
        (self.created.len() == 20).then(|| Address::from_slice(&self.created))
    }
}

/// A whole stored block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Everything but the executed transactions.
    pub head: Head,
    /// Executed transactions, in order.
    pub entries: Vec<Entry>,
}

impl Block {
    /// Height of the block.
    pub const fn height(&self) -> u64 {
        self.head.header.number
    }

    /// Memory of the block, in bytes; about.
    pub(crate) fn memory(&self) -> usize {
        let log = |log: &Log| 128 + 32 * log.topics().len() + log.data.data.len();
        let entry = |entry: &Entry| 256 + entry.bytes.len() + entry.logs.iter().map(log).sum::<usize>();
        1_024 + self.entries.iter().map(entry).sum::<usize>()
    }

    /// Payload that the block was executed from, with the transactions that were skipped.
    pub fn payload(&self) -> Payload {
        let count = self.entries.len() + self.head.skipped.len();
        let (mut executed, mut skipped) = (self.entries.iter(), self.head.skipped.iter().peekable());
        let mut txs = Vec::with_capacity(count);
        for place in 0..count as u64 {
            let left_out = skipped.next_if(|skipped| skipped.position == place).map(|skipped| &skipped.bytes);
            txs.extend(left_out.or_else(|| executed.next().map(|entry| &entry.bytes)).cloned());
        }
        Payload::with_attributes(txs, self.head.attributes.clone())
    }
}

/// Decodes exactly one value.
pub(super) fn decode<T: alloy_rlp::Decodable>(mut bytes: &[u8]) -> Option<T> {
    let value = T::decode(&mut bytes).ok()?;
    bytes.is_empty().then_some(value)
}

/// Decodes the head of a stored block.
pub(super) fn decode_head(mut bytes: &[u8]) -> Option<Head> {
    let head = Head::decode(&mut bytes).ok()?;
    bytes.is_empty().then_some(head)
}
