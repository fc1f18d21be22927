//! Fields of a block that CometBFT fixes, out of its messages.

use crate::error::CallError;
use alloy_primitives::{Address, B256};
use phalanx_engine_api::ExecId;
use tendermint_proto::google::protobuf::Timestamp;

/// Fields of a block before its transactions. PrepareProposal knows them as well as FinalizeBlock, so that a block is the
/// same execution from its building on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Height of the block.
    pub height: u64,
    /// Milliseconds since 1970.
    pub timestamp_ms: u64,
    /// Validator that proposes the block: it gets the fees.
    pub proposer: Address,
    /// Randomness of the block, which its proposer can influence: Keccak-256 over height, time, proposer and parent.
    pub prevrandao: B256,
}

impl Header {
    /// Header of a block on a parent. The randomness follows from the other fields.
    #[must_use]
    pub fn of(height: u64, timestamp_ms: u64, proposer: Address, parent: ExecId) -> Self {
        let prevrandao = parent.randomness(height, timestamp_ms, proposer);
        Self { height, timestamp_ms, proposer, prevrandao }
    }

    /// Checks the fields of a call for the next block, whose parent is given.
    pub(crate) fn check(
        call: &'static str,
        (height, parent): (u64, ExecId),
        time: Option<Timestamp>,
        proposer: &[u8],
    ) -> Result<Self, CallError> {
        let malformed = |field| CallError::Malformed { call, field };
        let timestamp_ms = time.and_then(milliseconds).ok_or(malformed("time"))?;
        let proposer = Address::try_from(proposer).map_err(|_| malformed("proposer_address"))?;
        Ok(Self::of(height, timestamp_ms, proposer, parent))
    }
}

fn milliseconds(time: Timestamp) -> Option<u64> {
    let (seconds, nanos) = (u64::try_from(time.seconds).ok()?, u64::try_from(time.nanos).ok()?);
    seconds.checked_mul(1000)?.checked_add(Some(nanos / 1_000_000).filter(|ms| *ms < 1000)?)
}

/// Hash of a block in CometBFT.
pub(crate) fn hash(call: &'static str, bytes: &[u8]) -> Result<B256, CallError> {
    B256::try_from(bytes).map_err(|_| CallError::Malformed { call, field: "hash" })
}

/// Number at the end of a chain id, as in `phalanx-1337`.
pub(crate) fn chain_number(chain_id: &str) -> Option<u64> {
    let digits = chain_id.rsplit(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_chain_ids_are_checked() {
        let time = |seconds, nanos| milliseconds(Timestamp { seconds, nanos });
        assert_eq!(time(1, 2_999_999), Some(1_002));
        assert_eq!([time(-1, 0), time(1, -1), time(i64::MAX, 0), time(0, 1_000_000_000)], [None; 4]);
        assert_eq!(chain_number("phalanx-1337"), Some(1337));
        assert_eq!(["", "phalanx", "7-", "a99999999999999999999"].map(chain_number), [None; 4]);
    }

    #[test]
    fn every_field_counts_in_the_randomness() {
        let time = |seconds| Some(Timestamp { seconds, nanos: 0 });
        let of = |height, parent: u8, seconds, proposer: u8| {
            let parent = ExecId(B256::with_last_byte(parent));
            Header::check("test", (height, parent), time(seconds), &[proposer; 20]).expect("sound").prevrandao
        };
        let all = [of(1, 1, 1, 1), of(2, 1, 1, 1), of(1, 2, 1, 1), of(1, 1, 2, 1), of(1, 1, 1, 2)];
        for (place, one) in all.iter().enumerate() {
            assert!(all[place + 1..].iter().all(|other| other != one), "{place}");
        }
        assert!(Header::check("test", (1, ExecId::GENESIS), None, &[1; 20]).is_err());
        assert!(Header::check("test", (1, ExecId::GENESIS), time(1), &[1; 19]).is_err());
    }
}
