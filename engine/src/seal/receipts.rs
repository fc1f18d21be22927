//! Receipts in their consensus encoding, written straight from execution results.

use crate::{
    model::{Outcome, prefetch_contents, prefetch_logs},
    trie::{self, rlp},
};
use alloy_consensus::{Eip658Value, Receipt, ReceiptEnvelope, TxType};
use alloy_primitives::{B256, Bloom, BloomInput, Bytes, Log, logs_bloom};
use core::ops::Range;
use phalanx_hash_lanes::keccak256_many;
use phalanx_memory::prefetch_ahead;
use rayon::prelude::*;
use revm::context_interface::result::ExecutionResult;

/// Distance between the stages of prefetching in the loop over the logs of receipts, in receipts.
const LOG_LOOKAHEAD: usize = 8;

/// Parts of a receipt, borrowed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReceiptRef<'a> {
    pub(crate) tx_type: u8,
    pub(crate) cumulative_gas_used: u64,
    pub(crate) result: &'a ExecutionResult,
}

/// Lengths of the parts of an encoded receipt, in bytes.
#[derive(Clone, Copy, Debug)]
struct Lengths {
    logs: usize,
    payload: usize,
    /// Length of the whole.
    total: usize,
}

/// Length of a bloom as a string.
const BLOOM: usize = 3 + 256;

impl ReceiptRef<'_> {
    fn lengths(&self) -> Lengths {
        let logs = self.result.logs().iter().map(|log| rlp::length(log_length(log))).sum();
        let payload = 1 + rlp::number_length(self.cumulative_gas_used) + BLOOM + rlp::length(logs);
        Lengths { logs, payload, total: usize::from(self.tx_type != 0) + rlp::length(payload) }
    }

    /// Encodes the receipt as the receipts trie holds it (EIP-2718).
    fn encode_2718(&self, lengths: Lengths, bloom: &Bloom, out: &mut Vec<u8>) {
        out.reserve(lengths.total);
        if self.tx_type != 0 {
            out.push(self.tx_type);
        }
        rlp::list(lengths.payload, out);
        rlp::number(self.result.is_success().into(), out);
        rlp::number(self.cumulative_gas_used, out);
        out.extend_from_slice(&[0xb9, 1, 0]);
        out.extend_from_slice(bloom.as_slice());
        rlp::list(lengths.logs, out);
        for log in self.result.logs() {
            rlp::list(log_length(log), out);
            rlp::fixed(log.address.as_ref(), out);
            rlp::list(TOPIC * log.topics().len(), out);
            log.topics().iter().for_each(|topic| rlp::fixed(&topic.0, out));
            rlp::string(&log.data.data, out);
        }
    }

    /// Returns the receipt as the receipts trie holds it. O(logs).
    pub(crate) fn encoded(self) -> Bytes {
        let mut out = Vec::new();
        self.encode_2718(self.lengths(), &logs_bloom(self.result.logs()), &mut out);
        out.into()
    }

    /// Converts to alloy's type, with copied logs.
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

/// Length of a topic as a string.
const TOPIC: usize = 1 + 32;

/// Length of a log's address, topics and data, in bytes.
fn log_length(log: &Log) -> usize {
    1 + 20 + rlp::length(TOPIC * log.topics().len()) + rlp::string_length(&log.data.data)
}

/// Blooms of several receipts. The address and the first topic are hashed once for as long as the same contracts keep
/// logging.
struct Blooms {
    hashes: Vec<B256>,
    /// Index of the hash of each item of each log of each receipt.
    items: Vec<u32>,
    /// End of the items of each receipt.
    ends: Vec<u32>,
}

impl Blooms {
    fn new(receipts: &[ReceiptRef<'_>]) -> Self {
        let mut inputs: Vec<&[u8]> = Vec::new();
        let (mut items, mut ends) = (Vec::new(), Vec::with_capacity(receipts.len()));
        let mut recent: [Option<(&[u8], u32)>; 8] = [None; 8];
        let mut oldest = 0;
        for (at, receipt) in receipts.iter().enumerate() {
            // The receipts are in the caches of the cores that ran them: prefetch first the logs, then their contents.
            prefetch_ahead(receipts, at, 2 * LOG_LOOKAHEAD, |later| prefetch_logs(later.result.logs()));
            prefetch_ahead(receipts, at, LOG_LOOKAHEAD, |later| prefetch_contents(later.result.logs()));
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

    /// Items of each receipt.
    fn iter(&self) -> impl Iterator<Item = &[u32]> {
        let starts = core::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.items[start as usize..*end as usize])
    }

    fn bloom(&self, items: &[u32]) -> Bloom {
        let mut bloom = Bloom::ZERO;
        items.iter().for_each(|input| bloom.accrue(BloomInput::Hash(self.hashes[*input as usize])));
        bloom
    }
}

/// Receipts of the executed transactions of a block.
#[derive(Debug)]
pub(crate) struct Receipts<'a> {
    outcomes: &'a [Outcome],
    tx_types: &'a [u8],
    /// Positions of the executed transactions, if some were skipped.
    ran: Option<Vec<u32>>,
    /// Gas used before every chunk of receipts, and by all.
    used: Vec<u64>,
}

/// Receipts per sum of gas, so that a chunk knows the gas used before it.
const PIECE: usize = trie::PIECE;

/// Minimum number of outcomes that several threads sum up: another thread is not called sooner.
const WORTH_SHARING: usize = 64 * PIECE;

impl<'a> Receipts<'a> {
    /// Collects the receipts of a block's outcomes, in order, with the types of their transactions. O(outcomes).
    pub(crate) fn new(outcomes: &'a [Outcome], tx_types: &'a [u8]) -> Self {
        Self::with_sums(outcomes, tx_types, outcomes.chunks(PIECE).map(sum).collect())
    }

    /// Collects like [`Self::new`], with all threads of the current rayon pool if that pays.
    pub(crate) fn new_shared(outcomes: &'a [Outcome], tx_types: &'a [u8]) -> Self {
        if outcomes.len() < WORTH_SHARING {
            return Self::new(outcomes, tx_types);
        }
        let pieces = outcomes.par_chunks(PIECE).with_max_len(WORTH_SHARING / PIECE);
        Self::with_sums(outcomes, tx_types, pieces.map(sum).collect())
    }

    fn with_sums(outcomes: &'a [Outcome], tx_types: &'a [u8], sums: Vec<(u64, usize)>) -> Self {
        if sums.iter().map(|(_, ran)| ran).sum::<usize>() == outcomes.len() {
            let used = running_sums(sums.into_iter().map(|(gas, _)| gas));
            return Self { outcomes, tx_types, ran: None, used };
        }
        let ran = (0..).zip(outcomes).filter(|(_, outcome)| outcome.result().is_some()).map(|(at, _)| at);
        let ran: Vec<u32> = ran.collect();
        let of =
            |piece: &[u32]| piece.iter().fold(0, |gas: u64, at| gas.saturating_add(outcomes[*at as usize].gas_used()));
        let used = running_sums(ran.chunks(PIECE).map(of));
        Self { outcomes, tx_types, ran: Some(ran), used }
    }

    /// Number of receipts.
    pub(crate) fn len(&self) -> usize {
        self.ran.as_ref().map_or(self.outcomes.len(), Vec::len)
    }

    /// Gas used by all.
    pub(crate) fn gas_used(&self) -> u64 {
        self.used.last().copied().unwrap_or_default()
    }

    /// Receipts in the given range, which begins at the first of a chunk.
    pub(crate) fn of(&self, indices: Range<usize>) -> impl Iterator<Item = ReceiptRef<'a>> {
        debug_assert!(indices.is_empty() || indices.start.is_multiple_of(PIECE), "sums are known where pieces begin");
        let mut cumulative_gas_used = self.used[indices.start / PIECE];
        indices.filter_map(move |index| {
            let at = self.ran.as_ref().map_or(index, |ran| ran[index] as usize);
            let result = self.outcomes[at].result()?;
            cumulative_gas_used = cumulative_gas_used.saturating_add(self.outcomes[at].gas_used());
            Some(ReceiptRef { tx_type: self.tx_types[at], cumulative_gas_used, result })
        })
    }

    /// Root of the receipts trie and bloom of all logs. Hashes in the current rayon pool; O(receipts + logs).
    pub(crate) fn seal(&self) -> (B256, Bloom) {
        let (root, blooms) = trie::ordered_root(self.len(), |indices, leaves| {
            let receipts: Vec<_> = self.of(indices).collect();
            let blooms = Blooms::new(&receipts);
            let mut all = Bloom::ZERO;
            for (receipt, items) in receipts.iter().zip(blooms.iter()) {
                let mut bloom = &Bloom::ZERO;
                let of_logs;
                if !items.is_empty() {
                    of_logs = blooms.bloom(items);
                    bloom = &of_logs;
                    all |= of_logs;
                }
                let lengths = receipt.lengths();
                leaves.add(lengths.total, |out| receipt.encode_2718(lengths, bloom, out));
            }
            all
        });
        (root, blooms.into_iter().fold(Bloom::ZERO, |a, b| a | b))
    }
}

/// Gas used by some transactions, and the number of executed ones.
fn sum(outcomes: &[Outcome]) -> (u64, usize) {
    outcomes.iter().fold((0, 0), |(gas, ran), outcome| {
        (gas.saturating_add(outcome.gas_used()), ran + usize::from(outcome.result().is_some()))
    })
}

/// Sum before each of some summands, and of all.
fn running_sums(summands: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut sums = vec![0u64];
    for summand in summands {
        sums.push(sums.last().map_or(summand, |sum| sum.saturating_add(summand)));
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_eips::Encodable2718;
    use alloy_primitives::Address;
    use revm::context_interface::result::{Output, ResultGas, SuccessReason};

    fn used(gas: u64) -> ResultGas {
        ResultGas::default().with_total_gas_spent(gas)
    }

    fn result(logs: usize) -> ExecutionResult {
        let log = |i: usize| {
            let topics = (0..i % 5).map(|t| B256::with_last_byte(t as u8)).collect();
            Log::new(Address::with_last_byte(i as u8), topics, vec![i as u8; i * 13].into())
                .expect("four topics at most")
        };
        if logs == 9 {
            return ExecutionResult::Revert { gas: used(7), logs: vec![], output: Bytes::new() };
        }
        ExecutionResult::Success {
            reason: SuccessReason::Stop,
            gas: used(21_000 + logs as u64),
            logs: (0..logs).map(log).collect(),
            output: Output::Call(Bytes::new()),
        }
    }

    /// Outcomes of `n` transactions, of which every `skips`th was skipped.
    fn outcomes(n: usize, skips: usize) -> (Vec<Outcome>, Vec<u8>) {
        let results: Vec<_> = (0..n.min(5000)).map(|at| result(at % 10)).collect();
        let outcome = |at: usize| match (at + 1).is_multiple_of(skips) {
            true => Outcome::Skipped("no reason".into()),
            false => Outcome::Executed(results[at % results.len()].clone()),
        };
        ((0..n).map(outcome).collect(), (0..n).map(|at| (at % 5) as u8).collect())
    }

    #[test]
    fn encoding_root_and_bloom_are_those_of_alloy() {
        let sizes = [0, 1, 2, 3, 15, 16, 17, 18, 33, 127, 128, 129, 130, 145, 255, 256, 257, 258, 272, 273, 300];
        let larger = [511, 512, 513, 1000, 2304, 2305, 2320, 2321, 4352, 5000, 66_000];
        for (n, skips) in sizes.into_iter().chain(larger).flat_map(|n| [(n, usize::MAX), (n, 3)]) {
            let (outcomes, types) = outcomes(n, skips);
            let receipts = Receipts::new_shared(&outcomes, &types);
            let mut gas = 0;
            let mut expected = Vec::new();
            for (outcome, tx_type) in outcomes.iter().zip(&types) {
                gas += outcome.gas_used();
                let Some(result) = outcome.result() else { continue };
                expected.push(ReceiptRef { tx_type: *tx_type, cumulative_gas_used: gas, result }.to_envelope());
            }
            assert_eq!((receipts.len(), receipts.gas_used()), (expected.len(), gas));
            let all: Vec<_> = receipts.of(0..receipts.len()).collect();
            assert!(all.iter().map(|receipt| receipt.to_envelope()).eq(expected.iter().cloned()));
            let blooms = Blooms::new(&all);
            for ((receipt, items), envelope) in all.iter().zip(blooms.iter()).zip(&expected).take(300) {
                let (mut bytes, lengths) = (Vec::new(), receipt.lengths());
                receipt.encode_2718(lengths, &blooms.bloom(items), &mut bytes);
                assert_eq!(bytes, envelope.encoded_2718());
                assert_eq!(bytes.len(), lengths.total);
            }
            let (root, bloom) = receipts.seal();
            assert_eq!(root, alloy_consensus::proofs::calculate_receipt_root(&expected), "{n}, {skips}");
            assert_eq!(bloom, expected.iter().fold(Bloom::ZERO, |b, e| b | *e.logs_bloom()));
        }
    }
}
