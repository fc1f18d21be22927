//! Messages between clients and replicas.

use crate::snapshot::Snapshot;
use alloy_primitives::{Address, B256, Bytes};
use alloy_rlp::{BufMut, Decodable, Encodable, Error, RlpDecodable, RlpEncodable};
use phalanx_engine_api::{BlockEnv, BlockId, BlockResult, TxStatus};
use phalanx_host::{Boundary, Retained};

/// Maximum length of a request, in bytes.
pub(crate) const MOST_REQUEST: usize = 4 << 20;
/// Maximum length of a reply, in bytes: a notice has 33 bytes per transaction.
pub(crate) const MOST_REPLY: usize = 64 << 20;

/// A message of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Transactions to order, encoded as EIP-2718 says.
    Submit(Vec<Bytes>),
    /// Send a notice for every committed block from this height on.
    Follow(u64),
    /// Acknowledge the transactions with these hashes in a single message each, of protocols that form certificates of states.
    Await(Vec<B256>),
    /// Send the snapshots that a replica may go on from.
    Snapshots,
    /// Send a chunk of the snapshot at a height: the height, and the number of the chunk.
    Chunk(u64, u32),
    /// Send the proof of where the epoch with this number begins.
    Epoch(u64),
}

#[derive(RlpEncodable, RlpDecodable)]
struct ChunkOf {
    height: u64,
    number: u32,
}

/// A message of a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "nearly every reply is a notice")]
pub enum Reply {
    /// A block is committed.
    Block(Notice),
    /// Blocks below this height are not retained: notices go on there.
    Pruned(u64),
    /// A transaction that was awaited, with a proof that needs no other message.
    Acknowledged(Acknowledgement),
    /// Snapshots of states, oldest first, that their receiver checks.
    Snapshots(Vec<Snapshot>),
    /// A chunk of a snapshot; empty if there is none, or none now.
    Chunk(Bytes),
    /// The block that an epoch begins above, which its receiver checks; empty if it is not known.
    Epoch(Vec<Boundary>),
}

/// A single message that a client believes: see `verify_acknowledgement` of `phalanx-merkle-proof`.
#[derive(Clone, Debug, PartialEq, Eq, RlpEncodable, RlpDecodable)]
pub struct Acknowledgement {
    /// Hash of the transaction.
    pub tx: B256,
    /// The message.
    pub bytes: Bytes,
}

/// Notice of a committed block: f+1 equal ones prove it.
#[derive(Clone, Debug, PartialEq, Eq, RlpEncodable, RlpDecodable)]
pub struct Notice {
    /// Height of the block.
    pub height: u64,
    /// Name of the block.
    pub block: B256,
    /// Time of the block, in milliseconds since 1970.
    pub timestamp_ms: u64,
    /// Randomness of the block.
    pub prevrandao: B256,
    /// Receiver of the fees.
    pub beneficiary: Address,
    /// Gas that the block may use.
    pub gas_limit: u64,
    /// Wei per gas that is burnt.
    pub base_fee: u64,
    /// Execution of the block.
    pub execution: B256,
    /// State root after the block.
    pub state_root: B256,
    /// Receipts root of the block.
    pub receipts_root: B256,
    /// Root of transactions and statuses.
    pub transactions_root: B256,
    /// Gas used.
    pub gas_used: u64,
    /// Replica that leads at the time of the notice. A hint: nothing proves it.
    pub leader: u16,
    /// Way to the decision: 1 for the fast path, 2 for the slow one, 0 if it is unknown or the protocol has one way. A hint as well.
    pub path: u8,
    /// Keccak-256 of each transaction, in order.
    pub txs: Vec<B256>,
    /// A status per transaction, as [`TxStatus`] numbers them. Empty for a block from before the replica's start.
    pub statuses: Bytes,
}

impl Notice {
    /// The notice of a retained block.
    pub(crate) fn new(block: &Retained, statuses: &[TxStatus], leader: u16, path: u8) -> Self {
        let BlockResult { execution, state_root, receipts_root, transactions_root, gas_used } = block.result;
        Self {
            height: block.meta.height,
            block: block.meta.id.0,
            timestamp_ms: block.env.timestamp_ms,
            prevrandao: block.env.prevrandao,
            beneficiary: block.env.beneficiary,
            gas_limit: block.env.gas_limit,
            base_fee: block.env.base_fee,
            execution: B256::new(execution),
            state_root: B256::new(state_root),
            receipts_root: B256::new(receipts_root),
            transactions_root: B256::new(transactions_root),
            gas_used,
            leader,
            path,
            txs: block.payload.txs().iter().map(|tx| phalanx_engine_api::transaction_hash(tx)).collect(),
            statuses: statuses.iter().map(|status| *status as u8).collect(),
        }
    }

    /// Digest that replicas vote on.
    #[must_use]
    pub fn digest(&self) -> B256 {
        B256::new(self.result().digest())
    }

    /// Result of the block.
    pub(crate) const fn result(&self) -> BlockResult {
        BlockResult {
            execution: self.execution.0,
            state_root: self.state_root.0,
            receipts_root: self.receipts_root.0,
            transactions_root: self.transactions_root.0,
            gas_used: self.gas_used,
        }
    }

    /// Environment of the block.
    #[must_use]
    pub const fn env(&self) -> BlockEnv {
        BlockEnv {
            height: self.height,
            timestamp_ms: self.timestamp_ms,
            prevrandao: self.prevrandao,
            beneficiary: self.beneficiary,
            gas_limit: self.gas_limit,
            base_fee: self.base_fee,
        }
    }

    /// Name of the block.
    #[must_use]
    pub const fn id(&self) -> BlockId {
        BlockId(self.block)
    }

    /// Statuses in order, if they are known and lead to the transactions root.
    #[must_use]
    pub fn checked_statuses(&self) -> Option<Vec<TxStatus>> {
        let statuses: Option<Vec<TxStatus>> =
            self.statuses.iter().map(|number| TxStatus::from_number(*number)).collect();
        let statuses = statuses.filter(|statuses| statuses.len() == self.txs.len())?;
        (phalanx_engine_api::transactions_root(&self.txs, &statuses) == self.transactions_root).then_some(statuses)
    }
}

impl Encodable for Request {
    fn encode(&self, out: &mut dyn BufMut) {
        let chunk;
        let (kind, body): (u8, &dyn Encodable) = match self {
            Self::Submit(txs) => (1, txs),
            Self::Follow(from) => (2, from),
            Self::Await(txs) => (3, txs),
            Self::Snapshots => (4, &0_u8),
            Self::Chunk(height, number) => {
                chunk = ChunkOf { height: *height, number: *number };
                (5, &chunk)
            }
            Self::Epoch(epoch) => (6, epoch),
        };
        out.put_u8(kind);
        body.encode(out);
    }
}

impl Decodable for Request {
    fn decode(bytes: &mut &[u8]) -> alloy_rlp::Result<Self> {
        let (kind, rest) = bytes.split_first().ok_or(Error::InputTooShort)?;
        *bytes = rest;
        Ok(match kind {
            1 => Self::Submit(Decodable::decode(bytes)?),
            2 => Self::Follow(Decodable::decode(bytes)?),
            3 => Self::Await(Decodable::decode(bytes)?),
            4 if u8::decode(bytes)? == 0 => Self::Snapshots,
            5 => {
                let ChunkOf { height, number } = Decodable::decode(bytes)?;
                Self::Chunk(height, number)
            }
            6 => Self::Epoch(Decodable::decode(bytes)?),
            _ => return Err(Error::Custom("unknown kind of request")),
        })
    }
}

impl Encodable for Reply {
    fn encode(&self, out: &mut dyn BufMut) {
        let (kind, body): (u8, &dyn Encodable) = match self {
            Self::Block(notice) => (1, notice),
            Self::Pruned(from) => (2, from),
            Self::Acknowledged(of) => (3, of),
            Self::Snapshots(all) => (4, all),
            Self::Chunk(chunk) => (5, chunk),
            Self::Epoch(found) => (6, found),
        };
        out.put_u8(kind);
        body.encode(out);
    }
}

impl Decodable for Reply {
    fn decode(bytes: &mut &[u8]) -> alloy_rlp::Result<Self> {
        let (kind, rest) = bytes.split_first().ok_or(Error::InputTooShort)?;
        *bytes = rest;
        Ok(match kind {
            1 => Self::Block(Decodable::decode(bytes)?),
            2 => Self::Pruned(Decodable::decode(bytes)?),
            3 => Self::Acknowledged(Decodable::decode(bytes)?),
            4 => Self::Snapshots(Decodable::decode(bytes)?),
            5 => Self::Chunk(Decodable::decode(bytes)?),
            6 => Self::Epoch(Decodable::decode(bytes)?),
            _ => return Err(Error::Custom("unknown kind of reply")),
        })
    }
}
