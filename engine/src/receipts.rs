//! Receipts in their consensus encoding, written straight from execution results.

use crate::trie;
use alloy_consensus::{Eip658Value, Receipt, ReceiptEnvelope, TxType};
use alloy_primitives::{B256, Bloom, BloomInput, Log};
use alloy_rlp::{BufMut, Encodable, Header};
use phalanx_access::prefetch;
use phalanx_paralyze::keccak256_many;
use revm::context_interface::result::ExecutionResult;

/// Receipts whose memory is asked for ahead.
const AHEAD: usize = 8;

/// What a receipt is made of, borrowed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReceiptRef<'a> {
    pub(crate) tx_type: u8,
    pub(crate) cumulative_gas_used: u64,
    pub(crate) result: &'a ExecutionResult,
}

impl ReceiptRef<'_> {
    /// The EIP-2718 encoding that the receipts trie holds.
    fn encode_2718(&self, bloom: &Bloom, out: &mut Vec<u8>) {
        if self.tx_type != 0 {
            out.put_u8(self.tx_type);
        }
        let success = self.result.is_success();
        let logs = self.result.logs();
        let logs_length: usize = logs.iter().map(Encodable::length).sum();
        let logs_header = Header { list: true, payload_length: logs_length };
        let payload_length =
            success.length() + self.cumulative_gas_used.length() + bloom.length() + logs_header.length_with_payload();
        Header { list: true, payload_length }.encode(out);
        success.encode(out);
        self.cumulative_gas_used.encode(out);
        bloom.encode(out);
        logs_header.encode(out);
        logs.iter().for_each(|log: &Log| log.encode(out));
    }

    /// The receipt as alloy's type, logs copied.
    pub(crate) fn to_envelope(self) -> ReceiptEnvelope {
        let receipt = Receipt {
            status: Eip658Value::Eip658(self.result.is_success()),
            cumulative_gas_used: self.cumulative_gas_used,
            logs: self.result.logs().to_vec(),
        }
        .with_bloom();
        match TxType::try_from(self.tx_type) {
            Ok(TxType::Eip2930) => ReceiptEnvelope::Eip2930(receipt),
            Ok(TxType::Eip1559) => ReceiptEnvelope::Eip1559(receipt),
            Ok(TxType::Eip4844) => ReceiptEnvelope::Eip4844(receipt),
            Ok(TxType::Eip7702) => ReceiptEnvelope::Eip7702(receipt),
            _ => ReceiptEnvelope::Legacy(receipt),
        }
    }
}

/// The bloom of each of some receipts. What logs of one contract have in common, its address and first topic, is hashed
/// once for as long as the same contracts keep logging.
struct Blooms {
    hashes: Vec<B256>,
    /// For each item of each log of each receipt, which hash it is.
    items: Vec<u32>,
    /// Where the items of each receipt end.
    ends: Vec<u32>,
}

impl Blooms {
    fn new(receipts: &[ReceiptRef<'_>]) -> Self {
        let mut inputs: Vec<&[u8]> = Vec::new();
        let (mut items, mut ends) = (Vec::new(), Vec::with_capacity(receipts.len()));
        let mut recent: [Option<(&[u8], u32)>; 8] = [None; 8];
        let mut oldest = 0;
        for (at, receipt) in receipts.iter().enumerate() {
            // Whoever ran the transaction has them in its cache: first the logs, then what they point to.
            if let Some(later) = receipts.get(at + 2 * AHEAD) {
                later.result.logs().first().into_iter().for_each(prefetch);
            }
            if let Some(later) = receipts.get(at + AHEAD) {
                for log in later.result.logs().iter().take(2) {
                    log.topics().iter().for_each(prefetch);
                    log.data.data.first().into_iter().for_each(prefetch);
                }
            }
            for log in receipt.result.logs() {
                let shared = [Some(log.address.as_slice()), log.topics().first().map(|topic| topic.as_slice())];
                for item in shared.into_iter().flatten() {
                    let known = recent.iter().flatten().find(|(held, _)| *held == item).map(|(_, input)| *input);
                    let input = known.unwrap_or_else(|| {
                        let input = inputs.len() as u32;
                        recent[oldest] = Some((item, input));
                        oldest = (oldest + 1) % recent.len();
                        inputs.push(item);
                        input
                    });
                    items.push(input);
                }
                for topic in log.topics().iter().skip(1) {
                    items.push(inputs.len() as u32);
                    inputs.push(topic.as_slice());
                }
            }
            ends.push(items.len() as u32);
        }
        let mut hashes = Vec::with_capacity(inputs.len());
        keccak256_many(inputs.into_iter(), &mut hashes);
        Self { hashes, items, ends }
    }

    fn iter(&self) -> impl Iterator<Item = Bloom> {
        let starts = core::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| {
            let mut bloom = Bloom::ZERO;
            let items = &self.items[start as usize..*end as usize];
            items.iter().for_each(|input| bloom.accrue(BloomInput::Hash(self.hashes[*input as usize])));
            bloom
        })
    }
}

/// Receipts that one task hashes.
pub(crate) const PIECE: usize = trie::GROUP;

/// Root of the receipts trie and bloom of all logs. Hashes in the current rayon pool; O(receipts + logs).
pub(crate) fn seal(receipts: &[ReceiptRef<'_>]) -> (B256, Bloom) {
    let (root, blooms) = trie::ordered_root(receipts.len(), |indices, items| {
        let receipts = &receipts[indices];
        let mut all = Bloom::ZERO;
        for (receipt, bloom) in receipts.iter().zip(Blooms::new(receipts).iter()) {
            all |= bloom;
            items.add(|out| receipt.encode_2718(&bloom, out));
        }
        all
    });
    (root, blooms.into_iter().fold(Bloom::ZERO, |a, b| a | b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_eips::Encodable2718;
    use alloy_primitives::{Address, Bytes};
    use revm::context_interface::result::{Output, ResultGas, SuccessReason};

    fn result(logs: usize) -> ExecutionResult {
        let log = |i: usize| {
            let topics = (0..i % 5).map(|t| B256::with_last_byte(t as u8)).collect();
            Log::new(Address::with_last_byte(i as u8), topics, vec![i as u8; i * 13].into())
                .expect("four topics at most")
        };
        if logs == 9 {
            return ExecutionResult::Revert { gas: ResultGas::default(), logs: vec![], output: Bytes::new() };
        }
        ExecutionResult::Success {
            reason: SuccessReason::Stop,
            gas: ResultGas::default(),
            logs: (0..logs).map(log).collect(),
            output: Output::Call(Bytes::new()),
        }
    }

    #[test]
    fn encoding_root_and_bloom_are_those_of_alloy() {
        for n in [0, 1, 2, 127, 128, 129, 255, 256, 257, 300, 511, 512, 513, 1000, 5000, 66_000] {
            let results: Vec<_> = (0..n.min(5000)).map(|i| result(i % 10)).collect();
            let receipts: Vec<_> = (0..n)
                .map(|i| ReceiptRef {
                    tx_type: (i % 5) as u8,
                    cumulative_gas_used: 21_000 * (i as u64 + 1),
                    result: &results[i % results.len()],
                })
                .collect();
            let envelopes: Vec<_> = receipts.iter().map(|r| r.to_envelope()).collect();
            for ((receipt, bloom), envelope) in
                receipts.iter().zip(Blooms::new(&receipts).iter()).zip(&envelopes).take(300)
            {
                let mut bytes = Vec::new();
                receipt.encode_2718(&bloom, &mut bytes);
                assert_eq!(bytes, envelope.encoded_2718());
            }
            let (root, bloom) = seal(&receipts);
            assert_eq!(root, alloy_consensus::proofs::calculate_receipt_root(&envelopes), "{n} receipts");
            assert_eq!(bloom, envelopes.iter().fold(Bloom::ZERO, |b, e| b | *e.logs_bloom()));
        }
    }
}
