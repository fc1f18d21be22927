//! Metadata that a service stores beside the state: a tag with each block, a note with each tip.
//!
//! The row of a committed block, with the metadata of its commit, is in the note until a later block takes it into its
//! tag. So a note holds the rows of a few blocks, however long the history is, and every row is in the log once.
//!
//! Only this version writes and reads them, strictly: a first byte tells the two apart, numbers are big-endian and of
//! fixed width, and a length precedes bytes.

use crate::model::Error;
use alloy_consensus::Header;
use alloy_primitives::{B256, Bytes};
use phalanx_engine_api::{BlockId, CommitMeta, CommittedTip, ExecId, ExecOutcome, TxStatus};
use std::sync::Arc;

const NOTE: u8 = 3;
const TAG: u8 = 7;

/// Bytes of a transaction in a tag: its hash and its status.
const FATE: usize = 32 + 1;

/// Note of the chain's tip: the finalised height, and the committed blocks that no tag has.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Note {
    pub(super) finalised: u64,
    pub(super) committed: Vec<CommittedTip>,
}

/// Fields of a block that its child's fees follow from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fees {
    /// Seconds since 1970.
    pub(super) timestamp: u64,
    pub(super) gas_limit: u64,
    pub(super) gas_used: u64,
    pub(super) base_fee: u64,
    pub(super) excess_blob_gas: u64,
    pub(super) blob_gas_used: u64,
}

impl Fees {
    /// Fields of a genesis.
    pub(super) fn of_genesis(header: &Header) -> Self {
        Self {
            timestamp: header.timestamp,
            gas_limit: header.gas_limit,
            gas_used: header.gas_used,
            base_fee: header.base_fee_per_gas.unwrap_or_default(),
            excess_blob_gas: header.excess_blob_gas.unwrap_or_default(),
            blob_gas_used: header.blob_gas_used.unwrap_or_default(),
        }
    }
}

/// Tag of a block: its identity, its result, and the rows of ancestors.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Tag {
    /// Hash of the block, which its own state cannot hold.
    pub(super) hash: B256,
    pub(super) outcome: ExecOutcome,
    pub(super) fees: Fees,
    /// Highest ancestor whose row is in this tag or in an ancestor's.
    pub(super) covered: u64,
    pub(super) rows: Vec<CommittedTip>,
    /// Hashes of all transactions, for proofs after a restart.
    pub(super) hashes: Arc<[B256]>,
}

fn put_row(out: &mut Vec<u8>, CommittedTip { height, exec, state_root, meta }: &CommittedTip) {
    // Ancestors have rows of their own.
    let CommitMeta { block, ancestors: _, cursor, order_proof, state_certificate } = meta;
    out.extend_from_slice(&height.to_be_bytes());
    [exec.0, *state_root, block.0].iter().for_each(|hash| out.extend_from_slice(hash.as_slice()));
    out.extend_from_slice(&cursor.to_be_bytes());
    for bytes in [order_proof, state_certificate] {
        match bytes {
            None => out.push(0),
            Some(bytes) => {
                out.push(1);
                out.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
                out.extend_from_slice(bytes);
            }
        }
    }
}

impl Note {
    pub(super) fn write(&self) -> Vec<u8> {
        let mut out = vec![NOTE];
        out.extend_from_slice(&self.finalised.to_be_bytes());
        self.committed.iter().for_each(|row| put_row(&mut out, row));
        out
    }

    /// # Errors
    /// [`Error::Corrupt`] if the bytes are neither empty nor from [`Self::write`].
    pub(super) fn read(bytes: &[u8]) -> Result<Self, Error> {
        if bytes.is_empty() {
            return Ok(Self::default());
        }
        Self::parse(bytes).ok_or_else(|| Error::Corrupt { what: "the note of the committed block".into() })
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        (reader.byte()? == NOTE).then_some(())?;
        let mut note = Self { finalised: reader.u64()?, committed: Vec::new() };
        while !reader.0.is_empty() {
            note.committed.push(reader.row()?);
        }
        Some(note)
    }
}

impl Tag {
    pub(super) fn write(&self) -> Vec<u8> {
        let Self { hash, outcome, fees, covered, rows, hashes } = self;
        let ExecOutcome { id, state_root, receipts_root, transactions_root, gas_used, txs } = outcome;
        let Fees { timestamp, gas_limit, gas_used: _, base_fee, excess_blob_gas, blob_gas_used } = *fees;
        let mut out = vec![TAG];
        [*hash, id.0, *state_root, *receipts_root, *transactions_root]
            .iter()
            .for_each(|hash| out.extend_from_slice(hash.as_slice()));
        let fees = [timestamp, gas_limit, base_fee, excess_blob_gas, blob_gas_used];
        for number in [*gas_used].into_iter().chain(fees).chain([*covered, rows.len() as u64]) {
            out.extend_from_slice(&number.to_be_bytes());
        }
        rows.iter().for_each(|row| put_row(&mut out, row));
        for (hash, status) in hashes.iter().zip(txs.iter()) {
            out.extend_from_slice(hash.as_slice());
            out.push(*status as u8);
        }
        out
    }

    /// Returns `None` for bytes that are no tag.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        (reader.byte()? == TAG).then_some(())?;
        let (hash, id) = (reader.hash()?, ExecId(reader.hash()?));
        let (state_root, receipts_root) = (reader.hash()?, reader.hash()?);
        let transactions_root = reader.hash()?;
        let (gas_used, timestamp, gas_limit, base_fee) = (reader.u64()?, reader.u64()?, reader.u64()?, reader.u64()?);
        let (excess_blob_gas, blob_gas_used, covered) = (reader.u64()?, reader.u64()?, reader.u64()?);
        let rows = (0..reader.u64()?).map(|_| reader.row()).collect::<Option<_>>()?;
        let count = reader.0.len() / FATE;
        let (mut hashes, mut txs) = (Vec::with_capacity(count), Vec::with_capacity(count));
        while !reader.0.is_empty() {
            hashes.push(reader.hash()?);
            txs.push(TxStatus::from_number(reader.byte()?)?);
        }
        let outcome = ExecOutcome { id, state_root, receipts_root, transactions_root, gas_used, txs: txs.into() };
        let fees = Fees { timestamp, gas_limit, gas_used, base_fee, excess_blob_gas, blob_gas_used };
        Some(Self { hash, outcome, fees, covered, rows, hashes: hashes.into() })
    }
}

struct Reader<'b>(&'b [u8]);

impl Reader<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*array)
    }

    fn row(&mut self) -> Option<CommittedTip> {
        let (height, exec, state_root) = (self.u64()?, ExecId(self.hash()?), self.hash()?);
        let (block, cursor) = (BlockId(self.hash()?), self.u64()?);
        let (order_proof, state_certificate) = (self.bytes()?, self.bytes()?);
        let meta = CommitMeta { block, ancestors: Vec::new(), cursor, order_proof, state_certificate };
        Some(CommittedTip { height, exec, state_root, meta })
    }

    fn byte(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    fn hash(&mut self) -> Option<B256> {
        self.array().map(B256::new)
    }

    /// Reads optional bytes. The outer option is `None` if they cannot be read.
    fn bytes(&mut self) -> Option<Option<Bytes>> {
        match self.byte()? {
            0 => Some(None),
            1 => {
                let len = u32::from_be_bytes(self.array()?) as usize;
                let (bytes, rest) = self.0.split_at_checked(len)?;
                self.0 = rest;
                Some(Some(Bytes::copy_from_slice(bytes)))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note() -> Note {
        let row = |height: u64, proof: Option<&'static [u8]>| CommittedTip {
            height,
            exec: ExecId(B256::with_last_byte(1)),
            state_root: B256::with_last_byte(2),
            meta: CommitMeta {
                block: BlockId(B256::with_last_byte(3)),
                ancestors: Vec::new(),
                cursor: height + 9,
                order_proof: proof.map(Bytes::from_static),
                state_certificate: None,
            },
        };
        Note { finalised: 4, committed: vec![row(5, None), row(6, Some(b"proof")), row(7, Some(b""))] }
    }

    #[test]
    fn what_was_written_is_read_and_nothing_else() {
        let (note, bytes) = (note(), note().write());
        assert_eq!(Note::read(&bytes).expect("a note"), note);
        assert_eq!(Note::read(&[]).expect("none"), Note::default());
        let whole = |cut: usize| note.committed.len() > Note::parse(&bytes[..cut]).map_or(9, |n| n.committed.len());
        // A cut between two rows is a shorter note; no half of a row is read.
        let readable = (1..bytes.len()).filter(|cut| Note::read(&bytes[..*cut]).is_ok());
        assert!(readable.inspect(|cut| assert!(whole(*cut), "{cut}")).count() == note.committed.len());
        assert!(Note::read(&[&[9], &bytes[1..]].concat()).is_err());

        let (id, hash) = (ExecId(B256::with_last_byte(1)), B256::with_last_byte(7));
        let txs = [TxStatus::Reverted, TxStatus::Succeeded, TxStatus::Skipped].into();
        let fees = Fees { timestamp: 2, gas_limit: 9, gas_used: 1, base_fee: 3, excess_blob_gas: 4, blob_gas_used: 5 };
        let outcome =
            ExecOutcome { id, state_root: hash, receipts_root: hash, transactions_root: hash, gas_used: 1, txs };
        let hashes = [hash, hash, id.0].into();
        let tag = Tag { hash: B256::with_last_byte(8), outcome, fees, covered: 6, rows: note.committed, hashes };
        let bytes = tag.write();
        assert_eq!(Tag::read(&bytes), Some(tag));
        assert_eq!(Tag::read(&[&bytes[..], &[3]].concat()), None);
        // A cut between two transactions is a shorter tag.
        let end = bytes.len() - 3 * FATE;
        let whole = |cut: usize| cut >= end && (cut - end).is_multiple_of(FATE);
        (0..bytes.len()).for_each(|cut| assert_eq!(Tag::read(&bytes[..cut]).is_some(), whole(cut), "cut at {cut}"));
        let mut vast = bytes;
        vast[217..225].fill(0xff);
        assert_eq!(Tag::read(&vast), None, "more rows than there are bytes");
        assert_eq!(Tag::read(b"another program's"), None);
    }
}
